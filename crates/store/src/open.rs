//! Opening homes by name, and finding the ones there are.

use std::path::{Path, PathBuf};

use crate::home::Write;
use crate::home::opencode_dir::{OpenDirError, OpencodeDir};

/// A home could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// It is a directory, but not one of OpenCode's.
    #[error(transparent)]
    Dir(#[from] OpenDirError),
    /// It is a file.
    #[error(
        "{path} is a file; this version of annals opens OpenCode's directories (through 1.1.65), not its databases"
    )]
    File {
        /// The path.
        path: String,
    },
    /// The name has a scheme that is not known.
    #[error("{url} is not a home: give a path, or a `file:` URL")]
    Scheme {
        /// The name.
        url: String,
    },
}

/// Opens a home by its path or `file:` URL.
///
/// ```no_run
/// let home = annals::open("/home/me/.local/share/opencode")?;
/// for session in home.sessions(&Default::default())?.value {
///     println!("{}", session.id);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn open(url: &str) -> Result<Box<dyn Write>, OpenError> {
    let path = path_of(url)?;
    if path.is_file() {
        return Err(OpenError::File { path: path.display().to_string() });
    }
    Ok(Box::new(OpencodeDir::open(&path)?))
}

/// Opens a home, and makes an empty OpenCode directory if there is nothing at its path.
pub fn open_or_create(url: &str) -> Result<Box<dyn Write>, OpenError> {
    let path = path_of(url)?;
    if path.is_file() {
        return Err(OpenError::File { path: path.display().to_string() });
    }
    Ok(Box::new(OpencodeDir::open_or_create(&path)?))
}

/// The path that a home's name stands for.
pub fn path_of(url: &str) -> Result<PathBuf, OpenError> {
    match url.split_once("://") {
        Some(("file", path)) => Ok(PathBuf::from(path)),
        Some(_) => Err(OpenError::Scheme { url: url.to_owned() }),
        None => Ok(PathBuf::from(url)),
    }
}

/// What was found in the data directory of a user's OpenCode.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Discovered {
    /// The directory, if it holds sessions.
    pub directory: Option<PathBuf>,
    /// Databases of OpenCode 1.2 and later.
    pub databases: Vec<PathBuf>,
}

/// OpenCode's data directory: `$XDG_DATA_HOME/opencode`, or `~/.local/share/opencode` where that is unset or empty. The
/// rule is the same on every operating system.
pub fn data_directory(xdg_data_home: Option<&Path>, home: Option<&Path>) -> Option<PathBuf> {
    match xdg_data_home.filter(|path| !path.as_os_str().is_empty()) {
        Some(data) => Some(data.join("opencode")),
        None => Some(home?.join(".local").join("share").join("opencode")),
    }
}

/// Looks what a data directory holds.
pub fn discover(data: &Path) -> Discovered {
    let holds_sessions = OpencodeDir::open(data).is_ok();
    let mut databases: Vec<PathBuf> = std::fs::read_dir(data)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            name.starts_with("opencode") && name.ends_with(".db")
        })
        .map(|entry| entry.path())
        .collect();
    databases.sort();
    Discovered { directory: holds_sessions.then(|| data.to_owned()), databases }
}
