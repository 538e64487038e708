//! Forks: a session that begins with a copy of another one's messages.
//!
//! As in OpenCode, the copies have ids of their own and say everything else as the originals do, and nothing in the fork names its origin:
//! see [`Family`](crate::family) for how forks are recognised.

use std::collections::HashMap;

use annals_core::id::{MessageId, Millis, PartId, ProjectId, SessionId};
use annals_core::json::edit::EditError;
use annals_core::json::{JsonError, Node, Style};
use annals_core::lens::{self, SessionTime};
use annals_core::{Document, Key, Position, Stored, Transaction};

use crate::home::{
    MessageDetail, MessageRange, MessageRecord, Native, Read, ReadError, SessionRecord, Write,
};
use crate::homes::opencode::dialect::Dialect;
use crate::ids;
use crate::slug::slug;

/// Where a session is forked, and how the fork is called.
#[derive(Debug, Clone, Default)]
pub struct ForkOptions {
    /// The first message that is not copied; `None` copies all.
    pub at: Option<MessageId>,
    /// The title. The default is OpenCode's: the title of the original with ` (fork #1)`, or the next number.
    pub title: Option<String>,
}

/// Why a session could not be forked. Nothing has changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ForkError {
    /// The session does not have the message.
    #[error("session {session} has no message {message}")]
    NoMessage {
        /// The session.
        session: SessionId,
        /// The message.
        message: MessageId,
    },
    /// A document has another shape than OpenCode's.
    #[error("{place}: {source}")]
    Document {
        /// Where the document is.
        place: String,
        /// What is wrong with it.
        source: EditError,
    },
    /// The document of the fork would not be valid.
    #[error("the fork cannot be written: {0}")]
    Session(#[from] JsonError),
    /// The home could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// A fork that is not stored yet.
#[derive(Debug)]
pub struct Fork {
    /// Its id.
    pub id: SessionId,
    /// Its title.
    pub title: String,
    /// The number of messages that it copies.
    pub n_messages: usize,
    origin: SessionRecord,
    now: Millis,
    documents: Vec<CopiedDocument>,
}

/// A copy of a document, with ids of its own.
#[derive(Debug)]
struct CopiedDocument {
    key: Key,
    document: Document,
    position: Position,
    original: Key,
}

impl Fork {
    /// Makes a fork of a session, as `read` has it.
    pub fn of(
        read: &dyn Read,
        session: &SessionRecord,
        options: &ForkOptions,
        now: Millis,
    ) -> Result<Fork, ForkError> {
        let id = ids::session_at(now);
        let mut copying = Copying { id: &id, now, messages: HashMap::new(), documents: Vec::new() };
        let mut is_cut = options.at.is_none();
        for record in read.messages(session, &MessageRange::ALL, MessageDetail::Parts) {
            let record = record?;
            let Key::Message(_, message) = &record.stored.key else { continue };
            if options.at.as_ref() == Some(message) {
                is_cut = true;
                break;
            }
            copying.message(&record, message)?;
        }
        if let Some(message) = options.at.clone().filter(|_| !is_cut) {
            return Err(ForkError::NoMessage { session: session.id.clone(), message });
        }
        let Copying { messages, documents, .. } = copying;
        let title = options.title.clone().unwrap_or_else(|| forked_title(session.info.title()));
        Ok(Fork { id, title, n_messages: messages.len(), origin: session.clone(), now, documents })
    }

    /// The transaction that stores the fork in a home, as an OpenCode of this generation would. `project` is the one that the original is filed
    /// under there.
    pub(crate) fn transaction(
        &self,
        home: &dyn Write,
        project: &ProjectId,
        dialect: Dialect,
        reason: &str,
    ) -> Result<Transaction, ForkError> {
        let mut transaction = Transaction::new(reason);
        let key = Key::Session(project.clone(), self.id.clone());
        if let Native::Held { document, .. } = home.native(&key, self.session_document(project, dialect)?) {
            transaction.insert(key, document);
        }
        for copy in &self.documents {
            if let Native::Held { document, .. } = home.native(&copy.key, copy.document.clone()) {
                transaction.insert(copy.key.clone(), document);
                transaction.place(&copy.key, copy.position, Default::default());
                transaction.copied_from(&copy.key, copy.original.clone());
            }
        }
        Ok(transaction)
    }

    /// Every copied document with its original.
    pub(crate) fn copies(&self) -> Vec<(Key, Key)> {
        self.documents.iter().map(|copy| (copy.key.clone(), copy.original.clone())).collect()
    }

    fn session_document(&self, project: &ProjectId, dialect: Dialect) -> Result<Document, JsonError> {
        let slug = slug(&self.id);
        let origin = self.origin.stored.document.lens::<lens::Session<'_>>();
        let since = |first: Dialect| dialect >= first;
        let document = lens::Session {
            id: Some((&self.id).into()),
            slug: Some(slug.as_str().into()),
            version: Some(dialect.version().into()),
            project_id: Some(project.into()),
            directory: origin.directory,
            title: Some(self.title.as_str().into()),
            time: Some(SessionTime {
                created: Some(self.now),
                updated: Some(self.now),
                ..Default::default()
            }),
            workspace_id: origin.workspace_id.filter(|_| since(Dialect::V1_2)),
            path: origin.path.filter(|_| since(Dialect::V1_18)),
            metadata: origin.metadata.filter(|_| since(Dialect::V1_18)),
            ..Default::default()
        };
        Document::written(Style::Pretty, &document)
    }
}

/// The copies so far.
struct Copying<'f> {
    id: &'f SessionId,
    now: Millis,
    /// The new id of each message.
    messages: HashMap<String, MessageId>,
    documents: Vec<CopiedDocument>,
}

impl Copying<'_> {
    fn message(&mut self, record: &MessageRecord, message: &MessageId) -> Result<(), ForkError> {
        let id = ids::message_at(self.now);
        self.messages.insert(message.to_string(), id.clone());
        let copied = self.message_document(&record.stored.document, &id);
        self.add(&record.stored, Key::Message(self.id.clone(), id.clone()), copied)?;
        for part in &record.parts {
            let part_id = ids::part_at(self.now);
            let copied = self.part_document(&part.document, &id, &part_id);
            self.add(part, Key::Part(self.id.clone(), id.clone(), part_id), copied)?;
        }
        Ok(())
    }

    fn add(
        &mut self,
        original: &Stored,
        key: Key,
        document: Result<Document, EditError>,
    ) -> Result<(), ForkError> {
        let failed = |source| ForkError::Document { place: original.place.clone(), source };
        let (document, position) = (document.map_err(failed)?, original.position);
        self.documents.push(CopiedDocument { key, document, position, original: original.key.clone() });
        Ok(())
    }

    fn message_document(&self, original: &Document, id: &MessageId) -> Result<Document, EditError> {
        let copied = original.with(&["id"], id.as_str())?.with(&["sessionID"], self.id.as_str())?;
        // A prompt that was not copied is named as before.
        match self.new_id(original, "parentID") {
            Some(Some(parent)) => copied.with(&["parentID"], parent.as_str()),
            _ => Ok(copied),
        }
    }

    fn part_document(
        &self,
        original: &Document,
        message: &MessageId,
        id: &PartId,
    ) -> Result<Document, EditError> {
        let copied = original
            .with(&["id"], id.as_str())?
            .with(&["sessionID"], self.id.as_str())?
            .with(&["messageID"], message.as_str())?;
        // Where a compaction keeps messages from. Since 1.14.30 OpenCode names the copy, or nothing if there is none.
        match self.new_id(original, "tail_start_id") {
            Some(Some(start)) => copied.with(&["tail_start_id"], start.as_str()),
            Some(None) => copied.without(&["tail_start_id"]),
            None => Ok(copied),
        }
    }

    /// The copy of a message that a document names. `None` if the document names none, `Some(None)` if the message was not copied.
    fn new_id(&self, document: &Document, field: &str) -> Option<Option<&MessageId>> {
        let named = document.root().get(field).and_then(Node::as_text)?;
        Some(self.messages.get(&*named.to_str()))
    }
}

/// The title of a fork: ` (fork #1)`, or the next number.
pub fn forked_title(title: &str) -> String {
    let numbered = title.strip_suffix(')').and_then(|rest| rest.rsplit_once(" (fork #"));
    match numbered.and_then(|(base, number)| Some((base, decimal(number)?))) {
        Some((base, number)) if !base.is_empty() && !base.contains('\n') => {
            format!("{base} (fork #{})", number.saturating_add(1))
        }
        _ => format!("{title} (fork #1)"),
    }
}

/// A number that is written in digits alone.
fn decimal(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forks_are_numbered() {
        for (title, expected) in [
            ("Cart", "Cart (fork #1)"),
            ("Cart (fork #1)", "Cart (fork #2)"),
            ("Cart (fork #9)", "Cart (fork #10)"),
            ("Cart (fork #x)", "Cart (fork #x) (fork #1)"),
            ("Cart (fork #+1)", "Cart (fork #+1) (fork #1)"),
            ("Cart (fork #)", "Cart (fork #) (fork #1)"),
            (" (fork #1)", " (fork #1) (fork #1)"),
            ("", " (fork #1)"),
        ] {
            assert_eq!(forked_title(title), expected, "{title:?}");
        }
    }
}
