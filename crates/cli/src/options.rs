//! Options that several commands share.

use std::ffi::OsString;

use clap::{Args, ValueEnum};

use crate::output::ColorChoice;

/// Set by the script of `annals completions`, to the name of the shell, when the shell wants to complete a word.
pub(crate) const COMPLETION_VARIABLE: &str = "ANNALS_COMPLETE";

/// Options of every command.
#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Work directly on this OpenCode directory, database or store; commands that read take several
    #[arg(long, global = true, value_name = "PATH", env = "ANNALS_HOME", hide_env_values = true)]
    pub(crate) home: Vec<String>,
    /// Use this store instead of your own
    #[arg(long, global = true, value_name = "PATH", env = "ANNALS_STORE", hide_env_values = true)]
    pub(crate) store: Option<OsString>,
    /// Answer from the store as it is, without syncing first
    #[arg(long, global = true)]
    pub(crate) no_sync: bool,
    /// Print machine-readable output
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// When to use colours
    #[arg(long, global = true, value_enum, default_value_t = ColorChoice::Auto, value_name = "WHEN")]
    pub(crate) color: ColorChoice,
    /// Do not page long output
    #[arg(long, global = true)]
    pub(crate) no_pager: bool,
    /// Print only results and errors
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
    /// Print details of what annals does
    #[arg(short, long, global = true, conflicts_with = "quiet")]
    pub(crate) verbose: bool,
}

/// The order of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SortBy {
    /// Last used first
    Updated,
    /// Last created first
    Created,
    /// Most expensive first
    Cost,
    /// Most tokens first
    Tokens,
    /// Most messages first
    Messages,
}
