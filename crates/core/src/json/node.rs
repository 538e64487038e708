//! A value inside a scanned text; lenses read through it.

use super::tape::TapeEntry;
use super::{Tape, Text};

/// One value of a scanned text, with everything in it. Copying it copies three words.
#[derive(Debug, Clone, Copy)]
pub struct Node<'a> {
    text: &'a str,
    entries: &'a [TapeEntry],
    index: u32,
}

/// The kind of a [`Node`]'s value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are JSON's own")]
pub enum Kind {
    Object,
    Array,
    String,
    Number,
    Bool,
    Null,
}

impl Kind {
    /// The kind with its article, for messages.
    pub fn with_article(self) -> &'static str {
        match self {
            Kind::Object => "an object",
            Kind::Array => "an array",
            Kind::String => "a string",
            Kind::Number => "a number",
            Kind::Bool => "a boolean",
            Kind::Null => "null",
        }
    }
}

impl<'a> Node<'a> {
    /// The outermost value of `text`. `tape` must come from [`Tape::scan`] of the same text.
    pub fn root(text: &'a str, tape: &'a Tape) -> Node<'a> {
        Node { text, entries: &tape.entries, index: 0 }
    }

    /// The kind of this value.
    pub fn kind(self) -> Kind {
        match self.text.as_bytes()[self.entry().start as usize] {
            b'{' => Kind::Object,
            b'[' => Kind::Array,
            b'"' => Kind::String,
            b't' | b'f' => Kind::Bool,
            b'n' => Kind::Null,
            _ => Kind::Number,
        }
    }

    /// The value's own text, byte for byte.
    pub fn raw(self) -> &'a str {
        &self.text[self.range()]
    }

    /// Byte range of the value in the document's text.
    pub fn range(self) -> std::ops::Range<usize> {
        let entry = self.entry();
        entry.start as usize..entry.end as usize
    }

    /// The value of a member, by key. The last of several duplicates counts, as in JavaScript.
    pub fn get(self, key: &str) -> Option<Node<'a>> {
        self.members().filter(|(name, _)| name == key).map(|(_, value)| value).last()
    }

    /// The value at the end of a chain of keys.
    pub fn at(self, path: &[&str]) -> Option<Node<'a>> {
        path.iter().try_fold(self, |node, key| node.get(key))
    }

    /// The members of an object in text order, duplicates included; nothing for any other kind.
    pub fn members(self) -> Members<'a> {
        self.contents(Kind::Object)
    }

    /// The items of an array in order; nothing for any other kind.
    pub fn items(self) -> Items<'a> {
        let Members { node, index, end } = self.contents(Kind::Array);
        Items { node, index, end }
    }

    fn contents(self, kind: Kind) -> Members<'a> {
        let end = if self.kind() == kind { self.entry().next } else { 0 };
        Members { node: self, index: self.index + 1, end }
    }

    /// The text of a string.
    pub fn as_text(self) -> Option<Text<'a>> {
        (self.kind() == Kind::String).then(|| self.text_unchecked())
    }

    /// A number as JavaScript sees it (beyond `f64` it is infinite).
    pub fn as_f64(self) -> Option<f64> {
        (self.kind() == Kind::Number).then(|| self.raw().parse().unwrap_or(f64::NAN))
    }

    /// A boolean.
    pub fn as_bool(self) -> Option<bool> {
        (self.kind() == Kind::Bool).then(|| self.raw() == "true")
    }

    /// Whether the value is `null`.
    pub fn is_null(self) -> bool {
        self.kind() == Kind::Null
    }

    fn text_unchecked(self) -> Text<'a> {
        let range = self.range();
        Text::from_scanned(&self.text[range.start + 1..range.end - 1])
    }

    fn entry(self) -> TapeEntry {
        self.entries[self.index as usize]
    }
}

/// The members of an object: see [`Node::members`].
#[derive(Debug, Clone)]
pub struct Members<'a> {
    node: Node<'a>,
    index: u32,
    end: u32,
}

impl<'a> Members<'a> {
    /// The next key and value, the key as a node.
    pub fn next_nodes(&mut self) -> Option<(Node<'a>, Node<'a>)> {
        if self.index >= self.end {
            return None;
        }
        let key = Node { index: self.index, ..self.node };
        let value = Node { index: self.index + 1, ..self.node };
        self.index = value.entry().next;
        Some((key, value))
    }
}

impl<'a> Iterator for Members<'a> {
    type Item = (Text<'a>, Node<'a>);

    fn next(&mut self) -> Option<(Text<'a>, Node<'a>)> {
        self.next_nodes().map(|(key, value)| (key.text_unchecked(), value))
    }
}

/// The items of an array: see [`Node::items`].
#[derive(Debug, Clone)]
pub struct Items<'a> {
    node: Node<'a>,
    index: u32,
    end: u32,
}

impl<'a> Iterator for Items<'a> {
    type Item = Node<'a>;

    fn next(&mut self) -> Option<Node<'a>> {
        if self.index >= self.end {
            return None;
        }
        let item = Node { index: self.index, ..self.node };
        self.index = item.entry().next;
        Some(item)
    }
}
