//! Restoring a backup: it takes the store's place at once, and the former store is kept.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use annals_core::id::Millis;
use rusqlite::Connection;

use super::backup::{Draft, identify};
use super::file::lock_file;
use crate::platform;
use crate::scratch::parent_of;
use crate::sqlite::{self, Connections, Ours, Tolerance, empty_log};
use crate::upkeep::{BackupError, RestoredBackup};

/// How long to wait for readers before the log is kept as it is.
const PATIENCE: Duration = Duration::from_secs(5);

/// Puts a copy of a backup in a store's place, after checking all of the copy. Processes that have the store open go on
/// with the restored one. The former store is kept beside it, under a name that has the time `now`.
pub fn restore_backup(backup: &Path, store: &Path, now: Millis) -> Result<RestoredBackup, BackupError> {
    let backup = backup.canonicalize().map_err(|error| BackupError::io(backup, error))?;
    // Opening a pipe would wait.
    if !backup.is_file() {
        return Err(BackupError::NotAStore { path: backup.display().to_string() });
    }
    let parent = parent_of(store);
    platform::create_private_directory(parent).map_err(|error| BackupError::io(parent, error))?;
    // The log lies beside the file itself, not beside a link to it.
    let store = store.canonicalize().unwrap_or_else(|_| store.to_owned());
    if backup == store {
        return Err(BackupError::Same { path: backup.display().to_string() });
    }
    if let Some(kind) = platform::network_file_system(parent) {
        return Err(BackupError::Network { path: store.display().to_string(), kind });
    }
    let draft = Draft::beside(&store)?;
    let source = Connections::to(&backup, Tolerance::None);
    let copying = |error: rusqlite::Error| BackupError::copying(&backup, &store, &error);
    source.read(|connection| identify(connection, &backup)).map_err(copying)??;
    let time = source.read(|connection| {
        draft.copy(connection, &|_, _| {})?;
        let sql = "SELECT strftime('%Y%m%dT%H%M%SZ', ?1 / 1000, 'unixepoch')";
        connection.query_row(sql, [now], |row| row.get::<_, Option<String>>(0))
    });
    let time = time.map_err(copying)?.unwrap_or_else(|| now.to_string());
    draft.verify_tables(&backup)?;
    let contents = draft.verify(&backup)?;
    let kept = unused(&store, &format!(".before-restore-{time}"));
    let kept = swap(&draft, &store, kept).map_err(|error| BackupError::io(&store, error))?;
    let (bytes, documents, revisions) = (contents.bytes, contents.documents, contents.revisions);
    Ok(RestoredBackup { bytes, documents, revisions, kept })
}

/// An unused path beside a store: with a suffix, and a number if need be.
pub(super) fn unused(store: &Path, suffix: &str) -> PathBuf {
    let numbered = (2..).map(|n| sqlite::beside(store, &format!("{suffix}-{n}")));
    let mut candidates = std::iter::once(sqlite::beside(store, suffix)).chain(numbered);
    candidates.find(|path| path.symlink_metadata().is_err()).expect("there are endlessly many names")
}

/// Puts the draft in the store's place. Whenever the power fails, one of the two is in place, and never beside the
/// other's log: SQLite would take that for its own.
fn swap(draft: &Draft, store: &Path, kept: PathBuf) -> io::Result<Option<PathBuf>> {
    draft.sync()?;
    // The index belongs to the state that is replaced. All processes lock the index first, and then the store.
    let indexers = platform::open_private_file(&sqlite::beside(store, "-index-lock"))?;
    indexers.lock()?;
    // Writers check whether the file is still the same when it is their turn.
    let queue = lock_file(store)?;
    queue.lock()?;
    // The number that is noted there belongs to the state that is replaced.
    queue.set_len(0)?;
    draft.take(&store.with_extension("index"), "index")?;
    let was_there = loop {
        if store.symlink_metadata().is_ok() {
            put_aside(draft, store, &kept)?;
            break true;
        }
        // A log without its database is useless, and would harm the new database.
        move_log(store, &kept)?;
        draft.sync_parent()?;
        match draft.link(store) {
            // Another process has just made a store.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            linked => break linked.map(|()| false)?,
        }
    };
    draft.sync_parent()?;
    Ok(was_there.then_some(kept))
}

fn put_aside(draft: &Draft, store: &Path, kept: &Path) -> io::Result<()> {
    // As long as this connection lives, no process begins to write to the old file. Closing it does not remove the new
    // file's log: SQLite checks whether the file has moved.
    let guard = quiet(store);
    let is_linked = std::fs::hard_link(store, kept).is_ok();
    match guard {
        Some(_) => remove(&sqlite::log_of(store))?,
        None => move_log(store, kept)?,
    }
    remove(&sqlite::beside(store, "-shm"))?;
    draft.sync_parent()?;
    if !is_linked {
        // Some file systems have no links; there the store is missing for a moment.
        std::fs::rename(store, kept)?;
    }
    std::fs::rename(draft.path(), store)
}

/// A connection that keeps all others from writing to a store whose log is empty. None where that is impossible: the
/// store is damaged, or a reader uses the log all the time.
fn quiet(store: &Path) -> Option<Connection> {
    let connection = sqlite::open_ours(store, Ours::Held).ok()?;
    connection.busy_timeout(PATIENCE).ok()?;
    if !empty_log(&connection).ok()? {
        return None;
    }
    connection.execute_batch("BEGIN IMMEDIATE").ok()?;
    // A process that does not queue may have written in between.
    let is_empty = std::fs::metadata(sqlite::log_of(store)).map_or(true, |log| log.len() == 0);
    is_empty.then_some(connection)
}

/// Moves the log along with its database.
fn move_log(store: &Path, kept: &Path) -> io::Result<()> {
    match std::fs::rename(sqlite::log_of(store), sqlite::log_of(kept)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        moved => moved,
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
