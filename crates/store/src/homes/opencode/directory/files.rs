//! The files beneath a root: listed and read, never followed out of it.
//!
//! Paths are relative to the root, with `/`, made of checked ids or of names that a listing gave.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use annals_core::Document;
use annals_core::id::Millis;
use cap_std::ambient_authority;
use cap_std::fs::Dir;

use crate::home::UnreadableReason;
use crate::platform::{self, EntryKind, Folder};

/// A root directory and what is beneath it.
#[derive(Debug)]
pub(super) struct Files {
    pub(super) dir: Dir,
    pub(super) path: PathBuf,
}

/// Files seen as a decided transaction will leave them, so that no reader sees half of one.
#[derive(Debug)]
pub(super) struct FilesView<'f> {
    pub(super) files: &'f Files,
    /// Where the new content of a path is for now, or that there will be none.
    pub(super) overlay: BTreeMap<String, Option<String>>,
}

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DirectoryEntry {
    pub(super) name: String,
    pub(super) is_dir: bool,
}

/// What a document at some place must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DocumentShape {
    Object,
    Array,
}

/// How recent a file must be for a failed parse to be taken for a write under way.
const FRESH: Duration = Duration::from_secs(2);
/// OpenCode rewrites a file in well under a millisecond; this lets it finish even on a loaded machine.
const TORN_READ_DELAY: Duration = Duration::from_millis(25);

impl Files {
    /// Opens a root. Its own path may lead through links: where the user put it is the user's business.
    pub(super) fn open(path: &Path) -> io::Result<Files> {
        let dir = Dir::open_ambient_dir(path, ambient_authority())?;
        Ok(Files { dir, path: path.to_owned() })
    }

    /// The absolute path of a place, for messages.
    pub(super) fn absolute(&self, path: &str) -> String {
        self.path.join(path).display().to_string()
    }

    fn entries(&self, folder: &Folder, path: &str) -> io::Result<Vec<DirectoryEntry>> {
        let mut entries = Vec::new();
        folder.list(|name, kind| {
            let is_dir = match kind {
                EntryKind::File => false,
                EntryKind::Directory => true,
                EntryKind::Unclear => self.dir.is_dir(format!("{path}/{name}")),
            };
            entries.push(DirectoryEntry { name: name.to_owned(), is_dir });
        })?;
        Ok(entries)
    }

    /// The bytes of a file; `None` if it does not exist.
    pub(super) fn bytes(&self, path: &str) -> Result<Option<Vec<u8>>, UnreadableReason> {
        match platform::again(|| self.dir.open_with(path, &platform::read_options())) {
            Ok(file) => Files::contents(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(refusal(&error)),
        }
    }

    /// The bytes of a file that is open.
    ///
    /// Opening, one read and closing is all that most files take: what is shorter than the buffer and not empty needs no
    /// look at its size. Anything else does, be it to read the rest or to say what is there instead of a file.
    fn contents(mut file: cap_std::fs::File) -> Result<Option<Vec<u8>>, UnreadableReason> {
        use io::Read;
        // Kept, because clearing it takes as long as reading most files.
        thread_local! {
            static BUFFER: RefCell<Box<[u8]>> = RefCell::new(vec![0; 16 << 10].into());
        }
        let (first, beginning) = BUFFER.with_borrow_mut(|buffer| {
            let first = platform::again(|| file.read(buffer));
            let n = first.as_ref().copied().unwrap_or(0);
            (first.map(|n| n < buffer.len()), buffer[..n].to_vec())
        });
        if let Ok(true) = first
            && !beginning.is_empty()
        {
            return Ok(Some(beginning));
        }
        let metadata = file.metadata().map_err(|error| refusal(&error))?;
        if !metadata.is_file() {
            return Err(UnreadableReason::NotAFile(if metadata.is_dir() {
                "a directory"
            } else {
                "a pipe or device"
            }));
        }
        first.map_err(|error| refusal(&error))?;
        if metadata.len() > annals_core::json::Tape::MAX_BYTES as u64 {
            return Err(UnreadableReason::Refused("the file is larger than 1 GiB".to_owned()));
        }
        let mut bytes = Vec::with_capacity(metadata.len() as usize + 1);
        bytes.extend_from_slice(&beginning);
        file.read_to_end(&mut bytes).map_err(|error| refusal(&error))?;
        Ok(Some(bytes))
    }

    /// When a file was last written.
    fn modified(&self, path: &str) -> Option<SystemTime> {
        Some(self.dir.symlink_metadata(path).ok()?.modified().ok()?.into_std())
    }
}

/// Why a file could not be read, in words that help.
fn refusal(error: &io::Error) -> UnreadableReason {
    // A refusal that is not the system's is cap-std's: the path would have left the root.
    match (error.kind(), error.raw_os_error()) {
        (io::ErrorKind::PermissionDenied, None) => UnreadableReason::LeavesHome,
        _ => UnreadableReason::Refused(error.to_string()),
    }
}

impl FilesView<'_> {
    /// Whether anything has this name.
    pub(super) fn exists(&self, path: &str) -> bool {
        match self.overlay.get(path) {
            Some(staged) => staged.is_some(),
            None => self.files.dir.symlink_metadata(path).is_ok(),
        }
    }

    /// The entries of a directory, hidden ones and names that are not UTF-8 left out. A missing directory is empty.
    pub(super) fn list(&self, path: &str) -> Result<Vec<DirectoryEntry>, UnreadableReason> {
        Ok(self.open_listed(path)?.1)
    }

    /// The entries of a directory as [`Self::list`] gives them, and the directory itself if it exists: files in it can be read
    /// without opening it again.
    pub(super) fn open_listed(
        &self,
        path: &str,
    ) -> Result<(Option<Folder>, Vec<DirectoryEntry>), UnreadableReason> {
        let listed = Folder::open(&self.files.dir, path).and_then(|folder| {
            let entries = self.files.entries(&folder, path)?;
            Ok((Some(folder), entries))
        });
        let (folder, mut entries) = match listed {
            Ok(listed) => listed,
            Err(error) if error.kind() == io::ErrorKind::NotFound => (None, Vec::new()),
            Err(error) => return Err(refusal(&error)),
        };
        self.overlay_entries(path, &mut entries);
        Ok((folder, entries))
    }

    /// How many entries of a directory have a name that `counts`. Counts like a listing would, but holds no listing in memory.
    pub(super) fn count(&self, path: &str, counts: impl Fn(&str) -> bool) -> Result<usize, UnreadableReason> {
        if !self.overlay.is_empty() {
            return Ok(self.list(path)?.iter().filter(|entry| counts(&entry.name)).count());
        }
        let mut n_entries = 0;
        let count = |name: &str, _| n_entries += usize::from(counts(name));
        match Folder::open(&self.files.dir, path).and_then(|folder| folder.list(count)) {
            Ok(()) => Ok(n_entries),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
            Err(error) => Err(refusal(&error)),
        }
    }

    /// Reads the document in a file. `None` if there is no such file.
    ///
    /// OpenCode rewrites files in place, so a reader can meet half of one. A file that does not parse and has just been
    /// written is read once more after a moment; then it is reported.
    pub(super) fn read(
        &self,
        path: &str,
        shape: DocumentShape,
    ) -> Result<Option<Document>, UnreadableReason> {
        self.read_in(None, path, shape)
    }

    /// Reads the document in a file as [`Self::read`] does, from its directory if that is open.
    pub(super) fn read_in(
        &self,
        folder: Option<&Folder>,
        path: &str,
        shape: DocumentShape,
    ) -> Result<Option<Document>, UnreadableReason> {
        let Some(bytes) = self.bytes_in(folder, path)? else { return Ok(None) };
        let document = match Document::parse(bytes) {
            Ok(document) => document,
            Err(_) if is_fresh(self.files.modified(path)) => {
                std::thread::sleep(TORN_READ_DELAY);
                let Some(bytes) = self.bytes(path)? else { return Ok(None) };
                Document::parse(bytes).map_err(UnreadableReason::Json)?
            }
            Err(error) => return Err(UnreadableReason::Json(error)),
        };
        let (wanted, kind) = match shape {
            DocumentShape::Object => ("an object", annals_core::json::Kind::Object),
            DocumentShape::Array => ("an array", annals_core::json::Kind::Array),
        };
        let found = document.root().kind();
        if found != kind {
            return Err(UnreadableReason::WrongKind { wanted, found: found.with_article() });
        }
        Ok(Some(document))
    }

    fn bytes_in(&self, folder: Option<&Folder>, path: &str) -> Result<Option<Vec<u8>>, UnreadableReason> {
        let name = path.rsplit('/').next().unwrap_or(path);
        match folder.filter(|_| self.overlay.is_empty()).map(|folder| folder.open_file(name)) {
            Some(Ok(file)) => Files::contents(file),
            Some(Err(error)) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            // A link may be followed, as long as it does not leave the root; what else is wrong is found that way too.
            _ => self.bytes(path),
        }
    }

    /// The bytes of a file; `None` if it does not exist.
    pub(super) fn bytes(&self, path: &str) -> Result<Option<Vec<u8>>, UnreadableReason> {
        match self.overlay.get(path) {
            Some(None) => return Ok(None),
            // Once the content has moved to its place it is no longer where it was staged.
            Some(Some(staged)) => match self.files.bytes(staged)? {
                None => {}
                found => return Ok(found),
            },
            None => {}
        }
        self.files.bytes(path)
    }

    /// When a file was last written.
    pub(super) fn modified(&self, path: &str) -> Option<Millis> {
        let since = self.files.modified(path)?.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        Millis::try_from(since.as_millis()).ok()
    }

    /// Adds to a listing what will be there, and takes out what will not.
    fn overlay_entries(&self, directory: &str, entries: &mut Vec<DirectoryEntry>) {
        let prefix = format!("{directory}/");
        for (path, staged) in self.overlay.range(prefix.clone()..) {
            let Some(rest) = path.strip_prefix(&prefix) else { break };
            match (rest.split_once('/'), staged) {
                (Some((name, _)), Some(_)) => push_new(entries, name, true),
                (None, Some(_)) => push_new(entries, rest, false),
                (None, None) => entries.retain(|entry| entry.name != rest),
                (Some(_), None) => {}
            }
        }
    }
}

fn push_new(entries: &mut Vec<DirectoryEntry>, name: &str, is_dir: bool) {
    if entries.iter().all(|entry| entry.name != name) {
        entries.push(DirectoryEntry { name: name.to_owned(), is_dir });
    }
}

fn is_fresh(modified: Option<SystemTime>) -> bool {
    // A time in the future, from another machine's clock, counts as fresh too.
    modified.is_some_and(|modified| modified.elapsed().map_or(true, |age| age < FRESH))
}
