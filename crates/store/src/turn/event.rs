//! Events of a turn as JSON: one for each call of the turn API, for agents in any language.
//!
//! An event is an object with a `type`. [`TurnEvent::parse`] reads one, [`EventWriter`](super::EventWriter) carries it out. docs/append.md
//! describes them; a test compares the two.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::AnswerError;
use super::piece::Piece;

/// Declares the events: a struct for each, and the enum of them all.
macro_rules! events {
    ($( $(#[$meta:meta])* $name:ident = $kind:literal {
        $( $(#[$field_meta:meta])* $field:ident $key:literal: $type:ty, )*
    } )*) => {
        /// An event of a turn.
        #[derive(Debug, Clone)]
        #[non_exhaustive]
        pub enum TurnEvent {
            $( $(#[$meta])* $name($name), )*
        }

        $(
            $(#[$meta])*
            #[derive(Debug, Clone, Deserialize)]
            #[serde(deny_unknown_fields)]
            #[non_exhaustive]
            pub struct $name {
                #[serde(rename = "type")]
                _kind: IgnoredAny,
                /// The session: its id, or the name that the event that made it gave it. The default is the session of the stream.
                pub session: Option<String>,
                $( $(#[$field_meta])* #[serde(rename = $key)] pub $field: $type, )*
            }
        )*

        impl TurnEvent {
            /// The types of events, each with the names of its members.
            pub const KINDS: &'static [(&'static str, &'static [&'static str])] = &[ $( ($kind, &[$($key),*]), )* ];

            fn of(kind: &str, text: &str) -> Result<TurnEvent, EventParseError> {
                match kind {
                    $( $kind => Ok(TurnEvent::$name(read(text)?)), )*
                    _ => Err(EventParseError::UnknownType(kind.to_owned())),
                }
            }

            /// The session that the event names.
            pub fn session(&self) -> Option<&str> {
                match self {
                    $( TurnEvent::$name(event) => event.session.as_deref(), )*
                }
            }
        }
    };
}

events! {
    /// Creates a session.
    CreateSession = "session-create" {
        /// The directory that the session works in. The default is the directory of the command.
        directory "directory": Option<String>,
        /// The title.
        title "title": Option<String>,
        /// The session that starts it: an id, or a name given in this stream.
        parent "parent": Option<String>,
        /// A name for the session in the events that follow.
        name "as": Option<String>,
    }
    /// Stores a prompt and opens the turn that answers it.
    StartTurn = "turn-start" {
        /// The text of the user.
        text "text": Option<String>,
        /// Further pieces of the prompt, after the text.
        parts "parts": Option<Vec<PromptInput>>,
        /// The agent that is to answer. The default is `build`.
        agent "agent": Option<String>,
        /// The model that is to answer, `provider/model`. The default is the model of the session's last prompt.
        model "model": Option<String>,
        /// The variant of the model.
        variant "variant": Option<String>,
        /// A system prompt for this prompt alone.
        system "system": Option<String>,
        /// Tools that are switched on or off.
        tools "tools": Option<BTreeMap<String, bool>>,
        /// Whether to go on although the last answer of the session has no end and changed a short while ago.
        take_over "takeOver": Option<bool>,
    }
    /// Opens a turn on a prompt that is stored already.
    ResumeTurn = "turn-resume" {
        /// The id of the prompt.
        message "message": String,
        /// Whether to go on although the last answer of the session has no end and changed a short while ago.
        take_over "takeOver": Option<bool>,
    }
    /// Begins an answer: one call of the model.
    StartAnswer = "answer-start" {
        /// The agent, if it is another one than the prompt's.
        agent "agent": Option<String>,
        /// The model, if it is another one than the prompt's.
        model "model": Option<String>,
        /// Whether the answer is the summary of a compaction.
        summary "summary": Option<bool>,
    }
    /// A step begins: the model is called.
    StartStep = "step-start" {
        /// The state of the files, a tree of the shadow repository.
        snapshot "snapshot": Option<String>,
    }
    /// Begins a text.
    StartText = "text-start" {
        /// A name for the text, if several are open at once.
        id "id": Option<String>,
    }
    /// Adds a piece to a text.
    AddText = "text-delta" {
        /// The name of the text.
        id "id": Option<String>,
        /// The piece.
        delta "delta": Piece,
    }
    /// Ends a text.
    EndText = "text-end" {
        /// The name of the text.
        id "id": Option<String>,
        /// The provider's own data about the text.
        metadata "metadata": Option<Box<RawValue>>,
    }
    /// Begins a thought.
    StartReasoning = "reasoning-start" {
        /// A name for the thought, if several are open at once.
        id "id": Option<String>,
    }
    /// Adds a piece to a thought.
    AddReasoning = "reasoning-delta" {
        /// The name of the thought.
        id "id": Option<String>,
        /// The piece.
        delta "delta": Piece,
    }
    /// Ends a thought.
    EndReasoning = "reasoning-end" {
        /// The name of the thought.
        id "id": Option<String>,
        /// The provider's own data about the thought, such as a signature.
        metadata "metadata": Option<Box<RawValue>>,
    }
    /// The model begins to call a tool.
    StartCall = "tool-call" {
        /// The model's own name for the call, by which later events name it.
        call "call": String,
        /// The tool.
        tool "tool": String,
        /// The provider's own data about the call.
        metadata "metadata": Option<Box<RawValue>>,
    }
    /// The arguments of a call are known, and it runs.
    RunCall = "tool-run" {
        /// The call.
        call "call": String,
        /// The arguments: an object.
        input "input": Box<RawValue>,
        /// The tool, if the call turned out to be one of another tool.
        tool "tool": Option<String>,
    }
    /// Says how far a running call is.
    ReportCall = "tool-progress" {
        /// The call.
        call "call": String,
        /// A line to show.
        title "title": Option<String>,
        /// What the tool says about the call: an object.
        metadata "metadata": Option<Box<RawValue>>,
    }
    /// Creates the session of a subagent that a running call starts, and notes it in the call.
    StartChild = "tool-child" {
        /// The call.
        call "call": String,
        /// The work in a few words.
        description "description": String,
        /// The subagent.
        agent "agent": String,
        /// A name for the session in the events that follow.
        name "as": Option<String>,
    }
    /// A call gave a result.
    CompleteCall = "tool-complete" {
        /// The call.
        call "call": String,
        /// The result.
        output "output": String,
        /// A line to show for the call.
        title "title": Option<String>,
        /// What the tool says about the call: an object.
        metadata "metadata": Option<Box<RawValue>>,
        /// Files that belong to the result.
        attachments "attachments": Option<Vec<FileInput>>,
    }
    /// A call failed.
    FailCall = "tool-fail" {
        /// The call.
        call "call": String,
        /// What went wrong.
        error "error": String,
    }
    /// Adds a file that the model made.
    AddFile = "file" {
        /// The media type.
        mime "mime": String,
        /// Where the file is: `data:`, `file:` or a remote address.
        url "url": String,
        /// The name to show.
        filename "filename": Option<String>,
    }
    /// Notes that a call of the model failed and is tried again.
    Retry = "retry" {
        /// The number of the try that failed, from 1.
        attempt "attempt": u32,
        /// What went wrong.
        error "error": ErrorInput,
    }
    /// Adds a part of any kind, as it is. Its ids are set when it is stored.
    AddPart = "part" {
        /// The part: an object with a `type`.
        part "part": Box<RawValue>,
    }
    /// Sets the structured output that the prompt asked for.
    SetStructured = "structured" {
        /// The output.
        output "output": Box<RawValue>,
    }
    /// A step ended.
    FinishStep = "step-finish" {
        /// Why: `stop`, `tool-calls`, `length`, `content-filter`, `error`, `other` or `unknown`.
        reason "reason": String,
        /// The tokens that the step used.
        tokens "tokens": Option<TokensInput>,
        /// What the step cost, in US dollars.
        cost "cost": Option<f64>,
        /// The state of the files, a tree of the shadow repository.
        snapshot "snapshot": Option<String>,
    }
    /// Notes which files a step changed.
    AddPatch = "patch" {
        /// The state of the files before the step, a tree of the shadow repository.
        hash "hash": String,
        /// The files, by their absolute paths.
        files "files": Vec<String>,
    }
    /// Ends the answer.
    FinishAnswer = "answer-finish" {}
    /// Ends the answer with an error.
    FailAnswer = "answer-fail" {
        /// What went wrong.
        error "error": ErrorInput,
    }
    /// Ends the answer as aborted.
    AbortAnswer = "answer-abort" {}
    /// Replaces the todo list of the session.
    SetTodos = "todos" {
        /// All todos.
        todos "todos": Vec<TodoInput>,
    }
    /// Notes which files the turn changed.
    SetChanges = "changes" {
        /// The files.
        files "files": Vec<ChangeInput>,
    }
    /// Ends the turn.
    FinishTurn = "turn-finish" {}
    /// Ends the turn as aborted.
    AbortTurn = "turn-abort" {}
    /// Stores a prompt without opening a turn.
    AddPrompt = "prompt" {
        /// The text of the user.
        text "text": Option<String>,
        /// Further pieces of the prompt, after the text.
        parts "parts": Option<Vec<PromptInput>>,
        /// The agent that is to answer. The default is `build`.
        agent "agent": Option<String>,
        /// The model that is to answer, `provider/model`. The default is the model of the session's last prompt.
        model "model": Option<String>,
        /// The variant of the model.
        variant "variant": Option<String>,
        /// A system prompt for this prompt alone.
        system "system": Option<String>,
        /// Tools that are switched on or off.
        tools "tools": Option<BTreeMap<String, bool>>,
    }
    /// Stores the pieces of text that were collected.
    Flush = "flush" {}
}

/// A piece of a prompt.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub enum PromptInput {
    /// A text.
    Text {
        /// The text.
        text: String,
        /// Whether the user did not write it and does not see it.
        #[serde(default)]
        synthetic: bool,
        /// Whether the model does not get it.
        #[serde(default)]
        ignored: bool,
    },
    /// A file or directory, or bytes.
    File {
        /// The path of a file or directory, relative to the session's directory.
        path: Option<String>,
        /// The bytes, in base64.
        data: Option<String>,
        /// The media type. The default follows from the name.
        mime: Option<String>,
        /// The name to show.
        name: Option<String>,
        /// The first line to take, and the last one.
        lines: Option<(usize, Option<usize>)>,
        /// Where the text mentions the file.
        mention: Option<MentionInput>,
    },
    /// A subagent that the model is told to call.
    Agent {
        /// The name of the subagent.
        name: String,
        /// Where the text mentions the subagent.
        mention: Option<MentionInput>,
    },
    /// Work for a subagent, as a command gives it.
    Subtask {
        /// What to do.
        prompt: String,
        /// The work in a few words.
        description: String,
        /// The subagent.
        agent: String,
        /// The model, `provider/model`.
        model: Option<String>,
        /// The command that gave the work.
        command: Option<String>,
    },
    /// A request to compact the conversation.
    Compaction {
        /// Whether nobody asked for it.
        #[serde(default)]
        auto: bool,
    },
}

/// Where the text of a prompt mentions a file or an agent.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MentionInput {
    /// The text of the mention, such as `@src/cart.ts`.
    pub text: String,
    /// Where it begins in the prompt, in UTF-16 units.
    pub start: usize,
}

/// A file that belongs to the result of a call.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileInput {
    /// The media type.
    pub mime: String,
    /// Where the file is.
    pub url: String,
    /// The name to show.
    pub filename: Option<String>,
}

/// Tokens that a step used.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TokensInput {
    /// Tokens sent, without those from a cache.
    pub input: f64,
    /// Tokens received.
    pub output: f64,
    /// Tokens of reasoning.
    pub reasoning: f64,
    /// Tokens from and for a cache.
    pub cache: CacheInput,
    /// The provider's own total.
    pub total: Option<f64>,
}

/// Tokens from and for a cache.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CacheInput {
    /// Tokens read from the cache.
    pub read: f64,
    /// Tokens written to the cache.
    pub write: f64,
}

/// An item of a todo list.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TodoInput {
    /// What to do.
    pub content: String,
    /// `pending`, `in_progress`, `completed` or `cancelled`.
    pub status: String,
    /// `high`, `medium` or `low`.
    pub priority: Option<String>,
    /// Its id. The default is its number.
    pub id: Option<String>,
}

/// How one file changed.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChangeInput {
    /// The path, relative to the working tree.
    pub file: String,
    /// The text before.
    pub before: Option<String>,
    /// The text after.
    pub after: Option<String>,
    /// A patch, instead of both texts.
    pub patch: Option<String>,
    /// Lines added.
    pub additions: f64,
    /// Lines deleted.
    pub deletions: f64,
    /// `added`, `deleted` or `modified`.
    pub status: Option<String>,
}

/// An error of an answer, in the form in which OpenCode stores it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ErrorInput {
    /// `APIError`, `ProviderAuthError`, `MessageOutputLengthError`, `ContextOverflowError`, `ContentFilterError`, `StructuredOutputError`,
    /// `MessageAbortedError` or `UnknownError`.
    pub name: String,
    /// More about it.
    #[serde(default)]
    pub data: ErrorDataInput,
}

/// More about an error of an answer. Which members it may have depends on the name of the error.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct ErrorDataInput {
    /// What happened.
    pub message: String,
    /// The HTTP status.
    pub status_code: Option<u16>,
    /// Whether trying again may help.
    pub is_retryable: bool,
    /// The headers of the response.
    pub response_headers: Option<BTreeMap<String, String>>,
    /// The body of the response.
    pub response_body: Option<String>,
    /// More about the request or the failure.
    pub metadata: Option<BTreeMap<String, String>>,
    /// The provider that does not accept the credentials.
    #[serde(rename = "providerID")]
    pub provider_id: String,
    /// The tries made to get structured output.
    pub retries: u32,
}

/// Why a line is no event.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EventParseError {
    /// It is not JSON: nothing can be told about it.
    #[error("it is not JSON: {0}")]
    NotJson(serde_json::Error),
    /// It is JSON, but not an object with a type.
    #[error("an event is an object with a `type`: {0}")]
    NotAnEvent(serde_json::Error),
    /// There is no event of this type.
    #[error("there is no event of type {0:?}")]
    UnknownType(String),
    /// A member is missing, unknown, or of another type.
    #[error("{0}")]
    BadMember(serde_json::Error),
}

impl TurnEvent {
    /// Reads an event.
    pub fn parse(text: &[u8]) -> Result<TurnEvent, EventParseError> {
        #[derive(Deserialize)]
        struct Envelope {
            #[serde(rename = "type")]
            kind: String,
        }
        let not_json = |error| EventParseError::NotJson(error);
        // A raw value is not looked into, so it may have any depth.
        let text: &RawValue = serde_json::from_slice(text).map_err(not_json)?;
        let envelope: Envelope = serde_json::from_str(text.get()).map_err(EventParseError::NotAnEvent)?;
        TurnEvent::of(&envelope.kind, text.get())
    }
}

fn read<'t, T: Deserialize<'t>>(text: &'t str) -> Result<T, EventParseError> {
    serde_json::from_str(text).map_err(EventParseError::BadMember)
}

impl ErrorInput {
    /// The error; `None` if its name is not known.
    pub(super) fn error(&self) -> Option<AnswerError> {
        let ErrorDataInput { message, response_body, .. } = self.data.clone();
        let object = |strings: &Option<BTreeMap<String, String>>| {
            strings.as_ref().map(|strings| serde_json::json!(strings).into())
        };
        Some(match self.name.as_str() {
            "APIError" => AnswerError::Api {
                message,
                status: self.data.status_code,
                is_retryable: self.data.is_retryable,
                response_headers: object(&self.data.response_headers),
                response_body,
                metadata: object(&self.data.metadata),
            },
            "ProviderAuthError" => AnswerError::Auth { provider: self.data.provider_id.clone(), message },
            "MessageOutputLengthError" => AnswerError::OutputLength,
            "ContextOverflowError" => AnswerError::ContextOverflow { message, response_body },
            "ContentFilterError" => AnswerError::ContentFilter { message },
            "StructuredOutputError" => AnswerError::StructuredOutput { message, retries: self.data.retries },
            "MessageAbortedError" => AnswerError::Aborted,
            "UnknownError" => AnswerError::Other { message },
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        TurnEvent::parse(text.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn what_a_tool_was_given_is_kept_as_it_is() {
        let input = r#"{"n": 1e400, "s": "\ud83d", "a": {"b":-0}}"#;
        let line = format!(r#"{{"type":"tool-run","call":"c","input":{input}}}"#);
        let Ok(TurnEvent::RunCall(run)) = TurnEvent::parse(line.as_bytes()) else { panic!("{line}") };
        assert_eq!(run.input.get(), input);
        assert_eq!(run.session, None);
        let deep = "[".repeat(100_000) + &"]".repeat(100_000);
        let line = format!(r#"{{"call":"c","type":"tool-run","input":{deep}}}"#);
        assert!(TurnEvent::parse(line.as_bytes()).is_ok());
    }

    #[test]
    fn what_is_no_event_is_refused_with_the_reason() {
        for (text, reason) in [
            ("", "it is not JSON: EOF while parsing"),
            (r#"{"type":"flush""#, "it is not JSON: EOF while parsing"),
            ("{\"type\":\"flush\u{1}\"}", "it is not JSON: control character"),
            ("[]", "an event is an object with a `type`: "),
            ("{}", "an event is an object with a `type`: missing field `type`"),
            (r#"{"type":1}"#, "an event is an object with a `type`: invalid type"),
            (r#"{"type":"explode"}"#, "there is no event of type \"explode\""),
            (r#"{"type":"text-delta"}"#, "missing field `delta`"),
            (r#"{"type":"text-delta","delta":1}"#, "it is not a string"),
            (r#"{"type":"flush","now":true}"#, "unknown field `now`"),
            (r#"{"type":"turn-start","parts":[{"type":"song"}]}"#, "unknown variant `song`"),
        ] {
            assert!(refused(text).starts_with(reason), "{text}: {}", refused(text));
        }
        let bytes = TurnEvent::parse(b"{\"type\":\"flush\xff\"}").unwrap_err();
        assert!(matches!(bytes, EventParseError::NotJson(_)), "{bytes}");
    }
}
