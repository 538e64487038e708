//! `annals restore`

use annals::history::{self, At};
use annals::home::{Read, Write};
use annals::sync::Stage;
use serde::Serialize;

use crate::commands::undo::made;
use crate::context::Context;
use crate::error::{CliError, CommandResult, Outcome};
use crate::moment::{describe, known_session, open_at, parse_moment, unfinished_then};
use crate::text::count;

/// Make a session what it was
///
/// Messages that were deleted since come back, those that were added go, and everything else becomes what it was at that
/// moment, in one revision that can be undone. A session that was deleted from the store comes back as it was last. OpenCode's
/// own home is not changed: `annals copy` takes the session there.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  annals log \"empty cart\"           which moments there are
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

#[derive(Serialize)]
struct RestoredJson<'a> {
    #[serde(rename = "sessionID")]
    session_id: &'a str,
    revision: Option<i64>,
    written: usize,
    deleted: usize,
}

pub(crate) fn run(context: &Context, args: &RestoreArgs) -> CommandResult {
    let at = args.at.as_deref().map(|at| parse_moment(at, &context.clock)).transpose()?;
    let store = context.open_store(Stage::Parts, "keeps no history")?;
    let store = &store.annals;
    let known = known_session(context, store, &args.session)?;
    let at = match (at, known.deleted_after) {
        (Some(at), _) => at,
        (None, Some(revision)) => At::Revision(revision),
        (None, None) => {
            let id = &known.id;
            let error = CliError::usage(format!("session {id} is there; say what to make of it with `--at`"));
            let error = error.hint(format!("`annals log {id}` lists its revisions"));
            return Err(match known.record.gone {
                Some(_) => error.hint(format!(
                    "`annals copy --from {} --to HOME {id}` brings it back to OpenCode",
                    store.url()
                )),
                None => error,
            });
        }
    };
    let then = open_at(store, at)?;
    let when = describe(store, at, &context.clock)?;
    let transaction = history::restore(store, &*then, &known.id, format!("restore a session as of {when}"))?;
    let receipt = store.commit(transaction)?;
    if context.json {
        let mut output = context.plain_output();
        output.json(&RestoredJson {
            session_id: known.id.as_str(),
            revision: receipt.revision,
            written: receipt.written,
            deleted: receipt.deleted,
        })?;
        output.finish()?;
        return Ok(Outcome::Done);
    }
    if receipt.revision.is_none() {
        context.note(&format!("{} is what it was at {when} already", known.id));
    } else {
        context.note(&format!("{} is again what it was at {when}", known.id));
        context.note(&made(&receipt));
    }
    let n_unfinished = unfinished_then(&*then, &known.id)?.len();
    if n_unfinished > 0 {
        context.note(&format!(
            "note: not kept: {} in progress then; each is now as it was when it was finished",
            count(n_unfinished, "document")
        ));
    }
    Ok(Outcome::Done)
}
