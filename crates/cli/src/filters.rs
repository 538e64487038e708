//! Filters of commands that take several sessions, and the query that they stand for. Which sessions it admits, `annals::query` decides.

use std::path::Path;

use annals::home::Read;
use annals::model::id::ProjectId;
use annals::query::{Archived, SessionQuery};
use annals::summary::SessionState;
use clap::{Args, ValueEnum};

use crate::context::Context;
use crate::error::CliError;
use crate::time_arg::parse_time;

/// Filters as options.
#[derive(Debug, Args, Default)]
pub(crate) struct Filters {
    /// Only sessions of this project: an id, a directory (`.` for here), or a name
    #[arg(long, value_name = "PROJECT")]
    pub(crate) project: Option<String>,
    /// Only sessions opened in this directory or below it
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<String>,
    /// Only at or after this time: 2026-02-01, 2026-02-01T10:00, 2026-02, 7d, 12h, today, monday, "last week"
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<String>,
    /// Only before this time
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<String>,
    /// Answered by this agent
    #[arg(long, value_name = "AGENT")]
    pub(crate) agent: Option<String>,
    /// Answered by this model: `provider/model`, or a piece of it
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    /// Only sessions that no other session started
    #[arg(long)]
    pub(crate) roots: bool,
    /// Only archived sessions
    #[arg(long)]
    pub(crate) archived: bool,
    /// Only sessions that OpenCode no longer has
    #[arg(long)]
    pub(crate) gone: bool,
    /// Only sessions with this piece of text in their title
    #[arg(long, value_name = "TEXT")]
    pub(crate) title: Option<String>,
    /// Only sessions whose last answer is in this state
    #[arg(long, value_enum, value_name = "STATE")]
    pub(crate) status: Option<StatusFilter>,
}

/// The state of a session's last answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StatusFilter {
    /// The answer has ended
    Done,
    /// The answer ended with an error
    Failed,
    /// The answer has not ended: an agent is at work, or was interrupted
    Open,
    /// Nothing was asked yet
    Empty,
}

impl StatusFilter {
    pub(crate) fn state(self) -> SessionState {
        match self {
            StatusFilter::Done => SessionState::Done,
            StatusFilter::Failed => SessionState::Failed,
            StatusFilter::Open => SessionState::Open,
            StatusFilter::Empty => SessionState::Empty,
        }
    }
}

impl Context {
    /// Turns filters into a query over the homes.
    pub(crate) fn query(&self, homes: &dyn Read, filters: &Filters) -> Result<SessionQuery, CliError> {
        let time =
            |text: &Option<String>| text.as_deref().map(|text| parse_time(text, &self.clock)).transpose();
        let full = |dir: &str| {
            let path = self.current_dir.join(dir);
            path.canonicalize().unwrap_or(path).display().to_string()
        };
        let projects = match &filters.project {
            Some(project) => self.projects(homes, project)?,
            None => Vec::new(),
        };
        // Outside of repositories all directories share one project, and a path means just one of them.
        let is_global_path =
            projects == [ProjectId::global()] && filters.project.as_deref().is_some_and(is_path);
        let of_project = filters.project.as_deref().filter(|_| is_global_path).map(full);
        Ok(SessionQuery {
            projects,
            directory: filters.dir.as_deref().map(full).or(of_project),
            since: time(&filters.since)?,
            until: time(&filters.until)?,
            roots: filters.roots,
            archived: if filters.archived { Archived::Only } else { Archived::Included },
            gone: filters.gone,
            title: filters.title.clone(),
            state: filters.status.map(StatusFilter::state),
            agent: filters.agent.clone(),
            model: filters.model.clone(),
            ..SessionQuery::default()
        })
    }

    /// The sessions that belong to the current directory: those of its repository, or outside of repositories those of the directory.
    pub(crate) fn here(&self) -> Option<SessionQuery> {
        let identity = annals::project::identify(&self.current_dir, Path::new("git")).ok()?;
        let is_global = identity.id == ProjectId::global();
        let directory = self.current_dir.canonicalize().unwrap_or_else(|_| self.current_dir.clone());
        Some(SessionQuery {
            directory: is_global.then(|| directory.display().to_string()),
            projects: vec![identity.id],
            ..SessionQuery::default()
        })
    }

    /// The projects that `wanted` names.
    fn projects(&self, homes: &dyn Read, wanted: &str) -> Result<Vec<ProjectId>, CliError> {
        let records = homes.projects()?.value;
        let recorded: Vec<ProjectId> =
            records.iter().filter_map(|record| record.key.project().cloned()).collect();
        let directory = self.current_dir.join(wanted);
        let directory = directory.canonicalize().unwrap_or(directory);
        let is_path = is_path(wanted);
        if is_path && directory.is_dir() {
            let identity = annals::project::identify(&directory, Path::new("git")).map_err(CliError::new)?;
            return Ok(vec![identity.id]);
        }
        let by_path = directory.display().to_string();
        let wanted_form = if is_path { &by_path } else { wanted };
        let found = annals::find::projects(&records, &recorded, wanted_form);
        if !found.is_empty() {
            return Ok(found);
        }
        // Not every project with sessions has a record.
        let mut known: Vec<ProjectId> = homes
            .sessions(&SessionQuery::default())?
            .value
            .into_iter()
            .map(|record| record.project)
            .collect();
        known.sort();
        known.dedup();
        let found = annals::find::projects(&[], &known, wanted_form);
        if !found.is_empty() {
            return Ok(found);
        }
        let mut error = CliError::new(format!("no project matches {wanted:?}"));
        for record in records.iter().take(12) {
            let project = record.document.lens::<annals::model::lens::Project<'_>>();
            let worktree =
                project.worktree.map(|tree| crate::text::one_line(&tree.to_str())).unwrap_or_default();
            error
                .details
                .push(format!("{}  {worktree}", record.key.to_string().trim_start_matches("project ")));
        }
        Err(error
            .hint("give an id or the beginning of one, a working tree, or `.` for the current directory"))
    }
}

/// Whether the name of a project is a path.
fn is_path(wanted: &str) -> bool {
    wanted.contains(std::path::is_separator) || wanted == "." || wanted == ".."
}
