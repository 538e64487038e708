//! What a sync costs when there is nothing to do, counted in system calls.

use std::path::Path;
use std::process::{Command, Stdio};

use annals::stores::sqlite::SqliteStore;
use annals::sync::source::Source;

use super::kit::{Sample, open, write};
use super::sync::{ALL, run};

const SESSIONS: usize = 200;
const HOME: &str = "ANNALS_TEST_SYNC_HOME";

/// A home of so many sessions that were left alone long ago, each with two messages and their parts.
fn make(home: &Path, n_sessions: usize) {
    // Both what documents say and when their files were written is long ago.
    let then = annals::ids::now() - 86_400_000;
    std::fs::create_dir_all(home.join("storage/message")).unwrap();
    for n in 0..n_sessions {
        let sample = Sample::new(annals::ids::new_session(), "/home/dev/shop");
        let (user, assistant) = (annals::ids::new_message(), annals::ids::new_message());
        for (key, document) in [
            (sample.session_key(), sample.session_document(&format!("Session {n}"), then)),
            sample.prompt(&user, then),
            sample.text(&user, &annals::ids::new_part(), "What is it?"),
            sample.answer(&assistant, &user, then),
            sample.text(&assistant, &annals::ids::new_part(), "It is this."),
        ] {
            let path = match &key {
                annals::model::Key::Session(project, session) => format!("session/{project}/{session}"),
                annals::model::Key::Message(session, message) => format!("message/{session}/{message}"),
                annals::model::Key::Part(_, message, part) => format!("part/{message}/{part}"),
                other => panic!("{other}"),
            };
            write(home, &format!("storage/{path}.json"), document.text());
        }
    }
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(86_400);
    let messages =
        std::fs::read_dir(home.join("storage/message")).unwrap().map(|entry| entry.unwrap().path());
    for path in annals_testkit::files_below(home).into_iter().chain(messages) {
        std::fs::File::open(path).unwrap().set_modified(old).unwrap();
    }
}

/// The sync that is counted: not a test, but what the test starts this binary for.
#[test]
fn sync_that_gets_counted() {
    let Ok(path) = std::env::var(HOME) else { return };
    let path = Path::new(&path);
    let store = SqliteStore::open(&path.join("annals.db")).unwrap();
    let home: Box<dyn Source> = Box::new(open(path));
    let account = run(&store, &*home, ALL);
    println!("looked at {} of {}", account.looked, account.sessions);
}

/// Two for each session, which tell when its document and its messages were written to, and what it takes to read the
/// store.
#[test]
fn a_sync_with_nothing_to_do_makes_few_system_calls() {
    let (n_constant, _) = n_calls(0);
    let (n_all, calls) = n_calls(SESSIONS);
    let for_each = (n_all - n_constant) as f64 / SESSIONS as f64;
    println!("{n_all} system calls, {for_each:.2} for a session and {n_constant} at any rate");
    assert!(for_each < 4.0, "{for_each} system calls for each session:\n{calls}");
    // Half of them look for libraries, where cargo tells the loader to look in many places.
    assert!(n_constant < 800, "{n_constant} system calls for nothing");
}

/// The system calls of the second sync of a home of so many sessions: how many, and which.
fn n_calls(n_sessions: usize) -> (usize, String) {
    let directory = tempfile::tempdir().unwrap();
    make(directory.path(), n_sessions);
    let store = SqliteStore::open_or_create(&directory.path().join("annals.db")).unwrap();
    let account = run(&store, &open(directory.path()), ALL);
    assert_eq!((account.new, account.seen), (n_sessions, 5 * n_sessions), "{account:?}");
    drop(store);
    let trace = directory.path().join("trace");
    let output = Command::new("strace")
        .args(["-f", "-o"])
        .arg(&trace)
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "runner::sync_cost::sync_that_gets_counted", "--nocapture", "--test-threads=1"])
        .env(HOME, directory.path())
        .stderr(Stdio::inherit())
        .output()
        .expect("strace is installed: scripts/test does");
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains(&format!("looked at 0 of {n_sessions}")), "{said}");
    let trace = std::fs::read_to_string(trace).unwrap();
    let is_call = |line: &&str| !line.contains("resumed>") && !line.contains("+++");
    (trace.lines().filter(is_call).count(), counted(&trace))
}

/// How often each system call was made.
fn counted(trace: &str) -> String {
    let mut counts = std::collections::BTreeMap::<&str, usize>::new();
    for line in trace.lines() {
        let call = line.split_whitespace().nth(1).and_then(|call| call.split('(').next());
        *counts.entry(call.unwrap_or_default()).or_default() += 1;
    }
    counts.iter().map(|(call, n)| format!("{n} {call}\n")).collect()
}
