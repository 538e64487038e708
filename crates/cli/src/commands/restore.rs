//! `annals restore`

use annals::history::At;
use annals::ops::{self, OperationKind};
use annals::sync::Stage;
use annals::wire;

use crate::context::Context;
use crate::error::{CliError, CommandResult, Outcome};
use crate::homes::Homes;
use crate::moment::{describe, known_session, open_at, parse_moment, unfinished_then};
use crate::text::count;

/// Restore a session to an earlier state
///
/// Messages that were deleted since come back, those that were added are deleted, and everything else becomes what it was at that
/// moment: in all your homes that hold the session, and in the store. Without `--at`, a deleted session comes back in its last
/// state, to the home that had it. `annals undo` takes it back.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  annals log --revisions \"empty cart\"    the moments to choose from
  annals restore \"empty cart\" --at 42
  annals restore last --at yesterday
  annals restore ses_36f8c14a0ffeUi9PZkXTmCh38x    one that was deleted from the store")]
pub(crate) struct RestoreArgs {
    /// Session: an id, the beginning of one, `last`, or a piece of the title
    session: String,
    /// Number of a revision, or a time: 2026-02-01T10:00, 12h, yesterday
    #[arg(long, value_name = "REV|TIME")]
    at: Option<String>,
}

pub(crate) fn run(context: &Context, args: &RestoreArgs) -> CommandResult {
    let at = args.at.as_deref().map(|at| parse_moment(at, &context.clock)).transpose()?;
    let homes = Homes::Store(Box::new(context.open_store(Stage::Parts, "keeps no history")?));
    let Some(store) = homes.store().map(|store| &*store.annals) else {
        return Err(CliError::new("there is no store"));
    };
    let known = known_session(context, store, &args.session)?;
    let at = match (at, known.deleted_after, known.record.gone) {
        (Some(at), _, _) => at,
        (None, Some(revision), _) => At::Revision(revision),
        // The session is in no home any more: it comes back as the store has it.
        (None, None, Some(_)) => At::Revision(store.head()?),
        (None, None, None) => {
            let id = &known.id;
            let error =
                CliError::usage(format!("session {id} exists: choose the revision to restore with `--at`"));
            return Err(error.hint(format!("`annals log --revisions {id}` lists its revisions")));
        }
    };
    let then = open_at(store, at)?;
    let when = describe(store, at, &context.clock)?;
    let restored = context.operate(&homes, |workspace| {
        context.expect_record("changed")?;
        Ok(ops::restore(workspace, context.request(OperationKind::Restore), &known.record, &*then)?)
    })?;
    let report = &restored.report;
    if context.json {
        let mut output = context.plain_output();
        let revision = match report.operation {
            Some(operation) => {
                store.operation(operation)?.and_then(|operation| operation.revisions.last().copied())
            }
            None => None,
        };
        output.json(&wire::RestoredSession::of(&known.id, &restored, revision))?;
        output.finish()?;
        return Ok(context.outcome_of(report));
    }
    let mut outcome = Outcome::Done;
    if report.operation.is_none() {
        context.note(&format!("{} is already as it was at {when}", known.id));
    } else {
        context.note(&format!("{} is now as it was at {when}", known.id));
        context.note(&format!(
            "{} written, {} deleted",
            count(restored.written, "document"),
            restored.deleted
        ));
        outcome = context.report_operation(report);
    }
    let n_unfinished = unfinished_then(&*then, &known.id)?.len();
    if n_unfinished > 0 {
        context.note(&format!(
            "note: {} in progress then; each has its finished content, because its content then is not kept",
            match n_unfinished {
                1 => "1 document was".to_owned(),
                n => format!("{} were", count(n, "document")),
            }
        ));
    }
    Ok(outcome)
}
