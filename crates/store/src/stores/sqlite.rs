//! annals.db: the store that conversations deserve. It acknowledges a transaction once that is on the disk, keeps every
//! earlier state of every document, and keeps what it found in the homes of agents even after it is gone there.
//!
//! `docs/storage-format.md` describes the file. Documents are kept byte for byte, with a hash; everything else can be
//! rebuilt from them.

mod backup;
mod check;
mod clock;
mod codec;
mod commit;
mod comparing;
mod content;
mod derived;
mod events;
mod facts;
mod file;
mod find_text;
mod finding;
mod followed;
mod following;
mod forget;
mod held;
mod kind;
mod logged;
mod looks;
mod numbers;
mod operations;
mod origin;
mod past;
mod prune;
mod quarantine;
mod read;
mod restore;
mod revise;
mod rows;
mod scan;
mod shape;
mod shared;
mod sharing;
mod similar;
mod state;
mod streaming;
mod subscribe;
mod tail;
mod text_index;
mod upgrade;

use std::io;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::{Arc, Mutex};

use annals_core::Key;
use annals_core::id::{Millis, SessionId};
use rusqlite::{Connection, OptionalExtension};

use crate::home::{CommitError, ReadError};
use crate::sqlite;
use crate::store::{OpenStoreError, Store};
use crate::upkeep::{BackupError, BackupReport, ForgetError, Forgotten, Pruned, Upkeep};
pub(crate) use codec::DICTIONARY_BYTES as TEXT_OF_EVERY_STORE;
use file::{BeginError, StoreFile, Writing};
pub use restore::restore_backup;
use subscribe::Feed;

/// The first version of the tables.
const SCHEMA_SQL: &str = include_str!("sqlite/schema-1.sql");
/// Upgrades from each version of the tables to the next, beginning with version 1.
const UPGRADES: &[&str] = &[
    include_str!("sqlite/schema-2.sql"),
    include_str!("sqlite/schema-3.sql"),
    include_str!("sqlite/schema-4.sql"),
    include_str!("sqlite/schema-5.sql"),
    include_str!("sqlite/schema-6.sql"),
    include_str!("sqlite/schema-7.sql"),
];
/// The version of the tables.
const SCHEMA: i64 = 1 + UPGRADES.len() as i64;

/// A store: `annals.db`.
///
/// ```
/// use annals::SqliteStore;
/// use annals::home::{Read, Write};
/// use annals::model::{Document, Key, Transaction, id::ProjectId, lens::Session};
///
/// let directory = tempfile::tempdir()?;
/// let store = SqliteStore::open_or_create(&directory.path().join("annals.db"))?;
/// let session = annals::ids::new_session();
/// let mut transaction = Transaction::new("a session begins");
/// transaction.insert(
///     Key::Session(ProjectId::global(), session.clone()),
///     Document::new(&Session { id: Some((&session).into()), title: Some("Fix it".into()), ..Default::default() }),
/// );
/// let receipt = store.commit(transaction)?; // On the disk now.
/// assert_eq!(receipt.revision, Some(1));
/// assert!(store.session(&session)?.is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct SqliteStore {
    file: Arc<StoreFile>,
    /// Whether an older annals than the one that made the tables may still write to them.
    is_newer: bool,
    clock: fn() -> Millis,
    /// The operation that commits are part of.
    operation: Option<i64>,
    /// Revisions that were committed once and were missing when the store was opened.
    lost: Option<RangeInclusive<i64>>,
    /// The feed that subscribers read. It outlives the store as long as there are subscribers.
    feed: Arc<Feed>,
    /// The text index, after the first search.
    open_index: Mutex<Option<text_index::OpenIndex>>,
}

impl OpenStoreError {
    fn io(path: &Path, error: &io::Error) -> OpenStoreError {
        let path = path.display().to_string();
        match error.kind() {
            io::ErrorKind::NotFound => OpenStoreError::NotFound { path },
            io::ErrorKind::StorageFull => OpenStoreError::NoRoom { path },
            _ => OpenStoreError::Refused { path, what: error.to_string() },
        }
    }

    fn sqlite(path: &Path, error: &rusqlite::Error) -> OpenStoreError {
        let shown = path.display().to_string();
        match sqlite::code(error) {
            Some(rusqlite::ErrorCode::NotADatabase) => OpenStoreError::NotAStore { path: shown },
            _ if sqlite::is_damage(error) => OpenStoreError::Damaged { path: shown, what: error.to_string() },
            _ if sqlite::is_disk_full(error, path) => OpenStoreError::NoRoom { path: shown },
            _ => OpenStoreError::Refused { path: shown, what: error.to_string() },
        }
    }
}

impl SqliteStore {
    /// Opens a store. Upgrades tables of an earlier version, after a backup.
    pub fn open(path: &Path) -> Result<SqliteStore, OpenStoreError> {
        SqliteStore::open_with(path, UPGRADES)
    }

    /// Opens a store, and makes an empty one if there is none.
    pub fn open_or_create(path: &Path) -> Result<SqliteStore, OpenStoreError> {
        match SqliteStore::open(path) {
            Err(OpenStoreError::NotFound { .. }) => {}
            opened => return opened,
        }
        StoreFile::create(path, |connection| {
            connection.execute_batch("BEGIN IMMEDIATE")?;
            connection.execute_batch(SCHEMA_SQL)?;
            connection.execute(
                "INSERT INTO meta (name, value) VALUES ('schema', ?1), ('reader', 1), ('store', ?2)",
                (SCHEMA, new_identity()),
            )?;
            connection.execute(
                "INSERT INTO dictionary (id, bytes) VALUES (?1, ?2)",
                (codec::DICTIONARY, codec::DICTIONARY_BYTES),
            )?;
            UPGRADES.iter().try_for_each(|step| connection.execute_batch(step))?;
            connection.execute_batch("COMMIT")
        })?;
        SqliteStore::open(path)
    }

    /// Whether a file is a store. Reads the file without leaving a trace.
    pub fn is_one(path: &Path) -> bool {
        let file = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let application = sqlite::Connections::to(&file, sqlite::Tolerance::None)
            .read(|connection| connection.query_row("PRAGMA application_id", [], |row| row.get::<_, i32>(0)));
        application.is_ok_and(|application| application == file::APPLICATION_ID)
    }

    fn open_with(path: &Path, upgrades: &[&str]) -> Result<SqliteStore, OpenStoreError> {
        match std::fs::metadata(path) {
            Ok(metadata) if metadata.is_file() => {}
            Ok(_) => return Err(OpenStoreError::NotAStore { path: path.display().to_string() }),
            Err(error) => return Err(OpenStoreError::io(path, &error)),
        }
        let known = 1 + upgrades.len() as i64;
        let file = StoreFile::open(path)?;
        let versions = |connection: &Connection| {
            let application: i32 = connection.query_row("PRAGMA application_id", [], |row| row.get(0))?;
            if application != file::APPLICATION_ID {
                return Ok(None);
            }
            let meta = |name: &str| -> rusqlite::Result<Option<i64>> {
                connection
                    .query_row("SELECT value FROM meta WHERE name = ?1", [name], |row| row.get(0))
                    .optional()
            };
            Ok(meta("schema")?.zip(meta("reader")?))
        };
        let failed = |error: rusqlite::Error| OpenStoreError::sqlite(path, &error);
        let (file, found) = match file.read(versions) {
            Err(error) if sqlite::is_damage(&error) => {
                let file = StoreFile::open_damaged(path)?;
                let found = file.read(versions).map_err(failed)?;
                (file, found)
            }
            found => (file, found.map_err(failed)?),
        };
        let Some((schema, reader)) = found else {
            return Err(OpenStoreError::NotAStore { path: path.display().to_string() });
        };
        if reader > known {
            return Err(OpenStoreError::Newer { path: path.display().to_string(), found: schema, known });
        }
        if schema < known && !file.is_read_only() {
            upgrade::upgrade(&file, upgrades)?;
        }
        let file = Arc::new(file);
        Ok(SqliteStore {
            lost: file.lost(),
            feed: Arc::new(Feed::new(Arc::clone(&file))),
            file,
            is_newer: schema > known,
            clock: crate::ids::now,
            operation: None,
            open_index: Mutex::default(),
        })
    }

    /// The store with another clock, for tests that depend on time.
    #[must_use]
    pub fn with_clock(self, clock: fn() -> Millis) -> SqliteStore {
        SqliteStore { clock, ..self }
    }

    fn another(&self) -> SqliteStore {
        SqliteStore {
            file: Arc::clone(&self.file),
            feed: Arc::clone(&self.feed),
            lost: self.lost.clone(),
            is_newer: self.is_newer,
            clock: self.clock,
            operation: self.operation,
            open_index: Mutex::default(),
        }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    pub(crate) fn now(&self) -> Millis {
        (self.clock)()
    }

    pub(crate) fn read<T>(
        &self,
        work: impl FnMut(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, ReadError> {
        self.file.read(work).map_err(|error| self.read_error(&error))
    }

    /// Begins a transaction that writes.
    pub(crate) fn write(&self) -> Result<Writing<'_>, CommitError> {
        if self.is_newer {
            return Err(CommitError::Unsupported(format!(
                "{} was made by a later version of annals and is only read",
                self.shown()
            )));
        }
        if self.file.is_damaged() {
            return Err(CommitError::Unsupported(format!("{} is damaged and is only read", self.shown())));
        }
        self.file.write().map_err(|error| self.begin_error(error))
    }

    /// Makes a transaction durable and tells subscribers.
    pub(crate) fn finish(&self, writing: Writing<'_>) -> Result<(), CommitError> {
        writing.commit().map_err(|error| self.commit_error(&error))?;
        self.feed.committed();
        Ok(())
    }

    pub(crate) fn read_error(&self, error: &rusqlite::Error) -> ReadError {
        ReadError::Database { path: self.shown(), what: error.to_string() }
    }

    fn begin_error(&self, error: BeginError) -> CommitError {
        match error {
            BeginError::ReadOnly => CommitError::ReadOnly {
                path: self.shown(),
                source: io::Error::from(io::ErrorKind::PermissionDenied),
            },
            BeginError::Queue(source) => CommitError::Failed { path: self.shown(), source },
            BeginError::Sqlite(error) => self.commit_error(&error),
        }
    }

    pub(crate) fn commit_error(&self, error: &rusqlite::Error) -> CommitError {
        let path = self.shown();
        match sqlite::code(error) {
            Some(rusqlite::ErrorCode::DatabaseBusy | rusqlite::ErrorCode::DatabaseLocked) => {
                CommitError::Busy { path }
            }
            Some(rusqlite::ErrorCode::ReadOnly) => {
                CommitError::ReadOnly { path, source: io::Error::from(io::ErrorKind::PermissionDenied) }
            }
            _ if sqlite::is_disk_full(error, self.path()) => {
                CommitError::Failed { path, source: io::Error::from(io::ErrorKind::StorageFull) }
            }
            _ => CommitError::Failed { path, source: io::Error::other(error.to_string()) },
        }
    }

    pub(crate) fn shown(&self) -> String {
        self.path().display().to_string()
    }
}

impl Store for SqliteStore {
    fn handle(&self) -> Box<dyn Store> {
        Box::new(self.another())
    }

    fn with_clock(self: Box<Self>, clock: fn() -> Millis) -> Box<dyn Store> {
        Box::new(SqliteStore::with_clock(*self, clock))
    }

    fn head(&self) -> Result<i64, ReadError> {
        self.read(file::head)
    }

    fn lost(&self) -> Option<RangeInclusive<i64>> {
        self.lost.clone()
    }

    fn is_read_only(&self) -> bool {
        self.file.is_read_only() || self.is_newer
    }

    fn bytes(&self) -> u64 {
        let size = |path: &Path| std::fs::metadata(path).map_or(0, |metadata| metadata.len());
        size(self.path()) + size(&sqlite::log_of(self.path()))
    }
}

impl Upkeep for SqliteStore {
    fn prune(
        &self,
        older_than: Millis,
        sessions: Option<&[SessionId]>,
        dry_run: bool,
    ) -> Result<Pruned, CommitError> {
        self.prune_states(older_than, sessions, dry_run)
    }

    fn forget(&self, sessions: &[SessionId]) -> Result<Forgotten, ForgetError> {
        self.forget_all(sessions)
    }

    fn is_forgotten(&self, session: &SessionId) -> Result<bool, ReadError> {
        self.has_forgotten(session)
    }

    fn backup(&self, target: &Path, progress: &dyn Fn(usize, usize)) -> Result<BackupReport, BackupError> {
        self.copy_to(target, progress)
    }

    fn share_texts(&self, copies: &[(Key, Key)]) -> Result<usize, CommitError> {
        self.share_all(copies)
    }

    fn rederive(&self) -> Result<(), CommitError> {
        self.rederive_all()
    }
}

/// The identity of a store. It changes when sessions are forgotten, so that data derived from the store before that is recognised as out of date.
fn new_identity() -> String {
    crate::ids::random_name()
}
