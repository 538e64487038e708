//! Comparison of two JSON texts by value.

use super::{JsWriter, Node};

/// Whether two values are equal as JavaScript values: layout, escapes, number forms and the order of keys do not
/// matter, and the last of several duplicate keys counts.
pub fn same_value(a: Node<'_>, b: Node<'_>) -> bool {
    a.raw() == b.raw() || JsWriter::canonical(a) == JsWriter::canonical(b)
}
