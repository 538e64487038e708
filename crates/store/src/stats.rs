//! Totals over many sessions: what `opencode stats` counts, and more.

use std::collections::BTreeMap;

use annals_core::id::{Millis, ProjectId};
use annals_core::usage::ToolUse;
use annals_core::{Provenance, Usage};
use rayon::prelude::*;

use crate::figures::Role;
use crate::home::{Found, MessageDetail, Quarantined, Read, ReadError, SessionRecord, visit_figures};
use crate::parallel;

/// Milliseconds in a day.
pub const DAY: Millis = 24 * 60 * 60 * 1000;

/// Sessions that are counted before their counts are added up.
const BATCH: usize = 512;

/// Counts over a set of sessions.
#[derive(Debug, Clone, Default)]
pub struct Stats {
    /// Sessions.
    pub sessions: usize,
    /// Messages.
    pub messages: usize,
    /// Parts.
    pub parts: usize,
    /// Cost and tokens.
    pub usage: Usage,
    /// All tokens of each session.
    pub session_tokens: Vec<f64>,
    /// Tool calls by tool.
    pub tools: BTreeMap<String, ToolUse>,
    /// Answers by `provider/model`.
    pub models: BTreeMap<String, Share>,
    /// Answers by agent.
    pub agents: BTreeMap<String, Share>,
    /// Answers by project.
    pub projects: BTreeMap<ProjectId, Share>,
    /// Answers by the day they were made, in days since the epoch of the time zone asked for.
    pub days: BTreeMap<i64, Share>,
    /// When the first session was made.
    pub earliest: Option<Millis>,
    /// When the last session was used.
    pub latest: Option<Millis>,
}

/// Share of one model, agent, project or day.
#[derive(Debug, Clone, Copy, Default)]
pub struct Share {
    /// Sessions with at least one answer.
    pub sessions: usize,
    /// Answers.
    pub messages: usize,
    /// Cost and tokens.
    pub usage: Usage,
}

/// How sessions are counted.
#[derive(Clone, Copy)]
pub struct Counting<'a> {
    /// The day that a time falls on, counted from the epoch.
    pub day_of: &'a (dyn Fn(Millis) -> i64 + Sync),
    /// Called with each session that is done.
    pub progress: &'a (dyn Fn() + Sync),
}

impl std::fmt::Debug for Counting<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Counting")
    }
}

/// Counts sessions, several at a time.
pub fn collect(
    home: &dyn Read,
    records: Vec<SessionRecord>,
    counting: Counting<'_>,
) -> Result<Found<Stats>, ReadError> {
    let count = |record: SessionRecord| {
        let counted = count_session(home, &record, counting.day_of);
        (counting.progress)();
        counted
    };
    let mut found: Found<Stats> = Found::default();
    let mut records = records.into_iter();
    loop {
        // In batches, so that the counts of all sessions are not in memory at once. Added up in order, so that sums of
        // fractions come out the same each time.
        let batch: Vec<SessionRecord> = records.by_ref().take(BATCH).collect();
        if batch.is_empty() {
            return Ok(found);
        }
        let counted: Result<Vec<_>, ReadError> = parallel::run(|| batch.into_par_iter().map(count).collect());
        for (stats, mut quarantined) in counted? {
            found.value.merge(stats);
            found.quarantined.append(&mut quarantined);
        }
    }
}

fn count_session(
    home: &dyn Read,
    record: &SessionRecord,
    day_of: &(dyn Fn(Millis) -> i64 + Sync),
) -> Result<(Stats, Vec<Quarantined>), ReadError> {
    let (earliest, latest) = (record.info.created(), record.info.updated());
    let mut stats = Stats { sessions: 1, earliest, latest, ..Stats::default() };
    let mut quarantined = Vec::new();
    let unvisited = visit_figures(home, record, MessageDetail::ToolCalls, &mut |mut figures| {
        quarantined.append(&mut figures.quarantined);
        if figures.provenance == Provenance::OpencodeSecondStore {
            // OpenCode does not count these either.
            return;
        }
        stats.messages += 1;
        stats.parts += figures.n_parts;
        if figures.role == Role::Assistant {
            let usage = figures.usage;
            let name = |text: Option<&String>| text.map_or("unknown", String::as_str).to_owned();
            let model = format!("{}/{}", name(figures.provider.as_ref()), name(figures.model.as_ref()));
            stats.usage += usage;
            stats.models.entry(model).or_default().add(usage);
            stats.agents.entry(name(figures.agent.as_ref())).or_default().add(usage);
            stats.projects.entry(record.project.clone()).or_default().add(usage);
            stats.days.entry(day_of(figures.made)).or_default().add(usage);
        }
        for call in &figures.calls {
            stats.tools.entry(call.tool.clone()).or_default().add(call.failed, call.duration);
        }
    })?;
    quarantined.extend(unvisited);
    if let Some(usage) = Usage::of_session(&record.stored.document.lens()) {
        stats.usage = usage;
    }
    stats.session_tokens.push(stats.usage.total_tokens());
    Ok((stats, quarantined))
}

impl Stats {
    /// How many days the sessions span, counted as `opencode stats` does. `window` is the number of days asked for.
    pub fn days_spanned(&self, window: Option<u32>) -> i64 {
        match (window, self.earliest, self.latest) {
            (Some(window), _, _) => i64::from(window.max(1)),
            (None, Some(earliest), Some(latest)) => {
                let span = latest.saturating_sub(earliest).max(0);
                (span.saturating_add(DAY - 1) / DAY).max(1)
            }
            _ => i64::from(self.sessions > 0),
        }
    }

    /// Average number of tokens of a session.
    pub fn mean_session_tokens(&self) -> f64 {
        self.usage.total_tokens() / self.sessions.max(1) as f64
    }

    /// Median number of tokens of a session.
    pub fn median_session_tokens(&self) -> f64 {
        let mut tokens = self.session_tokens.clone();
        tokens.sort_unstable_by(f64::total_cmp);
        match tokens.len() {
            0 => 0.0,
            n if n % 2 == 1 => tokens[n / 2],
            n => (tokens[n / 2 - 1] + tokens[n / 2]) / 2.0,
        }
    }

    fn merge(&mut self, other: Stats) {
        self.sessions += other.sessions;
        self.messages += other.messages;
        self.parts += other.parts;
        self.usage += other.usage;
        self.session_tokens.extend(other.session_tokens);
        for (tool, uses) in other.tools {
            self.tools.entry(tool).or_default().merge(uses);
        }
        merge_shares(&mut self.models, other.models);
        merge_shares(&mut self.agents, other.agents);
        merge_shares(&mut self.projects, other.projects);
        merge_shares(&mut self.days, other.days);
        self.earliest = [self.earliest, other.earliest].into_iter().flatten().min();
        self.latest = [self.latest, other.latest].into_iter().flatten().max();
    }
}

impl Share {
    fn add(&mut self, usage: Usage) {
        self.sessions = 1;
        self.messages += 1;
        self.usage += usage;
    }
}

fn merge_shares<K: Ord>(into: &mut BTreeMap<K, Share>, from: BTreeMap<K, Share>) {
    for (key, share) in from {
        let sum = into.entry(key).or_default();
        sum.sessions += share.sessions;
        sum.messages += share.messages;
        sum.usage += share.usage;
    }
}
