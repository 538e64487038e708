//! Reading: the store as it is, or as it was at some moment, through the same functions. A page that SQLite cannot read is an error here; `scan.rs`
//! reads around it, for `check` and `backup`.

mod state_row;

use std::collections::HashMap;

use annals_core::id::{MessageId, Millis, SessionId};
use annals_core::lens::Message;
use annals_core::{Key, Position, Provenance, Stored};
use rusqlite::{Connection, OptionalExtension};

use super::SqliteStore;
use super::derived::{self, figures_of_session, n_parts};
use super::kind::Kind;
use super::numbers::{DocumentRow, RevisionMoment, SessionRow};
use super::quarantine::quarantine;
use super::rows::{LEADER_FIRST, below, in_order, number, number_of, session_row};
use super::scan::is_of;
use crate::check::Problem;
use crate::figures::Figures;
use crate::history::History;
use crate::home::{
    Extent, Found, Inspect, MessageDetail, MessageRange, MessageRecord, Messages, Past, Quarantined, Read,
    ReadError, SessionRecord, Summaries, UnreadableReason, read_figures, row_place,
};
use crate::home_url::HomeUrl;
use crate::query::SessionQuery;
use crate::summary::SessionSummary;
use state_row::{STATE, StateRow};

/// Upper bound on the messages read in one transaction.
const PAGE: usize = 64;
/// Reading in one transaction ends with the message that reaches this many bytes.
const PAGE_BYTES: usize = 8 << 20;

/// The store at one moment, or as it is now.
#[derive(Debug, Clone, Copy)]
pub(super) struct View<'s> {
    pub(super) store: &'s SqliteStore,
    pub(super) at: Option<RevisionMoment>,
}

impl<'s> View<'s> {
    pub(super) fn now(store: &'s SqliteStore) -> View<'s> {
        View { store, at: None }
    }

    /// The state of a document at the view's moment. None if the document is not known to have existed then.
    pub(super) fn state(
        &self,
        connection: &Connection,
        n: DocumentRow,
    ) -> rusqlite::Result<Option<StateRow>> {
        let Some((time, number)) = self.at else {
            let sql = format!("SELECT {STATE} FROM document x WHERE n = ?1");
            return connection
                .prepare_cached(&sql)?
                .query_row([n], |row| StateRow::read(connection, row, 0, None)?.complete(connection, n, None))
                .optional();
        };
        // A state that was dated back has the higher number of the two in `since`; no step followed it then.
        let latest = format!(
            "SELECT {STATE}, coalesce(x.revision > x.since AND (w.time, w.n) > (?2, ?3), 0) AS is_step \
             FROM document x JOIN revision r ON r.n = x.since LEFT JOIN revision w ON w.n = x.revision \
             WHERE x.n = ?1 AND (r.time, r.n) <= (?2, ?3)"
        );
        let found = connection
            .prepare_cached(&latest)?
            .query_row((n, time, number), |row| {
                StateRow::read_then(connection, row, None, time)?.complete(connection, n, self.at)
            })
            .optional()?;
        if found.is_some() {
            return Ok(found);
        }
        let earlier = format!(
            "SELECT {STATE}, coalesce((w.time, w.n) > (?2, ?3), 0) AS is_step, x.since \
             FROM past x JOIN revision r ON r.n = x.since LEFT JOIN revision w ON w.n = x.written \
             WHERE x.document = ?1 AND (r.time, r.n) <= (?2, ?3) ORDER BY r.time DESC, r.n DESC LIMIT 1"
        );
        connection
            .prepare_cached(&earlier)?
            .query_row((n, time, number), |row| {
                StateRow::read_then(connection, row, Some((n, row.get("since")?)), time)
            })
            .optional()
    }

    /// A document with its key and place.
    fn stored(
        &self,
        connection: &Connection,
        n: DocumentRow,
        key: impl FnOnce(Option<&str>) -> Option<Key>,
    ) -> rusqlite::Result<Result<Option<Stored>, Quarantined>> {
        let Some(state) = self.state(connection, n)? else { return Ok(Ok(None)) };
        let Some(key) = key(state.project.as_deref()) else { return Ok(Ok(None)) };
        let place = row_place(&key);
        if state.hash.is_some() && !is_of(connection, n, &key)? {
            return Ok(Err(misled(place).of_session(key.session())));
        }
        let provenance = state.provenance;
        Ok(match state.document(&key, &place) {
            Ok(Some(document)) => Ok(Some(Stored::new(key, document, place).by(provenance))),
            Ok(None) => Ok(None),
            Err(problem) => Err(problem.of_session(key.session())),
        })
    }

    fn session_record(
        &self,
        connection: &Connection,
        n: SessionRow,
        id: &str,
    ) -> rusqlite::Result<Result<Option<SessionRecord>, Quarantined>> {
        let key = |project: Option<&str>| Kind::Session.key(id, None, None, project);
        let stored = self.stored(connection, n.document(), key)?;
        let stored = match stored {
            Ok(Some(stored)) => stored,
            Ok(None) => return Ok(Ok(None)),
            Err(problem) => return Ok(Err(problem)),
        };
        let homes = origins(connection, Some(n))?.remove(&n).unwrap_or_default();
        Ok(Ok(self.record(stored, homes)))
    }

    /// A session with the homes it comes from.
    fn record(&self, stored: Stored, homes: Vec<SessionHome>) -> Option<SessionRecord> {
        let Key::Session(project, id) = stored.key.clone() else { return None };
        let gone = homes.iter().map(|(_, gone)| *gone).min().flatten();
        let mut origins: Vec<HomeUrl> = homes.into_iter().map(|(url, _)| HomeUrl::of_stored(&url)).collect();
        if origins.is_empty() {
            origins.push(self.url());
        }
        Some(SessionRecord { gone, ..SessionRecord::new(project, id, stored, origins) })
    }

    /// Every session as it is now.
    fn latest_sessions(
        &self,
        connection: &Connection,
        query: &SessionQuery,
    ) -> rusqlite::Result<Found<Vec<SessionRecord>>> {
        let mut origins = origins(connection, None)?;
        let mut records: Vec<(Position, SessionRecord)> = Vec::new();
        let mut quarantined = Vec::new();
        states_below(connection, DocumentRow::NO_OWNER, Kind::Session, |below, state| {
            let Some(key) = Kind::Session.key(below.id, None, None, state.project.as_deref()) else { return };
            let (place, provenance) = (row_place(&key), state.provenance);
            let document = match below.is_it {
                true => state.document(&key, &place),
                false => Err(misled(place.clone())),
            };
            match document {
                Ok(Some(document)) => {
                    let homes = origins.remove(&below.n.into()).unwrap_or_default();
                    let record = self.record(Stored::new(key, document, place).by(provenance), homes);
                    let admitted = record.filter(|record| query.admits(record));
                    records.extend(admitted.map(|record| (below.position, record)));
                }
                Ok(None) => {}
                Err(problem) => quarantined.push(problem.of_session(key.session())),
            }
        })?;
        Ok(Found { value: in_order(records), quarantined })
    }

    /// Adds the wanted parts to a message.
    fn add_parts(
        &self,
        connection: &Connection,
        session: &SessionId,
        n: DocumentRow,
        record: &mut MessageRecord,
        detail: MessageDetail,
    ) -> rusqlite::Result<()> {
        let Key::Message(_, message) = record.stored.key.clone() else { return Ok(()) };
        if self.at.is_none() && detail == MessageDetail::PartCounts {
            record.n_parts = n_parts(connection, n)?;
            return Ok(());
        }
        let place = |part: &str| Kind::Part.key(part, Some(message.as_str()), Some(session.as_str()), None);
        let mut parts = Vec::new();
        let provenance = record.stored.provenance;
        let mut take = |part: &str, position: Position, state: StateRow, is_it: bool| {
            if state.hash.is_none() && is_it {
                return;
            }
            let Some(key) = place(part) else { return };
            record.n_parts += 1;
            if detail == MessageDetail::PartCounts {
                return;
            }
            let place = row_place(&key);
            if !is_it {
                return record.quarantined.push(misled(place).of(session));
            }
            match state.document(&key, &place) {
                Ok(Some(document)) => {
                    let stored = Stored::new(key, document, place).at(position).by(provenance);
                    parts.push((position, stored));
                }
                Ok(None) => {}
                Err(problem) => record.quarantined.push(problem.of(session)),
            }
        };
        if self.at.is_none() {
            states_below(connection, n, Kind::Part, |below, state| {
                take(below.id, below.position, state, below.is_it);
            })?;
        } else {
            for (part, id) in below(connection, n, Kind::Part)? {
                if let Some(state) = self.state(connection, part)? {
                    let is_it = match place(&id) {
                        Some(key) => is_of(connection, part, &key)?,
                        None => false,
                    };
                    take(&id, Position::default(), state, is_it);
                }
            }
        }
        record.parts = in_order(parts);
        Ok(())
    }

    /// The messages of a session in the order of the conversation, deleted ones too: numbers and ids.
    fn message_numbers(&self, session: &SessionId) -> Result<Vec<(DocumentRow, String)>, ReadError> {
        self.store.read(|connection| match session_row(connection, session.as_str())? {
            Some(n) => below(connection, n, Kind::Message),
            None => Ok(Vec::new()),
        })
    }

    /// The first page of these messages of a session, and how many of them it covers.
    fn first_page(
        &self,
        session: &SessionRecord,
        pending: &[(DocumentRow, String)],
        detail: MessageDetail,
    ) -> Result<(Found<Vec<MessageRecord>>, usize), ReadError> {
        self.store.read(|connection| {
            let mut found: Found<Vec<MessageRecord>> = Found::default();
            let (mut n_taken, mut n_bytes) = (0, 0);
            for (n, id) in pending.iter().take(PAGE) {
                n_taken += 1;
                let key =
                    |_: Option<&str>| Some(Key::Message(session.id.clone(), MessageId::parse(id).ok()?));
                match self.stored(connection, *n, key)? {
                    Ok(Some(stored)) => {
                        let created = Message::created_in(stored.document.root());
                        let made = created.or_else(|| session.info.created()).unwrap_or(0);
                        let (position, provenance) = placement(connection, *n)?;
                        let mut record = MessageRecord {
                            stored: stored.at(position).by(provenance),
                            made,
                            parts: Vec::new(),
                            n_parts: 0,
                            quarantined: Vec::new(),
                        };
                        self.add_parts(connection, &session.id, *n, &mut record, detail)?;
                        n_bytes += record.stored.document.bytes().len();
                        n_bytes += record.parts.iter().map(|part| part.document.bytes().len()).sum::<usize>();
                        found.value.push(record);
                    }
                    Ok(None) => {}
                    Err(problem) => found.quarantined.push(problem),
                }
                if n_bytes >= PAGE_BYTES {
                    break;
                }
            }
            Ok((found, n_taken))
        })
    }

    /// The messages of a session as an iterator that outlives the view.
    fn messages_of(
        self,
        session: &'s SessionRecord,
        range: &MessageRange,
        detail: MessageDetail,
    ) -> Messages<'s> {
        let range = range.clone();
        let mut pending: Option<Vec<(DocumentRow, String)>> = None;
        let mut n_done = 0;
        Messages::in_batches(move || {
            let mut quarantined = Vec::new();
            let pending = match &pending {
                Some(pending) if n_done == pending.len() => return Ok(None),
                Some(pending) => pending,
                None => {
                    quarantined = self.quarantine(Some(&session.id))?;
                    let all = self.message_numbers(&session.id)?;
                    pending.insert(self.within(all, &range)?)
                }
            };
            let (mut found, n_taken) = self.first_page(session, &pending[n_done..], detail)?;
            n_done += n_taken;
            found.quarantined.append(&mut quarantined);
            Ok(Some(found))
        })
    }

    /// The numbered messages that are within a range. Deleted ones are included, but do not count towards the range.
    fn within(
        &self,
        all: Vec<(DocumentRow, String)>,
        range: &MessageRange,
    ) -> Result<Vec<(DocumentRow, String)>, ReadError> {
        let Some(last) = range.last else { return Ok(range.of(all, |(_, id)| id)) };
        let before = MessageRange { before: range.before.clone(), last: None };
        let mut all = before.of(all, |(_, id)| id);
        let begin = self.store.read(|connection| {
            let (mut begin, mut n_left) = (all.len(), last);
            while begin > 0 && n_left > 0 {
                begin -= 1;
                n_left -= usize::from(self.is_there(connection, all[begin].0)?);
            }
            Ok(begin)
        })?;
        all.drain(..begin);
        Ok(all)
    }

    /// Whether a message exists at the view's moment.
    fn is_there(&self, connection: &Connection, n: DocumentRow) -> rusqlite::Result<bool> {
        match self.at {
            None => {
                connection.prepare_cached("SELECT 1 FROM document WHERE n = ?1 AND hash NOTNULL")?.exists([n])
            }
            Some(_) => Ok(self.state(connection, n)?.is_some_and(|state| state.hash.is_some())),
        }
    }

    /// Problems that the last look had with a session; without `session`, those of no session in the store.
    fn quarantine(&self, session: Option<&SessionId>) -> Result<Vec<Quarantined>, ReadError> {
        if self.at.is_some() {
            return Ok(Vec::new());
        }
        self.store.read(|connection| quarantine(connection, session))
    }
}

impl Read for View<'_> {
    fn url(&self) -> HomeUrl {
        HomeUrl::from(self.store.path())
    }

    fn projects(&self) -> Result<Found<Vec<Stored>>, ReadError> {
        let read = self.store.read(|connection| {
            let mut found: Found<Vec<Stored>> = Found::default();
            for (n, id) in below(connection, DocumentRow::NO_OWNER, Kind::Project)? {
                match self.stored(connection, n, |_| Kind::Project.key(&id, None, None, None))? {
                    Ok(stored) => found.value.extend(stored),
                    Err(problem) => found.quarantined.push(problem),
                }
            }
            Ok(found)
        })?;
        Ok(read)
    }

    fn sessions(&self, query: &SessionQuery) -> Result<Found<Vec<SessionRecord>>, ReadError> {
        let mut found: Found<Vec<SessionRecord>> = self.store.read(|connection| {
            if self.at.is_none() {
                return self.latest_sessions(connection, query);
            }
            let mut found: Found<Vec<SessionRecord>> = Found::default();
            for (n, id) in below(connection, DocumentRow::NO_OWNER, Kind::Session)? {
                match self.session_record(connection, n.into(), &id)? {
                    Ok(Some(record)) if query.admits(&record) => found.value.push(record),
                    Ok(_) => {}
                    Err(problem) => found.quarantined.push(problem),
                }
            }
            Ok(found)
        })?;
        found.quarantined.extend(self.quarantine(None)?);
        Ok(found)
    }

    fn session(&self, id: &SessionId) -> Result<Option<SessionRecord>, ReadError> {
        let read = self.store.read(|connection| match session_row(connection, id.as_str())? {
            Some(n) => self.session_record(connection, n, id.as_str()),
            None => Ok(Ok(None)),
        })?;
        Ok(read?)
    }

    fn messages<'h>(
        &'h self,
        session: &'h SessionRecord,
        range: &MessageRange,
        detail: MessageDetail,
    ) -> Messages<'h> {
        self.messages_of(session, range, detail)
    }

    fn document(&self, key: &Key) -> Result<Option<Stored>, ReadError> {
        let read = self.store.read(|connection| {
            let Some(n) = number_of(connection, key)? else { return Ok(Ok(None)) };
            let of_project = |project: Option<&str>| match key {
                // A session that is filed under another project is another document.
                Key::Session(wanted, _) if project != Some(wanted.as_str()) => None,
                key => Some(key.clone()),
            };
            self.stored(connection, n, of_project)
        })?;
        Ok(read?)
    }

    fn session_keys(&self, id: &SessionId) -> Result<Vec<Key>, ReadError> {
        self.store.read(|connection| {
            let Some(session) = session_row(connection, id.as_str())? else {
                return Ok(Vec::new());
            };
            let mut keys = Vec::new();
            let is_there = |n: DocumentRow| -> rusqlite::Result<Option<Option<String>>> {
                if self.at.is_none() {
                    return connection
                        .prepare_cached("SELECT project FROM document WHERE n = ?1 AND hash NOTNULL")?
                        .query_row([n], |row| row.get(0))
                        .optional();
                }
                Ok(self.state(connection, n)?.filter(|state| state.hash.is_some()).map(|state| state.project))
            };
            if let Some(project) = is_there(session.document())? {
                keys.extend(Kind::Session.key(id.as_str(), None, None, project.as_deref()));
            }
            for (message, message_id) in below(connection, session, Kind::Message)? {
                if is_there(message)?.is_some() {
                    keys.extend(Kind::Message.key(&message_id, None, Some(id.as_str()), None));
                }
                for (part, part_id) in below(connection, message, Kind::Part)? {
                    if is_there(part)?.is_some() {
                        keys.extend(Kind::Part.key(&part_id, Some(&message_id), Some(id.as_str()), None));
                    }
                }
            }
            for (record, record_id) in below(connection, session, Kind::Record)? {
                if is_there(record)?.is_some() {
                    keys.extend(Kind::Record.key(&record_id, None, Some(id.as_str()), None));
                }
            }
            for kind in Kind::BESIDE {
                if let Some(n) = number(connection, session, kind, "")?
                    && is_there(n)?.is_some()
                {
                    keys.extend(kind.key("", None, Some(id.as_str()), None));
                }
            }
            Ok(keys)
        })
    }

    fn summaries(&self) -> Option<&dyn Summaries> {
        Some(self)
    }

    fn inspect(&self) -> Option<&dyn Inspect> {
        Some(self)
    }

    fn history(&self) -> Option<&dyn History> {
        Some(self.store)
    }

    fn past(&self) -> Option<&dyn Past> {
        self.at.is_some().then_some(self)
    }
}

impl Summaries for View<'_> {
    fn summarize(&self, sessions: &[&SessionRecord]) -> Result<Vec<Option<SessionSummary>>, ReadError> {
        if self.at.is_some() {
            return Ok(vec![None; sessions.len()]);
        }
        self.store.read(|connection| derived::summaries(connection, sessions))
    }

    fn beginnings(&self) -> Result<HashMap<SessionId, Millis>, ReadError> {
        match self.at {
            Some(_) => Ok(HashMap::new()),
            None => self.store.read(derived::beginnings),
        }
    }

    fn figures(
        &self,
        session: &SessionRecord,
        detail: MessageDetail,
    ) -> Result<Found<Vec<Figures>>, ReadError> {
        if self.at.is_some() {
            return read_figures(self, session, detail);
        }
        self.store.read(|connection| {
            let value = match session_row(connection, session.id.as_str())? {
                Some(n) => figures_of_session(connection, n, detail)?,
                None => Vec::new(),
            };
            Ok(Found { value, quarantined: quarantine(connection, Some(&session.id))? })
        })
    }
}

impl Inspect for View<'_> {
    fn check(&self, now: Millis, progress: &(dyn Fn() + Sync)) -> Result<Vec<Problem>, ReadError> {
        self.store.check_all(self, now, progress)
    }

    fn extent(&self) -> Result<Extent, ReadError> {
        self.store.read(|connection| {
            let count = |kind: Kind| -> rusqlite::Result<(usize, i64)> {
                connection.query_row(
                    "SELECT count(*), coalesce(sum(size), 0) FROM document WHERE kind = ?1 AND hash IS NOT NULL",
                    [kind.number()],
                    |row| Ok((row.get(0)?, row.get(1)?)),
                )
            };
            let (messages, parts): (usize, usize) = connection.query_row(
                "SELECT coalesce(sum(messages), 0), coalesce(sum(parts), 0) FROM session WHERE brief",
                [],
                |row| Ok((row.get(0)?, row.get(1)?)),
            )?;
            let bytes: i64 =
                connection.query_row("SELECT coalesce(sum(size), 0) FROM document", [], |row| row.get(0))?;
            let (messages, parts) = (messages + count(Kind::Message)?.0, parts + count(Kind::Part)?.0);
            Ok(Extent { messages, parts, bytes: bytes.unsigned_abs(), is_damaged: false })
        })
    }
}

impl Read for SqliteStore {
    fn url(&self) -> HomeUrl {
        View::now(self).url()
    }

    fn projects(&self) -> Result<Found<Vec<Stored>>, ReadError> {
        View::now(self).projects()
    }

    fn sessions(&self, query: &SessionQuery) -> Result<Found<Vec<SessionRecord>>, ReadError> {
        View::now(self).sessions(query)
    }

    fn session(&self, id: &SessionId) -> Result<Option<SessionRecord>, ReadError> {
        View::now(self).session(id)
    }

    fn messages<'h>(
        &'h self,
        session: &'h SessionRecord,
        range: &MessageRange,
        detail: MessageDetail,
    ) -> Messages<'h> {
        View::now(self).messages_of(session, range, detail)
    }

    fn document(&self, key: &Key) -> Result<Option<Stored>, ReadError> {
        View::now(self).document(key)
    }

    fn session_keys(&self, id: &SessionId) -> Result<Vec<Key>, ReadError> {
        View::now(self).session_keys(id)
    }

    fn summaries(&self) -> Option<&dyn Summaries> {
        Some(self)
    }

    fn inspect(&self) -> Option<&dyn Inspect> {
        Some(self)
    }

    fn history(&self) -> Option<&dyn History> {
        Some(self)
    }
}

impl Summaries for SqliteStore {
    fn summarize(&self, sessions: &[&SessionRecord]) -> Result<Vec<Option<SessionSummary>>, ReadError> {
        View::now(self).summarize(sessions)
    }

    fn beginnings(&self) -> Result<HashMap<SessionId, Millis>, ReadError> {
        View::now(self).beginnings()
    }

    fn figures(
        &self,
        session: &SessionRecord,
        detail: MessageDetail,
    ) -> Result<Found<Vec<Figures>>, ReadError> {
        View::now(self).figures(session, detail)
    }
}

impl Inspect for SqliteStore {
    fn check(&self, now: Millis, progress: &(dyn Fn() + Sync)) -> Result<Vec<Problem>, ReadError> {
        View::now(self).check(now, progress)
    }

    fn extent(&self) -> Result<Extent, ReadError> {
        View::now(self).extent()
    }
}

/// A document that the index lists below another one.
struct Below<'r> {
    n: DocumentRow,
    id: &'r str,
    position: Position,
    /// Whether the index leads to the row of this document. A damaged index may lead to any row.
    is_it: bool,
}

/// Visits all documents of a kind below another document, in their latest state and in the order of ids.
fn states_below(
    connection: &Connection,
    owner: DocumentRow,
    kind: Kind,
    mut visit: impl FnMut(&Below<'_>, StateRow),
) -> rusqlite::Result<()> {
    // If SQL sorted by position as well, whole documents would go through SQLite's sorter.
    let sql = format!(
        "SELECT i.n, i.id, i.position, (x.owner, x.kind, x.id) IS (?1, ?2, i.id), {STATE} \
         FROM document i LEFT JOIN document x ON x.n = i.n WHERE i.owner = ?1 AND i.kind = ?2 ORDER BY i.id"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query((owner, kind.number()))?;
    while let Some(row) = rows.next()? {
        let below = Below {
            n: row.get(0)?,
            id: row.get_ref(1)?.as_str()?,
            position: Position::new(row.get(2)?),
            is_it: row.get(3)?,
        };
        visit(&below, StateRow::read(connection, row, 4, None)?.complete(connection, below.n, None)?);
    }
    Ok(())
}

/// A home that a session comes from, and when it was found missing there.
type SessionHome = (String, Option<Millis>);

/// The homes of a session, or of all sessions, with the leading home first.
fn origins(
    connection: &Connection,
    session: Option<SessionRow>,
) -> rusqlite::Result<HashMap<SessionRow, Vec<SessionHome>>> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT o.session, h.url, o.gone FROM origin o JOIN home h ON h.n = o.home \
         WHERE o.session BETWEEN ?1 AND ?2 ORDER BY o.session, {LEADER_FIRST}"
    ))?;
    let mut rows = statement
        .query((session.unwrap_or(SessionRow(i64::MIN)), session.unwrap_or(SessionRow(i64::MAX))))?;
    let mut origins: HashMap<SessionRow, Vec<SessionHome>> = HashMap::new();
    while let Some(row) = rows.next()? {
        origins.entry(row.get(0)?).or_default().push((row.get(1)?, row.get(2)?));
    }
    Ok(origins)
}

/// Where document `n` stands among its siblings, and which program wrote it.
fn placement(connection: &Connection, n: DocumentRow) -> rusqlite::Result<(Position, Provenance)> {
    connection
        .prepare_cached("SELECT position, provenance FROM document WHERE n = ?1")?
        .query_row([n], |row| Ok((Position::new(row.get(0)?), Provenance::from_number(row.get(1)?))))
}

/// The problem that the index of documents leads to another document.
fn misled(place: String) -> Quarantined {
    let reason = UnreadableReason::Damaged("the index leads to another document".to_owned());
    Quarantined { place, reason, session: None }
}
