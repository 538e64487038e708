//! The model's view of histories, compared with requests that real OpenCode executables sent.

use std::collections::BTreeMap;

use annals::SqliteStore;
use annals::home::{MessageDetail, MessageRange, Read};
use annals::llm::{self, RequestError, RequestOptions};
use annals::model::id::SessionId;
use annals::model::json::Style;
use annals::model::lens::{Revert, TextPart};
use annals::model::llm::{Format, Modalities, Reminders, Wire};
use annals::model::{Document, Transaction};
use annals::sync::{self, Stage, SyncOptions};
use annals_testkit::Fixture;
use annals_testkit::capture::{self, Capture};
use serde_json::Value;

/// The request of a capture as annals makes it.
fn rebuilt(home: &dyn Read, capture: &Capture, answer: &str) -> Vec<Value> {
    let session = home.session(&SessionId::parse(&capture.session).unwrap()).unwrap().unwrap();
    let format = format_of(capture);
    let options = RequestOptions {
        until: Some(answer.to_owned()),
        input: if capture.model == "lab-small" || capture.model == "lab-tight" {
            Modalities::TEXT
        } else {
            Modalities { image: true, ..Modalities::TEXT }
        },
        interleaved: (capture.model == "lab-think").then(|| "reasoning_content".to_owned()),
        reminders: Reminders::PlanAndBuild,
        // The configuration under which 1.18.33 was captured.
        tail_tokens: Some(300),
        ..RequestOptions::of(format)
    };
    let found = llm::request(home, &session, &options).unwrap();
    assert!(found.quarantined.is_empty(), "{:?}", found.quarantined);
    let json = found.value.json(format, Style::Compact).unwrap();
    serde_json::from_slice(&json).unwrap()
}

fn format_of(capture: &Capture) -> Format {
    Format::Wire(match &*capture.path {
        "/v1/chat/completions" => Wire::Chat,
        "/v1/messages" => Wire::Anthropic,
        "/v1/responses" => Wire::Responses,
        other => panic!("{other}"),
    })
}

/// How a request that annals makes compares with the captured one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    /// All messages are equal, and nothing but stored history is in them.
    Equal,
    /// All messages are equal. The reminder of an agent is among them, which is not stored.
    EqualWithReminder,
    /// All messages are equal but the last one, with which OpenCode tells that no more steps are allowed.
    EqualButMaxSteps,
    /// The answer was deleted since, or something before it was edited, and no log tells how it was.
    NoLongerStored,
    Different,
}

const REMINDERS: [&str; 2] =
    ["# Plan Mode - System Reminder", "Your operational mode has changed from plan to build."];

fn compare(home: &dyn Read, capture: &Capture, answer: &str) -> Outcome {
    let text = |values: &[Value]| serde_json::to_string(values).unwrap();
    let mut expected = capture.messages.clone();
    let is_max_steps = capture.kind == "max-steps";
    if is_max_steps {
        let last = expected.pop().unwrap();
        assert!(last["content"].as_str().unwrap().starts_with("CRITICAL - MAXIMUM STEPS REACHED"), "{last}");
    }
    let (expected, actual) = (text(&expected), text(&rebuilt(home, capture, answer)));
    match expected == actual {
        true if is_max_steps => Outcome::EqualButMaxSteps,
        true if REMINDERS.iter().any(|reminder| actual.contains(reminder)) => Outcome::EqualWithReminder,
        true => Outcome::Equal,
        false => Outcome::Different,
    }
}

/// Compares every request that a version sent, and checks how many there are of each outcome on each wire. `edited` are the
/// requests whose history was edited since without a log.
#[track_caller]
#[allow(clippy::print_stdout, reason = "the counts are for people")]
fn check(home: &dyn Read, version: &str, edited: &[u64], expected: &[(&str, Outcome, usize)]) {
    let captures = Capture::of_version(version);
    let mut counts: BTreeMap<(&str, Outcome), usize> = BTreeMap::new();
    let mut different = Vec::new();
    for (capture, answer) in capture::pair(home, &captures) {
        let outcome = match answer.map(|answer| compare(home, capture, &answer)) {
            None => Outcome::NoLongerStored,
            Some(Outcome::Different) if edited.contains(&capture.number) => Outcome::NoLongerStored,
            Some(outcome) => outcome,
        };
        if outcome == Outcome::Different {
            different.push(capture.number);
        }
        *counts.entry((wire_of(capture), outcome)).or_default() += 1;
    }
    let n_titles = captures.iter().filter(|capture| capture.is_housekeeping()).count();
    let counts: Vec<_> = counts.into_iter().map(|((wire, outcome), n)| (wire, outcome, n)).collect();
    println!("{version}: {n_titles} requests for titles are not stored; of the others:");
    for (wire, outcome, n) in &counts {
        println!("  {wire:10} {outcome:?}: {n}");
    }
    assert_eq!(different, [0_u64; 0], "{version}");
    assert_eq!(counts, expected, "{version}");
}

fn wire_of(capture: &Capture) -> &'static str {
    format_of(capture).name()
}

fn opened(version: &str) -> (Fixture, Box<dyn annals::home::Write>) {
    let fixture = Fixture::unpack(&format!("opencode-{version}"));
    let home = annals::open::open_all(fixture.home()).unwrap().swap_remove(0);
    (fixture, home)
}

#[test]
fn requests_of_1_0_185_are_rebuilt() {
    let (_fixture, home) = opened("1.0.185");
    check(
        &*home,
        "1.0.185",
        &[514, 516],
        &[
            ("anthropic", Outcome::Equal, 4),
            ("openai", Outcome::Equal, 279),
            ("openai", Outcome::EqualWithReminder, 5),
            ("openai", Outcome::EqualButMaxSteps, 1),
            ("openai", Outcome::NoLongerStored, 24),
            ("responses", Outcome::Equal, 4),
        ],
    );
}

#[test]
fn requests_of_1_1_65_are_rebuilt() {
    let (_fixture, home) = opened("1.1.65");
    check(
        &*home,
        "1.1.65",
        &[541, 542],
        &[
            ("anthropic", Outcome::Equal, 4),
            ("openai", Outcome::Equal, 294),
            ("openai", Outcome::EqualWithReminder, 5),
            ("openai", Outcome::EqualButMaxSteps, 1),
            ("openai", Outcome::NoLongerStored, 23),
            ("responses", Outcome::Equal, 7),
        ],
    );
}

#[test]
fn requests_of_1_2_27_are_rebuilt() {
    let (_fixture, home) = opened("1.2.27");
    check(
        &*home,
        "1.2.27",
        &[351],
        &[
            ("anthropic", Outcome::Equal, 4),
            ("openai", Outcome::Equal, 297),
            ("openai", Outcome::EqualWithReminder, 5),
            ("openai", Outcome::EqualButMaxSteps, 1),
            ("openai", Outcome::NoLongerStored, 22),
            ("responses", Outcome::Equal, 7),
        ],
    );
}

#[test]
fn requests_of_1_18_33_are_rebuilt() {
    let (_fixture, home) = opened("1.18.33");
    // Whatever was deleted or edited later is in the log, except for sessions that were deleted.
    check(
        &*home,
        "1.18.33",
        &[],
        &[
            ("anthropic", Outcome::Equal, 4),
            ("openai", Outcome::Equal, 310),
            ("openai", Outcome::EqualWithReminder, 5),
            ("openai", Outcome::EqualButMaxSteps, 1),
            ("openai", Outcome::NoLongerStored, 13),
            ("responses", Outcome::Equal, 7),
        ],
    );
}

/// Messages that a revert removed, and a part that was edited: a store that was synced afterwards does not know of them.
#[test]
fn a_store_asks_the_log_of_the_home_that_a_session_came_from() {
    let (fixture, home) = opened("1.18.33");
    let store = SqliteStore::open_or_create(&fixture.home().join("annals.db")).unwrap();
    let source = annals::open::open_source(&home.url()).unwrap();
    sync::sync(&store, &[&*source], SyncOptions::to(Stage::Parts), &()).unwrap();
    let captures = Capture::of_version("1.18.33");
    let is_changed = |capture: &&(&Capture, Option<String>)| matches!(&*capture.0.label, "revert" | "manage");
    let pairs = capture::pair(&*home, &captures);
    let changed: Vec<_> = pairs.iter().filter(is_changed).collect();
    for (capture, answer) in &changed {
        let outcome = compare(&store, capture, answer.as_ref().unwrap());
        assert_eq!(outcome, Outcome::Equal, "{}", capture.number);
    }
    assert!(changed.len() > 10, "{}", changed.len());
}

#[test]
fn a_message_is_named_by_a_beginning_and_belongs_to_the_session() {
    let (_fixture, home) = opened("1.2.27");
    let sessions = home.sessions(&Default::default()).unwrap().value;
    let messages = |session| {
        let messages = home.messages(session, &MessageRange::ALL, MessageDetail::PartCounts);
        messages.map(|message| message.unwrap().stored.document).collect::<Vec<_>>()
    };
    let [one, other, ..] = &sessions[..] else { panic!("{}", sessions.len()) };
    let id = |document: &Document| document.root().get("id").unwrap().as_text().unwrap().to_string();
    let options =
        |until: &str| RequestOptions { until: Some(until.to_owned()), ..RequestOptions::of(Format::AiSdk) };
    let error = |until: &str| llm::request(&*home, one, &options(until)).map(|_| ()).unwrap_err();
    let (mine, foreign) = (id(&messages(one)[0]), id(&messages(other)[0]));

    assert!(llm::request(&*home, one, &options(&mine[..mine.len() - 2])).is_ok());
    assert!(matches!(error("msg_"), RequestError::Ambiguous { candidates, .. } if candidates.len() > 1));
    assert!(matches!(error("nothing"), RequestError::NoMessage { .. }));
    assert_eq!(
        error(&foreign).to_string(),
        format!("message {foreign} belongs to session {}, not to {}", other.id, one.id)
    );
}

#[test]
fn a_pending_revert_hides_what_it_hides() {
    let directory = tempfile::tempdir().unwrap();
    let store = annals::Store::open(directory.path().join("annals.db")).unwrap();
    let session = store.create_session("/home/me/shop").save().unwrap();
    session.prompt("one").model("lab/lab-large").save().unwrap();
    let second = session.prompt("two").model("lab/lab-large").save().unwrap();
    let said = || {
        let session = store.session(session.id().as_str()).unwrap();
        let request = session.request(&RequestOptions::of(Format::AiSdk)).unwrap().value;
        request
            .messages()
            .iter()
            .map(|message| message.parts[0].lens::<TextPart<'_>>().text.unwrap().to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(said(), ["one", "two"]);
    let stored = &store.session(session.id().as_str()).unwrap().record().stored.clone();
    let mut revert = Transaction::new("a revert");
    let hidden = stored
        .document
        .with(&["revert"], &Revert { message_id: Some((&second).into()), ..Default::default() });
    revert.replace(stored, hidden.unwrap());
    store.home().commit(revert).unwrap();
    assert_eq!(said(), ["one"]);
}
