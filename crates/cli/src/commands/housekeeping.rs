//! `annals housekeeping`

use annals::home::SessionRecord;
use annals::home::space::SpaceKind;
use annals::ops::{self, FreeOptions, Freed, OperationKind, SpaceSurvey};
use annals::sync::Stage;
use annals::wire;
use clap::ValueEnum;

use crate::confirm::agreed;
use crate::context::Context;
use crate::error::{CliError, CommandResult, Outcome};
use crate::homes::{Homes, OpenedStore};
use crate::output::Painter;
use crate::short_id::ShortIds;
use crate::table::{Table, left, right};
use crate::text::{bytes, count, cut, one_line, shown_title};
use crate::time_arg::parse_time;

/// Show what takes the space in OpenCode's homes, and free it
///
/// Without `--free` it only looks. Sessions, copies in files and orphans are deleted as an operation, which `annals undo` takes back; the store
/// keeps them. Logs, snapshots, long tool output and unused pages are freed for good. What the log of changes says about the past is imported
/// into the store's history first. Beside a running OpenCode only what cannot disturb it is freed, and the rest is reported.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
What can be freed:
  sessions      sessions that were last used before --older-than; the store keeps them
  migrated      sessions in files that the database beside them has too
  orphans       messages, parts, todo lists and diffs that belong to no session
  events        the log of changes that OpenCode 1.16 and later write and hardly read
  snapshots     snapshots of projects without sessions, and those older than a week
  tool-output   long tool output that is older than a week
  logs          all of OpenCode's logs but the latest
  unused        pages of the database that hold nothing, and its write-ahead log
  all           all of these but sessions and migrated

Examples:
  annals housekeeping
  annals housekeeping --free events,unused
  annals housekeeping --free all --dry-run
  annals housekeeping --free sessions --older-than 180d")]
pub(crate) struct HousekeepingArgs {
    /// What to free
    #[arg(long, value_enum, value_name = "WHAT", value_delimiter = ',')]
    free: Vec<FreeKind>,
    /// With `--free sessions`: those that were last used before this time: 2026-02-01, 180d, "6 months"
    #[arg(long, value_name = "TIME", requires = "free")]
    older_than: Option<String>,
    /// Only show what would be freed
    #[arg(short = 'n', long, requires = "free")]
    dry_run: bool,
    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
}

/// What can be freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FreeKind {
    Sessions,
    Migrated,
    Orphans,
    Events,
    Snapshots,
    ToolOutput,
    Logs,
    Unused,
    All,
}

impl FreeKind {
    fn kinds(self) -> Vec<SpaceKind> {
        match self {
            FreeKind::Sessions => vec![SpaceKind::Sessions],
            FreeKind::Migrated => vec![SpaceKind::Migrated],
            FreeKind::Orphans => vec![SpaceKind::Orphans],
            FreeKind::Events => vec![SpaceKind::Events],
            FreeKind::Snapshots => vec![SpaceKind::Snapshots],
            FreeKind::ToolOutput => vec![SpaceKind::ToolOutput],
            FreeKind::Logs => vec![SpaceKind::Logs],
            FreeKind::Unused => vec![SpaceKind::Unused],
            FreeKind::All => {
                let is_copy_or_session =
                    |kind: &SpaceKind| matches!(kind, SpaceKind::Sessions | SpaceKind::Migrated);
                ops::FREEABLE.into_iter().filter(|kind| !is_copy_or_session(kind)).collect()
            }
        }
    }
}

/// Sessions that are shown by size.
const LARGEST: usize = 5;

pub(crate) fn run(context: &Context, args: &HousekeepingArgs) -> CommandResult {
    let homes = context.open(if args.free.is_empty() { Stage::Messages } else { Stage::Parts })?;
    if args.free.is_empty() {
        let survey =
            context.operate(&homes, |workspace| Ok(ops::survey_space(workspace, context.clock.now)?))?;
        return show(context, &homes, &survey);
    }
    let kinds: Vec<SpaceKind> = args.free.iter().flat_map(|kind| kind.kinds()).collect();
    let sessions_before =
        args.older_than.as_deref().map(|time| parse_time(time, &context.clock)).transpose()?;
    if kinds.contains(&SpaceKind::Sessions) && sessions_before.is_none() {
        return Err(CliError::usage("which sessions? say how old they must be with `--older-than`")
            .hint("for example `annals housekeeping --free sessions --older-than 180d`"));
    }
    let options = FreeOptions { kinds, sessions_before, now: context.clock.now, dry_run: true };
    context.operate(&homes, |workspace| {
        context.expect_record("freed")?;
        let request = context.request(OperationKind::Housekeeping);
        let planned = ops::free_space(workspace, &request, &options)?;
        if args.dry_run || planned.items.is_empty() {
            return report(context, &planned, false);
        }
        if !context.json {
            list(context, &planned);
        }
        if !agreed(context, args.yes, "Free this?")? {
            context.note("nothing was freed");
            return Ok(Outcome::Done);
        }
        let freed = ops::free_space(workspace, &request, &FreeOptions { dry_run: false, ..options.clone() })?;
        report(context, &freed, true)
    })
}

/// A number of things that take space, in words.
fn items(kind: SpaceKind, n: usize) -> String {
    count(
        n,
        match kind {
            SpaceKind::Sessions | SpaceKind::Migrated => "session",
            SpaceKind::Events => "change",
            SpaceKind::Snapshots => "project",
            _ => "file",
        },
    )
}

/// Says what was freed, or would be.
fn list(context: &Context, freed: &Freed) {
    for item in &freed.items {
        let what = if item.items == 0 { String::new() } else { items(item.kind, item.items) };
        let facts = [item.kind.name().to_owned(), what, bytes(item.bytes)];
        let facts: Vec<String> = facts.into_iter().filter(|fact| !fact.is_empty()).collect();
        context.note(&format!("  {}  {}", one_line(&item.place), facts.join(", ")));
    }
}

fn report(context: &Context, freed: &Freed, is_done: bool) -> CommandResult {
    let outcome = if freed.left.is_empty() { Outcome::Done } else { Outcome::WithProblems };
    if context.json {
        let mut output = context.plain_output();
        output.json(&wire::FreeReport::of(freed, is_done))?;
        output.finish()?;
        return Ok(outcome);
    }
    let total: u64 = freed.items.iter().map(|item| item.bytes).sum();
    match (freed.items.is_empty(), is_done) {
        (true, _) => context.note("there is nothing to free"),
        (false, true) => {
            context.note("freed");
            list(context, freed);
        }
        (false, false) => {
            context.note(&format!("would free about {}", bytes(total)));
            list(context, freed);
        }
    }
    for operation in freed.operations.iter().filter_map(|report| report.operation) {
        context.note(&format!("operation {operation}; `annals undo {operation}` takes it back"));
    }
    for (place, why) in &freed.left {
        context.warn(&format!("not freed: {}: {}", one_line(place), one_line(why)));
    }
    Ok(outcome)
}

/// Shows what takes the space.
fn show(context: &Context, homes: &Homes, survey: &SpaceSurvey) -> CommandResult {
    let read = homes.read();
    let mut largest: Vec<(SessionRecord, u64)> = Vec::new();
    for (session, bytes) in survey.sessions.iter().take(LARGEST) {
        if let Some(record) = annals::home::Read::session(&read, session)? {
            largest.push((record, *bytes));
        }
    }
    let store = homes.store().map(store_space);
    let outcome = if survey.failed.is_empty() { Outcome::Done } else { Outcome::WithProblems };
    if context.json {
        let mut output = context.plain_output();
        output.json(&wire::SpaceReport::of(survey, &largest, store))?;
        output.finish()?;
        return Ok(outcome);
    }
    let mut output = context.paged_output();
    let paint = output.paint;
    let mut freeable: Vec<&str> = Vec::new();
    let (mut total, mut migrated) = (0, 0);
    for place in survey.places.iter().filter(|place| !place.uses.is_empty()) {
        let sum = place.uses.iter().map(|space| space.space.bytes).sum();
        let beside = if place.is_home { "" } else { ", beside the sessions" };
        let facts = format!("{}{beside}", bytes(sum));
        output.line(format!("{}  {}", one_line(&place.place), paint.dim(facts)))?;
        let table = Table::new(paint, [left("", 11), right("", 9)]);
        for space in &place.uses {
            let kind = space.space.kind;
            let what = space.space.items.map(|n| items(kind, n)).unwrap_or_default();
            let free = match space.freeable {
                0 => String::new(),
                n if n == space.space.bytes => "can be freed".to_owned(),
                n => format!("{} can be freed", bytes(n)),
            };
            match kind {
                SpaceKind::Migrated => migrated += space.freeable,
                _ => total += space.freeable,
            }
            if space.freeable > 0 && kind != SpaceKind::Migrated && !freeable.contains(&kind.name()) {
                freeable.push(kind.name());
            }
            let between = if what.is_empty() || free.is_empty() { "" } else { ", " };
            let cells = [kind.name().to_owned(), bytes(space.space.bytes)];
            let facts = format!("{}{}", paint.dim(format!("{what}{between}")), paint.good(free));
            output.line(format!("  {}", table.row(cells, facts)))?;
        }
        if let [pid, ..] = place.users[..] {
            output.line(format!("  {}", paint.warn(format!("process {pid} has it open"))))?;
        }
    }
    if let Some(store) = &store {
        let index = match store.index {
            0 => String::new(),
            index => format!(" and {} of text index", bytes(index)),
        };
        let facts = format!("{}{index}, your store", bytes(store.bytes));
        output.line(format!("{}  {}", one_line(&store.path), paint.dim(facts)))?;
    }
    if !largest.is_empty() {
        output.line("")?;
        output.line(paint.dim("Largest sessions"))?;
        let records: Vec<SessionRecord> = largest.iter().map(|(record, _)| record.clone()).collect();
        let short_ids = ShortIds::of(&records);
        let ids = short_ids.width(records.iter().map(|record| record.id.as_str()));
        let table = Table::new(paint, [left("", ids).style(Painter::id), right("", 9)]);
        for (record, size) in &largest {
            let room = table.room(output.columns).saturating_sub(2);
            let title = cut(&shown_title(record.info.title()), room).into_owned();
            let cells = [short_ids.shorten(record.id.as_str()).to_owned(), bytes(*size)];
            output.line(format!("  {}", table.row(cells, title)))?;
        }
    }
    if total + migrated > 0 {
        output.line("")?;
    }
    if total > 0 {
        let command = format!("annals housekeeping --free {}", freeable.join(","));
        output.line(format!("{} can be freed: {}", bytes(total), paint.code(command)))?;
    }
    if migrated > 0 {
        let command = "annals housekeeping --free migrated";
        output.line(format!(
            "{} are copies of what the database has: {}",
            bytes(migrated),
            paint.code(command)
        ))?;
    }
    output.finish()?;
    for (place, why) in &survey.failed {
        context.warn(&format!("{}: {}", one_line(place), one_line(why)));
    }
    Ok(outcome)
}

fn store_space(store: &OpenedStore) -> wire::StoreSpace {
    wire::StoreSpace {
        path: store.annals.url().to_string(),
        bytes: store.annals.bytes(),
        index: store.annals.index_bytes().unwrap_or(0),
    }
}
