//! A home of another shape: an agent that keeps each session as a file of JSON lines, ordered by line, with UUIDs for ids.
//!
//! No agent writes it: it is the example of how to add a home. A line is kept unchanged (`Key::Record`); messages are made from it.
//!
//! ```text
//! {"type":"summary","title":"…","cwd":"/home/dev/shop"}
//! {"type":"user","uuid":"…","timestamp":"2026-11-03T09:00:00Z","message":{"text":"…"}}
//! {"type":"assistant","uuid":"…","timestamp":"…","message":{"model":"…","text":"…","calls":[{"id":"…","name":"…","input":{}}]}}
//! {"type":"tool_result","timestamp":"…","call":"…","output":"…"}
//! ```

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use annals::HomeUrl;
use annals::home::{
    Found, MessageDetail, MessageRange, MessageRecord, Messages, Quarantined, Read, ReadError, SessionRecord,
    UnreadableReason,
};
use annals::model::id::{MessageId, Millis, PartId, ProjectId, RecordId, SessionId};
use annals::model::json::{Node, Text};
use annals::model::lens::{
    AssistantMessage, Json, MessageTime, Session, SessionTime, TextPart, ToolPart, ToolState, ToolTime,
    UserMessage,
};
use annals::model::{Document, Key, Position, Provenance, Stored};
use annals::query::SessionQuery;
use annals::sync::source::{Sighting, Source, Survey};

/// A directory of sessions, `<session>.jsonl` each.
#[derive(Debug)]
pub struct JsonlHome {
    directory: PathBuf,
}

/// A file that was read.
struct Transcript {
    session: SessionRecord,
    messages: Vec<MessageRecord>,
    records: Vec<Stored>,
    quarantined: Vec<Quarantined>,
}

impl JsonlHome {
    /// The home in a directory.
    pub fn open(directory: &Path) -> JsonlHome {
        JsonlHome { directory: directory.to_owned() }
    }

    fn failed(&self, source: std::io::Error) -> ReadError {
        ReadError::Io { path: self.url().to_string(), source }
    }

    /// The sessions, and files whose names are not ids.
    fn list(&self) -> Result<Found<Vec<SessionId>>, ReadError> {
        let mut found: Found<Vec<SessionId>> = Found::default();
        for entry in fs::read_dir(&self.directory).map_err(|error| self.failed(error))? {
            let name = entry.map_err(|error| self.failed(error))?.file_name().to_string_lossy().into_owned();
            let Some(id) = name.strip_suffix(".jsonl") else { continue };
            match SessionId::parse(id) {
                Ok(id) => found.value.push(id),
                Err(error) => {
                    found.quarantined.push(unreadable(&name, UnreadableReason::BadName(error), None));
                }
            }
        }
        Ok(found)
    }

    fn path(&self, session: &SessionId) -> PathBuf {
        self.directory.join(format!("{session}.jsonl"))
    }

    fn read(&self, id: &SessionId) -> Result<Option<Transcript>, ReadError> {
        match fs::read(self.path(id)) {
            Ok(bytes) => Ok(Some(Transcript::read(self.url(), id, &bytes))),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.failed(error)),
        }
    }
}

impl Transcript {
    fn read(home: HomeUrl, id: &SessionId, bytes: &[u8]) -> Transcript {
        let mut info = Session { id: Some(id.into()), ..Default::default() };
        let mut time = SessionTime::default();
        let (mut messages, mut records) = (Vec::new(), Vec::new());
        let (mut parsed, mut quarantined) = (Vec::new(), Vec::new());
        let lines = bytes.split(|byte| *byte == b'\n').enumerate();
        for (n, line) in lines.filter(|(_, line)| !line.is_empty()) {
            let place = format!("{id}.jsonl:{}", n + 1);
            match Document::parse(line.to_vec()) {
                Ok(document) => parsed.push((n, place, document)),
                Err(error) => quarantined.push(unreadable(&place, UnreadableReason::Json(error), Some(id))),
            }
        }
        let results = parsed.iter().map(|(_, _, line)| line.root());
        let results: Vec<_> = results.filter(|line| line.get("call").is_some()).collect();
        for (n, place, document) in &parsed {
            let line = Line { session: id, document, n: *n, place };
            time.updated = line.time().or(time.updated);
            time.created = time.created.or(time.updated);
            info.title = line.text(&["title"]).or(info.title);
            info.directory = line.text(&["cwd"]).or(info.directory);
            match line.message(&results) {
                Ok(message) => messages.extend(message),
                Err(reason) => quarantined.push(unreadable(place, reason, Some(id))),
            }
            let record = RecordId::parse(&format!("{:06}", n + 1)).expect("digits are an id");
            records.push(line.stored(Key::Record(id.clone(), record), document.clone(), *n));
        }
        info.time = Some(time);
        let key = Key::Session(ProjectId::global(), id.clone());
        let stored = Stored::new(key, Document::new(&info), format!("{id}.jsonl")).by(Provenance::Other);
        let session = SessionRecord::new(ProjectId::global(), id.clone(), stored, vec![home]);
        Transcript { session, messages, records, quarantined }
    }

    fn documents(self) -> impl Iterator<Item = Stored> {
        let of = |message: MessageRecord| std::iter::once(message.stored).chain(message.parts);
        let messages = self.messages.into_iter().flat_map(of);
        std::iter::once(self.session.stored).chain(messages).chain(self.records)
    }
}

fn unreadable(place: &str, reason: UnreadableReason, session: Option<&SessionId>) -> Quarantined {
    Quarantined { place: place.to_owned(), reason, session: session.cloned() }
}

/// A line of a file.
struct Line<'l> {
    session: &'l SessionId,
    document: &'l Document,
    n: usize,
    place: &'l str,
}

impl<'l> Line<'l> {
    fn text(&self, path: &[&str]) -> Option<Text<'l>> {
        self.document.root().at(path)?.as_text()
    }

    fn time(&self) -> Option<Millis> {
        let time: jiff::Timestamp = self.text(&["timestamp"])?.to_str().parse().ok()?;
        Some(time.as_millisecond())
    }

    fn stored(&self, key: Key, document: Document, position: usize) -> Stored {
        let position = Position::new(i64::try_from(position).unwrap_or(i64::MAX));
        Stored::new(key, document, self.place).at(position).by(Provenance::Other)
    }

    /// The message made from the line; `None` if the line is not a message.
    fn message(&self, results: &[Node<'_>]) -> Result<Option<MessageRecord>, UnreadableReason> {
        let is_user = match self.text(&["type"]) {
            Some(kind) if kind == "user" => true,
            Some(kind) if kind == "assistant" => false,
            _ => return Ok(None),
        };
        let uuid = self.text(&["uuid"]).unwrap_or_else(|| "".into());
        let id = MessageId::parse(&uuid.to_str()).map_err(UnreadableReason::BadName)?;
        let made = self.time().unwrap_or(0);
        let (named, session_id) = (Some((&id).into()), Some(self.session.into()));
        let time = Some(MessageTime { created: Some(made), completed: (!is_user).then_some(made) });
        let document = match is_user {
            true => Document::new(&UserMessage { id: named, session_id, time, ..Default::default() }),
            false => Document::new(&AssistantMessage {
                id: named,
                session_id,
                time,
                model_id: self.text(&["message", "model"]),
                provider_id: Some("example".into()),
                finish: Some("stop".into()),
                ..Default::default()
            }),
        };
        let stored = self.stored(Key::Message(self.session.clone(), id.clone()), document, self.n);
        let mut parts = Vec::new();
        if let Some(text) = self.text(&["message", "text"]) {
            parts.push(self.part(&id, parts.len(), |part| {
                Document::new(&TextPart {
                    id: Some(part.into()),
                    session_id: Some(self.session.into()),
                    message_id: Some((&id).into()),
                    text: Some(text),
                    ..Default::default()
                })
            })?);
        }
        for call in self.document.root().at(&["message", "calls"]).into_iter().flat_map(Node::items) {
            let name = |name: &str| call.get(name).and_then(Node::as_text);
            let is_its = |result: &&Node<'_>| result.get("call").and_then(Node::as_text) == name("id");
            let result = results.iter().find(is_its);
            let state = ToolState {
                status: Some(if result.is_some() { "completed" } else { "running" }.into()),
                input: call.get("input").map(Json::Node),
                output: result.and_then(|result| result.get("output")?.as_text()),
                title: name("name"),
                time: Some(ToolTime { start: Some(made), end: result.map(|_| made), compacted: None }),
                ..Default::default()
            };
            parts.push(self.part(&id, parts.len(), |part| {
                Document::new(&ToolPart {
                    id: Some(part.into()),
                    session_id: Some(self.session.into()),
                    message_id: Some((&id).into()),
                    call_id: name("id"),
                    tool: name("name"),
                    state: Some(state),
                    ..Default::default()
                })
            })?);
        }
        Ok(Some(MessageRecord { stored, made, n_parts: parts.len(), parts, quarantined: Vec::new() }))
    }

    fn part(
        &self,
        message: &MessageId,
        n: usize,
        make: impl FnOnce(&PartId) -> Document,
    ) -> Result<Stored, UnreadableReason> {
        let id = PartId::parse(&format!("{message}-{n:03}")).map_err(UnreadableReason::BadName)?;
        let document = make(&id);
        Ok(self.stored(Key::Part(self.session.clone(), message.clone(), id), document, n))
    }
}

impl Read for JsonlHome {
    fn url(&self) -> HomeUrl {
        HomeUrl::from(&*self.directory)
    }

    fn projects(&self) -> Result<Found<Vec<Stored>>, ReadError> {
        Ok(Found::default())
    }

    fn sessions(&self, query: &SessionQuery) -> Result<Found<Vec<SessionRecord>>, ReadError> {
        let Found { value: ids, quarantined } = self.list()?;
        let mut found = Found { value: Vec::new(), quarantined };
        for id in &ids {
            found.value.extend(self.session(id)?.filter(|session| query.admits(session)));
        }
        Ok(found)
    }

    fn session(&self, id: &SessionId) -> Result<Option<SessionRecord>, ReadError> {
        Ok(self.read(id)?.map(|transcript| transcript.session))
    }

    fn messages<'h>(
        &'h self,
        session: &'h SessionRecord,
        range: &MessageRange,
        detail: MessageDetail,
    ) -> Messages<'h> {
        let mut is_read = false;
        let all = Messages::in_batches(move || {
            if std::mem::replace(&mut is_read, true) {
                return Ok(None);
            }
            let Some(mut transcript) = self.read(&session.id)? else { return Ok(None) };
            if detail == MessageDetail::PartCounts {
                transcript.messages.iter_mut().for_each(|message| message.parts.clear());
            }
            Ok(Some(Found { value: transcript.messages, quarantined: transcript.quarantined }))
        });
        all.within(range)
    }

    fn document(&self, key: &Key) -> Result<Option<Stored>, ReadError> {
        let transcript = key.session().map(|id| self.read(id)).transpose()?.flatten();
        Ok(transcript.and_then(|transcript| transcript.documents().find(|stored| stored.key == *key)))
    }

    fn session_keys(&self, id: &SessionId) -> Result<Vec<Key>, ReadError> {
        let documents = self.read(id)?.into_iter().flat_map(Transcript::documents);
        Ok(documents.map(|stored| stored.key).collect())
    }
}

impl Source for JsonlHome {
    fn survey(&self) -> Result<Survey, ReadError> {
        let Found { value: ids, quarantined } = self.list()?;
        let mut survey = Survey { quarantined, ..Default::default() };
        for session in ids {
            let Ok(metadata) = fs::metadata(self.path(&session)) else { continue };
            let written = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
            let written = written.unwrap_or_default();
            let stamp = [&written.as_nanos().to_be_bytes()[..], &metadata.len().to_be_bytes()].concat();
            let (project, written) = (ProjectId::global(), written.as_millis() as Millis);
            survey.sessions.push(Sighting { session, project, stamp, written, is_single: true });
        }
        Ok(survey)
    }

    fn records(&self, session: &SessionRecord) -> Result<Found<Vec<Stored>>, ReadError> {
        let Some(transcript) = self.read(&session.id)? else { return Ok(Found::default()) };
        Ok(Found { value: transcript.records, quarantined: transcript.quarantined })
    }
}

/// A small session for tests, whose ids sort in another order than its lines.
pub const EXAMPLE: (&str, &str) =
    ("7c9e6679-7425-40de-944b-e07fc1f90ae7.jsonl", include_str!("jsonl_home/example.jsonl"));
