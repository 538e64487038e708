//! The dialect of the documents that described OpenCode first: shown as what it means, counted, and copied into a database that the real
//! OpenCode serves.

use annals_testkit::opencode::{Lab, OpenCode};
use insta::assert_snapshot;
use serde_json::json;

use super::kit::{User, annals, plain, text, write};

const SESSION: &str = "session_44c5";

/// A session in the dialect.
fn user() -> User {
    let user = User::new();
    let put = |path: &str, value: serde_json::Value| {
        write(&user.opencode(), &format!("storage/{path}"), value.to_string());
    };
    let model = json!({"providerID": "anthropic", "modelID": "claude-opus-4-5"});
    put(
        &format!("session/global/{SESSION}.json"),
        json!({"id": SESSION, "version": "1.0.193", "projectID": "global", "directory": "/home/me/pool", "title": "Claude capabilities",
            "time": {"created": 1_771_950_000_000_i64, "updated": 1_771_950_100_000_i64}, "summary": {"additions": 3, "deletions": 1, "files": 2}}),
    );
    put(
        &format!("message/{SESSION}/msg_1.json"),
        json!({"id": "msg_1", "sessionID": SESSION, "role": "user", "parentID": null, "time": {"created": 1_771_950_000_000_i64},
            "summary": {"title": "Exploring tools", "diffs": []}, "agent": "build", "model": model}),
    );
    put(
        &format!("message/{SESSION}/msg_2.json"),
        json!({"id": "msg_2", "sessionID": SESSION, "role": "assistant", "parentID": "msg_1", "agent": "default", "model": model,
            "time": {"created": 1_771_950_001_000_i64, "completed": 1_771_950_011_000_i64}, "finish": "end-turn", "cost": 0.5,
            "tokens": {"input": 100, "output": 50, "reasoning": 0, "cache": {"read": 0, "write": 0}}}),
    );
    let part = |message: &str, id: &str, mut part: serde_json::Value| {
        let own = json!({"id": id, "sessionID": SESSION, "messageID": message});
        part.as_object_mut().unwrap().extend(own.as_object().unwrap().clone());
        put(&format!("part/{message}/{id}.json"), part);
    };
    part("msg_1", "part_01", json!({"type": "text", "text": "what tools do you have?"}));
    part("msg_1", "part_02", json!({"type": "image", "url": "data:image/png;base64,QUJD"}));
    part("msg_2", "part_03", json!({"type": "thinking", "thinking": "Let me ponder zanzibar"}));
    part(
        "msg_2",
        "part_04",
        json!({"type": "tool_use", "name": "read_file", "input": {"path": "src/main.py"}}),
    );
    part("msg_2", "part_05", json!({"type": "tool_result", "tool_use_id": "toolu_9", "content": "one\ntwo"}));
    part(
        "msg_2",
        "part_06",
        json!({"type": "tool_use", "name": "bash", "tool_use_id": "toolu_7", "input": {"command": "false"}}),
    );
    part(
        "msg_2",
        "part_07",
        json!({"type": "tool_result", "tool_use_id": "toolu_7", "content": "exit 1", "is_error": true}),
    );
    part("msg_2", "part_08", json!({"type": "text", "text": "I can read files."}));
    user
}

#[test]
fn parts_are_shown_as_what_they_mean() {
    let user = user();
    assert_snapshot!(user.annals(&["show", "last"]).run(), @"
    exit 0
    Claude capabilities
    session_44c5 · /home/me/pool · 2026-02-24 16:21
    2 messages · 150 tokens · context 150 · $0.50 · 2 files changed, +3 −1 ·
    anthropic/claude-opus-4-5

    1. You to build                                                         16:20:00
    Exploring tools
    ▌ what tools do you have?
    ▌ + image/png

      ∴ Let me ponder zanzibar

      ✓ read_file  src/main.py
        │ one
        │ two

      ✗ bash  false
        │ exit 1

      I can read files.

      default · anthropic/claude-opus-4-5 · 100 in · 50 out · $0.50 · 10s

    annals resume session_44c5
    ");
    assert_snapshot!(user.annals(&["stats"]).run(), @"
    exit 0
    Sessions   1  with 2 messages and 8 parts, over 1 day
    Cost       $0.50  $0.50 a day
    Tokens     150  100 in · 50 out · 0 reasoning · 0 cache read · 0 cache written
    A session  150  tokens on average, 150 median

    MODEL                      SESSIONS   ANSWERS   TOKENS       COST
    anthropic/claude-opus-4-5         1         1      150      $0.50  █████████████

    TOOL         CALLS   SHARE   FAILED   MEDIAN
    bash             1   50.0%        -        -  ████████████████████████
    read_file        1   50.0%        -        -  ████████████████████████
    ");
    let listed = user.annals(&["list", "--json", "--model", "opus"]).run().ok().json();
    assert_eq!(listed.as_array().unwrap().len(), 1);
    let markdown = user.annals(&["export", "last", "--format", "markdown"]).run().ok().text();
    for said in
        ["**read_file** `src/main.py`", "> Let me ponder zanzibar", "one\ntwo", "*Attached: image/png*"]
    {
        assert!(markdown.contains(said), "{said}: {markdown}");
    }
}

#[test]
fn a_copy_is_served_by_the_real_one() {
    let user = user();
    for version in ["1.2.27", "1.18.33"] {
        let lab = Lab::new(&OpenCode::version(version));
        std::fs::create_dir_all(lab.data()).unwrap();
        let database = lab.data().join("opencode.db");
        let to = database.to_str().unwrap();
        let copied = user.annals(&["copy", SESSION, "--to", to, "--json"]).run().ok().json();
        assert_eq!(copied["quarantined"], 0, "{copied:#}");
        let again = user.annals(&["copy", SESSION, "--to", to, "--json"]).run().ok().json();
        assert_eq!((&again["copied"], &again["sessions"]["differing"]), (&json!(0), &json!(0)), "{again:#}");
        let scratch = lab.directory("scratch", &[("a.txt", "a\n")]);
        let server = lab.serve(&scratch);
        let messages = server.get(&format!("/session/{SESSION}/message"));
        server.stop();
        assert_eq!(messages[1]["info"]["modelID"], "claude-opus-4-5");
        let parts: Vec<(String, String)> = messages[1]["parts"]
            .as_array()
            .unwrap()
            .iter()
            .map(|part| (text(part, "id").to_owned(), text(part, "type").to_owned()))
            .collect();
        let part = |id: &str, kind: &str| (id.to_owned(), kind.to_owned());
        assert_eq!(
            parts,
            [
                part("prt_03", "reasoning"),
                part("prt_04", "tool"),
                part("prt_06", "tool"),
                part("prt_08", "text")
            ],
            "{version}"
        );
        let states: Vec<&str> = [1, 2].map(|n| text(&messages[1]["parts"][n]["state"], "status")).to_vec();
        assert_eq!(states, ["completed", "error"]);
        let shown = annals(&database, &["show", SESSION]).run().ok().text();
        assert!(shown.contains("read_file  src/main.py") && shown.contains("│ one"), "{shown}");
        let check = plain(user.root(), &["check", "--home", to, "--json"]).run().ok().json();
        assert_eq!(check["problems"], json!([]), "{version}: {check:#}");
    }
}
