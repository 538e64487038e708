//! The messages of a session, as an iterator: read a batch at a time, so memory stays flat however long the session is.

use std::collections::VecDeque;

use annals_core::Key;
use annals_core::id::MessageId;

use crate::record::{Found, MessageRecord, Quarantined, ReadError};

/// Range of messages in a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MessageRange {
    /// Only messages before this one. A message that is not in the session has none before it.
    pub before: Option<MessageId>,
    /// At most this many of them, the last ones.
    pub last: Option<usize>,
}

impl MessageRange {
    /// Every message.
    pub const ALL: MessageRange = MessageRange { before: None, last: None };

    /// Whether the range is every message.
    pub fn is_all(&self) -> bool {
        *self == MessageRange::ALL
    }

    /// The messages within the range. `messages` are all of the session, in order.
    pub(crate) fn of<T>(&self, mut messages: Vec<T>, id: impl Fn(&T) -> &str) -> Vec<T> {
        if let Some(before) = &self.before {
            let end = messages.iter().position(|message| id(message) == before.as_str()).unwrap_or(0);
            messages.truncate(end);
        }
        if let Some(last) = self.last {
            messages.drain(..messages.len().saturating_sub(last));
        }
        messages
    }
}

/// Messages that were read together, and what could not be read.
pub(crate) type MessageBatch = Found<Vec<MessageRecord>>;

/// The messages of a session in order, each with its parts in order. Ends after the first error.
///
/// Unreadable documents that belong to no message are in [`Messages::into_quarantined`].
pub struct Messages<'h> {
    next_batch: Box<dyn FnMut() -> Result<Option<MessageBatch>, ReadError> + 'h>,
    ready: std::vec::IntoIter<MessageRecord>,
    quarantined: Vec<Quarantined>,
    is_ended: bool,
}

impl<'h> Messages<'h> {
    /// Messages that come in batches. `None` instead of a batch is the end.
    pub fn in_batches(
        next_batch: impl FnMut() -> Result<Option<Found<Vec<MessageRecord>>>, ReadError> + 'h,
    ) -> Messages<'h> {
        Messages {
            next_batch: Box::new(next_batch),
            ready: Vec::new().into_iter(),
            quarantined: Vec::new(),
            is_ended: false,
        }
    }

    /// Messages that were read already.
    pub fn of(found: Found<Vec<MessageRecord>>) -> Messages<'h> {
        let mut found = Some(found);
        Messages::in_batches(move || Ok(found.take()))
    }

    /// No messages.
    pub fn none() -> Messages<'h> {
        Messages::of(Found::default())
    }

    /// The messages within a range, for homes that cannot go straight to them: reads all messages and keeps only those in the range.
    #[must_use]
    pub fn within(mut self, range: &MessageRange) -> Messages<'h> {
        if range.is_all() {
            return self;
        }
        let MessageRange { before, last } = range.clone();
        let mut is_read = false;
        Messages::in_batches(move || {
            if std::mem::replace(&mut is_read, true) {
                return Ok(None);
            }
            let mut kept: VecDeque<MessageRecord> = VecDeque::new();
            let mut is_found = before.is_none();
            for record in &mut self {
                let record = record?;
                if let (Some(before), Key::Message(_, id)) = (&before, &record.stored.key)
                    && before == id
                {
                    is_found = true;
                    break;
                }
                kept.push_back(record);
                if last.is_some_and(|last| kept.len() > last) {
                    kept.pop_front();
                }
            }
            let value = if is_found { kept.into() } else { Vec::new() };
            Ok(Some(Found { value, quarantined: std::mem::take(&mut self.quarantined) }))
        })
    }

    /// Unreadable documents that belong to none of the messages so far.
    pub fn into_quarantined(self) -> Vec<Quarantined> {
        self.quarantined
    }
}

impl Iterator for Messages<'_> {
    type Item = Result<MessageRecord, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(record) = self.ready.next() {
                return Some(Ok(record));
            }
            if self.is_ended {
                return None;
            }
            match (self.next_batch)() {
                Ok(Some(batch)) => {
                    self.quarantined.extend(batch.quarantined);
                    self.ready = batch.value.into_iter();
                }
                Ok(None) => self.is_ended = true,
                Err(error) => {
                    self.is_ended = true;
                    return Some(Err(error));
                }
            }
        }
    }
}

impl std::fmt::Debug for Messages<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Messages").field("ready", &self.ready.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use annals_core::id::SessionId;
    use annals_core::{Document, Stored};

    use super::*;

    fn message(n: usize) -> MessageRecord {
        let id = MessageId::parse(&format!("msg_{n}")).unwrap();
        let key = Key::Message(SessionId::parse("ses_1").unwrap(), id);
        let stored = Stored::new(key, Document::parse(b"{}".to_vec()).unwrap(), "");
        MessageRecord { stored, made: 0, parts: Vec::new(), n_parts: 0, quarantined: Vec::new() }
    }

    /// Messages 0 to 5 in batches of two.
    fn six<'h>() -> Messages<'h> {
        let mut next = 0;
        Messages::in_batches(move || {
            next += 2;
            Ok((next <= 6).then(|| Found {
                value: vec![message(next - 2), message(next - 1)],
                quarantined: Vec::new(),
            }))
        })
    }

    fn ids(messages: Messages<'_>) -> Vec<String> {
        messages
            .map(|message| message.unwrap().stored.key.to_string()["message msg_".len()..].to_owned())
            .collect()
    }

    #[test]
    fn ranges_are_the_same_whether_all_are_read_or_not() {
        let all: Vec<String> = (0..6).map(|n| format!("msg_{n}")).collect();
        let before = |n: usize| Some(MessageId::parse(&format!("msg_{n}")).unwrap());
        for (range, expected) in [
            (MessageRange::ALL, "012345"),
            (MessageRange { before: None, last: Some(2) }, "45"),
            (MessageRange { before: before(3), last: Some(2) }, "12"),
            (MessageRange { before: before(3), last: None }, "012"),
            (MessageRange { before: before(9), last: Some(2) }, ""),
            (MessageRange { before: before(0), last: Some(2) }, ""),
            (MessageRange { before: None, last: Some(0) }, ""),
            (MessageRange { before: None, last: Some(9) }, "012345"),
        ] {
            assert_eq!(ids(six().within(&range)).concat(), expected, "{range:?}");
            let within = range.of(all.clone(), |id| id);
            assert_eq!(within.concat().replace("msg_", ""), expected, "{range:?}");
        }
    }

    #[test]
    fn nothing_comes_after_an_error() {
        let mut n = 0;
        let mut messages = Messages::in_batches(move || {
            n += 1;
            match n {
                1 => Ok(Some(Found { value: vec![message(0)], quarantined: Vec::new() })),
                _ => Err(ReadError::Database { path: "x".to_owned(), what: "y".to_owned() }),
            }
        });
        assert!(messages.next().unwrap().is_ok());
        assert!(messages.next().unwrap().is_err());
        assert!(messages.next().is_none());
    }
}
