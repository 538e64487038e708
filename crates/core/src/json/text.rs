//! A JSON string in the form its document has it.

use std::borrow::Cow;
use std::fmt;

/// A string, borrowed from its document or made in Rust.
///
/// JavaScript strings are UTF-16 and may hold half a surrogate pair, which no Rust string can. A `Text` from a
/// document therefore keeps the escaped form and decodes when asked: [`Text::to_str`] for reading (a lone surrogate
/// becomes U+FFFD), [`Text::to_wtf8`] where two texts must be told apart exactly.
#[derive(Clone)]
pub struct Text<'a>(TextForm<'a>);

#[derive(Clone)]
enum TextForm<'a> {
    Plain(Cow<'a, str>),
    /// The text between the quotes, with at least one `\`. Checked by the scanner, or made here.
    Escaped(Cow<'a, str>),
}

impl<'a> Text<'a> {
    /// A text from between the quotes of a scanned string.
    pub(super) fn from_scanned(inner: &'a str) -> Text<'a> {
        if memchr::memchr(b'\\', inner.as_bytes()).is_some() {
            Text(TextForm::Escaped(Cow::Borrowed(inner)))
        } else {
            Text(TextForm::Plain(Cow::Borrowed(inner)))
        }
    }

    /// The text for reading, a lone surrogate shown as U+FFFD.
    pub fn to_str(&self) -> Cow<'a, str> {
        match &self.0 {
            TextForm::Plain(plain) => plain.clone(),
            TextForm::Escaped(escaped) => {
                let mut decoded = String::with_capacity(escaped.len());
                for unit in Units(escaped) {
                    match unit {
                        Unit::Run(run) => decoded.push_str(run),
                        Unit::Char(c) => decoded.push(c),
                        Unit::Surrogate(_) => decoded.push(char::REPLACEMENT_CHARACTER),
                    }
                }
                Cow::Owned(decoded)
            }
        }
    }

    /// The text exactly: UTF-8, with lone surrogates in the three bytes UTF-8 would use if it allowed them.
    pub fn to_wtf8(&self) -> Cow<'_, [u8]> {
        match &self.0 {
            TextForm::Plain(plain) => Cow::Borrowed(plain.as_bytes()),
            TextForm::Escaped(escaped) => {
                let mut decoded = Vec::with_capacity(escaped.len());
                for unit in Units(escaped) {
                    match unit {
                        Unit::Run(run) => decoded.extend_from_slice(run.as_bytes()),
                        Unit::Char(c) => decoded.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
                        Unit::Surrogate(unit) => decoded.extend_from_slice(&[
                            0xed,
                            0x80 | (unit >> 6 & 0x3f) as u8,
                            0x80 | (unit & 0x3f) as u8,
                        ]),
                    }
                }
                Cow::Owned(decoded)
            }
        }
    }

    /// This text, owned.
    pub fn into_owned(self) -> Text<'static> {
        match self.0 {
            TextForm::Plain(plain) => Text(TextForm::Plain(Cow::Owned(plain.into_owned()))),
            TextForm::Escaped(_) => Text(TextForm::Plain(Cow::Owned(self.to_str().into_owned()))),
        }
    }

    /// Texts one after the other, with a separator between them. Half surrogate pairs that meet become one character, as in
    /// JavaScript.
    pub fn joined(texts: &[Text<'_>], separator: &str) -> Text<'static> {
        let is_plain = texts.iter().all(|text| matches!(text.0, TextForm::Plain(_)));
        let mut joined = String::new();
        for (place, text) in texts.iter().enumerate() {
            if place > 0 {
                push_form(&mut joined, separator, is_plain);
            }
            match &text.0 {
                TextForm::Plain(plain) => push_form(&mut joined, plain, is_plain),
                TextForm::Escaped(escaped) => joined.push_str(escaped),
            }
        }
        Text(if is_plain {
            TextForm::Plain(Cow::Owned(joined))
        } else {
            TextForm::Escaped(Cow::Owned(joined))
        })
    }

    /// The text's UTF-16 units, as JavaScript has it.
    pub fn to_utf16(&self) -> Vec<u16> {
        match &self.0 {
            TextForm::Plain(plain) => plain.encode_utf16().collect(),
            TextForm::Escaped(escaped) => {
                let mut units = Vec::with_capacity(escaped.len());
                for unit in Units(escaped) {
                    match unit {
                        Unit::Run(run) => units.extend(run.encode_utf16()),
                        Unit::Char(c) => units.extend_from_slice(c.encode_utf16(&mut [0; 2])),
                        Unit::Surrogate(unit) => units.push(unit),
                    }
                }
                units
            }
        }
    }

    /// The text with these UTF-16 units, half surrogate pairs included.
    pub fn from_utf16(units: &[u16]) -> Text<'static> {
        if let Ok(plain) = String::from_utf16(units) {
            return Text::from(plain);
        }
        let mut escaped = String::with_capacity(units.len());
        for unit in char::decode_utf16(units.iter().copied()) {
            match unit {
                Ok('\\') => escaped.push_str("\\\\"),
                Ok(c) => escaped.push(c),
                Err(lone) => escaped.push_str(&format!("\\u{:04x}", lone.unpaired_surrogate())),
            }
        }
        Text(TextForm::Escaped(Cow::Owned(escaped)))
    }

    /// The text without white space at both ends, as JavaScript's `trim` gives it.
    pub fn trimmed(&self) -> Text<'a> {
        if let TextForm::Plain(Cow::Borrowed(plain)) = &self.0 {
            return Text::from(plain.trim_matches(is_js_space));
        }
        let units = self.to_utf16();
        let is_space = |unit: &u16| char::from_u32(u32::from(*unit)).is_some_and(is_js_space);
        let Some(first) = units.iter().position(|unit| !is_space(unit)) else { return Text::from("") };
        let end = units.iter().rposition(|unit| !is_space(unit)).map_or(0, |last| last + 1);
        Text::from_utf16(&units[first..end])
    }

    /// Whether nothing is left of the text when it is [trimmed](Text::trimmed).
    pub fn is_blank(&self) -> bool {
        self.to_str().chars().all(is_js_space)
    }

    /// Length in UTF-16 units: what JavaScript calls `length`.
    pub fn utf16_len(&self) -> usize {
        match &self.0 {
            TextForm::Plain(plain) => plain.encode_utf16().count(),
            TextForm::Escaped(escaped) => Units(escaped)
                .map(|unit| match unit {
                    Unit::Run(run) => run.encode_utf16().count(),
                    Unit::Char(c) => c.len_utf16(),
                    Unit::Surrogate(_) => 1,
                })
                .sum(),
        }
    }

    /// Whether the text has no characters.
    pub fn is_empty(&self) -> bool {
        match &self.0 {
            TextForm::Plain(plain) => plain.is_empty(),
            TextForm::Escaped(_) => false,
        }
    }

    /// Writes the text as `JSON.stringify` would, quotes included.
    pub(super) fn write_js(&self, out: &mut Vec<u8>) {
        out.push(b'"');
        match &self.0 {
            TextForm::Plain(plain) => write_run(plain, out),
            TextForm::Escaped(escaped) => {
                for unit in Units(escaped) {
                    match unit {
                        Unit::Run(run) => write_run(run, out),
                        Unit::Char(c) => write_run(c.encode_utf8(&mut [0; 4]), out),
                        Unit::Surrogate(unit) => out.extend_from_slice(format!("\\u{unit:04x}").as_bytes()),
                    }
                }
            }
        }
        out.push(b'"');
    }
}

/// Adds characters to a text in its plain or its escaped form.
fn push_form(joined: &mut String, plain: &str, is_plain: bool) {
    if is_plain || !plain.contains('\\') {
        joined.push_str(plain);
    } else {
        joined.push_str(&plain.replace('\\', "\\\\"));
    }
}

/// What JavaScript trims: it also removes the byte order mark, and not the next-line character.
pub fn is_js_space(c: char) -> bool {
    (c.is_whitespace() && c != '\u{85}') || c == '\u{feff}'
}

/// Writes characters with the escapes JavaScript uses, and no others.
fn write_run(run: &str, out: &mut Vec<u8>) {
    let bytes = run.as_bytes();
    let mut plain_from = 0;
    for (at, &byte) in bytes.iter().enumerate() {
        let escape: &[u8] = match byte {
            b'"' => b"\\\"",
            b'\\' => b"\\\\",
            0x20.. => continue,
            0x08 => b"\\b",
            b'\t' => b"\\t",
            b'\n' => b"\\n",
            0x0c => b"\\f",
            b'\r' => b"\\r",
            control => {
                out.extend_from_slice(&bytes[plain_from..at]);
                out.extend_from_slice(format!("\\u{control:04x}").as_bytes());
                plain_from = at + 1;
                continue;
            }
        };
        out.extend_from_slice(&bytes[plain_from..at]);
        out.extend_from_slice(escape);
        plain_from = at + 1;
    }
    out.extend_from_slice(&bytes[plain_from..]);
}

/// The pieces of an escaped string: runs without escapes, and the decoded escapes.
struct Units<'a>(&'a str);

enum Unit<'a> {
    Run(&'a str),
    Char(char),
    Surrogate(u16),
}

impl<'a> Iterator for Units<'a> {
    type Item = Unit<'a>;

    fn next(&mut self) -> Option<Unit<'a>> {
        if self.0.is_empty() {
            return None;
        }
        let run = memchr::memchr(b'\\', self.0.as_bytes()).unwrap_or(self.0.len());
        if run > 0 {
            let (head, tail) = self.0.split_at(run);
            self.0 = tail;
            return Some(Unit::Run(head));
        }
        let escape = self.0.as_bytes().get(1).copied().unwrap_or(b'\\');
        if escape != b'u' {
            self.0 = self.0.get(2..).unwrap_or("");
            return Some(Unit::Char(match escape {
                b'b' => '\u{8}',
                b'f' => '\u{c}',
                b'n' => '\n',
                b'r' => '\r',
                b't' => '\t',
                other => char::from(other),
            }));
        }
        let first = code_unit(self.0);
        self.0 = self.0.get(6..).unwrap_or("");
        if let 0xd800..=0xdbff = first
            && self.0.starts_with("\\u")
            && let low @ 0xdc00..=0xdfff = code_unit(self.0)
        {
            self.0 = self.0.get(6..).unwrap_or("");
            let pair = 0x10000 + ((u32::from(first) & 0x3ff) << 10 | u32::from(low) & 0x3ff);
            return Some(Unit::Char(char::from_u32(pair).unwrap_or(char::REPLACEMENT_CHARACTER)));
        }
        Some(match char::from_u32(u32::from(first)) {
            Some(c) => Unit::Char(c),
            None => Unit::Surrogate(first),
        })
    }
}

/// The four hexadecimal digits after `\u`, which the scanner has checked.
fn code_unit(escaped: &str) -> u16 {
    escaped.get(2..6).and_then(|digits| u16::from_str_radix(digits, 16).ok()).unwrap_or(0xfffd)
}

impl<'a> From<&'a str> for Text<'a> {
    fn from(text: &'a str) -> Text<'a> {
        Text(TextForm::Plain(Cow::Borrowed(text)))
    }
}

impl From<String> for Text<'_> {
    fn from(text: String) -> Self {
        Text(TextForm::Plain(Cow::Owned(text)))
    }
}

impl PartialEq for Text<'_> {
    fn eq(&self, other: &Text<'_>) -> bool {
        self.to_wtf8() == other.to_wtf8()
    }
}

impl Eq for Text<'_> {}

impl PartialEq<str> for Text<'_> {
    fn eq(&self, other: &str) -> bool {
        *self.to_wtf8() == *other.as_bytes()
    }
}

impl PartialEq<&str> for Text<'_> {
    fn eq(&self, other: &&str) -> bool {
        self == *other
    }
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.to_str())
    }
}

impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.to_str(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{Node, Tape};

    /// The text of a JSON string.
    fn text<'a>(json: &'a str, tape: &'a Tape) -> Text<'a> {
        Node::root(json, tape).as_text().unwrap()
    }

    fn written(text: &Text<'_>) -> String {
        let mut out = Vec::new();
        text.write_js(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn joined_texts_keep_half_pairs_and_make_whole_ones() {
        let strings = [r#""a\ud83d""#, r#""\ude00\ud83d""#];
        let tapes = strings.each_ref().map(|json| Tape::scan(json).unwrap());
        let [first, second] = [text(strings[0], &tapes[0]), text(strings[1], &tapes[1])];
        let plain = Text::from("C:\\");
        assert_eq!(written(&Text::joined(&[first.clone(), second.clone()], "")), r#""a😀\ud83d""#);
        assert_eq!(written(&Text::joined(&[plain.clone(), first], "-")), r#""C:\\-a\ud83d""#);
        assert_eq!(written(&Text::joined(&[plain.clone(), plain], "\n")), r#""C:\\\nC:\\""#);
        assert!(Text::joined(&[], "x").is_empty());
    }

    #[test]
    fn utf16_units_survive_both_ways() {
        for json in [r#""""#, r#""a\\b\n""#, r#""\ud83d""#, r#""😀\udc00\\x""#] {
            let tape = Tape::scan(json).unwrap();
            let text = text(json, &tape);
            let again = Text::from_utf16(&text.to_utf16());
            assert_eq!(again, text);
            assert_eq!(written(&again), json);
        }
        // A cut in the middle of a pair leaves half of it.
        let cut = Text::from_utf16(&Text::from("a😀").to_utf16()[..2]);
        assert_eq!(written(&cut), r#""a\ud83d""#);
    }

    #[test]
    fn trimming_is_javascripts() {
        for (json, trimmed) in [
            (r#"" a b \n""#, "a b"),
            (r#""\ufeff\u3000a\u0085""#, "a\u{85}"),
            (r#"" \t\n""#, ""),
            (r#""x""#, "x"),
        ] {
            let tape = Tape::scan(json).unwrap();
            let text = text(json, &tape);
            assert_eq!(text.trimmed(), trimmed);
            assert_eq!(text.is_blank(), trimmed.is_empty());
        }
        assert_eq!(Text::from(" a ".to_owned()).trimmed(), "a");
    }
}
