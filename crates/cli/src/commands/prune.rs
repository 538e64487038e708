//! `annals prune`

use annals::model::id::SessionId;
use annals::store::Store;
use annals::sync::Stage;
use annals::upkeep::Pruned;
use annals::wire;

use crate::confirm::agreed;
use crate::context::Context;
use crate::error::{CommandResult, Outcome};
use crate::moment::{known_session, title};
use crate::table::{Table, right};
use crate::text::{bytes, count, cut, grouped};
use crate::time_arg::parse_time;

/// Remove old history to save space
///
/// Removes the earlier texts of documents that were changed or deleted, if they were replaced before the given time. Current
/// texts stay. Without sessions, this covers every document that sync brought; documents that were changed in the store itself
/// are pruned only if their session is named. Revisions stay in the log. This cannot be undone.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  annals prune --older-than 1y --dry-run
  annals prune --older-than 90d --yes
  annals prune --older-than today last")]
pub(crate) struct PruneArgs {
    /// Only of these sessions: ids, beginnings of ids, `last`, or pieces of titles
    #[arg(value_name = "SESSION")]
    sessions: Vec<String>,
    /// Only texts that were replaced before this time: 90d, 1y, 2026-02-01
    #[arg(long, value_name = "TIME", required = true)]
    older_than: String,
    /// Only show what would be removed
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
}

/// Limit on the sessions that are named.
const SHOWN: usize = 10;

pub(crate) fn run(context: &Context, args: &PruneArgs) -> CommandResult {
    let older_than = parse_time(&args.older_than, &context.clock)?;
    let store = context.open_store(Stage::Messages, "keeps no history")?.annals;
    let sessions: Vec<SessionId> = args
        .sessions
        .iter()
        .map(|wanted| known_session(context, &*store, wanted).map(|known| known.id))
        .collect::<Result<_, _>>()?;
    let sessions = Some(&sessions[..]).filter(|sessions| !sessions.is_empty());
    let plan = store.prune(older_than, sessions, true)?;
    if !context.json {
        describe(context, &*store, &plan);
    }
    let is_something = plan.states() > 0 || plan.operation_states > 0;
    let is_done = is_something && !args.dry_run && agreed(context, args.yes, "Remove these texts for good?")?;
    let pruned = if is_done { store.prune(older_than, sessions, false)? } else { plan };
    if context.json {
        let mut output = context.plain_output();
        output.json(&wire::PruneReport::of(&pruned, is_done))?;
        output.finish()?;
    } else if is_done {
        context.note(&format!("removed {}, {}", count(pruned.states(), "text"), bytes(pruned.bytes())));
    } else {
        context.note("nothing was removed");
    }
    Ok(Outcome::Done)
}

fn describe(context: &Context, store: &dyn Store, plan: &Pruned) {
    let table = Table::new(context.stderr_paint(), [right("", 12), right("", 9)]);
    for row in plan.sessions.iter().take(SHOWN) {
        let named = match &row.session {
            None => "projects".to_owned(),
            Some(id) => match store.session(id) {
                Ok(Some(record)) => format!("{id}  {}", title(&record)),
                _ => format!("{id}  (deleted)"),
            },
        };
        let cells = [count(row.states, "text"), bytes(row.bytes)];
        context.note(&table.row(cells, cut(&named, table.room(80))));
    }
    if plan.sessions.len() > SHOWN {
        context.note(&format!("… and {} more sessions", grouped(plan.sessions.len() - SHOWN)));
    }
    context.note(&format!("{}, {} in all", count(plan.states(), "earlier text"), bytes(plan.bytes())));
    if plan.operation_states > 0 {
        context.note(&format!(
            "{} of files and rows from before old operations, {}; without them those operations cannot be undone",
            count(plan.operation_states, "saved state"),
            bytes(plan.operation_bytes)
        ));
    }
}
