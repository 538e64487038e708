//! Sums over sessions: tokens, cost, tool calls.

use std::collections::BTreeMap;

use annals_core::id::{Millis, ProjectId};
use annals_core::usage::ToolUse;
use serde::Serialize;

use crate::stats::{self, StatsKey, StatsWindow};
use crate::wire::usage::Tokens;

/// Sums over a set of sessions.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Stats<'a> {
    /// Number of sessions.
    pub sessions: usize,
    /// Number of messages.
    pub messages: usize,
    /// Number of parts.
    pub parts: usize,
    /// Number of days, counted as `opencode stats` does: the window asked for, or the days between the first creation and the
    /// last use.
    pub days: i64,
    /// Cost of all answers.
    pub cost: f64,
    /// Cost divided by days.
    pub cost_per_day: f64,
    /// Tokens of all answers.
    pub tokens: Tokens,
    /// Tokens of a session, all kinds together.
    pub tokens_per_session: TokensPerSession,
    /// Number of calls of each tool, by its name.
    pub tools: BTreeMap<&'a str, usize>,
    /// Calls of each tool, by its name.
    pub tool_calls: BTreeMap<&'a str, ToolCalls>,
    /// Answers of each model, by `provider/model`.
    pub models: BTreeMap<&'a str, AnswerSums>,
    /// Answers of each agent, by its name.
    pub agents: BTreeMap<&'a str, AnswerSums>,
    /// Answers in each project, by its id.
    pub projects: BTreeMap<&'a str, AnswerSums>,
    /// Answers of each day, by its date, such as `2026-02-24`.
    pub by_day: BTreeMap<String, AnswerSums>,
    /// Beginning of the window of time: only messages made in it are counted; `null` without one.
    pub since: Option<Millis>,
    /// End of the window of time; `null` without one.
    pub until: Option<Millis>,
    /// Sum over the answers themselves. It differs from `cost` and `tokens` where a session records another total, because parts of an answer
    /// were removed or because its messages cannot be read.
    pub answers: AnswerSums,
    /// Answers among them that forks copied: the session that they come from has them too.
    pub copies: AnswerSums,
    /// Answers by the keys of `--by`.
    pub groups: Vec<StatsGroup<'a>>,
}

/// Answers with the same keys.
#[derive(Debug, Clone, Serialize)]
pub struct StatsGroup<'a> {
    /// The keys: `model`, `provider`, `agent`, `project`, `session`, `tool`, `day`, `week` (its Monday) or `month`.
    pub by: BTreeMap<&'static str, &'a str>,
    /// The answers.
    #[serde(flatten)]
    pub sums: AnswerSums,
    /// The calls in them; those of one tool if that is a key.
    pub calls: ToolCalls,
}

/// Tokens of a session, all kinds together.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct TokensPerSession {
    /// Average over sessions.
    pub mean: f64,
    /// Median over sessions.
    pub median: f64,
}

/// Calls of one tool.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolCalls {
    /// Number of calls.
    pub calls: usize,
    /// Number of calls that failed.
    pub errors: usize,
    /// Median duration of the calls that ended, in milliseconds; `null` if none did.
    pub median_ms: Option<u32>,
    /// Duration of all calls that ended, in milliseconds.
    pub total_ms: u64,
}

/// Answers of one model, agent, project or day.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct AnswerSums {
    /// Number of sessions with at least one answer.
    pub sessions: usize,
    /// Number of answers.
    pub messages: usize,
    /// Cost of the answers.
    pub cost: f64,
    /// Tokens of the answers.
    pub tokens: Tokens,
}

impl<'a> Stats<'a> {
    /// The shape of sums, and of groups by some keys. `date` formats a day, given in days since the epoch.
    pub fn of(
        stats: &'a stats::Stats,
        window: StatsWindow,
        keys: &[StatsKey],
        date: impl Fn(i64) -> String,
    ) -> Stats<'a> {
        let days = stats.days_spanned(window.days);
        let groups = stats.groups.iter().map(|(values, group)| StatsGroup {
            by: keys.iter().map(|key| key.name()).zip(values.iter().map(String::as_str)).collect(),
            sums: AnswerSums::from(&group.share),
            calls: ToolCalls::from(&group.uses),
        });
        Stats {
            sessions: stats.sessions,
            messages: stats.messages,
            parts: stats.parts,
            days,
            cost: stats.usage.cost,
            cost_per_day: stats.usage.cost / days.max(1) as f64,
            tokens: stats.usage.into(),
            tokens_per_session: TokensPerSession {
                mean: stats.mean_session_tokens(),
                median: stats.median_session_tokens(),
            },
            tools: by(&stats.tools, String::as_str, |uses| uses.calls),
            tool_calls: by(&stats.tools, String::as_str, ToolCalls::from),
            models: by(&stats.models, String::as_str, AnswerSums::from),
            agents: by(&stats.agents, String::as_str, AnswerSums::from),
            projects: by(&stats.projects, ProjectId::as_str, AnswerSums::from),
            by_day: by(&stats.days, |day| date(*day), AnswerSums::from),
            since: window.since,
            until: window.until,
            answers: AnswerSums::from(&stats.answers),
            copies: AnswerSums::from(&stats.copies),
            groups: groups.collect(),
        }
    }
}

/// A map with its keys and values converted.
fn by<'a, K, V, L: Ord, W>(
    map: &'a BTreeMap<K, V>,
    key: impl Fn(&'a K) -> L,
    value: impl Fn(&'a V) -> W,
) -> BTreeMap<L, W> {
    map.iter().map(|(k, v)| (key(k), value(v))).collect()
}

impl From<&ToolUse> for ToolCalls {
    fn from(uses: &ToolUse) -> ToolCalls {
        ToolCalls {
            calls: uses.calls,
            errors: uses.errors,
            median_ms: uses.median_duration(),
            total_ms: uses.durations.iter().map(|&ms| u64::from(ms)).sum(),
        }
    }
}

impl From<&stats::Share> for AnswerSums {
    fn from(share: &stats::Share) -> AnswerSums {
        AnswerSums {
            sessions: share.sessions,
            messages: share.messages,
            cost: share.usage.cost,
            tokens: share.usage.into(),
        }
    }
}
