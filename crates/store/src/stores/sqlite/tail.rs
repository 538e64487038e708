//! Text that is appended to a document while it is written: only the addition is stored.
//!
//! A document with such text is open: its row has everything but the string that grows, and the table `tail` has that string in pieces. The
//! next put closes the document (`streaming.rs`): its row has all of it again.

use annals_core::id::Millis;
use annals_core::{Append, Document};
use rusqlite::{Connection, OptionalExtension};

use super::codec::{self, Damage};
use super::numbers::{DocumentRow, RevisionMoment};
use crate::state_hash::StateHash;

/// The revision under which a tail has the text from before the first append.
pub(super) const BEGIN: i64 = 0;
/// How long the tails of a closed document are left for subscribers.
const LEFT_FOR: Millis = 60_000;

/// One piece of a string.
pub(super) struct Piece {
    pub(super) revision: i64,
    pub(super) field: String,
    pub(super) at: usize,
    pub(super) text: String,
}

/// The whole of an open document, now or at an earlier moment, given the content of its row. None if the text at that moment is not known,
/// because the first append came later.
pub(super) fn complete(
    connection: &Connection,
    n: DocumentRow,
    row: &Document,
    moment: Option<RevisionMoment>,
) -> rusqlite::Result<Result<Option<Document>, Damage>> {
    let pieces = match pieces(connection, n)? {
        Ok(pieces) => pieces,
        Err(damage) => return Ok(Err(damage)),
    };
    let mut text = String::new();
    let mut n_appends = 0;
    for piece in &pieces {
        if piece.revision != BEGIN {
            if !is_until(connection, piece.revision, moment)? {
                break;
            }
            n_appends += 1;
        }
        if piece.at != text.len() {
            return Ok(Err(Damage::Tail));
        }
        text.push_str(&piece.text);
    }
    let Some(first) = pieces.first() else { return Ok(Err(Damage::Tail)) };
    if n_appends == 0 && moment.is_some() {
        return Ok(Ok(None));
    }
    let field: Vec<&str> = first.field.split('.').collect();
    Ok(row.appended(&field, &text).map(Some).map_err(|_| Damage::Tail))
}

fn is_until(
    connection: &Connection,
    revision: i64,
    moment: Option<RevisionMoment>,
) -> rusqlite::Result<bool> {
    let Some((time, number)) = moment else { return Ok(true) };
    connection
        .prepare_cached("SELECT 1 FROM revision WHERE n = ?1 AND (time, n) <= (?2, ?3)")?
        .exists((revision, time, number))
}

fn pieces(connection: &Connection, n: DocumentRow) -> rusqlite::Result<Result<Vec<Piece>, Damage>> {
    let mut statement = connection.prepare_cached(
        "SELECT revision, field, at, text, hash FROM tail WHERE document = ?1 ORDER BY revision",
    )?;
    let mut rows = statement.query([n])?;
    let mut pieces = Vec::new();
    while let Some(row) = rows.next()? {
        let piece = Piece {
            revision: row.get(0)?,
            field: row.get(1)?,
            at: row.get::<_, i64>(2)?.try_into().unwrap_or(usize::MAX),
            text: row.get(3)?,
        };
        let hash = row.get_ref(4)?.as_bytes_or_null()?.and_then(StateHash::read);
        if hash != Some(hash_of(n, &piece)) {
            return Ok(Err(Damage::Tail));
        }
        pieces.push(piece);
    }
    Ok(Ok(pieces))
}

fn hash_of(n: DocumentRow, piece: &Piece) -> StateHash {
    StateHash::of(piece.text.as_bytes()).bound(n, piece.revision, Some(&piece.field))
}

/// The text that a revision appended to a document, as far as it is still kept.
pub(super) fn appended(
    connection: &Connection,
    n: DocumentRow,
    revision: i64,
) -> rusqlite::Result<Option<Append>> {
    connection
        .prepare_cached("SELECT field, at, text FROM tail WHERE document = ?1 AND revision = ?2")?
        .query_row((n, revision), |row| {
            let field: String = row.get(0)?;
            let at = row.get::<_, i64>(1)?.try_into().unwrap_or(usize::MAX);
            Ok(Append { field: field.split('.').map(str::to_owned).collect(), at, text: row.get(2)? })
        })
        .optional()
}

/// Removes the tails of documents that were closed a while ago.
pub(super) fn sweep(connection: &Connection, now: Millis) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "DELETE FROM tail WHERE document IN (SELECT d.n FROM document d LEFT JOIN revision r ON r.n = d.revision \
             WHERE d.n IN (SELECT DISTINCT document FROM tail) AND coalesce(d.form, 0) < ?1 AND coalesce(r.time, 0) < ?2)",
        )?
        .execute((codec::OPEN, now - LEFT_FOR))
        .map(drop)
}

pub(super) fn insert(connection: &Connection, n: DocumentRow, piece: &Piece) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO tail (document, revision, field, at, hash, text) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute((n, piece.revision, &piece.field, piece.at as i64, hash_of(n, piece), &piece.text))
        .map(drop)
}
