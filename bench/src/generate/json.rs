//! JSON in the bytes OpenCode writes: two spaces, no final newline, numbers as JavaScript prints them.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};

pub(crate) fn to_vec(value: &impl Serialize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(512);
    let mut serializer = Serializer::with_formatter(&mut bytes, JsFormatter(PrettyFormatter::new()));
    value.serialize(&mut serializer).expect("records have string keys, and a vector takes all bytes");
    bytes
}

/// serde_json's own indentation, but `0` for `0.0` and `0.0000427` where Rust would print an exponent.
struct JsFormatter<'i>(PrettyFormatter<'i>);

impl Formatter for JsFormatter<'_> {
    fn write_f64<W: ?Sized + Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        writer.write_all(ryu_js::Buffer::new().format_finite(value).as_bytes())
    }

    fn begin_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_array(writer)
    }

    fn end_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_array(writer)
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.0.begin_array_value(writer, first)
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_array_value(writer)
    }

    fn begin_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_object(writer)
    }

    fn end_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object(writer)
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.0.begin_object_key(writer, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_object_value(writer)
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object_value(writer)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(value: f64, expected: &str) {
        assert_eq!(String::from_utf8(to_vec(&value)).unwrap(), expected);
    }

    #[test]
    fn numbers_are_printed_as_javascript_prints_them() {
        check(0.0, "0");
        check(-0.0, "0");
        check(3.0, "3");
        check(0.0177246, "0.0177246");
        check(0.0000427, "0.0000427");
        check(0.000001, "0.000001");
        check(1.5e-7, "1.5e-7");
        check(1e21, "1e+21");
    }

    #[test]
    fn layout_is_two_spaces_and_no_final_newline() {
        let value = json!({"b": [], "a": {"text": "é\u{1}\n", "cost": 0.5}, "n": [1]});
        let expected = "{\n  \"b\": [],\n  \"a\": {\n    \"text\": \"é\\u0001\\n\",\n    \"cost\": 0.5\n  },\n  \
                        \"n\": [\n    1\n  ]\n}";
        assert_eq!(String::from_utf8(to_vec(&value)).unwrap(), expected);
    }
}
