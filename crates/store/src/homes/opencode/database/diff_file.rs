//! Differences of sessions: files beside the database, as in the days before it.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use annals_core::id::SessionId;
use annals_core::json::Kind;
use annals_core::{Document, Key, Stored};
use rayon::prelude::*;

use super::OpencodeDatabase;
use crate::home::{CommitError, Quarantined, UnreadableReason};
use crate::{draft, parallel, platform};

impl OpencodeDatabase {
    /// Whether the database has a name of OpenCode's, so that what is beside it belongs to OpenCode too.
    pub(super) fn has_place_in_directory(&self) -> bool {
        let name = self.path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with("opencode") && name.ends_with(".db")
    }

    /// The file for a session's differences. `None` unless the database has a name and a place of OpenCode's.
    pub(super) fn diff_path(&self, session: &SessionId) -> Option<PathBuf> {
        Some(self.diff_directory()?.join(format!("{session}.json")))
    }

    fn diff_directory(&self) -> Option<PathBuf> {
        self.has_place_in_directory().then_some(())?;
        Some(self.path.parent()?.join("storage").join("session_diff"))
    }

    pub(super) fn read_diff(&self, session: &SessionId) -> Result<Option<Stored>, Quarantined> {
        let Some(path) = self.diff_path(session) else { return Ok(None) };
        let place = format!("storage/session_diff/{session}.json");
        let problem = |reason| Quarantined { place: place.clone(), reason, session: Some(session.clone()) };
        match fs::metadata(&path) {
            Ok(metadata) if metadata.is_file() => {}
            Ok(_) => return Err(problem(UnreadableReason::NotAFile("something else"))),
            Err(_) => return Ok(None),
        }
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(problem(UnreadableReason::Refused(error.to_string()))),
        };
        let document = Document::parse(bytes).map_err(|error| problem(UnreadableReason::Json(error)))?;
        match document.root().kind() {
            Kind::Array => Ok(Some(Stored::new(Key::Diff(session.clone()), document, place.clone()))),
            kind => {
                Err(problem(UnreadableReason::WrongKind { wanted: "an array", found: kind.with_article() }))
            }
        }
    }
}

/// Removes what a killed process has left beside the files of differences.
pub(super) fn sweep(database: &OpencodeDatabase) {
    if let Some(directory) = database.diff_directory() {
        draft::sweep(&directory);
    }
}

/// A file to be written.
pub(super) struct DiffFile<'d> {
    pub(super) path: PathBuf,
    pub(super) bytes: &'d [u8],
}

/// A file that is written but not in its place yet. Dropping it removes it.
pub(super) struct Staged {
    draft: tempfile::NamedTempFile,
    path: PathBuf,
}

/// Writes files beside their places, and syncs them.
pub(super) fn stage(files: &[DiffFile<'_>]) -> Result<Vec<Staged>, CommitError> {
    let Some(directory) = files.first().and_then(|file| file.path.parent()) else { return Ok(Vec::new()) };
    platform::create_private_directory(directory).map_err(|error| not_written(directory, error))?;
    let stage_one = |file: &DiffFile<'_>| {
        // As OpenCode makes it: by the umask.
        let mut draft = draft::make_in(directory, 0o666)?;
        draft.write_all(file.bytes)?;
        if let Some(replaced) = file.path.symlink_metadata().ok().filter(fs::Metadata::is_file) {
            draft.as_file().set_permissions(replaced.permissions())?;
        }
        draft.as_file().sync_all()?;
        Ok(Staged { draft, path: file.path.clone() })
    };
    // Syncing several at once lets the file system do it in one go.
    parallel::run(|| {
        files.par_iter().map(|file| stage_one(file).map_err(|error| not_written(&file.path, error))).collect()
    })
}

/// Moves files to their places.
pub(super) fn place(staged: Vec<Staged>) -> Result<(), CommitError> {
    let Some(directory) = staged.first().and_then(|file| file.path.parent()).map(Path::to_owned) else {
        return Ok(());
    };
    for Staged { draft, path } in staged {
        draft.persist(&path).map_err(|error| not_written(&path, error.error))?;
    }
    platform::sync_directory(&directory).map_err(|error| not_written(&directory, error))
}

/// The error of a file that could not be written.
pub(super) fn not_written(path: &Path, source: io::Error) -> CommitError {
    CommitError::Failed { path: path.display().to_string(), source }
}

/// Removes a file. A file that is gone already is no error.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
