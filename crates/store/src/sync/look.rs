//! Looks at sessions: reads what may have changed and compares it with the store, several sessions at once. What differs goes to the
//! writer in chunks.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::mpsc::SyncSender;

use annals_core::id::{MessageId, Millis, PartId, SessionId};
use annals_core::lens::Message;
use annals_core::{Key, Provenance, Stored};

use super::Options;
use super::compare::{self, Asked, Cursor, Depth, Look, Reading};
use super::source::{Seen, Source, look};
use super::survey::Job;
use crate::figures::Figures;
use crate::home::{Quarantined, ReadError, SessionRecord, Want};
use crate::stores::sqlite::SqliteStore;
use crate::stores::sqlite::comparing::Comparing;
use crate::stores::sqlite::finding::{Finding, Text};
use crate::stores::sqlite::origin::{Ended, Numbers};
use crate::stores::sqlite::text_index::entry::{Context, Entry};
use crate::summarize;
use crate::summary::{SessionState, SessionSummary};

/// How long nothing must have been written to a session for it to count as settled. OpenCode sets marks and adds summaries
/// for moments after an answer; a summary waits for a model.
const SETTLING: Millis = 10 * 60 * 1000;
/// An answer that has not ended after this time never will: its process is gone. OpenCode never mends such sessions.
const ABANDONED: Millis = 7 * 24 * 60 * 60 * 1000;
/// How many messages are compared with the store in one transaction: beginning one takes longer than to compare a message.
const MESSAGES_TOGETHER: usize = 256;
/// How many bytes of documents are handed to the writer at once.
const CHUNK_BYTES: usize = 512 << 10;

/// What all looks at the sessions of a home have in common.
pub(super) struct Tour<'t> {
    pub(super) store: &'t SqliteStore,
    pub(super) source: &'t dyn Source,
    pub(super) home: i64,
    /// What the home is, for its rank among several.
    pub(super) is_own: bool,
    pub(super) asked: Asked,
    pub(super) options: Options,
    /// The numbers of the sessions that the store had when the home was surveyed. To ask for each would take longer.
    pub(super) numbers: HashMap<String, i64>,
    /// The numbers of those that several homes have or had.
    pub(super) shared: HashSet<i64>,
    pub(super) sender: SyncSender<Chunk>,
}

impl Tour<'_> {
    /// Whether several homes have a session and this look leads.
    fn is_leading(&self, session: i64, look: &Look) -> Result<bool, ReadError> {
        let mut looks = self.store.looks(session)?;
        looks.retain(|known| known.home != look.home);
        if looks.is_empty() {
            return Ok(false);
        }
        looks.push(look.clone());
        Ok(compare::leader(&looks).is_some_and(|leader| leader.home == look.home))
    }
}

/// Something for the writer.
pub(super) struct Chunk {
    pub(super) job: usize,
    pub(super) findings: Vec<Finding>,
    pub(super) tally: Tally,
    /// What the look found out about the session as a whole.
    pub(super) look: Look,
    /// With the last chunk of a session.
    pub(super) end: Option<End>,
}

pub(super) struct End {
    pub(super) ended: Ended,
    /// Whether anything has to be noted at all.
    pub(super) is_news: bool,
    /// Whether any document was found otherwise than it was.
    pub(super) is_changed: bool,
}

/// Documents of a look.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tally {
    pub(super) seen: usize,
    pub(super) unchanged: usize,
    pub(super) bytes: usize,
}

/// Looks at one session and sends what has changed.
pub(super) fn look_at(tour: &Tour<'_>, index: usize, job: &Job) -> Result<(), ReadError> {
    let known_depth = job.known.as_ref().map(|known| known.cursor.depth);
    // What was looked at in depth once is kept up to date in depth.
    let depth = known_depth.map_or(tour.asked.depth, |known| known.max(tour.asked.depth));
    let looked = tour.store.now();
    let Some(record) = tour.source.sighted(&job.sighting)? else { return Ok(()) };
    let updated = record.info.updated().unwrap_or(0);
    let begin = |depth: Depth| Looking::begin(tour, index, &job.sighting.session, updated, depth);
    if depth < Depth::Parts {
        let counted = count(tour.source, &record, depth)?;
        // What comes from OpenCode's second transcript store is not added up, which only its documents tell.
        if !counted.figures.iter().any(|figures| figures.provenance == Provenance::OpencodeSecondStore) {
            return begin(depth)?.finish_counted(tour, job, &record, counted, (depth, updated, looked));
        }
    }
    begin(Depth::Parts)?.finish_whole(tour, job, &record, (updated, looked))
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
    let (summary, quarantined) = summarize::read(source, record, want, &mut |figures| {
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
    look: Look,
    findings: Vec<Finding>,
    tally: Tally,
    /// Whether the writer has given up.
    is_stopped: bool,
    has_findings: bool,
    /// Whether what is found goes into the text index as well.
    is_indexed: bool,
    /// The message at hand, if it was read.
    context: Option<Context>,
    /// Whether something is not finished yet.
    is_open: bool,
    /// When something was last written, as far as documents tell.
    last: Millis,
    /// The parts of messages that were seen whole, until they are compared with what the store has.
    seen: Vec<(MessageId, HashSet<PartId>)>,
}

impl<'l> Looking<'l> {
    fn begin(
        tour: &'l Tour<'_>,
        index: usize,
        id: &SessionId,
        updated: Millis,
        depth: Depth,
    ) -> Result<Looking<'l>, ReadError> {
        let number = tour.numbers.get(id.as_str()).copied();
        let look = Look {
            home: tour.home,
            updated,
            rank: tour.source.rank(),
            is_own: tour.is_own,
            turn: i64::MAX,
            is_there: true,
            is_deep: depth == Depth::Parts,
        };
        let comparing = Comparing {
            store: tour.store,
            session: id.clone(),
            home: tour.home,
            is_shared: number.is_some_and(|number| tour.shared.contains(&number)),
            is_new: number.is_none(),
            has_messages: number.map_or(Ok(false), |number| tour.store.has_messages(number))?,
            is_leading: match number.filter(|_| depth == Depth::Parts) {
                Some(number) => tour.is_leading(number, &look)?,
                // No message is looked at that could stand elsewhere.
                None => false,
            },
        };
        Ok(Looking {
            comparing,
            index,
            sender: &tour.sender,
            look,
            findings: Vec::new(),
            tally: Tally::default(),
            is_stopped: false,
            has_findings: false,
            is_indexed: tour.options.stage == super::Stage::Text,
            context: None,
            is_open: false,
            last: 0,
            seen: Vec::new(),
        })
    }

    /// Ends a look that went no deeper than the session's document and its numbers.
    fn finish_counted(
        mut self,
        tour: &Tour<'_>,
        job: &Job,
        record: &SessionRecord,
        counted: Counted,
        (depth, updated, looked): (Depth, Millis, Millis),
    ) -> Result<(), ReadError> {
        self.document(&record.stored)?;
        let Counted { summary, figures, quarantined } = counted;
        let quiet = tour.asked.began - job.sighting.written.max(updated);
        let is_open = summary.state == SessionState::Open;
        let settled = (quiet >= SETTLING && quarantined.is_empty() && !is_open) || quiet >= ABANDONED;
        let numbers = Numbers::Counted(Box::new(summary), figures);
        let cursor = Cursor {
            stamp: job.sighting.stamp.clone(),
            updated,
            settled,
            depth,
            has_unreadable: !quarantined.is_empty(),
        };
        self.tally.seen += quarantined.len();
        let place = record.stored.place.clone();
        let ended = Ended { cursor, place, looked, numbers, quarantined, is_whole: true };
        let is_changed = self.has_findings;
        self.send(Some(End { ended, is_news: true, is_changed }));
        Ok(())
    }

    /// Looks at messages and parts and ends the look.
    fn finish_whole(
        mut self,
        tour: &Tour<'_>,
        job: &Job,
        record: &SessionRecord,
        (updated, looked): (Millis, Millis),
    ) -> Result<(), ReadError> {
        self.last = job.sighting.written.max(updated);
        self.document(&record.stored)?;
        let since = match job.reading {
            Reading::Since(since) => Some(since),
            Reading::Whole | Reading::Nothing => None,
        };
        let Some(mut quarantined) = self.messages(tour.source, record, since)? else { return Ok(()) };
        self.beside(tour.source, &record.id, &mut quarantined)?;
        self.records(tour.source, record, &mut quarantined)?;
        // What was not read again may still be unfinished.
        if since.is_some()
            && let Some(known) = &job.known
        {
            self.is_open |= tour.store.is_open(known.session)?;
        }
        let quiet = tour.asked.began - self.last;
        // What could not be read is tried again.
        let settled = (!self.is_open && quarantined.is_empty() && quiet >= SETTLING) || quiet >= ABANDONED;
        let cursor = Cursor {
            stamp: job.sighting.stamp.clone(),
            updated,
            settled,
            depth: Depth::Parts,
            has_unreadable: !quarantined.is_empty(),
        };
        let is_known = |known: &super::compare::Origin| {
            known.cursor == cursor && !known.is_gone && known.looked <= tour.asked.began
        };
        let is_news = self.has_findings || !job.known.as_ref().is_some_and(is_known);
        self.tally.seen += quarantined.len();
        let place = record.stored.place.clone();
        let is_whole = since.is_none();
        let ended = Ended { cursor, place, looked, numbers: Numbers::Stored, quarantined, is_whole };
        let is_changed = self.has_findings;
        self.send(Some(End { ended, is_news, is_changed }));
        Ok(())
    }

    fn document(&mut self, stored: &Stored) -> Result<(), ReadError> {
        self.tally.seen += 1;
        self.tally.bytes += stored.document.bytes().len();
        // What a part is to the index depends on its message; where that was not read, the index is told later.
        let can_be_indexed = self.is_indexed
            && match stored.key {
                Key::Session(..) | Key::Message(..) => true,
                Key::Part(..) => self.context.is_some(),
                _ => false,
            };
        let context = self.context.as_ref();
        let text = |key: &Key, document: &_| match can_be_indexed {
            true => Text::Known(Entry::of(key, document, context).map(Box::new)),
            false => Text::Unknown,
        };
        let finding = self.comparing.document(stored, text)?;
        self.tally.unchanged += usize::from(!finding.as_ref().is_some_and(Finding::is_import));
        self.extend(finding);
        if self.tally.bytes >= CHUNK_BYTES {
            self.send(None);
        }
        Ok(())
    }

    /// Looks at the messages of a session. Gives what could not be read; none if the writer has given up.
    fn messages(
        &mut self,
        source: &dyn Source,
        record: &SessionRecord,
        since: Option<Millis>,
    ) -> Result<Option<Vec<Quarantined>>, ReadError> {
        let mut present: HashSet<MessageId> = HashSet::new();
        let mut quarantined = Vec::new();
        let mut failed: Option<ReadError> = None;
        let unvisited = look(source, record, since, &mut |mut seen| {
            quarantined.append(&mut seen.quarantined);
            present.insert(seen.id.clone());
            match self.message(seen) {
                Ok(()) if self.is_stopped => ControlFlow::Break(()),
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
        if self.is_stopped {
            return Ok(None);
        }
        self.find_lost_parts()?;
        if unvisited.is_empty() {
            self.missing_messages(source, &present)?;
        }
        quarantined.extend(unvisited);
        Ok(Some(quarantined))
    }

    fn message(&mut self, seen: Seen) -> Result<(), ReadError> {
        if let Some(stored) = &seen.stored {
            let message = stored.document.lens::<Message<'_>>();
            self.last = self.last.max(message.created().unwrap_or(0));
            if let Message::Assistant(answer) = &message {
                let completed = answer.time.as_ref().and_then(|time| time.completed);
                self.last = self.last.max(completed.unwrap_or(0));
            }
            self.is_open |= annals_core::stream::is_open(&stored.key, &stored.document);
            self.context =
                self.is_indexed.then(|| Context::of(&Figures::of(&message, message.created().unwrap_or(0))));
            self.document(stored)?;
        } else {
            self.context = None;
        }
        let mut present: HashSet<PartId> = HashSet::new();
        for (id, stored) in seen.parts {
            if let Some(stored) = stored {
                self.is_open |= annals_core::stream::is_open(&stored.key, &stored.document);
                self.document(&stored)?;
            }
            present.insert(id);
        }
        if seen.is_complete {
            self.seen.push((seen.id, present));
        }
        if self.seen.len() >= MESSAGES_TOGETHER {
            self.find_lost_parts()?;
        }
        Ok(())
    }

    fn find_lost_parts(&mut self) -> Result<(), ReadError> {
        let seen = std::mem::take(&mut self.seen);
        let lost = self.comparing.lost_parts(&seen)?;
        self.extend(lost);
        Ok(())
    }

    /// Finds what became of messages that the home does not have. Their parts may still be there, as after an undo in a directory.
    fn missing_messages(
        &mut self,
        source: &dyn Source,
        present: &HashSet<MessageId>,
    ) -> Result<(), ReadError> {
        for message in self.comparing.missing_messages(present)? {
            let key = Key::Message(self.comparing.session.clone(), message.clone());
            let lost = self.comparing.lost_documents(&[key])?;
            self.extend(lost);
            for part in self.comparing.lost_parts(&[(message, HashSet::new())])? {
                match source.document(part.key()) {
                    Ok(None) => self.extend([part]),
                    Ok(Some(_)) | Err(ReadError::Unreadable(_)) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// Looks at what stands beside the session.
    fn beside(
        &mut self,
        source: &dyn Source,
        id: &SessionId,
        quarantined: &mut Vec<Quarantined>,
    ) -> Result<(), ReadError> {
        let mut missing = Vec::new();
        let mut is_certain = true;
        for key in Key::beside(id) {
            match source.document(&key) {
                Ok(Some(stored)) => self.document(&stored)?,
                Ok(None) if source.has_place_for(&key) => missing.push(key),
                Ok(None) => {}
                Err(ReadError::Unreadable(problem)) => {
                    quarantined.push(problem.of(id));
                    is_certain = false;
                }
                Err(error) => return Err(error),
            }
        }
        if is_certain {
            let lost = self.comparing.lost_documents(&missing)?;
            self.extend(lost);
        }
        Ok(())
    }

    /// Looks at the records that messages were made from.
    fn records(
        &mut self,
        source: &dyn Source,
        record: &SessionRecord,
        quarantined: &mut Vec<Quarantined>,
    ) -> Result<(), ReadError> {
        let found = source.records(record)?;
        let mut present: HashSet<Key> = HashSet::new();
        for stored in &found.value {
            self.document(stored)?;
            present.insert(stored.key.clone());
        }
        if found.quarantined.is_empty() {
            let missing = self.comparing.missing_records(&present)?;
            let lost = self.comparing.lost_documents(&missing)?;
            self.extend(lost);
        }
        let is_told = |problem: &Quarantined, told: &[Quarantined]| {
            told.iter().any(|known| known.place == problem.place)
        };
        let untold: Vec<Quarantined> =
            found.quarantined.into_iter().filter(|problem| !is_told(problem, quarantined)).collect();
        quarantined.extend(untold);
        Ok(())
    }

    fn extend(&mut self, findings: impl IntoIterator<Item = Finding>) {
        let n_before = self.findings.len();
        self.findings.extend(findings);
        self.has_findings |= self.findings.len() > n_before;
    }

    fn send(&mut self, end: Option<End>) {
        let chunk = Chunk {
            job: self.index,
            findings: std::mem::take(&mut self.findings),
            tally: std::mem::take(&mut self.tally),
            look: self.look.clone(),
            end,
        };
        self.is_stopped |= self.sender.send(chunk).is_err();
    }
}
