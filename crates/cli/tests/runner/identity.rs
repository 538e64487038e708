//! Copied sessions are found in the repository they belong to, by whatever id a version of OpenCode knows it.

use std::path::{Path, PathBuf};

use annals_testkit::model::{ModelServer, Playbook};
use annals_testkit::opencode::{Lab, OpenCode};
use serde_json::{Value, json};

use super::kit::{copy, empty_home, text, write};

const REMOTE: &str = "git@github.com:Acme/shop.git";
/// Of which `git-remote:github.com/Acme/shop` is the hash.
const REMOTE_ID: &str = "3655a71686d4b45ed28265ccb2993c0e136a4049";

/// The row of a session in the real list of a directory.
#[track_caller]
fn row_of(lab: &Lab, directory: &Path, session: &str) -> Value {
    let rows = lab.session_list(directory);
    let row = rows.as_array().unwrap().iter().find(|row| row["id"] == session);
    row.unwrap_or_else(|| panic!("{session} is not in {rows}")).clone()
}

#[test]
fn sessions_of_a_repository_with_a_remote_are_listed_there() {
    let model = ModelServer::start(Playbook::builtin()).unwrap();
    let older = Lab::new(&OpenCode::version("1.1.65"));
    older.configure(&model);
    let repository = older.repo("shop", &[("README.md", "# Shop\n")]);
    let session = older.run(&repository, &["--title", "Before the remote counted", "hello"]);
    let cache = repository.join(".git/opencode");
    let root_commit = older.git(&repository, &["rev-parse", "HEAD"]).trim().to_owned();
    assert_eq!(std::fs::read_to_string(&cache).unwrap(), root_commit);
    older.git(&repository, &["remote", "add", "origin", REMOTE]);

    let newer = || Lab::new(&OpenCode::version("1.18.33"));
    // A version that goes by remotes has been here already, with data of its own.
    let lab = newer();
    assert_eq!(lab.session_list(&repository), json!([]));
    assert_eq!(std::fs::read_to_string(&cache).unwrap(), REMOTE_ID);
    let account = copy(&older.data(), &lab.data().join("opencode.db"), &[]);
    assert_eq!(account["refiled"][&root_commit], REMOTE_ID, "{account}");
    assert_eq!(row_of(&lab, &repository, &session)["projectId"], REMOTE_ID);
    // And back from there, while the repository is known by the new id.
    let back = Lab::new(&OpenCode::version("1.1.65"));
    copy(&lab.data().join("opencode.db"), &back.data(), &[]);
    row_of(&back, &repository, &session);

    // The database is a fresh one, and the repository is known by the old id, not at all, or by the new one.
    for cached in [Some(root_commit.as_str()), None, Some(REMOTE_ID)] {
        let lab = newer();
        match cached {
            Some(id) => std::fs::write(&cache, id).unwrap(),
            None => std::fs::remove_file(&cache).unwrap(),
        }
        copy(&older.data(), &lab.data().join("opencode.db"), &[]);
        let row = row_of(&lab, &repository, &session);
        assert_eq!(row["projectId"], REMOTE_ID, "{cached:?}");
        assert_eq!(row["directory"], repository.to_str().unwrap());
    }
}

/// Ways to write where `origin` is. The real one takes what parses as a URL for one, and of it the host without its port
/// and the path; else the form of scp; else there is none, and the root commit counts.
const REMOTES: [&str; 29] = [
    "git@github.com:Acme/shop.git",
    "git@github.com:/Acme/shop.git",
    "git@GitHub.com:Acme/shop.git/",
    "github.com:Acme/shop",
    "git_host:Acme/shop.git",
    "git@github.com:2222/Acme/shop.git",
    "https://github.com/Acme/shop",
    "https://github.com/Acme/shop/",
    "https://github.com/Acme/shop.git/",
    "https://user:secret@github.com/Acme/shop.git",
    "https://GitHub.COM/Acme/shop.git",
    "https://github.com//Acme/shop.git",
    "https://github.com/acme/shop",
    "https://git.example.com:8443/Acme/shop.git",
    "https://github.com/Acme/shop.git?ref=main#readme",
    "https://github.com/Acme/caf%C3%A9.git",
    "https://github.com/Acme/our shop.git",
    "https://github.com/Acme/old/../shop.git",
    "https://github.com/",
    "ssh://git@github.com/Acme/shop.git",
    "ssh://git@GitHub.com:2222/Acme/shop.git",
    "ssh://git@[::1]:2222/Acme/shop.git",
    "ssh://git@github.com/~acme/shop.git",
    "git+ssh://git@github.com/Acme/shop.git",
    "git://github.com/Acme/shop.git",
    "file:///srv/git/shop.git",
    "/srv/git/shop.git",
    "../shop.git",
    "C:/git/shop.git",
];

/// A home of the JSON era with a session of each repository, filed under its root commit.
fn home_of(lab: &Lab, repositories: &[PathBuf]) -> (tempfile::TempDir, Vec<Filed>) {
    let home = empty_home();
    let mut filed = Vec::new();
    for (n, repository) in repositories.iter().enumerate() {
        let directory = repository.to_str().unwrap();
        let roots = lab.git(repository, &["rev-list", "--max-parents=0", "--all"]);
        let project = roots.lines().min().unwrap().to_owned();
        let session = format!("ses_385744ad0ffeWgvBCB6JclCZ{n:02}");
        let time = json!({"created": 1_771_582_502_191u64, "updated": 1_771_582_504_709u64});
        let session_document = json!({
            "id": session, "slug": "calm-otter", "version": "1.1.65", "projectID": project,
            "directory": directory, "title": "Of a repository", "time": time,
        });
        let project_document =
            json!({"id": project, "worktree": directory, "vcs": "git", "sandboxes": [], "time": time});
        let path = format!("storage/session/{project}/{session}.json");
        write(home.path(), &path, session_document.to_string());
        write(home.path(), &format!("storage/project/{project}.json"), project_document.to_string());
        filed.push(Filed { session, project });
    }
    (home, filed)
}

/// A session in the source, and the project it is filed under.
struct Filed {
    session: String,
    project: String,
}

/// What sessions are copied into.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Target {
    /// A database that annals makes.
    Fresh,
    /// One that 1.18 has opened: it is known to go by remotes.
    Used,
}

/// Copies a session of each repository into a database for 1.18, and says which of them the real one does not find there,
/// or under another id.
fn misfiled(lab: &Lab, target: Target, repositories: &[PathBuf]) -> Vec<(usize, String)> {
    let elsewhere = lab.directory("elsewhere", &[("notes.txt", "x")]);
    let used = (target == Target::Used).then(|| lab.serve(&elsewhere));
    let (home, filed) = home_of(lab, repositories);
    let account = copy(home.path(), &lab.data().join("opencode.db"), &[]);
    let server = used.unwrap_or_else(|| lab.serve(&elsewhere));
    let mut wrong = Vec::new();
    for (n, (Filed { session, project }, repository)) in filed.iter().zip(repositories).enumerate() {
        let ours = account["refiled"].get(project).map_or(project.as_str(), |id| id.as_str().unwrap());
        let query = format!("directory={}", repository.display());
        let current = server.get(&format!("/project/current?{query}"));
        let rows = server.get(&format!("/session?{query}"));
        let is_listed = rows.as_array().unwrap().iter().any(|row| row["id"] == **session);
        let real = text(&current, "id");
        // In a fresh one sessions are filed under the older id, and moved by the real one.
        if !is_listed || (target == Target::Used && real != ours) {
            wrong.push((
                n,
                format!("{target:?}: filed under {ours}, looked for under {real}, listed: {is_listed}"),
            ));
        }
    }
    wrong
}

#[test]
fn a_remote_gives_the_id_the_real_one_computes() {
    let mut wrong = Vec::new();
    for target in [Target::Fresh, Target::Used] {
        let lab = Lab::new(&OpenCode::version("1.18.33"));
        let clone = |(n, remote): (usize, &str)| {
            let repository = lab.repo(format!("repository-{n}"), &[("README.md", remote)]);
            lab.git(&repository, &["remote", "add", "origin", remote]);
            repository
        };
        // In a fresh database they are all filed alike.
        let step = if target == Target::Fresh { 5 } else { 1 };
        let remotes = REMOTES.into_iter().step_by(step);
        let repositories: Vec<PathBuf> = remotes.enumerate().map(clone).collect();
        let found = misfiled(&lab, target, &repositories);
        wrong.extend(found.into_iter().map(|(n, what)| format!("{}: {what}", REMOTES[n * step])));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Until 1.15 all branches counted, and since then only the one that is checked out.
#[test]
fn a_repository_with_several_roots_is_found_by_the_one_the_real_one_takes() {
    let mut wrong = Vec::new();
    for target in [Target::Fresh, Target::Used] {
        let lab = Lab::new(&OpenCode::version("1.18.33"));
        let repositories = [false, true].map(|is_smallest_elsewhere| two_roots(&lab, is_smallest_elsewhere));
        wrong.extend(misfiled(&lab, target, &repositories));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A repository with a root commit on each of two branches, the smaller one on the branch that is checked out or on the
/// other.
fn two_roots(lab: &Lab, is_smallest_elsewhere: bool) -> PathBuf {
    let repositories = (0..).map(|n| {
        let name = format!("roots-{is_smallest_elsewhere}-{n}");
        let repository = lab.repo(&name, &[("README.md", &name)]);
        lab.git(&repository, &["checkout", "-q", "--orphan", "pages"]);
        lab.git(&repository, &["commit", "-q", "-m", "Pages"]);
        lab.git(&repository, &["checkout", "-q", "main"]);
        repository
    });
    let is_wanted = |repository: &PathBuf| {
        let root = |branch| lab.git(repository, &["rev-parse", branch]);
        (root("pages") < root("main")) == is_smallest_elsewhere
    };
    repositories.into_iter().find(is_wanted).expect("of two hashes either is the smaller one sooner or later")
}
