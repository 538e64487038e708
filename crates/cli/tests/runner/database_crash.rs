//! `annals copy` killed at any moment: the database is whole, every session in it is whole, and the next copy goes on.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use annals::home::{MessageDetail, MessageRange, Read, SessionRecord};
use annals::homes::opencode::arrange::is_same;
use annals::model::Stored;
use annals_testkit::opencode::{Lab, OpenCode};
use annals_testkit::{Fixture, files_below};
use rusqlite::{Connection, OpenFlags};

/// How many copies are killed.
const KILLS: usize = 200;
/// The number of copies into the same database that are killed before one may finish.
const KILLS_IN_A_ROW: usize = 6;
/// The number of kills after which a real OpenCode looks at what is there.
const LOOK_EVERY: usize = 40;
/// The project of nearly all sessions.
const SHOP: &str = "15e401e64f208f230e2422540fb7c58e13fb0681";

/// The rows of each session, by its id.
type Rows = BTreeMap<String, BTreeSet<String>>;

/// Sessions of two fixtures in one directory, for more to do.
fn source() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for name in Fixture::FLAT {
        let fixture = Fixture::unpack(name);
        for file in fixture.stored_files() {
            let to = dir.path().join(file.strip_prefix(fixture.home()).unwrap());
            std::fs::create_dir_all(to.parent().unwrap()).unwrap();
            std::fs::rename(&file, &to).unwrap();
        }
    }
    dir
}

fn copy(source: &Path, database: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_annals"));
    command.arg("copy").arg("--from").arg(source).arg("--to").arg(database);
    command.env("HOME", source).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// What a database holds, after checking that it is in order. Looking leaves it as the killed process left it.
fn look(database: &Path) -> Rows {
    if !database.exists() {
        return Rows::new();
    }
    let connection = Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let texts = |sql: &str| -> Vec<(String, String)> {
        let mut statement = connection.prepare(sql).unwrap();
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        rows.map(Result::unwrap).collect()
    };
    let integrity: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(integrity, "ok");
    let mut dangling = connection.prepare("PRAGMA foreign_key_check").unwrap();
    assert!(dangling.query([]).unwrap().next().unwrap().is_none());
    let mut rows = Rows::new();
    for (session, row) in
        texts("SELECT id, id || project_id || directory || title || time_updated FROM session")
    {
        rows.entry(session).or_default().insert(row);
    }
    for sql in [
        "SELECT session_id, id || time_created || data FROM message",
        "SELECT session_id, id || message_id || data FROM part",
        "SELECT session_id, position || content || status FROM todo",
        "SELECT session_id, secret || url FROM session_share",
    ] {
        for (session, row) in texts(sql) {
            let of_session = rows.get_mut(&session);
            of_session.unwrap_or_else(|| panic!("rows of {session}, which is not there")).insert(row);
        }
    }
    rows
}

/// The messages and parts of a session, in order.
fn transcript(home: &dyn Read, session: &SessionRecord) -> Vec<Stored> {
    let mut documents = Vec::new();
    let mut messages = home.messages(session, &MessageRange::ALL, MessageDetail::Parts);
    for message in &mut messages {
        let message = message.unwrap();
        documents.push(message.stored);
        documents.extend(message.parts);
    }
    assert!(messages.into_quarantined().is_empty());
    documents
}

/// The database says what the directory says, but for what OpenCode 1.18 requires in addition.
fn assert_same(source: &Path, database: &Path) {
    let [source, database] = [source, database].map(|path| annals::open(path.to_str().unwrap()).unwrap());
    let found = source.sessions(&Default::default()).unwrap();
    assert_eq!(found.value.len(), 233);
    for session in found.value {
        let copied = database.session(&session.id).unwrap().expect("it was copied");
        let pairs = [(copied.stored.clone(), session.stored.clone())];
        let (ours, theirs) = (transcript(&*database, &copied), transcript(&*source, &session));
        assert_eq!(ours.len(), theirs.len(), "{}", session.id);
        for (ours, theirs) in pairs.into_iter().chain(ours.into_iter().zip(theirs)) {
            assert_eq!(ours.key, theirs.key);
            assert!(is_same(&ours.key, &ours.document, &theirs.document), "{ours:?} {theirs:?}");
        }
    }
}

/// A real OpenCode lists the sessions of a copy of the database, as they are there.
fn look_with_opencode(version: &str, database: &Path) {
    let lab = Lab::new(&OpenCode::version(version));
    std::fs::create_dir_all(lab.data()).unwrap();
    for suffix in ["", "-wal"] {
        let from = PathBuf::from(format!("{}{suffix}", database.display()));
        if from.exists() {
            std::fs::copy(from, lab.data().join(format!("opencode.db{suffix}"))).unwrap();
        }
    }
    let expected: BTreeSet<String> = {
        let path = lab.data().join("opencode.db");
        let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
        let sql = "SELECT id FROM session WHERE project_id = ?1 AND parent_id IS NULL";
        let mut statement = connection.prepare(sql).unwrap();
        statement.query_map([SHOP], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    let repository = lab.bind_project("shop-api", SHOP);
    let listed = lab.session_list(&repository);
    let listed: BTreeSet<String> =
        listed.as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(listed, expected, "OpenCode {version}");
}

fn next(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *seed >> 33
}

/// A copy that nothing disturbs, for comparison: how long it takes, and what is there afterwards.
fn undisturbed(source: &Path, name: &str) -> (Duration, Rows) {
    let dir = tempfile::tempdir().unwrap();
    let database = dir.path().join(name);
    let started = Instant::now();
    assert!(copy(source, &database).status().unwrap().success());
    let duration = started.elapsed();
    assert_same(source, &database);
    (duration, look(&database))
}

#[test]
fn a_killed_copy_leaves_whole_sessions_and_is_finished_by_the_next() {
    let source = source();
    // Beside a database that is called as OpenCode's are lie the differences of its sessions, in files.
    let names = ["sessions.db", "opencode.db"];
    let [(short, whole), (long, with_files)] = names.map(|name| undisturbed(source.path(), name));
    let mut durations = [short, long];
    assert!(whole == with_files && whole.len() == 233);
    let opencodes = Fixture::unpack("small-1.18.33");
    let mut seed = 0x9e37_79b9_7f4a_7c15u64;
    let [mut n_kills, mut n_partial, mut n_grown, mut n_in_time, mut n_left, mut n_looks] = [0; 6];
    for round in 0.. {
        if n_kills >= KILLS {
            break;
        }
        let home = tempfile::tempdir().unwrap();
        let kind = usize::from(round % 5 == 4);
        let (name, duration) = (names[kind], &mut durations[kind]);
        let database = home.path().join(name);
        // Every third time into a database that OpenCode uses, with a log of its own.
        let is_opencodes = round % 3 == 2;
        if is_opencodes {
            for suffix in ["", "-wal", "-shm"] {
                let from = opencodes.home().join(format!("wal/opencode.db{suffix}"));
                std::fs::copy(from, home.path().join(format!("{name}{suffix}"))).unwrap();
            }
        }
        let theirs = look(&database);
        let assert_files = |found: &Rows| {
            for id in found.keys().filter(|_| kind == 1) {
                let file = format!("storage/session_diff/{id}.json");
                let [ours, theirs] = [home.path(), source.path()].map(|home| std::fs::read(home.join(&file)));
                assert_eq!(ours.ok(), theirs.ok(), "{file} of a session that is there");
            }
        };
        let mut n_before = 0;
        for _ in 0..KILLS_IN_A_ROW {
            let mut child = copy(source.path(), &database).spawn().unwrap();
            std::thread::sleep(duration.mul_f64((next(&mut seed) % 10_000) as f64 / 10_000.0));
            child.kill().unwrap();
            if child.wait().unwrap().success() {
                // Others used the machine when the time was taken.
                *duration = duration.mul_f64(0.8);
                n_in_time += 1;
                break;
            }
            n_kills += 1;
            let mut found = look(&database);
            for (id, rows) in &theirs {
                assert_eq!(found.remove(id).as_ref(), Some(rows), "kill {n_kills}: what was there stays");
            }
            for (id, rows) in &found {
                assert!(whole.get(id) == Some(rows), "kill {n_kills}: session {id} is not whole");
            }
            assert_files(&found);
            assert!(found.len() >= n_before, "kill {n_kills}: what was copied stays");
            n_grown += usize::from(found.len() > n_before);
            n_partial += usize::from(!found.is_empty() && found.len() < whole.len());
            n_before = found.len();
            // The second look is that of 1.2.27, which cannot open what 1.16 and later have made.
            let version = if n_looks == 1 { "1.2.27" } else { "1.18.33" };
            let is_too_new = version == "1.2.27" && is_opencodes;
            if n_kills / LOOK_EVERY > n_looks && !found.is_empty() && !is_too_new {
                look_with_opencode(version, &database);
                n_looks += 1;
            }
        }
        let ended = copy(source.path(), &database).stderr(Stdio::piped()).output().unwrap();
        let stderr = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success(), "after {n_kills} kills: {}: {stderr}", ended.status);
        let mut found = look(&database);
        found.retain(|id, _| !theirs.contains_key(id));
        assert!(found == whole, "after {n_kills} kills: {} sessions of {}", found.len(), whole.len());
        assert_files(&found);
        let is_draft = |path: &PathBuf| path.display().to_string().contains(".annals");
        n_left += usize::from(files_below(home.path()).iter().any(is_draft));
    }
    println!(
        "{n_kills} kills within {durations:?}: {n_partial} left some of the sessions, {n_grown} more than before; \
         {n_in_time} copies were faster than the kill; {n_left} times a draft was left; OpenCode looked {n_looks} times"
    );
    assert!(n_looks > 2, "{n_looks}");
    // Most do on a machine that is otherwise idle; on a busy one the moments drift.
    assert!(n_partial * 6 > n_kills, "{n_partial} of {n_kills} kills hit the middle");
    assert!(n_grown * 20 > n_kills, "{n_grown} of {n_kills} kills came after something was copied");
}
