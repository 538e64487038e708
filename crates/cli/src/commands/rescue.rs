//! `annals rescue`

use annals::sync::Stage;

use crate::commands::copy::{self, CopyArgs};
use crate::commands::overview::find_left_behind;
use crate::context::Context;
use crate::error::{CommandResult, Outcome};
use crate::text::{count, one_line};

/// Bring sessions that an upgrade of OpenCode left behind into its database
///
/// OpenCode kept sessions in files until 1.1 and keeps them in a database since 1.2. Versions since 1.16 no longer take the files over, and
/// earlier ones left some behind. This copies every session that is only in files into the database beside them, with all that belongs to
/// it. The files stay as they are, sessions that are in both stay as they are in the database, and `annals undo` takes it back.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  annals rescue --dry-run           what would be copied
  annals rescue")]
pub(crate) struct RescueArgs {
    /// Only show what would be copied
    #[arg(short = 'n', long)]
    dry_run: bool,
}

pub(crate) fn run(context: &Context, args: &RescueArgs) -> CommandResult {
    let homes = context.open(Stage::Messages)?;
    let left_behind = find_left_behind(context, &homes)?;
    drop(homes);
    if left_behind.is_empty() {
        context.note("nothing to rescue: no session is in files alone while a database lies beside them");
        if context.json {
            let mut output = context.plain_output();
            output.json_array(std::iter::empty::<()>())?;
            output.finish()?;
        }
        return Ok(Outcome::Done);
    }
    let mut outcome = Outcome::Done;
    for rescue in &left_behind {
        context.note(&format!(
            "{} of {} are not in {}",
            count(rescue.sessions, "session"),
            one_line(&rescue.from),
            one_line(&rescue.to)
        ));
        outcome =
            outcome.and(copy::run(context, &CopyArgs::between(&rescue.from, &rescue.to, args.dry_run))?);
    }
    Ok(outcome)
}
