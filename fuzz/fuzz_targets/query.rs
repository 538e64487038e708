//! Any text: tokens in order, a query or a reason why not, what is printed is parsed again, snippets that fit. The first
//! line is a query and the rest what it was found in.
#![no_main]

use annals_core::search::{TokenCursor, query, snippet};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &str| {
    let (text, other) = input.split_once('\n').unwrap_or((input, ""));
    let width = input.len() % 256;
    for text in [text, other] {
        let mut tokens = TokenCursor::new(text);
        let (mut position, mut from) = (None, 0);
        while tokens.advance() {
            let token = tokens.token();
            assert!(!token.text.is_empty() && token.from >= from && token.from < token.to);
            assert!(text.get(token.from..token.to).is_some_and(|source| source.len() <= TokenCursor::MAX_BYTES));
            let next = position.map_or(0, |position| position + 1);
            assert!(token.position == next || Some(token.position) == position);
            (position, from) = (Some(token.position), token.from);
        }
    }
    let query = match query::parse(text) {
        Ok(query) => query,
        Err(error) => return assert!(text.is_char_boundary(error.at) && !error.to_string().is_empty()),
    };
    assert_eq!(query::parse(&query.to_string()).as_ref(), Ok(&query));
    let terms = query.highlights();
    for text in [text, other] {
        let found = snippet(text, &terms, width);
        assert!(found.text.chars().count() <= width.max(1) + TokenCursor::MAX_BYTES);
        assert!(
            found.highlights.iter().all(|range| !range.is_empty() && found.text.get(range.clone()).is_some())
        );
        assert!(found.highlights.windows(2).all(|pair| pair[0].end < pair[1].start));
        assert!(!found.text.contains(char::is_control));
        assert_eq!(found.hits == 0, found.highlights.is_empty());
    }
});
