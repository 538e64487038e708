//! Stores of our own: homes with history, search and events.

pub mod sqlite;
