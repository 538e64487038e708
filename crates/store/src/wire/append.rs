//! A stream of events: what `annals append` answers to each line.

use annals_core::id::SessionId;
use serde::Serialize;

use super::OperationEffect;
use crate::turn::{AppliedEvent, EventError};

/// Acknowledgement of a line. What the line says is stored, and so is what every earlier line says about the same session.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Acknowledgement<'a> {
    /// Number of the line, from 1.
    pub line: usize,
    /// Id of the session that the line is about.
    pub session: &'a str,
    /// Id of the message that was created or ended. The field is left out if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<&'a str>,
    /// Id of the part that was created or changed. The field is left out if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<&'a str>,
    /// Id of the session of a subagent that was created. The field is left out if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub child: Option<&'a str>,
    /// Number of pieces of text, up to this line, that were stored together. The field is left out for other events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deltas: Option<usize>,
}

impl<'a> Acknowledgement<'a> {
    /// The acknowledgement of an event.
    pub fn of(line: usize, applied: &'a AppliedEvent) -> Acknowledgement<'a> {
        Acknowledgement {
            line,
            session: applied.session.as_ref().map(SessionId::as_str).unwrap_or_default(),
            message: applied.message.as_ref().map(|message| message.as_str()),
            part: applied.part.as_ref().map(|part| part.as_str()),
            child: applied.child.as_ref().map(SessionId::as_str),
            deltas: None,
        }
    }

    /// The acknowledgement of pieces of text.
    pub fn of_deltas(line: usize, session: &'a SessionId, deltas: usize) -> Acknowledgement<'a> {
        let (message, part, child) = (None, None, None);
        Acknowledgement { line, session: session.as_str(), message, part, child, deltas: Some(deltas) }
    }
}

/// A line that was refused. It has changed nothing.
#[derive(Debug, Clone, Serialize)]
pub struct RefusedLine {
    /// Number of the line, from 1. If pieces of text could not be stored, the last one of them.
    pub line: usize,
    /// What is wrong.
    pub error: LineError,
}

/// Reason why a line was refused.
#[derive(Debug, Clone, Serialize)]
pub struct LineError {
    /// Kind of the error.
    pub kind: &'static str,
    /// What is wrong, in words.
    pub message: String,
}

impl RefusedLine {
    /// A line that was refused.
    pub fn of(line: usize, error: &EventError) -> RefusedLine {
        RefusedLine { line, error: LineError { kind: error.kind(), message: error.to_string() } }
    }
}

/// The end of a stream that came before the end of its turns.
#[derive(Debug, Clone, Serialize)]
pub struct AbortedTurns {
    /// Number of lines that were read.
    pub lines: usize,
    /// Ids of the sessions whose turns were aborted.
    pub aborted: Vec<String>,
    /// Ids of the sessions whose turns could not be closed. The next writer closes them, or `annals check --fix`.
    pub left: Vec<String>,
}

/// A session that was created.
#[derive(Debug, Clone, Serialize)]
pub struct NewSession<'a> {
    /// Id of the session.
    pub id: &'a str,
    /// The title.
    pub title: &'a str,
    /// The directory that the session works in.
    pub directory: &'a str,
    /// Id of the session that started it.
    #[serde(rename = "parentID")]
    pub parent_id: Option<String>,
    /// What was done.
    #[serde(flatten)]
    pub effect: OperationEffect,
}
