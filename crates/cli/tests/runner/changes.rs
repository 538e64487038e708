//! The commands that change a home.

use annals_testkit::Fixture;
use insta::assert_snapshot;

use super::kit::{annals, empty_home, plain, snapshot, write};

const CART: &str = "ses_385744ad0ffeWgvBCB6JclCZJ1";

#[test]
fn rename_changes_the_title_and_nothing_else() {
    let fixture = Fixture::unpack("opencode-1.1.65");
    let mut expected = snapshot(fixture.home());
    assert_snapshot!(annals(fixture.home(), &["rename", "385744ad0", "Tidy \"helpers\" 🎉"]).run(), @r#"
    exit 0
    -- stderr
    ses_385744ad0ffeWgvBCB6JclCZJ1 is now called "Tidy \"helpers\" 🎉"
      in HOME
    operation 1; `annals undo 1` takes it back
    "#);
    let (path, _) = expected
        .iter()
        .find(|(path, _)| {
            path.ends_with(format!("{CART}.json")) && path.to_str().unwrap().contains("/session/")
        })
        .unwrap();
    let path = path.clone();
    let text = String::from_utf8(expected[&path].clone()).unwrap();
    let text =
        text.replace(r#""title": "\"Health\" helper & rounding""#, r#""title": "Tidy \"helpers\" 🎉""#);
    expected.insert(path, text.into_bytes());
    assert_eq!(snapshot(fixture.home()), expected);
}

#[test]
fn archive_sets_and_takes_away_the_mark() {
    let fixture = Fixture::unpack("opencode-1.1.65");
    let before = snapshot(fixture.home());
    let archived = annals(fixture.home(), &["archive", CART, "--json"]).run().ok().json();
    assert_eq!(archived[0]["archived"], 1_772_020_980_000u64);
    let listed = annals(fixture.home(), &["list", "--archived", "--json"]).run().ok().json();
    assert_eq!(listed.as_array().unwrap().len(), 2, "the one OpenCode archived, and this");
    let _ = annals(fixture.home(), &["archive", "--undo", CART]).run().ok();
    assert_eq!(snapshot(fixture.home()), before);
}

#[test]
fn rm_says_what_goes_and_leaves_nothing_of_it() {
    let fixture = Fixture::unpack("opencode-1.1.65");
    let before = snapshot(fixture.home());
    assert_snapshot!(annals(fixture.home(), &["rm", "--dry-run", "37f7fe572"]).run(), @"
    exit 0
    -- stderr
    ses_37f7fe572ffeneN4vs3kZeD3a3  Two subagents
      ↳ ses_37f7fe445ffejN1QLm1a4Kx9Lj  Explore sources (@explore subagent)
      ↳ ses_37f7fe443ffedE4o7LMHbx4hmy  Check the docs (@reviewer subagent)
    3 sessions, 9 messages, 22 parts, 37 documents in all
      from HOME
    nothing was deleted
    ");
    assert_eq!(snapshot(fixture.home()), before);
    assert_snapshot!(annals(fixture.home(), &["rm", "--yes", "37f7fe572"]).run(), @"
    exit 0
    -- stderr
    ses_37f7fe572ffeneN4vs3kZeD3a3  Two subagents
      ↳ ses_37f7fe445ffejN1QLm1a4Kx9Lj  Explore sources (@explore subagent)
      ↳ ses_37f7fe443ffedE4o7LMHbx4hmy  Check the docs (@reviewer subagent)
    3 sessions, 9 messages, 22 parts, 37 documents in all
      from HOME
    deleted 3 sessions
      in HOME
    operation 1; `annals undo 1` takes it back
    ");
    let after = snapshot(fixture.home());
    assert_eq!(before.len() - after.len(), 37);
    let ids = ["ses_37f7fe572", "ses_37f7fe443", "ses_37f7fe445"];
    for (path, bytes) in &after {
        let text = format!("{} {}", path.display(), String::from_utf8_lossy(bytes));
        assert!(!ids.iter().any(|id| text.contains(id)), "{}", path.display());
    }
    // Everything else is as it was.
    assert!(after.iter().all(|(path, bytes)| before[path] == *bytes));
}

#[test]
fn a_session_travels_from_home_to_home() {
    let fixture = Fixture::unpack("opencode-1.1.65");
    for format in ["opencode", "jsonl"] {
        let target = tempfile::tempdir().unwrap();
        let home = target.path().join("new-home");
        let exported =
            annals(fixture.home(), &["export", "37f7fe572", "--children", "--format", format]).run().ok();
        if format == "opencode" {
            // Several documents in a row are for reading; one at a time can be imported.
            for id in ["37f7fe572", "37f7fe443", "37f7fe445"] {
                let one = annals(fixture.home(), &["export", id]).run().ok();
                let _ = plain(target.path(), &["--home", "new-home", "import", "-"])
                    .stdin(&one.stdout)
                    .run()
                    .ok();
            }
        } else {
            let account = plain(target.path(), &["--home", "new-home", "import", "-", "--json"])
                .stdin(&exported.stdout)
                .run()
                .ok()
                .json();
            assert_eq!(account["seen"], account["imported"]);
            assert_eq!(account["sessions"].as_array().unwrap().len(), 3);
        }
        let again = annals(&home, &["export", "37f7fe572", "--children", "--format", "opencode"]).run().ok();
        let original =
            annals(fixture.home(), &["export", "37f7fe572", "--children", "--format", "opencode"]).run().ok();
        assert_eq!(again.text(), original.text(), "{format}");
        // Every document is byte for byte the one it was; the project record is new unless it came along.
        let (ours, theirs) = (snapshot(&home), snapshot(fixture.home()));
        for (path, bytes) in &ours {
            let relative = path.strip_prefix(&home).unwrap();
            let source = fixture.home().join(relative);
            if format == "jsonl" || !relative.starts_with("storage/project") {
                assert_eq!(theirs.get(&source), Some(bytes), "{}", relative.display());
            }
        }
        assert_eq!(annals(&home, &["check"]).run().code, 0);
    }
}

#[test]
fn an_export_goes_to_a_file_that_is_complete_or_not_there() {
    let fixture = Fixture::unpack("opencode-1.1.65");
    let _ = annals(fixture.home(), &["export", CART, "-o", "out.json"]).run().ok();
    let printed = annals(fixture.home(), &["export", CART]).run().ok();
    assert_eq!(std::fs::read(fixture.home().join("out.json")).unwrap(), printed.stdout);
    assert_snapshot!(annals(fixture.home(), &["export", CART, "-o", "no/such/dir/out.json"]).run(), @"
    exit 1
    -- stderr
    error: cannot write no/such/dir/out.json: No such file or directory (os error 2)
    ");
    let failed =
        annals(fixture.home(), &["export", CART, "--message", "msg_nothing", "-o", "none.json"]).run();
    assert_eq!(failed.code, 1);
    assert!(!fixture.home().join("none.json").exists());
}

#[test]
fn markdown_reads_well() {
    let fixture = Fixture::unpack("opencode-1.1.65");
    assert_snapshot!(annals(fixture.home(), &["export", "37f7fe572", "--format", "markdown"]).run().ok().text(), @"
    # Two subagents

    - Session: `ses_37f7fe572ffeneN4vs3kZeD3a3`
    - Directory: `/home/dev/projects/shop-api`
    - Created: 2026-02-21 14:00:05 UTC
    - Updated: 2026-02-21 14:00:05 UTC
    - OpenCode: 1.1.65

    ## User · 2026-02-21 14:00:05 UTC

    Check sources and docs [[scenario:task-parallel]]

    ## Assistant (build, lab-large) · 2026-02-21 14:00:05 UTC

    **task** `Explore sources (@explore)` — done

    *Session `ses_37f7fe445ffejN1QLm1a4Kx9Lj`*

    <details><summary>output</summary>

    ```
    task_id: ses_37f7fe445ffejN1QLm1a4Kx9Lj (for resuming to continue this task if needed)

    <task_result>
    orders.ts, server.ts, util/money.ts
    </task_result>
    ```

    </details>

    **task** `Check the docs (@reviewer)` — done

    *Session `ses_37f7fe443ffedE4o7LMHbx4hmy`*

    <details><summary>output</summary>

    ```
    task_id: ses_37f7fe443ffedE4o7LMHbx4hmy (for resuming to continue this task if needed)

    <task_result>
    Two documents.
    </task_result>
    ```

    </details>

    Both are back: three sources, two documents.

    *10214 tokens in, 83 out, 15232 from cache, $0.0365*
    ");
}

#[test]
fn merge_adds_what_is_missing() {
    let fixture = Fixture::unpack("opencode-1.1.65");
    let exported = annals(fixture.home(), &["export", CART]).run().ok();
    let (path, bytes) = snapshot(fixture.home())
        .into_iter()
        .find(|(_, bytes)| {
            let text = String::from_utf8_lossy(bytes);
            text.contains(CART) && text.contains("rounds half up") && text.contains("\"edit\"")
        })
        .unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_snapshot!(annals(fixture.home(), &["import", "--merge", "-"]).stdin(&exported.stdout).run(), @"
    exit 0
    -- stderr
    ses_385744ad0ffeWgvBCB6JclCZJ1
    1 session: 1 imported, 37 unchanged of 38 documents seen
      in HOME
    operation 1; `annals undo 1` takes it back
    ");
    assert_eq!(std::fs::read(path).unwrap(), bytes);
}

/// An import from another machine is filed where the user works now.
#[test]
fn an_import_can_be_filed_under_this_repository() {
    let fixture = Fixture::unpack("opencode-1.1.65");
    let exported = annals(fixture.home(), &["export", CART]).run().ok();
    let home = empty_home();
    let work = tempfile::tempdir().unwrap();
    let git = |arguments: &[&str]| {
        let ran = std::process::Command::new("git")
            .args(["-c", "user.name=D", "-c", "user.email=d@example.com"])
            .args(arguments)
            .current_dir(work.path())
            .output()
            .unwrap();
        String::from_utf8(ran.stdout).unwrap().trim().to_owned()
    };
    git(&["init", "-q"]);
    git(&["commit", "-q", "--allow-empty", "-m", "first"]);
    let root = git(&["rev-parse", "HEAD"]);
    let _ = annals(home.path(), &["import", "-", "--dir", "."])
        .current_dir(work.path())
        .stdin(&exported.stdout)
        .run()
        .ok();
    let listed =
        annals(home.path(), &["list", "--json", "--project", "."]).current_dir(work.path()).run().ok().json();
    assert_eq!(listed[0]["projectID"], root);
    assert_eq!(listed[0]["directory"], work.path().canonicalize().unwrap().display().to_string());
}

#[test]
fn two_renames_at_once_both_happen() {
    let home = empty_home();
    write(home.path(), "storage/session/global/ses_1.json", r#"{"id":"ses_1","title":"0"}"#);
    std::thread::scope(|scope| {
        for n in 0..8 {
            let home = home.path();
            scope.spawn(move || {
                let _ = annals(home, &["rename", "ses_1", &format!("title {n}")]).run().ok();
            });
        }
    });
    let title = annals(home.path(), &["list", "--json"]).run().ok().json()[0]["title"].clone();
    assert!(title.as_str().unwrap().starts_with("title "));
}
