//! The files that a session changed, as its summary and its differences tell: computed from OpenCode's snapshots, and written to homes.

use std::collections::HashMap;
use std::path::PathBuf;

use annals_core::json::Style;
use annals_core::lens::FileDiff;
use annals_core::{Document, Key, Transaction};

use super::OperationError;
use super::session_change::ChangeTarget;
use super::target_homes::TargetHomes;
use crate::home::{Native, SessionRecord};
use crate::homes::opencode::dialect::Dialect;
use crate::open;
use crate::revert::SnapshotRange;
use crate::snapshot::{ChangedFile, SnapshotError, Snapshots};

/// Where snapshots of a session may be: the data directories of the homes that hold it, each with the generation of its OpenCode.
pub(super) struct SnapshotPlaces(Vec<(PathBuf, Dialect)>);

impl SnapshotPlaces {
    pub(super) fn of(targets: &TargetHomes, session: &SessionRecord) -> SnapshotPlaces {
        let mut places: Vec<(PathBuf, Dialect)> = Vec::new();
        for target in &targets.homes {
            let home = target.home.as_write();
            let data = home.files().and_then(|files| files.data_directory(session));
            places.extend(data.zip(open::dialect_of(home)));
        }
        // A home that has lost the session may still have its snapshots.
        let of_version = Dialect::of_version(session.info.version());
        for path in session.origins.iter().filter_map(|origin| origin.path()) {
            let data = if path.is_dir() { Some(path) } else { path.parent() };
            if let Some(data) = data.filter(|data| !places.iter().any(|(known, _)| known == data)) {
                places.push((data.to_owned(), of_version));
            }
        }
        SnapshotPlaces(places)
    }

    /// The first place that has all snapshots that are needed. If none has, why the first has not.
    pub(super) fn find(&self, session: &SessionRecord, needed: &[&str]) -> Result<Snapshots, OperationError> {
        let mut failed: Option<SnapshotError> = None;
        for (data, dialect) in &self.0 {
            match Snapshots::find(data, session, *dialect, needed) {
                Ok(found) => return Ok(found),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        let none = || {
            let path = session.info.directory().unwrap_or_default().to_owned();
            SnapshotError::NoRepository { worktree: path, repository: "snapshot".to_owned() }
        };
        Err(failed.unwrap_or_else(none).into())
    }

    /// The files that were changed between two snapshots.
    pub(super) fn changed(
        &self,
        session: &SessionRecord,
        range: &SnapshotRange,
    ) -> Result<Vec<ChangedFile>, OperationError> {
        match range.both() {
            Some((from, to)) => Ok(self.find(session, &[from, to])?.changes(from, to)?),
            None => Ok(Vec::new()),
        }
    }
}

/// The files that a session changed.
pub(super) struct SessionDiff {
    /// Lines added and deleted, and the number of files.
    pub(super) sum: [u64; 3],
    diffs: Document,
    /// The homes that have the differences already, by their data directories.
    written: HashMap<PathBuf, String>,
}

impl SessionDiff {
    pub(super) fn of(files: &[ChangedFile]) -> Result<SessionDiff, OperationError> {
        let of = |number: fn(&ChangedFile) -> u64| files.iter().map(number).sum();
        let diffs: Vec<FileDiff<'_>> = files.iter().map(ChangedFile::diff).collect();
        Ok(SessionDiff {
            sum: [of(|file| file.additions), of(|file| file.deletions), files.len() as u64],
            diffs: Document::written(Style::Pretty, &diffs)?,
            written: HashMap::new(),
        })
    }

    /// Adds the differences to a transaction, unless another home in the same data directory has them already: the two share the file.
    pub(super) fn add_to(&mut self, target: ChangeTarget<'_>, transaction: &mut Transaction) {
        let key = Key::Diff(target.session.id.clone());
        let Native::Held { document, .. } = target.home.native(&key, self.diffs.clone()) else { return };
        let data = target.home.files().and_then(|files| files.data_directory(target.session));
        let url = target.home.url().to_string();
        let is_its_own =
            data.is_none_or(|data| *self.written.entry(data).or_insert_with(|| url.clone()) == url);
        if is_its_own {
            transaction.put(key, document);
        }
    }
}
