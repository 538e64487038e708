//! What is derived from documents: the numbers of sessions, kept so that nobody has to add them up again.

use annals_core::Usage;
use annals_core::lens::Session;
use rusqlite::{Connection, OptionalExtension};

use super::codec::{self, Hash};
use super::facts::Facts;
use super::kind::Kind;
use super::read::figures_of_session;
use super::{Annals, read};
use crate::home::{CommitError, SessionRecord, Want};
use crate::summary::{SessionState, SessionSummary};

/// The numbers of a session, added up now if something has changed since they last were.
pub(super) fn summary(
    connection: &Connection,
    n: i64,
    record: &SessionRecord,
) -> rusqlite::Result<Option<SessionSummary>> {
    let stored = connection
        .prepare_cached(
            "SELECT messages, parts + awaited, cost, input, output, reasoning, cache_read, cache_write, models, agents, \
             state, directory FROM session WHERE n = ?1 AND NOT stale",
        )?
        .query_row([n], |row| {
            let mut summary = SessionSummary::of_document(record);
            summary.messages = row.get(0)?;
            summary.parts = row.get(1)?;
            summary.usage = Usage {
                cost: row.get(2)?,
                input: row.get(3)?,
                output: row.get(4)?,
                reasoning: row.get(5)?,
                cache_read: row.get(6)?,
                cache_write: row.get(7)?,
            };
            summary.models = names(row.get_ref(8)?.as_str()?);
            summary.agents = names(row.get_ref(9)?.as_str()?);
            summary.state = SessionState::from_number(row.get(10)?);
            if summary.directory.is_none() {
                summary.directory = row.get(11)?;
            }
            Ok(summary)
        })
        .optional()?;
    match stored {
        Some(summary) => Ok(Some(summary)),
        None => {
            let mut summary = add_up(connection, n, record)?;
            let awaited: Option<usize> = connection
                .prepare_cached("SELECT awaited FROM session WHERE n = ?1")?
                .query_row([n], |row| row.get(0))
                .optional()?;
            summary.parts += awaited.unwrap_or(0);
            Ok(Some(summary))
        }
    }
}

fn add_up(connection: &Connection, n: i64, record: &SessionRecord) -> rusqlite::Result<SessionSummary> {
    let mut summary = SessionSummary::of_document(record);
    for figures in figures_of_session(connection, n, Want::PartCounts)? {
        summary.add(&figures);
    }
    if let Some(usage) = Usage::of_session(&record.stored.document.lens()) {
        summary.usage = usage;
    }
    Ok(summary)
}

fn names(list: &str) -> Vec<String> {
    serde_json::from_str(list).unwrap_or_default()
}

/// Adds up the numbers of sessions that have changed, in the transaction that changed them or a later one.
pub(super) fn refresh(connection: &Connection) -> rusqlite::Result<()> {
    let stale: Vec<i64> = connection
        .prepare_cached("SELECT n FROM session WHERE stale")?
        .query_map([], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    for n in stale {
        let document = connection
            .prepare_cached("SELECT id, project, hash, form, size, data FROM document WHERE n = ?1")?
            .query_row([n], |row| {
                let hash = row.get_ref(2)?.as_bytes_or_null()?.and_then(Hash::read);
                let bytes = row.get_ref(5)?.as_bytes_or_null()?.unwrap_or_default();
                let form = row.get::<_, Option<i64>>(3)?.unwrap_or(0);
                let size = row.get::<_, Option<i64>>(4)?.unwrap_or(0);
                let text = hash.and_then(|hash| codec::unpack(form, size, bytes, hash).ok());
                let key = Kind::Session.key(
                    row.get_ref(0)?.as_str()?,
                    None,
                    None,
                    row.get::<_, Option<String>>(1)?.as_deref(),
                );
                Ok(key.zip(text.and_then(|text| annals_core::Document::parse(text).ok())))
            })
            .optional()?
            .flatten();
        let Some((key, document)) = document else {
            connection.prepare_cached("UPDATE session SET stale = 0 WHERE n = ?1")?.execute([n])?;
            continue;
        };
        let annals_core::Key::Session(project, id) = key.clone() else { continue };
        let stored = annals_core::Stored { place: read::place_of(&key), key, document };
        let record = SessionRecord { id, project, stored, origins: Vec::new(), gone: None };
        let summary = add_up(connection, n, &record)?;
        let session = record.stored.document.lens::<Session<'_>>();
        let json = |list: &[String]| serde_json::to_string(list).unwrap_or_default();
        let Usage { cost, input, output, reasoning, cache_read, cache_write } = summary.usage;
        connection
            .prepare_cached(
                "UPDATE session SET stale = 0, title = ?2, directory = ?3, messages = ?4, parts = ?14, cost = ?5, \
                 input = ?6, output = ?7, reasoning = ?8, cache_read = ?9, cache_write = ?10, models = ?11, \
                 agents = ?12, state = ?13 WHERE n = ?1",
            )?
            .execute(rusqlite::params![
                n,
                session.title.map(|title| title.to_string()),
                summary.directory,
                summary.messages,
                cost,
                input,
                output,
                reasoning,
                cache_read,
                cache_write,
                json(&summary.models),
                json(&summary.agents),
                summary.state.number(),
                summary.parts,
            ])?;
    }
    Ok(())
}

impl Annals {
    /// Makes everything that is derived from documents anew, except for the text index.
    pub fn rederive(&self) -> Result<(), CommitError> {
        let failed = |error: rusqlite::Error| self.commit_error(&error);
        let writing = self.write()?;
        rederive(&writing).map_err(failed)?;
        self.finish(writing)
    }
}

fn rederive(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(
        "DELETE FROM message; DELETE FROM call; DELETE FROM session WHERE n NOT IN (SELECT n FROM document)",
    )?;
    connection.execute(
        "INSERT OR IGNORE INTO session (n, stale) SELECT n, 1 FROM document WHERE kind = ?1",
        [Kind::Session.number()],
    )?;
    let mut sessions = connection.prepare("SELECT n, id FROM document WHERE kind = ?1")?;
    let sessions: Vec<(i64, String)> = sessions
        .query_map([Kind::Session.number()], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    for (session, session_id) in sessions {
        for (message, message_id) in read::below(connection, session, Kind::Message)? {
            rederive_one(connection, session, message, |_| {
                Kind::Message.key(&message_id, None, Some(&session_id), None)
            })?;
            let mut parts = connection.prepare_cached(
                "SELECT n, id FROM document WHERE owner = ?1 AND kind = ?2 AND hash IS NOT NULL",
            )?;
            let mut rows = parts.query((message, Kind::Part.number()))?;
            while let Some(row) = rows.next()? {
                let (n, id): (i64, String) = (row.get(0)?, row.get(1)?);
                rederive_one(connection, session, n, |_| {
                    Kind::Part.key(&id, Some(&message_id), Some(&session_id), None)
                })?;
            }
        }
        connection.prepare_cached("UPDATE session SET stale = 1 WHERE n = ?1")?.execute([session])?;
    }
    refresh(connection)
}

fn rederive_one(
    connection: &Connection,
    session: i64,
    n: i64,
    key: impl FnOnce(()) -> Option<annals_core::Key>,
) -> rusqlite::Result<()> {
    let text = connection
        .prepare_cached("SELECT hash, form, size, data FROM document WHERE n = ?1")?
        .query_row([n], |row| {
            let Some(hash) = row.get_ref(0)?.as_bytes_or_null()?.and_then(Hash::read) else {
                return Ok(None);
            };
            let bytes = row.get_ref(3)?.as_bytes_or_null()?.unwrap_or_default();
            Ok(Some(codec::unpack(row.get(1)?, row.get(2)?, bytes, hash).ok()))
        })?;
    let Some(text) = text else { return Ok(()) };
    if let Some(document) = text.and_then(|text| annals_core::Document::parse(text).ok())
        && let Some(key) = key(())
    {
        Facts::of(&key, &document).store(connection, session, n)?;
    }
    Ok(())
}
