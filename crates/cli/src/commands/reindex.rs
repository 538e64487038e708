//! `annals reindex`

use annals::query::SessionQuery;
use annals::sync::Stage;
use annals::wire;

use crate::context::Context;
use crate::error::{CommandResult, Outcome};
use crate::text::count;

/// Rebuild derived data: the counters of sessions and the text index
///
/// Documents and history are not touched. This is only needed if a list or a search gives wrong answers.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  annals reindex")]
pub(crate) struct ReindexArgs {}

pub(crate) fn run(context: &Context, _args: &ReindexArgs) -> CommandResult {
    let store = context.open_store(Stage::Parts, "is not a store")?.annals;
    store.rederive()?;
    let progress = context.progress(0, "indexing documents");
    let indexed = store.rebuild_index(&|done, total| progress.reach(done, total))?;
    drop(progress);
    let sessions = store.sessions(&SessionQuery::default())?.value.len();
    if context.json {
        let mut output = context.plain_output();
        output.json(&wire::ReindexReport { sessions, index: indexed.into() })?;
        output.finish()?;
    } else {
        context.note(&format!(
            "{} recounted, {} reindexed",
            count(sessions, "session"),
            count(indexed.documents, "document")
        ));
    }
    Ok(Outcome::Done)
}
