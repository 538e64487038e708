//! Tool calls that failed or were interrupted.

use annals_core::id::{Millis, SessionId};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::replay;

/// A tool call that failed or was interrupted.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct ReplayableCall<'a> {
    /// Id of the session.
    pub session: &'a str,
    /// Id of the message that has the call.
    pub message: &'a str,
    /// Id of the part that is the call.
    pub part: &'a str,
    /// The model's own name for the call.
    pub call: Option<&'a str>,
    /// The tool.
    pub tool: &'a str,
    /// The arguments of the call, exactly as they are stored, but on one line.
    pub input: &'a RawValue,
    /// Status of the call, as it is stored: `pending`, `running` or `error`.
    pub status: &'a str,
    /// Whether nobody said how the call ended: it never did, or its turn was aborted.
    pub interrupted: bool,
    /// What went wrong; `null` if the call never ended.
    pub error: Option<&'a str>,
    /// When the call began and ended.
    pub time: CallTime,
}

/// When a tool call began and ended.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct CallTime {
    /// When the call began; `null` if it did not.
    pub start: Option<Millis>,
    /// When the call ended; `null` if it did not.
    pub end: Option<Millis>,
}

impl<'a> ReplayableCall<'a> {
    /// A call of a session.
    pub fn of(
        session: &'a SessionId,
        call: &'a replay::ReplayableCall,
    ) -> Result<ReplayableCall<'a>, serde_json::Error> {
        Ok(ReplayableCall {
            session: session.as_str(),
            message: call.message.as_str(),
            part: call.part.as_str(),
            call: call.call.as_deref(),
            tool: &call.tool,
            input: serde_json::from_str(&call.input)?,
            status: &call.status,
            interrupted: call.is_interrupted,
            error: call.error.as_deref(),
            time: CallTime { start: call.start, end: call.end },
        })
    }
}
