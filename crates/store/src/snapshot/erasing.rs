//! Erases snapshots: what only they hold leaves their repository.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use annals_core::json::Text;
use annals_core::lens::{Part, Revert, Session};
use annals_core::{Document, Key};

use super::git::{Git, fields};
use super::{SnapshotError, is_hash};
use crate::ids::hex;

/// Upper bound on the depth at which repositories are looked for: `snapshot/PROJECT/WORKTREE`.
const DEPTH: usize = 2;

/// The snapshots that a document of a session names.
pub fn named_in(key: &Key, document: &Document) -> Vec<String> {
    let mut named: Vec<Option<Text<'_>>> = Vec::new();
    match key {
        Key::Session(..) => {
            let session = document.lens::<Session<'_>>();
            named.extend(session.revert.map(|Revert { snapshot, .. }| snapshot));
        }
        Key::Part(..) => match document.lens::<Part<'_>>() {
            Part::StepStart(part) => named.push(part.snapshot),
            Part::StepFinish(part) => named.push(part.snapshot),
            Part::Snapshot(part) => named.push(part.snapshot),
            Part::Patch(part) => named.push(part.hash),
            _ => {}
        },
        _ => {}
    }
    named.into_iter().flatten().map(|hash| hash.to_string()).filter(|hash| is_hash(hash)).collect()
}

/// The snapshot repositories in a data directory of OpenCode's, or those of one project.
pub fn repositories(data: &Path, project: Option<&str>) -> Vec<PathBuf> {
    let root = data.join("snapshot");
    let mut found = Vec::new();
    match project {
        Some(project) => find(&root.join(project), DEPTH - 1, &mut found),
        None => find(&root, DEPTH, &mut found),
    }
    found.sort();
    found
}

fn find(directory: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    if directory.join("objects").is_dir() && directory.join("HEAD").is_file() {
        found.push(directory.to_owned());
    }
    if depth > 0 {
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        let is_dir = |entry: &std::fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
        entries.filter(is_dir).for_each(|entry| find(&entry.path(), depth - 1, found));
    }
}

/// Erases from a repository what only these snapshots hold: no other snapshot among `kept`, and not the present state of the working tree.
/// Returns the number of objects that are gone. No other process may use the repository meanwhile.
pub fn erase(
    repository: &Path,
    erased: &HashSet<String>,
    kept: &HashSet<String>,
) -> Result<usize, SnapshotError> {
    let git = Git::new(repository.to_owned(), repository.to_owned())?;
    let existing_trees =
        |hashes: &HashSet<String>| existing(&git, hashes.iter().filter(|hash| is_hash(hash)));
    let (erased, kept) = (existing_trees(erased)?, existing_trees(kept)?);
    if erased.is_empty() {
        return Ok(0);
    }
    let needed = reachable(&git, kept)?;
    let mut objects = reachable(&git, erased)?;
    objects.retain(|hash| !needed.contains(hash));
    for line in fields(&git.run(&["ls-files", "--stage", "-z"])?) {
        // `100644 <hash> 0<TAB>path`
        if let Some(hash) = line.split(' ').nth(1) {
            objects.remove(hash);
        }
    }
    if objects.is_empty() {
        return Ok(0);
    }
    let failed = |path: &Path| {
        let path = path.display().to_string();
        move |source| SnapshotError::Io { path, source }
    };
    for hash in &objects {
        let path = repository.join("objects").join(&hash[..2]).join(&hash[2..]);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(&path)(error)),
            _ => {}
        }
    }
    rewrite_packs(&git, &objects)?;
    Ok(objects.len())
}

/// Those among some objects that a repository has.
fn existing<'h>(git: &Git, hashes: impl Iterator<Item = &'h String>) -> Result<Vec<String>, SnapshotError> {
    let list: String = hashes.map(|hash| format!("{hash}\n")).collect();
    let format = "--batch-check=%(objectname) %(objecttype)";
    let answer = git.run_in(&git.git_dir, &["cat-file", format], list.as_bytes())?;
    let answer = String::from_utf8_lossy(&answer);
    let known = answer.lines().filter(|line| !line.ends_with(" missing"));
    Ok(known.filter_map(|line| line.split(' ').next()).map(str::to_owned).collect())
}

/// Trees and everything in them, as far as the repository has it: OpenCode leaves out what the user's own repository has.
fn reachable(git: &Git, trees: Vec<String>) -> Result<HashSet<String>, SnapshotError> {
    let mut found: HashSet<String> = trees.iter().cloned().collect();
    let mut level = trees;
    while !level.is_empty() {
        let list: String = level.iter().map(|hash| format!("{hash}\n")).collect();
        let answer = git.run_in(&git.git_dir, &["cat-file", "--batch"], list.as_bytes())?;
        level = Vec::new();
        let mut rest = &answer[..];
        // `<hash> tree <length>`, a line break, the contents, a line break; or `<hash> missing`.
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let header = String::from_utf8_lossy(&rest[..end]).into_owned();
            rest = &rest[end + 1..];
            let [hash, kind, length] = header.split(' ').collect::<Vec<_>>()[..] else { continue };
            let Some((contents, after)) = length.parse().ok().and_then(|n: usize| rest.split_at_checked(n))
            else {
                break;
            };
            rest = after.get(1..).unwrap_or_default();
            if kind == "tree" {
                for (is_tree, entry) in entries(contents, hash.len() / 2) {
                    if found.insert(entry.clone()) && is_tree {
                        level.push(entry);
                    }
                }
            }
        }
    }
    Ok(found)
}

/// The entries of a tree: whether each is a tree itself, and its hash, which has this many bytes.
fn entries(mut contents: &[u8], hash_bytes: usize) -> Vec<(bool, String)> {
    let mut entries = Vec::new();
    while let Some(end) = contents.iter().position(|byte| *byte == 0) {
        let is_tree = contents.starts_with(b"40000 ");
        let Some(hash) = contents.get(end + 1..end + 1 + hash_bytes) else { break };
        entries.push((is_tree, hex(hash)));
        contents = &contents[end + 1 + hash_bytes..];
    }
    entries
}

/// Rewrites the packs that hold some objects, without these.
fn rewrite_packs(git: &Git, objects: &HashSet<String>) -> Result<(), SnapshotError> {
    let packs = git.git_dir.join("objects").join("pack");
    let failed = |source| SnapshotError::Io { path: packs.display().to_string(), source };
    let indexes: Vec<PathBuf> = std::fs::read_dir(&packs)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "idx"))
        .collect();
    for index in indexes {
        let bytes = std::fs::read(&index).map_err(failed)?;
        let listed = git.run_in(&git.git_dir, &["show-index"], &bytes)?;
        let listed = String::from_utf8_lossy(&listed).into_owned();
        // `<offset> <hash> (<checksum>)`
        let hashes: Vec<&str> = listed.lines().filter_map(|line| line.split(' ').nth(1)).collect();
        let kept: String =
            hashes.iter().filter(|hash| !objects.contains(**hash)).map(|hash| format!("{hash}\n")).collect();
        if kept.lines().count() == hashes.len() {
            continue;
        }
        if !kept.is_empty() {
            git.run_in(
                &git.git_dir,
                &["pack-objects", "-q", &packs.join("pack").to_string_lossy()],
                kept.as_bytes(),
            )?;
        }
        for extension in ["idx", "pack", "rev", "bitmap", "mtimes"] {
            match std::fs::remove_file(index.with_extension(extension)) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(error)),
                _ => {}
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn what_only_an_erased_snapshot_holds_is_gone() {
        for is_packed in [false, true] {
            let directory = tempfile::tempdir().unwrap();
            let git = |arguments: &[&str]| {
                let output = Command::new("git")
                    .args(["--git-dir", "snapshot/p/w", "--work-tree", "tree"])
                    .args(arguments)
                    .current_dir(&directory)
                    .output()
                    .unwrap();
                assert!(output.status.success(), "{output:?}");
                String::from_utf8(output.stdout).unwrap().trim().to_owned()
            };
            let write = |name: &str, text: &str| {
                let path = directory.path().join("tree").join(name);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, text).unwrap();
            };
            write("shared", "shared");
            Command::new("git")
                .args(["init", "-q", "--bare", "snapshot/p/w"])
                .current_dir(&directory)
                .status()
                .unwrap();
            git(&["config", "core.bare", "false"]);
            let take = || {
                git(&["add", "-A", "."]);
                git(&["write-tree"])
            };
            let first = take();
            write("deep/secret", "the secret");
            let secret = take();
            // The same file elsewhere: it is not erased with the snapshot that has it too.
            write("elsewhere/copy", "a copy");
            write("deep/copy", "a copy");
            let copied = take();
            std::fs::remove_dir_all(directory.path().join("tree/deep")).unwrap();
            let last = take();
            if is_packed {
                for tree in [&first, &secret, &copied, &last] {
                    git(&["update-ref", &format!("refs/trees/{tree}"), tree]);
                }
                git(&["repack", "-a", "-d", "-q"]);
            }
            let repositories = repositories(directory.path(), None);
            assert_eq!(repositories.len(), 1);
            let has = |object: &str| {
                std::fs::create_dir_all(directory.path().join("snapshot/p/w/refs")).unwrap();
                let git_dir = directory.path().join("snapshot/p/w");
                let check = Command::new("git")
                    .arg("--git-dir")
                    .arg(git_dir)
                    .args(["cat-file", "-e", object])
                    .output();
                check.unwrap().status.success()
            };
            let blob = |text: &str| {
                let path = directory.path().join("blob");
                std::fs::write(&path, text).unwrap();
                git(&["hash-object", path.to_str().unwrap()])
            };
            assert!(has(&blob("the secret")));
            let set = |hashes: &[&String]| hashes.iter().map(|hash| (*hash).clone()).collect::<HashSet<_>>();
            // Copies often lack empty directories.
            std::fs::remove_dir_all(repositories[0].join("refs")).unwrap();
            let n = erase(&repositories[0], &set(&[&secret, &copied]), &set(&[&first, &last])).unwrap();
            assert!(n >= 3, "{n}");
            assert!(!has(&blob("the secret")) && !has(&secret) && !has(&copied), "{is_packed}");
            for kept in [&first, &last, &blob("shared"), &blob("a copy")] {
                assert!(has(kept), "{is_packed}");
            }
            assert_eq!(erase(&repositories[0], &set(&[&secret]), &set(&[&last])).unwrap(), 0);
        }
    }
}
