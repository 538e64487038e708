//! `annals files`

use std::io::Write;

use annals::session_changes::{ChangeKind, FileChange, SessionChanges, SessionPatch, session_changes};
use annals::sync::Stage;
use annals::wire;

use crate::commands::show::TurnRange;
use crate::context::Context;
use crate::error::{CliError, CommandResult, Outcome, report_quarantine};
use crate::output::Painter;
use crate::table::{Table, left, right};
use crate::text::{count, cut_front, grouped, one_line};

/// List the files that a session changed, or print its changes as a patch
///
/// A patch is made of OpenCode's snapshots, with modes and binary files, or where they are gone, of the texts that the session keeps. Its
/// paths are relative to the root of the working tree. Several turns count as one change: from before the first to after the last.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  annals files last
  annals files last --turn 3..5                 what turns 3 to 5 changed
  annals files last --patch > work.patch
  annals files last --patch | git apply -R      take the changes back")]
pub(crate) struct FilesArgs {
    /// Session: an id, the beginning of one, `last`, or a piece of the title
    session: Option<String>,
    /// Only this turn, or these: 3, 3..5, 3.., ..5
    #[arg(long, value_name = "N")]
    turn: Option<TurnRange>,
    /// Print the changes as a patch for `git apply`
    #[arg(short, long)]
    patch: bool,
}

pub(crate) fn run(context: &Context, args: &FilesArgs) -> CommandResult {
    let homes = context.open(Stage::Parts)?;
    let home = homes.read();
    let session = context.session_or_choice(&home, args.session.as_deref())?;
    let found = session_changes(&home, &session, args.turn.map(TurnRange::numbers).as_ref())?;
    let (changes, quarantined) = (found.value, found.quarantined);
    if let Some(range) = args.turn.filter(|range| *range.numbers().start() > changes.n_turns) {
        let turns = count(changes.n_turns, "turn");
        return Err(CliError::new(format!(
            "session {} has {turns}, and no turn {}",
            session.id,
            range.numbers().start()
        )));
    }
    let patch = args.patch.then(|| changes.patch(&home, &session));
    if context.json {
        let text = patch.as_ref().map(|patch| String::from_utf8_lossy(&patch.patch).into_owned());
        let mut output = context.plain_output();
        output.json(&wire::ChangedFiles::of(&session.id, &changes, text.as_deref()))?;
        output.finish()?;
    } else if let Some(patch) = &patch {
        print_patch(context, patch)?;
    } else {
        print_files(context, &changes)?;
    }
    let mut outcome = report_quarantine(&quarantined, context.stderr_paint());
    if let Some(patch) = &patch {
        outcome = outcome.and(report_missing(context, patch));
        if let Some(root) = changes.root.as_deref().filter(|_| !patch.patch.is_empty()) {
            context.note_verbose(&format!("paths are relative to {}", one_line(root)));
        }
    }
    Ok(outcome)
}

/// Says which changes are not in the patch.
fn report_missing(context: &Context, patch: &SessionPatch) -> Outcome {
    if patch.missing.is_empty() {
        return Outcome::Done;
    }
    for file in &patch.missing {
        context.warn(&format!("not in the patch: {}, whose contents are not kept", one_line(file)));
    }
    if let Some(why) = &patch.no_snapshots {
        context.warn(&format!("OpenCode's snapshots cannot be used: {}", one_line(why)));
    }
    Outcome::WithProblems
}

/// Prints a patch: as it is in a pipe, coloured on a terminal.
fn print_patch(context: &Context, patch: &SessionPatch) -> std::io::Result<()> {
    let mut output = context.paged_output();
    if !output.is_terminal && !output.paint.color {
        output.write_all(&patch.patch)?;
        return output.finish();
    }
    let paint = output.paint;
    for line in String::from_utf8_lossy(&patch.patch).lines() {
        let head =
            ["diff --git ", "--- ", "+++ ", "new file ", "deleted file ", "index ", "old mode ", "new mode "];
        let line = match line.as_bytes().first() {
            _ if head.iter().any(|begin| line.starts_with(begin)) => paint.bold(line),
            Some(b'+') => paint.good(line),
            Some(b'-') => paint.bad(line),
            Some(b'@') => paint.id(line),
            _ => line.to_owned(),
        };
        output.line(line)?;
    }
    output.finish()
}

fn print_files(context: &Context, changes: &SessionChanges) -> std::io::Result<()> {
    let mut output = context.paged_output();
    let paint = output.paint;
    let has_turns = changes.n_turns > 1;
    let turns = |file: &FileChange| ranges(&file.turns);
    let widest = changes.files.iter().map(|file| turns(file).len()).max().unwrap_or(0);
    let turns_column = left("TURNS", widest.clamp(5, 14)).gives_way(1);
    let columns = [
        left("", 1),
        right("ADDED", 6).style(Painter::good),
        right("DELETED", 7).style(Painter::bad),
        if has_turns { turns_column } else { turns_column.hidden() },
    ];
    let table = Table::new(paint, columns).fitting(output.columns, 16);
    if !changes.files.is_empty() {
        table.header(&mut output, "FILE")?;
    }
    for file in &changes.files {
        let sign = match file.kind {
            ChangeKind::Added => "A",
            ChangeKind::Modified => "M",
            ChangeKind::Deleted => "D",
            ChangeKind::Passing => "-",
        };
        let number = |sign: char, n: u64| {
            if n == 0 { String::new() } else { format!("{sign}{}", grouped(n as usize)) }
        };
        let (added, deleted) = match file.lines {
            Some((added, deleted)) => (number('+', added), number('−', deleted)),
            None => ("?".to_owned(), "?".to_owned()),
        };
        let path = cut_front(&one_line(&file.file), table.room(output.columns)).into_owned();
        output.line(table.row([sign.to_owned(), added, deleted, turns(file)], path))?;
    }
    let (added, deleted) = changes
        .files
        .iter()
        .filter_map(|file| file.lines)
        .fold((0, 0), |(added, deleted), lines| (added + lines.0, deleted + lines.1));
    let tally = match changes.files.len() {
        0 => "no files changed".to_owned(),
        n => format!(
            "{} changed, +{} −{}",
            count(n, "file"),
            grouped(added as usize),
            grouped(deleted as usize)
        ),
    };
    let undone = if changes.is_reverted { "; changes that were undone are left out" } else { "" };
    let tally = tally + undone;
    match output.is_terminal {
        true => {
            output.line(paint.dim(&tally))?;
            output.finish()
        }
        false => {
            output.finish()?;
            context.note(&tally);
            Ok(())
        }
    }
}

/// Numbers in order, those that follow each other as a range: `1-3, 5`.
fn ranges(numbers: &[usize]) -> String {
    let mut parts: Vec<(usize, usize)> = Vec::new();
    for number in numbers {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == *number => *last = *number,
            _ => parts.push((*number, *number)),
        }
    }
    let shown = |(first, last): &(usize, usize)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    parts.iter().map(shown).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::ranges;

    #[test]
    fn numbers_that_follow_each_other_are_a_range() {
        assert_eq!(ranges(&[1, 2, 3, 5, 7, 8]), "1-3, 5, 7-8");
        assert_eq!(ranges(&[]), "");
    }
}
