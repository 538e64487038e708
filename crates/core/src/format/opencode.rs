//! The document that `opencode export` prints and `opencode import` takes:
//! `{"info": session, "messages": [{"info": message, "parts": [part, …]}, …]}`.

use super::{ImportError, Imported};
use crate::document::{Document, Key};
use crate::id::{IdError, MessageId, PartId, ProjectId, SessionId};
use crate::json::{JsWriter, Kind, Node, Style};

/// Writes an export piece by piece, so that a session of any length can be passed on.
#[derive(Debug)]
pub struct ExportWriter {
    writer: JsWriter,
}

impl ExportWriter {
    /// Begins the export of a session.
    pub fn new(session: &Document) -> ExportWriter {
        let mut writer = JsWriter::new(Style::Pretty, 0);
        writer.begin(b'{');
        writer.member("info", session);
        writer.key("messages");
        writer.begin(b'[');
        ExportWriter { writer }
    }

    /// Adds a message with its parts, which must come in order.
    pub fn message<'a>(&mut self, message: &Document, parts: impl IntoIterator<Item = &'a Document>) {
        self.writer.next_item();
        self.writer.begin(b'{');
        self.writer.member("info", message);
        self.writer.key("parts");
        self.writer.array(|writer| parts.into_iter().for_each(|part| writer.item(part)));
        self.writer.end(b'}');
    }

    /// Takes the text written since the last call.
    pub fn take(&mut self) -> Vec<u8> {
        self.writer.take()
    }

    /// Ends the export, with the newline that OpenCode prints after it.
    pub fn finish(mut self) -> Vec<u8> {
        self.writer.end(b']');
        self.writer.end(b'}');
        let mut text = self.writer.finish();
        text.push(b'\n');
        text
    }
}

/// Reads an export into documents laid out as OpenCode stores them. `fallback` is the project of a session that names
/// no project.
pub fn read(export: &Document, fallback: &ProjectId) -> Result<Imported, ImportError> {
    let root = export.root();
    let info = object(root.get("info"), "`info`")?;
    let session = id(info, "id", "`info.id`", SessionId::parse_opencode)?;
    let project = match info.get("projectID").filter(|project| !project.is_null()) {
        Some(_) => id(info, "projectID", "`info.projectID`", ProjectId::parse)?,
        None => fallback.clone(),
    };
    let mut documents = Vec::new();
    let messages = array(root.get("messages"), "`messages`")?;
    for (n, message) in messages.items().enumerate() {
        let place = format!("`messages[{n}].info`");
        let info = object(message.get("info"), &place)?;
        let message_id = id(info, "id", &place, MessageId::parse_opencode)?;
        let parts = array(message.get("parts"), &format!("`messages[{n}].parts`"))?;
        for (m, part) in parts.items().enumerate() {
            let place = format!("`messages[{n}].parts[{m}]`");
            let part_id = id(object(Some(part), &place)?, "id", &place, PartId::parse_opencode)?;
            let key = Key::Part(session.clone(), message_id.clone(), part_id);
            documents.push((key, stored(part)?));
        }
        documents.push((Key::Message(session.clone(), message_id), stored(info)?));
    }
    documents.push((Key::Session(project, session), stored(info)?));
    Ok(Imported { documents })
}

/// The document OpenCode stores for a value: the output of `JSON.stringify(value, null, 2)`.
fn stored(value: Node<'_>) -> Result<Document, ImportError> {
    Document::written(Style::Pretty, &value).map_err(ImportError::Json)
}

fn object<'a>(node: Option<Node<'a>>, place: &str) -> Result<Node<'a>, ImportError> {
    of_kind(node, Kind::Object, place)
}

fn array<'a>(node: Option<Node<'a>>, place: &str) -> Result<Node<'a>, ImportError> {
    of_kind(node, Kind::Array, place)
}

fn of_kind<'a>(node: Option<Node<'a>>, kind: Kind, place: &str) -> Result<Node<'a>, ImportError> {
    match node {
        None => Err(ImportError::shape(place, "is missing")),
        Some(node) if node.kind() != kind => {
            let (found, wanted) = (node.kind().with_article(), kind.with_article());
            Err(ImportError::shape(place, format!("is {found}, not {wanted}")))
        }
        Some(node) => Ok(node),
    }
}

fn id<T>(
    object: Node<'_>,
    key: &str,
    place: &str,
    parse: impl FnOnce(&str) -> Result<T, IdError>,
) -> Result<T, ImportError> {
    match object.get(key).and_then(Node::as_text) {
        None => Err(ImportError::shape(place, format!("has no `{key}`"))),
        Some(text) => {
            parse(&text.to_str()).map_err(|error| ImportError::Id { place: place.to_owned(), error })
        }
    }
}
