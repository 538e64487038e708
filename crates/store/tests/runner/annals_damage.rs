//! Whatever becomes of the bytes of a store: nothing that is read is wrong, and what is missing `check` tells of.
//!
//! What cannot be promised: a log (`-wal`) that was cut short, damaged or deleted takes with it the transactions that were
//! only there. The store is then what it was at an earlier revision, whole and in order, and nothing in it tells that there
//! was more. And when something was so is a number like any other: a flipped bit in it that makes another number that would
//! do is not noticed, and a view of the past may then lack what was there. But it never shows what the document never said.

use annals::store::Store;
use annals::upkeep::Upkeep;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use annals::check::Problem;
use annals::history::{At, History};
use annals::home::{Inspect, MessageDetail, MessageRange, Read, Write};
use annals::model::id::{MessageId, PartId, ProjectId, SessionId};
use annals::model::{Document, Key, Transaction};
use annals::query::SessionQuery;
use annals::stores::sqlite::SqliteStore;

use super::kit::{PROJECT, Sample, query, sql};

const PAGE: usize = 4096;
const SESSIONS: usize = 12;
const MESSAGES: usize = 6;
/// Long after everything that the store says was written.
const NOW: i64 = 1_900_000_000_000;

/// A damage: its name, and bytes that are put where.
type Damage = (String, Vec<(usize, Vec<u8>)>);
/// What a store holds: texts by key.
type Texts = HashMap<Key, String>;

fn next(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *seed >> 33
}

/// Text that cannot be compressed, so that it takes pages.
fn noise(seed: &mut u64, length: usize) -> String {
    (0..length).map(|_| char::from(b'!' + (next(seed) % 90) as u8)).filter(|c| !"\"\\".contains(*c)).collect()
}

fn sample(n: usize) -> Sample {
    Sample::new(SessionId::parse(&format!("ses_4afbda00cffeDamage{n:08}")).unwrap(), "/home/dev/shop")
}

fn message(session: usize, n: usize) -> MessageId {
    MessageId::parse(&format!("msg_b50425ff{n:04}Damage{session:08}")).unwrap()
}

fn part(session: usize, message: usize, n: usize) -> PartId {
    PartId::parse(&format!("prt_b50425ff{message:02}{n:02}Damage{session:08}")).unwrap()
}

/// The transactions of the store, one after the other. They change and delete what earlier ones wrote.
fn transactions() -> Vec<Transaction> {
    let mut seed = 1;
    let made = 1_766_578_085_876;
    let mut all = Vec::new();
    let mut begin = Transaction::new("a project");
    let record = format!(r#"{{"id":"{PROJECT}","worktree":"/home/dev/shop","time":{{"created":1}}}}"#);
    let project = ProjectId::parse(PROJECT).unwrap();
    begin.put(Key::Project(project), Document::parse(record.into_bytes()).unwrap());
    all.push(begin);
    for n in 0..SESSIONS {
        let sample = sample(n);
        let mut transaction = Transaction::new(format!("session {n} begins"));
        transaction.put(sample.session_key(), sample.session_document(&format!("Session {n}"), made));
        for m in 0..MESSAGES {
            let id = message(n, m);
            let (key, document) = match m % 2 {
                0 => sample.prompt(&id, made + m as i64),
                _ => sample.answer(&id, &message(n, m - 1), made + m as i64),
            };
            transaction.put(key, document);
            let length = [40, 150, 900, 9_000][(n + m) % 4];
            let (key, document) = sample.text(&id, &part(n, m, 0), &noise(&mut seed, length));
            transaction.put(key, document);
            let tool = format!(
                r#"{{"id":"{}","messageID":"{id}","sessionID":"{}","type":"tool","callID":"c","tool":"bash","state":{{"status":"completed","input":{{"command":"{}"}},"output":"","title":"","metadata":{{}},"time":{{"start":1,"end":9}}}}}}"#,
                part(n, m, 1),
                sample.session,
                noise(&mut seed, 100)
            );
            let key = Key::Part(sample.session.clone(), id, part(n, m, 1));
            transaction.put(key, Document::parse(tool.into_bytes()).unwrap());
        }
        let todo = format!(r#"[{{"content":"todo of {n}","status":"pending","priority":"high","id":"1"}}]"#);
        transaction.put(Key::Todo(sample.session.clone()), Document::parse(todo.into_bytes()).unwrap());
        all.push(transaction);
    }
    for round in 0..4 {
        for n in 0..SESSIONS {
            let sample = sample(n);
            let mut transaction = Transaction::new(format!("round {round} of session {n}"));
            let title = format!("Session {n}, round {round}");
            transaction.put(sample.session_key(), sample.session_document(&title, made));
            let length = [5000, 60, 300, 6_000][(n + round) % 4];
            let (key, document) =
                sample.text(&message(n, round), &part(n, round, 0), &noise(&mut seed, length));
            transaction.put(key, document);
            if round == 2 {
                transaction.delete_any(Key::Part(sample.session.clone(), message(n, 5), part(n, 5, 1)));
            }
            all.push(transaction);
        }
    }
    all
}

/// A store on which all transactions were made, closed and without a log.
struct Patient {
    bytes: Vec<u8>,
    whole: Texts,
    /// Every text that a document ever had.
    ever: HashMap<Key, Vec<String>>,
    /// Texts as they were at some revisions.
    past: Vec<(i64, Texts)>,
}

impl Patient {
    fn new() -> Patient {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("annals.db");
        let store = SqliteStore::open_or_create(&path).unwrap();
        let mut ever: HashMap<Key, Vec<String>> = HashMap::new();
        for transaction in transactions() {
            for change in transaction.changes() {
                let text = change.document().map(|document| document.text().to_owned());
                ever.entry(change.key.clone()).or_default().extend(text);
            }
            store.commit(transaction).unwrap();
        }
        store.rederive().unwrap();
        drop(store);
        // What sync notes, so that there are such rows as well.
        sql(
            &path,
            "INSERT INTO home (n, url, rank, synced) VALUES (1, '/home/dev/.local/share/opencode', 0, 1);
             INSERT INTO origin (session, home, place, updated, stamp, looked, settled, stage, events, gone) SELECT n, 1, 'session/' || id, 1, x'01', 1, 1, 2, NULL, NULL FROM document WHERE kind = 2;
             INSERT INTO held (document, home, bytes, state) SELECT n, 1, hash, hash FROM document WHERE kind = 3 AND n % 3 = 0;
             PRAGMA wal_checkpoint(TRUNCATE)",
        );
        let store = SqliteStore::open(&path).unwrap();
        assert_eq!(shown(&check(&store)), "");
        let whole = texts(&store);
        assert_eq!(whole.len(), 1 + SESSIONS * (2 + MESSAGES * 3) - SESSIONS);
        let head = store.head().unwrap();
        let past = (1..=head)
            .step_by(20)
            .map(|revision| {
                let view = store.at(At::Revision(revision)).unwrap().unwrap();
                (revision, texts(&*view))
            })
            .collect();
        drop(store);
        let bytes = std::fs::read(&path).unwrap();
        Patient { bytes, whole, ever, past }
    }

    fn n_pages(&self) -> usize {
        self.bytes.len() / PAGE
    }

    /// Makes a store of damaged bytes and looks at all of it.
    fn look(&self, bytes: &[u8], damage: &str) -> Outcome {
        let (_directory, path) = store_of(&[("annals.db", bytes)]);
        let mut outcome = Outcome::default();
        let store = match SqliteStore::open(&path) {
            Ok(store) => store,
            Err(error) => {
                assert!(error.to_string().contains("annals.db"), "{damage}: {error}");
                return Outcome { is_refused: true, ..outcome };
            }
        };
        for (key, text) in &self.whole {
            match store.document(key) {
                Ok(Some(stored)) => assert_eq!(stored.document.text(), text, "{damage}: {key}"),
                Ok(None) => outcome.n_absent += 1,
                Err(_) => outcome.n_unreadable += 1,
            }
        }
        for (mut key, text) in texts_as_far_as_possible(&store) {
            // Under which project a session is filed is no part of its text. That it is another's then counts as absent.
            if let Key::Session(project, _) = &mut key {
                *project = ProjectId::parse(PROJECT).unwrap();
            }
            assert_eq!(Some(&text), self.whole.get(&key), "{damage}: {key:?}, listed");
        }
        for (revision, texts) in &self.past {
            let Ok(Some(view)) = store.at(At::Revision(*revision)) else {
                outcome.n_lost_past += 1;
                continue;
            };
            for (key, text) in texts {
                match view.document(key) {
                    Ok(Some(stored)) if stored.document.text() == text => {}
                    // Where a state is lost, the one before it seems to have lasted. It is one that there was.
                    Ok(Some(stored)) => {
                        let text = stored.document.text();
                        assert!(self.ever[key].iter().any(|ever| ever == text), "{damage}: {key:?}");
                        outcome.n_outdated_past += 1;
                    }
                    Ok(None) | Err(_) => outcome.n_lost_past += 1,
                }
            }
        }
        let problems = check(&store);
        outcome.is_reported = !problems.is_empty();
        let is_harmed = outcome.n_absent + outcome.n_unreadable > 0;
        assert!(outcome.is_reported || !is_harmed, "{damage}: {outcome:?}, and check says nothing");
        let is_past_harmed = outcome.n_lost_past + outcome.n_outdated_past > 0;
        outcome.is_silent = !outcome.is_reported && is_past_harmed;
        outcome.n_named = problems.iter().filter(|problem| problem.id.is_some()).count();
        outcome
    }

    /// Looks at the store with each of several damages, and adds up.
    fn look_at_all(&self, name: &str, damages: &[Damage]) -> Outcome {
        let n_done = AtomicUsize::new(0);
        let total = std::sync::Mutex::new((Outcome::default(), [0; 5]));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while let Some((damage, patches)) = damages.get(n_done.fetch_add(1, Ordering::Relaxed)) {
                        let mut bytes = self.bytes.clone();
                        for (at, patch) in patches {
                            bytes[*at..at + patch.len()].copy_from_slice(patch);
                        }
                        let outcome = self.look(&bytes, damage);
                        let (sum, counts) = &mut *total.lock().unwrap();
                        sum.add(&outcome);
                        counts[0] += usize::from(outcome.is_refused);
                        counts[1] += usize::from(outcome.is_reported);
                        counts[2] += usize::from(!outcome.is_refused && !outcome.is_reported);
                        counts[3] += usize::from(outcome.n_outdated_past > 0);
                        counts[4] += usize::from(outcome.is_silent);
                    }
                });
            }
        });
        let (mut sum, [n_refused, n_reported, n_harmless, n_outdated, n_silent]) =
            total.into_inner().unwrap();
        sum.summary = format!(
            "{name}: {} damages: {n_refused} not opened, {n_reported} reported, {n_harmless} without effect; \
             {} documents absent, {} unreadable, {} earlier states lost; {n_outdated} times an outdated one shown, \
             {n_silent} times one of that not reported",
            damages.len(),
            sum.n_absent,
            sum.n_unreadable,
            sum.n_lost_past
        );
        sum
    }
}

/// What a damage did.
#[derive(Debug, Default)]
struct Outcome {
    is_refused: bool,
    is_reported: bool,
    n_absent: usize,
    n_unreadable: usize,
    /// Earlier states that are not to be had,
    n_lost_past: usize,
    /// and those that are shown instead of one that is not to be had.
    n_outdated_past: usize,
    /// Whether check does not tell of either.
    is_silent: bool,
    n_named: usize,
    summary: String,
}

impl Outcome {
    fn add(&mut self, other: &Outcome) {
        self.n_absent += other.n_absent;
        self.n_unreadable += other.n_unreadable;
        self.n_lost_past += other.n_lost_past;
        self.n_outdated_past += other.n_outdated_past;
        self.is_silent |= other.is_silent;
        self.n_named += other.n_named;
    }
}

fn check(store: &SqliteStore) -> Vec<Problem> {
    store.check(NOW, &|| {}).unwrap()
}

fn shown(problems: &[Problem]) -> String {
    let line = |problem: &Problem| format!("{:?} {}: {}\n", problem.kind, problem.place, problem.detail);
    problems.iter().map(line).collect()
}

/// A store of some files beside which there is no other.
fn store_of(files: &[(&str, &[u8])]) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        std::fs::write(directory.path().join(name), bytes).unwrap();
    }
    let path = directory.path().join("annals.db");
    (directory, path)
}

/// All there is.
fn texts(home: &dyn Read) -> Texts {
    let mut texts = Texts::new();
    let mut add = |key: Key, document: &Document| drop(texts.insert(key, document.text().to_owned()));
    let projects = home.projects().unwrap();
    assert!(projects.quarantined.is_empty());
    projects.value.iter().for_each(|stored| add(stored.key.clone(), &stored.document));
    let sessions = home.sessions(&SessionQuery::default()).unwrap();
    assert!(sessions.quarantined.is_empty());
    for record in sessions.value {
        for key in home.session_keys(&record.id).unwrap() {
            let stored = home.document(&key).unwrap().unwrap();
            add(key, &stored.document);
        }
    }
    texts
}

/// All that listings show, going on after every error.
fn texts_as_far_as_possible(home: &dyn Read) -> Texts {
    let mut texts = Texts::new();
    let mut add = |key: Key, document: &Document| drop(texts.insert(key, document.text().to_owned()));
    if let Ok(found) = home.projects() {
        found.value.iter().for_each(|stored| add(stored.key.clone(), &stored.document));
    }
    let Ok(found) = home.sessions(&SessionQuery::default()) else { return texts };
    for record in found.value {
        add(record.stored.key.clone(), &record.stored.document);
        for message in home.messages(&record, &MessageRange::ALL, MessageDetail::Parts).flatten() {
            for stored in std::iter::once(&message.stored).chain(&message.parts) {
                add(stored.key.clone(), &stored.document);
            }
        }
    }
    texts
}

#[test]
fn every_page_in_turn() {
    let patient = Patient::new();
    let mut seed = 7;
    let mut damages = Vec::new();
    for page in 0..patient.n_pages() {
        let at = page * PAGE;
        damages.push(match page % 3 {
            0 => (format!("zeros in page {}", page + 1), vec![(at, vec![0; PAGE])]),
            1 => {
                let noise = (0..PAGE).map(|_| next(&mut seed) as u8).collect();
                (format!("noise in page {}", page + 1), vec![(at, noise)])
            }
            // What a disk that writes fewer bytes at a time leaves of a page that was torn.
            _ => (format!("zeros in half of page {}", page + 1), vec![(at + PAGE / 2, vec![0; PAGE / 2])]),
        });
    }
    let sum = patient.look_at_all("pages", &damages);
    println!("{}", sum.summary);
    assert!(sum.n_absent + sum.n_unreadable > 300 && sum.n_named > 300, "{sum:?}");
    assert!(!sum.is_silent);
}

#[test]
fn flipped_bits() {
    let patient = Patient::new();
    let mut seed = 11;
    let mut damages = Vec::new();
    for page in 0..patient.n_pages() {
        let at = page * PAGE + next(&mut seed) as usize % PAGE;
        let bit = next(&mut seed) % 8;
        damages.push((format!("bit {bit} of byte {at}"), vec![(at, vec![patient.bytes[at] ^ (1 << bit)])]));
    }
    let sum = patient.look_at_all("bits", &damages);
    println!("{}", sum.summary);
    assert!(sum.n_unreadable > 5, "{sum:?}");
}

/// The index is how documents are found. Where it is wrong it leads to other documents, which look as good.
#[test]
fn flipped_bits_in_the_index_of_documents() {
    let patient = Patient::new();
    let (_directory, path) = store_of(&[("annals.db", &patient.bytes)]);
    let pages = query(&path, "SELECT pageno FROM dbstat WHERE name = 'document_key'");
    let mut seed = 13;
    let mut damages = Vec::new();
    for page in pages {
        let page: usize = page.parse().unwrap();
        for _ in 0..60 {
            let at = (page - 1) * PAGE + next(&mut seed) as usize % PAGE;
            let bit = next(&mut seed) % 8;
            damages
                .push((format!("bit {bit} of byte {at}"), vec![(at, vec![patient.bytes[at] ^ (1 << bit)])]));
        }
    }
    assert!(damages.len() > 200);
    let sum = patient.look_at_all("bits of the index", &damages);
    println!("{}", sum.summary);
    assert!(sum.n_absent + sum.n_unreadable > 100, "{sum:?}");
    assert!(!sum.is_silent);
}

#[test]
fn a_file_cut_short() {
    let patient = Patient::new();
    let length = patient.bytes.len();
    let some = [0, 1, 15, 16, 99, 100, 101, 511, 512, 1000, 4096, PAGE - 1, PAGE, PAGE + 1, length - 1];
    let pages = (1..patient.n_pages()).step_by(3).flat_map(|page| [page * PAGE, page * PAGE + 100]);
    let (mut n_refused, mut n_reported, mut n_harmless) = (0, 0, 0);
    for to in some.into_iter().chain(pages) {
        let outcome = patient.look(&patient.bytes[..to], &format!("cut to {to} bytes"));
        n_refused += usize::from(outcome.is_refused);
        n_reported += usize::from(outcome.is_reported);
        n_harmless += usize::from(!outcome.is_refused && !outcome.is_reported);
    }
    println!("cut short: {n_refused} not opened, {n_reported} reported, {n_harmless} without effect");
    assert_eq!(n_harmless, 0, "the last page is in use");
}

/// The files of a store while it is open: transactions are in the log, some of them in the main file as well.
struct Logged {
    main: Vec<u8>,
    log: Vec<u8>,
    /// What the store was at each revision, from 0 on.
    states: Vec<Texts>,
    head: i64,
}

impl Logged {
    /// `copied`: after this many transactions the log was copied into the main file.
    fn new(copied: Option<usize>) -> Logged {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("annals.db");
        let store = SqliteStore::open_or_create(&path).unwrap();
        let mut states = vec![texts(&store)];
        for (n, transaction) in transactions().into_iter().enumerate() {
            store.commit(transaction).unwrap();
            states.push(texts(&store));
            if copied == Some(n) {
                let connection = rusqlite::Connection::open(&path).unwrap();
                connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())).unwrap();
            }
        }
        let head = store.head().unwrap();
        assert_eq!(states.len() as i64, head + 1);
        let main = std::fs::read(&path).unwrap();
        let log = std::fs::read(directory.path().join("annals.db-wal")).unwrap();
        Logged { main, log, states, head }
    }

    /// The revision that the store is at with another log. It is that revision's store exactly, and in order.
    fn revision(&self, log: Option<&[u8]>, damage: &str) -> i64 {
        let files = [("annals.db", self.main.as_slice()), ("annals.db-wal", log.unwrap_or_default())];
        let (_directory, path) = store_of(&files[..1 + usize::from(log.is_some())]);
        let store = SqliteStore::open(&path).unwrap_or_else(|error| panic!("{damage}: {error}"));
        let head = store.head().unwrap();
        assert!(texts(&store) == self.states[head as usize], "{damage}: not what revision {head} was");
        assert_eq!(shown(&check(&store)), "", "{damage}");
        // It goes on from there.
        let receipt = store.commit(Transaction::new("nothing")).unwrap();
        assert_eq!(receipt.revision, None);
        let sample = sample(99);
        let mut transaction = Transaction::new("more");
        transaction.insert(sample.session_key(), sample.session_document("Later", 1_766_578_085_876));
        assert_eq!(store.commit(transaction).unwrap().revision, Some(head + 1), "{damage}");
        head
    }
}

/// A log that was cut short, damaged or deleted makes the store what it was earlier. That it was more cannot be told.
#[test]
fn a_damaged_log_leaves_an_earlier_revision() {
    const FRAME: usize = PAGE + 24;
    for copied in [None, Some(20)] {
        let logged = Logged::new(copied);
        let oldest = logged.revision(None, "no log");
        assert_eq!(oldest, copied.map_or(0, |n| n as i64 + 1));
        assert_eq!(logged.revision(Some(&logged.log), "the whole log"), logged.head);
        let n_frames = (logged.log.len() - 32) / FRAME;
        let mut seed = 17;
        let (mut last, mut n_cases) = (oldest, 2);
        for frame in (0..=n_frames).step_by(5).chain([n_frames]) {
            let lengths = [
                32 + frame * FRAME,
                (32 + frame * FRAME).saturating_sub(1 + next(&mut seed) as usize % FRAME),
            ];
            for length in lengths.into_iter().take(1 + frame % 3 / 2) {
                let damage = format!("a log of {length} bytes");
                let revision = logged.revision(Some(&logged.log[..length]), &damage);
                assert!(revision >= oldest);
                if length == lengths[0] {
                    assert!(revision >= last, "{damage}: a longer log holds no less");
                    last = revision;
                }
                n_cases += 1;
            }
        }
        assert_eq!(last, logged.head);
        for length in [0, 1, 31] {
            assert_eq!(logged.revision(Some(&logged.log[..length]), "less than a header"), oldest);
        }
        for at in (0..logged.log.len()).step_by(logged.log.len() / 31) {
            let mut log = logged.log.clone();
            log[at] ^= 1 << (next(&mut seed) % 8);
            let revision = logged.revision(Some(&log), &format!("byte {at} of the log"));
            assert!((oldest..=logged.head).contains(&revision));
            n_cases += 1;
        }
        println!("{n_frames} frames, {n_cases} damaged logs, revisions {oldest} to {}", logged.head);
    }
}

/// The page of a document is named with the document, although its row cannot be read: the index still has its id.
#[test]
fn damage_is_named_with_the_document_that_it_hit() {
    let patient = Patient::new();
    let (_directory, path) = store_of(&[("annals.db", &patient.bytes)]);
    let page = query(
        &path,
        "SELECT pageno FROM dbstat WHERE name = 'document' AND pagetype = 'leaf' ORDER BY path LIMIT 1 OFFSET 3",
    );
    let page: usize = page[0].parse().unwrap();
    let mut bytes = patient.bytes.clone();
    bytes[(page - 1) * PAGE..page * PAGE].fill(0);
    std::fs::write(&path, &bytes).unwrap();
    let store = SqliteStore::open(&path).unwrap();
    let problems = check(&store);
    let unreadable: Vec<&Key> = patient.whole.keys().filter(|key| store.document(key).is_err()).collect();
    assert!(!unreadable.is_empty());
    for key in unreadable {
        let id = match key {
            Key::Part(_, _, id) => id.to_string(),
            Key::Message(_, id) => id.to_string(),
            key => key.session().unwrap().to_string(),
        };
        assert!(problems.iter().any(|problem| problem.place.contains(&id)), "{key}: {}", shown(&problems));
    }
    // Sessions elsewhere are checked and shown as ever.
    let readable = texts_as_far_as_possible(&store);
    assert!(readable.len() > patient.whole.len() / 4, "{}", readable.len());
}

/// Rows that are whole and say something wrong.
#[test]
fn what_does_not_fit_together_is_found() {
    let patient = Patient::new();
    let cases = [
        ("DELETE FROM revision WHERE n = 5", "revision 5 that wrote it does not exist"),
        ("UPDATE revision SET documents = '[]' WHERE n = 5", "revision 5 does not say that it wrote it"),
        ("UPDATE revision SET documents = '[1' WHERE n = 5", "revision 5 does not say that it wrote it"),
        (
            "UPDATE revision SET documents = (SELECT documents FROM revision WHERE n = 4) WHERE n = 5",
            "revision 5 says it wrote it, and it is of revision 4",
        ),
        ("DELETE FROM revision WHERE n = 5", "past: 6 rows of a revision"),
        (
            "DELETE FROM document WHERE kind = 3 AND n = (SELECT min(n) FROM document WHERE kind = 3)",
            "what it belongs to does not exist",
        ),
        ("DELETE FROM home", "origin: 12 rows of a home that does not exist"),
        (
            "DELETE FROM document WHERE kind = 2 AND n = (SELECT max(n) FROM document WHERE kind = 2)",
            "origin: 1 row of a session that does not exist",
        ),
        ("UPDATE dictionary SET bytes = x'00'", "it is not the dictionary"),
        ("DELETE FROM dictionary", "the dictionary that documents are compressed with is missing"),
        (
            "UPDATE session SET parts = parts + 1 WHERE n = (SELECT min(n) FROM session)",
            "it has 11 parts, and 12 are noted",
        ),
        (
            "UPDATE session SET messages = 99 WHERE n = (SELECT min(n) FROM session)",
            "it has 6 messages, and 99 are noted",
        ),
        (
            "UPDATE session SET cost = 99 WHERE n = (SELECT min(n) FROM session)",
            "what is noted of it is not what its messages say",
        ),
        ("DELETE FROM session WHERE n = (SELECT min(n) FROM session)", "its numbers are missing"),
        ("DELETE FROM message WHERE n = (SELECT min(n) FROM message)", "its figures are missing"),
        (
            "UPDATE message SET model = 'x' WHERE n = (SELECT min(n) FROM message)",
            "its figures are not what it says",
        ),
        (
            "INSERT INTO message SELECT session, 99999, role, made, agent, provider, model, cwd, state, cost, input, output, reasoning, cache_read, cache_write FROM message LIMIT 1",
            "message: 1 row of a message that does not exist",
        ),
        (
            "UPDATE call SET tool = 'x' WHERE n = (SELECT min(n) FROM call)",
            "its figures are not what it says",
        ),
        ("DELETE FROM call WHERE n = (SELECT min(n) FROM call)", "its figures are missing"),
        ("UPDATE document SET data = 'x', form = 0 WHERE n = 9", "its text is not what its hash says"),
        ("UPDATE document SET form = 7 WHERE n = 9", "it is in an unknown form"),
        ("UPDATE document SET hash = x'00' WHERE n = 9", "its hash is none"),
        ("UPDATE document SET data = NULL WHERE n = 9", "its text is missing"),
        ("UPDATE document SET kind = 77 WHERE n = 9", "77 is no kind of document"),
        ("UPDATE past SET data = x'00' WHERE document = (SELECT min(document) FROM past)", "since revision"),
        (
            "INSERT INTO document (owner, kind, id, position, provenance, revision, since) SELECT owner, kind, id, position + 1, 0, 0, 0 FROM document WHERE n = 9",
            "with the id of another one",
        ),
        (
            "UPDATE document SET hash = NULL, form = NULL, size = NULL, data = NULL WHERE kind = 2 AND n = (SELECT max(n) FROM document WHERE kind = 2)",
            "6 messages of a session that is gone",
        ),
        ("UPDATE document SET home = 7 WHERE n = 9", "home 7 that it came from does not exist"),
    ];
    for (batch, expected) in cases {
        let (_directory, path) = store_of(&[("annals.db", &patient.bytes)]);
        sql(&path, batch);
        let found = shown(&check(&SqliteStore::open(&path).unwrap()));
        assert!(found.lines().any(|line| line.contains(expected)), "{batch}\n{found}");
    }
    // What is only derived can be made anew.
    let (_directory, path) = store_of(&[("annals.db", &patient.bytes)]);
    sql(&path, "DELETE FROM message; DELETE FROM call; UPDATE session SET parts = 0, messages = 0, cost = 1");
    let store = SqliteStore::open(&path).unwrap();
    let problems = check(&store);
    assert!(
        !problems.is_empty()
            && problems.iter().all(|problem| problem.kind.repair().contains("annals reindex"))
    );
    store.rederive().unwrap();
    assert_eq!(shown(&check(&store)), "");
}

/// An earlier state is found by the numbers of its document and its revision, and by nothing else.
#[test]
fn flipped_bits_in_the_keys_of_history() {
    let patient = Patient::new();
    let (_directory, path) = store_of(&[("annals.db", &patient.bytes)]);
    let pages = query(&path, "SELECT pageno FROM dbstat WHERE name = 'past' AND pagetype = 'leaf'");
    let mut seed = 19;
    let mut damages = Vec::new();
    for page in pages {
        let start = (page.parse::<usize>().unwrap() - 1) * PAGE;
        let number = |at: usize| usize::from(u16::from_be_bytes([patient.bytes[at], patient.bytes[at + 1]]));
        for cell in 0..number(start + 3) {
            // The length of the row, that of its header, the types of nine columns, and then the two numbers.
            let at = start + number(start + 8 + 2 * cell) + 10 + next(&mut seed) as usize % 6;
            let bit = next(&mut seed) % 8;
            damages
                .push((format!("bit {bit} of byte {at}"), vec![(at, vec![patient.bytes[at] ^ (1 << bit)])]));
        }
    }
    assert!(damages.len() > 60, "{}", damages.len());
    let sum = patient.look_at_all("bits of the keys of history", &damages);
    println!("{}", sum.summary);
    assert!(sum.n_lost_past > 10, "{sum:?}");
    assert!(!sum.is_silent);
}
