//! Removing sessions with everything that belongs to them.

use annals_core::{Key, Transaction};

use crate::family::Family;
use crate::home::{CommitError, Read, ReadError, Receipt, SessionRecord, Write};
use crate::query::SessionQuery;

/// A session could not be removed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RemoveError {
    /// What belongs to it could not be found out.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The deletion was not made.
    #[error(transparent)]
    Commit(#[from] CommitError),
}

/// What removing a session would remove.
#[derive(Debug)]
pub struct Removal {
    /// The session and all it started, itself first.
    pub sessions: Vec<SessionRecord>,
    /// Every document of theirs.
    pub keys: Vec<Key>,
}

/// Finds everything that belongs to a session: the sessions it started, and theirs, with all documents.
pub fn plan(home: &dyn Read, session: SessionRecord) -> Result<Removal, ReadError> {
    let all = home.sessions(&SessionQuery::default())?.value;
    let sessions = Family::of(&all).with_descendants(vec![session]);
    let mut keys = Vec::new();
    for session in &sessions {
        keys.extend(home.session_keys(&session.id)?);
    }
    Ok(Removal { sessions, keys })
}

/// Removes everything a plan names, in one transaction, and then what OpenCode may have added meanwhile.
pub fn carry_out(home: &dyn Write, removal: &Removal, reason: &str) -> Result<Receipt, RemoveError> {
    let mut total = Receipt::default();
    let mut keys = removal.keys.clone();
    // An agent that is still running writes on. Each round takes what appeared during the last; if it never pauses, the
    // rest stays for `check` to find.
    for _ in 0..3 {
        let mut transaction = Transaction::new(reason);
        keys.into_iter().for_each(|key| transaction.delete_any(key));
        total.deleted += home.commit(transaction)?.deleted;
        keys = Vec::new();
        for session in &removal.sessions {
            keys.extend(home.session_keys(&session.id)?);
        }
        if keys.is_empty() {
            break;
        }
    }
    Ok(total)
}
