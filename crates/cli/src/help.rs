//! The help: commands in groups, and global options once instead of with every command.

use std::ffi::OsString;
use std::fmt::Write;

use clap::{Command, CommandFactory};

use crate::args::Cli;

/// The commands by what people want to do. Every command is in one group.
const GROUPS: &[(&str, &[&str])] = &[
    ("Read", &["list", "show", "search", "tree", "projects", "files", "stats", "todo", "llm", "export"]),
    (
        "Change sessions",
        &[
            "resume",
            "rename",
            "archive",
            "rm",
            "fork",
            "revert",
            "unrevert",
            "compact",
            "import",
            "copy",
            "rescue",
            "move-project",
        ],
    ),
    ("Write as an agent", &["new", "append", "replay"]),
    ("History", &["undo", "log", "diff", "restore"]),
    (
        "Upkeep",
        &["check", "sync", "housekeeping", "backup", "restore-backup", "prune", "forget", "purge", "reindex"],
    ),
    ("More", &["demo", "completions", "man", "help"]),
];

/// Pages of the documentation, which `annals help NAME` prints.
pub(crate) const TOPICS: &[(&str, &str, &str)] = &[
    ("json", "What --json prints", include_str!("../../../docs/json.md")),
    ("events", "The input of annals append", include_str!("../../../docs/append.md")),
    ("requests", "The messages that a model gets", include_str!("../../../docs/llm.md")),
    ("rescue-guide", "Getting sessions back", include_str!("../../../docs/rescue.md")),
    ("recipes", "Common jobs, a command or two each", include_str!("../../../docs/recipes.md")),
    ("glossary", "Words and symbols", include_str!("../../../docs/glossary.md")),
    (
        "privacy",
        "Where your conversations are kept, and how to erase them",
        include_str!("../../../docs/privacy.md"),
    ),
];

/// The page of the documentation that the arguments ask for: `annals help NAME`.
pub(crate) fn topic(mut arguments: impl Iterator<Item = OsString>) -> Option<&'static str> {
    let is_help = arguments.next().is_some_and(|word| word == "help");
    let name = arguments.next().filter(|_| is_help)?;
    TOPICS.iter().find(|(known, ..)| name == *known).map(|(_, _, page)| *page)
}

/// The command line to parse these arguments with. The help takes a while to put in order, so that is done only if they may ask for it.
pub(crate) fn command_for(mut arguments: impl Iterator<Item = OsString>) -> Command {
    let asks =
        |word: OsString| word == "--help" || word == "help" || word.to_string_lossy().starts_with("-h");
    if arguments.any(asks) { command() } else { Cli::command() }
}

/// The command line, with its help in order.
pub(crate) fn command() -> Command {
    let mut command = Cli::command();
    command.build();
    let template = template(&command);
    let mut command = Cli::command().help_template(template);
    let names: Vec<String> = command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
    for name in names {
        command = command.mut_subcommand(name, |sub| {
            sub.help_template(
                "{about-with-newline}\n{usage-heading} {usage}\n\n{all-args}{after-help}\n\nGlobal options, such as --home and --json: `annals --help`",
            )
        });
    }
    // Each command would list them again.
    command.mut_args(|arg| if arg.is_global_set() { arg.hide(true) } else { arg })
}

/// The help of `annals` itself.
fn template(command: &Command) -> String {
    let heading = |text: &str| {
        let style = command.get_styles().get_header();
        format!("{style}{text}:{style:#}")
    };
    let mut text = String::from("{about-with-newline}\n{usage-heading} {usage}\n");
    let width = GROUPS.iter().flat_map(|(_, names)| *names).map(|name| name.len()).max().unwrap_or(0);
    for (title, names) in GROUPS {
        let _ = write!(text, "\n{}\n", heading(title));
        for name in *names {
            let about = match command.find_subcommand(name).and_then(Command::get_about) {
                Some(about) => about.to_string(),
                None => "Print the help of a command".to_owned(),
            };
            let style = command.get_styles().get_literal();
            let _ = writeln!(text, "  {style}{name}{style:#}{:1$}  {about}", "", width - name.len());
        }
    }
    // Rendered by clap itself, from a command that has nothing else.
    let options = Command::new("annals")
        .args(command.get_arguments().filter(|arg| arg.is_global_set()).cloned())
        .disable_help_flag(true)
        .max_term_width(100)
        .help_template("{options}")
        .render_help();
    let _ = write!(text, "\n{}\n{}\n", heading("Global options"), options.ansi().to_string().trim_end());
    let _ = write!(text, "\n{}\n", heading("Pages, by `annals help PAGE`"));
    let width = TOPICS.iter().map(|(name, ..)| name.len()).max().unwrap_or(0);
    for (name, about, _) in TOPICS {
        let style = command.get_styles().get_literal();
        let _ = writeln!(text, "  {style}{name}{style:#}{:1$}  {about}", "", width - name.len());
    }
    text + "{after-help}"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_in_one_group() {
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        grouped.sort_unstable();
        let command = Cli::command();
        let mut known: Vec<&str> =
            command.get_subcommands().filter(|sub| !sub.is_hide_set()).map(Command::get_name).collect();
        known.push("help");
        known.sort_unstable();
        assert_eq!(grouped, known);
    }
}
