//! The content of a document, in whatever form its row has it.

use annals_core::Document;
use rusqlite::{Connection, OptionalExtension, Row};

use super::codec::{self, Damage, is_open};
use super::numbers::DocumentRow;
use super::{shared, tail};
use crate::state_hash::StateHash;

/// The text of a state, checked against its hash. Of an open document, the part that its row has.
pub(super) fn unpack(
    connection: &Connection,
    form: i64,
    size: i64,
    bytes: &[u8],
    hash: StateHash,
) -> rusqlite::Result<Result<Vec<u8>, Damage>> {
    match form == codec::SHARED {
        true => shared::unpack(connection, bytes, hash),
        false => Ok(codec::unpack(form, size, bytes, hash)),
    }
}

/// Document `n`, from a row with the columns `hash`, `form`, `size` and `data`, beginning at `first`. None if it does not exist,
/// or is damaged: to callers that derive something from it, both are the same.
pub(super) fn document(
    connection: &Connection,
    n: DocumentRow,
    row: &Row<'_>,
    first: usize,
) -> rusqlite::Result<Option<Document>> {
    let Some(hash) = row.get_ref(first)?.as_bytes_or_null().ok().flatten().and_then(StateHash::read) else {
        return Ok(None);
    };
    let number = |column: usize| row.get_ref(column).map(|value| value.as_i64().unwrap_or(codec::PRUNED));
    let (form, size) = (number(first + 1)?, number(first + 2)?);
    let bytes = row.get_ref(first + 3)?.as_bytes_or_null().ok().flatten().unwrap_or_default();
    let text = unpack(connection, form, size, bytes, hash)?.ok();
    let Some(document) = text.and_then(|text| Document::parse(text).ok()) else { return Ok(None) };
    match is_open(form) {
        true => Ok(tail::complete(connection, n, &document, None)?.ok().flatten()),
        false => Ok(Some(document)),
    }
}

/// A document as it is now, for callers that derive something from it or compare with it. None if it is damaged.
pub(super) fn latest(connection: &Connection, n: DocumentRow) -> rusqlite::Result<Option<Document>> {
    connection
        .prepare_cached("SELECT hash, form, size, data FROM document WHERE n = ?1")?
        .query_row([n], |row| document(connection, n, row, 0))
        .optional()
        .map(Option::flatten)
}
