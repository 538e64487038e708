//! Asks before a change that is hard to take back.

use std::io::{self, BufRead, IsTerminal};

use crate::context::Context;
use crate::error::CliError;
use crate::output::ask;

/// Asks a question; any answer but yes is a no.
pub(crate) fn confirmed(question: &str) -> Result<bool, CliError> {
    ask(&format!("{question} [y/N]"))?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

/// Asks a question, unless `--yes` was given. Without a terminal to ask on, `--yes` is required.
pub(crate) fn agreed(context: &Context, yes: bool, question: &str) -> Result<bool, CliError> {
    if yes {
        return Ok(true);
    }
    if !io::stdin().is_terminal() || context.json {
        return Err(CliError::usage("not a terminal, so nothing was confirmed")
            .hint("nothing was done; pass `--yes` to confirm"));
    }
    confirmed(question)
}
