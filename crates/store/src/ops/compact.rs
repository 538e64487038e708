//! Compacts a session with a given summary, or hides the results of old calls from the model: `compact`.

use annals_core::id::{MessageId, Millis};

use super::plan::{Intent, Sessions};
use super::session_change::{SessionChange, expect_resting};
use super::session_diff::{SessionDiff, SnapshotPlaces};
use super::target_homes::TargetHomes;
use super::{OperationError, OperationRequest, Report, session_edit};
use crate::compaction::{self, Compaction, CompactionIds, KEPT_TOKENS, LastPrompt, PrunePlan};
use crate::home::{Read, SessionRecord};
use crate::revert::{self, SnapshotRange};
use crate::workspace::Workspace;

/// How a session is compacted.
#[derive(Debug, Clone)]
pub struct CompactOptions {
    /// The summary.
    pub summary: String,
    /// Whether to tell the model to go on, as OpenCode does when a conversation has become too long by itself.
    pub is_auto: bool,
    /// The model that made the summary, provider and model. The default is the model of the last prompt.
    pub model: Option<(String, String)>,
    /// Upper bound on the tokens of the last turns that the model gets beside the summary, where OpenCode keeps such turns.
    pub kept_tokens: u64,
}

impl CompactOptions {
    /// A compaction with this summary.
    pub fn new(summary: impl Into<String>) -> CompactOptions {
        CompactOptions { summary: summary.into(), is_auto: false, model: None, kept_tokens: KEPT_TOKENS }
    }
}

/// Outcome of a compaction.
#[derive(Debug)]
pub struct Compacted {
    /// The message that asks for the summary.
    pub request: MessageId,
    /// The message that is the summary.
    pub summary: MessageId,
    /// The first message that the model gets beside the summary, if any.
    pub kept_from: Option<MessageId>,
    /// Report of the operation.
    pub report: Report,
}

/// Compacts a session, as `read` shows it: in every own home that holds it, and in the store. What a revert hides is removed first, as in
/// OpenCode.
pub fn compact(
    workspace: &Workspace<'_>,
    request: OperationRequest,
    read: &dyn Read,
    session: &SessionRecord,
    options: &CompactOptions,
    now: Millis,
) -> Result<Compacted, OperationError> {
    let targets = TargetHomes::of(workspace, std::slice::from_ref(session))?;
    let ours = expect_resting(workspace, &targets, &session.id, now)?;
    let last = LastPrompt::of(read, session)?;
    let mut prompt = last.ok_or_else(|| OperationError::NothingToCompact(session.id.clone()))?;
    if let Some((provider, model)) = options.model.clone() {
        (prompt.provider, prompt.model) = (provider, model);
    }
    let compaction = Compaction {
        session: &session.id,
        directory: session.info.directory().unwrap_or("/"),
        text: &options.summary,
        is_auto: options.is_auto,
        prompt,
        now,
        ids: CompactionIds::new(now),
    };
    let mut kept_from = None;
    let mut changed = changed_so_far(read, &targets, session)?;
    let change = SessionChange::of(session);
    let (_, report) = change.carry_out(workspace, request, targets, &mut |target, transaction| {
        target.expect_resting(now, ours)?;
        revert::clean_up(target.home, target.session, transaction)?;
        let kept = match target.dialect.keeps_tail() {
            true => compaction::kept_from(target.home, target.session, options.kept_tokens)?,
            false => None,
        };
        compaction.add_to(transaction, target.dialect, kept.as_ref())?;
        let mut document =
            target.session.stored.document.without(&["revert"])?.with(&["time", "updated"], &now)?;
        // Each turn ends with a summary of what the session has changed. Later versions keep it with the prompts alone.
        if target.dialect.sums_up_turns() {
            document = session_edit::with_summary(&document, [0; 3])?;
        } else if let Some(changed) = &mut changed {
            document = session_edit::with_summary(&document, changed.sum)?;
            changed.add_to(target, transaction);
        }
        transaction.replace(&target.session.stored, document);
        kept_from = kept_from.take().or(kept);
        Ok(())
    })?;
    let CompactionIds { request, summary, .. } = compaction.ids;
    Ok(Compacted { request, summary, kept_from, report })
}

/// The files that the session has changed, without what a revert hides. `None` if its snapshots cannot be used.
fn changed_so_far(
    read: &dyn Read,
    targets: &TargetHomes,
    session: &SessionRecord,
) -> Result<Option<SessionDiff>, OperationError> {
    let range = SnapshotRange::shown(read, session)?;
    match SnapshotPlaces::of(targets, session).changed(session, &range) {
        Ok(changed) => Ok(Some(SessionDiff::of(&changed)?)),
        Err(OperationError::Snapshot(error)) => {
            tracing::info!(%error, "the summary of a compacted session stays as it is");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Hides the results of old calls from the model: in every own home that holds the session, and in the store. The results stay stored.
pub fn prune_calls(
    workspace: &Workspace<'_>,
    request: OperationRequest,
    session: &SessionRecord,
    plan: &PrunePlan,
    now: Millis,
) -> Result<Report, OperationError> {
    let targets = TargetHomes::of(workspace, std::slice::from_ref(session))?;
    let calls: Vec<(String, String)> =
        plan.calls.iter().map(|(message, part)| (message.to_string(), part.to_string())).collect();
    let sessions = Sessions(vec![session.id.clone()]);
    let mut change = SessionChange::of(session);
    change.then = Some(Intent::Prune { session: sessions, calls: calls.clone(), time: now });
    let (_, report) = change.carry_out(workspace, request, targets, &mut |target, transaction| {
        Ok(compaction::mark_pruned(target.home, &session.id, &calls, now, transaction)?)
    })?;
    Ok(report)
}
