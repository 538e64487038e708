//! Forks through the facade, in every kind of home, and forks among sessions.

use annals::Store;
use annals::facade::{ForkSessionError, Session};
use annals::family::{Descent, Family, Forks};
use annals::fork::{ForkError, ForkOptions};
use annals::homes::opencode::database::Generation;
use annals::model::id::MessageId;
use annals::query::SessionQuery;
use annals::turn::{StepEnd, ToolOutput, Turn};
use serde_json::json;

use super::annals_store::empty_store;
use super::kit::{empty_database, empty_home};

/// An empty home of each kind.
fn homes() -> Vec<(tempfile::TempDir, Store)> {
    let (a, directory) = empty_home();
    let (b, portable) = empty_database(Generation::Portable);
    let (c, latest) = empty_database(Generation::Latest);
    let (d, store) = empty_store();
    vec![(a, directory.into()), (b, portable.into()), (c, latest.into()), (d, Store::from(store))]
}

/// A session with a turn that calls a tool.
fn worked(store: &Store) -> Session {
    let session = store.create_session("/home/me/shop").title("Cart").save().unwrap();
    let mut turn = Turn::begin(&session.prompt("It crashes.").model("lab/lab-large")).unwrap();
    let answer = turn.answer().unwrap();
    answer.step_start(None).unwrap();
    let call = answer.call("bash", "call_1").unwrap().run(json!({ "command": "cat cart.js" })).unwrap();
    call.complete(ToolOutput::new("first(items)").title("cat cart.js")).unwrap();
    answer.step_finish(&StepEnd::new("tool-calls").tokens(10.0, 5.0).cost(0.5)).unwrap();
    answer.finish().unwrap();
    let answer = turn.answer().unwrap();
    answer.write("It has no first item.").unwrap();
    answer.step_finish(&StepEnd::new("stop").tokens(20.0, 5.0).cost(0.25)).unwrap();
    answer.finish().unwrap();
    turn.finish().unwrap();
    store.session(session.id().as_str()).unwrap()
}

fn told(session: &Session) -> Vec<(String, String)> {
    session.messages().map(Result::unwrap).map(|message| (message.role(), message.text())).collect()
}

/// A session is younger than its copied messages, which takes a millisecond.
fn wait() {
    std::thread::sleep(std::time::Duration::from_millis(3));
}

#[test]
fn a_fork_is_the_same_conversation_in_every_home() {
    for (_dir, store) in homes() {
        let place = store.home().url();
        let session = worked(&store);
        wait();
        let fork = session.fork(&ForkOptions::default()).unwrap();
        assert_eq!(told(&fork), told(&session), "{place}");
        assert_eq!((fork.title(), fork.parent()), ("Cart (fork #1)", None), "{place}");
        let ids = |session: &Session| -> Vec<MessageId> {
            session.messages().map(|message| message.unwrap().id().clone()).collect()
        };
        let (ours, theirs) = (ids(&fork), ids(&session));
        assert!(ours.iter().all(|id| !theirs.contains(id)), "{place}");
        // Answers name the copy of their prompt.
        for message in fork.messages().map(Result::unwrap).filter(|message| message.role() == "assistant") {
            let parent = message.record().stored.document.root().get("parentID").unwrap().as_text().unwrap();
            assert_eq!(parent, ours[0].as_str(), "{place}");
        }
        let cut = session.fork(&ForkOptions { at: Some(theirs[2].clone()), title: None }).unwrap();
        assert_eq!(told(&cut), told(&session)[..2], "{place}");
        // What the copies took counts for the fork as well, as in OpenCode 1.18.
        let summary = annals::summarize::summarize(store.home(), &[fork.record().clone()], &|| {}).unwrap();
        assert_eq!(summary.value[0].usage.cost, 0.75, "{place}");
    }
}

#[test]
fn a_fork_at_a_message_of_another_session_is_refused() {
    for (_dir, store) in homes() {
        let (session, other) = (worked(&store), worked(&store));
        let foreign = other.messages().next().unwrap().unwrap().id().clone();
        let before = store.home().sessions(&SessionQuery::default()).unwrap().value.len();
        let refused = session.fork(&ForkOptions { at: Some(foreign.clone()), title: None });
        let Err(ForkSessionError::Fork(ForkError::NoMessage { message, .. })) = refused else {
            panic!("{refused:?}")
        };
        assert_eq!(message, foreign);
        assert_eq!(store.home().sessions(&SessionQuery::default()).unwrap().value.len(), before);
    }
}

/// A store keeps what is being streamed in pieces, which a fork must not share.
#[test]
fn a_fork_of_a_growing_answer_is_whole() {
    let (_dir, sqlite) = empty_store();
    let store = Store::from(sqlite);
    let session = store.create_session("/home/me/shop").title("Cart").save().unwrap();
    let mut turn = Turn::begin(&session.prompt("Tell me.").model("lab/lab-large")).unwrap();
    let answer = turn.answer().unwrap();
    let mut text = answer.text().unwrap();
    let piece = "A piece of a long answer. ".repeat(40);
    text.push(&piece).unwrap();
    // A boundary stores what was collected before it.
    answer.call("bash", "call_1").unwrap().run(json!({})).unwrap().complete(ToolOutput::new("x")).unwrap();
    text.push(&piece).unwrap();
    answer.call("bash", "call_2").unwrap().run(json!({})).unwrap().complete(ToolOutput::new("x")).unwrap();
    let fork = session.fork(&ForkOptions::default()).unwrap();
    assert_eq!(told(&fork)[1].1, piece.repeat(2));
    text.push("The end.").unwrap();
    text.finish().unwrap();
    assert_eq!(told(&session)[1].1, format!("{}The end.", piece.repeat(2)));
    assert_eq!(told(&fork)[1].1, piece.repeat(2));
    let problems = store.home().inspect().unwrap().check(annals::ids::now(), &|| {}).unwrap();
    let is_damage = |problem: &annals::check::Problem| format!("{problem:?}").contains("amage");
    assert!(!problems.iter().any(is_damage), "{problems:?}");
}

#[test]
fn the_line_of_forks_is_found() {
    for (_dir, store) in homes() {
        let place = store.home().url();
        let session = worked(&store);
        wait();
        let fork = session.fork(&ForkOptions::default()).unwrap();
        wait();
        let second = fork.fork(&ForkOptions::default()).unwrap();
        wait();
        let renamed =
            fork.fork(&ForkOptions { title: Some("Another".to_owned()), ..Default::default() }).unwrap();
        let other = worked(&store);
        let all = store.home().sessions(&SessionQuery::default()).unwrap().value;
        let forks = Forks::among(store.home(), &all).unwrap();
        let origin =
            |of: &Session| forks.origin(of.id()).map(|origin| (origin.session.clone(), origin.messages));
        assert_eq!(origin(&session), None, "{place}");
        assert_eq!(origin(&fork), Some((session.id().clone(), 3)), "{place}");
        assert_eq!(origin(&second), Some((fork.id().clone(), 3)), "{place}: the title tells");
        assert_eq!(origin(&renamed), Some((session.id().clone(), 3)), "{place}: the first has all");
        assert_eq!(origin(&other), None, "{place}");
        let family = Family::of(&all);
        let line = family.ancestry(&forks, second.id());
        let told: Vec<(&str, bool)> = line
            .iter()
            .map(|relative| (relative.record.id.as_str(), matches!(relative.descent, Descent::ForkOf(_))))
            .collect();
        let expected =
            [(session.id().as_str(), false), (fork.id().as_str(), true), (second.id().as_str(), true)];
        assert_eq!(told, expected, "{place}");
    }
}
