//! `annals rm`

use std::io::{self, BufRead, IsTerminal, Write};

use annals::model::Key;
use annals::model::lens::Session;
use annals::remove::{self, Removal};
use serde::Serialize;

use crate::context::Context;
use crate::error::{CliError, CommandResult, Outcome};
use crate::text::{count, one_line};

/// Delete sessions with all that belongs to them
///
/// Messages, parts, todo lists, diffs and the sessions they started go too, in one transaction. OpenCode's own delete
/// leaves some of that behind. There is no way back: `annals export --format jsonl` makes a complete copy first.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  annals rm --dry-run last          what would go
  annals rm 36f8c1")]
pub(crate) struct RmArgs {
    /// Sessions: ids, beginnings of ids, `last`, or pieces of titles
    #[arg(required = true, value_name = "SESSION")]
    sessions: Vec<String>,
    /// Only show what would be deleted
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
}

#[derive(Serialize)]
struct RemovedJson {
    sessions: Vec<String>,
    messages: usize,
    parts: usize,
    documents: usize,
    removed: bool,
}

pub(crate) fn run(context: &Context, args: &RmArgs) -> CommandResult {
    let homes = context.open()?;
    let mut outcome = Outcome::Done;
    let sessions: Vec<_> = args
        .sessions
        .iter()
        .map(|wanted| context.session(&homes.read(), wanted))
        .collect::<Result<_, _>>()?;
    let mut rows = Vec::new();
    for session in sessions {
        let home = homes.of(&session)?;
        // It may have gone with one named before it.
        let Some(session) = home.session(&session.id)? else { continue };
        let removal = remove::plan(home, session)?;
        if !context.json {
            describe(context, &removal);
        }
        let agreed = !args.dry_run && (args.yes || confirm(context)?);
        if agreed {
            remove::carry_out(home, &removal, "delete a session")?;
            let left: usize = removal
                .sessions
                .iter()
                .map(|session| home.session_keys(&session.id).map_or(0, |keys| keys.len()))
                .sum();
            if left > 0 {
                context.note("an agent is still writing to it; stop the agent and delete it again");
                outcome = Outcome::WithProblems;
            }
        }
        rows.push(to_json(&removal, agreed));
    }
    if context.json {
        let mut output = context.plain_output();
        output.json(&rows)?;
        output.finish()?;
    } else if rows.iter().any(|row| row.removed) {
        let n_sessions: usize = rows.iter().filter(|row| row.removed).map(|row| row.sessions.len()).sum();
        context.note(&format!("deleted {}", count(n_sessions, "session")));
    } else {
        context.note("nothing was deleted");
    }
    Ok(outcome)
}

fn to_json(removal: &Removal, removed: bool) -> RemovedJson {
    let n = |fits: fn(&Key) -> bool| removal.keys.iter().filter(|key| fits(key)).count();
    RemovedJson {
        sessions: removal.sessions.iter().map(|session| session.id.to_string()).collect(),
        messages: n(|key| matches!(key, Key::Message(..))),
        parts: n(|key| matches!(key, Key::Part(..))),
        documents: removal.keys.len(),
        removed,
    }
}

fn describe(context: &Context, removal: &Removal) {
    for (n, session) in removal.sessions.iter().enumerate() {
        let title = session.stored.document.lens::<Session<'_>>().title;
        let title = title.map(|title| one_line(&title.to_str())).unwrap_or_default();
        context.note(&format!("{}{}  {title}", if n == 0 { "" } else { "  ↳ " }, session.id));
    }
    let row = to_json(removal, false);
    context.note(&format!(
        "{}, {}, {}, {} in all",
        count(row.sessions.len(), "session"),
        count(row.messages, "message"),
        count(row.parts, "part"),
        count(row.documents, "document"),
    ));
}

/// Asks, where there is someone to ask. A script that says `rm` means it.
fn confirm(context: &Context) -> Result<bool, CliError> {
    if !io::stdin().is_terminal() || context.json {
        return Ok(true);
    }
    let mut stderr = io::stderr();
    write!(stderr, "Delete for good? [y/N] ")?;
    stderr.flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}
