//! Token counts.

use annals_core::Usage;
use serde::Serialize;

/// Tokens that a session, or a share of several sessions, took.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Tokens {
    /// Tokens sent and not cached.
    pub input: f64,
    /// Tokens received.
    pub output: f64,
    /// Tokens of reasoning.
    pub reasoning: f64,
    /// Tokens of the provider's cache.
    pub cache: CacheTokens,
}

/// Tokens of the provider's cache.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct CacheTokens {
    /// Tokens read from the cache.
    pub read: f64,
    /// Tokens written to the cache.
    pub write: f64,
}

impl From<Usage> for Tokens {
    fn from(usage: Usage) -> Tokens {
        Tokens {
            input: usage.input,
            output: usage.output,
            reasoning: usage.reasoning,
            cache: CacheTokens { read: usage.cache_read, write: usage.cache_write },
        }
    }
}
