//! A session as the source of a copy has it, with everything that belongs to it.

use std::path::PathBuf;

use annals_core::{Key, Provenance, Stored};

use crate::home::{MessageDetail, MessageRange, Quarantined, Read, ReadError, SessionRecord};
use crate::homes::opencode::agent_files::tool_output;

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
