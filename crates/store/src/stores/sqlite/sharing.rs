//! Lets a document share its text with the one that it is a copy of.

use annals_core::Document;
use rusqlite::{Connection, OptionalExtension};

use super::codec::{self, Column, Packed};
use super::content::latest;
use super::numbers::DocumentRow;
use super::shared;

/// Shorter documents are stored as they are: their ids are most of them.
const SHORT: usize = 600;

/// Lets a document that is stored already share its text with the one that it is a copy of. False if it cannot.
pub(super) fn share_stored(
    connection: &Connection,
    origin: DocumentRow,
    copy: DocumentRow,
) -> rusqlite::Result<bool> {
    if is_growing(connection, copy)? {
        return Ok(false);
    }
    let Some(document) = latest(connection, copy)? else { return Ok(false) };
    let Some(reference) = share(connection, origin, &document)? else { return Ok(false) };
    store(connection, copy, &reference)?;
    Ok(true)
}

/// Whether text is still being appended to a document, so that its row has only a part of it.
fn is_growing(connection: &Connection, n: DocumentRow) -> rusqlite::Result<bool> {
    let form: Option<i64> = connection
        .prepare_cached("SELECT form FROM document WHERE n = ?1")?
        .query_row([n], |row| row.get(0))
        .optional()?
        .flatten();
    Ok(form.is_some_and(codec::is_open))
}

/// Stores a document so that it shares its text with another one, of which it is a copy with other ids. None if the two differ in more, are
/// too short, or the other one still grows.
pub(super) fn share(
    connection: &Connection,
    origin: DocumentRow,
    copy: &Document,
) -> rusqlite::Result<Option<Packed>> {
    if is_growing(connection, origin)? {
        return Ok(None);
    }
    let Some(original) = latest(connection, origin)?.filter(|original| original.bytes().len() >= SHORT)
    else {
        return Ok(None);
    };
    let (Some((text, ids)), Some((copied, other_ids))) = (shared::cut(&original), shared::cut(copy)) else {
        return Ok(None);
    };
    if text != copied {
        return Ok(None);
    }
    let packed = codec::pack(text.as_bytes());
    let known: Option<i64> = connection
        .prepare_cached("SELECT n FROM shared WHERE hash = ?1")?
        .query_row([packed.hash], |row| row.get(0))
        .optional()?;
    let number = match known {
        Some(number) => number,
        None => {
            connection
                .prepare_cached("INSERT INTO shared (hash, form, size, data) VALUES (?1, ?2, ?3, ?4)")?
                .execute((packed.hash, packed.form, packed.size as i64, Column(&packed)))?;
            connection.last_insert_rowid()
        }
    };
    store(connection, origin, &shared::reference(number, &ids, &original))?;
    Ok(Some(shared::reference(number, &other_ids, copy)))
}

/// Stores a document in another form. Its state stays the same.
fn store(connection: &Connection, n: DocumentRow, packed: &Packed) -> rusqlite::Result<()> {
    connection
        .prepare_cached("UPDATE document SET form = ?2, size = ?3, data = ?4 WHERE n = ?1")?
        .execute((n, packed.form, packed.size as i64, Column(packed)))
        .map(drop)
}

/// Removes texts that no document has any more.
pub(super) fn sweep(connection: &Connection) -> rusqlite::Result<()> {
    let is_empty = !connection.prepare_cached("SELECT 1 FROM shared LIMIT 1")?.exists([])?;
    if is_empty {
        return Ok(());
    }
    connection
        .execute(
            "DELETE FROM shared WHERE n NOT IN (SELECT json_extract(data, '$[0]') FROM document WHERE form = ?1 \
             UNION ALL SELECT json_extract(data, '$[0]') FROM past WHERE form = ?1)",
            [codec::SHARED],
        )
        .map(drop)
}
