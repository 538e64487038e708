//! `POST /v1/responses`, as OpenAI streams it: numbered events on the items of an output list.

use serde_json::{Value, json};

use super::{Reply, StreamStep, named_frame};

pub(super) fn script(reply: &Reply<'_>) -> Vec<StreamStep> {
    let turn = reply.turn;
    let mut output = Output { steps: Vec::new(), items: Vec::new(), sequence: 0 };
    output.event(json!({"type": "response.created", "response": response(reply)}));
    if !turn.reasoning.is_empty() {
        output.reasoning(reply);
    }
    if !turn.text.is_empty() {
        output.text(reply);
    }
    if let Some(error) = &turn.stream_error {
        let mut failure = Value::Object(error.clone());
        failure["type"] = json!("error");
        output.event(failure);
        return output.steps;
    }
    output.steps.push(StreamStep::BeforeTools);
    for index in 0..turn.tool_calls.len() {
        output.call(reply, index);
    }
    output.steps.push(StreamStep::Closing);
    let (kind, status, details) = match reply.finish() {
        "length" => ("response.incomplete", "incomplete", json!({"reason": "max_output_tokens"})),
        _ => ("response.completed", "completed", Value::Null),
    };
    let mut response = response(reply);
    response["status"] = json!(status);
    response["output"] = Value::Array(std::mem::take(&mut output.items));
    response["incomplete_details"] = details;
    response["usage"] = usage(reply);
    output.event(json!({"type": kind, "response": response}));
    output.steps
}

struct Output {
    steps: Vec<StreamStep>,
    /// Finished items, as the last event lists them.
    items: Vec<Value>,
    sequence: usize,
}

impl Output {
    fn reasoning(&mut self, reply: &Reply<'_>) {
        let text = &reply.turn.reasoning;
        let id = reply.id("rs_", 40);
        let item = json!({"id": id, "type": "reasoning", "summary": [], "encrypted_content": null});
        let at = json!({"item_id": id, "output_index": self.items.len(), "summary_index": 0});
        self.add(&item);
        let part = |text: &str| json!({"type": "summary_text", "text": text});
        self.event(located("response.reasoning_summary_part.added", &at, "part", part("")));
        for piece in reply.pieces(text) {
            let kind = "response.reasoning_summary_text.delta";
            self.delta(located(kind, &at, "delta", json!(piece)));
        }
        self.event(located("response.reasoning_summary_part.done", &at, "part", part(text)));
        let mut done = item;
        done["summary"] = json!([part(text)]);
        done["encrypted_content"] = json!(format!("gAAAA{}", reply.signature()));
        self.finish(done);
    }

    fn text(&mut self, reply: &Reply<'_>) {
        let text = &reply.turn.text;
        let id = reply.id("msg_", 40);
        let item =
            json!({"id": id, "type": "message", "role": "assistant", "status": "in_progress", "content": []});
        let at = json!({"item_id": id, "output_index": self.items.len(), "content_index": 0});
        self.add(&item);
        let part = |text: &str| json!({"type": "output_text", "text": text, "annotations": []});
        self.event(located("response.content_part.added", &at, "part", part("")));
        for piece in reply.pieces(text) {
            self.delta(located("response.output_text.delta", &at, "delta", json!(piece)));
        }
        self.event(located("response.output_text.done", &at, "text", json!(text)));
        let mut done = item;
        done["status"] = json!("completed");
        done["content"] = json!([part(text)]);
        self.finish(done);
    }

    fn call(&mut self, reply: &Reply<'_>, index: usize) {
        let call = &reply.turn.tool_calls[index];
        let arguments = call.arguments();
        let id = reply.call_id("fc_", index);
        let item = json!({
            "id": id,
            "type": "function_call",
            "status": "in_progress",
            "call_id": call.id.clone().unwrap_or_else(|| reply.call_id("call_", index)),
            "name": call.name,
            "arguments": "",
        });
        let at = json!({"item_id": id, "output_index": self.items.len()});
        self.add(&item);
        for piece in reply.pieces(&arguments) {
            self.delta(located("response.function_call_arguments.delta", &at, "delta", json!(piece)));
        }
        let kind = "response.function_call_arguments.done";
        self.event(located(kind, &at, "arguments", json!(arguments)));
        let mut done = item;
        done["status"] = json!("completed");
        done["arguments"] = json!(arguments);
        self.finish(done);
    }

    fn add(&mut self, item: &Value) {
        let index = self.items.len();
        self.event(json!({"type": "response.output_item.added", "output_index": index, "item": item}));
    }

    fn finish(&mut self, item: Value) {
        let index = self.items.len();
        self.event(json!({"type": "response.output_item.done", "output_index": index, "item": item}));
        self.items.push(item);
    }

    fn event(&mut self, data: Value) {
        let frame = self.numbered(data);
        self.steps.push(StreamStep::Event(frame));
    }

    fn delta(&mut self, data: Value) {
        let frame = self.numbered(data);
        self.steps.push(StreamStep::Delta(frame));
    }

    fn numbered(&mut self, mut data: Value) -> String {
        data["sequence_number"] = json!(self.sequence);
        self.sequence += 1;
        named_frame(&data)
    }
}

/// An event of one item: its type, the item's place, and one field of its own.
fn located(kind: &str, at: &Value, field: &str, value: Value) -> Value {
    let mut data = json!({"type": kind});
    for (name, place) in at.as_object().into_iter().flatten() {
        data[name] = place.clone();
    }
    data[field] = value;
    data
}

fn response(reply: &Reply<'_>) -> Value {
    json!({
        "id": reply.id("resp_", 48),
        "object": "response",
        "created_at": reply.created(),
        "status": "in_progress",
        "model": reply.model,
        "output": [],
        "error": null,
        "incomplete_details": null,
        "service_tier": "default",
    })
}

fn usage(reply: &Reply<'_>) -> Value {
    let tokens = reply.tokens;
    json!({
        "input_tokens": tokens.input,
        "input_tokens_details": {"cached_tokens": tokens.cached},
        "output_tokens": tokens.output,
        "output_tokens_details": {"reasoning_tokens": tokens.reasoning},
        "total_tokens": tokens.input + tokens.output,
    })
}
