//! `annals fork`

use annals::find;
use annals::fork::ForkOptions;
use annals::ops::{self, OperationKind};
use annals::sync::Stage;
use annals::wire;

use crate::context::{Context, now};
use crate::error::{CliError, CommandResult};
use crate::text::{count, one_line};

/// Fork a session: a new session that begins with its messages
///
/// The messages are copied with new ids, as OpenCode does it, into all your homes that hold the session, and into the store, which keeps the
/// texts of both once. Prints the id of the fork. `annals undo` takes it back.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  annals fork last                              all of it
  annals fork last --at msg_c90735466001        only what comes before this message
  annals fork 36f8c1 --title \"With Postgres\"")]
pub(crate) struct ForkArgs {
    /// Session: an id, the beginning of one, `last`, or a piece of the title
    session: String,
    /// First message that is not copied, by id or the beginning of one
    #[arg(long, value_name = "MESSAGE")]
    at: Option<String>,
    /// Title of the fork; by default that of the session with ` (fork #1)`, or the next number
    #[arg(long)]
    title: Option<String>,
}

pub(crate) fn run(context: &Context, args: &ForkArgs) -> CommandResult {
    if args.title.as_ref().is_some_and(|title| title.trim().is_empty()) {
        return Err(CliError::usage("a title cannot be empty"));
    }
    let homes = context.open(Stage::Parts)?;
    let home = homes.read();
    let session = context.session(&home, &args.session)?;
    let at = match &args.at {
        Some(wanted) => {
            let found = find::entry(&home, &session.id, wanted)?;
            if let Some(part) = found.part {
                return Err(CliError::usage(format!("{part} is a part: a fork begins at a message")));
            }
            Some(found.message)
        }
        None => None,
    };
    let options = ForkOptions { at, title: args.title.clone() };
    let forked = context.operate(&homes, |workspace| {
        let request = context.request(OperationKind::Fork);
        Ok(ops::fork(workspace, request, &home, &session, &options, now())?)
    })?;
    let mut output = context.plain_output();
    if context.json {
        output.json(&wire::ForkedSession::of(&session.id, &forked))?;
        output.finish()?;
        return Ok(context.outcome_of(&forked.report));
    }
    output.line(&forked.id)?;
    output.finish()?;
    context.note(&format!(
        "forked {}: {:?}, {}",
        session.id,
        one_line(&forked.title),
        count(forked.messages, "message")
    ));
    Ok(context.report_operation(&forked.report))
}
