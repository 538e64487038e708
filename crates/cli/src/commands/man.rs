//! `annals man`

use crate::context::Context;
use crate::error::{CliError, CommandResult, Outcome};

/// Print the manual page, or write those of all commands to a directory
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  annals man | man -l -
  annals man --out ~/.local/share/man/man1")]
pub(crate) struct ManArgs {
    /// Directory for annals.1, annals-list.1 and so on; created if it does not exist
    #[arg(long, value_name = "DIR")]
    out: Option<std::path::PathBuf>,
}

pub(crate) fn run(context: &Context, args: &ManArgs, command: clap::Command) -> CommandResult {
    match &args.out {
        Some(directory) => {
            std::fs::create_dir_all(directory)
                .and_then(|()| clap_mangen::generate_to(command, directory))
                .map_err(|error| {
                    CliError::new(format!("cannot write to {}: {error}", directory.display()))
                })?;
        }
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(command).render(&mut page)?;
            let mut output = context.plain_output();
            std::io::Write::write_all(&mut output, &page)?;
            output.finish()?;
        }
    }
    Ok(Outcome::Done)
}
