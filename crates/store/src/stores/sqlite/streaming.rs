//! Documents that are written piece by piece: opened with the first text that is appended, closed with the next put.

use annals_core::id::Millis;
use annals_core::json::Node;
use annals_core::{Append, AppendError, Document};
use rusqlite::{Connection, OptionalExtension};

use super::codec::{self, is_open};
use super::content::latest;
use super::numbers::DocumentRow;
use super::tail::{self, Piece};

/// Checks that an append fits a document, and opens the document if necessary. The document must be present.
pub(super) fn prepare(
    connection: &Connection,
    n: DocumentRow,
    append: &Append,
    now: Millis,
) -> rusqlite::Result<Result<(), AppendError>> {
    let field = append.field.join(".");
    let last: Option<(String, i64)> = match is_open(form_of(connection, n)?) {
        true => connection
            .prepare_cached(
                "SELECT field, at + octet_length(text) FROM tail WHERE document = ?1 ORDER BY revision DESC LIMIT 1",
            )?
            .query_row([n], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?,
        false => None,
    };
    if let Some((open_field, length)) = last {
        if open_field != field {
            // Another string of the document grows now.
            close(connection, n)?;
            return open(connection, n, append, &field, now);
        }
        let found = usize::try_from(length).unwrap_or(usize::MAX);
        return Ok(match found == append.at {
            true => Ok(()),
            false => Err(AppendError::Length { field, found, expected: append.at }),
        });
    }
    open(connection, n, append, &field, now)
}

/// Moves the string that is going to grow out of the document's row.
fn open(
    connection: &Connection,
    n: DocumentRow,
    append: &Append,
    field: &str,
    now: Millis,
) -> rusqlite::Result<Result<(), AppendError>> {
    let Some(document) = latest(connection, n)? else {
        return Ok(Err(AppendError::Length { field: field.to_owned(), found: 0, expected: append.at }));
    };
    // This also says whether the append fits at all.
    if let Err(error) = append.apply(&document) {
        return Ok(Err(error));
    }
    let path: Vec<&str> = append.field.iter().map(String::as_str).collect();
    let text = document.root().at(&path).and_then(Node::as_text).map(|text| text.to_str().into_owned());
    let rest = match document.with(&path, "") {
        Ok(rest) => rest,
        Err(error) => return Ok(Err(error.into())),
    };
    tail::sweep(connection, now)?;
    connection.prepare_cached("DELETE FROM tail WHERE document = ?1")?.execute([n])?;
    let piece =
        Piece { revision: tail::BEGIN, field: field.to_owned(), at: 0, text: text.unwrap_or_default() };
    tail::insert(connection, n, &piece)?;
    store(connection, n, &rest, codec::OPEN)?;
    Ok(Ok(()))
}

/// Stores the text of an append that [`prepare`] has checked.
pub(super) fn add(
    connection: &Connection,
    n: DocumentRow,
    revision: i64,
    append: &Append,
) -> rusqlite::Result<()> {
    let (field, text) = (append.field.join("."), append.text.clone());
    tail::insert(connection, n, &Piece { revision, field, at: append.at, text })
}

/// Closes a document: stores all of it in its row. Its state stays the same.
pub(super) fn close(connection: &Connection, n: DocumentRow) -> rusqlite::Result<()> {
    match latest(connection, n)? {
        Some(document) => store(connection, n, &document, 0),
        // It is damaged; what replaces it is written over it.
        None => Ok(()),
    }
}

fn form_of(connection: &Connection, n: DocumentRow) -> rusqlite::Result<i64> {
    connection
        .prepare_cached("SELECT coalesce(form, 0) FROM document WHERE n = ?1")?
        .query_row([n], |row| row.get(0))
}

fn store(connection: &Connection, n: DocumentRow, document: &Document, flag: i64) -> rusqlite::Result<()> {
    let packed = codec::pack(document.bytes());
    connection
        .prepare_cached("UPDATE document SET hash = ?2, form = ?3, size = ?4, data = ?5 WHERE n = ?1")?
        .execute((n, packed.hash, packed.form + flag, packed.size as i64, codec::Column(&packed)))
        .map(drop)
}
