//! The patch between two snapshots, as git writes it.

use std::collections::HashMap;
use std::path::Path;

use super::git::{Git, fields};
use super::{SnapshotError, is_hash};

/// A file that is different in two snapshots: its path, what became of it (`A`, `M`, `D`), and the lines added and deleted; `None` for a binary file.
pub type DifferingFile = (String, char, Option<(u64, u64)>);

/// The files that are different in two snapshots. `None` if the repository does not have both.
pub fn differing(
    repository: &Path,
    from: &str,
    to: &str,
) -> Result<Option<Vec<DifferingFile>>, SnapshotError> {
    let Some(git) = repository_with(repository, &[from, to])? else { return Ok(None) };
    let list = |how: &str| {
        let arguments = ["diff-tree", "-r", "-z", "--no-renames", how, from, to];
        git.run_in(repository, &arguments, &[]).map(|answer| fields(&answer))
    };
    let mut lines: HashMap<String, Option<(u64, u64)>> = HashMap::new();
    for line in list("--numstat")? {
        if let [added, deleted, file] = line.splitn(3, '\t').collect::<Vec<_>>()[..] {
            lines.insert(file.to_owned(), added.parse().ok().zip(deleted.parse().ok()));
        }
    }
    let mut files = Vec::new();
    let mut listed = list("--name-status")?.into_iter();
    while let (Some(status), Some(file)) = (listed.next(), listed.next()) {
        let status = status.chars().next().filter(|status| "AD".contains(*status)).unwrap_or('M');
        let lines = lines.remove(&file).flatten();
        files.push((file, status, lines));
    }
    Ok(Some(files))
}

/// Removes snapshots older than a week from a repository and packs the rest, as OpenCode does.
pub fn collect_garbage(repository: &Path) -> Result<(), SnapshotError> {
    // What git does not take for a repository is a copy, of which nothing is known.
    if !repository.join("refs").is_dir() {
        return Ok(());
    }
    let git = Git::new(repository.to_owned(), repository.to_owned())?;
    git.run_in(repository, &["gc", "--quiet", "--prune=7.days"], &[]).map(drop)
}

/// A repository that has some snapshots.
fn repository_with(repository: &Path, snapshots: &[&str]) -> Result<Option<Git>, SnapshotError> {
    if !snapshots.iter().all(|hash| is_hash(hash)) {
        return Ok(None);
    }
    let git = Git::new(repository.to_owned(), repository.to_owned())?;
    for hash in snapshots {
        let answer = git.ask(repository, &["cat-file", "-e", &format!("{hash}^{{tree}}")], &[])?;
        if answer.code != Some(0) {
            return Ok(None);
        }
    }
    Ok(Some(git))
}

/// The patch of some files between two snapshots, with modes and binary files. `None` if the repository does not have both.
pub fn patch(
    repository: &Path,
    from: &str,
    to: &str,
    files: &[&str],
) -> Result<Option<Vec<u8>>, SnapshotError> {
    let Some(git) = repository_with(repository, &[from, to])? else { return Ok(None) };
    let mut arguments: Vec<String> = [
        "--literal-pathspecs",
        "diff-tree",
        "-r",
        "-p",
        "--binary",
        "--full-index",
        "--no-renames",
        "--no-ext-diff",
        "--no-textconv",
    ]
    .map(str::to_owned)
    .to_vec();
    arguments.extend([from.to_owned(), to.to_owned(), "--".to_owned()]);
    arguments.extend(files.iter().map(|file| (*file).to_owned()));
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    git.run_in(repository, &arguments, &[]).map(Some)
}
