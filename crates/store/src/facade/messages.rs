//! The messages of a session.

use std::time::SystemTime;

use annals_core::Key;
use annals_core::id::MessageId;
use annals_core::lens::{self, Part};

use super::system_time;
use crate::home::{
    self, MessageDetail, MessageRange, MessageRecord, Quarantined, Read, ReadError, SessionRecord,
};

/// The messages of a session, in order, read in batches.
///
/// A message that cannot be read is an `Err`; these come after all readable messages. Parts that cannot be read are in
/// [`Message::unreadable`].
#[derive(Debug)]
pub struct Messages<'s> {
    messages: Option<home::Messages<'s>>,
    unreadable: std::vec::IntoIter<Quarantined>,
}

impl<'s> Messages<'s> {
    pub(super) fn new(home: &'s dyn Read, session: &'s SessionRecord) -> Messages<'s> {
        let messages = home.messages(session, &MessageRange::ALL, MessageDetail::Parts);
        Messages { messages: Some(messages), unreadable: Vec::new().into_iter() }
    }
}

impl Iterator for Messages<'_> {
    type Item = Result<Message, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        while let Some(read) = self.messages.as_mut().and_then(Iterator::next) {
            match read {
                Ok(record) => {
                    if let Key::Message(_, id) = &record.stored.key {
                        return Some(Ok(Message { id: id.clone(), record }));
                    }
                }
                Err(error) => return Some(Err(error)),
            }
        }
        if let Some(messages) = self.messages.take() {
            self.unreadable = messages.into_quarantined().into_iter();
        }
        self.unreadable.next().map(|problem| Err(problem.into()))
    }
}

/// A message with its parts.
#[derive(Debug, Clone)]
pub struct Message {
    id: MessageId,
    record: MessageRecord,
}

impl Message {
    /// Its id.
    pub fn id(&self) -> &MessageId {
        &self.id
    }

    /// `user` or `assistant`; empty if its document does not say.
    pub fn role(&self) -> String {
        let role = self.record.stored.document.root().get("role").and_then(|role| role.as_text());
        role.map(|role| role.to_string()).unwrap_or_default()
    }

    /// The text of the message: the text of its parts, with a blank line between them. Text that the user did not write,
    /// such as the content of a file, is left out.
    pub fn text(&self) -> String {
        let texts = self.record.parts.iter().filter_map(|part| match part.document.lens() {
            Part::Text(part) if part.synthetic != Some(true) => part.text.map(|text| text.to_string()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n\n")
    }

    /// When it was made.
    pub fn created(&self) -> SystemTime {
        system_time(self.record.made)
    }

    /// Its parts that could not be read, each with its place and the reason.
    pub fn unreadable(&self) -> &[Quarantined] {
        &self.record.quarantined
    }

    /// The record underneath: the documents of the message and of its parts, to be read through
    /// [lenses](annals_core::lens).
    pub fn record(&self) -> &MessageRecord {
        &self.record
    }

    /// The model that a prompt was for; `None` for other messages.
    pub(super) fn prompted_model(&self) -> Option<(String, String)> {
        let lens::Message::User(prompt) = self.record.stored.document.lens() else { return None };
        let model = prompt.model?;
        Some((model.provider_id?.to_string(), model.model_id?.to_string()))
    }
}
