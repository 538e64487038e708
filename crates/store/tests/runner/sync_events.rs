//! OpenCode's log of changes as history: what it tells of homes that were never looked at before, and what that costs.

use annals::change_log::{ChangeLog, RecordedChange};
use annals::store::Store;
use std::collections::HashMap;
use std::path::Path;

use annals::history::{At, History};
use annals::home::Read;
use annals::model::Key;
use annals::query::SessionQuery;
use annals::sync::SyncOptions;
use annals_testkit::Fixture;

use super::annals_store::empty_store;
use super::kit::{export, messages, open_db, query, session_id};
use super::sync::{ALL, run};

const EVENTS: SyncOptions = SyncOptions { events: true, ..ALL };

/// How many bytes rows of a table and of its indexes take, without what pages waste.
/// Bytes of everything in a store, free room in its pages left out.
fn payload(store: &Path) -> f64 {
    number(store, "SELECT sum(payload) FROM dbstat")
}

fn number(store: &Path, sql: &str) -> f64 {
    query(store, sql)[0].parse().unwrap()
}

#[test]
fn a_recorded_log_changes_nothing_but_the_past() {
    for fixture in ["small-1.18.33", "opencode-1.18.33"] {
        let fixture = Fixture::unpack(fixture);
        let home = open_db(&fixture.home().join("opencode.db"));
        let (_directory, store) = empty_store();
        run(&store, &home, ALL);
        let exports = || -> Vec<Vec<u8>> {
            let sessions = home.sessions(&SessionQuery::default()).unwrap().value;
            sessions.iter().map(|record| export(&store, record.id.as_str())).collect()
        };
        let before = exports();
        let account = run(&store, &home, EVENTS);
        assert!(account.recorded > 0 && account.imported == 0 && account.deleted == 0, "{account:?}");
        assert!(exports() == before);
        let head = store.head().unwrap();
        assert_eq!(run(&store, &home, EVENTS).recorded, 0);
        assert_eq!(store.head().unwrap(), head);
        // Nor has a full sync anything to add.
        let full = run(&store, &home, SyncOptions { full: true, ..EVENTS });
        assert_eq!((full.imported, full.deleted, full.recorded), (0, 0, 0), "{full:?}");
    }
}

/// Reverted, then prompted again, both before anybody looked: eight messages are gone from the tables.
#[test]
fn a_session_is_what_it_was_before_an_undo() {
    let fixture = Fixture::unpack("opencode-1.18.33");
    let home = open_db(&fixture.home().join("opencode.db"));
    let (_directory, store) = empty_store();
    run(&store, &home, EVENTS);
    let session = session_id("ses_ed9e229a6ffeMNnekO75HDWDZB");
    let mut removed: Vec<(i64, Key)> = Vec::new();
    let mut last_written = 0;
    let mut visit = |change: RecordedChange| {
        match change.document {
            None => removed.push((change.time, change.key)),
            Some(_) if removed.is_empty() => last_written = change.time,
            Some(_) => {}
        }
        std::ops::ControlFlow::Continue(())
    };
    home.changes(&session, None, &mut visit).unwrap();
    assert_eq!(removed.len(), 8);
    let then = store.at(At::Time(last_written)).unwrap().unwrap();
    let record = then.session(&session).unwrap().unwrap();
    let (before, quarantined) = messages(&*then, &record);
    assert!(quarantined.is_empty());
    for (time, key) in &removed {
        assert!(
            before.iter().any(|message| message.stored.key == *key && !message.parts.is_empty()),
            "{key}"
        );
        let after = store.at(At::Time(*time)).unwrap().unwrap();
        assert!(after.document(key).unwrap().is_none(), "{key}");
        assert!(store.document(key).unwrap().is_none(), "{key}");
    }
    assert_eq!(before.iter().map(|message| message.parts.len()).sum::<usize>(), 34);
}

/// Also where documents are tiny: a model that was told to say one word said it.
#[test]
fn the_past_costs_less_than_a_fifth() {
    let fixture = Fixture::unpack("opencode-1.18.33");
    let home = open_db(&fixture.home().join("opencode.db"));
    let (_directory, store) = empty_store();
    let path = store.path();
    run(&store, &home, ALL);
    let before = payload(path);
    run(&store, &home, EVENTS);
    let past = payload(path) - before;
    assert!(number(path, "SELECT count(*) FROM past") > 300.0, "nothing was taken over");
    println!("{before} bytes, history {past}: {:.1} %", 100.0 * past / before);
    assert!(past < 0.2 * before, "{past} bytes of history, {before} of everything else");
}

/// States share revisions, which are dated late rather than early; but never so late that a later message is there first.
#[test]
fn a_message_is_whole_when_the_next_one_is_there() {
    let fixture = Fixture::unpack("opencode-1.18.33");
    let home = open_db(&fixture.home().join("opencode.db"));
    let (_directory, store) = empty_store();
    run(&store, &home, EVENTS);
    let mut n_looked = 0;
    for record in store.sessions(&SessionQuery::default()).unwrap().value {
        // When each document of the session was last written.
        let mut written: HashMap<Key, i64> = HashMap::new();
        let mut visit = |change: RecordedChange| {
            written.insert(change.key, change.time);
            std::ops::ControlFlow::Continue(())
        };
        home.changes(&record.id, None, &mut visit).unwrap();
        let (now, _) = messages(&store, &record);
        for pair in now.windows(2) {
            let [message, next] = pair else { continue };
            // One that was changed later was not yet what it is.
            let is_done = |key: &Key| written.get(key).is_some_and(|time| *time < next.made);
            if !message.parts.iter().all(|part| is_done(&part.key)) {
                continue;
            }
            let then = store.at(At::Time(next.made)).unwrap().unwrap();
            let Some(record) = then.session(&record.id).unwrap() else { continue };
            let (before, _) = messages(&*then, &record);
            let found = before.iter().find(|found| found.stored.key == message.stored.key);
            let n_parts = found.map_or(0, |found| found.parts.len());
            assert_eq!(n_parts, message.parts.len(), "{} at {}", message.stored.key, next.made);
            n_looked += 1;
        }
    }
    assert!(n_looked > 20, "{n_looked}");
}
