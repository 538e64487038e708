//! The one door to SQLite: every connection is opened here, with the settings of its kind.
//!
//! Neither our files nor those of others are trusted: no views, triggers or attached files, and limits on what a statement
//! may take. `clippy.toml` closes the other ways to open a file.
//!
//! A database file is never opened by other means than SQLite's: closing any descriptor of it would drop the locks that
//! SQLite holds in this process.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::{Connection, ErrorCode, FileControl, OpenFlags};

use crate::platform;

mod others;
mod pool;
pub(crate) mod salvage;

pub(crate) use others::{Connections, Tolerance, empty_log};
pub(crate) use pool::{Pool, lock};

/// How long a reader or writer of somebody else's file waits for a lock. OpenCode itself gives up after 5 seconds.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long to wait for a lock on a file of ours that another program holds, the SQLite shell for instance.
pub(crate) const OUR_PATIENCE: Duration = Duration::from_secs(60);

/// SQLite's way to files that takes no locks.
const WITHOUT_LOCKS: &str = if cfg!(windows) { "win32-none" } else { "unix-none" };

/// How a file that belongs to others is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Theirs {
    /// To read the main file as it is. No file beside it is looked at, and no lock is taken.
    Unchanging,
    /// To read the main file and its log.
    Logged(LogIndex),
    /// To read the main file and its log without locks, with an index of the log in memory.
    WithoutLocks,
    /// To write. Closing the connection neither copies the log into the main file nor removes it: an OpenCode that has lost
    /// its locks would go on writing to a removed log.
    Written,
    /// To make a database of an empty file, and to write.
    New,
}

/// What a reader does to the index of the log (`-shm`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LogIndex {
    /// It is not written to. SQLite takes a process that has lost its locks for gone, and would rebuild the index that the
    /// process still uses.
    Untouched,
    /// SQLite's own behaviour. All connections of a process share one index, so beside a writer there is no other way.
    Shared,
}

/// How a file of ours is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ours {
    /// To read.
    Read,
    /// To write durably.
    Written,
    /// To fill a file that has no name yet. It may be lost until it is synced as a whole.
    Draft,
    /// To hold a lock.
    Held,
}

/// Opens a database that belongs to others.
fn open_theirs(path: &Path, way: Theirs) -> rusqlite::Result<Connection> {
    let (read, write) = (OpenFlags::SQLITE_OPEN_READ_ONLY, OpenFlags::SQLITE_OPEN_READ_WRITE);
    let without_locks = format!("mode=ro&vfs={WITHOUT_LOCKS}");
    let (parameters, flags) = match way {
        Theirs::Unchanging => ("mode=ro&immutable=1", read),
        Theirs::Logged(LogIndex::Shared) => ("mode=ro", read),
        Theirs::Logged(LogIndex::Untouched) => ("mode=ro&readonly_shm=1", read),
        Theirs::WithoutLocks => (without_locks.as_str(), read),
        Theirs::Written => ("mode=rw", write),
        Theirs::New => ("mode=rwc", write | OpenFlags::SQLITE_OPEN_CREATE),
    };
    let connection = connect(Path::new(&uri(path, parameters)), flags | OpenFlags::SQLITE_OPEN_URI)?;
    connection.busy_timeout(PATIENCE)?;
    // A connection that takes itself for the last one would copy the log into the main file and remove it, and one that
    // takes no locks always does.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    for (limit, most) in [
        (Limit::SQLITE_LIMIT_LENGTH, 256 << 20),
        (Limit::SQLITE_LIMIT_SQL_LENGTH, 1 << 20),
        (Limit::SQLITE_LIMIT_EXPR_DEPTH, 100),
        (Limit::SQLITE_LIMIT_COMPOUND_SELECT, 10),
        (Limit::SQLITE_LIMIT_VDBE_OP, 25_000),
        (Limit::SQLITE_LIMIT_FUNCTION_ARG, 16),
        (Limit::SQLITE_LIMIT_TRIGGER_DEPTH, 10),
    ] {
        connection.set_limit(limit, most)?;
    }
    connection.set_prepared_statement_cache_capacity(32);
    match way {
        Theirs::Unchanging | Theirs::Logged(_) => {}
        Theirs::WithoutLocks => connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?,
        Theirs::Written => set_up_writer(&connection)?,
        Theirs::New => {
            connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
            set_up_writer(&connection)?;
        }
    }
    Ok(connection)
}

/// Settings of a connection that writes to a file of others.
fn set_up_writer(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "cache_size", -64_000)?;
    // What is deleted is written over. Copies that earlier writes left in unused pages stay.
    connection.pragma_update(None, "secure_delete", true)?;
    // Rows of one transaction lie in the same pages as those of the next. Copying pages from the log to the main file four
    // times as rarely as by default halves what is written.
    connection.pragma_update(None, "wal_autocheckpoint", 4000)?;
    connection.file_control(None::<&str>, FileControl::PersistWal(&mut 1))
}

/// Opens a database of ours, which must exist.
pub(crate) fn open_ours(path: &Path, way: Ours) -> rusqlite::Result<Connection> {
    let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    connection.busy_timeout(OUR_PATIENCE)?;
    connection.set_prepared_statement_cache_capacity(64);
    match way {
        Ours::Read => connection.pragma_update(None, "query_only", true)?,
        Ours::Written => {
            connection.pragma_update(None, "synchronous", "FULL")?;
            connection.pragma_update(None, "foreign_keys", true)?;
            connection.pragma_update(None, "cache_size", -32_000)?;
            // What is deleted is overwritten: a forgotten session leaves nothing in free pages.
            connection.pragma_update(None, "secure_delete", true)?;
        }
        Ours::Draft => {
            connection.pragma_update(None, "synchronous", "OFF")?;
            connection.pragma_update_and_check(None, "journal_mode", "MEMORY", |_| Ok(()))?;
        }
        Ours::Held => {}
    }
    Ok(connection)
}

/// Opens a database that is nowhere on a disk.
pub(crate) fn open_in_memory() -> rusqlite::Result<Connection> {
    connect(Path::new(":memory:"), OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE)
}

/// Opens a file, or a URI, with the settings that all connections have.
fn connect(name: &Path, flags: OpenFlags) -> rusqlite::Result<Connection> {
    #[expect(clippy::disallowed_methods, reason = "this is the door")]
    let connection = Connection::open_with_flags(name, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    for (setting, on) in [
        (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
        (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
        // Neither OpenCode nor we have views or triggers; a file that has them wants something else to run.
        (DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false),
        // Without this, statements are compiled again whenever other values are bound to them.
        (DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true),
    ] {
        connection.set_db_config(setting, on)?;
    }
    connection.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
    connection.set_limit(Limit::SQLITE_LIMIT_WORKER_THREADS, 0)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    connection.pragma_update(None, "mmap_size", 0)?;
    Ok(connection)
}

/// Makes a database in WAL mode, as OpenCode would. The file must not exist.
///
/// Only its owner can read it, from the first byte on: SQLite would make it readable for all, as far as the umask allows.
pub(crate) fn create(path: &Path) -> rusqlite::Result<Connection> {
    platform::create_private_file(path).map_err(|error| {
        let code = match error.kind() {
            std::io::ErrorKind::StorageFull => rusqlite::ffi::SQLITE_FULL,
            _ => rusqlite::ffi::SQLITE_CANTOPEN,
        };
        rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), Some(error.to_string()))
    })?;
    open_theirs(path, Theirs::New)
}

/// Refuses a database beside which a pipe or such has the name of one of its files: SQLite would wait for it.
pub(crate) fn expect_files(path: &Path) -> rusqlite::Result<()> {
    for suffix in ["-wal", "-shm", "-journal"] {
        platform::expect_file(&beside(path, suffix)).map_err(|error| {
            let failure = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_AUTH);
            rusqlite::Error::SqliteFailure(failure, Some(error.to_string()))
        })?;
    }
    Ok(())
}

/// Whether the file that a connection has open is no longer the one at its path.
pub(crate) fn has_moved(connection: &Connection) -> bool {
    let mut moved = 0;
    connection.file_control(None::<&str>, FileControl::HasMoved(&mut moved)).is_err() || moved != 0
}

/// The path of the write-ahead log of a database.
pub(crate) fn log_of(path: &Path) -> PathBuf {
    beside(path, "-wal")
}

/// The path of a file that stands beside a database.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    PathBuf::from(name)
}

fn uri(path: &Path, parameters: &str) -> String {
    let mut uri = String::from("file:");
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => {
                uri.push(char::from(*byte));
            }
            byte => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri.push('?');
    uri.push_str(parameters);
    uri
}

/// Whether there is no room left on the disk. Growing the index of a log is where that shows first, and SQLite calls it an
/// IO error, so the disk is asked.
pub(crate) fn is_disk_full(error: &rusqlite::Error, path: &Path) -> bool {
    match code(error) {
        Some(ErrorCode::DiskFull) => true,
        Some(ErrorCode::SystemIoFailure) => path.parent().is_some_and(platform::is_full),
        _ => false,
    }
}

/// What kind of failure SQLite reports.
pub(crate) fn code(error: &rusqlite::Error) -> Option<ErrorCode> {
    error.sqlite_error_code()
}

/// Whether the file is damaged where it was read, or holds something there that is larger than anything OpenCode writes.
pub(crate) fn is_damage(error: &rusqlite::Error) -> bool {
    match error {
        rusqlite::Error::SqliteFailure(failure, _) => {
            // Reading past the end of a file that was cut off is an IO error to SQLite.
            matches!(failure.code, ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::TooBig)
                || failure.extended_code == rusqlite::ffi::SQLITE_IOERR_SHORT_READ
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_sqlite_has_no_known_way_to_lose_commits() {
        // Before 3.51.3 a checkpoint could lose committed transactions in WAL mode.
        assert!(rusqlite::version_number() >= 3_051_003, "{}", rusqlite::version());
    }

    #[test]
    fn any_path_can_be_named() {
        assert_eq!(uri(Path::new("/a b/ü?#%.db"), "mode=ro"), "file:/a%20b/%C3%BC%3F%23%25.db?mode=ro");
    }
}
