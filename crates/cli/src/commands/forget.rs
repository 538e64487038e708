//! `annals forget`

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use annals::HomeUrl;
use annals::history::LogQuery;
use annals::model::id::SessionId;
use annals::ops::{OperationKind, OperationRequest};
use annals::remove;
use annals::store::Store;
use annals::sync::Stage;
use annals::upkeep::Forgotten;
use annals::wire;

use crate::confirm::agreed;
use crate::context::Context;
use crate::error::{CommandResult, Outcome};
use crate::homes::is_followed;
use crate::moment::{KnownSession, known_session};
use crate::text::{count, one_line, shell_word};

/// Erase sessions from the store, with all their history
///
/// Erases documents, every earlier state, and their entries in the text index. Afterwards the store's files hold nothing of
/// them but a hash of the id, so that sync does not bring them back. OpenCode's home is not touched: `annals rm` deletes there,
/// and `annals purge` erases sessions from everywhere. This cannot be undone.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  annals forget 36f8c1
  annals forget --children 36f8c1      and the sessions that it started")]
pub(crate) struct ForgetArgs {
    /// Sessions: ids, beginnings of ids, `last`, or pieces of titles
    #[arg(required = true, value_name = "SESSION")]
    sessions: Vec<String>,
    /// Also erase the sessions they started
    #[arg(long)]
    children: bool,
    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
}

pub(crate) fn run(context: &Context, args: &ForgetArgs) -> CommandResult {
    let store = context.open_store(Stage::Messages, "is not a store")?.annals;
    // Every name is looked up before anything is erased.
    let mut wanted: Vec<KnownSession> = Vec::new();
    let mut again: Vec<SessionId> = Vec::new();
    for name in &args.sessions {
        if let Ok(id) = SessionId::parse(name)
            && store.is_forgotten(&id)?
            && store.session(&id)?.is_none()
        {
            again.push(id);
            continue;
        }
        let known = known_session(context, &*store, name)?;
        if args.children && known.deleted_after.is_none() {
            let family = remove::plan(&*store, known.record)?.sessions;
            wanted.extend(family.into_iter().map(|record| KnownSession {
                id: record.id.clone(),
                record,
                deleted_after: None,
            }));
        } else {
            wanted.push(known);
        }
    }
    let mut seen = std::collections::HashSet::new();
    wanted.retain(|known| seen.insert(known.id.clone()));
    if !context.json {
        let mut n_revisions = 0;
        for id in &again {
            context.note(&format!("{id} was already forgotten; anything left of it is erased"));
        }
        for known in &wanted {
            context.note(&format!("{}  {}", known.id, known.title()));
            n_revisions +=
                store.log(&LogQuery { session: Some(known.id.clone()), ..LogQuery::default() })?.len();
        }
        context.note(&format!(
            "{} with the history of {}",
            count(wanted.len(), "session"),
            count(n_revisions, "revision")
        ));
    }
    if !agreed(context, args.yes, "Erase from the store for good?")? {
        context.note("nothing was erased");
        return Ok(Outcome::Done);
    }
    let mut ids: Vec<_> = wanted.iter().map(|known| known.id.clone()).collect();
    ids.extend(again);
    let forgotten = store.forget(&ids)?;
    // The command line names the sessions to forget, so it is not kept.
    let request = OperationRequest {
        words: format!("forget {}", count(ids.len(), "session")),
        ..context.request(OperationKind::Forget)
    };
    store.note_final(&request)?;
    report(context, &*store, &ids, &wanted, &forgotten)
}

fn report(
    context: &Context,
    store: &dyn Store,
    ids: &[SessionId],
    wanted: &[KnownSession],
    forgotten: &Forgotten,
) -> CommandResult {
    if context.json {
        let mut output = context.plain_output();
        let remains = remains(store, wanted).into_iter().collect();
        output.json(&wire::ForgetReport::of(ids, forgotten, remains))?;
        output.finish()?;
    } else {
        context.note(&format!(
            "forgot {}: {} and {}",
            count(ids.len(), "session"),
            count(forgotten.n_documents, "document"),
            count(forgotten.n_states, "earlier state")
        ));
        for (home, ids) in still_in(store, wanted) {
            let (home, word, ids) = (one_line(&home), shell_word(&home), ids.join(" "));
            context.note(&format!("still in {home}: `annals rm --home {word} {ids}` deletes there"));
        }
        for database in remains(store, wanted) {
            context.note(&format!(
                "{} may hold remains of them in unused pages and in its log until OpenCode overwrites them",
                one_line(&database)
            ));
        }
    }
    let mut outcome = Outcome::Done;
    if let Some(why) = &forgotten.not_rewritten {
        context.warn(&format!(
            "remains may be left in unused parts of the file, which could not be rewritten: {why}"
        ));
        outcome = Outcome::WithProblems;
    }
    if let Some(why) = &forgotten.index_left {
        context.warn(&format!("the text index may still hold them: {why} (`annals reindex` rebuilds it)"));
        outcome = Outcome::WithProblems;
    }
    if !forgotten.log_emptied {
        context.warn("another process is reading the store; remains stay in its log until it ends");
        outcome = Outcome::WithProblems;
    }
    for path in &forgotten.copies {
        context.warn(&format!("{} may still hold them; it was left alone", path.display()));
        outcome = Outcome::WithProblems;
    }
    Ok(outcome)
}

/// The homes that still hold sessions, with the ids of those sessions.
fn still_in<'k>(store: &dyn Store, wanted: &'k [KnownSession]) -> BTreeMap<String, Vec<&'k str>> {
    let mut homes: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    let is_held = |known: &&KnownSession| known.deleted_after.is_none() && is_followed(store, &known.record);
    for known in wanted.iter().filter(is_held) {
        for home in known.record.origins.iter().filter(|home| **home != store.url()) {
            homes.entry(home.to_string()).or_default().push(known.id.as_str());
        }
    }
    homes
}

/// The databases from which sessions were deleted: deleted text stays in the file until something else is written over it.
fn remains(store: &dyn Store, wanted: &[KnownSession]) -> BTreeSet<String> {
    let deleted = wanted.iter().filter(|known| !is_followed(store, &known.record));
    let is_database = |home: &&HomeUrl| **home != store.url() && home.path().is_some_and(Path::is_file);
    deleted.flat_map(|known| &known.record.origins).filter(is_database).map(ToString::to_string).collect()
}
