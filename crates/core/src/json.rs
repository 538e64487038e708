//! JSON as JavaScript writes it, kept as text.
//!
//! Owns the scanner ([`Tape`]), the view over scanned text ([`Node`], [`Text`]), JavaScript's own formatting
//! ([`JsWriter`]), values in the making ([`Object`]) and edits that leave every other byte alone ([`edit`]). It knows nothing of sessions or parts.
//!
//! Why not `serde_json`: OpenCode's documents hold lone surrogates, duplicate keys and numbers beyond `f64`, and tool
//! output nests to any depth. A value tree loses the first three and recurses on the fourth; `RawValue` rescans the text
//! at every level. One iterative pass that records the place of every value keeps all four and gives edits their byte
//! ranges.

pub mod edit;
mod error;
mod js;
mod node;
mod same;
mod tape;
mod text;
mod value;

pub use error::{JsonError, JsonErrorKind};
pub use js::{JsWriter, Style, ToJs};
pub(crate) use node::{Items, Members};
pub use node::{Kind, Node};
pub use same::same_value;
pub use tape::Tape;
pub use text::{Text, is_js_space};
pub use value::{Object, Value};
