//! `annals undo`

use annals::history::{self, History, LogQuery, UndoError};
use annals::home::annals::Annals;
use annals::home::{Read, Receipt, Write};
use annals::sync::Stage;
use serde::Serialize;

use crate::context::Context;
use crate::error::{CliError, CommandResult, Outcome};
use crate::homes::is_followed;
use crate::moment::no_revision;
use crate::text::{count, one_line};

/// Take a revision back
///
/// Makes every document that the revision changed what it was before, in a new revision; so an undo can be undone. Without a
/// number it takes back the last revision that was committed here, which is to say not by a sync. It changes the store and
/// nothing in OpenCode's home: what `rename`, `archive` or `rm` did there is in the log as a sync, and undoing that changes
/// what the store says.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  annals undo                       the last change that was made to the store here
  annals undo 42                    what revision 42 changed; `annals log` has the numbers")]
pub(crate) struct UndoArgs {
    /// Number of the revision
    #[arg(value_name = "REV")]
    revision: Option<i64>,
}

#[derive(Serialize)]
struct UndoneJson<'a> {
    undone: i64,
    reason: &'a str,
    revision: Option<i64>,
    written: usize,
    deleted: usize,
}

pub(crate) fn run(context: &Context, args: &UndoArgs) -> CommandResult {
    let store = context.open_store(Stage::Messages, "keeps no history")?;
    let store = &store.annals;
    let revision = match args.revision {
        Some(number) => store.revision(number)?.ok_or_else(|| no_revision(store, number))?,
        None => {
            let own = LogQuery { own: true, limit: Some(1), ..LogQuery::default() };
            store.log(&own)?.into_iter().next().ok_or_else(|| {
                CliError::new("nothing was committed to the store here yet")
                    .hint("what sync found is undone by its number: `annals undo REV`; `annals log` has the numbers")
            })?
        }
    };
    let number = revision.number;
    let transaction = history::undo(store, store, number).map_err(|error| explain(store, number, error))?;
    if transaction.is_empty() {
        context.note(&format!("revision {number} changed nothing"));
        return Ok(Outcome::Done);
    }
    let receipt = store.commit(transaction)?;
    if context.json {
        let mut output = context.plain_output();
        output.json(&UndoneJson {
            undone: number,
            reason: &revision.reason,
            revision: receipt.revision,
            written: receipt.written,
            deleted: receipt.deleted,
        })?;
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
        context.note("the store has changed; OpenCode's own home is as it was");
    }
    Ok(Outcome::Done)
}

/// What a change of the store did, and how to take it back.
pub(crate) fn made(receipt: &Receipt) -> String {
    let what = format!("{} written, {} deleted", count(receipt.written, "document"), receipt.deleted);
    match receipt.revision {
        Some(revision) => format!("{what}: revision {revision}, which `annals undo {revision}` takes back"),
        None => what,
    }
}

/// Why a revision cannot be undone, and what can be done instead.
fn explain(store: &Annals, number: i64, error: UndoError) -> CliError {
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
    explained
        .hint(format!("nothing was changed; `annals restore {session} --at REV` goes back to what is kept"))
}
