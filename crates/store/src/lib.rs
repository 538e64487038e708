//! A store for coding-agent conversations.
//!
//! A [home](home) is a place where sessions live. [`open`] one, ask it ([`home::Read`]), change it
//! ([`home::Write`]). What documents say is read through the lenses of [`model`].
#![warn(missing_docs)]

pub mod check;
pub mod find;
pub mod home;
pub mod ids;
pub mod import;
pub mod open;
mod platform;
pub mod project;
pub mod query;
pub mod remove;
pub mod stats;
pub mod summary;

pub use annals_core as model;
pub use open::open;
