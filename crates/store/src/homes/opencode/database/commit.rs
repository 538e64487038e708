//! Committing: the changes of a transaction in one transaction of SQLite.
//!
//! Rows are written so that OpenCode 1.18 serves them over HTTP, which refuses a whole session for one row that lacks a
//! field: what older documents lack is completed in the row, and reported. The columns of a session that follow from its
//! messages (cost, tokens, agent, model, path) are kept up to date, since OpenCode does not compute them on reading.

mod applier;
mod put_messages;
mod totals;

use std::io;

use annals_core::{Change, Document, Key, Stored, Transaction, early};
use rusqlite::{Connection, ErrorCode};

use super::OpencodeDatabase;
use super::column::{self, DocumentColumn, values_of};
use super::diff_file::{self, DiffFile, Staged};
use super::pieces::{ChangeScope, differences};
use super::row::place_of;
use super::schema::{self, Schema};
use crate::home::appends::as_puts;
use crate::home::space::Space;
use crate::home::{CommitError, Native, Read, Receipt, Write};
use crate::homes::opencode::foreign::refuse_foreign;
use crate::lease::{LeaseDirectory, Leases};
use crate::project::IdentityRule;
use crate::sqlite;
use applier::Applier;

/// The end of the name of the directory with leases, beside the database.
pub(super) const LEASES: &str = "-annals-leases";

impl Write for OpencodeDatabase {
    fn commit(&self, transaction: Transaction) -> Result<Receipt, CommitError> {
        let (_, changes) = transaction.into_parts();
        let mut changes = as_puts(self, changes)?;
        if changes.is_empty() {
            return Ok(Receipt::default());
        }
        refuse_foreign(&changes)?;
        changes.sort_by_key(order_of);
        if let Some(process) = self.connections.endangered() {
            return Err(CommitError::Endangered { path: self.url().to_string(), process });
        }
        let begin = |error: rusqlite::Error| self.failed(error);
        self.connections.write(begin, |connection| self.commit_on(connection, &changes))
    }

    fn native(&self, key: &Key, document: Document) -> Native {
        let (table, columns): (&str, &'static [DocumentColumn]) = match key {
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

    /// Its OpenCode refuses to serve a session with parts of an unknown type.
    fn in_its_terms(&self, documents: Vec<Stored>) -> Vec<Stored> {
        early::translated(documents)
    }

    fn identity_rule(&self) -> IdentityRule {
        if self.schema.knows_remotes() { IdentityRule::Remote } else { IdentityRule::RootCommit }
    }

    fn space(&self) -> Option<&dyn Space> {
        Some(self)
    }

    fn leases(&self) -> Option<Box<dyn Leases>> {
        Some(Box::new(LeaseDirectory::at(sqlite::beside(&self.path, LEASES))))
    }
}

/// Whether a column's content follows from other documents.
fn is_derived(path: &str) -> bool {
    let first = path.split('.').next().unwrap_or(path);
    ["path", "agent", "model", "cost", "tokens"].contains(&first)
}

/// Voids a transaction whose log could not be synced. It stands in the log as if it were committed, and the next process
/// that opens the database would take it for that; so another transaction, which changes nothing, is written over it.
fn overwrite_log(connection: &Connection) -> rusqlite::Result<()> {
    // Setting the version writes the first page even if the value stays the same.
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
    match change.is_deletion() {
        false => (false, level),
        true => (true, -level),
    }
}

impl OpencodeDatabase {
    /// Finishes a transaction that has begun.
    fn commit_on(&self, connection: &Connection, changes: &[Change]) -> Result<Receipt, CommitError> {
        // Files are there before the rows are: OpenCode since 1.16 does not look at them, and earlier versions only at
        // that of a session they know.
        let applied = self.apply_noted(connection, changes).and_then(|(receipt, files)| {
            diff_file::place(files)?;
            Ok(receipt)
        });
        let receipt = self.end(connection, applied)?;
        for change in changes {
            if let (Key::Diff(session), true) = (&change.key, change.is_deletion())
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
            Err(error) => Err(self.failed(error)),
        });
        let Err(error) = committed else { return committed };
        if !connection.is_autocommit() {
            // A failure here changes nothing: closing the connection rolls back as well.
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

    /// Makes changes, and notes them when all are made and none is committed. The files have yet to be moved to their places.
    fn apply_noted(
        &self,
        connection: &Connection,
        changes: &[Change],
    ) -> Result<(Receipt, Vec<Staged>), CommitError> {
        let Some(noter) = &self.noter else { return self.apply(connection, changes) };
        let failed = |error: rusqlite::Error| self.failed(error);
        let scope = ChangeScope::of(self, changes);
        let before = scope.rows(connection).map_err(failed)?;
        let mut files = scope.files();
        let applied = self.apply(connection, changes)?;
        let after = scope.rows(connection).map_err(failed)?;
        for (file, change) in files.iter_mut().zip(scope.diffs.iter()) {
            file.after = change.document().map(|document| document.bytes().to_vec());
        }
        files.retain(|file| file.before != file.after);
        noter.note(&differences(before, after).into_iter().chain(files).collect::<Vec<_>>())?;
        Ok(applied)
    }

    fn apply(
        &self,
        connection: &Connection,
        changes: &[Change],
    ) -> Result<(Receipt, Vec<Staged>), CommitError> {
        let schema = Schema::probe(connection).map_err(|error| self.failed(error))?;
        if let Some(found) = schema.unwritable() {
            let path = self.path.display().to_string();
            return Err(CommitError::UnknownSchema { path, found, supported: schema::NEWEST });
        }
        let diffs = self.diffs(changes)?;
        let (completed, staged) = std::thread::scope(|scope| {
            // Files are synced in another thread while rows are written.
            let staged = scope.spawn(|| diff_file::stage(&diffs));
            let mut applier = Applier::new(self, connection, &schema, changes);
            for change in changes {
                match change.document() {
                    Some(document) => applier.put(change, document)?,
                    None => applier.delete(change)?,
                }
            }
            applier.update_totals().map_err(|error| self.failed(error))?;
            let staged = staged.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            Ok::<_, CommitError>((applier.completed, staged?))
        })?;
        let written = changes.iter().filter(|change| !change.is_deletion()).count();
        Ok((Receipt { written, deleted: changes.len() - written, revision: None, completed }, staged))
    }

    /// The files that changes put.
    fn diffs<'c>(&self, changes: &'c [Change]) -> Result<Vec<DiffFile<'c>>, CommitError> {
        let diff = |change: &'c Change| match (&change.key, change.document()) {
            (Key::Diff(session), Some(document)) => Some(match self.diff_path(session) {
                Some(path) => Ok(DiffFile { path, bytes: document.bytes() }),
                None => Err(refused(&change.key, "the database is not in a directory of OpenCode's")),
            }),
            _ => None,
        };
        changes.iter().filter_map(diff).collect()
    }

    /// What an error of SQLite means for a commit. Nothing was changed.
    pub(super) fn failed(&self, error: rusqlite::Error) -> CommitError {
        let path = self.path.display().to_string();
        let is_disk_full = sqlite::is_disk_full(&error, &self.path);
        let code = sqlite::code(&error);
        let source = |kind: io::ErrorKind| io::Error::new(kind, error);
        match code {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => CommitError::Busy { path },
            Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
                CommitError::ReadOnly { path, source: source(io::ErrorKind::PermissionDenied) }
            }
            _ if is_disk_full => CommitError::Failed { path, source: source(io::ErrorKind::StorageFull) },
            _ => CommitError::Failed { path, source: source(io::ErrorKind::Other) },
        }
    }
}

fn refused(key: &Key, what: &str) -> CommitError {
    CommitError::Refused { key: Box::new(key.clone()), place: place_of(key), what: what.to_owned() }
}
