//! Conversations as text for people, where no terminal is involved.

pub mod markdown;
