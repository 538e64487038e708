//! Sync where things are not as they should be: what cannot be read for now is not taken for deleted, and what was left out
//! is made up for.

use annals::store::Store;
use std::path::{Path, PathBuf};

use annals::history::{At, History};
use annals::home::{Read, Summaries, Write};
use annals::model::{ContentHash, Document, Key, Transaction};
use annals::query::SessionQuery;
use annals::stores::sqlite::SqliteStore;
use annals::sync::{Stage, SyncOptions};

use super::annals_store::empty_store;
use super::kit::{Sample, empty_home, messages, open, query, session, sql, write};
use super::sync::{ALL, run};

const FULL: SyncOptions = SyncOptions { full: true, ..ALL };
const MESSAGES: SyncOptions = SyncOptions { stage: Stage::Messages, ..ALL };

/// A home with two sessions of long ago.
fn home() -> (tempfile::TempDir, annals::homes::opencode::directory::OpencodeDirectory, [Sample; 2]) {
    let (directory, home) = empty_home();
    let samples =
        ["/home/dev/shop", "/home/dev/bank"].map(|place| Sample::new(annals::ids::new_session(), place));
    samples.iter().for_each(|sample| add(&home, sample));
    (directory, home, samples)
}

/// Adds a prompt and its answer to a session, an hour ago.
fn add(home: &dyn Write, sample: &Sample) {
    let then = annals::ids::now() - 3_600_000;
    let (user, assistant) = (annals::ids::new_message(), annals::ids::new_message());
    let mut transaction = Transaction::new("add");
    for (key, document) in [
        (sample.session_key(), sample.session_document("A sample", then)),
        sample.prompt(&user, then),
        sample.text(&user, &annals::ids::new_part(), "What is it?"),
        sample.answer(&assistant, &user, then),
        sample.text(&assistant, &annals::ids::new_part(), "It is this."),
    ] {
        transaction.put(key, document);
    }
    home.commit(transaction).unwrap();
}

/// Gives everything an old date, so that sessions count as settled.
fn age(home: &Path) {
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
    let directories =
        std::fs::read_dir(home.join("storage/message")).unwrap().map(|entry| entry.unwrap().path());
    for path in annals_testkit::files_below(home).into_iter().chain(directories) {
        std::fs::File::open(path).unwrap().set_modified(old).unwrap();
    }
}

/// Where the parts of a session's first message are.
fn parts_of(home: &dyn Read, path: &Path, sample: &Sample) -> PathBuf {
    let record = session(home, sample.session.as_str());
    let first = messages(home, &record).0.remove(0).stored.key;
    let Key::Message(_, message) = first else { panic!("{first}") };
    path.join("storage/part").join(message.as_str())
}

#[test]
fn what_cannot_be_listed_is_not_deleted() {
    for what in ["parts", "messages"] {
        let (directory, home, [sample, _]) = home();
        let (_directory, store) = empty_store();
        run(&store, &home, ALL);
        let place = match what {
            "parts" => parts_of(&home, directory.path(), &sample),
            _ => directory.path().join("storage/message").join(sample.session.as_str()),
        };
        let aside = directory.path().join("aside");
        std::fs::rename(&place, &aside).unwrap();
        std::fs::write(&place, "").unwrap();
        for options in [ALL, FULL] {
            let account = run(&store, &home, options);
            assert_eq!((account.deleted, account.quarantined.len()), (0, 1), "{what}: {account:?}");
        }
        let record = session(&store, sample.session.as_str());
        let said = messages(&store, &record).0;
        assert!(said.len() == 2 && said.iter().all(|message| message.parts.len() == 1), "{what}");
        // When it is back, nothing is left of the trouble.
        std::fs::remove_file(&place).unwrap();
        std::fs::rename(&aside, &place).unwrap();
        let account = run(&store, &home, ALL);
        assert_eq!(
            (account.imported, account.deleted, account.quarantined.len()),
            (0, 0, 0),
            "{what}: {account:?}"
        );
        assert!(messages(&store, &record).1.is_empty());
    }
}

/// A change made in the store stands as long as its home says what it said before. When the home deletes the document, that is the later
/// word; what was changed here stays in history.
#[test]
fn what_was_changed_here_stands_until_its_home_changes_it() {
    let (directory, home, [sample, _]) = home();
    let (_directory, store) = empty_store();
    run(&store, &home, ALL);
    let part = messages(&store, &session(&store, sample.session.as_str())).0.remove(0).parts.remove(0);
    let mut transaction = Transaction::new("changed here");
    let changed = part.document.with(&["text"], "What was it?").unwrap();
    transaction.replace(&part, changed.clone());
    store.commit(transaction).unwrap();
    for options in [ALL, FULL] {
        assert_eq!(run(&store, &home, options).imported, 0);
        assert_eq!(store.document(&part.key).unwrap().unwrap().document, changed);
    }
    let head = store.head().unwrap();
    let parts = parts_of(&home, directory.path(), &sample);
    std::fs::remove_dir_all(parts).unwrap();
    assert_eq!(run(&store, &home, FULL).deleted, 1);
    assert!(store.document(&part.key).unwrap().is_none());
    let then = store.at(At::Revision(head)).unwrap().unwrap();
    assert_eq!(then.document(&part.key).unwrap().unwrap().document, changed);
}

/// A file that is no session stands among the sessions. That is no reason not to see that one of them is gone.
#[test]
fn a_stray_file_does_not_hide_that_a_session_is_gone() {
    let (directory, home, [sample, _]) = home();
    let (_directory, store) = empty_store();
    write(directory.path(), &format!("storage/session/{}/what is this.json", sample.project), "{}");
    assert_eq!(run(&store, &home, ALL).quarantined.len(), 1);
    let path = format!("storage/session/{}/{}.json", sample.project, sample.session);
    std::fs::remove_file(directory.path().join(path)).unwrap();
    assert_eq!(run(&store, &home, ALL).gone, std::slice::from_ref(&sample.session));
    // It is noted as long as it is there.
    let noted = |store: &SqliteStore| store.sessions(&SessionQuery::default()).unwrap().quarantined.len();
    assert_eq!(noted(&store), 1);
    std::fs::remove_file(
        directory.path().join(format!("storage/session/{}/what is this.json", sample.project)),
    )
    .unwrap();
    run(&store, &home, ALL);
    assert_eq!(noted(&store), 0);
}

#[test]
fn an_unreadable_session_is_counted_and_noted() {
    let (directory, home, [sample, _]) = home();
    let (_directory, store) = empty_store();
    run(&store, &home, ALL);
    let path = directory.path().join(format!("storage/session/{}/{}.json", sample.project, sample.session));
    let whole = std::fs::read(&path).unwrap();
    std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    let account = run(&store, &home, ALL);
    assert_eq!((account.quarantined.len(), account.deleted, account.gone.len()), (1, 0, 0), "{account:?}");
    let record = session(&store, sample.session.as_str());
    assert_eq!(messages(&store, &record).1.len(), 1, "the store says what it could not read");
    std::fs::write(&path, &whole).unwrap();
    assert!(run(&store, &home, ALL).quarantined.is_empty());
    assert!(messages(&store, &record).1.is_empty());
}

/// A session that was looked at in depth is kept up to date in depth, also by a sync that need not go so deep.
#[test]
fn parts_follow_also_when_only_numbers_are_asked_for() {
    let (directory, home, [sample, _]) = home();
    age(directory.path());
    let (_directory, store) = empty_store();
    run(&store, &home, ALL);
    let n_parts = |store: &SqliteStore| {
        let record = session(store, sample.session.as_str());
        (
            store.summarize(&[&record]).unwrap().remove(0).unwrap().parts,
            messages(store, &record).0.iter().map(|m| m.parts.len()).sum(),
        )
    };
    assert_eq!(n_parts(&store), (2, 2));
    add(&home, &sample);
    age(directory.path());
    run(&store, &home, MESSAGES);
    assert_eq!(n_parts(&store), (4, 4));
    let account = run(&store, &home, MESSAGES);
    assert_eq!((n_parts(&store), account.looked), ((4, 4), 0));
}

/// Parts that an undo leaves behind, with no message to belong to.
fn orphan(home: &Path, sample: &Sample) -> Key {
    let (message, part) = (annals::ids::new_message(), annals::ids::new_part());
    let (key, document) = sample.text(&message, &part, "Undone.");
    write(home, &format!("storage/part/{message}/{part}.json"), document.text());
    key
}

#[test]
fn what_an_undo_left_behind_is_taken_with_the_first_parts() {
    let (directory, home, [sample, _]) = home();
    let key = orphan(directory.path(), &sample);
    let (_directory, store) = empty_store();
    run(&store, &home, MESSAGES);
    assert!(store.document(&key).unwrap().is_none());
    run(&store, &home, ALL);
    assert!(store.document(&key).unwrap().is_some());
}

#[test]
fn what_an_undo_left_behind_does_not_bring_back_what_was_forgotten() {
    let (directory, home, [sample, other]) = home();
    let keys = [&sample, &other].map(|sample| orphan(directory.path(), sample));
    let (_directory, store) = empty_store();
    let hash = ContentHash::of(sample.session.as_str().as_bytes());
    let hex: String = hash.as_bytes()[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    sql(store.path(), &format!("INSERT INTO forgotten VALUES (x'{hex}')"));
    for options in [ALL, FULL] {
        let account = run(&store, &home, options);
        assert_eq!(account.forgotten, 1);
        assert!(store.session(&sample.session).unwrap().is_none());
        assert!(store.document(&keys[0]).unwrap().is_none());
        assert!(store.document(&keys[1]).unwrap().is_some());
    }
    assert_eq!(
        query(store.path(), &format!("SELECT count(*) FROM document WHERE id = '{}'", sample.session)),
        ["0"]
    );
}

/// What is found as it was is not called changed, though it has come to rest since.
#[test]
fn coming_to_rest_is_no_change() {
    let (directory, home, _) = home();
    let (_directory, store) = empty_store();
    run(&store, &home, ALL);
    age(directory.path());
    let account = run(&store, &home, ALL);
    assert_eq!((account.looked, account.changed), (2, 0), "{account:?}");
    assert_eq!(run(&store, &home, ALL).looked, 0);
}

/// A clock that was ahead for a while must not make changes invisible.
#[test]
fn a_clock_that_was_ahead_hides_nothing() {
    let (_home, home, [sample, _]) = home();
    let (directory, store) = empty_store();
    let store = store.with_clock(|| annals::ids::now() + 86_400_000);
    run(&store, &home, ALL);
    drop(store);
    let store = SqliteStore::open(&directory.path().join("annals.db")).unwrap();
    add(&home, &sample);
    let record = session(&home, sample.session.as_str());
    let edited: Document = record.stored.document.with(&["title"], "Edited").unwrap();
    let mut transaction = Transaction::new("edit");
    transaction.replace(&record.stored, edited);
    home.commit(transaction).unwrap();
    assert_eq!(run(&store, &home, ALL).imported, 5);
    assert_eq!(run(&store, &open(_home.path()), FULL).imported, 0);
}
