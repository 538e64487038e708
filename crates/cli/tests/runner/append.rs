//! Turns through a pipe: what is acknowledged, what is refused, where it goes, and what is left when the stream breaks off.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use annals::homes::opencode::database::{Generation, OpencodeDatabase};
use serde_json::{Value, json};

use super::kit::{AnnalsCommand, Ran, User, annals, empty_home, exported, plain, text};

const LONG: Duration = Duration::from_secs(60);

/// `annals append`, fed line by line.
pub(super) struct Pipe {
    child: Child,
    stdin: Option<ChildStdin>,
    answers: Receiver<Value>,
    n_lines: usize,
}

impl Pipe {
    /// Starts a writer, as `user` would.
    pub(super) fn start(root: &Path, arguments: &[&str]) -> Pipe {
        let mut child = Command::new(env!("CARGO_BIN_EXE_annals"))
            .arg("append")
            .args(arguments)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", root)
            .current_dir(root)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let stdout = child.stdout.take().unwrap();
        let (sender, answers) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                // A line that a kill cut short is no answer.
                let Ok(answer) = serde_json::from_str(&line) else { return };
                if sender.send(answer).is_err() {
                    return;
                }
            }
        });
        let stdin = child.stdin.take();
        Pipe { child, stdin, answers, n_lines: 0 }
    }

    /// Sends a line, and does not wait for the answer.
    pub(super) fn send(&mut self, event: &Value) -> usize {
        self.send_text(&event.to_string())
    }

    fn send_text(&mut self, event: &str) -> usize {
        self.n_lines += 1;
        self.stdin.as_mut().unwrap().write_all(format!("{event}\n").as_bytes()).unwrap();
        self.n_lines
    }

    /// The next answer.
    pub(super) fn answer(&self) -> Value {
        self.answers.recv_timeout(LONG).expect("an answer")
    }

    /// Sends a line, and gives the answer to it.
    pub(super) fn ask(&mut self, event: &Value) -> Value {
        let line = self.send(event);
        loop {
            let answer = self.answer();
            if answer["line"] == line {
                return answer;
            }
        }
    }

    /// Sends a line, which must be acknowledged.
    #[track_caller]
    pub(super) fn tell(&mut self, event: &Value) -> Value {
        let answer = self.ask(event);
        assert!(answer["error"].is_null(), "{event}: {answer}");
        answer
    }

    /// Opens a turn with an answer. Gives the session.
    pub(super) fn begin(&mut self) -> String {
        let started = self.tell(&json!({"type": "turn-start", "text": "Go.", "model": "lab/lab-large"}));
        self.tell(&json!({"type": "answer-start"}));
        self.tell(&json!({"type": "step-start"}));
        text(&started, "session").to_owned()
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Ends the input and gives the exit code, and the answers that had not been taken.
    pub(super) fn end(mut self) -> (i32, Vec<Value>) {
        drop(self.stdin.take());
        let code = self.child.wait().unwrap().code().unwrap();
        (code, self.answers.iter().collect())
    }
}

/// Runs a stream that is known as a whole: what it printed, and the answers.
fn append(command: AnnalsCommand, lines: &str) -> (Ran, Vec<Value>) {
    let ran = command.stdin(lines.as_bytes()).run();
    let answers = ran.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (ran, answers)
}

/// The session of the documentation.
pub(super) fn example() -> String {
    let docs = std::fs::read_to_string(annals_testkit::workspace().join("docs/append.md")).unwrap();
    let block = docs.split("<!-- example -->\n```jsonl\n").nth(1).unwrap();
    block.split("```").next().unwrap().to_owned()
}

/// The statuses of all calls of a session, and the errors of its answers.
fn ends(export: &Value) -> (Vec<String>, Vec<String>) {
    let messages = export["messages"].as_array().unwrap();
    let parts = messages.iter().flat_map(|message| message["parts"].as_array().unwrap());
    let calls = parts.filter(|part| part["type"] == "tool").map(|part| text(&part["state"], "status"));
    let answers = messages.iter().filter(|message| message["info"]["role"] == "assistant");
    let errors = answers.map(|message| match message["info"]["time"]["completed"].is_number() {
        true => message["info"]["error"]["name"].as_str().unwrap_or("done").to_owned(),
        false => "open".to_owned(),
    });
    (calls.map(str::to_owned).collect(), errors.collect())
}

#[test]
fn the_session_of_the_documentation_is_written_and_shown() {
    let user = User::new();
    let (ran, answers) = append(user.annals(&["append"]), &example());
    assert_eq!(ran.code, 0, "{ran}");
    let n_deltas = example().matches("-delta\"").count();
    assert_eq!(answers.len(), example().lines().count() - n_deltas, "{ran}");
    assert!(answers.windows(2).all(|pair| pair[0]["line"].as_u64() < pair[1]["line"].as_u64()), "{ran}");
    assert!(ran.stderr.contains("writing to"), "{ran}");
    let session = text(&answers[0], "session");
    let child = answers.iter().find_map(|answer| answer["child"].as_str()).unwrap();
    let shown = user.annals(&["show", session, "--reasoning"]).run().ok().text();
    for said in
        ["How many files are here?", "The shell can count.", "Let me count.", "ls | wc -l", "12 files."]
    {
        assert!(shown.contains(said), "{said}: {shown}");
    }
    let tree = user.annals(&["tree", session]).run().ok().text();
    assert!(
        tree.contains("Count the files") && tree.contains("Name the largest (@explore subagent)"),
        "{tree}"
    );
    let listed = user.annals(&["list", "--json"]).run().ok().json();
    let row = listed.as_array().unwrap().iter().find(|row| row["id"] == session).unwrap();
    assert_eq!((&row["status"], &row["messages"]), (&json!("done"), &json!(3)), "{row}");
    assert!((row["cost"].as_f64().unwrap() - 0.0007).abs() < 1e-9, "{row}");
    let found = user.annals(&["search", "core.1234", "--json"]).run().ok().text();
    assert!(found.contains(child), "{found}");
    assert_eq!(user.annals(&["check"]).run().code, 0);
}

#[test]
fn what_does_not_fit_is_refused_and_the_stream_goes_on() {
    let user = User::new();
    let mut pipe = Pipe::start(user.root(), &[]);
    let kind = |answer: Value| answer["error"]["kind"].as_str().unwrap_or("none").to_owned();
    let refuse = |pipe: &mut Pipe, event: Value, expected: &str| {
        let answer = pipe.ask(&event);
        assert_eq!(kind(answer.clone()), expected, "{event}: {answer}");
    };
    refuse(&mut pipe, json!({"type": "flush"}), "no-session");
    refuse(&mut pipe, json!({"type": "session-create", "parent": "ses_none"}), "no-session");
    pipe.tell(&json!({"type": "session-create", "as": "main"}));
    refuse(&mut pipe, json!({"type": "session-create", "as": "main"}), "bad-event");
    refuse(&mut pipe, json!({"type": "turn-start", "text": "Go."}), "bad-event");
    refuse(&mut pipe, json!({"type": "turn-resume", "message": "msg_other"}), "no-prompt");
    refuse(&mut pipe, json!({"type": "answer-start"}), "no-turn");
    let session = pipe.begin();
    refuse(&mut pipe, json!({"type": "turn-start", "text": "Again."}), "turn-open");
    refuse(&mut pipe, json!({"type": "answer-start"}), "answer-open");
    refuse(&mut pipe, json!({"type": "explode"}), "unknown-event");
    refuse(&mut pipe, json!({"type": "flush", "session": "ses_none"}), "no-session");
    refuse(&mut pipe, json!(["flush"]), "bad-event");
    refuse(&mut pipe, json!({"type": "text-delta", "delta": "lost"}), "no-text");
    pipe.tell(&json!({"type": "text-start"}));
    refuse(&mut pipe, json!({"type": "text-start"}), "text-open");
    // Also where JavaScript cut a character in two.
    pipe.send_text(r#"{"type": "text-delta", "delta": "kept \ud83d"}"#);
    pipe.send_text(r#"{"type": "text-delta", "delta": "\uded2"}"#);
    refuse(&mut pipe, json!({"type": "answer-finish"}), "unfinished");
    pipe.tell(&json!({"type": "text-end"}));
    refuse(&mut pipe, json!({"type": "text-delta", "delta": "late"}), "no-text");
    refuse(&mut pipe, json!({"type": "tool-run", "call": "c9", "input": {}}), "no-call");
    pipe.tell(&json!({"type": "tool-call", "call": "c1", "tool": "bash"}));
    refuse(&mut pipe, json!({"type": "tool-call", "call": "c1", "tool": "bash"}), "call-open");
    refuse(&mut pipe, json!({"type": "tool-complete", "call": "c1", "output": ""}), "not-running");
    refuse(&mut pipe, json!({"type": "tool-run", "call": "c1", "input": [1]}), "bad-event");
    pipe.tell(&json!({"type": "tool-run", "call": "c1", "input": {"n": 1}}));
    refuse(&mut pipe, json!({"type": "tool-run", "call": "c1", "input": {}}), "running");
    pipe.tell(&json!({"type": "tool-complete", "call": "c1", "output": "done"}));
    refuse(&mut pipe, json!({"type": "tool-complete", "call": "c1", "output": "again"}), "no-call");
    refuse(&mut pipe, json!({"type": "answer-fail", "error": {"name": "Nobody"}}), "bad-event");
    pipe.tell(&json!({"type": "answer-finish"}));
    refuse(&mut pipe, json!({"type": "step-start"}), "no-answer");
    pipe.tell(&json!({"type": "turn-finish"}));
    refuse(&mut pipe, json!({"type": "turn-finish"}), "no-turn");
    let (code, rest) = pipe.end();
    assert_eq!((code, rest.len()), (3, 0), "{rest:?}");
    let export = user.annals(&["export", &session]).run().ok().json();
    assert_eq!(ends(&export), (vec!["completed".to_owned()], vec!["done".to_owned()]));
    let parts = export["messages"][1]["parts"].as_array().unwrap();
    assert_eq!(parts.iter().filter(|part| part["type"] == "text").count(), 1);
    assert!(parts.iter().any(|part| part["text"] == "kept 🛒"));
}

#[test]
fn a_stream_that_breaks_off_aborts_its_turn_and_keeps_what_was_acknowledged() {
    let begin = [
        json!({"type": "session-create", "title": "Broken"}),
        json!({"type": "turn-start", "text": "Go.", "model": "lab/lab-large"}),
        json!({"type": "answer-start"}),
        json!({"type": "text-start"}),
        json!({"type": "text-delta", "delta": "so far"}),
        json!({"type": "tool-call", "call": "c1", "tool": "bash"}),
        json!({"type": "tool-run", "call": "c1", "input": {"command": "sleep 9"}}),
    ];
    let begin: String = begin.iter().map(|event| format!("{event}\n")).collect();
    for (rest, line, error) in [
        ("", None, "the input ended inside 1 turn, now aborted"),
        ("{\"type\":\"tool-compl", Some(8), "line 8 is not JSON"),
        ("{\"type\":\"flush\"}\n}\n{\"type\":\"turn-finish\"}\n", Some(9), "line 9 is not JSON"),
        ("\u{0}\n", Some(8), "line 8 is not JSON"),
    ] {
        let user = User::new();
        let (ran, answers) = append(user.annals(&["append"]), &format!("{begin}{rest}"));
        assert_eq!(ran.code, 1, "{ran}");
        assert!(ran.stderr.contains(error), "{ran}");
        let session = text(&answers[0], "session");
        let last = answers.last().unwrap();
        assert_eq!(last["aborted"], json!([session]), "{ran}");
        let refused = answers.iter().find(|answer| answer["error"]["kind"] == "not-json");
        assert_eq!(refused.map(|refused| refused["line"].as_u64().unwrap()), line, "{ran}");
        let export = user.annals(&["export", session]).run().ok().json();
        assert_eq!(ends(&export), (vec!["error".to_owned()], vec!["MessageAbortedError".to_owned()]));
        let parts = export["messages"][1]["parts"].as_array().unwrap();
        assert!(parts.iter().any(|part| part["text"] == "so far"), "{export}");
        // The session goes on.
        let again = json!({"type": "turn-start", "text": "Go on."});
        let (ran, _) =
            append(user.annals(&["append", session]), &format!("{again}\n{{\"type\":\"turn-finish\"}}"));
        assert_eq!(ran.code, 0, "{ran}");
    }
}

#[test]
fn others_see_the_text_so_far_and_cannot_write() {
    let user = User::new();
    let session = user.annals(&["new", "--title", "Live"]).run().ok().text().trim().to_owned();
    let mut pipe = Pipe::start(user.root(), &[&session]);
    pipe.begin();
    pipe.tell(&json!({"type": "text-start"}));
    let line = pipe.send(&json!({"type": "text-delta", "delta": "Once upon"}));
    // Nothing else comes, so the piece is stored when its time has come.
    let answer = pipe.answer();
    assert_eq!(answer, json!({"line": line, "session": session, "deltas": 1}));
    let shown = user.annals(&["show", &session]).run().ok().text();
    assert!(shown.contains("Once upon"), "{shown}");
    let listed = user.annals(&["list"]).run().ok().text();
    assert!(listed.contains("Live"), "{listed}");
    let second = json!({"type": "turn-start", "text": "Me too.", "model": "lab/lab-large"});
    let (ran, answers) = append(user.annals(&["append", &session]), &second.to_string());
    assert_eq!(answers[0]["error"]["kind"], "held", "{ran}");
    let message = text(&answers[0]["error"], "message");
    assert!(message.starts_with(&format!("process {} on ", pipe.id())), "{message}");
    // Another session of the same store is free.
    assert_eq!(append(user.annals(&["append"]), &example()).0.code, 0);
    // Nor does a fix touch what somebody writes.
    let fixed = user.annals(&["check", "--fix", "--force", "--json"]).run().json();
    assert_eq!(fixed["fix"]["left"][0]["reason"], "held", "{fixed}");
    assert_eq!(fixed["fix"]["closed"], json!([]), "{fixed}");
    pipe.tell(&json!({"type": "text-end"}));
    pipe.tell(&json!({"type": "answer-finish"}));
    pipe.tell(&json!({"type": "turn-finish"}));
    assert_eq!(pipe.end().0, 0);
}

#[test]
fn a_signal_ends_the_stream_in_order() {
    let user = User::new();
    let mut pipe = Pipe::start(user.root(), &[]);
    pipe.tell(&json!({"type": "session-create"}));
    let session = pipe.begin();
    let id = pipe.id().to_string();
    assert!(Command::new("sh").args(["-c", "kill -TERM $0", &id]).status().unwrap().success());
    assert_eq!(pipe.answer()["aborted"], json!([session]));
    assert_eq!(pipe.end().0, 1);
    let export = user.annals(&["export", &session]).run().ok().json();
    assert_eq!(ends(&export).1, ["MessageAbortedError"]);
}

/// A home of OpenCode's, by its path.
fn homes() -> Vec<(&'static str, tempfile::TempDir, std::path::PathBuf)> {
    let directory = empty_home();
    let path = directory.path().to_owned();
    let mut homes = vec![("a directory", directory, path)];
    for (kind, generation) in [("1.2.27", Generation::Portable), ("1.18.33", Generation::Latest)] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("opencode.db");
        drop(OpencodeDatabase::open_or_create(&path, generation).unwrap());
        homes.push((kind, dir, path));
    }
    homes
}

#[test]
fn a_named_home_is_written_to() {
    for (kind, _dir, path) in homes() {
        let (ran, answers) = append(annals(&path, &["append"]), &example());
        assert_eq!(ran.code, 0, "{kind}: {ran}");
        let export = exported(&path, text(&answers[0], "session"));
        assert_eq!(export["messages"].as_array().unwrap().len(), 3, "{kind}");
        assert_eq!(ends(&export), (vec!["completed".to_owned(); 2], vec!["done".to_owned(); 2]), "{kind}");
        let _ = annals(&path, &["check"]).run().ok();
        let id =
            annals(&path, &["new", "/tmp", "--title", "Child", "--parent", text(&answers[0], "session")]);
        let id = id.run().ok().text();
        let created = exported(&path, id.trim());
        assert_eq!(created["info"]["parentID"], answers[0]["session"], "{kind}");
    }
}

#[test]
fn a_session_is_continued_in_the_home_that_holds_it() {
    for fixture in ["opencode-1.1.65", "small-1.2.27", "small-1.18.33"] {
        let user = User::with(fixture);
        let listed = user.annals(&["list", "--json"]).run().ok().json();
        let row = listed.as_array().unwrap().iter().find(|row| row["status"] == "done").unwrap();
        let session = text(row, "id");
        let lines = [
            json!({"type": "turn-start", "text": "And now?", "model": "lab/lab-large"}),
            json!({"type": "answer-start"}),
            json!({"type": "text-start"}),
            json!({"type": "text-delta", "delta": "Now it is done."}),
            json!({"type": "text-end"}),
            json!({"type": "answer-finish"}),
            json!({"type": "turn-finish"}),
        ];
        let lines: String = lines.iter().map(|event| format!("{event}\n")).collect();
        let (ran, _) = append(user.annals(&["append", session]), &lines);
        assert_eq!(ran.code, 0, "{fixture}: {ran}");
        let place = row["origins"][0].as_str().unwrap();
        assert!(ran.stderr.contains(&format!("writing to {place}")), "{fixture}: {ran}");
        // In OpenCode's home, and in the store.
        let there = exported(&user.opencode(), session);
        let last = there["messages"].as_array().unwrap().last().unwrap();
        assert!(last["parts"].as_array().unwrap().iter().any(|part| part["text"] == "Now it is done."));
        let shown = user.annals(&["show", session]).run().ok().text();
        assert!(shown.contains("And now?") && shown.contains("Now it is done."), "{fixture}: {shown}");
    }
}

#[test]
fn a_session_of_a_home_that_is_not_yours_is_left_alone() {
    let user = User::new();
    let other = annals_testkit::Fixture::unpack("small-1.2.27");
    let path = other.home().join("opencode.db");
    let _ = user.annals(&["sync", "--home", path.to_str().unwrap()]).run();
    let listed = user.annals(&["list", "--json"]).run().ok().json();
    let session = text(&listed[0], "id");
    let ran = user.annals(&["append", session]).stdin(b"{\"type\":\"flush\"}").run();
    assert_eq!(ran.code, 1, "{ran}");
    assert!(ran.stderr.contains("which is not one of your homes") && ran.stderr.contains("--home"), "{ran}");
}

#[test]
fn a_new_session_can_be_taken_back() {
    let user = User::new();
    let ran = user.annals(&["new", "--title", "Draft"]).run().ok();
    let id = ran.text().trim().to_owned();
    assert!(ran.stderr.contains("`annals undo 1` takes it back"), "{ran}");
    assert!(user.annals(&["list"]).run().ok().text().contains("Draft"));
    let _ = user.annals(&["undo"]).run().ok();
    assert!(!user.annals(&["list"]).run().text().contains("Draft"));
    assert_eq!(user.annals(&["new", "--title", " "]).run().code, 2);
    assert_eq!(user.annals(&["new", "--parent", &id]).run().code, 1);
    for (kind, dir, path) in homes() {
        let home = path.to_str().unwrap();
        let before = annals(&path, &["list", "--json"]).run().text();
        let new = plain(dir.path(), &["new", "/tmp", "--home", home, "--json"]).run().ok().json();
        assert!(new["places"][0].as_str().unwrap().contains(dir.path().to_str().unwrap()), "{kind}: {new}");
        let operation = new["operation"].to_string();
        let _ = plain(dir.path(), &["undo", &operation]).run().ok();
        assert_eq!(annals(&path, &["list", "--json"]).run().text(), before, "{kind}");
    }
}
