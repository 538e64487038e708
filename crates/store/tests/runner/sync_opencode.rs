//! Sync beside a real OpenCode: whatever it does to its sessions the next sync finds, without looking at everything; and
//! nothing that a sync has seen is ever lost.
//!
//! Every session counts as settled before each step, as if it had been left alone for a while: so what is found, is found
//! by the evidence of a survey, and not because everything recent is looked at anyway.

use annals::store::Store;
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use annals::history::{At, History, LogQuery};
use annals::home::Read;
use annals::model::id::{ProjectId, SessionId};
use annals::model::{Document, Key, stream};
use annals::query::SessionQuery;
use annals::stores::sqlite::SqliteStore;
use annals::sync::source::Source;
use annals::sync::{SyncOptions, SyncOutcome};
use annals_testkit::model::{ModelServer, Playbook, Turn};
use annals_testkit::opencode::{Lab, OpenCode, Server, standard_config};
use serde_json::{Value, json};

use super::annals_store::empty_store;
use super::kit::{export, messages, open, open_db, session_id, sql};
use super::sync::{ALL, run};

const PATIENCE: Duration = Duration::from_secs(60);
const FULL: SyncOptions = SyncOptions { full: true, ..ALL };

/// What a home holds: all documents of all sessions.
type Contents = HashMap<Key, Document>;

/// An OpenCode at work, and a store that follows it.
struct Workplace {
    model: ModelServer,
    lab: Lab,
    repository: PathBuf,
    _directory: tempfile::TempDir,
    store: SqliteStore,
    /// What was seen of each document, with the revision at which it was: none where it was gone.
    seen: HashMap<Key, Vec<(i64, Option<Document>)>>,
    /// Sessions that OpenCode deleted, with what they were until then.
    gone: HashMap<SessionId, Contents>,
    last: Contents,
    /// So many syncs there were, and so many of them did not look at every session.
    n_steps: usize,
    n_spared: usize,
}

impl Workplace {
    fn new(version: &str) -> Workplace {
        let read = |n: usize| json!({"filePath": format!("${{cwd}}/long-{n}.txt")});
        let playbook = Playbook::builtin()
            .scenario(
                "work",
                [
                    Turn::text("A plan first.").and_call(
                        "todowrite",
                        json!({"todos": [
                            {"id": "1", "content": "Look", "status": "in_progress", "priority": "high"},
                            {"id": "2", "content": "Write", "status": "pending", "priority": "low"},
                        ]}),
                    ),
                    Turn::call("bash", json!({"command": "echo one two", "description": "Counts"})),
                    Turn::call("write", json!({"filePath": "${cwd}/notes.txt", "content": "First.\n"})),
                    Turn::text("Written."),
                ],
            )
            .scenario("more", [Turn::text("There is more to it."), Turn::text("Nothing else.")])
            .scenario(
                "delegate",
                [
                    Turn::call(
                        "task",
                        json!({
                            "description": "Look around",
                            "prompt": "Look around. [[scenario:chat]]",
                            "subagent_type": "general",
                        }),
                    ),
                    Turn::text("Somebody looked around."),
                ],
            )
            .scenario(
                "stream",
                [
                    Turn {
                        reasoning: "One step after the other, and each of them is written down at once. ".repeat(4),
                        text: "Slowly, word by word, a long answer comes about. ".repeat(10),
                        chunk: 8,
                        delay_ms: 15,
                        ..Turn::default()
                    }
                    .and_call("bash", json!({"command": "for i in 1 2 3 4; do echo $i; sleep 0.2; done", "description": "Counts"})),
                    // Files as long as this are emptied before they are written anew, so that readers find halves.
                    Turn {
                        text: "And now more than fits into one write. ".repeat(16_000),
                        chunk: 20_000,
                        delay_ms: 20,
                        ..Turn::default()
                    },
                ],
            )
            .scenario(
                "flood",
                [
                    (0..8).fold(Turn::text("Reading."), |turn, n| turn.and_call("read", read(n))),
                    Turn::text("All read."),
                ],
            );
        let model = ModelServer::start(playbook).unwrap();
        let lab = Lab::new(&OpenCode::version(version));
        let mut config = standard_config(&model);
        config["compaction"] = json!({"auto": false, "prune": true});
        lab.write_config(&config);
        let line = "All work and no play makes a long file.";
        let long: Vec<(String, String)> = (0..8)
            .map(|n| (format!("long-{n}.txt"), format!("{line} {n}\n").repeat(1_100)))
            .chain([("README.md".to_owned(), "# Shop\n".to_owned())])
            .collect();
        let files: Vec<(&str, &str)> =
            long.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        let repository = lab.repo("shop", &files);
        let (directory, store) = empty_store();
        Workplace {
            model,
            lab,
            repository,
            _directory: directory,
            store,
            seen: HashMap::new(),
            gone: HashMap::new(),
            last: Contents::new(),
            n_steps: 0,
            n_spared: 0,
        }
    }

    fn home(&self) -> Box<dyn Source> {
        match self.lab.data().join("opencode.db") {
            database if database.exists() => Box::new(open_db(&database)),
            _ => Box::new(open(&self.lab.data())),
        }
    }

    /// What the home holds once OpenCode has nothing more to do: titles and summaries come after the answer.
    fn settled(&self) -> Contents {
        self.model.wait_idle(Duration::from_millis(100), PATIENCE);
        let deadline = Instant::now() + PATIENCE;
        let mut before = contents(&*self.home());
        loop {
            std::thread::sleep(Duration::from_millis(50));
            let now = contents(&*self.home());
            if now == before && !now.iter().any(|(key, document)| stream::is_open(key, document)) {
                return now;
            }
            assert!(Instant::now() < deadline, "the home does not come to rest");
            before = now;
        }
    }

    /// Syncs after something was done. Whatever that was, the store has it now, and looking at everything finds no more.
    #[track_caller]
    fn follow(&mut self, what: &str) -> SyncOutcome {
        let mut sum: Option<SyncOutcome> = None;
        loop {
            let before = self.settled();
            let account = run(&self.store, &*self.home(), ALL);
            assert!(account.quarantined.is_empty(), "{what}: {account:?}");
            let full = run(&self.store, &*self.home(), FULL);
            let account = match sum.take() {
                None => account,
                Some(sum) => SyncOutcome {
                    // By then nothing counts as settled any more.
                    looked: sum.looked,
                    imported: sum.imported + account.imported,
                    deleted: sum.deleted + account.deleted,
                    gone: [sum.gone, account.gone].concat(),
                    ..account
                },
            };
            // What is done in the background may have taken its time.
            if contents(&*self.home()) != before {
                sum = Some(account);
                continue;
            }
            assert_eq!((full.imported, full.deleted, full.gone.len()), (0, 0, 0), "{what}: {full:?}");
            self.n_steps += 1;
            self.n_spared += usize::from(account.looked < account.sessions);
            self.note(what, before, &account);
            return account;
        }
    }

    /// The same for what leaves no trace where a survey looks: only a full sync finds it, so many documents of it.
    #[track_caller]
    fn follow_hidden(&mut self, what: &str, (imported, deleted): (usize, usize)) {
        let contents = self.settled();
        let account = run(&self.store, &*self.home(), ALL);
        assert_eq!((account.imported, account.deleted), (0, 0), "{what} can be seen by now: {account:?}");
        let full = run(&self.store, &*self.home(), FULL);
        assert_eq!((full.imported, full.deleted), (imported, deleted), "{what}: {full:?}");
        self.note(what, contents, &full);
    }

    /// Remembers what a sync saw, and holds it against the store.
    #[track_caller]
    fn note(&mut self, what: &str, contents: Contents, account: &SyncOutcome) {
        for session in &account.gone {
            let of_session = |key: &&Key| key.session() == Some(session);
            let keys: Vec<Key> = self.last.keys().filter(of_session).cloned().collect();
            let lost = keys.into_iter().filter_map(|key| self.last.remove_entry(&key)).collect();
            self.gone.insert(session.clone(), lost);
        }
        let ours = contents_of(&self.store, |session| !self.gone.contains_key(session));
        assert_same(what, &contents, &ours);
        let revision = self.store.head().unwrap();
        for key in contents.keys().chain(self.last.keys()).collect::<HashSet<_>>() {
            let now = contents.get(key);
            if now != self.last.get(key) {
                self.seen.entry(key.clone()).or_default().push((revision, now.cloned()));
            }
        }
        self.last = contents;
        // As if all of it had been left alone for ten minutes.
        sql(self.store.path(), "UPDATE origin SET settled = 1");
    }

    /// Every state that was ever seen is still to be had, at the revision at which it was.
    fn assert_nothing_is_lost(&self) {
        let mut n_kept = 0;
        for (key, states) in &self.seen {
            for (n, (revision, state)) in states.iter().enumerate() {
                let then = self.store.at(At::Revision(*revision)).unwrap().unwrap();
                let session = key.session().cloned();
                let in_progress =
                    session.map(|id| then.past().unwrap().in_progress(&id).unwrap()).unwrap_or_default();
                let finished = in_progress.into_iter().find(|found| found.became.key == *key);
                let kept = match finished {
                    Some(finished) => Some(finished.became.document),
                    None => then.document(key).unwrap().map(|stored| stored.document),
                };
                // What was being written is kept as what it became.
                let mut became = state;
                for (_, next) in &states[n + 1..] {
                    match (became, next) {
                        (Some(old), Some(new)) if stream::continues(key, old, new) => became = next,
                        _ => break,
                    }
                }
                assert!(
                    kept == *became || kept == *state,
                    "{key} at revision {revision}: {kept:?}, not {became:?}"
                );
                n_kept += usize::from(n + 1 < states.len() && became == state);
            }
        }
        assert!(n_kept > 10, "only {n_kept} earlier states were kept");
        for (session, lost) in &self.gone {
            let record = self.store.session(session).unwrap().unwrap();
            assert!(record.gone.is_some(), "{session}");
            assert_same("what is gone", lost, &contents_of(&self.store, |other| other == session));
        }
    }
}

/// All documents of the sessions of a home.
fn contents(home: &dyn Read) -> Contents {
    contents_of(home, |_| true)
}

fn contents_of(home: &dyn Read, is_wanted: impl Fn(&SessionId) -> bool) -> Contents {
    let mut contents = Contents::new();
    for record in home.sessions(&SessionQuery::default()).unwrap().value {
        if !is_wanted(&record.id) {
            continue;
        }
        // Messages that come from the second store are visited and have no parts in the first.
        for message in messages(home, &record).0 {
            let stored = [message.stored].into_iter().chain(message.parts);
            contents.extend(stored.map(|stored| (stored.key, stored.document)));
        }
        for key in home.session_keys(&record.id).unwrap() {
            if let Some(stored) = home.document(&key).unwrap() {
                contents.insert(stored.key, stored.document);
            }
        }
    }
    contents
}

#[track_caller]
fn assert_same(what: &str, theirs: &Contents, ours: &Contents) {
    let shown = |contents: &Contents, other: &Contents| {
        let differs = |(key, document): &(&Key, &Document)| other.get(key) != Some(document);
        let lines =
            contents.iter().filter(differs).map(|(key, document)| format!("{key:?} {}", document.text()));
        let mut lines: Vec<String> = lines.collect();
        lines.sort();
        lines.join("\n")
    };
    assert!(
        theirs == ours,
        "{what}\n--- only in the home\n{}\n--- only in the store\n{}",
        shown(theirs, ours),
        shown(ours, theirs)
    );
}

/// A server with the few calls that the steps need.
struct Driver<'s> {
    server: &'s Server,
}

impl Driver<'_> {
    fn create(&self, title: Option<&str>) -> String {
        let body = title.map_or(json!({}), |title| json!({"title": title}));
        self.server.post("/session", &body)["id"].as_str().unwrap().to_owned()
    }

    /// Prompts, and waits for the answer.
    fn prompt(&self, session: &str, scenario: &str) {
        let parts = json!([{"type": "text", "text": format!("Go on. [[scenario:{scenario}]]")}]);
        self.server.post(&format!("/session/{session}/message"), &json!({"parts": parts}));
    }

    fn messages(&self, session: &str) -> Vec<Value> {
        self.server.get(&format!("/session/{session}/message")).as_array().unwrap().clone()
    }

    /// The ids of the prompts of a session.
    fn prompts(&self, session: &str) -> Vec<String> {
        let messages = self.messages(session).into_iter().filter(|message| message["info"]["role"] == "user");
        messages.map(|message| message["info"]["id"].as_str().unwrap().to_owned()).collect()
    }

    /// The last text that was said in a session.
    fn last_text(&self, session: &str) -> Value {
        let mut parts = self
            .messages(session)
            .into_iter()
            .flat_map(|message| message["parts"].as_array().unwrap().clone());
        parts.rfind(|part| part["type"] == "text").unwrap()
    }
}

/// The path of a part in the API.
fn path_of(part: &Value) -> String {
    let id = |name: &str| part[name].as_str().unwrap();
    format!("/session/{}/message/{}/part/{}", id("sessionID"), id("messageID"), id("id"))
}

/// What shows of changes to a part alone.
#[derive(Clone, Copy, PartialEq)]
enum Evidence {
    /// Every change is counted: there is a log of changes.
    All,
    /// Parts are counted.
    Number,
    /// Nothing: a part's directory and file are not looked at.
    None,
}

#[test]
fn a_directory_home_is_followed() {
    follow_everything("1.1.65", Evidence::None);
}

#[test]
fn a_database_without_a_log_is_followed() {
    follow_everything("1.2.27", Evidence::Number);
}

#[test]
fn a_database_with_a_log_is_followed() {
    follow_everything("1.18.33", Evidence::All);
}

fn follow_everything(version: &str, evidence: Evidence) {
    let mut workplace = Workplace::new(version);
    let server = workplace.lab.serve(&workplace.repository);
    let driver = Driver { server: &server };
    let at = |session: &str, rest: &str| format!("/session/{session}{rest}");

    // One session is left alone from now on. Nobody has to look at it again.
    let resting = driver.create(None);
    driver.prompt(&resting, "read");
    workplace.follow("a session");

    let session = driver.create(Some("Shop"));
    workplace.follow("an empty session");
    driver.prompt(&session, "work");
    workplace.follow("a prompt with tools");
    driver.prompt(&session, "more");
    workplace.follow("another prompt");
    server.patch(&at(&session, ""), &json!({"title": "The shop"}));
    workplace.follow("a new title");
    server.patch(&at(&session, ""), &json!({"time": {"archived": 1_794_000_000_000i64}}));
    workplace.follow("archived");
    server.post(&at(&session, "/share"), &json!({}));
    workplace.follow("shared");
    server.delete(&at(&session, "/share"));
    workplace.follow("unshared");

    let second = driver.prompts(&session)[1].clone();
    server.post(&at(&session, "/revert"), &json!({"messageID": second}));
    workplace.follow("reverted");
    server.post(&at(&session, "/unrevert"), &json!({}));
    workplace.follow("unreverted");
    server.post(&at(&session, "/revert"), &json!({"messageID": second}));
    workplace.follow("reverted again");
    driver.prompt(&session, "chat");
    let account = workplace.follow("a prompt in place of what was reverted");
    assert!(account.deleted > 1, "{account:?}");

    server.post(&at(&session, "/fork"), &json!({}));
    workplace.follow("a fork");
    driver.prompt(&session, "delegate");
    workplace.follow("a subagent");
    server.post(&at(&session, "/shell"), &json!({"agent": "build", "command": "echo by hand"}));
    workplace.follow("a command of the user");

    let mut part = driver.last_text(&session);
    part["text"] = json!("Not what was said.");
    // A session that has not come to rest is looked at, whatever shows of it.
    sql(workplace.store.path(), "UPDATE origin SET settled = 0");
    server.patch(&path_of(&part), &part);
    assert!(workplace.follow("a part of a recent session is edited").imported > 0);
    part["text"] = json!("Nor that.");
    server.patch(&path_of(&part), &part);
    match evidence {
        Evidence::All => drop(workplace.follow("a part is edited")),
        Evidence::Number | Evidence::None => workplace.follow_hidden("a part is edited", (1, 0)),
    }
    server.delete(&path_of(&part));
    match evidence {
        Evidence::All | Evidence::Number => drop(workplace.follow("a part is deleted")),
        Evidence::None => workplace.follow_hidden("a part is deleted", (0, 1)),
    }
    if version != "1.1.65" {
        let last = driver.prompts(&session).pop().unwrap();
        server.delete(&at(&session, &format!("/message/{last}")));
        workplace.follow("a message is deleted");
    }

    server.post(&at(&session, "/summarize"), &json!({"providerID": "lab", "modelID": "lab-large"}));
    workplace.follow("summarised");
    let by_hand = ["--session", &session, "--model", "lab/lab-large", "And then? [[scenario:more]]"];
    workplace.lab.run(&workplace.repository, &by_hand);
    workplace.follow("a prompt by another process");

    let flooded = driver.create(Some("Flood"));
    driver.prompt(&flooded, "flood");
    workplace.follow("long outputs");
    driver.prompt(&flooded, "chat");
    driver.prompt(&flooded, "more");
    workplace.follow("long outputs are cleared");
    let cleared = workplace.last.values().filter(|document| document.text().contains("\"compacted\""));
    assert!(cleared.count() > 0, "nothing was cleared");

    if version == "1.18.33" {
        // OpenCode's second store, in which messages have no rows of their own for parts.
        let session = driver.create(Some("Second"));
        workplace.follow("a session for the second store");
        let prompt = json!({"prompt": {"text": "Read it. [[scenario:read]]"}});
        let n_requests = workplace.model.state().requests;
        server.post(&format!("/api/session/{session}/prompt"), &prompt);
        let deadline = Instant::now() + PATIENCE;
        while workplace.model.state().requests < n_requests + 2 {
            assert!(Instant::now() < deadline, "the model is not asked");
            std::thread::sleep(Duration::from_millis(20));
        }
        let account = workplace.follow("a prompt in the second store");
        assert!(account.imported > 3, "{account:?}");
    }
    if evidence != Evidence::None {
        // Nobody writes for a while: then the file alone tells that there is nothing to do.
        let deadline = Instant::now() + PATIENCE;
        let mut n_quiet = 0;
        while n_quiet < 2 {
            std::thread::sleep(Duration::from_millis(1_100));
            let account = run(&workplace.store, &*workplace.home(), ALL);
            n_quiet = if account.looked == 0 { n_quiet + 1 } else { 0 };
            assert!(Instant::now() < deadline, "{account:?}");
            sql(workplace.store.path(), "UPDATE origin SET settled = 1");
        }
        server.patch(&at(&flooded, ""), &json!({"title": "Flooded"}));
        assert!(workplace.follow("a title after a while").imported > 0);
    }
    let project = server.get("/project/current")["id"].as_str().unwrap().to_owned();
    server.patch(&format!("/project/{project}"), &json!({"name": "The shop"}));
    workplace.follow("a name for the project");
    let key = Key::Project(ProjectId::parse(&project).unwrap());
    let record = workplace.store.document(&key).unwrap().unwrap();
    assert!(record.document.text().contains("\"The shop\""), "{}", record.document.text());

    server.delete(&at(&session, ""));
    let account = workplace.follow("deleted");
    assert!(account.gone.len() >= 2, "the session and that of its subagent: {account:?}");
    server.stop();
    workplace.assert_nothing_is_lost();
    // What OpenCode does in the background may concern any session, but not all the time.
    let Workplace { n_steps, n_spared, .. } = &workplace;
    assert!(*n_spared > n_steps / 2, "{n_spared} of {n_steps} syncs looked at some sessions only");
    assert!(workplace.store.session(&session_id(&resting)).unwrap().unwrap().gone.is_none());
}

/// While an answer is written, whatever is read of it is a whole document, and history keeps one state of it and not all.
#[test]
fn an_answer_is_followed_while_it_is_written() {
    for version in ["1.1.65", "1.18.33"] {
        let mut workplace = Workplace::new(version);
        let server = workplace.lab.serve(&workplace.repository);
        let driver = Driver { server: &server };
        let session = driver.create(Some("Slow"));
        let parts = json!([{"type": "text", "text": "Take your time. [[scenario:stream]]"}]);
        server.post(&format!("/session/{session}/prompt_async"), &json!({"parts": parts}));
        let (mut n_syncs, mut n_imported, mut n_unreadable) = (0, 0, 0);
        let deadline = Instant::now() + PATIENCE;
        loop {
            let account = run(&workplace.store, &*workplace.home(), ALL);
            n_syncs += 1;
            n_imported += account.imported;
            n_unreadable += account.quarantined.len();
            let is_last = |message: &Value| message["info"]["finish"] == "stop";
            // Asked for rarely: the server is to write.
            if n_syncs % 10 == 0 && driver.messages(&session).last().is_some_and(is_last) {
                break;
            }
            assert!(Instant::now() < deadline, "the answer does not end");
            std::thread::sleep(Duration::from_millis(50));
        }
        workplace.follow("the answer is there");
        let query = |sql: &str| super::kit::query(workplace.store.path(), sql)[0].parse::<usize>().unwrap();
        let n_past = query("SELECT count(*) FROM past");
        println!(
            "{version}: {n_syncs} syncs, {n_imported} imported, {n_unreadable} unreadable, {n_past} past"
        );
        assert!(n_syncs > 30 && n_imported > 30, "{version}: {n_syncs} syncs, {n_imported} imported");
        assert!(n_past <= 2, "{version}: {n_past} past states after {n_syncs} syncs");
        assert_eq!(query("SELECT count(*) FROM quarantine"), 0);
        assert!(workplace.last.values().any(|document| document.text().len() > 600_000));
        server.stop();
    }
}

/// OpenCode's own log reaches back to before annals came.
#[test]
fn what_was_undone_before_the_first_sync_is_in_the_log() {
    let workplace = Workplace::new("1.18.33");
    let server = workplace.lab.serve(&workplace.repository);
    let driver = Driver { server: &server };
    let session = driver.create(Some("Shop"));
    for scenario in ["work", "more", "read"] {
        driver.prompt(&session, scenario);
    }
    workplace.settled();
    let (before, then) = (driver.messages(&session), annals::ids::now());
    let second = driver.prompts(&session)[1].clone();
    server.post(&format!("/session/{session}/revert"), &json!({"messageID": second}));
    driver.prompt(&session, "chat");
    let contents = workplace.settled();
    let after = driver.messages(&session);
    assert!(after.len() < before.len());

    let (store, home) = (&workplace.store, workplace.home());
    run(store, &*home, ALL);
    let exported = |home: &dyn Read| -> Value {
        let export: Value = serde_json::from_slice(&export(home, &session)).unwrap();
        export["messages"].clone()
    };
    let at = |time: i64| store.at(At::Time(time)).unwrap().unwrap();
    assert!(at(then).session(&session_id(&session)).unwrap().is_none(), "nobody had looked by then");
    let current = export(store, &session);
    let account = run(store, &*home, SyncOptions { events: true, ..ALL });
    assert!(account.recorded > before.len() - after.len(), "{account:?}");
    assert_eq!(exported(&*at(then)), json!(before));
    assert_eq!(exported(&*at(annals::ids::now())), json!(after));
    // What is, is as it was; only what had been is known now.
    assert!(export(store, &session) == current);
    assert_same("after the log", &contents, &contents_of(store, |_| true));
    let query = LogQuery { session: Some(session_id(&session)), ..LogQuery::default() };
    let log = store.log(&query).unwrap();
    let recorded: Vec<_> = log.iter().filter(|revision| revision.reason == "recorded by OpenCode").collect();
    assert!(recorded.iter().any(|revision| revision.time < then && revision.touched[0].written > 0));
    assert!(recorded.iter().any(|revision| revision.time > then && revision.touched[0].deleted > 0));
    assert!(log.is_sorted_by_key(|revision| std::cmp::Reverse(revision.time)));
    let head = store.head().unwrap();
    let again = run(store, &*home, SyncOptions { events: true, ..ALL });
    assert_eq!((again.recorded, again.imported, again.deleted), (0, 0, 0), "{again:?}");
    assert_eq!(store.head().unwrap(), head);
    // The log goes on where it was left.
    driver.prompt(&session, "more");
    let (between, then) = (driver.messages(&session), annals::ids::now());
    let last = driver.prompts(&session).pop().unwrap();
    server.post(&format!("/session/{session}/revert"), &json!({"messageID": last}));
    driver.prompt(&session, "read");
    let contents = workplace.settled();
    run(store, &*home, SyncOptions { events: true, ..ALL });
    assert_eq!(exported(&*at(then)), json!(between));
    assert_same("after more of the log", &contents, &contents_of(store, |_| true));
    server.stop();
}

/// Sessions belong to projects, and OpenCode moves them when it finds that a directory is another project by now.
#[test]
fn a_session_that_moves_to_another_project_is_followed() {
    for version in ["1.1.65", "1.18.33"] {
        let mut workplace = Workplace::new(version);
        let directory = workplace.lab.directory("plain", &[("README.md", "# Plain\n")]);
        let arguments = ["--model", "lab/lab-large", "--title", "Plain", "Go on. [[scenario:read]]"];
        let session = session_id(&workplace.lab.run(&directory, &arguments));
        workplace.follow("a session without a project");
        let project = |workplace: &Workplace| workplace.store.session(&session).unwrap().unwrap().project;
        assert_eq!(project(&workplace).as_str(), "global");
        let lab = &workplace.lab;
        lab.git(&directory, &["init", "-q", "-b", "main"]);
        lab.git(&directory, &["add", "-A"]);
        lab.git(&directory, &["commit", "-q", "-m", "A project by now"]);
        assert_eq!(lab.session_list(&directory)[0]["id"], session.as_str());
        workplace.follow("its directory becomes a repository");
        let first = project(&workplace);
        assert_ne!(first.as_str(), "global", "{version}");
        if version == "1.1.65" {
            continue;
        }
        workplace.lab.git(&directory, &["remote", "add", "origin", "https://git.example.com/dev/plain.git"]);
        assert_eq!(workplace.lab.session_list(&directory)[0]["id"], session.as_str());
        workplace.follow("the repository gets a remote");
        assert_ne!(project(&workplace), first);
    }
}
