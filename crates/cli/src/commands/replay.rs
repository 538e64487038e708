//! `annals replay`

use std::io::Write;

use annals::replay;
use annals::sync::Stage;
use annals::wire;

use crate::context::Context;
use crate::error::{CliError, CommandResult, Outcome};
use crate::text::{count, one_line};

/// List tool calls that failed or were interrupted, ready to be made again
///
/// Prints a JSON object a line: the tool, its arguments exactly as they are stored, what went wrong, and the ids of call, part and
/// message. Nothing is run.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  annals replay last
  annals replay last --interrupted --tool bash | jq -r .input.command")]
pub(crate) struct ReplayArgs {
    /// Session: an id, the beginning of one, `last`, or a piece of the title
    session: String,
    /// Only calls that never ended, or whose turn was aborted
    #[arg(long)]
    interrupted: bool,
    /// Only calls of this tool
    #[arg(long, value_name = "TOOL")]
    tool: Option<String>,
}

pub(crate) fn run(context: &Context, args: &ReplayArgs) -> CommandResult {
    let homes = context.open(Stage::Parts)?;
    let home = homes.read();
    let session = context.session(&home, &args.session)?;
    let found = replay::calls(&home, &session)?;
    let is_wanted = |call: &&replay::ReplayableCall| {
        (!args.interrupted || call.is_interrupted) && args.tool.as_ref().is_none_or(|tool| *tool == call.tool)
    };
    let calls: Vec<_> = found.value.iter().filter(is_wanted).collect();
    let mut output = context.plain_output();
    for call in &calls {
        let line = wire::ReplayableCall::of(&session.id, call).map_err(CliError::new)?;
        let mut text = serde_json::to_vec(&line).map_err(std::io::Error::other)?;
        text.push(b'\n');
        output.json_text(&text)?;
    }
    output.flush()?;
    let n_open = calls.iter().filter(|call| call.status != "error").count();
    context.note(&match calls.len() {
        0 => "no call failed or was interrupted".to_owned(),
        n => count(n, "call"),
    });
    if n_open > 0 {
        context.note(&format!(
            "{} never ended; if no agent is at work, `annals check --fix` closes them",
            count(n_open, "call")
        ));
    }
    for quarantined in &found.quarantined {
        context.warn(&one_line(&quarantined.to_string()));
    }
    Ok(if found.quarantined.is_empty() { Outcome::Done } else { Outcome::WithProblems })
}
