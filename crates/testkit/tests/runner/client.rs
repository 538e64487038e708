//! A plain client: one connection per request, everything read by hand.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use annals_testkit::model::{ModelServer, Protocol};
use serde_json::{Value, json};

pub(crate) const PROTOCOLS: [Protocol; 3] =
    [Protocol::ChatCompletions, Protocol::Messages, Protocol::Responses];

/// Long enough for a machine that is busy with other things.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A message in no protocol yet.
#[derive(Clone, Debug)]
pub(crate) enum Message {
    User(String),
    Reply(String),
    Call,
    Result(String),
}

pub(crate) fn user(text: &str) -> Message {
    Message::User(text.to_owned())
}

pub(crate) fn reply(text: &str) -> Message {
    Message::Reply(text.to_owned())
}

pub(crate) fn call() -> Message {
    Message::Call
}

pub(crate) fn result(text: &str) -> Message {
    Message::Result(text.to_owned())
}

pub(crate) fn path(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::ChatCompletions => "/v1/chat/completions",
        Protocol::Messages => "/v1/messages",
        Protocol::Responses => "/v1/responses",
    }
}

pub(crate) fn prompt(protocol: Protocol, messages: &[Message]) -> Value {
    prompt_with(protocol, "You are a helpful assistant.", messages)
}

pub(crate) fn prompt_with(protocol: Protocol, system: &str, messages: &[Message]) -> Value {
    let items = messages.iter().map(|message| item(protocol, message));
    match protocol {
        Protocol::ChatCompletions => {
            let system = json!({"role": "system", "content": system});
            let messages: Vec<Value> = std::iter::once(system).chain(items).collect();
            json!({"model": "m", "stream": true, "messages": messages})
        }
        Protocol::Messages => {
            let system = json!([{"type": "text", "text": system}]);
            json!({"model": "m", "stream": true, "system": system, "messages": items.collect::<Vec<_>>()})
        }
        Protocol::Responses => {
            let system = json!({"role": "developer", "content": system});
            let input: Vec<Value> = std::iter::once(system).chain(items).collect();
            json!({"model": "m", "stream": true, "input": input})
        }
    }
}

fn item(protocol: Protocol, message: &Message) -> Value {
    match (protocol, message) {
        (Protocol::Responses, Message::User(text)) => {
            json!({"role": "user", "content": [{"type": "input_text", "text": text}]})
        }
        (_, Message::User(text)) => json!({"role": "user", "content": [{"type": "text", "text": text}]}),
        (_, Message::Reply(text)) => json!({"role": "assistant", "content": text}),
        (Protocol::ChatCompletions, Message::Call) => {
            json!({"role": "assistant", "tool_calls": [{"id": "c"}]})
        }
        (Protocol::ChatCompletions, Message::Result(text)) => json!({"role": "tool", "content": text}),
        (Protocol::Messages, Message::Call) => {
            json!({"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "read", "input": {}}]})
        }
        (Protocol::Messages, Message::Result(text)) => {
            let content = json!([{"type": "text", "text": text}]);
            json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": content}]})
        }
        (Protocol::Responses, Message::Call) => json!({"type": "function_call", "call_id": "c"}),
        (Protocol::Responses, Message::Result(text)) => {
            json!({"type": "function_call_output", "call_id": "c", "output": text})
        }
    }
}

/// Sends a prompt and reads the whole reply.
pub(crate) fn send(server: &ModelServer, protocol: Protocol, body: &Value) -> Exchange {
    Exchange::read_after(Vec::new(), &mut open(server, protocol, body))
}

/// Sends a prompt and leaves the reply to be read.
pub(crate) fn open(server: &ModelServer, protocol: Protocol, body: &Value) -> TcpStream {
    connect(server, &format!("POST {} HTTP/1.1\r\n", path(protocol)), body.to_string().as_bytes())
}

/// Sends any request: its first line, and further headers if need be.
pub(crate) fn request(server: &ModelServer, head: &str, body: &[u8]) -> Exchange {
    Exchange::read_after(Vec::new(), &mut connect(server, head, body))
}

fn connect(server: &ModelServer, head: &str, body: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let head = format!("{head}connection: close\r\ncontent-length: {}\r\n\r\n", body.len());
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body).unwrap();
    stream
}

#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) raw: Vec<u8>,
    pub(crate) status: u16,
    head: String,
    /// Decoded, should it have come in chunks.
    pub(crate) body: Vec<u8>,
    /// Whether the body came to its end.
    pub(crate) complete: bool,
    pub(crate) frames: Vec<Frame>,
}

#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) name: Option<String>,
    pub(crate) data: String,
}

impl Frame {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.data).unwrap_or(Value::Null)
    }
}

/// What a client makes of a reply.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    pub(crate) reasoning: String,
    pub(crate) text: String,
    /// Id, name and argument text.
    pub(crate) calls: Vec<(String, String, String)>,
}

impl Exchange {
    /// Reads a response to its end, the first bytes of which have been read already.
    pub(crate) fn read_after(mut raw: Vec<u8>, stream: &mut TcpStream) -> Exchange {
        if let Err(error) = stream.read_to_end(&mut raw) {
            // A connection that was cut may end like this; what came before it counts.
            assert_eq!(error.kind(), io::ErrorKind::ConnectionReset, "{error}");
        }
        let end = raw.windows(4).position(|bytes| bytes == b"\r\n\r\n").map_or(raw.len(), |at| at + 4);
        let head = String::from_utf8(raw[..end].to_vec()).unwrap();
        let status = head.split(' ').nth(1).map_or(0, |status| status.parse().unwrap());
        let rest = &raw[end..];
        let (body, complete) =
            if head.contains("chunked") { unchunk(rest) } else { (rest.to_vec(), !head.is_empty()) };
        let frames = if head.contains("event-stream") { frames(&body) } else { Vec::new() };
        Exchange { raw, status, head, body, complete, frames }
    }

    pub(crate) fn head_value(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    pub(crate) fn body_json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// The text in the pieces in which it came.
    pub(crate) fn text_deltas(&self, protocol: Protocol) -> Vec<String> {
        let texts = self.frames.iter().filter_map(|frame| {
            let data = frame.json();
            let text = match protocol {
                Protocol::ChatCompletions => &data["choices"][0]["delta"]["content"],
                Protocol::Messages => &data["delta"]["text"],
                Protocol::Responses if data["type"] == "response.output_text.delta" => &data["delta"],
                Protocol::Responses => &Value::Null,
            };
            text.as_str().map(str::to_owned)
        });
        texts.filter(|text| !text.is_empty()).collect()
    }

    pub(crate) fn heard(&self, protocol: Protocol) -> Heard {
        let mut heard = Heard { text: self.text_deltas(protocol).concat(), ..Heard::default() };
        let string = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        for data in self.frames.iter().map(Frame::json) {
            match protocol {
                Protocol::ChatCompletions => {
                    let delta = &data["choices"][0]["delta"];
                    heard.reasoning += &string(&delta["reasoning_content"]);
                    let call = &delta["tool_calls"][0];
                    if call["id"].is_string() {
                        heard.calls.push((
                            string(&call["id"]),
                            string(&call["function"]["name"]),
                            String::new(),
                        ));
                    }
                    if let Some(index) = call["index"].as_u64() {
                        heard.calls[index as usize].2 += &string(&call["function"]["arguments"]);
                    }
                }
                Protocol::Messages => {
                    heard.reasoning += &string(&data["delta"]["thinking"]);
                    let block = &data["content_block"];
                    if block["type"] == "tool_use" {
                        heard.calls.push((string(&block["id"]), string(&block["name"]), String::new()));
                    }
                    if let Some(piece) = data["delta"]["partial_json"].as_str() {
                        heard.calls.last_mut().unwrap().2 += piece;
                    }
                }
                Protocol::Responses => match data["type"].as_str() {
                    Some("response.reasoning_summary_text.delta") => {
                        heard.reasoning += &string(&data["delta"]);
                    }
                    Some("response.function_call_arguments.delta") => {
                        heard.calls.last_mut().unwrap().2 += &string(&data["delta"]);
                    }
                    Some("response.output_item.added") if data["item"]["type"] == "function_call" => {
                        let item = &data["item"];
                        heard.calls.push((string(&item["call_id"]), string(&item["name"]), String::new()));
                    }
                    _ => {}
                },
            }
        }
        heard
    }
}

fn unchunk(mut rest: &[u8]) -> (Vec<u8>, bool) {
    let mut body = Vec::new();
    while let Some(end) = rest.windows(2).position(|bytes| bytes == b"\r\n") {
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..end]).unwrap(), 16).unwrap();
        if size == 0 {
            return (body, true);
        }
        let data = &rest[end + 2..];
        body.extend_from_slice(&data[..size.min(data.len())]);
        rest = data.get(size + 2..).unwrap_or_default();
    }
    (body, false)
}

fn frames(body: &[u8]) -> Vec<Frame> {
    let text = std::str::from_utf8(body).unwrap();
    let frame = |block: &str| {
        let field =
            |prefix: &str| block.lines().find_map(|line| line.strip_prefix(prefix)).map(str::to_owned);
        Frame { name: field("event: "), data: field("data: ").unwrap() }
    };
    text.split_terminator("\n\n").map(frame).collect()
}
