//! The recorded story as data: who says what, where and when. The playbook of the model follows from it.

use std::fmt;

use annals_testkit::model::{Playbook, PlaybookEntry, Turn};

use crate::meter::Meter;

/// One session, from its first prompt to what is done with it afterwards.
#[derive(Debug)]
pub(crate) struct Session {
    /// Directory below `/home/dev`.
    pub(crate) place: &'static str,
    pub(crate) model: Model,
    pub(crate) prompts: Vec<Prompt>,
    pub(crate) changes: Vec<(Time, Change)>,
}

/// A prompt of the user, and the replies that follow until the next one.
#[derive(Debug)]
pub(crate) struct Prompt {
    pub(crate) at: Time,
    pub(crate) agent: &'static str,
    /// Unique within the story, since the model knows by it what to answer.
    pub(crate) text: &'static str,
    /// Files and agents that the text mentions with an `@`.
    pub(crate) mentions: Vec<Mention>,
    /// The model's title for this prompt. The title of the first prompt becomes that of the session.
    pub(crate) title: &'static str,
    pub(crate) turns: Vec<Turn>,
    /// Conversations of subagents that these turns start.
    pub(crate) subagents: Vec<Subagent>,
    pub(crate) ending: Ending,
    /// Number of tool calls that should fail.
    pub(crate) n_failed_calls: usize,
}

#[derive(Debug)]
pub(crate) struct Subagent {
    /// As in the call of the tool `task`.
    pub(crate) prompt: &'static str,
    pub(crate) title: &'static str,
    pub(crate) turns: Vec<Turn>,
}

#[derive(Debug)]
pub(crate) enum Mention {
    /// A file, relative to the place.
    File(&'static str),
    Agent(&'static str),
}

/// How the work on a prompt ends.
#[derive(Debug)]
pub(crate) enum Ending {
    Answer,
    /// The provider refuses.
    Failure,
    /// The user interrupts, once the running command has printed this.
    Abort(&'static str),
}

#[derive(Debug)]
pub(crate) enum Change {
    Title(&'static str),
    Archive,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Model {
    Sonnet,
    Haiku,
    GptMini,
}

impl Model {
    /// Provider and model as OpenCode knows them. Prices and limits come from the catalogue it ships.
    pub(crate) fn ids(self) -> (&'static str, &'static str) {
        match self {
            Model::Sonnet => ("anthropic", "claude-sonnet-4-5"),
            Model::Haiku => ("anthropic", "claude-haiku-4-5"),
            Model::GptMini => ("openai", "gpt-5-mini"),
        }
    }
}

/// A minute in February 2026, UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Time {
    pub(crate) day: u8,
    pub(crate) hour: u8,
    pub(crate) minute: u8,
}

impl Time {
    /// Some second, since people do not begin on the minute.
    fn second(self) -> u32 {
        (u32::from(self.hour) * 11 + u32::from(self.minute) * 37) % 60
    }

    pub(crate) fn unix_ms(self) -> i64 {
        /// 2026-01-31 00:00 UTC, the day before the first.
        const DAY_ZERO: i64 = 1_769_817_600;
        let hours = i64::from(self.day) * 24 + i64::from(self.hour);
        let minutes = hours * 60 + i64::from(self.minute);
        (DAY_ZERO + minutes * 60 + i64::from(self.second())) * 1000
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Time { day, hour, minute } = self;
        write!(f, "2026-02-{day:02} {hour:02}:{minute:02}:{:02}", self.second())
    }
}

pub(crate) fn at(day: u8, hour: u8, minute: u8) -> Time {
    Time { day, hour, minute }
}

impl Prompt {
    pub(crate) fn new(
        at: Time,
        text: &'static str,
        title: &'static str,
        turns: impl IntoIterator<Item = Turn>,
    ) -> Prompt {
        Prompt {
            at,
            agent: "build",
            text,
            mentions: Vec::new(),
            title,
            turns: turns.into_iter().collect(),
            subagents: Vec::new(),
            ending: Ending::Answer,
            n_failed_calls: 0,
        }
    }
}

/// The number of turns each scenario of the playbook has, by the scenario's name.
pub(crate) type Lengths = Vec<(String, usize)>;

/// The model's replies in all sessions, with plausible token counts and at a plausible pace.
pub(crate) fn playbook(sessions: &[Session]) -> (Playbook, Lengths) {
    let mut playbook = Playbook::default();
    let mut lengths = Vec::new();
    let mut add = |text: &str, title: &str, turns: Vec<Turn>| {
        let name = format!("{:02} {title}", lengths.len());
        lengths.push((name.clone(), turns.len()));
        let pattern = regex::escape(text);
        playbook.titles.push(PlaybookEntry::when(&pattern, title));
        playbook.prompts.push((pattern, name.clone()));
        playbook.scenarios.insert(name, turns);
    };
    for session in sessions {
        let mut meter = Meter::new(session.model);
        for prompt in &session.prompts {
            for subagent in &prompt.subagents {
                let turns = Meter::subagent(session.model).prompt(subagent.prompt, &subagent.turns);
                add(subagent.prompt, subagent.title, turns);
            }
            add(prompt.text, prompt.title, meter.prompt(prompt.text, &prompt.turns));
        }
    }
    // A prompt that got no answer is sent together with the next one, which must win.
    playbook.prompts.reverse();
    (playbook, lengths)
}
