//! Sessions of another agent in a store: ids that are not OpenCode's, and an order that ids do not tell.

use annals::SqliteStore;
use annals::sync::{self, Stage, SyncOptions};
use annals_testkit::jsonl_home::{EXAMPLE, JsonlHome};
use insta::assert_snapshot;

use super::kit::{annals, listed, text};

/// A store that follows the example.
fn followed() -> (tempfile::TempDir, std::path::PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let home = directory.path().join("agent");
    std::fs::create_dir(&home).unwrap();
    std::fs::write(home.join(EXAMPLE.0), EXAMPLE.1).unwrap();
    let path = directory.path().join("annals.db");
    let store = SqliteStore::open_or_create(&path).unwrap();
    sync::sync(&store, &[&JsonlHome::open(&home)], SyncOptions::to(Stage::Text), &()).unwrap();
    (directory, path)
}

#[test]
fn a_session_of_another_agent_is_shown_in_the_order_of_its_lines() {
    let (_directory, store) = followed();
    let id = EXAMPLE.0.strip_suffix(".jsonl").unwrap();
    assert_snapshot!(annals(&store, &["list"]).run(), @"
    exit 0
    ID      UPDATED       MSGS  TOKENS      COST  TITLE
    7c9e66  Feb 03 09:01     5       0        $0  Mend the cart
    -- stderr
    1 session
    ");
    assert_snapshot!(annals(&store, &["show", id]).run(), @"
    exit 0
    Mend the cart
    7c9e6679-7425-40de-944b-e07fc1f90ae7 · /home/dev/shop · 2026-02-03 09:01
    5 messages · example/example-large

    1. You                                                                  09:00:00
    ▌ Why does the marmalade cart crash?

      I look at the file.

      ✓ read  read                                                       1 line  0ms

      The cart is empty: � has no first item.

      example/example-large · 2 steps · 2.5s

    2. You                                                                  09:01:00
    ▌ Then mend it.

      It is mended now.

      example/example-large · 0ms
    ");
    assert_snapshot!(annals(&store, &["search", "marmalade"]).run(), @"
    exit 0
    7c9e66  Mend the cart  shop · Feb 03 09:01
      you · 2026-02-03 09:00 · f3b0c442-98fc-4c
        Why does the marmalade cart crash?
    -- stderr
    1 of 1 hit; `annals show SESSION --message MESSAGE` reads one
    ");
    let shown = annals(&store, &["show", "7c9e66", "--message", "f3b0c442-98fc-4c"]).run().ok().text();
    assert!(shown.contains("marmalade") && !shown.contains("Then mend it."), "{shown}");
}

#[test]
fn a_session_of_another_agent_is_named_and_exported_as_any_other() {
    let (directory, store) = followed();
    let id = EXAMPLE.0.strip_suffix(".jsonl").unwrap();
    assert_eq!(text(&listed(&store, &[])[0], "id"), id);
    // By a piece of its id, as people name sessions.
    let export = annals(&store, &["export", &id[..8]]).run().ok().text();
    let lines = EXAMPLE.1.lines().filter_map(|line| line.split("\"uuid\":\"").nth(1));
    let places: Vec<usize> =
        lines.map(|line| export.find(&format!("\"id\": \"{}\"", &line[..36])).unwrap()).collect();
    assert!(places.len() == 5 && places.is_sorted(), "{export}");
    let markdown = annals(&store, &["export", "--format", "markdown", id]).run().ok().text();
    assert!(markdown.find("Then mend it.") < markdown.find("It is mended now."), "{markdown}");
    // Everything of it, the agent's own lines too, goes to a file and into another store.
    let file = annals(&store, &["export", "--format", "jsonl", id]).run().ok();
    for line in EXAMPLE.1.lines() {
        let line = serde_json::to_string(line).unwrap();
        assert!(file.text().contains(&line), "{line} is not in {}", file.text());
    }
    let other = directory.path().join("other.db");
    SqliteStore::open_or_create(&other).unwrap();
    let path = directory.path().join("session.jsonl");
    std::fs::write(&path, &file.stdout).unwrap();
    let _ = annals(&other, &["import", path.to_str().unwrap()]).run().ok();
    assert_eq!(annals(&other, &["export", id]).run().ok().text(), export);
    let again = annals(&other, &["export", "--format", "jsonl", id]).run().ok();
    // An import brings a record of the project along.
    let is_of_session = |line: &&str| !line.starts_with(r#"{"kind":"project""#);
    assert!(again.text().lines().filter(is_of_session).eq(file.text().lines()), "{again}");
}
