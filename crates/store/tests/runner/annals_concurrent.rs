//! Many processes write one store: no update is lost, nobody is turned away, and whoever is killed takes nothing along
//! that was acknowledged.

use annals::store::Store;
use std::io::{BufRead, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use annals::history::{History, LogQuery};
use annals::home::{CommitError, Inspect, Read, Write};
use annals::model::Transaction;
use annals::model::id::SessionId;
use annals::stores::sqlite::SqliteStore;

use super::annals_store::empty_store;
use super::crash::{SESSIONS, state, transaction};
use super::kit::Sample;

const STORE: &str = "ANNALS_TEST_CONCURRENT_STORE";
const TASK: &str = "ANNALS_TEST_CONCURRENT_TASK";
const WRITERS: usize = 16;
const TRANSACTIONS: usize = 1000;
/// How often all writers are killed.
const KILLS: usize = 60;
/// Long after everything that a store says was written.
const NOW: i64 = 1_900_000_000_000;

fn sample() -> Sample {
    Sample::new(SessionId::parse("ses_4afbda00cffeConcurrent0002").unwrap(), "/home/dev/shop")
}

fn count(home: &dyn Read) -> usize {
    let stored = home.document(&sample().session_key()).unwrap().unwrap();
    stored.document.root().get("count").unwrap().as_f64().unwrap() as usize
}

/// Reads the counter, adds one, writes it; on a conflict it starts over. Returns how often it had to.
fn increment(store: &SqliteStore) -> usize {
    for tries in 0.. {
        let stored = store.document(&sample().session_key()).unwrap().unwrap();
        let count = stored.document.root().get("count").unwrap().as_f64().unwrap() + 1.0;
        let mut transaction = Transaction::new(format!("count to {count}"));
        transaction.replace(&stored, stored.document.with(&["count"], &count).unwrap());
        match store.commit(transaction) {
            Ok(receipt) => {
                assert!(receipt.revision.is_some());
                return tries;
            }
            Err(CommitError::Conflict { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    unreachable!("one try was the last")
}

/// One of the writers: not a test, but what the tests start this binary for.
#[test]
fn writer_of_a_store() {
    let (Ok(path), Ok(task)) = (std::env::var(STORE), std::env::var(TASK)) else { return };
    let store = SqliteStore::open(Path::new(&path)).unwrap();
    let mut stdout = std::io::stdout();
    match task.as_str() {
        "count" => {
            let n_conflicts: usize = (0..TRANSACTIONS).map(|_| increment(&store)).sum();
            println!("conflicts {n_conflicts}");
        }
        session => {
            let session: usize = session.parse().unwrap();
            for n in state(&store, session).unwrap_or(0) + 1.. {
                let revision = store.commit(transaction(&store, session, n)).unwrap().revision.unwrap();
                writeln!(stdout, "acknowledged {n} {revision}").unwrap();
                stdout.flush().unwrap();
            }
        }
    }
}

fn start(store: &SqliteStore, task: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "runner::annals_concurrent::writer_of_a_store", "--nocapture", "--test-threads=1"])
        .env(STORE, store.path())
        .env(TASK, task)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// The numbers that follow a word in the lines of a process.
fn said(child: &mut Child, word: &'static str) -> std::thread::JoinHandle<Vec<Vec<i64>>> {
    let lines = std::io::BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    std::thread::spawn(move || {
        // The test harness may have begun the line.
        let said = lines.filter_map(|line| Some(line.split_once(word)?.1.to_owned()));
        said.map(|line| line.split_whitespace().map_while(|word| word.parse().ok()).collect()).collect()
    })
}

fn assert_in_order(store: &SqliteStore) {
    let problems = store.check(NOW, &|| {}).unwrap();
    assert!(problems.is_empty(), "{problems:#?}");
}

#[test]
fn sixteen_processes_lose_no_update_and_nobody_is_turned_away() {
    let (_directory, store) = empty_store();
    let mut begin = Transaction::new("begin");
    let document = sample().session_document("counter", 1_766_578_085_876).with(&["count"], &0.0).unwrap();
    begin.insert(sample().session_key(), document);
    store.commit(begin).unwrap();
    let started = Instant::now();
    let mut writers: Vec<Child> = (0..WRITERS).map(|_| start(&store, "count")).collect();
    let said: Vec<_> = writers.iter_mut().map(|writer| said(writer, "conflicts ")).collect();
    // Readers see the counter grow.
    let mut last = 0;
    while last < WRITERS * TRANSACTIONS
        && writers.iter_mut().any(|writer| writer.try_wait().unwrap().is_none())
    {
        let now = count(&store);
        assert!(now >= last);
        last = now;
        std::thread::sleep(Duration::from_millis(20));
    }
    for mut writer in writers {
        assert!(writer.wait().unwrap().success());
    }
    let took = started.elapsed();
    let n_conflicts: i64 = said.into_iter().map(|said| said.join().unwrap()[0][0]).sum();
    let total = WRITERS * TRANSACTIONS;
    assert_eq!(count(&store), total);
    assert_eq!(store.head().unwrap(), total as i64 + 1);
    let mut numbers: Vec<i64> =
        store.log(&LogQuery::default()).unwrap().iter().map(|revision| revision.number).collect();
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(1..=total as i64 + 1), "every number once");
    assert_in_order(&store);
    println!("{total} transactions of {WRITERS} processes in {took:?}, {n_conflicts} conflicts");
}

#[test]
fn killed_writers_take_nothing_along_that_was_acknowledged() {
    let (_directory, store) = empty_store();
    let mut acknowledged = [0; SESSIONS];
    let mut seed = 0x9e37_79b9_7f4a_7c15u64;
    let (mut n_acknowledged, mut n_further) = (0, 0);
    for kill in 0..KILLS {
        let mut writers: Vec<Child> =
            (0..SESSIONS).map(|session| start(&store, &session.to_string())).collect();
        let said: Vec<_> = writers.iter_mut().map(|writer| said(writer, "acknowledged ")).collect();
        for writer in &mut writers {
            // From before the first commit to some dozen commits later, each at another time.
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            std::thread::sleep(Duration::from_micros(2_000 + (seed >> 33) % 60_000));
            writer.kill().unwrap();
        }
        for mut writer in writers {
            writer.wait().unwrap();
        }
        for (session, said) in said.into_iter().enumerate() {
            for line in said.join().unwrap() {
                let [n, revision] = line[..] else { continue };
                acknowledged[session] = n;
                n_acknowledged += 1;
                let revision = store.revision(revision).unwrap().unwrap();
                assert_eq!(revision.reason, format!("transaction {n}"), "kill {kill}");
            }
        }
        let fresh = SqliteStore::open(store.path()).unwrap();
        for (session, acknowledged) in acknowledged.iter_mut().enumerate() {
            let seen = state(&fresh, session).unwrap_or(0) as i64;
            assert!(
                seen == *acknowledged || seen == *acknowledged + 1,
                "kill {kill}: session {session} is at {seen}, acknowledged {acknowledged}"
            );
            n_further += usize::from(seen != *acknowledged);
            *acknowledged = seen;
        }
        if kill % 10 == 9 {
            assert_in_order(&fresh);
        }
    }
    assert!(n_acknowledged > KILLS, "the writers did work: {acknowledged:?}");
    let head = store.head().unwrap();
    assert_eq!(head, acknowledged.iter().sum::<i64>());
    assert_in_order(&store);
    println!(
        "{} processes killed, {n_acknowledged} transactions acknowledged, {n_further} committed and not acknowledged",
        KILLS * SESSIONS
    );
}
