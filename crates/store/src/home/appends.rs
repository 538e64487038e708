//! Appends in homes that store whole documents: the document is read, made longer, and put.

use annals_core::{Action, AppendError, Change, Expected};

use super::{CommitError, ConflictKind, Read, row_place};

/// The changes with a put in the place of each append, on the condition that the document stays as it was read here.
pub(crate) fn as_puts(home: &dyn Read, changes: Vec<Change>) -> Result<Vec<Change>, CommitError> {
    changes.into_iter().map(|change| as_put(home, change)).collect()
}

fn as_put(home: &dyn Read, change: Change) -> Result<Change, CommitError> {
    let Action::Append(append) = &change.action else { return Ok(change) };
    let conflict = |what| CommitError::Conflict {
        key: Box::new(change.key.clone()),
        place: row_place(&change.key),
        what,
    };
    let current = home.document(&change.key).map_err(|error| CommitError::Failed {
        path: home.url().to_string(),
        source: std::io::Error::other(error),
    })?;
    let current = current.ok_or_else(|| conflict(ConflictKind::Gone))?;
    let appended = append.apply(&current.document).map_err(|error| match error {
        AppendError::Length { .. } => conflict(ConflictKind::Changed),
        error => CommitError::Refused {
            key: Box::new(change.key.clone()),
            place: current.place.clone(),
            what: error.to_string(),
        },
    })?;
    let expected = Expected::Unchanged(current.document.hash());
    Ok(Change { expected, action: Action::Put(appended), ..change })
}
