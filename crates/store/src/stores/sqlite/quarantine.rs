//! What could not be read of homes, and why.

use std::collections::HashSet;

use annals_core::id::{Millis, SessionId};
use rusqlite::Connection;

use super::SqliteStore;
use crate::follow::HomeNumber;
use crate::home::{Quarantined, ReadError};

impl SqliteStore {
    /// Whether this is noted of a home as unreadable, and nothing else that is of no session in the store.
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
}

/// What could not be read and is of no session in the store, as a condition.
pub(super) const OF_NO_SESSION: &str = "(quarantine.session IS NULL OR NOT EXISTS \
    (SELECT 1 FROM document d WHERE d.owner = 0 AND d.kind = 2 AND d.id = quarantine.session AND d.hash NOT NULL))";

/// Notes what could not be read of a home and is of no session in the store. What was noted before is read by now, or gone.
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
