//! `annals move-project`: after a directory was moved, the real OpenCode finds its sessions there and goes on with them.

use annals_testkit::model::{ModelServer, Playbook, Turn};
use annals_testkit::opencode::{Lab, OpenCode};
use serde_json::{Value, json};

use super::kit::{AnnalsCommand, User, plain, text, write};

fn annals(lab: &Lab, arguments: &[&str]) -> AnnalsCommand {
    let command = plain(lab.root(), arguments);
    lab.env().into_iter().fold(command, |command, (name, value)| command.env(&name, value))
}

fn sessions_move_along(version: &str) {
    let write = json!({"filePath": "made.txt", "content": "made\n"});
    let playbook = Playbook::builtin()
        .scenario("make", [Turn::call("write", write).after_snapshot(), Turn::text("Made.")])
        .scenario("on", [Turn::text("It goes on.")])
        .prompt("Make it", "make")
        .prompt("Go on", "on");
    let model = ModelServer::start(playbook).unwrap();
    let lab = Lab::new(&OpenCode::version(version));
    lab.configure(&model);
    let old = lab.repo("old/shop", &[("README.md", "# shop\n"), ("web/README.md", "# web\n")]);
    let elsewhere = lab.repo("other", &[("README.md", "# other\n")]);
    let scratch = lab.directory("old/scratch", &[("notes.txt", "notes\n")]);
    let ask = |cwd: &std::path::Path, prompt: &str| lab.run(cwd, &["--model", "lab/lab-large", prompt]);
    // The first step in a project has no snapshot in 1.2.
    let first = ask(&old, "Go on.");
    let shop = ask(&old, "Make it.");
    let web = ask(&old.join("web"), "Go on.");
    let plain_one = ask(&scratch, "Go on.");
    let other = ask(&elsewhere, "Go on.");
    let before: Value = annals(&lab, &["list", "--json"]).run().ok().json();

    let new = lab.root().join("new");
    std::fs::rename(lab.root().join("old"), &new).unwrap();
    let (from, to) = (lab.root().join("old"), new.clone());
    let (from, to) = (from.to_str().unwrap(), to.to_str().unwrap());
    let projects = annals(&lab, &["projects"]).run().ok().text();
    assert!(projects.contains("[gone]"), "{projects}");
    let dry = annals(&lab, &["move-project", "--dry-run", "--json", from, to]).run().ok().json();
    assert_eq!((&dry["done"], dry["sessions"].as_array().unwrap().len()), (&json!(false), 4), "{dry:#}");
    assert_eq!(annals(&lab, &["move-project", from, to]).run().code, 2);
    let moved = annals(&lab, &["move-project", "--yes", "--json", from, to]).run().ok().json();
    assert_eq!(moved["done"], true, "{moved:#}");

    let directory = |session: &str| {
        let rows = annals(&lab, &["list", "--json"]).run().ok().json();
        let row = rows.as_array().unwrap().iter().find(|row| row["id"] == session).unwrap().clone();
        text(&row, "directory").to_owned()
    };
    assert_eq!(directory(&shop), new.join("shop").to_str().unwrap());
    assert_eq!(directory(&web), new.join("shop/web").to_str().unwrap());
    assert_eq!(directory(&plain_one), new.join("scratch").to_str().unwrap());
    assert_eq!(directory(&other), elsewhere.to_str().unwrap());
    let projects = annals(&lab, &["projects"]).run().ok().text();
    assert!(!projects.contains("[gone]"), "{projects}");

    // OpenCode lists, exports, continues and reverts them there.
    let listed = lab.session_list(&new.join("shop"));
    let ids: Vec<&str> = listed.as_array().unwrap().iter().map(|row| text(row, "id")).collect();
    for session in [&first, &shop, &web] {
        assert!(ids.contains(&session.as_str()), "{version}: {ids:?}");
    }
    let exported: Value = serde_json::from_slice(&lab.export(&new.join("shop"), &shop)).unwrap();
    assert_eq!(exported["info"]["directory"], new.join("shop").to_str().unwrap());
    let server = lab.serve(&new.join("shop"));
    let made = new.join("shop/made.txt");
    assert!(made.exists());
    let messages = server.get(&format!("/session/{shop}/message"));
    let prompt = text(&messages[0]["info"], "id").to_owned();
    server.post(&format!("/session/{shop}/revert"), &json!({"messageID": prompt}));
    assert!(messages.to_string().contains(r#""type":"patch""#), "{version}: {messages}");
    assert!(!made.exists(), "{version}");
    server.post(&format!("/session/{shop}/unrevert"), &json!({}));
    assert!(made.exists(), "{version}");
    server.stop();
    for (cwd, session) in [(new.join("shop"), &shop), (new.join("scratch"), &plain_one)] {
        let again = lab.run(&cwd, &["--session", session, "--model", "lab/lab-large", "Go on."]);
        assert_eq!(again, *session);
        let exported: Value = serde_json::from_slice(&lab.export(&cwd, session)).unwrap();
        let last = exported["messages"].as_array().unwrap().last().unwrap();
        assert_eq!(last["info"]["path"]["cwd"], cwd.to_str().unwrap(), "{version}");
    }
    // What was continued keeps the operation from being taken back; the others are as they were.
    let undone = annals(&lab, &["undo", "--only", &web]).run();
    assert_eq!(undone.code, 0, "{undone}");
    let was = before.as_array().unwrap().iter().find(|row| row["id"] == web.as_str()).unwrap();
    assert_eq!(directory(&web), text(was, "directory"));
}

#[test]
fn sessions_of_1_1_move_along() {
    sessions_move_along("1.1.65");
}

#[test]
fn sessions_of_1_2_move_along() {
    sessions_move_along("1.2.27");
}

#[test]
fn sessions_of_1_18_move_along() {
    sessions_move_along("1.18.33");
}

#[test]
fn a_move_can_be_taken_back_and_mistakes_are_explained() {
    for fixture in ["opencode-1.1.65", "opencode-1.2.27", "opencode-1.18.33"] {
        let user = User::with(fixture);
        let new = user.root().join("moved");
        std::fs::create_dir_all(new.join("shop-api/packages")).unwrap();
        let before = user.annals(&["list", "--json"]).run().ok().json();
        let files = user.files();
        let to = new.to_str().unwrap();
        let moved =
            user.annals(&["move-project", "--yes", "--json", "/home/dev/projects", to]).run().ok().json();
        assert!(moved["sessions"].as_array().unwrap().len() > 100, "{moved:#}");
        let after = user.annals(&["list", "--json"]).run().ok().json();
        assert_ne!(before, after);
        let check = user.annals(&["check", "--json"]).run().json();
        let errors = check["problems"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|problem| problem["severity"] == "error" && text(problem, "kind") != "unservable");
        assert_eq!(errors.count(), 0, "{fixture}: {check:#}");
        let _ = user.annals(&["undo"]).run().ok();
        assert_eq!(user.annals(&["list", "--json"]).run().ok().json(), before, "{fixture}");
        if fixture == "opencode-1.1.65" {
            let mut now = user.files();
            now.retain(|path, _| !path.to_string_lossy().contains("/.annals/"));
            assert_eq!(now, files);
        }
        let none = user.annals(&["move-project", "/nowhere", to]).run();
        assert_eq!(none.code, 1, "{none}");
        assert!(none.stderr.contains("/home/dev/projects/shop-api"), "{none}");
        let missing = user.annals(&["move-project", "/home/dev", "/not/there"]).run();
        assert_eq!(missing.code, 1, "{missing}");
        assert_eq!(user.annals(&["move-project", to, to]).run().code, 2);
    }
}

/// Directories outside of repositories share one project, whose record may name a directory that is gone.
#[test]
fn nothing_outside_of_a_repository_was_moved_here() {
    let user = User::new();
    user.write_session("36aaaaffe1", "Door", "Where is the door", "The door is here");
    let record = r#"{"id":"global","worktree":"/home/dev","time":{"created":1771950000000}}"#;
    write(&user.opencode(), "storage/project/global.json", record);
    let overview = user.annals(&["--json"]).run().ok().json();
    assert_eq!(overview["moved"], Value::Null, "{overview:#}");
}
