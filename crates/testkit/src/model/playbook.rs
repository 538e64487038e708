//! The replies of the model: scenarios made of turns, and the texts for a client's housekeeping requests.
//!
//! Plain data, to be written in Rust or loaded from JSON. `select` decides which turn answers which request,
//! `reply` how a turn looks on the wire.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value, json};

/// All replies of a [`ModelServer`](super::ModelServer).
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Playbook {
    /// Turns by scenario name. A user message names its scenario with a tag, `[[scenario:NAME]]`.
    pub scenarios: BTreeMap<String, Vec<Turn>>,
    /// Pairs of a regex and a scenario name, for user messages without a tag. The first match decides.
    pub prompts: Vec<(String, String)>,
    /// Replies to requests for a title. Patterns are searched in the user messages.
    pub titles: Vec<PlaybookEntry>,
    /// Replies to requests to summarise a conversation. Patterns are searched in all messages.
    pub compactions: Vec<PlaybookEntry>,
    /// Replies to requests to say what was done. Patterns are searched in all messages.
    pub summaries: Vec<PlaybookEntry>,
    /// Pause before the first tool call of a reply, for turns that do not set their own.
    pub pace_ms: u64,
}

impl Playbook {
    /// A few scenarios every test can use: `chat`, `reason`, `read`, `hang`, and `error-400`, `error-429`,
    /// `error-500`, the last two of which succeed when tried again.
    pub fn builtin() -> Playbook {
        let retried = |status, message: &str, kind: &str| Failure {
            times: Some(1),
            headers: BTreeMap::from([("retry-after-ms".to_owned(), "100".to_owned())]),
            ..Failure::new(status, message, kind)
        };
        Playbook {
            titles: vec!["Working session".into()],
            compactions: vec!["## Goal\n- Go on with the work.\n\n## Done\n- Looked at the project.".into()],
            summaries: vec!["Looked at the project and answered.".into()],
            ..Playbook::default()
        }
        .scenario("chat", [Turn::text("Hello! Which file of this project shall we look at first?")])
        .scenario(
            "reason",
            [Turn {
                reasoning: "No tool is needed for this. I can answer right away.".to_owned(),
                ..Turn::text("Yes: the two calls do not depend on each other.")
            }],
        )
        .scenario(
            "read",
            [
                Turn::text("Let me look at the file.")
                    .and_call("read", json!({"filePath": "${cwd}/README.md"})),
                Turn::text("The file says what the project is about."),
            ],
        )
        .scenario(
            "hang",
            [Turn {
                hang_after: Some(2),
                ..Turn::text("This reply stops half way through its only sentence and waits there.")
            }],
        )
        .scenario("error-400", [Turn::failing(Failure::new(400, "Bad value", "invalid_request_error"))])
        .scenario(
            "error-429",
            [Turn {
                error: Some(retried(429, "Rate limit reached", "rate_limit_error")),
                ..Turn::text("Thanks for waiting.")
            }],
        )
        .scenario(
            "error-500",
            [Turn {
                error: Some(retried(500, "The server had an error", "server_error")),
                ..Turn::text("It worked the second time.")
            }],
        )
    }

    /// Both playbooks together; `newer` goes first.
    ///
    /// Its scenarios replace those of the same name, its patterns are tried first, and where it has texts
    /// without a pattern these replace the ones of `self`.
    #[must_use]
    pub fn with(mut self, newer: Playbook) -> Playbook {
        fn merge(newer: Vec<PlaybookEntry>, older: Vec<PlaybookEntry>) -> Vec<PlaybookEntry> {
            let replaces = newer.iter().any(|entry| matches!(entry, PlaybookEntry::Always(_)));
            let kept =
                older.into_iter().filter(|entry| !replaces || matches!(entry, PlaybookEntry::When(..)));
            newer.into_iter().chain(kept).collect()
        }
        self.scenarios.extend(newer.scenarios);
        Playbook {
            scenarios: self.scenarios,
            prompts: newer.prompts.into_iter().chain(self.prompts).collect(),
            titles: merge(newer.titles, self.titles),
            compactions: merge(newer.compactions, self.compactions),
            summaries: merge(newer.summaries, self.summaries),
            pace_ms: if newer.pace_ms > 0 { newer.pace_ms } else { self.pace_ms },
        }
    }

    /// Adds or replaces one scenario.
    #[must_use]
    pub fn scenario(mut self, name: &str, turns: impl IntoIterator<Item = Turn>) -> Playbook {
        self.scenarios.insert(name.to_owned(), turns.into_iter().collect());
        self
    }

    /// Sends user messages that match `regex` and carry no tag to a scenario.
    #[must_use]
    pub fn prompt(mut self, regex: &str, scenario: &str) -> Playbook {
        self.prompts.push((regex.to_owned(), scenario.to_owned()));
        self
    }
}

/// One reply of the model. Every field is optional: the default is an empty reply that ends normally.
///
/// In `text`, `reasoning` and the arguments of tool calls, `${cwd}` becomes the working directory named in
/// the system prompt, `${port}` the port of the server, and `${last_session}` the last session id found in
/// the messages.
///
/// A *delta* is one streamed piece of reasoning, text or tool arguments.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct Turn {
    /// Streamed first.
    pub reasoning: String,
    /// Streamed next.
    pub text: String,
    /// Appended to `text`, for long replies.
    pub repeat_text: Option<RepeatText>,
    /// Streamed last.
    pub tool_calls: Vec<ToolCall>,
    /// Finish reason in the words of chat completions. Default `stop`, or `tool_calls` with calls.
    pub finish: Option<String>,
    /// Token counts; those left out are derived from the lengths of request and reply.
    pub usage: TurnUsage,
    /// Leaves the token counts out of the stream, where the protocol allows that (chat completions).
    pub no_usage: bool,
    /// Characters per delta.
    pub chunk: usize,
    /// Pause after each delta.
    pub delay_ms: u64,
    /// Pause before the first tool call. Default: that of the playbook.
    pub pace_ms: Option<u64>,
    /// Number of deltas after which the reply stops and waits until the client closes the connection or
    /// [`ModelServer::release`](super::ModelServer::release) is called. A number beyond the last delta
    /// stops before the reply is ended.
    pub hang_after: Option<usize>,
    /// Number of times the turn hangs; later requests for it do not. Default: always.
    pub hang_times: Option<usize>,
    /// Number of deltas after which the connection is cut, or before the end of the reply if there are fewer.
    pub drop_after: Option<usize>,
    /// An error object sent inside the stream after the text; nothing follows it.
    pub stream_error: Option<Map<String, Value>>,
    /// Answers with an HTTP error instead.
    pub error: Option<Failure>,
}

impl Default for Turn {
    fn default() -> Turn {
        Turn {
            reasoning: String::new(),
            text: String::new(),
            repeat_text: None,
            tool_calls: Vec::new(),
            finish: None,
            usage: TurnUsage::default(),
            no_usage: false,
            chunk: 24,
            delay_ms: 0,
            pace_ms: None,
            hang_after: None,
            hang_times: None,
            drop_after: None,
            stream_error: None,
            error: None,
        }
    }
}

impl Turn {
    /// A plain text.
    pub fn text(text: impl Into<String>) -> Turn {
        Turn { text: text.into(), ..Turn::default() }
    }

    /// A tool call without a text. `args` must be a JSON object.
    pub fn call(tool: &str, args: Value) -> Turn {
        Turn::default().and_call(tool, args)
    }

    /// This turn with one more tool call. `args` must be a JSON object.
    #[must_use]
    pub fn and_call(mut self, tool: &str, args: Value) -> Turn {
        self.tool_calls.push(ToolCall::new(tool, args));
        self
    }

    /// This turn with a pause before its first call: OpenCode takes its snapshot of the files while the reply begins, and a call that comes
    /// at once can be faster.
    #[must_use]
    pub fn after_snapshot(self) -> Turn {
        Turn { text: "Now then.".to_owned(), pace_ms: Some(1_500), ..self }
    }

    /// An HTTP error.
    pub fn failing(error: Failure) -> Turn {
        Turn { error: Some(error), ..Turn::default() }
    }
}

/// A call of one tool within a turn.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct ToolCall {
    pub name: String,
    pub args: Map<String, Value>,
    /// The literal argument text, valid JSON or not, in place of `args`.
    pub raw: Option<String>,
    /// The id of the call. Default: derived from the request.
    pub id: Option<String>,
}

impl ToolCall {
    /// # Panics
    /// If `args` is not a JSON object; other things a model might send go into `raw`.
    pub fn new(name: &str, args: Value) -> ToolCall {
        let Value::Object(args) = args else { panic!("arguments of `{name}` are not an object: {args}") };
        ToolCall { name: name.to_owned(), args, ..ToolCall::default() }
    }

    /// The argument text to stream.
    pub(super) fn arguments(&self) -> String {
        match &self.raw {
            Some(raw) => raw.clone(),
            None => Value::Object(self.args.clone()).to_string(),
        }
    }
}

/// Token counts a turn may fix.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, deny_unknown_fields)]
pub struct TurnUsage {
    /// All tokens of the request, cached ones included.
    pub input: Option<u64>,
    /// All tokens of the reply, reasoning included.
    pub output: Option<u64>,
    pub reasoning: Option<u64>,
    pub cached: Option<u64>,
    pub cache_write: Option<u64>,
}

/// An HTTP error in place of a stream.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct Failure {
    pub status: u16,
    pub body: Value,
    pub headers: BTreeMap<String, String>,
    /// Number of times the turn fails; later requests for it succeed. Default: always.
    pub times: Option<usize>,
}

impl Default for Failure {
    fn default() -> Failure {
        Failure { status: 500, body: json!({}), headers: BTreeMap::new(), times: None }
    }
}

impl Failure {
    /// An error in the shape the hosted services use.
    pub fn new(status: u16, message: &str, kind: &str) -> Failure {
        Failure { status, body: json!({"error": {"message": message, "type": kind}}), ..Failure::default() }
    }
}

/// `unit`, `count` times.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, deny_unknown_fields)]
pub struct RepeatText {
    pub unit: String,
    pub count: usize,
}

/// The reply to a housekeeping request. In JSON a text, a turn, or a pair of a regex and one of these.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(untagged)]
pub enum PlaybookEntry {
    /// Where the regex matches.
    When(String, Answer),
    /// Where no pattern matches; several of these take turns.
    Always(Answer),
}

impl PlaybookEntry {
    pub fn when(regex: &str, answer: impl Into<Answer>) -> PlaybookEntry {
        PlaybookEntry::When(regex.to_owned(), answer.into())
    }
}

impl<T: Into<Answer>> From<T> for PlaybookEntry {
    fn from(answer: T) -> PlaybookEntry {
        PlaybookEntry::Always(answer.into())
    }
}

/// A text, or a whole turn where the text alone is not enough, for instance one with an error.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(untagged)]
pub enum Answer {
    Text(String),
    Turn(Box<Turn>),
}

impl From<&str> for Answer {
    fn from(text: &str) -> Answer {
        Answer::Text(text.to_owned())
    }
}

impl From<Turn> for Answer {
    fn from(turn: Turn) -> Answer {
        Answer::Turn(Box::new(turn))
    }
}

impl From<Answer> for Turn {
    fn from(answer: Answer) -> Turn {
        match answer {
            Answer::Text(text) => Turn::text(text),
            Answer::Turn(turn) => *turn,
        }
    }
}
