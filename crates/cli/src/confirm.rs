//! Asking before something is done that is hard to take back.

use std::io::{self, BufRead, IsTerminal};

use crate::context::Context;
use crate::error::CliError;
use crate::output::ask;

/// Asks a question, and takes anything but yes for no.
pub(crate) fn confirmed(question: &str) -> Result<bool, CliError> {
    ask(&format!("{question} [y/N]"))?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

/// Asks a question, unless the user has said yes already. Where nobody can be asked, that has to be said.
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
