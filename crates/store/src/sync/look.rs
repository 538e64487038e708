//! Looks at sessions: reads what may have changed and compares it with the store, several sessions at once. Differences go to the
//! writer in chunks.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::mpsc::SyncSender;

use annals_core::id::{MessageId, Millis, PartId, SessionId};
use annals_core::lens::Message;
use annals_core::{Key, Provenance, Stored};

use super::evidence::{Asked, Reading};
use super::source::{Seen, Source, look};
use super::survey::Job;
use crate::figures::Figures;
use crate::follow::{Compare, Comparison, Cursor, Depth, Findings, Follow, Look, LookEnd, Numbers, Origin};
use crate::home::{MessageDetail, Quarantined, ReadError, SessionRecord};
use crate::summarize;
use crate::summary::{SessionState, SessionSummary};

/// Time without a write after which a session counts as settled. OpenCode goes on to set marks and add summaries for a while after
/// an answer; a summary waits for a model.
const SETTLING: Millis = 10 * 60 * 1000;
/// Time after which an answer that has not ended never will: its process is gone. OpenCode never repairs such sessions.
const ABANDONED: Millis = 7 * 24 * 60 * 60 * 1000;
/// Messages compared with the store in one transaction: beginning a transaction takes longer than comparing a message.
const MESSAGES_TOGETHER: usize = 256;
/// Document bytes at which a chunk is handed to the writer.
const CHUNK_BYTES: usize = 512 << 10;

/// State shared by all looks at the sessions of a home.
pub(super) struct Tour<'t> {
    pub(super) store: &'t dyn Follow,
    pub(super) source: &'t dyn Source,
    pub(super) compare: Box<dyn Compare + 't>,
    pub(super) asked: Asked,
    pub(super) sender: SyncSender<Chunk>,
}

/// Part of a look's findings, for the writer.
pub(super) struct Chunk {
    pub(super) job: usize,
    pub(super) findings: Findings,
    /// Documents that were looked at.
    pub(super) n_seen: usize,
    /// The bytes of those documents.
    pub(super) n_bytes: usize,
    /// Facts that the look found about the session as a whole.
    pub(super) look: Look,
    /// Set in the last chunk of a session.
    pub(super) end: Option<ChunkEnd>,
}

pub(super) struct ChunkEnd {
    pub(super) end: LookEnd,
    /// Whether anything has to be noted at all.
    pub(super) is_news: bool,
    /// Whether any document has changed.
    pub(super) is_changed: bool,
}

/// Looks at one session and sends the differences to the writer.
pub(super) fn look_at(tour: &Tour<'_>, index: usize, job: &Job) -> Result<(), ReadError> {
    let known_depth = job.known.as_ref().map(|known| known.cursor.depth);
    // A session that was once looked at in depth is kept up to date in depth.
    let depth = known_depth.map_or(tour.asked.depth, |known| known.max(tour.asked.depth));
    let looked = tour.store.now();
    let Some(record) = tour.source.sighted(&job.sighting)? else { return Ok(()) };
    let updated = record.info.updated().unwrap_or(0);
    let begin = |depth: Depth| Looking::begin(tour, index, &job.sighting.session, updated, depth);
    if depth < Depth::Parts {
        let counted = count(tour.source, &record, depth)?;
        // Messages of OpenCode's second transcript store are not counted, and only documents say which these are.
        if !counted.figures.iter().any(|figures| figures.provenance == Provenance::OpencodeSecondStore) {
            return begin(depth)?.finish_counted(tour, job, &record, counted, (depth, updated, looked));
        }
    }
    begin(Depth::Parts)?.finish_whole(tour, job, &record, (updated, looked))
}

/// A session in numbers, and its messages in numbers if the depth asks for them.
struct Counted {
    summary: SessionSummary,
    figures: Vec<Figures>,
    quarantined: Vec<Quarantined>,
}

/// Counts the messages, parts and usage of a session.
fn count(source: &dyn Source, record: &SessionRecord, depth: Depth) -> Result<Counted, ReadError> {
    let detail = if depth == Depth::Messages { MessageDetail::PartCounts } else { MessageDetail::ToolCalls };
    let mut of_messages = Vec::new();
    let (summary, quarantined) = summarize::read(source, record, detail, &mut |figures| {
        if depth == Depth::Calls {
            of_messages.push(figures);
        }
    })?;
    Ok(Counted { summary, figures: of_messages, quarantined })
}

/// A look at one session.
struct Looking<'l> {
    comparison: Box<dyn Comparison + 'l>,
    session: &'l SessionId,
    index: usize,
    sender: &'l SyncSender<Chunk>,
    n_seen: usize,
    n_bytes: usize,
    /// Whether the writer has given up.
    is_stopped: bool,
    has_findings: bool,
    /// Whether an answer or a call has not ended yet.
    is_open: bool,
    /// When the session was last written to, according to its documents.
    last: Millis,
    /// The parts of messages that were seen whole and are not compared with the store yet.
    seen: Vec<(MessageId, HashSet<PartId>)>,
}

impl<'l> Looking<'l> {
    fn begin(
        tour: &'l Tour<'_>,
        index: usize,
        session: &'l SessionId,
        updated: Millis,
        depth: Depth,
    ) -> Result<Looking<'l>, ReadError> {
        Ok(Looking {
            comparison: tour.compare.session(session, updated, depth)?,
            session,
            index,
            sender: &tour.sender,
            n_seen: 0,
            n_bytes: 0,
            is_stopped: false,
            has_findings: false,
            is_open: false,
            last: 0,
            seen: Vec::new(),
        })
    }

    /// Ends a look that read only the session's document and counted the rest.
    fn finish_counted(
        mut self,
        tour: &Tour<'_>,
        job: &Job,
        record: &SessionRecord,
        counted: Counted,
        (depth, updated, looked): (Depth, Millis, Millis),
    ) -> Result<(), ReadError> {
        self.document(record.stored.clone())?;
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
        self.n_seen += quarantined.len();
        let place = record.stored.place.clone();
        let end = LookEnd { cursor, place, looked, numbers, quarantined, is_whole: true };
        self.send(Some((end, true)))
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
        self.document(record.stored.clone())?;
        let since = match job.reading {
            Reading::Since(since) => Some(since),
            Reading::Whole | Reading::Nothing => None,
        };
        let Some(mut quarantined) = self.messages(tour.source, record, since)? else { return Ok(()) };
        self.beside(tour.source, &record.id, &mut quarantined)?;
        self.records(tour.source, record, &mut quarantined)?;
        // A document that was not read again may still be unfinished.
        if since.is_some() && job.known.is_some() {
            self.is_open |= self.comparison.is_open()?;
        }
        let quiet = tour.asked.began - self.last;
        // A session with unreadable documents is looked at again.
        let settled = (!self.is_open && quarantined.is_empty() && quiet >= SETTLING) || quiet >= ABANDONED;
        let cursor = Cursor {
            stamp: job.sighting.stamp.clone(),
            updated,
            settled,
            depth: Depth::Parts,
            has_unreadable: !quarantined.is_empty(),
        };
        let is_known =
            |known: &Origin| known.cursor == cursor && !known.is_gone && known.looked <= tour.asked.began;
        let is_news = !job.known.as_ref().is_some_and(is_known);
        self.n_seen += quarantined.len();
        let place = record.stored.place.clone();
        let is_whole = since.is_none();
        let end = LookEnd { cursor, place, looked, numbers: Numbers::Stored, quarantined, is_whole };
        self.send(Some((end, is_news)))
    }

    fn document(&mut self, stored: Stored) -> Result<(), ReadError> {
        self.n_seen += 1;
        self.n_bytes += stored.document.bytes().len();
        self.comparison.document(stored)?;
        if self.n_bytes >= CHUNK_BYTES {
            self.send(None)?;
        }
        Ok(())
    }

    /// Looks at the messages of a session. Returns what could not be read; `None` if the writer has given up.
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
        if let Some(stored) = seen.stored {
            let message = stored.document.lens::<Message<'_>>();
            self.last = self.last.max(message.created().unwrap_or(0));
            if let Message::Assistant(answer) = &message {
                let completed = answer.time.as_ref().and_then(|time| time.completed);
                self.last = self.last.max(completed.unwrap_or(0));
            }
            self.is_open |= annals_core::stream::is_open(&stored.key, &stored.document);
            self.comparison.begin_message(Some(&message));
            self.document(stored)?;
        } else {
            self.comparison.begin_message(None);
        }
        let mut present: HashSet<PartId> = HashSet::new();
        for (id, stored) in seen.parts {
            if let Some(stored) = stored {
                self.is_open |= annals_core::stream::is_open(&stored.key, &stored.document);
                self.document(stored)?;
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
        self.comparison.lost_parts(&std::mem::take(&mut self.seen))
    }

    /// Reports messages that the home no longer has. Their parts may still be there, as after an undo in a directory.
    fn missing_messages(
        &mut self,
        source: &dyn Source,
        present: &HashSet<MessageId>,
    ) -> Result<(), ReadError> {
        for message in self.comparison.missing_messages(present)? {
            let mut lost = vec![Key::Message(self.session.clone(), message.clone())];
            for part in self.comparison.known_parts(&message)? {
                match source.document(&part) {
                    Ok(None) => lost.push(part),
                    Ok(Some(_)) | Err(ReadError::Unreadable(_)) => {}
                    Err(error) => return Err(error),
                }
            }
            self.comparison.lost_documents(&lost)?;
        }
        Ok(())
    }

    /// Looks at the documents beside the session: todos, file differences, shares.
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
                Ok(Some(stored)) => self.document(stored)?,
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
            self.comparison.lost_documents(&missing)?;
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
        for stored in found.value {
            present.insert(stored.key.clone());
            self.document(stored)?;
        }
        if found.quarantined.is_empty() {
            let missing = self.comparison.missing_records(&present)?;
            self.comparison.lost_documents(&missing)?;
        }
        let is_told = |problem: &Quarantined, told: &[Quarantined]| {
            told.iter().any(|known| known.place == problem.place)
        };
        let untold: Vec<Quarantined> =
            found.quarantined.into_iter().filter(|problem| !is_told(problem, quarantined)).collect();
        quarantined.extend(untold);
        Ok(())
    }

    /// Sends the findings since the last chunk. The last chunk also says how the look ended, and whether that is news.
    fn send(&mut self, end: Option<(LookEnd, bool)>) -> Result<(), ReadError> {
        let findings = self.comparison.take()?;
        self.has_findings |= findings.n_found > 0;
        let is_changed = self.has_findings;
        let chunk = Chunk {
            job: self.index,
            findings,
            n_seen: std::mem::take(&mut self.n_seen),
            n_bytes: std::mem::take(&mut self.n_bytes),
            look: self.comparison.look(),
            end: end.map(|(end, is_news)| ChunkEnd { end, is_news: is_news || is_changed, is_changed }),
        };
        self.is_stopped |= self.sender.send(chunk).is_err();
        Ok(())
    }
}
