//! Turns in every kind of home: what is stored when, and what cannot be done.

use std::time::{Duration, Instant};

use annals::facade::{Attachment, Subtask};
use annals::home::{MessageDetail, MessageRange, Read};
use annals::homes::opencode::database::Generation;
use annals::lease::LeaseError;
use annals::model::lens::{CompactionPart, FileDiff, Json, Message, Part, SnapshotPart, TextPart, Todo};
use annals::model::{Key, Transaction, Usage};
use annals::turn::{AnswerError, AnswerOptions, StepEnd, ToolOutput, Turn, TurnError, TurnOptions};
use annals::{Session, Store, ids};
use serde_json::json;

use super::kit::{Sample, empty_database, empty_home};

const MODEL: &str = "lab/lab-large";

/// An empty home of every kind.
pub(super) fn stores() -> Vec<(&'static str, tempfile::TempDir, Store)> {
    let annals = tempfile::tempdir().unwrap();
    let store = Store::open(annals.path().join("annals.db")).unwrap();
    let (files, directory) = empty_home();
    let (portable, portable_database) = empty_database(Generation::Portable);
    let (latest, latest_database) = empty_database(Generation::Latest);
    vec![
        ("annals.db", annals, store),
        ("a directory", files, directory.into()),
        ("a database of 1.2.27", portable, portable_database.into()),
        ("a database of 1.18.33", latest, latest_database.into()),
    ]
}

/// Writes a session with every kind of part, in every state.
pub(super) fn write_everything(store: &Store, directory: &std::path::Path) -> Session {
    std::fs::write(directory.join("cart.js"), "first(items)\n").unwrap();
    let session = store.create_session(directory).title("Everything").save().unwrap();
    let prompt = session
        .prompt("Look at @cart.js and ask @explore.")
        .model(MODEL)
        .attach(Attachment::path("cart.js").mentioned("@cart.js", 8))
        .attach(Attachment::path("missing.js"))
        .attach(Attachment::path("."))
        .attach(Attachment::bytes("pixel.png", "image/png", *b"\x89PNG"))
        .mention_agent_as("explore", "@explore", 25)
        .part(TextPart { text: Some("A note.".into()), ignored: Some(true), ..Default::default() });
    let mut turn = Turn::begin(&prompt).unwrap();

    let answer = turn.answer().unwrap();
    answer.step_start(Some("4b825dc642cb6eb9a060e54bf8d69288fbee4904")).unwrap();
    let mut thought = answer.reasoning().unwrap();
    thought.push("Which file ").unwrap();
    thought.push("is it?").unwrap();
    thought.finish_with(json!({ "anthropic": { "signature": "c2ln" } })).unwrap();
    let mut text = answer.text().unwrap();
    text.push("Let me look. \u{1F6D2}").unwrap();
    text.flush().unwrap();
    text.push(" é\n").unwrap();
    text.finish().unwrap();
    // Three calls at once, which end in another order.
    let done = answer.call("bash", "call_1").unwrap().metadata(json!({ "lab": { "itemId": "fc_1" } }));
    let fails = answer.call("read", "call_2").unwrap();
    let invalid = answer.call("launch", "call_3").unwrap();
    let mut done = done.run(json!({ "command": "cat cart.js", "0": [1, null] })).unwrap();
    let fails = fails.run(json!({ "filePath": "/nowhere" })).unwrap();
    done.progress(Some("cat"), Some(json!({ "output": "first" }).into())).unwrap();
    fails.fail("File not found: /nowhere").unwrap();
    let invalid = invalid.run_instead("invalid", json!({ "tool": "launch", "error": "unknown" })).unwrap();
    invalid.complete(ToolOutput::new("The arguments are invalid.").title("Invalid Tool")).unwrap();
    let output = ToolOutput::new("first(items)").title("cat cart.js").metadata(json!({ "exit": 0 }));
    done.complete(output.attach("image/png", "data:image/png;base64,AAAA")).unwrap();
    let usage = Usage {
        cost: 0.0123,
        input: 120.0,
        output: 17.0,
        reasoning: 5.0,
        cache_read: 30.0,
        cache_write: 2.0,
    };
    let end = StepEnd::new("tool-calls").usage(usage).snapshot("4b825dc642cb6eb9a060e54bf8d69288fbee4904");
    answer.step_finish(&end).unwrap();
    answer.patch("4b825dc642cb6eb9a060e54bf8d69288fbee4904", &["/home/dev/shop/cart.js"]).unwrap();
    answer.finish().unwrap();

    // A subagent, with a session of its own.
    let answer = turn.answer().unwrap();
    answer.step_start(None).unwrap();
    let mut task = answer
        .call("task", "call_4")
        .unwrap()
        .run(json!({ "description": "Find callers", "prompt": "Who calls it?", "subagent_type": "explore" }))
        .unwrap();
    let child = task.child("Find callers", "explore").unwrap();
    let mut inner = Turn::begin(&child.prompt("Who calls it?").agent("explore").model(MODEL)).unwrap();
    let reply = inner.answer().unwrap();
    reply.step_start(None).unwrap();
    reply.write("Nobody.").unwrap();
    reply.step_finish(&StepEnd::new("stop").tokens(10.0, 2.0)).unwrap();
    reply.finish().unwrap();
    inner.finish().unwrap();
    task.complete(ToolOutput::new("Nobody.").title("Find callers")).unwrap();
    answer.file("image/png", "data:image/png;base64,AAAA").unwrap();
    answer.add(SnapshotPart { snapshot: Some("4b825dc6".into()), ..Default::default() }).unwrap();
    let refused = AnswerError::Api {
        message: "Overloaded".to_owned(),
        status: Some(529),
        is_retryable: true,
        response_headers: Some(json!({ "retry-after": "1" }).into()),
        response_body: Some("{}".to_owned()),
        metadata: Some(json!({ "url": "https://api.example.com/v1" }).into()),
    };
    answer.retry(1, &refused).unwrap();
    answer.step_start(None).unwrap();
    answer.write("An empty cart has no first item.").unwrap();
    answer.step_finish(&StepEnd::new("stop").tokens(200.0, 9.0).cost(0.001)).unwrap();
    answer.structured(json!({ "bug": true })).unwrap();
    answer.finish().unwrap();
    let todo = |content: &'static str, status: &'static str| Todo {
        content: Some(content.into()),
        status: Some(status.into()),
        priority: Some("high".into()),
        id: Some("1".into()),
    };
    turn.set_todos(&[todo("Guard the first item", "in_progress")]).unwrap();
    let diff = FileDiff {
        file: Some("cart.js".into()),
        before: Some("".into()),
        after: Some("first(items)\n".into()),
        additions: Some(1.0),
        deletions: Some(0.0),
        status: Some("added".into()),
        ..Default::default()
    };
    turn.set_changes(&[diff]).unwrap();
    turn.finish().unwrap();

    // Every way to fail.
    for error in [
        refused,
        AnswerError::Auth { provider: "lab".to_owned(), message: "no key".to_owned() },
        AnswerError::OutputLength,
        AnswerError::ContextOverflow { message: "too long".to_owned(), response_body: Some("{}".to_owned()) },
        AnswerError::ContentFilter { message: "filtered".to_owned() },
        AnswerError::StructuredOutput { message: "prose".to_owned(), retries: 2 },
        AnswerError::Other { message: "odd".to_owned() },
        AnswerError::Aborted,
    ] {
        let mut turn = Turn::begin(&session.prompt("Again.")).unwrap();
        let answer = turn.answer().unwrap();
        answer.step_start(None).unwrap();
        let mut text = answer.text().unwrap();
        text.push("I was just").unwrap();
        let _pending = answer.call("bash", "call_5").unwrap();
        let _running = answer.call("bash", "call_6").unwrap().run(json!({ "command": "sleep 9" })).unwrap();
        answer.fail(&error).unwrap();
        turn.finish().unwrap();
    }

    // A compaction, with its summary and a subtask of a command.
    let request = session.prompt("").part(CompactionPart { auto: Some(false), ..Default::default() });
    let mut turn = Turn::begin(&request).unwrap();
    let options =
        AnswerOptions { agent: Some("compaction".to_owned()), is_summary: true, ..Default::default() };
    let summary = turn.answer_with(&options).unwrap();
    summary.step_start(None).unwrap();
    summary.write("We looked at a cart.").unwrap();
    summary.step_finish(&StepEnd::new("stop")).unwrap();
    summary.finish().unwrap();
    turn.finish().unwrap();
    let subtask = Subtask {
        prompt: "Review it".to_owned(),
        description: "review".to_owned(),
        agent: "general".to_owned(),
        model: Some(MODEL.to_owned()),
        command: Some("review".to_owned()),
    };
    let mut turn = Turn::begin(&session.prompt("").subtask(subtask).unwrap()).unwrap();
    let answer = turn.answer().unwrap();
    answer.step_start(None).unwrap();
    answer.write("Done.").unwrap();
    answer.step_finish(&StepEnd::new("stop")).unwrap();
    answer.finish().unwrap();
    turn.finish().unwrap();
    session
}

fn statuses(home: &dyn Read, session: &Session) -> Vec<String> {
    let record = home.session(session.id()).unwrap().unwrap();
    let mut found = Vec::new();
    for message in home.messages(&record, &MessageRange::ALL, MessageDetail::Parts) {
        for part in message.unwrap().parts {
            if let Part::Tool(tool) = part.document.lens() {
                found.push(tool.state.unwrap().status.unwrap().to_string());
            }
        }
    }
    found
}

#[test]
fn a_turn_with_everything_is_read_back_in_every_home() {
    for (kind, dir, store) in stores() {
        let work = dir.path().join("work");
        std::fs::create_dir(&work).unwrap();
        let session = write_everything(&store, &work);
        let store = Store::open(store.home().url().path().unwrap()).unwrap();
        let session = store.session(session.id().as_str()).unwrap();
        let messages: Vec<_> = session.messages().map(Result::unwrap).collect();
        let first = &messages[1].record();
        let kinds: Vec<String> = first
            .parts
            .iter()
            .map(|part| part.document.root().get("type").unwrap().as_text().unwrap().to_string())
            .collect();
        let expected = ["step-start", "reasoning", "text", "tool", "tool", "tool", "step-finish", "patch"];
        assert_eq!(kinds, expected, "{kind}");
        let Message::Assistant(answer) = first.stored.document.lens() else { panic!("{kind}") };
        assert_eq!(answer.finish.unwrap(), "tool-calls", "{kind}");
        assert_eq!(answer.cost, Some(0.0123), "{kind}");
        assert!(answer.time.unwrap().completed.is_some(), "{kind}");
        let said = if kind.ends_with("1.18.33") {
            "Let me look. \u{1F6D2} é\n"
        } else {
            "Let me look. \u{1F6D2} é"
        };
        assert_eq!(messages[1].text(), said, "{kind}");
        // Nothing is left open.
        let open = statuses(store.home(), &session)
            .into_iter()
            .filter(|status| status != "completed" && status != "error");
        assert_eq!(open.count(), 0, "{kind}");
        let problems = store.home().inspect().unwrap().check(annals::ids::now() + 3_600_000, &|| {}).unwrap();
        assert!(problems.is_empty(), "{kind}: {problems:?}");
        let todo = store.home().document(&Key::Todo(session.id().clone())).unwrap().unwrap();
        assert!(todo.document.text().contains("Guard the first item"), "{kind}");
        let child =
            store.sessions().find(|other| other.as_ref().unwrap().parent().is_some()).unwrap().unwrap();
        assert_eq!(child.title(), "Find callers (@explore subagent)", "{kind}");
        let prompt = &messages[0].record();
        let texts: Vec<String> = prompt
            .parts
            .iter()
            .filter_map(|part| match part.document.lens() {
                Part::Text(text) => Some(text.text.unwrap().to_string()),
                _ => None,
            })
            .collect();
        assert!(texts.iter().any(|text| text.contains("1: first(items)")), "{kind}: {texts:?}");
        assert!(texts.iter().any(|text| text.contains("File not found")), "{kind}: {texts:?}");
        assert!(texts.iter().any(|text| text.contains("<type>directory</type>")), "{kind}: {texts:?}");
        assert!(
            texts.iter().any(|text| text.contains("call the task tool with subagent: explore")),
            "{kind}"
        );
    }
}

#[test]
fn text_is_stored_after_a_moment_and_seen_by_others() {
    for (kind, _dir, store) in stores() {
        let session = store.create_session("/home/me/shop").save().unwrap();
        let mut turn = Turn::begin(&session.prompt("Go.").model(MODEL)).unwrap();
        let answer = turn.answer().unwrap();
        let mut text = answer.text().unwrap();
        let other = Store::open(store.home().url().path().unwrap()).unwrap();
        let seen = || {
            let session = other.session(session.id().as_str()).unwrap();
            session.messages().last().unwrap().unwrap().text()
        };
        let mut expected = String::new();
        for piece in ["Once ", "upon ", "a time"] {
            text.push(piece).unwrap();
            expected.push_str(piece);
            let begin = Instant::now();
            while seen() != expected {
                assert!(begin.elapsed() < Duration::from_secs(10), "{kind}: {:?}", seen());
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        text.finish().unwrap();
        answer.finish().unwrap();
        turn.finish().unwrap();
    }
}

#[test]
fn what_is_dropped_is_aborted() {
    for (kind, _dir, store) in stores() {
        let session = store.create_session("/home/me/shop").save().unwrap();
        let mut turn = Turn::begin(&session.prompt("Go.").model(MODEL)).unwrap();
        let answer = turn.answer().unwrap();
        answer.step_start(None).unwrap();
        let mut text = answer.text().unwrap();
        text.push("I was going to").unwrap();
        let call = answer.call("bash", "call_1").unwrap().run(json!({ "command": "ls" })).unwrap();
        drop(turn);
        let last = session.messages().last().unwrap().unwrap();
        let Message::Assistant(ended) = last.record().stored.document.lens() else { panic!("{kind}") };
        assert_eq!(ended.error.unwrap().name.unwrap(), "MessageAbortedError", "{kind}");
        assert!(ended.time.unwrap().completed.is_some() && ended.finish.is_none(), "{kind}");
        assert_eq!(last.text(), "I was going to", "{kind}");
        assert_eq!(statuses(store.home(), &session), ["error"], "{kind}");
        // What is left of it says that it is over, and changes nothing.
        assert!(matches!(text.push("!"), Err(TurnError::Ended { .. })), "{kind}");
        assert!(matches!(call.complete(ToolOutput::new("x")), Err(TurnError::Ended { .. })), "{kind}");
        assert!(matches!(answer.finish(), Err(TurnError::Ended { .. })), "{kind}");
        // The session goes on.
        let turn = Turn::begin(&session.prompt("Go on.")).unwrap();
        turn.finish().unwrap();
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    for (kind, _dir, store) in stores() {
        let session = store.create_session("/home/me/shop").save().unwrap();
        assert!(matches!(Turn::begin(&session.prompt("Go.")), Err(TurnError::Prompt(_))), "{kind}: no model");
        let mut turn = Turn::begin(&session.prompt("Go.").model(MODEL)).unwrap();
        let error = Turn::begin(&session.prompt("Me too.")).unwrap_err();
        let TurnError::Lease(LeaseError::Held { holder, .. }) = error else { panic!("{kind}: {error}") };
        assert_eq!(holder.pid, std::process::id(), "{kind}");
        let answer = turn.answer().unwrap();
        assert!(matches!(turn.answer(), Err(TurnError::AnswerOpen)), "{kind}");
        let mut text = answer.text().unwrap();
        text.push("x").unwrap();
        let open = answer.call("bash", "call_1").unwrap();
        let Err(TurnError::Unfinished { open: named }) = answer.finish() else { panic!("{kind}") };
        assert_eq!(named, ["a text", "a call of `bash`"], "{kind}");
        drop(open);
        // The answer was dropped with the refusal, and is over.
        assert!(matches!(text.finish(), Err(TurnError::Ended { .. })), "{kind}");
        turn.answer().unwrap().finish().unwrap();
        turn.finish().unwrap();
        let turn = Turn::begin(&session.prompt("Again.")).unwrap();
        turn.finish().unwrap();
    }
}

#[test]
fn a_document_that_others_changed_is_not_overwritten() {
    for (kind, _dir, store) in stores() {
        let session = store.create_session("/home/me/shop").save().unwrap();
        let mut turn = Turn::begin(&session.prompt("Go.").model(MODEL)).unwrap();
        let answer = turn.answer().unwrap();
        let mut text = answer.text().unwrap();
        text.push("mine").unwrap();
        text.flush().unwrap();
        let key = match &session.messages().last().unwrap().unwrap().record().parts[0].key {
            key @ Key::Part(..) => key.clone(),
            other => panic!("{other:?}"),
        };
        let stored = store.home().document(&key).unwrap().unwrap();
        let mut edit = Transaction::new("somebody else");
        edit.replace(&stored, stored.document.with(&["text"], "theirs").unwrap());
        store.home().commit(edit).unwrap();
        text.push(" and more").unwrap();
        assert!(matches!(text.finish(), Err(TurnError::Commit(_))), "{kind}");
        let now = store.home().document(&key).unwrap().unwrap();
        assert!(now.document.text().contains("theirs"), "{kind}");
    }
}

/// A session that looks as a killed agent left it, some time ago.
fn interrupted(store: &Store, ago: i64, is_between_steps: bool) -> Session {
    let then = ids::now() - ago;
    let sample = Sample::new(ids::new_session(), "/home/dev/shop");
    let (user, assistant) = (ids::new_message(), ids::new_message());
    let mut transaction = Transaction::new("as a killed agent left it");
    transaction.insert(sample.session_key(), sample.session_document("Killed", then));
    let (key, document) = sample.prompt(&user, then);
    transaction.insert(key, document);
    let (key, document) = sample.answer(&assistant, &user, then);
    let document = match is_between_steps {
        true => document.with(&["finish"], "tool-calls").unwrap(),
        false => document.without(&["finish"]).unwrap().without(&["time", "completed"]).unwrap(),
    };
    transaction.insert(key, document);
    let (key, document) = sample.call(&assistant, &ids::new_part(), "bash", then);
    let running = document.with(
        &["state"],
        &Json::from(json!({
            "status": "running", "input": { "command": "ls" }, "time": { "start": then }
        })),
    );
    transaction.insert(key, if is_between_steps { document } else { running.unwrap() });
    store.home().commit(transaction).unwrap();
    store.session(sample.session.as_str()).unwrap()
}

#[test]
fn a_turn_that_was_interrupted_is_closed_by_the_next() {
    const HOUR: i64 = 3_600_000;
    for (kind, _dir, store) in stores() {
        let session = interrupted(&store, HOUR, false);
        Turn::begin(&session.prompt("Go on.")).unwrap().finish().unwrap();
        assert_eq!(statuses(store.home(), &session), ["error"], "{kind}");
        let messages: Vec<_> = session.messages().map(Result::unwrap).collect();
        let Message::Assistant(ended) = messages[1].record().stored.document.lens() else { panic!("{kind}") };
        assert_eq!(ended.error.unwrap().name.unwrap(), "MessageAbortedError", "{kind}");
        assert_eq!(messages.len(), 3, "{kind}");

        // Killed between two steps: the turn ends with an answer that says so.
        let session = interrupted(&store, HOUR, true);
        Turn::begin(&session.prompt("Go on.")).unwrap().finish().unwrap();
        let messages: Vec<_> = session.messages().map(Result::unwrap).collect();
        assert_eq!(messages.len(), 4, "{kind}");
        let Message::Assistant(ended) = messages[2].record().stored.document.lens() else { panic!("{kind}") };
        assert_eq!(ended.error.unwrap().name.unwrap(), "MessageAbortedError", "{kind}");

        // An agent may still be at work on what is of just now.
        let session = interrupted(&store, 1000, false);
        let busy = Turn::begin(&session.prompt("Go on."));
        assert!(matches!(busy, Err(TurnError::Busy { .. })), "{kind}: {busy:?}");
        assert_eq!(session.messages().count(), 2, "{kind}");
        let options = TurnOptions { take_over: true, ..TurnOptions::default() };
        Turn::begin_with(&session.prompt("Go on."), &options).unwrap().finish().unwrap();
        assert_eq!(session.messages().count(), 3, "{kind}");
    }
}

#[test]
fn a_stored_prompt_is_answered_later() {
    for (kind, _dir, store) in stores() {
        let session = store.create_session("/home/me/shop").save().unwrap();
        let prompt = session.prompt("Later.").model(MODEL).variant("high").agent("plan").save().unwrap();
        let mut turn = Turn::resume(&session, &prompt, &TurnOptions::default()).unwrap();
        assert_eq!(turn.prompt(), &prompt, "{kind}");
        let answer = turn.answer().unwrap();
        let id = answer.id().clone();
        answer.write("Now.").unwrap();
        answer.finish().unwrap();
        turn.finish().unwrap();
        let last = session.messages().last().unwrap().unwrap();
        let Message::Assistant(answer) = last.record().stored.document.lens() else { panic!("{kind}") };
        assert_eq!(answer.parent_id.unwrap(), prompt.as_str(), "{kind}");
        assert_eq!(
            (answer.agent.unwrap(), answer.variant.unwrap()),
            ("plan".into(), "high".into()),
            "{kind}"
        );
        // Neither an answer, nor a prompt of another session.
        let other = store.create_session("/home/me/shop").save().unwrap();
        for (session, message) in [(&session, &id), (&other, &prompt)] {
            let refused = Turn::resume(session, message, &TurnOptions::default());
            assert!(matches!(refused, Err(TurnError::NoPrompt { .. })), "{kind}: {refused:?}");
        }
        // The lease was given back.
        Turn::begin(&other.prompt("Go.").model(MODEL)).unwrap().finish().unwrap();
    }
}
