//! Which texts are documents and which are not.

use annals_core::Document;
use annals_core::json::{Kind, Tape, same_value};
use proptest::prelude::*;
use serde_json::value::RawValue;

use super::any_json::any_json;

fn rejected(bytes: &[u8]) -> String {
    Document::parse(bytes.to_vec()).expect_err("this must be rejected").to_string()
}

#[test]
fn damage_is_named_with_its_place() {
    let check = |bytes: &[u8], message: &str| assert_eq!(rejected(bytes), message, "{bytes:?}");
    check(b"", "the document is empty");
    check(b" \n", "the document is empty");
    check(&[0; 512], "the document holds only NUL bytes; its text never reached the disk");
    check(b"{\"id\": \"ses_1", "1:8: the text ends inside a string".replace("1:8", "1:14").as_str());
    check(b"{\n  \"id\": \"ses_1\",\n  \"ti", "3:6: the text ends inside a string");
    check(b"{\"a\": 1", "1:8: the text ends inside an object");
    check(b"{\"a\"", "1:5: the text ends inside an object");
    check(b"{\"a\": ", "1:7: the text ends inside an object");
    check(b"[1, 2", "1:6: the text ends inside an array");
    check(b"[1,", "1:4: the text ends inside an array");
    check(b"tru", "1:4: the text ends inside a value");
    check(b"{\"a\": 1}{\"a\": 2}", "1:9: more text after the end of the document");
    check(b"{\"a\": 1}\n  \"old\": 2\n}", "2:3: more text after the end of the document");
    check(b"{\"a\": \"\xff\xfe\"}", "1:8: these bytes are not UTF-8");
    check(b"{\"a\": 1}\0\0\0", "1:9: more text after the end of the document");
    check(b"{\"a\": \"x\ny\"}", "1:9: control character 0x0a inside a string");
    check(b"{\"a\": \"\\q\"}", "1:8: `\\` is not followed by a JSON escape");
    check(b"{\"a\": \"\\u12g4\"}", "1:8: `\\` is not followed by a JSON escape");
    check(b"{a: 1}", "1:2: expected a key, found `a`");
    check(b"{\"a\" 1}", "1:6: expected `:`, found `1`");
    check(b"{\"a\": 1 \"b\": 2}", "1:9: expected `,` or `}`, found `\"`");
    check(b"[1 2]", "1:4: expected `,` or `]`, found `2`");
    check(b"[1,]", "1:4: expected a value, found `]`");
    check(b"[01]", "1:3: this is not a JSON number");
    check(b"[1.]", "1:4: this is not a JSON number");
    check(b"[NaN]", "1:2: expected a value, found `N`");
    check(b"\0{}", "1:1: expected a value, found byte 0x00");
}

/// Strings are scanned many bytes at a time.
#[test]
fn what_stands_anywhere_in_a_string_is_seen() {
    for lengths in [0..=100, 4090..=4200] {
        for before in lengths {
            let plain = "x".repeat(before);
            for (end, expected) in [
                ("\"", Ok(())),
                ("\\\"\"", Ok(())),
                ("\\u00e9y\"", Ok(())),
                ("é\"", Ok(())),
                ("", Err("the text ends inside a string")),
                ("\\", Err("the text ends inside a string")),
                ("\u{1}\"", Err("control character 0x01 inside a string")),
                ("\\q\"", Err("`\\` is not followed by a JSON escape")),
            ] {
                let found = Document::parse(format!("\"{plain}{end}").into_bytes()).map(drop);
                match (found, expected) {
                    (Ok(()), Ok(())) => {}
                    (Err(error), Err(expected)) => assert!(error.to_string().ends_with(expected), "{error}"),
                    (found, _) => panic!("{before} and {end:?}: {found:?}"),
                }
            }
        }
    }
}

#[test]
fn a_byte_order_mark_is_kept() {
    let document = Document::parse(b"\xef\xbb\xbf{\"a\": 1}".to_vec()).unwrap();
    assert_eq!(document.bytes(), b"\xef\xbb\xbf{\"a\": 1}");
    assert_eq!(document.root().get("a").unwrap().as_f64(), Some(1.0));
    assert_eq!(document.with(&["a"], &2.0).unwrap().bytes(), b"\xef\xbb\xbf{\"a\": 2}");
}

#[test]
fn what_serde_would_lose_is_kept() {
    let text = r#"{"s":"\ud83d","nul":"\u0000","d":1,"d":2,"z":-0,"big":1e400,"int":9007199254740993}"#;
    let document = Document::parse(text.into()).unwrap();
    assert_eq!(document.text(), text);
    let root = document.root();
    assert_eq!(root.get("s").unwrap().as_text().unwrap().to_str(), "\u{fffd}");
    assert_eq!(&*root.get("s").unwrap().as_text().unwrap().to_wtf8(), [0xed, 0xa0, 0xbd]);
    assert_eq!(root.get("nul").unwrap().as_text().unwrap().to_str(), "\0");
    assert_eq!(root.get("d").unwrap().raw(), "2", "of duplicates the last counts");
    assert_eq!(root.get("big").unwrap().as_f64(), Some(f64::INFINITY));
    assert_eq!(root.get("int").unwrap().raw(), "9007199254740993");
}

/// Deep documents pass through everything that walks values, on a thread with a small stack.
#[test]
fn depth_100_000_does_not_overflow_anything() {
    let depth = 100_000;
    let arrays = format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
    let objects = format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth));
    std::thread::Builder::new()
        .stack_size(256 * 1024)
        .spawn(move || {
            for text in [arrays, objects] {
                let inside = format!("{{\"deep\":{text},\"title\":\"x\"}}");
                let document = Document::parse(inside.clone().into_bytes()).unwrap();
                assert_eq!(document.text(), inside);
                assert!(same_value(document.root(), Document::new(&document).root()));
                let edited = document.with(&["title"], "y").unwrap();
                assert_eq!(edited.root().get("deep").unwrap().raw(), text);
                assert_eq!(document.without(&["deep"]).unwrap().text(), r#"{"title":"x"}"#);
                assert_eq!(document.lens::<annals_core::lens::Session<'_>>().title.unwrap(), "x");
            }
            let too_deep = "[".repeat(Tape::MAX_DEPTH + 1);
            assert!(rejected(too_deep.as_bytes()).contains("nested deeper than"));
        })
        .unwrap()
        .join()
        .expect("no stack overflow");
}

#[test]
fn members_and_items_stand_in_text_order() {
    let document = Document::parse(br#" {"a": [1, {"x": []}, "s"], "b": {}, "a": null} "#.to_vec()).unwrap();
    let keys: Vec<_> = document.root().members().map(|(key, value)| (key.to_string(), value.raw())).collect();
    let expected = [("a", r#"[1, {"x": []}, "s"]"#), ("b", "{}"), ("a", "null")];
    assert_eq!(keys, expected.map(|(key, raw)| (key.to_owned(), raw)));
    let first = document.root().members().next().unwrap().1;
    assert_eq!(first.items().map(|item| item.raw()).collect::<Vec<_>>(), ["1", r#"{"x": []}"#, r#""s""#]);
    assert_eq!(first.items().nth(1).unwrap().kind(), Kind::Object);
    assert_eq!(first.members().count(), 0);
}

proptest! {
    /// The grammar is serde_json's, whatever stands in the text.
    #[test]
    fn the_scanner_accepts_what_serde_accepts(text in any_json(), cut in 0usize..200, junk in "[\\[\\]{}\",:0-9a-z\\\\ .+-]{0,3}") {
        prop_assert!(Tape::scan(&text).is_ok(), "{text}");
        let mut at = cut.min(text.len());
        while !text.is_char_boundary(at) { at -= 1; }
        for changed in [text[..at].to_owned(), format!("{}{junk}{}", &text[..at], &text[at..]), format!("{text}{junk}")] {
            let serde = serde_json::from_str::<&RawValue>(&changed).is_ok();
            prop_assert_eq!(Tape::scan(&changed).is_ok(), serde, "{}", changed);
        }
    }

    #[test]
    fn no_bytes_make_it_panic(bytes: Vec<u8>) {
        if let Ok(document) = Document::parse(bytes.clone()) {
            prop_assert_eq!(document.bytes(), bytes);
        }
    }

    /// Strings that serde can hold read the same here.
    #[test]
    fn strings_decode_like_serdes(text in any_json()) {
        if let Ok(expected) = serde_json::from_str::<String>(&text) {
            let document = Document::parse(text.into_bytes()).unwrap();
            let found = document.root().as_text().unwrap();
            prop_assert_eq!(found.to_str(), expected.clone());
            prop_assert_eq!(found.utf16_len(), expected.encode_utf16().count());
            prop_assert_eq!(found.is_empty(), expected.is_empty());
        }
    }
}
