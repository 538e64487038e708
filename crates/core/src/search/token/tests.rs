use super::TokenCursor;

/// The tokens of a text as `text@position`, after checking what holds for any text.
fn tokens(text: &str) -> Vec<String> {
    let mut tokens = TokenCursor::new(text);
    let mut seen: Vec<(String, usize, usize, usize)> = Vec::new();
    while tokens.advance() {
        let token = tokens.token();
        assert!(!token.text.is_empty(), "{text:?}");
        assert!(
            token.from < token.to && text.is_char_boundary(token.from) && text.is_char_boundary(token.to)
        );
        match seen.last() {
            None => assert_eq!(token.position, 0),
            Some(&(_, before, from, to)) if token.position == before => {
                // Only the whole of a compound shares a position, with its first piece.
                assert!(from == token.from && token.to < to, "{text:?}");
            }
            Some(&(_, before, from, _)) => {
                assert_eq!(token.position, before + 1, "{text:?}");
                assert!(from < token.from);
            }
        }
        seen.push((token.text.to_owned(), token.position, token.from, token.to));
    }
    assert!(!tokens.advance() && !tokens.advance());
    seen.into_iter().map(|(text, position, ..)| format!("{text}@{position}")).collect()
}

fn check(text: &str, expected: &str) {
    assert_eq!(tokens(text).join(" "), expected, "{text:?}");
}

/// The source text of each token.
fn sources(text: &str) -> Vec<&str> {
    let mut tokens = TokenCursor::new(text);
    let mut sources = Vec::new();
    while tokens.advance() {
        sources.push(&text[tokens.token().from..tokens.token().to]);
    }
    sources
}

#[test]
fn words_are_runs_of_letters_and_numbers() {
    check("", "");
    check(" \n\t.,;-(){}[]<>\"'`~!@#$%^&*+=|\\/?:", "");
    check("one", "one@0");
    check("One TWO, three!", "one@0 two@1 three@2");
    check("src/search/token.rs:12", "src@0 search@1 token@2 rs@3 12@4");
    check("foo::bar", "foo@0 bar@1");
    check("it's 3.14", "it@0 s@1 3@2 14@3");
    check("a-b\r\nc\0d\u{7f}e", "a@0 b@1 c@2 d@3 e@4");
}

#[test]
fn compounds_give_the_whole_and_their_pieces() {
    check("getUserName", "getusername@0 get@0 user@1 name@2");
    check("get_user_name", "getusername@0 get@0 user@1 name@2");
    check("GetUserName", "getusername@0 get@0 user@1 name@2");
    check("GET_USER_NAME", "getusername@0 get@0 user@1 name@2");
    check("HTTPServer", "httpserver@0 http@0 server@1");
    check("parseHTTPServer2", "parsehttpserver2@0 parse@0 http@1 server@2 2@3");
    check("utf8", "utf8@0 utf@0 8@1");
    check("x86_64", "x8664@0 x@0 86@1 64@2");
    check("sha256Sum", "sha256sum@0 sha@0 256@1 sum@2");
    check("2nd", "2nd@0 2@0 nd@1");
    check("aB", "ab@0 a@0 b@1");
    check("ABc", "abc@0 a@0 bc@1");
    check("Ab", "ab@0");
    check("AB", "ab@0");
    check("A b", "a@0 b@1");
    check("now getUserName later", "now@0 getusername@1 get@1 user@2 name@3 later@4");
    check("a_b_c", "abc@0 a@0 b@1 c@2");
}

#[test]
fn plural_acronyms_are_one_piece() {
    check("URLs", "urls@0");
    check("parseURLs", "parseurls@0 parse@0 urls@1");
    check("IDsOfUsers", "idsofusers@0 ids@0 of@1 users@2");
    check("URLset", "urlset@0 ur@0 lset@1");
    check("IsASet", "isaset@0 is@0 a@1 set@2");
    check("DBs2", "dbs2@0 dbs@0 2@1");
}

#[test]
fn underscores_are_not_part_of_tokens() {
    check("_", "");
    check("____ __", "");
    check("_foo", "foo@0");
    check("__init__", "init@0");
    check("foo_ bar", "foo@0 bar@1");
    check("_a__b_", "ab@0 a@0 b@1");
    check("_é_", "é@0");
    check(&"_".repeat(1000), "");
    check(&format!("{}foo", "_".repeat(1000)), "foo@0");
    assert_eq!(sources("  __init__ "), ["init"]);
    assert_eq!(sources("_get_Name_"), ["get_Name", "get", "Name"]);
}

#[test]
fn hashes_and_ids_have_no_pieces() {
    check("e83c5163316f89bfbde7d9ab23ca2e25604af290", "e83c5163316f89bfbde7d9ab23ca2e25604af290@0");
    check("ses_36f8c0bdbffeJCGNOlUf64HURJ next", "ses36f8c0bdbffejcgnoluf64hurj@0 next@1");
    // Five numbers in an identifier are still an identifier.
    check("a1_b2_c3_d4", "a1b2c3d4@0 a@0 1@1 b@2 2@3 c@4 3@5 d@6 4@7");
}

#[test]
fn long_words_are_cut_and_have_no_pieces() {
    let limit = TokenCursor::MAX_BYTES;
    check(&"a".repeat(limit), &format!("{}@0", "a".repeat(limit)));
    check(&format!("{} b", "A".repeat(limit + 1)), &format!("{}@0 b@1", "a".repeat(limit)));
    check(&"aB".repeat(limit), &format!("{}@0", "ab".repeat(limit / 2)));
    check(&format!("a_{}", "b".repeat(limit)), &format!("a{}@0", "b".repeat(limit - 2)));
    // 64 is not a boundary between characters of three bytes.
    check(&"ḁ".repeat(limit), &format!("{}@0", "ḁ".repeat(21)));
    check(&format!("{}日", "x".repeat(limit + 9)), &format!("{}@0 日@1", "x".repeat(limit)));
    let long = "QUJD".repeat(1 << 18);
    assert_eq!(tokens(&long).len(), 1);
    assert_eq!(sources(&long)[0].len(), limit);
}

#[test]
fn any_script_is_folded() {
    check("Éclair ÉCLAIR éclair", "éclair@0 éclair@1 éclair@2");
    check("Straße", "straße@0");
    check("ΟΔΟΣ οδος", "οδοσ@0 οδοσ@1");
    check("İstanbul", "i\u{307}stanbul@0");
    check("Привет, МИР", "привет@0 мир@1");
    check("имяПользователя", "имяпользователя@0 имя@0 пользователя@1");
    check("ÜberHTTPÄnderung", "überhttpänderung@0 über@0 http@1 änderung@2");
    check("שלום עולם", "שלום@0 עולם@1");
    check("مرحبا بالعالم", "مرحبا@0 بالعالم@1");
    check("नमस्ते दुनिया", "नमस्ते@0 दुनिया@1");
    check("ﬁnd", "ﬁnd@0");
    check("naïve_Test2é", "naïvetest2é@0 naïve@0 test@1 2@2 é@3");
}

#[test]
fn marks_belong_to_the_word_and_joiners_are_invisible() {
    check("cafe\u{301} x", "cafe\u{301}@0 x@1");
    check("\u{301}abc", "abc@0");
    check("soft\u{ad}hyphen", "softhyphen@0");
    check("می\u{200c}خواهم", "میخواهم@0");
    check("a\u{200b}b", "a@0 b@1");
    check("\u{feff}bom", "bom@0");
    check("1\u{fe0f}\u{20e3}", "1\u{20e3}@0");
    check("e\u{301}E\u{301}", "e\u{301}e\u{301}@0 e\u{301}@0 e\u{301}@1");
}

#[test]
fn scripts_without_spaces_give_a_token_for_each_character() {
    check("日本語", "日@0 本@1 語@2");
    check("日本語のText検索", "日@0 本@1 語@2 の@3 text@4 検@5 索@6");
    check("한국어 검색", "한@0 국@1 어@2 검@3 색@4");
    check("カメラ・ー", "カ@0 メ@1 ラ@2 ー@3");
    check("ที่นี่", "ท@0 ี@1 ่@2 น@3 ี@4 ่@5");
    check("中文，句号。", "中@0 文@1 句@2 号@3");
    check("第2章", "第@0 2@1 章@2");
    assert_eq!(sources("a中b文"), ["a", "中", "b", "文"]);
}

#[test]
fn what_is_no_word_separates() {
    check("done 🎉🎉 next", "done@0 next@1");
    check("a👩‍👩‍👧b❤️c", "a@0 b@1 c@2");
    check("left\u{202e}right", "left@0 right@1");
    check("half \u{fffd}pair", "half@0 pair@1");
    check("“quoted”—dash…", "quoted@0 dash@1");
}

#[test]
fn sequences_for_terminals_are_no_text() {
    check("\u{1b}[31merror\u{1b}[0m: bad", "error@0 bad@1");
    check("\u{1b}[1;38;5;200mBold", "bold@0");
    check("foo\u{1b}[Kbar", "foo@0 bar@1");
    check("\u{1b}(B\u{1b}", "b@0");
    check("\u{1b}[31", "31@0");
    check("\u{1b}[31é\u{1b}[", "31é@0 31@0 é@1");
}

#[test]
fn offsets_say_where_it_stands() {
    assert_eq!(sources("Ein getUserName, ÄÖ 日"), ["Ein", "getUserName", "get", "User", "Name", "ÄÖ", "日"]);
}

#[test]
fn a_token_without_capitals_is_not_copied() {
    let text = "plain words";
    let mut tokens = TokenCursor::new(text);
    assert!(tokens.advance());
    assert_eq!(tokens.token().text.as_ptr(), text.as_ptr());
}

proptest::proptest! {
    #[test]
    fn any_text_has_tokens(text in ".*") {
        tokens(&text);
    }

    #[test]
    fn any_word_has_tokens(text in "[a-zA-Z0-9_éÉ\u{301}ßΣς日 \u{1b}\\[-]{0,80}") {
        tokens(&text);
    }

    /// Text can be cut between words: the tokens stay what they were.
    #[test]
    fn texts_can_be_joined(a in ".{0,40}", b in ".{0,40}") {
        let last = tokens(&a).last().and_then(|token| token.rsplit_once('@')?.1.parse::<usize>().ok());
        let offset = last.map_or(0, |last| last + 1);
        let shifted = tokens(&b).into_iter().map(|token| {
            let (text, position) = token.rsplit_once('@').unwrap();
            format!("{text}@{}", position.parse::<usize>().unwrap() + offset)
        });
        let joined: Vec<_> = tokens(&a).into_iter().chain(shifted).collect();
        proptest::prop_assert_eq!(tokens(&format!("{a}\n{b}")), joined);
    }
}

#[test]
fn numbers_of_lines_are_no_words() {
    let text = "<file>\n00001| export function cents() {\n00002|   return 12345| 7\n12345| }\n";
    check(text, "file@0 export@1 function@2 cents@3 return@4 12345@5 7@6");
    assert_eq!(tokens("404: not found").len(), 3);
}
