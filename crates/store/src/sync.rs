//! Bringing a store up to date with the homes of agents.
//!
//! A home is surveyed first, which costs a few system calls for each session; only sessions that may have changed are
//! looked at. Looks are made in parallel and compare what they find with the store; one writer commits what differs,
//! together with how far each look went. So a sync that is interrupted has finished some sessions completely, and the next
//! sync continues. What a home deletes or rewrites becomes a revision; a session that is gone stays, marked as gone.

mod change_log;
mod commit;
pub(crate) mod compare;
mod evidence;
mod look;
pub mod source;
mod survey;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

use annals_core::id::SessionId;
use rayon::prelude::*;

pub use crate::follow::SyncError;
use crate::follow::{
    CommitReason, ComparedHome, Depth, Follow, GoneFrom, HomeNumber, HomeState, Indexing, Taken,
};
use crate::home::{Quarantined, ReadError};
use crate::parallel;
use commit::Committing;
use evidence::takes_orphans;
use look::{Tour, look_at};
use source::Source;
use survey::{HomePlan, Job, Scope};

/// Number of sessions up to which they are looked at one after the other: starting threads would take longer.
const FEW: usize = 8;
/// Number of chunks that readers send before they wait for the writer.
const CHUNKS_AHEAD: usize = 16;
/// Upper bound on the looks at a session that another process keeps overtaking. Each time, that process has just looked at it too.
const MAX_ROUNDS: usize = 20;

/// Reason that the commits of a sync carry.
const REASON: &str = "sync";

/// How far a sync goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Session documents, with the counts of their messages and parts: enough to list sessions.
    Messages,
    /// Also the usage of each message and each tool call: enough for statistics.
    Calls,
    /// Everything.
    Parts,
    /// Everything, and the text index.
    Text,
}

impl Stage {
    fn depth(self) -> Depth {
        match self {
            Stage::Messages => Depth::Messages,
            Stage::Calls => Depth::Calls,
            Stage::Parts | Stage::Text => Depth::Parts,
        }
    }
}

/// How to sync.
#[derive(Debug, Clone, Copy)]
pub struct SyncOptions {
    /// How far to go.
    pub stage: Stage,
    /// Look at every document, even if the survey says that nothing has changed.
    pub full: bool,
    /// Import earlier states of documents from OpenCode's own log of changes.
    pub events: bool,
    /// Whether the homes are the user's own. Other homes are only sources: operations do not change them.
    pub own: bool,
}

impl SyncOptions {
    /// Options to sync the user's own homes up to a stage.
    pub fn to(stage: Stage) -> SyncOptions {
        SyncOptions { stage, full: false, events: false, own: true }
    }
}

/// Outcome of a sync. Of documents, `seen = imported + unchanged + quarantined`.
#[derive(Debug, Clone, Default)]
pub struct SyncOutcome {
    /// Sessions in the homes.
    pub sessions: usize,
    /// Sessions that were looked at.
    pub looked: usize,
    /// Sessions seen for the first time.
    pub new: usize,
    /// Sessions that were known before and have changed.
    pub changed: usize,
    /// Sessions that are no longer where they were.
    pub gone: Vec<SessionId>,
    /// Sessions that were skipped because they were forgotten.
    pub forgotten: usize,
    /// Documents that were looked at.
    pub seen: usize,
    /// Documents imported, new or changed.
    pub imported: usize,
    /// Documents that have not changed.
    pub unchanged: usize,
    /// Documents that are gone from their home.
    pub deleted: usize,
    /// Earlier states imported from OpenCode's log of changes.
    pub recorded: usize,
    /// Documents added to the text index, new or again.
    pub indexed: usize,
    /// Documents that could not be read, with the reasons.
    pub quarantined: Vec<Quarantined>,
    /// Homes that could not be read at all.
    pub failed: Vec<String>,
}

impl SyncOutcome {
    /// Adds the outcome of another sync.
    pub fn add(&mut self, other: SyncOutcome) {
        self.sessions += other.sessions;
        self.looked += other.looked;
        self.new += other.new;
        self.changed += other.changed;
        self.gone.extend(other.gone);
        self.forgotten += other.forgotten;
        self.seen += other.seen;
        self.imported += other.imported;
        self.unchanged += other.unchanged;
        self.deleted += other.deleted;
        self.recorded += other.recorded;
        self.indexed += other.indexed;
        self.quarantined.extend(other.quarantined);
        self.failed.extend(other.failed);
    }
}

/// Receiver of a sync's progress.
pub trait Progress: Sync {
    /// `_sessions` sessions are about to be looked at in `_home`.
    fn begin(&self, _home: &str, _sessions: usize) {}
    /// One more session is done.
    fn step(&self) {}
    /// `_done` of `_total` documents are in the text index.
    fn index(&self, _done: usize, _total: usize) {}
}

impl Progress for () {}

/// Brings a store up to date with homes. A home that cannot be read does not stop the others.
pub fn sync(
    store: &dyn Follow,
    homes: &[&dyn Source],
    options: SyncOptions,
    progress: &dyn Progress,
) -> Result<SyncOutcome, SyncError> {
    let reason = CommitReason { words: REASON.to_owned(), operation: None };
    run(store, homes, options, Scope::All, &reason, progress)
}

/// Looks at some sessions of homes again, even if the evidence shows no change: an operation has changed them.
pub(crate) fn look_again(
    store: &dyn Follow,
    homes: &[&dyn Source],
    own: bool,
    stage: Stage,
    sessions: &HashSet<SessionId>,
    reason: &CommitReason,
) -> Result<SyncOutcome, SyncError> {
    let options = SyncOptions { own, ..SyncOptions::to(stage) };
    let outcome = run(store, homes, options, Scope::Only(sessions), reason, &())?;
    match outcome.failed.first() {
        Some(failed) => {
            let path = homes.iter().map(|home| home.url().to_string()).collect::<Vec<_>>().join(", ");
            Err(ReadError::Io { path, source: std::io::Error::other(failed.clone()) }.into())
        }
        None => Ok(outcome),
    }
}

/// Imports the session documents that an operation changed, and nothing else of these sessions. False if the store does not know the
/// sessions in this home yet, so that a look is needed.
pub(crate) fn take_sessions(
    store: &dyn Follow,
    home: &dyn Source,
    sessions: &HashSet<SessionId>,
    reason: &CommitReason,
) -> Result<bool, SyncError> {
    let Some(known) = store.known_home(&home.url())? else { return Ok(false) };
    let mut records = Vec::new();
    for session in sessions {
        let Some(record) = home.session(session)? else { return Ok(false) };
        records.push(record);
    }
    store.commit_sessions(known.number, reason, &records)
}

/// Sessions in which another home leads by now, grouped by that home: their messages have to be counted there.
type Uncounted = HashMap<HomeNumber, HashSet<SessionId>>;

fn run(
    store: &dyn Follow,
    homes: &[&dyn Source],
    options: SyncOptions,
    scope: Scope<'_>,
    reason: &CommitReason,
    progress: &dyn Progress,
) -> Result<SyncOutcome, SyncError> {
    let mut outcome = SyncOutcome::default();
    let mut indexing = match options.stage {
        Stage::Text => Some(store.begin_indexing()?),
        _ => None,
    };
    let mut uncounted = Uncounted::new();
    let mut surveyed: Vec<(&dyn Source, Surveyed)> = Vec::new();
    for home in homes {
        let mut sync = HomeSync {
            store,
            source: *home,
            options,
            scope,
            reason,
            progress,
            outcome: &mut outcome,
            indexing: &mut indexing,
            uncounted: &mut uncounted,
        };
        match sync.run() {
            Err(SyncError::Read(error)) => {
                tracing::warn!(home = ?home.url(), %error, "a home could not be read");
                outcome.failed.push(error.to_string());
            }
            other => surveyed.extend(other?.map(|surveyed| (*home, surveyed))),
        }
    }
    // Which homes still have a session is known only after all of them were surveyed.
    let gone: Vec<GoneFrom> = surveyed
        .iter_mut()
        .map(|(_, Surveyed { home, plan, .. })| GoneFrom {
            home: *home,
            sessions: std::mem::take(&mut plan.gone),
        })
        .filter(|gone| !gone.sessions.is_empty())
        .collect();
    if !gone.is_empty() {
        let committed = store.commit_gone(reason, &gone)?;
        outcome.gone.extend(committed.gone);
        commit::add_uncounted(&mut uncounted, committed.uncounted);
    }
    for (home, surveyed) in surveyed {
        let Surveyed { home: number, plan, unreadable, has_orphans } = surveyed;
        let sessions = uncounted.remove(&number).unwrap_or_default();
        if !sessions.is_empty() {
            let mut sync = HomeSync {
                store,
                source: home,
                options,
                scope: Scope::Only(&sessions),
                reason,
                progress: &(),
                outcome: &mut outcome,
                indexing: &mut indexing,
                uncounted: &mut uncounted,
            };
            sync.run()?;
        }
        if matches!(scope, Scope::All) {
            note_home(store, number, &plan, unreadable, has_orphans, &mut outcome)?;
        }
    }
    if options.own && matches!(scope, Scope::All) {
        store.note_place()?;
    }
    if let Some(indexing) = indexing {
        outcome.indexed = indexing.finish(&|done, total| progress.index(done, total))?;
        tracing::debug!(documents = outcome.indexed, "brought the text index up to date");
    }
    Ok(outcome)
}

/// Notes the evidence of a whole home. If something could not be read, the noted evidence is empty, so that the home is looked at again.
fn note_home(
    store: &dyn Follow,
    home: HomeNumber,
    plan: &HomePlan,
    unreadable: Vec<Quarantined>,
    is_complete: bool,
    outcome: &mut SyncOutcome,
) -> Result<(), SyncError> {
    let stamp = if unreadable.is_empty() { &plan.stamp[..] } else { &[] };
    let state = HomeState { stamp, unreadable: &unreadable, is_complete, surveyed: plan.asked.began };
    store.note_home(home, &state)?;
    outcome.seen += unreadable.len();
    outcome.quarantined.extend(unreadable);
    Ok(())
}

/// The sync of one home.
struct HomeSync<'s, 'i> {
    store: &'s dyn Follow,
    source: &'s dyn Source,
    options: SyncOptions,
    scope: Scope<'s>,
    reason: &'s CommitReason,
    progress: &'s dyn Progress,
    outcome: &'s mut SyncOutcome,
    indexing: &'s mut Option<Box<dyn Indexing + 'i>>,
    uncounted: &'s mut Uncounted,
}

/// A home whose sessions were looked at.
struct Surveyed {
    home: HomeNumber,
    plan: HomePlan,
    /// Documents of no session that could not be read.
    unreadable: Vec<Quarantined>,
    /// Whether parts that belong to no message were imported as well.
    has_orphans: bool,
}

impl HomeSync<'_, '_> {
    /// Looks at all sessions of the home that may have changed. `None` if there was nothing to do.
    fn run(&mut self) -> Result<Option<Surveyed>, SyncError> {
        self.store.recognise(self.source, self.options.own)?;
        let plan = survey::plan(self.store, self.source, self.options, self.scope, self.outcome)?;
        let Some(mut plan) = plan else {
            tracing::debug!(home = ?self.source.url(), "nothing has changed");
            return Ok(None);
        };
        tracing::debug!(home = ?self.source.url(), sessions = plan.jobs.len(), gone = plan.gone.len(), "sync a home");
        self.progress.begin(&self.source.url().to_string(), plan.jobs.len());
        let home = match &plan.known {
            Some(home) => home.number,
            None => self.store.add_home(self.source, self.options.own)?,
        };
        let mut unreadable = std::mem::take(&mut plan.unreadable);
        if plan.has_new_projects || self.options.full {
            unreadable.extend(self.take_projects(home)?);
        }
        unreadable.extend(self.look_at_sessions(home, &mut plan)?);
        let is_all = matches!(self.scope, Scope::All);
        let mut has_orphans = false;
        if is_all && takes_orphans(plan.asked, plan.is_first) {
            let unlisted = self.take_orphans(home, &plan)?;
            has_orphans = unlisted.is_empty();
            // Looks have reported some of these problems already.
            let is_told = |problem: &Quarantined| {
                self.outcome.quarantined.iter().any(|known| known.place == problem.place)
            };
            unreadable.extend(unlisted.into_iter().filter(|problem| !is_told(problem)));
        }
        if is_all
            && self.options.events
            && let Some(log) = self.source.change_log()
        {
            change_log::take(self.store, log, home, self.outcome)?;
        }
        Ok(Some(Surveyed { home, plan, unreadable, has_orphans }))
    }

    /// Imports project records. They are few: all of them are read when any has changed. Returns the ones that could not be read.
    fn take_projects(&mut self, home: HomeNumber) -> Result<Vec<Quarantined>, SyncError> {
        let found = self.source.projects()?;
        self.count(found.value.len(), self.store.commit_projects(home, self.reason, &found.value)?);
        Ok(found.quarantined)
    }

    fn count(&mut self, n_seen: usize, taken: Taken) {
        self.outcome.seen += n_seen;
        self.outcome.imported += taken.imported;
        self.outcome.unchanged += taken.unchanged;
    }

    /// Looks at sessions until no other process overtakes a look. Returns documents of no session that could not be read.
    fn look_at_sessions(
        &mut self,
        home: HomeNumber,
        plan: &mut HomePlan,
    ) -> Result<Vec<Quarantined>, SyncError> {
        let mut unreadable = Vec::new();
        for _ in 0..MAX_ROUNDS {
            if plan.jobs.is_empty() {
                break;
            }
            let (overtaken, problems) = self.look_once(home, plan)?;
            unreadable.extend(problems);
            if overtaken.is_empty() {
                break;
            }
            let origins = self.store.origins(home)?;
            let jobs = std::mem::take(&mut plan.jobs).into_iter().enumerate();
            plan.jobs = jobs
                .filter(|(index, _)| overtaken.contains(index))
                .map(|(_, job)| {
                    let known = origins.get(&job.sighting.session).cloned();
                    // The evidence is out of date. Without evidence, the session is looked at again next time.
                    let sighting = source::Sighting { stamp: Vec::new(), ..job.sighting };
                    Job { sighting, known, reading: evidence::Reading::Whole }
                })
                .collect();
        }
        Ok(unreadable)
    }

    fn look_once(
        &mut self,
        home: HomeNumber,
        plan: &HomePlan,
    ) -> Result<(HashSet<usize>, Vec<Quarantined>), SyncError> {
        let jobs = &plan.jobs;
        let (sender, receiver) = mpsc::sync_channel(CHUNKS_AHEAD);
        let compared = ComparedHome { number: home, rank: self.source.rank(), is_own: self.options.own };
        let tour = Tour {
            store: self.store,
            source: self.source,
            compare: self.store.compare(compared, self.options.stage == Stage::Text)?,
            asked: plan.asked,
            sender,
        };
        let is_stopped = AtomicBool::new(false);
        let progress = self.progress;
        let (overtaken, looked) = std::thread::scope(|scope| {
            let is_stopped = &is_stopped;
            let reader = scope.spawn(move || {
                let look_at = |(index, job): (usize, &Job)| -> Result<(), ReadError> {
                    if is_stopped.load(Ordering::Relaxed) {
                        return Ok(());
                    }
                    let looked = look_at(&tour, index, job);
                    progress.step();
                    looked
                };
                if jobs.len() <= FEW {
                    return jobs.iter().enumerate().map(look_at).collect();
                }
                parallel::run(|| jobs.par_iter().enumerate().with_max_len(1).map(look_at).collect::<Vec<_>>())
            });
            let mut committing = Committing {
                store: self.store,
                home,
                reason: self.reason,
                outcome: self.outcome,
                uncounted: self.uncounted,
            };
            let written = committing.looks(jobs, &receiver, self.indexing);
            // Readers that wait for a writer that has failed must not wait forever.
            is_stopped.store(written.is_err(), Ordering::Relaxed);
            drop(receiver);
            let looked = reader.join().unwrap_or_default();
            written.map(|overtaken| (overtaken, looked))
        })?;
        let mut unreadable = Vec::new();
        for error in looked.into_iter().filter_map(Result::err) {
            match error {
                ReadError::Unreadable(quarantined) => unreadable.push(quarantined),
                error => self.outcome.failed.push(error.to_string()),
            }
        }
        Ok((overtaken, unreadable))
    }

    /// Imports parts that belong to no message any more. Returns what could not be read: while something cannot be listed, it is not
    /// certain which parts belong to no message.
    fn take_orphans(&mut self, home: HomeNumber, plan: &HomePlan) -> Result<Vec<Quarantined>, SyncError> {
        let mut orphans = self.source.orphans()?;
        let is_wanted = |stored: &annals_core::Stored| {
            !stored.key.session().is_some_and(|session| plan.forgotten.contains(session))
        };
        orphans.value.retain(is_wanted);
        self.count(orphans.value.len(), self.store.commit_orphans(home, self.reason, &orphans.value)?);
        Ok(orphans.quarantined)
    }
}
