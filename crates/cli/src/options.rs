//! Options that several commands share.

use std::ffi::OsString;

use clap::{Args, ValueEnum};

use crate::output::ColorChoice;

/// Options of every command.
#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Work on this OpenCode directory, database or store itself; several can be given for reading
    #[arg(long, global = true, value_name = "PATH", env = "ANNALS_HOME", hide_env_values = true)]
    pub(crate) home: Vec<String>,
    /// The store to use instead of the user's own
    #[arg(long, global = true, value_name = "PATH", env = "ANNALS_STORE", hide_env_values = true)]
    pub(crate) store: Option<OsString>,
    /// Answer from the store as it is, without looking what is new in OpenCode
    #[arg(long, global = true)]
    pub(crate) no_sync: bool,
    /// Print machine-readable output (see docs/json.md)
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// When to use colours
    #[arg(long, global = true, value_enum, default_value_t = ColorChoice::Auto, value_name = "WHEN")]
    pub(crate) color: ColorChoice,
    /// Do not page long output
    #[arg(long, global = true)]
    pub(crate) no_pager: bool,
    /// Say nothing but results and errors
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
    /// Say more about what is done
    #[arg(short, long, global = true, conflicts_with = "quiet")]
    pub(crate) verbose: bool,
}

/// Which sessions, for commands that take several.
#[derive(Debug, Args, Default)]
pub(crate) struct Filters {
    /// Of this project: an id, a directory (`.` for here), or a name
    #[arg(long, value_name = "PROJECT")]
    pub(crate) project: Option<String>,
    /// Opened in this directory or below it
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<String>,
    /// Used at or after this time: 2026-02-01, 2026-02-01T10:00, 7d, 12h, today, yesterday
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<String>,
    /// Used before this time
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<String>,
    /// Answered by this agent
    #[arg(long, value_name = "AGENT")]
    pub(crate) agent: Option<String>,
    /// Answered by this model: `provider/model`, or a piece of it
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    /// Only sessions that no other session started
    #[arg(long)]
    pub(crate) roots: bool,
    /// Only archived sessions
    #[arg(long)]
    pub(crate) archived: bool,
}

/// What a list is sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SortBy {
    /// Last used first
    Updated,
    /// Last made first
    Created,
    /// Most expensive first
    Cost,
    /// Most tokens first
    Tokens,
    /// Longest first
    Messages,
}
