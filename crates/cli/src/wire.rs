//! The shapes of `--json`, as docs/json.md describes them. Names and order of fields are part of the interface.

use annals::model::Usage;
use annals::summary::{SessionState, SessionSummary};
use serde::Serialize;

/// Token counts.
#[derive(Debug, Serialize)]
pub(crate) struct TokensJson {
    input: f64,
    output: f64,
    reasoning: f64,
    cache: CacheJson,
}

#[derive(Debug, Serialize)]
struct CacheJson {
    read: f64,
    write: f64,
}

impl From<Usage> for TokensJson {
    fn from(usage: Usage) -> TokensJson {
        TokensJson {
            input: usage.input,
            output: usage.output,
            reasoning: usage.reasoning,
            cache: CacheJson { read: usage.cache_read, write: usage.cache_write },
        }
    }
}

/// A session in a list.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionJson {
    pub(crate) id: String,
    title: String,
    #[serde(rename = "projectID")]
    project_id: String,
    directory: Option<String>,
    #[serde(rename = "parentID")]
    parent_id: Option<String>,
    version: Option<String>,
    created: Option<i64>,
    updated: Option<i64>,
    archived: Option<i64>,
    messages: usize,
    parts: usize,
    cost: f64,
    tokens: TokensJson,
    models: Vec<String>,
    agents: Vec<String>,
    children: Vec<String>,
    origins: Vec<String>,
    gone: Option<i64>,
    status: &'static str,
}

impl SessionJson {
    pub(crate) fn new(summary: &SessionSummary, children: Vec<String>) -> SessionJson {
        SessionJson {
            id: summary.id.to_string(),
            title: summary.title.clone(),
            project_id: summary.project.to_string(),
            directory: summary.directory.clone(),
            parent_id: summary.parent.as_ref().map(ToString::to_string),
            version: summary.version.clone(),
            created: summary.created,
            updated: summary.updated,
            archived: summary.archived,
            messages: summary.messages,
            parts: summary.parts,
            cost: summary.usage.cost,
            tokens: summary.usage.into(),
            models: summary.models.clone(),
            agents: summary.agents.clone(),
            children,
            origins: summary.origins.clone(),
            gone: summary.gone,
            status: status(summary.state),
        }
    }
}

fn status(state: SessionState) -> &'static str {
    match state {
        SessionState::Empty => "empty",
        SessionState::Done => "done",
        SessionState::Failed => "failed",
        SessionState::Open => "open",
    }
}
