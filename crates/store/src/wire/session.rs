//! Sessions in a list or a tree, and the todo list of a session.

use annals_core::Document;
use annals_core::id::{Millis, SessionId};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::family::{self, Descent};
use crate::summary::{SessionState, SessionSummary};
use crate::wire::usage::Tokens;

/// A session with its counts and sums.
#[derive(Debug, Clone, Serialize)]
pub struct Session<'a> {
    /// Id of the session.
    pub id: &'a str,
    /// Title of the session.
    pub title: &'a str,
    /// The project the session is filed under. After an `opencode import` the session document may name another.
    #[serde(rename = "projectID")]
    pub project_id: &'a str,
    /// The directory the session was opened in. Sessions from before OpenCode 0.6 do not name it: then it is the directory
    /// of the first answer.
    pub directory: Option<&'a str>,
    /// The session that started this one.
    #[serde(rename = "parentID")]
    pub parent_id: Option<&'a str>,
    /// The version of OpenCode that made the session.
    pub version: Option<&'a str>,
    /// When the session was made.
    pub created: Option<Millis>,
    /// When the session was last used.
    pub updated: Option<Millis>,
    /// When the session was archived.
    pub archived: Option<Millis>,
    /// Number of messages.
    pub messages: usize,
    /// Number of parts of these messages.
    pub parts: usize,
    /// Cost of all answers.
    pub cost: f64,
    /// Tokens of all answers.
    pub tokens: Tokens,
    /// The models that answered, as `provider/model`, in order of appearance.
    pub models: &'a [String],
    /// The agents that answered, in order of appearance.
    pub agents: &'a [String],
    /// Ids of the sessions that this one started.
    pub children: Vec<&'a str>,
    /// The homes that hold the session, the one it was read from first. For a session of a store, the homes it comes from.
    pub origins: Vec<String>,
    /// When the session was found to be in none of these homes any more.
    pub gone: Option<Millis>,
    /// State of the last answer, judged by the messages: `empty`, `done`, `failed` or `open`.
    pub status: &'static str,
}

impl<'a> Session<'a> {
    /// The shape of a session and the ids of the sessions that it started.
    pub fn of(summary: &'a SessionSummary, children: Vec<&'a str>) -> Session<'a> {
        Session {
            id: summary.id.as_str(),
            title: &summary.title,
            project_id: summary.project.as_str(),
            directory: summary.directory.as_deref(),
            parent_id: summary.parent.as_ref().map(SessionId::as_str),
            version: summary.version.as_deref(),
            created: summary.created,
            updated: summary.updated,
            archived: summary.archived,
            messages: summary.messages,
            parts: summary.parts,
            cost: summary.usage.cost,
            tokens: summary.usage.into(),
            models: &summary.models,
            agents: &summary.agents,
            children,
            origins: summary.origins.iter().map(ToString::to_string).collect(),
            gone: summary.gone,
            status: status(summary.state),
        }
    }
}

/// The name of a state.
pub fn status(state: SessionState) -> &'static str {
    match state {
        SessionState::Empty => "empty",
        SessionState::Done => "done",
        SessionState::Failed => "failed",
        SessionState::Open => "open",
    }
}

/// A session with the sessions that it started, and the sessions that those started.
#[derive(Debug, Clone, Serialize)]
pub struct SessionTree<'a> {
    /// The session itself.
    #[serde(flatten)]
    pub session: Session<'a>,
    /// The sessions that it started, oldest first.
    pub subtree: Vec<SessionTree<'a>>,
    /// The sessions that are forks of it, oldest first.
    pub forks: Vec<SessionTree<'a>>,
}

/// A session in the ancestry of another one.
#[derive(Debug, Clone, Serialize)]
pub struct Relative<'a> {
    /// Id of the session.
    pub id: &'a str,
    /// Title of the session.
    pub title: &'a str,
    /// When the session was made.
    pub created: Option<Millis>,
    /// How the session came about: `opened`, `started` by another session, or `fork` of another session.
    pub descent: &'static str,
    /// The session that started this one, or that this one is a fork of.
    #[serde(rename = "fromID")]
    pub from_id: Option<&'a str>,
    /// Number of messages that a fork and its origin have in common.
    pub messages: Option<usize>,
    /// Number of ancestors.
    pub depth: usize,
}

impl<'a> From<&'a family::Relative<'a>> for Relative<'a> {
    fn from(relative: &'a family::Relative<'a>) -> Relative<'a> {
        let (descent, from_id, messages) = match &relative.descent {
            Descent::Opened => ("opened", None, None),
            Descent::StartedBy(parent) => ("started", Some(parent.as_str()), None),
            Descent::ForkOf(origin) => ("fork", Some(origin.session.as_str()), Some(origin.messages)),
        };
        Relative {
            id: relative.record.id.as_str(),
            title: relative.record.info.title(),
            created: relative.record.info.created(),
            descent,
            from_id,
            messages,
            depth: relative.depth,
        }
    }
}

/// The todo list of a session.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct TodoList<'a> {
    /// Id of the session.
    #[serde(rename = "sessionID")]
    pub session_id: &'a str,
    /// The list as stored; the model may have added fields of its own. Empty if the session has no list.
    pub todos: &'a RawValue,
}

impl<'a> TodoList<'a> {
    /// The todo list of `session`, as its document has it.
    pub fn of(session: &'a SessionId, document: Option<&'a Document>) -> serde_json::Result<TodoList<'a>> {
        let todos = serde_json::from_str(document.map_or("[]", Document::text))?;
        Ok(TodoList { session_id: session.as_str(), todos })
    }
}
