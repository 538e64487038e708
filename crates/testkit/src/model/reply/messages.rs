//! `POST /v1/messages`, as Anthropic streams it: content blocks that open, grow and close.

use serde_json::{Value, json};

use super::{Reply, StreamStep, named_frame};

pub(super) fn script(reply: &Reply<'_>) -> Vec<StreamStep> {
    let turn = reply.turn;
    let mut blocks = Blocks { steps: vec![event(&message_start(reply))], index: 0 };
    if !turn.reasoning.is_empty() {
        blocks.open(&json!({"type": "thinking", "thinking": "", "signature": ""}));
        for piece in reply.pieces(&turn.reasoning) {
            blocks.delta(&json!({"type": "thinking_delta", "thinking": piece}));
        }
        blocks.end(&json!({"type": "signature_delta", "signature": reply.signature()}));
        blocks.close();
    }
    if !turn.text.is_empty() {
        blocks.open(&json!({"type": "text", "text": ""}));
        for piece in reply.pieces(&turn.text) {
            blocks.delta(&json!({"type": "text_delta", "text": piece}));
        }
        blocks.close();
    }
    if let Some(error) = &turn.stream_error {
        blocks.steps.push(event(&json!({"type": "error", "error": error})));
        return blocks.steps;
    }
    blocks.steps.push(StreamStep::BeforeTools);
    for (index, call) in turn.tool_calls.iter().enumerate() {
        let id = call.id.clone().unwrap_or_else(|| reply.call_id("toolu_01", index));
        blocks.open(&json!({"type": "tool_use", "id": id, "name": call.name, "input": {}}));
        for piece in reply.pieces(&call.arguments()) {
            blocks.delta(&json!({"type": "input_json_delta", "partial_json": piece}));
        }
        blocks.close();
    }
    let mut steps = blocks.steps;
    steps.push(StreamStep::Closing);
    steps.push(event(&json!({
        "type": "message_delta",
        "delta": {"stop_reason": stop_reason(reply.finish()), "stop_sequence": null},
        "usage": {"output_tokens": reply.tokens.output},
    })));
    steps.push(event(&json!({"type": "message_stop"})));
    steps
}

struct Blocks {
    steps: Vec<StreamStep>,
    index: usize,
}

impl Blocks {
    fn open(&mut self, block: &Value) {
        let start = json!({"type": "content_block_start", "index": self.index, "content_block": block});
        self.steps.push(event(&start));
    }

    fn delta(&mut self, delta: &Value) {
        self.steps.push(StreamStep::Delta(named_frame(&self.growth(delta))));
    }

    /// Grows the block by something that is not part of the reply's text.
    fn end(&mut self, delta: &Value) {
        self.steps.push(event(&self.growth(delta)));
    }

    fn growth(&self, delta: &Value) -> Value {
        json!({"type": "content_block_delta", "index": self.index, "delta": delta})
    }

    fn close(&mut self) {
        self.steps.push(event(&json!({"type": "content_block_stop", "index": self.index})));
        self.index += 1;
    }
}

fn event(data: &Value) -> StreamStep {
    StreamStep::Event(named_frame(data))
}

fn message_start(reply: &Reply<'_>) -> Value {
    let tokens = reply.tokens;
    json!({
        "type": "message_start",
        "message": {
            "id": reply.id("msg_01", 22),
            "type": "message",
            "role": "assistant",
            "model": reply.model,
            "content": [],
            "stop_reason": null,
            "stop_sequence": null,
            "usage": {
                "input_tokens": tokens.input.saturating_sub(tokens.cached),
                "cache_read_input_tokens": tokens.cached,
                "cache_creation_input_tokens": tokens.cache_write,
                "output_tokens": 1,
            },
        },
    })
}

fn stop_reason(finish: &str) -> &str {
    match finish {
        "stop" => "end_turn",
        "tool_calls" => "tool_use",
        "length" => "max_tokens",
        "content_filter" => "refusal",
        other => other,
    }
}
