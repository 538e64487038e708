use super::{Said, Weight, is_data, searchable, weight};
use crate::id::{MessageId, PartId, ProjectId, SessionId};
use crate::lens::Message;
use crate::{Document, Key};

fn session() -> Key {
    Key::Session(ProjectId::global(), SessionId::parse("ses_1").unwrap())
}

fn message() -> Key {
    Key::Message(SessionId::parse("ses_1").unwrap(), MessageId::parse("msg_1").unwrap())
}

fn part() -> Key {
    let message = MessageId::parse("msg_1").unwrap();
    Key::Part(SessionId::parse("ses_1").unwrap(), message, PartId::parse("prt_1").unwrap())
}

fn document(json: &str) -> Document {
    Document::parse(json.as_bytes().to_vec()).unwrap()
}

fn strings(key: &Key, json: &str) -> Vec<String> {
    let mut strings = Vec::new();
    searchable(key, &document(json), &mut |text| strings.push(text.to_owned()));
    strings
}

fn check(key: &Key, json: &str, expected: &[&str]) {
    assert_eq!(strings(key, json), expected, "{json}");
}

#[test]
fn sessions_have_a_title() {
    check(&session(), r#"{"id":"ses_1","title":"Fix it","directory":"/d","slug":"calm-otter"}"#, &["Fix it"]);
    check(&session(), r#"{"title":""}"#, &[]);
    check(&session(), r#"{"title":7}"#, &[]);
    check(&session(), r#"[]"#, &[]);
}

#[test]
fn other_documents_have_nothing() {
    let session = SessionId::parse("ses_1").unwrap();
    check(&Key::Todo(session.clone()), r#"[{"content":"a"}]"#, &[]);
    check(&Key::Diff(session.clone()), r#"[{"file":"a"}]"#, &[]);
    check(&Key::Share(session), r#"{"url":"a"}"#, &[]);
    check(&Key::Project(ProjectId::global()), r#"{"worktree":"a"}"#, &[]);
}

#[test]
fn messages_have_errors_and_summaries() {
    check(
        &message(),
        r#"{"role":"user","agent":"build","system":"Be brief","summary":{"title":"T","body":"B","diffs":[{"file":"f"}]}}"#,
        &["T", "B", "Be brief"],
    );
    let error = r#"{"name":"APIError","data":{"message":"overloaded","responseBody":"x"}}"#;
    check(
        &message(),
        &format!(r#"{{"role":"assistant","modelID":"m","system":["S"],"summary":true,"error":{error}}}"#),
        &["overloaded"],
    );
    check(&message(), &format!(r#"{{"role":"critic","error":{error}}}"#), &["overloaded"]);
    check(&message(), r#"{"role":"assistant","error":"text"}"#, &[]);
    check(&message(), "null", &[]);
}

#[test]
fn parts_have_what_people_read() {
    check(&part(), r#"{"id":"prt_1","type":"text","text":"Hello","metadata":{"a":"b"}}"#, &["Hello"]);
    check(
        &part(),
        r#"{"type":"reasoning","text":"Hm","metadata":{"anthropic":{"signature":"c2ln"}}}"#,
        &["Hm"],
    );
    check(
        &part(),
        r#"{"type":"file","mime":"text/plain","filename":"a.ts","url":"file:///d/a.ts",
            "source":{"type":"file","path":"src/a.ts","text":{"value":"@a.ts","start":0,"end":5}}}"#,
        &["a.ts", "src/a.ts", "@a.ts", "file:///d/a.ts"],
    );
    check(&part(), r#"{"type":"file","filename":"p.png","url":"data:image/png;base64,QUJD"}"#, &["p.png"]);
    check(
        &part(),
        r#"{"type":"patch","hash":"abc","files":["/d/a.ts",3,"/d/b.ts"]}"#,
        &["/d/a.ts", "/d/b.ts"],
    );
    check(
        &part(),
        r#"{"type":"subtask","prompt":"P","description":"D","command":"C","agent":"A","model":{"modelID":"m"}}"#,
        &["P", "D", "C"],
    );
    check(&part(), r#"{"type":"agent","name":"plan","source":{"value":"@plan"}}"#, &["plan"]);
    check(&part(), r#"{"type":"retry","attempt":1,"error":{"name":"E","data":{"message":"no"}}}"#, &["no"]);
    for kind in ["step-start", "step-finish", "snapshot", "compaction"] {
        let json = format!(r#"{{"type":"{kind}","snapshot":"abc","reason":"stop","tail_start_id":"msg_1"}}"#);
        check(&part(), &json, &[]);
    }
}

#[test]
fn tool_calls_have_arguments_and_results() {
    check(
        &part(),
        r#"{"type":"tool","callID":"call_1","tool":"bash","metadata":{"openai":{"itemId":"i"}},"state":{
            "status":"completed","input":{"command":"ls -l","list":[{"a":"deep","n":1},"flat"],"sessionID":"x"},
            "output":"total 0","title":"List files","time":{"start":1},
            "metadata":{"output":"total 0","description":"Shows","exit":0,"id":"i","sessionId":"ses_2",
              "filediff":{"file":"/d/f","before":"old text","after":"new text","patch":"-old"},
              "image":"data:image/png;base64,QUJD"},
            "attachments":[{"type":"file","filename":"shot.png","url":"data:image/png;base64,QUJD"}]}}"#,
        &["List files", "ls -l", "deep", "flat", "x", "total 0", "Shows", "/d/f", "-old", "shot.png"],
    );
    check(
        &part(),
        r#"{"type":"tool","tool":"bash","state":{"status":"error","input":"raw","error":"aborted","metadata":{"output":"so far"}}}"#,
        &["raw", "aborted", "so far"],
    );
    check(
        &part(),
        r#"{"type":"tool","state":{"input":{"command":"ls","description":"List"},"title":"List","metadata":{"description":"List"}}}"#,
        &["List", "ls"],
    );
    check(&part(), r#"{"type":"tool","tool":"bash"}"#, &[]);
    check(&part(), r#"{"type":"tool","state":{"input":null,"output":null,"metadata":[]}}"#, &[]);
}

#[test]
fn unknown_parts_have_all_their_strings() {
    check(
        &part(),
        r#"{"id":"prt_1","sessionID":"s","messageID":"m","type":"tool_result","tool_use_id":"t",
            "content":[{"type":"text","text":"found"},{"source":"data:image/png;base64,QUJD"}],"is_error":false}"#,
        &["found"],
    );
    check(&part(), r#"{"text":"no type"}"#, &["no type"]);
    check(&part(), r#""a string""#, &["a string"]);
}

#[test]
fn strings_are_unescaped_and_plain_ones_not_copied() {
    check(
        &part(),
        r#"{"type":"text","text":"a\nb \"c\" \u00e9 \ud83d\ude00 \ud83d."}"#,
        &["a\nb \"c\" é 😀 \u{fffd}."],
    );
    let document = document(r#"{"type":"tool","state":{"input":{"a":"plain"},"output":"also plain"}}"#);
    let range = document.text().as_bytes().as_ptr_range();
    let mut count = 0;
    searchable(&part(), &document, &mut |text| {
        assert!(range.contains(&text.as_ptr()), "{text} is a copy");
        count += 1;
    });
    assert_eq!(count, 2);
}

#[test]
fn depth_does_no_harm() {
    let depth = 100_000;
    let json = format!(
        r#"{{"type":"new","a":{}"bottom"{},"b":"side"}}"#,
        r#"[{"k":"#.repeat(depth),
        "}]".repeat(depth)
    );
    check(&part(), &json, &["bottom", "side"]);
}

#[test]
fn what_repeats_the_output_is_left_out() {
    let long: String = (0..2000).map(|n| format!("{n}\n")).collect();
    let check = |output: &str, other: &str, expected: &str| {
        assert_eq!(Said::new(output).beyond(other), expected);
    };
    check("one two three", "two", "");
    check("one two three", "one two three", "");
    check("one two three", "four", "four");
    check("", "four", "four");
    check("", "", "");
    check(&long, &long, "");
    check(&long, &long[100..5000], "");
    check(&long, &format!("{}\n\n...", &long[..2998]), "\n\n\n...");
    // Of what the output was cut from, the rest is said.
    check(&format!("{}\n\ncut", &long[..2998]), &long, &long[2997..]);
    check(&"é".repeat(200), &format!("{}ü end", "é".repeat(199)), &format!("{}ü end", "é".repeat(199)));
    let mut said = Said::new(&long);
    let strings: Vec<String> = (0..100_000).map(|n| format!("x{n}")).collect();
    assert!(strings.iter().all(|string| said.beyond(string) == string));
}

#[test]
fn data_is_an_address_not_a_notation() {
    assert!(is_data("data:image/png;base64,QUJD") && is_data("data:,x") && is_data("data:text/plain,a b"));
    for text in ["data: {\"a\":1,\"b\":2}", "data:\n  a, b", "data:", "data", "database,", "a data:,x"] {
        assert!(!is_data(text), "{text}");
    }
}

#[test]
fn text_weighs_by_who_wrote_it() {
    let user = document(r#"{"role":"user"}"#);
    let assistant = document(r#"{"role":"assistant"}"#);
    let check = |role: Option<&Document>, json: &str, expected: Weight| {
        let message = role.map(Document::lens::<Message<'_>>);
        assert_eq!(weight(&part(), &document(json), message.as_ref()), expected, "{json}");
    };
    check(Some(&user), r#"{"type":"text"}"#, Weight::Prompt);
    check(Some(&user), r#"{"type":"text","synthetic":false}"#, Weight::Prompt);
    check(Some(&user), r#"{"type":"text","synthetic":true}"#, Weight::Other);
    check(Some(&user), r#"{"type":"text","ignored":true}"#, Weight::Other);
    check(Some(&assistant), r#"{"type":"text"}"#, Weight::Answer);
    check(Some(&assistant), r#"{"type":"text","synthetic":true}"#, Weight::Answer);
    check(Some(&assistant), r#"{"type":"reasoning"}"#, Weight::Reasoning);
    check(Some(&assistant), r#"{"type":"tool"}"#, Weight::Tool);
    check(Some(&user), r#"{"type":"file"}"#, Weight::Other);
    check(None, r#"{"type":"tool"}"#, Weight::Tool);
    check(None, r#"{"type":"text"}"#, Weight::Other);
    check(None, "[]", Weight::Other);
    assert_eq!(weight(&session(), &document("{}"), None), Weight::Title);
    assert_eq!(weight(&message(), &user, None), Weight::Other);
}

#[test]
fn what_repeats_numbered_lines_is_left_out() {
    let check = |output: &str, other: &str, expected: &str| {
        assert_eq!(Said::new(output).beyond(other), expected, "{output}");
    };
    let old = "<file>\n00001| one\n00002| \n00003| three\n\n(End of file - total 3 lines)\n</file>";
    let new = "<path>/a</path>\n<content>\n7: one\n8: \n9: three\n\n(End of file)\n</content>";
    for output in [old, new] {
        check(output, "one\n\nthree", "");
        check(output, "one\n\nthree\nfour", "four");
        check(output, "one\n\nthree and more", "three and more");
        check(output, "two\none", "two\none");
    }
    check("1: one", "one\n", "");
    check(": one", "two", "two");
    check("12", "two", "two");
}
