//! The files that a session changed.

use annals_core::id::SessionId;
use serde::Serialize;

use crate::session_changes::{FileChange, SessionChanges};

/// The files that a session changed.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ChangedFiles<'a> {
    /// Id of the session.
    #[serde(rename = "sessionID")]
    pub session_id: &'a str,
    /// Root of the working tree; `null` where the session does not say.
    pub root: Option<&'a str>,
    /// The files, by their paths.
    pub files: Vec<ChangedFile<'a>>,
    /// The changes as a patch for `git apply`; `null` without `--patch`.
    pub patch: Option<&'a str>,
}

/// A file that a session changed.
#[derive(Debug, Clone, Serialize)]
pub struct ChangedFile<'a> {
    /// Its path: relative to the root, or absolute outside of it.
    pub file: &'a str,
    /// `added`, `modified`, `deleted`, or `passing` for a file that was created and deleted again.
    pub status: &'a str,
    /// Lines added; `null` where only the name is known.
    pub additions: Option<u64>,
    /// Lines deleted; `null` where only the name is known.
    pub deletions: Option<u64>,
    /// Numbers of the turns that changed it.
    pub turns: &'a [usize],
}

impl<'a> ChangedFiles<'a> {
    /// The changes of a session, with their patch if it was asked for.
    pub fn of(
        session: &'a SessionId,
        changes: &'a SessionChanges,
        patch: Option<&'a str>,
    ) -> ChangedFiles<'a> {
        ChangedFiles {
            session_id: session.as_str(),
            root: changes.root.as_deref(),
            files: changes.files.iter().map(ChangedFile::from).collect(),
            patch,
        }
    }
}

impl<'a> From<&'a FileChange> for ChangedFile<'a> {
    fn from(change: &'a FileChange) -> ChangedFile<'a> {
        ChangedFile {
            file: &change.file,
            status: change.kind.name(),
            additions: change.lines.map(|(additions, _)| additions),
            deletions: change.lines.map(|(_, deletions)| deletions),
            turns: &change.turns,
        }
    }
}
