//! The shapes of values that OpenCode's server accepts, and what can be done about a value that has another one.

use std::borrow::Cow;

use annals_core::id::Millis;
use annals_core::json::{JsWriter, Kind, Node, Style, Text, ToJs};
use annals_core::lens::{ErrorData, MessageError};

/// The kind of error that a provider answered with.
pub(super) const API_ERROR: &str = "APIError";

/// What the server accepts at some place.
#[derive(Debug, Clone, Copy)]
pub(super) enum ServedShape {
    /// A string.
    Text,
    /// A string that begins with this.
    Prefixed(&'static str),
    /// One of these strings.
    Word(&'static [&'static str]),
    /// `true` or `false`.
    Flag,
    /// A finite number.
    Number,
    /// A finite number that is not negative: the time of a user's message, which alone may be fractional.
    Time,
    /// An integer that is not negative, and small enough to be exact in JavaScript.
    Whole,
    /// An object with any members.
    Map,
    /// An object with any members of one shape.
    MapOf(&'static ServedShape),
    /// An array.
    List(&'static ServedShape),
    /// An object with these members, and any others.
    Object(&'static [MemberRule]),
    /// An object whose members depend on one of them.
    Kinds(Kinds),
    /// An error, whose members depend on one of them. A refused error is replaced by one of the named kind.
    Error(Kinds, &'static str),
}

/// One member of an object.
#[derive(Debug, Clone, Copy)]
pub(super) struct MemberRule {
    pub(super) key: &'static str,
    pub(super) shape: ServedShape,
    pub(super) absence: Absence,
}

/// What is done about a missing member.
#[derive(Debug, Clone, Copy)]
pub(super) enum Absence {
    /// Nothing: the member is optional.
    Allowed,
    /// This stands in for it.
    Filled(Fill),
    /// The document cannot be served.
    Fatal,
}

/// What stands in for a required member.
#[derive(Debug, Clone, Copy)]
pub(super) enum Fill {
    /// This JSON text.
    Json(&'static str),
    /// An object of what stands in for its members.
    Members,
    /// What the document itself calls its agent, else the turn's.
    Agent,
    /// The turn's provider.
    Provider,
    /// The turn's model.
    Model,
    /// The message an answer answers.
    Parent,
    /// When the message was made.
    Created,
    /// The session's directory.
    Directory,
    /// The root of the session's working tree.
    Worktree,
    /// The id of the document that is completed.
    Id,
    /// The message that the document says it belongs to.
    Message,
    /// The session that the document says it belongs to.
    Session,
}

/// Objects that come in several kinds: the member that tells, and the other members of each kind.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kinds {
    pub(super) tag: &'static str,
    pub(super) kinds: &'static [(&'static str, &'static [MemberRule])],
}

impl Kinds {
    /// The members of an object's kind, if it has one of them.
    pub(super) fn fields_of(&self, object: Node<'_>) -> Option<&'static [MemberRule]> {
        let tag = object.get(self.tag)?.as_text()?;
        self.kinds.iter().find(|(name, _)| tag == *name).map(|(_, fields)| *fields)
    }

    /// Why `value`, called `name`, has none of the kinds, for people.
    pub(super) fn complaint(&self, name: &str, value: Node<'_>) -> String {
        let tag = self.tag;
        match (value.kind(), value.get(tag)) {
            (Kind::Object, None) => format!("{name} has no {tag}"),
            (Kind::Object, Some(found)) => {
                format!("{name} has the {tag} {}, which OpenCode does not know", excerpt(found.raw()))
            }
            (other, _) => format!("{name} is {}, not an object", other.with_article()),
        }
    }
}

/// Whether the server accepts a value. One pass that allocates nothing, because in a bulk copy every part goes through it
/// and nearly all are accepted.
pub(super) fn accepts(shape: ServedShape, value: Node<'_>) -> bool {
    match shape {
        ServedShape::Text => value.kind() == Kind::String,
        ServedShape::Prefixed(prefix) => {
            value.as_text().is_some_and(|text| text.to_str().starts_with(prefix))
        }
        ServedShape::Word(words) => {
            value.as_text().is_some_and(|text| words.iter().any(|word| text == *word))
        }
        ServedShape::Flag => value.kind() == Kind::Bool,
        ServedShape::Number => value.as_f64().is_some_and(f64::is_finite),
        ServedShape::Time => value.as_f64().is_some_and(|number| number.is_finite() && number >= 0.0),
        ServedShape::Whole => value.as_f64().is_some_and(|number| number.fract() == 0.0 && is_exact(number)),
        ServedShape::Map => value.kind() == Kind::Object,
        ServedShape::MapOf(shape) => {
            value.kind() == Kind::Object && value.members().all(|(_, value)| accepts(*shape, value))
        }
        ServedShape::List(item) => {
            value.kind() == Kind::Array && value.items().all(|value| accepts(*item, value))
        }
        ServedShape::Object(fields) => accepts_members(fields, value),
        ServedShape::Kinds(kinds) | ServedShape::Error(kinds, _) => {
            kinds.fields_of(value).is_some_and(|fields| accepts_members(fields, value))
        }
    }
}

pub(super) fn accepts_members(fields: &[MemberRule], object: Node<'_>) -> bool {
    let (mut seen, mut refused) = (0_u32, 0_u32);
    for (key, value) in object.members() {
        let Some(at) = fields.iter().position(|field| key == field.key) else { continue };
        seen |= 1 << at;
        // Of duplicate keys the last counts.
        refused &= !(1 << at);
        refused |= u32::from(!accepts(fields[at].shape, value)) << at;
    }
    let may_miss =
        |(at, field): (usize, &MemberRule)| seen >> at & 1 == 1 || matches!(field.absence, Absence::Allowed);
    object.kind() == Kind::Object && refused == 0 && fields.iter().enumerate().all(may_miss)
}

/// Whether a number is between 0 and the greatest integer up to which JavaScript's integers are exact.
fn is_exact(number: f64) -> bool {
    (0.0..=MAX_SAFE_INTEGER as f64).contains(&number)
}

pub(super) const MAX_SAFE_INTEGER: Millis = (1 << 53) - 1;

/// What to do about a member.
pub(super) enum Remedy<'a> {
    /// Leave it.
    None,
    /// Put in what stands in for it.
    Fill(Fill),
    /// Put in this JSON text, made from the value itself.
    Put(String),
    /// Take it out.
    Remove,
    /// Look at the members of this object.
    Members(&'static [MemberRule], Node<'a>),
    /// Look at the items of this array.
    Items(&'static ServedShape, Node<'a>),
    /// Give up.
    GiveUp,
}

impl MemberRule {
    pub(super) fn remedy<'a>(&self, value: Option<Node<'a>>) -> Remedy<'a> {
        let mended = match value {
            None if matches!(self.absence, Absence::Allowed) => return Remedy::None,
            None => None,
            Some(value) if accepts(self.shape, value) => return Remedy::None,
            Some(value) => self.shape.mend(self.key, value),
        };
        mended.unwrap_or(match self.absence {
            Absence::Allowed => Remedy::Remove,
            Absence::Filled(fill) => Remedy::Fill(fill),
            Absence::Fatal => Remedy::GiveUp,
        })
    }

    /// Why a member that nothing can stand in for is not accepted.
    pub(super) fn complaint(&self, value: Option<Node<'_>>) -> String {
        match (self.shape, value) {
            (ServedShape::Kinds(kinds), Some(value)) => kinds.complaint(&format!("its {}", self.key), value),
            _ => format!("it has no {}", self.key),
        }
    }
}

impl ServedShape {
    /// How a refused value can become an accepted one that says the same. `null` says nothing, and some values
    /// cannot be expressed in this shape.
    pub(super) fn mend<'a>(self, key: &str, value: Node<'a>) -> Option<Remedy<'a>> {
        match (self, value.kind()) {
            (_, Kind::Null) => None,
            (ServedShape::Text, _) => Some(Remedy::Put(json(&Text::from(json(&value))))),
            (ServedShape::Map, _) => Some(Remedy::Put(format!("{{{}:{}}}", json(key), value.raw()))),
            (ServedShape::Time | ServedShape::Whole, Kind::Number) => {
                let number = value.as_f64()?.max(0.0).floor();
                is_exact(number).then(|| Remedy::Put(json(&number)))
            }
            (ServedShape::List(item), Kind::Array) => Some(Remedy::Items(item, value)),
            (ServedShape::Object(fields), Kind::Object) => Some(Remedy::Members(fields, value)),
            (ServedShape::Kinds(kinds), Kind::Object) => {
                kinds.fields_of(value).map(|fields| Remedy::Members(fields, value))
            }
            (ServedShape::Error(_, name), _) => Some(Remedy::Put(error_of(name, value))),
            _ => None,
        }
    }
}

/// An error of the kind `name` that says what another one says.
fn error_of(name: &str, error: Node<'_>) -> String {
    let message = [error.at(&["data", "message"]), error.get("message"), Some(error)]
        .into_iter()
        .find_map(|message| message?.as_text())
        .unwrap_or_else(|| Text::from(json(&error)));
    // OpenCode tried again, so the error was retryable.
    let is_retryable = (name == API_ERROR).then_some(true);
    let data = ErrorData { message: Some(message), is_retryable, ..ErrorData::default() };
    json(&MessageError { name: Some(Text::from(name)), data: Some(data) })
}

/// JSON text of a value.
pub(super) fn json(value: &(impl ToJs + ?Sized)) -> String {
    String::from_utf8_lossy(&JsWriter::document(Style::Compact, &value)).into_owned()
}

/// The beginning of a JSON text, to be shown.
pub(super) fn excerpt(json: &str) -> Cow<'_, str> {
    match json.char_indices().nth(60) {
        Some((end, _)) => Cow::Owned(format!("{}…", &json[..end])),
        None => Cow::Borrowed(json),
    }
}
