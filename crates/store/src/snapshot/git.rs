//! Runs git on a snapshot repository of OpenCode's, without touching its index.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use tempfile::TempDir;

use super::SnapshotError;

/// Settings under which OpenCode runs git.
const SETTINGS: [&str; 10] = [
    "-c",
    "core.autocrlf=false",
    "-c",
    "core.longpaths=true",
    "-c",
    "core.symlinks=true",
    "-c",
    "core.quotepath=false",
    "-c",
    "core.fsmonitor=false",
];
/// Variables by which a surrounding git would lead this one to another repository.
const INHERITED: [&str; 7] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_PREFIX",
];

/// A repository and a working tree.
#[derive(Debug, Clone)]
pub(super) struct Git {
    pub(super) git_dir: PathBuf,
    pub(super) worktree: PathBuf,
    /// An index other than the repository's own.
    index: Option<PathBuf>,
    /// Stands in for a repository that git does not take for one: copies often lack the empty directory `refs`.
    stand_in: Option<Arc<TempDir>>,
}

/// What git printed, and whether it succeeded.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) code: Option<i32>,
    pub(super) stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl Git {
    /// A repository and a working tree.
    pub(super) fn new(git_dir: PathBuf, worktree: PathBuf) -> Result<Git, SnapshotError> {
        let is_incomplete = git_dir.join("objects").is_dir() && !git_dir.join("refs").is_dir();
        let stand_in = match is_incomplete {
            true => {
                let path = git_dir.display().to_string();
                Some(Arc::new(stand_in(&git_dir).map_err(|source| SnapshotError::Io { path, source })?))
            }
            false => None,
        };
        Ok(Git { git_dir, worktree, index: None, stand_in })
    }

    /// The same with another index.
    pub(super) fn with_index(&self, index: PathBuf) -> Git {
        Git { index: Some(index), ..self.clone() }
    }

    /// Runs a command that must succeed, in the working tree.
    pub(super) fn run(&self, arguments: &[&str]) -> Result<Vec<u8>, SnapshotError> {
        self.run_in(&self.worktree, arguments, &[])
    }

    /// Runs a command that must succeed, in a directory of the working tree.
    pub(super) fn run_in(
        &self,
        directory: &Path,
        arguments: &[&str],
        stdin: &[u8],
    ) -> Result<Vec<u8>, SnapshotError> {
        let answer = self.ask(directory, arguments, stdin)?;
        match answer.code {
            Some(0) => Ok(answer.stdout),
            _ => Err(SnapshotError::Git {
                command: arguments.first().map(ToString::to_string).unwrap_or_default(),
                repository: self.git_dir.display().to_string(),
                message: String::from_utf8_lossy(&answer.stderr).trim().to_owned(),
            }),
        }
    }

    /// Runs a command, whether it succeeds or not.
    pub(super) fn ask(
        &self,
        directory: &Path,
        arguments: &[&str],
        stdin: &[u8],
    ) -> Result<Answer, SnapshotError> {
        let mut command = Command::new("git");
        let git_dir = self.stand_in.as_ref().map_or(&*self.git_dir, |stand_in| stand_in.path());
        command.args(SETTINGS).arg("--git-dir").arg(git_dir).arg("--work-tree").arg(&self.worktree);
        command.args(arguments).current_dir(directory);
        for name in INHERITED {
            command.env_remove(name);
        }
        if self.stand_in.is_some() {
            command.env("GIT_OBJECT_DIRECTORY", self.git_dir.join("objects"));
            command.env("GIT_INDEX_FILE", self.git_dir.join("index"));
        }
        if let Some(index) = &self.index {
            command.env("GIT_INDEX_FILE", index);
        }
        run(command, stdin).map_err(|source| SnapshotError::NoGit { source })
    }
}

/// A repository without objects of its own.
fn stand_in(git_dir: &Path) -> io::Result<TempDir> {
    let directory = tempfile::tempdir()?;
    std::fs::create_dir(directory.path().join("refs"))?;
    std::fs::create_dir(directory.path().join("objects"))?;
    std::fs::write(directory.path().join("HEAD"), "ref: refs/heads/main\n")?;
    match std::fs::copy(git_dir.join("config"), directory.path().join("config")) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(directory),
    }
}

fn run(mut command: Command, stdin: &[u8]) -> io::Result<Answer> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let input = child.stdin.take();
    let output = std::thread::scope(|scope| {
        // git answers while it reads, so that one thread could wait for itself.
        scope.spawn(move || input.map(|mut input| input.write_all(stdin)));
        child.wait_with_output()
    })?;
    Ok(Answer { code: output.status.code(), stdout: output.stdout, stderr: output.stderr })
}

/// The pieces of an answer that git ended with a NUL each.
pub(super) fn fields(bytes: &[u8]) -> Vec<String> {
    let pieces = bytes.split(|byte| *byte == 0).filter(|piece| !piece.is_empty());
    pieces.map(|piece| String::from_utf8_lossy(piece).into_owned()).collect()
}
