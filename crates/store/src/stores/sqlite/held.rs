//! The states of documents that homes hold, and the choice of the one that is shown.
//!
//! The row of a document has its shown state and names the home that gave it, or none if it was changed in the store. The table `held` has
//! the states of other homes. Most sessions are in one home and were never changed here: they have no rows in it.

use std::collections::BTreeMap;

use annals_core::id::Millis;
use annals_core::json::same_value;
use annals_core::{Document, Key, Provenance};
use rusqlite::{Connection, OptionalExtension, Row};
use serde::{Deserialize, Serialize};

use super::codec;
use super::content::{self, latest};
use super::facts::Prepared;
use super::numbers::{DocumentRow, SessionRow};
use super::origin;
use super::revise::{Put, Revising};
use super::rows::documents_of;
use super::state::{State, state_at};
use crate::follow::{HomeNumber, Look};
use crate::state_hash::StateHash;
use crate::sync::compare::{self, Base, Held, KnownDocument, Shown, Sort};

/// The number of the store itself among the homes.
const STORE: HomeNumber = HomeNumber(0);

/// The state of a document that a home has.
#[derive(Debug, Clone, PartialEq, Eq)]
struct HeldEntry {
    home: HomeNumber,
    /// The hash of the bytes that the home has.
    bytes: Option<StateHash>,
    /// The hash of the state in the store with the same value.
    state: Option<StateHash>,
    /// The project that a session is filed under.
    project: Option<String>,
    base: Base,
}

impl HeldEntry {
    fn absent(home: HomeNumber) -> HeldEntry {
        HeldEntry { home, bytes: None, state: None, project: None, base: Base::State(None) }
    }
}

/// The state of a document that a home had at its last look.
#[derive(Debug)]
pub(super) struct InHome {
    pub(super) bytes: Option<StateHash>,
    /// The project that a session was filed under.
    pub(super) project: Option<String>,
}

impl InHome {
    pub(super) fn shown(known: &State) -> InHome {
        InHome { bytes: known.hash, project: known.project.clone() }
    }

    pub(super) fn is_there(&self, key: &Key, hash: StateHash) -> bool {
        let is_filed_so = match key {
            Key::Session(project, _) => self.project.as_deref() == Some(project.as_str()),
            _ => true,
        };
        is_filed_so && self.bytes == Some(hash)
    }
}

/// The state of a document that a look found.
#[derive(Debug)]
pub(super) enum Has<'f> {
    /// The home has this. The document itself is given if it may be a step of a text that is being written.
    Document(&'f Prepared, Option<&'f Document>),
    /// The home has bytes with this hash, and they have the same value as a state in the store.
    Same { bytes: StateHash, state: StateHash },
    /// The home does not have the document.
    Nothing,
}

/// The facts that decide which states of a session are shown.
#[derive(Debug, Clone)]
pub(crate) struct Standing {
    looks: Vec<Look>,
    /// Whether the session was deleted in the store, and no home has said anything new about it since.
    is_deleted: bool,
}

impl Standing {
    /// The standing of a session that only one home has, and that was never changed here.
    pub(crate) fn alone(look: Look) -> Standing {
        Standing { looks: vec![look], is_deleted: false }
    }

    /// This session's standing after a look.
    pub(crate) fn after(
        &self,
        connection: &Connection,
        session: SessionRow,
        look: &Look,
    ) -> rusqlite::Result<Standing> {
        let mut looks = self.looks.clone();
        looks.retain(|known| known.home != look.home);
        looks.push(look.clone());
        Standing::new(connection, session, looks)
    }

    /// The standing of a session after these looks.
    pub(crate) fn new(
        connection: &Connection,
        session: SessionRow,
        looks: Vec<Look>,
    ) -> rusqlite::Result<Standing> {
        let mut standing = Standing { looks, is_deleted: false };
        if has_any(connection)?
            && let Some(document) = state_at(connection, session.document())?
            && document.since != 0
            && !is_plain(connection, &document)?
        {
            let known = known(&entries(connection, &document)?, Sort::Session);
            standing.is_deleted = known.local == Some(None)
                && compare::shown(&known, &standing.looks, false) == Shown::Local(None);
        }
        Ok(standing)
    }

    /// The standing of a session as the store knows it.
    pub(crate) fn of(connection: &Connection, session: SessionRow) -> rusqlite::Result<Standing> {
        Standing::new(connection, session, origin::looks(connection, session)?)
    }

    pub(crate) fn looks(&self) -> &[Look] {
        &self.looks
    }

    /// The turn of the last look in a home.
    pub(crate) fn turn(&self, home: HomeNumber) -> Option<i64> {
        self.looks.iter().find(|look| look.home == home).map(|look| look.turn)
    }

    /// Whether only one home has, or had, the session.
    pub(crate) fn is_alone(&self) -> bool {
        self.looks.len() <= 1
    }

    /// Whether the session was deleted in the store, and no home has said anything new about it since.
    pub(crate) fn is_deleted(&self) -> bool {
        self.is_deleted
    }

    fn is_there(&self, home: HomeNumber) -> bool {
        self.looks.iter().all(|look| look.home != home || look.is_there)
    }

    fn shown(&self, entries: &[HeldEntry], key: &Key) -> Shown {
        let is_deleted = self.is_deleted && !matches!(key, Key::Session(..));
        compare::shown(&known(entries, sort(key)), &self.looks, is_deleted)
    }
}

fn sort(key: &Key) -> Sort {
    match key {
        Key::Session(..) => Sort::Session,
        Key::Diff(_) | Key::LegacyShare(_) => Sort::Optional,
        _ => Sort::Content,
    }
}

fn known(entries: &[HeldEntry], sort: Sort) -> KnownDocument {
    let held = entries.iter().filter(|entry| entry.home != STORE);
    KnownDocument {
        sort,
        held: held.map(|entry| Held { home: entry.home, state: entry.state, base: entry.base }).collect(),
        local: entries.iter().find(|entry| entry.home == STORE).map(|entry| entry.state),
    }
}

/// Whether one home gave the shown state of a document, and no other home's state is noted.
pub(super) fn is_plain(connection: &Connection, document: &State) -> rusqlite::Result<bool> {
    Ok(document.since == 0
        || (document.home.is_some()
            && !connection.prepare_cached("SELECT 1 FROM held WHERE document = ?1")?.exists([document.n])?))
}

/// Whether the table `held` has any rows.
pub(crate) fn has_any(connection: &Connection) -> rusqlite::Result<bool> {
    connection.prepare_cached("SELECT 1 FROM held LIMIT 1")?.exists([])
}

/// The state of a document that a home had when it was last looked at.
pub(super) fn in_home(
    connection: &Connection,
    document: &State,
    home: HomeNumber,
) -> rusqlite::Result<InHome> {
    let noted = connection
        .prepare_cached("SELECT bytes, project FROM held WHERE document = ?1 AND home = ?2")?
        .query_row((document.n, home), |row| Ok(InHome { bytes: hash(row, 0)?, project: row.get(1)? }))
        .optional()?;
    Ok(match noted {
        Some(noted) => noted,
        None if document.home == Some(home) => InHome::shown(document),
        None => InHome { bytes: None, project: None },
    })
}

/// The states of a document that homes have, and those that the store itself does not show at the moment.
pub(super) fn states(connection: &Connection, document: DocumentRow) -> rusqlite::Result<Vec<StateHash>> {
    let mut statement =
        connection.prepare_cached("SELECT state FROM held WHERE document = ?1 AND state NOTNULL")?;
    let states: Vec<Option<StateHash>> =
        statement.query_map([document], |row| hash(row, 0))?.collect::<rusqlite::Result<_>>()?;
    Ok(states.into_iter().flatten().collect())
}

/// All that is known of which homes have a document.
fn entries(connection: &Connection, document: &State) -> rusqlite::Result<Vec<HeldEntry>> {
    let mut statement = connection.prepare_cached(
        "SELECT home, bytes, state, project, base FROM held WHERE document = ?1 ORDER BY home",
    )?;
    let mut entries: Vec<HeldEntry> =
        statement.query_map([document.n], entry)?.collect::<rusqlite::Result<_>>()?;
    let giver = document.home.unwrap_or(STORE);
    // No home has given a document that others only name.
    if document.since != 0 && entries.iter().all(|entry| entry.home != giver) {
        entries.push(HeldEntry {
            home: giver,
            bytes: document.hash,
            state: document.hash,
            project: document.project.clone(),
            base: Base::State(None),
        });
    }
    Ok(entries)
}

fn entry(row: &Row<'_>) -> rusqlite::Result<HeldEntry> {
    let base = match row.get_ref(4)?.as_bytes_or_null()? {
        None => Base::State(None),
        Some(bytes) => StateHash::read(bytes).map_or(Base::Gone, |hash| Base::State(Some(hash))),
    };
    Ok(HeldEntry {
        home: row.get(0)?,
        bytes: hash(row, 1)?,
        state: hash(row, 2)?,
        project: row.get(3)?,
        base,
    })
}

fn hash(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<StateHash>> {
    Ok(row.get_ref(column)?.as_bytes_or_null()?.and_then(StateHash::read))
}

fn write(connection: &Connection, document: DocumentRow, entry: &HeldEntry) -> rusqlite::Result<()> {
    let mut insert = connection.prepare_cached(
        "INSERT OR REPLACE INTO held (document, home, bytes, state, project, base) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?;
    let (home, project) = (entry.home, &entry.project);
    let written = match entry.base {
        Base::State(base) => insert.execute((document, home, entry.bytes, entry.state, project, base)),
        Base::Gone => insert.execute((document, home, entry.bytes, entry.state, project, Vec::<u8>::new())),
    };
    written.map(drop)
}

fn erase(connection: &Connection, document: DocumentRow, home: HomeNumber) -> rusqlite::Result<()> {
    connection
        .prepare_cached("DELETE FROM held WHERE document = ?1 AND home = ?2")?
        .execute((document, home))
        .map(drop)
}

/// A document that is being changed, with the state that each home has.
struct Changing<'a, 'c> {
    connection: &'c Connection,
    revising: &'a mut Revising<'c>,
    standing: &'a Standing,
    key: Key,
    document: Option<State>,
    entries: Vec<HeldEntry>,
}

impl<'a, 'c> Changing<'a, 'c> {
    fn begin(
        revising: &'a mut Revising<'c>,
        standing: &'a Standing,
        key: Key,
    ) -> rusqlite::Result<Changing<'a, 'c>> {
        let connection = revising.connection();
        let document = revising.state(&key)?;
        let entries = match &document {
            Some(document) => entries(connection, document)?,
            None => Vec::new(),
        };
        Ok(Changing { connection, revising, standing, key, document, entries })
    }

    fn set(&mut self, entry: HeldEntry) {
        match self.entries.iter_mut().find(|known| known.home == entry.home) {
            Some(known) => *known = entry,
            None => self.entries.push(entry),
        }
    }

    fn entry(&self, home: HomeNumber) -> HeldEntry {
        self.entries.iter().find(|entry| entry.home == home).cloned().unwrap_or(HeldEntry::absent(home))
    }

    /// Shows the state that is due now, and writes the state that each home has. `found` is a state that is not in the store yet. True if
    /// another state is shown.
    fn finish(mut self, found: Option<(&Prepared, Option<&Document>)>) -> rusqlite::Result<bool> {
        let shown = self.standing.shown(&self.entries, &self.key);
        if let Some(document) = &self.document
            && self.is_shown(document, shown)
        {
            return self.write(document).map(|()| false);
        }
        let is_changed = self.show(shown, found)?;
        if let Some(document) = self.revising.state(&self.key)? {
            self.write(&document)?;
        }
        Ok(is_changed)
    }

    /// The home that gives the shown state, and the project that it files a session under.
    fn giver(&self, shown: Shown) -> (Option<HomeNumber>, Option<String>) {
        match shown {
            Shown::Home(home, _) => (Some(home), self.entry(home).project),
            Shown::Local(_) => (None, self.entry(STORE).project),
            // If the session comes back, the document comes back from the same home.
            Shown::Hidden => match &self.document {
                Some(document) if document.since != 0 => (document.home, None),
                _ => (self.entries.iter().map(|entry| entry.home).find(|home| *home != STORE), None),
            },
            Shown::Nothing => (None, None),
        }
    }

    /// Whether the document's row already has the state that is to be shown.
    fn is_shown(&self, document: &State, shown: Shown) -> bool {
        let state = shown.state();
        let is_filed_right = || {
            let (_, project) = self.giver(shown);
            project.is_none() || document.project == project
        };
        document.since != 0 && document.hash == state && (state.is_none() || is_filed_right())
    }

    fn show(
        &mut self,
        shown: Shown,
        found: Option<(&Prepared, Option<&Document>)>,
    ) -> rusqlite::Result<bool> {
        let (giver, project) = self.giver(shown);
        let state = shown.state();
        self.revising.give(giver);
        let Some(state) = state else {
            return match &self.document {
                Some(document) if document.is_present => {
                    let key = filed(&self.key, document.project.as_deref());
                    self.revising.delete(&key)
                }
                _ => self.revising.end_past(&self.key, giver).map(|()| false),
            };
        };
        let key = filed(&self.key, project.as_deref());
        if let Some((prepared, document)) = found.filter(|(prepared, _)| prepared.packed.hash == state) {
            return Ok(self.revising.put(&key, prepared, document)? != Put::Unchanged);
        }
        let Some(n) = self.document.as_ref().map(|document| document.n) else { return Ok(false) };
        // A state that was pruned cannot be shown again. The shown state stays until the home is looked at as a whole.
        let Some((document, provenance)) = state_with(self.connection, n, state)? else { return Ok(false) };
        let prepared = Prepared { provenance, ..Prepared::new(&key, &document) };
        Ok(self.revising.put(&key, &prepared, None)? != Put::Unchanged)
    }

    /// Writes the states of homes that the document's own row does not imply.
    fn write(&self, document: &State) -> rusqlite::Result<()> {
        let giver = document.home.unwrap_or(STORE);
        let is_local = self.entries.iter().any(|entry| entry.home == STORE);
        for entry in &self.entries {
            let is_told = match entry.home == giver {
                true => {
                    entry.bytes == document.hash
                        && entry.state == document.hash
                        && (document.hash.is_none() || entry.project == document.project)
                }
                false => entry.bytes.is_none() && entry.home != STORE,
            };
            match is_told && (!is_local || entry.home == STORE || entry.base == Base::State(None)) {
                true => erase(self.connection, document.n, entry.home)?,
                false => write(self.connection, document.n, entry)?,
            }
        }
        // The store's own state is dropped where it is no longer a change.
        if !is_local {
            erase(self.connection, document.n, STORE)?;
        }
        Ok(())
    }
}

/// The key of a session that is filed under a project; any other key as it is.
fn filed(key: &Key, project: Option<&str>) -> Key {
    match (key, project.and_then(|project| annals_core::id::ProjectId::parse(project).ok())) {
        (Key::Session(_, session), Some(project)) => Key::Session(project, session.clone()),
        _ => key.clone(),
    }
}

/// Notes the state of a document that a look found in a home. True if something was stored.
pub(super) fn note(
    revising: &mut Revising<'_>,
    standing: &Standing,
    home: HomeNumber,
    key: &Key,
    has: &Has<'_>,
    used_before: Millis,
) -> rusqlite::Result<bool> {
    let mut changing = Changing::begin(revising, standing, key.clone())?;
    let mut entry = changing.entry(home);
    entry.project = match (key, has) {
        (_, Has::Nothing) => None,
        (Key::Session(project, _), _) => Some(project.as_str().to_owned()),
        _ => None,
    };
    (entry.bytes, entry.state) = match has {
        Has::Document(prepared, _) => (Some(prepared.packed.hash), Some(prepared.packed.hash)),
        Has::Same { bytes, state } => (Some(*bytes), Some(*state)),
        Has::Nothing => (None, None),
    };
    let Has::Document(prepared, document) = has else {
        changing.set(entry);
        return changing.finish(None);
    };
    // If the home only wrote the same value in another form, that is no news to a change that was made here.
    if let (Some(known), Base::State(Some(base)), Some(document)) = (&changing.document, entry.base, document)
        && entry.state != Some(base)
        && let Some((then, _)) = state_with(changing.connection, known.n, base)?
        && same_value(then.root(), document.root())
    {
        entry.state = Some(base);
    }
    let state = entry.state;
    changing.set(entry);
    let is_shown = standing.shown(&changing.entries, key).state() == Some(prepared.packed.hash);
    let is_new = state == Some(prepared.packed.hash) && !is_shown;
    let is_kept = is_new && changing.keep(home, prepared, used_before)?;
    Ok(changing.finish(Some((prepared, *document)))? || is_kept)
}

impl Changing<'_, '_> {
    /// Keeps a state that a home has and that is not shown. False if it is kept already.
    fn keep(&mut self, home: HomeNumber, prepared: &Prepared, used_before: Millis) -> rusqlite::Result<bool> {
        if let Some(document) = &self.document
            && has_state(self.connection, document, prepared.packed.hash)?
        {
            return Ok(false);
        }
        let reason = "an older state in another home";
        let mut earlier =
            Revising::of_the_past(self.connection, used_before.min(self.revising.time()), reason, home);
        earlier.put_past(&self.key, Some(prepared))?;
        earlier.finish()?;
        self.document = self.revising.state(&self.key)?;
        Ok(true)
    }
}

/// Shows the states of a session that are due now, after something about the session as a whole has changed: which home leads, or
/// whether it was deleted here.
pub(crate) fn settle(
    connection: &Connection,
    now: Millis,
    session: SessionRow,
    operation: Option<i64>,
) -> rusqlite::Result<()> {
    let standing = Standing::of(connection, session)?;
    let leader = compare::leader(standing.looks()).map(|look| look.home);
    let revising = Revising::new(connection, now, "now as another home has it", leader)?;
    let mut revising = revising.of_operation(operation);
    for (_, key) in documents_of(connection, session)? {
        let changing = Changing::begin(&mut revising, &standing, key)?;
        if changing.document.as_ref().is_some_and(|document| document.since != 0) {
            changing.finish(None)?;
        }
    }
    revising.finish().map(drop)
}

/// A change of a document that was made in the store alone, in a form that can be made again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LocalChange {
    state: Option<StateHash>,
    #[serde(skip_serializing_if = "Option::is_none")]
    project: Option<String>,
    /// The state that each home had at the time of the change.
    base: BTreeMap<HomeNumber, Then>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Then {
    State(StateHash),
    Gone,
}

impl LocalChange {
    /// Whether the state after the change is still in the store, so that the change can be made again.
    pub(super) fn is_kept(&self, connection: &Connection, document: DocumentRow) -> rusqlite::Result<bool> {
        match self.state {
            Some(state) => Ok(state_with(connection, document, state)?.is_some()),
            None => Ok(true),
        }
    }

    fn of(entries: &[HeldEntry]) -> Option<LocalChange> {
        let local = entries.iter().find(|entry| entry.home == STORE)?;
        let base = entries.iter().filter(|entry| entry.home != STORE).filter_map(|entry| match entry.base {
            Base::State(None) => None,
            Base::State(Some(state)) => Some((entry.home, Then::State(state))),
            Base::Gone => Some((entry.home, Then::Gone)),
        });
        Some(LocalChange { state: local.state, project: local.project.clone(), base: base.collect() })
    }

    /// The change that was made to a document in the store, if any.
    pub(super) fn of_document(
        connection: &Connection,
        document: &State,
    ) -> rusqlite::Result<Option<LocalChange>> {
        Ok(LocalChange::of(&entries(connection, document)?))
    }
}

/// Notes that the document `key` was just changed in the store; `before` is its state before that. The states that homes have now are no
/// news to this change. It does not count as a change if it gives the document the state that the leading home has.
pub(super) fn note_change(
    revising: &mut Revising<'_>,
    standing: &Standing,
    key: &Key,
    before: &State,
) -> rusqlite::Result<()> {
    let connection = revising.connection();
    let Some(document) = revising.state(key)? else { return Ok(()) };
    if document.hash == before.hash && document.project == before.project {
        return Ok(());
    }
    let mut entries = entries(connection, before)?;
    entries.retain(|entry| entry.home != STORE);
    if entries.is_empty() {
        return Ok(());
    }
    for entry in &mut entries {
        entry.base = match standing.is_there(entry.home) {
            true => Base::State(entry.state),
            false => Base::Gone,
        };
    }
    let leading = compare::shown(&known(&entries, sort(key)), standing.looks(), false);
    if let Shown::Home(home, state) = leading
        && state == document.hash
        && standing.is_there(home)
        && entries.iter().any(|entry| entry.home == home && entry.project == document.project)
    {
        revising.hand_over(&document, home)?;
    } else {
        entries.push(HeldEntry {
            home: STORE,
            bytes: document.hash,
            state: document.hash,
            project: document.project,
            base: Base::State(None),
        });
    }
    let changing = Changing { connection, revising, standing, key: key.clone(), document: None, entries };
    match changing.revising.state(key)? {
        Some(document) => changing.write(&document),
        None => Ok(()),
    }
}

/// Restores an earlier change of a document in the store, or drops the change, and shows the state that is due then.
pub(super) fn change_back(
    revising: &mut Revising<'_>,
    standing: &Standing,
    key: &Key,
    change: Option<&LocalChange>,
) -> rusqlite::Result<()> {
    let mut changing = Changing::begin(revising, standing, key.clone())?;
    changing.entries.retain(|entry| entry.home != STORE);
    for entry in &mut changing.entries {
        entry.base = match change.and_then(|change| change.base.get(&entry.home)) {
            None => Base::State(None),
            Some(Then::State(state)) => Base::State(Some(*state)),
            Some(Then::Gone) => Base::Gone,
        };
    }
    if let Some(change) = change {
        changing.set(HeldEntry {
            home: STORE,
            bytes: change.state,
            state: change.state,
            project: change.project.clone(),
            base: Base::State(None),
        });
    }
    changing.finish(None).map(drop)
}

/// Whether a state of a document is in the store.
fn has_state(connection: &Connection, document: &State, wanted: StateHash) -> rusqlite::Result<bool> {
    Ok(document.hash == Some(wanted) || state_with(connection, document.n, wanted)?.is_some())
}

/// A state of a document by its hash, and which program wrote it. None if it is not kept.
pub(super) fn state_with(
    connection: &Connection,
    n: DocumentRow,
    wanted: StateHash,
) -> rusqlite::Result<Option<(Document, Provenance)>> {
    let now: Option<(Option<StateHash>, i64)> = connection
        .prepare_cached("SELECT hash, provenance FROM document WHERE n = ?1")?
        .query_row([n], |row| Ok((hash(row, 0)?, row.get(1)?)))
        .optional()?;
    if let Some((Some(hash), provenance)) = now
        && hash == wanted
    {
        return Ok(latest(connection, n)?.map(|document| (document, Provenance::from_number(provenance))));
    }
    let mut statement = connection.prepare_cached(
        "SELECT hash, form, size, data, since, project, provenance FROM past WHERE document = ?1",
    )?;
    let mut rows = statement.query([n])?;
    while let Some(row) = rows.next()? {
        let (since, project): (i64, Option<String>) = (row.get(4)?, row.get(5)?);
        let bound = hash(row, 0)?.map(|hash| hash.bound(n, since, project.as_deref()));
        if bound != Some(wanted) {
            continue;
        }
        let form: i64 = row.get::<_, Option<i64>>(1)?.unwrap_or(codec::PRUNED);
        let size: i64 = row.get::<_, Option<i64>>(2)?.unwrap_or(0);
        let data = row.get_ref(3)?.as_bytes_or_null()?.unwrap_or_default();
        if let Ok(text) = content::unpack(connection, form, size, data, wanted)?
            && let Ok(document) = Document::parse(text)
        {
            return Ok(Some((document, Provenance::from_number(row.get(6)?))));
        }
    }
    Ok(None)
}
