//! Operations on conversations: fork, revert, unrevert, compact, todo --set. Each is seen by every command afterwards, and can be taken back.

use std::collections::BTreeMap;

use rusqlite::Connection;
use serde_json::Value;

use super::kit::{Ran, User, write};
use super::operations::{KINDS, Kind, bytes, differences, listed, row, user};

const FIRST: &str = "ses_36aaaaffe1";

/// Where sessions are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Home(Kind),
    /// OpenCode has deleted its home.
    StoreAlone,
}

fn places() -> Vec<Place> {
    KINDS.map(Place::Home).into_iter().chain([Place::StoreAlone]).collect()
}

fn user_at(place: Place) -> User {
    match place {
        Place::Home(kind) => user(kind),
        Place::StoreAlone => {
            let user = user(Kind::Directory);
            let _ = user.annals(&["sync", "--full"]).run().ok();
            let _ = user.annals(&["search", "door"]).run().ok();
            std::fs::remove_dir_all(user.opencode()).unwrap();
            user
        }
    }
}

/// Everything there is: the bytes of the homes, the list, and every session as it is exported.
#[derive(Debug, PartialEq)]
pub(super) struct Everything {
    pub(super) bytes: BTreeMap<String, Vec<u8>>,
    list: Vec<Value>,
    exports: Vec<String>,
}

pub(super) fn everything(user: &User) -> Everything {
    let list = listed(user, &[]);
    let id = |row: &Value| row["id"].as_str().unwrap().to_owned();
    let exports =
        list.iter().map(|row| user.annals(&["export", &id(row), "--format", "jsonl"]).run().ok().text());
    Everything { exports: exports.collect(), bytes: bytes(user), list }
}

impl Everything {
    #[track_caller]
    pub(super) fn expect(&self, user: &User, what: &str) {
        let now = everything(user);
        assert!(now.bytes == self.bytes, "{what}: {:?}", differences(&self.bytes, &now.bytes));
        assert_eq!(now.list, self.list, "{what}");
        assert_eq!(now.exports, self.exports, "{what}");
    }
}

pub(super) fn exported(user: &User, id: &str) -> Value {
    user.annals(&["export", id]).run().ok().json()
}

fn texts(exported: &Value) -> Vec<String> {
    let messages = exported["messages"].as_array().unwrap().iter();
    let parts = messages.flat_map(|message| message["parts"].as_array().unwrap());
    parts.filter_map(|part| part["text"].as_str().map(str::to_owned)).collect()
}

fn hits(user: &User, word: &str, id: &str) -> usize {
    let hits = user.annals(&["search", word, "--json"]).run().ok().json();
    hits.as_array().unwrap().iter().filter(|hit| hit["sessionID"] == id).count()
}

pub(super) fn operation(user: &User) -> String {
    user.annals(&["log", "--json", "-n", "1"]).run().ok().json()[0]["operation"].to_string()
}

/// Takes the last operation back, does it again, and takes it back again. Everything is as before, as after, and as before.
#[track_caller]
fn undo_and_redo(user: &User, what: &str, before: &Everything) {
    let after = everything(user);
    assert_ne!(*before, after, "{what} changed nothing");
    let _ = user.annals(&["undo"]).run().ok();
    before.expect(user, &format!("{what}, undone"));
    let _ = user.annals(&["undo", &operation(user)]).run().ok();
    after.expect(user, &format!("{what}, done again"));
    let _ = user.annals(&["undo", &operation(user)]).run().ok();
    before.expect(user, &format!("{what}, undone again"));
}

#[test]
fn a_fork_is_a_session_of_its_own() {
    for place in places() {
        let user = user_at(place);
        let before = everything(&user);
        let forked = user.annals(&["fork", FIRST, "--json"]).run().ok().json();
        let fork = forked["id"].as_str().unwrap().to_owned();
        assert_eq!((&forked["originID"], &forked["messages"]), (&FIRST.into(), &2.into()), "{place:?}");
        let listed = row(&user, &fork);
        assert_eq!(listed["title"], "First door (fork #1)", "{place:?}");
        assert_eq!((&listed["messages"], &listed["parentID"]), (&2.into(), &Value::Null), "{place:?}");
        let shown = user.annals(&["show", &fork]).run().ok().text();
        assert!(
            shown.contains("Where is the door") && shown.contains("The door is here"),
            "{place:?}: {shown}"
        );
        assert_eq!(
            (hits(&user, "\"door is here\"", &fork), hits(&user, "\"door is here\"", FIRST)),
            (1, 1),
            "{place:?}"
        );
        let (original, copy) = (exported(&user, FIRST), exported(&user, &fork));
        assert_eq!(texts(&original), texts(&copy), "{place:?}");
        for (original, copy) in
            original["messages"].as_array().unwrap().iter().zip(copy["messages"].as_array().unwrap())
        {
            assert_eq!(original["info"]["time"], copy["info"]["time"], "{place:?}");
            assert_ne!(original["info"]["id"], copy["info"]["id"], "{place:?}");
            assert_eq!(
                (&copy["info"]["sessionID"], &copy["parts"][0]["messageID"]),
                (&fork.clone().into(), &copy["info"]["id"])
            );
        }
        // What belongs to the session alone does not go along.
        assert_eq!(user.annals(&["todo", &fork, "--json"]).run().ok().json()["todos"], serde_json::json!([]));
        // The fork of a fork has the next number.
        let second = user.annals(&["fork", &fork, "--json"]).run().ok().json();
        assert_eq!(second["title"], "First door (fork #2)");
        let _ = user.annals(&["undo"]).run().ok();
        undo_and_redo(&user, &format!("fork, {place:?}"), &before);
    }
}

#[test]
fn a_fork_is_cut_before_a_message() {
    for place in places() {
        let user = user_at(place);
        let before = everything(&user);
        let arguments = ["fork", FIRST, "--at", "msg_36aaaaffe12", "--title", "Another way", "--json"];
        let forked = user.annals(&arguments).run().ok().json();
        let fork = forked["id"].as_str().unwrap();
        assert_eq!((&forked["messages"], &forked["title"]), (&1.into(), &"Another way".into()), "{place:?}");
        assert_eq!(texts(&exported(&user, fork)), ["Where is the door"], "{place:?}");
        undo_and_redo(&user, &format!("fork --at, {place:?}"), &before);
    }
}

/// The ids of parents and of kept messages are those of the copies.
#[test]
fn a_fork_names_its_own_messages() {
    let user = user(Kind::Directory);
    let home = user.opencode();
    let (session, made) = (FIRST, 1_771_950_000_010_i64);
    let message = |id: &str, rest: &str| {
        let text = format!(
            r#"{{"id":"{id}","sessionID":"{session}",{rest},"time":{{"created":{made},"completed":{made}}}}}"#
        );
        write(&home, &format!("storage/message/{session}/{id}.json"), text);
    };
    message("msg_36aaaaffe13", r#""role":"user""#);
    message(
        "msg_36aaaaffe14",
        r#""role":"assistant","parentID":"msg_36aaaaffe13","summary":true,"finish":"stop""#,
    );
    message("msg_36aaaaffe15", r#""role":"assistant","parentID":"msg_gone""#);
    let part = format!(
        r#"{{"id":"prt_36aaaaffe13","sessionID":"{session}","messageID":"msg_36aaaaffe13","type":"compaction","auto":false,"tail_start_id":"msg_36aaaaffe12"}}"#
    );
    write(&home, "storage/part/msg_36aaaaffe13/prt_36aaaaffe13.json", part);
    let forked = user.annals(&["fork", session, "--json"]).run().ok().json();
    let copy = exported(&user, forked["id"].as_str().unwrap());
    let messages = copy["messages"].as_array().unwrap();
    assert_eq!(messages[3]["info"]["parentID"], messages[2]["info"]["id"]);
    assert_eq!(messages[4]["info"]["parentID"], "msg_gone", "nothing else is known of it");
    assert_eq!(messages[2]["parts"][0]["tail_start_id"], messages[1]["info"]["id"]);
}

/// The store has the texts of a fork and of its origin once.
#[test]
fn a_fork_shares_its_texts_with_its_origin() {
    for place in [Place::Home(Kind::Directory), Place::Home(Kind::Database18), Place::StoreAlone] {
        let user = user(match place {
            Place::Home(kind) => kind,
            Place::StoreAlone => Kind::Directory,
        });
        let long = "A long answer that nobody wants to have twice. ".repeat(100);
        let source = user.root().join("long.jsonl").display().to_string();
        let _ = user.annals(&["export", FIRST, "--format", "jsonl", "-o", &source]).run().ok();
        let text = std::fs::read_to_string(&source).unwrap().replace("36aaaaffe1", "36eeeeffe5");
        std::fs::write(&source, text.replace("The door is here", &long)).unwrap();
        let _ = user.annals(&["import", &source]).run().ok();
        let _ = user.annals(&["sync", "--full"]).run().ok();
        if place == Place::StoreAlone {
            std::fs::remove_dir_all(user.opencode()).unwrap();
        }
        let fork = user.annals(&["fork", "ses_36eeeeffe5", "--json"]).run().ok().json();
        let id = fork["id"].as_str().unwrap();
        let connection = Connection::open(user.store()).unwrap();
        let count = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
        assert_eq!(count("SELECT count(*) FROM document WHERE form = 4"), 2, "{place:?}");
        assert_eq!(count("SELECT count(*) FROM shared"), 1, "{place:?}");
        drop(connection);
        assert_eq!(texts(&exported(&user, id))[1], long, "{place:?}");
        assert_eq!(texts(&exported(&user, "ses_36eeeeffe5"))[1], long, "{place:?}");
        let _ = user.annals(&["check"]).run().ok();
        let _ = user.annals(&["undo"]).run().ok();
        assert_eq!(texts(&exported(&user, "ses_36eeeeffe5"))[1], long, "{place:?}");
        let _ = user.annals(&["check"]).run().ok();
    }
}

#[test]
fn a_revert_hides_and_an_unrevert_shows_again() {
    for place in places() {
        let user = user_at(place);
        let before = everything(&user);
        // A revert to the answer hides its prompt, too.
        let reverted = user.annals(&["revert", FIRST, "msg_36aaaaffe12", "--json"]).run().ok().json();
        assert_eq!((&reverted["messageID"], &reverted["partID"]), (&"msg_36aaaaffe11".into(), &Value::Null));
        let info = exported(&user, FIRST)["info"].clone();
        assert_eq!(info["revert"]["messageID"], "msg_36aaaaffe11", "{place:?}");
        assert_eq!(info["time"]["updated"], 1_772_020_980_000_i64, "{place:?}");
        assert_eq!(row(&user, FIRST)["updated"], 1_772_020_980_000_i64, "{place:?}");
        let shown = user.annals(&["show", FIRST]).run().ok().text();
        assert!(shown.contains("undone: what follows is hidden"), "{place:?}: {shown}");
        // Nothing is deleted.
        assert_eq!(texts(&exported(&user, FIRST)).len(), 2, "{place:?}");
        assert_eq!(hits(&user, "\"door is here\"", FIRST), 1, "{place:?}");
        undo_and_redo(&user, &format!("revert, {place:?}"), &before);

        let _ = user.annals(&["revert", FIRST, "msg_36aaaaffe11"]).run().ok();
        let reverted = everything(&user);
        // Again, which only touches the time of the last use.
        let _ = user.later(1, &["revert", FIRST, "msg_36aaaaffe11"]).run().ok();
        let _ = user.annals(&["undo"]).run().ok();
        reverted.expect(&user, &format!("a second revert, {place:?}"));
        let _ = user.later(1, &["unrevert", FIRST]).run().ok();
        let info = exported(&user, FIRST)["info"].clone();
        assert_eq!(info["revert"], Value::Null, "{place:?}");
        assert_eq!(info["time"]["updated"], 1_772_021_040_000_i64, "{place:?}");
        assert!(!user.annals(&["show", FIRST]).run().ok().text().contains("undone:"), "{place:?}");
        undo_and_redo(&user, &format!("unrevert, {place:?}"), &reverted);
    }
}

#[test]
fn a_compaction_adds_a_request_and_a_summary() {
    for place in places() {
        let user = user_at(place);
        let before = everything(&user);
        let arguments = ["compact", FIRST, "--summary", "We looked for an entrance.", "--auto", "--json"];
        let compacted = user.annals(&arguments).run().ok().json();
        let session = exported(&user, FIRST);
        let messages = session["messages"].as_array().unwrap();
        assert_eq!(messages.len(), 5, "{place:?}: {session:#}");
        let [request, summary, next] = &messages[2..] else { panic!("{messages:?}") };
        assert_eq!(
            (&request["info"]["id"], &summary["info"]["id"]),
            (&compacted["requestID"], &compacted["summaryID"])
        );
        assert_eq!((&request["info"]["role"], &request["parts"][0]["auto"]), (&"user".into(), &true.into()));
        assert_eq!(request["info"]["model"]["modelID"], "lab-large", "{place:?}");
        assert_eq!(
            (&summary["info"]["summary"], &summary["info"]["agent"]),
            (&true.into(), &"compaction".into())
        );
        assert_eq!(summary["info"]["parentID"], request["info"]["id"], "{place:?}");
        assert_eq!(next["parts"][0]["synthetic"], true, "{place:?}");
        let shown = user.annals(&["show", FIRST]).run().ok().text();
        assert!(
            shown.contains("compact the conversation") && shown.contains("We looked for an entrance."),
            "{shown}"
        );
        assert_eq!(hits(&user, "entrance", FIRST), 1, "{place:?}");
        assert_eq!(row(&user, FIRST)["messages"], 5, "{place:?}");
        undo_and_redo(&user, &format!("compact, {place:?}"), &before);
    }
}

/// A compaction of a reverted session begins without what is hidden.
#[test]
fn a_compaction_removes_what_was_reverted() {
    for kind in KINDS {
        let user = user(kind);
        let _ = user.annals(&["compact", FIRST, "--summary", "One."]).run().ok();
        let request = exported(&user, FIRST)["messages"][2]["info"]["id"].as_str().unwrap().to_owned();
        let _ = user.annals(&["revert", FIRST, &request]).run().ok();
        let before = everything(&user);
        let _ = user.later(1, &["compact", FIRST, "--summary", "Two."]).run().ok();
        let session = exported(&user, FIRST);
        assert_eq!(texts(&session), ["Where is the door", "The door is here", "Two."], "{kind:?}");
        assert_eq!(session["info"]["revert"], Value::Null, "{kind:?}");
        undo_and_redo(&user, &format!("compact after a revert, {kind:?}"), &before);
    }
}

/// Results of 44,000 tokens before the last two prompts, and of 30,000 before those.
fn with_long_results(user: &User) {
    let (home, made) = (user.opencode(), 1_771_950_000_000_i64);
    let result = |n: usize| "x".repeat(if n < 3 { 40_000 } else { 88_000 });
    for (n, role) in ["user", "assistant", "user", "assistant", "user", "assistant"].iter().enumerate() {
        let id = format!("msg_36aaaaffe1{}", n + 3);
        let time = made + 10 + n as i64;
        let info = format!(
            r#"{{"id":"{id}","sessionID":"{FIRST}","role":"{role}","agent":"build","providerID":"lab","modelID":"lab-large","time":{{"created":{time},"completed":{time}}}}}"#
        );
        write(&home, &format!("storage/message/{FIRST}/{id}.json"), info);
        let parts: usize = if *role == "assistant" && n == 1 { 5 } else { 0 };
        for part in 0..parts {
            let text = format!(
                r#"{{"id":"prt_36aaaaffe1{n}{part}","sessionID":"{FIRST}","messageID":"{id}","type":"tool","callID":"call_{part}","tool":"bash","state":{{"status":"completed","input":{{}},"output":"{}","title":"","metadata":{{}},"time":{{"start":{time},"end":{time}}}}}}}"#,
                result(part)
            );
            write(&home, &format!("storage/part/{id}/prt_36aaaaffe1{n}{part}.json"), text);
        }
    }
}

#[test]
fn old_results_are_hidden_from_the_model() {
    for place in [Place::Home(Kind::Directory), Place::StoreAlone] {
        let user = user(Kind::Directory);
        let nothing = user.annals(&["compact", FIRST, "--prune", "--json"]).run().ok().json();
        assert_eq!((&nothing["pruned"], &nothing["tokens"]), (&false.into(), &0.into()));
        with_long_results(&user);
        let _ = user.annals(&["sync", "--full"]).run().ok();
        if place == Place::StoreAlone {
            std::fs::remove_dir_all(user.opencode()).unwrap();
        }
        let before = everything(&user);
        let planned = user.annals(&["compact", FIRST, "--prune", "--dry-run", "--json"]).run().ok().json();
        // The last two results take 44,000 tokens: of those the one that goes beyond 40,000 is hidden as well.
        let expected = serde_json::json!([
            "prt_36aaaaffe113",
            "prt_36aaaaffe112",
            "prt_36aaaaffe111",
            "prt_36aaaaffe110"
        ]);
        assert_eq!((&planned["partIDs"], &planned["pruned"]), (&expected, &false.into()), "{place:?}");
        assert_eq!(planned["tokens"], 52_000, "{place:?}");
        before.expect(&user, "a dry run");
        let _ = user.annals(&["compact", FIRST, "--prune"]).run().ok();
        let session = exported(&user, FIRST);
        let parts = session["messages"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|message| message["parts"].as_array().unwrap());
        let marks: Vec<(usize, bool)> = parts
            .filter(|part| part["type"] == "tool")
            .map(|part| {
                let state = &part["state"];
                (state["output"].as_str().unwrap().len(), state["time"]["compacted"] == 1_772_020_980_000_i64)
            })
            .collect();
        assert_eq!(
            marks,
            [(40_000, true), (40_000, true), (40_000, true), (88_000, true), (88_000, false)],
            "{place:?}: the results stay stored"
        );
        // What is hidden is not hidden again.
        let again = user.later(1, &["compact", FIRST, "--prune", "--json"]).run().ok().json();
        assert_eq!(again["pruned"], false, "{place:?}");
        undo_and_redo(&user, &format!("compact --prune, {place:?}"), &before);
    }
}

#[test]
fn a_todo_list_is_replaced_as_a_whole() {
    for place in places() {
        let user = user_at(place);
        let before = everything(&user);
        let todos = || user.annals(&["todo", FIRST, "--json"]).run().ok().json()["todos"].clone();
        assert_eq!(todos().as_array().unwrap().len(), 1, "{place:?}");
        let list = b"[x] Find the door\n[>]! Open it\n\n[ ] Go through\n";
        let _ = user.annals(&["todo", FIRST, "--set", "-"]).stdin(list).run().ok();
        let told: Vec<(Value, Value, Value)> = todos()
            .as_array()
            .unwrap()
            .iter()
            .map(|todo| (todo["content"].clone(), todo["status"].clone(), todo["priority"].clone()))
            .collect();
        let expected = [
            ("Find the door", "completed", "medium"),
            ("Open it", "in_progress", "high"),
            ("Go through", "pending", "medium"),
        ];
        let expected = expected.map(|(a, b, c)| (a.into(), b.into(), c.into()));
        assert_eq!(told, expected, "{place:?}");
        // The same once more is no operation.
        let again = user.annals(&["todo", FIRST, "--set", "-", "--json"]).stdin(list).run().ok().json();
        assert_eq!(again["operation"], Value::Null, "{place:?}");
        undo_and_redo(&user, &format!("todo --set, {place:?}"), &before);
        write(user.root(), "empty.json", "[]");
        let _ = user.annals(&["todo", FIRST, "--set", "empty.json"]).run().ok();
        assert_eq!(todos(), serde_json::json!([]), "{place:?}");
        undo_and_redo(&user, &format!("todo --set to nothing, {place:?}"), &before);
    }
}

/// A home that is named is changed, and no other.
#[test]
fn a_named_home_is_changed_alone() {
    let user = user(Kind::Both);
    let database = user.opencode().join("opencode.db").display().to_string();
    let before = everything(&user);
    let revert = ["--home", &database, "revert", FIRST, "msg_36aaaaffe11"];
    let _ = user.annals(&revert).run().ok();
    let changed = differences(&before.bytes, &bytes(&user));
    assert!(
        changed.iter().all(|name| name.starts_with("session ") || name.starts_with("session_diff/")),
        "{changed:?}"
    );
    let _ = user.annals(&["undo"]).run().ok();
    before.expect(&user, "revert --home");
    let forked = user.annals(&["--home", &database, "fork", FIRST, "--json"]).run().ok().json();
    assert_eq!(forked["places"], serde_json::json!([database]));
    let _ = user.annals(&["undo"]).run().ok();
    before.expect(&user, "fork --home");
}

#[track_caller]
pub(super) fn refused(ran: &Ran, code: i32, words: &str) {
    assert_eq!(ran.code, code, "{ran}");
    assert!(ran.stderr.contains(words), "{ran}");
}

#[test]
fn bad_input_changes_nothing() {
    for place in places() {
        let user = user_at(place);
        write(user.root(), "bad.txt", "Do it all\n");
        write(user.root(), "bad.json", r#"[{"content":"a","status":"soon"}]"#);
        let before = everything(&user);
        let run = |arguments: &[&str]| user.annals(arguments).run();
        // A message of another session.
        refused(
            &run(&["fork", FIRST, "--at", "msg_36bbbbffe21"]),
            1,
            "has no message or part \"msg_36bbbbffe21\"",
        );
        refused(&run(&["fork", FIRST, "--at", "prt_36aaaaffe12"]), 2, "is a part");
        refused(&run(&["fork", FIRST, "--title", " "]), 2, "a title cannot be empty");
        refused(&run(&["fork", "ses_nowhere"]), 1, "no session matches");
        refused(&run(&["revert", FIRST, "msg_36bbbbffe21"]), 1, "has no message or part");
        refused(&run(&["revert", FIRST, "msg_36aaaaffe1"]), 1, "matches 2 messages and parts");
        refused(&run(&["unrevert", FIRST]), 1, "is not reverted");
        refused(&run(&["unrevert", FIRST, "--files"]), 1, "is not reverted");
        refused(&run(&["compact", FIRST, "--summary", " \n"]), 2, "a summary cannot be empty");
        refused(&run(&["compact", FIRST, "--summary", "x", "--model", "opus"]), 2, "names no model");
        refused(&run(&["compact", FIRST]), 2, "--summary");
        refused(&run(&["todo", FIRST, "--set", "bad.txt"]), 2, "holds no todo list");
        refused(&run(&["todo", FIRST, "--set", "bad.json"]), 2, "is not a status");
        refused(&run(&["todo", FIRST, "--set", "nowhere.json"]), 1, "cannot read");
        // The session's directory does not exist, so no snapshots of it do.
        refused(&run(&["revert", FIRST, "msg_36aaaaffe11", "--files"]), 1, "nothing was changed");
        before.expect(&user, &format!("{place:?}"));
        assert_eq!(user.annals(&["log", "--json"]).run().ok().json(), serde_json::json!([]), "{place:?}");
    }
}

#[test]
fn a_session_without_a_prompt_is_not_compacted() {
    let user = user(Kind::Directory);
    std::fs::remove_dir_all(user.opencode().join("storage/message").join(FIRST)).unwrap();
    refused(&user.annals(&["compact", FIRST, "--summary", "x"]).run(), 1, "there is nothing to compact");
}

/// A writer of annals' own holds the session's lease; an OpenCode has not ended its answer.
#[test]
fn a_busy_session_is_not_reverted() {
    for kind in [Kind::Directory, Kind::Database12, Kind::Database18] {
        let user = user(kind);
        let home = annals::Store::open(user.opencode()).unwrap();
        let session = home.session(FIRST).unwrap();
        let turn = annals::turn::Turn::begin(&session.prompt("Wait.").model("lab/lab-large")).unwrap();
        let before = everything(&user);
        for arguments in [&["revert", FIRST, "msg_36aaaaffe11"][..], &["compact", FIRST, "--summary", "x"]] {
            refused(&user.annals(arguments).run(), 1, "is writing to session");
        }
        before.expect(&user, &format!("{kind:?}"));
        // Others are not kept from reading.
        let forked = user.annals(&["fork", FIRST, "--json"]).run().ok().json();
        assert_eq!(forked["messages"], 3, "{kind:?}");
        turn.finish().unwrap();
        let _ = user.annals(&["revert", FIRST, "msg_36aaaaffe11"]).run().ok();
        refused(&user.annals(&["unrevert", "ses_36bbbbffe2"]).run(), 1, "is not reverted");
    }
    let user = user(Kind::Directory);
    let file = user.opencode().join("storage/message").join(FIRST).join("msg_36aaaaffe12.json");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace(r#","completed":1771950000002"#, "")).unwrap();
    let at = |minutes: i64, arguments: &[&str]| {
        let now = 1_771_950_000_002 + minutes * 60_000;
        user.annals(arguments).env("ANNALS_NOW", now.to_string()).run()
    };
    refused(&at(5, &["revert", FIRST, "msg_36aaaaffe11"]), 1, "is busy: its last answer has no end");
    assert!(
        !std::fs::read_to_string(
            user.opencode().join("storage/session/global").join(format!("{FIRST}.json"))
        )
        .unwrap()
        .contains("revert")
    );
    let _ = at(15, &["revert", FIRST, "msg_36aaaaffe11"]).ok();
    // That it was used just now is annals' own doing.
    let _ = at(16, &["unrevert", FIRST]).ok();
    let _ = at(17, &["revert", FIRST, "msg_36aaaaffe12"]).ok();
}
