//! Going back: the transactions that undo a revision or restore a session, and what two moments differ in. A home that keeps earlier states
//! implements [`History`]; `stores/sqlite/past.rs` does.

use std::collections::{HashMap, HashSet};

use annals_core::id::{Millis, SessionId};
use annals_core::{Document, Key, Stored, Transaction, stream};

use crate::home::{InProgress, Read, ReadError};

pub use crate::home::{At, Changed, History, LogQuery, Revision, Touched};

/// Error of a revision that could not be undone, or a session that could not be restored. Nothing has changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UndoError {
    /// There is no such revision.
    #[error("there is no revision {0}")]
    NoRevision(i64),
    /// A document was changed again later.
    #[error("{key} was changed again by a later revision")]
    ChangedSince {
        /// Which document.
        key: Box<Key>,
    },
    /// The earlier state is not kept.
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

/// The transaction that undoes a revision.
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

/// The transaction that restores a session to its state in `then`. Documents that were in progress then get their finished state,
/// which is the nearest state that is kept.
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
        // The shown state of a document in progress was never written by any program.
        let after = after.map(|after| match finished.get(&key) {
            Some(finished) => finished.became.document.clone(),
            None => after,
        });
        if before == after {
            continue;
        }
        let now = before.map(|document| Stored::new(key.clone(), document, ""));
        match (now, after) {
            (Some(now), Some(then)) => transaction.replace(&now, then),
            (Some(now), None) => transaction.delete(&now),
            (None, Some(then)) => transaction.insert(key, then),
            (None, None) => {}
        }
    }
    Ok(transaction)
}

/// The differences in a session between two homes, or two moments of one. Numbers that OpenCode keeps count of are left out if they are
/// not known at one of the moments.
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
    let found =
        home.past().map(|past| past.in_progress(session)).transpose()?.unwrap_or_default().into_iter();
    Ok(found.map(|found| (found.became.key.clone(), found)).collect())
}
