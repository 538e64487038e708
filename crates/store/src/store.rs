//! Stores: homes of annals' own, with history, search and events. The interface of every store, however it keeps its data.

use std::ops::RangeInclusive;

use annals_core::id::Millis;

use crate::events::Events;
use crate::follow::Follow;
use crate::history::History;
use crate::home::{ReadError, Write};
use crate::ops::record::OperationLog;
use crate::search::Search;
use crate::upkeep::Upkeep;

/// A store of annals: a home that keeps history, can be searched, reports commits as events, follows other homes, records operations, and
/// can be maintained.
pub trait Store:
    Write + History + Search + Events + Follow + OperationLog + Upkeep + std::fmt::Debug
{
    /// Another handle to the same store.
    fn handle(&self) -> Box<dyn Store>;

    /// The store with another clock.
    #[must_use]
    fn with_clock(self: Box<Self>, clock: fn() -> Millis) -> Box<dyn Store>;

    /// The number of the last revision; 0 in an empty store.
    fn head(&self) -> Result<i64, ReadError>;

    /// Revisions that were committed and are missing now, because part of the store was cut off or deleted from outside. The next commit
    /// gets the first of these numbers.
    fn lost(&self) -> Option<RangeInclusive<i64>>;

    /// Whether the store can only be read: its disk cannot be written to, it is another user's, or it is damaged.
    fn is_read_only(&self) -> bool;

    /// How many bytes the store takes on the disk, without its text index.
    fn bytes(&self) -> u64;
}

/// Error of a store that could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenStoreError {
    /// There is nothing at the path.
    #[error("{path} does not exist")]
    NotFound {
        /// The path.
        path: String,
    },
    /// The file is not a store.
    #[error("{path} is not a store of annals")]
    NotAStore {
        /// The path.
        path: String,
    },
    /// A later version of annals made the store.
    #[error("{path} was made by a later version of annals (schema {found}, this one knows {known})")]
    Newer {
        /// The path.
        path: String,
        /// Its schema.
        found: i64,
        /// The latest schema known.
        known: i64,
    },
    /// The path is on a file system on which SQLite's locks do not work.
    #[error("{path} is on a network file system ({kind}), where a database can be damaged")]
    Network {
        /// The path.
        path: String,
        /// Kind of the file system.
        kind: &'static str,
    },
    /// The store is damaged in a place without which nothing can be read.
    #[error("{path} is damaged: {what}")]
    Damaged {
        /// The path.
        path: String,
        /// What SQLite said.
        what: String,
    },
    /// The disk is full.
    #[error("cannot make {path}: the disk is full")]
    NoRoom {
        /// The path.
        path: String,
    },
    /// The SQLite that annals was built with has a defect that loses data.
    #[error("SQLite {found} can lose committed data; annals needs 3.51.3 or later")]
    OldSqlite {
        /// Its version.
        found: String,
    },
    /// The operating system or SQLite refused.
    #[error("cannot open {path}: {what}")]
    Refused {
        /// The path.
        path: String,
        /// What the system or SQLite said.
        what: String,
    },
}
