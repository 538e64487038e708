//! The difference between two snapshots, file by file, as OpenCode notes it in a session.

use std::collections::HashMap;

use annals_core::file_patch::file_patch;
use annals_core::lens::{FileDiff, SessionSummary};

use super::{SnapshotError, Snapshots, fields};

/// A file that is different in two snapshots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedFile {
    /// Its path, relative to the working tree.
    pub file: String,
    /// Its text in the earlier snapshot; empty for a binary file.
    pub before: String,
    /// Its text in the later snapshot; empty for a binary file.
    pub after: String,
    /// The difference as a patch, where OpenCode keeps it instead of both texts.
    pub patch: Option<String>,
    /// Lines added.
    pub additions: u64,
    /// Lines deleted.
    pub deletions: u64,
    /// `added`, `deleted` or `modified`.
    pub status: &'static str,
}

impl ChangedFile {
    /// The difference as a session's document has it.
    pub fn diff(&self) -> FileDiff<'_> {
        let texts = self.patch.is_none();
        let text = |text: &'_ str| texts.then(|| text.to_owned().into());
        FileDiff {
            file: Some(self.file.as_str().into()),
            before: text(&self.before),
            after: text(&self.after),
            patch: self.patch.as_deref().map(Into::into),
            additions: Some(self.additions as f64),
            deletions: Some(self.deletions as f64),
            status: Some(self.status.into()),
        }
    }

    /// Files and lines in all.
    pub fn sum(files: &[ChangedFile]) -> SessionSummary<'static> {
        SessionSummary {
            additions: Some(files.iter().map(|file| file.additions).sum::<u64>() as f64),
            deletions: Some(files.iter().map(|file| file.deletions).sum::<u64>() as f64),
            files: Some(files.len() as f64),
            diffs: None,
        }
    }
}

impl Snapshots {
    /// The files in the session's directory that are different in two snapshots.
    pub fn changes(&self, from: &str, to: &str) -> Result<Vec<ChangedFile>, SnapshotError> {
        let diff = |how: &[&str]| {
            let arguments =
                [&["diff", "--no-ext-diff", "--no-renames", "-z"], how, &[from, to, "--", "."]].concat();
            self.git.run_in(&self.directory, &arguments, &[]).map(|answer| fields(&answer))
        };
        let mut statuses = HashMap::new();
        let mut listed = diff(&["--name-status"])?.into_iter();
        while let (Some(status), Some(file)) = (listed.next(), listed.next()) {
            let status = match status.as_bytes().first() {
                Some(b'A') => "added",
                Some(b'D') => "deleted",
                _ => "modified",
            };
            statuses.insert(file, status);
        }
        let counted = diff(&["--numstat"])?;
        let ignored = match self.dialect.writes_patches() {
            true => self.ignored(&statuses.keys().cloned().collect::<Vec<_>>())?,
            false => Default::default(),
        };
        let mut changed = Vec::new();
        for line in counted {
            let [additions, deletions, file] = line.splitn(3, '\t').collect::<Vec<_>>()[..] else { continue };
            if ignored.contains(file) {
                continue;
            }
            let is_binary = additions == "-" && deletions == "-";
            let status = statuses.get(file).copied().unwrap_or("modified");
            let text = |snapshot: &str, lacks: &str| match is_binary || status == lacks {
                true => Ok(String::new()),
                false => self.text(snapshot, file),
            };
            let (before, after) = (text(from, "added")?, text(to, "deleted")?);
            let patch = self.dialect.writes_patches().then(|| match is_binary {
                true => String::new(),
                false => file_patch(file, &before, &after),
            });
            changed.push(ChangedFile {
                file: file.to_owned(),
                before,
                after,
                patch,
                additions: additions.parse().unwrap_or(0),
                deletions: deletions.parse().unwrap_or(0),
                status,
            });
        }
        Ok(changed)
    }

    fn text(&self, snapshot: &str, file: &str) -> Result<String, SnapshotError> {
        let bytes = self.git.run(&["show", &format!("{snapshot}:{file}")])?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}
