//! Writes JSON as `JSON.stringify` does: indentation, forms of numbers and strings, order of keys. A verbatim writer changes
//! only the indentation.

use std::collections::HashMap;

use super::node::{Items, Members};
use super::{Kind, Node, Text};

/// Deepest level that is still indented. Each level costs two spaces on every line below it: 100,000 brackets would
/// otherwise become 20 GB.
const MAX_INDENTED: usize = 200;

/// The two layouts OpenCode writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// `JSON.stringify(value)`.
    Compact,
    /// `JSON.stringify(value, null, 2)`.
    Pretty,
}

/// A value that can be written in JavaScript's form.
pub trait ToJs {
    /// Writes the value.
    fn write_js(&self, writer: &mut JsWriter);

    /// Whether the value is `undefined`, so that it is left out as a member.
    fn is_absent(&self) -> bool {
        false
    }
}

/// Writes JSON text in JavaScript's form.
#[derive(Debug)]
pub struct JsWriter {
    out: Vec<u8>,
    style: Style,
    depth: usize,
    /// For each open container, whether it already has a member.
    filled: Vec<bool>,
    form: NodeForm,
}

/// The form in which [`JsWriter::node`] writes a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NodeForm {
    /// The output of `JSON.stringify(JSON.parse(…))`.
    JavaScript,
    /// One text for all texts of the same value: members are sorted by key.
    Canonical,
    /// The same tokens in the same order.
    Verbatim,
}

impl JsWriter {
    /// A writer whose text starts at nesting level `depth` of some document.
    pub fn new(style: Style, depth: usize) -> JsWriter {
        JsWriter { out: Vec::new(), style, depth, filled: Vec::new(), form: NodeForm::JavaScript }
    }

    /// A writer whose [`JsWriter::node`] changes only the layout and keeps every token.
    pub fn verbatim(style: Style, depth: usize) -> JsWriter {
        JsWriter { form: NodeForm::Verbatim, ..JsWriter::new(style, depth) }
    }

    /// `value` as a whole document.
    pub fn document(style: Style, value: &dyn ToJs) -> Vec<u8> {
        let mut writer = JsWriter::new(style, 0);
        value.write_js(&mut writer);
        writer.finish()
    }

    /// One text for all texts of the same value.
    pub(super) fn canonical(node: Node<'_>) -> Vec<u8> {
        let mut writer = JsWriter { form: NodeForm::Canonical, ..JsWriter::new(Style::Compact, 0) };
        writer.node(node);
        writer.finish()
    }

    /// The text written.
    pub fn finish(self) -> Vec<u8> {
        self.out
    }

    /// Takes the text written so far, so that a long document can be passed on in pieces.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }

    /// Writes an object whose members `fill` writes with [`JsWriter::member`].
    pub fn object(&mut self, fill: impl FnOnce(&mut JsWriter)) {
        self.begin(b'{');
        fill(self);
        self.end(b'}');
    }

    /// Writes an array whose items `fill` writes with [`JsWriter::item`].
    pub fn array(&mut self, fill: impl FnOnce(&mut JsWriter)) {
        self.begin(b'[');
        fill(self);
        self.end(b']');
    }

    /// Opens an object or array (`{` or `[`) that [`JsWriter::end`] closes, for documents too long to write in one go.
    pub fn begin(&mut self, opening: u8) {
        self.out.push(opening);
        self.depth += 1;
        self.filled.push(false);
    }

    /// Closes the innermost open object or array with its bracket.
    pub fn end(&mut self, closing: u8) {
        self.depth -= 1;
        if self.filled.pop() == Some(true) {
            self.line();
        }
        self.out.push(closing);
    }

    /// Writes one member, or nothing if the value is absent.
    pub fn member(&mut self, key: &str, value: &(impl ToJs + ?Sized)) {
        if !value.is_absent() {
            self.key(key);
            value.write_js(self);
        }
    }

    /// Starts a member whose value is written next.
    pub fn key(&mut self, key: &str) {
        self.key_text(&Text::from(key));
    }

    /// Starts a member whose value is written next.
    pub fn key_text(&mut self, key: &Text<'_>) {
        self.separate();
        self.text(key);
        self.colon();
    }

    /// Writes a member of another document: see [`JsWriter::node`].
    pub fn member_node(&mut self, key: Node<'_>, value: Node<'_>) {
        self.key_node(key);
        self.node(value);
    }

    fn key_node(&mut self, key: Node<'_>) {
        self.separate();
        self.string_token(key);
        self.colon();
    }

    /// Starts an item whose value is written next.
    pub fn next_item(&mut self) {
        self.separate();
    }

    /// Writes one item.
    pub fn item(&mut self, value: &(impl ToJs + ?Sized)) {
        self.separate();
        value.write_js(self);
    }

    /// Writes JSON text unchanged.
    pub fn raw(&mut self, json: &str) {
        self.out.extend_from_slice(json.as_bytes());
    }

    /// Writes a string.
    pub fn text(&mut self, text: &Text<'_>) {
        text.write_js(&mut self.out);
    }

    /// Writes a number; NaN and infinity become `null`, as in JavaScript.
    pub fn number(&mut self, number: f64) {
        if number.is_finite() {
            self.out.extend_from_slice(ryu_js::Buffer::new().format_finite(number).as_bytes());
        } else {
            self.out.extend_from_slice(b"null");
        }
    }

    /// Writes `true` or `false`.
    pub fn bool(&mut self, value: bool) {
        self.out.extend_from_slice(if value { b"true" } else { b"false" });
    }

    /// Writes a value of another document as `JSON.stringify(JSON.parse(…))` would: keys that look like array indices come
    /// first, the last of several duplicates takes the place of the first, numbers and escapes get their normal form. A
    /// [verbatim](JsWriter::verbatim) writer changes none of these.
    ///
    /// Iterative, because a stored value may nest deeper than any stack.
    pub fn node(&mut self, node: Node<'_>) {
        let mut open: Vec<Rest<'_>> = Vec::new();
        let mut value = node;
        loop {
            match value.kind() {
                Kind::Object => {
                    self.begin(b'{');
                    open.push(Rest::of_object(value, self.form));
                }
                Kind::Array => {
                    self.begin(b'[');
                    open.push(Rest::Items(value.items()));
                }
                Kind::String => self.string_token(value),
                Kind::Number => self.number_token(value.raw()),
                Kind::Bool | Kind::Null => self.raw(value.raw()),
            }
            value = loop {
                let Some(innermost) = open.last_mut() else { return };
                let (next, closing) = match innermost {
                    Rest::Members(members) => {
                        (members.next_nodes().map(|(key, value)| (Some(key), value)), b'}')
                    }
                    Rest::Ordered(members) => (members.next().map(|(key, value)| (Some(key), value)), b'}'),
                    Rest::Items(items) => (items.next().map(|item| (None, item)), b']'),
                };
                let Some((key, value)) = next else {
                    open.pop();
                    self.end(closing);
                    continue;
                };
                match key {
                    Some(key) => self.key_node(key),
                    None => self.separate(),
                }
                break value;
            };
        }
    }

    fn separate(&mut self) {
        if let Some(filled) = self.filled.last_mut() {
            if *filled {
                self.out.push(b',');
            }
            *filled = true;
        }
        self.line();
    }

    fn line(&mut self) {
        if self.style == Style::Pretty && self.depth <= MAX_INDENTED {
            self.out.push(b'\n');
            self.out.resize(self.out.len() + 2 * self.depth, b' ');
        }
    }

    fn colon(&mut self) {
        self.out.extend_from_slice(if self.style == Style::Pretty { b": " } else { b":" });
    }

    fn string_token(&mut self, string: Node<'_>) {
        match string.as_text().filter(|_| self.form != NodeForm::Verbatim) {
            Some(text) => self.text(&text),
            None => self.raw(string.raw()),
        }
    }

    fn number_token(&mut self, token: &str) {
        // Up to 15 digits an integer is exact and already in JavaScript's form.
        let plain_integer =
            token.len() <= 15 && token != "-0" && token.bytes().all(|b| b.is_ascii_digit() || b == b'-');
        if plain_integer || self.form == NodeForm::Verbatim {
            return self.raw(token);
        }
        let number: f64 = token.parse().unwrap_or(f64::NAN);
        if self.form == NodeForm::Canonical && !number.is_finite() {
            // JavaScript would say null here; two values that differ must not become one.
            self.raw(token);
        } else {
            self.number(number);
        }
    }
}

/// The rest of an open container, still to be written.
enum Rest<'a> {
    Members(Members<'a>),
    Ordered(std::vec::IntoIter<(Node<'a>, Node<'a>)>),
    Items(Items<'a>),
}

impl<'a> Rest<'a> {
    fn of_object(object: Node<'a>, form: NodeForm) -> Rest<'a> {
        if form == NodeForm::Verbatim || form == NodeForm::JavaScript && !has_odd_keys(object) {
            return Rest::Members(object.members());
        }
        let mut places: HashMap<Vec<u8>, usize> = HashMap::new();
        let mut ordered: Vec<(Text<'_>, Node<'_>, Node<'_>)> = Vec::new();
        let mut members = object.members();
        while let Some((key, value)) = members.next_nodes() {
            let text = key.as_text().unwrap_or(Text::from(""));
            let place = *places.entry(text.to_wtf8().into_owned()).or_insert(ordered.len());
            if place == ordered.len() {
                ordered.push((text, key, value));
            } else {
                ordered[place].2 = value;
            }
        }
        match form {
            NodeForm::Canonical => ordered.sort_by(|(a, ..), (b, ..)| a.to_wtf8().cmp(&b.to_wtf8())),
            _ => ordered.sort_by_key(|(key, ..)| array_index(key).map_or((1, 0), |index| (0, index))),
        }
        let members: Vec<_> = ordered.into_iter().map(|(_, key, value)| (key, value)).collect();
        Rest::Ordered(members.into_iter())
    }
}

/// Whether an object has a duplicate key or one that looks like an array index. Both are very rare.
fn has_odd_keys(object: Node<'_>) -> bool {
    const FEW: usize = 24;
    let mut few: [&str; FEW] = [""; FEW];
    let mut many = std::collections::HashSet::new();
    let mut members = object.members();
    let mut count = 0;
    while let Some((key, _)) = members.next_nodes() {
        let raw = key.raw();
        // A digit after the quote may start an array index; a backslash may hide a duplicate.
        if raw.as_bytes()[1].is_ascii_digit() || raw.contains('\\') {
            return true;
        }
        let repeated = if count < FEW {
            let repeated = few[..count].contains(&raw);
            few[count] = raw;
            repeated
        } else {
            if many.is_empty() {
                many.extend(few);
            }
            !many.insert(raw)
        };
        if repeated {
            return true;
        }
        count += 1;
    }
    false
}

/// The number of a key that looks like an array index: JavaScript lists such keys first.
pub(super) fn array_index(key: &Text<'_>) -> Option<u32> {
    let key = key.to_str();
    let canonical = key.len() == 1 || !key.starts_with('0');
    let index = key.parse::<u32>().ok()?;
    (canonical && index != u32::MAX && !key.starts_with('+')).then_some(index)
}

impl Text<'_> {
    /// The JSON of a value: `JSON.stringify(value)`.
    pub fn json_of(value: &(impl ToJs + ?Sized)) -> Text<'static> {
        let mut writer = JsWriter::new(Style::Compact, 0);
        value.write_js(&mut writer);
        String::from_utf8_lossy(&writer.finish()).into_owned().into()
    }
}

impl ToJs for Node<'_> {
    fn write_js(&self, writer: &mut JsWriter) {
        writer.node(*self);
    }
}

impl ToJs for Text<'_> {
    fn write_js(&self, writer: &mut JsWriter) {
        writer.text(self);
    }
}

impl ToJs for str {
    fn write_js(&self, writer: &mut JsWriter) {
        writer.text(&Text::from(self));
    }
}

impl ToJs for f64 {
    fn write_js(&self, writer: &mut JsWriter) {
        writer.number(*self);
    }
}

impl ToJs for bool {
    fn write_js(&self, writer: &mut JsWriter) {
        writer.bool(*self);
    }
}

impl<T: ToJs> ToJs for Vec<T> {
    fn write_js(&self, writer: &mut JsWriter) {
        writer.array(|writer| self.iter().for_each(|item| writer.item(item)));
    }
}

impl<T: ToJs> ToJs for Option<T> {
    fn write_js(&self, writer: &mut JsWriter) {
        match self {
            Some(value) => value.write_js(writer),
            None => writer.out.extend_from_slice(b"null"),
        }
    }

    fn is_absent(&self) -> bool {
        self.is_none()
    }
}

impl<T: ToJs + ?Sized> ToJs for &T {
    fn write_js(&self, writer: &mut JsWriter) {
        T::write_js(self, writer);
    }

    fn is_absent(&self) -> bool {
        T::is_absent(self)
    }
}
