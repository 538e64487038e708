//! Recovers operations that were interrupted: completes them, takes them back, or reports them.

use std::collections::HashSet;

use annals_core::ContentHash;
use annals_core::id::SessionId;

use super::record::{NotedPiece, Step};
use super::running::{ChangedExtent, look};
use super::step_target::{StepTarget, put_back};
use super::{Operation, OperationError, OperationKind, OperationState};
use crate::follow::CommitReason;
use crate::home::beside::FilesBeside;
use crate::home::pieces::hash_of;
use crate::home_url::HomeUrl;
use crate::open;
use crate::store::Store;
use crate::workspace::Workspace;

/// Outcome for an operation that had been interrupted.
#[derive(Debug)]
pub enum Recovered {
    /// It had changed every home. Now the store shows the result.
    Completed(Operation),
    /// It had changed nothing, or its changes were taken back.
    TakenBack(Operation),
    /// Something was changed since, so everything was left as it is.
    Left {
        /// The operation.
        operation: Operation,
        /// The homes that it had changed.
        done: Vec<String>,
        /// The homes that it had not changed, or where something was changed since.
        missing: Vec<String>,
    },
}

/// How far a commit of an operation got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StepProgress {
    Made,
    NotMade,
    /// Some of it: a database and the files beside it are not written at the same moment.
    Half,
    /// The home has neither the state before nor the state after the commit, because something else changed it, or cannot be read.
    Unclear,
}

/// Completes or takes back each operation that was interrupted. Does nothing while another process carries one out.
pub fn recover(workspace: &Workspace<'_>) -> Result<Vec<Recovered>, OperationError> {
    let store = workspace.store();
    if store.is_read_only() || (!store.was_operation_killed() && store.unfinished_operations()?.is_empty()) {
        return Ok(Vec::new());
    }
    let lock = store.try_lock_operations();
    let Ok(Some(_lock)) = lock else { return Ok(Vec::new()) };
    // A home may have been moved meanwhile: the store has to know its new path to find the commits there.
    for path in workspace.own().iter().filter(|path| workspace.is_own(&HomeUrl::from(path.as_path()))) {
        if let Ok(source) = open::open_source(path) {
            store.recognise(&*source, true)?;
        }
        if let Ok(home) = open::open_undoable(path) {
            home.sweep();
        }
    }
    // Read again under the lock: only now it is certain that no process is working on them.
    let mut recovered = Vec::new();
    for number in store.unfinished_operations()? {
        if let Some(operation) = store.operation(number)? {
            recovered.push(recover_one(workspace, store, operation)?);
        }
    }
    Ok(recovered)
}

fn recover_one(
    workspace: &Workspace<'_>,
    store: &dyn Store,
    operation: Operation,
) -> Result<Recovered, OperationError> {
    tracing::info!(operation = operation.number, kind = %operation.kind, "recover an operation that was interrupted");
    let mut steps = Vec::new();
    for step in store.steps(operation.number, true)? {
        let pieces = store.noted_pieces(operation.number, step.number)?;
        let progress = match is_home(&step) && !workspace.may_take_back(&step.place)? {
            true => StepProgress::Unclear,
            false => progress(&step, &pieces),
        };
        let progress = match progress {
            StepProgress::Half if put_back(&step, &pieces).is_ok() => StepProgress::NotMade,
            StepProgress::Half => StepProgress::Unclear,
            progress => progress,
        };
        steps.push((step, pieces, progress));
    }
    let has = |wanted: StepProgress| steps.iter().any(|(_, _, progress)| *progress == wanted);
    let made: Vec<i64> = numbers(&steps, StepProgress::Made);
    // A copy or an import that was interrupted has written whole sessions, and running it again continues from there.
    let is_additive =
        operation.kind == OperationKind::Copy.name() || operation.kind == OperationKind::Import.name();
    let plan = store.plan(operation.number)?;
    let is_all = plan.commits.is_none_or(|commits| made.len() >= commits);
    let is_complete = (!has(StepProgress::NotMade) && is_all) || (is_additive && has(StepProgress::Made));
    if !has(StepProgress::Unclear) && is_complete && (!steps.is_empty() || !operation.revisions.is_empty()) {
        follow(workspace, store, &operation, &steps)?;
        if let Some(intent) = plan.then {
            intent.carry_out(store, &operation.words, &mut || Ok(operation.number))?;
        }
        store.end_operation(operation.number, OperationState::Done, Some(&made), &operation.sessions)?;
        return Ok(Recovered::Completed(operation));
    }
    if !has(StepProgress::Unclear) && put_all_back(&steps).is_ok() {
        store.end_operation(operation.number, OperationState::Dropped, Some(&[]), &[])?;
        return Ok(Recovered::TakenBack(operation));
    }
    follow(workspace, store, &operation, &steps)?;
    store.end_operation(operation.number, OperationState::Partial, Some(&made), &operation.sessions)?;
    let places = |is_done: bool| {
        let fits = steps.iter().filter(|(_, _, progress)| (*progress == StepProgress::Made) == is_done);
        fits.map(|(step, _, _)| step.place.clone()).collect()
    };
    Ok(Recovered::Left { done: places(true), missing: places(false), operation })
}

type FoundStep = (Step, Vec<NotedPiece>, StepProgress);

fn numbers(steps: &[FoundStep], wanted: StepProgress) -> Vec<i64> {
    steps.iter().filter(|(_, _, progress)| *progress == wanted).map(|(step, _, _)| step.number).collect()
}

/// Whether a step changed a home, and not files beside homes.
fn is_home(step: &Step) -> bool {
    FilesBeside::named(&step.place).is_none()
}

/// Compares what is in a home with the states before and after a commit.
fn progress(step: &Step, pieces: &[NotedPiece]) -> StepProgress {
    let places: Vec<&str> = pieces.iter().map(|piece| piece.place.as_str()).collect();
    let Ok(target) = StepTarget::open(&step.place) else { return StepProgress::Unclear };
    target.sweep(&places);
    let Ok(stored) = target.stored(&places) else { return StepProgress::Unclear };
    let hashes: Vec<_> = stored.iter().map(|bytes| hash_of(bytes.as_ref())).collect();
    let is_all = |expected: &dyn Fn(&NotedPiece) -> Option<ContentHash>| {
        pieces.iter().zip(&hashes).all(|(piece, hash)| expected(piece) == *hash)
    };
    let is_either = |(piece, hash): (&NotedPiece, &Option<ContentHash>)| {
        [piece.before_hash, piece.after_hash].contains(hash)
    };
    match (is_all(&|piece| piece.after_hash), is_all(&|piece| piece.before_hash)) {
        (true, _) => StepProgress::Made,
        (_, true) => StepProgress::NotMade,
        _ if pieces.iter().zip(&hashes).all(is_either) => StepProgress::Half,
        _ => StepProgress::Unclear,
    }
}

/// Puts back the contents from before the commits that were made.
fn put_all_back(steps: &[FoundStep]) -> Result<(), OperationError> {
    let made = steps.iter().rev().filter(|(_, _, progress)| *progress == StepProgress::Made);
    made.into_iter().try_for_each(|(step, pieces, _)| put_back(step, pieces))
}

/// Has the store look at the homes that the operation changed.
fn follow(
    workspace: &Workspace<'_>,
    store: &dyn Store,
    operation: &Operation,
    steps: &[FoundStep],
) -> Result<(), OperationError> {
    let reason = CommitReason { words: operation.words.clone(), operation: Some(operation.number) };
    let sessions: HashSet<SessionId> = operation.sessions.iter().cloned().collect();
    let mut seen = HashSet::new();
    let mut sources = Vec::new();
    for (step, ..) in steps.iter().filter(|(step, ..)| is_home(step) && seen.insert(step.place.clone())) {
        sources.extend(open::open_source(&step.place).ok());
    }
    let is_own = seen.iter().all(|place| workspace.is_own(&HomeUrl::of_stored(place)));
    look(store, &sources, is_own, &sessions, ChangedExtent::Everything, &reason)?;
    Ok(())
}
