//! What killed processes leave behind: copies of the store in directories without an owner.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::kit::{User, annals};

const SECRET: &str = "xylophonesecret";

fn user() -> User {
    let user = User::new();
    user.write_session("36aaaaffe1", "Fix the cart", "It is empty", &format!("The word is {SECRET}"));
    user.write_session("36bbbbffe2", "Fix the door", "It is open", "Closed now");
    let _ = user.annals(&["sync"]).run().ok();
    user
}

/// What a process leaves that is killed while it copies a store: nobody holds the lock of the directory.
fn leave(store: &Path, parent: &Path) -> PathBuf {
    let directory = parent.join(".annals-draft-0123456789");
    std::fs::create_dir(&directory).unwrap();
    std::fs::copy(store, directory.join("annals.db")).unwrap();
    directory
}

/// A process that lives holds the lock of its directory. Killed when it is dropped.
struct Holder(std::process::Child);

impl Holder {
    fn of(directory: &Path) -> Holder {
        let mut child = Command::new("flock")
            .arg("--no-fork")
            .arg(directory)
            .args(["sh", "-c", "echo held; exec sleep 60"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = [0; 5];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut said).unwrap();
        Holder(child)
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn holds_secret(directory: &Path) -> Vec<PathBuf> {
    let holds = |path: &PathBuf| {
        let bytes = std::fs::read(path).unwrap_or_default();
        bytes.windows(SECRET.len()).any(|window| window == SECRET.as_bytes())
    };
    annals_testkit::files_below(directory).into_iter().filter(holds).collect()
}

#[test]
fn what_was_abandoned_goes_with_the_next_command_that_writes() {
    for command in [&["sync"][..], &["reindex"], &["forget", "door", "--yes"], &["backup", "elsewhere/b.db"]]
    {
        let user = user();
        let directory = user.store().parent().unwrap().to_owned();
        std::fs::create_dir(user.root().join("elsewhere")).unwrap();
        let left = leave(&user.store(), &directory);
        let beside_backup = leave(&user.store(), &user.root().join("elsewhere"));
        user.write_session("36ccccffe3", "A new one", "Something to sync", "Yes");
        let _ = user.annals(&["list"]).run().ok();
        let _ = user.annals(command).run().ok();
        assert!(!left.exists(), "{command:?}");
        assert_eq!(beside_backup.exists(), command[0] != "backup", "{command:?}");
    }
}

#[test]
fn forget_removes_what_was_abandoned_and_names_what_is_in_use() {
    let user = user();
    let directory = user.store().parent().unwrap().to_owned();
    let left = leave(&user.store(), &directory);
    let forgotten = user.annals(&["forget", "cart", "--yes", "--json"]).run().ok().json();
    assert_eq!(forgotten["copies"].as_array().unwrap().len(), 0);
    assert!(!left.exists());
    assert_eq!(holds_secret(&directory), Vec::<PathBuf>::new());
    let live = leave(&user.store(), &directory);
    let _holder = Holder::of(&live);
    let ran = user.annals(&["forget", "door", "--yes", "--json"]).run();
    assert_eq!(ran.code, 3, "{ran}");
    assert_eq!(ran.json()["copies"][0], live.display().to_string());
    assert!(live.join("annals.db").exists());
}

/// A restore that is killed before it puts the backup in the store's place has given the store a second name.
#[test]
fn a_second_name_of_the_store_is_not_kept() {
    let user = user();
    let second = user.store().with_extension("db.before-restore-20260225T120300Z");
    let copy = user.store().with_extension("db.before-restore-20260101T000000Z");
    std::fs::hard_link(user.store(), &second).unwrap();
    std::fs::copy(user.store(), &copy).unwrap();
    let _ = user.annals(&["reindex"]).run().ok();
    assert!(!second.exists() && copy.exists() && user.store().exists());
}

#[test]
fn the_passing_store_of_a_killed_search_is_removed_by_the_next() {
    let user = user();
    let temporary = user.root().join("tmp");
    std::fs::create_dir(&temporary).unwrap();
    let left = leave(&user.store(), &temporary);
    let search =
        || annals(&user.opencode(), &["search", "cart", "--json"]).env("TMPDIR", &temporary).run().ok();
    assert_eq!(search().json().as_array().unwrap().len(), 1);
    assert!(!left.exists());
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0);
}
