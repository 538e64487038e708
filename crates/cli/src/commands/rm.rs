//! `annals rm`

use std::io::{self, IsTerminal};

use annals::home::Write;
use annals::model::Key;
use annals::model::lens::Session;
use annals::remove::{self, Removal};
use annals::sync::Stage;
use serde::Serialize;

use crate::confirm::confirmed;
use crate::context::Context;
use crate::error::{CliError, CommandResult, Outcome};
use crate::homes::{Freshness, Owner, Store};
use crate::text::{count, one_line};

/// Delete sessions with all that belongs to them
///
/// Messages, parts, todo lists, diffs and the sessions they started go too, in one transaction. OpenCode's own delete
/// leaves some of that behind. They are deleted from OpenCode's home; the store keeps what it knows of them until it is
/// told to forget them (`annals forget`). From a home that was named with `--home` they are gone for good, unless
/// `annals export --format jsonl` has made a copy.
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
    /// Whether the store has them still.
    kept: bool,
}

pub(crate) fn run(context: &Context, args: &RmArgs) -> CommandResult {
    // All of it, so that what is deleted in a home is in the store.
    let homes = context.open(if args.dry_run { Stage::Messages } else { Stage::Parts })?;
    let mut outcome = Outcome::Done;
    let sessions: Vec<_> = args
        .sessions
        .iter()
        .map(|wanted| context.session(&homes.read(), wanted))
        .collect::<Result<_, _>>()?;
    let mut rows = Vec::new();
    let mut fates = Vec::new();
    for session in sessions {
        let owner = homes.of(&session)?;
        let home: &dyn Write = &*owner;
        let fate = match (&owner, homes.store()) {
            (Owner::Store(_), _) => Fate::Undoable,
            (_, Some(Store { freshness: Freshness::Synced, .. })) => Fate::Kept,
            _ => Fate::Lost,
        };
        // It may have gone with one named before it.
        let Some(session) = home.session(&session.id)? else { continue };
        let removal = remove::plan(home, session)?;
        if !context.json {
            describe(context, &removal);
        }
        let agreed = !args.dry_run && (args.yes || confirm(context, fate)?);
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
        if agreed {
            fates.push(fate);
        }
        rows.push(to_json(&removal, agreed, fate));
    }
    if !fates.is_empty() {
        context.changed(&homes);
    }
    if context.json {
        let mut output = context.plain_output();
        output.json(&rows)?;
        output.finish()?;
    } else if rows.iter().any(|row| row.removed) {
        let n_sessions: usize = rows.iter().filter(|row| row.removed).map(|row| row.sessions.len()).sum();
        context.note(&format!("deleted {}", count(n_sessions, "session")));
        if fates.contains(&Fate::Kept) {
            context.note("the store keeps them, marked [source gone]; `annals forget` erases them there");
        }
        if fates.contains(&Fate::Undoable) {
            context
                .note("`annals undo` brings back what was deleted from the store; `annals forget` erases it");
        }
    } else {
        context.note("nothing was deleted");
    }
    Ok(outcome)
}

fn to_json(removal: &Removal, removed: bool, fate: Fate) -> RemovedJson {
    let n = |fits: fn(&Key) -> bool| removal.keys.iter().filter(|key| fits(key)).count();
    RemovedJson {
        sessions: removal.sessions.iter().map(|session| session.id.to_string()).collect(),
        messages: n(|key| matches!(key, Key::Message(..))),
        parts: n(|key| matches!(key, Key::Part(..))),
        documents: removal.keys.len(),
        removed,
        kept: fate != Fate::Lost,
    }
}

fn describe(context: &Context, removal: &Removal) {
    for (n, session) in removal.sessions.iter().enumerate() {
        let title = session.stored.document.lens::<Session<'_>>().title;
        let title = title.map(|title| one_line(&title.to_str())).unwrap_or_default();
        context.note(&format!("{}{}  {title}", if n == 0 { "" } else { "  ↳ " }, session.id));
    }
    let row = to_json(removal, false, Fate::Lost);
    context.note(&format!(
        "{}, {}, {}, {} in all",
        count(row.sessions.len(), "session"),
        count(row.messages, "message"),
        count(row.parts, "part"),
        count(row.documents, "document"),
    ));
}

/// What becomes of a session that is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// The store keeps it.
    Kept,
    /// It is deleted from the store, which keeps its history.
    Undoable,
    /// Nobody has it any more.
    Lost,
}

/// Asks, where there is someone to ask. A script that says `rm` means it.
fn confirm(context: &Context, fate: Fate) -> Result<bool, CliError> {
    if !io::stdin().is_terminal() || context.json {
        return Ok(true);
    }
    confirmed(match fate {
        Fate::Kept => "Delete from OpenCode's home?",
        Fate::Undoable => "Delete from the store?",
        Fate::Lost => "Delete for good?",
    })
}
