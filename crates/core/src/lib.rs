//! The model of a conversation: ids, documents, the lenses that read them, and everything computed from them.
//!
//! Pure: no input or output, no clock, no randomness. Everything that touches a disk is in the crate `annals`.

pub mod call;
pub mod change;
pub mod document;
pub mod early;
pub mod file_patch;
pub mod format;
pub mod git_patch;
pub mod id;
pub mod json;
pub mod lens;
pub mod llm;
pub mod part_filter;
pub mod position;
pub mod provenance;
pub mod render;
pub mod search;
pub mod session_info;
pub mod stream;
pub mod usage;

pub use change::{Action, Append, AppendError, Change, Expected, Transaction};
pub use document::{ContentHash, Document, Key, Stored};
pub use id::{IdMoment, Millis};
pub use part_filter::PartFilter;
pub use position::Position;
pub use provenance::Provenance;
pub use session_info::SessionInfo;
pub use usage::Usage;
