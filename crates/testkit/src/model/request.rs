//! What a client asked for: the request as recorded, and the conversation inside it, whatever its protocol.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::http::Headers;

/// One request for a completion, as the server recorded it.
#[derive(Clone, Debug, Serialize)]
pub struct Request {
    /// Position in order of arrival, from 1.
    pub number: usize,
    pub kind: Kind,
    /// The scenario that was looked up, whether or not the playbook has it.
    pub scenario: Option<String>,
    /// The turn of the scenario, from 0.
    pub turn: usize,
    /// The session the request belongs to.
    pub session: Option<String>,
    pub session_source: Option<SessionSource>,
    pub parent_session: Option<String>,
    /// Of the [`Context`](super::Context) at that time.
    pub label: Option<String>,
    pub protocol: Protocol,
    pub path: String,
    /// Names in lower case.
    pub headers: BTreeMap<String, String>,
    pub body: Value,
    /// HTTP status of the reply.
    pub status: u16,
    /// What the reply said about tokens, unless it was an HTTP error.
    pub tokens: Option<Tokens>,
}

impl Request {
    /// The system prompt and the messages of the request.
    pub fn conversation(&self) -> Conversation {
        Conversation::read(self.protocol, &self.body)
    }
}

/// The wire protocols the server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    ChatCompletions,
    Messages,
    Responses,
}

impl Protocol {
    pub(super) fn of_path(path: &str) -> Option<Protocol> {
        match path {
            "/v1/chat/completions" => Some(Protocol::ChatCompletions),
            "/v1/messages" => Some(Protocol::Messages),
            "/v1/responses" => Some(Protocol::Responses),
            _ => None,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Protocol::ChatCompletions => "chat-completions",
            Protocol::Messages => "messages",
            Protocol::Responses => "responses",
        }
    }
}

/// What a request is for, judged by its prompts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A short title for a session or a message.
    Title,
    /// A summary that replaces a conversation.
    Compaction,
    /// A few sentences on what was done.
    Summary,
    /// The closing words after the last permitted step: the conversation ends with an assistant prefill.
    MaxSteps,
    /// A reply to the user: everything else.
    Chat,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Title => "title",
            Kind::Compaction => "compaction",
            Kind::Summary => "summary",
            Kind::MaxSteps => "max-steps",
            Kind::Chat => "chat",
        }
    }
}

/// Where the session id of a request was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SessionSource {
    Header,
    Body,
    Context,
}

/// Token counts of one exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Tokens {
    /// Of the whole request, cached ones included.
    pub input: u64,
    /// Of the whole reply, reasoning included.
    pub output: u64,
    pub reasoning: u64,
    pub cached: u64,
    pub cache_write: u64,
}

/// A request's prompts without the differences between the protocols.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conversation {
    pub system: String,
    pub messages: Vec<Message>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub role: Role,
    /// Text only: tool calls and attachments leave an empty text.
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    User,
    Assistant,
    /// The result of a tool.
    Tool,
}

impl Conversation {
    pub(super) fn read(protocol: Protocol, body: &Value) -> Conversation {
        let mut conversation = Conversation { system: String::new(), messages: Vec::new() };
        match protocol {
            Protocol::ChatCompletions => conversation.read_chat_completions(body),
            Protocol::Messages => conversation.read_messages(body),
            Protocol::Responses => conversation.read_responses(body),
        }
        conversation
    }

    pub(super) fn kind(&self) -> Kind {
        let system = self.system.trim_start();
        let (role, last) = match self.messages.last() {
            Some(message) => (message.role, message.text.as_str()),
            None => (Role::User, ""),
        };
        let summarises_conversations =
            ["tasked with summarizing conversations", "summarization agent", "summarization assistant"]
                .iter()
                .any(|phrase| system.contains(phrase));
        let summarises_work = ["what was done in this conversation", "the following conversation"]
            .iter()
            .any(|object| system.strip_prefix("Summarize ").is_some_and(|rest| rest.starts_with(object)));
        let asks_for_continuation = role == Role::User
            && last.trim_start().starts_with("Provide a detailed prompt for continuing our conversation");

        if system.contains("You are a title generator") {
            Kind::Title
        } else if summarises_conversations {
            Kind::Compaction
        } else if summarises_work {
            Kind::Summary
        } else if asks_for_continuation {
            Kind::Compaction
        } else if role == Role::Assistant && last.to_uppercase().contains("MAXIMUM STEPS REACHED") {
            Kind::MaxSteps
        } else {
            Kind::Chat
        }
    }

    /// The texts of all messages.
    pub fn text(&self) -> String {
        join(self.messages.iter().map(|message| message.text.as_str()))
    }

    /// The texts of the messages of one role.
    pub fn text_of(&self, role: Role) -> String {
        let of_role = self.messages.iter().filter(|message| message.role == role);
        join(of_role.map(|message| message.text.as_str()))
    }

    /// How many replies follow the message at `index`. Several assistant items in a row are one reply.
    pub(super) fn replies_after(&self, index: usize) -> usize {
        self.messages[index..]
            .windows(2)
            .filter(|pair| pair[0].role != Role::Assistant && pair[1].role == Role::Assistant)
            .count()
    }

    /// The directory the system prompt names, or `.`.
    pub(super) fn working_directory(&self) -> &str {
        const LABEL: &str = "Working directory: ";
        let start = self.system.find(LABEL).map(|at| at + LABEL.len());
        start.and_then(|start| self.system[start..].lines().next()).map_or(".", str::trim)
    }

    fn push(&mut self, role: Role, text: String) {
        self.messages.push(Message { role, text });
    }

    fn push_system(&mut self, text: &str) {
        if !self.system.is_empty() {
            self.system.push('\n');
        }
        self.system.push_str(text);
    }

    fn read_chat_completions(&mut self, body: &Value) {
        for message in items(&body["messages"]) {
            let text = text_of(&message["content"]);
            match message["role"].as_str() {
                Some("system" | "developer") => self.push_system(&text),
                role => self.push(role_of(role), text),
            }
        }
    }

    fn read_messages(&mut self, body: &Value) {
        self.push_system(&text_of(&body["system"]));
        for message in items(&body["messages"]) {
            let role = role_of(message["role"].as_str());
            let is_result = |block: &&Value| block["type"] == "tool_result";
            let (results, rest): (Vec<_>, Vec<_>) = items(&message["content"]).iter().partition(is_result);
            if role != Role::User || results.is_empty() {
                self.push(role, text_of(&message["content"]));
                continue;
            }
            let texts: Vec<String> = results.iter().map(|block| text_of(&block["content"])).collect();
            self.push(Role::Tool, texts.join("\n"));
            if !rest.is_empty() {
                self.push(Role::User, join(rest.iter().filter_map(|block| block["text"].as_str())));
            }
        }
    }

    fn read_responses(&mut self, body: &Value) {
        self.push_system(body["instructions"].as_str().unwrap_or_default());
        for item in items(&body["input"]) {
            match (item["type"].as_str(), item["role"].as_str()) {
                (Some("function_call_output"), _) => self.push(Role::Tool, text_of(&item["output"])),
                (Some("function_call" | "reasoning" | "item_reference"), _) => {
                    self.push(Role::Assistant, String::new());
                }
                (_, Some("system" | "developer")) => self.push_system(&text_of(&item["content"])),
                (_, role) => self.push(role_of(role), text_of(&item["content"])),
            }
        }
    }
}

/// The session a request names, in a header or in its body.
pub(super) fn session_of(headers: &Headers, body: &Value) -> Option<(String, SessionSource)> {
    let header = ["x-opencode-session", "x-session-affinity", "x-session-id"]
        .iter()
        .find_map(|name| headers.get(name))
        .map(|id| (id.to_owned(), SessionSource::Header));
    header.or_else(|| {
        ["promptCacheKey", "prompt_cache_key"]
            .iter()
            .find_map(|name| body[name].as_str())
            .map(|id| (id.to_owned(), SessionSource::Body))
    })
}

fn role_of(name: Option<&str>) -> Role {
    match name {
        Some("assistant") => Role::Assistant,
        Some("tool" | "function") => Role::Tool,
        _ => Role::User,
    }
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// The text of a message's content: a string, or a list of blocks some of which carry text.
fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        blocks => join(items(blocks).iter().filter_map(|block| block.as_str().or(block["text"].as_str()))),
    }
}

fn join<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    texts.collect::<Vec<_>>().join("\n")
}
