//! Arbitrary JSON texts, with everything in them that JavaScript writes and serde would not keep.

use proptest::prelude::*;

/// Any JSON document, up to a few levels deep.
pub(crate) fn any_json() -> BoxedStrategy<String> {
    let leaf = prop_oneof![scalar(), string()];
    leaf.prop_recursive(5, 60, 6, |inner| {
        prop_oneof![
            (space(), prop::collection::vec((space(), inner.clone(), space()), 0..6)).prop_map(
                |(empty, items)| {
                    let items: Vec<_> =
                        items.into_iter().map(|(a, item, b)| format!("{a}{item}{b}")).collect();
                    if items.is_empty() { format!("[{empty}]") } else { format!("[{}]", items.join(",")) }
                }
            ),
            object(inner),
        ]
    })
    .boxed()
}

/// Any JSON object.
pub(crate) fn any_object() -> BoxedStrategy<String> {
    object(any_json()).boxed()
}

fn object(value: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
    let member = (space(), key(), space(), space(), value, space());
    (space(), prop::collection::vec(member, 0..6)).prop_map(|(empty, members)| {
        let members: Vec<_> = members
            .into_iter()
            .map(|(a, key, b, c, value, d)| format!("{a}{key}{b}:{c}{value}{d}"))
            .collect();
        if members.is_empty() { format!("{{{empty}}}") } else { format!("{{{}}}", members.join(",")) }
    })
}

/// Keys of a small set, so that duplicates and the keys that tests edit do occur.
fn key() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => prop::sample::select(vec![
            r#""id""#, r#""title""#, r#""time""#, r#""created""#, r#""a""#, r#""b""#, r#""\u0061""#, r#""2""#, r#""10""#, r#""01""#,
            r#""__proto__""#, r#""""#, r#""4294967295""#, r#""4294967294""#,
        ]).prop_map(str::to_owned),
        1 => string(),
    ]
}

fn space() -> impl Strategy<Value = String> {
    prop_oneof![4 => Just(String::new()), 1 => "[ \t\r\n]{0,3}"]
}

fn scalar() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec![
            "true",
            "false",
            "null",
            "0",
            "-0",
            "1e400",
            "-1e400",
            "9007199254740993",
            "1.0",
            "1E5",
            "0.0000427",
            "1e-7",
            "1e21",
            "123456789012345678901234567890",
            "5e-324",
            "0.1",
            "-0.0",
        ])
        .prop_map(str::to_owned),
        any::<i64>().prop_map(|n| n.to_string()),
        any::<f64>().prop_filter("JSON has no NaN", |n| n.is_finite()).prop_map(|n| format!("{n:e}")),
    ]
}

/// A JSON string with raw characters, every kind of escape, and halves of surrogate pairs.
fn string() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        3 => "[a-zA-Z0-9 _./-]{0,8}",
        1 => any::<char>().prop_filter("must be escaped", |c| *c >= ' ' && *c != '"' && *c != '\\').prop_map(String::from),
        1 => prop::sample::select(vec![r#"\""#, r"\\", r"\/", r"\b", r"\f", r"\n", r"\r", r"\t"]).prop_map(str::to_owned),
        1 => any::<u16>().prop_map(|unit| format!("\\u{unit:04x}")),
        1 => any::<u16>().prop_map(|unit| format!("\\u{unit:04X}")),
        1 => (0xd800u16..0xdc00, 0xdc00u16..0xe000).prop_map(|(high, low)| format!("\\u{high:04x}\\u{low:04x}")),
        1 => prop::sample::select(vec!["\u{2028}", "\u{7f}", "\u{feff}", "é", "日本", "🎉", "\\u0000", "\\ud83d"]).prop_map(str::to_owned),
    ];
    prop::collection::vec(piece, 0..6).prop_map(|pieces| format!("\"{}\"", pieces.concat()))
}
