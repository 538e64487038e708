//! Keeping the store: backups, pruning, forgetting.

use insta::assert_snapshot;

use super::kit::{User, hide_sizes};

fn user() -> User {
    let user = User::new();
    user.write_session("36aaaaffe1", "Fix the cart", "It is empty", "The secret is xylophone");
    user.write_session("36bbbbffe2", "Fix the door", "It is open", "Closed now");
    let _ = user.annals(&["sync"]).run().ok();
    user
}

#[test]
fn a_backup_is_a_store_and_can_be_put_back() {
    let user = user();
    assert_snapshot!(hide_sizes(&user.annals(&["backup", "b.db"]).run(), "b.db"), @"
    exit 0
    -- stderr
    b.db: 10 documents, 1 revision, N KB, all of it checked
    ");
    assert_snapshot!(user.annals(&["backup", "b.db"]).run(), @"
    exit 1
    -- stderr
    error: HOME/b.db exists already
    hint: nothing was written; name a file that does not exist yet
    ");
    assert_eq!(
        user.annals(&["--home", "b.db", "list", "--json"]).run().ok().json().as_array().unwrap().len(),
        2
    );
    let _ = user.annals(&["forget", "cart", "--yes"]).run().ok();
    assert_eq!(user.annals(&["list", "--json"]).run().ok().json().as_array().unwrap().len(), 1);
    assert_snapshot!(user.annals(&["restore-backup", "b.db"]).run(), @"
    exit 2
    -- stderr
    error: not a terminal, so nothing was confirmed
    hint: nothing was done; pass `--yes` to confirm
    ");
    assert_snapshot!(user.annals(&["restore-backup", "b.db", "--yes"]).run(), @"
    exit 0
    -- stderr
    HOME/.local/share/annals/annals.db now has 10 documents and 1 revision
    the old store is now HOME/.local/share/annals/annals.db.before-restore-20260225T120300Z
    ");
    assert_eq!(user.annals(&["list", "--json"]).run().ok().json().as_array().unwrap().len(), 2);
    // Also where there is none yet, without asking.
    let elsewhere =
        user.annals(&["restore-backup", "b.db", "--store", "new/x.db", "--json"]).run().ok().json();
    assert!(elsewhere["kept"].is_null() && elsewhere["documents"].as_u64().unwrap() > 8, "{elsewhere}");
    let backup = user.annals(&["backup", "c.db", "--json"]).run().ok().json();
    assert_eq!(backup["file"], user.root().join("c.db").display().to_string());
    assert_snapshot!(user.annals(&["restore-backup", "nothing.db", "--yes"]).run(), @"
    exit 1
    -- stderr
    error: HOME/nothing.db does not exist
    hint: nothing was changed
    ");
    std::fs::write(user.root().join("text.db"), "text").unwrap();
    assert_snapshot!(user.annals(&["restore-backup", "text.db", "--yes"]).run(), @"
    exit 1
    -- stderr
    error: HOME/text.db is not a store of annals
    hint: nothing was changed; give a file that `annals backup` wrote
    ");
    assert_eq!(user.annals(&["list", "--json"]).run().ok().json().as_array().unwrap().len(), 2);
}

#[test]
fn forget_leaves_nothing() {
    let user = user();
    assert_snapshot!(user.annals(&["forget", "cart"]).run(), @"
    exit 2
    -- stderr
    ses_36aaaaffe1  Fix the cart
    1 session with the history of 1 revision
    error: not a terminal, so nothing was confirmed
    hint: nothing was done; pass `--yes` to confirm
    ");
    assert_snapshot!(user.annals(&["forget", "cart", "--yes"]).run(), @"
    exit 0
    -- stderr
    ses_36aaaaffe1  Fix the cart
    1 session with the history of 1 revision
    forgot 1 session: 5 documents and 0 earlier states
    still in HOME/.local/share/opencode: `annals rm --home HOME/.local/share/opencode ses_36aaaaffe1` deletes there
    ");
    let hits = user.annals(&["search", "xylophone", "--json"]).run().ok().json();
    assert_eq!(hits, serde_json::json!([]));
    for file in annals_testkit::files_below(user.store().parent().unwrap()) {
        let bytes = std::fs::read(&file).unwrap();
        assert!(!bytes.windows(9).any(|window| window == b"xylophone"), "{}", file.display());
        assert!(!bytes.windows(14).any(|window| window == b"ses_36aaaaffe1"), "{}", file.display());
    }
    // Sync does not bring it back.
    assert_snapshot!(user.annals(&["sync"]).run(), @"
    exit 0
    -- stderr
    2 sessions: 0 new, 0 changed, 0 gone
    5 documents looked at: 0 imported, 5 unchanged, 0 quarantined
    1 session skipped: erased here by `annals forget`
    ");
    assert_snapshot!(user.annals(&["forget", "cart", "--yes"]).run(), @r#"
    exit 1
    -- stderr
    error: no session matches "cart"
    hint: looked at ids and titles of 1 session; `annals list` shows them
    "#);
    let json = user.annals(&["forget", "door", "--yes", "--json"]).run().ok().json();
    assert_eq!(json["sessions"], serde_json::json!(["ses_36bbbbffe2"]));
    assert_eq!((&json["rewritten"], &json["logEmptied"]), (&true.into(), &true.into()), "{json}");
}

#[test]
fn forget_takes_children_along() {
    let user = User::with("opencode-1.1.65");
    assert_snapshot!(user.annals(&["forget", "37f7fe572", "--children", "--yes"]).run(), @"
    exit 0
    -- stderr
    ses_37f7fe572ffeneN4vs3kZeD3a3  Two subagents
    ses_37f7fe443ffedE4o7LMHbx4hmy  Check the docs (@reviewer subagent)
    ses_37f7fe445ffejN1QLm1a4Kx9Lj  Explore sources (@explore subagent)
    3 sessions with the history of 3 revisions
    forgot 3 sessions: 3 documents and 0 earlier states
    still in HOME/.local/share/opencode: `annals rm --home HOME/.local/share/opencode ses_37f7fe572ffeneN4vs3kZeD3a3 ses_37f7fe443ffedE4o7LMHbx4hmy ses_37f7fe445ffejN1QLm1a4Kx9Lj` deletes there
    ");
    assert_eq!(user.annals(&["list", "--json"]).run().ok().json().as_array().unwrap().len(), 118);
}

#[test]
fn prune_says_what_goes_first() {
    let user = user();
    user.write_session("36aaaaffe1", "Fix the cart", "It is empty", "Rewritten");
    let _ = user.later(10, &["sync"]).run().ok();
    assert_snapshot!(user.later(20, &["prune", "--older-than", "15m"]).run(), @"
    exit 0
    -- stderr
    0 earlier texts, 0 B in all
    nothing was removed
    ");
    assert_snapshot!(user.later(20, &["prune", "--older-than", "5m", "--dry-run"]).run(), @"
    exit 0
    -- stderr
          1 text      130 B  ses_36aaaaffe1  Fix the cart
    1 earlier text, 130 B in all
    nothing was removed
    ");
    assert_snapshot!(user.later(20, &["prune", "--older-than", "5m"]).run(), @"
    exit 2
    -- stderr
          1 text      130 B  ses_36aaaaffe1  Fix the cart
    1 earlier text, 130 B in all
    error: not a terminal, so nothing was confirmed
    hint: nothing was done; pass `--yes` to confirm
    ");
    let plan =
        user.later(20, &["prune", "--older-than", "5m", "cart", "--dry-run", "--json"]).run().ok().json();
    assert_eq!((&plan["states"], &plan["pruned"]), (&1.into(), &false.into()), "{plan}");
    assert_snapshot!(user.later(20, &["prune", "--older-than", "5m", "--yes"]).run(), @"
    exit 0
    -- stderr
          1 text      130 B  ses_36aaaaffe1  Fix the cart
    1 earlier text, 130 B in all
    removed 1 text, 130 B
    ");
    assert_snapshot!(user.later(21, &["prune", "--older-than", "5m", "--yes"]).run(), @"
    exit 0
    -- stderr
    0 earlier texts, 0 B in all
    nothing was removed
    ");
    assert_snapshot!(user.later(21, &["prune"]).run(), @"
    exit 2
    -- stderr
    error: the following required arguments were not provided:
      --older-than <TIME>

    Usage: annals prune --older-than <TIME> [SESSION]...

    For more information, try '--help'.
    ");
    assert!(user.later(21, &["show", "cart"]).run().ok().text().contains("Rewritten"));
}

#[test]
fn reindex_makes_it_anew() {
    let user = user();
    std::fs::remove_dir_all(user.store().with_extension("index")).unwrap();
    assert_snapshot!(user.annals(&["reindex"]).run(), @"
    exit 0
    -- stderr
    2 sessions recounted, 10 documents reindexed
    ");
    let json = user.annals(&["reindex", "--json"]).run().ok().json();
    assert_eq!(json["sessions"], 2);
    assert_eq!(
        user.annals(&["search", "xylophone", "--json"]).run().ok().json().as_array().unwrap().len(),
        1
    );
}
