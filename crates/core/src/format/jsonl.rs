//! JSON lines: one document per line, with its key. Holds everything of a session, byte for byte.
//!
//! ```text
//! {"kind":"annals","version":1}
//! {"kind":"session","project":"global","session":"ses_…","document":{…}}
//! {"kind":"part","session":"ses_…","message":"msg_…","part":"prt_…","document":{…}}
//! ```
//! `document` is the value. A stored text that differs from OpenCode's own layout of that value goes into `text` instead,
//! as a string, so that no byte is lost.

use super::{ImportError, Imported};
use crate::document::{Document, Key};
use crate::id::{IdError, MessageId, PartId, ProjectId, RecordId, SessionId};
use crate::json::{JsWriter, Node, Style, Text};

const VERSION: f64 = 1.0;

/// The first line of every file.
pub fn header() -> Vec<u8> {
    let mut writer = JsWriter::new(Style::Compact, 0);
    writer.object(|writer| {
        writer.member("kind", "annals");
        writer.member("version", &VERSION);
    });
    line(writer)
}

/// The line for one document.
pub fn write(key: &Key, document: &Document) -> Vec<u8> {
    let mut writer = JsWriter::new(Style::Compact, 0);
    writer.object(|writer| {
        writer.member("kind", kind(key));
        match key {
            Key::Project(project) => writer.member("project", &Text::from(project)),
            Key::Session(project, _) => writer.member("project", &Text::from(project)),
            _ => {}
        }
        writer.member("session", &key.session().map(Text::from));
        if let Key::Message(_, message) | Key::Part(_, message, _) = key {
            writer.member("message", &Text::from(message));
        }
        if let Key::Part(_, _, part) = key {
            writer.member("part", &Text::from(part));
        }
        if let Key::Record(_, record) = key {
            writer.member("record", &Text::from(record));
        }
        let as_opencode_writes_it = JsWriter::document(Style::Pretty, document) == document.bytes();
        match as_opencode_writes_it {
            true => writer.member("document", document),
            false => writer.member("text", document.text()),
        }
    });
    line(writer)
}

/// Whether a file looks like this format.
pub fn is_jsonl(bytes: &[u8]) -> bool {
    let first = bytes.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let Ok(document) = Document::parse(first.to_vec()) else { return false };
    document.root().get("kind").and_then(Node::as_text).is_some_and(|kind| kind == "annals")
}

/// Reads a file, which may hold several sessions.
pub fn read(bytes: &[u8]) -> Result<Imported, ImportError> {
    let mut documents = Vec::new();
    for (n, text) in bytes.split(|&byte| byte == b'\n').enumerate() {
        let line = n + 1;
        if text.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let entry = Document::parse(text.to_vec()).map_err(|error| ImportError::JsonLine { line, error })?;
        documents.extend(read_line(&entry, line)?);
    }
    Ok(Imported { documents })
}

fn read_line(entry: &Document, line: usize) -> Result<Option<(Key, Document)>, ImportError> {
    let place = format!("line {line}");
    let root = entry.root();
    let text = |key: &str| {
        let text = root.get(key).and_then(Node::as_text).map(|text| text.to_str());
        text.ok_or_else(|| ImportError::shape(&place, format!("has no `{key}`")))
    };
    let id = |error: IdError| ImportError::Id { place: place.clone(), error };
    let session = || SessionId::parse(&text("session")?).map_err(id);
    let message = || MessageId::parse(&text("message")?).map_err(id);
    let project = || ProjectId::parse(&text("project")?).map_err(id);
    let key = match &*text("kind")? {
        "annals" if root.get("version").and_then(Node::as_f64) == Some(VERSION) => return Ok(None),
        "annals" => return Err(ImportError::shape(place, "was written by a newer version of annals")),
        "project" => Key::Project(project()?),
        "session" => Key::Session(project()?, session()?),
        "message" => Key::Message(session()?, message()?),
        "part" => Key::Part(session()?, message()?, PartId::parse(&text("part")?).map_err(id)?),
        "todo" => Key::Todo(session()?),
        "diff" => Key::Diff(session()?),
        "share" => Key::Share(session()?),
        "legacy-share" => Key::LegacyShare(session()?),
        "record" => Key::Record(session()?, RecordId::parse(&text("record")?).map_err(id)?),
        other => return Err(ImportError::shape(place, format!("is of an unknown kind, `{other}`"))),
    };
    let document = match root.get("document") {
        Some(value) => Document::written(Style::Pretty, &value),
        None => Document::parse(text("text")?.into_owned().into_bytes()),
    };
    let document = document.map_err(|error| ImportError::JsonLine { line, error })?;
    Ok(Some((key, document)))
}

fn kind(key: &Key) -> &'static str {
    match key {
        Key::Project(_) => "project",
        Key::Session(..) => "session",
        Key::Message(..) => "message",
        Key::Part(..) => "part",
        Key::Todo(_) => "todo",
        Key::Diff(_) => "diff",
        Key::Share(_) => "share",
        Key::LegacyShare(_) => "legacy-share",
        Key::Record(..) => "record",
    }
}

fn line(writer: JsWriter) -> Vec<u8> {
    let mut line = writer.finish();
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `annals export` leaves shares out, but a program that writes shares must be able to read them back.
    #[test]
    fn every_kind_of_document_can_be_read_back() {
        let session = || SessionId::parse("ses_1").unwrap();
        let message = || MessageId::parse("msg_1").unwrap();
        let keys = [
            Key::Project(ProjectId::global()),
            Key::Session(ProjectId::global(), session()),
            Key::Message(session(), message()),
            Key::Part(session(), message(), PartId::parse("prt_1").unwrap()),
            Key::Todo(session()),
            Key::Diff(session()),
            Key::Share(session()),
            Key::LegacyShare(session()),
            Key::Record(session(), RecordId::parse("000001").unwrap()),
        ];
        let document = Document::parse(b"{}".to_vec()).unwrap();
        let mut lines = header();
        keys.iter().for_each(|key| lines.extend(write(key, &document)));
        let read = super::read(&lines).unwrap().documents;
        assert_eq!(read.into_iter().map(|(key, _)| key).collect::<Vec<_>>(), keys);
    }
}
