//! The place that one step of an operation changed: a home, or files beside homes.

use crate::home::beside::FilesBeside;
use crate::home::pieces::{Exchange, Undo};
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

    /// Puts files or rows back as they were, if each is as expected.
    pub(super) fn exchange(&self, pieces: &[Exchange]) -> Result<(), CommitError> {
        match self {
            StepTarget::Home(home) => home.exchange(pieces),
            StepTarget::Files(kind) => kind.exchange(pieces),
        }
    }
}
