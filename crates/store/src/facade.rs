//! The short way to read and write sessions: ids, times, keys, transactions and the text index are looked after here.
//!
//! A [`Store`] is any home: a store of annals, or a directory or database of OpenCode's. What its methods do not offer is
//! one call away: [`Store::home`] gives the traits underneath, [`Store::annals`] the store with its history and events.

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

use annals_core::id::Millis;

use crate::find::{self, FindError};
use crate::home::Write;
use crate::homes::opencode::database::OpencodeDatabase;
use crate::homes::opencode::directory::OpencodeDirectory;
use crate::open::{self, OpenError};
use crate::project::IdentityRule;
use crate::store;

pub use messages::{Message, Messages};
pub use new_session::{CreateError, NewSession};
pub use prompt::{Prompt, PromptError};
pub use search::{FindTextError, TextHit, TextHits};
pub use session::Session;
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
    home: Arc<Home>,
}

/// The kinds of homes there are.
#[derive(Debug)]
enum Home {
    Annals(Box<dyn store::Store>),
    Directory(OpencodeDirectory),
    Database(OpencodeDatabase),
}

impl Home {
    fn as_write(&self) -> &dyn Write {
        match self {
            Home::Annals(store) => &**store,
            Home::Directory(directory) => directory,
            Home::Database(database) => database,
        }
    }

    /// The version of OpenCode whose documents are written here, and which a new session names as its maker. A store takes
    /// documents as they are, so they get the form that files have.
    fn version(&self) -> &'static str {
        match self {
            Home::Annals(_) | Home::Directory(_) => "1.1.65",
            Home::Database(_) if self.keeps_last_prompt() => "1.18.33",
            Home::Database(_) => "1.2.27",
        }
    }

    /// Whether a session says here with which agent and model it was prompted last. Databases do that have the tables of
    /// OpenCode 1.16 and later.
    fn keeps_last_prompt(&self) -> bool {
        matches!(self, Home::Database(database) if database.identity_rule() == IdentityRule::Remote)
    }
}

impl Store {
    /// Opens what is at a path: an `annals.db`, OpenCode's database, its data directory or its `storage` directory.
    ///
    /// If nothing is there and the name ends in `.db`, a new store is made, with the directories above it. A database of
    /// OpenCode's (`opencode….db`) is never made: that is OpenCode's business. To be told that a store is missing instead,
    /// use [`Store::open_existing`].
    ///
    /// A data directory that has a database stands for that database, since that is where its OpenCode reads and writes. The
    /// files that an earlier version left beside it are opened by the path of `storage`.
    pub fn open(path: impl AsRef<Path>) -> Result<Store, OpenError> {
        let path = path.as_ref();
        let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        // A name that is taken by something that cannot be looked at is not free.
        let is_free =
            path.symlink_metadata().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound);
        if is_free && name.ends_with(".db") && !name.starts_with("opencode") {
            return Ok(Store::from(open::open_or_create_store(path)?));
        }
        Store::open_existing(path)
    }

    /// Opens what is at a path, as [`Store::open`] does, and makes nothing.
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

    /// A new session that was opened in a directory. Nothing is written before [`NewSession::save`].
    pub fn create_session(&self, directory: impl AsRef<Path>) -> NewSession {
        NewSession::new(self.clone(), directory.as_ref())
    }

    /// Finds what was said, in the language of [queries](annals_core::search::query): words, `"phrases"`, `beginnings*`,
    /// `this OR that`, `-not`, `role:user`, `tool:bash`.
    ///
    /// A store of annals brings its text index up to date first and gives the best hits first. OpenCode's homes have no
    /// index: every conversation is read, the one used last first.
    pub fn search(&self, query: &str) -> Result<TextHits, FindTextError> {
        TextHits::find(self.clone(), query)
    }

    /// The home underneath: everything that can be asked of any home, and any transaction.
    pub fn home(&self) -> &dyn Write {
        self.home.as_write()
    }

    /// The store of annals underneath, with its history, events and text index. None if this is a home of OpenCode's.
    pub fn annals(&self) -> Option<&dyn store::Store> {
        match &*self.home {
            Home::Annals(store) => Some(&**store),
            Home::Directory(_) | Home::Database(_) => None,
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
        Store { home: Arc::new(Home::Annals(store)) }
    }
}

impl From<OpencodeDirectory> for Store {
    fn from(directory: OpencodeDirectory) -> Store {
        Store { home: Arc::new(Home::Directory(directory)) }
    }
}

impl From<OpencodeDatabase> for Store {
    fn from(database: OpencodeDatabase) -> Store {
        Store { home: Arc::new(Home::Database(database)) }
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
