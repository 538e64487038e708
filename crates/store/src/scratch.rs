//! Directories in which something is made before it gets its name: a new store, a backup, a passing store.
//!
//! A process that is killed leaves such a directory behind, with a copy of the store in it. So a process holds a lock on its
//! directory (`flock` on the directory itself) as long as it lives. A directory whose lock is free is abandoned, and `sweep`
//! removes it.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::platform;

/// How the name of every such directory begins.
const PREFIX: &str = ".annals-draft-";
/// What every name of annals that is not the store's own begins with: earlier versions left off `draft-`.
const ANY_PREFIX: &str = ".annals-";
/// Files that annals puts into such a directory. One that holds anything else is somebody else's, whatever its name.
#[cfg(unix)]
const CONTENTS: [&str; 13] = [
    "annals.db",
    "annals.db-wal",
    "annals.db-shm",
    "annals.db-journal",
    "annals.db-lock",
    "annals.db-index-lock",
    "annals.db-operation-lock",
    "annals.index",
    "index",
    "opencode.db",
    "opencode.db-wal",
    "opencode.db-shm",
    "opencode.db-journal",
];
/// How often a directory is made again because another process took it for abandoned before it was locked.
const MAX_TRIES: usize = 20;

/// A directory of this process, for its owner's eyes only. Dropping it removes it.
#[derive(Debug)]
pub struct Scratch {
    directory: TempDir,
    /// Locked as long as this lives. None where directories cannot be locked: there no process takes a directory for abandoned.
    _lock: Option<File>,
}

impl Scratch {
    /// Makes a directory in another one. Abandoned ones there are removed first.
    pub fn new_in(parent: &Path) -> io::Result<Scratch> {
        sweep(parent);
        Scratch::make_in(parent)
    }

    fn make_in(parent: &Path) -> io::Result<Scratch> {
        let mut builder = tempfile::Builder::new();
        builder.prefix(PREFIX).rand_bytes(10);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            builder.permissions(std::fs::Permissions::from_mode(0o700));
        }
        let mut tries = 0;
        loop {
            let directory = builder.tempdir_in(parent)?;
            tries += 1;
            match lock(directory.path()) {
                Locked::Taken if tries < MAX_TRIES => {}
                Locked::Ours(lock) => return Ok(Scratch { directory, _lock: Some(lock) }),
                _ => return Ok(Scratch { directory, _lock: None }),
            }
        }
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }
}

/// Makes a file durable and gives it its name, durably as well. `AlreadyExists` if something has that name: it stays.
pub(crate) fn place_new(made: &Path, target: &Path) -> io::Result<()> {
    File::open(made)?.sync_all()?;
    link(made, target)?;
    platform::sync_directory(parent_of(target))
}

/// Gives a file a name, unless something has it.
pub(crate) fn link(made: &Path, target: &Path) -> io::Result<()> {
    match std::fs::hard_link(made, target) {
        // Some file systems have no links; there somebody else could come in between.
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            if target.symlink_metadata().is_ok() {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            std::fs::rename(made, target)
        }
        linked => linked,
    }
}

/// The directory that a file is in.
pub(crate) fn parent_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// What became of the attempt to lock a directory that was just made.
enum Locked {
    Ours(File),
    /// Another process took it for abandoned and removes it.
    Taken,
    /// Directories cannot be locked here.
    Unsupported,
}

#[cfg(unix)]
fn lock(directory: &Path) -> Locked {
    use std::os::unix::fs::MetadataExt;
    let Ok(file) = open_directory(directory) else { return Locked::Taken };
    match file.lock() {
        // The one that removed it held the lock until it was gone.
        Ok(()) => match (file.metadata(), directory.symlink_metadata()) {
            (Ok(ours), Ok(found)) if (ours.dev(), ours.ino()) == (found.dev(), found.ino()) => {
                Locked::Ours(file)
            }
            _ => Locked::Taken,
        },
        Err(_) => Locked::Unsupported,
    }
}

#[cfg(not(unix))]
fn lock(_: &Path) -> Locked {
    Locked::Unsupported
}

/// Removes what killed processes have left in a directory: only directories that belong to this user, are named as annals names
/// them, hold nothing but files of annals, and are not locked.
pub(crate) fn sweep(parent: &Path) {
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(PREFIX) {
            remove_if_abandoned(&entry.path());
        }
    }
}

/// Removes what killed processes have left beside a store. The caller holds the lock at which the writers of the store queue.
pub(crate) fn sweep_beside(store: &Path) {
    let (Some(parent), Some(name)) = (store.parent(), store.file_name()) else { return };
    let kept = format!("{}.before-", name.to_string_lossy());
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with(PREFIX) {
            remove_if_abandoned(&entry.path());
        } else if name.starts_with(&kept) {
            remove_if_same(&entry.path(), store);
        }
    }
}

/// Directories of annals that are in a directory: those of processes that live.
pub(crate) fn remaining(parent: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(parent).into_iter().flatten().flatten();
    let is_ours = |entry: &std::fs::DirEntry| {
        entry.file_name().to_string_lossy().starts_with(ANY_PREFIX)
            && entry.file_type().is_ok_and(|kind| kind.is_dir())
    };
    entries.filter(is_ours).map(|entry| entry.path()).collect()
}

/// A restore that was killed before it put the backup in the store's place has given the store a second name. A store with two
/// names is no copy of itself.
#[cfg(unix)]
fn remove_if_same(path: &Path, store: &Path) {
    use std::os::unix::fs::MetadataExt;
    let (Ok(found), Ok(store)) = (path.symlink_metadata(), store.symlink_metadata()) else { return };
    // With a log of its own it is more than a second name of the store.
    let has_log = crate::sqlite::log_of(path).symlink_metadata().is_ok();
    if found.is_file() && (found.dev(), found.ino()) == (store.dev(), store.ino()) && !has_log {
        let _ = std::fs::remove_file(path);
    }
}

#[cfg(not(unix))]
fn remove_if_same(_: &Path, _: &Path) {}

#[cfg(unix)]
fn remove_if_abandoned(path: &Path) {
    use std::os::unix::fs::MetadataExt;
    let Ok(directory) = open_directory(path) else { return };
    let is_ours =
        directory.metadata().is_ok_and(|metadata| metadata.uid() == rustix::process::geteuid().as_raw());
    // The lock is held until the directory is gone, so that one that was just made is noticed by who made it.
    if is_ours && directory.try_lock().is_ok() && holds_only_ours(path) {
        let _ = std::fs::remove_dir_all(path);
    }
}

#[cfg(not(unix))]
fn remove_if_abandoned(_: &Path) {}

#[cfg(unix)]
fn holds_only_ours(path: &Path) -> bool {
    let is_ours = |entry: io::Result<std::fs::DirEntry>| {
        entry.is_ok_and(|entry| CONTENTS.iter().any(|name| entry.file_name() == *name))
    };
    std::fs::read_dir(path).is_ok_and(|mut entries| entries.all(is_ours))
}

/// Opens a directory itself, not what a link in its place leads to.
#[cfg(unix)]
fn open_directory(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let flags = rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::NOFOLLOW;
    std::fs::OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn only_what_nobody_holds_any_more_is_removed() {
        let parent = tempfile::tempdir().unwrap();
        let at = |name: &str| parent.path().join(name);
        let live = Scratch::make_in(parent.path()).unwrap();
        std::fs::write(live.path().join("annals.db"), "live").unwrap();
        for name in [".annals-draft-dead", ".annals-draft-empty", ".annals-draft-mine", ".annals-config"] {
            std::fs::create_dir(at(name)).unwrap();
        }
        std::fs::write(at(".annals-draft-dead/annals.db"), "dead").unwrap();
        std::fs::create_dir(at(".annals-draft-dead/index")).unwrap();
        std::fs::write(at(".annals-draft-dead/index/meta.json"), "{}").unwrap();
        std::fs::write(at(".annals-draft-mine/letter.txt"), "mine").unwrap();
        std::fs::create_dir(at("elsewhere")).unwrap();
        std::fs::write(at("elsewhere/annals.db"), "linked").unwrap();
        std::os::unix::fs::symlink(at("elsewhere"), at(".annals-draft-link")).unwrap();
        std::fs::write(at(".annals-draft-file"), "a file").unwrap();
        sweep(parent.path());
        assert!(live.path().join("annals.db").exists());
        for name in
            [".annals-draft-mine/letter.txt", ".annals-config", "elsewhere/annals.db", ".annals-draft-file"]
        {
            assert!(at(name).exists(), "{name} stays");
        }
        assert!(at(".annals-draft-link").symlink_metadata().is_ok());
        assert!(!at(".annals-draft-dead").exists() && !at(".annals-draft-empty").exists());
        let path = live.path().to_owned();
        drop(live);
        assert!(!path.exists());
    }

    /// Many make directories while others sweep: nobody loses theirs.
    #[test]
    fn one_that_was_just_made_is_never_lost() {
        let parent = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..300 {
                        let made = Scratch::make_in(parent.path()).unwrap();
                        std::fs::write(made.path().join("annals.db"), "x").unwrap();
                        std::thread::yield_now();
                        assert!(made.path().join("annals.db").exists());
                    }
                });
                scope.spawn(|| (0..600).for_each(|_| sweep(parent.path())));
            }
        });
        sweep(parent.path());
        assert_eq!(std::fs::read_dir(parent.path()).unwrap().count(), 0);
    }
}
