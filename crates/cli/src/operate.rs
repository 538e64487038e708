//! Carries out operations on the user's own homes, or on those that `--home` names, with the store that records them.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use annals::fork::ForkError;
use annals::home::Write;
use annals::lease::LeaseError;
use annals::open;
use annals::ops::{self, OperationError, OperationKind, OperationRequest, Recovered, Report, Written};
use annals::scratch::Scratch;
use annals::snapshot::SnapshotError;
use annals::store::Store;
use annals::workspace::Workspace;

use crate::context::{Context, now};
use crate::error::{CliError, Outcome};
use crate::homes::{Homes, NamedTarget};
use crate::text::{Clock, one_line, shell_word};

impl Context {
    /// Carries out an operation on the homes of a command.
    pub(crate) fn operate<T>(
        &self,
        homes: &Homes,
        work: impl FnOnce(&Workspace<'_>) -> Result<T, CliError>,
    ) -> Result<T, CliError> {
        self.expect_all_homes()?;
        match homes {
            Homes::Store(store) if !store.annals.is_read_only() => match store.is_named {
                true => work(&Workspace::new(&*store.annals, &[])),
                false => work(&Workspace::new(&*store.annals, store.own())),
            },
            Homes::Store(store) => {
                self.operate_unrecorded(|store_of_now| work(&Workspace::new(store_of_now, store.own())))
            }
            Homes::Direct(direct) => {
                let paths: Vec<PathBuf> =
                    direct.iter().filter_map(|home| home.url().path().map(Path::to_owned)).collect();
                let is_named = !self.homes.is_empty();
                let recorded = self.store.path.as_deref().map(open::open_or_create_store);
                match recorded {
                    Some(Ok(store)) if !store.is_read_only() => {
                        let store = store.with_clock(now);
                        self.recover(&Workspace::new(&*store, &self.discover_homes()));
                        match is_named {
                            true => work(&Workspace::of_named(&*store, &paths)),
                            false => work(&Workspace::new(&*store, &paths)),
                        }
                    }
                    _ => self.operate_unrecorded(|store| work(&Workspace::of_named(store, &paths))),
                }
            }
        }
    }

    /// Refuses a destructive operation if no store can bring the data back, unless `--home` named the home.
    pub(crate) fn expect_record(&self, what: &str) -> Result<(), CliError> {
        match self.is_unrecorded.load(Ordering::Relaxed) && self.homes.is_empty() {
            true => Err(CliError::new(format!(
                "the store cannot be written to, so this could not be undone; nothing was {what}"
            ))
            .hint("`--home PATH` does it anyway, in the home at PATH")),
            false => Ok(()),
        }
    }

    /// Carries out an operation where there is no store that could record it.
    fn operate_unrecorded<T>(
        &self,
        work: impl FnOnce(&dyn Store) -> Result<T, CliError>,
    ) -> Result<T, CliError> {
        let failed =
            |error: std::io::Error| CliError::new(format!("cannot create a temporary directory: {error}"));
        let scratch = Scratch::new_in(&std::env::temp_dir()).map_err(failed)?;
        let store = open::open_or_create_store(&scratch.path().join("annals.db"))?.with_clock(now);
        self.warn("the store cannot be written to, so this cannot be undone");
        self.is_unrecorded.store(true, Ordering::Relaxed);
        work(&*store)
    }

    /// Writes sessions to a home or to the user's store, as an operation. If no store can record the operation, it is carried out
    /// all the same.
    pub(crate) fn write_to<T>(
        &self,
        target: &NamedTarget,
        kind: OperationKind,
        work: impl FnOnce(&dyn Write) -> Written<T>,
    ) -> Result<(T, Report), CliError> {
        let homes = self.discover_homes();
        let store = match &self.store.path {
            Some(path) => open::open_or_create_store(path).ok().filter(|store| !store.is_read_only()),
            None => None,
        };
        let Some(store) = store.map(|store| store.with_clock(now)) else {
            let home = target.open_or_create()?;
            self.warn("the store cannot be written to, so this cannot be undone");
            return Ok((work(&*home).value, Report::default()));
        };
        let workspace = Workspace::new(&*store, &homes);
        self.recover(&workspace);
        match target {
            NamedTarget::Home(url) => {
                drop(target.open_or_create()?);
                // The changes of another store of annals are not noted as those of a home are.
                if url.path().is_some_and(open::is_annals) {
                    let home = target.open_or_create()?;
                    return Ok((
                        work(&*home).value,
                        Report { places: vec![url.to_string()], ..Report::default() },
                    ));
                }
                Ok(ops::write(&workspace, self.request(kind), ops::WriteTarget::Home(url), work)?)
            }
            NamedTarget::Store(_) => {
                Ok(ops::write(&workspace, self.request(kind), ops::WriteTarget::Store, work)?)
            }
        }
    }

    /// The outcome of a command that carried out an operation.
    pub(crate) fn outcome_of(&self, report: &Report) -> Outcome {
        match &report.not_followed {
            Some(why) => {
                self.warn(&format!(
                    "the change was made, but the store does not show it yet: {}",
                    one_line(why)
                ));
                Outcome::WithProblems
            }
            None => Outcome::Done,
        }
    }

    /// Completes operations that were cut short, or takes them back, and says so.
    pub(crate) fn recover(&self, workspace: &Workspace<'_>) {
        let recovered = match ops::recover(workspace) {
            Ok(recovered) => recovered,
            Err(error) => {
                self.warn(&format!(
                    "an operation was cut short and could not be completed: {}",
                    one_line(&error.to_string())
                ));
                return;
            }
        };
        for recovered in recovered {
            match recovered {
                Recovered::Completed(operation) => self.warn(&format!(
                    "operation {} ({}) was cut short; it is complete now",
                    operation.number,
                    one_line(&operation.words)
                )),
                Recovered::TakenBack(operation) => self.warn(&format!(
                    "operation {} ({}) was cut short and had no effect; run it again if you still want it",
                    operation.number,
                    one_line(&operation.words)
                )),
                Recovered::Left { operation, done, missing } => {
                    self.warn(&format!(
                        "operation {} ({}) was cut short: it is done in {}; it is missing or was changed since in {}",
                        operation.number,
                        one_line(&operation.words),
                        if done.is_empty() { "no home".to_owned() } else { done.join(", ") },
                        missing.join(", "),
                    ));
                    self.note(&format!(
                        "  `annals {}` finishes it; `annals undo {}` takes back what was done",
                        one_line(&operation.words),
                        operation.number
                    ));
                }
            }
        }
    }

    /// The request of this command, in the words of the command line.
    pub(crate) fn request(&self, kind: OperationKind) -> OperationRequest {
        let words: Vec<String> =
            std::env::args_os().skip(1).map(|word| shell_word(&word.to_string_lossy())).collect();
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        OperationRequest {
            kind,
            words: words.join(" "),
            user: variable("USER").or_else(|| variable("LOGNAME")),
            host: Some(annals::lease::host()).filter(|host| !host.is_empty()),
            pid: std::process::id(),
            undoes: None,
        }
    }

    /// Says where an operation was carried out, and how to take it back.
    pub(crate) fn report_operation(&self, report: &Report) -> Outcome {
        for place in &report.places {
            self.note(&format!("  in {place}"));
        }
        if report.store_only {
            self.note("  in the store only: no home of OpenCode that can be reached has it");
        }
        for place in &report.vanished {
            self.warn(&format!("{place} has it too, but cannot be reached now; it is unchanged there"));
        }
        if let Some(operation) = report.operation.filter(|_| !self.is_unrecorded.load(Ordering::Relaxed)) {
            self.note(&format!("operation {operation}; `annals undo {operation}` takes it back"));
        }
        self.outcome_of(report)
    }
}

impl From<OperationError> for CliError {
    fn from(error: OperationError) -> CliError {
        let message = CliError::new(one_line(&error.to_string()));
        match error {
            OperationError::Commit { place, source } => {
                let mut explained = CliError::from(source);
                if !explained.message.contains(&place) {
                    explained.message = format!("{place}: {}", explained.message);
                }
                explained
            }
            OperationError::Half { .. } => {
                message.hint("the next annals command completes it or takes it back, and says which")
            }
            OperationError::Open(error) => error.into(),
            OperationError::Read(error) => error.into(),
            OperationError::Store(error) => error.into(),
            OperationError::Sync(error) => error.into(),
            OperationError::History(error) => error.into(),
            OperationError::Lease(LeaseError::Held { .. }) => {
                message.hint("nothing was changed; try again when it is done")
            }
            OperationError::Busy { .. } => message.hint(
                "nothing was changed; stop the agent, or wait until the session has rested for ten minutes",
            ),
            OperationError::Snapshot(error) => {
                let message = message.hint("nothing was changed");
                match error {
                    SnapshotError::Missing { .. } => message.hint("OpenCode removes snapshots after a week"),
                    _ => message,
                }
                .hint("without `--files` only the conversation is changed")
            }
            OperationError::NotReverted(_) => {
                message.hint("nothing was changed; `annals revert` reverts a session")
            }
            OperationError::NoTarget { session, .. } => message.hint(format!(
                "nothing was changed; `annals show {session} --json` lists messages and parts"
            )),
            OperationError::Fork(ForkError::NoMessage { session, .. }) => message
                .hint(format!("nothing was changed; `annals show {session} --json` lists its messages")),
            OperationError::NoOperation(_) => message
                .hint("`annals log` lists operations; `annals undo --revision REV` takes back a revision"),
            OperationError::NothingToUndo => message.hint(
                "`annals log --revisions` lists what sync brought; `annals undo --revision REV` undoes it",
            ),
            OperationError::UndoneBefore { by, .. } => {
                message.hint(format!("`annals undo {by}` does it again"))
            }
            OperationError::Final { .. } | OperationError::Erased(_) => message.hint("nothing was changed"),
            OperationError::NotYours { .. } => message.hint(
                "nothing was changed; run `annals undo` with the XDG_DATA_HOME that this home belongs to",
            ),
            OperationError::NotKept { .. } => {
                message.hint("nothing was changed; `annals prune` removed the earlier state")
            }
            OperationError::ChangedSince { session, untouched, operation, .. } => {
                let message = match session {
                    Some(session) => message.hint(format!(
                        "nothing was changed; `annals log {session}` shows what came later, `annals restore {session} --at REV` goes back"
                    )),
                    None => message.hint("nothing was changed"),
                };
                match untouched.first() {
                    Some(first) => message.hint(format!(
                        "`annals undo {operation} --only {first}` takes it back for one session that has not changed since ({} of them)",
                        untouched.len()
                    )),
                    None => message,
                }
            }
            _ => message,
        }
    }
}

/// An operation in one line: when, and the command.
pub(crate) fn describe(operation: &ops::Operation, clock: &Clock) -> String {
    format!(
        "operation {} of {}: {}",
        operation.number,
        clock.date_time(operation.time),
        one_line(&operation.words)
    )
}
