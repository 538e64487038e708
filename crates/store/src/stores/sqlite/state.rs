//! The latest state of a document, as its row tells it.

use annals_core::{Key, Position};
use rusqlite::{Connection, OptionalExtension, Row};

use super::codec;
use super::kind::Kind;
use super::numbers::DocumentRow;
use crate::follow::HomeNumber;
use crate::state_hash::StateHash;

/// A document's latest state.
#[derive(Debug, Clone)]
pub(super) struct State {
    pub(super) n: DocumentRow,
    pub(super) position: Position,
    pub(super) project: Option<String>,
    pub(super) since: i64,
    pub(super) home: Option<HomeNumber>,
    pub(super) hash: Option<StateHash>,
    /// Whether the document exists.
    pub(super) is_present: bool,
    /// Whether text is being appended to the document: see `tail.rs`. Then `hash` is that of the rest of it.
    pub(super) is_open: bool,
}

impl State {
    /// Whether any home has, or had, the document.
    pub(super) fn is_followed(&self, connection: &Connection) -> rusqlite::Result<bool> {
        Ok(self.home.is_some()
            || connection.prepare_cached("SELECT 1 FROM held WHERE document = ?1")?.exists([self.n])?)
    }

    /// Whether this is a session that is filed under another project than the key says.
    pub(super) fn is_elsewhere(&self, key: &Key) -> bool {
        matches!(key, Key::Session(project, _) if self.project.as_deref() != Some(project.as_str()))
    }
}

/// The latest state of a document.
pub(super) fn state(
    connection: &Connection,
    owner: impl Into<DocumentRow>,
    kind: Kind,
    id: &str,
) -> rusqlite::Result<Option<State>> {
    let sql = concat!(
        "SELECT n, position, project, since, home, hash, form FROM document ",
        "WHERE owner = ?1 AND kind = ?2 AND id = ?3"
    );
    connection.prepare_cached(sql)?.query_row((owner.into(), kind.number(), id), read_state).optional()
}

/// The latest state of the document with a number.
pub(super) fn state_at(connection: &Connection, n: DocumentRow) -> rusqlite::Result<Option<State>> {
    connection
        .prepare_cached("SELECT n, position, project, since, home, hash, form FROM document WHERE n = ?1")?
        .query_row([n], read_state)
        .optional()
}

fn read_state(row: &Row<'_>) -> rusqlite::Result<State> {
    let hash = row.get_ref(5)?.as_bytes_or_null()?.and_then(StateHash::read);
    Ok(State {
        n: row.get(0)?,
        position: Position::new(row.get(1)?),
        project: row.get(2)?,
        since: row.get(3)?,
        home: row.get(4)?,
        hash,
        is_present: hash.is_some(),
        is_open: row.get::<_, Option<i64>>(6)?.is_some_and(codec::is_open),
    })
}
