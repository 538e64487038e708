//! Chooses the home that an agent writes to: the one that `--home` names, the user's own home that holds the session, or the user's store.

use annals::home::SessionRecord;
use annals::homes::opencode::directory::OpencodeDirectory;
use annals::open;
use annals::sync::Stage;
use annals::{HomeUrl, Session, Store};

use crate::context::{Context, now};
use crate::error::CliError;
use crate::homes::{Homes, NamedTarget};

/// The place that an agent writes to.
pub(crate) struct AgentHome {
    pub(crate) store: Store,
    /// The session that was named, as it is there.
    pub(crate) session: Option<Session>,
    /// The same place, for an operation.
    pub(crate) target: NamedTarget,
}

impl Context {
    /// Opens the home that an agent writes to. A session that is named must exist. Without one, a home that does not exist is created.
    pub(crate) fn agent_home(&self, session: Option<&str>) -> Result<AgentHome, CliError> {
        let (target, record) = match (&self.homes[..], session) {
            ([], None) => (NamedTarget::Store(self.store_path()?), None),
            ([], Some(named)) => {
                let homes = self.open(Stage::Messages)?;
                let record = self.session(&homes.read(), named)?;
                (self.holder(&homes, &record)?, Some(record))
            }
            ([_], Some(named)) => {
                let homes = self.open(Stage::Messages)?;
                let record = self.session(&homes.read(), named)?;
                // A data directory may have files and a database: the session says which.
                let url = match homes.store() {
                    Some(store) => store.annals.url(),
                    None => record.origins.first().cloned().ok_or_else(|| gone(&record))?,
                };
                (self.target_of(&url)?, Some(record))
            }
            ([_], None) => {
                let target = match self.target()? {
                    NamedTarget::Home(url) => self.target_of(&url)?,
                    store => store,
                };
                drop(target.open_or_create()?);
                (target, None)
            }
            _ => return Err(CliError::usage("this command writes to one home; give `--home` once")),
        };
        let store = match &target {
            NamedTarget::Store(path) => Store::from(open::open_or_create_store(path)?.with_clock(now)),
            NamedTarget::Home(url) => match open::path_of(url)? {
                // Only the files, though a database may be beside them.
                directory if directory.is_dir() => {
                    Store::from(OpencodeDirectory::open(directory).map_err(open::OpenError::from)?)
                }
                file => Store::open_existing(file)?,
            },
        };
        let session = match record {
            Some(record) => Some(store.session_by_id(&record.id)?.ok_or_else(|| gone(&record))?),
            None => None,
        };
        Ok(AgentHome { store, session, target })
    }

    /// The place that holds a session and may be written to.
    fn holder(&self, homes: &Homes, record: &SessionRecord) -> Result<NamedTarget, CliError> {
        let own: Vec<_> = self.found_paths().iter().map(|path| open::canonical(path)).collect();
        let is_own = |url: &&HomeUrl| url.path().is_some_and(|path| own.contains(&open::canonical(path)));
        // The first one is the home in which the session was used last.
        if let Some(url) = record.origins.iter().find(is_own) {
            return match record.gone {
                None => Ok(NamedTarget::Home(url.clone())),
                Some(_) => Err(gone(record)),
            };
        }
        let elsewhere = match homes.store() {
            Some(store) => record.origins.iter().find(|origin| **origin != store.annals.url()),
            None => record.origins.first(),
        };
        match elsewhere {
            Some(url) => Err(CliError::new(format!(
                "session {} is in {url}, which is not one of your homes",
                record.id
            ))
            .hint(format!("`--home {url}` writes there"))),
            None => Ok(NamedTarget::Store(self.store_path()?)),
        }
    }
}

fn gone(record: &SessionRecord) -> CliError {
    CliError::new(format!("session {} was deleted: only the store still has it", record.id)).hint(format!(
        "`annals restore {} --at REV` brings it back; `annals log {0}` lists revisions",
        record.id
    ))
}
