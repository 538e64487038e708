//! Rows of documents: the number of a document, the documents below another one, and their order.

use annals_core::{Key, Position, position};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension};

use super::kind::Kind;
use super::numbers::{DocumentRow, SessionRow};
use crate::state_hash::StateHash;

/// The number of a document, if the store has a place for it.
pub(super) fn number(
    connection: &Connection,
    owner: impl Into<DocumentRow>,
    kind: Kind,
    id: &str,
) -> rusqlite::Result<Option<DocumentRow>> {
    connection
        .prepare_cached("SELECT n FROM document WHERE owner = ?1 AND kind = ?2 AND id = ?3")?
        .query_row((owner.into(), kind.number(), id), |row| row.get(0))
        .optional()
}

/// The number of a session, if the store has a place for it.
pub(super) fn session_row(connection: &Connection, id: &str) -> rusqlite::Result<Option<SessionRow>> {
    Ok(number(connection, DocumentRow::NO_OWNER, Kind::Session, id)?.map(SessionRow::from))
}

/// The number of the document with a key.
pub(super) fn number_of(connection: &Connection, key: &Key) -> rusqlite::Result<Option<DocumentRow>> {
    let root = match key {
        Key::Project(id) => return number(connection, DocumentRow::NO_OWNER, Kind::Project, id.as_str()),
        key => key.session(),
    };
    let Some(session) = root else { return Ok(None) };
    let Some(session) = session_row(connection, session.as_str())? else { return Ok(None) };
    match key {
        Key::Session(..) => Ok(Some(session.document())),
        Key::Message(_, message) => number(connection, session, Kind::Message, message.as_str()),
        Key::Record(_, record) => number(connection, session, Kind::Record, record.as_str()),
        Key::Part(_, message, part) => match number(connection, session, Kind::Message, message.as_str())? {
            Some(message) => number(connection, message, Kind::Part, part.as_str()),
            None => Ok(None),
        },
        key => number(connection, session, Kind::of(key), ""),
    }
}

/// The document with a number, and the documents it belongs to.
pub(super) struct Placed {
    pub(super) key: Key,
    /// The session, itself if it is one; 0 for a project.
    pub(super) session: SessionRow,
    /// The message, itself if it is one.
    pub(super) message: Option<DocumentRow>,
}

/// Finds the document with a number.
pub(super) fn placed(connection: &Connection, n: DocumentRow) -> rusqlite::Result<Option<Placed>> {
    type NamedRow = (i64, DocumentRow, String, Option<String>);
    let row = |n: DocumentRow| -> rusqlite::Result<Option<NamedRow>> {
        connection
            .prepare_cached("SELECT kind, owner, id, project FROM document WHERE n = ?1")?
            .query_row([n], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))
            .optional()
    };
    let Some((kind, owner, id, project)) = row(n)? else { return Ok(None) };
    let Some(kind) = Kind::from_number(kind) else { return Ok(None) };
    let (session, message, key) = match kind {
        Kind::Project => (SessionRow::NONE, None, kind.key(&id, None, None, None)),
        Kind::Session => (n.into(), None, kind.key(&id, None, None, project.as_deref())),
        Kind::Part => {
            let Some((_, session, message, _)) = row(owner)? else { return Ok(None) };
            let Some((_, _, session_id, _)) = row(session)? else { return Ok(None) };
            (session.into(), Some(owner), kind.key(&id, Some(&message), Some(&session_id), None))
        }
        _ => {
            let Some((_, _, session_id, _)) = row(owner)? else { return Ok(None) };
            let message = (kind == Kind::Message).then_some(n);
            (owner.into(), message, kind.key(&id, None, Some(&session_id), None))
        }
    };
    Ok(key.map(|key| Placed { key, session, message }))
}

/// The documents of a kind below another one, in the order of the conversation: numbers and ids. The index alone answers
/// this.
pub(super) fn below(
    connection: &Connection,
    owner: impl Into<DocumentRow>,
    kind: Kind,
) -> rusqlite::Result<Vec<(DocumentRow, String)>> {
    let mut statement = connection
        .prepare_cached("SELECT n, id, position FROM document WHERE owner = ?1 AND kind = ?2 ORDER BY id")?;
    let rows = statement.query_map((owner.into(), kind.number()), |row| {
        Ok((Position::new(row.get(2)?), (row.get::<_, DocumentRow>(0)?, row.get::<_, String>(1)?)))
    })?;
    let found: Vec<(Position, (DocumentRow, String))> = rows.collect::<rusqlite::Result<_>>()?;
    Ok(in_order(found))
}

/// Every document that belongs or belonged to a session; for session 0, the projects.
pub(super) fn documents_of(
    connection: &Connection,
    session: SessionRow,
) -> rusqlite::Result<Vec<(DocumentRow, Key)>> {
    let mut found = Vec::new();
    if session == SessionRow::NONE {
        for (n, id) in below(connection, DocumentRow::NO_OWNER, Kind::Project)? {
            found.extend(Kind::Project.key(&id, None, None, None).map(|key| (n, key)));
        }
        return Ok(found);
    }
    let named: Option<(String, Option<String>)> = connection
        .prepare_cached("SELECT id, project FROM document WHERE n = ?1")?
        .query_row([session], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((id, project)) = named else { return Ok(found) };
    found.extend(Kind::Session.key(&id, None, None, project.as_deref()).map(|key| (session.document(), key)));
    for (message, message_id) in below(connection, session, Kind::Message)? {
        found.extend(Kind::Message.key(&message_id, None, Some(&id), None).map(|key| (message, key)));
        for (part, part_id) in below(connection, message, Kind::Part)? {
            found.extend(Kind::Part.key(&part_id, Some(&message_id), Some(&id), None).map(|key| (part, key)));
        }
    }
    for (record, record_id) in below(connection, session, Kind::Record)? {
        found.extend(Kind::Record.key(&record_id, None, Some(&id), None).map(|key| (record, key)));
    }
    for kind in Kind::BESIDE {
        if let Some(n) = number(connection, session, kind, "")? {
            found.extend(kind.key("", None, Some(&id), None).map(|key| (n, key)));
        }
    }
    Ok(found)
}

/// The numbers of the documents that a revision wrote, each once. Empty if the list is damaged.
pub(super) fn listed(column: ValueRef<'_>) -> Vec<DocumentRow> {
    let mut numbers: Vec<DocumentRow> =
        column.as_str().ok().and_then(|list| serde_json::from_str(list).ok()).unwrap_or_default();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

/// Sorts rows that were found in the order of ids into the order of the conversation: by position, then by id.
pub(super) fn in_order<T>(mut found: Vec<(Position, T)>) -> Vec<T> {
    position::sort_by_position(&mut found, |(position, _)| *position);
    found.into_iter().map(|(_, found)| found).collect()
}

/// The order of the homes of a session, the one that leads first: see `sync::compare::leader`.
pub(super) const LEADER_FIRST: &str =
    "o.gone IS NOT NULL, o.updated DESC, h.rank DESC, h.own DESC, o.turn DESC, h.n DESC";

/// Whether a home is noted to have a state of a document, so that its text must not be dropped.
pub(super) fn is_held(
    connection: &Connection,
    n: DocumentRow,
    state: Option<StateHash>,
) -> rusqlite::Result<bool> {
    connection.prepare_cached("SELECT 1 FROM held WHERE document = ?1 AND state = ?2")?.exists((n, state))
}
