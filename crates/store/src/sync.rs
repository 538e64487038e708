//! Bringing a store up to date with the homes of agents.
//!
//! A home is surveyed first, which costs a few system calls for each session; only sessions that may have changed are
//! looked at. Looks are made in parallel and compare what they find with the store; one writer commits what differs,
//! together with how far each look went. So a sync that is cut short has done some sessions completely, and the next one
//! goes on. What a home deletes or rewrites becomes a revision; a session that is gone stays, and is known to be gone.

mod events;
pub mod source;

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::time::{Duration, Instant};

use annals_core::id::{MessageId, Millis, PartId, SessionId};
use annals_core::lens::{Message, Session};
use annals_core::{ContentHash, Key, Stored};
use rayon::prelude::*;

use crate::figures::Figures;
use crate::home::annals::Annals;
use crate::home::annals::facts::Prepared;
use crate::home::annals::revise::{Put, Revising};
use crate::home::annals::synced::{self, Comparing, Depth, Ended, Finding, Numbers, Origin, Standing, Text};
use crate::home::annals::text_index::Indexing;
use crate::home::annals::text_index::entry::{Context, Entry};
use crate::home::{CommitError, Quarantined, ReadError, Reason, SessionRecord, Want};
use crate::parallel;
use crate::search::SearchError;
use crate::summary::{self, SessionState, SessionSummary};
use source::{Seen, Sighting, Source, look};

/// How long nothing must have been written to a session for it to count as settled. OpenCode sets marks and adds summaries
/// for moments after an answer; a summary waits for a model.
const SETTLING: Millis = 10 * 60 * 1000;
/// An answer that has not ended after so long will not: its process is gone. OpenCode never mends such sessions.
const ABANDONED: Millis = 7 * 24 * 60 * 60 * 1000;
/// Clocks of file systems are coarser than ours.
const SLACK: Millis = 2000;
/// So many bytes of documents, or so many sessions, are committed together.
const COMMIT_BYTES: usize = 8 << 20;
const COMMIT_SESSIONS: usize = 256;
const COMMIT_AFTER: Duration = Duration::from_millis(500);
/// So few sessions are looked at one after the other: threads would take longer to begin.
const FEW: usize = 8;
/// So much is handed to the writer at once, and so often before readers wait for it.
const CHUNK_BYTES: usize = 512 << 10;
const CHUNKS_AHEAD: usize = 16;

/// Why what sync found is committed.
const REASON: &str = "sync";

/// How far a sync goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Session documents, with the numbers of their messages and parts: enough to list them.
    Messages,
    /// The same, with what each message took and each tool call: enough to add them up.
    Calls,
    /// Everything.
    Parts,
    /// Everything, and the text index.
    Text,
}

/// How to sync.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// How far.
    pub stage: Stage,
    /// Look at every document, whatever a survey says.
    pub full: bool,
    /// Take over what OpenCode's own log of changes tells about earlier times.
    pub events: bool,
}

/// What a sync did. Of documents, `seen = imported + unchanged + quarantined`.
#[derive(Debug, Clone, Default)]
pub struct Account {
    /// Sessions in the homes.
    pub sessions: usize,
    /// Sessions that were looked at.
    pub looked: usize,
    /// Sessions seen for the first time.
    pub new: usize,
    /// Sessions known before of which something has changed.
    pub changed: usize,
    /// Sessions that are no longer where they were.
    pub gone: Vec<SessionId>,
    /// Sessions that were forgotten, and so left alone.
    pub forgotten: usize,
    /// Documents that were looked at.
    pub seen: usize,
    /// Documents taken over, new or changed.
    pub imported: usize,
    /// Documents found as they were.
    pub unchanged: usize,
    /// Documents that are gone from their home.
    pub deleted: usize,
    /// States taken from OpenCode's log of changes.
    pub recorded: usize,
    /// Documents added to the text index, again or for the first time.
    pub indexed: usize,
    /// What could not be read, with the reasons.
    pub quarantined: Vec<Quarantined>,
    /// Homes that could not be read at all.
    pub failed: Vec<String>,
}

/// A sync ended early. What was done until then is committed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SyncError {
    /// The store could not be written to.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// The store could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The text index could not be written.
    #[error(transparent)]
    Index(#[from] SearchError),
}

/// Told how a sync goes on.
pub trait Progress: Sync {
    /// So many sessions are to be looked at in a home.
    fn begin(&self, _home: &str, _sessions: usize) {}
    /// One more is done.
    fn step(&self) {}
    /// So many documents of so many are in the text index.
    fn index(&self, _done: usize, _total: usize) {}
}

impl Progress for () {}

/// Brings a store up to date. A home that cannot be read does not keep the others from being.
pub fn sync(
    store: &Annals,
    homes: &[&dyn Source],
    options: Options,
    progress: &dyn Progress,
) -> Result<Account, SyncError> {
    let mut account = Account::default();
    let mut indexing = match options.stage {
        Stage::Text => Some(store.begin_indexing()?),
        _ => None,
    };
    for home in homes {
        match sync_home(store, *home, options, progress, &mut account, &mut indexing) {
            Err(SyncError::Read(error)) => account.failed.push(error.to_string()),
            other => other?,
        }
    }
    if let Some(indexing) = indexing {
        account.indexed = indexing.finish(&|done, total| progress.index(done, total))?.documents;
    }
    Ok(account)
}

/// A session to be looked at.
struct Job {
    sighting: Sighting,
    known: Option<Origin>,
}

/// Something for the writer.
struct Chunk {
    job: usize,
    findings: Vec<Finding>,
    tally: Tally,
    /// With the last chunk of a session.
    end: Option<End>,
}

struct End {
    ended: Ended,
    /// Whether anything has to be noted at all.
    is_news: bool,
    /// Whether any document was found otherwise than it was.
    is_changed: bool,
}

/// Documents of a look.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    seen: usize,
    unchanged: usize,
    bytes: usize,
}

fn sync_home(
    store: &Annals,
    source: &dyn Source,
    options: Options,
    progress: &dyn Progress,
    account: &mut Account,
    indexing: &mut Option<Indexing<'_>>,
) -> Result<(), SyncError> {
    let url = source.url();
    let began = store.now();
    let known_home = store.known_home(&url)?;
    let origins = match &known_home {
        Some(home) => store.origins(home.n)?,
        None => Default::default(),
    };
    let depth = match options.stage {
        Stage::Messages => Depth::Messages,
        Stage::Calls => Depth::Calls,
        Stage::Parts | Stage::Text => Depth::Parts,
    };
    // A look in the future was made by a clock that was ahead: it says nothing about what came after.
    let is_done = |origin: &Origin| {
        origin.is_gone || (origin.settled && origin.depth >= depth && origin.looked <= began)
    };
    // Nobody has written to the file of a database: then nothing in it has changed.
    // A file that was written to only just now can be written to again without a trace.
    let file = source.as_database().map(|database| database.stamp());
    let file = file.map(|(stamp, changed)| if changed < began - SLACK { stamp } else { Vec::new() });
    if let (Some(file), Some(home)) = (&file, &known_home)
        && !options.full
        && !options.events
        && !file.is_empty()
        && *file == file_stamp(&home.stamp)
        && origins.values().all(is_done)
    {
        account.sessions += origins.values().filter(|origin| !origin.is_gone).count();
        return Ok(());
    }
    let survey = source.survey()?;
    account.sessions += survey.sessions.len();
    let forgotten = store.forgotten()?;
    let is_forgotten = |session: &SessionId| {
        !forgotten.is_empty()
            && forgotten.contains(&ContentHash::of(session.as_str().as_bytes()).as_bytes()[..16])
    };
    let mut jobs = Vec::new();
    let mut present = HashSet::with_capacity(survey.sessions.len());
    for sighting in survey.sessions {
        present.insert(sighting.session.clone());
        if is_forgotten(&sighting.session) {
            account.forgotten += 1;
            continue;
        }
        let known = origins.get(&sighting.session).cloned();
        let is_unchanged = known.as_ref().is_some_and(|origin| {
            !origin.is_gone && is_done(origin) && !sighting.stamp.is_empty() && origin.stamp == sighting.stamp
        });
        if !is_unchanged || options.full {
            jobs.push(Job { sighting, known });
        }
    }
    // Where something could not be listed, what is missing may be in there.
    let is_listed = survey.quarantined.iter().all(|problem| matches!(problem.reason, Reason::BadName(_)));
    let gone: Vec<(&SessionId, &Origin)> = match is_listed {
        true => origins.iter().filter(|(id, origin)| !origin.is_gone && !present.contains(*id)).collect(),
        false => Vec::new(),
    };
    // One that was cut short, or went for messages only, has not been there for parts.
    let is_first = known_home.as_ref().is_none_or(|home| home.stamp.is_empty())
        || origins.values().all(|origin| origin.depth < Depth::Parts);
    let projects_stamp = ContentHash::of(&survey.projects);
    let home_stamp = [&projects_stamp.as_bytes()[..16], file.as_deref().unwrap_or_default()].concat();
    let is_same_home = known_home.as_ref().is_some_and(|home| home.stamp == home_stamp);
    if jobs.is_empty() && gone.is_empty() && is_same_home && !options.events && survey.quarantined.is_empty()
    {
        return Ok(());
    }
    progress.begin(&url, jobs.len());
    let home = match &known_home {
        Some(home) => home.n,
        None => {
            let failed = |error: rusqlite::Error| store.commit_error(&error);
            let writing = store.write()?;
            let home = synced::home_number(&writing, &url, source.as_database().is_some()).map_err(failed)?;
            store.finish(writing)?;
            home
        }
    };
    let projects_changed =
        known_home.as_ref().is_none_or(|home| !home.stamp.starts_with(&projects_stamp.as_bytes()[..16]));
    // What could not be read and is of no session that could.
    let mut unreadable = survey.quarantined;
    if projects_changed || options.full {
        unreadable.extend(sync_projects(store, source, home, account)?);
    }
    let numbers = if jobs.is_empty() { HashMap::new() } else { store.session_numbers()? };
    let is_stopped = AtomicBool::new(false);
    let (sender, receiver) = mpsc::sync_channel(CHUNKS_AHEAD);
    let outcome = std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let tour = Tour { store, source, home, depth, began, options, numbers, sender };
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
            parallel::run_as(source.work(), || {
                jobs.par_iter().enumerate().with_max_len(1).map(look_at).collect::<Vec<_>>()
            })
        });
        let written = write(store, home, &jobs, &receiver, account, indexing);
        // Readers that wait for the writer must not wait for ever.
        is_stopped.store(written.is_err(), Ordering::Relaxed);
        drop(receiver);
        let read = reader.join().unwrap_or_default();
        written.map(|()| read)
    })?;
    for error in outcome.into_iter().filter_map(Result::err) {
        match error {
            ReadError::Unreadable(quarantined) => unreadable.push(quarantined),
            error => account.failed.push(error.to_string()),
        }
    }
    let orphans = match depth == Depth::Parts && (is_first || options.full) {
        true => match source.orphans() {
            Ok(orphans) => orphans,
            // As long as not everything can be listed, nobody knows what belongs to nothing. A look has said so already, if
            // it is about a session.
            Err(ReadError::Unreadable(problem)) => {
                let is_known = account.quarantined.iter().any(|known| known.place == problem.place);
                unreadable.extend(Some(problem).filter(|_| !is_known));
                Vec::new()
            }
            Err(error) => return Err(error.into()),
        },
        false => Vec::new(),
    };
    let orphans = orphans.into_iter().filter(|stored| !stored.key.session().is_some_and(is_forgotten));
    finish_home(store, home, &gone, orphans.collect(), account)?;
    if options.events
        && let Some(database) = source.as_database()
    {
        events::take(store, database, home, account)?;
    }
    // The evidence was gathered before anything was read; what was written meanwhile is found next time. Of a home in which
    // something could not be read there is none, so that it is looked at again.
    let stamp = if unreadable.is_empty() { home_stamp } else { Vec::new() };
    let is_noted = known_home.as_ref().is_some_and(|home| home.stamp == stamp);
    if !is_noted || !store.is_home_quarantine(home, &unreadable)? {
        let failed = |error: rusqlite::Error| store.commit_error(&error);
        let writing = store.write()?;
        synced::note_home_quarantine(&writing, home, &unreadable, began).map_err(failed)?;
        synced::note_home(&writing, home, &stamp, began).map_err(failed)?;
        store.finish(writing)?;
    }
    account.seen += unreadable.len();
    account.quarantined.extend(unreadable);
    Ok(())
}

/// The part of a home's stamp that is about its file.
fn file_stamp(stamp: &[u8]) -> Vec<u8> {
    stamp.get(16..).unwrap_or_default().to_vec()
}

/// Project records are few: all of them are read when any has changed. Returns those that could not be.
fn sync_projects(
    store: &Annals,
    source: &dyn Source,
    home: i64,
    account: &mut Account,
) -> Result<Vec<Quarantined>, SyncError> {
    let found = source.projects()?;
    let failed = |error: rusqlite::Error| store.commit_error(&error);
    let writing = store.write()?;
    let mut revising = Revising::new(&writing, store.now(), REASON, Some(home)).map_err(failed)?;
    for stored in found.value {
        account.seen += 1;
        let known = revising.state(&stored.key).map_err(failed)?;
        // Every home has its own record of a project, with its own times; the one that was there first stays.
        let is_others = known.is_some_and(|known| known.is_present && known.home != Some(home));
        let prepared = Prepared::new(&stored.key, &stored.document, false);
        let is_written = !is_others
            && revising.put(&stored.key, &prepared, Some(&stored.document)).map_err(failed)?
                != Put::Unchanged;
        match is_written {
            true => account.imported += 1,
            false => account.unchanged += 1,
        }
    }
    revising.finish().map_err(failed)?;
    store.finish(writing)?;
    Ok(found.quarantined)
}

/// What all looks at the sessions of a home have in common.
struct Tour<'t> {
    store: &'t Annals,
    source: &'t dyn Source,
    home: i64,
    depth: Depth,
    /// When the home was surveyed.
    began: Millis,
    options: Options,
    /// Of the sessions that the store had when the home was surveyed. To ask for each would take longer.
    numbers: HashMap<String, i64>,
    sender: SyncSender<Chunk>,
}

/// Looks at one session and sends what has changed.
fn look_at(tour: &Tour<'_>, index: usize, job: &Job) -> Result<(), ReadError> {
    let &Tour { store, source, home, depth, began, options, ref numbers, ref sender } = tour;
    let id = &job.sighting.session;
    // What was looked at in depth once is kept up to date in depth: only what was written since is read.
    let depth = job.known.as_ref().map_or(depth, |known| known.depth.max(depth));
    let looked = store.now();
    let Some(record) = source.sighted(&job.sighting)? else { return Ok(()) };
    let session = record.stored.document.lens::<Session<'_>>();
    let updated = session.time.and_then(|time| time.updated).unwrap_or(0);
    let number = numbers.get(id.as_str()).copied();
    let (standing, has_messages) = match number {
        Some(number) => (store.standing(id, home, updated)?, store.has_messages(number)?),
        None => (Standing::Only, false),
    };
    let comparing =
        Comparing { store, session: id.clone(), home, standing, is_new: number.is_none(), has_messages };
    // A look that went less deep says nothing about what was below, and one in the future nothing about what came after.
    let can_skip = |known: &&Origin| {
        known.depth >= depth
            && known.looked <= began
            && !known.is_gone
            && !known.has_unreadable
            && !options.full
    };
    let since = job.known.as_ref().filter(can_skip);
    let since = since.map(|known| known.looked - SLACK);
    let mut looking = Looking {
        comparing,
        index,
        sender,
        findings: Vec::new(),
        tally: Tally::default(),
        is_stopped: false,
        has_findings: false,
        is_indexed: options.stage == Stage::Text,
        context: None,
    };
    looking.document(record.stored.key.clone(), &record.stored.document, false)?;
    if depth < Depth::Parts {
        let Counted { summary, figures, quarantined } = count(source, &record, depth)?;
        // What comes from OpenCode's second transcript store is not added up, which only its documents tell.
        if !figures.iter().any(|figures| figures.converted) {
            let last = job.sighting.written.max(updated);
            let settled =
                began - last >= SETTLING && quarantined.is_empty() && summary.state != SessionState::Open;
            let ended = Ended {
                stamp: job.sighting.stamp.clone(),
                place: record.stored.place.clone(),
                updated,
                looked,
                settled: settled || began - last >= ABANDONED,
                depth,
                numbers: match standing >= Standing::Latest {
                    true => Numbers::Counted(Box::new(summary), figures),
                    false => Numbers::AsBefore,
                },
                quarantined,
                is_whole: true,
            };
            looking.tally.seen += ended.quarantined.len();
            looking.send(Some(End { ended, is_news: true, is_changed: looking.has_findings }));
            return Ok(());
        }
    }
    let depth = Depth::Parts;
    let mut messages: HashSet<MessageId> = HashSet::new();
    let mut quarantined = Vec::new();
    let (mut is_open, mut last) = (false, job.sighting.written.max(updated));
    let mut failed: Option<ReadError> = None;
    let unvisited = look(source, &record, since, &mut |mut seen| {
        quarantined.append(&mut seen.quarantined);
        messages.insert(seen.id.clone());
        match looking.message(seen, &mut is_open, &mut last) {
            Ok(()) if looking.is_stopped => ControlFlow::Break(()),
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        }
    })?;
    if let Some(error) = failed {
        return Err(error);
    }
    if looking.is_stopped {
        return Ok(());
    }
    let is_complete = unvisited.is_empty();
    quarantined.extend(unvisited);
    let beside = looking.beside(source, id, &mut quarantined)?;
    if is_complete {
        let lost = looking.lost_messages(source, &messages)?;
        looking.extend(lost);
    }
    if let Some(present) = beside {
        let lost = looking.comparing.lost_beside(&present)?;
        looking.extend(lost);
    }
    // What was not read again may still be unfinished.
    if since.is_some()
        && let Some(known) = &job.known
    {
        is_open |= store.is_open(known.session)?;
    }
    let quiet = began - last;
    // What could not be read is tried again.
    let settled = (!is_open && quarantined.is_empty() && quiet >= SETTLING) || quiet >= ABANDONED;
    let is_news = looking.has_findings
        || quarantined.is_empty() == job.known.as_ref().is_some_and(|known| known.has_unreadable)
        || job.known.as_ref().is_none_or(|known| {
            known.settled != settled
                || known.stamp != job.sighting.stamp
                || known.depth < depth
                || known.is_gone
                || known.updated != updated
                || known.looked > began
        });
    looking.tally.seen += quarantined.len();
    let ended = Ended {
        stamp: job.sighting.stamp.clone(),
        place: record.stored.place.clone(),
        updated,
        looked,
        settled,
        depth,
        numbers: Numbers::Stored,
        quarantined,
        is_whole: since.is_none(),
    };
    let is_changed = looking.has_findings;
    looking.send(Some(End { ended, is_news, is_changed }));
    Ok(())
}

/// A session in numbers, with those of its messages if they are wanted.
struct Counted {
    summary: SessionSummary,
    figures: Vec<Figures>,
    quarantined: Vec<Quarantined>,
}

/// Counts what is in a session.
fn count(source: &dyn Source, record: &SessionRecord, depth: Depth) -> Result<Counted, ReadError> {
    let want = if depth == Depth::Messages { Want::PartCounts } else { Want::ToolCalls };
    let mut of_messages = Vec::new();
    let (summary, quarantined) = summary::read(source, record, want, &mut |figures| {
        if depth == Depth::Calls {
            of_messages.push(figures);
        }
    })?;
    Ok(Counted { summary, figures: of_messages, quarantined })
}

/// A look at one session.
struct Looking<'l> {
    comparing: Comparing<'l>,
    index: usize,
    sender: &'l SyncSender<Chunk>,
    findings: Vec<Finding>,
    tally: Tally,
    /// Whether the writer has given up.
    is_stopped: bool,
    has_findings: bool,
    /// Whether what is found goes into the text index as well.
    is_indexed: bool,
    /// The message at hand, if it was read.
    context: Option<Context>,
}

impl Looking<'_> {
    fn document(
        &mut self,
        key: Key,
        document: &annals_core::Document,
        converted: bool,
    ) -> Result<(), ReadError> {
        self.tally.seen += 1;
        self.tally.bytes += document.bytes().len();
        // What a part is to the index depends on its message; where that was not read, the index is told later.
        let can_be_indexed = self.is_indexed
            && match key {
                Key::Session(..) | Key::Message(..) => true,
                Key::Part(..) => self.context.is_some(),
                _ => false,
            };
        let context = self.context.as_ref();
        let text = |key: &Key, document: &_| match can_be_indexed {
            true => Text::Known(Entry::of(key, document, context).map(Box::new)),
            false => Text::Unknown,
        };
        match self.comparing.document(key, document, converted, text)? {
            Some(finding) => {
                if matches!(finding, Finding::Same(..)) {
                    self.tally.unchanged += 1;
                }
                self.findings.push(finding);
                self.has_findings = true;
            }
            None => self.tally.unchanged += 1,
        }
        if self.tally.bytes >= CHUNK_BYTES {
            self.send(None);
        }
        Ok(())
    }

    fn message(&mut self, seen: Seen, is_open: &mut bool, last: &mut Millis) -> Result<(), ReadError> {
        if let Some(stored) = &seen.stored {
            let message = stored.document.lens::<Message<'_>>();
            *last = (*last).max(message.created().unwrap_or(0));
            if let Message::Assistant(answer) = &message {
                let completed = answer.time.as_ref().and_then(|time| time.completed);
                *last = (*last).max(completed.unwrap_or(0));
            }
            *is_open |= annals_core::stream::is_open(&stored.key, &stored.document);
            self.context =
                self.is_indexed.then(|| Context::of(&Figures::of(&message, message.created().unwrap_or(0))));
            self.document(stored.key.clone(), &stored.document, seen.converted)?;
        } else {
            self.context = None;
        }
        let mut present: HashSet<PartId> = HashSet::new();
        for (id, stored) in seen.parts {
            if let Some(stored) = stored {
                *is_open |= annals_core::stream::is_open(&stored.key, &stored.document);
                self.document(stored.key, &stored.document, seen.converted)?;
            }
            present.insert(id);
        }
        if seen.is_complete {
            let lost = self.comparing.lost_parts(&seen.id, &present)?;
            self.extend(lost);
        }
        Ok(())
    }

    /// What stands beside the session. None if that is not certain.
    fn beside(
        &mut self,
        source: &dyn Source,
        id: &SessionId,
        quarantined: &mut Vec<Quarantined>,
    ) -> Result<Option<Vec<Key>>, ReadError> {
        let mut present = Some(Vec::new());
        for key in [
            Key::Todo(id.clone()),
            Key::Diff(id.clone()),
            Key::Share(id.clone()),
            Key::LegacyShare(id.clone()),
        ] {
            match source.document(&key) {
                Ok(Some(stored)) => {
                    self.document(key.clone(), &stored.document, false)?;
                    present.iter_mut().for_each(|present| present.push(key.clone()));
                }
                Ok(None) => {}
                Err(ReadError::Unreadable(problem)) => {
                    quarantined.push(problem.of(id));
                    present = None;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(present)
    }

    /// The messages that are gone, with their parts: unless those are still there, as after an undo in a directory.
    fn lost_messages(
        &self,
        source: &dyn Source,
        present: &HashSet<MessageId>,
    ) -> Result<Vec<Finding>, ReadError> {
        let mut lost = self.comparing.lost_messages(present)?;
        for index in 0..lost.len() {
            let Finding::Delete(Key::Message(_, message)) = &lost[index] else { continue };
            for part in self.comparing.lost_parts(message, &HashSet::new())? {
                let Finding::Delete(key) = &part else { continue };
                match source.document(key) {
                    Ok(None) => lost.push(part),
                    Ok(Some(_)) | Err(ReadError::Unreadable(_)) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(lost)
    }

    fn extend(&mut self, findings: Vec<Finding>) {
        self.has_findings |= !findings.is_empty();
        self.findings.extend(findings);
    }

    fn send(&mut self, end: Option<End>) {
        let findings = std::mem::take(&mut self.findings);
        let tally = std::mem::take(&mut self.tally);
        self.is_stopped |= self.sender.send(Chunk { job: self.index, findings, tally, end }).is_err();
    }
}

/// Commits what looks have found.
fn write(
    store: &Annals,
    home: i64,
    jobs: &[Job],
    receiver: &Receiver<Chunk>,
    account: &mut Account,
    indexing: &mut Option<Indexing<'_>>,
) -> Result<(), SyncError> {
    let failed = |error: rusqlite::Error| store.commit_error(&error);
    let mut is_overtaken: HashSet<usize> = HashSet::new();
    let mut changed: HashSet<usize> = HashSet::new();
    let mut next = receiver.recv().ok();
    while next.is_some() {
        // Looks that found nothing need no transaction.
        while let Some(chunk) = next.take_if(|chunk| is_nothing(chunk)) {
            account.add(&chunk.tally);
            account.looked += usize::from(chunk.end.is_some());
            account.quarantined.extend(chunk.end.into_iter().flat_map(|end| end.ended.quarantined));
            next = receiver.recv().ok();
        }
        let Some(mut chunk) = next.take() else { break };
        let writing = store.write()?;
        let mut revising = Revising::new(&writing, store.now(), REASON, Some(home)).map_err(failed)?;
        let (mut n_bytes, mut n_sessions) = (0, 0);
        let mut to_index = Some(Vec::new());
        let mut numbers = Vec::new();
        let began = Instant::now();
        loop {
            let job = &jobs[chunk.job];
            let session = revising.session(&job.sighting.session).map_err(failed)?;
            // Somebody else may have looked at it since we began: then theirs is the later state.
            let looked = synced::looked(&writing, session, home).map_err(failed)?;
            if looked != job.known.as_ref().map(|known| known.looked) && !changed.contains(&chunk.job) {
                is_overtaken.insert(chunk.job);
            }
            account.add(&chunk.tally);
            n_bytes += chunk.tally.bytes;
            if !is_overtaken.contains(&chunk.job) {
                // Its cursor moves with the last chunk only, and must be found as it was until then.
                changed.insert(chunk.job);
                let updated = job.known.as_ref().map_or(job.sighting.written, |known| known.updated);
                for finding in chunk.findings.drain(..) {
                    let counts = matches!(finding, Finding::Put(..) | Finding::Older(..));
                    let is_deletion = matches!(finding, Finding::Delete(_));
                    let is_done =
                        synced::apply(&writing, &mut revising, home, updated, finding, &mut to_index)
                            .map_err(failed)?;
                    account.deleted += usize::from(is_done && is_deletion);
                    account.imported += usize::from(is_done && counts);
                    account.unchanged += usize::from(!is_done && counts);
                }
            } else {
                let counts = |finding: &&Finding| matches!(finding, Finding::Put(..) | Finding::Older(..));
                account.unchanged += chunk.findings.iter().filter(counts).count();
            }
            if let Some(end) = chunk.end.take() {
                account.looked += 1;
                n_sessions += 1;
                if !is_overtaken.contains(&chunk.job) {
                    synced::note_look(&writing, session, &job.sighting.session, home, &end.ended)
                        .map_err(failed)?;
                    match job.known {
                        None => account.new += 1,
                        Some(_) => account.changed += usize::from(end.is_changed),
                    }
                    numbers.push((session, end.ended.numbers));
                }
                account.quarantined.extend(end.ended.quarantined);
            }
            let is_long = n_bytes >= COMMIT_BYTES || n_sessions >= COMMIT_SESSIONS;
            // Others want to write as well.
            if is_long || began.elapsed() >= COMMIT_AFTER {
                next = receiver.recv().ok();
                break;
            }
            match receiver.recv() {
                Ok(more) => chunk = more,
                Err(_) => break,
            }
        }
        let revision = revising.finish().map_err(failed)?;
        for (session, numbers) in numbers {
            synced::note_numbers(&writing, session, &numbers).map_err(failed)?;
        }
        synced::refresh(&writing).map_err(failed)?;
        store.finish(writing)?;
        if let (Some(indexing), Some(revision), Some(to_index)) = (&mut *indexing, revision, to_index) {
            indexing.add(revision, to_index)?;
        }
    }
    Ok(())
}

/// Whether a chunk needs nothing to be written.
fn is_nothing(chunk: &Chunk) -> bool {
    chunk.findings.is_empty() && chunk.end.as_ref().is_none_or(|end| !end.is_news)
}

impl Account {
    fn add(&mut self, tally: &Tally) {
        self.seen += tally.seen;
        self.unchanged += tally.unchanged;
    }
}

/// What concerns a home as a whole: sessions that are gone or cannot be read, parts of messages that are gone.
fn finish_home(
    store: &Annals,
    home: i64,
    gone: &[(&SessionId, &Origin)],
    orphans: Vec<Stored>,
    account: &mut Account,
) -> Result<(), SyncError> {
    if gone.is_empty() && orphans.is_empty() {
        return Ok(());
    }
    let failed = |error: rusqlite::Error| store.commit_error(&error);
    let writing = store.write()?;
    let mut revising = Revising::new(&writing, store.now(), REASON, Some(home)).map_err(failed)?;
    for stored in orphans {
        let prepared = Prepared::new(&stored.key, &stored.document, false);
        account.seen += 1;
        match revising.put(&stored.key, &prepared, Some(&stored.document)).map_err(failed)? {
            Put::Written(_) => account.imported += 1,
            Put::Unchanged => account.unchanged += 1,
        }
    }
    revising.finish().map_err(failed)?;
    if !gone.is_empty() {
        let mut revising =
            Revising::new(&writing, store.now(), "gone from its home", Some(home)).map_err(failed)?;
        for (id, origin) in gone {
            synced::note_gone(&writing, &mut revising, origin.session, home, store.now()).map_err(failed)?;
            account.gone.push((*id).clone());
        }
        revising.finish().map_err(failed)?;
    }
    synced::refresh(&writing).map_err(failed)?;
    store.finish(writing)?;
    Ok(())
}
