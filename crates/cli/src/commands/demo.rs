//! `annals demo`

use crate::context::Context;
use crate::error::{CommandResult, Outcome};

/// Show annals on a sample home, without OpenCode
#[derive(Debug, clap::Args)]
pub(crate) struct DemoArgs {}

pub(crate) fn run(_context: &Context, _args: &DemoArgs) -> CommandResult {
    Ok(Outcome::Done)
}
