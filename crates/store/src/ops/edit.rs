//! Edits of session documents: `rename`, `archive`.

use annals_core::id::SessionId;

use super::plan::{Intent, OperationPlan, Sessions};
use super::running::{ChangedExtent, Running};
use super::session_change::commit_in;
use super::session_edit::SessionEdit;
use super::target_homes::TargetHomes;
use super::{OperationError, OperationRequest, Report};
use crate::home::SessionRecord;
use crate::workspace::Workspace;

/// Edits session documents in every own home that holds them, and in the store. If another process changes a document at the same time,
/// its version is read and edited instead: an edit of one field can be made on top of any other edit.
pub fn edit(
    workspace: &Workspace<'_>,
    request: OperationRequest,
    sessions: &[SessionRecord],
    edit: &SessionEdit,
) -> Result<Report, OperationError> {
    let ids: Vec<SessionId> = sessions.iter().map(|session| session.id.clone()).collect();
    let mut targets = TargetHomes::of(workspace, sessions)?;
    let mut commits = 0;
    for id in &ids {
        commits += targets.holding(id)?.len();
    }
    let then = Intent::Edit { sessions: Sessions(ids.clone()), edit: edit.clone() };
    let plan = OperationPlan { commits: Some(commits), then: Some(then) };
    let mut running = Running::begin(workspace, request, plan)?;
    running.report().vanished = targets.vanished.clone();
    for target in &mut targets.homes {
        running.note_commits(&mut *target.home, &target.url);
    }
    running.change_homes(|running| {
        for id in &ids {
            for target in targets.holding(id)? {
                commit_in(running, target.home.as_write(), &target.url, id, &mut |target, transaction| {
                    let stored = &target.session.stored;
                    transaction.replace(stored, edit.apply(&stored.document)?);
                    Ok(())
                })?;
            }
        }
        Ok(())
    })?;
    running.done(&ids, ChangedExtent::Document)
}
