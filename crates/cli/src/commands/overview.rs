//! `annals` without a command: what there is.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use annals::home::{Extent, SessionRecord};
use annals::model::id::SessionId;
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
    rescue: Vec<RescueJson>,
}

/// Sessions of a directory that the database beside it lacks.
#[derive(Serialize)]
struct RescueJson {
    sessions: usize,
    from: String,
    to: String,
}

#[derive(Serialize)]
struct HomeJson {
    url: String,
    sessions: usize,
    projects: usize,
    messages: usize,
    parts: usize,
    bytes: u64,
    updated: Option<i64>,
    problems: usize,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    remarks: Vec<String>,
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
    let mut held: Vec<(PathBuf, HashSet<SessionId>)> = Vec::new();
    for each in homes.each() {
        let found = each.sessions(&SessionQuery::default())?;
        let Extent { messages, parts, bytes } = each.extent()?;
        rows.push(HomeJson {
            url: each.url(),
            sessions: found.value.len(),
            projects: n_projects(&found.value),
            messages,
            parts,
            bytes,
            updated: found.value.iter().map(annals::find::updated).max(),
            problems: found.quarantined.len(),
            remarks: each.remarks(),
        });
        held.push((PathBuf::from(each.url()), found.value.into_iter().map(|record| record.id).collect()));
    }
    let found = context.sessions(&home, &SessionQuery::default())?;
    let short_ids = ShortIds::of(&found.value);
    let is_root = |record: &&SessionRecord| record.stored.document.lens::<Session<'_>>().parent_id.is_none();
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
    let overview = OverviewJson {
        homes: rows,
        sessions: found.value.len(),
        projects: n_projects(&found.value),
        latest,
        rescue: left_behind(&held),
    };
    if context.json {
        output.json(&overview)?;
    } else {
        let paint = output.paint;
        for home in &overview.homes {
            output.line(paint.bold(&home.url))?;
            let facts = format!(
                "{} in {}, {}, {}, {}",
                count(home.sessions, "session"),
                count(home.projects, "project"),
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
            for remark in &home.remarks {
                for line in wrap(remark, output.width.saturating_sub(2)) {
                    output.line(format!("  {}", paint.warn(line)))?;
                }
            }
        }
        for rescue in &overview.rescue {
            let what = format!(
                "{} of these files {} not in the database, so OpenCode 1.2 and later does not show {}. This brings {} over:",
                count(rescue.sessions, "session"),
                if rescue.sessions == 1 { "is" } else { "are" },
                if rescue.sessions == 1 { "it" } else { "them" },
                if rescue.sessions == 1 { "it" } else { "them" },
            );
            output.line("")?;
            for line in wrap(&what, output.width) {
                output.line(paint.warn(line))?;
            }
            let command =
                format!("annals copy --from {} --to {}", shell_word(&rescue.from), shell_word(&rescue.to));
            output.line(format!("  {}", paint.code(command)))?;
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

/// The sessions of directories that are in no database beside them: OpenCode since 1.16 does not take them over, and
/// earlier versions leave some behind.
fn left_behind(held: &[(PathBuf, HashSet<SessionId>)]) -> Vec<RescueJson> {
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
        (n_missing > 0).then(|| RescueJson {
            sessions: n_missing,
            from: from.display().to_string(),
            to: database.display().to_string(),
        })
    };
    held.iter().filter_map(rescue).collect()
}

fn n_projects(records: &[SessionRecord]) -> usize {
    records.iter().map(|record| &record.project).collect::<HashSet<_>>().len()
}

/// A path as a shell takes it for one word.
fn shell_word(path: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+@%,:".contains(c);
    if path.chars().all(is_plain) { path.to_owned() } else { format!("'{}'", path.replace('\'', "'\\''")) }
}
