//! `annals tree`

use std::collections::{HashMap, HashSet};

use annals::family::{Descent, Family, Forks};
use annals::home::{Read, SessionRecord};
use annals::query::SessionQuery;
use annals::summarize::summarize;
use annals::summary::SessionSummary;
use annals::sync::Stage;
use annals::wire;

use crate::context::Context;
use crate::error::{CommandResult, report_quarantine};
use crate::filters::Filters;
use crate::output::Output;
use crate::short_id::ShortIds;
use crate::sign::{LEGEND, Sign};
use crate::text::{cut, dollars, one_line, width};

/// Columns that a title gets at least.
const MIN_TITLE: usize = 12;

/// Show which sessions started which: conversations, their subagents and their forks
///
/// A fork stands below the session that it was made of, also if OpenCode made it: forks are recognised by the messages that they have in common with
/// their origin.
#[derive(Debug, clap::Args)]
#[command(after_help = format!("\
Examples:
  annals tree last                  the latest conversation with all its subagents
  annals tree --project . --since 7d

{LEGEND}"))]
pub(crate) struct TreeArgs {
    /// Only this session, those it started, and its forks
    session: Option<String>,
    #[command(flatten)]
    filters: Filters,
    /// Also show sessions that stand alone
    #[arg(short, long)]
    all: bool,
}

pub(crate) fn run(context: &Context, args: &TreeArgs) -> CommandResult {
    let homes = context.open(Stage::Calls)?;
    let home = homes.read();
    let query = context.query(&home, &args.filters)?;
    let found = context.sessions(&home, &SessionQuery::default())?;
    let short_ids = ShortIds::of(&found.value);
    let mut quarantined = found.quarantined;
    let forks = Forks::among(&home, &found.value)?;
    let lines = Lines::of(&found.value, &forks);
    let roots: Vec<String> = match &args.session {
        Some(wanted) => vec![context.session(&home, wanted)?.id.to_string()],
        None => {
            let admitted = found.value.iter().filter(|record| query.admits(record));
            let roots = admitted.filter(|record| !lines.has_origin.contains(record.id.as_str()));
            let roots =
                roots.filter(|record| args.all || context.json || lines.has_issue(record.id.as_str()));
            roots.map(|record| record.id.to_string()).collect()
        }
    };
    let wanted = reachable(&roots, &lines);
    let records =
        found.value.iter().filter(|record| wanted.contains(record.id.as_str())).cloned().collect::<Vec<_>>();
    let progress = context.progress(records.len(), "reading sessions");
    let mut summaries = summarize(&home as &dyn Read, &records, &|| progress.advance())?;
    drop(progress);
    quarantined.append(&mut summaries.quarantined);
    let sessions: HashMap<String, SessionSummary> =
        summaries.value.into_iter().map(|session| (session.id.to_string(), session)).collect();
    let roots: Vec<&String> = roots
        .iter()
        .filter(|root| sessions.get(*root).is_some_and(|session| query.admits_summary(session)))
        .collect();
    let forest = Forest { sessions: &sessions, lines: &lines, short_ids, now: context.clock.now };
    let mut output = if context.json { context.plain_output() } else { context.paged_output() };
    if context.json {
        let trees: Vec<wire::SessionTree<'_>> =
            roots.iter().filter_map(|root| forest.json(root, 0, &mut HashSet::new())).collect();
        output.json(&trees)?;
    } else {
        for root in &roots {
            forest.print(&mut output, root, &Branch::default(), &mut HashSet::new())?;
        }
    }
    let n_roots = roots.len();
    output.finish()?;
    if n_roots == 0 && !context.json {
        context.note("no session started others or was forked; `--all` also shows sessions that stand alone");
    }
    Ok(report_quarantine(&quarantined, context.stderr_paint()))
}

/// Who comes from whom: sessions that others started, and forks.
struct Lines {
    started: HashMap<String, Vec<String>>,
    forks: HashMap<String, Vec<String>>,
    /// Sessions that come from another one that is known.
    has_origin: HashSet<String>,
}

impl Lines {
    fn of(records: &[SessionRecord], forks: &Forks) -> Lines {
        let started = super::list::children(records);
        let family = Family::of(records);
        let mut of_origin: HashMap<String, Vec<String>> = HashMap::new();
        let mut has_origin = HashSet::new();
        for record in records {
            let descent = family.descent(forks, &record.id);
            if let Descent::ForkOf(origin) = &descent {
                of_origin.entry(origin.session.to_string()).or_default().push(record.id.to_string());
            }
            if descent != Descent::Opened {
                has_origin.insert(record.id.to_string());
            }
        }
        Lines { started, forks: of_origin, has_origin }
    }

    fn has_issue(&self, id: &str) -> bool {
        self.started.contains_key(id) || self.forks.contains_key(id)
    }
}

/// The given sessions and all that came of them.
fn reachable(roots: &[String], lines: &Lines) -> HashSet<String> {
    let mut found: HashSet<String> = HashSet::new();
    let mut open: Vec<String> = roots.to_vec();
    while let Some(id) = open.pop() {
        if !found.contains(&id) {
            let issue = [&lines.started, &lines.forks].into_iter().filter_map(|line| line.get(&id));
            open.extend(issue.flatten().cloned());
        }
        found.insert(id);
    }
    found
}

/// Sessions nest by what documents claim, so the depth shown must have an end.
const MAX_DEPTH: usize = 64;

struct Forest<'a> {
    sessions: &'a HashMap<String, SessionSummary>,
    lines: &'a Lines,
    short_ids: ShortIds,
    now: i64,
}

/// Where a session stands on the screen.
#[derive(Default)]
struct Branch {
    /// Before its own line.
    lead: String,
    /// Before the lines below it.
    below: String,
    is_fork: bool,
}

impl<'a> Forest<'a> {
    /// Sessions that came of one, oldest first: in the order in which they were started or forked.
    fn issue(&self, line: &'a HashMap<String, Vec<String>>, id: &str) -> Vec<&'a str> {
        let mut issue: Vec<&str> = line.get(id).into_iter().flatten().map(String::as_str).collect();
        issue.sort_by_key(|id| self.sessions.get(*id).and_then(|session| session.created));
        issue
    }

    /// `seen` breaks circles, which damaged documents can form.
    fn json(&self, id: &str, depth: usize, seen: &mut HashSet<String>) -> Option<wire::SessionTree<'a>> {
        let session = self.sessions.get(id).filter(|_| depth < MAX_DEPTH && seen.insert(id.to_owned()))?;
        let started = self.issue(&self.lines.started, id);
        let forked = self.issue(&self.lines.forks, id);
        let mut trees =
            |ids: &[&str]| ids.iter().filter_map(|id| self.json(id, depth + 1, seen)).collect::<Vec<_>>();
        let (subtree, forks) = (trees(&started), trees(&forked));
        Some(wire::SessionTree { session: wire::Session::of(session, started), subtree, forks })
    }

    fn print(
        &self,
        output: &mut Output,
        id: &str,
        branch: &Branch,
        seen: &mut HashSet<String>,
    ) -> std::io::Result<()> {
        // Each level indents by three columns.
        let depth = width(&branch.below) / 3;
        let Some(session) = self.sessions.get(id).filter(|_| depth < MAX_DEPTH && seen.insert(id.to_owned()))
        else {
            return Ok(());
        };
        self.print_line(output, session, branch)?;
        let started = self.issue(&self.lines.started, id).into_iter().map(|id| (id, false));
        let forked = self.issue(&self.lines.forks, id).into_iter().map(|id| (id, true));
        let issue: Vec<(&str, bool)> = started.chain(forked).collect();
        for (n, (child, is_fork)) in issue.iter().enumerate() {
            let (lead, rest) = if n + 1 == issue.len() { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            let below = &branch.below;
            let branch =
                Branch { lead: format!("{below}{lead}"), below: format!("{below}{rest}"), is_fork: *is_fork };
            self.print(output, child, &branch, seen)?;
        }
        Ok(())
    }

    fn print_line(
        &self,
        output: &mut Output,
        session: &SessionSummary,
        branch: &Branch,
    ) -> std::io::Result<()> {
        let paint = output.paint;
        let sign = Sign::of(session, self.now).painted(paint);
        let short = self.short_ids.shorten(session.id.as_str());
        let agents = one_line(&session.agents.join(", "));
        let cost = dollars(session.usage.cost);
        let fork = if branch.is_fork { "fork  " } else { "" };
        let taken = width(&branch.lead) + width(short) + width(&cost) + width(fork) + 6;
        let room = output.width.saturating_sub(taken);
        // The title is what a session is recognised by: agents give way to it.
        let for_agents = width(&agents) + 2;
        let (agents, room) = match room >= for_agents + MIN_TITLE {
            true => (format!("{agents}  "), room - for_agents),
            false => (String::new(), room.max(MIN_TITLE)),
        };
        let title = one_line(&session.title);
        let title = cut(&title, room);
        output.line(format!(
            "{}{sign} {}  {}{}  {}{}",
            paint.dim(&branch.lead),
            paint.id(short),
            paint.warn(fork),
            if branch.lead.is_empty() { paint.bold(&*title) } else { title.into_owned() },
            paint.agent(agents),
            paint.warn(cost),
        ))
    }
}
