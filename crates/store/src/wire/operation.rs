//! Operations: the recorded ones, and the effects of a command that is one.

use std::path::PathBuf;

use annals_core::Key;
use annals_core::id::{MessageId, Millis, PartId, SessionId};
use serde::Serialize;

use crate::compaction::PrunePlan;
use crate::ops::{self, OperationState, RemovalPlan, Report};

/// An operation as the store recorded it.
#[derive(Debug, Clone, Serialize)]
pub struct Operation<'a> {
    /// Number of the operation, which `annals undo` takes.
    pub operation: i64,
    /// When the operation began.
    pub time: Millis,
    /// Kind of the operation: `rename`, `archive`, `rm`, `import`, `copy`, `restore`, `fork`, `revert`, `unrevert`, `compact`, `todo`, `new`, `fix`, `forget`, `purge`, `move-project`, `housekeeping`, `free` or `undo`.
    pub kind: &'a str,
    /// The command as it was given.
    pub words: &'a str,
    /// State of the operation: `underway`, `done`, or `partial` if it was interrupted and something was changed since.
    pub state: &'static str,
    /// The user who gave the command.
    pub user: Option<&'a str>,
    /// The machine on which the command was given.
    pub host: Option<&'a str>,
    /// The process that carried out the operation.
    pub pid: Option<u32>,
    /// The homes that the operation changed.
    pub places: &'a [String],
    /// Ids of the sessions that the operation was about.
    #[serde(rename = "sessionIDs")]
    pub session_ids: Vec<&'a str>,
    /// Numbers of the store's revisions that belong to the operation.
    pub revisions: &'a [i64],
    /// The operation that this one undid.
    pub undoes: Option<i64>,
    /// The operation that undid this one.
    #[serde(rename = "undoneBy")]
    pub undone_by: Option<i64>,
}

impl<'a> From<&'a ops::Operation> for Operation<'a> {
    fn from(operation: &'a ops::Operation) -> Operation<'a> {
        Operation {
            operation: operation.number,
            time: operation.time,
            kind: &operation.kind,
            words: &operation.words,
            state: match operation.state {
                OperationState::Underway => "underway",
                OperationState::Done => "done",
                OperationState::Dropped => "dropped",
                OperationState::Partial => "partial",
            },
            user: operation.user.as_deref(),
            host: operation.host.as_deref(),
            pid: operation.pid,
            places: &operation.places,
            session_ids: operation.sessions.iter().map(SessionId::as_str).collect(),
            revisions: &operation.revisions,
            undoes: operation.undoes,
            undone_by: operation.undone_by,
        }
    }
}

/// The effect of a command as an operation.
#[derive(Debug, Clone, Serialize)]
pub struct OperationEffect {
    /// Number of the operation, which `annals undo` takes; `null` if nothing had to be changed or no store records it.
    pub operation: Option<i64>,
    /// The homes that were changed, or would be.
    pub places: Vec<String>,
}

impl From<&Report> for OperationEffect {
    fn from(report: &Report) -> OperationEffect {
        OperationEffect { operation: report.operation, places: report.places.clone() }
    }
}

/// A session that got another title.
#[derive(Debug, Clone, Serialize)]
pub struct RenamedSession<'a> {
    /// Id of the session.
    pub id: &'a str,
    /// The new title.
    pub title: &'a str,
    /// What was done.
    #[serde(flatten)]
    pub effect: OperationEffect,
}

/// Sessions that were attached to the place to which their directory was moved.
#[derive(Debug, Clone, Serialize)]
pub struct MovedProject {
    /// Where the directory was.
    pub from: String,
    /// Where it is now.
    pub to: String,
    /// Ids of the sessions.
    pub sessions: Vec<String>,
    /// Whether it was done; `false` if it only would be.
    pub done: bool,
    /// What was done.
    #[serde(flatten)]
    pub effect: OperationEffect,
}

/// A session that was marked as archived, or whose mark was removed.
#[derive(Debug, Clone, Serialize)]
pub struct ArchivedSession<'a> {
    /// Id of the session.
    pub id: &'a str,
    /// When the session was archived; `null` if the mark was removed.
    pub archived: Option<Millis>,
    /// What was done.
    #[serde(flatten)]
    pub effect: OperationEffect,
}

/// Sessions that were deleted, or would be.
#[derive(Debug, Clone, Serialize)]
pub struct RemovedSessions {
    /// Ids of the sessions, with those that they started.
    pub sessions: Vec<String>,
    /// Number of messages.
    pub messages: usize,
    /// Number of parts.
    pub parts: usize,
    /// Number of all documents.
    pub documents: usize,
    /// Whether they were deleted; `false` if they only would be.
    pub removed: bool,
    /// Whether the store keeps the deleted documents, or would keep them.
    pub kept: bool,
    /// What was done.
    #[serde(flatten)]
    pub effect: OperationEffect,
    /// Homes that were not written to and still have a session.
    #[serde(rename = "stillIn")]
    pub still_in: Vec<String>,
}

impl RemovedSessions {
    /// The sessions that a plan would delete.
    pub fn planned(plan: &RemovalPlan) -> RemovedSessions {
        // Homes may differ in what they hold: the fullest copy counts.
        let removals = plan.homes.iter().map(|(_, removal)| removal).chain(&plan.store);
        let fullest = removals.max_by_key(|removal| removal.keys.len());
        let keys = fullest.map(|removal| &removal.keys[..]).unwrap_or_default();
        let n = |fits: fn(&Key) -> bool| keys.iter().filter(|key| fits(key)).count();
        RemovedSessions {
            sessions: plan.sessions.iter().map(|session| session.id.to_string()).collect(),
            messages: n(|key| matches!(key, Key::Message(..))),
            parts: n(|key| matches!(key, Key::Part(..))),
            documents: keys.len(),
            removed: false,
            kept: true,
            effect: OperationEffect {
                operation: None,
                places: plan.homes.iter().map(|(url, _)| url.clone()).collect(),
            },
            still_in: Vec::new(),
        }
    }

    /// These sessions after the deletion.
    pub fn done(self, report: &Report) -> RemovedSessions {
        RemovedSessions { removed: true, effect: report.into(), still_in: report.still_in.clone(), ..self }
    }
}

/// A session that was restored to an earlier state.
#[derive(Debug, Clone, Serialize)]
pub struct RestoredSession<'a> {
    /// Id of the session.
    #[serde(rename = "sessionID")]
    pub session_id: &'a str,
    /// The store's revision that restored the session; `null` if nothing had to be changed.
    pub revision: Option<i64>,
    /// Number of documents written, in the home or store where most were.
    pub written: usize,
    /// Number of documents deleted there.
    pub deleted: usize,
    /// What was done.
    #[serde(flatten)]
    pub effect: OperationEffect,
}

impl<'a> RestoredSession<'a> {
    /// The effect of restoring `session` as the revision with this number.
    pub fn of(
        session: &'a SessionId,
        restored: &ops::Restored,
        revision: Option<i64>,
    ) -> RestoredSession<'a> {
        RestoredSession {
            session_id: session.as_str(),
            revision,
            written: restored.written,
            deleted: restored.deleted,
            effect: (&restored.report).into(),
        }
    }
}

/// A fork of a session.
#[derive(Debug, Clone, Serialize)]
pub struct ForkedSession<'a> {
    /// Id of the fork.
    pub id: &'a str,
    /// Title of the fork.
    pub title: &'a str,
    /// Id of the session that was forked.
    #[serde(rename = "originID")]
    pub origin_id: &'a str,
    /// Number of messages that were copied.
    pub messages: usize,
    /// What was done.
    #[serde(flatten)]
    pub effect: OperationEffect,
}

impl<'a> ForkedSession<'a> {
    /// The effect of forking `origin`.
    pub fn of(origin: &'a SessionId, forked: &'a ops::Forked) -> ForkedSession<'a> {
        ForkedSession {
            id: forked.id.as_str(),
            title: &forked.title,
            origin_id: origin.as_str(),
            messages: forked.messages,
            effect: (&forked.report).into(),
        }
    }
}

/// A session that was reverted to an earlier message or part.
#[derive(Debug, Clone, Serialize)]
pub struct RevertedSession<'a> {
    /// Id of the session.
    #[serde(rename = "sessionID")]
    pub session_id: &'a str,
    /// The first message that is hidden, or the one that is hidden in part.
    #[serde(rename = "messageID")]
    pub message_id: &'a str,
    /// The first part of the message that is hidden; `null` if all of the message is.
    #[serde(rename = "partID")]
    pub part_id: Option<&'a str>,
    /// Paths of the files that were changed in the working tree.
    pub files: Vec<String>,
    /// What was done.
    #[serde(flatten)]
    pub effect: OperationEffect,
}

impl<'a> RevertedSession<'a> {
    /// The effect of reverting `session`.
    pub fn of(session: &'a SessionId, reverted: &'a ops::Reverted) -> RevertedSession<'a> {
        RevertedSession {
            session_id: session.as_str(),
            message_id: reverted.point.message.as_str(),
            part_id: reverted.point.part.as_ref().map(PartId::as_str),
            files: names(&reverted.files),
            effect: (&reverted.report).into(),
        }
    }
}

/// A session whose revert was taken back.
#[derive(Debug, Clone, Serialize)]
pub struct UnrevertedSession<'a> {
    /// Id of the session.
    #[serde(rename = "sessionID")]
    pub session_id: &'a str,
    /// Paths of the files that were changed in the working tree.
    pub files: Vec<String>,
    /// What was done.
    #[serde(flatten)]
    pub effect: OperationEffect,
}

impl<'a> UnrevertedSession<'a> {
    /// The effect of taking the revert of `session` back.
    pub fn of(session: &'a SessionId, unreverted: &ops::Unreverted) -> UnrevertedSession<'a> {
        UnrevertedSession {
            session_id: session.as_str(),
            files: names(&unreverted.files),
            effect: (&unreverted.report).into(),
        }
    }
}

fn names(files: &[PathBuf]) -> Vec<String> {
    files.iter().map(|file| file.display().to_string()).collect()
}

/// A session that was compacted.
#[derive(Debug, Clone, Serialize)]
pub struct CompactedSession<'a> {
    /// Id of the session.
    #[serde(rename = "sessionID")]
    pub session_id: &'a str,
    /// Id of the message that asks for the summary.
    #[serde(rename = "requestID")]
    pub request_id: &'a str,
    /// Id of the message that is the summary.
    #[serde(rename = "summaryID")]
    pub summary_id: &'a str,
    /// The first message that the model gets beside the summary; `null` if it gets none.
    #[serde(rename = "keptFrom")]
    pub kept_from: Option<&'a str>,
    /// What was done.
    #[serde(flatten)]
    pub effect: OperationEffect,
}

impl<'a> CompactedSession<'a> {
    /// The effect of compacting `session`.
    pub fn of(session: &'a SessionId, compacted: &'a ops::Compacted) -> CompactedSession<'a> {
        CompactedSession {
            session_id: session.as_str(),
            request_id: compacted.request.as_str(),
            summary_id: compacted.summary.as_str(),
            kept_from: compacted.kept_from.as_ref().map(MessageId::as_str),
            effect: (&compacted.report).into(),
        }
    }
}

/// Results of tool calls that were hidden from the model, or would be.
#[derive(Debug, Clone, Serialize)]
pub struct PrunedCalls<'a> {
    /// Id of the session.
    #[serde(rename = "sessionID")]
    pub session_id: &'a str,
    /// Ids of the parts whose results are hidden.
    #[serde(rename = "partIDs")]
    pub part_ids: Vec<&'a str>,
    /// Estimated number of tokens of these results.
    pub tokens: u64,
    /// Whether they were hidden; `false` if they only would be.
    pub pruned: bool,
    /// What was done.
    #[serde(flatten)]
    pub effect: OperationEffect,
}

impl<'a> PrunedCalls<'a> {
    /// The effect of a plan, carried out if there is a report.
    pub fn of(session: &'a SessionId, plan: &'a PrunePlan, report: Option<&Report>) -> PrunedCalls<'a> {
        PrunedCalls {
            session_id: session.as_str(),
            part_ids: plan.calls.iter().map(|(_, part)| part.as_str()).collect(),
            tokens: plan.tokens,
            pruned: report.is_some(),
            effect: report.unwrap_or(&Report::default()).into(),
        }
    }
}

/// A todo list that was replaced.
#[derive(Debug, Clone, Serialize)]
pub struct ReplacedTodoList<'a> {
    /// Id of the session.
    #[serde(rename = "sessionID")]
    pub session_id: &'a str,
    /// Number of entries of the new list.
    pub todos: usize,
    /// What was done.
    #[serde(flatten)]
    pub effect: OperationEffect,
}

/// An operation that was undone.
#[derive(Debug, Clone, Serialize)]
pub struct UndoneOperation<'a> {
    /// Number of the operation that was undone.
    #[serde(rename = "undoneOperation")]
    pub undone_operation: i64,
    /// Kind of the operation that was undone.
    pub kind: &'a str,
    /// The command as it was given.
    pub words: &'a str,
    /// What was done. The operation is the one that undid the other.
    #[serde(flatten)]
    pub effect: OperationEffect,
    /// Ids of the sessions that the operation was about.
    pub sessions: Vec<&'a str>,
}

impl<'a> From<&'a ops::Undone> for UndoneOperation<'a> {
    fn from(ops::Undone { operation, report }: &'a ops::Undone) -> UndoneOperation<'a> {
        UndoneOperation {
            undone_operation: operation.number,
            kind: &operation.kind,
            words: &operation.words,
            effect: report.into(),
            sessions: operation.sessions.iter().map(SessionId::as_str).collect(),
        }
    }
}
