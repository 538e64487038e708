//! `annals new`

use std::path::PathBuf;

use annals::ops::{OperationKind, Written};
use annals::wire;

use crate::context::Context;
use crate::error::{CliError, CommandResult};
use crate::text::one_line;

/// Create a session, and print its id
///
/// The session goes to the home that `--home` names, or to the home that holds its parent, or to your store. `annals append` writes
/// turns to it. `annals undo` takes it back.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  annals new --title \"Nightly review\"
  annals new ~/shop --home ~/.local/share/opencode   a session that OpenCode can continue
  annals new --parent last --title \"Find callers\"    a session of a subagent")]
pub(crate) struct NewArgs {
    /// Directory that the session works in; without it the current one, or that of the parent
    directory: Option<PathBuf>,
    /// Title; without it `New session - ` and the time
    #[arg(long, value_name = "TITLE")]
    title: Option<String>,
    /// Session that starts this one
    #[arg(long, value_name = "SESSION")]
    parent: Option<String>,
}

pub(crate) fn run(context: &Context, args: &NewArgs) -> CommandResult {
    if args.title.as_ref().is_some_and(|title| title.trim().is_empty()) {
        return Err(CliError::usage("a title cannot be empty"));
    }
    let home = context.agent_home(args.parent.as_deref())?;
    let directory = match (&args.directory, &home.session) {
        (Some(directory), _) => context.current_dir.join(directory),
        (None, Some(parent)) => parent.directory().map_or_else(|| context.current_dir.clone(), PathBuf::from),
        (None, None) => context.current_dir.clone(),
    };
    let mut new = home.store.create_session(directory);
    if let Some(title) = &args.title {
        new = new.title(title);
    }
    if let Some(parent) = &home.session {
        new = new.parent(parent);
    }
    let (record, report) = context.write_to(&home.target, OperationKind::New, |target| {
        let record = new.save_in(target);
        let sessions = record.iter().map(|record| record.id.clone()).collect();
        Written { value: record, sessions, files: Vec::new() }
    })?;
    let record = record.map_err(|error| CliError::new(one_line(&error.to_string())))?;
    let mut output = context.plain_output();
    if context.json {
        output.json(&wire::NewSession {
            id: record.id.as_str(),
            title: record.info.title(),
            directory: record.info.directory().unwrap_or_default(),
            parent_id: record.info.parent().map(|parent| parent.to_string()),
            effect: (&report).into(),
        })?;
        output.finish()?;
        return Ok(context.outcome_of(&report));
    }
    output.line(record.id.as_str())?;
    output.finish()?;
    Ok(context.report_operation(&report))
}
