//! `POST /v1/chat/completions`, as OpenAI and the many compatible servers stream it.

use serde_json::{Value, json};

use super::{Reply, StreamStep, frame};

pub(super) fn script(reply: &Reply<'_>) -> Vec<StreamStep> {
    let turn = reply.turn;
    let chunk = |delta: Value, finish: Option<&str>| {
        frame(&envelope(reply, &json!([{"index": 0, "delta": delta, "finish_reason": finish}])))
    };
    let delta = |delta: Value| StreamStep::Delta(chunk(delta, None));
    let done = || StreamStep::Event("data: [DONE]\n\n".to_owned());

    let mut steps = vec![StreamStep::Event(chunk(json!({"role": "assistant", "content": ""}), None))];
    steps.extend(reply.pieces(&turn.reasoning).map(|piece| delta(json!({"reasoning_content": piece}))));
    steps.extend(reply.pieces(&turn.text).map(|piece| delta(json!({"content": piece}))));
    if let Some(error) = &turn.stream_error {
        steps.extend([StreamStep::Event(frame(&json!({"error": error}))), done()]);
        return steps;
    }
    steps.push(StreamStep::BeforeTools);
    for (index, call) in turn.tool_calls.iter().enumerate() {
        let id = call.id.clone().unwrap_or_else(|| reply.call_id("call_", index));
        let function = json!({"name": call.name, "arguments": ""});
        let opening = json!({"index": index, "id": id, "type": "function", "function": function});
        steps.push(delta(json!({"tool_calls": [opening]})));
        steps.extend(
            reply.pieces(&call.arguments()).map(|piece| {
                delta(json!({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}))
            }),
        );
    }
    steps.push(StreamStep::Closing);
    steps.push(StreamStep::Event(chunk(json!({}), Some(reply.finish()))));
    if !turn.no_usage {
        steps.push(StreamStep::Event(frame(&usage(reply))));
    }
    steps.push(done());
    steps
}

fn envelope(reply: &Reply<'_>, choices: &Value) -> Value {
    json!({
        "id": reply.id("chatcmpl-", 24),
        "object": "chat.completion.chunk",
        "created": reply.created(),
        "model": reply.model,
        "choices": choices,
    })
}

fn usage(reply: &Reply<'_>) -> Value {
    let tokens = reply.tokens;
    let mut last = envelope(reply, &json!([]));
    last["usage"] = json!({
        "prompt_tokens": tokens.input,
        "completion_tokens": tokens.output,
        "total_tokens": tokens.input + tokens.output,
        "prompt_tokens_details": {"cached_tokens": tokens.cached},
        "completion_tokens_details": {"reasoning_tokens": tokens.reasoning},
    });
    last
}
