//! Names and texts that would act on a terminal: none of them may reach it as they are.

use annals_testkit::Fixture;

use super::kit::{Ran, User, plain};

/// Sets the clipboard of a terminal, clears its screen, turns the direction of writing, hides a letter, fakes a line.
const HOSTILE: &str = "x\u{1b}]52;c;QQ==\u{7}y\u{1b}[2J\u{9b}31m\u{202e}\u{200b}\u{e0041}\u{61c}\nerror: z";

/// Asserts that nothing a command printed can act on a terminal.
#[track_caller]
fn assert_harmless(ran: &Ran, arguments: &[&str]) {
    for (name, text) in [("stdout", ran.text()), ("stderr", ran.stderr.clone())] {
        let is_active = |c: char| {
            (c.is_control() && c != '\n')
                || matches!(c, '\u{61c}' | '\u{200b}' | '\u{202e}' | '\u{e0041}' | '\u{2028}')
        };
        // JSON in a pipe is data, and escapes what JSON escapes.
        let is_data = name == "stdout" && arguments.contains(&"--json");
        let found = text.chars().find(|c| if is_data { *c < ' ' && *c != '\n' } else { is_active(*c) });
        assert_eq!(found, None, "{arguments:?} {name}: {text:?}");
        assert!(is_data || !text.contains("\nerror: z"), "{arguments:?} {name}: a faked line in {text:?}");
    }
}

/// A user with a database, a damaged one and a session file, all of hostile names.
fn hostile_user() -> User {
    let user = User::with("small-1.2.27");
    let opencode = user.opencode();
    let fixture = Fixture::unpack("opencode-1.2.27");
    std::fs::copy(fixture.home().join("opencode.db"), opencode.join(format!("opencode-{HOSTILE}.db")))
        .unwrap();
    std::fs::write(opencode.join(format!("opencode-broken-{HOSTILE}.db")), "not a database").unwrap();
    user.write_session("1", "Order API", "what is left?", "nothing");
    super::kit::write(&opencode, &format!("storage/session/global/ses_{HOSTILE}.json"), "{}");
    super::kit::write(&opencode, &format!("storage/message/ses_1/msg_{HOSTILE}.json"), "{}");
    user
}

#[test]
fn names_of_files_do_not_reach_the_terminal() {
    let user = hostile_user();
    let target = user.root().join(format!("copy-{HOSTILE}"));
    let target = target.to_str().unwrap();
    let hostile_db = user.opencode().join(format!("opencode-{HOSTILE}.db"));
    let hostile_db = hostile_db.to_str().unwrap();
    let commands: &[&[&str]] = &[
        &[],
        &["--json"],
        &["list"],
        &["list", "--json"],
        &["show", "last"],
        &["show", "Order API"],
        &["tree"],
        &["tree", "--json"],
        &["search", "order"],
        &["stats"],
        &["stats", "--by", "project"],
        &["todo", "last"],
        &["sync", "-v"],
        &["sync", "--json"],
        &["log"],
        &["check"],
        &["check", "--all", "--json"],
        &["export", "Order API"],
        &["diff", "Order API", "1"],
        &["rename", "Order API", "Orders"],
        &["archive", "Orders"],
        &["rm", "Orders", "--yes"],
        &["undo"],
        &["backup", target],
        &["restore-backup", target],
        &["reindex"],
        &["prune", "--older-than", "1d"],
        &["copy", "--to", target],
        &["copy", "--from", hostile_db, "--to", target, "-v"],
        &["copy", "--from", target, "--to", target],
        &["import", target],
        &["import", HOSTILE],
        &["list", "--home", hostile_db],
        &["check", "--home", hostile_db],
        &["list", "--home", target],
        &["list", "--home", HOSTILE],
        &["list", "--home", &format!("{HOSTILE}://x")],
        &["show", HOSTILE],
        &["search", HOSTILE],
        &["search", "--regex", &format!("({HOSTILE}")],
        &["list", "--project", HOSTILE],
        &["list", "--since", HOSTILE],
        &["list", "--store", HOSTILE],
        &["man", "--out", &format!("{HOSTILE}/{HOSTILE}")],
        &["export", "last", "-o", &format!("/nowhere/{HOSTILE}")],
    ];
    for arguments in commands {
        let ran = user.annals(arguments).run();
        assert_harmless(&ran, arguments);
    }
    // What the user typed comes back in lines of its own.
    let typed = HOSTILE.replace('\n', " ");
    for arguments in [&[&*typed][..], &["list", &typed], &[&format!("--{typed}")]] {
        assert_harmless(&user.annals(arguments).run(), arguments);
    }
    // With colours the only sequences are ours.
    for arguments in [&[][..], &["list"], &["check"], &["list", "--home", HOSTILE], &[&typed]] {
        let ran = plain(user.root(), &[&["--color", "always"], arguments].concat()).run();
        for text in [ran.text(), ran.stderr] {
            assert!(!text.contains("\u{1b}]") && !text.contains("\u{1b}[2J"), "{arguments:?}: {text:?}");
            assert!(!text.contains(['\u{9b}', '\u{202e}', '\u{e0041}']), "{arguments:?}: {text:?}");
        }
    }
}

/// A pipe where annals keeps its own files: to wait for someone to write to it would be to hang for good.
#[test]
fn a_pipe_in_place_of_a_file_of_ours_is_not_waited_for() {
    let user = User::new();
    user.write_session("1", "Order API", "what is left?", "nothing");
    let _ = user.annals(&["sync"]).run().ok();
    let storage = user.opencode().join("storage/.annals");
    std::fs::create_dir_all(&storage).unwrap();
    let lock = user.store().with_file_name("annals.db-lock");
    for path in [storage.join("journal"), lock] {
        let _ = std::fs::remove_file(&path);
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        for arguments in [&["list", "--home", user.opencode().to_str().unwrap()][..], &["list"], &["check"]] {
            let status = std::process::Command::new("timeout")
                .arg("30")
                .arg(env!("CARGO_BIN_EXE_annals"))
                .args(arguments)
                .env("HOME", user.root())
                .env_remove("XDG_DATA_HOME")
                .output()
                .unwrap();
            assert_ne!(status.status.code(), Some(124), "{arguments:?} hangs at {}", path.display());
        }
        std::fs::remove_file(&path).unwrap();
    }
}
