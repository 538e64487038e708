//! Changes on their way into rows: which rows they expect, write and delete.

use std::collections::HashSet;

use crate::homes::opencode::arrange;
use crate::homes::opencode::complete::{self, Completed, Surroundings};
use annals_core::id::{MessageId, Millis, ProjectId, SessionId};
use annals_core::lens::{Project, Session};
use annals_core::{Change, ContentHash, Document, Expected, Key};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, ToSql, ffi};

use super::put_messages::{PutMessages, created};
use super::refused;
use super::totals::TotalsBySession;
use crate::home::{CommitError, Completion, ConflictKind};
use crate::homes::opencode::database::OpencodeDatabase;
use crate::homes::opencode::database::column::{self, values_of};
use crate::homes::opencode::database::read::document;
use crate::homes::opencode::database::row::place_of;
use crate::homes::opencode::database::schema::Schema;

/// Changes on their way into rows.
pub(super) struct Applier<'a> {
    home: &'a OpencodeDatabase,
    connection: &'a Connection,
    schema: &'a Schema,
    /// Messages that the transaction puts, for the documents that need to know about others.
    messages: PutMessages<'a>,
    /// Sessions that go as a whole, with everything below them.
    deleted: HashSet<&'a SessionId>,
    /// What the sessions' totals change by.
    totals: TotalsBySession,
    pub(super) completed: Vec<Completion>,
}

impl<'a> Applier<'a> {
    pub(super) fn new(
        home: &'a OpencodeDatabase,
        connection: &'a Connection,
        schema: &'a Schema,
        changes: &'a [Change],
    ) -> Applier<'a> {
        let deleted = changes.iter().filter_map(|change| match (&change.key, change.is_deletion()) {
            (Key::Session(_, session), true) => Some(session),
            _ => None,
        });
        Applier {
            home,
            connection,
            schema,
            messages: PutMessages::of(changes),
            deleted: deleted.collect(),
            totals: TotalsBySession::default(),
            completed: Vec::new(),
        }
    }

    /// Brings the columns of sessions up to date with their messages.
    pub(super) fn update_totals(&self) -> rusqlite::Result<()> {
        self.totals.write(self.connection, self.schema)
    }

    pub(super) fn put(&mut self, change: &Change, document: &Document) -> Result<(), CommitError> {
        let old = self.expect(change)?;
        let result = match &change.key {
            Key::Project(id) => self.put_project(id, document, change.expected == Expected::Absent),
            Key::Session(project, id) => {
                // Totals that are repeated as they were go on with the messages of this transaction.
                let is_repeated = old.as_ref().is_some_and(|old| has_same_totals(old, document));
                self.put_session(project, id, document, change.expected == Expected::Absent, is_repeated)
            }
            Key::Message(session, id) => {
                let completed = self.complete_message(change, document)?;
                self.totals.count(session, old.as_ref(), Some(document));
                self.put_message(session, id, completed.as_ref().unwrap_or(document), &change.expected)
            }
            Key::Part(session, message, id) => {
                let made = self.check_owner(&change.key, session, message)?;
                let completed = self.complete_part(change, document)?;
                let data = data_of(&change.key, completed.as_ref().unwrap_or(document));
                let time = part_time(document).unwrap_or(made);
                self.upsert(
                    "part",
                    &[
                        ("id", &id.as_str()),
                        ("message_id", &message.as_str()),
                        ("session_id", &session.as_str()),
                        ("time_created", &time),
                        ("time_updated", &time),
                        ("data", &data),
                    ],
                    &["time_updated", "data"],
                    "message_id",
                    &change.expected,
                )
            }
            Key::Todo(session) => self.put_todo(session, document),
            Key::Share(session) => self.put_share(session, document),
            // Its file is on its way already.
            Key::Diff(_) => return Ok(()),
            Key::LegacyShare(_) | Key::Record(..) => {
                return Err(refused(&change.key, "a database has no place for it"));
            }
        };
        match result {
            Ok(0) => Err(conflict(&change.key, ConflictKind::Taken)),
            Ok(_) => Ok(()),
            Err(error) => Err(self.why_not(&change.key, error)),
        }
    }

    /// Checks what a change expects, and gives the document it changes where that is needed. Insertions need no look: a
    /// row that is there already refuses them.
    fn expect(&self, change: &Change) -> Result<Option<Document>, CommitError> {
        let is_row = !matches!(
            change.key,
            Key::Todo(_) | Key::Share(_) | Key::Diff(_) | Key::LegacyShare(_) | Key::Record(..)
        );
        let is_message = matches!(change.key, Key::Message(..));
        match change.expected {
            Expected::Absent if is_row => return Ok(None),
            Expected::Anything if !is_message => return Ok(None),
            _ => {}
        }
        let current = match &change.key {
            Key::Diff(session) => self.home.read_diff(session).unwrap_or(None),
            key => match document(self.connection, self.schema, key) {
                Ok(found) => found.and_then(Result::ok),
                Err(error) => return Err(self.home.failed(error)),
            },
        };
        let hash: Option<ContentHash> = current.as_ref().map(|current| current.document.hash());
        let what = match (&change.expected, hash) {
            (Expected::Anything, _) | (Expected::Absent, None) => {
                return Ok(current.map(|current| current.document));
            }
            (Expected::Unchanged(read), Some(hash)) if *read == hash => {
                return Ok(current.map(|current| current.document));
            }
            (Expected::Absent, Some(_)) => ConflictKind::Exists,
            (Expected::Unchanged(_), Some(_)) => ConflictKind::Changed,
            (Expected::Unchanged(_), None) => ConflictKind::Gone,
        };
        Err(conflict(&change.key, what))
    }

    /// Why a row was refused.
    fn why_not(&self, key: &Key, error: rusqlite::Error) -> CommitError {
        let extended = match &error {
            rusqlite::Error::SqliteFailure(failure, _) => failure.extended_code,
            _ => 0,
        };
        match extended {
            ffi::SQLITE_CONSTRAINT_PRIMARYKEY
            | ffi::SQLITE_CONSTRAINT_UNIQUE
            | ffi::SQLITE_CONSTRAINT_ROWID => {
                // A row has the id. Whether it is this document or another one depends on what the row belongs to.
                let is_own = matches!(document(self.connection, self.schema, key), Ok(Some(_)));
                conflict(key, if is_own { ConflictKind::Exists } else { ConflictKind::Taken })
            }
            ffi::SQLITE_CONSTRAINT_FOREIGNKEY => refused(
                key,
                match key {
                    Key::Session(..) => "its project does not exist",
                    Key::Part(..) => "its message does not exist",
                    _ => "its session does not exist",
                },
            ),
            ffi::SQLITE_CONSTRAINT_NOTNULL | ffi::SQLITE_CONSTRAINT_CHECK => refused(key, &error.to_string()),
            _ => self.home.failed(error),
        }
    }

    /// Inserts a row, or changes the given columns of the row with its id. Gives 0 if that row has another owner.
    fn upsert(
        &self,
        table: &str,
        row: &[(&str, &dyn ToSql)],
        changing: &[&str],
        owner: &str,
        expected: &Expected,
    ) -> rusqlite::Result<usize> {
        let columns: Vec<&str> = row.iter().map(|(name, _)| *name).collect();
        let marks = vec!["?"; row.len()].join(", ");
        let mut sql = format!("INSERT INTO {table} ({}) VALUES ({marks})", columns.join(", "));
        if *expected != Expected::Absent {
            let set: Vec<String> = changing.iter().map(|name| format!("{name} = excluded.{name}")).collect();
            sql.push_str(&format!(
                " ON CONFLICT (id) DO UPDATE SET {} WHERE {table}.{owner} = excluded.{owner}",
                set.join(", ")
            ));
        }
        let values: Vec<&dyn ToSql> = row.iter().map(|(_, value)| *value).collect();
        self.connection.prepare_cached(&sql)?.execute(&values[..])
    }

    fn put_project(&self, id: &ProjectId, document: &Document, is_new: bool) -> rusqlite::Result<usize> {
        let project = document.lens::<Project<'_>>();
        let time = project.time.unwrap_or_default();
        let updated = time.updated.or(time.created).unwrap_or(0);
        let columns = self.schema.present("project", column::PROJECT);
        let row = values_of(&columns, document).0.into_iter().map(|(column, value)| {
            let value = match (column.name, value) {
                ("id", _) => Value::Text(id.to_string()),
                // A relative path, or anything but git, makes OpenCode fail in this project or in all.
                ("worktree", Value::Text(path)) if path.starts_with('/') || is_windows_path(&path) => {
                    Value::Text(path)
                }
                ("worktree", _) => Value::Text("/".to_owned()),
                ("vcs", Value::Text(vcs)) if vcs == "git" => Value::Text(vcs),
                ("vcs", _) => Value::Null,
                ("sandboxes", Value::Text(list)) if list.starts_with('[') => Value::Text(list),
                ("sandboxes", _) => Value::Text("[]".to_owned()),
                ("commands", Value::Text(commands)) if !commands.starts_with('{') => Value::Null,
                ("time_created", Value::Null) => Value::Integer(updated),
                ("time_updated", Value::Null) => Value::Integer(updated),
                (_, value) => value,
            };
            (column.name, value)
        });
        self.put_columns("project", &row.collect::<Vec<_>>(), is_new)
    }

    fn put_session(
        &mut self,
        project: &ProjectId,
        id: &SessionId,
        document: &Document,
        is_new: bool,
        is_repeated: bool,
    ) -> rusqlite::Result<usize> {
        let session = document.lens::<Session<'_>>();
        self.totals.given(id, !is_repeated && (session.cost.is_some() || session.tokens.is_some()));
        let time = session.time.unwrap_or_default();
        let created = time.created.or(time.updated).or_else(|| self.messages.first_time(id)).unwrap_or(0);
        let directory = session.directory.as_ref().map(|directory| directory.to_string());
        let directory = directory.or_else(|| self.messages.first_directory(id)).unwrap_or_default();
        // A relative directory breaks every list of the project; an empty one does no harm.
        let is_usable = directory.starts_with('/') || is_windows_path(&directory);
        let directory = if is_usable { directory } else { String::new() };
        self.ensure_project(project, &directory, created)?;
        let columns = self.schema.present("session", column::SESSION);
        let mut row = Vec::with_capacity(columns.len());
        for (column, value) in values_of(&columns, document).0 {
            let value = match (column.name, value) {
                ("id", _) => Value::Text(id.to_string()),
                ("project_id", _) => Value::Text(project.to_string()),
                ("directory", _) => Value::Text(directory.clone()),
                ("slug" | "title" | "version", Value::Null) => Value::Text(String::new()),
                ("time_created", Value::Null) => Value::Integer(created),
                ("time_updated", Value::Null) => Value::Integer(time.updated.unwrap_or(created)),
                ("path", Value::Null) => self.relative_path(project, &directory)?,
                ("model", Value::Text(model)) if is_model(&model) => Value::Text(model),
                // OpenCode fails on a model without an id, in every list.
                ("agent" | "model", _) if session.agent.is_none() || column.name == "model" => continue,
                (name, Value::Null) if name == "cost" || name.starts_with("tokens_") => continue,
                (_, value) => value,
            };
            row.push((column.name, value));
        }
        self.put_columns("session", &row, is_new)
    }

    /// Inserts a row of columns, or changes the one with its id.
    fn put_columns(
        &self,
        table: &str,
        row: &[(&'static str, Value)],
        is_new: bool,
    ) -> rusqlite::Result<usize> {
        let row: Vec<(&str, &dyn ToSql)> =
            row.iter().map(|(name, value)| (*name, value as &dyn ToSql)).collect();
        let changing: Vec<&str> = row.iter().map(|(name, _)| *name).filter(|name| *name != "id").collect();
        let expected = if is_new { Expected::Absent } else { Expected::Anything };
        self.upsert(table, &row, &changing, "id", &expected)
    }

    /// Makes a record for a project that has none: a session without one could not be stored, and OpenCode would not
    /// find it.
    fn ensure_project(&self, project: &ProjectId, directory: &str, time: Millis) -> rusqlite::Result<()> {
        let worktree = if project.is_global() || directory.is_empty() { "/" } else { directory };
        let vcs = (!project.is_global()).then_some("git");
        self.connection
            .prepare_cached(
                "INSERT INTO project (id, worktree, vcs, time_created, time_updated, sandboxes) \
                 VALUES (?1, ?2, ?3, ?4, ?4, '[]') ON CONFLICT (id) DO NOTHING",
            )?
            .execute((project.as_str(), worktree, vcs, time))?;
        Ok(())
    }

    /// The directory relative to the project's working tree, as OpenCode has it; nothing if it lies outside.
    fn relative_path(&self, project: &ProjectId, directory: &str) -> rusqlite::Result<Value> {
        let worktree: Option<String> = self
            .connection
            .prepare_cached("SELECT worktree FROM project WHERE id = ?1")?
            .query_row([project.as_str()], |row| row.get(0))
            .optional()?;
        let below =
            worktree.as_deref().and_then(|worktree| directory.strip_prefix(worktree.trim_end_matches('/')));
        Ok(match below {
            Some("") if !directory.is_empty() => Value::Text(String::new()),
            Some(below) if below.starts_with('/') => Value::Text(below[1..].to_owned()),
            _ => Value::Null,
        })
    }

    fn put_message(
        &self,
        session: &SessionId,
        id: &MessageId,
        document: &Document,
        expected: &Expected,
    ) -> rusqlite::Result<usize> {
        let time = document.root().get("time");
        let at = |name: &str| time.and_then(|time| time.get(name)?.as_f64()).map(|time| time as Millis);
        let created = at("created").unwrap_or(0);
        let updated = at("completed").unwrap_or(created);
        let data = data_of(&Key::Message(session.clone(), id.clone()), document);
        self.upsert(
            "message",
            &[
                ("id", &id.as_str()),
                ("session_id", &session.as_str()),
                ("time_created", &created),
                ("time_updated", &updated),
                ("data", &data),
            ],
            &["time_created", "time_updated", "data"],
            "session_id",
            expected,
        )
    }

    /// Refuses a part whose message belongs to another session, where OpenCode would show it. Gives when its message was
    /// made.
    fn check_owner(
        &self,
        key: &Key,
        session: &SessionId,
        message: &MessageId,
    ) -> Result<Millis, CommitError> {
        if let Some((owner, made)) = self.messages.made(message)
            && owner == session
        {
            return Ok(made);
        }
        let row = self
            .connection
            .prepare_cached("SELECT session_id = ?2, time_created FROM message WHERE id = ?1")
            .and_then(|mut statement| {
                let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get::<_, Value>(1)?));
                statement.query_row([message.as_str(), session.as_str()], read).optional()
            });
        match row.map_err(|error| self.home.failed(error))? {
            Some((false, _)) => Err(refused(key, "its message belongs to another session")),
            Some((true, Value::Integer(made))) => Ok(made),
            // A missing message is found out by the insertion.
            _ => Ok(0),
        }
    }

    fn put_todo(&self, session: &SessionId, document: &Document) -> rusqlite::Result<usize> {
        self.connection
            .prepare_cached("DELETE FROM todo WHERE session_id = ?1")?
            .execute([session.as_str()])?;
        let time: i64 = self
            .connection
            .prepare_cached("SELECT time_updated FROM session WHERE id = ?1")?
            .query_row([session.as_str()], |row| row.get(0))
            .optional()?
            .unwrap_or(0);
        let mut insert = self.connection.prepare_cached(
            "INSERT INTO todo (session_id, content, status, priority, position, time_created, time_updated) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6)",
        )?;
        for (position, item) in document.root().items().enumerate() {
            let text = |name: &str| item.get(name)?.as_text().map(|text| text.to_string());
            let content = text("content").unwrap_or_default();
            let status = text("status").unwrap_or_else(|| "pending".to_owned());
            let priority = text("priority").unwrap_or_else(|| "medium".to_owned());
            insert.execute((session.as_str(), content, status, priority, position, time))?;
        }
        Ok(1)
    }

    fn put_share(&self, session: &SessionId, document: &Document) -> rusqlite::Result<usize> {
        let share = document.lens::<annals_core::lens::ShareRecord<'_>>();
        let text =
            |text: Option<annals_core::json::Text<'_>>| text.map(|text| text.to_string()).unwrap_or_default();
        self.connection
            .prepare_cached(
                "INSERT INTO session_share (session_id, id, secret, url, time_created, time_updated) \
                 SELECT ?1, ?2, ?3, ?4, coalesce(max(time_created), 0), coalesce(max(time_updated), 0) \
                 FROM session WHERE id = ?1 \
                 ON CONFLICT (session_id) DO UPDATE SET id = excluded.id, secret = excluded.secret, url = excluded.url",
            )?
            .execute((session.as_str(), text(share.id), text(share.secret), text(share.url)))
    }

    pub(super) fn delete(&mut self, change: &Change) -> Result<(), CommitError> {
        let old = match &change.key {
            // A document that goes with its session need not be checked.
            key if key.session().is_some_and(|session| self.deleted.contains(session))
                && change.expected == Expected::Anything =>
            {
                None
            }
            _ => self.expect(change)?,
        };
        let run = |sql: &str, parameters: &[&dyn ToSql]| {
            self.connection.prepare_cached(sql)?.execute(parameters).map(drop)
        };
        let deleted = match &change.key {
            Key::Project(id) => run("DELETE FROM project WHERE id = ?1", &[&id.as_str()]),
            Key::Session(_, id) => self.delete_session(id),
            key if key.session().is_some_and(|session| self.deleted.contains(session)) => Ok(()),
            Key::Message(session, id) => {
                let second = match self.schema.has("session_message") {
                    true => run(
                        "DELETE FROM session_message WHERE id = ?1 AND session_id = ?2",
                        &[&id.as_str(), &session.as_str()],
                    ),
                    false => Ok(()),
                };
                second.and_then(|()| {
                    run(
                        "DELETE FROM message WHERE id = ?1 AND session_id = ?2",
                        &[&id.as_str(), &session.as_str()],
                    )
                })
            }
            Key::Part(_, message, id) => {
                run("DELETE FROM part WHERE id = ?1 AND message_id = ?2", &[&id.as_str(), &message.as_str()])
            }
            Key::Todo(session) => run("DELETE FROM todo WHERE session_id = ?1", &[&session.as_str()]),
            Key::Share(session) => {
                run("DELETE FROM session_share WHERE session_id = ?1", &[&session.as_str()])
            }
            // Removed when the rest is committed; never held.
            Key::Diff(_) | Key::LegacyShare(_) | Key::Record(..) => Ok(()),
        };
        deleted.map_err(|error| self.home.failed(error))?;
        if let (Key::Message(session, _), Some(old)) = (&change.key, old) {
            self.totals.count(session, Some(&old), None);
        }
        Ok(())
    }

    /// Deletes a session with everything that belongs to it. Parts and events are not deleted by references: parts refer to
    /// their message only, events to nothing.
    fn delete_session(&self, id: &SessionId) -> rusqlite::Result<()> {
        let by_session = [
            ("part", "session_id"),
            ("event", "aggregate_id"),
            ("event_sequence", "aggregate_id"),
            ("session_input", "session_id"),
            ("session_context_epoch", "session_id"),
            ("session", "id"),
        ];
        for (table, column) in by_session {
            if self.schema.has_column(table, column) {
                self.connection
                    .prepare_cached(&format!("DELETE FROM {table} WHERE {column} = ?1"))?
                    .execute([id.as_str()])?;
            }
        }
        Ok(())
    }

    fn complete_message(
        &mut self,
        change: &Change,
        document: &Document,
    ) -> Result<Option<Document>, CommitError> {
        let Key::Message(session, id) = &change.key else { return Ok(None) };
        let made = created(document).or_else(|| id.moment(0).map(|moment| moment.millis)).unwrap_or(0);
        let nothing = Surroundings { created: made, ..Surroundings::default() };
        // Nearly all documents are complete, so what surrounds one is only looked for if something is missing.
        if matches!(complete::message(document, &nothing), Completed::AsItIs) {
            return Ok(None);
        }
        let context = self
            .messages
            .context(self.connection, session, id, document)
            .map_err(|error| self.home.failed(error))?;
        let completed = complete::message(document, &context.surroundings(made));
        self.take(&change.key, completed)
    }

    fn complete_part(
        &mut self,
        change: &Change,
        document: &Document,
    ) -> Result<Option<Document>, CommitError> {
        let Key::Part(_, message, id) = &change.key else { return Ok(None) };
        let made = self.messages.made(message).map_or(0, |(_, made)| made);
        let around = Surroundings { created: made, ..Surroundings::default() };
        let completed = complete::part(document, id, &around);
        self.take(&change.key, completed)
    }

    fn take(&mut self, key: &Key, completed: Completed) -> Result<Option<Document>, CommitError> {
        match completed {
            Completed::AsItIs => Ok(None),
            Completed::Edited { document, fields } => {
                self.completed.push(Completion { key: key.clone(), fields });
                Ok(Some(document))
            }
            Completed::Unservable(what) => Err(refused(key, &what)),
        }
    }
}

/// When a part was made, if it says so itself.
fn part_time(document: &Document) -> Option<Millis> {
    let root = document.root();
    let own = root.at(&["time", "start"]).or_else(|| root.at(&["state", "time", "start"]))?;
    own.as_f64().filter(|time| *time >= 0.0).map(|time| time as Millis)
}

/// Whether two states of a session say the same about what it took.
fn has_same_totals(old: &Document, new: &Document) -> bool {
    let (old, new) = (old.lens::<Session<'_>>(), new.lens::<Session<'_>>());
    (old.cost, old.tokens) == (new.cost, new.tokens)
}

/// Whether a column's text is a model as OpenCode requires it.
fn is_model(text: &str) -> bool {
    Document::parse(text.as_bytes().to_vec()).is_ok_and(|document| {
        ["id", "providerID"]
            .iter()
            .all(|name| document.root().get(name).is_some_and(|id| id.as_text().is_some()))
    })
}

fn is_windows_path(path: &str) -> bool {
    matches!(path.as_bytes(), [drive, b':', b'/' | b'\\', ..] if drive.is_ascii_alphabetic())
}

/// The `data` of a row.
fn data_of(key: &Key, document: &Document) -> Value {
    Value::Text(arrange::row_data(key, document))
}

fn conflict(key: &Key, what: ConflictKind) -> CommitError {
    CommitError::Conflict { key: Box::new(key.clone()), place: place_of(key), what }
}
