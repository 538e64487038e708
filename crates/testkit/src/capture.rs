//! Requests that real OpenCode executables sent to the scripted model, and the stored answers that they belong to.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::ControlFlow;
use std::path::Path;

use annals::home::{MessageDetail, MessageRange, Read};
use annals::model::Key;
use annals::model::id::SessionId;
use annals::model::lens::{Message, Part};
use serde_json::Value;

use crate::Fixture;
use crate::model::ModelRequest;

/// A request as the model received it.
#[derive(Debug, Clone)]
pub struct Capture {
    /// Its number.
    pub number: u64,
    /// What it was for: `chat`, `title`, `summary`, `compaction`, `max-steps`.
    pub kind: String,
    /// The step of the plan that it belongs to.
    pub label: String,
    /// The session that it belongs to.
    pub session: String,
    /// The path that it was sent to.
    pub path: String,
    /// The model that it was for.
    pub model: String,
    /// Its messages, without the system prompt.
    pub messages: Vec<Value>,
    /// The tokens that the reply told: input without what was cached, cached, output.
    pub usage: Option<[u64; 3]>,
}

impl Capture {
    /// Every request that a version sent while its fixture was made, in order.
    pub fn of_version(version: &str) -> Vec<Capture> {
        let fixture = Fixture::unpack(&format!("llm-requests-{version}"));
        let directory = fixture.home().join("llm-requests");
        let mut captures: Vec<Capture> = std::fs::read_dir(&directory)
            .expect("the archive has the directory")
            .map(|entry| entry.expect("the directory can be listed").path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
            .map(|path| Capture::read(&path, &directory))
            .collect();
        captures.sort_by_key(|capture| capture.number);
        captures
    }

    fn read(path: &Path, directory: &Path) -> Capture {
        let text = std::fs::read(path).expect("the fixture was just unpacked");
        let request: Value =
            serde_json::from_slice(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let body = &request["body"];
        let messages = body.get("messages").or(body.get("input")).and_then(Value::as_array).cloned();
        let messages = messages.unwrap_or_default().into_iter().map(|message| resolved(message, directory));
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Capture {
            number: request["n"].as_u64().expect("a request has a number"),
            kind: text(&request["kind"]),
            label: text(&request["label"]),
            session: text(&request["session"]),
            path: text(&request["path"]),
            model: text(&body["model"]),
            messages: messages.skip_while(is_system).collect(),
            usage: usage(&request["replied"]["usage"]),
        }
    }

    /// A request that a scripted model has just received.
    pub fn of_request(request: &ModelRequest) -> Capture {
        let body = &request.body;
        let messages = body.get("messages").or(body.get("input")).and_then(Value::as_array).cloned();
        let tokens =
            request.tokens.map(|tokens| [tokens.input - tokens.cached, tokens.cached, tokens.output]);
        Capture {
            number: request.number as u64,
            kind: request.kind.name().to_owned(),
            label: request.label.clone().unwrap_or_default(),
            session: request.session.clone().unwrap_or_default(),
            path: request.path.clone(),
            model: body["model"].as_str().unwrap_or_default().to_owned(),
            messages: messages.unwrap_or_default().into_iter().skip_while(is_system).collect(),
            usage: tokens,
        }
    }

    /// Whether it asks for something that is stored with no message.
    pub fn is_housekeeping(&self) -> bool {
        matches!(&*self.kind, "title" | "summary")
    }
}

fn is_system(message: &Value) -> bool {
    matches!(message["role"].as_str(), Some("system" | "developer"))
}

fn usage(usage: &Value) -> Option<[u64; 3]> {
    let count = |name: &str| usage[name].as_u64();
    let cached = count("cached").unwrap_or(0);
    Some([count("input")?.saturating_sub(cached), cached, count("output")?])
}

/// A value with its long texts, which are files of their own.
fn resolved(value: Value, directory: &Path) -> Value {
    match value {
        Value::Object(object) => match object.get("$ref").and_then(Value::as_str) {
            Some(path) => {
                let text = std::fs::read_to_string(directory.join(path)).expect("the archive has the text");
                Value::String(text)
            }
            None => Value::Object(
                object.into_iter().map(|(key, value)| (key, resolved(value, directory))).collect(),
            ),
        },
        Value::Array(items) => items.into_iter().map(|item| resolved(item, directory)).collect(),
        value => value,
    }
}

/// A model call that a session has a message of.
#[derive(Debug, Clone)]
struct Call {
    message: String,
    usage: [u64; 3],
}

/// The requests that are stored with a message, each with the id of its answer; `None` if the answer is not stored any more.
///
/// Requests of a session and its answers are in the same order. A request that failed and was repeated belongs to one answer.
pub fn pair<'c>(home: &dyn Read, captures: &'c [Capture]) -> Vec<(&'c Capture, Option<String>)> {
    let mut sessions: BTreeMap<&str, Vec<&Capture>> = BTreeMap::new();
    for capture in captures.iter().filter(|capture| !capture.is_housekeeping()) {
        sessions.entry(&capture.session).or_default().push(capture);
    }
    let mut pairs: Vec<(&Capture, Option<String>)> = Vec::new();
    for (session, captures) in sessions {
        let calls = calls(home, session);
        let is_repeated =
            |place: usize| place > 0 && captures[place - 1].messages == captures[place].messages;
        let n_different = (0..captures.len()).filter(|&place| !is_repeated(place)).count();
        let mut left = &calls[..];
        let mut answer = None;
        for (place, capture) in captures.iter().enumerate() {
            if !is_repeated(place) {
                // If some answers are gone, or were aborted before they were asked for, the others are known by what they used.
                let is_it = |call: &Call| n_different == calls.len() || capture.usage == Some(call.usage);
                let found = left.iter().position(|call| is_it(call) || call.usage != [0; 3]);
                let found = found.filter(|&found| is_it(&left[found]));
                answer = found.map(|found| left[found].message.clone());
                left = &left[found.map_or(0, |found| found + 1)..];
            }
            pairs.push((capture, answer.clone()));
        }
    }
    pairs.sort_by_key(|(capture, _)| capture.number);
    pairs
}

/// The model calls of a session, in order: those that are stored, and those that only a log knows of.
fn calls(home: &dyn Read, session: &str) -> Vec<Call> {
    let id = SessionId::parse(session).expect("a session's id");
    let Some(record) = home.session(&id).expect("the home can be read") else { return Vec::new() };
    let created = record.info.created().unwrap_or(0);
    let mut calls: Vec<((i64, String), Call)> = Vec::new();
    let mut seen = HashSet::new();
    for message in home.messages(&record, &MessageRange::ALL, MessageDetail::Parts) {
        let message = message.expect("the message can be read");
        let parts: Vec<Part<'_>> = message.parts.iter().map(|part| part.document.lens()).collect();
        if let Some(call) = call(&message.stored.document.lens(), &parts)
            && message.made >= created
        {
            calls.push(((message.made, call.message.clone()), call));
        }
        let Key::Message(_, id) = message.stored.key else { continue };
        seen.insert(id.to_string());
    }
    let mut gone: HashMap<String, annals::model::Document> = HashMap::new();
    let mut parts: HashMap<Key, annals::model::Document> = HashMap::new();
    if let Some(log) = home.change_log() {
        let read = log.changes(&id, None, &mut |change| {
            match (&change.key, change.document) {
                (Key::Message(_, id), Some(document)) if !seen.contains(id.as_str()) => {
                    gone.insert(id.to_string(), document);
                }
                (Key::Part(..), Some(document)) => drop(parts.insert(change.key, document)),
                _ => {}
            }
            ControlFlow::Continue(())
        });
        read.expect("the log can be read");
    }
    for (id, document) in &gone {
        let of_message =
            parts.iter().filter(|(key, _)| matches!(key, Key::Part(_, of, _) if of.as_str() == id));
        let parts: Vec<Part<'_>> = of_message.map(|(_, part)| part.lens()).collect();
        let made = Message::created_in(document.root()).unwrap_or(0);
        if let Some(call) = call(&document.lens(), &parts)
            && made >= created
        {
            calls.push(((made, id.clone()), call));
        }
    }
    calls.sort_by(|(a, _), (b, _)| a.cmp(b));
    calls.into_iter().map(|(_, call)| call).collect()
}

/// The model call that a message stands for. Commands that the user ran and subtasks are none.
fn call(message: &Message<'_>, parts: &[Part<'_>]) -> Option<Call> {
    let Message::Assistant(answer) = message else { return None };
    let has_step = parts.iter().any(|part| matches!(part, Part::StepStart(_)));
    let is_own = parts.iter().any(|part| match part {
        Part::Tool(tool) => tool.tool.as_ref().is_some_and(|tool| *tool == "bash" || *tool == "task"),
        _ => false,
    });
    if !has_step && is_own {
        return None;
    }
    let tokens = answer.tokens.clone().unwrap_or_default();
    let cached = tokens.cache.and_then(|cache| cache.read).unwrap_or(0.0);
    let usage = [tokens.input.unwrap_or(0.0), cached, tokens.output.unwrap_or(0.0)].map(|count| count as u64);
    Some(Call { message: answer.id.as_ref()?.to_string(), usage })
}
