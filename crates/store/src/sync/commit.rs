//! Commits what looks have found, each session's findings together with how far the look went.

use std::collections::{HashMap, HashSet};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use annals_core::Stored;
use annals_core::id::SessionId;
use rusqlite::Connection;

use super::compare::{self, Leaders, Origin, is_overtaken};
use super::look::{Chunk, End, Tally};
use super::source::Source;
use super::survey::{Job, Plan};
use super::{Account, Reason, SyncError};
use crate::home::Quarantined;
use crate::stores::sqlite::SqliteStore;
use crate::stores::sqlite::comparing::Comparing;
use crate::stores::sqlite::facts::Prepared;
use crate::stores::sqlite::file::Writing;
use crate::stores::sqlite::finding::{Applied, Finding, Text, ToIndex, apply};
use crate::stores::sqlite::held::{self, Standing};
use crate::stores::sqlite::origin::{self, Numbers};
use crate::stores::sqlite::quarantine;
use crate::stores::sqlite::revise::{Put, Revising};
use crate::stores::sqlite::text_index::Indexing;

/// Upper bounds of what is committed together: bytes of documents, sessions, and time, since others want to write as well.
const COMMIT_BYTES: usize = 8 << 20;
const COMMIT_SESSIONS: usize = 256;
const COMMIT_AFTER: Duration = Duration::from_millis(500);

/// The writer of a sync, for one home.
pub(super) struct Committing<'c> {
    pub(super) store: &'c SqliteStore,
    pub(super) home: i64,
    pub(super) reason: &'c Reason,
    pub(super) account: &'c mut Account,
    /// Sessions in which another home leads by now, by that home: their messages have to be counted there.
    pub(super) uncounted: &'c mut HashMap<i64, HashSet<SessionId>>,
}

/// Looks that are being committed.
#[derive(Default)]
pub(super) struct Underway {
    /// Somebody else has looked at the session since the look began: what it was compared with is out of date.
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
    /// The number of the looks that are committed here.
    turn: Option<i64>,
}

impl Batch {
    fn turn(&mut self, connection: &Connection) -> rusqlite::Result<i64> {
        let turn = match self.turn {
            Some(turn) => turn,
            None => origin::next_turn(connection)?,
        };
        self.turn = Some(turn);
        Ok(turn)
    }
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
            origin::note_numbers(&writing, session, &numbers).map_err(failed)?;
        }
        self.finish(writing)?;
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
        let id = &job.sighting.session;
        let session = revising.session(id)?;
        let before = match revising.is_new_session(id) {
            true => None,
            false => Some(Standing::of(writing, session)?),
        };
        let known = before.as_ref().and_then(|before| before.turn(self.home));
        if is_overtaken(job.known.as_ref().map(|known| known.turn), known) {
            underway.overtaken.insert(chunk.job);
        }
        if underway.overtaken.contains(&chunk.job) {
            return Ok(());
        }
        self.count(&chunk.tally);
        batch.n_bytes += chunk.tally.bytes;
        let updated = chunk.look.updated;
        let standing = match &before {
            Some(before) => before.after(writing, session, &chunk.look)?,
            None => Standing::alone(chunk.look),
        };
        let used_before = job.known.as_ref().map_or(updated, |known| known.cursor.updated);
        let look = Applied { home: self.home, used_before, standing };
        for finding in chunk.findings.drain(..) {
            let (is_import, is_removal) = (finding.is_import(), matches!(finding, Finding::Lacks(_)));
            let is_done = apply(revising, &look, finding, &mut batch.to_index)?;
            self.account.deleted += usize::from(is_done && is_removal);
            self.account.imported += usize::from(is_done && is_import);
            self.account.unchanged += usize::from(!is_done && is_import);
        }
        match chunk.end.take() {
            Some(end) => {
                batch.n_sessions += 1;
                self.end(writing, session, job, before.as_ref(), end, batch)
            }
            None => Ok(()),
        }
    }

    /// Moves the cursor of a session. `before` is its standing before the look, if it was known.
    fn end(
        &mut self,
        writing: &Writing<'_>,
        session: i64,
        job: &Job,
        before: Option<&Standing>,
        end: End,
        batch: &mut Batch,
    ) -> rusqlite::Result<()> {
        self.account.looked += 1;
        let id = &job.sighting.session;
        origin::note_look(writing, session, id, self.home, &end.ended, batch.turn(writing)?)?;
        match job.known {
            None => self.account.new += 1,
            Some(_) => self.account.changed += usize::from(end.is_changed),
        }
        let mut leads = true;
        if let Some(before) = before {
            let after = Standing::of(writing, session)?;
            if is_unsettled(writing, before, &after)? {
                batch.to_index = None;
                settle(self.store, writing, self.reason, session, id, self.uncounted)?;
            }
            leads = compare::leader(after.looks()).is_some_and(|leader| leader.home == self.home);
        }
        // The numbers of a session are those of the home that leads in it.
        if leads {
            self.uncounted.get_mut(&self.home).map(|sessions| sessions.remove(id));
            batch.numbers.push((session, end.ended.numbers));
        }
        self.account.quarantined.extend(end.ended.quarantined);
        Ok(())
    }

    /// Takes over session documents as they are in the home now. False if a look at one of the sessions is needed. The next sync looks at
    /// these sessions, so that what else has changed is still found.
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
            let updated = record.info.updated();
            if looks.iter().any(|look| look.home == self.home && Some(look.updated) != updated) {
                return Ok(false);
            }
            let comparing = self.comparing(id.clone(), Some(number), looks.len() > 1);
            let unknown = |_: &_, _: &_| Text::Unknown;
            let finding = comparing.document(&record.stored, unknown)?;
            found.push((number, id, finding));
        }
        let failed = |error: rusqlite::Error| self.store.commit_error(&error);
        let writing = self.store.write()?;
        let mut revising = self.revising(&writing)?;
        let mut unsettled = Vec::new();
        for (number, id, finding) in found {
            let standing = Standing::of(&writing, number).map_err(failed)?;
            let look = Applied { home: self.home, used_before: 0, standing };
            if let Some(finding) = finding {
                apply(&mut revising, &look, finding, &mut None).map_err(failed)?;
            }
            origin::note_document(&writing, number, self.home).map_err(failed)?;
            let standing = Standing::of(&writing, number).map_err(failed)?;
            if is_unsettled(&writing, &look.standing, &standing).map_err(failed)? {
                unsettled.push((number, id));
            }
        }
        revising.finish().map_err(failed)?;
        for (session, id) in unsettled {
            settle(self.store, &writing, self.reason, session, id, self.uncounted).map_err(failed)?;
        }
        self.finish(writing)?;
        Ok(true)
    }

    /// Stores parts that belong to no message.
    pub(super) fn orphans(&mut self, orphans: Vec<Stored>) -> Result<(), SyncError> {
        let mut found = Vec::new();
        for stored in orphans {
            let Some(session) = stored.key.session().cloned() else { continue };
            let number = self.store.session_number(&session)?;
            let looks = number.map(|number| self.store.looks(number)).transpose()?.unwrap_or_default();
            let comparing = self.comparing(session, number, looks.iter().any(|look| look.home != self.home));
            self.account.seen += 1;
            let finding = comparing.document(&stored, |_, _| Text::Unknown)?;
            self.account.unchanged += usize::from(!finding.as_ref().is_some_and(Finding::is_import));
            found.extend(finding.map(|finding| (looks, finding)));
        }
        if found.is_empty() {
            return Ok(());
        }
        let failed = |error: rusqlite::Error| self.store.commit_error(&error);
        let writing = self.store.write()?;
        let mut revising = self.revising(&writing)?;
        for (looks, finding) in found {
            let is_import = finding.is_import();
            let session = revising.session_of(finding.key()).map_err(failed)?;
            let standing = Standing::new(&writing, session, looks).map_err(failed)?;
            let look = Applied { home: self.home, used_before: 0, standing };
            let is_done = apply(&mut revising, &look, finding, &mut None).map_err(failed)?;
            self.account.imported += usize::from(is_done && is_import);
            self.account.unchanged += usize::from(!is_done && is_import);
        }
        revising.finish().map_err(failed)?;
        self.finish(writing)?;
        Ok(())
    }

    /// What a document of a session is compared with, after the session was looked at.
    fn comparing(&self, session: SessionId, number: Option<i64>, is_shared: bool) -> Comparing<'c> {
        Comparing {
            store: self.store,
            session,
            home: self.home,
            is_shared,
            is_new: number.is_none(),
            is_leading: false,
            has_messages: number.is_some(),
        }
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
            let prepared = Prepared::of(&stored);
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

    /// Commits what was written, with the numbers of what it changed.
    fn finish(&self, writing: Writing<'_>) -> Result<(), SyncError> {
        origin::refresh(&writing).map_err(|error| self.store.commit_error(&error))?;
        Ok(self.store.finish(writing)?)
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

/// Notes the evidence of a whole home. It was gathered before anything was read; what was written meanwhile is found next time. Of a home in
/// which something could not be read there is none, so that it is looked at again.
pub(super) fn note_home(
    store: &SqliteStore,
    home: i64,
    plan: &Plan,
    unreadable: Vec<Quarantined>,
    is_complete: bool,
    account: &mut Account,
) -> Result<(), SyncError> {
    let stamp = if unreadable.is_empty() { &plan.stamp[..] } else { &[] };
    let is_noted =
        plan.known.as_ref().is_some_and(|home| home.stamp == stamp && home.is_complete >= is_complete);
    if !is_noted || !store.is_home_quarantine(home, &unreadable)? {
        let failed = |error: rusqlite::Error| store.commit_error(&error);
        let (writing, began) = (store.write()?, plan.asked.began);
        quarantine::note_home_quarantine(&writing, home, &unreadable, began).map_err(failed)?;
        origin::note_home(&writing, home, stamp, is_complete, began).map_err(failed)?;
        store.finish(writing)?;
    }
    account.seen += unreadable.len();
    account.quarantined.extend(unreadable);
    Ok(())
}

/// Notes which sessions are not where they were, of all homes at once: so a session that is gone from several becomes nothing else in between.
/// What was taken from there stays, unless another home has the session.
pub(super) fn gone(
    store: &SqliteStore,
    reason: &Reason,
    gone: &[(i64, Vec<(SessionId, Origin)>)],
    account: &mut Account,
    uncounted: &mut HashMap<i64, HashSet<SessionId>>,
) -> Result<(), SyncError> {
    if gone.iter().all(|(_, sessions)| sessions.is_empty()) {
        return Ok(());
    }
    let failed = |error: rusqlite::Error| store.commit_error(&error);
    let writing = store.write()?;
    let words = match reason.operation {
        Some(_) => &reason.words,
        None => "gone from its home",
    };
    let now = store.now();
    let mut before: HashMap<i64, (&SessionId, Standing)> = HashMap::new();
    for (home, sessions) in gone {
        let revising = Revising::new(&writing, now, words, Some(*home)).map_err(failed)?;
        let mut revising = revising.of_operation(reason.operation);
        for (id, origin) in sessions {
            let standing = Standing::of(&writing, origin.session).map_err(failed)?;
            // Somebody else has looked since.
            if is_overtaken(Some(origin.turn), standing.turn(*home)) {
                continue;
            }
            before.entry(origin.session).or_insert((id, standing));
            origin::note_gone(&writing, &mut revising, origin.session, *home, now).map_err(failed)?;
            account.gone.push(id.clone());
        }
        revising.finish().map_err(failed)?;
    }
    for (session, (id, before)) in before {
        let standing = Standing::of(&writing, session).map_err(failed)?;
        if is_unsettled(&writing, &before, &standing).map_err(failed)? {
            settle(store, &writing, reason, session, id, uncounted).map_err(failed)?;
        }
    }
    origin::refresh(&writing).map_err(failed)?;
    Ok(store.finish(writing)?)
}

/// Shows what is to be shown of a session by now. Another home may lead, or the session may have come back.
fn settle(
    store: &SqliteStore,
    writing: &Writing<'_>,
    reason: &Reason,
    session: i64,
    id: &SessionId,
    uncounted: &mut HashMap<i64, HashSet<SessionId>>,
) -> rusqlite::Result<()> {
    held::settle(writing, store.now(), session, reason.operation)?;
    let looks = origin::looks(writing, session)?;
    match compare::leader(&looks) {
        Some(leader) if leader.is_deep => origin::note_numbers(writing, session, &Numbers::Stored),
        // Its messages were only counted, and the numbers are not kept where another home leads.
        Some(leader) if leader.is_there => {
            uncounted.entry(leader.home).or_default().insert(id.clone());
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Whether documents of a session may have to be shown otherwise than they are, because of something that is true of it as a whole.
fn is_unsettled(connection: &Connection, before: &Standing, after: &Standing) -> rusqlite::Result<bool> {
    let (leaders, now) = (Leaders::of(before.looks()), Leaders::of(after.looks()));
    if before.is_deleted() != after.is_deleted() {
        return Ok(true);
    }
    if !before.is_alone() || !after.is_alone() {
        return Ok(leaders != now);
    }
    // With one home, only what was changed here can be shown otherwise after the session has gone or come back.
    Ok(!before.looks().is_empty() && leaders.is_there != now.is_there && held::has_any(connection)?)
}

/// Whether a chunk needs nothing to be written.
fn is_nothing(chunk: &Chunk) -> bool {
    chunk.findings.is_empty() && chunk.end.as_ref().is_none_or(|end| !end.is_news)
}
