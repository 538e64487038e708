//! Undoes an operation, in every home that it changed and in the store.

use std::collections::{BTreeSet, HashSet};

use annals_core::id::SessionId;

use super::intent::changes_to_undo;
use super::plan::{Intent, OperationPlan, Sessions};
use super::record::{Before, NotedPiece};
use super::running::{ChangedExtent, Running};
use super::step_target::StepTarget;
use super::{
    Operation, OperationError, OperationKind, OperationQuery, OperationRequest, OperationState, Report,
};
use crate::home::beside::FilesBeside;
use crate::home::pieces::{Exchange, hash_of};
use crate::open;
use crate::store::Store;
use crate::workspace::Workspace;

/// Outcome of an undo.
#[derive(Debug)]
pub struct Undone {
    /// The operation that was undone.
    pub operation: Operation,
    /// Report of the undo, which is an operation itself.
    pub report: Report,
}

/// A home that an undo changes, or files beside homes, with the changes.
struct UndoTarget {
    url: String,
    target: StepTarget,
    pieces: Vec<Exchange>,
}

impl UndoTarget {
    fn stored(&self) -> Result<Vec<Option<Vec<u8>>>, OperationError> {
        let places: Vec<&str> = self.pieces.iter().map(|piece| piece.place.as_str()).collect();
        Ok(self.target.stored(&places)?)
    }
}

/// Undoes an operation: the one with this number, or else the last one that was not undone yet. With `only`, undoes just what it did to
/// these sessions. Refuses if something has changed since.
pub fn undo(
    workspace: &Workspace<'_>,
    mut request: OperationRequest,
    number: Option<i64>,
    only: Option<&HashSet<SessionId>>,
) -> Result<Undone, OperationError> {
    let store = workspace.store();
    let operation = find(store, number)?;
    request.undoes = only.is_none().then_some(operation.number);
    let only: Option<Vec<SessionId>> = only.map(|only| only.iter().cloned().collect());
    let mut targets = targets(workspace, &operation, only.as_deref())?;
    let then = Intent::Undo { operation: operation.number, only: only.clone().map(Sessions) };
    let plan = OperationPlan { commits: Some(targets.len()), then: Some(then) };
    let mut running = Running::begin(workspace, request, plan)?;
    verify(&operation, &targets)?;
    verify_store(store, &operation, only.as_deref())?;
    for target in &mut targets {
        if let StepTarget::Home(home) = &mut target.target {
            running.note_commits(&mut **home, &target.url);
        }
    }
    running.change_homes(|running| {
        targets.iter().try_for_each(|target| match &target.target {
            StepTarget::Home(home) => running.exchange(&**home, &target.url, &target.pieces),
            StepTarget::Files(kind) => running.exchange_files(*kind, &target.pieces),
        })
    })?;
    let sessions = only.unwrap_or_else(|| operation.sessions.clone());
    let report = running.done(&sessions, ChangedExtent::Everything)?;
    Ok(Undone { operation, report })
}

/// Checks that documents that the operation changed in the store alone are still as it left them.
fn verify_store(
    store: &dyn Store,
    operation: &Operation,
    only: Option<&[SessionId]>,
) -> Result<(), OperationError> {
    let changes = changes_to_undo(store, operation.number, only)?;
    if let Some(change) = changes.iter().find(|change| !change.is_kept) {
        let place = format!("{}: {}", store.url(), change.key);
        return Err(OperationError::NotKept { operation: operation.number, place });
    }
    let mut altered = None;
    let mut touched: BTreeSet<String> = BTreeSet::new();
    for change in &changes {
        if !change.is_current {
            touched.extend(change.key.session().map(ToString::to_string));
            altered = altered.or(Some(&change.key));
        }
    }
    let Some(key) = altered else { return Ok(()) };
    Err(OperationError::ChangedSince {
        operation: operation.number,
        place: format!("{}: {key}", store.url()),
        what: "was changed since".to_owned(),
        session: key.session().cloned(),
        untouched: untouched(operation, &touched),
    })
}

/// Finds the operation to undo. An error if it cannot be undone.
fn find(store: &dyn Store, number: Option<i64>) -> Result<Operation, OperationError> {
    let operation = match number {
        Some(number) => store.operation(number)?.ok_or(OperationError::NoOperation(number))?,
        None => {
            let is_candidate = |operation: &Operation| {
                operation.undone_by.is_none()
                    && !operation.is_forgotten()
                    && operation.kind != OperationKind::Undo.name()
                    && !OperationKind::is_final(&operation.kind)
                    && matches!(operation.state, OperationState::Done | OperationState::Partial)
            };
            let all = store.operations(&OperationQuery::default())?;
            all.into_iter().find(is_candidate).ok_or(OperationError::NothingToUndo)?
        }
    };
    if let Some(by) = operation.undone_by {
        return Err(OperationError::UndoneBefore { operation: operation.number, by });
    }
    if operation.is_forgotten() {
        return Err(OperationError::Erased(operation.number));
    }
    if OperationKind::is_final(&operation.kind) {
        return Err(OperationError::Final { operation: operation.number, kind: operation.kind });
    }
    Ok(operation)
}

fn is_absent(place: &str) -> bool {
    open::open_undoable(place).is_err_and(|error| error.is_absent())
}

/// The homes that an undo changes, with what has to be put back in each. The last change comes first.
fn targets(
    workspace: &Workspace<'_>,
    operation: &Operation,
    only: Option<&[SessionId]>,
) -> Result<Vec<UndoTarget>, OperationError> {
    let store = workspace.store();
    let mut targets: Vec<UndoTarget> = Vec::new();
    for step in store.steps(operation.number, false)?.into_iter().rev() {
        let mut pieces = store.noted_pieces(operation.number, step.number)?;
        pieces.retain(|piece| {
            only.is_none_or(|only| piece.session.as_ref().is_some_and(|session| only.contains(session)))
        });
        let exchanges: Vec<Exchange> =
            pieces.into_iter().map(|piece| exchange(operation, piece)).collect::<Result<_, _>>()?;
        let place = match targets.iter().position(|target| target.url == step.place) {
            Some(place) => place,
            None => {
                let is_home = FilesBeside::named(&step.place).is_none();
                if is_home && !workspace.may_take_back(&step.place)? && !is_absent(&step.place) {
                    let (operation, place) = (operation.number, step.place.clone());
                    return Err(OperationError::NotYours { operation, place });
                }
                let target = StepTarget::open(&step.place)?;
                targets.push(UndoTarget { url: step.place.clone(), target, pieces: Vec::new() });
                targets.len() - 1
            }
        };
        let target = &mut targets[place];
        for piece in exchanges {
            // The operation changed this place twice: the earlier change says what was there before, the later one what must be there now.
            match target.pieces.iter_mut().find(|known| known.place == piece.place) {
                Some(known) => known.bytes = piece.bytes,
                None => target.pieces.push(piece),
            }
        }
    }
    Ok(targets)
}

fn exchange(operation: &Operation, piece: NotedPiece) -> Result<Exchange, OperationError> {
    let bytes = match piece.before {
        Before::Nothing => None,
        Before::Bytes(bytes) => Some(bytes),
        Before::NotKept => {
            return Err(OperationError::NotKept { operation: operation.number, place: piece.place });
        }
    };
    Ok(Exchange { place: piece.place, session: piece.session, expected: piece.after_hash, bytes })
}

/// Checks that everything is as the operation left it, before anything is changed.
fn verify(operation: &Operation, targets: &[UndoTarget]) -> Result<(), OperationError> {
    let mut altered: Option<(String, String, Option<SessionId>)> = None;
    let mut touched: BTreeSet<String> = BTreeSet::new();
    for target in targets {
        for (piece, stored) in target.pieces.iter().zip(target.stored()?) {
            if hash_of(stored.as_ref()) == piece.expected {
                continue;
            }
            touched.extend(piece.session.as_ref().map(ToString::to_string));
            let what = match (&stored, piece.expected) {
                (None, _) => "was deleted since",
                (Some(_), None) => "exists again",
                (Some(_), Some(_)) => "was changed since",
            };
            altered = altered.or(Some((
                format!("{}: {}", target.url, piece.place),
                what.to_owned(),
                piece.session.clone(),
            )));
        }
    }
    let Some((place, what, session)) = altered else { return Ok(()) };
    let untouched = untouched(operation, &touched);
    Err(OperationError::ChangedSince { operation: operation.number, place, what, session, untouched })
}

/// The sessions of an operation that are as it left them.
fn untouched(operation: &Operation, touched: &BTreeSet<String>) -> Vec<SessionId> {
    operation.sessions.iter().filter(|session| !touched.contains(session.as_str())).cloned().collect()
}
