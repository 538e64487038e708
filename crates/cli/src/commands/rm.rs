//! `annals rm`

use annals::model::lens::Session;
use annals::ops::{self, OperationKind, RemovalPlan};
use annals::sync::Stage;
use annals::wire;

use crate::confirm::agreed;
use crate::context::Context;
use crate::error::{CommandResult, Outcome};
use crate::text::{count, one_line, shell_word};

/// Delete sessions with everything that belongs to them
///
/// Messages, parts, todo lists, diffs and the sessions they started are deleted too. OpenCode's own delete leaves some of that
/// behind. The sessions are deleted from all your homes that hold them; the store keeps its copy until `annals forget` erases
/// it. `annals undo` brings the sessions back as they were, byte for byte.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  annals rm --dry-run last          what would be deleted, and from where
  annals rm 36f8c1")]
pub(crate) struct RmArgs {
    /// Sessions: ids, beginnings of ids, `last`, or pieces of titles
    #[arg(required = true, value_name = "SESSION")]
    sessions: Vec<String>,
    /// Only show what would be deleted
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
}

pub(crate) fn run(context: &Context, args: &RmArgs) -> CommandResult {
    // A full sync, so that the store has everything that is deleted in a home.
    let homes = context.open(if args.dry_run { Stage::Messages } else { Stage::Parts })?;
    let sessions: Vec<_> = args
        .sessions
        .iter()
        .map(|wanted| context.session(&homes.read(), wanted))
        .collect::<Result<_, _>>()?;
    context.operate(&homes, |workspace| {
        let plan = ops::plan_removal(workspace, &homes.read(), &sessions)?;
        if !context.json {
            describe(context, &plan);
        }
        let row = wire::RemovedSessions::planned(&plan);
        if args.dry_run {
            context.note("nothing was deleted");
            return print(context, &row, Outcome::Done);
        }
        if !agreed(context, args.yes, question(&plan))? {
            context.note("nothing was deleted");
            return print(context, &row, Outcome::Done);
        }
        context.expect_record("deleted")?;
        let is_in_home = !plan.homes.is_empty();
        let report = ops::remove(workspace, context.request(OperationKind::Remove), plan)?;
        let row = row.done(&report);
        if !context.json {
            context.note(&format!("deleted {}", count(row.sessions.len(), "session")));
        }
        let outcome = match context.json {
            true => context.outcome_of(&report),
            false => context.report_operation(&report),
        };
        if !context.json && is_in_home && homes.store().is_some() && report.still_in.is_empty() {
            context.note("the store keeps them, marked [gone]; `annals forget` erases them there");
        }
        for home in report.still_in.iter().filter(|home| !report.vanished.contains(home)) {
            context.warn(&format!(
                "still in {home}, which is not one of your homes (`annals rm --home {} {}` deletes there)",
                shell_word(home),
                row.sessions.join(" ")
            ));
        }
        print(context, &row, outcome)
    })
}

fn print(context: &Context, row: &wire::RemovedSessions, outcome: Outcome) -> CommandResult {
    if context.json {
        let mut output = context.plain_output();
        output.json(&[row])?;
        output.finish()?;
    }
    Ok(outcome)
}

fn describe(context: &Context, plan: &RemovalPlan) {
    for session in &plan.sessions {
        let lens = session.stored.document.lens::<Session<'_>>();
        let title = lens.title.map(|title| one_line(&title.to_str())).unwrap_or_default();
        let is_child = lens
            .parent_id
            .is_some_and(|parent| plan.sessions.iter().any(|other| parent == other.id.as_str()));
        context.note(&format!("{}{}  {title}", if is_child { "  ↳ " } else { "" }, session.id));
    }
    let row = wire::RemovedSessions::planned(plan);
    context.note(&format!(
        "{}, {}, {}, {} in all",
        count(row.sessions.len(), "session"),
        count(row.messages, "message"),
        count(row.parts, "part"),
        count(row.documents, "document"),
    ));
    for (url, _) in &plan.homes {
        context.note(&format!("  from {url}"));
    }
    if plan.store.is_some() {
        context.note("  from the store: some of them are only there");
    }
}

fn question(plan: &RemovalPlan) -> &'static str {
    match (plan.homes.is_empty(), plan.store.is_some()) {
        (true, _) => "Delete from the store?",
        (false, true) => "Delete from OpenCode's homes and the store?",
        (false, false) => "Delete from OpenCode's homes?",
    }
}
