//! `annals` without a command: what there is.

use annals::home::Extent;
use annals::model::lens::Session;
use annals::query::SessionQuery;
use serde::Serialize;

use crate::context::Context;
use crate::error::{CommandResult, report_quarantine};
use crate::short_id::ShortIds;
use crate::text::{bytes, count, cut, fit, one_line, wrap};

#[derive(Serialize)]
struct OverviewJson {
    homes: Vec<HomeJson>,
    sessions: usize,
    projects: usize,
    latest: Vec<LatestJson>,
}

#[derive(Serialize)]
struct HomeJson {
    url: String,
    sessions: usize,
    messages: usize,
    parts: usize,
    bytes: u64,
    updated: Option<i64>,
    problems: usize,
}

#[derive(Serialize)]
struct LatestJson {
    id: String,
    title: String,
    updated: i64,
}

/// So many of the latest sessions are named.
const LATEST: usize = 5;

/// Whether the overview ends with what to do next.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hints {
    Shown,
    Left,
}

pub(crate) fn run(context: &Context, hints: Hints) -> CommandResult {
    let homes = context.open()?;
    let home = homes.read();
    let mut rows = Vec::new();
    for each in homes.each() {
        let found = each.sessions(&SessionQuery::default())?;
        let Extent { messages, parts, bytes } = each.extent()?;
        rows.push(HomeJson {
            url: each.url(),
            sessions: found.value.len(),
            messages,
            parts,
            bytes,
            updated: found.value.iter().map(annals::find::updated).max(),
            problems: found.quarantined.len(),
        });
    }
    let found = context.sessions(&home, &SessionQuery::default())?;
    let short_ids = ShortIds::of(&found.value);
    let n_projects =
        found.value.iter().map(|record| &record.project).collect::<std::collections::BTreeSet<_>>().len();
    let is_root = |record: &&annals::home::SessionRecord| {
        record.stored.document.lens::<Session<'_>>().parent_id.is_none()
    };
    let latest: Vec<LatestJson> = found
        .value
        .iter()
        .filter(is_root)
        .take(LATEST)
        .map(|record| LatestJson {
            id: record.id.to_string(),
            title: record
                .stored
                .document
                .lens::<Session<'_>>()
                .title
                .map(|title| title.to_string())
                .unwrap_or_default(),
            updated: annals::find::updated(record),
        })
        .collect();
    let mut output = context.plain_output();
    let overview = OverviewJson { homes: rows, sessions: found.value.len(), projects: n_projects, latest };
    if context.json {
        output.json(&overview)?;
    } else {
        let paint = output.paint;
        for home in &overview.homes {
            output.line(paint.bold(&home.url))?;
            let facts = format!(
                "{} in {}, {}, {}, {}",
                count(home.sessions, "session"),
                count(overview.projects, "project"),
                count(home.messages, "message"),
                count(home.parts, "part"),
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
    Ok(report_quarantine(&found.quarantined, context.stderr_paint()))
}
