//! Writing as JavaScript writes. The expected texts are what Node printed.

use annals_core::Document;
use annals_core::json::{JsWriter, Style, same_value};
use proptest::prelude::*;

use super::any_json::any_json;

/// The text in another layout, with every token unchanged.
fn laid_out(text: &str, style: Style) -> String {
    let document = Document::parse(text.as_bytes().to_vec()).unwrap();
    let mut writer = JsWriter::verbatim(style, 0);
    writer.node(document.root());
    String::from_utf8(writer.finish()).unwrap()
}

/// JSON without the white space between its tokens.
fn without_space(text: &str) -> String {
    let (mut is_string, mut is_escaped) = (false, false);
    let is_kept = |c: &char| {
        let is_kept = is_string || !c.is_ascii_whitespace();
        is_string ^= *c == '"' && !is_escaped;
        is_escaped = is_string && *c == '\\' && !is_escaped;
        is_kept
    };
    text.chars().filter(is_kept).collect()
}

fn stringify(text: &str, style: Style) -> String {
    let document = Document::parse(text.as_bytes().to_vec()).unwrap();
    String::from_utf8(JsWriter::document(style, &document)).unwrap()
}

#[test]
fn numbers_have_javascripts_form() {
    let check = |text: &str, expected: &str| assert_eq!(stringify(text, Style::Compact), expected, "{text}");
    check("0", "0");
    check("-0", "0");
    check("-0.0", "0");
    check("1.0", "1");
    check("0.0000427", "0.0000427");
    check("4.27e-5", "0.0000427");
    check("0.000001", "0.000001");
    check("0.0000001", "1e-7");
    check("1.5E-7", "1.5e-7");
    check("1e21", "1e+21");
    check("123456789012345680000", "123456789012345680000");
    check("1000000000000000000000", "1e+21");
    check("9007199254740993", "9007199254740992");
    check("1766578085876", "1766578085876");
    check("1e400", "null");
    check("5e-324", "5e-324");
    check("-1.7976931348623157e308", "-1.7976931348623157e+308");
    check("0.1", "0.1");
    check("100", "100");
}

#[test]
fn strings_have_javascripts_escapes() {
    let check = |text: &str, expected: &str| assert_eq!(stringify(text, Style::Compact), expected, "{text}");
    check(r#""\u0041\/\u00e9""#, r#""A/é""#);
    check(r#""\u0000\u001f\b\t\n\f\r\"\\""#, r#""\u0000\u001f\b\t\n\f\r\"\\""#);
    check(r#""\u2028\u007f""#, "\"\u{2028}\u{7f}\"");
    check(r#""\ud83d\ude00""#, r#""😀""#);
    check(r#""\uD83D""#, r#""\ud83d""#);
    check(r#""\ude00\ud83d""#, r#""\ude00\ud83d""#);
    check(r#""\ud83d\ud83d\ude00""#, r#""\ud83d😀""#);
    check(r#""\ud83dx""#, r#""\ud83dx""#);
}

#[test]
fn keys_have_javascripts_order() {
    let check = |text: &str, expected: &str| assert_eq!(stringify(text, Style::Compact), expected, "{text}");
    check(r#"{"b":1,"10":2,"a":3,"2":4,"01":5}"#, r#"{"2":4,"10":2,"b":1,"a":3,"01":5}"#);
    check(r#"{"a":1,"b":2,"a":3}"#, r#"{"a":3,"b":2}"#);
    check(r#"{"a":1,"\u0061":2}"#, r#"{"a":2}"#);
    check(r#"{"x":0,"4294967295":1,"4294967294":2}"#, r#"{"4294967294":2,"x":0,"4294967295":1}"#);
    check(r#"{"\ud800":1,"\ud801":2}"#, r#"{"\ud800":1,"\ud801":2}"#);
    let many: Vec<String> = (0..100).map(|n| format!("\"k{n}\":{n}")).collect();
    let text = format!("{{{},\"k7\":\"last\"}}", many.join(","));
    assert!(stringify(&text, Style::Compact).contains(r#""k7":"last","k8":8"#));
}

#[test]
fn layout_is_two_spaces_and_no_final_newline() {
    assert_eq!(
        stringify(r#"{"a":[1,{"b":[]},{}],"c":{"d":null}}"#, Style::Pretty),
        "{\n  \"a\": [\n    1,\n    {\n      \"b\": []\n    },\n    {}\n  ],\n  \"c\": {\n    \"d\": null\n  }\n}"
    );
}

#[test]
fn tokens_stay_as_they_are() {
    let text = r#"{"b": "\u0041 \" \\", "1": [1e400, -0, 1.50, {}, [ ]], "b": null}"#;
    let compact = r#"{"b":"\u0041 \" \\","1":[1e400,-0,1.50,{},[]],"b":null}"#;
    assert_eq!(laid_out(text, Style::Compact), compact);
    assert_eq!(
        laid_out(text, Style::Pretty),
        "{\n  \"b\": \"\\u0041 \\\" \\\\\",\n  \"1\": [\n    1e400,\n    -0,\n    1.50,\n    {},\n    []\n  ],\n  \"b\": null\n}"
    );
}

#[test]
fn equal_values_are_recognised_whatever_their_text() {
    let same = |a: &str, b: &str| {
        let (a, b) = (Document::parse(a.into()).unwrap(), Document::parse(b.into()).unwrap());
        same_value(a.root(), b.root())
    };
    assert!(same(r#"{"a":1,"b":"\u0041"}"#, "{ \"b\": \"A\",\n \"a\": 1.0 }"));
    assert!(same(r#"{"a":0,"a":1}"#, r#"{"a":1}"#));
    assert!(!same(r#"{"a":1}"#, r#"{"a":1,"b":null}"#));
    assert!(!same(r#"["\ud800"]"#, r#"["\ud801"]"#));
    assert!(!same("1e400", "null"));
    assert!(!same("[1,2]", "[2,1]"));
}

proptest! {
    /// Writing is a fixed point, both layouts say the same, and serde agrees on what they say.
    #[test]
    fn written_texts_are_stable(text in any_json()) {
        let document = Document::parse(text.into_bytes()).unwrap();
        let written = |style, document: &Document| Document::written(style, document).unwrap();
        let (compact, pretty) = (written(Style::Compact, &document), written(Style::Pretty, &document));
        prop_assert_eq!(&written(Style::Compact, &pretty), &compact);
        prop_assert_eq!(&written(Style::Pretty, &compact), &pretty);
        prop_assert!(same_value(compact.root(), pretty.root()));
    }

    /// Another layout changes nothing but white space, and lines are broken where JavaScript breaks them.
    #[test]
    fn another_layout_has_the_same_tokens(text in any_json()) {
        let compact = laid_out(&text, Style::Compact);
        prop_assert_eq!(&compact, &without_space(&text));
        prop_assert_eq!(&without_space(&laid_out(&text, Style::Pretty)), &compact);
        let written = stringify(&text, Style::Compact);
        prop_assert_eq!(laid_out(&written, Style::Pretty), stringify(&written, Style::Pretty));
    }
}
