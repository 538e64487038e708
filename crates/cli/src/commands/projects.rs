//! `annals projects`

use std::collections::BTreeMap;

use annals::home::{Read, SessionRecord};
use annals::model::lens::Project;
use annals::query::SessionQuery;
use annals::stats::{Counting, collect};
use annals::sync::Stage;
use annals::wire;

use crate::context::Context;
use crate::error::{CommandResult, report_quarantine};
use crate::output::Painter;
use crate::project_names::ProjectNames;
use crate::table::{Table, left, right};
use crate::text::{count, cut, dollars, grouped, one_line, width};

/// List projects: repositories and directories with sessions
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  annals projects
  annals list --project shop        sessions of one of them
  annals projects --json | jq -r '.[].worktree'")]
pub(crate) struct ProjectsArgs {}

pub(crate) fn run(context: &Context, _args: &ProjectsArgs) -> CommandResult {
    let homes = context.open(Stage::Calls)?;
    let home = homes.read();
    let found = context.sessions(&home, &SessionQuery::default())?;
    let mut quarantined = found.quarantined;
    let names = ProjectNames::of(&home);
    let mut projects: BTreeMap<String, wire::ProjectSummary> = BTreeMap::new();
    for record in home.projects()?.value {
        let Some(id) = record.key.project() else { continue };
        let project = record.document.lens::<Project<'_>>();
        let time = project.time.unwrap_or_default();
        let text = |text: annals::model::json::Text<'_>| text.to_string();
        projects.insert(
            id.to_string(),
            wire::ProjectSummary {
                id: id.to_string(),
                name: project.name.map(text),
                worktree: project.worktree.map(text),
                vcs: project.vcs.map(text),
                sandboxes: project.sandboxes.unwrap_or_default().into_iter().map(text).collect(),
                created: time.created,
                initialized: time.initialized,
                ..wire::ProjectSummary::default()
            },
        );
    }
    for record in &found.value {
        let project = projects.entry(record.project.to_string()).or_insert_with(|| wire::ProjectSummary {
            id: record.project.to_string(),
            ..wire::ProjectSummary::default()
        });
        add(project, record);
    }
    let progress = context.progress(found.value.len(), "counting sessions");
    let counting = Counting { progress: &|| progress.advance(), ..Counting::ALL };
    let mut counted = collect(&home, found.value, counting)?;
    drop(progress);
    quarantined.append(&mut counted.quarantined);
    for (id, share) in &counted.value.projects {
        if let Some(project) = projects.get_mut(id.as_str()) {
            project.cost = share.usage.cost;
        }
    }
    let mut projects: Vec<wire::ProjectSummary> = projects.into_values().collect();
    projects.sort_by_key(|project| std::cmp::Reverse(project.updated));
    if context.json {
        let mut output = context.plain_output();
        output.json_array(&projects)?;
        output.finish()?;
    } else {
        print(context, &projects, &names)?;
    }
    Ok(report_quarantine(&quarantined, context.stderr_paint()))
}

fn add(project: &mut wire::ProjectSummary, record: &SessionRecord) {
    project.sessions += usize::from(record.info.is_root());
    project.subagents += usize::from(!record.info.is_root());
    project.updated = project.updated.max(Some(record.info.last_used()));
}

fn print(context: &Context, projects: &[wire::ProjectSummary], names: &ProjectNames) -> std::io::Result<()> {
    let mut output = context.paged_output();
    let name = |project: &wire::ProjectSummary| names.label(&project.id);
    let widest = projects.iter().map(|project| width(&name(project))).max().unwrap_or(0);
    let columns = [
        left("PROJECT", widest.clamp(7, 24)).style(Painter::agent),
        right("SESSIONS", 8).gives_way(2),
        left("LAST USED", 12).gives_way(1),
        right("COST", 9).style(Painter::warn).gives_way(3),
    ];
    let table = Table::new(output.paint, columns).fitting(output.columns, 20);
    if !projects.is_empty() {
        table.header(&mut output, "PATH")?;
    }
    for project in projects {
        let path = match project.id.as_str() {
            "global" => "sessions outside of repositories".to_owned(),
            _ => one_line(project.worktree.as_deref().unwrap_or("")),
        };
        let is_gone = project.id != "global"
            && project.worktree.as_deref().is_some_and(|path| !std::path::Path::new(path).exists());
        let mark = if is_gone { " [gone]" } else { "" };
        let path = cut(&path, table.room(output.columns).saturating_sub(width(mark)));
        let cells = [
            name(project),
            grouped(project.sessions),
            project.updated.map_or("-".to_owned(), |time| context.clock.when(time)),
            dollars(project.cost),
        ];
        let paint = output.paint;
        output.line(table.row(cells, format!("{path}{}", paint.dim(mark))))?;
        for sandbox in &project.sandboxes {
            let line = format!("also {}", one_line(sandbox));
            let blank = [const { String::new() }; 4];
            output.line(table.row(blank, paint.dim(cut(&line, table.room(output.columns)))))?;
        }
    }
    let tally = count(projects.len(), "project");
    let is_terminal = output.is_terminal;
    if is_terminal {
        let tally = output.paint.dim(&tally);
        output.line(tally)?;
    }
    output.finish()?;
    if !is_terminal {
        context.note(&tally);
    }
    Ok(())
}
