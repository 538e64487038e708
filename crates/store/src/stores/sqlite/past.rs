//! History: revisions, the changes of each, and the moment that a number or a time stands for. What a document was at that moment, `View::state` in
//! `read.rs` finds.

use std::collections::HashMap;

use annals_core::id::SessionId;
use annals_core::{Document, Key, Stored, stream};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Row};

use super::SqliteStore;
use super::codec;
use super::kind::Kind;
use super::numbers::{DocumentRow, RevisionMoment, SessionRow};
use super::read::View;
use super::rows::{documents_of, listed, session_row};
use super::scan::{Bound, EXAMINED, Examined, examine, is_of};
use super::tail;
use crate::history::{At, Changed, History, LogQuery, Revision, Touched};
use crate::home::{InProgress, Past, Read, ReadError, row_place};

/// Which sessions each revision touched, with how many of their documents it wrote and deleted.
pub(super) const TOUCHED: &str = "(SELECT session, n AS revision, written, deleted FROM revision WHERE session NOTNULL \
     UNION ALL SELECT session, revision, written, deleted FROM touched)";

impl History for SqliteStore {
    fn log(&self, query: &LogQuery) -> Result<Vec<Revision>, ReadError> {
        self.read(|connection| {
            let mut conditions = String::new();
            let mut values: Vec<Value> = Vec::new();
            if let Some(session) = &query.session {
                let Some(n) = session_row(connection, session.as_str())? else { return Ok(Vec::new()) };
                conditions
                    .push_str(" AND (r.session = ? OR r.n IN (SELECT revision FROM touched WHERE session = ?))");
                values.extend([n.0.into(), n.0.into()]);
            }
            for (condition, value) in [
                (" AND r.time >= ?", query.since),
                (" AND r.time < ?", query.until),
                (" AND r.n > ?", query.after),
            ] {
                if let Some(value) = value {
                    conditions.push_str(condition);
                    values.push(value.into());
                }
            }
            if query.own {
                conditions.push_str(" AND r.home IS NULL");
            }
            let limit = query.limit.and_then(|limit| i64::try_from(limit).ok()).unwrap_or(-1);
            values.push(limit.into());
            // Revisions that were learnt later are in order of time by their index, all others by their number.
            let half = |is_learnt: &str, order: &str| {
                format!(
                    "SELECT * FROM (SELECT r.n, r.time, r.reason, r.home FROM revision r \
                     WHERE {is_learnt}{conditions} ORDER BY {order} LIMIT ?)"
                )
            };
            let sql = format!(
                "SELECT x.n, x.time, x.reason, h.url FROM ({} UNION ALL {}) x LEFT JOIN home h ON h.n = x.home \
                 ORDER BY x.time DESC, x.n DESC LIMIT {limit}",
                half("NOT r.learnt", "r.n DESC"),
                half("r.learnt", "r.time DESC, r.n DESC")
            );
            let values = [values.clone(), values].concat();
            let mut statement = connection.prepare_cached(&sql)?;
            let revisions = statement.query_map(rusqlite::params_from_iter(values), revision)?;
            revisions
                .map(|revision| {
                    let mut revision = revision?;
                    revision.touched = touched(connection, revision.number)?;
                    Ok(revision)
                })
                .collect()
        })
    }

    fn revision(&self, number: i64) -> Result<Option<Revision>, ReadError> {
        self.read(|connection| {
            let found = connection
                .prepare_cached(
                    "SELECT r.n, r.time, r.reason, h.url FROM revision r LEFT JOIN home h ON h.n = r.home WHERE r.n = ?1",
                )?
                .query_row([number], revision)
                .optional()?;
            let Some(mut revision) = found else { return Ok(None) };
            revision.touched = touched(connection, number)?;
            Ok(Some(revision))
        })
    }

    fn changes(&self, revision: i64) -> Result<Vec<Changed>, ReadError> {
        self.read(|connection| {
            let Some(moment) = moment(connection, At::Revision(revision))? else { return Ok(Vec::new()) };
            let mut changes = Vec::new();
            let mut statement =
                connection.prepare_cached(&format!("SELECT session FROM {TOUCHED} WHERE revision = ?1"))?;
            let sessions: Vec<SessionRow> =
                statement.query_map([revision], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
            let written = connection
                .prepare_cached("SELECT documents FROM revision WHERE n = ?1")?
                .query_row([revision], |row| Ok(listed(row.get_ref(0)?)))?;
            for session in sessions {
                for (n, key) in documents_of(connection, session)? {
                    let is_written = written.binary_search(&n).is_ok();
                    changes.extend(changed(connection, n, key, is_written, moment)?);
                }
            }
            Ok(changes)
        })
    }

    fn at(&self, at: At) -> Result<Option<Box<dyn Read + '_>>, ReadError> {
        let moment = self.read(|connection| moment(connection, at))?;
        Ok(moment.map(|moment| Box::new(View { store: self, at: Some(moment) }) as Box<dyn Read + '_>))
    }
}

pub(super) fn revision(row: &Row<'_>) -> rusqlite::Result<Revision> {
    Ok(Revision {
        number: row.get(0)?,
        time: row.get(1)?,
        reason: row.get(2)?,
        home: row.get(3)?,
        touched: Vec::new(),
    })
}

fn touched(connection: &Connection, revision: i64) -> rusqlite::Result<Vec<Touched>> {
    Ok(touched_sessions(connection, revision)?.into_iter().map(|(_, touched)| touched).collect())
}

/// The sessions that a revision touched, by their numbers, with the counts of its changes to each.
pub(super) fn touched_sessions(
    connection: &Connection,
    revision: i64,
) -> rusqlite::Result<Vec<(SessionRow, Touched)>> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT t.session, d.id, t.written, t.deleted FROM {TOUCHED} t LEFT JOIN document d ON d.n = t.session \
         WHERE t.revision = ?1 ORDER BY t.session"
    ))?;
    let rows = statement.query_map([revision], |row| {
        let session: Option<String> = row.get(1)?;
        let session = session.and_then(|session| SessionId::parse(&session).ok());
        Ok((row.get(0)?, Touched { session, written: row.get(2)?, deleted: row.get(3)? }))
    })?;
    rows.collect()
}

/// The numbers and kinds of the documents whose latest state came with a `wanted` revision, after one revision and up to
/// another.
pub(super) fn latest_of(
    connection: &Connection,
    after: i64,
    until: i64,
    wanted: impl Fn(i64) -> bool,
) -> rusqlite::Result<Vec<(DocumentRow, Kind)>> {
    let mut documents = Vec::new();
    let mut statement =
        connection.prepare_cached("SELECT n, documents FROM revision WHERE n > ?1 AND n <= ?2")?;
    let mut kind = connection.prepare_cached("SELECT kind FROM document WHERE n = ?1 AND revision = ?2")?;
    let mut rows = statement.query((after, until))?;
    while let Some(row) = rows.next()? {
        let revision = row.get(0)?;
        if !wanted(revision) {
            continue;
        }
        for n in listed(row.get_ref(1)?) {
            let kind = kind.query_row((n, revision), |row| row.get(0)).optional()?;
            documents.extend(kind.and_then(Kind::from_number).map(|kind| (n, kind)));
        }
    }
    Ok(documents)
}

/// The place of a moment in the order of revisions.
fn moment(connection: &Connection, at: At) -> rusqlite::Result<Option<RevisionMoment>> {
    match at {
        At::Time(time) => Ok(Some((time, i64::MAX))),
        At::Revision(number) => connection
            .prepare_cached("SELECT time, n FROM revision WHERE n = ?1")?
            .query_row([number], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional(),
    }
}

/// The change that a revision made to a document, if any. `is_written`: the revision says that it wrote the document.
fn changed(
    connection: &Connection,
    n: DocumentRow,
    key: Key,
    is_written: bool,
    (time, revision): RevisionMoment,
) -> rusqlite::Result<Option<Changed>> {
    let since: i64 = connection
        .prepare_cached("SELECT since FROM document WHERE n = ?1")?
        .query_row([n], |row| row.get(0))?;
    let began: bool = connection
        .prepare_cached("SELECT 1 FROM past WHERE document = ?1 AND since = ?2")?
        .exists((n, revision))?;
    if since != revision && !began {
        // A step of a state that began earlier.
        let step = Changed { key, before: None, after: None, is_step: true };
        return Ok(is_written.then_some(step));
    }
    // A damaged index may lead to another document.
    if !is_of(connection, n, &key)? {
        return Ok(None);
    }
    let after = match since == revision {
        true => connection
            .prepare_cached(&format!("SELECT {EXAMINED} FROM document x WHERE n = ?1"))?
            .query_row([n], |row| {
                let is_open = row.get_ref(1)?.as_i64().is_ok_and(codec::is_open);
                match text(connection, row, None)? {
                    Ok(Some(rest)) if is_open => {
                        Ok(tail::complete(connection, n, &rest, None)?.map_err(drop))
                    }
                    after => Ok(after),
                }
            })?,
        false => connection
            .prepare_cached(&format!("SELECT {EXAMINED} FROM past x WHERE document = ?1 AND since = ?2"))?
            .query_row((n, revision), |row| text(connection, row, Some((n, revision))))?,
    };
    let before = connection
        .prepare_cached(&format!(
            "SELECT {EXAMINED}, x.since FROM past x JOIN revision r ON r.n = x.since \
             WHERE x.document = ?1 AND (r.time, r.n) < (?2, ?3) ORDER BY r.time DESC, r.n DESC LIMIT 1"
        ))?
        .query_row((n, time, revision), |row| text(connection, row, Some((n, row.get("since")?))))
        .optional()?
        .unwrap_or(Ok(None));
    // A text that was pruned or is damaged counts as not kept, too.
    let is_step = before.is_err() || after.is_err();
    Ok(Some(Changed { key, before: before.ok().flatten(), after: after.ok().flatten(), is_step }))
}

/// The document of a state. None if it did not exist. An error if it existed and its text is not available.
fn text(
    connection: &Connection,
    row: &Row<'_>,
    bound: Bound,
) -> rusqlite::Result<Result<Option<Document>, ()>> {
    Ok(match examine(connection, row, 0, bound)? {
        Examined::Absent => Ok(None),
        Examined::Text(text) => Document::parse(text).map(Some).map_err(drop),
        Examined::Pruned | Examined::Flawed(_) => Err(()),
    })
}

impl Past for View<'_> {
    fn in_progress(&self, id: &SessionId) -> Result<Vec<InProgress>, ReadError> {
        let Some(moment) = self.at else { return Ok(Vec::new()) };
        self.store.read(|connection| {
            let Some(session) = session_row(connection, id.as_str())? else {
                return Ok(Vec::new());
            };
            let mut found = Vec::new();
            let mut numbers = Vec::new();
            for (n, key) in documents_of(connection, session)? {
                let Some(state) = self.state(connection, n)? else { continue };
                let Some(time) = state.in_progress else { continue };
                let key = match key {
                    Key::Session(..) => Kind::Session.key(id.as_str(), None, None, state.project.as_deref()),
                    key => Some(key),
                };
                let Some(key) = key else { continue };
                let place = row_place(&key);
                // Readers of this document report that it cannot be read.
                if let Ok(Some(document)) = state.kept(&place)
                    && !stream::earlier(&key, &document, time).is_whole
                {
                    found.push(InProgress { became: Stored::new(key, document, place), written: 0 });
                    numbers.push(n);
                }
            }
            if !found.is_empty() {
                let written = last_written(connection, session, moment)?;
                for (found, n) in found.iter_mut().zip(numbers) {
                    found.written = written.get(&n).copied().unwrap_or(0);
                }
            }
            Ok(found)
        })
    }
}

/// The last revision up to a moment that wrote each document of a session.
fn last_written(
    connection: &Connection,
    session: SessionRow,
    (time, number): RevisionMoment,
) -> rusqlite::Result<HashMap<DocumentRow, i64>> {
    let mut statement = connection.prepare_cached(
        "SELECT n, documents FROM revision WHERE (session = ?1 OR n IN (SELECT revision FROM touched WHERE session = ?1)) \
         AND (time, n) <= (?2, ?3) ORDER BY time, n",
    )?;
    let mut rows = statement.query((session, time, number))?;
    let mut written = HashMap::new();
    while let Some(row) = rows.next()? {
        let revision: i64 = row.get(0)?;
        written.extend(listed(row.get_ref(1)?).into_iter().map(|n| (n, revision)));
    }
    Ok(written)
}
