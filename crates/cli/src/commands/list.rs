//! `annals list`

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use annals::find::{self, SessionPage};
use annals::home::SessionRecord;
use annals::model::id::SessionId;
use annals::model::json::Node;
use annals::query::SessionQuery;
use annals::summarize::summarize;
use annals::summary::SessionSummary;
use annals::sync::Stage;
use annals::wire;
use clap::ValueEnum;

use crate::context::Context;
use crate::damage::report_damage;
use crate::error::{CommandResult, report_quarantine};
use crate::filters::Filters;
use crate::options::SortBy;
use crate::output::{Output, Painter};
use crate::project_names::ProjectNames;
use crate::short_id::ShortIds;
use crate::sign::{LEGEND, Sign};
use crate::table::{Column, Table, left, right};
use crate::text::{count, cut, dollars, grouped, one_line, short_number, shown_title, width};

/// List sessions, the last used first
///
/// Sessions that another session started (subagents) are folded into it; `--all` lists them too. `--json` always lists all.
#[derive(Debug, clap::Args)]
#[command(after_help = format!("\
Examples:
  annals list                       all sessions
  annals list --project .           what was asked in this repository
  annals list --since 7d --sort cost
  annals list --status open         what has not ended
  annals list --gone                what OpenCode has deleted
  annals list --json | jq -r '.[].title'

{LEGEND}"))]
pub(crate) struct ListArgs {
    #[command(flatten)]
    filters: Filters,
    /// Also list sessions that another session started
    #[arg(short, long, conflicts_with = "roots")]
    all: bool,
    /// Sort order
    #[arg(long, value_enum, default_value_t = SortBy::Updated, value_name = "KEY")]
    sort: SortBy,
    /// Show at most N sessions
    #[arg(short = 'n', long, value_name = "N")]
    limit: Option<usize>,
    /// Show these columns: id, updated, created, project, directory, messages, tokens, cost, model, agent, status, version, title
    #[arg(long, value_enum, value_name = "NAMES", value_delimiter = ',')]
    columns: Vec<ColumnName>,
}

/// A column of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ColumnName {
    Id,
    Updated,
    Created,
    Project,
    Directory,
    #[value(alias = "msgs")]
    Messages,
    Tokens,
    Cost,
    Model,
    Agent,
    Status,
    Version,
    Title,
}

impl ListArgs {
    /// All sessions, the last used first.
    pub(crate) fn all() -> ListArgs {
        ListArgs {
            filters: Filters::default(),
            all: false,
            sort: SortBy::Updated,
            limit: None,
            columns: Vec::new(),
        }
    }
}

pub(crate) fn run(context: &Context, args: &ListArgs) -> CommandResult {
    let homes = context.open(Stage::Messages)?;
    let home = homes.read();
    let query = context.query(&home, &args.filters)?;
    let found = context.sessions(&home, &SessionQuery::default())?;
    let n_all = found.value.len();
    let short_ids = ShortIds::of(&found.value);
    let children = children(&found.value);
    let is_folding = !args.all && !context.json && !query.roots;
    let progress = context.progress(0, "reading sessions");
    if query.asks_for_messages() {
        progress.expect(found.value.iter().filter(|record| query.admits(record)).count());
    }
    let SessionPage { sessions: mut records, summaries, mut quarantined, .. } =
        find::sessions_among(&home, found, &query, &|| progress.advance())?;
    let folded = if is_folding { folded(&records) } else { HashSet::new() };
    records.retain(|record| !folded.contains(&record.id));
    let mut sessions = summaries;
    sessions.retain(|session| !folded.contains(&session.id));
    let (total, n_folded) = (records.len(), folded.len());
    if !query.asks_for_messages() {
        // An order by the session documents alone needs no message to be read.
        if args.sort == SortBy::Created {
            records.sort_by_cached_key(|record| Reverse(record.info.created()));
        }
        if matches!(args.sort, SortBy::Created | SortBy::Updated) {
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
        let tally = tally(sessions.len(), total, n_all - n_folded, n_folded);
        let names = ProjectNames::of(&home);
        let n_children = |id: &str| if is_folding { children.get(id).map_or(0, Vec::len) } else { 0 };
        let list = List { context, names: &names, short_ids: &short_ids, n_children: &n_children };
        list.print(&mut output, &sessions, &args.columns)?;
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

/// The sessions among these that are folded into the one that started them. Where that one is not among them, nothing would stand for them.
fn folded(records: &[SessionRecord]) -> HashSet<SessionId> {
    let parents: HashMap<SessionId, Option<SessionId>> =
        records.iter().map(|record| (record.id.clone(), record.info.parent())).collect();
    let parent_of = |id: &SessionId| parents.get(id)?.as_ref().filter(|parent| parents.contains_key(parent));
    // Damaged sessions may name each other as parents; then neither is folded.
    let ends = |id: &SessionId| {
        std::iter::successors(parent_of(id), |parent| parent_of(parent)).take(records.len()).count()
            < records.len()
    };
    let is_folded = |id: &&SessionId| parent_of(id).is_some() && ends(id);
    records.iter().map(|record| &record.id).filter(is_folded).cloned().collect()
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

/// `12 of 121 sessions`, how many more there would be without the limit, and how many are folded.
fn tally(n_shown: usize, n_admitted: usize, n_all: usize, n_folded: usize) -> String {
    let all = count(n_all, "session");
    let shown = match (n_shown == n_admitted, n_admitted == n_all) {
        (true, true) => all,
        (true, false) => format!("{n_admitted} of {all}"),
        (false, true) => format!("{n_shown} of {all}"),
        (false, false) => format!("{n_shown} of {n_admitted} that match, of {all}"),
    };
    match n_folded {
        0 => shown,
        n => format!("{shown}, and {} that they started (`--all`)", grouped(n)),
    }
}

/// A list of sessions for people.
struct List<'l> {
    context: &'l Context,
    names: &'l ProjectNames,
    short_ids: &'l ShortIds,
    /// The number of sessions that are folded into one.
    n_children: &'l dyn Fn(&str) -> usize,
}

impl List<'_> {
    fn print(
        &self,
        output: &mut Output,
        sessions: &[SessionSummary],
        wanted: &[ColumnName],
    ) -> std::io::Result<()> {
        if sessions.is_empty() {
            return Ok(());
        }
        let is_default = wanted.is_empty();
        let names = match is_default {
            true => self.default_columns(sessions),
            // The title takes the rest of the line.
            false => wanted.iter().copied().filter(|name| *name != ColumnName::Title).collect(),
        };
        let has_title = is_default || wanted.contains(&ColumnName::Title);
        let columns: Vec<Column> = names
            .iter()
            .map(|name| {
                let column = self.column(*name, sessions);
                if is_default { column } else { column.gives_way(0) }
            })
            .collect();
        // The title is what sessions are recognised by: other columns give way before it is cut to less than this.
        let for_title = if has_title { (output.columns / 9).saturating_mul(4) } else { 0 };
        let table = Table::new(output.paint, columns).fitting(output.columns, for_title.min(60));
        let room = table.room(output.columns);
        table.header(output, if has_title { "TITLE" } else { "" })?;
        for session in sessions {
            let cells = names.iter().map(|name| self.cell(*name, session));
            let title = if has_title { self.title(output.paint, session, room) } else { String::new() };
            output.line(table.row(cells, title))?;
        }
        Ok(())
    }

    /// The columns that tell something about these sessions.
    fn default_columns(&self, sessions: &[SessionSummary]) -> Vec<ColumnName> {
        use ColumnName::{Cost, Id, Messages, Project, Tokens, Updated};
        let project = |session: &SessionSummary| self.cell(Project, session);
        let first = sessions.first().map(project);
        let is_one_project = sessions.iter().all(|session| Some(project(session)) == first);
        let names = [Id, Updated, Project, Messages, Tokens, Cost];
        names.into_iter().filter(|name| *name != Project || !is_one_project).collect()
    }

    fn column(&self, name: ColumnName, sessions: &[SessionSummary]) -> Column {
        let widest = |least: usize, most: usize| {
            let widths = sessions.iter().map(|session| width(&self.cell(name, session)));
            widths.max().unwrap_or(0).clamp(least, most)
        };
        match name {
            ColumnName::Id => {
                left("ID", self.short_ids.width(sessions.iter().map(|session| session.id.as_str())).max(2))
                    .style(Painter::id)
            }
            ColumnName::Updated => left("UPDATED", widest(7, 12)).gives_way(1),
            ColumnName::Created => left("CREATED", widest(7, 12)),
            ColumnName::Project => left("PROJECT", widest(7, 14)).style(Painter::agent).gives_way(3),
            ColumnName::Directory => left("DIRECTORY", widest(9, 60)),
            ColumnName::Messages => right("MSGS", 4).gives_way(4),
            ColumnName::Tokens => right("TOKENS", 6).gives_way(5),
            ColumnName::Cost => right("COST", 8).style(Painter::warn).gives_way(2),
            ColumnName::Model => left("MODEL", widest(5, 40)),
            ColumnName::Agent => left("AGENT", widest(5, 20)).style(Painter::agent),
            ColumnName::Status => left("STATUS", 6),
            ColumnName::Version => left("VERSION", widest(7, 16)),
            ColumnName::Title => left("TITLE", widest(5, 80)),
        }
    }

    fn cell(&self, name: ColumnName, session: &SessionSummary) -> String {
        let when = |time: Option<i64>| time.map_or("-".to_owned(), |time| self.context.clock.when(time));
        match name {
            ColumnName::Id => self.short_ids.shorten(session.id.as_str()).to_owned(),
            ColumnName::Updated => when(session.updated),
            ColumnName::Created => when(session.created),
            ColumnName::Project => self.names.short(&session.project, session.directory.as_deref()),
            ColumnName::Directory => one_line(session.directory.as_deref().unwrap_or("-")),
            ColumnName::Messages => session.messages.to_string(),
            ColumnName::Tokens => short_number(session.usage.total_tokens()),
            ColumnName::Cost => dollars(session.usage.cost),
            ColumnName::Model => one_line(&session.models.join(", ")),
            ColumnName::Agent => one_line(&session.agents.join(", ")),
            ColumnName::Status => wire::status(session.state).to_owned(),
            ColumnName::Version => one_line(session.version.as_deref().unwrap_or("-")),
            ColumnName::Title => one_line(&session.title),
        }
    }

    /// The title with its sign before it and its marks behind it. The title gives way, the rest stays whole.
    fn title(&self, paint: Painter, session: &SessionSummary, room: usize) -> String {
        let sign = Sign::of(session, self.context.clock.now);
        let mark = match (session.gone.is_some(), session.archived.is_some()) {
            (true, _) => " [gone]",
            (_, true) => " [archived]",
            _ => "",
        };
        let n_children = (self.n_children)(session.id.as_str());
        let folded = if n_children > 0 { format!(" ↳{n_children}") } else { String::new() };
        let lead = if session.parent.is_some() { "↳ " } else { "" };
        let sign = match sign {
            Sign::Done | Sign::Empty => String::new(),
            sign => format!("{} ", sign.painted(paint)),
        };
        let taken = if sign.is_empty() { 0 } else { 2 } + width(lead) + width(mark) + width(&folded);
        let title = shown_title(&session.title);
        let title = cut(&title, room.saturating_sub(taken));
        let title = match session.archived.is_some() || session.parent.is_some() || session.gone.is_some() {
            true => paint.dim(format!("{lead}{title}")),
            false => title.into_owned(),
        };
        format!("{sign}{title}{}{}", paint.dim(folded), paint.dim(mark))
    }
}
