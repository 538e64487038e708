//! OpenCode's log of changes as history: what it tells of homes that were never looked at before, and what that costs.

use std::path::Path;

use annals::history::{At, History};
use annals::home::Read;
use annals::model::Key;
use annals::query::SessionQuery;
use annals::sync::Options;
use annals_testkit::Fixture;

use super::annals_store::empty_store;
use super::kit::{export, messages, open_db, query, session_id};
use super::sync::{ALL, run};

const EVENTS: Options = Options { events: true, ..ALL };

/// How many bytes rows of a table and of its indexes take, without what pages waste.
fn payload(store: &Path, tables: &str) -> f64 {
    number(store, &format!("SELECT sum(payload) FROM dbstat WHERE name IN ({tables})"))
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
        let full = run(&store, &home, Options { full: true, ..EVENTS });
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
    let mut visit = |change: annals::home::opencode_db::Recorded| {
        match change.document {
            None => removed.push((change.time, change.key)),
            Some(_) if removed.is_empty() => last_written = change.time,
            Some(_) => {}
        }
        std::ops::ControlFlow::Continue(())
    };
    home.events(&session, None, &mut visit).unwrap();
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

/// Every document gets a revision that says since when it is there, some 60 bytes; earlier states are few. In sessions
/// with documents of ordinary size (the generator of `bench/`, made after real ones, has 510 bytes on average, compressed)
/// that is less than a fifth. Those of the fixture are tiny: a model that was told to say one word said it. All of them
/// together have 180 bytes to a document, and history adds more than half to that.
#[test]
fn the_past_costs_less_than_a_fifth() {
    let fixture = Fixture::unpack("opencode-1.18.33");
    let home = open_db(&fixture.home().join("opencode.db"));
    let (_directory, store) = empty_store();
    let path = store.path();
    run(&store, &home, ALL);
    let bookkeeping = "'revision', 'revision_learnt', 'touched', 'touched_revision'";
    let (kept, before) = (number(path, "SELECT sum(length(data)) FROM document"), payload(path, bookkeeping));
    run(&store, &home, EVENTS);
    let n_revisions = number(path, "SELECT count(*) FROM revision WHERE learnt");
    let n_states = number(path, "SELECT count(*) FROM past");
    let n_documents = number(path, "SELECT count(*) FROM document WHERE hash NOTNULL");
    let revisions = payload(path, bookkeeping) - before;
    let states = payload(path, "'past'");
    println!(
        "{n_documents} documents, {kept} bytes; history: {n_states} states, {states} bytes, {n_revisions} revisions, \
         {revisions} bytes: {:.0} %",
        100.0 * (states + revisions) / kept
    );
    // One revision for each document at most, and two states for a session: it gets a model, then a title.
    assert!(revisions / n_documents < 80.0 && states / n_documents < 50.0);
    // The parts of each session, those of which are no longer than usual left out.
    let by_session = format!(
        "WITH of_session AS (SELECT d.n, length(d.data) AS bytes, \
           CASE d.kind WHEN 2 THEN d.n WHEN 4 THEN (SELECT m.owner FROM document m WHERE m.n = d.owner) ELSE d.owner END AS s \
           FROM document d WHERE d.kind <> 1), \
         kept AS (SELECT s, sum(bytes) AS bytes, avg(bytes) AS mean FROM of_session GROUP BY s), \
         states AS (SELECT s, count(*) * {} AS bytes FROM past JOIN of_session ON n = document GROUP BY s), \
         revisions AS (SELECT session AS s, count(*) * {} AS bytes FROM touched GROUP BY session) \
         SELECT 100.0 * (coalesce(states.bytes, 0) + revisions.bytes) / kept.bytes FROM kept \
         JOIN revisions USING (s) LEFT JOIN states USING (s) WHERE mean >= 500",
        states / n_states,
        revisions / n_revisions
    );
    let ordinary: Vec<f64> =
        query(path, &by_session).iter().map(|percent| percent.parse().unwrap()).collect();
    println!("sessions with ordinary documents: {ordinary:.1?} %");
    assert!(ordinary.len() >= 2 && ordinary.iter().all(|percent| *percent < 20.0), "{ordinary:?}");
}
