//! Totals over many sessions: what `opencode stats` counts, and more.
//!
//! Usage belongs to the time of the message that caused it. Only where no window of time is asked for, the totals are those that sessions
//! record themselves (OpenCode since 1.14.49), as `opencode stats` prints them.

use std::collections::BTreeMap;
use std::ops::Range;

use annals_core::id::{Millis, ProjectId};
use annals_core::usage::ToolUse;
use annals_core::{Provenance, Usage};
use rayon::prelude::*;

use crate::figures::{Figures, Role};
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
    /// All answers together, as their messages count them.
    pub answers: Share,
    /// Answers that forks copied: they are counted once more in the session that they come from.
    pub copies: Share,
    /// Answers, or calls, by the keys asked for.
    pub groups: BTreeMap<Vec<String>, Group>,
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

/// Answers with the same keys, and their calls.
#[derive(Debug, Clone, Default)]
pub struct Group {
    /// The answers.
    pub share: Share,
    /// The calls in them; if [`StatsKey::Tool`] is among the keys, the calls of that tool.
    pub uses: ToolUse,
}

/// A property of answers by which they are grouped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it all")]
pub enum StatsKey {
    Model,
    Provider,
    Agent,
    Project,
    Session,
    Tool,
    Day,
    Week,
    Month,
}

impl StatsKey {
    /// All keys.
    pub const ALL: [StatsKey; 9] = [
        StatsKey::Model,
        StatsKey::Provider,
        StatsKey::Agent,
        StatsKey::Project,
        StatsKey::Session,
        StatsKey::Tool,
        StatsKey::Day,
        StatsKey::Week,
        StatsKey::Month,
    ];

    /// The name of the key in arguments and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            StatsKey::Model => "model",
            StatsKey::Provider => "provider",
            StatsKey::Agent => "agent",
            StatsKey::Project => "project",
            StatsKey::Session => "session",
            StatsKey::Tool => "tool",
            StatsKey::Day => "day",
            StatsKey::Week => "week",
            StatsKey::Month => "month",
        }
    }

    /// Whether the key is a period of time.
    pub fn is_time(self) -> bool {
        matches!(self, StatsKey::Day | StatsKey::Week | StatsKey::Month)
    }
}

/// The window of time over which sums were made.
#[derive(Debug, Clone, Copy, Default)]
pub struct StatsWindow {
    /// Its beginning.
    pub since: Option<Millis>,
    /// Its end.
    pub until: Option<Millis>,
    /// Its length in days.
    pub days: Option<i64>,
}

/// How sessions are counted.
#[derive(Clone, Copy)]
pub struct Counting<'a> {
    /// Counts only messages made in this window of time.
    pub window: Option<&'a Range<Millis>>,
    /// Leaves out messages that a fork copied from another session.
    pub without_copies: bool,
    /// Counts only answers of a model with this piece of text in its name, `provider/model`.
    pub model: Option<&'a str>,
    /// Counts only answers of this agent.
    pub agent: Option<&'a str>,
    /// The keys of [`Stats::groups`].
    pub keys: &'a [StatsKey],
    /// The name of the day, week or month that a time falls in. Names are ordered as the periods are.
    pub period_of: &'a (dyn Fn(StatsKey, Millis) -> String + Sync),
    /// The day that a time falls on, counted from the epoch.
    pub day_of: &'a (dyn Fn(Millis) -> i64 + Sync),
    /// Called with each session that is done.
    pub progress: &'a (dyn Fn() + Sync),
}

impl Counting<'_> {
    /// Everything, without groups; a day is one in UTC.
    pub const ALL: Counting<'static> = Counting {
        window: None,
        without_copies: false,
        model: None,
        agent: None,
        keys: &[],
        period_of: &|_, _| String::new(),
        day_of: &|time| time.div_euclid(DAY),
        progress: &|| (),
    };

    /// Whether everything that a session records about itself is counted.
    fn counts_whole_sessions(&self) -> bool {
        self.window.is_none() && !self.without_copies && self.model.is_none() && self.agent.is_none()
    }

    /// Whether a message is counted at all.
    fn admits(&self, figures: &Figures, is_copy: bool) -> bool {
        let is_answer = figures.role == Role::Assistant;
        let asks_for_answers = self.model.is_some() || self.agent.is_some();
        self.window.is_none_or(|window| window.contains(&figures.made))
            && !(self.without_copies && is_copy)
            && (is_answer || !asks_for_answers)
            && self.agent.is_none_or(|agent| figures.agent.as_deref() == Some(agent))
            && self.model.is_none_or(|model| model_of(figures).to_lowercase().contains(&model.to_lowercase()))
    }

    /// The keys of a message, or of a call in it.
    fn keys_of(&self, record: &SessionRecord, figures: &Figures, tool: Option<&str>) -> Vec<String> {
        let key = |key: &StatsKey| match key {
            StatsKey::Model => model_of(figures),
            StatsKey::Provider => name_of(figures.provider.as_ref()),
            StatsKey::Agent => name_of(figures.agent.as_ref()),
            StatsKey::Project => record.project.to_string(),
            StatsKey::Session => record.id.to_string(),
            StatsKey::Tool => tool.unwrap_or_default().to_owned(),
            StatsKey::Day | StatsKey::Week | StatsKey::Month => (self.period_of)(*key, figures.made),
        };
        self.keys.iter().map(key).collect()
    }
}

fn name_of(name: Option<&String>) -> String {
    name.map_or("unknown", String::as_str).to_owned()
}

fn model_of(figures: &Figures) -> String {
    format!("{}/{}", name_of(figures.provider.as_ref()), name_of(figures.model.as_ref()))
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
        let counted = count_session(home, &record, &counting);
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
        // What a home has counted already is only added up; anything else has to be read.
        let least = if home.summaries().is_some() { parallel::share_of(batch.len()) } else { 1 };
        let counted: Result<Vec<_>, ReadError> =
            parallel::run(|| batch.into_par_iter().with_min_len(least).map(count).collect());
        for (stats, mut quarantined) in counted? {
            found.value.merge(stats);
            found.quarantined.append(&mut quarantined);
        }
    }
}

fn count_session(
    home: &dyn Read,
    record: &SessionRecord,
    counting: &Counting<'_>,
) -> Result<(Stats, Vec<Quarantined>), ReadError> {
    let (created, updated) = (record.info.created(), record.info.updated());
    let mut stats = Stats { earliest: created, latest: updated, ..Stats::default() };
    let mut quarantined = Vec::new();
    let unvisited = visit_figures(home, record, MessageDetail::ToolCalls, &mut |mut figures| {
        quarantined.append(&mut figures.quarantined);
        // OpenCode does not count messages of its second transcript store either.
        let is_counted = figures.provenance != Provenance::OpencodeSecondStore;
        let is_copy = created.is_some_and(|created| figures.made < created);
        if is_counted && counting.admits(&figures, is_copy) {
            stats.add(record, &figures, counting, is_copy);
        }
    })?;
    quarantined.extend(unvisited);
    if counting.counts_whole_sessions() {
        stats.sessions = 1;
        if let Some(usage) = Usage::of_session(&record.stored.document.lens()) {
            stats.usage = usage;
            // By session alone, the rows are what `list` says.
            if let ([StatsKey::Session], Some(group)) = (counting.keys, stats.groups.values_mut().next()) {
                group.share.usage = usage;
            }
        }
    } else if stats.messages == 0 {
        return Ok((Stats::default(), quarantined));
    }
    stats.session_tokens.push(stats.usage.total_tokens());
    Ok((stats, quarantined))
}

impl Stats {
    /// How many days the sessions span, counted as `opencode stats` does. `window` is the number of days asked for.
    pub fn days_spanned(&self, window: Option<i64>) -> i64 {
        match (window, self.earliest, self.latest) {
            (Some(window), _, _) => window.max(1),
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

    /// Adds a message of a session.
    fn add(&mut self, record: &SessionRecord, figures: &Figures, counting: &Counting<'_>, is_copy: bool) {
        self.sessions = 1;
        self.messages += 1;
        self.parts += figures.n_parts;
        if figures.role == Role::Assistant {
            let usage = figures.usage;
            self.usage += usage;
            self.answers.add(usage);
            if is_copy {
                self.copies.add(usage);
            }
            self.models.entry(model_of(figures)).or_default().add(usage);
            self.agents.entry(name_of(figures.agent.as_ref())).or_default().add(usage);
            self.projects.entry(record.project.clone()).or_default().add(usage);
            self.days.entry((counting.day_of)(figures.made)).or_default().add(usage);
        }
        for call in &figures.calls {
            self.tools.entry(call.tool.clone()).or_default().add(call.failed, call.duration);
        }
        if counting.keys.contains(&StatsKey::Tool) {
            for call in &figures.calls {
                let group =
                    self.groups.entry(counting.keys_of(record, figures, Some(&call.tool))).or_default();
                group.share.sessions = 1;
                group.uses.add(call.failed, call.duration);
            }
        } else if !counting.keys.is_empty() && figures.role == Role::Assistant {
            let group = self.groups.entry(counting.keys_of(record, figures, None)).or_default();
            group.share.add(figures.usage);
            figures.calls.iter().for_each(|call| group.uses.add(call.failed, call.duration));
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
        self.answers.merge(other.answers);
        self.copies.merge(other.copies);
        for (keys, group) in other.groups {
            let sum = self.groups.entry(keys).or_default();
            sum.share.merge(group.share);
            sum.uses.merge(group.uses);
        }
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

    fn merge(&mut self, other: Share) {
        self.sessions += other.sessions;
        self.messages += other.messages;
        self.usage += other.usage;
    }
}

fn merge_shares<K: Ord>(into: &mut BTreeMap<K, Share>, from: BTreeMap<K, Share>) {
    for (key, share) in from {
        into.entry(key).or_default().merge(share);
    }
}
