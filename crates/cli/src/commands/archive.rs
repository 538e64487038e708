//! `annals archive`

use annals::sync::Stage;
use serde::Serialize;

use crate::commands::rename::edit_session;
use crate::context::Context;
use crate::error::{CliError, CommandResult, Outcome};

/// Mark sessions as archived, or take the mark away
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
    /// Take the mark away
    #[arg(long)]
    undo: bool,
}

#[derive(Serialize)]
struct ArchivedJson {
    id: String,
    archived: Option<i64>,
}

pub(crate) fn run(context: &Context, args: &ArchiveArgs) -> CommandResult {
    let homes = context.open(Stage::Messages)?;
    // Every name is looked up before anything is changed.
    let sessions: Vec<_> = args
        .sessions
        .iter()
        .map(|wanted| context.session(&homes.read(), wanted))
        .collect::<Result<_, _>>()?;
    let mut rows = Vec::new();
    for session in &sessions {
        let archived = (!args.undo).then_some(context.clock.now);
        let place = edit_session(&homes, session, "archive a session", |document| {
            let edited = match archived {
                Some(now) => document.with(&["time", "archived"], &now),
                None => document.without(&["time", "archived"]),
            };
            edited.map_err(CliError::new)
        })?;
        let what = if args.undo { "is no longer archived" } else { "is archived" };
        if !context.json {
            context.note(&format!("{} {what}{}", session.id, place.remark()));
        }
        rows.push(ArchivedJson { id: session.id.to_string(), archived });
    }
    context.changed(&homes);
    if context.json {
        let mut output = context.plain_output();
        output.json(&rows)?;
        output.finish()?;
    }
    Ok(Outcome::Done)
}
