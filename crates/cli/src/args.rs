//! The command line. Parses and checks words; opens nothing.

use clap::{Parser, Subcommand};

use crate::commands::{
    append, archive, backup, check, compact, completions, copy, demo, diff, export, files, forget, fork,
    housekeeping, import, list, llm, log, man, move_project, new, projects, prune, purge, reindex, rename,
    replay, rescue, restore, restore_backup, resume, revert, rm, search, show, stats, sync, todo, tree, undo,
    unrevert,
};
use crate::options::Global;

/// Find, read, measure, move and mend the conversations of coding agents
///
/// annals works on the sessions that OpenCode keeps: list, read and search them, add up what they cost, export and import
/// them, check them for damage. It answers from a store of its own, which every command first syncs with OpenCode's homes, and
/// which keeps what OpenCode deletes or overwrites. Without a command it shows an overview.
#[derive(Debug, Parser)]
#[command(name = "annals", version, max_term_width = 100)]
#[command(after_help = "\
A session is named by its id, a unique beginning of it, `last` (`last~1` is the one before), or a
unique piece of its title.
Exit codes: 0 done, 1 failed, 2 bad usage, 3 done but something was unreadable or a check found problems.

Examples:
  annals                           overview of your sessions
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

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    #[command(visible_alias = "ls")]
    List(list::ListArgs),
    Show(show::ShowArgs),
    Tree(tree::TreeArgs),
    Search(search::SearchArgs),
    Stats(stats::StatsArgs),
    Llm(llm::LlmArgs),
    Files(files::FilesArgs),
    Export(export::ExportArgs),
    Import(import::ImportArgs),
    Copy(copy::CopyArgs),
    New(new::NewArgs),
    Append(append::AppendArgs),
    Replay(replay::ReplayArgs),
    Todo(todo::TodoArgs),
    Check(check::CheckArgs),
    Rename(rename::RenameArgs),
    Archive(archive::ArchiveArgs),
    Resume(resume::ResumeArgs),
    MoveProject(move_project::MoveProjectArgs),
    Rm(rm::RmArgs),
    Fork(fork::ForkArgs),
    Revert(revert::RevertArgs),
    Unrevert(unrevert::UnrevertArgs),
    Compact(compact::CompactArgs),
    Sync(sync::SyncArgs),
    Log(log::LogArgs),
    Diff(diff::DiffArgs),
    Undo(undo::UndoArgs),
    Rescue(rescue::RescueArgs),
    Restore(restore::RestoreArgs),
    Backup(backup::BackupArgs),
    RestoreBackup(restore_backup::RestoreBackupArgs),
    Projects(projects::ProjectsArgs),
    Housekeeping(housekeeping::HousekeepingArgs),
    Prune(prune::PruneArgs),
    Forget(forget::ForgetArgs),
    Purge(purge::PurgeArgs),
    Reindex(reindex::ReindexArgs),
    Demo(demo::DemoArgs),
    Completions(completions::CompletionsArgs),
    Man(man::ManArgs),
}
