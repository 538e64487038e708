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
    assert_snapshot!(user.later(30, &["log"]).run(), @"");
    assert_snapshot!(user.later(30, &["log", "cart"]).run(), @"");
    assert_snapshot!(user.later(30, &["log", "-n", "1", "--json"]).run(), @"");
    let since =
        user.later(30, &["log", "--since", "2026-02-25T12:10", "--until", "15m", "--json"]).run().ok().json();
    assert_eq!(since.as_array().unwrap().len(), 1, "{since}");
    assert_snapshot!(user.later(30, &["log", "nothing"]).run(), @"");
}

#[test]
fn diff_shows_what_changed() {
    let user = changed();
    let last =
        user.later(30, &["log", "-n", "1", "--json"]).run().ok().json()[0]["revision"].as_i64().unwrap();
    let first = user.later(30, &["log", "cart", "--json"]).run().ok().json();
    let first = first.as_array().unwrap().last().unwrap()["revision"].as_i64().unwrap();
    assert_snapshot!(user.later(30, &["diff", "cart", &format!("{first}..{}", last - 1)]).run(), @"");
    assert_snapshot!(user.later(30, &["diff", "cart", &format!("{}..", last - 1)]).run(), @"");
    assert_snapshot!(user.later(30, &["diff", "cart", "2026-02-25T12:05"]).run(), @"");
    assert_snapshot!(user.later(30, &["diff", "cart", &last.to_string()]).run(), @"");
    assert_snapshot!(user.later(30, &["diff", "cart", "2026-02-25T12:05..15m", "--json"]).run(), @"");
    assert!(user.later(30, &["diff", "cart", "..1m"]).run().ok().text().contains("the beginning"));
    assert_snapshot!(user.later(30, &["diff", "cart", "soon..later"]).run(), @"");
    assert_snapshot!(user.later(30, &["diff", "cart", "99"]).run(), @"");
}

#[test]
fn a_session_is_shown_as_it_was() {
    let user = changed();
    assert_snapshot!(user.later(30, &["show", "cart", "--at", "2026-02-25T12:05"]).run(), @"");
    assert_snapshot!(user.later(30, &["show", "cart", "--at", "12m"]).run(), @"");
    let exported = user.later(30, &["export", "cart", "--at", "12m"]).run().ok().json();
    assert_eq!(exported["messages"].as_array().unwrap().len(), 3);
    let now = user.later(30, &["export", "cart"]).run().ok().json();
    assert_eq!(now["messages"].as_array().unwrap().len(), 2);
    assert_snapshot!(user.later(30, &["show", "cart", "--at", "2026-01-01"]).run(), @"");
    assert_snapshot!(user.later(30, &["show", "cart", "--at", "77"]).run(), @"");
    assert_snapshot!(user.later(30, &["show", "other", "--at", "1m"]).run(), @"");
}

#[test]
fn a_session_is_restored_and_that_is_undone_and_redone() {
    let user = changed();
    let before = user.files();
    let messages = |minutes: i64| {
        let exported = user.later(minutes, &["export", "cart"]).run().ok().json();
        exported["messages"].as_array().unwrap().len()
    };
    assert_snapshot!(user.later(30, &["restore", "cart"]).run(), @"");
    assert_snapshot!(user.later(30, &["restore", "cart", "--at", "15m"]).run(), @"");
    assert_eq!(messages(31), 3);
    assert_snapshot!(user.later(32, &["restore", "cart", "--at", "1m"]).run(), @"");
    assert_snapshot!(user.later(33, &["undo"]).run(), @"");
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
    assert_snapshot!(user.later(30, &["undo"]).run(), @"");
    assert_snapshot!(user.later(30, &["undo", "99"]).run(), @"");
    let first = user.later(30, &["log", "cart", "--json"]).run().ok().json();
    let first = first.as_array().unwrap().last().unwrap()["revision"].to_string();
    assert_snapshot!(user.later(30, &["undo", &first]).run(), @"");
}

#[test]
fn what_sync_found_can_be_undone_by_number() {
    let user = changed();
    let last = user.later(30, &["log", "-n", "1", "--json"]).run().ok().json()[0]["revision"].to_string();
    assert_snapshot!(user.later(30, &["undo", &last]).run(), @"");
    let exported = user.later(31, &["export", "cart"]).run().ok().json();
    assert_eq!(exported["messages"].as_array().unwrap().len(), 3);
}

#[test]
fn a_session_deleted_from_the_store_comes_back() {
    let user = changed();
    let store = user.store().display().to_string();
    let _ = user.later(30, &["rm", "cart", "--home", &store]).run().ok();
    assert_snapshot!(user.later(31, &["show", "cart", "--home", &store]).run(), @"");
    assert!(
        user.later(31, &["log", "cart", "--home", &store]).run().ok().text().contains("delete a session")
    );
    assert_snapshot!(user.later(31, &["restore", "cart", "--home", &store]).run(), @"");
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
