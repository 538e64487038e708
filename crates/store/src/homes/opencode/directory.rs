//! OpenCode's directory as a home: every layout read, the one of 0.6 to 1.1.65 also written.

mod check;
mod commit;
mod files;
mod journal;
mod layout;
mod orphans;
mod pieces;
mod read;
mod space;
mod survey;

use std::io;
use std::path::{Path, PathBuf};

use annals_core::id::ProjectId;

use crate::home::pieces::Noter;
use crate::platform;
use files::{Files, FilesView};
use layout::Layout;

/// An OpenCode data directory, such as `~/.local/share/opencode`.
#[derive(Debug)]
pub struct OpencodeDirectory {
    path: PathBuf,
    /// In the order of precedence: a session found in one root hides the same session in later ones.
    roots: Vec<Root>,
    /// Told of commits, if somebody wants to know.
    noter: Option<Noter>,
}

/// One tree of documents inside the data directory.
#[derive(Debug)]
struct Root {
    files: Files,
    layout: Layout,
    /// Path of the root inside the data directory, with a slash at its end, or empty.
    prefix: String,
}

/// A root as it is at one moment.
#[derive(Debug)]
struct Tree<'h> {
    layout: &'h Layout,
    prefix: &'h str,
    view: FilesView<'h>,
}

impl Tree<'_> {
    /// The place of a path of this tree inside the data directory.
    fn place(&self, path: &str) -> String {
        [self.prefix, path].concat()
    }
}

/// A directory could not be opened as a home.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenDirError {
    /// There is nothing at the path.
    #[error("{path} does not exist")]
    NotFound {
        /// The path.
        path: String,
    },
    /// There is something, but no sessions of any layout could be in it.
    #[error(
        "{path} is not an OpenCode directory: it has neither `storage/` nor `project/*/storage/` nor `session/`"
    )]
    NotAHome {
        /// The path.
        path: String,
    },
    /// The operating system refused.
    #[error("cannot open {path}: {source}")]
    Io {
        /// The path.
        path: String,
        /// What the system said.
        source: io::Error,
    },
}

impl OpencodeDirectory {
    /// Opens a data directory for reading and writing.
    pub fn open(path: &Path) -> Result<OpencodeDirectory, OpenDirError> {
        let failed = |path: &Path| {
            let path = path.display().to_string();
            move |source: io::Error| match source.kind() {
                io::ErrorKind::NotFound => OpenDirError::NotFound { path },
                _ => OpenDirError::Io { path, source },
            }
        };
        std::fs::read_dir(path).map_err(failed(path))?;
        let mut roots = Vec::new();
        let storage = path.join("storage");
        // A path to the `storage` directory itself is accepted too, and so is the directory of the per-session layout.
        let (tree, prefix) = if storage.is_dir() { (storage, "storage/") } else { (path.to_owned(), "") };
        if !prefix.is_empty() || tree.join("session").is_dir() {
            for layout in [Layout::Flat, Layout::PerSession] {
                let files = Files::open(&tree).map_err(failed(&tree))?;
                roots.push(Root { files, layout, prefix: prefix.to_owned() });
            }
        }
        if let Ok(slugs) = std::fs::read_dir(path.join("project")) {
            let mut slugs: Vec<String> =
                slugs.flatten().filter_map(|slug| slug.file_name().into_string().ok()).collect();
            slugs.sort();
            for slug in slugs {
                let tree = path.join("project").join(&slug).join("storage");
                if tree.is_dir() {
                    let files = Files::open(&tree).map_err(failed(&tree))?;
                    let layout = Layout::PerProject(project_of_slug(&slug));
                    roots.push(Root { files, layout, prefix: format!("project/{slug}/storage/") });
                }
            }
        }
        if roots.is_empty() {
            return Err(OpenDirError::NotAHome { path: path.display().to_string() });
        }
        let home = OpencodeDirectory { path: path.to_owned(), roots, noter: None };
        // Finishes a transaction that an earlier process left unfinished.
        home.trees().for_each(drop);
        Ok(home)
    }

    /// Opens a data directory, and makes an empty one if it is missing.
    pub fn open_or_create(path: &Path) -> Result<OpencodeDirectory, OpenDirError> {
        let vacant = std::fs::read_dir(path).map_or(true, |mut entries| entries.next().is_none());
        if vacant {
            platform::create_private_directory(path)
                .and_then(|()| platform::create_private_directory(&path.join("storage")))
                .map_err(|source| OpenDirError::Io { path: path.display().to_string(), source })?;
        }
        OpencodeDirectory::open(path)
    }

    /// The data directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn flat(&self) -> Option<&Root> {
        self.roots.iter().find(|root| root.layout == Layout::Flat)
    }

    /// The trees as they are now.
    fn trees(&self) -> impl Iterator<Item = Tree<'_>> {
        self.roots.iter().map(Root::tree)
    }

    /// The tree that OpenCode 0.6 to 1.1.65 uses, as it is now.
    fn flat_tree(&self) -> Option<Tree<'_>> {
        self.flat().map(Root::tree)
    }

    /// The root that holds the session document at `place`.
    fn root_of(&self, place: &str) -> Option<&Root> {
        self.roots.iter().find(|root| {
            let Some(path) = place.strip_prefix(&root.prefix) else { return false };
            match root.layout {
                Layout::Flat => !path.ends_with("/meta.json"),
                Layout::PerSession => path.ends_with("/meta.json"),
                Layout::PerProject(_) => true,
            }
        })
    }
}

/// The project id for a directory name of before 0.6, which was the path of the working tree. One too long for an id is
/// shortened, with a hash to keep it apart from its likes.
fn project_of_slug(slug: &str) -> ProjectId {
    ProjectId::parse(slug).unwrap_or_else(|_| {
        let tail: String = slug.chars().rev().filter(char::is_ascii_alphanumeric).take(40).collect();
        let hash = annals_core::ContentHash::of(slug.as_bytes()).to_string();
        let name = format!("{}-{}", tail.chars().rev().collect::<String>(), &hash[..16]);
        ProjectId::parse(&name).expect("letters, digits and a dash, 57 at most")
    })
}
