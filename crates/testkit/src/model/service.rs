//! Answers the requests of one connection, one after the other.

use std::io::{self, BufReader};
use std::net::TcpStream;

use serde_json::{Value, json};

use super::desk::Desk;
use super::http::{self, HttpRequest};
use super::playbook::{Failure, Turn};
use super::reply::{self, Reply, StreamStep};
use super::request::{ModelRequest, Protocol, RequestConversation, SessionSource, session_of};
use super::{RequestContext, ServerState, pages, stream};

/// Answers requests until the client, the server or a turn ends the connection.
pub(super) fn serve(desk: &Desk, connection: &TcpStream) -> io::Result<()> {
    // Without this the kernel would hold back small deltas until earlier ones are acknowledged.
    connection.set_nodelay(true)?;
    let mut reader = BufReader::new(connection);
    while let Some(request) = HttpRequest::read(&mut reader)? {
        answer(desk, connection, &request)?;
        if request.wants_close() {
            break;
        }
    }
    Ok(())
}

fn answer(desk: &Desk, connection: &TcpStream, request: &HttpRequest) -> io::Result<()> {
    let send = |status, value: &Value| send_json(connection, &request.method, status, &[], value);
    let body = match request.body.as_slice() {
        b"" => json!({}),
        bytes => match serde_json::from_slice::<Value>(bytes) {
            Ok(body) => body,
            Err(error) => return send(400, &error_body(&format!("the body is not JSON: {error}"))),
        },
    };
    match (request.method.as_str(), request.path.as_str()) {
        ("GET" | "HEAD", "/_ctl/state") => send(200, &state(desk)),
        ("POST", "/_ctl/release") => {
            desk.release();
            send(200, &json!({}))
        }
        ("POST", "/_ctl/context") => match serde_json::from_value::<RequestContext>(body) {
            Ok(context) => {
                desk.ledger().context = context;
                send(200, &json!({}))
            }
            Err(error) => send(400, &error_body(&error.to_string())),
        },
        ("GET" | "HEAD", "/v1/models") => {
            send(200, &json!({"object": "list", "data": [{"id": "scripted", "object": "model"}]}))
        }
        ("POST", "/api/share") => send(200, &new_share(desk)),
        ("POST" | "DELETE", path) if path.starts_with("/api/share") => send(200, &json!({})),
        ("GET" | "HEAD", path) => match path.strip_prefix("/pages/").and_then(pages::page) {
            Some((content_type, bytes)) => send_bytes(connection, request, 200, content_type, &bytes),
            None => send_bytes(connection, request, 404, "text/plain", b"not found\n"),
        },
        ("POST", path) => match Protocol::of_path(path) {
            Some(protocol) => complete(desk, connection, request, protocol, body),
            None => send(404, &error_body("no such endpoint")),
        },
        _ => send(404, &error_body("no such endpoint")),
    }
}

fn complete(
    desk: &Desk,
    connection: &TcpStream,
    request: &HttpRequest,
    protocol: Protocol,
    body: Value,
) -> io::Result<()> {
    let _active = desk.begin();
    let Planned { turn, failure, script } = plan(desk, request, protocol, body);
    let Some(failure) = failure else { return stream::play(desk, connection, &turn, &script) };
    let headers: Vec<(&str, &str)> =
        failure.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    send_json(connection, &request.method, failure.status, &headers, &failure.body)
}

struct Planned {
    turn: Turn,
    /// Sent in place of the script.
    failure: Option<Failure>,
    script: Vec<StreamStep>,
}

/// Chooses the reply and records the request.
fn plan(desk: &Desk, request: &HttpRequest, protocol: Protocol, body: Value) -> Planned {
    let conversation = RequestConversation::read(protocol, &body);
    let kind = conversation.kind();

    // One lock for choosing and recording: the record is in the order in which turns were handed out.
    let mut ledger = desk.ledger();
    let context = ledger.context.clone();
    let session = session_of(&request.headers, &body)
        .or_else(|| context.session.clone().map(|id| (id, SessionSource::Context)));
    let (session, session_source) = session.unzip();
    let choice = ledger.selector.choose(kind, &conversation, session.as_deref());
    let turn = substituted(choice.turn, &conversation, desk.port);
    let tokens = reply::count_tokens(&turn, &body);
    let model = body["model"].clone();
    let failure = turn.error.clone().or_else(|| refuse_unstreamed(&body));
    let number = ledger.requests.len() + 1;
    ledger.requests.push(ModelRequest {
        number,
        kind,
        scenario: choice.scenario.clone(),
        turn: choice.number,
        session,
        session_source,
        parent_session: request.headers.get("x-parent-session-id").map(str::to_owned),
        label: context.label,
        protocol,
        path: request.path.clone(),
        headers: request.headers.0.iter().cloned().collect(),
        body,
        status: failure.as_ref().map_or(200, |failure| failure.status),
        tokens: failure.is_none().then_some(tokens),
    });
    drop(ledger);

    let name = choice.scenario.as_deref().unwrap_or(kind.name());
    let digest = reply::digest(&conversation.text());
    let seed = format!("{}/{name}/{digest}/{}", protocol.name(), choice.number);
    let script = Reply { turn: &turn, tokens, model: &model, seed }.script(protocol);
    Planned { turn, failure, script }
}

/// OpenCode always streams, so nothing else is implemented.
fn refuse_unstreamed(body: &Value) -> Option<Failure> {
    (body["stream"] != true).then(|| Failure {
        status: 501,
        body: error_body("only streaming is implemented"),
        ..Failure::default()
    })
}

fn substituted(mut turn: Turn, conversation: &RequestConversation, port: u16) -> Turn {
    let port = port.to_string();
    let text = conversation.text();
    let last_session = last_session(&text);
    let replace = |text: &str| {
        text.replace("${cwd}", conversation.working_directory())
            .replace("${port}", &port)
            .replace("${last_session}", last_session)
    };
    turn.reasoning = replace(&turn.reasoning);
    turn.text = replace(&turn.text);
    if let Some(repeat) = &turn.repeat_text {
        turn.text.push_str(&repeat.unit.repeat(repeat.count));
    }
    for call in &mut turn.tool_calls {
        call.raw = call.raw.as_deref().map(replace);
        for argument in call.args.values_mut() {
            replace_strings(argument, &replace);
        }
    }
    turn
}

fn replace_strings(value: &mut Value, replace: &impl Fn(&str) -> String) {
    match value {
        Value::String(text) => *text = replace(text),
        Value::Array(items) => items.iter_mut().for_each(|item| replace_strings(item, replace)),
        Value::Object(fields) => fields.values_mut().for_each(|field| replace_strings(field, replace)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The last id of a session in a text: `ses_` and at least twenty letters or digits.
fn last_session(text: &str) -> &str {
    let id_at = |start: usize| {
        let length = text[start + 4..].bytes().take_while(u8::is_ascii_alphanumeric).count();
        (length >= 20).then(|| &text[start..start + 4 + length])
    };
    text.rmatch_indices("ses_").find_map(|(start, _)| id_at(start)).unwrap_or("ses_none")
}

fn state(desk: &Desk) -> Value {
    let ServerState { requests, active, hanging, idle } = desk.ledger().state();
    json!({"requests": requests, "active": active, "hanging": hanging, "idle_ms": idle.as_millis() as u64})
}

fn new_share(desk: &Desk) -> Value {
    let mut ledger = desk.ledger();
    ledger.n_shares += 1;
    let digest = reply::digest(&format!("share/{}", ledger.n_shares));
    let (id, secret) = (&digest[..8], &digest[8..40]);
    json!({"id": id, "url": format!("https://share.example/s/{id}"), "secret": secret})
}

fn error_body(message: &str) -> Value {
    json!({"error": {"message": message}})
}

fn send_json(
    mut connection: &TcpStream,
    method: &str,
    status: u16,
    headers: &[(&str, &str)],
    value: &Value,
) -> io::Result<()> {
    let mut all = vec![("content-type", "application/json")];
    all.extend(headers);
    http::write_response(&mut connection, method, status, &all, value.to_string().as_bytes())
}

fn send_bytes(
    mut connection: &TcpStream,
    request: &HttpRequest,
    status: u16,
    content_type: &str,
    bytes: &[u8],
) -> io::Result<()> {
    let headers = [("content-type", content_type)];
    http::write_response(&mut connection, &request.method, status, &headers, bytes)
}
