//! Changes of one session, carried out in every own home that holds it, or else in the store alone: `revert`, `unrevert`, `compact`,
//! `todo --set`. `edit.rs` (`rename`, `archive`) commits through it as well.

use annals_core::Transaction;
use annals_core::id::{Millis, SessionId};

use super::plan::{Intent, MAX_TRIES, OperationPlan};
use super::running::{ChangedExtent, Running};
use super::target_homes::TargetHomes;
use super::{OperationError, OperationQuery, OperationRequest, Report};
use crate::home::beside::FilesBeside;
use crate::home::pieces::Exchange;
use crate::home::{CommitError, Read, Receipt, SessionRecord, Write};
use crate::homes::opencode::dialect::Dialect;
use crate::interrupted::{self, Activity};
use crate::lease::{LeaseError, LeaseState};
use crate::workspace::Workspace;
use crate::{ids, open};

/// A home, or the store, in which a session is changed.
#[derive(Clone, Copy)]
pub(super) struct ChangeTarget<'t> {
    pub(super) home: &'t dyn Write,
    /// The session as it is there.
    pub(super) session: &'t SessionRecord,
    /// The generation of OpenCode whose documents are written there.
    pub(super) dialect: Dialect,
}

/// A change of one session.
pub(super) struct SessionChange<'c> {
    pub(super) session: &'c SessionRecord,
    /// Files of the working tree that change first.
    pub(super) files: Vec<Exchange>,
    /// Work that is left to do in the store where no home with the shown state could be changed.
    pub(super) then: Option<Intent>,
    /// Sessions that the change is about.
    pub(super) about: Vec<SessionId>,
}

/// Function that adds to a transaction what changes in one home.
pub(super) type PlanChange<'p> =
    &'p mut dyn FnMut(ChangeTarget<'_>, &mut Transaction) -> Result<(), OperationError>;

impl<'c> SessionChange<'c> {
    pub(super) fn of(session: &'c SessionRecord) -> SessionChange<'c> {
        let about = vec![session.id.clone()];
        SessionChange { session, files: Vec::new(), then: None, about }
    }

    /// Carries out the change. Returns the receipt of the home where the most was written.
    pub(super) fn carry_out(
        self,
        workspace: &Workspace<'_>,
        request: OperationRequest,
        mut targets: TargetHomes,
        plan: PlanChange<'_>,
    ) -> Result<(Receipt, Report), OperationError> {
        let id = &self.session.id;
        let commits = targets.homes.len() + usize::from(!self.files.is_empty());
        let planned = OperationPlan { commits: Some(commits), then: self.then };
        let mut running = Running::begin(workspace, request, planned)?;
        running.report().vanished = targets.vanished.clone();
        for target in &mut targets.homes {
            running.note_commits(&mut *target.home, &target.url);
        }
        let mut largest = Receipt::default();
        let mut keep = |receipt: Receipt| {
            if receipt.written + receipt.deleted >= largest.written + largest.deleted {
                largest = receipt;
            }
        };
        running.change_homes(|running| {
            if !self.files.is_empty() {
                running.exchange_files(FilesBeside::WorkingTree, &self.files)?;
            }
            for target in &targets.homes {
                let receipt = commit_in(running, target.home.as_write(), &target.url, id, plan)?;
                running.report().completed += receipt.completed.len();
                keep(receipt);
            }
            if targets.homes.is_empty() {
                let store = workspace.store();
                let mut transaction = Transaction::new(running.words());
                let session = store.session(id)?.ok_or_else(|| OperationError::Gone(id.clone()))?;
                let dialect = Dialect::of_version(session.info.version());
                plan(ChangeTarget { home: store, session: &session, dialect }, &mut transaction)?;
                if !transaction.is_empty() {
                    keep(running.commit_to_store(transaction)?);
                }
            }
            Ok(())
        })?;
        let is_store_only = running.report().store_only;
        let mut report = running.done(&self.about, ChangedExtent::Everything)?;
        report.store_only |= is_store_only;
        Ok((largest, report))
    }
}

/// Commits to one home what the plan says of the session as it is there. If another process changes it at the same time, the plan is made
/// again.
pub(super) fn commit_in(
    running: &mut Running<'_>,
    home: &dyn Write,
    url: &str,
    id: &SessionId,
    plan: PlanChange<'_>,
) -> Result<Receipt, OperationError> {
    let dialect = open::dialect_of(home).unwrap_or(Dialect::V1_1);
    for attempt in 1.. {
        let session = home.session(id)?.ok_or_else(|| OperationError::Gone(id.clone()))?;
        let mut transaction = Transaction::new(running.words());
        plan(ChangeTarget { home, session: &session, dialect }, &mut transaction)?;
        if transaction.is_empty() {
            break;
        }
        match running.commit(home, url, transaction) {
            Err(OperationError::Commit { source: CommitError::Conflict { .. }, .. })
                if attempt < MAX_TRIES => {}
            done => return done,
        }
    }
    Ok(Receipt::default())
}

impl ChangeTarget<'_> {
    /// Refuses a session that somebody is writing to: a writer that holds its lease, or an OpenCode whose answer has no end yet. `ours` is when
    /// an operation last changed the session.
    pub(super) fn expect_resting(&self, now: Millis, ours: Option<Millis>) -> Result<(), OperationError> {
        let id = &self.session.id;
        let state = match self.home.leases() {
            Some(leases) => leases.state(id)?,
            None => LeaseState::Free,
        };
        if let LeaseState::Held(holder) = state {
            return Err(LeaseError::Held { session: id.clone(), holder }.into());
        }
        let closing = interrupted::closing(self.home, self.session, self.dialect, now, &ids::new_message())?;
        match closing.activity(&state, now, ours) {
            Activity::Recent(changed) if !closing.is_empty() => {
                Err(OperationError::Busy { session: id.clone(), changed })
            }
            _ => Ok(()),
        }
    }
}

/// Refuses a session that somebody is writing to, in any of the homes that an operation would change. Returns when an operation last changed it.
pub(super) fn expect_resting(
    workspace: &Workspace<'_>,
    targets: &TargetHomes,
    id: &SessionId,
    now: Millis,
) -> Result<Option<Millis>, OperationError> {
    let last = OperationQuery { session: Some(id.clone()), limit: Some(1), ..OperationQuery::default() };
    let ours = workspace.store().operations(&last)?.first().map(|operation| operation.time);
    let homes = targets.homes.iter().map(|target| target.home.as_write());
    for home in homes.chain([workspace.store() as &dyn Write]) {
        let Some(session) = Read::session(home, id)? else { continue };
        let dialect = open::dialect_for(home, &session);
        ChangeTarget { home, session: &session, dialect }.expect_resting(now, ours)?;
    }
    Ok(ours)
}
