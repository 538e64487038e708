//! `annals check`

use std::collections::{BTreeMap, HashSet};

use annals::check::{Problem, ProblemKind};
use annals::home::{Read, Several};
use annals::query::SessionQuery;
use annals::sync::Stage;
use serde::Serialize;

use crate::context::Context;
use crate::error::{CommandResult, Outcome};
use crate::homes::Homes;
use crate::text::{count, cut, one_line, width, wrap};

/// Look for damage: unreadable files, references to nothing, answers that never ended
///
/// Reads every document of the store and of OpenCode's homes. Exits with 3 if anything is wrong.
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
    let homes = context.open(Stage::Parts)?;
    let home = homes.read();
    let n_sessions = home.sessions(&SessionQuery::default())?.value.len();
    let progress = context.progress(n_sessions, "checking sessions");
    let advance = || progress.advance();
    let problems = match &homes {
        // What is wrong in a home is to be mended there, and some of it never gets into the store.
        Homes::Store(store) if !store.is_named => {
            let direct = context.open_found().unwrap_or_default();
            let direct = Several::new(direct.iter().map(|home| &**home as &dyn Read).collect());
            progress.expect(direct.sessions(&SessionQuery::default())?.value.len());
            let mut problems = direct.check(context.clock.now, &advance)?;
            let in_store = home.check(context.clock.now, &advance)?;
            let places: HashSet<_> =
                problems.iter().map(|problem| (problem.kind, problem.place.clone())).collect();
            let ids: HashSet<_> =
                problems.iter().filter_map(|problem| Some((problem.kind, problem.id.clone()?))).collect();
            problems.extend(in_store.into_iter().filter(|problem| {
                !places.contains(&(problem.kind, problem.place.clone()))
                    && problem.id.clone().is_none_or(|id| !ids.contains(&(problem.kind, id)))
            }));
            problems
        }
        _ => home.check(context.clock.now, &advance)?,
    };
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
        let columns = output.width.saturating_sub(width(&title) + 1);
        let sign =
            if *kind == ProblemKind::Unreadable { paint.bad_bold(title) } else { paint.warn_bold(title) };
        let repair = format!("— {}", kind.repair());
        output.line(format!("{sign} {}", paint.dim(cut(&repair, columns))))?;
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
        output.line(format!("{} {} in order", paint.good("✓"), count(n_sessions, "session")))?;
    } else {
        output.line(format!("{} in {}", count(problems.len(), "problem"), count(n_sessions, "session")))?;
    }
    output.finish()?;
    Ok(outcome)
}
