//! The fixed choices: models with their prices, agents, and the names OpenCode gives sessions.

use serde_json::{Value, json};

use super::ids::BASE62;
use super::record::{Cache, ModelRef, Tokens};
use super::rng::Rng;

#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) vendor: Vendor,
    pub(crate) name: ModelRef,
    /// How often a step begins with reasoning.
    pub(crate) thinks: f64,
    price: Price,
}

/// The vendor of an API, which decides the names of calls and the metadata of parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Vendor {
    Anthropic,
    OpenAi,
    Other,
}

/// Thousandths of a dollar for a million tokens, that is 10⁻⁹ dollars for one: costs can be summed as
/// integers, and their division at the end gives the same decimals as OpenCode's decimal arithmetic.
#[derive(Debug)]
struct Price {
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
}

pub(crate) static MODELS: [Model; 4] = [
    Model {
        vendor: Vendor::Anthropic,
        name: ModelRef { provider: "anthropic", model: "claude-opus-4-5" },
        thinks: 0.35,
        price: Price { input: 5000, output: 25_000, cache_read: 500, cache_write: 6250 },
    },
    Model {
        vendor: Vendor::OpenAi,
        name: ModelRef { provider: "openai", model: "gpt-5.1-codex" },
        thinks: 0.5,
        price: Price { input: 1250, output: 10_000, cache_read: 125, cache_write: 0 },
    },
    Model {
        vendor: Vendor::Other,
        name: ModelRef { provider: "google", model: "gemini-3-pro-preview" },
        thinks: 0.3,
        price: Price { input: 2000, output: 12_000, cache_read: 200, cache_write: 0 },
    },
    Model {
        vendor: Vendor::Other,
        name: ModelRef { provider: "openrouter", model: "deepseek/deepseek-v3.2" },
        thinks: 0.15,
        price: Price { input: 280, output: 420, cache_read: 28, cache_write: 0 },
    },
];

impl Model {
    pub(crate) fn draw(rng: &mut Rng) -> &'static Self {
        &MODELS[rng.weighted(&[(50, 0), (25, 1), (15, 2), (10, 3)])]
    }

    /// The tokens of one step and what they cost in dollars.
    pub(crate) fn usage(&self, cached: u64, fresh: u64, output: u64, reasoning: u64) -> (Tokens, f64) {
        let (input, cache) = match self.vendor {
            Vendor::Anthropic => (fresh % 13 + 2, Cache { read: cached, write: fresh }),
            // Others cache whole blocks and do not say what they wrote.
            _ => {
                let read = cached / 128 * 128;
                (fresh + cached - read, Cache { read, write: 0 })
            }
        };
        let total = input + output + reasoning + cache.read + cache.write;
        let price = &self.price;
        let cost = input * price.input
            + (output + reasoning) * price.output
            + cache.read * price.cache_read
            + cache.write * price.cache_write;
        (Tokens { total: Some(total), input, output, reasoning, cache }, cost as f64 / 1e9)
    }

    pub(crate) fn call_id(&self, rng: &mut Rng) -> String {
        let (prefix, len) = match self.vendor {
            Vendor::Anthropic => ("toolu_01", 22),
            Vendor::OpenAi => ("call_", 24),
            Vendor::Other => ("call_00_", 20),
        };
        format!("{prefix}{}", rng.string(BASE62, len))
    }

    /// The data that the provider wants back with a piece of reasoning: signed or encrypted, and so incompressible.
    pub(crate) fn reasoning_metadata(&self, rng: &mut Rng) -> Option<Value> {
        match self.vendor {
            Vendor::Anthropic => {
                let signature = blob(rng, 260.0);
                Some(json!({"anthropic": {"signature": signature}}))
            }
            Vendor::OpenAi => {
                let (item, content) = (rng.hex(48), blob(rng, 420.0));
                Some(
                    json!({"openai": {"itemId": format!("rs_{item}"), "reasoningEncryptedContent": content}}),
                )
            }
            Vendor::Other => None,
        }
    }

    pub(crate) fn item_metadata(&self, rng: &mut Rng, prefix: &str) -> Option<Value> {
        let item = || json!({"openai": {"itemId": format!("{prefix}_{}", rng.hex(48))}});
        (self.vendor == Vendor::OpenAi).then(item)
    }
}

fn blob(rng: &mut Rng, median: f64) -> String {
    let len = rng.size(median, 0.4, 80, 3000) / 4 * 4;
    rng.string(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", len)
}

pub(crate) fn agent(rng: &mut Rng) -> &'static str {
    rng.weighted(&[(82, "build"), (18, "plan")])
}

pub(crate) fn subagent(rng: &mut Rng) -> &'static str {
    rng.weighted(&[(70, "explore"), (30, "general")])
}

pub(crate) fn slug(rng: &mut Rng) -> String {
    let (adjective, noun) = (rng.pick(&ADJECTIVES), rng.pick(&NOUNS));
    format!("{adjective}-{noun}")
}

const ADJECTIVES: [&str; 16] = [
    "brave", "calm", "clever", "eager", "gentle", "happy", "kind", "lucky", "mighty", "proud", "quick",
    "quiet", "shiny", "sunny", "tidy", "witty",
];

const NOUNS: [&str; 16] = [
    "canyon", "comet", "eagle", "falcon", "forest", "garden", "harbor", "island", "lagoon", "meadow", "moon",
    "otter", "panda", "river", "tiger", "wizard",
];
