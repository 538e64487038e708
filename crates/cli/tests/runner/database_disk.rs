//! Databases on disks that are full or read-only, databases that are none, and rows in each other's way: nothing is lost,
//! and the message says what to do.

use std::path::{Path, PathBuf};

use annals_testkit::{Fixture, files_below};
use insta::assert_snapshot;
use rusqlite::{Connection, OpenFlags};
use serde_json::Value;

use super::disk::{in_namespace, text};
use super::kit::{annals, exported, plain, write};

/// The first column of the rows of a query.
fn query(path: &Path, sql: &str) -> Vec<String> {
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let mut statement = connection.prepare(sql).unwrap_or_else(|error| panic!("{error}: {sql}"));
    let rows = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
    rows.map(|row| row.unwrap_or_else(|error| panic!("{error}: {sql}"))).collect()
}

/// Changes a database as nobody should: no references are checked.
fn sql(path: &Path, batch: &str) {
    let connection = Connection::open(path).unwrap();
    connection.pragma_update(None, "foreign_keys", false).unwrap();
    connection.execute_batch(batch).unwrap_or_else(|error| panic!("{error}: {batch}"));
}

fn assert_whole(path: &Path) {
    assert_eq!(query(path, "PRAGMA integrity_check"), ["ok"], "{}", path.display());
    assert!(query(path, "PRAGMA foreign_key_check").is_empty(), "{}", path.display());
}

/// Every file below a directory with its bytes.
fn files(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let with_bytes = |path: PathBuf| (path.clone(), std::fs::read(&path).unwrap());
    let mut files: Vec<_> = files_below(directory).into_iter().map(with_bytes).collect();
    files.sort();
    files
}

/// Seen, copied, unchanged and quarantined things of one kind, after checking that they add up.
fn tally(account: &Value) -> [u64; 4] {
    let [seen, copied, unchanged, quarantined] =
        ["seen", "copied", "unchanged", "quarantined"].map(|name| account[name].as_u64().unwrap());
    assert_eq!(seen, copied + unchanged + quarantined, "{account}");
    [seen, copied, unchanged, quarantined]
}

/// Reads all it can and tries each way to change something, on a disk that was made read-only.
const ON_A_READ_ONLY_DISK: &str = r#"
    mount --bind "$D" "$D"
    mount -o remount,bind,ro "$D"
    H="$D/$WHICH/opencode.db"
    "$A" --home "$H" list --json | grep -c '"id"'
    "$A" --home "$H" export last | wc -l
    "$A" --home "$H" show last | grep -c "Pocket session"
    "$A" --home "$H" stats --json | grep -c '"messages": 9'
    for change in 'rename last x' 'archive last' 'rm --yes last' 'import /dev/stdin'; do
        echo '{"info":{"id":"ses_9"},"messages":[]}' | "$A" --home "$H" $change && echo unexpected || echo "$change: exit $?"
    done
"#;

fn read_only(which: &str, fixture: &Fixture) {
    let before = files(fixture.home());
    let script = ON_A_READ_ONLY_DISK.replace("$WHICH", which);
    let (stdout, stderr) = text(&in_namespace(fixture.home(), &script));
    let lines: Vec<&str> = stdout.lines().collect();
    assert_eq!(lines[0], "4", "{stdout}{stderr}");
    assert!(lines[1].parse::<usize>().unwrap() > 50, "{stdout}");
    assert_eq!(lines[2..4], ["1", "1"], "{stdout}");
    assert_eq!(
        lines[4..],
        [
            "rename last x: exit 1",
            "archive last: exit 1",
            "rm --yes last: exit 1",
            "import /dev/stdin: exit 1"
        ]
    );
    assert_eq!(stderr.matches("error: cannot write to").count(), 4, "{stderr}");
    assert_eq!(stderr.matches("hint: nothing was changed; the home must be writable").count(), 4, "{stderr}");
    assert!(files(fixture.home()) == before, "nothing was made or changed");
}

#[test]
fn a_read_only_database_is_read_and_says_why_it_cannot_be_changed() {
    for version in ["1.2.27", "1.18.33"] {
        read_only(".", &Fixture::unpack(&format!("small-{version}")));
    }
}

#[test]
fn a_read_only_database_with_a_log_is_read() {
    for version in ["1.2.27", "1.18.33"] {
        read_only("wal", &Fixture::unpack(&format!("small-{version}")));
    }
}

/// The index of the log is made by whoever comes first, which nobody can on such a disk.
#[test]
fn a_read_only_database_with_a_log_and_no_index_of_it_is_read() {
    for version in ["1.2.27", "1.18.33"] {
        let fixture = Fixture::unpack(&format!("small-{version}"));
        std::fs::remove_file(fixture.home().join("wal/opencode.db-shm")).unwrap();
        read_only("wal", &fixture);
    }
}

/// A copy of the 1.1.65 fixture into a database on a disk of so many kilobytes, and again when there is room: what the
/// first said, and what was on the disk after each.
fn copy_to_a_full_disk(source: &Fixture, kilobytes: usize, name: &str) -> (String, [PathBuf; 2]) {
    let script = r#"
        mkdir -p "$D/mnt"
        mount -t tmpfs -o size=SIZEk tmpfs "$D/mnt"
        "$A" copy --from "$D/storage" --to "$D/mnt/NAME" && echo unexpected || echo "exit $?"
        rm -rf "$D/full" "$D/later"
        cp -r "$D/mnt" "$D/full"
        mount -o remount,size=30m "$D/mnt"
        "$A" copy --from "$D/storage" --to "$D/mnt/NAME" 2> "$D/again" && echo "exit $?"
        "$A" --home "$D/mnt/NAME" list --json | grep -c '"id"'
        cp -r "$D/mnt" "$D/later"
    "#;
    let script = script.replace("SIZE", &kilobytes.to_string()).replace("NAME", name);
    let (stdout, stderr) = text(&in_namespace(source.home(), &script));
    assert_eq!(stdout, "exit 1\nexit 0\n121\n", "{kilobytes}k {name}: {stderr}");
    assert!(stderr.contains("disk is full") || stderr.contains("No space left on device"), "{stderr}");
    let [full, later] = ["full", "later"].map(|directory| source.home().join(directory));
    let drafts: Vec<_> = files_below(&later)
        .into_iter()
        .filter(|path| path.display().to_string().contains(".annals"))
        .collect();
    assert!(drafts.is_empty(), "{drafts:?}");
    (stderr, [full.join(name), later.join(name)])
}

/// The disk fills up at different moments: among the files beside the database, or in its log.
#[test]
fn a_copy_that_fills_the_disk_can_be_finished_later() {
    let source = Fixture::unpack("opencode-1.1.65");
    let whole = source.home().join("whole.db");
    let _ = plain(source.home(), &["copy", "--from", "storage", "--to", "whole.db"]).run().ok();
    let rows = |path: &Path, table: &str| query(path, &format!("SELECT id || data FROM {table} ORDER BY id"));
    let of_whole = ["message", "part"].map(|table| rows(&whole, table));
    for (kilobytes, name) in [
        (400, "opencode.db"),
        (900, "opencode.db"),
        (1800, "opencode.db"),
        (900, "backup.db"),
        (1500, "backup.db"),
    ] {
        let (stderr, [full, later]) = copy_to_a_full_disk(&source, kilobytes, name);
        assert!(stderr.contains("hint: make room on the disk"), "{kilobytes}k {name}: {stderr}");
        assert!(
            stderr.contains("run the same command again to copy the rest"),
            "{kilobytes}k {name}: {stderr}"
        );
        // What was there when the disk was full is whole sessions, and what was missing was copied afterwards.
        assert_whole(&full);
        assert!(query(&full, "SELECT id FROM session").len() < 121, "{kilobytes}k {name}");
        for (table, of_whole) in ["message", "part"].iter().zip(&of_whole) {
            assert!(
                rows(&full, table).iter().all(|row| of_whole.contains(row)),
                "{kilobytes}k {name} {table}"
            );
            assert!(rows(&later, table) == *of_whole, "{kilobytes}k {name} {table}");
        }
        assert_whole(&later);
    }
}

/// There is not even room for the tables.
#[test]
fn a_disk_too_full_for_a_new_database_is_left_as_it_was() {
    let source = Fixture::unpack("opencode-1.1.65");
    let (stderr, [full, later]) = copy_to_a_full_disk(&source, 150, "opencode.db");
    assert_eq!(files(full.parent().unwrap()), [], "{stderr}");
    assert_whole(&later);
    assert!(stderr.contains("hint: make room on the disk"), "{stderr}");
}

#[test]
fn a_change_that_does_not_fit_changes_nothing() {
    let fixture = Fixture::unpack("small-1.18.33");
    let script = r#"
        mkdir "$D/mnt"
        mount -t tmpfs -o size=450k tmpfs "$D/mnt"
        cp "$D/opencode.db" "$D/mnt/"
        head -c 300k /dev/zero > "$D/mnt/ballast" || true
        "$A" --home "$D/mnt/opencode.db" list --json | md5sum > "$D/before"
        "$A" --home "$D/mnt/opencode.db" rename last x && echo unexpected || echo "exit $?"
        "$A" --home "$D/mnt/opencode.db" list --json | md5sum | cmp - "$D/before" && echo same
        rm "$D/mnt/ballast"
        "$A" --home "$D/mnt/opencode.db" rename last x
        "$A" --home "$D/mnt/opencode.db" list --json | grep -c '"title": "x"'
    "#;
    let (stdout, stderr) = text(&in_namespace(fixture.home(), script));
    assert_eq!(stdout, "exit 1\nsame\n1\n", "{stderr}");
    assert!(
        stderr.contains("nothing was changed") && stderr.contains("hint: make room on the disk"),
        "{stderr}"
    );
}

/// The ids of all messages and parts of an export, in order.
fn ids(export: &Value) -> Vec<String> {
    let id = |value: &Value| value["id"].as_str().unwrap().to_owned();
    let of_message = |message: &Value| {
        let parts = message["parts"].as_array().unwrap().iter().map(id);
        std::iter::once(id(&message["info"])).chain(parts).collect::<Vec<_>>()
    };
    export["messages"].as_array().unwrap().iter().flat_map(of_message).collect()
}

/// Message and part ids are keys of the whole database. One that another session has already stays where it is.
#[test]
fn ids_of_another_session_are_quarantined_and_nothing_else() {
    let source = Fixture::unpack("opencode-1.1.65");
    let id = "ses_385744ad0ffeWgvBCB6JclCZJ1";
    let target = source.home().join("target/opencode.db");
    let copy = |sessions: &[&str]| {
        let paths = ["copy", "--json", "--from", "storage", "--to", target.to_str().unwrap()];
        plain(source.home(), &[&paths, sessions].concat()).run()
    };
    // A database in which another session has the first prompt of this one, and a part of its last answer.
    let _ = copy(&[id]).ok();
    let messages = query(&target, "SELECT id FROM message ORDER BY time_created, id");
    let (first, last) = (&messages[0], messages.last().unwrap());
    let part =
        query(&target, &format!("SELECT id FROM part WHERE message_id = '{last}' ORDER BY id")).remove(0);
    sql(
        &target,
        &format!(
            "UPDATE session SET id = 'ses_other', title = 'Another';
             UPDATE message SET session_id = 'ses_other', id = CASE id WHEN '{first}' THEN id ELSE 'msg_other' || rowid END;
             UPDATE part SET session_id = 'ses_other', message_id = '{first}', id = CASE id WHEN '{part}' THEN id ELSE 'prt_other' || rowid END;"
        ),
    );
    let rows_of_other = || {
        ["message", "part"].map(|table| {
            let columns = "id || session_id || time_created || time_updated || data";
            query(
                &target,
                &format!("SELECT {columns} FROM {table} WHERE session_id = 'ses_other' ORDER BY id"),
            )
        })
    };
    let before = rows_of_other();
    let export = exported(&source.home().join("storage"), id);
    let of_first = ids(&serde_json::json!({"messages": [export["messages"][0]]}));
    let ran = copy(&[]);
    assert_eq!(ran.code, 3, "{ran}");
    let account = ran.json();
    assert_eq!(tally(&account["sessions"]), [121, 121, 0, 0], "{account}");
    let [_, _, _, n_quarantined] = tally(&account);
    assert_eq!(
        n_quarantined,
        of_first.len() as u64 + 1,
        "the message with its parts, and the part: {account:#}"
    );
    let problems: Vec<&str> =
        account["problems"].as_array().unwrap().iter().map(|problem| problem.as_str().unwrap()).collect();
    for taken in [first, &part] {
        let is_it = |problem: &&str| {
            problem.contains(taken.as_str()) && problem.contains("another session") && problem.contains(id)
        };
        assert!(problems.iter().any(is_it), "{problems:#?}");
    }
    assert!(ran.stderr.contains("could not be"), "{ran}");
    assert_eq!(rows_of_other(), before, "the other session's rows are as they were");
    assert_eq!(query(&target, "SELECT title FROM session WHERE id = 'ses_other'"), ["Another"]);
    assert_whole(&target);
    let mut expected = ids(&export);
    expected.retain(|id| !of_first.contains(id) && *id != part);
    assert_eq!(ids(&exported(&target, id)), expected, "all of the session but that is there");
    // Once more: the same is quarantined, the rest is there.
    let again = copy(&[]);
    assert_eq!(again.code, 3, "{again}");
    assert_eq!((tally(&again.json())[1], tally(&again.json())[3]), (0, n_quarantined), "{again}");
}

/// What can be read is copied, what cannot is counted, and the exit code says that there was something.
#[test]
fn a_damaged_database_is_saved_as_far_as_it_can_be_read() {
    let fixture = Fixture::unpack("opencode-1.2.27");
    let path = fixture.home().join("opencode.db");
    let mut bytes = std::fs::read(&path).unwrap();
    // Three pages that hold rows, and an index.
    for page in [78, 120, 200, 18] {
        bytes[(page - 1) * 4096..page * 4096].fill(0x5a);
    }
    std::fs::write(&path, &bytes).unwrap();
    let ran =
        plain(fixture.home(), &["copy", "--json", "--from", "opencode.db", "--to", "saved/new.db"]).run();
    assert_eq!(ran.code, 3, "{ran}");
    let account = ran.json();
    let [_, n_copied, _, n_quarantined] = tally(&account);
    assert!(n_quarantined > 0 && n_copied > 1700, "{account}");
    assert!(ran.stderr.contains("the database is damaged there"), "{ran}");
    assert!(std::fs::read(&path).unwrap() == bytes, "the damaged one is left as it is");
    let saved = fixture.home().join("saved/new.db");
    assert_whole(&saved);
    let listed = annals(&saved, &["list", "--json"]).run().ok().json();
    assert_eq!(listed.as_array().unwrap().len() as u64, tally(&account["sessions"])[1]);
    for command in [&["list"][..], &["stats"]] {
        let ran = annals(&path, command).run();
        assert!([0, 3].contains(&ran.code) && !ran.text().is_empty(), "{command:?}: {ran}");
    }
    let check = annals(&path, &["check", "--json"]).run();
    assert_eq!(check.code, 3);
    assert!(check.text().contains("\"damaged\""), "{check}");
}

#[test]
fn databases_that_are_none() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    write(root, "diary.db", "Dear diary,\n".repeat(500));
    write(root, "empty.db", "");
    let log = std::fs::read(Fixture::unpack("small-1.2.27").home().join("wal/opencode.db-wal")).unwrap();
    write(root, "lost/opencode.db-wal", &log);
    sql(&root.join("places.db"), "CREATE TABLE bookmarks (id integer)");
    let before = files(root);
    assert_snapshot!(plain(root, &["--home", "diary.db", "list"]).run(), @"
    exit 1
    -- stderr
    error: diary.db is not a SQLite database
    hint: give an OpenCode data directory, usually ~/.local/share/opencode, or an `opencode.db`
    ");
    assert_snapshot!(plain(root, &["--home", "empty.db", "list"]).run(), @"
    exit 1
    -- stderr
    error: empty.db is a database, but not one of OpenCode's: it has no tables `session` and `message`
    hint: give an OpenCode data directory, usually ~/.local/share/opencode, or an `opencode.db`
    ");
    assert_snapshot!(plain(root, &["--home", "places.db", "list"]).run(), @"
    exit 1
    -- stderr
    error: places.db is a database, but not one of OpenCode's: it has no tables `session` and `message`
    hint: give an OpenCode data directory, usually ~/.local/share/opencode, or an `opencode.db`
    ");
    assert_snapshot!(plain(root, &["--home", "lost/opencode.db", "list"]).run(), @"
    exit 1
    -- stderr
    error: lost/opencode.db is missing, but its write-ahead log lost/opencode.db-wal holds 688072 bytes
    hint: nothing was touched: do not start OpenCode here, it would remove the log. Put the main file back from a backup, then try again
    ");
    assert_snapshot!(plain(root, &["--home", "missing.db", "list"]).run(), @"
    exit 1
    -- stderr
    error: missing.db does not exist
    hint: `--home` takes the path of an OpenCode data directory or of an `opencode.db`
    ");
    assert_snapshot!(plain(root, &["copy", "--from", "diary.db", "--to", "new.db"]).run(), @"
    exit 1
    -- stderr
    error: diary.db is not a SQLite database
    hint: give an OpenCode data directory, usually ~/.local/share/opencode, or an `opencode.db`
    ");
    assert_snapshot!(plain(root, &["copy", "--from", "missing.db", "--to", "new.db"]).run(), @"
    exit 1
    -- stderr
    error: missing.db does not exist
    hint: `--home` takes the path of an OpenCode data directory or of an `opencode.db`
    ");
    assert_snapshot!(plain(root, &["copy", "--from", "nowhere", "--to", "new.db"]).run(), @"
    exit 1
    -- stderr
    error: nowhere does not exist
    hint: `--home` takes the path of an OpenCode data directory, usually ~/.local/share/opencode
    ");
    let fixture = Fixture::unpack("small-1.2.27");
    let source = fixture.home().join("opencode.db");
    let from = source.to_str().unwrap();
    assert_snapshot!(plain(root, &["copy", "--from", from, "--to", "diary.db"]).run(), @"
    exit 1
    -- stderr
    error: diary.db is not a SQLite database
    hint: give an OpenCode data directory, usually ~/.local/share/opencode, or an `opencode.db`
    ");
    assert_snapshot!(plain(root, &["copy", "--from", from, "--to", "places.db"]).run(), @"
    exit 1
    -- stderr
    error: places.db is a database, but not one of OpenCode's: it has no tables `session` and `message`
    hint: give an OpenCode data directory, usually ~/.local/share/opencode, or an `opencode.db`
    ");
    assert_snapshot!(plain(root, &["copy", "--from", from, "--to", "lost/opencode.db"]).run(), @"
    exit 1
    -- stderr
    error: lost/opencode.db is missing, but its write-ahead log lost/opencode.db-wal holds 688072 bytes
    hint: nothing was touched: do not start OpenCode here, it would remove the log. Put the main file back from a backup, then try again
    ");
    assert!(files(root) == before, "nothing was made or changed");
}

#[test]
fn a_copy_onto_itself_or_from_nothing() {
    let fixture = Fixture::unpack("small-1.2.27");
    let root = fixture.home();
    let before = files(root);
    assert_snapshot!(plain(root, &["copy", "--from", "opencode.db", "--to", "opencode.db"]).run(), @"
    exit 2
    -- stderr
    error: the homes to copy from and to are the same
    ");
    assert_eq!(plain(root, &["copy", "--from", "./wal/../opencode.db", "--to", "opencode.db"]).run().code, 2);
    assert!(files(root) == before, "nothing was made or changed");
    std::os::unix::fs::symlink("opencode.db", root.join("link.db")).unwrap();
    assert_eq!(plain(root, &["copy", "--from", "link.db", "--to", "opencode.db"]).run().code, 2);
    let empty = tempfile::tempdir().unwrap();
    std::fs::create_dir(empty.path().join("storage")).unwrap();
    assert_snapshot!(plain(empty.path(), &["copy", "--from", ".", "--to", "new.db"]).run(), @"
    exit 0
    -- stderr
    0 sessions: 0 copied, 0 unchanged, 0 quarantined
    0 documents: 0 copied, 0 unchanged, 0 quarantined
    ");
    assert_whole(&empty.path().join("new.db"));
    assert_snapshot!(plain(empty.path(), &["copy", "--to", "other.db"]).run(), @"
    exit 1
    -- stderr
    error: no OpenCode sessions in HOME/.local/share/opencode
    hint: `--home PATH` names another place; `annals demo` shows annals on a sample
    ");
    assert!(!empty.path().join("other.db").exists());
}

#[test]
fn a_database_of_the_future_is_read_and_not_changed() {
    let fixture = Fixture::unpack("small-1.18.33");
    let root = fixture.home();
    sql(&root.join("opencode.db"), "INSERT INTO migration VALUES ('20270101000000_brave_new', 1)");
    let bytes = std::fs::read(root.join("opencode.db")).unwrap();
    assert_snapshot!(plain(root, &["--home", "opencode.db", "rename", "last", "x"]).run(), @"
    exit 1
    -- stderr
    error: HOME/opencode.db has migration 20270101000000_brave_new; annals writes databases of OpenCode 1.2.0 to 1.18.33
    hint: nothing was changed; reading still works, and a newer annals may know this schema
    ");
    assert_snapshot!(plain(root, &["--home", "opencode.db", "list", "-n", "1"]).run(), @"
    exit 0
    ID       UPDATED     MSGS  TOKENS      COST  TITLE
    ef4b483  2026-10-05     2       0        $0  ● Pocket session
    -- stderr
    1 of 4 sessions
    ");
    let other = Fixture::unpack("small-1.2.27");
    let from = other.home().join("opencode.db");
    let ran = plain(root, &["copy", "--from", from.to_str().unwrap(), "--to", "opencode.db"]).run();
    assert_eq!(ran.code, 1, "{ran}");
    assert!(ran.stderr.contains("migration 20270101000000_brave_new"), "{ran}");
    assert!(std::fs::read(root.join("opencode.db")).unwrap() == bytes);
    sql(
        &root.join("opencode.db"),
        "DELETE FROM migration WHERE id LIKE '2027%'; CREATE TABLE session_v2 AS SELECT * FROM session",
    );
    assert_snapshot!(plain(root, &["--home", "opencode.db", "rename", "last", "x"]).run(), @"
    exit 1
    -- stderr
    error: HOME/opencode.db has the tables of OpenCode 2; annals writes databases of OpenCode 1.2.0 to 1.18.33
    hint: nothing was changed; reading still works, and a newer annals may know this schema
    ");
}
