//! The scripted model, asked by a client that knows nothing of its code.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::client::{self, Exchange, PATIENCE, PROTOCOLS, path, prompt, request, send, user};
use annals_testkit::model::{
    Failure, ModelServer, Playbook, PlaybookEntry, Protocol, RepeatText, RequestContext, RequestKind,
    SessionSource, ToolCall, Turn, TurnUsage,
};
use serde_json::{Value, json};

fn server(scenario: impl IntoIterator<Item = Turn>) -> ModelServer {
    ModelServer::start(Playbook::builtin().scenario("test", scenario)).unwrap()
}

/// Asks for the first turn of the scenario `test`.
fn ask(server: &ModelServer, protocol: Protocol) -> Exchange {
    send(server, protocol, &prompt(protocol, &[user("Go [[scenario:test]]")]))
}

fn full_turn() -> Turn {
    Turn { reasoning: "Let me think about this for a while.".to_owned(), ..Turn::text("I will look at it.") }
        .and_call("read", json!({"filePath": "/a/b.txt"}))
        .and_call("bash", json!({"command": "ls", "list": [1, {"deep": true}]}))
}

#[test]
fn every_protocol_streams_reasoning_text_and_calls() {
    let server = server([full_turn()]);
    for protocol in PROTOCOLS {
        let exchange = ask(&server, protocol);
        assert!(exchange.complete, "{protocol:?}");
        assert_eq!(exchange.head_value("content-type"), Some("text/event-stream; charset=utf-8"));
        let heard = exchange.heard(protocol);
        assert_eq!(heard.reasoning, "Let me think about this for a while.", "{protocol:?}");
        assert_eq!(heard.text, "I will look at it.", "{protocol:?}");
        let calls: Vec<(&str, Value)> = heard
            .calls
            .iter()
            .map(|(_, name, arguments)| (name.as_str(), serde_json::from_str(arguments).unwrap()))
            .collect();
        let expected = [
            ("read", json!({"filePath": "/a/b.txt"})),
            ("bash", json!({"command": "ls", "list": [1, {"deep": true}]})),
        ];
        assert_eq!(calls, expected, "{protocol:?}");
        assert_ne!(heard.calls[0].0, heard.calls[1].0, "ids differ");
    }
}

#[test]
fn chat_completions_end_with_finish_usage_and_done() {
    let server = server([full_turn()]);
    let frames = ask(&server, Protocol::ChatCompletions).frames;
    assert_eq!(frames[0].json()["choices"][0]["delta"]["role"], "assistant");
    assert!(frames.iter().all(|frame| frame.name.is_none()));
    let [finish, usage, done] = frames.last_chunk().unwrap();
    assert_eq!(finish.json()["choices"][0]["finish_reason"], "tool_calls");
    let usage = &usage.json()["usage"];
    assert!(usage["prompt_tokens"].as_u64().unwrap() > 0);
    assert!(usage["completion_tokens"].as_u64().unwrap() > 16);
    assert_eq!(done.data, "[DONE]");
}

#[test]
fn messages_open_and_close_their_blocks() {
    let server = server([full_turn()]);
    let frames = ask(&server, Protocol::Messages).frames;
    assert!(frames.iter().all(|frame| frame.name.as_deref() == frame.json()["type"].as_str()));
    let opened: Vec<Value> =
        frames.iter().map(|frame| frame.json()["content_block"]["type"].clone()).collect();
    let opened: Vec<&str> = opened.iter().filter_map(Value::as_str).collect();
    assert_eq!(opened, ["thinking", "text", "tool_use", "tool_use"]);
    let closed = frames.iter().filter(|frame| frame.name.as_deref() == Some("content_block_stop"));
    assert_eq!(closed.count(), 4);
    assert_eq!(frames[0].json()["message"]["usage"]["output_tokens"], 1);
    let [delta, stop] = frames.last_chunk().unwrap();
    assert_eq!(delta.json()["delta"]["stop_reason"], "tool_use");
    assert_eq!(stop.json()["type"], "message_stop");
}

#[test]
fn responses_number_their_events_and_repeat_the_output() {
    let server = server([full_turn()]);
    let frames = ask(&server, Protocol::Responses).frames;
    for (number, frame) in frames.iter().enumerate() {
        assert_eq!(frame.json()["sequence_number"], number);
        assert_eq!(frame.name.as_deref(), frame.json()["type"].as_str());
    }
    let last = frames.last().unwrap().json();
    assert_eq!(last["type"], "response.completed");
    let kinds: Vec<&Value> =
        last["response"]["output"].as_array().unwrap().iter().map(|item| &item["type"]).collect();
    assert_eq!(kinds, ["reasoning", "message", "function_call", "function_call"]);
    assert_eq!(last["response"]["output"][1]["content"][0]["text"], "I will look at it.");
    assert!(last["response"]["usage"]["total_tokens"].as_u64().unwrap() > 0);
}

#[test]
fn the_turn_is_the_number_of_replies_since_the_tag() {
    let server = server([
        Turn::text("First.").and_call("read", json!({})),
        Turn::call("read", json!({})),
        Turn::text("Last."),
    ]);
    for protocol in PROTOCOLS {
        let mut conversation =
            vec![user("Earlier"), client::reply("An old answer"), user("[[scenario:test]]")];
        let mut said = Vec::new();
        for _ in 0..4 {
            said.push(send(&server, protocol, &prompt(protocol, &conversation)).heard(protocol).text);
            // Text and call of one reply may come as two items.
            conversation.extend([client::reply("So"), client::call(), client::result("done")]);
        }
        // Beyond the end, the last turn without calls is said again.
        assert_eq!(said, ["First.", "", "Last.", "Last."], "{protocol:?}");
    }
    let turns: Vec<usize> = server.requests().iter().map(|request| request.turn).collect();
    assert_eq!(turns, [0, 1, 2, 3].repeat(3));
}

#[test]
fn prompts_choose_a_scenario_and_a_tag_wins() {
    let playbook = Playbook::builtin()
        .scenario("greeting", [Turn::text("Hello."), Turn::text("Hello again.")])
        .scenario("tagged", [Turn::text("By tag.")])
        .prompt("(?i)good morning", "greeting");
    let server = ModelServer::start(playbook).unwrap();
    let say = |messages: &[client::Message]| {
        let body = prompt(Protocol::ChatCompletions, messages);
        send(&server, Protocol::ChatCompletions, &body).heard(Protocol::ChatCompletions).text
    };
    assert_eq!(say(&[user("\"Good morning\"\n")]), "Hello.");
    assert_eq!(say(&[user("Good morning [[scenario:absent]] [[scenario:tagged, please]]")]), "By tag.");
    // The latest message with a tag or a known prompt decides, others are passed over.
    assert_eq!(say(&[user("[[scenario:tagged]]"), client::reply("By tag."), user("good morning")]), "Hello.");
    assert_eq!(say(&[user("good morning"), client::reply("Hello."), user("Continue")]), "Hello again.");
    let unknown = say(&[user("Something else")]);
    assert_eq!(say(&[user("Unknown [[scenario:absent]]")]), unknown);
    let scenarios: Vec<Option<String>> =
        server.requests().into_iter().map(|request| request.scenario).collect();
    let expected = ["greeting", "tagged", "greeting", "greeting", "", "absent"];
    let expected = expected.map(|name| (!name.is_empty()).then(|| name.to_owned()));
    assert_eq!(scenarios, expected);
}

#[test]
fn housekeeping_requests_are_told_by_their_prompts() {
    let playbook = Playbook::builtin().with(Playbook {
        titles: vec![PlaybookEntry::when("orders", "About orders")],
        compactions: vec![
            "First.".into(),
            "Second.".into(),
            PlaybookEntry::when("special", Turn::text("Special.")),
        ],
        ..Playbook::default()
    });
    let server = ModelServer::start(playbook).unwrap();
    let compact = "You are a helpful AI assistant tasked with summarizing conversations.";
    let continuation = "Provide a detailed prompt for continuing our conversation above.";
    let cases = [
        ("You are a title generator. Be brief.", user("All orders"), RequestKind::Title, "About orders"),
        ("You are a title generator. Be brief.", user("Weather"), RequestKind::Title, "Working session"),
        (compact, user("a"), RequestKind::Compaction, "First."),
        (compact, user("special"), RequestKind::Compaction, "Special."),
        ("Be kind.", user(continuation), RequestKind::Compaction, "Second."),
        (compact, user("b"), RequestKind::Compaction, "First."),
        (
            "Summarize what was done in this conversation.",
            user("a"),
            RequestKind::Summary,
            "Looked at the project",
        ),
        (
            "Be kind.",
            client::reply("CRITICAL - MAXIMUM STEPS REACHED"),
            RequestKind::MaxSteps,
            "The step limit",
        ),
        ("Be kind.", user("[[scenario:chat]]"), RequestKind::Chat, "Hello!"),
    ];
    for protocol in PROTOCOLS {
        for (system, message, kind, expected) in &cases {
            let body = client::prompt_with(protocol, system, std::slice::from_ref(message));
            let text = send(&server, protocol, &body).heard(protocol).text;
            assert!(text.starts_with(expected), "{protocol:?} {system}: {text}");
            assert_eq!(server.requests().last().unwrap().kind, *kind, "{system}");
        }
        // Of the three that took turns, two were used.
        let body = client::prompt_with(protocol, compact, &[user("b")]);
        assert_eq!(send(&server, protocol, &body).heard(protocol).text, "Second.");
    }
}

#[test]
fn texts_and_arguments_are_filled_in() {
    let turn = Turn {
        reasoning: "In ${cwd}.".to_owned(),
        repeat_text: Some(RepeatText { unit: "ab".to_owned(), count: 3 }),
        ..Turn::text("Port ${port}, ${last_session}: ")
    };
    let raw = ToolCall { name: "read".to_owned(), raw: Some("{\"${cwd}".to_owned()), ..ToolCall::default() };
    let mut turn = turn.and_call("read", json!({"deep": [{"path": "${cwd}/x"}]}));
    turn.tool_calls.push(raw);
    let server = server([turn]);
    let session = "ses_0123456789abcdefghijXYZ";
    for protocol in PROTOCOLS {
        let text = format!("[[scenario:test]] ses_short {session} <{session}> ses_short");
        let system = "Be brief.\n  Working directory: /home/dev/my shop \n  Platform: linux";
        let body = client::prompt_with(protocol, system, &[user(&text)]);
        let heard = send(&server, protocol, &body).heard(protocol);
        assert_eq!(heard.reasoning, "In /home/dev/my shop.");
        assert_eq!(heard.text, format!("Port {}, {session}: ababab", server.port()));
        assert_eq!(heard.calls[0].2, r#"{"deep":[{"path":"/home/dev/my shop/x"}]}"#);
        assert_eq!(heard.calls[1].2, "{\"/home/dev/my shop");
    }
}

#[test]
fn chunk_sets_the_size_of_deltas() {
    let server = server([Turn { chunk: 2, ..Turn::text("äöü🚀z") }]);
    for protocol in PROTOCOLS {
        assert_eq!(ask(&server, protocol).text_deltas(protocol), ["äö", "ü🚀", "z"], "{protocol:?}");
    }
}

#[test]
fn finish_and_usage_can_be_fixed() {
    let usage = TurnUsage { input: Some(1000), output: Some(50), cached: Some(600), ..TurnUsage::default() };
    let server = server([Turn { finish: Some("length".to_owned()), usage, ..Turn::text("Cut") }]);

    let frames = ask(&server, Protocol::ChatCompletions).frames;
    let [finish, usage, _] = frames.last_chunk().unwrap();
    assert_eq!(finish.json()["choices"][0]["finish_reason"], "length");
    assert_eq!(usage.json()["usage"]["prompt_tokens"], 1000);
    assert_eq!(usage.json()["usage"]["prompt_tokens_details"]["cached_tokens"], 600);

    let frames = ask(&server, Protocol::Messages).frames;
    assert_eq!(frames[0].json()["message"]["usage"]["input_tokens"], 400);
    assert_eq!(frames[0].json()["message"]["usage"]["cache_read_input_tokens"], 600);
    let [delta, _] = frames.last_chunk().unwrap();
    assert_eq!(delta.json()["delta"]["stop_reason"], "max_tokens");
    assert_eq!(delta.json()["usage"]["output_tokens"], 50);

    let last = ask(&server, Protocol::Responses).frames.last().unwrap().json();
    assert_eq!(last["type"], "response.incomplete");
    assert_eq!(last["response"]["incomplete_details"]["reason"], "max_output_tokens");
    assert_eq!(last["response"]["usage"]["input_tokens"], 1000);
    assert_eq!(server.requests()[0].tokens.unwrap().output, 50);
}

#[test]
fn no_usage_leaves_the_numbers_out() {
    let server = server([Turn { no_usage: true, ..Turn::text("Free of charge") }]);
    let exchange = ask(&server, Protocol::ChatCompletions);
    assert!(exchange.frames.iter().all(|frame| !frame.data.contains("usage")));
    assert_eq!(exchange.frames.last().unwrap().data, "[DONE]");
}

#[test]
fn a_stream_error_ends_the_reply() {
    let error = json!({"type": "overloaded_error", "message": "Too busy"});
    let turn = Turn { stream_error: error.as_object().cloned(), ..Turn::text("Partly") };
    let server = server([turn.and_call("read", json!({}))]);
    for protocol in PROTOCOLS {
        let exchange = ask(&server, protocol);
        assert!(exchange.complete);
        let heard = exchange.heard(protocol);
        assert_eq!((heard.text.as_str(), heard.calls.len()), ("Partly", 0), "{protocol:?}");
        let frames: Vec<_> = exchange.frames.iter().filter(|frame| frame.data != "[DONE]").collect();
        let last = frames.last().unwrap().json();
        let message =
            if protocol == Protocol::Responses { &last["message"] } else { &last["error"]["message"] };
        assert_eq!(message, "Too busy", "{protocol:?}: {last}");
    }
}

#[test]
fn an_error_happens_as_often_as_it_should() {
    let error = Failure {
        headers: [("retry-after-ms".to_owned(), "5".to_owned())].into(),
        times: Some(2),
        ..Failure::new(429, "Slow down", "rate_limit_error")
    };
    let server = server([Turn { error: Some(error), ..Turn::text("Now.") }]);
    let statuses: Vec<u16> = (0..4).map(|_| ask(&server, Protocol::ChatCompletions).status).collect();
    assert_eq!(statuses, [429, 429, 200, 200]);
    assert_eq!(server.requests().iter().map(|request| request.status).collect::<Vec<_>>(), statuses);

    // Another session has its own count.
    let mut body = prompt(Protocol::ChatCompletions, &[user("[[scenario:test]]")]);
    body["promptCacheKey"] = json!("ses_other");
    let exchange = send(&server, Protocol::ChatCompletions, &body);
    assert_eq!(exchange.status, 429);
    assert_eq!(exchange.head_value("retry-after-ms"), Some("5"));
    assert_eq!(exchange.body_json()["error"]["message"], "Slow down");

    let always = ModelServer::start(Playbook::builtin()).unwrap();
    let body = prompt(Protocol::Messages, &[user("[[scenario:error-400]]")]);
    let statuses: Vec<u16> = (0..3).map(|_| send(&always, Protocol::Messages, &body).status).collect();
    assert_eq!(statuses, [400, 400, 400]);
}

#[test]
fn a_hanging_reply_goes_on_when_released() {
    for protocol in PROTOCOLS {
        let server = server([Turn { hang_after: Some(1), chunk: 3, ..Turn::text("onetwothree") }]);
        let body = prompt(protocol, &[user("[[scenario:test]]")]);
        // A release before anything hangs has no effect.
        server.release();
        let mut stream = client::open(&server, protocol, &body);
        server.wait_hanging(1, PATIENCE);
        let state = server.state();
        assert_eq!((state.requests, state.active, state.hanging), (1, 1, 1));
        // A hanging reply does not count as busy.
        server.wait_idle(Duration::from_millis(1), PATIENCE);
        let mut begun = Vec::new();
        while !String::from_utf8_lossy(&begun).contains("one") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            begun.extend(byte);
        }
        assert!(!String::from_utf8_lossy(&begun).contains("two"));
        server.release();
        let exchange = Exchange::read_after(begun, &mut stream);
        assert!(exchange.complete);
        assert_eq!(exchange.heard(protocol).text, "onetwothree");
        server.wait_idle(Duration::ZERO, PATIENCE);
        assert_eq!(server.state().active, 0);
    }
}

#[test]
fn a_hang_beyond_the_text_comes_before_the_end() {
    let server = server([Turn { hang_after: Some(99), hang_times: Some(1), ..Turn::text("All of it.") }]);
    let body = prompt(Protocol::ChatCompletions, &[user("[[scenario:test]]")]);
    let stream = client::open(&server, Protocol::ChatCompletions, &body);
    server.wait_hanging(1, PATIENCE);
    // The client gives up, as on an abort, and the server notices.
    drop(stream);
    let deadline = Instant::now() + PATIENCE;
    while server.state().active > 0 {
        assert!(Instant::now() < deadline, "{:?}", server.state());
        std::thread::sleep(Duration::from_millis(5));
    }
    // It was to hang only once.
    assert_eq!(ask(&server, Protocol::ChatCompletions).heard(Protocol::ChatCompletions).text, "All of it.");
}

#[test]
fn drop_after_cuts_the_connection() {
    for (drop_after, expected) in [(0, ""), (2, "onetwo"), (99, "onetwothree")] {
        let server = server([Turn { drop_after: Some(drop_after), chunk: 3, ..Turn::text("onetwothree") }]);
        for protocol in PROTOCOLS {
            let exchange = ask(&server, protocol);
            assert!(!exchange.complete, "{protocol:?}");
            assert_eq!(exchange.heard(protocol).text, expected, "{protocol:?} {drop_after}");
            assert!(!exchange.frames.iter().any(|frame| frame.data == "[DONE]"));
        }
    }
}

#[test]
fn delay_and_pace_slow_a_reply_down() {
    let slow = Turn { chunk: 1, delay_ms: 10, pace_ms: Some(60), ..Turn::text("abcd") };
    let server = server([slow.and_call("read", json!({}))]);
    let start = Instant::now();
    let heard = ask(&server, Protocol::ChatCompletions).heard(Protocol::ChatCompletions);
    // Four letters, the call, two characters of arguments, and the pause before the call.
    assert!(start.elapsed() >= Duration::from_millis(7 * 10 + 60));
    assert_eq!(heard.text, "abcd");
}

#[test]
fn requests_are_recorded_in_order() {
    let server = server([Turn::text("Yes.")]);
    server.set_context(RequestContext {
        session: Some("ses_context".to_owned()),
        label: Some("step".to_owned()),
    });
    let body = prompt(Protocol::Messages, &[user("[[scenario:test]]")]);
    send(&server, Protocol::Messages, &body);
    let head = format!("POST {} HTTP/1.1\r\nX-Session-Affinity: ses_header\r\n", path(Protocol::Messages));
    request(&server, &head, body.to_string().as_bytes());
    let mut named = prompt(Protocol::Responses, &[user("[[scenario:test]]")]);
    named["prompt_cache_key"] = json!("ses_body");
    send(&server, Protocol::Responses, &named);

    let requests = server.requests();
    let sessions: Vec<_> = requests
        .iter()
        .map(|request| (request.session.as_deref().unwrap(), request.session_source.unwrap()))
        .collect();
    let expected = [
        ("ses_context", SessionSource::Context),
        ("ses_header", SessionSource::Header),
        ("ses_body", SessionSource::Body),
    ];
    assert_eq!(sessions, expected);
    assert_eq!(requests[0].body, body);
    assert_eq!(requests[0].path, "/v1/messages");
    assert_eq!(requests[0].label.as_deref(), Some("step"));
    assert_eq!(requests[1].headers["x-session-affinity"], "ses_header");
    assert_eq!(requests[2].number, 3);
    assert_eq!(serde_json::to_value(&requests[2]).unwrap()["kind"], "chat");
}

#[test]
fn the_same_requests_get_the_same_bytes() {
    let hear = || -> Vec<Vec<u8>> {
        let server = server([full_turn()]);
        PROTOCOLS.iter().map(|protocol| ask(&server, *protocol).raw).collect()
    };
    assert_eq!(hear(), hear());
}

#[test]
fn a_connection_serves_several_requests_and_chunked_bodies() {
    let server = server([Turn::text("Kept alive.")]);
    let body = prompt(Protocol::ChatCompletions, &[user("[[scenario:test]]")]).to_string();
    let (first, second) = body.split_at(body.len() / 2);
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    let chunked = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n\
         {:x};note=x\r\n{first}\r\n{:X}\r\n{second}\r\n0\r\n\r\n",
        first.len(),
        second.len(),
    );
    stream.write_all(chunked.as_bytes()).unwrap();
    stream.write_all(b"GET /v1/models?x=1 HTTP/1.1\r\n\r\n").unwrap();
    stream.write_all(b"HEAD /pages/data.json HTTP/1.1\r\nconnection: close\r\n\r\n").unwrap();
    let mut answers = String::new();
    stream.read_to_string(&mut answers).unwrap();
    assert_eq!(answers.matches("HTTP/1.1 200 OK").count(), 3);
    assert!(answers.contains("Kept alive."));
    assert!(answers.contains(r#""object":"list""#));
    assert!(answers.ends_with("content-length: 31\r\n\r\n"), "{answers}");
}

#[test]
fn other_paths_answer_too() {
    let server = server([Turn::text("Yes.")]);
    let get = |path: &str| request(&server, &format!("GET {path} HTTP/1.1\r\n"), b"");
    let post = |path: &str, body: &[u8]| request(&server, &format!("POST {path} HTTP/1.1\r\n"), body);
    assert!(get("/pages/guide.html").body.starts_with(b"<!doctype html>"));
    assert_eq!(get("/pages/pixel.png").body.len(), 73);
    assert_eq!(get("/pages/data.json").body_json()["items"], json!([1, 2, 3]));
    assert!(get("/pages/table-7.txt").body.len() > 40_000);
    assert_eq!(get("/pages/absent.html").status, 404);
    assert_eq!(get("/pages/table-x.txt").status, 404);
    assert_eq!(post("/v2/other", b"{}").status, 404);
    assert_eq!(post("/v1/messages", b"{\"model\"").status, 400);
    assert_eq!(post("/v1/messages", b"{\"stream\": false}").status, 501);

    let shares = [post("/api/share", b"{}"), post("/api/share", b"{}")].map(|share| share.body_json());
    assert_ne!(shares[0]["id"], shares[1]["id"]);
    assert!(shares[0]["url"].as_str().unwrap().ends_with(shares[0]["id"].as_str().unwrap()));
    assert_eq!(post("/api/share/abc/sync", b"{}").status, 200);
    assert_eq!(request(&server, "DELETE /api/share/abc HTTP/1.1\r\n", b"").status, 200);

    assert_eq!(post("/_ctl/context", br#"{"session": "ses_1"}"#).status, 200);
    assert_eq!(post("/_ctl/context", br#"{"sesion": "ses_1"}"#).status, 400);
    assert_eq!(post("/_ctl/release", b"").status, 200);
    assert_eq!(get("/_ctl/state").body_json()["requests"], 1);
}

#[test]
fn dropping_the_server_ends_everything() {
    let server = server([Turn { hang_after: Some(0), ..Turn::text("Never.") }]);
    let port = server.port();
    let mut idle = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let body = prompt(Protocol::ChatCompletions, &[user("[[scenario:test]]")]);
    let mut hanging = client::open(&server, Protocol::ChatCompletions, &body);
    server.wait_hanging(1, PATIENCE);
    drop(server);
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
    assert_eq!(idle.read(&mut [0]).unwrap_or(0), 0);
    assert!(!Exchange::read_after(Vec::new(), &mut hanging).complete);
}

#[test]
fn a_playbook_can_be_loaded_from_json() {
    let text = r###"{
        "scenarios": {"test": [
            {"tool_calls": [{"name": "read", "args": {"filePath": "x"}}, {"name": "glob", "raw": "{", "id": "call_1"}]},
            {"text": "Done.", "usage": {"input": 5}, "error": {"status": 503, "times": 1}}
        ]},
        "prompts": [["^hi", "test"]],
        "titles": [["a", "A title"], ["b", {"error": {"status": 400}}], "Any title"],
        "compactions": ["## Goal", ["x", {"text": "y", "hang_after": 1, "hang_times": 1}]],
        "pace_ms": 1
    }"###;
    let playbook: Playbook = serde_json::from_str(text).unwrap();
    assert_eq!(playbook.scenarios["test"][0].tool_calls[0], ToolCall::new("read", json!({"filePath": "x"})));
    assert_eq!(playbook.scenarios["test"][0].tool_calls[1].raw.as_deref(), Some("{"));
    assert_eq!(playbook.scenarios["test"][1].error.as_ref().unwrap().times, Some(1));
    assert_eq!(playbook.scenarios["test"][1].chunk, Turn::default().chunk);
    assert_eq!(playbook.titles[0], PlaybookEntry::when("a", "A title"));
    assert_eq!(playbook.titles[2], PlaybookEntry::from("Any title"));
    let both = Playbook::builtin().with(playbook);
    assert!(both.scenarios.contains_key("chat") && both.scenarios.contains_key("test"));
    assert_eq!(both.titles.len(), 3);
    assert_eq!(both.summaries.len(), 1);

    assert!(serde_json::from_str::<Playbook>(r#"{"scenarios": {"a": [{"txet": "typo"}]}}"#).is_err());
    let error = ModelServer::start(Playbook::default().prompt("(", "test")).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
}
