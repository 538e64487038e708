//! `annals` without a command: what there is.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use annals::history::LogQuery;
use annals::home::{Extent, SessionRecord};
use annals::model::id::SessionId;
use annals::query::SessionQuery;
use annals::sync::Stage;
use annals::wire;

use crate::context::Context;
use crate::damage::{report_damage, tell_rescue};
use crate::error::{CliError, CommandResult, Outcome, report_quarantine};
use crate::homes::{Freshness, Homes, OpenedStore};
use crate::output::Output;
use crate::short_id::ShortIds;
use crate::text::{bytes, count, cut, fit, grouped, one_line, shell_word, wrap};

/// Whether the overview ends with what to do next.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hints {
    Shown,
    Left,
}

pub(crate) fn run(context: &Context, hints: Hints) -> CommandResult {
    let homes = context.open(Stage::Messages)?;
    let home = homes.read();
    let mut rows = Vec::new();
    // What can still be counted, also in damaged homes.
    let mut extents: Vec<Extent> = Vec::new();
    let mut held: Vec<(PathBuf, HashSet<SessionId>)> = Vec::new();
    let found;
    let described = match &homes {
        Homes::Direct(homes) => homes,
        Homes::Store(store) => {
            found = if store.is_named { Vec::new() } else { context.open_found().unwrap_or_default() };
            &found
        }
    };
    for each in described {
        let found = each.sessions(&SessionQuery::default())?;
        let Some(inspected) = each.inspect() else { continue };
        let readable = inspected.extent()?;
        rows.push(wire::Home::of(each.url().to_string(), &found, &readable, inspected.remarks()));
        extents.push(readable);
        if let Some(path) = each.url().path() {
            held.push((path.to_owned(), found.value.into_iter().map(|record| record.id).collect()));
        }
    }
    let found = context.sessions(&home, &SessionQuery::default())?;
    let short_ids = ShortIds::of(&found.value);
    let store = homes.store().map(|store| describe(store, &found.value)).transpose()?;
    let mut output = context.plain_output();
    let overview = wire::Overview::of(rows, store, &found.value, left_behind(&held));
    if context.json {
        output.json(&overview)?;
    } else {
        let paint = output.paint;
        for (home, readable) in overview.homes.iter().zip(&extents) {
            output.line(paint.bold(&home.url))?;
            let facts = format!(
                "{} in {}, {}, {}",
                count(home.sessions, "session"),
                count(home.projects, "project"),
                match home.damaged {
                    false =>
                        format!("{}, {}", count(readable.messages, "message"), count(readable.parts, "part")),
                    true => format!(
                        "messages and parts unknown: the database is damaged ({} and {} can be read)",
                        count(readable.messages, "message"),
                        count(readable.parts, "part")
                    ),
                },
                bytes(home.bytes)
            );
            for line in wrap(&facts, output.width.saturating_sub(2)) {
                output.line(format!("  {line}"))?;
            }
            if let Some(updated) = home.updated {
                let when = format!(
                    "last used {} ({})",
                    context.clock.ago(updated),
                    context.clock.date_time(updated)
                );
                output.line(format!("  {}", paint.dim(when)))?;
            }
            for remark in &home.remarks {
                for line in wrap(remark, output.width.saturating_sub(2)) {
                    output.line(format!("  {}", paint.warn(line)))?;
                }
            }
        }
        if let Some(store) = &overview.store {
            print_store(&mut output, context, store)?;
        }
        for rescue in &overview.rescue {
            let what = format!(
                "{} of these files {} not in the database, so OpenCode 1.2 and later does not show {}. This brings {} over:",
                count(rescue.sessions, "session"),
                if rescue.sessions == 1 { "is" } else { "are" },
                if rescue.sessions == 1 { "it" } else { "them" },
                if rescue.sessions == 1 { "it" } else { "them" },
            );
            output.line("")?;
            for line in wrap(&what, output.width) {
                output.line(paint.warn(line))?;
            }
            let command =
                format!("annals copy --from {} --to {}", shell_word(&rescue.from), shell_word(&rescue.to));
            output.line(format!("  {}", paint.code(command)))?;
        }
        if !overview.latest.is_empty() {
            output.line("")?;
            output.line(paint.dim("Latest"))?;
            for session in &overview.latest {
                let id = short_ids.shorten(&session.id);
                let title = one_line(&session.title);
                let title = cut(&title, output.width.saturating_sub(2 + id.len() + 2 + 10 + 2)).into_owned();
                let when = fit(&context.clock.ago(session.updated), 10);
                output.line(format!("  {}  {}  {title}", paint.id(id), paint.dim(when)))?;
            }
        }
        if let (Some(latest), Hints::Shown) = (overview.latest.first(), hints) {
            let show = format!("show {}", short_ids.shorten(&latest.id));
            let rows = [
                ("list", "all sessions"),
                (&show, "read one"),
                ("search WORDS", "find what was said"),
                ("stats", "tokens, cost, tools"),
                ("check", "look for damage"),
                ("--help", "everything else"),
            ];
            output.line("")?;
            output.line(paint.dim("Try"))?;
            for (command, what) in rows {
                let command = format!("annals {command}");
                output.line(format!("  {}  {}", paint.code(fit(&command, 24)), paint.dim(what)))?;
            }
        }
    }
    output.finish()?;
    let outcome = report_quarantine(&found.quarantined, context.stderr_paint());
    // What the store noted tells more; without a note the counts have told.
    let mut damage = report_damage(context, &homes)?;
    for home in overview.homes.iter().filter(|home| home.damaged && damage == Outcome::Done) {
        context.warn(&format!("{} is damaged, and numbers are too low", home.url));
        tell_rescue(context, &home.url);
    }
    if overview.homes.iter().any(|home| home.damaged) {
        damage = Outcome::WithProblems;
    }
    Ok(outcome.and(damage))
}

fn describe(store: &OpenedStore, sessions: &[SessionRecord]) -> Result<wire::Store, CliError> {
    let last = store.annals.log(&LogQuery { limit: Some(1), ..LogQuery::default() })?;
    Ok(wire::Store {
        path: store.annals.url().to_string(),
        bytes: store.annals.bytes(),
        sessions: sessions.len(),
        gone: sessions.iter().filter(|session| session.gone.is_some()).count(),
        revision: store.annals.head()?,
        revised: last.first().map(|revision| revision.time),
        synced: matches!(store.freshness, Freshness::Synced),
        index: store.annals.index_bytes().map(|bytes| wire::TextIndex { bytes }),
    })
}

fn print_store(output: &mut Output, context: &Context, store: &wire::Store) -> std::io::Result<()> {
    let paint = output.paint;
    output.line(format!("{}  {}", paint.bold(&store.path), paint.dim("store")))?;
    let mut facts = vec![count(store.sessions, "session")];
    if store.gone > 0 {
        facts.push(format!("{} of them gone from OpenCode", grouped(store.gone)));
    }
    facts.push(bytes(store.bytes));
    facts.push(if store.synced { "up to date" } else { "not synced now" }.to_owned());
    if let Some(revised) = store.revised {
        facts.push(format!("revision {} {}", store.revision, context.clock.ago(revised)));
    }
    facts.push(match &store.index {
        Some(index) => format!("text index {}", bytes(index.bytes)),
        None => "no text index yet".to_owned(),
    });
    for line in wrap(&facts.join(", "), output.width.saturating_sub(2)) {
        output.line(format!("  {line}"))?;
    }
    Ok(())
}

/// The sessions of directories that are in no database beside them: OpenCode since 1.16 does not take them over, and
/// earlier versions leave some behind.
fn left_behind(held: &[(PathBuf, HashSet<SessionId>)]) -> Vec<wire::Rescue> {
    let is_beside =
        |directory: &Path, database: &Path| database.is_file() && database.parent() == Some(directory);
    let rescue = |(directory, sessions): &(PathBuf, HashSet<SessionId>)| {
        let absolute = std::path::absolute(directory).ok()?;
        let databases: Vec<_> = held.iter().filter(|(path, _)| is_beside(&absolute, path)).collect();
        let (database, _) = databases.first()?;
        let is_missing = |session: &&SessionId| !databases.iter().any(|(_, known)| known.contains(*session));
        let n_missing = sessions.iter().filter(is_missing).count();
        let storage = directory.join("storage");
        let from = if storage.is_dir() { &storage } else { directory };
        (n_missing > 0).then(|| wire::Rescue {
            sessions: n_missing,
            from: from.display().to_string(),
            to: database.display().to_string(),
        })
    };
    held.iter().filter_map(rescue).collect()
}
