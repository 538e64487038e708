//! Files that a copy writes besides documents.

use std::path::Path;

use crate::platform;

/// A file that a copy writes besides documents. Nothing that exists is overwritten, and a file is there whole or not at all.
pub(super) struct NewFile<'f> {
    pub(super) path: &'f Path,
    pub(super) content: FileContent<'f>,
}

/// The content of a file to be written.
pub(super) enum FileContent<'f> {
    Text(&'f str),
    /// The bytes of another file.
    Of(&'f Path),
}

impl NewFile<'_> {
    /// Writes the file. `false` if it exists already.
    pub(super) fn write(&self) -> std::io::Result<bool> {
        let directory = self.path.parent().unwrap_or(Path::new("."));
        platform::create_private_directory(directory)?;
        let mut builder = tempfile::Builder::new();
        // The usual mode of a new file; the umask restricts it as the user wants.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let mut draft = builder.prefix(".annals-").tempfile_in(directory)?;
        match self.content {
            FileContent::Text(text) => std::io::Write::write_all(&mut draft, text.as_bytes())?,
            FileContent::Of(file) => {
                std::io::copy(&mut std::fs::File::open(file)?, &mut draft)?;
                let permissions = std::fs::metadata(file)?.permissions();
                draft.as_file().set_permissions(permissions)?;
            }
        }
        match draft.persist_noclobber(self.path) {
            Ok(_) => Ok(true),
            Err(error) if error.error.kind() == std::io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error.error),
        }
    }
}
