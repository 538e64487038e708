//! Events as the tables tell them: revisions in the order of their numbers, with the documents that each put or deleted.

use std::collections::{HashMap, HashSet};
use std::ops::RangeInclusive;
use std::sync::Arc;

use annals_core::Key;
use annals_core::id::{Millis, ProjectId};
use rusqlite::{Connection, OptionalExtension};

use super::numbers::{DocumentRow, SessionRow};
use super::past::{revision, touched_sessions};
use super::rows::{documents_of, listed, placed};
use super::tail;
use crate::events::{Event, EventChange};
use crate::home::Revision;

/// Reading ends with the revision that reaches this many changes, so that memory stays flat.
const BATCH: usize = 1024;

/// A place in the order of revisions, and how to recognise it.
#[derive(Debug, Clone, Copy)]
pub(super) struct RevisionPosition {
    pub(super) number: i64,
    /// The clock when the revision was made. It never changes, while the revision's time and reason may. None before the
    /// first revision.
    clock: Option<Millis>,
}

impl RevisionPosition {
    /// The position after the revision with a number.
    pub(super) fn of(connection: &Connection, number: i64) -> rusqlite::Result<RevisionPosition> {
        let clock = connection
            .prepare_cached("SELECT coalesce(clock, time) FROM revision WHERE n = ?1")?
            .query_row([number], |row| row.get(0))
            .optional()?;
        Ok(RevisionPosition { number, clock })
    }
}

/// An event, and its position.
#[derive(Debug, Clone)]
pub(super) struct EventEntry {
    pub(super) event: Arc<Event>,
    clock: Millis,
}

impl EventEntry {
    pub(super) fn position(&self) -> RevisionPosition {
        RevisionPosition { number: self.event.revision.number, clock: Some(self.clock) }
    }

    /// How much memory the entry takes, counted in changes.
    pub(super) fn weight(&self) -> usize {
        1 + self.event.changes.len()
    }
}

/// Events that follow one another.
#[derive(Debug)]
pub(super) struct Stretch {
    pub(super) entries: Vec<EventEntry>,
    /// Whether no more events exist at the moment.
    pub(super) is_all: bool,
}

/// Why the next events cannot be told.
#[derive(Debug)]
pub(super) enum Broken {
    /// The revision that was reached does not exist, or its number belongs to another one now.
    Replaced,
    /// There are later revisions, but the next one is missing.
    Missing(RangeInclusive<i64>),
}

/// A revision as its row has it.
struct Listed {
    revision: Revision,
    clock: Millis,
    /// The numbers of the documents that the revision lists as changed.
    documents: Vec<DocumentRow>,
    /// The sessions that the revision touched, 0 for projects.
    sessions: Vec<SessionRow>,
    /// How many changes the revision has counted.
    n_changes: usize,
}

/// Reads the events after a position.
pub(super) fn read_after(
    connection: &Connection,
    reached: RevisionPosition,
) -> rusqlite::Result<Result<Stretch, Broken>> {
    let (mut revisions, is_all) = match revisions_after(connection, reached)? {
        Ok(read) => read,
        Err(broken) => return Ok(Err(broken)),
    };
    add_unlisted(connection, &mut revisions)?;
    let mut entries = Vec::with_capacity(revisions.len());
    for Listed { revision, clock, documents, sessions, .. } in revisions {
        let mut changes = Vec::with_capacity(documents.len());
        for n in documents {
            changes.extend(change(connection, n, revision.number, &sessions)?);
        }
        entries.push(EventEntry { event: Arc::new(Event { revision, changes }), clock });
    }
    Ok(Ok(Stretch { entries, is_all }))
}

/// A batch of revisions after a position, and whether those are all.
fn revisions_after(
    connection: &Connection,
    reached: RevisionPosition,
) -> rusqlite::Result<Result<(Vec<Listed>, bool), Broken>> {
    let mut statement = connection.prepare_cached(
        "SELECT r.n, r.time, r.reason, h.url, coalesce(r.clock, r.time), r.documents \
         FROM revision r LEFT JOIN home h ON h.n = r.home WHERE r.n >= ?1 ORDER BY r.n",
    )?;
    let mut rows = statement.query([reached.number])?;
    let mut is_recognised = reached.clock.is_none();
    let mut next = reached.number + 1;
    let (mut found, mut weight) = (Vec::new(), 0);
    while let Some(row) = rows.next()? {
        let (number, clock): (i64, Millis) = (row.get(0)?, row.get(4)?);
        if number == reached.number {
            is_recognised = is_recognised || reached.clock == Some(clock);
            continue;
        }
        if !is_recognised {
            break;
        }
        match number == next {
            false if found.is_empty() => return Ok(Err(Broken::Missing(next..=number - 1))),
            true if weight < BATCH => {}
            _ => return Ok(Ok((found, false))),
        }
        let mut revision = revision(row)?;
        let (sessions, touched): (Vec<SessionRow>, Vec<_>) =
            touched_sessions(connection, number)?.into_iter().unzip();
        let n_changes = touched.iter().map(|touched| touched.written + touched.deleted).sum();
        revision.touched = touched;
        let documents = listed(row.get_ref(5)?);
        weight += 1 + documents.len().max(n_changes);
        found.push(Listed { revision, clock, documents, sessions, n_changes });
        next += 1;
    }
    Ok(if is_recognised { Ok((found, true)) } else { Err(Broken::Replaced) })
}

/// Adds the documents that revisions do not list: those of revisions that were learnt later about earlier times, or written with tables
/// of an earlier version, and those where a list is damaged. Each of them has a state that begins with the revision, so this looks
/// through all documents of the sessions, once for all revisions.
fn add_unlisted(connection: &Connection, revisions: &mut [Listed]) -> rusqlite::Result<()> {
    let mut sessions = HashSet::new();
    let mut wanted: HashMap<i64, &mut Vec<DocumentRow>> = HashMap::new();
    for revision in revisions.iter_mut().filter(|revision| revision.documents.len() < revision.n_changes) {
        sessions.extend(&revision.sessions);
        wanted.insert(revision.revision.number, &mut revision.documents);
    }
    let (Some(first), Some(last)) = (wanted.keys().min().copied(), wanted.keys().max().copied()) else {
        return Ok(());
    };
    let mut begins = connection.prepare_cached(
        "SELECT since FROM document WHERE n = ?1 UNION SELECT since FROM past WHERE document = ?1 AND since BETWEEN ?2 AND ?3",
    )?;
    for session in sessions {
        for (n, _) in documents_of(connection, session)? {
            let mut rows = begins.query((n, first, last))?;
            while let Some(row) = rows.next()? {
                if let Some(documents) = wanted.get_mut(&row.get(0)?) {
                    documents.push(n);
                }
            }
        }
    }
    for documents in wanted.into_values() {
        documents.sort_unstable();
        documents.dedup();
    }
    Ok(())
}

/// The facts about a document's state that an event tells.
struct EventState {
    is_put: bool,
    project: Option<String>,
}

/// The change that a revision made to the document with a number. None if that document was forgotten; another may have its number now.
fn change(
    connection: &Connection,
    n: DocumentRow,
    revision: i64,
    sessions: &[SessionRow],
) -> rusqlite::Result<Option<EventChange>> {
    let Some(placed) = placed(connection, n)?.filter(|placed| sessions.contains(&placed.session)) else {
        return Ok(None);
    };
    if let Some(append) = tail::appended(connection, n, revision)? {
        return Ok(Some(EventChange::Append(placed.key, append)));
    }
    let Some(state) = state_after(connection, n, revision)? else { return Ok(None) };
    let key = match (placed.key, state.project.and_then(|project| ProjectId::parse(&project).ok())) {
        (Key::Session(_, session), Some(project)) => Key::Session(project, session),
        (key, _) => key,
    };
    Ok(Some(if state.is_put { EventChange::Put(key) } else { EventChange::Delete(key) }))
}

/// The state of a document after a revision that changed it. None if the document began later.
fn state_after(
    connection: &Connection,
    n: DocumentRow,
    revision: i64,
) -> rusqlite::Result<Option<EventState>> {
    let (latest, since, is_put, project): (i64, i64, bool, Option<String>) = connection
        .prepare_cached("SELECT revision, since, hash NOTNULL, project FROM document WHERE n = ?1")?
        .query_row([n], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?;
    if latest == revision || since == revision {
        return Ok(Some(EventState { is_put, project }));
    }
    let begun = connection
        .prepare_cached("SELECT hash NOTNULL, project FROM past WHERE document = ?1 AND since = ?2")?
        .query_row((n, revision), |row| Ok(EventState { is_put: row.get(0)?, project: row.get(1)? }))
        .optional()?;
    if begun.is_some() {
        return Ok(begun);
    }
    // Every deletion begins a state, and is never pruned. So this was a step of a state that began earlier, or the state was pruned.
    if since != 0 && since < revision {
        return Ok(Some(EventState { is_put: true, project }));
    }
    let earlier = connection
        .prepare_cached(
            "SELECT project FROM past WHERE document = ?1 AND since < ?2 ORDER BY since DESC LIMIT 1",
        )?
        .query_row((n, revision), |row| Ok(EventState { is_put: true, project: row.get(0)? }))
        .optional()?;
    if earlier.is_some() {
        return Ok(earlier);
    }
    // A state that was found to have begun earlier than thought has got a later number.
    let is_dated_back = connection
        .prepare_cached(
            "SELECT 1 FROM revision WHERE learnt AND n IN (SELECT ?2 UNION SELECT since FROM past WHERE document = ?1)",
        )?
        .exists((n, since))?;
    Ok(is_dated_back.then_some(EventState { is_put: true, project }))
}
