//! The parts of one message of OpenCode's second transcript store, in the shape of the first.

use annals_core::document::{ContentHash, Document};
use annals_core::id::{MessageId, PartId, SessionId};
use annals_core::json::{JsWriter, Kind, Node, Style, Text, ToJs};
use annals_core::lens::{
    AgentPart, FilePart, Json, MessageTime, ReasoningPart, Span, StepFinishPart, StepStartPart, TextPart,
    ToolPart, ToolState, ToolTime,
};

use super::Converted;
use super::row::{
    SecondStoreRow, address, cost, described, error_text, listed, millis, mime, object, present, prose, text,
    time, tokens,
};

/// The parts of one message.
pub(super) struct Parts<'a> {
    session: &'a SessionId,
    message: &'a MessageId,
    time: MessageTime,
    n_ids: usize,
    made: Vec<(PartId, Document)>,
}

impl<'a> Parts<'a> {
    pub(super) fn new(session: &'a SessionId, row: &'a SecondStoreRow) -> Parts<'a> {
        Parts { session, message: &row.id, time: time(row.data.root()), n_ids: 0, made: Vec::new() }
    }

    /// The message with the parts made so far.
    pub(super) fn finish(self, message: Document) -> Converted {
        Converted { id: self.message.clone(), message, parts: self.made }
    }

    fn next_id(&mut self) -> PartId {
        self.n_ids += 1;
        part_id(self.message, self.n_ids - 1)
    }

    /// The fields `sessionID` and `messageID`.
    fn owners(&self) -> (Option<Text<'a>>, Option<Text<'a>>) {
        (Some(Text::from(self.session)), Some(Text::from(self.message)))
    }

    fn add(&mut self, id: &PartId, part: &dyn ToJs) {
        let (session_id, message_id) = self.owners();
        let spare = TextPart {
            id: Some(Text::from(id)),
            session_id,
            message_id,
            text: Some(Text::from("[a part that is too large to be converted]")),
            synthetic: Some(true),
            ..TextPart::default()
        };
        self.made.push((id.clone(), document(part, &spare)));
    }

    pub(super) fn text(&mut self, text: Text<'_>, synthetic: Option<bool>) {
        let (id, (session_id, message_id)) = (self.next_id(), self.owners());
        let ids = TextPart { id: Some(Text::from(&id)), session_id, message_id, ..TextPart::default() };
        self.add(&id, &TextPart { text: Some(text), synthetic, ..ids });
    }

    /// A text that OpenCode added, with metadata as JSON.
    pub(super) fn added_text(&mut self, text: Text<'_>, metadata: Option<&str>) {
        let (id, (session_id, message_id)) = (self.next_id(), self.owners());
        let part = TextPart {
            id: Some(Text::from(&id)),
            session_id,
            message_id,
            text: Some(text),
            synthetic: Some(true),
            metadata: metadata.map(|metadata| Json::Text(metadata.to_owned())),
            ..TextPart::default()
        };
        self.add(&id, &part);
    }

    pub(super) fn file(&mut self, file: Node<'_>) {
        match address(file) {
            Some(url) => {
                let id = self.next_id();
                self.add(&id, &self.file_part(&id, file, url));
            }
            None => self.text(described("file", file), Some(true)),
        }
    }

    fn file_part<'f>(&self, id: &PartId, file: Node<'f>, url: Text<'f>) -> FilePart<'f>
    where
        'a: 'f,
    {
        let (session_id, message_id) = self.owners();
        FilePart {
            id: Some(Text::from(id.to_string())),
            session_id,
            message_id,
            mime: Some(mime(file)),
            filename: text(file, "filename").or_else(|| text(file, "name")),
            url: Some(url),
            ..FilePart::default()
        }
    }

    pub(super) fn agent(&mut self, agent: Node<'_>) {
        let Some(name) = text(agent, "name").or_else(|| agent.as_text()) else {
            return self.text(described("agent", agent), Some(true));
        };
        let (id, (session_id, message_id)) = (self.next_id(), self.owners());
        let ids = AgentPart { id: Some(Text::from(&id)), session_id, message_id, ..AgentPart::default() };
        self.add(&id, &AgentPart { name: Some(name), ..ids });
    }

    pub(super) fn step_start(&mut self, data: Node<'_>) {
        let (id, (session_id, message_id)) = (self.next_id(), self.owners());
        let snapshot = data.at(&["snapshot", "start"]).and_then(Node::as_text);
        self.add(&id, &StepStartPart { id: Some(Text::from(&id)), session_id, message_id, snapshot });
    }

    pub(super) fn step_finish(&mut self, data: Node<'_>, reason: Text<'_>) {
        let (id, (session_id, message_id)) = (self.next_id(), self.owners());
        let part = StepFinishPart {
            id: Some(Text::from(&id)),
            session_id,
            message_id,
            reason: Some(reason),
            snapshot: data.at(&["snapshot", "end"]).and_then(Node::as_text),
            cost: Some(cost(data)),
            tokens: Some(tokens(data)),
        };
        self.add(&id, &part);
    }

    /// An item of an assistant's `content`.
    pub(super) fn content(&mut self, item: Node<'_>) {
        let kind = text(item, "type").unwrap_or(Text::from("content"));
        match &*kind.to_str() {
            "text" => self.text(prose(item.get("text")), None),
            "reasoning" => self.reasoning(item),
            "tool" => self.tool(item),
            other => self.text(described(other, item), Some(true)),
        }
    }

    fn reasoning(&mut self, item: Node<'_>) {
        let start = millis(item, "created").or(self.time.created);
        // Earlier versions stored no times here, and a message that has ended thinks no more.
        let end = millis(item, "completed").or(self.time.completed.and(start));
        let (id, (session_id, message_id)) = (self.next_id(), self.owners());
        let part = ReasoningPart {
            id: Some(Text::from(&id)),
            session_id,
            message_id,
            text: Some(prose(item.get("text"))),
            metadata: object(item, "providerMetadata"),
            time: Some(Span { start, end }),
        };
        self.add(&id, &part);
    }

    fn tool(&mut self, item: Node<'_>) {
        let id = self.next_id();
        let call = text(item, "id").unwrap_or_else(|| Text::from(&id));
        let name = text(item, "name").unwrap_or(Text::from("unknown"));
        let state = self.tool_state(item);
        let metadata = item.get("provider").and_then(|provider| object(provider, "metadata"));
        self.add_call(&id, ToolPart { metadata, ..tool_part(call, name, state) });
    }

    pub(super) fn shell(&mut self, data: Node<'_>) {
        let id = self.next_id();
        let call = text(data, "callID").unwrap_or_else(|| Text::from(&id));
        let state = ToolState {
            status: Some(Text::from("completed")),
            input: Some(written_json(|writer| writer.member("command", &prose(data.get("command"))))),
            output: Some(prose(data.get("output"))),
            title: Some(Text::from("")),
            metadata: Some(written_json(|_| ())),
            time: Some(self.tool_time(data)),
            ..ToolState::default()
        };
        self.add_call(&id, tool_part(call, Text::from("bash"), state));
    }

    fn add_call(&mut self, id: &PartId, part: ToolPart<'_>) {
        let (session_id, message_id) = self.owners();
        self.add(id, &ToolPart { id: Some(Text::from(id)), session_id, message_id, ..part });
    }

    fn tool_state<'f>(&mut self, item: Node<'f>) -> ToolState<'f>
    where
        'a: 'f,
    {
        let state = present(item, "state").unwrap_or(item);
        let status = text(state, "status").unwrap_or(Text::from(""));
        let (input, raw) = arguments(state);
        let begun = ToolState {
            status: Some(status.clone()),
            input: Some(input),
            raw,
            time: Some(self.tool_time(item)),
            attachments: self.attachments(state),
            ..ToolState::default()
        };
        match &*status.to_str() {
            "pending" | "streaming" => pending_state(begun),
            "running" => running_state(begun, state),
            "completed" => completed_state(begun, item, state),
            "error" => failed_state(begun, state),
            // The first store knows no other states. As arguments still being written this one is at least not lost.
            _ => pending_state(ToolState { raw: Some(Text::from(state.raw())), ..begun }),
        }
    }

    fn tool_time(&self, item: Node<'_>) -> ToolTime {
        let start = millis(item, "ran").or_else(|| millis(item, "created")).or(self.time.created);
        ToolTime { start, end: millis(item, "completed").or(start), compacted: None }
    }

    /// The files of a tool's result.
    fn attachments<'f>(&mut self, state: Node<'f>) -> Option<Vec<FilePart<'f>>>
    where
        'a: 'f,
    {
        let in_content = listed(state, "content").filter(|item| is_file(*item));
        let mut files = Vec::new();
        for file in in_content.chain(listed(state, "attachments")) {
            let id = self.next_id();
            files.push(self.file_part(&id, file, address(file).unwrap_or_else(|| prose(Some(file)))));
        }
        (!files.is_empty()).then_some(files)
    }
}

/// The id of a message's part: the time of the message's id, a number that makes them ascend, and the end of the
/// message's id, which is where ids that were not made by OpenCode differ.
pub(super) fn part_id(message: &MessageId, index: usize) -> PartId {
    // A letter is greater than any digit, so the rare long numbers come after the short ones.
    let number = if index < 10_000 { format!("{index:04}") } else { format!("z{index:09}") };
    let text = match timed(message) {
        Some((field, rest)) => format!("prt_{field}{number}{}", &rest[number.len()..]),
        None => format!("prt_x{}{number}", &ContentHash::of(message.as_str().as_bytes()).to_string()[..32]),
    };
    PartId::parse_opencode(&text).expect("it has at most 43 letters and digits")
}

/// The 12 digits of time and the 14 random ones of an id as OpenCode makes it.
pub(super) fn timed(message: &MessageId) -> Option<(&str, &str)> {
    let (field, rest) = message.as_str().strip_prefix("msg_")?.split_at_checked(12)?;
    let lower_hex = field.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    (lower_hex && rest.len() == 14).then_some((field, rest))
}

/// Writes a document, or `spare` where it would be larger than any document may be: JSON inside a string takes twice
/// the room.
pub(super) fn document(full: &dyn ToJs, spare: &dyn ToJs) -> Document {
    Document::written(Style::Compact, full)
        .or_else(|_| Document::written(Style::Compact, spare))
        .expect("ids, numbers and constants make a small document")
}

fn tool_part<'a>(call: Text<'a>, tool: Text<'a>, state: ToolState<'a>) -> ToolPart<'a> {
    ToolPart { call_id: Some(call), tool: Some(tool), state: Some(state), ..ToolPart::default() }
}

fn pending_state(begun: ToolState<'_>) -> ToolState<'_> {
    ToolState {
        status: Some(Text::from("pending")),
        raw: Some(begun.raw.unwrap_or(Text::from(""))),
        time: None,
        ..begun
    }
}

fn running_state<'a>(begun: ToolState<'a>, state: Node<'a>) -> ToolState<'a> {
    let start = begun.time.as_ref().and_then(|time| time.start);
    ToolState {
        metadata: metadata(state, printed(state).as_ref()),
        time: Some(ToolTime { start, ..ToolTime::default() }),
        ..begun
    }
}

fn completed_state<'a>(begun: ToolState<'a>, item: Node<'a>, state: Node<'a>) -> ToolState<'a> {
    ToolState {
        output: Some(output(state)),
        title: Some(Text::from("")),
        metadata: Some(metadata(state, None).unwrap_or_else(|| written_json(|_| ()))),
        time: begun.time.map(|time| ToolTime { compacted: millis(item, "pruned"), ..time }),
        ..begun
    }
}

fn failed_state<'a>(begun: ToolState<'a>, state: Node<'a>) -> ToolState<'a> {
    let error = present(state, "error").map_or(Text::from(""), error_text);
    ToolState { error: Some(error), metadata: metadata(state, printed(state).as_ref()), ..begun }
}

/// The arguments of a call, and their text where they are not an object: a call that was cut short while the model
/// wrote them has only the beginning of their JSON.
fn arguments(state: Node<'_>) -> (Json<'_>, Option<Text<'_>>) {
    let none = written_json(|_| ());
    match present(state, "input") {
        Some(input) if input.kind() == Kind::Object => (Json::Node(input), None),
        Some(input) => (none, Some(prose(Some(input)))),
        None => (none, None),
    }
}

/// The result of a completed call. Many tools give only structured data, which the model then sees as JSON.
fn output(state: Node<'_>) -> Text<'_> {
    printed(state)
        .or_else(|| text(state.get("structured")?, "content"))
        .unwrap_or_else(|| prose(state.get("structured")))
}

/// The texts of a result, and the JSON of other items that are not files.
fn printed(state: Node<'_>) -> Option<Text<'_>> {
    let mut texts: Vec<_> =
        listed(state, "content").filter(|item| !is_file(*item)).map(|item| prose(item_text(item))).collect();
    if texts.len() > 1 {
        let texts: Vec<_> = texts.iter().map(Text::to_str).collect();
        return Some(Text::from(texts.join("\n")));
    }
    texts.pop()
}

fn item_text(item: Node<'_>) -> Option<Node<'_>> {
    let is_text = text(item, "type").is_some_and(|kind| kind == "text");
    if is_text { item.get("text") } else { Some(item) }
}

fn is_file(item: Node<'_>) -> bool {
    text(item, "type").is_some_and(|kind| kind == "file") && address(item).is_some()
}

/// What the tool says about a call, if anything. `printed` is the output of a call that did not complete; the first
/// store keeps it here.
fn metadata<'a>(state: Node<'a>, printed: Option<&Text<'a>>) -> Option<Json<'a>> {
    let (structured, paths) = (present(state, "structured"), present(state, "outputPaths"));
    // Later versions have `metadata` in place of `structured`.
    let mut own = state.get("metadata").into_iter().flat_map(Node::members).peekable();
    if own.peek().is_none() && structured.is_none() && paths.is_none() && printed.is_none() {
        return None;
    }
    Some(written_json(|writer| {
        own.for_each(|(key, value)| writer.member(&key.to_str(), &value));
        writer.member("output", &printed);
        writer.member("structured", &structured);
        writer.member("outputPaths", &paths);
    }))
}

/// An object to be written.
fn written_json(fill: impl FnOnce(&mut JsWriter)) -> Json<'static> {
    let mut writer = JsWriter::new(Style::Compact, 0);
    writer.object(fill);
    Json::Text(String::from_utf8_lossy(&writer.finish()).into_owned())
}
