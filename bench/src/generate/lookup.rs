//! The read-only tools: read, grep, glob, list, webfetch.

use std::ops::Range;

use serde_json::json;

use super::tool::{Call, Desk};
use super::words::{Form, capital};

/// 2026-02-01: before, lines that were read came numbered as `00001| `, after as `1: `. The real change came
/// with some release between 1.0.185 and 1.1.65; what matters is that a home in use for months holds both.
const NUMBERING_CHANGED: u64 = 1_769_904_000_000;

/// The read tool shows the first lines of a file to the user.
const PREVIEW_LINES: usize = 20;

impl Desk<'_, '_> {
    pub(crate) fn read(&mut self) -> Call {
        let project = self.workspace.project;
        let (file, lines) = self.workspace.open(self.rng);
        let (mut from, mut to) = (0, lines.len());
        if lines.len() > 80 && self.rng.chance(0.4) {
            from = self.rng.index(lines.len() / 2);
            to = (from + 10 * self.rng.between(3, 12) as usize).min(lines.len());
        }
        let preview = lines[from..to.min(from + PREVIEW_LINES)].join("\n");
        let whole = to == lines.len();
        let path = project.absolute(file);
        let output = read_output(&path, lines, from..to, self.now);
        let input = if from == 0 && whole {
            json!({"filePath": path})
        } else {
            json!({"filePath": path, "offset": from, "limit": to - from})
        };
        let metadata = json!({"preview": preview, "truncated": !whole, "loaded": []});
        Call::completed("read", input, file, output, metadata)
    }

    pub(crate) fn grep(&mut self) -> Call {
        let (pattern, matches) = if self.rng.chance(0.1) {
            (self.author.words.rare(Form::Pascal, self.rng).to_owned(), Vec::new())
        } else {
            self.workspace.search(self.rng, 60)
        };
        let n_matches = matches.len();
        let mut output = format!("Found {n_matches} matches");
        let mut last = "";
        for (file, number, line) in matches {
            if file != last {
                let gap = if last.is_empty() { "" } else { "\n" };
                output.push_str(&format!("{gap}\n{}:", self.workspace.project.absolute(file)));
                last = file;
            }
            output.push_str(&format!("\n  Line {number}: {line}"));
        }
        if n_matches == 0 {
            output = "No files found".to_owned();
        }
        let input = json!({"pattern": pattern, "path": self.workspace.project.directory});
        let metadata = json!({"matches": n_matches, "truncated": false});
        Call::completed("grep", input, pattern, output, metadata)
    }

    pub(crate) fn glob(&mut self) -> Call {
        let project = self.workspace.project;
        let pattern = format!("**/*{}*.{}", self.author.words.plain(self.rng), project.language.ending());
        let n_files = self.rng.size(8.0, 1.0, 1, 100).min(project.files.len());
        let files: Vec<String> = (0..n_files)
            .map(|_| project.absolute(&project.files[self.rng.index(project.files.len())]))
            .collect();
        let metadata = json!({"count": n_files, "truncated": false});
        Call::completed("glob", json!({"pattern": pattern}), "", files.join("\n"), metadata)
    }

    pub(crate) fn list(&mut self) -> Call {
        let project = self.workspace.project;
        let n_files = self.rng.size(14.0, 0.7, 1, 100).min(project.files.len());
        let mut files: Vec<&str> = project.files[..n_files].iter().map(String::as_str).collect();
        files.sort_unstable();
        let mut output = format!("{}/\n", project.directory);
        let mut last = "";
        for file in files {
            let (folder, name) = file.rsplit_once('/').unwrap_or(("", file));
            if folder != last {
                output.push_str(&format!("  {folder}/\n"));
                last = folder;
            }
            output.push_str(&format!("    {name}\n"));
        }
        let input = json!({"path": project.directory});
        Call::completed("list", input, "", output, json!({"count": n_files, "truncated": false}))
    }

    pub(crate) fn webfetch(&mut self) -> Call {
        let url = self.url();
        let n_blocks = self.rng.size(9.0, 0.9, 2, 100);
        let title = capital(self.author.words.plain(self.rng));
        let output = format!("# {title}\n\n{}", self.author.answer(self.rng, n_blocks));
        let input = json!({"url": url, "format": "markdown"});
        let title = format!("{url} (text/html; charset=utf-8)");
        let mut call = Call::completed("webfetch", input, title, output, json!({"truncated": false}));
        call.millis = self.rng.size(600.0, 0.8, 60, 20_000) as u64;
        call
    }

    pub(crate) fn url(&mut self) -> String {
        let words = self.author.words;
        let (site, page) = (words.plain(self.rng), words.plain(self.rng));
        format!("https://docs.example.com/{site}/{page}")
    }
}

/// A part of a file as the read tool shows it to the model.
pub(crate) fn read_output(path: &str, lines: &[String], shown: Range<usize>, now: u64) -> String {
    let old_numbering = now < NUMBERING_CHANGED;
    let mut body = String::new();
    for (number, line) in (shown.start + 1..).zip(&lines[shown.clone()]) {
        if old_numbering {
            body.push_str(&format!("{number:05}| {line}\n"));
        } else {
            body.push_str(&format!("{number}: {line}\n"));
        }
    }
    let last = shown.end;
    let rest = if last == lines.len() {
        format!("(End of file - total {last} lines)")
    } else {
        format!("(File has more lines. Use 'offset' parameter to read beyond line {last})")
    };
    if old_numbering {
        format!("<file>\n{body}\n{rest}\n</file>")
    } else {
        format!("<path>{path}</path>\n<type>file</type>\n<content>{body}\n{rest}\n</content>")
    }
}
