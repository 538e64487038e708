//! Looking after a store: pruning, forgetting, backups, rebuilding what is derived.

use std::io;
use std::path::{Path, PathBuf};

use annals_core::id::{Millis, SessionId};

use crate::home::{CommitError, ReadError};

/// A store that can be looked after.
pub trait Upkeep: Send + Sync {
    /// Gives up the texts of states that ended before a time: of the sessions named, or else of all documents that sync
    /// brought. What is there now stays; the last text of something that was deleted is one of the past. With `dry_run`
    /// only tells what would be.
    fn prune(
        &self,
        older_than: Millis,
        sessions: Option<&[SessionId]>,
        dry_run: bool,
    ) -> Result<Pruned, CommitError>;

    /// Removes sessions from the store for good: documents, history, figures, reasons. Sync does not bring them back. Their
    /// child sessions stay.
    fn forget(&self, sessions: &[SessionId]) -> Result<Forgotten, ForgetError>;

    /// Whether a session was forgotten. To forget it again erases what is left of it, should the first time have been cut short.
    fn is_forgotten(&self, session: &SessionId) -> Result<bool, ReadError>;

    /// Copies the store as it is at this moment into a file, while others go on writing. `progress` gets how much was copied, and of how
    /// much. The copy gets its name only after all of it was checked.
    fn backup(&self, target: &Path, progress: &dyn Fn(usize, usize)) -> Result<BackupReport, BackupError>;

    /// Rebuilds the numbers that are derived from documents.
    fn rederive(&self) -> Result<(), CommitError>;
}

/// What was pruned, or would be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pruned {
    /// By session, the largest first.
    pub sessions: Vec<PrunedSession>,
    /// What was there before old operations: how many files and rows. Without it, those operations cannot be undone.
    pub operation_states: usize,
    /// How many bytes that took.
    pub operation_bytes: u64,
}

/// What was pruned of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrunedSession {
    /// Which session; none for project records.
    pub session: Option<SessionId>,
    /// How many states.
    pub states: usize,
    /// How many bytes they took.
    pub bytes: u64,
}

impl Pruned {
    /// How many states of all sessions.
    pub fn states(&self) -> usize {
        self.sessions.iter().map(|session| session.states).sum()
    }

    /// How many bytes they took.
    pub fn bytes(&self) -> u64 {
        self.sessions.iter().map(|session| session.bytes).sum()
    }
}

/// What was forgotten.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Forgotten {
    /// How many documents, deleted ones included.
    pub n_documents: usize,
    /// How many earlier states of them.
    pub n_states: usize,
    /// How many revisions have lost their reason.
    pub n_revisions: usize,
    /// Why the file could not be written anew, so that remains may be left in it: the disk has no room for it, for
    /// instance. None if it was.
    pub not_rewritten: Option<String>,
    /// Whether nothing is left in the log either. Otherwise somebody is reading from it; it is emptied by a later commit,
    /// or when everybody has closed the store.
    pub log_emptied: bool,
    /// Why the text index could not be rid of it. It is made anew by the next search.
    pub index_left: Option<String>,
    /// Copies of the store beside it that annals has made, or is making now. They may hold the session, and are left alone.
    pub copies: Vec<PathBuf>,
}

/// A session could not be forgotten. Nothing has changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ForgetError {
    /// The store has never heard of it.
    #[error("there is no session {0}, and there was none")]
    NotFound(SessionId),
    /// The change could not be made.
    #[error(transparent)]
    Commit(#[from] CommitError),
}

/// What a backup holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackupReport {
    /// How long its file is.
    pub bytes: u64,
    /// How many documents there are, without deleted ones.
    pub documents: usize,
    /// How many revisions there are.
    pub revisions: usize,
}

/// A backup could not be made or restored. Nothing has changed, and nothing of it is left behind.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// Something is there already. It is not overwritten.
    #[error("{path} exists already")]
    Exists {
        /// What is there.
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
    /// It is something else.
    #[error("{path} is not a store of annals")]
    NotAStore {
        /// The path.
        path: String,
    },
    /// A later version of annals made it.
    #[error("{path} was made by a later version of annals (schema {found}, this one knows {known})")]
    Newer {
        /// The path.
        path: String,
        /// Its schema.
        found: i64,
        /// The latest schema known.
        known: i64,
    },
    /// It is damaged.
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
        /// What was to be written.
        path: String,
    },
    /// It would lie on a file system on which SQLite's locks do not work.
    #[error("{path} is on a network file system ({kind}), where a database can be damaged")]
    Network {
        /// The path.
        path: String,
        /// Which.
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
        /// What was to be copied.
        path: String,
        /// What SQLite said.
        what: String,
    },
}

/// What was restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoredBackup {
    /// How long the store's file is.
    pub bytes: u64,
    /// How many documents there are, without deleted ones.
    pub documents: usize,
    /// How many revisions there are.
    pub revisions: usize,
    /// Where the store is that was there before, if there was one.
    pub kept: Option<PathBuf>,
}
