//! The contents of a home, byte for byte: the files of a directory, the rows of a database. Operations note what they change in these, so
//! that it can be put back exactly.

use std::sync::Arc;

use annals_core::ContentHash;
use annals_core::id::SessionId;

use super::{CommitError, ReadError, Write};

/// One file or row, before and after a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// The path of a file inside the home, or the table and key of a row.
    pub place: String,
    /// The session it belongs to.
    pub session: Option<SessionId>,
    /// The bytes before; `None` if there was nothing.
    pub before: Option<Vec<u8>>,
    /// The bytes after; `None` if there is nothing.
    pub after: Option<Vec<u8>>,
}

/// A file or row to be put back as it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exchange {
    /// The file or row: see [`Piece::place`].
    pub place: String,
    /// The session it belongs to.
    pub session: Option<SessionId>,
    /// The hash of the bytes that must be there now; `None` if nothing must be there.
    pub expected: Option<ContentHash>,
    /// The bytes to put there; `None` removes it.
    pub bytes: Option<Vec<u8>>,
}

/// Callback that notes what a commit is about to change, once all changes are known and before any is made. An error stops the commit.
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
    /// Makes the home note every commit from now on before it is made.
    fn note_commits(&mut self, noter: Noter);

    /// Puts files or rows back as they were, all or none, if each is as expected.
    fn exchange(&self, pieces: &[Exchange]) -> Result<(), CommitError>;

    /// The bytes in these places now.
    fn stored(&self, places: &[&str]) -> Result<Vec<Option<Vec<u8>>>, ReadError>;

    /// Removes what a process that was killed has left in the home beside what it committed.
    fn sweep(&self) {}

    /// The home as a plain [`Write`].
    fn as_write(&self) -> &dyn Write;
}

/// Beginning of the bytes of a row that has a number: see `homes/opencode/database/pieces.rs`.
const NUMBERED: &[u8] = br#"[["rowid",{"i":"#;

/// The hash that tells whether a file or row is as it was; `None` if it is not there. The number of a row does not count: a row that is
/// put back gets another number if its own was taken meanwhile, and nothing refers to the number.
pub(crate) fn hash_of(bytes: Option<&Vec<u8>>) -> Option<ContentHash> {
    bytes.map(|bytes| ContentHash::of(without_number(bytes)))
}

fn without_number(bytes: &[u8]) -> &[u8] {
    let Some(rest) = bytes.strip_prefix(NUMBERED) else { return bytes };
    let end = rest.iter().position(|byte| !byte.is_ascii_digit() && *byte != b'-');
    end.and_then(|end| rest[end..].strip_prefix(b"}],")).unwrap_or(bytes)
}
