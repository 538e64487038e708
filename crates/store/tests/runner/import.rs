//! Exports taken back.

use annals::home::{Read, Write};
use annals::import::{Existing, ImportError, OnDifference, import, refile};
use annals::model::format::{jsonl, opencode};
use annals::model::id::ProjectId;
use annals::model::{Document, Key, Transaction};
use annals_testkit::Fixture;

use super::kit::{empty_home, export, messages, open, session, snapshot};

fn parse(bytes: &[u8]) -> Document {
    Document::parse(bytes.to_vec()).unwrap()
}

/// Every session of every corpus goes through the export of the real OpenCode and comes out as it was stored.
#[test]
fn documents_come_back_byte_for_byte() {
    for name in Fixture::FLAT {
        let fixture = Fixture::unpack(name);
        let source = open(fixture.home());
        let (_dir, target) = empty_home();
        for (id, exported) in fixture.exports() {
            if exported.is_empty() {
                continue;
            }
            let imported = opencode::read(&parse(&exported), &ProjectId::global()).unwrap();
            let account = import(&target, imported, Existing::Refuse, 1).unwrap();
            assert_eq!(account.seen, account.imported);
            let (ours, theirs) = (session(&target, &id), session(&source, &id));
            assert_eq!(ours.stored.document, theirs.stored.document);
            assert_eq!(export(&target, &id), exported, "{name} {id}");
        }
    }
}

/// The lines format holds everything of a session, whatever its documents look like.
#[test]
fn lines_keep_what_opencodes_export_would_lose() {
    let (dir, home) = empty_home();
    let odd = r#"{ "id":"ses_1", "title":"x", "n":1e400, "n":-0, "s":"\ud83d", "big":9007199254740993 }"#;
    super::kit::write(dir.path(), "storage/session/global/ses_1.json", odd);
    super::kit::write(dir.path(), "storage/todo/ses_1.json", "[\n  {}\n]");
    let mut lines = jsonl::header();
    for key in [
        Key::Session(ProjectId::global(), super::kit::session_id("ses_1")),
        Key::Todo(super::kit::session_id("ses_1")),
    ] {
        let stored = home.document(&key).unwrap().unwrap();
        lines.extend(jsonl::write(&stored.key, &stored.document));
    }
    assert!(jsonl::is_jsonl(&lines));
    let (copy, target) = empty_home();
    import(&target, jsonl::read(&lines).unwrap(), Existing::Refuse, 1).unwrap();
    let mut copied = snapshot(copy.path());
    copied
        .remove("storage/project/global.json")
        .expect("a project record is made, or later versions lose the session");
    assert_eq!(copied, snapshot(dir.path()));
}

#[test]
fn an_existing_session_is_not_touched_without_merge() {
    let fixture = Fixture::unpack("opencode-1.1.65");
    let home = open(fixture.home());
    let (id, exported) = fixture.exports().into_iter().find(|(_, text)| !text.is_empty()).unwrap();
    let before = snapshot(fixture.home());
    let read = || opencode::read(&parse(&exported), &ProjectId::global()).unwrap();
    let error = import(&home, read(), Existing::Refuse, 1).unwrap_err();
    assert!(matches!(&error, ImportError::Exists { session, .. } if session.as_str() == id), "{error}");
    assert_eq!(snapshot(fixture.home()), before);
    let account = import(&home, read(), Existing::Merge(OnDifference::Report), 1).unwrap();
    assert_eq!((account.imported, account.unchanged), (0, account.seen));
    assert_eq!(snapshot(fixture.home()), before);
}

#[test]
fn merging_adds_what_is_missing_and_keeps_the_more_recent() {
    let fixture = Fixture::unpack("opencode-1.1.65");
    let home = open(fixture.home());
    let id = "ses_385744ad0ffeWgvBCB6JclCZJ1";
    let exported = export(&home, id);
    let part = messages(&home, &session(&home, id)).0[1].parts[0].place.clone();
    let original = std::fs::read(fixture.home().join(&part)).unwrap();
    std::fs::remove_file(fixture.home().join(&part)).unwrap();
    let read = |text: &[u8]| opencode::read(&parse(text), &ProjectId::global()).unwrap();
    let account = import(&home, read(&exported), Existing::Merge(OnDifference::Report), 1).unwrap();
    assert_eq!(account.imported, 1);
    assert_eq!(std::fs::read(fixture.home().join(&part)).unwrap(), original);
    // An older export does not undo what has happened since.
    let older = parse(&exported).with(&["info", "title"], "old title").unwrap();
    let older = older.with(&["info", "time", "updated"], &1.0).unwrap();
    import(&home, read(older.bytes()), Existing::Merge(OnDifference::Report), 1).unwrap();
    assert_eq!(export(&home, id), exported);
    let newer = parse(&exported).with(&["info", "title"], "new title").unwrap();
    let newer = newer.with(&["info", "time", "updated"], &1_999_999_999_999.0).unwrap();
    // A later use proves nothing about the title: either side may have changed it.
    let account = import(&home, read(newer.bytes()), Existing::Merge(OnDifference::Report), 1).unwrap();
    assert_eq!((account.imported, account.differing.len()), (0, 1));
    let account = import(&home, read(newer.bytes()), Existing::Merge(OnDifference::Theirs), 1).unwrap();
    assert_eq!((account.imported, account.differing.len()), (1, 0));
    assert!(String::from_utf8(export(&home, id)).unwrap().contains("new title"));
}

#[test]
fn what_is_no_export_is_refused_with_the_place() {
    let check = |text: &str, expected: &str| {
        let error = opencode::read(&parse(text.as_bytes()), &ProjectId::global()).unwrap_err().to_string();
        assert_eq!(error, expected, "{text}");
    };
    check("{}", "`info` is missing");
    check("[]", "`info` is missing");
    check(r#"{"info":[]}"#, "`info` is an array, not an object");
    check(r#"{"info":{}}"#, "`info.id` has no `id`");
    check(r#"{"info":{"id":"ses_1"}}"#, "`messages` is missing");
    check(
        r#"{"info":{"id":"../../x"},"messages":[]}"#,
        r#"`info.id`: "../../x" is not a session id: ids are 2 to 10 lower-case letters, `_` and 1 to 64 letters or digits"#,
    );
    check(
        r#"{"info":{"id":"ses_1","projectID":"../p"},"messages":[]}"#,
        r#"`info.projectID`: "../p" is not a project id: project ids are 1 to 64 letters, digits, `_` or `-`"#,
    );
    check(
        r#"{"info":{"id":"ses_1"},"messages":[{"info":{"id":"msg_1"}}]}"#,
        "`messages[0].parts` is missing",
    );
    check(
        r#"{"info":{"id":"ses_1"},"messages":[{"info":{"id":"msg_1"},"parts":[{"id":"prt/1"}]}]}"#,
        r#"`messages[0].parts[0]`: "prt/1" is not a part id: ids are 2 to 10 lower-case letters, `_` and 1 to 64 letters or digits"#,
    );
    let error =
        jsonl::read(b"{\"kind\":\"annals\",\"version\":1}\n{\"kind\":\"part\"\n").unwrap_err().to_string();
    assert_eq!(error, "line 2: 1:15: the text ends inside an object");
    let error = jsonl::read(b"{\"kind\":\"annals\",\"version\":9}\n").unwrap_err().to_string();
    assert_eq!(error, "line 1 was written by a newer version of annals");
}

#[test]
fn references_to_another_session_are_refused() {
    let (dir, home) = empty_home();
    let text =
        r#"{"info":{"id":"ses_1"},"messages":[{"info":{"id":"msg_1","sessionID":"ses_2"},"parts":[]}]}"#;
    let imported = opencode::read(&parse(text.as_bytes()), &ProjectId::global()).unwrap();
    let error = import(&home, imported, Existing::Refuse, 1).unwrap_err().to_string();
    assert_eq!(error, "message msg_1: its `sessionID` is ses_2, but it stands in ses_1");
    assert!(snapshot(dir.path()).is_empty());
}

#[test]
fn an_import_can_be_filed_under_another_directory() {
    let fixture = Fixture::unpack("opencode-1.1.65");
    let (id, exported) = fixture.exports().into_iter().find(|(_, text)| !text.is_empty()).unwrap();
    let (_dir, home) = empty_home();
    let imported = opencode::read(&parse(&exported), &ProjectId::global()).unwrap();
    let project = ProjectId::parse("abc").unwrap();
    import(&home, refile(imported, &project, "/home/me/shop".as_ref()), Existing::Refuse, 1).unwrap();
    let record = session(&home, &id);
    assert_eq!(record.project, project);
    let root = record.stored.document.root();
    assert_eq!(root.get("projectID").unwrap().raw(), "\"abc\"");
    assert_eq!(root.get("directory").unwrap().raw(), "\"/home/me/shop\"");
}

/// OpenCode does not move `time.updated` on a rename or an edit, so an old export must not take either back.
#[test]
fn an_old_export_takes_back_no_change() {
    let fixture = Fixture::unpack("opencode-1.1.65");
    let home = open(fixture.home());
    let id = "ses_385744ad0ffeWgvBCB6JclCZJ1";
    let exported = export(&home, id);
    let mut edit = Transaction::new("a better title and text");
    let record = session(&home, id);
    edit.replace(&record.stored, record.stored.document.with(&["title"], "My title").unwrap());
    let part = messages(&home, &record).0[0].parts[0].clone();
    edit.replace(&part, part.document.with(&["text"], "My text").unwrap());
    home.commit(edit).unwrap();
    let changed = export(&home, id);
    let read = || opencode::read(&parse(&exported), &ProjectId::global()).unwrap();
    let account = import(&home, read(), Existing::Merge(OnDifference::Report), 1).unwrap();
    assert_eq!(export(&home, id), changed);
    assert_eq!((account.imported, account.unchanged + 2), (0, account.seen));
    let kept: Vec<_> = account.differing.iter().map(|differing| &differing.target).collect();
    assert!(kept.iter().any(|gist| gist.title.as_deref() == Some("My title")), "{kept:?}");
    assert!(kept.iter().any(|gist| gist.text.as_deref() == Some("My text")), "{kept:?}");
    let ours = import(&home, read(), Existing::Merge(OnDifference::Ours), 1).unwrap();
    assert_eq!((ours.imported, ours.differing.len(), ours.unchanged), (0, 0, ours.seen));
    assert_eq!(export(&home, id), changed);
    let theirs = import(&home, read(), Existing::Merge(OnDifference::Theirs), 1).unwrap();
    assert_eq!((theirs.imported, theirs.differing.len()), (2, 0));
    assert_eq!(export(&home, id), exported);
}
