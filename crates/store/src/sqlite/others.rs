//! SQLite files that belong to others: opened so that nothing in them changes, nothing waits, and a hostile file does no
//! harm.
//!
//! A plain read-only open of a database in WAL mode makes files beside it (`-wal`, `-shm`), and may rebuild the index of the
//! log (`-shm`). Where the log is missing or empty, no process has anything unsaved, and the main file is read as it is,
//! without locks; whether it stayed as it was is looked up after every page of rows. Where there is a log, its index is
//! read and not written to; where there is no index, it is built in memory.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};
use std::time::SystemTime;

use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::{Connection, ErrorCode};

use super::pool::{Pool, lock};
use super::{LogIndex, Theirs, beside, code, expect_files, has_moved, log_of, open_theirs};
use crate::platform;

/// The length of the header of a log.
const LOG_HEADER: u64 = 32;
/// Upper bound on the zeros that one row holds while unused pages are written over.
const MAX_ZEROS: i64 = 64 << 20;

/// A connection that reads, and what it relies on.
#[derive(Debug)]
struct Reader {
    connection: Connection,
    /// What the files were when it was opened, if it reads them without locks.
    relies_on: Option<FilesStamp>,
}

/// The connections of this process to one file.
#[derive(Debug)]
pub(crate) struct Connections {
    path: PathBuf,
    tolerance: Tolerance,
    readers: Pool<Reader>,
    writer: Mutex<Option<Connection>>,
    is_written: AtomicBool,
    /// Readers go through it side by side, the opening of the writer alone: closing a reader that takes no locks would
    /// drop the writer's.
    gate: RwLock<()>,
}

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
                readers: Pool::default(),
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
        work: impl FnMut(&Connection) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        let _gate = self.gate.read().unwrap_or_else(PoisonError::into_inner);
        let open = || Reader::open(&self.path, self.tolerance, self.index());
        // An index that was not in use when the reader came may be in use now: then the files are opened again.
        let is_sound = |reader: &Reader, result: &rusqlite::Result<T>| {
            !result.as_ref().is_err_and(is_about_index) && reader.is_sound(&self.path)
        };
        self.readers.read(open, is_sound, work)
    }

    /// A process that has the database open and has lost its locks on it, as OpenCode does when it opens and closes the
    /// file by other means than SQLite's. To SQLite it is gone: the next writer would truncate the index of the log
    /// while the process uses it, which kills the process, and what it writes would be lost. Looked for until the first
    /// write; then our own locks are all that can be seen.
    pub(crate) fn endangered(&self) -> Option<u32> {
        // Every process that uses the index holds a lock on this byte of it.
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

    /// Rewrites the file as a whole, so that nothing that was deleted is left in it and unused pages are given back, and empties its log.
    /// False if a reader still uses the log.
    pub(crate) fn rewrite(&self) -> rusqlite::Result<bool> {
        self.with_writer(|connection| {
            // The new content is attached as a database of its own while it is made.
            connection.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 1)?;
            let rewritten = connection.execute_batch("VACUUM");
            connection.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
            rewritten?;
            empty_log(connection)
        })
    }

    /// Writes zeros over all unused pages and empties the log, in a transaction like any other. False if a reader still uses the log.
    pub(crate) fn overwrite_unused(&self) -> rusqlite::Result<bool> {
        self.with_writer(|connection| {
            connection.execute_batch("BEGIN IMMEDIATE")?;
            let filled = fill_unused_pages(connection);
            connection.execute_batch(if filled.is_ok() { "COMMIT" } else { "ROLLBACK" })?;
            filled?;
            empty_log(connection)
        })
    }

    /// Does something with the connection that writes, outside of any transaction.
    fn with_writer<T>(&self, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> rusqlite::Result<T> {
        let mut writer = lock(&self.writer);
        let connection = match writer.take() {
            Some(connection) if !has_moved(&connection) => connection,
            _ => {
                let connection = self.begin_first()?;
                connection.execute_batch("ROLLBACK")?;
                connection
            }
        };
        // A reader of this process would keep the log in use.
        self.readers.clear();
        let result = work(&connection);
        *writer = Some(connection);
        result
    }

    /// Opens the connection that writes, while no reader is open: some keep the index of the log from being written to.
    fn begin_first(&self) -> rusqlite::Result<Connection> {
        let _gate = self.gate.write().unwrap_or_else(PoisonError::into_inner);
        self.readers.clear();
        self.is_written.store(true, Ordering::SeqCst);
        expect_files(&self.path)?;
        let connection = open_theirs(&self.path, Theirs::Written)?;
        connection.execute_batch("BEGIN IMMEDIATE")?;
        Ok(connection)
    }
}

/// Takes all unused pages for a table and drops it again. With `secure_delete`, SQLite then fills them with zeros.
fn fill_unused_pages(connection: &Connection) -> rusqlite::Result<()> {
    let number = |pragma: &str| connection.query_row(pragma, [], |row| row.get::<_, i64>(0));
    connection.execute_batch("CREATE TABLE annals_unused (zeros BLOB)")?;
    let page = number("PRAGMA page_size")?;
    loop {
        let unused = number("PRAGMA freelist_count")?;
        if unused == 0 {
            break;
        }
        let zeros = (unused * page).min(MAX_ZEROS).max(page);
        connection.execute("INSERT INTO annals_unused VALUES (zeroblob(?1))", [zeros])?;
    }
    connection.execute_batch("DROP TABLE annals_unused")
}

/// Copies the log into the main file and empties it. False if a reader still uses it.
pub(crate) fn empty_log(connection: &Connection) -> rusqlite::Result<bool> {
    let busy: i64 = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
    Ok(busy == 0)
}

/// The state of a database's files, as far as their directory tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FilesStamp {
    main: Option<(u64, SystemTime)>,
    log: Option<(u64, SystemTime)>,
}

impl FilesStamp {
    fn of(path: &Path) -> FilesStamp {
        let stamp = |path: &Path| {
            let metadata = std::fs::metadata(path).ok()?;
            Some((metadata.len(), metadata.modified().ok()?))
        };
        // A log that is empty, or has only its header, counts as missing.
        FilesStamp { main: stamp(path), log: stamp(&log_of(path)).filter(|(length, _)| *length > LOG_HEADER) }
    }
}

/// How much damage a reader tolerates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tolerance {
    /// Nothing: a file that is not as it should be is an error.
    None,
    /// A file that was cut off, or whose list of tables is partly damaged. SQLite allows that only with a setting
    /// that makes the list writable; the connection is read-only, so the list stays as it is.
    Damage,
}

impl Borrow<Connection> for Reader {
    fn borrow(&self) -> &Connection {
        &self.connection
    }
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
        let stamp = FilesStamp::of(path);
        // A rollback journal is of no other use than to undo what the main file holds.
        if stamp.log.is_none() && !beside(path, "-journal").exists() {
            let connection = open_theirs(path, Theirs::Unchanging)?;
            return Ok(Reader { connection, relies_on: Some(stamp) });
        }
        expect_files(path)?;
        let connection = open_theirs(path, Theirs::Logged(index))?;
        match connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(())) {
            // It is built in memory instead.
            Err(error) if index == LogIndex::Untouched && is_about_index(&error) => {
                let connection = open_theirs(path, Theirs::WithoutLocks)?;
                Ok(Reader { connection, relies_on: Some(stamp) })
            }
            _ => Ok(Reader { connection, relies_on: None }),
        }
    }

    /// Whether what was read since it was opened is what one moment's files held, and those are the files at the path.
    fn is_sound(&self, path: &Path) -> bool {
        match self.relies_on {
            Some(stamp) => stamp == FilesStamp::of(path),
            None => !has_moved(&self.connection),
        }
    }
}

/// Whether the index of a log could not be used without writing to it: it is missing or out of use.
fn is_about_index(error: &rusqlite::Error) -> bool {
    let codes = [ErrorCode::CannotOpen, ErrorCode::ReadOnly, ErrorCode::FileLockingProtocolFailed];
    code(error).is_some_and(|code| codes.contains(&code))
}
