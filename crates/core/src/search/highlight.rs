//! Finds the places in a text that match a query.
//!
//! Written by hand, because it has to agree with our own tokens: a phrase over pieces of a compound is a hit, and a word of
//! a phrase is not marked where it occurs outside the phrase.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use super::query::{Match, Query};
use super::token::{Token, TokenCursor};

/// The terms to highlight in a text that was found: see [`Query::highlights`](super::Query::highlights).
///
/// A word of a phrase counts only next to its neighbour in the phrase. That is less than the phrase demands, but it needs
/// only one token of look-behind, and in a text that was found for the phrase it hardly ever makes a difference.
#[derive(Debug, Clone)]
pub struct HighlightTerms {
    /// The number of each word.
    words: HashMap<String, usize>,
    /// Prefixes, sorted, with their numbers. No prefix begins with another, so a token matches at most one.
    prefixes: Vec<(String, usize)>,
    /// For each term number, whether the term counts without a neighbour.
    is_free: Vec<bool>,
    /// Pairs of term numbers that are neighbours in a phrase.
    pairs: HashSet<(usize, usize)>,
    /// Whether any term begins with this byte. Most tokens of a text are skipped by their first byte.
    is_first_byte: [bool; 256],
}

/// A token of a text that matches a term.
#[derive(Debug, Clone, Copy)]
pub(super) struct TermHit {
    /// Number of the term.
    pub(super) number: usize,
    /// Start of the token in the text, in bytes.
    pub(super) from: usize,
    /// End of the token in the text, in bytes.
    pub(super) to: usize,
}

impl Query {
    /// The terms to highlight in a text that was found: everything in the query that is not excluded.
    pub fn highlights(&self) -> HighlightTerms {
        let mut matches = Vec::new();
        self.collect(&mut matches);
        HighlightTerms::new(&matches)
    }

    fn collect(&self, matches: &mut Vec<Match>) {
        match self {
            Query::All(items) | Query::Any(items) => items.iter().for_each(|item| item.collect(matches)),
            Query::Words(words) => matches.extend(words.matches()),
            Query::Not(_) | Query::Filter(_) => {}
        }
    }
}

impl HighlightTerms {
    pub(super) fn new(matches: &[Match]) -> HighlightTerms {
        let mut terms = HighlightTerms {
            words: HashMap::new(),
            prefixes: Vec::new(),
            is_free: Vec::new(),
            pairs: HashSet::new(),
            is_first_byte: [false; 256],
        };
        let mut prefixes: Vec<&str> = matches.iter().filter_map(prefix).collect();
        prefixes.sort_unstable();
        prefixes.dedup_by(|longer, prefix| longer.starts_with(*prefix));
        for prefix in prefixes {
            let number = terms.add(prefix);
            terms.prefixes.push((prefix.to_owned(), number));
        }
        for wanted in matches {
            match wanted {
                Match::Term(word) | Match::Form(word) => {
                    let number = terms.add_word(word);
                    terms.is_free[number] = true;
                }
                Match::Prefix(word) => {
                    if let Some(number) = terms.prefix_of(word) {
                        terms.is_free[number] = true;
                    }
                }
                Match::Phrase(words) => {
                    let numbers: Vec<usize> = words.iter().map(|word| terms.add_word(word)).collect();
                    terms.add_pairs(&numbers);
                }
                Match::PhrasePrefix(words) => {
                    let (last, words) =
                        words.split_last().map_or(("", &[][..]), |(last, words)| (last, words));
                    let mut numbers: Vec<usize> = words.iter().map(|word| terms.add_word(word)).collect();
                    numbers.extend(terms.prefix_of(last));
                    terms.add_pairs(&numbers);
                }
            }
        }
        terms
    }

    /// Whether there is nothing to highlight: the query has only filters.
    pub fn is_empty(&self) -> bool {
        self.is_free.is_empty()
    }

    /// Number of different terms; they are numbered from 0.
    pub(super) fn len(&self) -> usize {
        self.is_free.len()
    }

    /// Calls `found` with the hits in a text, in order of their starts.
    pub(super) fn hits(
        &self,
        text: &str,
        found: &mut dyn FnMut(TermHit) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        // The hits at the position before and at this one, and whether each counts.
        let (mut before, mut here) = (Vec::<(TermHit, bool)>::new(), Vec::<(TermHit, bool)>::new());
        let mut position = 0;
        let mut tokens = TokenCursor::new(text);
        while tokens.advance() {
            let token = tokens.token();
            if token.position != position {
                position = token.position;
                flush(&mut before, found)?;
                std::mem::swap(&mut before, &mut here);
            }
            if !self.is_first_byte[usize::from(token.text.as_bytes()[0])] {
                continue;
            }
            for number in
                [self.words.get(token.text).copied(), self.prefix_of(token.text)].into_iter().flatten()
            {
                let Token { from, to, .. } = token;
                let mut is_counted = self.is_free[number];
                for (neighbour, neighbour_is_counted) in &mut before {
                    if self.pairs.contains(&(neighbour.number, number)) {
                        is_counted = true;
                        *neighbour_is_counted = true;
                    }
                }
                here.push((TermHit { number, from, to }, is_counted));
            }
        }
        flush(&mut before, found)?;
        flush(&mut here, found)
    }

    fn add(&mut self, text: &str) -> usize {
        if let Some(&byte) = text.as_bytes().first() {
            self.is_first_byte[usize::from(byte)] = true;
        }
        self.is_free.push(false);
        self.is_free.len() - 1
    }

    fn add_word(&mut self, word: &str) -> usize {
        if let Some(&number) = self.words.get(word) {
            return number;
        }
        let number = self.add(word);
        self.words.insert(word.to_owned(), number);
        number
    }

    fn add_pairs(&mut self, numbers: &[usize]) {
        self.pairs.extend(numbers.windows(2).map(|pair| (pair[0], pair[1])));
    }

    /// The number of the prefix that a token begins with.
    fn prefix_of(&self, token: &str) -> Option<usize> {
        let after = self.prefixes.partition_point(|(prefix, _)| prefix.as_str() <= token);
        let (prefix, number) = self.prefixes.get(after.checked_sub(1)?)?;
        token.starts_with(prefix.as_str()).then_some(*number)
    }
}

fn prefix(wanted: &Match) -> Option<&str> {
    match wanted {
        Match::Prefix(word) => Some(word),
        Match::PhrasePrefix(words) => words.last().map(String::as_str),
        Match::Term(_) | Match::Form(_) | Match::Phrase(_) => None,
    }
}

fn flush(
    hits: &mut Vec<(TermHit, bool)>,
    found: &mut dyn FnMut(TermHit) -> ControlFlow<()>,
) -> ControlFlow<()> {
    hits.drain(..).filter(|(_, is_counted)| *is_counted).try_for_each(|(hit, _)| found(hit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::query;

    /// The text with its hits in brackets.
    fn check(query: &str, text: &str, expected: &str) {
        let terms = query::parse(query).unwrap().highlights();
        let mut hits: Vec<TermHit> = Vec::new();
        let done = terms.hits(text, &mut |hit| {
            assert!(hits.last().is_none_or(|last| last.from <= hit.from));
            hits.push(hit);
            ControlFlow::Continue(())
        });
        assert!(done.is_continue());
        let mut shown = String::new();
        for (at, c) in text.char_indices().chain([(text.len(), ' ')]) {
            hits.iter().filter(|hit| hit.to == at).for_each(|_| shown.push(']'));
            hits.iter().filter(|hit| hit.from == at).for_each(|_| shown.push('['));
            shown.push(c);
        }
        assert_eq!(shown.trim_end(), expected, "{query}");
    }

    #[test]
    fn words_and_beginnings_are_found() {
        check("error", "Error: no errors", "[Error]: no [errors]");
        check("\"error\"", "Error: no errors", "[Error]: no errors");
        check("errors", "Error: no errors", "[Error]: no [errors]");
        check("err*", "Error: no errors", "[Error]: no [errors]");
        check("err* error", "Error: no errors", "[[Error]]: no [[errors]]");
        check("e* er* error*", "eel error", "[eel] [error]");
        check("user", "getUserName", "get[User]Name");
        check("a OR b", "a b c", "[a] [b] c");
        check("日本", "日本語と日", "[日][本]語と日");
    }

    #[test]
    fn words_of_phrases_need_a_neighbour() {
        check("\"not found\"", "not now: not found, found", "not now: [not] [found], found");
        check("\"not found\" not", "not now: not found", "[not] now: [not] [found]");
        check("src/ma*", "src main src/main.rs", "[src] [main] [src]/[main].rs");
        check("src/ma*", "main src", "main src");
        check("getUserName", "getUserName get_user name get", "[[get][User][Name]] [get]_[user] [name] get");
        check("\"a b c\"", "a b x b c x c", "[a] [b] x [b] [c] x c");
        check("\"b getUser\"", "b getUserName", "[b] [get][User]Name");
    }

    #[test]
    fn exclusions_and_filters_are_not_pointed_out() {
        check("a -b -(c OR d) tool:e", "a b c d e", "[a] b c d e");
        let terms = query::parse("tool:bash").unwrap().highlights();
        assert!(terms.is_empty());
        assert_eq!(terms.len(), 0);
    }
}
