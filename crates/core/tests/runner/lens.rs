//! Lenses read what is there, never fail, and write what OpenCode would.

use annals_core::Document;
use annals_core::lens::*;
use proptest::prelude::*;

use super::any_json::{any_json, any_object};

fn parse(text: &str) -> Document {
    Document::parse(text.as_bytes().to_vec()).unwrap()
}

/// A tool part as OpenCode 1.1.65 stores it.
const TOOL_PART: &str = r#"{
  "id": "prt_b50426001001AAAAAAAAAAAAAA",
  "sessionID": "ses_4afbda00cffeVl5YERm4op7JEG",
  "messageID": "msg_b50426000001AAAAAAAAAAAAAA",
  "type": "tool",
  "callID": "toolu_01",
  "tool": "bash",
  "state": {
    "status": "completed",
    "input": {
      "command": "ls",
      "description": "List files"
    },
    "output": "a\n",
    "title": "List files",
    "metadata": {
      "output": "a\n",
      "exit": 0,
      "description": "List files",
      "truncated": false
    },
    "time": {
      "start": 1766578087000,
      "end": 1766578087100
    }
  }
}"#;

#[test]
fn a_part_seen_and_written_again_is_the_same_text() {
    let document = parse(TOOL_PART);
    let Part::Tool(tool) = document.lens::<Part<'_>>() else { panic!("a tool part") };
    let state = tool.state.as_ref().unwrap();
    assert_eq!(state.status(), Some(ToolStatus::Completed));
    assert_eq!(state.input.as_ref().unwrap().text_at(&["command"]).unwrap(), "ls");
    assert_eq!(state.time.as_ref().unwrap().end, Some(1_766_578_087_100));
    assert_eq!(Document::new(&Part::Tool(tool)).text(), TOOL_PART);
}

#[test]
fn a_new_message_has_the_key_order_of_opencode() {
    let message = AssistantMessage {
        id: Some("msg_b50426000001AAAAAAAAAAAAAA".into()),
        session_id: Some("ses_4afbda00cffeVl5YERm4op7JEG".into()),
        time: Some(MessageTime { created: Some(1_766_578_085_888), completed: Some(1_766_578_089_000) }),
        parent_id: Some("msg_b50425ff7001vgFiMUNFzLtCda".into()),
        model_id: Some("claude-opus-4-5".into()),
        provider_id: Some("anthropic".into()),
        mode: Some("build".into()),
        agent: Some("build".into()),
        path: Some(MessagePath { cwd: Some("/home/u/proj".into()), root: Some("/home/u/proj".into()) }),
        cost: Some(0.0123),
        tokens: Some(Tokens {
            total: Some(1210.0),
            input: Some(10.0),
            output: Some(200.0),
            reasoning: Some(0.0),
            cache: Some(CacheTokens { read: Some(1000.0), write: Some(0.0) }),
        }),
        finish: Some("tool-calls".into()),
        ..Default::default()
    };
    let text = r#"{
  "id": "msg_b50426000001AAAAAAAAAAAAAA",
  "sessionID": "ses_4afbda00cffeVl5YERm4op7JEG",
  "role": "assistant",
  "time": {
    "created": 1766578085888,
    "completed": 1766578089000
  },
  "parentID": "msg_b50425ff7001vgFiMUNFzLtCda",
  "modelID": "claude-opus-4-5",
  "providerID": "anthropic",
  "mode": "build",
  "agent": "build",
  "path": {
    "cwd": "/home/u/proj",
    "root": "/home/u/proj"
  },
  "cost": 0.0123,
  "tokens": {
    "total": 1210,
    "input": 10,
    "output": 200,
    "reasoning": 0,
    "cache": {
      "read": 1000,
      "write": 0
    }
  },
  "finish": "tool-calls"
}"#;
    let document = Document::new(&message);
    assert_eq!(document.text(), text);
    assert_eq!(document.lens::<Message<'_>>(), Message::Assistant(Box::new(message)));
}

#[test]
fn a_wrong_type_hides_one_field_only() {
    let document =
        parse(r#"{"id": 7, "title": "kept", "time": {"created": "noon", "updated": 12}, "parentID": null}"#);
    let session = document.lens::<Session<'_>>();
    assert_eq!(session.id, None);
    assert_eq!(session.title.unwrap(), "kept");
    assert_eq!(session.parent_id, None);
    let time = session.time.unwrap();
    assert_eq!((time.created, time.updated), (None, Some(12)));
}

#[test]
fn times_no_clock_can_show_are_absent() {
    for time in ["1e400", "-1e300", "9007199254740993000"] {
        let document = parse(&format!(r#"{{"time": {{"created": {time}}}}}"#));
        assert_eq!(document.lens::<Session<'_>>().time.unwrap().created, None, "{time}");
    }
}

#[test]
fn kinds_unknown_here_are_kept_as_such() {
    let document =
        parse(r#"{"id":"prt_1","type":"tool_wish","name":"read_file","input":{"path":"x"},"new":1}"#);
    let Part::Other(part) = document.lens::<Part<'_>>() else { panic!("an unknown part") };
    assert_eq!(part.kind.unwrap(), "tool_wish");
    assert_eq!(part.name.unwrap(), "read_file");
    let document = parse(r#"{"type":"tool","state":{"status":"paused"}}"#);
    let Part::Tool(tool) = document.lens::<Part<'_>>() else { panic!("a tool part") };
    assert_eq!(tool.state.unwrap().status(), None);
}

proptest! {
    #[test]
    fn no_document_makes_a_lens_panic(text in prop_oneof![any_json(), any_object()]) {
        let document = parse(&text);
        let _ = document.lens::<Project<'_>>();
        let _ = document.lens::<Session<'_>>();
        let _ = document.lens::<Message<'_>>();
        let _ = document.lens::<Part<'_>>();
        let _ = document.lens::<Vec<Todo<'_>>>();
        let _ = document.lens::<Vec<FileDiff<'_>>>();
        let _ = document.lens::<ShareRecord<'_>>();
    }

    /// What is written from a lens reads back as the same lens.
    #[test]
    fn a_lens_written_reads_back(title in ".*", directory in ".*", created: i32, archived in prop::option::of(0i64..2_000_000_000_000)) {
        let session = Session {
            id: Some("ses_1".into()),
            title: Some(title.as_str().into()),
            directory: Some(directory.as_str().into()),
            time: Some(SessionTime { created: Some(created.into()), archived, ..Default::default() }),
            ..Default::default()
        };
        let document = Document::new(&session);
        prop_assert_eq!(document.lens::<Session<'_>>(), session);
    }
}
