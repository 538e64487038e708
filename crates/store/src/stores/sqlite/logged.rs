//! Earlier states of documents, taken from a home's own log and stored as revisions with their original times.

use annals_core::Key;
use annals_core::id::{Millis, SessionId};

use super::SqliteStore;
use super::facts::Prepared;
use super::file::Writing;
use super::origin;
use super::revise::Revising;
use super::rows::session_row;
use crate::follow::{HomeNumber, LoggedUpTo, PastState};
use crate::home::CommitError;

/// Documents of one message that reached their state within this time share a revision. One revision for each would take as much
/// room as a short document. Documents of other messages do not share it: a query by date may ask for a moment between them.
const TOGETHER: Millis = 1000;

impl SqliteStore {
    /// Adds states of the past, one revision for each moment. Gives the number of new states.
    pub(super) fn commit_past_states(
        &self,
        home: HomeNumber,
        words: &str,
        mut states: Vec<PastState>,
    ) -> Result<usize, CommitError> {
        if states.is_empty() {
            return Ok(0);
        }
        states.sort_by_key(|state| state.time);
        let failed = |error: rusqlite::Error| self.commit_error(&error);
        let writing = self.write()?;
        let mut n_new = 0;
        for moment in states.chunk_by(|a, b| a.time == b.time) {
            let mut revising = Revising::of_the_past(&writing, moment[0].time, words, home);
            for PastState { key, document, .. } in moment {
                let prepared = document.as_ref().map(|document| Prepared::new(key, document));
                n_new += usize::from(revising.put_past(key, prepared.as_ref()).map_err(failed)?);
            }
            revising.finish().map_err(failed)?;
        }
        self.finish(writing)?;
        Ok(n_new)
    }

    /// Notes since when documents have their latest state, and how far the log was read.
    pub(super) fn commit_logged(
        &self,
        home: HomeNumber,
        words: &str,
        session: &SessionId,
        read: LoggedUpTo,
    ) -> Result<(), CommitError> {
        let failed = |error: rusqlite::Error| self.commit_error(&error);
        let writing = self.write()?;
        date_back(&writing, home, words, read.latest).map_err(failed)?;
        if let Some(session) = session_row(&writing, session.as_str()).map_err(failed)? {
            origin::note_events(&writing, session, home, read.position).map_err(failed)?;
        }
        self.finish(writing)
    }
}

/// Notes since when documents have their latest state.
fn date_back(
    writing: &Writing<'_>,
    home: HomeNumber,
    words: &str,
    mut latest: Vec<(Key, Millis)>,
) -> rusqlite::Result<()> {
    latest.sort_by(|(a, a_time), (b, b_time)| (message_of(a), a_time).cmp(&(message_of(b), b_time)));
    for of_message in latest.chunk_by(|(a, _), (b, _)| message_of(a) == message_of(b)) {
        let mut rest = of_message;
        while let Some((_, first)) = rest.first() {
            // Dated a little late, never early: no other state of a document comes after its latest one.
            let n_together = rest.partition_point(|(_, time)| time - first < TOGETHER);
            let (together, later) = rest.split_at(n_together);
            let time = together.last().map_or(*first, |(_, time)| *time);
            let mut revising = Revising::of_the_past(writing, time, words, home);
            for (key, _) in together {
                revising.date_back(key)?;
            }
            revising.finish()?;
            rest = later;
        }
    }
    Ok(())
}

/// The message that a document is, or belongs to.
fn message_of(key: &Key) -> Option<&str> {
    match key {
        Key::Message(_, message) | Key::Part(_, message, _) => Some(message.as_str()),
        _ => None,
    }
}
