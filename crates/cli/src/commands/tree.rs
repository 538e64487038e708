//! `annals tree`

use std::collections::{HashMap, HashSet};

use annals::home::Read;
use annals::query::SessionQuery;
use annals::summarize::summarize;
use annals::summary::{SessionState, SessionSummary};
use annals::sync::Stage;
use annals::wire;

use crate::context::Context;
use crate::error::{CommandResult, report_quarantine};
use crate::options::Filters;
use crate::output::Output;
use crate::short_id::ShortIds;
use crate::text::{cut, dollars, one_line, width};

/// Show which sessions started which: conversations and their subagents
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  annals tree last                  the latest conversation with all its subagents
  annals tree --project . --since 7d")]
pub(crate) struct TreeArgs {
    /// Only this session and those it started
    session: Option<String>,
    #[command(flatten)]
    filters: Filters,
    /// Also show sessions that neither started others nor were started by one
    #[arg(short, long)]
    all: bool,
}

pub(crate) fn run(context: &Context, args: &TreeArgs) -> CommandResult {
    let homes = context.open(Stage::Messages)?;
    let home = homes.read();
    let query = context.query(&home, &args.filters)?;
    let found = context.sessions(&home, &SessionQuery::default())?;
    let short_ids = ShortIds::of(&found.value);
    let mut quarantined = found.quarantined;
    let by_parent = super::list::children(&found.value);
    let known: HashSet<&str> = found.value.iter().map(|record| record.id.as_str()).collect();
    let is_root = |parent: Option<String>| parent.is_none_or(|parent| !known.contains(parent.as_str()));
    let roots: Vec<String> = match &args.session {
        Some(wanted) => vec![context.session(&home, wanted)?.id.to_string()],
        None => {
            let parent_of = |record: &annals::home::SessionRecord| {
                record
                    .stored
                    .document
                    .lens::<annals::model::lens::Session<'_>>()
                    .parent_id
                    .map(|id| id.to_string())
            };
            let roots =
                found.value.iter().filter(|record| query.admits(record) && is_root(parent_of(record)));
            let roots =
                roots.filter(|record| args.all || context.json || by_parent.contains_key(record.id.as_str()));
            roots.map(|record| record.id.to_string()).collect()
        }
    };
    let wanted = reachable(&roots, &by_parent);
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
    let forest = Forest { sessions: &sessions, by_parent: &by_parent, short_ids };
    let mut output = if context.json { context.plain_output() } else { context.paged_output() };
    if context.json {
        let trees: Vec<wire::SessionTree<'_>> =
            roots.iter().filter_map(|root| forest.json(root, 0, &mut HashSet::new())).collect();
        output.json(&trees)?;
    } else {
        for root in &roots {
            forest.print(&mut output, root, "", "", &mut HashSet::new())?;
        }
    }
    let n_roots = roots.len();
    output.finish()?;
    if n_roots == 0 && !context.json {
        context.note("no session started others; `--all` also shows sessions that stand alone");
    }
    Ok(report_quarantine(&quarantined, context.stderr_paint()))
}

/// The given sessions and all they started.
fn reachable(roots: &[String], by_parent: &HashMap<String, Vec<String>>) -> HashSet<String> {
    let mut found: HashSet<String> = HashSet::new();
    let mut open: Vec<String> = roots.to_vec();
    while let Some(id) = open.pop() {
        if let (Some(children), true) = (by_parent.get(&id), !found.contains(&id)) {
            open.extend(children.iter().cloned());
        }
        found.insert(id);
    }
    found
}

/// Sessions nest by what documents claim, so the depth shown must have an end.
const MAX_DEPTH: usize = 64;

struct Forest<'a> {
    sessions: &'a HashMap<String, SessionSummary>,
    by_parent: &'a HashMap<String, Vec<String>>,
    short_ids: ShortIds,
}

impl<'a> Forest<'a> {
    /// Children, oldest first: in the order in which they were started.
    fn children(&self, id: &str) -> Vec<&'a str> {
        let mut children: Vec<&str> =
            self.by_parent.get(id).into_iter().flatten().map(String::as_str).collect();
        children.sort_by_key(|child| self.sessions.get(*child).and_then(|session| session.created));
        children
    }

    /// `seen` breaks circles, which damaged documents can form.
    fn json(&self, id: &str, depth: usize, seen: &mut HashSet<String>) -> Option<wire::SessionTree<'a>> {
        let session = self.sessions.get(id).filter(|_| depth < MAX_DEPTH && seen.insert(id.to_owned()))?;
        let children = self.children(id);
        let subtree = children.iter().filter_map(|child| self.json(child, depth + 1, seen)).collect();
        Some(wire::SessionTree { session: wire::Session::of(session, children), subtree })
    }

    fn print(
        &self,
        output: &mut Output,
        id: &str,
        lead: &str,
        below: &str,
        seen: &mut HashSet<String>,
    ) -> std::io::Result<()> {
        // Each level indents by three columns.
        let depth = width(below) / 3;
        let Some(session) = self.sessions.get(id).filter(|_| depth < MAX_DEPTH && seen.insert(id.to_owned()))
        else {
            return Ok(());
        };
        let paint = output.paint;
        let sign = match session.state {
            SessionState::Empty => paint.dim("·"),
            SessionState::Done => paint.good("✓"),
            SessionState::Failed => paint.bad("✗"),
            SessionState::Open => paint.warn("…"),
        };
        let short = self.short_ids.shorten(id);
        let agents = one_line(&session.agents.join(", "));
        let cost = dollars(session.usage.cost);
        let taken = width(lead) + width(short) + width(&agents) + width(&cost) + 8;
        let title = one_line(&session.title);
        let title = cut(&title, output.width.saturating_sub(taken).max(12));
        output.line(format!(
            "{}{sign} {}  {}  {}  {}",
            paint.dim(lead),
            paint.id(short),
            if lead.is_empty() { paint.bold(&*title) } else { title.into_owned() },
            paint.agent(agents),
            paint.warn(cost),
        ))?;
        let children = self.children(id);
        for (n, child) in children.iter().enumerate() {
            let (branch, rest) =
                if n + 1 == children.len() { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            self.print(output, child, &format!("{below}{branch}"), &format!("{below}{rest}"), seen)?;
        }
        Ok(())
    }
}
