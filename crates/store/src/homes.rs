//! The homes of agents that annals reads and writes, and several of them taken as one.

pub mod opencode;
mod union;

pub use union::UnionHome;
