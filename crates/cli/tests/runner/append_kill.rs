//! A writer that is killed at any moment of a turn loses nothing that it acknowledged. `check --fix` or the next writer closes the turn, and the
//! session goes on, with the real OpenCode too.
//!
//! `ANNALS_TURN_KILLS` sets the number of kills for each kind of home.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use annals::homes::opencode::database::{Generation, OpencodeDatabase};
use annals::homes::opencode::directory::OpencodeDirectory;
use annals::{Store, ids};
use annals_testkit::model::{ModelServer, Playbook, Turn};
use annals_testkit::opencode::{Lab, OpenCode};
use serde_json::{Value, json};

use super::kit::{annals, exported, memory};
use super::stream_model::{assert_all_is_there, events, has_open, texts};

/// Kills for each kind of home, in the test command.
const KILLS: usize = 60;
/// Turns of a session, killed or not, before a new one is begun.
const TURNS: usize = 15;
/// The number of kills after which the real OpenCode continues the session.
const CONTINUE_EVERY: usize = 30;
const PROMPT: &str = "What did we do?";

/// The moment of a kill.
#[derive(Debug, Clone, Copy)]
struct Moment {
    /// The number of answers that come first.
    answers: usize,
    /// The time after the last of them.
    delay: Duration,
}

/// Runs a writer, and kills it at a moment. Gives what it acknowledged.
fn run_and_kill(home: &Path, session: &str, events: &[Value], kill: Option<Moment>) -> Vec<Value> {
    let mut child = Command::new(env!("CARGO_BIN_EXE_annals"))
        .args(["append", session, "--flush-every", "4", "--home"])
        .arg(home)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", home.parent().unwrap())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let (mut stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let lines: Vec<String> = events.iter().map(|event| format!("{event}\n")).collect();
    let feeder = std::thread::spawn(move || {
        for line in lines {
            if stdin.write_all(line.as_bytes()).is_err() {
                return;
            }
            // A model that says something now and then.
            if line.contains("-delta") {
                std::thread::sleep(Duration::from_micros(600));
            }
        }
    });
    // A line that the kill cut short acknowledges nothing.
    let lines = BufReader::new(stdout).lines().map_while(Result::ok);
    let mut lines = lines.filter_map(|line| serde_json::from_str(&line).ok());
    let mut answers: Vec<Value> = Vec::new();
    match kill {
        Some(Moment { answers: n, delay }) => {
            answers.extend(lines.by_ref().take(n));
            std::thread::sleep(delay);
            child.kill().unwrap();
            child.wait().unwrap();
            answers.extend(lines);
        }
        None => {
            answers.extend(lines);
            assert!(child.wait().unwrap().success());
        }
    }
    feeder.join().unwrap();
    answers
}

fn next(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *seed >> 33
}

/// A home, and the OpenCode that uses it.
struct Victim {
    path: PathBuf,
    directory: PathBuf,
    lab: Option<(ModelServer, Lab)>,
    _memory: tempfile::TempDir,
}

impl Victim {
    fn new(version: Option<&str>) -> Victim {
        let memory = memory();
        let Some(version) = version else {
            let path = memory.path().join("annals.db");
            drop(Store::open(&path).unwrap());
            return Victim { path, directory: memory.path().to_owned(), lab: None, _memory: memory };
        };
        let playbook = Playbook::builtin()
            .scenario("recall", [Turn::text("We echoed.")])
            .prompt("What did we do", "recall");
        let model = ModelServer::start(playbook).unwrap();
        let lab = Lab::at(&OpenCode::version(version), memory.path());
        lab.configure(&model);
        let directory = lab.repo("shop", &[("README.md", "# Shop\n")]);
        let path = match version {
            "1.1.65" => {
                drop(OpencodeDirectory::open_or_create(&lab.data()).unwrap());
                lab.data()
            }
            version => {
                let path = lab.data().join("opencode.db");
                let generation = if version == "1.2.27" { Generation::Portable } else { Generation::Latest };
                drop(OpencodeDatabase::open_or_create(&path, generation).unwrap());
                path
            }
        };
        Victim { path, directory, lab: Some((model, lab)), _memory: memory }
    }

    fn new_session(&self) -> String {
        let directory = self.directory.to_str().unwrap();
        annals(&self.path, &["new", directory, "--title", "Killed"]).run().ok().text().trim().to_owned()
    }

    /// The real OpenCode answers a prompt in a session, whatever a killed writer left there.
    fn continue_with_opencode(&self, session: &str) -> usize {
        let Some((_, lab)) = &self.lab else { return 0 };
        lab.run(&self.directory, &["--session", session, "--model", "lab/lab-large", PROMPT]);
        let said = texts(&exported(&self.path, session));
        assert_eq!(said.last().map(String::as_str), Some("We echoed."), "{}", self.path.display());
        1
    }
}

/// Kills writers in a home of a kind. Gives the figures.
fn survives_kills(version: Option<&str>) -> String {
    let kind = version.unwrap_or("annals.db");
    let variable = std::env::var("ANNALS_TURN_KILLS").ok().and_then(|kills| kills.parse().ok());
    let kills: usize = variable.unwrap_or(KILLS);
    let victim = Victim::new(version);
    let mut session = victim.new_session();
    let answers = run_and_kill(&victim.path, &session, &events(0), None);
    let n_answers = answers.len() as u64;
    assert_all_is_there(&exported(&victim.path, &session), &events(0), &answers, kind);
    let mut seed = 0x9e37_79b9_7f4a_7c15u64 ^ kind.len() as u64;
    let [mut n_open, mut n_acknowledged, mut n_fixed, mut n_in_time, mut n_continued] = [0; 5];
    let mut n_kills = 0;
    for turn in 1.. {
        if n_kills >= kills {
            break;
        }
        if turn % TURNS == 0 {
            session = victim.new_session();
        }
        let events = events(turn);
        let answers = (next(&mut seed) % n_answers) as usize;
        // Before the first answer the writer is only started.
        let range = if answers == 0 { 60_000 } else { 5_000 };
        let moment = Moment { answers, delay: Duration::from_micros(next(&mut seed) % range) };
        let answers = run_and_kill(&victim.path, &session, &events, Some(moment));
        n_in_time += usize::from(answers.last().is_some_and(|answer| answer["line"] == events.len()));
        n_kills += 1;
        n_acknowledged += answers.len();
        let place = format!("{kind}: kill {n_kills} at {moment:?}");
        let before = exported(&victim.path, &session);
        assert_all_is_there(&before, &events, &answers, &place);
        let is_open = has_open(&before);
        n_open += usize::from(is_open);
        if n_kills % CONTINUE_EVERY == 0 {
            n_continued += victim.continue_with_opencode(&session);
        } else if n_kills % 2 == 0 {
            // By hand; otherwise the next turn closes it.
            let now = ids::now().to_string();
            let ran = annals(&victim.path, &["check", "--fix", "--json"]).env("ANNALS_NOW", now).run();
            let report = ran.json();
            let closed = report["fix"]["closed"].as_array().unwrap();
            // A turn that was killed between two answers is closed, too, though nothing in it is open.
            assert!(!is_open || closed.iter().any(|turn| turn["sessionID"] == session), "{place}: {ran}");
            assert_eq!(report["fix"]["left"], json!([]), "{place}: {ran}");
            n_fixed += closed.len();
            let after = exported(&victim.path, &session);
            assert!(!has_open(&after), "{place}");
            assert_eq!(texts(&after), texts(&before), "{place}");
        }
    }
    // The last one is continued as it was left, and closed by the writer that comes next.
    n_continued += victim.continue_with_opencode(&session);
    let answers = run_and_kill(&victim.path, &session, &events(usize::MAX), None);
    let export = exported(&victim.path, &session);
    assert_all_is_there(&export, &events(usize::MAX), &answers, kind);
    assert!(!has_open(&export), "{kind}");
    assert_eq!(annals(&victim.path, &["check"]).run().code, 0, "{kind}");
    if let Some((_, lab)) = &victim.lab {
        assert_eq!(
            lab.export(&victim.directory, &session),
            annals(&victim.path, &["export", &session]).run().stdout
        );
    }
    assert!(n_open * 2 > n_kills, "{kind}: {n_open} of {n_kills} kills fell inside a turn");
    assert!(n_fixed > 0, "{kind}");
    format!(
        "{kind}: {n_kills} kills, {n_acknowledged} answers; {n_open} left a turn open, {n_fixed} were closed by \
         check --fix; {n_in_time} turns were done before the kill; OpenCode continued {n_continued}"
    )
}

#[test]
fn a_killed_writer_loses_nothing_in_an_annals_store() {
    println!("{}", survives_kills(None));
}

#[test]
fn a_killed_writer_loses_nothing_in_files() {
    println!("{}", survives_kills(Some("1.1.65")));
}

#[test]
fn a_killed_writer_loses_nothing_in_a_database_of_1_2() {
    println!("{}", survives_kills(Some("1.2.27")));
}

#[test]
fn a_killed_writer_loses_nothing_in_a_database_of_1_18() {
    println!("{}", survives_kills(Some("1.18.33")));
}
