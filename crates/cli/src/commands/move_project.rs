//! `annals move-project`

use std::path::{Path, PathBuf};

use annals::ops::{self, MovePlan, OperationKind};
use annals::sync::Stage;
use annals::wire;

use crate::confirm::agreed;
use crate::context::Context;
use crate::error::{CliError, CommandResult, Outcome};
use crate::homes::Homes;
use crate::project_names::ProjectNames;
use crate::text::{count, one_line};

/// Attach sessions to the place to which their directory was moved
///
/// OpenCode finds sessions by their project, and opens each in the directory that it names. When a directory was moved or renamed, they lead
/// nowhere. This gives all sessions that were opened in OLD or below it the same place below NEW, and files them under the project to which
/// OpenCode counts it now. `annals projects` shows projects whose directory is gone.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  annals move-project ~/old/shop ~/work/shop
  annals move-project --dry-run ~/old/shop .")]
pub(crate) struct MoveProjectArgs {
    /// Where the directory was
    #[arg(value_name = "OLD")]
    old: PathBuf,
    /// Where it is now
    #[arg(value_name = "NEW")]
    new: PathBuf,
    /// Only show what would change
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
}

pub(crate) fn run(context: &Context, args: &MoveProjectArgs) -> CommandResult {
    let old = absolute(context, &args.old)?;
    let new = absolute(context, &args.new)?;
    // OpenCode names a directory by its real path.
    let new = new.canonicalize().unwrap_or(new);
    let shown = |path: &Path| one_line(&path.display().to_string());
    if !new.is_dir() {
        return Err(CliError::new(format!("{} does not exist", shown(&new)))
            .hint("move the directory first; OpenCode finds the project of its sessions there"));
    }
    if old == new {
        return Err(CliError::usage("the old and the new directory are the same"));
    }
    let homes = context.open(Stage::Parts)?;
    context.operate(&homes, |workspace| {
        let plan = ops::plan_move(workspace, &old, &new)?;
        if plan.sessions.is_empty() {
            return Err(no_sessions(&old, &homes));
        }
        let names = ProjectNames::of(&homes.read());
        if !context.json {
            describe(context, &plan, &names);
            if old.exists() {
                context.warn(&format!("{} still exists", shown(&old)));
            }
        }
        let sessions: Vec<String> = plan.sessions.keys().cloned().collect();
        let places = plan.homes.iter().map(|home| home.url.clone()).collect();
        let effect = wire::OperationEffect { operation: None, places };
        let (from, to) = (old.display().to_string(), new.display().to_string());
        let row = wire::MovedProject { from, to, sessions, done: false, effect };
        if args.dry_run || !agreed(context, args.yes, "Attach them to the new directory?")? {
            context.note("nothing was changed");
            return print(context, &row, Outcome::Done);
        }
        let n_sessions = plan.sessions.len();
        let report =
            ops::move_sessions(workspace, context.request(OperationKind::MoveProject), plan, &old, &new)?;
        let row = wire::MovedProject { done: true, effect: (&report).into(), ..row };
        if context.json {
            return print(context, &row, context.outcome_of(&report));
        }
        context.note(&format!("{} are in {} now", count(n_sessions, "session"), shown(&new)));
        Ok(context.report_operation(&report))
    })
}

fn absolute(context: &Context, path: &Path) -> Result<PathBuf, CliError> {
    std::path::absolute(context.current_dir.join(path))
        .map_err(|error| CliError::usage(format!("{}: {error}", one_line(&path.display().to_string()))))
}

fn describe(context: &Context, plan: &MovePlan, names: &ProjectNames) {
    for home in &plan.homes {
        context.note(&format!("{}: {}", one_line(&home.url), count(home.sessions.len(), "session")));
        for (project, n) in &home.projects {
            let is_new = home.sessions.iter().all(|record| record.project.as_str() != project);
            let what = if is_new { "filed under another project from now on" } else { "of project" };
            context.note(&format!("  {} {what} {}", count(*n, "session"), names.label(project)));
        }
    }
}

/// The error where no session was opened in a directory, with those in which sessions were.
fn no_sessions(old: &Path, homes: &Homes) -> CliError {
    let shown = one_line(&old.display().to_string());
    let mut error = CliError::new(format!("no session was opened in {shown} or below it"));
    let missing = ops::missing_projects(&homes.read()).unwrap_or_default();
    for (record, n_sessions) in missing.iter().take(10) {
        let project = record.document.lens::<annals::model::lens::Project<'_>>();
        let worktree = project.worktree.map(|worktree| one_line(&worktree.to_str())).unwrap_or_default();
        error.details.push(format!("{worktree}  {}, and it does not exist", count(*n_sessions, "session")));
    }
    error.hint("`annals projects` lists the directories of projects")
}

fn print(context: &Context, row: &wire::MovedProject, outcome: Outcome) -> CommandResult {
    if context.json {
        let mut output = context.plain_output();
        output.json(row)?;
        output.finish()?;
    }
    Ok(outcome)
}
