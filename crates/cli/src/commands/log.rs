//! `annals log`

use std::collections::HashMap;

use annals::HomeUrl;
use annals::family::{Descent, Family, Forks};
use annals::history::{LogQuery, Revision};
use annals::model::id::{Millis, SessionId};
use annals::ops::{OperationQuery, OperationState};
use annals::query::SessionQuery;
use annals::store::Store;
use annals::sync::Stage;
use annals::wire;

use crate::context::Context;
use crate::error::{CliError, CommandResult, Outcome, report_quarantine};
use crate::moment::{known_session, title};
use crate::output::{Output, Painter};
use crate::short_id::ShortIds;
use crate::table::{Table, left, right};
use crate::text::{count, cut, grouped, one_line, width};
use crate::time_arg::parse_time;

/// List what was done: operations, or the revisions of the store
///
/// An operation is a command that changed something: rename, archive, rm, import, copy, restore, fork, revert, unrevert,
/// compact, todo --set, forget, undo. `annals undo` takes its number. A revision is one commit of the store, made by an operation or by a sync; `annals show --at`, `annals diff`
/// and `annals restore --at` take its number. `--graph` shows instead where a session comes from, and what came of it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  annals log -n 10                  the last ten operations
  annals log last                   what was done to one session
  annals log --revisions last       every revision of it
  annals log --graph last           what it is a fork of, and what it started
  annals log --since yesterday --json | jq '.[].words'")]
pub(crate) struct LogArgs {
    /// List revisions of the store instead of operations
    #[arg(short, long)]
    revisions: bool,
    /// Show the ancestry of a session: its parents, its origin if it is a fork, and what came of it
    #[arg(short, long, requires = "session", conflicts_with_all = ["revisions", "since", "until", "limit"])]
    graph: bool,
    /// Only what touched this session: an id, the beginning of one, `last`, or a piece of the title
    session: Option<String>,
    /// Only at or after this time: 2026-02-01, 2026-02-01T10:00, 2026-02, 7d, 12h, today, monday, "last week"
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Only before this time
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Show at most N entries
    #[arg(short = 'n', long, value_name = "N")]
    limit: Option<usize>,
}

pub(crate) fn run(context: &Context, args: &LogArgs) -> CommandResult {
    let time =
        |text: &Option<String>| text.as_deref().map(|text| parse_time(text, &context.clock)).transpose();
    let (since, until) = (time(&args.since)?, time(&args.until)?);
    let store = context.open_store(Stage::Parts, "keeps no history")?;
    let store = &*store.annals;
    if let (true, Some(wanted)) = (args.graph, &args.session) {
        return graph(context, store, wanted);
    }
    let session = args.session.as_deref().map(|wanted| known_session(context, store, wanted)).transpose()?;
    let session = session.map(|known| known.id);
    if !args.revisions {
        let query = OperationQuery { session, since, until, limit: args.limit, after: None };
        return operations(context, store, &query);
    }
    let query = LogQuery { session: session.clone(), since, until, limit: args.limit, ..LogQuery::default() };
    let revisions = store.log(&query)?;
    if context.json {
        let mut output = context.plain_output();
        output.json_array(revisions.iter().map(wire::Revision::from))?;
        output.finish()?;
        return Ok(Outcome::Done);
    }
    let mut output = context.paged_output();
    print(&mut output, context, store, &revisions, session.as_ref())?;
    let (is_terminal, paint) = (output.is_terminal, output.paint);
    let tally = match is_by_number(&revisions) {
        true => count(revisions.len(), "revision"),
        false => format!(
            "{}, the latest first; a revision that was found later has a higher number, even if its time is earlier",
            count(revisions.len(), "revision")
        ),
    };
    if is_terminal {
        output.line(paint.dim(&tally))?;
    }
    output.finish()?;
    if !is_terminal {
        context.note(&tally);
    }
    Ok(Outcome::Done)
}

/// Shows the ancestry of a session, the oldest first.
fn graph(context: &Context, store: &dyn Store, wanted: &str) -> CommandResult {
    let session = context.session(store, wanted)?;
    let all = store.sessions(&SessionQuery::default())?;
    let forks = Forks::among(store, &all.value)?;
    let family = Family::of(&all.value);
    let relatives = family.ancestry(&forks, &session.id);
    if context.json {
        let mut output = context.plain_output();
        output.json_array(relatives.iter().map(wire::Relative::from))?;
        output.finish()?;
        return Ok(report_quarantine(&all.quarantined, context.stderr_paint()));
    }
    let short_ids = ShortIds::of(&all.value);
    let mut output = context.paged_output();
    let paint = output.paint;
    for relative in &relatives {
        let record = relative.record;
        let is_meant = record.id == session.id;
        let lead = match relative.depth {
            0 => String::new(),
            depth => format!("{}└─ ", "   ".repeat(depth.min(20) - 1)),
        };
        let sign = if is_meant { paint.good("●") } else { paint.dim("○") };
        let descent = match &relative.descent {
            Descent::Opened => String::new(),
            Descent::StartedBy(_) => "started".to_owned(),
            Descent::ForkOf(origin) => format!("fork after {}", count(origin.messages, "message")),
        };
        let when = record.info.created().map(|time| context.clock.date_time(time)).unwrap_or_default();
        let short = short_ids.shorten(record.id.as_str());
        let taken = width(&lead) + width(short) + width(&when) + width(&descent) + 10;
        let title = title(record);
        let title = cut(&title, output.width.saturating_sub(taken).max(12));
        output.line(format!(
            "{}{sign} {}  {}  {}  {}",
            paint.dim(&lead),
            paint.id(short),
            paint.dim(when),
            if is_meant { paint.bold(&*title) } else { title.into_owned() },
            paint.warn(descent),
        ))?;
    }
    output.finish()?;
    Ok(report_quarantine(&all.quarantined, context.stderr_paint()))
}

/// Lists operations, the latest first.
fn operations(context: &Context, store: &dyn Store, query: &OperationQuery) -> CommandResult {
    let operations = store.operations(query)?;
    if context.json {
        let mut output = context.plain_output();
        output.json_array(operations.iter().map(wire::Operation::from))?;
        output.finish()?;
        return Ok(Outcome::Done);
    }
    if operations.is_empty() {
        context.note("no operations; `annals log --revisions` lists what sync found");
        return Ok(Outcome::Done);
    }
    let mut output = context.paged_output();
    let paint = output.paint;
    let numbers = operations.iter().map(|operation| operation.number.to_string().len()).max().unwrap_or(0);
    let table = Table::new(paint, [right("", numbers).style(Painter::id), left("", 16).style(Painter::dim)]);
    for operation in &operations {
        let mark = match (operation.undone_by, operation.state) {
            (Some(by), _) => format!("undone by {by}"),
            (None, OperationState::Partial) => "cut short".to_owned(),
            (None, OperationState::Underway) => "running".to_owned(),
            _ => String::new(),
        };
        let words = one_line(&operation.words);
        let words = cut(&words, table.room(output.width).saturating_sub(width(&mark) + 2));
        let cells = [operation.number.to_string(), context.clock.date_time(operation.time)];
        output.line(table.row(cells, format_args!("{words}  {}", paint.warn(mark))))?;
        for place in &operation.places {
            let place = cut(place, output.width.saturating_sub(numbers + 5)).into_owned();
            output.line(format!("{}  {}", " ".repeat(numbers), paint.dim(format!("in {place}"))))?;
        }
    }
    output.finish()?;
    Ok(Outcome::Done)
}

fn print(
    output: &mut Output,
    context: &Context,
    store: &dyn Store,
    revisions: &[Revision],
    session: Option<&SessionId>,
) -> Result<(), CliError> {
    let paint = output.paint;
    let mut titles: HashMap<SessionId, String> = HashMap::new();
    let sums = |revision: &Revision| {
        let wanted = revision
            .touched
            .iter()
            .filter(|touched| session.is_none_or(|id| touched.session.as_ref() == Some(id)));
        wanted.fold((0, 0), |(written, deleted), touched| {
            (written + touched.written, deleted + touched.deleted)
        })
    };
    let signed = |sign: &str, n: usize| if n > 0 { format!("{sign}{}", grouped(n)) } else { String::new() };
    let rows: Vec<(String, String, String)> = revisions
        .iter()
        .map(|revision| {
            let (written, deleted) = sums(revision);
            (revision.number.to_string(), signed("+", written), signed("−", deleted))
        })
        .collect();
    let widest =
        |column: fn(&(String, String, String)) -> &String| rows.iter().map(|row| width(column(row))).max();
    let (numbers, plus, minus) = (
        widest(|row| &row.0).unwrap_or(0),
        widest(|row| &row.1).unwrap_or(0),
        widest(|row| &row.2).unwrap_or(0),
    );
    // Where the numbers are out of order, seconds show the order.
    let by_number = is_by_number(revisions);
    let when = |time: Millis| match by_number {
        true => context.clock.date_time(time),
        false => format!("{} {}", context.clock.date(time), context.clock.time(time)),
    };
    let columns = [
        right("", numbers).style(Painter::id),
        left("", if by_number { 16 } else { 19 }).style(Painter::dim),
        right("", plus).style(Painter::good).close(),
        left("", minus).style(Painter::bad),
    ];
    let table = Table::new(paint, columns);
    let room = table.room(output.width);
    for (revision, (number, written, deleted)) in revisions.iter().zip(&rows) {
        let reason = match &revision.home {
            Some(home) => format!("{} · {}", one_line(&revision.reason), short_name(home)),
            None => one_line(&revision.reason),
        };
        // For a single session every line would say the same.
        let about = match session {
            Some(_) => String::new(),
            None => about(store, revision, &mut titles)?,
        };
        let reason = cut(&reason, room);
        let about = cut(&about, room.saturating_sub(width(&reason) + 2));
        let about = paint.dim(if width(&about) > 1 { &about } else { "" });
        let cells = [number, &when(revision.time), written, deleted];
        output.line(table.row(cells, format_args!("{reason}  {about}")))?;
    }
    Ok(())
}

/// Whether revisions in order of time are also in order of their numbers.
fn is_by_number(revisions: &[Revision]) -> bool {
    revisions.is_sorted_by(|later, earlier| later.number > earlier.number)
}

/// The subject of a revision: a session by its title, or the number of sessions.
fn about(
    store: &dyn Store,
    revision: &Revision,
    titles: &mut HashMap<SessionId, String>,
) -> Result<String, CliError> {
    let touched: Vec<&SessionId> =
        revision.touched.iter().filter_map(|touched| touched.session.as_ref()).collect();
    match touched[..] {
        [] => Ok("projects".to_owned()),
        [one] => {
            if let Some(known) = titles.get(one) {
                return Ok(known.clone());
            }
            let named = match store.session(one)? {
                Some(record) => title(&record),
                None => one.to_string(),
            };
            titles.insert(one.clone(), named.clone());
            Ok(named)
        }
        _ => Ok(count(touched.len(), "session")),
    }
}

/// The name of a home, short: the user has few of them.
fn short_name(home: &str) -> String {
    let url = HomeUrl::of_stored(home);
    let Some(path) = url.path() else { return one_line(&url.to_string()) };
    let name = path.file_name().map(|name| one_line(&name.to_string_lossy())).unwrap_or_default();
    let is_database = path.extension().is_some_and(|extension| extension == "db");
    if is_database { name } else { format!("{name}/") }
}
