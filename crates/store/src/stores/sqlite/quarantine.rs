//! Problems of homes: the places that could not be read, and why.

use std::collections::HashSet;

use annals_core::id::{Millis, SessionId};
use rusqlite::Connection;

use super::SqliteStore;
use crate::follow::HomeNumber;
use crate::home::{Quarantined, ReadError, UnreadableReason};

impl SqliteStore {
    /// Whether all these problems of a home are noted, and no others that belong to no session in the store.
    pub(super) fn is_home_quarantine(
        &self,
        home: HomeNumber,
        quarantined: &[Quarantined],
    ) -> Result<bool, ReadError> {
        let noted: Vec<(String, String, bool)> = self.read(|connection| {
            let sql = format!("SELECT place, reason, {OF_NO_SESSION} FROM quarantine WHERE home = ?1");
            let mut statement = connection.prepare_cached(&sql)?;
            statement.query_map([home], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?.collect()
        })?;
        let found: HashSet<(&str, String)> =
            quarantined.iter().map(|problem| (problem.place.as_str(), problem.reason.to_string())).collect();
        let is_found =
            |(place, reason, _): &(String, String, bool)| found.contains(&(place.as_str(), reason.clone()));
        let n_found = noted.iter().filter(|noted| is_found(noted)).count();
        Ok(n_found == found.len() && noted.iter().all(|noted| !noted.2 || is_found(noted)))
    }

    /// The damage that the last looks at homes met: the path of each home, and the places in it.
    pub(super) fn damage_of_homes(&self) -> Result<Vec<(String, Quarantined)>, ReadError> {
        self.read(noted_damage)
    }
}

/// The SQL condition that a problem belongs to no session in the store.
const OF_NO_SESSION: &str = "(quarantine.session IS NULL OR NOT EXISTS \
    (SELECT 1 FROM document d WHERE d.owner = 0 AND d.kind = 2 AND d.id = quarantine.session AND d.hash NOT NULL))";

/// Notes the problems of a home that belong to no session in the store. Those that were noted before are solved, or gone.
pub(super) fn note_home_quarantine(
    connection: &Connection,
    home: HomeNumber,
    quarantined: &[Quarantined],
    now: Millis,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached(&format!("DELETE FROM quarantine WHERE home = ?1 AND {OF_NO_SESSION}"))?
        .execute([home])?;
    note_quarantine(connection, home, quarantined, now)
}

pub(super) fn note_quarantine(
    connection: &Connection,
    home: HomeNumber,
    quarantined: &[Quarantined],
    now: Millis,
) -> rusqlite::Result<()> {
    for problem in quarantined {
        connection
            .prepare_cached(
                "INSERT INTO quarantine (home, place, reason, session, since) VALUES (?1, ?2, ?3, ?4, ?5) \
                 ON CONFLICT DO UPDATE SET reason = ?3, session = ?4",
            )?
            .execute((
                home,
                &problem.place,
                problem.reason.to_string(),
                problem.session.as_ref().map(SessionId::as_str),
                now,
            ))?;
    }
    Ok(())
}

/// Problems that the last look had with a session; without `session`, those of no session in the store.
pub(super) fn quarantine(
    connection: &Connection,
    session: Option<&SessionId>,
) -> rusqlite::Result<Vec<Quarantined>> {
    let condition = match session {
        Some(_) => "session = ?1",
        None => OF_NO_SESSION,
    };
    let sql = format!("SELECT place, reason, session FROM quarantine WHERE {condition}");
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_map(rusqlite::params_from_iter(session.map(SessionId::as_str)), |row| {
        let (place, reason, session): (String, String, Option<String>) =
            (row.get(0)?, row.get(1)?, row.get(2)?);
        let session = session.and_then(|session| SessionId::parse(&session).ok());
        Ok(Quarantined { place, reason: UnreadableReason::Noted(reason), session })
    })?;
    rows.collect()
}

/// Problems that come from a damaged home, with the path of the home.
fn noted_damage(connection: &Connection) -> rusqlite::Result<Vec<(String, Quarantined)>> {
    // The text of `UnreadableReason::Damaged`; a store keeps reasons as text.
    let mut statement = connection.prepare_cached(
        "SELECT h.url, q.place, q.reason, q.session FROM quarantine q JOIN home h ON h.n = q.home \
         WHERE q.reason LIKE 'the database is damaged there%' ORDER BY h.url, q.place",
    )?;
    let rows = statement.query_map([], |row| {
        let session = row.get::<_, Option<String>>(3)?.and_then(|session| SessionId::parse(&session).ok());
        let quarantined =
            Quarantined { place: row.get(1)?, reason: UnreadableReason::Noted(row.get(2)?), session };
        Ok((row.get(0)?, quarantined))
    })?;
    rows.collect()
}
