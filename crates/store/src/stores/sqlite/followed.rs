//! The homes that the store follows: which are the user's own, and recognising one that was moved.

use std::collections::HashSet;
use std::path::Path;

use annals_core::id::SessionId;
use rusqlite::{Connection, OptionalExtension};

use super::kind::Kind;
use super::numbers::SessionRow;
use super::{SqliteStore, held, operations, origin};
use crate::follow::{FollowedHome, HomeNumber, SyncError};
use crate::home::ReadError;
use crate::home_url::HomeUrl;
use crate::open;
use crate::sync::compare::{Leaders, Resemblance};
use crate::sync::source::Source;

/// A home that the store knows.
struct HomeRow {
    n: HomeNumber,
    url: String,
    rank: i64,
    is_own: bool,
}

impl SqliteStore {
    /// Adds a home to be followed from now on. Gives its number.
    pub(super) fn add_followed(&self, source: &dyn Source, is_own: bool) -> Result<HomeNumber, SyncError> {
        let failed = |error: rusqlite::Error| self.commit_error(&error);
        let writing = self.write()?;
        let url = source.url().to_string();
        writing
            .prepare_cached("INSERT OR IGNORE INTO home (url, rank, own) VALUES (?1, ?2, ?3)")
            .and_then(|mut insert| insert.execute((&url, source.rank(), is_own)))
            .map_err(failed)?;
        let home = number(&writing, &url).map_err(failed)?.unwrap_or(HomeNumber(0));
        self.finish(writing)?;
        Ok(home)
    }

    /// Recognises a home that the store knows under another path, because it was moved or reached through a link. Moves its origins
    /// and the notes of operations along. Also notes whether it is the user's own.
    pub(super) fn recognise_home(&self, source: &dyn Source, is_own: bool) -> Result<(), SyncError> {
        let url = source.url().to_string();
        let known = self.read(rows)?;
        match known.iter().find(|home| home.url == url) {
            Some(home) if home.is_own || !is_own => return Ok(()),
            Some(home) => return self.note_own(home.n, true),
            None => {}
        }
        for home in known.iter().filter(|home| home.rank == source.rank()) {
            if !self.resemblance(home, source, is_own)?.is_same_home() {
                continue;
            }
            let failed = |error: rusqlite::Error| self.commit_error(&error);
            let writing = self.write()?;
            writing
                .execute("UPDATE home SET url = ?2, own = own OR ?3 WHERE n = ?1", (home.n, &url, is_own))
                .and_then(|_| operations::follow_home(&writing, &home.url, &url, is_file(&source.url())))
                .map_err(failed)?;
            self.finish(writing)?;
            return Ok(());
        }
        Ok(())
    }

    /// Compares a home that the store knows with one that it does not know by this path.
    fn resemblance(
        &self,
        home: &HomeRow,
        source: &dyn Source,
        is_own: bool,
    ) -> Result<Resemblance, ReadError> {
        let mut resemblance = Resemblance {
            is_same_place: is_same_place(&HomeUrl::of_stored(&home.url), &source.url()),
            is_still_there: open::open_source(&home.url).is_ok(),
            is_store_elsewhere: self.is_elsewhere()?,
            is_of_same_owner: home.is_own == is_own,
            n_known: 0,
            n_here: 0,
            n_shared: 0,
        };
        if resemblance.is_same_place || (resemblance.is_still_there && !resemblance.is_store_elsewhere) {
            return Ok(resemblance);
        }
        let mut here: HashSet<SessionId> =
            source.survey()?.sessions.into_iter().map(|sighting| sighting.session).collect();
        // The store knows nothing of sessions that were forgotten, so they must not count against the home.
        let forgotten = self.forgotten_sessions()?;
        here.retain(|session| !forgotten.contains(session));
        resemblance.n_here = here.len();
        for (id, _) in self.origins_in(home.n)?.iter().filter(|(_, origin)| !origin.is_gone) {
            resemblance.n_known += 1;
            resemblance.n_shared += usize::from(here.contains(id));
        }
        Ok(resemblance)
    }

    /// Whether the store has been moved or copied since its homes were last looked at.
    fn is_elsewhere(&self) -> Result<bool, ReadError> {
        let noted = self.read(noted_path)?;
        Ok(noted.is_some_and(|noted| noted != self.shown()))
    }

    /// Notes where the store is, after it has found its homes.
    pub(super) fn note_own_place(&self) -> Result<(), SyncError> {
        if self.read(noted_path)?.as_deref() == Some(&self.shown()) {
            return Ok(());
        }
        let failed = |error: rusqlite::Error| self.commit_error(&error);
        let writing = self.write()?;
        writing
            .execute("INSERT OR REPLACE INTO meta (name, value) VALUES ('path', ?1)", [self.shown()])
            .map_err(failed)?;
        Ok(self.finish(writing)?)
    }

    /// Notes whether a home is the user's own, which decides among equals whose state of a session is shown.
    fn note_own(&self, home: HomeNumber, is_own: bool) -> Result<(), SyncError> {
        let failed = |error: rusqlite::Error| self.commit_error(&error);
        let writing = self.write()?;
        let shared: Vec<SessionRow> = writing
            .prepare_cached(
                "SELECT session FROM origin o WHERE home = ?1 AND EXISTS \
                 (SELECT 1 FROM origin p WHERE p.session = o.session AND p.home <> o.home)",
            )
            .and_then(|mut select| select.query_map([home], |row| row.get(0))?.collect())
            .map_err(failed)?;
        let leaders = |session: SessionRow| origin::looks(&writing, session).map(|looks| Leaders::of(&looks));
        let before: Vec<(SessionRow, Leaders)> = shared
            .into_iter()
            .map(|session| Ok((session, leaders(session)?)))
            .collect::<rusqlite::Result<_>>()
            .map_err(failed)?;
        writing.execute("UPDATE home SET own = ?2 WHERE n = ?1", (home, is_own)).map_err(failed)?;
        for (session, before) in before {
            let after = leaders(session).map_err(failed)?;
            if after != before {
                held::settle(&writing, self.now(), session, None).map_err(failed)?;
            }
        }
        self.finish(writing)?;
        Ok(())
    }

    /// The urls of the homes that had a session when they were last looked at.
    pub(super) fn holders_of(&self, session: &SessionId) -> Result<Vec<String>, ReadError> {
        self.read(|connection| {
            let mut statement = connection.prepare_cached(
                "SELECT h.url FROM document d JOIN origin o ON o.session = d.n JOIN home h ON h.n = o.home \
                 WHERE d.owner = 0 AND d.kind = ?1 AND d.id = ?2 AND o.gone IS NULL ORDER BY h.n",
            )?;
            statement.query_map((Kind::Session.number(), session.as_str()), |row| row.get(0))?.collect()
        })
    }

    pub(super) fn followed(&self) -> Result<Vec<FollowedHome>, ReadError> {
        let homes = self.read(rows)?.into_iter();
        Ok(homes.map(|home| FollowedHome { url: home.url, is_own: home.is_own }).collect())
    }
}

fn noted_path(connection: &Connection) -> rusqlite::Result<Option<String>> {
    connection
        .prepare_cached("SELECT value FROM meta WHERE name = 'path'")?
        .query_row([], |row| row.get(0))
        .optional()
}

fn rows(connection: &Connection) -> rusqlite::Result<Vec<HomeRow>> {
    let mut statement = connection.prepare_cached("SELECT n, url, rank, own FROM home ORDER BY n")?;
    let rows = statement.query_map([], |row| {
        Ok(HomeRow { n: row.get(0)?, url: row.get(1)?, rank: row.get(2)?, is_own: row.get(3)? })
    })?;
    rows.collect()
}

pub(super) fn number(connection: &Connection, url: &str) -> rusqlite::Result<Option<HomeNumber>> {
    connection
        .prepare_cached("SELECT n FROM home WHERE url = ?1")?
        .query_row([url], |row| row.get(0))
        .optional()
}

/// Whether two names lead to the same place.
fn is_same_place(a: &HomeUrl, b: &HomeUrl) -> bool {
    let place = |home: &HomeUrl| home.path()?.canonicalize().ok();
    match (place(a), place(b)) {
        (Some(a), Some(b)) => a == b,
        _ => false,
    }
}

/// Whether a home is a file, and not a directory.
fn is_file(home: &HomeUrl) -> bool {
    home.path().is_some_and(Path::is_file)
}
