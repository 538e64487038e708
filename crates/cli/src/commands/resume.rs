//! `annals resume`

use std::path::{Path, PathBuf};
use std::process::Command;

use annals::home::SessionRecord;
use annals::sync::Stage;
use annals::wire;

use crate::commands::overview::find_left_behind;
use crate::context::Context;
use crate::error::{CliError, CommandResult, Outcome};
use crate::homes::{Homes, is_followed};
use crate::text::{one_line, shell_word};

/// Continue a session in its agent, in its directory
///
/// Starts OpenCode on the session; with a prompt, OpenCode answers it and ends (`opencode run`).
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  annals resume                     choose a session
  annals resume last
  annals resume \"empty cart\" now write a test for it
  annals resume last --print        the command, to run it yourself")]
pub(crate) struct ResumeArgs {
    /// Session: an id, the beginning of one, `last`, or a piece of the title
    session: Option<String>,
    /// A prompt to answer without opening OpenCode's screen
    prompt: Vec<String>,
    /// Only print the command
    #[arg(long)]
    print: bool,
    /// The directory to continue in, if the session's own is gone
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// The program to start
    #[arg(
        long,
        value_name = "PROGRAM",
        default_value = "opencode",
        env = "ANNALS_OPENCODE_PROGRAM",
        hide_env = true
    )]
    program: String,
}

pub(crate) fn run(context: &Context, args: &ResumeArgs) -> CommandResult {
    let homes = context.open(Stage::Messages)?;
    let session = context.session_or_choice(&homes.read(), args.session.as_deref())?;
    let directory = directory_of(context, args, &session)?;
    let mut words = vec![args.program.clone()];
    if !args.prompt.is_empty() {
        words.push("run".to_owned());
    }
    words.extend(["--session".to_owned(), session.id.to_string()]);
    if !args.prompt.is_empty() {
        words.push(args.prompt.join(" "));
    }
    if args.print || context.json {
        let command: Vec<String> = words.iter().map(|word| shell_word(word)).collect();
        let mut output = context.plain_output();
        match context.json {
            true => output.json(&wire::ResumeCommand {
                id: session.id.as_str(),
                directory: directory.display().to_string(),
                command: words,
            })?,
            false => {
                let place = shell_word(&directory.display().to_string());
                output.line(format!("cd {place} && {}", command.join(" ")))?;
            }
        }
        output.finish()?;
        return Ok(Outcome::Done);
    }
    expect_resumable(context, &homes, &session, &directory)?;
    drop(homes);
    start(&words, &directory)
}

/// The directory to continue in.
fn directory_of(context: &Context, args: &ResumeArgs, session: &SessionRecord) -> Result<PathBuf, CliError> {
    if let Some(directory) = &args.dir {
        return Ok(context.current_dir.join(directory));
    }
    match session.info.directory().filter(|directory| !directory.is_empty()) {
        Some(directory) => Ok(PathBuf::from(directory)),
        None => Err(CliError::new(format!("session {} does not say where it was opened", session.id))
            .hint("give the directory with `--dir`")),
    }
}

/// Refuses where OpenCode would not find the session, with what to do first.
fn expect_resumable(
    context: &Context,
    homes: &Homes,
    session: &SessionRecord,
    directory: &Path,
) -> Result<(), CliError> {
    let id = &session.id;
    if session.gone.is_some() {
        return Err(CliError::new(format!("OpenCode no longer has session {id}"))
            .hint(format!("`annals restore {id}` brings it back")));
    }
    if let Some(store) = homes.store().filter(|store| !is_followed(&*store.annals, session)) {
        let from = shell_word(&store.annals.url().to_string());
        return Err(CliError::new(format!(
            "session {id} is in your store alone, where OpenCode does not look"
        ))
        .hint(format!("`annals copy --from {from} --to HOME {id}` brings it into a home of OpenCode's")));
    }
    if !directory.is_dir() {
        let place = one_line(&directory.display().to_string());
        return Err(CliError::new(format!("{place}, where the session was opened, does not exist"))
            .hint("`--dir DIR` continues it elsewhere"));
    }
    let is_in = |place: &str| session.origins.iter().any(|origin| origin.to_string() == place);
    let is_left_behind =
        |rescue: &wire::Rescue| !is_in(&rescue.to) && is_in(rescue.from.trim_end_matches("/storage"));
    if find_left_behind(context, homes)?.iter().any(is_left_behind) {
        return Err(CliError::new(format!(
            "session {id} is in files, which OpenCode 1.2 and later does not read"
        ))
        .hint("`annals rescue` brings it into the database; `--print` prints the command anyway"));
    }
    Ok(())
}

/// Starts a program in a directory, in the place of this one where the system can do that.
fn start(words: &[String], directory: &Path) -> CommandResult {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).current_dir(directory);
    let failed = |error: &std::io::Error| {
        let program = one_line(&words[0]);
        match error.kind() {
            std::io::ErrorKind::NotFound => CliError::new(format!("cannot find {program}"))
                .hint("install OpenCode, or name its program with `--program`; `--print` prints the command"),
            _ => CliError::new(format!("cannot start {program}: {error}")),
        }
    };
    #[cfg(unix)]
    {
        use std::os::unix::process::CommandExt;
        Err(failed(&command.exec()))
    }
    #[cfg(not(unix))]
    match command.status() {
        Ok(status) if status.success() => Ok(Outcome::Done),
        Ok(status) => Err(CliError::new(format!("{} ended with {status}", one_line(&words[0])))),
        Err(error) => Err(failed(&error)),
    }
}
