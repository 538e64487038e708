//! Export formats: the files a conversation can be exported to and imported from.

pub mod jsonl;
pub mod opencode;

use crate::document::{Document, Key};
use crate::id::IdError;
use crate::json::JsonError;

/// Sessions read from a file, ready to be stored.
#[derive(Debug, Clone)]
pub struct Imported {
    /// Every document, the session's own among them.
    pub documents: Vec<(Key, Document)>,
}

/// Why a file could not be read as an export.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// The file is not JSON.
    #[error("{0}")]
    Json(JsonError),
    /// A line of the file is not JSON.
    #[error("line {line}: {error}")]
    JsonLine {
        /// Which line, from 1.
        line: usize,
        /// What is wrong with it.
        error: JsonError,
    },
    /// The file is JSON, but a field of an export is missing or of another type.
    #[error("{place} {what}")]
    Shape {
        /// Where.
        place: String,
        /// What is wrong there.
        what: String,
    },
    /// An id in the file is not valid.
    #[error("{place}: {error}")]
    Id {
        /// Where.
        place: String,
        /// What is wrong with it.
        error: IdError,
    },
}

impl ImportError {
    fn shape(place: impl Into<String>, what: impl Into<String>) -> ImportError {
        ImportError::Shape { place: place.into(), what: what.into() }
    }
}
