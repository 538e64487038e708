//! `annals purge`

use std::path::PathBuf;

use annals::home::SessionRecord;
use annals::model::id::SessionId;
use annals::ops::{self, OperationKind, OperationRequest, PurgePlaces, PurgePlan, Purged};
use annals::remains::{SearchedFiles, Words};
use annals::sync::Stage;
use annals::wire;

use crate::confirm::agreed;
use crate::context::Context;
use crate::error::{CliError, CommandResult, Outcome};
use crate::homes::Homes;
use crate::moment::{known_session, title};
use crate::text::{bytes, count, one_line, shell_word};

/// Erase sessions from everywhere: your homes, the store, logs and remains in files
///
/// Deletes the sessions, and those that they started, from all your homes; erases them from the store with all their history; rewrites
/// OpenCode's database without the free pages in which deleted text stays, and empties its write-ahead log; deletes files of long tool output,
/// lines in OpenCode's logs and in its history of prompts, and snapshots that only these sessions need. Then it searches the bytes of all
/// these files for words of the sessions, and says where any are left.
///
/// Files in your working trees, other sessions that quote these, and copies elsewhere are not touched. OpenCode should not run meanwhile:
/// beside a process that has the database open, only its unused pages are overwritten. This cannot be undone.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  annals purge --dry-run last       what would be erased, and from where
  annals purge 36f8c1
  annals purge 36f8c1 --backup ~/backup/annals.db")]
pub(crate) struct PurgeArgs {
    /// Sessions: ids, beginnings of ids, `last`, or pieces of titles; also deleted ones
    #[arg(required = true, value_name = "SESSION")]
    sessions: Vec<String>,
    /// Only show what would be erased
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Erase from this backup of the store, too. Those that annals made beside the store are always included
    #[arg(long, value_name = "FILE")]
    backup: Vec<PathBuf>,
    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
}

/// The sessions that the arguments name.
#[derive(Default)]
struct Named {
    /// In homes or in the store.
    present: Vec<SessionRecord>,
    /// In the past of the store.
    past: Vec<SessionRecord>,
    /// Forgotten before.
    again: Vec<SessionId>,
}

pub(crate) fn run(context: &Context, args: &PurgeArgs) -> CommandResult {
    let homes = context.open(Stage::Parts)?;
    let places = PurgePlaces {
        state: context.state_directory().filter(|_| context.homes.is_empty()),
        backups: args.backup.iter().map(|file| context.current_dir.join(file)).collect(),
    };
    if let Some(missing) = places.backups.iter().find(|file| !file.is_file()) {
        return Err(CliError::new(format!("{} does not exist", missing.display())));
    }
    let done = context.operate(&homes, |workspace| {
        context.expect_record("erased")?;
        let named = Named::find(context, &homes, workspace.store(), &args.sessions)?;
        let read = homes.read();
        let plan = ops::plan_purge(workspace, &read, &named.present, &named.past, &named.again)?;
        let searched = ops::places_to_search(workspace, &places);
        if !context.json {
            describe(context, &plan, &named);
        }
        if args.dry_run || !agreed(context, args.yes, "Erase from everywhere, for good?")? {
            context.note("nothing was erased");
            if context.json {
                let mut output = context.plain_output();
                output.json(&wire::PurgeReport::planned(&plan))?;
                output.finish()?;
            }
            return Ok(None);
        }
        // The command line names the sessions, so it is not kept.
        let request = OperationRequest {
            words: format!("purge {}", count(plan.sessions.len(), "session")),
            ..context.request(OperationKind::Purge)
        };
        let (words, sessions) = (plan.words().clone(), plan.sessions.clone());
        let purged = ops::purge(workspace, &request, plan, &places)?;
        Ok(Some((purged, sessions, words, searched)))
    })?;
    // Closing a file drops the locks that SQLite holds on it in this process, so everything is closed before files are searched.
    let had_store = homes.store().is_some();
    drop(homes);
    let Some((purged, sessions, words, searched)) = done else { return Ok(Outcome::Done) };
    let searched = search(context, &words, &searched, had_store)?;
    report(context, &sessions, &purged, &searched)
}

/// Searches files for words of the erased sessions.
fn search(
    context: &Context,
    words: &Words,
    places: &[PathBuf],
    has_store: bool,
) -> Result<SearchedFiles, CliError> {
    let found = words.searcher().search(places, &ops::is_git_object);
    if found.remains.is_empty() {
        return Ok(found);
    }
    // Other sessions may say the same.
    let context = context.without_sync();
    match has_store {
        true => Ok(found.without_words_of(&*context.open_store(Stage::Messages, "is not a store")?.annals)?),
        false => Ok(found.without_words_of(&context.open(Stage::Parts)?.read())?),
    }
}

impl Named {
    fn find(
        context: &Context,
        homes: &Homes,
        store: &dyn annals::store::Store,
        names: &[String],
    ) -> Result<Named, CliError> {
        let mut named = Named::default();
        for name in names {
            let read = homes.read();
            if let Ok(id) = SessionId::parse(name)
                && annals::home::Read::session(&read, &id)?.is_none()
                && store.is_forgotten(&id)?
            {
                named.again.push(id);
                continue;
            }
            match homes.store() {
                Some(_) => {
                    let known = match annals::find::session(&read, name) {
                        Ok(_) | Err(annals::find::FindError::Ambiguous { .. }) => None,
                        Err(_) => Some(known_session(context, store, name)?),
                    };
                    match known {
                        Some(known) => named.past.push(known.record),
                        None => named.present.push(context.session(&read, name)?),
                    }
                }
                None => named.present.push(context.session(&read, name)?),
            }
        }
        Ok(named)
    }
}

fn describe(context: &Context, plan: &PurgePlan, named: &Named) {
    for record in plan.removal.sessions.iter().chain(&named.past) {
        context.note(&format!("{}  {}", record.id, title(record)));
    }
    let in_store = |record: &&SessionRecord| !plan.removal.sessions.iter().any(|held| held.id == record.id);
    for record in named.present.iter().filter(in_store) {
        context.note(&format!("{}  {}", record.id, title(record)));
    }
    for id in &named.again {
        context.note(&format!("{id} was forgotten before; what is left of it is erased"));
    }
    for (home, removal) in &plan.removal.homes {
        context.note(&format!("  from {}: {}", one_line(home), count(removal.keys.len(), "document")));
    }
    context.note("  from the store, with its history and its text index");
    for file in &plan.tool_outputs {
        context.note(&format!("  {}", one_line(&file.display().to_string())));
    }
}

fn report(
    context: &Context,
    sessions: &[SessionId],
    purged: &Purged,
    searched: &SearchedFiles,
) -> CommandResult {
    let row = wire::PurgeReport::of(sessions, purged, searched);
    let outcome = if row.complete { Outcome::Done } else { Outcome::WithProblems };
    for (word, path) in
        searched.remains.iter().flat_map(|found| found.words.iter().map(|word| (word, &found.path)))
    {
        let (word, path) = (String::from_utf8_lossy(word), path.display().to_string());
        context.note_verbose(&format!("{:?} is in {}", one_line(&word), one_line(&path)));
    }
    if context.json {
        let mut output = context.plain_output();
        output.json(&row)?;
        output.finish()?;
        return Ok(outcome);
    }
    context.note(&format!("erased {}", count(sessions.len(), "session")));
    for home in &row.homes {
        context.note(&format!("  deleted from {}", one_line(home)));
    }
    if row.documents > 0 {
        let (documents, states) = (count(row.documents, "document"), count(row.states, "earlier state"));
        context.note(&format!("  forgotten by the store: {documents}, {states}"));
    }
    for home in row.cleared.iter().filter(|home| home.bytes_before > 0) {
        let (before, after) = (bytes(home.bytes_before), bytes(home.bytes_after));
        context.note(&format!("  cleared {}: {before} before, {after} now", one_line(home.home)));
    }
    for file in &row.files {
        context.note(&format!("  deleted {}", one_line(file)));
    }
    for lines in &row.lines {
        context.note(&format!("  erased {} of {}", count(lines.lines, "line"), one_line(&lines.file)));
    }
    if row.snapshot_objects > 0 {
        context.note(&format!("  erased {} of snapshots", count(row.snapshot_objects, "object")));
    }
    for backup in &row.backups {
        context.note(&format!("  erased from {}", one_line(backup)));
    }
    let again =
        format!("`annals purge {}`", sessions.iter().map(SessionId::as_str).collect::<Vec<_>>().join(" "));
    for home in &row.cleared {
        let place = one_line(home.home);
        if let [pid, ..] = home.users {
            context.warn(&format!(
                "process {pid} has {place} open, so remains may be left in pages that are in use; end it and run {again} again"
            ));
        } else if home.log_left {
            context.warn(&format!(
                "a reader keeps the log of {place} in use; run {again} again when it has ended"
            ));
        }
    }
    for home in &row.still_in {
        context.warn(&format!(
            "still in {}, which is not one of your homes or cannot be reached (`annals purge --home {} …` erases there)",
            one_line(home),
            shell_word(home)
        ));
    }
    for left in &row.left {
        context.warn(&format!("not erased: {}: {}", one_line(left.place), one_line(left.why)));
    }
    for warning in purged.forgotten.iter().flat_map(store_warnings) {
        context.warn(&warning);
    }
    for (path, error) in &searched.unreadable {
        context.warn(&format!("not searched: {}: {error}", one_line(&path.display().to_string())));
    }
    for found in &row.remains {
        context.warn(&format!(
            "{} of them found in {} (`-v` lists them)",
            count(found.words, "word"),
            one_line(&found.file)
        ));
    }
    let (files, size) = (count(searched.files, "file"), bytes(searched.bytes));
    if row.remains.is_empty() {
        context.note(&format!("searched {files} ({size}): no word of them is left"));
    }
    Ok(outcome)
}

fn store_warnings(forgotten: &annals::upkeep::Forgotten) -> Vec<String> {
    let mut warnings = Vec::new();
    if let Some(why) = &forgotten.not_rewritten {
        warnings.push(format!(
            "remains may be left in unused parts of the store, which could not be rewritten: {why}"
        ));
    }
    if let Some(why) = &forgotten.index_left {
        warnings.push(format!("the text index may still hold them: {why} (`annals reindex` rebuilds it)"));
    }
    if !forgotten.log_emptied {
        warnings
            .push("another process is reading the store; remains stay in its log until it ends".to_owned());
    }
    warnings
}
