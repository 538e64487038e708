//! `annals forget`

use annals::history::{History, LogQuery};
use annals::home::annals::{Annals, Forgotten};
use annals::ops::{Kind, Request};
use annals::remove;
use annals::sync::Stage;
use serde::Serialize;

use crate::confirm::agreed;
use crate::context::Context;
use crate::error::{CommandResult, Outcome};
use crate::homes::is_followed;
use crate::moment::{Known, known_session};
use crate::text::count;

/// Erase sessions from the store, with all their history
///
/// Documents, every earlier state, what the text index has of them: afterwards nothing of them is in the store's files but a
/// hash of the id, so that sync does not bring them back. OpenCode's home is not touched: `annals rm` deletes there. It cannot
/// be undone.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  annals forget 36f8c1
  annals rm 36f8c1 && annals forget --children 36f8c1 --yes    delete it everywhere")]
pub(crate) struct ForgetArgs {
    /// Sessions: ids, beginnings of ids, `last`, or pieces of titles
    #[arg(required = true, value_name = "SESSION")]
    sessions: Vec<String>,
    /// Also the sessions they started
    #[arg(long)]
    children: bool,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ForgottenJson {
    sessions: Vec<String>,
    documents: usize,
    states: usize,
    revisions: usize,
    rewritten: bool,
    log_emptied: bool,
    copies: Vec<String>,
}

pub(crate) fn run(context: &Context, args: &ForgetArgs) -> CommandResult {
    let store = context.open_store(Stage::Messages, "forgets nothing")?.annals;
    // Every name is looked up before anything is erased.
    let mut wanted: Vec<Known> = Vec::new();
    for name in &args.sessions {
        let known = known_session(context, &store, name)?;
        if args.children && known.deleted_after.is_none() {
            let family = remove::plan(&store, known.record)?.sessions;
            wanted.extend(family.into_iter().map(|record| Known {
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
    let ids: Vec<_> = wanted.iter().map(|known| known.id.clone()).collect();
    let forgotten = store.forget_all(&ids)?;
    // The command names what is to be forgotten, so its words are not kept.
    let request =
        Request { words: format!("forget {}", count(ids.len(), "session")), ..context.request(Kind::Forget) };
    store.note_forget(&request)?;
    report(context, &store, &wanted, &forgotten)
}

fn report(context: &Context, store: &Annals, wanted: &[Known], forgotten: &Forgotten) -> CommandResult {
    if context.json {
        let mut output = context.plain_output();
        output.json(&ForgottenJson {
            sessions: wanted.iter().map(|known| known.id.to_string()).collect(),
            documents: forgotten.n_documents,
            states: forgotten.n_states,
            revisions: forgotten.n_revisions,
            rewritten: forgotten.not_rewritten.is_none(),
            log_emptied: forgotten.log_emptied,
            copies: forgotten.copies.iter().map(|path| path.display().to_string()).collect(),
        })?;
        output.finish()?;
    } else {
        context.note(&format!(
            "forgot {}: {} and {}",
            count(wanted.len(), "session"),
            count(forgotten.n_documents, "document"),
            count(forgotten.n_states, "earlier state")
        ));
        if wanted.iter().any(|known| known.deleted_after.is_none() && is_followed(store, &known.record)) {
            context
                .note("OpenCode's home has them still; `annals rm --home HOME SESSION` deletes them there");
        }
    }
    let mut outcome = Outcome::Done;
    if let Some(why) = &forgotten.not_rewritten {
        context.warn(&format!(
            "remains may be left in unused parts of the file, which could not be written anew: {why}"
        ));
        outcome = Outcome::WithProblems;
    }
    if !forgotten.log_emptied {
        context.warn("somebody is reading from the store; remains are in its log until that ends");
        outcome = Outcome::WithProblems;
    }
    for path in &forgotten.copies {
        context.warn(&format!("{} may hold them still; it was left alone", path.display()));
        outcome = Outcome::WithProblems;
    }
    Ok(outcome)
}
