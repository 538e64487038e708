//! Keeping the store: backups, pruning, forgetting.

use insta::assert_snapshot;

use super::kit::User;

fn user() -> User {
    let user = User::new();
    user.write_session("36aaaaffe1", "Fix the cart", "It is empty", "The secret is xylophone");
    user.write_session("36bbbbffe2", "Fix the door", "It is open", "Closed now");
    let _ = user.annals(&["sync"]).run().ok();
    user
}

fn hide_sizes(ran: &super::kit::Ran) -> String {
    let text = ran.to_string();
    let mut words: Vec<String> = text.split(' ').map(str::to_owned).collect();
    for n in 1..words.len() {
        if words[n].starts_with("KB") || words[n].starts_with("MB") {
            words[n - 1] = "N".to_owned();
        }
    }
    words.join(" ")
}

#[test]
fn a_backup_is_a_store_and_can_be_put_back() {
    let user = user();
    assert_snapshot!(hide_sizes(&user.annals(&["backup", "b.db"]).run()), @"");
    assert_snapshot!(user.annals(&["backup", "b.db"]).run(), @"");
    assert_eq!(
        user.annals(&["--home", "b.db", "list", "--json"]).run().ok().json().as_array().unwrap().len(),
        2
    );
    let _ = user.annals(&["forget", "cart", "--yes"]).run().ok();
    assert_eq!(user.annals(&["list", "--json"]).run().ok().json().as_array().unwrap().len(), 1);
    assert_snapshot!(user.annals(&["restore-backup", "b.db"]).run(), @"");
    assert_snapshot!(user.annals(&["restore-backup", "b.db", "--yes"]).run(), @"");
    assert_eq!(user.annals(&["list", "--json"]).run().ok().json().as_array().unwrap().len(), 2);
    // Also where there is none yet, without asking.
    let elsewhere =
        user.annals(&["restore-backup", "b.db", "--store", "new/x.db", "--json"]).run().ok().json();
    assert!(elsewhere["kept"].is_null() && elsewhere["documents"].as_u64().unwrap() > 8, "{elsewhere}");
    let backup = user.annals(&["backup", "c.db", "--json"]).run().ok().json();
    assert_eq!(backup["file"], user.root().join("c.db").display().to_string());
    assert_snapshot!(user.annals(&["restore-backup", "nothing.db", "--yes"]).run(), @"");
    std::fs::write(user.root().join("text.db"), "text").unwrap();
    assert_snapshot!(user.annals(&["restore-backup", "text.db", "--yes"]).run(), @"");
    assert_eq!(user.annals(&["list", "--json"]).run().ok().json().as_array().unwrap().len(), 2);
}

#[test]
fn forget_leaves_nothing() {
    let user = user();
    assert_snapshot!(user.annals(&["forget", "cart"]).run(), @"");
    assert_snapshot!(user.annals(&["forget", "cart", "--yes"]).run(), @"");
    let hits = user.annals(&["search", "xylophone", "--json"]).run().ok().json();
    assert_eq!(hits, serde_json::json!([]));
    for file in annals_testkit::files_below(user.store().parent().unwrap()) {
        let bytes = std::fs::read(&file).unwrap();
        assert!(!bytes.windows(9).any(|window| window == b"xylophone"), "{}", file.display());
        assert!(!bytes.windows(14).any(|window| window == b"ses_36aaaaffe1"), "{}", file.display());
    }
    // Sync does not bring it back.
    assert_snapshot!(user.annals(&["sync"]).run(), @"");
    assert_snapshot!(user.annals(&["forget", "cart", "--yes"]).run(), @"");
    let json = user.annals(&["forget", "door", "--yes", "--json"]).run().ok().json();
    assert_eq!(json["sessions"], serde_json::json!(["ses_36bbbbffe2"]));
    assert_eq!((&json["rewritten"], &json["logEmptied"]), (&true.into(), &true.into()), "{json}");
}

#[test]
fn forget_takes_children_along() {
    let user = User::with("opencode-1.1.65");
    assert_snapshot!(user.annals(&["forget", "37f7fe572", "--children", "--yes"]).run(), @"");
    assert_eq!(user.annals(&["list", "--json"]).run().ok().json().as_array().unwrap().len(), 118);
}

#[test]
fn prune_says_what_goes_first() {
    let user = user();
    user.write_session("36aaaaffe1", "Fix the cart", "It is empty", "Rewritten");
    let _ = user.later(10, &["sync"]).run().ok();
    assert_snapshot!(user.later(20, &["prune", "--older-than", "15m"]).run(), @"");
    assert_snapshot!(user.later(20, &["prune", "--older-than", "5m", "--dry-run"]).run(), @"");
    assert_snapshot!(user.later(20, &["prune", "--older-than", "5m"]).run(), @"");
    let plan =
        user.later(20, &["prune", "--older-than", "5m", "cart", "--dry-run", "--json"]).run().ok().json();
    assert_eq!((&plan["states"], &plan["pruned"]), (&1.into(), &false.into()), "{plan}");
    assert_snapshot!(user.later(20, &["prune", "--older-than", "5m", "--yes"]).run(), @"");
    assert_snapshot!(user.later(21, &["prune", "--older-than", "5m", "--yes"]).run(), @"");
    assert_snapshot!(user.later(21, &["prune"]).run(), @"");
    assert!(user.later(21, &["show", "cart"]).run().ok().text().contains("Rewritten"));
}

#[test]
fn reindex_makes_it_anew() {
    let user = user();
    std::fs::remove_dir_all(user.store().with_extension("index")).unwrap();
    assert_snapshot!(user.annals(&["reindex"]).run(), @"");
    let json = user.annals(&["reindex", "--json"]).run().ok().json();
    assert_eq!(json["sessions"], 2);
    assert_eq!(
        user.annals(&["search", "xylophone", "--json"]).run().ok().json().as_array().unwrap().len(),
        1
    );
}
