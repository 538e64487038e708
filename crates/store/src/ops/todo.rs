//! Replaces the todo list of a session: `todo --set`.

use annals_core::{Document, Key};

use super::plan::{Intent, Sessions};
use super::session_change::SessionChange;
use super::target_homes::TargetHomes;
use super::{OperationError, OperationRequest, Report};
use crate::difference;
use crate::home::{Native, SessionRecord};
use crate::workspace::Workspace;

/// Replaces the todo list of a session as a whole: in every own home that holds the session, and in the store.
pub fn set_todos(
    workspace: &Workspace<'_>,
    request: OperationRequest,
    session: &SessionRecord,
    list: &Document,
) -> Result<Report, OperationError> {
    let targets = TargetHomes::of(workspace, std::slice::from_ref(session))?;
    let key = Key::Todo(session.id.clone());
    let mut change = SessionChange::of(session);
    let sessions = Sessions(vec![session.id.clone()]);
    change.then = Some(Intent::Todo { session: sessions, list: list.text().to_owned() });
    let (_, report) = change.carry_out(workspace, request, targets, &mut |target, transaction| {
        let current = target.home.document(&key)?;
        match (target.home.native(&key, list.clone()), current) {
            (Native::Held { document, .. }, Some(current))
                if !difference::is_same(&key, &current.document, &document) =>
            {
                transaction.replace(&current, document);
            }
            (Native::Held { document, .. }, None) => transaction.insert(key.clone(), document),
            // Where each item is a row, an empty list is no row.
            (Native::Implied, Some(current)) => transaction.delete(&current),
            _ => {}
        }
        Ok(())
    })?;
    Ok(report)
}
