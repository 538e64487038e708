//! The sessions of a store, filtered and listed one after the other.

use std::path::Path;
use std::time::SystemTime;

use annals_core::id::ProjectId;

use super::{Session, Store, millis};
use crate::find;
use crate::home::{Found, ReadError, SessionRecord};
use crate::query::{Archived, SessionQuery};

/// The sessions of a store, newest first: an iterator that can be narrowed down before it is used. The session documents are
/// read when the first session is asked for.
///
/// A session that cannot be read is an `Err`. Errors come last and do not count towards the [limit](Sessions::limit): a
/// program that stops at the first `Err` has seen every readable session.
#[derive(Debug)]
#[must_use = "nothing is read before the first session is asked for"]
pub struct Sessions {
    store: Store,
    query: SessionQuery,
    title: Option<String>,
    project: Option<String>,
    limit: usize,
    found: Option<std::vec::IntoIter<Result<Session, ReadError>>>,
}

impl Sessions {
    pub(super) fn new(store: Store) -> Sessions {
        let query = SessionQuery::default();
        Sessions { store, query, title: None, project: None, limit: usize::MAX, found: None }
    }

    /// At most this many sessions.
    pub fn limit(mut self, limit: usize) -> Sessions {
        self.limit = limit;
        self
    }

    /// With this text in their titles, in upper or lower case.
    pub fn title(mut self, piece: &str) -> Sessions {
        self.title = Some(piece.to_lowercase());
        self
    }

    /// Opened in this directory or below it.
    pub fn directory(mut self, directory: impl AsRef<Path>) -> Sessions {
        self.query.directory = Some(directory.as_ref().to_string_lossy().into_owned());
        self
    }

    /// Of the project meant by a full id, a working tree, a name, the last piece of a path, or the beginning of an id.
    pub fn project(mut self, wanted: &str) -> Sessions {
        self.project = Some(wanted.to_owned());
        self
    }

    /// Used at this time or later.
    pub fn since(mut self, time: SystemTime) -> Sessions {
        self.query.since = Some(millis(time));
        self
    }

    /// Used before this time.
    pub fn until(mut self, time: SystemTime) -> Sessions {
        self.query.until = Some(millis(time));
        self
    }

    /// Not started by another session.
    pub fn roots(mut self) -> Sessions {
        self.query.roots = true;
        self
    }

    /// Archived sessions only, or none of them. The default is all sessions.
    pub fn archived(mut self, archived: Archived) -> Sessions {
        self.query.archived = archived;
        self
    }

    fn read(&self) -> Vec<Result<Session, ReadError>> {
        let Found { value: mut records, mut quarantined } = match self.store.home().sessions(&self.query) {
            Ok(found) => found,
            Err(error) => return vec![Err(error)],
        };
        if let Some(wanted) = &self.project {
            let projects = match self.store.home().projects() {
                Ok(projects) => projects,
                Err(error) => return vec![Err(error)],
            };
            quarantined.extend(projects.quarantined);
            let mut known: Vec<ProjectId> = records.iter().map(|record| record.project.clone()).collect();
            known.extend(projects.value.iter().filter_map(|record| record.key.project().cloned()));
            known.sort();
            known.dedup();
            let meant = find::projects(&projects.value, &known, wanted);
            records.retain(|record| meant.contains(&record.project));
        }
        if let Some(piece) = &self.title {
            records.retain(|record| record.info.title().to_lowercase().contains(piece));
        }
        // Between sessions used in the same millisecond, the one with the smaller id is newer.
        records
            .sort_by_cached_key(|record| (std::cmp::Reverse(find::updated(record)), record.id.to_string()));
        records.truncate(self.limit);
        let session = |record: SessionRecord| Ok(Session::new(self.store.clone(), record));
        let unreadable = quarantined.into_iter().map(|problem| Err(problem.into()));
        records.into_iter().map(session).chain(unreadable).collect()
    }
}

impl Iterator for Sessions {
    type Item = Result<Session, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.found.is_none() {
            self.found = Some(self.read().into_iter());
        }
        self.found.as_mut()?.next()
    }
}
