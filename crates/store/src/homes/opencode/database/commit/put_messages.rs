//! The messages that a transaction puts, and what can be told from them about each other and about their session.

use std::collections::HashMap;

use annals_core::id::{MessageId, Millis, SessionId};
use annals_core::lens::{AssistantMessage, Message};
use annals_core::{Change, Document, Key};
use rusqlite::{Connection, OptionalExtension};

use crate::homes::opencode::complete::Surroundings;

/// The messages that a transaction puts, in order.
pub(super) struct PutMessages<'a> {
    by_session: HashMap<&'a SessionId, Vec<(&'a MessageId, &'a Document)>>,
    /// The session of each message, and when the message was made.
    made: HashMap<&'a MessageId, (&'a SessionId, Millis)>,
}

/// What surrounds a message.
#[derive(Default)]
pub(super) struct MessageContext {
    parent: Option<String>,
    agent: Option<String>,
    provider: Option<String>,
    model: Option<String>,
    directory: String,
    worktree: String,
}

impl<'a> PutMessages<'a> {
    pub(super) fn of(changes: &'a [Change]) -> PutMessages<'a> {
        let mut by_session: HashMap<&SessionId, Vec<(&MessageId, &Document)>> = HashMap::new();
        let mut made = HashMap::new();
        for change in changes {
            if let (Key::Message(session, id), Some(document)) = (&change.key, change.document()) {
                by_session.entry(session).or_default().push((id, document));
                made.insert(id, (session, created(document).unwrap_or(0)));
            }
        }
        for messages in by_session.values_mut() {
            messages.sort_by_key(|(id, _)| (made.get(*id).map(|(_, made)| *made), id.as_str()));
        }
        PutMessages { by_session, made }
    }

    /// The session of a message, and when the message was made.
    pub(super) fn made(&self, message: &MessageId) -> Option<(&'a SessionId, Millis)> {
        self.made.get(message).copied()
    }

    /// When the first message of a session was made.
    pub(super) fn first_time(&self, session: &SessionId) -> Option<Millis> {
        self.by_session.get(session)?.iter().find_map(|(id, _)| self.made.get(*id)).map(|(_, made)| *made)
    }

    /// Where the first answer of a session ran. Sessions from before 0.6 do not say where they were opened.
    pub(super) fn first_directory(&self, session: &SessionId) -> Option<String> {
        self.by_session.get(session)?.iter().find_map(|(_, document)| match document.lens::<Message<'_>>() {
            Message::Assistant(answer) => Some(answer.path?.cwd?.to_string()),
            _ => None,
        })
    }

    /// What other documents tell about a message that does not say it itself.
    pub(super) fn context(
        &self,
        connection: &Connection,
        session: &SessionId,
        id: &MessageId,
        document: &Document,
    ) -> rusqlite::Result<MessageContext> {
        let messages = self.by_session.get(session).map(Vec::as_slice).unwrap_or_default();
        let place = messages.iter().position(|(other, _)| *other == id).unwrap_or(0);
        let (before, from) = messages.split_at(place);
        let mut context = MessageContext::default();
        let prompt = before.iter().rev().find(|(_, document)| is_user(document));
        context.parent = prompt.map(|(id, _)| id.to_string());
        // A prompt was answered by what follows it, an answer belongs with its prompt or the answers beside it.
        let own = document.lens::<Message<'_>>();
        let answer = match own {
            Message::User(_) => from.iter().find_map(|(_, document)| answer_of(document)),
            _ => before.iter().rev().chain(from).find_map(|(_, document)| answer_of(document)),
        };
        if let Some(answer) = answer {
            let text = |text: Option<annals_core::json::Text<'_>>| text.map(|text| text.to_string());
            context.agent = text(answer.agent.or(answer.mode));
            context.provider = text(answer.provider_id);
            context.model = text(answer.model_id);
        }
        let row = connection
            .prepare_cached(
                "SELECT s.directory, p.worktree FROM session s LEFT JOIN project p ON p.id = s.project_id \
                 WHERE s.id = ?1",
            )?
            .query_row([session.as_str()], |row| Ok((row.get::<_, Option<String>>(0)?, row.get(1)?)))
            .optional()?;
        let (directory, worktree): (Option<String>, Option<String>) = row.unwrap_or_default();
        context.directory = directory.unwrap_or_default();
        context.worktree = worktree.unwrap_or_else(|| context.directory.clone());
        Ok(context)
    }
}

impl MessageContext {
    pub(super) fn surroundings(&self, created: Millis) -> Surroundings<'_> {
        Surroundings {
            created,
            parent: self.parent.as_deref(),
            agent: self.agent.as_deref(),
            provider: self.provider.as_deref(),
            model: self.model.as_deref(),
            directory: &self.directory,
            worktree: &self.worktree,
        }
    }
}

/// When a message was made, if it says so.
pub(super) fn created(document: &Document) -> Option<Millis> {
    Message::created_in(document.root())
}

fn is_user(document: &Document) -> bool {
    matches!(document.lens::<Message<'_>>(), Message::User(_))
}

fn answer_of(document: &Document) -> Option<Box<AssistantMessage<'_>>> {
    match document.lens::<Message<'_>>() {
        Message::Assistant(answer) => Some(answer),
        _ => None,
    }
}
