//! `annals completions`

use crate::context::Context;
use crate::error::{CommandResult, Outcome};

/// Print a completion script for a shell
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  annals completions bash > ~/.local/share/bash-completion/completions/annals
  annals completions zsh > \"${fpath[1]}/_annals\"
  annals completions fish > ~/.config/fish/completions/annals.fish")]
pub(crate) struct CompletionsArgs {
    /// Which shell
    #[arg(value_enum)]
    shell: clap_complete::Shell,
}

pub(crate) fn run(context: &Context, args: &CompletionsArgs, command: &mut clap::Command) -> CommandResult {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, command, "annals", &mut script);
    let mut output = context.plain_output();
    std::io::Write::write_all(&mut output, &script)?;
    output.finish()?;
    Ok(Outcome::Done)
}
