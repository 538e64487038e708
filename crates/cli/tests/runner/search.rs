//! Finding what was said.

use annals_testkit::Fixture;
use insta::assert_snapshot;

use super::kit::{User, annals, text};

#[test]
fn hits_are_shown_with_what_was_found_and_how_to_open_it() {
    let user = User::with("opencode-1.1.65");
    assert_snapshot!(user.annals(&["search", "rounding", "-n", "5"]).run(), @"");
    assert_snapshot!(user.annals(&["search", "rounding", "-n", "2", "--offset", "5"]).run(), @"");
    assert_snapshot!(user.annals(&["search", "--tool", "bash", "npm", "test", "-n", "2"]).run(), @"");
    assert_snapshot!(user.annals(&["search", "--regex", r"TODO.*\d", "-n", "1"]).run(), @"");
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
    assert_snapshot!(serde_json::to_string_pretty(&hits).unwrap().replace(&hits[0]["score"].to_string(), "SCORE"), @"");
    let snippet: Vec<char> = text(&hits[0], "snippet").chars().collect();
    let [from, to] = [0, 1].map(|n| hits[0]["highlights"][0][n].as_u64().unwrap() as usize);
    assert_eq!(snippet[from..to].iter().collect::<String>(), "cart");
}

#[test]
fn filters_narrow_a_search() {
    let user = User::with("opencode-1.1.65");
    let n = |arguments: &[&str]| {
        let arguments = [&["search", "--json", "-n", "1000"], arguments].concat();
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
    assert_snapshot!(user.annals(&["search", "fix \"the cart"]).run(), @"");
    assert_snapshot!(user.annals(&["search", "fix (the OR cart"]).run(), @"");
    assert_snapshot!(user.annals(&["search", "cart OR since:7d"]).run(), @"");
    assert_snapshot!(user.annals(&["search", "since:7d"]).run(), @"");
    assert_snapshot!(user.annals(&["search", "cart since:soon"]).run(), @"");
    assert_snapshot!(user.annals(&["search", "cart project:a project:b"]).run(), @"");
    assert_snapshot!(user.annals(&["search", "--regex", "a(b"]).run(), @"");
    assert_snapshot!(user.annals(&["search"]).run(), @"");
    assert_snapshot!(user.annals(&["search", "nothinglikethis"]).run(), @"");
    assert_snapshot!(user.annals(&["search", "nothinglikethis", "--json"]).run(), @"");
    assert_snapshot!(user.annals(&["search", "cart", "--offset", "10"]).run(), @"");
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
        assert!(ran.stderr.contains("searching through a passing store"), "{ran}");
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
