//! Forgetting: a session leaves the file as if it had never been there, except for a hash of its id.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use annals_core::id::SessionId;
use rusqlite::Connection;
use rusqlite::limits::Limit;

use super::SqliteStore;
use super::numbers::{DocumentRow, SessionRow};
use super::prune::documents_of_session;
use super::rows::session_row;
use crate::home::ReadError;
use crate::ops::FORGOTTEN;
use crate::scratch;
use crate::state_hash::StateHash;
use crate::upkeep::{ForgetError, Forgotten};

/// How long to wait for readers until the log can be emptied.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long to wait between two tries.
const PAUSE: Duration = Duration::from_millis(100);

impl SqliteStore {
    pub(super) fn has_forgotten(&self, session: &SessionId) -> Result<bool, ReadError> {
        self.read(|connection| is_forgotten(connection, session))
    }

    /// Removes sessions for good. Afterwards this rewrites the whole file: the pages that rows were moved from, when others grew, would keep
    /// parts of them. So the time it takes grows with the store, and it needs as much room on the disk again.
    pub(super) fn forget_all(&self, sessions: &[SessionId]) -> Result<Forgotten, ForgetError> {
        let failed = |error: rusqlite::Error| ForgetError::Commit(self.commit_error(&error));
        let mut forgotten = Forgotten::default();
        // New documents may get the numbers of forgotten ones.
        let mut documents = Vec::new();
        let writing = self.write()?;
        // Files that killed processes have left hold all of the store.
        scratch::sweep_beside(self.path());
        for session in sessions {
            if !remove(&writing, session, &mut forgotten, &mut documents).map_err(failed)? {
                return Err(ForgetError::NotFound(session.clone()));
            }
        }
        // The new identity makes the former index useless, in case there is no time to change it.
        let was: String = writing
            .query_row("SELECT value FROM meta WHERE name = 'store'", [], |row| row.get(0))
            .map_err(failed)?;
        writing
            .execute("UPDATE meta SET value = ?1 WHERE name = 'store'", [super::new_identity()])
            .map_err(failed)?;
        self.finish(writing)?;
        forgotten.n_documents = documents.len();
        forgotten.index_left = self.remove_from_index(&documents, &was).err().map(|error| error.to_string());
        forgotten.not_rewritten = self.rewrite().err();
        if forgotten.not_rewritten.is_some() {
            self.give_back();
        }
        forgotten.log_emptied = self.empty_log_patiently();
        forgotten.copies = self.copies();
        Ok(forgotten)
    }

    /// Rewrites the whole file. `secure_delete` overwrites rows that are deleted, but not the copies that are left in
    /// unused parts of pages when rows move from one page to another.
    fn rewrite(&self) -> Result<(), String> {
        let rewritten = self.file.exclusively(|connection| {
            // The new content is attached as a database of its own while it is made.
            connection.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 1)?;
            let rewritten = connection.execute_batch("VACUUM");
            connection.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
            rewritten
        });
        let rewritten = rewritten.map_err(|error| self.begin_error(error).to_string())?;
        rewritten.map_err(|error| self.commit_error(&error).to_string())
    }

    fn empty_log_patiently(&self) -> bool {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.file.empty_log() {
                Ok(true) => return true,
                Ok(false) | Err(_) if Instant::now() >= deadline => return false,
                _ => std::thread::sleep(PAUSE),
            }
        }
    }

    /// Files that upgrades and restored backups have put aside, and drafts of processes that are at work.
    fn copies(&self) -> Vec<PathBuf> {
        let (Some(directory), Some(name)) = (self.path().parent(), self.path().file_name()) else {
            return Vec::new();
        };
        let start = format!("{}.before-", name.to_string_lossy());
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        let mut copies: Vec<PathBuf> = entries
            .filter(|entry| entry.file_name().to_string_lossy().starts_with(&start))
            .map(|entry| entry.path())
            .collect();
        copies.extend(scratch::remaining(directory));
        copies.sort();
        copies
    }
}

fn is_forgotten(connection: &Connection, session: &SessionId) -> rusqlite::Result<bool> {
    let hash = StateHash::of(session.as_str().as_bytes());
    connection.prepare_cached("SELECT 1 FROM forgotten WHERE hash = ?1")?.exists([hash])
}

/// Removes a session. False if nothing is known of it, not even that it was forgotten before.
fn remove(
    connection: &Connection,
    session: &SessionId,
    forgotten: &mut Forgotten,
    documents: &mut Vec<DocumentRow>,
) -> rusqlite::Result<bool> {
    let id = session.as_str();
    // Some problems are not attributed to a session, but their place names it.
    let n_quarantined = connection.execute(
        "DELETE FROM quarantine WHERE session = ?1 OR instr(place, ?1) OR instr(reason, ?1)",
        [id],
    )?;
    let n = session_row(connection, id)?;
    if n.is_none() && n_quarantined == 0 {
        // A process that was killed meanwhile has not erased the unused parts of the file. That is done now.
        return is_forgotten(connection, session);
    }
    if let Some(n) = n {
        documents.extend(remove_documents(connection, n, forgotten)?);
    }
    forgotten.n_revisions += connection.execute(
        "UPDATE revision SET reason = ?2 WHERE instr(reason, ?1) OR operation IN \
         (SELECT operation FROM operation_session WHERE session = ?1)",
        (id, FORGOTTEN),
    )?;
    super::sharing::sweep(connection)?;
    super::operations::forget(connection, session, FORGOTTEN)?;
    connection
        .execute("INSERT OR IGNORE INTO forgotten (hash) VALUES (?1)", [StateHash::of(id.as_bytes())])?;
    Ok(true)
}

fn remove_documents(
    connection: &Connection,
    session: SessionRow,
    forgotten: &mut Forgotten,
) -> rusqlite::Result<Vec<DocumentRow>> {
    // Revisions that touched projects as well are still about this session.
    forgotten.n_revisions += connection.execute(
        "UPDATE revision SET reason = ?2 WHERE session = ?1 OR (n IN (SELECT revision FROM touched WHERE session = ?1) \
         AND NOT EXISTS (SELECT 1 FROM touched t WHERE t.revision = revision.n AND t.session NOT IN (0, ?1)))",
        (session, FORGOTTEN),
    )?;
    let documents = documents_of_session(connection, session)?;
    for n in &documents {
        forgotten.n_states +=
            connection.prepare_cached("DELETE FROM past WHERE document = ?1")?.execute([n])?;
        connection.prepare_cached("DELETE FROM tail WHERE document = ?1")?.execute([n])?;
        connection.prepare_cached("DELETE FROM held WHERE document = ?1")?.execute([n])?;
        connection.prepare_cached("DELETE FROM operation_change WHERE document = ?1")?.execute([n])?;
        connection.prepare_cached("DELETE FROM document WHERE n = ?1")?.execute([n])?;
    }
    for sql in [
        "UPDATE revision SET session = NULL, written = 0, deleted = 0, documents = '[]' WHERE session = ?1",
        "DELETE FROM touched WHERE session = ?1",
        "DELETE FROM origin WHERE session = ?1",
        "DELETE FROM message WHERE session = ?1",
        "DELETE FROM call WHERE session = ?1",
        "DELETE FROM session WHERE n = ?1",
    ] {
        connection.execute(sql, [session])?;
    }
    Ok(documents)
}
