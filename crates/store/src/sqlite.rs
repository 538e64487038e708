//! SQLite files that belong to others: opened so that nothing of them changes, nobody waits, and a hostile one does no
//! harm.
//!
//! A plain read-only open of a database in WAL mode makes files beside it (`-wal`, `-shm`). Where the log is missing or
//! empty, nobody has anything unsaved, and the main file is read as it is, without locks; whether it stayed as it was is
//! looked up after every page of rows. On a disk that cannot be written to, a log is read without its index file.
//!
//! The database file is never opened by other means than SQLite's: closing any descriptor of it would drop the locks
//! that SQLite holds in this process.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::{Connection, ErrorCode, FileControl, OpenFlags};

/// How long a reader or writer waits for a lock. OpenCode itself gives up after 5 seconds.
const PATIENCE: Duration = Duration::from_secs(30);

/// A connection that reads, and what it relies on.
#[derive(Debug)]
pub(crate) struct Reader {
    pub(crate) connection: Connection,
    /// What the files were when it was opened, if it reads them without locks.
    relies_on: Option<Stamp>,
}

/// The state of a database's files, as far as their directory tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    main: Option<(u64, SystemTime)>,
    log: Option<(u64, SystemTime)>,
}

impl Stamp {
    fn of(path: &Path) -> Stamp {
        let stamp = |path: &Path| {
            let metadata = std::fs::metadata(path).ok()?;
            Some((metadata.len(), metadata.modified().ok()?))
        };
        // An empty log is as good as none.
        Stamp { main: stamp(path), log: stamp(&log_of(path)).filter(|(length, _)| *length > 0) }
    }
}

/// How much a reader puts up with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tolerance {
    /// Nothing: a file that is not as it should be is an error.
    None,
    /// A file that was cut off, or whose list of tables is partly damaged. SQLite allows that only where the list could be
    /// written to; that it cannot be here is the connection's being read-only.
    Damage,
}

impl Reader {
    /// Opens a database for reading.
    pub(crate) fn open(path: &Path, tolerance: Tolerance) -> rusqlite::Result<Reader> {
        let reader = Reader::connected(path)?;
        if tolerance == Tolerance::Damage {
            reader.connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, false)?;
            reader.connection.set_db_config(DbConfig::SQLITE_DBCONFIG_WRITABLE_SCHEMA, true)?;
        }
        Ok(reader)
    }

    fn connected(path: &Path) -> rusqlite::Result<Reader> {
        let stamp = Stamp::of(path);
        // A rollback journal is of no other use than to undo what the main file holds.
        if stamp.log.is_none() && !beside(path, "-journal").exists() {
            let connection = connect(path, "mode=ro&immutable=1", OpenFlags::SQLITE_OPEN_READ_ONLY)?;
            return Ok(Reader { connection, relies_on: Some(stamp) });
        }
        let connection = connect(path, "mode=ro", OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        match connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(())) {
            // The index of the log can neither be found nor made: it is built in memory instead.
            Err(error) if matches!(code(&error), Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly)) => {
                let connection = connect(path, "mode=ro&nolock=1", OpenFlags::SQLITE_OPEN_READ_ONLY)?;
                connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
                Ok(Reader { connection, relies_on: Some(stamp) })
            }
            _ => Ok(Reader { connection, relies_on: None }),
        }
    }

    /// Whether what was read since it was opened is what one moment's files held, and those are the files at the path.
    pub(crate) fn is_sound(&self, path: &Path) -> bool {
        match self.relies_on {
            Some(stamp) => stamp == Stamp::of(path),
            None => !has_moved(&self.connection),
        }
    }
}

/// Whether the file that a connection has open is no longer the one at its path.
pub(crate) fn has_moved(connection: &Connection) -> bool {
    let mut moved = 0;
    connection.file_control(None::<&str>, FileControl::HasMoved(&mut moved)).is_err() || moved != 0
}

/// Opens a database for writing. Closing the connection neither copies the log into the main file nor removes it: an
/// OpenCode that has lost its locks would go on writing to a removed log.
pub(crate) fn open_writer(path: &Path) -> rusqlite::Result<Connection> {
    let connection = connect(path, "mode=rw", OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    prepare_writer(&connection)?;
    Ok(connection)
}

/// Makes a database in WAL mode. The file must not exist.
pub(crate) fn create(path: &Path) -> rusqlite::Result<Connection> {
    let connection =
        connect(path, "mode=rwc", OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE)?;
    connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    prepare_writer(&connection)?;
    Ok(connection)
}

fn prepare_writer(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "cache_size", -64_000)?;
    // Rows of one transaction lie in the same pages as those of the next. Copying pages from the log to the main file four
    // times as rarely as by default halves what is written.
    connection.pragma_update(None, "wal_autocheckpoint", 4000)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.file_control(None::<&str>, FileControl::PersistWal(&mut 1))
}

fn connect(path: &Path, parameters: &str, flags: OpenFlags) -> rusqlite::Result<Connection> {
    let flags = flags | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(uri(path, parameters), flags)?;
    connection.busy_timeout(PATIENCE)?;
    for (setting, on) in [
        (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
        (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
        // OpenCode has neither views nor triggers; a file that has them wants something else to run.
        (DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false),
        // Or statements would be compiled anew whenever other values are bound to them.
        (DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true),
    ] {
        connection.set_db_config(setting, on)?;
    }
    for (limit, most) in [
        (Limit::SQLITE_LIMIT_SQL_LENGTH, 1 << 20),
        (Limit::SQLITE_LIMIT_EXPR_DEPTH, 100),
        (Limit::SQLITE_LIMIT_COMPOUND_SELECT, 10),
        (Limit::SQLITE_LIMIT_VDBE_OP, 25_000),
        (Limit::SQLITE_LIMIT_FUNCTION_ARG, 16),
        (Limit::SQLITE_LIMIT_ATTACHED, 0),
        (Limit::SQLITE_LIMIT_WORKER_THREADS, 0),
        (Limit::SQLITE_LIMIT_TRIGGER_DEPTH, 10),
    ] {
        connection.set_limit(limit, most)?;
    }
    connection.pragma_update(None, "cell_size_check", true)?;
    connection.pragma_update(None, "mmap_size", 0)?;
    connection.set_prepared_statement_cache_capacity(32);
    Ok(connection)
}

/// The path of the write-ahead log of a database.
pub(crate) fn log_of(path: &Path) -> PathBuf {
    beside(path, "-wal")
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
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

/// What kind of failure SQLite reports.
pub(crate) fn code(error: &rusqlite::Error) -> Option<ErrorCode> {
    error.sqlite_error_code()
}

/// Whether the file is damaged where it was read.
pub(crate) fn is_damage(error: &rusqlite::Error) -> bool {
    match error {
        rusqlite::Error::SqliteFailure(failure, _) => {
            // Reading past the end of a file that was cut off is an IO error to SQLite.
            matches!(failure.code, ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
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
