//! `annals undo`

use std::collections::HashSet;

use annals::history::{self, LogQuery, UndoError};
use annals::home::Receipt;
use annals::model::id::SessionId;
use annals::ops::{self, OperationKind, Undone};
use annals::store::Store;
use annals::sync::Stage;
use annals::wire;

use crate::context::Context;
use crate::error::{CliError, CommandResult, Outcome};
use crate::homes::{Homes, is_followed};
use crate::moment::{known_session, no_revision};
use crate::operate::describe;
use crate::text::{count, one_line};

/// Undo an operation
///
/// Puts back everything that the operation changed, byte for byte, in every home it changed and in the store. Without a number
/// it undoes the last operation that was not undone yet. An undo is an operation too: undoing it does the first one again. It
/// refuses if something was changed since.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  annals undo                       the last rename, archive, rm, import, copy or restore
  annals undo 17                    operation 17; `annals log` lists the numbers
  annals undo 17 --only 36f8c1      only what it did to one session
  annals undo --revision 42         what revision 42 changed in the store; OpenCode's homes stay as they are")]
pub(crate) struct UndoArgs {
    /// Number of the operation
    #[arg(value_name = "OP")]
    operation: Option<i64>,
    /// Only what it did to this session; can be given several times
    #[arg(long, value_name = "SESSION")]
    only: Vec<String>,
    /// Undo a revision of the store instead
    #[arg(long, value_name = "REV", conflicts_with_all = ["operation", "only"])]
    revision: Option<i64>,
}

pub(crate) fn run(context: &Context, args: &UndoArgs) -> CommandResult {
    if let Some(revision) = args.revision {
        return undo_revision(context, revision);
    }
    let store = context.open_store(Stage::Messages, "keeps no history")?;
    if store.annals.is_read_only() {
        let error = CliError::new(format!("the store {} cannot be written to", store.annals.url()));
        return Err(
            error.hint("nothing was changed; operations are recorded in the store and undone from there")
        );
    }
    let homes = Homes::Store(Box::new(store));
    let mut only = HashSet::new();
    for wanted in &args.only {
        let store = homes.store().map(|store| &*store.annals);
        only.insert(match (SessionId::parse(wanted), store) {
            (Ok(id), _) => id,
            (Err(_), Some(store)) => known_session(context, store, wanted)?.id,
            (Err(error), None) => return Err(CliError::usage(error)),
        });
    }
    let only = Some(&only).filter(|only| !only.is_empty());
    let undone = context.operate(&homes, |workspace| {
        Ok(ops::undo(workspace, context.request(OperationKind::Undo), args.operation, only)?)
    })?;
    if context.json {
        let mut output = context.plain_output();
        output.json(&wire::UndoneOperation::from(&undone))?;
        output.finish()?;
        return Ok(context.outcome_of(&undone.report));
    }
    let Undone { operation, report } = undone;
    context.note(&format!("undid {}", describe(&operation, &context.clock)));
    for place in &report.places {
        context.note(&format!("  in {place}"));
    }
    if report.store_only {
        context.note("  in the store");
    }
    match report.operation {
        Some(number) => context.note(&format!("operation {number}; `annals undo {number}` does it again")),
        None => context.note("the operation had changed nothing"),
    }
    Ok(context.outcome_of(&report))
}

/// Takes back what a revision changed in the store.
fn undo_revision(context: &Context, number: i64) -> CommandResult {
    let store = context.open_store(Stage::Messages, "keeps no history")?;
    let store = &*store.annals;
    let revision = store.revision(number)?.ok_or_else(|| no_revision(store, number))?;
    let transaction = history::undo(store, store, number).map_err(|error| explain(store, number, error))?;
    if transaction.is_empty() {
        context.note(&format!("revision {number} changed nothing"));
        return Ok(Outcome::Done);
    }
    let receipt = store.commit(transaction)?;
    if context.json {
        let mut output = context.plain_output();
        output.json(&wire::UndoneRevision::of(&revision, &receipt))?;
        output.finish()?;
        return Ok(Outcome::Done);
    }
    context.note(&format!(
        "undid revision {number} of {}: {}",
        context.clock.date_time(revision.time),
        one_line(&revision.reason)
    ));
    context.note(&made(&receipt));
    let sessions = revision.touched.iter().filter_map(|touched| touched.session.as_ref());
    let mut followed = sessions.filter_map(|session| store.session(session).ok().flatten());
    if followed.any(|session| is_followed(store, &session)) {
        context.note("only the store has changed; OpenCode's own home is as it was");
    }
    Ok(Outcome::Done)
}

/// The effect of a change of the store, and how to take it back.
pub(crate) fn made(receipt: &Receipt) -> String {
    let what = format!("{} written, {} deleted", count(receipt.written, "document"), receipt.deleted);
    match receipt.revision {
        Some(revision) => {
            format!("{what}: revision {revision}, which `annals undo --revision {revision}` takes back")
        }
        None => what,
    }
}

/// Why a revision cannot be undone, and what can be done instead.
fn explain(store: &dyn Store, number: i64, error: UndoError) -> CliError {
    let key = match &error {
        UndoError::ChangedSince { key } | UndoError::NotKept { key } => key.clone(),
        UndoError::NoRevision(number) => return no_revision(store, *number),
        _ => return error.into(),
    };
    let mut explained = CliError::new(format!("revision {number} cannot be undone: {error}"));
    let Some(session) = key.session() else { return explained.hint("nothing was changed") };
    if let UndoError::ChangedSince { .. } = error {
        let later = LogQuery { session: Some(session.clone()), after: Some(number), ..LogQuery::default() };
        for revision in store.log(&later).unwrap_or_default().iter().take(5) {
            explained.details.push(format!("revision {}: {}", revision.number, one_line(&revision.reason)));
        }
        return explained.hint(format!(
            "nothing was changed; undo what came later first, or `annals restore {session} --at REV`"
        ));
    }
    explained.hint(format!(
        "nothing was changed; `annals restore {session} --at REV` goes back to a state that is kept"
    ))
}
