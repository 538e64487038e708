//! `annals stats`

use std::collections::BTreeMap;

use annals::home::Read;
use annals::model::lens::Project;
use annals::stats::{Counting, DAY, Share, Stats, collect};
use annals::sync::Stage;
use annals::wire;
use clap::ValueEnum;

use crate::context::Context;
use crate::error::{CommandResult, report_quarantine};
use crate::options::Filters;
use crate::output::{Output, Painter};
use crate::table::{Table, left, right};
use crate::text::{count, dollars, duration, fit, grouped, one_line, short_number, width, wrap};

/// Add up sessions, tokens, cost and tool calls
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  annals stats                      everything
  annals stats --days 7 --by day    the last week, day by day
  annals stats --project . --by model
  annals stats --tools              every tool, with failures and durations")]
pub(crate) struct StatsArgs {
    /// Only sessions used in the last N days; 0 is today
    #[arg(long, value_name = "N")]
    days: Option<u32>,
    /// Only sessions of this project: an id, a directory (`.` for here), or a name
    #[arg(long, value_name = "PROJECT")]
    project: Option<String>,
    /// Break the numbers down by this key
    #[arg(long, value_enum, value_name = "KEY")]
    by: Option<GroupBy>,
    /// Show every tool, with failures and durations
    #[arg(long)]
    tools: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum GroupBy {
    Model,
    Day,
    Project,
    Agent,
    Tool,
}

pub(crate) fn run(context: &Context, args: &StatsArgs) -> CommandResult {
    let homes = context.open(Stage::Calls)?;
    let home = homes.read();
    let filters = Filters { project: args.project.clone(), ..Filters::default() };
    let mut query = context.query(&home, &filters)?;
    query.since = args.days.map(|days| match days {
        0 => context.clock.midnight(0),
        days => context.clock.now - i64::from(days) * DAY,
    });
    let found = context.sessions(&home, &query)?;
    let mut quarantined = found.quarantined;
    let progress = context.progress(found.value.len(), "counting sessions");
    let day_of = |millis| context.clock.day(millis);
    let counting = Counting { day_of: &day_of, progress: &|| progress.advance() };
    let mut counted = collect(&home, found.value, counting)?;
    drop(progress);
    quarantined.append(&mut counted.quarantined);
    let stats = counted.value;
    if context.json {
        let mut output = context.plain_output();
        output.json(&wire::Stats::of(&stats, args.days, |day| context.clock.date_of_day(day)))?;
        output.finish()?;
    } else {
        let names = project_names(&home);
        let mut output = context.paged_output();
        match args.by {
            None => print_overview(&mut output, context, &stats, args)?,
            Some(GroupBy::Tool) => print_tools(&mut output, &stats, usize::MAX)?,
            Some(GroupBy::Model) => print_shares(&mut output, "MODEL", &by_cost(&stats.models))?,
            Some(GroupBy::Agent) => print_shares(&mut output, "AGENT", &by_cost(&stats.agents))?,
            Some(GroupBy::Project) => {
                let named = stats.projects.iter().map(|(id, share)| {
                    (names.get(id.as_str()).cloned().unwrap_or_else(|| id.to_string()), *share)
                });
                print_shares(&mut output, "PROJECT", &by_cost(&named.collect()))?;
            }
            Some(GroupBy::Day) => {
                let days: Vec<_> =
                    stats.days.iter().map(|(day, share)| (context.clock.date_of_day(*day), *share)).collect();
                print_shares(&mut output, "DAY", &days)?;
            }
        }
        output.finish()?;
    }
    Ok(report_quarantine(&quarantined, context.stderr_paint()))
}

/// Projects by id, named by their working tree.
fn project_names(home: &dyn Read) -> BTreeMap<String, String> {
    let records = home.projects().map(|found| found.value).unwrap_or_default();
    let named = records.iter().filter_map(|record| {
        let project = record.document.lens::<Project<'_>>();
        let id = project.id?.to_string();
        let worktree = one_line(&project.worktree?.to_str());
        Some((id, if worktree == "/" { "(no repository)".to_owned() } else { worktree }))
    });
    named.collect()
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
    args: &StatsArgs,
) -> std::io::Result<()> {
    let paint = output.paint;
    let days = stats.days_spanned(args.days);
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
            "{} in · {} out · {} reasoning · {} from cache · {} to cache",
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
    if stats.days.len() > 1 {
        let line = sparkline(stats, output.width.saturating_sub(40).max(10));
        let (first, last) = (stats.days.keys().next(), stats.days.keys().last());
        let date = |day: Option<&i64>| day.map(|day| context.clock.date_of_day(*day)).unwrap_or_default();
        let label = paint.dim(fit("Daily", 9));
        output.line(format!("{label}  {} {} {}", date(first), paint.good(line), date(last)))?;
    }
    if stats.sessions == 0 {
        return Ok(());
    }
    output.line("")?;
    print_shares(output, "MODEL", &by_cost(&stats.models))?;
    if !stats.tools.is_empty() {
        output.line("")?;
        print_tools(output, stats, if args.tools { usize::MAX } else { 8 })?;
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

fn print_shares(output: &mut Output, what: &'static str, shares: &[(String, Share)]) -> std::io::Result<()> {
    let widest = shares.iter().map(|(name, _)| width(name)).max().unwrap_or(0).max(width(what));
    let name_width = widest.min(output.width.saturating_sub(46).max(12));
    let highest = shares.iter().map(|(_, share)| share.usage.cost).fold(f64::MIN_POSITIVE, f64::max);
    let columns = [
        left(what, name_width),
        right("SESSIONS", 8),
        right("ANSWERS", 8),
        right("TOKENS", 7),
        right("COST", 9).style(Painter::warn),
    ];
    let table = Table::new(output.paint, columns);
    let bar_width = table.room(output.width).min(24);
    table.header(output, "")?;
    for (name, share) in shares {
        let cells = [
            one_line(name),
            grouped(share.sessions),
            grouped(share.messages),
            short_number(share.usage.total_tokens()),
            dollars(share.usage.cost),
        ];
        let bar = bar(share.usage.cost / highest, bar_width);
        output.line(table.row(cells, output.paint.good(bar)))?;
    }
    Ok(())
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
        right("SHARE", 6),
        right("FAILED", 7).style(|paint, n| if n.ends_with('-') { paint.dim(n) } else { paint.bad(n) }),
        right("MEDIAN", 7),
    ];
    let table = Table::new(paint, columns);
    let bar_width = table.room(output.width).saturating_sub(7).min(24);
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
        output.line(paint.dim(line))?;
    }
    Ok(())
}

fn bar(share: f64, columns: usize) -> String {
    let filled = (share.clamp(0.0, 1.0) * columns as f64).round() as usize;
    "█".repeat(if share > 0.0 { filled.max(1) } else { 0 })
}
