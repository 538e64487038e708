//! `annals completions`

use clap_complete::env::{Bash, Elvish, EnvCompleter, Fish, Powershell, Zsh};

use crate::context::Context;
use crate::error::{CommandResult, Outcome};
use crate::options::COMPLETION_VARIABLE;

/// Print a completion script for a shell
///
/// The script asks annals while you type, so it completes commands and options as well as your sessions (id and title), projects,
/// models, agents, tools, operations and revisions.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  annals completions bash           the script, for this shell only: source <(annals completions bash)
  echo 'source <(annals completions bash)' >> ~/.bashrc
  echo 'source <(annals completions zsh)' >> ~/.zshrc
  echo 'annals completions fish | source' >> ~/.config/fish/config.fish")]
pub(crate) struct CompletionsArgs {
    /// Which shell
    #[arg(value_enum)]
    shell: ShellName,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum ShellName {
    Bash,
    Zsh,
    Fish,
    Elvish,
    Powershell,
}

pub(crate) fn run(context: &Context, args: &CompletionsArgs) -> CommandResult {
    let shell: &dyn EnvCompleter = match args.shell {
        ShellName::Bash => &Bash,
        ShellName::Zsh => &Zsh,
        ShellName::Fish => &Fish,
        ShellName::Elvish => &Elvish,
        ShellName::Powershell => &Powershell,
    };
    // Straight from a build the program is not on the path.
    let program = std::env::args().next().filter(|name| name.contains(std::path::is_separator));
    let program =
        program.map_or("annals".to_owned(), |name| context.current_dir.join(name).display().to_string());
    let mut output = context.plain_output();
    shell.write_registration(COMPLETION_VARIABLE, "annals", "annals", &program, &mut output)?;
    output.finish()?;
    Ok(Outcome::Done)
}
