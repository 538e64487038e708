//! What an operation is going to do. It is recorded before anything is changed, so that one that was cut short can be completed or taken
//! back.

use annals_core::Document;
use annals_core::id::{IdError, Millis, SessionId};
use annals_core::json::edit::EditError;
use serde::{Deserialize, Serialize};

/// How often an edit is made again because the document was changed meanwhile.
pub(super) const MAX_TRIES: usize = 10;

/// What an operation is going to do. The names are part of the stored bytes.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct OperationPlan {
    /// How many commits to homes it takes. One that was cut short after fewer is taken back. None if each commit is complete by itself.
    pub(crate) commits: Option<usize>,
    /// What is left to do in the store after that.
    pub(crate) then: Option<Intent>,
}

/// What is left to do in the store once homes are changed. The names are part of the stored bytes.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Intent {
    /// Session documents are edited where the store does not show the edit. That is so where no home could be changed, or where a home
    /// that cannot be reached, or is not the user's own, has the session in its latest state.
    Edit {
        /// Which.
        sessions: Sessions,
        /// What becomes of them.
        edit: SessionEdit,
    },
    /// Sessions that no home has are deleted.
    Remove {
        /// Which.
        sessions: Sessions,
    },
    /// What an operation changed in the store alone is taken back, of these sessions or of all.
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

/// What becomes of a session document. The names are part of the stored bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SessionEdit {
    /// It gets this title.
    Title(String),
    /// It is marked as archived at this time, or not at all.
    Archived(Option<Millis>),
}

impl SessionEdit {
    pub(super) fn apply(&self, document: &Document) -> Result<Document, EditError> {
        match self {
            SessionEdit::Title(title) => document.with(&["title"], title.as_str()),
            SessionEdit::Archived(Some(time)) => document.with(&["time", "archived"], time),
            SessionEdit::Archived(None) => document.without(&["time", "archived"]),
        }
    }
}
