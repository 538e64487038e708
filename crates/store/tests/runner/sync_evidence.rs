//! The rules of evidence in docs/sync.md, one by one: what a sync finds because of each, and what only a full sync finds.

use std::path::{Path, PathBuf};

use annals::home::{Read, Write};
use annals::model::{Key, Transaction};
use annals::stores::sqlite::SqliteStore;
use annals::sync::source::Source;
use annals::sync::{SyncOptions, SyncOutcome};
use annals_testkit::Fixture;

use super::annals_store::empty_store;
use super::kit::{Sample, empty_home, open_db, query, sql};
use super::sync::{ALL, run};

const FULL: SyncOptions = SyncOptions { full: true, ..ALL };
const HOUR: i64 = 3_600_000;

/// Who finds a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    BySync,
    ByFullSyncOnly,
}

/// Syncs a home, changes it, and syncs again.
fn assert_found(what: &str, home: &dyn Source, change: impl FnOnce(), found: Found) {
    let (_directory, store) = empty_store();
    run(&store, home, ALL);
    // Nothing is found where nothing has changed.
    assert_eq!(news(&run(&store, home, ALL)), 0, "{what}");
    change();
    let by_sync = news(&run(&store, home, ALL));
    assert_eq!(by_sync > 0, found == Found::BySync, "{what}");
    let by_full = news(&run(&store, home, FULL));
    assert_eq!(by_full > 0, found == Found::ByFullSyncOnly, "{what}");
    assert_same_text(what, &store, home);
}

/// How much of a home a sync found to be otherwise than it was.
fn news(account: &SyncOutcome) -> usize {
    account.imported + account.deleted + account.gone.len()
}

/// The store has every document of the home as it is there.
fn assert_same_text(what: &str, store: &SqliteStore, home: &dyn Read) {
    let sessions = home.sessions(&annals::query::SessionQuery::default()).unwrap().value;
    for session in sessions {
        for key in home.session_keys(&session.id).unwrap() {
            let text = |home: &dyn Read| {
                home.document(&key).unwrap().map(|stored| stored.document.text().to_owned())
            };
            assert_eq!(text(store), text(home), "{what}: {key}");
        }
    }
}

/// One session in files, written an hour ago or now.
struct Files {
    directory: tempfile::TempDir,
    home: annals::homes::opencode::directory::OpencodeDirectory,
    sample: Sample,
    /// The document of the answer, and the text in it.
    answer: PathBuf,
    text: PathBuf,
}

impl Files {
    /// `age`: how long ago it was written. `is_finished`: whether the answer has ended.
    fn new(age: i64, is_finished: bool) -> Files {
        let (directory, home) = empty_home();
        let sample = Sample::new(annals::ids::new_session(), "/home/dev/shop");
        let then = annals::ids::now() - age;
        let (user, assistant) = (annals::ids::new_message(), annals::ids::new_message());
        let part = annals::ids::new_part();
        let (key, mut document) = sample.answer(&assistant, &user, then);
        if !is_finished {
            document = document.without(&["time", "completed"]).unwrap();
        }
        let mut transaction = Transaction::new("add");
        for (key, document) in [
            (sample.session_key(), sample.session_document("A sample", then)),
            sample.prompt(&user, then),
            sample.text(&user, &annals::ids::new_part(), "What is it?"),
            (key, document),
            sample.text(&assistant, &part, "It is this."),
        ] {
            transaction.insert(key, document);
        }
        home.commit(transaction).unwrap();
        let storage = directory.path().join("storage");
        let answer = storage.join(format!("message/{}/{assistant}.json", sample.session));
        let text = storage.join(format!("part/{assistant}/{part}.json"));
        let files = Files { directory, home, sample, answer, text };
        files.set_back(age);
        files
    }

    /// Gives every file an earlier time.
    fn set_back(&self, age: i64) {
        let then =
            std::time::SystemTime::now() - std::time::Duration::from_millis(u64::try_from(age).unwrap());
        let storage = self.directory.path().join("storage");
        let messages = std::fs::read_dir(storage.join("message")).unwrap().map(|entry| entry.unwrap().path());
        for path in annals_testkit::files_below(&storage).into_iter().chain(messages) {
            std::fs::File::open(path).unwrap().set_modified(then).unwrap();
        }
    }

    fn session(&self) -> PathBuf {
        let Key::Session(project, session) = self.sample.session_key() else { unreachable!() };
        self.directory.path().join(format!("storage/session/{project}/{session}.json"))
    }
}

/// Rewrites a document in place: the same file, of the same length.
fn rewrite(path: &Path, from: &str, to: &str) {
    assert_eq!(from.len(), to.len());
    let text = std::fs::read_to_string(path).unwrap();
    assert!(text.contains(from), "{text}");
    std::fs::write(path, text.replace(from, to)).unwrap();
}

#[test]
fn the_session_document_of_a_directory() {
    let files = Files::new(HOUR, true);
    let rename = || {
        rewrite(&files.session(), "A sample", "An image");
        // Neither its length nor its time tells.
        files.set_back(HOUR);
    };
    assert_found("a rename", &files.home, rename, Found::BySync);
}

#[test]
fn the_message_directory_of_a_directory() {
    let files = Files::new(HOUR, true);
    let remove = || std::fs::remove_file(&files.answer).unwrap();
    assert_found("a removed message", &files.home, remove, Found::BySync);
    let files = Files::new(HOUR, true);
    let message = annals::ids::new_message();
    let add = || {
        let (_, document) = files.sample.prompt(&message, annals::ids::now() - HOUR);
        std::fs::write(files.answer.with_file_name(format!("{message}.json")), document.text()).unwrap();
    };
    assert_found("a message more", &files.home, add, Found::BySync);
}

#[test]
fn an_answer_in_a_directory_that_is_not_finished() {
    let edit = |files: &Files| rewrite(&files.text, "It is this.", "It is that.");
    let files = Files::new(HOUR, false);
    assert_found("an answer that goes on", &files.home, || edit(&files), Found::BySync);
    let files = Files::new(HOUR, true);
    assert_found("an answer that has ended", &files.home, || edit(&files), Found::ByFullSyncOnly);
}

#[test]
fn ten_minutes_of_rest_in_a_directory() {
    let edit = |files: &Files| rewrite(&files.text, "It is this.", "It is that.");
    let files = Files::new(9 * 60_000, true);
    assert_found("nine minutes later", &files.home, || edit(&files), Found::BySync);
    let files = Files::new(11 * 60_000, true);
    assert_found("eleven minutes later", &files.home, || edit(&files), Found::ByFullSyncOnly);
}

#[test]
fn the_project_records_of_a_directory() {
    let files = Files::new(HOUR, true);
    let path = files.directory.path().join(format!("storage/project/{}.json", files.sample.project));
    let add = || {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, r#"{"id":"p","worktree":"/home/dev/shop","time":{"created":1}}"#).unwrap();
    };
    assert_found("a project record", &files.home, add, Found::BySync);
}

/// A database that nobody has written to for long, and a session in it.
fn database(version: &str) -> (Fixture, PathBuf, String) {
    let fixture = Fixture::unpack(version);
    let path = fixture.home().join("opencode.db");
    let of_messages = "SELECT session_id FROM message GROUP BY session_id ORDER BY count(*) DESC LIMIT 1";
    let session = query(&path, of_messages).remove(0);
    (fixture, path, session)
}

/// The change that a statement makes to a database, in which `ID` stands for a session.
fn assert_found_in_database(version: &str, statement: &str, found: Found) {
    let (_fixture, path, session) = database(version);
    let home = open_db(&path);
    let change = || sql(&path, &statement.replace("ID", &format!("'{session}'")));
    assert_found(&format!("{version}: {statement}"), &home, change, found);
}

const VERSIONS: [&str; 2] = ["small-1.2.27", "small-1.18.33"];
const LAST_TEXT: &str =
    "(SELECT id FROM part WHERE session_id = ID AND json_extract(data, '$.type') = 'text' LIMIT 1)";

#[test]
fn the_row_of_a_session_in_a_database() {
    for version in VERSIONS {
        for assignment in
            ["title = 'Another'", "time_archived = 5", "share_url = 'http://x'", "directory = '/x'"]
        {
            let statement = format!("UPDATE session SET {assignment} WHERE id = ID");
            assert_found_in_database(version, &statement, Found::BySync);
        }
    }
}

#[test]
fn the_numbers_of_messages_and_parts_in_a_database() {
    for version in VERSIONS {
        for statement in [
            "DELETE FROM message WHERE id = (SELECT max(id) FROM message WHERE session_id = ID)",
            "DELETE FROM part WHERE id = (SELECT max(id) FROM part WHERE session_id = ID)",
        ] {
            assert_found_in_database(version, statement, Found::BySync);
        }
    }
}

#[test]
fn the_last_event_in_a_database() {
    let edit = format!("UPDATE part SET data = json_set(data, '$.text', 'edited') WHERE id = {LAST_TEXT}");
    for version in VERSIONS {
        assert_found_in_database(version, &edit, Found::ByFullSyncOnly);
    }
    let told = format!("{edit}; UPDATE event_sequence SET seq = seq + 1 WHERE aggregate_id = ID");
    assert_found_in_database("small-1.18.33", &told, Found::BySync);
}

/// Whether anybody has written to a database is told by its file, also if its time was set back.
#[test]
fn the_file_of_a_database() {
    for version in VERSIONS {
        let (_fixture, path, session) = database(version);
        let set_back = || {
            let then = std::time::SystemTime::now() - std::time::Duration::from_secs(60);
            std::fs::File::open(&path).unwrap().set_modified(then).unwrap();
        };
        set_back();
        let rename = || {
            sql(&path, &format!("UPDATE session SET title = 'Another' WHERE id = '{session}'"));
            set_back();
        };
        assert_found(version, &open_db(&path), rename, Found::BySync);
    }
}

#[test]
fn a_home_that_is_as_it_was_is_not_read() {
    let files = Files::new(HOUR, true);
    let (_directory, store) = empty_store();
    run(&store, &files.home, ALL);
    let account = run(&store, &files.home, ALL);
    assert_eq!((account.looked, account.seen), (0, 0), "{account:?}");
}
