//! Whole tables, a page of rows at a time, and around what is damaged: where a table cannot be read from end to end, the
//! ranges of rows that can be are found by halving.

use std::collections::HashMap;

use annals_core::id::MessageId;
use annals_core::{Document, Key, Stored};
use rusqlite::{Connection, Row};

use super::OpencodeDatabase;
use super::column::{self, Column};
use super::read::{
    Cell, RowCursor, add_part, array, message_record, names, object, place_of, sort_parts, text_of,
};
use crate::home::{DamagedRows, Found, MessageRecord, Quarantined, ReadError, Reason, SessionRecord, Want};
use crate::sqlite::is_damage;

/// So many rows are read in one transaction.
const PAGE: usize = 1024;
/// So many ranges are tried before the rest of a table is given up: one that is damaged throughout would otherwise be
/// tried row by row.
const MAX_PROBES: usize = 20_000;
/// No row takes less of a file than this, which bounds the number of rows where it cannot be asked for.
const SMALLEST_ROW: i64 = 16;

/// Which rows of which table, and what becomes of each.
struct Scan<'s, T> {
    table: &'s str,
    sql: String,
    /// The session that `?4` stands for, where only its rows are wanted.
    session: Option<&'s str>,
    map: &'s dyn Fn(&Row<'_>) -> rusqlite::Result<T>,
}

impl<T> Scan<'_, T> {
    /// At most `limit` rows with ids in a range, with the id of the last.
    fn rows(
        &self,
        connection: &Connection,
        (from, to): (i64, i64),
        limit: usize,
    ) -> rusqlite::Result<(Vec<T>, i64)> {
        let mut statement = connection.prepare_cached(&self.sql)?;
        let mut rows = match self.session {
            None => statement.query((from, to, limit))?,
            Some(session) => statement.query((from, to, limit, session))?,
        };
        let (mut found, mut last) = (Vec::new(), from);
        while let Some(row) = rows.next()? {
            found.push((self.map)(row)?);
            last = row.get("rowid")?;
        }
        Ok((found, last))
    }
}

impl OpencodeDatabase {
    /// All rows of a table, or those of a session, in no particular order. `columns` come first in each row.
    pub(super) fn scan<T>(
        &self,
        table: &str,
        columns: &str,
        session: Option<&str>,
        map: &dyn Fn(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Found<Vec<T>>, ReadError> {
        // The plus keeps SQLite from using an index, which may be what is damaged.
        let filter = if session.is_some() { "AND +session_id = ?4" } else { "" };
        let sql = format!(
            "SELECT {columns}, rowid FROM {table} WHERE rowid BETWEEN ?1 AND ?2 {filter} ORDER BY rowid LIMIT ?3"
        );
        let scan = Scan { table, sql, session, map };
        let mut found: Found<Vec<T>> = Found::default();
        let mut next = i64::MIN;
        loop {
            match self.read(|connection| scan.rows(connection, (next, i64::MAX), PAGE)) {
                Ok((rows, last)) => {
                    let is_last = rows.len() < PAGE || last == i64::MAX;
                    found.value.extend(rows);
                    if is_last {
                        return Ok(found);
                    }
                    next = last + 1;
                }
                Err(error) if is_damage(&error) => {
                    let salvaged = self.read(|connection| salvage(connection, &scan, next));
                    let (rows, damaged) = salvaged.map_err(|error| self.read_error(&error))?;
                    found.value.extend(rows);
                    found.quarantined.extend(damaged);
                    return Ok(found);
                }
                Err(error) => return Err(self.read_error(&error)),
            }
        }
    }

    /// A document that stands beside a session, found without any index. `None` if that cannot be told: other documents
    /// are found by reading their session.
    pub(super) fn salvage_document(&self, key: &Key) -> Result<Option<Option<Stored>>, ReadError> {
        let (session, table, known): (_, _, &'static [Column]) = match key {
            Key::Todo(session) => (session, "todo", column::TODO),
            Key::Share(session) => (session, "session_share", column::SHARE),
            _ => return Ok(None),
        };
        let columns = self.schema.present(table, known);
        // The position last; a share has none, and needs none.
        let position = if table == "todo" { "position" } else { "0" };
        let list = format!("{}, {position}", names(&columns));
        let mut rows = self.scan(table, &list, Some(session.as_str()), &|row| {
            Ok((Cell::from(row.get_ref(columns.len())?), object(table, &columns, row, Some(session))?.0))
        })?;
        if !rows.quarantined.is_empty() {
            return Ok(None);
        }
        rows.value.sort_by_key(|(position, _)| match position {
            Cell::Integer(position) => *position,
            _ => i64::MAX,
        });
        let documents: Vec<Document> = rows.value.into_iter().map(|(_, document)| document).collect();
        let document = match (key, documents.first()) {
            (_, None) => return Ok(Some(None)),
            (Key::Todo(_), _) => array(&documents).ok(),
            (_, Some(first)) => Some(first.clone()),
        };
        Ok(document.map(|document| Some(Stored::new(key.clone(), document, place_of(key)))))
    }

    /// The messages of a session from a position on, found without any index.
    pub(super) fn salvage_messages(
        &self,
        session: &SessionRecord,
        want: Want,
        after: Option<&RowCursor>,
        quarantined: &mut Vec<Quarantined>,
    ) -> Result<Vec<MessageRecord>, ReadError> {
        let id = session.id.as_str();
        let messages = self.scan("message", "id, time_created, data", Some(id), &|row| {
            Ok(message_record(&session.id, row.get_ref(0)?, row.get_ref(1)?, row.get_ref(2)?))
        })?;
        quarantined.extend(messages.quarantined.into_iter().map(|problem| problem.of(&session.id)));
        let mut records = Vec::new();
        for read in messages.value {
            match read {
                Ok(record) => records.push(record),
                Err(problem) => quarantined.push(problem),
            }
        }
        if let Some((Cell::Integer(time), Cell::Text(last))) = after {
            records.retain(|record| (record.made, message_id(record).as_bytes()) > (*time, last.as_slice()));
        }
        records.sort_by(|a, b| (a.made, message_id(a)).cmp(&(b.made, message_id(b))));
        let places: HashMap<String, usize> = records
            .iter()
            .enumerate()
            .map(|(place, record)| (message_id(record).to_owned(), place))
            .collect();
        let parts = self.scan("part", "message_id, id, data", Some(id), &|row| {
            Ok((text_of(row.get_ref(0)?), Cell::from(row.get_ref(1)?), Cell::from(row.get_ref(2)?)))
        })?;
        quarantined.extend(parts.quarantined.into_iter().map(|problem| problem.of(&session.id)));
        for (message, part, data) in parts.value {
            let (Some(&place), Ok(message)) = (places.get(&message), MessageId::parse_opencode(&message))
            else {
                continue;
            };
            add_part(&session.id, &message, &mut records[place], part.value(), data.value());
        }
        for record in &mut records {
            record.parts.sort_by(|a, b| a.place.cmp(&b.place));
            sort_parts(record);
            if want == Want::PartCounts {
                record.parts.clear();
            }
        }
        Ok(records)
    }
}

fn message_id(record: &MessageRecord) -> &str {
    match &record.stored.key {
        Key::Message(_, id) => id.as_str(),
        _ => "",
    }
}

/// The rows from an id on that can be read, and the ranges that cannot.
fn salvage<T>(
    connection: &Connection,
    scan: &Scan<'_, T>,
    from: i64,
) -> rusqlite::Result<(Vec<T>, Vec<Quarantined>)> {
    let first: rusqlite::Result<Option<i64>> =
        connection.query_row(&format!("SELECT min(rowid) FROM {}", scan.table), [], |row| row.get(0));
    let last: rusqlite::Result<Option<i64>> =
        connection.query_row(&format!("SELECT max(rowid) FROM {}", scan.table), [], |row| row.get(0));
    let bytes = connection.query_row(
        "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size",
        [],
        |row| row.get::<_, i64>(0),
    )?;
    let first = first.ok().flatten().unwrap_or(1).max(from);
    let last = last.ok().flatten().unwrap_or(first.saturating_add(bytes / SMALLEST_ROW));
    let mut found = Vec::new();
    let mut damaged: Vec<((i64, i64), String)> = Vec::new();
    let mut ranges = vec![(first, last)];
    let mut n_probes = 0;
    while let Some((from, to)) = ranges.pop() {
        n_probes += 1;
        let is_given_up = n_probes > MAX_PROBES;
        match scan.rows(connection, (from, to), usize::MAX >> 1) {
            Ok((rows, _)) => found.extend(rows),
            Err(error) if is_damage(&error) && (from >= to || is_given_up) => match damaged.last_mut() {
                Some(((_, end), _)) if *end + 1 == from => *end = to,
                _ => damaged.push(((from, to), error.to_string())),
            },
            Err(error) if is_damage(&error) => {
                let middle = from + (to - from) / 2;
                ranges.push((middle + 1, to));
                ranges.push((from, middle));
            }
            Err(error) => return Err(error),
        }
    }
    let quarantined = damaged.into_iter().map(|((from, to), what)| Quarantined {
        place: DamagedRows { table: scan.table.to_owned(), first: from, last: to }.to_string(),
        reason: Reason::Damaged(what),
        session: None,
    });
    Ok((found, quarantined.collect()))
}
