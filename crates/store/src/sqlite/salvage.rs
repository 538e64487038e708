//! Whole tables, a page of rows at a time, and around what is damaged: where a table cannot be read from end to end, the
//! ranges of rows that can be read are found by halving.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row, ToSql};

use super::is_damage;

/// Rows after which one transaction stops reading.
const PAGE: usize = 1024;
/// Ranges that are tried before the rest of a table is given up: one that is damaged throughout would otherwise be tried
/// row by row.
const MAX_PROBES: usize = 20_000;
/// Bytes of a file that a row takes at least. It bounds the number of rows where the table cannot tell it.
const SMALLEST_ROW: i64 = 16;

/// Rows of a table, in the order of a column of integers by which SQLite finds them.
pub(crate) struct Scan<'s, T> {
    /// Called `x` in `columns` and `condition`.
    pub(crate) table: &'s str,
    pub(crate) number: &'s str,
    pub(crate) columns: &'s str,
    /// Which rows are wanted: empty, or a condition that begins with `AND` and has its parameters from `?3` on.
    pub(crate) condition: &'s str,
    pub(crate) parameters: &'s [&'s dyn ToSql],
    /// What becomes of a row.
    pub(crate) map: &'s dyn Fn(&Connection, &Row<'_>) -> rusqlite::Result<T>,
}

/// Rows that cannot be read: the first and the last number, and what SQLite said.
#[derive(Debug)]
pub(crate) struct Unreadable {
    pub(crate) first: i64,
    pub(crate) last: i64,
    pub(crate) what: String,
}

/// What one transaction has read.
#[derive(Debug)]
pub(crate) struct ScanPage<T> {
    rows: Vec<T>,
    /// The number to go on with.
    next: Option<i64>,
    unreadable: Vec<Unreadable>,
}

impl<T> Scan<'_, T> {
    /// Calls `visit` with each row that can be read, and returns which cannot. `read` runs its argument in a transaction.
    pub(crate) fn run(
        &self,
        read: impl Fn(
            &mut dyn FnMut(&Connection) -> rusqlite::Result<ScanPage<T>>,
        ) -> rusqlite::Result<ScanPage<T>>,
        visit: &mut dyn FnMut(T),
    ) -> rusqlite::Result<Vec<Unreadable>> {
        let mut from = i64::MIN;
        loop {
            let page = match read(&mut |connection| self.page(connection, (from, i64::MAX), PAGE)) {
                Err(error) if is_damage(&error) => read(&mut |connection| self.salvage(connection, from)),
                page => page,
            }?;
            page.rows.into_iter().for_each(&mut *visit);
            match page.next {
                Some(next) => from = next,
                None => return Ok(page.unreadable),
            }
        }
    }

    /// Some rows of a range. All rows with the same number come together.
    fn page(
        &self,
        connection: &Connection,
        (from, to): (i64, i64),
        enough: usize,
    ) -> rusqlite::Result<ScanPage<T>> {
        let Scan { table, number, columns, condition, .. } = self;
        let mut statement = connection.prepare_cached(&format!(
            "SELECT {columns}, x.{number} FROM {table} x \
             WHERE x.{number} BETWEEN ?1 AND ?2 {condition} ORDER BY x.{number}"
        ))?;
        let number_column = statement.column_count() - 1;
        let range: [&dyn ToSql; 2] = [&from, &to];
        let parameters: Vec<&dyn ToSql> = range.iter().chain(self.parameters).copied().collect();
        let mut found = statement.query(parameters.as_slice())?;
        let (mut rows, mut last) = (Vec::new(), None);
        while let Some(row) = found.next()? {
            // A row number is always an integer.
            let ValueRef::Integer(number) = row.get_ref(number_column)? else { continue };
            if rows.len() >= enough && last != Some(number) {
                return Ok(ScanPage { rows, next: Some(number), unreadable: Vec::new() });
            }
            last = Some(number);
            rows.push((self.map)(connection, row)?);
        }
        Ok(ScanPage { rows, next: None, unreadable: Vec::new() })
    }

    /// The rows from a number on that can be read, and the ranges that cannot.
    fn salvage(&self, connection: &Connection, from: i64) -> rusqlite::Result<ScanPage<T>> {
        let (first, last) = self.ends(connection, from)?;
        let mut salvaged = ScanPage { rows: Vec::new(), next: None, unreadable: Vec::<Unreadable>::new() };
        let mut ranges = vec![(first, last)];
        let mut n_probes = 0;
        while let Some((from, to)) = ranges.pop() {
            n_probes += 1;
            match self.page(connection, (from, to), usize::MAX) {
                Ok(page) => salvaged.rows.extend(page.rows),
                Err(error) if is_damage(&error) && (from >= to || n_probes > MAX_PROBES) => {
                    match salvaged.unreadable.last_mut() {
                        Some(before) if before.last + 1 == from => before.last = to,
                        _ => {
                            let what = error.to_string();
                            salvaged.unreadable.push(Unreadable { first: from, last: to, what });
                        }
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
        Ok(salvaged)
    }

    /// The first and the last number there can be from `from` on.
    fn ends(&self, connection: &Connection, from: i64) -> rusqlite::Result<(i64, i64)> {
        let end = |which: &str| -> Option<i64> {
            let sql = format!("SELECT {which}({}) FROM {}", self.number, self.table);
            connection.query_row(&sql, [], |row| row.get(0)).ok().flatten()
        };
        let bytes: i64 = connection.query_row(
            "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size",
            [],
            |row| row.get(0),
        )?;
        let first = end("min").unwrap_or(1).max(from);
        let last = end("max").unwrap_or(first.saturating_add(bytes / SMALLEST_ROW));
        Ok((first, last))
    }
}
