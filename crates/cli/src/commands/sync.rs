//! `annals sync`

use annals::sync::{Stage, SyncOptions, SyncOutcome};
use annals::wire;

use crate::context::Context;
use crate::error::{CommandResult, Outcome, report_quarantine};
use crate::text::{count, grouped, one_line};

/// Bring the store up to date with OpenCode's homes now
///
/// Every command does this by itself before it answers, as far as it needs; this does all of it, with the text index. What a
/// home has deleted or rewritten since stays in the store as history. With `--home` it takes that home over into the store,
/// an old copy for instance.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  annals sync
  annals sync --full                look at every document, whatever its file's time says
  annals sync --home /mnt/old/opencode")]
pub(crate) struct SyncArgs {
    /// Look at every document, also of sessions that seem unchanged
    #[arg(long)]
    full: bool,
    /// Also take over what OpenCode's own log of changes tells about earlier times
    #[arg(long)]
    events: bool,
    /// Leave the text index as it is
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
            "{} deleted in a home; the store has their last state",
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
        lines.push(format!("{} left alone: forgotten here", count(account.forgotten, "session")));
    }
    lines
}
