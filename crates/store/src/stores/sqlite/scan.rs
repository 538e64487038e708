//! Scans of whole tables of states, a page of rows at a time and around damage, with every text checked against its hash.

use annals_core::Key;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row};

use super::SqliteStore;
use super::codec::{self, Damage};
use super::content;
use super::kind::Kind;
use super::numbers::DocumentRow;
use crate::sqlite::salvage::{Scan, Unreadable};
use crate::state_hash::StateHash;

/// A table of states.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StateTable {
    Document,
    Past,
}

/// A state as it is stored.
#[derive(Debug)]
pub(super) enum Examined {
    /// The document did not exist.
    Absent,
    /// The document existed, but its text was pruned.
    Pruned,
    /// The text, which matches its hash.
    Text(Vec<u8>),
    /// The state cannot be read, for this reason.
    Flawed(String),
}

impl StateTable {
    pub(super) fn name(self) -> &'static str {
        match self {
            StateTable::Document => "document",
            StateTable::Past => "past",
        }
    }

    /// The column with the number of the document. Each table is in the order of this column.
    fn number(self) -> &'static str {
        match self {
            StateTable::Document => "n",
            StateTable::Past => "document",
        }
    }
}

/// The columns that [`examine`] reads, in this order.
pub(super) const EXAMINED: &str = "x.hash, x.form, x.size, x.data, x.project";

/// The document and the first revision that the hash of an earlier state is bound to. None for the latest state.
pub(super) type Bound = Option<(DocumentRow, i64)>;

/// Compares a state with its hash. A row that was damaged may hold anything.
pub(super) fn examine(
    connection: &Connection,
    row: &Row<'_>,
    first: usize,
    bound: Bound,
) -> rusqlite::Result<Examined> {
    let (hash, form, size) = (row.get_ref(first)?, row.get_ref(first + 1)?, row.get_ref(first + 2)?);
    let data = row.get_ref(first + 3)?;
    let flawed = |what: &str| Ok(Examined::Flawed(what.to_owned()));
    let (hash, form, size) = match (hash, form, size, data) {
        (ValueRef::Null, ValueRef::Null, ValueRef::Null, ValueRef::Null) => return Ok(Examined::Absent),
        (ValueRef::Blob(hash), ValueRef::Integer(form), ValueRef::Integer(size), _) => (hash, form, size),
        _ => return flawed("its columns have values of the wrong type"),
    };
    let Some(hash) = StateHash::read(hash) else { return flawed("its hash is none") };
    let project = row.get_ref(first + 4)?.as_str_or_null().ok().flatten();
    let hash = bound.map_or(hash, |(document, since)| hash.bound(document, since, project));
    let bytes = match data {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes,
        ValueRef::Null if form == codec::PRUNED => return Ok(Examined::Pruned),
        _ => return flawed("its text is missing"),
    };
    Ok(match content::unpack(connection, form, size, bytes, hash)? {
        Ok(text) if text.len() as i64 != size => Examined::Flawed(Damage::Hash.to_string()),
        Ok(text) => Examined::Text(text),
        Err(damage) => Examined::Flawed(damage.to_string()),
    })
}

/// Whether row `n` is that of the document with a key. A damaged index may lead to another document's row.
pub(super) fn is_of(connection: &Connection, n: DocumentRow, key: &Key) -> rusqlite::Result<bool> {
    let (id, owner) = match key {
        Key::Project(id) => (id.as_str(), None),
        Key::Session(_, id) => (id.as_str(), None),
        Key::Message(session, id) => (id.as_str(), Some(session.as_str())),
        Key::Part(_, message, id) => (id.as_str(), Some(message.as_str())),
        Key::Record(session, id) => (id.as_str(), Some(session.as_str())),
        Key::Todo(session) | Key::Diff(session) | Key::Share(session) | Key::LegacyShare(session) => {
            ("", Some(session.as_str()))
        }
    };
    connection
        .prepare_cached(
            "SELECT 1 FROM document x LEFT JOIN document o ON o.n = x.owner \
             WHERE x.n = ?1 AND x.kind = ?2 AND x.id = ?3 AND o.id IS ?4",
        )?
        .exists((n, Kind::of(key).number(), id, owner))
}

impl SqliteStore {
    /// Calls `visit` with the value that `map` gives for each readable row, and returns the unreadable ones. `columns` are
    /// those of `x`.
    pub(super) fn scan_states<T>(
        &self,
        table: StateTable,
        columns: &str,
        map: &dyn Fn(&Connection, &Row<'_>) -> rusqlite::Result<T>,
        visit: &mut dyn FnMut(T),
    ) -> rusqlite::Result<Vec<Unreadable>> {
        let scan = Scan {
            table: table.name(),
            number: table.number(),
            columns,
            condition: "",
            parameters: &[],
            map,
        };
        scan.run(|work| self.file.read(work), visit)
    }
}
