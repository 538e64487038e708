//! Names of documents for people, as far as the rows or the index of a damaged file tell them.

use std::collections::{HashMap, HashSet};

use annals_core::id::SessionId;
use rusqlite::{Connection, OptionalExtension};

use super::super::kind::Kind;
use crate::home::row_place;

/// A document by the name that people know it by.
pub(super) struct NamedDocument {
    pub(super) place: String,
    pub(super) session: Option<String>,
}

/// The columns of `document` that tell where a row belongs.
#[derive(Debug, Clone)]
pub(super) struct DocumentEntry {
    pub(super) owner: i64,
    pub(super) kind: i64,
    pub(super) id: String,
    pub(super) is_there: bool,
}

impl DocumentEntry {
    pub(super) fn of(connection: &Connection, n: i64) -> rusqlite::Result<Option<DocumentEntry>> {
        connection
            .prepare_cached("SELECT owner, kind, id, hash IS NOT NULL FROM document WHERE n = ?1")?
            .query_row([n], |row| {
                Ok(DocumentEntry {
                    owner: row.get(0)?,
                    kind: row.get(1)?,
                    id: row.get(2)?,
                    is_there: row.get(3)?,
                })
            })
            .optional()
    }
}

impl NamedDocument {
    /// The name of a document, as far as it can be found.
    pub(super) fn of(connection: &Connection, n: i64) -> NamedDocument {
        NamedDocument::found(n, |n| DocumentEntry::of(connection, n).ok().flatten())
    }

    fn found(n: i64, standing: impl Fn(i64) -> Option<DocumentEntry>) -> NamedDocument {
        let nameless = || NamedDocument { place: format!("document {n}"), session: None };
        let Some(this) = standing(n) else { return nameless() };
        let above = standing(this.owner).filter(|_| this.owner != 0);
        let top = above.as_ref().and_then(|above| standing(above.owner).filter(|_| above.owner != 0));
        let (message, session) = match (Kind::from_number(this.kind), &above, &top) {
            (Some(Kind::Session), ..) => (None, Some(this.id.as_str())),
            (Some(Kind::Part), Some(message), Some(session)) => {
                (Some(message.id.as_str()), Some(session.id.as_str()))
            }
            (_, Some(session), _) => (None, Some(session.id.as_str())),
            _ => (None, None),
        };
        let kind = Kind::from_number(this.kind);
        let key = kind.and_then(|kind| kind.key(&this.id, message, session, None));
        let session = session.filter(|id| SessionId::parse(id).is_ok()).map(str::to_owned);
        let place = match (key, kind) {
            (Some(key), _) => row_place(&key),
            // The owner cannot be read.
            (None, Some(Kind::Message)) => format!("message[{}]", this.id),
            (None, Some(Kind::Part)) => format!("part[{}]", this.id),
            _ => nameless().place,
        };
        NamedDocument { place, session }
    }
}

/// The entries of the index of documents for rows that cannot be read.
#[derive(Debug, Default)]
pub(super) struct DocumentIndex {
    pub(super) wanted: Vec<i64>,
    entries: HashMap<i64, DocumentEntry>,
}

impl DocumentIndex {
    /// Reads the entries of the rows that `is_wanted`, and of their owners. The index has all of these columns, so no row
    /// itself is touched.
    pub(super) fn read(
        connection: &Connection,
        is_wanted: &dyn Fn(i64) -> bool,
    ) -> rusqlite::Result<DocumentIndex> {
        let mut index = DocumentIndex::default();
        let mut missing: HashSet<i64> = HashSet::new();
        // Rows, then messages, then sessions.
        for pass in 0..3 {
            let mut statement =
                connection.prepare("SELECT n, owner, kind, id FROM document INDEXED BY document_key")?;
            let mut rows = statement.query([])?;
            let mut found = Vec::new();
            // The rest of a damaged index cannot be read.
            while let Ok(Some(row)) = rows.next() {
                let (Ok(n), Ok(owner)) = (row.get::<_, i64>(0), row.get::<_, i64>(1)) else { continue };
                if (pass == 0 && is_wanted(n)) || missing.contains(&n) {
                    let (Ok(kind), Ok(id)) = (row.get(2), row.get(3)) else { continue };
                    found.push((n, DocumentEntry { owner, kind, id, is_there: true }));
                }
            }
            if pass == 0 {
                index.wanted = found.iter().map(|(n, _)| *n).collect();
            }
            missing = found.iter().map(|(_, entry)| entry.owner).filter(|owner| *owner != 0).collect();
            index.entries.extend(found);
            missing.retain(|n| !index.entries.contains_key(n));
            if missing.is_empty() {
                break;
            }
        }
        index.wanted.sort_unstable();
        Ok(index)
    }

    pub(super) fn name(&self, n: i64) -> Option<NamedDocument> {
        self.entries.get(&n)?;
        Some(NamedDocument::found(n, |n| self.entries.get(&n).cloned()))
    }
}
