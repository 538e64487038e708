//! What the store remembers, and going back to it.

use insta::assert_snapshot;

use super::kit::{User, annals, write};

/// A session that was changed twice by OpenCode: a reply was added, then the first answer rewritten and the reply dropped.
fn changed() -> User {
    let user = User::new();
    user.write_session("36aaaaffe1", "Fix the cart", "It is empty", "one\\ntwo\\nthree");
    let _ = user.annals(&["sync"]).run().ok();
    user.write_session("36aaaaffe1", "Fix the empty cart", "It is empty", "one\\ntwo\\nthree");
    let reply = user.opencode().join("storage/message/ses_36aaaaffe1/msg_36aaaaffe13.json");
    let part = user.opencode().join("storage/part/msg_36aaaaffe13/prt_36aaaaffe13.json");
    std::fs::write(
        &reply,
        r#"{"id":"msg_36aaaaffe13","sessionID":"ses_36aaaaffe1","role":"user","agent":"build","time":{"created":1771950000003}}"#,
    )
    .unwrap();
    std::fs::create_dir_all(part.parent().unwrap()).unwrap();
    std::fs::write(
        &part,
        r#"{"id":"prt_36aaaaffe13","sessionID":"ses_36aaaaffe1","messageID":"msg_36aaaaffe13","type":"text","text":"Thanks!\nThat was quick."}"#,
    )
    .unwrap();
    let _ = user.later(10, &["sync"]).run().ok();
    std::fs::remove_file(&reply).unwrap();
    std::fs::remove_dir_all(part.parent().unwrap()).unwrap();
    user.write_session("36aaaaffe1", "Fix the empty cart", "It is empty", "one\\n2\\nthree\\nfour");
    let _ = user.later(20, &["sync"]).run().ok();
    user
}

#[test]
fn log_lists_revisions() {
    let user = changed();
    assert_snapshot!(user.later(30, &["log", "--revisions"]).run(), @"
    exit 0
    3  2026-02-25 12:23  +1 −2  sync · opencode/  Fix the empty cart
    2  2026-02-25 12:13  +3     sync · opencode/  Fix the empty cart
    1  2026-02-25 12:03  +5     sync · opencode/  Fix the empty cart
    -- stderr
    3 revisions
    ");
    assert_snapshot!(user.later(30, &["log", "--revisions", "cart"]).run(), @"
    exit 0
    3  2026-02-25 12:23  +1 −2  sync · opencode/
    2  2026-02-25 12:13  +3     sync · opencode/
    1  2026-02-25 12:03  +5     sync · opencode/
    -- stderr
    3 revisions
    ");
    assert_snapshot!(user.later(30, &["log", "--revisions", "-n", "1", "--json"]).run(), @r#"
    exit 0
    [
      {
        "revision": 3,
        "time": 1772022180000,
        "reason": "sync",
        "home": "HOME/.local/share/opencode",
        "written": 1,
        "deleted": 2,
        "sessions": [
          {
            "sessionID": "ses_36aaaaffe1",
            "written": 1,
            "deleted": 2
          }
        ]
      }
    ]
    "#);
    let since = user
        .later(30, &["log", "--revisions", "--since", "2026-02-25T12:10", "--until", "15m", "--json"])
        .run()
        .ok()
        .json();
    assert_eq!(since.as_array().unwrap().len(), 1, "{since}");
    assert_snapshot!(user.later(30, &["log", "--revisions", "nothing"]).run(), @r#"
    exit 1
    -- stderr
    error: no session matches "nothing"
    hint: looked at ids and titles of 1 session; `annals list` shows them
    "#);
}

#[test]
fn diff_shows_what_changed() {
    let user = changed();
    let last = user.later(30, &["log", "--revisions", "-n", "1", "--json"]).run().ok().json()[0]["revision"]
        .as_i64()
        .unwrap();
    let first = user.later(30, &["log", "--revisions", "cart", "--json"]).run().ok().json();
    let first = first.as_array().unwrap().last().unwrap()["revision"].as_i64().unwrap();
    assert_snapshot!(user.later(30, &["diff", "cart", &format!("{first}..{}", last - 1)]).run(), @r#"
    exit 0
    Fix the empty cart
    ses_36aaaaffe1 · revision 1, 2026-02-25 12:03 → revision 2, 2026-02-25 12:13

    ~ session
        │ title: "Fix the cart" → "Fix the empty cart"

    + msg_36aaaaffe13 · you · 2026-02-24 16:20:00
      + prt_36aaaaffe13 · text
        │ +Thanks!
        │ +That was quick.
    -- stderr
    2 added, 0 removed, 1 changed
    "#);
    assert_snapshot!(user.later(30, &["diff", "cart", &format!("{}..", last - 1)]).run(), @"
    exit 0
    Fix the empty cart
    ses_36aaaaffe1 · revision 2, 2026-02-25 12:13 → now

      msg_36aaaaffe12 · lab-large · 2026-02-24 16:20:00
      ~ prt_36aaaaffe12 · text
        │ text:
        │  one
        │ -two
        │ -three
        │ +2
        │ +three
        │ +four

    - msg_36aaaaffe13 · you · 2026-02-24 16:20:00
      - prt_36aaaaffe13 · text
        │ -Thanks!
        │ -That was quick.
    -- stderr
    0 added, 2 removed, 1 changed
    ");
    assert_snapshot!(user.later(30, &["diff", "cart", "2026-02-25T12:05"]).run(), @r#"
    exit 0
    Fix the empty cart
    ses_36aaaaffe1 · 2026-02-25 12:05 → now

    ~ session
        │ title: "Fix the cart" → "Fix the empty cart"

      msg_36aaaaffe12 · lab-large · 2026-02-24 16:20:00
      ~ prt_36aaaaffe12 · text
        │ text:
        │  one
        │ -two
        │ -three
        │ +2
        │ +three
        │ +four
    -- stderr
    0 added, 0 removed, 2 changed
    "#);
    assert_snapshot!(user.later(30, &["diff", "cart", &last.to_string()]).run(), @"
    exit 0
    Fix the empty cart
    ses_36aaaaffe1 · revision 3, 2026-02-25 12:23 → now
    -- stderr
    0 added, 0 removed, 0 changed
    ");
    assert_snapshot!(user.later(30, &["diff", "cart", "2026-02-25T12:05..15m", "--json"]).run(), @r#"
    exit 0
    [
      {
        "change": "changed",
        "kind": "session",
        "sessionID": "ses_36aaaaffe1",
        "messageID": null,
        "partID": null,
        "before": {
          "id": "ses_36aaaaffe1",
          "projectID": "global",
          "directory": "/home/dev",
          "title": "Fix the cart",
          "version": "1.1.65",
          "time": {
            "created": 1771950000000,
            "updated": 1771950000000
          }
        },
        "after": {
          "id": "ses_36aaaaffe1",
          "projectID": "global",
          "directory": "/home/dev",
          "title": "Fix the empty cart",
          "version": "1.1.65",
          "time": {
            "created": 1771950000000,
            "updated": 1771950000000
          }
        },
        "inProgress": false
      },
      {
        "change": "added",
        "kind": "message",
        "sessionID": "ses_36aaaaffe1",
        "messageID": "msg_36aaaaffe13",
        "partID": null,
        "before": null,
        "after": {
          "id": "msg_36aaaaffe13",
          "sessionID": "ses_36aaaaffe1",
          "role": "user",
          "agent": "build",
          "time": {
            "created": 1771950000003
          }
        },
        "inProgress": false
      },
      {
        "change": "added",
        "kind": "part",
        "sessionID": "ses_36aaaaffe1",
        "messageID": "msg_36aaaaffe13",
        "partID": "prt_36aaaaffe13",
        "before": null,
        "after": {
          "id": "prt_36aaaaffe13",
          "sessionID": "ses_36aaaaffe1",
          "messageID": "msg_36aaaaffe13",
          "type": "text",
          "text": "Thanks!\nThat was quick."
        },
        "inProgress": false
      }
    ]
    "#);
    assert!(user.later(30, &["diff", "cart", "..1m"]).run().ok().text().contains("the beginning"));
    assert_snapshot!(user.later(30, &["diff", "cart", "soon..later"]).run(), @r#"
    exit 2
    -- stderr
    error: "soon" is neither a revision nor a time
    hint: `annals log --revisions` lists revision numbers; times look like 2026-02-01, 2026-02-01T10:00, 2026-02, 7d, 12h, today, monday or "last week"
    "#);
    assert_snapshot!(user.later(30, &["diff", "cart", "99"]).run(), @"
    exit 1
    -- stderr
    error: there is no revision 99
    hint: the last one is 3; `annals log --revisions` lists them
    ");
}

#[test]
fn a_session_is_shown_as_it_was() {
    let user = changed();
    assert_snapshot!(user.later(30, &["show", "cart", "--at", "2026-02-25T12:05"]).run(), @"
    exit 0
    as of 2026-02-25 12:05
    Fix the cart
    ses_36aaaaffe1 · /home/dev · 2026-02-24 16:20
    2 messages · lab/lab-large

    1. You to build                                                         16:20:00
    ▌ It is empty

      one
      two
      three

      build · lab/lab-large · 0ms
    ");
    assert_snapshot!(user.later(30, &["show", "cart", "--at", "12m"]).run(), @"
    exit 0
    as of 2026-02-25 12:21
    Fix the empty cart
    ses_36aaaaffe1 · /home/dev · 2026-02-24 16:20
    3 messages · lab/lab-large

    1. You to build                                                         16:20:00
    ▌ It is empty

      one
      two
      three

      build · lab/lab-large · 0ms

    2. You to build                                                         16:20:00
    ▌ Thanks!
    ▌ That was quick.
    ");
    let exported = user.later(30, &["export", "cart", "--at", "12m"]).run().ok().json();
    assert_eq!(exported["messages"].as_array().unwrap().len(), 3);
    let now = user.later(30, &["export", "cart"]).run().ok().json();
    assert_eq!(now["messages"].as_array().unwrap().len(), 2);
    assert_snapshot!(user.later(30, &["show", "cart", "--at", "2026-01-01"]).run(), @"
    exit 1
    -- stderr
    error: session ses_36aaaaffe1 is not in the store as of 2026-01-01 00:00
    hint: its first revision is 1, 2026-02-25 12:03; `annals log --revisions ses_36aaaaffe1` lists them all
    ");
    assert_snapshot!(user.later(30, &["show", "cart", "--at", "77"]).run(), @"
    exit 1
    -- stderr
    error: there is no revision 77
    hint: the last one is 3; `annals log --revisions` lists them
    ");
    assert_snapshot!(user.later(30, &["show", "other", "--at", "1m"]).run(), @r#"
    exit 1
    -- stderr
    error: no session matches "other"
    hint: looked at ids and titles of 1 session; `annals list` shows them
    "#);
}

#[test]
fn a_session_is_restored_and_that_is_undone_and_redone() {
    let user = changed();
    let files = || {
        let mut files = user.files();
        files.retain(|path, _| !path.iter().any(|name| name == ".annals"));
        files
    };
    let before = files();
    let messages = |minutes: i64| {
        let exported = user.later(minutes, &["export", "cart"]).run().ok().json();
        exported["messages"].as_array().unwrap().len()
    };
    assert_snapshot!(user.later(30, &["restore", "cart"]).run(), @"
    exit 2
    -- stderr
    error: session ses_36aaaaffe1 exists: choose the revision to restore with `--at`
    hint: `annals log --revisions ses_36aaaaffe1` lists its revisions
    ");
    assert_snapshot!(user.later(30, &["restore", "cart", "--at", "15m"]).run(), @"
    exit 0
    -- stderr
    ses_36aaaaffe1 is now as it was at 2026-02-25 12:18
    3 documents written, 0 deleted
      in HOME/.local/share/opencode
    operation 1; `annals undo 1` takes it back
    ");
    assert_eq!(messages(31), 3);
    assert_snapshot!(user.later(32, &["restore", "cart", "--at", "1m"]).run(), @"
    exit 0
    -- stderr
    ses_36aaaaffe1 is already as it was at 2026-02-25 12:34
    ");
    assert_snapshot!(user.later(33, &["undo"]).run(), @"
    exit 0
    -- stderr
    undid operation 1 of 2026-02-25 12:33: restore cart --at 15m
      in HOME/.local/share/opencode
    operation 2; `annals undo 2` does it again
    ");
    assert_eq!(messages(34), 2);
    let redone = user.later(35, &["undo", "2", "--json"]).run().ok().json();
    assert_eq!((&redone["undoneOperation"], &redone["kind"]), (&2.into(), &"undo".into()), "{redone}");
    assert_eq!(messages(36), 3);
    // OpenCode's home went along, and goes back byte for byte.
    assert!(files() != before);
    let _ = user.later(37, &["undo", "3"]).run().ok();
    assert!(files() == before);
    let _ = user.later(37, &["sync", "--full"]).run().ok();
    assert_eq!(messages(37), 2);
}

#[test]
fn an_undo_that_cannot_be() {
    let user = changed();
    assert_snapshot!(user.later(30, &["undo"]).run(), @"
    exit 1
    -- stderr
    error: there is no operation to undo
    hint: `annals log --revisions` lists what sync brought; `annals undo --revision REV` undoes it
    ");
    assert_snapshot!(user.later(30, &["undo", "--revision", "99"]).run(), @"
    exit 1
    -- stderr
    error: there is no revision 99
    hint: the last one is 3; `annals log --revisions` lists them
    ");
    let first = user.later(30, &["log", "--revisions", "cart", "--json"]).run().ok().json();
    let first = first.as_array().unwrap().last().unwrap()["revision"].to_string();
    assert_snapshot!(user.later(30, &["undo", "--revision", &first]).run(), @"
    exit 1
    -- stderr
    error: revision 1 cannot be undone: session ses_36aaaaffe1 was changed again by a later revision
      revision 3: sync
      revision 2: sync
    hint: nothing was changed; undo what came later first, or `annals restore ses_36aaaaffe1 --at REV`
    ");
}

#[test]
fn what_sync_found_can_be_undone_by_number() {
    let user = changed();
    let last = user.later(30, &["log", "--revisions", "-n", "1", "--json"]).run().ok().json()[0]["revision"]
        .to_string();
    assert_snapshot!(user.later(30, &["undo", "--revision", &last]).run(), @"
    exit 0
    -- stderr
    undid revision 3 of 2026-02-25 12:23: sync
    3 documents written, 0 deleted: revision 4, which `annals undo --revision 4` takes back
    only the store has changed; OpenCode's own home is as it was
    ");
    let exported = user.later(31, &["export", "cart"]).run().ok().json();
    assert_eq!(exported["messages"].as_array().unwrap().len(), 3);
}

#[test]
fn a_session_deleted_from_the_store_comes_back() {
    let user = changed();
    let store = user.store().display().to_string();
    let _ = user.later(30, &["rm", "--yes", "cart", "--home", &store]).run().ok();
    assert_snapshot!(user.later(31, &["show", "cart", "--home", &store]).run(), @r#"
    exit 1
    -- stderr
    error: no session matches "cart"
    hint: there are no sessions here
    "#);
    assert!(
        user.later(31, &["log", "--revisions", "cart", "--home", &store])
            .run()
            .ok()
            .text()
            .contains("rm --yes cart")
    );
    assert_snapshot!(user.later(31, &["restore", "cart", "--home", &store]).run(), @"
    exit 0
    -- stderr
    ses_36aaaaffe1 is now as it was at revision 3, 2026-02-25 12:23
    5 documents written, 0 deleted
      in the store only: no home of OpenCode that can be reached has it
    operation 2; `annals undo 2` takes it back
    ");
    assert!(user.later(32, &["show", "cart", "--home", &store]).run().ok().text().contains("2\n"));
}

#[test]
fn homes_of_opencode_keep_no_history() {
    let user = changed();
    for arguments in [
        &["log"][..],
        &["diff", "cart", "1"],
        &["undo"],
        &["restore", "cart"],
        &["show", "cart", "--at", "1"],
        &["export", "cart", "--at", "1"],
        &["prune", "--older-than", "1d"],
    ] {
        let ran = annals(&user.opencode(), arguments).run();
        assert_eq!(ran.code, 1, "{arguments:?}: {ran}");
        assert!(ran.stderr.contains("keeps no history\nhint: this needs a store of annals"), "{ran}");
    }
    let several = user.annals(&["--home", "a", "--home", "b", "log"]).run();
    assert_eq!(several.code, 2, "{several}");
}

/// Writes an answer with a text and a tool call, as OpenCode 1.1 does while it goes on: `text` is what was streamed so far, and
/// `end` is when it ended.
fn answer(user: &User, text: &str, printed: &str, end: Option<i64>) {
    let ids = r#""sessionID":"ses_36bbbbffe1","messageID":"msg_36bbbbffe12""#;
    let (completed, ended, state) = match end {
        None => (
            r#""cost":0,"tokens":{"input":0,"output":0,"reasoning":0,"cache":{"read":0,"write":0}},"time":{"created":1772020975000}"#.to_owned(),
            r#""time":{"start":1772020976000}"#.to_owned(),
            format!(r#""status":"running","input":{{"command":"npm test"}},"metadata":{{"output":"{printed}"}},"time":{{"start":1772020977000}}"#),
        ),
        Some(end) => (
            format!(r#""cost":0.25,"tokens":{{"input":10,"output":20,"reasoning":0,"cache":{{"read":0,"write":0}}}},"finish":"stop","time":{{"created":1772020975000,"completed":{end}}}"#),
            format!(r#""time":{{"start":{end},"end":{end}}}"#),
            format!(r#""status":"completed","input":{{"command":"npm test"}},"output":"{printed}","title":"npm test","metadata":{{"output":"{printed}","exit":0}},"time":{{"start":1772020977000,"end":{end}}}"#),
        ),
    };
    let home = user.opencode();
    write(
        &home,
        "storage/message/ses_36bbbbffe1/msg_36bbbbffe12.json",
        format!(
            r#"{{"id":"msg_36bbbbffe12","sessionID":"ses_36bbbbffe1","role":"assistant","parentID":"msg_36bbbbffe11","agent":"build","providerID":"lab","modelID":"lab-large",{completed}}}"#
        ),
    );
    write(
        &home,
        "storage/part/msg_36bbbbffe12/prt_36bbbbffe12.json",
        format!(r#"{{"id":"prt_36bbbbffe12",{ids},"type":"text","text":"{text}",{ended}}}"#),
    );
    write(
        &home,
        "storage/part/msg_36bbbbffe12/prt_36bbbbffe13.json",
        format!(
            r#"{{"id":"prt_36bbbbffe13",{ids},"type":"tool","callID":"c1","tool":"bash","state":{{{state}}}}}"#
        ),
    );
}

/// An answer that three syncs saw in progress and a fourth saw finished.
fn streamed() -> User {
    let user = User::new();
    user.write_session("36bbbbffe1", "Run the tests", "Run them", "unused");
    answer(&user, "I will", "1 ok", None);
    let _ = user.annals(&["sync"]).run().ok();
    for (minutes, text, printed) in
        [(1, "I will run", "1 ok\\n2 ok"), (2, "I will run the", "1 ok\\n2 ok\\n3 ok")]
    {
        answer(&user, text, printed, None);
        let _ = user.later(minutes, &["sync"]).run().ok();
    }
    answer(&user, "I will run the tests.", "1 ok\\n2 ok\\n3 ok\\nall passed", Some(1_772_021_150_000));
    let _ = user.later(3, &["sync"]).run().ok();
    user
}

/// Review B12: a moment in the middle of an answer showed how it ended.
#[test]
fn a_moment_in_the_middle_of_an_answer_does_not_show_its_end() {
    let user = streamed();
    assert_snapshot!(user.later(30, &["log", "--revisions", "tests"]).run(), @"
    exit 0
    4  2026-02-25 12:06  +3   sync · opencode/
    3  2026-02-25 12:05  +2   sync · opencode/
    2  2026-02-25 12:04  +2   sync · opencode/
    1  2026-02-25 12:03  +6   sync · opencode/
    -- stderr
    4 revisions
    ");
    assert_snapshot!(user.later(30, &["show", "tests", "--at", "2"]).run(), @"
    exit 0
    as of revision 2, 2026-02-25 12:04
    Run the tests
    ses_36bbbbffe1 · /home/dev · 2026-02-24 16:20
    2 messages · lab/lab-large

    1. You to build                                                         16:20:00
    ▌ Run them

      … in progress then; its text up to that point is not kept

      ● bash  npm test                                                       running
        │ in progress then; its output up to that point is not kept
      ● at work

      build · lab/lab-large
    ");
    assert_snapshot!(user.later(30, &["show", "tests", "--at", "4"]).run(), @"
    exit 0
    as of revision 4, 2026-02-25 12:06
    Run the tests
    ses_36bbbbffe1 · /home/dev · 2026-02-24 16:20
    2 messages · 30 tokens · context 30 · $0.25 · lab/lab-large

    1. You to build                                                         16:20:00
    ▌ Run them

      I will run the tests.

      ✓ bash  npm test                                                         2m53s
        │ 1 ok
        │ 2 ok
        │ 3 ok
        │ all passed

      build · lab/lab-large · 10 in · 20 out · $0.25 · 2m55s
    ");
    for arguments in [
        &["show", "tests", "--at", "2", "--json"][..],
        &["show", "tests", "--at", "2", "--raw"],
        &["export", "tests", "--at", "2"],
        &["export", "tests", "--at", "2", "--format", "jsonl"],
        &["export", "tests", "--at", "2", "--format", "markdown"],
    ] {
        let ran = user.later(30, arguments).run().ok();
        for later in ["the tests.", "passed", "0.25", "1772021150000"] {
            assert!(!ran.text().contains(later), "{arguments:?} shows {later:?}: {ran}");
        }
        assert!(ran.stderr.contains("3 documents were in progress then"), "{arguments:?}: {ran}");
    }
}

#[test]
fn a_difference_says_what_went_on() {
    let user = streamed();
    assert_snapshot!(user.later(30, &["diff", "tests", "2..3"]).run(), @"
    exit 0
    Run the tests
    ses_36bbbbffe1 · revision 2, 2026-02-25 12:04 → revision 3, 2026-02-25 12:05

      msg_36bbbbffe12 · lab-large · 2026-02-25 12:02:55
      ~ prt_36bbbbffe12 · text
        │ continued; its text in between is not kept
      ~ prt_36bbbbffe13 · bash npm test · running
        │ continued; its text in between is not kept
    -- stderr
    0 added, 0 removed, 2 changed
    ");
    assert_snapshot!(user.later(30, &["diff", "tests", "2..4"]).run(), @"
    exit 0
    Run the tests
    ses_36bbbbffe1 · revision 2, 2026-02-25 12:04 → revision 4, 2026-02-25 12:06

    ~ msg_36bbbbffe12 · lab-large · 2026-02-25 12:02:55
        │ continued; the states in between are not kept
      ~ prt_36bbbbffe12 · text
        │ continued; its text in between is not kept
        │ +I will run the tests.
      ~ prt_36bbbbffe13 · bash npm test · completed
        │ continued; its text in between is not kept
    -- stderr
    0 added, 0 removed, 3 changed
    ");
    assert_snapshot!(user.later(30, &["diff", "tests", "..1"]).run(), @"
    exit 0
    Run the tests
    ses_36bbbbffe1 · the beginning → revision 1, 2026-02-25 12:03

    + session

    + msg_36bbbbffe11 · you · 2026-02-24 16:20:00
      + prt_36bbbbffe11 · text
        │ +Run them

    + msg_36bbbbffe12 · lab-large · 2026-02-25 12:02:55
        │ in progress then; its text is not kept
      + prt_36bbbbffe12 · text
        │ in progress then; its text is not kept
      + prt_36bbbbffe13 · bash npm test · running
        │ in progress then; its text is not kept
    -- stderr
    6 added, 0 removed, 0 changed
    ");
    let changes = user.later(30, &["diff", "tests", "2..3", "--json"]).run().ok().json();
    assert_eq!(changes.as_array().unwrap().len(), 2, "{changes}");
    for changed in changes.as_array().unwrap() {
        assert_eq!((&changed["change"], &changed["inProgress"]), (&"changed".into(), &true.into()));
    }
    assert_snapshot!(user.later(30, &["diff", "tests", "4"]).run(), @"
    exit 0
    Run the tests
    ses_36bbbbffe1 · revision 4, 2026-02-25 12:06 → now
    -- stderr
    0 added, 0 removed, 0 changed
    ");
}

#[test]
fn nothing_made_up_is_brought_back() {
    let user = streamed();
    assert_snapshot!(user.later(30, &["undo", "--revision", "2"]).run(), @"
    exit 1
    -- stderr
    error: revision 2 cannot be undone: what part prt_36bbbbffe12 was then is not kept: it was being written, or was pruned since
    hint: nothing was changed; `annals restore ses_36bbbbffe1 --at REV` goes back to a state that is kept
    ");
    assert_snapshot!(user.later(30, &["restore", "tests", "--at", "2"]).run(), @"
    exit 0
    -- stderr
    ses_36bbbbffe1 is already as it was at revision 2, 2026-02-25 12:04
    note: 3 documents were in progress then; each has its finished content, because its content then is not kept
    ");
    user.write_session("36bbbbffe1", "Run the tests", "Run them", "Something else");
    let _ = user.later(31, &["sync"]).run().ok();
    assert_snapshot!(user.later(32, &["restore", "tests", "--at", "2"]).run(), @"
    exit 0
    -- stderr
    ses_36bbbbffe1 is now as it was at revision 2, 2026-02-25 12:04
    2 documents written, 0 deleted
      in HOME/.local/share/opencode
    operation 1; `annals undo 1` takes it back
    note: 3 documents were in progress then; each has its finished content, because its content then is not kept
    ");
    let exported = user.later(33, &["export", "tests"]).run().ok().text();
    assert!(exported.contains("I will run the tests."), "{exported}");
    // In the past as well: another state came after it.
    let then = user.later(33, &["show", "tests", "--at", "2"]).run().ok();
    assert!(then.text().contains("in progress then; its text"), "{then}");
}

/// Seed rows 40, 58 and 96: a prompt that was only made longer lost its earlier wording.
#[test]
fn a_longer_prompt_is_an_edit_and_both_wordings_are_kept() {
    let user = User::new();
    user.write_session("36aaaaffe1", "Fix the cart", "speed it up", "Done.");
    let _ = user.annals(&["sync"]).run().ok();
    user.write_session("36aaaaffe1", "Fix the cart", "speed it up and add tests", "Done.");
    let _ = user.later(1, &["sync"]).run().ok();
    assert_snapshot!(user.later(30, &["diff", "cart", "1..2"]).run(), @r#"
    exit 0
    Fix the cart
    ses_36aaaaffe1 · revision 1, 2026-02-25 12:03 → revision 2, 2026-02-25 12:04

      msg_36aaaaffe11 · you · 2026-02-24 16:20:00
      ~ prt_36aaaaffe11 · text
        │ text: "speed it up" → "speed it up and add tests"
    -- stderr
    0 added, 0 removed, 1 changed
    "#);
    let then = user.later(30, &["show", "cart", "--at", "1"]).run().ok().text();
    assert!(then.contains("speed it up\n"), "{then}");
    let undone = user.later(30, &["undo", "--revision", "2"]).run();
    assert_eq!(undone.code, 0, "{undone}");
    let now = user.later(31, &["show", "cart"]).run().ok().text();
    assert!(now.contains("speed it up\n"), "{now}");
}

/// Review W5: one sync with a clock that was 400 days ahead dated everything after it.
#[test]
fn a_clock_that_was_ahead_once_is_noticed() {
    let user = User::new();
    user.write_session("36aaaaffe1", "First", "It is empty", "one");
    let _ = user.annals(&["sync"]).run().ok();
    user.write_session("36aaaaffe1", "Second", "It is empty", "one");
    let _ = user.later(400 * 24 * 60, &["sync"]).run().ok();
    user.write_session("36aaaaffe1", "Third", "It is empty", "one");
    let _ = user.later(10, &["sync"]).run().ok();
    assert_snapshot!(user.later(30, &["log", "--revisions", "last"]).run(), @"
    exit 0
    3  2026-02-25 12:13  +1   sync · opencode/
    2  2026-02-25 12:03  +1   sync · opencode/
    1  2026-02-25 12:03  +5   sync · opencode/
    -- stderr
    3 revisions
    ");
    let then = user.later(60 * 24 * 60, &["show", "last", "--at", "2026-04-01"]).run().ok().text();
    assert!(then.contains("Third"), "{then}");
}

/// Review, "Smaller": 4, 2, 813, 815, 814, 812 looked like no order at all.
#[test]
fn the_order_of_what_was_learnt_later_can_be_seen() {
    let user = User::with("small-1.18.33");
    // The fixture is of that autumn.
    let autumn = 300 * 24 * 60;
    let _ = user.later(autumn, &["sync", "--events"]).run().ok();
    let log = user.later(autumn + 1, &["log", "--revisions", "last"]).run().ok();
    assert!(log.stderr.contains("the latest first; a revision that was found later"), "{log}");
    let text = log.text();
    let column = |line: &str, n: usize| line.split_whitespace().nth(n).unwrap().to_owned();
    let numbers: Vec<i64> = text.lines().map(|line| column(line, 0).parse().unwrap()).collect();
    assert!(!numbers.is_sorted_by(|later, earlier| later > earlier), "{log}");
    let times: Vec<String> =
        text.lines().map(|line| format!("{} {}", column(line, 1), column(line, 2))).collect();
    assert!(times.iter().all(|time| time.len() == "2026-02-25 12:03:00".len()), "{log}");
    assert!(times.is_sorted_by(|later, earlier| later >= earlier), "{log}");
}
