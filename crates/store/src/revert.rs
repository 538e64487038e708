//! Reverting a session to an earlier message or part: what a revert hides, and what is removed when the session goes on.
//!
//! A revert deletes nothing. It notes in the session's document from where on the conversation is hidden, until the session is prompted
//! again or the revert is taken back.

use annals_core::id::{MessageId, PartId};
use annals_core::json::Text;
use annals_core::lens::{self, Message, Part, PatchPart};
use annals_core::{Key, Stored, Transaction};

use crate::home::{MessageDetail, MessageRange, MessageRecord, Read, ReadError, SessionRecord, Write};
use crate::homes::opencode::dialect::Dialect;
use crate::open;
use crate::snapshot::{ChangedFile, Patch, SnapshotError, Snapshots};

/// Where a revert begins, and the changes to files that it takes back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RevertPoint {
    /// The first message that is hidden, or the one that is hidden in part.
    pub message: MessageId,
    /// The first part of the message that is hidden; `None` hides all of it.
    pub part: Option<PartId>,
    /// The changes to files after that point, in order.
    pub patches: Vec<Patch>,
}

fn patch_of(part: &Stored) -> Option<Patch> {
    let Part::Patch(patch) = part.document.lens() else { return None };
    let PatchPart { hash, files, .. } = *patch;
    let files = files.unwrap_or_default();
    Some(Patch { hash: hash?.to_string(), files: files.iter().map(ToString::to_string).collect() })
}

/// Finds where a revert to a message, or to a part of it, begins. As in OpenCode, a revert to an answer hides the prompt that it answers, too,
/// unless the revert is to a part that comes after text or calls of the same message. `None` if the session does not have the message or part.
pub fn point(
    home: &dyn Read,
    session: &SessionRecord,
    message: &MessageId,
    part: Option<&PartId>,
) -> Result<Option<RevertPoint>, ReadError> {
    let mut last_prompt: Option<MessageId> = None;
    let mut found: Option<RevertPoint> = None;
    for record in home.messages(session, &MessageRange::ALL, MessageDetail::Parts) {
        let record = record?;
        let Key::Message(_, id) = &record.stored.key else { continue };
        if matches!(record.stored.document.lens(), Message::User(_)) {
            last_prompt = Some(id.clone());
        }
        let mut has_content = false;
        if found.is_none() && part.is_none() && id == message && record.parts.is_empty() {
            found = Some(whole(last_prompt.as_ref(), id));
        }
        for stored in &record.parts {
            if let Some(point) = &mut found {
                point.patches.extend(patch_of(stored));
                continue;
            }
            let is_target = match (part, &stored.key) {
                (Some(wanted), Key::Part(_, _, part)) => wanted == part && id == message,
                _ => id == message,
            };
            if is_target {
                found = Some(match part.filter(|_| has_content) {
                    Some(part) => {
                        let (message, part) = (id.clone(), Some(part.clone()));
                        RevertPoint { message, part, patches: Vec::new() }
                    }
                    None => whole(last_prompt.as_ref(), id),
                });
            }
            has_content |= matches!(stored.document.lens(), Part::Text(_) | Part::Tool(_));
        }
    }
    Ok(found)
}

fn whole(last_prompt: Option<&MessageId>, message: &MessageId) -> RevertPoint {
    let message = last_prompt.unwrap_or(message).clone();
    RevertPoint { message, part: None, patches: Vec::new() }
}

/// The snapshots between which messages have worked: before the first step, and after the last one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SnapshotRange {
    /// Before the first step.
    pub from: Option<String>,
    /// After the last one.
    pub to: Option<String>,
}

impl SnapshotRange {
    /// The snapshots of the messages from one on, or of all.
    pub fn of(
        home: &dyn Read,
        session: &SessionRecord,
        first: Option<&MessageId>,
    ) -> Result<SnapshotRange, ReadError> {
        let mut range = SnapshotRange::default();
        let mut is_in = first.is_none();
        for record in home.messages(session, &MessageRange::ALL, MessageDetail::Parts) {
            let record = record?;
            is_in |= matches!(&record.stored.key, Key::Message(_, id) if Some(id) == first);
            record.parts.iter().filter(|_| is_in).for_each(|part| range.add(part));
        }
        Ok(range)
    }

    /// The snapshots of what a revert does not hide.
    pub fn shown(home: &dyn Read, session: &SessionRecord) -> Result<SnapshotRange, ReadError> {
        let revert = session.stored.document.lens::<lens::Session<'_>>().revert.unwrap_or_default();
        let mut range = SnapshotRange::default();
        for record in home.messages(session, &MessageRange::ALL, MessageDetail::Parts) {
            let record = record?;
            let is_first = matches!((&record.stored.key, &revert.message_id),
                (Key::Message(_, id), Some(hidden)) if *hidden == id.as_str());
            let hidden = revert.part_id.as_ref().map(Text::to_str);
            let is_shown = |part: &&Stored| match (is_first, &hidden) {
                (false, _) => true,
                (true, Some(hidden)) => !is_part(part, hidden),
                (true, None) => false,
            };
            record.parts.iter().take_while(is_shown).for_each(|part| range.add(part));
            if is_first {
                break;
            }
        }
        Ok(range)
    }

    fn add(&mut self, part: &Stored) {
        let snapshot =
            |text: Option<Text<'_>>| text.map(|text| text.to_string()).filter(|text| !text.is_empty());
        match part.document.lens() {
            Part::StepStart(start) if self.from.is_none() => self.from = snapshot(start.snapshot),
            Part::StepFinish(finish) => self.to = snapshot(finish.snapshot).or(self.to.take()),
            _ => {}
        }
    }

    /// Both snapshots, if work was done between two.
    pub fn both(&self) -> Option<(&str, &str)> {
        self.from.as_deref().zip(self.to.as_deref())
    }
}

/// Why it could not be found out which files a session changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChangedFilesError {
    /// The home could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The snapshots cannot be used.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
}

/// The files that a session has changed since a message, or in all, as OpenCode computes them from its snapshots. Their sum is the session's
/// `summary` ([`ChangedFile::sum`]).
pub fn changed_files(
    home: &dyn Write,
    session: &SessionRecord,
    first: Option<&MessageId>,
) -> Result<Vec<ChangedFile>, ChangedFilesError> {
    let range = SnapshotRange::of(home, session, first)?;
    let Some((from, to)) = range.both() else { return Ok(Vec::new()) };
    let dialect = open::dialect_of(home).unwrap_or(Dialect::of_version(session.info.version()));
    let data = home.files().and_then(|files| files.data_directory(session)).unwrap_or_default();
    Ok(Snapshots::find(&data, session, dialect, &[from, to])?.changes(from, to)?)
}

/// Adds to a transaction what a reverted session loses when it goes on: everything that the revert hides. The note of the revert itself
/// stays in the session's document.
pub(crate) fn clean_up(
    home: &dyn Read,
    session: &SessionRecord,
    transaction: &mut Transaction,
) -> Result<(), ReadError> {
    let document = session.stored.document.lens::<lens::Session<'_>>();
    let Some(revert) = document.revert else { return Ok(()) };
    let Some(from) = revert.message_id else { return Ok(()) };
    let mut is_hidden = false;
    for record in home.messages(session, &MessageRange::ALL, MessageDetail::Parts) {
        let record = record?;
        let Key::Message(_, id) = &record.stored.key else { continue };
        let is_first = !is_hidden && from == id.as_str();
        is_hidden |= is_first;
        if !is_hidden {
            continue;
        }
        match revert.part_id.as_ref().filter(|_| is_first) {
            Some(part) => {
                let hidden = record.parts.iter().skip_while(|stored| !is_part(stored, &part.to_str()));
                hidden.for_each(|stored| transaction.delete_any(stored.key.clone()));
            }
            None => remove_message(&record, transaction),
        }
    }
    Ok(())
}

fn is_part(stored: &Stored, id: &str) -> bool {
    matches!(&stored.key, Key::Part(_, _, part) if part.as_str() == id)
}

fn remove_message(record: &MessageRecord, transaction: &mut Transaction) {
    for stored in &record.parts {
        transaction.delete_any(stored.key.clone());
    }
    transaction.delete_any(record.stored.key.clone());
}
