//! Lenses: typed views of documents, and the typed form of documents to be written.
//!
//! A lens is a struct of optional fields, each named as in OpenCode's schema and in the order OpenCode writes them.
//! Reading through a lens never fails: a field that is missing, `null` or of another type is `None`, and fields that the
//! lens does not name stay in the document. A new document is written from the same struct, filled by hand.

pub(crate) mod early;
mod message;
mod part;
mod project;
mod session;
mod side;

pub use message::*;
pub use part::*;
pub use project::*;
pub use session::*;
pub use side::*;

use crate::id::Millis;
use crate::json::{JsWriter, Kind, Node, Tape, Text, ToJs, same_value};

/// A typed view of a JSON value.
pub trait Lens<'a>: Sized {
    /// The value as this type, if it has this type.
    fn look(node: Node<'a>) -> Option<Self>;
}

/// Declares a lens: the struct, its reader and its writer.
///
/// `["key" = "value"]` after a field is a constant member at that place, such as a part's `type`.
macro_rules! lens {
    ($(#[$meta:meta])* pub struct $name:ident<$lifetime:lifetime> { $($fields:tt)* }) => {
        lens! { @make $lifetime, [$lifetime], $name<$lifetime>, $(#[$meta])* $name { $($fields)* } }
    };
    ($(#[$meta:meta])* pub struct $name:ident { $($fields:tt)* }) => {
        lens! { @make 'a, [], $name, $(#[$meta])* $name { $($fields)* } }
    };
    (@make $lifetime:lifetime, [$($generic:lifetime)?], $self:ty, $(#[$meta:meta])* $name:ident {
        $( $(#[$field_meta:meta])* $field:ident $key:literal: $type:ty, $([$const_key:literal = $const_value:literal])? )*
    }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Default, PartialEq)]
        pub struct $name<$($generic)?> {
            $( $(#[$field_meta])* pub $field: Option<$type>, )*
        }

        impl<$lifetime> $crate::lens::Lens<$lifetime> for $self {
            fn look(node: $crate::json::Node<$lifetime>) -> Option<Self> {
                if node.kind() != $crate::json::Kind::Object {
                    return None;
                }
                let mut lens = Self::default();
                for (key, value) in node.members() {
                    match &*key.to_str() {
                        $( $key => lens.$field = $crate::lens::Lens::look(value), )*
                        _ => {}
                    }
                }
                Some(lens)
            }
        }

        impl<$($generic)?> $crate::json::ToJs for $self {
            fn write_js(&self, writer: &mut $crate::json::JsWriter) {
                writer.object(|writer| {
                    $(
                        writer.member($key, &self.$field);
                        $( writer.member($const_key, $const_value); )?
                    )*
                });
            }
        }
    };
}
pub(crate) use lens;

/// Free-form JSON: tool input, metadata, schemas.
#[derive(Debug, Clone)]
pub enum Json<'a> {
    /// A value inside a document.
    Node(Node<'a>),
    /// A value to be written, as JSON text.
    Text(String),
}

impl<'a> Json<'a> {
    /// A value to be written, from anything serde can serialise.
    pub fn from_serialize(value: &impl serde::Serialize) -> Result<Json<'static>, serde_json::Error> {
        serde_json::to_string(value).map(Json::Text)
    }

    /// The value inside its document; `None` for a value still to be written.
    pub fn node(&self) -> Option<Node<'a>> {
        match self {
            Json::Node(node) => Some(*node),
            Json::Text(_) => None,
        }
    }

    /// A string member of the value inside its document.
    pub fn text_at(&self, path: &[&str]) -> Option<Text<'a>> {
        self.node()?.at(path)?.as_text()
    }
}

impl From<serde_json::Value> for Json<'static> {
    fn from(value: serde_json::Value) -> Json<'static> {
        Json::Text(value.to_string())
    }
}

impl PartialEq for Json<'_> {
    fn eq(&self, other: &Json<'_>) -> bool {
        fn with_node(json: &Json<'_>, then: &mut dyn FnMut(Node<'_>) -> bool) -> bool {
            match json {
                Json::Node(node) => then(*node),
                Json::Text(text) => Tape::scan(text).is_ok_and(|tape| then(Node::root(text, &tape))),
            }
        }
        with_node(self, &mut |a| with_node(other, &mut |b| same_value(a, b)))
    }
}

impl ToJs for Json<'_> {
    fn write_js(&self, writer: &mut JsWriter) {
        match self {
            Json::Node(node) => writer.node(*node),
            // Text that is not JSON can only come from the calling program; written as a string it is at least not lost.
            Json::Text(text) => match Tape::scan(text) {
                Ok(tape) => writer.node(Node::root(text, &tape)),
                Err(_) => writer.text(&Text::from(text.as_str())),
            },
        }
    }
}

impl<'a> Lens<'a> for Json<'a> {
    fn look(node: Node<'a>) -> Option<Self> {
        (!node.is_null()).then_some(Json::Node(node))
    }
}

impl<'a> Lens<'a> for Text<'a> {
    fn look(node: Node<'a>) -> Option<Self> {
        node.as_text()
    }
}

impl<'a> Lens<'a> for f64 {
    fn look(node: Node<'a>) -> Option<Self> {
        node.as_f64()
    }
}

impl<'a> Lens<'a> for Millis {
    fn look(node: Node<'a>) -> Option<Self> {
        // A float cast saturates, so that no stored number can make arithmetic on times overflow far from here.
        node.as_f64().filter(|number| number.abs() <= 8.64e15).map(|number| number as Millis)
    }
}

impl<'a> Lens<'a> for bool {
    fn look(node: Node<'a>) -> Option<Self> {
        node.as_bool()
    }
}

impl<'a, T: Lens<'a>> Lens<'a> for Vec<T> {
    fn look(node: Node<'a>) -> Option<Self> {
        (node.kind() == Kind::Array).then(|| node.items().filter_map(T::look).collect())
    }
}

impl ToJs for Millis {
    fn write_js(&self, writer: &mut JsWriter) {
        writer.number(*self as f64);
    }
}
