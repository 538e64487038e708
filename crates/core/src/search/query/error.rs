//! Why a query cannot be searched for.

use thiserror::Error;

/// Why a query cannot be searched for, and where.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{kind}")]
pub struct QueryError {
    /// Where in the query, in bytes.
    pub at: usize,
    /// What is wrong there.
    #[source]
    pub kind: QueryErrorKind,
}

/// What is wrong with a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum QueryErrorKind {
    /// No word and no filter.
    #[error("nothing to search for")]
    Nothing,
    /// No word and no filter that is not excluded, in the query or in an alternative of it.
    #[error("only exclusions: add a word that must occur")]
    OnlyExclusions,
    /// A quotation mark without another.
    #[error("a quotation mark is not closed")]
    OpenQuote,
    /// `(` without `)`.
    #[error("unbalanced (: it is not closed")]
    OpenParenthesis,
    /// `)` without `(`.
    #[error("unbalanced ): nothing is open here")]
    UnexpectedParenthesis,
    /// Parentheses in parentheses, too many.
    #[error("too deep: parentheses may be nested {} times", QueryErrorKind::MAX_DEPTH)]
    TooDeep,
    /// Too many words and filters.
    #[error("too long: a query may have {} words", QueryErrorKind::MAX_TERMS)]
    TooLong,
}

impl QueryErrorKind {
    /// How deep parentheses may be nested.
    pub const MAX_DEPTH: usize = 50;
    /// How many words and filters a query may have.
    pub const MAX_TERMS: usize = 1000;
}
