//! Finding what was said.

use annals_testkit::Fixture;
use insta::assert_snapshot;

use super::kit::{User, annals, text};

#[test]
fn hits_are_shown_with_what_was_found_and_how_to_open_it() {
    let user = User::with("opencode-1.1.65");
    assert_snapshot!(user.annals(&["search", "rounding", "-n", "5"]).run(), @r#"
    exit 0
    385744  "Health" helper & rounding  shop-api · Fri 10:15
      assistant · 2026-02-20 10:15 · msg_c7a8bba46001
        The rounding is the interesting one.
      assistant · edit · 2026-02-20 10:15 · msg_c7a8bba46001
        …@@ -1,4 +1,4 @@ -// TODO: rounding of negative amounts +// rounds half up
        export function cents(amount: number) { return Math.round(amount * 100) }

    3761c63  Rounding of negative amounts (2)  shop-api · Mon 09:45

    39020f3  Rounding of negative amounts  scratch · Feb 18 08:30
    -- stderr
    5 of 16 hits; `annals show SESSION --message MESSAGE` reads one
    "#);
    assert_snapshot!(user.annals(&["search", "rounding", "-n", "2", "--offset", "5"]).run(), @r#"
    exit 0
    37f7fee  Find TODO markers (@general subagent)  shop-api · Sat 14:00
      assistant · 2026-02-21 14:00 · msg_c808014a1001
        - src/server.ts:9 health endpoint - src/util/money.ts:1 rounding

    385744  "Health" helper & rounding  shop-api · Fri 10:15
      assistant · read · 2026-02-20 10:15 · msg_c7a8bb909001
        …<content>1: // TODO: rounding of negative amounts 2: export function
        cents(amount: number) { 3: return Math.round(amount * 100) 4: } 5: (End of
        file -…
    -- stderr
    from 6, 2 of 16 hits; `annals show SESSION --message MESSAGE` reads one
    "#);
    assert_snapshot!(user.annals(&["search", "--tool", "bash", "src", "-n", "2"]).run(), @r#"
    exit 0
    385744  "Health" helper & rounding  shop-api · Fri 10:15
      assistant · bash · 2026-02-20 10:15 · msg_c7a8bbccc001
        ls src/util && wc -l src/util/*.ts

    36f8cb  Running the service locally (2)  shop-api · 19h ago
      assistant · bash · 2026-02-24 16:20 · msg_c90734f07001
        echo hello; ls src
    -- stderr
    2 of 2 hits; `annals show SESSION --message MESSAGE` reads one
    "#);
    assert_snapshot!(user.annals(&["search", "--regex", r"TODO.*\d", "-n", "1"]).run(), @"
    exit 0
    36f8c0  TODO markers in src (2)  shop-api · 19h ago
      you · message · 2026-02-24 16:20 · msg_c9073f42e001
        TODO markers in src (2)
    -- stderr
    1 of 4 hits; `annals show SESSION --message MESSAGE` reads one
    ");
    // What it says to run works with the ids it shows.
    let found = user.annals(&["search", "rounding"]).run().ok().text();
    let mut session = "";
    let mut n_opened = 0;
    for line in found.lines().filter(|line| !line.is_empty() && !line.starts_with("    ")) {
        match line.strip_prefix("  ") {
            None => session = line.split(' ').next().unwrap(),
            Some(facts) => {
                let message = facts.rsplit(" · ").next().unwrap();
                let shown = user.annals(&["show", session, "--message", message]).run().ok().text();
                assert!(shown.lines().count() > 4 && !shown.contains("no messages"), "{line}: {shown}");
                n_opened += 1;
            }
        }
    }
    assert!(n_opened > 5, "{found}");
}

#[test]
fn words_are_found_in_their_other_forms() {
    let user = User::new();
    user.write_session("36aaaaffe1", "Payments", "The customer was refunded", "Refunds are slow");
    for word in ["refund", "refunds", "refunding", "Refunded"] {
        let hits = user.annals(&["search", word, "--json"]).run().ok().json();
        assert_eq!(hits.as_array().unwrap().len(), 2, "{word}: {hits}");
    }
    let exact = user.annals(&["search", "\"refunds\"", "--json"]).run().ok().json();
    assert_eq!(exact.as_array().unwrap().len(), 1, "{exact}");
    // As it is written comes first.
    let first = user.annals(&["search", "refunded", "--json"]).run().ok().json();
    assert_eq!(first[0]["snippet"], "The customer was refunded");
    // A home without an index is searched by the same rule.
    let directly = user.annals(&["--home", user.opencode().to_str().unwrap(), "search", "refund", "--json"]);
    assert_eq!(directly.run().ok().json().as_array().unwrap().len(), 2);
}

#[test]
fn a_hit_is_shown_with_the_lines_around_it() {
    let user = User::new();
    let answer = r"first\n  indented\nthe empty cart\nafter\nlast";
    user.write_session("36aaaaffe1", "Fix it", "Look", answer);
    assert_snapshot!(user.annals(&["search", "cart", "-C", "1"]).run(), @"
    exit 0
    36aaaa  Fix it  dev · 19h ago
      assistant · 2026-02-24 16:20 · msg_36aaaaffe12
        │   indented
        │ the empty cart
        │ after
    -- stderr
    1 of 1 hit; `annals show SESSION --message MESSAGE` reads one
    ");
    assert_snapshot!(user.annals(&["search", "--regex", "empty c.rt", "-C", "1"]).run(), @"
    exit 0
    36aaaa  Fix it  dev · 19h ago
      assistant · 2026-02-24 16:20 · msg_36aaaaffe12
        │   indented
        │ the empty cart
        │ after
    -- stderr
    1 of 1 hit; `annals show SESSION --message MESSAGE` reads one
    ");
}

#[test]
fn without_hits_it_says_what_to_try() {
    let user = User::new();
    user.write_session(
        "36aaaaffe1",
        "Payments",
        "The customer was refunded",
        "Refunds are slow; invoices too",
    );
    assert_snapshot!(user.annals(&["search", "refudn"]).run(), @r#"
    exit 0
    -- stderr
    no hits
    hint: "refudn" does not occur; did you mean refunds?
    hint: `--substring` also finds text inside of words
    "#);
    assert_snapshot!(user.annals(&["search", "invo"]).run(), @"
    exit 0
    -- stderr
    no hits
    hint: `invo*`, words that begin with it, has 1 hit
    hint: `--substring` also finds text inside of words
    ");
    assert_snapshot!(user.annals(&["search", "customer", "zanzibar", "--since", "1d"]).run(), @r#"
    exit 0
    -- stderr
    no hits
    hint: "customer" alone has 1 hit
    hint: the search was narrowed; without filters there may be hits
    hint: `--substring` also finds text inside of words
    "#);
}

#[test]
fn what_was_found_stands_out() {
    let user = User::new();
    user.write_session("36aaaaffe1", "Fix the cart", "The CART is empty", "No cart there");
    let painted = user.annals(&["search", "cart", "--color", "always"]).run().ok().text();
    assert_eq!(painted.matches("\u{1b}[1m\u{1b}[33m").count(), 3, "{painted:?}");
    let plain = user.annals(&["search", "cart", "--color", "never"]).run().ok().text();
    let mut stripped = painted;
    while let Some(at) = stripped.find('\u{1b}') {
        let end = at + stripped[at..].find('m').unwrap();
        stripped.replace_range(at..=end, "");
    }
    assert_eq!(stripped, plain);
}

#[test]
fn hits_for_programs() {
    let user = User::new();
    user.write_session("36aaaaffe1", "Fix the cart", "Größe: the cart is empty", "Nothing");
    let hits = user.annals(&["search", "cart", "role:user", "--json"]).run().ok().json();
    assert_snapshot!(serde_json::to_string_pretty(&hits).unwrap().replace(&hits[0]["score"].to_string(), "SCORE"), @r#"
    [
      {
        "sessionID": "ses_36aaaaffe1",
        "messageID": "msg_36aaaaffe11",
        "partID": "prt_36aaaaffe11",
        "title": "Fix the cart",
        "role": "user",
        "type": "text",
        "tool": null,
        "time": 1771950000001,
        "score": SCORE,
        "snippet": "Größe: the cart is empty",
        "highlights": [
          [
            11,
            15
          ]
        ]
      }
    ]
    "#);
    let snippet: Vec<char> = text(&hits[0], "snippet").chars().collect();
    let [from, to] = [0, 1].map(|n| hits[0]["highlights"][0][n].as_u64().unwrap() as usize);
    assert_eq!(snippet[from..to].iter().collect::<String>(), "cart");
}

#[test]
fn filters_narrow_a_search() {
    let user = User::with("opencode-1.1.65");
    let n = |arguments: &[&str]| {
        let limit = if arguments.contains(&"-n") { &[][..] } else { &["-n", "1000"] };
        let arguments = [&["search", "--json"], limit, arguments].concat();
        user.annals(&arguments).run().ok().json().as_array().unwrap().len()
    };
    let all = n(&["rounding"]);
    assert!(all > n(&["rounding", "--role", "assistant"]));
    assert_eq!(n(&["rounding", "--role", "assistant"]), n(&["rounding role:assistant"]));
    assert_eq!(n(&["rounding", "--tool", "edit"]), n(&["rounding tool:edit"]));
    assert_eq!(n(&["rounding", "--since", "2026-02-21"]), n(&["rounding since:2026-02-21"]));
    assert_eq!(n(&["rounding", "--since", "2026-02-21"]) + n(&["rounding until:2026-02-21"]), all);
    assert_eq!(n(&["rounding", "--dir", "/nowhere"]), 0);
    assert_eq!(n(&["rounding dir:/nowhere"]), 0);
    assert_eq!(n(&["rounding", "--project", "notes-cli"]), n(&["rounding project:notes-cli"]));
    assert_eq!(n(&["rounding", "--type", "title"]), n(&["rounding type:title"]));
    assert!(n(&["rounding", "--archived"]) < all && n(&["rounding", "--roots"]) < all);
    assert!(n(&["--substring", "rounding"]) <= n(&["--substring", "-i", "ROUNDING"]));
    assert_eq!(n(&["--substring", "ROUNDING"]), 0);
    assert!(n(&["--regex", "round(s|ing)"]) > 0);
    assert_eq!(n(&["rounding", "-n", "0"]), 0);
}

#[test]
fn queries_that_cannot_be_answered() {
    let user = User::new();
    user.write_session("36aaaaffe1", "Fix the cart", "It is empty", "Nothing");
    assert_snapshot!(user.annals(&["search", "fix \"the cart"]).run(), @r#"
    exit 2
    -- stderr
    error: a quotation mark is not closed
      fix "the cart
          ^
    hint: `annals search --help` shows what a query can be
    "#);
    assert_snapshot!(user.annals(&["search", "fix (the OR cart"]).run(), @"
    exit 2
    -- stderr
    error: unbalanced (: it is not closed
      fix (the OR cart
          ^
    hint: `annals search --help` shows what a query can be
    ");
    assert_snapshot!(user.annals(&["search", "cart OR since:7d"]).run(), @"
    exit 2
    -- stderr
    error: `since:` cannot be used inside OR, NOT or parentheses
    hint: put `since:7d` beside them: it narrows the whole search
    ");
    assert_snapshot!(user.annals(&["search", "since:7d"]).run(), @"
    exit 2
    -- stderr
    error: nothing to search for: add a word
    hint: `annals list` shows sessions by project, directory and time
    ");
    assert_snapshot!(user.annals(&["search", "cart since:soon"]).run(), @r#"
    exit 2
    -- stderr
    error: "soon" is not a time
    hint: times look like 2026-02-01, 2026-02-01T10:00, 2026-02, 7d, 12h, today, monday or "last week"
    "#);
    assert_snapshot!(user.annals(&["search", "cart project:a project:b"]).run(), @"
    exit 2
    -- stderr
    error: project is given more than once
    ");
    assert_snapshot!(user.annals(&["search", "--regex", "a(b"]).run(), @"
    exit 2
    -- stderr
    error: invalid regular expression
      regex parse error:
          a(b
           ^
      error: unclosed group
    hint: `--substring` takes the query literally
    ");
    assert_snapshot!(user.annals(&["search"]).run(), @"
    exit 2
    -- stderr
    error: the following required arguments were not provided:
      <QUERY>...

    Usage: annals search <QUERY>...

    For more information, try '--help'.
    ");
    assert_snapshot!(user.annals(&["search", "nothinglikethis"]).run(), @"
    exit 0
    -- stderr
    no hits
    hint: `--substring` also finds text inside of words
    ");
    assert_snapshot!(user.annals(&["search", "nothinglikethis", "--json"]).run(), @"
    exit 0
    []
    ");
    assert_snapshot!(user.annals(&["search", "cart", "--offset", "10"]).run(), @"
    exit 0
    -- stderr
    only 1 hit
    ");
}

/// A home of OpenCode is searched through a store that is gone afterwards.
#[test]
fn any_home_can_be_searched() {
    for fixture in ["opencode-1.1.65", "small-1.2.27", "small-1.18.33"] {
        let fixture = Fixture::unpack(fixture);
        let temporary = tempfile::tempdir().unwrap();
        let home = match fixture.home().join("opencode.db") {
            database if database.is_file() => database,
            _ => fixture.home().to_owned(),
        };
        let ran = annals(&home, &["search", "note OR rounding", "-v", "--json"])
            .env("TMPDIR", temporary.path())
            .run()
            .ok();
        assert!(!ran.json().as_array().unwrap().is_empty(), "{ran}");
        assert!(ran.stderr.contains("searching a temporary store"), "{ran}");
        assert_eq!(std::fs::read_dir(temporary.path()).unwrap().count(), 0);
        assert!(!fixture.home().join(".local").exists());
    }
}

/// What OpenCode writes between two searches is found by the second.
#[test]
fn the_index_follows() {
    let user = User::new();
    user.write_session("36aaaaffe1", "Fix the cart", "It is empty", "Nothing");
    let n = |word: &str| user.annals(&["search", word, "--json"]).run().ok().json().as_array().unwrap().len();
    assert_eq!((n("xylophone"), n("nothing")), (0, 1));
    user.write_session("36aaaaffe1", "Fix the cart", "It is empty", "A xylophone");
    assert_eq!((n("xylophone"), n("nothing")), (1, 0));
    let unsynced = user.annals(&["search", "xylophone", "--no-sync", "--json"]).run().ok().json();
    assert_eq!(unsynced.as_array().unwrap().len(), 1);
}

#[test]
fn a_damaged_index_is_made_anew() {
    let user = User::with("opencode-1.1.65");
    let found = user.annals(&["search", "file", "-n", "1"]).run().to_string();
    let index = user.store().with_extension("index");
    for entry in std::fs::read_dir(&index).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "term") {
            std::fs::write(&path, b"not what it was").unwrap();
        }
    }
    let without = user.annals(&["search", "file", "-n", "1", "--no-sync"]).run().to_string();
    assert!(without.contains("exit 1") && without.contains("annals reindex"), "{without}");
    let again = user.annals(&["search", "file", "-n", "1"]).run().to_string();
    assert!(again.contains("warning: the text index is damaged and is being rebuilt"), "{again}");
    assert_eq!(again.replace("warning: the text index is damaged and is being rebuilt\n", ""), found);
    assert_eq!(user.annals(&["search", "file", "-n", "1"]).run().to_string(), found);
}
