//! Closes turns that were interrupted, as OpenCode closes a turn that the user aborts: `check --fix`.

use std::collections::HashSet;

use annals_core::id::{MessageId, Millis, SessionId};
use rayon::prelude::*;

use super::plan::OperationPlan;
use super::running::{ChangedExtent, Running};
use super::{OperationError, OperationRequest, Report};
use crate::home::{CommitError, SessionRecord, Write};
use crate::interrupted::{self, Activity, Closing, InterruptedError};
use crate::lease::{Holder, Lease, LeaseError, LeaseState};
use crate::query::SessionQuery;
use crate::workspace::Workspace;
use crate::{ids, open, parallel};

/// How to close turns.
#[derive(Debug, Clone, Copy)]
pub struct FixOptions {
    /// Close turns that changed a short while ago, too.
    pub force: bool,
    /// The current time.
    pub now: Millis,
}

/// Outcome of closing turns.
#[derive(Debug, Default)]
pub struct Fixed {
    /// What was closed.
    pub closed: Vec<ClosedTurn>,
    /// What was left as it is.
    pub left: Vec<LeftTurn>,
    /// Report of the operation.
    pub report: Report,
}

/// The turns of a session that were closed in one home.
#[derive(Debug, Clone)]
pub struct ClosedTurn {
    /// The session.
    pub session: SessionId,
    /// The home or store.
    pub place: String,
    /// Answers that got an end.
    pub answers: usize,
    /// Tool calls that got an end.
    pub calls: usize,
}

/// The turns of a session that were not closed in one home.
#[derive(Debug, Clone)]
pub struct LeftTurn {
    /// The session.
    pub session: SessionId,
    /// The home or store.
    pub place: String,
    /// Why not.
    pub reason: LeftReason,
}

/// Why a turn was not closed.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum LeftReason {
    /// A writer is at work on the session.
    Held(Holder),
    /// The session changed at this time, so an agent may be at work on it that takes no lease.
    Recent(Millis),
    /// The home refused, for this reason.
    Refused(String),
}

impl std::fmt::Display for LeftReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            LeftReason::Held(holder) => write!(f, "{holder} is writing to it"),
            LeftReason::Recent(_) => {
                f.write_str("it changed a short while ago, so an agent may be at work on it")
            }
            LeftReason::Refused(why) => f.write_str(why),
        }
    }
}

/// A session that has something to close, in one home.
struct Candidate {
    /// The number of the home among the targets; `None` for the store.
    home: Option<usize>,
    session: SessionId,
    /// The id of the answer that says that an agent was interrupted between two steps: the same in every home.
    next: MessageId,
}

/// Closes interrupted turns, in all own homes and in sessions that only the store has. What somebody may be at work on is left.
pub fn close_interrupted(
    workspace: &Workspace<'_>,
    request: OperationRequest,
    options: FixOptions,
) -> Result<Fixed, OperationError> {
    let store = workspace.store();
    let mut homes = Vec::new();
    for path in workspace.own() {
        // A home that cannot be opened is named by the check.
        if let Ok(home) = open::open_undoable(path) {
            homes.push((path.display().to_string(), home));
        }
    }
    let mut candidates = Vec::new();
    for (n, (_, home)) in homes.iter().enumerate() {
        let sessions = home.as_write().sessions(&SessionQuery::default())?.value;
        find(home.as_write(), Some(n), &sessions, options.now, &mut candidates)?;
    }
    if !workspace.is_named() {
        let mut own = Vec::new();
        for session in store.sessions(&SessionQuery::default())?.value {
            if session.gone.is_none() && store.holders(&session.id)?.is_empty() {
                own.push(session);
            }
        }
        find(store, None, &own, options.now, &mut candidates)?;
    }
    let mut running = Running::begin(workspace, request, OperationPlan::default())?;
    for (url, home) in &mut homes {
        running.note_commits(&mut **home, url);
    }
    let mut fixed = Fixed::default();
    let mut touched = Vec::new();
    running.change_homes(|running| {
        for candidate in &candidates {
            let (place, home): (String, &dyn Write) = match candidate.home {
                Some(n) => (homes[n].0.clone(), homes[n].1.as_write()),
                None => (store.url().to_string(), store),
            };
            let words = running.words().to_owned();
            let commit = |closing: &Closing| match candidate.home {
                Some(_) => running.commit(home, &place, closing.transaction(&words)).map(drop),
                None => running.commit_to_store(closing.transaction(&words)).map(drop),
            };
            let session = candidate.session.clone();
            match close(home, candidate, options, commit)? {
                Closed::Done(closing) => {
                    touched.push(session.clone());
                    let (answers, calls) = (closing.answers, closing.calls);
                    fixed.closed.push(ClosedTurn { session, place, answers, calls });
                }
                Closed::Left(reason) => fixed.left.push(LeftTurn { session, place, reason }),
                Closed::Nothing => {}
            }
        }
        Ok(())
    })?;
    let mut seen = HashSet::new();
    touched.retain(|session| seen.insert(session.clone()));
    fixed.report = running.done(&touched, ChangedExtent::Everything)?;
    Ok(fixed)
}

/// Finds sessions with something to close.
fn find(
    home: &dyn Write,
    number: Option<usize>,
    sessions: &[SessionRecord],
    now: Millis,
    candidates: &mut Vec<Candidate>,
) -> Result<(), OperationError> {
    let next = ids::new_message();
    let has_some = |session: &&SessionRecord| {
        let dialect = open::dialect_for(home, session);
        // The check names what cannot be read.
        interrupted::closing(home, session, dialect, now, &next).is_ok_and(|closing| !closing.is_empty())
    };
    let found: Vec<&SessionRecord> = parallel::run(|| sessions.par_iter().filter(has_some).collect());
    for session in found {
        let known = candidates.iter().find(|candidate| candidate.session == session.id);
        let next = known.map_or_else(ids::new_message, |candidate| candidate.next.clone());
        candidates.push(Candidate { home: number, session: session.id.clone(), next });
    }
    Ok(())
}

/// Errors of a commit that a home refuses before it begins.
macro_rules! refusal {
    () => {
        CommitError::Conflict { .. }
            | CommitError::Busy { .. }
            | CommitError::Endangered { .. }
            | CommitError::ReadOnly { .. }
            | CommitError::Unsupported(_)
            | CommitError::UnknownSchema { .. }
            | CommitError::Refused { .. }
    };
}

/// What became of the turns of a session in one home.
enum Closed {
    Done(Closing),
    Left(LeftReason),
    /// Somebody else has closed them meanwhile.
    Nothing,
}

fn close(
    home: &dyn Write,
    candidate: &Candidate,
    options: FixOptions,
    commit: impl FnOnce(&Closing) -> Result<(), OperationError>,
) -> Result<Closed, OperationError> {
    // Nobody begins to write to the session until it is closed.
    let lease = match home.leases().map(|leases| leases.lease(&candidate.session)) {
        None => None,
        Some(Ok(lease)) => Some(lease),
        Some(Err(LeaseError::Held { holder, .. })) => return Ok(Closed::Left(LeftReason::Held(holder))),
        Some(Err(error)) => return Ok(Closed::Left(LeftReason::Refused(error.to_string()))),
    };
    let Some(record) = home.session(&candidate.session)? else { return Ok(Closed::Nothing) };
    let closing =
        interrupted::closing(home, &record, open::dialect_for(home, &record), options.now, &candidate.next);
    let closing = match closing {
        Ok(closing) => closing,
        Err(InterruptedError::Read(error)) => return Err(error.into()),
        Err(error) => return Ok(Closed::Left(LeftReason::Refused(error.to_string()))),
    };
    if closing.is_empty() {
        return Ok(Closed::Nothing);
    }
    let before = lease.as_ref().map_or(&LeaseState::Free, Lease::state_before);
    let left = match closing.activity(before, options.now, None) {
        Activity::Recent(changed) if !options.force => Some(LeftReason::Recent(changed)),
        Activity::Leased(holder) => Some(LeftReason::Held(holder)),
        Activity::Recent(_) | Activity::Resting => None,
    };
    if let Some(reason) = left {
        return Ok(Closed::Left(reason));
    }
    match commit(&closing) {
        Ok(()) => Ok(Closed::Done(closing)),
        // Nothing was even tried in this home; the others are closed all the same.
        Err(
            error @ (OperationError::Commit { source: refusal!(), .. } | OperationError::Store(refusal!())),
        ) => Ok(Closed::Left(LeftReason::Refused(error.to_string()))),
        Err(error) => Err(error),
    }
}
