//! Files as they are, for operations that can be taken back.

use std::io;
use std::time::Duration;

use annals_core::id::SessionId;
use annals_core::{Change, Key};

use super::commit::{Committer, FileEdit, LOCK_PATIENCE};
use super::journal;
use super::layout::{Layout, flat_path};
use super::{OpencodeDirectory, Root};
use crate::home::pieces::{Exchange, Noter, Piece, Undo, hash_of};
use crate::home::{CommitError, ConflictKind, ReadError, UnreadableReason, Write};

impl Undo for OpencodeDirectory {
    fn note_commits(&mut self, noter: Noter) {
        self.noter = Some(noter);
    }

    fn exchange(&self, pieces: &[Exchange]) -> Result<(), CommitError> {
        let Some(root) = self.flat() else {
            return Err(CommitError::Unsupported(format!("{} is only read", self.path.display())));
        };
        let committer = Committer { files: &root.files };
        let _lock = committer.lock(LOCK_PATIENCE)?;
        committer.recover_or_fail()?;
        let mut noted = Vec::new();
        for piece in pieces {
            let current = self.current(&piece.place)?;
            if hash_of(current.as_ref()) != piece.expected {
                return Err(changed(&piece.place, current.is_some(), piece));
            }
            noted.push(Piece {
                place: piece.place.clone(),
                session: piece.session.clone(),
                before: current,
                after: piece.bytes.clone(),
            });
        }
        if let Some(note) = &self.noter {
            note.note(&noted)?;
        }
        let (own, older): (Vec<&Exchange>, Vec<&Exchange>) =
            pieces.iter().partition(|piece| piece.place.starts_with(&root.prefix));
        let mut edits: Vec<FileEdit<'_>> = own
            .iter()
            .map(|piece| FileEdit {
                path: piece.place[root.prefix.len()..].to_owned(),
                bytes: piece.bytes.as_deref(),
            })
            .collect();
        edits.sort_by_key(FileEdit::order);
        committer.commit("take back an operation", &edits)?;
        for piece in older {
            self.write_older(piece).map_err(|source| CommitError::Unfinished {
                path: self.path.join(&piece.place).display().to_string(),
                source,
            })?;
        }
        Ok(())
    }

    fn stored(&self, places: &[&str]) -> Result<Vec<Option<Vec<u8>>>, ReadError> {
        let read = |place: &&str| {
            self.current(place).map_err(|error| ReadError::Io {
                path: self.path.join(place).display().to_string(),
                source: io::Error::other(error),
            })
        };
        places.iter().map(read).collect()
    }

    fn sweep(&self) {
        let Some(root) = self.flat() else { return };
        let committer = Committer { files: &root.files };
        if !root.files.dir.is_dir(journal::DIRECTORY) {
            return;
        }
        // If somebody is at work, or nothing can be written, the next commit does it.
        if let Ok(_lock) = committer.lock(Duration::ZERO) {
            let _ = committer.recover_or_fail();
        }
    }

    fn as_write(&self) -> &dyn Write {
        self
    }
}

impl OpencodeDirectory {
    /// What a transaction is about to change.
    pub(super) fn pieces(&self, root: &Root, changes: &[Change]) -> Result<Vec<Piece>, CommitError> {
        let mut pieces = Vec::new();
        for change in changes {
            let place = [&root.prefix, &flat_path(&change.key)[..]].concat();
            let before = self.current(&place)?;
            let after = change.document().map(|document| document.bytes().to_vec());
            if before != after {
                pieces.push(Piece { place, session: change.key.session().cloned(), before, after });
            }
            if let (Key::Session(_, session), true) = (&change.key, change.is_deletion()) {
                pieces.extend(self.older_pieces(session)?);
            }
        }
        Ok(pieces)
    }

    /// What the older layouts hold of a session that is about to be deleted.
    fn older_pieces(&self, session: &SessionId) -> Result<Vec<Piece>, CommitError> {
        let mut pieces = Vec::new();
        for root in self.roots.iter().filter(|root| root.layout != Layout::Flat) {
            let paths = match &root.layout {
                Layout::PerSession => vec![format!("session/{session}")],
                _ => vec![
                    format!("session/info/{session}.json"),
                    format!("session/message/{session}"),
                    format!("session/part/{session}"),
                ],
            };
            for path in paths {
                for file in files_below(root, &path) {
                    let place = [&root.prefix, &file[..]].concat();
                    let before = self.current(&place)?;
                    pieces.push(Piece { place, session: Some(session.clone()), before, after: None });
                }
            }
        }
        Ok(pieces)
    }

    /// The bytes in a place, whatever they are.
    fn current(&self, place: &str) -> Result<Option<Vec<u8>>, CommitError> {
        let root = self
            .roots
            .iter()
            .filter(|root| place.starts_with(&root.prefix))
            .max_by_key(|root| (root.prefix.len(), root.layout == Layout::Flat));
        let Some(root) = root else { return Ok(None) };
        match root.files.bytes(&place[root.prefix.len()..]) {
            Ok(bytes) => Ok(bytes),
            Err(reason) => Err(CommitError::Failed {
                path: self.path.join(place).display().to_string(),
                source: io::Error::other(match reason {
                    UnreadableReason::Refused(what) => what,
                    reason => reason.to_string(),
                }),
            }),
        }
    }

    fn write_older(&self, piece: &Exchange) -> io::Result<()> {
        let root = self.roots.iter().find(|root| {
            root.layout != Layout::Flat && piece.place.starts_with(&root.prefix) && !root.prefix.is_empty()
        });
        let Some(root) = root else { return Err(io::ErrorKind::NotFound.into()) };
        let path = &piece.place[root.prefix.len()..];
        match &piece.bytes {
            Some(bytes) => {
                if let Some((directory, _)) = path.rsplit_once('/') {
                    root.files.dir.create_dir_all(directory)?;
                }
                root.files.dir.write(path, bytes)
            }
            None => root.files.dir.remove_file(path),
        }
    }
}

/// The files at or below a path.
pub(super) fn files_below(root: &Root, path: &str) -> Vec<String> {
    let Ok(entries) = root.files.dir.read_dir(path) else {
        return root.files.dir.is_file(path).then(|| path.to_owned()).into_iter().collect();
    };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    names.flat_map(|name| files_below(root, &format!("{path}/{name}"))).collect()
}

/// The conflict of a piece that is not as the operation left it.
fn changed(place: &str, is_there: bool, piece: &Exchange) -> CommitError {
    let what = match (is_there, piece.expected) {
        (false, _) => ConflictKind::Gone,
        (true, None) => ConflictKind::Exists,
        (true, Some(_)) => ConflictKind::Changed,
    };
    CommitError::Altered { place: place.to_owned(), session: piece.session.clone(), what }
}
