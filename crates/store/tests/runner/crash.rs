//! A writer killed at any moment leaves every transaction whole or absent, and none that it acknowledged is absent.

use std::collections::BTreeMap;
use std::io::{BufRead, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use annals::home::{Read, Write};
use annals::model::id::{MessageId, PartId, SessionId};
use annals::model::{Document, Key, Transaction};
use annals_testkit::opencode::{Lab, OpenCode};

use super::kit::{PROJECT, Sample, export, messages, open, session, write};

/// How many writers are killed.
const KILLS: usize = 500;
pub(super) const SESSIONS: usize = 4;
const HOME: &str = "ANNALS_TEST_CRASH_HOME";

fn sample(n: usize) -> Sample {
    Sample::new(SessionId::parse(&format!("ses_4afbda00cffeCrash{n:09}")).unwrap(), "/home/dev/shop")
}

fn message(session: usize, n: usize) -> MessageId {
    MessageId::parse(&format!("msg_b50425{n:06x}Crash{session:09}")).unwrap()
}

fn part(message: usize, n: usize) -> PartId {
    PartId::parse(&format!("prt_b50426{message:06x}Crash{n:09}")).unwrap()
}

/// Transaction `n` of a session: its title and the text of its first message become `n`, message `n` appears with two
/// parts, message `n - 3` disappears with its own. Whoever looks must find all of that or nothing.
pub(super) fn transaction(home: &dyn Read, session: usize, n: usize) -> Transaction {
    let sample = sample(session);
    let now = 1_766_578_085_876 + n as i64;
    let mut transaction = Transaction::new(format!("transaction {n}"));
    let (lasting, lasting_part) = (message(session, 0), part(0, session));
    let put = |transaction: &mut Transaction, (key, document): (Key, Document)| match home
        .document(&key)
        .unwrap()
    {
        Some(old) => transaction.replace(&old, document),
        None => transaction.insert(key, document),
    };
    put(&mut transaction, (sample.session_key(), sample.session_document(&n.to_string(), now)));
    put(&mut transaction, sample.prompt(&lasting, 1_766_578_085_876));
    put(&mut transaction, sample.text(&lasting, &lasting_part, &n.to_string()));
    let added = message(session, n);
    put(&mut transaction, sample.answer(&added, &lasting, now));
    for m in 0..2 {
        put(&mut transaction, sample.text(&added, &part(n, 10 * session + m), &n.to_string()));
    }
    if let Some(gone) = n.checked_sub(3).filter(|gone| *gone > 0) {
        transaction.delete_any(Key::Message(sample.session.clone(), message(session, gone)));
        for m in 0..2 {
            let key = Key::Part(sample.session.clone(), message(session, gone), part(gone, 10 * session + m));
            transaction.delete_any(key);
        }
    }
    transaction
}

/// The writer that is killed: not a test, but what the test starts this binary for.
#[test]
fn writer_that_gets_killed() {
    let Ok(path) = std::env::var(HOME) else { return };
    let home = open(Path::new(&path));
    let mut counts: Vec<usize> = (0..SESSIONS).map(|n| state(&home, n).unwrap_or(0)).collect();
    let mut stdout = std::io::stdout();
    for turn in 0.. {
        let session = turn % SESSIONS;
        counts[session] += 1;
        home.commit(transaction(&home, session, counts[session])).unwrap();
        writeln!(stdout, "acknowledged {session} {}", counts[session]).unwrap();
        stdout.flush().unwrap();
    }
}

/// The last transaction of a session that can be seen, after checking that all of it can.
pub(super) fn state(home: &dyn Read, n: usize) -> Option<usize> {
    let sample = sample(n);
    let record = home.session(&sample.session).unwrap()?;
    let text =
        |document: &Document, field: &str| document.root().get(field).unwrap().as_text().unwrap().to_string();
    let title: usize = text(&record.stored.document, "title").parse().unwrap();
    let (messages, quarantined) = messages(home, &record);
    assert!(quarantined.is_empty(), "{quarantined:?}");
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for message in &messages {
        let texts = message.parts.iter().map(|part| text(&part.document, "text")).collect();
        found.insert(text(&message.stored.document, "id"), texts);
    }
    let mut expected = BTreeMap::from([(message(n, 0).to_string(), vec![title.to_string()])]);
    for kept in title.saturating_sub(2).max(1)..=title {
        expected.insert(message(n, kept).to_string(), vec![kept.to_string(); 2]);
    }
    assert_eq!(found, expected, "session {n} at transaction {title}");
    Some(title)
}

fn start(home: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "runner::crash::writer_that_gets_killed", "--nocapture", "--test-threads=1"])
        .env(HOME, home)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn every_acknowledged_transaction_survives_a_kill_and_no_half_one_is_seen() {
    let opencode = OpenCode::version("1.1.65");
    let lab = Lab::new(&opencode);
    let home_path = lab.data();
    std::fs::create_dir_all(home_path.join("storage")).unwrap();
    write(&home_path, "storage/migration", "2");
    let record = format!(
        r#"{{"id":"{PROJECT}","worktree":"/home/dev/shop","vcs":"git","sandboxes":[],"time":{{"created":1,"updated":1}}}}"#
    );
    write(&home_path, &format!("storage/project/{PROJECT}.json"), record);
    let mut acknowledged = [0; SESSIONS];
    let mut seed = 0x9e37_79b9_7f4a_7c15u64;
    let mut n_recovered = 0;
    for kill in 0..KILLS {
        let mut child = start(&home_path);
        let stdout = child.stdout.take().unwrap();
        let reader = std::thread::spawn(move || {
            let lines = std::io::BufReader::new(stdout).lines().map_while(Result::ok);
            // The test harness may have begun the line.
            lines.filter_map(|line| Some(line.split_once("acknowledged ")?.1.to_owned())).collect::<Vec<_>>()
        });
        // From before the first commit to some dozen commits later.
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        std::thread::sleep(Duration::from_micros(2_000 + (seed >> 33) % 60_000));
        child.kill().unwrap();
        child.wait().unwrap();
        for line in reader.join().unwrap() {
            let mut words = line.split(' ').map(|word| word.parse::<usize>().unwrap());
            let (session, n) = (words.next().unwrap(), words.next().unwrap());
            acknowledged[session] = n;
        }
        n_recovered += usize::from(home_path.join("storage/.annals/journal").exists());
        // Opening is what recovers, whoever does it.
        let home = open(&home_path);
        for (n, acknowledged) in acknowledged.iter_mut().enumerate() {
            let seen = state(&home, n).unwrap_or(0);
            assert!(
                seen == *acknowledged || seen == *acknowledged + 1,
                "kill {kill}: session {n} is at {seen}, acknowledged {acknowledged}"
            );
            *acknowledged = seen;
        }
        assert!(!home_path.join("storage/.annals/journal").exists());
    }
    assert!(acknowledged.iter().sum::<usize>() > KILLS / 4, "the writers did work: {acknowledged:?}");
    // If no kill ever fell between the decision and its end, the test would not have tested recovery.
    assert!(n_recovered > KILLS / 50, "{n_recovered} of {KILLS} kills left a transaction to finish");
    let repository = lab.bind_project("shop", PROJECT);
    let home = open(&home_path);
    for n in 0..SESSIONS {
        let id = sample(n).session;
        let theirs = lab.export(&repository, id.as_str());
        assert_eq!(String::from_utf8_lossy(&theirs), String::from_utf8_lossy(&export(&home, id.as_str())));
        assert!(session(&home, id.as_str()).stored.place.contains(PROJECT));
    }
    println!("{KILLS} kills, {n_recovered} recoveries, transactions {acknowledged:?}");
}
