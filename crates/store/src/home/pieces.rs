//! What a home stores, byte for byte: the files of a directory, the rows of a database. Operations note what they change in these, so
//! that it can be put back exactly.

use std::sync::Arc;

use annals_core::ContentHash;
use annals_core::id::SessionId;

use super::{CommitError, ReadError, Write};

/// One stored thing, before and after a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// Which: the path of a file inside the home, or the table and key of a row.
    pub place: String,
    /// The session it belongs to.
    pub session: Option<SessionId>,
    /// What was there; none if there was nothing.
    pub before: Option<Vec<u8>>,
    /// What is there now; none if there is nothing.
    pub after: Option<Vec<u8>>,
}

/// A stored thing that is to become what it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exchange {
    /// Which.
    pub place: String,
    /// The session it belongs to.
    pub session: Option<SessionId>,
    /// The hash of what must be there; none if nothing must be.
    pub expected: Option<ContentHash>,
    /// What it becomes; none removes it.
    pub bytes: Option<Vec<u8>>,
}

/// Told what a commit is about to change, when all of it is known and nothing is changed yet. An error stops the commit.
#[derive(Clone)]
pub struct Noter(Arc<NoteFn>);

type NoteFn = dyn Fn(&[Piece]) -> Result<(), CommitError> + Send + Sync;

impl Noter {
    /// A noter that calls a function.
    pub fn new(note: impl Fn(&[Piece]) -> Result<(), CommitError> + Send + Sync + 'static) -> Noter {
        Noter(Arc::new(note))
    }

    /// Notes what is about to change.
    pub(crate) fn note(&self, pieces: &[Piece]) -> Result<(), CommitError> {
        (self.0)(pieces)
    }
}

impl std::fmt::Debug for Noter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Noter")
    }
}

/// A home whose changes can be noted and taken back byte for byte.
pub trait Undo: Write {
    /// Has every commit from now on noted before it is made.
    fn note_commits(&mut self, noter: Noter);

    /// Makes stored things what they were, all or none, provided each is as expected.
    fn exchange(&self, pieces: &[Exchange]) -> Result<(), CommitError>;

    /// What is stored in places now.
    fn stored(&self, places: &[&str]) -> Result<Vec<Option<Vec<u8>>>, ReadError>;

    /// The home as one whose writes cannot be taken back here.
    fn as_write(&self) -> &dyn Write;
}

/// The place of files that an operation made beside homes, by their whole paths.
pub(crate) const FILES: &str = "files";

/// Files by their whole paths, as what can be put back.
pub(crate) mod files {
    use std::io;
    use std::path::Path;

    use super::{Exchange, hash_of};
    use crate::home::{CommitError, ConflictKind};

    /// What is in files now.
    pub(crate) fn stored(places: &[&str]) -> Vec<Option<Vec<u8>>> {
        places.iter().map(|place| std::fs::read(place).ok()).collect()
    }

    /// Makes files what they were, provided each is as expected.
    pub(crate) fn exchange(pieces: &[Exchange]) -> Result<(), CommitError> {
        for piece in pieces {
            let current = std::fs::read(&piece.place).ok();
            if hash_of(current.as_ref()) != piece.expected {
                let (place, session) = (piece.place.clone(), None);
                return Err(CommitError::Altered { place, session, what: ConflictKind::Changed });
            }
            let path = Path::new(&piece.place);
            let done = match &piece.bytes {
                Some(bytes) => std::fs::write(path, bytes),
                None => match std::fs::remove_file(path) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                    removed => removed,
                },
            };
            done.map_err(|source| CommitError::Failed { path: piece.place.clone(), source })?;
        }
        Ok(())
    }
}

/// How the bytes of a row begin that has a number: see `homes/opencode/database/pieces.rs`.
const NUMBERED: &[u8] = br#"[["rowid",{"i":"#;

/// The hash that tells whether something is as it was, if it is there. The number of a row does not count: a row that comes back gets
/// another one where its own was taken meanwhile, and nothing refers to it.
pub(crate) fn hash_of(bytes: Option<&Vec<u8>>) -> Option<ContentHash> {
    bytes.map(|bytes| ContentHash::of(without_number(bytes)))
}

fn without_number(bytes: &[u8]) -> &[u8] {
    let Some(rest) = bytes.strip_prefix(NUMBERED) else { return bytes };
    let end = rest.iter().position(|byte| !byte.is_ascii_digit() && *byte != b'-');
    end.and_then(|end| rest[end..].strip_prefix(b"}],")).unwrap_or(bytes)
}
