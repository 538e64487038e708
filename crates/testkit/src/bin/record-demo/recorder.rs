//! Plays the sessions with a real OpenCode, and checks that they went as written.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use annals_testkit::files_below;
use annals_testkit::model::{ModelServer, RequestKind};
use annals_testkit::opencode::{Lab, OpenCode, Server, standard_config};
use serde_json::{Value, json};

use crate::places::{self, Places};
use crate::story::{self, Change, Ending, Lengths, Mention, Prompt, Session, Time};

/// How much faster the recorded clock runs. A scripted model answers at once, and a session in which every
/// step takes a tenth of a second would look odd.
pub(crate) const CLOCK_RATE: u32 = 25;

const PATIENCE: Duration = Duration::from_secs(60);

/// Records the sessions, and hands the directory `storage` to `keep` before all is removed.
///
/// # Panics
/// If something is not installed, or the sessions did not go as written.
pub(crate) fn record<T>(sessions: &[Session], keep: impl FnOnce(&Path) -> T) -> T {
    let (playbook, lengths) = story::playbook(sessions);
    let model = ModelServer::start(playbook).expect("the playbook has valid patterns");
    let mut lab = Lab::new(&OpenCode::version("1.1.65"));
    require_tools(&lab);
    lab.write_config(&config(&model));
    // File times are real, and thus in the future of the recorded clock: each file would seem to have changed
    // after it was read.
    lab.set_env("OPENCODE_DISABLE_FILETIME_CHECK", "1");
    let _places = Places::make(&lab);
    for session in sessions {
        Recorder { lab: &mut lab, model: &model }.session(session);
    }
    check_told(&model, &lengths);
    let storage = lab.data().join("storage");
    check_calls(&storage, sessions);
    hide_address(&storage, &model);
    check_clean(&storage, &[&lab.root().display().to_string(), "/tmp", "127.0.0.1", "localhost"]);
    keep(&storage)
}

#[derive(Debug)]
struct Recorder<'a> {
    lab: &'a mut Lab,
    model: &'a ModelServer,
}

impl Recorder<'_> {
    fn session(&mut self, session: &Session) {
        let mut id = None;
        for prompt in &session.prompts {
            let server = self.serve(session, prompt.at);
            let id = id.get_or_insert_with(|| create_session(&server));
            self.prompt(&server, id, session, prompt);
            assert_eq!(server.get(&format!("/session/{id}"))["title"], session.prompts[0].title);
            server.stop();
        }
        let id = id.expect("a session has a prompt");
        for (at, change) in &session.changes {
            let server = self.serve(session, *at);
            let change = match change {
                Change::Title(title) => json!({"title": title}),
                Change::Archive => json!({"time": {"archived": at.unix_ms()}}),
            };
            server.patch(&format!("/session/{id}"), &change);
            server.stop();
        }
    }

    /// One server per prompt: only a new process sees the clock that was set.
    fn serve(&mut self, session: &Session, at: Time) -> Server {
        self.lab.clock(Some(at.unix_ms()));
        // In place of the lab's own value, which knows no rate.
        self.lab.set_env("FAKETIME", format!("@{at} x{CLOCK_RATE}"));
        self.lab.serve(&places::path(session.place))
    }

    fn prompt(&self, server: &Server, id: &str, session: &Session, prompt: &Prompt) {
        let (provider, model) = session.model.ids();
        let body = json!({
            "model": {"providerID": provider, "modelID": model},
            "agent": prompt.agent,
            "parts": parts(session, prompt),
        });
        if let Ending::Abort(printed) = prompt.ending {
            server.post(&format!("/session/{id}/prompt_async"), &body);
            wait_for(server, id, |messages| messages.iter().any(|message| has_printed(message, printed)));
            server.post(&format!("/session/{id}/abort"), &json!({}));
        } else {
            let reply = server.post(&format!("/session/{id}/message"), &body);
            let failed = !reply["info"]["error"].is_null();
            assert_eq!(failed, matches!(prompt.ending, Ending::Failure), "{}: {reply}", prompt.title);
        }
        self.settle(server, id);
    }

    /// OpenCode answers before it has written down titles, changed files and the end of what was interrupted.
    fn settle(&self, server: &Server, id: &str) {
        wait_for(server, id, |messages| messages.iter().all(is_settled));
        self.model.wait_idle(Duration::from_millis(500), PATIENCE);
    }
}

fn config(model: &ModelServer) -> Value {
    let mut config = standard_config(model);
    let provider = json!({"options": {"baseURL": model.base_url(), "apiKey": "none"}});
    config["provider"] = json!({"anthropic": provider, "openai": provider});
    config["enabled_providers"] = json!(["anthropic", "openai"]);
    config["model"] = json!("anthropic/claude-sonnet-4-5");
    config["small_model"] = json!("anthropic/claude-haiku-4-5");
    config
}

fn create_session(server: &Server) -> String {
    let created = server.post("/session", &json!({}));
    created["id"].as_str().expect("a session has an id").to_owned()
}

fn parts(session: &Session, prompt: &Prompt) -> Vec<Value> {
    let mut parts = vec![json!({"type": "text", "text": prompt.text})];
    for mention in &prompt.mentions {
        let (Mention::File(name) | Mention::Agent(name)) = mention;
        let value = format!("@{name}");
        let start = prompt.text.find(&value).expect("what is mentioned is in the text");
        let place = json!({"value": value, "start": start, "end": start + value.len()});
        parts.push(match mention {
            Mention::File(name) => json!({
                "type": "file",
                "mime": "text/plain",
                "url": format!("file://{}/{name}", places::path(session.place).display()),
                "filename": name,
                "source": {"type": "file", "path": name, "text": place},
            }),
            Mention::Agent(name) => json!({"type": "agent", "name": name, "source": place}),
        });
    }
    parts
}

/// Waits for a state of a session's messages.
fn wait_for(server: &Server, id: &str, reached: impl Fn(&[Value]) -> bool) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let messages = server.get(&format!("/session/{id}/message"));
        if messages.as_array().is_some_and(|messages| reached(messages)) {
            return;
        }
        assert!(Instant::now() < deadline, "waited {PATIENCE:?} in vain: {messages}");
        thread::sleep(Duration::from_millis(50));
    }
}

/// Whether a command of a message has printed a text.
fn has_printed(message: &Value, text: &str) -> bool {
    let mut parts = message["parts"].as_array().into_iter().flatten();
    parts.any(|part| part["state"]["metadata"]["output"].as_str().is_some_and(|output| output.contains(text)))
}

fn is_settled(message: &Value) -> bool {
    let info = &message["info"];
    let last = if info["role"] == "user" { &info["summary"]["title"] } else { &info["time"]["completed"] };
    !last.is_null()
}

fn require_tools(lab: &Lab) {
    for tool in ["git", "rg", "node", "python3"] {
        let mut command = Command::new(tool);
        command.arg("--version").env_clear().envs(lab.env()).stdout(Stdio::null()).stderr(Stdio::null());
        let works = command.status().is_ok_and(|status| status.success());
        assert!(
            works,
            "`{tool}` is not installed in /usr/local/bin, /usr/bin or /bin, and the sessions use it"
        );
    }
}

/// Each turn must have been asked for once and in its order. Otherwise a prompt was mistaken for another, a
/// tool ended a conversation, or a failed request was repeated.
fn check_told(model: &ModelServer, lengths: &Lengths) {
    let requests = model.requests();
    for (scenario, length) in lengths {
        let of_scenario =
            requests.iter().filter(|r| r.kind == RequestKind::Chat && r.scenario.as_ref() == Some(scenario));
        let turns: Vec<usize> = of_scenario.map(|request| request.turn).collect();
        assert_eq!(turns, (0..*length).collect::<Vec<_>>(), "turns of `{scenario}`");
    }
    let unknown: Vec<_> =
        requests.iter().filter(|r| r.kind == RequestKind::Chat && r.scenario.is_none()).collect();
    assert!(unknown.is_empty(), "not in the story: {unknown:?}");
}

/// No other calls may have failed than those that should: an edit, for instance, depends on all earlier ones.
fn check_calls(storage: &Path, sessions: &[Session]) {
    let mut failed = Vec::new();
    for path in files_below(&storage.join("part")) {
        let part: Value = serde_json::from_str(&read(&path)).expect("OpenCode writes JSON");
        if part["state"]["status"] == "error" {
            failed.push(part["state"].clone());
        }
    }
    let n_meant: usize = sessions.iter().flat_map(|s| &s.prompts).map(|prompt| prompt.n_failed_calls).sum();
    assert_eq!(failed.len(), n_meant, "failed calls: {failed:#?}");
}

/// Replaces the address of the scripted model, which errors name, by that of the provider it stands for.
fn hide_address(storage: &Path, model: &ModelServer) {
    for path in files_below(storage) {
        let text = read(&path);
        if text.contains(&model.base_url()) {
            let text = text.replace(&model.base_url(), "https://api.anthropic.com/v1");
            fs::write(&path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        }
    }
}

/// The sample must not show where it was recorded.
fn check_clean(storage: &Path, traces: &[&str]) {
    for path in files_below(storage) {
        let text = read(&path);
        for trace in traces {
            assert!(!text.contains(trace), "{} mentions {trace}: {text}", path.display());
        }
    }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
