//! Completion of what the user types: sessions, projects, models, agents, tools, operations and revisions of the store.
//!
//! The shell calls annals for it, with [`COMPLETION_VARIABLE`] set. Nothing is synced and nothing is written: a completion must feel immediate. What
//! cannot be read has no candidates.

use std::ffi::OsStr;
use std::path::PathBuf;

use annals::find::updated;
use annals::history::LogQuery;
use annals::model::search::query::FilterField;
use annals::open;
use annals::ops::OperationQuery;
use annals::query::{SessionOrder, SessionQuery};
use annals::store::Store;
use clap::Command;
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use clap_complete::env::CompleteEnv;

use crate::context::{now, store_path};
use crate::help;
use crate::options::COMPLETION_VARIABLE;
use crate::project_names::ProjectNames;
use crate::short_id::ShortIds;
use crate::text::{Clock, one_line, shown_title};

/// Candidates that are offered for an empty word.
const OFFERED: usize = 40;

/// Gives the candidates for a word that was begun.
type Completer = fn(&OsStr) -> Vec<CompletionCandidate>;

/// What can be completed, by the names of arguments.
const COMPLETED: &[(&str, Completer)] = &[
    ("session", sessions),
    ("sessions", sessions),
    ("parent", sessions),
    ("only", sessions),
    ("project", projects),
    ("model", |word| values(word, FilterField::Model)),
    ("agent", |word| values(word, FilterField::Agent)),
    ("tool", |word| values(word, FilterField::Tool)),
    ("operation", operations),
    ("at", revisions),
    ("revision", revisions),
];

/// Answers the shell, if it is the shell that asks. Then the process ends here.
pub(crate) fn answer_shell() {
    if std::env::var_os(COMPLETION_VARIABLE).is_some() {
        CompleteEnv::with_factory(command).var(COMPLETION_VARIABLE).bin("annals").complete();
    }
}

/// The command line, with what can be completed.
fn command() -> Command {
    let mut command = help::command();
    let names: Vec<String> = command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
    for name in names {
        command = command.mut_subcommand(name, |sub| {
            sub.mut_args(|arg| match COMPLETED.iter().find(|(name, _)| *name == arg.get_id().as_str()) {
                Some((_, complete)) => arg.add(ArgValueCompleter::new(*complete)),
                None => arg,
            })
        });
    }
    command
}

/// The store of the user, as it is.
fn open_store() -> Option<Box<dyn Store>> {
    let path: PathBuf = store_path()?;
    path.is_file().then(|| open::open_store(&path).ok()).flatten()
}

/// Sessions by short or whole ids, the last used first, with their titles.
fn sessions(word: &OsStr) -> Vec<CompletionCandidate> {
    let (Some(word), Some(store)) = (word.to_str(), open_store()) else { return Vec::new() };
    let Ok(found) = store.sessions(&SessionQuery::default()) else { return Vec::new() };
    let mut sessions = found.value;
    SessionOrder::LastUsed.sort(&mut sessions);
    let short_ids = ShortIds::of(&sessions);
    let clock = Clock::new(now());
    let names = ProjectNames::of(&*store);
    let mut candidates = Vec::new();
    for name in ["last", "last~1"].into_iter().filter(|name| name.starts_with(word)) {
        candidates.push(CompletionCandidate::new(name));
    }
    let piece = word.to_lowercase();
    for record in &sessions {
        let (id, short) = (record.id.as_str(), short_ids.shorten(record.id.as_str()));
        let value = match word.is_empty() {
            true if record.info.is_root() && record.gone.is_none() => short,
            true => continue,
            false if short.starts_with(word) => short,
            false
                if id.starts_with(word)
                    || id.split_once('_').is_some_and(|(_, rest)| rest.starts_with(word)) =>
            {
                if id.starts_with(word) { id } else { short }
            }
            // By a piece of the title: the shell puts the id in the place of what was typed.
            false if word.len() > 2 && record.info.title().to_lowercase().contains(&piece) => short,
            false => continue,
        };
        let project = names.short(&record.project, record.info.directory());
        let help =
            format!("{}  {project}  {}", clock.when(updated(record)), shown_title(record.info.title()));
        candidates.push(CompletionCandidate::new(value).help(Some(help.into())));
        if candidates.len() >= OFFERED {
            break;
        }
    }
    in_order(candidates)
}

fn projects(word: &OsStr) -> Vec<CompletionCandidate> {
    let (Some(word), Some(store)) = (word.to_str(), open_store()) else { return Vec::new() };
    let Ok(found) = store.projects() else { return Vec::new() };
    let names = ProjectNames::of(&*store);
    let ids = found.value.iter().filter_map(|record| record.key.project());
    let named = ids.map(|id| (names.label(id.as_str()), names.path(id.as_str())));
    let fitting = named.filter(|(name, _)| name.starts_with(word));
    fitting.map(|(name, path)| CompletionCandidate::new(name).help(Some(path.into()))).collect()
}

fn values(word: &OsStr, field: FilterField) -> Vec<CompletionCandidate> {
    let (Some(word), Some(store)) = (word.to_str(), open_store()) else { return Vec::new() };
    let values = store.filter_values(field).unwrap_or_default();
    let fitting = values.into_iter().map(|value| one_line(&value)).filter(|value| value.starts_with(word));
    fitting.map(CompletionCandidate::new).collect()
}

fn operations(word: &OsStr) -> Vec<CompletionCandidate> {
    let (Some(word), Some(store)) = (word.to_str(), open_store()) else { return Vec::new() };
    let query = OperationQuery { limit: Some(OFFERED), ..OperationQuery::default() };
    let operations = store.operations(&query).unwrap_or_default();
    let rows = operations.iter().map(|operation| (operation.number.to_string(), one_line(&operation.words)));
    let fitting = rows.filter(|(number, _)| number.starts_with(word));
    in_order(
        fitting.map(|(number, words)| CompletionCandidate::new(number).help(Some(words.into()))).collect(),
    )
}

fn revisions(word: &OsStr) -> Vec<CompletionCandidate> {
    let (Some(word), Some(store)) = (word.to_str(), open_store()) else { return Vec::new() };
    let log = store.log(&LogQuery { limit: Some(OFFERED), ..LogQuery::default() }).unwrap_or_default();
    let clock = Clock::new(now());
    let mut candidates: Vec<CompletionCandidate> = ["yesterday", "today", "12h"]
        .into_iter()
        .filter(|name| name.starts_with(word))
        .map(CompletionCandidate::new)
        .collect();
    for revision in log {
        let number = revision.number.to_string();
        if number.starts_with(word) {
            let help = format!("{}  {}", clock.date_time(revision.time), one_line(&revision.reason));
            candidates.push(CompletionCandidate::new(number).help(Some(help.into())));
        }
    }
    in_order(candidates)
}

/// Keeps candidates in this order, where the shell does not sort them itself.
fn in_order(candidates: Vec<CompletionCandidate>) -> Vec<CompletionCandidate> {
    candidates.into_iter().enumerate().map(|(n, candidate)| candidate.display_order(Some(n))).collect()
}
