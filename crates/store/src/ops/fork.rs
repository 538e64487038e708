//! Forks a session: `fork`.

use annals_core::Transaction;
use annals_core::id::{Millis, SessionId};

use super::plan::OperationPlan;
use super::running::{ChangedExtent, Running};
use super::target_homes::TargetHomes;
use super::{OperationError, OperationRequest, Report};
use crate::fork::{Fork, ForkOptions};
use crate::home::{Read, SessionRecord};
use crate::homes::opencode::dialect::Dialect;
use crate::open;
use crate::workspace::Workspace;

/// Outcome of a fork.
#[derive(Debug)]
pub struct Forked {
    /// The id of the fork.
    pub id: SessionId,
    /// Its title.
    pub title: String,
    /// The number of messages that it begins with.
    pub messages: usize,
    /// Report of the operation.
    pub report: Report,
}

/// Forks a session as `read` shows it: in every own home that holds it, and in the store.
pub fn fork(
    workspace: &Workspace<'_>,
    request: OperationRequest,
    read: &dyn Read,
    session: &SessionRecord,
    options: &ForkOptions,
    now: Millis,
) -> Result<Forked, OperationError> {
    let fork = Fork::of(read, session, options, now)?;
    let mut targets = TargetHomes::of(workspace, std::slice::from_ref(session))?;
    let mut planned: Vec<Transaction> = Vec::new();
    for target in &targets.homes {
        let home = target.home.as_write();
        let held = home.session(&session.id)?.ok_or_else(|| OperationError::Gone(session.id.clone()))?;
        let dialect = open::dialect_of(home).unwrap_or(Dialect::V1_1);
        planned.push(fork.transaction(home, &held.project, dialect, &request.words)?);
    }
    let plan = OperationPlan { commits: Some(planned.len()), then: None };
    let mut running = Running::begin(workspace, request, plan)?;
    running.report().vanished = targets.vanished.clone();
    for target in &mut targets.homes {
        running.note_commits(&mut *target.home, &target.url);
    }
    running.change_homes(|running| {
        for (target, transaction) in targets.homes.iter().zip(planned) {
            let receipt = running.commit(target.home.as_write(), &target.url, transaction)?;
            running.report().completed += receipt.completed.len();
        }
        Ok(())
    })?;
    let store = workspace.store();
    if targets.homes.is_empty() {
        let dialect = Dialect::of_version(session.info.version());
        let transaction = fork.transaction(store, &session.project, dialect, running.words())?;
        running.commit_to_store(transaction)?;
    }
    let is_store_only = running.report().store_only;
    let mut report = running.done(std::slice::from_ref(&fork.id), ChangedExtent::Everything)?;
    report.store_only = is_store_only;
    // The fork is complete without it; it would only take more room.
    if let Err(error) = store.share_texts(&fork.copies()) {
        tracing::info!(%error, "a fork does not share its texts with its origin");
    }
    Ok(Forked { id: fork.id, title: fork.title, messages: fork.n_messages, report })
}
