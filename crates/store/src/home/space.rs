//! The space that a home takes: what it is used for, and how it is given back.

use std::collections::HashMap;
use std::path::PathBuf;

use annals_core::id::{Millis, SessionId};

use super::pieces::Exchange;
use super::{CommitError, ReadError};

/// A home whose space can be measured and given back.
pub trait Space: Send + Sync {
    /// What the space is used for, the largest use first.
    fn uses(&self) -> Result<Vec<SpaceUse>, ReadError>;

    /// The bytes that each session takes, without its entries in the log of changes.
    fn session_sizes(&self) -> Result<HashMap<SessionId, u64>, ReadError>;

    /// The home's own files and directories.
    fn files(&self) -> Vec<PathBuf>;

    /// The directory in which the home's agent keeps all it has.
    fn data_directory(&self) -> Option<PathBuf>;

    /// Other processes that have the home open, as far as the system tells.
    fn users(&self) -> Vec<u32>;

    /// Removes what deleted documents have left in the files of the home, and gives unused space back. Beside another process, what can be
    /// removed safely is removed.
    fn clear_remains(&self) -> Result<ClearedRemains, CommitError>;

    /// What belongs to no session or message that exists. Each piece can be taken back.
    fn orphans(&self) -> Result<Vec<Exchange>, ReadError>;

    /// Removes entries older than `before` from the log of changes that the home's agent keeps, or with `dry_run` counts them. The current
    /// state of everything stays.
    fn trim_change_log(&self, before: Millis, dry_run: bool) -> Result<TrimmedLog, CommitError>;
}

/// Bytes of a home that serve one use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpaceUse {
    /// What they are used for.
    pub kind: SpaceKind,
    /// How many bytes.
    pub bytes: u64,
    /// How many things: sessions, entries, files.
    pub items: Option<usize>,
}

/// What space is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SpaceKind {
    /// Sessions with all that belongs to them.
    Sessions,
    /// The log of changes.
    Events,
    /// Pages that hold nothing, and the write-ahead log.
    Unused,
    /// Sessions in files that a database beside them has as well.
    Migrated,
    /// Documents that belong to nothing.
    Orphans,
    /// Snapshots of working trees.
    Snapshots,
    /// Logs of the agent.
    Logs,
    /// Long output of tools.
    ToolOutput,
    /// Everything else.
    Other,
}

impl SpaceKind {
    /// The name, as `annals housekeeping` takes and prints it.
    pub fn name(self) -> &'static str {
        match self {
            SpaceKind::Sessions => "sessions",
            SpaceKind::Events => "events",
            SpaceKind::Unused => "unused",
            SpaceKind::Migrated => "migrated",
            SpaceKind::Orphans => "orphans",
            SpaceKind::Snapshots => "snapshots",
            SpaceKind::Logs => "logs",
            SpaceKind::ToolOutput => "tool-output",
            SpaceKind::Other => "other",
        }
    }
}

/// Outcome of removing the remains of deleted documents.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClearedRemains {
    /// Size of the files before.
    pub bytes_before: u64,
    /// Size of the files now.
    pub bytes_after: u64,
    /// Other processes because of which the file was not rewritten as a whole: remains may be left in pages that are in use.
    pub users: Vec<u32>,
    /// Whether a reader kept the write-ahead log from being emptied.
    pub is_log_left: bool,
}

impl ClearedRemains {
    /// Whether nothing can be left.
    pub fn is_complete(&self) -> bool {
        self.users.is_empty() && !self.is_log_left
    }
}

/// Outcome of trimming a log of changes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TrimmedLog {
    /// Entries that were removed.
    pub entries: usize,
    /// Bytes of their contents.
    pub bytes: u64,
    /// Entries that stay because something else than a record of the past needs them.
    pub kept: usize,
}
