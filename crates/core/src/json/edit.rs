//! Edits of one field that leave every other byte of a document as it was.

use super::{JsWriter, JsonError, Kind, Node, Style, Tape, Text, ToJs};

/// Why a document could not be edited.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EditError {
    /// Something on the way to the field is not an object.
    #[error("cannot edit `{path}`: {} is {found}, not an object", quoted_or_document(found_at))]
    NotAnObject {
        /// Dotted path of the field to edit.
        path: String,
        /// Dotted path of the value that is not an object; empty for the document itself.
        found_at: String,
        /// Kind of that value, with its article.
        found: &'static str,
    },
    /// The field to be made longer is not a string.
    #[error("cannot append to `{path}`: it is {found}, not a string")]
    NotAString {
        /// Dotted path of the field.
        path: String,
        /// Kind of its value, with its article.
        found: &'static str,
    },
    /// The edited document would exceed a limit on documents.
    #[error("the edited document would not be valid: {0}")]
    Limit(#[from] JsonError),
}

fn quoted_or_document(path: &str) -> String {
    if path.is_empty() { "the document".to_owned() } else { format!("`{path}`") }
}

/// The text with the field at `path` set. Missing objects on the way are created; a new field goes after the last one,
/// laid out like its neighbours, where an assignment in JavaScript would put it.
pub fn set(text: &str, tape: &Tape, path: &[&str], value: &dyn ToJs) -> Result<String, EditError> {
    let root = Node::root(text, tape);
    let style = style_of(root);
    let Some((_, parents)) = path.split_last() else {
        return Ok(splice(text, root.range(), &written(style, 0, value)));
    };
    let (object, depth) = deepest_object(root, path, parents)?;
    let (key, missing) = (path[depth], &path[depth + 1..]);
    match object.get(key) {
        Some(old) if missing.is_empty() => Ok(splice(text, old.range(), &written(style, depth + 1, value))),
        _ => {
            let nested = written(style, depth + 1, &Nested { path: missing, value });
            Ok(add_member(text, object, depth, style, key, &nested))
        }
    }
}

/// The text with `addition` at the end of the string at `path`, and every other byte as it was.
pub fn append(text: &str, tape: &Tape, path: &[&str], addition: &str) -> Result<String, EditError> {
    let found = Node::root(text, tape).at(path);
    let Some(field) = found.filter(|field| field.kind() == Kind::String) else {
        let found = found.map_or("missing", |field| field.kind().with_article());
        return Err(EditError::NotAString { path: path.join("."), found });
    };
    let quoted = written(Style::Compact, 0, &Text::from(addition));
    let end = field.range().end - 1;
    Ok(splice(text, end..end, &quoted[1..quoted.len() - 1]))
}

/// The text without the field at `path`; all duplicates of the field go. A missing field changes nothing.
pub fn remove(text: &str, tape: &Tape, path: &[&str]) -> Result<String, EditError> {
    let Some((key, parents)) = path.split_last() else { return Ok(text.to_owned()) };
    let (object, depth) = deepest_object(Node::root(text, tape), path, parents)?;
    if depth < parents.len() || object.get(key).is_none() {
        return Ok(text.to_owned());
    }
    let inside = object.range().start + 1..object.range().end - 1;
    // The first member follows white space, every other member a comma and white space.
    let mut previous_end = inside.start;
    let mut first_lead = None;
    let mut kept = String::with_capacity(inside.len());
    let mut members = object.members();
    while let Some((name, value)) = members.next_nodes() {
        let (start, end) = (name.range().start, value.range().end);
        let lead = &text[previous_end..start];
        let first_lead = *first_lead.get_or_insert(lead);
        if name.as_text().is_none_or(|name| name != *key) {
            kept.push_str(if kept.is_empty() { first_lead } else { lead });
            kept.push_str(&text[start..end]);
        }
        previous_end = end;
    }
    if !kept.is_empty() {
        kept.push_str(&text[previous_end..inside.end]);
    }
    Ok(splice(text, inside, &kept))
}

/// The innermost existing object along `parents`, and how many keys lead to it.
fn deepest_object<'a>(
    root: Node<'a>,
    path: &[&str],
    parents: &[&str],
) -> Result<(Node<'a>, usize), EditError> {
    let (mut object, mut depth) = (root, 0);
    loop {
        if object.kind() != Kind::Object {
            let (path, found_at) = (path.join("."), parents[..depth].join("."));
            return Err(EditError::NotAnObject { path, found_at, found: object.kind().with_article() });
        }
        match parents.get(depth).and_then(|key| object.get(key)) {
            Some(inner) => (object, depth) = (inner, depth + 1),
            None => return Ok((object, depth)),
        }
    }
}

fn add_member(text: &str, object: Node<'_>, depth: usize, style: Style, key: &str, value: &str) -> String {
    let name = written(style, 0, &Text::from(key));
    let mut members = object.members();
    let mut last = None;
    while let Some(member) = members.next_nodes() {
        last = Some(member);
    }
    let Some((last_key, last_value)) = last else {
        let inner = object.range().start + 1..object.range().end - 1;
        let member = match style {
            Style::Compact => format!("{name}:{value}"),
            Style::Pretty => {
                format!(
                    "\n{:inner$}{name}: {value}\n{:outer$}",
                    "",
                    "",
                    inner = 2 * depth + 2,
                    outer = 2 * depth
                )
            }
        };
        return splice(text, inner, &member);
    };
    let before_key = &text[..last_key.range().start];
    let lead = &before_key[before_key.trim_end_matches(is_space).len()..];
    let colon = &text[last_key.range().end..last_value.range().start];
    let end = last_value.range().end;
    splice(text, end..end, &format!(",{lead}{name}{colon}{value}"))
}

fn splice(text: &str, range: std::ops::Range<usize>, with: &str) -> String {
    let mut spliced = String::with_capacity(text.len() + with.len());
    spliced.push_str(&text[..range.start]);
    spliced.push_str(with);
    spliced.push_str(&text[range.end..]);
    spliced
}

fn written(style: Style, depth: usize, value: &dyn ToJs) -> String {
    let mut writer = JsWriter::new(style, depth);
    value.write_js(&mut writer);
    String::from_utf8(writer.finish()).expect("the writer writes UTF-8: its input is str and ASCII")
}

/// How a document is laid out: with a line break after its first bracket, or in one line.
fn style_of(root: Node<'_>) -> Style {
    match root.raw().as_bytes().get(1) {
        Some(b'\n' | b'\r') => Style::Pretty,
        _ => Style::Compact,
    }
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\n' | '\r' | '\t')
}

/// A value inside objects that do not exist yet.
struct Nested<'a> {
    path: &'a [&'a str],
    value: &'a dyn ToJs,
}

impl ToJs for Nested<'_> {
    fn write_js(&self, writer: &mut JsWriter) {
        match self.path.split_first() {
            None => self.value.write_js(writer),
            Some((key, rest)) => {
                writer.object(|writer| writer.member(key, &Nested { path: rest, value: self.value }));
            }
        }
    }
}
