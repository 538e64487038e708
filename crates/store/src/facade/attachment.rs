//! Files attached to a prompt, and the parts that OpenCode makes of them: the file itself, and what reading it gave.

use std::path::{Path, PathBuf};

use annals_core::lens::{FilePart, FileSource, Part, SourceText, TextPart};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::homes::opencode::dialect::Dialect;

/// Lines of a file that are read if no range is given.
const MAX_LINES: usize = 2000;
/// Longer lines are cut.
const MAX_LINE: usize = 2000;
/// Upper bound on the bytes of a file's text that are read.
const MAX_BYTES: usize = 50 * 1024;
/// Upper bound on the bytes of a file that is attached whole. A document must stay below `Tape::MAX_BYTES`.
const MAX_FILE: u64 = 256 << 20;

/// A file to be attached to a prompt.
#[derive(Debug, Clone)]
pub struct Attachment {
    content: Content,
    mime: Option<String>,
    name: Option<String>,
    lines: Option<(usize, Option<usize>)>,
    mention: Option<Mention>,
}

#[derive(Debug, Clone)]
enum Content {
    /// A file or directory of the user's.
    Path(PathBuf),
    /// The bytes themselves.
    Bytes(Vec<u8>),
}

/// Where the text of a prompt mentions a file or an agent.
#[derive(Debug, Clone)]
pub(super) struct Mention {
    pub(super) text: String,
    /// In UTF-16 units.
    pub(super) start: usize,
}

impl Mention {
    pub(super) fn source(&self) -> SourceText<'static> {
        let length = self.text.encode_utf16().count();
        SourceText {
            value: Some(self.text.clone().into()),
            start: Some(self.start as f64),
            end: Some((self.start + length) as f64),
        }
    }
}

impl Attachment {
    /// A file or directory. Relative paths are relative to the session's directory.
    pub fn path(path: impl Into<PathBuf>) -> Attachment {
        Attachment::new(Content::Path(path.into()))
    }

    /// Bytes that are in no file, such as a pasted picture.
    pub fn bytes(name: impl Into<String>, mime: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Attachment {
        Attachment {
            mime: Some(mime.into()),
            name: Some(name.into()),
            ..Attachment::new(Content::Bytes(bytes.into()))
        }
    }

    fn new(content: Content) -> Attachment {
        Attachment { content, mime: None, name: None, lines: None, mention: None }
    }

    /// Sets the media type. The default follows from the name.
    #[must_use]
    pub fn mime(mut self, mime: impl Into<String>) -> Attachment {
        self.mime = Some(mime.into());
        self
    }

    /// Sets the name to show. The default is the last piece of the path.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Attachment {
        self.name = Some(name.into());
        self
    }

    /// Takes only these lines of a text, counted from 1; without `last` up to the end.
    #[must_use]
    pub fn lines(mut self, first: usize, last: Option<usize>) -> Attachment {
        self.lines = Some((first.max(1), last));
        self
    }

    /// Says where the prompt mentions the file: the text of the mention, such as `@src/cart.ts`, and where it begins, in UTF-16 units.
    #[must_use]
    pub fn mentioned(mut self, text: impl Into<String>, start: usize) -> Attachment {
        self.mention = Some(Mention { text: text.into(), start });
        self
    }

    /// The parts that OpenCode makes of the file, in order. A file that cannot be read becomes a text that says so, as in OpenCode.
    pub(super) fn parts(&self, directory: &Path, dialect: Dialect) -> Vec<Part<'static>> {
        match &self.content {
            Content::Bytes(bytes) => self.parts_of_bytes(bytes),
            Content::Path(path) => self.parts_of_path(&directory.join(path), dialect),
        }
    }

    fn parts_of_bytes(&self, bytes: &[u8]) -> Vec<Part<'static>> {
        let mime = self.mime.clone().unwrap_or_else(|| "application/octet-stream".to_owned());
        let name = self.name.clone().unwrap_or_default();
        let file = self.file(&mime, &name, data_url(&mime, bytes));
        if mime != "text/plain" {
            return vec![file];
        }
        let text = String::from_utf8_lossy(bytes).into_owned();
        vec![synthetic(called(&serde_json::json!({ "filePath": name }))), synthetic(text), file]
    }

    fn parts_of_path(&self, path: &Path, dialect: Dialect) -> Vec<Part<'static>> {
        let shown = path.display().to_string();
        let name = self.name.clone().unwrap_or_else(|| {
            path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
        });
        if path.is_dir() {
            let call = synthetic(called(&serde_json::json!({ "filePath": shown })));
            return match list(path) {
                Ok(entries) => {
                    let file = self.file("application/x-directory", &name, file_url(path, None));
                    vec![call, synthetic(entries), file]
                }
                Err(error) => vec![call, failed(&shown, &error.to_string())],
            };
        }
        let mime = self.mime.clone().unwrap_or_else(|| mime_of(&name).to_owned());
        if mime != "text/plain" {
            let call = synthetic(called(&serde_json::json!({ "filePath": shown })));
            return match read(path) {
                Ok(bytes) => vec![call, self.file(&mime, &name, data_url(&mime, &bytes))],
                Err(error) => vec![call, failed(&shown, &error)],
            };
        }
        let arguments = match self.lines {
            None => serde_json::json!({ "filePath": shown }),
            Some((first, None)) => serde_json::json!({ "filePath": shown, "offset": first }),
            Some((first, Some(last))) => {
                serde_json::json!({ "filePath": shown, "offset": first, "limit": (last + 1).saturating_sub(first) })
            }
        };
        let call = synthetic(called(&arguments));
        match read(path) {
            Ok(bytes) => {
                let text = String::from_utf8_lossy(&bytes);
                let output = numbered(&shown, &text, self.lines, dialect);
                vec![call, synthetic(output), self.file(&mime, &name, file_url(path, self.lines))]
            }
            Err(error) => vec![call, failed(&shown, &error)],
        }
    }

    fn file(&self, mime: &str, name: &str, url: String) -> Part<'static> {
        let source = self.mention.as_ref().map(|mention| FileSource {
            text: Some(mention.source()),
            kind: Some("file".into()),
            path: Some(name.to_owned().into()),
            ..Default::default()
        });
        let part = FilePart {
            mime: Some(mime.to_owned().into()),
            filename: Some(name.to_owned().into()).filter(|_| !name.is_empty()),
            url: Some(url.into()),
            source,
            ..Default::default()
        };
        part.into()
    }
}

/// A text that the user did not write, but the model gets.
pub(super) fn synthetic(text: String) -> Part<'static> {
    TextPart { text: Some(text.into()), synthetic: Some(true), ..Default::default() }.into()
}

fn called(arguments: &serde_json::Value) -> String {
    format!("Called the Read tool with the following input: {arguments}")
}

fn failed(path: &str, error: &str) -> Part<'static> {
    synthetic(format!("Read tool failed to read {path} with the following error: {error}"))
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    let metadata = std::fs::metadata(path).map_err(|_| format!("File not found: {}", path.display()))?;
    if !metadata.is_file() {
        return Err(format!("Not a file: {}", path.display()));
    }
    if metadata.len() > MAX_FILE {
        return Err(format!("File is too large: {}", path.display()));
    }
    std::fs::read(path).map_err(|error| error.to_string())
}

fn data_url(mime: &str, bytes: &[u8]) -> String {
    format!("data:{mime};base64,{}", BASE64.encode(bytes))
}

fn file_url(path: &Path, lines: Option<(usize, Option<usize>)>) -> String {
    let url = url::Url::from_file_path(path).map(String::from);
    let url = url.unwrap_or_else(|()| format!("file://{}", path.display()));
    match lines {
        None => url,
        Some((first, None)) => format!("{url}?start={first}"),
        Some((first, Some(last))) => format!("{url}?start={first}&end={last}"),
    }
}

/// The entries of a directory as OpenCode's read tool lists them.
fn list(path: &Path) -> std::io::Result<String> {
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        let slash = if entry.path().is_dir() { "/" } else { "" };
        entries.push(format!("{}{slash}", entry.file_name().to_string_lossy()));
    }
    entries.sort();
    let (path, n) = (path.display(), entries.len());
    let listed = entries.join("\n");
    Ok(format!(
        "<path>{path}</path>\n<type>directory</type>\n<entries>\n{listed}\n\n({n} entries)\n</entries>"
    ))
}

/// A text as OpenCode's read tool shows it: with numbers before the lines, and a remark at the end.
fn numbered(path: &str, text: &str, range: Option<(usize, Option<usize>)>, dialect: Dialect) -> String {
    let mut lines: Vec<&str> = text.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line)).collect();
    // 1.1 counts the end of the last line as another line.
    if dialect > Dialect::V1_1 && lines.last() == Some(&"") {
        lines.pop();
    }
    let first = range.map_or(1, |(first, _)| first);
    let limit = range.and_then(|(first, last)| Some((last? + 1).saturating_sub(first))).unwrap_or(MAX_LINES);
    let mut shown = Vec::new();
    let mut n_bytes = 0;
    for (n, line) in lines.iter().enumerate().skip(first - 1).take(limit) {
        let line = match line.char_indices().nth(MAX_LINE) {
            Some((end, _)) => format!("{}... (line truncated to {MAX_LINE} chars)", &line[..end]),
            None => (*line).to_owned(),
        };
        n_bytes += line.len() + 1;
        if n_bytes > MAX_BYTES && !shown.is_empty() {
            break;
        }
        shown.push(format!("{}: {line}", n + 1));
    }
    let (total, last) = (lines.len(), first - 1 + shown.len());
    let remark = match (last < total, dialect) {
        (false, _) => format!("(End of file - total {total} lines)"),
        (true, Dialect::V1_1) => {
            format!("(File has more lines. Use 'offset' parameter to read beyond line {last})")
        }
        (true, _) => {
            format!("(Showing lines {first}-{last} of {total}. Use offset={} to continue.)", last + 1)
        }
    };
    let begin = if dialect >= Dialect::V1_18 { "\n" } else { "" };
    format!(
        "<path>{path}</path>\n<type>file</type>\n<content>{begin}{}\n\n{remark}\n</content>",
        shown.join("\n")
    )
}

/// The media type that a name stands for. Everything that is not known to be something else is text, as in OpenCode.
fn mime_of(name: &str) -> &'static str {
    let extension = name.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase());
    match extension.as_deref().unwrap_or_default() {
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "bmp" => "image/bmp",
        "avif" => "image/avif",
        "pdf" => "application/pdf",
        "mp3" => "audio/mpeg",
        "wav" => "audio/wav",
        "mp4" => "video/mp4",
        "webm" => "video/webm",
        _ => "text/plain",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_shown_as_the_read_tool_of_each_generation_shows_it() {
        let text = "# shop\r\n\nBuy.\n";
        let check = |dialect, range, expected: &str| {
            assert_eq!(
                numbered("/s", text, range, dialect),
                format!("<path>/s</path>\n<type>file</type>\n<content>{expected}\n</content>")
            );
        };
        check(Dialect::V1_1, None, "1: # shop\n2: \n3: Buy.\n4: \n\n(End of file - total 4 lines)");
        check(Dialect::V1_2, None, "1: # shop\n2: \n3: Buy.\n\n(End of file - total 3 lines)");
        check(Dialect::V1_18, None, "\n1: # shop\n2: \n3: Buy.\n\n(End of file - total 3 lines)");
        let two = Some((1, Some(2)));
        check(
            Dialect::V1_1,
            two,
            "1: # shop\n2: \n\n(File has more lines. Use 'offset' parameter to read beyond line 2)",
        );
        check(Dialect::V1_18, two, "\n1: # shop\n2: \n\n(Showing lines 1-2 of 3. Use offset=3 to continue.)");
        check(Dialect::V1_18, Some((3, None)), "\n3: Buy.\n\n(End of file - total 3 lines)");
        check(Dialect::V1_18, Some((9, None)), "\n\n\n(End of file - total 3 lines)");
    }

    #[test]
    fn long_lines_and_long_files_are_cut() {
        let shown = numbered("/s", &"é".repeat(3000), None, Dialect::V1_18);
        assert!(shown.contains(&format!("{}... (line truncated to 2000 chars)", "é".repeat(2000))));
        let shown = numbered("/s", &"x\n".repeat(5000), None, Dialect::V1_18);
        assert!(shown.contains("2000: x\n\n(Showing lines 1-2000 of 5000. Use offset=2001 to continue.)"));
        let shown = numbered("/s", &format!("{}\n", "x".repeat(1000)).repeat(100), None, Dialect::V1_18);
        assert!(shown.contains("(Showing lines 1-51 of 100."), "{}", &shown[shown.len() - 100..]);
    }
}
