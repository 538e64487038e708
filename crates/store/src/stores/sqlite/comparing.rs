//! A look at one session, held against what the store has. Nothing is written here.

use std::collections::HashSet;

use annals_core::id::{MessageId, PartId, SessionId};
use annals_core::json::same_value;
use annals_core::{Document, Key, Stored};
use rusqlite::Connection;

use super::SqliteStore;
use super::codec::Hash;
use super::facts::Prepared;
use super::finding::{Finding, Text};
use super::held::{self, InHome};
use super::kind::Kind;
use super::revise::{State, state};
use super::rows::{below, latest, number};
use crate::home::ReadError;

/// A look at one session.
pub(crate) struct Comparing<'s> {
    pub(crate) store: &'s SqliteStore,
    pub(crate) session: SessionId,
    pub(crate) home: i64,
    /// Whether other homes have the session too, or had it.
    pub(crate) is_shared: bool,
    /// Whether the store has nothing of the session yet.
    pub(crate) is_new: bool,
    /// Whether it has any of its messages.
    pub(crate) has_messages: bool,
    /// Whether other homes have the session and this one leads: then messages stand where this home says.
    pub(crate) is_leading: bool,
}

impl Comparing<'_> {
    /// Compares a document with what the home had at the last look. None if it is the same.
    pub(crate) fn document(
        &self,
        stored: &Stored,
        text: impl FnOnce(&Key, &Document) -> Text,
    ) -> Result<Option<Finding>, ReadError> {
        let Stored { key, document, position, .. } = stored;
        let hash = Hash::of(document.bytes());
        let is_unknown =
            self.is_new || (!self.has_messages && matches!(key, Key::Message(..) | Key::Part(..)));
        let known = match is_unknown {
            true => Before::Unknown,
            false => self.store.read(|connection| self.before(connection, stored, hash))?,
        };
        let is_known = match known {
            Before::Same => return Ok(None),
            Before::Moved => return Ok(Some(Finding::Stands(key.clone(), *position))),
            Before::Shown(state) => {
                let is_placed = self.is_leading && matches!(key, Key::Message(..) | Key::Part(..));
                let position = is_placed.then_some(*position);
                return Ok(Some(Finding::Same(key.clone(), hash, state, position)));
            }
            Before::Other => true,
            Before::Unknown => false,
        };
        let prepared = Box::new(Prepared::of(stored));
        let text = text(key, document);
        Ok(Some(Finding::Has(key.clone(), is_known.then(|| document.clone()), prepared, text)))
    }

    fn before(&self, connection: &Connection, stored: &Stored, hash: Hash) -> rusqlite::Result<Before> {
        let Stored { key, document, position, .. } = stored;
        // Of a document that others only name, nothing is known.
        let Some(known) = state_of(connection, key)?.filter(|known| known.since != 0) else {
            return Ok(Before::Unknown);
        };
        let before = self.in_home(connection, &known)?;
        if before.is_there(key, hash) {
            let is_moved = self.is_leading
                && matches!(key, Key::Message(..) | Key::Part(..))
                && known.position != *position;
            return Ok(if is_moved { Before::Moved } else { Before::Same });
        }
        // A home whose bytes are shown has them shown as they are.
        let is_giver = known.home == Some(self.home) && before.bytes == known.hash;
        if let Some(shown) = known.hash
            && !is_giver
            && !known.is_elsewhere(key)
            && (shown == hash
                || latest(connection, known.n)?
                    .is_some_and(|shown| same_value(shown.root(), document.root())))
        {
            return Ok(Before::Shown(shown));
        }
        Ok(Before::Other)
    }

    /// What this home had of a document at its last look.
    fn in_home(&self, connection: &Connection, known: &State) -> rusqlite::Result<InHome> {
        // What is hidden because its session was deleted here may still be in the home.
        match known.home == Some(self.home) && known.is_present && !self.is_shared {
            true => Ok(InHome::shown(known)),
            false => held::in_home(connection, known, self.home),
        }
    }

    /// A document that the home does not have. None if it had not had it before.
    fn lost(&self, connection: &Connection, key: Key) -> rusqlite::Result<Option<Finding>> {
        let Some(known) = state_of(connection, &key)?.filter(|known| known.since != 0) else {
            return Ok(None);
        };
        Ok(self.in_home(connection, &known)?.bytes.map(|_| Finding::Lacks(key)))
    }

    /// The parts that this home does not have of some messages, given those it has.
    pub(crate) fn lost_parts(
        &self,
        messages: &[(MessageId, HashSet<PartId>)],
    ) -> Result<Vec<Finding>, ReadError> {
        if !self.has_messages || messages.is_empty() {
            return Ok(Vec::new());
        }
        self.store.read(|connection| {
            let mut lost = Vec::new();
            let Some(session) = number(connection, 0, Kind::Session, self.session.as_str())? else {
                return Ok(lost);
            };
            for (message, present) in messages {
                let Some(n) = number(connection, session, Kind::Message, message.as_str())? else { continue };
                for (_, id) in below(connection, n, Kind::Part)? {
                    let Ok(id) = PartId::parse(&id) else { continue };
                    if !present.contains(&id) {
                        let key = Key::Part(self.session.clone(), message.clone(), id);
                        lost.extend(self.lost(connection, key)?);
                    }
                }
            }
            Ok(lost)
        })
    }

    /// The messages that this home does not have, whether they are shown or not.
    pub(crate) fn missing_messages(&self, present: &HashSet<MessageId>) -> Result<Vec<MessageId>, ReadError> {
        if self.is_new {
            return Ok(Vec::new());
        }
        self.store.read(|connection| {
            let Some(session) = number(connection, 0, Kind::Session, self.session.as_str())? else {
                return Ok(Vec::new());
            };
            let all = below(connection, session, Kind::Message)?;
            let ids = all.into_iter().filter_map(|(_, id)| MessageId::parse(&id).ok());
            Ok(ids.filter(|id| !present.contains(id)).collect())
        })
    }

    /// The records that this home does not have, whether they are shown or not.
    pub(crate) fn missing_records(&self, present: &HashSet<Key>) -> Result<Vec<Key>, ReadError> {
        if self.is_new {
            return Ok(Vec::new());
        }
        self.store.read(|connection| {
            let Some(session) = number(connection, 0, Kind::Session, self.session.as_str())? else {
                return Ok(Vec::new());
            };
            let all = below(connection, session, Kind::Record)?;
            let keys = all
                .iter()
                .filter_map(|(_, id)| Kind::Record.key(id, None, Some(self.session.as_str()), None));
            Ok(keys.filter(|key| !present.contains(key)).collect())
        })
    }

    /// Those of some documents that the home had and does not have any more.
    pub(crate) fn lost_documents(&self, keys: &[Key]) -> Result<Vec<Finding>, ReadError> {
        if self.is_new || keys.is_empty() {
            return Ok(Vec::new());
        }
        self.store.read(|connection| {
            let mut lost = Vec::new();
            for key in keys {
                lost.extend(self.lost(connection, key.clone())?);
            }
            Ok(lost)
        })
    }
}

/// How a document that a home has compares with what is known of it.
enum Before {
    /// Nothing is known of it.
    Unknown,
    /// The home had the same.
    Same,
    /// The home had the same, and has it where it does not stand in the store.
    Moved,
    /// The home had something else; what it has now says the same as this state, which is shown.
    Shown(Hash),
    /// The home had something else.
    Other,
}

/// The latest state of the document with a key.
fn state_of(connection: &Connection, key: &Key) -> rusqlite::Result<Option<State>> {
    let session = match key {
        Key::Project(id) => return state(connection, 0, Kind::Project, id.as_str()),
        Key::Session(_, id) => return state(connection, 0, Kind::Session, id.as_str()),
        key => key.session(),
    };
    let Some(session) = session else { return Ok(None) };
    let Some(session) = number(connection, 0, Kind::Session, session.as_str())? else { return Ok(None) };
    match key {
        Key::Message(_, id) => state(connection, session, Kind::Message, id.as_str()),
        Key::Part(_, message, id) => match number(connection, session, Kind::Message, message.as_str())? {
            Some(message) => state(connection, message, Kind::Part, id.as_str()),
            None => Ok(None),
        },
        Key::Record(_, id) => state(connection, session, Kind::Record, id.as_str()),
        key => state(connection, session, Kind::of(key), ""),
    }
}
