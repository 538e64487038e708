//! The Python example: an agent that writes through `annals append`, run against the scripted model and continued by the real OpenCode.

use std::path::Path;
use std::process::Command;

use annals_testkit::model::{ModelServer, Playbook, RequestKind, Turn};
use annals_testkit::opencode::{Lab, OpenCode};
use serde_json::json;

use super::kit::{User, annals, exported, text};

fn playbook() -> Playbook {
    Playbook::builtin()
        .scenario(
            "count",
            [
                Turn::text("Let me count. 🛒").and_call("bash", json!({ "command": "ls | wc -l" })),
                Turn::text("There are 2 files."),
            ],
        )
        .prompt("How many files", "count")
        .scenario("recall", [Turn::text("I counted 2.")])
        .prompt("What did you count", "recall")
}

/// Runs the example. Gives what it said.
fn agent(model: &ModelServer, home: &Path, directory: &Path, arguments: &[&str]) -> String {
    let annals = Path::new(env!("CARGO_BIN_EXE_annals")).parent().unwrap().to_owned();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths([annals].into_iter().chain(std::env::split_paths(&path))).unwrap();
    let output = Command::new("python3")
        .arg(annals_testkit::workspace().join("examples/agent.py"))
        .arg("How many files are here?")
        .args(arguments)
        .env("PATH", path)
        .env("HOME", home)
        .env("AGENT_URL", model.base_url())
        .env("AGENT_MODEL", "lab/lab-large")
        .current_dir(directory)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_agent_writes_to_the_store() {
    let model = ModelServer::start(playbook()).unwrap();
    let user = User::new();
    let work = user.root().join("work");
    std::fs::create_dir(&work).unwrap();
    std::fs::write(work.join("one"), "").unwrap();
    std::fs::write(work.join("two"), "").unwrap();
    let said = agent(&model, user.root(), &work, &[]);
    assert!(said.starts_with("There are 2 files."), "{said}");
    let shown = user.annals(&["show", "last"]).run().ok().text();
    for part in ["How many files are here?", "Let me count. 🛒", "ls | wc -l", "│ 2", "There are 2 files."]
    {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let listed = user.annals(&["list", "--json"]).run().ok().json();
    assert_eq!(
        (&listed[0]["status"], text(&listed[0], "title")),
        (&json!("done"), "How many files are here?")
    );
    assert!(listed[0]["tokens"]["input"].as_f64().unwrap() > 0.0, "{listed}");
}

#[test]
fn opencode_goes_on_with_what_the_agent_wrote() {
    let model = ModelServer::start(playbook()).unwrap();
    let lab = Lab::new(&OpenCode::version("1.18.33"));
    lab.configure(&model);
    let repository = lab.repo("shop", &[("README.md", "# Shop\n"), ("cart.js", "")]);
    // Its first start creates the database.
    lab.session_list(&repository);
    let home = lab.data();
    agent(&model, lab.root(), &repository, &["--home", home.to_str().unwrap()]);
    let listed = lab.session_list(&repository);
    let id = text(&listed[0], "id").to_owned();
    assert_eq!(text(&listed[0], "title"), "How many files are here?");
    assert_eq!(
        String::from_utf8_lossy(&lab.export(&repository, &id)),
        annals(&home, &["export", &id]).run().ok().text()
    );
    let n_before = model.requests().len();
    lab.run(&repository, &["--session", &id, "--model", "lab/lab-large", "What did you count?"]);
    let requests = model.requests();
    let chat = requests[n_before..].iter().find(|request| request.kind == RequestKind::Chat).unwrap();
    assert!(chat.conversation().text().contains("There are 2 files."));
    let export = exported(&home, &id);
    let last = export["messages"].as_array().unwrap().last().unwrap();
    assert!(last["parts"].as_array().unwrap().iter().any(|part| part["text"] == "I counted 2."), "{last}");
}
