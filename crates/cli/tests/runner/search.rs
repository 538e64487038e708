//! Finding what was said.

use annals_testkit::Fixture;
use insta::assert_snapshot;

use super::kit::{User, annals, text};

#[test]
fn hits_are_shown_with_what_was_found_and_how_to_open_it() {
    let user = User::with("opencode-1.1.65");
    assert_snapshot!(user.annals(&["search", "rounding", "-n", "5"]).run(), @r#"
    exit 0
    385744ad0  "Health" helper & rounding
      assistant · 2026-02-20 10:15
        The rounding is the interesting one.
        annals show 385744ad0 --message msg_c7a8bba46001

    3761c63d8  Rounding of negative amounts (2)
        annals show 3761c63d8

    39020f382  Rounding of negative amounts
        annals show 39020f382

    37f7fee04  Find TODO markers (@general subagent)
      assistant · 2026-02-21 14:00
        - src/server.ts:9 health endpoint - src/util/money.ts:1 rounding
        annals show 37f7fee04 --message msg_c808014a1001
    -- stderr
    5 of 15 hits
    "#);
    assert_snapshot!(user.annals(&["search", "rounding", "-n", "2", "--offset", "5"]).run(), @r#"
    exit 0
    385744ad0  "Health" helper & rounding
      assistant · read · 2026-02-20 10:15
        …<type>file</type> <content>1: // TODO: rounding of negative amounts 2:
        export function cents(amount: number) { 3: return Math.round(amount * 100)
        4: }…
        annals show 385744ad0 --message msg_c7a8bb909001
      you · message · 2026-02-20 10:15
        "Health" helper & rounding
        annals show 385744ad0 --message msg_c7a8bb54e001
    -- stderr
    from 6, 2 of 15 hits
    "#);
    assert_snapshot!(user.annals(&["search", "--tool", "bash", "src", "-n", "2"]).run(), @r#"
    exit 0
    385744ad0  "Health" helper & rounding
      assistant · bash · 2026-02-20 10:15
        ls src/util && wc -l src/util/*.ts
        annals show 385744ad0 --message msg_c7a8bbccc001

    36f8cb15f  Running the service locally (2)
      assistant · bash · 2026-02-24 16:20
        echo hello; ls src
        annals show 36f8cb15f --message msg_c90734f07001
    -- stderr
    2 of 2 hits
    "#);
    assert_snapshot!(user.annals(&["search", "--regex", r"TODO.*\d", "-n", "1"]).run(), @"
    exit 0
    36f8c0bdb  TODO markers in src (2)
      you · message · 2026-02-24 16:20
        TODO markers in src (2)
        annals show 36f8c0bdb --message msg_c9073f42e001
    -- stderr
    1 of 4 hits
    ");
    // What it says to run works.
    let found = user.annals(&["search", "rounding"]).run().ok().text();
    let commands: Vec<&str> = found.lines().filter_map(|line| line.trim().strip_prefix("annals ")).collect();
    assert!(commands.len() > 5, "{found}");
    for command in commands {
        let arguments: Vec<&str> = command.split(' ').collect();
        assert!(!user.annals(&arguments).run().ok().text().is_empty(), "{command}");
    }
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
    hint: times look like 2026-02-01, 2026-02-01T10:00, 7d, 12h, today or yesterday
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
