//! `annals unrevert`

use annals::ops::{self, OperationKind};
use annals::sync::Stage;
use annals::wire;

use super::revert::{note_files, working_tree};
use crate::context::{Context, now};
use crate::error::CommandResult;

/// Take the revert of a session back
///
/// Shows the whole conversation again, in all your homes that hold the session and in the store. Once the session was prompted again, what was
/// hidden is gone there, and `annals restore` brings it back from the store. `annals undo` takes it back.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  annals unrevert last
  annals unrevert last --files      also put the files back that the revert changed")]
pub(crate) struct UnrevertArgs {
    /// Session: an id, the beginning of one, `last`, or a piece of the title
    session: String,
    /// Also restore the working tree as it was before the revert
    #[arg(long)]
    files: bool,
}

pub(crate) fn run(context: &Context, args: &UnrevertArgs) -> CommandResult {
    let homes = context.open(Stage::Parts)?;
    let home = homes.read();
    let session = context.session(&home, &args.session)?;
    let tree = working_tree(args.files);
    let unreverted = context.operate(&homes, |workspace| {
        if args.files {
            context.expect_record("changed")?;
        }
        let request = context.request(OperationKind::Unrevert);
        Ok(ops::unrevert(workspace, request, &session, tree, now())?)
    })?;
    if context.json {
        let mut output = context.plain_output();
        output.json(&wire::UnrevertedSession::of(&session.id, &unreverted))?;
        output.finish()?;
        return Ok(context.outcome_of(&unreverted.report));
    }
    context.note(&format!("{} is shown in full again", session.id));
    note_files(context, &unreverted.files);
    match (args.files, unreverted.has_snapshot) {
        (false, true) => {
            context.note("files that the revert changed are as they are; `--files` would put them back");
        }
        (true, false) => context.note("the revert had changed no files"),
        _ => {}
    }
    Ok(context.report_operation(&unreverted.report))
}
