//! OpenCode's homes: JSON files up to 1.1 (`directory`), SQLite since 1.2 (`database`), and the forms of documents in which the two differ.

pub(crate) mod agent_files;
pub mod arrange;
pub mod complete;
pub mod database;
pub(crate) mod dialect;
pub mod directory;
mod foreign;
pub(crate) mod order;
pub mod second_store;
