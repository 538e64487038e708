//! Places of documents: existing rows, and new ones for documents that others only name so far.

use annals_core::id::{MessageId, Millis, SessionId};
use annals_core::{Key, Position};
use rusqlite::OptionalExtension;

use super::super::kind::Kind;
use super::super::numbers::DocumentRow;
use super::super::rows::{number, session_row};
use super::Revising;

/// The row of a document, existing or reserved.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    pub(super) n: DocumentRow,
    /// Whether no document can belong to it yet.
    pub(super) is_new: bool,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct MessageSlot {
    pub(super) slot: Slot,
    pub(super) made: Option<Millis>,
}

impl Revising<'_> {
    /// The owner of a document, and the document's id below it. None if the owner does not exist.
    pub(super) fn owner(&mut self, key: &Key) -> rusqlite::Result<Option<(Slot, String)>> {
        let root = Slot { n: DocumentRow::NO_OWNER, is_new: false };
        Ok(match key {
            Key::Project(id) => Some((root, id.to_string())),
            Key::Session(_, id) => Some((root, id.to_string())),
            Key::Message(session, message) => {
                self.known_session(session)?.map(|session| (session, message.to_string()))
            }
            Key::Part(session, message, part) => match self.known_session(session)? {
                Some(session) => {
                    self.known_message(session, message)?.map(|message| (message.slot, part.to_string()))
                }
                None => None,
            },
            Key::Record(session, record) => {
                self.known_session(session)?.map(|session| (session, record.to_string()))
            }
            Key::Todo(session) | Key::Diff(session) | Key::Share(session) | Key::LegacyShare(session) => {
                self.known_session(session)?.map(|session| (session, String::new()))
            }
        })
    }

    /// The owner of a document, and the document's id below it. Makes places for owners that are only named so far.
    pub(super) fn owner_or_new(&mut self, key: &Key) -> rusqlite::Result<(Slot, String)> {
        let root = Slot { n: DocumentRow::NO_OWNER, is_new: false };
        Ok(match key {
            Key::Project(id) => (root, id.to_string()),
            Key::Session(_, id) => {
                self.session_slot(id)?;
                (root, id.to_string())
            }
            Key::Message(session, message) => (self.session_slot(session)?, message.to_string()),
            Key::Part(session, message, part) => {
                let session = self.session_slot(session)?;
                (self.message_slot(session, message)?.slot, part.to_string())
            }
            Key::Record(session, record) => (self.session_slot(session)?, record.to_string()),
            Key::Todo(session) | Key::Diff(session) | Key::Share(session) | Key::LegacyShare(session) => {
                (self.session_slot(session)?, String::new())
            }
        })
    }

    pub(super) fn session_slot(&mut self, id: &SessionId) -> rusqlite::Result<Slot> {
        if let Some(slot) = self.known_session(id)? {
            return Ok(slot);
        }
        let n = self.placeholder(DocumentRow::NO_OWNER, Kind::Session, id.as_str(), Position::default())?;
        self.connection.prepare_cached("INSERT INTO session (n, stale) VALUES (?1, 1)")?.execute([n])?;
        let slot = Slot { n, is_new: true };
        self.sessions.insert(id.clone(), slot);
        Ok(slot)
    }

    pub(super) fn known_session(&mut self, id: &SessionId) -> rusqlite::Result<Option<Slot>> {
        if let Some(slot) = self.sessions.get(id) {
            return Ok(Some(*slot));
        }
        let known = session_row(self.connection, id.as_str())?;
        let slot = known.map(|n| Slot { n: n.document(), is_new: false });
        self.sessions.extend(slot.map(|slot| (id.clone(), slot)));
        Ok(slot)
    }

    pub(super) fn message_slot(&mut self, session: Slot, id: &MessageId) -> rusqlite::Result<MessageSlot> {
        if let Some(slot) = self.known_message(session, id)? {
            return Ok(slot);
        }
        let n = self.placeholder(session.n, Kind::Message, id.as_str(), Position::by_id(id, self.time))?;
        // From now on a document belongs to the session.
        self.sessions.values_mut().filter(|slot| slot.n == session.n).for_each(|slot| slot.is_new = false);
        let slot = MessageSlot { slot: Slot { n, is_new: true }, made: None };
        self.message = Some((session.n.into(), id.clone(), slot));
        Ok(slot)
    }

    pub(super) fn known_message(
        &mut self,
        session: Slot,
        id: &MessageId,
    ) -> rusqlite::Result<Option<MessageSlot>> {
        if let Some((known, message, slot)) = &self.message
            && (*known, message) == (session.n.into(), id)
        {
            return Ok(Some(*slot));
        }
        let Some(n) = number(self.connection, session.n, Kind::Message, id.as_str())? else {
            return Ok(None);
        };
        let made: Option<Millis> = self
            .connection
            .prepare_cached("SELECT made FROM message WHERE session = ?1 AND n = ?2")?
            .query_row((session.n, n), |row| row.get(0))
            .optional()?;
        let slot = MessageSlot { slot: Slot { n, is_new: false }, made };
        self.message = Some((session.n.into(), id.clone(), slot));
        Ok(Some(slot))
    }

    /// Makes a place for a document of which only the name is known.
    pub(super) fn placeholder(
        &self,
        owner: DocumentRow,
        kind: Kind,
        id: &str,
        position: Position,
    ) -> rusqlite::Result<DocumentRow> {
        self.connection
            .prepare_cached(
                "INSERT INTO document (owner, kind, id, position, provenance, revision, since) VALUES (?1, ?2, ?3, ?4, 0, 0, 0)",
            )?
            .execute((owner, kind.number(), id, position.number()))?;
        Ok(DocumentRow(self.connection.last_insert_rowid()))
    }
}
