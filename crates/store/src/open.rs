//! Opens homes by name, and finds the homes in a data directory.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use crate::home::pieces::Undo;
use crate::home::{SessionRecord, Write};
use crate::home_url::{HomeUrl, HomeUrlError, NamesHome};
use crate::homes::opencode::database::{Generation, OpenDbError, OpencodeDatabase};
use crate::homes::opencode::dialect::Dialect;
use crate::homes::opencode::directory::{OpenDirError, OpencodeDirectory};
use crate::project::IdentityRule;
use crate::store::{OpenStoreError, Store};
use crate::stores::sqlite::{self, SqliteStore};
use crate::sync::source::Source;
use crate::upkeep::{BackupError, RestoredBackup};
use annals_core::id::Millis;

/// Error of a home that could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The path is a directory that cannot be opened as one of OpenCode's.
    #[error(transparent)]
    Dir(#[from] OpenDirError),
    /// The path is a file that cannot be opened as a database of OpenCode's.
    #[error(transparent)]
    Db(#[from] OpenDbError),
    /// The path is of a store of annals, which cannot be opened or created.
    #[error(transparent)]
    Store(#[from] OpenStoreError),
    /// The text is not the name of a home.
    #[error(transparent)]
    Name(#[from] HomeUrlError),
    /// The name is of a kind of home that is reserved for later, or of several homes.
    #[error("annals cannot open {url} yet; it opens paths and `file:` URLs")]
    NotYet {
        /// The name.
        url: HomeUrl,
    },
}

impl OpenError {
    /// Whether there is no home at the place, rather than one that cannot be used.
    pub fn is_absent(&self) -> bool {
        matches!(
            self,
            OpenError::Dir(OpenDirError::NotFound { .. } | OpenDirError::NotAHome { .. })
                | OpenError::Db(OpenDbError::NotFound { .. })
        )
    }
}

/// Opens a home by its path or `file:` URL: a store of annals, a directory of OpenCode through 1.1, or a database of 1.2 and
/// later.
///
/// ```no_run
/// let home = annals::open("/home/me/.local/share/opencode/opencode.db")?;
/// for session in home.sessions(&Default::default())?.value {
///     println!("{}", session.id);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn open(home: &(impl NamesHome + ?Sized)) -> Result<Box<dyn Write>, OpenError> {
    let url = home.home_url()?;
    let path = path_of(&url)?;
    if is_annals(path) {
        return Ok(Box::new(SqliteStore::open(path)?));
    }
    if is_database(path) {
        return Ok(Box::new(OpencodeDatabase::open(path)?));
    }
    Ok(Box::new(OpencodeDirectory::open(path)?))
}

/// Opens a store.
pub fn open_store(path: &Path) -> Result<Box<dyn Store>, OpenStoreError> {
    Ok(Box::new(SqliteStore::open(path)?))
}

/// Opens a store, and creates an empty one if there is none.
pub fn open_or_create_store(path: &Path) -> Result<Box<dyn Store>, OpenStoreError> {
    Ok(Box::new(SqliteStore::open_or_create(path)?))
}

/// Puts a copy of a backup in a store's place: see [`sqlite::restore_backup`].
pub fn restore_backup(backup: &Path, store: &Path, now: Millis) -> Result<RestoredBackup, BackupError> {
    sqlite::restore_backup(backup, store, now)
}

/// Opens a home that sync can follow: one of OpenCode's. The home is named by its canonical path, without links.
pub fn open_source(home: &(impl NamesHome + ?Sized)) -> Result<Box<dyn Source>, OpenError> {
    let url = home.home_url()?;
    let path = canonical(path_of(&url)?);
    if is_database(&path) {
        return Ok(Box::new(OpencodeDatabase::open(&path)?));
    }
    Ok(Box::new(OpencodeDirectory::open(&path)?))
}

/// Opens a home of OpenCode's whose changes can be taken back.
pub fn open_undoable(home: &(impl NamesHome + ?Sized)) -> Result<Box<dyn Undo>, OpenError> {
    let url = home.home_url()?;
    let path = canonical(path_of(&url)?);
    if is_database(&path) {
        return Ok(Box::new(OpencodeDatabase::open(&path)?));
    }
    Ok(Box::new(OpencodeDirectory::open(&path)?))
}

/// The generation of OpenCode whose documents a home gets. A store takes documents of any generation: for a store, the session decides.
pub(crate) fn dialect_of(home: &dyn Write) -> Option<Dialect> {
    let url = home.url();
    let path = url.path()?;
    if is_annals(path) {
        return None;
    }
    Some(match (is_database(path), home.identity_rule()) {
        (true, IdentityRule::Remote) => Dialect::V1_18,
        (true, IdentityRule::RootCommit) => Dialect::V1_2,
        (false, _) => Dialect::V1_1,
    })
}

/// The generation of OpenCode whose documents a session gets in a home.
pub(crate) fn dialect_for(home: &dyn Write, session: &SessionRecord) -> Dialect {
    dialect_of(home).unwrap_or_else(|| Dialect::of_version(session.info.version()))
}

/// The canonical path of a home: without links, and for a `storage` directory the data directory that contains it.
pub fn canonical(path: &Path) -> PathBuf {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    match path.parent() {
        Some(parent) if path.ends_with("storage") && path.is_dir() => parent.to_owned(),
        _ => path,
    }
}

/// The path of a user's store: `annals/annals.db` in the directory where programs keep their data.
pub fn default_store(xdg_data_home: Option<&Path>, home: Option<&Path>) -> Option<PathBuf> {
    let data = data_directory(xdg_data_home, home)?;
    Some(data.parent()?.join("annals").join("annals.db"))
}

/// Opens a home, and creates an empty one if there is nothing at its path: a store of annals if its name is
/// `annals….db`, a database of OpenCode if its name ends in `.db`, else a directory. `generation` is for a database.
pub fn open_or_create(
    home: &(impl NamesHome + ?Sized),
    generation: Generation,
) -> Result<Box<dyn Write>, OpenError> {
    let url = home.home_url()?;
    let path = path_of(&url)?;
    if is_annals(path) {
        return Ok(Box::new(SqliteStore::open_or_create(path)?));
    }
    if is_database(path) {
        return Ok(Box::new(OpencodeDatabase::open_or_create(path, generation)?));
    }
    Ok(Box::new(OpencodeDirectory::open_or_create(path)?))
}

/// Opens all homes at a path: for a data directory, all databases, and the directory itself if it holds sessions. A session
/// that several homes hold is read from the first of those that have its latest state.
pub fn open_all(home: &(impl NamesHome + ?Sized)) -> Result<Vec<Box<dyn Write>>, OpenError> {
    let url = home.home_url()?;
    let path = path_of(&url)?;
    let Discovered { directory, databases, .. } =
        if is_database(path) { Discovered::default() } else { discover(path) };
    if databases.is_empty() {
        return Ok(vec![open(&*url)?]);
    }
    let mut homes: Vec<Box<dyn Write>> = Vec::new();
    for database in databases {
        homes.push(Box::new(OpencodeDatabase::open(&database)?));
    }
    if let Some(directory) = directory {
        homes.push(Box::new(OpencodeDirectory::open(&directory)?));
    }
    Ok(homes)
}

/// Whether a path is of a store of annals, or would be. Files with OpenCode's names are not even opened.
pub fn is_annals(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if name.starts_with("opencode") || path.is_dir() {
        return false;
    }
    match path.is_file() {
        true => SqliteStore::is_one(path),
        false => name.starts_with("annals") && name.ends_with(".db"),
    }
}

/// Whether a path is of a database, or would be.
fn is_database(path: &Path) -> bool {
    path.is_file() || (!path.is_dir() && path.extension().is_some_and(|extension| extension == "db"))
}

/// The path of a home. Only homes with a path can be opened so far.
pub fn path_of(url: &HomeUrl) -> Result<&Path, OpenError> {
    url.path().ok_or_else(|| OpenError::NotYet { url: url.clone() })
}

/// Homes that were found in a data directory of OpenCode.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Discovered {
    /// The directory, if it holds sessions.
    pub directory: Option<PathBuf>,
    /// Databases of OpenCode 1.2 and later.
    pub databases: Vec<PathBuf>,
    /// Why the directory could not be listed. If set, there may be more databases in it.
    pub unlisted: Option<String>,
}

/// OpenCode's data directory: `$XDG_DATA_HOME/opencode`, or `~/.local/share/opencode` if the variable is unset, empty or relative.
/// The rule is the same on every operating system. A relative path means another place in every directory, so the XDG
/// specification says to ignore it; a relative home directory is ignored too.
pub fn data_directory(xdg_data_home: Option<&Path>, home: Option<&Path>) -> Option<PathBuf> {
    match xdg_data_home.filter(|path| path.is_absolute()) {
        Some(data) => Some(data.join("opencode")),
        None => Some(home.filter(|home| home.is_absolute())?.join(".local").join("share").join("opencode")),
    }
}

/// The write-ahead log of a database that is gone. It holds what was committed last, and SQLite removes it as soon as a new
/// database of the same name is created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoneLog {
    /// The log.
    pub path: PathBuf,
    /// The database that is missing.
    pub database: PathBuf,
    /// Size of the log.
    pub bytes: u64,
}

/// The logs in a data directory whose databases are gone.
pub fn lone_logs(data: &Path) -> Vec<LoneLog> {
    let mut found: Vec<LoneLog> = std::fs::read_dir(data)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let database = name
                .strip_suffix("-wal")
                .filter(|database| database.starts_with("opencode") && database.ends_with(".db"))?;
            let metadata =
                entry.metadata().ok().filter(|metadata| metadata.is_file() && metadata.len() > 0)?;
            let database = data.join(database);
            // A database that is there but empty is reported when it is opened.
            (!database.exists()).then(|| LoneLog { path: entry.path(), database, bytes: metadata.len() })
        })
        .collect();
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

/// Finds the homes in a data directory.
pub fn discover(data: &Path) -> Discovered {
    let is_database = |name: &OsString| {
        let name = name.to_string_lossy();
        name.starts_with("opencode") && name.ends_with(".db")
    };
    let (names, unlisted) = match list(data) {
        Ok(names) => (names, None),
        // The database that released versions use is found without a list.
        Err(error) => (vec!["opencode.db".into()], Some(error.to_string())),
    };
    let mut databases: Vec<PathBuf> = names
        .into_iter()
        .filter(is_database)
        .map(|name| data.join(name))
        .filter(|path| path.is_file())
        .collect();
    // The plain name first: it is what released versions use.
    databases.sort_by_key(|path| (!path.ends_with("opencode.db"), path.clone()));
    // A directory beside a database may hold no more than the differences of its sessions.
    let is_needed = || databases.is_empty() || holds_sessions(data);
    // A directory that cannot be opened now still counts.
    let is_home = match OpencodeDirectory::open(data) {
        Ok(_) => true,
        Err(OpenDirError::Io { .. }) => holds_sessions(data),
        Err(_) => false,
    };
    Discovered { directory: (is_home && is_needed()).then(|| data.to_owned()), databases, unlisted }
}

/// The names in a directory. Empty if the directory does not exist.
fn list(directory: &Path) -> io::Result<Vec<OsString>> {
    let entries = match std::fs::read_dir(directory) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        entries => entries?,
    };
    entries.map(|entry| Ok(entry?.file_name())).collect()
}

/// Whether any layout has a place for sessions here.
fn holds_sessions(data: &Path) -> bool {
    ["storage/session", "session", "project"].iter().any(|place| data.join(place).is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_absolute_paths_count() {
        let check = |data: Option<&str>, home: Option<&str>, expected: Option<&str>| {
            let found = data_directory(data.map(Path::new), home.map(Path::new));
            assert_eq!(found.as_deref(), expected.map(Path::new), "{data:?} {home:?}");
        };
        check(Some("/data"), Some("/home/me"), Some("/data/opencode"));
        check(None, Some("/home/me"), Some("/home/me/.local/share/opencode"));
        check(Some(""), Some("/home/me"), Some("/home/me/.local/share/opencode"));
        check(Some("data"), Some("/home/me"), Some("/home/me/.local/share/opencode"));
        check(Some("./data"), None, None);
        check(None, Some(""), None);
        check(None, Some("me"), None);
    }
}
