//! `revert --files` and `unrevert --files`: files of a working tree go back with the conversation, come again with `undo`, and nothing else is touched.

use std::collections::BTreeMap;
use std::path::PathBuf;

use insta::assert_snapshot;
use rusqlite::Connection;

use super::conversations::{everything, exported, operation, refused};
use super::disk::{in_namespace, text as both_streams};
use super::kit::{Ran, User, write};

/// A working tree with snapshots of it, as OpenCode 1.1 keeps them, and a session whose two answers changed files.
struct Workplace {
    user: User,
    tree: PathBuf,
    snapshots: PathBuf,
}

const PROJECT: &str = "15e401e64f208f230e2422540fb7c58e13fb0681";
const SESSION: &str = "ses_36ffffffe6";

impl Workplace {
    fn new() -> Workplace {
        let user = User::new();
        let tree = user.root().canonicalize().unwrap().join("shop");
        let snapshots = user.opencode().join("snapshot").join(PROJECT);
        std::fs::create_dir_all(&tree).unwrap();
        let workplace = Workplace { user, tree, snapshots };
        workplace.git(&["init", "-q"]);
        write(&workplace.tree, ".git/opencode", PROJECT);
        std::fs::create_dir_all(&workplace.snapshots).unwrap();
        workplace.snapshot_git(&["init", "-q"]);
        workplace.put("kept.txt", "kept\n");
        workplace.put("changed.txt", "one\ntwo\n");
        workplace.put("deleted.txt", "was here\n");
        workplace.put("run.sh", "#!/bin/sh\n");
        workplace.make_executable("run.sh");
        let first = workplace.snapshot();
        workplace.put("changed.txt", "one\nTWO\n");
        workplace.put("deep/new.txt", "new\n");
        std::fs::remove_file(workplace.tree.join("deleted.txt")).unwrap();
        std::fs::remove_file(workplace.tree.join("run.sh")).unwrap();
        std::os::unix::fs::symlink("kept.txt", workplace.tree.join("run.sh")).unwrap();
        let second = workplace.snapshot();
        workplace.put("changed.txt", "one\nTWO\nthree\n");
        let third = workplace.snapshot();
        workplace.write_session(&[
            (&first, &second, &["changed.txt", "deep/new.txt", "deleted.txt", "run.sh"]),
            (&second, &third, &["changed.txt"]),
        ]);
        workplace
    }

    fn git(&self, arguments: &[&str]) -> String {
        let mut command = std::process::Command::new("git");
        command.args(["-c", "user.name=Dev", "-c", "user.email=dev@example.com"]).args(arguments);
        let output = command.current_dir(&self.tree).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn snapshot_git(&self, arguments: &[&str]) -> String {
        let [repository, tree] = [&self.snapshots, &self.tree].map(|path| path.to_str().unwrap());
        self.git(&[&["--git-dir", repository, "--work-tree", tree], arguments].concat())
    }

    fn snapshot(&self) -> String {
        self.snapshot_git(&["add", "."]);
        self.snapshot_git(&["write-tree"])
    }

    fn put(&self, file: &str, text: &str) {
        write(&self.tree, file, text);
    }

    fn make_executable(&self, file: &str) {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(self.tree.join(file), std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// A prompt and an answer for each step: the snapshots before and after it, and the files that it changed.
    fn write_session(&self, steps: &[(&str, &str, &[&str])]) {
        let home = self.user.opencode();
        let directory = self.tree.display();
        let made = 1_771_950_000_000_i64;
        write(
            &home,
            &format!("storage/session/{PROJECT}/{SESSION}.json"),
            format!(
                r#"{{"id":"{SESSION}","projectID":"{PROJECT}","directory":"{directory}","title":"Shop","version":"1.1.65","time":{{"created":{made},"updated":{made}}}}}"#
            ),
        );
        for (n, (before, after, files)) in steps.iter().enumerate() {
            let time = made + 10 * (n as i64 + 1);
            let (prompt, answer) = (format!("msg_36ffffffe6{n}a"), format!("msg_36ffffffe6{n}b"));
            let message = |id: &str, rest: &str| {
                let text = format!(
                    r#"{{"id":"{id}","sessionID":"{SESSION}",{rest},"agent":"build","time":{{"created":{time},"completed":{time}}}}}"#
                );
                write(&home, &format!("storage/message/{SESSION}/{id}.json"), text);
            };
            message(&prompt, r#""role":"user""#);
            message(&answer, r#""role":"assistant","finish":"stop""#);
            let part = |message: &str, n: usize, rest: &str| {
                let id = format!("prt_{}{n}", message.trim_start_matches("msg_"));
                let text =
                    format!(r#"{{"id":"{id}","sessionID":"{SESSION}","messageID":"{message}",{rest}}}"#);
                write(&home, &format!("storage/part/{message}/{id}.json"), text);
            };
            let files: Vec<String> =
                files.iter().map(|file| self.tree.join(file).display().to_string()).collect();
            part(&prompt, 0, r#""type":"text","text":"Work""#);
            part(&answer, 0, &format!(r#""type":"step-start","snapshot":"{before}""#));
            part(&answer, 1, r#""type":"text","text":"Done""#);
            part(&answer, 2, &format!(r#""type":"step-finish","reason":"stop","snapshot":"{after}""#));
            let list = serde_json::to_string(&files).unwrap();
            part(&answer, 3, &format!(r#""type":"patch","hash":"{before}","files":{list}"#));
        }
        let _ = self.user.annals(&["sync"]).run().ok();
    }

    /// The working tree: the content of each file with its kind.
    fn files(&self) -> BTreeMap<String, String> {
        use std::os::unix::fs::PermissionsExt;
        let files = annals_testkit::files_below(&self.tree).into_iter();
        let files = files.filter(|file| !file.starts_with(self.tree.join(".git")));
        files
            .map(|file| {
                let metadata = std::fs::symlink_metadata(&file).unwrap();
                let content = match metadata.is_symlink() {
                    true => format!("-> {}", std::fs::read_link(&file).unwrap().display()),
                    false => std::fs::read_to_string(&file).unwrap(),
                };
                let sign =
                    if metadata.is_file() && metadata.permissions().mode() & 0o100 != 0 { "x " } else { "" };
                (file.strip_prefix(&self.tree).unwrap().display().to_string(), format!("{sign}{content}"))
            })
            .collect()
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        self.user.annals(arguments).run()
    }

    fn revert_files(&self, message: &str) -> Ran {
        self.run(&["revert", SESSION, message, "--files"])
    }
}

fn tree<const N: usize>(files: [(&str, &str); N]) -> BTreeMap<String, String> {
    files.map(|(name, content)| (name.to_owned(), content.to_owned())).into()
}

#[test]
fn files_go_back_with_the_conversation_and_come_again() {
    let work = Workplace::new();
    let (before, all) = (work.files(), everything(&work.user));
    let after_first = tree([
        ("kept.txt", "kept\n"),
        ("changed.txt", "one\ntwo\n"),
        ("deleted.txt", "was here\n"),
        ("run.sh", "x #!/bin/sh\n"),
    ]);
    assert_snapshot!(work.revert_files("msg_36ffffffe60a"), @"
    exit 0
    -- stderr
    ses_36ffffffe6 is hidden from msg_36ffffffe60a on
      HOME/shop/changed.txt
      HOME/shop/deep/new.txt
      HOME/shop/deleted.txt
      HOME/shop/run.sh
      in HOME/.local/share/opencode
    operation 1; `annals undo 1` takes it back
    ");
    assert_eq!(work.files(), after_first);
    let info = exported(&work.user, SESSION)["info"].clone();
    assert_eq!(info["summary"], serde_json::json!({"additions": 4, "deletions": 3, "files": 4}));
    assert!(info["revert"]["diff"].as_str().unwrap().contains("+was here"), "{info:#}");
    let reverted = (work.files(), everything(&work.user));
    let _ = work.run(&["undo"]).ok();
    assert_eq!(work.files(), before);
    all.expect(&work.user, "revert --files, undone");
    let _ = work.run(&["undo", &operation(&work.user)]).ok();
    assert_eq!(work.files(), reverted.0);
    reverted.1.expect(&work.user, "revert --files, done again");
    // A revert to a later message begins from what was there before the first one.
    let _ = work.revert_files("msg_36ffffffe61a").ok();
    let mut after_second = before.clone();
    after_second.insert("changed.txt".to_owned(), "one\nTWO\n".to_owned());
    // As in OpenCode, a file that is not in the snapshot stays.
    after_second.insert("deleted.txt".to_owned(), "was here\n".to_owned());
    assert_eq!(work.files(), after_second);
    let _ = work.run(&["unrevert", SESSION, "--files"]).ok();
    let mut again = before.clone();
    again.insert("deleted.txt".to_owned(), "was here\n".to_owned());
    assert_eq!(work.files(), again);
    for _ in 0..3 {
        let _ = work.run(&["undo"]).ok();
    }
    assert_eq!(work.files(), before);
    all.expect(&work.user, "all undone");
}

/// The library tells which files a session changed, as OpenCode computes it.
#[test]
fn the_changes_of_a_session_are_computed_from_snapshots() {
    let work = Workplace::new();
    let store = annals::Store::open(work.user.opencode()).unwrap();
    let session = store.session(SESSION).unwrap();
    let second = session.messages().nth(2).unwrap().unwrap().id().clone();
    let changed = |first| annals::revert::changed_files(store.home(), session.record(), first).unwrap();
    let all = changed(None);
    let told: Vec<(&str, &str, u64, u64)> =
        all.iter().map(|file| (file.file.as_str(), file.status, file.additions, file.deletions)).collect();
    let expected = [
        ("changed.txt", "modified", 2, 1),
        ("deep/new.txt", "added", 1, 0),
        ("deleted.txt", "deleted", 0, 1),
        ("run.sh", "modified", 1, 1),
    ];
    assert_eq!(told, expected);
    assert_eq!((all[0].before.as_str(), all[0].after.as_str()), ("one\ntwo\n", "one\nTWO\nthree\n"));
    let last = changed(Some(&second));
    assert_eq!((last.len(), last[0].additions, last[0].deletions), (1, 1, 0));
}

#[test]
fn files_stay_unless_they_are_asked_for() {
    let work = Workplace::new();
    let before = work.files();
    let reverted = work.run(&["revert", SESSION, "msg_36ffffffe60a"]).ok();
    assert!(reverted.stderr.contains("`--files` would put them back"), "{reverted}");
    let info = exported(&work.user, SESSION)["info"].clone();
    assert_eq!(info["revert"], serde_json::json!({"messageID": "msg_36ffffffe60a"}));
    // The summary says what is hidden, as in OpenCode.
    assert_eq!(info["summary"]["files"], 4);
    let unreverted = work.run(&["unrevert", SESSION, "--files"]).ok();
    assert!(unreverted.stderr.contains("the revert had changed no files"), "{unreverted}");
    assert_eq!(work.files(), before);
}

#[test]
fn an_undo_refuses_if_a_file_has_changed_since() {
    let work = Workplace::new();
    let _ = work.revert_files("msg_36ffffffe60a").ok();
    work.put("changed.txt", "by hand\n");
    let (before, all) = (work.files(), everything(&work.user));
    refused(&work.run(&["undo"]), 1, "changed.txt was changed since");
    assert_eq!(work.files(), before);
    all.expect(&work.user, "an undo that was refused");
}

#[test]
fn snapshots_that_cannot_be_used_change_nothing() {
    let check = |break_it: &dyn Fn(&Workplace), words: &str| {
        let work = Workplace::new();
        break_it(&work);
        let _ = work.run(&["sync", "--full"]).ok();
        let (before, all) = (work.files(), everything(&work.user));
        let ran = work.revert_files("msg_36ffffffe60a");
        refused(&ran, 1, words);
        assert!(ran.stderr.contains("nothing was changed"), "{ran}");
        assert_eq!(work.files(), before, "{words}");
        all.expect(&work.user, words);
    };
    check(&|work| std::fs::remove_dir_all(&work.snapshots).unwrap(), "there are no snapshots of");
    check(
        &|work| {
            std::fs::remove_dir_all(work.snapshots.join("objects")).unwrap();
            std::fs::create_dir_all(work.snapshots.join("objects/info")).unwrap();
        },
        "is not in",
    );
    // The trees are there, and the files in them are not.
    check(
        &|work| {
            for object in annals_testkit::files_below(&work.snapshots.join("objects")) {
                let name = object.strip_prefix(work.snapshots.join("objects")).unwrap().display().to_string();
                let kind = work.snapshot_git(&["cat-file", "-t", &name.replace('/', "")]);
                if kind == "blob" {
                    std::fs::remove_file(&object).unwrap();
                }
            }
        },
        "git ",
    );
    check(&|work| std::fs::remove_dir_all(work.tree.join(".git")).unwrap(), "is in no git repository");
    let patch =
        |work: &Workplace| work.user.opencode().join("storage/part/msg_36ffffffe60b/prt_36ffffffe60b3.json");
    let edit = |work: &Workplace, from: &str, to: &str| {
        let text = std::fs::read_to_string(patch(work)).unwrap();
        assert!(text.contains(from), "{text}");
        std::fs::write(patch(work), text.replace(from, to)).unwrap();
    };
    // A session may name anything.
    check(&|work| edit(work, "deleted.txt", "../outside.txt"), "which is outside");
    check(&|work| edit(work, "deleted.txt", ".git/config"), "which is outside");
    check(
        &|work| {
            let files = format!("\"files\":[\"{}", work.tree.display());
            edit(work, &files, "\"files\":[\"/etc");
        },
        "which is outside",
    );
    check(&|work| edit(work, "\"hash\":\"", "\"hash\":\"--output=x"), "is not the name of a snapshot");
    check(
        &|work| {
            std::fs::rename(work.tree.join("deep"), work.user.root().join("elsewhere")).unwrap();
            std::os::unix::fs::symlink(work.user.root().join("elsewhere"), work.tree.join("deep")).unwrap();
        },
        "which is outside",
    );
}

/// The files are changed first. If the home refuses, they are put back.
#[test]
fn a_home_that_refuses_leaves_the_files_alone() {
    let work = Workplace::new();
    let (before, all) = (work.files(), everything(&work.user));
    let script = r#"
        cd "$D"
        H="$D/.local/share/opencode/storage"
        mount --bind "$H" "$H"
        mount -o remount,bind,ro "$H"
        "$A" revert ses_36ffffffe6 msg_36ffffffe60a --files && echo unexpected || echo "exit $?"
    "#;
    let (stdout, stderr) = both_streams(&in_namespace(work.user.root(), script));
    assert_eq!(stdout, "exit 1\n", "{stderr}");
    assert!(stderr.contains("Read-only file system"), "{stderr}");
    assert_eq!(work.files(), before);
    all.expect(&work.user, "a revert that the home refused");
}

/// A kill between the files and the home: the next command puts the files back.
#[test]
fn a_revert_that_was_cut_short_is_taken_back() {
    let work = Workplace::new();
    let (before, all) = (work.files(), everything(&work.user));
    let _ = work.revert_files("msg_36ffffffe60a").ok();
    let after = work.files();
    let home = work.user.opencode().join(format!("storage/session/{PROJECT}/{SESSION}.json"));
    let reverted = std::fs::read(&home).unwrap();
    // As if the home had not been reached: it is as before, and the operation is under way.
    std::fs::write(&home, &all.bytes[&format!("session/{PROJECT}/{SESSION}.json")]).unwrap();
    let _ = std::fs::remove_file(work.user.opencode().join(format!("storage/session_diff/{SESSION}.json")));
    let connection = Connection::open(work.user.store()).unwrap();
    connection
        .execute_batch("UPDATE operation SET state = 0, plan = '{\"commits\":2,\"then\":null}'; UPDATE operation_step SET state = 0")
        .unwrap();
    drop(connection);
    let next = work.run(&["list"]).ok();
    assert!(next.stderr.contains("was cut short and had no effect"), "{next}");
    assert_eq!(work.files(), before);
    assert_ne!(after, before);
    assert_ne!(std::fs::read(&home).unwrap(), reverted);
}
