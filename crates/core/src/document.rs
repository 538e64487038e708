//! A document: the JSON of one entity, as text, and the key that says which entity it is.

use std::sync::Arc;

use crate::id::{MessageId, PartId, ProjectId, RecordId, SessionId};
use crate::json::edit::{self, EditError};
use crate::json::{JsWriter, JsonError, JsonErrorKind, Node, Style, Tape, ToJs};
use crate::lens::Lens;
use crate::position::Position;
use crate::provenance::Provenance;

/// One JSON document, checked and kept byte for byte.
///
/// The text is the truth. [`Document::lens`] reads typed values from it without copying it; [`Document::with`] and
/// [`Document::without`] make a new document that differs in one field.
///
/// ```
/// use annals_core::{Document, lens::Session};
///
/// let document = Document::parse(br#"{"id":"ses_1","title":"Fix it","theme":"\ud83d"}"#.to_vec())?;
/// assert_eq!(document.lens::<Session>().title.unwrap(), "Fix it");
///
/// let renamed = document.with(&["title"], "Fixed")?;
/// assert_eq!(renamed.text(), r#"{"id":"ses_1","title":"Fixed","theme":"\ud83d"}"#);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Document {
    /// Shared, since documents never change: cloning one is cheap.
    inner: Arc<ScannedText>,
}

struct ScannedText {
    text: String,
    tape: Tape,
}

impl Document {
    /// Checks bytes and keeps them.
    pub fn parse(bytes: Vec<u8>) -> Result<Document, JsonError> {
        if !bytes.is_empty() && bytes.iter().all(|&byte| byte == 0) {
            return Err(JsonError::at(JsonErrorKind::OnlyNul, &bytes, 0));
        }
        let text = String::from_utf8(bytes).map_err(|error| {
            JsonError::at(JsonErrorKind::NotUtf8, error.as_bytes(), error.utf8_error().valid_up_to())
        })?;
        Document::scanned(text)
    }

    fn scanned(text: String) -> Result<Document, JsonError> {
        let tape = Tape::scan(&text)?;
        Ok(Document { inner: Arc::new(ScannedText { text, tape }) })
    }

    /// A new document, laid out as OpenCode lays out its files.
    ///
    /// # Panics
    /// If the text would be longer than [`Tape::MAX_BYTES`]. Where the value comes from outside, use
    /// [`Document::written`].
    pub fn new(value: &dyn ToJs) -> Document {
        Document::written(Style::Pretty, value).expect("the writer writes JSON")
    }

    /// A new document in either layout. Fails only if the value is too large or nested too deep.
    pub fn written(style: Style, value: &dyn ToJs) -> Result<Document, JsonError> {
        Document::parse(JsWriter::document(style, value))
    }

    /// A new document as [`Document::written`] makes it, but values that are given as JSON keep their tokens: numbers that JavaScript
    /// would round, and the order of members.
    pub fn written_as_given(style: Style, value: &dyn ToJs) -> Result<Document, JsonError> {
        let mut writer = JsWriter::verbatim(style, 0);
        value.write_js(&mut writer);
        Document::parse(writer.finish())
    }

    /// The document's text.
    pub fn text(&self) -> &str {
        &self.inner.text
    }

    /// The document's bytes.
    pub fn bytes(&self) -> &[u8] {
        self.text().as_bytes()
    }

    /// The hash of the document's bytes.
    pub fn hash(&self) -> ContentHash {
        ContentHash::of(self.bytes())
    }

    /// The outermost value.
    pub fn root(&self) -> Node<'_> {
        Node::root(&self.inner.text, &self.inner.tape)
    }

    /// The typed view of the document. A field that is missing or of another type is `None`.
    pub fn lens<'a, L: Lens<'a> + Default>(&'a self) -> L {
        L::look(self.root()).unwrap_or_default()
    }

    /// This document with one field set and every other byte unchanged.
    pub fn with(&self, path: &[&str], value: &(impl ToJs + ?Sized)) -> Result<Document, EditError> {
        Document::edited(edit::set(&self.inner.text, &self.inner.tape, path, &value)?)
    }

    /// This document with one field removed and every other byte unchanged.
    pub fn without(&self, path: &[&str]) -> Result<Document, EditError> {
        Document::edited(edit::remove(&self.inner.text, &self.inner.tape, path)?)
    }

    /// This document with text added to the end of one string and every other byte unchanged.
    pub fn appended(&self, path: &[&str], addition: &str) -> Result<Document, EditError> {
        Document::edited(edit::append(&self.inner.text, &self.inner.tape, path, addition)?)
    }

    fn edited(text: String) -> Result<Document, EditError> {
        Ok(Document::scanned(text)?)
    }
}

impl PartialEq for Document {
    fn eq(&self, other: &Document) -> bool {
        self.text() == other.text()
    }
}

impl Eq for Document {}

impl std::fmt::Debug for Document {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Document").field(&self.text()).finish()
    }
}

impl ToJs for Document {
    fn write_js(&self, writer: &mut JsWriter) {
        writer.node(self.root());
    }
}

/// The hash of a document's bytes (BLAKE3).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ContentHash([u8; 32]);

impl ContentHash {
    /// The hash of `bytes`.
    pub fn of(bytes: &[u8]) -> ContentHash {
        ContentHash(*blake3::hash(bytes).as_bytes())
    }

    /// The hash itself.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// From the hash itself.
    pub fn from_bytes(bytes: [u8; 32]) -> ContentHash {
        ContentHash(bytes)
    }

    /// From 64 hexadecimal digits.
    pub fn from_hex(hex: &str) -> Option<ContentHash> {
        blake3::Hash::from_hex(hex).ok().map(|hash| ContentHash(*hash.as_bytes()))
    }
}

impl std::fmt::Display for ContentHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&blake3::Hash::from_bytes(self.0).to_hex())
    }
}

impl std::fmt::Debug for ContentHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// A document as a home holds it.
#[derive(Debug, Clone)]
pub struct Stored {
    /// Which entity it describes.
    pub key: Key,
    /// What it says.
    pub document: Document,
    /// Where it is, for people: a path inside the home.
    pub place: String,
    /// Position of a message or part among its siblings. Valid only if messages were read in order: a document read by
    /// its key alone does not tell.
    pub position: Position,
    /// Which program wrote it.
    pub provenance: Provenance,
}

impl Stored {
    /// A document as OpenCode holds it.
    pub fn new(key: Key, document: Document, place: impl Into<String>) -> Stored {
        let (position, provenance) = (Position::default(), Provenance::default());
        Stored { key, document, place: place.into(), position, provenance }
    }

    /// This document at a position among its siblings.
    #[must_use]
    pub fn at(self, position: Position) -> Stored {
        Stored { position, ..self }
    }

    /// This document, written by a program.
    #[must_use]
    pub fn by(self, provenance: Provenance) -> Stored {
        Stored { provenance, ..self }
    }
}

/// Which entity a document describes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Key {
    /// A project record.
    Project(ProjectId),
    /// A session, under the project that owns it.
    Session(ProjectId, SessionId),
    /// A message of a session.
    Message(SessionId, MessageId),
    /// A part of a message.
    Part(SessionId, MessageId, PartId),
    /// The todo list of a session.
    Todo(SessionId),
    /// The file differences of a session.
    Diff(SessionId),
    /// The share record of a session.
    Share(SessionId),
    /// The share record of a session from before OpenCode 1.0.144.
    LegacyShare(SessionId),
    /// A record of another agent, unchanged. The messages made from it are documents of their own.
    Record(SessionId, RecordId),
}

impl Key {
    /// The session the entity belongs to; `None` for a project.
    pub fn session(&self) -> Option<&SessionId> {
        match self {
            Key::Project(_) => None,
            Key::Session(_, session)
            | Key::Message(session, _)
            | Key::Part(session, _, _)
            | Key::Todo(session)
            | Key::Diff(session)
            | Key::Share(session)
            | Key::LegacyShare(session)
            | Key::Record(session, _) => Some(session),
        }
    }

    /// The keys of the documents beside a session: its todo list, its diff, its share records.
    pub fn beside(session: &SessionId) -> [Key; 4] {
        [
            Key::Todo(session.clone()),
            Key::Diff(session.clone()),
            Key::Share(session.clone()),
            Key::LegacyShare(session.clone()),
        ]
    }

    /// The project, if the key names one.
    pub fn project(&self) -> Option<&ProjectId> {
        match self {
            Key::Project(project) | Key::Session(project, _) => Some(project),
            _ => None,
        }
    }

    /// The word for the kind of entity, for messages.
    pub fn noun(&self) -> &'static str {
        match self {
            Key::Project(_) => "project",
            Key::Session(..) => "session",
            Key::Message(..) => "message",
            Key::Part(..) => "part",
            Key::Todo(_) => "todo list",
            Key::Diff(_) => "session diff",
            Key::Share(_) | Key::LegacyShare(_) => "share",
            Key::Record(..) => "record",
        }
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let id = match self {
            Key::Project(project) => project.as_str(),
            Key::Message(_, message) => message.as_str(),
            Key::Part(_, _, part) => part.as_str(),
            Key::Record(_, record) => record.as_str(),
            Key::Session(_, session)
            | Key::Todo(session)
            | Key::Diff(session)
            | Key::Share(session)
            | Key::LegacyShare(session) => session.as_str(),
        };
        write!(f, "{} {id}", self.noun())
    }
}
