//! A turn on the wire: a script of server-sent events, the same for the same request.
//!
//! One module per protocol writes the script; the stream plays it and decides where it stops.

mod chat_completions;
mod messages;
mod responses;

use serde_json::Value;

use super::playbook::Turn;
use super::request::{ExchangeTokens, Protocol};

/// What to do next on a stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum StreamStep {
    /// Send this frame.
    Event(String),
    /// Send this frame, which carries a piece of the reply and counts as a delta.
    Delta(String),
    /// The first tool call comes next.
    BeforeTools,
    /// The reply is complete; the following frames end it.
    Closing,
}

/// Everything a reply depends on.
#[derive(Debug)]
pub(super) struct Reply<'a> {
    /// With all texts substituted.
    pub(super) turn: &'a Turn,
    pub(super) tokens: ExchangeTokens,
    /// The model the client asked for.
    pub(super) model: &'a Value,
    /// Tells replies to different requests apart; all ids derive from it.
    pub(super) seed: String,
}

impl Reply<'_> {
    pub(super) fn script(&self, protocol: Protocol) -> Vec<StreamStep> {
        match protocol {
            Protocol::ChatCompletions => chat_completions::script(self),
            Protocol::Messages => messages::script(self),
            Protocol::Responses => responses::script(self),
        }
    }

    /// The turn's finish reason in the words of chat completions.
    fn finish(&self) -> &str {
        let usual = if self.turn.tool_calls.is_empty() { "stop" } else { "tool_calls" };
        self.turn.finish.as_deref().unwrap_or(usual)
    }

    fn pieces<'t>(&self, text: &'t str) -> impl Iterator<Item = &'t str> + use<'t> {
        pieces(text, self.turn.chunk.max(1))
    }

    /// An id that starts with `prefix` and goes on with `length` digits.
    fn id(&self, prefix: &str, length: usize) -> String {
        format!("{prefix}{}", &digest(&self.seed)[..length])
    }

    fn call_id(&self, prefix: &str, index: usize) -> String {
        format!("{prefix}{}", &digest(&format!("{}/{index}", self.seed))[..22])
    }

    /// Opaque bytes as providers send them along with reasoning.
    fn signature(&self) -> String {
        digest(&format!("{}/signature", self.seed))
    }

    /// A creation time in seconds, since the real one would differ from run to run.
    fn created(&self) -> u64 {
        let hash = blake3::hash(self.seed.as_bytes());
        let offset = hash.as_bytes().iter().take(3).fold(0, |sum, byte| sum * 256 + u64::from(*byte));
        1_700_000_000 + offset
    }
}

/// Token counts: those that the turn fixes, and for the rest about one token per four characters.
pub(super) fn count_tokens(turn: &Turn, body: &Value) -> ExchangeTokens {
    let size = |value: &Value| value.to_string().chars().count() as u64;
    let texts = if body["messages"].is_array() { &body["messages"] } else { &body["input"] };
    let input = (size(texts) + size(&body["tools"]) + size(&body["system"])) / 4;
    let reasoning = turn.reasoning.chars().count() as u64 / 4;
    let text = turn.text.chars().count() as u64 / 4;
    let calls = turn.tool_calls.iter().map(|call| 8 + call.arguments().chars().count() as u64 / 4);
    let output = reasoning + text + calls.sum::<u64>();
    let given = turn.usage;
    let input = given.input.unwrap_or(input);
    ExchangeTokens {
        input,
        output: given.output.unwrap_or(output.max(1)),
        reasoning: given.reasoning.unwrap_or(reasoning),
        // Providers cache whole blocks of the beginning of a request.
        cached: given.cached.unwrap_or(input * 3 / 5 / 128 * 128),
        cache_write: given.cache_write.unwrap_or(0),
    }
}

pub(super) fn digest(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex().to_string()
}

fn pieces(text: &str, size: usize) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let end = rest.char_indices().nth(size).map_or(rest.len(), |(index, _)| index);
        let (piece, tail) = rest.split_at(end);
        rest = tail;
        (!piece.is_empty()).then_some(piece)
    })
}

/// A frame without a name, as chat completions use them.
fn frame(data: &Value) -> String {
    format!("data: {data}\n\n")
}

/// A frame named after the type of its data, as the other two protocols use them.
fn named_frame(data: &Value) -> String {
    let name = data["type"].as_str().unwrap_or_default();
    format!("event: {name}\ndata: {data}\n\n")
}
