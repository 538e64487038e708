//! The parser of queries.
//!
//! A half-typed query is not an error: an operator without an operand is ignored, and so is a word without letters.
//!
//! Written by hand, because `tantivy-query-grammar` reads pasted text as commands: `foo::bar` and `https://…` as fields,
//! `/usr/bin/` as a regular expression, `[` and `^` as ranges and weights. Its words are not made of our tokens either.

use super::{Filter, FilterField, Query, QueryError, QueryErrorKind, QueryWords};
use crate::search::token::{self, TokenCursor};

/// Parses a query.
///
/// ```
/// use annals_core::search::query;
///
/// let query = query::parse(r#"NOT (draft) AND "parse error" tool:"bash""#)?;
/// assert_eq!(query.to_string(), r#"-draft "parse error" tool:bash"#);
/// assert_eq!(query::parse("-draft").unwrap_err().to_string(), "only exclusions: add a word that must occur");
/// # Ok::<(), query::QueryError>(())
/// ```
pub fn parse(text: &str) -> Result<Query, QueryError> {
    let mut parser = Parser { text, at: 0, group: Group::default(), outer: Vec::new(), terms: 0 };
    parser.run()?;
    let Parser { group, outer, .. } = parser;
    if !outer.is_empty() {
        return Err(error(group.at, QueryErrorKind::OpenParenthesis));
    }
    match group.close()? {
        None => Err(error(0, QueryErrorKind::Nothing)),
        Some((at, query)) if only_excludes(&query) => Err(error(at, QueryErrorKind::OnlyExclusions)),
        Some((_, query)) => Ok(query),
    }
}

/// Whether a character ends a word that is not quoted.
pub(super) fn ends_word(c: char) -> bool {
    c.is_whitespace() || matches!(c, '"' | '(' | ')')
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
    /// The innermost group that is open.
    group: Group,
    /// The groups around it. A list instead of recursion, since the text decides how many there are.
    outer: Vec<Group>,
    terms: usize,
}

impl<'t> Parser<'t> {
    fn run(&mut self) -> Result<(), QueryError> {
        while let Some(c) = self.rest().chars().next() {
            let at = self.at;
            match c {
                '(' => {
                    self.at += 1;
                    if self.outer.len() == QueryErrorKind::MAX_DEPTH {
                        return Err(error(at, QueryErrorKind::TooDeep));
                    }
                    let inner = Group { at, ..Group::default() };
                    self.outer.push(std::mem::replace(&mut self.group, inner));
                }
                ')' => {
                    self.at += 1;
                    let outer = self.outer.pop().ok_or(error(at, QueryErrorKind::UnexpectedParenthesis))?;
                    let inner = std::mem::replace(&mut self.group, outer);
                    let at = inner.at;
                    let query = inner.close()?.map(|(_, query)| query);
                    self.group.operand(at, query)?;
                }
                '"' => {
                    let source = self.quoted()?;
                    let is_prefix = self.rest().starts_with('*');
                    self.at = self.text.len() - self.rest().trim_start_matches('*').len();
                    self.words(at, source, is_prefix, true)?;
                }
                '-' if self.excludes() => {
                    self.at += 1;
                    self.group.negate();
                }
                c if c.is_whitespace() => self.at += c.len_utf8(),
                _ => self.word()?,
            }
        }
        Ok(())
    }

    /// Takes a word that is not quoted, an operator or a filter.
    fn word(&mut self) -> Result<(), QueryError> {
        let at = self.at;
        let word = self.rest();
        let word = &word[..word.find(ends_word).unwrap_or(word.len())];
        self.at += word.len();
        match word {
            "AND" => return Ok(()),
            "OR" => {
                self.group.alternative();
                return Ok(());
            }
            "NOT" => {
                self.group.negate();
                return Ok(());
            }
            _ => {}
        }
        if let Some((name, value)) = word.split_once(':')
            && let Some(field) = FilterField::named(name)
        {
            let value = if value.is_empty() && self.rest().starts_with('"') { self.quoted()? } else { value };
            if !value.is_empty() {
                self.count(at)?;
                let filter = Filter { field, value: value.to_owned() };
                return self.group.operand(at, Some(Query::Filter(filter)));
            }
        }
        let begin = word.trim_end_matches('*');
        let is_prefix = begin.len() < word.len() && begin.ends_with(token::is_word);
        self.words(at, if is_prefix { begin } else { word }, is_prefix, false)
    }

    fn words(&mut self, at: usize, source: &str, is_prefix: bool, is_quoted: bool) -> Result<(), QueryError> {
        let before = self.terms;
        let mut tokens = TokenCursor::new(source);
        while tokens.advance() {
            self.count(at)?;
        }
        let words = QueryWords::new(source, is_prefix, is_quoted);
        self.group.operand(at, (self.terms > before).then_some(Query::Words(words)))
    }

    fn count(&mut self, at: usize) -> Result<(), QueryError> {
        self.terms += 1;
        if self.terms > QueryErrorKind::MAX_TERMS {
            return Err(error(at, QueryErrorKind::TooLong));
        }
        Ok(())
    }

    /// Takes the text between this quotation mark and the next. There is no escape, since many paths end in `\`.
    fn quoted(&mut self) -> Result<&'t str, QueryError> {
        let inside = &self.rest()[1..];
        let len = inside.find('"').ok_or(error(self.at, QueryErrorKind::OpenQuote))?;
        self.at += len + 2;
        Ok(&inside[..len])
    }

    /// Whether the `-` here excludes the next operand. `--verbose` is an option to search for.
    fn excludes(&self) -> bool {
        self.rest()[1..].chars().next().is_some_and(|c| !c.is_whitespace() && !matches!(c, '-' | ')'))
    }

    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }
}

/// The query between two parentheses, or the whole query.
#[derive(Default)]
struct Group {
    /// Where it begins.
    at: usize,
    /// The complete alternatives, and where each begins.
    any: Vec<(usize, Query)>,
    /// The alternative being parsed, and where it begins.
    all: Vec<Query>,
    all_at: usize,
    /// Whether the next operand is to be excluded.
    is_negated: bool,
}

impl Group {
    fn negate(&mut self) {
        self.is_negated = !self.is_negated;
    }

    /// Adds an operand, negated if a `-` or `NOT` came before it; `None`, an operand without words, adds nothing.
    fn operand(&mut self, at: usize, query: Option<Query>) -> Result<(), QueryError> {
        let is_negated = std::mem::take(&mut self.is_negated);
        let Some(mut query) = query else { return Ok(()) };
        if is_negated {
            query = match query {
                Query::Not(query) => *query,
                query if only_excludes(&query) => return Err(error(at, QueryErrorKind::OnlyExclusions)),
                query => Query::Not(Box::new(query)),
            };
        }
        if self.all.is_empty() {
            self.all_at = at;
        }
        match query {
            Query::All(items) => self.all.extend(items),
            query => self.all.push(query),
        }
        Ok(())
    }

    /// Completes an alternative.
    fn alternative(&mut self) {
        self.is_negated = false;
        let mut all = std::mem::take(&mut self.all);
        match if all.len() > 1 { Some(Query::All(all)) } else { all.pop() } {
            None => {}
            Some(Query::Any(items)) => self.any.extend(items.into_iter().map(|item| (self.all_at, item))),
            Some(query) => self.any.push((self.all_at, query)),
        }
    }

    /// The query of the group, if it has one, and where it begins. The query may only exclude: the items beside the group
    /// decide whether that is allowed.
    fn close(mut self) -> Result<Option<(usize, Query)>, QueryError> {
        self.alternative();
        if self.any.len() < 2 {
            return Ok(self.any.pop());
        }
        if let Some(&(at, _)) = self.any.iter().find(|(_, query)| only_excludes(query)) {
            return Err(error(at, QueryErrorKind::OnlyExclusions));
        }
        let at = self.any[0].0;
        Ok(Some((at, Query::Any(self.any.into_iter().map(|(_, query)| query).collect()))))
    }
}

fn only_excludes(query: &Query) -> bool {
    match query {
        Query::Not(_) => true,
        Query::All(items) => items.iter().all(|item| matches!(item, Query::Not(_))),
        Query::Any(_) | Query::Words(_) | Query::Filter(_) => false,
    }
}

fn error(at: usize, kind: QueryErrorKind) -> QueryError {
    QueryError { at, kind }
}
