//! OpenCode's database: what it means there to insert, replace and delete, and what every schema makes of it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use annals::home::{CommitError, ConflictKind, Inspect, Read, SessionRecord, Write};
use annals::homes::opencode::database::{Generation, OpencodeDatabase};
use annals::model::id::{IdGenerator, MessageId, PartId, ProjectId, SessionId};
use annals::model::json::same_value;
use annals::model::{Document, Key, Stored, Transaction};
use annals::query::SessionQuery;
use annals_testkit::Fixture;

use super::kit::{
    PROJECT, Sample, empty_database, messages, open_db, query, rows, session, session_id, snapshot, sql,
};

/// A database in a directory of its own.
struct Database {
    dir: tempfile::TempDir,
    home: OpencodeDatabase,
}

impl Database {
    /// What a real OpenCode made.
    fn of(fixture: &str) -> Database {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("opencode.db");
        std::fs::copy(Fixture::unpack(fixture).home().join("opencode.db"), &path).unwrap();
        Database { home: open_db(&path), dir }
    }

    /// A new one of each generation, one of 1.2.27 and one of 1.18.33.
    fn each() -> [(&'static str, Database); 4] {
        let new = |generation| {
            let (dir, home) = empty_database(generation);
            Database { dir, home }
        };
        [
            ("new", new(Generation::Portable)),
            ("new, latest", new(Generation::Latest)),
            ("1.2.27", Database::of("opencode-1.2.27")),
            ("1.18.33", Database::of("opencode-1.18.33")),
        ]
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("opencode.db")
    }

    /// All there is: rows, and the files beside them.
    fn contents(&self) -> (BTreeMap<String, Vec<String>>, BTreeMap<String, Vec<u8>>) {
        let mut files = snapshot(self.dir.path());
        files.retain(|name, _| name.starts_with("storage/"));
        (rows(&self.path()), files)
    }

    /// A column of a session.
    fn column(&self, session: &SessionId, column: &str) -> String {
        query(&self.path(), &format!("SELECT {column} FROM session WHERE id = '{session}'")).remove(0)
    }
}

fn parse(text: &str) -> Document {
    Document::parse(text.as_bytes().to_vec()).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn new_sample() -> Sample {
    Sample::new(annals::ids::new_session(), "/home/dev/shop")
}

fn project(id: &ProjectId) -> Document {
    parse(&format!(
        r##"{{"id":"{id}","worktree":"/home/dev/shop","vcs":"git","name":"Shop","icon":{{"url":"data:,","color":"#aabbcc"}},"sandboxes":["/home/dev/shop-2"],"commands":{{"start":"make"}},"time":{{"created":1766578000000,"updated":1766578000001,"initialized":1766578000002}}}}"##
    ))
}

/// A document of each kind, with all that a session can say and much that only plugins say.
fn conversation(sample: &Sample) -> Vec<(Key, Document)> {
    let Sample { project: owner, session, .. } = sample;
    let now = 1_766_578_085_876;
    let (user, assistant) = (annals::ids::new_message(), annals::ids::new_message());
    let odd = parse(r#"{"lone":"\ud83d","9":[[[]],{}],"2":"\u0000","big":1e308,"tiny":-0.5e-300,"é":null}"#);
    let (prompt_key, prompt) = sample.prompt(&user, now);
    let (answer_key, answer) = sample.answer(&assistant, &user, now + 1);
    let (part_key, part) = sample.text(&assistant, &annals::ids::new_part(), "An answer.");
    vec![
        (Key::Project(owner.clone()), project(owner)),
        (
            Key::Session(owner.clone(), session.clone()),
            parse(&format!(
                r#"{{"id":"{session}","slug":"quiet-harbor","projectID":"{owner}","directory":"/home/dev/shop/web","parentID":"ses_1","title":"Größe \ud83d\ude00 'quoted'","version":"1.1.65","summary":{{"additions":1,"deletions":0,"files":3,"diffs":[{{"file":"a"}}]}},"share":{{"url":"https://opncd.ai/s/1"}},"revert":{{"messageID":"{user}","diff":"@@"}},"permission":[{{"permission":"edit","pattern":"*","action":"ask"}}],"time":{{"created":{now},"updated":{},"compacting":{},"archived":{}}}}}"#,
                now + 1,
                now + 2,
                now + 3
            )),
        ),
        (prompt_key, prompt.with(&["plugin"], &odd).unwrap()),
        sample.text(&user, &annals::ids::new_part(), "A prompt."),
        (answer_key, answer.with(&["plugin"], &odd).unwrap()),
        (part_key, part.with(&["plugin"], &odd).unwrap()),
        (
            Key::Todo(session.clone()),
            parse(
                r#"[{"content":"one","status":"completed","priority":"high"},{"content":"two","status":"pending","priority":"low"}]"#,
            ),
        ),
        (Key::Share(session.clone()), parse(r#"{"id":"1","secret":"s3cret","url":"https://opncd.ai/s/1"}"#)),
        (Key::Diff(session.clone()), parse(r#"[ {"file": "a", "additions": 1, "deletions": 0} ]"#)),
    ]
}

fn insert(home: &dyn Write, documents: &[(Key, Document)]) {
    let mut transaction = Transaction::new("insert");
    for (key, document) in documents {
        transaction.insert(key.clone(), document.clone());
    }
    home.commit(transaction).unwrap_or_else(|error| panic!("{error}"));
}

/// The same document, changed in a way that every kind has a place for.
fn changed(key: &Key, document: &Document, to: &str) -> Document {
    match key {
        Key::Project(_) => document.with(&["name"], to).unwrap(),
        Key::Session(..) => document.with(&["title"], to).unwrap(),
        Key::Todo(_) => parse(&format!(r#"[{{"content":"{to}","status":"pending","priority":"low"}}]"#)),
        Key::Share(_) => document.with(&["secret"], to).unwrap(),
        Key::Diff(_) => parse(&format!(r#"[{{"file":"{to}"}}]"#)),
        _ => document.with(&["plugin"], to).unwrap(),
    }
}

/// Whether a document says what was written, and beyond that only what follows from other documents.
fn assert_says(read: &Document, written: &Document, what: &str) {
    if written.root().items().next().is_some() {
        assert!(same_value(read.root(), written.root()), "{what}: {read:?}");
        return;
    }
    for (name, value) in written.root().members() {
        let found = read.root().get(&name.to_str()).unwrap_or_else(|| panic!("{what}: no {name}: {read:?}"));
        assert!(same_value(found, value), "{what}: {name} is {}, was {}", found.raw(), value.raw());
    }
    for (name, _) in read.root().members() {
        let name = name.to_string();
        let is_derived = ["path", "agent", "model", "cost", "tokens"].contains(&name.as_str());
        assert!(written.root().get(&name).is_some() || is_derived, "{what}: {name} was added: {read:?}");
    }
}

#[test]
fn what_was_written_is_read_back() {
    for (kind, database) in Database::each() {
        let mut sample = new_sample();
        sample.project = ProjectId::parse("fedcba9876543210fedcba9876543210fedcba98").unwrap();
        let mut documents = conversation(&sample);
        insert(&database.home, &documents);
        for home in [&database.home, &open_db(&database.path())] {
            for (key, written) in &documents {
                let read = home.document(key).unwrap().unwrap_or_else(|| panic!("{kind}: no {key}"));
                assert_says(&read.document, written, &format!("{kind} {key}"));
                assert_eq!(read.key, *key);
            }
            let record = session(home, sample.session.as_str());
            assert_eq!(record.project, sample.project);
            let (messages, quarantined) = messages(home, &record);
            assert!(quarantined.is_empty(), "{quarantined:?}");
            assert_eq!(messages.iter().map(|message| message.parts.len()).collect::<Vec<_>>(), [1, 1]);
            let keys = home.session_keys(&sample.session).unwrap();
            assert_eq!(keys.len(), documents.len() - 1, "all but the project: {keys:?}");
        }
        // Each is replaced, in one transaction, and stored over.
        for to in ["replaced", "put"] {
            let mut transaction = Transaction::new(to);
            for (key, document) in &mut documents {
                let old = database.home.document(key).unwrap().unwrap();
                *document = changed(key, document, to);
                match to {
                    "put" => transaction.put(key.clone(), document.clone()),
                    _ => transaction.replace(&old, document.clone()),
                }
            }
            assert_eq!(database.home.commit(transaction).unwrap().written, documents.len());
            for (key, written) in &documents {
                let read = database.home.document(key).unwrap().unwrap();
                assert_says(&read.document, written, &format!("{kind} {to} {key}"));
            }
        }
        // And each is deleted, from the leaves up.
        for (key, _) in documents.iter().rev() {
            let mut transaction = Transaction::new("delete");
            transaction.delete(&database.home.document(key).unwrap().unwrap());
            assert_eq!(database.home.commit(transaction).unwrap().deleted, 1);
            assert!(database.home.document(key).unwrap().is_none(), "{kind} {key}");
        }
        assert!(query(&database.path(), "PRAGMA foreign_key_check").is_empty());
    }
}

#[test]
fn a_conflict_changes_nothing_and_says_what_happened() {
    for (kind, database) in Database::each() {
        // Someone else, with connections of their own.
        let theirs = open_db(&database.path());
        for place in 0..conversation(&new_sample()).len() {
            let mut sample = new_sample();
            // A project with sessions cannot go without them, so each has its own.
            sample.project = ProjectId::parse(&format!("{place:040x}")).unwrap();
            let documents = conversation(&sample);
            insert(&theirs, &documents);
            let (key, written) = documents[place].clone();
            let stored = database.home.document(&key).unwrap().unwrap();
            let ours = changed(&key, &written, "ours");
            let try_to = |change: &dyn Fn(&mut Transaction)| {
                let before = database.contents();
                let mut transaction = Transaction::new("test");
                // Beside the change in question there are some that could be made: they must not be made either.
                for (key, document) in conversation(&new_sample()) {
                    if !matches!(key, Key::Project(_)) {
                        transaction.insert(key, document);
                    }
                }
                change(&mut transaction);
                match database.home.commit(transaction) {
                    Err(CommitError::Conflict { what, key: named, place }) => {
                        assert_eq!(database.contents(), before, "{kind} {key}");
                        assert_eq!(*named, key);
                        let id = key.to_string();
                        let id = id.rsplit(' ').next().unwrap();
                        assert!(place.contains(id), "{place} does not name {id}");
                        what
                    }
                    other => panic!("{kind} {key}: {other:?}"),
                }
            };
            assert_eq!(try_to(&|t| t.insert(key.clone(), ours.clone())), ConflictKind::Exists);
            let mut transaction = Transaction::new("theirs");
            transaction.put(key.clone(), changed(&key, &written, "theirs"));
            theirs.commit(transaction).unwrap();
            assert_eq!(try_to(&|t| t.replace(&stored, ours.clone())), ConflictKind::Changed);
            assert_eq!(try_to(&|t| t.delete(&stored)), ConflictKind::Changed);
            let mut transaction = Transaction::new("theirs");
            transaction.delete_any(key.clone());
            theirs.commit(transaction).unwrap();
            assert_eq!(try_to(&|t| t.replace(&stored, ours.clone())), ConflictKind::Gone);
            assert_eq!(try_to(&|t| t.delete(&stored)), ConflictKind::Gone);
        }
    }
}

/// Ids of messages and parts are primary keys of the whole database, whichever session they belong to.
#[test]
fn an_id_of_another_session_is_taken() {
    for (kind, database) in Database::each() {
        let (theirs, ours) = (new_sample(), new_sample());
        let their_documents = conversation(&theirs);
        insert(&database.home, &their_documents);
        let own = annals::ids::new_message();
        insert(
            &database.home,
            &[(ours.session_key(), ours.session_document("ours", 1)), ours.prompt(&own, 1)],
        );
        let before = database.contents();
        for (key, _) in &their_documents {
            let (key, document) = match key {
                Key::Message(_, message) => ours.prompt(message, 2),
                Key::Part(_, _, part) => ours.text(&own, part, "ours"),
                _ => continue,
            };
            for is_insertion in [true, false] {
                let mut transaction = Transaction::new("taken");
                let (bystander_key, bystander) = ours.prompt(&annals::ids::new_message(), 3);
                transaction.insert(bystander_key, bystander);
                match is_insertion {
                    true => transaction.insert(key.clone(), document.clone()),
                    false => transaction.put(key.clone(), document.clone()),
                }
                let error = database.home.commit(transaction).unwrap_err();
                assert!(
                    matches!(error, CommitError::Conflict { what: ConflictKind::Taken, .. }),
                    "{kind} {key}: {error:?}"
                );
                assert_eq!(database.contents(), before, "{kind} {key}");
            }
        }
    }
}

/// Such a part would be shown in one session and go with the other.
#[test]
fn a_part_cannot_be_put_under_a_message_of_another_session() {
    for (kind, database) in Database::each() {
        let (theirs, ours) = (new_sample(), new_sample());
        let message = annals::ids::new_message();
        insert(
            &database.home,
            &[
                (theirs.session_key(), theirs.session_document("theirs", 1)),
                theirs.prompt(&message, 1),
                (ours.session_key(), ours.session_document("ours", 1)),
            ],
        );
        let before = database.contents();
        let (key, document) = ours.text(&message, &annals::ids::new_part(), "stray");
        let mut transaction = Transaction::new("stray");
        transaction.insert(key, document);
        assert!(database.home.commit(transaction).is_err(), "{kind}: it was stored");
        assert_eq!(database.contents(), before);
    }
}

#[test]
fn one_bad_change_among_many_leaves_nothing() {
    let bad = |sample: &Sample| {
        let message = annals::ids::new_message();
        let part = annals::ids::new_part();
        let (part_key, text) = sample.text(&message, &part, "no message");
        let (prompt_key, prompt) = Sample::new(session_id("ses_missing"), "/").prompt(&message, 1);
        let (own_key, own) = sample.prompt(&message, 1);
        let foreign = MessageId::parse("bad_1").unwrap();
        [
            ("a part without a message", part_key, text),
            ("a message without a session", prompt_key, prompt),
            ("a message that is neither side's", own_key, own.with(&["role"], "oracle").unwrap()),
            (
                "a message with a foreign id",
                Key::Message(sample.session.clone(), foreign.clone()),
                sample.prompt(&foreign, 1).1,
            ),
            (
                "todos of a missing session",
                Key::Todo(session_id("ses_missing")),
                parse(r#"[{"content":"x","status":"pending","priority":"low"}]"#),
            ),
            ("a share of a missing session", Key::Share(session_id("ses_missing")), parse("{}")),
            ("a share of the old kind", Key::LegacyShare(sample.session.clone()), parse("{}")),
        ]
    };
    for (kind, database) in Database::each() {
        let old = new_sample();
        insert(&database.home, &conversation(&old));
        let before = database.contents();
        for n in 0..bad(&old).len() {
            let new = new_sample();
            let (name, key, document) = bad(&new)[n].clone();
            let mut transaction = Transaction::new("many");
            for message in 0..100 {
                if message == 50 {
                    transaction.insert(key.clone(), document.clone());
                }
                let (message, now) = (annals::ids::new_message(), 1_766_578_085_876 + message);
                for (key, document) in
                    [new.prompt(&message, now), new.text(&message, &annals::ids::new_part(), "x")]
                {
                    transaction.insert(key, document);
                }
            }
            transaction.insert(new.session_key(), new.session_document("new", 1));
            transaction.put(Key::Todo(old.session.clone()), parse("[]"));
            transaction.put(Key::Diff(old.session.clone()), parse("[]"));
            transaction.delete_any(Key::Share(old.session.clone()));
            let error = database.home.commit(transaction).expect_err(name);
            assert!(
                matches!(error, CommitError::Refused { .. } | CommitError::Conflict { .. }),
                "{kind}, {name}: {error:?}"
            );
            assert!(error.to_string().contains(&key.to_string()), "{kind}, {name}: {error}");
            assert_eq!(database.contents(), before, "{kind}, {name}");
        }
        // The connection is as good as before.
        new_sample().store(&database.home, "still", "works");
    }
}

/// OpenCode 1.18 refuses a whole session for one document that lacks what it requires.
#[test]
fn what_an_old_document_lacks_is_in_the_row_and_in_the_receipt() {
    for (kind, database) in Database::each() {
        let sample = new_sample();
        let now = 1_766_578_085_876;
        let [user, assistant, complete] = [0; 3].map(|_| annals::ids::new_message());
        let [reasoning, text] = [0; 2].map(|_| annals::ids::new_part());
        let id = &sample.session;
        let old_prompt = parse(&format!(
            r#"{{"id":"{user}","sessionID":"{id}","role":"user","time":{{"created":{now}}},"kept":[1]}}"#
        ));
        let old_answer = parse(&format!(
            r#"{{"id":"{assistant}","sessionID":"{id}","role":"assistant","mode":"plan","modelID":"m1","providerID":"p1","cost":0,"tokens":{{"input":1,"output":2,"reasoning":0,"cache":{{"read":0,"write":0}}}},"time":{{"created":{now}}},"kept":[2]}}"#
        ));
        let old_part = parse(&format!(
            r#"{{"id":"{reasoning}","sessionID":"{id}","messageID":"{assistant}","type":"reasoning","text":"Hm.","kept":[3]}}"#
        ));
        let complete_answer = sample.answer(&complete, &user, now + 2);
        let complete_part = sample.text(&complete, &text, "whole");
        let user_key = Key::Message(id.clone(), user.clone());
        let answer_key = Key::Message(id.clone(), assistant.clone());
        let part_key = Key::Part(id.clone(), assistant.clone(), reasoning);
        let mut transaction = Transaction::new("old and new");
        for (key, document) in [
            (sample.session_key(), sample.session_document("old", now)),
            (user_key.clone(), old_prompt.clone()),
            (answer_key.clone(), old_answer.clone()),
            (part_key.clone(), old_part.clone()),
            complete_answer.clone(),
            complete_part.clone(),
        ] {
            transaction.insert(key, document);
        }
        let receipt = database.home.commit(transaction).unwrap();
        // The receipt names the members, not all that is in them.
        let mut completed: Vec<(Key, Vec<String>)> = Vec::new();
        for completion in receipt.completed {
            let first = |field: &String| field.split('.').next().unwrap().to_owned();
            let mut fields: Vec<String> = completion.fields.iter().map(first).collect();
            fields.sort();
            fields.dedup();
            completed.push((completion.key, fields));
        }
        let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let expected = [
            (&user_key, names(&["agent", "model"])),
            (&answer_key, names(&["agent", "parentID", "path"])),
            (&part_key, names(&["time"])),
        ];
        for (key, fields) in &expected {
            let found = completed.iter().find(|(completed, _)| completed == *key);
            assert_eq!(found.map(|(_, fields)| fields), Some(fields), "{kind} {key}: {completed:?}");
        }
        assert_eq!(completed.len(), expected.len(), "{kind}: {completed:?}");
        // What was added comes from what is around, and nothing else was changed.
        for (key, written, additions) in [
            (
                &user_key,
                &old_prompt,
                r#"{"agent":"plan","model":{"providerID":"p1","modelID":"m1"}}"#.to_owned(),
            ),
            (
                &answer_key,
                &old_answer,
                format!(
                    r#"{{"parentID":"{user}","agent":"plan","path":{{"cwd":"/home/dev/shop","root":"/home/dev/shop"}}}}"#
                ),
            ),
            (&part_key, &old_part, format!(r#"{{"time":{{"start":{now}}}}}"#)),
        ] {
            let read = database.home.document(key).unwrap().unwrap().document;
            for expected in [written, &parse(&additions)] {
                for (name, value) in expected.root().members() {
                    let found = read.root().get(&name.to_str());
                    let found = found.unwrap_or_else(|| panic!("{kind} {key}: no {name}"));
                    assert!(same_value(found, value), "{kind} {key}: {name} is {}", found.raw());
                }
            }
        }
        for (key, written) in [&complete_answer, &complete_part] {
            let read = database.home.document(key).unwrap().unwrap().document;
            assert!(same_value(read.root(), written.root()), "{kind} {key}: {read:?}");
        }
        // A row holds the document as JavaScript would have written it, without its ids.
        let data = query(&database.path(), &format!("SELECT data FROM part WHERE id = '{text}'"));
        assert_eq!(data, [r#"{"type":"text","text":"whole"}"#]);
    }
}

#[test]
fn the_totals_of_a_session_follow_its_answers() {
    let database = Database::of("opencode-1.18.33");
    let (sample, home) = (new_sample(), &database.home);
    sample.store(home, "a", "b");
    let totals = || {
        ["round(cost, 9)", "tokens_input", "tokens_output", "tokens_reasoning", "tokens_cache_read"]
            .map(|column| database.column(&sample.session, column))
            .join(" ")
    };
    assert_eq!(totals(), "0.0123 10 20 0 0");
    let user = annals::ids::new_message();
    let answer = annals::ids::new_message();
    let (key, first) = sample.answer(&answer, &user, annals::ids::now());
    insert(home, &[(key.clone(), first.with(&["tokens", "cache", "read"], &7.0).unwrap())]);
    assert_eq!(totals(), "0.0246 20 40 0 7");
    // As OpenCode writes it: again and again while the answer grows.
    for (cost, input) in [(0.5, 100.0), (1.0, 200.0)] {
        let old = home.document(&key).unwrap().unwrap();
        let grown = old.document.with(&["cost"], &cost).unwrap().with(&["tokens", "input"], &input).unwrap();
        let mut transaction = Transaction::new("it grows");
        transaction.replace(&old, grown);
        home.commit(transaction).unwrap();
    }
    assert_eq!(totals(), "1.0123 210 40 0 7");
    let mut transaction = Transaction::new("over whatever is there");
    transaction.put(key.clone(), first.with(&["cost"], &0.0).unwrap());
    home.commit(transaction).unwrap();
    assert_eq!(totals(), "0.0123 20 40 0 0");
    // A title is not a reason to count anew, whether the document says what it cost or not.
    let record = session(home, sample.session.as_str());
    let renamed = record.stored.document.with(&["title"], "renamed").unwrap();
    for document in [renamed.without(&["cost"]).unwrap().without(&["tokens"]).unwrap(), renamed] {
        let mut transaction = Transaction::new("rename");
        transaction.put(record.stored.key.clone(), document);
        home.commit(transaction).unwrap();
        assert_eq!(totals(), "0.0123 20 40 0 0");
    }
    let mut transaction = Transaction::new("delete");
    transaction.delete(&home.document(&key).unwrap().unwrap());
    home.commit(transaction).unwrap();
    assert_eq!(totals(), "0.0123 10 20 0 0");
    let (messages, _) = messages(home, &record);
    let mut transaction = Transaction::new("delete without having read");
    for message in messages {
        transaction.delete_any(message.stored.key);
    }
    home.commit(transaction).unwrap();
    assert_eq!(totals(), "0 0 0 0 0");
}

#[test]
fn a_session_that_says_what_it_cost_is_believed() {
    let database = Database::of("opencode-1.18.33");
    let sample = new_sample();
    let (user, answer) = (annals::ids::new_message(), annals::ids::new_message());
    let tokens = parse(r#"{"input":5,"output":6,"reasoning":7,"cache":{"read":8,"write":9}}"#);
    let given = sample.session_document("given", 1).with(&["cost"], &42.5).unwrap();
    let given = given.with(&["tokens"], &tokens).unwrap().with(&["agent"], "plan").unwrap();
    insert(
        &database.home,
        &[(sample.session_key(), given), sample.prompt(&user, 1), sample.answer(&answer, &user, 2)],
    );
    let columns = ["cost", "tokens_input", "tokens_cache_write", "agent"];
    assert_eq!(columns.map(|name| database.column(&sample.session, name)), ["42.5", "5", "9", "plan"]);
}

#[test]
fn agent_model_and_path_are_filled_in() {
    let database = Database::of("opencode-1.18.33");
    let owner = ProjectId::parse("fedcba9876543210fedcba9876543210fedcba98").unwrap();
    insert(&database.home, &[(Key::Project(owner.clone()), project(&owner))]);
    for (directory, path) in
        [("/home/dev/shop", ""), ("/home/dev/shop/web/src", "web/src"), ("/elsewhere", "NULL")]
    {
        let mut sample = Sample::new(annals::ids::new_session(), directory);
        sample.project = owner.clone();
        sample.store(&database.home, "a", "b");
        assert_eq!(database.column(&sample.session, "path"), path);
        assert_eq!(database.column(&sample.session, "agent"), "build");
        assert_eq!(database.column(&sample.session, "model"), r#"{"id":"lab-large","providerID":"lab"}"#);
    }
    // Sessions of no project are in `/`, and what OpenCode would fail on is left out.
    let mut sample = Sample::new(annals::ids::new_session(), "/srv/x");
    sample.project = ProjectId::global();
    let odd = sample.session_document("odd", 1).with(&["model"], &parse(r#"{"id":"m"}"#)).unwrap();
    let relative = Sample::new(annals::ids::new_session(), "srv/x");
    insert(
        &database.home,
        &[(sample.session_key(), odd), (relative.session_key(), relative.session_document("relative", 1))],
    );
    assert_eq!(database.column(&sample.session, "path"), "srv/x");
    assert_eq!(database.column(&sample.session, "model"), "NULL");
    assert_eq!(database.column(&relative.session, "directory"), "");
}

#[test]
fn a_missing_project_is_made() {
    for (kind, database) in Database::each() {
        let mut sample = new_sample();
        sample.project = ProjectId::parse("00000000000000000000000000000000000000aa").unwrap();
        sample.store(&database.home, "a", "b");
        let row = |id: &str| {
            let columns = "worktree || ' ' || ifnull(vcs, 'none') || ' ' || sandboxes";
            query(&database.path(), &format!("SELECT {columns} FROM project WHERE id = '{id}'"))
        };
        assert_eq!(row(sample.project.as_str()), ["/home/dev/shop git []"], "{kind}");
        assert!(query(&database.path(), "PRAGMA foreign_key_check").is_empty());
        sql(&database.path(), "DELETE FROM project WHERE id = 'global'");
        sample.project = ProjectId::global();
        sample.session = annals::ids::new_session();
        sample.store(&database.home, "a", "b");
        assert_eq!(row("global"), ["/ none []"], "{kind}");
        // One that is there stays as it is.
        for directory in ["/first", "/second"] {
            Sample::new(annals::ids::new_session(), directory).store(&database.home, "a", "b");
            assert_eq!(row(PROJECT), ["/first git []"], "{kind}");
        }
    }
}

/// Tables and their columns that name a session.
const OF_A_SESSION: [(&str, &str); 10] = [
    ("session", "id"),
    ("message", "session_id"),
    ("part", "session_id"),
    ("todo", "session_id"),
    ("session_share", "session_id"),
    ("session_message", "session_id"),
    ("session_input", "session_id"),
    ("session_context_epoch", "session_id"),
    ("event", "aggregate_id"),
    ("event_sequence", "aggregate_id"),
];

#[test]
fn a_deleted_session_leaves_no_row_behind() {
    for (kind, database) in Database::each() {
        let is_latest = ["1.18.33", "new, latest"].contains(&kind);
        let (kept, gone) = (new_sample(), new_sample());
        insert(&database.home, &conversation(&kept));
        insert(&database.home, &conversation(&gone)[1..]);
        let tables = query(&database.path(), "SELECT name FROM sqlite_schema WHERE type = 'table'");
        let tables: Vec<_> =
            OF_A_SESSION.into_iter().filter(|(table, _)| tables.iter().any(|name| name == table)).collect();
        assert_eq!(tables.len(), if is_latest { 10 } else { 5 });
        for id in [&kept.session, &gone.session].into_iter().filter(|_| is_latest) {
            let suffix = &id.as_str()[4..];
            sql(
                &database.path(),
                &format!(
                    "INSERT INTO event_sequence (aggregate_id, seq) VALUES ('{id}', 1);
                     INSERT INTO event (id, aggregate_id, seq, type, data) VALUES ('evt_{suffix}', '{id}', 1, 'x', '{{}}');
                     INSERT INTO session_message (id, session_id, type, seq, time_created, time_updated, data)
                       VALUES ('msg_{suffix}', '{id}', 'user', 1, 1, 1, '{{\"text\":\"second\"}}');
                     INSERT INTO session_input (id, session_id, prompt, delivery, admitted_seq, time_created)
                       VALUES ('msg_{suffix}', '{id}', '{{}}', 'queue', 1, 1);
                     INSERT INTO session_context_epoch (session_id, baseline, snapshot, baseline_seq) VALUES ('{id}', '', '{{}}', 1);"
                ),
            );
        }
        // A part that nothing but its own column ties to the session.
        sql(
            &database.path(),
            &format!(
                "INSERT INTO part (id, message_id, session_id, time_created, time_updated, data)
                 VALUES ('prt_stray1', 'msg_gone', '{}', 1, 1, '{{}}')",
                gone.session
            ),
        );
        let count = |id: &SessionId| -> Vec<(&str, String)> {
            let count = |(table, column): &(&'static str, &str)| {
                let sql = format!("SELECT count(*) FROM {table} WHERE {column} = '{id}'");
                (*table, query(&database.path(), &sql).remove(0))
            };
            tables.iter().map(count).collect()
        };
        let of_kept = count(&kept.session);
        assert!(count(&gone.session).iter().all(|(_, n)| n != "0"), "{:?}", count(&gone.session));
        let mut expected = rows(&database.path());
        let is_gone = |row: &String| row.contains(&format!("Text(\"{}\")", gone.session));
        expected.values_mut().for_each(|rows| rows.retain(|row| !is_gone(row)));
        let record = session(&database.home, gone.session.as_str());
        let removal = annals::remove::plan(&database.home, record).unwrap();
        annals::remove::carry_out(&database.home, &removal, "test").unwrap();
        assert!(count(&gone.session).iter().all(|(_, n)| n == "0"), "{kind}: {:?}", count(&gone.session));
        assert_eq!(count(&kept.session), of_kept, "{kind}");
        assert_eq!(rows(&database.path()), expected, "{kind}: everybody else's rows");
        assert!(!database.dir.path().join(format!("storage/session_diff/{}.json", gone.session)).exists());
        // The same if only the session itself is named.
        let mut transaction = Transaction::new("only the session");
        transaction.delete_any(kept.session_key());
        database.home.commit(transaction).unwrap();
        assert!(count(&kept.session).iter().all(|(_, n)| n == "0"), "{kind}: {:?}", count(&kept.session));
    }
}

const HOME: &str = "ANNALS_TEST_DATABASE";
const INCREMENTS: usize = 50;

fn counter() -> (Sample, MessageId, [PartId; 2]) {
    let sample = Sample::new(session_id("ses_4afbda00cffeCounter000001"), "/home/dev/shop");
    let part = |n: usize| PartId::parse(&format!("prt_b50425ff7001Counter00000{n}")).unwrap();
    (sample, MessageId::parse("msg_b50425ff7001Counter000001").unwrap(), [part(0), part(1)])
}

/// Reads the counter, adds one, writes it to four documents at once; on a conflict it starts over.
fn increment(home: &dyn Write) {
    let (sample, message, parts) = counter();
    let keys = parts.map(|part| Key::Part(sample.session.clone(), message.clone(), part));
    let keys: Vec<Key> = keys.into_iter().chain([Key::Message(sample.session.clone(), message)]).collect();
    loop {
        let record = session(home, sample.session.as_str());
        let count: u32 = title(&record.stored).parse().unwrap();
        let count = (count + 1).to_string();
        let mut transaction = Transaction::new("count");
        transaction.replace(&record.stored, record.stored.document.with(&["title"], &*count).unwrap());
        for key in &keys {
            let old = home.document(key).unwrap().unwrap();
            transaction.replace(&old, old.document.with(&["count"], &*count).unwrap());
        }
        match home.commit(transaction) {
            Ok(_) => return,
            Err(CommitError::Conflict { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

fn title(stored: &Stored) -> String {
    stored.document.root().get("title").unwrap().as_text().unwrap().to_string()
}

/// Runs one of the tests below in a process of its own, with a database to work on.
fn another_process(test: &str, path: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", &format!("runner::database::{test}"), "--nocapture", "--test-threads=1"])
        .env(HOME, path)
        .stdout(Stdio::piped());
    command
}

/// One of the writers: not a test, but what a test starts this binary for.
#[test]
fn writer_among_others() {
    let Ok(path) = std::env::var(HOME) else { return };
    let home = open_db(Path::new(&path));
    // Two threads that share connections, as in a server.
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| (0..INCREMENTS).for_each(|_| increment(&home)));
        }
    });
}

#[test]
fn no_update_is_lost_and_readers_see_whole_transactions() {
    for (kind, database) in Database::each() {
        let (sample, message, parts) = counter();
        let documents = [
            (sample.session_key(), sample.session_document("0", 1)),
            sample.prompt(&message, 1),
            sample.text(&message, &parts[0], "a"),
            sample.text(&message, &parts[1], "b"),
        ];
        let documents = documents.map(|(key, document)| (key, document.with(&["count"], "0").unwrap()));
        insert(&database.home, &documents);
        let path = database.path();
        let writers: Vec<_> = (0..2)
            .map(|_| another_process("writer_among_others", &path).stdout(Stdio::null()).spawn().unwrap())
            .collect();
        let done = AtomicBool::new(false);
        let n_reads = std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut n_reads = 0;
                while !done.load(Ordering::Relaxed) {
                    // A new reader each time, as commands are, and one that stays, as a server is.
                    for home in [&open_db(&path), &database.home] {
                        let record = session(home, sample.session.as_str());
                        let (messages, quarantined) = messages(home, &record);
                        assert!(quarantined.is_empty(), "{quarantined:?}");
                        let count =
                            |stored: &Stored| stored.document.root().get("count").unwrap().raw().to_owned();
                        let of_message = count(&messages[0].stored);
                        let of_parts: Vec<_> = messages[0].parts.iter().map(count).collect();
                        assert_eq!(of_parts, [of_message.clone(), of_message], "{kind}");
                        n_reads += 1;
                    }
                }
                n_reads
            });
            let ended: Vec<bool> =
                writers.into_iter().map(|mut writer| writer.wait().unwrap().success()).collect();
            // Before anything is asserted, or the reader would go on for ever.
            done.store(true, Ordering::Relaxed);
            let n_reads = reader.join().unwrap();
            assert!(ended.iter().all(|success| *success), "{kind}");
            n_reads
        });
        assert!(n_reads > 20, "{n_reads}");
        let record = session(&database.home, sample.session.as_str());
        assert_eq!(title(&record.stored), (2 * 2 * INCREMENTS).to_string(), "{kind}");
    }
}

#[test]
fn a_database_that_was_replaced_is_noticed() {
    let database = Database::of("small-1.2.27");
    let first = new_sample();
    first.store(&database.home, "into the first", "yes");
    let ids = |home: &OpencodeDatabase| {
        let found = home.sessions(&SessionQuery::default()).unwrap();
        let mut ids: Vec<_> = found.value.into_iter().map(|record| record.id.to_string()).collect();
        ids.sort();
        ids
    };
    assert_eq!(ids(&database.home).len(), 5);
    // Someone restores a backup.
    let backup = Fixture::unpack("small-1.18.33");
    for side in ["-wal", "-shm"] {
        std::fs::remove_file(database.dir.path().join(format!("opencode.db{side}"))).unwrap();
    }
    std::fs::rename(backup.home().join("opencode.db"), database.path()).unwrap();
    let second = new_sample();
    second.store(&database.home, "into the second", "yes");
    let has = |sample: &Sample| {
        query(&database.path(), &format!("SELECT id FROM session WHERE id = '{}'", sample.session)).len()
    };
    assert_eq!((has(&first), has(&second)), (0, 1), "the commit is in the file at the path");
    assert_eq!(database.column(&second.session, "tokens_input"), "10", "written as its schema asks for");
    assert_eq!(ids(&database.home), ids(&open_db(&database.path())), "readers look at the same file");
}

/// Another process that opens the database, looks, and closes it; prints the sessions it sees.
#[test]
fn passer_by() {
    let Ok(path) = std::env::var(HOME) else { return };
    let connection = rusqlite::Connection::open(path).unwrap();
    let mut statement = connection.prepare("SELECT id FROM session").unwrap();
    for id in statement.query_map([], |row| row.get::<_, String>(0)).unwrap() {
        println!("saw {}", id.unwrap());
    }
}

/// Whether this process holds the lock by which others see that the log is in use.
fn holds_its_lock(path: &Path) -> bool {
    let inode = inode_of(path);
    // `1: POSIX ADVISORY READ 9288 fe:00:10371824 1073741826 1073742335`: process, device and inode, first byte.
    let is_it = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.contains(&"1073741826")
            && words.contains(&std::process::id().to_string().as_str())
            && words.iter().any(|word| word.ends_with(&format!(":{inode}")))
    };
    // While others lock and unlock, the list of all locks is not of one moment and may lack some.
    (0..50).any(|_| match std::fs::read_to_string("/proc/locks") {
        Ok(locks) => locks.lines().any(is_it),
        Err(_) => true,
    })
}

#[cfg(unix)]
fn inode_of(path: &Path) -> u64 {
    std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(path).unwrap())
}

#[cfg(not(unix))]
fn inode_of(_path: &Path) -> u64 {
    0
}

/// SQLite removes the log when the last connection closes, and until 3.51 tells that only by locks on the main file. Locks
/// are the process's: closing any descriptor of the file, also one that was only read from, drops them all.
#[test]
fn what_is_committed_is_seen_by_others_whoever_comes_and_goes() {
    for (kind, database) in Database::each() {
        let seen = || {
            let output = another_process("passer_by", &database.path()).output().unwrap();
            assert!(output.status.success());
            String::from_utf8(output.stdout).unwrap()
        };
        // Read while there is no log, then written, then read again: connections of each kind come and go.
        let mut written: Vec<SessionId> = Vec::new();
        for round in 0..3 {
            database.home.sessions(&SessionQuery::default()).unwrap();
            let sample = new_sample();
            sample.store(&database.home, "a", "b");
            written.push(sample.session.clone());
            let record = session(&database.home, sample.session.as_str());
            assert_eq!(messages(&database.home, &record).0.len(), 2);
            assert!(holds_its_lock(&database.path()), "{kind}, round {round}");
            let seen = seen();
            for id in &written {
                assert!(
                    seen.contains(id.as_str()),
                    "{kind}, round {round}: another process does not see {id}"
                );
            }
        }
        let again = open_db(&database.path());
        for id in &written {
            assert_eq!(messages(&again, &session(&again, id.as_str())).0.len(), 2);
        }
    }
}

#[test]
fn the_log_stays_and_is_not_copied_when_the_last_connection_closes() {
    for (kind, database) in Database::each() {
        let path = database.path();
        let main = std::fs::read(&path).unwrap();
        let log = database.dir.path().join("opencode.db-wal");
        let sample = new_sample();
        sample.store(&database.home, "a", "b");
        let Database { dir, home } = database;
        assert_eq!(messages(&home, &session(&home, sample.session.as_str())).0.len(), 2);
        let held = std::fs::read(&log).unwrap();
        assert!(!held.is_empty(), "{kind}");
        drop(home);
        assert!(std::fs::read(&log).unwrap() == held, "{kind}: the log is as it was");
        assert!(std::fs::read(&path).unwrap() == main, "{kind}: the main file is as it was");
        // Whoever comes next finds it, and goes on with it.
        for n in 0..3 {
            let home = open_db(&path);
            assert_eq!(messages(&home, &session(&home, sample.session.as_str())).0.len(), 2);
            new_sample().store(&home, "a", "b");
            drop(home);
            assert!(std::fs::metadata(&log).unwrap().len() >= held.len() as u64, "{kind} {n}");
        }
        drop(dir);
    }
}

/// Databases as a running OpenCode leaves them: the log has most of it, and is not ours to tidy.
#[test]
fn a_log_of_opencode_is_read_and_continued() {
    for version in ["1.2.27", "1.18.33"] {
        let fixture = Fixture::unpack(&format!("small-{version}"));
        let dir = fixture.home().join("wal");
        let path = dir.join("opencode.db");
        std::fs::remove_file(dir.join("opencode.db-shm")).unwrap();
        let both = || ["opencode.db", "opencode.db-wal"].map(|name| std::fs::read(dir.join(name)).unwrap());
        let before = both();
        let home = open_db(&path);
        let n_sessions = home.sessions(&SessionQuery::default()).unwrap().value.len();
        drop(home);
        assert!(both() == before, "{version}: reading changed it");
        let home = open_db(&path);
        new_sample().store(&home, "a", "b");
        assert_eq!(home.sessions(&SessionQuery::default()).unwrap().value.len(), n_sessions + 1);
        drop(home);
        assert!(std::fs::metadata(dir.join("opencode.db-wal")).unwrap().len() > 0);
        assert_eq!(query(&path, "PRAGMA integrity_check"), ["ok"]);
        assert_eq!(query(&path, "SELECT count(*) FROM session"), [(n_sessions + 1).to_string()]);
    }
}

/// The log lies beside the database, not beside a link to it.
#[cfg(unix)]
#[test]
fn a_link_to_a_database_leads_to_its_log_as_well() {
    for version in ["1.2.27", "1.18.33"] {
        let fixture = Fixture::unpack(&format!("small-{version}"));
        let wal = fixture.home().join("wal");
        let link = fixture.home().join("linked.db");
        std::os::unix::fs::symlink(wal.join("opencode.db"), &link).unwrap();
        assert_eq!(
            transcripts(&open_db(&link)),
            transcripts(&open_db(&wal.join("opencode.db"))),
            "{version}"
        );
        let sample = new_sample();
        sample.store(&open_db(&link), "through the link", "yes");
        assert_eq!(
            transcripts(&open_db(&link)),
            transcripts(&open_db(&wal.join("opencode.db"))),
            "{version}"
        );
        let home = open_db(&link);
        assert_eq!(messages(&home, &session(&home, sample.session.as_str())).0.len(), 2, "{version}");
        assert!(!fixture.home().join("linked.db-wal").exists());
    }
}

/// The same with a log whose index is missing, which is read in another way, and under two names.
#[test]
fn what_is_committed_under_one_name_survives_reading_under_another() {
    let fixture = Fixture::unpack("small-1.2.27");
    let wal = fixture.home().join("wal");
    std::fs::remove_file(wal.join("opencode.db-shm")).unwrap();
    let (one, other) = (wal.join("opencode.db"), fixture.home().join("expected/../wal/opencode.db"));
    let (writing, reading) = (open_db(&one), open_db(&other));
    let mut written: Vec<SessionId> = Vec::new();
    for round in 0..3 {
        reading.sessions(&SessionQuery::default()).unwrap();
        let sample = new_sample();
        sample.store(&writing, "a", "b");
        written.push(sample.session.clone());
        assert_eq!(messages(&reading, &session(&reading, sample.session.as_str())).0.len(), 2);
        assert!(holds_its_lock(&one), "round {round}: an older SQLite would remove the log");
        let output = another_process("passer_by", &one).output().unwrap();
        let seen = String::from_utf8(output.stdout).unwrap();
        for id in &written {
            assert!(seen.contains(id.as_str()), "round {round}: another process does not see {id}");
        }
    }
}

/// The same with readers at work while the first commit is made, as in a server.
#[test]
fn readers_at_work_do_not_cost_a_writer_its_lock() {
    for round in 0..12 {
        let fixture = Fixture::unpack("small-1.2.27");
        let wal = fixture.home().join("wal");
        std::fs::remove_file(wal.join("opencode.db-shm")).unwrap();
        let home = open_db(&wal.join("opencode.db"));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| (0..40).for_each(|_| drop(home.sessions(&SessionQuery::default()).unwrap())));
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
            new_sample().store(&home, "a", "b");
        });
        assert!(holds_its_lock(home.path()), "round {round}: an older SQLite would remove the log");
    }
}

/// What cannot be written is refused with what was found and what is known, and not a byte of it changes.
fn assert_only_read(database: &Database, expected: &str) {
    let before = (rows(&database.path()), std::fs::read(database.path()).unwrap());
    let target = new_sample();
    let record = database.home.sessions(&SessionQuery::default()).unwrap().value.remove(0);
    for n in 0..3 {
        let mut transaction = Transaction::new("refused");
        match n {
            0 => transaction.insert(target.session_key(), target.session_document("x", 1)),
            1 => transaction.replace(&record.stored, record.stored.document.with(&["title"], "x").unwrap()),
            _ => transaction.delete_any(record.stored.key.clone()),
        }
        match database.home.commit(transaction) {
            Err(error @ CommitError::UnknownSchema { .. }) => {
                let text = error.to_string();
                assert!(text.contains(expected) && text.contains("1.18.33"), "{text}");
                assert!(text.contains(&database.path().display().to_string()), "{text}");
            }
            other => panic!("{other:?}"),
        }
        assert!((rows(&database.path()), std::fs::read(database.path()).unwrap()) == before);
    }
    let log = std::fs::metadata(database.dir.path().join("opencode.db-wal")).map_or(0, |log| log.len());
    assert_eq!(log, 0, "nothing was logged");
}

#[test]
fn a_newer_migration_is_read_but_not_written() {
    let newer = "INSERT INTO migration (id, time_completed) VALUES ('20270101000000_brave_new', 1)";
    let newer_in_1_2 = "INSERT INTO __drizzle_migrations (hash, created_at, name) VALUES ('', 1, '20270101000000_brave_new')";
    for (fixture, insertion, n_sessions) in
        [("opencode-1.18.33", newer, 123), ("opencode-1.2.27", newer_in_1_2, 122)]
    {
        let mut database = Database::of(fixture);
        assert_eq!(database.home.remarks(), Vec::<String>::new());
        sql(&database.path(), insertion);
        database.home = open_db(&database.path());
        assert_only_read(&database, "migration 20270101000000_brave_new");
        let found = database.home.sessions(&SessionQuery::default()).unwrap();
        assert_eq!((found.value.len(), found.quarantined.len()), (n_sessions, 0));
        let n_messages: usize =
            found.value.iter().map(|record| messages(&database.home, record).0.len()).sum();
        assert!(n_messages >= 524, "{n_messages}");
        let remarks = database.home.remarks();
        assert!(remarks.len() == 1 && remarks[0].contains("20270101000000_brave_new"), "{remarks:?}");
    }
}

#[test]
fn a_migration_that_appears_while_the_database_is_open_stops_writing() {
    let database = Database::of("opencode-1.18.33");
    new_sample().store(&database.home, "before", "yes");
    sql(&database.path(), "INSERT INTO migration VALUES ('20270101000000_brave_new', 1)");
    let target = new_sample();
    let mut transaction = Transaction::new("too late");
    transaction.insert(target.session_key(), target.session_document("x", 1));
    let error = database.home.commit(transaction).unwrap_err();
    assert!(matches!(error, CommitError::UnknownSchema { .. }), "{error:?}");
}

/// A file that OpenCode 2 has used: sessions of both generations, some of them in both tables.
#[test]
fn sessions_of_opencode_2_are_read() {
    let mut database = Database::of("opencode-1.18.33");
    let new = "ses_0000000000001NewGeneration1";
    let old = query(
        &database.path(),
        "SELECT s.id FROM session s JOIN message m ON m.session_id = s.id GROUP BY s.id
         HAVING count(*) > 2 ORDER BY s.id LIMIT 1",
    )
    .remove(0);
    let (n_old_messages, old_title) = {
        let record = session(&database.home, &old);
        (messages(&database.home, &record).0.len(), title(&record.stored))
    };
    sql(
        &database.path(),
        &format!(
            "CREATE TABLE session_v2 AS SELECT * FROM session WHERE id = '{old}';
             ALTER TABLE session_v2 ADD COLUMN fork_session_id text;
             UPDATE session_v2 SET title = 'second generation';
             CREATE TABLE kv (key text PRIMARY KEY, value text);
             INSERT INTO session_v2 (id, project_id, slug, directory, title, version, cost, tokens_input, tokens_output,
               tokens_reasoning, tokens_cache_read, tokens_cache_write, time_created, time_updated)
             VALUES ('{new}', 'global', 's', '/home/dev', 'Only in the new table', '2.0.0', 0, 0, 0, 0, 0, 0, 1786000000000, 1786000000009);
             INSERT INTO session_message (id, session_id, type, seq, time_created, time_updated, data) VALUES
               ('msg_0000000000001NewGeneration2', '{new}', 'assistant', 2, 1786000000002, 1786000000002,
                '{{\"time\":{{\"created\":1786000000002,\"completed\":1786000000003}},\"agent\":\"build\",\"model\":{{\"id\":\"m\",\"providerID\":\"p\"}},\"content\":[{{\"type\":\"text\",\"text\":\"Four.\"}}]}}'),
               ('msg_0000000000001NewGeneration1', '{new}', 'user', 1, 1786000000001, 1786000000001,
                '{{\"time\":{{\"created\":1786000000001}},\"text\":\"Two and two?\"}}');"
        ),
    );
    database.home = open_db(&database.path());
    let found = database.home.sessions(&SessionQuery::default()).unwrap();
    assert_eq!(found.quarantined.len(), 0, "{:?}", found.quarantined);
    assert_eq!(found.value.len(), 124);
    let of = |id: &str| found.value.iter().filter(|record| record.id.as_str() == id).collect::<Vec<_>>();
    // One row for a session in both tables: that of the generation that uses it now.
    assert_eq!(of(&old).len(), 1);
    assert_eq!(title(&of(&old)[0].stored), "second generation");
    assert_ne!(old_title, "second generation");
    assert_eq!(title(&session(&database.home, &old).stored), "second generation");
    assert_eq!(messages(&database.home, of(&old)[0]).0.len(), n_old_messages);
    let (messages, quarantined) = messages(&database.home, of(new)[0]);
    assert!(quarantined.is_empty(), "{quarantined:?}");
    let texts: Vec<String> = messages
        .iter()
        .flat_map(|message| &message.parts)
        .filter_map(|part| Some(part.document.root().get("text")?.as_text()?.to_string()))
        .collect();
    assert_eq!(texts, ["Two and two?", "Four."]);
    assert!(messages.iter().all(|message| !message.stored.provenance.is_verbatim()));
    let key = &messages[1].stored.key;
    assert_eq!(database.home.document(key).unwrap().unwrap().document, messages[1].stored.document);
    let remarks = database.home.remarks().join("\n");
    assert!(remarks.contains("OpenCode 2") && remarks.contains("kv"), "{remarks}");
    assert_only_read(&database, "OpenCode 2");
}

/// A fresh database of OpenCode 2 has no `session` table at all.
#[test]
fn a_database_without_the_first_generation_is_read() {
    let (dir, home) = empty_database(Generation::Portable);
    let path = dir.path().join("opencode.db");
    new_sample().store(&home, "a", "b");
    drop(home);
    sql(
        &path,
        "ALTER TABLE session RENAME TO session_v2; DROP TABLE message; DROP TABLE part; DROP TABLE todo;
         CREATE TABLE session_message (id text PRIMARY KEY, session_id text, type text, seq integer, time_created integer,
           time_updated integer, data text);
         INSERT INTO session_message SELECT 'msg_1', id, 'user', 1, 1, 1, '{\"time\":{\"created\":1},\"text\":\"Hi.\"}' FROM session_v2;",
    );
    let home = open_db(&path);
    let found = home.sessions(&SessionQuery::default()).unwrap();
    assert_eq!((found.value.len(), found.quarantined.len()), (1, 0));
    assert_eq!(messages(&home, &found.value[0]).0.len(), 1);
    assert_eq!(home.session_keys(&found.value[0].id).unwrap().len(), 2);
    assert_eq!(home.extent().unwrap().messages, 1);
    home.check(annals::ids::now(), &|| {}).unwrap();
}

#[test]
fn a_message_in_both_stores_is_one_message() {
    let mut database = Database::of("opencode-1.18.33");
    let sample = new_sample();
    sample.store(&database.home, "first store", "first store");
    let id = &sample.session;
    // The first is in both, another only in the second store, between the two in time.
    sql(
        &database.path(),
        &format!(
            "INSERT INTO session_message (id, session_id, type, seq, time_created, time_updated, data)
             SELECT id, session_id, 'user', 1, time_created, time_updated, '{{\"time\":{{\"created\":' || time_created || '}},\"text\":\"second store\"}}'
             FROM message WHERE session_id = '{id}' ORDER BY time_created, id LIMIT 1;
             UPDATE message SET time_created = time_created + 1000 WHERE session_id = '{id}' AND id NOT IN (SELECT id FROM session_message);
             INSERT INTO session_message (id, session_id, type, seq, time_created, time_updated, data)
             SELECT 'msg_between1', session_id, 'user', 2, time_created + 500, 1, '{{\"time\":{{\"created\":' || (time_created + 500) || '}},\"text\":\"between\"}}'
             FROM session_message WHERE session_id = '{id}';"
        ),
    );
    database.home = open_db(&database.path());
    let record = session(&database.home, id.as_str());
    let (messages, quarantined) = messages(&database.home, &record);
    assert!(quarantined.is_empty());
    let texts: Vec<_> = messages
        .iter()
        .map(|message| {
            let text = message.parts[0].document.root().get("text").unwrap().as_text().unwrap().to_string();
            (text, !message.stored.provenance.is_verbatim())
        })
        .collect();
    let expected = [("first store", false), ("between", true), ("first store", false)];
    assert_eq!(texts, expected.map(|(text, converted)| (text.to_owned(), converted)));
    let keys = database.home.session_keys(id).unwrap();
    assert_eq!(keys.iter().filter(|key| matches!(key, Key::Message(..))).count(), 3);
}

const WRAP: i64 = 1_786_706_395_136;

/// OpenCode orders messages by time and then id, and ids start over: comparing them alone would put the later half first.
#[test]
fn messages_are_in_order_across_the_wrap_and_across_pages() {
    for (kind, database) in Database::each() {
        let (mut ids, mut part_ids) = (IdGenerator::new(), IdGenerator::new());
        let sample = Sample::new(IdGenerator::new().session(WRAP - 60_000, [1; 14]), "/home/dev/shop");
        let mut transaction = Transaction::new("long");
        transaction.insert(sample.session_key(), sample.session_document("long", WRAP));
        let mut expected = Vec::new();
        for n in 0..200_i64 {
            // Two by two at the same millisecond: then the id decides. Each has two parts, one of them on both sides.
            let made = WRAP - 50_500 + n / 2 * 1_000;
            let message = ids.message(made, [n as u8; 14]);
            let (key, document) = sample.prompt(&message, made);
            transaction.insert(key, document);
            expected.push(message.to_string());
            for part in 0..2 {
                let id = part_ids.part(made + part * 900, [n as u8; 14]);
                let (key, document) = sample.text(&message, &id, &part.to_string());
                transaction.insert(key, document);
            }
        }
        database.home.commit(transaction).unwrap();
        let record = session(&database.home, sample.session.as_str());
        let (messages, _) = messages(&database.home, &record);
        let found: Vec<String> = messages
            .iter()
            .map(|message| message.stored.document.root().get("id").unwrap().as_text().unwrap().to_string())
            .collect();
        assert_eq!(found, expected, "{kind}");
        assert!(!found.is_sorted(), "the ids really start over");
        for message in &messages {
            let texts: Vec<_> =
                message.parts.iter().map(|part| part.document.root().get("text").unwrap().raw()).collect();
            assert_eq!(texts, [r#""0""#, r#""1""#], "{kind} {:?}", message.stored.key);
        }
    }
}

/// The schema of 1.2.0: no workspaces, no accounts, single-column indexes.
const TO_1_2_0: &str = "
    DROP INDEX message_session_time_created_id_idx; DROP INDEX part_message_id_id_idx; DROP INDEX session_workspace_idx;
    CREATE INDEX message_session_idx ON message (session_id); CREATE INDEX part_message_idx ON part (message_id);
    ALTER TABLE session DROP COLUMN workspace_id;
    DROP TABLE workspace; DROP TABLE account_state; DROP TABLE account;
    DELETE FROM __drizzle_migrations WHERE name > '20260213144116_wakeful_the_professor';";

/// The schema of 1.14.29: `session.path`, but neither agent nor cost; the journal is still that of 1.2.
const TO_1_14: &str = "
    ALTER TABLE session DROP COLUMN cost; ALTER TABLE session DROP COLUMN tokens_input;
    ALTER TABLE session DROP COLUMN tokens_output; ALTER TABLE session DROP COLUMN tokens_reasoning;
    ALTER TABLE session DROP COLUMN tokens_cache_read; ALTER TABLE session DROP COLUMN tokens_cache_write;
    ALTER TABLE session DROP COLUMN agent; ALTER TABLE session DROP COLUMN model; ALTER TABLE session DROP COLUMN metadata;
    DROP TABLE session_message; DROP TABLE session_input; DROP TABLE session_context_epoch; DROP TABLE project_directory;
    DROP TABLE credential; DROP TABLE data_migration; DROP TABLE permission;
    CREATE TABLE __drizzle_migrations (id INTEGER PRIMARY KEY, hash text NOT NULL, created_at numeric, name text, applied_at TEXT);
    INSERT INTO __drizzle_migrations (hash, created_at, name)
      SELECT '', 1, id FROM migration WHERE id <= '20260428004200_add_session_path';
    DROP TABLE migration;";

/// All messages and parts of the first store, by session.
fn transcripts(home: &OpencodeDatabase) -> BTreeMap<String, Vec<String>> {
    let found = home.sessions(&SessionQuery::default()).unwrap();
    assert!(found.quarantined.is_empty());
    let of = |record: &SessionRecord| {
        let (messages, quarantined) = messages(home, record);
        assert!(quarantined.is_empty());
        let first = messages.into_iter().filter(|message| message.stored.provenance.is_verbatim());
        let all = first.flat_map(|message| std::iter::once(message.stored).chain(message.parts));
        all.map(|stored| stored.document.text().to_owned()).collect()
    };
    found.value.iter().map(|record| (record.id.to_string(), of(record))).collect()
}

#[test]
fn older_schemas_are_read_and_written() {
    for (fixture, downgrade) in [("opencode-1.2.27", TO_1_2_0), ("opencode-1.18.33", TO_1_14)] {
        let mut database = Database::of(fixture);
        let before = transcripts(&database.home);
        sql(&database.path(), downgrade);
        database.home = open_db(&database.path());
        assert_eq!(transcripts(&database.home), before, "{fixture}");
        let sample = new_sample();
        let documents = conversation(&sample);
        insert(&database.home, &documents);
        for (key, written) in &documents {
            let read = database.home.document(key).unwrap().unwrap().document;
            assert_says(&read, written, &format!("{fixture} {key}"));
        }
        if fixture == "opencode-1.18.33" {
            assert_eq!(database.column(&sample.session, "path"), "web");
        }
        // Answers come and go where there are no columns to add them up in.
        let (answer, _) = &documents[4];
        let mut transaction = Transaction::new("change");
        let old = database.home.document(answer).unwrap().unwrap();
        transaction.replace(&old, old.document.with(&["cost"], &1.0).unwrap());
        database.home.commit(transaction).unwrap();
        let mut transaction = Transaction::new("delete");
        transaction.delete_any(answer.clone());
        database.home.commit(transaction).unwrap();
        let record = session(&database.home, sample.session.as_str());
        let removal = annals::remove::plan(&database.home, record).unwrap();
        annals::remove::carry_out(&database.home, &removal, "test").unwrap();
        assert_eq!(transcripts(&database.home), before, "{fixture}");
        assert_eq!(query(&database.path(), "PRAGMA integrity_check"), ["ok"]);
    }
}

/// Several that make the same database at the same time make one.
#[test]
fn a_database_is_made_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("made/opencode.db");
    let samples: Vec<Sample> = (0..8).map(|_| new_sample()).collect();
    std::thread::scope(|scope| {
        for sample in &samples {
            let path = &path;
            scope.spawn(move || {
                let home = OpencodeDatabase::open_or_create(path, Generation::Portable).unwrap();
                sample.store(&home, "a", "b");
            });
        }
    });
    assert_eq!(query(&path, "SELECT count(*) FROM session"), ["8"]);
    assert_eq!(query(&path, "SELECT count(*) FROM __drizzle_migrations"), ["9"]);
    let left: Vec<String> = snapshot(path.parent().unwrap()).into_keys().collect();
    assert_eq!(left, ["opencode.db", "opencode.db-shm", "opencode.db-wal"]);
}
