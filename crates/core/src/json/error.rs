//! Why a text is not a JSON document, and where.

use std::fmt;

/// The first error in a text, with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonError {
    /// What is wrong.
    pub kind: JsonErrorKind,
    /// Byte offset of the error.
    pub offset: usize,
    /// Line of the error, from 1.
    pub line: usize,
    /// Byte column of the error in its line, from 1.
    pub column: usize,
}

/// The kinds of errors in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum JsonErrorKind {
    /// No bytes, or white space only.
    Empty,
    /// Nothing but NUL bytes.
    OnlyNul,
    /// The bytes are not UTF-8.
    NotUtf8,
    /// The text stops inside something.
    Cut(&'static str),
    /// A character that is not allowed here.
    Unexpected {
        /// What is allowed here.
        wanted: &'static str,
        /// The byte found.
        found: u8,
    },
    /// `\` without a valid escape after it.
    BadEscape,
    /// An unescaped control character inside a string.
    Control(u8),
    /// A malformed number.
    BadNumber,
    /// More text after the document's end.
    Trailing,
    /// Nested deeper than [`crate::json::Tape::MAX_DEPTH`].
    TooDeep,
    /// Longer than [`crate::json::Tape::MAX_BYTES`].
    TooLarge,
}

impl JsonError {
    pub(crate) fn at(kind: JsonErrorKind, bytes: &[u8], offset: usize) -> JsonError {
        let offset = offset.min(bytes.len());
        let before = &bytes[..offset];
        let line_start = memchr::memrchr(b'\n', before).map_or(0, |newline| newline + 1);
        JsonError {
            kind,
            offset,
            line: memchr::memchr_iter(b'\n', before).count() + 1,
            column: offset - line_start + 1,
        }
    }
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            JsonErrorKind::Empty | JsonErrorKind::OnlyNul | JsonErrorKind::TooLarge => self.kind.fmt(f),
            kind => write!(f, "{}:{}: {kind}", self.line, self.column),
        }
    }
}

impl fmt::Display for JsonErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JsonErrorKind::Empty => f.write_str("the document is empty"),
            JsonErrorKind::OnlyNul => {
                f.write_str("the document holds only NUL bytes; its text never reached the disk")
            }
            JsonErrorKind::NotUtf8 => f.write_str("these bytes are not UTF-8"),
            JsonErrorKind::Cut(place) => write!(f, "the text ends inside {place}"),
            JsonErrorKind::Unexpected { wanted, found: found @ 0x21..=0x7e } => {
                write!(f, "expected {wanted}, found `{}`", char::from(*found))
            }
            JsonErrorKind::Unexpected { wanted, found } => {
                write!(f, "expected {wanted}, found byte 0x{found:02x}")
            }
            JsonErrorKind::BadEscape => f.write_str("`\\` is not followed by a JSON escape"),
            JsonErrorKind::Control(byte) => write!(f, "control character 0x{byte:02x} inside a string"),
            JsonErrorKind::BadNumber => f.write_str("this is not a JSON number"),
            JsonErrorKind::Trailing => f.write_str("more text after the end of the document"),
            JsonErrorKind::TooDeep => write!(f, "nested deeper than {} levels", super::Tape::MAX_DEPTH),
            JsonErrorKind::TooLarge => {
                write!(f, "the document is larger than {} MiB", super::Tape::MAX_BYTES >> 20)
            }
        }
    }
}

impl std::error::Error for JsonError {}
