//! A message in numbers: who, when, for how much, with which tools. Statistics need no more than this, so a home that keeps these
//! numbers need not read the documents.

use annals_core::id::Millis;
use annals_core::lens::{AssistantMessage, Message, ToolPart, ToolStatus};
use annals_core::{Provenance, Usage};

use crate::record::Quarantined;

/// A message in numbers.
#[derive(Debug, Clone)]
pub struct Figures {
    /// Who speaks.
    pub role: Role,
    /// When it was made.
    pub made: Millis,
    /// The agent it was for or from.
    pub agent: Option<String>,
    /// Provider of the model that answered.
    pub provider: Option<String>,
    /// The model that answered.
    pub model: Option<String>,
    /// The working directory of the answer.
    pub cwd: Option<String>,
    /// State of the session after it.
    pub state: SessionState,
    /// Cost and tokens.
    pub usage: Usage,
    /// How many parts it has.
    pub n_parts: usize,
    /// Its tool calls, if the [`MessageDetail`](crate::record::MessageDetail) asked for them.
    pub calls: Vec<Call>,
    /// Which program wrote it, and in which format.
    pub provenance: Provenance,
    /// Parts that could not be read.
    pub quarantined: Vec<Quarantined>,
}

/// State of a session's last answer, judged by its message documents. They do not say whether an agent is running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionState {
    /// Nothing was asked yet.
    Empty,
    /// The answer ended, and so did the turn.
    Done,
    /// The answer ended with an error.
    Failed,
    /// The answer has not ended, or ended with tool calls that nothing came after: an agent is at work, was interrupted, or
    /// stopped because the user refused a call.
    Open,
}

impl SessionState {
    pub(crate) fn number(self) -> i64 {
        match self {
            SessionState::Empty => 0,
            SessionState::Done => 1,
            SessionState::Failed => 2,
            SessionState::Open => 3,
        }
    }

    pub(crate) fn from_number(number: i64) -> SessionState {
        match number {
            1 => SessionState::Done,
            2 => SessionState::Failed,
            3 => SessionState::Open,
            _ => SessionState::Empty,
        }
    }
}

/// Who speaks in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The user.
    User,
    /// The model.
    Assistant,
    /// A role that is not known.
    Other,
}

/// A tool call in numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Which tool.
    pub tool: String,
    /// Whether it failed.
    pub failed: bool,
    /// How long it took, in milliseconds, if it ended.
    pub duration: Option<u32>,
}

impl Call {
    /// The call of a tool part. `None` if the part does not name its tool.
    pub(crate) fn of(part: &ToolPart<'_>) -> Option<Call> {
        let tool = part.tool.as_ref().filter(|tool| !tool.is_empty())?.to_string();
        let state = part.state.as_ref();
        let time = state.and_then(|state| state.time.as_ref());
        let ends = time.and_then(|time| time.start.zip(time.end));
        Some(Call {
            tool,
            failed: state.and_then(|state| state.status()) == Some(ToolStatus::Error),
            duration: ends
                .map(|(start, end)| u32::try_from(end.saturating_sub(start).max(0)).unwrap_or(u32::MAX)),
        })
    }
}

impl Role {
    pub(crate) fn number(self) -> i64 {
        match self {
            Role::Other => 0,
            Role::User => 1,
            Role::Assistant => 2,
        }
    }

    pub(crate) fn from_number(number: i64) -> Role {
        match number {
            1 => Role::User,
            2 => Role::Assistant,
            _ => Role::Other,
        }
    }
}

impl Figures {
    /// Figures of a message of which only this is known.
    pub(crate) fn bare(role: Role, made: Millis) -> Figures {
        Figures {
            role,
            made,
            agent: None,
            provider: None,
            model: None,
            cwd: None,
            state: SessionState::Empty,
            usage: Usage::default(),
            n_parts: 0,
            calls: Vec::new(),
            provenance: Provenance::default(),
            quarantined: Vec::new(),
        }
    }

    /// Figures from a message document. `made` is used if the document does not say when it was made.
    pub fn of(message: &Message<'_>, made: Millis) -> Figures {
        let answer = match message {
            Message::Assistant(answer) => Some(answer),
            _ => None,
        };
        let completed =
            answer.and_then(|answer| answer.time.as_ref()).is_some_and(|time| time.completed.is_some());
        let path = answer.and_then(|answer| answer.path.as_ref());
        Figures {
            role: match message {
                Message::User(_) => Role::User,
                Message::Assistant(_) => Role::Assistant,
                Message::Other(_) => Role::Other,
            },
            made: message.created().unwrap_or(made),
            agent: message.agent().map(ToString::to_string),
            provider: answer.and_then(|answer| answer.provider_id.as_ref()).map(ToString::to_string),
            model: answer.and_then(|answer| answer.model_id.as_ref()).map(ToString::to_string),
            cwd: path.and_then(|path| path.cwd.as_ref()).map(ToString::to_string),
            state: match answer {
                Some(answer) if answer.error.is_some() => SessionState::Failed,
                Some(answer) if completed && !is_paused(answer) => SessionState::Done,
                _ => SessionState::Open,
            },
            usage: answer.map(|answer| Usage::of(answer)).unwrap_or_default(),
            n_parts: 0,
            calls: Vec::new(),
            provenance: Provenance::default(),
            quarantined: Vec::new(),
        }
    }
}

/// Whether an answer ended with tool calls, after which the agent goes on with another answer. If the tool received the requested
/// result (structured output), the turn is over.
pub(crate) fn is_paused(answer: &AssistantMessage<'_>) -> bool {
    answer.error.is_none()
        && answer.structured.is_none()
        && answer.finish.as_ref().is_some_and(|finish| *finish == "tool-calls")
}
