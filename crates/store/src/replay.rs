//! Tool calls that failed or were interrupted, with what they were given: ready to be made again.

use annals_core::id::{MessageId, Millis, PartId};
use annals_core::json::{JsWriter, Node, Style};
use annals_core::lens::{Part, ToolStatus};
use annals_core::{Key, Stored};

use crate::home::{Found, MessageDetail, MessageRange, Read, ReadError, SessionRecord};
use crate::homes::opencode::dialect::CALL_ABORTED;

/// A tool call that failed or was interrupted.
#[derive(Debug, Clone)]
pub struct ReplayableCall {
    /// The message that has it.
    pub message: MessageId,
    /// The part's id.
    pub part: PartId,
    /// The model's own name for the call.
    pub call: Option<String>,
    /// The tool.
    pub tool: String,
    /// Its arguments as JSON on one line: the tokens are those that are stored.
    pub input: String,
    /// Its status, as it is stored: `pending`, `running` or `error`.
    pub status: String,
    /// Whether nobody said how it ended: it never did, or its turn was aborted.
    pub is_interrupted: bool,
    /// What went wrong.
    pub error: Option<String>,
    /// When it began.
    pub start: Option<Millis>,
    /// When it ended.
    pub end: Option<Millis>,
}

impl ReplayableCall {
    fn of(stored: &Stored) -> Option<ReplayableCall> {
        let Key::Part(_, message, part) = &stored.key else { return None };
        let Part::Tool(tool) = stored.document.lens() else { return None };
        let state = tool.state?;
        let status = match state.status()? {
            ToolStatus::Pending => "pending",
            ToolStatus::Running => "running",
            ToolStatus::Error => "error",
            _ => return None,
        };
        let error = state.error.map(|error| error.to_string());
        let mark = stored.document.root().at(&["state", "metadata", "interrupted"]);
        let is_marked = mark.and_then(Node::as_bool) == Some(true);
        Some(ReplayableCall {
            message: message.clone(),
            part: part.clone(),
            call: tool.call_id.map(|call| call.to_string()),
            tool: tool.tool.map(|tool| tool.to_string()).unwrap_or_default(),
            is_interrupted: status != "error" || is_marked || error.as_deref() == Some(CALL_ABORTED),
            status: status.to_owned(),
            error,
            start: state.time.as_ref().and_then(|time| time.start),
            end: state.time.as_ref().and_then(|time| time.end),
            input: stored
                .document
                .root()
                .at(&["state", "input"])
                .map_or_else(|| "{}".to_owned(), on_one_line),
        })
    }
}

/// A value without line breaks between its tokens.
fn on_one_line(value: Node<'_>) -> String {
    let mut text = JsWriter::verbatim(Style::Compact, 0);
    text.node(value);
    String::from_utf8_lossy(&text.finish()).into_owned()
}

/// The calls of a session that failed or were interrupted, in order.
pub fn calls(home: &dyn Read, session: &SessionRecord) -> Result<Found<Vec<ReplayableCall>>, ReadError> {
    let mut messages = home.messages(session, &MessageRange::ALL, MessageDetail::ToolCalls);
    let (mut value, mut quarantined) = (Vec::new(), Vec::new());
    for message in messages.by_ref() {
        let mut message = message?;
        value.extend(message.parts.iter().filter_map(ReplayableCall::of));
        quarantined.append(&mut message.quarantined);
    }
    quarantined.extend(messages.into_quarantined());
    Ok(Found { value, quarantined })
}
