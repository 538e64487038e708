//! Requests that the real OpenCode sends in situations that the captured ones do not cover: prompts that wait, aborts, several
//! compactions, pictures, subagents.

use std::time::{Duration, Instant};

use annals::home::Read;
use annals::llm::{self, RequestOptions};
use annals::model::id::SessionId;
use annals::model::json::Style;
use annals::model::llm::{Format, Modalities, Reminders, Wire};
use annals_testkit::capture::{self, Capture};
use annals_testkit::model::{
    Failure, ModelServer, Playbook, PlaybookEntry, RequestContext, RequestKind, ToolCall, Turn, TurnUsage,
};
use annals_testkit::opencode::{Lab, OpenCode, Server};
use serde_json::{Value, json};

/// A picture of one pixel.
const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const TIMEOUT: Duration = Duration::from_secs(60);

fn playbook() -> Playbook {
    let long = "A line of a long answer, which takes its time.\n".repeat(4);
    let refusal =
        Failure { times: Some(1), ..Failure::new(400, "Cannot summarise this", "invalid_request_error") };
    let mut playbook = Playbook::builtin();
    let again = Turn { error: Some(refusal), ..Turn::text("## Goal\n- The second try.") };
    playbook.compactions.insert(0, PlaybookEntry::when("scenario:bad-summary", again));
    playbook
        .scenario("look", [
            Turn { reasoning: "Three files.".to_owned(), ..Turn::text("Looking.") }
                .and_call("read", json!({"filePath": "${cwd}/dot.png"}))
                .and_call("read", json!({"filePath": "${cwd}/README.md", "limit": 2}))
                .and_call("read", json!({"filePath": "${cwd}/missing.txt"})),
            Turn::text("A dot and a heading \u{1f680}."),
        ])
        .scenario("slow", [
            Turn { hang_after: Some(2), hang_times: Some(1), ..Turn::text(&long) },
        ])
        .scenario("slow-tool", [
            Turn { hang_after: Some(3), hang_times: Some(1), ..Turn::text("Running it.") }
                .and_call("bash", json!({"command": "echo done", "description": "Says done"})),
            Turn { hang_after: Some(1), hang_times: Some(1), ..Turn::text("Once more.") }
                .and_call("bash", json!({"command": "echo again", "description": "Says again"})),
            Turn::text("Both done."),
        ])
        .scenario("second", [Turn::text("The second one, too.")])
        .scenario("odd", [
            Turn {
                tool_calls: vec![
                    ToolCall { name: "Read".to_owned(), raw: Some("{\"filePath\": 7}".to_owned()), ..ToolCall::default() },
                    ToolCall { name: "nothing".to_owned(), raw: Some("{}".to_owned()), ..ToolCall::default() },
                    ToolCall { name: "bash".to_owned(), raw: Some("{\"command\": ".to_owned()), ..ToolCall::default() },
                ],
                ..Turn::default()
            },
            Turn::text("  Enough.  \n"),
        ])
        .scenario("fill", [
            Turn { usage: TurnUsage { input: Some(31_500), ..TurnUsage::default() }, ..Turn::text("Reading.") }
                .and_call("read", json!({"filePath": "${cwd}/README.md"})),
            Turn::text("Read."),
        ])
        .scenario("too-long", [Turn {
            error: Some(Failure {
                times: Some(1),
                ..Failure::new(400, "prompt is too long: 300000 tokens > 200000 maximum", "invalid_request_error")
            }),
            ..Turn::text("It fits now.")
        }])
        .scenario("second-tools", [
            Turn { reasoning: "Two files.".to_owned(), ..Turn::text("Looking.") }
                .and_call("read", json!({"path": "README.md"}))
                .and_call("read", json!({"path": "missing.txt"}))
                .and_call("read", json!({"path": "dot.png"}))
                .and_call("bash", json!({"command": "echo by a tool"}))
                .and_call("glob", json!({"pattern": "*.md"}))
                .and_call("grep", json!({"pattern": "carts"})),
            Turn::text("Found."),
        ])
        .scenario("sleep", [
            Turn::text("Sleeping.").and_call("bash", json!({"command": "sleep 30", "description": "Sleeps"})),
            Turn::text("Awake."),
        ])
        .scenario("delegate", [
            Turn::text("I ask someone.").and_call("task", json!({
                "description": "Look it up", "prompt": "Look it up [[scenario:look]]", "subagent_type": "general",
            })),
            Turn::text("Someone knew."),
        ])
}

/// A real OpenCode with a scripted model.
struct Scene {
    model: ModelServer,
    lab: Lab,
    server: Option<Server>,
}

impl Scene {
    fn new(version: &str) -> Scene {
        let model = ModelServer::start(playbook()).unwrap();
        let lab = Lab::new(&OpenCode::version(version));
        lab.configure(&model);
        let picture = base64(PNG);
        let files: [(&str, &[u8]); 3] = [
            ("README.md", b"# Shop\n\nIt sells carts.\n"),
            ("dot.png", &picture),
            (".opencode/command/ask.md", b"---\ndescription: asks\nagent: general\nsubtask: true\n---\nAsk $ARGUMENTS [[scenario:second]]\n"),
        ];
        let repository = lab.repo("shop", &files);
        let server = Some(lab.serve(&repository));
        Scene { model, lab, server }
    }

    fn server(&self) -> &Server {
        self.server.as_ref().unwrap()
    }

    fn session(&self) -> String {
        let session = self.server().post("/session", &json!({}))["id"].as_str().unwrap().to_owned();
        self.model.set_context(RequestContext { session: Some(session.clone()), label: None });
        session
    }

    fn body(text: &str, model: &str) -> Value {
        let (provider, model) = model.split_once('/').unwrap();
        json!({"parts": [{"type": "text", "text": text}], "model": {"providerID": provider, "modelID": model}})
    }

    fn prompt(&self, session: &str, text: &str) {
        self.server().post(&format!("/session/{session}/message"), &Scene::body(text, "lab/lab-large"));
        self.settle();
    }

    /// Queues a prompt.
    fn queue(&self, session: &str, text: &str) {
        let path = format!("/session/{session}/prompt_async");
        self.server().post(&path, &Scene::body(text, "lab/lab-large"));
        std::thread::sleep(Duration::from_millis(300));
    }

    /// Prompts a session that has nothing to do, and waits until the model is asked.
    fn begin(&self, session: &str, text: &str) {
        let n_chats = self.n_chats();
        self.queue(session, text);
        self.wait_for_chat(n_chats);
    }

    /// Requests so far that were not for titles.
    fn n_chats(&self) -> usize {
        self.model.requests().iter().filter(|request| request.kind == RequestKind::Chat).count()
    }

    fn wait_for_chat(&self, n_before: usize) {
        let deadline = Instant::now() + TIMEOUT;
        while self.n_chats() == n_before {
            assert!(Instant::now() < deadline, "no request came");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn act(&self, session: &str, verb: &str, body: &Value) {
        self.server().post(&format!("/session/{session}/{verb}"), body);
        self.settle();
    }

    /// Aborts what a session does. A prompt that comes too soon is aborted as well, before the model is asked.
    fn abort(&self, session: &str) {
        self.act(session, "abort", &json!({}));
        std::thread::sleep(Duration::from_millis(700));
    }

    fn summarize(&self, session: &str) {
        self.act(session, "summarize", &json!({"providerID": "lab", "modelID": "lab-large"}));
    }

    /// Waits until the agent has nothing to do.
    fn settle(&self) {
        self.model.wait_idle(Duration::from_millis(900), TIMEOUT);
    }

    fn hang(&self) {
        self.model.wait_hanging(1, TIMEOUT);
    }

    /// Lets the reply that hangs go on, and waits until a later one hangs.
    fn hang_again(&self) {
        let n_chats = self.n_chats();
        self.model.release();
        self.wait_for_chat(n_chats);
        self.hang();
    }

    /// Compares every request with what annals makes of the stored session, if its answer is stored or in a log. Returns the
    /// number of requests, and of those without an answer.
    fn check(mut self, version: &str) -> (usize, usize) {
        self.settle();
        self.server.take().unwrap().stop();
        let home = annals::open::open_all(&self.lab.data()).unwrap().swap_remove(0);
        let captures: Vec<Capture> = self.model.requests().iter().map(Capture::of_request).collect();
        let pairs = capture::pair(&*home, &captures);
        let mut n_gone = 0;
        for (capture, answer) in &pairs {
            let Some(answer) = answer else {
                n_gone += 1;
                continue;
            };
            let actual = rebuilt(&*home, capture, answer);
            let text = |messages: &[Value]| serde_json::to_string_pretty(messages).unwrap();
            assert_eq!(text(&actual), text(&capture.messages), "{version} {}", capture.number);
        }
        (pairs.len(), n_gone)
    }
}

fn base64(text: &str) -> Vec<u8> {
    let digit = |c: u8| {
        b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".iter().position(|d| *d == c)
    };
    let bits: Vec<u8> = text.bytes().filter_map(digit).map(|digit| digit as u8).collect();
    let bytes = bits.chunks(4).flat_map(|four| {
        let number = four.iter().fold(0_u32, |number, digit| number << 6 | u32::from(*digit))
            << (6 * (4 - four.len()));
        number.to_be_bytes()[1..four.len()].to_vec()
    });
    bytes.collect()
}

fn rebuilt(home: &dyn Read, capture: &Capture, answer: &str) -> Vec<Value> {
    let session = home.session(&SessionId::parse(&capture.session).unwrap()).unwrap().unwrap();
    let format = Format::Wire(match &*capture.path {
        "/v1/chat/completions" => Wire::Chat,
        "/v1/messages" => Wire::Anthropic,
        _ => Wire::Responses,
    });
    let options = RequestOptions {
        until: Some(answer.to_owned()),
        input: match &*capture.model {
            "lab-small" | "lab-tight" => Modalities::TEXT,
            _ => Modalities { image: true, ..Modalities::TEXT },
        },
        interleaved: (capture.model == "lab-think").then(|| "reasoning_content".to_owned()),
        reminders: Reminders::PlanAndBuild,
        ..RequestOptions::of(format)
    };
    let found = llm::request(home, &session, &options).unwrap();
    serde_json::from_slice(&found.value.json(format, Style::Compact).unwrap()).unwrap()
}

/// Everything that happens to a session.
fn everything(version: &str) {
    let scene = Scene::new(version);

    let session = scene.session();
    let attached = json!({"parts": [
        {"type": "text", "text": "What is this? [[scenario:look]]"},
        {"type": "file", "mime": "image/png", "filename": "dot.png", "url": format!("data:image/png;base64,{PNG}")},
        {"type": "file", "mime": "text/plain", "filename": "a.txt", "url": "data:text/plain;base64,aGk="},
        {"type": "agent", "name": "general"},
    ]});
    scene.act(&session, "message", &attached);
    scene.prompt(&session, "Odd calls [[scenario:odd]]");
    for model in ["labthropic/claude-lab-4", "labai/gpt-5-lab", "lab/lab-think", "lab/lab-small"] {
        scene.act(&session, "message", &Scene::body("Again [[scenario:look]]", model));
    }
    scene.prompt(&session, "Refused [[scenario:error-400]]");
    scene.prompt(&session, "Retried [[scenario:error-500]]");
    scene.summarize(&session);
    scene.prompt(&session, "Once more [[scenario:look]]");
    scene.summarize(&session);
    scene.prompt(&session, "And on [[scenario:chat]]");
    scene.act(&session, "message", &Scene::body("And here [[scenario:chat]]", "labthropic/claude-lab-4"));

    // Prompts that wait: while text comes, and between two steps.
    let queued = scene.session();
    scene.begin(&queued, "First [[scenario:slow]]");
    scene.hang();
    scene.queue(&queued, "Meanwhile [[scenario:second]]");
    scene.queue(&queued, "And this [[scenario:second]]");
    scene.model.release();
    scene.settle();
    scene.begin(&queued, "Tools [[scenario:slow-tool]]");
    scene.hang();
    scene.queue(&queued, "Also that");
    scene.hang_again();
    scene.queue(&queued, "  \n");
    scene.queue(&queued, "And that");
    scene.model.release();
    scene.settle();
    scene.prompt(&queued, "Thanks [[scenario:chat]]");

    // Aborts, with a prompt that waits.
    let aborted = scene.session();
    scene.begin(&aborted, "Sleep [[scenario:sleep]]");
    scene.settle();
    scene.abort(&aborted);
    scene.prompt(&aborted, "Awake? [[scenario:chat]]");
    scene.begin(&aborted, "Slowly [[scenario:hang]]");
    scene.hang();
    scene.queue(&aborted, "Waiting in vain");
    scene.abort(&aborted);
    scene.prompt(&aborted, "Now? [[scenario:chat]]");
    scene.act(&aborted, "shell", &json!({"agent": "build", "command": "echo by hand"}));
    scene.prompt(&aborted, "And now? [[scenario:chat]]");

    // Subagents: called by the model, and by a command.
    let parent = scene.session();
    scene.prompt(&parent, "Delegate [[scenario:delegate]]");
    scene.act(&parent, "command", &json!({"command": "ask", "arguments": "them"}));
    scene.prompt(&parent, "Fine [[scenario:chat]]");

    // Plans, and reverts that are followed by something else.
    let planned = scene.session();
    let agent = |agent: &str, text: &str| {
        let mut body = Scene::body(text, "lab/lab-large");
        body["agent"] = json!(agent);
        body
    };
    scene.act(&planned, "message", &agent("plan", "Plan [[scenario:look]]"));
    scene.act(&planned, "message", &agent("build", "Build [[scenario:look]]"));
    scene.act(&planned, "message", &agent("plan", "Plan again [[scenario:chat]]"));

    let (n_requests, n_gone) = scene.check(version);
    assert!(n_requests > 40 && n_gone == 0, "{version}: {n_requests}, {n_gone} gone");
}

/// Conversations that grow too long, prompts that wait for a compaction or a command, and reverts.
fn trouble(version: &str) {
    let scene = Scene::new(version);

    // The size of the conversation asks for a compaction, and a prompt comes meanwhile.
    let full = scene.session();
    scene.act(&full, "message", &Scene::body("Begin [[scenario:look]]", "lab/lab-tight"));
    scene.act(&full, "message", &Scene::body("Fill it [[scenario:fill]]", "lab/lab-tight"));
    scene.act(&full, "message", &Scene::body("Go on [[scenario:look]]", "lab/lab-tight"));
    scene.act(&full, "message", &Scene::body("Again [[scenario:fill]]", "lab/lab-tight"));
    scene.act(&full, "message", &Scene::body("And on [[scenario:chat]]", "lab/lab-tight"));

    // The provider refuses a request for its size.
    let refused = scene.session();
    scene.prompt(&refused, "Begin [[scenario:look]]");
    let with_picture = json!({"parts": [
        {"type": "text", "text": "Too long [[scenario:too-long]]"},
        {"type": "file", "mime": "image/png", "filename": "dot.png", "url": format!("data:image/png;base64,{PNG}")},
    ]});
    scene.act(&refused, "message", &with_picture);
    scene.prompt(&refused, "And now [[scenario:chat]]");

    // A summary that the provider refuses; the next prompt starts another one.
    let failing = scene.session();
    scene.prompt(&failing, "Begin [[scenario:look]] [[scenario:bad-summary]]");
    scene.summarize(&failing);
    scene.prompt(&failing, "Go on [[scenario:chat]]");
    scene.prompt(&failing, "And on [[scenario:chat]]");

    // A command of the user runs while a prompt comes.
    let shell = scene.session();
    scene.prompt(&shell, "Begin [[scenario:chat]]");
    std::thread::scope(|scope| {
        let command = json!({"agent": "build", "command": "sleep 2; echo slept"});
        let (server, path) = (scene.server(), format!("/session/{shell}/shell"));
        scope.spawn(move || server.post(&path, &command));
        std::thread::sleep(Duration::from_millis(700));
        scene.queue(&shell, "Meanwhile [[scenario:second]]");
    });
    scene.settle();
    scene.prompt(&shell, "And then? [[scenario:chat]]");

    // Reverts, followed by something else; and one that stays.
    let reverted = scene.session();
    for text in ["One [[scenario:look]]", "Two [[scenario:chat]]", "Three [[scenario:chat]]"] {
        scene.prompt(&reverted, text);
    }
    let prompts = |session: &str| -> Vec<String> {
        let messages = scene.server().get(&format!("/session/{session}/message"));
        let is_prompt = |message: &&Value| message["info"]["role"] == "user";
        let ids = messages.as_array().unwrap().iter().filter(is_prompt);
        ids.map(|message| message["info"]["id"].as_str().unwrap().to_owned()).collect()
    };
    let second = prompts(&reverted).swap_remove(1);
    scene.act(&reverted, "revert", &json!({"messageID": second}));
    scene.prompt(&reverted, "Instead [[scenario:chat]]");
    scene.prompt(&reverted, "And then [[scenario:look]]");

    let (n_requests, n_gone) = scene.check(version);
    // Before 1.16, answers that a revert removed are nowhere.
    let n_reverted = if version == "1.18.33" { 0 } else { 2 };
    assert!(n_requests > 25 && n_gone == n_reverted, "{version}: {n_requests}, {n_gone} gone");
}

#[test]
fn requests_of_the_real_1_1_65_are_rebuilt() {
    everything("1.1.65");
}

#[test]
fn requests_of_the_real_1_2_27_are_rebuilt() {
    everything("1.2.27");
}

#[test]
fn requests_of_the_real_1_18_33_are_rebuilt() {
    everything("1.18.33");
}

#[test]
fn troubled_sessions_of_the_real_1_1_65_are_rebuilt() {
    trouble("1.1.65");
}

#[test]
fn troubled_sessions_of_the_real_1_2_27_are_rebuilt() {
    trouble("1.2.27");
}

#[test]
fn troubled_sessions_of_the_real_1_18_33_are_rebuilt() {
    trouble("1.18.33");
}

/// Sessions of the second HTTP API, which has tables and a converter of its own.
#[test]
fn sessions_of_the_second_api_are_rebuilt() {
    let scene = Scene::new("1.18.33");
    let directory = scene.lab.root().join("shop");
    let model = json!({"id": "lab-large", "providerID": "lab"});
    let made =
        scene.server().post("/api/session", &json!({"location": {"directory": directory}, "model": model}));
    let session = made["data"]["id"].as_str().unwrap().to_owned();
    let ask = |prompt: Value| {
        let n_chats = scene.n_chats();
        scene.server().post(&format!("/api/session/{session}/prompt"), &json!({"prompt": prompt}));
        scene.wait_for_chat(n_chats);
        // A prompt that comes while the agent is working would join the turn.
        let is_active = || scene.server().get("/api/session/active")["data"].get(&session).is_some();
        while is_active() {
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    ask(json!({"text": "Look [[scenario:second-tools]]"}));
    ask(json!({"text": "Odd [[scenario:odd]]"}));
    ask(json!({"text": "Picture [[scenario:chat]]", "files": [
        {"uri": format!("data:image/png;base64,{PNG}"), "mime": "image/png", "name": "dot.png"},
    ]}));
    let small = json!({"model": {"id": "lab-think", "providerID": "lab"}});
    scene.server().post(&format!("/api/session/{session}/model"), &small);
    ask(json!({"text": "Again [[scenario:reason]]"}));
    ask(json!({"text": "Refused [[scenario:error-400]]"}));
    // What the system prompt would say by now is told in the conversation.
    std::fs::write(directory.join("AGENTS.md"), "# Rules\n\n- no <b> & no tables\n").unwrap();
    ask(json!({"text": "By the rules [[scenario:chat]]"}));
    ask(json!({"text": "On [[scenario:second-tools]]"}));
    let (n_requests, n_gone) = scene.check("second API");
    assert!(n_requests >= 9 && n_gone == 0, "{n_requests}, {n_gone} gone");
}

#[test]
fn requests_of_the_real_1_0_185_are_rebuilt() {
    everything("1.0.185");
}

#[test]
fn troubled_sessions_of_the_real_1_0_185_are_rebuilt() {
    trouble("1.0.185");
}
