//! `annals backup`

use std::path::PathBuf;

use annals::sync::Stage;
use annals::wire;

use crate::context::Context;
use crate::error::{CommandResult, Outcome};
use crate::text::{bytes, count};

/// Copy the store, with all history, to a file
///
/// The copy is of one moment, even while other processes write. It gets its name only after every page, reference and hash in
/// it was checked. The copy is itself a store: `--home FILE` reads it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  annals backup /mnt/disk/annals-2026-02-25.db
  annals --home /mnt/disk/annals-2026-02-25.db list
  annals restore-backup /mnt/disk/annals-2026-02-25.db")]
pub(crate) struct BackupArgs {
    /// File to create
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

pub(crate) fn run(context: &Context, args: &BackupArgs) -> CommandResult {
    let store = context.open_store(Stage::Parts, "is not a store")?.annals;
    let file = context.current_dir.join(&args.file);
    let progress = context.progress(0, "copying pages");
    let report = store.backup(&file, &|done, total| progress.reach(done, total))?;
    drop(progress);
    if context.json {
        let mut output = context.plain_output();
        output.json(&wire::Backup::of(&store.url().to_string(), &file, &report))?;
        output.finish()?;
    } else {
        context.note(&format!(
            "{}: {}, {}, {}, all of it checked",
            args.file.display(),
            count(report.documents, "document"),
            count(report.revisions, "revision"),
            bytes(report.bytes)
        ));
    }
    Ok(Outcome::Done)
}
