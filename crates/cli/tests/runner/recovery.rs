//! Turns that were interrupted: `check --fix` closes them everywhere and can be undone, `replay` lists their calls.

use std::collections::BTreeMap;

use annals_testkit::opencode::{Lab, OpenCode};
use serde_json::{Value, json};

use super::append::Pipe;
use super::kit::{Ran, User, annals, copy, exported, text};

const UNFINISHED: [&str; 2] = ["stuck-tool", "unfinished-message"];

fn fix(user: &User, minutes: i64, arguments: &[&str]) -> (Ran, Value) {
    let ran = user.later(minutes, &[&["check", "--fix", "--json"], arguments].concat()).run();
    let report = ran.json();
    (ran, report)
}

/// The sessions in which a check finds something unfinished.
fn unfinished(report: &Value) -> Vec<String> {
    let problems = report["problems"].as_array().unwrap().iter();
    let found = problems.filter(|problem| UNFINISHED.contains(&text(problem, "kind")));
    let mut sessions: Vec<String> = found.map(|problem| text(problem, "sessionID").to_owned()).collect();
    sessions.sort();
    sessions.dedup();
    sessions
}

/// The sessions that a fix closed, each with its homes.
fn closed(report: &Value) -> BTreeMap<String, Vec<String>> {
    let mut closed: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for turn in report["fix"]["closed"].as_array().unwrap() {
        closed.entry(text(turn, "sessionID").to_owned()).or_default().push(text(turn, "home").to_owned());
    }
    closed
}

#[test]
fn interrupted_turns_are_closed_and_an_undo_brings_back_every_byte() {
    for fixture in ["opencode-1.1.65", "opencode-1.2.27", "opencode-1.18.33"] {
        let user = User::with(fixture);
        // The sessions of the later fixtures are of later times.
        let later = 60 * 24 * 400;
        let before = user.later(later, &["check", "--json"]).run().json();
        let expected = unfinished(&before);
        assert!(expected.len() > 3, "{fixture}: {expected:?}");
        let rows = |user: &User| -> Vec<Vec<u8>> {
            let exports = expected.iter().map(|id| user.later(later, &["export", id]).run().ok().stdout);
            exports.collect()
        };
        let (files, exports) = (user.files(), rows(&user));
        let (ran, report) = fix(&user, later, &[]);
        assert_eq!(closed(&report).into_keys().collect::<Vec<_>>(), expected, "{fixture}: {ran}");
        assert_eq!(unfinished(&report), Vec::<String>::new(), "{fixture}: {ran}");
        assert_eq!(report["fix"]["left"], json!([]), "{fixture}: {ran}");
        assert_ne!(rows(&user), exports, "{fixture}");
        // A second time there is nothing to do.
        let (ran, again) = fix(&user, later, &[]);
        assert_eq!(
            (&again["fix"]["closed"], &again["fix"]["operation"]),
            (&json!([]), &Value::Null),
            "{ran}"
        );
        let _ = user.later(later, &["undo"]).run().ok();
        assert_eq!(rows(&user), exports, "{fixture}");
        if fixture == "opencode-1.1.65" {
            let theirs = |files: BTreeMap<std::path::PathBuf, Vec<u8>>| -> BTreeMap<_, _> {
                files
                    .into_iter()
                    .filter(|(path, _)| !path.display().to_string().contains(".annals"))
                    .collect()
            };
            assert!(theirs(user.files()) == theirs(files), "{fixture}: the files are as they were");
        }
    }
}

#[test]
fn a_session_is_closed_in_every_home_that_holds_it() {
    let user = User::with("opencode-1.1.65");
    let database = user.opencode().join("opencode.db");
    copy(&user.opencode(), &database, &[]);
    let (ran, report) = fix(&user, 60, &[]);
    let closed = closed(&report);
    assert!(closed.len() > 3 && closed.values().all(|homes| homes.len() == 2), "{ran}");
    assert_eq!(report["fix"]["places"].as_array().unwrap().len(), 2, "{ran}");
    let directory = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(user.opencode().join("storage"), directory.path().join("storage")).unwrap();
    for id in closed.keys() {
        let messages = |home: &std::path::Path| -> Vec<String> {
            let export = exported(home, id);
            let messages = export["messages"].as_array().unwrap().iter();
            messages.map(|message| text(&message["info"], "id").to_owned()).collect()
        };
        // An answer that was added has the same id in both.
        assert_eq!(messages(&database), messages(directory.path()), "{id}");
    }
}

#[test]
fn what_may_be_at_work_is_left_unless_forced() {
    let user = User::with("opencode-1.1.65");
    // The clock stands a few minutes after the last sessions.
    let (_, first) = fix(&user, -15 * 60 - 1180, &[]);
    assert_eq!(first["fix"]["operation"], Value::Null, "{first}");
    let recent: Vec<&Value> = first["fix"]["left"].as_array().unwrap().iter().collect();
    assert!(!recent.is_empty() && recent.iter().all(|turn| turn["reason"] == "recent"), "{first}");
    let said = user.later(-15 * 60 - 1180, &["check", "--fix"]).run();
    assert!(said.text().contains("`--force` closes it"), "{said}");
    let (_, forced) = fix(&user, -15 * 60 - 1180, &["--force"]);
    assert_eq!(forced["fix"]["closed"].as_array().unwrap().len(), recent.len(), "{forced}");
    assert_eq!(user.annals(&["check", "--force"]).run().code, 2);
}

#[test]
fn a_writer_that_was_killed_leaves_a_turn_that_is_closed_at_once() {
    let user = User::new();
    let mut pipe = Pipe::start(user.root(), &[]);
    pipe.tell(&json!({"type": "session-create"}));
    let session = pipe.begin();
    pipe.tell(&json!({"type": "text-start"}));
    pipe.send(&json!({"type": "text-delta", "delta": "I was just"}));
    pipe.tell(&json!({"type": "tool-call", "call": "c1", "tool": "bash"}));
    pipe.tell(&json!({"type": "tool-run", "call": "c1", "input": {"command": "make", "n": 12_345_678_901_234_567_890_u64}}));
    pipe.tell(&json!({"type": "tool-call", "call": "c2", "tool": "read"}));
    pipe.kill();
    let now = annals::ids::now().to_string();
    let replay = |arguments: &[&str]| -> Vec<Value> {
        let all = [&["replay", &session], arguments].concat();
        let ran = user.annals(&all).env("ANNALS_NOW", &now).run().ok();
        ran.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let open: Vec<_> =
        replay(&[]).iter().map(|call| (call["status"].clone(), call["interrupted"].clone())).collect();
    assert_eq!(open, [(json!("running"), json!(true)), (json!("pending"), json!(true))]);
    let ran = user.annals(&["check", "--fix"]).env("ANNALS_NOW", &now).run();
    assert!(ran.text().contains("closed 1 answer and 2 calls") && ran.code == 0, "{ran}");
    assert!(ran.stderr.contains("in the store only") && ran.stderr.contains("takes it back"), "{ran}");
    let export = user.annals(&["export", &session]).run().ok().json();
    let answer = &export["messages"][1];
    assert_eq!(answer["info"]["error"]["name"], "MessageAbortedError");
    assert_eq!(answer["parts"][1]["text"], "I was just");
    let calls = replay(&["--interrupted", "--tool", "bash"]);
    let [call] = &calls[..] else { panic!("{calls:?}") };
    assert_eq!((&call["status"], &call["error"]), (&json!("error"), &json!("Tool execution aborted")));
    // Exactly what the tool was given, also what JavaScript would round.
    assert_eq!(call["input"].to_string(), r#"{"command":"make","n":12345678901234567890}"#);
    assert_eq!((&call["session"], &call["call"]), (&json!(session), &json!("c1")));
    let _ = user.annals(&["undo"]).env("ANNALS_NOW", &now).run().ok();
    assert_eq!(replay(&["--interrupted"])[0]["status"], "running");
}

#[test]
fn calls_that_failed_are_listed_with_what_they_were_given() {
    let user = User::with("opencode-1.1.65");
    let _ = user.annals(&["sync"]).run();
    let listed = user.annals(&["list", "--json"]).run().ok().json();
    let (mut n_failed, mut n_interrupted) = (0, 0);
    for row in listed.as_array().unwrap() {
        let id = text(row, "id");
        let export = user.annals(&["--no-sync", "export", id]).run().ok();
        if !["\"error\": \"", "\"pending\"", "\"running\""].iter().any(|state| export.text().contains(state))
        {
            continue;
        }
        let export = export.json();
        let mut expected = Vec::new();
        for message in export["messages"].as_array().unwrap() {
            for part in message["parts"].as_array().unwrap() {
                let state = &part["state"];
                if part["type"] == "tool" && state["status"] != "completed" {
                    expected.push((part["id"].clone(), state["input"].clone(), state["error"].clone()));
                }
            }
        }
        let ran = user.annals(&["--no-sync", "replay", id]).run().ok();
        let lines: Vec<Value> = ran.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let found: Vec<_> = lines
            .iter()
            .map(|call| (call["part"].clone(), call["input"].clone(), call["error"].clone()))
            .collect();
        assert_eq!(found, expected, "{id}");
        n_failed += lines.iter().filter(|call| call["interrupted"] == false).count();
        n_interrupted += lines.iter().filter(|call| call["interrupted"] == true).count();
    }
    assert!(n_failed > 10 && n_interrupted > 5, "{n_failed} {n_interrupted}");
}

/// The real OpenCode goes on with a session that was interrupted and closed.
#[test]
fn opencode_exports_what_was_closed() {
    for (version, fixture) in [("1.1.65", "opencode-1.1.65"), ("1.18.33", "opencode-1.18.33")] {
        let user = User::with(fixture);
        let (_, report) = fix(&user, 60 * 24 * 400, &[]);
        let lab = Lab::new(&OpenCode::version(version));
        std::fs::remove_dir_all(lab.data()).unwrap_or_default();
        std::fs::rename(user.opencode(), lab.data()).unwrap();
        let repository = lab.bind_project("shop-api", "15e401e64f208f230e2422540fb7c58e13fb0681");
        let mut n_compared = 0;
        for id in closed(&report).keys().take(4) {
            let ours = annals(&lab.data(), &["export", id]).run().ok();
            let theirs = lab.cli(&repository, &["export", id], b"");
            if theirs.status.success() && !theirs.stdout.is_empty() {
                assert_eq!(String::from_utf8_lossy(&theirs.stdout), ours.text(), "{version}: {id}");
                n_compared += 1;
            }
        }
        assert!(n_compared > 1, "{version}");
    }
}
