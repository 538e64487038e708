//! `annals archive`

use annals::ops::{self, OperationKind, SessionEdit};
use annals::sync::Stage;
use annals::wire;

use crate::context::Context;
use crate::error::CommandResult;

/// Mark sessions as archived, or remove the mark
///
/// The mark changes in all your homes that hold the session, and in the store. `annals undo` takes it back.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  annals archive last
  annals archive 36f8c1 36f8c2
  annals archive --undo last")]
pub(crate) struct ArchiveArgs {
    /// Sessions: ids, beginnings of ids, `last`, or pieces of titles
    #[arg(required = true, value_name = "SESSION")]
    sessions: Vec<String>,
    /// Remove the mark
    #[arg(long)]
    undo: bool,
}

pub(crate) fn run(context: &Context, args: &ArchiveArgs) -> CommandResult {
    let homes = context.open(Stage::Messages)?;
    // Every name is looked up before anything is changed.
    let sessions: Vec<_> = args
        .sessions
        .iter()
        .map(|wanted| context.session(&homes.read(), wanted))
        .collect::<Result<_, _>>()?;
    let archived = (!args.undo).then_some(context.clock.now);
    let report = context.operate(&homes, |workspace| {
        let mark = SessionEdit::Archived(archived);
        Ok(ops::edit(workspace, context.request(OperationKind::Archive), &sessions, &mark)?)
    })?;
    if context.json {
        let rows: Vec<wire::ArchivedSession<'_>> = sessions
            .iter()
            .map(|session| wire::ArchivedSession {
                id: session.id.as_str(),
                archived,
                effect: (&report).into(),
            })
            .collect();
        let mut output = context.plain_output();
        output.json(&rows)?;
        output.finish()?;
        return Ok(context.outcome_of(&report));
    }
    for session in &sessions {
        let what = if args.undo { "is no longer archived" } else { "is archived" };
        context.note(&format!("{} {what}", session.id));
    }
    Ok(context.report_operation(&report))
}
