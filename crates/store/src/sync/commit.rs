//! Commits what looks have found, each session's findings together with how far the look went.

use std::collections::HashSet;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use annals_core::Stored;
use annals_core::id::SessionId;
use annals_core::lens::Session;

use super::compare::{Leaders, Origin};
use super::look::{Chunk, End, Tally};
use super::source::Source;
use super::survey::{Job, Plan};
use super::{Account, Reason, SyncError};
use crate::home::Quarantined;
use crate::home::annals::Annals;
use crate::home::annals::facts::Prepared;
use crate::home::annals::file::Writing;
use crate::home::annals::revise::{Put, Revising};
use crate::home::annals::synced::{self, Applied, Comparing, Finding, Numbers, ToIndex};
use crate::home::annals::text_index::Indexing;

/// Upper bounds of what is committed together: bytes of documents, sessions, and time, since others want to write as well.
const COMMIT_BYTES: usize = 8 << 20;
const COMMIT_SESSIONS: usize = 256;
const COMMIT_AFTER: Duration = Duration::from_millis(500);

/// The writer of a sync, for one home.
pub(super) struct Committing<'c> {
    pub(super) store: &'c Annals,
    pub(super) home: i64,
    pub(super) reason: &'c Reason,
    pub(super) account: &'c mut Account,
}

/// Looks that are being committed.
#[derive(Default)]
struct Underway {
    /// Of which something was committed already. Their cursors move with their last chunks.
    begun: HashSet<usize>,
    /// Somebody else has looked at the session, or at another copy of it, since the look began: what was compared with is out of date.
    overtaken: HashSet<usize>,
}

/// One transaction.
#[derive(Default)]
struct Batch {
    n_bytes: usize,
    n_sessions: usize,
    /// What the text index is to know; none as soon as it has to find out by itself.
    to_index: Option<Vec<ToIndex>>,
    numbers: Vec<(i64, Numbers)>,
}

impl<'c> Committing<'c> {
    /// Commits looks as they come. Gives those that were overtaken.
    pub(super) fn looks(
        &mut self,
        jobs: &[Job],
        receiver: &Receiver<Chunk>,
        indexing: &mut Option<Indexing<'_>>,
    ) -> Result<HashSet<usize>, SyncError> {
        let mut underway = Underway::default();
        let mut next = receiver.recv().ok();
        while next.is_some() {
            // Looks that found nothing need no transaction.
            while let Some(chunk) = next.take_if(|chunk| is_nothing(chunk)) {
                self.count(&chunk.tally);
                self.account.looked += usize::from(chunk.end.is_some());
                self.account.quarantined.extend(chunk.end.into_iter().flat_map(|end| end.ended.quarantined));
                next = receiver.recv().ok();
            }
            if let Some(first) = next.take() {
                next = self.batch(jobs, first, receiver, &mut underway, indexing)?;
            }
        }
        Ok(underway.overtaken)
    }

    /// Commits a chunk and those that come soon after it. Gives the first that is left over.
    fn batch(
        &mut self,
        jobs: &[Job],
        first: Chunk,
        receiver: &Receiver<Chunk>,
        underway: &mut Underway,
        indexing: &mut Option<Indexing<'_>>,
    ) -> Result<Option<Chunk>, SyncError> {
        let store = self.store;
        let failed = |error: rusqlite::Error| store.commit_error(&error);
        let began = Instant::now();
        let writing = store.write()?;
        let mut revising = self.revising(&writing)?;
        let mut batch = Batch { to_index: Some(Vec::new()), ..Batch::default() };
        let (mut chunk, mut left) = (Some(first), None);
        while let Some(next) = chunk.take() {
            let job = &jobs[next.job];
            self.chunk(&writing, &mut revising, job, next, underway, &mut batch).map_err(failed)?;
            let is_full = batch.n_bytes >= COMMIT_BYTES || batch.n_sessions >= COMMIT_SESSIONS;
            match receiver.recv() {
                Ok(more) if is_full || began.elapsed() >= COMMIT_AFTER => left = Some(more),
                Ok(more) => chunk = Some(more),
                Err(_) => {}
            }
        }
        let revision = revising.finish().map_err(failed)?;
        for (session, numbers) in batch.numbers {
            synced::note_numbers(&writing, session, &numbers).map_err(failed)?;
        }
        synced::refresh(&writing).map_err(failed)?;
        store.finish(writing)?;
        if let (Some(indexing), Some(revision), Some(to_index)) = (&mut *indexing, revision, batch.to_index) {
            indexing.add(revision, to_index)?;
        }
        Ok(left)
    }

    /// Applies the findings of a chunk.
    fn chunk(
        &mut self,
        writing: &Writing<'_>,
        revising: &mut Revising<'_>,
        job: &Job,
        mut chunk: Chunk,
        underway: &mut Underway,
        batch: &mut Batch,
    ) -> rusqlite::Result<()> {
        let session = revising.session(&job.sighting.session)?;
        let is_first = !underway.begun.contains(&chunk.job);
        if chunk.is_overtaken || (is_first && synced::looks(writing, session)? != chunk.looks) {
            underway.overtaken.insert(chunk.job);
        }
        if underway.overtaken.contains(&chunk.job) {
            return Ok(());
        }
        underway.begun.insert(chunk.job);
        self.count(&chunk.tally);
        batch.n_bytes += chunk.tally.bytes;
        let updated = job.known.as_ref().map_or(job.sighting.written, |known| known.cursor.updated);
        let look = Applied { home: self.home, updated, leaders: chunk.leaders };
        for finding in chunk.findings.drain(..) {
            let (is_import, is_removal) = (finding.is_import(), matches!(finding, Finding::Remove(_)));
            let is_done = synced::apply(writing, revising, &look, finding, &mut batch.to_index)?;
            self.account.deleted += usize::from(is_done && is_removal);
            self.account.imported += usize::from(is_done && is_import);
            self.account.unchanged += usize::from(!is_done && is_import);
        }
        if let Some(end) = chunk.end.take() {
            batch.n_sessions += 1;
            self.end(writing, session, job, &chunk, end, batch)?;
        }
        Ok(())
    }

    /// Moves the cursor of a session.
    fn end(
        &mut self,
        writing: &Writing<'_>,
        session: i64,
        job: &Job,
        chunk: &Chunk,
        end: End,
        batch: &mut Batch,
    ) -> rusqlite::Result<()> {
        self.account.looked += 1;
        synced::note_look(writing, session, &job.sighting.session, self.home, &end.ended)?;
        match job.known {
            None => self.account.new += 1,
            Some(_) => self.account.changed += usize::from(end.is_changed),
        }
        // The session was used less recently here than it was before: another home leads now.
        let before = Leaders::of(&chunk.looks);
        if before != chunk.leaders && before.session == Some(self.home) {
            batch.to_index = None;
            synced::settle(writing, self.store.now(), session, chunk.leaders, None)?;
        }
        batch.numbers.push((session, end.ended.numbers));
        self.account.quarantined.extend(end.ended.quarantined);
        Ok(())
    }

    /// Notes which sessions are not where they were. What was taken from there stays, unless another home has the session.
    pub(super) fn gone(&mut self, gone: &[(SessionId, Origin)]) -> Result<(), SyncError> {
        if gone.is_empty() {
            return Ok(());
        }
        let failed = |error: rusqlite::Error| self.store.commit_error(&error);
        let writing = self.store.write()?;
        let words = match self.reason.operation {
            Some(_) => &self.reason.words,
            None => "gone from its home",
        };
        let now = self.store.now();
        let revising = Revising::new(&writing, now, words, Some(self.home)).map_err(failed)?;
        let mut revising = revising.of_operation(self.reason.operation);
        for (id, origin) in gone {
            let looks = synced::looks(&writing, origin.session).map_err(failed)?;
            // Somebody else has looked since.
            if !looks.iter().any(|look| look.home == self.home && look.turn == origin.turn) {
                continue;
            }
            synced::note_gone(&writing, &mut revising, origin.session, self.home, now).map_err(failed)?;
            let after = synced::looks(&writing, origin.session).map_err(failed)?;
            if Leaders::of(&looks) != Leaders::of(&after) {
                self.account.unsettled.push((origin.session, self.home));
            }
            self.account.gone.push(id.clone());
        }
        revising.finish().map_err(failed)?;
        synced::refresh(&writing).map_err(failed)?;
        self.store.finish(writing)?;
        Ok(())
    }

    /// Takes over session documents as they are in the home now. False if a look at one of the sessions is needed. The evidence stays as
    /// it was, so that what else has changed is still found.
    pub(super) fn sessions(
        &mut self,
        source: &dyn Source,
        sessions: &HashSet<SessionId>,
    ) -> Result<bool, SyncError> {
        let mut found = Vec::new();
        for id in sessions {
            let number = self.store.session_number(id)?;
            let looks = number.map(|number| self.store.looks(number)).transpose()?.unwrap_or_default();
            let is_known = looks.iter().any(|look| look.home == self.home && look.is_there);
            let (Some(number), true, Some(record)) = (number, is_known, source.session(id)?) else {
                return Ok(false);
            };
            let updated = record.stored.document.lens::<Session<'_>>().time.and_then(|time| time.updated);
            if looks.iter().any(|look| look.home == self.home && Some(look.updated) != updated) {
                return Ok(false);
            }
            let comparing = self.comparing(id.clone())?;
            let unknown = |_: &_, _: &_| synced::Text::Unknown;
            let finding = comparing.document(record.stored.key, &record.stored.document, false, unknown)?;
            found.push((number, comparing.leaders, finding));
        }
        let failed = |error: rusqlite::Error| self.store.commit_error(&error);
        let writing = self.store.write()?;
        let mut revising = self.revising(&writing)?;
        for (number, leaders, finding) in found {
            let look = Applied { home: self.home, updated: 0, leaders };
            if let Some(finding) = finding {
                synced::apply(&writing, &mut revising, &look, finding, &mut None).map_err(failed)?;
            }
            synced::note_turn(&writing, number, self.home).map_err(failed)?;
        }
        revising.finish().map_err(failed)?;
        synced::refresh(&writing).map_err(failed)?;
        self.store.finish(writing)?;
        Ok(true)
    }

    /// Stores parts that belong to no message.
    pub(super) fn orphans(&mut self, orphans: Vec<Stored>) -> Result<(), SyncError> {
        let mut found = Vec::new();
        for stored in orphans {
            let Some(session) = stored.key.session().cloned() else { continue };
            let comparing = self.comparing(session)?;
            self.account.seen += 1;
            let finding =
                comparing.document(stored.key, &stored.document, false, |_, _| synced::Text::Unknown)?;
            self.account.unchanged += usize::from(!finding.as_ref().is_some_and(Finding::is_import));
            found.extend(finding.map(|finding| (comparing.leaders, finding)));
        }
        if found.is_empty() {
            return Ok(());
        }
        let failed = |error: rusqlite::Error| self.store.commit_error(&error);
        let writing = self.store.write()?;
        let mut revising = self.revising(&writing)?;
        for (leaders, finding) in found {
            let is_import = finding.is_import();
            let look = Applied { home: self.home, updated: 0, leaders };
            let is_done =
                synced::apply(&writing, &mut revising, &look, finding, &mut None).map_err(failed)?;
            self.account.imported += usize::from(is_done && is_import);
            self.account.unchanged += usize::from(!is_done && is_import);
        }
        revising.finish().map_err(failed)?;
        synced::refresh(&writing).map_err(failed)?;
        self.store.finish(writing)?;
        Ok(())
    }

    /// What a document of a session is compared with, after the session was looked at.
    fn comparing(&self, session: SessionId) -> Result<Comparing<'c>, SyncError> {
        let number = self.store.session_number(&session)?;
        let looks = number.map(|number| self.store.looks(number)).transpose()?.unwrap_or_default();
        let mut leaders = Leaders::of(&looks);
        // Of a session that is not there, only these parts are left.
        leaders.rest = leaders.rest.or(Some(self.home));
        Ok(Comparing {
            store: self.store,
            session,
            home: self.home,
            leaders,
            is_shared: looks.iter().any(|look| look.home != self.home),
            is_new: number.is_none(),
            has_messages: number.is_some(),
        })
    }

    /// Project records are few: all of them are read when any has changed. Gives those that could not be read.
    pub(super) fn projects(&mut self, source: &dyn Source) -> Result<Vec<Quarantined>, SyncError> {
        let found = source.projects()?;
        let failed = |error: rusqlite::Error| self.store.commit_error(&error);
        let writing = self.store.write()?;
        let mut revising = self.revising(&writing)?;
        for stored in found.value {
            self.account.seen += 1;
            let known = revising.state(&stored.key).map_err(failed)?;
            // Every home has its own record of a project, with its own times; the one that was there first stays.
            let is_others = known.is_some_and(|known| known.is_present && known.home != Some(self.home));
            let prepared = Prepared::new(&stored.key, &stored.document, false);
            let is_written = !is_others
                && revising.put(&stored.key, &prepared, Some(&stored.document)).map_err(failed)?
                    != Put::Unchanged;
            match is_written {
                true => self.account.imported += 1,
                false => self.account.unchanged += 1,
            }
        }
        revising.finish().map_err(failed)?;
        self.store.finish(writing)?;
        Ok(found.quarantined)
    }

    /// Notes the evidence of the whole home. It was gathered before anything was read; what was written meanwhile is found next time.
    /// Of a home in which something could not be read there is none, so that it is looked at again.
    pub(super) fn home(
        &mut self,
        plan: &Plan,
        unreadable: Vec<Quarantined>,
        is_complete: bool,
    ) -> Result<(), SyncError> {
        let stamp = if unreadable.is_empty() { &plan.stamp[..] } else { &[] };
        let is_noted =
            plan.known.as_ref().is_some_and(|home| home.stamp == stamp && home.is_complete >= is_complete);
        if !is_noted || !self.store.is_home_quarantine(self.home, &unreadable)? {
            let failed = |error: rusqlite::Error| self.store.commit_error(&error);
            let (writing, began) = (self.store.write()?, plan.asked.began);
            synced::note_home_quarantine(&writing, self.home, &unreadable, began).map_err(failed)?;
            synced::note_home(&writing, self.home, stamp, is_complete, began).map_err(failed)?;
            self.store.finish(writing)?;
        }
        self.account.seen += unreadable.len();
        self.account.quarantined.extend(unreadable);
        Ok(())
    }

    fn revising<'w>(&self, writing: &'w Writing<'_>) -> Result<Revising<'w>, SyncError> {
        let failed = |error: rusqlite::Error| self.store.commit_error(&error);
        let revising =
            Revising::new(writing, self.store.now(), &self.reason.words, Some(self.home)).map_err(failed)?;
        Ok(revising.of_operation(self.reason.operation))
    }

    fn count(&mut self, tally: &Tally) {
        self.account.seen += tally.seen;
        self.account.unchanged += tally.unchanged;
    }
}

/// Shows of sessions what the home has that leads by now, where the home that led does not have them any more. If none has a session, it
/// stays as it was.
pub(super) fn settle(store: &Annals, unsettled: &[(i64, i64)]) -> Result<(), SyncError> {
    if unsettled.is_empty() {
        return Ok(());
    }
    let failed = |error: rusqlite::Error| store.commit_error(&error);
    let writing = store.write()?;
    for (session, gone) in unsettled {
        let leaders = Leaders::of(&synced::looks(&writing, *session).map_err(failed)?);
        if leaders.session.is_some() {
            synced::settle(&writing, store.now(), *session, leaders, Some(*gone)).map_err(failed)?;
        }
    }
    synced::refresh(&writing).map_err(failed)?;
    store.finish(writing)?;
    Ok(())
}

/// Whether a chunk needs nothing to be written.
fn is_nothing(chunk: &Chunk) -> bool {
    chunk.findings.is_empty() && !chunk.is_overtaken && chunk.end.as_ref().is_none_or(|end| !end.is_news)
}
