//! Pruning: drops the texts of earlier states that are no longer needed.
//!
//! The fact that a state existed stays known. Otherwise, undoing the next state would take that for the first one and delete
//! the document. So of states that follow one another the first stays, without its text.

use annals_core::id::{Millis, SessionId};
use rusqlite::Connection;

use super::SqliteStore;
use super::codec;
use super::held;
use super::kind::Kind;
use super::numbers::{DocumentRow, SessionRow};
use super::operations;
use super::rows::session_row;
use super::sharing;
use crate::home::CommitError;
use crate::state_hash::StateHash;
use crate::upkeep::{Pruned, PrunedSession};

/// Number of free pages given back in one transaction.
const PAGES: usize = 1000;

impl SqliteStore {
    pub(super) fn prune_states(
        &self,
        older_than: Millis,
        sessions: Option<&[SessionId]>,
        dry_run: bool,
    ) -> Result<Pruned, CommitError> {
        let failed = |error: rusqlite::Error| self.commit_error(&error);
        if dry_run {
            let count = |connection: &Connection| prune(connection, older_than, sessions, Doing::Counting);
            return self.file.read(count).map_err(failed);
        }
        let writing = self.write()?;
        let pruned = prune(&writing, older_than, sessions, Doing::Removing).map_err(failed)?;
        self.finish(writing)?;
        if pruned.states() > 0 || pruned.operation_states > 0 {
            self.give_back();
        }
        Ok(pruned)
    }

    /// Gives free pages back to the disk, as far as that works: the commit stands in any case.
    pub(super) fn give_back(&self) {
        loop {
            let freed = self.file.exclusively(|connection| {
                let count = "PRAGMA freelist_count";
                let before: i64 = connection.query_row(count, [], |row| row.get(0))?;
                let mut statement = connection.prepare(&format!("PRAGMA incremental_vacuum({PAGES})"))?;
                let mut rows = statement.query([])?;
                while rows.next()?.is_some() {}
                let after: i64 = connection.query_row(count, [], |row| row.get(0))?;
                Ok::<_, rusqlite::Error>((before - after, after))
            });
            // Stores that were made before pages could be given back keep theirs.
            match freed {
                Ok(Ok((freed, left))) if freed > 0 && left > 0 => {}
                _ => break,
            }
        }
        // The file becomes shorter when the log is copied into it.
        let _ = self.file.empty_log();
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doing {
    Counting,
    Removing,
}

/// An earlier state that pruning considers.
struct PrunableState {
    since: i64,
    begins: Millis,
    is_there: bool,
    is_pruned: bool,
    /// Whether a home still has this state, so that it may have to be shown again.
    is_held: bool,
    bytes: i64,
}

fn prune(
    connection: &Connection,
    older_than: Millis,
    sessions: Option<&[SessionId]>,
    doing: Doing,
) -> rusqlite::Result<Pruned> {
    let mut pruned = Pruned::default();
    for (session, documents) in candidates(connection, sessions)? {
        let mut total = PrunedSession { session: session_id(connection, session)?, states: 0, bytes: 0 };
        for n in documents {
            let (states, bytes) = prune_one(connection, n, older_than, doing)?;
            total.states += states;
            total.bytes += bytes;
        }
        if total.states > 0 {
            pruned.sessions.push(total);
        }
    }
    if doing == Doing::Removing {
        sharing::sweep(connection)?;
    }
    pruned.sessions.sort_by_key(|session| std::cmp::Reverse(session.bytes));
    (pruned.operation_states, pruned.operation_bytes) =
        operations::prune(connection, older_than, sessions, doing == Doing::Counting)?;
    Ok(pruned)
}

/// The documents with a past that may be pruned, by session.
fn candidates(
    connection: &Connection,
    sessions: Option<&[SessionId]>,
) -> rusqlite::Result<Vec<(SessionRow, Vec<DocumentRow>)>> {
    let mut found: Vec<(SessionRow, Vec<DocumentRow>)> = Vec::new();
    if let Some(sessions) = sessions {
        for session in sessions {
            if let Some(n) = session_row(connection, session.as_str())? {
                found.push((n, documents_of_session(connection, n)?));
            }
        }
        return Ok(found);
    }
    let mut statement = connection.prepare_cached(
        "SELECT CASE d.kind WHEN ?1 THEN 0 WHEN ?2 THEN d.n WHEN ?3 THEN coalesce(m.owner, 0) ELSE d.owner END AS session, d.n \
         FROM document d LEFT JOIN document m ON d.kind = ?3 AND m.n = d.owner \
         WHERE d.home IS NOT NULL AND d.n IN (SELECT document FROM past) ORDER BY session",
    )?;
    let kinds = [Kind::Project, Kind::Session, Kind::Part].map(Kind::number);
    let mut rows = statement.query(kinds)?;
    while let Some(row) = rows.next()? {
        let (session, n): (SessionRow, DocumentRow) = (row.get(0)?, row.get(1)?);
        match found.last_mut() {
            Some((last, documents)) if *last == session => documents.push(n),
            _ => found.push((session, vec![n])),
        }
    }
    Ok(found)
}

/// Every document that belongs or belonged to a session, itself included.
pub(super) fn documents_of_session(
    connection: &Connection,
    session: SessionRow,
) -> rusqlite::Result<Vec<DocumentRow>> {
    let mut statement = connection.prepare_cached(
        "SELECT n FROM document WHERE n = ?1 UNION ALL SELECT n FROM document WHERE owner = ?1 UNION ALL \
         SELECT p.n FROM document m JOIN document p ON p.owner = m.n WHERE m.owner = ?1",
    )?;
    let rows = statement.query_map([session], |row| row.get(0))?;
    rows.collect()
}

fn session_id(connection: &Connection, session: SessionRow) -> rusqlite::Result<Option<SessionId>> {
    let mut statement = connection.prepare_cached("SELECT id FROM document WHERE n = ?1 AND kind = ?2")?;
    let mut rows = statement.query((session, Kind::Session.number()))?;
    let Some(row) = rows.next()? else { return Ok(None) };
    Ok(SessionId::parse(row.get_ref(0)?.as_str()?).ok())
}

/// Prunes one document. Gives the number of states and the bytes they took.
fn prune_one(
    connection: &Connection,
    n: DocumentRow,
    older_than: Millis,
    doing: Doing,
) -> rusqlite::Result<(usize, u64)> {
    let held = held::states(connection, n)?;
    let states: Vec<PrunableState> = connection
        .prepare_cached(
            "SELECT p.since, r.time, p.hash IS NOT NULL, p.form IS ?2, coalesce(octet_length(p.data), 0), p.hash, p.project \
             FROM past p JOIN revision r ON r.n = p.since WHERE p.document = ?1 ORDER BY r.time, r.n",
        )?
        .query_map((n, codec::PRUNED), |row| {
            let since = row.get(0)?;
            let project: Option<String> = row.get(6)?;
            let hash = row.get_ref(5)?.as_bytes_or_null()?.and_then(StateHash::read);
            let hash = hash.map(|hash| hash.bound(n, since, project.as_deref()));
            Ok(PrunableState {
                since,
                begins: row.get(1)?,
                is_there: row.get(2)?,
                is_pruned: row.get(3)?,
                is_held: hash.is_some_and(|hash| held.contains(&hash)),
                bytes: row.get(4)?,
            })
        })?
        .collect::<rusqlite::Result<_>>()?;
    // If only the past of a document is known, it is not known when its last state ended.
    let mut latest = connection
        .prepare_cached("SELECT r.time FROM document d JOIN revision r ON r.n = d.since WHERE d.n = ?1")?;
    let mut rows = latest.query([n])?;
    let latest: Option<Millis> = match rows.next()? {
        Some(row) => Some(row.get(0)?),
        None => None,
    };
    let (mut n_states, mut n_bytes) = (0, 0);
    let mut follows_another = false;
    for (place, state) in states.iter().enumerate() {
        let ends = states.get(place + 1).map(|next| next.begins).or(latest);
        if ends.is_none_or(|ends| ends >= older_than) {
            break;
        }
        if state.is_held {
            follows_another = true;
            continue;
        }
        if state.is_there {
            n_states += usize::from(!state.is_pruned);
            n_bytes += state.bytes.unsigned_abs();
        }
        if doing == Doing::Removing && state.is_there {
            match follows_another {
                true => connection
                    .prepare_cached("DELETE FROM past WHERE document = ?1 AND since = ?2")?
                    .execute((n, state.since))?,
                false => connection
                    .prepare_cached(
                        "UPDATE past SET form = ?3, data = NULL WHERE document = ?1 AND since = ?2",
                    )?
                    .execute((n, state.since, codec::PRUNED))?,
            };
        }
        follows_another = state.is_there;
    }
    Ok((n_states, n_bytes))
}
