//! Events: subscribers learn of every commit to a home.
//!
//! An event follows its commit, so a subscriber can read what the event names. This file has the trait and its types; a home
//! that keeps revisions implements the trait.
//!
//! ```
//! use annals::SqliteStore;
//! use annals::events::{EventChange, Events, Start};
//! use annals::home::Write;
//! use annals::model::{Document, Key, Transaction, id::ProjectId};
//! use std::time::Duration;
//!
//! let directory = tempfile::tempdir()?;
//! let store = SqliteStore::open_or_create(&directory.path().join("annals.db"))?;
//! let mut subscription = store.subscribe(Start::Now)?;
//! // A subscription borrows nothing: it can move to a thread of its own.
//! let listener = std::thread::spawn(move || subscription.next(Duration::from_secs(5)));
//!
//! let project = Key::Project(ProjectId::global());
//! let mut transaction = Transaction::new("a project");
//! transaction.insert(project.clone(), Document::parse(b"{}".to_vec())?);
//! store.commit(transaction)?;
//!
//! let event = listener.join().expect("it does not panic")?.expect("something was committed");
//! assert_eq!(event.revision.reason, "a project");
//! assert_eq!(event.changes, [EventChange::Put(project)]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use annals_core::{Append, Key};

use crate::home::{ReadError, Revision};

/// A home that reports commits to it, from any process.
pub trait Events: Send + Sync {
    /// Subscribes to every revision from `start` on.
    fn subscribe(&self, start: Start) -> Result<Subscription, SubscribeError>;
}

/// Where a subscription begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// With the next commit.
    Now,
    /// After the revision with this number, for example the last one that an earlier subscription received. `After(0)` begins with
    /// the first revision.
    After(i64),
}

/// A committed revision, as subscribers learn of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The revision.
    pub revision: Revision,
    /// The documents that the revision changed, each once, with whether the revision wrote or deleted it. Later revisions remove
    /// nothing from this list, but a document that is read may already have the state of a later revision.
    ///
    /// Two things can be missing from the list of a revision that was committed some time ago: documents of sessions that were
    /// forgotten since; and, of a revision that was learnt later about an earlier time, documents whose state of that time was
    /// pruned since.
    pub changes: Vec<EventChange>,
}

/// Change that a revision made to a document. The key of a session names the project that the session was filed under then; a session
/// that moves to another project is one put, under its new key.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventChange {
    /// The revision wrote the document.
    Put(Key),
    /// The revision appended this text to a string of the document, which is being written. Shortly after the document is complete, such
    /// revisions are reported as puts.
    Append(Key, Append),
    /// The revision deleted the document.
    Delete(Key),
}

impl EventChange {
    /// The document that was changed.
    pub fn key(&self) -> &Key {
        match self {
            EventChange::Put(key) | EventChange::Append(key, _) | EventChange::Delete(key) => key,
        }
    }
}

/// An endless supply of events in the order of their revisions' numbers, which is the order of commits: no event is left out and none
/// comes twice. Earlier states that sync learns of later come when they are learnt; their revisions have high numbers and early
/// times.
///
/// A subscription owns everything it needs. It can be moved to another thread, and it goes on when the store it came from is dropped: it
/// keeps the file open itself. A subscriber that does not read delays no other process and takes no memory beyond a fixed bound; it
/// receives every event it has missed when it reads again.
#[derive(Debug)]
pub struct Subscription {
    supply: Box<dyn Supply>,
}

/// How a backend supplies one subscription.
pub(crate) trait Supply: std::fmt::Debug + Send {
    /// See [`Subscription::next`].
    fn next(&mut self, timeout: Duration) -> Result<Option<Arc<Event>>, NextError>;
}

impl Subscription {
    pub(crate) fn new(supply: impl Supply + 'static) -> Subscription {
        Subscription { supply: Box::new(supply) }
    }

    /// Waits for the next event. Returns `None` after `timeout`; `Duration::MAX` waits forever.
    ///
    /// After an error the subscription is where it was: the same call may succeed later if the error was
    /// [`NextError::Read`].
    pub fn next(&mut self, timeout: Duration) -> Result<Option<Arc<Event>>, NextError> {
        self.supply.next(timeout)
    }
}

/// Error of a subscription that could not begin.
///
/// Revisions are never removed, so no number is too old. After a backup was restored, new commits may reach the number of an earlier
/// revision again: the two cannot be told apart.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SubscribeError {
    /// There is no such revision yet. The number is from another store, or from before a backup was restored.
    #[error(
        "there is no revision {after} in {path}, the last one is {head}: read everything again and subscribe after {head}"
    )]
    Ahead {
        /// The store.
        path: String,
        /// The number that was given.
        after: i64,
        /// The number of the last revision; 0 in an empty store.
        head: i64,
    },
    /// The thread that follows the store could not be started.
    #[error("cannot start a thread to follow {path}: {source}")]
    Thread {
        /// The store.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The store could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// Error of a subscription that could not go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NextError {
    /// The store no longer has the last revision that was received: it was replaced by a backup, or its log was cut off.
    #[error(
        "{path} no longer has revision {reached} as it was received: read everything again and subscribe again"
    )]
    Replaced {
        /// The store.
        path: String,
        /// The number of the last revision that was received.
        reached: i64,
    },
    /// Revisions are missing between others, which only damage does.
    #[error(
        "{path} is damaged: revisions {} to {} are missing; subscribe after {} to go on without them",
        missing.start(), missing.end(), missing.end()
    )]
    Missing {
        /// The store.
        path: String,
        /// The numbers of the missing revisions.
        missing: RangeInclusive<i64>,
    },
    /// The store could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}
