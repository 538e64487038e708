//! Which project a directory belongs to, by the rules of OpenCode.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use annals_core::Document;
use annals_core::id::{IdError, Millis, ProjectId};
use annals_core::json::Text;
use annals_core::lens::{Project, ProjectTime};

use crate::ids::hex;

/// How a version of OpenCode tells repositories apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdentityRule {
    /// Until 1.15.10: by the id cached in `.git/opencode`, else by the smallest root commit.
    RootCommit,
    /// Since 1.15.11: by where `origin` is, else by the cached id, else by the root commit of what is checked out.
    Remote,
}

/// The project of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectIdentity {
    /// The id of the repository, or `global`.
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

impl ProjectIdentity {
    /// A new record of the project.
    pub(crate) fn record(&self, now: Millis) -> Document {
        let worktree = self.worktree.to_string_lossy();
        let record = new_project(&self.id, Some(&worktree), now);
        if self.sandbox == self.worktree {
            return record;
        }
        let sandbox = self.sandbox.to_string_lossy();
        record.with(&["sandboxes"], &vec![Text::from(&*sandbox)]).unwrap_or(record)
    }
}

/// The file in which a repository caches its id holds something else.
#[derive(Debug, thiserror::Error)]
#[error("{path} holds no project id: {error}")]
pub struct IdentityError {
    /// The cache.
    pub path: String,
    /// What is wrong with its content.
    #[source]
    pub error: IdError,
}

/// The project of `directory`, which must be absolute, by the rule of OpenCode until 1.15.10. `git` is the program to
/// ask; where it cannot be run, only what the repository has cached counts.
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

/// The project of `directory`, which must be absolute, by a rule.
pub fn identify_by(directory: &Path, rule: IdentityRule) -> Result<ProjectIdentity, IdentityError> {
    let git = Path::new("git");
    let mut identity = identify(directory, git)?;
    if rule == IdentityRule::Remote
        && let Some(ids) = RepositoryIds::of(&identity.sandbox, git)
        && let Some(id) = ids.by(rule)
    {
        identity.id = id.clone();
    }
    Ok(identity)
}

/// A record for a project that has none. OpenCode finds only sessions of projects it has a record of.
pub(crate) fn new_project(id: &ProjectId, worktree: Option<&str>, now: Millis) -> Document {
    let worktree = worktree.filter(|_| !id.is_global()).unwrap_or("/");
    Document::new(&Project {
        id: Some(id.into()),
        worktree: Some(worktree.into()),
        vcs: (!id.is_global()).then_some("git".into()),
        sandboxes: Some(Vec::new()),
        time: Some(ProjectTime { created: Some(now), updated: Some(now), initialized: None }),
        ..Project::default()
    })
}

/// The id in a cache file. In linked working trees and submodules `.git` is a file, so they have no cache.
fn cached_id(path: &Path) -> Result<Option<ProjectId>, IdentityError> {
    // A pipe would be waited for.
    if !std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file()) {
        return Ok(None);
    }
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

/// All ids that versions of OpenCode give one repository.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RepositoryIds {
    /// From where `origin` is.
    pub remote: Option<ProjectId>,
    /// What `.git/opencode` holds.
    pub cached: Option<ProjectId>,
    /// The root commits of all branches, the smallest first.
    pub roots: Vec<ProjectId>,
    /// The smallest root commit of the branch that is checked out.
    pub root: Option<ProjectId>,
    /// The file that holds the cached id, or would.
    pub cache: PathBuf,
}

impl RepositoryIds {
    /// The ids of the repository whose working tree is at `worktree`; none if there is no repository.
    pub fn of(worktree: &Path, git: &Path) -> Option<RepositoryIds> {
        if !worktree.join(".git").exists() {
            return None;
        }
        let ask = |arguments: &[&str]| ask_git(git, worktree, arguments).unwrap_or_default();
        let common = worktree.join(ask(&["rev-parse", "--git-common-dir"]));
        let roots_of = |of: &str| {
            let roots = ask(&["rev-list", "--max-parents=0", of]);
            let mut roots: Vec<ProjectId> =
                roots.lines().filter_map(|root| ProjectId::parse(root.trim()).ok()).collect();
            roots.sort();
            roots
        };
        let cache = common.join("opencode");
        Some(RepositoryIds {
            remote: remote_id(&ask(&["remote", "get-url", "origin"])),
            cached: cached_id(&cache).ok().flatten(),
            roots: roots_of("--all"),
            root: roots_of("HEAD").into_iter().next(),
            cache,
        })
    }

    /// The id that an OpenCode of the given rule looks for.
    pub fn by(&self, rule: IdentityRule) -> Option<&ProjectId> {
        match rule {
            IdentityRule::RootCommit => self.cached.as_ref().or(self.roots.first()),
            IdentityRule::Remote => self.remote.as_ref().or(self.cached.as_ref()).or(self.root.as_ref()),
        }
    }

    /// Whether some version of OpenCode knows the repository by this id.
    pub fn contains(&self, id: &ProjectId) -> bool {
        [&self.remote, &self.cached].into_iter().flatten().chain(&self.roots).any(|known| known == id)
    }
}

/// The id OpenCode 1.15.11 and later derive from a remote: the hash of `git-remote:<host>/<path>`, both as JavaScript's
/// `URL` gives them. Remotes that are paths have none.
fn remote_id(remote: &str) -> Option<ProjectId> {
    let (host, path) = match url::Url::parse(remote) {
        Ok(url) if url.scheme() == "file" => return None,
        Ok(url) => (url.host_str()?.to_owned(), url.path().to_owned()),
        // The form of scp: `git@github.com:owner/repository.git`. Without the login it is a URL, unless the host could be
        // no scheme.
        Err(_) => {
            let (login, path) = remote.split_once(':').filter(|(login, _)| !login.contains('/'))?;
            (login.rsplit('@').next().unwrap_or(login).to_owned(), path.to_owned())
        }
    };
    let path = path.trim_start_matches('/').trim_end_matches('/');
    let path = path.strip_suffix(".git").unwrap_or(path).trim_end_matches('/');
    if host.is_empty() || path.is_empty() {
        return None;
    }
    use sha1::Digest;
    let digest = sha1::Sha1::digest(format!("git-remote:{}/{path}", host.to_lowercase()));
    ProjectId::parse(&hex(&digest)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remote_is_one_project_however_it_is_written() {
        let id = remote_id("https://github.com/Acme/shop-api.git").unwrap();
        for same in [
            "git@github.com:Acme/shop-api.git",
            "git@GitHub.com:/Acme/shop-api",
            "ssh://git@github.com/Acme/shop-api.git/",
            "https://user:secret@github.com/Acme/shop-api",
            "ssh://git@GitHub.com:2222/Acme/shop-api.git",
            "https://github.com/Acme/old/../shop-api.git?ref=main#readme",
        ] {
            assert_eq!(remote_id(same).as_ref(), Some(&id), "{same}");
        }
        assert_ne!(remote_id("https://github.com/acme/shop-api").as_ref(), Some(&id));
        assert_eq!(
            remote_id("https://Bücher.example/shop"),
            remote_id("https://xn--bcher-kva.example/shop.git")
        );
        for none in [
            "",
            "/srv/git/shop-api.git",
            "../shop-api",
            "file:///srv/git/shop-api",
            "C:/git/shop",
            "github.com:Acme/shop-api",
        ] {
            assert_eq!(remote_id(none), None, "{none}");
        }
    }
}
