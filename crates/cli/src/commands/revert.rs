//! `annals revert`

use std::path::PathBuf;

use annals::find;
use annals::ops::{self, OperationKind, RevertTarget, WorkingTree};
use annals::sync::Stage;
use annals::wire;

use crate::context::{Context, now};
use crate::error::CommandResult;
use crate::text::{count, one_line};

/// Revert a session to an earlier message or part
///
/// The conversation from there on is hidden, in all your homes that hold the session and in the store. A revert to an answer hides its prompt too,
/// as in OpenCode. Nothing is deleted before the session is prompted again, and the store keeps it even then. `annals unrevert` and `annals undo`
/// take it back.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  annals revert last msg_c90735466001
  annals revert last msg_c90735466001 --files    also put back the files that were changed since
  annals unrevert last")]
pub(crate) struct RevertArgs {
    /// Session: an id, the beginning of one, `last`, or a piece of the title
    session: String,
    /// First message or part that is hidden, by id or the beginning of one
    #[arg(value_name = "MESSAGE|PART")]
    target: String,
    /// Also restore the working tree from OpenCode's snapshots: the files that the hidden steps changed
    #[arg(long)]
    files: bool,
}

pub(crate) fn run(context: &Context, args: &RevertArgs) -> CommandResult {
    let homes = context.open(Stage::Parts)?;
    let home = homes.read();
    let session = context.session(&home, &args.session)?;
    let found = find::entry(&home, &session.id, &args.target)?;
    let target = RevertTarget { message: found.message, part: found.part };
    let tree = working_tree(args.files);
    let reverted = context.operate(&homes, |workspace| {
        if args.files {
            context.expect_record("changed")?;
        }
        let request = context.request(OperationKind::Revert);
        Ok(ops::revert(workspace, request, &home, &session, &target, tree, now())?)
    })?;
    if context.json {
        let mut output = context.plain_output();
        output.json(&wire::RevertedSession::of(&session.id, &reverted))?;
        output.finish()?;
        return Ok(context.outcome_of(&reverted.report));
    }
    let from = match &reverted.point.part {
        Some(part) => part.to_string(),
        None => reverted.point.message.to_string(),
    };
    context.note(&format!("{} is hidden from {from} on", session.id));
    note_files(context, &reverted.files);
    let n_changed: usize = reverted.point.patches.iter().map(|patch| patch.files.len()).sum();
    if !args.files && n_changed > 0 {
        context.note("files that were changed since are as they are; `--files` would put them back");
    }
    Ok(context.report_operation(&reverted.report))
}

/// Whether `--files` was given.
pub(super) fn working_tree(files: bool) -> WorkingTree {
    if files { WorkingTree::Restored } else { WorkingTree::Kept }
}

/// Names the files of the working tree that were changed.
pub(super) fn note_files(context: &Context, files: &[PathBuf]) {
    for file in files.iter().take(20) {
        context.note(&format!("  {}", one_line(&file.display().to_string())));
    }
    if files.len() > 20 {
        context.note(&format!("  and {}", count(files.len() - 20, "more file")));
    }
}
