//! Rows and the documents they stand for.

use crate::homes::opencode::arrange;
use annals_core::id::{IdError, MessageId, PartId, SessionId};
use annals_core::json::{JsWriter, Style};
use annals_core::lens::{Message, Session};
use annals_core::{Document, Key, Position, Stored};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Row, ToSql};

use super::column::{DocumentColumn, write_object};
use crate::home::{MessageRecord, Quarantined, UnreadableReason, row_place};

/// `time_created` and `id` of a row, whatever they hold.
pub(super) type RowCursor = (ColumnValue, ColumnValue);

/// The value of a column. A text may be any bytes: SQLite does not check that it is UTF-8.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ColumnValue {
    Null,
    Integer(i64),
    Real(f64),
    Text(Vec<u8>),
    Blob(Vec<u8>),
}

impl ColumnValue {
    pub(super) fn value(&self) -> ValueRef<'_> {
        match self {
            ColumnValue::Null => ValueRef::Null,
            ColumnValue::Integer(number) => ValueRef::Integer(*number),
            ColumnValue::Real(number) => ValueRef::Real(*number),
            ColumnValue::Text(bytes) => ValueRef::Text(bytes),
            ColumnValue::Blob(bytes) => ValueRef::Blob(bytes),
        }
    }
}

impl From<ValueRef<'_>> for ColumnValue {
    fn from(value: ValueRef<'_>) -> ColumnValue {
        match value {
            ValueRef::Null => ColumnValue::Null,
            ValueRef::Integer(number) => ColumnValue::Integer(number),
            ValueRef::Real(number) => ColumnValue::Real(number),
            ValueRef::Text(bytes) => ColumnValue::Text(bytes.to_vec()),
            ValueRef::Blob(bytes) => ColumnValue::Blob(bytes.to_vec()),
        }
    }
}

impl ToSql for ColumnValue {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(self.value()))
    }
}

/// The message a row stands for, without its parts.
pub(super) fn message_record(
    session: &SessionId,
    id: ValueRef<'_>,
    time: ValueRef<'_>,
    data: ValueRef<'_>,
) -> Result<MessageRecord, Quarantined> {
    let id = text_of(id);
    let place = format!("message[{id}]");
    let problem = |reason| Quarantined { place: place.clone(), reason, session: Some(session.clone()) };
    let id = MessageId::parse_opencode(&id).map_err(|error| problem(UnreadableReason::BadName(error)))?;
    let key = Key::Message(session.clone(), id);
    let document = row_document(&key, data).map_err(problem)?;
    let made = match time {
        ValueRef::Integer(time) => time,
        _ => Message::created_in(document.root()).unwrap_or(0),
    };
    let stored = Stored::new(key, document, place).at(Position::new(made));
    Ok(MessageRecord { stored, made, parts: Vec::new(), n_parts: 0, quarantined: Vec::new() })
}

/// Adds a part to its message, or what is wrong with it.
pub(super) fn add_part(
    session: &SessionId,
    message: &MessageId,
    record: &mut MessageRecord,
    id: ValueRef<'_>,
    data: ValueRef<'_>,
) {
    record.n_parts += 1;
    let id = text_of(id);
    let place = format!("part[{id}]");
    let read = PartId::parse_opencode(&id).map_err(UnreadableReason::BadName).and_then(|id| {
        let position = Position::of_part(&id, record.made);
        let key = Key::Part(session.clone(), message.clone(), id);
        let document = row_document(&key, data)?;
        Ok((key, document, position))
    });
    match read {
        Ok((key, document, position)) => {
            record.parts.push(Stored::new(key, document, place).at(position));
        }
        Err(reason) => {
            record.quarantined.push(Quarantined { place, reason, session: Some(session.clone()) });
        }
    }
}

/// The document of a message or part.
pub(super) fn row_document(key: &Key, data: ValueRef<'_>) -> Result<Document, UnreadableReason> {
    let bytes = match data {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes,
        ValueRef::Null => return Err(UnreadableReason::WrongKind { wanted: "JSON", found: "nothing" }),
        ValueRef::Integer(_) | ValueRef::Real(_) => {
            return Err(UnreadableReason::WrongKind { wanted: "JSON", found: "a number" });
        }
    };
    let document = arrange::from_row(key, bytes).map_err(UnreadableReason::Json)?;
    match document.root().kind() {
        annals_core::json::Kind::Object => Ok(document),
        kind => Err(UnreadableReason::WrongKind { wanted: "an object", found: kind.with_article() }),
    }
}

pub(super) fn json_of(value: ValueRef<'_>) -> Result<Document, UnreadableReason> {
    match value {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
            Document::parse(bytes.to_vec()).map_err(UnreadableReason::Json)
        }
        _ => Err(UnreadableReason::WrongKind { wanted: "JSON", found: "no text" }),
    }
}

/// A list of documents as one.
pub(super) fn array(items: &[Document]) -> Result<Document, UnreadableReason> {
    let mut writer = JsWriter::new(Style::Compact, 0);
    writer.array(|writer| items.iter().for_each(|item| writer.item(item)));
    Document::parse(writer.finish()).map_err(UnreadableReason::Json)
}

/// The object of a row, and what of it could not be used.
pub(super) fn object(
    place: &str,
    columns: &[&DocumentColumn],
    row: &Row<'_>,
    session: Option<&SessionId>,
) -> rusqlite::Result<(Document, Vec<Quarantined>)> {
    let mut writer = JsWriter::new(Style::Compact, 0);
    let mut unusable = Vec::new();
    write_object(&mut writer, columns, row, &mut |column, reason| {
        let place = format!("{place}.{column}");
        unusable.push(Quarantined {
            place,
            reason: UnreadableReason::Column(reason),
            session: session.cloned(),
        });
    })?;
    let document = Document::parse(writer.finish()).unwrap_or_else(|error| {
        // Only nesting or size beyond any document can be at fault.
        unusable.push(Quarantined {
            place: place.to_owned(),
            reason: UnreadableReason::Json(error),
            session: session.cloned(),
        });
        Document::new(&Session::default())
    });
    Ok((document, unusable))
}

/// The columns as a list for SQL.
pub(super) fn names(columns: &[&DocumentColumn]) -> String {
    columns.iter().map(|column| column.name).collect::<Vec<_>>().join(", ")
}

/// The text of an id column, whatever it holds.
pub(super) fn text_of(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Null => String::new(),
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Real(number) => number.to_string(),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => String::from_utf8_lossy(bytes).into_owned(),
    }
}

/// Where a document is, for people.
pub(super) fn place_of(key: &Key) -> String {
    match key {
        Key::Diff(id) => format!("storage/session_diff/{id}.json"),
        key => row_place(key),
    }
}

pub(super) fn bad_id(table: &str, id: &str, error: IdError) -> Quarantined {
    Quarantined { place: format!("{table}[{id}]"), reason: UnreadableReason::BadName(error), session: None }
}

/// Rows that cannot be read because the file is damaged there.
pub(super) fn damaged(place: &str, error: &rusqlite::Error) -> Quarantined {
    Quarantined {
        place: place.to_owned(),
        reason: UnreadableReason::Damaged(error.to_string()),
        session: None,
    }
}
