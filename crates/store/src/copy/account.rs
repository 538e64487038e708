//! The account of a copy: what became of the documents, and why a copy could not be finished.

use std::collections::BTreeMap;
use std::path::PathBuf;

use annals_core::id::{ProjectId, SessionId};

use crate::difference::Differing;
use crate::home::{CommitError, Completion, Quarantined, ReadError};

/// What became of the things of one kind: `seen = copied + unchanged + differing + quarantined`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// How many the source has.
    pub seen: usize,
    /// How many were written.
    pub copied: usize,
    /// How many the target had already, or has a newer version of.
    pub unchanged: usize,
    /// How many differ and were kept as they are in the target.
    pub differing: usize,
    /// How many could not be read, or not be stored.
    pub quarantined: usize,
}

impl Tally {
    pub(super) fn accounted(self) -> usize {
        self.copied + self.unchanged + self.differing + self.quarantined
    }
}

/// A session of which something was copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopiedSession {
    /// Its id.
    pub id: SessionId,
    /// Its title in the source.
    pub title: String,
}

/// What a copy did.
#[derive(Debug, Clone, Default)]
pub struct CopyOutcome {
    /// Sessions. One of which anything was copied counts as copied, one of which nothing could be as quarantined, one of
    /// which documents differ and nothing else was to be copied as differing.
    pub sessions: Tally,
    /// Documents.
    pub documents: Tally,
    /// The sessions of which something was copied, or would be.
    pub copied: Vec<CopiedSession>,
    /// Documents that differ and were kept as they are in the target.
    pub differing: Vec<Differing>,
    /// Documents that could not be read or stored, with the reasons.
    pub quarantined: Vec<Quarantined>,
    /// Documents that were completed because the target's OpenCode requires what they lack.
    pub completed: Vec<Completion>,
    /// Members of documents that the target has no place for, and how often they occurred.
    pub lost: BTreeMap<String, usize>,
    /// Kinds of documents that the target has no place for, and how many documents of each there were.
    pub not_held: BTreeMap<&'static str, usize>,
    /// Sessions that the target has in a more recent state.
    pub newer_in_target: Vec<SessionId>,
    /// Messages that only the target has, of sessions that were copied.
    pub only_in_target: usize,
    /// Messages that came from OpenCode's second transcript store.
    pub converted: usize,
    /// Projects that are known by another id in the target, with that id.
    pub refiled: BTreeMap<ProjectId, ProjectId>,
    /// Files of long tool output that were copied, or would be.
    pub tool_outputs: usize,
    /// Files of long tool output for which the target has no place, or that could not be copied.
    pub tool_outputs_left: usize,
    /// Files that tell OpenCode the id of a repository, written because they were missing.
    pub cached_ids: Vec<PathBuf>,
    /// Every file that was written, or would be, besides the documents of the target. None of them existed before.
    pub files: Vec<PathBuf>,
}

/// A copy could not be finished. What had been committed is in the target, and copying again goes on from there.
#[derive(Debug, thiserror::Error)]
#[error("{cause}")]
pub struct CopyError {
    /// What was done until then.
    pub account: Box<CopyOutcome>,
    /// What happened.
    #[source]
    pub cause: CopyFailure,
}

/// Why a copy could not be finished.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CopyFailure {
    /// A home could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The target could not be written to.
    #[error(transparent)]
    Commit(#[from] CommitError),
}
