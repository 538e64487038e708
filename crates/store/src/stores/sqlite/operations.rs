//! The tables of operations: the requests, and the changes of each commit to a home.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;

use annals_core::id::{Millis, SessionId};
use annals_core::{ContentHash, Key, Transaction};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Row};

use super::codec;
use super::held::{self, LocalChange, Standing};
use super::kind::Kind;
use super::numbers::{DocumentRow, SessionRow};
use super::revise::Revising;
use super::rows::{number_of, placed};
use super::state::state_at;
use super::{SqliteStore, derived};
use crate::home::beside::FilesBeside;
use crate::home::pieces::{Piece, hash_of};
use crate::home::{CommitError, ReadError, Receipt, Write};
use crate::ops::plan::OperationPlan;
use crate::ops::record::{Before, NotedChange, NotedPiece, OperationLock, OperationLog, Step};
use crate::ops::{Operation, OperationQuery, OperationRequest, OperationState};
use crate::state_hash::StateHash;
use crate::{platform, sqlite};

/// Moves the notes of operations to a home's new place, so that an undo puts things back there.
pub(super) fn follow_home(
    connection: &Connection,
    from: &str,
    to: &str,
    is_database: bool,
) -> rusqlite::Result<()> {
    connection.execute("UPDATE operation_step SET place = ?2 WHERE place = ?1", (from, to))?;
    // Files that were made beside the home have moved with it.
    let directory = |url: &str| match is_database {
        true => Path::new(url).parent().map(|parent| parent.display().to_string()),
        false => Some(url.to_owned()),
    };
    let (Some(from), Some(to)) = (directory(from), directory(to)) else { return Ok(()) };
    let within = format!("{from}/");
    connection
        .execute(
            "UPDATE operation_piece SET place = ?3 || substr(place, length(?2)) WHERE substr(place, 1, length(?2)) = ?2 \
             AND EXISTS (SELECT 1 FROM operation_step s WHERE s.operation = operation_piece.operation \
             AND s.n = operation_piece.step AND s.place = ?1)",
            (FilesBeside::Created.name(), &within, &to),
        )
        .map(drop)
}

/// The end of the name of the file that is locked during an operation.
const OPERATION_LOCK: &str = "-operation-lock";

/// The lock of operations. Its file is not empty while it is held, so that a process that is killed leaves a sign of it.
#[derive(Debug)]
struct MarkedLock {
    file: File,
    /// Whether the sign goes with the lock. It stays if it was there before and nobody has put in order what was left.
    is_ours: bool,
}

impl MarkedLock {
    fn of(mut file: File, puts_in_order: bool) -> MarkedLock {
        let was_left = file.metadata().is_ok_and(|metadata| metadata.len() > 0);
        if !was_left {
            // Without the sign, what a kill leaves is found by the next operation that is cut short.
            let _ = file.write_all(b"held\n");
        }
        MarkedLock { file, is_ours: puts_in_order || !was_left }
    }
}

impl Drop for MarkedLock {
    fn drop(&mut self) {
        if self.is_ours {
            let _ = self.file.set_len(0);
        }
    }
}

impl OperationLog for SqliteStore {
    fn lock_operations(&self) -> io::Result<OperationLock> {
        let file = self.operation_lock_file()?;
        file.lock()?;
        Ok(OperationLock::new(MarkedLock::of(file, false)))
    }

    fn try_lock_operations(&self) -> io::Result<Option<OperationLock>> {
        let file = self.operation_lock_file()?;
        match file.try_lock() {
            Ok(()) => Ok(Some(OperationLock::new(MarkedLock::of(file, true)))),
            Err(std::fs::TryLockError::WouldBlock) => Ok(None),
            Err(std::fs::TryLockError::Error(error)) => Err(error),
        }
    }

    fn was_operation_killed(&self) -> bool {
        let path = sqlite::beside(self.path(), OPERATION_LOCK);
        std::fs::metadata(path).is_ok_and(|metadata| metadata.len() > 0)
    }

    fn note_step(
        &self,
        operation: Option<i64>,
        request: &OperationRequest,
        plan: &OperationPlan,
        home: &str,
        pieces: &[Piece],
    ) -> Result<i64, CommitError> {
        let failed = |error: rusqlite::Error| self.commit_error(&error);
        // Compressing comes first, while no writer waits for this one.
        let packed: Vec<_> = pieces.iter().map(|piece| piece.before.as_deref().map(codec::pack)).collect();
        let writing = self.write()?;
        let noted = (|| {
            let operation = match operation {
                Some(operation) => operation,
                None => insert(&writing, self.now(), request, plan, OperationState::Underway)?,
            };
            let step: i64 = writing.query_row(
                "SELECT coalesce(max(n), 0) + 1 FROM operation_step WHERE operation = ?1",
                [operation],
                |row| row.get(0),
            )?;
            writing.execute(
                "INSERT INTO operation_step (operation, n, place, state) VALUES (?1, ?2, ?3, 0)",
                (operation, step, home),
            )?;
            let mut insert = writing.prepare_cached(
                "INSERT INTO operation_piece (operation, step, place, session, before_hash, after_hash, form, size, before) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            )?;
            for (piece, packed) in pieces.iter().zip(&packed) {
                // The hash of the bytes before also tells whether they are kept undamaged.
                let before = piece.before.as_ref().map(|bytes| ContentHash::of(bytes));
                let bytes_of = |hash: Option<ContentHash>| hash.map(|hash| hash.as_bytes().to_vec());
                insert.execute((
                    operation,
                    step,
                    &piece.place,
                    piece.session.as_ref().map(SessionId::as_str),
                    bytes_of(before),
                    bytes_of(hash_of(piece.after.as_ref())),
                    packed.as_ref().map(|packed| packed.form),
                    packed.as_ref().map(|packed| packed.size as i64),
                    packed.as_ref().map(|packed| &packed.bytes[..]),
                ))?;
                note_session(&writing, operation, piece.session.as_ref())?;
            }
            Ok(operation)
        })();
        let operation = noted.map_err(failed)?;
        self.finish(writing)?;
        Ok(operation)
    }

    fn begin_operation(&self, request: &OperationRequest, plan: &OperationPlan) -> Result<i64, CommitError> {
        let failed = |error: rusqlite::Error| self.commit_error(&error);
        let writing = self.write()?;
        let operation =
            insert(&writing, self.now(), request, plan, OperationState::Underway).map_err(failed)?;
        self.finish(writing)?;
        Ok(operation)
    }

    fn note_final(&self, request: &OperationRequest) -> Result<i64, CommitError> {
        let failed = |error: rusqlite::Error| self.commit_error(&error);
        let writing = self.write()?;
        let operation =
            insert(&writing, self.now(), request, &OperationPlan::default(), OperationState::Done)
                .map_err(failed)?;
        self.finish(writing)?;
        Ok(operation)
    }

    fn end_operation(
        &self,
        operation: i64,
        state: OperationState,
        steps: Option<&[i64]>,
        sessions: &[SessionId],
    ) -> Result<(), CommitError> {
        let failed = |error: rusqlite::Error| self.commit_error(&error);
        let writing = self.write()?;
        let ended = (|| {
            for session in sessions {
                note_session(&writing, operation, Some(session))?;
            }
            match steps {
                None => writing
                    .execute("UPDATE operation_step SET state = 1 WHERE operation = ?1", [operation])?,
                Some(steps) => steps.iter().try_fold(0, |n, step| {
                    let made = "UPDATE operation_step SET state = 1 WHERE operation = ?1 AND n = ?2";
                    writing.execute(made, (operation, step)).map(|done| n + done)
                })?,
            };
            let undoes: Option<i64> = writing.query_row(
                "UPDATE operation SET state = ?2, plan = NULL WHERE n = ?1 RETURNING undoes",
                (operation, state as i64),
                |row| row.get(0),
            )?;
            if let (Some(undoes), OperationState::Done) = (undoes, state) {
                // Undoing an undo does the first operation again.
                writing.execute(
                    "UPDATE operation SET undone_by = NULL WHERE n = (SELECT undoes FROM operation WHERE n = ?1)",
                    [undoes],
                )?;
                writing.execute("UPDATE operation SET undone_by = ?2 WHERE n = ?1", (undoes, operation))?;
            }
            Ok(())
        })();
        ended.map_err(failed)?;
        self.finish(writing)
    }

    fn commit_as(&self, transaction: Transaction, operation: i64) -> Result<Receipt, CommitError> {
        self.commit_in(transaction, Some(operation))
    }

    fn for_operation(&self, operation: i64) -> Box<dyn Write> {
        Box::new(SqliteStore { operation: Some(operation), ..self.another() })
    }

    fn operations(&self, query: &OperationQuery) -> Result<Vec<Operation>, ReadError> {
        self.read(|connection| {
            let mut conditions = "state <> 2".to_owned();
            let mut values: Vec<Value> = Vec::new();
            if let Some(session) = &query.session {
                conditions.push_str(" AND n IN (SELECT operation FROM operation_session WHERE session = ?)");
                values.push(session.to_string().into());
            }
            for (condition, value) in
                [(" AND time >= ?", query.since), (" AND time < ?", query.until), (" AND n > ?", query.after)]
            {
                if let Some(value) = value {
                    conditions.push_str(condition);
                    values.push(value.into());
                }
            }
            let limit = query.limit.and_then(|limit| i64::try_from(limit).ok()).unwrap_or(-1);
            let sql =
                format!("SELECT {COLUMNS} FROM operation WHERE {conditions} ORDER BY n DESC LIMIT {limit}");
            let mut statement = connection.prepare_cached(&sql)?;
            let found: Vec<Operation> = statement
                .query_map(rusqlite::params_from_iter(values), read)?
                .collect::<rusqlite::Result<_>>()?;
            found.into_iter().map(|operation| complete(connection, operation)).collect()
        })
    }

    fn operation(&self, number: i64) -> Result<Option<Operation>, ReadError> {
        self.read(|connection| {
            let found = connection
                .prepare_cached(&format!("SELECT {COLUMNS} FROM operation WHERE n = ?1"))?
                .query_row([number], read)
                .optional()?;
            found.map(|operation| complete(connection, operation)).transpose()
        })
    }

    fn unfinished_operations(&self) -> Result<Vec<i64>, ReadError> {
        self.read(|connection| {
            let mut statement =
                connection.prepare_cached("SELECT n FROM operation WHERE state = 0 ORDER BY n DESC")?;
            statement.query_map([], |row| row.get(0))?.collect()
        })
    }

    fn steps(&self, operation: i64, all: bool) -> Result<Vec<Step>, ReadError> {
        self.read(|connection| {
            let mut statement = connection.prepare_cached(
                "SELECT n, place FROM operation_step WHERE operation = ?1 AND (state = 1 OR ?2) ORDER BY n",
            )?;
            let steps = statement
                .query_map((operation, all), |row| Ok(Step { number: row.get(0)?, place: row.get(1)? }))?;
            steps.collect()
        })
    }

    fn noted_pieces(&self, operation: i64, step: i64) -> Result<Vec<NotedPiece>, ReadError> {
        self.read(|connection| {
            let mut statement = connection.prepare_cached(
                "SELECT place, session, before_hash, after_hash, form, size, before FROM operation_piece \
                 WHERE operation = ?1 AND step = ?2 ORDER BY place",
            )?;
            statement.query_map((operation, step), noted_piece)?.collect()
        })
    }

    fn plan(&self, operation: i64) -> Result<OperationPlan, ReadError> {
        let text: Option<String> = self.read(|connection| {
            connection
                .prepare_cached("SELECT plan FROM operation WHERE n = ?1")?
                .query_row([operation], |row| row.get(0))
        })?;
        Ok(text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default())
    }

    fn noted_changes(&self, operation: i64) -> Result<Vec<NotedChange>, ReadError> {
        self.read(|connection| {
            let changes = changes_of(connection, operation)?.into_iter().map(|change| {
                let is_current = local_change(connection, &change.key)? == change.after;
                Ok(NotedChange { key: change.key, is_kept: change.is_kept, is_current })
            });
            changes.collect()
        })
    }

    fn brought(&self, operation: i64) -> Result<Vec<SessionId>, ReadError> {
        let ids: Vec<String> = self.read(|connection| {
            let mut statement = connection.prepare_cached(
                "SELECT s.session FROM operation_session s JOIN document d ON d.owner = 0 AND d.kind = ?2 AND d.id = s.session \
                 WHERE s.operation = ?1 \
                 AND NOT EXISTS (SELECT 1 FROM origin o WHERE o.session = d.n AND o.gone IS NULL) \
                 AND (SELECT operation FROM revision r WHERE r.n = (SELECT min(n) FROM revision WHERE session = d.n \
                      OR n IN (SELECT revision FROM touched t WHERE t.session = d.n))) = ?1",
            )?;
            statement.query_map((operation, Kind::Session.number()), |row| row.get(0))?.collect()
        })?;
        Ok(ids.iter().filter_map(|id| SessionId::parse(id).ok()).collect())
    }

    fn change_back(
        &self,
        operation: i64,
        documents: &[Key],
        by: i64,
        reason: &str,
    ) -> Result<(), CommitError> {
        let failed = |error: rusqlite::Error| self.commit_error(&error);
        let writing = self.write()?;
        let changed = (|| {
            let revising = Revising::new(&writing, self.now(), reason, None)?;
            let mut revising = revising.of_operation(Some(by));
            let mut sessions = BTreeSet::new();
            let changes = changes_of(&writing, operation)?;
            for change in changes.iter().filter(|change| documents.contains(&change.key)) {
                let session = revising.session_of(&change.key)?;
                let standing = Standing::of(&writing, session)?;
                held::change_back(&mut revising, &standing, &change.key, change.before.as_ref())?;
                if let Some(document) = revising.state(&change.key)? {
                    let now = LocalChange::of_document(&writing, &document)?;
                    note_change(&writing, by, document.n, change.after.as_ref(), now.as_ref())?;
                }
                sessions.insert(session);
            }
            revising.finish()?;
            // The shown states of other documents may depend on whether the session itself was deleted here.
            for session in sessions.into_iter().filter(|session| *session != SessionRow::NONE) {
                held::settle(&writing, self.now(), session, Some(by))?;
            }
            derived::refresh(&writing)
        })();
        changed.map_err(failed)?;
        self.finish(writing)
    }
}

impl SqliteStore {
    fn operation_lock_file(&self) -> io::Result<File> {
        platform::open_private_file(&sqlite::beside(self.path(), OPERATION_LOCK))
    }
}

/// A change that an operation made in the store alone.
struct StoreChange {
    key: Key,
    /// The change that had been made in the store before, if any.
    before: Option<LocalChange>,
    /// The change as the operation left it.
    after: Option<LocalChange>,
    /// Whether the state before is still in the store.
    is_kept: bool,
}

/// The changes that an operation made in the store alone, the last first.
fn changes_of(connection: &Connection, operation: i64) -> rusqlite::Result<Vec<StoreChange>> {
    let mut statement = connection.prepare_cached(
        "SELECT document, before, after FROM operation_change WHERE operation = ?1 ORDER BY document DESC",
    )?;
    let mut rows = statement.query([operation])?;
    let mut changes = Vec::new();
    while let Some(row) = rows.next()? {
        let Some(at) = placed(connection, row.get(0)?)? else { continue };
        let change = |column: usize| -> rusqlite::Result<Option<LocalChange>> {
            let text: Option<String> = row.get(column)?;
            Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
        };
        let before = change(1)?;
        let is_kept = match &before {
            Some(before) => before.is_kept(connection, row.get(0)?)?,
            None => true,
        };
        changes.push(StoreChange { key: at.key, before, after: change(2)?, is_kept });
    }
    Ok(changes)
}

/// The change of a document that was made in the store alone, if any.
fn local_change(connection: &Connection, key: &Key) -> rusqlite::Result<Option<LocalChange>> {
    let Some(n) = number_of(connection, key)? else { return Ok(None) };
    match state_at(connection, n)? {
        Some(document) => LocalChange::of_document(connection, &document),
        None => Ok(None),
    }
}

/// Notes the change that an operation made to a document in the store alone.
pub(super) fn note_change(
    connection: &Connection,
    operation: i64,
    document: DocumentRow,
    before: Option<&LocalChange>,
    after: Option<&LocalChange>,
) -> rusqlite::Result<()> {
    let text = |change: Option<&LocalChange>| change.and_then(|change| serde_json::to_string(change).ok());
    connection
        .prepare_cached(
            "INSERT INTO operation_change (operation, document, before, after) VALUES (?1, ?2, ?3, ?4) \
             ON CONFLICT DO UPDATE SET after = ?4",
        )?
        .execute((operation, document, text(before), text(after)))
        .map(drop)
}

const COLUMNS: &str = "n, time, kind, words, user, host, pid, state, undoes, undone_by";

fn read(row: &Row<'_>) -> rusqlite::Result<Operation> {
    Ok(Operation {
        number: row.get(0)?,
        time: row.get(1)?,
        kind: row.get(2)?,
        words: row.get(3)?,
        user: row.get(4)?,
        host: row.get(5)?,
        pid: row.get(6)?,
        state: OperationState::from_number(row.get(7)?),
        undoes: row.get(8)?,
        undone_by: row.get(9)?,
        places: Vec::new(),
        sessions: Vec::new(),
        revisions: Vec::new(),
    })
}

/// Adds to an operation its places, sessions and revisions.
fn complete(connection: &Connection, mut operation: Operation) -> rusqlite::Result<Operation> {
    let mut places = connection.prepare_cached(
        "SELECT place FROM operation_step WHERE operation = ?1 AND state = 1 AND place NOT IN ('files', 'working tree') GROUP BY place ORDER BY min(n)",
    )?;
    operation.places =
        places.query_map([operation.number], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    let mut sessions = connection
        .prepare_cached("SELECT session FROM operation_session WHERE operation = ?1 ORDER BY session")?;
    let ids: Vec<String> =
        sessions.query_map([operation.number], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    operation.sessions = ids.iter().filter_map(|id| SessionId::parse(id).ok()).collect();
    let mut revisions =
        connection.prepare_cached("SELECT n FROM revision WHERE operation = ?1 ORDER BY n")?;
    operation.revisions =
        revisions.query_map([operation.number], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    Ok(operation)
}

fn noted_piece(row: &Row<'_>) -> rusqlite::Result<NotedPiece> {
    let hash = |column: usize| -> rusqlite::Result<Option<ContentHash>> {
        let bytes: Option<Vec<u8>> = row.get(column)?;
        Ok(bytes.and_then(|bytes| bytes.try_into().ok()).map(ContentHash::from_bytes))
    };
    let before_hash = hash(2)?;
    let session: Option<String> = row.get(1)?;
    let form: Option<i64> = row.get(4)?;
    let size: Option<i64> = row.get(5)?;
    let data = row.get_ref(6)?.as_bytes_or_null()?.unwrap_or_default();
    let before = match (&before_hash, form.zip(size)) {
        (None, _) => Before::Nothing,
        (Some(hash), Some((form, size))) if form >= 0 => {
            codec::unpack(form, size, data, StateHash::from(hash)).map_or(Before::NotKept, Before::Bytes)
        }
        _ => Before::NotKept,
    };
    Ok(NotedPiece {
        place: row.get(0)?,
        session: session.and_then(|id| SessionId::parse(&id).ok()),
        before_hash: match &before {
            Before::Bytes(bytes) => hash_of(Some(bytes)),
            Before::Nothing | Before::NotKept => before_hash,
        },
        after_hash: hash(3)?,
        before,
    })
}

fn insert(
    connection: &Connection,
    now: Millis,
    request: &OperationRequest,
    plan: &OperationPlan,
    state: OperationState,
) -> rusqlite::Result<i64> {
    connection.execute(
        "INSERT INTO operation (time, kind, words, user, host, pid, state, undoes, plan) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        (
            now,
            request.kind.name(),
            &request.words,
            &request.user,
            &request.host,
            request.pid,
            state as i64,
            request.undoes,
            Some(state)
                .filter(|state| *state == OperationState::Underway)
                .and_then(|_| serde_json::to_string(plan).ok()),
        ),
    )?;
    Ok(connection.last_insert_rowid())
}

fn note_session(
    connection: &Connection,
    operation: i64,
    session: Option<&SessionId>,
) -> rusqlite::Result<()> {
    let Some(session) = session else { return Ok(()) };
    connection
        .prepare_cached("INSERT OR IGNORE INTO operation_session (operation, session) VALUES (?1, ?2)")?
        .execute((operation, session.as_str()))
        .map(drop)
}

/// Removes the traces of a forgotten session from operations: the bytes before each change, and the words of the command, which may
/// hold a title.
pub(super) fn forget(connection: &Connection, session: &SessionId, words: &str) -> rusqlite::Result<()> {
    let id = session.as_str();
    connection.execute(
        "UPDATE operation SET words = ?2, plan = NULL WHERE n IN (SELECT operation FROM operation_session WHERE session = ?1) \
         OR instr(words, ?1)",
        (id, words),
    )?;
    connection.execute("DELETE FROM operation_piece WHERE session = ?1 OR instr(place, ?1)", [id])?;
    connection.execute("DELETE FROM operation_session WHERE session = ?1", [id])?;
    Ok(())
}

/// Drops the bytes from before operations that are older than a time, of some sessions or of all. Gives the number of pieces and bytes.
pub(super) fn prune(
    connection: &Connection,
    older_than: Millis,
    sessions: Option<&[SessionId]>,
    is_counting: bool,
) -> rusqlite::Result<(usize, u64)> {
    const OLD: &str = "form >= 0 AND operation IN (SELECT n FROM operation WHERE time < ?1) AND (?2 IS NULL OR session = ?2)";
    let wanted: Vec<Option<&str>> = match sessions {
        Some(sessions) => sessions.iter().map(|session| Some(session.as_str())).collect(),
        None => vec![None],
    };
    let (mut n_pieces, mut n_bytes) = (0, 0);
    for session in wanted {
        let (pieces, bytes): (usize, i64) = connection.query_row(
            &format!(
                "SELECT count(*), coalesce(sum(octet_length(before)), 0) FROM operation_piece WHERE {OLD}"
            ),
            (older_than, session),
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?;
        n_pieces += pieces;
        n_bytes += bytes.unsigned_abs();
        if !is_counting {
            let sql = format!("UPDATE operation_piece SET form = -1, before = NULL WHERE {OLD}");
            connection.execute(&sql, (older_than, session))?;
        }
    }
    Ok((n_pieces, n_bytes))
}
