//! A home of another shape: UUIDs for ids, order by line. Nothing but its adapter knows that.

use annals::search::Search;
use annals::store::Store;
use std::path::{Path, PathBuf};

use annals::SqliteStore;
use annals::history::{At, History, LogQuery};
use annals::home::{Read, UnreadableReason, Write};
use annals::model::id::RecordId;
use annals::model::search::query;
use annals::model::{Key, Provenance, Transaction};
use annals::search::{SearchRequest, Wanted};
use annals::sync::{self, Stage, SyncOptions, SyncOutcome};
use annals_testkit::conformance::{Kept, read_half};
use annals_testkit::jsonl_home::{EXAMPLE, JsonlHome};

use super::annals_store::empty_store;
use super::kit::{messages, session, session_id};

/// The session of the example.
fn id() -> &'static str {
    EXAMPLE.0.strip_suffix(".jsonl").unwrap()
}

/// A home with the example and another session in it.
fn example() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(EXAMPLE.0);
    std::fs::write(&path, EXAMPLE.1).unwrap();
    let other = EXAMPLE.1.replace("/shop", "/blog").replace("2026-02-03", "2026-02-04");
    let other = other.replace("-4", "-5").replace("Mend the cart", "Another");
    std::fs::write(directory.path().join("00000000-0000-4000-8000-000000000001.jsonl"), other).unwrap();
    (directory, path)
}

fn follow(store: &SqliteStore, path: &Path) -> SyncOutcome {
    let account = sync::sync(store, &[&JsonlHome::open(path)], SyncOptions::to(Stage::Text), &()).unwrap();
    assert_eq!(account.failed, Vec::<String>::new());
    account
}

/// The text of every message, in order.
fn texts(home: &dyn Read) -> Vec<String> {
    let (messages, _) = messages(home, &session(home, id()));
    let text = |part: &annals::model::Stored| {
        part.document.root().get("text").unwrap().as_text().unwrap().to_string()
    };
    messages.iter().map(|message| text(&message.parts[0])).collect()
}

fn found(store: &SqliteStore, words: &str) -> Vec<String> {
    let hits = store.search(&SearchRequest::new(Wanted::Words(query::parse(words).unwrap()))).unwrap().hits;
    hits.into_iter().map(|hit| hit.session.to_string()).collect()
}

#[test]
fn it_conforms_and_so_does_a_store_that_follows_it() {
    let (directory, _) = example();
    let home = JsonlHome::open(directory.path());
    read_half(&home, &Kept { history: false, n_sessions: 2 });
    let (_store_directory, store) = empty_store();
    follow(&store, directory.path());
    read_half(&store, &Kept { history: true, n_sessions: 2 });
    assert!(store.inspect().unwrap().check(annals::ids::now(), &|| ()).unwrap().is_empty());
}

#[test]
fn a_sync_keeps_the_order_of_lines_and_every_line() {
    let (directory, _) = example();
    let (_store_directory, store) = empty_store();
    let account = follow(&store, directory.path());
    assert_eq!((account.new, account.quarantined.len()), (2, 0));
    let home = JsonlHome::open(directory.path());
    let expected = texts(&home);
    assert_eq!(expected[0], "Why does the marmalade cart crash?");
    assert_eq!(expected[4], "It is mended now.");
    assert_eq!(texts(&store), expected);
    let (read, _) = messages(&store, &session(&store, id()));
    assert!(read.iter().all(|message| message.stored.provenance == Provenance::Other));
    let keys = store.session_keys(&session_id(id())).unwrap();
    for (n, line) in EXAMPLE.1.lines().enumerate() {
        let key = Key::Record(session_id(id()), RecordId::parse(&format!("{:06}", n + 1)).unwrap());
        let record = store.document(&key).unwrap().unwrap();
        assert_eq!((record.document.text(), record.provenance), (line, Provenance::Other));
        assert!(keys.contains(&key), "{key}");
    }
    assert_eq!(follow(&store, directory.path()).imported, 0);
    assert_eq!(found(&store, "marmalade").len(), 2);
    assert_eq!(found(&store, "\"first item\" role:assistant").len(), 2);
}

#[test]
fn what_is_added_to_a_file_is_found_and_what_was_there_stays_in_history() {
    let (directory, path) = example();
    let (_store_directory, store) = empty_store();
    follow(&store, directory.path());
    let first = store.head().unwrap();
    let line = r#"{"type":"user","uuid":"00000000-0000-4000-8000-000000000000","timestamp":"2026-02-03T10:00:00Z","message":{"text":"Thank you, quince."}}"#;
    std::fs::write(&path, format!("{}{line}\n", EXAMPLE.1)).unwrap();
    let account = follow(&store, directory.path());
    // The session, whose time moves on, the message, its part, and the line.
    assert_eq!((account.changed, account.imported, account.deleted), (1, 4, 0));
    assert_eq!(texts(&store).last().unwrap(), "Thank you, quince.");
    assert_eq!(found(&store, "quince"), [id()]);
    // A line that is taken away takes what was made from it along.
    std::fs::write(&path, EXAMPLE.1).unwrap();
    let account = follow(&store, directory.path());
    assert_eq!((account.changed, account.deleted), (1, 3));
    assert_eq!(texts(&store).len(), 5);
    let keys = |home: &dyn Read| home.session_keys(&session_id(id())).unwrap().len();
    let log = store.log(&LogQuery { session: Some(session_id(id())), ..Default::default() }).unwrap();
    assert_eq!(log.len(), 3);
    let then = store.at(At::Revision(log[1].number)).unwrap().unwrap();
    assert_eq!((texts(&*then).len(), keys(&*then)), (6, keys(&store) + 3));
    assert_eq!(texts(&*store.at(At::Revision(first)).unwrap().unwrap()), texts(&store));
    // What is changed in the store alone stands beside what the home says.
    let record = session(&store, id());
    let mut rename = Transaction::new("rename");
    rename.replace(&record.stored, record.stored.document.with(&["title"], "Mended").unwrap());
    store.commit(rename).unwrap();
    follow(&store, directory.path());
    assert_eq!(session(&store, id()).info.title(), "Mended");
}

#[test]
fn a_line_that_cannot_be_read_is_told_with_its_place_and_hides_nothing() {
    let (directory, path) = example();
    let (_store_directory, store) = empty_store();
    follow(&store, directory.path());
    let broken = EXAMPLE.1.replacen("It is mended now.\"}}", "It is", 1);
    std::fs::write(&path, &broken).unwrap();
    std::fs::write(directory.path().join("no id.jsonl"), "{}").unwrap();
    let home = JsonlHome::open(directory.path());
    let (read, quarantined) = messages(&home, &session(&home, id()));
    assert_eq!((read.len(), quarantined.len()), (4, 1));
    assert_eq!(quarantined[0].place, format!("{}:7", EXAMPLE.0));
    assert!(matches!(quarantined[0].reason, UnreadableReason::Json(_)));
    let mut places: Vec<String> =
        follow(&store, directory.path()).quarantined.into_iter().map(|problem| problem.place).collect();
    places.sort();
    assert_eq!(places, [quarantined[0].place.clone(), "no id.jsonl".to_owned()]);
    // What was read once stays as long as nobody knows what became of it.
    assert_eq!(texts(&store).len(), 5);
    std::fs::write(&path, EXAMPLE.1).unwrap();
    std::fs::remove_file(directory.path().join("no id.jsonl")).unwrap();
    assert!(follow(&store, directory.path()).quarantined.is_empty());
    // A session whose file is gone stays, and is known to be gone.
    std::fs::remove_file(&path).unwrap();
    assert_eq!(follow(&store, directory.path()).gone, [session_id(id())]);
    assert!(session(&store, id()).gone.is_some());
}
