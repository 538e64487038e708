//! Subscriptions: every revision of every process is told once and in order, whoever reads how slowly.

use annals::store::Store;
use annals::upkeep::Upkeep;
use std::ops::Range;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use annals::SqliteStore;
use annals::events::{Event, EventChange, Events, NextError, Start, SubscribeError, Subscription};
use annals::history::History;
use annals::home::{Read, Write};
use annals::ids;
use annals::model::id::{ProjectId, SessionId};
use annals::model::{Document, Key, Transaction};
use annals::stores::sqlite::restore_backup;
use annals::sync::SyncOptions;
use annals_testkit::Fixture;

use super::annals_store::empty_store;
use super::kit::{Sample, open_db, session_id, sql};
use super::sync::{ALL, run};

/// Long enough for everything that is to come.
const LONG: Duration = Duration::from_secs(60);
/// Longer than it takes to notice what another process has committed.
const SHORT: Duration = Duration::from_millis(400);

const STORE: &str = "ANNALS_TEST_EVENTS_STORE";
const WRITER: &str = "ANNALS_TEST_EVENTS_WRITER";
/// How many transactions each of two processes commits; `docs/reliability.md` has the long form.
const COMMITS: &str = "ANNALS_EVENTS_COMMITS";

fn todo(session: &SessionId, n: usize) -> (Key, Document) {
    (Key::Todo(session.clone()), Document::parse(format!("[{n}]").into_bytes()).unwrap())
}

/// Commits a todo list.
fn put(store: &SqliteStore, session: &SessionId, n: usize) -> i64 {
    let mut transaction = Transaction::new(format!("put {n}"));
    let (key, document) = todo(session, n);
    transaction.put(key, document);
    store.commit(transaction).unwrap().revision.unwrap()
}

fn put_each(store: &SqliteStore, session: &SessionId, numbers: Range<usize>) {
    for n in numbers {
        put(store, session, n);
    }
}

fn delete(store: &SqliteStore, key: &Key) -> i64 {
    let mut transaction = Transaction::new("delete");
    transaction.delete(&store.document(key).unwrap().unwrap());
    store.commit(transaction).unwrap().revision.unwrap()
}

fn next(subscription: &mut Subscription) -> Arc<Event> {
    subscription.next(LONG).unwrap().expect("there is a next event")
}

/// The numbers of the next events, as many as are wanted.
fn numbers(subscription: &mut Subscription, n: usize) -> Vec<i64> {
    (0..n).map(|_| next(subscription).revision.number).collect()
}

fn assert_nothing_follows(subscription: &mut Subscription) {
    assert_eq!(subscription.next(SHORT).unwrap(), None);
}

#[test]
fn every_commit_is_told_with_what_it_put_and_deleted() {
    let (_directory, store) = empty_store();
    let session = ids::new_session();
    put(&store, &session, 0);
    let mut subscription = store.subscribe(Start::Now).unwrap();
    assert_nothing_follows(&mut subscription);
    let put_again = put(&store, &session, 1);
    let (key, _) = todo(&session, 0);
    let deleted = delete(&store, &key);
    let both = {
        let mut transaction = Transaction::new("both");
        let sample = Sample::new(session.clone(), "/home/dev/shop");
        transaction.insert(sample.session_key(), sample.session_document("x", 1));
        transaction.insert(key.clone(), todo(&session, 2).1);
        store.commit(transaction).unwrap();
        vec![EventChange::Put(sample.session_key()), EventChange::Put(key.clone())]
    };
    let events = [(); 3].map(|()| next(&mut subscription));
    assert_eq!(events[0].revision, store.revision(put_again).unwrap().unwrap());
    assert_eq!(events[0].changes, [EventChange::Put(key.clone())]);
    assert_eq!(events[1].revision.number, deleted);
    assert_eq!(events[1].changes, [EventChange::Delete(key.clone())]);
    assert_eq!(events[1].changes[0].key(), &key);
    assert_eq!(events[2].revision.reason, "both");
    assert_eq!(events[2].changes, both);
    assert_nothing_follows(&mut subscription);
}

#[test]
fn a_subscription_begins_where_it_is_told_to() {
    let (_directory, store) = empty_store();
    let session = ids::new_session();
    put_each(&store, &session, 0..5);
    let mut all = store.subscribe(Start::After(0)).unwrap();
    let mut rest = store.subscribe(Start::After(3)).unwrap();
    let mut later = store.subscribe(Start::After(5)).unwrap();
    put(&store, &session, 5);
    assert_eq!(numbers(&mut all, 6), [1, 2, 3, 4, 5, 6]);
    assert_eq!(numbers(&mut rest, 3), [4, 5, 6]);
    assert_eq!(numbers(&mut later, 1), [6]);
    let error = store.subscribe(Start::After(7)).unwrap_err();
    assert!(matches!(error, SubscribeError::Ahead { after: 7, head: 6, .. }), "{error}");
    assert!(error.to_string().ends_with("the last one is 6: read everything again and subscribe after 6"));
}

/// What was written again later, moved, or learnt later is told as History tells it.
#[test]
fn earlier_revisions_are_told_as_history_tells_them() {
    let fixture = Fixture::unpack("opencode-1.18.33");
    let home = open_db(&fixture.home().join("opencode.db"));
    let (_directory, store) = empty_store();
    run(&store, &home, ALL);
    run(&store, &home, SyncOptions { events: true, ..ALL });
    let session = ids::new_session();
    put_each(&store, &session, 0..3);
    delete(&store, &todo(&session, 0).0);
    put(&store, &session, 3);
    let head = store.head().unwrap();
    let mut subscription = store.subscribe(Start::After(0)).unwrap();
    let (mut n_learnt, mut n_deleted) = (0, 0);
    let mut latest = 0;
    for number in 1..=head {
        let event = next(&mut subscription);
        assert_eq!(event.revision, store.revision(number).unwrap().unwrap());
        n_learnt += usize::from(event.revision.time < latest);
        latest = latest.max(event.revision.time);
        let expected = store.changes(number).unwrap().into_iter().map(|changed| {
            match changed.is_step || changed.after.is_some() {
                true => EventChange::Put(changed.key),
                false => EventChange::Delete(changed.key),
            }
        });
        let sorted = |changes: &mut Vec<EventChange>| changes.sort_by_key(|change| format!("{change:?}"));
        let (mut expected, mut told): (Vec<_>, _) = (expected.collect(), event.changes.clone());
        sorted(&mut expected);
        sorted(&mut told);
        assert_eq!(told, expected, "revision {number}");
        n_deleted += told.iter().filter(|change| matches!(change, EventChange::Delete(_))).count();
    }
    assert!(n_learnt > 10 && n_deleted > 8, "{n_learnt} of {head} are early, {n_deleted} deleted");
    assert_nothing_follows(&mut subscription);
}

#[test]
fn a_session_that_moved_is_told_under_the_project_of_then() {
    let (_directory, store) = empty_store();
    let sample = Sample::new(ids::new_session(), "/home/dev/shop");
    let moved = Key::Session(ProjectId::global(), sample.session.clone());
    for key in [sample.session_key(), moved.clone()] {
        let mut transaction = Transaction::new("here");
        transaction.put(key, sample.session_document("x", 1));
        store.commit(transaction).unwrap();
    }
    let mut subscription = store.subscribe(Start::After(0)).unwrap();
    assert_eq!(next(&mut subscription).changes, [EventChange::Put(sample.session_key())]);
    assert_eq!(next(&mut subscription).changes, [EventChange::Put(moved)]);
}

#[test]
fn a_forgotten_session_is_not_told_of_and_no_revision_is_left_out() {
    let (_directory, store) = empty_store();
    let (kept, forgotten) = (ids::new_session(), ids::new_session());
    let mut transaction = Transaction::new("both");
    for session in [&kept, &forgotten] {
        let (key, document) = todo(session, 1);
        transaction.put(key, document);
    }
    store.commit(transaction).unwrap();
    put(&store, &forgotten, 2);
    let mut subscription = store.subscribe(Start::After(0)).unwrap();
    let mut begun = store.subscribe(Start::After(0)).unwrap();
    assert_eq!(next(&mut begun).changes.len(), 2);
    store.forget(&[forgotten]).unwrap();
    // These may get the numbers that the forgotten documents had.
    let sample = Sample::new(kept.clone(), "/home/dev/shop");
    sample.store(&store, "a", "b");
    assert_eq!(next(&mut subscription).changes, [EventChange::Put(todo(&kept, 1).0)]);
    assert_eq!(next(&mut subscription).changes, []);
    assert_eq!(next(&mut subscription).changes.len(), 5);
    assert_eq!(numbers(&mut begun, 2), [2, 3]);
}

#[test]
fn a_subscription_moves_to_another_thread() {
    let (_directory, store) = empty_store();
    let session = ids::new_session();
    let listeners: Vec<_> = (0..4)
        .map(|_| {
            let mut subscription = store.subscribe(Start::Now).unwrap();
            std::thread::spawn(move || numbers(&mut subscription, 200))
        })
        .collect();
    put_each(&store, &session, 0..200);
    for listener in listeners {
        assert!(listener.join().unwrap().into_iter().eq(1..=200));
    }
}

/// A commit of this process wakes subscribers: nobody waits for the next look.
#[test]
fn commits_of_this_process_are_told_at_once() {
    let (_directory, store) = empty_store();
    let session = ids::new_session();
    let mut subscription = store.subscribe(Start::Now).unwrap();
    let mut waits: Vec<Duration> = (0..21)
        .map(|n| {
            put(&store, &session, n);
            let committed = Instant::now();
            next(&mut subscription);
            committed.elapsed()
        })
        .collect();
    waits.sort_unstable();
    assert!(waits[10] < Duration::from_millis(30), "{waits:?}");
}

#[test]
fn whoever_stops_reading_delays_nobody_and_misses_nothing() {
    let (_directory, store) = empty_store();
    let sample = Sample::new(ids::new_session(), "/home/dev/shop");
    let mut never = store.subscribe(Start::Now).unwrap();
    let mut stalled = store.subscribe(Start::Now).unwrap();
    let mut reading = store.subscribe(Start::Now).unwrap();
    put(&store, &sample.session, 0);
    // It has read what there was, so from now on its queue is filled.
    assert_eq!(numbers(&mut stalled, 1), [1]);
    assert_nothing_follows(&mut stalled);
    let message = ids::new_message();
    let parts: Vec<_> = (0..50).map(|_| ids::new_part()).collect();
    for n in 0..200 {
        let mut transaction = Transaction::new("many changes");
        for part in &parts {
            let (key, document) = sample.text(&message, part, &n.to_string());
            transaction.put(key, document);
        }
        store.commit(transaction).unwrap();
    }
    assert!(numbers(&mut reading, 201).into_iter().eq(1..=201));
    assert!(numbers(&mut stalled, 100).into_iter().eq(2..=101));
    put(&store, &sample.session, 1);
    let last = |subscription: &mut Subscription, n: usize| {
        (0..n).map(|_| next(subscription)).last().map(|event| event.changes.clone())
    };
    let (key, _) = todo(&sample.session, 1);
    assert_eq!(last(&mut stalled, 101), Some(vec![EventChange::Put(key)]));
    assert!(numbers(&mut never, 202).into_iter().eq(1..=202));
    // All of them are back at the live feed.
    put(&store, &sample.session, 2);
    for mut subscription in [never, stalled, reading] {
        assert_eq!(last(&mut subscription, 1).map(|changes| changes.len()), Some(1));
    }
}

#[test]
fn a_subscription_outlives_its_store() {
    let (directory, store) = empty_store();
    let session = ids::new_session();
    let mut subscription = store.subscribe(Start::Now).unwrap();
    let idle = store.subscribe(Start::Now).unwrap();
    put(&store, &session, 0);
    drop(store);
    assert_eq!(numbers(&mut subscription, 1), [1]);
    let store = SqliteStore::open(&directory.path().join("annals.db")).unwrap();
    put(&store, &session, 1);
    drop(store);
    assert_eq!(numbers(&mut subscription, 1), [2]);
    assert_nothing_follows(&mut subscription);
    drop((subscription, idle));
}

#[test]
fn a_restored_backup_ends_what_was_told_beyond_it() {
    let (directory, store) = empty_store();
    let session = ids::new_session();
    put_each(&store, &session, 0..3);
    let backup = directory.path().join("backup.db");
    store.backup(&backup, &|_, _| {}).unwrap();
    let mut before = store.subscribe(Start::After(1)).unwrap();
    assert_eq!(numbers(&mut before, 2), [2, 3]);
    let mut beyond = store.subscribe(Start::After(3)).unwrap();
    put_each(&store, &session, 3..6);
    assert_eq!(numbers(&mut beyond, 3), [4, 5, 6]);
    restore_backup(&backup, store.path(), 0).unwrap();
    // As many commits as there were, so that numbers alone do not tell.
    std::thread::sleep(Duration::from_millis(5));
    put_each(&store, &session, 6..9);
    for _ in 0..2 {
        let error = beyond.next(LONG).unwrap_err();
        assert!(matches!(error, NextError::Replaced { reached: 6, .. }), "{error}");
    }
    assert_eq!(
        (0..3).map(|_| next(&mut before).revision.reason.clone()).collect::<Vec<_>>(),
        ["put 6", "put 7", "put 8"]
    );
    let mut again = store.subscribe(Start::Now).unwrap();
    put(&store, &session, 9);
    assert_eq!((numbers(&mut again, 1), numbers(&mut before, 1)), (vec![7], vec![7]));
}

static CLOCK: AtomicI64 = AtomicI64::new(0);

/// Times of revisions change when a clock was wrong; that does not make them others.
#[test]
fn a_clock_that_is_set_right_ends_no_subscription() {
    let (_directory, store) = empty_store();
    let store = store.with_clock(|| CLOCK.load(Ordering::SeqCst));
    let session = ids::new_session();
    let mut subscription = store.subscribe(Start::Now).unwrap();
    for (n, clock) in [(1, 1000), (2, 400_000), (3, 2000), (4, 3000)] {
        CLOCK.store(clock, Ordering::SeqCst);
        assert_eq!(put(&store, &session, n), n as i64);
        assert_eq!(numbers(&mut subscription, 1), [n as i64]);
    }
    assert_eq!(store.revision(2).unwrap().unwrap().time, 1000);
    let mut again = store.subscribe(Start::After(2)).unwrap();
    assert_eq!(numbers(&mut again, 2), [3, 4]);
}

#[test]
fn subscribers_come_and_go_while_others_commit() {
    let (_directory, store) = empty_store();
    let session = ids::new_session();
    const COMMITS: usize = 400;
    std::thread::scope(|scope| {
        scope.spawn(|| put_each(&store, &session, 0..COMMITS));
        for step in [1, 7, 50] {
            let store = &store;
            scope.spawn(move || {
                for after in (0..COMMITS as i64).step_by(step) {
                    while store.head().unwrap() < after {
                        std::thread::yield_now();
                    }
                    let mut subscription = store.subscribe(Start::After(after)).unwrap();
                    let until = (after + step as i64).min(COMMITS as i64);
                    assert!(
                        numbers(&mut subscription, (until - after) as usize)
                            .into_iter()
                            .eq(after + 1..=until)
                    );
                }
            });
        }
    });
}

#[test]
fn missing_revisions_are_reported_and_can_be_passed() {
    let (_directory, store) = empty_store();
    let session = ids::new_session();
    put_each(&store, &session, 0..5);
    sql(store.path(), "DELETE FROM revision WHERE n IN (2, 3)");
    let mut subscription = store.subscribe(Start::After(0)).unwrap();
    assert_eq!(numbers(&mut subscription, 1), [1]);
    let error = subscription.next(LONG).unwrap_err();
    assert!(matches!(&error, NextError::Missing { missing, .. } if *missing == (2..=3)), "{error}");
    let mut subscription = store.subscribe(Start::After(3)).unwrap();
    assert_eq!(numbers(&mut subscription, 2), [4, 5]);
}

/// The session that a writer writes to.
fn session_of(writer: usize) -> SessionId {
    session_id(&format!("ses_4afbda00cffeEventsWriter00{writer}"))
}

/// One of two writers: not a test, but what the test starts this binary for.
#[test]
fn writer_of_events() {
    let (Ok(path), Ok(writer)) = (std::env::var(STORE), std::env::var(WRITER)) else { return };
    let (store, writer) = (SqliteStore::open(Path::new(&path)).unwrap(), writer.parse().unwrap());
    for n in 1..=commits_of_each() {
        let mut transaction = Transaction::new(format!("{writer} {n}"));
        let (key, document) = todo(&session_of(writer), n);
        match is_deletion(n) {
            true => transaction.delete(&store.document(&key).unwrap().unwrap()),
            false => transaction.put(key, document),
        }
        store.commit(transaction).unwrap();
    }
}

fn is_deletion(n: usize) -> bool {
    n.is_multiple_of(5)
}

fn commits_of_each() -> usize {
    std::env::var(COMMITS).ok().map_or(2000, |commits| commits.parse().expect("a number of commits"))
}

fn start(store: &Path, writer: usize) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "runner::subscriptions::writer_of_events", "--test-threads=1"])
        .env(STORE, store)
        .env(WRITER, writer.to_string())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// Reads on from the revision `after` until all writers are done. Every number comes once and in order, and every writer's
/// transactions come once, in order, and say what they did. Returns how many there were, and how long the longest took to come.
fn read_all(mut subscription: Subscription, after: i64) -> (usize, i64) {
    let total = 2 * commits_of_each() as i64;
    let mut last: [Option<usize>; 2] = [None; 2];
    let mut longest = 0;
    for number in after + 1..=total {
        let event = next(&mut subscription);
        assert_eq!(event.revision.number, number);
        longest = longest.max(ids::now() - event.revision.time);
        let (writer, n) = event.revision.reason.split_once(' ').unwrap();
        let (writer, n): (usize, usize) = (writer.parse().unwrap(), n.parse().unwrap());
        assert!(last[writer].is_none_or(|last| last + 1 == n), "{n} of writer {writer} after {last:?}");
        last[writer] = Some(n);
        let key = Key::Todo(session_of(writer));
        let expected = if is_deletion(n) { EventChange::Delete(key) } else { EventChange::Put(key) };
        assert_eq!(event.changes, [expected]);
    }
    assert_eq!(last, [Some(commits_of_each()); 2]);
    assert_nothing_follows(&mut subscription);
    ((total - after) as usize, longest)
}

#[test]
fn two_processes_commit_and_no_subscriber_misses_anything() {
    let (_directory, store) = empty_store();
    let total = 2 * commits_of_each() as i64;
    let reading = store.subscribe(Start::Now).unwrap();
    let stalled = store.subscribe(Start::Now).unwrap();
    let mut watching = store.subscribe(Start::Now).unwrap();
    let reading = std::thread::spawn(move || read_all(reading, 0));
    let started = Instant::now();
    let writers = [0, 1].map(|writer| start(store.path(), writer));
    // A quarter of the way another one comes, and wants to know what was at an eighth.
    assert!(numbers(&mut watching, (total / 4) as usize).into_iter().eq(1..=total / 4));
    let late = store.subscribe(Start::After(total / 8)).unwrap();
    let late = std::thread::spawn(move || read_all(late, total / 8));
    for mut writer in writers {
        assert!(writer.wait().unwrap().success());
    }
    let committed = started.elapsed();
    let (n_told, longest) = reading.join().unwrap();
    assert_eq!(n_told as i64, total);
    assert_eq!(late.join().unwrap().0 as i64, total - total / 8);
    let told = started.elapsed();
    assert_eq!(read_all(stalled, 0).0 as i64, total);
    println!(
        "{total} commits of 2 processes in {committed:?}, all told after {told:?}, the longest wait {longest} ms"
    );
}
