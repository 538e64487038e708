//! Maintenance of a store: pruning, forgetting, backups, rebuilding derived data.

use std::io;
use std::path::{Path, PathBuf};

use annals_core::Key;
use annals_core::id::{Millis, SessionId};

use crate::home::{CommitError, ReadError};

/// A store that can be maintained.
pub trait Upkeep: Send + Sync {
    /// Drops the texts of states that ended before `older_than`: of the given sessions, or else of all documents that sync
    /// imported. Current texts stay; the last text of a deleted document is not a current one. With `dry_run`, only reports
    /// what would be dropped.
    fn prune(
        &self,
        older_than: Millis,
        sessions: Option<&[SessionId]>,
        dry_run: bool,
    ) -> Result<Pruned, CommitError>;

    /// Erases sessions from the store for good: documents, history, figures, reasons. Sync does not import them again. Their
    /// child sessions stay.
    fn forget(&self, sessions: &[SessionId]) -> Result<Forgotten, ForgetError>;

    /// Whether a session was forgotten. Forgetting it again erases what is left of it if the first time was interrupted.
    fn is_forgotten(&self, session: &SessionId) -> Result<bool, ReadError>;

    /// Copies the store as it is at this moment into a file, while other processes go on writing. `progress` gets the amount copied and
    /// the total. The copy gets its name only after all of it was checked.
    fn backup(&self, target: &Path, progress: &dyn Fn(usize, usize)) -> Result<BackupReport, BackupError>;

    /// Lets copies share their texts with the documents that they are copies of, each given with its original. Nothing changes for readers.
    /// Returns the number of documents that share their text now.
    fn share_texts(&self, copies: &[(Key, Key)]) -> Result<usize, CommitError>;

    /// Rebuilds the numbers derived from documents.
    fn rederive(&self) -> Result<(), CommitError>;
}

/// Report of what was pruned, or would be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Pruned states by session, the largest first.
    pub sessions: Vec<PrunedSession>,
    /// Files and rows from before old operations. Without them, those operations cannot be undone.
    pub operation_states: usize,
    /// How many bytes they took.
    pub operation_bytes: u64,
}

/// Report of what was pruned of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrunedSession {
    /// The session; `None` for project records.
    pub session: Option<SessionId>,
    /// Number of states.
    pub states: usize,
    /// How many bytes they took.
    pub bytes: u64,
}

impl Pruned {
    /// Number of states, over all sessions.
    pub fn states(&self) -> usize {
        self.sessions.iter().map(|session| session.states).sum()
    }

    /// Bytes that these states took.
    pub fn bytes(&self) -> u64 {
        self.sessions.iter().map(|session| session.bytes).sum()
    }
}

/// Report of what was forgotten.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Forgotten {
    /// Number of documents, including deleted ones.
    pub n_documents: usize,
    /// Number of their earlier states.
    pub n_states: usize,
    /// Number of revisions whose reason was erased.
    pub n_revisions: usize,
    /// Why the file could not be rewritten, for example because the disk is full: then remains may be left in it. `None` if
    /// it was rewritten.
    pub not_rewritten: Option<String>,
    /// Whether nothing is left in the write-ahead log either. If not, a process is reading from the log; a later commit empties
    /// it, or the last process that closes the store.
    pub log_emptied: bool,
    /// Why the text index still has the sessions. The next search rebuilds it.
    pub index_left: Option<String>,
    /// Copies of the store beside it that annals has made or is making now. They may hold the sessions, and are left alone.
    pub copies: Vec<PathBuf>,
}

/// Error of a session that could not be forgotten. Nothing has changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ForgetError {
    /// The store never had the session.
    #[error("there is no session {0}, and there never was")]
    NotFound(SessionId),
    /// The change could not be made.
    #[error(transparent)]
    Commit(#[from] CommitError),
}

/// Report of what a backup holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackupReport {
    /// Size of its file.
    pub bytes: u64,
    /// How many documents there are, without deleted ones.
    pub documents: usize,
    /// How many revisions there are.
    pub revisions: usize,
}

/// Error of a backup that could not be made or restored. Nothing has changed, and no unfinished copy is left behind.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// The target exists already. It is not overwritten.
    #[error("{path} exists already")]
    Exists {
        /// The target.
        path: String,
    },
    /// There is no such file.
    #[error("{path} does not exist")]
    NotFound {
        /// The path.
        path: String,
    },
    /// The backup is the store itself.
    #[error("{path} is the store itself")]
    Same {
        /// The path.
        path: String,
    },
    /// The file is not a store.
    #[error("{path} is not a store of annals")]
    NotAStore {
        /// The path.
        path: String,
    },
    /// A later version of annals made the backup.
    #[error("{path} was made by a later version of annals (schema {found}, this one knows {known})")]
    Newer {
        /// The path.
        path: String,
        /// Its schema.
        found: i64,
        /// The latest schema known.
        known: i64,
    },
    /// The backup is damaged.
    #[error("{path} is damaged: {what}")]
    Damaged {
        /// The path.
        path: String,
        /// Where, or what SQLite said.
        what: String,
    },
    /// The disk is full.
    #[error("cannot write {path}: the disk is full")]
    NoRoom {
        /// The file to be written.
        path: String,
    },
    /// The path is on a file system on which SQLite's locks do not work.
    #[error("{path} is on a network file system ({kind}), where a database can be damaged")]
    Network {
        /// The path.
        path: String,
        /// Kind of the file system.
        kind: &'static str,
    },
    /// The operating system refused.
    #[error("{path}: {source}")]
    Io {
        /// The file or directory.
        path: String,
        /// What the system said.
        source: io::Error,
    },
    /// SQLite refused.
    #[error("cannot copy {path}: {what}")]
    Database {
        /// The file to be copied.
        path: String,
        /// What SQLite said.
        what: String,
    },
}

/// Report of a restored backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoredBackup {
    /// Size of the store's file.
    pub bytes: u64,
    /// How many documents there are, without deleted ones.
    pub documents: usize,
    /// How many revisions there are.
    pub revisions: usize,
    /// Where the previous store was moved to, if there was one.
    pub kept: Option<PathBuf>,
}
