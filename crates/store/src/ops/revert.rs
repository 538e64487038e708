//! Reverts a session to an earlier message or part, and takes a revert back: `revert`, `unrevert`.

use std::path::{Path, PathBuf};

use annals_core::id::{MessageId, Millis, PartId};
use annals_core::lens;

use super::plan::{Intent, Sessions};
use super::session_change::{SessionChange, expect_resting};
use super::session_diff::{SessionDiff, SnapshotPlaces};
use super::session_edit::{RevertNote, SessionEdit};
use super::target_homes::TargetHomes;
use super::{OperationError, OperationRequest, Report};
use crate::home::pieces::{Exchange, hash_of};
use crate::home::{Read, SessionRecord};
use crate::revert::{self, RevertPoint, SnapshotRange};
use crate::snapshot::TreeChange;
use crate::workspace::Workspace;

/// What a session is reverted to.
#[derive(Debug, Clone)]
pub struct RevertTarget {
    /// The first message that is hidden.
    pub message: MessageId,
    /// The first part of it that is hidden; `None` hides all of it.
    pub part: Option<PartId>,
}

/// Whether the files of the working tree go back with the conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkingTree {
    /// They stay as they are.
    Kept,
    /// They become what they were, as far as OpenCode took snapshots of them.
    Restored,
}

/// Outcome of a revert.
#[derive(Debug)]
pub struct Reverted {
    /// Where the conversation is hidden from now on.
    pub point: RevertPoint,
    /// The files that were changed in the working tree.
    pub files: Vec<PathBuf>,
    /// Report of the operation.
    pub report: Report,
}

/// Outcome of taking a revert back.
#[derive(Debug)]
pub struct Unreverted {
    /// The files that were changed in the working tree.
    pub files: Vec<PathBuf>,
    /// Whether the revert had changed files.
    pub has_snapshot: bool,
    /// Report of the operation.
    pub report: Report,
}

/// Reverts a session, as `read` shows it: in every own home that holds it, and in the store. No document is deleted: OpenCode or annals removes
/// what is hidden when the session is prompted again.
pub fn revert(
    workspace: &Workspace<'_>,
    request: OperationRequest,
    read: &dyn Read,
    session: &SessionRecord,
    target: &RevertTarget,
    tree: WorkingTree,
    now: Millis,
) -> Result<Reverted, OperationError> {
    let targets = TargetHomes::of(workspace, std::slice::from_ref(session))?;
    let ours = expect_resting(workspace, &targets, &session.id, now)?;
    let point = revert::point(read, session, &target.message, target.part.as_ref())?;
    let point = point.ok_or_else(|| OperationError::NoTarget {
        session: session.id.clone(),
        wanted: match &target.part {
            Some(part) => part.to_string(),
            None => target.message.to_string(),
        },
    })?;
    let earlier = reverted_snapshot(session);
    let range = SnapshotRange::of(read, session, Some(&point.message))?;
    let places = SnapshotPlaces::of(&targets, session);
    let (mut note, mut changes) = (RevertNote::at(&point, now), Vec::new());
    if tree == WorkingTree::Restored {
        let named = point.patches.iter().map(|patch| patch.hash.as_str());
        let needed: Vec<&str> = named.chain(earlier.as_deref()).collect();
        let plan = places.find(session, &needed)?.plan_revert(&point.patches, earlier.as_deref())?;
        (note.snapshot, note.diff, changes) = (Some(plan.snapshot), Some(plan.diff), plan.changes);
    } else {
        // A snapshot from before an earlier revert stays the one to come back to.
        note.snapshot = earlier;
        note.diff = session
            .stored
            .document
            .lens::<lens::Session<'_>>()
            .revert
            .and_then(|revert| Some(revert.diff?.to_string()));
    }
    let mut changed = match (places.changed(session, &range), tree) {
        (Err(OperationError::Snapshot(error)), WorkingTree::Kept) => {
            tracing::info!(%error, "the summary of a reverted session stays as it is");
            None
        }
        (changed, _) => Some(SessionDiff::of(&changed?)?),
    };
    note.summary = changed.as_ref().map(|changed| changed.sum);
    let edit = SessionEdit::Revert(Box::new(note));
    let mut change = SessionChange::of(session);
    change.files = exchanges(session, &changes);
    change.then = Some(Intent::Edit { sessions: Sessions(vec![session.id.clone()]), edit: edit.clone() });
    let (_, report) = change.carry_out(workspace, request, targets, &mut |target, transaction| {
        target.expect_resting(now, ours)?;
        transaction.replace(&target.session.stored, edit.apply(&target.session.stored.document)?);
        if let Some(changed) = &mut changed {
            changed.add_to(target, transaction);
        }
        Ok(())
    })?;
    Ok(Reverted { point, files: paths(&changes), report })
}

/// Takes the revert of a session back: in every own home that holds it, and in the store.
pub fn unrevert(
    workspace: &Workspace<'_>,
    request: OperationRequest,
    session: &SessionRecord,
    tree: WorkingTree,
    now: Millis,
) -> Result<Unreverted, OperationError> {
    let targets = TargetHomes::of(workspace, std::slice::from_ref(session))?;
    let ours = expect_resting(workspace, &targets, &session.id, now)?;
    if session.stored.document.root().get("revert").is_none_or(|revert| revert.is_null()) {
        return Err(OperationError::NotReverted(session.id.clone()));
    }
    let snapshot = reverted_snapshot(session);
    let mut changes = Vec::new();
    if let (WorkingTree::Restored, Some(snapshot)) = (tree, &snapshot) {
        let places = SnapshotPlaces::of(&targets, session);
        changes = places.find(session, &[snapshot])?.plan_restore(snapshot)?;
    }
    let edit = SessionEdit::Unrevert(now);
    let mut change = SessionChange::of(session);
    change.files = exchanges(session, &changes);
    change.then = Some(Intent::Edit { sessions: Sessions(vec![session.id.clone()]), edit: edit.clone() });
    let (_, report) = change.carry_out(workspace, request, targets, &mut |target, transaction| {
        target.expect_resting(now, ours)?;
        transaction.replace(&target.session.stored, edit.apply(&target.session.stored.document)?);
        Ok(())
    })?;
    Ok(Unreverted { files: paths(&changes), has_snapshot: snapshot.is_some(), report })
}

impl RevertNote {
    fn at(point: &RevertPoint, time: Millis) -> RevertNote {
        RevertNote {
            message: point.message.to_string(),
            part: point.part.as_ref().map(ToString::to_string),
            snapshot: None,
            diff: None,
            summary: None,
            time,
        }
    }
}

/// The snapshot from before a revert that is in force.
fn reverted_snapshot(session: &SessionRecord) -> Option<String> {
    let document = session.stored.document.lens::<lens::Session<'_>>();
    document.revert.and_then(|revert| Some(revert.snapshot?.to_string())).filter(|hash| !hash.is_empty())
}

fn exchanges(session: &SessionRecord, changes: &[TreeChange]) -> Vec<Exchange> {
    let exchange = |change: &TreeChange| Exchange {
        place: change.path.display().to_string(),
        session: Some(session.id.clone()),
        expected: hash_of(change.before.as_ref().map(|file| file.encoded()).as_ref()),
        bytes: change.after.as_ref().map(|file| file.encoded()),
    };
    changes.iter().map(exchange).collect()
}

fn paths(changes: &[TreeChange]) -> Vec<PathBuf> {
    changes.iter().map(|change| Path::new(&change.path).to_owned()).collect()
}
