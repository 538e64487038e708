//! `annals sync`

use annals::sync::{Stage, SyncOptions, SyncOutcome};
use annals::wire;

use crate::context::Context;
use crate::error::{CommandResult, Outcome, report_quarantine};
use crate::text::{count, grouped, one_line};

/// Bring the store up to date with OpenCode's homes now
///
/// Every command syncs as much as it needs before it answers; this one syncs everything, and updates the text index. Documents
/// that a home has deleted or rewritten stay in the store as history. With `--home` it imports that home into the store, for
/// instance an old copy.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  annals sync
  annals sync --full                read every document, whatever the time of its file
  annals sync --home /mnt/old/opencode")]
pub(crate) struct SyncArgs {
    /// Read every document, even of sessions that seem unchanged
    #[arg(long)]
    full: bool,
    /// Also import earlier states from OpenCode's own log of changes
    #[arg(long)]
    events: bool,
    /// Do not update the text index
    #[arg(long)]
    no_index: bool,
}

pub(crate) fn run(context: &Context, args: &SyncArgs) -> CommandResult {
    let stage = if args.no_index { Stage::Parts } else { Stage::Text };
    let (store, account) =
        context.sync_now(SyncOptions { full: args.full, events: args.events, ..SyncOptions::to(stage) })?;
    if context.json {
        let mut output = context.plain_output();
        let path = store.url().to_string();
        let index = match args.no_index {
            true => None,
            false => Some(wire::IndexUpdate { documents: account.indexed, revision: store.head()? }),
        };
        output.json(&wire::SyncReport::of(&account, path, index, one_line))?;
        output.finish()?;
    } else {
        for line in lines(&account) {
            context.note(&line);
        }
    }
    let outcome = report_quarantine(&account.quarantined, context.stderr_paint());
    Ok(if account.failed.is_empty() { outcome } else { Outcome::WithProblems })
}

/// The account, a line for each thing that is worth one.
fn lines(account: &SyncOutcome) -> Vec<String> {
    let mut lines = vec![
        format!(
            "{}: {} new, {} changed, {} gone",
            count(account.sessions, "session"),
            grouped(account.new),
            grouped(account.changed),
            grouped(account.gone.len()),
        ),
        format!(
            "{} looked at: {} imported, {} unchanged, {} quarantined",
            count(account.seen, "document"),
            grouped(account.imported),
            grouped(account.unchanged),
            grouped(account.quarantined.len()),
        ),
    ];
    if account.deleted > 0 {
        lines.push(format!(
            "{} deleted in a home; the store keeps the last state",
            count(account.deleted, "document")
        ));
    }
    if account.recorded > 0 {
        lines.push(format!(
            "{} taken from OpenCode's log of changes",
            count(account.recorded, "earlier state")
        ));
    }
    if account.indexed > 0 {
        lines.push(format!("{} added to the text index", count(account.indexed, "document")));
    }
    if account.forgotten > 0 {
        lines
            .push(format!("{} skipped: erased here by `annals forget`", count(account.forgotten, "session")));
    }
    lines
}
