//! Keeping a store: backups, pruning, forgetting, disks that are full or cannot be written to, and other people's eyes.

use annals::search::Search;
use annals::store::Store;
use annals::upkeep::Upkeep;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use annals::history::{self, At, History, LogQuery, UndoError};
use annals::home::{CommitError, Inspect, Read, ReadError, Write};
use annals::ids;
use annals::model::id::{MessageId, PartId, SessionId};
use annals::model::lens::Session;
use annals::model::search::query::parse;
use annals::model::{Document, Key, Transaction};
use annals::query::SessionQuery;
use annals::search::{SearchRequest, Wanted};
use annals::store::OpenStoreError;
use annals::stores::sqlite::{SqliteStore, restore_backup};
use annals::upkeep::{BackupError, ForgetError, PrunedSession};

use super::annals_store::empty_store;
use super::kit::{Sample, export, messages, query, session, session_id, sql};

/// Long after everything that a store says was written.
const NOW: i64 = 1_900_000_000_000;
const STORE: &str = "ANNALS_TEST_KEEP_STORE";
const TASK: &str = "ANNALS_TEST_KEEP_TASK";

/// The files of a directory, without those that come and go with connections.
fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|name| !["-wal", "-shm", "-lock", "-index-lock"].iter().any(|end| name.ends_with(end)));
    names.sort();
    names
}

fn assert_in_order(store: &SqliteStore) {
    let problems = store.check(NOW, &|| {}).unwrap();
    assert!(problems.is_empty(), "{problems:#?}");
}

fn add_session(store: &SqliteStore, title: &str) -> Sample {
    let sample = Sample::new(ids::new_session(), "/home/dev/shop");
    sample.store(store, &format!("a question about {title}"), &format!("an answer about {title}"));
    rename(store, &sample, title);
    sample
}

fn rename(store: &SqliteStore, sample: &Sample, title: &str) -> i64 {
    let stored = store.document(&sample.session_key()).unwrap().unwrap();
    let mut transaction = Transaction::new(format!("call it {title}"));
    transaction.replace(&stored, stored.document.with(&["title"], title).unwrap());
    store.commit(transaction).unwrap().revision.unwrap()
}

fn titles(home: &dyn Read) -> Vec<String> {
    let sessions = home.sessions(&SessionQuery::default()).unwrap();
    let title = |document: &Document| document.lens::<Session<'_>>().title.map(|title| title.to_string());
    let mut titles: Vec<String> =
        sessions.value.iter().filter_map(|record| title(&record.stored.document)).collect();
    titles.sort();
    titles
}

fn no_progress(_: usize, _: usize) {}

/// Runs this binary again for a task on a store.
fn process(task: &str, store: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "runner::annals_keep::process_with_a_task", "--nocapture", "--test-threads=1"])
        .env(STORE, store)
        .env(TASK, task)
        .stdout(Stdio::piped());
    command
}

fn run(task: &str, store: &Path) -> String {
    let output = process(task, store).output().unwrap();
    assert!(output.status.success(), "{task}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// What other processes do: not a test, but what the tests start this binary for.
#[test]
fn process_with_a_task() {
    let (Ok(path), Ok(task)) = (std::env::var(STORE), std::env::var(TASK)) else { return };
    let path = Path::new(&path);
    match task.as_str() {
        "create" => {
            let store = SqliteStore::open_or_create(path).unwrap();
            add_session(&store, "Made");
            store.backup(&path.with_file_name("backup.db"), &no_progress).unwrap();
        }
        "write" => drop(add_session(&SqliteStore::open(path).unwrap(), "Written by another")),
        "write on" => {
            let store = SqliteStore::open(path).unwrap();
            let sample = add_session(&store, "Written on");
            for n in 0.. {
                let mut transaction = Transaction::new("on and on");
                let title = format!("Written on {n}");
                match store.document(&sample.session_key()).unwrap() {
                    Some(stored) => {
                        let renamed = stored.document.with(&["title"], title.as_str()).unwrap();
                        transaction.replace(&stored, renamed);
                    }
                    // A store that was put in this one's place does not have the session.
                    None => transaction.insert(sample.session_key(), sample.session_document(&title, 1)),
                }
                match store.commit(transaction) {
                    Ok(_) | Err(CommitError::Conflict { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        }
        "read" => {
            let store = SqliteStore::open(path).unwrap();
            let error = store.commit(change()).unwrap_err();
            let titles = titles(&store);
            println!("titles {titles:?} read-only {} error {error}", store.is_read_only());
            assert_in_order(&store);
        }
        "open" => match SqliteStore::open(path) {
            Ok(_) => println!("opened"),
            Err(error) => println!("error {error}"),
        },
        "hold" => {
            let store = SqliteStore::open(path).unwrap();
            let view = store.sessions(&SessionQuery::default()).unwrap();
            println!("holding {}", view.value.len());
            let connection = rusqlite::Connection::open(path).unwrap();
            connection.execute_batch("BEGIN; SELECT count(*) FROM document").unwrap();
            println!("reading");
            std::thread::sleep(Duration::from_secs(60));
        }
        "fill" => fill(path).iter().for_each(|(what, said)| println!("said {what}: {said}")),
        task => panic!("no task {task}"),
    }
}

fn change() -> Transaction {
    let sample = Sample::new(ids::new_session(), "/home/dev/shop");
    let mut transaction = Transaction::new("one more");
    transaction.insert(sample.session_key(), sample.session_document("One more", 1));
    transaction
}

/// A process that ends with the test.
struct Ending(Child);

impl Drop for Ending {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_backup_is_of_one_moment_and_made_while_others_write() {
    let (directory, store) = empty_store();
    let samples: Vec<Sample> = (0..20).map(|n| add_session(&store, &format!("Session {n}"))).collect();
    let _writer = Ending(process("write on", store.path()).spawn().unwrap());
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // In this process as well: two sessions that are renamed together.
        scope.spawn(|| {
            for n in 0.. {
                if done.load(Ordering::Relaxed) {
                    break;
                }
                let mut transaction = Transaction::new("both");
                for sample in &samples[..2] {
                    let stored = store.document(&sample.session_key()).unwrap().unwrap();
                    let title = format!("Both {n}");
                    transaction.replace(&stored, stored.document.with(&["title"], title.as_str()).unwrap());
                }
                store.commit(transaction).unwrap();
            }
        });
        for n in 0..5 {
            let target = directory.path().join(format!("backup-{n}.db"));
            let steps = std::sync::Mutex::new(Vec::new());
            let report =
                store.backup(&target, &|done, total| steps.lock().unwrap().push((done, total))).unwrap();
            let steps = steps.into_inner().unwrap();
            assert!(
                steps.is_sorted() && steps.last().is_some_and(|(done, total)| done == total),
                "{steps:?}"
            );
            assert_eq!(report.bytes, std::fs::metadata(&target).unwrap().len());
            let copy = SqliteStore::open(&target).unwrap();
            assert_eq!(report.revisions as i64, copy.head().unwrap());
            assert_eq!(report.documents, query(&target, "SELECT n FROM document WHERE hash NOTNULL").len());
            let both = titles(&copy).into_iter().filter(|title| title.starts_with("Both"));
            let both: Vec<String> = both.collect();
            assert!(both.is_empty() || both.len() == 2 && both[0] == both[1], "{both:?}");
            assert_in_order(&copy);
            // Whatever was written later, the store still knows that moment.
            let then = store.at(At::Revision(copy.head().unwrap())).unwrap().unwrap();
            assert_eq!(titles(&*then), titles(&copy));
            std::thread::sleep(Duration::from_millis(30));
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(names(directory.path()).len(), 6, "{:?}", names(directory.path()));
}

#[test]
fn a_backup_overwrites_nothing() {
    let (directory, store) = empty_store();
    add_session(&store, "Kept");
    let target = directory.path().join("backup.db");
    let refuses = |target: &Path| {
        let error = store.backup(target, &no_progress).unwrap_err();
        assert!(matches!(error, BackupError::Exists { .. }), "{error}");
    };
    std::fs::write(&target, "mine").unwrap();
    refuses(&target);
    assert_eq!(std::fs::read(&target).unwrap(), b"mine");
    refuses(store.path());
    refuses(directory.path());
    std::fs::remove_file(&target).unwrap();
    // A log that was left behind would be taken for the backup's.
    std::fs::write(directory.path().join("backup.db-wal"), "left behind").unwrap();
    refuses(&target);
    std::fs::remove_file(directory.path().join("backup.db-wal")).unwrap();
    let error = store.backup(&directory.path().join("nowhere/backup.db"), &no_progress).unwrap_err();
    assert!(matches!(error, BackupError::NotFound { .. }), "{error}");
    assert_eq!(names(directory.path()), ["annals.db"]);
}

#[test]
fn a_backup_of_a_damaged_store_is_none() {
    let (directory, store) = empty_store();
    add_session(&store, "Damaged");
    let path = store.path().to_owned();
    drop(store);
    sql(&path, "UPDATE document SET data = 'x', form = 0 WHERE n = 2");
    let store = SqliteStore::open(&path).unwrap();
    let target = directory.path().join("backup.db");
    let error = store.backup(&target, &no_progress).unwrap_err();
    assert!(matches!(error, BackupError::Damaged { .. }), "{error}");
    assert_eq!(names(directory.path()), ["annals.db"]);
}

#[test]
fn what_was_there_before_a_backup_was_restored_is_kept() {
    let (directory, store) = empty_store();
    let old = add_session(&store, "Old");
    let backup = directory.path().join("backup.db");
    store.backup(&backup, &no_progress).unwrap();
    let bytes = std::fs::read(&backup).unwrap();
    let new = add_session(&store, "New");
    let index = directory.path().join("annals.index");
    std::fs::create_dir(&index).unwrap();
    std::fs::write(index.join("segment"), "of another state").unwrap();
    let restored = restore_backup(&backup, store.path(), 1_766_578_085_876).unwrap();
    let kept = restored.kept.clone().unwrap();
    assert_eq!(kept.file_name().unwrap(), "annals.db.before-restore-20251224T120805Z");
    assert_eq!((restored.revisions, restored.documents), (2, 5));
    // Whoever has it open goes on with what was restored.
    assert_eq!(titles(&store), ["Old"]);
    assert!(store.session(&new.session).unwrap().is_none());
    assert!(!index.exists());
    assert_in_order(&store);
    rename(&store, &old, "Old, renamed");
    assert_eq!(titles(&SqliteStore::open(store.path()).unwrap()), ["Old, renamed"]);
    let before = SqliteStore::open(&kept).unwrap();
    assert_eq!(titles(&before), ["New", "Old"]);
    assert_in_order(&before);
    assert!(std::fs::read(&backup).unwrap() == bytes, "the backup is as it was");
    // Twice in a second.
    let again = restore_backup(&backup, store.path(), 1_766_578_085_999).unwrap();
    assert_eq!(again.kept.unwrap().file_name().unwrap(), "annals.db.before-restore-20251224T120805Z-2");
    assert_eq!(names(directory.path()).len(), 4, "{:?}", names(directory.path()));
}

#[test]
fn a_backup_is_restored_where_there_is_no_store() {
    let (directory, store) = empty_store();
    add_session(&store, "Old");
    let backup = directory.path().join("backup.db");
    store.backup(&backup, &no_progress).unwrap();
    let path = directory.path().join("somewhere/else/annals.db");
    let restored = restore_backup(&backup, &path, NOW).unwrap();
    assert_eq!(restored.kept, None);
    let restored = SqliteStore::open(&path).unwrap();
    assert_eq!(titles(&restored), ["Old"]);
    rename(&restored, &add_session(&restored, "x"), "New");
    // A log whose database was deleted is put aside: it is not the restored one's.
    let log = directory.path().join("somewhere/else/annals.db-wal");
    std::fs::copy(&log, directory.path().join("log")).unwrap();
    drop(restored);
    std::fs::remove_file(&path).unwrap();
    std::fs::copy(directory.path().join("log"), &log).unwrap();
    restore_backup(&backup, &path, NOW).unwrap();
    let restored = SqliteStore::open(&path).unwrap();
    assert_eq!(titles(&restored), ["Old"]);
    assert_in_order(&restored);
}

#[test]
fn a_damaged_store_is_replaced_and_kept_as_it_is() {
    let (directory, store) = empty_store();
    add_session(&store, "Old");
    let backup = directory.path().join("backup.db");
    store.backup(&backup, &no_progress).unwrap();
    let path = store.path().to_owned();
    drop(store);
    let whole = std::fs::read(&path).unwrap();
    let mut headless = whole.clone();
    headless[..200].fill(7);
    let mut damages = vec![headless, Vec::new(), b"no database at all".to_vec(), whole[..20_000].to_vec()];
    let mut holes = whole;
    holes[4096 * 3..4096 * 6].fill(0);
    damages.push(holes);
    for damaged in damages {
        std::fs::write(&path, &damaged).unwrap();
        let restored = restore_backup(&backup, &path, NOW).unwrap();
        assert!(std::fs::read(restored.kept.unwrap()).unwrap() == damaged);
        let store = SqliteStore::open(&path).unwrap();
        assert_eq!(titles(&store), ["Old"]);
        assert_in_order(&store);
    }
}

#[test]
fn what_is_no_whole_backup_is_not_restored() {
    let (directory, store) = empty_store();
    add_session(&store, "Kept");
    let backup = directory.path().join("backup.db");
    store.backup(&backup, &no_progress).unwrap();
    let bytes = std::fs::read(&backup).unwrap();
    let refused = |name: &str, expected: &str| {
        let before = names(directory.path());
        let error = restore_backup(&backup, store.path(), NOW).unwrap_err();
        assert!(error.to_string().contains(expected), "{name}: {error}");
        assert_eq!(titles(&store), ["Kept"], "{name}");
        assert_eq!(names(directory.path()), before, "{name}");
    };
    let mut damaged = bytes.clone();
    for page in 1..bytes.len() / 4096 {
        damaged[page * 4096 + 3900..page * 4096 + 4000].fill(0x5a);
    }
    std::fs::write(&backup, &damaged).unwrap();
    refused("damaged", "is damaged");
    std::fs::write(&backup, &bytes[..bytes.len() / 2]).unwrap();
    refused("cut short", "is damaged");
    std::fs::write(&backup, "no database").unwrap();
    refused("text", "is not a store");
    std::fs::write(&backup, "").unwrap();
    refused("empty", "is not a store");
    std::fs::remove_file(&backup).unwrap();
    refused("missing", "does not exist");
    sql(&backup, "CREATE TABLE bookmarks (id INTEGER)");
    refused("another database", "is not a store");
    std::fs::write(&backup, &bytes).unwrap();
    sql(&backup, "UPDATE meta SET value = 9; PRAGMA wal_checkpoint(TRUNCATE)");
    refused("newer", "was made by a later version of annals (schema 9, this one knows 7)");
    std::fs::write(&backup, &bytes).unwrap();
    sql(&backup, "UPDATE document SET data = 'x', form = 0 WHERE n = 2; PRAGMA wal_checkpoint(TRUNCATE)");
    refused("a wrong text", "its text is not what its hash says");
    let error = restore_backup(store.path(), store.path(), NOW).unwrap_err();
    assert!(matches!(error, BackupError::Same { .. }), "{error}");
}

/// A backup that was opened since as a store has a log of its own.
#[test]
fn a_backup_with_a_log_is_restored_with_it() {
    let (directory, store) = empty_store();
    add_session(&store, "Old");
    let backup = directory.path().join("backup.db");
    store.backup(&backup, &no_progress).unwrap();
    let opened = SqliteStore::open(&backup).unwrap();
    add_session(&opened, "Later");
    restore_backup(&backup, store.path(), NOW).unwrap();
    assert_eq!(titles(&store), ["Later", "Old"]);
    assert_eq!(titles(&opened), ["Later", "Old"]);
}

/// Readers and writers in other processes have files open that are not the store any more.
#[test]
fn backups_are_restored_under_the_hands_of_others() {
    let (directory, store) = empty_store();
    add_session(&store, "Old");
    let backup = directory.path().join("backup.db");
    store.backup(&backup, &no_progress).unwrap();
    let mut writers: Vec<Ending> =
        (0..3).map(|_| Ending(process("write on", store.path()).spawn().unwrap())).collect();
    for n in 0..15 {
        std::thread::sleep(Duration::from_millis(80));
        let restored = restore_backup(&backup, store.path(), NOW + n * 1000).unwrap();
        let kept = SqliteStore::open(&restored.kept.unwrap()).unwrap();
        assert!(titles(&kept).contains(&"Old".to_owned()));
        assert_in_order(&kept);
        assert!(titles(&store).contains(&"Old".to_owned()));
    }
    std::thread::sleep(Duration::from_millis(300));
    let is_running = |writer: &mut Ending| writer.0.try_wait().unwrap().is_none();
    assert!(writers.iter_mut().all(is_running), "nobody failed");
    drop(writers);
    assert!(store.head().unwrap() > 3, "they went on writing");
    assert_in_order(&store);
    assert_in_order(&SqliteStore::open(store.path()).unwrap());
}

fn todo(store: &SqliteStore, sample: &Sample, text: &str) -> i64 {
    let mut transaction = Transaction::new("a todo");
    let text = format!(r#"[{{"content":"{text}"}}]"#);
    transaction.put(Key::Todo(sample.session.clone()), Document::parse(text.into_bytes()).unwrap());
    store.commit(transaction).unwrap().revision.unwrap()
}

thread_local! {
    static CLOCK: std::cell::Cell<i64> = const { std::cell::Cell::new(1_000) };
}

#[test]
fn history_is_pruned_and_nothing_else() {
    let (_directory, store) = empty_store();
    let store = store.with_clock(|| CLOCK.get());
    let at = |time: i64| CLOCK.set(time);
    at(1_000);
    let sample = Sample::new(ids::new_session(), "/home/dev/shop");
    sample.store(&store, "a", "b");
    let other = Sample::new(ids::new_session(), "/home/dev/shop");
    other.store(&store, "a", "b");
    let mut renamed = Vec::new();
    for n in 2..=6 {
        at(n * 1_000);
        renamed.push(rename(&store, &sample, &format!("{} {n}", "Title ".repeat(60))));
        rename(&store, &other, &format!("Title {n}"));
    }
    at(7_000);
    let record = session(&store, sample.session.as_str());
    let (all, _) = messages(&store, &record);
    let mut transaction = Transaction::new("revert");
    transaction.delete(&all[1].parts[0]);
    transaction.delete(&all[1].stored);
    store.commit(transaction).unwrap();
    at(8_000);
    todo(&store, &sample, "now");
    let (now, of_other) = (export(&store, sample.session.as_str()), export(&store, other.session.as_str()));
    let only = [sample.session.clone()];
    // Nothing came from sync, so nothing is pruned unless it is named.
    assert_eq!(store.prune(NOW, None, false).unwrap().states(), 0);
    assert_eq!(
        store.prune(2_000, Some(&only), true).unwrap().states(),
        0,
        "what ended at that time did not before"
    );
    let would = store.prune(5_000, Some(&only), true).unwrap();
    assert_eq!(would.states(), 3);
    assert_eq!(query(store.path(), "SELECT count(*) FROM past WHERE data IS NULL"), ["0"]);
    let pruned = store.prune(5_000, Some(&only), false).unwrap();
    assert_eq!(pruned, would);
    assert_eq!(
        pruned.sessions,
        [PrunedSession { session: Some(sample.session.clone()), states: 3, bytes: pruned.bytes() }]
    );
    assert!(pruned.bytes() > 300, "{pruned:?}");
    assert_eq!(store.prune(5_000, Some(&only), false).unwrap().states(), 0);
    assert_eq!(export(&store, sample.session.as_str()), now);
    assert_eq!(export(&store, other.session.as_str()), of_other);
    assert_in_order(&store);
    // What is left of history is there, and the rest is known to have been.
    let then = |time: i64| {
        let view = store.at(At::Time(time)).unwrap().unwrap();
        view.document(&sample.session_key())
            .map(|stored| stored.map(|stored| stored.document.text().to_owned()))
    };
    assert!(then(5_500).unwrap().is_some_and(|text| text.contains(" 5\"")));
    for time in [1_500, 2_500, 3_500] {
        let error = then(time).unwrap_err();
        assert!(
            matches!(&error, ReadError::Unreadable(_)) && error.to_string().contains("was pruned"),
            "{error}"
        );
    }
    assert_eq!(then(500).unwrap(), None);
    let error = history::undo(&store, &store, renamed[2]).unwrap_err();
    assert!(matches!(error, UndoError::NotKept { .. } | UndoError::ChangedSince { .. }), "{error}");
    let view = store.at(At::Time(2_500)).unwrap().unwrap();
    let error = history::restore(&store, &*view, &sample.session, "back".to_owned()).unwrap_err();
    assert!(matches!(error, UndoError::Read(_)), "{error}");
    // What was deleted is history too.
    let view = store.at(At::Time(6_500)).unwrap().unwrap();
    assert_eq!(messages(&*view, &record).0.len(), 2);
    let pruned = store.prune(7_500, Some(&only), false).unwrap();
    assert_eq!(pruned.states(), 4, "two titles, a message, a part: {pruned:?}");
    let view = store.at(At::Time(6_500)).unwrap().unwrap();
    let (visited, quarantined) = messages(&*view, &record);
    assert_eq!((visited.len(), quarantined.len()), (1, 1), "{quarantined:?}");
    assert_eq!(export(&store, sample.session.as_str()), now);
    // Undoing what came right after must not take the beginning of what is known for the beginning of the document.
    let error = history::undo(&store, &store, *renamed.last().unwrap()).unwrap_err();
    assert!(matches!(error, UndoError::NotKept { .. }), "{error}");
    assert_eq!(
        titles(&*store.at(At::Time(3_500)).unwrap().unwrap()),
        ["Title 3"],
        "others have their history"
    );
    assert_in_order(&store);
}

#[test]
fn pruning_without_names_is_for_what_sync_brought_and_shrinks_the_file() {
    let (_directory, store) = empty_store();
    let (synced, own) = (add_session(&store, "Synced"), add_session(&store, "Own"));
    let mut seed = 5_u64;
    let mut noise = || {
        (0..20_000)
            .map(|_| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                char::from(b'a' + (seed >> 40) as u8 % 26)
            })
            .collect::<String>()
    };
    for _ in 0..60 {
        todo(&store, &synced, &noise());
        todo(&store, &own, &noise());
    }
    sql(
        store.path(),
        &format!(
            "INSERT INTO home (n, url, rank) VALUES (1, '/x', 0);
             UPDATE document SET home = 1 WHERE kind = 5 AND owner = (SELECT n FROM document WHERE id = '{}')",
            synced.session
        ),
    );
    let before = store.bytes();
    let pruned = store.prune(NOW, None, false).unwrap();
    assert_eq!((pruned.sessions.len(), pruned.states()), (1, 59), "{pruned:?}");
    assert_eq!(pruned.sessions[0].session, Some(synced.session.clone()));
    assert!(pruned.bytes() > 59 * 10_000, "{pruned:?}");
    let after = store.bytes();
    assert!(after + pruned.bytes() < before, "{before} bytes before, {after} after");
    assert_eq!(query(store.path(), "PRAGMA freelist_count"), ["0"]);
    assert_in_order(&store);
    let states = |sample: &Sample| {
        let log = LogQuery { session: Some(sample.session.clone()), ..LogQuery::default() };
        let key = Key::Todo(sample.session.clone());
        let revisions = store.log(&log).unwrap();
        let at = |number: i64| store.at(At::Revision(number)).unwrap().unwrap().document(&key);
        revisions.iter().filter(|revision| at(revision.number).is_ok_and(|stored| stored.is_some())).count()
    };
    assert_eq!((states(&synced), states(&own)), (1, 60));
}

/// All files of a store's directory, in one.
fn all_bytes(directory: &Path) -> Vec<u8> {
    let files = annals_testkit::files_below(directory);
    files.into_iter().flat_map(|path| std::fs::read(path).unwrap()).collect()
}

/// How many documents the text index knows with a word.
fn n_hits(store: &SqliteStore, word: &str) -> usize {
    let request = SearchRequest {
        wanted: Wanted::Words(parse(word).unwrap()),
        sessions: SessionQuery::default(),
        since: None,
        until: None,
        filters: Vec::new(),
        offset: 0,
        limit: 50,
        now: NOW,
        snippet_width: 80,
    };
    store.search(&request).unwrap().total
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    memchr::memmem::find(haystack, needle).is_some()
}

/// Documents of a session that nobody else has a trace of.
fn secret(store: &SqliteStore, sample: &Sample, word: &str, n: usize) {
    let user = MessageId::parse(&format!("msg_b50425ff{n:04}{word}0000000001")).unwrap();
    let (short, long) = (
        PartId::parse(&format!("prt_b50425ff{n:04}{word}0000000001")).unwrap(),
        PartId::parse(&format!("prt_b50425ff{n:04}{word}0000000002")).unwrap(),
    );
    let mut transaction = Transaction::new(format!("the reason is {word}"));
    let title = format!("Title {word} {n}");
    transaction.put(sample.session_key(), sample.session_document(&title, 1_766_578_085_876));
    let mut put = |(key, document): (Key, Document)| transaction.put(key, document);
    put(sample.prompt(&user, 1_766_578_085_876 + n as i64));
    put(sample.text(&user, &short, &format!("{word} short {n}")));
    put(sample.text(&user, &long, &format!("{word} long {n} ").repeat(50 + 700 * (n % 3))));
    store.commit(transaction).unwrap();
    todo(store, sample, &format!("{word} to do {n}"));
}

#[test]
fn a_forgotten_session_leaves_nothing_in_any_file() {
    let (directory, store) = empty_store();
    let secret_session =
        Sample::new(SessionId::parse("ses_4afbda00cffeXyzzy0000000001").unwrap(), "/home/dev/Xyzzy");
    let other = Sample::new(SessionId::parse("ses_4afbda00cffePlain0000000001").unwrap(), "/home/dev/shop");
    // Rows of both lie in the same pages, and move between pages as others grow.
    for n in 0..25 {
        secret(&store, &other, "Plain", n);
        secret(&store, &secret_session, "Xyzzy", n);
        if n % 5 == 4 {
            run("write", store.path());
        }
    }
    let mut random = 3_u64;
    let mut update = |word: &str, sample: &Sample| {
        for _ in 0..120 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (n, length) = ((random >> 33) % 25, (random >> 40) % 40);
            let user = MessageId::parse(&format!("msg_b50425ff{n:04}{word}0000000001")).unwrap();
            let part = PartId::parse(&format!("prt_b50425ff{n:04}{word}0000000001")).unwrap();
            let mut transaction = Transaction::new(format!("{word} again"));
            let text = format!("{word} {random} ").repeat(length as usize);
            let (key, document) = sample.text(&user, &part, &text);
            transaction.put(key, document);
            store.commit(transaction).unwrap();
        }
    };
    update("Xyzzy", &secret_session);
    update("Plain", &other);
    update("Xyzzy", &secret_session);
    run("write", store.path());
    sql(
        store.path(),
        &format!(
            "INSERT INTO home (n, url, rank) VALUES (1, '/x', 0);
             INSERT INTO origin (session, home, place, updated, stamp, looked, settled, stage, events, gone) SELECT n, 1, 'session/' || id, 1, x'01', 1, 1, 2, NULL, NULL FROM document WHERE kind = 2;
             INSERT INTO held (document, home, bytes, state) SELECT n, 1, hash, hash FROM document WHERE kind = 3;
             INSERT INTO quarantine VALUES (1, 'message/{0}/x', 'torn', '{0}', 1), (1, 'part/{0}/y', 'torn', NULL, 1),
                                           (1, 'part/z', 'torn', NULL, 1)",
            secret_session.session
        ),
    );
    store.rederive().unwrap();
    let stored = |column: &str, table: &str| -> Vec<Vec<u8>> {
        let connection = rusqlite::Connection::open(store.path()).unwrap();
        let sql = format!(
            "WITH RECURSIVE tree (n) AS (SELECT n FROM document WHERE id = '{}' UNION SELECT d.n FROM document d JOIN tree ON d.owner = tree.n) \
             SELECT CAST({column} AS BLOB) FROM {table} WHERE {column} NOTNULL",
            secret_session.session
        );
        let mut statement = connection.prepare(&sql).unwrap();
        statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    let mut needles = stored("x.data", "document x JOIN tree USING (n)");
    needles.extend(stored("x.data", "past x JOIN tree ON tree.n = x.document"));
    needles.extend(stored("x.id", "document x JOIN tree USING (n)"));
    needles.retain(|needle| needle.len() > 8);
    assert!(needles.len() > 400, "{}", needles.len());
    // Of compressed bytes a piece will do.
    needles.iter_mut().for_each(|needle| needle.truncate(48));
    needles.push(b"Xyzzy".to_vec());
    let before = all_bytes(directory.path());
    assert!(needles.iter().filter(|needle| contains(&before, needle)).count() > 400);
    let log = |session: &SessionId| {
        store.log(&LogQuery { session: Some(session.clone()), ..LogQuery::default() }).unwrap()
    };
    let of_other = log(&other.session);
    let view = |number: i64| {
        let view = store.at(At::Revision(number)).unwrap().unwrap();
        export(&*view, other.session.as_str())
    };
    let states: BTreeMap<i64, Vec<u8>> =
        of_other.iter().map(|revision| (revision.number, view(revision.number))).collect();
    let all_titles = titles(&store);
    let n_revisions = store.head().unwrap();
    store.update_index(&|_, _| {}).unwrap();
    assert!(n_hits(&store, "xyzzy") > 50);
    let n_plain = n_hits(&store, "plain");

    let forgotten = store.forget(std::slice::from_ref(&secret_session.session)).unwrap();
    assert!(
        forgotten.log_emptied && forgotten.not_rewritten.is_none() && forgotten.copies.is_empty(),
        "{forgotten:?}"
    );
    assert_eq!(forgotten.n_documents, 1 + 25 * 3 + 1);
    assert!(forgotten.n_states > 200 && forgotten.n_revisions > 200, "{forgotten:?}");
    let after = all_bytes(directory.path());
    for needle in &needles {
        assert!(!contains(&after, needle), "{:?}", String::from_utf8_lossy(needle));
    }
    assert_eq!((n_hits(&store, "xyzzy"), n_hits(&store, "plain")), (0, n_plain));
    assert!(store.session(&secret_session.session).unwrap().is_none());
    assert!(log(&secret_session.session).is_empty());
    assert_eq!(titles(&store).len(), all_titles.len() - 1);
    // Everything else is as it was.
    assert_eq!(log(&other.session), of_other);
    for (number, exported) in &states {
        assert!(view(*number) == *exported, "revision {number}");
    }
    assert_eq!(store.head().unwrap(), n_revisions);
    let all = store.log(&LogQuery::default()).unwrap();
    assert_eq!(all.len() as i64, n_revisions, "numbers and times stay");
    assert!(all.iter().any(|revision| revision.reason == "forgotten" && revision.touched.is_empty()));
    assert_eq!(query(store.path(), "SELECT place FROM quarantine"), ["part/z"]);
    let hash = annals::model::ContentHash::of(secret_session.session.as_str().as_bytes());
    assert_eq!(query(store.path(), "SELECT hash FROM forgotten"), [format!("{:?}", &hash.as_bytes()[..16])]);
    let problems = store.check(NOW, &|| {}).unwrap();
    assert!(problems.iter().all(|problem| problem.detail == "torn"), "{problems:?}");
    // Others can go on, with the store as it was open and anew.
    run("write", store.path());
    rename(&store, &other, "Later");
    let after = all_bytes(directory.path());
    assert!(!needles.iter().any(|needle| contains(&after, needle)));
    // Again, in case the first time was cut short; of one that never was, nothing is known.
    assert_eq!(store.forget(std::slice::from_ref(&secret_session.session)).unwrap().n_documents, 0);
    let error = store.forget(&[session_id("ses_4afbda00cffeNever00000000001")]).unwrap_err();
    assert!(matches!(error, ForgetError::NotFound(_)), "{error}");
}

/// `secure_delete` alone does not do it: should that change, the file need not be written anew any more.
#[test]
fn deleted_rows_leave_remains_where_pages_were_rearranged() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.db");
    sql(
        &path,
        "PRAGMA journal_mode = WAL; PRAGMA secure_delete = 1; CREATE TABLE d (n INTEGER PRIMARY KEY, data);
         WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 600)
         INSERT INTO d SELECT n, iif(n % 3, 'plain', 'secret') || n FROM c",
    );
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection.pragma_update(None, "secure_delete", true).unwrap();
    for n in 0..1500 {
        let (row, length) = (1 + n * 7919 % 600, n * 31 % 400);
        connection
            .execute(
                "UPDATE d SET data = iif(n % 3, 'plain', 'secret') || n || hex(zeroblob(?2)) WHERE n = ?1",
                (row, length),
            )
            .unwrap();
    }
    connection.execute_batch("DELETE FROM d WHERE n % 3 = 0; PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    assert!(contains(&all_bytes(directory.path()), b"secret"));
    connection.execute_batch("VACUUM; PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    assert!(!contains(&all_bytes(directory.path()), b"secret"));
}

#[test]
fn a_reader_that_stays_keeps_the_log_and_that_is_said() {
    use std::io::BufRead;
    let (directory, store) = empty_store();
    let sample = add_session(&store, "Xyzzy");
    add_session(&store, "Other");
    let copy = directory.path().join("annals.db.before-schema-7");
    std::fs::write(&copy, "a copy").unwrap();
    let mut holder = Ending(process("hold", store.path()).spawn().unwrap());
    let stdout = holder.0.stdout.take().unwrap();
    assert!(std::io::BufReader::new(stdout).lines().any(|line| line.unwrap() == "reading"));
    let forgotten = store.forget(std::slice::from_ref(&sample.session)).unwrap();
    assert!(!forgotten.log_emptied);
    assert_eq!(forgotten.copies, [copy]);
    assert_eq!(titles(&store), ["Other"]);
    // Nobody had to wait for more than a moment at a time.
    add_session(&store, "Meanwhile");
    drop(holder);
    let other = add_session(&store, "Another");
    assert!(store.forget(std::slice::from_ref(&other.session)).unwrap().log_emptied);
    assert!(!contains(&all_bytes(directory.path()), b"Xyzzy"));
}

#[test]
fn newer_stores_are_refused_or_only_read() {
    let (_directory, store) = empty_store();
    add_session(&store, "Kept");
    let path = store.path().to_owned();
    drop(store);
    sql(&path, "UPDATE meta SET value = value + 1 WHERE name = 'schema'");
    let store = SqliteStore::open(&path).unwrap();
    assert!(store.is_read_only());
    assert_eq!(titles(&store), ["Kept"]);
    let error = store.commit(change()).unwrap_err();
    assert!(matches!(error, CommitError::Unsupported(_)), "{error}");
    assert!(error.to_string().contains("was made by a later version of annals"), "{error}");
    let sessions = store.sessions(&SessionQuery::default()).unwrap().value;
    let error = store.forget(std::slice::from_ref(&sessions[0].id)).unwrap_err();
    assert!(matches!(error, ForgetError::Commit(CommitError::Unsupported(_))), "{error}");
    drop(store);
    sql(&path, "UPDATE meta SET value = value + 1 WHERE name = 'reader'");
    let error = SqliteStore::open(&path).unwrap_err();
    assert!(matches!(error, OpenStoreError::Newer { .. }), "{error}");
}

/// A log that is gone leaves nothing in the database that would tell. What everybody queues at does.
#[test]
fn a_lost_log_is_told() {
    let (directory, store) = empty_store();
    for title in ["One", "Two", "Three"] {
        add_session(&store, title);
    }
    let head = store.head().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let copy = |name: &str| {
        std::fs::copy(directory.path().join(name), elsewhere.path().join(name)).unwrap();
    };
    let path = elsewhere.path().join("annals.db");
    for (is_log_there, expected) in [(true, None), (false, Some(1..=head))] {
        ["annals.db", "annals.db-wal", "annals.db-lock"].into_iter().for_each(copy);
        if !is_log_there {
            std::fs::remove_file(elsewhere.path().join("annals.db-wal")).unwrap();
        }
        let opened = SqliteStore::open(&path).unwrap();
        assert_eq!(opened.lost(), expected);
        let problems = opened.check(0, &|| {}).unwrap();
        let is_told = problems.iter().any(|problem| {
            problem.detail
                == format!("revisions 1 to {head} were committed and are missing: its log was cut or deleted")
        });
        assert_eq!(is_told, !is_log_there, "{problems:?}");
    }
    // It is told until something else is committed.
    assert!(SqliteStore::open(&path).unwrap().lost().is_some());
    let opened = SqliteStore::open(&path).unwrap();
    add_session(&opened, "Four");
    assert!(SqliteStore::open(&path).unwrap().lost().is_none());
    // A store that is made where another one was knows nothing of it.
    drop(opened);
    for name in ["annals.db", "annals.db-wal", "annals.db-shm"] {
        let _ = std::fs::remove_file(elsewhere.path().join(name));
    }
    assert!(SqliteStore::open_or_create(&path).unwrap().lost().is_none());
}

#[cfg(target_os = "linux")]
mod disks {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// Runs a script in a mount namespace of its own, with `T` as a task on the store `$D/annals.db` or another one.
    fn in_namespace(directory: &Path, script: &str) -> String {
        let script = format!(
            "t() {{ {TASK}=\"$1\" {STORE}=\"$2\" \"$T\" --exact runner::annals_keep::process_with_a_task --nocapture --test-threads=1; }}\n{script}"
        );
        let output = Command::new("unshare")
            .args(["--mount", "--map-root-user", "bash", "-euo", "pipefail", "-c", &script])
            .env("T", std::env::current_exe().unwrap())
            .env("D", directory)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
        text
    }

    fn kept_store() -> (tempfile::TempDir, PathBuf) {
        let (directory, store) = empty_store();
        add_session(&store, "Kept");
        let path = store.path().to_owned();
        drop(store);
        (directory, path)
    }

    /// What is made is for its owner's eyes only from the first byte on, whatever the umask.
    #[test]
    fn nobody_else_can_look_into_any_file() {
        let directory = tempfile::tempdir().unwrap();
        let parent = directory.path().join("share/annals");
        let trace = directory.path().join("trace");
        let script = r#"umask 000; exec strace -f -qq -e signal=none -e trace=openat,mkdir,mkdirat,chmod,fchmod,fchmodat -o "$0" "$@""#;
        let status = Command::new("bash")
            .args(["-c", script])
            .arg(&trace)
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "runner::annals_keep::process_with_a_task", "--test-threads=1"])
            .env(STORE, parent.join("annals.db"))
            .env(TASK, "create")
            .stdout(Stdio::null())
            .status()
            .expect("strace is installed: scripts/test does that");
        assert!(status.success());
        let trace = std::fs::read_to_string(&trace).unwrap();
        let root = directory.path().display().to_string();
        let mut made = Vec::new();
        for line in trace.lines().filter(|line| line.contains(&root) && !line.contains(" = -1 ")) {
            assert!(!line.contains("chmod"), "{line}");
            let is_made = line.contains("O_CREAT") || line.contains("mkdir");
            if !is_made {
                continue;
            }
            let mode = line.rsplit_once(") = ").unwrap().0.rsplit_once(", ").unwrap().1;
            assert_eq!(mode, if line.contains("mkdir") { "0700" } else { "0600" }, "{line}");
            made.push(line.split('"').nth(1).unwrap().rsplit('/').next().unwrap().to_owned());
        }
        for name in ["annals", "annals.db", "annals.db-wal", "annals.db-shm", "annals.db-lock"] {
            assert!(made.iter().any(|made| made == name), "{name} is not among {made:?}");
        }
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&parent), 0o700);
        for name in ["annals.db", "annals.db-lock", "backup.db"] {
            assert_eq!(mode(&parent.join(name)), 0o600, "{name}");
        }
        let store = SqliteStore::open(&parent.join("annals.db")).unwrap();
        add_session(&store, "x");
        for name in ["annals.db-wal", "annals.db-shm"] {
            assert_eq!(mode(&parent.join(name)), 0o600, "{name}");
        }
    }

    #[test]
    fn a_disk_that_cannot_be_written_to_is_read() {
        let (directory, path) = kept_store();
        let before = all_bytes(directory.path());
        let script = r#"
            mount --bind "$D" "$D"
            mount -o remount,bind,ro "$D"
            t read "$D/annals.db"
        "#;
        let text = in_namespace(directory.path(), script);
        assert!(text.contains(r#"titles ["Kept"] read-only true error cannot write to"#), "{text}");
        assert!(all_bytes(directory.path()) == before);
        // A crash left a log behind.
        let store = SqliteStore::open(&path).unwrap();
        add_session(&store, "In the log");
        let copy = tempfile::tempdir().unwrap();
        for name in ["annals.db", "annals.db-wal"] {
            std::fs::copy(directory.path().join(name), copy.path().join(name)).unwrap();
        }
        let before = all_bytes(copy.path());
        let text = in_namespace(copy.path(), script);
        assert!(text.contains(r#"titles ["In the log", "Kept"] read-only true"#), "{text}");
        assert!(all_bytes(copy.path()) == before);
        assert_eq!(std::fs::read_dir(copy.path()).unwrap().count(), 2);
    }

    /// Another user sees nothing, unless the owner has said otherwise; then they can read, and change nothing.
    #[test]
    fn another_user_reads_what_they_may() {
        let (directory, path) = kept_store();
        let mode = |path: &Path, mode: u32| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        mode(directory.path(), 0o755);
        let binary = directory.path().join("runner");
        std::fs::copy(std::env::current_exe().unwrap(), &binary).unwrap();
        mode(&binary, 0o755);
        let nobody = |task: &str| {
            let output = Command::new("setpriv")
                .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
                .arg(&binary)
                .args(["--exact", "runner::annals_keep::process_with_a_task", "--nocapture"])
                .args(["--test-threads=1"])
                .env(STORE, &path)
                .env(TASK, task)
                .output()
                .unwrap();
            assert!(output.status.success(), "{output:?}");
            String::from_utf8(output.stdout).unwrap()
        };
        let text = nobody("open");
        assert!(text.contains("error cannot open") && text.contains("annals.db"), "{text}");
        for name in ["annals.db", "annals.db-lock"] {
            mode(&directory.path().join(name), 0o644);
        }
        let before = names(directory.path());
        let text = nobody("read");
        assert!(text.contains(r#"titles ["Kept"] read-only true error cannot write to"#), "{text}");
        assert_eq!(names(directory.path()), before);
        // While the owner has it open.
        let store = SqliteStore::open(&path).unwrap();
        add_session(&store, "Later");
        for name in ["annals.db-wal", "annals.db-shm"] {
            mode(&directory.path().join(name), 0o644);
        }
        let text = nobody("read");
        assert!(text.contains(r#"titles ["Kept", "Later"] read-only true"#), "{text}");
        assert_in_order(&store);
    }

    #[test]
    fn a_full_disk_loses_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let script = r#"
            mkdir "$D/mnt"
            mount -t tmpfs -o size=1m tmpfs "$D/mnt"
            t fill "$D/mnt/annals.db"
            mount -o remount,size=40m "$D/mnt"
            t write "$D/mnt/annals.db"
            ls -A "$D/mnt"
            cp "$D/mnt/annals.db"* "$D/"
        "#;
        let text = in_namespace(directory.path(), script);
        let said: BTreeMap<&str, &str> =
            text.lines().filter_map(|line| line.split_once("said ")?.1.split_once(": ")).collect();
        println!("{said:?}");
        assert!(said["commit"].contains("nothing was changed"), "{text}");
        assert!(said["commit"].contains("annals.db: no storage space"), "{text}");
        assert!(said["backup"].contains("the disk is full"), "{text}");
        assert!(said["forget"].contains("no storage space"), "{text}");
        let store = SqliteStore::open(&directory.path().join("annals.db")).unwrap();
        let n_committed: usize = said["committed"].parse().unwrap();
        assert!(n_committed > 2, "{text}");
        assert_eq!(titles(&store).len(), n_committed + 1);
        assert_in_order(&store);
    }
}

/// Commits until the disk is full, and then tries what else needs room. Returns what was said to each.
fn fill(path: &Path) -> Vec<(&'static str, String)> {
    let store = SqliteStore::open_or_create(path).unwrap();
    let mut n_committed = 0;
    let error = loop {
        let sample = Sample::new(ids::new_session(), "/home/dev/shop");
        let (user, part) = (ids::new_message(), ids::new_part());
        let mut transaction = Transaction::new("fill");
        transaction.insert(sample.session_key(), sample.session_document("Filled", 1_766_578_085_876));
        let mut insert = |(key, document): (Key, Document)| transaction.insert(key, document);
        insert(sample.prompt(&user, 1_766_578_085_876));
        let noise: String = (0..400).map(|_| ids::new_part().to_string()).collect();
        insert(sample.text(&user, &part, &noise));
        match store.commit(transaction) {
            Ok(_) => n_committed += 1,
            Err(error) => break error,
        }
    };
    let mut said = vec![("commit", error.to_string()), ("committed", n_committed.to_string())];
    assert!(
        matches!(&error, CommitError::Failed { source, .. } if source.kind() == std::io::ErrorKind::StorageFull),
        "{error:?}"
    );
    assert_eq!(titles(&store).len(), n_committed);
    assert_in_order(&store);
    let directory = path.parent().unwrap();
    let before = names(directory);
    let error = store.backup(&directory.join("backup.db"), &no_progress).unwrap_err();
    said.push(("backup", error.to_string()));
    assert!(matches!(error, BackupError::NoRoom { .. }), "{error:?}");
    assert_eq!(names(directory), before);
    // What is there can be read by others as well.
    assert_eq!(titles(&SqliteStore::open(path).unwrap()).len(), n_committed);
    // Forgetting takes room as well, for the log.
    let sessions = store.sessions(&SessionQuery::default()).unwrap().value;
    let error = store.forget(std::slice::from_ref(&sessions[0].id)).unwrap_err();
    said.push(("forget", error.to_string()));
    assert_eq!(titles(&store).len(), n_committed);
    assert_in_order(&store);
    said
}

#[test]
fn a_backup_with_a_view_in_place_of_a_table_is_not_restored() {
    let (directory, store) = empty_store();
    add_session(&store, "Kept");
    let backup = directory.path().join("backup.db");
    store.backup(&backup, &no_progress).unwrap();
    sql(
        &backup,
        "ALTER TABLE session RENAME TO hidden; CREATE VIEW session AS SELECT * FROM hidden; \
         PRAGMA wal_checkpoint(TRUNCATE)",
    );
    let error = restore_backup(&backup, store.path(), NOW).unwrap_err().to_string();
    assert!(error.contains("it has a view session, which no store has"), "{error}");
    assert_eq!(titles(&store), ["Kept"]);
}
