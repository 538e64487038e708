//! Derived data: the numbers of sessions, kept so that they need not be added up again.

use std::collections::HashMap;

use annals_core::id::{Millis, SessionId};
use annals_core::lens::{Message, Session};
use annals_core::{Key, Provenance, Stored, Usage};
use rusqlite::{Connection, OptionalExtension, Row};

use super::content;
use super::facts::{FIGURES, Facts, figures_of, store_call, store_message, usage_of};
use super::kind::Kind;
use super::numbers::{DocumentRow, SessionRow};
use super::rows::session_row;
use super::{SqliteStore, rows};
use crate::figures::{Call, Figures};
use crate::home::{CommitError, MessageDetail, SessionRecord, row_place};
use crate::summary::{SessionState, SessionSummary};

/// Upper bound on the sessions that are looked up one by one.
const FEW: usize = 16;

/// The numbers of sessions, added up again where something has changed. None for a session that does not exist.
pub(super) fn summaries(
    connection: &Connection,
    records: &[&SessionRecord],
) -> rusqlite::Result<Vec<Option<SessionSummary>>> {
    let places: HashMap<&str, usize> =
        records.iter().enumerate().map(|(place, record)| (record.id.as_str(), place)).collect();
    let mut summaries: Vec<Option<SessionSummary>> = vec![None; records.len()];
    // Many sessions are read all at once: looking up each takes longer. The index of documents has the ids.
    let is_few = records.len() <= FEW;
    let sql = format!(
        "SELECT d.id, s.messages, s.parts, s.cost, s.input, s.output, s.reasoning, s.cache_read, s.cache_write, \
         s.models, s.agents, s.state, s.directory FROM document d CROSS JOIN session s ON s.n = d.n \
         WHERE d.owner = 0 AND d.kind = 2 AND (NOT s.stale OR s.brief) {}",
        if is_few { "AND d.id = ?1" } else { "" }
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let wanted: Vec<Option<&str>> = match is_few {
        true => records.iter().map(|record| Some(record.id.as_str())).collect(),
        false => vec![None],
    };
    for id in wanted {
        let mut rows = statement.query(rusqlite::params_from_iter(id))?;
        while let Some(row) = rows.next()? {
            if let Some(&place) = places.get(row.get_ref(0)?.as_str()?) {
                summaries[place] = Some(summary_of(records[place], row)?);
            }
        }
    }
    for (record, summary) in records.iter().zip(&mut summaries).filter(|(_, summary)| summary.is_none()) {
        if let Some(n) = session_row(connection, record.id.as_str())? {
            *summary = Some(add_up(connection, n, record)?);
        }
    }
    Ok(summaries)
}

/// The summary of a session, from its row of numbers.
fn summary_of(record: &SessionRecord, row: &Row<'_>) -> rusqlite::Result<SessionSummary> {
    let mut summary = SessionSummary::of_document(record);
    summary.messages = row.get(1)?;
    summary.parts = row.get(2)?;
    summary.usage = usage_of(row, 3)?;
    summary.models = names(row.get_ref(9)?.as_str()?);
    summary.agents = names(row.get_ref(10)?.as_str()?);
    summary.state = SessionState::from_number(row.get(11)?);
    if summary.directory.is_none() {
        summary.directory = row.get(12)?;
    }
    Ok(summary)
}

/// Adds up the numbers of a session from those of its messages.
pub(super) fn add_up(
    connection: &Connection,
    n: SessionRow,
    record: &SessionRecord,
) -> rusqlite::Result<SessionSummary> {
    let mut summary = SessionSummary::of_document(record);
    for figures in figures_of_session(connection, n, MessageDetail::PartCounts)? {
        summary.add(&figures);
    }
    if let Some(usage) = Usage::of_session(&record.stored.document.lens()) {
        summary.usage = usage;
    }
    Ok(summary)
}

/// When the first message of each session was made.
pub(super) fn beginnings(connection: &Connection) -> rusqlite::Result<HashMap<SessionId, Millis>> {
    let mut statement = connection.prepare_cached(
        "SELECT d.id, (SELECT min(m.made) FROM message m WHERE m.session = d.n) FROM document d \
         WHERE d.owner = 0 AND d.kind = 2",
    )?;
    let mut rows = statement.query([])?;
    let mut found = HashMap::new();
    while let Some(row) = rows.next()? {
        if let (Ok(id), Some(made)) = (SessionId::parse(row.get_ref(0)?.as_str()?), row.get(1)?) {
            found.insert(id, made);
        }
    }
    Ok(found)
}

/// The names in a stored list.
pub(super) fn names(list: &str) -> Vec<String> {
    serde_json::from_str(list).unwrap_or_default()
}

/// Adds up the numbers of sessions that have changed, in the transaction that changed them or a later one.
pub(super) fn refresh(connection: &Connection) -> rusqlite::Result<()> {
    let stale: Vec<SessionRow> = connection
        .prepare_cached("SELECT n FROM session WHERE stale AND NOT brief")?
        .query_map([], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    for n in stale {
        let document = connection
            .prepare_cached("SELECT id, project, hash, form, size, data FROM document WHERE n = ?1")?
            .query_row([n], |row| {
                let key = Kind::Session.key(
                    row.get_ref(0)?.as_str()?,
                    None,
                    None,
                    row.get::<_, Option<String>>(1)?.as_deref(),
                );
                Ok(key.zip(content::document(connection, n.document(), row, 2)?))
            })
            .optional()?
            .flatten();
        let Some((key, document)) = document else {
            connection.prepare_cached("UPDATE session SET stale = 0 WHERE n = ?1")?.execute([n])?;
            continue;
        };
        let Key::Session(project, id) = key.clone() else { continue };
        let stored = Stored::new(key.clone(), document, row_place(&key));
        let record = SessionRecord::new(project, id, stored, Vec::new());
        let summary = add_up(connection, n, &record)?;
        let title = record.stored.document.lens::<Session<'_>>().title.map(|title| title.to_string());
        store(connection, n, title.as_deref(), &summary, false)?;
    }
    Ok(())
}

/// Stores the numbers of a session. `is_brief`: its home gave them, and they cannot be added up here yet.
pub(super) fn store(
    connection: &Connection,
    n: SessionRow,
    title: Option<&str>,
    summary: &SessionSummary,
    is_brief: bool,
) -> rusqlite::Result<()> {
    let json = |list: &[String]| serde_json::to_string(list).unwrap_or_default();
    let Usage { cost, input, output, reasoning, cache_read, cache_write } = summary.usage;
    connection
        .prepare_cached(
            "UPDATE session SET stale = 0, title = ?2, directory = ?3, messages = ?4, parts = ?14, cost = ?5, \
             input = ?6, output = ?7, reasoning = ?8, cache_read = ?9, cache_write = ?10, models = ?11, \
             agents = ?12, state = ?13, brief = ?15 WHERE n = ?1",
        )?
        .execute(rusqlite::params![
            n,
            title,
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
            is_brief,
        ])
        .map(drop)
}

/// Stores the figures of a session's messages while the messages themselves are not in the store, in place of earlier ones.
/// The messages have no numbers yet, so they get numbers below 0.
pub(super) fn store_figures(
    connection: &Connection,
    session: SessionRow,
    figures: &[Figures],
) -> rusqlite::Result<()> {
    for sql in
        ["DELETE FROM message WHERE session = ?1 AND n < 0", "DELETE FROM call WHERE session = ?1 AND n < 0"]
    {
        connection.prepare_cached(sql)?.execute([session])?;
    }
    let mut call_number = 0;
    for (number, figures) in (1..).zip(figures) {
        let message = DocumentRow(-number);
        store_message(connection, session, message, figures)?;
        for call in &figures.calls {
            call_number -= 1;
            store_call(connection, session, message, DocumentRow(call_number), call)?;
        }
    }
    Ok(())
}

/// The number of parts of message `m` that exist. Both numbers are in indexes.
const N_PARTS: &str = "(SELECT count(*) FROM document p WHERE p.owner = m.n AND p.kind = 4) - \
     (SELECT count(*) FROM document p WHERE p.owner = m.n AND p.kind = 4 AND p.hash IS NULL)";

pub(super) fn n_parts(connection: &Connection, message: DocumentRow) -> rusqlite::Result<usize> {
    let sql = format!("SELECT {N_PARTS} FROM (SELECT ?1 AS n) m");
    connection.prepare_cached(&sql)?.query_row([message], |row| row.get(0))
}

/// The figures of each message of a session; in the order of the conversation, unless calls are wanted.
pub(super) fn figures_of_session(
    connection: &Connection,
    session: SessionRow,
    detail: MessageDetail,
) -> rusqlite::Result<Vec<Figures>> {
    let mut figures: Vec<Figures> = Vec::new();
    let mut places: HashMap<DocumentRow, usize> = HashMap::new();
    // Callers that count calls only add everything up. So the order of the rows is enough for them, and so is the sum of
    // the parts, if it is known.
    let known: Option<(usize, bool)> = match detail {
        MessageDetail::ToolCalls => connection
            .prepare_cached(
                "SELECT parts, EXISTS (SELECT 1 FROM message WHERE session = ?1 AND n < 0) FROM session \
                 WHERE n = ?1 AND (NOT stale OR brief)",
            )?
            .query_row([session], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?,
        _ => None,
    };
    let sum = known.map(|(sum, _)| sum);
    // While the messages themselves are not in the store, the figures that their home gave are.
    let is_brief = known.is_some_and(|(_, is_brief)| is_brief);
    let counted = if sum.is_some() { "0" } else { N_PARTS };
    let messages = match detail {
        MessageDetail::ToolCalls if is_brief => {
            "message m WHERE m.session = ?1 AND m.n < 0 ORDER BY m.n DESC".to_owned()
        }
        MessageDetail::ToolCalls => "message m WHERE m.session = ?1 AND m.n > 0 ORDER BY m.n".to_owned(),
        _ => "document d CROSS JOIN message m ON m.session = d.owner AND m.n = d.n \
              WHERE d.owner = ?1 AND d.kind = 3 ORDER BY d.position, d.id"
            .to_owned(),
    };
    // Few documents are not OpenCode's own, and an index lists those: the rows of all others need not be looked up.
    let provenance = "CASE WHEN m.n IN (SELECT n FROM document WHERE provenance) \
                      THEN (SELECT o.provenance FROM document o WHERE o.n = m.n) ELSE 0 END";
    let sql = format!("SELECT {FIGURES}, m.n, {provenance}, {counted} FROM {messages}");
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query([session])?;
    while let Some(row) = rows.next()? {
        places.insert(row.get(13)?, figures.len());
        let provenance = Provenance::from_number(row.get(14)?);
        figures.push(Figures { provenance, n_parts: row.get(15)?, ..figures_of(row)? });
    }
    if figures.iter().any(|figures| !figures.provenance.is_verbatim()) {
        // Callers do not add up all of these messages, so each needs its own count.
        for (n, place) in &places {
            figures[*place].n_parts = n_parts(connection, *n)?;
        }
    } else if let (Some(sum), Some(first)) = (sum, figures.first_mut()) {
        first.n_parts = sum;
    }
    if detail == MessageDetail::PartCounts {
        return Ok(figures);
    }
    let order = if is_brief { "DESC" } else { "" };
    let sql = format!("SELECT tool, failed, ms, message FROM call WHERE session = ?1 ORDER BY n {order}");
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query([session])?;
    while let Some(row) = rows.next()? {
        if let Some(place) = places.get(&row.get(3)?) {
            figures[*place].calls.push(Call {
                tool: row.get(0)?,
                failed: row.get(1)?,
                duration: row.get(2)?,
            });
        }
    }
    Ok(figures)
}

impl SqliteStore {
    /// Rebuilds everything that is derived from documents, except for the text index.
    pub(super) fn rederive_all(&self) -> Result<(), CommitError> {
        let failed = |error: rusqlite::Error| self.commit_error(&error);
        let writing = self.write()?;
        rederive(&writing).map_err(failed)?;
        self.finish(writing)
    }
}

/// Rebuilds the states of messages, and the numbers of sessions that depend on them, after a change of the rule for states.
pub(super) fn rederive_states(connection: &Connection) -> rusqlite::Result<()> {
    let mut messages = connection.prepare("SELECT session, n, state FROM message WHERE n > 0")?;
    let mut update = connection.prepare("UPDATE message SET state = ?3 WHERE session = ?1 AND n = ?2")?;
    let mut stale = connection.prepare("UPDATE session SET stale = 1 WHERE n = ?1")?;
    let known: Vec<(SessionRow, DocumentRow, i64)> = messages
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
        .collect::<rusqlite::Result<_>>()?;
    for (session, n, known) in known {
        let Some(document) = content::latest(connection, n)? else { continue };
        let state = Figures::of(&document.lens::<Message<'_>>(), 0).state.number();
        if state != known {
            update.execute((session, n, state))?;
            stale.execute([session])?;
        }
    }
    refresh(connection)
}

fn rederive(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(
        "DELETE FROM session WHERE n NOT IN (SELECT n FROM document); \
         DELETE FROM message WHERE n > 0 OR session NOT IN (SELECT n FROM session WHERE brief); \
         DELETE FROM call WHERE n > 0 OR session NOT IN (SELECT n FROM session WHERE brief)",
    )?;
    connection.execute(
        "INSERT OR IGNORE INTO session (n, stale) SELECT n, 1 FROM document WHERE kind = ?1",
        [Kind::Session.number()],
    )?;
    let mut sessions = connection.prepare("SELECT n, id FROM document WHERE kind = ?1")?;
    let sessions: Vec<(SessionRow, String)> = sessions
        .query_map([Kind::Session.number()], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    for (session, session_id) in sessions {
        for (message, message_id) in rows::below(connection, session, Kind::Message)? {
            let key = Kind::Message.key(&message_id, None, Some(&session_id), None);
            rederive_one(connection, session, session.document(), message, key)?;
            let mut parts = connection.prepare_cached(
                "SELECT n, id FROM document WHERE owner = ?1 AND kind = ?2 AND hash IS NOT NULL",
            )?;
            let mut rows = parts.query((message, Kind::Part.number()))?;
            while let Some(row) = rows.next()? {
                let (n, id): (DocumentRow, String) = (row.get(0)?, row.get(1)?);
                let key = Kind::Part.key(&id, Some(&message_id), Some(&session_id), None);
                rederive_one(connection, session, message, n, key)?;
            }
        }
        connection.prepare_cached("UPDATE session SET stale = 1 WHERE n = ?1")?.execute([session])?;
    }
    refresh(connection)
}

fn rederive_one(
    connection: &Connection,
    session: SessionRow,
    owner: DocumentRow,
    n: DocumentRow,
    key: Option<Key>,
) -> rusqlite::Result<()> {
    if let (Some(key), Some(document)) = (key, content::latest(connection, n)?) {
        Facts::of(&key, &document).store(connection, session, owner, n)?;
    }
    Ok(())
}
