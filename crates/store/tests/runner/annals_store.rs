//! annals.db: transactions, revisions, and every state there ever was.

use annals::history::{self, At, History, LogQuery, UndoError};
use annals::home::{CommitError, ConflictKind, Inspect, Read, Summaries, Write};
use annals::ids;
use annals::model::id::{MessageId, PartId};
use annals::model::lens::Session;
use annals::model::{Document, Key, Transaction};
use annals::store::Store;
use annals::stores::sqlite::SqliteStore;
use annals::upkeep::Upkeep;

use super::kit::{Sample, export, messages, session};

/// A new store in a directory of its own.
pub(crate) fn empty_store() -> (tempfile::TempDir, SqliteStore) {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open_or_create(&directory.path().join("annals.db")).unwrap();
    (directory, store)
}

fn rename(store: &SqliteStore, sample: &Sample, title: &str) -> i64 {
    let stored = store.document(&sample.session_key()).unwrap().unwrap();
    let mut transaction = Transaction::new(format!("call it {title}"));
    transaction.replace(&stored, stored.document.with(&["title"], title).unwrap());
    store.commit(transaction).unwrap().revision.unwrap()
}

fn title(home: &dyn Read, sample: &Sample) -> Option<String> {
    let record = home.session(&sample.session).unwrap()?;
    record.stored.document.lens::<Session<'_>>().title.map(|title| title.to_string())
}

#[test]
fn what_is_committed_is_read_back_by_another_process() {
    let (directory, store) = empty_store();
    let sample = Sample::new(ids::new_session(), "/home/dev/shop");
    sample.store(&store, "Why does the cart crash?", "It is empty.");
    let before = export(&store, sample.session.as_str());
    drop(store);
    let store = SqliteStore::open(&directory.path().join("annals.db")).unwrap();
    assert_eq!(export(&store, sample.session.as_str()), before);
    let record = session(&store, sample.session.as_str());
    let summary = store.summarize(&[&record]).unwrap().remove(0).unwrap();
    assert_eq!((summary.messages, summary.parts), (2, 2));
    assert_eq!(summary.models, ["lab/lab-large"]);
    assert!((summary.usage.cost - 0.0123).abs() < 1e-9);
}

#[test]
fn every_state_is_reachable_by_revision_and_by_time() {
    let (_directory, store) = empty_store();
    let sample = Sample::new(ids::new_session(), "/home/dev/shop");
    sample.store(&store, "a", "b");
    let first = store.head().unwrap();
    let renamed = rename(&store, &sample, "Renamed");
    let between = store.revision(renamed).unwrap().unwrap().time;
    std::thread::sleep(std::time::Duration::from_millis(5));
    let again = rename(&store, &sample, "Renamed again");
    let at = |at: At| {
        let view = store.at(at).unwrap().unwrap();
        title(&*view, &sample)
    };
    assert_eq!(at(At::Revision(first)).as_deref(), Some("A sample"));
    assert_eq!(at(At::Revision(renamed)).as_deref(), Some("Renamed"));
    assert_eq!(at(At::Revision(again)).as_deref(), Some("Renamed again"));
    assert_eq!(at(At::Time(between)).as_deref(), Some("Renamed"));
    assert_eq!(at(At::Time(between - 1_000_000)), None);
    assert!(store.at(At::Revision(99)).unwrap().is_none());
    let log = store.log(&LogQuery { session: Some(sample.session.clone()), ..Default::default() }).unwrap();
    assert_eq!(log.iter().map(|revision| revision.number).collect::<Vec<_>>(), [again, renamed, first]);
    assert_eq!(log[0].reason, "call it Renamed again");
    assert_eq!((log[2].touched[0].written, log[2].touched[0].deleted), (5, 0));
}

#[test]
fn what_is_deleted_stays_in_history_and_can_come_back() {
    let (_directory, store) = empty_store();
    let sample = Sample::new(ids::new_session(), "/home/dev/shop");
    sample.store(&store, "a question", "an answer");
    let first = store.head().unwrap();
    let before = export(&store, sample.session.as_str());
    let record = session(&store, sample.session.as_str());
    let (all, _) = messages(&store, &record);
    let mut transaction = Transaction::new("revert the last answer");
    for part in &all[1].parts {
        transaction.delete(part);
    }
    transaction.delete(&all[1].stored);
    let receipt = store.commit(transaction).unwrap();
    assert_eq!((receipt.written, receipt.deleted), (0, 2));
    assert_eq!(messages(&store, &record).0.len(), 1);
    assert_eq!(store.summarize(&[&record]).unwrap().remove(0).unwrap().parts, 1);

    let then = store.at(At::Revision(first)).unwrap().unwrap();
    assert_eq!(export(&*then, sample.session.as_str()), before);
    let restore = history::restore(&store, &*then, &sample.session, "bring it back".to_owned()).unwrap();
    store.commit(restore).unwrap();
    assert_eq!(export(&store, sample.session.as_str()), before);
    assert_eq!(store.summarize(&[&record]).unwrap().remove(0).unwrap().parts, 2);
}

#[test]
fn a_revision_can_be_undone_unless_something_came_after() {
    let (_directory, store) = empty_store();
    let sample = Sample::new(ids::new_session(), "/home/dev/shop");
    sample.store(&store, "a", "b");
    let renamed = rename(&store, &sample, "Renamed");
    let undo = history::undo(&store, &store, renamed).unwrap();
    let undone = store.commit(undo).unwrap().revision.unwrap();
    assert_eq!(title(&store, &sample).as_deref(), Some("A sample"));
    // Undoing is a revision like any other.
    let redo = history::undo(&store, &store, undone).unwrap();
    store.commit(redo).unwrap();
    assert_eq!(title(&store, &sample).as_deref(), Some("Renamed"));
    rename(&store, &sample, "Something else");
    assert!(matches!(history::undo(&store, &store, renamed), Err(UndoError::ChangedSince { .. })));
    assert!(matches!(history::undo(&store, &store, 1000), Err(UndoError::NoRevision(1000))));
    // The first one made everything, so nothing is left of it.
    let (_directory, store) = empty_store();
    sample.store(&store, "a", "b");
    store.commit(history::undo(&store, &store, 1).unwrap()).unwrap();
    assert!(store.session(&sample.session).unwrap().is_none());
    assert!(store.session_keys(&sample.session).unwrap().is_empty());
}

#[test]
fn expectations_are_checked_and_nothing_is_half_done() {
    let (_directory, store) = empty_store();
    let sample = Sample::new(ids::new_session(), "/home/dev/shop");
    sample.store(&store, "a", "b");
    let stored = store.document(&sample.session_key()).unwrap().unwrap();
    rename(&store, &sample, "Renamed");
    let mut transaction = Transaction::new("too late");
    let todo = Key::Todo(sample.session.clone());
    transaction.insert(todo.clone(), Document::parse(b"[]".to_vec()).unwrap());
    transaction.replace(&stored, stored.document.with(&["title"], "Lost").unwrap());
    let error = store.commit(transaction).unwrap_err();
    assert!(matches!(error, CommitError::Conflict { what: ConflictKind::Changed, .. }), "{error}");
    assert!(store.document(&todo).unwrap().is_none());
    let mut transaction = Transaction::new("it is there");
    transaction.insert(sample.session_key(), stored.document.clone());
    let error = store.commit(transaction).unwrap_err();
    assert!(matches!(error, CommitError::Conflict { what: ConflictKind::Exists, .. }), "{error}");
    // What changes nothing is no revision.
    let head = store.head().unwrap();
    let mut transaction = Transaction::new("the same again");
    let same = store.document(&sample.session_key()).unwrap().unwrap();
    transaction.put(sample.session_key(), same.document);
    assert_eq!(store.commit(transaction).unwrap().revision, None);
    assert_eq!(store.head().unwrap(), head);
}

#[test]
fn a_stream_leaves_one_state() {
    let (directory, store) = empty_store();
    let sample = Sample::new(ids::new_session(), "/home/dev/shop");
    sample.store(&store, "a", "b");
    let (message, part) = (ids::new_message(), ids::new_part());
    let (key, document) = sample.answer(&message, &message, ids::now());
    let mut transaction = Transaction::new("an answer begins");
    transaction.insert(key, document.without(&["time", "completed"]).unwrap());
    store.commit(transaction).unwrap();
    let mut text = String::new();
    for n in 0..300 {
        text.push_str(&format!("word {n} "));
        let (key, document) = sample.text(&message, &part, &text);
        let mut transaction = Transaction::new("a delta");
        transaction.put(
            key,
            document.with(&["time"], &Document::parse(br#"{"start":1}"#.to_vec()).unwrap()).unwrap(),
        );
        store.commit(transaction).unwrap();
    }
    let states = super::kit::query(&directory.path().join("annals.db"), "SELECT count(*) FROM past");
    assert_eq!(states, ["0"]);
    // Every delta is in the log all the same.
    assert_eq!(store.head().unwrap(), 302);
}

/// Commits a text part with these times.
fn put_text(
    store: &SqliteStore,
    sample: &Sample,
    message: &MessageId,
    part: &PartId,
    text: &str,
    times: &str,
) -> i64 {
    let (key, document) = sample.text(message, part, text);
    let mut transaction = Transaction::new("a text");
    transaction.put(key, document.with(&["time"], &Document::parse(times.into()).unwrap()).unwrap());
    store.commit(transaction).unwrap().revision.unwrap()
}

/// An answer that was aborted has a text without an end, as one that is being written has. Its message tells the two apart.
#[test]
fn a_text_that_was_cut_short_is_edited_not_continued() {
    let (_directory, store) = empty_store();
    let sample = Sample::new(ids::new_session(), "/home/dev/shop");
    sample.store(&store, "a", "b");
    let (message, part) = (ids::new_message(), ids::new_part());
    let (key, finished) = sample.answer(&message, &message, ids::now());
    let mut transaction = Transaction::new("an answer that was aborted");
    transaction.insert(key, finished);
    store.commit(transaction).unwrap();
    let first = put_text(&store, &sample, &message, &part, "It was cut", r#"{"start":1}"#);
    put_text(&store, &sample, &message, &part, "It was cut, and mended by hand", r#"{"start":1}"#);
    let then = store.at(At::Revision(first)).unwrap().unwrap();
    let (key, _) = sample.text(&message, &part, "");
    let text = then.document(&key).unwrap().unwrap().document;
    assert!(text.text().contains("\"It was cut\""), "{}", text.text());
    assert!(then.past().unwrap().in_progress(&sample.session).unwrap().is_empty());
}

/// A state that went on for a while and was replaced later: how it was in between is not kept, and said not to be.
#[test]
fn a_step_of_an_earlier_state_is_known_to_be_one() {
    let (directory, store) = empty_store();
    let sample = Sample::new(ids::new_session(), "/home/dev/shop");
    sample.store(&store, "a", "b");
    let (message, part) = (ids::new_message(), ids::new_part());
    let (key, finished) = sample.answer(&message, &message, ids::now());
    let mut transaction = Transaction::new("an answer begins");
    transaction.insert(key, finished.without(&["time", "completed"]).unwrap());
    store.commit(transaction).unwrap();
    let steps = [
        put_text(&store, &sample, &message, &part, "one", r#"{"start":1}"#),
        put_text(&store, &sample, &message, &part, "one two", r#"{"start":1}"#),
        put_text(&store, &sample, &message, &part, "one two three", r#"{"start":1,"end":2}"#),
        put_text(&store, &sample, &message, &part, "edited", r#"{"start":1,"end":2}"#),
    ];
    let written = super::kit::query(&directory.path().join("annals.db"), "SELECT written FROM past");
    assert_eq!(written, [steps[2].to_string()]);
    let key = sample.text(&message, &part, "").0;
    let at = |revision: i64| {
        let then = store.at(At::Revision(revision)).unwrap().unwrap();
        let text = then.document(&key).unwrap().unwrap().document;
        let text = text.root().get("text").and_then(|text| text.as_text()).unwrap().to_string();
        let found = then.past().unwrap().in_progress(&sample.session).unwrap();
        (text, found.into_iter().find(|found| found.became.key == key).map(|found| found.written))
    };
    assert_eq!(at(steps[0]), (String::new(), Some(steps[0])));
    assert_eq!(at(steps[1]), (String::new(), Some(steps[1])));
    assert_eq!(at(steps[2]), ("one two three".to_owned(), None));
    assert_eq!(at(steps[3]), ("edited".to_owned(), None));
    assert!(matches!(history::undo(&store, &store, steps[1]), Err(UndoError::NotKept { .. })));
    let then = store.at(At::Revision(steps[1])).unwrap().unwrap();
    store.commit(history::restore(&store, &*then, &sample.session, "back".to_owned()).unwrap()).unwrap();
    assert!(store.document(&key).unwrap().unwrap().document.text().contains("one two three"));
    assert!(store.check(ids::now(), &|| {}).unwrap().is_empty());
}

thread_local! {
    static CLOCK: std::cell::Cell<i64> = const { std::cell::Cell::new(0) };
}

const DAY: i64 = 86_400_000;

/// Review W5: one commit with a clock that was ahead dated all later ones.
#[test]
fn a_clock_that_was_wrong_once_does_not_date_what_came_later() {
    const TODAY: i64 = 1_772_020_980_000;
    for (wrong, name) in [(TODAY + 400 * DAY, "ahead"), (0, "at 1970")] {
        let (directory, store) = empty_store();
        let store = store.with_clock(|| CLOCK.get());
        CLOCK.set(TODAY);
        let sample = Sample::new(ids::new_session(), "/home/dev/shop");
        sample.store(&store, "a", "b");
        CLOCK.set(TODAY + DAY);
        rename(&store, &sample, "Before");
        CLOCK.set(wrong);
        rename(&store, &sample, "Wrong");
        CLOCK.set(TODAY + 2 * DAY);
        rename(&store, &sample, "After");
        CLOCK.set(TODAY + 3 * DAY);
        rename(&store, &sample, "Last");
        let log = store.log(&LogQuery::default()).unwrap();
        let times: Vec<(i64, i64)> =
            log.iter().map(|revision| (revision.number, (revision.time - TODAY) / DAY)).collect();
        assert_eq!(times, [(5, 3), (4, 2), (3, 1), (2, 1), (1, 0)], "{name}");
        let path = directory.path().join("annals.db");
        let clocks = super::kit::query(&path, "SELECT n || ' ' || clock FROM revision WHERE clock NOTNULL");
        assert_eq!(clocks, [format!("3 {wrong}")], "{name}");
        for (days, expected) in [(0, "A sample"), (1, "Wrong"), (2, "After"), (3, "Last"), (300, "Last")] {
            let then = store.at(At::Time(TODAY + days * DAY + 1)).unwrap().unwrap();
            assert_eq!(title(&*then, &sample).as_deref(), Some(expected), "{name}, {days} days later");
        }
        assert!(store.check(CLOCK.get(), &|| {}).unwrap().is_empty(), "{name}");
        // What is not committed changes no times.
        CLOCK.set(TODAY);
        store.commit(Transaction::new("nothing")).unwrap();
        assert_eq!(store.log(&LogQuery::default()).unwrap()[0].time, TODAY + 3 * DAY, "{name}");
    }
}

#[test]
fn check_names_wrong_times_and_wrong_steps() {
    let (directory, store) = empty_store();
    let sample = Sample::new(ids::new_session(), "/home/dev/shop");
    sample.store(&store, "a", "b");
    rename(&store, &sample, "Renamed");
    let path = directory.path().join("annals.db");
    super::kit::sql(&path, "UPDATE revision SET time = 5 WHERE n = 2; UPDATE past SET written = 77");
    let problems: Vec<String> = store
        .check(ids::now(), &|| {})
        .unwrap()
        .into_iter()
        .map(|problem| format!("{} {}", problem.kind.name(), problem.detail))
        .collect();
    assert_eq!(
        problems,
        ["unreadable revision 77 did not finish it", "damaged 1 row dated before the one that it follows"]
    );
    let error = store.backup(&directory.path().join("backup.db"), &|_, _| {}).unwrap_err();
    assert!(error.to_string().contains("rows refer to rows that do not exist"), "{error}");
}
