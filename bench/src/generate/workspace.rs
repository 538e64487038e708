//! The files of a project as one session sees and changes them.
//!
//! A file starts with the same text in every session, so transcripts of one project repeat each other as real
//! ones do.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::code::{self, Scope};
use super::project::Project;
use super::record::{Counts, FileDiff};
use super::rng::{Rng, Stream};
use super::words::Words;
use super::zipf::Zipf;

#[derive(Debug)]
pub(crate) struct Workspace<'w> {
    pub(crate) project: &'w Project,
    words: &'w Words,
    seed: u64,
    /// The files this session keeps coming back to.
    at_hand: Vec<usize>,
    files: BTreeMap<usize, Source<'w>>,
    turn: BTreeMap<String, Touched>,
    session: BTreeMap<String, Touched>,
    /// The tree of the shadow repository; a new one after each change.
    snapshot: Option<String>,
}

#[derive(Debug)]
struct Source<'w> {
    scope: Scope<'w>,
    lines: Vec<String>,
}

/// The changes to one file. The counts are sums over its edits: exact unless an edit undid another.
#[derive(Debug, Clone)]
struct Touched {
    before: String,
    after: String,
    additions: usize,
    deletions: usize,
    status: &'static str,
}

/// One replacement of a few lines.
#[derive(Debug)]
pub(crate) struct Edit {
    pub(crate) file: String,
    pub(crate) old: String,
    pub(crate) new: String,
    pub(crate) diff: String,
    pub(crate) before: String,
    pub(crate) after: String,
    pub(crate) additions: usize,
    pub(crate) deletions: usize,
}

impl<'w> Workspace<'w> {
    pub(crate) fn new(
        words: &'w Words,
        project: &'w Project,
        seed: u64,
        n_messages: usize,
        rng: &mut Rng,
    ) -> Self {
        // Some files are shared by all sessions, the others are this session's own.
        let zipf = Zipf::new(project.files.len());
        let n_files = project.files.len();
        let mut at_hand = Vec::new();
        for _ in 0..rng.size(6.0, 0.5, 2, 30) + n_messages / 4 {
            let next = if rng.chance(0.3) { zipf.rank(rng) } else { rng.index(n_files) };
            if !at_hand.contains(&next) {
                at_hand.push(next);
            }
        }
        let snapshot = project.has_git().then(|| rng.hex(40));
        Self {
            project,
            words,
            seed,
            at_hand,
            files: BTreeMap::new(),
            turn: BTreeMap::new(),
            session: BTreeMap::new(),
            snapshot,
        }
    }

    pub(crate) fn snapshot(&self) -> Option<String> {
        self.snapshot.clone()
    }

    pub(crate) fn any_file(&self, rng: &mut Rng) -> &'w str {
        &self.project.files[rng.pick(&self.at_hand)]
    }

    /// A file and its lines.
    pub(crate) fn open(&mut self, rng: &mut Rng) -> (&'w str, &[String]) {
        let file = rng.pick(&self.at_hand);
        (&self.project.files[file], &self.source(file).lines)
    }

    /// The lines of a file of the project, as they are now.
    pub(crate) fn lines(&mut self, file: &str) -> &[String] {
        let index =
            self.project.files.iter().position(|known| known == file).expect("a file of this project");
        &self.source(index).lines
    }

    /// Something to search for, and where it is: file, line number, line. What is searched for comes from a
    /// line of the files at hand, so most searches find something.
    pub(crate) fn search(&mut self, rng: &mut Rng, limit: usize) -> (String, Vec<(&'w str, usize, String)>) {
        let (_, lines) = self.open(rng);
        let line = &lines[rng.index(lines.len())];
        let mut tokens =
            line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|token| token.len() > 2);
        let broad = rng.chance(0.4);
        let needle = if broad { tokens.next() } else { tokens.max_by_key(|token| token.len()) };
        let needle = needle.unwrap_or("TODO").to_owned();
        let mut found = Vec::new();
        for index in self.at_hand.clone() {
            let file = self.project.files[index].as_str();
            let lines = self.source(index).lines.iter().enumerate();
            let hits = lines.filter(|(_, line)| line.contains(&needle)).take(limit - found.len());
            found.extend(hits.map(|(nth, line)| (file, nth + 1, line.clone())));
        }
        (needle, found)
    }

    pub(crate) fn edit(&mut self, rng: &mut Rng) -> Edit {
        let index = rng.pick(&self.at_hand);
        let file = self.project.files[index].clone();
        let source = self.source(index);
        let before = text(&source.lines);
        let deletions = rng.size(2.0, 0.7, 1, 12).min(source.lines.len());
        let at = rng.index(source.lines.len() - deletions + 1);
        let depth = source.lines[at].chars().take_while(|c| c.is_whitespace()).count().div_ceil(4).max(1);
        let additions = rng.size(3.0, 0.8, 1, 40);
        let added = code::statements(rng, &source.scope, depth, additions);
        let diff = unified(&self.project.absolute(&file), &self.files[&index].lines, at, deletions, &added);
        let lines = &mut self.source(index).lines;
        let removed: Vec<String> = lines.splice(at..at + deletions, added.iter().cloned()).collect();
        let after = text(lines);
        let change = Touched {
            before: before.clone(),
            after: after.clone(),
            additions,
            deletions,
            status: "modified",
        };
        self.touch(rng, &file, &change);
        Edit {
            old: removed.join("\n"),
            new: added.join("\n"),
            file,
            diff,
            before,
            after,
            additions,
            deletions,
        }
    }

    /// A new file: its path below the directory, and its text.
    pub(crate) fn create(&mut self, rng: &mut Rng) -> (String, String) {
        let file = format!("src/{}.{}", self.words.snake(rng), self.project.language.ending());
        let scope = Scope::new(self.words, self.project.language, rng);
        let n_lines = rng.size(40.0, 0.8, 4, 600);
        let lines = code::source(rng, &scope, n_lines);
        let after = text(&lines);
        let change = Touched {
            before: String::new(),
            after: after.clone(),
            additions: lines.len(),
            deletions: 0,
            status: "added",
        };
        self.touch(rng, &file, &change);
        (file, after)
    }

    /// The changes since the last call: the diffs of one turn.
    pub(crate) fn take_turn(&mut self) -> Vec<FileDiff> {
        diffs(std::mem::take(&mut self.turn))
    }

    pub(crate) fn session_changes(&mut self) -> (Counts, Vec<FileDiff>) {
        let diffs = diffs(std::mem::take(&mut self.session));
        let counts = Counts {
            additions: diffs.iter().map(|diff| diff.additions).sum(),
            deletions: diffs.iter().map(|diff| diff.deletions).sum(),
            files: diffs.len(),
        };
        (counts, diffs)
    }

    fn source(&mut self, index: usize) -> &mut Source<'w> {
        let (words, project, seed) = (self.words, self.project, self.seed);
        self.files.entry(index).or_insert_with(|| {
            let mut rng = Rng::new(seed, Stream::SourceFile, ((project.index as u64) << 32) + index as u64);
            let scope = Scope::new(words, project.language, &mut rng);
            let n_lines = rng.size(30.0, 0.85, 6, 600);
            let lines = code::source(&mut rng, &scope, n_lines);
            Source { scope, lines }
        })
    }

    fn touch(&mut self, rng: &mut Rng, file: &str, change: &Touched) {
        // Without a repository there is no snapshot to compare with, so no summary ever learns of it.
        if self.snapshot.is_none() {
            return;
        }
        self.snapshot = Some(rng.hex(40));
        for touched in [&mut self.turn, &mut self.session] {
            match touched.entry(file.to_owned()) {
                Entry::Vacant(entry) => {
                    entry.insert(change.clone());
                }
                Entry::Occupied(mut entry) => {
                    let known = entry.get_mut();
                    known.after.clone_from(&change.after);
                    known.additions += change.additions;
                    known.deletions += change.deletions;
                }
            }
        }
    }
}

fn diffs(touched: BTreeMap<String, Touched>) -> Vec<FileDiff> {
    let diff = |(file, Touched { before, after, additions, deletions, status })| FileDiff {
        file,
        before,
        after,
        additions,
        deletions,
        status,
    };
    touched.into_iter().map(diff).collect()
}

fn text(lines: &[String]) -> String {
    let mut text = lines.join("\n");
    text.push('\n');
    text
}

/// The patch that the edit tool stores, with four lines around the change.
fn unified(path: &str, lines: &[String], at: usize, deletions: usize, added: &[String]) -> String {
    let first = at.saturating_sub(4);
    let last = (at + deletions + 4).min(lines.len());
    let mut diff = format!("Index: {path}\n{}\n--- {path}\n+++ {path}\n", "=".repeat(67));
    diff.push_str(&format!(
        "@@ -{},{} +{},{} @@\n",
        first + 1,
        last - first,
        first + 1,
        last - first - deletions + added.len()
    ));
    let mut mark = |sign: char, lines: &[String]| {
        for line in lines {
            diff.push(sign);
            diff.push_str(line);
            diff.push('\n');
        }
    };
    mark(' ', &lines[first..at]);
    mark('-', &lines[at..at + deletions]);
    mark('+', added);
    mark(' ', &lines[at + deletions..last]);
    diff
}
