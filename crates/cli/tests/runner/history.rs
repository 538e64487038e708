//! What the store remembers, and going back to it.

use insta::assert_snapshot;

use super::kit::{User, annals};

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
    assert_snapshot!(user.later(30, &["log"]).run(), @"
    exit 0
    3  2026-02-25 12:23  +1 −2  sync · opencode/  Fix the empty cart
    2  2026-02-25 12:13  +3     sync · opencode/  Fix the empty cart
    1  2026-02-25 12:03  +5     sync · opencode/  Fix the empty cart
    -- stderr
    3 revisions
    ");
    assert_snapshot!(user.later(30, &["log", "cart"]).run(), @"
    exit 0
    3  2026-02-25 12:23  +1 −2  sync · opencode/
    2  2026-02-25 12:13  +3     sync · opencode/
    1  2026-02-25 12:03  +5     sync · opencode/
    -- stderr
    3 revisions
    ");
    assert_snapshot!(user.later(30, &["log", "-n", "1", "--json"]).run(), @r#"
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
    let since =
        user.later(30, &["log", "--since", "2026-02-25T12:10", "--until", "15m", "--json"]).run().ok().json();
    assert_eq!(since.as_array().unwrap().len(), 1, "{since}");
    assert_snapshot!(user.later(30, &["log", "nothing"]).run(), @r#"
    exit 1
    -- stderr
    error: no session matches "nothing"
    hint: looked at ids and titles of 1 session; `annals list` shows them
    "#);
}

#[test]
fn diff_shows_what_changed() {
    let user = changed();
    let last =
        user.later(30, &["log", "-n", "1", "--json"]).run().ok().json()[0]["revision"].as_i64().unwrap();
    let first = user.later(30, &["log", "cart", "--json"]).run().ok().json();
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
        }
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
        }
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
        }
      }
    ]
    "#);
    assert!(user.later(30, &["diff", "cart", "..1m"]).run().ok().text().contains("the beginning"));
    assert_snapshot!(user.later(30, &["diff", "cart", "soon..later"]).run(), @r#"
    exit 2
    -- stderr
    error: "soon" is neither a revision nor a time
    hint: `annals log` has the numbers of revisions; times look like 2026-02-01, 2026-02-01T10:00, 7d, 12h, today or yesterday
    "#);
    assert_snapshot!(user.later(30, &["diff", "cart", "99"]).run(), @"
    exit 1
    -- stderr
    error: there is no revision 99
    hint: the last one is 3; `annals log` lists them
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

    1. You to build                                                         16:20:00
    ▌ It is empty

      one
      two
      three

      build · lab/lab-large · 0 in · 0 out · $0 · 0ms
    ");
    assert_snapshot!(user.later(30, &["show", "cart", "--at", "12m"]).run(), @"
    exit 0
    as of 2026-02-25 12:21
    Fix the empty cart
    ses_36aaaaffe1 · /home/dev · 2026-02-24 16:20

    1. You to build                                                         16:20:00
    ▌ It is empty

      one
      two
      three

      build · lab/lab-large · 0 in · 0 out · $0 · 0ms

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
    hint: it has been since revision 1, 2026-02-25 12:03; `annals log ses_36aaaaffe1` lists its revisions
    ");
    assert_snapshot!(user.later(30, &["show", "cart", "--at", "77"]).run(), @"
    exit 1
    -- stderr
    error: there is no revision 77
    hint: the last one is 3; `annals log` lists them
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
    let before = user.files();
    let messages = |minutes: i64| {
        let exported = user.later(minutes, &["export", "cart"]).run().ok().json();
        exported["messages"].as_array().unwrap().len()
    };
    assert_snapshot!(user.later(30, &["restore", "cart"]).run(), @"
    exit 2
    -- stderr
    error: session ses_36aaaaffe1 is there; say what to make of it with `--at`
    hint: `annals log ses_36aaaaffe1` lists its revisions
    ");
    assert_snapshot!(user.later(30, &["restore", "cart", "--at", "15m"]).run(), @"
    exit 0
    -- stderr
    ses_36aaaaffe1 is again what it was at 2026-02-25 12:18
    3 documents written, 0 deleted: revision 4, which `annals undo 4` takes back
    ");
    assert_eq!(messages(31), 3);
    assert_snapshot!(user.later(32, &["restore", "cart", "--at", "1m"]).run(), @"
    exit 0
    -- stderr
    ses_36aaaaffe1 is what it was at 2026-02-25 12:34 already
    ");
    assert_snapshot!(user.later(33, &["undo"]).run(), @"
    exit 0
    -- stderr
    undid revision 4 of 2026-02-25 12:33: restore a session as of 2026-02-25 12:18
    1 document written, 2 deleted: revision 5, which `annals undo 5` takes back
    the store has changed; OpenCode's own home is as it was
    ");
    assert_eq!(messages(34), 2);
    let redone = user.later(35, &["undo", "--json"]).run().ok().json();
    assert_eq!(redone["reason"].as_str().unwrap().split(' ').next(), Some("undo"), "{redone}");
    assert_eq!(messages(36), 3);
    // All of that is the store's own; OpenCode was not touched, and what it does not change stays so.
    assert!(user.files() == before);
    let _ = user.later(37, &["sync", "--full"]).run().ok();
    assert_eq!(messages(37), 3);
}

#[test]
fn an_undo_that_cannot_be() {
    let user = changed();
    assert_snapshot!(user.later(30, &["undo"]).run(), @"
    exit 1
    -- stderr
    error: nothing was committed to the store here yet
    hint: what sync found is undone by its number: `annals undo REV`; `annals log` has the numbers
    ");
    assert_snapshot!(user.later(30, &["undo", "99"]).run(), @"
    exit 1
    -- stderr
    error: there is no revision 99
    hint: the last one is 3; `annals log` lists them
    ");
    let first = user.later(30, &["log", "cart", "--json"]).run().ok().json();
    let first = first.as_array().unwrap().last().unwrap()["revision"].to_string();
    assert_snapshot!(user.later(30, &["undo", &first]).run(), @"
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
    let last = user.later(30, &["log", "-n", "1", "--json"]).run().ok().json()[0]["revision"].to_string();
    assert_snapshot!(user.later(30, &["undo", &last]).run(), @"
    exit 0
    -- stderr
    undid revision 3 of 2026-02-25 12:23: sync
    3 documents written, 0 deleted: revision 4, which `annals undo 4` takes back
    the store has changed; OpenCode's own home is as it was
    ");
    let exported = user.later(31, &["export", "cart"]).run().ok().json();
    assert_eq!(exported["messages"].as_array().unwrap().len(), 3);
}

#[test]
fn a_session_deleted_from_the_store_comes_back() {
    let user = changed();
    let store = user.store().display().to_string();
    let _ = user.later(30, &["rm", "cart", "--home", &store]).run().ok();
    assert_snapshot!(user.later(31, &["show", "cart", "--home", &store]).run(), @r#"
    exit 1
    -- stderr
    error: no session matches "cart"
    hint: there are no sessions here
    "#);
    assert!(
        user.later(31, &["log", "cart", "--home", &store]).run().ok().text().contains("delete a session")
    );
    assert_snapshot!(user.later(31, &["restore", "cart", "--home", &store]).run(), @"
    exit 0
    -- stderr
    ses_36aaaaffe1 is again what it was at revision 3, 2026-02-25 12:23
    5 documents written, 0 deleted: revision 5, which `annals undo 5` takes back
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
        assert!(ran.stderr.contains("keeps no history\nhint: annals' own store does"), "{ran}");
    }
    let several = user.annals(&["--home", "a", "--home", "b", "log"]).run();
    assert_eq!(several.code, 2, "{several}");
}
