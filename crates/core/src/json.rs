//! JSON as JavaScript writes it, kept as text.
//!
//! Owns the scanner ([`Tape`]), the view over scanned text ([`Node`], [`Text`]), JavaScript's own formatting
//! ([`JsWriter`]) and edits that leave every other byte alone ([`edit`]). It knows nothing of sessions or parts.
//!
//! Why not `serde_json` for this: what OpenCode stores holds lone surrogates, duplicate keys, numbers beyond `f64`
//! and can nest as deep as a tool's output likes. A value tree loses the first three and recurses on the fourth; its
//! raw values rescan the text at every level. One iterative pass that records where everything stands keeps all four
//! and gives edits their byte ranges.

pub mod edit;
mod error;
mod js;
mod node;
mod same;
mod tape;
mod text;

pub use error::{JsonError, JsonErrorKind};
pub use js::{JsWriter, Style, ToJs};
pub(crate) use node::{Items, Members};
pub use node::{Kind, Node};
pub use same::same_value;
pub use tape::Tape;
pub use text::Text;
