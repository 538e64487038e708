//! The numbers by which tables refer to rows, as types: a session's number cannot be mistaken for a message's, or for a count.

use annals_core::id::Millis;
use rusqlite::types::{FromSql, FromSqlResult, ToSql, ToSqlOutput, ValueRef};

use serde::{Deserialize, Serialize};

use crate::follow::HomeNumber;

/// The number of a document: the column `n` of the table `document`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct DocumentRow(pub(super) i64);

impl DocumentRow {
    /// The owner of a document that belongs to no other: a project or a session.
    pub(super) const NO_OWNER: DocumentRow = DocumentRow(0);
}

/// The number of a session: that of its document. 0 stands for the project records, which belong to no session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct SessionRow(pub(super) i64);

impl SessionRow {
    /// The session of project records.
    pub(super) const NONE: SessionRow = SessionRow(0);

    /// The number of the session's own document.
    pub(super) fn document(self) -> DocumentRow {
        DocumentRow(self.0)
    }
}

impl From<SessionRow> for DocumentRow {
    fn from(session: SessionRow) -> DocumentRow {
        session.document()
    }
}

impl From<DocumentRow> for SessionRow {
    /// The session whose own document has this number.
    fn from(document: DocumentRow) -> SessionRow {
        SessionRow(document.0)
    }
}

macro_rules! column {
    ($number:ty, $make:expr) => {
        impl ToSql for $number {
            fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
                Ok(ToSqlOutput::from(self.0))
            }
        }

        impl FromSql for $number {
            fn column_result(value: ValueRef<'_>) -> FromSqlResult<$number> {
                i64::column_result(value).map($make)
            }
        }
    };
}

column!(HomeNumber, HomeNumber);
column!(DocumentRow, DocumentRow);
column!(SessionRow, SessionRow);

/// A moment in the order of revisions: time, then number.
pub(super) type RevisionMoment = (Millis, i64);
