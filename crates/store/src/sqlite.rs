//! SQLite files that belong to others: opened so that nothing of them changes, nobody waits, and a hostile one does no
//! harm.
//!
//! A plain read-only open of a database in WAL mode makes files beside it (`-wal`, `-shm`), and may make the index of the
//! log (`-shm`) anew. Where the log is missing or empty, nobody has anything unsaved, and the main file is read as it is,
//! without locks; whether it stayed as it was is looked up after every page of rows. Where there is a log, its index is
//! read and not written to; where there is no index, it is built in memory.
//!
//! The database file is never opened by other means than SQLite's: closing any descriptor of it would drop the locks
//! that SQLite holds in this process.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use std::time::{Duration, SystemTime};

use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::{Connection, ErrorCode, FileControl, OpenFlags};

use crate::platform;

pub(crate) mod salvage;

/// How long a reader or writer waits for a lock. OpenCode itself gives up after 5 seconds.
const PATIENCE: Duration = Duration::from_secs(30);

/// The length of the header of a log.
const LOG_HEADER: u64 = 32;

/// SQLite's way to files that takes no locks.
const WITHOUT_LOCKS: &str = if cfg!(windows) { "win32-none" } else { "unix-none" };

/// A connection that reads, and what it relies on.
#[derive(Debug)]
struct Reader {
    connection: Connection,
    /// What the files were when it was opened, if it reads them without locks.
    relies_on: Option<Stamp>,
}

/// What a reader does to the index of the log (`-shm`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LogIndex {
    /// It is not written to. To SQLite a process that has lost its locks is gone, and its index there to be made anew
    /// under its hands.
    Untouched,
    /// What SQLite does by itself. All connections of a process share one index, so beside a writer no other way is left.
    Shared,
}

/// The connections of this process to one file.
#[derive(Debug)]
pub(crate) struct Connections {
    path: PathBuf,
    tolerance: Tolerance,
    /// Readers that nobody uses at the moment.
    idle: Mutex<Vec<Reader>>,
    writer: Mutex<Option<Connection>>,
    is_written: AtomicBool,
    /// Readers go through it side by side, the opening of the writer alone: closing a reader that takes no locks would
    /// drop the writer's.
    gate: RwLock<()>,
}

/// So often is a page read again because the files were changed meanwhile.
const MAX_TRIES: usize = 20;

impl Connections {
    /// The connections to a file, shared by all who have it open.
    pub(crate) fn to(path: &Path, tolerance: Tolerance) -> Arc<Connections> {
        static ALL: Mutex<BTreeMap<PathBuf, Weak<Connections>>> = Mutex::new(BTreeMap::new());
        let mut all = lock(&ALL);
        all.retain(|_, connections| connections.strong_count() > 0);
        let known = all.get(path).and_then(Weak::upgrade).filter(|known| known.tolerance == tolerance);
        known.unwrap_or_else(|| {
            let connections = Arc::new(Connections {
                path: path.to_owned(),
                tolerance,
                idle: Mutex::default(),
                writer: Mutex::default(),
                is_written: AtomicBool::new(false),
                gate: RwLock::default(),
            });
            all.insert(path.to_owned(), Arc::downgrade(&connections));
            connections
        })
    }

    /// Reads something in one short transaction. Where files are read without locks and change meanwhile, it is read
    /// again.
    pub(crate) fn read<T>(
        &self,
        mut work: impl FnMut(&Connection) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        let _gate = self.gate.read().unwrap_or_else(PoisonError::into_inner);
        let mut tries = 0;
        loop {
            let idle = lock(&self.idle).pop();
            let reader = match idle {
                Some(reader) => reader,
                None => Reader::open(&self.path, self.tolerance, self.index())?,
            };
            let transaction = reader.connection.unchecked_transaction();
            let result = transaction.and_then(|transaction| {
                let result = work(&transaction)?;
                transaction.finish()?;
                Ok(result)
            });
            tries += 1;
            // An index that was out of use when the reader came and is in use now has to be looked at anew.
            let is_stale = result.as_ref().is_err_and(is_about_index);
            let is_sound = !is_stale && reader.is_sound(&self.path);
            if is_sound {
                lock(&self.idle).push(reader);
                return result;
            }
            // The others are no better.
            lock(&self.idle).clear();
            if tries == MAX_TRIES {
                return result;
            }
        }
    }

    /// A process that has the database open and has lost its locks on it, as OpenCode does when it opens and closes the
    /// file by other means than SQLite's. To SQLite it is gone: the next writer would cut the index of the log off under
    /// its hands, which kills it, and what it writes would be lost. Looked for until the first write; then our own locks
    /// are all that can be seen.
    pub(crate) fn endangered(&self) -> Option<u32> {
        // Whoever uses the index holds a lock on this byte of it.
        const ANY_USER: u64 = 128;
        if self.index() == LogIndex::Shared {
            return None;
        }
        platform::writer_without_lock(&beside(&self.path, "-shm"), ANY_USER)
    }

    fn index(&self) -> LogIndex {
        if self.is_written.load(Ordering::SeqCst) { LogIndex::Shared } else { LogIndex::Untouched }
    }

    /// Does something with the one connection that writes, inside a transaction it begins.
    pub(crate) fn write<T, E>(
        &self,
        begin: impl Fn(rusqlite::Error) -> E,
        work: impl FnOnce(&Connection) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut writer = lock(&self.writer);
        let connection = match writer.take() {
            Some(connection) if !has_moved(&connection) => {
                connection.execute_batch("BEGIN IMMEDIATE").map_err(begin)?;
                connection
            }
            _ => self.begin_first().map_err(begin)?,
        };
        let result = work(&connection);
        *writer = Some(connection);
        result
    }

    /// Opens the connection that writes, while no reader is open: some keep the index of the log from being written to.
    fn begin_first(&self) -> rusqlite::Result<Connection> {
        let _gate = self.gate.write().unwrap_or_else(PoisonError::into_inner);
        lock(&self.idle).clear();
        self.is_written.store(true, Ordering::SeqCst);
        let connection = open_writer(&self.path)?;
        connection.execute_batch("BEGIN IMMEDIATE")?;
        Ok(connection)
    }
}

/// What a mutex holds is whole even if a thread died with it: connections are taken out, used and put back.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
        // A log that is empty, or has no more than its header, is as good as none.
        Stamp { main: stamp(path), log: stamp(&log_of(path)).filter(|(length, _)| *length > LOG_HEADER) }
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
    fn open(path: &Path, tolerance: Tolerance, index: LogIndex) -> rusqlite::Result<Reader> {
        let reader = Reader::connected(path, index)?;
        if tolerance == Tolerance::Damage {
            reader.connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, false)?;
            reader.connection.set_db_config(DbConfig::SQLITE_DBCONFIG_WRITABLE_SCHEMA, true)?;
        }
        Ok(reader)
    }

    fn connected(path: &Path, index: LogIndex) -> rusqlite::Result<Reader> {
        let stamp = Stamp::of(path);
        // A rollback journal is of no other use than to undo what the main file holds.
        if stamp.log.is_none() && !beside(path, "-journal").exists() {
            let connection = connect(path, "mode=ro&immutable=1", OpenFlags::SQLITE_OPEN_READ_ONLY)?;
            return Ok(Reader { connection, relies_on: Some(stamp) });
        }
        expect_files(path)?;
        let parameters = match index {
            LogIndex::Shared => "mode=ro",
            LogIndex::Untouched => "mode=ro&readonly_shm=1",
        };
        let connection = connect(path, parameters, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        match connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(())) {
            // It is built in memory instead.
            Err(error) if index == LogIndex::Untouched && is_about_index(&error) => {
                let parameters = format!("mode=ro&vfs={WITHOUT_LOCKS}");
                let connection = connect(path, &parameters, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
                connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
                Ok(Reader { connection, relies_on: Some(stamp) })
            }
            _ => Ok(Reader { connection, relies_on: None }),
        }
    }

    /// Whether what was read since it was opened is what one moment's files held, and those are the files at the path.
    fn is_sound(&self, path: &Path) -> bool {
        match self.relies_on {
            Some(stamp) => stamp == Stamp::of(path),
            None => !has_moved(&self.connection),
        }
    }
}

/// Whether the index of a log could not be used without writing to it: it is missing or out of use.
fn is_about_index(error: &rusqlite::Error) -> bool {
    let codes = [ErrorCode::CannotOpen, ErrorCode::ReadOnly, ErrorCode::FileLockingProtocolFailed];
    code(error).is_some_and(|code| codes.contains(&code))
}

/// Whether the file that a connection has open is no longer the one at its path.
pub(crate) fn has_moved(connection: &Connection) -> bool {
    let mut moved = 0;
    connection.file_control(None::<&str>, FileControl::HasMoved(&mut moved)).is_err() || moved != 0
}

/// Opens a database for writing. Closing the connection neither copies the log into the main file nor removes it: an
/// OpenCode that has lost its locks would go on writing to a removed log.
fn open_writer(path: &Path) -> rusqlite::Result<Connection> {
    expect_files(path)?;
    let connection = connect(path, "mode=rw", OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    prepare_writer(&connection)?;
    Ok(connection)
}

/// Makes a database in WAL mode. The file must not exist.
///
/// Nobody but its owner can read it, from the first byte on: SQLite would make it readable for all, as far as the umask allows.
pub(crate) fn create(path: &Path) -> rusqlite::Result<Connection> {
    platform::create_private_file(path).map_err(|error| {
        let code = match error.kind() {
            std::io::ErrorKind::StorageFull => rusqlite::ffi::SQLITE_FULL,
            _ => rusqlite::ffi::SQLITE_CANTOPEN,
        };
        rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), Some(error.to_string()))
    })?;
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
    // What is deleted is written over. Copies that earlier writes left in unused pages stay.
    connection.pragma_update(None, "secure_delete", true)?;
    // Rows of one transaction lie in the same pages as those of the next. Copying pages from the log to the main file four
    // times as rarely as by default halves what is written.
    connection.pragma_update(None, "wal_autocheckpoint", 4000)?;
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
        // A connection that takes itself for the last one would copy the log into the main file and remove it, and one
        // that takes no locks always does.
        (DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true),
        // Or statements would be compiled anew whenever other values are bound to them.
        (DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true),
    ] {
        connection.set_db_config(setting, on)?;
    }
    for (limit, most) in [
        (Limit::SQLITE_LIMIT_LENGTH, 256 << 20),
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
