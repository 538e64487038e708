//! Searching a store: requests, hits, and the text index.

use std::ops::Range;

use annals_core::Key;
use annals_core::id::{MessageId, Millis, PartId, SessionId};
use annals_core::search::LineMatch;
use annals_core::search::query::FilterField;
use annals_core::search::snippet::Snippet;
use regex::Regex;

use crate::home::ReadError;
use crate::query::SessionQuery;

/// A store that can be searched.
pub trait Search: Send + Sync {
    /// Searches the store. Words are looked up in the text index as it is, without bringing it up to date.
    fn search(&self, request: &SearchRequest) -> Result<Hits, SearchError>;

    /// Words in the text index that resemble a word, for a search that found nothing: those in the most documents first.
    fn similar(&self, word: &str, limit: usize) -> Result<Vec<String>, SearchError>;

    /// The values that a filter can have: agents, models or tools that occur, in order. Nothing for other filters.
    fn filter_values(&self, field: FilterField) -> Result<Vec<String>, SearchError>;

    /// Brings the text index up to date, after waiting for any other process that does so. `progress` gets the number of documents done and the
    /// total.
    fn update_index(&self, progress: &(dyn Fn(usize, usize) + Sync)) -> Result<Indexed, SearchError>;

    /// Deletes the text index and builds it again.
    fn rebuild_index(&self, progress: &(dyn Fn(usize, usize) + Sync)) -> Result<Indexed, SearchError>;

    /// Size of the text index on the disk, in bytes. `None` if there is no index.
    fn index_bytes(&self) -> Option<u64>;
}

/// Request for a search: what to search for, and where.
#[derive(Debug, Clone)]
pub struct SearchRequest {
    /// What to search for.
    pub wanted: Wanted,
    /// Only in these sessions. The query's `since` and `until` are about when sessions were last used.
    pub sessions: SessionQuery,
    /// Only in messages made at this time or later.
    pub since: Option<Millis>,
    /// Only in messages made before this time.
    pub until: Option<Millis>,
    /// Filters that all hits must pass, like `role:user` in a query.
    pub filters: Vec<annals_core::search::query::Filter>,
    /// Number of hits to skip.
    pub offset: usize,
    /// Upper bound on the hits to return.
    pub limit: usize,
    /// The current time: recent hits come first among equals.
    pub now: Millis,
    /// Length of a snippet, in characters.
    pub snippet_width: usize,
}

impl SearchRequest {
    /// A request for the first twenty hits in all sessions.
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

/// What to search for.
#[derive(Debug, Clone)]
pub enum Wanted {
    /// Words, in the query language; looked up in the text index.
    Words(annals_core::search::query::Query),
    /// This text, anywhere in a document; reads the documents themselves.
    Substring {
        /// The text.
        text: String,
        /// Whether upper and lower case are the same.
        ignore_case: bool,
    },
    /// A match of this regular expression; reads the documents themselves.
    Regex {
        /// The expression, in the syntax of the crate `regex`.
        pattern: String,
        /// Whether upper and lower case are the same.
        ignore_case: bool,
    },
}

/// Finds what matches in a line of text.
pub type LineFinder = Box<dyn Fn(&str) -> LineMatch>;

impl Wanted {
    /// The regular expression that substrings and expressions are found with; `None` for words.
    pub(crate) fn pattern(&self) -> Result<Option<Regex>, SearchError> {
        let (text, ignore_case) = match self {
            Wanted::Words(_) => return Ok(None),
            Wanted::Substring { text, ignore_case } => (regex::escape(text), *ignore_case),
            Wanted::Regex { pattern, ignore_case } => (pattern.clone(), *ignore_case),
        };
        let mut builder = regex::RegexBuilder::new(&text);
        let pattern = builder.case_insensitive(ignore_case).multi_line(true).build();
        pattern.map(Some).map_err(|error| SearchError::Pattern(error.to_string()))
    }

    /// Finds what matches in single lines.
    pub fn in_lines(&self) -> Result<LineFinder, SearchError> {
        match (self, self.pattern()?) {
            (Wanted::Words(query), _) => {
                let terms = query.highlights();
                Ok(Box::new(move |line| terms.in_line(line)))
            }
            (_, Some(pattern)) => Ok(Box::new(move |line| {
                let ranges: Vec<Range<usize>> = pattern
                    .find_iter(line)
                    .map(|found| found.range())
                    .filter(|range| !range.is_empty())
                    .collect();
                let n_found = ranges.len().min(1);
                (ranges, n_found)
            })),
            (_, None) => Ok(Box::new(|_| (Vec::new(), 0))),
        }
    }
}

/// Hits of a search.
#[derive(Debug, Clone, Default)]
pub struct Hits {
    /// The requested hits, the best first; without the text index, the latest first.
    pub hits: Vec<Hit>,
    /// Number of hits in all.
    pub total: usize,
    /// Number of documents that the text index does not have yet.
    pub unindexed: usize,
}

/// A document that matches.
#[derive(Debug, Clone)]
pub struct Hit {
    /// The session it is in.
    pub session: SessionId,
    /// The session's title.
    pub title: String,
    /// The message it is in; `None` for the session's title.
    pub message: Option<MessageId>,
    /// The part it is in; `None` for text of the message itself.
    pub part: Option<PartId>,
    /// `user` or `assistant`; `None` for a title.
    pub role: Option<String>,
    /// The type of the part, `message` or `title`.
    pub kind: String,
    /// The tool of a tool call.
    pub tool: Option<String>,
    /// When the message was made.
    pub time: Option<Millis>,
    /// Rank of the hit; only comparisons within one search mean something.
    pub score: f32,
    /// The matched text with its surroundings.
    pub snippet: Snippet,
}

impl Hit {
    /// The document that matches, unless it is the session itself.
    pub fn key(&self) -> Option<Key> {
        let message = self.message.clone()?;
        Some(match &self.part {
            Some(part) => Key::Part(self.session.clone(), message, part.clone()),
            None => Key::Message(self.session.clone(), message),
        })
    }
}

/// Error of a search that could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SearchError {
    /// The regular expression is not valid.
    #[error("{0}")]
    Pattern(String),
    /// The filter cannot be used at its place in the query.
    #[error("`{0}` cannot be used inside OR, NOT or parentheses")]
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

/// Report of an update of the text index.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Indexed {
    /// Documents that were added, new or again.
    pub documents: usize,
    /// The revision it has reached.
    pub revision: i64,
}
