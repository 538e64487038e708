//! The write half: transactions are made whole or not at all, and no change is lost.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Barrier;

use annals::home::{CommitError, ConflictKind, MessageDetail, MessageRange, Native, Read, Receipt, Write};
use annals::homes::opencode::arrange;
use annals::ids;
use annals::model::id::{MessageId, Millis, PartId, ProjectId, RecordId, SessionId};
use annals::model::{Append, Document, Key, Stored, Transaction};

use super::read::told;
use super::{Outcome, ensure};
use crate::sample::{PROJECT, Sample};

/// The kinds of documents a home can hold, and in which form.
#[derive(Debug, Clone, Copy)]
pub struct Holds {
    /// Whether it holds documents of other agents.
    pub foreign: bool,
    /// Whether it keeps every byte of a document. Others keep the value of a document only.
    pub verbatim: bool,
}

/// The homes that are checked.
pub(super) struct Subject<'s> {
    pub(super) directory: &'s Path,
    pub(super) holds: Holds,
    pub(super) make: &'s (dyn Fn(&Path) -> Box<dyn Write> + Sync),
}

impl Subject<'_> {
    /// The home of this check: made at the first call, opened again at others.
    fn home(&self) -> Box<dyn Write> {
        (self.make)(self.directory)
    }
}

pub(super) type Check = fn(&Subject<'_>) -> Outcome;

pub(super) const CHECKS: [(&str, Check); 15] = [
    ("a document of each kind is read back", each_kind),
    ("what was committed is there for the next who opens the home", reopened),
    ("an empty transaction changes nothing", empty),
    ("what is inserted must not exist", insert),
    ("what is replaced must be as it was read", replace),
    ("what is deleted must be as it was read", delete),
    ("what is put or deleted anyway may be anything", anything),
    ("a conflict in the last change undoes the others", all_or_nothing),
    ("text is appended to a text that is being written", append_to_stream),
    ("text is appended only where it belongs", append_elsewhere),
    ("documents of other agents are held or refused", foreign),
    ("a session goes with all its documents", remove),
    ("of two who insert one document one succeeds", race_to_insert),
    ("of two who replace one document one succeeds", race_to_replace),
    ("no update is lost", no_lost_update),
];

fn new_sample() -> Sample {
    Sample::new(ids::new_session(), "/home/dev/shop")
}

/// Fills a home with sessions that differ in every property that queries ask for.
///
/// # Panics
/// If the home refuses them.
pub fn fill(home: &dyn Write) {
    let (first, started) = (ids::now() - 1_000_000, 3);
    let mut parent: Option<SessionId> = None;
    for n in 0..started {
        let mut sample = new_sample();
        let now = first + n * 60_000;
        sample.directory =
            ["/home/dev/shop", "/home/dev/shop/web", "/home/dev/shop-copy"][n as usize].to_owned();
        if n == 2 {
            sample.project = ProjectId::global();
        }
        let mut document = sample.session_document(&format!("Sample {n}"), now);
        if let Some(parent) = parent.take() {
            document = document.with(&["parentID"], parent.as_str()).expect("a session is an object");
            document = document.with(&["time", "archived"], &(now + 5)).expect("a time is an object");
        }
        let mut transaction = Transaction::new("fill");
        transaction.insert(sample.session_key(), document);
        for turn in 0..3 {
            conversation(&sample, now + turn * 1000).into_iter().for_each(|(key, document)| {
                transaction.insert(key, document);
            });
        }
        home.commit(transaction).unwrap_or_else(|error| panic!("{error}"));
        parent = (n == 0).then_some(sample.session);
    }
}

/// A prompt and its answer, which calls a tool.
fn conversation(sample: &Sample, now: Millis) -> Vec<(Key, Document)> {
    let (user, assistant) = (ids::new_message(), ids::new_message());
    vec![
        sample.prompt(&user, now),
        sample.text(&user, &ids::new_part(), "Why does the cart crash?"),
        sample.answer(&assistant, &user, now + 10),
        sample.call(&assistant, &ids::new_part(), "bash", now + 11),
        sample.text(&assistant, &ids::new_part(), "It is empty: é 検索 \u{1F6D2}."),
    ]
}

/// Commits a session with an answer that is being written, and returns the key of its text.
fn begin_stream(home: &dyn Write, sample: &Sample) -> Result<Key, Box<dyn std::error::Error + Send + Sync>> {
    let now = ids::now();
    let (user, assistant, part) = (ids::new_message(), ids::new_message(), ids::new_part());
    let mut transaction = Transaction::new("begin a stream");
    transaction.insert(sample.session_key(), sample.session_document("A stream", now));
    let (key, document) = sample.prompt(&user, now);
    transaction.insert(key, document);
    let (key, document) = sample.answer(&assistant, &user, now);
    transaction.insert(key, document.without(&["time", "completed"])?.without(&["finish"])?);
    let (key, document) = sample.text(&assistant, &part, "");
    transaction.insert(key.clone(), document.with(&["time", "start"], &now)?);
    home.commit(transaction)?;
    Ok(key)
}

fn addition(at: usize, text: &str) -> Append {
    Append { field: vec!["text".to_owned()], at, text: text.to_owned() }
}

fn appending(key: &Key, at: usize, text: &str) -> Transaction {
    let mut transaction = Transaction::new("append");
    transaction.append(key.clone(), addition(at, text)).expect("it is the first change");
    transaction
}

fn text_of(home: &dyn Read, key: &Key) -> Result<String, Box<dyn std::error::Error + Send + Sync>> {
    let stored = home.document(key)?.ok_or("the part is not found")?;
    let text = stored.document.root().get("text").and_then(|text| text.as_text());
    Ok(text.ok_or("the part has no text")?.to_string())
}

fn append_to_stream(subject: &Subject<'_>) -> Outcome {
    let (home, sample) = (subject.home(), new_sample());
    let key = begin_stream(&*home, &sample)?;
    let mut text = String::new();
    for piece in ["It \"is\"", "\n\u{1}empty", ": é 検索 \u{1F6D2}", "."] {
        let receipt = home.commit(appending(&key, text.len(), piece))?;
        ensure!(receipt.written == 1, "an append is counted as {receipt:?}");
        text.push_str(piece);
        ensure!(text_of(&*home, &key)? == text, "after {piece:?} the text is {:?}", text_of(&*home, &key)?);
        ensure!(text_of(&*subject.home(), &key)? == text, "another who opens the home sees another text");
    }
    let session = home.session(&sample.session)?.ok_or("the session is gone")?;
    let last =
        home.messages(&session, &MessageRange::ALL, MessageDetail::Parts).last().ok_or("no message")??;
    ensure!(last.parts.len() == 1, "the answer has {} parts", last.parts.len());
    let listed = last.parts[0].document.root().get("text").and_then(|text| text.as_text());
    ensure!(listed.is_some_and(|listed| listed == text.as_str()), "messages have another text");

    // What ends the text replaces what was read, as any other document.
    let stored = home.document(&key)?.ok_or("the part is not found")?;
    let ended = stored.document.with(&["time", "end"], &ids::now())?;
    let mut transaction = Transaction::new("the text ends");
    transaction.replace(&stored, ended);
    home.commit(transaction)?;
    ensure!(text_of(&*home, &key)? == text, "the end has changed the text");
    home.commit(appending(&key, text.len(), " An edit."))?;
    ensure!(
        text_of(&*home, &key)? == format!("{text} An edit."),
        "a text that has ended cannot be appended to"
    );
    Ok(())
}

fn append_elsewhere(subject: &Subject<'_>) -> Outcome {
    let (home, sample) = (subject.home(), new_sample());
    let key = begin_stream(&*home, &sample)?;
    home.commit(appending(&key, 0, "one"))?;
    for at in [0, 2, 4] {
        conflict(&*home, appending(&key, at, "two"), ConflictKind::Changed)?;
    }
    let Key::Part(session, message, _) = &key else { return Err("it is a part".into()) };
    let missing = Key::Part(session.clone(), message.clone(), ids::new_part());
    conflict(&*home, appending(&missing, 0, "x"), ConflictKind::Gone)?;

    // An append is made with the other changes of its transaction, or not at all.
    let mut transaction = appending(&key, 3, " two");
    transaction.insert(sample.session_key(), sample.session_document("Again", ids::now()));
    conflict(&*home, transaction, ConflictKind::Exists)?;
    let before = told(&*home)?;
    let mut transaction = Transaction::new("append to a number");
    let field = vec!["time".to_owned(), "start".to_owned()];
    transaction.append(key.clone(), Append { field, at: 0, text: "x".to_owned() })?;
    match home.commit(transaction) {
        Err(CommitError::Refused { .. }) => {}
        other => return Err(format!("an append to a number is told as {other:?}").into()),
    }
    ensure!(told(&*home)? == before, "an append to a number has changed something");
    ensure!(text_of(&*home, &key)? == "one", "the text is {:?}", text_of(&*home, &key)?);
    let stored = home.document(&key)?.ok_or("the part is not found")?;
    let mut transaction = Transaction::new("delete what is being written");
    transaction.delete(&stored);
    home.commit(transaction)?;
    ensure!(home.document(&key)?.is_none(), "the part is still there");
    Ok(())
}

fn document(text: &str) -> Document {
    Document::parse(text.as_bytes().to_vec()).expect("it is JSON")
}

/// Commits one session with a conversation, and returns the stored document.
fn store(home: &dyn Write, sample: &Sample) -> Result<Stored, Box<dyn std::error::Error + Send + Sync>> {
    let now = ids::now();
    let mut transaction = Transaction::new("store");
    transaction.insert(sample.session_key(), sample.session_document("A sample", now));
    conversation(sample, now).into_iter().for_each(|(key, document)| transaction.insert(key, document));
    home.commit(transaction)?;
    home.document(&sample.session_key())?.ok_or_else(|| "the session that was committed is not found".into())
}

fn titled(stored: &Stored, title: &str) -> Document {
    stored.document.with(&["title"], title).expect("a session is an object")
}

fn title(home: &dyn Read, sample: &Sample) -> Result<String, Box<dyn std::error::Error + Send + Sync>> {
    Ok(home.session(&sample.session)?.map(|record| record.info.title().to_owned()).unwrap_or_default())
}

/// Commits a transaction that must be refused as a conflict and change nothing.
fn conflict(home: &dyn Write, transaction: Transaction, expected: ConflictKind) -> Outcome {
    let before = told(home)?;
    match home.commit(transaction) {
        Err(CommitError::Conflict { what, .. }) if what == expected => {}
        Err(error) => return Err(format!("{expected:?} is told as: {error}").into()),
        Ok(_) => return Err(format!("{expected:?} is not noticed").into()),
    }
    ensure!(told(home)? == before, "{expected:?} has changed something");
    Ok(())
}

/// Checks that a home has a document in the committed form.
fn read_back(subject: &Subject<'_>, home: &dyn Write, key: &Key, committed: &Document) -> Outcome {
    let found = home.document(key)?.map(|stored| stored.document);
    let held = match home.native(key, committed.clone()) {
        Native::Held { document, .. } => document,
        Native::Implied | Native::NotHeld => {
            ensure!(found.is_none(), "{key} is said not to be held, and is found");
            return Ok(());
        }
    };
    let Some(found) = found else { return Err(format!("{key} is not found").into()) };
    match subject.holds.verbatim {
        true => {
            ensure!(found == *committed, "{key} has other bytes: {} for {}", found.text(), committed.text());
        }
        false => {
            ensure!(arrange::is_same(key, &found, &held), "{key} says {}, not {}", found.text(), held.text());
        }
    }
    Ok(())
}

fn each_kind(subject: &Subject<'_>) -> Outcome {
    let (home, sample) = (subject.home(), new_sample());
    let now = ids::now();
    let project = format!(
        r#"{{"id":"{PROJECT}","worktree":"/home/dev/shop","vcs":"git","sandboxes":[],"time":{{"created":{now},"updated":{now}}}}}"#
    );
    let mut documents = vec![
        (Key::Project(sample.project.clone()), document(&project)),
        (sample.session_key(), sample.session_document("A sample", now)),
    ];
    documents.extend(conversation(&sample, now));
    let id = &sample.session;
    let todos = r#"[{"content":"Mend the cart","status":"pending","priority":"high","id":"1"}]"#;
    let diff = r#"[{"file":"cart.rs","before":"a","after":"b","additions":1,"deletions":1}]"#;
    let share = r#"{"id":"x","secret":"y","url":"https://example.org/x"}"#;
    documents.extend([
        (Key::Todo(id.clone()), document(todos)),
        (Key::Diff(id.clone()), document(diff)),
        (Key::Share(id.clone()), document(share)),
        (Key::LegacyShare(id.clone()), document(r#"{"secret":"y","url":"https://example.org/x"}"#)),
        (Key::Record(id.clone(), RecordId::parse("000001")?), document(r#"{"a": 1, "a": 2}"#)),
    ]);
    for (key, document) in &documents {
        let document = match subject.holds.verbatim {
            // In the layout that the home itself would give it.
            true => match home.native(key, document.clone()) {
                Native::Held { document, .. } => document,
                _ => document.clone(),
            },
            false => document.clone(),
        };
        let before = told(&*home)?;
        let mut transaction = Transaction::new(format!("a {}", key.noun()));
        transaction.insert(key.clone(), document.clone());
        match (home.commit(transaction), home.native(key, document.clone())) {
            (Err(CommitError::Refused { .. }), Native::NotHeld) => {
                ensure!(told(&*home)? == before, "{key} was refused, and something has changed");
            }
            (Err(error), _) => return Err(error.into()),
            (Ok(Receipt { written, .. }), _) => {
                ensure!(written == 1, "{key}: {written} documents were written");
            }
        }
        read_back(subject, &*home, key, &document)?;
    }
    Ok(())
}

fn reopened(subject: &Subject<'_>) -> Outcome {
    let home = subject.home();
    fill(&*home);
    let before = told(&*home)?;
    ensure!(told(&*subject.home())? == before, "another who opens it at the same time sees something else");
    drop(home);
    ensure!(told(&*subject.home())? == before, "who opens it next sees something else");
    Ok(())
}

fn empty(subject: &Subject<'_>) -> Outcome {
    let home = subject.home();
    store(&*home, &new_sample())?;
    let before = told(&*home)?;
    let receipt = home.commit(Transaction::new("nothing"))?;
    ensure!(receipt == Receipt::default(), "nothing was committed, and the receipt says {receipt:?}");
    ensure!(told(&*home)? == before, "nothing was committed, and something has changed");
    Ok(())
}

fn insert(subject: &Subject<'_>) -> Outcome {
    let (home, sample) = (subject.home(), new_sample());
    let stored = store(&*home, &sample)?;
    let messages: Vec<_> = match home.session(&sample.session)? {
        Some(record) => home
            .messages(&record, &annals::home::MessageRange::ALL, annals::home::MessageDetail::Parts)
            .collect::<Result<_, _>>()?,
        None => Vec::new(),
    };
    for existing in [&stored, &messages[0].stored, &messages[0].parts[0]] {
        let mut transaction = Transaction::new("again");
        transaction.insert(existing.key.clone(), existing.document.clone());
        conflict(&*home, transaction, ConflictKind::Exists)?;
    }
    Ok(())
}

fn replace(subject: &Subject<'_>) -> Outcome {
    let (home, sample) = (subject.home(), new_sample());
    let old = store(&*home, &sample)?;
    let replacing = |title: &str| {
        let mut transaction = Transaction::new(title);
        transaction.replace(&old, titled(&old, title));
        transaction
    };
    home.commit(replacing("First"))?;
    ensure!(title(&*home, &sample)? == "First", "the title is {:?}", title(&*home, &sample)?);
    conflict(&*home, replacing("Second"), ConflictKind::Changed)?;
    let removal = annals::remove::plan(&*home, home.session(&sample.session)?.ok_or("it is gone")?)?;
    annals::remove::carry_out(&*home, &removal, "remove")?;
    conflict(&*home, replacing("Third"), ConflictKind::Gone)
}

fn delete(subject: &Subject<'_>) -> Outcome {
    let (home, sample) = (subject.home(), new_sample());
    store(&*home, &sample)?;
    let key = Key::Todo(sample.session);
    let todos = |content: &str| {
        document(&format!(r#"[{{"content":"{content}","status":"pending","priority":"low","id":"1"}}]"#))
    };
    let mut transaction = Transaction::new("a list");
    transaction.insert(key.clone(), todos("first"));
    home.commit(transaction)?;
    let old = home.document(&key)?.ok_or("the list is not found")?;
    let deleting = |old: &Stored| {
        let mut transaction = Transaction::new("delete");
        transaction.delete(old);
        transaction
    };
    let mut transaction = Transaction::new("another");
    transaction.put(key.clone(), todos("second"));
    home.commit(transaction)?;
    conflict(&*home, deleting(&old), ConflictKind::Changed)?;
    let new = home.document(&key)?.ok_or("the list is not found")?;
    let receipt = home.commit(deleting(&new))?;
    ensure!((receipt.written, receipt.deleted) == (0, 1), "the receipt says {receipt:?}");
    ensure!(home.document(&key)?.is_none(), "the list is still there");
    conflict(&*home, deleting(&new), ConflictKind::Gone)
}

fn anything(subject: &Subject<'_>) -> Outcome {
    let (home, sample) = (subject.home(), new_sample());
    let mut transaction = Transaction::new("over nothing");
    transaction.put(sample.session_key(), sample.session_document("First", ids::now()));
    home.commit(transaction)?;
    ensure!(title(&*home, &sample)? == "First", "what was put over nothing is not there");
    let mut transaction = Transaction::new("over something");
    transaction.put(sample.session_key(), sample.session_document("Second", ids::now()));
    home.commit(transaction)?;
    ensure!(title(&*home, &sample)? == "Second", "what was put over something is not there");
    let before = told(&*home)?;
    let mut transaction = Transaction::new("nothing");
    transaction.delete_any(Key::Message(sample.session, ids::new_message()));
    home.commit(transaction)?;
    ensure!(told(&*home)? == before, "a deletion of what is not there has changed something");
    Ok(())
}

fn all_or_nothing(subject: &Subject<'_>) -> Outcome {
    let (home, sample) = (subject.home(), new_sample());
    let stored = store(&*home, &sample)?;
    let mut rename = Transaction::new("meanwhile");
    rename.replace(&stored, titled(&stored, "Meanwhile"));
    home.commit(rename)?;
    let other = new_sample();
    let mut transaction = Transaction::new("too late");
    transaction.insert(other.session_key(), other.session_document("Lost", ids::now()));
    conversation(&other, ids::now())
        .into_iter()
        .for_each(|(key, document)| transaction.insert(key, document));
    let messages = home.session_keys(&sample.session)?.into_iter().filter(|key| matches!(key, Key::Part(..)));
    messages.take(1).for_each(|key| transaction.delete_any(key));
    transaction.replace(&stored, titled(&stored, "Lost"));
    conflict(&*home, transaction, ConflictKind::Changed)?;
    ensure!(home.session_keys(&other.session)?.is_empty(), "documents of another session were left");
    Ok(())
}

fn foreign(subject: &Subject<'_>) -> Outcome {
    let home = subject.home();
    let native = new_sample();
    store(&*home, &native)?;
    let other = Sample::new(SessionId::parse("7c9e6679-7425-40de-944b-e07fc1f90ae7")?, "/home/dev/shop");
    let message = MessageId::parse("9b2fd0f6-3c1a-4a77-8c9b-2f7d1a5f0e11")?;
    let part = PartId::parse("9b2fd0f6-3c1a-4a77-8c9b-2f7d1a5f0e11-000")?;
    let now = ids::now();
    let documents = [
        (other.session_key(), other.session_document("Another agent's", now)),
        other.prompt(&message, now),
        other.text(&message, &part, "Hello"),
        native.prompt(&message, now),
        (Key::Record(other.session, RecordId::parse("000001")?), document(r#"{"type": "user"}"#)),
    ];
    for (key, document) in &documents {
        let before = told(&*home)?;
        let mut transaction = Transaction::new("another agent's");
        transaction.insert(key.clone(), document.clone());
        match (home.commit(transaction), subject.holds.foreign) {
            (Ok(_), true) => read_back(subject, &*home, key, document)?,
            (Err(CommitError::Refused { .. }), false) => {
                ensure!(told(&*home)? == before, "{key} was refused, and something has changed");
                ensure!(home.document(key)?.is_none(), "{key} was refused, and is found");
            }
            (Ok(_), false) => return Err(format!("{key} was accepted").into()),
            (Err(error), _) => return Err(error.into()),
        }
    }
    Ok(())
}

fn remove(subject: &Subject<'_>) -> Outcome {
    let home = subject.home();
    let [kept, gone] = [new_sample(), new_sample()];
    store(&*home, &kept)?;
    let before = told(&*home)?;
    store(&*home, &gone)?;
    let mut transaction = Transaction::new("a list");
    transaction.insert(
        Key::Todo(gone.session.clone()),
        document(r#"[{"content":"x","status":"pending","priority":"low","id":"1"}]"#),
    );
    home.commit(transaction)?;
    let removal = annals::remove::plan(&*home, home.session(&gone.session)?.ok_or("it is not found")?)?;
    let kinds: HashSet<&str> = removal.keys.iter().map(Key::noun).collect();
    ensure!(kinds.len() == 4, "the session has {kinds:?}");
    annals::remove::carry_out(&*home, &removal, "remove")?;
    for key in &removal.keys {
        ensure!(home.document(key)?.is_none(), "{key} is still there");
    }
    ensure!(home.session(&gone.session)?.is_none(), "the session is still there");
    ensure!(home.session_keys(&gone.session)?.is_empty(), "the session still has keys");
    ensure!(told(&*home)? == before, "another session has changed");
    Ok(())
}

/// Commits two transactions at once, each through a home of its own. Exactly one must succeed.
fn race(subject: &Subject<'_>, transactions: [Transaction; 2], expected: ConflictKind) -> Outcome {
    let barrier = Barrier::new(2);
    let homes = [subject.home(), subject.home()];
    let outcomes = std::thread::scope(|scope| {
        let threads: Vec<_> = homes
            .iter()
            .zip(transactions)
            .map(|(home, transaction)| {
                let barrier = &barrier;
                scope.spawn(move || {
                    barrier.wait();
                    home.commit(transaction)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join()).collect::<Vec<_>>()
    });
    let mut n_made = 0;
    for outcome in outcomes {
        match outcome.map_err(|_| "a writer panicked")? {
            Ok(_) => n_made += 1,
            Err(CommitError::Conflict { what, .. }) if what == expected => {}
            Err(error) => return Err(format!("{expected:?} is told as: {error}").into()),
        }
    }
    ensure!(n_made == 1, "{n_made} of two transactions were made");
    Ok(())
}

fn race_to_insert(subject: &Subject<'_>) -> Outcome {
    for _ in 0..10 {
        let sample = new_sample();
        subject.home();
        let inserting = |title: &str| {
            let mut transaction = Transaction::new(title);
            transaction.insert(sample.session_key(), sample.session_document(title, 1_770_000_000_000));
            transaction
        };
        race(subject, [inserting("One"), inserting("Two")], ConflictKind::Exists)?;
    }
    Ok(())
}

fn race_to_replace(subject: &Subject<'_>) -> Outcome {
    let (home, sample) = (subject.home(), new_sample());
    store(&*home, &sample)?;
    for n in 0..10 {
        let old = home.document(&sample.session_key())?.ok_or("it is not found")?;
        let replacing = |who: &str| {
            let mut transaction = Transaction::new(who);
            transaction.replace(&old, titled(&old, &format!("{who} {n}")));
            transaction
        };
        race(subject, [replacing("One"), replacing("Two")], ConflictKind::Changed)?;
    }
    Ok(())
}

fn no_lost_update(subject: &Subject<'_>) -> Outcome {
    const N_UPDATES: usize = 10;
    let (home, sample) = (subject.home(), new_sample());
    let stored = store(&*home, &sample)?;
    let mut transaction = Transaction::new("count");
    transaction.replace(&stored, titled(&stored, "0"));
    home.commit(transaction)?;
    let count = || -> Outcome {
        let home = subject.home();
        for _ in 0..N_UPDATES {
            loop {
                let old = home.document(&sample.session_key())?.ok_or("it is not found")?;
                let n: usize = title_of(&old).parse()?;
                let mut transaction = Transaction::new("count");
                transaction.replace(&old, titled(&old, &(n + 1).to_string()));
                match home.commit(transaction) {
                    Ok(_) => break,
                    Err(CommitError::Conflict { what: ConflictKind::Changed, .. }) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    };
    std::thread::scope(|scope| -> Outcome {
        let threads: Vec<_> = (0..3).map(|_| scope.spawn(count)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| "a writer panicked")?)
    })?;
    let n = title(&*home, &sample)?;
    ensure!(n == (3 * N_UPDATES).to_string(), "{} updates were made, and {n} are there", 3 * N_UPDATES);
    Ok(())
}

fn title_of(stored: &Stored) -> String {
    annals::model::SessionInfo::of(&stored.document).title().to_owned()
}
