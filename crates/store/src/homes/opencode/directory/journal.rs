//! The journal: the record of a transaction that is decided, until it is done.
//!
//! Everything of ours in a home is in `storage/.annals/`, which OpenCode's listings skip:
//!
//! | file | what |
//! |---|---|
//! | `lock` | held by the process that commits or recovers |
//! | `tx-<id>/<n>` | new contents, complete and synced before the decision |
//! | `journal` | the decision: once this file is there the transaction will be done, by the next process if need be |
//! | `last` | the journal of the last transaction, when it is done |
//! | `leases/<session>` | who is writing to a session right now |

use std::collections::BTreeMap;
use std::io;
use std::time::SystemTime;

use annals_core::ContentHash;
use serde::{Deserialize, Serialize};

use super::files::Files;

pub(super) const DIRECTORY: &str = ".annals";
pub(super) const LOCK: &str = ".annals/lock";
pub(super) const JOURNAL: &str = ".annals/journal";
pub(super) const LAST: &str = ".annals/last";
pub(super) const LEASES: &str = ".annals/leases";

/// What the file `journal` says. Field names are part of the stored bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Journal {
    pub(super) version: u32,
    pub(super) transaction: String,
    pub(super) reason: String,
    pub(super) steps: Vec<JournalStep>,
}

/// One file to be put in its place or deleted, in the order in which it is to be done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct JournalStep {
    pub(super) path: String,
    /// Name of the staged file; none for a deletion.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) staged: Option<String>,
    /// Hash of the content the transaction found; none if there was no file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) was: Option<String>,
    /// Hash of the new content; none for a deletion.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) becomes: Option<String>,
}

impl Journal {
    pub(super) const VERSION: u32 = 1;

    /// The journal of a home, if a transaction is decided and not done. One that cannot be understood is an error:
    /// guessing would mean to make half a change.
    pub(super) fn read(files: &Files) -> io::Result<Option<Journal>> {
        let invalid = |what: String| {
            io::Error::new(io::ErrorKind::InvalidData, format!("{}: {what}", files.absolute(JOURNAL)))
        };
        // A pipe at this path must not be waited for.
        let bytes = match files.bytes(JOURNAL) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Ok(None),
            Err(reason) => return Err(invalid(reason.to_string())),
        };
        let journal: Journal = serde_json::from_slice(&bytes).map_err(|error| invalid(error.to_string()))?;
        if journal.version != Journal::VERSION {
            return Err(invalid(format!(
                "written by another version of annals (format {}, this one knows {})",
                journal.version,
                Journal::VERSION
            )));
        }
        Ok(Some(journal))
    }

    /// Where the contents of this transaction wait.
    pub(super) fn stage(&self) -> String {
        stage_directory(&self.transaction)
    }

    pub(super) fn staged_path(&self, step: &JournalStep) -> Option<String> {
        step.staged.as_ref().map(|name| format!("{}/{name}", self.stage()))
    }

    /// Whether everything is there that the transaction needs. If not, its journal reached the disk before a power cut
    /// and what it names did not: it was never acknowledged, nothing of it was done, and it counts for nothing.
    pub(super) fn is_complete(&self, files: &Files) -> bool {
        let hash = |path: &str| match files.bytes(path) {
            Ok(found) => found.map(|bytes| ContentHash::of(&bytes).to_string()),
            Err(reason) => Some(reason.to_string()),
        };
        self.steps.iter().all(|step| match self.staged_path(step) {
            None => true,
            Some(staged) if hash(&staged) == step.becomes => true,
            // Moved to its place already, or someone has written the document since: only what is still as it was found
            // would need what is missing.
            Some(_) => {
                let found = hash(&step.path);
                found == step.becomes || found != step.was
            }
        })
    }

    /// The files as they will be when the transaction is done.
    pub(super) fn overlay(&self) -> BTreeMap<String, Option<String>> {
        self.steps.iter().map(|step| (step.path.clone(), self.staged_path(step))).collect()
    }
}

/// The last decided transaction of a home, by the traces of its journal: renaming it from `journal` to `last` when it is
/// done changes neither its time nor its length. Two equal marks mean that nothing was decided in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark(Option<(SystemTime, u64)>);

impl Mark {
    pub(super) fn now(files: &Files) -> Mark {
        // Most homes were never written to by us.
        if files.dir.symlink_metadata(DIRECTORY).is_err() {
            return Mark(None);
        }
        let trace = [JOURNAL, LAST].into_iter().find_map(|path| files.dir.symlink_metadata(path).ok());
        Mark(trace.and_then(|trace| Some((trace.modified().ok()?.into_std(), trace.len()))))
    }
}

pub(super) fn stage_directory(transaction: &str) -> String {
    format!("{DIRECTORY}/tx-{transaction}")
}
