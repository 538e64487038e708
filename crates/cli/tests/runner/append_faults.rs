//! A disk that fails in the middle of a stream: lines are refused, what was acknowledged is there, nothing is half-written, and the
//! session goes on when the disk does.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use annals::homes::opencode::database::{Generation, OpencodeDatabase};
use annals::homes::opencode::directory::OpencodeDirectory;
use annals::{Store, ids};
use serde_json::{Value, json};

use super::disk::{in_namespace, text as output_text};
use super::faults::compiled;
use super::kit::{annals, exported, in_parallel, memory, text};
use super::stream_model::{assert_all_is_there, events, has_open, texts};

/// Kinds of homes, each with the name of its path.
const KINDS: [(&str, &str); 4] = [
    ("annals.db", "annals.db"),
    ("a directory", "data"),
    ("1.2.27", "portable/opencode.db"),
    ("1.18.33", "latest/opencode.db"),
];

/// An empty home below a directory.
fn make_home(root: &Path, name: &str) -> PathBuf {
    let path = root.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    match name {
        "annals.db" => drop(Store::open(&path).unwrap()),
        "data" => drop(OpencodeDirectory::open_or_create(&path).unwrap()),
        "portable/opencode.db" => {
            drop(OpencodeDatabase::open_or_create(&path, Generation::Portable).unwrap());
        }
        _ => drop(OpencodeDatabase::open_or_create(&path, Generation::Latest).unwrap()),
    }
    path
}

fn lines(events: &[Value]) -> Vec<u8> {
    events.iter().flat_map(|event| format!("{event}\n").into_bytes()).collect()
}

fn answers_of(stdout: &[u8]) -> Vec<Value> {
    let stdout = String::from_utf8(stdout.to_vec()).unwrap();
    stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The session goes on: what is open is closed by the next writer.
fn goes_on(home: &Path, session: &str, place: &str) {
    let events = events(99);
    let again = annals(home, &["append", session]).stdin(&lines(&events)).run();
    assert_eq!(again.code, 0, "{place}: {again}");
    let export = exported(home, session);
    assert_all_is_there(&export, &events, &answers_of(&again.stdout), place);
    assert!(!has_open(&export), "{place}");
    let checked = annals(home, &["check", "--json"]).env("ANNALS_NOW", ids::now().to_string()).run();
    assert_eq!(checked.code, 0, "{place}: {checked}");
}

/// A call that fails.
#[derive(Debug, Clone, Copy)]
struct Fault {
    calls: &'static str,
    at: usize,
    kind: &'static str,
}

/// A stream that meets a fault in a home of its own. True if a line was refused because of it.
fn meets(shim: &Path, name: &str, fault: Fault) -> bool {
    let root = memory();
    let home = make_home(root.path(), name);
    let place = format!("{name}: {fault:?}");
    let session = annals(&home, &["new", "/tmp", "--title", "Faulty"]).run().ok().text().trim().to_owned();
    let events = events(1);
    let mut child = Command::new(env!("CARGO_BIN_EXE_annals"))
        .args(["append", &session, "--flush-every", "2", "--home"])
        .arg(&home)
        .env("HOME", root.path())
        .env("LD_PRELOAD", shim)
        .env("FAULT_DIRS", home.parent().unwrap())
        .env("FAULT_CALLS", fault.calls)
        .env("FAULT_AT", fault.at.to_string())
        .env("FAULT_KIND", fault.kind)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let bytes = lines(&events);
    let feeder = std::thread::spawn(move || {
        use std::io::Write;
        let _ = stdin.write_all(&bytes);
    });
    let output = child.wait_with_output().unwrap();
    feeder.join().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code().is_some_and(|code| [0, 1, 3].contains(&code)), "{place}: {said}");
    let answers = answers_of(&output.stdout);
    let before = exported(&home, &session);
    assert_all_is_there(&before, &events, &answers, &place);
    goes_on(&home, &session, &place);
    let after = texts(&exported(&home, &session));
    assert!(texts(&before).iter().all(|text| after.contains(text)), "{place}");
    answers.iter().any(|answer| answer["error"]["kind"] == "not-stored")
}

#[test]
fn a_call_that_fails_in_the_middle_of_a_stream_loses_nothing() {
    let root = memory();
    let shim = compiled(root.path());
    let mut points = Vec::new();
    for (_, name) in KINDS {
        for (calls, kind) in [("s", "eio"), ("w", "eio"), ("w", "enospc"), ("n", "eio"), ("o", "emfile")] {
            for at in [7, 23, 60] {
                points.push((name, Fault { calls, at, kind }));
            }
        }
    }
    let refused = in_parallel(&points, |(name, fault)| meets(&shim, name, *fault));
    let n_refused = refused.iter().filter(|refused| **refused).count();
    println!("{} faults, {n_refused} of them refused lines", points.len());
    assert!(n_refused > 10, "{n_refused}");
}

/// The disk fills up while a text is streamed. Everything acknowledged is there, and with room again the session goes on.
#[test]
fn a_full_disk_in_the_middle_of_a_stream_loses_nothing() {
    for (kind, name) in KINDS {
        let root = tempfile::tempdir().unwrap();
        let mut events = vec![
            json!({"type": "session-create", "directory": "/tmp", "title": "Full"}),
            json!({"type": "turn-start", "text": "Tell me all.", "model": "lab/lab-large"}),
            json!({"type": "answer-start"}),
            json!({"type": "text-start"}),
        ];
        for n in 0..80_u64 {
            // Nothing that could be compressed.
            let mut word = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mut piece = String::new();
            while piece.len() < 32_000 {
                word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                piece.push_str(&format!("{word:016x} "));
            }
            events.push(json!({"type": "text-delta", "delta": piece}));
            events.push(json!({"type": "flush"}));
        }
        events.push(json!({"type": "text-end"}));
        events.push(json!({"type": "answer-finish"}));
        events.push(json!({"type": "turn-finish"}));
        std::fs::write(root.path().join("events"), lines(&events)).unwrap();
        make_home(root.path(), &format!("empty/{name}").replace("empty/", ""));
        let script = r#"
            mkdir "$D/mnt"
            mount -t tmpfs -o size=3m tmpfs "$D/mnt"
            cp -r "$D/${N%%/*}" "$D/mnt/"
            "$A" --home "$D/mnt/$N" append < "$D/events" > "$D/answers" && echo unexpected || echo "exit $?"
            mount -o remount,size=60m "$D/mnt"
            S=$(head -1 "$D/answers" | sed 's/.*"session":"\([^"]*\)".*/\1/')
            "$A" --home "$D/mnt/$N" export "$S" > "$D/before"
            "$A" --home "$D/mnt/$N" check --fix --force --json > "$D/fix" || true
            echo '{"type":"turn-start","text":"Go on."}
            {"type":"turn-finish"}' | "$A" --home "$D/mnt/$N" append "$S" > /dev/null
            "$A" --home "$D/mnt/$N" export "$S" > "$D/after"
        "#;
        let script = format!("N={name}\n{script}");
        let (stdout, stderr) = output_text(&in_namespace(root.path(), &script));
        assert_eq!(stdout, "exit 1\n", "{kind}: {stderr}");
        assert!(stderr.contains("could not be closed") || stderr.contains("now aborted"), "{kind}: {stderr}");
        let read = |name: &str| std::fs::read(root.path().join(name)).unwrap();
        let json_of = |name: &str| serde_json::from_slice::<Value>(&read(name)).unwrap();
        let answers = answers_of(&read("answers"));
        let refused: Vec<&Value> = answers.iter().filter(|answer| !answer["error"].is_null()).collect();
        assert!(refused.iter().any(|answer| answer["error"]["kind"] == "not-stored"), "{kind}: {refused:?}");
        let n_stored = answers.len() - refused.len();
        assert!(n_stored > 8, "{kind}: {n_stored} answers before the disk was full");
        let (before, after) = (json_of("before"), json_of("after"));
        // Of the text everything that was acknowledged; then the turn was closed, and the session went on.
        assert_all_is_there(&before, &events, &answers, kind);
        assert!(!has_open(&after), "{kind}");
        assert!(texts(&after).contains(&"Go on.".to_owned()), "{kind}");
        assert_eq!(texts(&before)[..], texts(&after)[..texts(&before).len()], "{kind}");
        assert_eq!(
            text(&json_of("fix")["fix"]["closed"][0], "sessionID"),
            text(&answers[0], "session"),
            "{kind}"
        );
    }
}

/// A home that cannot be written to is left as it is, and that is said.
#[test]
fn a_read_only_home_refuses_turns() {
    for (kind, name) in KINDS {
        let root = tempfile::tempdir().unwrap();
        make_home(root.path(), name);
        let lines = r#"{"type":"turn-start","text":"Go.","model":"lab/lab-large"}
{"type":"answer-start"}"#;
        std::fs::write(root.path().join("lines"), lines).unwrap();
        let script = r#"
            H="$D/${N%%/*}"
            S=$("$A" --home "$D/$N" new /tmp)
            "$A" --home "$D/$N" append "$S" < "$D/lines" > /dev/null && echo unexpected || echo "aborted: $?"
            mount --bind "$H" "$H"; mount -o remount,bind,ro "$H"
            if [ -f "$H" ]; then mount --bind "$D" "$D"; mount -o remount,bind,ro "$D"; fi
            "$A" --home "$D/$N" append "$S" < "$D/lines" 2> /dev/null && echo unexpected || echo "exit $?"
        "#;
        let script = format!("N={name}\n{script}");
        let (stdout, stderr) = output_text(&in_namespace(root.path(), &script));
        let said: Vec<&str> = stdout.lines().collect();
        assert_eq!((said[0], said[said.len() - 1]), ("aborted: 1", "exit 3"), "{kind}: {stdout}{stderr}");
        assert!(said[1].contains("\"not-stored\"") && said[1].contains("Read-only"), "{kind}: {stdout}");
        assert!(said[2].contains("\"no-turn\""), "{kind}: {stdout}");
    }
}
