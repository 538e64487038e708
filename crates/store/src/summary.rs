//! What a session amounts to: counts, cost, models.

use std::ops::ControlFlow;

use annals_core::Usage;
use annals_core::id::{Millis, ProjectId, SessionId};
use annals_core::lens::{Message, Session};
use rayon::prelude::*;

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
}

/// How a session's last answer stands, as far as stored documents tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionState {
    /// Nothing was asked yet.
    Empty,
    /// It ended.
    Done,
    /// It ended with an error.
    Failed,
    /// It is being written, or was cut short.
    Open,
}

/// Summarises sessions, several at a time. `progress` is called with each one that is done.
pub fn summarize(
    home: &dyn Read,
    records: Vec<SessionRecord>,
    progress: &(dyn Fn() + Sync),
) -> Result<Found<Vec<SessionSummary>>, ReadError> {
    let summarize = |record: SessionRecord| {
        let summary = summarize_one(home, &record);
        progress();
        summary
    };
    let read: Result<Vec<_>, ReadError> =
        parallel::run_as(home.work(), || records.into_par_iter().map(summarize).collect());
    let mut found: Found<Vec<SessionSummary>> = Found::default();
    for (summary, mut quarantined) in read? {
        found.value.push(summary);
        found.quarantined.append(&mut quarantined);
    }
    Ok(found)
}

fn summarize_one(
    home: &dyn Read,
    record: &SessionRecord,
) -> Result<(SessionSummary, Vec<Quarantined>), ReadError> {
    let mut summary = SessionSummary::of_document(record);
    let mut quarantined = Vec::new();
    let unvisited = home.messages(record, Want::PartCounts, &mut |mut message| {
        quarantined.append(&mut message.quarantined);
        summary.messages += 1;
        summary.parts += message.n_parts;
        summary.add(&message.stored.document.lens());
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
        }
    }

    fn add(&mut self, message: &Message<'_>) {
        if let Some(agent) = message.agent() {
            push_new(&mut self.agents, agent.to_string());
        }
        let Message::Assistant(answer) = message else {
            self.state = SessionState::Open;
            return;
        };
        self.usage += Usage::of(answer);
        if let (Some(provider), Some(model)) = (&answer.provider_id, &answer.model_id) {
            push_new(&mut self.models, format!("{provider}/{model}"));
        }
        if self.directory.is_none() {
            // Sessions from before 0.6 do not say where they were opened, but their answers do.
            let path = answer.path.as_ref();
            self.directory = path.and_then(|path| path.cwd.as_ref()).map(|cwd| cwd.to_string());
        }
        let completed = answer.time.as_ref().is_some_and(|time| time.completed.is_some());
        self.state = match (&answer.error, completed) {
            (Some(_), _) => SessionState::Failed,
            (None, true) => SessionState::Done,
            (None, false) => SessionState::Open,
        };
    }
}

fn push_new(list: &mut Vec<String>, item: String) {
    if !list.contains(&item) {
        list.push(item);
    }
}
