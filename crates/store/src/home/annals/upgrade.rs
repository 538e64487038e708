//! Bringing the tables of an earlier version up to date: after a backup, and all at once.

use rusqlite::{Connection, OptionalExtension};

use super::OpenAnnalsError;
use super::backup::{BackupError, Draft};
use super::file::{BeginError, StoreFile};
use super::restore::unused;

/// Brings a store up to date. `upgrades` lead from each version to the next, beginning with version 1. A step after which
/// earlier versions of annals would read the store wrongly also raises `reader` in `meta`.
pub(super) fn upgrade(file: &StoreFile, upgrades: &[&str]) -> Result<(), OpenAnnalsError> {
    let path = file.path();
    let failed = |error: rusqlite::Error| OpenAnnalsError::sqlite(path, &error);
    let latest = 1 + upgrades.len() as i64;
    let writing = file.write().map_err(|error| match error {
        BeginError::ReadOnly => OpenAnnalsError::io(path, &std::io::ErrorKind::PermissionDenied.into()),
        BeginError::Queue(error) => OpenAnnalsError::io(path, &error),
        BeginError::Sqlite(error) => failed(error),
    })?;
    // Another process may have been faster.
    let found: Option<i64> = writing
        .query_row("SELECT value FROM meta WHERE name = 'schema'", [], |row| row.get(0))
        .optional()
        .map_err(failed)?;
    let steps = match found.and_then(|found| usize::try_from(found - 1).ok()) {
        Some(n_done) if n_done < upgrades.len() => &upgrades[n_done..],
        Some(_) => return Ok(()),
        None => {
            let what = "the version of its tables is none".to_owned();
            return Err(OpenAnnalsError::Damaged { path: path.display().to_string(), what });
        }
    };
    // Nobody writes now, so this is the state that is changed.
    let kept = unused(path, &format!(".before-schema-{latest}"));
    let draft = Draft::beside(path).map_err(|error| unsaved(file, error))?;
    file.read(|connection| draft.copy(connection, &|_, _| {})).map_err(failed)?;
    draft.place_new(&kept).map_err(|error| unsaved(file, error))?;
    let done = run(&writing, steps, latest).and_then(|()| writing.commit());
    if let Err(error) = done {
        // Nothing has changed, so there is nothing that would have to be kept.
        let _ = std::fs::remove_file(&kept);
        return Err(match failed(error) {
            OpenAnnalsError::Refused { path, what } => {
                let what = format!("its tables cannot be brought up to date, and are as they were: {what}");
                OpenAnnalsError::Refused { path, what }
            }
            other => other,
        });
    }
    Ok(())
}

fn run(connection: &Connection, steps: &[&str], latest: i64) -> rusqlite::Result<()> {
    for step in steps {
        connection.execute_batch(step)?;
    }
    connection.execute("UPDATE meta SET value = ?1 WHERE name = 'schema'", [latest]).map(drop)
}

/// There is no backup, so nothing is changed.
fn unsaved(file: &StoreFile, error: BackupError) -> OpenAnnalsError {
    let path = file.path().display().to_string();
    match error {
        BackupError::NoRoom { .. } => OpenAnnalsError::NoRoom { path },
        BackupError::Damaged { what, .. } => OpenAnnalsError::Damaged { path, what },
        error => OpenAnnalsError::Refused { path, what: format!("no backup could be made: {error}") },
    }
}
