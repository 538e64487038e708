//! `annals files`: what a session changed, and a patch that takes the changes of a real OpenCode back.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use annals_testkit::files_below;
use annals_testkit::model::{ModelServer, Playbook, Turn};
use annals_testkit::opencode::{Lab, OpenCode};
use serde_json::{Value, json};

use super::kit::{AnnalsCommand, plain, text};

fn annals(lab: &Lab, arguments: &[&str]) -> AnnalsCommand {
    let command = plain(lab.root(), arguments);
    lab.env().into_iter().fold(command, |command, (name, value)| command.env(&name, value))
}

/// The files of a working tree with their bytes, and whether they can be executed.
fn tree(project: &Path) -> BTreeMap<PathBuf, (Vec<u8>, bool)> {
    use std::os::unix::fs::PermissionsExt;
    let is_git = |path: &PathBuf| path.strip_prefix(project).unwrap().starts_with(".git");
    let files = files_below(project).into_iter().filter(|path| !is_git(path));
    files
        .map(|path| {
            let mode = std::fs::metadata(&path).unwrap().permissions().mode();
            let bytes = std::fs::read(&path).unwrap();
            (path, (bytes, mode & 0o100 != 0))
        })
        .collect()
}

/// Feeds a patch to `git apply -R` in a working tree.
fn take_back(project: &Path, patch: &[u8]) {
    use std::io::Write;
    let mut git = Command::new("git");
    let mut git = git.args(["apply", "-R"]).current_dir(project).stdin(Stdio::piped()).spawn().unwrap();
    git.stdin.take().unwrap().write_all(patch).unwrap();
    assert!(git.wait().unwrap().success(), "{}", String::from_utf8_lossy(patch));
}

const FIRST: &str = "printf 'one\\ntwo\\n' > 'docs/a name ✓.txt' && rm gone.txt && printf '\\0\\1\\2' > binary.dat && chmod +x run.sh && printf 'a\\r\\nB\\r\\n' > crlf.txt && printf end > no-newline.txt";
const SECOND: &str = "printf 'one\\nTWO\\nthree\\n' > 'docs/a name ✓.txt' && echo passing > passing.txt && printf 'one\\n' >> long.txt";

fn the_patch_takes_changes_back(version: &str) {
    let bash = |command: &str| {
        Turn::call("bash", json!({"command": command, "description": "Works"})).after_snapshot()
    };
    let playbook = Playbook::builtin()
        .scenario("first", [bash(FIRST), Turn::text("First.")])
        .scenario("second", [bash(SECOND), Turn::text("Second.")])
        .scenario("third", [bash("rm passing.txt"), Turn::text("Third.")])
        .prompt("Do the first", "first")
        .prompt("Do the second", "second")
        .prompt("Do the third", "third");
    let model = ModelServer::start(playbook).unwrap();
    let lab = Lab::new(&OpenCode::version(version));
    lab.configure(&model);
    let long: String = (0..60).map(|n| format!("line {n}\n")).collect();
    let project = lab.repo(
        "shop",
        &[
            ("docs/old.txt", "old\n"),
            ("gone.txt", "was here\n"),
            ("run.sh", "#!/bin/sh\n"),
            ("crlf.txt", "a\r\nb\r\n"),
            ("no-newline.txt", "begin"),
            ("long.txt", &long),
        ],
    );
    let before = tree(&project);
    // The first step in a project has no snapshot in 1.2.
    let session = lab.run(&project, &["--model", "lab/lab-large", "Hello."]);
    for prompt in ["Do the first thing.", "Do the second thing.", "Do the third thing."] {
        assert_eq!(lab.run(&project, &["--session", &session, "--model", "lab/lab-large", prompt]), session);
    }
    let after = tree(&project);
    assert_eq!(after.len(), before.len() + 1, "{version}");

    let listed = annals(&lab, &["files", &session, "--json"]).run().ok().json();
    let files: BTreeMap<&str, &Value> =
        listed["files"].as_array().unwrap().iter().map(|file| (text(file, "file"), file)).collect();
    assert_eq!(files["docs/a name ✓.txt"]["status"], "added", "{version}: {listed:#}");
    assert_eq!(files["docs/a name ✓.txt"]["turns"], json!([2, 3]));
    assert_eq!(files["gone.txt"]["status"], "deleted");
    assert_eq!(files["long.txt"]["additions"], 1);
    assert_eq!(files["passing.txt"]["status"], "passing");
    let only = annals(&lab, &["files", &session, "--turn", "3", "--json"]).run().ok().json();
    assert_eq!(only["files"].as_array().unwrap().len(), 3, "{only:#}");
    let beyond = annals(&lab, &["files", &session, "--turn", "5"]).run();
    assert_eq!(beyond.code, 1, "{beyond}");

    let patch = annals(&lab, &["files", &session, "--patch"]).run().ok();
    take_back(&project, &patch.stdout);
    assert_eq!(tree(&project), before, "{version}");

    // The same from the texts that the session keeps, as far as they go.
    std::fs::remove_dir_all(lab.data().join("snapshot")).unwrap();
    let patch = annals(&lab, &["files", &session, "--patch"]).run();
    assert_eq!(patch.code, 3, "{patch}");
    assert!(patch.stderr.contains("not in the patch: binary.dat"), "{patch}");
    for (path, (bytes, _)) in &after {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
    std::fs::remove_file(project.join("gone.txt")).unwrap();
    take_back(&project, &patch.stdout);
    let mut rest = tree(&project);
    let left = rest.remove(&project.join("binary.dat"));
    assert!(left.is_some());
    assert_eq!(rest, before, "{version}");
    // A damaged repository is no repository.
    std::fs::create_dir_all(lab.data().join(format!("snapshot/{}/objects", text(&listed, "sessionID"))))
        .unwrap();
    assert_eq!(annals(&lab, &["files", &session, "--patch"]).run().code, 3);
}

#[test]
fn a_patch_takes_back_what_1_1_changed() {
    the_patch_takes_changes_back("1.1.65");
}

#[test]
fn a_patch_takes_back_what_1_2_changed() {
    the_patch_takes_changes_back("1.2.27");
}

#[test]
fn a_patch_takes_back_what_1_18_changed() {
    the_patch_takes_changes_back("1.18.33");
}
