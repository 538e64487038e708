//! A session as the source of a copy has it, with everything that belongs to it.

use std::path::{Path, PathBuf};

use annals_core::{Document, Key, Provenance, Stored};

use crate::home::{MessageDetail, MessageRange, Quarantined, Read, ReadError, SessionRecord};

/// A session with everything that belongs to it, as the source has it.
pub(super) struct Gathered {
    pub(super) record: SessionRecord,
    /// Messages, parts, todo list and so on, but not the session itself.
    pub(super) documents: Vec<Stored>,
    pub(super) quarantined: Vec<Quarantined>,
    pub(super) n_converted: usize,
    /// Files that its documents name.
    pub(super) tool_outputs: Vec<PathBuf>,
}

/// Reads a session with everything that belongs to it.
pub(super) fn gather(from: &dyn Read, record: &SessionRecord) -> Result<Gathered, ReadError> {
    let mut gathered = Gathered {
        record: record.clone(),
        documents: Vec::new(),
        quarantined: Vec::new(),
        n_converted: 0,
        tool_outputs: Vec::new(),
    };
    let mut messages = from.messages(record, &MessageRange::ALL, MessageDetail::Parts);
    for message in &mut messages {
        let message = message?;
        gathered.n_converted += usize::from(message.stored.provenance == Provenance::OpencodeSecondStore);
        gathered.quarantined.extend(message.quarantined);
        let all = std::iter::once(message.stored).chain(message.parts);
        gathered.documents.extend(all);
    }
    gathered.quarantined.extend(messages.into_quarantined());
    if let Some(data) = from.files().and_then(|files| files.data_directory(record)) {
        let named =
            gathered.documents.iter().filter_map(|stored| tool_output(&data, &stored.key, &stored.document));
        gathered.tool_outputs = named.collect();
    }
    for key in Key::beside(&record.id) {
        match from.document(&key) {
            Ok(stored) => gathered.documents.extend(stored),
            Err(ReadError::Unreadable(problem)) => gathered.quarantined.push(problem),
            Err(error) => return Err(error),
        }
    }
    Ok(gathered)
}

/// The directory of tool output that was too long for a document.
pub(super) const TOOL_OUTPUT: &str = "tool-output";

/// The file that a tool call says its whole output is in, if it is still there.
fn tool_output(data: &Path, key: &Key, document: &Document) -> Option<PathBuf> {
    // Nearly no part names one, and this search is cheaper than reading each document.
    if !matches!(key, Key::Part(..)) || memchr::memmem::find(document.bytes(), b"tool-output").is_none() {
        return None;
    }
    let named = document.root().at(&["state", "metadata", "outputPath"])?.as_text()?.to_string();
    let path = data.join(TOOL_OUTPUT).join(Path::new(&named).file_name()?);
    path.is_file().then_some(path)
}
