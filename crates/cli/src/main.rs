//! The `annals` binary: runs a command, and turns its outcome into an exit code.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line tool: its output is the product"
)]

mod agent_home;
mod args;
mod choose;
mod commands;
mod complete;
mod confirm;
mod context;
mod damage;
mod difference;
mod error;
mod filters;
mod help;
mod homes;
mod kept;
mod moment;
mod operate;
mod options;
mod output;
mod progress;
mod project_names;
mod prose;
mod short_id;
mod sign;
mod table;
mod text;
mod time_arg;
mod trace;
mod transcript;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::FromArgMatches;

use crate::args::{Cli, Command};
use crate::context::Context;
use crate::error::{CliError, CommandResult, ErrorKind, Outcome, exit_code};

/// During a sync many threads allocate memory that one of them frees. The allocator of glibc holds on to more and more of that
/// memory: at ten times the data it took half as much memory again, and a fifth more time.
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    complete::answer_shell();
    if let Some(page) = help::topic(std::env::args_os().skip(1)) {
        return print_page(page);
    }
    let is_too_large = watch_file_size();
    let command = help::command_for(std::env::args_os().skip(1));
    let parsed = command.try_get_matches().and_then(|matches| Cli::from_arg_matches(&matches));
    let cli = match parsed {
        Ok(cli) => cli,
        // Help and version; they hold nothing from outside.
        Err(error) if !error.use_stderr() => error.exit(),
        Err(error) => return refuse(&error),
    };
    let paint = output::Painter::new(cli.global.color, &std::io::stderr());
    if cli.global.verbose {
        trace::to_stderr();
    }
    match run(cli) {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::WithProblems) => ExitCode::from(exit_code::PROBLEMS),
        Err(CliError { kind: ErrorKind::BrokenPipe, .. }) => ExitCode::SUCCESS,
        Err(CliError { kind: ErrorKind::Interrupted, .. }) => ExitCode::from(exit_code::INTERRUPTED),
        Err(error) => {
            let error = match is_too_large.load(Ordering::Relaxed) {
                true => error.hint("a file would exceed the size limit of this shell: see `ulimit -f`"),
                false => error,
            };
            error.print(paint);
            ExitCode::from(if error.kind == ErrorKind::Usage { exit_code::USAGE } else { exit_code::FAILURE })
        }
    }
}

/// Tells whether a write exceeded the file size limit of the process (`ulimit -f`). The system then sends a signal that would end
/// annals without a word; with a handler, the write fails like any other.
fn watch_file_size() -> Arc<AtomicBool> {
    let is_too_large = Arc::<AtomicBool>::default();
    #[cfg(unix)]
    {
        // If the registration fails, the signal ends the process, as without a handler.
        let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, is_too_large.clone());
    }
    is_too_large
}

/// Prints a page of the documentation.
fn print_page(page: &str) -> ExitCode {
    let options = output::OutputOptions { color: output::ColorChoice::Auto, pager: true };
    let mut output = output::Output::new(options);
    let printed = page.lines().try_for_each(|line| output.line(line)).and_then(|()| output.finish());
    match printed {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => ExitCode::FAILURE,
        _ => ExitCode::SUCCESS,
    }
}

/// Prints what is wrong with the arguments. The message repeats them, and they may hold anything.
fn refuse(error: &clap::Error) -> ExitCode {
    let paint = output::Painter::new(output::ColorChoice::Auto, &std::io::stderr());
    for line in error.render().ansi().to_string().lines() {
        output::error_line(line, paint);
    }
    ExitCode::from(exit_code::USAGE)
}

fn run(cli: Cli) -> CommandResult {
    let context = Context::new(&cli.global)?;
    let found = match &cli.command {
        // These commands read no sessions of the user.
        Some(Command::Demo(_) | Command::Completions(_) | Command::Man(_)) => Outcome::Done,
        _ => context.report_lone_logs(),
    };
    Ok(carry_out(&context, cli)?.and(found))
}

fn carry_out(context: &Context, cli: Cli) -> CommandResult {
    match cli.command {
        None => commands::overview::run(context, commands::overview::Hints::Shown),
        Some(Command::List(args)) => commands::list::run(context, &args),
        Some(Command::Show(args)) => commands::show::run(context, &args),
        Some(Command::Tree(args)) => commands::tree::run(context, &args),
        Some(Command::Search(args)) => commands::search::run(context, &args),
        Some(Command::Stats(args)) => commands::stats::run(context, &args),
        Some(Command::Files(args)) => commands::files::run(context, &args),
        Some(Command::Export(args)) => commands::export::run(context, &args),
        Some(Command::Import(args)) => commands::import::run(context, &args),
        Some(Command::Copy(args)) => commands::copy::run(context, &args),
        Some(Command::New(args)) => commands::new::run(context, &args),
        Some(Command::Append(args)) => commands::append::run(context, &args),
        Some(Command::Replay(args)) => commands::replay::run(context, &args),
        Some(Command::Llm(args)) => commands::llm::run(context, &args),
        Some(Command::Todo(args)) => commands::todo::run(context, &args),
        Some(Command::Check(args)) => commands::check::run(context, &args),
        Some(Command::Rename(args)) => commands::rename::run(context, &args),
        Some(Command::Archive(args)) => commands::archive::run(context, &args),
        Some(Command::Resume(args)) => commands::resume::run(context, &args),
        Some(Command::MoveProject(args)) => commands::move_project::run(context, &args),
        Some(Command::Rm(args)) => commands::rm::run(context, &args),
        Some(Command::Fork(args)) => commands::fork::run(context, &args),
        Some(Command::Revert(args)) => commands::revert::run(context, &args),
        Some(Command::Unrevert(args)) => commands::unrevert::run(context, &args),
        Some(Command::Compact(args)) => commands::compact::run(context, &args),
        Some(Command::Sync(args)) => commands::sync::run(context, &args),
        Some(Command::Reindex(args)) => commands::reindex::run(context, &args),
        Some(Command::Log(args)) => commands::log::run(context, &args),
        Some(Command::Diff(args)) => commands::diff::run(context, &args),
        Some(Command::Undo(args)) => commands::undo::run(context, &args),
        Some(Command::Rescue(args)) => commands::rescue::run(context, &args),
        Some(Command::Restore(args)) => commands::restore::run(context, &args),
        Some(Command::Backup(args)) => commands::backup::run(context, &args),
        Some(Command::RestoreBackup(args)) => commands::restore_backup::run(context, &args),
        Some(Command::Projects(args)) => commands::projects::run(context, &args),
        Some(Command::Housekeeping(args)) => commands::housekeeping::run(context, &args),
        Some(Command::Prune(args)) => commands::prune::run(context, &args),
        Some(Command::Forget(args)) => commands::forget::run(context, &args),
        Some(Command::Purge(args)) => commands::purge::run(context, &args),
        Some(Command::Demo(args)) => commands::demo::run(context, &args),
        Some(Command::Completions(args)) => commands::completions::run(context, &args),
        Some(Command::Man(args)) => commands::man::run(context, &args, help::command()),
    }
}
