//! Rows that hold a state of a document: the latest one, or an earlier one.

use annals_core::id::Millis;
use annals_core::{Document, Key, Provenance, stream};
use rusqlite::{Connection, Row};

use super::super::codec::{self, Damage};
use super::super::content;
use super::super::numbers::{DocumentRow, RevisionMoment};
use super::super::scan::Bound;
use super::super::tail;
use crate::home::{Quarantined, UnreadableReason};
use crate::state_hash::StateHash;

/// A row of `document` or `past`, without its key.
pub(in super::super) struct StateRow {
    pub(in super::super) project: Option<String>,
    pub(in super::super) provenance: Provenance,
    pub(in super::super) hash: Option<StateHash>,
    /// The text, checked against the hash.
    text: Result<Vec<u8>, Damage>,
    /// Whether the rest of the text is in `tail`.
    is_open: bool,
    /// The moment of the view, if this state was in progress then: a later revision continued it.
    pub(in super::super) in_progress: Option<Millis>,
}

/// The columns of [`StateRow`], in this order. They have the same names in both tables.
pub(in super::super) const STATE: &str = "x.project, x.hash, x.form, x.size, x.data, x.provenance";

impl StateRow {
    /// Reads a row. `bound` has the values that an earlier state's hash is combined with.
    pub(in super::super) fn read(
        connection: &Connection,
        row: &Row<'_>,
        first: usize,
        bound: Bound,
    ) -> rusqlite::Result<StateRow> {
        let project: Option<String> = row.get(first)?;
        let hash = row.get_ref(first + 1)?.as_bytes_or_null()?.and_then(StateHash::read);
        let hash = match bound {
            Some((document, since)) => hash.map(|hash| hash.bound(document, since, project.as_deref())),
            None => hash,
        };
        let form = row.get::<_, Option<i64>>(first + 2)?.unwrap_or(0);
        let size = row.get::<_, Option<i64>>(first + 3)?.unwrap_or(0);
        // Unpacked in place: the bytes may be large, and so would a copy be.
        let data = row.get_ref(first + 4)?.as_bytes_or_null()?.unwrap_or_default();
        let text = match hash {
            Some(hash) => content::unpack(connection, form, size, data, hash)?,
            None => Ok(Vec::new()),
        };
        let provenance = Provenance::from_number(row.get::<_, Option<i64>>(first + 5)?.unwrap_or(0));
        Ok(StateRow { project, provenance, hash, text, is_open: codec::is_open(form), in_progress: None })
    }

    /// This state with the text that was appended to it, up to a moment.
    pub(in super::super) fn complete(
        mut self,
        connection: &Connection,
        n: DocumentRow,
        moment: Option<RevisionMoment>,
    ) -> rusqlite::Result<StateRow> {
        if !self.is_open {
            return Ok(self);
        }
        let row = self.text.and_then(|text| Document::parse(text).map_err(|_| Damage::Tail));
        self.text = match row {
            Ok(row) => match tail::complete(connection, n, &row, moment)? {
                Ok(Some(whole)) => {
                    self.in_progress = None;
                    Ok(whole.text().as_bytes().to_vec())
                }
                // Its text at that moment is not known.
                Ok(None) => Ok(row.text().as_bytes().to_vec()),
                Err(damage) => Err(damage),
            },
            Err(damage) => Err(damage),
        };
        Ok(self)
    }

    /// Reads a row of a past moment. The column `is_step` says whether a later revision continued the state.
    pub(in super::super) fn read_then(
        connection: &Connection,
        row: &Row<'_>,
        bound: Bound,
        time: Millis,
    ) -> rusqlite::Result<StateRow> {
        let is_step: bool = row.get("is_step")?;
        Ok(StateRow { in_progress: is_step.then_some(time), ..StateRow::read(connection, row, 0, bound)? })
    }

    /// The document as it was. None if it did not exist in this state.
    pub(in super::super) fn document(self, key: &Key, place: &str) -> Result<Option<Document>, Quarantined> {
        let in_progress = self.in_progress;
        let kept = self.kept(place)?;
        Ok(match in_progress {
            Some(time) => kept.map(|kept| stream::earlier(key, &kept, time).document),
            None => kept,
        })
    }

    /// The document that is kept: for a state that was in progress, its final form.
    pub(in super::super) fn kept(self, place: &str) -> Result<Option<Document>, Quarantined> {
        if self.hash.is_none() {
            return Ok(None);
        }
        let damaged =
            |reason: UnreadableReason| Quarantined { place: place.to_owned(), reason, session: None };
        let text = self.text.map_err(|damage| damaged(damage.into()))?;
        Document::parse(text).map(Some).map_err(|error| damaged(UnreadableReason::Json(error)))
    }
}
