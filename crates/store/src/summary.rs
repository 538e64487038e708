//! Totals of a session: counts, cost, models.

use annals_core::Usage;
use annals_core::id::{Millis, ProjectId, SessionId};

pub use crate::figures::SessionState;
use crate::figures::{Figures, Role};
use crate::home_url::HomeUrl;
use crate::record::SessionRecord;

/// A session in numbers.
#[derive(Debug, Clone)]
pub struct SessionSummary {
    /// Its id.
    pub id: SessionId,
    /// The project that owns it.
    pub project: ProjectId,
    /// Its title.
    pub title: String,
    /// The directory it was opened in, or else the working directory of its first answer.
    pub directory: Option<String>,
    /// The session that started it.
    pub parent: Option<SessionId>,
    /// The version of OpenCode that made it.
    pub version: Option<String>,
    /// When it was made.
    pub created: Option<Millis>,
    /// When it was last used.
    pub updated: Option<Millis>,
    /// When it was archived.
    pub archived: Option<Millis>,
    /// How many messages it has.
    pub messages: usize,
    /// How many parts they have.
    pub parts: usize,
    /// Cost and tokens.
    pub usage: Usage,
    /// The models that answered, `provider/model`, in order of appearance.
    pub models: Vec<String>,
    /// The agents that answered, in order of appearance.
    pub agents: Vec<String>,
    /// State of the last answer.
    pub state: SessionState,
    /// The homes that hold it.
    pub origins: Vec<HomeUrl>,
    /// When it was found that none of the homes it came from has it any more.
    pub gone: Option<Millis>,
}

impl SessionSummary {
    /// A summary from the session document alone, without its messages.
    pub fn of_document(record: &SessionRecord) -> SessionSummary {
        let info = &record.info;
        SessionSummary {
            id: record.id.clone(),
            project: record.project.clone(),
            title: info.title().to_owned(),
            directory: info.directory().map(ToOwned::to_owned),
            parent: info.parent(),
            version: info.version().map(ToOwned::to_owned),
            created: info.created(),
            updated: info.updated(),
            archived: info.archived(),
            messages: 0,
            parts: 0,
            usage: Usage::default(),
            models: Vec::new(),
            agents: Vec::new(),
            state: SessionState::Empty,
            origins: record.origins.clone(),
            gone: record.gone,
        }
    }

    /// Adds a message, in the order of the conversation.
    pub(crate) fn add(&mut self, figures: &Figures) {
        self.messages += 1;
        self.parts += figures.n_parts;
        if let Some(agent) = &figures.agent {
            push_new(&mut self.agents, agent);
        }
        self.state = figures.state;
        if figures.role != Role::Assistant {
            return;
        }
        self.usage += figures.usage;
        if let (Some(provider), Some(model)) = (&figures.provider, &figures.model) {
            push_new(&mut self.models, &format!("{provider}/{model}"));
        }
        if self.directory.is_none() {
            // Sessions from before 0.6 do not say where they were opened, but their answers do.
            self.directory.clone_from(&figures.cwd);
        }
    }
}

fn push_new(list: &mut Vec<String>, item: &str) {
    if !list.iter().any(|known| known == item) {
        list.push(item.to_owned());
    }
}
