//! The searchable text of a document.
//!
//! Prose, commands, arguments and results can be searched; ids, media and repetitions cannot. Names of tools, agents and
//! models are filters of a search, not text to find.

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use memchr::memmem;

use crate::json::{Items, Kind, Members, Node, Text};
use crate::lens::{FilePart, Json, Message, MessageError, Part, Session, ToolPart};
use crate::{Document, Key};

/// Calls `emit` with each searchable string of a document, unescaped. A string without escapes is not copied.
pub fn searchable(key: &Key, document: &Document, emit: &mut dyn FnMut(&str)) {
    let emit = &mut |text: &str| {
        if !text.is_empty() {
            emit(text);
        }
    };
    match key {
        Key::Session(..) => say(document.lens::<Session<'_>>().title.as_ref(), emit),
        Key::Message(..) => message(&document.lens(), emit),
        Key::Part(..) => part(document, emit),
        Key::Project(_)
        | Key::Todo(_)
        | Key::Diff(_)
        | Key::Share(_)
        | Key::LegacyShare(_)
        | Key::Record(..) => {}
    }
}

/// The role of a text in the conversation, which decides how much a hit in it counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Weight {
    /// The title of a session.
    Title,
    /// What the user wrote.
    Prompt,
    /// What the model wrote to the user.
    Answer,
    /// The model's reasoning.
    Reasoning,
    /// A tool call and its result.
    Tool,
    /// Anything else, such as text that OpenCode or a plugin added to a prompt.
    Other,
}

/// The weight of a document's text. `message` is the message that a part belongs to.
pub fn weight(key: &Key, document: &Document, message: Option<&Message<'_>>) -> Weight {
    let root = document.root();
    match key {
        Key::Session(..) => return Weight::Title,
        Key::Part(..) => {}
        _ => return Weight::Other,
    }
    let is_set = |name: &str| root.get(name).and_then(Node::as_bool) == Some(true);
    match (root.get("type").and_then(Node::as_text).unwrap_or_else(|| "".into()).to_str().as_ref(), message) {
        ("text", Some(Message::Assistant(_))) => Weight::Answer,
        ("text", Some(Message::User(_))) if !is_set("synthetic") && !is_set("ignored") => Weight::Prompt,
        ("reasoning" | "thinking", _) => Weight::Reasoning,
        ("tool" | "tool_use" | "tool_result", _) => Weight::Tool,
        _ => Weight::Other,
    }
}

fn message(message: &Message<'_>, emit: &mut dyn FnMut(&str)) {
    match message {
        Message::User(user) => {
            if let Some(summary) = &user.summary {
                say(summary.title.as_ref(), emit);
                say(summary.body.as_ref(), emit);
            }
            say(user.system.as_ref(), emit);
        }
        Message::Assistant(other) | Message::Other(other) => error(other.error.as_ref(), emit),
    }
}

fn part(document: &Document, emit: &mut dyn FnMut(&str)) {
    match document.lens() {
        Part::Text(part) => say(part.text.as_ref(), emit),
        Part::Reasoning(part) => say(part.text.as_ref(), emit),
        Part::File(part) => file(&part, emit),
        Part::Tool(part) => tool(&part, emit),
        Part::Patch(part) => part.files.iter().flatten().for_each(|file| say(Some(file), emit)),
        Part::Agent(part) => say(part.name.as_ref(), emit),
        Part::Retry(part) => error(part.error.as_ref(), emit),
        Part::Subtask(part) => {
            say(part.prompt.as_ref(), emit);
            say(part.description.as_ref(), emit);
            say(part.command.as_ref(), emit);
        }
        Part::StepStart(_) | Part::StepFinish(_) | Part::Snapshot(_) | Part::Compaction(_) => {}
        Part::Other(_) => {
            strings(document.root(), |key| key == "type" || is_id(key), &mut |text| emit(&text));
        }
    }
}

fn file(part: &FilePart<'_>, emit: &mut dyn FnMut(&str)) {
    say(part.filename.as_ref(), emit);
    if let Some(source) = &part.source {
        say(source.path.as_ref(), emit);
        say(source.text.as_ref().and_then(|text| text.value.as_ref()), emit);
    }
    if let Some(url) = part.url.as_ref().map(Text::to_str).filter(|url| !is_data(url)) {
        emit(&url);
    }
}

fn tool(part: &ToolPart<'_>, emit: &mut dyn FnMut(&str)) {
    let Some(state) = &part.state else { return };
    // The title is often an argument, and metadata repeats arguments.
    let title = state.title.as_ref().map(Text::to_str).unwrap_or_default();
    emit(&title);
    if let Some(input) = state.input.as_ref().and_then(Json::node) {
        strings(input, |_| false, &mut |text| {
            if text != title {
                emit(&text);
            }
        });
    }
    let output = state.output.as_ref().map(Text::to_str).unwrap_or_default();
    emit(&output);
    say(state.error.as_ref(), emit);
    if let Some(metadata) = state.metadata.as_ref().and_then(Json::node) {
        let mut output = Said::new(&output);
        strings(metadata, |key| matches!(key, "before" | "after") || is_id(key), &mut |text| {
            if text != title {
                emit(output.beyond(&text));
            }
        });
    }
    for attachment in state.attachments.iter().flatten() {
        say(attachment.filename.as_ref(), emit);
    }
}

fn error(error: Option<&MessageError<'_>>, emit: &mut dyn FnMut(&str)) {
    say(error.and_then(|error| error.data.as_ref()?.message.as_ref()), emit);
}

fn say(text: Option<&Text<'_>>, emit: &mut dyn FnMut(&str)) {
    if let Some(text) = text {
        emit(&text.to_str());
    }
}

/// Finds the strings in a value, except for skipped members and media. A value may nest to any depth, so this keeps a stack
/// of its own.
fn strings<'a>(value: Node<'a>, skip: impl Fn(&str) -> bool, found: &mut dyn FnMut(Cow<'a, str>)) {
    enum Open<'a> {
        Object(Members<'a>),
        Array(Items<'a>),
    }
    let mut open: Vec<Open<'a>> = Vec::new();
    let mut next = Some(value);
    loop {
        if let Some(value) = next {
            match value.kind() {
                Kind::Object => open.push(Open::Object(value.members())),
                Kind::Array => open.push(Open::Array(value.items())),
                Kind::String => {
                    let text = value.as_text().map(|text| text.to_str()).unwrap_or_default();
                    if !is_data(&text) {
                        found(text);
                    }
                }
                Kind::Number | Kind::Bool | Kind::Null => {}
            }
        }
        next = match open.last_mut() {
            None => return,
            Some(Open::Object(members)) => {
                members.find(|(key, _)| !skip(&key.to_str())).map(|(_, value)| value)
            }
            Some(Open::Array(items)) => items.next(),
        };
        if next.is_none() {
            open.pop();
        }
    }
}

/// Whether a member holds an id: `id`, `sessionID`, `sessionId`, `session_id`.
fn is_id(key: &str) -> bool {
    key == "id" || ["ID", "Id", "_id"].iter().any(|ending| key.ends_with(ending))
}

/// Whether a text is a data URL, `data:image/png;base64,…`. Other text that begins with `data:`, such as server-sent
/// events, has a space or a line break before any comma.
fn is_data(text: &str) -> bool {
    text.strip_prefix("data:")
        .and_then(|rest| rest.bytes().take(256).find(|byte| *byte == b',' || byte.is_ascii_whitespace()))
        == Some(b',')
}

/// Limit on the number of lines before the first numbered one.
const MAX_HEADING: usize = 8;

/// A text that has been emitted, kept to leave out its repetitions: OpenCode stores the output of a command twice.
struct Said<'t> {
    text: &'t str,
    /// Bytes that may still be searched: metadata may hold any number of strings.
    budget: usize,
}

impl<'t> Said<'t> {
    fn new(text: &'t str) -> Said<'t> {
        Said { text, budget: (16 << 20) + 8 * text.len() }
    }

    /// The part of `other` that is not in the text. The two may have been cut at different lengths, so this is the rest
    /// after their common text, from the beginning of a word.
    fn beyond<'o>(&mut self, other: &'o str) -> &'o str {
        if other == self.text || self.text.is_empty() || self.budget < self.text.len() {
            return if other == self.text { "" } else { other };
        }
        self.budget -= self.text.len();
        let head = &other[..other.floor_char_boundary(256)];
        let Some(at) = memmem::find(self.text.as_bytes(), head.as_bytes()) else {
            return self.beyond_numbered(other);
        };
        let pairs = other.bytes().zip(self.text.bytes().skip(at));
        let same = pairs.take_while(|(a, b)| a == b).count();
        if same == other.len() {
            return "";
        }
        let same = &other[..other.floor_char_boundary(same)];
        &other[same.rfind(char::is_whitespace).unwrap_or(0)..]
    }

    /// [`Said::beyond`] for a text with numbered lines, as the tool `read` gives. Its metadata repeats the first lines.
    fn beyond_numbered<'o>(&self, other: &'o str) -> &'o str {
        let mut lines = self.text.lines().map(unnumbered).peekable();
        for _ in 0..MAX_HEADING {
            lines.next_if(Option::is_none);
        }
        let mut rest = other;
        for line in lines {
            let (first, after) = rest.split_once('\n').unwrap_or((rest, ""));
            if line != Some(first) {
                break;
            }
            rest = after;
        }
        rest
    }
}

/// The text of a numbered line: `00012| text` up to 1.1, `12: text` since.
fn unnumbered(line: &str) -> Option<&str> {
    let rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let text = rest.strip_prefix("| ").or_else(|| rest.strip_prefix(": "))?;
    (rest.len() < line.len()).then_some(text)
}
