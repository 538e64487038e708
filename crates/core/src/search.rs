//! Full-text search, as far as it needs no index: which text of a document can be searched, which words it is made of,
//! what a query means, and which piece of a text to show.
//!
//! The index is elsewhere. Whoever keeps one feeds it the [`Tokens`] of every [`searchable`] string, and finds by the
//! [`query::Match`]es of a [`Query`].

pub mod highlight;
pub mod query;
pub mod snippet;
pub mod text;
pub mod token;

pub use highlight::HighlightTerms;
pub use query::{Query, QueryError};
pub use snippet::{Snippet, snippet};
pub use text::{Weight, searchable, weight};
pub use token::{Token, Tokens};
