//! Operations: each goes to every home of the user's that holds the session, is seen by the next command, and can be taken back.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use insta::assert_snapshot;
use rusqlite::Connection;
use serde_json::Value;

use super::disk::{in_namespace, text as both_streams};
use super::kit::{User, write};
use super::walk::homes::{files, rows};

/// The homes that a user may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Directory,
    Database12,
    Database18,
    /// A directory, and a database into which OpenCode has taken its sessions over.
    Both,
}

pub(super) const KINDS: [Kind; 4] = [Kind::Directory, Kind::Database12, Kind::Database18, Kind::Both];

/// A user with three sessions, the last of which has started another one. Annals has seen them.
pub(super) fn user(kind: Kind) -> User {
    let user = User::new();
    user.write_session("36aaaaffe1", "First door", "Where is the door", "The door is here");
    user.write_session("36bbbbffe2", "Second door", "Where is the window", "The window is there");
    user.write_session("36ccccffe3", "A child", "Look for it", "It is found");
    let child = user.opencode().join("storage/session/global/ses_36ccccffe3.json");
    let document = std::fs::read_to_string(&child).unwrap();
    std::fs::write(&child, document.replacen('{', r#"{"parentID":"ses_36bbbbffe2","#, 1)).unwrap();
    write(
        &user.opencode(),
        "storage/todo/ses_36aaaaffe1.json",
        r#"[{"content":"Open it","status":"pending","priority":"high"}]"#,
    );
    if kind != Kind::Directory {
        let home = user.opencode().display().to_string();
        let database = user.opencode().join("opencode.db");
        let version = if kind == Kind::Database12 { "small-1.2.27" } else { "small-1.18.33" };
        let fixture = annals_testkit::Fixture::unpack(version);
        std::fs::copy(fixture.home().join("opencode.db"), &database).unwrap();
        let elsewhere = user.root().join("another-store.db");
        let copied = user
            .annals(&["copy", "--from", &home, "--to", database.to_str().unwrap()])
            .env("ANNALS_STORE", &elsewhere);
        let _ = copied.run().ok();
        if kind != Kind::Both {
            std::fs::remove_dir_all(user.opencode().join("storage")).unwrap();
        }
    }
    let _ = user.annals(&["sync"]).run().ok();
    user
}

/// Every file of the directory and every row of the database. What OpenCode's log of changes has is not compared.
pub(super) fn bytes(user: &User) -> BTreeMap<String, Vec<u8>> {
    bytes_of(&user.opencode())
}

fn bytes_of(home: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut all = BTreeMap::new();
    if home.join("storage").exists() {
        all.extend(files(&home.join("storage")));
    }
    if home.join("opencode.db").exists() {
        all.extend(rows(&home.join("opencode.db")));
    }
    all.retain(|name, _| !name.starts_with("event"));
    all
}

pub(super) fn listed(user: &User, arguments: &[&str]) -> Vec<Value> {
    let rows = user.annals(&[&["list", "--json"], arguments].concat()).run().ok().json();
    rows.as_array().unwrap().clone()
}

pub(super) fn row(user: &User, id: &str) -> Value {
    listed(user, &[]).into_iter().find(|row| row["id"] == id).unwrap_or_else(|| panic!("no {id}"))
}

#[test]
fn what_a_command_did_is_what_the_next_one_shows() {
    for kind in KINDS {
        let user = user(kind);
        let id = "ses_36aaaaffe1";
        let _ = user.annals(&["rename", id, "Garden gate"]).run().ok();
        assert_eq!(row(&user, id)["title"], "Garden gate", "{kind:?}");
        assert_eq!(
            listed(&user, &["--no-sync"]).iter().filter(|row| row["title"] == "Garden gate").count(),
            1
        );
        assert!(user.annals(&["show", id]).run().ok().text().starts_with("Garden gate"), "{kind:?}");
        assert!(user.annals(&["show", "Garden gate"]).run().ok().text().contains("Where is the door"));
        let exported = user.annals(&["export", id]).run().ok().json();
        assert_eq!(exported["info"]["title"], "Garden gate", "{kind:?}");
        let hits = |word: &str| {
            let hits = user.annals(&["search", word, "--json"]).run().ok().json();
            hits.as_array().unwrap().iter().filter(|hit| hit["sessionID"] == id).count()
        };
        assert_eq!(hits("garden"), 1, "{kind:?}");
        // In the title only.
        assert_eq!(hits("first"), 0, "{kind:?}");
        let _ = user.annals(&["archive", id]).run().ok();
        assert!(row(&user, id)["archived"].is_u64(), "{kind:?}");
        let _ = user.annals(&["archive", "--undo", id]).run().ok();
        assert!(row(&user, id)["archived"].is_null(), "{kind:?}");
        let _ = user.annals(&["rm", "--yes", id]).run().ok();
        assert!(row(&user, id)["gone"].is_u64(), "{kind:?}");
        assert!(!bytes(&user).values().any(|bytes| String::from_utf8_lossy(bytes).contains(id)), "{kind:?}");
        // Nothing is offered that would bring it back.
        let overview = user.annals(&[]).run().ok();
        assert!(!overview.to_string().contains("annals copy --from"), "{kind:?}: {overview}");
        let _ = user.annals(&["undo"]).run().ok();
        assert_eq!(row(&user, id)["gone"], Value::Null, "{kind:?}");
    }
}

fn last_revision(user: &User) -> String {
    user.annals(&["log", "--revisions", "--json", "-n", "1"]).run().ok().json()[0]["revision"].to_string()
}

/// Commands that change something. `first` is a revision in which the first session had another title.
fn operations(user: &User, first: &str) -> Vec<(&'static str, Vec<String>)> {
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let export = user.root().join("exported.jsonl").display().to_string();
    let _ = user.annals(&["export", "ses_36bbbbffe2", "--format", "jsonl", "-o", &export]).run().ok();
    let imported = std::fs::read_to_string(&export).unwrap().replace("36bbbbffe2", "36ddddffe4");
    std::fs::write(&export, imported).unwrap();
    vec![
        ("rename", words("rename ses_36aaaaffe1 Gate")),
        ("archive", words("archive ses_36aaaaffe1 ses_36bbbbffe2")),
        ("rm", words("rm --yes ses_36aaaaffe1")),
        ("rm with a child", words("rm --yes ses_36bbbbffe2")),
        ("import", vec!["import".to_owned(), export]),
        ("restore", words(&format!("restore ses_36aaaaffe1 --at {first}"))),
    ]
}

#[test]
fn every_operation_is_undone_byte_for_byte_and_done_again() {
    for kind in KINDS {
        let user = user(kind);
        let first = last_revision(&user);
        // So that there is something to restore.
        let _ = user.annals(&["rename", "ses_36aaaaffe1", "Renamed since"]).run().ok();
        for (name, arguments) in operations(&user, &first) {
            let what = format!("{name}, {kind:?}");
            let before = (bytes(&user), listed(&user, &[]));
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            let _ = user.annals(&arguments).run().ok();
            let after = (bytes(&user), listed(&user, &[]));
            assert_ne!(before.0, after.0, "{what}");
            let _ = user.annals(&["undo"]).run().ok();
            assert!(bytes(&user) == before.0, "{what}: {:?}", differences(&before.0, &bytes(&user)));
            assert_eq!(listed(&user, &[]), before.1, "{what}");
            let undo =
                user.annals(&["log", "--json", "-n", "1"]).run().ok().json()[0]["operation"].to_string();
            let _ = user.annals(&["undo", &undo]).run().ok();
            assert!(bytes(&user) == after.0, "{what}: {:?}", differences(&after.0, &bytes(&user)));
            let again =
                user.annals(&["log", "--json", "-n", "1"]).run().ok().json()[0]["operation"].to_string();
            let _ = user.annals(&["undo", &again]).run().ok();
            assert!(bytes(&user) == before.0, "{what}, the third time");
        }
    }
}

#[test]
fn a_copy_is_undone_byte_for_byte() {
    let user = user(Kind::Directory);
    let database = user.opencode().join("opencode.db");
    let fixture = annals_testkit::Fixture::unpack("small-1.18.33");
    std::fs::copy(fixture.home().join("opencode.db"), &database).unwrap();
    let before = bytes(&user);
    let (from, to) = (user.opencode().display().to_string(), database.display().to_string());
    let _ = user.annals(&["copy", "--from", &from, "--to", &to]).run().ok();
    assert_eq!(row(&user, "ses_36aaaaffe1")["origins"].as_array().unwrap().len(), 2);
    let _ = user.annals(&["undo"]).run().ok();
    assert!(bytes(&user) == before, "{:?}", differences(&before, &bytes(&user)));
    let there = listed(&user, &[]).into_iter().filter(|row| row["gone"].is_null());
    assert_eq!(there.count(), 3 + 4, "the three files, and what the database had");
}

fn copy_all(from: &Path, to: &Path) {
    let status = std::process::Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap();
    assert!(status.success());
}

pub(super) fn differences(
    before: &BTreeMap<String, Vec<u8>>,
    after: &BTreeMap<String, Vec<u8>>,
) -> Vec<String> {
    let names = before.keys().chain(after.keys());
    let mut names: Vec<String> =
        names.filter(|name| before.get(*name) != after.get(*name)).cloned().collect();
    names.dedup();
    names
}

#[test]
fn an_operation_names_its_places_and_is_in_the_log() {
    let user = user(Kind::Both);
    assert_snapshot!(user.annals(&["rename", "First door", "Gate"]).run(), @r#"
    exit 0
    -- stderr
    ses_36aaaaffe1 is now called "Gate"
      in HOME/.local/share/opencode/opencode.db
      in HOME/.local/share/opencode
    operation 1; `annals undo 1` takes it back
    "#);
    assert_snapshot!(user.annals(&["rm", "--dry-run", "Second door"]).run(), @"
    exit 0
    -- stderr
    ses_36bbbbffe2  Second door
      ↳ ses_36ccccffe3  A child
    2 sessions, 4 messages, 4 parts, 10 documents in all
      from HOME/.local/share/opencode/opencode.db
      from HOME/.local/share/opencode
    nothing was deleted
    ");
    assert_snapshot!(user.annals(&["rm", "--yes", "Second door"]).run(), @"
    exit 0
    -- stderr
    ses_36bbbbffe2  Second door
      ↳ ses_36ccccffe3  A child
    2 sessions, 4 messages, 4 parts, 10 documents in all
      from HOME/.local/share/opencode/opencode.db
      from HOME/.local/share/opencode
    deleted 2 sessions
      in HOME/.local/share/opencode/opencode.db
      in HOME/.local/share/opencode
    operation 2; `annals undo 2` takes it back
    the store keeps them, marked [gone]; `annals forget` erases them there
    ");
    assert_snapshot!(user.annals(&["undo"]).run(), @"
    exit 0
    -- stderr
    undid operation 2 of 2026-02-25 12:03: rm --yes 'Second door'
      in HOME/.local/share/opencode
      in HOME/.local/share/opencode/opencode.db
    operation 3; `annals undo 3` does it again
    ");
    assert_snapshot!(user.annals(&["log"]).run(), @"
    exit 0
    3  2026-02-25 12:03  undo
       in HOME/.local/share/opencode
       in HOME/.local/share/opencode/opencode.db
    2  2026-02-25 12:03  rm --yes 'Second door'  undone by 3
       in HOME/.local/share/opencode/opencode.db
       in HOME/.local/share/opencode
    1  2026-02-25 12:03  rename 'First door' Gate
       in HOME/.local/share/opencode/opencode.db
       in HOME/.local/share/opencode
    ");
    assert_snapshot!(user.annals(&["log", "Gate"]).run(), @"
    exit 0
    1  2026-02-25 12:03  rename 'First door' Gate
       in HOME/.local/share/opencode/opencode.db
       in HOME/.local/share/opencode
    ");
}

/// A backup that was taken over before the store had seen anything else is a source, and nothing more.
#[test]
fn a_home_that_was_only_taken_over_is_not_written_to() {
    let user = user(Kind::Database18);
    let backup = user.root().join("backup");
    copy_all(&user.opencode(), &backup);
    std::fs::remove_dir_all(user.store().parent().unwrap()).unwrap();
    let _ = user.annals(&["sync", "--home", backup.to_str().unwrap()]).run().ok();
    let before = bytes_of(&backup);
    let renamed = user.annals(&["rename", "First door", "Gate"]).run().ok();
    assert!(renamed.stderr.contains(user.opencode().to_str().unwrap()), "{renamed}");
    assert_eq!(row(&user, "ses_36aaaaffe1")["title"], "Gate");
    assert_snapshot!(user.annals(&["rm", "--yes", "Gate"]).run(), @"
    exit 0
    -- stderr
    ses_36aaaaffe1  Gate
    1 session, 2 messages, 2 parts, 6 documents in all
      from HOME/.local/share/opencode/opencode.db
    deleted 1 session
      in HOME/.local/share/opencode/opencode.db
    operation 2; `annals undo 2` takes it back
    warning: still in HOME/backup/opencode.db, which is not one of your homes (`annals rm --home HOME/backup/opencode.db ses_36aaaaffe1` deletes there)
    ");
    let own = bytes(&user);
    assert!(!own.keys().any(|name| name.contains("ses_36aaaaffe1")));
    assert!(bytes_of(&backup) == before);
    // What is named is written to.
    let _ = user.annals(&["rm", "--yes", "--home", backup.to_str().unwrap(), "ses_36aaaaffe1"]).run().ok();
    assert!(!bytes_of(&backup).keys().any(|name| name.contains("ses_36aaaaffe1")));
    assert!(row(&user, "ses_36aaaaffe1")["gone"].is_u64());
    let _ = user.annals(&["undo"]).run().ok();
    assert!(bytes_of(&backup) == before);
}

/// Somebody copies everything, the store included, and works in the copy.
#[test]
fn a_copied_data_directory_leaves_the_original_alone() {
    let user = user(Kind::Both);
    let copy = user.root().join("copy");
    copy_all(&user.root().join(".local/share"), &copy);
    let before = bytes(&user);
    let in_copy = |arguments: &[&str]| user.annals(arguments).env("XDG_DATA_HOME", &copy).run().ok();
    let _ = in_copy(&["rename", "First door", "Gate"]);
    let _ = in_copy(&["rm", "--yes", "Second door"]);
    assert!(bytes(&user) == before);
    assert!(
        String::from_utf8_lossy(&bytes_of(&copy.join("opencode"))["session/global/ses_36aaaaffe1.json"])
            .contains("Gate")
    );
    let rows = in_copy(&["list", "--json"]).json();
    let gate = rows.as_array().unwrap().iter().find(|row| row["title"] == "Gate");
    assert!(gate.is_some_and(|gate| gate["origins"].as_array().unwrap().len() == 2), "{rows}");
    let copied = bytes_of(&copy.join("opencode"));
    let _ = in_copy(&["undo"]);
    let _ = in_copy(&["undo"]);
    assert!(bytes(&user) == before);
    assert!(bytes_of(&copy.join("opencode")) == before, "{:?}", differences(&before, &copied));
}

/// The store stays where it is, and XDG_DATA_HOME leads to a copy of the homes.
#[test]
fn what_was_done_in_the_original_is_not_taken_back_from_a_copy() {
    let user = user(Kind::Both);
    let _ = user.annals(&["rename", "First door", "Gate"]).run().ok();
    let copy = user.root().join("copy");
    std::fs::create_dir(&copy).unwrap();
    copy_all(&user.opencode(), &copy);
    let before = bytes(&user);
    let in_copy = |arguments: &[&str]| {
        user.annals(arguments).env("XDG_DATA_HOME", &copy).env("ANNALS_STORE", user.store()).run()
    };
    let refused = in_copy(&["undo"]);
    assert_eq!(refused.code, 1, "{refused}");
    assert!(refused.stderr.contains("which is not one of your homes here"), "{refused}");
    assert!(bytes(&user) == before);
    let _ = user.annals(&["undo"]).run().ok();
    assert_eq!(row(&user, "ses_36aaaaffe1")["title"], "First door");
}

#[test]
fn nothing_is_deleted_unless_somebody_says_so() {
    for kind in KINDS {
        let user = user(kind);
        let before = bytes(&user);
        for arguments in [&["rm", "First door"][..], &["rm", "--json", "First door"]] {
            let ran = user.annals(arguments).run();
            assert_eq!(ran.code, 2, "{kind:?}: {ran}");
            assert!(ran.stderr.contains("--yes"), "{ran}");
        }
        let home = user.opencode().display().to_string();
        assert_eq!(user.annals(&["rm", "--home", &home, "First door"]).run().code, 2);
        assert!(bytes(&user) == before, "{kind:?}");
        assert!(row(&user, "ses_36aaaaffe1")["gone"].is_null());
    }
}

/// `annals rm last` twice deletes two sessions, and never the copy that the store keeps of the first.
#[test]
fn what_was_deleted_is_not_the_last_session() {
    let user = user(Kind::Both);
    let first = user.annals(&["rm", "--yes", "--json", "last"]).run().ok().json();
    let second = user.annals(&["rm", "--yes", "--json", "last"]).run().ok().json();
    assert_ne!(first[0]["sessions"], second[0]["sessions"]);
    let gone: Vec<Value> = listed(&user, &[]).into_iter().filter(|row| row["gone"].is_u64()).collect();
    assert!(gone.len() >= 2, "both are kept: {gone:?}");
}

#[test]
fn nothing_is_undone_twice_or_after_somebody_went_on() {
    for kind in KINDS {
        let user = user(kind);
        let _ = user.annals(&["rename", "ses_36aaaaffe1", "Gate"]).run().ok();
        let _ = user.annals(&["undo"]).run().ok();
        let again = user.annals(&["undo", "1"]).run();
        assert_eq!(again.code, 1, "{again}");
        assert!(again.stderr.contains("already undone by operation 2"), "{again}");
        let none = user.annals(&["undo"]).run();
        assert!(none.stderr.contains("there is no operation to undo"), "{none}");
        let _ = user.annals(&["archive", "ses_36aaaaffe1", "ses_36bbbbffe2"]).run().ok();
        // The agent goes on with one of the two.
        go_on(&user, kind);
        let before = bytes(&user);
        let refused = user.annals(&["undo"]).run();
        assert_eq!(refused.code, 1, "{kind:?}: {refused}");
        assert!(refused.stderr.contains("was changed since"), "{refused}");
        assert!(refused.stderr.contains(user.opencode().to_str().unwrap()), "{refused}");
        assert!(refused.stderr.contains("annals undo 3 --only ses_36bbbbffe2"), "{refused}");
        assert!(bytes(&user) == before, "{kind:?}");
        let _ = user.annals(&["undo", "3", "--only", "ses_36bbbbffe2"]).run().ok();
        assert!(row(&user, "ses_36bbbbffe2")["archived"].is_null(), "{kind:?}");
        assert!(row(&user, "ses_36aaaaffe1")["archived"].is_u64(), "{kind:?}");
        let missing = user.annals(&["undo", "99"]).run();
        assert_eq!(missing.code, 1, "{missing}");
        assert!(missing.stderr.contains("there is no operation 99"), "{missing}");
    }
}

/// OpenCode changes the session document of the first session.
fn go_on(user: &User, kind: Kind) {
    let used = 1_771_960_000_000_i64;
    if kind == Kind::Directory {
        let file = user.opencode().join("storage/session/global/ses_36aaaaffe1.json");
        let document = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, document.replace("\"updated\":1771950000000", &format!("\"updated\":{used}")))
            .unwrap();
        return;
    }
    let connection = Connection::open(user.opencode().join("opencode.db")).unwrap();
    connection.execute("UPDATE session SET time_updated = ?1 WHERE id = 'ses_36aaaaffe1'", [used]).unwrap();
}

#[test]
fn a_home_that_is_away_is_told_of_and_the_store_alone_is_changed() {
    for kind in [Kind::Directory, Kind::Database12, Kind::Database18] {
        let user = user(kind);
        let away = user.root().join("away");
        std::fs::rename(user.opencode(), &away).unwrap();
        let renamed = user.annals(&["rename", "First door", "Gate"]).run().ok();
        assert!(renamed.stderr.contains("in the store only"), "{kind:?}: {renamed}");
        assert!(
            renamed.stderr.contains("cannot be reached now; it is unchanged there"),
            "{kind:?}: {renamed}"
        );
        assert_eq!(row(&user, "ses_36aaaaffe1")["title"], "Gate", "{kind:?}");
        assert!(row(&user, "ses_36aaaaffe1")["gone"].is_null(), "{kind:?}: it is only away");
        let _ = user.annals(&["undo"]).run().ok();
        assert_eq!(row(&user, "ses_36aaaaffe1")["title"], "First door", "{kind:?}");
        let _ = user.annals(&["rename", "First door", "Gate"]).run().ok();
        let _ = user.annals(&["rm", "--yes", "ses_36bbbbffe2"]).run().ok();
        assert!(listed(&user, &[]).iter().all(|row| row["id"] != "ses_36bbbbffe2"), "{kind:?}");
        std::fs::rename(&away, user.opencode()).unwrap();
        // What was asked for here is newer than what the home says.
        assert_eq!(row(&user, "ses_36aaaaffe1")["title"], "Gate", "{kind:?}");
        assert!(listed(&user, &[]).iter().all(|row| row["id"] != "ses_36bbbbffe2"), "{kind:?}");
        // Until somebody goes on there.
        go_on(&user, kind);
        assert_eq!(row(&user, "ses_36aaaaffe1")["title"], "First door", "{kind:?}");
        let _ = user.annals(&["undo"]).run().ok();
        assert_eq!(row(&user, "ses_36bbbbffe2")["title"], "Second door", "{kind:?}");
        let shown = user.annals(&["show", "ses_36bbbbffe2"]).run().ok();
        assert!(shown.text().contains("The window is there"), "{kind:?}: {shown}");
    }
}

/// The home is gone when an operation on it is to be taken back.
#[test]
fn an_undo_in_a_home_that_is_away_says_so_and_changes_nothing() {
    let user = user(Kind::Both);
    let _ = user.annals(&["rename", "First door", "Gate"]).run().ok();
    let away = user.root().join("away");
    std::fs::create_dir(&away).unwrap();
    let move_all = |from: &Path, to: &Path| {
        for name in ["opencode.db", "opencode.db-wal", "opencode.db-shm"] {
            if from.join(name).exists() {
                std::fs::rename(from.join(name), to.join(name)).unwrap();
            }
        }
    };
    move_all(&user.opencode(), &away);
    let before = bytes(&user);
    let refused = user.annals(&["undo"]).run();
    assert_eq!(refused.code, 1, "{refused}");
    assert!(refused.stderr.contains("opencode.db does not exist"), "{refused}");
    assert!(bytes(&user) == before);
    move_all(&away, &user.opencode());
    let _ = user.annals(&["undo"]).run().ok();
    assert_eq!(row(&user, "ses_36aaaaffe1")["title"], "First door");
}

/// The data directory moves after an operation: what it changed has moved along.
#[test]
fn an_operation_is_undone_where_its_homes_are_now() {
    for kind in KINDS {
        let user = user(kind);
        let before = bytes(&user);
        let _ = user.annals(&["rm", "--yes", "First door"]).run().ok();
        let elsewhere = user.root().join("elsewhere");
        std::fs::create_dir(&elsewhere).unwrap();
        std::fs::rename(user.opencode(), elsewhere.join("opencode")).unwrap();
        let undone = user
            .annals(&["undo"])
            .env("XDG_DATA_HOME", &elsewhere)
            .env("ANNALS_STORE", user.store())
            .run()
            .ok();
        assert!(undone.stderr.contains("elsewhere/opencode"), "{kind:?}: {undone}");
        assert!(bytes_of(&elsewhere.join("opencode")) == before, "{kind:?}");
    }
}

/// Moves the home to another place and undoes the last operation there: the home has these bytes again.
#[track_caller]
fn undo_elsewhere(user: &User, before: &BTreeMap<String, Vec<u8>>) {
    let elsewhere = user.root().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    std::fs::rename(user.opencode(), elsewhere.join("opencode")).unwrap();
    let undo = user.annals(&["undo"]).env("XDG_DATA_HOME", &elsewhere).env("ANNALS_STORE", user.store());
    let undone = undo.run().ok();
    assert!(undone.stderr.contains("elsewhere/opencode"), "{undone}");
    assert!(bytes_of(&elsewhere.join("opencode")) == *before, "{undone}");
}

/// A home from which everything was deleted has nothing to be known by when it moves. What was deleted comes back all the same.
#[test]
fn a_deletion_is_undone_in_an_emptied_home_that_has_moved() {
    for kind in KINDS {
        let user = user(kind);
        let mut before = bytes(&user);
        let is_there = |session: &Value| session["gone"].is_null();
        while let Some(session) = listed(&user, &["--roots"]).into_iter().find(is_there) {
            before = bytes(&user);
            let _ = user.annals(&["rm", "--yes", session["id"].as_str().unwrap()]).run().ok();
        }
        undo_elsewhere(&user, &before);
    }
}

/// The store knows nothing of what was forgotten, though the home still has it: the home is the same nevertheless.
#[test]
fn a_home_with_forgotten_sessions_is_recognised_after_a_move() {
    for kind in KINDS {
        let user = user(kind);
        let is_there = |session: &Value| session["gone"].is_null();
        let mut sessions = listed(&user, &["--roots"]).into_iter().filter(is_there);
        let forgotten = sessions.next().unwrap();
        let _ = user.annals(&["forget", "--yes", forgotten["id"].as_str().unwrap()]).run().ok();
        let mut before = bytes(&user);
        for session in sessions {
            before = bytes(&user);
            let _ = user.annals(&["rm", "--yes", session["id"].as_str().unwrap()]).run().ok();
        }
        undo_elsewhere(&user, &before);
    }
}

/// A home under two names is one home: what is deleted there is gone, whichever name is used.
#[test]
fn a_link_to_a_home_is_that_home() {
    for kind in KINDS {
        let user = user(kind);
        let link = user.root().join("link");
        std::os::unix::fs::symlink(user.root().join(".local/share"), &link).unwrap();
        let linked = |arguments: &[&str]| {
            user.annals(arguments).env("XDG_DATA_HOME", &link).env("ANNALS_STORE", user.store()).run().ok()
        };
        let rows = linked(&["list", "--json"]).json();
        let n_origins = if kind == Kind::Both { 2 } else { 1 };
        let first = rows.as_array().unwrap().iter().find(|row| row["id"] == "ses_36aaaaffe1").unwrap();
        assert_eq!(first["origins"].as_array().unwrap().len(), n_origins, "{kind:?}: {rows}");
        let _ = linked(&["rm", "--yes", "First door"]);
        assert!(row(&user, "ses_36aaaaffe1")["gone"].is_u64(), "{kind:?}");
    }
}

#[test]
fn a_database_of_an_unknown_version_is_named_and_nothing_is_changed() {
    let user = user(Kind::Both);
    let first = last_revision(&user);
    let _ = user.annals(&["archive", "First door"]).run().ok();
    let database = user.opencode().join("opencode.db");
    let connection = Connection::open(&database).unwrap();
    connection.execute("INSERT INTO migration VALUES ('20270101000000_brave_new', 1)", []).unwrap();
    drop(connection);
    let before = bytes(&user);
    for arguments in [
        &["rename", "First door", "Gate"][..],
        &["archive", "--undo", "First door"],
        &["rm", "--yes", "First door"],
        &["restore", "First door", "--at", &first],
        &["undo"],
    ] {
        let ran = user.annals(arguments).run();
        assert_eq!(ran.code, 1, "{ran}");
        assert!(ran.stderr.contains("opencode.db has migration 20270101000000_brave_new"), "{ran}");
        assert!(bytes(&user) == before, "{arguments:?}: {:?}", differences(&before, &bytes(&user)));
    }
    assert_eq!(row(&user, "ses_36aaaaffe1")["title"], "First door");
    assert_eq!(user.annals(&["log", "--json"]).run().ok().json().as_array().unwrap().len(), 1);
}

/// One of two homes cannot be written to: the other one is not changed either.
#[test]
fn a_read_only_home_stops_an_operation_everywhere() {
    let user = user(Kind::Both);
    let before = bytes(&user);
    let script = r#"
        cd "$D"
        H="$D/.local/share/opencode/storage"
        mount --bind "$H" "$H"
        mount -o remount,bind,ro "$H"
        for change in 'rename First Gate' 'archive First' 'rm --yes First'; do
            "$A" $change && echo unexpected || echo "$change: exit $?"
        done
        "$A" list --json
        "$A" log --json
    "#;
    let (stdout, stderr) = both_streams(&in_namespace(user.root(), script));
    assert!(
        stdout.starts_with("rename First Gate: exit 1\narchive First: exit 1\nrm --yes First: exit 1\n"),
        "{stdout}\n{stderr}"
    );
    assert!(!stdout.contains("Gate\""), "{stdout}");
    assert_eq!(stderr.matches("Read-only file system").count(), 3, "{stderr}");
    assert!(bytes(&user) == before, "{:?}", differences(&before, &bytes(&user)));
}

/// The disk of the store is full after the home was changed, or before.
#[test]
fn a_full_disk_under_the_store_leaves_nothing_half_done() {
    let user = user(Kind::Database18);
    let before = bytes(&user);
    let script = r#"
        cd "$D"
        S="$D/.local/share/annals"
        mv "$S" "$D/kept"
        mkdir "$S"
        mount -t tmpfs -o size=3m tmpfs "$S"
        cp -a "$D/kept/." "$S/"
        "$A" list > /dev/null
        dd if=/dev/zero of="$S/filler" bs=1k count=100000 2> /dev/null || true
        "$A" rename First Gate && echo "rename: exit 0" || echo "rename: exit $?"
        "$A" rm --yes Second && echo unexpected || echo "rm: exit $?"
        rm "$S/filler"
        "$A" list --json
    "#;
    let (stdout, stderr) = both_streams(&in_namespace(user.root(), script));
    // What can be taken back by hand is done, and said to be unrecorded; what cannot is not.
    assert!(stdout.starts_with("rename: exit 0\nrm: exit 1\n"), "{stdout}\n{stderr}");
    assert!(stderr.contains("disk is full"), "{stderr}");
    assert!(stderr.contains("the store cannot be written to, so this cannot be undone"), "{stderr}");
    assert!(stderr.contains("nothing was deleted"), "{stderr}");
    let changed = differences(&before, &bytes(&user));
    assert!(changed.iter().all(|name| name.contains("ses_36aaaaffe1")), "{changed:?}");
    // When there is room again, the store knows.
    assert!(stdout.contains(r#""title": "Gate""#), "{stdout}");
}

#[test]
fn operations_of_several_processes_wait_for_each_other() {
    let user = user(Kind::Both);
    let before = bytes(&user);
    let commands: Vec<Vec<String>> = (0..6)
        .map(|n| ["rename", "ses_36aaaaffe1", &format!("Title {n}")].map(str::to_owned).to_vec())
        .chain((0..3).map(|_| vec!["archive".to_owned(), "ses_36bbbbffe2".to_owned()]))
        .chain([vec!["rm".to_owned(), "--yes".to_owned(), "ses_36ccccffe3".to_owned()]])
        .collect();
    std::thread::scope(|scope| {
        for command in &commands {
            let user = &user;
            scope.spawn(move || {
                let arguments: Vec<&str> = command.iter().map(String::as_str).collect();
                let _ = user.annals(&arguments).run().ok();
            });
        }
    });
    let title = row(&user, "ses_36aaaaffe1")["title"].clone();
    assert!(title.as_str().unwrap().starts_with("Title "), "{title}");
    let export = |home: PathBuf| {
        let home = home.display().to_string();
        user.annals(&["--home", &home, "export", "ses_36aaaaffe1"]).run().ok().json()["info"]["title"].clone()
    };
    assert_eq!(export(user.opencode().join("storage")), title);
    assert_eq!(export(user.opencode().join("opencode.db")), title);
    let log = user.annals(&["log", "--json"]).run().ok().json();
    let mut numbers: Vec<i64> =
        log.as_array().unwrap().iter().map(|row| row["operation"].as_i64().unwrap()).collect();
    numbers.sort_unstable();
    // To archive what is archived already is nothing to record.
    assert_eq!(numbers, (1..=8).collect::<Vec<_>>());
    // One after the other, all of it can be taken back.
    for _ in 0..8 {
        let _ = user.annals(&["undo"]).run().ok();
    }
    assert!(bytes(&user) == before, "{:?}", differences(&before, &bytes(&user)));
}

/// Titles, files and rows that operations keep so that they can be undone go with the session.
#[test]
fn nothing_of_a_forgotten_session_is_left_in_what_operations_keep() {
    for kind in KINDS {
        let user = user(kind);
        let secret = "xylophonesecret";
        let _ = user.annals(&["rename", "ses_36aaaaffe1", secret]).run().ok();
        let _ = user.annals(&["rename", "ses_36aaaaffe1", "Something else"]).run().ok();
        let _ = user.annals(&["rm", "--yes", "ses_36aaaaffe1"]).run().ok();
        let _ = user.annals(&["undo"]).run().ok();
        let _ = user.annals(&["rm", "--yes", "ses_36aaaaffe1"]).run().ok();
        let _ = user.annals(&["forget", "--yes", "ses_36aaaaffe1"]).run().ok();
        for file in annals_testkit::files_below(user.store().parent().unwrap()) {
            let bytes = std::fs::read(&file).unwrap();
            for word in [secret, "36aaaaffe1", "Where is the door"] {
                let is_there = bytes.windows(word.len()).any(|window| window == word.as_bytes());
                assert!(!is_there, "{kind:?}: {word} in {}", file.display());
            }
        }
        let undone = user.annals(&["undo", "3"]).run();
        assert_eq!(undone.code, 1, "{undone}");
    }
}

/// A row that comes back gets another number where its own was taken. That is no change that keeps an earlier operation from being undone.
#[test]
fn an_operation_is_undone_after_its_rows_got_other_numbers() {
    for kind in [Kind::Database12, Kind::Database18] {
        let user = user(kind);
        let database = user.opencode().join("opencode.db");
        let before = bytes(&user);
        let first = last_revision(&user);
        let operations = operations(&user, &first);
        let import: Vec<&str> = operations[4].1.iter().map(String::as_str).collect();
        let _ = user.annals(&import).run().ok();
        let _ = user.annals(&["rename", "ses_36ddddffe4", "Another"]).run().ok();
        let _ = user.annals(&["rm", "--yes", "ses_36ddddffe4"]).run().ok();
        // OpenCode goes on with another session, and its rows get the numbers that are free.
        let connection = Connection::open(&database).unwrap();
        let columns = "session_id, time_created, time_updated, data";
        let of_message = format!(
            "INSERT INTO message (id, {columns}) SELECT 'msg_new1', {columns} FROM message \
             WHERE session_id = 'ses_36aaaaffe1' LIMIT 1"
        );
        connection.execute_batch(&of_message).unwrap();
        drop(connection);
        for operation in ["3", "2", "1"] {
            let _ = user.annals(&["undo", operation]).run().ok();
        }
        let mut after = bytes(&user);
        after.retain(|name, _| !name.contains("msg_new1"));
        assert!(after == before, "{kind:?}: {:?}", differences(&before, &after));
    }
}

/// What `rm` deletes from a database is written over. What the log keeps until OpenCode empties it is told.
#[test]
fn what_was_deleted_and_forgotten_is_written_over_or_told() {
    for kind in [Kind::Database12, Kind::Database18] {
        let user = user(kind);
        let database = user.opencode().join("opencode.db");
        let contains = |word: &[u8]| {
            let connection = Connection::open(&database).unwrap();
            connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
            std::fs::read(&database).unwrap().windows(word.len()).any(|window| window == word)
        };
        assert!(contains(b"The door is here"), "{kind:?}");
        let _ = user.annals(&["rm", "--yes", "ses_36aaaaffe1"]).run().ok();
        assert!(!contains(b"The door is here"), "{kind:?}");
        insta::allow_duplicates! {
            assert_snapshot!(user.annals(&["forget", "--yes", "ses_36aaaaffe1"]).run(), @"
            exit 0
            -- stderr
            ses_36aaaaffe1  First door
            1 session with the history of 2 revisions
            forgot 1 session: 6 documents and 0 earlier states
            HOME/.local/share/opencode/opencode.db may hold remains of them in unused pages and in its log until OpenCode overwrites them
            ");
        }
    }
}
