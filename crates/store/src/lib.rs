//! A store for coding-agent conversations.
#![warn(missing_docs)]

pub mod home;
pub mod ids;
mod platform;
pub mod query;

pub use annals_core as model;
