//! Imports a home's own log of changes as history: the states of documents before annals first saw them.

use std::collections::HashMap;
use std::ops::ControlFlow;

use annals_core::id::{Millis, SessionId};
use annals_core::{Document, Key, stream};

use super::{SyncError, SyncOutcome};
use crate::change_log::{ChangeLog, RecordedChange};
use crate::follow::{Follow, HomeNumber, LoggedUpTo, Origin, PastState};
use crate::home::{CommitError, ReadError};

/// Upper bound on the states of one session in one transaction.
const COMMIT_STATES: usize = 512;

/// Imports the logs of all sessions whose logs have grown since they were last read.
pub(super) fn take(
    store: &dyn Follow,
    log: &dyn ChangeLog,
    home: HomeNumber,
    outcome: &mut SyncOutcome,
) -> Result<(), SyncError> {
    let origins = store.origins(home)?;
    for (session, position) in log.positions()? {
        let Some(origin) = origins.get(&session) else { continue };
        if origin.log_position.is_some_and(|reached| reached >= position) {
            continue;
        }
        take_session(store, log, home, (&session, origin), outcome)?;
    }
    Ok(())
}

/// The log of one session, replayed.
struct Replay<'l> {
    log: &'l dyn ChangeLog,
    /// The current state of each document, and since when. A state that is only a step towards the next one is not kept.
    running: HashMap<Key, (Millis, Document)>,
    past: Vec<PastState>,
}

impl Replay<'_> {
    fn take(&mut self, change: RecordedChange) {
        match change.document {
            Some(document) => self.put(change.time, change.key, document),
            None => self.delete(&change),
        }
    }

    fn put(&mut self, time: Millis, key: Key, document: Document) {
        match self.running.get_mut(&key) {
            Some((_, known)) if self.log.is_same(&key, known, &document) => {}
            Some((_, known)) if stream::continues(&key, known, &document) => *known = document,
            Some((since, known)) => {
                let ended = std::mem::replace(known, document);
                self.past.push(PastState { time: *since, key, document: Some(ended) });
                *since = time;
            }
            None => drop(self.running.insert(key, (time, document))),
        }
    }

    /// Deletes a document, with what goes with it.
    fn delete(&mut self, change: &RecordedChange) {
        let time = change.time;
        let gone: Vec<Key> = self.running.keys().filter(|key| change.removes(key)).cloned().collect();
        for key in gone {
            if let Some((since, document)) = self.running.remove(&key) {
                self.past.push(PastState { time: since, key: key.clone(), document: Some(document) });
            }
            self.past.push(PastState { time, key, document: None });
        }
    }

    /// Ends the log. Returns the documents that the store has as the log left them, each with the time since when.
    fn finish(&mut self, store: &dyn Follow) -> Result<Vec<(Key, Millis)>, ReadError> {
        let mut latest = Vec::new();
        for (key, (time, document)) in self.running.drain() {
            match store.document(&key) {
                Ok(Some(stored))
                    if self.log.is_same(&key, &stored.document, &document)
                        || stream::continues(&key, &document, &stored.document) =>
                {
                    latest.push((key, time));
                }
                Ok(_) | Err(ReadError::Unreadable(_)) => {
                    self.past.push(PastState { time, key, document: Some(document) });
                }
                Err(error) => return Err(error),
            }
        }
        Ok(latest)
    }
}

fn take_session(
    store: &dyn Follow,
    log: &dyn ChangeLog,
    home: HomeNumber,
    (session, origin): (&SessionId, &Origin),
    outcome: &mut SyncOutcome,
) -> Result<(), SyncError> {
    let words = format!("recorded by {}", log.writer());
    let mut replay = Replay { log, running: HashMap::new(), past: Vec::new() };
    let mut failed: Option<CommitError> = None;
    let read = log.changes(session, origin.log_position, &mut |change| {
        replay.take(change);
        if replay.past.len() < COMMIT_STATES {
            return ControlFlow::Continue(());
        }
        match store.commit_past(home, &words, std::mem::take(&mut replay.past)) {
            Ok(n_states) => outcome.recorded += n_states,
            Err(error) => {
                failed = Some(error);
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    })?;
    if let Some(error) = failed {
        return Err(error.into());
    }
    let latest = replay.finish(store)?;
    outcome.recorded += store.commit_past(home, &words, replay.past)?;
    let read_up_to = LoggedUpTo { position: read.last.or(origin.log_position), latest };
    store.commit_log_position(home, &words, session, read_up_to)?;
    outcome.quarantined.extend(read.quarantined);
    Ok(())
}
