//! Edits change one field and no other byte.

use annals_core::Document;
use annals_core::json::{Kind, same_value};
use proptest::prelude::*;

use super::any_json::{any_json, any_object};

fn parse(text: &str) -> Document {
    Document::parse(text.as_bytes().to_vec()).unwrap()
}

#[test]
fn setting_a_field() {
    let check = |text: &str, path: &[&str], expected: &str| {
        assert_eq!(parse(text).with(path, "new").unwrap().text(), expected, "{text} {path:?}");
    };
    check(r#"{"title":"old","n":1e400}"#, &["title"], r#"{"title":"new","n":1e400}"#);
    check("{\n  \"title\": \"old\"\n}", &["title"], "{\n  \"title\": \"new\"\n}");
    check("{\n  \"id\": \"x\"\n}", &["title"], "{\n  \"id\": \"x\",\n  \"title\": \"new\"\n}");
    check(r#"{"id":"x"}"#, &["title"], r#"{"id":"x","title":"new"}"#);
    check("{}", &["title"], r#"{"title":"new"}"#);
    check("{ }", &["title"], r#"{"title":"new"}"#);
    check(r#"{"a":1,"title":1,"title":2}"#, &["title"], r#"{"a":1,"title":1,"title":"new"}"#);
    check(r#"{"\u0074itle":"old"}"#, &["title"], r#"{"\u0074itle":"new"}"#);
    check("{\n\t\"a\" : 1\n}", &["title"], "{\n\t\"a\" : 1,\n\t\"title\" : \"new\"\n}");
    check(
        "{\n  \"time\": {\n    \"created\": 1\n  },\n  \"z\": -0\n}",
        &["time", "archived"],
        "{\n  \"time\": {\n    \"created\": 1,\n    \"archived\": \"new\"\n  },\n  \"z\": -0\n}",
    );
    check(
        "{\n  \"id\": \"x\"\n}",
        &["time", "archived"],
        "{\n  \"id\": \"x\",\n  \"time\": {\n    \"archived\": \"new\"\n  }\n}",
    );
    check(
        "{\n  \"time\": {}\n}",
        &["time", "archived"],
        "{\n  \"time\": {\n    \"archived\": \"new\"\n  }\n}",
    );
}

#[test]
fn removing_a_field() {
    let check = |text: &str, path: &[&str], expected: &str| {
        assert_eq!(parse(text).without(path).unwrap().text(), expected, "{text} {path:?}");
    };
    check(r#"{"a":1,"share":{"url":"x"},"b":2}"#, &["share"], r#"{"a":1,"b":2}"#);
    check(r#"{"share":1,"b":2}"#, &["share"], r#"{"b":2}"#);
    check(r#"{"a":1,"share":1}"#, &["share"], r#"{"a":1}"#);
    check(r#"{"share":1}"#, &["share"], "{}");
    check("{\n  \"share\": 1\n}", &["share"], "{}");
    check("{\n  \"share\": 1,\n  \"b\": 2\n}", &["share"], "{\n  \"b\": 2\n}");
    check("{\n  \"a\": 1,\n  \"share\": 1\n}", &["share"], "{\n  \"a\": 1\n}");
    check(r#"{"share":1,"a":2,"share":3,"b":4,"share":5}"#, &["share"], r#"{"a":2,"b":4}"#);
    check(r#"{"time":{"created":1,"archived":2}}"#, &["time", "archived"], r#"{"time":{"created":1}}"#);
    check(r#"{"a":1}"#, &["share"], r#"{"a":1}"#);
    check(r#"{"a":1}"#, &["time", "archived"], r#"{"a":1}"#);
}

#[test]
fn a_field_inside_something_else_is_an_error() {
    let error = parse(r#"{"time":"noon"}"#).with(&["time", "archived"], "x").unwrap_err();
    assert_eq!(error.to_string(), "cannot edit `time.archived`: `time` is a string, not an object");
    let error = parse("[1]").with(&["title"], "x").unwrap_err();
    assert_eq!(error.to_string(), "cannot edit `title`: the document is an array, not an object");
}

proptest! {
    #[test]
    fn an_edit_changes_that_field_only(text in any_object(), value in any_json()) {
        // In JavaScript's own form, in which 1e400 does not survive.
        let (document, value) = (parse(&text), Document::new(&parse(&value)));
        let edited = document.with(&["title"], &value).unwrap();
        prop_assert!(same_value(edited.root().get("title").unwrap(), value.root()));
        let others = |document: &Document| -> Vec<(Vec<u8>, String)> {
            document.root().members().filter(|(key, _)| key != "title")
                .map(|(key, value)| (key.to_wtf8().into_owned(), value.raw().to_owned())).collect()
        };
        prop_assert_eq!(others(&document), others(&edited));
        if let Some(old) = document.root().get("title") {
            prop_assert_eq!(&text[..old.range().start], &edited.text()[..old.range().start]);
            prop_assert!(edited.text().ends_with(&text[old.range().end..]));
        }
        let removed = document.without(&["title"]).unwrap();
        prop_assert!(removed.root().get("title").is_none());
        prop_assert_eq!(others(&document), others(&removed));
    }

    #[test]
    fn a_nested_edit_changes_that_field_only(text in any_object()) {
        let document = parse(&text);
        let blocked = document.root().get("time").is_some_and(|time| time.kind() != Kind::Object);
        match document.with(&["time", "created"], &5.0) {
            Ok(edited) => {
                prop_assert!(!blocked);
                prop_assert_eq!(edited.root().at(&["time", "created"]).unwrap().as_f64(), Some(5.0));
                let again = edited.with(&["time", "created"], &5.0).unwrap();
                prop_assert_eq!(again.text(), edited.text());
            }
            Err(_) => prop_assert!(blocked),
        }
    }
}
