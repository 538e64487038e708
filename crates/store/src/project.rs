//! Which project a directory belongs to, by the rules of OpenCode 1.1.65.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use annals_core::id::{IdError, ProjectId};

/// The project of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectIdentity {
    /// The smallest root commit of the repository, or `global`.
    pub id: ProjectId,
    /// The main working tree; `/` outside any repository.
    pub worktree: PathBuf,
    /// The working tree the directory is in; differs from `worktree` in a linked one.
    pub sandbox: PathBuf,
    /// Whether there is a repository.
    pub vcs: Option<Vcs>,
}

/// Version control systems that OpenCode knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Vcs {
    /// git.
    Git,
}

/// The id that a repository has cached is none.
#[derive(Debug, thiserror::Error)]
#[error("{path} holds no project id: {error}")]
pub struct IdentityError {
    /// The cache.
    pub path: String,
    /// What is wrong with its content.
    pub error: IdError,
}

/// The project of `directory`, which must be absolute. `git` is the program to ask; where it cannot be run, only what
/// the repository has cached counts.
///
/// OpenCode writes the id it finds into `.git/opencode` and from then on trusts that file. This function reads the cache
/// and never writes it.
pub fn identify(directory: &Path, git: &Path) -> Result<ProjectIdentity, IdentityError> {
    let Some(sandbox) = directory.ancestors().find(|ancestor| ancestor.join(".git").exists()) else {
        let root = PathBuf::from("/");
        return Ok(ProjectIdentity {
            id: ProjectId::global(),
            worktree: root.clone(),
            sandbox: root,
            vcs: None,
        });
    };
    let mut identity = ProjectIdentity {
        id: ProjectId::global(),
        worktree: sandbox.to_owned(),
        sandbox: sandbox.to_owned(),
        vcs: Some(Vcs::Git),
    };
    let cached = cached_id(&sandbox.join(".git").join("opencode"))?;
    let ask = |arguments: &[&str]| ask_git(git, sandbox, arguments);
    match (&cached, ask(&["--version"])) {
        (_, Err(_)) => {
            identity.id = cached.unwrap_or(identity.id);
            return Ok(identity);
        }
        (Some(id), _) => identity.id = id.clone(),
        (None, Ok(_)) => {
            let roots = ask(&["rev-list", "--max-parents=0", "--all"]).unwrap_or_default();
            let smallest = roots.lines().map(str::trim).filter(|root| !root.is_empty()).min();
            match smallest.map(ProjectId::parse) {
                Some(Ok(id)) => identity.id = id,
                // Without commits there is nothing to tell repositories apart by.
                _ => return Ok(identity),
            }
        }
    }
    if let Some(top) = ask(&["rev-parse", "--show-toplevel"]).ok().filter(|top| !top.is_empty()) {
        identity.sandbox = sandbox.join(top);
    }
    identity.worktree = match ask(&["rev-parse", "--git-common-dir"]) {
        // OpenCode takes the parent of what git answers; in a main working tree the answer is `.git`.
        Ok(common) => match Path::new(&common).parent() {
            Some(parent) if !parent.as_os_str().is_empty() => sandbox.join(parent),
            _ => identity.sandbox.clone(),
        },
        Err(_) => identity.sandbox.clone(),
    };
    Ok(identity)
}

/// The id in a cache file. In linked working trees and submodules `.git` is a file, so there is none.
fn cached_id(path: &Path) -> Result<Option<ProjectId>, IdentityError> {
    let Ok(text) = std::fs::read_to_string(path) else { return Ok(None) };
    match text.trim() {
        "" => Ok(None),
        id => match ProjectId::parse(id) {
            Ok(id) => Ok(Some(id)),
            Err(error) => Err(IdentityError { path: path.display().to_string(), error }),
        },
    }
}

/// What git answers, trimmed; a refusal is an empty answer, as OpenCode takes it.
fn ask_git(git: &Path, directory: &Path, arguments: &[&str]) -> io::Result<String> {
    let output = Command::new(git).args(arguments).current_dir(directory).output()?;
    let answer = if output.status.success() { output.stdout } else { Vec::new() };
    Ok(String::from_utf8_lossy(&answer).trim().to_owned())
}
