//! The tree of files: where each record goes, and how many there are.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::record::{FileDiff, Part, PartBody, Project, Session, Todo};
use super::{GenerateError, Totals, json};

/// One writer into a `storage` directory. Several may write into the same one, each to files of its own; their
/// totals add up.
#[derive(Debug)]
pub(crate) struct Home {
    storage: PathBuf,
    pub(crate) totals: Totals,
}

impl Home {
    pub(crate) fn new(storage: &Path) -> Self {
        Self { storage: storage.to_owned(), totals: Totals::default() }
    }

    /// Writes the marker that tells OpenCode that all migrations are done.
    pub(crate) fn migration(&mut self) -> Result<(), GenerateError> {
        self.put(self.storage.join("migration"), b"2")
    }

    pub(crate) fn project(&mut self, project: &Project<'_>) -> Result<(), GenerateError> {
        self.totals.projects += 1;
        self.json(&["project", project.id], project)
    }

    pub(crate) fn session(&mut self, session: &Session<'_>) -> Result<(), GenerateError> {
        self.totals.sessions += 1;
        self.json(&["session", session.project_id, session.id], session)
    }

    pub(crate) fn message(
        &mut self,
        session: &str,
        id: &str,
        message: &impl Serialize,
    ) -> Result<(), GenerateError> {
        self.totals.messages += 1;
        self.json(&["message", session, id], message)
    }

    pub(crate) fn part(
        &mut self,
        session: &str,
        message: &str,
        id: &str,
        body: &PartBody,
    ) -> Result<(), GenerateError> {
        self.totals.parts += 1;
        self.json(&["part", message, id], &Part { id, session_id: session, message_id: message, body })
    }

    pub(crate) fn todos(&mut self, session: &str, todos: &[Todo]) -> Result<(), GenerateError> {
        self.json(&["todo", session], &todos)
    }

    pub(crate) fn diff(&mut self, session: &str, diffs: &[FileDiff]) -> Result<(), GenerateError> {
        self.json(&["session_diff", session], &diffs)
    }

    fn json(&mut self, key: &[&str], value: &impl Serialize) -> Result<(), GenerateError> {
        let mut path = self.storage.clone();
        path.extend(key);
        // Not `set_extension`: a key may contain dots.
        path.as_mut_os_string().push(".json");
        self.put(path, &json::to_vec(value))
    }

    fn put(&mut self, path: PathBuf, bytes: &[u8]) -> Result<(), GenerateError> {
        write_file(&path, bytes).map_err(|source| GenerateError::Write { path, source })?;
        self.totals.files += 1;
        self.totals.bytes += bytes.len() as u64;
        Ok(())
    }
}

fn write_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    match fs::write(path, bytes) {
        // The first file of its directory: cheaper to fail once than to check every time.
        Err(error) if error.kind() == ErrorKind::NotFound => {
            fs::create_dir_all(path.parent().expect("a file of the home is below its root"))?;
            fs::write(path, bytes)
        }
        result => result,
    }
}
