//! Restores a session to an earlier state: `restore`.

use annals_core::id::SessionId;
use annals_core::{Document, Key, Transaction};

use super::plan::OperationPlan;
use super::running::{ChangedExtent, Running};
use super::target_homes::{TargetHome, TargetHomes};
use super::{OperationError, OperationRequest, Report};
use crate::difference;
use crate::history;
use crate::home::{Native, Read, SessionRecord, Write};
use crate::open;
use crate::workspace::Workspace;

/// Outcome of a restore.
#[derive(Debug)]
pub struct Restored {
    /// Documents written, in the home or store where the most were written.
    pub written: usize,
    /// Documents deleted there.
    pub deleted: usize,
    /// Report of the operation.
    pub report: Report,
}

/// Restores a session to its state in `then`: in every own home that holds it, and in the store. A session that no home has any more goes
/// back to the own home that had it last.
pub fn restore(
    workspace: &Workspace<'_>,
    request: OperationRequest,
    session: &SessionRecord,
    then: &dyn Read,
) -> Result<Restored, OperationError> {
    let store = workspace.store();
    let transaction = history::restore(store, then, &session.id, request.words.clone())?;
    let mut targets = TargetHomes::of(workspace, std::slice::from_ref(session))?;
    if targets.homes.is_empty() {
        targets.homes.extend(last_home(workspace, session));
    }
    let mut planned = Vec::new();
    for target in &targets.homes {
        planned.push(transaction_for(target.home.as_write(), then, &session.id, &request.words)?);
    }
    let commits = planned.iter().filter(|transaction| !transaction.is_empty()).count();
    let mut running =
        Running::begin(workspace, request, OperationPlan { commits: Some(commits), then: None })?;
    running.report().vanished = targets.vanished.clone();
    for target in &mut targets.homes {
        running.note_commits(&mut *target.home, &target.url);
    }
    let (mut written, mut deleted) = (0, 0);
    running.change_homes(|running| {
        for (target, transaction) in targets.homes.iter().zip(planned) {
            if transaction.is_empty() {
                continue;
            }
            let receipt = running.commit(target.home.as_write(), &target.url, transaction)?;
            (written, deleted) = (written.max(receipt.written), deleted.max(receipt.deleted));
            running.report().completed += receipt.completed.len();
        }
        Ok(())
    })?;
    if targets.homes.is_empty() && !transaction.is_empty() {
        let receipt = running.commit_to_store(transaction)?;
        (written, deleted) = (receipt.written, receipt.deleted);
    }
    let report = running.done(std::slice::from_ref(&session.id), ChangedExtent::Everything)?;
    Ok(Restored { written, deleted, report })
}

/// The own home that had a session last, if it can be written to.
fn last_home(workspace: &Workspace<'_>, session: &SessionRecord) -> Option<TargetHome> {
    let url = session.origins.iter().find(|origin| workspace.is_own(origin))?;
    Some(TargetHome { url: url.to_string(), home: open::open_undoable(url).ok()? })
}

/// The transaction that restores a session in a home to its state in `then`, as far as the home has a place for its documents.
fn transaction_for(
    home: &dyn Write,
    then: &dyn Read,
    session: &SessionId,
    words: &str,
) -> Result<Transaction, OperationError> {
    let mut transaction = Transaction::new(words);
    let held = home.session(session)?;
    // The shown state of a document that was in progress then was never written by any program, so the document gets its finished state.
    let finished = history::in_progress(then, session)?;
    let mut gone = home.session_keys(session)?;
    for key in then.session_keys(session)? {
        // A session that a home has stays under the project that it is filed under there.
        let key_here = match (&key, &held) {
            (Key::Session(..), Some(held)) => held.stored.key.clone(),
            _ => key.clone(),
        };
        gone.retain(|other| *other != key_here);
        let Some(stored) = then.document(&key)? else { continue };
        let document =
            finished.get(&key).map_or(stored.document, |finished| finished.became.document.clone());
        let wanted: Document = match home.native(&key, document) {
            Native::Held { document, .. } => document,
            Native::Implied | Native::NotHeld => continue,
        };
        match home.document(&key_here)? {
            Some(current) if difference::is_same(&key_here, &current.document, &wanted) => {}
            Some(current) => transaction.replace(&current, wanted),
            None => transaction.insert(key_here, wanted),
        }
    }
    for key in gone {
        transaction.delete_any(key);
    }
    Ok(transaction)
}
