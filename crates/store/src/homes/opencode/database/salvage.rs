//! Reading a database that is damaged: the rows of a session where the way to them is, and whole tables without their indexes, which is also
//! how projects and sessions are always read. `sqlite/salvage.rs` goes around the damage.

use std::collections::HashMap;

use annals_core::id::MessageId;
use annals_core::{Document, Key, Stored, position};
use rusqlite::{Connection, Row, ToSql};

use super::OpencodeDatabase;
use super::column::{self, DocumentColumn};
use super::row::{ColumnValue, RowCursor, add_part, array, message_record, names, object, place_of, text_of};
use crate::home::{
    DamagedRows, Found, MessageDetail, MessageRecord, Quarantined, ReadError, SessionRecord, UnreadableReason,
};
use crate::sqlite::salvage::{Scan, Unreadable};

impl OpencodeDatabase {
    /// All rows of a table, or those of a session, in no particular order. `columns` come first in each row.
    pub(super) fn scan<T>(
        &self,
        table: &str,
        columns: &str,
        session: Option<&str>,
        map: &dyn Fn(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Found<Vec<T>>, ReadError> {
        let parameter: [&dyn ToSql; 1] = [&session];
        let (condition, parameters) = match session {
            // The plus keeps SQLite from using an index, which may be what is damaged.
            Some(_) => ("AND +x.session_id = ?3", parameter.as_slice()),
            None => ("", [].as_slice()),
        };
        let map = |_: &Connection, row: &Row<'_>| map(row);
        let scan = Scan { table, number: "rowid", columns, condition, parameters, map: &map };
        let mut found: Found<Vec<T>> = Found::default();
        let unreadable = scan.run(|work| self.read(work), &mut |row| found.value.push(row));
        let unreadable = unreadable.map_err(|error| self.read_error(&error))?;
        found.quarantined.extend(unreadable.into_iter().map(|Unreadable { first, last, what }| {
            Quarantined {
                place: DamagedRows { table: table.to_owned(), first, last }.to_string(),
                reason: UnreadableReason::Damaged(what),
                session: None,
            }
        }));
        Ok(found)
    }

    /// A document that stands beside a session, found without any index. `None` if that cannot be told: other documents
    /// are found by reading their session.
    pub(super) fn salvage_document(&self, key: &Key) -> Result<Option<Option<Stored>>, ReadError> {
        let (session, table, known): (_, _, &'static [DocumentColumn]) = match key {
            Key::Todo(session) => (session, "todo", column::TODO),
            Key::Share(session) => (session, "session_share", column::SHARE),
            _ => return Ok(None),
        };
        let columns = self.schema.present(table, known);
        // The position last; a share has none, and needs none.
        let position = if table == "todo" { "position" } else { "0" };
        let list = format!("{}, {position}", names(&columns));
        let mut rows = self.scan(table, &list, Some(session.as_str()), &|row| {
            Ok((
                ColumnValue::from(row.get_ref(columns.len())?),
                object(table, &columns, row, Some(session))?.0,
            ))
        })?;
        if !rows.quarantined.is_empty() {
            return Ok(None);
        }
        rows.value.sort_by_key(|(position, _)| match position {
            ColumnValue::Integer(position) => *position,
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
        detail: MessageDetail,
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
        if let Some((ColumnValue::Integer(time), ColumnValue::Text(last))) = after {
            records.retain(|record| (record.made, message_id(record).as_bytes()) > (*time, last.as_slice()));
        }
        records.sort_by(|a, b| (a.made, message_id(a)).cmp(&(b.made, message_id(b))));
        let places: HashMap<String, usize> = records
            .iter()
            .enumerate()
            .map(|(place, record)| (message_id(record).to_owned(), place))
            .collect();
        let parts = self.scan("part", "message_id, id, data", Some(id), &|row| {
            Ok((
                text_of(row.get_ref(0)?),
                ColumnValue::from(row.get_ref(1)?),
                ColumnValue::from(row.get_ref(2)?),
            ))
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
            position::sort_by_position(&mut record.parts, |part| part.position);
            if detail == MessageDetail::PartCounts {
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
