//! Edits of session documents: `rename`, `archive`.

use annals_core::id::SessionId;
use annals_core::json::same_value;
use annals_core::{Document, Transaction};

use super::places::Places;
use super::running::{Extent, Running};
use super::{OperationError, Report, Request};
use crate::home::{CommitError, Read, SessionRecord};
use crate::workspace::Workspace;

/// How often an edit is made again because the document was changed meanwhile.
const MAX_TRIES: usize = 10;

/// What becomes of a session document.
pub type Edit<'e> = &'e dyn Fn(&Document) -> Result<Document, String>;

/// Changes session documents in every own home that holds them, and in the store. If somebody else changes a document at the same time,
/// their version is read and edited instead: an edit of one field is right on top of any other.
pub fn edit(
    workspace: &Workspace<'_>,
    request: Request,
    sessions: &[SessionRecord],
    edit: Edit<'_>,
) -> Result<Report, OperationError> {
    let places = Places::of(workspace, sessions)?;
    let mut running = Running::begin(workspace, request)?;
    running.report().vanished = places.vanished.clone();
    let words = running.words().to_owned();
    let mut places = places;
    for place in &mut places.homes {
        running.note_commits(&mut *place.home, &place.url);
    }
    for session in sessions {
        for place in places.holding(&session.id)? {
            edit_in(&mut running, place.home.as_write(), &place.url, &session.id, &words, edit)?;
        }
    }
    let ids: Vec<SessionId> = sessions.iter().map(|session| session.id.clone()).collect();
    running.look_at(&ids, Extent::Document);
    for id in &ids {
        edit_in_store(workspace, &mut running, id, &words, edit)?;
    }
    running.end(&ids)
}

/// Makes sure that the store shows the edit. It does not where no home could be changed, or where a home that cannot be reached, or is not
/// the user's own, has the session in its latest state.
fn edit_in_store(
    workspace: &Workspace<'_>,
    running: &mut Running<'_>,
    session: &SessionId,
    words: &str,
    edit: Edit<'_>,
) -> Result<(), OperationError> {
    for attempt in 1.. {
        let Some(record) = workspace.store().session(session)? else { break };
        let edited = edit(&record.stored.document).map_err(OperationError::Edit)?;
        if same_value(edited.root(), record.stored.document.root()) {
            break;
        }
        let mut transaction = Transaction::new(words);
        transaction.replace(&record.stored, edited);
        match running.commit_to_store(transaction) {
            Err(OperationError::Store(CommitError::Conflict { .. })) if attempt < MAX_TRIES => {}
            other => return other.map(drop),
        }
    }
    Ok(())
}

fn edit_in(
    running: &mut Running<'_>,
    home: &dyn crate::home::Write,
    url: &str,
    session: &SessionId,
    words: &str,
    edit: Edit<'_>,
) -> Result<(), OperationError> {
    for attempt in 1.. {
        let record = home.session(session)?.ok_or_else(|| OperationError::Gone(session.clone()))?;
        let mut transaction = Transaction::new(words);
        transaction.replace(&record.stored, edit(&record.stored.document).map_err(OperationError::Edit)?);
        match running.commit(home, url, transaction) {
            Err(OperationError::Commit { source: CommitError::Conflict { .. }, .. })
                if attempt < MAX_TRIES => {}
            Err(OperationError::Commit { source, .. }) => return Err(running.give_up(url, source)),
            other => return other.map(drop),
        }
    }
    Ok(())
}
