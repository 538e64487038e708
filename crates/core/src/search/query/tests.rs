use proptest::prelude::*;

use super::{Match, Query, QueryErrorKind, QueryWords, parse};
use crate::search::TokenCursor;

/// A query as its structure, so that a test shows what binds how.
fn shape(query: &Query) -> String {
    let list = |items: &[Query]| items.iter().map(shape).collect::<Vec<_>>().join(" ");
    match query {
        Query::All(items) => format!("(all {})", list(items)),
        Query::Any(items) => format!("(any {})", list(items)),
        Query::Not(item) => format!("(not {})", shape(item)),
        Query::Words(words) => format!("{}{}", words.source(), if words.is_prefix() { "~" } else { "" }),
        Query::Filter(filter) => format!("{:?}={}", filter.field, filter.value),
    }
}

fn check(text: &str, expected: &str) {
    let query = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(shape(&query), expected, "{text}");
    holds(&query);
    assert_eq!(parse(&query.to_string()).as_ref(), Ok(&query), "{text}: printed as {query}");
}

fn check_error(text: &str, at: usize, kind: QueryErrorKind) {
    let error = parse(text).unwrap_err();
    assert_eq!((error.at, error.kind), (at, kind), "{text}");
}

/// What the docs of [`Query`] promise.
fn holds(query: &Query) {
    let is_not = |item: &Query| matches!(item, Query::Not(_));
    assert!(!is_not(query));
    match query {
        Query::All(items) => {
            assert!(items.len() > 1 && !items.iter().any(|item| matches!(item, Query::All(_))));
            assert!(!items.iter().all(is_not));
            for item in items {
                if let Query::Not(item) = item { holds(item) } else { holds(item) }
            }
        }
        Query::Any(items) => {
            assert!(items.len() > 1 && !items.iter().any(|item| matches!(item, Query::Any(_))));
            items.iter().for_each(holds);
        }
        Query::Words(words) => {
            let n = words.matches().iter().filter(|way| !matches!(way, Match::Form(_))).count();
            assert!(matches!(n, 1 | 2));
        }
        Query::Filter(filter) => assert!(!filter.value.is_empty()),
        Query::Not(_) => unreachable!(),
    }
}

#[test]
fn words_must_all_occur() {
    check("one", "one");
    check("  one\ttwo\n", "(all one two)");
    check("one AND two", "(all one two)");
    check("and or not", "(all and or not)");
    check("one, two!", "(all one, two!)");
    check("... one -> --- *", "one");
}

#[test]
fn phrases_and_beginnings() {
    check("\"one two\"", "one two");
    check("\"one two\"*", "one two~");
    check("one*", "one~");
    check("one***", "one~");
    check("foo_*", "foo_~");
    check("*one", "*one");
    check("one.*", "one.*");
    check("\"one*\"", "one*");
    check("\"one.\"*", "one.~");
    check("\"OR\" \"-x\" \"tool:bash\"", "(all OR -x tool:bash)");
    check("a\"b c\"d", "(all a b c d)");
    check("a \"\" \" - \"", "a");
    check(r#""C:\dir\" x"#, r"(all C:\dir\ x)");
}

#[test]
fn operators_bind_as_expected() {
    check("a OR b", "(any a b)");
    check("a b OR c", "(any (all a b) c)");
    check("a (b OR c)", "(all a (any b c))");
    check("(a b) c", "(all a b c)");
    check("a OR (b OR c)", "(any a b c)");
    check("((a))", "a");
    check("a -b", "(all a (not b))");
    check("NOT b a", "(all (not b) a)");
    check("a -(b c)", "(all a (not (all b c)))");
    check("a -\"b c\" -d*", "(all a (not b c) (not d~))");
    check("a (-b -c)", "(all a (not b) (not c))");
}

#[test]
fn double_negation_is_none() {
    check("NOT NOT a", "a");
    check("NOT -a", "a");
    check("-(-a) b", "(all a b)");
    check("-(-(a b)) c", "(all a b c)");
    assert_eq!(parse(&format!("{}a", "NOT ".repeat(100_000))), parse("a"));
}

#[test]
fn what_has_nothing_to_work_on_is_left_out() {
    check("a OR", "a");
    check("OR a", "a");
    check("a OR OR b", "(any a b)");
    check("a NOT", "a");
    check("a NOT OR b", "(any a b)");
    check("AND a AND AND b AND", "(all a b)");
    check("a () b", "(all a b)");
    check("a -() b", "(all a b)");
    check("a OR (-!!) b", "(any a b)");
    check("a NOT ... b", "(all a b)");
    check("main() - x", "(all main x)");
    check("parse(input, 1)", "(all parse input, 1)");
}

#[test]
fn dashes_inside_words_and_options_are_text() {
    check("--verbose", "--verbose");
    check("a --verbose -x", "(all a --verbose (not x))");
    check("well-known", "well-known");
    check("a NOT --verbose", "(all a (not --verbose))");
}

#[test]
fn filters_have_known_names() {
    check(
        "role:user tool:bash type:reasoning agent:build model:claude",
        "(all Role=user Tool=bash Type=reasoning Agent=build Model=claude)",
    );
    check(
        "project:shop dir:/path since:7d until:2026-01-01T10:00",
        "(all Project=shop Directory=/path Since=7d Until=2026-01-01T10:00)",
    );
    check("dir:\"/my (old) files\"x", "(all Directory=/my (old) files x)");
    check("a -tool:bash", "(all a (not Tool=bash))");
    check("tool:bash OR tool:edit", "(any Tool=bash Tool=edit)");
    check("http://x.y foo:bar Role:user :x a:", "(all http://x.y foo:bar Role:user :x a:)");
    check("tool: bash", "(all tool: bash)");
    check("tool:\"\" x", "(all tool: x)");
    check("tool:(a)", "(all tool: a)");
    check("model:claude*", "Model=claude*");
}

#[test]
fn errors_say_what_and_where() {
    check_error("", 0, QueryErrorKind::Nothing);
    check_error(" ... ", 0, QueryErrorKind::Nothing);
    check_error("OR NOT AND ()", 0, QueryErrorKind::Nothing);
    check_error("🎉", 0, QueryErrorKind::Nothing);
    check_error("a \"b", 2, QueryErrorKind::OpenQuote);
    check_error("tool:\"b", 5, QueryErrorKind::OpenQuote);
    check_error("a (b", 2, QueryErrorKind::OpenParenthesis);
    check_error("a (b (c)", 2, QueryErrorKind::OpenParenthesis);
    check_error("é b)", 4, QueryErrorKind::UnexpectedParenthesis);
    check_error(" -a -b", 2, QueryErrorKind::OnlyExclusions);
    check_error("-tool:bash", 1, QueryErrorKind::OnlyExclusions);
    check_error("a OR -b", 6, QueryErrorKind::OnlyExclusions);
    check_error("a -(b OR -c)", 10, QueryErrorKind::OnlyExclusions);
    check_error("a -(-b -c)", 3, QueryErrorKind::OnlyExclusions);
    let deep = |depth: usize| format!("{}a{}", "(".repeat(depth), ")".repeat(depth));
    check(&deep(QueryErrorKind::MAX_DEPTH), "a");
    check_error(&deep(QueryErrorKind::MAX_DEPTH + 1), QueryErrorKind::MAX_DEPTH, QueryErrorKind::TooDeep);
    check_error(&"(".repeat(1 << 20), QueryErrorKind::MAX_DEPTH, QueryErrorKind::TooDeep);
    assert!(parse(&"a ".repeat(1000)).is_ok());
    check_error(&"a ".repeat(1001), 2000, QueryErrorKind::TooLong);
    check_error(&"a-".repeat(1001), 0, QueryErrorKind::TooLong);
    assert!(parse(&"a".repeat(1 << 20)).is_ok());
}

#[test]
fn errors_are_sentences() {
    for (text, expected) in [
        ("", "nothing to search for"),
        ("-a", "only exclusions: add a word that must occur"),
        ("\"a", "a quotation mark is not closed"),
        ("(a", "unbalanced (: it is not closed"),
        ("a)", "unbalanced ): nothing is open here"),
    ] {
        assert_eq!(parse(text).unwrap_err().to_string(), expected);
    }
    assert!(QueryErrorKind::TooDeep.to_string().contains("50"));
    assert!(QueryErrorKind::TooLong.to_string().contains("1000"));
}

#[test]
fn words_match_as_tokens_do() {
    let term = |word: &str| Match::Term(word.to_owned());
    let prefix = |word: &str| Match::Prefix(word.to_owned());
    let phrase = |words: &str| Match::Phrase(words.split(' ').map(str::to_owned).collect());
    let phrase_prefix = |words: &str| Match::PhrasePrefix(words.split(' ').map(str::to_owned).collect());
    let check = |text: &str, expected: &[Match]| {
        let Ok(Query::Words(words)) = parse(text) else { panic!("{text}") };
        assert_eq!(words.matches(), expected, "{text}");
    };
    let form = |word: &str| Match::Form(word.to_owned());
    check("Word", &[term("word"), form("worded"), form("wording"), form("words")]);
    check("\"Word\"", &[term("word")]);
    check("word,", &[term("word")]);
    check("--verbose", &[term("verbose")]);
    check("Pre*", &[prefix("pre")]);
    check("\"A phrase\"", &[phrase("a phrase")]);
    check("src/foo/bar.rs", &[phrase("src foo bar rs")]);
    check("foo::ba*", &[phrase_prefix("foo ba")]);
    check("getUserName", &[term("getusername"), phrase("get user name")]);
    check("get_user_na*", &[prefix("getuserna"), phrase_prefix("get user na")]);
    check("\"getUserName\"", &[term("getusername"), phrase("get user name")]);
    check("__init__", &[term("init")]);
    check("utf8", &[term("utf8"), phrase("utf 8")]);
    check("\"call getUserName now\"", &[phrase("call get user name now")]);
    check("getUser.userName", &[phrase("get user user name")]);
    check("x.getUser", &[phrase("x get user")]);
    check("日本語", &[phrase("日 本 語")]);
    check("日", &[term("日")]);
    check(&"x".repeat(1000), &[term(&"x".repeat(64))]);
}

/// Pieces that queries are made of, so that chance finds more than words.
fn any_query() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => "[a-zé]{1,3}",
        2 => prop::sample::select(vec![
            " ", " ", " ", "(", ")", "\"", "-", "*", ":", "OR", " OR ", " NOT ", " AND ", "tool:", "dir:", "http:", "_",
            "getUser", "日", "\u{301}", "İ", "𝐀a", "A𝐀", "\u{200d}", "1", ".",
        ]).prop_map(str::to_owned),
        1 => any::<char>().prop_map(String::from),
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

/// Whether an index that holds the tokens of `text` would find it.
fn finds(wanted: &Match, text: &str) -> bool {
    let mut tokens = TokenCursor::new(text);
    let mut at = Vec::<Vec<String>>::new();
    while tokens.advance() {
        let token = tokens.token();
        at.resize(token.position + 1, Vec::new());
        at[token.position].push(token.text.to_owned());
    }
    let (words, is_prefix) = match wanted {
        Match::Term(word) | Match::Form(word) => (std::slice::from_ref(word), false),
        Match::Prefix(word) => (std::slice::from_ref(word), true),
        Match::Phrase(words) => (words.as_slice(), false),
        Match::PhrasePrefix(words) => (words.as_slice(), true),
    };
    at.windows(words.len()).any(|places| {
        places.iter().zip(words).enumerate().all(|(n, (place, word))| {
            let is_begin = is_prefix && n + 1 == words.len();
            place.iter().any(|token| token == word || is_begin && token.starts_with(word.as_str()))
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    /// Whatever stands in a text finds it, and so does the beginning of a word.
    #[test]
    fn a_text_is_found_by_what_it_says(
        before in ".{0,10}", source in "[a-zA-Z0-9_éÉßΣ日\u{301} ./:-]{0,12}[a-zA-Z0-9é日]", after in ".{0,10}",
    ) {
        let text = format!("{before}\n{source}\n{after}");
        let words = QueryWords::new(&source, false, true);
        prop_assert!(words.matches().iter().any(|wanted| finds(wanted, &text)), "{:?}", words.matches());
        let begin = QueryWords::new(&source, true, true);
        let text = format!("{before}\n{}c\n{after}", begin.source);
        // Capitals may make other pieces of a word that goes on.
        let goes_on = begin.source.ends_with(|c: char| c.is_ascii_lowercase())
            && !begin.source.contains(char::is_uppercase);
        prop_assert!(!goes_on || begin.matches().iter().any(|wanted| finds(wanted, &text)));
    }

    #[test]
    fn any_text_is_a_query_or_an_error(text in any_query()) {
        match parse(&text) {
            Ok(query) => {
                holds(&query);
                let printed = query.to_string();
                prop_assert_eq!(parse(&printed), Ok(query), "printed as {}", printed);
            }
            Err(error) => prop_assert!(text.is_char_boundary(error.at)),
        }
    }
}

#[test]
fn any_words_can_be_written() {
    for source in ["a", "OR", "-a", "--a", "tool:x", "a b", "a(b", "a*", "a.", "http://x"] {
        for is_prefix in [false, true] {
            let query = Query::Words(QueryWords::new(source, is_prefix, false));
            assert_eq!(parse(&query.to_string()), Ok(query));
        }
    }
}
