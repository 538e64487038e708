//! A session as it was before one of its messages was written, from the documents that are there and from the agent's own log.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use annals_core::id::{MessageId, Millis, PartId};
use annals_core::lens::{Message, Part};
use annals_core::llm::HistoryMessage;
use annals_core::{Document, Key, Position, Stored, position};

use super::{RequestError, history_message};
use crate::change_log::ChangeLog;
use crate::home::{MessageRecord, Quarantined, ReadError, SessionRecord};

/// A session and what is known of its past.
pub(super) struct SessionPast<'h> {
    pub(super) session: &'h SessionRecord,
    /// The messages that are there, in order.
    pub(super) rows: Vec<MessageRecord>,
    pub(super) log: Option<&'h dyn ChangeLog>,
}

/// A message and the session as it was before.
pub(super) struct PastMoment {
    /// The message.
    pub(super) message: HistoryMessage,
    /// The messages before it.
    pub(super) before: Vec<HistoryMessage>,
    /// The first message that a compaction kept, if the message is the compaction's summary.
    pub(super) tail: KnownTail,
}

/// What is known of the first message that a compaction kept.
pub(super) enum KnownTail {
    /// Its id, or that nothing was kept.
    Stored(Option<String>),
    /// Nothing: it was not noted.
    Lost,
}

impl SessionPast<'_> {
    /// The message with an id, or with the only id that begins so. Messages that are gone are found in the log.
    pub(super) fn find(&self, wanted: &str) -> Result<Option<MessageId>, RequestError> {
        let here = self.rows.iter().filter_map(|row| message_id(&row.stored.key)).cloned().collect();
        if let found @ Some(_) = self.only(here, wanted)? {
            return Ok(found);
        }
        let mut logged: Vec<MessageId> = Vec::new();
        if let Some(log) = self.log {
            let mut seen = HashSet::new();
            log.changes(&self.session.id, None, &mut |change| {
                logged.extend(message_id(&change.key).filter(|id| seen.insert((*id).clone())).cloned());
                ControlFlow::Continue(())
            })?;
        }
        self.only(logged, wanted)
    }

    fn only(&self, ids: Vec<MessageId>, wanted: &str) -> Result<Option<MessageId>, RequestError> {
        let mut found: Vec<MessageId> =
            ids.into_iter().filter(|id| id.as_str().starts_with(wanted)).collect();
        if let Some(exact) = found.iter().position(|id| id.as_str() == wanted) {
            return Ok(Some(found.swap_remove(exact)));
        }
        match found.len() {
            0 | 1 => Ok(found.pop()),
            _ => Err(RequestError::Ambiguous {
                wanted: wanted.to_owned(),
                session: self.session.id.to_string(),
                candidates: found.iter().map(ToString::to_string).collect(),
            }),
        }
    }

    /// A message and the session as it was before.
    pub(super) fn before(
        mut self,
        id: &MessageId,
        quarantined: &mut Vec<Quarantined>,
    ) -> Result<Option<PastMoment>, ReadError> {
        let logged = match self.log {
            Some(log) => Logged::read(log, self.session, id, quarantined)?,
            None => None,
        };
        let place = self.rows.iter().position(|row| message_id(&row.stored.key) == Some(id));
        let later = place.map(|place| self.rows.split_off(place)).unwrap_or_default();
        let row = later.into_iter().next();
        match (row, logged) {
            (Some(row), None) => {
                let before: Vec<HistoryMessage> = self.rows.into_iter().map(history_message).collect();
                let message = history_message(row);
                let tail = tail_of(&message, &before);
                Ok(Some(PastMoment { message, before, tail }))
            }
            (row, Some(mut logged)) => {
                // Without a row, there is no saying which of the others came later: the log has them all.
                let rows = if row.is_some() { self.rows } else { Vec::new() };
                let message = match row {
                    Some(row) => history_message(row),
                    None => logged.written_message(id),
                };
                let noted = logged.tail.take();
                let mut before = logged.merged(rows);
                // A prompt is there when it is answered, and so may later ones be.
                if let Some(place) = before.iter().position(|other| other.id() == id.as_str()) {
                    before.truncate(place);
                }
                let tail = match noted {
                    Some(noted) => KnownTail::Stored(Some(noted)),
                    None => tail_of(&message, &before),
                };
                Ok(Some(PastMoment { message, before, tail }))
            }
            (None, None) => Ok(None),
        }
    }
}

fn message_id(key: &Key) -> Option<&MessageId> {
    match key {
        Key::Message(_, id) => Some(id),
        _ => None,
    }
}

/// The first message that a compaction kept, as its request tells. It is noted when a summary has ended, unless that was aborted or
/// did not fit either; and only on a request for a compaction.
fn tail_of(summary: &HistoryMessage, before: &[HistoryMessage]) -> KnownTail {
    let Some(answer) = summary.assistant() else { return KnownTail::Lost };
    let error = answer.error.and_then(|error| error.name);
    if error.is_some_and(|name| name == "MessageAbortedError" || name == "ContextOverflowError") {
        return KnownTail::Lost;
    }
    let request = answer.parent_id.and_then(|id| before.iter().find(|message| id == *message.id()));
    let part = request
        .and_then(|request| request.parts.iter().find(|part| matches!(part.lens(), Part::Compaction(_))));
    part.map_or(KnownTail::Lost, |part| KnownTail::Stored(tail_in(part)))
}

fn tail_in(part: &Document) -> Option<String> {
    match part.lens() {
        Part::Compaction(part) => part.tail_start_id.map(|tail| tail.to_str().into_owned()),
        _ => None,
    }
}

/// A session as a log has it at a moment.
struct Logged {
    /// The documents of that moment.
    documents: HashMap<Key, Document>,
    /// Every document that the log ever names.
    known: HashSet<Key>,
    /// The message, as it was first written.
    first: Document,
    /// Documents of the message at the end of the log, or when it was removed.
    last_parts: HashMap<Key, Document>,
    tail: Option<String>,
}

impl Logged {
    /// Replays a log up to the moment before a message was written; for a prompt, up to the moment before the next answer was.
    /// `None` if the log does not tell of the message.
    fn read(
        log: &dyn ChangeLog,
        session: &SessionRecord,
        id: &MessageId,
        quarantined: &mut Vec<Quarantined>,
    ) -> Result<Option<Logged>, ReadError> {
        let mut running: HashMap<Key, Document> = HashMap::new();
        let mut at_moment: Option<HashMap<Key, Document>> = None;
        let mut first: Option<Document> = None;
        let (mut known, mut last_parts) = (HashSet::new(), HashMap::new());
        let mut tail = None;
        let read = log.changes(&session.id, None, &mut |change| {
            known.insert(change.key.clone());
            let is_message = message_id(&change.key) == Some(id);
            match (&change.document, &first) {
                (Some(document), None) if is_message => {
                    first = Some(document.clone());
                    if matches!(document.lens(), Message::Assistant(_)) {
                        at_moment = Some(running.clone());
                    }
                }
                (Some(document), Some(_)) => {
                    let is_answer =
                        message_id(&change.key).is_some() && matches!(document.lens(), Message::Assistant(_));
                    if is_answer && !is_message && at_moment.is_none() {
                        at_moment = Some(running.clone());
                    }
                }
                _ => {}
            }
            if let (Key::Part(_, message, _), Some(document)) = (&change.key, &change.document) {
                if message == id {
                    last_parts.insert(change.key.clone(), document.clone());
                }
                let summarised = first.as_ref().and_then(|first| first.root().get("parentID")?.as_text());
                if summarised.is_some_and(|request| request == message.as_str()) {
                    tail = tail_in(document).or(tail.take());
                }
            }
            if change.document.is_none() {
                running.retain(|key, _| !change.removes(key));
            }
            if let Some(document) = change.document {
                running.insert(change.key, document);
            }
            ControlFlow::Continue(())
        })?;
        quarantined.extend(read.quarantined);
        let documents = at_moment.unwrap_or(running);
        Ok(first.map(|first| Logged { documents, known, first, last_parts, tail }))
    }

    /// A message that is gone, as the log has it.
    fn written_message(&mut self, id: &MessageId) -> HistoryMessage {
        let made = Message::created_in(self.first.root()).unwrap_or(0);
        let parts = self.last_parts.drain().filter_map(|(key, document)| match &key {
            Key::Part(_, message, part) if message == id => Some((part_order(part, made), document)),
            _ => None,
        });
        HistoryMessage::new(self.first.clone(), in_order(parts.collect()))
    }

    /// The messages of the moment: those that the log tells of, and rows that it never heard of.
    fn merged(self, rows: Vec<MessageRecord>) -> Vec<HistoryMessage> {
        let mut rows: HashMap<Key, MessageRecord> =
            rows.into_iter().map(|row| (row.stored.key.clone(), row)).collect();
        let mut parts: HashMap<MessageId, Vec<(PartId, Document)>> = HashMap::new();
        let mut messages: Vec<(Key, Document)> = Vec::new();
        for (key, document) in self.documents {
            match key {
                Key::Part(_, message, part) => parts.entry(message).or_default().push((part, document)),
                Key::Message(..) => messages.push((key, document)),
                _ => {}
            }
        }
        let mut merged = Vec::new();
        let own = rows.extract_if(|key, _| !self.known.contains(key)).collect::<Vec<_>>();
        let own = own.into_iter().map(|(key, row)| (key, row.stored.document.clone(), Some(row)));
        let logged = messages.into_iter().map(|(key, document)| {
            let row = rows.remove(&key);
            (key, document, row)
        });
        for (key, info, row) in logged.collect::<Vec<_>>().into_iter().chain(own) {
            let Some(id) = message_id(&key) else { continue };
            let made = Message::created_in(info.root()).unwrap_or(0);
            let position = row.as_ref().map_or(Position::new(made), |row| row.stored.position);
            let provenance = row.as_ref().map(|row| row.stored.provenance).unwrap_or_default();
            let unheard =
                row.into_iter().flat_map(|row| row.parts).filter(|part| !self.known.contains(&part.key));
            let unheard = unheard.filter_map(|part: Stored| match part.key {
                Key::Part(_, _, id) => Some((id, part.document)),
                _ => None,
            });
            let all = parts.remove(id).unwrap_or_default().into_iter().chain(unheard);
            let parts = in_order(all.map(|(part, document)| (part_order(&part, made), document)).collect());
            merged.push(((position, id.to_string()), HistoryMessage { info, parts, provenance }));
        }
        in_order(merged)
    }
}

fn part_order(part: &PartId, made: Millis) -> (Position, String) {
    (Position::of_part(part, made), part.to_string())
}

fn in_order<T>(mut all: Vec<((Position, String), T)>) -> Vec<T> {
    position::sort(&mut all, |((position, id), _)| (*position, id));
    all.into_iter().map(|(_, value)| value).collect()
}
