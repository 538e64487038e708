//! A prompt: the user's message, its text, and the session's time of last use.

use annals_core::id::{MessageId, Millis};
use annals_core::json::edit::EditError;
use annals_core::json::{JsonError, Style};
use annals_core::lens::{MessageTime, ModelRef, SessionModel, TextPart, UserMessage};
use annals_core::{Document, Key, Stored, Transaction};

use super::Session;
use crate::home::{CommitError, ConflictKind, ReadError};
use crate::ids;

/// Limit on attempts to store a prompt. An attempt fails if another program changed the session meanwhile.
const MAX_TRIES: usize = 20;

/// A prompt to be stored: see [`Session::prompt`].
#[derive(Debug, Clone)]
#[must_use = "nothing is written before `save`"]
pub struct Prompt<'s> {
    session: &'s Session,
    text: String,
    agent: String,
    model: Option<String>,
}

/// Why a prompt was not stored. Nothing has changed, unless [`CommitError`] says otherwise.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PromptError {
    /// The model is not in the form `provider/model`.
    #[error("{model:?} names no model: give the provider and the model, as in `anthropic/claude-sonnet-4-5`")]
    Model {
        /// The given name.
        model: String,
    },
    /// No model was given, and the session has no earlier prompt to take it from. OpenCode answers no prompt without one.
    #[error("the first prompt of session {session} needs a model, such as `anthropic/claude-sonnet-4-5`")]
    NoModel {
        /// The session.
        session: String,
    },
    /// The session was deleted.
    #[error("session {session} does not exist any more")]
    Gone {
        /// The session.
        session: String,
    },
    /// The text is too long for a document.
    #[error("the prompt cannot be written: {0}")]
    Document(#[from] JsonError),
    /// The session's document has no place for the time of the prompt.
    #[error("the session cannot be changed: {0}")]
    Session(#[from] EditError),
    /// The home could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The prompt could not be stored.
    #[error(transparent)]
    Commit(#[from] CommitError),
}

impl<'s> Prompt<'s> {
    pub(super) fn new(session: &'s Session, text: String) -> Prompt<'s> {
        Prompt { session, text, agent: "build".to_owned(), model: None }
    }

    /// Sets the agent that is to answer. The default is `build`.
    pub fn agent(mut self, agent: impl Into<String>) -> Prompt<'s> {
        self.agent = agent.into();
        self
    }

    /// Sets the model that is to answer, `provider/model`. The default is the model of the session's last prompt.
    pub fn model(mut self, model: impl Into<String>) -> Prompt<'s> {
        self.model = Some(model.into());
        self
    }

    /// Stores the prompt: the message, its text and the time of the session's last use, all or nothing. A change that another
    /// program makes to the session meanwhile is kept, and the prompt is stored after it.
    pub fn save(self) -> Result<MessageId, PromptError> {
        let (provider, model) = self.resolve_model()?;
        let home = self.session.store().home();
        let id = self.session.id();
        let (message, part, now) = (ids::new_message(), ids::new_part(), ids::now());
        let prompt = Document::written(
            Style::Pretty,
            &UserMessage {
                id: Some((&message).into()),
                session_id: Some(id.into()),
                time: Some(MessageTime { created: Some(now), completed: None }),
                agent: Some(self.agent.as_str().into()),
                model: Some(ModelRef {
                    provider_id: Some(provider.as_str().into()),
                    model_id: Some(model.as_str().into()),
                    variant: None,
                }),
                ..Default::default()
            },
        )?;
        let text = Document::written(
            Style::Pretty,
            &TextPart {
                id: Some((&part).into()),
                session_id: Some(id.into()),
                message_id: Some((&message).into()),
                text: Some(self.text.as_str().into()),
                ..Default::default()
            },
        )?;
        let mut n_tries = 0;
        loop {
            let gone = || PromptError::Gone { session: id.to_string() };
            let current = home.session(id)?.ok_or_else(gone)?.stored;
            let mut transaction = Transaction::new("a prompt");
            transaction.insert(Key::Message(id.clone(), message.clone()), prompt.clone());
            transaction.insert(Key::Part(id.clone(), message.clone(), part.clone()), text.clone());
            transaction.replace(&current, self.prompted(&current, (&provider, &model), now)?);
            n_tries += 1;
            match home.commit(transaction) {
                Ok(_) => return Ok(message),
                Err(CommitError::Conflict { key, what: ConflictKind::Changed, .. })
                    if *key == current.key && n_tries < MAX_TRIES => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The provider and the model. Everything after the first `/` is the model.
    fn resolve_model(&self) -> Result<(String, String), PromptError> {
        if let Some(named) = &self.model {
            return match named.split_once('/') {
                Some((provider, model)) if !provider.is_empty() && !model.is_empty() => {
                    Ok((provider.to_owned(), model.to_owned()))
                }
                _ => Err(PromptError::Model { model: named.clone() }),
            };
        }
        let earlier = self.session.messages().flatten().filter_map(|message| message.prompted_model());
        let model = earlier.last();
        model.ok_or_else(|| PromptError::NoModel { session: self.session.id().to_string() })
    }

    /// The session's document after the prompt.
    fn prompted(
        &self,
        session: &Stored,
        (provider, model): (&str, &str),
        now: Millis,
    ) -> Result<Document, EditError> {
        let document = session.document.with(&["time", "updated"], &now)?;
        if !self.session.store().home.keeps_last_prompt() {
            return Ok(document);
        }
        let model = SessionModel {
            id: Some(model.into()),
            provider_id: Some(provider.into()),
            variant: Some("default".into()),
        };
        document.with(&["agent"], self.agent.as_str())?.with(&["model"], &model)
    }
}
