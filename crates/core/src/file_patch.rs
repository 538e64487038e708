//! The patch of a file, as OpenCode writes it since 1.4: every line of the file, those that changed marked.
//!
//! A line can often be matched with several others, so two programs may write two patches of the same change. The search here matches lines as the
//! JavaScript package `diff` does, which OpenCode uses, and so gives the same text.

use std::collections::HashMap;

/// Upper bound on the changed lines that are told apart. In a file with more, all lines are removed and added.
const MAX_EDITS: usize = 20_000;

/// The patch that makes `after` of `before`.
pub fn file_patch(file: &str, before: &str, after: &str) -> String {
    let (old, new) = (lines(before), lines(after));
    let mut text = format!("Index: {file}\n{}\n--- {file}\t\n+++ {file}\t\n", "=".repeat(67));
    let runs = runs(&old, &new);
    if runs.iter().all(|run| run.kind == RunKind::Common) {
        return text;
    }
    // Lines are counted from 1, and an empty range stands after the line it names.
    let start = |n: usize| usize::from(n > 0);
    text.push_str(&format!(
        "@@ -{},{} +{},{} @@\n",
        start(old.len()),
        old.len(),
        start(new.len()),
        new.len()
    ));
    let (mut old, mut new) = (old.into_iter(), new.into_iter());
    for run in runs {
        for _ in 0..run.count {
            let line = match run.kind {
                RunKind::Removed => old.next(),
                RunKind::Added => new.next(),
                RunKind::Common => {
                    old.next();
                    new.next()
                }
            };
            let line = line.unwrap_or_default();
            text.push(run.kind.sign());
            text.push_str(line);
            if !line.ends_with('\n') {
                text.push_str("\n\\ No newline at end of file\n");
            }
        }
    }
    text
}

/// The two texts of a file that a patch has whole: before, and after. `None` if it does not have them.
pub fn texts_of(patch: &str) -> Option<(String, String)> {
    let mut lines = patch.split_inclusive('\n').skip_while(|line| !line.starts_with("@@ "));
    // A range that begins further down leaves lines out.
    let ranges = lines.next()?.strip_prefix("@@ -")?;
    let (old, new) = ranges.split_once(" +")?;
    if ![old, new].iter().all(|range| matches!(range.split([',', ' ']).next(), Some("0" | "1"))) {
        return None;
    }
    let (mut before, mut after) = (String::new(), String::new());
    let mut last = RunKind::Common;
    for line in lines {
        let (sign, text) = line.split_at_checked(1)?;
        last = match sign {
            "-" => RunKind::Removed,
            "+" => RunKind::Added,
            " " => RunKind::Common,
            "\\" => {
                // `\ No newline at end of file` is about the line before it.
                let sides = [(&mut before, RunKind::Added), (&mut after, RunKind::Removed)];
                for (text, other) in sides {
                    if last != other && text.ends_with('\n') {
                        text.pop();
                    }
                }
                continue;
            }
            _ => return None,
        };
        if last != RunKind::Added {
            before.push_str(text);
        }
        if last != RunKind::Removed {
            after.push_str(text);
        }
    }
    Some((before, after))
}

/// The lines of a text, each with its end.
pub(crate) fn lines(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunKind {
    Common,
    Added,
    Removed,
}

impl RunKind {
    /// What a line begins with in a patch.
    pub(crate) fn sign(self) -> char {
        match self {
            RunKind::Common => ' ',
            RunKind::Added => '+',
            RunKind::Removed => '-',
        }
    }
}

/// Lines in a row of which the same became.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run {
    pub(crate) count: usize,
    pub(crate) kind: RunKind,
    /// The run before, on the same path.
    before: Option<usize>,
}

/// A way through both files: how far it got in the old one, and its last run.
#[derive(Debug, Clone, Copy)]
struct Path {
    /// Lines of the old file that are behind it.
    old: usize,
    last: Option<usize>,
}

/// The shortest way from the old lines to the new ones, of several the one that the package `diff` finds first.
pub(crate) fn runs(old: &[&str], new: &[&str]) -> Vec<Run> {
    let mut search = Search { old, new, runs: Vec::new() };
    let mut start = Path { old: 0, last: None };
    let reached = search.extend(&mut start, 0);
    if start.old == old.len() && reached == new.len() {
        return search.story(start);
    }
    // By diagonal: the lines that the old file is ahead of the new one.
    let mut paths: HashMap<isize, Path> = HashMap::from([(0, start)]);
    let (mut lowest, mut highest) = (isize::MIN, isize::MAX);
    for edits in 1..=(old.len() + new.len()).min(MAX_EDITS) as isize {
        let mut diagonal = if lowest > -edits { lowest } else { -edits };
        while diagonal <= highest.min(edits) {
            let found = search.step(&mut paths, diagonal);
            if let Some((path, reached)) = found {
                if path.old == old.len() && reached == new.len() {
                    return search.story(path);
                }
                paths.insert(diagonal, path);
                if path.old == old.len() {
                    highest = highest.min(diagonal - 1);
                }
                if reached == new.len() {
                    lowest = lowest.max(diagonal + 1);
                }
            } else {
                paths.remove(&diagonal);
            }
            diagonal += 2;
        }
    }
    let run = |count, kind| Run { count, kind, before: None };
    vec![run(old.len(), RunKind::Removed), run(new.len(), RunKind::Added)]
}

struct Search<'t> {
    old: &'t [&'t str],
    new: &'t [&'t str],
    runs: Vec<Run>,
}

impl Search<'_> {
    /// The best path on a diagonal, with one edit more than its neighbours, and how far it gets in the new file.
    fn step(&mut self, paths: &mut HashMap<isize, Path>, diagonal: isize) -> Option<(Path, usize)> {
        let remove = paths.remove(&(diagonal - 1));
        let add = paths.get(&(diagonal + 1)).copied();
        let add = add.filter(|path| {
            // The line to add is the one after those that the path has reached.
            let reached = path.old as isize - 1 - diagonal;
            (0..self.new.len() as isize).contains(&reached)
        });
        let remove = remove.filter(|path| path.old < self.old.len());
        let mut path = match (add, remove) {
            (None, None) => return None,
            (Some(add), None) => self.add_run(add, RunKind::Added),
            (Some(add), Some(remove)) if remove.old < add.old => self.add_run(add, RunKind::Added),
            (_, Some(remove)) => self.add_run(remove, RunKind::Removed),
        };
        let reached = self.extend(&mut path, diagonal);
        Some((path, reached))
    }

    /// A path with one line more, added or removed.
    fn add_run(&mut self, path: Path, kind: RunKind) -> Path {
        let last = path.last.map(|last| self.runs[last]);
        let run = match last {
            Some(last) if last.kind == kind => Run { count: last.count + 1, ..last },
            _ => Run { count: 1, kind, before: path.last },
        };
        self.runs.push(run);
        let old = path.old + usize::from(kind == RunKind::Removed);
        Path { old, last: Some(self.runs.len() - 1) }
    }

    /// Follows a path as long as both files have the same lines. Returns how far it gets in the new file.
    fn extend(&mut self, path: &mut Path, diagonal: isize) -> usize {
        let mut new = usize::try_from(path.old as isize - diagonal).unwrap_or(0);
        let begin = path.old;
        while path.old < self.old.len() && new < self.new.len() && self.old[path.old] == self.new[new] {
            path.old += 1;
            new += 1;
        }
        if path.old > begin {
            self.runs.push(Run { count: path.old - begin, kind: RunKind::Common, before: path.last });
            path.last = Some(self.runs.len() - 1);
        }
        new
    }

    /// The runs of a path, the first first.
    fn story(&self, path: Path) -> Vec<Run> {
        let mut story = Vec::new();
        let mut next = path.last;
        while let Some(run) = next.map(|run| self.runs[run]) {
            story.push(run);
            next = run.before;
        }
        story.reverse();
        story
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn body(before: &str, after: &str) -> String {
        let patch = file_patch("a.txt", before, after);
        let head = format!("Index: a.txt\n{}\n--- a.txt\t\n+++ a.txt\t\n", "=".repeat(67));
        patch.strip_prefix(&head).expect("every patch has a head").to_owned()
    }

    #[test]
    fn a_patch_has_every_line() {
        for (before, after, expected) in [
            ("a\nb\nc\n", "a\nB\nc\n", "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"),
            ("", "new\n", "@@ -0,0 +1,1 @@\n+new\n"),
            ("old\n", "", "@@ -1,1 +0,0 @@\n-old\n"),
            ("same", "same", ""),
            ("a\nb", "a\nb\n", "@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+b\n"),
            // Of two ways to keep one line of three, the package `diff` finds this one.
            ("a\nb\na\n", "b\na\nb\n", "@@ -1,3 +1,3 @@\n-a\n b\n a\n+b\n"),
            ("x\ny\n", "y\nx\n", "@@ -1,2 +1,2 @@\n-x\n y\n+x\n"),
        ] {
            assert_eq!(body(before, after), expected, "{before:?} {after:?}");
        }
    }

    proptest! {
        #[test]
        fn both_files_can_be_read_from_a_patch(before in "([abc]\n){0,12}[ab]?", after in "([abc]\n){0,12}[ab]?") {
            let patch = file_patch("a.txt", &before, &after);
            let expected = (before != after).then_some((before, after));
            prop_assert_eq!(texts_of(&patch), expected);
        }
    }
}
