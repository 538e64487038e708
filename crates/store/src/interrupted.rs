//! Turns that were interrupted: an agent was killed, and nothing says that its turn is over.
//!
//! OpenCode never repairs them. Here they are closed as OpenCode closes a turn that the user aborts: calls that were running have failed,
//! the answer has ended with an error.

use annals_core::id::{MessageId, Millis};
use annals_core::json::edit::EditError;
use annals_core::json::{Node, Style};
use annals_core::lens::{
    AssistantMessage, CacheTokens, Lens, Message, MessageTime, Part, Tokens, ToolStatus,
};
use annals_core::{Document, Key, Stored, Transaction};

use crate::figures;
use crate::home::{MessageDetail, MessageRange, MessageRecord, Read, ReadError, SessionRecord};
use crate::homes::opencode::dialect::{CALL_ABORTED, Dialect};
use crate::homes::opencode::order;
use crate::lease::LeaseState;

/// An answer without an end is taken for one that is being written until its session has rested this long.
pub const STILL_RUNNING: Millis = 10 * 60 * 1000;

/// How long an operation takes at most between the time that it writes into a session and the time that it is recorded with.
const OPERATION: Millis = 10 * 1000;

/// How a turn that was interrupted is closed.
#[derive(Debug, Clone, Default)]
pub struct Closing {
    /// The documents that change, as they are and as they become.
    pub(crate) changes: Vec<(Stored, Document)>,
    /// A new answer, which says that the turn was aborted between two steps.
    pub(crate) new: Option<(Key, Document)>,
    /// Answers that get an end.
    pub answers: usize,
    /// Tool calls that get an end.
    pub calls: usize,
    /// When the session was last used, as its own document says.
    last_used: Millis,
    /// The latest time that a message or part names.
    last_sign: Millis,
}

impl Closing {
    /// Whether nothing was interrupted.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.new.is_none()
    }

    /// Whether somebody may be at work on what looks interrupted, given the state of the session's lease. `ours` is when an operation last
    /// changed the session: that it was used then says nothing of an agent.
    pub(crate) fn activity(&self, lease: &LeaseState, now: Millis, ours: Option<Millis>) -> Activity {
        let is_ours = ours.is_some_and(|ours| (0..OPERATION).contains(&(ours - self.last_used)));
        let last = if is_ours { self.last_sign } else { self.last_sign.max(self.last_used) };
        match lease {
            LeaseState::Held(holder) => Activity::Leased(holder.clone()),
            LeaseState::Abandoned(_) => Activity::Resting,
            LeaseState::Free if now - last > STILL_RUNNING => Activity::Resting,
            LeaseState::Free => Activity::Recent(last),
        }
    }

    /// The changes as a transaction.
    pub fn transaction(&self, reason: &str) -> Transaction {
        let mut transaction = Transaction::new(reason);
        for (stored, document) in &self.changes {
            transaction.replace(stored, document.clone());
        }
        if let Some((key, document)) = &self.new {
            transaction.insert(key.clone(), document.clone());
        }
        transaction
    }
}

/// Whether an agent may still be at work on what looks interrupted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Activity {
    /// Nobody is: the writer is gone, or nothing has changed for a while.
    Resting,
    /// A writer holds the lease of the session.
    Leased(crate::lease::Holder),
    /// Something changed at this time, so an OpenCode may be at work, which holds no lease.
    Recent(Millis),
}

/// Why it could not be found out how to close a turn.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InterruptedError {
    /// The home could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A document has another shape than OpenCode's.
    #[error("{place}: {source}")]
    Document {
        /// Where the document is.
        place: String,
        /// What is wrong with it.
        source: EditError,
    },
}

/// Finds what was interrupted in a session, and how to close it. `next` is the id of the answer that says so where an agent was
/// interrupted between two steps.
pub(crate) fn closing(
    home: &dyn Read,
    session: &SessionRecord,
    dialect: Dialect,
    now: Millis,
    next: &MessageId,
) -> Result<Closing, InterruptedError> {
    let mut closing = Closing { last_used: session.info.last_used(), ..Closing::default() };
    let mut last: Option<MessageRecord> = None;
    for record in home.messages(session, &MessageRange::ALL, MessageDetail::Parts) {
        let record = record?;
        closing.last_sign = closing.last_sign.max(last_sign_of_life(&record));
        close_message(&record, dialect, now, &mut closing)?;
        last = Some(record);
    }
    if let Some(last) = last.filter(is_paused) {
        closing.new = end_between_steps(&last, dialect, now, next);
        closing.answers += usize::from(closing.new.is_some());
    }
    Ok(closing)
}

/// The latest time that a message or one of its parts names.
pub(crate) fn last_sign_of_life(record: &MessageRecord) -> Millis {
    const TIMES: [&[&str]; 4] =
        [&["time", "start"], &["time", "end"], &["state", "time", "start"], &["state", "time", "end"]];
    let times = record
        .parts
        .iter()
        .flat_map(|part| TIMES.iter().filter_map(|path| Millis::look(part.document.root().at(path)?)));
    times.fold(record.made, Millis::max)
}

fn close_message(
    record: &MessageRecord,
    dialect: Dialect,
    now: Millis,
    closing: &mut Closing,
) -> Result<(), InterruptedError> {
    let Message::Assistant(answer) = record.stored.document.lens::<Message<'_>>() else { return Ok(()) };
    let is_open = answer.time.as_ref().is_none_or(|time| time.completed.is_none());
    for part in &record.parts {
        let closed = close_part(part, is_open, dialect, now)
            .map_err(|source| InterruptedError::Document { place: part.place.clone(), source })?;
        if let Some(document) = closed {
            closing.calls += usize::from(matches!(part.document.lens(), Part::Tool(_)));
            closing.changes.push((part.clone(), document));
        }
    }
    if !is_open {
        return Ok(());
    }
    let document = &record.stored.document;
    let ended = document.with(&["time", "completed"], &now).and_then(|ended| match answer.error {
        Some(_) => Ok(ended),
        None => ended.with(&["error"], &dialect.aborted()),
    });
    let place = || record.stored.place.clone();
    let ended = ended.map_err(|source| InterruptedError::Document { place: place(), source })?;
    closing.changes.push((record.stored.clone(), order::of_edited(dialect, ended)));
    closing.answers += 1;
    Ok(())
}

/// A part as an abort leaves it. None if it stays as it is.
pub(crate) fn close_part(
    part: &Stored,
    is_open: bool,
    dialect: Dialect,
    now: Millis,
) -> Result<Option<Document>, EditError> {
    let document = &part.document;
    match document.lens::<Part<'_>>() {
        Part::Tool(tool) => {
            let status = tool.state.as_ref().and_then(|state| state.status());
            match status {
                Some(ToolStatus::Pending | ToolStatus::Running) => {
                    abort_call(document, dialect, now).map(Some)
                }
                _ => Ok(None),
            }
        }
        Part::Text(_) | Part::Reasoning(_) if is_open && dialect.marks_what_it_aborts() => {
            let time = document.root().get("time");
            let has = |name: &str| time.and_then(|time| time.get(name)).is_some_and(|time| !time.is_null());
            match has("start") && !has("end") {
                true => document.with(&["time", "end"], &now).map(Some),
                false => Ok(None),
            }
        }
        _ => Ok(None),
    }
}

/// A call as an abort leaves it.
fn abort_call(document: &Document, dialect: Dialect, now: Millis) -> Result<Document, EditError> {
    let state = document.root().get("state");
    let has_input = state.and_then(|state| state.get("input")).is_some();
    let mut closed = document.with(&["state", "status"], "error")?;
    if !has_input {
        closed = closed.with(&["state", "input"], &annals_core::lens::Json::Text("{}".to_owned()))?;
    }
    closed = closed.with(&["state", "error"], CALL_ABORTED)?;
    match dialect.marks_what_it_aborts() {
        true => {
            closed = closed.with(&["state", "metadata", "interrupted"], &true)?;
            if state.and_then(|state| state.at(&["time", "start"])).is_none_or(|start| start.is_null()) {
                closed = closed.with(&["state", "time", "start"], &now)?;
            }
        }
        false => {
            closed = closed.without(&["state", "raw"])?.without(&["state", "title"])?;
            closed = closed.with(&["state", "time", "start"], &now)?;
        }
    }
    Ok(order::of_edited(dialect, closed.with(&["state", "time", "end"], &now)?))
}

/// Whether the last message is an answer after which the agent should have gone on. Where the user refused a call, OpenCode stops on
/// purpose and leaves the same traces.
pub(crate) fn is_paused(record: &MessageRecord) -> bool {
    let Message::Assistant(answer) = record.stored.document.lens::<Message<'_>>() else { return false };
    let is_refusal = |part: &Stored| {
        let error = part.document.root().at(&["state", "error"]).and_then(Node::as_text);
        // The first two since 1.0, the last in 1.2: the name of the error and no text.
        let refusals = ["The user rejected permission", "The user dismissed this question", "RejectedError"];
        error.is_some_and(|error| refusals.iter().any(|refusal| error.to_str().contains(refusal)))
    };
    let is_ended = answer.time.as_ref().is_some_and(|time| time.completed.is_some());
    is_ended && figures::is_paused(&answer) && !record.parts.iter().any(is_refusal)
}

/// An answer without content that was aborted: what OpenCode leaves if it is aborted just after it began the next step.
fn end_between_steps(
    last: &MessageRecord,
    dialect: Dialect,
    now: Millis,
    id: &MessageId,
) -> Option<(Key, Document)> {
    let Message::Assistant(before) = last.stored.document.lens::<Message<'_>>() else { return None };
    let Key::Message(session, _) = &last.stored.key else { return None };
    let answer = AssistantMessage {
        id: Some(id.into()),
        session_id: Some(session.into()),
        time: Some(MessageTime { created: Some(now), completed: Some(now) }),
        error: Some(dialect.aborted()),
        parent_id: before.parent_id,
        model_id: before.model_id,
        provider_id: before.provider_id,
        mode: before.mode,
        agent: before.agent,
        path: before.path,
        cost: Some(0.0),
        tokens: Some(no_tokens()),
        variant: before.variant,
        ..Default::default()
    };
    let document = Document::written(Style::Pretty, &answer).ok()?;
    Some((Key::Message(session.clone(), id.clone()), order::of_new(dialect, document)))
}

/// Token counts of an answer that has just begun.
pub(crate) fn no_tokens() -> Tokens {
    Tokens {
        input: Some(0.0),
        output: Some(0.0),
        reasoning: Some(0.0),
        cache: Some(CacheTokens { read: Some(0.0), write: Some(0.0) }),
        ..Default::default()
    }
}
