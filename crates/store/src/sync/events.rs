//! OpenCode's own log of changes becomes history: what documents were before annals first saw them.

use std::collections::HashMap;
use std::ops::ControlFlow;

use crate::homes::opencode::arrange;
use annals_core::id::{Millis, SessionId};
use annals_core::{Document, Key, stream};

use super::compare::Origin;
use super::{Account, SyncError};
use crate::home::{Read, ReadError};
use crate::homes::opencode::database::{OpencodeDatabase, Recorded};
use crate::stores::sqlite::SqliteStore;
use crate::stores::sqlite::facts::Prepared;
use crate::stores::sqlite::file::Writing;
use crate::stores::sqlite::origin;
use crate::stores::sqlite::revise::Revising;

/// Upper bound on the states of one session in one transaction.
const COMMIT_STATES: usize = 512;

/// Documents of one message that became what they are within this time share a revision. One for each would take as much room
/// as a short document; those of others may have been written after a moment that somebody asks for.
const TOGETHER: Millis = 1000;

/// What a document was from some time on.
struct Past {
    time: Millis,
    key: Key,
    /// None: it was deleted then.
    document: Option<Document>,
}

/// Takes over the logs of all sessions that have grown since they were last read.
pub(super) fn take(
    store: &SqliteStore,
    database: &OpencodeDatabase,
    home: i64,
    account: &mut Account,
) -> Result<(), SyncError> {
    let origins = store.origins(home)?;
    for (session, position) in database.event_positions()? {
        let Some(origin) = origins.get(&session) else { continue };
        if origin.events.is_some_and(|reached| reached >= position) {
            continue;
        }
        take_session(store, database, home, (&session, origin), account)?;
    }
    Ok(())
}

/// The log of one session as it goes by.
#[derive(Default)]
struct Replay {
    /// The state each document is in, and since when. A state that only leads to the next is not kept.
    running: HashMap<Key, (Millis, Document)>,
    past: Vec<Past>,
}

impl Replay {
    fn take(&mut self, recorded: Recorded) {
        let Recorded { time, key, document, .. } = recorded;
        match document {
            Some(document) => self.put(time, key, document),
            None => self.delete(time, &key),
        }
    }

    fn put(&mut self, time: Millis, key: Key, document: Document) {
        match self.running.get_mut(&key) {
            Some((_, known)) if arrange::is_same(&key, known, &document) => {}
            Some((_, known)) if stream::continues(&key, known, &document) => *known = document,
            Some((since, known)) => {
                let ended = std::mem::replace(known, document);
                self.past.push(Past { time: *since, key, document: Some(ended) });
                *since = time;
            }
            None => drop(self.running.insert(key, (time, document))),
        }
    }

    /// With a message its parts go, with a session everything.
    fn delete(&mut self, time: Millis, key: &Key) {
        let goes = |other: &Key| match (key, other) {
            (Key::Session(..), _) => true,
            (Key::Message(_, message), Key::Part(_, of, _)) if message == of => true,
            _ => other == key,
        };
        let gone: Vec<Key> = self.running.keys().filter(|other| goes(other)).cloned().collect();
        for key in gone {
            if let Some((since, document)) = self.running.remove(&key) {
                self.past.push(Past { time: since, key: key.clone(), document: Some(document) });
            }
            self.past.push(Past { time, key, document: None });
        }
    }

    /// Ends the log. Gives the documents that are in the store as the log left them, with the time since when.
    fn finish(&mut self, store: &SqliteStore) -> Result<Vec<(Key, Millis)>, ReadError> {
        let mut latest = Vec::new();
        for (key, (time, document)) in self.running.drain() {
            match store.document(&key) {
                Ok(Some(stored))
                    if arrange::is_same(&key, &stored.document, &document)
                        || stream::continues(&key, &document, &stored.document) =>
                {
                    latest.push((key, time));
                }
                Ok(_) | Err(ReadError::Unreadable(_)) => {
                    self.past.push(Past { time, key, document: Some(document) });
                }
                Err(error) => return Err(error),
            }
        }
        Ok(latest)
    }
}

fn take_session(
    store: &SqliteStore,
    database: &OpencodeDatabase,
    home: i64,
    (session, origin): (&SessionId, &Origin),
    account: &mut Account,
) -> Result<(), SyncError> {
    let mut replay = Replay::default();
    let mut failed: Option<SyncError> = None;
    let log = database.events(session, origin.events, &mut |recorded| {
        replay.take(recorded);
        if replay.past.len() >= COMMIT_STATES
            && let Err(error) = commit(store, home, std::mem::take(&mut replay.past), account)
        {
            failed = Some(error);
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    })?;
    if let Some(error) = failed {
        return Err(error);
    }
    let latest = replay.finish(store)?;
    commit(store, home, replay.past, account)?;
    let failed = |error: rusqlite::Error| store.commit_error(&error);
    let writing = store.write()?;
    date_back(&writing, home, latest).map_err(failed)?;
    origin::note_events(&writing, origin.session, home, log.last.or(origin.events)).map_err(failed)?;
    store.finish(writing)?;
    account.quarantined.extend(log.quarantined);
    Ok(())
}

/// Notes since when documents are what they are now.
fn date_back(writing: &Writing<'_>, home: i64, mut latest: Vec<(Key, Millis)>) -> rusqlite::Result<()> {
    latest.sort_by(|(a, a_time), (b, b_time)| (message_of(a), a_time).cmp(&(message_of(b), b_time)));
    for of_message in latest.chunk_by(|(a, _), (b, _)| message_of(a) == message_of(b)) {
        let mut rest = of_message;
        while let Some((_, first)) = rest.first() {
            // Dated a little late, never early: nothing of a document comes after its latest state.
            let n_together = rest.partition_point(|(_, time)| time - first < TOGETHER);
            let (together, later) = rest.split_at(n_together);
            let time = together.last().map_or(*first, |(_, time)| *time);
            let mut revising = Revising::of_the_past(writing, time, REASON, home);
            for (key, _) in together {
                revising.date_back(key)?;
            }
            revising.finish()?;
            rest = later;
        }
    }
    Ok(())
}

const REASON: &str = "recorded by OpenCode";

/// The message that a document is, or is of.
fn message_of(key: &Key) -> Option<&str> {
    match key {
        Key::Message(_, message) | Key::Part(_, message, _) => Some(message.as_str()),
        _ => None,
    }
}

/// Adds states of the past, one revision for each moment.
fn commit(
    store: &SqliteStore,
    home: i64,
    mut past: Vec<Past>,
    account: &mut Account,
) -> Result<(), SyncError> {
    if past.is_empty() {
        return Ok(());
    }
    past.sort_by_key(|past| past.time);
    let failed = |error: rusqlite::Error| store.commit_error(&error);
    let writing = store.write()?;
    for moment in past.chunk_by(|a, b| a.time == b.time) {
        let mut revising = Revising::of_the_past(&writing, moment[0].time, REASON, home);
        for Past { key, document, .. } in moment {
            let prepared = document.as_ref().map(|document| Prepared::new(key, document));
            account.recorded += usize::from(revising.put_past(key, prepared.as_ref()).map_err(failed)?);
        }
        revising.finish().map_err(failed)?;
    }
    store.finish(writing)?;
    Ok(())
}
