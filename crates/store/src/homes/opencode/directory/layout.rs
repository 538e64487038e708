//! Where documents stand in the three directory layouts there have been.

use annals_core::Key;
use annals_core::id::{MessageId, ProjectId, SessionId};

/// How a root arranges its files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Layout {
    /// OpenCode 0.6 to 1.1.65: `session/<project>/<session>.json`, `message/<session>/…`, `part/<message>/…`.
    Flat,
    /// OpenCode before 0.6, one root for each project: `session/info/<session>.json`, `session/message/<session>/…`,
    /// `session/part/<session>/<message>/…`.
    PerProject(ProjectId),
    /// Described before there was OpenCode: `session/<session>/{meta.json,message/…,part/<message>/…}`.
    PerSession,
}

impl Layout {
    /// The directory that holds the messages of a session.
    pub(super) fn messages(&self, session: &SessionId) -> String {
        match self {
            Layout::Flat => format!("message/{session}"),
            Layout::PerProject(_) => format!("session/message/{session}"),
            Layout::PerSession => format!("session/{session}/message"),
        }
    }

    /// The directory that holds the parts of a message.
    pub(super) fn parts(&self, session: &SessionId, message: &MessageId) -> String {
        match self {
            Layout::Flat => format!("part/{message}"),
            Layout::PerProject(_) => format!("session/part/{session}/{message}"),
            Layout::PerSession => format!("session/{session}/part/{message}"),
        }
    }

    /// The document of a session.
    pub(super) fn session(&self, project: &ProjectId, session: &SessionId) -> String {
        match self {
            Layout::Flat => format!("session/{project}/{session}.json"),
            Layout::PerProject(_) => format!("session/info/{session}.json"),
            Layout::PerSession => format!("session/{session}/meta.json"),
        }
    }
}

/// The path of a document in the flat layout, the only one that is written.
pub(super) fn flat_path(key: &Key) -> String {
    match key {
        Key::Project(project) => format!("project/{project}.json"),
        Key::Session(project, session) => format!("session/{project}/{session}.json"),
        Key::Message(session, message) => format!("message/{session}/{message}.json"),
        Key::Part(_, message, part) => format!("part/{message}/{part}.json"),
        Key::Todo(session) => format!("todo/{session}.json"),
        Key::Diff(session) => format!("session_diff/{session}.json"),
        Key::Share(session) => format!("session_share/{session}.json"),
        Key::LegacyShare(session) => format!("share/{session}.json"),
        // OpenCode has none, so nothing is ever written or found there.
        Key::Record(session, record) => format!("record/{session}/{record}.json"),
    }
}

/// The id in a file's name: OpenCode's files end in `.json`, those of the per-session layout need not. `None` for a file
/// that is not a document.
pub(super) fn stem<'n>(layout: &Layout, name: &'n str) -> Option<&'n str> {
    match name.rsplit_once('.') {
        Some((stem, "json")) => Some(stem),
        None if *layout == Layout::PerSession => Some(name),
        _ => None,
    }
}
