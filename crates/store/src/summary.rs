//! What a session amounts to: counts, cost, models.

use std::ops::ControlFlow;

use annals_core::Usage;
use annals_core::id::{Millis, ProjectId, SessionId};
use annals_core::lens::Session;
use rayon::prelude::*;

use crate::figures::{Figures, Role};
use crate::home::{Found, Quarantined, Read, ReadError, SessionRecord, Want};
use crate::parallel;

/// A session in numbers.
#[derive(Debug, Clone)]
pub struct SessionSummary {
    /// Its id.
    pub id: SessionId,
    /// The project that owns it.
    pub project: ProjectId,
    /// Its title.
    pub title: String,
    /// The directory it was opened in, or where its first answer came from.
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
    /// What it cost.
    pub usage: Usage,
    /// The models that answered, `provider/model`, in order of appearance.
    pub models: Vec<String>,
    /// The agents that answered, in order of appearance.
    pub agents: Vec<String>,
    /// Whether the last answer ended, if there is one.
    pub state: SessionState,
    /// The homes that hold it.
    pub origins: Vec<String>,
    /// When it was found to be in none of the homes it came from any more.
    pub gone: Option<Millis>,
}

/// How a session's last answer stands, as far as its message documents tell. They do not tell whether an agent is running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionState {
    /// Nothing was asked yet.
    Empty,
    /// It ended, and so did the turn.
    Done,
    /// It ended with an error.
    Failed,
    /// It has not ended, or ended with tool calls that nothing came after: an agent is at work, was cut short, or stopped
    /// because the user refused a call.
    Open,
}

/// Summarises sessions, several at a time. `progress` is called with each one that is done.
pub fn summarize(
    home: &dyn Read,
    records: &[SessionRecord],
    progress: &(dyn Fn() + Sync),
) -> Result<Found<Vec<SessionSummary>>, ReadError> {
    let known = home.summaries(&records.iter().collect::<Vec<_>>())?;
    let unknown: Vec<&SessionRecord> =
        records.iter().zip(&known).filter(|(_, known)| known.is_none()).map(|(record, _)| record).collect();
    let mut found: Found<Vec<SessionSummary>> = Found::default();
    let mut added_up = Vec::new();
    if !unknown.is_empty() {
        let summarize = |record: &SessionRecord| {
            let summary = read(home, record, Want::PartCounts, &mut |_| {});
            progress();
            summary
        };
        let read: Result<Vec<_>, ReadError> =
            parallel::run_as(home.work(), || unknown.into_par_iter().map(summarize).collect());
        added_up = read?;
    }
    let mut added_up = added_up.into_iter();
    for known in known {
        let summary = known.or_else(|| {
            let (summary, mut quarantined) = added_up.next()?;
            found.quarantined.append(&mut quarantined);
            Some(summary)
        });
        found.value.extend(summary);
    }
    Ok(found)
}

/// Adds up what the messages of a session amount to.
pub(crate) fn read(
    home: &(impl Read + ?Sized),
    record: &SessionRecord,
    want: Want,
    visit: &mut dyn FnMut(Figures),
) -> Result<(SessionSummary, Vec<Quarantined>), ReadError> {
    let mut summary = SessionSummary::of_document(record);
    let mut quarantined = Vec::new();
    let unvisited = home.figures(record, want, &mut |mut figures| {
        quarantined.append(&mut figures.quarantined);
        summary.add(&figures);
        visit(figures);
        ControlFlow::Continue(())
    })?;
    quarantined.extend(unvisited);
    // A session that says itself what it took knows of messages that are gone, and of calls that left no message.
    if let Some(usage) = Usage::of_session(&record.stored.document.lens()) {
        summary.usage = usage;
    }
    Ok((summary, quarantined))
}

impl SessionSummary {
    /// What the session document alone tells.
    pub fn of_document(record: &SessionRecord) -> SessionSummary {
        let session = record.stored.document.lens::<Session<'_>>();
        let time = session.time.unwrap_or_default();
        SessionSummary {
            id: record.id.clone(),
            project: record.project.clone(),
            title: session.title.map(|title| title.to_string()).unwrap_or_default(),
            directory: session.directory.map(|directory| directory.to_string()),
            parent: session.parent_id.and_then(|parent| SessionId::parse(&parent.to_str()).ok()),
            version: session.version.map(|version| version.to_string()),
            created: time.created,
            updated: time.updated,
            archived: time.archived,
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

impl SessionState {
    pub(crate) fn number(self) -> i64 {
        match self {
            SessionState::Empty => 0,
            SessionState::Done => 1,
            SessionState::Failed => 2,
            SessionState::Open => 3,
        }
    }

    pub(crate) fn from_number(number: i64) -> SessionState {
        match number {
            1 => SessionState::Done,
            2 => SessionState::Failed,
            3 => SessionState::Open,
            _ => SessionState::Empty,
        }
    }
}

fn push_new(list: &mut Vec<String>, item: &str) {
    if !list.iter().any(|known| known == item) {
        list.push(item.to_owned());
    }
}
