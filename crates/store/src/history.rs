//! History: what a home was at any revision or instant, and going back there.

use std::collections::{HashMap, HashSet};

use annals_core::id::{Millis, SessionId};
use annals_core::{Document, Key, Stored, Transaction, stream};

use crate::home::{InProgress, Read, ReadError};

/// What a home that keeps history can do.
///
/// Revisions are ordered by time, and by number within a millisecond. Their numbers grow with every commit; only what was
/// learnt later about earlier times has a high number and an early time.
pub trait History: Send + Sync {
    /// Revisions, the latest first.
    fn log(&self, query: &LogQuery) -> Result<Vec<Revision>, ReadError>;

    /// One revision by its number.
    fn revision(&self, number: i64) -> Result<Option<Revision>, ReadError>;

    /// What a revision changed.
    fn changes(&self, revision: i64) -> Result<Vec<Changed>, ReadError>;

    /// The home as it was. None for a number that no revision has. Documents that were in progress then are without what came
    /// later; [`Read::in_progress`] names them.
    fn at(&self, at: At) -> Result<Option<Box<dyn Read + '_>>, ReadError>;
}

/// A committed transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revision {
    /// Its number.
    pub number: i64,
    /// When.
    pub time: Millis,
    /// Why.
    pub reason: String,
    /// The home that sync found the changes in; none for what was committed here.
    pub home: Option<String>,
    /// What it touched.
    pub touched: Vec<Touched>,
}

/// What a revision did to a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Touched {
    /// Which session; none for project records.
    pub session: Option<SessionId>,
    /// Documents written.
    pub written: usize,
    /// Documents deleted.
    pub deleted: usize,
}

/// Which revisions are wanted.
#[derive(Debug, Clone, Default)]
pub struct LogQuery {
    /// That touched this session.
    pub session: Option<SessionId>,
    /// At this time or later.
    pub since: Option<Millis>,
    /// Before this time.
    pub until: Option<Millis>,
    /// With a greater number than this.
    pub after: Option<i64>,
    /// Committed here, not found by sync.
    pub own: bool,
    /// No more than this.
    pub limit: Option<usize>,
}

/// A moment in the history of a home.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// When this revision had been made.
    Revision(i64),
    /// At this time.
    Time(Millis),
}

/// What happened to a document.
#[derive(Debug, Clone)]
pub struct Changed {
    /// Which document.
    pub key: Key,
    /// What it was; none if it did not exist.
    pub before: Option<Document>,
    /// What it became; none if it was deleted.
    pub after: Option<Document>,
    /// Whether what it was is not kept: it was in progress, or a state was pruned since.
    pub is_step: bool,
}

/// A revision could not be undone, or a session not be restored. Nothing has changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UndoError {
    /// There is no such revision.
    #[error("there is no revision {0}")]
    NoRevision(i64),
    /// Something was changed again later.
    #[error("{key} was changed again by a later revision")]
    ChangedSince {
        /// Which document.
        key: Box<Key>,
    },
    /// What was before is not kept.
    #[error("what {key} was then is not kept: it was being written, or was pruned since")]
    NotKept {
        /// Which document.
        key: Box<Key>,
    },
    /// The session did not exist then.
    #[error("session {0} did not exist then")]
    NoSession(SessionId),
    /// The home could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// The transaction that takes a revision back.
pub fn undo(home: &dyn Read, history: &dyn History, number: i64) -> Result<Transaction, UndoError> {
    let revision = history.revision(number)?.ok_or(UndoError::NoRevision(number))?;
    let mut transaction = Transaction::new(format!("undo revision {number}: {}", revision.reason));
    for Changed { key, before, after, is_step } in history.changes(number)? {
        if is_step {
            return Err(UndoError::NotKept { key: Box::new(key) });
        }
        let now = home.document(&key)?;
        if now.as_ref().map(|stored| &stored.document) != after.as_ref() {
            return Err(UndoError::ChangedSince { key: Box::new(key) });
        }
        match (now, before) {
            (Some(now), Some(before)) => transaction.replace(&now, before),
            (Some(now), None) => transaction.delete(&now),
            (None, Some(before)) => transaction.insert(key, before),
            (None, None) => {}
        }
    }
    Ok(transaction)
}

/// The transaction that makes a session what it was in `then`. Documents that were in progress then become what they were when they
/// were finished, which is the nearest state that is kept.
pub fn restore(
    home: &dyn Read,
    then: &dyn Read,
    session: &SessionId,
    reason: String,
) -> Result<Transaction, UndoError> {
    if then.session(session)?.is_none() {
        return Err(UndoError::NoSession(session.clone()));
    }
    let finished = in_progress(then, session)?;
    let mut transaction = Transaction::new(reason);
    for Changed { key, before, after, .. } in difference(home, then, session)? {
        // What is shown of such a document was never written by anybody.
        let after = after.map(|after| match finished.get(&key) {
            Some(finished) => finished.became.document.clone(),
            None => after,
        });
        if before == after {
            continue;
        }
        let now = before.map(|document| Stored { key: key.clone(), document, place: String::new() });
        match (now, after) {
            (Some(now), Some(then)) => transaction.replace(&now, then),
            (Some(now), None) => transaction.delete(&now),
            (None, Some(then)) => transaction.insert(key, then),
            (None, None) => {}
        }
    }
    Ok(transaction)
}

/// What differs in a session between two homes, or two moments of one. What OpenCode counts by itself is left out where it is not
/// known at one of the moments.
pub fn difference(
    before: &dyn Read,
    after: &dyn Read,
    session: &SessionId,
) -> Result<Vec<Changed>, ReadError> {
    let (old_steps, new_steps) = (in_progress(before, session)?, in_progress(after, session)?);
    let mut keys = before.session_keys(session)?;
    let mut seen: HashSet<Key> = keys.iter().cloned().collect();
    keys.extend(after.session_keys(session)?.into_iter().filter(|key| seen.insert(key.clone())));
    let mut changes = Vec::new();
    for key in keys {
        let document =
            |home: &dyn Read| Ok::<_, ReadError>(home.document(&key)?.map(|stored| stored.document));
        let (before, after) = (document(before)?, document(after)?);
        let steps = (old_steps.get(&key), new_steps.get(&key));
        let (is_changed, is_step) = match (steps, &before, &after) {
            ((None, None), ..) => (before != after, false),
            ((Some(old), Some(new)), ..)
                if old.written == new.written && old.became.document == new.became.document =>
            {
                (false, true)
            }
            (_, Some(old), Some(new)) if stream::is_bookkeeping(&key, new) => {
                let counted_out = |document: &Document| stream::earlier(&key, document, Millis::MAX).document;
                (counted_out(old) != counted_out(new), true)
            }
            _ => (true, true),
        };
        if is_changed {
            changes.push(Changed { key, before, after, is_step });
        }
    }
    Ok(changes)
}

/// The documents of a session that were in progress, by key.
pub(crate) fn in_progress(
    home: &dyn Read,
    session: &SessionId,
) -> Result<HashMap<Key, InProgress>, ReadError> {
    let found = home.in_progress(session)?.into_iter();
    Ok(found.map(|found| (found.became.key.clone(), found)).collect())
}
