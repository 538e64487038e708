//! Verified files of the text index: those that are known to hold what was written to them.
//!
//! tantivy trusts its files, and may panic where one is damaged. Each file ends with a checksum. Comparing all checksums
//! before each search would take longer than the search. So a note lists the files that were compared, with a stamp that
//! tells whether a file has changed since. Only files that are new or have changed are read.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use tantivy::Index;
use tantivy::directory::Directory;
use tantivy::index::IndexMeta;

use super::files::{IndexFiles, VERIFIED, named};
use crate::ids::hex;
use crate::platform::Stamp;

/// Lower bound on the length of a file: tantivy's footer takes more than this, and tantivy panics if there is less.
const SHORTEST: u64 = 8;

/// Which files are compared with their checksums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum VerifyScope {
    All,
    /// Files that are new or have changed since they were compared.
    Changed,
}

/// Compares the files that a commit names with their checksums. The error says which file is damaged.
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

/// Notes that the files that a commit names are intact. Called after writing or comparing them.
pub(super) fn note(files: &IndexFiles, meta: &IndexMeta) {
    write(files, &present(files, meta));
}

/// The files that a commit names, with the stamps that tell whether they have changed.
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

/// Writes the note. Without it, files are compared again, so it matters little if it cannot be written: on a read-only
/// disk, for instance.
fn write(files: &IndexFiles, present: &[(PathBuf, Stamp)]) {
    let lines: String = present.iter().map(|(path, stamp)| line(path, *stamp) + "\n").collect();
    let _ = files.atomic_write(Path::new(VERIFIED), lines.as_bytes());
}
