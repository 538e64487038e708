//! Rows as they are, with all their columns, for operations that can be taken back.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use annals_core::id::SessionId;
use annals_core::{Change, Key};
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, OptionalExtension, Row};
use serde::{Deserialize, Serialize};

use super::OpencodeDatabase;
use super::diff_file;
use super::schema::{self, Schema};
use crate::home::pieces::{Exchange, Noter, Piece, Undo, hash_of};
use crate::home::{CommitError, ConflictKind, ReadError, Write};

/// Where the file of a diff is, inside the data directory.
const DIFFS: &str = "storage/session_diff/";

/// A stored row. Field names and the letters of types are part of the bytes that operations keep.
#[derive(Debug, Serialize, Deserialize)]
struct StoredRow(Vec<(String, StoredCell)>);

impl StoredRow {
    /// The number of the row, where no column shows it.
    fn number(&mut self) -> Option<&mut i64> {
        self.0.iter_mut().find_map(|(name, cell)| match (&name[..], cell) {
            ("rowid", StoredCell::Integer(number)) => Some(number),
            _ => None,
        })
    }
}

/// A row as it is to be, with the number that it has now: see [`hash_of`]. Anything else as it is.
fn with_number_of(current: &[u8], bytes: &[u8]) -> rusqlite::Result<Vec<u8>> {
    let rows = (serde_json::from_slice::<StoredRow>(current), serde_json::from_slice::<StoredRow>(bytes));
    let (Ok(mut current), Ok(mut row)) = rows else { return Ok(bytes.to_vec()) };
    if let (Some(now), Some(number)) = (current.number(), row.number()) {
        *number = *now;
    }
    serde_json::to_vec(&row).map_err(unwritable)
}

/// A value with its type, so that it comes back as it was.
#[derive(Debug, Clone, Serialize, Deserialize)]
enum StoredCell {
    #[serde(rename = "n")]
    Null,
    #[serde(rename = "i")]
    Integer(i64),
    /// The bits of a floating-point number: no text of it is as exact for every value.
    #[serde(rename = "r")]
    Real(u64),
    #[serde(rename = "t")]
    Text(String),
    /// Text that is not UTF-8.
    #[serde(rename = "x")]
    RawText(Vec<u8>),
    #[serde(rename = "b")]
    Blob(Vec<u8>),
}

impl StoredCell {
    fn of(value: ValueRef<'_>) -> StoredCell {
        match value {
            ValueRef::Null => StoredCell::Null,
            ValueRef::Integer(number) => StoredCell::Integer(number),
            ValueRef::Real(number) => StoredCell::Real(number.to_bits()),
            ValueRef::Text(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => StoredCell::Text(text.to_owned()),
                Err(_) => StoredCell::RawText(bytes.to_vec()),
            },
            ValueRef::Blob(bytes) => StoredCell::Blob(bytes.to_vec()),
        }
    }

    fn value(self) -> Value {
        match self {
            StoredCell::Null => Value::Null,
            StoredCell::Integer(number) => Value::Integer(number),
            StoredCell::Real(bits) => Value::Real(f64::from_bits(bits)),
            StoredCell::Text(text) => Value::Text(text),
            StoredCell::RawText(bytes) | StoredCell::Blob(bytes) => Value::Blob(bytes),
        }
    }

    fn is_raw_text(&self) -> bool {
        matches!(self, StoredCell::RawText(_))
    }
}

/// A table, as far as its rows have to be told apart.
struct KeyedTable {
    name: String,
    /// The columns of its key, or `rowid` where it has none.
    key: Vec<String>,
    has_rowid: bool,
}

impl KeyedTable {
    fn read(connection: &Connection, name: &str) -> rusqlite::Result<Option<KeyedTable>> {
        let without_rowid: Option<bool> = connection
            .prepare_cached("SELECT wr FROM pragma_table_list WHERE name = ?1 AND type = 'table'")?
            .query_row([name], |row| row.get(0))
            .optional()?;
        let Some(without_rowid) = without_rowid else { return Ok(None) };
        let mut statement =
            connection.prepare_cached("SELECT name FROM pragma_table_info(?1) WHERE pk > 0 ORDER BY pk")?;
        let mut key: Vec<String> =
            statement.query_map([name], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
        if key.is_empty() {
            key.push("rowid".to_owned());
        }
        Ok(Some(KeyedTable { name: name.to_owned(), key, has_rowid: !without_rowid }))
    }

    /// What to select of a row: its columns, and its number where the table has one that no column shows.
    fn selected(&self) -> &'static str {
        if self.has_rowid { "rowid AS rowid, *" } else { "*" }
    }

    /// Reads the row that a statement is at: its place and its bytes.
    fn row(&self, row: &Row<'_>) -> rusqlite::Result<(String, Vec<u8>)> {
        let names: Vec<String> = row.as_ref().column_names().map(str::to_owned).collect();
        let mut cells: Vec<(String, StoredCell)> = Vec::with_capacity(names.len());
        for (n, name) in names.into_iter().enumerate() {
            if !cells.iter().any(|(known, _)| *known == name) {
                cells.push((name, StoredCell::of(row.get_ref(n)?)));
            }
        }
        let key: Vec<&StoredCell> = self
            .key
            .iter()
            .filter_map(|name| Some(&cells.iter().find(|(known, _)| known == name)?.1))
            .collect();
        let key = serde_json::to_string(&key).map_err(unwritable)?;
        let place = format!("{}{key}", self.name);
        let bytes = serde_json::to_vec(&StoredRow(cells)).map_err(unwritable)?;
        Ok((place, bytes))
    }

    /// The row in a place.
    fn at(&self, connection: &Connection, key: &[StoredCell]) -> rusqlite::Result<Option<Vec<u8>>> {
        let sql =
            format!("SELECT {} FROM {} WHERE {}", self.selected(), quoted(&self.name), self.condition());
        let values: Vec<Value> = key.iter().cloned().map(StoredCell::value).collect();
        connection
            .prepare_cached(&sql)?
            .query_row(rusqlite::params_from_iter(values), |row| Ok(self.row(row)?.1))
            .optional()
    }

    fn condition(&self) -> String {
        let equal: Vec<String> = self.key.iter().map(|column| format!("{} IS ?", quoted(column))).collect();
        equal.join(" AND ")
    }

    fn delete(&self, connection: &Connection, key: &[StoredCell]) -> rusqlite::Result<()> {
        let values: Vec<Value> = key.iter().cloned().map(StoredCell::value).collect();
        connection
            .prepare_cached(&format!("DELETE FROM {} WHERE {}", quoted(&self.name), self.condition()))?
            .execute(rusqlite::params_from_iter(values))
            .map(drop)
    }

    /// Writes a row: a new one, or over the one that has its key. An existing row is changed and not replaced: what refers to it would go
    /// with it.
    fn write(
        &self,
        connection: &Connection,
        row: StoredRow,
        is_there: bool,
        key: &[StoredCell],
    ) -> rusqlite::Result<()> {
        let columns: Vec<String> = row.0.iter().map(|(name, _)| quoted(name)).collect();
        let marks: Vec<&str> =
            row.0.iter().map(|(_, cell)| if cell.is_raw_text() { "CAST(? AS TEXT)" } else { "?" }).collect();
        let mut values: Vec<Value> = row.0.into_iter().map(|(_, cell)| cell.value()).collect();
        let sql = match is_there {
            false => format!(
                "INSERT INTO {} ({}) VALUES ({})",
                quoted(&self.name),
                columns.join(", "),
                marks.join(", ")
            ),
            true => {
                let set: Vec<String> =
                    columns.iter().zip(&marks).map(|(column, mark)| format!("{column} = {mark}")).collect();
                values.extend(key.iter().cloned().map(StoredCell::value));
                format!("UPDATE {} SET {} WHERE {}", quoted(&self.name), set.join(", "), self.condition())
            }
        };
        connection.prepare_cached(&sql)?.execute(rusqlite::params_from_iter(values)).map(drop)
    }
}

fn unwritable(error: serde_json::Error) -> rusqlite::Error {
    rusqlite::Error::ToSqlConversionFailure(Box::new(error))
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// The rows that a transaction can change: of a column's value, with the session they belong to.
pub(super) struct ChangeScope<'s> {
    home: &'s OpencodeDatabase,
    rows: BTreeSet<(String, String, String)>,
    /// Changes of files.
    pub(super) diffs: Vec<&'s Change>,
}

/// Rows by their places, with the session they belong to.
pub(super) type Rows = BTreeMap<String, (Option<String>, Vec<u8>)>;

impl<'s> ChangeScope<'s> {
    pub(super) fn of(home: &'s OpencodeDatabase, changes: &'s [Change]) -> ChangeScope<'s> {
        let mut scope = ChangeScope { home, rows: BTreeSet::new(), diffs: Vec::new() };
        for change in changes {
            if let Some(session) = change.key.session() {
                // Its totals change with its messages.
                scope.add("session", "id", session.as_str());
            }
            match &change.key {
                Key::Project(id) => scope.add("project", "id", id.as_str()),
                Key::Session(project, id) => {
                    scope.add("project", "id", project.as_str());
                    if change.is_deletion() {
                        scope.add_session(id.as_str());
                    }
                }
                Key::Message(_, id) => {
                    scope.add("message", "id", id.as_str());
                    scope.add("session_message", "id", id.as_str());
                    if change.is_deletion() {
                        scope.add("part", "message_id", id.as_str());
                    }
                }
                Key::Part(_, _, id) => scope.add("part", "id", id.as_str()),
                Key::Todo(id) => scope.add("todo", "session_id", id.as_str()),
                Key::Share(id) => scope.add("session_share", "session_id", id.as_str()),
                Key::Diff(_) => scope.diffs.push(change),
                Key::LegacyShare(_) | Key::Record(..) => {}
            }
        }
        scope
    }

    fn add(&mut self, table: &str, column: &str, value: &str) {
        if self.home.schema.has_column(table, column) {
            self.rows.insert((table.to_owned(), column.to_owned(), value.to_owned()));
        }
    }

    /// Everything that belongs to a session, in whatever table.
    fn add_session(&mut self, session: &str) {
        for (table, column) in session_columns(&self.home.schema) {
            self.rows.insert((table, column.to_owned(), session.to_owned()));
        }
    }

    /// The rows as they are now.
    pub(super) fn rows(&self, connection: &Connection) -> rusqlite::Result<Rows> {
        let mut found = Rows::new();
        for (table, column, value) in &self.rows {
            found.extend(rows_with(connection, table, column, value)?);
        }
        Ok(found)
    }

    /// The files as they are now.
    pub(super) fn files(&self) -> Vec<Piece> {
        let file = |change: &&&Change| {
            let session = change.key.session()?;
            let before = self.home.diff_path(session).and_then(|path| std::fs::read(path).ok());
            Some(Piece {
                place: format!("{DIFFS}{session}.json"),
                session: Some(session.clone()),
                before,
                after: None,
            })
        };
        self.diffs.iter().filter_map(|change| file(&change)).collect()
    }
}

/// The column of each table that says which session a row belongs to.
fn session_columns(schema: &Schema) -> Vec<(String, &'static str)> {
    let column = |table: &str| match table {
        "session" => Some("id"),
        "event" | "event_sequence" => Some("aggregate_id"),
        _ => Some("session_id"),
    };
    let tables = schema.tables().filter_map(|table| Some((table.to_owned(), column(table)?)));
    tables.filter(|(table, column)| schema.has_column(table, column)).collect()
}

fn rows_with(connection: &Connection, table: &str, column: &str, value: &str) -> rusqlite::Result<Rows> {
    let Some(table) = KeyedTable::read(connection, table)? else { return Ok(Rows::new()) };
    let sql =
        format!("SELECT {} FROM {} WHERE {} = ?1", table.selected(), quoted(&table.name), quoted(column));
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query([value])?;
    let mut found = Rows::new();
    while let Some(row) = rows.next()? {
        let session = match &table.name[..] {
            "session" => row.get::<_, Option<String>>("id").ok().flatten(),
            "event" | "event_sequence" => row.get::<_, Option<String>>("aggregate_id").ok().flatten(),
            _ => row.get::<_, Option<String>>("session_id").ok().flatten(),
        };
        let (place, bytes) = table.row(row)?;
        found.insert(place, (session, bytes));
    }
    Ok(found)
}

/// What is different between two states of rows.
pub(super) fn differences(before: Rows, mut after: Rows) -> Vec<Piece> {
    let session = |id: Option<String>| id.and_then(|id| SessionId::parse_opencode(&id).ok());
    let mut pieces = Vec::new();
    for (place, (id, before)) in before {
        let after = after.remove(&place).map(|(_, after)| after);
        if after.as_ref() != Some(&before) {
            pieces.push(Piece { place, session: session(id), before: Some(before), after });
        }
    }
    pieces.extend(after.into_iter().map(|(place, (id, after))| Piece {
        place,
        session: session(id),
        before: None,
        after: Some(after),
    }));
    pieces
}

/// A row or file by its place.
enum PiecePlace {
    Row(KeyedTable, Vec<StoredCell>),
    File(PathBuf),
}

impl OpencodeDatabase {
    fn place(&self, connection: &Connection, place: &str) -> rusqlite::Result<Option<PiecePlace>> {
        if let Some(name) = place.strip_prefix(DIFFS) {
            let session = name.strip_suffix(".json").and_then(|id| SessionId::parse_opencode(id).ok());
            return Ok(session.and_then(|session| self.diff_path(&session)).map(PiecePlace::File));
        }
        let Some((table, key)) = place.split_once('[') else { return Ok(None) };
        let Ok(key) = serde_json::from_str::<Vec<StoredCell>>(&format!("[{key}")) else { return Ok(None) };
        let table = KeyedTable::read(connection, table)?.filter(|table| table.key.len() == key.len());
        Ok(table.map(|table| PiecePlace::Row(table, key)))
    }

    fn stored_at(&self, connection: &Connection, place: &str) -> rusqlite::Result<Option<Vec<u8>>> {
        match self.place(connection, place)? {
            Some(PiecePlace::Row(table, key)) => table.at(connection, &key),
            Some(PiecePlace::File(path)) => Ok(std::fs::read(path).ok()),
            None => Ok(None),
        }
    }

    fn exchange_on(&self, connection: &Connection, pieces: &[Exchange]) -> Result<(), CommitError> {
        let failed = |error: rusqlite::Error| self.failed(error);
        let schema = Schema::probe(connection).map_err(failed)?;
        if let Some(found) = schema.unwritable() {
            let path = self.path.display().to_string();
            return Err(CommitError::UnknownSchema { path, found, supported: schema::NEWEST });
        }
        connection.execute_batch("PRAGMA defer_foreign_keys = ON").map_err(failed)?;
        let mut noted = Vec::new();
        let mut numbers = BTreeMap::new();
        for piece in pieces {
            let current = self.stored_at(connection, &piece.place).map_err(failed)?;
            if hash_of(current.as_ref()) != piece.expected {
                return Err(altered(piece, current.is_some()));
            }
            let after = match (&current, &piece.bytes) {
                (None, Some(bytes)) => {
                    Some(self.with_free_number(connection, piece, bytes, &mut numbers).map_err(failed)?)
                }
                (Some(current), Some(bytes)) => Some(with_number_of(current, bytes).map_err(failed)?),
                (_, None) => None,
            };
            let (place, session) = (piece.place.clone(), piece.session.clone());
            noted.push(Piece { place, session, before: current, after });
        }
        self.refuse_to_orphan(connection, &schema, &noted)?;
        if let Some(noter) = &self.noter {
            noter.note(&noted)?;
        }
        for piece in &noted {
            self.write_row(connection, piece).map_err(failed)?;
        }
        self.write_files(&noted)
    }

    /// With a session that is removed, all that belongs to it goes. What came later must not go with it.
    fn refuse_to_orphan(
        &self,
        connection: &Connection,
        schema: &Schema,
        pieces: &[Piece],
    ) -> Result<(), CommitError> {
        let failed = |error: rusqlite::Error| self.failed(error);
        let places: BTreeSet<&str> = pieces.iter().map(|piece| piece.place.as_str()).collect();
        let removed =
            pieces.iter().filter(|piece| piece.after.is_none() && piece.place.starts_with("session["));
        for session in removed.filter_map(|piece| piece.session.as_ref()) {
            for (table, column) in session_columns(schema) {
                let rows = rows_with(connection, &table, column, session.as_str()).map_err(failed)?;
                if let Some(place) = rows.keys().find(|place| !places.contains(place.as_str())) {
                    return Err(CommitError::Altered {
                        place: place.clone(),
                        session: Some(session.clone()),
                        what: ConflictKind::Exists,
                    });
                }
            }
        }
        let removed =
            pieces.iter().filter(|piece| piece.after.is_none() && piece.place.starts_with("message["));
        for piece in removed {
            let Ok(key) = serde_json::from_str::<Vec<StoredCell>>(&piece.place["message".len()..]) else {
                continue;
            };
            let [StoredCell::Text(message)] = &key[..] else { continue };
            let rows = rows_with(connection, "part", "message_id", message).map_err(failed)?;
            if let Some(place) = rows.keys().find(|place| !places.contains(place.as_str())) {
                return Err(CommitError::Altered {
                    place: place.clone(),
                    session: piece.session.clone(),
                    what: ConflictKind::Exists,
                });
            }
        }
        Ok(())
    }

    /// A row that comes back gets another number where some other row has its number by now. Nothing refers to these numbers. `given`
    /// has the last one that was given in each table.
    fn with_free_number(
        &self,
        connection: &Connection,
        piece: &Exchange,
        bytes: &[u8],
        given: &mut BTreeMap<String, i64>,
    ) -> rusqlite::Result<Vec<u8>> {
        let Some(PiecePlace::Row(table, _)) = self.place(connection, &piece.place)? else {
            return Ok(bytes.to_vec());
        };
        let mut row: StoredRow = serde_json::from_slice(bytes).map_err(unwritable)?;
        let is_key = table.key.iter().any(|column| column == "rowid");
        let Some(number) = row.number().filter(|_| !is_key) else { return Ok(bytes.to_vec()) };
        let is_taken = connection
            .prepare_cached(&format!("SELECT 1 FROM {} WHERE rowid = ?1", quoted(&table.name)))?
            .exists([*number])?;
        if !is_taken {
            return Ok(bytes.to_vec());
        }
        let highest: i64 = connection
            .prepare_cached(&format!("SELECT max(rowid) FROM {}", quoted(&table.name)))?
            .query_row([], |row| row.get(0))?;
        // Beyond what any row that comes back with its own number can have.
        let last = given.entry(table.name).or_insert_with(|| highest.saturating_add(1_000_000));
        *last += 1;
        *number = *last;
        serde_json::to_vec(&row).map_err(unwritable)
    }

    fn write_row(&self, connection: &Connection, piece: &Piece) -> rusqlite::Result<()> {
        let Some(PiecePlace::Row(table, key)) = self.place(connection, &piece.place)? else { return Ok(()) };
        match &piece.after {
            Some(bytes) => {
                let row: StoredRow = serde_json::from_slice(bytes).map_err(unwritable)?;
                table.write(connection, row, piece.before.is_some(), &key)
            }
            None => table.delete(connection, &key),
        }
    }

    fn write_files(&self, pieces: &[Piece]) -> Result<(), CommitError> {
        let path = |piece: &Piece| self.diff_path(piece.session.as_ref()?);
        let files: Vec<&Piece> = pieces.iter().filter(|piece| piece.place.starts_with(DIFFS)).collect();
        let written: Vec<diff_file::DiffFile<'_>> = files
            .iter()
            .filter_map(|piece| {
                Some(diff_file::DiffFile { path: path(piece)?, bytes: piece.after.as_deref()? })
            })
            .collect();
        diff_file::stage(&written).and_then(diff_file::place)?;
        for piece in files.iter().filter(|piece| piece.after.is_none()) {
            if let Some(path) = path(piece) {
                diff_file::remove(&path).map_err(|error| diff_file::not_written(&path, error))?;
            }
        }
        Ok(())
    }
}

impl Undo for OpencodeDatabase {
    fn note_commits(&mut self, noter: Noter) {
        self.noter = Some(noter);
    }

    fn exchange(&self, pieces: &[Exchange]) -> Result<(), CommitError> {
        if let Some(process) = self.connections.endangered() {
            return Err(CommitError::Endangered { path: self.path.display().to_string(), process });
        }
        self.connections.write(
            |error| self.failed(error),
            |connection| self.end(connection, self.exchange_on(connection, pieces)),
        )
    }

    fn stored(&self, places: &[&str]) -> Result<Vec<Option<Vec<u8>>>, ReadError> {
        let stored = self.read(|connection| {
            places.iter().map(|place| self.stored_at(connection, place)).collect::<rusqlite::Result<Vec<_>>>()
        });
        stored.map_err(|error| self.read_error(&error))
    }

    fn sweep(&self) {
        diff_file::sweep(self);
    }

    fn as_write(&self) -> &dyn Write {
        self
    }
}

fn altered(piece: &Exchange, is_there: bool) -> CommitError {
    let what = match (is_there, piece.expected) {
        (false, _) => ConflictKind::Gone,
        (true, None) => ConflictKind::Exists,
        (true, Some(_)) => ConflictKind::Changed,
    };
    CommitError::Altered { place: piece.place.clone(), session: piece.session.clone(), what }
}
