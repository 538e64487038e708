//! Whatever a file may be, it hides nothing but itself.

use std::path::Path;

use annals::home::{Inspect, Read, ReadError};
use annals::homes::opencode::directory::{OpenDirError, OpencodeDirectory};
use annals::query::SessionQuery;

use super::kit::{Sample, empty_home, messages, session, session_id, snapshot, write};

/// Puts something else in the place of a file.
type Damage = (&'static str, fn(&Path), &'static str);

fn replace(path: &Path, bytes: &[u8]) {
    std::fs::write(path, bytes).unwrap();
}

/// Each kind of damage, and what is said of it.
const DAMAGES: &[Damage] = &[
    ("0 bytes", |path| replace(path, b""), "the document is empty"),
    ("NUL bytes", |path| replace(path, &[0; 700]), "only NUL bytes"),
    ("cut", |path| cut(path, 2), "the text ends inside"),
    ("doubled", |path| replace(path, &std::fs::read(path).unwrap().repeat(2)), "more text after the end"),
    ("not UTF-8", |path| replace(path, b"{\"id\": \"\xff\xfe\"}"), "not UTF-8"),
    ("an array", |path| replace(path, b"[1, 2]"), "expected an object, found an array"),
    ("a number", |path| replace(path, b"7"), "expected an object, found a number"),
    ("HTML", |path| replace(path, b"<html>"), "expected a value, found `<`"),
    (
        "a directory",
        |path| {
            std::fs::remove_file(path).unwrap();
            std::fs::create_dir(path).unwrap();
        },
        "a directory, not a file",
    ),
    #[cfg(unix)]
    (
        "a FIFO",
        |path| {
            std::fs::remove_file(path).unwrap();
            mkfifo(path);
        },
        "a pipe or device, not a file",
    ),
    #[cfg(unix)]
    (
        "a link out",
        |path| {
            std::fs::remove_file(path).unwrap();
            std::os::unix::fs::symlink("/etc/passwd", path).unwrap();
        },
        "leads out of the home",
    ),
    #[cfg(unix)]
    (
        "a link up and out",
        |path| {
            std::fs::remove_file(path).unwrap();
            std::os::unix::fs::symlink("../../../../../../etc/passwd", path).unwrap();
        },
        "leads out of the home",
    ),
    #[cfg(unix)]
    (
        "a link to itself",
        |path| {
            std::fs::remove_file(path).unwrap();
            std::os::unix::fs::symlink(path.file_name().unwrap(), path).unwrap();
        },
        "Too many levels of symbolic links",
    ),
];

fn cut(path: &Path, part: usize) {
    let bytes = std::fs::read(path).unwrap();
    replace(path, &bytes[..bytes.len() / part]);
}

#[cfg(unix)]
fn mkfifo(path: &Path) {
    assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[test]
fn a_damaged_part_hides_only_itself() {
    for (name, damage, expected) in DAMAGES {
        let (dir, home) = empty_home();
        let sample = Sample::new(annals::ids::new_session(), "/home/dev/shop");
        sample.store(&home, "kept", "damaged");
        let record = session(&home, sample.session.as_str());
        let place = messages(&home, &record).0[1].parts[0].place.clone();
        damage(&dir.path().join(&place));
        let (messages, quarantined) = messages(&home, &record);
        assert_eq!(messages.iter().map(|m| m.parts.len()).collect::<Vec<_>>(), [1, 0], "{name}");
        let [problem] = quarantined.as_slice() else { panic!("{name}: {quarantined:?}") };
        assert_eq!(problem.place, place);
        assert_eq!(problem.session.as_ref(), Some(&sample.session));
        assert!(problem.to_string().contains(expected), "{name}: {problem}");
    }
}

#[test]
fn a_damaged_message_hides_only_itself() {
    for (name, damage, expected) in DAMAGES {
        let (dir, home) = empty_home();
        let sample = Sample::new(annals::ids::new_session(), "/home/dev/shop");
        sample.store(&home, "kept", "damaged");
        let record = session(&home, sample.session.as_str());
        let place = messages(&home, &record).0[1].stored.place.clone();
        damage(&dir.path().join(&place));
        let (messages, quarantined) = messages(&home, &record);
        assert_eq!(messages.len(), 1, "{name}");
        let [problem] = quarantined.as_slice() else { panic!("{name}: {quarantined:?}") };
        assert_eq!(problem.place, place);
        assert!(problem.to_string().contains(expected), "{name}: {problem}");
    }
}

#[test]
fn a_damaged_session_hides_only_itself() {
    for (name, damage, expected) in DAMAGES {
        let (dir, home) = empty_home();
        let [kept, broken] = [1, 2].map(|_| Sample::new(annals::ids::new_session(), "/home/dev/shop"));
        kept.store(&home, "kept", "kept");
        broken.store(&home, "damaged", "damaged");
        let place = session(&home, broken.session.as_str()).stored.place;
        damage(&dir.path().join(&place));
        let found = home.sessions(&SessionQuery::default()).unwrap();
        assert_eq!(
            found.value.iter().map(|record| &record.id).collect::<Vec<_>>(),
            [&kept.session],
            "{name}"
        );
        assert!(found.quarantined[0].to_string().contains(expected), "{name}: {}", found.quarantined[0]);
        match home.session(&broken.session) {
            Err(ReadError::Unreadable(problem)) => assert_eq!(problem.place, place, "{name}"),
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[test]
fn names_that_are_no_ids_are_reported_not_followed() {
    let (dir, home) = empty_home();
    write(dir.path(), "storage/session/global/ses_1.json", r#"{"id":"ses_1"}"#);
    write(dir.path(), "storage/session/global/..weird.json", "{}");
    write(dir.path(), "storage/session/global/notes.json", "{}");
    write(dir.path(), "storage/session/global/ses_2.json.bak", "{}");
    write(dir.path(), "storage/session/global/.ses_3.json", "{}");
    write(dir.path(), "storage/session/bad.project/ses_4.json", "{}");
    write(dir.path(), "storage/message/ses_1/thumbs.json", "{}");
    let found = home.sessions(&SessionQuery::default()).unwrap();
    assert_eq!(found.value.len(), 1);
    let mut places: Vec<_> = found.quarantined.iter().map(|problem| problem.place.as_str()).collect();
    places.sort_unstable();
    assert_eq!(places, ["storage/session/bad.project", "storage/session/global/notes.json"]);
    let (_, quarantined) = messages(&home, &found.value[0]);
    assert_eq!(quarantined[0].place, "storage/message/ses_1/thumbs.json");
}

/// An id inside a document never becomes a path.
#[test]
fn ids_inside_documents_lead_nowhere() {
    let (dir, home) = empty_home();
    write(
        dir.path(),
        "storage/session/global/ses_1.json",
        r#"{"id":"../../../etc/passwd","parentID":"../../x","projectID":"../.."}"#,
    );
    write(
        dir.path(),
        "storage/message/ses_1/msg_1.json",
        r#"{"id":"/etc/passwd","sessionID":"../x","role":"user"}"#,
    );
    let before = snapshot(dir.path());
    let record = session(&home, "ses_1");
    assert_eq!(messages(&home, &record).0.len(), 1);
    let removal = annals::remove::plan(&home, record).unwrap();
    annals::remove::carry_out(&home, &removal, "test").unwrap();
    assert_eq!(before.len(), 2);
    assert!(snapshot(dir.path()).is_empty());
    assert!(annals::model::id::SessionId::parse("../../x").is_err());
    assert!(home.session(&session_id("ses_1")).unwrap().is_none());
}

#[cfg(unix)]
#[test]
fn a_directory_that_is_something_else_hides_only_itself() {
    let (dir, home) = empty_home();
    let [kept, broken] = [1, 2].map(|_| Sample::new(annals::ids::new_session(), "/home/dev/shop"));
    kept.store(&home, "kept", "kept");
    broken.store(&home, "a", "b");
    let path = dir.path().join(format!("storage/message/{}", broken.session));
    std::fs::remove_dir_all(&path).unwrap();
    for make in [
        mkfifo as fn(&Path),
        |path| std::os::unix::fs::symlink("/etc", path).unwrap(),
        |path| replace(path, b"x"),
    ] {
        make(&path);
        let (found, quarantined) = messages(&home, &session(&home, broken.session.as_str()));
        assert!(found.is_empty());
        assert_eq!(quarantined.len(), 1);
        assert_eq!(messages(&home, &session(&home, kept.session.as_str())).0.len(), 2);
        std::fs::remove_file(&path).unwrap();
    }
}

/// A link inside the home is the user's own arrangement.
#[cfg(unix)]
#[test]
fn links_that_stay_inside_are_followed() {
    let (dir, home) = empty_home();
    write(dir.path(), "storage/session/global/ses_1.json", r#"{"id":"ses_1"}"#);
    write(dir.path(), "storage/kept/a.json", r#"{"id":"msg_1","role":"user"}"#);
    std::fs::create_dir_all(dir.path().join("storage/message/ses_1")).unwrap();
    std::os::unix::fs::symlink("../../kept/a.json", dir.path().join("storage/message/ses_1/msg_1.json"))
        .unwrap();
    let (messages, quarantined) = messages(&home, &session(&home, "ses_1"));
    assert!(quarantined.is_empty(), "{quarantined:?}");
    assert_eq!(messages.len(), 1);
}

#[test]
fn what_is_no_home_is_said_to_be_none() {
    let dir = tempfile::tempdir().unwrap();
    assert!(matches!(OpencodeDirectory::open(dir.path()), Err(OpenDirError::NotAHome { .. })));
    assert!(matches!(
        OpencodeDirectory::open(&dir.path().join("missing")),
        Err(OpenDirError::NotFound { .. })
    ));
    write(dir.path(), "file", "x");
    assert!(matches!(OpencodeDirectory::open(&dir.path().join("file")), Err(OpenDirError::Io { .. })));
}

/// Reading changes nothing, not even for a moment: no lock, no directory of our own.
#[test]
fn reading_leaves_no_trace() {
    let fixture = annals_testkit::Fixture::unpack("opencode-1.1.65");
    let listing = || {
        let mut files = annals_testkit::files_below(fixture.home());
        files.sort();
        let stamp = |path: &Path| {
            let m = std::fs::metadata(path).unwrap();
            (m.modified().unwrap(), m.len())
        };
        files.into_iter().map(|path| (stamp(&path), path)).collect::<Vec<_>>()
    };
    let before = listing();
    let home = super::kit::open(fixture.home());
    for record in home.sessions(&SessionQuery::default()).unwrap().value {
        messages(&home, &record);
    }
    home.check(annals::ids::now(), &|| {}).unwrap();
    home.extent().unwrap();
    assert_eq!(listing(), before);
    assert!(!fixture.home().join("storage/.annals").exists());
}
