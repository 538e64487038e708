//! Operations done by annals and by the real OpenCode on two copies of the same home: afterwards the homes are the same.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use annals_testkit::model::{ModelServer, Playbook, Turn};
use annals_testkit::opencode::{Lab, OpenCode, Server};
use serde_json::{Value, json};

use super::kit::{Ran, plain};
use super::walk::homes::{files, rows};

/// The summary that the scripted model gives.
const SUMMARY: &str = "## Goal\n- Go on with the work.\n\n## Done\n- Looked at the project.";

/// Documents of a home by name, each without what no two programs write in the same way.
type Documents = BTreeMap<String, Value>;

/// A home that a real OpenCode has made, with a copy of it and of its working tree.
struct Pair {
    _model: ModelServer,
    lab: Lab,
    repository: PathBuf,
    session: String,
    /// Holds the lab, its copy, and the store of annals.
    directory: tempfile::TempDir,
    /// When the copy was made. What has a later time was made by an operation.
    start: i64,
    known: BTreeSet<String>,
}

/// What is there after an operation.
#[derive(Debug, PartialEq)]
struct Outcome {
    documents: Documents,
    /// Parts whose message is gone.
    n_orphans: usize,
    /// The working tree: the content of each file, and whether it can be executed.
    tree: BTreeMap<String, (String, bool)>,
}

fn millis() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

fn copy_all(from: &Path, to: &Path) {
    let _ = std::fs::remove_dir_all(to);
    let status = std::process::Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap();
    assert!(status.success());
}

fn bash(command: &str) -> Value {
    json!({"command": command, "description": "Works"})
}

impl Pair {
    /// Three prompts. The first two change files, the second in two steps.
    fn new(version: &str) -> Pair {
        // OpenCode takes its snapshots while the model speaks, and sees only what changes after that.
        let playbook = Playbook { pace_ms: 1_000, ..Playbook::builtin() }
            .scenario(
                "one",
                [
                    Turn::text("First.").and_call("bash", bash("printf 'a\\nB\\nc\\n' > a.txt")),
                    // So long that a later compaction keeps only what comes after it.
                    Turn { chunk: 20_000, ..Turn::text("The first is done, at length. ".repeat(3_000)) },
                ],
            )
            .scenario(
                "two",
                [
                    Turn::text("Second.")
                        .and_call("bash", bash("mkdir -p new; printf 'new\\n' > new/c.txt; rm d.txt"))
                        .and_call("bash", bash("printf 'b\\nb\\nb\\n' > b.txt; chmod -x run.sh")),
                    Turn::call(
                        "bash",
                        bash("printf 'x\\na\\nB\\ny\\nc' > a.txt; rm new/c.txt; printf 'e' > e.txt"),
                    ),
                    Turn::text("The second is done."),
                ],
            )
            .scenario("three", [Turn::text("The third is done.")]);
        let model = ModelServer::start(playbook).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let lab = Lab::at(&OpenCode::version(version), &directory.path().join("lab"));
        lab.configure(&model);
        let repository = lab.repo(
            "shop",
            &[
                ("a.txt", "a\nb\nc\n"),
                ("b.txt", "b\n"),
                ("d.txt", "d\n"),
                ("run.sh", "#!/bin/sh\n"),
                (".gitignore", "*.log\n"),
            ],
        );
        std::process::Command::new("chmod").arg("+x").arg(repository.join("run.sh")).status().unwrap();
        let ask = |more: &[&str], scenario: &str| {
            let prompt = format!("Do it. [[scenario:{scenario}]]");
            lab.run(&repository, &[more, &["--model", "lab/lab-large", &prompt]].concat())
        };
        let session = ask(&["--title", "The shop"], "one");
        ask(&["--session", &session], "two");
        ask(&["--session", &session], "three");
        let mut pair =
            Pair { _model: model, lab, repository, session, directory, start: 0, known: BTreeSet::new() };
        let documents = pair.settled();
        pair.known = ids(&documents);
        pair.start = millis();
        copy_all(pair.lab.root(), &pair.copy());
        pair
    }

    fn copy(&self) -> PathBuf {
        self.directory.path().join("copy")
    }

    /// Puts the home and the working tree back as they were.
    fn reset(&self) {
        std::fs::remove_dir_all(self.directory.path().join("store")).unwrap();
        copy_all(&self.copy(), self.lab.root());
    }

    /// The documents, as soon as OpenCode adds nothing to them any more.
    fn settled(&self) -> Documents {
        let mut before = documents(&self.lab.data());
        loop {
            std::thread::sleep(Duration::from_millis(400));
            let now = documents(&self.lab.data());
            if now == before {
                return now;
            }
            before = now;
        }
    }

    fn outcome(&self) -> Outcome {
        let mut documents = self.settled();
        let n_all = documents.len();
        let messages: BTreeSet<String> = documents
            .keys()
            .filter_map(|name| Some(name.strip_prefix("message/")?.split('/').nth(1)?.replace(".json", "")))
            .collect();
        let is_orphan = |name: &str| match name.strip_prefix("part/").and_then(|rest| rest.split('/').next())
        {
            Some(message) => !messages.contains(message),
            None => false,
        };
        documents.retain(|name, _| !is_orphan(name));
        let n_orphans = n_all - documents.len();
        let documents = normal(&documents, &self.known, self.start);
        let tree = files(&self.repository).into_iter().filter(|(name, _)| !name.starts_with(".git/"));
        let tree = tree.map(|(name, bytes)| {
            use std::os::unix::fs::PermissionsExt;
            let mode = std::fs::metadata(self.repository.join(&name)).unwrap().permissions().mode();
            (name, (String::from_utf8(bytes).unwrap(), mode & 0o100 != 0))
        });
        Outcome { documents, n_orphans, tree: tree.collect() }
    }

    /// The ids of the session's prompts.
    fn prompts(&self) -> Vec<String> {
        let exported = self.annals(&["export", &self.session]).json();
        let messages = exported["messages"].as_array().unwrap().iter();
        let prompts = messages.filter(|message| message["info"]["role"] == "user");
        prompts.map(|message| message["info"]["id"].as_str().unwrap().to_owned()).collect()
    }

    /// The ids of the parts of one kind.
    fn parts(&self, kind: &str) -> Vec<(String, String)> {
        let exported = self.annals(&["export", &self.session]).json();
        let messages = exported["messages"].as_array().unwrap().iter();
        let parts = messages.flat_map(|message| message["parts"].as_array().unwrap());
        let text = |part: &Value, field: &str| part[field].as_str().unwrap().to_owned();
        parts
            .filter(|part| part["type"] == kind)
            .map(|part| (text(part, "messageID"), text(part, "id")))
            .collect()
    }

    fn annals(&self, arguments: &[&str]) -> Ran {
        plain(self.lab.root(), arguments)
            .env("XDG_DATA_HOME", self.lab.root().join("data"))
            .env("ANNALS_STORE", self.directory.path().join("store/annals.db"))
            .env("ANNALS_NOW", millis().to_string())
            .run()
            .ok()
    }

    /// Does the steps with OpenCode and with annals, and compares what is there after each.
    fn compare(&self, steps: &[Step]) -> Vec<(Outcome, Outcome)> {
        let server = self.lab.serve(&self.repository);
        let theirs: Vec<Outcome> = steps
            .iter()
            .map(|step| {
                step.by_opencode(self, &server);
                self.outcome()
            })
            .collect();
        server.stop();
        self.reset();
        let ours: Vec<Outcome> = steps
            .iter()
            .map(|step| {
                step.by_annals(self);
                self.outcome()
            })
            .collect();
        theirs.into_iter().zip(ours).collect()
    }
}

/// An operation on the session.
#[derive(Debug, Clone)]
enum Step {
    Fork(Option<String>),
    Revert(String, Option<String>),
    Unrevert,
    Prompt,
    /// Of the session that was made last, as the next one.
    SummarizeFork,
    DeleteFork,
}

impl Step {
    fn by_opencode(&self, pair: &Pair, server: &Server) {
        let at = |what: &str| format!("/session/{}{what}", pair.session);
        match self {
            Step::Fork(None) => {
                server.post(&at("/fork"), &json!({}));
                pair.expect_ancestry();
            }
            Step::Fork(Some(message)) => drop(server.post(&at("/fork"), &json!({"messageID": message}))),
            Step::Revert(message, None) => drop(server.post(&at("/revert"), &json!({"messageID": message}))),
            Step::Revert(message, Some(part)) => {
                server.post(&at("/revert"), &json!({"messageID": message, "partID": part}));
            }
            Step::Unrevert => drop(server.post(&at("/unrevert"), &json!({}))),
            Step::Prompt => {
                let body = json!({"noReply": true, "agent": "build", "model": {"providerID": "lab", "modelID": "lab-large"},
                    "parts": [{"type": "text", "text": "Another way."}]});
                server.post(&at("/message"), &body);
            }
            Step::SummarizeFork => {
                let path = format!("/session/{}/summarize", pair.last_fork());
                server.post(&path, &json!({"providerID": "lab", "modelID": "lab-large"}));
            }
            Step::DeleteFork => {
                let id = pair.last_fork();
                server.delete(&format!("/session/{id}"));
            }
        }
    }

    fn by_annals(&self, pair: &Pair) {
        let session = pair.session.as_str();
        match self {
            Step::Fork(None) => drop(pair.annals(&["fork", session])),
            Step::Fork(Some(message)) => drop(pair.annals(&["fork", session, "--at", message])),
            Step::Revert(message, part) => {
                let target = part.as_ref().unwrap_or(message);
                drop(pair.annals(&["revert", session, target, "--files"]));
            }
            Step::Unrevert => drop(pair.annals(&["unrevert", session, "--files"])),
            Step::Prompt => {
                let store = annals::Store::open(pair.lab.data()).unwrap();
                let session = store.session(session).unwrap();
                session.prompt("Another way.").model("lab/lab-large").save().unwrap();
            }
            Step::SummarizeFork => drop(pair.annals(&["compact", &pair.last_fork(), "--summary", SUMMARY])),
            Step::DeleteFork => {
                let id = pair.last_fork();
                drop(pair.annals(&["rm", "--yes", &id]));
            }
        }
    }
}

impl Pair {
    /// annals finds out which session OpenCode has forked, though nothing says so.
    fn expect_ancestry(&self) {
        let fork = self.last_fork();
        let graph = self.annals(&["log", "--graph", &fork, "--json"]).json();
        let relatives: Vec<(&str, &str, &Value)> = graph
            .as_array()
            .unwrap()
            .iter()
            .map(|row| (row["id"].as_str().unwrap(), row["descent"].as_str().unwrap(), &row["messages"]))
            .collect();
        let expected = [(self.session.as_str(), "opened", &Value::Null), (&fork, "fork", &json!(9))];
        assert_eq!(relatives, expected);
        let trees = self.annals(&["tree", &self.session, "--json"]).json();
        assert_eq!(trees[0]["forks"][0]["id"], json!(fork));
    }

    /// The session that was made last.
    fn last_fork(&self) -> String {
        let listed = self.annals(&["list", "--json"]).json();
        let there = listed.as_array().unwrap().iter().filter(|row| row["gone"].is_null());
        let newest = there.max_by_key(|row| row["created"].as_i64());
        newest.unwrap()["id"].as_str().unwrap().to_owned()
    }
}

/// Every document of every session: files, or rows with their columns.
fn documents(data: &Path) -> Documents {
    let mut found = Documents::new();
    if data.join("storage").exists() {
        for (name, bytes) in files(&data.join("storage")) {
            let wanted = ["session/", "message/", "part/", "todo/", "session_diff/", "session_share/"];
            if wanted.iter().any(|kind| name.starts_with(kind)) {
                // A file that is being written is looked at again.
                found.insert(name, serde_json::from_slice(&bytes).unwrap_or(Value::Null));
            }
        }
    }
    if data.join("opencode.db").exists() {
        for (name, bytes) in rows(&data.join("opencode.db")) {
            let wanted = ["session ", "message ", "part ", "todo ", "session_share "];
            let Some(kind) = wanted.iter().find(|kind| name.starts_with(*kind)) else { continue };
            let mut row: Value = serde_json::from_slice(&bytes).unwrap();
            for column in ["data", "revert", "model", "metadata", "permission", "summary_diffs"] {
                if let Some(text) = row.get(column).and_then(Value::as_str) {
                    row[column] = serde_json::from_str(text).unwrap();
                }
            }
            // When a row was written.
            let ignored: &[&str] = match *kind {
                "part " => &["time_created", "time_updated"],
                "message " | "todo " => &["time_updated"],
                _ => &[],
            };
            ignored.iter().for_each(|column| drop(row.as_object_mut().unwrap().remove(*column)));
            let name = match row.get("message_id").and_then(Value::as_str) {
                Some(message) => format!("part {message} {name}"),
                None => name,
            };
            found.insert(name, row);
        }
    }
    found
}

/// The ids in names and texts.
fn ids(documents: &Documents) -> BTreeSet<String> {
    let text = serde_json::to_string(documents).unwrap();
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let is_id =
        |word: &&str| ["ses_", "msg_", "prt_"].iter().any(|kind| word.starts_with(kind)) && word.len() == 30;
    words.filter(is_id).map(str::to_owned).collect()
}

/// Documents with numbers for the ids and a word for the times that an operation gave.
fn normal(documents: &Documents, known: &BTreeSet<String>, start: i64) -> Documents {
    let mut names = BTreeMap::new();
    for kind in ["ses_", "msg_", "prt_"] {
        let all = ids(documents);
        let new = all.iter().filter(|id| id.starts_with(kind) && !known.contains(*id));
        for (n, id) in new.enumerate() {
            names.insert(id.clone(), format!("{kind}{n}"));
        }
    }
    let renamed = |text: &str| {
        let mut text = text.to_owned();
        for (id, name) in &names {
            text = text.replace(id, name);
        }
        text
    };
    let text = renamed(&serde_json::to_string(documents).unwrap());
    let mut documents: Documents = serde_json::from_str(&text).unwrap();
    documents.values_mut().for_each(|document| blur(document, start));
    documents
}

fn blur(value: &mut Value, start: i64) {
    match value {
        Value::Number(number) if number.as_i64().is_some_and(|number| number >= start) => {
            *value = json!("now");
        }
        Value::Array(items) => items.iter_mut().for_each(|item| blur(item, start)),
        Value::Object(members) => {
            for (name, value) in members.iter_mut() {
                match name.as_str() {
                    "slug" => *value = json!("a slug"),
                    _ => blur(value, start),
                }
            }
        }
        _ => {}
    }
}

/// The places in which two outcomes differ, with what is there.
fn differences(theirs: &Outcome, ours: &Outcome) -> Vec<String> {
    let mut found = Vec::new();
    let names: BTreeSet<&String> = theirs.documents.keys().chain(ours.documents.keys()).collect();
    for name in names {
        let [theirs, ours] =
            [theirs, ours].map(|outcome| outcome.documents.get(name).unwrap_or(&Value::Null));
        differ(name, theirs, ours, &mut found);
    }
    if theirs.tree != ours.tree {
        found.push(format!("working tree: theirs {:#?} ours {:#?}", theirs.tree, ours.tree));
    }
    found
}

fn differ(place: &str, theirs: &Value, ours: &Value, found: &mut Vec<String>) {
    match (theirs, ours) {
        (Value::Object(a), Value::Object(b)) => {
            let names: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for name in names {
                let [a, b] = [a, b].map(|object| object.get(name).unwrap_or(&Value::Null));
                differ(&format!("{place}.{name}"), a, b, found);
            }
        }
        (a, b) if a == b => {}
        (a, b) => found.push(format!("{place}: theirs {a} ours {b}")),
    }
}

/// A difference between the two homes, and why it is there.
#[derive(Clone, Copy)]
struct Expected {
    /// What the difference is about: pieces of its description.
    about: &'static [&'static str],
    why: &'static str,
}

/// Differences in every version. The fork copies nine messages; the next is the request to compact, and the one after that the summary.
const ALWAYS: &[Expected] = &[
    Expected { about: &["msg_10", ".tokens"], why: "no model has made the summary" },
    Expected { about: &["msg_10", ".cost"], why: "no model has made the summary" },
    Expected {
        about: &["msg_10", ".snapshot: theirs", "ours null"],
        why: "a summary does not work on files",
    },
];

/// A revert to a later message, while one to an earlier message is in force.
const NEXT_REVERT: &[Expected] = &[
    Expected {
        about: &["8 Revert", "working tree"],
        why: "OpenCode before 1.18 leaves files as the earlier revert has left them",
    },
    Expected {
        about: &["8 Revert", "revert.diff"],
        why: "OpenCode before 1.18 leaves files as the earlier revert has left them",
    },
];

fn compare(version: &str, expected: &[Expected]) -> Vec<(Outcome, Outcome)> {
    let pair = Pair::new(version);
    let prompts = pair.prompts();
    let tools = pair.parts("tool");
    let steps = [
        Step::Fork(None),
        Step::Fork(Some(prompts[1].clone())),
        Step::DeleteFork,
        Step::SummarizeFork,
        Step::Revert(prompts[1].clone(), None),
        Step::Unrevert,
        Step::Revert(prompts[2].clone(), None),
        Step::Revert(prompts[0].clone(), None),
        Step::Revert(prompts[2].clone(), None),
        Step::Unrevert,
        Step::Revert(tools[2].0.clone(), Some(tools[2].1.clone())),
        Step::Unrevert,
        Step::Revert(prompts[2].clone(), None),
        Step::Prompt,
        Step::Revert(tools[2].0.clone(), Some(tools[2].1.clone())),
        Step::Prompt,
    ];
    let outcomes = pair.compare(&steps);
    let mut unexpected = Vec::new();
    let mut seen = BTreeSet::new();
    for (n, (step, (theirs, ours))) in steps.iter().zip(&outcomes).enumerate() {
        for difference in differences(theirs, ours) {
            let difference = format!("{n} {step:?}: {difference}");
            let mut all = ALWAYS.iter().chain(expected);
            match all.position(|expected| expected.about.iter().all(|about| difference.contains(about))) {
                Some(known) => drop(seen.insert(known)),
                None => unexpected.push(difference),
            }
        }
    }
    assert!(unexpected.is_empty(), "{version}:\n{}", unexpected.join("\n"));
    // A tool may have been quicker than the snapshot before it. Then there was nothing to take back.
    let has_taken_back = outcomes[7].0.tree != outcomes[6].0.tree;
    for (n, expected) in ALWAYS.iter().chain(expected).enumerate() {
        let is_certain = has_taken_back || !expected.about.contains(&"8 Revert");
        assert!(
            seen.contains(&n) || !is_certain,
            "{version}: there is no difference any more where {}",
            expected.why
        );
    }
    // The two agree on something.
    let (_, last) = outcomes.last().unwrap();
    assert!(last.documents.len() > 20 && last.tree.len() > 3, "{last:?}");
    outcomes
}

#[test]
fn operations_of_1_1_65() {
    let outcomes = compare(
        "1.1.65",
        &[
            NEXT_REVERT,
            &[Expected {
                about: &["15 Prompt", "theirs null"],
                why: "OpenCode 1.1 removes a message of which only a part was reverted",
            }],
        ]
        .concat(),
    );
    // OpenCode 1.1 leaves the parts of the messages that it removes.
    assert!(outcomes.iter().all(|(_, ours)| ours.n_orphans == 0));
    assert!(outcomes[13].0.n_orphans > 0);
}

#[test]
fn operations_of_1_2_27() {
    compare("1.2.27", NEXT_REVERT);
}

#[test]
fn operations_of_1_18_33() {
    let outcomes = compare(
        "1.18.33",
        &[
            Expected { about: &["ses_0\".agent: theirs null"], why: "a fork has the agent of its prompts" },
            Expected { about: &["ses_0\".model: theirs null"], why: "a fork has the model of its prompts" },
            Expected { about: &["ses_1\".agent: theirs null"], why: "a fork has the agent of its prompts" },
            Expected { about: &["ses_1\".model: theirs null"], why: "a fork has the model of its prompts" },
            Expected { about: &["session \"ses_0\".cost"], why: "no model has made the summary" },
            Expected { about: &["session \"ses_0\".tokens"], why: "no model has made the summary" },
            Expected {
                about: &["15 Prompt", "session \"ses_", ".cost"],
                why: "OpenCode subtracts a step from the session, and not from the message that stays",
            },
            Expected {
                about: &["15 Prompt", "session \"ses_", ".tokens"],
                why: "OpenCode subtracts a step from the session, and not from the message that stays",
            },
        ],
    );
    // The compaction keeps the turns after the long one.
    let kept =
        outcomes[3].1.documents.values().filter(|document| document["data"]["tail_start_id"].is_string());
    assert_eq!(kept.count(), 1);
}
