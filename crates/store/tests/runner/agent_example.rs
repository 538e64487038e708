//! The Rust example: an agent that writes its turns, run against the scripted model and continued by the real OpenCode.

#[path = "../../examples/agent.rs"]
#[allow(dead_code, unreachable_pub, reason = "the example is a program of its own")]
mod agent;

use annals::Store;
use annals::homes::opencode::directory::OpencodeDirectory;
use annals_testkit::model::{ModelServer, Playbook, RequestKind, Turn};
use annals_testkit::opencode::{Lab, OpenCode};
use serde_json::json;

fn playbook() -> Playbook {
    Playbook::builtin()
        .scenario(
            "add",
            [
                Turn::text("Let me calculate.").and_call("bash", json!({ "command": "echo $((6 * 7))" })),
                Turn::text("It is 42."),
            ],
        )
        .prompt("What is six times seven", "add")
        .scenario("recall", [Turn::text("I said 42.")])
        .prompt("What did you say", "recall")
}

#[test]
fn the_agent_answers_and_opencode_goes_on() {
    let model = ModelServer::start(playbook()).unwrap();
    let lab = Lab::new(&OpenCode::version("1.1.65"));
    lab.configure(&model);
    let store: Store = OpencodeDirectory::open_or_create(&lab.data()).unwrap().into();
    let session =
        agent::converse(&store, &model.base_url(), "lab/lab-large", "What is six times seven?").unwrap();
    let said: Vec<String> = session.messages().map(|message| message.unwrap().text()).collect();
    assert_eq!(said, ["What is six times seven?", "Let me calculate.", "It is 42."]);
    let result = &model.requests()[1];
    assert!(result.conversation().text().contains("42"), "{result:?}");

    // The session is of the directory that the test runs in.
    let directory = std::env::current_dir().unwrap();
    let n_before = model.requests().len();
    lab.run(
        &directory,
        &["--session", session.id().as_str(), "--model", "lab/lab-large", "What did you say?"],
    );
    let requests = model.requests();
    let chat = requests[n_before..].iter().find(|request| request.kind == RequestKind::Chat).unwrap();
    assert!(chat.conversation().text().contains("It is 42."));
    assert_eq!(session.messages().last().unwrap().unwrap().text(), "I said 42.");
}
