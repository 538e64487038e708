//! The surroundings of a command: where sessions are, the clock, the output. `homes.rs` opens the sessions.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use annals::HomeUrl;
use annals::find::FindError;
use annals::home::{Found, Read, SessionRecord};
use annals::open::{self, OpenError};
use annals::query::{SessionOrder, SessionQuery};

use crate::error::{CliError, Outcome, not_found};
use crate::options::Global;
use crate::output::{Output, OutputOptions, Painter, error_line};
use crate::progress::Progress;
use crate::project_names::ProjectNames;
use crate::text::{Clock, one_line};

/// The surroundings of a command, read once.
#[derive(Debug, Clone)]
pub(crate) struct Context {
    pub(crate) json: bool,
    pub(crate) quiet: bool,
    verbose: bool,
    pub(crate) clock: Clock,
    pub(crate) current_dir: PathBuf,
    /// The homes that `--home` names.
    pub(crate) homes: Vec<HomeUrl>,
    pub(crate) data_directory: Option<PathBuf>,
    pub(crate) opencode_db: Option<PathBuf>,
    pub(crate) store: StorePlace,
    /// Whether the store is synced first.
    pub(crate) is_syncing: bool,
    /// Whether this command carried out an operation that no store could record.
    pub(crate) is_unrecorded: Arc<AtomicBool>,
    /// The user's homes, once they were searched for.
    pub(crate) found: OnceLock<Vec<PathBuf>>,
    output: OutputOptions,
}

/// Where the user's store is, or would be.
#[derive(Debug, Clone)]
pub(crate) struct StorePlace {
    pub(crate) path: Option<PathBuf>,
    /// Whether the user named the store.
    pub(crate) is_named: bool,
}

impl Context {
    pub(crate) fn new(global: &Global) -> Result<Context, CliError> {
        let current_dir = std::env::current_dir()
            .map_err(|error| CliError::new(format!("cannot determine the current directory: {error}")))?;
        let (home, data_home) = user_directories();
        let named = global.store.as_ref().filter(|path| !path.is_empty());
        let store = StorePlace {
            path: match named {
                Some(named) => Some(current_dir.join(named)),
                None => open::default_store(data_home.as_deref(), home.as_deref()),
            },
            is_named: named.is_some(),
        };
        let named = global.home.iter().filter(|home| !home.is_empty());
        let homes =
            named.map(|home| HomeUrl::parse(home)).collect::<Result<_, _>>().map_err(OpenError::from)?;
        Ok(Context {
            json: global.json,
            quiet: global.quiet,
            verbose: global.verbose,
            clock: Clock::new(now()),
            current_dir,
            homes,
            data_directory: open::data_directory(data_home.as_deref(), home.as_deref()),
            opencode_db: std::env::var_os("OPENCODE_DB").map(PathBuf::from),
            store,
            is_syncing: !global.no_sync,
            is_unrecorded: Arc::default(),
            found: OnceLock::new(),
            output: OutputOptions { color: global.color, pager: !global.no_pager },
        })
    }

    /// These surroundings with another home, and without paging.
    pub(crate) fn on(&self, home: &Path) -> Context {
        Context {
            homes: vec![HomeUrl::from(home)],
            output: OutputOptions { pager: false, ..self.output },
            ..self.clone()
        }
    }

    /// These surroundings, without syncing the store.
    pub(crate) fn without_sync(&self) -> Context {
        Context { is_syncing: false, ..self.clone() }
    }

    /// Colours for standard error.
    pub(crate) fn stderr_paint(&self) -> Painter {
        Painter::new(self.output.color, &std::io::stderr())
    }

    /// Standard output, paged where someone is looking.
    pub(crate) fn paged_output(&self) -> Output {
        Output::new(self.output)
    }

    /// Standard output as it is.
    pub(crate) fn plain_output(&self) -> Output {
        Output::new(OutputOptions { pager: false, ..self.output })
    }

    /// Writes a line to standard error, unless `--quiet` is given.
    pub(crate) fn note(&self, line: &str) {
        if !self.quiet {
            error_line(line, self.stderr_paint());
        }
    }

    /// Writes a line to standard error with `--verbose`.
    pub(crate) fn note_verbose(&self, line: &str) {
        if self.verbose {
            self.note(line);
        }
    }

    /// Warns the user of something that does not stop the command.
    pub(crate) fn warn(&self, line: &str) {
        self.note(&format!("{} {line}", self.stderr_paint().warn_bold("warning:")));
    }

    /// Warns of databases that are gone while their log is left. The log holds the last commits, and the next start of OpenCode
    /// removes it.
    pub(crate) fn report_lone_logs(&self) -> Outcome {
        let data = self.data_directory.as_deref().filter(|_| self.homes.is_empty());
        let logs = data.map(open::lone_logs).unwrap_or_default();
        let hint = self.stderr_paint().id("hint:");
        for log in &logs {
            let (log, database) = (log.path.display(), log.database.display());
            self.warn(&format!(
                "{database} is gone, but its log {log} is still there and may hold sessions. Do not start OpenCode: it would create a new database and remove the log"
            ));
            self.note(&format!("{hint} copy the log first; then put {database} back beside it, from a backup or a file system snapshot"));
        }
        if logs.is_empty() { Outcome::Done } else { Outcome::WithProblems }
    }

    /// A progress bar for standard error.
    pub(crate) fn progress(&self, total: usize, what: &'static str) -> Progress {
        Progress::new(total, what, !self.quiet && !self.json)
    }

    /// The session that `wanted` names. Where several fit, the user chooses.
    pub(crate) fn session(&self, homes: &dyn Read, wanted: &str) -> Result<SessionRecord, CliError> {
        match annals::find::session(homes, wanted) {
            Ok(session) => Ok(session),
            Err(FindError::Ambiguous { candidates, .. }) if self.can_ask() => {
                let question = format!("{} sessions match {wanted:?}", candidates.len());
                self.choose(&one_line(&question), &candidates, &ProjectNames::of(homes))
            }
            Err(error) => Err(not_found(error, &self.clock, 80)),
        }
    }

    /// The session that an argument names; without one, the user chooses.
    pub(crate) fn session_or_choice(
        &self,
        homes: &dyn Read,
        wanted: Option<&str>,
    ) -> Result<SessionRecord, CliError> {
        if let Some(wanted) = wanted {
            return self.session(homes, wanted);
        }
        let mut sessions =
            self.sessions(homes, &SessionQuery { roots: true, ..SessionQuery::default() })?.value;
        if !self.can_ask() || sessions.is_empty() {
            return Err(CliError::usage("which session?")
                .hint("name it by its id, a piece of its title, or `last`; `annals list` lists them"));
        }
        // What belongs here comes first.
        let here = self.here();
        sessions.sort_by_key(|record| !here.as_ref().is_some_and(|here| here.admits(record)));
        self.choose("Which session?", &sessions, &ProjectNames::of(homes))
    }

    /// The sessions a query admits, the last used first.
    pub(crate) fn sessions(
        &self,
        homes: &dyn Read,
        query: &SessionQuery,
    ) -> Result<Found<Vec<SessionRecord>>, CliError> {
        let mut found = homes.sessions(query)?;
        SessionOrder::LastUsed.sort(&mut found.value);
        Ok(found)
    }
}

/// The user's home directory and XDG data directory. Relative paths are ignored, as the XDG rules say.
fn user_directories() -> (Option<PathBuf>, Option<PathBuf>) {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    (absolute("HOME").or_else(|| absolute("USERPROFILE")), absolute("XDG_DATA_HOME"))
}

impl Context {
    /// OpenCode's state directory, which has the history of prompts.
    pub(crate) fn state_directory(&self) -> Option<PathBuf> {
        Some(user_directory("XDG_STATE_HOME", ".local/state")?.join("opencode"))
    }
}

/// The user's directory that a variable of the XDG rules names, or else the usual one below the home directory.
pub(crate) fn user_directory(variable: &str, usual: &str) -> Option<PathBuf> {
    let named = std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    named.or_else(|| Some(user_directories().0?.join(usual)))
}

/// The path of the user's store, where no command line says otherwise.
pub(crate) fn store_path() -> Option<PathBuf> {
    let named = std::env::var_os("ANNALS_STORE").filter(|path| !path.is_empty()).map(PathBuf::from);
    let (home, data_home) = user_directories();
    named.or_else(|| open::default_store(data_home.as_deref(), home.as_deref()))
}

/// The current time.
pub(crate) fn now() -> i64 {
    // The tests fix the clock, or no output that mentions time could be compared.
    static FIXED: OnceLock<Option<i64>> = OnceLock::new();
    let fixed = FIXED.get_or_init(|| std::env::var("ANNALS_NOW").ok().and_then(|now| now.parse().ok()));
    fixed.unwrap_or_else(annals::ids::now)
}
