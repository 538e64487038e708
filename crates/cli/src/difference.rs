//! Differences between two states of a document, for people: texts line by line, other members by name.

use std::collections::{HashMap, HashSet};

use annals::model::Document;
use annals::model::json::{Kind, Node};
use similar::{ChangeTag, TextDiff};

use crate::text::{Clock, cut, harmless, one_line};

/// Members below this depth are compared as they are written.
const MAX_DEPTH: usize = 24;
/// Number of unchanged lines that are shown around a change.
const AROUND: usize = 2;
/// Texts of more bytes than this are compared line by line, and shown values are cut to this many columns.
const SHORT: usize = 60;

/// A line of a difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DiffLine {
    /// The name of a member whose text follows.
    Member(String),
    /// A member with its old and new value.
    Became(String),
    Added(String),
    Removed(String),
    Same(String),
    /// A mark for unchanged lines that are not shown.
    Left,
}

/// The differences between two states of a document, including members that OpenCode keeps for itself.
pub(crate) fn lines(before: &Document, after: &Document, clock: &Clock) -> Vec<DiffLine> {
    let (before, after) = (members(before), members(after));
    let old: HashMap<&str, &Leaf> = before.iter().map(|(path, leaf)| (path.as_str(), leaf)).collect();
    let new: HashSet<&str> = after.iter().map(|(path, _)| path.as_str()).collect();
    let mut lines = Vec::new();
    for (path, leaf) in &before {
        if !new.contains(path.as_str()) {
            lines.push(DiffLine::Removed(format!("{}: {}", one_line(path), leaf.shown(path, clock))));
        }
    }
    for (path, leaf) in &after {
        match old.get(path.as_str()) {
            Some(old) if *old == leaf => {}
            Some(Leaf::Text(old))
                if let Leaf::Text(new) = leaf
                    && (is_long(old) || is_long(new)) =>
            {
                lines.push(DiffLine::Member(format!("{}:", one_line(path))));
                lines.extend(text_lines(old, new));
            }
            Some(old) => lines.push(DiffLine::Became(format!(
                "{}: {} → {}",
                one_line(path),
                old.shown(path, clock),
                leaf.shown(path, clock)
            ))),
            None => lines.push(DiffLine::Added(format!("{}: {}", one_line(path), leaf.shown(path, clock)))),
        }
    }
    lines
}

/// The differences between two texts line by line, with unchanged lines around each.
pub(crate) fn text_lines(before: &str, after: &str) -> Vec<DiffLine> {
    let (before, after) = (harmless(before), harmless(after));
    let diff = TextDiff::from_lines(&*before, &*after);
    let mut lines = Vec::new();
    for (n, group) in diff.grouped_ops(AROUND).iter().enumerate() {
        if n > 0 {
            lines.push(DiffLine::Left);
        }
        for change in group.iter().flat_map(|operation| diff.iter_changes(operation)) {
            let text = change.value().trim_end_matches('\n').to_owned();
            lines.push(match change.tag() {
                ChangeTag::Insert => DiffLine::Added(text),
                ChangeTag::Delete => DiffLine::Removed(text),
                ChangeTag::Equal => DiffLine::Same(text),
            });
        }
    }
    lines
}

/// The value at the end of a path.
#[derive(Debug, PartialEq, Eq)]
enum Leaf {
    Text(String),
    /// Anything else, as it is written.
    Written(String),
}

impl Leaf {
    fn shown(&self, path: &str, clock: &Clock) -> String {
        match self {
            Leaf::Text(text) => format!("\"{}\"", cut(&one_line(text), SHORT)),
            Leaf::Written(text) => match text.parse::<i64>() {
                // All times are in objects of that name.
                Ok(millis) if path.split('.').rev().nth(1) == Some("time") && millis > 1_000_000_000_000 => {
                    format!("{} {}", clock.date(millis), clock.time(millis))
                }
                _ => cut(&one_line(text), SHORT).into_owned(),
            },
        }
    }
}

fn is_long(text: &str) -> bool {
    text.len() > SHORT || text.contains('\n')
}

/// Every member of a document with its path, in order.
fn members(document: &Document) -> Vec<(String, Leaf)> {
    let mut found = Vec::new();
    collect(document.root(), String::new(), 0, &mut found);
    found
}

fn collect(node: Node<'_>, path: String, depth: usize, found: &mut Vec<(String, Leaf)>) {
    let below = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    match node.kind() {
        Kind::Object if depth < MAX_DEPTH && node.members().next().is_some() => {
            for (name, member) in node.members() {
                collect(member, below(&name.to_str()), depth + 1, found);
            }
        }
        Kind::Array if depth < MAX_DEPTH && node.items().next().is_some() => {
            for (n, item) in node.items().enumerate() {
                collect(item, format!("{path}[{n}]"), depth + 1, found);
            }
        }
        _ => found.push((
            path,
            match node.as_text() {
                Some(text) => Leaf::Text(text.to_str().into_owned()),
                None => Leaf::Written(node.raw().to_owned()),
            },
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_named_and_texts_compared_by_line() {
        let clock = Clock::in_zone(0, jiff::tz::TimeZone::UTC);
        let check = |before: &str, after: &str, expected: &[DiffLine]| {
            let [before, after] = [before, after].map(|text| Document::parse(text.into()).unwrap());
            assert_eq!(lines(&before, &after, &clock), expected);
        };
        check(r#"{"a":1}"#, r#"{ "a": 1 }"#, &[]);
        check(
            r#"{"title":"Old","x":true}"#,
            r#"{"title":"New","time":{"archived":1772020980000}}"#,
            &[
                DiffLine::Removed("x: true".into()),
                DiffLine::Became("title: \"Old\" → \"New\"".into()),
                DiffLine::Added("time.archived: 2026-02-25 12:03:00".into()),
            ],
        );
        check(
            r#"{"text":"one\ntwo\nthree\nfour\nfive\nsix"}"#,
            r#"{"text":"one\ntwo\nthree\nfour\nfive!\nsix"}"#,
            &[
                DiffLine::Member("text:".into()),
                DiffLine::Same("three".into()),
                DiffLine::Same("four".into()),
                DiffLine::Removed("five".into()),
                DiffLine::Added("five!".into()),
                DiffLine::Same("six".into()),
            ],
        );
        check(r#"{"a":"\u001b[2Jx"}"#, r#"{"a":"y"}"#, &[DiffLine::Became("a: \"x\" → \"y\"".into())]);
        let deep = |inner: &str| format!("{}{inner}{}", "[".repeat(5000), "]".repeat(5000));
        let [before, after] = ["1", "2"].map(|inner| Document::parse(deep(inner).into_bytes()).unwrap());
        assert_eq!(lines(&before, &after, &clock).len(), 1);
    }
}
