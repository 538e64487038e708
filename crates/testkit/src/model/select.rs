//! Selects the turn of the playbook that answers a request. Owns the counters this depends on: how often a turn
//! was asked for, and the positions in the lists that are cycled through.

use std::collections::{BTreeMap, HashMap};

use regex::{Regex, RegexBuilder};

use super::playbook::{Playbook, PlaybookEntry, Turn};
use super::request::{RequestConversation, RequestKind, RequestRole};

/// A playbook ready for use.
#[derive(Debug)]
pub(super) struct Selector {
    scenarios: BTreeMap<String, Vec<Turn>>,
    prompts: Vec<(Regex, String)>,
    titles: Replies,
    compactions: Replies,
    summaries: Replies,
    tag: Regex,
    tries: HashMap<TurnKey, usize>,
}

/// The turn to send, free of errors and hangs that have happened often enough.
#[derive(Debug)]
pub(super) struct Choice {
    pub(super) turn: Turn,
    pub(super) scenario: Option<String>,
    pub(super) number: usize,
}

/// Identifies repeated requests for the same turn.
#[derive(Debug, PartialEq, Eq, Hash)]
struct TurnKey {
    session: Option<String>,
    kind: RequestKind,
    scenario: Option<String>,
    number: usize,
}

#[derive(Debug)]
struct Replies {
    matching: Vec<(Regex, Turn)>,
    cycle: Vec<Turn>,
    next: usize,
}

impl Selector {
    pub(super) fn new(playbook: Playbook) -> Result<Selector, regex::Error> {
        let compiled = |(pattern, scenario): (String, String)| Ok((compile(&pattern)?, scenario));
        Ok(Selector {
            scenarios: playbook.scenarios,
            prompts: playbook.prompts.into_iter().map(compiled).collect::<Result<_, regex::Error>>()?,
            titles: Replies::new(playbook.titles)?,
            compactions: Replies::new(playbook.compactions)?,
            summaries: Replies::new(playbook.summaries)?,
            tag: compile(r"\[\[scenario:([A-Za-z0-9_.-]+)[^\]]*\]\]")?,
            tries: HashMap::new(),
        })
    }

    pub(super) fn choose(
        &mut self,
        kind: RequestKind,
        conversation: &RequestConversation,
        session: Option<&str>,
    ) -> Choice {
        let choice = match kind {
            RequestKind::Title => housekeeping(self.titles.choose(&conversation.text_of(RequestRole::User))),
            RequestKind::Compaction => housekeeping(self.compactions.choose(&conversation.text())),
            RequestKind::Summary => housekeeping(self.summaries.choose(&conversation.text())),
            RequestKind::MaxSteps => {
                housekeeping(Some(Turn::text("The step limit is reached. What remains is to run the tests.")))
            }
            RequestKind::Chat => self.chat(conversation),
        };
        self.count_try(kind, session, choice)
    }

    fn chat(&self, conversation: &RequestConversation) -> Choice {
        let Some((scenario, index)) = self.locate(conversation) else {
            return Choice { turn: default_reply(), scenario: None, number: 0 };
        };
        let number = conversation.replies_after(index);
        let turn = match self.scenarios.get(&scenario) {
            None => default_reply(),
            Some(turns) => turns.get(number).cloned().unwrap_or_else(|| closing(turns)),
        };
        Choice { turn, scenario: Some(scenario), number }
    }

    /// The scenario, and the index of the user message that decided it: the last one with a tag or a known
    /// prompt. Not simply the last one, since clients add user messages of their own while they work on it.
    fn locate(&self, conversation: &RequestConversation) -> Option<(String, usize)> {
        let users =
            conversation.messages.iter().enumerate().rev().filter(|(_, m)| m.role == RequestRole::User);
        for (index, message) in users {
            let tagged = self.tag.captures_iter(&message.text).last().map(|found| found[1].to_owned());
            let prompted = || self.prompts.iter().find(|(pattern, _)| pattern.is_match(&message.text));
            if let Some(scenario) = tagged.or_else(|| prompted().map(|(_, scenario)| scenario.clone())) {
                return Some((scenario, index));
            }
        }
        None
    }

    fn count_try(&mut self, kind: RequestKind, session: Option<&str>, choice: Choice) -> Choice {
        let Choice { mut turn, scenario, number } = choice;
        let key = TurnKey { session: session.map(str::to_owned), kind, scenario: scenario.clone(), number };
        let tries = self.tries.entry(key).or_default();
        *tries += 1;
        let exhausted = |times: Option<usize>| times.is_some_and(|times| *tries > times);
        if turn.error.as_ref().is_some_and(|error| exhausted(error.times)) {
            turn.error = None;
        }
        if exhausted(turn.hang_times) {
            turn.hang_after = None;
        }
        Choice { turn, scenario, number }
    }
}

impl Replies {
    fn new(entries: Vec<PlaybookEntry>) -> Result<Replies, regex::Error> {
        let mut replies = Replies { matching: Vec::new(), cycle: Vec::new(), next: 0 };
        for entry in entries {
            match entry {
                PlaybookEntry::When(pattern, answer) => {
                    replies.matching.push((compile(&pattern)?, answer.into()));
                }
                PlaybookEntry::Always(answer) => replies.cycle.push(answer.into()),
            }
        }
        Ok(replies)
    }

    fn choose(&mut self, text: &str) -> Option<Turn> {
        if let Some((_, turn)) = self.matching.iter().find(|(pattern, _)| pattern.is_match(text)) {
            return Some(turn.clone());
        }
        let turn = self.cycle.get(self.next)?.clone();
        self.next = (self.next + 1) % self.cycle.len();
        Some(turn)
    }
}

fn housekeeping(turn: Option<Turn>) -> Choice {
    Choice { turn: turn.unwrap_or_else(default_reply), scenario: None, number: 0 }
}

/// For a conversation that goes on beyond its scenario.
fn closing(turns: &[Turn]) -> Turn {
    let closes = |turn: &&Turn| turn.tool_calls.is_empty() && turn.error.is_none();
    turns.iter().rev().find(closes).cloned().unwrap_or_else(|| Turn::text("Done."))
}

fn default_reply() -> Turn {
    Turn::text("Noted. There is nothing more to do here.")
}

fn compile(pattern: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(pattern).dot_matches_new_line(true).build()
}
