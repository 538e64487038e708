//! `annals` without a command: an overview of homes, store and latest sessions.

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
    Omitted,
}

pub(crate) fn run(context: &Context, hints: Hints) -> CommandResult {
    let homes = context.open(Stage::Messages)?;
    let described = describe_homes(context, &homes)?;
    let found = context.sessions(&homes.read(), &SessionQuery::default())?;
    let store = homes.store().map(|store| describe_store(store, &found.value)).transpose()?;
    let rescue = left_behind(&described.held);
    let overview = wire::Overview::of(described.rows, store, &found.value, rescue);
    let mut output = context.plain_output();
    if context.json {
        output.json(&overview)?;
    } else {
        let short_ids = ShortIds::of(&found.value);
        for (home, readable) in overview.homes.iter().zip(&described.extents) {
            print_home(&mut output, context, home, readable)?;
        }
        if let Some(store) = &overview.store {
            print_store(&mut output, context, store)?;
        }
        for rescue in &overview.rescue {
            print_rescue(&mut output, rescue)?;
        }
        print_latest(&mut output, context, &overview, short_ids)?;
        if let (Some(latest), Hints::Shown) = (overview.latest.first(), hints) {
            print_hints(&mut output, short_ids.shorten(&latest.id))?;
        }
    }
    output.finish()?;
    let outcome = report_quarantine(&found.quarantined, context.stderr_paint());
    // The damage that the store noted tells more; without a note the counts have told.
    let mut damage = report_damage(context, &homes)?;
    for home in overview.homes.iter().filter(|home| home.damaged && damage == Outcome::Done) {
        context.warn(&format!("{} is damaged, so counts are too low", home.url));
        tell_rescue(context, &home.url);
    }
    if overview.homes.iter().any(|home| home.damaged) {
        damage = Outcome::WithProblems;
    }
    Ok(outcome.and(damage))
}

/// OpenCode's homes, as the overview describes them.
#[derive(Default)]
struct DescribedHomes {
    rows: Vec<wire::Home>,
    /// Counts of readable documents, a value for each row, also of damaged homes.
    extents: Vec<Extent>,
    /// The sessions of each home that has a path.
    held: Vec<(PathBuf, HashSet<SessionId>)>,
}

fn describe_homes(context: &Context, homes: &Homes) -> Result<DescribedHomes, CliError> {
    let found;
    let homes = match homes {
        Homes::Direct(homes) => homes,
        Homes::Store(store) => {
            found = if store.is_named { Vec::new() } else { context.open_found().unwrap_or_default() };
            &found
        }
    };
    let mut described = DescribedHomes::default();
    for home in homes {
        let sessions = home.sessions(&SessionQuery::default())?;
        let Some(inspected) = home.inspect() else { continue };
        let readable = inspected.extent()?;
        let row = wire::Home::of(home.url().to_string(), &sessions, &readable, inspected.remarks());
        described.rows.push(row);
        described.extents.push(readable);
        if let Some(path) = home.url().path() {
            let ids = sessions.value.into_iter().map(|record| record.id).collect();
            described.held.push((path.to_owned(), ids));
        }
    }
    Ok(described)
}

fn describe_store(store: &OpenedStore, sessions: &[SessionRecord]) -> Result<wire::Store, CliError> {
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

fn print_home(
    output: &mut Output,
    context: &Context,
    home: &wire::Home,
    readable: &Extent,
) -> std::io::Result<()> {
    let paint = output.paint;
    output.line(paint.bold(&home.url))?;
    let (messages, parts) = (count(readable.messages, "message"), count(readable.parts, "part"));
    let facts = format!(
        "{} in {}, {}, {}",
        count(home.sessions, "session"),
        count(home.projects, "project"),
        match home.damaged {
            false => format!("{messages}, {parts}"),
            true => format!(
                "messages and parts unknown: the database is damaged ({messages} and {parts} can be read)"
            ),
        },
        bytes(home.bytes)
    );
    for line in wrap(&facts, output.width.saturating_sub(2)) {
        output.line(format!("  {line}"))?;
    }
    if let Some(updated) = home.updated {
        let when = format!("last used {} ({})", context.clock.ago(updated), context.clock.date_time(updated));
        output.line(format!("  {}", paint.dim(when)))?;
    }
    for remark in &home.remarks {
        for line in wrap(remark, output.width.saturating_sub(2)) {
            output.line(format!("  {}", paint.warn(line)))?;
        }
    }
    Ok(())
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

fn print_rescue(output: &mut Output, rescue: &wire::Rescue) -> std::io::Result<()> {
    let paint = output.paint;
    let (are, them) = if rescue.sessions == 1 { ("is", "it") } else { ("are", "them") };
    let what = format!(
        "{} of these files {are} not in the database, so OpenCode 1.2 and later does not show {them}. This brings {them} over:",
        count(rescue.sessions, "session"),
    );
    output.line("")?;
    for line in wrap(&what, output.width) {
        output.line(paint.warn(line))?;
    }
    let command = format!("annals copy --from {} --to {}", shell_word(&rescue.from), shell_word(&rescue.to));
    output.line(format!("  {}", paint.code(command)))
}

fn print_latest(
    output: &mut Output,
    context: &Context,
    overview: &wire::Overview,
    short_ids: ShortIds,
) -> std::io::Result<()> {
    if overview.latest.is_empty() {
        return Ok(());
    }
    let paint = output.paint;
    output.line("")?;
    output.line(paint.dim("Latest"))?;
    for session in &overview.latest {
        let id = short_ids.shorten(&session.id);
        let title = one_line(&session.title);
        let title = cut(&title, output.width.saturating_sub(2 + id.len() + 2 + 10 + 2)).into_owned();
        let when = fit(&context.clock.ago(session.updated), 10);
        output.line(format!("  {}  {}  {title}", paint.id(id), paint.dim(when)))?;
    }
    Ok(())
}

fn print_hints(output: &mut Output, latest: &str) -> std::io::Result<()> {
    let paint = output.paint;
    let show = format!("show {latest}");
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
    Ok(())
}

/// Counts the sessions of directories that no database beside them has: OpenCode since 1.16 does not take them over, and
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
