//! Names of documents, and differences between versions of a document.

use annals_core::id::Millis;
use annals_core::{Document, Key};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::difference;
use crate::home::Changed;

/// The document that something is about.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct DocumentName<'a> {
    /// Kind of the document: `project`, `session`, `message`, `part`, `todo`, `diff` or `share`.
    pub kind: &'static str,
    /// The session that the document is or belongs to.
    #[serde(rename = "sessionID")]
    pub session_id: Option<&'a str>,
    /// The message that the document is or belongs to.
    #[serde(rename = "messageID")]
    pub message_id: Option<&'a str>,
    /// The part that the document is.
    #[serde(rename = "partID")]
    pub part_id: Option<&'a str>,
}

impl<'a> From<&'a Key> for DocumentName<'a> {
    fn from(key: &'a Key) -> DocumentName<'a> {
        let (message_id, part_id) = match key {
            Key::Message(_, message) => (Some(message.as_str()), None),
            Key::Part(_, message, part) => (Some(message.as_str()), Some(part.as_str())),
            _ => (None, None),
        };
        DocumentName {
            kind: match key {
                Key::Project(_) => "project",
                Key::Session(..) => "session",
                Key::Message(..) => "message",
                Key::Part(..) => "part",
                Key::Todo(_) => "todo",
                Key::Diff(_) => "diff",
                Key::Share(_) | Key::LegacyShare(_) => "share",
                Key::Record(..) => "record",
            },
            session_id: key.session().map(|session| session.as_str()),
            message_id,
            part_id,
        }
    }
}

/// A change of a document between two moments.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct DocumentChange<'a> {
    /// What happened: `added`, `removed` or `changed`.
    pub change: &'static str,
    /// Which document.
    #[serde(flatten)]
    pub document: DocumentName<'a>,
    /// The document at the first moment; `null` if it did not exist, and always for a share.
    pub before: Option<&'a RawValue>,
    /// The document at the second moment; `null` if it did not exist, and always for a share.
    pub after: Option<&'a RawValue>,
    /// Whether the document was being written at one of the two moments. Its content at that moment is not kept: `before`
    /// or `after` is the finished document without what came later.
    #[serde(rename = "inProgress")]
    pub in_progress: bool,
}

impl<'a> DocumentChange<'a> {
    /// The shape of a change.
    pub fn of(changed: &'a Changed) -> serde_json::Result<DocumentChange<'a>> {
        // Shares hold the secret that allows changing what is shared.
        let is_secret = matches!(changed.key, Key::Share(_) | Key::LegacyShare(_));
        let raw = |document: &'a Option<Document>| {
            let document = document.as_ref().filter(|_| !is_secret);
            document.map(|document| serde_json::from_str(document.text())).transpose()
        };
        Ok(DocumentChange {
            change: match (&changed.before, &changed.after) {
                (None, _) => "added",
                (_, None) => "removed",
                _ => "changed",
            },
            document: (&changed.key).into(),
            before: raw(&changed.before)?,
            after: raw(&changed.after)?,
            in_progress: changed.is_step,
        })
    }
}

/// A document that differs between two homes; the target kept its own version.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct DifferingDocument<'a> {
    /// Which document, as the target names it.
    #[serde(flatten)]
    pub document: DocumentName<'a>,
    /// The target's version.
    pub target: Gist<'a>,
    /// The source's version.
    pub source: Gist<'a>,
}

impl<'a> From<&'a difference::Differing> for DifferingDocument<'a> {
    fn from(differing: &'a difference::Differing) -> DifferingDocument<'a> {
        DifferingDocument {
            document: (&differing.key).into(),
            target: (&differing.target).into(),
            source: (&differing.source).into(),
        }
    }
}

/// A version of a document, in short. All fields are `null` for a share.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Gist<'a> {
    /// Title of a session.
    pub title: Option<&'a str>,
    /// When a session was last used.
    pub updated: Option<Millis>,
    /// When a session was archived.
    pub archived: Option<Millis>,
    /// For other documents, the first words from where the two versions differ.
    pub text: Option<&'a str>,
}

impl<'a> From<&'a difference::Gist> for Gist<'a> {
    fn from(gist: &'a difference::Gist) -> Gist<'a> {
        let difference::Gist { title, updated, archived, text } = gist;
        Gist { title: title.as_deref(), updated: *updated, archived: *archived, text: text.as_deref() }
    }
}
