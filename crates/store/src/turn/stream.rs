//! Texts and thoughts of a model, written piece by piece.

use std::sync::Arc;

use annals_core::id::{MessageId, PartId};
use annals_core::lens::Json;

use super::TurnError;
use super::writer::{Changes, Writer};
use crate::ids;

/// A text or thought that is being written: see [`Answer::text`](super::Answer::text). One that is dropped before it is finished stays
/// open until its answer ends.
#[derive(Debug)]
#[must_use = "a text that is not finished keeps its answer from ending"]
pub struct TextStream {
    writer: Arc<Writer>,
    message: MessageId,
    part: PartId,
}

impl TextStream {
    pub(super) fn new(writer: &Arc<Writer>, message: &MessageId, part: PartId) -> TextStream {
        TextStream { writer: Arc::clone(writer), message: message.clone(), part }
    }

    /// The id of the part.
    pub fn id(&self) -> &PartId {
        &self.part
    }

    /// Adds a piece of text. It is stored a moment later, with the pieces that come until then. [`TurnError::Flush`] says that they could
    /// not be stored so far; this piece and they are kept, and tried again.
    pub fn push(&mut self, piece: &str) -> Result<(), TurnError> {
        let mut state = self.writer.lock()?;
        let text = state.answer_mut(&self.message)?.texts.get_mut(&self.part);
        let text = text.ok_or(TurnError::Ended { what: "the text" })?;
        text.push(piece);
        match piece.is_empty() {
            true => Ok(()),
            false => self.writer.text_added(&mut state),
        }
    }

    /// Stores what was added so far.
    pub fn flush(&mut self) -> Result<(), TurnError> {
        let mut state = self.writer.lock()?;
        state.answer_mut(&self.message)?;
        self.writer.flush(&mut state)
    }

    /// Ends the text.
    pub fn finish(self) -> Result<PartId, TurnError> {
        self.end(None)
    }

    /// Ends the text, with the provider's own data about it: a signature, the id of an item.
    pub fn finish_with(self, metadata: impl Into<Json<'static>>) -> Result<PartId, TurnError> {
        self.end(Some(metadata.into()))
    }

    /// Ends the text. It stays open if this fails.
    pub(super) fn end(&self, metadata: Option<Json<'static>>) -> Result<PartId, TurnError> {
        let (writer, session) = (&self.writer, self.writer.session_id());
        let mut state = writer.lock()?;
        let answer = state.answer_mut(&self.message)?;
        let text = answer.texts.get(&self.part).ok_or(TurnError::Ended { what: "the text" })?;
        let dialect = writer.dialect();
        let (before, ended) = (text.as_stored(), text.ended(dialect, ids::now(), metadata));
        let key = writer.part_key(&self.message, &self.part);
        let document = ended.document(session, &self.message, &self.part, dialect)?;
        let mut changes = Changes::new("a text ends");
        match text.is_stored() {
            true => {
                let known = before.document(session, &self.message, &self.part, dialect)?;
                changes.replaced.push((key, known, document));
            }
            false => changes.new.push((key, document)),
        }
        // The whole text is among the changes, so nothing of it is pending.
        let length = Some(text.length());
        let kept = answer.texts.get_mut(&self.part).and_then(|text| text.count_as_stored(length));
        if let Err(error) = writer.commit(&mut state, changes) {
            if let Ok(answer) = state.answer_mut(&self.message)
                && let Some(text) = answer.texts.get_mut(&self.part)
            {
                text.count_as_stored(kept);
            }
            return Err(error);
        }
        state.answer_mut(&self.message)?.texts.remove(&self.part);
        Ok(self.part.clone())
    }
}
