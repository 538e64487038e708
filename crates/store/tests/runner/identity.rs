//! Which project a directory belongs to: as the real OpenCode sees it.

use std::path::{Path, PathBuf};
use std::process::Command;

use annals::model::id::ProjectId;
use annals::project::{Vcs, identify};

fn git(directory: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=Dev", "-c", "user.email=dev@example.com", "-c", "protocol.file.allow=always"])
        .args(arguments)
        .current_dir(directory)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .unwrap();
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn commit(directory: &Path, message: &str) -> String {
    git(directory, &["commit", "-q", "--allow-empty", "-m", message]);
    git(directory, &["rev-parse", "HEAD"])
}

/// A directory whose path has no links in it, as git reports paths.
fn place() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().canonicalize().unwrap();
    (dir, path)
}

fn repository(path: &Path) -> String {
    std::fs::create_dir_all(path).unwrap();
    git(path, &["init", "-q", "-b", "main"]);
    commit(path, "first")
}

fn project(directory: &Path) -> annals::project::ProjectIdentity {
    identify(directory, Path::new("git")).unwrap()
}

#[test]
fn outside_a_repository_it_is_global() {
    let (_dir, path) = place();
    let found = project(&path);
    assert_eq!((found.id, found.worktree, found.vcs), (ProjectId::global(), PathBuf::from("/"), None));
}

#[test]
fn a_repository_is_its_root_commit_from_any_directory_in_it() {
    let (_dir, path) = place();
    let root = repository(&path);
    commit(&path, "second");
    std::fs::create_dir_all(path.join("src/deep")).unwrap();
    for directory in [path.clone(), path.join("src/deep")] {
        let found = project(&directory);
        assert_eq!(found.id.as_str(), root);
        assert_eq!((found.worktree, found.sandbox, found.vcs), (path.clone(), path.clone(), Some(Vcs::Git)));
    }
    assert!(!path.join(".git/opencode").exists(), "the cache is OpenCode's to write");
}

#[test]
fn of_several_roots_the_smallest_counts() {
    let (_dir, path) = place();
    let mut roots = vec![repository(&path)];
    for branch in ["a", "b", "c"] {
        git(&path, &["checkout", "-q", "--orphan", branch]);
        roots.push(commit(&path, branch));
    }
    roots.sort();
    assert_eq!(project(&path).id.as_str(), roots[0]);
}

#[test]
fn a_linked_worktree_belongs_to_the_main_one() {
    let (_dir, path) = place();
    let (main, linked) = (path.join("main"), path.join("linked"));
    let root = repository(&main);
    git(&main, &["worktree", "add", "-q", "../linked", "-b", "hotfix"]);
    let found = project(&linked);
    assert_eq!(found.id.as_str(), root);
    assert_eq!((found.worktree, found.sandbox), (main, linked));
}

#[test]
fn a_worktree_of_a_bare_repository_belongs_to_the_directory_above_it() {
    let (_dir, path) = place();
    let root = repository(&path.join("source"));
    git(&path, &["clone", "-q", "--bare", "source", "bare.git"]);
    git(&path.join("bare.git"), &["worktree", "add", "-q", "../tree", "main"]);
    let found = project(&path.join("tree"));
    assert_eq!(found.id.as_str(), root);
    assert_eq!((found.worktree, found.sandbox), (path.clone(), path.join("tree")));
}

#[test]
fn a_submodule_is_a_project_of_its_own() {
    let (_dir, path) = place();
    let inner_root = repository(&path.join("inner"));
    let outer = path.join("outer");
    repository(&outer);
    git(&outer, &["submodule", "--quiet", "add", "../inner", "lib"]);
    let found = project(&outer.join("lib"));
    assert_eq!(found.id.as_str(), inner_root);
    // OpenCode takes the directory of git's common directory, odd as it is.
    assert_eq!((found.worktree, found.sandbox), (outer.join(".git/modules"), outer.join("lib")));
}

#[test]
fn without_commits_it_is_global_with_a_working_tree() {
    let (_dir, path) = place();
    git(&path, &["init", "-q"]);
    let found = project(&path);
    assert_eq!((found.id, found.worktree, found.vcs), (ProjectId::global(), path, Some(Vcs::Git)));
}

#[test]
fn a_cached_id_is_trusted() {
    let (_dir, path) = place();
    repository(&path);
    std::fs::write(path.join(".git/opencode"), " cached-id\n").unwrap();
    assert_eq!(project(&path).id.as_str(), "cached-id");
    std::fs::write(path.join(".git/opencode"), "../../etc").unwrap();
    let error = identify(&path, Path::new("git")).unwrap_err().to_string();
    assert!(error.contains(".git/opencode") && error.contains("../../etc"), "{error}");
}

#[test]
fn without_a_git_program_only_the_cache_counts() {
    let (_dir, path) = place();
    repository(&path);
    let no_git = Path::new("/nonexistent/git");
    let found = identify(&path, no_git).unwrap();
    assert_eq!((found.id, found.worktree), (ProjectId::global(), path.clone()));
    std::fs::write(path.join(".git/opencode"), "cached").unwrap();
    assert_eq!(identify(&path, no_git).unwrap().id.as_str(), "cached");
}

#[test]
fn a_shallow_clone_is_its_boundary_commit() {
    let (_dir, path) = place();
    repository(&path.join("full"));
    let tip = commit(&path.join("full"), "second");
    let url = format!("file://{}", path.join("full").display());
    git(&path, &["clone", "-q", "--depth", "1", &url, "shallow"]);
    assert_eq!(project(&path.join("shallow")).id.as_str(), tip);
}
