//! `annals check`

use std::collections::{BTreeMap, HashSet};

use annals::check::{Problem, ProblemKind};
use annals::home::{Read, Write};
use annals::open;
use annals::query::SessionQuery;
use annals::sync::Stage;
use annals::wire;

use crate::context::Context;
use crate::error::{CliError, CommandResult, Outcome};
use crate::homes::Homes;
use crate::text::{count, one_line, width, wrap};

/// Look for damage: unreadable files, references to nothing, answers that never ended
///
/// Reads every document of the store and of OpenCode's homes. Exits with code 3 if it finds a problem.
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

/// A problem, and the home that has it.
struct LocatedProblem {
    home: String,
    problem: Problem,
}

/// Limit on the problems of a kind, without `--all`.
const SHOWN: usize = 5;

pub(crate) fn run(context: &Context, args: &CheckArgs) -> CommandResult {
    let homes = context.open(Stage::Parts)?;
    let home = homes.read();
    let count_sessions =
        |home: &dyn Read| home.sessions(&SessionQuery::default()).map_or(0, |found| found.value.len());
    let n_sessions = count_sessions(&home);
    let progress = context.progress(n_sessions, "checking sessions");
    let check = |home: &dyn Read| -> Result<Vec<LocatedProblem>, CliError> {
        let Some(inspected) = home.inspect() else { return Ok(Vec::new()) };
        let found = inspected.check(context.clock.now, &|| progress.advance())?;
        Ok(found
            .into_iter()
            .map(|problem| LocatedProblem { home: home.url().to_string(), problem })
            .collect())
    };
    let problems = match &homes {
        // A problem in a home must be repaired there, and some problems never get into the store.
        Homes::Store(store) if !store.is_named => {
            let (direct, mut problems) = open_own(context);
            for home in &direct {
                progress.expect(count_sessions(&**home));
                match check(&**home) {
                    Ok(found) => problems.extend(found),
                    // A home that cannot be checked does not hide the others.
                    Err(error) => problems.push(refused(home.url().to_string(), &error)),
                }
            }
            let key = |LocatedProblem { problem, .. }: &LocatedProblem| (problem.kind, problem.place.clone());
            let id =
                |LocatedProblem { problem, .. }: &LocatedProblem| Some((problem.kind, problem.id.clone()?));
            let places: HashSet<_> = problems.iter().map(key).collect();
            let ids: HashSet<_> = problems.iter().filter_map(id).collect();
            problems.extend(check(&home)?.into_iter().filter(|located| {
                !places.contains(&key(located)) && id(located).is_none_or(|id| !ids.contains(&id))
            }));
            problems
        }
        Homes::Store(store) => check(&*store.annals)?,
        Homes::Direct(homes) => {
            let mut problems = Vec::new();
            for home in homes {
                match check(&**home) {
                    Ok(found) => problems.extend(found),
                    Err(error) if homes.len() > 1 => problems.push(refused(home.url().to_string(), &error)),
                    Err(error) => return Err(error),
                }
            }
            problems
        }
    };
    drop(progress);
    let outcome = if problems.is_empty() { Outcome::Done } else { Outcome::WithProblems };
    let mut output = if context.json { context.plain_output() } else { context.paged_output() };
    if context.json {
        let problems =
            problems.iter().map(|LocatedProblem { home, problem }| wire::Problem::of(problem, home));
        output.json(&wire::CheckReport { problems: problems.collect() })?;
        output.finish()?;
        return Ok(outcome);
    }
    let paint = output.paint;
    let mut by_kind: BTreeMap<ProblemKind, Vec<&Problem>> = BTreeMap::new();
    for LocatedProblem { problem, .. } in &problems {
        by_kind.entry(problem.kind).or_default().push(problem);
    }
    for (kind, problems) in &by_kind {
        let title = format!("{} {}", problems.len(), kind.name());
        let plain_width = width(&title);
        let sign =
            if *kind == ProblemKind::Unreadable { paint.bad_bold(title) } else { paint.warn_bold(title) };
        let columns = output.width.saturating_sub(plain_width + 1);
        match format!("— {}", kind.repair()) {
            repair if width(&repair) <= columns => output.line(format!("{sign} {}", paint.dim(repair)))?,
            _ => {
                output.line(sign)?;
                for line in wrap(kind.repair(), output.width.saturating_sub(2)) {
                    output.line(format!("  {}", paint.dim(line)))?;
                }
            }
        }
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
        output.line(format!("{} no problems in {}", paint.good("✓"), count(n_sessions, "session")))?;
    } else {
        output.line(format!("{} in {}", count(problems.len(), "problem"), count(n_sessions, "session")))?;
    }
    output.finish()?;
    Ok(outcome)
}

/// The user's homes, and a problem for each one that cannot be opened.
fn open_own(context: &Context) -> (Vec<Box<dyn Write>>, Vec<LocatedProblem>) {
    let mut problems = Vec::new();
    for path in context.data_directory.iter().flat_map(|data| open::discover(data).databases) {
        if let Err(error) = open::open(&path) {
            problems.push(refused(path.display().to_string(), &error.into()));
        }
    }
    (context.open_found().unwrap_or_default(), problems)
}

/// A home that could not be opened or checked, as a problem.
fn refused(home: String, error: &CliError) -> LocatedProblem {
    let detail = [std::slice::from_ref(&error.message), &error.details[..]].concat().join("; ");
    let problem =
        Problem { kind: ProblemKind::Unreadable, place: home.clone(), id: None, session: None, detail };
    LocatedProblem { home, problem }
}
