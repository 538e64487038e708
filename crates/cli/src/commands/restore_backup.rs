//! `annals restore-backup`

use std::path::PathBuf;

use annals::open::restore_backup;
use annals::wire;

use crate::confirm::agreed;
use crate::context::Context;
use crate::error::{CommandResult, Outcome};
use crate::text::count;

/// Replace the store with a backup
///
/// The whole backup is checked before anything is changed. The old store is kept beside the new one, under another name. The
/// next command syncs what OpenCode has changed since.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  annals restore-backup /mnt/disk/annals-2026-02-25.db
  annals restore-backup --store /tmp/look.db backup.db --yes    a store elsewhere, to look around in")]
pub(crate) struct RestoreBackupArgs {
    /// File that `annals backup` wrote
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
}

pub(crate) fn run(context: &Context, args: &RestoreBackupArgs) -> CommandResult {
    let store = context.store_to_replace()?;
    let file = context.current_dir.join(&args.file);
    if store.exists() {
        let question =
            format!("Replace {} with the backup? The old store is kept under another name.", store.display());
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
        "{} now has {} and {}",
        store.display(),
        count(restored.documents, "document"),
        count(restored.revisions, "revision")
    ));
    if let Some(kept) = restored.kept {
        context.note(&format!("the old store is now {}", kept.display()));
    }
    Ok(Outcome::Done)
}
