//! Files beside homes that operations change: those that an operation created, and those of a working tree.
//!
//! They are noted and put back as the pieces of a home are, by their absolute paths. A file of a working tree is noted with its kind, since a
//! script that is put back must be executable again, and a link must be a link.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use super::pieces::{Exchange, hash_of};
use super::{CommitError, ConflictKind};
use crate::draft;

/// Upper bound on the directories that are created for a file.
const MOST_CREATED: usize = 4;

/// The kinds of files beside homes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FilesBeside {
    /// Files that an operation created, such as long tool output.
    Created,
    /// Files of a working tree.
    WorkingTree,
}

impl FilesBeside {
    const ALL: [FilesBeside; 2] = [FilesBeside::Created, FilesBeside::WorkingTree];

    /// The name that stands where a home's would. It is part of the stored bytes.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            FilesBeside::Created => "files",
            FilesBeside::WorkingTree => "working tree",
        }
    }

    /// The kind with a name; `None` if it is the name of a home.
    pub(crate) fn named(place: &str) -> Option<FilesBeside> {
        FilesBeside::ALL.into_iter().find(|kind| kind.name() == place)
    }

    /// What is at these paths now.
    pub(crate) fn stored(self, places: &[&str]) -> Vec<Option<Vec<u8>>> {
        places.iter().map(|place| self.read(Path::new(place))).collect()
    }

    fn read(self, path: &Path) -> Option<Vec<u8>> {
        match self {
            FilesBeside::Created => std::fs::read(path).ok(),
            FilesBeside::WorkingTree => TreeFile::read(path).map(|file| file.encoded()),
        }
    }

    /// Removes what a killed process has left beside these files.
    pub(crate) fn sweep(self, places: &[&str]) {
        let directories: BTreeSet<_> = places.iter().filter_map(|place| Path::new(place).parent()).collect();
        directories.into_iter().for_each(draft::sweep);
    }

    /// Puts files back as they were, if each is as expected. Nothing is changed if one is not.
    pub(crate) fn exchange(self, pieces: &[Exchange]) -> Result<(), CommitError> {
        for piece in pieces {
            let current = self.read(Path::new(&piece.place));
            if hash_of(current.as_ref()) != piece.expected {
                let (place, session) = (piece.place.clone(), piece.session.clone());
                return Err(CommitError::Altered { place, session, what: ConflictKind::Changed });
            }
        }
        // What goes makes room for what comes: a file may take the place of a directory.
        let (going, coming): (Vec<&Exchange>, Vec<&Exchange>) =
            pieces.iter().partition(|piece| piece.bytes.is_none());
        for piece in going.into_iter().chain(coming) {
            let path = Path::new(&piece.place);
            let done = match &piece.bytes {
                Some(bytes) => self.write(path, bytes),
                None => self.remove(path),
            };
            done.map_err(|source| CommitError::Failed { path: piece.place.clone(), source })?;
        }
        Ok(())
    }

    fn remove(self, path: &Path) -> io::Result<()> {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        if self == FilesBeside::Created {
            // Directories that were created for the file go with it.
            for directory in path.ancestors().skip(1).take(MOST_CREATED) {
                if std::fs::remove_dir(directory).is_err() {
                    break;
                }
            }
        }
        Ok(())
    }

    fn write(self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        match self {
            FilesBeside::Created => {
                if let Some(directory) = path.parent() {
                    std::fs::create_dir_all(directory)?;
                }
                std::fs::write(path, bytes)
            }
            FilesBeside::WorkingTree => TreeFile::decoded(bytes)?.write(path),
        }
    }
}

/// A file of a working tree, as git knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TreeFile {
    kind: TreeFileKind,
    /// Its content, or the target of a link.
    content: Vec<u8>,
}

/// Kinds of files in a working tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TreeFileKind {
    Plain,
    Executable,
    Link,
    /// A directory or anything else that git does not track as a file.
    Other,
}

impl TreeFileKind {
    const ALL: [TreeFileKind; 4] =
        [TreeFileKind::Plain, TreeFileKind::Executable, TreeFileKind::Link, TreeFileKind::Other];

    /// The mode by which git knows it. It is part of the stored bytes.
    fn mode(self) -> &'static str {
        match self {
            TreeFileKind::Plain => "100644",
            TreeFileKind::Executable => "100755",
            TreeFileKind::Link => "120000",
            TreeFileKind::Other => "other",
        }
    }

    /// The kind with a mode of git's; `None` for modes of other things, such as a submodule.
    pub(crate) fn of_mode(mode: &str) -> Option<TreeFileKind> {
        TreeFileKind::ALL.into_iter().find(|kind| kind.mode() == mode)
    }
}

impl TreeFile {
    pub(crate) fn new(kind: TreeFileKind, content: Vec<u8>) -> TreeFile {
        TreeFile { kind, content }
    }

    /// What is at a path. A link is not followed.
    pub(crate) fn read(path: &Path) -> Option<TreeFile> {
        let metadata = std::fs::symlink_metadata(path).ok()?;
        let kind = match metadata.file_type() {
            kind if kind.is_symlink() => TreeFileKind::Link,
            kind if kind.is_file() && is_executable(&metadata) => TreeFileKind::Executable,
            kind if kind.is_file() => TreeFileKind::Plain,
            _ => return Some(TreeFile::new(TreeFileKind::Other, Vec::new())),
        };
        let content = match kind {
            TreeFileKind::Link => std::fs::read_link(path).ok()?.into_os_string().into_encoded_bytes(),
            _ => std::fs::read(path).ok()?,
        };
        Some(TreeFile { kind, content })
    }

    /// Its bytes in the record of an operation.
    pub(crate) fn encoded(&self) -> Vec<u8> {
        [self.kind.mode().as_bytes(), b"\0", &self.content].concat()
    }

    fn decoded(bytes: &[u8]) -> io::Result<TreeFile> {
        let unknown = || io::Error::new(io::ErrorKind::InvalidData, "not a file of a working tree");
        let end = bytes.iter().position(|byte| *byte == 0).ok_or_else(unknown)?;
        let mode = std::str::from_utf8(&bytes[..end]).map_err(|_| unknown())?;
        let kind = TreeFileKind::of_mode(mode).filter(|kind| *kind != TreeFileKind::Other);
        Ok(TreeFile { kind: kind.ok_or_else(unknown)?, content: bytes[end + 1..].to_vec() })
    }

    /// Writes the file over whatever is there, with the directories above it. A reader sees the former file or this one.
    fn write(&self, path: &Path) -> io::Result<()> {
        let directory = path.parent().unwrap_or(Path::new("/"));
        std::fs::create_dir_all(directory)?;
        if path.is_dir() && !path.is_symlink() {
            // Only an empty directory goes: files in it belong to somebody.
            std::fs::remove_dir(path)?;
        }
        if self.kind == TreeFileKind::Link {
            return replace_link(path, &self.content);
        }
        let mut file = draft::make_in(directory, 0o600)?;
        io::Write::write_all(&mut file, &self.content)?;
        set_mode(file.as_file(), path, self.kind == TreeFileKind::Executable)?;
        file.as_file().sync_all()?;
        file.persist(path).map_err(|error| error.error)?;
        Ok(())
    }
}

#[cfg(unix)]
fn is_executable(metadata: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt;
    metadata.permissions().mode() & 0o100 != 0
}

#[cfg(not(unix))]
fn is_executable(_: &std::fs::Metadata) -> bool {
    false
}

/// Gives a new file the permissions of the one that it replaces, or else those that a new file would get.
#[cfg(unix)]
fn set_mode(file: &std::fs::File, path: &Path, is_executable: bool) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let former = std::fs::symlink_metadata(path).ok().filter(std::fs::Metadata::is_file);
    let readable = former.map_or(0o644, |former| former.permissions().mode() & 0o666);
    let mode = if is_executable { readable | ((readable & 0o444) >> 2) } else { readable };
    file.set_permissions(std::fs::Permissions::from_mode(mode))
}

#[cfg(not(unix))]
fn set_mode(_: &std::fs::File, _: &Path, _: bool) -> io::Result<()> {
    Ok(())
}

#[cfg(unix)]
fn replace_link(path: &Path, target: &[u8]) -> io::Result<()> {
    use std::os::unix::ffi::OsStrExt;
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    std::os::unix::fs::symlink(std::ffi::OsStr::from_bytes(target), path)
}

#[cfg(not(unix))]
fn replace_link(path: &Path, target: &[u8]) -> io::Result<()> {
    std::fs::write(path, target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_working_tree_come_back_as_they_were() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        std::fs::write(path("plain"), "a\0b").unwrap();
        std::fs::write(path("script"), "#!/bin/sh\n").unwrap();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            std::fs::set_permissions(path("script"), std::fs::Permissions::from_mode(0o755)).unwrap();
            std::os::unix::fs::symlink("nowhere", path("link")).unwrap();
        }
        let names = ["plain", "script", "link", "deep/new"].map(|name| path(name).display().to_string());
        let places: Vec<&str> = names.iter().map(String::as_str).collect();
        let before = FilesBeside::WorkingTree.stored(&places);
        let exchange = |now: &[Option<Vec<u8>>], then: &[Option<Vec<u8>>]| {
            let pieces = names.iter().zip(now).zip(then).map(|((place, now), then)| Exchange {
                place: place.clone(),
                session: None,
                expected: hash_of(now.as_ref()),
                bytes: then.clone(),
            });
            FilesBeside::WorkingTree.exchange(&pieces.collect::<Vec<_>>())
        };
        let new = TreeFile::new(TreeFileKind::Plain, b"new".to_vec()).encoded();
        let after = vec![Some(new.clone()), None, Some(new.clone()), Some(new)];
        exchange(&before, &after).unwrap();
        assert_eq!(FilesBeside::WorkingTree.stored(&places), after);
        assert_eq!(std::fs::read(path("deep/new")).unwrap(), b"new");
        assert!(!path("link").is_symlink());
        // One that is not as expected keeps all others as they are.
        std::fs::write(path("deep/new"), "changed").unwrap();
        assert!(exchange(&after, &before).is_err());
        assert!(!path("script").exists());
        std::fs::write(path("deep/new"), "new").unwrap();
        exchange(&after, &before).unwrap();
        assert_eq!(FilesBeside::WorkingTree.stored(&places), before);
        assert!(cfg!(not(unix)) || path("link").is_symlink());
    }
}
