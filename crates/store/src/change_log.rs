//! A home's own log of changes: what each document of a session became, step by step.

use std::ops::ControlFlow;

use annals_core::id::{Millis, SessionId};
use annals_core::{Document, Key};

use crate::record::{Quarantined, ReadError};

/// A home's own log of changes, session by session.
pub trait ChangeLog: Send + Sync {
    /// The program that writes the log, for people.
    fn writer(&self) -> &'static str;

    /// The sessions that have a log, with the last position of each, in no particular order. A position that is not a number
    /// is given as the greatest number, so that the log never counts as read to its end.
    fn positions(&self) -> Result<Vec<(SessionId, i64)>, ReadError>;

    /// Visits the recorded changes of a session that come after a position, in order. `visit` may stop early.
    fn changes(
        &self,
        session: &SessionId,
        after: Option<i64>,
        visit: &mut dyn FnMut(RecordedChange) -> ControlFlow<()>,
    ) -> Result<LogRead, ReadError>;

    /// Whether two documents say the same. The log may hold a document in another form than the home gives it.
    fn is_same(&self, key: &Key, a: &Document, b: &Document) -> bool;
}

/// A change that a home's log records.
#[derive(Debug, Clone)]
pub struct RecordedChange {
    /// Its position in the log of its session.
    pub seq: i64,
    /// When it was made, according to the log.
    pub time: Millis,
    /// Which document.
    pub key: Key,
    /// The document after the change, in the form in which the home gives it now. `None` if it was removed: with a message its
    /// parts are gone as well, with a session everything in it.
    pub document: Option<Document>,
}

impl RecordedChange {
    /// Whether a document goes with this change, if it removes something: parts go with their message, everything with the
    /// session.
    pub(crate) fn removes(&self, key: &Key) -> bool {
        match (&self.key, key) {
            _ if self.document.is_some() => false,
            (Key::Session(..), _) => true,
            (Key::Message(_, message), Key::Part(_, of, _)) if message == of => true,
            (removed, key) => removed == key,
        }
    }
}

/// How far a log was read, and which entries did not become changes.
#[derive(Debug, Default)]
pub struct LogRead {
    /// The last position that was read, usable or not. `None` if there was no entry.
    pub last: Option<i64>,
    /// Entries that are not changes by themselves, or of unknown kinds.
    pub n_skipped: usize,
    /// Entries that could not be used.
    pub quarantined: Vec<Quarantined>,
}
