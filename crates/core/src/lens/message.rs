//! Message documents: what the user asked, what the model answered.

use super::{FileDiff, Json, Lens, lens};
use crate::id::Millis;
use crate::json::{JsWriter, Node, Text, ToJs};

/// A message of either role.
#[derive(Debug, Clone, PartialEq)]
pub enum Message<'a> {
    /// A prompt.
    User(Box<UserMessage<'a>>),
    /// One model call; several answer one prompt.
    Assistant(Box<AssistantMessage<'a>>),
    /// A role not known here, with the fields that assistants have.
    Other(Box<AssistantMessage<'a>>),
}

impl<'a> Message<'a> {
    /// The time the message was made.
    pub fn created(&self) -> Option<Millis> {
        match self {
            Message::User(user) => user.time.as_ref()?.created,
            Message::Assistant(other) | Message::Other(other) => other.time.as_ref()?.created,
        }
    }

    /// [`Message::created`] of a document, without building the whole lens.
    pub fn created_in(root: Node<'_>) -> Option<Millis> {
        root.get("time")?.get("created").and_then(Millis::look)
    }

    /// The agent that a prompt is for or an answer is from. Before 1.0.154 answers had only `mode`.
    pub fn agent(&self) -> Option<&Text<'a>> {
        match self {
            Message::User(user) => user.agent.as_ref(),
            Message::Assistant(other) | Message::Other(other) => other.agent.as_ref().or(other.mode.as_ref()),
        }
    }
}

impl Default for Message<'_> {
    fn default() -> Self {
        Message::Other(Box::default())
    }
}

impl ToJs for Message<'_> {
    fn write_js(&self, writer: &mut JsWriter) {
        match self {
            Message::User(user) => user.write_js(writer),
            Message::Assistant(other) | Message::Other(other) => other.write_js(writer),
        }
    }
}

impl<'a> Lens<'a> for Message<'a> {
    fn look(node: Node<'a>) -> Option<Self> {
        match node.get("role").and_then(Node::as_text) {
            Some(role) if role == "user" => Some(Message::User(Box::new(UserMessage::look(node)?))),
            Some(role) if role == "assistant" => {
                Some(Message::Assistant(Box::new(AssistantMessage::look(node)?.with_model_of(node))))
            }
            _ => Some(Message::Other(Box::new(AssistantMessage::look(node)?))),
        }
    }
}

lens! {
    /// A prompt. Its text is in its parts.
    pub struct UserMessage<'a> {
        /// Its id.
        id "id": Text<'a>,
        /// Its session.
        session_id "sessionID": Text<'a>, ["role" = "user"]
        /// When it was made.
        time "time": MessageTime,
        /// Requested form of the answer, since 1.1.60.
        format "format": OutputFormat<'a>,
        /// What the turn changed, added later.
        summary "summary": MessageSummary<'a>,
        /// Agent to answer, since 1.0.69.
        agent "agent": Text<'a>,
        /// Model to answer, since 1.0.69.
        model "model": ModelRef<'a>,
        /// Extra system prompt.
        system "system": Text<'a>,
        /// Tools switched on and off.
        tools "tools": Json<'a>,
        /// Model variant, since 1.0.210.
        variant "variant": Text<'a>,
    }
}

lens! {
    /// One model call and what it gave.
    pub struct AssistantMessage<'a> {
        /// Its id.
        id "id": Text<'a>,
        /// Its session.
        session_id "sessionID": Text<'a>, ["role" = "assistant"]
        /// When it began and ended.
        time "time": MessageTime,
        /// Why it failed.
        error "error": MessageError<'a>,
        /// The system prompt sent, in files of 0.2.0 to 1.0.35.
        system "system": Vec<Text<'a>>,
        /// The prompt it answers, since 0.15.14.
        parent_id "parentID": Text<'a>,
        /// Model.
        model_id "modelID": Text<'a>,
        /// Provider of the model.
        provider_id "providerID": Text<'a>,
        /// Agent, under its old name.
        mode "mode": Text<'a>,
        /// Agent, since 1.0.154.
        agent "agent": Text<'a>,
        /// Where it ran.
        path "path": MessagePath<'a>,
        /// Whether it is the summary of a compaction.
        summary "summary": bool,
        /// US dollars.
        cost "cost": f64,
        /// Tokens of the call.
        tokens "tokens": Tokens,
        /// Structured output, since 1.1.60.
        structured "structured": Json<'a>,
        /// Model variant, since 1.1.54.
        variant "variant": Text<'a>,
        /// Why the model stopped, since 1.0.69.
        finish "finish": Text<'a>,
    }
}

lens! {
    /// Times of a message.
    pub struct MessageTime {
        /// Made.
        created "created": Millis,
        /// Ended, in whatever way; only assistants.
        completed "completed": Millis,
    }
}

lens! {
    /// Requested form of an answer.
    pub struct OutputFormat<'a> {
        /// `text` or `json_schema`.
        kind "type": Text<'a>,
        /// The schema.
        schema "schema": Json<'a>,
        /// Tries allowed.
        retry_count "retryCount": f64,
    }
}

lens! {
    /// What a turn changed.
    pub struct MessageSummary<'a> {
        /// Short title.
        title "title": Text<'a>,
        /// Two sentences, in files of 0.15.17 to 1.1.14.
        body "body": Text<'a>,
        /// Files changed.
        diffs "diffs": Vec<FileDiff<'a>>,
    }
}

lens! {
    /// A model of a provider.
    pub struct ModelRef<'a> {
        /// Provider.
        provider_id "providerID": Text<'a>,
        /// Model.
        model_id "modelID": Text<'a>,
        /// Variant, since 1.4.0.
        variant "variant": Text<'a>,
    }
}

lens! {
    /// Where a model call ran.
    pub struct MessagePath<'a> {
        /// Working directory.
        cwd "cwd": Text<'a>,
        /// Root of the working tree.
        root "root": Text<'a>,
    }
}

lens! {
    /// Token counts.
    pub struct Tokens {
        /// All of them, since 1.1.57.
        total "total": f64,
        /// Sent and not cached.
        input "input": f64,
        /// Received.
        output "output": f64,
        /// Spent on reasoning.
        reasoning "reasoning": f64,
        /// Cached.
        cache "cache": CacheTokens,
    }
}

lens! {
    /// Token counts of the provider's cache.
    pub struct CacheTokens {
        /// Read from it.
        read "read": f64,
        /// Written to it.
        write "write": f64,
    }
}

lens! {
    /// Why a model call failed.
    pub struct MessageError<'a> {
        /// `APIError`, `MessageAbortedError`, …
        name "name": Text<'a>,
        /// Particulars.
        data "data": ErrorData<'a>,
    }
}

lens! {
    /// Particulars of a failure; which are there depends on its name.
    pub struct ErrorData<'a> {
        /// Provider, of `ProviderAuthError`.
        provider_id "providerID": Text<'a>,
        /// Text for people.
        message "message": Text<'a>,
        /// HTTP status, of `APIError`.
        status_code "statusCode": f64,
        /// Whether trying again may help.
        is_retryable "isRetryable": bool,
        /// Headers of the response.
        response_headers "responseHeaders": Json<'a>,
        /// Body of the response.
        response_body "responseBody": Text<'a>,
        /// Address, error code and the like.
        metadata "metadata": Json<'a>,
        /// Tries made, of `StructuredOutputError`.
        retries "retries": f64,
    }
}
