//! The database file of a store: made, opened, shared by threads and processes.
//!
//! Writers queue at a lock file, where the kernel wakes them in turn, and then begin a transaction that may write from its
//! first statement on; so no writer ever meets a locked database. Readers never wait. A file that cannot be
//! written to is read as another user's file is: without leaving a trace.

use std::fs::File;
use std::io::{self, Seek, Write};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use rusqlite::Connection;

use super::OpenStoreError;
use crate::platform;
use crate::scratch::{self, Scratch};
use crate::sqlite::{self, Connections, Ours, Pool, Tolerance, lock};

/// Older versions can lose commits when a log starts over (https://sqlite.org/wal.html#walresetbug).
const OLDEST_SQLITE: i32 = 3_051_003;
/// How long to wait for readers before the log is emptied. No process can write meanwhile.
const SHORT_PATIENCE: Duration = Duration::from_millis(250);

/// `annl`: the application id of the file.
pub(super) const APPLICATION_ID: i32 = 0x616e_6e6c;

/// The connections of this process to one store.
#[derive(Debug)]
pub(super) struct StoreFile {
    path: PathBuf,
    access: Access,
}

#[derive(Debug)]
enum Access {
    /// This process may write to it.
    Full { readers: Pool<Connection>, writer: Mutex<Writer> },
    /// On a disk that cannot be written to, or another user's.
    ReadOnly(Arc<Connections>),
    /// Cut short, or otherwise in a state in which SQLite does not write to it.
    Damaged(Arc<Connections>),
}

/// The right to write: in this process, the thread that holds this; between processes, the one that holds the lock file.
#[derive(Debug)]
struct Writer {
    connection: Option<Connection>,
    queue: File,
}

/// A transaction that writes. It is rolled back if it is dropped without `commit`.
#[derive(Debug)]
pub(crate) struct Writing<'f> {
    writer: MutexGuard<'f, Writer>,
    is_done: bool,
}

impl StoreFile {
    /// Opens a store that exists.
    pub(super) fn open(path: &Path) -> Result<StoreFile, OpenStoreError> {
        if rusqlite::version_number() < OLDEST_SQLITE {
            return Err(OpenStoreError::OldSqlite { found: rusqlite::version().to_owned() });
        }
        refuse_network(path)?;
        // The log lies beside the file itself, not beside a link to it.
        let path = path.canonicalize().map_err(|error| OpenStoreError::io(path, &error))?;
        sqlite::expect_files(&path).map_err(|error| OpenStoreError::sqlite(&path, &error))?;
        let access = match lock_file(&path) {
            Ok(queue) if is_writable(&path) => Access::Full {
                readers: Pool::default(),
                writer: Mutex::new(Writer { connection: None, queue }),
            },
            Ok(_) => Access::ReadOnly(Connections::to(&path, Tolerance::None)),
            Err(error) if platform::is_read_only(&error) => {
                Access::ReadOnly(Connections::to(&path, Tolerance::None))
            }
            Err(error) => return Err(OpenStoreError::io(&path, &error)),
        };
        Ok(StoreFile { path, access })
    }

    /// Opens a store that SQLite refuses to open normally, so that its readable part can be read.
    pub(super) fn open_damaged(path: &Path) -> Result<StoreFile, OpenStoreError> {
        let path = path.canonicalize().map_err(|error| OpenStoreError::io(path, &error))?;
        let access = Access::Damaged(Connections::to(&path, Tolerance::Damage));
        Ok(StoreFile { path, access })
    }

    /// Creates an empty database, readable only by its owner from the first byte on, and calls `fill` to put tables into
    /// it. Leaves an existing database as it is.
    pub(super) fn create(
        path: &Path,
        fill: impl FnOnce(&Connection) -> rusqlite::Result<()>,
    ) -> Result<(), OpenStoreError> {
        let refused = |error: io::Error| OpenStoreError::io(path, &error);
        let directory = scratch::parent_of(path);
        platform::create_private_directory(directory).map_err(refused)?;
        refuse_network(directory)?;
        // The file is made under another name and moved when complete, so that a process that finds a store finds all its
        // tables. Errors do not mention that name.
        let unnamed = |error: io::Error| refused(io::Error::from(error.kind()));
        let draft = Scratch::new_in(directory).map_err(unnamed)?;
        let made = draft.path().join("annals.db");
        platform::create_private_file(&made).map_err(refused)?;
        let filled = sqlite::open_ours(&made, Ours::Draft).and_then(|connection| {
            // The layout that lets pruned pages be given back to the disk can be chosen only while the file is empty.
            connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
            connection.pragma_update(None, "application_id", APPLICATION_ID)?;
            fill(&connection)?;
            connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))
        });
        filled.map_err(|error| OpenStoreError::sqlite(path, &error))?;
        match scratch::place_new(&made, path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            placed => placed.map_err(refused)?,
        }
        // A number that is noted there belongs to an earlier store that is gone.
        lock_file(path).and_then(|queue| queue.set_len(0)).map_err(refused)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The number of the last revision that a writer noted, if it is not in the database: then its log was cut or deleted.
    pub(super) fn lost(&self) -> Option<RangeInclusive<i64>> {
        // In this order, a commit that comes in between only makes the second number higher.
        let noted = platform::read_file(&sqlite::beside(&self.path, "-lock")).ok()?;
        let noted = i64::from_le_bytes(noted.get(..8)?.try_into().ok()?);
        let head = self.read(head).ok()?;
        (noted > head).then(|| head + 1..=noted)
    }

    pub(super) fn is_read_only(&self) -> bool {
        !matches!(self.access, Access::Full { .. })
    }

    pub(super) fn is_damaged(&self) -> bool {
        matches!(self.access, Access::Damaged(_))
    }

    /// Runs `work` in one read transaction, so that it sees one state of everything.
    pub(super) fn read<T>(
        &self,
        work: impl FnMut(&Connection) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        match &self.access {
            Access::ReadOnly(connections) | Access::Damaged(connections) => connections.read(work),
            Access::Full { readers, .. } => {
                let open = || sqlite::open_ours(&self.path, Ours::Read);
                // If a backup was restored meanwhile, the rows may come from the former file, read with the log of the
                // new one.
                let is_sound =
                    |connection: &Connection, _: &rusqlite::Result<T>| !sqlite::has_moved(connection);
                readers.read(open, is_sound, work)
            }
        }
    }

    /// Begins a transaction that writes, after all writers that came before are done.
    pub(super) fn write(&self) -> Result<Writing<'_>, BeginError> {
        let Access::Full { writer, .. } = &self.access else { return Err(BeginError::ReadOnly) };
        let writer = lock(writer);
        writer.queue.lock().map_err(BeginError::Queue)?;
        let mut writing = Writing { writer, is_done: false };
        let begun = writing.begin(&self.path);
        begun.map(|()| writing).map_err(BeginError::Sqlite)
    }

    /// Copies the log into the main file and empties it, so that no deleted data is left there. False if a reader still
    /// uses the log.
    pub(super) fn empty_log(&self) -> Result<bool, BeginError> {
        if let Access::Full { readers, .. } = &self.access {
            readers.clear();
        }
        let emptied = self.exclusively(|connection| {
            connection.busy_timeout(SHORT_PATIENCE)?;
            let emptied = sqlite::empty_log(connection);
            connection.busy_timeout(sqlite::OUR_PATIENCE)?;
            emptied
        })?;
        emptied.map_err(BeginError::Sqlite)
    }

    /// Waits until no process writes, and keeps writers out while `work` changes the files themselves.
    pub(super) fn exclusively<T>(&self, work: impl FnOnce(&Connection) -> T) -> Result<T, BeginError> {
        let Access::Full { writer, .. } = &self.access else { return Err(BeginError::ReadOnly) };
        let mut writer = lock(writer);
        writer.queue.lock().map_err(BeginError::Queue)?;
        let result = match writer.connection(&self.path) {
            Ok(connection) => Ok(work(connection)),
            Err(error) => Err(BeginError::Sqlite(error)),
        };
        let _ = writer.queue.unlock();
        result
    }
}

/// Why a transaction could not begin.
#[derive(Debug)]
pub(super) enum BeginError {
    ReadOnly,
    Queue(io::Error),
    Sqlite(rusqlite::Error),
}

impl Writer {
    /// The connection that writes. Called with the queue locked.
    fn connection(&mut self, path: &Path) -> rusqlite::Result<&Connection> {
        if self.connection.as_ref().is_none_or(sqlite::has_moved) {
            // Once in the life of a process, and not in processes that only read.
            scratch::sweep_beside(path);
            self.connection = Some(sqlite::open_ours(path, Ours::Written)?);
        }
        Ok(self.connection.as_ref().expect("it was just opened"))
    }
}

impl Writing<'_> {
    fn begin(&mut self, path: &Path) -> rusqlite::Result<()> {
        self.writer.connection(path)?.execute_batch("BEGIN IMMEDIATE")
    }

    /// Makes everything durable.
    pub(super) fn commit(mut self) -> rusqlite::Result<()> {
        let head = head(&self);
        self.execute_batch("COMMIT")?;
        self.is_done = true;
        // The number goes into the lock file. That is not synced, so it can be behind, but never ahead.
        if let Ok(head) = head {
            let mut queue = &self.writer.queue;
            let _ = queue.rewind().and_then(|()| queue.write_all(&head.to_le_bytes()));
        }
        Ok(())
    }
}

impl std::ops::Deref for Writing<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.writer.connection.as_ref().expect("a transaction has a connection")
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        if !self.is_done
            && self.writer.connection.as_ref().is_some_and(|connection| !connection.is_autocommit())
        {
            // A rollback fails only where SQLite has done it already; a connection in doubt is not used again.
            let undone =
                self.writer.connection.as_ref().map(|connection| connection.execute_batch("ROLLBACK"));
            if undone.is_some_and(|undone| undone.is_err()) {
                self.writer.connection = None;
            }
        }
        let _ = self.writer.queue.unlock();
    }
}

/// The number of the last revision; 0 in an empty store.
pub(super) fn head(connection: &Connection) -> rusqlite::Result<i64> {
    connection.prepare_cached("SELECT coalesce(max(n), 0) FROM revision")?.query_row([], |row| row.get(0))
}

/// The file at which writers queue. It holds the number of the last revision.
pub(super) fn lock_file(path: &Path) -> io::Result<File> {
    platform::open_private_file(&sqlite::beside(path, "-lock"))
}

/// Whether the file itself can be written to. Asked without opening it: closing it again would drop SQLite's locks.
fn is_writable(path: &Path) -> bool {
    platform::may_write(path) && path.parent().is_none_or(platform::may_write)
}

pub(super) fn refuse_network(path: &Path) -> Result<(), OpenStoreError> {
    match platform::network_file_system(path) {
        Some(kind) => Err(OpenStoreError::Network { path: path.display().to_string(), kind }),
        None => Ok(()),
    }
}
