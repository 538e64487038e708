//! Snippets: the piece of a text that shows why it was found.
//!
//! Written by hand, because tantivy's `SnippetGenerator` marks single words anywhere and counts bytes. Here a word of a
//! phrase is marked only beside its neighbours, prefixes are marked too, columns are counted, and no index is needed.
//! Terminal escape sequences are recognised exactly as in the tokenizer, so that hits stay in place.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::ops::{ControlFlow, Range};

use super::highlight::{HighlightTerms, TermHit};
use super::text::searchable;
use super::token;
use crate::{Document, Key};

/// A piece of a text in one line: runs of white space are one space, and terminal escape sequences are removed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Snippet {
    /// The piece.
    pub text: String,
    /// Byte ranges of the matched words in `text`; sorted, and none touches another.
    pub highlights: Vec<Range<usize>>,
    /// Whether there is text before the piece.
    pub is_cut_before: bool,
    /// Whether there is text after the piece.
    pub is_cut_after: bool,
    /// Number of different terms in the piece.
    pub distinct: usize,
    /// Number of hits in the piece.
    pub hits: usize,
}

/// Limit on the bytes of a text that are searched for a snippet.
const MAX_BYTES: usize = 4 << 20;

/// Limit on the width of a snippet, in characters.
const MAX_WIDTH: usize = 100_000;

/// The piece of a text, about `width` characters long, with the most different terms. Among such pieces it is the one with
/// the most hits, and among those the first. In a text without hits it is the beginning.
///
/// ```
/// use annals_core::search::{query, snippet};
///
/// let terms = query::parse("user")?.highlights();
/// let found = snippet("It begins.\n\nThen it calls getUserName and ends. There is more.", &terms, 30);
/// assert_eq!(found.text, "it calls getUserName and ends.");
/// assert_eq!(&found.text[found.highlights[0].clone()], "User");
/// # Ok::<(), query::QueryError>(())
/// ```
pub fn snippet(text: &str, terms: &HighlightTerms, width: usize) -> Snippet {
    let width = width.clamp(1, MAX_WIDTH);
    let looked_at = &text[..text.floor_char_boundary(MAX_BYTES)];
    let best = densest(looked_at, terms, width);
    let shown = around(looked_at, &best.range, width);
    let hits = hits_within(looked_at, terms, &shown);
    let (line, highlights) = in_one_line(looked_at, &shown, &hits);
    Snippet {
        text: line,
        highlights,
        is_cut_before: text[..shown.start].contains(is_visible),
        is_cut_after: text[shown.end..].contains(is_visible),
        distinct: best.distinct,
        hits: best.hits,
    }
}

/// The snippet of the searchable string of a document with the most different terms; `None` if it has no searchable string.
pub fn of_document(key: &Key, document: &Document, terms: &HighlightTerms, width: usize) -> Option<Snippet> {
    let mut best: Option<Snippet> = None;
    searchable(key, document, &mut |text| {
        let other = snippet(text, terms, width);
        if best.as_ref().is_none_or(|best| (best.distinct, best.hits) < (other.distinct, other.hits)) {
            best = Some(other);
        }
    });
    best
}

/// A stretch of text from the beginning of its first hit to the end of its last.
#[derive(Default)]
struct HitStretch {
    range: Range<usize>,
    distinct: usize,
    hits: usize,
}

/// The best stretch that is no wider than `width`.
fn densest(text: &str, terms: &HighlightTerms, width: usize) -> HitStretch {
    let mut best = HitStretch::default();
    // The hits of the stretch that ends here, with the columns they begin at, and the number of hits of each term.
    let mut stretch: VecDeque<(usize, TermHit)> = VecDeque::new();
    let mut counts = vec![0_usize; terms.len()];
    let mut distinct = 0;
    // Not always the end of the last hit: the whole of a compound comes before its pieces.
    let mut to = 0;
    let mut ruler = Ruler::default();
    let _ = terms.hits(text, &mut |hit| {
        let column = ruler.column(text, hit.from);
        let end = column + text[hit.from..hit.to].chars().count();
        to = to.max(hit.to);
        stretch.push_back((column, hit));
        distinct += usize::from(counts[hit.number] == 0);
        counts[hit.number] += 1;
        while stretch.len() > 1
            && let Some((_, first)) = stretch.pop_front_if(|(column, _)| end - *column > width)
        {
            counts[first.number] -= 1;
            distinct -= usize::from(counts[first.number] == 0);
        }
        if (best.distinct, best.hits) < (distinct, stretch.len()) {
            let from = stretch.front().map_or(hit.from, |(_, first)| first.from);
            best = HitStretch { range: from..to, distinct, hits: stretch.len() };
        }
        ControlFlow::Continue(())
    });
    best
}

/// The range of a text to show: a stretch and about as much on either side as fits in `width`, cut between words.
fn around(text: &str, stretch: &Range<usize>, width: usize) -> Range<usize> {
    let columns = |from: usize, to: usize| Ruler { at: from, ..Ruler::default() }.column(text, to);
    let spare = width.saturating_sub(columns(stretch.start, stretch.end));
    let mut start = whole_words_from(text, back(text, stretch.start, spare / 2).0, stretch.start);
    // Columns that one side does not need go to the other.
    let (end, after) = forward(text, stretch.end, spare.saturating_sub(columns(start, stretch.start)));
    if end == text.len() {
        start = whole_words_from(text, back(text, stretch.start, spare - after).0, stretch.start);
    }
    start..whole_words_to(text, end, stretch.end)
}

/// Where the first whole word after `start` begins, if that is before `limit`.
fn whole_words_from(text: &str, start: usize, limit: usize) -> usize {
    let between = &text[start..limit];
    let after = |cut: usize| start + between.ceil_char_boundary(cut + 1);
    if text[..start].ends_with(is_visible)
        && let Some(space) = between.find(|c| !is_visible(c))
    {
        return after(space);
    }
    if text[..start].ends_with(token::is_word)
        && let Some(separator) = between.find(|c| !token::is_word(c))
    {
        return after(separator);
    }
    start
}

/// Where the last whole word before `end` ends, if that is after `limit`.
fn whole_words_to(text: &str, end: usize, limit: usize) -> usize {
    let between = &text[limit..end];
    if text[end..].starts_with(is_visible)
        && let Some(space) = between.rfind(|c| !is_visible(c))
    {
        return limit + space;
    }
    if text[end..].starts_with(token::is_word)
        && let Some(separator) = between.rfind(|c| !token::is_word(c))
    {
        return limit + between.ceil_char_boundary(separator + 1);
    }
    end
}

/// Byte ranges of the hits in a piece of a text; hits that touch are merged.
fn hits_within(text: &str, terms: &HighlightTerms, shown: &Range<usize>) -> Vec<Range<usize>> {
    // The text around the piece decides what its first and last words are. Starting at white space shortly before the piece
    // avoids going over the whole text again, and leaves a neighbour for the first word.
    const NEAR: usize = 1024;
    let near = text.floor_char_boundary(shown.start.saturating_sub(NEAR));
    let from = text[near..shown.start].find(char::is_whitespace).map_or(0, |space| near + space);
    let to = text.ceil_char_boundary(shown.end + NEAR);
    let mut merged = Vec::new();
    let _ = terms.hits(&text[from..to], &mut |hit| {
        let hit = from + hit.from..from + hit.to;
        if hit.start >= shown.end {
            return ControlFlow::Break(());
        }
        if hit.start >= shown.start && hit.end <= shown.end {
            add(&mut merged, hit);
        }
        ControlFlow::Continue(())
    });
    merged
}

/// Adds a range that does not begin before the others, and merges it with the last if they touch.
fn add(ranges: &mut Vec<Range<usize>>, range: Range<usize>) {
    match ranges.last_mut() {
        Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
        _ => ranges.push(range),
    }
}

/// A piece of a text as one line, with the ranges of the hits in that line.
fn in_one_line(text: &str, shown: &Range<usize>, hits: &[Range<usize>]) -> (String, Vec<Range<usize>>) {
    let mut line = String::with_capacity(shown.len());
    let mut highlights = Vec::with_capacity(hits.len());
    let mut hits = hits.iter().peekable();
    let mut hit_from = None;
    let mut is_after_space = false;
    let mut at = shown.start;
    while let Some(c) = text[at..shown.end].chars().next() {
        if c == '\u{1b}' {
            at += token::control_sequence(&text.as_bytes()[at..shown.end]);
            continue;
        }
        if is_visible(c) {
            if is_after_space && !line.is_empty() {
                line.push(' ');
            }
            is_after_space = false;
            if hits.peek().is_some_and(|hit| hit.start == at) {
                hit_from = Some(line.len());
            }
            line.push(c);
        } else if !is_direction(c) {
            is_after_space = true;
        }
        at += c.len_utf8();
        if hits.next_if(|hit| hit.end <= at).is_some()
            && let Some(from) = hit_from.take()
        {
            add(&mut highlights, from..line.len());
        }
    }
    (line, highlights)
}

/// Counts the columns of a text shown in one line.
#[derive(Default)]
struct Ruler {
    at: usize,
    column: usize,
    is_after_space: bool,
}

impl Ruler {
    /// The column of an offset, which must not be before that of the last call.
    fn column(&mut self, text: &str, at: usize) -> usize {
        for c in text[self.at..at].chars() {
            let is_visible = is_visible(c);
            self.column += usize::from(is_visible || !self.is_after_space);
            self.is_after_space = !is_visible;
        }
        self.at = at;
        self.column
    }
}

/// The offset that is `columns` columns after another, or the end of the text, and the number of columns between.
fn forward(text: &str, from: usize, columns: usize) -> (usize, usize) {
    let chars = text[from..].char_indices().map(|(at, c)| (from + at + c.len_utf8(), c));
    walk(chars, from, columns)
}

/// The offset that is `columns` columns before another, or the start of the text, and the number of columns between.
fn back(text: &str, from: usize, columns: usize) -> (usize, usize) {
    walk(text[..from].char_indices().rev(), from, columns)
}

/// Walks over characters, each with the offset on its far side.
fn walk(chars: impl Iterator<Item = (usize, char)>, from: usize, columns: usize) -> (usize, usize) {
    let (mut place, mut used, mut is_after_space) = (from, 0, false);
    for (at, c) in chars {
        let is_visible = is_visible(c);
        if is_visible || !is_after_space {
            if used == columns {
                break;
            }
            used += 1;
        }
        is_after_space = !is_visible;
        place = at;
    }
    (place, used)
}

fn is_visible(c: char) -> bool {
    !c.is_whitespace() && !c.is_control() && !is_direction(c)
}

/// Whether a character is an invisible mark: one that changes the direction of its line, or does nothing.
fn is_direction(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}
