//! The files that OpenCode keeps beside its sessions: logs, long output of tools, snapshots of working trees, the history of prompts.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use annals_core::id::Millis;
use annals_core::{Document, Key};

use crate::home::space::SpaceKind;
use crate::remains::Searcher;
use crate::{draft, platform};

/// The directory of tool output that was too long for a document.
pub(crate) const TOOL_OUTPUT: &str = "tool-output";
/// The directory of logs.
pub(crate) const LOGS: &str = "log";
/// The files in the state directory that hold prompts as they were typed.
const PROMPT_FILES: [&str; 2] = ["prompt-history.jsonl", "prompt-stash.jsonl"];

/// The file that a tool call says its whole output is in, if it is still there.
pub(crate) fn tool_output(data: &Path, key: &Key, document: &Document) -> Option<PathBuf> {
    // Nearly no part names one, and this search is cheaper than reading each document.
    if !matches!(key, Key::Part(..)) || memchr::memmem::find(document.bytes(), b"tool-output").is_none() {
        return None;
    }
    let named = document.root().at(&["state", "metadata", "outputPath"])?.as_text()?.to_string();
    let path = data.join(TOOL_OUTPUT).join(Path::new(&named).file_name()?);
    path.is_file().then_some(path)
}

/// What OpenCode has in a data directory, sessions and all, but for programs and for the objects of git, which are compressed.
pub(crate) fn contents(data: &Path) -> Vec<PathBuf> {
    let names = ["storage", "project", LOGS, TOOL_OUTPUT, "plans", "snapshot"];
    names.iter().map(|name| data.join(name)).filter(|path| path.exists()).collect()
}

/// The regular files in a directory, and in those below it.
pub(crate) fn files_below(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => files.extend(files_below(&entry.path())),
            Ok(kind) if kind.is_file() => files.push(entry.path()),
            _ => {}
        }
    }
    files.sort();
    files
}

/// A file or directory beside sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileUse {
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
    /// When it was last written to.
    pub(crate) modified: Millis,
}

/// What a data directory holds beside sessions, by use.
pub(crate) fn uses(data: &Path) -> Vec<(SpaceKind, Vec<FileUse>)> {
    let files = |name: &str| files_below(&data.join(name)).into_iter().filter_map(FileUse::of).collect();
    let entries = |name: &str| {
        let entries = std::fs::read_dir(data.join(name)).into_iter().flatten().flatten();
        entries.filter_map(|entry| FileUse::of(entry.path())).collect::<Vec<_>>()
    };
    let other = ["bin", "repos", "plans", "worktree"].into_iter().flat_map(entries).collect();
    vec![
        (SpaceKind::Snapshots, entries("snapshot")),
        (SpaceKind::ToolOutput, files(TOOL_OUTPUT)),
        (SpaceKind::Logs, files(LOGS)),
        (SpaceKind::Other, other),
    ]
}

impl FileUse {
    fn of(path: PathBuf) -> Option<FileUse> {
        let metadata = path.symlink_metadata().ok()?;
        let modified = metadata.modified().ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
        let modified = Millis::try_from(modified.as_millis()).ok()?;
        let bytes = if metadata.is_dir() { size_below(&path) } else { metadata.len() };
        Some(FileUse { path, bytes, modified })
    }
}

/// The bytes of all files in a directory.
pub(crate) fn size_below(directory: &Path) -> u64 {
    files_below(directory).iter().filter_map(|file| file.symlink_metadata().ok()).map(|file| file.len()).sum()
}

/// Writes spaces over the lines of a log in which words are found. The file keeps its length, so that a process that appends to it is not
/// disturbed. Returns the number of lines.
pub(crate) fn blank_lines(log: &Path, searcher: &Searcher) -> io::Result<usize> {
    let mut reader = BufReader::new(platform::open_to_read(log)?);
    let mut writer: Option<File> = None;
    let (mut at, mut n_blanked) = (0_u64, 0);
    let mut line = Vec::new();
    loop {
        line.clear();
        let length = platform::again(|| reader.read_until(b'\n', &mut line))?;
        if length == 0 {
            break;
        }
        if searcher.is_in(&line) {
            let writer = match &mut writer {
                Some(writer) => writer,
                None => writer.insert(std::fs::OpenOptions::new().write(true).open(log)?),
            };
            let text = line.strip_suffix(b"\n").unwrap_or(&line).len();
            writer.seek(SeekFrom::Start(at))?;
            writer.write_all(&vec![b' '; text])?;
            n_blanked += 1;
        }
        at += length as u64;
    }
    if let Some(writer) = writer {
        writer.sync_all()?;
    }
    Ok(n_blanked)
}

/// Removes prompts from the history of what was typed. Returns the files that were changed, each with the number of prompts.
pub(crate) fn remove_prompts(
    state: &Path,
    prompts: &HashSet<String>,
    searcher: &Searcher,
) -> io::Result<Vec<(PathBuf, usize)>> {
    let mut changed = Vec::new();
    for name in PROMPT_FILES {
        let path = state.join(name);
        let text = match platform::read_file(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        let is_kept = |line: &&[u8]| !searcher.is_in(line) && !is_one_of(line, prompts);
        let lines: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
        let kept: Vec<&[u8]> = lines.iter().copied().filter(|line| is_kept(line)).collect();
        if kept.len() == lines.len() {
            continue;
        }
        let directory = path.parent().unwrap_or(Path::new("."));
        draft::sweep(directory);
        let mut draft = draft::make_in(directory, 0o600)?;
        draft.write_all(&kept.concat())?;
        draft.as_file().set_permissions(std::fs::metadata(&path)?.permissions())?;
        draft.as_file().sync_all()?;
        draft.persist(&path).map_err(|error| error.error)?;
        changed.push((path, lines.len() - kept.len()));
    }
    Ok(changed)
}

/// Whether a line of a history is one of some prompts.
fn is_one_of(line: &[u8], prompts: &HashSet<String>) -> bool {
    let Ok(entry) = Document::parse(line.trim_ascii().to_vec()) else { return false };
    let input = entry.root().get("input").and_then(|input| input.as_text());
    input.is_some_and(|input| prompts.contains(input.to_string().trim()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remains::Words;

    fn searcher(word: &str) -> Searcher {
        let mut words = Words::default();
        words.add_id(word);
        words.searcher()
    }

    #[test]
    fn lines_are_blanked_and_the_log_keeps_its_length() {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("a.log");
        std::fs::write(&log, "first\nsays ses_1 here\nthird\nses_1").unwrap();
        assert_eq!(blank_lines(&log, &searcher("ses_1")).unwrap(), 2);
        assert_eq!(std::fs::read_to_string(&log).unwrap(), "first\n               \nthird\n     ");
        assert_eq!(blank_lines(&log, &searcher("ses_1")).unwrap(), 0);
    }

    #[test]
    fn prompts_leave_the_history() {
        let directory = tempfile::tempdir().unwrap();
        let history = directory.path().join(PROMPT_FILES[0]);
        let lines =
            ["{\"input\":\"fix it\",\"parts\":[]}\n", "{\"input\":\"other\"}\n", "no JSON ses_1\n", "rest"];
        std::fs::write(&history, lines.concat()).unwrap();
        let prompts = HashSet::from(["fix it".to_owned()]);
        let changed = remove_prompts(directory.path(), &prompts, &searcher("ses_1")).unwrap();
        assert_eq!(changed, [(history.clone(), 2)]);
        assert_eq!(std::fs::read_to_string(&history).unwrap(), "{\"input\":\"other\"}\nrest");
        assert_eq!(remove_prompts(directory.path(), &prompts, &searcher("ses_1")).unwrap(), []);
    }
}
