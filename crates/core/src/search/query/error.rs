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
    /// The query, or one of its alternatives, has only excluded words and filters.
    #[error("only exclusions: add a word that must occur")]
    OnlyExclusions,
    /// A quotation mark without a closing one.
    #[error("a quotation mark is not closed")]
    OpenQuote,
    /// `(` without `)`.
    #[error("unbalanced (: it is not closed")]
    OpenParenthesis,
    /// `)` without `(`.
    #[error("unbalanced ): nothing is open here")]
    UnexpectedParenthesis,
    /// Parentheses nested too deep.
    #[error("too deep: parentheses may be nested {} times", QueryErrorKind::MAX_DEPTH)]
    TooDeep,
    /// Too many words and filters.
    #[error("too long: a query may have {} words", QueryErrorKind::MAX_TERMS)]
    TooLong,
}

impl QueryErrorKind {
    /// Limit on the nesting of parentheses.
    pub const MAX_DEPTH: usize = 50;
    /// Limit on the number of words and filters in a query.
    pub const MAX_TERMS: usize = 1000;
}
