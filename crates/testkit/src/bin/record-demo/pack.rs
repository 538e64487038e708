//! The archive: always the same bytes for the same files.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::Path;

use annals_testkit::files_below;

/// 2026-02-14 00:00 UTC, after the last session.
const MODIFIED: u64 = 1_771_027_200;

/// The contents of an archive, counted.
#[derive(Debug)]
pub(crate) struct Packed {
    n_files: usize,
    n_bytes: u64,
    archive_bytes: u64,
}

impl fmt::Display for Packed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Packed { n_files, n_bytes, archive_bytes } = self;
        write!(f, "{n_files} files, {n_bytes} bytes, packed into {archive_bytes}")
    }
}

/// Packs a directory `storage` under that name.
pub(crate) fn pack(storage: &Path, out: &Path) -> io::Result<Packed> {
    let mut files = files_below(storage);
    files.sort();
    let mut n_bytes = 0;
    let mut encoder = zstd::Encoder::new(File::create(out)?, 19)?;
    encoder.include_checksum(true)?;
    let mut archive = tar::Builder::new(encoder);
    for path in &files {
        let content = fs::read(path)?;
        n_bytes += content.len() as u64;
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        header.set_mtime(MODIFIED);
        let name = path.strip_prefix(storage).expect("it was found below");
        archive.append_data(&mut header, Path::new("storage").join(name), content.as_slice())?;
    }
    archive.into_inner()?.finish()?;
    Ok(Packed { n_files: files.len(), n_bytes, archive_bytes: fs::metadata(out)?.len() })
}
