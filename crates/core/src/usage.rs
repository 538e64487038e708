//! Usage of conversations: money, tokens, tool calls.

use crate::lens::{AssistantMessage, Session, Tokens};

/// Money and tokens, added up over messages.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Usage {
    /// US dollars.
    pub cost: f64,
    /// Tokens sent and not cached.
    pub input: f64,
    /// Tokens received.
    pub output: f64,
    /// Tokens of reasoning.
    pub reasoning: f64,
    /// Tokens read from the provider's cache.
    pub cache_read: f64,
    /// Tokens written to the provider's cache.
    pub cache_write: f64,
}

impl Usage {
    /// Usage of one model call. A missing or non-finite number counts as 0, as in OpenCode.
    pub fn of(message: &AssistantMessage<'_>) -> Usage {
        Usage {
            cost: number(message.cost),
            ..message.tokens.as_ref().map(Usage::of_tokens).unwrap_or_default()
        }
    }

    /// Usage that a session document states, as it does since 1.14.49. `None` if it states nothing or only zeros: then
    /// the messages have to be added up.
    pub fn of_session(session: &Session<'_>) -> Option<Usage> {
        let tokens = session.tokens.as_ref().map(Usage::of_tokens).unwrap_or_default();
        let usage = Usage { cost: number(session.cost), ..tokens };
        (usage != Usage::default()).then_some(usage)
    }

    fn of_tokens(tokens: &Tokens) -> Usage {
        let cache = tokens.cache.as_ref();
        Usage {
            cost: 0.0,
            input: number(tokens.input),
            output: number(tokens.output),
            reasoning: number(tokens.reasoning),
            cache_read: number(cache.and_then(|cache| cache.read)),
            cache_write: number(cache.and_then(|cache| cache.write)),
        }
    }

    /// All tokens together.
    pub fn total_tokens(&self) -> f64 {
        self.input + self.output + self.reasoning + self.cache_read + self.cache_write
    }
}

fn number(number: Option<f64>) -> f64 {
    number.filter(|number| number.is_finite()).unwrap_or(0.0)
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Usage) {
        self.cost += other.cost;
        self.input += other.input;
        self.output += other.output;
        self.reasoning += other.reasoning;
        self.cache_read += other.cache_read;
        self.cache_write += other.cache_write;
    }
}

impl std::ops::SubAssign for Usage {
    fn sub_assign(&mut self, other: Usage) {
        self.cost -= other.cost;
        self.input -= other.input;
        self.output -= other.output;
        self.reasoning -= other.reasoning;
        self.cache_read -= other.cache_read;
        self.cache_write -= other.cache_write;
    }
}

/// Calls of a tool: how many, how many failed, how long they took.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ToolUse {
    /// Calls.
    pub calls: usize,
    /// Calls that failed.
    pub errors: usize,
    /// Duration of each finished call, in milliseconds.
    pub durations: Vec<u32>,
}

impl ToolUse {
    /// Adds one call: whether it failed, and its duration in milliseconds if it ended.
    pub fn add(&mut self, failed: bool, duration: Option<u32>) {
        self.calls += 1;
        self.errors += usize::from(failed);
        self.durations.extend(duration);
    }

    /// Adds the calls of another count.
    pub fn merge(&mut self, other: ToolUse) {
        self.calls += other.calls;
        self.errors += other.errors;
        self.durations.extend(other.durations);
    }

    /// The median duration in milliseconds.
    pub fn median_duration(&self) -> Option<u32> {
        let mut durations = self.durations.clone();
        durations.sort_unstable();
        durations.get(durations.len() / 2).copied()
    }
}
