//! The place that one step of an operation changed: a home, or files beside homes.

use super::OperationError;
use super::record::{Before, NotedPiece, Step};
use crate::home::beside::FilesBeside;
use crate::home::pieces::{Exchange, Undo, hash_of};
use crate::home::{CommitError, ReadError};
use crate::open::{self, OpenError};

/// The place that a step changed.
pub(super) enum StepTarget {
    Home(Box<dyn Undo>),
    Files(FilesBeside),
}

impl StepTarget {
    /// The place with the name that was noted with the step.
    pub(super) fn open(place: &str) -> Result<StepTarget, OpenError> {
        Ok(match FilesBeside::named(place) {
            Some(kind) => StepTarget::Files(kind),
            None => StepTarget::Home(open::open_undoable(place)?),
        })
    }

    /// The bytes in these places now.
    pub(super) fn stored(&self, places: &[&str]) -> Result<Vec<Option<Vec<u8>>>, ReadError> {
        match self {
            StepTarget::Home(home) => home.stored(places),
            StepTarget::Files(kind) => Ok(kind.stored(places)),
        }
    }

    /// Removes what a process that was killed has left beside these places.
    pub(super) fn sweep(&self, places: &[&str]) {
        match self {
            StepTarget::Home(home) => home.sweep(),
            StepTarget::Files(kind) => kind.sweep(places),
        }
    }

    /// Puts files or rows back as they were, if each is as expected.
    fn exchange(&self, pieces: &[Exchange]) -> Result<(), CommitError> {
        match self {
            StepTarget::Home(home) => home.exchange(pieces),
            StepTarget::Files(kind) => kind.exchange(pieces),
        }
    }
}

/// Puts back what was there before a step. What the step did not come to is as it was already.
pub(super) fn put_back(step: &Step, pieces: &[NotedPiece]) -> Result<(), OperationError> {
    let target = StepTarget::open(&step.place)?;
    let places: Vec<&str> = pieces.iter().map(|piece| piece.place.as_str()).collect();
    let stored = target.stored(&places)?;
    let changed =
        pieces.iter().zip(&stored).filter(|(piece, now)| hash_of(now.as_ref()) != piece.before_hash);
    let exchanges: Vec<Exchange> = changed
        .map(|(piece, _)| Exchange {
            place: piece.place.clone(),
            session: piece.session.clone(),
            expected: piece.after_hash,
            bytes: match &piece.before {
                Before::Bytes(bytes) => Some(bytes.clone()),
                Before::Nothing | Before::NotKept => None,
            },
        })
        .collect();
    if exchanges.is_empty() {
        return Ok(());
    }
    let failed = |source| OperationError::Commit { place: step.place.clone(), source };
    target.exchange(&exchanges).map_err(failed)
}
