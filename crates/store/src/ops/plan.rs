//! The plan of an operation. It is recorded before anything is changed, so that an interrupted operation can be completed or taken back.

use annals_core::id::{IdError, Millis, SessionId};
use serde::{Deserialize, Serialize};

use super::session_edit::SessionEdit;

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
