//! Snapshots of a working tree: OpenCode keeps them as trees of a git repository of its own, below `snapshot/` in its data directory.
//!
//! Everything is found out before a file is changed, and the files are not changed here: an operation notes them first. The repository gets new
//! objects, and its index stays as it is.

mod changes;
pub mod erasing;
mod git;
mod patch;
mod restoring;

use std::collections::HashSet;
use std::io;
use std::path::{Component, Path, PathBuf};

use annals_core::id::ProjectId;

use crate::home::SessionRecord;
use crate::homes::opencode::dialect::Dialect;
use crate::ids::hex;
use crate::project::{self, IdentityError};
use git::{Git, fields};

pub use changes::ChangedFile;
pub use patch::{DifferingFile, collect_garbage, differing, patch};
pub use restoring::Patch;
pub(crate) use restoring::TreeChange;

/// Since 1.16 OpenCode leaves out new files that are larger than this.
const MAX_NEW_FILE: u64 = 2 << 20;

/// Why snapshots cannot be used. Nothing has changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// The session's directory does not exist, or the session names none.
    #[error("the directory of the session does not exist: {path}")]
    NoDirectory {
        /// The directory.
        path: String,
    },
    /// The session's directory is in no git repository, so OpenCode has taken no snapshots.
    #[error("{path} is in no git repository, so OpenCode took no snapshots of it")]
    NotInRepository {
        /// The directory.
        path: String,
    },
    /// The project of the session's directory could not be determined.
    #[error(transparent)]
    Project(#[from] IdentityError),
    /// The home has no snapshots of this working tree.
    #[error("there are no snapshots of {worktree}: {repository} does not exist")]
    NoRepository {
        /// The working tree.
        worktree: String,
        /// Where they would be.
        repository: String,
    },
    /// A snapshot is not in the repository. OpenCode removes old ones after a week.
    #[error("snapshot {hash} is not in {repository}")]
    Missing {
        /// The snapshot.
        hash: String,
        /// The repository.
        repository: String,
    },
    /// The session names something as a snapshot that is not one.
    #[error("{hash:?} is not the name of a snapshot")]
    NotASnapshot {
        /// What the session names.
        hash: String,
    },
    /// The session names a file outside the working tree.
    #[error("the session names {path}, which is outside {worktree}")]
    Outside {
        /// The file.
        path: String,
        /// The working tree.
        worktree: String,
    },
    /// git refused.
    #[error("git {command} failed in {repository}: {message}")]
    Git {
        /// The command.
        command: String,
        /// The repository.
        repository: String,
        /// What git said.
        message: String,
    },
    /// git could not be run.
    #[error("git cannot be run: {source}")]
    NoGit {
        /// What the system said.
        source: io::Error,
    },
    /// A file could not be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: String,
        /// What the system said.
        source: io::Error,
    },
}

/// The snapshots of a session's working tree.
#[derive(Debug)]
pub struct Snapshots {
    git: Git,
    /// The session's directory, in the working tree.
    directory: PathBuf,
    dialect: Dialect,
}

/// An index of this process, in a directory that goes with it.
#[derive(Debug)]
struct OwnIndex {
    git: Git,
    _directory: tempfile::TempDir,
}

impl Snapshots {
    /// Finds the snapshots of a session in a data directory of OpenCode's: the repository that has all those that are needed.
    pub(crate) fn find(
        data: &Path,
        session: &SessionRecord,
        dialect: Dialect,
        needed: &[&str],
    ) -> Result<Snapshots, SnapshotError> {
        if let Some(hash) = needed.iter().find(|hash| !is_hash(hash)) {
            return Err(SnapshotError::NotASnapshot { hash: (*hash).to_owned() });
        }
        let directory = PathBuf::from(session.info.directory().unwrap_or_default());
        let shown = || directory.display().to_string();
        if !directory.is_absolute() || !directory.is_dir() {
            return Err(SnapshotError::NoDirectory { path: shown() });
        }
        let identity = project::identify(&directory, Path::new("git"))?;
        if identity.vcs.is_none() {
            return Err(SnapshotError::NotInRepository { path: shown() });
        }
        let worktree = identity.sandbox;
        let of_project = data.join("snapshot").join(session.project.as_str());
        let of_worktree = of_project.join(sha1(&worktree.to_string_lossy()));
        let mut places = [of_project, of_worktree];
        if dialect.has_repository_of_worktree() {
            places.reverse();
        }
        let mut missing = None;
        for git_dir in &places {
            if !git_dir.join("objects").is_dir() {
                continue;
            }
            let git = Git::new(git_dir.clone(), worktree.clone())?;
            let snapshots = Snapshots { git, directory: directory.clone(), dialect };
            match snapshots.lacks(needed)? {
                None => return Ok(snapshots),
                Some(hash) => missing = missing.or(Some((hash, git_dir))),
            }
        }
        Err(match missing {
            Some((hash, git_dir)) => {
                SnapshotError::Missing { hash, repository: git_dir.display().to_string() }
            }
            None => SnapshotError::NoRepository {
                worktree: worktree.display().to_string(),
                repository: places[0].display().to_string(),
            },
        })
    }

    /// The first of some snapshots that is not in the repository.
    fn lacks(&self, needed: &[&str]) -> Result<Option<String>, SnapshotError> {
        for hash in needed {
            let answer =
                self.git.ask(&self.git.worktree, &["cat-file", "-e", &format!("{hash}^{{tree}}")], &[])?;
            if answer.code != Some(0) {
                return Ok(Some((*hash).to_owned()));
            }
        }
        Ok(None)
    }

    /// Takes a snapshot of the working tree as it is. Returns its name, and the index it was made with.
    fn take(&self) -> Result<(String, OwnIndex), SnapshotError> {
        let index = self.own_index()?;
        match self.dialect.has_repository_of_worktree() {
            true => self.add_listed(&index.git)?,
            false => drop(index.git.run_in(&self.directory, &["add", "."], &[])?),
        }
        let hash = index.git.run(&["write-tree"])?;
        Ok((String::from_utf8_lossy(&hash).trim().to_owned(), index))
    }

    /// A copy of the repository's index: it knows which files have not changed.
    fn own_index(&self) -> Result<OwnIndex, SnapshotError> {
        let failed = |path: &Path| {
            let path = path.display().to_string();
            move |source| SnapshotError::Io { path, source }
        };
        let directory = tempfile::tempdir().map_err(failed(Path::new("temporary directory")))?;
        let path = directory.path().join("index");
        let original = self.git.git_dir.join("index");
        if original.is_file() {
            std::fs::copy(&original, &path).map_err(failed(&original))?;
        }
        Ok(OwnIndex { git: self.git.with_index(path), _directory: directory })
    }

    /// Adds what has changed to an index, without ignored files and without large new ones.
    fn add_listed(&self, git: &Git) -> Result<(), SnapshotError> {
        let list =
            |arguments: &[&str]| git.run_in(&self.directory, arguments, &[]).map(|answer| fields(&answer));
        let changed = list(&["diff-files", "--name-only", "-z", "--", "."])?;
        let new = list(&["ls-files", "--full-name", "--others", "--exclude-standard", "-z", "--", "."])?;
        let new: Vec<String> = new.into_iter().filter(|file| !self.is_large(file)).collect();
        let mut files: Vec<String> = changed.into_iter().chain(new).collect();
        files.dedup();
        let ignored = self.ignored(&files)?;
        let [gone, added] = [true, false].map(|is_ignored| {
            let wanted = files.iter().filter(|file| ignored.contains(*file) == is_ignored);
            wanted.map(|file| format!(":(top,literal){file}\0")).collect::<String>()
        });
        let from_stdin = ["--pathspec-from-file=-", "--pathspec-file-nul"];
        if !gone.is_empty() {
            let arguments = [&["rm", "--cached", "-f", "-q", "--ignore-unmatch"][..], &from_stdin].concat();
            git.run_in(&self.git.worktree, &arguments, gone.as_bytes())?;
        }
        if !added.is_empty() {
            let arguments = [&["add", "--all", "--sparse"][..], &from_stdin].concat();
            git.run_in(&self.git.worktree, &arguments, added.as_bytes())?;
        }
        Ok(())
    }

    fn is_large(&self, file: &str) -> bool {
        let metadata = std::fs::symlink_metadata(self.git.worktree.join(file));
        metadata.is_ok_and(|metadata| metadata.is_file() && metadata.len() > MAX_NEW_FILE)
    }

    /// The files among these that the user's repository ignores.
    fn ignored(&self, files: &[String]) -> Result<HashSet<String>, SnapshotError> {
        if files.is_empty() {
            return Ok(HashSet::new());
        }
        let worktree = &self.git.worktree;
        let users = Git::new(worktree.join(".git"), worktree.clone())?;
        // A name that begins with a colon would be taken for a pattern.
        let escaped =
            |file: &String| if file.starts_with(':') { format!("./{file}\0") } else { format!("{file}\0") };
        let stdin: String = files.iter().map(escaped).collect();
        let answer =
            users.ask(worktree, &["check-ignore", "--no-index", "--stdin", "-z"], stdin.as_bytes())?;
        let plain = |file: String| {
            file.strip_prefix("./").filter(|rest| rest.starts_with(':')).map_or(file.clone(), str::to_owned)
        };
        Ok(match answer.code {
            Some(0) => fields(&answer.stdout).into_iter().map(plain).collect(),
            _ => HashSet::new(),
        })
    }

    /// The path of a file relative to the working tree. Refuses files outside of it, behind a link that leads elsewhere, and git's own.
    fn relative(&self, path: &str) -> Result<String, SnapshotError> {
        let outside = || SnapshotError::Outside {
            path: path.to_owned(),
            worktree: self.git.worktree.display().to_string(),
        };
        let relative = Path::new(path).strip_prefix(&self.git.worktree).map_err(|_| outside())?;
        let is_plain = relative.components().all(|component| matches!(component, Component::Normal(_)));
        let mut parents = relative.ancestors().skip(1).filter(|parent| !parent.as_os_str().is_empty());
        let is_behind_link = parents.any(|parent| self.git.worktree.join(parent).is_symlink());
        let is_git =
            relative.components().any(|component| component.as_os_str().eq_ignore_ascii_case(".git"));
        match relative
            .to_str()
            .filter(|relative| !relative.is_empty() && is_plain && !is_behind_link && !is_git)
        {
            Some(relative) => Ok(relative.to_owned()),
            None => Err(outside()),
        }
    }
}

/// The repository in which OpenCode since 1.16 keeps the snapshots of a working tree.
pub(crate) fn repository_of(data: &Path, project: &ProjectId, worktree: &Path) -> PathBuf {
    data.join("snapshot").join(project.as_str()).join(sha1(&worktree.to_string_lossy()))
}

/// The files that make the snapshots of a repository known in another one, for a working tree at another place. None if there is nothing to make
/// known.
pub(crate) fn link(from: &Path, to: &Path, worktree: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let objects = from.join("objects");
    if from == to || !objects.is_dir() {
        return Vec::new();
    }
    let mut files = Vec::new();
    let alternates = to.join("objects").join("info").join("alternates");
    let mut known = std::fs::read_to_string(&alternates).unwrap_or_default();
    for place in [objects, worktree.join(".git").join("objects")] {
        let line = place.to_string_lossy().into_owned();
        if place.is_dir() && !known.lines().any(|other| other == line) {
            if !known.is_empty() && !known.ends_with('\n') {
                known.push('\n');
            }
            known.push_str(&format!("{line}\n"));
        }
    }
    files.push((alternates, known.into_bytes()));
    if to.join("HEAD").is_file() {
        return files;
    }
    // git takes a directory for a repository if it has these, and a directory `refs`. It passes over names that begin with a dot.
    files.push((to.join("refs").join(".annals"), Vec::new()));
    files.push((to.join("HEAD"), b"ref: refs/heads/main\n".to_vec()));
    let config = std::fs::read_to_string(from.join("config")).unwrap_or_default();
    let moved = config.lines().map(|line| match line.trim_start().starts_with("worktree =") {
        true => format!("\tworktree = {}\n", worktree.display()),
        false => format!("{line}\n"),
    });
    files.push((to.join("config"), moved.collect::<String>().into_bytes()));
    files
}

/// Whether a text is the name of an object of git's.
fn is_hash(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn sha1(text: &str) -> String {
    use sha1::Digest;
    hex(&sha1::Sha1::digest(text))
}
