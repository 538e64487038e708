//! Errors as sentences: what happened, where, what to do; and the exit codes.

use std::fmt;
use std::io;

use annals::find::{FindEntryError, FindError};
use annals::history::UndoError;
use annals::home::{CommitError, DamagedRows, Quarantined, ReadError};
use annals::homes::opencode::database::OpenDbError;
use annals::homes::opencode::directory::OpenDirError;
use annals::import::ImportError;
use annals::open::OpenError;
use annals::query::QueryError;
use annals::remove::RemoveError;
use annals::search::SearchError;
use annals::store::OpenStoreError;
use annals::sync::SyncError;
use annals::upkeep::{BackupError, ForgetError};

use crate::output::{Painter, error_line};
use crate::text::{Clock, count, cut, harmless, one_line};

/// Exit codes. 0 is for a command that did its work.
pub(crate) mod exit_code {
    /// It could not.
    pub(crate) const FAILURE: u8 = 1;
    /// Bad usage.
    pub(crate) const USAGE: u8 = 2;
    /// Done, but something was quarantined or a check found problems.
    pub(crate) const PROBLEMS: u8 = 3;
    /// Ctrl-C, as shells say it.
    pub(crate) const INTERRUPTED: u8 = 130;
}

/// Why a command failed.
#[derive(Debug, Clone)]
pub(crate) struct CliError {
    pub(crate) message: String,
    /// Lines below the message: places, candidates.
    pub(crate) details: Vec<String>,
    pub(crate) hints: Vec<String>,
    pub(crate) kind: ErrorKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ErrorKind {
    /// The command failed.
    Failure,
    /// Bad usage.
    Usage,
    /// The reader of our output has gone; nothing is printed.
    BrokenPipe,
    /// The user ended the command with Ctrl-C; nothing is printed.
    Interrupted,
}

/// Outcome of a command that did its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Everything was done.
    Done,
    /// Done, but something was quarantined or a check found problems.
    WithProblems,
}

impl Outcome {
    /// `Done` if both are.
    pub(crate) fn and(self, other: Outcome) -> Outcome {
        if self == Outcome::Done { other } else { self }
    }
}

pub(crate) type CommandResult = Result<Outcome, CliError>;

impl CliError {
    pub(crate) fn new(message: impl fmt::Display) -> CliError {
        CliError {
            message: message.to_string(),
            details: Vec::new(),
            hints: Vec::new(),
            kind: ErrorKind::Failure,
        }
    }

    pub(crate) fn usage(message: impl fmt::Display) -> CliError {
        CliError { kind: ErrorKind::Usage, ..CliError::new(message) }
    }

    pub(crate) fn interrupted() -> CliError {
        CliError { kind: ErrorKind::Interrupted, ..CliError::new("interrupted") }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> CliError {
        self.hints.push(hint.into());
        self
    }

    pub(crate) fn print(&self, paint: Painter) {
        error_line(&format!("{} {}", paint.bad_bold("error:"), self.message), paint);
        for detail in &self.details {
            error_line(&format!("  {detail}"), paint);
        }
        for hint in &self.hints {
            error_line(&format!("{} {hint}", paint.id("hint:")), paint);
        }
    }
}

impl From<io::Error> for CliError {
    fn from(error: io::Error) -> CliError {
        match error.kind() {
            io::ErrorKind::BrokenPipe => CliError { kind: ErrorKind::BrokenPipe, ..CliError::new(error) },
            _ => CliError::new(format!("cannot write the output: {error}")),
        }
    }
}

impl From<OpenError> for CliError {
    fn from(error: OpenError) -> CliError {
        let message = CliError::new(&error);
        match error {
            OpenError::Store(error) => error.into(),
            OpenError::Dir(OpenDirError::NotFound { .. }) => message.hint(
                "`--home` takes the path of an OpenCode data directory, usually ~/.local/share/opencode",
            ),
            OpenError::Dir(OpenDirError::NotAHome { .. }) => message
                .hint("give the directory that holds `storage/`; `annals demo` makes one to try things on"),
            OpenError::Db(OpenDbError::NotFound { .. }) => message
                .hint("`--home` takes the path of an OpenCode data directory or of an `opencode.db`"),
            OpenError::Db(OpenDbError::NoRoom { .. }) => {
                message.hint("make room on the disk, then run the command again")
            }
            OpenError::Db(OpenDbError::OnlyLog { .. }) => message
                .hint("nothing was touched: do not start OpenCode here, it would remove the log. Put the main file back from a backup, then try again"),
            OpenError::Db(OpenDbError::NotADatabase { .. } | OpenDbError::NotOpencode { .. }) => {
                message.hint("give an OpenCode data directory, usually ~/.local/share/opencode, or an `opencode.db`")
            }
            OpenError::Db(OpenDbError::Damaged { .. }) => message
                .hint("nothing was touched; restore the file from a backup, or try sqlite3's `.recover` on a copy"),
            _ => message,
        }
    }
}

impl From<FindEntryError> for CliError {
    fn from(error: FindEntryError) -> CliError {
        let mut message = CliError::new(one_line(&error.to_string()));
        match error {
            FindEntryError::NoMatch { session, .. } => message
                .hint(format!("`annals show {session} --json` lists its messages and parts with their ids")),
            FindEntryError::Ambiguous { candidates, .. } => {
                message.details = candidates.into_iter().take(12).collect();
                message.hint("give more of the id")
            }
            FindEntryError::Read(error) => error.into(),
            _ => message,
        }
    }
}

impl From<OpenStoreError> for CliError {
    fn from(error: OpenStoreError) -> CliError {
        let message = CliError::new(&error);
        match error {
            OpenStoreError::NotFound { .. } => message.hint("any command without `--home` creates a store"),
            OpenStoreError::NotAStore { .. } => message.hint("`--store PATH` or ANNALS_STORE names an `annals.db` elsewhere"),
            OpenStoreError::Newer { .. } => message.hint("install the newer annals"),
            OpenStoreError::Network { .. } => {
                message.hint("`--store PATH` or ANNALS_STORE puts the store on a local disk")
            }
            OpenStoreError::Damaged { .. } => message.hint(
                "nothing was changed; restore a backup with `annals restore-backup`, or move the file away and annals creates a new one",
            ),
            OpenStoreError::NoRoom { .. } => message.hint("make room on the disk"),
            _ => message.hint("`--store PATH` or ANNALS_STORE puts the store elsewhere"),
        }
    }
}

impl From<SyncError> for CliError {
    fn from(error: SyncError) -> CliError {
        match error {
            SyncError::Commit(error) => error.into(),
            SyncError::Read(error) => error.into(),
            SyncError::Index(error) => {
                let mut error = CliError::from(error);
                error.hints.insert(
                    0,
                    "everything that was found is in the store; only `annals search` needs the index"
                        .to_owned(),
                );
                error
            }
            error => CliError::new(error),
        }
    }
}

impl From<SearchError> for CliError {
    fn from(error: SearchError) -> CliError {
        let message = CliError::new(&error);
        match error {
            SearchError::Read(error) => error.into(),
            // The crate `regex` draws the expression, and an arrow below it.
            SearchError::Pattern(what) => {
                let mut error = CliError::usage("invalid regular expression");
                error.details = what.lines().map(|line| harmless(line).into_owned()).collect();
                error.hint("`--substring` takes the query literally")
            }
            SearchError::Index { .. } => {
                message.hint("`annals reindex` rebuilds it; `--substring` and `--regex` work without it")
            }
            _ => message,
        }
    }
}

impl From<UndoError> for CliError {
    fn from(error: UndoError) -> CliError {
        match error {
            UndoError::Read(error) => error.into(),
            error => {
                CliError::new(error).hint("nothing was changed; `annals log --revisions` lists revisions")
            }
        }
    }
}

impl From<ForgetError> for CliError {
    fn from(error: ForgetError) -> CliError {
        match error {
            ForgetError::Commit(error) => error.into(),
            error => CliError::new(error).hint("nothing was erased"),
        }
    }
}

impl From<BackupError> for CliError {
    fn from(error: BackupError) -> CliError {
        let message = CliError::new(&error);
        match error {
            BackupError::Exists { .. } => {
                message.hint("nothing was written; name a file that does not exist yet")
            }
            BackupError::NotAStore { .. } => {
                message.hint("nothing was changed; give a file that `annals backup` wrote")
            }
            BackupError::Newer { .. } => message.hint("nothing was changed; install the newer annals"),
            BackupError::Damaged { .. } => message.hint("nothing was changed; try another backup"),
            BackupError::NoRoom { .. } => {
                message.hint("nothing was changed; make room on the disk, then try again")
            }
            _ => message.hint("nothing was changed"),
        }
    }
}

impl From<OpenDirError> for CliError {
    fn from(error: OpenDirError) -> CliError {
        OpenError::from(error).into()
    }
}

impl From<QueryError> for CliError {
    fn from(error: QueryError) -> CliError {
        match error {
            QueryError::Read(error) => error.into(),
            error => CliError::new(error),
        }
    }
}

impl From<ReadError> for CliError {
    fn from(error: ReadError) -> CliError {
        match error {
            ReadError::Unreadable(quarantined) => {
                let mut error = CliError::new("a document could not be read");
                error.details.push(one_line(&quarantined.to_string()));
                error.hint("`annals check` lists everything that is damaged")
            }
            error => CliError::new(error),
        }
    }
}

impl From<CommitError> for CliError {
    fn from(error: CommitError) -> CliError {
        let message = CliError::new(&error);
        match error {
            CommitError::Conflict { .. } => message.hint("nothing was changed; run the command again to work on the current version"),
            CommitError::Endangered { .. } => {
                message.hint("nothing was changed; quit that OpenCode, then run the command again")
            }
            CommitError::Busy { .. } => message.hint("wait for it to finish, then run the command again"),
            CommitError::ReadOnly { .. } => message.hint("nothing was changed; the home must be writable for this"),
            CommitError::Failed { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                message.hint("make room on the disk, then run the command again")
            }
            CommitError::Unfinished { .. } => {
                message.hint("the change is safe on the disk; any annals command finishes it once the cause is gone")
            }
            CommitError::Uncertain { .. } => {
                message.hint("look at it with `annals --home PATH show SESSION` once the disk works again")
            }
            CommitError::Unsupported(_) => message
                .hint("copy it first: `annals copy --from HERE --to NEW`, where NEW is a directory or ends in `.db`"),
            CommitError::UnknownSchema { .. } => {
                message.hint("nothing was changed; reading still works, and a newer annals may know this schema")
            }
            CommitError::Refused { .. } => message.hint("nothing was changed"),
            _ => message,
        }
    }
}

impl From<RemoveError> for CliError {
    fn from(error: RemoveError) -> CliError {
        match error {
            RemoveError::Read(error) => error.into(),
            RemoveError::Commit(error) => error.into(),
            error => CliError::new(error),
        }
    }
}

impl From<ImportError> for CliError {
    fn from(error: ImportError) -> CliError {
        match error {
            ImportError::Read(error) => error.into(),
            ImportError::Commit(error) => error.into(),
            error @ ImportError::Exists { .. } => CliError::new(error)
                .hint("`--merge` adds missing documents; documents that differ are kept and reported"),
            error => CliError::new(error).hint("nothing was written"),
        }
    }
}

/// The error of a failed lookup; candidates are told apart by time, hence the clock.
pub(crate) fn not_found(error: FindError, clock: &Clock, width: usize) -> CliError {
    let mut message = CliError::new(one_line(&error.to_string()));
    match error {
        FindError::NoMatch { n_sessions: 0, .. } => message.hint("there are no sessions here"),
        FindError::NoMatch { n_sessions, .. } => message.hint(format!(
            "looked at ids and titles of {}; `annals list` shows them",
            count(n_sessions, "session")
        )),
        FindError::Ambiguous { candidates, .. } => {
            const SHOWN: usize = 10;
            for record in candidates.iter().take(SHOWN) {
                let title = record.stored.document.lens::<annals::model::lens::Session<'_>>().title;
                let title = title.map(|title| one_line(&title.to_str())).unwrap_or_default();
                let when = clock.date_time(annals::find::updated(record));
                let line = format!("{}  {when}  {title}", record.id);
                message.details.push(cut(&line, width.saturating_sub(2)).into_owned());
            }
            if candidates.len() > SHOWN {
                message.details.push(format!("… and {} more", candidates.len() - SHOWN));
            }
            message.hint("give more of the id or title, or the whole id")
        }
        FindError::Read(error) => error.into(),
        _ => message,
    }
}

/// Reports unreadable documents, and returns the outcome of a command that otherwise did its work.
pub(crate) fn report_quarantine(quarantined: &[Quarantined], paint: Painter) -> Outcome {
    if quarantined.is_empty() {
        return Outcome::Done;
    }
    const SHOWN: usize = 5;
    let warning = paint.warn_bold("warning:");
    let n_single = quarantined.iter().filter(|problem| problem.damaged_rows().is_none()).count();
    match damaged(quarantined) {
        None => {
            let what = count(quarantined.len(), "document");
            error_line(&format!("{warning} {what} could not be read; everything else is there"), paint);
        }
        Some(rows) => {
            let others = match n_single {
                0 => String::new(),
                n => format!(", and {}", count(n, "other document")),
            };
            let text =
                format!("{rows}{others} could not be read: the database is damaged, so counts are too low");
            error_line(&format!("{warning} {text}"), paint);
        }
    }
    // Damaged rows may belong to any session, so each session that looks for its own names them.
    let mut lines: Vec<String> = Vec::new();
    for problem in quarantined {
        let line = match problem.damaged_rows() {
            Some(rows) => format!("{rows}: {}", problem.reason),
            None => problem.to_string(),
        };
        if !lines.contains(&line) {
            lines.push(line);
        }
        if lines.len() > SHOWN {
            break;
        }
    }
    for line in lines.iter().take(SHOWN) {
        error_line(&format!("  {}", one_line(line)), paint);
    }
    if lines.len() > SHOWN {
        error_line(&format!("  … and {} more", quarantined.len().saturating_sub(SHOWN)), paint);
    }
    let hint = paint.id("hint:");
    error_line(&format!("{hint} `annals check` lists everything that is damaged"), paint);
    Outcome::WithProblems
}

/// The documents that damaged rows may have held, in words; `None` if there are no such rows.
pub(crate) fn damaged<'q>(quarantined: impl IntoIterator<Item = &'q Quarantined>) -> Option<String> {
    let counts = DamagedRows::count(quarantined);
    let words: Vec<String> =
        counts.iter().map(|(table, n)| count(usize::try_from(*n).unwrap_or(usize::MAX), table)).collect();
    (!words.is_empty()).then(|| format!("up to {}", words.join(" and ")))
}
