//! One revision in the making: documents put and deleted inside a transaction of SQLite.

mod slots;

use std::collections::HashMap;

use annals_core::id::{MessageId, Millis, PartId, SessionId};
use annals_core::{Append, AppendError, Document, Key, Position, stream};
use rusqlite::{Connection, OptionalExtension};

use super::clock;
use super::codec::Column;
use super::content::latest;
use super::facts::{Facts, Prepared};
use super::kind::Kind;
use super::numbers::{DocumentRow, SessionRow};
use super::rows::is_held;
use super::state::{State, state};
use super::streaming;
use crate::follow::HomeNumber;
use crate::summary::SessionState;
use slots::{MessageSlot, Slot};

/// A revision that is being made.
#[derive(Debug)]
pub(super) struct Revising<'c> {
    connection: &'c Connection,
    time: Millis,
    /// The clock's time, if that is before the last revision.
    behind: Option<Millis>,
    reason: String,
    home: Option<HomeNumber>,
    /// The operation that the revision is part of.
    operation: Option<i64>,
    /// Whether the revision is about an earlier time.
    is_learnt: bool,
    /// Given with the first change: without a change there is no revision.
    number: Option<i64>,
    touched: HashMap<SessionRow, ChangeTally>,
    /// The numbers of the documents that were written or deleted.
    documents: Vec<DocumentRow>,
    sessions: HashMap<SessionId, Slot>,
    /// The message whose parts come one after the other.
    message: Option<(SessionRow, MessageId, MessageSlot)>,
}

#[derive(Debug, Default, Clone, Copy)]
struct ChangeTally {
    written: i64,
    deleted: i64,
}

/// The outcome of putting a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Put {
    /// With the number of the document.
    Written(DocumentRow),
    Unchanged,
}

impl<'c> Revising<'c> {
    pub(super) fn new(
        connection: &'c Connection,
        now: Millis,
        reason: &str,
        home: Option<HomeNumber>,
    ) -> rusqlite::Result<Revising<'c>> {
        // Times grow with numbers, even if the clock goes back.
        let last: Option<Millis> = connection
            .prepare_cached("SELECT time FROM revision WHERE NOT learnt ORDER BY n DESC LIMIT 1")?
            .query_row([], |row| row.get(0))
            .optional()?;
        let time = last.map_or(now, |last| last.max(now));
        Ok(Revising {
            connection,
            time,
            behind: Some(now).filter(|now| *now < time),
            reason: reason.to_owned(),
            home,
            operation: None,
            is_learnt: false,
            number: None,
            touched: HashMap::new(),
            documents: Vec::new(),
            sessions: HashMap::new(),
            message: None,
        })
    }

    /// A revision of an earlier time that is learnt only now.
    pub(super) fn of_the_past(
        connection: &'c Connection,
        time: Millis,
        reason: &str,
        home: HomeNumber,
    ) -> Revising<'c> {
        Revising {
            connection,
            time,
            behind: None,
            reason: reason.to_owned(),
            home: Some(home),
            operation: None,
            is_learnt: true,
            number: None,
            touched: HashMap::new(),
            documents: Vec::new(),
            sessions: HashMap::new(),
            message: None,
        }
    }

    /// This revision as part of an operation.
    pub(super) fn of_operation(self, operation: Option<i64>) -> Revising<'c> {
        Revising { operation, ..self }
    }

    /// The transaction that the revision is made in.
    pub(super) fn connection(&self) -> &'c Connection {
        self.connection
    }

    /// When the revision is made.
    pub(super) fn time(&self) -> Millis {
        self.time
    }

    /// Sets the home that gives the documents put and deleted from now on; none for changes made in the store.
    pub(super) fn give(&mut self, home: Option<HomeNumber>) {
        self.home = home;
    }

    /// Notes that a home gives the shown state of a document.
    pub(super) fn hand_over(&self, document: &State, home: HomeNumber) -> rusqlite::Result<()> {
        self.connection
            .prepare_cached("UPDATE document SET home = ?2 WHERE n = ?1")?
            .execute((document.n, home))
            .map(drop)
    }

    /// The number of the revision.
    pub(super) fn number(&mut self) -> rusqlite::Result<i64> {
        if let Some(number) = self.number {
            return Ok(number);
        }
        self.connection
            .prepare_cached(
                "INSERT INTO revision (time, reason, home, learnt, operation) VALUES (?1, ?2, ?3, ?4, ?5)",
            )?
            .execute((self.time, &self.reason, self.home, self.is_learnt, self.operation))?;
        let number = self.connection.last_insert_rowid();
        self.number = Some(number);
        if let Some(clock) = self.behind {
            clock::redate(self.connection, number, clock)?;
        }
        Ok(number)
    }

    /// The latest state of a document, if anything is known of it. A document that is open is closed first, so that its row has all of it.
    pub(super) fn state(&mut self, key: &Key) -> rusqlite::Result<Option<State>> {
        match self.owner(key)? {
            Some((owner, id)) => self.closed_state(owner, Kind::of(key), &id),
            None => Ok(None),
        }
    }

    fn closed_state(&self, owner: Slot, kind: Kind, id: &str) -> rusqlite::Result<Option<State>> {
        let found = state(self.connection, owner.n, kind, id)?;
        let Some(open) = found.as_ref().filter(|found| found.is_open) else { return Ok(found) };
        streaming::close(self.connection, open.n)?;
        state(self.connection, owner.n, kind, id)
    }

    /// Appends text to a part that is being written in the store. None if that is not the case, so that the whole document has to be put.
    pub(super) fn append(
        &mut self,
        key: &Key,
        append: &Append,
    ) -> rusqlite::Result<Option<Result<(), AppendError>>> {
        let Some((owner, id)) = self.owner(key)?.filter(|_| matches!(key, Key::Part(..))) else {
            return Ok(None);
        };
        let known = state(self.connection, owner.n, Kind::Part, &id)?;
        let Some(known) = known.filter(|known| known.is_present && known.home.is_none()) else {
            return Ok(None);
        };
        let is_stream = known.is_open
            || (latest(self.connection, known.n)?.is_some_and(|old| stream::is_unended_text(key, &old))
                && !known.is_followed(self.connection)?);
        if !is_stream || !self.is_answering(key, owner.n)? {
            return Ok(None);
        }
        if let Err(error) = streaming::prepare(self.connection, known.n, append, self.time)? {
            return Ok(Some(Err(error)));
        }
        let number = self.number()?;
        streaming::add(self.connection, known.n, number, append)?;
        self.connection
            .prepare_cached("UPDATE document SET revision = ?2 WHERE n = ?1")?
            .execute((known.n, number))?;
        let session = self.session_of(key)?;
        self.touch(session).written += 1;
        self.documents.push(known.n);
        Ok(Some(Ok(())))
    }

    /// Whether nothing can be known of a document, because its owner was stored just now.
    pub(super) fn is_unheard_of(&self, key: &Key) -> bool {
        let is_new = |session: &SessionId| self.sessions.get(session).is_some_and(|slot| slot.is_new);
        match key {
            Key::Project(_) | Key::Session(..) => false,
            Key::Part(session, message, _) => {
                is_new(session)
                    && self
                        .message
                        .as_ref()
                        .is_some_and(|(_, known, slot)| known == message && slot.slot.is_new)
            }
            key => key.session().is_some_and(is_new),
        }
    }

    /// Whether nothing was known of a session before this revision.
    pub(super) fn is_new_session(&self, session: &SessionId) -> bool {
        self.sessions.get(session).is_some_and(|slot| slot.is_new)
    }

    /// Stores a document. `prepared` was made of `document`; without that, nothing is taken for a step of a stream.
    pub(super) fn put(
        &mut self,
        key: &Key,
        prepared: &Prepared,
        document: Option<&Document>,
    ) -> rusqlite::Result<Put> {
        let (owner, id) = self.owner_or_new(key)?;
        let known = match owner.is_new {
            true => None,
            false => self.closed_state(owner, Kind::of(key), &id)?,
        };
        self.put_at(owner, &id, known, key, prepared, document)
    }

    /// Stores a document whose latest state is given, if it has one.
    pub(super) fn put_over(
        &mut self,
        known: Option<State>,
        key: &Key,
        prepared: &Prepared,
        document: &Document,
    ) -> rusqlite::Result<Put> {
        // A session gets its place first.
        if known.is_none() && matches!(key, Key::Session(..)) {
            return self.put(key, prepared, Some(document));
        }
        let (owner, id) = self.owner_or_new(key)?;
        self.put_at(owner, &id, known, key, prepared, Some(document))
    }

    fn put_at(
        &mut self,
        owner: Slot,
        id: &str,
        known: Option<State>,
        key: &Key,
        prepared: &Prepared,
        document: Option<&Document>,
    ) -> rusqlite::Result<Put> {
        let project = match key {
            Key::Session(project, _) => Some(project.as_str()),
            _ => None,
        };
        let Some(known) = known else {
            let position = self.position(key, prepared);
            return self.insert(key, owner, id, project, position, Some(prepared)).map(Put::Written);
        };
        let is_same_place = known.project.as_deref() == project || project.is_none();
        if known.is_present && known.hash == Some(prepared.packed.hash) && is_same_place {
            return Ok(Put::Unchanged);
        }
        // What an operation changes can be changed back, so the state before is kept.
        let may_be_step = is_same_place && self.operation.is_none();
        let is_step = match document.filter(|_| may_be_step) {
            Some(document) => {
                let old = latest(self.connection, known.n)?;
                old.is_some_and(|old| stream::continues(key, &old, document))
                    && (!stream::is_unended_text(key, document) || self.is_answering(key, owner.n)?)
            }
            None => false,
        };
        let is_step = is_step && known.home == self.home;
        let is_step = is_step && !is_held(self.connection, known.n, known.hash)?;
        let number = self.number()?;
        // A placeholder is not a state, so there is nothing to keep of it.
        let is_kept = !is_step && known.since != 0;
        if is_kept {
            self.keep_past(&known)?;
        }
        let since = if is_step { known.since } else { number };
        // A document that is changed here keeps its position; a home gives the position of its state.
        let position = match prepared.position {
            None if known.since != 0 => known.position,
            _ => self.position(key, prepared),
        };
        self.connection
            .prepare_cached(
                "UPDATE document SET position = ?2, project = ?3, provenance = ?4, revision = ?5, since = ?6, home = ?7, \
                 hash = ?8, form = ?9, size = ?10, data = ?11 WHERE n = ?1",
            )?
            .execute(rusqlite::params![
                known.n,
                position.number(),
                project,
                prepared.provenance.number(),
                number,
                since,
                self.home,
                prepared.packed.hash,
                prepared.packed.form,
                prepared.packed.size as i64,
                Column(&prepared.packed),
            ])?;
        let session = self.session_of(key)?;
        prepared.facts.store(self.connection, session, owner.n, known.n)?;
        if matches!(prepared.facts, Facts::None) && matches!(key, Key::Part(..)) {
            Facts::remove(self.connection, session, known.n)?;
        }
        if let Key::Message(..) = key {
            self.message = None;
            if known.since == 0 {
                self.place_parts(known.n, prepared.made())?;
            }
        }
        self.touch(session).written += 1;
        self.documents.push(known.n);
        Ok(Put::Written(known.n))
    }

    /// Deletes a document. It stays in history.
    pub(super) fn delete(&mut self, key: &Key) -> rusqlite::Result<bool> {
        let Some(known) = self.state(key)?.filter(|known| known.is_present) else { return Ok(false) };
        // A session that was moved to another project is still there.
        if known.is_elsewhere(key) {
            return Ok(false);
        }
        let number = self.number()?;
        self.keep_past(&known)?;
        self.connection
            .prepare_cached(
                "UPDATE document SET revision = ?2, since = ?2, home = ?3, hash = NULL, form = NULL, size = NULL, \
                 data = NULL WHERE n = ?1",
            )?
            .execute((known.n, number, self.home))?;
        let session = self.session_of(key)?;
        Facts::remove(self.connection, session, known.n)?;
        // The remembered message may be out of date now.
        self.message = None;
        self.touch(session).deleted += 1;
        self.documents.push(known.n);
        Ok(true)
    }

    /// Adds a state that a document had before all its known states.
    pub(super) fn put_past(&mut self, key: &Key, prepared: Option<&Prepared>) -> rusqlite::Result<bool> {
        let (owner, id) = self.owner_or_new(key)?;
        let n = match state(self.connection, owner.n, Kind::of(key), &id)? {
            Some(known) => known.n,
            // Nothing else is known of a document that is gone now.
            None => self.insert(key, owner, &id, None, by_id(key, self.time), None)?,
        };
        let number = self.number()?;
        let project = match key {
            Key::Session(project, _) => Some(project.as_str()),
            _ => None,
        };
        let n_rows = self
            .connection
            .prepare_cached(
                "INSERT OR IGNORE INTO past (document, since, project, provenance, home, hash, form, size, data) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            )?
            .execute(rusqlite::params![
                n,
                number,
                project,
                prepared.map_or(0, |prepared| prepared.provenance.number()),
                self.home,
                prepared.map(|prepared| prepared.packed.hash.bound(n, number, project)),
                prepared.map(|prepared| prepared.packed.form),
                prepared.map(|prepared| prepared.packed.size as i64),
                prepared.map(|prepared| Column(&prepared.packed)),
            ])?;
        let session = self.session_of(key)?;
        let touched = self.touch(session);
        match prepared {
            Some(_) => touched.written += 1,
            None => touched.deleted += 1,
        }
        Ok(n_rows > 0)
    }

    /// Dates the latest state of a document back to this revision: the document has had it for longer than was known.
    pub(super) fn date_back(&mut self, key: &Key) -> rusqlite::Result<()> {
        let Some(known) = self.state(key)?.filter(|known| known.is_present && known.home == self.home) else {
            return Ok(());
        };
        let since: Option<Millis> = self
            .connection
            .prepare_cached("SELECT time FROM revision WHERE n = ?1")?
            .query_row([known.since], |row| row.get(0))
            .optional()?;
        let last_past: Option<Millis> = self
            .connection
            .prepare_cached(
                "SELECT max(r.time) FROM past p JOIN revision r ON r.n = p.since WHERE p.document = ?1",
            )?
            .query_row([known.n], |row| row.get(0))?;
        if since.is_none_or(|since| since <= self.time) || last_past.is_some_and(|last| last >= self.time) {
            return Ok(());
        }
        let number = self.number()?;
        self.connection
            .prepare_cached("UPDATE document SET since = ?2 WHERE n = ?1")?
            .execute((known.n, number))?;
        let session = self.session_of(key)?;
        self.touch(session).written += 1;
        Ok(())
    }

    /// Ends a document that is known only from the past: a home says that it does not exist now.
    pub(super) fn end_past(&mut self, key: &Key, home: Option<HomeNumber>) -> rusqlite::Result<()> {
        let Some(known) = self.state(key)?.filter(|known| known.since == 0) else { return Ok(()) };
        let number = self.number()?;
        self.connection
            .prepare_cached("UPDATE document SET revision = ?2, since = ?2, home = ?3 WHERE n = ?1")?
            .execute((known.n, number, home))?;
        let session = self.session_of(key)?;
        self.touch(session).deleted += 1;
        self.documents.push(known.n);
        Ok(())
    }

    /// Notes that a session has changed in a way that no document shows.
    pub(super) fn note(&mut self, session: SessionRow) -> rusqlite::Result<()> {
        self.number()?;
        self.touch(session);
        Ok(())
    }

    /// Notes the touched sessions and documents. Returns the number of the revision, if anything has changed.
    pub(super) fn finish(mut self) -> rusqlite::Result<Option<i64>> {
        let Some(number) = self.number else { return Ok(None) };
        let touched = std::mem::take(&mut self.touched);
        tracing::debug!(revision = number, sessions = touched.len(), reason = ?self.reason, "commit");
        let documents = serde_json::to_string(&self.documents).unwrap_or_default();
        // Most revisions are about one session, and say so themselves.
        let only = touched.iter().next().filter(|_| touched.len() == 1);
        let (written, deleted) = only.map_or((0, 0), |(_, touched)| (touched.written, touched.deleted));
        self.connection
            .prepare_cached(
                "UPDATE revision SET session = ?2, written = ?3, deleted = ?4, documents = ?5 WHERE n = ?1",
            )?
            .execute((number, only.map(|(session, _)| *session), written, deleted, documents))?;
        for (session, touched) in &touched {
            if only.is_none() {
                self.connection
                    .prepare_cached(
                        "INSERT INTO touched (session, revision, written, deleted) VALUES (?1, ?2, ?3, ?4)",
                    )?
                    .execute((session, number, touched.written, touched.deleted))?;
            }
            self.connection
                .prepare_cached("UPDATE session SET stale = 1 WHERE n = ?1 AND NOT stale")?
                .execute([session])?;
        }
        Ok(Some(number))
    }

    /// The number of a session. A session without a number gets one.
    pub(super) fn session(&mut self, id: &SessionId) -> rusqlite::Result<SessionRow> {
        Ok(self.session_slot(id)?.n.into())
    }

    fn touch(&mut self, session: SessionRow) -> &mut ChangeTally {
        self.touched.entry(session).or_default()
    }

    pub(super) fn session_of(&mut self, key: &Key) -> rusqlite::Result<SessionRow> {
        match key.session() {
            Some(session) => self.session(&session.clone()),
            None => Ok(SessionRow::NONE),
        }
    }

    fn insert(
        &mut self,
        key: &Key,
        owner: Slot,
        id: &str,
        project: Option<&str>,
        position: Position,
        prepared: Option<&Prepared>,
    ) -> rusqlite::Result<DocumentRow> {
        let Some(prepared) = prepared else { return self.placeholder(owner.n, Kind::of(key), id, position) };
        let number = self.number()?;
        self.connection
            .prepare_cached(
                "INSERT INTO document (owner, kind, id, position, project, provenance, revision, since, home, hash, form, size, \
                 data) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7, ?8, ?9, ?10, ?11, ?12)",
            )?
            .execute(rusqlite::params![
                owner.n,
                Kind::of(key).number(),
                id,
                position.number(),
                project,
                prepared.provenance.number(),
                number,
                self.home,
                prepared.packed.hash,
                prepared.packed.form,
                prepared.packed.size as i64,
                Column(&prepared.packed),
            ])?;
        let n = DocumentRow(self.connection.last_insert_rowid());
        let session = self.session_of(key)?;
        prepared.facts.store(self.connection, session, owner.n, n)?;
        if let Key::Message(_, message) = key {
            let slot = MessageSlot { slot: Slot { n, is_new: true }, made: prepared.made() };
            self.message = Some((session, message.clone(), slot));
        }
        self.touch(session).written += 1;
        self.documents.push(n);
        Ok(n)
    }

    /// Whether the answer with a number is known to be still in writing.
    fn is_answering(&mut self, part: &Key, message: DocumentRow) -> rusqlite::Result<bool> {
        let session = self.session_of(part)?;
        let state: Option<i64> = self
            .connection
            .prepare_cached("SELECT state FROM message WHERE session = ?1 AND n = ?2")?
            .query_row((session, message), |row| row.get(0))
            .optional()?;
        Ok(state.is_some_and(|state| SessionState::from_number(state) == SessionState::Open))
    }

    /// Makes the latest state one of the past.
    fn keep_past(&self, known: &State) -> rusqlite::Result<()> {
        self.connection
            .prepare_cached(
                "INSERT OR REPLACE INTO past (document, since, project, provenance, home, hash, form, size, data, written) \
                 SELECT n, since, project, provenance, home, ?2, form, size, data, \
                 CASE WHEN revision > since THEN revision END FROM document WHERE n = ?1",
            )?
            .execute((known.n, known.hash.map(|hash| hash.bound(known.n, known.since, known.project.as_deref()))))
            .map(drop)
    }

    /// The position of a document: as its home says, or else by time, as in OpenCode's database. That of a part depends on
    /// when its message was made.
    fn position(&self, key: &Key, prepared: &Prepared) -> Position {
        match (prepared.position, key) {
            (Some(position), _) => position,
            (None, Key::Message(..)) => match prepared.made() {
                Some(made) => Position::new(made),
                None => by_id(key, self.time),
            },
            (None, key) => {
                let made = self.message.as_ref().and_then(|(_, _, slot)| slot.made);
                by_id(key, made.unwrap_or(self.time))
            }
        }
    }

    /// Puts a document where the home that leads has it.
    pub(super) fn place(&mut self, key: &Key, position: Position) -> rusqlite::Result<()> {
        if let Some(known) = self.state(key)?.filter(|known| known.position != position) {
            set_position(self.connection, known.n, position)?;
        }
        Ok(())
    }

    /// Corrects the positions of parts that came before their message. The ids of another agent's parts do not tell a position.
    fn place_parts(&self, message: DocumentRow, made: Option<Millis>) -> rusqlite::Result<()> {
        let Some(made) = made else { return Ok(()) };
        let mut statement = self
            .connection
            .prepare_cached("SELECT n, id, position FROM document WHERE owner = ?1 AND kind = ?2")?;
        let parts: Vec<(DocumentRow, String, i64)> = statement
            .query_map((message, Kind::Part.number()), |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
            .collect::<rusqlite::Result<_>>()?;
        for (n, id, position) in parts {
            let position = Position::new(position);
            let right = PartId::parse_opencode(&id).map_or(position, |id| Position::of_part(&id, made));
            if right != position {
                set_position(self.connection, n, right)?;
            }
        }
        Ok(())
    }
}

/// The position of a document, from its id and a time that is not far from when it was made.
fn by_id(key: &Key, made: Millis) -> Position {
    match key {
        Key::Message(_, id) => Position::by_id(id, made),
        Key::Part(_, _, id) => Position::of_part(id, made),
        _ => Position::default(),
    }
}

fn set_position(connection: &Connection, n: DocumentRow, position: Position) -> rusqlite::Result<()> {
    connection
        .prepare_cached("UPDATE document SET position = ?2 WHERE n = ?1")?
        .execute((n, position.number()))
        .map(drop)
}
