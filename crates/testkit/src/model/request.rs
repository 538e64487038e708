//! A client's request as recorded, and the conversation inside it, whatever its protocol.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::http::Headers;

/// One request for a completion, as the server recorded it.
#[derive(Clone, Debug, Serialize)]
pub struct ModelRequest {
    /// Position in order of arrival, from 1.
    pub number: usize,
    pub kind: RequestKind,
    /// The scenario that was looked up, whether or not the playbook has it.
    pub scenario: Option<String>,
    /// The turn of the scenario, from 0.
    pub turn: usize,
    /// The session the request belongs to.
    pub session: Option<String>,
    pub session_source: Option<SessionSource>,
    pub parent_session: Option<String>,
    /// Label of the [`RequestContext`](super::RequestContext) at that time.
    pub label: Option<String>,
    pub protocol: Protocol,
    pub path: String,
    /// Names in lower case.
    pub headers: BTreeMap<String, String>,
    pub body: Value,
    /// HTTP status of the reply.
    pub status: u16,
    /// Token counts in the reply, unless it was an HTTP error.
    pub tokens: Option<ExchangeTokens>,
}

impl ModelRequest {
    /// The system prompt and the messages of the request.
    pub fn conversation(&self) -> RequestConversation {
        RequestConversation::read(self.protocol, &self.body)
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

/// The purpose of a request, judged by its prompts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RequestKind {
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

impl RequestKind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            RequestKind::Title => "title",
            RequestKind::Compaction => "compaction",
            RequestKind::Summary => "summary",
            RequestKind::MaxSteps => "max-steps",
            RequestKind::Chat => "chat",
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
pub struct ExchangeTokens {
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
pub struct RequestConversation {
    pub system: String,
    pub messages: Vec<RequestMessage>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestMessage {
    pub role: RequestRole,
    /// Text only: tool calls and attachments leave an empty text.
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestRole {
    User,
    Assistant,
    /// The result of a tool.
    Tool,
}

impl RequestConversation {
    pub(super) fn read(protocol: Protocol, body: &Value) -> RequestConversation {
        let mut conversation = RequestConversation { system: String::new(), messages: Vec::new() };
        match protocol {
            Protocol::ChatCompletions => conversation.read_chat_completions(body),
            Protocol::Messages => conversation.read_messages(body),
            Protocol::Responses => conversation.read_responses(body),
        }
        conversation
    }

    pub(super) fn kind(&self) -> RequestKind {
        let system = self.system.trim_start();
        let (role, last) = match self.messages.last() {
            Some(message) => (message.role, message.text.as_str()),
            None => (RequestRole::User, ""),
        };
        let summarises_conversations =
            ["tasked with summarizing conversations", "summarization agent", "summarization assistant"]
                .iter()
                .any(|phrase| system.contains(phrase));
        let summarises_work = ["what was done in this conversation", "the following conversation"]
            .iter()
            .any(|object| system.strip_prefix("Summarize ").is_some_and(|rest| rest.starts_with(object)));
        let asks_for_continuation = role == RequestRole::User
            && last.trim_start().starts_with("Provide a detailed prompt for continuing our conversation");

        if system.contains("You are a title generator") {
            RequestKind::Title
        } else if summarises_conversations {
            RequestKind::Compaction
        } else if summarises_work {
            RequestKind::Summary
        } else if asks_for_continuation {
            RequestKind::Compaction
        } else if role == RequestRole::Assistant && last.to_uppercase().contains("MAXIMUM STEPS REACHED") {
            RequestKind::MaxSteps
        } else {
            RequestKind::Chat
        }
    }

    /// The texts of all messages.
    pub fn text(&self) -> String {
        join(self.messages.iter().map(|message| message.text.as_str()))
    }

    /// The texts of the messages of one role.
    pub fn text_of(&self, role: RequestRole) -> String {
        let of_role = self.messages.iter().filter(|message| message.role == role);
        join(of_role.map(|message| message.text.as_str()))
    }

    /// How many replies follow the message at `index`. Several assistant items in a row are one reply.
    pub(super) fn replies_after(&self, index: usize) -> usize {
        self.messages[index..]
            .windows(2)
            .filter(|pair| pair[0].role != RequestRole::Assistant && pair[1].role == RequestRole::Assistant)
            .count()
    }

    /// The directory the system prompt names, or `.`.
    pub(super) fn working_directory(&self) -> &str {
        const LABEL: &str = "Working directory: ";
        let start = self.system.find(LABEL).map(|at| at + LABEL.len());
        start.and_then(|start| self.system[start..].lines().next()).map_or(".", str::trim)
    }

    fn push(&mut self, role: RequestRole, text: String) {
        self.messages.push(RequestMessage { role, text });
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
            if role != RequestRole::User || results.is_empty() {
                self.push(role, text_of(&message["content"]));
                continue;
            }
            let texts: Vec<String> = results.iter().map(|block| text_of(&block["content"])).collect();
            self.push(RequestRole::Tool, texts.join("\n"));
            if !rest.is_empty() {
                self.push(RequestRole::User, join(rest.iter().filter_map(|block| block["text"].as_str())));
            }
        }
    }

    fn read_responses(&mut self, body: &Value) {
        self.push_system(body["instructions"].as_str().unwrap_or_default());
        for item in items(&body["input"]) {
            match (item["type"].as_str(), item["role"].as_str()) {
                (Some("function_call_output"), _) => self.push(RequestRole::Tool, text_of(&item["output"])),
                (Some("function_call" | "reasoning" | "item_reference"), _) => {
                    self.push(RequestRole::Assistant, String::new());
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

fn role_of(name: Option<&str>) -> RequestRole {
    match name {
        Some("assistant") => RequestRole::Assistant,
        Some("tool" | "function") => RequestRole::Tool,
        _ => RequestRole::User,
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
