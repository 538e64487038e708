//! The line of a text that was found, with the lines around it.

use std::ops::{ControlFlow, Range};

use super::highlight::HighlightTerms;
use super::text::searchable;
use crate::{Document, Key};

/// Limit on the bytes of a text that are searched for the line.
const MAX_BYTES: usize = 4 << 20;
/// Limit on the characters of a line that are given.
const MAX_LINE: usize = 500;

/// A line of a text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContextLine {
    /// The line, without its end.
    pub text: String,
    /// Byte ranges of what was found in it; sorted, and none touches another.
    pub highlights: Vec<Range<usize>>,
}

/// The ranges of a line that match, and how much the line shows of what was searched for.
pub type LineMatch = (Vec<Range<usize>>, usize);

/// The line of a document that shows best why it was found, with up to `n` lines before and after it. `found` looks at a
/// line. Empty if nothing of the document matches.
pub fn context_of(
    key: &Key,
    document: &Document,
    n: usize,
    found: &dyn Fn(&str) -> LineMatch,
) -> Vec<ContextLine> {
    let mut best: (usize, Vec<ContextLine>) = (0, Vec::new());
    searchable(key, document, &mut |text| {
        let text = &text[..text.floor_char_boundary(MAX_BYTES)];
        let lines: Vec<&str> = text.lines().collect();
        let shown = lines.iter().map(|line| found(line).1);
        // The first of equals, so only more counts.
        let Some((at, worth)) = shown.enumerate().max_by_key(|(at, worth)| (*worth, std::cmp::Reverse(*at)))
        else {
            return;
        };
        if worth > best.0 {
            let around = &lines[at.saturating_sub(n)..(at + n + 1).min(lines.len())];
            best = (worth, around.iter().map(|line| context_line(line, found)).collect());
        }
    });
    best.1
}

/// A line that is too long is cut around what was found first.
fn context_line(line: &str, found: &dyn Fn(&str) -> LineMatch) -> ContextLine {
    let line = line.trim_end();
    let highlights = found(line).0;
    let first = highlights.first().map_or(0, |range| range.start);
    let begin = match line.chars().nth(MAX_LINE) {
        Some(_) => line[..first].char_indices().rev().nth(MAX_LINE / 4).map_or(0, |(at, _)| at),
        None => 0,
    };
    let end = line[begin..].char_indices().nth(MAX_LINE).map_or(line.len(), |(at, _)| begin + at);
    let [before, after] = [begin > 0, end < line.len()].map(|is_cut| if is_cut { "…" } else { "" });
    let shift = |at: usize| at - begin + before.len();
    let is_shown = |range: &Range<usize>| range.start >= begin && range.end <= end;
    ContextLine {
        text: format!("{before}{}{after}", &line[begin..end]),
        highlights: highlights
            .into_iter()
            .filter(is_shown)
            .map(|range| shift(range.start)..shift(range.end))
            .collect(),
    }
}

impl HighlightTerms {
    /// The ranges of a line that match, and the number of different terms among them.
    pub fn in_line(&self, line: &str) -> LineMatch {
        let mut ranges: Vec<Range<usize>> = Vec::new();
        let mut terms: Vec<usize> = Vec::new();
        let _ = self.hits(line, &mut |hit| {
            if !terms.contains(&hit.number) {
                terms.push(hit.number);
            }
            match ranges.last_mut() {
                Some(last) if hit.from <= last.end => last.end = last.end.max(hit.to),
                _ => ranges.push(hit.from..hit.to),
            }
            ControlFlow::Continue(())
        });
        (ranges, terms.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{MessageId, PartId, SessionId};
    use crate::search::query;

    #[test]
    fn the_best_line_is_shown_with_its_neighbours() {
        let text = r#"{"type":"text","text":"one\ntwo carts\nthe empty cart\nfour\nan empty line"}"#;
        let document = Document::parse(text.as_bytes().to_vec()).unwrap();
        let session = SessionId::parse("ses_1").unwrap();
        let (message, part) = (MessageId::parse("msg_1").unwrap(), PartId::parse("prt_1").unwrap());
        let key = Key::Part(session, message, part);
        let terms = query::parse("empty cart").unwrap().highlights();
        let lines = context_of(&key, &document, 1, &|line| terms.in_line(line));
        let texts: Vec<&str> = lines.iter().map(|line| line.text.as_str()).collect();
        assert_eq!(texts, ["two carts", "the empty cart", "four"]);
        let marked = |line: &ContextLine| -> Vec<String> {
            line.highlights.iter().map(|range| line.text[range.clone()].to_owned()).collect()
        };
        assert_eq!(marked(&lines[0]), ["carts"]);
        assert_eq!(marked(&lines[1]), ["empty", "cart"]);
        assert!(context_of(&key, &document, 1, &|_| (Vec::new(), 0)).is_empty());
    }

    #[test]
    fn a_long_line_is_cut_around_what_was_found() {
        let terms = query::parse("needle").unwrap().highlights();
        let line = format!("{} needle {}", "é".repeat(3000), "x".repeat(3000));
        let shown = context_line(&line, &|line| terms.in_line(line));
        assert!(shown.text.starts_with("…é") && shown.text.ends_with("x…"), "{}", shown.text);
        assert!(shown.text.chars().count() <= MAX_LINE + 2);
        assert_eq!(shown.highlights.len(), 1);
        assert_eq!(&shown.text[shown.highlights[0].clone()], "needle");
        let short = context_line("a needle in a short line ", &|line| terms.in_line(line));
        assert_eq!(short.text, "a needle in a short line");
        assert_eq!(short.highlights.first(), Some(&(2..8)));
    }
}
