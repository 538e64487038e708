//! The short way to read and write sessions: it takes care of ids, times, keys, transactions and the text index.
//!
//! A [`Store`] is any home: an annals store, or OpenCode's directory or database. Everything beyond its methods is one call
//! away: [`Store::home`] gives the traits underneath, [`Store::annals`] the store with its history and events.

mod attachment;
mod messages;
mod new_session;
mod prompt;
mod scan;
mod search;
mod session;
mod sessions;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use annals_core::id::{Millis, SessionId};

use crate::find::{self, FindError};
use crate::home::{ReadError, Write};
use crate::homes::opencode::database::OpencodeDatabase;
use crate::homes::opencode::dialect::Dialect;
use crate::homes::opencode::directory::OpencodeDirectory;
use crate::open::{self, OpenError};
use crate::project::IdentityRule;
use crate::store;

pub use attachment::Attachment;
pub use messages::{Message, Messages};
pub use new_session::{CreateError, NewSession};
pub use prompt::{Prompt, PromptError, Subtask};
pub(crate) use prompt::{StoredPrompt, part_document, split_model};
pub use search::{FindTextError, TextHit, TextHits};
pub use session::{ForkSessionError, Session};
pub use sessions::Sessions;

/// A place where sessions live. Cloning it is cheap, and all clones are the same place.
///
/// ```
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("annals.db");
/// let store = annals::Store::open(&path)?;
/// let session = store.create_session("/home/me/shop").save()?;
/// assert_eq!(store.session("last")?.id(), session.id());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Store {
    home: Arc<AnyHome>,
}

/// A home of any kind.
#[derive(Debug)]
enum AnyHome {
    Annals(Box<dyn store::Store>),
    Directory(OpencodeDirectory),
    Database(OpencodeDatabase),
}

impl AnyHome {
    fn as_write(&self) -> &dyn Write {
        match self {
            AnyHome::Annals(store) => &**store,
            AnyHome::Directory(directory) => directory,
            AnyHome::Database(database) => database,
        }
    }

    /// The generation of OpenCode whose documents are written here.
    fn dialect(&self) -> Dialect {
        match self {
            AnyHome::Annals(_) | AnyHome::Directory(_) => Dialect::V1_1,
            AnyHome::Database(database) if database.identity_rule() == IdentityRule::Remote => Dialect::V1_18,
            AnyHome::Database(_) => Dialect::V1_2,
        }
    }
}

impl Store {
    /// Opens the home at a path: an `annals.db`, OpenCode's database, its data directory or its `storage` directory.
    ///
    /// If the path does not exist and its name ends in `.db`, a new store is created, with the directories above it. An
    /// OpenCode database (`opencode….db`) is never created: only OpenCode does that. [`Store::open_existing`] creates
    /// nothing and reports a missing store instead.
    ///
    /// A data directory with a database stands for that database, since its OpenCode reads and writes there. Files that an
    /// earlier version left beside the database are opened by the path of `storage`.
    pub fn open(path: impl AsRef<Path>) -> Result<Store, OpenError> {
        let path = path.as_ref();
        let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        // A path whose entry cannot be examined is not free.
        let is_free =
            path.symlink_metadata().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound);
        if is_free && name.ends_with(".db") && !name.starts_with("opencode") {
            return Ok(Store::from(open::open_or_create_store(path)?));
        }
        Store::open_existing(path)
    }

    /// Opens the home at a path as [`Store::open`] does, but creates nothing.
    pub fn open_existing(path: impl AsRef<Path>) -> Result<Store, OpenError> {
        let path = path.as_ref();
        if path.is_dir() {
            return Ok(match open::discover(path).databases.first() {
                Some(database) => Store::from(OpencodeDatabase::open(database)?),
                None => Store::from(OpencodeDirectory::open(path)?),
            });
        }
        match open::is_annals(path) {
            true => Ok(Store::from(open::open_store(path)?)),
            false => Ok(Store::from(OpencodeDatabase::open(path)?)),
        }
    }

    /// The sessions, newest first. Narrow them down, then iterate:
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let store = annals::Store::open(directory.path().join("annals.db"))?;
    /// for session in store.sessions().directory("/home/me/shop").roots().limit(10) {
    ///     println!("{}", session?.title());
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn sessions(&self) -> Sessions {
        Sessions::new(self.clone())
    }

    /// The session meant by a full id, a unique beginning of one (with or without `ses_`), a unique piece of a title, or
    /// `last`: the one used last.
    pub fn session(&self, wanted: &str) -> Result<Session, FindError> {
        Ok(Session::new(self.clone(), find::session(self.home(), wanted)?))
    }

    /// The session with this id.
    pub fn session_by_id(&self, id: &SessionId) -> Result<Option<Session>, ReadError> {
        Ok(self.home().session(id)?.map(|record| Session::new(self.clone(), record)))
    }

    /// A new session that was opened in a directory. Nothing is written before [`NewSession::save`].
    pub fn create_session(&self, directory: impl AsRef<Path>) -> NewSession {
        NewSession::new(self.clone(), directory.as_ref())
    }

    /// Searches the text of all conversations, in the [query language](annals_core::search::query): words, `"phrases"`,
    /// `prefixes*`, `this OR that`, `-not`, `role:user`, `tool:bash`.
    ///
    /// An annals store brings its text index up to date first and gives the best hits first. OpenCode's homes have no
    /// index: every conversation is read, the one used last first.
    pub fn search(&self, query: &str) -> Result<TextHits, FindTextError> {
        TextHits::find(self.clone(), query)
    }

    /// The home underneath: all queries that any home answers, and any transaction.
    pub fn home(&self) -> &dyn Write {
        self.home.as_write()
    }

    /// The generation of OpenCode whose documents are written here.
    pub(crate) fn dialect(&self) -> Dialect {
        self.home.dialect()
    }

    /// The annals store underneath, with its history, events and text index. `None` if this is one of OpenCode's homes.
    pub fn annals(&self) -> Option<&dyn store::Store> {
        match &*self.home {
            AnyHome::Annals(store) => Some(&**store),
            AnyHome::Directory(_) | AnyHome::Database(_) => None,
        }
    }
}

impl<S: store::Store + 'static> From<S> for Store {
    fn from(store: S) -> Store {
        Store::from(Box::new(store) as Box<dyn store::Store>)
    }
}

impl From<Box<dyn store::Store>> for Store {
    fn from(store: Box<dyn store::Store>) -> Store {
        Store { home: Arc::new(AnyHome::Annals(store)) }
    }
}

impl From<OpencodeDirectory> for Store {
    fn from(directory: OpencodeDirectory) -> Store {
        Store { home: Arc::new(AnyHome::Directory(directory)) }
    }
}

impl From<OpencodeDatabase> for Store {
    fn from(database: OpencodeDatabase) -> Store {
        Store { home: Arc::new(AnyHome::Database(database)) }
    }
}

/// A time of a document. One that the system cannot express is the beginning of 1970.
fn system_time(time: Millis) -> SystemTime {
    let distance = Duration::from_millis(time.unsigned_abs());
    let found = if time < 0 { UNIX_EPOCH.checked_sub(distance) } else { UNIX_EPOCH.checked_add(distance) };
    found.unwrap_or(UNIX_EPOCH)
}

/// A time as documents hold it.
fn millis(time: SystemTime) -> Millis {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => Millis::try_from(since.as_millis()).unwrap_or(Millis::MAX),
        Err(error) => Millis::try_from(error.duration().as_millis()).map_or(Millis::MIN, |before| -before),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_go_there_and_back() {
        for time in [0, 1, -1, 1_791_190_841_277, -8_640_000_000_000_000, 8_640_000_000_000_000] {
            assert_eq!(millis(system_time(time)), time);
        }
    }
}
