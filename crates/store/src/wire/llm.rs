//! What fills a model's context.

use annals_core::llm::Request;
use annals_core::llm::context::{KindSize, MessageSize};
use serde::Serialize;

use crate::home::SessionRecord;
use crate::wire::usage::Tokens;

/// What fills the context of a request. Estimates are OpenCode's: a quarter of the length of the messages' JSON, without system
/// prompt and tools.
#[derive(Debug, Clone, Serialize)]
pub struct LlmContext {
    /// Id of the session.
    pub session: String,
    /// The release of OpenCode whose rules made the request.
    pub like: String,
    /// The model that the request is for, as `provider/model`.
    pub model: String,
    /// The SDK through which the model is asked.
    pub sdk: &'static str,
    /// Estimated tokens of all messages.
    pub estimated: usize,
    /// Tokens that the agent recorded for the request, or for the last one that it contains the answer to; `null` if it recorded
    /// none.
    pub recorded: Option<RecordedRequest>,
    /// Sizes of the kinds of content.
    pub kinds: Vec<ContentSize>,
    /// The stored messages that make up the request, in the order in which the model gets them.
    pub messages: Vec<ContextMessage>,
}

/// Tokens that the agent recorded for a request. System prompt and tools are included.
#[derive(Debug, Clone, Serialize)]
pub struct RecordedRequest {
    /// Id of the message that answered the request.
    pub answer: String,
    /// The tokens.
    pub tokens: Tokens,
}

/// Size of one kind of content.
#[derive(Debug, Clone, Serialize)]
pub struct ContentSize {
    /// `prompt`, `answer`, `reasoning`, `call`, `result` or `file`.
    pub kind: &'static str,
    /// Number of parts.
    pub parts: usize,
    /// Estimated tokens.
    pub estimated: usize,
}

/// Size of a message in a context.
#[derive(Debug, Clone, Serialize)]
pub struct ContextMessage {
    /// Id of the message.
    pub id: String,
    /// `user` or `assistant`.
    pub role: &'static str,
    /// Estimated tokens.
    pub estimated: usize,
    /// Sizes of the kinds of content in it.
    pub kinds: Vec<ContentSize>,
    /// Tokens that the agent recorded for the request that this message answered; `null` for prompts.
    pub recorded: Option<Tokens>,
}

impl LlmContext {
    /// What fills the context of a request of a session.
    pub fn of(session: &SessionRecord, request: &Request) -> LlmContext {
        let context = request.context();
        let target = request.target();
        LlmContext {
            session: session.id.to_string(),
            like: request.rules().to_string(),
            model: format!("{}/{}", target.provider, target.model),
            sdk: target.sdk.name(),
            estimated: context.estimated,
            recorded: context
                .recorded
                .map(|recorded| RecordedRequest { answer: recorded.answer, tokens: recorded.usage.into() }),
            kinds: context.kinds.iter().map(ContentSize::of).collect(),
            messages: context.messages.into_iter().map(ContextMessage::of).collect(),
        }
    }
}

impl ContentSize {
    fn of(size: &KindSize) -> ContentSize {
        ContentSize { kind: size.kind.name(), parts: size.parts, estimated: size.estimated() }
    }
}

impl ContextMessage {
    fn of(size: MessageSize) -> ContextMessage {
        ContextMessage {
            id: size.id,
            role: size.role.name(),
            estimated: size.estimated,
            kinds: size.kinds.iter().map(ContentSize::of).collect(),
            recorded: size.recorded.map(Tokens::from),
        }
    }
}
