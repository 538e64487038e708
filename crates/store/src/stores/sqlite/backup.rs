//! Backups: a copy of one moment of the store, made while others write, and trusted only after all of it was read.

use std::io;
use std::path::{Path, PathBuf};

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OptionalExtension};

use super::file;
use super::scan::{EXAMINED, Examined, StateTable, examine};
use super::{SCHEMA, SqliteStore, shape};
use crate::platform;
use crate::scratch::{self, Scratch, parent_of};
use crate::sqlite::{self, Connections, Ours, Tolerance};
use crate::upkeep::{BackupError, BackupReport};

/// Number of pages copied between two calls of `progress`.
const PAGES: i32 = 256;

impl BackupError {
    pub(super) fn io(path: &Path, source: io::Error) -> BackupError {
        let path = path.display().to_string();
        match source.kind() {
            io::ErrorKind::NotFound => BackupError::NotFound { path },
            io::ErrorKind::StorageFull => BackupError::NoRoom { path },
            _ => BackupError::Io { path, source },
        }
    }

    /// Copying from one file to another failed.
    pub(super) fn copying(from: &Path, to: &Path, error: &rusqlite::Error) -> BackupError {
        let path = from.display().to_string();
        match sqlite::code(error) {
            Some(rusqlite::ErrorCode::NotADatabase) => BackupError::NotAStore { path },
            _ if sqlite::is_damage(error) => BackupError::Damaged { path, what: error.to_string() },
            _ if sqlite::is_disk_full(error, to) => BackupError::NoRoom { path: to.display().to_string() },
            _ => BackupError::Database { path, what: error.to_string() },
        }
    }
}

impl SqliteStore {
    pub(super) fn copy_to(
        &self,
        target: &Path,
        progress: &dyn Fn(usize, usize),
    ) -> Result<BackupReport, BackupError> {
        // SQLite would take a log that an earlier database left there for the backup's.
        for path in [target.to_owned(), sqlite::log_of(target), sqlite::beside(target, "-journal")] {
            if path.symlink_metadata().is_ok() {
                return Err(BackupError::Exists { path: path.display().to_string() });
            }
        }
        let draft = Draft::beside(target)?;
        let copied = self.file.read(|connection| draft.copy(connection, progress));
        copied.map_err(|error| BackupError::copying(self.path(), target, &error))?;
        let contents = draft.verify(self.path())?;
        draft.place_new(target)?;
        Ok(BackupReport {
            bytes: contents.bytes,
            documents: contents.documents,
            revisions: contents.revisions,
        })
    }
}

/// A copy that has no name yet: in a directory of its own beside its future place. Dropping it removes it.
#[derive(Debug)]
pub(super) struct Draft {
    directory: Scratch,
    parent: PathBuf,
}

/// The content that was found in a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Contents {
    pub(super) bytes: u64,
    pub(super) documents: usize,
    pub(super) revisions: usize,
}

/// Why a file is not a store that could be used.
#[derive(Debug)]
enum Flaw {
    NotAStore,
    Newer(i64),
    Damaged(String),
}

impl Flaw {
    fn of(self, path: &Path) -> BackupError {
        let path = path.display().to_string();
        match self {
            Flaw::NotAStore => BackupError::NotAStore { path },
            Flaw::Newer(found) => BackupError::Newer { path, found, known: SCHEMA },
            Flaw::Damaged(what) => BackupError::Damaged { path, what },
        }
    }
}

impl Draft {
    pub(super) fn beside(target: &Path) -> Result<Draft, BackupError> {
        let parent = parent_of(target).to_owned();
        let refused = |error: io::Error| BackupError::io(&parent, error);
        let directory = Scratch::new_in(&parent).map_err(refused)?;
        let draft = Draft { directory, parent: parent.clone() };
        platform::create_private_file(&draft.path()).map_err(refused)?;
        Ok(draft)
    }

    /// The file.
    pub(super) fn path(&self) -> PathBuf {
        self.directory.path().join("annals.db")
    }

    /// Moves a file into the draft's directory, so that it vanishes with it.
    pub(super) fn take(&self, path: &Path, name: &str) -> io::Result<()> {
        match std::fs::rename(path, self.directory.path().join(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            moved => moved,
        }
    }

    /// Copies all pages of a database, as the current transaction of its connection sees them. May be called again if that
    /// transaction has to be repeated.
    pub(super) fn copy(&self, from: &Connection, progress: &dyn Fn(usize, usize)) -> rusqlite::Result<()> {
        let mut to = sqlite::open_ours(&self.path(), Ours::Draft)?;
        // From its first read on, the transaction sees one moment, so writes that happen meanwhile do not make the copy
        // start over.
        from.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
        let backup = Backup::new(from, &mut to)?;
        loop {
            let step = backup.step(PAGES)?;
            let left = backup.progress();
            let [total, left] = [left.pagecount, left.remaining].map(|n| usize::try_from(n).unwrap_or(0));
            progress(total.saturating_sub(left), total);
            match step {
                StepResult::Done => return Ok(()),
                StepResult::More => {}
                _ => {
                    let busy = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY);
                    return Err(rusqlite::Error::SqliteFailure(busy, None));
                }
            }
        }
    }

    /// Reads all of the copy. `origin` is the file that errors name.
    pub(super) fn verify(&self, origin: &Path) -> Result<Contents, BackupError> {
        let path = self.path();
        let verified = Connections::to(&path, Tolerance::None).read(verify);
        let verified = verified.map_err(|error| BackupError::copying(origin, &path, &error))?;
        let (documents, revisions) = verified.map_err(|flaw| flaw.of(origin))?;
        let bytes = std::fs::metadata(&path).map_err(|error| BackupError::io(&path, error))?.len();
        Ok(Contents { bytes, documents, revisions })
    }

    /// Checks that the copy has the tables of a store and nothing else. `origin` is the file that errors name.
    pub(super) fn verify_tables(&self, origin: &Path) -> Result<(), BackupError> {
        let path = self.path();
        let flaw = Connections::to(&path, Tolerance::None).read(shape::flaw);
        match flaw.map_err(|error| BackupError::copying(origin, &path, &error))? {
            Some(what) => Err(Flaw::Damaged(what).of(origin)),
            None => Ok(()),
        }
    }

    /// Makes the content durable.
    pub(super) fn sync(&self) -> io::Result<()> {
        std::fs::File::open(self.path())?.sync_all()
    }

    /// Gives the copy its name. No other file may have it.
    pub(super) fn place_new(self, target: &Path) -> Result<(), BackupError> {
        scratch::place_new(&self.path(), target).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => BackupError::Exists { path: target.display().to_string() },
            _ => BackupError::io(target, error),
        })
    }

    /// Gives the copy a name, unless another file has it.
    pub(super) fn link(&self, target: &Path) -> io::Result<()> {
        scratch::link(&self.path(), target)
    }

    pub(super) fn sync_parent(&self) -> io::Result<()> {
        platform::sync_directory(&self.parent)
    }
}

/// Whether a database is a store that this version can read, before anything else of it is looked at.
pub(super) fn identify(connection: &Connection, path: &Path) -> rusqlite::Result<Result<(), BackupError>> {
    Ok(known_schema(connection)?.map_err(|flaw| flaw.of(path)))
}

fn known_schema(connection: &Connection) -> rusqlite::Result<Result<(), Flaw>> {
    let application: i32 = connection.query_row("PRAGMA application_id", [], |row| row.get(0))?;
    if application != file::APPLICATION_ID {
        return Ok(Err(Flaw::NotAStore));
    }
    let version = |name: &str| -> rusqlite::Result<Option<i64>> {
        connection.query_row("SELECT value FROM meta WHERE name = ?1", [name], |row| row.get(0)).optional()
    };
    Ok(match version("schema")?.zip(version("reader")?) {
        None => Err(Flaw::NotAStore),
        Some((schema, reader)) if reader > SCHEMA => Err(Flaw::Newer(schema)),
        Some(_) => Ok(()),
    })
}

/// Reads everything, and counts documents and revisions or says what is wrong.
fn verify(connection: &Connection) -> rusqlite::Result<Result<(usize, usize), Flaw>> {
    if let Err(flaw) = known_schema(connection)? {
        return Ok(Err(flaw));
    }
    let found: String = connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    if found != "ok" {
        return Ok(Err(Flaw::Damaged(found)));
    }
    // No store has views or triggers; one in the place of a table would make every later command fail.
    let sql = "SELECT type || ' ' || name FROM sqlite_schema WHERE type IN ('view', 'trigger')";
    let foreign: Option<String> = connection.query_row(sql, [], |row| row.get(0)).optional()?;
    if let Some(foreign) = foreign {
        return Ok(Err(Flaw::Damaged(format!("it has a {foreign}, which no store has"))));
    }
    let dangling = connection.prepare("PRAGMA foreign_key_check")?.exists([])?;
    let endless = "SELECT 1 FROM past WHERE written NOTNULL AND written NOT IN (SELECT n FROM revision)";
    if dangling || connection.prepare(endless)?.exists([])? {
        return Ok(Err(Flaw::Damaged("rows refer to rows that do not exist".to_owned())));
    }
    let mut n_documents = 0;
    for table in [StateTable::Document, StateTable::Past] {
        let bound = match table {
            StateTable::Document => "0, 0",
            StateTable::Past => "x.document, x.since",
        };
        let sql = format!("SELECT {EXAMINED}, {bound} FROM {} x", table.name());
        let mut statement = connection.prepare(&sql)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let bound = (row.get(5)?, row.get(6)?);
            match examine(connection, row, 0, Some(bound).filter(|_| table == StateTable::Past))? {
                Examined::Flawed(what) => return Ok(Err(Flaw::Damaged(format!("a document: {what}")))),
                Examined::Text(_) if table == StateTable::Document => n_documents += 1,
                _ => {}
            }
        }
    }
    let n_revisions = connection.query_row("SELECT count(*) FROM revision", [], |row| row.get(0))?;
    Ok(Ok((n_documents, n_revisions)))
}
