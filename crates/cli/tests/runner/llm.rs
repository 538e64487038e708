//! `annals llm`: the messages that a model gets.

use annals_testkit::Fixture;
use annals_testkit::capture::{self, Capture};
use insta::assert_snapshot;
use serde_json::Value;

use super::kit::{User, annals, in_parallel};

/// A session of 1.1.65 with reasoning, parallel calls and several models.
const SESSION: &str = "36f8c39d9";

/// The format and further options for the model that a request was captured from.
fn options(capture: &Capture) -> Vec<&'static str> {
    let format = match &*capture.path {
        "/v1/chat/completions" => "openai",
        "/v1/messages" => "anthropic",
        _ => "responses",
    };
    let mut options = vec!["--format", format, "--reminders", "--tail-tokens", "300", "--input"];
    options.push(if matches!(&*capture.model, "lab-small" | "lab-tight") { "text" } else { "text,image" });
    if capture.model == "lab-think" {
        options.extend(["--interleaved", "reasoning_content"]);
    }
    options
}

/// Every twentieth request, and all that are not plain chats.
#[test]
fn captured_requests_are_printed() {
    for version in ["1.1.65", "1.2.27", "1.18.33"] {
        let fixture = Fixture::unpack(&format!("opencode-{version}"));
        let home = annals::open::open_all(fixture.home()).unwrap().swap_remove(0);
        let captures = Capture::of_version(version);
        let pairs = capture::pair(&*home, &captures);
        let is_plain = |capture: &Capture| capture.kind == "chat" && capture.path.ends_with("completions");
        let is_edited = |capture: &Capture| capture.label == "manage" && version != "1.18.33";
        let sample: Vec<(&Capture, &String)> = pairs
            .iter()
            .enumerate()
            .filter(|(place, (capture, _))| (place % 20 == 0 || !is_plain(capture)) && !is_edited(capture))
            .filter_map(|(_, (capture, answer))| Some((*capture, answer.as_ref()?)))
            .collect();
        assert!(sample.len() > 30, "{version}: {}", sample.len());
        in_parallel(&sample, |(capture, answer)| {
            let mut arguments = vec!["llm", &capture.session, "--until", answer];
            arguments.extend(options(capture));
            let mut printed: Vec<Value> =
                serde_json::from_slice(&annals(fixture.home(), &arguments).run().ok().stdout).unwrap();
            if capture.kind == "max-steps" {
                printed.extend(capture.messages.last().cloned());
            }
            let text = |messages: &[Value]| serde_json::to_string(messages).unwrap();
            assert_eq!(text(&printed), text(&capture.messages), "{version} {}", capture.number);
        });
    }
}

#[test]
fn messages_come_in_every_form() {
    let fixture = Fixture::unpack("opencode-1.1.65");
    let of = |format: &str| -> Vec<Value> {
        let ran = annals(fixture.home(), &["llm", SESSION, "--format", format, "--json"]).run().ok();
        assert_eq!(ran.stderr, "");
        serde_json::from_slice(&ran.stdout).unwrap()
    };
    let (ui, model, chat) = (of("ui"), of("ai-sdk"), of("openai"));
    assert_eq!(ui[1]["parts"][0]["type"], "step-start");
    assert_eq!(model[1]["content"][0]["type"], "reasoning");
    assert_eq!(chat[0]["role"], "user");
    assert!(of("anthropic")[0]["content"].is_array());
    assert_eq!(of("responses")[0]["content"][0]["type"], "input_text");
}

#[test]
fn the_users_store_gives_what_its_home_gives() {
    let user = User::with("opencode-1.18.33");
    let session = "ses_ed9e229a6ffeMNnekO75HDWDZB";
    let from_store = user.annals(&["llm", session, "--format", "openai"]).run().ok().json();
    let home = user.opencode();
    let from_home = annals(&home, &["llm", session, "--format", "openai"]).run().ok().json();
    assert_eq!(from_store, from_home);
}

#[test]
fn the_context_is_shown_by_kind_and_message() {
    let fixture = Fixture::unpack("opencode-1.1.65");
    assert_snapshot!(annals(fixture.home(), &["llm", SESSION, "--context"]).run(), @"
    exit 0
    Overloaded provider (2)
    lab/lab-large through openai-compatible, as OpenCode 1.1.65, not sent yet

    kind          parts     tokens   share
    prompt            3         48    11 %
    answer            4         46    10 %
    reasoning         5         63    14 %
    call              3        111    24 %
    result            3        186    41 %

    message           role        tokens     sent  received  parts
    msg_c9073c62f001  user            23                     text
    msg_c9073c633001  assistant      181      13k        33  reasoning, text, call,…
    msg_c9073c79f001  assistant      190      12k        53  reasoning, 2 calls, 2 …
    msg_c9073c8f4001  assistant       35      13k        12  reasoning, text
    msg_c9073cb19001  user            22                     text
    msg_c9073cb20001  assistant       29      13k         6  reasoning, text
    msg_c9073cdae001  user            24                     text
    msg_c9073cdb4001  assistant       29      13k         6  reasoning, text

    about 535 tokens: 454 in parts, 81 around them
    recorded for msg_c9073cdb4001LTzjoTw0SJK10Y: 13,033 tokens sent, system prompt
    and tools included (7,808 cached), 6 received
    ");
    let context = annals(fixture.home(), &["llm", SESSION, "--context", "--json"]).run().ok().json();
    let messages = context["messages"].as_array().unwrap();
    let estimated: u64 = messages.iter().map(|message| message["estimated"].as_u64().unwrap()).sum();
    let total = context["estimated"].as_u64().unwrap();
    assert!(total.abs_diff(estimated) <= messages.len() as u64, "{total} {estimated}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_terminal_shows_the_messages_in_short() {
    let fixture = Fixture::unpack("opencode-1.1.65");
    let arguments = ["--no-pager", "--color", "never", "llm", SESSION];
    assert_snapshot!(annals(fixture.home(), &arguments).run_on_terminal(), @"
    Overloaded provider (2)
    lab/lab-large through openai-compatible, as OpenCode 1.1.65, not sent yet

    role       parts                    tokens  begins
    user       text                         23  Which version is this? [[scenario:w…
    assistant  reasoning, text, call…      181  Let me check.
    assistant  reasoning, 2 calls, 2…      190
    assistant  reasoning, text              35  Version 0.3.1, started with `npm st…
    user       text                         22  And the tests? [[scenario:wire-2]]
    assistant  reasoning, text              29  Yes, `npm test`.
    user       text                         24  Same, from another model [[scenario…
    assistant  reasoning, text              29  Yes, `npm test`.

    10 messages, about 535 tokens; `--json` prints them
    ");
}

#[test]
fn mistakes_are_explained() {
    let fixture = Fixture::unpack("opencode-1.1.65");
    let run = |arguments: &[&str]| annals(fixture.home(), &[&["llm", SESSION], arguments].concat()).run();
    assert_snapshot!(run(&["--like", "tomorrow"]), @r#"
    exit 2
    -- stderr
    error: "tomorrow" is not a version of OpenCode
    hint: give a release such as 1.18.33, 1.2.27, 1.1.65 or 1.0.185; others get the nearest rules
    "#);
    assert_snapshot!(run(&["--format", "xml"]), @"
    exit 2
    -- stderr
    error: invalid value 'xml' for '--format <FORMAT>'
      [possible values: ai-sdk, ui, openai, anthropic, responses]

    For more information, try '--help'.
    ");
    assert_snapshot!(run(&["--until", "msg_000"]), @r#"
    exit 1
    -- stderr
    error: no message of session ses_36f8c39d9ffeEs10H1OP2SqBTj begins with "msg_000"
    hint: `annals show ses_36f8c39d9ffeEs10H1OP2SqBTj --json` lists the messages with their ids
    "#);
    assert_snapshot!(run(&["--until", "msg_c80807fec001HUyWIhrKXdZHR6"]), @"
    exit 1
    -- stderr
    error: message msg_c80807fec001HUyWIhrKXdZHR6 belongs to session ses_37f7f801bffeiavbwRqiVA7d5l, not to ses_36f8c39d9ffeEs10H1OP2SqBTj
    hint: `annals llm ses_37f7f801bffeiavbwRqiVA7d5l --until msg_c80807fec001HUyWIhrKXdZHR6`
    ");
    assert_snapshot!(run(&["--model", "claude"]), @r#"
    exit 2
    -- stderr
    error: "claude" is not a model
    hint: give PROVIDER/MODEL, such as anthropic/claude-sonnet-4-5
    "#);
    assert_snapshot!(run(&["--sdk", "soap"]), @r#"
    exit 2
    -- stderr
    error: "soap" is not an SDK of OpenCode
    hint: use one of openai-compatible, anthropic, openai, azure, google, google-vertex, google-vertex/anthropic, amazon-bedrock, amazon-bedrock/mantle, github-copilot, openrouter, gateway, xai, mistral, alibaba, groq, cerebras, cohere, deepinfra, togetherai, perplexity, vercel, venice
    "#);
    assert_snapshot!(run(&["--input", "text,smell"]), @r#"
    exit 2
    -- stderr
    error: "smell" is not a kind of input: use text, image, pdf, audio, video
    "#);
}
