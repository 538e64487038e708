//! The model's view of a history: the messages that a model gets for it, in every form on the way from storage to the wire.
//!
//! A [`Request`] is made of stored messages ([`history`]), by the [`Rules`] of a release of OpenCode, for a [`Target`]. On the way
//! compactions hide what they summarise, parts become [UI messages](ui), those become [model messages](model), and those the
//! JSON of a [`Wire`]. Whatever is not stored is not here: the system prompt, tools, options.

mod compaction;
pub mod context;
pub mod history;
pub mod model;
mod prompt;
mod queued;
mod reminder;
mod request;
mod rules;
mod second_store;
mod summary;
mod target;
#[cfg(test)]
mod tests;
mod tweak;
pub mod ui;
mod wire;
mod words;

pub use history::HistoryMessage;
pub use request::{CompactionTail, Format, Reminders, Request, UnknownFormat};
pub use rules::{Rules, UnknownVersion};
pub use target::{Modalities, Sdk, Target, UnknownModality, UnknownSdk};
pub use wire::{RefusedFile, Wire};
