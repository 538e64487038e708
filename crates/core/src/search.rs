//! The parts of full-text search that need no index: the searchable text of a document, its tokens, the query language, and
//! snippets.
//!
//! The index is elsewhere. It holds the tokens ([`TokenCursor`]) of every [`searchable`] string and is asked for the
//! [`query::Match`]es of a [`Query`].

pub mod context;
pub mod highlight;
pub mod query;
pub mod snippet;
pub mod text;
pub mod token;

pub use context::{ContextLine, LineMatch, context_of};
pub use highlight::HighlightTerms;
pub use query::{Query, QueryError};
pub use snippet::{Snippet, snippet};
pub use text::{Weight, searchable, weight};
pub use token::{Token, TokenCursor};
