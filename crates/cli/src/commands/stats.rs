//! `annals stats`

use std::collections::BTreeMap;

use annals::home::SessionRecord;
use annals::model::usage::ToolUse;
use annals::stats::{Counting, DAY, Group, Share, Stats, StatsKey, StatsWindow, collect};
use annals::sync::Stage;
use annals::wire;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use crate::context::Context;
use crate::error::{CliError, CommandResult, report_quarantine};
use crate::filters::Filters;
use crate::output::{Output, Painter};
use crate::project_names::ProjectNames;
use crate::short_id::ShortIds;
use crate::table::{Column, Table, left, right};
use crate::text::{count, dollars, duration, fit, grouped, one_line, short_number, width, wrap};
use crate::time_arg::parse_time;

/// Add up sessions, tokens, cost and tool calls
///
/// What an answer used counts at the time of the answer, not when its session was last used. Without a window of time, the totals are those
/// that `opencode stats` prints.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  annals stats                          everything
  annals stats --since monday --by day  this week, day by day
  annals stats --since 2026-02 --until 2026-03 --by model
  annals stats --by month --by model    each month, by model
  annals stats --project . --by session -n 10
  annals stats --tools                  every tool, with failures and durations")]
pub(crate) struct StatsArgs {
    /// Only what was used in the last N days; 0 is today
    #[arg(long, value_name = "N", conflicts_with_all = ["since", "until"])]
    days: Option<u32>,
    /// Only what was used at or after this time: 2026-02-01, 2026-02, 7d, 12h, today, monday, \"last week\"
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Only what was used before this time
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Only sessions of this project: an id, a directory (`.` for here), or a piece of its name
    #[arg(long, value_name = "PROJECT")]
    project: Option<String>,
    /// Only sessions opened in this directory or below it
    #[arg(long, value_name = "DIR")]
    dir: Option<String>,
    /// Only answers of this agent
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,
    /// Only answers of this model: `provider/model`, or a piece of it
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// Break the numbers down by this key; give it twice to break them down by two
    #[arg(long, value_parser = key_parser(), value_name = "KEY", value_delimiter = ',')]
    by: Vec<StatsKey>,
    /// Show at most N rows of a breakdown
    #[arg(short = 'n', long, value_name = "N")]
    limit: Option<usize>,
    /// Leave out answers that a fork copied from another session
    #[arg(long)]
    no_copies: bool,
    /// Show every tool, with failures and durations
    #[arg(long)]
    tools: bool,
}

/// Parses a key of a breakdown by its name.
fn key_parser() -> impl TypedValueParser<Value = StatsKey> {
    let named = |name: String| StatsKey::ALL.into_iter().find(|key| key.name() == name);
    PossibleValuesParser::new(StatsKey::ALL.map(StatsKey::name))
        .try_map(move |name| named(name).ok_or("no such key"))
}

pub(crate) fn run(context: &Context, args: &StatsArgs) -> CommandResult {
    let keys = &args.by[..];
    if keys.len() > 2 || (keys.len() == 2 && keys[0] == keys[1]) {
        return Err(CliError::usage("numbers can be broken down by one key or by two different keys"));
    }
    let window = window(context, args)?;
    let homes = context.open(Stage::Calls)?;
    let home = homes.read();
    let filters = Filters { project: args.project.clone(), dir: args.dir.clone(), ..Filters::default() };
    let query = context.query(&home, &filters)?;
    let found = context.sessions(&home, &query)?;
    let mut quarantined = found.quarantined;
    let progress = context.progress(found.value.len(), "counting sessions");
    let titles = keys.contains(&StatsKey::Session).then(|| titles(&found.value));
    let range = window.since.unwrap_or(i64::MIN)..window.until.unwrap_or(i64::MAX);
    let counting = Counting {
        window: (window.since.is_some() || window.until.is_some()).then_some(&range),
        without_copies: args.no_copies,
        model: args.model.as_deref(),
        agent: args.agent.as_deref(),
        keys,
        period_of: &|key, time| match key {
            StatsKey::Month => context.clock.month(time),
            StatsKey::Week => context.clock.week(time),
            _ => context.clock.date(time),
        },
        day_of: &|time| context.clock.day(time),
        progress: &|| progress.advance(),
    };
    let mut counted = collect(&home, found.value, counting)?;
    drop(progress);
    quarantined.append(&mut counted.quarantined);
    let stats = counted.value;
    if context.json {
        let mut output = context.plain_output();
        output.json(&wire::Stats::of(&stats, window, keys, |day| context.clock.date_of_day(day)))?;
        output.finish()?;
    } else {
        let names = Names { projects: ProjectNames::of(&home), titles: titles.unwrap_or_default() };
        let mut output = context.paged_output();
        match keys[..] {
            [] => print_overview(&mut output, context, &stats, window, args.tools)?,
            [StatsKey::Tool] => print_tools(&mut output, &stats, args.limit.unwrap_or(usize::MAX))?,
            _ => print_groups(&mut output, &stats, keys, &names, args.limit)?,
        }
        output.finish()?;
    }
    Ok(report_quarantine(&quarantined, context.stderr_paint()))
}

/// The window of time that the arguments ask for.
fn window(context: &Context, args: &StatsArgs) -> Result<StatsWindow, CliError> {
    let clock = &context.clock;
    if let Some(days) = args.days {
        let since = match days {
            0 => clock.midnight(0),
            days => clock.now - i64::from(days) * DAY,
        };
        return Ok(StatsWindow { since: Some(since), until: None, days: Some(i64::from(days.max(1))) });
    }
    let time = |text: &Option<String>| text.as_ref().map(|text| parse_time(text, clock)).transpose();
    let (since, until) = (time(&args.since)?, time(&args.until)?);
    let days = since.map(|since| {
        let end = until.unwrap_or(clock.now).max(since);
        (clock.day((end - 1).max(since)) - clock.day(since) + 1).max(1)
    });
    Ok(StatsWindow { since, until, days })
}

/// Names of projects and sessions, by their ids.
struct Names {
    projects: ProjectNames,
    titles: BTreeMap<String, String>,
}

impl Names {
    fn of(&self, key: StatsKey, value: &str) -> String {
        match key {
            StatsKey::Project => one_line(&self.projects.path(value)),
            StatsKey::Session => one_line(self.titles.get(value).map_or(value, String::as_str)),
            _ => one_line(value),
        }
    }
}

/// Titles of sessions by their ids, each after a short form of the id.
fn titles(sessions: &[SessionRecord]) -> BTreeMap<String, String> {
    let short_ids = ShortIds::of(sessions);
    let titled = |record: &SessionRecord| {
        let id = record.id.as_str();
        (id.to_owned(), format!("{}  {}", short_ids.shorten(id), one_line(record.info.title())))
    };
    sessions.iter().map(titled).collect()
}

fn by_cost(shares: &BTreeMap<String, Share>) -> Vec<(String, Share)> {
    let mut shares: Vec<_> = shares.iter().map(|(name, share)| (name.clone(), *share)).collect();
    shares.sort_by(|(_, a), (_, b)| {
        b.usage.cost.total_cmp(&a.usage.cost).then(b.usage.total_tokens().total_cmp(&a.usage.total_tokens()))
    });
    shares
}

fn print_overview(
    output: &mut Output,
    context: &Context,
    stats: &Stats,
    window: StatsWindow,
    all_tools: bool,
) -> std::io::Result<()> {
    let paint = output.paint;
    let days = stats.days_spanned(window.days);
    let usage = &stats.usage;
    let columns = output.width;
    let mut row = |label: &str, main: String, rest: String| {
        // The figure stands out; its explanation may take a second line.
        let indent = 11 + width(&main) + 2;
        for (n, line) in wrap(&rest, columns.saturating_sub(indent)).iter().enumerate() {
            match n {
                0 => output.line(format!("{}  {}  {line}", paint.dim(fit(label, 9)), paint.bold(&main)))?,
                _ => output.line(format!("{:indent$}{line}", ""))?,
            }
        }
        Ok::<(), std::io::Error>(())
    };
    row(
        "Sessions",
        grouped(stats.sessions),
        format!(
            "with {} and {}, over {}",
            count(stats.messages, "message"),
            count(stats.parts, "part"),
            count(usize::try_from(days).unwrap_or(0), "day")
        ),
    )?;
    row("Cost", dollars(usage.cost), format!("{} a day", dollars(usage.cost / days.max(1) as f64)))?;
    row(
        "Tokens",
        short_number(usage.total_tokens()),
        format!(
            "{} in · {} out · {} reasoning · {} cache read · {} cache written",
            short_number(usage.input),
            short_number(usage.output),
            short_number(usage.reasoning),
            short_number(usage.cache_read),
            short_number(usage.cache_write),
        ),
    )?;
    row(
        "A session",
        short_number(stats.mean_session_tokens()),
        format!("tokens on average, {} median", short_number(stats.median_session_tokens())),
    )?;
    if stats.copies.usage.cost > 0.0 {
        let copied = format!("of that in {} that forks copied", count(stats.copies.messages, "answer"));
        row("Copied", dollars(stats.copies.usage.cost), copied)?;
    }
    if stats.days.len() > 1 {
        let line = sparkline(stats, output.width.saturating_sub(34).clamp(6, 60));
        let (first, last) = (stats.days.keys().next(), stats.days.keys().last());
        let date = |day: Option<&i64>| day.map(|day| context.clock.date_of_day(*day)).unwrap_or_default();
        let label = paint.dim(fit("Daily", 9));
        output.line(format!("{label}  {} {} {}", date(first), paint.good(line), date(last)))?;
    }
    if stats.sessions == 0 {
        return Ok(());
    }
    output.line("")?;
    print_models(output, stats)?;
    if !stats.tools.is_empty() {
        output.line("")?;
        print_tools(output, stats, if all_tools { usize::MAX } else { 8 })?;
    }
    Ok(())
}

/// Cost day by day, as bars one character wide; several days share one where there are too many.
fn sparkline(stats: &Stats, columns: usize) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let (Some((&first, _)), Some((&last, _))) = (stats.days.first_key_value(), stats.days.last_key_value())
    else {
        return String::new();
    };
    let days = last.saturating_sub(first).saturating_add(1);
    let per_bar = (days / columns as i64 + 1).max(1);
    let mut bars = vec![0.0; usize::try_from(days / per_bar + 1).unwrap_or(1).min(columns)];
    for (day, share) in &stats.days {
        let bar = usize::try_from((day - first) / per_bar).unwrap_or(0).min(bars.len() - 1);
        bars[bar] += share.usage.cost.max(share.usage.total_tokens() * 1e-12);
    }
    let highest = bars.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    let bar_for = |value: &f64| match *value {
        0.0 => ' ',
        value => BARS[((value / highest * 7.0).round() as usize).min(7)],
    };
    bars.iter().map(bar_for).collect::<String>().trim_end().to_owned()
}

/// A row of a breakdown.
struct GroupRow {
    names: Vec<String>,
    share: Share,
    uses: ToolUse,
}

fn print_models(output: &mut Output, stats: &Stats) -> std::io::Result<()> {
    let row =
        |(name, share): (String, Share)| GroupRow { names: vec![name], share, uses: ToolUse::default() };
    let rows: Vec<GroupRow> = by_cost(&stats.models).into_iter().map(row).collect();
    print_rows(output, &["MODEL"], &rows, None, false)
}

fn print_groups(
    output: &mut Output,
    stats: &Stats,
    keys: &[StatsKey],
    names: &Names,
    limit: Option<usize>,
) -> std::io::Result<()> {
    let mut groups: Vec<_> = stats.groups.iter().collect();
    let by_size = |a: &Group, b: &Group| {
        let (a_tokens, b_tokens) = (a.share.usage.total_tokens(), b.share.usage.total_tokens());
        let by_cost = b.share.usage.cost.total_cmp(&a.share.usage.cost);
        by_cost.then(b_tokens.total_cmp(&a_tokens)).then(b.uses.calls.cmp(&a.uses.calls))
    };
    // Periods stay in their order; everything else begins with what costs most.
    groups.sort_by(|(a_keys, a), (b_keys, b)| match keys[0].is_time() {
        true => a_keys[0].cmp(&b_keys[0]).then(by_size(a, b)),
        false => by_size(a, b),
    });
    let row = |(values, group): (&Vec<String>, &Group)| GroupRow {
        names: keys.iter().zip(values).map(|(key, value)| names.of(*key, value)).collect(),
        share: group.share,
        uses: group.uses.clone(),
    };
    let mut rows: Vec<GroupRow> = groups.into_iter().map(row).collect();
    let n_left_out = rows.len().saturating_sub(limit.unwrap_or(usize::MAX));
    rows.truncate(rows.len() - n_left_out);
    let headings: Vec<String> = keys.iter().map(|key| key.name().to_uppercase()).collect();
    let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
    let is_by_tool = keys.contains(&StatsKey::Tool);
    // What the rows add up to. Sessions stand in several rows, so they are counted anew.
    let mut total = Share { sessions: stats.answers.sessions, ..stats.answers };
    if keys == [StatsKey::Session] {
        total.usage = stats.usage;
    }
    print_rows(output, &headings, &rows, Some(total).filter(|_| !is_by_tool), is_by_tool)?;
    if n_left_out > 0 {
        let line = format!("… {} more rows", grouped(n_left_out));
        output.line(output.paint.dim(line))?;
    }
    if !is_by_tool && (total.usage.cost - stats.usage.cost).abs() >= 0.00005 {
        let line = format!(
            "sessions record {} in all: OpenCode takes off what it used for parts that were removed since",
            dollars(stats.usage.cost)
        );
        for line in wrap(&line, output.width) {
            output.line(output.paint.dim(line))?;
        }
    }
    Ok(())
}

/// Prints a breakdown: a row for each group with a bar as long as its share, and what all of them add up to.
fn print_rows(
    output: &mut Output,
    headings: &[&str],
    rows: &[GroupRow],
    total: Option<Share>,
    is_by_tool: bool,
) -> std::io::Result<()> {
    let paint = output.paint;
    let mut figures = match is_by_tool {
        true => {
            vec![right("SESSIONS", 8).gives_way(2), right("CALLS", 7), right("FAILED", 7), right("MEDIAN", 7)]
        }
        false => vec![
            right("SESSIONS", 8).gives_way(3),
            right("ANSWERS", 8).gives_way(2),
            right("TOKENS", 7).gives_way(1),
            right("COST", 9).style(Painter::warn),
        ],
    };
    if headings == ["SESSION"] {
        figures[0] = right("SESSIONS", 8).hidden();
    }
    let mut columns: Vec<Column> = Vec::new();
    let room = output.width.saturating_sub(if output.width < 60 { 13 } else { 42 });
    for (heading, width) in headings.iter().zip(name_widths(headings, rows, room)) {
        columns.push(left(*heading, width));
    }
    columns.extend(figures);
    let table = Table::new(paint, columns).fitting(output.width, 0);
    // A bar of a few columns would make everything look alike.
    let bar_width = Some(table.room(output.width).min(24)).filter(|room| *room >= 6).unwrap_or(0);
    let size = |row: &GroupRow| if is_by_tool { row.uses.calls as f64 } else { row.share.usage.cost };
    let highest = rows.iter().map(size).fold(f64::MIN_POSITIVE, f64::max);
    table.header(output, "")?;
    let mut before: Option<&str> = None;
    for row in rows {
        // The first of two keys is said once for all rows that share it.
        let is_repeated = headings.len() > 1 && before == Some(row.names[0].as_str());
        let mut cells: Vec<String> = row.names.clone();
        if is_repeated {
            cells[0].clear();
        }
        before = Some(&row.names[0]);
        match is_by_tool {
            true => cells.extend([
                grouped(row.share.sessions),
                grouped(row.uses.calls),
                if row.uses.errors == 0 { "-".to_owned() } else { grouped(row.uses.errors) },
                row.uses.median_duration().map_or("-".to_owned(), |ms| duration(i64::from(ms))),
            ]),
            false => cells.extend(figures_of(&row.share)),
        }
        output.line(table.row(cells, paint.good(bar(size(row) / highest, bar_width))))?;
    }
    if let Some(total) = total.filter(|_| rows.len() > 1) {
        let mut cells = vec!["total".to_owned()];
        cells.resize(headings.len(), String::new());
        cells.extend(figures_of(&total));
        output.line(paint.bold(table.row(cells, "")))?;
    }
    Ok(())
}

/// Widths of the columns with names: as wide as the names are, but together no wider than `room`.
fn name_widths(headings: &[&str], rows: &[GroupRow], room: usize) -> Vec<usize> {
    let widest = |(n, heading): (usize, &&str)| {
        rows.iter().map(|row| width(&row.names[n])).max().unwrap_or(0).max(width(heading))
    };
    let mut widths: Vec<usize> = headings.iter().enumerate().map(widest).collect();
    while widths.iter().sum::<usize>() > room
        && let Some(widest) = widths.iter_mut().max().filter(|width| **width > 8)
    {
        *widest -= 1;
    }
    widths
}

fn figures_of(share: &Share) -> [String; 4] {
    [
        grouped(share.sessions),
        grouped(share.messages),
        short_number(share.usage.total_tokens()),
        dollars(share.usage.cost),
    ]
}

fn print_tools(output: &mut Output, stats: &Stats, limit: usize) -> std::io::Result<()> {
    let paint = output.paint;
    let mut tools: Vec<_> = stats.tools.iter().collect();
    tools.sort_by_key(|(name, uses)| (std::cmp::Reverse(uses.calls), (*name).clone()));
    let n_calls: usize = tools.iter().map(|(_, uses)| uses.calls).sum();
    let highest = tools.first().map_or(1, |(_, uses)| uses.calls).max(1);
    let widest = tools.iter().take(limit).map(|(name, _)| width(name)).max().unwrap_or(0);
    let name_width = widest.clamp(4, 24);
    let columns = [
        left("TOOL", name_width),
        right("CALLS", 7),
        right("SHARE", 6).gives_way(1),
        right("FAILED", 7).style(|paint, n| if n.ends_with('-') { paint.dim(n) } else { paint.bad(n) }),
        right("MEDIAN", 7),
    ];
    let table = Table::new(paint, columns).fitting(output.width, 0);
    let bar_width = Some(table.room(output.width).min(24)).filter(|room| *room >= 6).unwrap_or(0);
    table.header(output, "")?;
    for (name, uses) in tools.iter().take(limit) {
        let failed = if uses.errors == 0 { "-".to_owned() } else { grouped(uses.errors) };
        let median = uses.median_duration().map_or("-".to_owned(), |ms| duration(i64::from(ms)));
        let share = format!("{:.1}%", 100.0 * uses.calls as f64 / n_calls.max(1) as f64);
        let bar = bar(uses.calls as f64 / highest as f64, bar_width);
        let cells = [one_line(name), grouped(uses.calls), share, failed, median];
        output.line(table.row(cells, paint.good(bar)))?;
    }
    if tools.len() > limit {
        let rest: usize = tools.iter().skip(limit).map(|(_, uses)| uses.calls).sum();
        let line =
            format!("… {} more with {}; `--tools` shows them", tools.len() - limit, count(rest, "call"));
        for line in wrap(&line, output.width) {
            output.line(paint.dim(line))?;
        }
    }
    Ok(())
}

/// A bar of up to `columns`, in steps of an eighth, so that shares can be compared.
fn bar(share: f64, columns: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (share.clamp(0.0, 1.0) * columns as f64 * 8.0).round() as usize;
    // What is there at all is seen.
    let eighths = if share > 0.0 && columns > 0 { eighths.max(1) } else { 0 };
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_proportional() {
        assert_eq!(
            [1.0, 0.5, 0.25, 0.1, 0.001, 0.0].map(|share| bar(share, 4)),
            ["████", "██", "█", "▍", "▏", ""]
        );
    }
}
