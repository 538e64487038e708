//! What a user reads when something cannot be done.

use annals_testkit::Fixture;
use insta::assert_snapshot;

use super::kit::{annals, empty_home, plain, snapshot, text, write};

const TWO: &[(&str, &str)] = &[
    (
        "storage/session/global/ses_36aaaaffe1.json",
        r#"{"id":"ses_36aaaaffe1","title":"Fix the cart","time":{"created":1771950000000,"updated":1771950000000}}"#,
    ),
    (
        "storage/session/global/ses_36bbbbffe2.json",
        r#"{"id":"ses_36bbbbffe2","title":"Fix the door","time":{"created":1771960000000,"updated":1771960000000}}"#,
    ),
];

fn two_sessions() -> tempfile::TempDir {
    let home = empty_home();
    for (path, text) in TWO {
        write(home.path(), path, text);
    }
    home
}

#[test]
fn sessions_that_are_not_there_or_not_clear() {
    let home = two_sessions();
    assert_snapshot!(annals(home.path(), &["show", "ses_nothere"]).run(), @r#"
    exit 1
    -- stderr
    error: no session matches "ses_nothere"
    hint: looked at ids and titles of 2 sessions; `annals list` shows them
    "#);
    assert_snapshot!(annals(home.path(), &["show", "../../x"]).run(), @r#"
    exit 1
    -- stderr
    error: no session matches "../../x"
    hint: looked at ids and titles of 2 sessions; `annals list` shows them
    "#);
    assert_snapshot!(annals(home.path(), &["show", "fix"]).run(), @r#"
    exit 1
    -- stderr
    error: "fix" matches 2 sessions
      ses_36bbbbffe2  2026-02-24 19:06  Fix the door
      ses_36aaaaffe1  2026-02-24 16:20  Fix the cart
    hint: give more of the id or title, or the whole id
    "#);
    assert_snapshot!(annals(home.path(), &["export", "36"]).run(), @r#"
    exit 1
    -- stderr
    error: "36" matches 2 sessions
      ses_36bbbbffe2  2026-02-24 19:06  Fix the door
      ses_36aaaaffe1  2026-02-24 16:20  Fix the cart
    hint: give more of the id or title, or the whole id
    "#);
    assert_snapshot!(annals(home.path(), &["show", "\u{1b}[31m"]).run(), @r#"
    exit 1
    -- stderr
    error: no session matches "\u{1b}[31m"
    hint: looked at ids and titles of 2 sessions; `annals list` shows them
    "#);
    let empty = empty_home();
    assert_snapshot!(annals(empty.path(), &["show", "last"]).run(), @r#"
    exit 1
    -- stderr
    error: no session matches "last"
    hint: there are no sessions here
    "#);
}

#[test]
fn a_session_can_be_named_in_several_ways() {
    let home = two_sessions();
    for name in ["ses_36aaaaffe1", "ses_36a", "36aa", "cart", "FIX THE CART"] {
        assert!(annals(home.path(), &["show", name]).run().ok().text().starts_with("Fix the cart"), "{name}");
    }
    assert!(annals(home.path(), &["show", "last"]).run().ok().text().starts_with("Fix the door"));
}

#[test]
fn homes_that_are_none() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "file.txt", "x");
    write(dir.path(), "opencode.db", "SQLite format 3\0");
    assert_snapshot!(plain(dir.path(), &["--home", "nowhere", "list"]).run(), @"
    exit 1
    -- stderr
    error: nowhere does not exist
    hint: `--home` takes the path of an OpenCode data directory, usually ~/.local/share/opencode
    ");
    assert_snapshot!(plain(dir.path(), &["--home", ".", "list"]).run(), @"
    exit 1
    -- stderr
    error: ./opencode.db is not a SQLite database
    hint: give an OpenCode data directory, usually ~/.local/share/opencode, or an `opencode.db`
    ");
    assert_snapshot!(plain(dir.path(), &["--home", "opencode.db", "list"]).run(), @"
    exit 1
    -- stderr
    error: opencode.db is not a SQLite database
    hint: give an OpenCode data directory, usually ~/.local/share/opencode, or an `opencode.db`
    ");
    assert_snapshot!(plain(dir.path(), &["--home", "postgres://x", "list"]).run(), @"
    exit 1
    -- stderr
    error: annals cannot open postgres://x yet; it opens paths and `file:` URLs
    ");
    assert_snapshot!(plain(dir.path(), &["--home", "postgres://me:secret@host/db", "sync"]).run(), @"
    exit 1
    -- stderr
    error: annals cannot open postgres://me:***@host/db yet; it opens paths and `file:` URLs
    ");
    assert_snapshot!(plain(dir.path(), &["--home", "codex:/x", "list"]).run(), @"
    exit 1
    -- stderr
    error: annals cannot open codex:/x yet; it opens paths and `file:` URLs
    ");
    assert_snapshot!(plain(dir.path(), &["--home", "s3://x", "list"]).run(), @r#"
    exit 1
    -- stderr
    error: unknown scheme "s3" in s3://x; homes are paths, `file:` URLs, and later `postgres:`, `claude-code:` and `codex:`
    "#);
    assert_snapshot!(plain(dir.path(), &["copy", "--to", "s3://x"]).run(), @r#"
    exit 1
    -- stderr
    error: unknown scheme "s3" in s3://x; homes are paths, `file:` URLs, and later `postgres:`, `claude-code:` and `codex:`
    "#);
    assert_snapshot!(plain(dir.path(), &["--home", "file:opencode.db", "list"]).run(), @"
    exit 1
    -- stderr
    error: opencode.db is not a SQLite database
    hint: give an OpenCode data directory, usually ~/.local/share/opencode, or an `opencode.db`
    ");
    assert_snapshot!(plain(dir.path(), &[]).run(), @"
    exit 1
    -- stderr
    error: no OpenCode sessions in HOME/.local/share/opencode
    hint: `--home PATH` names another place; `annals demo` shows annals on a sample
    ");
    write(dir.path(), ".local/share/opencode/opencode.db", "SQLite format 3\0");
    assert_snapshot!(plain(dir.path(), &["list"]).run(), @"
    exit 1
    -- stderr
    warning: HOME/.local/share/opencode/opencode.db is not a SQLite database
    error: HOME/.local/share/opencode/opencode.db is not a SQLite database
    hint: give an OpenCode data directory, usually ~/.local/share/opencode, or an `opencode.db`
    ");
}

/// The data directory follows the same rule as OpenCode's own.
#[test]
fn the_default_home_is_opencodes() {
    let dir = tempfile::tempdir().unwrap();
    write(
        dir.path(),
        ".local/share/opencode/storage/session/global/ses_1.json",
        r#"{"id":"ses_1","title":"by HOME"}"#,
    );
    write(dir.path(), "xdg/opencode/storage/session/global/ses_2.json", r#"{"id":"ses_2","title":"by XDG"}"#);
    let title = |ran: super::kit::Ran| ran.ok().json()[0]["title"].clone();
    assert_eq!(title(plain(dir.path(), &["list", "--json"]).run()), "by HOME");
    assert_eq!(title(plain(dir.path(), &["list", "--json"]).env("XDG_DATA_HOME", "").run()), "by HOME");
    assert_eq!(
        title(plain(dir.path(), &["list", "--json"]).env("XDG_DATA_HOME", dir.path().join("xdg")).run()),
        "by XDG"
    );
    let both =
        plain(dir.path(), &["--home", ".local/share/opencode", "--home", "xdg/opencode", "list", "--json"]);
    assert_eq!(both.run().ok().json().as_array().unwrap().len(), 2);
}

#[test]
fn imports_that_are_refused() {
    let home = two_sessions();
    let before = snapshot(home.path());
    write(home.path(), "notjson.txt", "hello");
    write(home.path(), "cut.json", r#"{"info": {"id": "ses_9"}, "messages": [{"info"#);
    write(home.path(), "other.json", r#"{"sessions": []}"#);
    write(home.path(), "path.json", r#"{"info": {"id": "../../x"}, "messages": []}"#);
    write(home.path(), "exists.json", r#"{"info": {"id": "ses_36aaaaffe1"}, "messages": []}"#);
    assert_snapshot!(annals(home.path(), &["import", "missing.json"]).run(), @"
    exit 1
    -- stderr
    error: cannot read missing.json: No such file or directory (os error 2)
    hint: nothing was written
    ");
    assert_snapshot!(annals(home.path(), &["import", "notjson.txt"]).run(), @"
    exit 1
    -- stderr
    error: notjson.txt is not an export
      1:1: expected a value, found `h`
    hint: nothing was written; `annals export` and `opencode export` write files that can be imported
    ");
    assert_snapshot!(annals(home.path(), &["import", "cut.json"]).run(), @"
    exit 1
    -- stderr
    error: cut.json is not an export
      1:46: the text ends inside a string
    hint: nothing was written; `annals export` and `opencode export` write files that can be imported
    ");
    assert_snapshot!(annals(home.path(), &["import", "other.json"]).run(), @"
    exit 1
    -- stderr
    error: other.json is not an export
      `info` is missing
    hint: nothing was written; `annals export` and `opencode export` write files that can be imported
    ");
    assert_snapshot!(annals(home.path(), &["import", "path.json"]).run(), @r#"
    exit 1
    -- stderr
    error: path.json is not an export
      `info.id`: "../../x" is not a session id: ids are 2 to 10 lower-case letters, `_` and 1 to 64 letters or digits
    hint: nothing was written; `annals export` and `opencode export` write files that can be imported
    "#);
    assert_snapshot!(annals(home.path(), &["import", "exists.json"]).run(), @"
    exit 1
    -- stderr
    error: session ses_36aaaaffe1 is already in HOME
    hint: `--merge` adds missing documents; documents that differ are kept and reported
    ");
    assert_snapshot!(annals(home.path(), &["import", "storage"]).run(), @"
    exit 1
    -- stderr
    error: cannot read storage: it is a directory
    hint: nothing was written
    ");
    assert_snapshot!(annals(home.path(), &["import", "-"]).stdin(b"").run(), @"
    exit 1
    -- stderr
    error: standard input is not an export
      the document is empty
    hint: nothing was written; `annals export` and `opencode export` write files that can be imported
    ");
    assert_eq!(snapshot(home.path()), before);
}

#[test]
fn words_that_are_not_understood() {
    let home = two_sessions();
    assert_snapshot!(annals(home.path(), &["list", "--since", "soon"]).run(), @r#"
    exit 2
    -- stderr
    error: "soon" is not a time
    hint: times look like 2026-02-01, 2026-02-01T10:00, 2026-02, 7d, 12h, today, monday or "last week"
    "#);
    assert_snapshot!(annals(home.path(), &["list", "--project", "nosuch"]).run(), @r#"
    exit 1
    -- stderr
    error: no project matches "nosuch"
    hint: give an id or the beginning of one, a working tree, or `.` for the current directory
    "#);
    assert_snapshot!(annals(home.path(), &["rename", "cart", " "]).run(), @"
    exit 2
    -- stderr
    error: a title cannot be empty
    ");
    assert_snapshot!(annals(home.path(), &["frobnicate"]).run(), @"
    exit 2
    -- stderr
    error: unrecognized subcommand 'frobnicate'

    Usage: annals [OPTIONS] [COMMAND]

    For more information, try '--help'.
    ");
    assert_snapshot!(annals(home.path(), &["export", "cart", "--message", "msg_x"]).run(), @r#"
    exit 1
    {
      "info": {
        "id": "ses_36aaaaffe1",
        "title": "Fix the cart",
        "time": {
          "created": 1771950000000,
          "updated": 1771950000000
        }
      },
      "messages": []
    }
    -- stderr
    error: no message or part of the session begins with "msg_x"
    "#);
    let two = plain(home.path(), &["--home", ".", "--home", "storage", "import", "x.json"]);
    assert_eq!(two.run().code, 2);
}

/// A damaged file is named, everything else is shown, and the exit code says that something was wrong.
#[test]
fn one_bad_file_never_hides_the_rest() {
    let fixture = Fixture::unpack("opencode-1.1.65");
    let home = fixture.home();
    let mut parts: Vec<_> =
        std::fs::read_dir(home.join("storage/part")).unwrap().map(|e| e.unwrap().path()).collect();
    parts.sort();
    let part = &parts[40];
    // Which file comes first in a directory is up to the file system.
    let file = std::fs::read_dir(part).unwrap().map(|entry| entry.unwrap().path()).min().unwrap();
    let id =
        serde_json::from_slice::<serde_json::Value>(&std::fs::read(&file).unwrap()).unwrap()["sessionID"]
            .as_str()
            .unwrap()
            .to_owned();
    std::fs::write(&file, "").unwrap();
    let list = annals(home, &["list", "--json"]).run();
    assert_eq!((list.code, list.json().as_array().unwrap().len()), (0, 121), "list does not read parts");
    for command in [&["stats", "--json"][..], &["export", &id], &["show", &id], &["show", &id, "--json"]] {
        let ran = annals(home, command).run();
        assert_eq!(ran.code, 3, "{command:?}: {ran}");
        let name = file.strip_prefix(home).unwrap().display().to_string();
        assert!(ran.stderr.contains("1 document could not be read") && ran.stderr.contains(&name), "{ran}");
        assert!(ran.stderr.contains("the document is empty"), "{ran}");
        assert!(ran.stdout.len() > 300, "{ran}");
    }
    let check = annals(home, &["check", "--json"]).run();
    assert_eq!(check.code, 3);
    let problem = check.json()["problems"]
        .as_array()
        .unwrap()
        .iter()
        .find(|p| p["kind"] == "unreadable")
        .unwrap()
        .clone();
    assert_eq!(problem["detail"], "the document is empty");
}

/// The messages of one session are not to be had: a link that leads out of the home, a pipe, a file. Everything else is
/// checked, and other sessions can be deleted.
#[test]
fn one_bad_directory_never_hides_the_rest() {
    let user = super::kit::User::new();
    for (id, title) in [("1", "Order API"), ("2", "Refunds"), ("3", "Broken")] {
        user.write_session(id, title, "what is left?", "nothing");
    }
    super::kit::write(&user.opencode(), "storage/project/global.json", r#"{"id":"global","worktree":"/"}"#);
    // Parts that a deleted message left, of a session that can be read.
    super::kit::write(
        &user.opencode(),
        "storage/part/msg_19/prt_19.json",
        r#"{"id":"prt_19","sessionID":"ses_1","messageID":"msg_19","type":"text","text":"x"}"#,
    );
    let outside = tempfile::tempdir().unwrap();
    let messages = user.opencode().join("storage/message/ses_3");
    std::fs::remove_dir_all(&messages).unwrap();
    let home = user.opencode();
    type Break<'b> = &'b dyn Fn();
    let breaks: [(&str, Break<'_>); 3] = [
        ("a link that leads out", &|| std::os::unix::fs::symlink(outside.path(), &messages).unwrap()),
        ("os error 20", &|| {
            assert!(std::process::Command::new("mkfifo").arg(&messages).status().unwrap().success());
        }),
        ("os error 20", &|| std::fs::write(&messages, "x").unwrap()),
    ];
    for (why, break_it) in breaks {
        break_it();
        for ran in [annals(&home, &["check", "--json"]).run(), user.annals(&["check", "--json"]).run()] {
            assert_eq!(ran.code, 3, "{ran}");
            let problems = ran.json()["problems"].as_array().unwrap().clone();
            let kinds: Vec<_> =
                problems.iter().map(|problem| (text(problem, "kind"), text(problem, "sessionID"))).collect();
            assert_eq!(kinds[..2], [("unreadable", "ses_3"), ("orphan-parts", "ses_1")], "{ran}");
            assert_eq!(text(&problems[0], "path"), "storage/message/ses_3");
            assert_eq!(text(&problems[0], "home"), home.to_str().unwrap());
            assert!(text(&problems[0], "detail").contains(why), "{ran}");
        }
        let other = annals(&home, &["rm", "--dry-run", "--json", "ses_1"]).run().ok();
        assert_eq!(other.json()[0]["parts"], 3, "{other}");
        let refused = annals(&home, &["rm", "--yes", "ses_3"]).run();
        assert_eq!(refused.code, 1, "{refused}");
        assert!(
            refused.stderr.contains("storage/message/ses_3: ") && refused.stderr.contains(why),
            "{refused}"
        );
        std::fs::remove_file(&messages).unwrap();
    }
    std::fs::write(&messages, "x").unwrap();
    let _ = annals(&home, &["rm", "--yes", "ses_1"]).run().ok();
    assert!(!home.join("storage/part/msg_19").exists(), "its orphans go with it");
    assert!(home.join("storage/session/global/ses_2.json").exists());
}

/// A directory that may not be read, as another user sees it.
#[test]
fn a_directory_without_permission_is_named() {
    use std::os::unix::fs::PermissionsExt;
    let user = super::kit::User::new();
    for id in ["1", "2"] {
        user.write_session(id, "Order API", "what is left?", "nothing");
    }
    let messages = user.opencode().join("storage/message/ses_2");
    let allow = |mode| std::fs::set_permissions(&messages, PermissionsExt::from_mode(mode)).unwrap();
    let all = std::process::Command::new("chmod").args(["-R", "a+rX"]).arg(user.root()).status();
    assert!(all.unwrap().success());
    allow(0o000);
    let shell = format!(
        "exec setpriv --reuid=65534 --regid=65534 --clear-groups {} --home {} check --json",
        env!("CARGO_BIN_EXE_annals"),
        user.opencode().display()
    );
    let output = std::process::Command::new("sh").args(["-c", &shell]).env("HOME", "/nonexistent").output();
    allow(0o755);
    let output = output.unwrap();
    // Only root can become somebody else; for anybody else the permissions count as they are.
    let (stdout, stderr) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr).into_owned());
    if stderr.contains("setpriv") || stderr.contains("Permission denied") && stdout.is_empty() {
        return;
    }
    assert_eq!(output.status.code(), Some(3), "{stdout}{stderr}");
    assert!(
        stdout.contains("storage/message/ses_2") && stdout.contains("Permission denied"),
        "{stdout}{stderr}"
    );
}

/// A reader that goes away ends the command quietly.
#[test]
fn a_closed_pipe_is_not_an_error() {
    let fixture = Fixture::unpack("opencode-1.1.65");
    let script = format!(
        "{} --home {} show 37f7f1c80 --tools full | head -1",
        env!("CARGO_BIN_EXE_annals"),
        fixture.home().display()
    );
    let output = std::process::Command::new("bash").args(["-o", "pipefail", "-c", &script]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert!(output.status.success(), "{:?}", output.status);
}

/// Nothing of a transcript reaches a terminal as a command to it, however it got into a document.
#[test]
fn control_characters_do_not_pass() {
    let home = empty_home();
    let evil = r"\u001b[2J\u001b]0;owned\u0007\u009b31m\u202eevil\r\u0000\u007f";
    write(
        home.path(),
        "storage/session/global/ses_1.json",
        format!(
            r#"{{"id":"ses_1","title":"t{evil}","directory":"/d{evil}","time":{{"created":1771950000000,"updated":1771950000000}}}}"#
        ),
    );
    write(
        home.path(),
        "storage/todo/ses_1.json",
        format!(r#"[{{"content":"{evil}","status":"{evil}","priority":"high"}}]"#),
    );
    write(
        home.path(),
        "storage/message/ses_1/msg_1.json",
        format!(r#"{{"id":"msg_1","role":"user","agent":"{evil}","time":{{"created":1771950000000}}}}"#),
    );
    write(
        home.path(),
        "storage/part/msg_1/prt_1.json",
        format!(r#"{{"id":"prt_1","type":"text","text":"{evil}"}}"#),
    );
    write(
        home.path(),
        "storage/message/ses_1/msg_2.json",
        format!(
            r#"{{"id":"msg_2","role":"assistant","modelID":"{evil}","providerID":"{evil}","agent":"{evil}","error":{{"name":"{evil}","data":{{"message":"{evil}"}}}},"time":{{"created":1771950000001}}}}"#
        ),
    );
    write(
        home.path(),
        "storage/part/msg_2/prt_1.json",
        format!(r#"{{"id":"prt_1","type":"reasoning","text":"{evil}"}}"#),
    );
    write(
        home.path(),
        "storage/part/msg_2/prt_2.json",
        format!(
            r#"{{"id":"prt_2","type":"tool","tool":"{evil}","state":{{"status":"completed","input":{{"command":"{evil}"}},"output":"{evil}","title":"{evil}","metadata":{{"diff":"{evil}"}}}}}}"#
        ),
    );
    write(
        home.path(),
        "storage/part/msg_2/prt_3.json",
        format!(r#"{{"id":"prt_3","type":"{evil}","name":"{evil}","text":"{evil}"}}"#),
    );
    write(home.path(), "storage/part/msg_2/prt_4.json", "\u{1b}[2J");
    for arguments in [
        &["list"][..],
        &["show", "ses_1", "--tools", "full", "--reasoning"],
        &["tree", "--all"],
        &["stats"],
        &["stats", "--by", "agent"],
        &["stats", "--tools"],
        &["todo", "ses_1"],
        &["check"],
        &[],
        &["show", "nothing"],
        &["rm", "--dry-run", "ses_1"],
    ] {
        let ran = annals(home.path(), arguments).run();
        for text in [ran.text(), ran.stderr.clone()] {
            let bad: Vec<char> = text
                .chars()
                .filter(|c| c.is_control() && *c != '\n' || ('\u{202a}'..='\u{202e}').contains(c))
                .collect();
            assert_eq!(bad, Vec::<char>::new(), "{arguments:?}: {text:?}");
        }
    }
}
