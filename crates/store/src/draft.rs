//! Drafts: files that are written beside their places before they get their names.
//!
//! A process that is killed leaves its drafts behind. So a process holds a lock on a draft (`flock`) until the draft has its name, and `sweep`
//! removes those whose lock is free. `scratch.rs` does the same with directories.

use std::io;
use std::path::Path;

use tempfile::NamedTempFile;

use crate::platform;

/// How the name of every draft begins.
const PREFIX: &str = ".annals-new-";
/// How often a draft is made again because another process took it for abandoned before it was locked.
const MAX_TRIES: usize = 20;

/// Makes a draft, with these permissions but for those that the umask takes away. Dropping it removes it.
pub(crate) fn make_in(directory: &Path, mode: u32) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(PREFIX);
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(mode));
    #[cfg(not(unix))]
    let _ = mode;
    for _ in 0..MAX_TRIES {
        let draft = builder.tempfile_in(directory)?;
        // Where files cannot be locked, nobody takes one for abandoned.
        if draft.as_file().lock().is_err() || platform::is_at(draft.as_file(), draft.path()) {
            return Ok(draft);
        }
    }
    Err(io::Error::other("others remove every file that is made"))
}

/// Removes the drafts that killed processes have left in a directory: only files of this user with the name of a draft that nobody holds.
pub(crate) fn sweep(directory: &Path) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(PREFIX) {
            remove_if_abandoned(&entry.path());
        }
    }
}

#[cfg(unix)]
fn remove_if_abandoned(path: &Path) {
    use std::os::unix::fs::MetadataExt;
    let Ok(file) = platform::open_to_read(path) else { return };
    let is_ours = file.metadata().is_ok_and(|metadata| metadata.uid() == rustix::process::geteuid().as_raw());
    // The lock is held until the file is gone, so that one that was just made is noticed by who made it.
    if is_ours && file.try_lock().is_ok() && platform::is_at(&file, path) {
        let _ = std::fs::remove_file(path);
    }
}

#[cfg(not(unix))]
fn remove_if_abandoned(_: &Path) {}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn only_drafts_that_nobody_holds_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let held = make_in(directory.path(), 0o600).unwrap();
        std::fs::write(at(".annals-new-dead"), "dead").unwrap();
        std::fs::write(at(".annals-other"), "other").unwrap();
        std::fs::create_dir(at(".annals-new-directory")).unwrap();
        std::os::unix::fs::symlink(at(".annals-other"), at(".annals-new-link")).unwrap();
        sweep(directory.path());
        assert!(held.path().exists() && !at(".annals-new-dead").exists());
        for name in [".annals-other", ".annals-new-directory", ".annals-new-link"] {
            assert!(at(name).symlink_metadata().is_ok(), "{name} stays");
        }
        // Once it has its name, it is nobody's draft.
        held.persist(at("placed")).unwrap();
        sweep(directory.path());
        assert!(at("placed").exists());
    }

    /// Many make drafts while others sweep: nobody loses theirs.
    #[test]
    fn one_that_was_just_made_is_never_lost() {
        let directory = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..300 {
                        let draft = make_in(directory.path(), 0o600).unwrap();
                        std::thread::yield_now();
                        assert!(draft.path().exists());
                    }
                });
                scope.spawn(|| (0..600).for_each(|_| sweep(directory.path())));
            }
        });
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
