//! Reports of a sync and of updates to the text index.

use annals_core::id::SessionId;
use serde::Serialize;

use crate::search::Indexed;
use crate::sync;
use crate::wire::problem;

/// The report of a sync.
#[derive(Debug, Clone, Serialize)]
pub struct SyncReport<'a> {
    /// The file of the store.
    pub store: String,
    /// Number of sessions in the homes.
    pub sessions: usize,
    /// Number of sessions that were looked at.
    pub looked: usize,
    /// Number of sessions seen for the first time.
    pub new: usize,
    /// Number of known sessions that had changed.
    pub changed: usize,
    /// Ids of sessions that are gone from their homes.
    pub gone: Vec<&'a str>,
    /// Number of sessions that were left alone because `annals forget` has erased them.
    pub forgotten: usize,
    /// Number of documents that were looked at: `imported`, `unchanged` and `quarantined` together.
    pub seen: usize,
    /// Number of documents imported, new or changed.
    pub imported: usize,
    /// Number of documents that had not changed.
    pub unchanged: usize,
    /// Number of documents that could not be read.
    pub quarantined: usize,
    /// Number of documents that are gone from their home, and kept in the store.
    pub deleted: usize,
    /// Number of states taken from OpenCode's own log (`--events`).
    pub recorded: usize,
    /// The update of the text index; `null` with `--no-index`.
    pub index: Option<IndexUpdate>,
    /// Homes that could not be read at all, one text each.
    pub failed: Vec<String>,
    /// Documents that could not be read, one text each.
    pub problems: Vec<String>,
}

impl<'a> SyncReport<'a> {
    /// The report of a sync of the store at this path. `line` makes a text safe to show.
    pub fn of(
        account: &'a sync::SyncOutcome,
        store: String,
        index: Option<IndexUpdate>,
        line: impl Fn(&str) -> String,
    ) -> SyncReport<'a> {
        SyncReport {
            store,
            sessions: account.sessions,
            looked: account.looked,
            new: account.new,
            changed: account.changed,
            gone: account.gone.iter().map(SessionId::as_str).collect(),
            forgotten: account.forgotten,
            seen: account.seen,
            imported: account.imported,
            unchanged: account.unchanged,
            quarantined: account.quarantined.len(),
            deleted: account.deleted,
            recorded: account.recorded,
            index,
            failed: account.failed.iter().map(|failed| line(failed)).collect(),
            problems: problem::texts(&account.quarantined, line),
        }
    }
}

/// An update of the text index.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct IndexUpdate {
    /// Number of documents that were added.
    pub documents: usize,
    /// The revision that the index has reached.
    pub revision: i64,
}

impl From<Indexed> for IndexUpdate {
    fn from(Indexed { documents, revision }: Indexed) -> IndexUpdate {
        IndexUpdate { documents, revision }
    }
}

/// Derived data that was rebuilt from documents.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct ReindexReport {
    /// Number of sessions that were counted.
    pub sessions: usize,
    /// The text index.
    pub index: IndexUpdate,
}
