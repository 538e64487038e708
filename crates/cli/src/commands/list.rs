//! `annals list`

use std::cmp::Reverse;
use std::collections::HashMap;

use annals::find::{self, SessionPage};
use annals::home::SessionRecord;
use annals::model::json::Node;
use annals::query::SessionQuery;
use annals::summarize::summarize;
use annals::summary::{SessionState, SessionSummary};
use annals::sync::Stage;
use annals::wire;

use crate::context::Context;
use crate::damage::report_damage;
use crate::error::{CommandResult, report_quarantine};
use crate::options::{Filters, SortBy};
use crate::output::{Output, Painter};
use crate::short_id::ShortIds;
use crate::table::{Table, left, right};
use crate::text::{count, cut, dollars, one_line, short_number, width};

/// List sessions, the last used first
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  annals list                       all sessions
  annals list --project . --roots   what was asked in this repository
  annals list --since 7d --sort cost
  annals list --json | jq -r '.[].title'")]
pub(crate) struct ListArgs {
    #[command(flatten)]
    filters: Filters,
    /// Sort order
    #[arg(long, value_enum, default_value_t = SortBy::Updated, value_name = "KEY")]
    sort: SortBy,
    /// Show at most N sessions
    #[arg(short = 'n', long, value_name = "N")]
    limit: Option<usize>,
}

impl ListArgs {
    /// All sessions, the last used first.
    pub(crate) fn all() -> ListArgs {
        ListArgs { filters: Filters::default(), sort: SortBy::Updated, limit: None }
    }
}

pub(crate) fn run(context: &Context, args: &ListArgs) -> CommandResult {
    let homes = context.open(Stage::Messages)?;
    let home = homes.read();
    let mut query = context.query(&home, &args.filters)?;
    if args.sort == SortBy::Updated {
        query.limit = args.limit;
    }
    let found = context.sessions(&home, &SessionQuery::default())?;
    let n_all = found.value.len();
    let short_ids = ShortIds::of(&found.value);
    let children = children(&found.value);
    let progress = context.progress(0, "reading sessions");
    if query.asks_for_messages() {
        progress.expect(found.value.iter().filter(|record| query.admits(record)).count());
    }
    let SessionPage { sessions: mut records, summaries, total, mut quarantined, .. } =
        find::sessions_among(&home, found, &query, &|| progress.advance())?;
    let mut sessions = summaries;
    if !query.asks_for_messages() {
        // An order by the session documents alone needs no message to be read.
        if args.sort == SortBy::Created {
            records.sort_by_cached_key(|record| Reverse(record.info.created()));
            records.truncate(args.limit.unwrap_or(usize::MAX));
        }
        progress.expect(records.len());
        let mut summaries = summarize(&home, &records, &|| progress.advance())?;
        quarantined.append(&mut summaries.quarantined);
        sessions = summaries.value;
    }
    drop(progress);
    match args.sort {
        SortBy::Updated => {}
        SortBy::Created => sessions.sort_by_key(|session| Reverse(session.created)),
        SortBy::Cost => sessions.sort_by(|a, b| b.usage.cost.total_cmp(&a.usage.cost)),
        SortBy::Tokens => sessions.sort_by(|a, b| b.usage.total_tokens().total_cmp(&a.usage.total_tokens())),
        SortBy::Messages => sessions.sort_by_key(|session| Reverse(session.messages)),
    }
    sessions.truncate(args.limit.unwrap_or(usize::MAX));
    if context.json {
        let rows = sessions.iter().map(|session| {
            let children = children.get(session.id.as_str()).map(Vec::as_slice).unwrap_or_default();
            wire::Session::of(session, children.iter().map(String::as_str).collect())
        });
        let mut output = context.plain_output();
        output.json_array(rows)?;
        output.finish()?;
    } else {
        let mut output = context.paged_output();
        let tally = tally(sessions.len(), total, n_all);
        print_table(&mut output, context, &sessions, short_ids)?;
        if output.is_terminal {
            let line = output.paint.dim(&tally);
            output.line(line)?;
            output.finish()?;
        } else {
            output.finish()?;
            context.note(&tally);
        }
    }
    let outcome = report_quarantine(&quarantined, context.stderr_paint());
    Ok(outcome.and(report_damage(context, &homes)?))
}

/// Child sessions by their parent, in the order given.
pub(crate) fn children(records: &[SessionRecord]) -> HashMap<String, Vec<String>> {
    let mut children: HashMap<String, Vec<String>> = HashMap::new();
    for record in records {
        let parent = record.stored.document.root().get("parentID").and_then(Node::as_text);
        if let Some(parent) = parent {
            children.entry(parent.to_string()).or_default().push(record.id.to_string());
        }
    }
    children
}

/// `12 of 121 sessions`, and how many more there would be without the limit.
fn tally(n_shown: usize, n_admitted: usize, n_all: usize) -> String {
    let all = count(n_all, "session");
    match (n_shown == n_admitted, n_admitted == n_all) {
        (true, true) => all,
        (true, false) => format!("{n_admitted} of {all}"),
        (false, true) => format!("{n_shown} of {all}"),
        (false, false) => format!("{n_shown} of {n_admitted} that match, of {all}"),
    }
}

fn print_table(
    output: &mut Output,
    context: &Context,
    sessions: &[SessionSummary],
    short_ids: ShortIds,
) -> std::io::Result<()> {
    let paint = output.paint;
    if sessions.is_empty() {
        return Ok(());
    }
    let id_width = short_ids.width().max(2);
    let table = Table::new(
        paint,
        [
            left("ID", id_width).style(Painter::id),
            left("UPDATED", 10),
            right("MSGS", 4),
            right("TOKENS", 6),
            right("COST", 8).style(Painter::warn),
        ],
    );
    let title_width = table.room(output.width);
    table.header(output, "TITLE")?;
    for session in sessions {
        let updated = session.updated.map_or("-".to_owned(), |updated| context.clock.ago(updated));
        let mut title = one_line(&session.title);
        if session.parent.is_some() {
            title = format!("↳ {title}");
        }
        let mark = mark(session);
        let title =
            cut(&title, title_width.saturating_sub(if mark.is_empty() { 0 } else { width(mark) + 1 }));
        let title = match (session.archived.is_some(), session.parent.is_some()) {
            (false, false) => title.into_owned(),
            _ => paint.dim(title),
        };
        let mark = match session.state {
            _ if mark.is_empty() => String::new(),
            _ if session.gone.is_some() => format!(" {}", paint.dim(mark)),
            SessionState::Failed => format!(" {}", paint.bad(mark)),
            _ => format!(" {}", paint.warn(mark)),
        };
        let cells = [
            short_ids.shorten(session.id.as_str()),
            &updated,
            &session.messages.to_string(),
            &short_number(session.usage.total_tokens()),
            &dollars(session.usage.cost),
        ];
        output.line(table.row(cells, format_args!("{title}{mark}")))?;
    }
    Ok(())
}

/// The mark that follows the title of a session.
fn mark(session: &SessionSummary) -> &'static str {
    match (session.archived.is_some(), session.state) {
        _ if session.gone.is_some() => "[source gone]",
        (true, _) => "[archived]",
        (false, SessionState::Failed) => "✗",
        (false, SessionState::Open) => "…",
        _ => "",
    }
}
