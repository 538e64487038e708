//! `annals check`

use std::collections::BTreeMap;
use std::io::Write;

use annals::check::{Problem, ProblemKind};
use annals::home::Read;
use annals::query::SessionQuery;
use serde::Serialize;

use crate::context::Context;
use crate::error::{CommandResult, Outcome};
use crate::text::{count, one_line, wrap};

/// Look for damage: unreadable files, references to nothing, answers that never ended
///
/// Reads every document. Exits with 3 if anything is wrong.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  annals check
  annals check --json | jq '.problems[] | select(.kind == \"unreadable\")'")]
pub(crate) struct CheckArgs {
    /// Show every problem, not only the first few of each kind
    #[arg(short, long)]
    all: bool,
}

#[derive(Serialize)]
struct CheckJson {
    problems: Vec<ProblemJson>,
}

#[derive(Serialize)]
struct ProblemJson {
    kind: &'static str,
    path: String,
    id: Option<String>,
    detail: String,
    repair: &'static str,
}

/// So many problems of a kind are shown at first.
const SHOWN: usize = 5;

pub(crate) fn run(context: &Context, args: &CheckArgs) -> CommandResult {
    let homes = context.open()?;
    let home = homes.read();
    let n_sessions = home.sessions(&SessionQuery::default())?.value.len();
    let progress = context.progress(n_sessions, "checking sessions");
    let problems = home.check(context.clock.now, &|| progress.advance())?;
    drop(progress);
    let outcome = if problems.is_empty() { Outcome::Done } else { Outcome::WithProblems };
    let mut output = if context.json { context.plain_output() } else { context.paged_output() };
    if context.json {
        let problems = problems.into_iter().map(|problem| ProblemJson {
            kind: problem.kind.name(),
            path: problem.place,
            id: problem.id,
            detail: problem.detail,
            repair: problem.kind.repair(),
        });
        output.json(&CheckJson { problems: problems.collect() })?;
        output.finish()?;
        return Ok(outcome);
    }
    let paint = output.paint;
    let mut by_kind: BTreeMap<ProblemKind, Vec<&Problem>> = BTreeMap::new();
    for problem in &problems {
        by_kind.entry(problem.kind).or_default().push(problem);
    }
    for (kind, problems) in &by_kind {
        let title = format!("{} {}", problems.len(), kind.name());
        let sign =
            if *kind == ProblemKind::Unreadable { paint.bad_bold(title) } else { paint.warn_bold(title) };
        output.line(format!("{sign} {}", paint.dim(format!("— {}", kind.repair()))))?;
        let shown = if args.all { problems.len() } else { SHOWN };
        for problem in problems.iter().take(shown) {
            output.line(format!("  {}", one_line(&problem.place)))?;
            for line in wrap(&one_line(&problem.detail), output.width.saturating_sub(4)) {
                output.line(format!("    {}", paint.dim(line)))?;
            }
        }
        if problems.len() > shown {
            let more = format!("  … and {} more; `--all` shows them", problems.len() - shown);
            output.line(paint.dim(more))?;
        }
    }
    if problems.is_empty() {
        writeln!(output, "{} {} in order", paint.good("✓"), count(n_sessions, "session"))?;
    } else {
        output.line(format!("{} in {}", count(problems.len(), "problem"), count(n_sessions, "session")))?;
    }
    output.finish()?;
    Ok(outcome)
}
