//! Text that is appended while it is written, and text that a fork shares: what the store makes of them.

use std::time::Duration;

use annals::check::ProblemKind;
use annals::events::{EventChange, Events, Start};
use annals::history::{At, History};
use annals::home::{Inspect, MessageDetail, MessageRange, Read, Write};
use annals::model::id::{MessageId, PartId};
use annals::model::search::query;
use annals::model::{Append, Document, Key, Transaction};
use annals::search::{Search, SearchRequest, Wanted};
use annals::upkeep::Upkeep;
use annals::{SqliteStore, ids};

use super::annals_store::empty_store;
use super::kit::{Sample, session_id, sql};

const LONG: Duration = Duration::from_secs(30);

/// A session whose answer is being written, and the key of its text.
fn streaming(store: &SqliteStore) -> (Sample, Key) {
    let sample = Sample::new(ids::new_session(), "/home/dev/shop");
    let (user, assistant, part) = (ids::new_message(), ids::new_message(), ids::new_part());
    let now = ids::now();
    let mut transaction = Transaction::new("begin");
    transaction.insert(sample.session_key(), sample.session_document("A stream", now));
    let (key, document) = sample.prompt(&user, now);
    transaction.insert(key, document);
    let (key, document) = sample.answer(&assistant, &user, now);
    let open = document.without(&["time", "completed"]).unwrap().without(&["finish"]).unwrap();
    transaction.insert(key, open);
    let (key, document) = sample.text(&assistant, &part, "");
    transaction.insert(key.clone(), document.with(&["time", "start"], &now).unwrap());
    store.commit(transaction).unwrap();
    (sample, key)
}

fn append(store: &SqliteStore, key: &Key, at: usize, text: &str) -> i64 {
    let mut transaction = Transaction::new("more");
    let field = vec!["text".to_owned()];
    transaction.append(key.clone(), Append { field, at, text: text.to_owned() }).unwrap();
    store.commit(transaction).unwrap().revision.unwrap()
}

fn text_of(home: &dyn Read, key: &Key) -> String {
    let stored = home.document(key).unwrap().unwrap();
    stored.document.root().get("text").unwrap().as_text().unwrap().to_string()
}

fn end(store: &SqliteStore, key: &Key) -> i64 {
    let stored = store.document(key).unwrap().unwrap();
    let mut transaction = Transaction::new("the text ends");
    transaction.replace(&stored, stored.document.with(&["time", "end"], &ids::now()).unwrap());
    store.commit(transaction).unwrap().revision.unwrap()
}

fn is_sound(store: &SqliteStore) {
    let mut problems = store.check(ids::now(), &|| {}).unwrap();
    // The copies stand without messages.
    problems.retain(|problem| problem.kind != ProblemKind::OrphanParts);
    assert!(problems.is_empty(), "{problems:?}");
}

#[test]
fn subscribers_get_every_piece_in_order() {
    let (_dir, store) = empty_store();
    let (_, key) = streaming(&store);
    let mut subscription = store.subscribe(Start::Now).unwrap();
    let pieces = ["Once ", "upon é ", "", "a \"time\"\n", "."];
    let mut text = String::new();
    for piece in pieces.iter().filter(|piece| !piece.is_empty()) {
        append(&store, &key, text.len(), piece);
        text.push_str(piece);
    }
    end(&store, &key);
    let mut told = String::new();
    loop {
        let event = subscription.next(LONG).unwrap().expect("an event for each commit");
        match &event.changes[..] {
            [EventChange::Append(changed, append)] => {
                assert_eq!((changed, append.at), (&key, told.len()));
                told.push_str(&append.text);
            }
            [EventChange::Put(changed)] => {
                assert_eq!(changed, &key);
                break;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(told, text);
    // Who subscribes a little later is told the same; much later, that the text was put.
    let mut later = store.subscribe(Start::After(1)).unwrap();
    assert!(matches!(later.next(LONG).unwrap().unwrap().changes[..], [EventChange::Append(..)]));
    sql(store.path(), "DELETE FROM tail");
    let mut latest = store.subscribe(Start::After(1)).unwrap();
    assert!(matches!(latest.next(LONG).unwrap().unwrap().changes[..], [EventChange::Put(..)]));
    is_sound(&store);
}

#[test]
fn what_was_appended_is_found_shown_and_counted() {
    let (dir, store) = empty_store();
    let (sample, key) = streaming(&store);
    append(&store, &key, 0, "the quick zebra");
    let request = |words: &str| SearchRequest::new(Wanted::Words(query::parse(words).unwrap()));
    store.update_index(&|_, _| {}).unwrap();
    assert_eq!(store.search(&request("zebra")).unwrap().hits.len(), 1);
    append(&store, &key, 15, " jumps over a quagga");
    store.update_index(&|_, _| {}).unwrap();
    for word in ["zebra", "quagga"] {
        let hits = store.search(&request(word)).unwrap().hits;
        assert_eq!(hits.len(), 1, "{word}");
        assert!(
            hits[0].snippet.text.contains("the quick zebra jumps over a quagga"),
            "{:?}",
            hits[0].snippet
        );
    }
    let pattern = Wanted::Regex { pattern: "zebra.*quagga".to_owned(), ignore_case: false };
    assert_eq!(store.search(&SearchRequest::new(pattern)).unwrap().hits.len(), 1);
    // Another process sees the text so far.
    let other = SqliteStore::open(&dir.path().join("annals.db")).unwrap();
    assert_eq!(text_of(&other, &key), "the quick zebra jumps over a quagga");
    let record = other.session(&sample.session).unwrap().unwrap();
    let messages = other.messages(&record, &MessageRange::ALL, MessageDetail::Parts);
    assert_eq!(messages.last().unwrap().unwrap().parts.len(), 1);
    is_sound(&store);
}

#[test]
fn an_open_text_is_seen_as_it_was_and_a_closed_one_as_in_progress() {
    let (_dir, store) = empty_store();
    let (_, key) = streaming(&store);
    let first = append(&store, &key, 0, "one");
    let second = append(&store, &key, 3, " two");
    let at = |revision| text_of(&*store.at(At::Revision(revision)).unwrap().unwrap(), &key);
    assert_eq!((at(first), at(second), at(first - 1)), ("one".into(), "one two".into(), String::new()));
    end(&store, &key);
    assert_eq!((at(first), at(second)), (String::new(), String::new()));
    assert_eq!(text_of(&store, &key), "one two");
    let changes = store.changes(second).unwrap();
    assert!(changes.len() == 1 && changes[0].is_step, "{changes:?}");
    is_sound(&store);
}

#[test]
fn a_text_that_is_open_can_be_forgotten_deleted_and_changed() {
    let (_dir, store) = empty_store();
    let (sample, key) = streaming(&store);
    append(&store, &key, 0, "zanzibar");
    let stored = store.document(&key).unwrap().unwrap();
    let mut edit = Transaction::new("a person changes it");
    edit.replace(&stored, stored.document.with(&["text"], "Sansibar").unwrap());
    let changed = store.commit(edit).unwrap().revision.unwrap();
    assert_eq!(text_of(&store, &key), "Sansibar");
    assert_eq!(text_of(&*store.at(At::Revision(changed - 1)).unwrap().unwrap(), &key), "zanzibar");
    append(&store, &key, 8, " and zanzibar");
    is_sound(&store);
    store.forget(std::slice::from_ref(&sample.session)).unwrap();
    let bytes = std::fs::read(store.path()).unwrap();
    assert!(!String::from_utf8_lossy(&bytes).contains("zanzibar"));
    is_sound(&store);
}

#[test]
fn damage_to_a_piece_is_found() {
    for damage in [
        "UPDATE tail SET text = 'other' WHERE revision > 0",
        "DELETE FROM tail WHERE revision = (SELECT min(revision) FROM tail WHERE revision > 0)",
        "UPDATE tail SET at = at + 1 WHERE revision > 0",
        "DELETE FROM tail",
    ] {
        let (_dir, store) = empty_store();
        let (sample, key) = streaming(&store);
        append(&store, &key, 0, "one");
        append(&store, &key, 3, "two");
        sql(store.path(), damage);
        assert!(store.document(&key).is_err(), "{damage}");
        let problems = store.check(ids::now(), &|| {}).unwrap();
        assert!(problems.iter().any(|problem| problem.detail.contains("appended")), "{damage}: {problems:?}");
        // Everything else can still be read, and the text can be replaced.
        assert!(store.session(&sample.session).unwrap().is_some());
        let (_, document) =
            sample.text(&MessageId::parse("msg_1").unwrap(), &PartId::parse("prt_1").unwrap(), "new");
        let mut transaction = Transaction::new("put over it");
        transaction.put(key.clone(), document);
        store.commit(transaction).unwrap();
        assert_eq!(text_of(&store, &key), "new", "{damage}");
    }
}

/// A copy of a document for another session.
fn copied(document: &Document, ids: [&str; 3]) -> Document {
    let [id, session, message] = ids;
    let document = document.with(&["id"], id).unwrap().with(&["sessionID"], session).unwrap();
    document.with(&["messageID"], message).unwrap()
}

#[test]
fn a_copy_shares_its_text_until_one_of_the_two_changes() {
    let (_dir, store) = empty_store();
    let (sample, key) = streaming(&store);
    let long = "A text that is worth sharing. ".repeat(2000);
    append(&store, &key, 0, &long);
    end(&store, &key);
    let size = |sql: &str| -> i64 {
        let connection = rusqlite::Connection::open(store.path()).unwrap();
        connection.query_row(sql, [], |row| row.get(0)).unwrap()
    };
    let original = store.document(&key).unwrap().unwrap();
    let mut keys = Vec::new();
    for n in 0..5 {
        let session = session_id(&format!("ses_fork{n}"));
        let (message, part) = (format!("msg_fork{n}"), format!("prt_fork{n}"));
        let copy =
            Key::Part(session.clone(), MessageId::parse(&message).unwrap(), PartId::parse(&part).unwrap());
        let document = copied(&original.document, [&part, session.as_str(), &message]);
        let mut transaction = Transaction::new("fork");
        transaction.insert(copy.clone(), document.clone());
        transaction.copied_from(&copy, key.clone());
        store.commit(transaction).unwrap();
        assert_eq!(store.document(&copy).unwrap().unwrap().document, document);
        keys.push(copy);
    }
    assert_eq!(store.document(&key).unwrap().unwrap().document, original.document);
    assert_eq!(size("SELECT count(*) FROM shared"), 1);
    assert_eq!(size("SELECT count(*) FROM document WHERE form = 4"), 6);
    assert!(size("SELECT sum(octet_length(data)) FROM document") < 4000);
    is_sound(&store);

    // A change of one leaves the others alone, and its earlier state too.
    let changed = store.document(&keys[0]).unwrap().unwrap();
    let mut edit = Transaction::new("edit");
    edit.replace(&changed, changed.document.with(&["text"], "short").unwrap());
    let revision = store.commit(edit).unwrap().revision.unwrap();
    assert_eq!(text_of(&store, &keys[0]), "short");
    assert_eq!(text_of(&*store.at(At::Revision(revision - 1)).unwrap().unwrap(), &keys[0]), long);
    assert_eq!(text_of(&store, &keys[1]), long);
    is_sound(&store);

    // The text stays as long as anybody has it, and no longer.
    store.forget(std::slice::from_ref(&sample.session)).unwrap();
    assert_eq!(text_of(&store, &keys[1]), long);
    is_sound(&store);
    let forks: Vec<_> = (0..5).map(|n| session_id(&format!("ses_fork{n}"))).collect();
    store.forget(&forks).unwrap();
    assert_eq!(size("SELECT count(*) FROM shared"), 0);
    assert!(!String::from_utf8_lossy(&std::fs::read(store.path()).unwrap()).contains("worth sharing"));
}
