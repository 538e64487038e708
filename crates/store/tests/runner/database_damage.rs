//! Whatever became of a database's pages, rows and schema: what can be read is shown, the rest is named, and nothing is
//! made worse.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use annals::check::{Problem, ProblemKind};
use annals::copy::{CopyOptions, CopyOutcome, OnDifference, Tally, copy};
use annals::home::{Inspect, MessageDetail, MessageRange, Read, ReadError, Write};
use annals::homes::opencode::complete;
use annals::homes::opencode::database::{Generation, OpenDbError, OpencodeDatabase};
use annals::model::id::{MessageId, PartId};
use annals::model::json::same_value;
use annals::model::{Document, Key, Transaction};
use annals::query::SessionQuery;
use annals_testkit::Fixture;

use super::kit::{
    Sample, empty_database, messages, open_db, query, session, session_id, snapshot, sql, write,
};

const PAGE: usize = 4096;
/// So long may reading 122 sessions take, however they are damaged. Undamaged it takes a twentieth of a second.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a reader got to see: documents by their keys, and what it was told about the rest.
#[derive(Default)]
struct Seen {
    documents: BTreeMap<String, Document>,
    /// Quarantined documents, and errors that kept something from being read.
    problems: Vec<String>,
}

impl Seen {
    fn n_sessions(&self) -> usize {
        self.documents.keys().filter(|key| key.starts_with("Session(")).count()
    }
}

/// Reads all there is, going on after every error.
fn see(path: &Path) -> Seen {
    let mut seen = Seen::default();
    match OpencodeDatabase::open(path) {
        Ok(home) => see_home(&home, &mut seen),
        Err(error) => {
            let text = error.to_string();
            assert!(text.contains(&path.display().to_string()), "{text}");
            seen.problems.push(text);
        }
    }
    seen
}

fn see_home(home: &OpencodeDatabase, seen: &mut Seen) {
    let failed = |error: ReadError| {
        let text = error.to_string();
        let is_placed = matches!(error, ReadError::Unreadable(_)) || text.contains(&home.url().to_string());
        assert!(is_placed, "{text} does not name the file");
        text
    };
    match home.projects() {
        Ok(found) => {
            seen.problems.extend(found.quarantined.iter().map(ToString::to_string));
            let documents = found.value.into_iter();
            seen.documents.extend(documents.map(|stored| (format!("{:?}", stored.key), stored.document)));
        }
        Err(error) => seen.problems.push(failed(error)),
    }
    let found = match home.sessions(&SessionQuery::default()) {
        Ok(found) => found,
        Err(error) => return seen.problems.push(failed(error)),
    };
    seen.problems.extend(found.quarantined.iter().map(ToString::to_string));
    let started = Instant::now();
    for record in found.value {
        assert!(started.elapsed() < PATIENCE, "not done after {:?}", started.elapsed());
        let mut messages = home.messages(&record, &MessageRange::ALL, MessageDetail::Parts);
        for message in &mut messages {
            let message = match message {
                Ok(message) => message,
                Err(error) => {
                    seen.problems.push(failed(error));
                    continue;
                }
            };
            seen.problems.extend(message.quarantined.iter().map(ToString::to_string));
            for stored in std::iter::once(message.stored).chain(message.parts) {
                seen.documents.insert(format!("{:?}", stored.key), stored.document);
            }
        }
        seen.problems.extend(messages.into_quarantined().iter().map(ToString::to_string));
        for key in [Key::Todo(record.id.clone()), Key::Share(record.id.clone())] {
            match home.document(&key) {
                Ok(stored) => {
                    seen.documents.extend(stored.map(|stored| (format!("{key:?}"), stored.document)));
                }
                Err(error) => seen.problems.push(failed(error)),
            }
        }
        seen.documents.insert(format!("{:?}", record.stored.key), record.stored.document);
    }
}

/// A copy of a fixture's database that may be damaged.
struct Patient {
    dir: tempfile::TempDir,
    bytes: Vec<u8>,
    whole: Seen,
}

/// What a damage did.
struct Outcome {
    n_missing: usize,
    /// Documents are missing and reading said nothing about it, only a check did.
    is_silent: bool,
}

impl Patient {
    fn of(fixture: &str) -> Patient {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("opencode.db");
        std::fs::copy(Fixture::unpack(fixture).home().join("opencode.db"), &path).unwrap();
        let (bytes, whole) = (std::fs::read(&path).unwrap(), see(&path));
        assert!(whole.problems.is_empty(), "{:?}", whole.problems);
        Patient { dir, bytes, whole }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("opencode.db")
    }

    fn n_pages(&self) -> usize {
        self.bytes.len() / PAGE
    }

    /// The page that a table or index begins at.
    fn root(&self, name: &str) -> usize {
        std::fs::write(self.path(), &self.bytes).unwrap();
        let root = query(&self.path(), &format!("SELECT rootpage FROM sqlite_schema WHERE name = '{name}'"));
        root.first().map_or(0, |root| root.parse().unwrap())
    }

    /// The pages of a table or index, without those that long rows overflow to.
    fn tree(&self, root: usize) -> Vec<usize> {
        let mut pages = vec![root];
        let mut next = 0;
        while let Some(page) = pages.get(next).copied() {
            next += 1;
            let bytes = &self.bytes[(page - 1) * PAGE..page * PAGE];
            let header = if page == 1 { 100 } else { 0 };
            let number = |at: usize, length: usize| {
                bytes[at..at + length].iter().fold(0, |number, byte| number << 8 | usize::from(*byte))
            };
            // Interior pages begin with 2 (an index) or 5 (a table).
            if matches!(bytes[header], 2 | 5) {
                let cells = (0..number(header + 3, 2)).map(|n| number(header + 12 + 2 * n, 2));
                pages.extend(cells.map(|cell| number(cell, 4)));
                pages.push(number(header + 8, 4));
            }
        }
        pages
    }

    /// The database with the given pages overwritten.
    fn with_pages(&self, pages: &[usize], mut fill: impl FnMut(&mut [u8])) {
        let mut bytes = self.bytes.clone();
        for page in pages {
            fill(&mut bytes[(page - 1) * PAGE..page * PAGE]);
        }
        std::fs::write(self.path(), bytes).unwrap();
    }

    /// Reads the damaged database and checks that all it shows is true and what it does not show is accounted for.
    fn look(&self, damage: &str) -> Outcome {
        let before = std::fs::read(self.path()).unwrap();
        let seen = see(&self.path());
        for (key, document) in &seen.documents {
            let whole = self.whole.documents.get(key);
            assert_eq!(Some(document.text()), whole.map(Document::text), "{damage}: {key}");
        }
        let n_missing = self.whole.documents.len() - seen.documents.len();
        let is_silent = n_missing > 0 && seen.problems.is_empty();
        if is_silent {
            let problems = check(&self.path());
            assert!(
                problems.iter().any(|problem| problem.kind == ProblemKind::Damaged),
                "{damage}: {n_missing} documents are missing and nobody says so: {problems:?}"
            );
        }
        assert!(std::fs::read(self.path()).unwrap() == before, "{damage}: reading changed the file");
        Outcome { n_missing, is_silent }
    }
}

fn check(path: &Path) -> Vec<Problem> {
    open_db(path).check(annals::ids::now(), &|| {}).unwrap_or_else(|error| panic!("{error}"))
}

fn next(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *seed >> 33
}

#[test]
fn a_damaged_page_hides_no_more_than_it_held() {
    for (fixture, step) in [("opencode-1.2.27", 7), ("opencode-1.18.33", 101)] {
        let patient = Patient::of(fixture);
        // Without the list of tables nothing is found. The other pages have tests of their own below.
        let listing = patient.tree(1);
        let others = ["message", "part", "__drizzle_migrations", "migration"].map(|name| patient.root(name));
        let mut seed = 1;
        let (mut n_damages, mut n_hidden, mut n_silent) = (0, 0, 0);
        for page in (1..=patient.n_pages()).step_by(step).filter(|page| !others.contains(page)) {
            for damage in ["zeros", "noise"] {
                patient.with_pages(&[page], |bytes| match damage {
                    "zeros" => bytes.fill(0),
                    _ => bytes.fill_with(|| next(&mut seed) as u8),
                });
                let name = format!("{fixture}: {damage} in page {page}");
                let outcome = patient.look(&name);
                if listing.contains(&page) {
                    assert_eq!(outcome.n_missing, patient.whole.documents.len(), "{name}");
                    continue;
                }
                n_damages += 1;
                n_hidden += outcome.n_missing;
                n_silent += usize::from(outcome.is_silent);
            }
        }
        println!("{fixture}: {n_damages} damages, {n_hidden} documents hidden, {n_silent} times silently");
        assert!(n_hidden > n_damages, "the damage was where documents are");
    }
}

/// A letter that became another is a letter to SQLite, so what is shown may be wrong. But it is shown, or reported.
#[test]
fn a_flipped_bit_does_no_harm() {
    let patient = Patient::of("opencode-1.2.27");
    let mut seed = 4;
    for page in (1..=patient.n_pages()).step_by(13) {
        patient.with_pages(&[page], |bytes| {
            bytes[next(&mut seed) as usize % PAGE] ^= 1 << (next(&mut seed) % 8);
        });
        let seen = see(&patient.path());
        let n_missing = patient.whole.documents.len().saturating_sub(seen.documents.len());
        if n_missing > 0 && seen.problems.is_empty() {
            assert!(!check(&patient.path()).is_empty(), "page {page}: {n_missing} documents are missing");
        }
    }
}

/// A table that has lost its first page has lost everything; finding that out must not take a search for each session.
#[test]
fn a_table_without_its_first_page_is_given_up_in_time() {
    let patient = Patient::of("opencode-1.2.27");
    for table in ["message", "part", "session", "todo", "project"] {
        patient.with_pages(&[patient.root(table)], |bytes| bytes.fill(0));
        let started = Instant::now();
        let outcome = patient.look(&format!("the first page of {table}"));
        assert!(outcome.n_missing > 0 && !outcome.is_silent, "{table}");
        println!("{table}: {} documents hidden, read in {:?}", outcome.n_missing, started.elapsed());
    }
}

/// Which migrations were run matters for writing. Nobody's sessions are in that table.
#[test]
fn the_list_of_migrations_is_not_needed_for_reading() {
    for (fixture, table) in [("opencode-1.2.27", "__drizzle_migrations"), ("opencode-1.18.33", "migration")] {
        let patient = Patient::of(fixture);
        patient.with_pages(&[patient.root(table)], |bytes| bytes.fill(0));
        let seen = see(&patient.path());
        assert_eq!(seen.documents.len(), patient.whole.documents.len(), "{fixture}: {:?}", seen.problems);
        let sample = Sample::new(annals::ids::new_session(), "/home/dev/shop");
        let mut transaction = Transaction::new("unsure");
        transaction.insert(sample.session_key(), sample.session_document("x", 1));
        let error = open_db(&patient.path()).commit(transaction).unwrap_err();
        assert!(error.to_string().contains("opencode.db"), "{error}");
    }
}

#[test]
fn a_damaged_index_hides_nothing() {
    let patient = Patient::of("opencode-1.2.27");
    let mut seed = 2;
    let indexes = query(
        &patient.path(),
        "SELECT name FROM sqlite_schema WHERE type = 'index' AND tbl_name IN ('project', 'session', 'message', 'part')",
    );
    assert!(indexes.len() > 8);
    let mut damages: Vec<(String, Vec<usize>)> =
        indexes.iter().map(|name| (name.clone(), vec![patient.root(name)])).collect();
    damages.extend(indexes.iter().map(|name| {
        let pages = patient.tree(patient.root(name));
        (format!("half of {name}"), pages.into_iter().skip(1).step_by(2).collect())
    }));
    let all = indexes.iter().flat_map(|name| patient.tree(patient.root(name))).collect();
    damages.push(("all indexes".to_owned(), all));
    for (name, pages) in damages {
        for noise in [false, true] {
            patient.with_pages(&pages, |bytes| match noise {
                true => bytes.fill_with(|| next(&mut seed) as u8),
                false => bytes.fill(0),
            });
            let outcome = patient.look(&name);
            assert_eq!(outcome.n_missing, 0, "{name}, noise: {noise}");
        }
    }
    let home = open_db(&patient.path());
    for record in home.sessions(&SessionQuery::default()).unwrap().value {
        let found = session(&home, record.id.as_str());
        assert_eq!(found.stored.document, record.stored.document, "found by its id as well");
        let counts = |detail: MessageDetail| {
            let mut messages = home.messages(&record, &MessageRange::ALL, detail);
            let counts: Vec<usize> = messages.by_ref().map(|message| message.unwrap().n_parts).collect();
            assert!(messages.into_quarantined().is_empty());
            counts
        };
        assert_eq!(counts(MessageDetail::PartCounts), counts(MessageDetail::Parts));
    }
    assert!(check(&patient.path()).iter().any(|problem| problem.kind == ProblemKind::Damaged));
}

/// What stands beside a session is looked up by its id, which takes an index, but would not have to.
#[test]
fn todos_and_shares_are_found_without_their_indexes() {
    let patient = Patient::of("opencode-1.2.27");
    for index in ["sqlite_autoindex_todo_1", "todo_session_idx", "sqlite_autoindex_session_share_1"] {
        patient.with_pages(&[patient.root(index)], |bytes| bytes.fill(0));
        let seen = see(&patient.path());
        let n_missing = patient.whole.documents.len() - seen.documents.len();
        assert_eq!((n_missing, seen.problems.len()), (0, 0), "{index}: {:?}", seen.problems.first());
    }
}

/// An index that is whole but has forgotten its rows: SQLite believes it, so a check has to find out.
#[test]
fn an_index_that_lies_is_found_by_check() {
    let patient = Patient::of("opencode-1.2.27");
    for index in ["message_session_time_created_id_idx", "part_message_id_id_idx"] {
        patient.with_pages(&[patient.root(index)], |bytes| {
            bytes.fill(0);
            // A leaf of an index, without cells, its content beginning at the end of the page.
            bytes[0] = 10;
            bytes[5..7].copy_from_slice(&(PAGE as u16).to_be_bytes());
        });
        let outcome = patient.look(index);
        println!("{index}: {} documents missing, silently: {}", outcome.n_missing, outcome.is_silent);
        let problems = check(&patient.path());
        let mut damages = problems.iter().filter(|problem| problem.kind == ProblemKind::Damaged);
        assert!(damages.any(|damage| damage.detail.contains(index)), "{problems:?}");
    }
}

#[test]
fn what_a_database_that_was_cut_short_lacks_is_accounted_for() {
    let patient = Patient::of("opencode-1.2.27");
    let length = patient.bytes.len();
    let lengths = [0, 1, 99, 100, 512, 1023, 4095, PAGE, 4097, 20_000, length / 3, length / 2];
    for to in lengths.into_iter().chain([length - PAGE, length - 1]) {
        std::fs::write(patient.path(), &patient.bytes[..to]).unwrap();
        patient.look(&format!("cut to {to} bytes"));
        assert_eq!(snapshot(patient.dir.path()).len(), 1, "no file was made");
    }
}

/// A copy that was interrupted, a disk that filled up: all but the end is there.
#[test]
fn a_database_cut_short_is_read_as_far_as_it_goes() {
    let patient = Patient::of("opencode-1.2.27");
    let (length, n_documents) = (patient.bytes.len(), patient.whole.documents.len());
    for (to, most) in [(length - PAGE, 100), (length / 2, n_documents - 122)] {
        std::fs::write(patient.path(), &patient.bytes[..to]).unwrap();
        let outcome = patient.look(&format!("cut to {to} bytes"));
        assert!(outcome.n_missing <= most, "{to} bytes: {} of {n_documents} missing", outcome.n_missing);
        // It is not written to: what is missing would be missing for good.
        let sample = Sample::new(annals::ids::new_session(), "/home/dev/shop");
        let mut transaction = Transaction::new("too late");
        transaction.insert(sample.session_key(), sample.session_document("x", 1));
        let error = open_db(&patient.path()).commit(transaction).unwrap_err();
        assert!(error.to_string().contains("opencode.db"), "{error}");
        assert!(std::fs::read(patient.path()).unwrap() == patient.bytes[..to]);
    }
}

/// A damaged log is as long as its checksums hold; what comes after the damage was never there, for SQLite.
#[test]
fn a_damaged_log_is_read_as_far_as_it_goes() {
    for version in ["1.2.27", "1.18.33"] {
        let fixture = Fixture::unpack(&format!("small-{version}"));
        let wal = fixture.home().join("wal");
        let log = std::fs::read(wal.join("opencode.db-wal")).unwrap();
        let whole = see(&wal.join("opencode.db"));
        assert!(whole.problems.is_empty() && whole.documents.len() > 20);
        for at in (0..log.len()).step_by(log.len() / 23) {
            let mut damaged = log.clone();
            damaged[at] ^= 0xff;
            std::fs::write(wal.join("opencode.db-wal"), &damaged).unwrap();
            let seen = see(&wal.join("opencode.db"));
            assert!(seen.documents.len() <= whole.documents.len());
            assert!(std::fs::read(wal.join("opencode.db-wal")).unwrap() == damaged);
        }
    }
}

/// A process that was killed when it had just begun its log, or at any later moment.
#[test]
fn a_log_cut_short_is_read_as_far_as_it_goes() {
    for version in ["1.2.27", "1.18.33"] {
        let fixture = Fixture::unpack(&format!("small-{version}"));
        let wal = fixture.home().join("wal");
        let log = std::fs::read(wal.join("opencode.db-wal")).unwrap();
        let whole = see(&wal.join("opencode.db")).documents.len();
        // What the main file alone holds: tables without sessions, or not even those.
        for length in [log.len(), log.len() / 2, 4152, 4151, 57, 56, 55, 33, 32, 31, 1] {
            std::fs::write(wal.join("opencode.db-wal"), &log[..length]).unwrap();
            let shm = std::fs::read(wal.join("opencode.db-shm")).unwrap();
            match OpencodeDatabase::open(&wal.join("opencode.db")) {
                Ok(home) => {
                    let found = home.sessions(&SessionQuery::default()).unwrap();
                    assert!(found.quarantined.is_empty(), "{version} {length}");
                    assert!(found.value.len() <= whole, "{version} {length}");
                }
                Err(error) => assert!(
                    error.to_string().contains("not one of OpenCode's"),
                    "{version} {length}: {error}"
                ),
            }
            assert!(std::fs::read(wal.join("opencode.db-shm")).unwrap() == shm, "{version} {length}");
        }
    }
}

/// Copies all sessions, and checks that what it says of that adds up. Gives what could not even be listed as well.
fn copy_all(from: &Path, to: &Path) -> (CopyOutcome, usize) {
    let (from, to) = (open_db(from), OpencodeDatabase::open_or_create(to, Generation::Portable).unwrap());
    let found = from.sessions(&SessionQuery::default()).unwrap();
    let options = CopyOptions {
        dry_run: false,
        merge: false,
        on_difference: OnDifference::Report,
        now: annals::ids::now(),
        git: "git".into(),
    };
    let n_unlisted = found.quarantined.len();
    let account = copy(&from, &to, found.value, &options, &|| {}).unwrap_or_else(|error| panic!("{error}"));
    for Tally { seen, copied, unchanged, differing, quarantined } in [account.sessions, account.documents] {
        assert_eq!(seen, copied + unchanged + differing + quarantined, "{account:?}");
    }
    assert_eq!(account.documents.quarantined, account.quarantined.len(), "each is named");
    (account, n_unlisted)
}

#[test]
fn what_can_be_read_of_a_damaged_database_is_copied_and_the_rest_counted() {
    let patient = Patient::of("opencode-1.2.27");
    let mut seed = 3;
    let mut n_quarantined = 0;
    for round in 0..9 {
        let pages: Vec<usize> = (0..=round / 3).map(|_| 33 + next(&mut seed) as usize % 368).collect();
        patient.with_pages(&pages, |bytes| bytes.fill_with(|| next(&mut seed) as u8));
        let readable = see(&patient.path());
        let target = patient.dir.path().join(format!("saved-{round}.db"));
        let (account, n_unlisted) = copy_all(&patient.path(), &target);
        let saved = see(&target);
        assert!(saved.problems.is_empty(), "{pages:?}: {:?}", saved.problems);
        assert_eq!(query(&target, "PRAGMA integrity_check"), ["ok"]);
        assert!(query(&target, "PRAGMA foreign_key_check").is_empty());
        // All that can be read is there, and says the same. Projects go along only if they have sessions.
        for (key, document) in readable.documents.iter().filter(|(key, _)| !key.starts_with("Project")) {
            let copied = saved.documents.get(key).unwrap_or_else(|| panic!("{pages:?}: no {key}"));
            let is_same = same_value(copied.root(), document.root()) || complete::covers(copied, document);
            assert!(is_same, "{pages:?}: {key}: {copied:?}");
        }
        let n_hidden = patient.whole.documents.len() - readable.documents.len();
        assert_eq!(n_hidden > 0, account.documents.quarantined + n_unlisted > 0, "{pages:?}: {account:?}");
        n_quarantined += account.documents.quarantined + n_unlisted;
    }
    assert!(n_quarantined > 5, "{n_quarantined}");
}

/// A session that stays as it is, and one with a message and a part to be damaged, all in the main file.
fn two_sessions() -> (tempfile::TempDir, PathBuf) {
    let (dir, home) = empty_database(Generation::Portable);
    let path = dir.path().join("opencode.db");
    let now = 1_766_578_085_876;
    for suffix in ["kept", "bad"] {
        let sample = Sample::new(session_id(&format!("ses_{suffix}")), "/home/dev/shop");
        let message = MessageId::parse(&format!("msg_{suffix}")).unwrap();
        let part = PartId::parse(&format!("prt_{suffix}")).unwrap();
        let mut transaction = Transaction::new("two sessions");
        for (key, document) in [
            (sample.session_key(), sample.session_document(suffix, now)),
            sample.prompt(&message, now),
            sample.text(&message, &part, suffix),
        ] {
            transaction.insert(key, document);
        }
        home.commit(transaction).unwrap();
    }
    drop(home);
    sql(&path, "PRAGMA wal_checkpoint(TRUNCATE)");
    (dir, path)
}

const NEW_MESSAGE: &str = "INSERT INTO message (id, session_id, time_created, time_updated, data) VALUES";
const NEW_PART: &str =
    "INSERT INTO part (id, message_id, session_id, time_created, time_updated, data) VALUES";
const NEW_SESSION: &str = "INSERT INTO session (id, project_id, slug, directory, title, version, time_created, time_updated) VALUES";

/// What is wrong with some rows, and what is said of them.
#[rustfmt::skip]
const BAD_ROWS: &[(&str, &str, &str)] = &[
    // Documents that are none.
    ("UPDATE message SET data = 'hello' WHERE id = 'msg_bad'", "message[msg_bad]", "expected a value"),
    ("UPDATE message SET data = '' WHERE id = 'msg_bad'", "message[msg_bad]", "the document is empty"),
    ("UPDATE message SET data = '{\"role\":\"user\"' WHERE id = 'msg_bad'", "message[msg_bad]", "ends inside"),
    ("UPDATE message SET data = 7 WHERE id = 'msg_bad'", "message[msg_bad]", "a number"),
    ("UPDATE message SET data = x'ff00fe' WHERE id = 'msg_bad'", "message[msg_bad]", "not UTF-8"),
    ("UPDATE message SET data = zeroblob(500) WHERE id = 'msg_bad'", "message[msg_bad]", "only NUL bytes"),
    ("UPDATE message SET data = '[1,2]' WHERE id = 'msg_bad'", "message[msg_bad]", "an array"),
    ("UPDATE message SET data = 'null' WHERE id = 'msg_bad'", "message[msg_bad]", "expected an object"),
    ("UPDATE part SET data = '{\"type\":' WHERE id = 'prt_bad'", "part[prt_bad]", "ends"),
    ("UPDATE part SET data = '\"text\"' WHERE id = 'prt_bad'", "part[prt_bad]", "a string"),
    ("UPDATE part SET data = x'80' WHERE id = 'prt_bad'", "part[prt_bad]", "not UTF-8"),
    // Ids that are none.
    ("UPDATE session SET id = '../x' WHERE id = 'ses_bad'", "session[../x]", "is not a session id"),
    ("UPDATE session SET id = '' WHERE id = 'ses_bad'", "session[]", "is not a session id"),
    ("UPDATE session SET id = 'ses_' || char(10) || 'x' WHERE id = 'ses_bad'", "session[ses_\nx]", "is not a session id"),
    ("UPDATE session SET id = 'a''b\"c' WHERE id = 'ses_bad'", "session[a'b\"c]", "is not a session id"),
    ("UPDATE session SET id = x'00ff' WHERE id = 'ses_bad'", "session[", "is not a session id"),
    ("UPDATE message SET id = '../x' WHERE id = 'msg_bad'", "message[../x]", "is not a message id"),
    ("UPDATE message SET id = '' WHERE id = 'msg_bad'", "message[]", "is not a message id"),
    ("UPDATE message SET id = 'a''b\"c' WHERE id = 'msg_bad'", "message[a'b\"c]", "is not a message id"),
    ("UPDATE part SET id = 'x' || char(10) WHERE id = 'prt_bad'", "part[x\n]", "is not a part id"),
    ("UPDATE part SET id = '' WHERE id = 'prt_bad'", "part[]", "is not a part id"),
    // Texts that are none: SQLite does not mind.
    ("UPDATE session SET id = CAST(x'7365735fff' AS TEXT) WHERE id = 'ses_bad'", "session[ses_", "is not a session id"),
    ("UPDATE message SET id = CAST(x'6d73675fff' AS TEXT) WHERE id = 'msg_bad'", "message[msg_", "is not a message id"),
    ("UPDATE part SET id = CAST(x'7072745fff' AS TEXT) WHERE id = 'prt_bad'", "part[prt_", "is not a part id"),
    ("UPDATE message SET data = CAST(x'7b22ff227d' AS TEXT) WHERE id = 'msg_bad'", "message[msg_bad]", "not UTF-8"),
    ("UPDATE part SET data = CAST(x'7b22ff227d' AS TEXT) WHERE id = 'prt_bad'", "part[prt_bad]", "not UTF-8"),
    ("UPDATE session SET project_id = '../../etc' WHERE id = 'ses_bad'", "session[ses_bad].project_id", "is not a project id"),
    ("INSERT INTO project SELECT '../p', worktree, vcs, name, icon_url, icon_color, 1, 1, 1, sandboxes, NULL FROM project", "project[../p]", "is not a project id"),
    // Columns that hold something else.
    ("UPDATE session SET title = x'c328' WHERE id = 'ses_bad'", "session[ses_bad].title", "not UTF-8"),
    ("UPDATE session SET summary_files = 1, summary_diffs = '{' WHERE id = 'ses_bad'", "session[ses_bad].summary_diffs", "not JSON"),
    ("UPDATE session SET permission = 'allow' WHERE id = 'ses_bad'", "session[ses_bad].permission", "not JSON"),
    ("UPDATE session SET revert = x'ff' WHERE id = 'ses_bad'", "session[ses_bad].revert", "not JSON"),
    ("ALTER TABLE session ADD COLUMN model text; UPDATE session SET model = 'gpt' WHERE id = 'ses_bad'", "session[ses_bad].model", "not JSON"),
    ("UPDATE session SET time_created = 'yesterday' WHERE id = 'ses_bad'", "session[ses_bad].time_created", "not a number"),
    ("UPDATE session SET time_updated = x'01' WHERE id = 'ses_bad'", "session[ses_bad].time_updated", "not a number"),
    ("UPDATE project SET sandboxes = 'none'", "project[", "not JSON"),
    ("UPDATE project SET commands = '{'", "project[", "not JSON"),
];

#[test]
fn a_bad_row_hides_only_itself_and_is_named() {
    let (_dir, whole) = two_sessions();
    for (damage, place, reason) in BAD_ROWS {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("opencode.db");
        std::fs::copy(&whole, &path).unwrap();
        sql(&path, damage);
        let seen = see(&path);
        for key in ["Message(ses_kept, msg_kept)", "Part(ses_kept, msg_kept, prt_kept)"] {
            assert!(seen.documents.contains_key(key), "{damage}: no {key}");
        }
        let (_, kept) = seen.documents.iter().find(|(key, _)| key.ends_with(", ses_kept)")).unwrap();
        assert_eq!(kept.root().get("title").unwrap().raw(), r#""kept""#);
        let [problem] = &seen.problems[..] else { panic!("{damage}: {:?}", seen.problems) };
        assert!(problem.starts_with(place) && problem.contains(reason), "{damage}: {problem}");
        let problems = check(&path);
        let is_reported = problems.iter().any(|problem| {
            problem.kind == ProblemKind::Unreadable
                && problem.place.starts_with(place)
                && problem.detail.contains(reason)
        });
        assert!(is_reported, "{damage}: {problems:?}");
        // What is left can be copied, and nothing that OpenCode would fail on gets into the new database.
        let target = dir.path().join("opencode-saved.db");
        copy_all(&path, &target);
        let saved = see(&target);
        assert!(saved.problems.is_empty(), "{damage}: {:?}", saved.problems);
        assert!(check(&target).is_empty(), "{damage}: {:?}", check(&target));
        assert!(saved.documents.contains_key("Part(ses_kept, msg_kept, prt_kept)"), "{damage}");
    }
}

/// An id that is no text, where one page of messages ends and the next begins, and where rows are read without an index.
#[test]
fn an_id_that_is_no_text_hides_only_itself() {
    let (_dir, home) = empty_database(Generation::Latest);
    let sample = Sample::new(session_id("ses_long"), "/home/dev/shop");
    let now = 1_791_190_803_973;
    let mut transaction = Transaction::new("a long session");
    transaction.insert(sample.session_key(), sample.session_document("long", now));
    for n in 0..130 {
        let message = MessageId::parse(&format!("msg_{n:03}")).unwrap();
        let (key, document) = sample.prompt(&message, now + n);
        transaction.insert(key, document);
        let (key, document) = sample.text(&message, &PartId::parse(&format!("prt_{n:03}")).unwrap(), "x");
        transaction.insert(key, document);
    }
    home.commit(transaction).unwrap();
    let path = home.path().to_owned();
    drop(home);
    // The last of the first page, the first of the second, and one among many.
    for n in ["063", "064", "100"] {
        sql(
            &path,
            &format!("UPDATE message SET id = CAST(x'6d73675fff' || '{n}' AS TEXT) WHERE id = 'msg_{n}'"),
        );
    }
    sql(&path, "UPDATE part SET id = CAST(x'7072745fff' AS TEXT) WHERE id = 'prt_005'");
    let is_seen = |path: &Path| {
        let home = open_db(path);
        let (seen, quarantined) = messages(&home, &session(&home, "ses_long"));
        assert_eq!((seen.len(), quarantined.len()), (127, 4), "{quarantined:?}");
        assert!(seen.is_sorted_by_key(|message| message.made));
        assert_eq!(seen.iter().map(|message| message.parts.len()).sum::<usize>(), 126);
    };
    is_seen(&path);
    sql(&path, "PRAGMA wal_checkpoint(TRUNCATE)");
    let index = "SELECT rootpage FROM sqlite_schema WHERE name = 'message_session_time_created_id_idx'";
    let page: usize = query(&path, index)[0].parse().unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[(page - 1) * PAGE..page * PAGE].fill(0xff);
    std::fs::write(&path, bytes).unwrap();
    is_seen(&path);
}

/// Rows without `data` take a table that allows them.
#[test]
fn a_row_of_nothing_hides_only_itself() {
    let (_dir, path) = two_sessions();
    let schema = "UPDATE sqlite_schema SET sql = replace(sql, '`data` text NOT NULL', '`data` text')";
    sql(&path, schema);
    sql(
        &path,
        "UPDATE message SET data = NULL WHERE id = 'msg_bad'; UPDATE part SET data = NULL WHERE id = 'prt_kept'",
    );
    let mut seen = see(&path);
    seen.problems.sort();
    assert_eq!(
        seen.problems,
        [
            "message[msg_bad]: expected JSON, found nothing (session ses_bad)",
            "part[prt_kept]: expected JSON, found nothing (session ses_kept)"
        ]
    );
    assert!(seen.documents.contains_key("Message(ses_kept, msg_kept)"));
}

/// How a row comes about, how many sessions there are then, and what a check says about it.
type OddRow<'r> = (&'r str, usize, Option<(ProblemKind, &'r str)>);

/// Rows that can be shown, although something about them is not as it should be: a check says so.
#[test]
fn rows_that_opencode_would_fail_on_are_shown_and_reported() {
    use ProblemKind::{BadColumn, DanglingRow, Unservable};
    #[rustfmt::skip]
    let rows: &[OddRow<'_>] = &[
        (&format!("{NEW_PART} ('prt_lost', 'msg_gone', 'ses_bad', 1, 1, '{{}}')"), 2, Some((DanglingRow, "part"))),
        (&format!("{NEW_MESSAGE} ('msg_lost', 'ses_gone', 1, 1, '{{}}')"), 2, Some((DanglingRow, "message"))),
        (&format!("{NEW_SESSION} ('ses_lost', 'gone', '', '/x', 'lost', '', 1, 1)"), 3, Some((DanglingRow, "session"))),
        ("UPDATE session SET directory = 'home/dev' WHERE id = 'ses_bad'", 2, Some((BadColumn, "session[ses_bad]"))),
        ("ALTER TABLE session ADD COLUMN model text; UPDATE session SET model = '{\"variant\":\"x\"}' WHERE id = 'ses_bad'", 2, Some((BadColumn, "session[ses_bad]"))),
        ("UPDATE project SET worktree = 'shop'", 2, Some((BadColumn, "project["))),
        ("UPDATE project SET vcs = 'svn'", 2, Some((BadColumn, "project["))),
        ("UPDATE message SET data = '{}' WHERE id = 'msg_bad'", 2, Some((Unservable, "message[msg_bad]"))),
        ("UPDATE part SET data = '{\"type\":\"hologram\"}' WHERE id = 'prt_bad'", 2, Some((Unservable, "part[prt_bad]"))),
        ("UPDATE message SET time_created = 'yesterday' WHERE id = 'msg_bad'", 2, None),
        ("UPDATE message SET time_created = 1.5 WHERE id = 'msg_bad'", 2, None),
        ("UPDATE message SET time_created = 9223372036854775807 WHERE id = 'msg_bad'", 2, None),
        ("UPDATE message SET time_created = -9223372036854775808 WHERE id = 'msg_bad'", 2, None),
        ("UPDATE session SET time_created = 9223372036854775807, time_updated = 1e300 WHERE id = 'ses_bad'", 2, None),
        ("UPDATE session SET time_archived = -1.5 WHERE id = 'ses_bad'", 2, None),
        ("UPDATE message SET data = CAST(data AS BLOB) WHERE id = 'msg_bad'", 2, None),
        ("UPDATE session SET title = 42, slug = x'41', directory = '' WHERE id = 'ses_bad'", 2, None),
    ];
    let (_dir, whole) = two_sessions();
    for (damage, n_sessions, expected) in rows {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("opencode.db");
        std::fs::copy(&whole, &path).unwrap();
        sql(&path, damage);
        let seen = see(&path);
        assert!(seen.problems.is_empty(), "{damage}: {:?}", seen.problems);
        assert_eq!(seen.n_sessions(), *n_sessions, "{damage}");
        for suffix in ["kept", "bad"] {
            let key = format!("Part(ses_{suffix}, msg_{suffix}, prt_{suffix})");
            assert!(seen.documents.contains_key(&key), "{damage}: {:?}", seen.documents.keys());
        }
        let problems = check(&path);
        if let Some((kind, place)) = expected {
            let is_it = |problem: &Problem| problem.kind == *kind && problem.place.starts_with(place);
            assert!(problems.iter().any(is_it), "{damage}: {problems:?}");
        }
        // Copying mends what it can and leaves out what it cannot.
        let target = dir.path().join("opencode-mended.db");
        copy_all(&path, &target);
        assert!(check(&target).is_empty(), "{damage}: {:?}", check(&target));
        assert_eq!(see(&target).n_sessions(), *n_sessions, "{damage}");
    }
}

/// Deeper than any stack.
#[test]
fn deep_documents_do_no_harm() {
    let (dir, path) = two_sessions();
    let deep = "[".repeat(100_000) + &"]".repeat(100_000);
    let connection = rusqlite::Connection::open(&path).unwrap();
    for (sql, value) in [
        (
            "UPDATE message SET data = ?1 WHERE id = 'msg_bad'",
            format!(
                r#"{{"role":"user","time":{{"created":1}},"agent":"a","model":{{"providerID":"p","modelID":"m"}},"deep":{deep}}}"#
            ),
        ),
        (
            "UPDATE part SET data = ?1 WHERE id = 'prt_bad'",
            format!(r#"{{"type":"text","text":"x","metadata":{{"deep":{deep}}}}}"#),
        ),
        ("UPDATE session SET permission = ?1 WHERE id = 'ses_bad'", deep.clone()),
        ("UPDATE project SET commands = ?1", format!(r#"{{"deep":{deep}}}"#)),
    ] {
        assert!(connection.execute(sql, [value]).unwrap() > 0);
    }
    drop(connection);
    let seen = see(&path);
    assert_eq!(seen.problems.len(), 0);
    assert!(seen.documents["Message(ses_bad, msg_bad)"].text().contains(&deep));
    check(&path);
    let copied = dir.path().join("opencode-deep.db");
    copy_all(&path, &copied);
    let copied = see(&copied);
    assert_eq!(copied.documents["Message(ses_bad, msg_bad)"].text().matches('[').count(), 100_000);
}

/// What is no database, or not all of one, is told apart from one and left as it is.
#[test]
fn what_is_no_database_is_named_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let log = std::fs::read(Fixture::unpack("small-1.2.27").home().join("wal/opencode.db-wal")).unwrap();
    write(dir.path(), "text.db", "Dear diary,\n".repeat(1000));
    write(dir.path(), "noise.db", (0..9000_u32).map(|n| (n * 31 % 251) as u8).collect::<Vec<_>>());
    write(dir.path(), "empty.db", "");
    write(dir.path(), "only-log.db-wal", &log);
    write(dir.path(), "empty-main.db", "");
    write(dir.path(), "empty-main.db-wal", &log);
    write(dir.path(), "directory.db/x", "");
    sql(&at("other.db"), "CREATE TABLE bookmarks (id integer); INSERT INTO bookmarks VALUES (1)");
    sql(&at("other-wal.db"), "PRAGMA journal_mode = WAL; CREATE TABLE message (id text, data text)");
    let before = snapshot(dir.path());
    for (name, expected) in [
        ("missing.db", "does not exist"),
        ("text.db", "is not a SQLite database"),
        ("noise.db", "is not a SQLite database"),
        ("empty.db", "empty.db is"),
        ("only-log.db", "is missing, but its write-ahead log"),
        ("empty-main.db", "is empty, but its write-ahead log"),
        ("directory.db", "directory.db"),
        ("other.db", "not one of OpenCode's"),
        ("other-wal.db", "not one of OpenCode's"),
    ] {
        for create in [false, true] {
            if create && name == "missing.db" {
                continue;
            }
            let opened = match create {
                true => OpencodeDatabase::open_or_create(&at(name), Generation::Portable),
                false => OpencodeDatabase::open(&at(name)),
            };
            let error = opened.expect_err(name).to_string();
            assert!(error.contains(expected), "{name}: {error}");
            assert!(error.contains(&at(name).display().to_string()), "{name}: {error}");
            let after = snapshot(dir.path());
            assert_eq!(after.keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>(), "{name}");
            assert!(after == before, "{name}: a file was changed");
        }
    }
    match OpencodeDatabase::open(&at("only-log.db")) {
        Err(OpenDbError::OnlyLog { log_bytes, .. }) => assert_eq!(log_bytes, log.len() as u64),
        other => panic!("{other:?}"),
    }
}

/// Nobody may ever write to it, so opening it would wait for ever.
#[cfg(unix)]
#[test]
fn a_pipe_is_not_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("opencode.db");
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    let (sender, receiver) = std::sync::mpsc::channel();
    let opened = path.clone();
    std::thread::spawn(move || {
        sender.send(OpencodeDatabase::open(&opened).err().map(|error| error.to_string()))
    });
    let answer = receiver.recv_timeout(Duration::from_secs(3));
    if answer.is_err() {
        // Lets the thread go.
        drop(std::fs::OpenOptions::new().write(true).open(&path));
    }
    let error = answer.expect("it came back").expect("it is no database");
    assert!(error.contains("opencode.db"), "{error}");
}

/// A file that wants something to run finds that nothing does.
#[test]
fn a_hostile_schema_does_no_harm() {
    let (_dir, whole) = two_sessions();
    let gone = "DELETE FROM session; DELETE FROM message; UPDATE project SET name = 'owned';";
    // `upper` becomes a function that nobody has.
    #[rustfmt::skip]
    let schemas: &[(&str, String)] = &[
        ("a view for a table", "ALTER TABLE session RENAME TO s; CREATE VIEW session AS SELECT * FROM s".to_owned()),
        ("an endless view", "ALTER TABLE message RENAME TO m; CREATE VIEW message AS WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n) SELECT id, 'ses_kept' AS session_id, 1 AS time_created, '{}' AS data FROM n".to_owned()),
        ("a trigger", format!("CREATE TRIGGER t AFTER INSERT ON message BEGIN {gone} END; CREATE TRIGGER u AFTER UPDATE ON session BEGIN {gone} END")),
        ("a generated column", "ALTER TABLE session ADD COLUMN path text GENERATED ALWAYS AS (upper(id)) VIRTUAL".to_owned()),
        ("a large generated column", "ALTER TABLE session ADD COLUMN agent text GENERATED ALWAYS AS (printf('%.*c', 90000000, 'x')) VIRTUAL".to_owned()),
        ("a default that calls", "ALTER TABLE session ADD COLUMN path text DEFAULT 7; UPDATE sqlite_schema SET sql = replace(sql, 'DEFAULT 7', 'DEFAULT (upper(7))')".to_owned()),
        ("an index that calls", "CREATE INDEX evil ON message (json_extract(data, '$.x'))".to_owned()),
        ("a virtual table", "DROP TABLE part; CREATE VIRTUAL TABLE part USING fts5(id, message_id, session_id, time_created, time_updated, data)".to_owned()),
        ("a table without row ids", "DROP TABLE part; CREATE TABLE part (id text PRIMARY KEY, message_id text, session_id text, time_created integer, time_updated integer, data text) WITHOUT ROWID".to_owned()),
        ("a table without columns that matter", "DROP TABLE part; CREATE TABLE part (id text PRIMARY KEY)".to_owned()),
        ("a session without a project", "DROP INDEX session_project_idx; DROP TABLE session; CREATE TABLE session (id text)".to_owned()),
    ];
    for (name, schema) in schemas {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("opencode.db");
        std::fs::copy(&whole, &path).unwrap();
        sql(&path, schema);
        sql(&path, "UPDATE sqlite_schema SET sql = replace(sql, 'upper(', 'boom(')");
        let before = std::fs::read(&path).unwrap();
        let started = Instant::now();
        let seen = see(&path);
        assert!(!seen.documents.is_empty() || !seen.problems.is_empty(), "{name}");
        if let Ok(home) = OpencodeDatabase::open(&path)
            && let Err(error) = home.check(annals::ids::now(), &|| {})
        {
            assert!(error.to_string().contains("opencode.db"), "{name}: {error}");
        }
        assert!(std::fs::read(&path).unwrap() == before, "{name}: reading changed it");
        if let Ok(home) = OpencodeDatabase::open(&path) {
            let sample = Sample::new(annals::ids::new_session(), "/home/dev/shop");
            let message = annals::ids::new_message();
            let mut transaction = Transaction::new("among enemies");
            for (key, document) in [
                (sample.session_key(), sample.session_document("new", 1)),
                sample.prompt(&message, 1),
                sample.text(&message, &annals::ids::new_part(), "x"),
            ] {
                transaction.insert(key, document);
            }
            if let Err(error) = home.commit(transaction) {
                assert!(error.to_string().contains("opencode.db"), "{name}: {error}");
            }
        }
        assert!(started.elapsed() < PATIENCE, "{name}: took {:?}", started.elapsed());
        let owned = query(&path, "SELECT count(*) FROM project WHERE name = 'owned'");
        assert_eq!(owned, ["0"], "{name}");
    }
}
