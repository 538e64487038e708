//! The files of the text index: readable only by their owner, swept of a killed writer's leftovers, usable also where nothing can
//! be written.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tantivy::directory::error::{DeleteError, LockError, OpenReadError, OpenWriteError};
use tantivy::directory::{
    AntiCallToken, Directory, DirectoryLock, FileHandle, Lock, META_LOCK, MmapDirectory, TerminatingWrite,
    WatchCallback, WatchHandle, WritePtr,
};
use tantivy::index::{IndexMeta, SegmentComponent, SegmentMeta};

use crate::platform;

/// The list of the files that tantivy has made.
const MANAGED: &str = ".managed.json";
/// The file that describes tantivy's last commit.
pub(super) const META: &str = "meta.json";
/// A file that exists while a writer works. A writer that finds it knows that the last one did not finish.
const WRITING: &str = ".annals-writing";
/// A file with a line for each file whose checksum was compared: its stamp and its name.
pub(super) const VERIFIED: &str = ".annals-verified";
/// The files that each segment may have.
const COMPONENTS: [SegmentComponent; 7] = [
    SegmentComponent::Postings,
    SegmentComponent::Positions,
    SegmentComponent::Terms,
    SegmentComponent::Store,
    SegmentComponent::FastFields,
    SegmentComponent::FieldNorms,
    SegmentComponent::Delete,
];

/// The directory of an index.
///
/// tantivy's own directory makes files that every user can read, waits for a pipe that has the name of a file, and writes a lock
/// file before it opens anything.
#[derive(Debug, Clone)]
pub(super) struct IndexFiles {
    mapped: MmapDirectory,
    path: PathBuf,
}

/// A file of an index, synced when it is complete.
struct IndexFile(File);

impl IndexFiles {
    /// The directory at a path. A link to a directory is refused: its target is not ours to sweep.
    pub(super) fn open(path: &Path) -> Result<IndexFiles, String> {
        match path.symlink_metadata() {
            Ok(metadata) if metadata.is_dir() => {}
            Ok(_) => return Err("it is not a directory".to_owned()),
            Err(error) => return Err(error.to_string()),
        }
        let mapped = MmapDirectory::open(path).map_err(|error| error.to_string())?;
        Ok(IndexFiles { mapped, path: path.to_owned() })
    }

    /// Makes an empty directory, in place of anything that has the name.
    pub(super) fn create(path: &Path) -> io::Result<()> {
        discard(path)?;
        platform::create_private_directory(path)
    }

    /// Notes that a writer works. Called with the lock of the index held. True if the last writer did not finish.
    pub(super) fn begin_writing(&self) -> io::Result<bool> {
        let marker = self.path.join(WRITING);
        match platform::create_private_file(&marker) {
            Ok(()) => Ok(false),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Notes that everything was written. The note is not synced: after a power cut the files are checked once more.
    pub(super) fn end_writing(&self) {
        let _ = std::fs::remove_file(self.path.join(WRITING));
    }

    /// Where the directory is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The first file that a commit names and that is missing.
    pub(super) fn missing(&self, meta: &IndexMeta) -> Option<PathBuf> {
        named(meta).find(|path| !self.path.join(path).exists())
    }

    /// Removes everything that the last commit does not name. Called with the lock of the index held.
    ///
    /// A writer that was killed leaves files, and the next one may want to use their names: those of deletions are made of
    /// counters that start over at the last commit.
    pub(super) fn sweep(&self, meta: &IndexMeta) -> io::Result<()> {
        // Readers hold this lock while they open the files that the last commit names.
        let _readers = self.acquire_lock(&META_LOCK).map_err(|error| io::Error::other(error.to_string()))?;
        let mut kept: HashSet<PathBuf> = HashSet::from([META, MANAGED, WRITING, VERIFIED].map(PathBuf::from));
        kept.extend([META_LOCK.filepath.clone(), tantivy::directory::INDEX_WRITER_LOCK.filepath.clone()]);
        kept.extend(named(meta));
        for entry in std::fs::read_dir(&self.path)? {
            let entry = entry?;
            if !kept.contains(Path::new(&entry.file_name())) {
                discard(&entry.path())?;
            }
        }
        Ok(())
    }
}

/// The files of segments that a commit names.
pub(super) fn named(meta: &IndexMeta) -> impl Iterator<Item = PathBuf> {
    let of_segment = |segment: &SegmentMeta| {
        let is_there = |component: &&SegmentComponent| {
            segment.has_deletes() || !matches!(component, SegmentComponent::Delete)
        };
        let components = COMPONENTS.iter().filter(is_there);
        components.map(|component| segment.relative_path(component.clone())).collect::<Vec<_>>()
    };
    meta.segments.iter().flat_map(of_segment)
}

/// Removes the file or directory with a name. Does not follow links.
pub(super) fn discard(path: &Path) -> io::Result<()> {
    let removed = match path.symlink_metadata() {
        Ok(metadata) if metadata.is_dir() => std::fs::remove_dir_all(path),
        Ok(_) => std::fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

impl Directory for IndexFiles {
    fn get_file_handle(&self, path: &Path) -> Result<Arc<dyn FileHandle>, OpenReadError> {
        // Opening a pipe or the like for mapping would wait.
        match self.path.join(path).symlink_metadata() {
            Ok(metadata) if !metadata.is_file() => {
                let error = io::Error::new(io::ErrorKind::InvalidData, "not a file");
                Err(OpenReadError::wrap_io_error(error, path.to_owned()))
            }
            _ => self.mapped.get_file_handle(path),
        }
    }

    fn delete(&self, path: &Path) -> Result<(), DeleteError> {
        self.mapped.delete(path)
    }

    fn exists(&self, path: &Path) -> Result<bool, OpenReadError> {
        self.mapped.exists(path)
    }

    fn open_write(&self, path: &Path) -> Result<WritePtr, OpenWriteError> {
        match platform::private_options().create_new(true).open(self.path.join(path)) {
            Ok(file) => Ok(BufWriter::new(Box::new(IndexFile(file)))),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Err(OpenWriteError::FileAlreadyExists(path.to_owned()))
            }
            Err(error) => Err(OpenWriteError::wrap_io_error(error, path.to_owned())),
        }
    }

    fn atomic_read(&self, path: &Path) -> Result<Vec<u8>, OpenReadError> {
        platform::read_file(&self.path.join(path)).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => OpenReadError::FileDoesNotExist(path.to_owned()),
            _ => OpenReadError::wrap_io_error(error, path.to_owned()),
        })
    }

    fn atomic_write(&self, path: &Path, data: &[u8]) -> io::Result<()> {
        self.mapped.atomic_write(path, data)?;
        // The files of the former commit are removed next. After a power cut, the removal must not survive without the new commit.
        if path == Path::new(META) { self.mapped.sync_directory() } else { Ok(()) }
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.mapped.sync_directory()
    }

    fn acquire_lock(&self, lock: &Lock) -> Result<DirectoryLock, LockError> {
        let locked = platform::open_private_file(&self.path.join(&lock.filepath)).and_then(|file| {
            match lock.is_blocking {
                true => file.lock()?,
                false => file.try_lock().map_err(|error| match error {
                    std::fs::TryLockError::Error(error) => error,
                    std::fs::TryLockError::WouldBlock => io::ErrorKind::WouldBlock.into(),
                })?,
            }
            Ok(file)
        });
        match locked {
            Ok(file) => Ok(DirectoryLock::from(Box::new(file))),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(LockError::LockBusy),
            // The lock keeps files from being removed between reading their list and opening them. If that happens without it,
            // the search fails and can be repeated.
            Err(_) if lock.filepath == META_LOCK.filepath => Ok(DirectoryLock::from(Box::new(()))),
            Err(error) => Err(LockError::wrap_io_error(error)),
        }
    }

    fn watch(&self, callback: WatchCallback) -> tantivy::Result<WatchHandle> {
        self.mapped.watch(callback)
    }
}

impl Write for IndexFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl TerminatingWrite for IndexFile {
    fn terminate_ref(&mut self, _: AntiCallToken) -> io::Result<()> {
        self.0.sync_data()
    }
}
