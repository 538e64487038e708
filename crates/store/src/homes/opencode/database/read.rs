//! Reading: rows become documents, a page of them in each transaction.

use std::collections::{HashSet, VecDeque};
use std::path::{Path, PathBuf};

use annals_core::id::{MessageId, Millis, PartId, ProjectId, SessionId};
use annals_core::lens::Session;
use annals_core::{Document, Key, Stored, position};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Row};

use super::OpencodeDatabase;
use super::column::{self, DocumentColumn};
use super::converted::push_after_earlier;
use super::row::{
    ColumnValue, RowCursor, add_part, array, bad_id, damaged, message_record, names, object, place_of,
    row_document, text_of,
};
use super::schema::Schema;
use crate::change_log::ChangeLog;
use crate::check::Problem;
use crate::home::{
    Extent, Found, Inspect, MessageDetail, MessageRange, MessageRecord, Messages, Quarantined, Read,
    ReadError, SessionFiles, SessionRecord, UnreadableReason,
};
use crate::home_url::HomeUrl;
use crate::query::SessionQuery;
use crate::sqlite::{self, is_damage};

/// Upper bound on the messages read in one transaction.
const PAGE: usize = 64;
/// Bytes of documents after which a transaction reads no further message.
const PAGE_BYTES: usize = 8 << 20;

impl Read for OpencodeDatabase {
    fn url(&self) -> HomeUrl {
        HomeUrl::from(self.path.as_path())
    }

    fn projects(&self) -> Result<Found<Vec<Stored>>, ReadError> {
        let mut found = Found::default();
        if !self.schema.has_column("project", "id") {
            return Ok(found);
        }
        let columns = self.schema.present("project", column::PROJECT);
        let rows = self.scan("project", &names(&columns), None, &|row| {
            let id = text_of(row.get_ref(0)?);
            Ok((object(&format!("project[{id}]"), &columns, row, None)?, id))
        })?;
        found.quarantined = rows.quarantined;
        for ((document, unusable), id) in rows.value {
            match ProjectId::parse(&id) {
                Ok(project) => {
                    found.quarantined.extend(unusable);
                    let place = format!("project[{project}]");
                    found.value.push(Stored::new(Key::Project(project), document, place));
                }
                Err(error) => found.quarantined.push(bad_id("project", &id, error)),
            }
        }
        Ok(found)
    }

    fn sessions(&self, query: &SessionQuery) -> Result<Found<Vec<SessionRecord>>, ReadError> {
        let mut found: Found<Vec<SessionRecord>> = Found::default();
        let mut seen: HashSet<SessionId> = HashSet::new();
        for table in self.schema.session_tables() {
            let columns = self.schema.present(table, column::SESSION);
            let rows =
                self.scan(table, &names(&columns), None, &|row| self.session_record(table, &columns, row))?;
            found.quarantined.extend(rows.quarantined);
            for row in rows.value {
                match row {
                    Ok((record, unusable)) => {
                        if seen.insert(record.id.clone()) && query.admits(&record) {
                            found.quarantined.extend(unusable);
                            found.value.push(record);
                        }
                    }
                    Err(problem) => found.quarantined.push(problem),
                }
            }
        }
        Ok(found)
    }

    fn session(&self, id: &SessionId) -> Result<Option<SessionRecord>, ReadError> {
        for table in self.schema.session_tables() {
            let columns = self.schema.present(table, column::SESSION);
            let sql = format!("SELECT {} FROM {table} WHERE id = ?1", names(&columns));
            let read = self.read(|connection| {
                connection
                    .prepare_cached(&sql)?
                    .query_row([id.as_str()], |row| self.session_record(table, &columns, row))
                    .optional()
            });
            match read {
                Ok(None) => {}
                Ok(Some(record)) => return Ok(Some(record?.0)),
                // A scan around the damage may still find the session.
                Err(error) if is_damage(&error) => {
                    let all = self.sessions(&SessionQuery::default())?;
                    return Ok(all.value.into_iter().find(|record| record.id == *id));
                }
                Err(error) => return Err(self.read_error(&error)),
            }
        }
        Ok(None)
    }

    fn messages<'h>(
        &'h self,
        session: &'h SessionRecord,
        range: &MessageRange,
        detail: MessageDetail,
    ) -> Messages<'h> {
        // Messages of the second store that are not given out yet, in order; `None` until they are read.
        let mut converted: Option<VecDeque<MessageRecord>> = None;
        // The position in the first store, inside `None` at its start; outside `None` where that store is missing or read to
        // its end.
        let mut after = self.schema.has_column("message", "data").then_some(None);
        let mut is_ended = false;
        let all = Messages::in_batches(move || {
            if std::mem::replace(&mut is_ended, after.is_none()) {
                return Ok(None);
            }
            let mut found: Found<Vec<MessageRecord>> = Found::default();
            if converted.is_none() {
                converted = Some(self.all_converted(session, detail, &mut found.quarantined)?);
            }
            let converted = converted.get_or_insert_default();
            let Some(cursor) = after.take() else {
                found.value.extend(std::mem::take(converted));
                return Ok(Some(found));
            };
            let page = self.read(|connection| read_page(connection, &session.id, cursor.as_ref(), detail));
            let page = match page {
                Ok(page) => page,
                Err(error) if is_damage(&error) => {
                    let rest =
                        self.salvage_messages(session, detail, cursor.as_ref(), &mut found.quarantined)?;
                    MessagePage { rows: rest, unusable: Vec::new(), next: None }
                }
                Err(error) => return Err(self.read_error(&error)),
            };
            found.quarantined.extend(page.unusable);
            for record in page.rows {
                push_after_earlier(converted, record, &mut found.value);
            }
            after = page.next.map(Some);
            Ok(Some(found))
        });
        all.within(range)
    }

    fn document(&self, key: &Key) -> Result<Option<Stored>, ReadError> {
        if let Key::Diff(session) = key {
            return Ok(self.read_diff(session)?);
        }
        match self.read(|connection| document(connection, &self.schema, key)) {
            Ok(Some(Ok(stored))) => Ok(Some(stored)),
            Ok(Some(Err(problem))) => Err(problem.into()),
            Ok(None) => self.converted_document(key),
            Err(error) if is_damage(&error) => match self.salvage_document(key)? {
                Some(found) => Ok(found),
                None => Err(damaged(&place_of(key), &error).of_session(key.session()).into()),
            },
            Err(error) => Err(self.read_error(&error)),
        }
    }

    fn session_keys(&self, id: &SessionId) -> Result<Vec<Key>, ReadError> {
        let read = self.read(|connection| session_keys(connection, &self.schema, id));
        let mut keys = read.map_err(|error| self.read_error(&error))?;
        if self.diff_path(id).is_some_and(|path| path.exists()) {
            keys.push(Key::Diff(id.clone()));
        }
        Ok(keys)
    }

    fn inspect(&self) -> Option<&dyn Inspect> {
        Some(self)
    }

    fn change_log(&self) -> Option<&dyn ChangeLog> {
        Some(self)
    }

    fn files(&self) -> Option<&dyn SessionFiles> {
        Some(self)
    }
}

impl Inspect for OpencodeDatabase {
    fn check(&self, now: Millis, progress: &(dyn Fn() + Sync)) -> Result<Vec<Problem>, ReadError> {
        self.check_all(now, progress)
    }

    fn extent(&self) -> Result<Extent, ReadError> {
        let mut is_damaged = false;
        let mut count = |table: &str| -> Result<usize, ReadError> {
            if !self.schema.has(table) {
                return Ok(0);
            }
            let sql = format!("SELECT count(*) FROM {table}");
            match self.read(|connection| connection.query_row(&sql, [], |row| row.get(0))) {
                // In a damaged table only the rows that can be read are counted.
                Err(error) if is_damage(&error) => {
                    is_damaged = true;
                    Ok(self.scan(table, "1", None, &|_| Ok(()))?.value.len())
                }
                counted => counted.map_err(|error| self.read_error(&error)),
            }
        };
        let messages = count("message")? + count("session_message")?;
        let parts = count("part")?;
        let size = |path: &std::path::Path| std::fs::metadata(path).map_or(0, |metadata| metadata.len());
        let bytes = size(&self.path) + size(&sqlite::log_of(&self.path));
        Ok(Extent { messages, parts, bytes, is_damaged })
    }

    fn remarks(&self) -> Vec<String> {
        self.schema.remarks()
    }
}

impl SessionFiles for OpencodeDatabase {
    fn data_directory(&self, session: &SessionRecord) -> Option<PathBuf> {
        let diff = self.diff_path(&session.id)?;
        diff.ancestors().nth(3).map(Path::to_owned)
    }
}

impl OpencodeDatabase {
    /// The record a row of a session table stands for, with what of it could not be used.
    fn session_record(
        &self,
        table: &str,
        columns: &[&DocumentColumn],
        row: &Row<'_>,
    ) -> rusqlite::Result<Result<(SessionRecord, Vec<Quarantined>), Quarantined>> {
        let id = text_of(row.get_ref(0)?);
        let id = match SessionId::parse_opencode(&id) {
            Ok(id) => id,
            Err(error) => return Ok(Err(bad_id(table, &id, error))),
        };
        let place = format!("{table}[{id}]");
        let (document, mut unusable) = object(&place, columns, row, Some(&id))?;
        let named = document.lens::<Session<'_>>().project_id.map(|project| project.to_string());
        let project = match ProjectId::parse(named.as_deref().unwrap_or_default()) {
            Ok(project) => project,
            // Better found under another project than not at all.
            Err(error) => {
                unusable.push(Quarantined {
                    place: format!("{place}.project_id"),
                    reason: UnreadableReason::BadName(error),
                    session: Some(id.clone()),
                });
                ProjectId::global()
            }
        };
        let key = Key::Session(project.clone(), id.clone());
        let stored = Stored::new(key, document, place);
        Ok(Ok((SessionRecord::new(project, id, stored, vec![self.url()]), unusable)))
    }
}

/// Some messages of a session.
struct MessagePage {
    rows: Vec<MessageRecord>,
    unusable: Vec<Quarantined>,
    /// Where the next page begins, if there is one.
    next: Option<RowCursor>,
}

fn read_page(
    connection: &Connection,
    session: &SessionId,
    after: Option<&RowCursor>,
    detail: MessageDetail,
) -> rusqlite::Result<MessagePage> {
    const FIRST: &str = "SELECT id, time_created, data FROM message WHERE session_id = ?1 \
         ORDER BY time_created, id LIMIT ?2";
    const NEXT: &str = "SELECT id, time_created, data FROM message WHERE session_id = ?1 \
         AND (time_created, id) > (?3, ?4) ORDER BY time_created, id LIMIT ?2";
    let mut statement = connection.prepare_cached(if after.is_some() { NEXT } else { FIRST })?;
    let mut rows = match after {
        None => statement.query((session.as_str(), PAGE))?,
        Some((time, id)) => statement.query((session.as_str(), PAGE, time, id))?,
    };
    let mut page = MessagePage { rows: Vec::new(), unusable: Vec::new(), next: None };
    let (mut n_rows, mut n_bytes) = (0, 0);
    while let Some(row) = rows.next()? {
        n_rows += 1;
        let position = (ColumnValue::from(row.get_ref(1)?), ColumnValue::from(row.get_ref(0)?));
        match message_record(session, row.get_ref(0)?, row.get_ref(1)?, row.get_ref(2)?) {
            Ok(mut record) => {
                read_parts(connection, session, &mut record, detail)?;
                n_bytes += record.stored.document.bytes().len();
                n_bytes += record.parts.iter().map(|part| part.document.bytes().len()).sum::<usize>();
                page.rows.push(record);
            }
            Err(problem) => page.unusable.push(problem),
        }
        if n_rows == PAGE || n_bytes >= PAGE_BYTES {
            page.next = Some(position);
            break;
        }
    }
    Ok(page)
}

fn read_parts(
    connection: &Connection,
    session: &SessionId,
    record: &mut MessageRecord,
    detail: MessageDetail,
) -> rusqlite::Result<()> {
    let Key::Message(_, message) = record.stored.key.clone() else { return Ok(()) };
    if detail == MessageDetail::PartCounts {
        let mut statement = connection.prepare_cached("SELECT count(*) FROM part WHERE message_id = ?1")?;
        record.n_parts = statement.query_row([message.as_str()], |row| row.get(0))?;
        return Ok(());
    }
    let mut statement =
        connection.prepare_cached("SELECT id, data FROM part WHERE message_id = ?1 ORDER BY id")?;
    let mut rows = statement.query([message.as_str()])?;
    while let Some(row) = rows.next()? {
        let data = row.get_ref(1)?;
        if detail == MessageDetail::ToolCalls && is_no_tool_call(data) {
            record.n_parts += 1;
        } else {
            add_part(session, &message, record, row.get_ref(0)?, data);
        }
    }
    position::sort_by_position(&mut record.parts, |part| part.position);
    Ok(())
}

/// Whether a row looks whole and cannot be a tool call: the word does not occur in it. Most parts are told apart that way
/// without being taken apart.
fn is_no_tool_call(data: ValueRef<'_>) -> bool {
    let ValueRef::Text(data) = data else { return false };
    data.starts_with(b"{") && data.ends_with(b"}") && memchr::memmem::find(data, b"\"tool\"").is_none()
}

/// One document by its key: none, unusable, or as OpenCode would rebuild it.
pub(super) fn document(
    connection: &Connection,
    schema: &Schema,
    key: &Key,
) -> rusqlite::Result<Option<Result<Stored, Quarantined>>> {
    let place = place_of(key);
    let problem = |reason| Quarantined { place: place.clone(), reason, session: key.session().cloned() };
    let stored = |document| Stored::new(key.clone(), document, place.clone());
    let from_columns = |tables: &[&str], columns: &'static [DocumentColumn], filter: &str, id: &str| {
        for table in tables {
            let columns = schema.present(table, columns);
            let sql = format!("SELECT {} FROM {table} WHERE {filter} = ?1", names(&columns));
            let read = connection
                .prepare_cached(&sql)?
                .query_row([id], |row| Ok(object(&place, &columns, row, key.session())?.0))
                .optional()?;
            if let Some(document) = read {
                return Ok(Some(Ok(stored(document))));
            }
        }
        Ok(None)
    };
    let from_data = |sql: &str, ids: &[&str]| {
        let mut statement = connection.prepare_cached(sql)?;
        let mut rows = statement.query(rusqlite::params_from_iter(ids))?;
        let Some(row) = rows.next()? else { return Ok(None) };
        Ok(Some(row_document(key, row.get_ref(0)?).map(stored).map_err(problem)))
    };
    match key {
        Key::Project(id) if schema.has("project") => {
            from_columns(&["project"], column::PROJECT, "id", id.as_str())
        }
        Key::Session(_, id) => {
            let tables: Vec<&str> = schema.session_tables().collect();
            from_columns(&tables, column::SESSION, "id", id.as_str())
        }
        Key::Share(id) if schema.has("session_share") => {
            from_columns(&["session_share"], column::SHARE, "session_id", id.as_str())
        }
        Key::Message(session, id) if schema.has("message") => from_data(
            "SELECT data FROM message WHERE id = ?1 AND session_id = ?2",
            &[id.as_str(), session.as_str()],
        ),
        Key::Part(_, message, id) if schema.has("part") => from_data(
            "SELECT data FROM part WHERE id = ?1 AND message_id = ?2",
            &[id.as_str(), message.as_str()],
        ),
        Key::Todo(session) if schema.has("todo") => {
            let read = todo_list(connection, schema, session)?;
            Ok(read.map(|read| read.map(stored).map_err(problem)))
        }
        _ => Ok(None),
    }
}

/// A todo list, if there is one.
fn todo_list(
    connection: &Connection,
    schema: &Schema,
    session: &SessionId,
) -> rusqlite::Result<Option<Result<Document, UnreadableReason>>> {
    let columns = schema.present("todo", column::TODO);
    let sql = format!("SELECT {} FROM todo WHERE session_id = ?1 ORDER BY position", names(&columns));
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query([session.as_str()])?;
    let mut items = Vec::new();
    while let Some(row) = rows.next()? {
        items.push(object("todo", &columns, row, Some(session))?.0);
    }
    Ok((!items.is_empty()).then(|| array(&items)))
}

fn session_keys(connection: &Connection, schema: &Schema, id: &SessionId) -> rusqlite::Result<Vec<Key>> {
    let mut keys = Vec::new();
    let mut each =
        |sql: &str, add: &mut dyn FnMut(&Row<'_>) -> rusqlite::Result<Option<Key>>| -> rusqlite::Result<()> {
            let mut statement = connection.prepare_cached(sql)?;
            let mut rows = statement.query([id.as_str()])?;
            while let Some(row) = rows.next()? {
                keys.extend(add(row)?);
            }
            Ok(())
        };
    for table in schema.session_tables() {
        each(&format!("SELECT project_id FROM {table} WHERE id = ?1"), &mut |row| {
            let project = ProjectId::parse(&text_of(row.get_ref(0)?)).unwrap_or_else(|_| ProjectId::global());
            Ok(Some(Key::Session(project, id.clone())))
        })?;
    }
    for table in ["message", "session_message"].into_iter().filter(|table| schema.has(table)) {
        each(&format!("SELECT id FROM {table} WHERE session_id = ?1"), &mut |row| {
            let message = MessageId::parse_opencode(&text_of(row.get_ref(0)?)).ok();
            Ok(message.map(|message| Key::Message(id.clone(), message)))
        })?;
    }
    if schema.has("part") {
        each("SELECT message_id, id FROM part WHERE session_id = ?1", &mut |row| {
            let message = MessageId::parse_opencode(&text_of(row.get_ref(0)?));
            let part = PartId::parse_opencode(&text_of(row.get_ref(1)?));
            Ok(message.ok().zip(part.ok()).map(|(message, part)| Key::Part(id.clone(), message, part)))
        })?;
    }
    for (table, key) in [("todo", Key::Todo(id.clone())), ("session_share", Key::Share(id.clone()))] {
        if schema.has(table) {
            each(&format!("SELECT 1 FROM {table} WHERE session_id = ?1 LIMIT 1"), &mut |_| {
                Ok(Some(key.clone()))
            })?;
        }
    }
    let mut seen = HashSet::new();
    keys.retain(|key| seen.insert(key.clone()));
    Ok(keys)
}
