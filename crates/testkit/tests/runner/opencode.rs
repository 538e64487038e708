//! The driver, with real executables. Each test starts several processes of a second or more, so each looks at
//! as much as it can.

use std::fs;
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use annals_testkit::model::{
    ModelRequest, ModelServer, Playbook, RepeatText, RequestKind, RequestRole, Turn,
};
use annals_testkit::opencode::{Lab, OpenCode, standard_config};
use serde_json::{Value, json};

const OLD: &str = "1.0.185";
const NEW: &str = "1.1.65";

/// Long enough for a machine that is busy with other things.
const PATIENCE: Duration = Duration::from_secs(60);

fn playbook() -> Playbook {
    let long = RepeatText { unit: "The quick brown fox jumps over the lazy dog. ".to_owned(), count: 8000 };
    let think = |text: &str| Turn { reasoning: "The README will tell.".to_owned(), ..Turn::text(text) };
    let read = json!({"filePath": "${cwd}/README.md"});
    let sleep = json!({"command": "sleep 300 & echo $! > sleep.pid; wait", "description": "Wait"});
    Playbook::builtin()
        .scenario("long", [Turn { repeat_text: Some(long), chunk: 50_000, ..Turn::default() }])
        .scenario("sleep", [Turn::text("Waiting.").and_call("bash", sleep)])
        .scenario("think", [think("Reading.").and_call("read", read), think("It is a shop.")])
        .scenario("recall", [Turn::text("We read the README.")])
        .prompt("What did we read", "recall")
}

fn lab(version: &str) -> (ModelServer, Lab) {
    let model = ModelServer::start(playbook()).unwrap();
    let lab = Lab::new(&OpenCode::version(version));
    lab.configure(&model);
    (model, lab)
}

fn chats(model: &ModelServer) -> Vec<ModelRequest> {
    model.requests().into_iter().filter(|request| request.kind == RequestKind::Chat).collect()
}

fn parts(exported: &[u8]) -> Vec<Value> {
    let document: Value = serde_json::from_slice(exported).unwrap();
    let messages = document["messages"].as_array().unwrap();
    messages.iter().flat_map(|message| message["parts"].as_array().unwrap().clone()).collect()
}

fn wait_until(what: &str, mut reached: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !reached() {
        assert!(Instant::now() < deadline, "waited {PATIENCE:?} for {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

fn runs(pid: &str) -> bool {
    // What has ended and was not waited for yet has no command line.
    fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|command| !command.is_empty())
}

fn converse(version: &str) {
    let (model, lab) = lab(version);
    let project = lab.repo("shop", &[("README.md", "# shop\n\nSells apples.\n")]);
    assert_eq!(lab.session_list(&project), json!([]));

    let session = lab.run(&project, &["--title", "Reading", "Look at it [[scenario:read]]"]);
    let again = lab.run(&project, &["--session", &session, "What did we read?"]);
    assert_eq!(again, session);

    let listed = lab.session_list(&project);
    assert_eq!(listed[0]["id"], session.as_str());
    assert_eq!(listed[0]["title"], "Reading");
    assert_eq!(listed[0]["directory"], project.to_str().unwrap());
    let exported = lab.export(&project, &session);
    let exported_parts = parts(&exported);
    let read = exported_parts.iter().find(|part| part["type"] == "tool").unwrap();
    assert_eq!(read["tool"], "read");
    assert_eq!(read["state"]["status"], "completed");
    assert!(read["state"]["output"].as_str().unwrap().contains("Sells apples."));
    assert!(exported_parts.iter().any(|part| part["text"] == "We read the README."));
    assert!(lab.stats(&project, &["--tools", "1"]).contains("read"));

    let chats = chats(&model);
    let turns: Vec<_> = chats.iter().map(|chat| (chat.scenario.as_deref().unwrap(), chat.turn)).collect();
    assert_eq!(turns, [("read", 0), ("read", 1), ("recall", 0)]);
    assert!(chats.iter().all(|chat| chat.session.as_deref() == Some(session.as_str())));
    let last = chats[2].conversation();
    assert!(last.text_of(RequestRole::User).contains("Look at it [[scenario:read]]"));
    assert!(last.text_of(RequestRole::Tool).contains("Sells apples."));
    assert!(last.text_of(RequestRole::Assistant).contains("The file says what the project is about."));

    // What one lab exports another imports, here into a project that is known by its id only.
    let elsewhere = Lab::new(lab.opencode());
    let file = elsewhere.root().join("exported.json");
    fs::write(&file, &exported).unwrap();
    let project_id = "0123456789abcdef0123456789abcdef01234567";
    let bound = elsewhere.bind_project("bound", project_id);
    assert_eq!(elsewhere.import(&bound, &file), session);
    assert_eq!(parts(&elsewhere.export(&bound, &session)), exported_parts);
    assert!(elsewhere.data().join(format!("storage/session/{project_id}/{session}.json")).exists());
}

#[test]
fn a_conversation_with_1_0() {
    converse(OLD);
}

#[test]
fn a_conversation_with_1_1() {
    converse(NEW);
}

fn serve(version: &str) {
    let (model, lab) = lab(version);
    let project = lab.repo("shop", &[("README.md", "# shop\n")]);
    let server = lab.serve(&project);
    let created = server.post("/session", &json!({"title": "First"}));
    let session = format!("/session/{}", created["id"].as_str().unwrap());
    let text = |text: &str| json!({"parts": [{"type": "text", "text": text}]});
    for name in ["lab/lab-large", "labthropic/claude-lab-4", "labai/gpt-5-lab"] {
        let (provider, model_id) = name.split_once('/').unwrap();
        let mut prompt = text("Read it [[scenario:think]]");
        prompt["model"] = json!({"providerID": provider, "modelID": model_id});
        let reply = server.post(&format!("{session}/message"), &prompt);
        assert_eq!(reply["info"]["providerID"], provider);
        assert_eq!(reply["info"]["error"], Value::Null, "{name}");
        let said = |kind: &str| {
            let parts = reply["parts"].as_array().unwrap();
            parts.iter().find(|part| part["type"] == kind).unwrap()["text"].clone()
        };
        assert_eq!(said("reasoning"), "The README will tell.", "{name}");
        assert_eq!(said("text"), "It is a shop.", "{name}");
    }
    // The first try fails, and OpenCode tries again.
    let reply = server.post(&format!("{session}/message"), &text("Go [[scenario:error-429]]"));
    assert!(reply["parts"].to_string().contains("Thanks for waiting."), "{reply}");
    let paths: Vec<String> = chats(&model).into_iter().map(|chat| chat.path).collect();
    // A session stays with its last model.
    let expected = ["/v1/chat/completions", "/v1/messages", "/v1/responses", "/v1/responses"];
    assert_eq!(paths, expected.map(|path| [path, path]).concat());
    assert_eq!(server.patch(&session, &json!({"title": "Second"}))["title"], "Second");
    assert_eq!(server.get(&session)["title"], "Second");
    assert_eq!(server.request("GET", "/session/ses_absent", None).status / 100, 4);
    model.wait_idle(Duration::from_millis(100), PATIENCE);
    server.stop();

    // Killed while a reply hangs and a tool runs: the data stays, the tool's process does not.
    let server = lab.serve(&project);
    assert_eq!(server.get(&session)["title"], "Second");
    let hanging = server.post("/session", &json!({}));
    let hanging = hanging["id"].as_str().unwrap().to_owned();
    server.post(&format!("/session/{hanging}/prompt_async"), &text("Go [[scenario:hang]]"));
    model.wait_hanging(1, PATIENCE);
    server.post(&format!("{session}/prompt_async"), &text("Go [[scenario:sleep]]"));
    let pid_file = project.join("sleep.pid");
    wait_until("the tool to start", || fs::read_to_string(&pid_file).is_ok_and(|pid| pid.ends_with('\n')));
    let pid = fs::read_to_string(&pid_file).unwrap().trim().to_owned();
    // While a shell becomes another program, it has no command line for a moment.
    wait_until("the tool to run", || runs(&pid));
    server.kill();
    wait_until("the end of the tool's process", || !runs(&pid));
    wait_until("the end of the reply", || model.state().active == 0);
    assert!(lab.export(&project, &hanging).starts_with(b"{"));

    let server = lab.serve(&project);
    assert_eq!(server.delete(&session), true);
    drop(server);
    assert!(!lab.cli(&project, &["export", created["id"].as_str().unwrap()], b"").status.success());
}

#[test]
fn a_server_of_1_0() {
    serve(OLD);
}

#[test]
fn a_server_of_1_1() {
    serve(NEW);
}

#[test]
fn long_output_arrives_whole() {
    let (_model, lab) = lab(NEW);
    let project = lab.directory("plain", &[("notes.txt", "notes\n")]);
    let session = lab.run(&project, &["[[scenario:long]]"]);
    let parts = parts(&lab.export(&project, &session));
    let text = parts.iter().find_map(|part| part["text"].as_str().filter(|text| text.len() > 300_000));
    assert_eq!(text.unwrap().matches("lazy dog").count(), 8000);
}

#[test]
fn input_reaches_the_command() {
    let (model, lab) = lab(NEW);
    let project = lab.repo("shop", &[("README.md", "# shop\n")]);
    let output = lab.cli(&project, &["run", "[[scenario:chat]]"], "from stdin: ✓".as_bytes());
    assert!(output.status.success());
    assert!(chats(&model)[0].conversation().text_of(RequestRole::User).contains("from stdin: ✓"));
}

#[test]
fn a_command_that_takes_too_long_is_killed() {
    let (model, mut lab) = lab(NEW);
    let project = lab.repo("shop", &[("README.md", "# shop\n")]);
    lab.set_timeout(Duration::from_secs(3));
    let run = || lab.cli(&project, &["run", "[[scenario:hang]]"], b"");
    let message = panic::catch_unwind(AssertUnwindSafe(run)).map(|output| output.status).unwrap_err();
    let message = message.downcast_ref::<String>().unwrap();
    assert!(message.contains("`opencode run [[scenario:hang]]` did not end within 3s"), "{message}");
    wait_until("the end of the reply", || model.state().active == 0);
}

#[test]
fn repositories_are_always_the_same() {
    let (_model, lab) = lab(NEW);
    let files = [("README.md", "# shop\n"), ("src/main.rs", "fn main() {}\n")];
    let commits = ["a", "deep/b"].map(|path| {
        let directory = lab.repo(path, &files);
        lab.git(&directory, &["rev-parse", "HEAD"])
    });
    assert_eq!(commits, ["a8b7cdb85582361921e4287ab3c02455065b31f2\n"; 2]);
}

#[test]
fn the_clock_can_be_set() {
    let (_model, mut lab) = lab(NEW);
    if !Lab::has_faketime() {
        let set = panic::catch_unwind(AssertUnwindSafe(|| lab.clock(Some(0))));
        assert!(set.is_err());
        return;
    }
    let then = 1_750_000_000_000;
    lab.clock(Some(then));
    let project = lab.repo("shop", &[("README.md", "# shop\n")]);
    lab.run(&project, &["--title", "Then", "[[scenario:chat]]"]);
    let created = lab.session_list(&project)[0]["created"].as_i64().unwrap();
    assert!((then..then + 600_000).contains(&created), "{created}");
    lab.clock(None);
    assert!(!lab.env().contains_key("FAKETIME"));
}

#[test]
fn the_environment_is_the_labs_own() {
    let (model, mut lab) = lab(NEW);
    lab.set_env("OPENCODE_CONFIG_CONTENT", "{}");
    for (name, value) in lab.env() {
        let value = value.into_string().unwrap();
        let is_path = name.starts_with("XDG_") || name == "HOME" || name == "TMPDIR";
        assert!(!is_path || Path::new(&value).starts_with(lab.root()), "{name}={value}");
    }
    assert_eq!(lab.env()["OPENCODE_CONFIG_CONTENT"], "{}");
    let mut config = standard_config(&model);
    config["username"] = json!("someone");
    lab.write_config(&config);
    let written = fs::read(lab.root().join("config/opencode/opencode.json")).unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&written).unwrap(), config);
}

#[test]
#[should_panic(expected = "Run `scripts/install-opencode`")]
fn a_missing_version_says_how_to_get_it() {
    OpenCode::version("0.0.1");
}
