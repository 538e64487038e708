//! `annals rename`

use annals::home::{CommitError, SessionRecord};
use annals::model::{Document, Transaction};
use serde::Serialize;

use crate::context::{Context, Homes};
use crate::error::{CliError, CommandResult, Outcome};
use crate::text::one_line;

/// Give a session another title
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  annals rename last \"Fix the empty cart\"")]
pub(crate) struct RenameArgs {
    /// Session: an id, the beginning of one, `last`, or a piece of the title
    session: String,
    /// The new title
    title: String,
}

#[derive(Serialize)]
struct RenamedJson<'a> {
    id: &'a str,
    title: &'a str,
}

pub(crate) fn run(context: &Context, args: &RenameArgs) -> CommandResult {
    if args.title.trim().is_empty() {
        return Err(CliError::usage("a title cannot be empty"));
    }
    let homes = context.open()?;
    let session = context.session(&homes.read(), &args.session)?;
    edit_session(&homes, &session, "rename a session", |document| {
        document.with(&["title"], args.title.as_str()).map_err(CliError::new)
    })?;
    if context.json {
        let mut output = context.plain_output();
        output.json(&RenamedJson { id: session.id.as_str(), title: &args.title })?;
        output.finish()?;
    } else {
        context.note(&format!("{} is now called {:?}", session.id, one_line(&args.title)));
    }
    Ok(Outcome::Done)
}

/// Changes a session document. If someone else changes it at the same time, their version is read and edited instead: an
/// edit of one field is right on top of any other.
pub(crate) fn edit_session(
    homes: &Homes,
    session: &SessionRecord,
    reason: &str,
    edit: impl Fn(&Document) -> Result<Document, CliError>,
) -> Result<(), CliError> {
    let home = homes.of(session)?;
    let mut record = session.clone();
    for attempt in 0.. {
        let mut transaction = Transaction::new(reason);
        transaction.replace(&record.stored, edit(&record.stored.document)?);
        match home.commit(transaction) {
            Ok(_) => return Ok(()),
            Err(CommitError::Conflict { .. }) if attempt < 10 => {
                record = home
                    .session(&session.id)?
                    .ok_or_else(|| CliError::new(format!("session {} was deleted meanwhile", session.id)))?;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
