//! Whatever state the text index is in, search finds everything again by itself, and nothing else minds.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::kit::{User, write};

fn user() -> User {
    let user = User::in_memory();
    for n in 0..4 {
        let id = format!("36b{n}bbffe2");
        user.write_session(&id, &format!("Fix door {n}"), "The cart is open", "An answer");
    }
    let _ = user.annals(&["sync"]).run().ok();
    user
}

/// The index has something to delete at its next commit.
fn edit(user: &User, n: usize, text: &str) {
    let (message, part) = (format!("msg_36b{n}bbffe22"), format!("prt_36b{n}bbffe22"));
    write(
        &user.opencode(),
        &format!("storage/part/{message}/{part}.json"),
        format!(
            r#"{{"id":"{part}","sessionID":"ses_36b{n}bbffe2","messageID":"{message}","type":"text","text":"{text}"}}"#
        ),
    );
}

fn n_hits(user: &User, query: &str) -> usize {
    let found = user.annals(&["search", query, "--json", "-n", "999"]).run().ok().json();
    found.as_array().unwrap().len()
}

fn replace(path: &Path, bytes: &[u8]) {
    std::fs::remove_file(path).unwrap();
    std::fs::write(path, bytes).unwrap();
}

fn files(index: &Path, end: &str) -> Vec<PathBuf> {
    let files = annals_testkit::files_below(index);
    files.into_iter().filter(|path| path.to_string_lossy().ends_with(end)).collect()
}

fn make_fifo(path: &Path) {
    let _ = std::fs::remove_file(path);
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// The state that a writer leaves which is killed when it has written the deletions of a commit, and not the commit: the next
/// one wants to make a file of the same name.
#[test]
fn a_commit_that_was_killed_is_made_again() {
    let user = user();
    let index = user.store().with_extension("index");
    let before = user.root().join("before");
    assert!(Command::new("cp").arg("-a").arg(&index).arg(&before).status().unwrap().success());
    let stored = std::fs::read(user.store()).unwrap();
    edit(&user, 0, "edited answer");
    let _ = user.annals(&["sync"]).run().ok();
    assert_eq!(files(&index, ".del").len(), 1);
    // The index is the one of before, with what the commit that never was has left.
    for file in annals_testkit::files_below(&index) {
        let target = before.join(file.file_name().unwrap());
        if !target.exists() {
            std::fs::copy(&file, &target).unwrap();
        }
    }
    std::fs::remove_dir_all(&index).unwrap();
    std::fs::rename(&before, &index).unwrap();
    std::fs::write(user.store(), stored).unwrap();
    for command in [&["sync"][..], &["search", "edited"], &["list"]] {
        let _ = user.annals(command).run().ok();
    }
    assert_eq!((n_hits(&user, "edited"), n_hits(&user, "cart"), n_hits(&user, "answer")), (1, 4, 4));
}

/// A name, what is done to the index, and whether it has to be made anew.
type State = (&'static str, fn(&Path));

#[test]
fn every_state_of_the_index_heals() {
    let states: [State; 14] = [
        ("a plain file", |index| {
            std::fs::remove_dir_all(index).unwrap();
            std::fs::write(index, "text").unwrap();
        }),
        ("a link to a directory", |index| {
            std::fs::rename(index, index.with_extension("elsewhere")).unwrap();
            std::os::unix::fs::symlink(index.with_extension("elsewhere"), index).unwrap();
        }),
        ("a link to nothing", |index| {
            std::fs::remove_dir_all(index).unwrap();
            std::os::unix::fs::symlink("nowhere", index).unwrap();
        }),
        ("a pipe", |index| {
            std::fs::remove_dir_all(index).unwrap();
            make_fifo(index);
        }),
        ("an empty directory", |index| {
            std::fs::remove_dir_all(index).unwrap();
            std::fs::create_dir(index).unwrap();
        }),
        ("a directory and a pipe inside", |index| {
            std::fs::create_dir_all(index.join("sub/sub")).unwrap();
            std::fs::write(index.join("sub/sub/file"), "text").unwrap();
            make_fifo(&index.join("pipe.idx"));
        }),
        ("a temporary file of a killed writer", |index| {
            std::fs::write(index.join(".tmpAbCdEf"), "half").unwrap();
        }),
        ("no list of files", |index| std::fs::remove_file(index.join(".managed.json")).unwrap()),
        ("half a list of files", |index| replace(&index.join(".managed.json"), b"[\"meta.js")),
        ("half of what was committed", |index| replace(&index.join("meta.json"), b"{\"segments\": [")),
        ("a pipe for what was committed", |index| make_fifo(&index.join("meta.json"))),
        ("a pipe for a lock", |index| make_fifo(&index.join(".tantivy-writer.lock"))),
        ("a directory for a lock", |index| {
            std::fs::remove_file(index.join(".tantivy-meta.lock")).unwrap();
            std::fs::create_dir(index.join(".tantivy-meta.lock")).unwrap();
        }),
        ("a file missing", |index| {
            for file in files(index, ".term") {
                std::fs::remove_file(file).unwrap();
            }
        }),
    ];
    for (name, damage) in states {
        // Who comes first: one that writes to the index, or one that only reads it.
        for first in ["search", "sync"] {
            let user = user();
            let index = user.store().with_extension("index");
            damage(&index);
            for command in [&["list"][..], &["stats"], &["show", "last"]] {
                let ran = user.annals(command).run();
                assert_eq!((ran.code, ran.stderr.contains("warning")), (0, false), "{name}: {ran}");
            }
            edit(&user, 1, "edited answer");
            if first == "sync" {
                let ran = user.annals(&["sync"]).run();
                assert_eq!(ran.code, 0, "{name}: {ran}");
            }
            assert_eq!((n_hits(&user, "edited"), n_hits(&user, "cart")), (1, 4), "{name}, {first}");
            edit(&user, 2, "edited too");
            assert_eq!(n_hits(&user, "edited"), 2, "{name}, {first}");
            assert!(index.symlink_metadata().unwrap().is_dir(), "{name}, {first}");
            assert!(!index.join("sub").exists() && !index.join(".tmpAbCdEf").exists(), "{name}, {first}");
        }
    }
}

/// A store that has lost its last revisions gives their numbers to others. An index that knew the lost ones is of no use.
#[test]
fn an_index_of_revisions_that_were_lost_is_not_used() {
    let user = user();
    let index = user.store().with_extension("index");
    let stored = std::fs::read(user.store()).unwrap();
    edit(&user, 0, "lost words");
    let _ = user.annals(&["sync"]).run().ok();
    assert_eq!(n_hits(&user, "lost"), 1);
    std::fs::write(user.store(), stored).unwrap();
    assert!(!user.store().with_extension("db-wal").exists(), "the log is empty");
    edit(&user, 0, "found words");
    // As many revisions as there were, without the index.
    let _ = user.later(5, &["sync", "--no-index"]).run().ok();
    assert!(index.exists());
    assert_eq!((n_hits(&user, "lost"), n_hits(&user, "found")), (0, 1));
}

/// Where the index cannot be written, what was found is stored all the same, and only search fails, with a reason.
#[test]
fn a_failing_index_stops_nothing_else() {
    let user = user();
    let lock = user.store().with_extension("db-index-lock");
    std::fs::remove_file(&lock).unwrap();
    std::fs::create_dir(&lock).unwrap();
    edit(&user, 0, "edited answer");
    user.write_session("36ccccffe3", "A new one", "The cart again", "edited too");
    let ran = user.annals(&["sync"]).run();
    assert_eq!(ran.code, 1, "{ran}");
    assert!(ran.stderr.contains("everything that was found is in the store"), "{ran}");
    assert!(ran.stderr.contains("annals.db-index-lock is a directory, not a file"), "{ran}");
    let listed = user.annals(&["--no-sync", "list", "--json"]).run().ok().json();
    assert_eq!(listed.as_array().unwrap().len(), 5);
    for command in [&["list"][..], &["stats"], &["show", "A new one"]] {
        let ran = user.annals(command).run();
        assert_eq!((ran.code, ran.stderr.contains("warning")), (0, false), "{ran}");
    }
    let ran = user.annals(&["search", "cart"]).run();
    assert_eq!(ran.code, 1, "{ran}");
    assert!(ran.stderr.contains("the text index") && ran.stderr.contains("cannot be used"), "{ran}");
    let substring = user.annals(&["search", "--substring", "cart", "--json"]).run().ok().json();
    assert_eq!(substring.as_array().unwrap().len(), 5);
    std::fs::remove_dir(&lock).unwrap();
    assert_eq!((n_hits(&user, "edited"), n_hits(&user, "cart")), (2, 5));
}
