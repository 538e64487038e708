//! The plan of an operation. It is recorded before anything is changed, so that an interrupted operation can be completed or taken back.

use annals_core::Document;
use annals_core::id::{IdError, Millis, SessionId};
use annals_core::json::Text;
use annals_core::json::edit::EditError;
use annals_core::lens::Revert;
use serde::{Deserialize, Serialize};

/// Upper bound on the attempts at an edit while other processes change the document.
pub(super) const MAX_TRIES: usize = 10;

/// Plan of an operation. The names are part of the stored bytes.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct OperationPlan {
    /// Number of commits to homes. An operation that was interrupted after fewer is taken back. `None` if each commit is complete by itself.
    pub(crate) commits: Option<usize>,
    /// Work that is left to do in the store after the commits.
    pub(crate) then: Option<Intent>,
}

/// Work that is left to do in the store once homes are changed. The names are part of the stored bytes.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Intent {
    /// Session documents are edited if the store does not show the edit: because no home could be changed, or because the home with the
    /// latest state of the session cannot be reached or is not the user's own.
    Edit {
        /// The sessions.
        sessions: Sessions,
        /// The edit.
        edit: SessionEdit,
    },
    /// The todo list of a session is replaced if the store shows another one.
    Todo {
        /// The session.
        session: Sessions,
        /// The list, as JSON.
        list: String,
    },
    /// Tool calls get the mark that hides their results from the model, if they lack it in the store.
    Prune {
        /// The session.
        session: Sessions,
        /// The calls, each by its message and its part.
        calls: Vec<(String, String)>,
        /// When they are marked.
        time: Millis,
    },
    /// Sessions that no home has are deleted.
    Remove {
        /// The sessions.
        sessions: Sessions,
    },
    /// Changes that an operation made in the store alone are taken back, for these sessions or for all.
    Undo {
        /// The operation.
        operation: i64,
        /// Only these sessions.
        only: Option<Sessions>,
    },
}

/// Sessions, as a list of their ids.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(into = "Vec<String>", try_from = "Vec<String>")]
pub struct Sessions(pub(super) Vec<SessionId>);

impl From<Sessions> for Vec<String> {
    fn from(sessions: Sessions) -> Vec<String> {
        sessions.0.iter().map(ToString::to_string).collect()
    }
}

impl TryFrom<Vec<String>> for Sessions {
    type Error = IdError;

    fn try_from(ids: Vec<String>) -> Result<Sessions, IdError> {
        Ok(Sessions(ids.iter().map(|id| SessionId::parse(id)).collect::<Result<_, _>>()?))
    }
}

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
