//! Generated homes: OpenCode's tree of JSON files, of any number of sessions, filled with made-up work.
//!
//! ```no_run
//! use annals_bench::generate::{self, Plan};
//!
//! let totals = generate::write(Plan { sessions: 1000, seed: 1 }, "/tmp/home".as_ref())?;
//! println!("{} files, {} bytes", totals.files, totals.bytes);
//! # Ok::<(), generate::GenerateError>(())
//! ```
//!
//! Same plan, same bytes: on every machine, with any number of threads. Each session draws from its own
//! stream of random numbers, and nothing reads the clock or depends on the order of a hash table.

use std::io;
use std::ops::AddAssign;
use std::path::{Path, PathBuf};

use rayon::prelude::*;

mod catalog;
mod code;
mod home;
mod ids;
mod json;
mod language;
mod lookup;
mod outline;
mod project;
mod record;
mod rng;
mod session;
mod shell;
mod step;
mod text;
mod tool;
mod turn;
mod words;
mod workspace;
mod zipf;

use home::Home;
use ids::Mint;
use outline::Family;
use project::Project;
use session::World;
use words::Words;

/// What to generate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// Sessions in all; a quarter of them are children of others.
    pub sessions: usize,
    pub seed: u64,
}

/// What was written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    pub projects: u64,
    pub sessions: u64,
    pub messages: u64,
    pub parts: u64,
    /// All files: the records above, todos, diffs and the migration marker.
    pub files: u64,
    pub bytes: u64,
}

impl AddAssign for Totals {
    fn add_assign(&mut self, other: Self) {
        self.projects += other.projects;
        self.sessions += other.sessions;
        self.messages += other.messages;
        self.parts += other.parts;
        self.files += other.files;
        self.bytes += other.bytes;
    }
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GenerateError {
    /// A home that is not empty would be neither the old one nor the new one afterwards.
    #[error("{} exists already; give a directory without a home", .path.display())]
    Exists { path: PathBuf },
    #[error("{} could not be written: {source}", .path.display())]
    Write {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// Writes `out/storage` and everything below it.
pub fn write(plan: Plan, out: &Path) -> Result<Totals, GenerateError> {
    let storage = out.join("storage");
    if storage.exists() {
        return Err(GenerateError::Exists { path: storage });
    }
    let words = Words::new();
    let projects = Project::all(&words, plan.seed);
    let world = World { words, projects, seed: plan.seed };
    let families = outline::families(plan);

    let mut home = Home::new(&storage);
    home.migration()?;
    for project in &world.projects {
        home.project(&project_record(project, &families))?;
    }
    // One family a task: their sizes differ by three orders of magnitude.
    let written: Vec<Totals> = families
        .par_iter()
        .with_max_len(1)
        .map(|family| {
            let mut home = Home::new(&storage);
            session::write_family(&world, &mut home, &mut Mint::default(), family)?;
            Ok(home.totals)
        })
        .collect::<Result<_, GenerateError>>()?;
    let mut totals = home.totals;
    for part in written {
        totals += part;
    }
    Ok(totals)
}

/// The words all generated text is made of, the most frequent first: where to find search terms that are
/// common, rare, or in between.
pub fn vocabulary() -> Vec<String> {
    Words::new().into_ranked().collect()
}

fn project_record<'a>(project: &'a Project, families: &[Family]) -> record::Project<'a> {
    let starts =
        || families.iter().filter(|family| family.project == project.index).map(|family| family.start);
    record::Project {
        id: &project.id,
        worktree: &project.worktree,
        vcs: project.has_git().then_some("git"),
        sandboxes: [],
        time: record::Updated {
            created: starts().min().unwrap_or(outline::FIRST_DAY),
            updated: starts().max().unwrap_or(outline::FIRST_DAY),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;

    use serde_json::Value;

    use super::*;

    fn files_below(dir: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>, root: &Path) {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                files_below(&path, files, root);
            } else {
                files.insert(path.strip_prefix(root).unwrap().to_owned(), fs::read(&path).unwrap());
            }
        }
    }

    fn generated(plan: Plan) -> (Totals, BTreeMap<PathBuf, Vec<u8>>) {
        let dir = tempfile::tempdir().unwrap();
        let totals = write(plan, dir.path()).unwrap();
        let mut files = BTreeMap::new();
        files_below(dir.path(), &mut files, dir.path());
        (totals, files)
    }

    #[test]
    fn same_seed_same_bytes() {
        let (totals, files) = generated(Plan { sessions: 12, seed: 5 });
        assert!(generated(Plan { sessions: 12, seed: 5 }) == (totals, files.clone()));
        assert!(generated(Plan { sessions: 12, seed: 6 }).1 != files);
    }

    #[test]
    fn totals_are_what_is_on_disk() {
        let (totals, files) = generated(Plan { sessions: 8, seed: 1 });
        let below =
            |dir| files.keys().filter(|path| path.starts_with(Path::new("storage").join(dir))).count() as u64;
        assert_eq!(totals.projects, below("project"));
        assert_eq!((totals.sessions, 8), (below("session"), below("session_diff")));
        assert_eq!(totals.messages, below("message"));
        assert_eq!(totals.parts, below("part"));
        assert_eq!(totals.files, files.len() as u64);
        assert_eq!(totals.bytes, files.values().map(|bytes| bytes.len() as u64).sum::<u64>());
    }

    #[test]
    fn children_are_those_of_task_calls() {
        let (_, files) = generated(Plan { sessions: 12, seed: 2 });
        let below = |dir: &'static str| {
            let dir = Path::new("storage").join(dir);
            let records = files.iter().filter(move |(path, _)| path.starts_with(&dir));
            records.map(|(_, bytes)| serde_json::from_slice::<Value>(bytes).unwrap())
        };
        let mut children: Vec<(Value, Value)> = below("session")
            .filter(|session| session.get("parentID").is_some())
            .map(|session| (session["parentID"].clone(), session["id"].clone()))
            .collect();
        let mut calls: Vec<(Value, Value)> = below("part")
            .filter(|part| part["tool"] == "task")
            .map(|part| (part["sessionID"].clone(), part["state"]["metadata"]["sessionId"].clone()))
            .collect();
        children.sort_by_key(|(_, child)| child.to_string());
        calls.sort_by_key(|(_, child)| child.to_string());
        assert_eq!(children.len(), 3);
        assert_eq!(children, calls);
    }

    #[test]
    fn a_home_is_never_written_over() {
        let dir = tempfile::tempdir().unwrap();
        write(Plan { sessions: 1, seed: 1 }, dir.path()).unwrap();
        let error = write(Plan { sessions: 1, seed: 1 }, dir.path()).unwrap_err();
        assert!(matches!(error, GenerateError::Exists { .. }));
    }
}
