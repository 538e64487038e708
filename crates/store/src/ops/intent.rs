//! Carries out what is left to do in the store once homes are changed.

use annals_core::id::SessionId;
use annals_core::json::same_value;
use annals_core::{Document, Key, Transaction};

use super::OperationError;
use super::plan::{Intent, MAX_TRIES};
use super::record::NotedChange;
use super::session_edit::SessionEdit;
use crate::compaction;
use crate::difference;
use crate::home::CommitError;
use crate::store::Store;

/// Function that records an operation if it is not recorded yet, and returns its number.
pub(super) type Begin<'b> = &'b mut dyn FnMut() -> Result<i64, OperationError>;

impl Intent {
    /// Carries out the intent. True if the store was changed.
    pub(super) fn carry_out(
        &self,
        store: &dyn Store,
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
            Intent::Todo { session, list } => {
                let mut is_changed = false;
                for session in &session.0 {
                    is_changed |= set_todos(store, words, begin, session, list)?;
                }
                Ok(is_changed)
            }
            Intent::Prune { session, calls, time } => {
                let mut transaction = Transaction::new(words);
                for session in &session.0 {
                    compaction::mark_pruned(store, session, calls, *time, &mut transaction)?;
                }
                commit(store, transaction, begin)
            }
            Intent::Remove { sessions } => remove(store, words, begin, &sessions.0),
            Intent::Undo { operation, only } => {
                let changes = changes_to_undo(store, *operation, only.as_ref().map(|only| &only.0[..]))?;
                let current = changes.into_iter().filter(|change| change.is_current);
                let documents: Vec<Key> = current.map(|change| change.key).collect();
                if !documents.is_empty() {
                    store.change_back(*operation, &documents, begin()?, words)?;
                }
                // Sessions that the operation brought, and that no home has any more, do not stay as if they had been deleted.
                let brought: Vec<SessionId> = match only {
                    Some(_) => Vec::new(),
                    None => store.brought(*operation)?,
                };
                Ok(remove(store, words, begin, &brought)? || !documents.is_empty())
            }
        }
    }
}

fn edit_session(
    store: &dyn Store,
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
        match store.commit_as(transaction, begin()?) {
            Err(CommitError::Conflict { .. }) if attempt < MAX_TRIES => {}
            other => return other.map(|_| true).map_err(Into::into),
        }
    }
    Ok(false)
}

fn set_todos(
    store: &dyn Store,
    words: &str,
    begin: Begin<'_>,
    session: &SessionId,
    list: &str,
) -> Result<bool, OperationError> {
    let key = Key::Todo(session.clone());
    let list = Document::parse(list.as_bytes().to_vec())?;
    let current = store.document(&key)?;
    let is_set = match &current {
        Some(current) => difference::is_same(&key, &current.document, &list),
        None => list.root().items().next().is_none(),
    };
    let mut transaction = Transaction::new(words);
    if !is_set {
        transaction.put(key, list);
    }
    commit(store, transaction, begin)
}

/// Commits a transaction to the store, unless there is nothing to commit.
fn commit(store: &dyn Store, transaction: Transaction, begin: Begin<'_>) -> Result<bool, OperationError> {
    if transaction.is_empty() {
        return Ok(false);
    }
    store.commit_as(transaction, begin()?)?;
    Ok(true)
}

fn remove(
    store: &dyn Store,
    words: &str,
    begin: Begin<'_>,
    sessions: &[SessionId],
) -> Result<bool, OperationError> {
    let mut transaction = Transaction::new(words);
    for session in sessions {
        store.session_keys(session)?.into_iter().for_each(|key| transaction.delete_any(key));
    }
    commit(store, transaction, begin)
}

/// The changes that an operation made in the store alone, to these sessions or to all.
pub(super) fn changes_to_undo(
    store: &dyn Store,
    operation: i64,
    only: Option<&[SessionId]>,
) -> Result<Vec<NotedChange>, OperationError> {
    let mut changes = store.noted_changes(operation)?;
    changes.retain(|change| {
        only.is_none_or(|only| change.key.session().is_some_and(|session| only.contains(session)))
    });
    Ok(changes)
}
