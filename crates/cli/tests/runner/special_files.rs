//! Pipes, sockets, devices and directories where a file should be: nothing waits for them, and errors name them.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::kit::{NOW, User, write};

/// No command takes that long.
const PATIENCE: Duration = Duration::from_secs(20);

/// Something that is not a file.
#[derive(Debug, Clone, Copy)]
enum Thing {
    Pipe,
    Socket,
    Directory,
    Device,
}

fn put(thing: Thing, path: &Path) {
    let _ = std::fs::remove_file(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    match thing {
        Thing::Pipe => assert!(Command::new("mkfifo").arg(path).status().unwrap().success()),
        Thing::Socket => drop(std::os::unix::net::UnixListener::bind(path).unwrap()),
        Thing::Directory => std::fs::create_dir(path).unwrap(),
        // Without the right to make one, what leads to one.
        Thing::Device => std::os::unix::fs::symlink("/dev/zero", path).unwrap(),
    }
}

/// Runs a command, which must end in time: its exit code and what it said.
#[track_caller]
fn run(user: &User, arguments: &[&str]) -> (i32, String) {
    let output = user.root().join("output");
    let mut child = Command::new(env!("CARGO_BIN_EXE_annals"))
        .args(arguments)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", user.root())
        .env("ANNALS_NOW", NOW)
        .current_dir(user.root())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(&output).unwrap())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            let said = std::fs::read_to_string(&output).unwrap();
            let code = status.code().unwrap_or_else(|| panic!("{arguments:?} died of {status}: {said}"));
            assert!(!said.contains("panicked"), "{said}");
            return (code, said);
        }
        if Instant::now() > deadline {
            let _ = child.kill();
            let _ = child.wait();
            panic!("{arguments:?} hangs");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn user() -> User {
    let user = User::in_memory();
    user.write_session("36aaaaffe1", "Fix the cart", "It is empty", "The answer");
    user.write_session("36bbbbffe2", "Fix the door", "It is open", "Closed now");
    let _ = user.annals(&["sync"]).run().ok();
    user
}

const COMMANDS: [&[&str]; 9] = [
    &["list"],
    &["show", "cart"],
    &["stats"],
    &["search", "cart"],
    &["sync"],
    &["check"],
    &["--home", ".local/share/opencode", "list"],
    &["--home", ".local/share/opencode", "rename", "cart", "Renamed"],
    &["backup", "b.db"],
];

const THINGS: [Thing; 4] = [Thing::Pipe, Thing::Socket, Thing::Directory, Thing::Device];

/// Puts something in a place, runs all commands, and returns what those said that failed.
fn said_of(place: impl Fn(&User) -> PathBuf, thing: Thing) -> Vec<(String, String)> {
    let user = user();
    put(thing, &place(&user));
    let mut said = Vec::new();
    for command in COMMANDS {
        let (code, text) = run(&user, command);
        // The sessions of these tests are not without problems.
        let is_fine = code == 0 || code == 3 && command[0] == "check";
        if !is_fine {
            said.push((command.join(" "), text));
        }
    }
    said
}

#[test]
fn nothing_waits_for_what_is_not_a_file_in_the_store() {
    for name in ["annals.db-lock", "annals.db-index-lock", "annals.index/meta.json", "annals.db"] {
        for thing in THINGS {
            let failed = said_of(|user| user.store().parent().unwrap().join(name), thing);
            let said = |command: &str| {
                let found = failed.iter().find(|(failed, _)| failed == command);
                found.map_or("", |(_, said)| said.as_str())
            };
            match name {
                // It heals.
                "annals.index/meta.json" => assert!(failed.is_empty(), "{name} {thing:?}: {failed:?}"),
                "annals.db-index-lock" => {
                    assert!(said("sync").contains(name), "{name} {thing:?}: {failed:?}");
                    assert!(said("list").is_empty(), "{name} {thing:?}: {failed:?}");
                }
                _ => assert!(said("sync").contains(name), "{name} {thing:?}: {failed:?}"),
            }
        }
    }
}

#[test]
fn nothing_waits_for_what_is_not_a_file_beside_the_store() {
    for name in ["annals.db-wal", "annals.db-shm", "annals.db-journal"] {
        for thing in THINGS {
            said_of(|user| user.store().parent().unwrap().join(name), thing);
        }
    }
}

#[test]
fn nothing_waits_for_what_is_not_a_file_in_a_directory() {
    for name in [
        "storage/.annals/journal",
        "storage/.annals/lock",
        "storage/.annals/last",
        "storage/migration",
        "storage/session/global/ses_36bbbbffe2.json",
        "storage/message/ses_36bbbbffe2/msg_36bbbbffe21.json",
        "storage/part/msg_36bbbbffe21/prt_36bbbbffe21.json",
        "storage/todo/ses_36bbbbffe2.json",
        "storage/session_diff/ses_36bbbbffe2.json",
        "opencode.db",
    ] {
        for thing in [Thing::Pipe, Thing::Device] {
            let failed = said_of(|user| user.opencode().join(name), thing);
            let rename = failed.iter().find(|(command, _)| command.contains("rename"));
            if name.ends_with("journal") || name.ends_with("lock") {
                let said = rename.map_or("", |(_, said)| said.as_str());
                assert!(said.contains(name), "{name} {thing:?}: {failed:?}");
            }
        }
    }
}

#[test]
fn nothing_waits_for_what_is_not_a_file_beside_a_database() {
    for name in ["opencode.db-wal", "opencode.db-shm", "opencode.db-journal"] {
        for thing in THINGS {
            let user = User::with("small-1.2.27");
            let path = user.opencode().join(name);
            put(thing, &path);
            for command in COMMANDS {
                run(&user, command);
            }
        }
    }
}

#[test]
fn nothing_waits_for_a_backup_that_is_none() {
    for thing in THINGS {
        let user = user();
        put(thing, &user.root().join("backup.db"));
        let (code, said) = run(&user, &["restore-backup", "backup.db", "--yes"]);
        assert_eq!(code, 1, "{thing:?}: {said}");
        assert!(said.contains("is not a store of annals"), "{thing:?}: {said}");
        assert_eq!(run(&user, &["list"]).0, 0);
    }
}

/// What is imported may come from a pipe: somebody writes to it.
#[test]
fn an_import_reads_from_a_pipe() {
    let user = user();
    let pipe = user.root().join("pipe");
    put(Thing::Pipe, &pipe);
    let writer = {
        std::thread::spawn(move || {
            std::fs::write(pipe, r#"{"info":{"id":"ses_9","title":"Piped"},"messages":[]}"#)
        })
    };
    let (code, said) = run(&user, &["import", "pipe"]);
    assert_eq!(code, 0, "{said}");
    writer.join().unwrap().unwrap();
}

/// `ulimit -f` ends a process without a word, unless it listens.
#[test]
fn a_limit_on_the_size_of_files_is_an_error_like_any_other() {
    let user = user();
    let text = "word ".repeat(400_000);
    write(
        &user.opencode(),
        "storage/part/msg_36bbbbffe22/prt_36bbbbffe22.json",
        format!(
            r#"{{"id":"prt_36bbbbffe22","sessionID":"ses_36bbbbffe2","messageID":"msg_36bbbbffe22","type":"text","text":"{text}"}}"#
        ),
    );
    let output = Command::new("bash")
        .args(["-c", "ulimit -f 100; exec \"$A\" backup b.db"])
        .env("A", env!("CARGO_BIN_EXE_annals"))
        .env("HOME", user.root())
        .env_remove("XDG_DATA_HOME")
        .env("ANNALS_NOW", NOW)
        .current_dir(user.root())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("ulimit -f"), "{said}");
    assert!(!user.root().join("b.db").exists());
    assert_eq!(run(&user, &["list"]).0, 0);
    assert_eq!(run(&user, &["backup", "b.db"]).0, 0);
}

/// A store whose tables are something else, and that wants something to run.
#[test]
fn a_backup_that_is_no_store_inside_is_not_restored() {
    for (name, change) in [
        ("view", "ALTER TABLE session RENAME TO other; CREATE VIEW session AS SELECT * FROM other"),
        ("trigger", "CREATE TRIGGER t AFTER INSERT ON document BEGIN DELETE FROM document; END"),
        ("table", "CREATE TABLE extra (x)"),
        ("column", "ALTER TABLE session DROP COLUMN title"),
    ] {
        let user = user();
        assert_eq!(run(&user, &["backup", "b.db"]).0, 0);
        let connection = rusqlite::Connection::open(user.root().join("b.db")).unwrap();
        connection.execute_batch(change).unwrap();
        connection.close().unwrap();
        let before = std::fs::read(user.store()).unwrap();
        let (code, said) = run(&user, &["restore-backup", "b.db", "--yes"]);
        assert_eq!(code, 1, "{name}: {said}");
        assert!(
            said.contains("b.db is damaged: it has") && said.contains("nothing was changed"),
            "{name}: {said}"
        );
        assert!(std::fs::read(user.store()).unwrap() == before, "{name}");
        assert_eq!(run(&user, &["list"]).0, 0);
    }
}
