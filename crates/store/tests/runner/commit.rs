//! Transactions: all changes or none, and nobody's update lost.

use annals::home::{CommitError, ConflictKind, Read, Write};
use annals::model::id::SessionId;
use annals::model::{Document, Key, Stored, Transaction};

use super::kit::{Sample, empty_home, export, messages, open, session, snapshot, write};

fn document(text: &str) -> Document {
    Document::parse(text.as_bytes().to_vec()).unwrap()
}

#[test]
fn what_was_committed_is_there_in_opencodes_own_layout() {
    let (dir, home) = empty_home();
    let sample = Sample::new(annals::ids::new_session(), "/home/dev/shop");
    sample.store(&home, "Hello?", "Hello.");
    let files: Vec<String> = snapshot(dir.path()).into_keys().collect();
    let shape: Vec<String> =
        files.iter().map(|file| file.split('/').take(2).collect::<Vec<_>>().join("/")).collect();
    assert_eq!(
        shape,
        ["storage/message", "storage/message", "storage/part", "storage/part", "storage/session"]
    );
    let again = open(dir.path());
    let record = session(&again, sample.session.as_str());
    let (messages, quarantined) = messages(&again, &record);
    assert!(quarantined.is_empty());
    let texts: Vec<_> =
        messages.iter().map(|m| m.parts[0].document.root().get("text").unwrap().raw()).collect();
    assert_eq!(texts, [r#""Hello?""#, r#""Hello.""#]);
}

#[test]
fn a_conflict_changes_nothing_and_says_what_happened() {
    let (dir, home) = empty_home();
    let sample = Sample::new(annals::ids::new_session(), "/home/dev/shop");
    sample.store(&home, "a", "b");
    let record = session(&home, sample.session.as_str());
    let todo = Key::Todo(sample.session.clone());
    let path = dir.path().join(format!("storage/session/{}/{}.json", sample.project, sample.session));
    let commit = |change: &dyn Fn(&mut Transaction)| {
        let before = snapshot(dir.path());
        let mut transaction = Transaction::new("test");
        // Beside the change in question there is one that could be made: it must not be made either.
        transaction.insert(todo.clone(), document("[]"));
        change(&mut transaction);
        match home.commit(transaction) {
            Err(CommitError::Conflict { what, place, .. }) => {
                assert_eq!(snapshot(dir.path()), before);
                assert!(place.starts_with("storage/session/"), "{place}");
                what
            }
            other => panic!("{other:?}"),
        }
    };
    // OpenCode writes the document after we have read it.
    let theirs = record.stored.document.with(&["title"], "theirs").unwrap();
    std::fs::write(&path, theirs.bytes()).unwrap();
    let ours = record.stored.document.with(&["title"], "ours").unwrap();
    assert_eq!(commit(&|t| t.replace(&record.stored, ours.clone())), ConflictKind::Changed);
    assert_eq!(commit(&|t| t.delete(&record.stored)), ConflictKind::Changed);
    assert_eq!(commit(&|t| t.insert(record.stored.key.clone(), ours.clone())), ConflictKind::Exists);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(commit(&|t| t.replace(&record.stored, ours.clone())), ConflictKind::Gone);
}

#[test]
fn a_single_change_needs_no_journal_and_leaves_no_trace() {
    let (dir, home) = empty_home();
    let sample = Sample::new(annals::ids::new_session(), "/home/dev/shop");
    sample.store(&home, "a", "b");
    let record = session(&home, sample.session.as_str());
    let before = std::fs::read(dir.path().join("storage/.annals/last")).unwrap();
    let mut transaction = Transaction::new("rename");
    transaction.replace(&record.stored, record.stored.document.with(&["title"], "New title").unwrap());
    assert_eq!(home.commit(transaction).unwrap().written, 1);
    assert_eq!(std::fs::read(dir.path().join("storage/.annals/last")).unwrap(), before);
    let left: Vec<_> = std::fs::read_dir(dir.path().join("storage/.annals"))
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    assert_eq!(left.len(), 2, "{left:?}");
    assert_eq!(
        session(&home, sample.session.as_str()).stored.document.root().get("title").unwrap().raw(),
        r#""New title""#
    );
}

/// Only the title's bytes differ, in a document with all that a rewrite would lose.
#[test]
fn an_edit_of_a_stored_document_changes_only_that_field() {
    let (dir, home) = empty_home();
    let odd = "{\n  \"id\": \"ses_1\",\n  \"title\": \"old\",\n  \"plugin\": {\"x\":1e400,\"x\":-0, \"s\": \"\\ud83d\"},\n  \"big\": 9007199254740993\n}";
    write(dir.path(), "storage/session/global/ses_1.json", odd);
    let record = session(&home, "ses_1");
    let mut transaction = Transaction::new("rename");
    transaction.replace(&record.stored, record.stored.document.with(&["title"], "new").unwrap());
    home.commit(transaction).unwrap();
    let now = std::fs::read_to_string(dir.path().join("storage/session/global/ses_1.json")).unwrap();
    assert_eq!(now, odd.replace("old", "new"));
}

#[cfg(unix)]
#[test]
fn a_replaced_file_keeps_its_permissions_and_a_new_one_gets_opencodes() {
    use std::os::unix::fs::PermissionsExt;
    let (dir, home) = empty_home();
    write(dir.path(), "storage/session/global/ses_1.json", "{\"id\":\"ses_1\"}");
    let path = dir.path().join("storage/session/global/ses_1.json");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
    let record = session(&home, "ses_1");
    let mut transaction = Transaction::new("two files");
    transaction.replace(&record.stored, document("{\"id\":\"ses_1\",\"title\":\"x\"}"));
    transaction.insert(Key::Todo(record.id.clone()), document("[]"));
    home.commit(transaction).unwrap();
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o640);
    assert_eq!(mode(&dir.path().join("storage/todo/ses_1.json")) & 0o644, 0o644);
}

#[test]
fn deleting_a_session_leaves_nothing_behind() {
    let (dir, home) = empty_home();
    let other = Sample::new(annals::ids::new_session(), "/home/dev/other");
    other.store(&home, "kept", "kept");
    let kept = snapshot(dir.path());
    let sample = Sample::new(annals::ids::new_session(), "/home/dev/shop");
    sample.store(&home, "a", "b");
    let id = &sample.session;
    // What OpenCode's own delete leaves: todos, diffs, shares, parts whose message is gone.
    let orphan = annals::ids::new_message();
    write(dir.path(), &format!("storage/todo/{id}.json"), "[]");
    write(dir.path(), &format!("storage/session_diff/{id}.json"), "[]");
    write(dir.path(), &format!("storage/session_share/{id}.json"), "{}");
    write(dir.path(), &format!("storage/share/{id}.json"), "{}");
    write(
        dir.path(),
        &format!("storage/part/{orphan}/prt_1.json"),
        format!(r#"{{"id":"prt_1","sessionID":"{id}","type":"text"}}"#),
    );
    // A child, and a child of that.
    let child = Sample::new(annals::ids::new_session(), "/home/dev/shop");
    child.store(&home, "c", "d");
    let grandchild = Sample::new(annals::ids::new_session(), "/home/dev/shop");
    grandchild.store(&home, "e", "f");
    for (of, parent) in [(&child, &sample), (&grandchild, &child)] {
        let record = session(&home, of.session.as_str());
        let mut transaction = Transaction::new("adopt");
        transaction.replace(
            &record.stored,
            record.stored.document.with(&["parentID"], parent.session.as_str()).unwrap(),
        );
        home.commit(transaction).unwrap();
    }
    // An unreadable part goes too.
    let record = session(&home, id.as_str());
    let part = messages(&home, &record).0[0].parts[0].place.clone();
    write(dir.path(), &part, "");
    let removal = annals::remove::plan(&home, record).unwrap();
    assert_eq!(removal.sessions.len(), 3);
    annals::remove::carry_out(&home, &removal, "test").unwrap();
    assert_eq!(snapshot(dir.path()), kept);
    for emptied in ["message", "part"] {
        let n_directories = std::fs::read_dir(dir.path().join("storage").join(emptied)).unwrap().count();
        assert_eq!(
            n_directories,
            if emptied == "message" { 1 } else { 2 },
            "only the kept session's in {emptied}/"
        );
    }
}

#[test]
fn a_directory_in_the_way_stops_the_transaction_before_anything_is_done() {
    let (dir, home) = empty_home();
    let id = SessionId::parse("ses_1").unwrap();
    std::fs::create_dir_all(dir.path().join("storage/todo/ses_1.json")).unwrap();
    for delete in [false, true] {
        let mut transaction = Transaction::new("blocked");
        transaction.put(Key::Diff(id.clone()), document("[]"));
        match delete {
            true => transaction.delete_any(Key::Todo(id.clone())),
            false => transaction.put(Key::Todo(id.clone()), document("[]")),
        }
        let error = home.commit(transaction).unwrap_err();
        assert!(matches!(error, CommitError::Failed { .. }), "{error:?}");
        assert!(
            error.to_string().contains("todo/ses_1.json") && error.to_string().contains("a directory"),
            "{error}"
        );
        assert!(!dir.path().join("storage/session_diff/ses_1.json").exists());
        assert!(!dir.path().join("storage/.annals/journal").exists());
    }
}

#[test]
fn a_document_read_elsewhere_can_be_stored_under_its_key() {
    let (_dir, home) = empty_home();
    let key = Key::Todo(SessionId::parse("ses_1").unwrap());
    let text = "[ {\"content\" : \"odd layout\"} ]";
    let mut transaction = Transaction::new("verbatim");
    transaction.insert(key.clone(), document(text));
    home.commit(transaction).unwrap();
    let Stored { document, .. } = home.document(&key).unwrap().unwrap();
    assert_eq!(document.text(), text);
}

/// A journal that says more than this version understands is not guessed at.
#[test]
fn a_journal_of_another_version_stops_writers_but_not_readers() {
    let (dir, home) = empty_home();
    let sample = Sample::new(annals::ids::new_session(), "/home/dev/shop");
    sample.store(&home, "a", "b");
    let exported = export(&home, sample.session.as_str());
    write(dir.path(), "storage/.annals/journal", r#"{"version":2,"transaction":"x","reason":"","steps":[]}"#);
    let home = open(dir.path());
    assert_eq!(export(&home, sample.session.as_str()), exported);
    let mut transaction = Transaction::new("anything");
    transaction.put(Key::Todo(sample.session), document("[]"));
    let error = home.commit(transaction).unwrap_err().to_string();
    assert!(error.contains("another version of annals"), "{error}");
}
