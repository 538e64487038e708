//! The space that a database takes: by use, by session, and how it is given back.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use annals_core::id::{Millis, SessionId};
use rusqlite::Connection;

use super::OpencodeDatabase;
use super::commit::LEASES;
use super::row::text_of;
use crate::home::pieces::Exchange;
use crate::home::space::{ClearedRemains, Space, SpaceKind, SpaceUse, TrimmedLog};
use crate::home::{CommitError, ReadError};
use crate::{platform, sqlite};

/// Upper bound on the entries of the log of changes that one transaction removes. OpenCode waits five seconds for its turn to write; this
/// takes a fraction of one.
const MOST_AT_ONCE: usize = 2_000;
/// Tables whose rows belong to a session.
const OF_SESSIONS: [&str; 9] = [
    "session",
    "session_v2",
    "message",
    "part",
    "todo",
    "session_share",
    "session_message",
    "session_input",
    "session_context_epoch",
];
/// Entries that only record what other tables say. Those of the second API (`session.next.…`) are what its sessions are made of.
const RECORDS: [&str; 7] = [
    "session.created.1",
    "session.updated.1",
    "session.deleted.1",
    "message.updated.1",
    "message.removed.1",
    "message.part.updated.1",
    "message.part.removed.1",
];

impl Space for OpencodeDatabase {
    fn uses(&self) -> Result<Vec<SpaceUse>, ReadError> {
        let uses = self.read(|connection| {
            let (mut sessions, mut events, mut other) = (0, 0, 0);
            for (table, bytes) in table_sizes(connection)? {
                *match &table[..] {
                    "event" | "event_sequence" => &mut events,
                    name if OF_SESSIONS.contains(&name) => &mut sessions,
                    _ => &mut other,
                } += bytes;
            }
            let number = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, u64>(0));
            let unused = number("PRAGMA freelist_count")? * number("PRAGMA page_size")?;
            let counted = |table: &str| match self.schema.has(table) {
                true => number(&format!("SELECT count(*) FROM {table}")).map(|n| n as usize),
                false => Ok(0),
            };
            let n_sessions = self.schema.session_tables().next().map_or(Ok(0), counted)?;
            Ok([
                (SpaceKind::Sessions, sessions, Some(n_sessions)),
                (SpaceKind::Events, events, Some(counted("event")?)),
                (SpaceKind::Unused, unused, None),
                (SpaceKind::Other, other, None),
            ])
        });
        let uses = uses.map_err(|error| self.read_error(&error))?;
        let log = std::fs::metadata(sqlite::log_of(&self.file())).map_or(0, |metadata| metadata.len());
        let mut uses: Vec<SpaceUse> = uses
            .into_iter()
            .map(|(kind, bytes, items)| {
                let log = if kind == SpaceKind::Unused { log } else { 0 };
                SpaceUse { kind, bytes: bytes + log, items }
            })
            .filter(|space| space.bytes > 0)
            .collect();
        uses.sort_by_key(|space| std::cmp::Reverse(space.bytes));
        Ok(uses)
    }

    fn session_sizes(&self) -> Result<HashMap<SessionId, u64>, ReadError> {
        let sizes = self.read(|connection| {
            let mut sizes: HashMap<SessionId, u64> = HashMap::new();
            for table in ["message", "part", "session_message"] {
                if !self.schema.has_column(table, "session_id") || !self.schema.has_column(table, "data") {
                    continue;
                }
                let sql =
                    format!("SELECT session_id, sum(octet_length(data)) FROM {table} GROUP BY session_id");
                let mut statement = connection.prepare(&sql)?;
                let mut rows = statement.query([])?;
                while let Some(row) = rows.next()? {
                    if let Ok(session) = SessionId::parse_opencode(&text_of(row.get_ref(0)?)) {
                        *sizes.entry(session).or_default() += row.get::<_, Option<u64>>(1)?.unwrap_or(0);
                    }
                }
            }
            Ok(sizes)
        });
        sizes.map_err(|error| self.read_error(&error))
    }

    fn files(&self) -> Vec<PathBuf> {
        let file = self.file();
        let beside = ["-wal", "-shm", LEASES].map(|suffix| sqlite::beside(&file, suffix));
        std::iter::once(file).chain(beside).filter(|path| path.symlink_metadata().is_ok()).collect()
    }

    fn data_directory(&self) -> Option<PathBuf> {
        let is_opencodes = self.has_place_in_directory();
        self.path.parent().filter(|_| is_opencodes).map(Path::to_owned)
    }

    fn users(&self) -> Vec<u32> {
        let file = self.file();
        let mut users = platform::users_of(&file);
        users.extend(platform::users_of(&sqlite::log_of(&file)));
        users.sort_unstable();
        users.dedup();
        users
    }

    /// A file that no other process has open is rewritten as a whole. Beside another process unused pages are written over, in a
    /// transaction like any other: an OpenCode that has lost its locks would be harmed by more.
    fn clear_remains(&self) -> Result<ClearedRemains, CommitError> {
        let failed = |error: rusqlite::Error| self.failed(error);
        if let Some(process) = self.connections.endangered() {
            return Err(CommitError::Endangered { path: self.path.display().to_string(), process });
        }
        let bytes_before = self.bytes();
        let users = self.users();
        let is_emptied = match users.is_empty() {
            true => self.connections.rewrite(),
            false => self.connections.overwrite_unused(),
        };
        let is_log_left = !is_emptied.map_err(failed)?;
        Ok(ClearedRemains { bytes_before, bytes_after: self.bytes(), users, is_log_left })
    }

    /// None: rows refer to each other, and what refers to nothing is damage.
    fn orphans(&self) -> Result<Vec<Exchange>, ReadError> {
        Ok(Vec::new())
    }

    /// The numbering of a session's log goes on: its last number is kept in another table.
    fn trim_change_log(&self, before: Millis, dry_run: bool) -> Result<TrimmedLog, CommitError> {
        let mut trimmed = TrimmedLog::default();
        if !self.schema.has_column("event", "aggregate_id") || !self.schema.has("event_sequence") {
            return Ok(trimmed);
        }
        if let Some(process) = self.connections.endangered() {
            return Err(CommitError::Endangered { path: self.path.display().to_string(), process });
        }
        let failed = |error: rusqlite::Error| self.failed(error);
        let counted = self.read(|connection| {
            let sessions = self.sessions_at_rest(connection, before)?;
            let mut trimmed = TrimmedLog::default();
            let mut statement = connection.prepare(
                "SELECT aggregate_id, type, count(*), sum(octet_length(data)) FROM event GROUP BY aggregate_id, type",
            )?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                let (session, kind) = (text_of(row.get_ref(0)?), text_of(row.get_ref(1)?));
                let (n, bytes) = (row.get::<_, usize>(2)?, row.get::<_, Option<u64>>(3)?.unwrap_or(0));
                if sessions.contains(&*session) && RECORDS.contains(&&*kind) {
                    trimmed.entries += n;
                    trimmed.bytes += bytes;
                } else {
                    trimmed.kept += n;
                }
            }
            Ok((sessions, trimmed))
        });
        let (sessions, counted) = counted.map_err(failed)?;
        if dry_run {
            return Ok(counted);
        }
        trimmed.bytes = counted.bytes;
        let kinds = RECORDS.map(|kind| format!("'{kind}'")).join(", ");
        let sql = format!(
            "DELETE FROM event WHERE rowid IN (SELECT rowid FROM event WHERE aggregate_id = ?1 AND type IN ({kinds}) LIMIT ?2)"
        );
        for session in &sessions {
            loop {
                let removed = self.connections.write(failed, |connection| {
                    // What is removed here need not be written over: it is the past of what stays. Each page would be written once more.
                    let removed = connection.pragma_update(None, "secure_delete", "FAST").and_then(|()| {
                        connection.prepare_cached(&sql)?.execute((session.as_str(), MOST_AT_ONCE as i64))
                    });
                    let ended = self.end(connection, removed.map_err(failed));
                    connection.pragma_update(None, "secure_delete", true).map_err(failed)?;
                    ended
                })?;
                trimmed.entries += removed;
                if removed < MOST_AT_ONCE {
                    break;
                }
            }
        }
        trimmed.kept = (counted.entries + counted.kept).saturating_sub(trimmed.entries);
        Ok(trimmed)
    }
}

impl OpencodeDatabase {
    /// The file itself, not a link to it.
    fn file(&self) -> PathBuf {
        self.path.canonicalize().unwrap_or_else(|_| self.path.clone())
    }

    fn bytes(&self) -> u64 {
        let file = self.file();
        let size = |path: &Path| std::fs::metadata(path).map_or(0, |metadata| metadata.len());
        size(&file) + size(&sqlite::log_of(&file))
    }

    /// The sessions that were last used before a moment, and whose log of changes nothing else needs: they are not shared with another
    /// machine, and not made of it.
    fn sessions_at_rest(&self, connection: &Connection, before: Millis) -> rusqlite::Result<HashSet<String>> {
        let mut conditions = vec!["s.time_updated < ?1".to_owned()];
        if self.schema.has_column("event_sequence", "owner_id") {
            conditions.push(
                "NOT EXISTS (SELECT 1 FROM event_sequence q WHERE q.aggregate_id = s.id AND q.owner_id IS NOT NULL)"
                    .to_owned(),
            );
        }
        for table in ["session_message", "session_input", "session_context_epoch"] {
            if self.schema.has_column(table, "session_id") {
                conditions.push(format!("NOT EXISTS (SELECT 1 FROM {table} t WHERE t.session_id = s.id)"));
            }
        }
        let sql = format!("SELECT s.id FROM session s WHERE {}", conditions.join(" AND "));
        let mut statement = connection.prepare(&sql)?;
        statement.query_map([before], |row| Ok(text_of(row.get_ref(0)?)))?.collect()
    }
}

/// The bytes that each table takes with its indexes.
fn table_sizes(connection: &Connection) -> rusqlite::Result<HashMap<String, u64>> {
    let mut statement = connection.prepare(
        "SELECT coalesce(s.tbl_name, d.name), sum(d.pgsize) FROM dbstat d LEFT JOIN sqlite_schema s ON s.name = d.name \
         WHERE d.aggregate = TRUE GROUP BY 1",
    )?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    rows.collect()
}
