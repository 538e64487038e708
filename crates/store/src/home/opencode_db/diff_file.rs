//! Differences of sessions: files beside the database, as in the days before it.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use annals_core::id::SessionId;
use annals_core::json::Kind;
use annals_core::{Document, Key, Stored};
use rayon::prelude::*;

use super::OpencodeDb;
use crate::home::{Quarantined, Reason};
use crate::{parallel, platform};

impl OpencodeDb {
    /// The file for a session's differences. A database that is not where and called as OpenCode's are has none.
    pub(super) fn diff_path(&self, session: &SessionId) -> Option<PathBuf> {
        let name = self.path.file_name()?.to_str()?;
        if !(name.starts_with("opencode") && name.ends_with(".db")) {
            return None;
        }
        Some(self.path.parent()?.join("storage").join("session_diff").join(format!("{session}.json")))
    }

    pub(super) fn read_diff(&self, session: &SessionId) -> Result<Option<Stored>, Quarantined> {
        let Some(path) = self.diff_path(session) else { return Ok(None) };
        let place = format!("storage/session_diff/{session}.json");
        let problem = |reason| Quarantined { place: place.clone(), reason, session: Some(session.clone()) };
        match fs::metadata(&path) {
            Ok(metadata) if metadata.is_file() => {}
            Ok(_) => return Err(problem(Reason::NotAFile("something else"))),
            Err(_) => return Ok(None),
        }
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(problem(Reason::Refused(error.to_string()))),
        };
        let document = Document::parse(bytes).map_err(|error| problem(Reason::Json(error)))?;
        match document.root().kind() {
            Kind::Array => {
                Ok(Some(Stored { key: Key::Diff(session.clone()), document, place: place.clone() }))
            }
            kind => Err(problem(Reason::WrongKind { wanted: "an array", found: kind.with_article() })),
        }
    }
}

/// A file to be written.
pub(super) struct DiffFile<'d> {
    pub(super) path: PathBuf,
    pub(super) bytes: &'d [u8],
}

/// Writes files, each of which is there completely or not at all.
pub(super) fn write_all(files: &[DiffFile<'_>]) -> Result<(), (PathBuf, io::Error)> {
    let Some(directory) = files.first().and_then(|file| file.path.parent()) else { return Ok(()) };
    let at = |path: &Path| {
        let path = path.to_owned();
        move |error: io::Error| (path, error)
    };
    fs::create_dir_all(directory).map_err(at(directory))?;
    let write_one = |file: &DiffFile<'_>| {
        let mut draft = tempfile::Builder::new().prefix(".annals-").tempfile_in(directory)?;
        draft.write_all(file.bytes)?;
        #[cfg(unix)]
        draft.as_file().set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))?;
        draft.as_file().sync_all()?;
        draft.persist(&file.path).map_err(|error| error.error).map(drop)
    };
    // Syncing several at once lets the file system do it in one go.
    parallel::run(|| files.par_iter().try_for_each(|file| write_one(file).map_err(at(&file.path))))?;
    platform::sync_directory(directory).map_err(at(directory))
}

/// Removes a file; one that is gone already is as good.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
