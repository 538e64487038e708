//! What OpenCode's homes cannot hold: documents of other agents.

use annals_core::{Change, Key};

use crate::home::{CommitError, row_place};

/// Refuses what OpenCode could never find: documents whose ids are of another agent's form, and records of other agents.
pub(super) fn refuse_foreign(changes: &[Change]) -> Result<(), CommitError> {
    let is_native = |key: &Key| match key {
        Key::Project(_) => true,
        Key::Session(_, session)
        | Key::Todo(session)
        | Key::Diff(session)
        | Key::Share(session)
        | Key::LegacyShare(session) => session.is_opencode(),
        Key::Message(session, message) => session.is_opencode() && message.is_opencode(),
        Key::Part(session, message, part) => {
            session.is_opencode() && message.is_opencode() && part.is_opencode()
        }
        Key::Record(..) => false,
    };
    let foreign = changes.iter().find(|change| !change.is_deletion() && !is_native(&change.key));
    match foreign {
        None => Ok(()),
        Some(change) => {
            let what = match change.key {
                Key::Record(..) => "OpenCode's homes have no place for records of other agents",
                _ => "its id is another agent's; OpenCode's are `ses_…`, `msg_…` and `prt_…`",
            };
            let place = row_place(&change.key);
            Err(CommitError::Refused { key: Box::new(change.key.clone()), place, what: what.to_owned() })
        }
    }
}
