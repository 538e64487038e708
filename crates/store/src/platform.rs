//! What differs between operating systems, each with a portable fallback.

use std::fs::File;
use std::io;

use cap_std::fs::{Dir, OpenOptions};

/// Options to open a file for reading that return at once whatever has its name: a FIFO without a writer would
/// otherwise hang the reader for good.
pub(crate) fn read_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use cap_std::fs::OpenOptionsExt;
        let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
        options.custom_flags(flags.bits().cast_signed());
    }
    options
}

/// Options to create a file that must not exist, with the mode OpenCode's files have.
pub(crate) fn create_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use cap_std::fs::OpenOptionsExt;
        options.mode(0o664);
    }
    options
}

/// Gives `file` the permissions that the file at `path` has, if there is one.
pub(crate) fn keep_permissions(dir: &Dir, path: &str, file: &cap_std::fs::File) -> io::Result<()> {
    match dir.symlink_metadata(path) {
        Ok(metadata) if metadata.is_file() => file.set_permissions(metadata.permissions()),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Makes the entries of a directory durable. Elsewhere than on Unix a directory cannot be synced; there the file
/// system's own journal has to do.
pub(crate) fn sync_dir(dir: &Dir, path: &str) -> io::Result<()> {
    #[cfg(unix)]
    {
        let dir: File = dir.open_dir(path)?.into_std_file();
        dir.sync_all()
    }
    #[cfg(not(unix))]
    {
        let _ = (dir, path);
        Ok(())
    }
}

/// Whether an error says that a file system or file cannot be written to at all.
pub(crate) fn is_read_only(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}
