//! Histories and the requests that OpenCode makes of them, worked out with OpenCode's own code.

use super::*;
use crate::document::Document;
use crate::json::Style;
use proptest::prelude::*;

/// A history of a user and a model: each message is its role, members of the message, and its parts.
fn history(messages: &[(&str, &str, &[&str])]) -> Vec<HistoryMessage> {
    let document = |text: String| Document::parse(text.into_bytes()).unwrap();
    let message = |(place, (role, info, parts)): (usize, &(&str, &str, &[&str]))| {
        let number = place + 1;
        let from = match *role {
            "user" => r#""role":"user""#,
            _ => r#""role":"assistant","providerID":"p","modelID":"m""#,
        };
        let info = format!(r#"{{"id":"m{number}",{from},"time":{{"created":{number}}}{info}}}"#);
        let parts = parts.iter().map(|part| document((*part).to_owned())).collect();
        HistoryMessage::new(document(info), parts)
    };
    messages.iter().enumerate().map(message).collect()
}

const COMPATIBLE: fn() -> Target = || Target::new("p", "m", Sdk::OpenAiCompatible);
const ANTHROPIC: fn() -> Target = || Target::new("p", "m", Sdk::Anthropic);

fn next(history: &[HistoryMessage], rules: Rules, target: Target) -> Request {
    Request::next(history.to_vec(), rules, target, Reminders::None)
}

/// Messages in a format, one in a line.
fn lines(request: &Request, format: Format) -> Vec<String> {
    let json = request.json(format, Style::Compact).unwrap();
    let json = Document::parse(json).unwrap();
    json.root().items().map(|item| item.raw().to_owned()).collect()
}

#[track_caller]
fn check(history: &[HistoryMessage], chat: &[&str], anthropic: &[&str]) {
    let with_marks = |line: &&str| line.replace(",cc}", r#","cache_control":{"type":"ephemeral"}}"#);
    let request = next(history, Rules::LATEST, COMPATIBLE());
    assert_eq!(lines(&request, Format::Wire(Wire::Chat)), chat);
    let request = next(history, Rules::LATEST, ANTHROPIC());
    let anthropic: Vec<String> = anthropic.iter().map(with_marks).collect();
    assert_eq!(lines(&request, Format::Wire(Wire::Anthropic)), anthropic);
}

const PNG: &str =
    r#"{"type":"file","mime":"image/png","filename":"s.png","url":"data:image/png;base64,QUJD"}"#;

#[test]
fn a_prompt_has_texts_and_files() {
    let history = history(&[(
        "user",
        "",
        &[
            r#"{"type":"text","text":"look"}"#,
            r#"{"type":"text","text":"note","ignored":true}"#,
            r#"{"type":"text","text":"Called the Read tool…","synthetic":true}"#,
            r#"{"type":"text","text":"1: hi","synthetic":true}"#,
            r#"{"type":"file","mime":"text/plain","filename":"a.txt","url":"file:///a.txt"}"#,
            PNG,
            r#"{"type":"agent","name":"explore"}"#,
        ],
    )]);
    check(
        &history,
        &[
            r#"{"role":"user","content":[{"type":"text","text":"look"},{"type":"text","text":"Called the Read tool…"},{"type":"text","text":"1: hi"},{"type":"image_url","image_url":{"url":"data:image/png;base64,QUJD"}}]}"#,
        ],
        &[
            r#"{"role":"user","content":[{"type":"text","text":"look"},{"type":"text","text":"Called the Read tool…"},{"type":"text","text":"1: hi"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"QUJD"},cc}]}"#,
        ],
    );
    let blind = Target { input: Modalities::TEXT, ..COMPATIBLE() };
    assert_eq!(
        lines(&next(&history, Rules::LATEST, blind), Format::Wire(Wire::Chat)),
        [
            r#"{"role":"user","content":[{"type":"text","text":"look"},{"type":"text","text":"Called the Read tool…"},{"type":"text","text":"1: hi"},{"type":"text","text":"ERROR: Cannot read \"s.png\" (this model does not support image input). Inform the user."}]}"#
        ]
    );
    assert_eq!(
        lines(&next(&history, Rules::of(1, 1, 65), COMPATIBLE()), Format::AiSdk),
        [
            r#"{"role":"user","content":[{"type":"text","text":"look"},{"type":"text","text":"Called the Read tool…"},{"type":"text","text":"1: hi"},{"type":"file","mediaType":"image/png","filename":"s.png","data":"data:image/png;base64,QUJD"}]}"#
        ]
    );
}

/// Calls that worked, failed and were not finished.
fn three_calls() -> Vec<HistoryMessage> {
    history(&[
        ("user", "", &[r#"{"type":"text","text":"check"}"#]),
        (
            "assistant",
            r#","finish":"tool-calls""#,
            &[
                r#"{"type":"step-start"}"#,
                r#"{"type":"reasoning","text":"hm","metadata":{"anthropic":{"signature":"S1"}}}"#,
                r#"{"type":"text","text":"looking"}"#,
                r#"{"type":"tool","tool":"bash","callID":"c1","state":{"status":"completed","input":{"command":"ls"},"output":"a\nb","time":{"start":1,"end":2}}}"#,
                r#"{"type":"tool","tool":"read","callID":"c2","state":{"status":"error","input":{"filePath":"/x"},"error":"File not found: /x"}}"#,
                r#"{"type":"tool","tool":"grep","callID":"c3","state":{"status":"running","input":{"pattern":"q"}}}"#,
                r#"{"type":"step-finish","reason":"tool-calls"}"#,
            ],
        ),
        ("user", "", &[r#"{"type":"text","text":"go on"}"#]),
    ])
}

#[test]
fn results_follow_their_calls() {
    let history = three_calls();
    check(
        &history,
        &[
            r#"{"role":"user","content":"check"}"#,
            r#"{"role":"assistant","content":"looking","reasoning_content":"hm","tool_calls":[{"id":"c1","type":"function","function":{"name":"bash","arguments":"{\"command\":\"ls\"}"}},{"id":"c2","type":"function","function":{"name":"read","arguments":"{\"filePath\":\"/x\"}"}},{"id":"c3","type":"function","function":{"name":"grep","arguments":"{\"pattern\":\"q\"}"}}]}"#,
            r#"{"role":"tool","tool_call_id":"c1","content":"a\nb"}"#,
            r#"{"role":"tool","tool_call_id":"c2","content":"File not found: /x"}"#,
            r#"{"role":"tool","tool_call_id":"c3","content":"[Tool execution was interrupted]"}"#,
            r#"{"role":"user","content":"go on"}"#,
        ],
        &[
            r#"{"role":"user","content":[{"type":"text","text":"check"}]}"#,
            r#"{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"S1"},{"type":"text","text":"looking"},{"type":"tool_use","id":"c1","name":"bash","input":{"command":"ls"}},{"type":"tool_use","id":"c2","name":"read","input":{"filePath":"/x"}},{"type":"tool_use","id":"c3","name":"grep","input":{"pattern":"q"}}]}"#,
            r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"a\nb"},{"type":"tool_result","tool_use_id":"c2","content":"File not found: /x","is_error":true},{"type":"tool_result","tool_use_id":"c3","content":"[Tool execution was interrupted]","is_error":true,cc},{"type":"text","text":"go on",cc}]}"#,
        ],
    );
}

#[test]
fn reasoning_of_another_model_becomes_text_or_loses_its_signature() {
    let history = three_calls();
    let answer = |rules, target, format| lines(&next(&history, rules, target), format)[1].clone();
    let other = |sdk| Target::new("p", "other", sdk);
    let chat = answer(Rules::LATEST, other(Sdk::OpenAiCompatible), Format::Wire(Wire::Chat));
    assert!(chat.starts_with(r#"{"role":"assistant","content":"hmlooking","tool_calls":"#), "{chat}");
    let blocks = answer(Rules::LATEST, other(Sdk::Anthropic), Format::Wire(Wire::Anthropic));
    let start =
        r#"{"role":"assistant","content":[{"type":"text","text":"hm"},{"type":"text","text":"looking"},"#;
    assert!(blocks.starts_with(start), "{blocks}");
    let old = answer(Rules::of(1, 1, 65), other(Sdk::OpenAiCompatible), Format::Wire(Wire::Chat));
    assert!(old.starts_with(r#"{"role":"assistant","content":"looking","reasoning_content":"hm","#), "{old}");
    // 1.0.185 gives every model all metadata, leaves unfinished calls out, and chats without reasoning.
    let oldest = answer(Rules::of(1, 0, 185), other(Sdk::OpenAiCompatible), Format::AiSdk);
    assert!(oldest.contains(r#"{"anthropic":{"signature":"S1"}}"#) && !oldest.contains("c3"), "{oldest}");
    let oldest = answer(Rules::of(1, 0, 185), COMPATIBLE(), Format::Wire(Wire::Chat));
    assert!(!oldest.contains("reasoning_content"), "{oldest}");
}

#[test]
fn ui_and_model_messages_are_those_of_the_ai_sdk() {
    let history = three_calls();
    let request = next(&history, Rules::of(1, 1, 65), ANTHROPIC());
    assert_eq!(
        lines(&request, Format::Ui)[1],
        r#"{"id":"m2","role":"assistant","parts":[{"type":"step-start"},{"type":"reasoning","text":"hm","providerMetadata":{"anthropic":{"signature":"S1"}}},{"type":"text","text":"looking"},{"type":"tool-bash","state":"output-available","toolCallId":"c1","input":{"command":"ls"},"output":"a\nb"},{"type":"tool-read","state":"output-error","toolCallId":"c2","input":{"filePath":"/x"},"errorText":"File not found: /x"},{"type":"tool-grep","state":"output-error","toolCallId":"c3","input":{"pattern":"q"},"errorText":"[Tool execution was interrupted]"}]}"#
    );
    assert_eq!(
        lines(&request, Format::AiSdk)[1..3],
        [
            r#"{"role":"assistant","content":[{"type":"reasoning","text":"hm","providerOptions":{"anthropic":{"signature":"S1"}}},{"type":"text","text":"looking"},{"type":"tool-call","toolCallId":"c1","toolName":"bash","input":{"command":"ls"}},{"type":"tool-call","toolCallId":"c2","toolName":"read","input":{"filePath":"/x"}},{"type":"tool-call","toolCallId":"c3","toolName":"grep","input":{"pattern":"q"}}]}"#,
            r#"{"role":"tool","content":[{"type":"tool-result","toolCallId":"c1","toolName":"bash","output":{"type":"text","value":"a\nb"}},{"type":"tool-result","toolCallId":"c2","toolName":"read","output":{"type":"error-text","value":"File not found: /x"}},{"type":"tool-result","toolCallId":"c3","toolName":"grep","output":{"type":"error-text","value":"[Tool execution was interrupted]"}}]}"#,
        ]
    );
}

#[test]
fn media_of_a_result_stay_in_it_or_are_carried_behind() {
    let read = format!(
        r#"{{"type":"tool","tool":"read","callID":"c4","state":{{"status":"completed","input":{{"filePath":"/s.png"}},"output":"Image read successfully","time":{{"start":1,"end":2}},"attachments":[{PNG}]}}}}"#
    );
    let parts = [r#"{"type":"step-start"}"#, &read, r#"{"type":"step-finish"}"#];
    let history =
        history(&[("user", "", &[r#"{"type":"text","text":"read it"}"#]), ("assistant", "", &parts)]);
    let call = r#"{"role":"assistant","content":"","tool_calls":[{"id":"c4","type":"function","function":{"name":"read","arguments":"{\"filePath\":\"/s.png\"}"}}]}"#;
    let result = r#"{"role":"tool","tool_call_id":"c4","content":"Image read successfully"}"#;
    check(
        &history,
        &[
            r#"{"role":"user","content":"read it"}"#,
            call,
            result,
            r#"{"role":"user","content":[{"type":"text","text":"Attached media from tool result:"},{"type":"image_url","image_url":{"url":"data:image/png;base64,QUJD"}}]}"#,
        ],
        &[
            r#"{"role":"user","content":[{"type":"text","text":"read it"}]}"#,
            r#"{"role":"assistant","content":[{"type":"tool_use","id":"c4","name":"read","input":{"filePath":"/s.png"},cc}]}"#,
            r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"c4","content":[{"type":"text","text":"Image read successfully"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"QUJD"}}],cc}]}"#,
        ],
    );
    for (rules, text) in [
        (Rules::of(1, 2, 27), "Attached image(s) from tool result:"),
        (Rules::of(1, 0, 185), "Tool read returned an attachment:"),
    ] {
        let carrier = lines(&next(&history, rules, COMPATIBLE()), Format::Wire(Wire::Chat))[3].clone();
        assert!(carrier.contains(text), "{carrier}");
    }
    let request = next(&history, Rules::of(1, 1, 65), ANTHROPIC());
    assert_eq!(
        lines(&request, Format::AiSdk)[2],
        r#"{"role":"tool","content":[{"type":"tool-result","toolCallId":"c4","toolName":"read","output":{"type":"content","value":[{"type":"text","text":"Image read successfully"},{"type":"media","mediaType":"image/png","data":"QUJD"}]}}]}"#
    );
    let ui = &lines(&request, Format::Ui)[1];
    let attached = format!(r#""output":{{"text":"Image read successfully","attachments":[{PNG}]}}"#);
    assert!(ui.contains(&attached), "{ui}");
}

#[test]
fn steps_aborts_failures_and_pruned_results() {
    let history = history(&[
        ("user", "", &[r#"{"type":"text","text":"one"}"#]),
        (
            "assistant",
            "",
            &[
                r#"{"type":"step-start"}"#,
                r#"{"type":"text","text":"part"}"#,
                r#"{"type":"step-start"}"#,
                r#"{"type":"reasoning","text":"again","metadata":{"anthropic":{"signature":"S1"}}}"#,
                r#"{"type":"text","text":"whole"}"#,
                r#"{"type":"tool","tool":"bash","callID":"c5","state":{"status":"completed","input":{"command":"cat big"},"output":"BIG","time":{"start":1,"end":2,"compacted":3}}}"#,
                r#"{"type":"step-finish"}"#,
            ],
        ),
        (
            "assistant",
            r#","error":{"name":"MessageAbortedError","data":{"message":"Aborted"}}"#,
            &[
                r#"{"type":"step-start"}"#,
                r#"{"type":"text","text":"cut"}"#,
                r#"{"type":"tool","tool":"task","callID":"c6","state":{"status":"error","input":{"prompt":"p"},"error":"Tool execution aborted","metadata":{"interrupted":true,"output":"half"}}}"#,
            ],
        ),
        ("user", "", &[r#"{"type":"text","text":"two"}"#]),
        (
            "assistant",
            r#","error":{"name":"APIError","data":{"message":"no"}}"#,
            &[r#"{"type":"step-start"}"#, r#"{"type":"text","text":"lost"}"#],
        ),
        ("user", "", &[r#"{"type":"text","text":"three"}"#]),
    ]);
    check(
        &history,
        &[
            r#"{"role":"user","content":"one"}"#,
            r#"{"role":"assistant","content":"part"}"#,
            r#"{"role":"assistant","content":"whole","reasoning_content":"again","tool_calls":[{"id":"c5","type":"function","function":{"name":"bash","arguments":"{\"command\":\"cat big\"}"}}]}"#,
            r#"{"role":"tool","tool_call_id":"c5","content":"[Old tool result content cleared]"}"#,
            r#"{"role":"assistant","content":"cut","tool_calls":[{"id":"c6","type":"function","function":{"name":"task","arguments":"{\"prompt\":\"p\"}"}}]}"#,
            r#"{"role":"tool","tool_call_id":"c6","content":"half"}"#,
            r#"{"role":"user","content":"two"}"#,
            r#"{"role":"user","content":"three"}"#,
        ],
        &[
            r#"{"role":"user","content":[{"type":"text","text":"one"}]}"#,
            r#"{"role":"assistant","content":[{"type":"text","text":"part"},{"type":"thinking","thinking":"again","signature":"S1"},{"type":"text","text":"whole"},{"type":"tool_use","id":"c5","name":"bash","input":{"command":"cat big"}}]}"#,
            r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"c5","content":"[Old tool result content cleared]"}]}"#,
            r#"{"role":"assistant","content":[{"type":"text","text":"cut"},{"type":"tool_use","id":"c6","name":"task","input":{"prompt":"p"}}]}"#,
            r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"c6","content":"half"},{"type":"text","text":"two",cc},{"type":"text","text":"three",cc}]}"#,
        ],
    );
    let old = lines(&next(&history, Rules::of(1, 2, 27), COMPATIBLE()), Format::Wire(Wire::Chat));
    assert_eq!(old[5], r#"{"role":"tool","tool_call_id":"c6","content":"Tool execution aborted"}"#);
    // As it was before the result was pruned.
    let answer =
        Document::parse(br#"{"id":"m7","role":"assistant","time":{"created":2},"parentID":"m6"}"#.to_vec());
    let answer = HistoryMessage::new(answer.unwrap(), Vec::new());
    let tail = CompactionTail::Stored(None);
    let then = Request::answered_by(&answer, history, tail, Rules::LATEST, COMPATIBLE(), Reminders::None);
    assert_eq!(
        lines(&then.unwrap(), Format::Wire(Wire::Chat))[3],
        r#"{"role":"tool","tool_call_id":"c5","content":"BIG"}"#
    );
}

/// A compaction that keeps the last turn.
fn compacted() -> Vec<HistoryMessage> {
    history(&[
        ("user", "", &[r#"{"type":"text","text":"old"}"#]),
        ("assistant", "", &[r#"{"type":"text","text":"old answer"}"#]),
        ("user", "", &[r#"{"type":"text","text":"recent"}"#]),
        ("assistant", "", &[r#"{"type":"text","text":"recent answer"}"#]),
        ("user", "", &[r#"{"type":"compaction","auto":true,"tail_start_id":"m3"}"#]),
        (
            "assistant",
            r#","summary":true,"finish":"stop","parentID":"m5""#,
            &[r#"{"type":"text","text":"SUMMARY"}"#],
        ),
        ("user", "", &[r#"{"type":"text","text":"go on","synthetic":true}"#]),
    ])
}

#[test]
fn a_compaction_leaves_its_summary_and_what_it_kept() {
    check(
        &compacted(),
        &[
            r#"{"role":"user","content":"What did we do so far?"}"#,
            r#"{"role":"assistant","content":"SUMMARY"}"#,
            r#"{"role":"user","content":"recent"}"#,
            r#"{"role":"assistant","content":"recent answer"}"#,
            r#"{"role":"user","content":"go on"}"#,
        ],
        &[
            r#"{"role":"user","content":[{"type":"text","text":"What did we do so far?"}]}"#,
            r#"{"role":"assistant","content":[{"type":"text","text":"SUMMARY"}]}"#,
            r#"{"role":"user","content":[{"type":"text","text":"recent"}]}"#,
            r#"{"role":"assistant","content":[{"type":"text","text":"recent answer",cc}]}"#,
            r#"{"role":"user","content":[{"type":"text","text":"go on",cc}]}"#,
        ],
    );
}

#[test]
fn a_summary_answers_a_request_of_its_own() {
    let history = compacted();
    let request = |n_before: usize, tail, rules| {
        let (before, answer) = (history[..n_before].to_vec(), &history[n_before]);
        Request::answered_by(answer, before, tail, rules, COMPATIBLE(), Reminders::None).unwrap()
    };
    let chat = |request: &Request| lines(request, Format::Wire(Wire::Chat));
    let new = chat(&request(5, CompactionTail::Stored(Some("m3")), Rules::LATEST));
    let [new] = &new[..] else { panic!("{new:?}") };
    let start = r#"{"role":"user","content":"Here is the conversation so far:\n\n<conversation>\n[User]: old\n\n[Assistant]: old answer\n</conversation>\n\nCreate a new anchored summary"#;
    assert!(new.starts_with(start), "{new}");
    // Without a note of what was kept, it is found again: 35 tokens are enough for the last turn, and not for both.
    let found = CompactionTail::NotStored { tokens: Some(35) };
    assert_eq!(chat(&request(5, found, Rules::LATEST)), std::slice::from_ref(new));
    let old = chat(&request(5, CompactionTail::Stored(None), Rules::of(1, 2, 27)));
    assert_eq!(old.len(), 6);
    assert_eq!(old[4], r#"{"role":"user","content":"What did we do so far?"}"#);
    let start =
        r#"{"role":"user","content":"Provide a detailed prompt for continuing our conversation above.\n"#;
    assert!(old[5].starts_with(start), "{}", old[5]);
}

#[test]
fn half_pairs_are_sent_by_old_releases_and_repaired_by_new_ones() {
    let history = history(&[
        ("user", "", &[r#"{"type":"text","text":"a\ud83d"}"#]),
        (
            "assistant",
            "",
            &[
                r#"{"type":"text","text":"b\ud83d"}"#,
                r#"{"type":"text","text":"\ude00"}"#,
                r#"{"type":"tool","tool":"t","callID":"c","state":{"status":"completed","input":{"b":1.50,"10":"\ud83d","a":{"2":-0,"1":1e2}},"output":"\udc00"}}"#,
            ],
        ),
    ]);
    let call = r#""tool_calls":[{"id":"c","type":"function","function":{"name":"t","arguments":"{\"10\":\"\\ud83d\",\"b\":1.5,\"a\":{\"1\":100,\"2\":0}}"}}]}"#;
    assert_eq!(
        lines(&next(&history, Rules::of(1, 2, 27), COMPATIBLE()), Format::Wire(Wire::Chat)),
        [
            r#"{"role":"user","content":"a\ud83d"}"#.to_owned(),
            format!(r#"{{"role":"assistant","content":"b😀",{call}"#),
            r#"{"role":"tool","tool_call_id":"c","content":"\udc00"}"#.to_owned(),
        ]
    );
    assert_eq!(
        lines(&next(&history, Rules::LATEST, COMPATIBLE()), Format::Wire(Wire::Chat)),
        [
            "{\"role\":\"user\",\"content\":\"a\u{fffd}\"}".to_owned(),
            format!("{{\"role\":\"assistant\",\"content\":\"b\u{fffd}\u{fffd}\",{call}"),
            "{\"role\":\"tool\",\"tool_call_id\":\"c\",\"content\":\"\u{fffd}\"}".to_owned(),
        ]
    );
}

#[test]
fn files_that_no_sdk_sends_are_refused() {
    let file = |mime: &str| {
        format!(r#"{{"type":"file","mime":"{mime}","filename":"f","url":"data:{mime};base64,aGk="}}"#)
    };
    let request = |mime: &str, rules| {
        let part = file(mime);
        next(&history(&[("user", "", &[&part])]), rules, COMPATIBLE())
    };
    let refused = request("application/zip", Rules::LATEST).wire(Wire::Chat).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "OpenCode cannot send this request: the SDK refuses files of type application/zip"
    );
    assert!(request("application/pdf", Rules::of(1, 2, 27)).wire(Wire::Chat).is_err());
    let text = lines(&request("text/markdown", Rules::LATEST), Format::Wire(Wire::Chat));
    assert_eq!(text, [r#"{"role":"user","content":[{"type":"text","text":"hi"}]}"#]);
}

#[test]
fn a_context_is_measured_by_kind_and_message() {
    let history = three_calls();
    let context = next(&history, Rules::LATEST, COMPATIBLE()).context();
    let kinds: Vec<_> = context.kinds.iter().map(|size| (size.kind.name(), size.parts)).collect();
    assert_eq!(kinds, [("prompt", 2), ("answer", 1), ("reasoning", 1), ("call", 3), ("result", 3)]);
    let ids: Vec<_> = context.messages.iter().map(|size| (size.id.as_str(), size.start.as_str())).collect();
    assert_eq!(ids, [("m1", "check"), ("m2", "looking"), ("m3", "go on")]);
    let whole = next(&history, Rules::LATEST, COMPATIBLE()).json(Format::AiSdk, Style::Compact).unwrap();
    assert_eq!(
        context.estimated,
        context::estimate(String::from_utf8(whole).unwrap().encode_utf16().count())
    );
}

/// Members that messages and parts are made of, with values that need not fit.
fn members() -> impl Strategy<Value = String> {
    let value = prop::sample::select(vec![
        "null",
        "true",
        "0",
        "-1",
        "1e400",
        "9",
        r#""""#,
        r#"" ""#,
        r#""\ud83d""#,
        r#""text""#,
        r#""tool""#,
        r#""file""#,
        r#""reasoning""#,
        r#""compaction""#,
        r#""user""#,
        r#""assistant""#,
        r#""completed""#,
        r#""error""#,
        r#""m1""#,
        r#""image/png""#,
        r#""application/zip""#,
        r#""data:image/png;base64,QUJD""#,
        r#""data:""#,
        r#""data:,""#,
        "{}",
        "[]",
        "[[]]",
        r#"{"name":"MessageAbortedError"}"#,
        r#"{"anthropic":{"signature":7}}"#,
        r#"{"openai":{"itemId":"i"}}"#,
        r#"{"status":"completed","input":7,"attachments":[{},7],"time":{"compacted":1}}"#,
        r#"{"status":"error","metadata":{"interrupted":true,"output":""}}"#,
        r#"{"created":5,"completed":1}"#,
    ]);
    let key = prop::sample::select(vec![
        "id",
        "role",
        "type",
        "text",
        "parentID",
        "summary",
        "finish",
        "error",
        "time",
        "providerID",
        "modelID",
        "metadata",
        "state",
        "tool",
        "callID",
        "mime",
        "url",
        "filename",
        "ignored",
        "synthetic",
        "tail_start_id",
        "overflow",
        "agent",
    ]);
    let member = (key, value).prop_map(|(key, value)| format!(r#""{key}":{value}"#));
    prop::collection::vec(member, 0..9).prop_map(|members| format!("{{{}}}", members.join(",")))
}

proptest! {
    /// Whatever documents hold, every form of a request is JSON or a refusal.
    #[test]
    fn hostile_histories_become_requests(
        messages in prop::collection::vec((members(), prop::collection::vec(members(), 0..4)), 0..6),
        release in prop::sample::select(vec![Rules::of(1, 0, 185), Rules::of(1, 1, 65), Rules::of(1, 2, 27), Rules::LATEST]),
        sdk in prop::sample::select(Sdk::ALL.to_vec()),
        model in prop::sample::select(vec!["m", "claude", "mistral", "deepseek"]),
    ) {
        let document = |text: String| Document::parse(text.into_bytes()).unwrap();
        let mut history: Vec<HistoryMessage> = messages
            .into_iter()
            .map(|(info, parts)| HistoryMessage::new(document(info), parts.into_iter().map(document).collect()))
            .collect();
        let target = || Target { interleaved: Some("reasoning".to_owned()), ..Target::new("p", model, sdk) };
        let answer = history.pop().unwrap_or_else(|| HistoryMessage::new(document("{}".to_owned()), Vec::new()));
        let tail = CompactionTail::NotStored { tokens: Some(9) };
        let requests = [
            Request::next(history.clone(), release, target(), Reminders::PlanAndBuild),
            Request::answered_by(&answer, history, tail, release, target(), Reminders::PlanAndBuild).unwrap(),
        ];
        for request in requests {
            for (_, format) in Format::ALL {
                if let Ok(json) = request.json(format, Style::Compact) {
                    prop_assert!(Document::parse(json).is_ok());
                }
            }
            prop_assert!(request.context().messages.len() <= request.messages().len());
        }
    }
}
