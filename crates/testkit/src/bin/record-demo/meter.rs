//! Token counts and pace of the replies, as a hosted model would show them.
//!
//! The scripted model could count characters, but knows nothing of prompt caches, on which most of the cost
//! of a real session depends. So the counts are set here, by a rough account of what the context holds.

use annals_testkit::model::{ToolCall, Turn, TurnUsage};

use crate::story::Model;

/// Characters per streamed piece, and the real pause after each. The recorded clock runs
/// [faster](crate::recorder::CLOCK_RATE), so these make some 50 tokens a second.
const CHUNK: usize = 24;
const DELAY_MS: u64 = 5;

/// The context of one session.
#[derive(Debug)]
pub(crate) struct Meter {
    model: Model,
    /// Tokens of everything sent or received so far.
    context: u64,
    /// How much of that the provider still has in its cache.
    cached: u64,
}

impl Meter {
    pub(crate) fn new(model: Model) -> Meter {
        // The system prompt and the descriptions of the tools.
        let context = match model {
            Model::Sonnet | Model::Haiku => 11_870,
            Model::GptMini => 9_410,
        };
        Meter { model, context, cached: 0 }
    }

    /// Subagents have a short system prompt and few tools.
    pub(crate) fn subagent(model: Model) -> Meter {
        Meter { context: 5_240, ..Meter::new(model) }
    }

    /// The turns that answer a prompt, with usage and pace.
    pub(crate) fn prompt(&mut self, text: &str, turns: &[Turn]) -> Vec<Turn> {
        // People take longer for their next prompt than providers keep a cache.
        self.cached = 0;
        self.context += 60 + tokens(text);
        turns.iter().map(|turn| self.turn(turn.clone())).collect()
    }

    fn turn(&mut self, mut turn: Turn) -> Turn {
        let reasoning = tokens(&turn.reasoning);
        let calls: u64 = turn.tool_calls.iter().map(|call| 30 + argument_tokens(call)).sum();
        let output = reasoning + tokens(&turn.text) + calls;
        turn.usage = match self.model {
            // Anthropic reports what is written to the cache apart from the few tokens behind it, and does
            // not tell reasoning from the rest of a reply.
            Model::Sonnet | Model::Haiku => TurnUsage {
                input: Some(self.cached + 6),
                output: Some(output),
                reasoning: Some(0),
                cached: Some(self.cached),
                cache_write: Some(self.context - self.cached),
            },
            Model::GptMini => TurnUsage {
                input: Some(self.context),
                output: Some(output),
                reasoning: Some(reasoning),
                // Whole blocks only.
                cached: Some(self.cached / 128 * 128),
                cache_write: Some(0),
            },
        };
        self.cached = self.context;
        self.context += output + turn.tool_calls.iter().map(|call| result_tokens(&call.name)).sum::<u64>();
        (turn.chunk, turn.delay_ms) = (CHUNK, DELAY_MS);
        turn
    }
}

fn tokens(text: &str) -> u64 {
    text.chars().count() as u64 / 4
}

fn argument_tokens(call: &ToolCall) -> u64 {
    call.args.values().map(|value| tokens(&value.to_string())).sum()
}

/// What a tool's result usually adds to the context.
fn result_tokens(tool: &str) -> u64 {
    match tool {
        "read" => 520,
        "bash" => 640,
        "task" => 430,
        "grep" | "glob" => 160,
        "todowrite" => 210,
        _ => 45,
    }
}
