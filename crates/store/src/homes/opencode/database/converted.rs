//! Messages of the second transcript store (`session_message`), in the shape of the first.

use std::collections::VecDeque;

use crate::homes::opencode::second_store::{self, Converted};
use annals_core::id::{MessageId, SessionId};
use annals_core::lens::Message;
use annals_core::{Key, Position, Provenance, Stored};

use super::OpencodeDatabase;
use super::row::{bad_id, damaged, json_of, text_of};
use crate::home::{MessageDetail, MessageRecord, Quarantined, Read, ReadError, SessionRecord};
use crate::sqlite::is_damage;

impl OpencodeDatabase {
    /// The messages of a session that are in the second store, in order; none if that is damaged.
    pub(super) fn all_converted(
        &self,
        session: &SessionRecord,
        detail: MessageDetail,
        quarantined: &mut Vec<Quarantined>,
    ) -> Result<VecDeque<MessageRecord>, ReadError> {
        match self.converted(session, detail, quarantined) {
            Ok(converted) => Ok(converted.into()),
            Err(error) if is_damage(&error) => {
                quarantined.push(damaged("session_message", &error).of(&session.id));
                Ok(VecDeque::new())
            }
            Err(error) => Err(self.read_error(&error)),
        }
    }

    /// The messages of a session that are in the second store, in order, in the shape of the first.
    fn converted(
        &self,
        session: &SessionRecord,
        detail: MessageDetail,
        quarantined: &mut Vec<Quarantined>,
    ) -> rusqlite::Result<Vec<MessageRecord>> {
        if !self.schema.has_column("session_message", "type") {
            return Ok(Vec::new());
        }
        // Before 1.16 there was no other order than that of time.
        let is_numbered = self.schema.has_column("session_message", "seq");
        let order = if is_numbered { "seq" } else { "time_created, id" };
        let sql =
            format!("SELECT id, type, data FROM session_message WHERE session_id = ?1 ORDER BY {order}");
        let mut unusable = Vec::new();
        let rows = self.read(|connection| {
            unusable.clear();
            let mut statement = connection.prepare_cached(&sql)?;
            let mut rows = statement.query([session.id.as_str()])?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                let id = text_of(row.get_ref(0)?);
                let place = format!("session_message[{id}]");
                match (MessageId::parse_opencode(&id), json_of(row.get_ref(2)?)) {
                    (Ok(id), Ok(data)) => {
                        found.push(second_store::SecondStoreRow { id, kind: text_of(row.get_ref(1)?), data });
                    }
                    (Err(error), _) => unusable.push(bad_id("session_message", &id, error).of(&session.id)),
                    (_, Err(reason)) => {
                        unusable.push(Quarantined { place, reason, session: Some(session.id.clone()) });
                    }
                }
            }
            Ok(found)
        })?;
        quarantined.append(&mut unusable);
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let directory = session.info.directory().unwrap_or_default();
        let converted = second_store::convert(&session.id, directory, &rows);
        Ok(converted.into_iter().map(|converted| converted_record(&session.id, converted, detail)).collect())
    }

    /// A message or part of the second store by its key.
    pub(super) fn converted_document(&self, key: &Key) -> Result<Option<Stored>, ReadError> {
        let (Key::Message(session, message) | Key::Part(session, message, _)) = key else { return Ok(None) };
        if !self.schema.has_column("session_message", "type") {
            return Ok(None);
        }
        let Some(record) = self.session(session)? else { return Ok(None) };
        let converted = self.converted(&record, MessageDetail::Parts, &mut Vec::new());
        let converted = converted.map_err(|error| self.read_error(&error))?;
        let wanted = Key::Message(session.clone(), message.clone());
        let Some(found) = converted.into_iter().find(|found| found.stored.key == wanted) else {
            return Ok(None);
        };
        Ok(match key {
            Key::Message(..) => Some(found.stored),
            key => found.parts.into_iter().find(|part| part.key == *key),
        })
    }
}

fn converted_record(session: &SessionId, converted: Converted, detail: MessageDetail) -> MessageRecord {
    let Converted { id, message, parts } = converted;
    let place = format!("session_message[{id}]");
    let n_parts = parts.len();
    let parts = match detail {
        MessageDetail::PartCounts => Vec::new(),
        MessageDetail::Parts | MessageDetail::ToolCalls => parts
            .into_iter()
            .enumerate()
            .map(|(index, (part, document))| {
                let key = Key::Part(session.clone(), id.clone(), part);
                Stored::new(key, document, place.clone())
                    .at(Position::new(index as i64))
                    .by(Provenance::OpencodeSecondStore)
            })
            .collect(),
    };
    let made = Message::created_in(message.root()).unwrap_or(0);
    let stored = Stored::new(Key::Message(session.clone(), id), message, place)
        .at(Position::new(made))
        .by(Provenance::OpencodeSecondStore);
    MessageRecord { stored, made, parts, n_parts, quarantined: Vec::new() }
}

/// Adds the converted messages that come before a message of the first store, then that message.
pub(super) fn push_after_earlier(
    converted: &mut VecDeque<MessageRecord>,
    record: MessageRecord,
    messages: &mut Vec<MessageRecord>,
) {
    // The same message in both stores is one message, and the first store has it whole.
    converted.retain(|other| other.stored.key != record.stored.key);
    while let Some(earlier) = converted.pop_front_if(|other| other.made < record.made) {
        messages.push(earlier);
    }
    messages.push(record);
}
