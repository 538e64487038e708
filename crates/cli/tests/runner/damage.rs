//! Damage is told loudly, and numbers that nobody knows are not shown as numbers.

use std::path::Path;

use annals_testkit::Fixture;

use super::kit::{User, annals, copy, plain};

/// Overwrites a hundred pages in the middle of a database with noise.
fn damage(database: &Path) {
    let mut bytes = std::fs::read(database).unwrap();
    let mut noise = 0x9e37_79b9_7f4a_7c15_u64;
    for byte in &mut bytes[150 * 4096..250 * 4096] {
        noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        *byte = (noise >> 56) as u8;
    }
    std::fs::write(database, bytes).unwrap();
}

#[test]
fn a_damaged_database_is_named_with_what_is_lost() {
    let user = User::with("opencode-1.2.27");
    let database = user.opencode().join("opencode.db");
    damage(&database);
    // With a store, with the home itself; the first time and the second.
    for home in [None, None, Some(&database)] {
        let run = |arguments: &[&str]| match home {
            None => user.annals(arguments).run(),
            Some(home) => annals(home, arguments).run(),
        };
        let overview = run(&["--json"]);
        assert_eq!(overview.code, 3, "{overview}");
        let json = overview.json();
        assert_eq!(json["homes"][0]["damaged"], true, "{overview}");
        assert!(json["homes"][0]["parts"].is_null() && json["homes"][0]["messages"].is_null(), "{overview}");
        let overview = run(&[]);
        assert_eq!(overview.code, 3, "{overview}");
        assert!(overview.text().contains("messages and parts unknown"), "{overview}");
        let expected = format!("{} is damaged", database.display());
        assert!(overview.stderr.contains(&expected), "{overview}");
        let command = format!("annals copy --from {} --to NEW.db", database.display());
        assert!(overview.stderr.contains(&command), "{overview}");
    }
    let list = user.annals(&["list"]).run();
    assert_eq!(list.code, 3, "{list}");
    assert!(list.stderr.contains("up to 169 messages and 309 parts could not be read"), "{list}");
    for arguments in [&["stats"][..], &["sync", "--full"]] {
        let ran = user.annals(arguments).run();
        assert_eq!(ran.code, 3, "{ran}");
        assert!(ran.stderr.contains("up to 169 messages and "), "{ran}");
        assert!(!ran.stderr.contains("everything else is there"), "{ran}");
    }
    // What is told to be run works.
    let saved = user.root().join("saved.db");
    let ran = plain(
        user.root(),
        &["copy", "--from", database.to_str().unwrap(), "--to", saved.to_str().unwrap(), "--json"],
    )
    .run();
    assert_eq!((ran.code, &ran.json()["sessions"]["seen"]), (3, &122.into()), "{ran}");
    assert_eq!(annals(&saved, &["list"]).run().code, 0);
}

#[test]
fn a_database_in_order_has_known_numbers() {
    let fixture = Fixture::unpack("opencode-1.2.27");
    let overview = annals(fixture.home(), &["--json"]).run().ok().json();
    assert_eq!(overview["homes"][0]["damaged"], false);
    assert!(overview["homes"][0]["parts"].as_u64().unwrap() > 1000, "{overview}");
}

/// Only the log of a database is left. OpenCode would make a new database and remove the log.
#[test]
fn a_log_without_its_database_is_told_by_every_command() {
    let user = User::new();
    std::fs::create_dir_all(user.opencode()).unwrap();
    std::fs::write(user.opencode().join("opencode.db-wal"), vec![7; 8192]).unwrap();
    let is_told = |stderr: &str| {
        stderr.contains("opencode.db-wal is still there and may hold sessions. Do not start OpenCode")
            && stderr.contains("put ")
    };
    for arguments in [&[][..], &["list"], &["sync"], &["search", "x"], &["check"], &["stats"]] {
        let ran = user.annals(arguments).run();
        assert!(ran.code == 1 && is_told(&ran.stderr), "{arguments:?}: {ran}");
    }
    // Beside sessions that can be read the command goes on.
    user.write_session("1", "Order API", "what is left?", "nothing");
    for arguments in [&[][..], &["list"], &["show", "last"], &["sync"], &["list", "--json"]] {
        let ran = user.annals(arguments).run();
        assert!(
            ran.code == 3 && is_told(&ran.stderr) && !ran.stdout.is_empty() || arguments == ["sync"],
            "{arguments:?}: {ran}"
        );
    }
    assert!(user.opencode().join("opencode.db-wal").exists());
    // A home that is named is what the user wants to know about.
    let named = tempfile::tempdir().unwrap();
    copy(&user.opencode(), named.path(), &[]);
    assert_eq!(user.annals(&["list", "--home", named.path().to_str().unwrap()]).run().code, 0);
    assert_eq!(user.annals(&["completions", "bash"]).run().code, 0);
}

/// The XDG specification has relative paths ignored: they mean another place in every directory.
#[test]
fn relative_paths_in_the_environment_are_ignored() {
    let user = User::new();
    user.write_session("1", "Order API", "what is left?", "nothing");
    let n_listed = |ran: super::kit::Ran| ran.ok().json().as_array().unwrap().len();
    for data in ["", "relative", "./relative"] {
        let listed = user.annals(&["list", "--json"]).env("XDG_DATA_HOME", data).run();
        assert_eq!(n_listed(listed), 1, "{data:?}");
    }
    assert!(!user.root().join("relative").exists());
    for home in ["", ".", "home"] {
        let ran = user.annals(&["list"]).env("HOME", home).run();
        assert_eq!(ran.code, 1, "{home:?}: {ran}");
        assert!(ran.stderr.contains("neither XDG_DATA_HOME nor HOME is set"), "{home:?}: {ran}");
    }
}
