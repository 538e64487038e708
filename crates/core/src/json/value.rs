//! Values in the making: objects that grow member by member and behave as objects of JavaScript do.

use std::collections::HashMap;

use super::js::array_index;
use super::{JsWriter, Kind, Node, Text, ToJs};

/// A value that is being made, out of values of documents and of new ones.
#[derive(Debug, Clone)]
pub enum Value<'a> {
    /// A value of a document.
    Node(Node<'a>),
    /// A string.
    Text(Text<'a>),
    /// Fixed JSON, such as `null`.
    Json(&'static str),
    /// `true` or `false`.
    Bool(bool),
    /// A number.
    Number(f64),
    /// An array.
    Array(Vec<Value<'a>>),
    /// An object.
    Object(Object<'a>),
}

/// An object that is being made. Members are in the order in which they were first set; when it is written, keys that look
/// like array indices come first, as JavaScript lists them.
#[derive(Debug, Clone, Default)]
pub struct Object<'a> {
    members: Vec<(Text<'a>, Value<'a>)>,
}

impl<'a> Value<'a> {
    /// The text, if this is a string.
    pub fn as_text(&self) -> Option<Text<'a>> {
        match self {
            Value::Node(node) => node.as_text(),
            Value::Text(text) => Some(text.clone()),
            _ => None,
        }
    }

    /// The object, if this is one. The members of a document's object become members of a new one; their values stay where
    /// they are.
    pub fn to_object(&self) -> Option<Object<'a>> {
        match self {
            Value::Node(node) => Object::of(*node),
            Value::Object(object) => Some(object.clone()),
            _ => None,
        }
    }

    /// Whether this is neither `null` nor missing.
    pub fn is_present(&self) -> bool {
        !matches!(self, Value::Node(node) if node.is_null())
    }
}

impl<'a> Object<'a> {
    /// An object without members.
    pub fn new() -> Object<'a> {
        Object::default()
    }

    /// An object of a document, to be changed. `None` if the value is something else.
    pub fn of(node: Node<'a>) -> Option<Object<'a>> {
        if node.kind() != Kind::Object {
            return None;
        }
        let mut places: HashMap<Vec<u8>, usize> = HashMap::new();
        let mut members: Vec<(Text<'a>, Value<'a>)> = Vec::new();
        for (key, value) in node.members() {
            let place = *places.entry(key.to_wtf8().into_owned()).or_insert(members.len());
            if place == members.len() {
                members.push((key, value.into()));
            } else {
                members[place].1 = value.into();
            }
        }
        Some(Object { members })
    }

    /// This object with one more member.
    #[must_use]
    pub fn with(mut self, key: impl Into<Text<'a>>, value: impl Into<Value<'a>>) -> Object<'a> {
        self.set(key, value);
        self
    }

    /// This object with one more member, if there is a value for it.
    #[must_use]
    pub fn with_some(self, key: impl Into<Text<'a>>, value: Option<impl Into<Value<'a>>>) -> Object<'a> {
        match value {
            Some(value) => self.with(key, value),
            None => self,
        }
    }

    /// This object with the members of another one, which replace those of the same name where they stand.
    #[must_use]
    pub fn spread(mut self, other: Option<Object<'a>>) -> Object<'a> {
        for (key, value) in other.into_iter().flat_map(|other| other.members) {
            self.set(key, value);
        }
        self
    }

    /// This object with the members of another one; where both have an object, those are merged in turn.
    #[must_use]
    pub fn merged(mut self, other: Object<'a>) -> Object<'a> {
        for (key, value) in other.members {
            let both = self.find(&key).and_then(Value::to_object).zip(value.to_object());
            match both {
                Some((mine, theirs)) => self.set(key, mine.merged(theirs)),
                None => self.set(key, value),
            }
        }
        self
    }

    /// Sets a member: a new one comes last, an existing one keeps its place.
    pub fn set(&mut self, key: impl Into<Text<'a>>, value: impl Into<Value<'a>>) {
        let (key, value) = (key.into(), value.into());
        match self.members.iter_mut().find(|(known, _)| *known == key) {
            Some((_, known)) => *known = value,
            None => self.members.push((key, value)),
        }
    }

    /// Takes a member out.
    pub fn remove(&mut self, key: &str) -> Option<Value<'a>> {
        let place = self.members.iter().position(|(known, _)| *known == key)?;
        Some(self.members.remove(place).1)
    }

    /// The value of a member, unless it is `null`.
    pub fn get(&self, key: &str) -> Option<&Value<'a>> {
        self.find(&Text::from(key)).filter(|value| value.is_present())
    }

    /// The text of a member that is a string.
    pub fn text(&self, key: &str) -> Option<Text<'a>> {
        self.get(key)?.as_text()
    }

    /// The member that is an object.
    pub fn object(&self, key: &str) -> Option<Object<'a>> {
        self.get(key)?.to_object()
    }

    /// Whether there is a member with this name, whatever its value.
    pub fn has(&self, key: &str) -> bool {
        self.find(&Text::from(key)).is_some()
    }

    /// Whether there is no member.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    fn find(&self, key: &Text<'_>) -> Option<&Value<'a>> {
        self.members.iter().find(|(known, _)| known == key).map(|(_, value)| value)
    }
}

impl ToJs for Object<'_> {
    fn write_js(&self, writer: &mut JsWriter) {
        let mut members: Vec<_> = self.members.iter().collect();
        members.sort_by_key(|(key, _)| array_index(key).map_or((1, 0), |index| (0, index)));
        writer.object(|writer| {
            for (key, value) in members {
                writer.key_text(key);
                value.write_js(writer);
            }
        });
    }
}

impl ToJs for Value<'_> {
    fn write_js(&self, writer: &mut JsWriter) {
        match self {
            Value::Node(node) => writer.node(*node),
            Value::Text(text) => writer.text(text),
            Value::Json(json) => writer.raw(json),
            Value::Bool(value) => writer.bool(*value),
            Value::Number(number) => writer.number(*number),
            Value::Array(items) => writer.array(|writer| items.iter().for_each(|item| writer.item(item))),
            Value::Object(object) => object.write_js(writer),
        }
    }
}

impl<'a> From<Node<'a>> for Value<'a> {
    fn from(node: Node<'a>) -> Value<'a> {
        Value::Node(node)
    }
}

impl<'a> From<Text<'a>> for Value<'a> {
    fn from(text: Text<'a>) -> Value<'a> {
        Value::Text(text)
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Value<'a> {
        Value::Text(Text::from(text))
    }
}

impl From<String> for Value<'_> {
    fn from(text: String) -> Self {
        Value::Text(Text::from(text))
    }
}

impl From<bool> for Value<'_> {
    fn from(value: bool) -> Self {
        Value::Bool(value)
    }
}

impl<'a> From<Object<'a>> for Value<'a> {
    fn from(object: Object<'a>) -> Value<'a> {
        Value::Object(object)
    }
}

impl<'a> From<Vec<Object<'a>>> for Value<'a> {
    fn from(objects: Vec<Object<'a>>) -> Value<'a> {
        Value::Array(objects.into_iter().map(Value::Object).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Style;
    use crate::json::Tape;

    fn written(object: &Object<'_>) -> String {
        String::from_utf8(JsWriter::document(Style::Compact, object)).unwrap()
    }

    #[test]
    fn members_are_listed_as_javascript_lists_them() {
        let mut object = Object::new().with("b", "1").with("10", true).with("a", "2").with("9", "x");
        object.set("b", "3");
        assert_eq!(written(&object), r#"{"9":"x","10":true,"b":"3","a":"2"}"#);
        object.remove("9");
        assert_eq!(written(&object.with_some("c", None::<&str>)), r#"{"10":true,"b":"3","a":"2"}"#);
    }

    #[test]
    fn merging_goes_into_objects_and_replaces_all_else() {
        let text = r#"{"lab":{"id":"x","n":1.0},"list":[1],"none":null,"lab2":{}}"#;
        let tape = Tape::scan(text).unwrap();
        let stored = Object::of(Node::root(text, &tape)).unwrap();
        let marks = Object::new()
            .with("lab", Object::new().with("id", "y").with("mark", true))
            .with("list", Object::new().with("a", "b"));
        let merged = stored.clone().merged(marks.clone());
        assert_eq!(
            written(&merged),
            r#"{"lab":{"id":"y","n":1,"mark":true},"list":{"a":"b"},"none":null,"lab2":{}}"#
        );
        assert_eq!(
            written(&stored.clone().spread(Some(marks))),
            r#"{"lab":{"id":"y","mark":true},"list":{"a":"b"},"none":null,"lab2":{}}"#
        );
        assert!(stored.get("none").is_none() && stored.has("none"));
    }
}
