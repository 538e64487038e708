//! What a command works with: the opened homes, the clock, the output.

use std::path::{Path, PathBuf};

use annals::home::{Found, Read, SessionRecord, Several, Write};
use annals::model::id::ProjectId;
use annals::open::{self, Discovered};
use annals::query::{Archived, SessionQuery};

use crate::args::{Filters, Global};
use crate::error::{CliError, not_found};
use crate::output::{Output, OutputOptions, Painter, use_color};
use crate::progress::Progress;
use crate::text::Clock;
use crate::time_arg::parse_time;

/// The surroundings of a command, read once.
#[derive(Debug, Clone)]
pub(crate) struct Context {
    pub(crate) json: bool,
    pub(crate) quiet: bool,
    verbose: bool,
    pub(crate) clock: Clock,
    pub(crate) current_dir: PathBuf,
    homes: Vec<String>,
    data_directory: Option<PathBuf>,
    opencode_db: Option<PathBuf>,
    output: OutputOptions,
}

impl Context {
    pub(crate) fn new(global: &Global) -> Result<Context, CliError> {
        let current_dir = std::env::current_dir()
            .map_err(|error| CliError::new(format!("cannot tell the current directory: {error}")))?;
        let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
        let home = variable("HOME").or_else(|| variable("USERPROFILE"));
        Ok(Context {
            json: global.json,
            quiet: global.quiet,
            verbose: global.verbose,
            clock: Clock { now: now(), zone: jiff::tz::TimeZone::system() },
            current_dir,
            homes: global.home.clone(),
            data_directory: open::data_directory(variable("XDG_DATA_HOME").as_deref(), home.as_deref()),
            opencode_db: variable("OPENCODE_DB"),
            output: OutputOptions { color: global.color, pager: !global.no_pager },
        })
    }

    /// The same surroundings with another home, and without paging.
    pub(crate) fn on(&self, home: &Path) -> Context {
        Context {
            homes: vec![home.display().to_string()],
            output: OutputOptions { pager: false, ..self.output },
            ..self.clone()
        }
    }

    /// Colours for standard error.
    pub(crate) fn stderr_paint(&self) -> Painter {
        use std::io::IsTerminal;
        Painter { color: use_color(self.output.color, std::io::stderr().is_terminal()) }
    }

    /// Standard output, paged where someone is looking.
    pub(crate) fn paged_output(&self) -> Output {
        Output::new(self.output)
    }

    /// Standard output as it is.
    pub(crate) fn plain_output(&self) -> Output {
        Output::new(OutputOptions { pager: false, ..self.output })
    }

    /// A line on standard error, unless the user wants quiet.
    pub(crate) fn note(&self, line: &str) {
        use std::io::Write;
        if !self.quiet {
            let _ = writeln!(std::io::stderr(), "{line}");
        }
    }

    /// A progress bar for standard error.
    pub(crate) fn progress(&self, total: usize, what: &'static str) -> Progress {
        Progress::new(total, what, !self.quiet && !self.json)
    }

    /// The homes to read.
    pub(crate) fn open(&self) -> Result<Homes, CliError> {
        let mut homes: Vec<Box<dyn Write>> = Vec::new();
        for url in &self.homes {
            homes.extend(open::open_all(url)?);
        }
        if homes.is_empty() {
            homes = self.open_default()?;
        }
        if self.verbose {
            for home in &homes {
                self.note(&format!("reading {}", home.url()));
            }
        }
        Ok(Homes(homes))
    }

    /// Everything in the user's data directory, and the database that `OPENCODE_DB` names.
    fn open_default(&self) -> Result<Vec<Box<dyn Write>>, CliError> {
        let data = self.default_directory()?;
        let Discovered { directory, mut databases } = open::discover(&data);
        if let Some(named) = self.opencode_db.as_deref().map(|named| data.join(named))
            && named.is_file()
        {
            databases.retain(|path| *path != named);
            databases.insert(0, named);
        }
        if databases.is_empty() && directory.is_none() {
            let error = CliError::new(format!("no OpenCode sessions in {}", data.display()));
            return Err(
                error.hint("`--home PATH` names another place; `annals demo` shows annals on a sample")
            );
        }
        let mut homes = Vec::new();
        let mut refused: Option<CliError> = None;
        for path in databases.iter().chain(&directory) {
            match open::open(&path.display().to_string()) {
                Ok(home) => homes.push(home),
                // One that cannot be opened does not hide the others.
                Err(error) => {
                    self.note(&format!("warning: {error}"));
                    refused = refused.or(Some(error.into()));
                }
            }
        }
        match refused {
            Some(error) if homes.is_empty() => Err(error),
            _ => Ok(homes),
        }
    }

    /// The home to write new sessions to: of a data directory with a database the database, for that is what its OpenCode
    /// reads.
    pub(crate) fn target(&self) -> Result<String, CliError> {
        let path = match &self.homes[..] {
            [] => self.default_directory()?.display().to_string(),
            [one] => one.clone(),
            _ => return Err(CliError::usage("this command works on one home; give `--home` once")),
        };
        match open::discover(&open::path_of(&path)?).databases.first() {
            Some(database) => Ok(database.display().to_string()),
            None => Ok(path),
        }
    }

    fn default_directory(&self) -> Result<PathBuf, CliError> {
        self.data_directory.clone().ok_or_else(|| {
            CliError::new("neither XDG_DATA_HOME nor HOME is set, so OpenCode's directory cannot be found")
                .hint("give it with `--home`")
        })
    }

    /// Turns filters into a query over the homes.
    pub(crate) fn query(&self, homes: &dyn Read, filters: &Filters) -> Result<SessionQuery, CliError> {
        let time =
            |text: &Option<String>| text.as_deref().map(|text| parse_time(text, &self.clock)).transpose();
        let directory = filters.dir.as_ref().map(|dir| {
            let path = self.current_dir.join(dir);
            path.canonicalize().unwrap_or(path).display().to_string()
        });
        Ok(SessionQuery {
            projects: match &filters.project {
                Some(project) => self.projects(homes, project)?,
                None => Vec::new(),
            },
            directory,
            since: time(&filters.since)?,
            until: time(&filters.until)?,
            roots: filters.roots,
            archived: if filters.archived { Archived::Only } else { Archived::Included },
        })
    }

    /// The projects that a word on the command line means.
    fn projects(&self, homes: &dyn Read, wanted: &str) -> Result<Vec<ProjectId>, CliError> {
        let records = homes.projects()?.value;
        let recorded: Vec<ProjectId> =
            records.iter().filter_map(|record| record.key.project().cloned()).collect();
        let directory = self.current_dir.join(wanted);
        let directory = directory.canonicalize().unwrap_or(directory);
        let is_path = wanted.contains(std::path::is_separator) || wanted == "." || wanted == "..";
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

    /// The session that a word on the command line means.
    pub(crate) fn session(&self, homes: &dyn Read, wanted: &str) -> Result<SessionRecord, CliError> {
        annals::find::session(homes, wanted).map_err(|error| not_found(error, &self.clock, 80))
    }

    /// The sessions a query admits, the last used first.
    pub(crate) fn sessions(
        &self,
        homes: &dyn Read,
        query: &SessionQuery,
    ) -> Result<Found<Vec<SessionRecord>>, CliError> {
        let mut found = homes.sessions(query)?;
        found.value.sort_by_cached_key(|record| {
            (std::cmp::Reverse(annals::find::updated(record)), record.id.as_str().to_owned())
        });
        Ok(found)
    }
}

/// The homes a command reads.
pub(crate) struct Homes(Vec<Box<dyn Write>>);

impl Homes {
    /// All of them as one.
    pub(crate) fn read(&self) -> Several<'_> {
        Several::new(self.0.iter().map(|home| &**home as &dyn Read).collect())
    }

    pub(crate) fn each(&self) -> impl Iterator<Item = &dyn Write> {
        self.0.iter().map(|home| &**home)
    }

    pub(crate) fn into_homes(self) -> Vec<Box<dyn Write>> {
        self.0
    }

    /// The home that a session was read from.
    pub(crate) fn of(&self, session: &SessionRecord) -> Result<&dyn Write, CliError> {
        let origin = session.origins.first();
        let home = self.each().find(|home| Some(&home.url()) == origin);
        home.ok_or_else(|| CliError::new(format!("the home of session {} is gone", session.id)))
    }
}

fn now() -> i64 {
    // The tests fix the clock, or no output that mentions time could be compared.
    std::env::var("ANNALS_NOW").ok().and_then(|now| now.parse().ok()).unwrap_or_else(annals::ids::now)
}
