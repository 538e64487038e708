//! The store half: history, events and search of a store.

use std::time::Duration;

use annals::events::{EventChange, Start};
use annals::home::{At, LogQuery};
use annals::ids;
use annals::model::search::query;
use annals::model::{Document, Key, Transaction};
use annals::search::{SearchRequest, Wanted};
use annals::store::Store;

use super::read::told;
use super::{Outcome, ensure};
use crate::sample::Sample;

pub(super) type Check = fn(&dyn Store) -> Outcome;

pub(super) const CHECKS: [(&str, Check); 6] = [
    ("every commit is a revision in the log", log),
    ("a revision says what it changed", changes),
    ("the home can be seen as it was", at),
    ("what changes nothing is no revision", unchanged),
    ("every commit is told to those who subscribed", events),
    ("what was committed is found by its text", search),
];

/// How long an event may take.
const SOON: Duration = Duration::from_secs(30);

fn new_sample() -> Sample {
    Sample::new(ids::new_session(), "/home/dev/shop")
}

fn put(
    store: &dyn Store,
    sample: &Sample,
    title: &str,
) -> Result<i64, Box<dyn std::error::Error + Send + Sync>> {
    let mut transaction = Transaction::new(title);
    transaction.put(sample.session_key(), sample.session_document(title, 1_770_000_000_000));
    store.commit(transaction)?.revision.ok_or_else(|| "a change is no revision".into())
}

fn log(store: &dyn Store) -> Outcome {
    let [sample, other] = [new_sample(), new_sample()];
    let numbers = [put(store, &sample, "One")?, put(store, &other, "Two")?, put(store, &sample, "Three")?];
    ensure!(numbers.is_sorted_by(|a, b| a < b), "numbers do not grow: {numbers:?}");
    let log = store.log(&LogQuery::default())?;
    let told: Vec<(i64, &str)> =
        log.iter().map(|revision| (revision.number, revision.reason.as_str())).collect();
    ensure!(
        told == [(numbers[2], "Three"), (numbers[1], "Two"), (numbers[0], "One")],
        "the log says {told:?}"
    );
    let of_one = LogQuery { session: Some(sample.session), ..Default::default() };
    ensure!(store.log(&of_one)?.len() == 2, "two revisions are of the session");
    let later = LogQuery { after: Some(numbers[0]), limit: Some(1), ..Default::default() };
    let later: Vec<i64> = store.log(&later)?.iter().map(|revision| revision.number).collect();
    ensure!(later == [numbers[2]], "one revision after the first is {later:?}");
    ensure!(
        store.revision(numbers[1])?.as_ref() == Some(&log[1]),
        "a revision is found otherwise than listed"
    );
    ensure!(store.revision(numbers[2] + 1)?.is_none(), "a revision is made up");
    Ok(())
}

fn changes(store: &dyn Store) -> Outcome {
    let sample = new_sample();
    let key = sample.session_key();
    put(store, &sample, "One")?;
    let second = put(store, &sample, "Two")?;
    let [changed] = &store.changes(second)?[..] else { return Err("it is one change".into()) };
    let titles = [&changed.before, &changed.after].map(|document| {
        document.as_ref().map(|document| annals::model::SessionInfo::of(document).title().to_owned())
    });
    ensure!(changed.key == key, "the change is of {}", changed.key);
    ensure!(titles == [Some("One".to_owned()), Some("Two".to_owned())], "it changed {titles:?}");
    let mut transaction = Transaction::new("delete");
    transaction.delete_any(key);
    let third = store.commit(transaction)?.revision.ok_or("a deletion is no revision")?;
    let [changed] = &store.changes(third)?[..] else { return Err("it is one deletion".into()) };
    ensure!(changed.before.is_some() && changed.after.is_none(), "a deletion is told otherwise");
    Ok(())
}

fn at(store: &dyn Store) -> Outcome {
    let sample = new_sample();
    let mut states = Vec::new();
    sample.store(store, "Why does the cart crash?", "It is empty.");
    states.push((store.head()?, told(store)?));
    for title in ["One", "Two"] {
        states.push((put(store, &sample, title)?, told(store)?));
    }
    let record = store.session(&sample.session)?.ok_or("it is not found")?;
    let removal = annals::remove::plan(store, record)?;
    annals::remove::carry_out(store, &removal, "remove")?;
    states.push((store.head()?, told(store)?));
    for (number, then) in states {
        let view = store.at(At::Revision(number))?.ok_or("a revision cannot be seen")?;
        ensure!(told(&*view)? == then, "revision {number} is seen otherwise than it was");
    }
    ensure!(store.at(At::Revision(store.head()? + 1))?.is_none(), "a revision to come can be seen");
    let long_ago = store.at(At::Time(1))?.ok_or("a time cannot be seen")?;
    ensure!(long_ago.session(&sample.session)?.is_none(), "the session was there before it was made");
    Ok(())
}

fn unchanged(store: &dyn Store) -> Outcome {
    let sample = new_sample();
    put(store, &sample, "One")?;
    let head = store.head()?;
    let mut transaction = Transaction::new("the same");
    transaction.put(sample.session_key(), sample.session_document("One", 1_770_000_000_000));
    ensure!(store.commit(transaction)?.revision.is_none() && store.head()? == head, "the same is a revision");
    ensure!(store.commit(Transaction::new("empty"))?.revision.is_none(), "nothing is a revision");
    Ok(())
}

fn events(store: &dyn Store) -> Outcome {
    let sample = new_sample();
    let first = put(store, &sample, "One")?;
    let [mut from_now, mut from_start] = [store.subscribe(Start::Now)?, store.subscribe(Start::After(0))?];
    let todo = Key::Todo(sample.session.clone());
    let mut transaction = Transaction::new("a list");
    transaction.insert(todo.clone(), Document::parse(b"[1]".to_vec())?);
    let second = store.commit(transaction)?.revision.ok_or("a change is no revision")?;
    let mut transaction = Transaction::new("delete");
    transaction.delete_any(todo.clone());
    let third = store.commit(transaction)?.revision.ok_or("a deletion is no revision")?;
    let expected = [
        (first, EventChange::Put(sample.session_key())),
        (second, EventChange::Put(todo.clone())),
        (third, EventChange::Delete(todo)),
    ];
    for (subscription, expected) in [(&mut from_start, &expected[..]), (&mut from_now, &expected[1..])] {
        for (number, change) in expected {
            let event = subscription.next(SOON)?.ok_or("an event does not come")?;
            ensure!(
                event.revision.number == *number,
                "revision {} is told for {number}",
                event.revision.number
            );
            ensure!(event.changes == [change.clone()], "revision {number} is told as {:?}", event.changes);
        }
        ensure!(subscription.next(Duration::ZERO)?.is_none(), "an event is made up");
    }
    Ok(())
}

fn search(store: &dyn Store) -> Outcome {
    let sample = new_sample();
    sample.store(store, "Why does computeCartTotal crash?", "The cart is empty.");
    store.update_index(&|_, _| ())?;
    let find = |words: &str| -> Result<Vec<String>, Box<dyn std::error::Error + Send + Sync>> {
        let found = store.search(&SearchRequest::new(Wanted::Words(query::parse(words)?)))?;
        Ok(found.hits.into_iter().map(|hit| hit.session.to_string()).collect())
    };
    for words in ["computeCartTotal", "\"cart is empty\"", "compute_cart_total role:user"] {
        ensure!(find(words)? == [sample.session.to_string()], "{words} finds {:?}", find(words)?);
    }
    ensure!(find("nosuchword")?.is_empty(), "what nobody said is found");
    let removal = annals::remove::plan(store, store.session(&sample.session)?.ok_or("it is not found")?)?;
    annals::remove::carry_out(store, &removal, "remove")?;
    store.update_index(&|_, _| ())?;
    ensure!(find("computeCartTotal")?.is_empty(), "what was removed is found");
    Ok(())
}
