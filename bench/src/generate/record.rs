//! The stored records, for writing only. Field order is part of the bytes: it is the order of the keys on
//! disk.

use serde::Serialize;
use serde_json::{Map, Value};

pub(crate) const VERSION: &str = "1.1.65";

#[derive(Debug, Serialize)]
pub(crate) struct Project<'a> {
    pub(crate) id: &'a str,
    pub(crate) worktree: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) vcs: Option<&'static str>,
    pub(crate) sandboxes: [&'a str; 0],
    pub(crate) time: Updated,
}

#[derive(Debug, Serialize)]
pub(crate) struct Updated {
    pub(crate) created: u64,
    pub(crate) updated: u64,
}

#[derive(Debug, Serialize)]
pub(crate) struct Session<'a> {
    pub(crate) id: &'a str,
    pub(crate) slug: String,
    pub(crate) version: &'static str,
    #[serde(rename = "projectID")]
    pub(crate) project_id: &'a str,
    pub(crate) directory: &'a str,
    #[serde(rename = "parentID", skip_serializing_if = "Option::is_none")]
    pub(crate) parent_id: Option<&'a str>,
    pub(crate) title: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) permission: Option<Vec<Rule>>,
    pub(crate) time: Updated,
    pub(crate) summary: Counts,
}

/// The order of these keys is the one of rules that a prompt's `tools` left behind.
#[derive(Debug, Serialize)]
pub(crate) struct Rule {
    pub(crate) permission: &'static str,
    pub(crate) action: &'static str,
    pub(crate) pattern: &'static str,
}

#[derive(Debug, Default, Serialize)]
pub(crate) struct Counts {
    pub(crate) additions: usize,
    pub(crate) deletions: usize,
    pub(crate) files: usize,
}

#[derive(Debug, Serialize)]
pub(crate) struct User<'a> {
    pub(crate) id: &'a str,
    #[serde(rename = "sessionID")]
    pub(crate) session_id: &'a str,
    pub(crate) role: &'static str,
    pub(crate) time: Created,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) summary: Option<UserSummary>,
    pub(crate) agent: &'static str,
    pub(crate) model: ModelRef,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tools: Option<Value>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Created {
    pub(crate) created: u64,
}

#[derive(Debug, Serialize)]
pub(crate) struct UserSummary {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) title: Option<String>,
    pub(crate) diffs: Vec<FileDiff>,
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct FileDiff {
    pub(crate) file: String,
    pub(crate) before: String,
    pub(crate) after: String,
    pub(crate) additions: usize,
    pub(crate) deletions: usize,
    pub(crate) status: &'static str,
}

#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct ModelRef {
    #[serde(rename = "providerID")]
    pub(crate) provider: &'static str,
    #[serde(rename = "modelID")]
    pub(crate) model: &'static str,
}

#[derive(Debug, Serialize)]
pub(crate) struct Assistant<'a> {
    pub(crate) id: &'a str,
    #[serde(rename = "sessionID")]
    pub(crate) session_id: &'a str,
    pub(crate) role: &'static str,
    pub(crate) time: Completed,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<Value>,
    #[serde(rename = "parentID")]
    pub(crate) parent_id: &'a str,
    #[serde(rename = "modelID")]
    pub(crate) model_id: &'static str,
    #[serde(rename = "providerID")]
    pub(crate) provider_id: &'static str,
    pub(crate) mode: &'static str,
    pub(crate) agent: &'static str,
    pub(crate) path: Paths<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) summary: Option<bool>,
    pub(crate) cost: f64,
    pub(crate) tokens: Tokens,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) finish: Option<&'static str>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Completed {
    pub(crate) created: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) completed: Option<u64>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Paths<'a> {
    pub(crate) cwd: &'a str,
    pub(crate) root: &'a str,
}

#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(crate) struct Tokens {
    /// Missing until the first step is finished.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) total: Option<u64>,
    pub(crate) input: u64,
    pub(crate) output: u64,
    pub(crate) reasoning: u64,
    pub(crate) cache: Cache,
}

#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(crate) struct Cache {
    pub(crate) read: u64,
    pub(crate) write: u64,
}

#[derive(Debug, Serialize)]
pub(crate) struct Part<'a> {
    pub(crate) id: &'a str,
    #[serde(rename = "sessionID")]
    pub(crate) session_id: &'a str,
    #[serde(rename = "messageID")]
    pub(crate) message_id: &'a str,
    #[serde(flatten)]
    pub(crate) body: &'a PartBody,
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub(crate) enum PartBody {
    Text {
        text: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        synthetic: Option<bool>,
        #[serde(skip_serializing_if = "Option::is_none")]
        time: Option<Span>,
        #[serde(skip_serializing_if = "Option::is_none")]
        metadata: Option<Value>,
    },
    Reasoning {
        text: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        metadata: Option<Value>,
        time: Span,
    },
    File {
        mime: &'static str,
        filename: String,
        url: String,
        source: Value,
    },
    Tool {
        #[serde(rename = "callID")]
        call_id: String,
        tool: &'static str,
        state: ToolState,
        #[serde(skip_serializing_if = "Option::is_none")]
        metadata: Option<Value>,
    },
    StepStart {
        #[serde(skip_serializing_if = "Option::is_none")]
        snapshot: Option<String>,
    },
    StepFinish {
        reason: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        snapshot: Option<String>,
        cost: f64,
        tokens: Tokens,
    },
    Patch {
        hash: String,
        files: Vec<String>,
    },
    Compaction {
        auto: bool,
    },
}

#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Span {
    pub(crate) start: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) end: Option<u64>,
}

impl Span {
    pub(crate) fn new(start: u64, end: u64) -> Self {
        Self { start, end: Some(end) }
    }

    pub(crate) fn open(start: u64) -> Self {
        Self { start, end: None }
    }
}

#[derive(Debug, Serialize)]
#[serde(tag = "status", rename_all = "lowercase")]
pub(crate) enum ToolState {
    Pending { input: Map<String, Value>, raw: &'static str },
    Running { input: Value, time: Span },
    Completed { input: Value, output: String, title: String, metadata: Value, time: Span },
    Error { input: Value, error: String, time: Span },
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Todo {
    pub(crate) content: String,
    pub(crate) status: &'static str,
    pub(crate) priority: &'static str,
    pub(crate) id: String,
}
