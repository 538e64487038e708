//! Committing: the changes of a transaction in one transaction of SQLite.
//!
//! Rows are written so that OpenCode 1.18 serves them over HTTP, which refuses a whole session for one row that lacks a
//! field: what older documents lack is completed in the row, and reported. The columns of a session that follow from its
//! messages (cost, tokens, agent, model, path) are kept up to date, since OpenCode does not compute them on reading.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::path::PathBuf;

use crate::homes::opencode::arrange;
use crate::homes::opencode::complete::{self, Completed, Surroundings};
use annals_core::id::{MessageId, Millis, ProjectId, SessionId};
use annals_core::lens::{AssistantMessage, Message, Project, Session, UserMessage};
use annals_core::{Change, ContentHash, Document, Expected, Key, Transaction, Usage};
use rusqlite::types::Value;
use rusqlite::{Connection, ErrorCode, OptionalExtension, ToSql, ffi};

use super::OpencodeDatabase;
use super::column::{self, Column, values_of};
use super::diff_file::{self, DiffFile};
use super::pieces::{Scope, differences};
use super::read::{document, place_of};
use super::schema::{self, Schema};
use crate::home::{CommitError, Completion, ConflictKind, Native, Read, Receipt, Write};
use crate::homes::opencode::foreign::refuse_foreign;
use crate::project::IdentityRule;
use crate::sqlite;

impl Write for OpencodeDatabase {
    fn commit(&self, transaction: Transaction) -> Result<Receipt, CommitError> {
        let (_, mut changes) = transaction.into_parts();
        if changes.is_empty() {
            return Ok(Receipt::default());
        }
        refuse_foreign(&changes)?;
        changes.sort_by_key(order_of);
        if let Some(process) = self.connections.endangered() {
            return Err(CommitError::Endangered { path: self.url().to_string(), process });
        }
        let begin = |error: rusqlite::Error| self.failed(&error);
        self.connections.write(begin, |connection| self.commit_on(connection, &changes))
    }

    fn native(&self, key: &Key, document: Document) -> Native {
        let (table, columns): (&str, &'static [Column]) = match key {
            Key::Session(..) => ("session", column::SESSION),
            Key::Project(_) => ("project", column::PROJECT),
            Key::Share(_) => ("session_share", column::SHARE),
            Key::LegacyShare(_) | Key::Record(..) => return Native::NotHeld,
            Key::Diff(session) if self.diff_path(session).is_none() => return Native::NotHeld,
            Key::Todo(_) if document.root().items().next().is_none() => return Native::Implied,
            // A todo list loses the ids of its items, which are only their numbers.
            _ => return Native::Held { document, lost: Vec::new() },
        };
        // What a newer version of the same database could hold is not lost on the way to an older one for good, but it
        // is not in this one.
        let columns = self.schema.present(table, columns);
        let (_, mut lost) = values_of(&columns, &document);
        lost.retain(|path| !is_derived(path));
        let without = |document: Document, path: &String| {
            let names: Vec<&str> = path.split('.').collect();
            document.without(&names).unwrap_or(document)
        };
        Native::Held { document: lost.iter().fold(document, without), lost }
    }

    fn identity_rule(&self) -> IdentityRule {
        if self.schema.knows_remotes() { IdentityRule::Remote } else { IdentityRule::RootCommit }
    }
}

/// Whether a column's content follows from other documents.
fn is_derived(path: &str) -> bool {
    let first = path.split('.').next().unwrap_or(path);
    ["path", "agent", "model", "cost", "tokens"].contains(&first)
}

/// Makes a transaction void whose log could not be synced. It is in the log as if it were committed, and who opens the database next would take
/// it for that; so another one, which changes nothing, is written over it.
fn overwrite_log(connection: &Connection) -> rusqlite::Result<()> {
    // Writes the first page, whatever it says.
    let version: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    connection.execute_batch(&format!("BEGIN IMMEDIATE; PRAGMA user_version = {version}; COMMIT"))
}

/// Puts go down the hierarchy, then deletions go up it: no row may refer to one that is not there.
fn order_of(change: &Change) -> (bool, i8) {
    let level = match change.key {
        Key::Project(_) => 0,
        Key::Session(..) => 1,
        Key::Message(..) => 2,
        Key::Part(..) => 3,
        Key::Todo(_) | Key::Diff(_) | Key::Share(_) | Key::LegacyShare(_) | Key::Record(..) => 4,
    };
    match change.document {
        Some(_) => (false, level),
        None => (true, -level),
    }
}

impl OpencodeDatabase {
    /// Finishes a transaction that has begun.
    fn commit_on(&self, connection: &Connection, changes: &[Change]) -> Result<Receipt, CommitError> {
        let applied = self.apply_noted(connection, changes);
        let receipt = self.end(connection, applied)?;
        for change in changes {
            if let Change { key: Key::Diff(session), document: None, .. } = change
                && let Some(path) = self.diff_path(session)
            {
                diff_file::remove(&path)
                    .map_err(|source| CommitError::Unfinished { path: path.display().to_string(), source })?;
            }
        }
        Ok(receipt)
    }

    /// Commits what was applied, or rolls it back.
    pub(super) fn end<T>(
        &self,
        connection: &Connection,
        applied: Result<T, CommitError>,
    ) -> Result<T, CommitError> {
        let committed = applied.and_then(|done| match connection.execute_batch("COMMIT") {
            Ok(()) => Ok(done),
            Err(error) => Err(self.failed(&error)),
        });
        let Err(error) = committed else { return committed };
        if !connection.is_autocommit() {
            // What fails here failed for good before: closing the connection rolls back as well.
            let _ = connection.execute_batch("ROLLBACK");
        }
        match error {
            CommitError::Failed { path, source } if source.kind() != io::ErrorKind::StorageFull => {
                match overwrite_log(connection) {
                    Ok(()) => Err(CommitError::Failed { path, source }),
                    Err(_) => Err(CommitError::Uncertain { path, source }),
                }
            }
            error => Err(error),
        }
    }

    /// Makes changes. When all of them are made and none is committed, they are noted.
    fn apply_noted(&self, connection: &Connection, changes: &[Change]) -> Result<Receipt, CommitError> {
        let Some(noter) = &self.noter else { return self.apply(connection, changes) };
        let failed = |error: rusqlite::Error| self.failed(&error);
        let scope = Scope::of(self, changes);
        let before = scope.rows(connection).map_err(failed)?;
        let mut files = scope.files();
        let receipt = self.apply(connection, changes)?;
        let after = scope.rows(connection).map_err(failed)?;
        for (file, change) in files.iter_mut().zip(scope.diffs.iter()) {
            file.after = change.document.as_ref().map(|document| document.bytes().to_vec());
        }
        files.retain(|file| file.before != file.after);
        noter.note(&differences(before, after).into_iter().chain(files).collect::<Vec<_>>())?;
        Ok(receipt)
    }

    fn apply(&self, connection: &Connection, changes: &[Change]) -> Result<Receipt, CommitError> {
        let schema = Schema::probe(connection).map_err(|error| self.failed(&error))?;
        if let Some(found) = schema.unwritable() {
            let path = self.path.display().to_string();
            return Err(CommitError::UnknownSchema { path, found, supported: schema::NEWEST });
        }
        let diffs = self.diffs(changes)?;
        let failed = |(path, source): (PathBuf, io::Error)| CommitError::Failed {
            path: path.display().to_string(),
            source,
        };
        let (completed, staged) = std::thread::scope(|scope| {
            // The disk is waited for while rows are written.
            let staged = scope.spawn(|| diff_file::stage(&diffs));
            let mut applier = Applier::new(self, connection, &schema, changes);
            for change in changes {
                match &change.document {
                    Some(document) => applier.put(change, document)?,
                    None => applier.delete(change)?,
                }
            }
            applier.update_totals().map_err(|error| self.failed(&error))?;
            let staged = staged.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            Ok::<_, CommitError>((applier.completed, staged.map_err(failed)?))
        })?;
        // Files are there before the rows are: OpenCode since 1.16 does not look at them, and earlier versions only at
        // that of a session they know.
        diff_file::place(staged).map_err(failed)?;
        let written = changes.iter().filter(|change| change.document.is_some()).count();
        Ok(Receipt { written, deleted: changes.len() - written, revision: None, completed })
    }

    /// The files that changes put.
    fn diffs<'c>(&self, changes: &'c [Change]) -> Result<Vec<DiffFile<'c>>, CommitError> {
        let diff = |change: &'c Change| match (&change.key, &change.document) {
            (Key::Diff(session), Some(document)) => Some(match self.diff_path(session) {
                Some(path) => Ok(DiffFile { path, bytes: document.bytes() }),
                None => Err(refused(&change.key, "the database is not in a directory of OpenCode's")),
            }),
            _ => None,
        };
        changes.iter().filter_map(diff).collect()
    }

    /// What an error of SQLite means for a commit. Nothing was changed.
    pub(super) fn failed(&self, error: &rusqlite::Error) -> CommitError {
        let path = self.path.display().to_string();
        let source = |kind: io::ErrorKind| io::Error::new(kind, error.to_string());
        match sqlite::code(error) {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => CommitError::Busy { path },
            Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
                CommitError::ReadOnly { path, source: source(io::ErrorKind::PermissionDenied) }
            }
            _ if sqlite::is_disk_full(error, &self.path) => {
                CommitError::Failed { path, source: source(io::ErrorKind::StorageFull) }
            }
            _ => CommitError::Failed { path, source: source(io::ErrorKind::Other) },
        }
    }
}

/// Changes on their way into rows.
struct Applier<'a> {
    home: &'a OpencodeDatabase,
    connection: &'a Connection,
    schema: &'a Schema,
    /// Messages that the transaction puts, for the documents that need to know about others.
    messages: HashMap<&'a SessionId, Vec<(&'a MessageId, &'a Document)>>,
    /// Of which session each of them is, and when it was made.
    made: HashMap<&'a MessageId, (&'a SessionId, Millis)>,
    /// Sessions that go as a whole, with everything below them.
    deleted: HashSet<&'a SessionId>,
    /// What the sessions' totals change by.
    totals: BTreeMap<String, Totals>,
    completed: Vec<Completion>,
}

/// What the messages of a transaction mean for the columns of their session.
#[derive(Default)]
struct Totals {
    /// The document says itself what they are.
    is_given: bool,
    usage: Usage,
    /// Agent and model of the last prompt, and when it was.
    prompt: Option<(Millis, Option<String>, Option<String>)>,
}

impl<'a> Applier<'a> {
    fn new(
        home: &'a OpencodeDatabase,
        connection: &'a Connection,
        schema: &'a Schema,
        changes: &'a [Change],
    ) -> Applier<'a> {
        let mut messages: HashMap<&SessionId, Vec<(&MessageId, &Document)>> = HashMap::new();
        let (mut made, mut deleted) = (HashMap::new(), HashSet::new());
        for change in changes {
            match (&change.key, &change.document) {
                (Key::Message(session, id), Some(document)) => {
                    messages.entry(session).or_default().push((id, document));
                    made.insert(id, (session, created(document).unwrap_or(0)));
                }
                (Key::Session(_, session), None) => {
                    deleted.insert(session);
                }
                _ => {}
            }
        }
        for messages in messages.values_mut() {
            messages.sort_by_key(|(id, _)| (made.get(*id).map(|(_, made)| *made), id.as_str()));
        }
        Applier {
            home,
            connection,
            schema,
            messages,
            made,
            deleted,
            totals: BTreeMap::new(),
            completed: Vec::new(),
        }
    }

    fn put(&mut self, change: &Change, document: &Document) -> Result<(), CommitError> {
        let old = self.expect(change)?;
        let result = match &change.key {
            Key::Project(id) => self.put_project(id, document, change.expected == Expected::Absent),
            Key::Session(project, id) => {
                self.put_session(project, id, document, change.expected == Expected::Absent)
            }
            Key::Message(session, id) => {
                let completed = self.complete_message(change, document)?;
                self.count(session, old.as_ref(), Some(document));
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
            Err(error) => Err(self.why_not(&change.key, &error)),
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
                Err(error) => return Err(self.home.failed(&error)),
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
    fn why_not(&self, key: &Key, error: &rusqlite::Error) -> CommitError {
        let extended = match error {
            rusqlite::Error::SqliteFailure(failure, _) => failure.extended_code,
            _ => 0,
        };
        match extended {
            ffi::SQLITE_CONSTRAINT_PRIMARYKEY
            | ffi::SQLITE_CONSTRAINT_UNIQUE
            | ffi::SQLITE_CONSTRAINT_ROWID => {
                // The id is there. Whether it is this document or another's depends on what it belongs to.
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
    ) -> rusqlite::Result<usize> {
        let session = document.lens::<Session<'_>>();
        let totals = self.totals.entry(id.to_string()).or_default();
        totals.is_given = session.cost.is_some() || session.tokens.is_some();
        let time = session.time.unwrap_or_default();
        let created = time.created.or(time.updated).or_else(|| self.first_message_time(id)).unwrap_or(0);
        let directory = session.directory.as_ref().map(|directory| directory.to_string());
        let directory = directory.or_else(|| self.first_directory(id)).unwrap_or_default();
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

    /// Refuses a part whose message is one of another session, where OpenCode would show it. Gives when its message was
    /// made.
    fn check_owner(
        &self,
        key: &Key,
        session: &SessionId,
        message: &MessageId,
    ) -> Result<Millis, CommitError> {
        if let Some((owner, made)) = self.made.get(message)
            && *owner == session
        {
            return Ok(*made);
        }
        let row = self
            .connection
            .prepare_cached("SELECT session_id = ?2, time_created FROM message WHERE id = ?1")
            .and_then(|mut statement| {
                let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get::<_, Value>(1)?));
                statement.query_row([message.as_str(), session.as_str()], read).optional()
            });
        match row.map_err(|error| self.home.failed(&error))? {
            Some((false, _)) => Err(refused(key, "its message is one of another session")),
            Some((true, Value::Integer(made))) => Ok(made),
            // That there is no message at all is found out by the insertion.
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
        let share = document.lens::<annals_core::lens::Share<'_>>();
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

    fn delete(&mut self, change: &Change) -> Result<(), CommitError> {
        let old = match &change.key {
            // What goes with its session need not be looked at.
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
        deleted.map_err(|error| self.home.failed(&error))?;
        if let (Key::Message(session, _), Some(old)) = (&change.key, old) {
            self.count(session, Some(&old), None);
        }
        Ok(())
    }

    /// Deletes a session with all that hangs off it. Parts and events do not go by themselves: parts are tied to their
    /// message only, events to nothing.
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

    /// Adds what a message changes of its session's totals.
    fn count(&mut self, session: &SessionId, old: Option<&Document>, new: Option<&Document>) {
        let totals = self.totals.entry(session.to_string()).or_default();
        let usage = |document: &Document| match document.lens::<Message<'_>>() {
            Message::Assistant(answer) => Usage::of(&answer),
            _ => Usage::default(),
        };
        if let Some(new) = new {
            totals.usage += usage(new);
            if let Message::User(prompt) = new.lens::<Message<'_>>() {
                let made = prompt.time.as_ref().and_then(|time| time.created).unwrap_or(0);
                if totals.prompt.as_ref().is_none_or(|(latest, _, _)| *latest <= made) {
                    let agent = prompt.agent.as_ref().map(|agent| agent.to_string());
                    totals.prompt = Some((made, agent, session_model(&prompt)));
                }
            }
        }
        if let Some(old) = old {
            totals.usage -= usage(old);
        }
    }

    /// Brings the columns of sessions up to date with their messages.
    fn update_totals(&self) -> rusqlite::Result<()> {
        for (session, totals) in &self.totals {
            let usage = &totals.usage;
            if !totals.is_given
                && *usage != Usage::default()
                && self.schema.has_column("session", "tokens_input")
            {
                self.connection
                    .prepare_cached(
                        "UPDATE session SET cost = max(0, cost + ?2), tokens_input = max(0, tokens_input + ?3), \
                         tokens_output = max(0, tokens_output + ?4), tokens_reasoning = max(0, tokens_reasoning + ?5), \
                         tokens_cache_read = max(0, tokens_cache_read + ?6), \
                         tokens_cache_write = max(0, tokens_cache_write + ?7) WHERE id = ?1",
                    )?
                    .execute((
                        session,
                        usage.cost,
                        usage.input as i64,
                        usage.output as i64,
                        usage.reasoning as i64,
                        usage.cache_read as i64,
                        usage.cache_write as i64,
                    ))?;
            }
            if let Some((_, agent, model)) = &totals.prompt
                && self.schema.has_column("session", "agent")
            {
                self.connection
                    .prepare_cached(
                        "UPDATE session SET agent = coalesce(agent, ?2), model = coalesce(model, ?3) WHERE id = ?1",
                    )?
                    .execute((session, agent, model))?;
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
        let context = self.context(session, id, document).map_err(|error| self.home.failed(&error))?;
        let completed = complete::message(document, &context.surroundings(made));
        self.take(&change.key, completed)
    }

    fn complete_part(
        &mut self,
        change: &Change,
        document: &Document,
    ) -> Result<Option<Document>, CommitError> {
        let Key::Part(_, message, id) = &change.key else { return Ok(None) };
        let made = self.made.get(message).map_or(0, |(_, made)| *made);
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

    fn first_message_time(&self, session: &SessionId) -> Option<Millis> {
        self.messages.get(session)?.iter().find_map(|(id, _)| self.made.get(*id)).map(|(_, made)| *made)
    }

    /// Where the first answer of a session ran. Sessions from before 0.6 do not say where they were opened.
    fn first_directory(&self, session: &SessionId) -> Option<String> {
        self.messages.get(session)?.iter().find_map(|(_, document)| match document.lens::<Message<'_>>() {
            Message::Assistant(answer) => Some(answer.path?.cwd?.to_string()),
            _ => None,
        })
    }

    /// What can be told about a message that does not say it itself.
    fn context(&self, session: &SessionId, id: &MessageId, document: &Document) -> rusqlite::Result<Context> {
        let messages = self.messages.get(session).map(Vec::as_slice).unwrap_or_default();
        let place = messages.iter().position(|(other, _)| *other == id).unwrap_or(0);
        let (before, from) = messages.split_at(place);
        let mut context = Context::default();
        let prompt = before.iter().rev().find(|(_, document)| is_user(document));
        context.parent = prompt.map(|(id, _)| id.to_string());
        // A prompt was answered by what follows it, an answer belongs with its prompt or the answers beside it.
        let own = document.lens::<Message<'_>>();
        let answer = match own {
            Message::User(_) => from.iter().find_map(|(_, document)| answer_of(document)),
            _ => before.iter().rev().chain(from).find_map(|(_, document)| answer_of(document)),
        };
        if let Some(answer) = answer {
            let text = |text: Option<annals_core::json::Text<'_>>| text.map(|text| text.to_string());
            context.agent = text(answer.agent.or(answer.mode));
            context.provider = text(answer.provider_id);
            context.model = text(answer.model_id);
        }
        let row = self
            .connection
            .prepare_cached(
                "SELECT s.directory, p.worktree FROM session s LEFT JOIN project p ON p.id = s.project_id \
                 WHERE s.id = ?1",
            )?
            .query_row([session.as_str()], |row| Ok((row.get::<_, Option<String>>(0)?, row.get(1)?)))
            .optional()?;
        let (directory, worktree): (Option<String>, Option<String>) = row.unwrap_or_default();
        context.directory = directory.unwrap_or_default();
        context.worktree = worktree.unwrap_or_else(|| context.directory.clone());
        Ok(context)
    }
}

/// What surrounds a message.
#[derive(Default)]
struct Context {
    parent: Option<String>,
    agent: Option<String>,
    provider: Option<String>,
    model: Option<String>,
    directory: String,
    worktree: String,
}

impl Context {
    fn surroundings(&self, created: Millis) -> Surroundings<'_> {
        Surroundings {
            created,
            parent: self.parent.as_deref(),
            agent: self.agent.as_deref(),
            provider: self.provider.as_deref(),
            model: self.model.as_deref(),
            directory: &self.directory,
            worktree: &self.worktree,
        }
    }
}

/// When a part was made, if it says so itself.
fn part_time(document: &Document) -> Option<Millis> {
    let root = document.root();
    let own = root.at(&["time", "start"]).or_else(|| root.at(&["state", "time", "start"]))?;
    own.as_f64().filter(|time| *time >= 0.0).map(|time| time as Millis)
}

fn created(document: &Document) -> Option<Millis> {
    Message::created_in(document.root())
}

fn is_user(document: &Document) -> bool {
    matches!(document.lens::<Message<'_>>(), Message::User(_))
}

fn answer_of(document: &Document) -> Option<Box<AssistantMessage<'_>>> {
    match document.lens::<Message<'_>>() {
        Message::Assistant(answer) => Some(answer),
        _ => None,
    }
}

/// The model of a prompt as the column of a session has it.
fn session_model(prompt: &UserMessage<'_>) -> Option<String> {
    let model = prompt.model.as_ref()?;
    let (id, provider) = (model.model_id.as_ref()?, model.provider_id.as_ref()?);
    let variant = model.variant.as_ref().or(prompt.variant.as_ref());
    let model = annals_core::lens::SessionModel {
        id: Some(id.clone()),
        provider_id: Some(provider.clone()),
        variant: variant.cloned(),
    };
    let text = annals_core::json::JsWriter::document(annals_core::json::Style::Compact, &model);
    String::from_utf8(text).ok()
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

fn refused(key: &Key, what: &str) -> CommitError {
    CommitError::Refused { key: Box::new(key.clone()), place: place_of(key), what: what.to_owned() }
}
