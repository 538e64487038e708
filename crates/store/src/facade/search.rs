//! Full-text search: with the text index of an annals store, or by reading a home.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::SystemTime;

use annals_core::id::{MessageId, SessionId};
use annals_core::search::query::{self, FilterField, Query, QueryError};

use super::scan::SessionScan;
use super::{Session, Store, system_time};
use crate::find::FindError;
use crate::search::{self, Hit, SearchError, SearchRequest, Wanted};
use crate::store;

/// Number of hits fetched from the index at a time.
const PAGE: usize = 50;

/// Why a search failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FindTextError {
    /// The query is not in the language of queries.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// The query names a property of sessions.
    #[error("`{}:` is not available in this search: filter with `sessions()` and compare with the sessions of the hits", field.name())]
    Filter {
        /// Which property.
        field: FilterField,
    },
    /// The index could not be used, or the home could not be read.
    #[error(transparent)]
    Search(#[from] SearchError),
}

/// The hits of a search, one after the other: see [`Store::search`].
///
/// Hits are fetched on demand, so a later one can be an `Err`: a session that could not be read, for instance. Hits in
/// readable sessions follow.
#[derive(Debug)]
pub struct TextHits {
    store: Store,
    way: Way,
}

#[derive(Debug)]
enum Way {
    Indexed { request: Box<SearchRequest>, page: VecDeque<Hit>, is_last: bool },
    Scanned(Box<SessionScan>),
}

impl TextHits {
    pub(super) fn find(store: Store, text: &str) -> Result<TextHits, FindTextError> {
        let query = query::parse(text)?;
        if let Some(field) = session_field(&query) {
            return Err(FindTextError::Filter { field });
        }
        let way = match store.annals() {
            Some(annals) => {
                if !annals.is_read_only() {
                    annals.update_index(&|_, _| ())?;
                }
                let request = SearchRequest { limit: PAGE, ..SearchRequest::new(Wanted::Words(query)) };
                let found = first_page(annals, &request)?;
                let request = Box::new(SearchRequest { offset: PAGE, ..request });
                Way::Indexed { is_last: found.total <= PAGE, request, page: found.hits.into() }
            }
            None => Way::Scanned(Box::new(SessionScan::new(store.sessions(), query))),
        };
        Ok(TextHits { store, way })
    }
}

/// The best hits. A damaged index is rebuilt: everything in it comes from the store.
fn first_page(annals: &dyn store::Store, request: &SearchRequest) -> Result<search::Hits, SearchError> {
    match annals.search(request) {
        Err(SearchError::Index { .. }) if !annals.is_read_only() => {
            annals.rebuild_index(&|_, _| ())?;
            annals.search(request)
        }
        found => found,
    }
}

/// A property of sessions in a query. Neither an index nor a document knows these properties.
fn session_field(query: &Query) -> Option<FilterField> {
    match query {
        Query::All(items) | Query::Any(items) => items.iter().find_map(session_field),
        Query::Not(item) => session_field(item),
        Query::Words(_) => None,
        Query::Filter(filter) => match filter.field {
            FilterField::Role
            | FilterField::Tool
            | FilterField::Type
            | FilterField::Agent
            | FilterField::Model => None,
            field => Some(field),
        },
    }
}

impl Iterator for TextHits {
    type Item = Result<TextHit, SearchError>;

    fn next(&mut self) -> Option<Self::Item> {
        let found = match &mut self.way {
            Way::Scanned(scan) => scan.next()?,
            Way::Indexed { request, page, is_last } => {
                // A page is empty if its documents were deleted since they were indexed.
                while page.is_empty() && !*is_last {
                    match self.store.annals()?.search(request) {
                        Ok(found) => {
                            request.offset += PAGE;
                            *is_last = found.total <= request.offset;
                            page.extend(found.hits);
                        }
                        Err(error) => {
                            *is_last = true;
                            return Some(Err(error));
                        }
                    }
                }
                Ok(page.pop_front()?)
            }
        };
        Some(found.map(|hit| TextHit { store: self.store.clone(), hit }))
    }
}

/// A hit of a search.
#[derive(Debug, Clone)]
pub struct TextHit {
    store: Store,
    hit: Hit,
}

impl TextHit {
    /// The text around the hit: one line, without terminal escape sequences.
    pub fn snippet(&self) -> &str {
        &self.hit.snippet.text
    }

    /// Byte ranges of the matched words in the snippet.
    pub fn highlights(&self) -> &[Range<usize>] {
        &self.hit.snippet.highlights
    }

    /// The title of its session.
    pub fn title(&self) -> &str {
        &self.hit.title
    }

    /// The id of its session.
    pub fn session_id(&self) -> &SessionId {
        &self.hit.session
    }

    /// Its session.
    pub fn session(&self) -> Result<Session, FindError> {
        self.store.session(self.hit.session.as_str())
    }

    /// The message it is in; `None` for a hit in the title of the session.
    pub fn message_id(&self) -> Option<&MessageId> {
        self.hit.message.as_ref()
    }

    /// When its message was made.
    pub fn time(&self) -> Option<SystemTime> {
        self.hit.time.map(system_time)
    }

    /// The hit underneath, with its part, role and tool.
    pub fn hit(&self) -> &Hit {
        &self.hit
    }
}
