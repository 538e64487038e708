use proptest::prelude::*;

use super::{MAX_BYTES, Snippet, of_document, snippet};
use crate::id::{MessageId, PartId, SessionId};
use crate::search::query;
use crate::{Document, Key};

fn find(query: &str, text: &str, width: usize) -> Snippet {
    let found = snippet(text, &query::parse(query).unwrap().highlights(), width);
    holds(&found);
    found
}

/// What holds for any snippet.
fn holds(found: &Snippet) {
    let mut end = None;
    for highlight in &found.highlights {
        assert!(highlight.start < highlight.end && end.is_none_or(|end| end < highlight.start), "{found:?}");
        assert!(found.text.get(highlight.clone()).is_some(), "{found:?}");
        end = Some(highlight.end);
    }
    assert!(!found.text.contains(|c: char| c.is_control()), "{found:?}");
    assert!(!found.text.contains("  ") && found.text.trim() == found.text, "{found:?}");
    assert_eq!(found.hits == 0, found.distinct == 0);
}

/// The snippet with its highlights in brackets and its ellipses.
fn show(found: &Snippet) -> String {
    let mut shown = String::from(if found.is_cut_before { "…" } else { "" });
    let mut at = 0;
    for highlight in &found.highlights {
        shown += &found.text[at..highlight.start];
        shown += &format!("[{}]", &found.text[highlight.clone()]);
        at = highlight.end;
    }
    shown + &found.text[at..] + if found.is_cut_after { "…" } else { "" }
}

fn check(query: &str, text: &str, width: usize, expected: &str) {
    assert_eq!(show(&find(query, text, width)), expected, "{query}: {text}");
}

#[test]
fn a_short_text_is_shown_whole() {
    check("fox", "The quick brown fox.", 80, "The quick brown [fox].");
    check("fox", "  The\n\n\tquick\r\nbrown\u{a0}fox. ", 80, "The quick brown [fox].");
    check("fox", "", 80, "");
    check("fox", " \n ", 80, "");
}

#[test]
fn without_a_hit_it_is_the_beginning() {
    check("cat", "The quick brown fox jumps.", 12, "The quick…");
    check("tool:bash", "The quick brown fox jumps.", 80, "The quick brown fox jumps.");
    check("cat", &"x".repeat(100), 10, "xxxxxxxxxx…");
}

#[test]
fn a_long_text_is_cut_between_words() {
    let text = "one two three four five six seven eight nine ten eleven twelve";
    check("six", text, 20, "…five [six] seven eight…");
    check("one", text, 20, "[one] two three four…");
    check("twelve", text, 20, "…ten eleven [twelve]");
    check("six", text, 3, "…[six]…");
    check("six", text, 0, "…[six]…");
    check("six", text, usize::MAX, &text.replace("six", "[six]"));
}

#[test]
fn the_piece_with_most_terms_is_shown() {
    let filler = "and so on ".repeat(20);
    let text = format!("alpha alpha alpha {filler} alpha beta {filler} beta alpha beta {filler}");
    check("alpha beta", &text, 20, "…[beta] [alpha] [beta] and…");
    check("alpha", &text, 20, "[alpha] [alpha] [alpha]…");
    let found = find("alpha beta", &text, 20);
    assert_eq!((found.distinct, found.hits), (2, 3));
    // Of equals the first.
    check("x", "x one two three x four five six x", 6, "[x] one…");
}

#[test]
fn hits_are_words_pieces_and_beginnings() {
    check("user", "calls getUserName()", 80, "calls get[User]Name()");
    check("getUserName", "calls getUserName()", 80, "calls [getUserName]()");
    check("get_user_name", "calls getUserName()", 80, "calls [getUserName]()");
    check("pars*", "A Parser parsed it", 80, "A [Parser] [parsed] it");
    check("\"not found\"", "not yet, not found", 80, "not yet, [not] [found]");
    check("日本", "これは日本語です", 80, "これは[日本]語です");
    check("fox -cat", "fox and cat", 80, "[fox] and cat");
}

#[test]
fn ugly_text_does_no_harm() {
    check("error", "\u{1b}[31merror\u{1b}[0m: bad", 80, "[error]: bad");
    check("b", "a\0\u{7}b\u{202e}c\u{85}d", 80, "a [b]c d");
    check("日", "日\u{202e}日\u{1b}[1m日", 80, "[日日日]");
    check("foo", "x foo\u{feff} y", 80, "x [foo] y");
    check("שלום", "אמר שלום לעולם", 80, "אמר [שלום] לעולם");
    check("café", "un cafe\u{301}", 80, "un cafe\u{301}");
    check("cafe\u{301}", "un CAFE\u{301}!", 80, "un [CAFE\u{301}]!");
    check("done", "🎉🎉 done 👩‍👩‍👧", 80, "🎉🎉 [done] 👩‍👩‍👧");
    check("語", &format!("{}語{}", "日".repeat(1000), "本".repeat(1000)), 5, "…日日[語]本本…");
    check("hit", &format!("{} hit {}", "x".repeat(500), "y".repeat(500)), 20, "…[hit]…");
    check("hit", "some/very/long/path/hit/and/more", 14, "…path/[hit]/and/…");
    check("\u{301}a", "\u{301}a", 80, "\u{301}[a]");
}

#[test]
fn white_space_is_not_counted() {
    let gap = " \n".repeat(5000);
    check("two", &format!("one{gap}two{gap}three"), 20, "one [two] three");
    check("one three", &format!("one{gap}two{gap}three"), 20, "[one] two [three]");
}

#[test]
fn long_words_are_hits_by_their_beginning() {
    let word = "a".repeat(1 << 20);
    let found = find(&word, &format!("begin {word} end"), 100);
    assert_eq!((found.highlights.len(), found.highlights[0].clone()), (1, 6..70));
    assert!(found.is_cut_after && !found.is_cut_before);
    let found = find(&word, &word, 10);
    assert_eq!((found.text.len(), found.highlights.len()), (64, 1));
}

#[test]
fn only_so_much_is_looked_at() {
    let text = format!("begin {}needle", "é ".repeat(MAX_BYTES / 3 - 8));
    check("needle", &text, 11, "…é é [needle]");
    let text = format!("begin {}needle", "hay ".repeat(MAX_BYTES / 4));
    assert_eq!(find("needle", &text, 9).text, "begin hay");
    assert_eq!(find("hay", &text, 100_000).hits, 25_000);
    let all = vec!["a"; 900].join(" ");
    assert_eq!(find(&all, &"a ".repeat(MAX_BYTES), 100).hits, 50);
}

#[test]
fn of_a_document_the_best_string_is_shown() {
    let message = MessageId::parse("msg_1").unwrap();
    let key = Key::Part(SessionId::parse("ses_1").unwrap(), message, PartId::parse("prt_1").unwrap());
    let json = r#"{"type":"tool","state":{"title":"an error","input":{"command":"make"},"output":"make: error\n1"}}"#;
    let document = Document::parse(json.as_bytes().to_vec()).unwrap();
    let of = |query: &str| of_document(&key, &document, &query::parse(query).unwrap().highlights(), 80);
    assert_eq!(show(&of("make error").unwrap()), "[make]: [error] 1");
    assert_eq!(show(&of("error").unwrap()), "an [error]");
    assert_eq!(show(&of("other").unwrap()), "an error");
    let empty = Document::parse(br#"{"type":"step-start"}"#.to_vec()).unwrap();
    assert_eq!(of_document(&key, &empty, &query::parse("a").unwrap().highlights(), 80), None);
}

proptest! {
    #[test]
    fn any_text_has_snippets(
        text in "([a-c]{1,3}|[ \n\t_./é日\u{301}\u{1b}\u{202e}🎉-]|getUser|\u{1b}\\[1m){0,60}",
        query in "[a-c]{1,2}( [a-c]{1,2}\\*?| \"a b\"| getUser| 日){0,3}",
        width in 0_usize..60,
    ) {
        let found = find(&query, &text, width);
        // A hit may be wider than the width, and then a compound with all its pieces.
        prop_assert!(found.text.chars().count() <= width.max(1) + 64);
        prop_assert!(found.highlights.len() <= found.hits.max(found.highlights.len()));
        prop_assert_eq!(found.highlights.is_empty(), found.hits == 0);
    }

    #[test]
    fn any_string_has_snippets(text in ".*", word in "[a-z]", width in 0_usize..200) {
        find(&format!("{word}*"), &text, width);
    }
}
