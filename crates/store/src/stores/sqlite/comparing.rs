//! Comparison of looks at sessions with the store's states. Nothing is written here.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use annals_core::id::{MessageId, Millis, PartId, SessionId};
use annals_core::json::same_value;
use annals_core::lens::Message;
use annals_core::{Key, Stored};
use rusqlite::Connection;

use super::SqliteStore;
use super::content::latest;
use super::facts::Prepared;
use super::finding::{Finding, IndexText};
use super::held::{self, InHome};
use super::kind::Kind;
use super::numbers::{DocumentRow, SessionRow};
use super::rows::{below, number, session_row};
use super::state::{State, state};
use super::text_index::entry::{IndexContext, IndexEntry};
use crate::figures::Figures;
use crate::follow::{Compare, ComparedHome, Comparison, Depth, Findings, Look};
use crate::home::ReadError;
use crate::state_hash::StateHash;
use crate::sync::compare;

/// Upper bounds on the documents, and their bytes, that wait to be compared in one transaction: beginning a transaction takes longer
/// than comparing a document.
const DOCUMENTS_TOGETHER: usize = 256;
const BYTES_TOGETHER: usize = 256 << 10;

/// The sessions of one home.
pub(super) struct Comparing<'s> {
    store: &'s SqliteStore,
    home: ComparedHome,
    /// Whether findings go to the text index.
    with_text: bool,
    /// The numbers of the sessions that the store had when the home was surveyed. Asking for each would take longer.
    numbers: HashMap<String, SessionRow>,
    /// The numbers of the sessions that several homes have or had.
    shared: HashSet<SessionRow>,
}

impl SqliteStore {
    pub(super) fn comparing(&self, home: ComparedHome, with_text: bool) -> Result<Comparing<'_>, ReadError> {
        let (numbers, shared) = (self.session_numbers()?, self.shared_sessions()?);
        Ok(Comparing { store: self, home, with_text, numbers, shared })
    }
}

impl Compare for Comparing<'_> {
    fn session(
        &self,
        session: &SessionId,
        updated: Millis,
        depth: Depth,
    ) -> Result<Box<dyn Comparison + '_>, ReadError> {
        let number = self.numbers.get(session.as_str()).copied();
        let look = Look {
            home: self.home.number,
            updated,
            rank: self.home.rank,
            is_own: self.home.is_own,
            turn: i64::MAX,
            is_there: true,
            is_deep: depth == Depth::Parts,
        };
        let is_leading = match number.filter(|_| look.is_deep) {
            Some(number) => is_leading(self.store.looks(number)?, &look),
            // This look sees no message that could have another position.
            None => false,
        };
        Ok(Box::new(SessionComparison {
            has_messages: number.map_or(Ok(false), |number| self.store.has_messages(number))?,
            is_shared: number.is_some_and(|number| self.shared.contains(&number)),
            is_leading,
            with_text: self.with_text,
            ..SessionComparison::new(self.store, session.clone(), number, look)
        }))
    }
}

/// Whether several homes have a session and this look leads.
fn is_leading(mut looks: Vec<Look>, look: &Look) -> bool {
    looks.retain(|known| known.home != look.home);
    if looks.is_empty() {
        return false;
    }
    looks.push(look.clone());
    compare::leader(&looks).is_some_and(|leader| leader.home == look.home)
}

/// A look at one session.
pub(super) struct SessionComparison<'s> {
    store: &'s SqliteStore,
    session: SessionId,
    /// The session's number. None if the store has nothing of the session yet.
    number: Option<SessionRow>,
    look: Look,
    /// Whether other homes have the session too, or had it.
    pub(super) is_shared: bool,
    /// Whether the store has any of the session's messages.
    has_messages: bool,
    /// Whether other homes have the session and this one leads: then this home decides the positions of messages.
    is_leading: bool,
    /// Whether findings go to the text index.
    with_text: bool,
    /// The message whose documents are being compared, if it was read.
    context: Option<Rc<IndexContext>>,
    /// Documents that the store may know, waiting to be compared.
    waiting: Vec<(Stored, Option<Rc<IndexContext>>)>,
    n_waiting_bytes: usize,
    findings: Vec<Finding>,
    n_unchanged: usize,
}

impl<'s> SessionComparison<'s> {
    /// A comparison of documents that come one by one, after the session was looked at.
    pub(super) fn new(
        store: &'s SqliteStore,
        session: SessionId,
        number: Option<SessionRow>,
        look: Look,
    ) -> SessionComparison<'s> {
        SessionComparison {
            store,
            session,
            number,
            look,
            is_shared: false,
            has_messages: number.is_some(),
            is_leading: false,
            with_text: false,
            context: None,
            waiting: Vec::new(),
            n_waiting_bytes: 0,
            findings: Vec::new(),
            n_unchanged: 0,
        }
    }

    /// Compares one document. None if it is unchanged since the home's last look.
    pub(super) fn one(&self, stored: &Stored) -> Result<Option<Finding>, ReadError> {
        let hash = StateHash::of(stored.document.bytes());
        let before = match self.is_unknown(&stored.key) {
            true => KnownAs::Unknown,
            false => self.store.read(|connection| self.before(connection, stored, hash))?,
        };
        Ok(self.finding(stored, hash, before, None))
    }

    /// Whether the store cannot know a document with this key.
    fn is_unknown(&self, key: &Key) -> bool {
        self.number.is_none() || (!self.has_messages && matches!(key, Key::Message(..) | Key::Part(..)))
    }

    /// The finding of the look, if the document has changed.
    fn finding(
        &self,
        stored: &Stored,
        hash: StateHash,
        before: KnownAs,
        context: Option<&IndexContext>,
    ) -> Option<Finding> {
        let Stored { key, document, position, .. } = stored;
        let is_known = match before {
            KnownAs::Same => return None,
            KnownAs::Moved => return Some(Finding::Stands(key.clone(), *position)),
            KnownAs::Shown(state) => {
                let is_placed = self.is_leading && matches!(key, Key::Message(..) | Key::Part(..));
                let position = is_placed.then_some(*position);
                return Some(Finding::Same(key.clone(), hash, state, position));
            }
            KnownAs::Other => true,
            KnownAs::Unknown => false,
        };
        let prepared = Box::new(Prepared::of(stored));
        // The index entry of a part depends on its message; where that was not read, the part is indexed later.
        let can_be_indexed = self.with_text
            && match key {
                Key::Session(..) | Key::Message(..) => true,
                Key::Part(..) => context.is_some(),
                _ => false,
            };
        let text = match can_be_indexed {
            true => IndexText::Known(IndexEntry::of(key, document, context).map(Box::new)),
            false => IndexText::Unknown,
        };
        Some(Finding::Has(key.clone(), is_known.then(|| document.clone()), prepared, text))
    }

    fn add(&mut self, finding: Option<Finding>) {
        self.n_unchanged += usize::from(!finding.as_ref().is_some_and(Finding::is_import));
        self.findings.extend(finding);
    }

    /// Compares the documents that wait.
    fn compare_waiting(&mut self) -> Result<(), ReadError> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let waiting = std::mem::take(&mut self.waiting);
        self.n_waiting_bytes = 0;
        let hashes: Vec<StateHash> =
            waiting.iter().map(|(stored, _)| StateHash::of(stored.document.bytes())).collect();
        let before: Vec<KnownAs> = self.store.read(|connection| {
            let documents = waiting.iter().zip(&hashes);
            documents.map(|((stored, _), hash)| self.before(connection, stored, *hash)).collect()
        })?;
        for (((stored, context), hash), before) in waiting.iter().zip(hashes).zip(before) {
            let finding = self.finding(stored, hash, before, context.as_deref());
            self.add(finding);
        }
        Ok(())
    }

    fn before(&self, connection: &Connection, stored: &Stored, hash: StateHash) -> rusqlite::Result<KnownAs> {
        let Stored { key, document, position, .. } = stored;
        // Nothing is known of a document that others only name.
        let Some(known) = state_of(connection, key)?.filter(|known| known.since != 0) else {
            return Ok(KnownAs::Unknown);
        };
        let before = self.in_home(connection, &known)?;
        if before.is_there(key, hash) {
            let is_moved = self.is_leading
                && matches!(key, Key::Message(..) | Key::Part(..))
                && known.position != *position;
            return Ok(if is_moved { KnownAs::Moved } else { KnownAs::Same });
        }
        // The home that gives the shown bytes has its new bytes shown exactly, even if the value is the same.
        let is_giver = known.home == Some(self.look.home) && before.bytes == known.hash;
        if let Some(shown) = known.hash
            && !is_giver
            && !known.is_elsewhere(key)
            && (shown == hash
                || latest(connection, known.n)?
                    .is_some_and(|shown| same_value(shown.root(), document.root())))
        {
            return Ok(KnownAs::Shown(shown));
        }
        Ok(KnownAs::Other)
    }

    /// The state of a document that this home had at its last look.
    fn in_home(&self, connection: &Connection, known: &State) -> rusqlite::Result<InHome> {
        // A document that is hidden because its session was deleted here may still be in the home.
        match known.home == Some(self.look.home) && known.is_present && !self.is_shared {
            true => Ok(InHome::shown(known)),
            false => held::in_home(connection, known, self.look.home),
        }
    }

    /// The parts that the store has of a message.
    fn parts(
        &self,
        connection: &Connection,
        session: SessionRow,
        message: &MessageId,
    ) -> rusqlite::Result<Vec<Key>> {
        let Some(n) = number(connection, session, Kind::Message, message.as_str())? else {
            return Ok(Vec::new());
        };
        let ids = below(connection, n, Kind::Part)?;
        let ids = ids.into_iter().filter_map(|(_, id)| PartId::parse(&id).ok());
        Ok(ids.map(|id| Key::Part(self.session.clone(), message.clone(), id)).collect())
    }

    /// A document that the home no longer has. None if the home did not have it before.
    fn lost(&self, connection: &Connection, key: Key) -> rusqlite::Result<Option<Finding>> {
        let Some(known) = state_of(connection, &key)?.filter(|known| known.since != 0) else {
            return Ok(None);
        };
        Ok(self.in_home(connection, &known)?.bytes.map(|_| Finding::Lacks(key)))
    }
}

impl Comparison for SessionComparison<'_> {
    fn look(&self) -> Look {
        self.look.clone()
    }

    fn begin_message(&mut self, message: Option<&Message<'_>>) {
        let message = message.filter(|_| self.with_text);
        self.context = message
            .map(|message| Rc::new(IndexContext::of(&Figures::of(message, message.created().unwrap_or(0)))));
    }

    fn document(&mut self, stored: Stored) -> Result<(), ReadError> {
        if self.is_unknown(&stored.key) {
            self.compare_waiting()?;
            let hash = StateHash::of(stored.document.bytes());
            let finding = self.finding(&stored, hash, KnownAs::Unknown, self.context.as_deref());
            self.add(finding);
            return Ok(());
        }
        self.n_waiting_bytes += stored.document.bytes().len();
        self.waiting.push((stored, self.context.clone()));
        if self.waiting.len() >= DOCUMENTS_TOGETHER || self.n_waiting_bytes >= BYTES_TOGETHER {
            self.compare_waiting()?;
        }
        Ok(())
    }

    fn lost_parts(&mut self, messages: &[(MessageId, HashSet<PartId>)]) -> Result<(), ReadError> {
        let (Some(session), true, false) = (self.number, self.has_messages, messages.is_empty()) else {
            return Ok(());
        };
        self.compare_waiting()?;
        let lost = self.store.read(|connection| {
            let mut lost = Vec::new();
            for (message, present) in messages {
                for part in self.parts(connection, session, message)? {
                    if !matches!(&part, Key::Part(_, _, id) if present.contains(id)) {
                        lost.extend(self.lost(connection, part)?);
                    }
                }
            }
            Ok(lost)
        })?;
        self.findings.extend(lost);
        Ok(())
    }

    fn lost_documents(&mut self, keys: &[Key]) -> Result<(), ReadError> {
        if self.number.is_none() || keys.is_empty() {
            return Ok(());
        }
        self.compare_waiting()?;
        let lost = self.store.read(|connection| {
            let mut lost = Vec::new();
            for key in keys {
                lost.extend(self.lost(connection, key.clone())?);
            }
            Ok(lost)
        })?;
        self.findings.extend(lost);
        Ok(())
    }

    fn missing_messages(&self, present: &HashSet<MessageId>) -> Result<Vec<MessageId>, ReadError> {
        let Some(session) = self.number else { return Ok(Vec::new()) };
        let all = self.store.read(|connection| below(connection, session, Kind::Message))?;
        let ids = all.into_iter().filter_map(|(_, id)| MessageId::parse(&id).ok());
        Ok(ids.filter(|id| !present.contains(id)).collect())
    }

    fn missing_records(&self, present: &HashSet<Key>) -> Result<Vec<Key>, ReadError> {
        let Some(session) = self.number else { return Ok(Vec::new()) };
        let all = self.store.read(|connection| below(connection, session, Kind::Record))?;
        let keys =
            all.iter().filter_map(|(_, id)| Kind::Record.key(id, None, Some(self.session.as_str()), None));
        Ok(keys.filter(|key| !present.contains(key)).collect())
    }

    fn known_parts(&self, message: &MessageId) -> Result<Vec<Key>, ReadError> {
        let Some(session) = self.number else { return Ok(Vec::new()) };
        self.store.read(|connection| self.parts(connection, session, message))
    }

    fn is_open(&self) -> Result<bool, ReadError> {
        self.number.map_or(Ok(false), |session| self.store.is_open(session))
    }

    fn take(&mut self) -> Result<Findings, ReadError> {
        self.compare_waiting()?;
        let findings = std::mem::take(&mut self.findings);
        Ok(Findings::new(findings.len(), std::mem::take(&mut self.n_unchanged), findings))
    }
}

/// How a document in a home compares with the state that is known of it.
#[derive(Clone, Copy)]
enum KnownAs {
    /// Nothing is known of it.
    Unknown,
    /// The home had the same.
    Same,
    /// The home had the same, and has it at another position than the store.
    Moved,
    /// The home had something else; its new bytes have the same value as this state, which is shown.
    Shown(StateHash),
    /// The home had something else.
    Other,
}

/// The latest state of the document with a key.
fn state_of(connection: &Connection, key: &Key) -> rusqlite::Result<Option<State>> {
    let session = match key {
        Key::Project(id) => return state(connection, DocumentRow::NO_OWNER, Kind::Project, id.as_str()),
        Key::Session(_, id) => return state(connection, DocumentRow::NO_OWNER, Kind::Session, id.as_str()),
        key => key.session(),
    };
    let Some(session) = session else { return Ok(None) };
    let Some(session) = session_row(connection, session.as_str())? else { return Ok(None) };
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
