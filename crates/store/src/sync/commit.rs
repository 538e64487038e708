//! Commits the findings of looks, those of each session together with how far the look went. Looks come from several threads; one thread writes.

use std::collections::HashSet;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use annals_core::id::SessionId;

use super::look::Chunk;
use super::survey::Job;
use super::{SyncError, SyncOutcome, Uncounted};
use crate::follow::{Applied, AppliedPiece, CommitReason, Follow, HomeNumber, Indexing, LookPiece};

/// Document bytes at which a batch is committed.
const COMMIT_BYTES: usize = 8 << 20;
/// Sessions at which a batch is committed.
const COMMIT_SESSIONS: usize = 256;
/// Time after which a batch is committed: other processes wait to write.
const COMMIT_AFTER: Duration = Duration::from_millis(500);

/// The writer of a sync, for one home.
pub(super) struct Committing<'c> {
    pub(super) store: &'c dyn Follow,
    pub(super) home: HomeNumber,
    pub(super) reason: &'c CommitReason,
    pub(super) outcome: &'c mut SyncOutcome,
    pub(super) uncounted: &'c mut Uncounted,
}

/// Counts of a chunk that was handed to the store. They are added up once the store has committed it.
struct Handed {
    job: usize,
    n_seen: usize,
    n_unchanged: usize,
    /// With the last chunk of a session: whether any document has changed.
    end: Option<bool>,
}

impl<'c> Committing<'c> {
    /// Commits looks as they come. Returns the jobs whose looks were overtaken.
    pub(super) fn looks(
        &mut self,
        jobs: &[Job],
        receiver: &Receiver<Chunk>,
        indexing: &mut Option<Box<dyn Indexing + '_>>,
    ) -> Result<HashSet<usize>, SyncError> {
        let mut overtaken = HashSet::new();
        let mut next = receiver.recv().ok();
        while next.is_some() {
            // Looks that found nothing need no transaction.
            while let Some(chunk) = next.take_if(|chunk| is_nothing(chunk)) {
                self.outcome.seen += chunk.n_seen;
                self.outcome.unchanged += chunk.findings.n_unchanged;
                self.outcome.looked += usize::from(chunk.end.is_some());
                self.outcome.quarantined.extend(chunk.end.into_iter().flat_map(|end| end.end.quarantined));
                next = receiver.recv().ok();
            }
            if let Some(first) = next.take() {
                next = self.batch(jobs, first, receiver, &mut overtaken, indexing)?;
            }
        }
        Ok(overtaken)
    }

    /// Commits a chunk and those that come soon after it. Returns the first chunk that is left over.
    fn batch(
        &mut self,
        jobs: &[Job],
        first: Chunk,
        receiver: &Receiver<Chunk>,
        overtaken: &mut HashSet<usize>,
        indexing: &mut Option<Box<dyn Indexing + '_>>,
    ) -> Result<Option<Chunk>, SyncError> {
        let began = Instant::now();
        let (mut next, mut left) = (Some(first), None);
        let (mut n_bytes, mut n_sessions) = (0, 0);
        let mut handed: Vec<Handed> = Vec::new();
        let mut pieces = std::iter::from_fn(|| {
            if next.is_none() && !handed.is_empty() {
                let more = receiver.recv().ok()?;
                let is_full = n_bytes >= COMMIT_BYTES || n_sessions >= COMMIT_SESSIONS;
                match is_full || began.elapsed() >= COMMIT_AFTER {
                    true => left = Some(more),
                    false => next = Some(more),
                }
            }
            let chunk = next.take()?;
            n_bytes += chunk.n_bytes;
            n_sessions += usize::from(chunk.end.is_some());
            handed.push(Handed {
                job: chunk.job,
                n_seen: chunk.n_seen,
                n_unchanged: chunk.findings.n_unchanged,
                end: chunk.end.as_ref().map(|end| end.is_changed),
            });
            Some(LookPiece {
                session: &jobs[chunk.job].sighting.session,
                known: jobs[chunk.job].known.as_ref(),
                look: chunk.look,
                findings: chunk.findings,
                end: chunk.end.map(|end| end.end),
            })
        });
        let committed = self.store.commit_looks(self.home, self.reason, &mut pieces)?;
        for (handed, applied) in handed.into_iter().zip(committed.applied) {
            match applied {
                Applied::Overtaken => drop(overtaken.insert(handed.job)),
                Applied::Done(piece) => self.count(&jobs[handed.job], &handed, piece),
            }
        }
        if let (Some(indexing), Some(to_index)) = (&mut *indexing, committed.to_index) {
            indexing.add(to_index);
        }
        Ok(left)
    }

    fn count(&mut self, job: &Job, handed: &Handed, piece: AppliedPiece) {
        self.outcome.seen += handed.n_seen;
        self.outcome.unchanged += handed.n_unchanged + piece.taken.unchanged;
        self.outcome.imported += piece.taken.imported;
        self.outcome.deleted += piece.deleted;
        self.outcome.quarantined.extend(piece.quarantined);
        add_uncounted(self.uncounted, piece.uncounted);
        let Some(is_changed) = handed.end else { return };
        self.outcome.looked += 1;
        match job.known {
            None => self.outcome.new += 1,
            Some(_) => self.outcome.changed += usize::from(is_changed),
        }
        if piece.leads {
            self.uncounted.get_mut(&self.home).map(|sessions| sessions.remove(&job.sighting.session));
        }
    }
}

/// Adds sessions whose messages have to be counted.
pub(super) fn add_uncounted(uncounted: &mut Uncounted, sessions: Vec<(HomeNumber, SessionId)>) {
    for (home, session) in sessions {
        uncounted.entry(home).or_default().insert(session);
    }
}

/// Whether nothing has to be written for a chunk.
fn is_nothing(chunk: &Chunk) -> bool {
    chunk.findings.n_found == 0 && chunk.end.as_ref().is_none_or(|end| !end.is_news)
}
