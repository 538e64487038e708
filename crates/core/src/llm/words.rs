//! Words that stand for content which is not sent.

use crate::json::Text;
use crate::lens::FilePart;

/// The text of a result that was pruned.
pub(super) const CLEARED: &str = "[Old tool result content cleared]";

/// The beginning of a text that is longer than this many UTF-16 units.
pub(super) fn shortened(text: Text<'_>, max: usize) -> Text<'_> {
    if text.utf16_len() <= max {
        return text;
    }
    let start = Text::from_utf16(&text.to_utf16()[..max]);
    Text::joined(&[start, "\n[truncated]".into()], "")
}

/// A file in words.
pub(super) fn attached(file: &FilePart<'_>) -> Text<'static> {
    let mime = file.mime.clone().unwrap_or("".into());
    let name = file.filename.clone().unwrap_or("file".into());
    Text::joined(&["[Attached ".into(), mime, ": ".into(), name, "]".into()], "")
}
