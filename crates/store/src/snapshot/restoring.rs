//! What has to be done to a working tree so that files are as they were.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::git::Git;
use super::{SnapshotError, Snapshots, fields};
use crate::home::beside::{TreeFile, TreeFileKind};

/// Files that a step changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patch {
    /// The state of the files before the step: a snapshot.
    pub hash: String,
    /// Absolute paths.
    pub files: Vec<String>,
}

/// A file that changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TreeChange {
    pub(crate) path: PathBuf,
    /// The file as it is; `None` if there is none.
    pub(crate) before: Option<TreeFile>,
    /// The file as it becomes; `None` if it is deleted.
    pub(crate) after: Option<TreeFile>,
}

/// What taking changes of files back would do.
#[derive(Debug)]
pub(crate) struct TreePlan {
    /// The working tree before the changes are taken back.
    pub(crate) snapshot: String,
    /// The difference between that and what it becomes, as git prints it.
    pub(crate) diff: String,
    pub(crate) changes: Vec<TreeChange>,
}

/// A file in a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Blob {
    mode: String,
    hash: String,
}

impl Snapshots {
    /// Plans to take back what steps changed: each file becomes what it was before the first step that changed it. `earlier` is the snapshot
    /// from before a revert that is in force: from its state the changes are taken back.
    pub(crate) fn plan_revert(
        &self,
        patches: &[Patch],
        earlier: Option<&str>,
    ) -> Result<TreePlan, SnapshotError> {
        let (now, index) = self.take()?;
        let snapshot = earlier.unwrap_or(&now).to_owned();
        let mut wanted = match earlier {
            Some(earlier) => self.differing(&now, earlier)?,
            None => BTreeMap::new(),
        };
        let mut is_decided: std::collections::HashSet<&str> = std::collections::HashSet::new();
        for patch in patches {
            for file in patch.files.iter().filter(|file| is_decided.insert(file)) {
                let relative = self.relative(file)?;
                let blob = self.blob(&patch.hash, &relative)?;
                wanted.insert(relative, blob);
            }
        }
        let changes = self.changes_to(&wanted)?;
        let diff = self.diff_after(&index.git, &wanted, &snapshot)?;
        Ok(TreePlan { snapshot, diff, changes })
    }

    /// Plans to restore every file of a snapshot. Files that are not in it stay.
    pub(crate) fn plan_restore(&self, snapshot: &str) -> Result<Vec<TreeChange>, SnapshotError> {
        let (now, _) = self.take()?;
        self.changes_to(&self.differing(&now, snapshot)?)
    }

    /// The files of a snapshot that another one has differently or not at all.
    fn differing(&self, now: &str, then: &str) -> Result<BTreeMap<String, Option<Blob>>, SnapshotError> {
        let listed = self.git.run(&["diff-tree", "-r", "-z", "--no-renames", now, then])?;
        let mut differing = BTreeMap::new();
        let mut fields = fields(&listed).into_iter();
        while let (Some(meta), Some(file)) = (fields.next(), fields.next()) {
            // `:100644 100755 <hash> <hash> M`
            let [_, mode, _, hash, status] = meta.split(' ').collect::<Vec<_>>()[..] else { continue };
            if status != "D" {
                let blob = Blob { mode: mode.to_owned(), hash: hash.to_owned() };
                differing.insert(file, Some(blob));
            }
        }
        Ok(differing)
    }

    /// A file in a snapshot.
    fn blob(&self, snapshot: &str, relative: &str) -> Result<Option<Blob>, SnapshotError> {
        let listed = self.git.run(&[
            "--literal-pathspecs",
            "ls-tree",
            "--full-tree",
            "-z",
            snapshot,
            "--",
            relative,
        ])?;
        let entry = fields(&listed).into_iter().next();
        // `100644 blob <hash>`, a tab, the name.
        Ok(entry.and_then(|entry| {
            let (meta, name) = entry.split_once('\t')?;
            let [mode, kind, hash] = meta.split(' ').collect::<Vec<_>>()[..] else { return None };
            let is_it = name == relative && kind == "blob";
            is_it.then(|| Blob { mode: mode.to_owned(), hash: hash.to_owned() })
        }))
    }

    /// The changes that make files what they should be, without those that are.
    fn changes_to(&self, wanted: &BTreeMap<String, Option<Blob>>) -> Result<Vec<TreeChange>, SnapshotError> {
        let mut changes = Vec::new();
        for (relative, blob) in wanted {
            let path = self.git.worktree.join(relative);
            self.relative(&path.to_string_lossy())?;
            let after = match blob {
                Some(blob) => self.file(relative, blob)?,
                None => None,
            };
            let before = TreeFile::read(&path);
            // OpenCode deletes files only: a directory in the place of one stays.
            let is_done = before == after || (after.is_none() && path.is_dir() && !path.is_symlink());
            // A submodule is no file of this repository.
            let is_file = blob.is_none() || after.is_some();
            if !is_done && is_file {
                changes.push(TreeChange { path, before, after });
            }
        }
        Ok(changes)
    }

    /// A file as a checkout would write it.
    fn file(&self, relative: &str, blob: &Blob) -> Result<Option<TreeFile>, SnapshotError> {
        let Some(kind) = TreeFileKind::of_mode(&blob.mode) else { return Ok(None) };
        let content = match kind {
            TreeFileKind::Link => self.git.run(&["cat-file", "blob", &blob.hash])?,
            _ => self.git.run(&["cat-file", "--filters", &format!("--path={relative}"), &blob.hash])?,
        };
        Ok(Some(TreeFile::new(kind, content)))
    }

    /// The difference between a snapshot and what the working tree becomes. `index` is that of the working tree as it is.
    fn diff_after(
        &self,
        index: &Git,
        wanted: &BTreeMap<String, Option<Blob>>,
        snapshot: &str,
    ) -> Result<String, SnapshotError> {
        const NONE: &str = "0000000000000000000000000000000000000000";
        let entries: String = wanted
            .iter()
            .map(|(relative, blob)| match blob {
                Some(blob) => format!("{} {}\t{relative}\0", blob.mode, blob.hash),
                None => format!("0 {NONE}\t{relative}\0"),
            })
            .collect();
        if !entries.is_empty() {
            index.run_in(&self.git.worktree, &["update-index", "-z", "--index-info"], entries.as_bytes())?;
        }
        let diff = index.run(&["diff", "--cached", "--no-ext-diff", snapshot, "--", "."])?;
        Ok(String::from_utf8_lossy(&diff).trim().to_owned())
    }
}
