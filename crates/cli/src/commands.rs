//! The commands, a file each: its arguments, whose comments are its help, and one function.

pub(crate) mod archive;
pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod copy;
pub(crate) mod demo;
pub(crate) mod export;
pub(crate) mod import;
pub(crate) mod list;
pub(crate) mod man;
pub(crate) mod overview;
pub(crate) mod rename;
pub(crate) mod rm;
pub(crate) mod show;
pub(crate) mod stats;
pub(crate) mod todo;
pub(crate) mod tree;
