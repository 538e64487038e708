//! Options that several commands share.

use std::ffi::OsString;

use annals::summary::SessionState;
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

/// Filters of commands that take several sessions.
#[derive(Debug, Args, Default)]
pub(crate) struct Filters {
    /// Only sessions of this project: an id, a directory (`.` for here), or a name
    #[arg(long, value_name = "PROJECT")]
    pub(crate) project: Option<String>,
    /// Only sessions opened in this directory or below it
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<String>,
    /// Only at or after this time: 2026-02-01, 2026-02-01T10:00, 2026-02, 7d, 12h, today, monday, "last week"
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<String>,
    /// Only before this time
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
    /// Only sessions that OpenCode no longer has
    #[arg(long)]
    pub(crate) gone: bool,
    /// Only sessions with this piece of text in their title
    #[arg(long, value_name = "TEXT")]
    pub(crate) title: Option<String>,
    /// Only sessions whose last answer is in this state
    #[arg(long, value_enum, value_name = "STATE")]
    pub(crate) status: Option<StatusFilter>,
}

/// The state of a session's last answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StatusFilter {
    /// The answer has ended
    Done,
    /// The answer ended with an error
    Failed,
    /// The answer has not ended: an agent is at work, or was interrupted
    Open,
    /// Nothing was asked yet
    Empty,
}

impl StatusFilter {
    pub(crate) fn state(self) -> SessionState {
        match self {
            StatusFilter::Done => SessionState::Done,
            StatusFilter::Failed => SessionState::Failed,
            StatusFilter::Open => SessionState::Open,
            StatusFilter::Empty => SessionState::Empty,
        }
    }
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
