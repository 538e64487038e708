//! The facts in a session's document, read once.

use crate::document::Document;
use crate::id::{Millis, SessionId};
use crate::lens::Session;

/// The facts in a session's document.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SessionInfo {
    title: Option<String>,
    directory: Option<String>,
    parent: Option<String>,
    version: Option<String>,
    created: Option<Millis>,
    updated: Option<Millis>,
    archived: Option<Millis>,
    changes: Option<FileChanges>,
}

/// Files and lines that a session changed, as its agent counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FileChanges {
    /// Files.
    pub files: u64,
    /// Lines added.
    pub additions: u64,
    /// Lines deleted.
    pub deletions: u64,
}

impl SessionInfo {
    /// Reads a session's document.
    pub fn of(document: &Document) -> SessionInfo {
        let session = document.lens::<Session<'_>>();
        let time = session.time.unwrap_or_default();
        let count = |number: Option<f64>| number.unwrap_or(0.0) as u64;
        SessionInfo {
            title: session.title.map(|title| title.to_string()),
            directory: session.directory.map(|directory| directory.to_string()),
            parent: session.parent_id.map(|parent| parent.to_string()),
            version: session.version.map(|version| version.to_string()),
            created: time.created,
            updated: time.updated,
            archived: time.archived,
            changes: session.summary.map(|summary| FileChanges {
                files: count(summary.files),
                additions: count(summary.additions),
                deletions: count(summary.deletions),
            }),
        }
    }

    /// Its title; empty if it has none.
    pub fn title(&self) -> &str {
        self.title.as_deref().unwrap_or_default()
    }

    /// The directory it was opened in. Sessions from before OpenCode 0.6 do not say.
    pub fn directory(&self) -> Option<&str> {
        self.directory.as_deref()
    }

    /// The session that started it, if the document names it by a valid id.
    pub fn parent(&self) -> Option<SessionId> {
        SessionId::parse(self.parent.as_deref()?).ok()
    }

    /// Whether no other session started it.
    pub fn is_root(&self) -> bool {
        self.parent.is_none()
    }

    /// The version of the agent that made it.
    pub fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    /// When it was made.
    pub fn created(&self) -> Option<Millis> {
        self.created
    }

    /// When it was last changed, as its document says.
    pub fn updated(&self) -> Option<Millis> {
        self.updated
    }

    /// When it was last used: changed, or else made; 0 if the document says neither.
    pub fn last_used(&self) -> Millis {
        self.updated.or(self.created).unwrap_or(0)
    }

    /// When it was archived.
    pub fn archived(&self) -> Option<Millis> {
        self.archived
    }

    /// Files and lines it changed, if the agent counted them.
    pub fn changes(&self) -> Option<FileChanges> {
        self.changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_document_does_not_say_is_none() {
        let of = |text: &str| SessionInfo::of(&Document::parse(text.as_bytes().to_vec()).unwrap());
        let bare = of("{}");
        assert_eq!((bare.title(), bare.directory(), bare.last_used()), ("", None, 0));
        assert!(bare.is_root());
        let full = of(r#"{"title":"Fix","directory":"/shop","parentID":"ses_1","version":"1.1.65",
            "time":{"created":1,"updated":2,"archived":3},"summary":{"files":1,"additions":5,"deletions":2}}"#);
        assert_eq!((full.title(), full.directory(), full.version()), ("Fix", Some("/shop"), Some("1.1.65")));
        assert_eq!(full.parent(), SessionId::parse("ses_1").ok());
        assert_eq!(
            (full.created(), full.updated(), full.archived(), full.last_used()),
            (Some(1), Some(2), Some(3), 2)
        );
        assert_eq!(full.changes(), Some(FileChanges { files: 1, additions: 5, deletions: 2 }));
        // A parent with an invalid id is still a parent.
        let odd = of(r#"{"parentID":"../x","time":{"created":7}}"#);
        assert_eq!((odd.is_root(), odd.parent(), odd.last_used()), (false, None, 7));
    }
}
