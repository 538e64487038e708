//! `annals rename`

use annals::home::{CommitError, SessionRecord};
use annals::model::{Document, Transaction};
use annals::sync::Stage;
use serde::Serialize;

use crate::context::Context;
use crate::error::{CliError, CommandResult, Outcome};
use crate::homes::{Homes, Owner};
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
    let homes = context.open(Stage::Messages)?;
    let session = context.session(&homes.read(), &args.session)?;
    let place = edit_session(&homes, &session, "rename a session", |document| {
        document.with(&["title"], args.title.as_str()).map_err(CliError::new)
    })?;
    context.changed(&homes);
    if context.json {
        let mut output = context.plain_output();
        output.json(&RenamedJson { id: session.id.as_str(), title: &args.title })?;
        output.finish()?;
    } else {
        context.note(&format!("{} is now called {:?}{}", session.id, one_line(&args.title), place.remark()));
    }
    Ok(Outcome::Done)
}

/// Where a session was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// Where OpenCode sees it.
    Home,
    /// In the store alone, because its home is gone.
    Store,
}

impl Place {
    /// What is worth saying of it.
    pub(crate) fn remark(self) -> &'static str {
        match self {
            Place::Home => "",
            Place::Store => " in the store; it is in no home of OpenCode any more",
        }
    }
}

/// Changes a session document. If someone else changes it at the same time, their version is read and edited instead: an
/// edit of one field is right on top of any other.
pub(crate) fn edit_session(
    homes: &Homes,
    session: &SessionRecord,
    reason: &str,
    edit: impl Fn(&Document) -> Result<Document, CliError>,
) -> Result<Place, CliError> {
    let home = homes.of(session)?;
    let place = match &home {
        Owner::Store(_) if session.gone.is_some() => Place::Store,
        _ => Place::Home,
    };
    for attempt in 0.. {
        let record = home
            .session(&session.id)?
            .ok_or_else(|| CliError::new(format!("session {} was deleted meanwhile", session.id)))?;
        let mut transaction = Transaction::new(reason);
        transaction.replace(&record.stored, edit(&record.stored.document)?);
        match home.commit(transaction) {
            Ok(_) => break,
            Err(CommitError::Conflict { .. }) if attempt < 10 => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(place)
}
