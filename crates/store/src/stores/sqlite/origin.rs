//! Where sessions come from: the homes the store follows, and how far the last look at each session went.

use std::collections::{HashMap, HashSet};

use annals_core::id::{Millis, SessionId};
use rusqlite::{Connection, OptionalExtension};

use super::SqliteStore;
use super::derived;
use super::kind::Kind;
use super::numbers::{DocumentRow, SessionRow};
use super::quarantine::note_quarantine;
use super::revise::Revising;
use super::rows::{below, session_row};
use crate::follow::{
    Cursor, Depth, ForgottenSessions, HomeNumber, HomeState, KnownHome, Look, LookEnd, Numbers, Origin,
};
use crate::home::ReadError;

impl SqliteStore {
    pub(super) fn home_at(&self, url: &str) -> Result<Option<KnownHome>, ReadError> {
        self.read(|connection| {
            connection
                .prepare_cached("SELECT n, stamp, complete FROM home WHERE url = ?1")?
                .query_row([url], |row| {
                    Ok(KnownHome {
                        number: row.get(0)?,
                        stamp: row.get::<_, Option<_>>(1)?.unwrap_or_default(),
                        is_complete: row.get(2)?,
                    })
                })
                .optional()
        })
    }

    /// Whether a home has been noted in this state.
    pub(super) fn is_home_state(&self, home: HomeNumber, state: &HomeState<'_>) -> Result<bool, ReadError> {
        self.read(|connection| {
            let mut select = connection.prepare_cached("SELECT stamp, complete FROM home WHERE n = ?1")?;
            let noted: Option<(Option<Vec<u8>>, bool)> =
                select.query_row([home], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
            Ok(noted.is_some_and(|(stamp, is_complete)| {
                stamp.unwrap_or_default() == state.stamp && is_complete >= state.is_complete
            }))
        })
    }

    /// All that is known of the sessions of a home.
    pub(super) fn origins_in(&self, home: HomeNumber) -> Result<HashMap<SessionId, Origin>, ReadError> {
        self.read(|connection| {
            // The index has the ids; the rows of the sessions are all over the file.
            let sessions = below(connection, DocumentRow::NO_OWNER, Kind::Session)?;
            let ids: HashMap<SessionRow, String> =
                sessions.into_iter().map(|(n, id)| (n.into(), id)).collect();
            let mut statement = connection.prepare_cached(
                "SELECT session, updated, stamp, looked, settled, stage, events, gone IS NOT NULL, turn \
                 FROM origin WHERE home = ?1",
            )?;
            let mut unreadable = connection.prepare_cached(
                "SELECT DISTINCT session FROM quarantine WHERE home = ?1 AND session NOTNULL",
            )?;
            let unreadable: HashSet<String> =
                unreadable.query_map([home], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
            let mut rows = statement.query([home])?;
            let mut origins = HashMap::new();
            while let Some(row) = rows.next()? {
                let session: SessionRow = row.get(0)?;
                let Some(Ok(id)) = ids.get(&session).map(|id| SessionId::parse(id)) else { continue };
                let cursor = Cursor {
                    stamp: row.get::<_, Option<_>>(2)?.unwrap_or_default(),
                    updated: row.get(1)?,
                    settled: row.get(4)?,
                    depth: Depth::from_number(row.get(5)?),
                    has_unreadable: unreadable.contains(id.as_str()),
                };
                let origin = Origin {
                    cursor,
                    looked: row.get(3)?,
                    turn: row.get(8)?,
                    log_position: row.get(6)?,
                    is_gone: row.get(7)?,
                };
                origins.insert(id, origin);
            }
            Ok(origins)
        })
    }

    /// Whether the store knows of an answer or a call of a session that has not ended.
    pub(super) fn is_open(&self, session: SessionRow) -> Result<bool, ReadError> {
        self.read(|connection| {
            let answers = "SELECT 1 FROM message WHERE session = ?1 AND role = 2 AND state = 3";
            // Calls of a message that was deleted may have been left behind, and will never end.
            let calls = "SELECT 1 FROM call c JOIN message m ON m.session = c.session AND m.n = c.message \
                         WHERE c.session = ?1 AND c.ms IS NULL AND NOT c.failed";
            Ok(connection.prepare_cached(answers)?.exists([session])?
                || connection.prepare_cached(calls)?.exists([session])?)
        })
    }

    /// The sessions that were forgotten.
    pub(super) fn forgotten_sessions(&self) -> Result<ForgottenSessions, ReadError> {
        self.read(|connection| {
            let mut statement = connection.prepare_cached("SELECT hash FROM forgotten")?;
            let hashes = statement.query_map([], |row| row.get(0))?;
            hashes.collect::<rusqlite::Result<_>>().map(ForgottenSessions)
        })
    }

    /// The numbers of all sessions that the store has a place for, by their ids.
    pub(super) fn session_numbers(&self) -> Result<HashMap<String, SessionRow>, ReadError> {
        let sessions = self.read(|connection| below(connection, DocumentRow::NO_OWNER, Kind::Session))?;
        Ok(sessions.into_iter().map(|(n, id)| (id, n.into())).collect())
    }

    /// The number of a session, if the store has a place for it.
    pub(super) fn session_number(&self, session: &SessionId) -> Result<Option<SessionRow>, ReadError> {
        self.read(|connection| session_row(connection, session.as_str()))
    }

    /// Whether the store has, or had, any message of a session.
    pub(super) fn has_messages(&self, session: SessionRow) -> Result<bool, ReadError> {
        self.read(|connection| {
            connection
                .prepare_cached("SELECT 1 FROM document WHERE owner = ?1 AND kind = ?2 LIMIT 1")?
                .exists((session, Kind::Message.number()))
        })
    }

    /// Sessions, by their numbers, that several homes have or had.
    pub(super) fn shared_sessions(&self) -> Result<HashSet<SessionRow>, ReadError> {
        self.read(|connection| {
            let mut statement = connection
                .prepare_cached("SELECT session FROM origin GROUP BY session HAVING count(*) > 1")?;
            statement.query_map([], |row| row.get(0))?.collect()
        })
    }

    /// The last look at a session in each home.
    pub(super) fn looks(&self, session: SessionRow) -> Result<Vec<Look>, ReadError> {
        self.read(|connection| looks(connection, session))
    }
}

/// The last look at a session in each home.
pub(super) fn looks(connection: &Connection, session: SessionRow) -> rusqlite::Result<Vec<Look>> {
    let mut statement = connection.prepare_cached(
        "SELECT o.home, o.updated, h.rank, h.own, o.turn, o.gone IS NULL, o.stage \
         FROM origin o JOIN home h ON h.n = o.home WHERE o.session = ?1 ORDER BY o.home",
    )?;
    let looks = statement.query_map([session], |row| {
        Ok(Look {
            home: row.get(0)?,
            updated: row.get(1)?,
            rank: row.get(2)?,
            is_own: row.get(3)?,
            turn: row.get(4)?,
            is_there: row.get(5)?,
            is_deep: Depth::from_number(row.get(6)?) == Depth::Parts,
        })
    })?;
    looks.collect()
}

/// Notes evidence of the state of a whole home, and the time.
pub(super) fn note_home(
    connection: &Connection,
    home: HomeNumber,
    stamp: &[u8],
    is_complete: bool,
    now: Millis,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached("UPDATE home SET stamp = ?2, synced = ?3, complete = complete OR ?4 WHERE n = ?1")?
        .execute((home, stamp, now, is_complete))
        .map(drop)
}

/// The number of the next look.
pub(super) fn next_turn(connection: &Connection) -> rusqlite::Result<i64> {
    connection
        .prepare_cached(
            "INSERT INTO meta (name, value) VALUES ('turn', 1) ON CONFLICT DO UPDATE SET value = value + 1 RETURNING value",
        )?
        .query_row([], |row| row.get(0))
}

/// Notes that only the document of a session was looked at just now. How the session looked from outside before is no longer
/// evidence: it may look the same again.
pub(super) fn note_document(
    connection: &Connection,
    session: SessionRow,
    home: HomeNumber,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached("UPDATE origin SET turn = ?3, stamp = NULL WHERE session = ?1 AND home = ?2")?
        .execute((session, home, next_turn(connection)?))
        .map(drop)
}

/// Moves the cursor of a session, in the transaction that has the findings.
pub(super) fn note_look(
    connection: &Connection,
    session: SessionRow,
    id: &SessionId,
    home: HomeNumber,
    ended: &LookEnd,
    turn: i64,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO origin (session, home, place, updated, stamp, looked, settled, stage, turn) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) ON CONFLICT DO UPDATE SET place = ?3, updated = ?4, stamp = ?5, \
             looked = ?6, settled = ?7, stage = ?8, turn = ?9, gone = NULL",
        )?
        .execute((
            session,
            home,
            &ended.place,
            ended.cursor.updated,
            &ended.cursor.stamp,
            ended.looked,
            ended.cursor.settled,
            ended.cursor.depth as i64,
            turn,
        ))?;
    if ended.is_whole {
        connection
            .prepare_cached("DELETE FROM quarantine WHERE home = ?1 AND session = ?2")?
            .execute((home, id.as_str()))?;
    }
    note_quarantine(connection, home, &ended.quarantined, ended.looked)
}

/// Notes that a session is gone from its home. The documents that were taken from it stay.
pub(super) fn note_gone(
    connection: &Connection,
    revising: &mut Revising<'_>,
    session: SessionRow,
    home: HomeNumber,
    now: Millis,
) -> rusqlite::Result<()> {
    revising.note(session)?;
    connection
        .prepare_cached(
            "DELETE FROM quarantine WHERE home = ?1 AND session = (SELECT id FROM document WHERE n = ?2)",
        )?
        .execute((home, session))?;
    connection
        .prepare_cached(
            "UPDATE origin SET gone = ?3, stamp = NULL, turn = ?4 WHERE session = ?1 AND home = ?2",
        )?
        .execute((session, home, now, next_turn(connection)?))
        .map(drop)
}

/// Notes how far OpenCode's log of a session was read.
pub(super) fn note_events(
    connection: &Connection,
    session: SessionRow,
    home: HomeNumber,
    reached: Option<i64>,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached("UPDATE origin SET events = ?3 WHERE session = ?1 AND home = ?2")?
        .execute((session, home, reached))
        .map(drop)
}

/// Notes the numbers of a session whose messages are not in the store yet, or that from now on they are.
pub(super) fn note_numbers(
    connection: &Connection,
    session: SessionRow,
    numbers: &Numbers,
) -> rusqlite::Result<()> {
    match numbers {
        Numbers::Counted(summary, figures) => {
            derived::store(connection, session, Some(&summary.title), summary, true)?;
            derived::store_figures(connection, session, figures)
        }
        Numbers::Stored => {
            let n_brief = connection
                .prepare_cached("UPDATE session SET brief = 0, stale = 1 WHERE n = ?1 AND brief")?
                .execute([session])?;
            match n_brief {
                0 => Ok(()),
                _ => derived::store_figures(connection, session, &[]),
            }
        }
    }
}

/// Adds up the numbers of sessions that were changed.
pub(super) fn refresh(connection: &Connection) -> rusqlite::Result<()> {
    derived::refresh(connection)
}
