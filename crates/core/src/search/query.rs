//! The query language.
//!
//! ```text
//! parse error              both words, anywhere in the text, also as `parsed` and `errors`
//! "parse error"            side by side
//! pars*                    words with this prefix
//! parse OR lex             either; AND binds closer and may be left out
//! parse -test              the first without the second; also NOT test
//! (parse OR lex) error     grouped
//! tool:bash -role:user     only in such parts, not in such messages
//! ```
//!
//! A term of several words, such as `src/main.rs` or `foo::bar`, is searched as a phrase of them; a compound such as
//! `getUserName` also as one word. An unknown filter (`https://…`) is text.

mod error;
mod forms;
mod parse;
#[cfg(test)]
mod tests;

use std::fmt;

pub use error::{QueryError, QueryErrorKind};
pub use parse::parse;

use super::token::{self, TokenCursor};

/// A condition that a text must meet to be found.
///
/// [`parse`] gives the simplest form: no `All` directly in an `All`, no `Any` in an `Any`, no `Not` in a `Not`, and at
/// least two items in `All` and `Any`. A `Not` occurs only in an `All`, beside an item that is not a `Not`: no part of a
/// query only excludes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Query {
    /// All of these.
    All(Vec<Query>),
    /// One of these.
    Any(Vec<Query>),
    /// Not this.
    Not(Box<Query>),
    /// These words.
    Words(QueryWords),
    /// A property other than text.
    Filter(Filter),
}

/// A word, a phrase, or a prefix of either, as typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryWords {
    /// The words without quotation marks and star. Contains no quotation mark and at least one token.
    source: String,
    is_prefix: bool,
    /// Whether a word that has other forms was quoted: then it is found only as it is.
    is_exact: bool,
}

impl QueryWords {
    fn new(source: &str, is_prefix: bool, is_quoted: bool) -> QueryWords {
        let is_exact = is_quoted && !is_prefix && forms::may_vary(source);
        QueryWords { source: source.to_owned(), is_prefix, is_exact }
    }

    /// The words as typed, without quotation marks and star.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Whether the last word is a prefix.
    pub fn is_prefix(&self) -> bool {
        self.is_prefix
    }

    /// The ways an index finds the words; each is a match. A single word that is not quoted is also found in its other forms.
    pub fn matches(&self) -> Vec<Match> {
        let mut words: Vec<String> = Vec::new();
        // An index also holds a compound as a whole, at the position of its first piece. In a longer phrase only the pieces
        // have neighbours.
        let mut whole = None;
        let (mut first_to, mut last_to) = (0, 0);
        let mut tokens = TokenCursor::new(&self.source);
        while tokens.advance() {
            let token = tokens.token();
            if token.position < words.len() {
                let popped = words.pop();
                whole = whole.or(popped.filter(|_| words.is_empty()));
            } else if words.is_empty() {
                first_to = token.to;
            }
            last_to = token.to;
            words.push(token.text.to_owned());
        }
        let whole = whole.filter(|_| last_to <= first_to).map(|whole| vec![whole]);
        let mut matches: Vec<Match> = whole.into_iter().chain([words]).map(|words| self.one(words)).collect();
        if let ([Match::Term(word)], false, true) =
            (&matches[..], self.is_exact, forms::may_vary(&self.source))
        {
            matches.extend(forms::forms(word).into_iter().map(Match::Form).collect::<Vec<_>>());
        }
        matches
    }

    fn one(&self, mut words: Vec<String>) -> Match {
        match (words.len(), self.is_prefix) {
            (0 | 1, false) => Match::Term(words.pop().unwrap_or_default()),
            (0 | 1, true) => Match::Prefix(words.pop().unwrap_or_default()),
            (_, false) => Match::Phrase(words),
            (_, true) => Match::PhrasePrefix(words),
        }
    }

    /// Whether the words can be written without quotation marks and parse back to the same words.
    fn is_plain(&self) -> bool {
        let is_special = |c: char| parse::ends_word(c) || c == '*';
        !self.is_exact
            && !self.source.contains(is_special)
            && !self.source.starts_with('-')
            && !matches!(self.source.as_str(), "AND" | "OR" | "NOT")
            && self.source.split_once(':').is_none_or(|(name, _)| FilterField::named(name).is_none())
            && (!self.is_prefix || self.source.ends_with(token::is_word))
    }
}

/// A way to find words in an index of tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Match {
    /// This token.
    Term(String),
    /// This token, which is another form of the word.
    Form(String),
    /// A token with this prefix.
    Prefix(String),
    /// These tokens at consecutive positions; at least two.
    Phrase(Vec<String>),
    /// These tokens at consecutive positions, the last one a prefix; at least two.
    PhrasePrefix(Vec<String>),
}

impl Query {
    /// Adds the words that must or may occur, in order; not those that are excluded.
    pub fn words(&self, into: &mut Vec<QueryWords>) {
        match self {
            Query::All(items) | Query::Any(items) => items.iter().for_each(|item| item.words(into)),
            Query::Words(words) => into.push(words.clone()),
            Query::Not(_) | Query::Filter(_) => {}
        }
    }
}

/// A property that a search is narrowed by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    /// Which property.
    pub field: FilterField,
    /// Wanted value as typed; never empty. The caller interprets times and directories.
    pub value: String,
}

/// The properties that a search can be narrowed by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FilterField {
    /// Who said it: `role:user`.
    Role,
    /// Name of the tool: `tool:bash`.
    Tool,
    /// Type of the part: `type:reasoning`.
    Type,
    /// The agent: `agent:build`.
    Agent,
    /// The model: `model:claude`.
    Model,
    /// The project: `project:shop`.
    Project,
    /// The directory of the session: `dir:/path`.
    Directory,
    /// No earlier than this: `since:7d`.
    Since,
    /// Earlier than this: `until:2026-01-01`.
    Until,
}

impl FilterField {
    /// All of them.
    pub const ALL: [FilterField; 9] = [
        FilterField::Role,
        FilterField::Tool,
        FilterField::Type,
        FilterField::Agent,
        FilterField::Model,
        FilterField::Project,
        FilterField::Directory,
        FilterField::Since,
        FilterField::Until,
    ];

    /// Its name in a query.
    pub fn name(self) -> &'static str {
        match self {
            FilterField::Role => "role",
            FilterField::Tool => "tool",
            FilterField::Type => "type",
            FilterField::Agent => "agent",
            FilterField::Model => "model",
            FilterField::Project => "project",
            FilterField::Directory => "dir",
            FilterField::Since => "since",
            FilterField::Until => "until",
        }
    }

    /// The field with this name in a query.
    pub fn named(name: &str) -> Option<FilterField> {
        FilterField::ALL.into_iter().find(|field| field.name() == name)
    }
}

/// Formats a query so that it parses back to the same query.
impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Query::All(items) => items.iter().enumerate().try_for_each(|(at, item)| {
                f.write_str(if at > 0 { " " } else { "" })?;
                if let Query::Any(_) = item { write!(f, "({item})") } else { write!(f, "{item}") }
            }),
            Query::Any(items) => items.iter().enumerate().try_for_each(|(at, item)| {
                f.write_str(if at > 0 { " OR " } else { "" })?;
                write!(f, "{item}")
            }),
            Query::Not(item) => match **item {
                Query::All(_) | Query::Any(_) => write!(f, "-({item})"),
                _ => write!(f, "-{item}"),
            },
            Query::Words(words) => {
                let star = if words.is_prefix { "*" } else { "" };
                let source = &words.source;
                if words.is_plain() { write!(f, "{source}{star}") } else { write!(f, "\"{source}\"{star}") }
            }
            Query::Filter(Filter { field, value }) => {
                let name = field.name();
                if value.contains(parse::ends_word) {
                    write!(f, "{name}:\"{value}\"")
                } else {
                    write!(f, "{name}:{value}")
                }
            }
        }
    }
}
