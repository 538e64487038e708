//! A text or thought that is being written: what it says, and how much of that is stored.

use annals_core::Document;
use annals_core::id::{MessageId, Millis, PartId, SessionId};
use annals_core::json::{JsonError, Style};
use annals_core::lens::{Json, ReasoningPart, Span, TextPart};

use crate::homes::opencode::dialect::Dialect;
use crate::homes::opencode::order;
use crate::ids;

/// Whether a text is said or thought.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum TextKind {
    Text,
    Reasoning,
}

impl TextKind {
    pub(super) fn noun(self) -> &'static str {
        match self {
            TextKind::Text => "text",
            TextKind::Reasoning => "thought",
        }
    }
}

/// A text that is being written.
#[derive(Debug)]
pub(super) struct OpenText {
    pub(super) kind: TextKind,
    start: Millis,
    end: Option<Millis>,
    text: String,
    metadata: Option<Json<'static>>,
    /// How much of the text is stored, in bytes; `None` before the part is.
    stored: Option<usize>,
}

impl OpenText {
    pub(super) fn new(kind: TextKind) -> OpenText {
        let start = ids::now();
        OpenText { kind, start, end: None, text: String::new(), metadata: None, stored: None }
    }

    /// The text that is not stored yet.
    pub(super) fn pending(&self) -> &str {
        &self.text[self.stored_length()..]
    }

    pub(super) fn is_stored(&self) -> bool {
        self.stored.is_some()
    }

    pub(super) fn stored_length(&self) -> usize {
        self.stored.unwrap_or(0)
    }

    pub(super) fn length(&self) -> usize {
        self.text.len()
    }

    /// Adds a piece.
    pub(super) fn push(&mut self, piece: &str) {
        self.text.push_str(piece);
    }

    /// The text as far as it is stored.
    pub(super) fn as_stored(&self) -> OpenText {
        OpenText {
            text: self.text[..self.stored_length()].to_owned(),
            kind: self.kind,
            start: self.start,
            end: None,
            metadata: None,
            stored: None,
        }
    }

    /// The text as it ends now.
    pub(super) fn ended(&self, dialect: Dialect, now: Millis, metadata: Option<Json<'static>>) -> OpenText {
        let forgets_start = dialect.forgets_start() && self.kind == TextKind::Text;
        OpenText {
            text: dialect.ended_text(&self.text).to_owned(),
            kind: self.kind,
            start: if forgets_start { now } else { self.start },
            end: Some(now),
            metadata,
            stored: None,
        }
    }

    /// Counts all of the text as stored, or as much as given. Returns how much counted as stored before.
    pub(super) fn count_as_stored(&mut self, length: Option<usize>) -> Option<usize> {
        std::mem::replace(&mut self.stored, length)
    }

    pub(super) fn mark_stored(&mut self, length: usize) {
        self.stored = Some(length);
    }

    /// The part with all of the text.
    pub(super) fn document(
        &self,
        session: &SessionId,
        message: &MessageId,
        part: &PartId,
        dialect: Dialect,
    ) -> Result<Document, JsonError> {
        let (id, session_id, message_id) = (Some(part.into()), Some(session.into()), Some(message.into()));
        let time = Some(Span { start: Some(self.start), end: self.end });
        let (text, metadata) = (Some(self.text.as_str().into()), self.metadata.clone());
        let document = match self.kind {
            TextKind::Text => {
                let part =
                    TextPart { id, session_id, message_id, text, time, metadata, ..Default::default() };
                Document::written_as_given(Style::Pretty, &part)
            }
            TextKind::Reasoning => {
                let part = ReasoningPart { id, session_id, message_id, text, metadata, time };
                Document::written_as_given(Style::Pretty, &part)
            }
        };
        Ok(order::of_new(dialect, document?))
    }
}
