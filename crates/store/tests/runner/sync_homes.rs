//! One session in several homes: it is one session, as it is where it was used last, and nothing of the others is lost.

use annals::store::Store;
use std::collections::HashMap;

use annals::history::{At, History, LogQuery};
use annals::home::{Read, Summaries, Write};
use annals::homes::opencode::arrange;
use annals::homes::opencode::database::{Generation, OpencodeDatabase};
use annals::homes::opencode::directory::OpencodeDirectory;
use annals::model::id::SessionId;
use annals::model::lens::Session;
use annals::model::{Document, Key, Transaction};
use annals::query::SessionQuery;
use annals::stores::sqlite::SqliteStore;
use annals::sync::source::Source;
use annals::sync::{Stage, SyncOptions, sync};
use annals_testkit::Fixture;

use super::annals_store::empty_store;
use super::kit::{Sample, empty_database, empty_home, messages, open, open_db, query, session};
use super::sync::{ALL, run};

const FULL: SyncOptions = SyncOptions { full: true, ..ALL };

/// A directory and a database with the same sessions.
struct Homes {
    _places: Vec<Box<dyn std::any::Any>>,
    directory: OpencodeDirectory,
    database: OpencodeDatabase,
}

impl Homes {
    /// As OpenCode's own migration left them.
    fn migrated() -> Homes {
        let [old, new] = ["opencode-1.1.65", "migrated-1.1.65-to-1.18.33"].map(Fixture::unpack);
        let directory = open(old.home());
        let database = open_db(&new.home().join("opencode.db"));
        Homes { _places: vec![Box::new(old), Box::new(new)], directory, database }
    }

    /// With one session of six messages.
    fn small() -> (Homes, SessionId) {
        let (old, directory) = empty_home();
        let (new, database) = empty_database(Generation::Latest);
        let sample = Sample::new(annals::ids::new_session(), "/home/dev/shop");
        // Long ago: nothing of it is looked at again just because it is recent.
        let now = annals::ids::now() - 3_600_000;
        let mut documents = vec![(sample.session_key(), sample.session_document("A sample", now))];
        for n in 0..3 {
            let (user, assistant) = (annals::ids::new_message(), annals::ids::new_message());
            documents.push(sample.prompt(&user, now + n));
            documents.push(sample.text(&user, &annals::ids::new_part(), "What is it?"));
            documents.push(sample.answer(&assistant, &user, now + n));
            documents.push(sample.text(&assistant, &annals::ids::new_part(), "It is this."));
        }
        for home in [&directory as &dyn Write, &database] {
            let mut transaction = Transaction::new("the same in both");
            documents.iter().cloned().for_each(|(key, document)| transaction.insert(key, document));
            home.commit(transaction).unwrap();
        }
        let homes = Homes { _places: vec![Box::new(old), Box::new(new)], directory, database };
        (homes, sample.session)
    }

    /// The homes in both orders.
    fn orders(&self) -> [[&dyn Source; 2]; 2] {
        [[&self.directory, &self.database], [&self.database, &self.directory]]
    }
}

/// The conversation of a session and what stands beside it.
fn contents(home: &dyn Read, id: &SessionId) -> HashMap<Key, Document> {
    let record = session(home, id.as_str());
    let said = messages(home, &record).0;
    let said = said.into_iter().flat_map(|message| [message.stored].into_iter().chain(message.parts));
    let mut contents: HashMap<Key, Document> = said
        .map(|stored| (stored.key, stored.document))
        .chain([(record.stored.key, record.stored.document)])
        .collect();
    for key in [Key::Todo(id.clone()), Key::Diff(id.clone()), Key::Share(id.clone())] {
        contents.extend(home.document(&key).unwrap().map(|stored| (key, stored.document)));
    }
    // No list and an empty one are the same, and a database cannot tell them apart.
    contents.retain(|key, list| !matches!(key, Key::Todo(_)) || list.root().items().next().is_some());
    contents
}

/// Whether two homes hold the same, as far as either can.
#[track_caller]
fn assert_same(ours: &HashMap<Key, Document>, theirs: &HashMap<Key, Document>) {
    for (key, document) in theirs {
        let held = ours.get(key).unwrap_or_else(|| panic!("{key} is missing"));
        assert!(arrange::is_same(key, held, document), "{key}\n{}\n{}", held.text(), document.text());
    }
    let more: Vec<&Key> = ours.keys().filter(|key| !theirs.contains_key(key)).collect();
    assert!(more.is_empty(), "{more:?}");
}

/// Nothing is left to do, whichever home is asked.
#[track_caller]
fn assert_done(store: &SqliteStore, homes: &[&dyn Source]) {
    let (head, past) = (store.head().unwrap(), query(store.path(), "SELECT count(*) FROM past"));
    for options in [ALL, FULL, FULL] {
        for home in homes {
            let account = run(store, *home, options);
            assert_eq!((account.imported, account.deleted), (0, 0), "{}: {account:?}", home.url());
        }
    }
    assert_eq!(store.head().unwrap(), head);
    assert_eq!(query(store.path(), "SELECT count(*) FROM past"), past);
}

#[test]
fn the_same_sessions_in_two_homes_are_stored_once() {
    let homes = Homes::migrated();
    let ids: Vec<SessionId> = {
        let sessions = homes.directory.sessions(&SessionQuery::default()).unwrap().value;
        sessions.into_iter().map(|record| record.id).collect()
    };
    for order in homes.orders() {
        let (_directory, store) = empty_store();
        let first = run(&store, order[0], ALL);
        let second = run(&store, order[1], ALL);
        assert_eq!((first.new, second.new), (ids.len(), ids.len()));
        // The database, which leads, does not have the parts that an undo left behind in the directory.
        // Of sessions and todo lists one form has members that the other lacks, so both are kept.
        let kept = "SELECT count(*) FROM past p JOIN document d ON d.n = p.document WHERE d.kind = 4";
        assert_eq!(query(store.path(), kept), ["32"]);
        let n_documents =
            query(store.path(), "SELECT count(*) FROM document WHERE hash NOTNULL AND kind <> 1");
        // With diffs, which this copy of the database has no place for.
        assert_eq!(n_documents, ["2005"]);
        for id in &ids {
            assert_eq!(session(&store, id.as_str()).origins.len(), 2);
            assert_same(&contents(&store, id), &contents(&homes.directory, id));
        }
        assert_done(&store, &order);
    }
}

/// Goes on with a session in one home: it gets another title and loses its last two messages, and a word is changed.
fn go_on(home: &dyn Write, id: &SessionId) {
    let record = session(home, id.as_str());
    let mut transaction = Transaction::new("go on");
    let updated = record.stored.document.lens::<Session<'_>>().time.unwrap().updated.unwrap();
    let document = record.stored.document.with(&["title"], "Gone on with").unwrap();
    let document = document.with(&["time", "updated"], &(updated + 60_000)).unwrap();
    transaction.replace(&record.stored, document);
    let said = messages(home, &record).0;
    let (kept, undone) = said.split_at(said.len() - 2);
    for message in undone {
        message.parts.iter().for_each(|part| transaction.delete(part));
        transaction.delete(&message.stored);
    }
    let text = kept
        .iter()
        .flat_map(|message| &message.parts)
        .find(|part| part.document.text().contains("\"text\":"));
    let text = text.unwrap();
    transaction.replace(text, text.document.with(&["text"], "Another word.").unwrap());
    home.commit(transaction).unwrap();
}

#[test]
fn the_home_in_which_a_session_was_used_last_has_the_say() {
    for is_directory in [true, false] {
        let (homes, id) = Homes::small();
        let [older, newer]: [&dyn Read; 2] = match is_directory {
            true => {
                go_on(&homes.directory, &id);
                [&homes.database, &homes.directory]
            }
            false => {
                go_on(&homes.database, &id);
                [&homes.directory, &homes.database]
            }
        };
        let (before, after) = (contents(older, &id), contents(newer, &id));
        for order in homes.orders() {
            for at_once in [true, false] {
                let (_directory, store) = empty_store();
                match at_once {
                    true => assert!(sync(&store, &order, ALL, &()).unwrap().failed.is_empty()),
                    false => order.iter().for_each(|home| drop(run(&store, *home, ALL))),
                }
                assert_same(&contents(&store, &id), &after);
                assert_reachable(&store, &id, &before);
                assert_done(&store, &order);
            }
        }
    }
}

/// Every document of an older state of a session is in some revision.
#[track_caller]
fn assert_reachable(store: &SqliteStore, id: &SessionId, before: &HashMap<Key, Document>) {
    let log = store.log(&LogQuery { session: Some(id.clone()), ..LogQuery::default() }).unwrap();
    let views: Vec<_> =
        log.iter().map(|revision| store.at(At::Revision(revision.number)).unwrap().unwrap()).collect();
    for (key, document) in before {
        let is_there = views.iter().any(|view| {
            let then = view.document(key).unwrap();
            then.is_some_and(|then| arrange::is_same(key, &then.document, document))
        });
        assert!(is_there, "{key} is lost: {}", document.text());
    }
}

/// What one home deletes is deleted, whichever home it was taken from first, and the other home does not bring it back.
#[test]
fn what_is_undone_in_one_home_is_not_brought_back_by_another() {
    for n in 0..2 {
        let (homes, id) = Homes::small();
        let order = homes.orders()[n];
        let (_directory, store) = empty_store();
        order.iter().for_each(|home| drop(run(&store, *home, ALL)));
        // The latest in time: what was learnt about an older state has a higher number and an earlier time.
        let head = store.log(&LogQuery { limit: Some(1), ..LogQuery::default() }).unwrap()[0].number;
        let before = contents(&store, &id);
        go_on(&homes.database, &id);
        order.iter().for_each(|home| drop(run(&store, *home, ALL)));
        assert_same(&contents(&store, &id), &contents(&homes.database, &id));
        let then = store.at(At::Revision(head)).unwrap().unwrap();
        assert_same(&contents(&*then, &id), &before);
        assert_done(&store, &order);
        // Gone from the home where it was used last, it is what the other home has. What it was stays in history.
        let current = contents(&store, &id);
        let mut transaction = Transaction::new("delete it");
        for key in homes.database.session_keys(&id).unwrap() {
            transaction.delete_any(key);
        }
        homes.database.commit(transaction).unwrap();
        assert_eq!(run(&store, &homes.database, ALL).gone, std::slice::from_ref(&id));
        assert_same(&contents(&store, &id), &contents(&homes.directory, &id));
        assert_reachable(&store, &id, &current);
        order.iter().for_each(|home| drop(run(&store, *home, ALL)));
        assert_done(&store, &order);
        assert_same(&contents(&store, &id), &contents(&homes.directory, &id));
        assert!(session(&store, id.as_str()).gone.is_none(), "one home still has it");
    }
}

/// A part that is edited in a home that is out of date is noted once.
#[test]
fn a_change_where_a_session_is_out_of_date_is_an_older_state() {
    let (homes, id) = Homes::small();
    go_on(&homes.database, &id);
    let (_directory, store) = empty_store();
    let order = homes.orders()[0];
    order.iter().for_each(|home| drop(run(&store, *home, ALL)));
    let record = session(&homes.directory, id.as_str());
    let (said, current) = (messages(&homes.directory, &record).0, contents(&store, &id));
    let mut transaction = Transaction::new("edit");
    let edited = said[1].stored.document.with(&["agent"], "somebody").unwrap();
    transaction.replace(&said[1].stored, edited.clone());
    homes.directory.commit(transaction).unwrap();
    let account = run(&store, &homes.directory, FULL);
    assert_eq!((account.imported, account.deleted), (1, 0), "{account:?}");
    assert_same(&contents(&store, &id), &current);
    assert_reachable(&store, &id, &HashMap::from([(said[1].stored.key.clone(), edited)]));
    assert_done(&store, &order);
}

/// Used at the same time in both, as far as anybody can tell: then it is what the database has. What only the directory has is in history.
#[test]
fn of_equals_the_database_leads_and_nothing_is_lost() {
    let (homes, id) = Homes::small();
    let record = session(&homes.directory, id.as_str());
    let last = messages(&homes.directory, &record).0.pop().unwrap();
    let mut transaction = Transaction::new("another title");
    let renamed = record.stored.document.with(&["title"], "Only in the directory").unwrap();
    transaction.replace(&record.stored, renamed.clone());
    homes.directory.commit(transaction).unwrap();
    let mut transaction = Transaction::new("a batch that a migration lost");
    for stored in last.parts.iter().chain([&last.stored]) {
        transaction.delete_any(stored.key.clone());
    }
    homes.database.commit(transaction).unwrap();
    let title = |document: &Document| document.lens::<Session<'_>>().title.unwrap().to_string();
    for order in homes.orders() {
        let (_directory, store) = empty_store();
        order.iter().for_each(|home| drop(run(&store, *home, ALL)));
        let contents = contents(&store, &id);
        assert_eq!(title(&contents[&record.stored.key]), "A sample");
        assert!(!contents.contains_key(&last.stored.key) && !contents.contains_key(&last.parts[0].key));
        let mut elsewhere = HashMap::from([(record.stored.key.clone(), renamed.clone())]);
        let last = last.parts.iter().chain([&last.stored]);
        elsewhere.extend(last.map(|stored| (stored.key.clone(), stored.document.clone())));
        assert_reachable(&store, &id, &elsewhere);
        assert_done(&store, &order);
    }
}

/// Also as long as it is only counted, a session is what it is where it was used last.
#[test]
fn the_numbers_are_those_of_where_it_was_used_last() {
    for is_directory_last in [true, false] {
        let (homes, id) = Homes::small();
        let last: &dyn Write = if is_directory_last { &homes.directory } else { &homes.database };
        let record = session(last, id.as_str());
        let sample = Sample::new(id.clone(), "/home/dev/shop");
        let now = annals::ids::now() - 1_800_000;
        let mut transaction = Transaction::new("it goes on there");
        let said = sample.prompt(&annals::ids::new_message(), now);
        transaction.put(said.0, said.1);
        transaction.put(record.stored.key.clone(), sample.session_document("A sample", now));
        last.commit(transaction).unwrap();
        for order in homes.orders() {
            for stages in [
                &[Stage::Messages][..],
                &[Stage::Calls],
                &[Stage::Messages, Stage::Calls],
                &[Stage::Calls, Stage::Messages, Stage::Parts],
                &[Stage::Parts, Stage::Calls],
            ] {
                let (_directory, store) = empty_store();
                for stage in stages {
                    sync(&store, &order, SyncOptions { stage: *stage, ..ALL }, &()).unwrap();
                }
                let record = session(&store, id.as_str());
                let summary = store.summarize(&[&record]).unwrap().remove(0).unwrap();
                assert_eq!((summary.messages, summary.parts), (7, 6), "{stages:?}");
                if !stages.contains(&Stage::Calls) {
                    continue;
                }
                let counting = annals::stats::Counting::ALL;
                let stats = annals::stats::collect(&store, vec![record], counting).unwrap().value;
                assert_eq!((stats.messages, stats.parts), (7, 6), "{stages:?}");
            }
        }
    }
}

/// One process lists while another takes everything over: what that has stored is not taken for counted.
#[test]
fn who_is_overtaken_leaves_numbers_as_they_are() {
    struct Overtaking<'s>(&'s SqliteStore, &'s dyn Source);
    impl annals::sync::Progress for Overtaking<'_> {
        fn begin(&self, _home: &str, _sessions: usize) {
            sync(self.0, &[self.1], ALL, &()).unwrap();
        }
    }
    let (homes, id) = Homes::small();
    let (_directory, store) = empty_store();
    let other = SqliteStore::open(store.path()).unwrap();
    let messages = SyncOptions { stage: Stage::Messages, ..ALL };
    sync(&store, &[&homes.directory], messages, &Overtaking(&other, &homes.directory)).unwrap();
    let record = session(&store, id.as_str());
    let summary = store.summarize(&[&record]).unwrap().remove(0).unwrap();
    assert_eq!((summary.messages, summary.parts), (6, 6));
    assert_eq!(query(store.path(), "SELECT count(*) FROM session WHERE brief"), ["0"]);
}
