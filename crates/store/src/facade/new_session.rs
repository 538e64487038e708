//! Creates a session: its document and, if missing, the record of its project.

use std::path::{Path, PathBuf};

use annals_core::id::{Millis, SessionId};
use annals_core::json::{JsonError, Style};
use annals_core::lens::{self, PermissionRule, SessionTime};
use annals_core::{Document, Key, Transaction};

use super::{Session, Store};
use crate::home::{CommitError, ConflictKind, ReadError, SessionRecord, Write};
use crate::ids;
use crate::project::{IdentityError, ProjectIdentity, identify_by};
use crate::slug::slug;

/// Limit on attempts to create a session. An attempt fails if the record of its project appeared meanwhile, which can only
/// happen once.
const MAX_TRIES: usize = 3;

/// A session to be created: see [`Store::create_session`].
#[derive(Debug, Clone)]
#[must_use = "nothing is written before `save`"]
pub struct NewSession {
    store: Store,
    directory: PathBuf,
    title: Option<String>,
    parent: Option<SessionId>,
    version: Option<String>,
    permission: Option<Vec<PermissionRule<'static>>>,
}

/// Why a session was not created. Nothing has changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CreateError {
    /// The directory cannot be named in a document.
    #[error("{path} cannot be the directory of a session: {source}")]
    Directory {
        /// The directory.
        path: String,
        /// Why not.
        source: std::io::Error,
    },
    /// The project of the directory could not be determined.
    #[error(transparent)]
    Project(#[from] IdentityError),
    /// The document would be too long.
    #[error("the session cannot be written: {0}")]
    Document(#[from] JsonError),
    /// The home could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The session could not be stored.
    #[error(transparent)]
    Commit(#[from] CommitError),
}

impl NewSession {
    pub(super) fn new(store: Store, directory: &Path) -> NewSession {
        NewSession {
            store,
            directory: directory.to_owned(),
            title: None,
            parent: None,
            version: None,
            permission: None,
        }
    }

    /// Sets the title. The default is OpenCode's: `New session - ` and the time.
    pub fn title(mut self, title: impl Into<String>) -> NewSession {
        self.title = Some(title.into());
        self
    }

    /// Sets the session that starts it.
    pub fn parent(mut self, parent: &Session) -> NewSession {
        self.parent = Some(parent.id().clone());
        self
    }

    /// Sets what the session's agent may do.
    pub fn permission(mut self, rules: Vec<PermissionRule<'static>>) -> NewSession {
        self.permission = Some(rules);
        self
    }

    /// Sets the version of the program that creates it. The default is the version of OpenCode whose documents are
    /// written: 1.1.65 in files and in an annals store, 1.2.27 or 1.18.33 in a database with the tables of that version.
    pub fn version(mut self, version: impl Into<String>) -> NewSession {
        self.version = Some(version.into());
        self
    }

    /// Stores the session as the OpenCode that uses the home would: under the project of the directory, and with a record of
    /// that project if there is none.
    pub fn save(self) -> Result<Session, CreateError> {
        let record = self.save_in(self.store.home())?;
        Ok(Session::new(self.store, record))
    }

    /// Stores the session as [`NewSession::save`] does, through another handle of the same home, such as that of an operation.
    pub fn save_in(&self, home: &dyn Write) -> Result<SessionRecord, CreateError> {
        let directory = absolute(&self.directory)?;
        let identity = identify_by(Path::new(&directory), home.identity_rule())?;
        let (id, now) = (ids::new_session(), ids::now());
        let document = self.document(&id, &directory, &identity, now)?;
        let project = Key::Project(identity.id.clone());
        let mut n_tries = 0;
        loop {
            let mut transaction = Transaction::new("create a session");
            if home.document(&project)?.is_none() {
                transaction.insert(project.clone(), identity.record(now));
            }
            transaction.insert(Key::Session(identity.id.clone(), id.clone()), document.clone());
            n_tries += 1;
            match home.commit(transaction) {
                Err(CommitError::Conflict { key, what: ConflictKind::Exists, .. })
                    if *key == project && n_tries < MAX_TRIES => {}
                done => {
                    done?;
                    break;
                }
            }
        }
        let gone = || CommitError::Conflict {
            key: Box::new(Key::Session(identity.id.clone(), id.clone())),
            place: home.url().to_string(),
            what: ConflictKind::Gone,
        };
        Ok(home.session(&id)?.ok_or_else(gone)?)
    }

    fn document(
        &self,
        id: &SessionId,
        directory: &str,
        identity: &ProjectIdentity,
        now: Millis,
    ) -> Result<Document, JsonError> {
        let kind = if self.parent.is_some() { "Child" } else { "New" };
        let title = self.title.clone().unwrap_or_else(|| format!("{kind} session - {}", iso(now)));
        let slug = slug(id);
        let version = self.version.as_deref().unwrap_or_else(|| self.store.dialect().version());
        let document = lens::Session {
            id: Some(id.into()),
            slug: Some(slug.as_str().into()),
            version: Some(version.into()),
            project_id: Some((&identity.id).into()),
            directory: Some(directory.into()),
            parent_id: self.parent.as_ref().map(Into::into),
            title: Some(title.as_str().into()),
            permission: self.permission.clone(),
            time: Some(SessionTime { created: Some(now), updated: Some(now), ..Default::default() }),
            ..Default::default()
        };
        Document::written(Style::Pretty, &document)
    }
}

/// The directory as OpenCode would name it: in full, and without links as far as it exists.
fn absolute(directory: &Path) -> Result<String, CreateError> {
    let failed = |source| CreateError::Directory { path: directory.display().to_string(), source };
    let full = std::path::absolute(directory).map_err(failed)?;
    // On other systems the real path has a form that no one types.
    let full = if cfg!(unix) { full.canonicalize().unwrap_or(full) } else { full };
    full.into_os_string().into_string().map_err(|_| {
        failed(std::io::Error::new(std::io::ErrorKind::InvalidInput, "its name is not valid UTF-8"))
    })
}

/// A time as `Date.toISOString` writes it, in years that have four digits.
fn iso(time: Millis) -> String {
    const DAY: Millis = 86_400_000;
    let (days, millis) = (time.div_euclid(DAY), time.rem_euclid(DAY));
    // The calendar repeats after 400 years. Years are counted from March, so that a leap day is the last of its year.
    let days = days + 719_468;
    let (cycle, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (day, month) = (day - (153 * month + 2) / 5 + 1, (month + 2) % 12 + 1);
    let year = cycle * 400 + year + i64::from(month <= 2);
    let (seconds, millis) = (millis / 1000, millis % 1000);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_as_javascript_does() {
        for (time, expected) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_868_799_999, "2000-02-29T23:59:59.999Z"),
            (951_868_800_000, "2000-03-01T00:00:00.000Z"),
            (1_769_853_822_194, "2026-01-31T10:03:42.194Z"),
            (1_735_689_599_999, "2024-12-31T23:59:59.999Z"),
            (1_735_689_600_000, "2025-01-01T00:00:00.000Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(iso(time), expected);
        }
    }
}
