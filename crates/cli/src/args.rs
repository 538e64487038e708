//! The command line. Parses and checks words; opens nothing.

use std::ffi::OsString;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::commands::{
    archive, backup, check, completions, copy, demo, diff, export, forget, import, list, log, man, prune,
    reindex, rename, restore, restore_backup, rm, search, show, stats, sync, todo, tree, undo,
};
use crate::output::ColorChoice;

/// Find, read, measure, move and mend the conversations of coding agents
///
/// annals works on the sessions that OpenCode keeps: list, read and search them, add up what they cost, export and import
/// them, check them for damage. It answers from a store of its own, which every command first brings up to date with OpenCode's
/// homes, and which keeps what OpenCode deletes or overwrites. Without a command it shows what there is.
#[derive(Debug, Parser)]
#[command(name = "annals", version, max_term_width = 100, disable_help_subcommand = true)]
#[command(after_help = "\
A session is named by its id, a unique beginning of it, `last`, or a unique piece of its title.
Exit codes: 0 done, 1 could not, 2 bad usage, 3 done but something was unreadable or a check found problems.

Examples:
  annals                           what there is
  annals list --since 7d           sessions of the last week
  annals show last                 read the latest conversation
  annals search empty cart         find what was said
  annals stats --by model          what each model cost
  annals demo                      try it on a sample, without OpenCode")]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

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

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    #[command(visible_alias = "ls")]
    List(list::ListArgs),
    Show(show::ShowArgs),
    Tree(tree::TreeArgs),
    Search(search::SearchArgs),
    Stats(stats::StatsArgs),
    Export(export::ExportArgs),
    Import(import::ImportArgs),
    Copy(copy::CopyArgs),
    Todo(todo::TodoArgs),
    Check(check::CheckArgs),
    Rename(rename::RenameArgs),
    Archive(archive::ArchiveArgs),
    Rm(rm::RmArgs),
    Sync(sync::SyncArgs),
    Log(log::LogArgs),
    Diff(diff::DiffArgs),
    Undo(undo::UndoArgs),
    Restore(restore::RestoreArgs),
    Backup(backup::BackupArgs),
    RestoreBackup(restore_backup::RestoreBackupArgs),
    Prune(prune::PruneArgs),
    Forget(forget::ForgetArgs),
    Reindex(reindex::ReindexArgs),
    Demo(demo::DemoArgs),
    Completions(completions::CompletionsArgs),
    Man(man::ManArgs),
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
