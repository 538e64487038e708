//! A prompt: the user's message, its parts, and the session's time of last use.

use std::path::Path;

use annals_core::id::{MessageId, Millis, PartId, SessionId};
use annals_core::json::edit::EditError;
use annals_core::json::{JsonError, Style};
use annals_core::lens::{
    AgentPart, Json, MessageTime, ModelRef, Part, PermissionRule, SessionModel, SubtaskPart, TextPart,
    UserMessage,
};
use annals_core::{Document, Key, Stored, Transaction};

use super::Session;
use super::attachment::{Attachment, Mention, synthetic};
use crate::home::{CommitError, ConflictKind, ReadError};
use crate::homes::opencode::dialect::Dialect;
use crate::homes::opencode::order;
use crate::{ids, revert};

/// Limit on attempts to store a prompt. An attempt fails if another program changed the session meanwhile.
const MAX_TRIES: usize = 20;

/// A prompt to be stored: see [`Session::prompt`].
#[derive(Debug, Clone)]
#[must_use = "nothing is written before `save`"]
pub struct Prompt<'s> {
    session: &'s Session,
    parts: Vec<PromptPart>,
    agent: String,
    model: Option<String>,
    variant: Option<String>,
    system: Option<String>,
    tools: Vec<(String, bool)>,
    id: Option<MessageId>,
}

/// A piece of a prompt.
#[derive(Debug, Clone)]
enum PromptPart {
    /// A part as it is.
    Part(Part<'static>),
    /// A file, which becomes several parts.
    File(Attachment),
    /// A subagent that the model is to call.
    Agent { name: String, mention: Option<Mention> },
}

/// Work for a subagent, given by a command.
#[derive(Debug, Clone, Default)]
pub struct Subtask {
    /// What to do.
    pub prompt: String,
    /// In a few words.
    pub description: String,
    /// The subagent.
    pub agent: String,
    /// The model, `provider/model`, if it is another one than the prompt's.
    pub model: Option<String>,
    /// The command that gave it.
    pub command: Option<String>,
}

/// A prompt as it was stored.
#[derive(Debug, Clone)]
pub(crate) struct StoredPrompt {
    pub(crate) id: MessageId,
    pub(crate) agent: String,
    pub(crate) provider: String,
    pub(crate) model: String,
    pub(crate) variant: Option<String>,
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
        let prompt = Prompt {
            session,
            parts: Vec::new(),
            agent: "build".to_owned(),
            model: None,
            variant: None,
            system: None,
            tools: Vec::new(),
            id: None,
        };
        if text.is_empty() { prompt } else { prompt.text(text) }
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

    /// Sets the variant of the model, such as an effort of reasoning.
    pub fn variant(mut self, variant: impl Into<String>) -> Prompt<'s> {
        self.variant = Some(variant.into());
        self
    }

    /// Adds a system prompt for this prompt alone.
    pub fn system(mut self, system: impl Into<String>) -> Prompt<'s> {
        self.system = Some(system.into());
        self
    }

    /// Switches a tool on or off. As in OpenCode, the session's permissions are replaced by these switches.
    pub fn tool(mut self, name: impl Into<String>, on: bool) -> Prompt<'s> {
        self.tools.push((name.into(), on));
        self
    }

    /// Sets the id of the message. The default is a new one.
    pub fn id(mut self, id: MessageId) -> Prompt<'s> {
        self.id = Some(id);
        self
    }

    /// Adds a text of the user's.
    pub fn text(self, text: impl Into<String>) -> Prompt<'s> {
        self.part(TextPart { text: Some(text.into().into()), ..Default::default() })
    }

    /// Adds a text that the user did not write and does not see, but the model gets.
    pub fn synthetic(self, text: impl Into<String>) -> Prompt<'s> {
        self.part(synthetic(text.into()))
    }

    /// Adds a file, a directory, or bytes. As in OpenCode, the model gets its content as it is when the prompt is stored.
    pub fn attach(mut self, attachment: Attachment) -> Prompt<'s> {
        self.parts.push(PromptPart::File(attachment));
        self
    }

    /// Mentions a subagent, which the model is told to call.
    pub fn mention_agent(mut self, name: impl Into<String>) -> Prompt<'s> {
        self.parts.push(PromptPart::Agent { name: name.into(), mention: None });
        self
    }

    /// Mentions a subagent in the text: as `text`, which begins at `start`, in UTF-16 units.
    pub fn mention_agent_as(
        mut self,
        name: impl Into<String>,
        text: impl Into<String>,
        start: usize,
    ) -> Prompt<'s> {
        let mention = Some(Mention { text: text.into(), start });
        self.parts.push(PromptPart::Agent { name: name.into(), mention });
        self
    }

    /// Gives work to a subagent, as a command does.
    pub fn subtask(self, subtask: Subtask) -> Result<Prompt<'s>, PromptError> {
        let model = match &subtask.model {
            Some(named) => {
                let (provider, model) = split_model(named)?;
                Some(ModelRef {
                    provider_id: Some(provider.to_owned().into()),
                    model_id: Some(model.to_owned().into()),
                    variant: None,
                })
            }
            None => None,
        };
        Ok(self.part(SubtaskPart {
            prompt: Some(subtask.prompt.into()),
            description: Some(subtask.description.into()),
            agent: Some(subtask.agent.into()),
            model,
            command: subtask.command.map(Into::into),
            ..Default::default()
        }))
    }

    /// Adds a part of any kind. Its ids are set when it is stored.
    pub fn part(mut self, part: impl Into<Part<'static>>) -> Prompt<'s> {
        self.parts.push(PromptPart::Part(part.into()));
        self
    }

    /// Stores the prompt: the message, its parts and the time of the session's last use, all or nothing. A change that another
    /// program makes to the session meanwhile is kept, and the prompt is stored after it. What was reverted before is removed, as
    /// OpenCode does when a reverted session is prompted.
    pub fn save(self) -> Result<MessageId, PromptError> {
        Ok(self.store()?.id)
    }

    fn dialect(&self) -> Dialect {
        self.session.store().dialect()
    }

    /// The session that is prompted.
    pub(crate) fn session(&self) -> &'s Session {
        self.session
    }

    pub(crate) fn store(&self) -> Result<StoredPrompt, PromptError> {
        let (provider, model) = self.resolve_model()?;
        let home = self.session.store().home();
        let id = self.session.id();
        let message = self.id.clone().unwrap_or_else(ids::new_message);
        let now = ids::now();
        let prompt = self.message_document(&message, (&provider, &model), now)?;
        let mut parts = Vec::new();
        for part in self.all_parts() {
            let part_id = ids::new_part();
            let document = part_document(&part, id, &message, &part_id, self.dialect())?;
            parts.push((Key::Part(id.clone(), message.clone(), part_id), document));
        }
        let mut n_tries = 0;
        loop {
            let gone = || PromptError::Gone { session: id.to_string() };
            let current = home.session(id)?.ok_or_else(gone)?;
            let mut transaction = Transaction::new("a prompt");
            revert::clean_up(home, &current, &mut transaction)?;
            transaction.insert(Key::Message(id.clone(), message.clone()), prompt.clone());
            for (key, document) in &parts {
                transaction.insert(key.clone(), document.clone());
            }
            let prompted = self.prompted(&current.stored, (&provider, &model), now)?;
            transaction.replace(&current.stored, prompted);
            n_tries += 1;
            match home.commit(transaction) {
                Ok(_) => break,
                Err(CommitError::Conflict { key, what: ConflictKind::Changed, .. })
                    if *key == current.stored.key && n_tries < MAX_TRIES => {}
                Err(error) => return Err(error.into()),
            }
        }
        let (agent, variant) = (self.agent.clone(), self.variant.clone());
        Ok(StoredPrompt { id: message, agent, provider, model, variant })
    }

    fn message_document(
        &self,
        id: &MessageId,
        (provider, model): (&str, &str),
        now: Millis,
    ) -> Result<Document, JsonError> {
        let is_beside = self.dialect().has_variant_beside_model();
        let variant = |wanted: bool| self.variant.as_deref().filter(|_| wanted).map(Into::into);
        let tools = (!self.tools.is_empty()).then(|| {
            let tools: serde_json::Map<String, serde_json::Value> =
                self.tools.iter().map(|(name, on)| (name.clone(), (*on).into())).collect();
            Json::from(serde_json::Value::Object(tools))
        });
        let document = Document::written(
            Style::Pretty,
            &UserMessage {
                id: Some(id.into()),
                session_id: Some(self.session.id().into()),
                time: Some(MessageTime { created: Some(now), completed: None }),
                agent: Some(self.agent.as_str().into()),
                model: Some(ModelRef {
                    provider_id: Some(provider.into()),
                    model_id: Some(model.into()),
                    variant: variant(!is_beside),
                }),
                system: self.system.as_deref().map(Into::into),
                tools,
                variant: variant(is_beside),
                ..Default::default()
            },
        );
        Ok(order::of_new(self.dialect(), document?))
    }

    /// The parts of the prompt, with those that OpenCode adds.
    fn all_parts(&self) -> Vec<Part<'static>> {
        let dialect = self.dialect();
        let directory = Path::new(self.session.directory().unwrap_or("/"));
        let mut parts = Vec::new();
        for part in &self.parts {
            match part {
                PromptPart::Part(part) => parts.push(part.clone()),
                PromptPart::File(attachment) => parts.extend(attachment.parts(directory, dialect)),
                PromptPart::Agent { name, mention } => {
                    let source = mention.as_ref().map(Mention::source);
                    let agent = AgentPart { name: Some(name.clone().into()), source, ..Default::default() };
                    parts.push(agent.into());
                    parts.push(synthetic(format!(
                        " Use the above message and context to generate a prompt and call the task tool with subagent: {name}"
                    )));
                }
            }
        }
        parts
    }

    /// The provider and the model.
    fn resolve_model(&self) -> Result<(String, String), PromptError> {
        if let Some(named) = &self.model {
            return split_model(named).map(|(provider, model)| (provider.to_owned(), model.to_owned()));
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
        let mut document = session.document.without(&["revert"])?.with(&["time", "updated"], &now)?;
        if !self.tools.is_empty() {
            let rules: Vec<PermissionRule<'_>> = self.tools.iter().map(permission).collect();
            document = document.with(&["permission"], &rules)?;
        }
        if !self.dialect().keeps_last_prompt() {
            return Ok(document);
        }
        let model = SessionModel {
            id: Some(model.into()),
            provider_id: Some(provider.into()),
            variant: Some(self.variant.as_deref().unwrap_or("default").into()),
        };
        document.with(&["agent"], self.agent.as_str())?.with(&["model"], &model)
    }
}

fn permission((tool, on): &(String, bool)) -> PermissionRule<'_> {
    PermissionRule {
        permission: Some(tool.as_str().into()),
        action: Some(if *on { "allow" } else { "deny" }.into()),
        pattern: Some("*".into()),
    }
}

/// The provider and the model of a name. Everything after the first `/` is the model.
pub(crate) fn split_model(named: &str) -> Result<(&str, &str), PromptError> {
    match named.split_once('/') {
        Some((provider, model)) if !provider.is_empty() && !model.is_empty() => Ok((provider, model)),
        _ => Err(PromptError::Model { model: named.to_owned() }),
    }
}

/// A part as a document, with its ids.
pub(crate) fn part_document(
    part: &Part<'_>,
    session: &SessionId,
    message: &MessageId,
    id: &PartId,
    dialect: Dialect,
) -> Result<Document, JsonError> {
    let mut part = part.clone();
    let ids = (Some(id.into()), Some(session.into()), Some(message.into()));
    macro_rules! set_ids {
        ($($variant:ident),*) => {
            match &mut part {
                $( Part::$variant(part) => (part.id, part.session_id, part.message_id) = ids, )*
            }
        };
    }
    set_ids!(
        Text, Reasoning, File, Tool, StepStart, StepFinish, Snapshot, Patch, Agent, Retry, Compaction,
        Subtask, Other
    );
    Ok(order::of_new(dialect, Document::written_as_given(Style::Pretty, &part)?))
}
