//! Whole tables of states, a page of rows at a time and around what is damaged, with every text compared with its hash.

use annals_core::Key;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row};

use super::SqliteStore;
use super::codec::{self, Damage, Hash};
use super::kind::Kind;
use crate::sqlite::is_damage;

/// So many rows are read in one transaction.
const PAGE: usize = 1024;
/// So many ranges are tried before the rest of a table is given up: one that is damaged throughout would otherwise be
/// tried row by row.
const MAX_PROBES: usize = 20_000;
/// No row takes less of a file than this, which bounds the number of rows where it cannot be asked for.
const SMALLEST_ROW: i64 = 16;

/// A table of states.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Table {
    Document,
    Past,
}

/// Rows that cannot be read: the first and the last document, and what SQLite said.
#[derive(Debug)]
pub(super) struct Unreadable {
    pub(super) first: i64,
    pub(super) last: i64,
    pub(super) what: String,
}

/// A state as it is stored.
#[derive(Debug)]
pub(super) enum Examined {
    /// The document did not exist.
    Absent,
    /// It did, but its text was pruned.
    Pruned,
    /// Its text, which is what its hash says.
    Text(Vec<u8>),
    /// It cannot be told.
    Flawed(String),
}

impl Table {
    pub(super) fn name(self) -> &'static str {
        match self {
            Table::Document => "document",
            Table::Past => "past",
        }
    }

    /// The column that has the number of the document. Each table is in its order.
    fn number(self) -> &'static str {
        match self {
            Table::Document => "n",
            Table::Past => "document",
        }
    }
}

/// The columns that [`examine`] reads, in this order.
pub(super) const EXAMINED: &str = "x.hash, x.form, x.size, x.data, x.project";

/// What an earlier state is bound to: its document and the revision with which it began. The latest state is to nothing.
pub(super) type Bound = Option<(i64, i64)>;

/// Compares a state with its hash. A row that was damaged may hold anything.
pub(super) fn examine(row: &Row<'_>, first: usize, bound: Bound) -> rusqlite::Result<Examined> {
    let (hash, form, size) = (row.get_ref(first)?, row.get_ref(first + 1)?, row.get_ref(first + 2)?);
    let data = row.get_ref(first + 3)?;
    let flawed = |what: &str| Ok(Examined::Flawed(what.to_owned()));
    let (hash, form, size) = match (hash, form, size, data) {
        (ValueRef::Null, ValueRef::Null, ValueRef::Null, ValueRef::Null) => return Ok(Examined::Absent),
        (ValueRef::Blob(hash), ValueRef::Integer(form), ValueRef::Integer(size), _) => (hash, form, size),
        _ => return flawed("its columns are not what they should be"),
    };
    let Some(hash) = Hash::read(hash) else { return flawed("its hash is none") };
    let project = row.get_ref(first + 4)?.as_str_or_null().ok().flatten();
    let hash = bound.map_or(hash, |(document, since)| hash.bound(document, since, project));
    let bytes = match data {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes,
        ValueRef::Null if form == codec::PRUNED => return Ok(Examined::Pruned),
        _ => return flawed("its text is missing"),
    };
    Ok(match codec::unpack(form, size, bytes, hash) {
        Ok(text) if text.len() as i64 != size => Examined::Flawed(Damage::Hash.to_string()),
        Ok(text) => Examined::Text(text),
        Err(damage) => Examined::Flawed(damage.to_string()),
    })
}

/// Whether row `n` is that of the document with a key. An index that is damaged may lead to another's.
pub(super) fn is_of(connection: &Connection, n: i64, key: &Key) -> rusqlite::Result<bool> {
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
    /// Calls `visit` with what `map` makes of each row that can be read, and returns which cannot. `columns` are those of
    /// `x`.
    pub(super) fn scan_states<T>(
        &self,
        table: Table,
        columns: &str,
        map: &dyn Fn(&Connection, &Row<'_>) -> rusqlite::Result<T>,
        visit: &mut dyn FnMut(T),
    ) -> rusqlite::Result<Vec<Unreadable>> {
        let (name, number) = (table.name(), table.number());
        let sql = format!(
            "SELECT {columns}, x.{number} AS numbered FROM {name} x WHERE x.{number} BETWEEN ?1 AND ?2 ORDER BY x.{number}"
        );
        let scan = Scan { table, sql, map };
        let mut next = i64::MIN;
        loop {
            match self.file.read(|connection| scan.rows(connection, (next, i64::MAX), PAGE)) {
                Ok((rows, following)) => {
                    rows.into_iter().for_each(&mut *visit);
                    match following {
                        Some(following) => next = following,
                        None => return Ok(Vec::new()),
                    }
                }
                Err(error) if is_damage(&error) => {
                    let (rows, unreadable) = self.file.read(|connection| scan.salvage(connection, next))?;
                    rows.into_iter().for_each(&mut *visit);
                    return Ok(unreadable);
                }
                Err(error) => return Err(error),
            }
        }
    }
}

struct Scan<'s, T> {
    table: Table,
    sql: String,
    map: &'s dyn Fn(&Connection, &Row<'_>) -> rusqlite::Result<T>,
}

impl<T> Scan<'_, T> {
    /// Some rows of documents in a range, and the document with which to go on. All states of a document come together.
    fn rows(
        &self,
        connection: &Connection,
        (from, to): (i64, i64),
        enough: usize,
    ) -> rusqlite::Result<(Vec<T>, Option<i64>)> {
        let mut statement = connection.prepare_cached(&self.sql)?;
        let mut rows = statement.query((from, to))?;
        let (mut found, mut last) = (Vec::new(), None);
        while let Some(row) = rows.next()? {
            let number = match row.get_ref("numbered")? {
                ValueRef::Integer(number) => number,
                // No number can be anything else.
                _ => continue,
            };
            if found.len() >= enough && last != Some(number) {
                return Ok((found, Some(number)));
            }
            last = Some(number);
            found.push((self.map)(connection, row)?);
        }
        Ok((found, None))
    }

    /// The rows from a document on that can be read, and the ranges that cannot, found by halving.
    fn salvage(&self, connection: &Connection, from: i64) -> rusqlite::Result<(Vec<T>, Vec<Unreadable>)> {
        let (name, number) = (self.table.name(), self.table.number());
        let end = |which: &str| -> Option<i64> {
            let sql = format!("SELECT {which}({number}) FROM {name}");
            connection.query_row(&sql, [], |row| row.get(0)).ok().flatten()
        };
        let bytes = connection.query_row(
            "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size",
            [],
            |row| row.get::<_, i64>(0),
        )?;
        let first = end("min").unwrap_or(1).max(from);
        let last = end("max").unwrap_or(first.saturating_add(bytes / SMALLEST_ROW));
        let mut found = Vec::new();
        let mut unreadable: Vec<Unreadable> = Vec::new();
        let mut ranges = vec![(first, last)];
        let mut n_probes = 0;
        while let Some((from, to)) = ranges.pop() {
            n_probes += 1;
            match self.rows(connection, (from, to), usize::MAX) {
                Ok((rows, _)) => found.extend(rows),
                Err(error) if is_damage(&error) && (from >= to || n_probes > MAX_PROBES) => {
                    match unreadable.last_mut() {
                        Some(before) if before.last + 1 == from => before.last = to,
                        _ => unreadable.push(Unreadable { first: from, last: to, what: error.to_string() }),
                    }
                }
                Err(error) if is_damage(&error) => {
                    let middle = from + (to - from) / 2;
                    ranges.push((middle + 1, to));
                    ranges.push((from, middle));
                }
                Err(error) => return Err(error),
            }
        }
        Ok((found, unreadable))
    }
}
