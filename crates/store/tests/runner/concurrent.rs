//! Several processes write one home: nothing is lost, nothing is torn, no reader sees half a transaction.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use annals::home::{CommitError, Write};
use annals::model::id::{MessageId, PartId, SessionId};
use annals::model::{Key, Transaction};

use super::kit::{Sample, empty_home, messages, open, session, write};

const HOME: &str = "ANNALS_TEST_CONCURRENT_HOME";
const WRITERS: usize = 3;
const INCREMENTS: usize = 120;

fn sample() -> Sample {
    Sample::new(SessionId::parse("ses_4afbda00cffeConcurrent0001").unwrap(), "/home/dev/shop")
}

fn message() -> MessageId {
    MessageId::parse("msg_b50425ff7001Concurrent0001").unwrap()
}

fn part(n: usize) -> PartId {
    PartId::parse(&format!("prt_b50425ff7001Concurrent{n:04}")).unwrap()
}

/// Reads the counter, adds one, writes it to four documents at once; on a conflict it starts over.
fn increment(home: &dyn Write) {
    let keys: Vec<Key> = (0..2)
        .map(|n| Key::Part(sample().session, message(), part(n)))
        .chain([Key::Message(sample().session, message())])
        .collect();
    loop {
        let record = session(home, sample().session.as_str());
        let count = record.stored.document.root().get("count").unwrap().as_f64().unwrap() + 1.0;
        let mut transaction = Transaction::new("count");
        transaction.replace(&record.stored, record.stored.document.with(&["count"], &count).unwrap());
        for key in &keys {
            let old = home.document(key).unwrap().unwrap();
            transaction.replace(&old, old.document.with(&["count"], &count).unwrap());
        }
        match home.commit(transaction) {
            Ok(_) => return,
            Err(CommitError::Conflict { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// One of the writers: not a test, but what the test starts this binary for.
#[test]
fn writer_among_others() {
    let Ok(path) = std::env::var(HOME) else { return };
    let home = open(Path::new(&path));
    (0..INCREMENTS).for_each(|_| increment(&home));
}

#[test]
fn no_update_is_lost_and_readers_see_whole_transactions() {
    let (dir, home) = empty_home();
    let sample = sample();
    let now = 1_766_578_085_876;
    let mut transaction = Transaction::new("begin");
    let documents = [
        (sample.session_key(), sample.session_document("counter", now)),
        sample.prompt(&message(), now),
        sample.text(&message(), &part(0), "a"),
        sample.text(&message(), &part(1), "b"),
    ];
    for (key, document) in documents {
        transaction.insert(key, document.with(&["count"], &0.0).unwrap());
    }
    home.commit(transaction).unwrap();
    let writers: Vec<_> = (0..WRITERS)
        .map(|_| {
            Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "runner::concurrent::writer_among_others", "--test-threads=1"])
                .env(HOME, dir.path())
                .stdout(Stdio::null())
                .spawn()
                .unwrap()
        })
        .collect();
    let done = AtomicBool::new(false);
    let n_reads = std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut n_reads = 0;
            while !done.load(Ordering::Relaxed) {
                // A new reader each time, as commands are, and one that stays, as a server is.
                for home in [&open(dir.path()), &home] {
                    let record = session(home, sample.session.as_str());
                    let (messages, quarantined) = messages(home, &record);
                    assert!(quarantined.is_empty(), "{quarantined:?}");
                    let count = |document: &annals::model::Document| {
                        document.root().get("count").unwrap().raw().to_owned()
                    };
                    let of_message = count(&messages[0].stored.document);
                    let of_parts: Vec<_> =
                        messages[0].parts.iter().map(|part| count(&part.document)).collect();
                    assert_eq!(of_parts, [of_message.clone(), of_message]);
                    n_reads += 1;
                }
            }
            n_reads
        });
        for mut writer in writers {
            assert!(writer.wait().unwrap().success());
        }
        done.store(true, Ordering::Relaxed);
        reader.join().unwrap()
    });
    assert!(n_reads > 20, "{n_reads}");
    let count = session(&home, sample.session.as_str()).stored.document.root().get("count").unwrap().as_f64();
    assert_eq!(count, Some((WRITERS * INCREMENTS) as f64));
}

/// OpenCode rewrites files in place: new text over the old one, then cut to length. A reader in between sees a mixture.
#[test]
fn a_torn_read_is_tried_again_and_never_hides_the_session() {
    use std::io::{Seek, Write as _};
    let (dir, home) = empty_home();
    let sample = sample();
    sample.store(&home, "prompt", "answer");
    let record = session(&home, sample.session.as_str());
    let place = messages(&home, &record).0[1].parts[0].place.clone();
    let path = dir.path().join(&place);
    let original = std::fs::read_to_string(&path).unwrap();
    let texts = [original.replace("answer", "short"), original.replace("answer", &"long ".repeat(4000))];
    let done = AtomicBool::new(false);
    let (n_whole, n_quarantined) = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
            while !done.load(Ordering::Relaxed) {
                for text in &texts {
                    file.rewind().unwrap();
                    file.write_all(text.as_bytes()).unwrap();
                    std::thread::yield_now();
                    file.set_len(text.len() as u64).unwrap();
                    std::thread::sleep(std::time::Duration::from_micros(300));
                }
            }
        });
        let (mut n_whole, mut n_quarantined) = (0, 0);
        for _ in 0..400 {
            let (messages, quarantined) = messages(&home, &record);
            assert_eq!(messages.len(), 2);
            assert_eq!(messages[0].parts.len(), 1, "what is not being written is always there");
            match quarantined.as_slice() {
                [] => {
                    let text = messages[1].parts[0].document.text();
                    assert!(texts.iter().any(|whole| whole == text) || text == original, "{text}");
                    n_whole += 1;
                }
                [one] => {
                    assert_eq!(one.place, place);
                    n_quarantined += 1;
                }
                more => panic!("{more:?}"),
            }
        }
        done.store(true, Ordering::Relaxed);
        (n_whole, n_quarantined)
    });
    assert!(n_whole > 9 * n_quarantined, "{n_whole} whole, {n_quarantined} quarantined");
    write(dir.path(), &place, &original);
    assert!(messages(&home, &record).1.is_empty());
}
