//! Commands without `--home`: they answer from the user's store, which brings itself up to date.

use annals_testkit::Fixture;
use insta::assert_snapshot;

use super::disk::{in_namespace, text};
use super::kit::{User, annals, plain, write};

fn titles(ran: super::kit::Ran) -> Vec<String> {
    let rows = ran.ok().json();
    let mut titles: Vec<String> =
        rows.as_array().unwrap().iter().map(|row| row["title"].as_str().unwrap().to_owned()).collect();
    titles.sort();
    titles
}

#[test]
fn the_overview_tells_of_the_store() {
    let user = User::with("opencode-1.1.65");
    let overview = user.annals(&[]).run().ok();
    let json = user.annals(&["--json"]).run().ok().json();
    let shown = super::kit::hide_sizes(&overview, "store\n");
    assert_snapshot!(shown, @"
    exit 0
    121 sessions in 4 projects · this week 65 sessions, $1.54
      36f8c14  19h ago  shop-api  Document check (2)
      36f8c0   19h ago  shop-api  ◌ TODO markers in src (2)
      36f8c13  19h ago  shop-api  ◌ Overloaded provider
      36f8c15  19h ago  shop-api  ◌ Document check (2)
      36f8c19  19h ago  shop-api  ◌ Payment triage (2)
      36f8c1c  19h ago  shop-api  ◌ Empty todo list (2)
      36f8c1d  19h ago  shop-api  ◌ A note outside the project (2)
      36f8c1f  19h ago  shop-api  ◌ Reading large files (2)

    Needs attention
      17 failed in 7 days  annals list --since 7d --status failed
      11 not ended in 7 days  annals list --since 7d --status open

    Kept in
      HOME/.local/share/opencode  121 sessions, N MB
      HOME/.local/share/annals/annals.db
        your store, 121 sessions, N KB

    annals list · show last · search WORDS · stats · --help
    ");
    let store = &json["store"];
    assert_eq!(store["path"], user.store().display().to_string());
    assert_eq!(
        (&store["sessions"], &store["gone"], &store["synced"]),
        (&121.into(), &0.into(), &true.into())
    );
    assert_eq!(store["revised"], 1_772_020_980_000_u64);
    assert!(store["index"].is_null());
    let _ = user.annals(&["sync"]).run().ok();
    let json = user.annals(&["--json", "--no-sync"]).run().ok().json();
    assert!(json["store"]["index"]["bytes"].as_u64().unwrap() > 0);
    assert_eq!(json["store"]["synced"], false);
}

#[test]
fn verbose_tells_what_the_library_does() {
    let user = User::with("opencode-1.1.65");
    let told = user.annals(&["list", "--verbose"]).run().ok().stderr;
    assert!(told.contains("DEBUG sync a home home=") && told.contains("DEBUG commit revision=1"), "{told}");
    let told = user.annals(&["list"]).run().ok().stderr;
    assert!(!told.contains("DEBUG"), "{told}");
}

/// What the store answers is what the home itself would.
#[test]
fn the_store_answers_as_the_home_does() {
    for fixture in ["opencode-1.1.65", "opencode-1.2.27", "opencode-1.18.33"] {
        let user = User::with(fixture);
        let home = user.opencode();
        let same = |arguments: &[&str]| {
            let ours = user.annals(arguments).run();
            let theirs = annals(&home, arguments).run();
            assert_eq!(ours.code, theirs.code, "{fixture} {arguments:?}: {ours}");
            assert_eq!(ours.text(), theirs.text(), "{fixture} {arguments:?}");
        };
        same(&["list"]);
        same(&["list", "--sort", "cost", "--json"]);
        same(&["tree", "--all"]);
        same(&["stats", "--json"]);
        same(&["stats", "--tools"]);
        let rows = user.annals(&["list", "--json"]).run().ok().json();
        for row in rows.as_array().unwrap().iter().step_by(7) {
            let id = row["id"].as_str().unwrap();
            same(&["show", id]);
            same(&["export", id]);
            same(&["todo", id, "--json"]);
        }
    }
}

#[test]
fn reading_changes_no_byte_of_opencodes_home() {
    for fixture in ["opencode-1.1.65", "opencode-1.2.27"] {
        let user = User::with(fixture);
        let before = user.files();
        for arguments in [
            &[][..],
            &["list"],
            &["show", "last"],
            &["stats"],
            &["tree"],
            &["check"],
            &["search", "rounding"],
            &["sync", "--full"],
            &["sync", "--events"],
            &["log"],
            &["reindex"],
            &["backup", "b.db"],
            &["prune", "--older-than", "now", "--yes"],
            &["forget", "last", "--yes"],
        ] {
            let ran = user.annals(arguments).run();
            assert!(matches!(ran.code, 0 | 3), "{arguments:?}: {ran}");
        }
        assert!(user.files() == before, "{fixture}");
    }
}

#[test]
fn what_is_new_appears_unless_it_is_not_wanted() {
    let user = User::new();
    user.write_session("36aaaaffe1", "First", "Hello", "Hello to you");
    assert_eq!(titles(user.annals(&["list", "--json"]).run()), ["First"]);
    user.write_session("36bbbbffe2", "Second", "And now", "It is there");
    assert_eq!(titles(user.annals(&["list", "--json", "--no-sync"]).run()), ["First"]);
    assert_eq!(titles(user.annals(&["list", "--json"]).run()), ["First", "Second"]);
    assert_eq!(titles(user.annals(&["list", "--json", "--no-sync"]).run()), ["First", "Second"]);
    // More of a session that is known.
    write(
        &user.opencode(),
        "storage/message/ses_36aaaaffe1/msg_36aaaaffe13.json",
        r#"{"id":"msg_36aaaaffe13","sessionID":"ses_36aaaaffe1","role":"user","time":{"created":1771950000003}}"#,
    );
    let rows = user.annals(&["list", "--json"]).run().ok().json();
    let first = rows.as_array().unwrap().iter().find(|row| row["title"] == "First").unwrap().clone();
    assert_eq!(first["messages"], 3);
    assert_eq!(first["origins"][0], user.opencode().display().to_string());
    assert!(first["gone"].is_null());
    let said = user.annals(&["list", "-v"]).run().ok();
    assert!(said.stderr.contains("annals.db: 2 sessions, nothing new"), "{said}");
}

/// A list looks at no parts; what it has not looked at is not taken for known.
#[test]
fn a_list_in_between_hides_nothing() {
    let user = User::new();
    let long_ago = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_millis(1_771_960_000_000);
    // As if it had all happened a while ago: nothing is looked at again for being fresh.
    let settle = |minutes: u64| {
        let when = long_ago + std::time::Duration::from_secs(60 * minutes);
        for file in annals_testkit::files_below(&user.opencode()) {
            std::fs::File::options().write(true).open(&file).unwrap().set_modified(when).unwrap();
            for directory in file.ancestors().skip(1).take_while(|path| path.starts_with(user.opencode())) {
                std::fs::File::open(directory).unwrap().set_modified(when).unwrap();
            }
        }
    };
    user.write_session("36aaaaffe1", "First", "Hello", "Hello to you");
    settle(0);
    let _ = user.annals(&["sync"]).run().ok();
    write(
        &user.opencode(),
        "storage/message/ses_36aaaaffe1/msg_36aaaaffe13.json",
        r#"{"id":"msg_36aaaaffe13","sessionID":"ses_36aaaaffe1","role":"user","time":{"created":1771950000003}}"#,
    );
    write(
        &user.opencode(),
        "storage/part/msg_36aaaaffe13/prt_36aaaaffe13.json",
        r#"{"id":"prt_36aaaaffe13","sessionID":"ses_36aaaaffe1","messageID":"msg_36aaaaffe13","type":"text","text":"One more thing"}"#,
    );
    settle(10);
    let listed = user.annals(&["list", "--json"]).run().ok().json();
    assert_eq!((&listed[0]["messages"], &listed[0]["parts"]), (&3.into(), &3.into()), "{listed}");
    let shown = user.annals(&["show", "First"]).run().ok();
    assert!(shown.text().contains("One more thing"), "{shown}");
    let listed = user.annals(&["list", "--json"]).run().ok().json();
    assert_eq!((&listed[0]["messages"], &listed[0]["parts"]), (&3.into(), &3.into()), "{listed}");
    let found = user.annals(&["search", "thing", "--json"]).run().ok().json();
    assert_eq!(found.as_array().unwrap().len(), 1);
}

#[test]
fn a_store_is_made_where_it_was_asked_for() {
    let user = User::new();
    user.write_session("36aaaaffe1", "First", "Hello", "Hello to you");
    assert_eq!(titles(user.annals(&["list", "--json", "--store", "mine/a.db"]).run()), ["First"]);
    assert_eq!(titles(user.annals(&["list", "--json"]).env("ANNALS_STORE", "env/b.db").run()), ["First"]);
    assert!(user.root().join("mine/a.db").is_file() && user.root().join("env/b.db").is_file());
    assert!(!user.store().exists());
    let _ = user.annals(&["list"]).env("ANNALS_STORE", "").run().ok();
    let _ = user.annals(&["list"]).env("XDG_DATA_HOME", user.root().join("xdg")).run();
    assert!(user.store().is_file());
    // A store is a home as well, and is not synced then.
    user.write_session("36bbbbffe2", "Second", "And now", "It is there");
    let store = user.store().display().to_string();
    assert_eq!(titles(user.annals(&["list", "--json", "--home", &store]).run()), ["First"]);
    let both = user.annals(&["list", "--json", "--home", &store, "--home", ".local/share/opencode"]).run();
    assert_eq!(titles(both), ["First", "Second"]);
    // A list has not brought more than it needed.
    assert_snapshot!(user.annals(&["show", "First", "--home", &store]).run(), @"
    exit 3
    First
    ses_36aaaaffe1 · /home/dev · 2026-02-24 16:20
    2 messages · lab/lab-large

    no messages

    annals resume ses_36aaaaffe1
    -- stderr
    warning: the store does not have all of it yet: 2 parts are missing (`annals sync` fetches them)
    ");
    assert_eq!(user.annals(&["export", "First", "--no-sync"]).run().code, 3);
    assert!(user.annals(&["show", "First"]).run().ok().text().contains("Hello to you"));
    let shown = user.annals(&["show", "First", "--home", &store]).run().ok();
    assert!(shown.text().contains("Hello to you"));
}

#[test]
fn no_store_is_made_for_nothing() {
    let user = User::new();
    assert_snapshot!(user.annals(&["list"]).run(), @"
    exit 1
    -- stderr
    error: no OpenCode sessions in HOME/.local/share/opencode
    hint: `--home PATH` names another place; `annals demo` shows annals on a sample
    ");
    assert_snapshot!(user.annals(&["log", "--revisions"]).run(), @"
    exit 1
    -- stderr
    error: no OpenCode sessions in HOME/.local/share/opencode
    hint: `--home PATH` names another place; `annals demo` shows annals on a sample
    ");
    assert_snapshot!(user.annals(&["search", "x"]).run(), @"
    exit 1
    -- stderr
    error: no OpenCode sessions in HOME/.local/share/opencode
    hint: `--home PATH` names another place; `annals demo` shows annals on a sample
    ");
    assert_eq!(user.annals(&["sync"]).run().code, 1);
    assert_eq!(user.annals(&["sync", "--no-sync"]).run().code, 2);
    assert!(!user.store().exists());
    user.write_session("36aaaaffe1", "First", "Hello", "Hello to you");
    assert_snapshot!(user.annals(&["list", "--no-sync"]).run(), @"
    exit 1
    -- stderr
    error: there is no store at HOME/.local/share/annals/annals.db yet
    hint: run the command without `--no-sync` to create it
    ");
    assert!(!user.store().exists());
}

#[test]
fn what_opencode_deletes_stays() {
    let user = User::new();
    user.write_session("36aaaaffe1", "First", "Hello", "Hello to you");
    user.write_session("36bbbbffe2", "A title that is quite a bit longer than its place", "And", "It is");
    let _ = user.annals(&["sync"]).run().ok();
    for place in ["storage/session", "storage/message", "storage/part"] {
        std::fs::remove_dir_all(user.opencode().join(place)).unwrap();
    }
    user.write_session("36aaaaffe1", "First", "Hello", "Hello to you");
    assert_snapshot!(user.later(5, &["list"]).run(), @"
    exit 0
    ID      UPDATED  MSGS  TOKENS      COST  TITLE
    36aaaa  19h ago     2       0        $0  First
    36bbbb  19h ago     2       0        $0  A title that is quite a bit longer than its place [gone]
    -- stderr
    2 sessions
    ");
    let rows = user.later(6, &["list", "--json"]).run().ok().json();
    let gone: Vec<_> = rows.as_array().unwrap().iter().map(|row| row["gone"].clone()).collect();
    assert!(
        gone.contains(&1_772_021_280_000_u64.into()) && gone.contains(&serde_json::Value::Null),
        "{gone:?}"
    );
    assert_snapshot!(user.later(6, &["show", "longer"]).run(), @"
    exit 0
    A title that is quite a bit longer than its place
    ses_36bbbbffe2 · /home/dev · 2026-02-24 16:20
    2 messages · lab/lab-large
    gone from OpenCode since 2026-02-25 12:08; this is what the store kept

    1. You to build                                                         16:20:00
    ▌ And

      It is

      build · lab/lab-large · 0ms

    annals restore ses_36bbbbffe2
    ");
    assert_snapshot!(user.later(6, &["rename", "longer", "Shorter"]).run(), @r#"
    exit 0
    -- stderr
    ses_36bbbbffe2 is now called "Shorter"
      in the store only: no home of OpenCode that can be reached has it
    operation 1; `annals undo 1` takes it back
    "#);
    assert_snapshot!(user.later(6, &["archive", "Shorter"]).run(), @"
    exit 0
    -- stderr
    ses_36bbbbffe2 is archived
      in the store only: no home of OpenCode that can be reached has it
    operation 2; `annals undo 2` takes it back
    ");
    assert_eq!(user.later(6, &["list", "--json", "--archived"]).run().ok().json()[0]["title"], "Shorter");
    assert_snapshot!(user.later(7, &["rm", "--yes", "Shorter"]).run(), @"
    exit 0
    -- stderr
    ses_36bbbbffe2  Shorter
    1 session, 2 messages, 2 parts, 5 documents in all
      from the store: some of them are only there
    deleted 1 session
      in the store only: no home of OpenCode that can be reached has it
    operation 3; `annals undo 3` takes it back
    ");
    assert_eq!(titles(user.later(7, &["list", "--json"]).run()), ["First"]);
    let _ = user.later(8, &["undo"]).run().ok();
    assert_eq!(titles(user.later(8, &["list", "--json"]).run()), ["First", "Shorter"]);
    // And when everything of OpenCode's is gone.
    std::fs::remove_dir_all(user.opencode()).unwrap();
    assert_eq!(titles(user.later(9, &["list", "--json"]).run()), ["First", "Shorter"]);
    assert!(user.later(9, &["show", "First"]).run().ok().text().contains("Hello to you"));
    // An import has no other place to go to, then.
    let exported = user.later(9, &["export", "First"]).run().ok();
    let imported =
        exported.text().replace("ses_36aaaaffe1", "ses_36ccccffe3").replace("36aaaaffe1", "36ccccffe3");
    let _ = user.later(9, &["import", "-"]).stdin(imported.as_bytes()).run().ok();
    assert_eq!(user.later(9, &["list", "--json"]).run().ok().json().as_array().unwrap().len(), 3);
    assert!(!user.opencode().exists());
}

#[test]
fn changes_go_to_opencodes_home_and_the_store_knows() {
    let user = User::new();
    user.write_session("36aaaaffe1", "First", "Hello", "Hello to you");
    assert_snapshot!(user.annals(&["rename", "First", "Renamed"]).run(), @r#"
    exit 0
    -- stderr
    ses_36aaaaffe1 is now called "Renamed"
      in HOME/.local/share/opencode
    operation 1; `annals undo 1` takes it back
    "#);
    let file = user.opencode().join("storage/session/global/ses_36aaaaffe1.json");
    assert!(std::fs::read_to_string(&file).unwrap().contains("Renamed"));
    assert_eq!(titles(user.annals(&["list", "--json", "--no-sync"]).run()), ["Renamed"]);
    assert_snapshot!(user.annals(&["rm", "--yes", "Renamed"]).run(), @"
    exit 0
    -- stderr
    ses_36aaaaffe1  Renamed
    1 session, 2 messages, 2 parts, 5 documents in all
      from HOME/.local/share/opencode
    deleted 1 session
      in HOME/.local/share/opencode
    operation 2; `annals undo 2` takes it back
    the store keeps them, marked [gone]; `annals forget` erases them there
    ");
    assert!(!file.exists());
    let rows = user.annals(&["list", "--json", "--no-sync"]).run().ok().json();
    assert_eq!(rows[0]["gone"], 1_772_020_980_000_u64);
    // All of it was saved first.
    assert!(user.annals(&["show", "Renamed", "--no-sync"]).run().ok().text().contains("Hello to you"));
    // It can be given back.
    let store = user.store().display().to_string();
    let home = user.opencode().display().to_string();
    let copied = user.annals(&["copy", "--from", &store, "--to", &home, "Renamed"]).run().ok();
    assert!(copied.stderr.contains("1 session: 1 copied"), "{copied}");
    assert!(file.exists());
    let rows = user.annals(&["list", "--json"]).run().ok().json();
    assert!(rows[0]["gone"].is_null(), "{rows}");
    // An import goes to OpenCode as well.
    let exported = user.annals(&["export", "Renamed"]).run().ok();
    let imported = exported.text().replace("36aaaaffe1", "36ccccffe3");
    let _ = user.annals(&["import", "-"]).stdin(imported.as_bytes()).run().ok();
    assert!(user.opencode().join("storage/session/global/ses_36ccccffe3.json").exists());
    let rows = user.annals(&["list", "--json", "--no-sync"]).run().ok().json();
    assert_eq!(rows.as_array().unwrap().len(), 2);
}

#[test]
fn sync_gives_an_account() {
    let user = User::with("opencode-1.1.65");
    assert_snapshot!(user.annals(&["sync"]).run(), @"
    exit 0
    -- stderr
    121 sessions: 121 new, 0 changed, 0 gone
    2,042 documents looked at: 2,042 imported, 0 unchanged, 0 quarantined
    1,916 documents added to the text index
    ");
    let account = user.annals(&["sync", "--full", "--json"]).run().ok().json();
    assert_eq!((&account["sessions"], &account["new"]), (&121.into(), &0.into()), "{account}");
    assert_eq!(account["seen"], account["unchanged"], "{account}");
    assert_eq!(account["index"]["documents"], 0);
    assert_eq!(account["store"], user.store().display().to_string());
    // Another home is taken over as well; it is not one that is followed.
    let other = Fixture::unpack("small-1.2.27");
    let home = other.home().join("opencode.db").display().to_string();
    let account = user.annals(&["sync", "--home", &home, "--json", "--no-index"]).run().ok().json();
    assert!(account["new"].as_u64().unwrap() > 0 && account["index"].is_null(), "{account}");
    let n_sessions = 121 + account["new"].as_u64().unwrap() as usize;
    assert_eq!(user.annals(&["list", "--json"]).run().ok().json().as_array().unwrap().len(), n_sessions);
    let store = user.store().display().to_string();
    assert_snapshot!(user.annals(&["sync", "--home", &store]).run(), @"
    exit 2
    -- stderr
    error: HOME/.local/share/annals/annals.db is a store, and no store syncs from another
    hint: `--home` names the home to sync from, `--store` the store to sync to
    ");
    assert_eq!(user.annals(&["sync", "--home", "nowhere"]).run().code, 1);
}

/// What cannot be read is named wherever it would have been shown, every time, and no longer when it is mended.
#[test]
fn what_could_not_be_read_is_told() {
    let user = User::new();
    user.write_session("36aaaaffe1", "First", "Hello", "Hello to you");
    user.write_session("36bbbbffe2", "Second", "And now", "It is there");
    let part = user.opencode().join("storage/part/msg_36aaaaffe12/prt_36aaaaffe12.json");
    let whole = std::fs::read(&part).unwrap();
    std::fs::write(&part, "").unwrap();
    let session = user.opencode().join("storage/session/global/ses_36cccc.json");
    std::fs::write(&session, "{").unwrap();
    assert_snapshot!(user.annals(&["sync"]).run(), @"
    exit 3
    -- stderr
    3 sessions: 2 new, 0 changed, 0 gone
    11 documents looked at: 9 imported, 0 unchanged, 2 quarantined
    9 documents added to the text index
    warning: 2 documents could not be read; everything else is there
      storage/part/msg_36aaaaffe12/prt_36aaaaffe12.json: the document is empty (session ses_36aaaaffe1)
      storage/session/global/ses_36cccc.json:1:2: the text ends inside an object (session ses_36cccc)
    hint: `annals check` lists everything that is damaged
    ");
    assert_snapshot!(user.annals(&["list"]).run(), @"
    exit 3
    ID      UPDATED  MSGS  TOKENS      COST  TITLE
    36aaaa  19h ago     2       0        $0  First
    36bbbb  19h ago     2       0        $0  Second
    -- stderr
    2 sessions
    warning: 1 document could not be read; everything else is there
      storage/session/global/ses_36cccc.json:1:2: the text ends inside an object (session ses_36cccc)
    hint: `annals check` lists everything that is damaged
    ");
    for (arguments, code) in [
        (&["sync"][..], 3),
        (&["list"], 3),
        (&["show", "First"], 3),
        (&["show", "Second"], 0),
        (&["export", "First"], 3),
        (&["stats"], 3),
        (&["tree", "--all"], 3),
        (&["list", "--no-sync"], 3),
        (&[], 3),
    ] {
        let ran = user.annals(arguments).run();
        assert_eq!(ran.code, code, "{arguments:?}: {ran}");
    }
    std::fs::write(&part, whole).unwrap();
    std::fs::remove_file(&session).unwrap();
    for arguments in [&["sync"][..], &["list"], &["show", "First"], &["stats"], &[]] {
        assert_eq!(user.annals(arguments).run().code, 0, "{arguments:?}");
    }
}

#[test]
fn without_a_store_the_homes_are_read() {
    let user = User::new();
    user.write_session("36aaaaffe1", "First", "Hello", "Hello to you");
    // Something else is in the way.
    std::fs::create_dir_all(user.store()).unwrap();
    assert_snapshot!(user.annals(&["list"]).run(), @"
    exit 0
    ID      UPDATED  MSGS  TOKENS      COST  TITLE
    36aaaa  19h ago     2       0        $0  First
    -- stderr
    warning: HOME/.local/share/annals/annals.db is not a store of annals; reading OpenCode's homes directly (`--store PATH` or ANNALS_STORE names an `annals.db` elsewhere)
    1 session
    ");
    assert!(user.annals(&["show", "First"]).run().ok().text().contains("Hello to you"));
    assert_snapshot!(user.annals(&["rename", "First", "Renamed"]).run(), @r#"
    exit 0
    -- stderr
    warning: HOME/.local/share/annals/annals.db is not a store of annals; reading OpenCode's homes directly (`--store PATH` or ANNALS_STORE names an `annals.db` elsewhere)
    warning: the store cannot be written to, so this cannot be undone
    ses_36aaaaffe1 is now called "Renamed"
      in HOME/.local/share/opencode
    "#);
    assert_snapshot!(user.annals(&["log", "--revisions"]).run(), @"
    exit 1
    -- stderr
    error: HOME/.local/share/annals/annals.db is not a store of annals
    hint: `--store PATH` or ANNALS_STORE names an `annals.db` elsewhere
    ");
    assert_snapshot!(user.annals(&["search", "hello"]).run(), @"
    exit 1
    -- stderr
    error: HOME/.local/share/annals/annals.db is not a store of annals
    hint: `--store PATH` or ANNALS_STORE names an `annals.db` elsewhere
    ");
    // Who names a store is not answered from elsewhere.
    assert_snapshot!(user.annals(&["list", "--store", ".local"]).run(), @"
    exit 1
    -- stderr
    error: HOME/.local is not a store of annals
    hint: `--store PATH` or ANNALS_STORE names an `annals.db` elsewhere
    ");
    std::fs::remove_dir(user.store()).unwrap();
    write(user.root(), ".local/share/annals/annals.db", "this is no database, but a text of some length");
    assert_snapshot!(user.annals(&["list"]).run(), @"
    exit 0
    ID      UPDATED  MSGS  TOKENS      COST  TITLE
    36aaaa  19h ago     2       0        $0  Renamed
    -- stderr
    warning: HOME/.local/share/annals/annals.db is not a store of annals; reading OpenCode's homes directly (`--store PATH` or ANNALS_STORE names an `annals.db` elsewhere)
    1 session
    ");
    // A later version made it.
    std::fs::remove_file(user.store()).unwrap();
    let _ = user.annals(&["list"]).run().ok();
    let connection = rusqlite::Connection::open(user.store()).unwrap();
    connection.execute("UPDATE meta SET value = 99 WHERE name IN ('schema', 'reader')", []).unwrap();
    drop(connection);
    assert_snapshot!(user.annals(&["list"]).run(), @"
    exit 0
    ID      UPDATED  MSGS  TOKENS      COST  TITLE
    36aaaa  19h ago     2       0        $0  Renamed
    -- stderr
    warning: HOME/.local/share/annals/annals.db was made by a later version of annals (schema 99, this one knows 7); reading OpenCode's homes directly (install the newer annals)
    1 session
    ");
    // None of it was touched.
    assert!(user.annals(&["log"]).run().stderr.contains("later version"));
}

#[test]
fn disks_that_cannot_be_written_to() {
    let user = User::new();
    user.write_session("36aaaaffe1", "First", "Hello", "Hello to you");
    let script = r#"
        cd "$D"
        S="$D/.local/share/annals"
        mkdir -p "$S"
        mount -t tmpfs -o size=64k tmpfs "$S"
        "$A" list; echo "full: $?"
        umount "$S"
        mount --bind "$S" "$S"
        mount -o remount,bind,ro "$S"
        "$A" list; echo "read-only: $?"
        "$A" log || echo "log: $?"
        umount "$S"
        "$A" sync
        mount --bind "$S" "$S"
        mount -o remount,bind,ro "$S"
        "$A" list; echo "read-only, with sessions: $?"
        "$A" log; echo "log: $?"
        "$A" search hello || echo "search: $?"
        "$A" search --substring Hello; echo "search: $?"
        "$A" undo 2 || echo "undo: $?"
        "$A" rename First Other; echo "rename: $?"
    "#;
    let (stdout, stderr) = text(&in_namespace(user.root(), script));
    let root = user.root().display().to_string();
    assert_snapshot!(format!("{stdout}-- stderr\n{stderr}").replace(&root, "HOME"), @r#"
    ID      UPDATED  MSGS  TOKENS      COST  TITLE
    36aaaa  19h ago     2       0        $0  First
    full: 0
    ID      UPDATED  MSGS  TOKENS      COST  TITLE
    36aaaa  19h ago     2       0        $0  First
    read-only: 0
    log: 1
    ID      UPDATED  MSGS  TOKENS      COST  TITLE
    36aaaa  19h ago     2       0        $0  First
    read-only, with sessions: 0
    log: 0
    36aaaa  First  dev · 19h ago
      you · 2026-02-24 16:20 · msg_36aaaaffe11
        Hello
      assistant · 2026-02-24 16:20 · msg_36aaaaffe12
        Hello to you
    36aaaa  First  dev · 19h ago
      assistant · 2026-02-24 16:20 · msg_36aaaaffe12
        Hello to you
      you · 2026-02-24 16:20 · msg_36aaaaffe11
        Hello
    search: 0
    undo: 1
    rename: 0
    -- stderr
    warning: cannot make HOME/.local/share/annals/annals.db: the disk is full; reading OpenCode's homes directly (make room on the disk)
    1 session
    warning: cannot open HOME/.local/share/annals/annals.db: read-only filesystem or storage medium; reading OpenCode's homes directly (`--store PATH` or ANNALS_STORE puts the store elsewhere)
    1 session
    error: cannot open HOME/.local/share/annals/annals.db: read-only filesystem or storage medium
    hint: `--store PATH` or ANNALS_STORE puts the store elsewhere
    1 session: 1 new, 0 changed, 0 gone
    5 documents looked at: 5 imported, 0 unchanged, 0 quarantined
    5 documents added to the text index
    warning: HOME/.local/share/annals/annals.db cannot be written to, so recent changes in OpenCode are missing (`--home PATH` reads a home directly)
    1 session
    warning: HOME/.local/share/annals/annals.db cannot be written to, so recent changes in OpenCode are missing (`--home PATH` reads a home directly)
    no operations; `annals log --revisions` lists what sync found
    warning: HOME/.local/share/annals/annals.db cannot be written to, so recent changes in OpenCode are missing (`--home PATH` reads a home directly)
    2 of 2 hits; `annals show SESSION --message MESSAGE` reads one
    warning: HOME/.local/share/annals/annals.db cannot be written to, so recent changes in OpenCode are missing (`--home PATH` reads a home directly)
    2 of 2 hits; `annals show SESSION --message MESSAGE` reads one
    warning: HOME/.local/share/annals/annals.db cannot be written to, so recent changes in OpenCode are missing (`--home PATH` reads a home directly)
    error: the store HOME/.local/share/annals/annals.db cannot be written to
    hint: nothing was changed; operations are recorded in the store and undone from there
    warning: HOME/.local/share/annals/annals.db cannot be written to, so recent changes in OpenCode are missing (`--home PATH` reads a home directly)
    warning: the store cannot be written to, so this cannot be undone
    ses_36aaaaffe1 is now called "Other"
      in HOME/.local/share/opencode
    "#);
}

#[test]
fn several_commands_at_once_make_one_store() {
    let user = User::with("opencode-1.1.65");
    std::thread::scope(|scope| {
        for n in 0..6 {
            let user = &user;
            scope.spawn(move || {
                let arguments =
                    [&["list", "--json"][..], &["stats", "--json"], &["search", "rounding", "--json"]][n % 3];
                let ran = user.annals(arguments).run().ok();
                assert!(!ran.json().to_string().is_empty());
            });
        }
    });
    let _ = user.annals(&["sync", "--full"]).run().ok();
    let account = user.annals(&["sync", "--full", "--json"]).run().ok().json();
    assert_eq!((&account["sessions"], &account["imported"]), (&121.into(), &0.into()), "{account}");
    assert_eq!(user.annals(&["check", "--home", user.store().to_str().unwrap()]).run().code % 3, 0);
    let hits = user.annals(&["search", "\"rounding\"", "-n", "100", "--json"]).run().ok().json();
    assert_eq!(hits.as_array().unwrap().len(), 15);
}

#[test]
fn opencode_db_names_a_database() {
    let user = User::new();
    let fixture = Fixture::unpack("small-1.2.27");
    std::fs::create_dir_all(user.opencode()).unwrap();
    std::fs::copy(fixture.home().join("opencode.db"), user.root().join("elsewhere.db")).unwrap();
    let named = user.root().join("elsewhere.db");
    let ran = plain(user.root(), &["list", "--json"]).env("OPENCODE_DB", &named).run().ok().json();
    assert!(!ran.as_array().unwrap().is_empty());
    assert_eq!(ran[0]["origins"][0], named.display().to_string());
}

/// Nothing of a transcript reaches a terminal as a command to it, whichever command shows it, and no line is too long.
#[test]
fn screens_of_the_store_are_harmless_and_fit() {
    let user = User::new();
    let evil = r"\u001b[2J\u001b]0;owned\u0007\u009b31m\u202eevil\r\u0000\u007f";
    let long = "word ".repeat(40);
    let write = |text: &str| {
        user.write_session(
            "36aaaaffe1",
            &format!("t{evil} {long}"),
            &format!("{evil} ask {text}"),
            &format!("{evil}\\n{text}{long}"),
        );
    };
    write("one");
    user.write_session("36bbbbffe2", &format!("other {evil}"), "x", &format!("{evil} answer"));
    let _ = user.annals(&["sync"]).run().ok();
    write("two");
    let _ = user.later(10, &["sync"]).run().ok();
    std::fs::remove_file(user.opencode().join("storage/session/global/ses_36bbbbffe2.json")).unwrap();
    for columns in [80, 60] {
        for arguments in [
            &[][..],
            &["list"],
            &["show", "36aaaa", "--at", "15m"],
            &["search", "evil OR word OR answer"],
            &["search", "--regex", "(?s)evil.*"],
            &["search", "--substring", "\u{1b}"],
            &["search", "(\u{1b}[31m"],
            &["search", "--regex", "(\u{1b}[31m"],
            &["log"],
            &["log", "36aaaa"],
            &["log", "\u{1b}[31m"],
            &["diff", "36aaaa", "15m"],
            &["diff", "36aaaa", "..now", "--all"],
            &["diff", "36aaaa", "\u{1b}[31m"],
            &["prune", "--older-than", "now", "--dry-run"],
            &["forget", "36aaaa"],
            &["rm", "36bbbb", "--dry-run"],
            &["restore", "36aaaa", "--at", "15m"],
            &["undo"],
            &["undo", "2"],
            &["check"],
            &["sync"],
        ] {
            let ran = user.later(20, arguments).env("COLUMNS", columns.to_string()).run();
            for text in [ran.text(), ran.stderr.clone()] {
                let bad = |c: &char| c.is_control() && *c != '\n' || ('\u{202a}'..='\u{202e}').contains(c);
                assert_eq!(text.chars().find(bad), None, "{arguments:?}: {text:?}");
            }
            for line in ran.text().lines() {
                let width = unicode_width::UnicodeWidthStr::width(line);
                let is_path =
                    line.contains(user.root().to_str().unwrap()) || line.trim_start().starts_with("storage/");
                assert!(width <= columns || is_path, "{arguments:?}: {width} > {columns}: {line}");
            }
        }
    }
}
