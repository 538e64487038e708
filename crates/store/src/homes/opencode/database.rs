//! OpenCode's database as a home: every schema from 1.2.0 to 1.18.33 read, the ones that are known also written.
//!
//! Messages and parts are rows of `data` with their ids in columns, sessions and projects are columns alone; documents
//! are rebuilt from them as OpenCode rebuilds them. What newer versions keep in a second transcript store
//! (`session_message`) is shown in the shape of the first. Differences of sessions are files beside the database.

mod check;
mod column;
mod commit;
mod converted;
mod diff_file;
mod events;
mod pieces;
mod read;
mod row;
mod salvage;
mod schema;
mod space;
mod survey;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::Connection;

use crate::home::ReadError;
use crate::home::pieces::Noter;
use crate::scratch::{self, Scratch};
use crate::sqlite::{self, Connections, Tolerance};
pub use schema::Generation;
use schema::Schema;

/// A database of OpenCode, such as `~/.local/share/opencode/opencode.db`.
#[derive(Debug)]
pub struct OpencodeDatabase {
    path: PathBuf,
    schema: Schema,
    connections: Arc<Connections>,
    /// Told of commits, if somebody wants to know.
    noter: Option<Noter>,
}

/// A file could not be opened as a home.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenDbError {
    /// There is nothing at the path.
    #[error("{path} does not exist")]
    NotFound {
        /// The path.
        path: String,
    },
    /// The main file is missing or empty, but its log is there. Opening it the usual way would remove the log.
    #[error("{path} is {state}, but its write-ahead log {path}-wal holds {log_bytes} bytes")]
    OnlyLog {
        /// The path of the main file.
        path: String,
        /// `missing` or `empty`.
        state: &'static str,
        /// Size of the log.
        log_bytes: u64,
    },
    /// It is a file of another kind.
    #[error("{path} is not a SQLite database")]
    NotADatabase {
        /// The path.
        path: String,
    },
    /// It is a database of something else.
    #[error("{path} is a database, but not one of OpenCode's: it has no tables `session` and `message`")]
    NotOpencode {
        /// The path.
        path: String,
    },
    /// Its list of tables cannot be read.
    #[error("{path} is damaged where its tables are listed: {source}")]
    Damaged {
        /// The path.
        path: String,
        /// What SQLite said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A new one could not be made, because the disk is full.
    #[error("cannot make {path}: the disk is full")]
    NoRoom {
        /// The path.
        path: String,
    },
    /// The operating system or SQLite refused.
    #[error("cannot open {path}: {source}")]
    Refused {
        /// The path.
        path: String,
        /// What the system or SQLite said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl OpencodeDatabase {
    /// Opens a database for reading and writing. Nothing is changed, and no write access is needed, until something is
    /// committed.
    pub fn open(path: &Path) -> Result<OpencodeDatabase, OpenDbError> {
        let shown = || path.display().to_string();
        let length = match std::fs::metadata(path) {
            Ok(metadata) if metadata.is_file() => Some(metadata.len()),
            // A pipe would be waited for.
            Ok(_) => return Err(OpenDbError::NotADatabase { path: shown() }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(OpenDbError::Refused { path: shown(), source: error.into() }),
        };
        // The log lies beside the file itself, not beside a link to it; and a file is one, whatever its names.
        let file = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let log_bytes = std::fs::metadata(sqlite::log_of(&file)).map_or(0, |metadata| metadata.len());
        match length {
            None | Some(0) if log_bytes > 0 => {
                let state = if length.is_none() { "missing" } else { "empty" };
                return Err(OpenDbError::OnlyLog { path: shown(), state, log_bytes });
            }
            None => return Err(OpenDbError::NotFound { path: shown() }),
            Some(_) => {}
        }
        // The directory may be left and the name given relative to it.
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let probe = |tolerance| {
            let connections = Connections::to(&file, tolerance);
            Ok((connections.read(Schema::probe)?, connections))
        };
        let opened = match probe(Tolerance::None) {
            Err(error) if sqlite::is_damage(&error) => probe(Tolerance::Damage).map_err(|_| error),
            opened => opened,
        };
        let (schema, connections) = opened.map_err(|error: rusqlite::Error| match sqlite::code(&error) {
            Some(rusqlite::ErrorCode::NotADatabase) => OpenDbError::NotADatabase { path: shown() },
            _ if sqlite::is_damage(&error) => OpenDbError::Damaged { path: shown(), source: error.into() },
            _ => OpenDbError::Refused { path: shown(), source: error.into() },
        })?;
        if !schema.is_opencode() {
            return Err(OpenDbError::NotOpencode { path: shown() });
        }
        Ok(OpencodeDatabase { path: absolute, schema, connections, noter: None })
    }

    /// Opens a database, and makes an empty one if it is missing.
    pub fn open_or_create(path: &Path, generation: Generation) -> Result<OpencodeDatabase, OpenDbError> {
        let directory = scratch::parent_of(path);
        scratch::sweep(directory);
        match OpencodeDatabase::open(path) {
            Err(OpenDbError::NotFound { .. }) => {}
            opened => return opened,
        }
        let shown = path.display().to_string();
        let refused = |error: io::Error| match error.kind() {
            io::ErrorKind::StorageFull => OpenDbError::NoRoom { path: shown.clone() },
            _ => OpenDbError::Refused { path: shown.clone(), source: error.into() },
        };
        crate::platform::create_private_directory(directory).map_err(&refused)?;
        // Made under another name and moved when it is complete: a database at its own name has all its tables, also
        // after a crash. A log would be left behind by the move, so this is the one time it is emptied.
        let draft = Scratch::new_in(directory).map_err(&refused)?;
        let made = draft.path().join("opencode.db");
        let created = sqlite::create(&made).and_then(|connection| {
            schema::create(&connection, generation)?;
            connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        });
        created.map_err(|error| match sqlite::is_disk_full(&error, &made) {
            true => OpenDbError::NoRoom { path: shown.clone() },
            false => OpenDbError::Refused { path: shown.clone(), source: error.into() },
        })?;
        match scratch::place_new(&made, path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            placed => placed.map_err(&refused)?,
        }
        OpencodeDatabase::open(path)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads something in one short transaction.
    fn read<T>(&self, work: impl FnMut(&Connection) -> rusqlite::Result<T>) -> rusqlite::Result<T> {
        self.connections.read(work)
    }

    fn read_error(&self, error: &rusqlite::Error) -> ReadError {
        ReadError::Database { path: self.path.display().to_string(), what: error.to_string() }
    }
}
