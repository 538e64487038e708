//! Which files of the text index hold what was written to them.
//!
//! tantivy trusts its files, and panics now and then where one is damaged. Each of them ends with a checksum. To compare all
//! checksums before each search would take longer than the search, so it is noted which files were compared, and what told
//! then that nobody had changed them. Only files that are new or have changed since are read.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use tantivy::Index;
use tantivy::directory::Directory;
use tantivy::index::IndexMeta;

use super::files::{IndexFiles, VERIFIED, named};
use crate::ids::hex;
use crate::platform::Stamp;

/// What tantivy puts at the end of every file takes more than this. With less, it panics.
const SHORTEST: u64 = 8;

/// Which files are compared with their checksums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum VerifyScope {
    All,
    /// Those that are new or have changed since they were compared.
    Changed,
}

/// Compares the files that a commit names with their checksums. The error says which is damaged.
pub(super) fn verify(
    index: &Index,
    files: &IndexFiles,
    meta: &IndexMeta,
    scope: VerifyScope,
) -> Result<(), String> {
    let note = match scope {
        VerifyScope::All => Vec::new(),
        VerifyScope::Changed => files.atomic_read(Path::new(VERIFIED)).unwrap_or_default(),
    };
    let note = String::from_utf8_lossy(&note);
    let noted: HashSet<&str> = note.lines().collect();
    let present = present(files, meta);
    let mut is_noted = true;
    for (path, stamp) in &present {
        if noted.contains(line(path, *stamp).as_str()) {
            continue;
        }
        is_noted = false;
        let is_sound = stamp.length() >= SHORTEST
            && index.directory().validate_checksum(path).is_ok_and(|is_sound| is_sound);
        if !is_sound {
            return Err(format!("{} is damaged", path.display()));
        }
    }
    if !is_noted {
        write(files, &present);
    }
    Ok(())
}

/// Notes that the files that a commit names hold what was written to them. Called by the one who wrote them, or compared them.
pub(super) fn note(files: &IndexFiles, meta: &IndexMeta) {
    write(files, &present(files, meta));
}

/// The files that a commit names, with what tells that nobody has changed them.
fn present(files: &IndexFiles, meta: &IndexMeta) -> Vec<(PathBuf, Stamp)> {
    let stamped = |path: PathBuf| {
        let stamp = Stamp::at(&files.path().join(&path));
        (path, stamp)
    };
    named(meta).map(stamped).collect()
}

fn line(path: &Path, stamp: Stamp) -> String {
    format!("{} {}", hex(&stamp.to_bytes()), path.display())
}

/// Without the note, files are compared again. So it matters little if it cannot be written: on a disk that cannot be
/// written to, for instance.
fn write(files: &IndexFiles, present: &[(PathBuf, Stamp)]) {
    let lines: String = present.iter().map(|(path, stamp)| line(path, *stamp) + "\n").collect();
    let _ = files.atomic_write(Path::new(VERIFIED), lines.as_bytes());
}
