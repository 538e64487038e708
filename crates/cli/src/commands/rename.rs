//! `annals rename`

use annals::ops::{self, OperationKind, SessionEdit};
use annals::sync::Stage;
use annals::wire;

use crate::context::Context;
use crate::error::{CliError, CommandResult};
use crate::text::one_line;

/// Give a session another title
///
/// The title changes in all your homes that hold the session, and in the store. `annals undo` takes it back.
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

pub(crate) fn run(context: &Context, args: &RenameArgs) -> CommandResult {
    if args.title.trim().is_empty() {
        return Err(CliError::usage("a title cannot be empty"));
    }
    let homes = context.open(Stage::Messages)?;
    let session = context.session(&homes.read(), &args.session)?;
    let report = context.operate(&homes, |workspace| {
        let title = SessionEdit::Title(args.title.clone());
        let sessions = std::slice::from_ref(&session);
        Ok(ops::edit(workspace, context.request(OperationKind::Rename), sessions, &title)?)
    })?;
    if context.json {
        let mut output = context.plain_output();
        output.json(&wire::RenamedSession {
            id: session.id.as_str(),
            title: &args.title,
            effect: (&report).into(),
        })?;
        output.finish()?;
        return Ok(context.outcome_of(&report));
    }
    context.note(&format!("{} is now called {:?}", session.id, one_line(&args.title)));
    Ok(context.report_operation(&report))
}
