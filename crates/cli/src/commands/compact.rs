//! `annals compact`

use std::io::Read as _;

use annals::compaction::{self, KEPT_TOKENS};
use annals::home::{Read, SessionRecord};
use annals::ops::{self, CompactOptions, OperationKind};
use annals::sync::Stage;
use annals::wire;

use crate::context::{Context, now};
use crate::error::{CliError, CommandResult, Outcome};
use crate::homes::Homes;
use crate::text::{count, grouped};

/// Compact a session: a summary for the model, or only marks on old results
///
/// With `--summary`, the model gets the summary instead of the conversation before it. With `--prune`, it gets a short note instead of the results
/// of old tool calls. Nothing is deleted. Works in all your homes that hold the session and in the store, as OpenCode would write it there.
/// `annals undo` takes it back.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  annals compact last --summary \"We fixed the empty cart; the tests are missing.\"
  annals compact last --summary - < summary.md
  annals compact last --prune --dry-run")]
#[command(group = clap::ArgGroup::new("what").required(true).args(["summary", "prune"]))]
pub(crate) struct CompactArgs {
    /// Session: an id, the beginning of one, `last`, or a piece of the title
    session: String,
    /// The summary; `-` reads it from standard input
    #[arg(long, value_name = "TEXT|-")]
    summary: Option<String>,
    /// Also tell the model to go on, as OpenCode does when a conversation has become too long
    #[arg(long, requires = "summary")]
    auto: bool,
    /// Model that made the summary, `provider/model`; by default that of the last prompt
    #[arg(long, requires = "summary", value_name = "MODEL")]
    model: Option<String>,
    /// Tokens of the last turns that the model gets beside the summary, in homes of OpenCode 1.16 and later
    #[arg(long, requires = "summary", value_name = "N", default_value_t = KEPT_TOKENS)]
    keep_tokens: u64,
    /// Hide the results of old tool calls from the model, by OpenCode's rule
    #[arg(long)]
    prune: bool,
    /// With `--prune`: only show what would be hidden
    #[arg(long, requires = "prune")]
    dry_run: bool,
}

pub(crate) fn run(context: &Context, args: &CompactArgs) -> CommandResult {
    let options = args.summary.as_deref().map(|summary| options(args, summary)).transpose()?;
    let homes = context.open(Stage::Parts)?;
    let home = homes.read();
    let session = context.session(&home, &args.session)?;
    let Some(options) = options else { return prune(context, &homes, &home, &session, args.dry_run) };
    let compacted = context.operate(&homes, |workspace| {
        // What was reverted is deleted.
        if session.stored.document.root().get("revert").is_some() {
            context.expect_record("changed")?;
        }
        let request = context.request(OperationKind::Compact);
        Ok(ops::compact(workspace, request, &home, &session, &options, now())?)
    })?;
    if context.json {
        let mut output = context.plain_output();
        output.json(&wire::CompactedSession::of(&session.id, &compacted))?;
        output.finish()?;
        return Ok(context.outcome_of(&compacted.report));
    }
    context.note(&format!("{} is compacted; the summary is {}", session.id, compacted.summary));
    if let Some(kept) = &compacted.kept_from {
        context.note(&format!("the model also gets the messages from {kept} on"));
    }
    Ok(context.report_operation(&compacted.report))
}

fn options(args: &CompactArgs, summary: &str) -> Result<CompactOptions, CliError> {
    let mut text = summary.to_owned();
    if summary == "-" {
        text.clear();
        std::io::stdin().read_to_string(&mut text).map_err(|error| {
            CliError::new(format!("cannot read the summary from standard input: {error}"))
        })?;
    }
    if text.trim().is_empty() {
        return Err(CliError::usage("a summary cannot be empty"));
    }
    let model = args.model.as_deref().map(|named| match named.split_once('/') {
        Some((provider, model)) if !provider.is_empty() && !model.is_empty() => {
            Ok((provider.to_owned(), model.to_owned()))
        }
        _ => Err(CliError::usage(format!("{named:?} names no model"))
            .hint("give the provider and the model, as in `anthropic/claude-sonnet-4-5`")),
    });
    Ok(CompactOptions {
        is_auto: args.auto,
        model: model.transpose()?,
        kept_tokens: args.keep_tokens,
        ..CompactOptions::new(text)
    })
}

/// Hides the results of old calls from the model.
fn prune(
    context: &Context,
    homes: &Homes,
    home: &dyn Read,
    session: &SessionRecord,
    is_dry_run: bool,
) -> CommandResult {
    let plan = compaction::plan_prune(home, session)?;
    let report = match is_dry_run || plan.calls.is_empty() {
        true => None,
        false => Some(context.operate(homes, |workspace| {
            let request = context.request(OperationKind::Compact);
            Ok(ops::prune_calls(workspace, request, session, &plan, now())?)
        })?),
    };
    if context.json {
        let mut output = context.plain_output();
        output.json(&wire::PrunedCalls::of(&session.id, &plan, report.as_ref()))?;
        output.finish()?;
        return Ok(report.map_or(Outcome::Done, |report| context.outcome_of(&report)));
    }
    let results = count(plan.calls.len(), "result");
    let tokens = grouped(usize::try_from(plan.tokens).unwrap_or(usize::MAX));
    context.note(&match (&report, plan.calls.is_empty()) {
        (_, true) => format!("nothing to hide: {} has no old results of 20,000 tokens", session.id),
        (None, _) => format!("{results} of about {tokens} tokens would be hidden from the model"),
        (Some(_), _) => format!("{results} of about {tokens} tokens are hidden from the model"),
    });
    Ok(report.map_or(Outcome::Done, |report| context.report_operation(&report)))
}
