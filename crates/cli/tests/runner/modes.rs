//! Who can read what annals makes: its owner, whatever the umask. What OpenCode reads has the modes that OpenCode gives it.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::kit::{NOW, User};

/// Runs a command under a umask.
fn under(umask: &str, root: &Path, arguments: &str) {
    let output = Command::new("sh")
        .args(["-c", &format!("umask {umask}; exec \"$A\" {arguments}")])
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("A", env!("CARGO_BIN_EXE_annals"))
        .env("HOME", root)
        .env("TZ", "UTC")
        .env("ANNALS_NOW", NOW)
        .current_dir(root)
        .output()
        .unwrap();
    assert!(output.status.success(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Everything below a directory that others can read, or its owner cannot, with its mode.
fn open_to_others(directory: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![directory.to_owned()];
    while let Some(path) = waiting.pop() {
        let metadata = path.symlink_metadata().unwrap();
        let mode = metadata.permissions().mode() & 0o777;
        let wanted = if metadata.is_dir() { 0o700 } else { 0o600 };
        if mode != wanted {
            found.insert(path.clone(), format!("{mode:o}"));
        }
        if metadata.is_dir() {
            waiting.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
    found
}

fn mode(path: &Path) -> u32 {
    path.symlink_metadata().unwrap().permissions().mode() & 0o777
}

#[test]
fn nobody_else_reads_the_store() {
    for umask in ["000", "022", "077"] {
        let user = User::in_memory();
        user.write_session("36aaaaffe1", "Fix the cart", "It is empty", "The answer");
        user.write_session("36bbbbffe2", "Fix the door", "It is open", "Closed now");
        let store = user.store().parent().unwrap().to_owned();
        under(umask, user.root(), "sync");
        user.write_session("36ccccffe3", "A new one", "It is open", "Closed now");
        under(umask, user.root(), "search cart");
        under(umask, user.root(), "forget --yes door");
        under(umask, user.root(), "backup .local/share/annals/b.db");
        under(umask, user.root(), "restore-backup --yes .local/share/annals/b.db");
        under(umask, user.root(), "search cart");
        // While it is open there are a log and its index as well.
        let open = annals::stores::sqlite::SqliteStore::open(&user.store()).unwrap();
        under(umask, user.root(), "reindex");
        assert!(store.join("annals.db-wal").exists());
        assert_eq!(open_to_others(&store), BTreeMap::new(), "umask {umask}");
        drop(open);
    }
}

#[test]
fn what_annals_keeps_in_a_directory_is_its_own_and_documents_are_opencodes() {
    for (umask, made) in [("000", 0o664), ("022", 0o644), ("077", 0o600)] {
        let user = User::new();
        user.write_session("36aaaaffe1", "Fix the cart", "It is empty", "The answer");
        let storage = user.opencode().join("storage");
        let session = storage.join("session/global/ses_36aaaaffe1.json");
        std::fs::set_permissions(&session, std::fs::Permissions::from_mode(0o640)).unwrap();
        under(umask, user.root(), "--home .local/share/opencode rename cart Renamed");
        assert_eq!(mode(&session), 0o640, "umask {umask}: as it was");
        // Several documents, so that there is a journal.
        under(umask, user.root(), "copy --from .local/share/opencode --to elsewhere");
        let copied = user.root().join("elsewhere/storage");
        assert_eq!(mode(&copied.join("session/global/ses_36aaaaffe1.json")), made, "umask {umask}");
        for directory in [storage, copied.clone()] {
            let own = directory.join(".annals");
            assert_eq!(open_to_others(&own), BTreeMap::new(), "umask {umask}");
        }
        assert!(copied.join(".annals/last").exists());
        assert_eq!(mode(&user.root().join("elsewhere")), 0o700, "umask {umask}");
    }
}

#[test]
fn a_new_database_is_its_owners() {
    for umask in ["000", "077"] {
        let user = User::new();
        user.write_session("36aaaaffe1", "Fix the cart", "It is empty", "The answer");
        under(umask, user.root(), "copy --from .local/share/opencode --to new/opencode.db");
        let (directory, file) = (user.root().join("new"), user.root().join("new/opencode.db"));
        assert_eq!((mode(&directory), mode(&file)), (0o700, 0o600), "umask {umask}");
        let others: Vec<_> = open_to_others(&directory).into_keys().collect();
        assert!(others.iter().all(|path| path.starts_with(directory.join("storage"))), "{others:?}");
    }
}
