//! Edits of a session's own document: its title, the marks of an archived and of a reverted session.

use annals_core::Document;
use annals_core::id::Millis;
use annals_core::json::Text;
use annals_core::json::edit::EditError;
use annals_core::lens::Revert;
use serde::{Deserialize, Serialize};

/// Edit of a session document. The names are part of the stored bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SessionEdit {
    /// Sets the title.
    Title(String),
    /// Marks the session as archived at this time, or removes the mark.
    Archived(Option<Millis>),
    /// Hides the conversation from a message or part on.
    Revert(Box<RevertNote>),
    /// Shows the whole conversation again. The time is that of the change.
    Unrevert(Millis),
}

/// A revert as the session's document has it. The names are part of the stored bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RevertNote {
    /// The first message that is hidden, or the one that is hidden in part.
    pub(crate) message: String,
    /// The first part of it that is hidden.
    pub(crate) part: Option<String>,
    /// The working tree before the revert changed it.
    pub(crate) snapshot: Option<String>,
    /// What the revert changed there.
    pub(crate) diff: Option<String>,
    /// Lines added and deleted and the number of files changed by what is hidden, if that is known.
    pub(crate) summary: Option<[u64; 3]>,
    /// When the session is reverted.
    pub(crate) time: Millis,
}

impl SessionEdit {
    pub(super) fn apply(&self, document: &Document) -> Result<Document, EditError> {
        match self {
            SessionEdit::Title(title) => document.with(&["title"], title.as_str()),
            SessionEdit::Archived(Some(time)) => document.with(&["time", "archived"], time),
            SessionEdit::Archived(None) => document.without(&["time", "archived"]),
            SessionEdit::Revert(note) => note.apply(document),
            SessionEdit::Unrevert(time) => document.without(&["revert"])?.with(&["time", "updated"], time),
        }
    }
}

/// A session's document with lines added and deleted and the number of files changed.
pub(super) fn with_summary(document: &Document, summary: [u64; 3]) -> Result<Document, EditError> {
    let numbers = ["additions", "deletions", "files"].into_iter().zip(summary);
    numbers.into_iter().try_fold(document.clone(), |document, (name, number)| {
        document.with(&["summary", name], &(number as f64))
    })
}

impl RevertNote {
    fn apply(&self, document: &Document) -> Result<Document, EditError> {
        let text = |text: &Option<String>| text.clone().map(Text::from);
        let revert = Revert {
            message_id: Some(self.message.as_str().into()),
            part_id: text(&self.part),
            snapshot: text(&self.snapshot),
            diff: text(&self.diff),
        };
        let mut document = document.with(&["revert"], &revert)?;
        if let Some(summary) = self.summary {
            document = with_summary(&document, summary)?;
        }
        document.with(&["time", "updated"], &self.time)
    }
}
