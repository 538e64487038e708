//! Searching a store: what can be asked, and what is found.

use annals_core::id::{MessageId, Millis, PartId, SessionId};
use annals_core::search::snippet::Snippet;

use crate::home::ReadError;
use crate::query::SessionQuery;

/// A store that can be searched.
pub trait Search: Send + Sync {
    /// Searches. Words are answered from the text index as it is.
    fn search(&self, request: &SearchRequest) -> Result<Hits, SearchError>;

    /// Brings the text index up to date. `progress` is told how many documents of how many are done. While another process does the same, this one
    /// waits.
    fn update_index(&self, progress: &(dyn Fn(usize, usize) + Sync)) -> Result<Indexed, SearchError>;

    /// Throws the text index away and builds it again.
    fn rebuild_index(&self, progress: &(dyn Fn(usize, usize) + Sync)) -> Result<Indexed, SearchError>;

    /// How many bytes the text index takes on the disk. None if there is no index.
    fn index_bytes(&self) -> Option<u64>;
}

/// What is searched for, and where.
#[derive(Debug, Clone)]
pub struct SearchRequest {
    /// What is searched for.
    pub wanted: Wanted,
    /// In which sessions. Its `since` and `until` are about when sessions were last used.
    pub sessions: SessionQuery,
    /// In messages made at this time or later.
    pub since: Option<Millis>,
    /// In messages made before this time.
    pub until: Option<Millis>,
    /// Properties that all hits must have: the same as `role:user` and its like in a query.
    pub filters: Vec<annals_core::search::query::Filter>,
    /// So many hits are left out,
    pub offset: usize,
    /// and so many are given.
    pub limit: usize,
    /// The current time: recent hits come first among equals.
    pub now: Millis,
    /// How long a snippet is, in characters.
    pub snippet_width: usize,
}

impl SearchRequest {
    /// The first twenty hits, wherever they are.
    pub fn new(wanted: Wanted) -> SearchRequest {
        SearchRequest {
            wanted,
            sessions: SessionQuery::default(),
            since: None,
            until: None,
            filters: Vec::new(),
            offset: 0,
            limit: 20,
            now: crate::ids::now(),
            snippet_width: 160,
        }
    }
}

/// What is searched for.
#[derive(Debug, Clone)]
pub enum Wanted {
    /// Words, in the language of queries; answered from the text index.
    Words(annals_core::search::query::Query),
    /// This text, wherever it occurs; the documents themselves are read.
    Substring {
        /// The text.
        text: String,
        /// Whether upper and lower case are the same.
        ignore_case: bool,
    },
    /// What this regular expression matches; the documents themselves are read.
    Regex {
        /// The expression, in the syntax of the crate `regex`.
        pattern: String,
        /// Whether upper and lower case are the same.
        ignore_case: bool,
    },
}

/// What was found.
#[derive(Debug, Clone, Default)]
pub struct Hits {
    /// The hits asked for, the best first; of a scan, the latest first.
    pub hits: Vec<Hit>,
    /// How many there are in all.
    pub total: usize,
    /// How many documents the text index does not know yet.
    pub unindexed: usize,
}

/// Something that was found.
#[derive(Debug, Clone)]
pub struct Hit {
    /// In which session.
    pub session: SessionId,
    /// The session's title.
    pub title: String,
    /// In which message; none if it is the session's title.
    pub message: Option<MessageId>,
    /// In which part; none if it is something that the message itself says.
    pub part: Option<PartId>,
    /// `user`, `assistant`, or nothing for a title.
    pub role: Option<String>,
    /// The type of the part, `message` or `title`.
    pub kind: String,
    /// The tool, of a tool call.
    pub tool: Option<String>,
    /// When the message was made.
    pub time: Option<Millis>,
    /// How good it is; of no meaning in itself.
    pub score: f32,
    /// What was found, in its surroundings.
    pub snippet: Snippet,
}

/// A search could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SearchError {
    /// The regular expression is none.
    #[error("{0}")]
    Pattern(String),
    /// The filter cannot be used where it stands.
    #[error("`{0}` can only stand by itself, not inside OR, NOT or parentheses")]
    Nested(String),
    /// The text index could not be used.
    #[error("the text index {path} cannot be used: {what}")]
    Index {
        /// Where it is.
        path: String,
        /// What went wrong.
        what: String,
    },
    /// The store could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// What was done to the text index.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Indexed {
    /// Documents that were added, again or for the first time.
    pub documents: usize,
    /// The revision it has reached.
    pub revision: i64,
}
