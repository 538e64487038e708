//! What is left to do in the store once homes are changed, and how it is done.

use annals_core::Transaction;
use annals_core::id::SessionId;
use annals_core::json::same_value;

use super::OperationError;
use super::plan::{Intent, MAX_TRIES, SessionEdit};
use crate::home::{CommitError, Read};
use crate::stores::sqlite::SqliteStore;
use crate::stores::sqlite::operations::NotedChange;

/// Records an operation if it is not recorded yet, and gives its number.
pub(super) type Begin<'b> = &'b mut dyn FnMut() -> Result<i64, OperationError>;

impl Intent {
    /// Does what is left to do. True if the store was changed.
    pub(super) fn carry_out(
        &self,
        store: &SqliteStore,
        words: &str,
        begin: Begin<'_>,
    ) -> Result<bool, OperationError> {
        match self {
            Intent::Edit { sessions, edit } => {
                let mut is_changed = false;
                for session in &sessions.0 {
                    is_changed |= edit_session(store, words, begin, session, edit)?;
                }
                Ok(is_changed)
            }
            Intent::Remove { sessions } => remove(store, words, begin, &sessions.0),
            Intent::Undo { operation, only } => {
                let changes = changes_to_undo(store, *operation, only.as_ref().map(|only| &only.0[..]))?;
                let mut standing = Vec::new();
                for change in changes {
                    if store.local_change(&change.key)? == change.after {
                        standing.push(change);
                    }
                }
                if !standing.is_empty() {
                    store.change_back(begin()?, words, &standing)?;
                }
                // What came with the operation, and is in no home any more, is not kept as if it had been deleted.
                let brought: Vec<SessionId> = match only {
                    Some(_) => Vec::new(),
                    None => store.brought(*operation)?,
                };
                Ok(remove(store, words, begin, &brought)? || !standing.is_empty())
            }
        }
    }
}

fn edit_session(
    store: &SqliteStore,
    words: &str,
    begin: Begin<'_>,
    session: &SessionId,
    edit: &SessionEdit,
) -> Result<bool, OperationError> {
    for attempt in 1.. {
        let Some(record) = store.session(session)? else { break };
        let edited = edit.apply(&record.stored.document)?;
        if same_value(edited.root(), record.stored.document.root()) {
            break;
        }
        let mut transaction = Transaction::new(words);
        transaction.replace(&record.stored, edited);
        match store.commit_as(transaction, Some(begin()?)) {
            Err(CommitError::Conflict { .. }) if attempt < MAX_TRIES => {}
            other => return other.map(|_| true).map_err(Into::into),
        }
    }
    Ok(false)
}

fn remove(
    store: &SqliteStore,
    words: &str,
    begin: Begin<'_>,
    sessions: &[SessionId],
) -> Result<bool, OperationError> {
    let mut transaction = Transaction::new(words);
    for session in sessions {
        store.session_keys(session)?.into_iter().for_each(|key| transaction.delete_any(key));
    }
    if transaction.is_empty() {
        return Ok(false);
    }
    store.commit_as(transaction, Some(begin()?))?;
    Ok(true)
}

/// What an operation changed in the store alone.
pub(super) fn changes_to_undo(
    store: &SqliteStore,
    operation: i64,
    only: Option<&[SessionId]>,
) -> Result<Vec<NotedChange>, OperationError> {
    let mut changes = store.noted_changes(operation)?;
    changes.retain(|change| {
        only.is_none_or(|only| change.key.session().is_some_and(|session| only.contains(session)))
    });
    Ok(changes)
}
