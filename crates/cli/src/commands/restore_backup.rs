//! `annals restore-backup`

use std::path::PathBuf;

use annals::open::restore_backup;
use annals::wire;

use crate::confirm::agreed;
use crate::context::Context;
use crate::error::{CommandResult, Outcome};
use crate::text::count;

/// Put a backup in the place of the store
///
/// All of it is checked before anything is changed. The store that was there is kept beside it, under another name. The next
/// command syncs what OpenCode has had since.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  annals restore-backup /mnt/disk/annals-2026-02-25.db
  annals restore-backup --store /tmp/look.db backup.db --yes    a store elsewhere, to look around in")]
pub(crate) struct RestoreBackupArgs {
    /// File that `annals backup` has made
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
}

pub(crate) fn run(context: &Context, args: &RestoreBackupArgs) -> CommandResult {
    let store = context.store_to_replace()?;
    let file = context.current_dir.join(&args.file);
    if store.exists() {
        let question = format!("Put it in the place of {}? What is there is kept.", store.display());
        if !agreed(context, args.yes, &question)? {
            context.note("nothing was changed");
            return Ok(Outcome::Done);
        }
    }
    let restored = restore_backup(&file, &store, context.clock.now)?;
    if context.json {
        let mut output = context.plain_output();
        output.json(&wire::RestoredBackup::of(&store, &file, &restored))?;
        output.finish()?;
        return Ok(Outcome::Done);
    }
    context.note(&format!(
        "{} has {} and {} now",
        store.display(),
        count(restored.documents, "document"),
        count(restored.revisions, "revision")
    ));
    if let Some(kept) = restored.kept {
        context.note(&format!("what was there is {}", kept.display()));
    }
    Ok(Outcome::Done)
}
