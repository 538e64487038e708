//! The files that a session changed: as its prompts record them, or else as its steps do; and the patch that makes these changes.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use annals_core::file_patch::texts_of;
use annals_core::git_patch::git_patch;
use annals_core::json::Text;
use annals_core::lens::{self, FileDiff, Message, Part};
use annals_core::{Key, Stored};

use crate::home::{Found, MessageDetail, MessageRange, Quarantined, Read, ReadError, SessionRecord};
use crate::snapshot::{self, SnapshotError, erasing};

/// A file that a session changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    /// Its path: relative to the working tree, or absolute where it is outside of it.
    pub file: String,
    /// What became of it.
    pub kind: ChangeKind,
    /// Lines added and deleted; `None` where only the name of the file is known.
    pub lines: Option<(u64, u64)>,
    /// The turns that changed it, counted from 1.
    pub turns: Vec<usize>,
    /// The file before the first of these turns and after the last.
    texts: Option<Texts>,
}

/// What became of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    /// It was created.
    Added,
    /// It was changed.
    Modified,
    /// It was deleted.
    Deleted,
    /// It was created and deleted again.
    Passing,
}

impl ChangeKind {
    /// The name in machine output.
    pub fn name(self) -> &'static str {
        match self {
            ChangeKind::Added => "added",
            ChangeKind::Modified => "modified",
            ChangeKind::Deleted => "deleted",
            ChangeKind::Passing => "passing",
        }
    }
}

/// A file before and after; `None` where it did not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Texts {
    before: Option<String>,
    after: Option<String>,
}

/// The changes that a session made to files.
#[derive(Debug, Clone, Default)]
pub struct SessionChanges {
    /// The files, by their paths.
    pub files: Vec<FileChange>,
    /// The number of turns of the session.
    pub n_turns: usize,
    /// The root of the working tree, where the session says so.
    pub root: Option<String>,
    /// Whether a pending revert hides messages, whose changes are left out.
    pub is_reverted: bool,
    /// The snapshots before the first step and after the last one.
    snapshots: Option<(String, String)>,
}

/// A patch of the changes that a session made.
#[derive(Debug, Clone, Default)]
pub struct SessionPatch {
    /// The patch, for `git apply`.
    pub patch: Vec<u8>,
    /// Files that are not in it, because their contents are kept nowhere.
    pub missing: Vec<String>,
    /// Why the snapshots could not be used, if they would have had more.
    pub no_snapshots: Option<String>,
}

/// One change of a file in one turn.
struct Step {
    turn: usize,
    kind: ChangeKind,
    lines: Option<(u64, u64)>,
    texts: Option<Texts>,
}

/// Collects the changes that a session made, in these turns or in all. What a pending revert hides is left out.
pub fn session_changes(
    home: &dyn Read,
    session: &SessionRecord,
    turns: Option<&RangeInclusive<usize>>,
) -> Result<Found<SessionChanges>, ReadError> {
    let hidden = session.stored.document.lens::<lens::Session<'_>>().revert.unwrap_or_default().message_id;
    let hidden = hidden.map(|id| id.to_string());
    let is_wanted = |turn: usize| turns.is_none_or(|turns| turns.contains(&turn));
    let mut collected = Collected::default();
    let mut messages = home.messages(session, &MessageRange::ALL, MessageDetail::Parts);
    let mut quarantined: Vec<Quarantined> = Vec::new();
    for message in &mut messages {
        let mut message = message?;
        quarantined.append(&mut message.quarantined);
        let Key::Message(_, id) = &message.stored.key else { continue };
        if hidden.as_deref() == Some(id.as_str()) {
            break;
        }
        collected.message(&message.stored);
        if is_wanted(collected.turn.max(1)) {
            collected.changes(&message.stored, &message.parts);
        }
    }
    quarantined.extend(messages.into_quarantined());
    if turns.is_none() && collected.files.is_empty() && hidden.is_none() {
        match home.document(&Key::Diff(session.id.clone())) {
            Ok(Some(stored)) => {
                let diffs = stored.document.lens::<Vec<FileDiff<'_>>>();
                diffs.iter().for_each(|diff| collected.diff(diff));
            }
            Ok(None) => {}
            Err(ReadError::Unreadable(problem)) => quarantined.push(problem),
            Err(error) => return Err(error),
        }
    }
    collected.add_unrecorded(&repositories(home, session));
    Ok(Found { value: SessionChanges { is_reverted: hidden.is_some(), ..collected.finish() }, quarantined })
}

/// What was collected so far.
#[derive(Default)]
struct Collected {
    turn: usize,
    root: Option<String>,
    files: BTreeMap<String, Vec<Step>>,
    /// Files that steps changed, by turn: they count where the prompt records none.
    patched: BTreeMap<usize, Vec<String>>,
    recorded: HashSet<usize>,
    /// The snapshots before the first step of a turn and after its last one.
    snapshots: BTreeMap<usize, (Option<String>, Option<String>)>,
}

impl Collected {
    /// Notes what a message says of the session as a whole.
    fn message(&mut self, stored: &Stored) {
        match stored.document.lens() {
            Message::User(_) => self.turn += 1,
            Message::Assistant(answer) => {
                let root = answer.path.and_then(|path| path.root).map(|root| root.to_string());
                self.root = self.root.take().or(root.filter(|root| root != "/"));
            }
            Message::Other(_) => {}
        }
    }

    /// Notes the changes that a message tells.
    fn changes(&mut self, stored: &Stored, parts: &[Stored]) {
        if let Message::User(prompt) = stored.document.lens()
            && let Some(diffs) = prompt.summary.and_then(|summary| summary.diffs)
        {
            if !diffs.is_empty() {
                self.recorded.insert(self.turn);
            }
            diffs.iter().for_each(|diff| self.diff(diff));
        }
        for part in parts {
            let snapshot = |text: Option<Text<'_>>| text.map(|text| text.to_string());
            let (from, to) = self.snapshots.entry(self.turn.max(1)).or_default();
            match part.document.lens() {
                Part::StepStart(start) if from.is_none() => *from = snapshot(start.snapshot),
                Part::StepFinish(finish) => *to = snapshot(finish.snapshot).or(to.take()),
                Part::Patch(patch) => {
                    let files = patch.files.unwrap_or_default();
                    let named = files.iter().map(ToString::to_string);
                    self.patched.entry(self.turn.max(1)).or_default().extend(named);
                }
                _ => {}
            }
        }
    }

    fn diff(&mut self, diff: &FileDiff<'_>) {
        let Some(file) = &diff.file else { return };
        let file = unquoted(&file.to_str());
        let owned = |text: &Option<Text<'_>>| text.as_ref().map(|text| text.to_str().into_owned());
        let patch = owned(&diff.patch);
        let texts = match (&patch, owned(&diff.before), owned(&diff.after)) {
            (Some(patch), _, _) => texts_of(patch),
            (None, Some(before), Some(after)) => Some((before, after)),
            _ => None,
        };
        let lines = diff.additions.zip(diff.deletions).map(|(added, deleted)| (added as u64, deleted as u64));
        let status = owned(&diff.status);
        let kind = match (status.as_deref(), &texts) {
            (Some("added"), _) => ChangeKind::Added,
            (Some("deleted"), _) => ChangeKind::Deleted,
            (Some(_), _) => ChangeKind::Modified,
            // Before 1.1.49 nothing says whether a file was there.
            (None, Some((before, after))) if before.is_empty() && !after.is_empty() => ChangeKind::Added,
            (None, Some((before, after))) if after.is_empty() && !before.is_empty() => ChangeKind::Deleted,
            (None, _) => ChangeKind::Modified,
        };
        // Both texts of a binary file are empty.
        let texts = texts.filter(|(before, after)| !(before.is_empty() && after.is_empty()));
        let texts = texts.map(|(before, after)| Texts {
            before: Some(before).filter(|_| kind != ChangeKind::Added),
            after: Some(after).filter(|_| kind != ChangeKind::Deleted),
        });
        self.files.entry(file).or_default().push(Step { turn: self.turn.max(1), kind, lines, texts });
    }

    /// Adds what turns changed whose prompts do not tell. OpenCode notes that at the end of a turn, and may have ended before.
    fn add_unrecorded(&mut self, repositories: &[PathBuf]) {
        let turns: BTreeSet<usize> = self.patched.keys().chain(self.snapshots.keys()).copied().collect();
        for turn in turns.into_iter().filter(|turn| !self.recorded.contains(turn)) {
            let files = self.patched.remove(&turn).unwrap_or_default();
            let snapshots = self.snapshots.get(&turn).and_then(|(from, to)| from.as_ref().zip(to.as_ref()));
            let differing = snapshots.filter(|(from, to)| from != to).and_then(|(from, to)| {
                let found = repositories.iter().map(|repository| snapshot::differing(repository, from, to));
                found.flatten().flatten().next()
            });
            for (file, status, lines) in differing.into_iter().flatten() {
                let kind = match status {
                    'A' => ChangeKind::Added,
                    'D' => ChangeKind::Deleted,
                    _ => ChangeKind::Modified,
                };
                self.files.entry(file).or_default().push(Step { turn, kind, lines, texts: None });
            }
            for file in files {
                let file = relative(&file, self.root.as_deref());
                let steps = self.files.entry(file).or_default();
                if !steps.iter().any(|step| step.turn == turn) {
                    steps.push(Step { turn, kind: ChangeKind::Modified, lines: None, texts: None });
                }
            }
        }
    }

    fn finish(self) -> SessionChanges {
        let from = self.snapshots.values().find_map(|(from, _)| from.clone());
        let to = self.snapshots.values().rev().find_map(|(_, to)| to.clone());
        SessionChanges {
            files: self.files.into_iter().map(|(file, steps)| merged(file, steps)).collect(),
            n_turns: self.turn,
            root: self.root,
            is_reverted: false,
            snapshots: from.zip(to),
        }
    }
}

/// What several turns did to a file, as one change.
fn merged(file: String, mut steps: Vec<Step>) -> FileChange {
    steps.sort_by_key(|step| step.turn);
    let mut turns: Vec<usize> = steps.iter().map(|step| step.turn).collect();
    turns.dedup();
    let kinds = steps.first().map(|step| step.kind).zip(steps.last().map(|step| step.kind));
    let kind = match kinds {
        Some((ChangeKind::Added, ChangeKind::Deleted)) => ChangeKind::Passing,
        Some((ChangeKind::Added, _)) => ChangeKind::Added,
        Some((_, ChangeKind::Deleted)) => ChangeKind::Deleted,
        _ => ChangeKind::Modified,
    };
    // Lines that one turn added and a later one deleted count in both.
    let sum = |lines: Option<(u64, u64)>, step: &Step| {
        let (added, deleted) = step.lines?;
        lines.map(|(all_added, all_deleted)| (all_added + added, all_deleted + deleted))
    };
    let lines = steps.iter().fold(Some((0, 0)), sum);
    let is_known = steps.iter().all(|step| step.texts.is_some());
    let (first, last) = match steps.len() {
        0 => (None, None),
        n => {
            let last = steps.swap_remove(n - 1);
            (steps.into_iter().next().map_or_else(|| last.texts.clone(), |first| first.texts), last.texts)
        }
    };
    let texts = first.zip(last).filter(|_| is_known);
    let texts = texts.map(|(first, last)| Texts { before: first.before, after: last.after });
    FileChange { file, kind, lines, turns, texts }
}

/// The path of a file inside of a working tree; as it is, if it is outside.
fn relative(file: &str, root: Option<&str>) -> String {
    let inside = root.and_then(|root| Path::new(file).strip_prefix(root).ok()).and_then(Path::to_str);
    inside.unwrap_or(file).to_owned()
}

/// A path as it is: git, and so OpenCode before 1.1.37, puts names with characters beyond ASCII between quotes.
fn unquoted(name: &str) -> String {
    let Some(quoted) = name.strip_prefix('"').and_then(|name| name.strip_suffix('"')) else {
        return name.to_owned();
    };
    let mut bytes = Vec::new();
    let mut rest = quoted.bytes().peekable();
    while let Some(byte) = rest.next() {
        match (byte, rest.peek().copied()) {
            (b'\\', Some(b'0'..=b'7')) => {
                let digits = std::iter::from_fn(|| rest.next_if(|byte| matches!(byte, b'0'..=b'7'))).take(3);
                let code = digits.fold(0_u32, |code, digit| code * 8 + u32::from(digit - b'0'));
                bytes.push(u8::try_from(code).unwrap_or(b'?'));
            }
            (b'\\', Some(escaped)) => {
                rest.next();
                bytes.push(match escaped {
                    b'n' => b'\n',
                    b't' => b'\t',
                    b'r' => b'\r',
                    other => other,
                });
            }
            (byte, _) => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| name.to_owned())
}

impl SessionChanges {
    /// The patch that makes these changes: from the snapshots where they are there, with modes and binary files; otherwise from the texts that
    /// the session keeps.
    pub fn patch(&self, home: &dyn Read, session: &SessionRecord) -> SessionPatch {
        let wanted: Vec<&FileChange> =
            self.files.iter().filter(|file| !Path::new(&file.file).is_absolute()).collect();
        let mut patch = SessionPatch::default();
        patch.missing.extend(
            self.files
                .iter()
                .filter(|file| Path::new(&file.file).is_absolute())
                .map(|file| file.file.clone()),
        );
        if wanted.is_empty() {
            return patch;
        }
        match self.patch_of_snapshots(home, session, &wanted) {
            Ok(Some(bytes)) => {
                patch.patch = bytes;
                return patch;
            }
            Ok(None) => {}
            Err(error) => patch.no_snapshots = Some(error.to_string()),
        }
        for file in wanted {
            match &file.texts {
                Some(texts) => {
                    let text = git_patch(&file.file, texts.before.as_deref(), texts.after.as_deref());
                    patch.patch.extend(text.as_bytes());
                }
                None => patch.missing.push(file.file.clone()),
            }
        }
        patch
    }

    fn patch_of_snapshots(
        &self,
        home: &dyn Read,
        session: &SessionRecord,
        files: &[&FileChange],
    ) -> Result<Option<Vec<u8>>, SnapshotError> {
        let Some((from, to)) = &self.snapshots else { return Ok(None) };
        let files: Vec<&str> = files.iter().map(|file| &*file.file).collect();
        let mut failed = None;
        for repository in repositories(home, session) {
            match snapshot::patch(&repository, from, to, &files) {
                Ok(Some(patch)) => return Ok(Some(patch)),
                Ok(None) => {}
                Err(error) => failed = Some(error),
            }
        }
        failed.map_or(Ok(None), Err)
    }
}

/// The repositories that may have snapshots of a session: in the data directories of the homes that it is in.
fn repositories(home: &dyn Read, session: &SessionRecord) -> Vec<PathBuf> {
    let own = home.files().and_then(|files| files.data_directory(session));
    let of_origin = |path: &Path| match path.is_dir() {
        true => Some(path.to_owned()),
        false => path.parent().map(Path::to_owned),
    };
    let origins = session.origins.iter().filter_map(|origin| origin.path().and_then(of_origin));
    let mut seen = HashSet::new();
    let places = own.into_iter().chain(origins).filter(|data| seen.insert(data.clone()));
    places.flat_map(|data| erasing::repositories(&data, Some(session.project.as_str()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_out_of_quotes() {
        assert_eq!(unquoted("plain \"name\""), "plain \"name\"");
        assert_eq!(unquoted(r#""\303\251.txt""#), "é.txt");
        assert_eq!(unquoted(r#""a\tb\"c\\d""#), "a\tb\"c\\d");
    }

    #[test]
    fn turns_are_merged_into_one_change() {
        let step = |turn, kind, before: Option<&str>, after: Option<&str>| Step {
            turn,
            kind,
            lines: Some((1, 1)),
            texts: Some(Texts { before: before.map(str::to_owned), after: after.map(str::to_owned) }),
        };
        let change = merged(
            "a".to_owned(),
            vec![
                step(3, ChangeKind::Modified, Some("two"), Some("three")),
                step(1, ChangeKind::Added, None, Some("two")),
            ],
        );
        assert_eq!(
            (change.kind, change.lines, &change.turns[..]),
            (ChangeKind::Added, Some((2, 2)), &[1, 3][..])
        );
        assert_eq!(change.texts, Some(Texts { before: None, after: Some("three".to_owned()) }));
        let passing = merged(
            "b".to_owned(),
            vec![step(1, ChangeKind::Added, None, Some("x")), step(2, ChangeKind::Deleted, Some("x"), None)],
        );
        assert_eq!(passing.kind, ChangeKind::Passing);
    }
}
