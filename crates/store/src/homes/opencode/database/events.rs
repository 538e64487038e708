//! OpenCode's log of changes: the table `event`, into which OpenCode 1.16 and later write what every session, message and
//! part becomes, in the transaction in which it becomes that. It reaches back to before anybody else looked, but no
//! further than 1.17.10, which emptied it; and it says less than the tables do:
//!
//! - A snapshot holds the members that OpenCode's schema knows, in the schema's order; a row holds all, in the order of
//!   the program. So the last snapshot of a message or part says what its row says, less what plugins and OpenCode itself
//!   add on the side (1.18.33: `raw` of a call that was cut short, `synthetic` of a file).
//! - The parts of a message that is removed go with it, without events of their own.
//! - What a session costs grows and shrinks with its parts and is told by the next `session.updated`, if one comes.
//! - What the second HTTP API does (`session.next.…`) is told step by step and not as snapshots. It is not read here.
//!
//! `session.updated` is a whole session since 1.16, and has been seen to be in 1.18.33. Before, when events were written on
//! request only, it was what had changed, with nulls for what had gone; that is applied to the session as it was.

use std::ops::ControlFlow;

use crate::change_log::{ChangeLog, LogRead, RecordedChange};
use crate::homes::opencode::arrange;
use annals_core::id::{ERA_MILLIS, EventId, IdError, MessageId, Millis, PartId, ProjectId, SessionId};
use annals_core::json::{Kind as JsonKind, Node};
use annals_core::lens::Lens;
use annals_core::{Document, Key};
use rusqlite::Connection;
use rusqlite::types::{Value, ValueRef};

use super::OpencodeDatabase;
use super::column::{self, DocumentColumn};
use super::row::{damaged, text_of};
use crate::home::{Quarantined, Read, ReadError, UnreadableReason};
use crate::sqlite::is_damage;

/// Upper bound on the events read in one transaction.
const PAGE: usize = 64;
/// Bytes of events after which a transaction reads no further event.
const PAGE_BYTES: usize = 8 << 20;

/// An event's id and its own time are further apart than this only where someone made the id up; clocks are set back by
/// less.
const DAY: Millis = 24 * 60 * 60 * 1000;

/// When OpenCode got its log (2026-03-23). Whatever is in one happened later.
const FIRST_LOGS: Millis = 1_774_309_702_000;

impl ChangeLog for OpencodeDatabase {
    fn writer(&self) -> &'static str {
        "OpenCode"
    }

    fn positions(&self) -> Result<Vec<(SessionId, i64)>, ReadError> {
        if !self.has_events() {
            return Ok(Vec::new());
        }
        let read = |sql: &str| self.read(|connection| positions(connection, sql));
        let is_kept =
            ["aggregate_id", "seq"].iter().all(|column| self.schema.has_column("event_sequence", column));
        let kept = is_kept.then(|| read("SELECT aggregate_id, seq FROM event_sequence"));
        let found = match kept {
            Some(Err(error)) if !is_damage(&error) => Err(error),
            Some(Ok(found)) => Ok(found),
            _ => read("SELECT aggregate_id, max(seq) FROM event GROUP BY aggregate_id"),
        };
        found.map_err(|error| self.read_error(&error))
    }

    /// Reads a page of events per transaction. Nothing is visited where there is no table of events.
    fn changes(
        &self,
        session: &SessionId,
        after: Option<i64>,
        visit: &mut dyn FnMut(RecordedChange) -> ControlFlow<()>,
    ) -> Result<LogRead, ReadError> {
        let mut read = LogRead::default();
        if !self.has_events() {
            return Ok(read);
        }
        let mut log = Log::new(self, session, after);
        let mut position = Value::Integer(after.unwrap_or(i64::MIN));
        loop {
            let page = self.read(|connection| read_page(connection, session, &position));
            let EventPage { rows, damage } = page.map_err(|error| self.read_error(&error))?;
            let Some(last) = rows.last() else {
                let damage = damage.map(|error| damaged("event", &error).of(session));
                read.quarantined.extend(damage);
                return Ok(read);
            };
            position = last.seq.clone();
            for row in rows {
                if let Value::Integer(seq) = row.seq {
                    read.last = Some(seq);
                }
                let Some(kind) = row.kind else {
                    read.n_skipped += 1;
                    continue;
                };
                let place = format!("event[{}]", row.id);
                match log.change(kind, row) {
                    Ok(recorded) => {
                        if visit(recorded).is_break() {
                            return Ok(read);
                        }
                    }
                    Err(reason) => {
                        read.quarantined.push(Quarantined { place, reason, session: Some(session.clone()) });
                    }
                }
            }
        }
    }

    fn is_same(&self, key: &Key, a: &Document, b: &Document) -> bool {
        arrange::is_same(key, a, b)
    }
}

impl OpencodeDatabase {
    fn has_events(&self) -> bool {
        ["id", "aggregate_id", "seq", "type", "data"]
            .iter()
            .all(|column| self.schema.has_column("event", column))
    }
}

/// A row of `event`.
struct EventRow {
    id: String,
    /// Null if it is not a number. Such rows come last.
    seq: Value,
    /// `None` for kinds that are not read.
    kind: Option<EventKind>,
    /// Not loaded, and empty, for kinds that are not read.
    data: Result<Vec<u8>, UnreadableReason>,
}

/// What an event tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EventKind {
    SessionWritten,
    SessionDeleted,
    MessageWritten,
    MessageRemoved,
    PartWritten,
    PartRemoved,
}

impl EventKind {
    fn of(name: &str) -> Option<EventKind> {
        Some(match name {
            "session.created.1" | "session.updated.1" => EventKind::SessionWritten,
            "session.deleted.1" => EventKind::SessionDeleted,
            "message.updated.1" => EventKind::MessageWritten,
            "message.removed.1" => EventKind::MessageRemoved,
            "message.part.updated.1" => EventKind::PartWritten,
            "message.part.removed.1" => EventKind::PartRemoved,
            _ => return None,
        })
    }
}

fn positions(connection: &Connection, sql: &str) -> rusqlite::Result<Vec<(SessionId, i64)>> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query([])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        // Logs of other things than sessions are not read.
        if let Ok(session) = SessionId::parse_opencode(&text_of(row.get_ref(0)?)) {
            found.push((session, row.get_ref(1)?.as_i64().unwrap_or(i64::MAX)));
        }
    }
    Ok(found)
}

/// Some events of a log.
#[derive(Default)]
struct EventPage {
    rows: Vec<EventRow>,
    /// The error that stopped the read before the page was full.
    damage: Option<rusqlite::Error>,
}

fn read_page(connection: &Connection, session: &SessionId, after: &Value) -> rusqlite::Result<EventPage> {
    let mut page = EventPage::default();
    match read_rows(connection, session, after, &mut page.rows) {
        Err(error) if is_damage(&error) => page.damage = Some(error),
        read => read?,
    }
    Ok(page)
}

fn read_rows(
    connection: &Connection,
    session: &SessionId,
    after: &Value,
    page: &mut Vec<EventRow>,
) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached(
        "SELECT id, seq, type, data FROM event WHERE aggregate_id = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3",
    )?;
    let mut rows = statement.query((session.as_str(), after, PAGE))?;
    let mut n_bytes = 0;
    while let Some(row) = rows.next()? {
        let kind = EventKind::of(&text_of(row.get_ref(2)?));
        let data = match (kind, row.get_ref(3)?) {
            (None, _) => Ok(Vec::new()),
            (Some(_), ValueRef::Text(bytes) | ValueRef::Blob(bytes)) => Ok(bytes.to_vec()),
            (Some(_), _) => Err(UnreadableReason::WrongKind { wanted: "JSON", found: "no text" }),
        };
        n_bytes += data.as_ref().map_or(0, Vec::len);
        let seq = match row.get_ref(1)? {
            ValueRef::Integer(seq) => Value::Integer(seq),
            ValueRef::Real(seq) => Value::Real(seq),
            _ => Value::Null,
        };
        page.push(EventRow { id: text_of(row.get_ref(0)?), seq, kind, data });
        if n_bytes >= PAGE_BYTES {
            break;
        }
    }
    Ok(())
}

/// A log while it is read.
struct Log<'a> {
    home: &'a OpencodeDatabase,
    session: &'a SessionId,
    /// Where reading began, until it is known how the session was then.
    after: Option<i64>,
    columns: Vec<&'static DocumentColumn>,
    /// The session as the last event about it has it.
    state: Option<Document>,
    /// When the last change was made.
    last: Option<Millis>,
}

impl<'a> Log<'a> {
    fn new(home: &'a OpencodeDatabase, session: &'a SessionId, after: Option<i64>) -> Log<'a> {
        let table = home.schema.session_tables().next().unwrap_or("session");
        let columns = home.schema.present(table, column::SESSION);
        Log { home, session, after, columns, state: None, last: None }
    }

    /// The change that an event tells.
    fn change(&mut self, kind: EventKind, row: EventRow) -> Result<RecordedChange, UnreadableReason> {
        let Value::Integer(seq) = row.seq else {
            return Err(UnreadableReason::Column("its position is not a whole number".to_owned()));
        };
        let data = Document::parse(row.data?).map_err(UnreadableReason::Json)?;
        let data = object(data.root())?;
        self.check_session(data, "sessionID")?;
        // A part is told with the time of its change. The times of a message or session are those of the thing: what
        // happened to it came later.
        let (mut said, mut not_before) = (None, None);
        let (key, document) = match kind {
            EventKind::SessionWritten => {
                let info = member(data, "info")?;
                not_before = millis(info, &["time", "updated"]);
                let (project, document) = self.session(seq, info)?;
                (Key::Session(project, self.session.clone()), Some(document))
            }
            EventKind::SessionDeleted => {
                let project = self.deleted_from(data)?;
                (Key::Session(project, self.session.clone()), None)
            }
            EventKind::MessageWritten => {
                let info = member(data, "info")?;
                self.check_session(info, "sessionID")?;
                not_before = millis(info, &["time", "completed"]).or(millis(info, &["time", "created"]));
                let key = Key::Message(self.session.clone(), id(info, "id", MessageId::parse_opencode)?);
                let document = arrange::as_row(&key, info).map_err(UnreadableReason::Json)?;
                (key, Some(document))
            }
            EventKind::MessageRemoved => {
                (Key::Message(self.session.clone(), id(data, "messageID", MessageId::parse_opencode)?), None)
            }
            EventKind::PartWritten => {
                let part = member(data, "part")?;
                self.check_session(part, "sessionID")?;
                said = millis(data, &["time"]);
                let message = id(part, "messageID", MessageId::parse_opencode)?;
                let key = Key::Part(self.session.clone(), message, id(part, "id", PartId::parse_opencode)?);
                let document = arrange::as_row(&key, part).map_err(UnreadableReason::Json)?;
                (key, Some(document))
            }
            EventKind::PartRemoved => {
                let message = id(data, "messageID", MessageId::parse_opencode)?;
                (Key::Part(self.session.clone(), message, id(data, "partID", PartId::parse_opencode)?), None)
            }
        };
        let time = self.time(&row.id, said, not_before.or(self.last));
        self.last = Some(time);
        Ok(RecordedChange { seq, time, key, document })
    }

    /// The session that an event gives, or what becomes of the one before where the event gives only what has changed.
    fn session(&mut self, seq: i64, info: Node<'_>) -> Result<(ProjectId, Document), UnreadableReason> {
        let is_whole = info.get("id").is_some();
        let before = match is_whole {
            true => {
                self.check_session(info, "id")?;
                None
            }
            false => Some(self.state_before(seq)?.ok_or_else(|| {
                UnreadableReason::Column(
                    "it tells only what changed, and the log has no earlier state of the session".to_owned(),
                )
            })?),
        };
        let document =
            column::written(&self.columns, before.as_ref(), info).map_err(UnreadableReason::Json)?;
        let project = id(document.root(), "projectID", ProjectId::parse)?;
        self.state = Some(document.clone());
        Ok((project, document))
    }

    /// The project that a deleted session belonged to.
    fn deleted_from(&mut self, data: Node<'_>) -> Result<ProjectId, UnreadableReason> {
        let known = self.state.take();
        match (data.at(&["info", "projectID"]), known) {
            (Some(_), _) => id(member(data, "info")?, "projectID", ProjectId::parse),
            (None, Some(state)) => id(state.root(), "projectID", ProjectId::parse),
            // Better gone from another project than not gone at all.
            (None, None) => Ok(ProjectId::global()),
        }
    }

    /// The session as it was before an event.
    fn state_before(&mut self, seq: i64) -> Result<Option<Document>, UnreadableReason> {
        let mut state = self.state.clone();
        if state.is_none() && self.after.take().is_some() {
            let read = self.home.changes(self.session, None, &mut |recorded| {
                if recorded.seq >= seq {
                    return ControlFlow::Break(());
                }
                if let Key::Session(..) = recorded.key {
                    state = recorded.document;
                }
                ControlFlow::Continue(())
            });
            read.map_err(|error| UnreadableReason::Refused(error.to_string()))?;
        }
        Ok(state)
    }

    /// Whether an object that names a session names this one.
    fn check_session(&self, object: Node<'_>, name: &'static str) -> Result<(), UnreadableReason> {
        match object.get(name) {
            None => Ok(()),
            Some(_) => match id(object, name, SessionId::parse_opencode)? {
                named if named == *self.session => Ok(()),
                named => Err(UnreadableReason::Column(format!("it is about session {named}"))),
            },
        }
    }

    /// When an event happened. Its id tells, if it is known roughly.
    fn time(&self, id: &str, said: Option<Millis>, not_before: Option<Millis>) -> Millis {
        let after = not_before.map(|time| time - DAY + ERA_MILLIS / 2);
        let near = said.or(after).unwrap_or_else(|| {
            let record = self.home.session(self.session).ok().flatten();
            let time = record.and_then(|record| record.info.updated());
            time.unwrap_or(FIRST_LOGS + ERA_MILLIS / 2)
        });
        let made =
            EventId::parse_opencode(id).ok().and_then(|id| id.moment(near)).map(|moment| moment.millis);
        match made {
            Some(made) if said.is_none_or(|said| (made - said).abs() <= DAY) => made,
            _ => said.or(not_before).unwrap_or(near),
        }
    }
}

/// A value that must be an object.
fn object(node: Node<'_>) -> Result<Node<'_>, UnreadableReason> {
    match node.kind() {
        JsonKind::Object => Ok(node),
        kind => Err(UnreadableReason::WrongKind { wanted: "an object", found: kind.with_article() }),
    }
}

/// A member that must be an object.
fn member<'a>(data: Node<'a>, name: &'static str) -> Result<Node<'a>, UnreadableReason> {
    match data.get(name) {
        Some(node) => object(node),
        None => Err(UnreadableReason::Column(format!("it has no `{name}`"))),
    }
}

/// The id that an object names.
fn id<T>(
    object: Node<'_>,
    name: &'static str,
    parse: fn(&str) -> Result<T, IdError>,
) -> Result<T, UnreadableReason> {
    let Some(node) = object.get(name) else {
        return Err(UnreadableReason::Column(format!("it has no `{name}`")));
    };
    match node.as_text() {
        Some(text) => parse(&text.to_str()).map_err(UnreadableReason::BadName),
        None => Err(UnreadableReason::WrongKind { wanted: "an id", found: node.kind().with_article() }),
    }
}

fn millis(object: Node<'_>, path: &[&str]) -> Option<Millis> {
    object.at(path).and_then(Millis::look)
}
