//! `annals copy` between OpenCode's directories and databases, and what the real OpenCode says of the result.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use annals_testkit::model::{ModelServer, Playbook, RequestKind, Turn};
use annals_testkit::opencode::{Lab, OpenCode};
use annals_testkit::{Fixture, files_below};
use serde_json::{Value, json};

use super::kit::{annals, copy, exported, in_parallel, listed, snapshot, text};

/// Projects of the fixtures: a repository with nearly all sessions, and one of which the record gets lost.
const SHOP: &str = "15e401e64f208f230e2422540fb7c58e13fb0681";
const NOTES: &str = "906364ab6e8e845d9d28ebffa41d227898293669";

/// A session of the 1.1.65 fixture with thoughts, tools and edits.
const TIDYING: &str = "ses_385744ad0ffeWgvBCB6JclCZJ1";

/// A directory in which a lab's OpenCode works on each project that a home has sessions of.
fn bind_projects(lab: &Lab, home: &Path) -> BTreeMap<String, PathBuf> {
    let projects: BTreeSet<String> =
        listed(home, &[]).iter().map(|row| text(row, "projectID").to_owned()).collect();
    let bind = |project: String| {
        let directory = match &*project {
            "global" => lab.directory("plain", &[("notes.txt", "x")]),
            id => lab.bind_project(id, id),
        };
        (project, directory)
    };
    projects.into_iter().map(bind).collect()
}

/// The columns of a list that annals and OpenCode have in common.
fn columns(rows: &[Value]) -> BTreeSet<Vec<String>> {
    let column = |row: &Value, name| row[name].to_string();
    rows.iter()
        .map(|row| ["id", "title", "updated", "created", "directory"].map(|name| column(row, name)).to_vec())
        .collect()
}

/// Takes out what OpenCode 1.18 adds to every session.
fn strip_additions(info: &mut Value) {
    for name in ["path", "agent", "model", "cost", "tokens"] {
        info.as_object_mut().unwrap().shift_remove(name);
    }
}

/// Takes out of messages what OpenCode 1.18 stores and exports but does not serve.
fn strip_unserved(messages: &mut Value) {
    for message in messages.as_array_mut().unwrap() {
        let info = message["info"].as_object_mut().unwrap();
        if info["role"] == "user" {
            info.shift_remove("format");
            info.shift_remove("variant");
        }
        let diffs = info.get_mut("summary").and_then(|summary| summary.get_mut("diffs"));
        for diff in diffs.and_then(Value::as_array_mut).into_iter().flatten() {
            for side in ["before", "after"] {
                diff.as_object_mut().unwrap().shift_remove(side);
            }
        }
    }
}

/// The one message field that OpenCode 1.18.33 stores and then refuses to serve is kept under another name.
fn restore_format(messages: &mut Value) {
    for message in messages.as_array_mut().unwrap() {
        let info = message["info"].as_object_mut().unwrap();
        if let Some(format) = info.shift_remove("annals:format") {
            info.insert("format".to_owned(), format);
        }
    }
}

#[test]
fn sessions_of_1_1_go_on_in_1_18() {
    let playbook = Playbook::builtin()
        .scenario("recall", [Turn::text("We tidied up the helpers.")])
        .prompt("What did we do", "recall");
    let model = ModelServer::start(playbook).unwrap();
    let lab = Lab::new(&OpenCode::version("1.18.33"));
    lab.configure(&model);
    let fixture = Fixture::unpack("opencode-1.1.65");
    let source = fixture.home();
    // OpenCode's own migration leaves sessions without a project record behind.
    std::fs::remove_file(source.join(format!("storage/project/{NOTES}.json"))).unwrap();
    let directories = bind_projects(&lab, source);
    let shop = &directories[SHOP];
    // This OpenCode works in the directory of the session, so there has to be one.
    let file = source.join(format!("storage/session/{SHOP}/{TIDYING}.json"));
    let moved = std::fs::read_to_string(&file)
        .unwrap()
        .replace("/home/dev/projects/shop-api", shop.to_str().unwrap());
    std::fs::write(&file, moved).unwrap();
    copy(source, &lab.data().join("opencode.db"), &[]);

    // The first start moves the database to the version's own schema.
    let server = lab.serve(shop);
    let sessions = listed(source, &[]);
    assert_eq!(sessions.len(), 121);
    let mut with_format = Vec::new();
    for session in &sessions {
        let id = text(session, "id");
        let mut ours = exported(source, id);
        let response = server.request("GET", &format!("/session/{id}/message"), None);
        assert_eq!(response.status, 200, "{id}: {}", String::from_utf8_lossy(&response.body));
        let served: Value = serde_json::from_slice(&response.body).unwrap();
        if ours["messages"].as_array().unwrap().iter().any(|message| message["info"]["format"].is_object()) {
            with_format.push(session);
        }
        strip_unserved(&mut ours["messages"]);
        assert_eq!(served, ours["messages"], "{id}");
        let mut info = server.get(&format!("/session/{id}"));
        strip_additions(&mut info);
        assert_eq!(info, ours["info"], "{id}");
    }
    server.stop();
    assert_eq!(with_format.len(), 2);

    let projects: Vec<_> = directories.iter().collect();
    let lists = in_parallel(&projects, |(_, directory)| lab.session_list(directory));
    for ((project, _), real) in projects.into_iter().zip(lists) {
        let ours = listed(source, &["--roots", "--project", project]);
        assert!(!ours.is_empty());
        assert_eq!(columns(real.as_array().unwrap()), columns(&ours), "{project}");
    }

    let sample: Vec<&Value> = with_format.into_iter().chain(sessions.iter().step_by(14)).collect();
    let exports = in_parallel(&sample, |session| {
        lab.export(&directories[text(session, "projectID")], text(session, "id"))
    });
    for (session, real) in sample.iter().zip(exports) {
        let mut real: Value = serde_json::from_slice(&real).unwrap();
        strip_additions(&mut real["info"]);
        restore_format(&mut real["messages"]);
        assert_eq!(real, exported(source, text(session, "id")));
    }

    lab.run(shop, &["--session", TIDYING, "--model", "lab/lab-large", "What did we do?"]);
    let request = model.requests().into_iter().find(|request| request.kind == RequestKind::Chat).unwrap();
    let sent = request.conversation().text();
    assert!(
        sent.contains("Please tidy up the helpers") && sent.contains("The rounding is the interesting one."),
        "{sent}"
    );
    let ours = annals(&lab.data(), &["export", TIDYING]).run().ok();
    assert_eq!(String::from_utf8_lossy(&lab.export(shop, TIDYING)), ours.text());
    let shown = annals(&lab.data(), &["show", TIDYING]).run().ok().text();
    let (earlier, later) = shown.split_once("What did we do?").expect("the new prompt is shown");
    assert!(earlier.contains("Please tidy up the helpers"), "{shown}");
    assert!(later.contains("We tidied up the helpers."), "{shown}");
}

/// Where old documents lack what OpenCode 1.18 requires, it would refuse the whole session.
#[test]
fn sessions_of_all_eras_are_served_changed_and_deleted_by_1_18() {
    let lab = Lab::new(&OpenCode::version("1.18.33"));
    let database = lab.data().join("opencode.db");
    for (name, n_sessions) in [("opencode-0.5.29", 7), ("opencode-1.0.185", 112), ("opencode-1.2.27", 122)] {
        let account = copy(Fixture::unpack(name).home(), &database, &[]);
        assert_eq!(account["sessions"]["copied"], n_sessions, "{name}: {account}");
    }
    let server = lab.serve(&lab.bind_project("shop-api", SHOP));
    let sessions = listed(&database, &[]);
    assert_eq!(sessions.len(), 7 + 112 + 122);
    for session in &sessions {
        let id = text(session, "id");
        let served = server.get(&format!("/session/{id}/message"));
        let stored = exported(&database, id);
        assert_eq!(served.as_array().unwrap().len(), stored["messages"].as_array().unwrap().len(), "{id}");
    }
    let parent = sessions.iter().find(|row| row["title"] == "Two subagents").unwrap();
    server.delete(&format!("/session/{}", text(parent, "id")));
    let renamed = text(&sessions[0], "id");
    server.patch(&format!("/session/{renamed}"), &json!({"title": "A new title"}));
    let left = listed(&database, &[]);
    assert_eq!(left.len(), sessions.len() - 3);
    assert_eq!(left.iter().find(|row| row["id"] == renamed).unwrap()["title"], "A new title");
}

#[test]
fn a_database_made_here_is_one_of_1_2_27() {
    let fixture = Fixture::unpack("opencode-1.1.65");
    let lab = Lab::new(&OpenCode::version("1.2.27"));
    copy(fixture.home(), &lab.data().join("opencode.db"), &[]);
    let shop = lab.bind_project("shop-api", SHOP);
    let real = lab.session_list(&shop);
    let ours = listed(fixture.home(), &["--roots", "--project", SHOP]);
    assert_eq!(columns(real.as_array().unwrap()), columns(&ours));
    let real: Value = serde_json::from_slice(&lab.export(&shop, TIDYING)).unwrap();
    assert_eq!(real, exported(fixture.home(), TIDYING));
}

/// Sessions of the 1.18.33 fixture: one with two children, one that is archived, one with a todo list, one that was shared,
/// and the two that are only in the second transcript store.
const NOTABLE: [&str; 6] = [
    "ses_ed9e26458ffec8eJJLI9XbqmzY",
    "ses_ec9ef2085ffeJDfaPZpQCKNLim",
    "ses_edfd641eeffenagVeIG0YoTiq0",
    "ses_ec9eeda07ffe6is0avasAvL2OW",
    SECOND_STORE[0].0,
    SECOND_STORE[1].0,
];
/// Those two, and how many messages they have.
const SECOND_STORE: [(&str, usize); 2] =
    [("ses_ec9ee8c31ffe4R6M6IWRpmngLE", 5), ("ses_ec9ee81d6ffe1ozyFI2DcRNam3", 4)];

#[test]
fn sessions_of_1_18_go_back_to_1_1() {
    let fixture = Fixture::unpack("opencode-1.18.33");
    let lab = Lab::new(&OpenCode::version("1.1.65"));
    let account = copy(&fixture.home().join("opencode.db"), &lab.data(), &[]);
    assert_eq!(account["sessions"]["copied"], 123, "{account}");
    assert_eq!(account["converted"], 9, "{account}");
    let directories = bind_projects(&lab, &lab.data());
    let sessions = listed(&lab.data(), &[]);
    let notable = sessions.iter().filter(|session| NOTABLE.contains(&text(session, "id")));
    let sample: Vec<&Value> = notable.chain(sessions.iter().step_by(20)).collect();
    assert!(sample.len() >= 12);
    let exports = in_parallel(&sample, |session| {
        lab.export(&directories[text(session, "projectID")], text(session, "id"))
    });
    let originals: BTreeMap<String, Vec<u8>> = fixture.exports().into_iter().collect();
    for (session, real) in sample.iter().zip(exports) {
        let id = text(session, "id");
        let real: Value = serde_json::from_slice(&real).unwrap();
        assert_eq!(real, exported(&lab.data(), id), "{id}");
        let original: Value = serde_json::from_slice(&originals[id]).unwrap();
        assert_eq!(real["info"], original["info"], "{id}");
        match SECOND_STORE.iter().find(|(second, _)| *second == id) {
            None => assert_eq!(real["messages"], original["messages"], "{id}"),
            // What 1.18 itself does not export.
            Some((_, n_messages)) => {
                assert_eq!(original["messages"], Value::Array(Vec::new()));
                assert_eq!(real["messages"].as_array().unwrap().len(), *n_messages, "{id}");
            }
        }
    }
    let todos =
        |home: &Path| annals(home, &["todo", NOTABLE[2], "--json"]).run().ok().json()["todos"].clone();
    let held = |todos: &Value| -> Vec<_> {
        let items = todos.as_array().unwrap().iter();
        items.map(|item| ["content", "status", "priority"].map(|name| item[name].clone())).collect()
    };
    assert_eq!(held(&todos(&lab.data())), held(&todos(fixture.home())));
    assert_eq!(held(&todos(&lab.data())).len(), 4);
}

/// What a database gives back byte for byte. Of sessions and todo lists it keeps the values: the object of a session is
/// rebuilt in one order, and the items of a list are numbered again.
const BYTE_FOR_BYTE: [&str; 5] = ["message", "part", "session_diff", "session_share", "project"];

#[test]
fn a_directory_comes_back_from_a_database_as_it_was() {
    for name in Fixture::FLAT {
        let fixture = Fixture::unpack(name);
        let dir = tempfile::tempdir().unwrap();
        let database = dir.path().join("data/opencode.db");
        let back = dir.path().join("back");
        copy(fixture.home(), &database, &[]);
        copy(&database, &back, &[]);
        let mut n_exact = 0;
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for (kind, file) in documents_of_sessions(&fixture) {
            let path = file.strip_prefix(fixture.home()).unwrap();
            let before = std::fs::read(&file).unwrap();
            if kind == "todo" && before == b"[]" {
                // A database has no rows for an empty list, as if there were none.
                continue;
            }
            let after =
                std::fs::read(back.join(path)).unwrap_or_else(|error| panic!("{name} {path:?}: {error}"));
            let [mut value, expected] =
                [&after, &before].map(|bytes| serde_json::from_slice::<Value>(bytes).unwrap());
            // 1.0 knew neither, and a database must have them.
            let is_completed =
                remove_added(&mut value, &expected, &[("slug", json!("")), ("sandboxes", json!([]))]);
            assert_eq!(value, expected, "{name} {path:?}");
            // Has another name in the database, and comes back behind the other fields.
            let has_moved = expected["format"].is_object();
            if BYTE_FOR_BYTE.contains(&kind) && !is_completed && !has_moved {
                assert_eq!(
                    String::from_utf8(after).unwrap(),
                    String::from_utf8(before).unwrap(),
                    "{name} {path:?}"
                );
                n_exact += 1;
            }
            *counts.entry(kind).or_default() += 1;
        }
        assert_eq!(counts.len(), 7, "{name}: {counts:?}");
        assert!(n_exact > counts["message"] + counts["part"], "{name}: {n_exact} of {counts:?}");
        // And nothing else.
        assert_eq!(snapshot(&back).len(), counts.values().sum::<usize>(), "{name}: {counts:?}");
    }
}

/// Takes members out of an object that have these values and that the expected one has not.
fn remove_added(value: &mut Value, expected: &Value, additions: &[(&str, Value)]) -> bool {
    let mut is_changed = false;
    for (name, added) in additions {
        if value.get(name) == Some(added) && expected.get(name).is_none() {
            value.as_object_mut().unwrap().shift_remove(*name);
            is_changed = true;
        }
    }
    is_changed
}

/// The files of a directory that belong to its sessions, with their kinds. OpenCode leaves some behind when it deletes.
fn documents_of_sessions(fixture: &Fixture) -> Vec<(&'static str, PathBuf)> {
    let storage = fixture.home().join("storage");
    let sessions: BTreeSet<String> =
        listed(fixture.home(), &[]).iter().map(|row| text(row, "id").to_owned()).collect();
    let below =
        |kind: &'static str| files_below(&storage.join(kind)).into_iter().map(move |file| (kind, file));
    let stem = |path: &Path| path.file_stem().unwrap().to_str().unwrap().to_owned();
    let holder = |path: &Path| stem(path.parent().unwrap());
    let messages: Vec<_> = below("message").filter(|(_, file)| sessions.contains(&holder(file))).collect();
    let message_ids: BTreeSet<String> = messages.iter().map(|(_, file)| stem(file)).collect();
    let parts = below("part").filter(|(_, file)| message_ids.contains(&holder(file)));
    let beside = ["session", "session_diff", "session_share", "todo"].into_iter().flat_map(below);
    let beside = beside.filter(|(_, file)| sessions.contains(&stem(file)));
    messages.iter().cloned().chain(parts).chain(beside).chain(below("project")).collect()
}

#[test]
fn copying_again_copies_nothing() {
    let directory = Fixture::unpack("opencode-1.1.65");
    let database = Fixture::unpack("opencode-1.18.33");
    let dir = tempfile::tempdir().unwrap();
    let sources = [directory.home().to_owned(), database.home().join("opencode.db")];
    for (source, n_sessions) in sources.iter().zip([121, 123]) {
        for target in ["opencode.db", "directory"] {
            let target = dir.path().join(n_sessions.to_string()).join(target);
            let planned = copy(source, &target, &["--dry-run"]);
            assert!(!target.exists(), "{}", target.display());
            let first = copy(source, &target, &[]);
            assert_eq!(first["sessions"]["copied"], n_sessions);
            let without_mode = |account: &Value| {
                let mut account = account.clone();
                account.as_object_mut().unwrap().shift_remove("dryRun");
                // What is completed is only known when it is stored.
                account.as_object_mut().unwrap().shift_remove("completed");
                account.as_object_mut().unwrap().shift_remove("operation");
                account
            };
            assert_eq!(without_mode(&planned), without_mode(&first));
            let files = files_below(dir.path());
            let second = copy(source, &target, &[]);
            assert_eq!(
                (&second["copied"], &second["sessions"]["copied"]),
                (&0.into(), &0.into()),
                "{second}"
            );
            assert_eq!(files_below(dir.path()).len(), files.len());
            for account in [planned, first, second] {
                assert_adds_up(&account);
                assert_adds_up(&account["sessions"]);
            }
        }
    }
}

#[track_caller]
fn assert_adds_up(tally: &Value) {
    let [seen, copied, unchanged, quarantined] =
        ["seen", "copied", "unchanged", "quarantined"].map(|name| tally[name].as_u64().unwrap());
    // Of documents they are listed, of sessions counted.
    let differing = &tally["differing"];
    let differing = differing.as_u64().unwrap_or_else(|| differing.as_array().unwrap().len() as u64);
    assert_eq!(seen, copied + unchanged + differing + quarantined, "{tally}");
}

#[test]
fn a_session_takes_its_children_along() {
    let fixture = Fixture::unpack("opencode-1.1.65");
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("opencode.db");
    let account = copy(fixture.home(), &target, &["Two subagents"]);
    assert_eq!(account["sessions"]["copied"], 3, "{account}");
    assert_adds_up(&account);
    let parent = &listed(&target, &["--roots"])[0];
    assert_eq!(parent["title"], "Two subagents");
    assert_eq!(parent["children"].as_array().unwrap().len(), 2);
    for session in listed(&target, &[]) {
        let [ours, theirs] = [&target, fixture.home()].map(|home| exported(home, text(&session, "id")));
        assert_eq!(ours["messages"], theirs["messages"]);
    }
}

/// Differences are files beside the database, and OpenCode looks for them only beside its own.
#[test]
fn a_database_by_another_name_holds_no_differences() {
    let fixture = Fixture::unpack("opencode-1.1.65");
    let dir = tempfile::tempdir().unwrap();
    let account = copy(fixture.home(), &dir.path().join("sessions.db"), &[]);
    assert_eq!(account["notHeld"], json!({"session diff": 119}));
    assert_adds_up(&account);
    assert!(!dir.path().join("storage").exists());
}

#[test]
fn a_dry_run_changes_no_byte_of_a_target() {
    let fixture = Fixture::unpack("opencode-1.1.65");
    let target = Fixture::unpack("small-1.18.33");
    let before = files_with_bytes(target.home());
    let account = copy(fixture.home(), &target.home().join("opencode.db"), &["-n"]);
    assert_eq!(account["sessions"]["copied"], 121, "{account}");
    assert_eq!(files_with_bytes(target.home()), before);
}

fn files_with_bytes(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    files_below(directory).into_iter().map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

/// The title of a session.
fn title_in(home: &Path, session: &str) -> String {
    let rows = listed(home, &[]);
    let row = rows.iter().find(|row| row["id"] == session).unwrap_or_else(|| panic!("no {session}"));
    text(row, "title").to_owned()
}

/// OpenCode does not move `time.updated` on a rename, so it does not tell which title is the later one.
#[test]
fn the_rescue_command_repeated_keeps_a_rename_made_in_opencode() {
    let source = Fixture::unpack("opencode-1.1.65");
    let lab = Lab::new(&OpenCode::version("1.18.33"));
    let database = lab.data().join("opencode.db");
    copy(source.home(), &database, &[]);
    let server = lab.serve(&lab.bind_project("shop-api", SHOP));
    server.patch(&format!("/session/{TIDYING}"), &json!({"title": "Renamed in OpenCode"}));
    let again = copy(source.home(), &database, &[]);
    assert_eq!(server.get(&format!("/session/{TIDYING}"))["title"], "Renamed in OpenCode");
    server.stop();
    assert_adds_up(&again);
    assert_eq!(again["copied"], 0, "{again}");
    let differing = again["differing"].as_array().unwrap();
    assert_eq!(differing.len(), 1, "{again}");
    assert_eq!(differing[0]["sessionID"], TIDYING);
    assert_eq!(differing[0]["target"]["title"], "Renamed in OpenCode");
    assert_eq!(differing[0]["source"]["title"], title_in(source.home(), TIDYING));
}

#[test]
fn a_copy_repeated_changes_nothing_that_was_changed_in_the_target() {
    let source = Fixture::unpack("opencode-1.1.65");
    let dir = tempfile::tempdir().unwrap();
    for target in [dir.path().join("opencode.db"), dir.path().join("directory")] {
        copy(source.home(), &target, &[]);
        let _ = annals(&target, &["rename", TIDYING, "My own title"]).run().ok();
        let _ = annals(&target, &["archive", "Two subagents"]).run().ok();
        let again = copy(source.home(), &target, &[]);
        assert_adds_up(&again);
        assert_adds_up(&again["sessions"]);
        assert_eq!((&again["copied"], &again["sessions"]["differing"]), (&0.into(), &2.into()), "{again}");
        assert_eq!(title_in(&target, TIDYING), "My own title");
        assert_eq!(
            listed(&target, &["--archived"]).iter().filter(|row| row["title"] == "Two subagents").count(),
            1
        );

        let ours = copy(source.home(), &target, &["--ours"]);
        assert_eq!((&ours["copied"], &ours["differing"]), (&0.into(), &json!([])), "{ours}");
        assert_eq!(title_in(&target, TIDYING), "My own title");
        let planned = copy(source.home(), &target, &["--theirs", "--dry-run"]);
        assert_eq!(planned["copied"], 2, "{planned}");
        assert_eq!(title_in(&target, TIDYING), "My own title");
        let theirs = copy(source.home(), &target, &["--theirs", TIDYING]);
        assert_eq!(theirs["copied"], 1, "{theirs}");
        assert_eq!(
            theirs["copiedSessions"],
            json!([{"id": TIDYING, "title": title_in(source.home(), TIDYING)}])
        );
        assert_eq!(title_in(&target, TIDYING), title_in(source.home(), TIDYING));
    }
}

/// A session that went on in the source is brought up to date, except for what was changed in the target.
#[test]
fn a_later_use_in_the_source_replaces_no_title_and_no_text() {
    let source = super::kit::User::new();
    source.write_session("1", "Order API", "what is left?", "nothing");
    let home = source.opencode();
    let target = tempfile::tempdir().unwrap();
    copy(&home, target.path(), &[]);
    let edit = |home: &Path, path: &str, from: &str, to: &str| {
        let path = home.join("storage").join(path);
        let before = std::fs::read_to_string(&path).unwrap();
        assert!(before.contains(from), "{before}");
        std::fs::write(path, before.replace(from, to)).unwrap();
    };
    edit(target.path(), "session/global/ses_1.json", "Order API", "My title");
    edit(target.path(), "part/msg_11/prt_11.json", "what is left?", "what is left to do?");
    // The source goes on: used later, with one more prompt and a todo list.
    edit(&home, "session/global/ses_1.json", "\"updated\":1771950000000", "\"updated\":1771950009000");
    for path in ["message/ses_1/msg_13.json", "part/msg_13/prt_13.json"] {
        let model = path.replace("13", "11");
        let text = std::fs::read_to_string(home.join("storage").join(model)).unwrap();
        super::kit::write(
            &home.join("storage"),
            path,
            text.replace("msg_11", "msg_13").replace("prt_11", "prt_13"),
        );
    }
    let again = copy(&home, target.path(), &[]);
    assert_adds_up(&again);
    assert_eq!(again["copied"], 2, "the new message and its part: {again}");
    let differing: Vec<_> =
        again["differing"].as_array().unwrap().iter().map(|differing| text(differing, "kind")).collect();
    assert_eq!(differing, ["session", "part"], "{again}");
    assert_eq!(again["differing"][1]["target"]["text"], "what is left to do?");
    assert_eq!(title_in(target.path(), "ses_1"), "My title");

    let ran = super::kit::plain(
        target.path(),
        &["copy", "--from", home.to_str().unwrap(), "--to", target.path().to_str().unwrap()],
    )
    .run()
    .ok();
    insta::assert_snapshot!(ran, @r#"
    exit 0
    -- stderr
    1 session: 0 copied, 0 unchanged, 1 differing, 0 quarantined
    7 documents: 0 copied, 5 unchanged, 2 differing, 0 quarantined
    2 documents differ and stay as the target has them:
    session ses_1
      target  "My title", last used 2026-02-24 16:20
      source  "Order API", last used 2026-02-24 16:20
    part prt_11 of session ses_1
      target  what is left to do?
      source  what is left?
    `--ours` keeps the target's version without this report, `--theirs` takes the source's
    "#);
}

/// A copy that was made while the agent worked is completed by the next one.
#[test]
fn what_was_being_written_is_brought_up_to_date() {
    let source = super::kit::User::new();
    source.write_session("1", "Order API", "what is left?", "nothing");
    let home = source.opencode();
    let tool = |state: &str| {
        let part = format!(
            r#"{{"id":"prt_19","sessionID":"ses_1","messageID":"msg_12","type":"tool","callID":"c","tool":"bash","state":{state}}}"#
        );
        super::kit::write(&home, "storage/part/msg_12/prt_19.json", part);
    };
    tool(r#"{"status":"running","input":{"command":"ls"},"time":{"start":1}}"#);
    let target = tempfile::tempdir().unwrap();
    copy(&home, target.path(), &[]);
    tool(
        r#"{"status":"completed","input":{"command":"ls"},"output":"x","title":"","metadata":{},"time":{"start":1,"end":2}}"#,
    );
    let again = copy(&home, target.path(), &[]);
    assert_eq!((&again["copied"], &again["differing"]), (&1.into(), &json!([])), "{again}");
    assert_adds_up(&again);
    // And the running state does not come back.
    let back = copy(target.path(), &home, &[]);
    assert_eq!((&back["sessions"]["copied"], &back["differing"]), (&0.into(), &json!([])), "{back}");
}

#[test]
fn a_session_that_only_the_target_has_is_named_as_such() {
    let target = Fixture::unpack("small-1.18.33");
    let source = Fixture::unpack("opencode-1.1.65");
    let database = target.home().join("opencode.db");
    let id = text(&listed(&database, &[])[0], "id").to_owned();
    let [from, to] = [source.home(), &database].map(|path| path.to_str().unwrap());
    let ran = super::kit::plain(target.home(), &["copy", "--from", from, "--to", to, &id]).run();
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("none of the homes to copy from has it"), "{ran}");
}

/// A store knows what a document was before, so it can tell an old copy from a change.
#[test]
fn an_earlier_state_in_the_history_of_the_source_is_replaced() {
    let user = super::kit::User::new();
    user.write_session("1", "Order API", "what is left?", "nothing");
    let _ = user.annals(&["sync"]).run().ok();
    let target = tempfile::tempdir().unwrap();
    copy(&user.store(), target.path(), &[]);
    let renamed = |home: &Path, title: &str, updated: i64| {
        let path = home.join("storage/session/global/ses_1.json");
        let text = std::fs::read_to_string(&path).unwrap();
        let text = text
            .replace("Order API", title)
            .replace("\"updated\":1771950000000", &format!("\"updated\":{updated}"));
        std::fs::write(path, text).unwrap();
    };
    renamed(&user.opencode(), "Orders and refunds", 1_771_950_009_000);
    let _ = user.later(1, &["sync"]).run().ok();
    let again = copy(&user.store(), target.path(), &[]);
    assert_eq!((&again["copied"], &again["differing"]), (&1.into(), &json!([])), "{again}");
    assert_eq!(title_in(target.path(), "ses_1"), "Orders and refunds");
    assert_eq!(again["copiedSessions"], json!([{"id": "ses_1", "title": "Orders and refunds"}]));

    // A title that the store has never seen was given in the target.
    let other = tempfile::tempdir().unwrap();
    std::fs::create_dir(other.path().join("storage")).unwrap();
    copy(&user.opencode(), other.path(), &[]);
    let path = other.path().join("storage/session/global/ses_1.json");
    let text = std::fs::read_to_string(&path).unwrap();
    let text = text.replace("Orders and refunds", "Mine").replace("1771950009000", "1771950000000");
    std::fs::write(path, text).unwrap();
    let again = copy(&user.store(), other.path(), &[]);
    assert_eq!(again["differing"].as_array().unwrap().len(), 1, "{again}");
    assert_eq!(title_in(other.path(), "ses_1"), "Mine");
}

/// OpenCode 1.1 leaves the todo list of a session that it deletes, and the parts of a message that it deletes.
#[test]
fn what_is_left_of_a_deleted_session_does_not_stop_it_from_coming_back() {
    let user = super::kit::User::new();
    user.write_session("1", "Order API", "what is left?", "nothing");
    let todo = |home: &Path, text: &str| {
        let list = format!(r#"[{{"content":"{text}","status":"pending","priority":"high","id":"1"}}]"#);
        super::kit::write(home, "storage/todo/ses_1.json", list);
    };
    todo(&user.opencode(), "as it is now");
    let target = tempfile::tempdir().unwrap();
    std::fs::create_dir(target.path().join("storage")).unwrap();
    todo(target.path(), "left behind");
    let part =
        r#"{"id":"prt_12","sessionID":"ses_1","messageID":"msg_12","type":"text","text":"left behind"}"#;
    super::kit::write(target.path(), "storage/part/msg_12/prt_12.json", part);
    let copied = copy(&user.opencode(), target.path(), &[]);
    assert_eq!((&copied["sessions"]["copied"], &copied["quarantined"]), (&1.into(), &0.into()), "{copied}");
    assert!(annals(target.path(), &["todo", "ses_1"]).run().ok().text().contains("as it is now"));
    assert!(annals(target.path(), &["show", "ses_1"]).run().ok().text().contains("nothing"));
}
