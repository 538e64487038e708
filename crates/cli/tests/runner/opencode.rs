//! The real OpenCode takes what annals wrote: lists it, exports it, goes on with it.

use annals_testkit::model::{ModelServer, Playbook, RequestKind, Turn};
use annals_testkit::opencode::{Lab, OpenCode};
use annals_testkit::{Fixture, files_below};

use super::kit::annals;

/// A session of each fixture with thoughts, tools and edits, and a time at which its ids are those of the present era:
/// this OpenCode ignores prompts in a session whose ids look newer than its own.
const SESSIONS: [(&str, &str, i64); 2] = [
    ("1.0.185", "ses_4a5d86bc8ffe7yHbpq0akB3QWh", 1_767_182_520_000),
    ("1.1.65", "ses_385744ad0ffeWgvBCB6JclCZJ1", 1_772_020_980_000),
];
const PROJECT: &str = "15e401e64f208f230e2422540fb7c58e13fb0681";

#[test]
fn an_imported_session_is_listed_exported_and_continued() {
    for (version, id, now) in SESSIONS {
        let playbook = Playbook::builtin()
            .scenario("recall", [Turn::text("We tidied up the helpers.")])
            .prompt("What did we do", "recall");
        let model = ModelServer::start(playbook).unwrap();
        let mut lab = Lab::new(&OpenCode::version(version));
        lab.configure(&model);
        assert!(Lab::has_faketime(), "install libfaketime: scripts/test does");
        lab.clock(Some(now));
        let fixture = Fixture::unpack(&format!("opencode-{version}"));
        let home = lab.data();
        for file in files_below(&fixture.home().join("storage")) {
            let target = home.join(file.strip_prefix(fixture.home()).unwrap());
            std::fs::create_dir_all(target.parent().unwrap()).unwrap();
            std::fs::copy(&file, target).unwrap();
        }
        let exported = annals(&home, &["export", id]).run().ok();
        let lines = annals(&home, &["export", id, "--format", "jsonl"]).run().ok();
        let _ = annals(&home, &["rm", "--yes", id]).run().ok();
        assert_eq!(annals(&home, &["show", id]).run().code, 1);
        let _ = annals(&home, &["import", "-"]).stdin(&lines.stdout).run().ok();

        let repository = lab.bind_project("shop-api", PROJECT);
        let listed = lab.session_list(&repository);
        let row = listed.as_array().unwrap().iter().find(|row| row["id"] == id).expect("it is listed");
        let ours = annals(&home, &["list", "--json"]).run().ok().json();
        let ours = ours.as_array().unwrap().iter().find(|row| row["id"] == id).unwrap().clone();
        assert_eq!((&row["title"], &row["updated"]), (&ours["title"], &ours["updated"]));
        assert_eq!(String::from_utf8_lossy(&lab.export(&repository, id)), exported.text());

        let before: Vec<_> = model.requests();
        lab.run(&repository, &["--session", id, "--model", "lab/lab-large", "What did we do?"]);
        let request = model
            .requests()
            .into_iter()
            .skip(before.len())
            .find(|request| request.kind == RequestKind::Chat)
            .unwrap();
        let sent = request.conversation().text();
        assert!(
            sent.contains("Please tidy up the helpers")
                && sent.contains("The rounding is the interesting one."),
            "{sent}"
        );
        // What OpenCode wrote is read back, behind what annals had written.
        let after = annals(&home, &["export", id]).run().ok();
        assert_eq!(String::from_utf8_lossy(&lab.export(&repository, id)), after.text());
        let text = annals(&home, &["show", id]).run().ok().text();
        let (earlier, later) = text.split_once("What did we do?").expect("the new prompt is shown");
        assert!(earlier.contains("Please tidy up the helpers"), "{text}");
        assert!(later.contains("We tidied up the helpers."), "{text}");
    }
}

/// Renamed and archived by annals, as OpenCode sees it.
#[test]
fn changes_are_seen_by_the_real_opencode() {
    let lab = Lab::new(&OpenCode::version("1.1.65"));
    let fixture = Fixture::unpack("opencode-1.1.65");
    let home = lab.data();
    std::fs::create_dir_all(&home).unwrap();
    std::fs::rename(fixture.home().join("storage"), home.join("storage")).unwrap();
    let id = SESSIONS[1].1;
    let _ = annals(&home, &["rename", id, "Zeile mit Umlaut: Größe 🎉"]).run().ok();
    let _ = annals(&home, &["archive", id]).run().ok();
    let _ = annals(&home, &["rm", "--yes", "37f7fe572"]).run().ok();
    let repository = lab.bind_project("shop-api", PROJECT);
    let listed = lab.session_list(&repository);
    let rows = listed.as_array().unwrap();
    assert_eq!(rows.iter().find(|row| row["id"] == id).unwrap()["title"], "Zeile mit Umlaut: Größe 🎉");
    assert_eq!(rows.len(), 106);
    let exported: serde_json::Value = serde_json::from_slice(&lab.export(&repository, id)).unwrap();
    assert_eq!(exported["info"]["time"]["archived"], 1_772_020_980_000u64);
}
