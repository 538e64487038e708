//! `annals check`

use std::collections::{BTreeMap, HashSet};

use annals::check::{Problem, ProblemKind, Severity};
use annals::home::{Read, Write};
use annals::open;
use annals::ops::{self, FixOptions, Fixed, LeftReason, OperationKind};
use annals::query::SessionQuery;
use annals::sync::Stage;
use annals::wire;

use crate::context::Context;
use crate::error::{CliError, CommandResult, Outcome};
use crate::homes::Homes;
use crate::output::Output;
use crate::text::{count, cut, one_line, shell_word, shown_title, wrap};

/// Look for damage: unreadable files, references to nothing, answers that never ended
///
/// Reads every document of the store and of OpenCode's homes. Problems are errors (something cannot be read, or OpenCode fails on it),
/// warnings, or notes (remains of something that was interrupted or deleted). Exits with code 3 for errors and warnings.
///
/// With `--fix`, turns that were interrupted are closed first, as OpenCode closes a turn that you abort: calls that never ended have
/// failed, the answer ends with an error. That is done in all your homes that hold the session; `annals undo` takes it back.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  annals check
  annals check --fix
  annals check --json | jq '.problems[] | select(.kind == \"unreadable\")'")]
pub(crate) struct CheckArgs {
    /// Show every problem, not only the first few of each kind
    #[arg(short, long)]
    all: bool,
    /// Close turns that were interrupted, unless an agent may be at work on them
    #[arg(long)]
    fix: bool,
    /// With `--fix`: close turns of sessions that changed in the last ten minutes, too
    #[arg(long, requires = "fix")]
    force: bool,
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
    let fixed = match args.fix {
        true => Some(fix(context, &homes, args.force)?),
        false => None,
    };
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
    let is_refused =
        |fixed: &Fixed| fixed.left.iter().any(|turn| matches!(turn.reason, LeftReason::Refused(_)));
    let is_serious = |located: &LocatedProblem| located.problem.kind.severity() < Severity::Note;
    let outcome = match !problems.iter().any(is_serious) && !fixed.as_ref().is_some_and(is_refused) {
        true => Outcome::Done,
        false => Outcome::WithProblems,
    };
    let mut output = if context.json { context.plain_output() } else { context.paged_output() };
    if context.json {
        let problems =
            problems.iter().map(|LocatedProblem { home, problem }| wire::Problem::of(problem, home));
        let fix = fixed.as_ref().map(Into::into);
        output.json(&wire::CheckReport { problems: problems.collect(), fix })?;
        output.finish()?;
        return Ok(outcome);
    }
    if let Some(fixed) = &fixed {
        report_fix(context, &mut output, fixed)?;
    }
    let screen = ProblemScreen { context, home: &home, n_shown: if args.all { usize::MAX } else { SHOWN } };
    screen.print(&mut output, &problems, n_sessions)?;
    output.finish()?;
    Ok(outcome)
}

/// Problems on the screen.
struct ProblemScreen<'s> {
    context: &'s Context,
    home: &'s dyn Read,
    /// Limit on the problems of a kind.
    n_shown: usize,
}

impl ProblemScreen<'_> {
    /// Prints problems: the worst first, those of a kind in a home together, with the command that repairs them.
    fn print(
        &self,
        output: &mut Output,
        problems: &[LocatedProblem],
        n_sessions: usize,
    ) -> Result<(), CliError> {
        let paint = output.paint;
        let mut groups: BTreeMap<(Severity, ProblemKind, &str), Vec<&Problem>> = BTreeMap::new();
        for LocatedProblem { problem, home } in problems {
            groups.entry((problem.kind.severity(), problem.kind, home)).or_default().push(problem);
        }
        for ((severity, kind, home), problems) in &groups {
            let title = format!("{} {}", problems.len(), kind.name());
            let title = match severity {
                Severity::Error => paint.bad_bold(format!("error: {title}")),
                Severity::Warning => paint.warn_bold(format!("warning: {title}")),
                Severity::Note => paint.bold(format!("note: {title}")),
            };
            output.line(format!("{title} {}", paint.dim(format!("in {}", one_line(home)))))?;
            let repair = kind.repair().replace("THIS", &shell_word(home));
            for line in wrap(&repair, output.width.saturating_sub(2)) {
                output.line(format!("  {}", paint.dim(line)))?;
            }
            for problem in problems.iter().take(self.n_shown) {
                self.print_one(output, problem)?;
            }
            if problems.len() > self.n_shown {
                let more = format!("  … and {} more; `--all` shows them", problems.len() - self.n_shown);
                output.line(paint.dim(more))?;
            }
        }
        let n_of = |severity: Severity| {
            problems.iter().filter(|located| located.problem.kind.severity() == severity).count()
        };
        let counts = [(Severity::Error, "error"), (Severity::Warning, "warning"), (Severity::Note, "note")];
        let counts: Vec<String> = counts
            .into_iter()
            .map(|(severity, noun)| (n_of(severity), noun))
            .filter(|(n, _)| *n > 0)
            .map(|(n, noun)| count(n, noun))
            .collect();
        let sessions = count(n_sessions, "session");
        match counts.is_empty() {
            true => output.line(format!("{} no problems in {sessions}", paint.good("✓")))?,
            false => output.line(format!("{} in {sessions}", counts.join(", ")))?,
        }
        Ok(())
    }

    fn print_one(&self, output: &mut Output, problem: &Problem) -> std::io::Result<()> {
        let paint = output.paint;
        output.line(format!("  {}", one_line(&problem.place)))?;
        for line in wrap(&one_line(&problem.detail), output.width.saturating_sub(4)) {
            output.line(format!("    {}", paint.dim(line)))?;
        }
        let session = problem.session.as_ref().and_then(|id| self.home.session(id).ok().flatten());
        if let Some(session) = session {
            let when = self.context.clock.when(session.info.last_used());
            let line = format!("session {}  {when}  {}", session.id, shown_title(session.info.title()));
            output.line(format!("    {}", paint.dim(cut(&line, output.width.saturating_sub(4)))))?;
        }
        Ok(())
    }
}

/// Closes turns that were interrupted.
fn fix(context: &Context, homes: &Homes, force: bool) -> Result<Fixed, CliError> {
    let options = FixOptions { force, now: context.clock.now };
    context.operate(homes, |workspace| {
        Ok(ops::close_interrupted(workspace, context.request(OperationKind::Fix), options)?)
    })
}

fn report_fix(context: &Context, output: &mut Output, fixed: &Fixed) -> Result<(), CliError> {
    let paint = output.paint;
    for turn in &fixed.closed {
        let what = match (turn.answers, turn.calls) {
            (answers, 0) => count(answers, "answer"),
            (0, calls) => count(calls, "call"),
            (answers, calls) => format!("{} and {}", count(answers, "answer"), count(calls, "call")),
        };
        output.line(format!("{} closed {what} of {}", paint.good("✓"), paint.id(&turn.session)))?;
        output.line(format!("    {}", paint.dim(one_line(&turn.place))))?;
    }
    for turn in &fixed.left {
        let reason = match &turn.reason {
            LeftReason::Recent(changed) => {
                format!("it changed {}; `--force` closes it", context.clock.when(*changed))
            }
            reason => one_line(&reason.to_string()),
        };
        output.line(format!("{} left {}: {reason}", paint.warn("!"), paint.id(&turn.session)))?;
        output.line(format!("    {}", paint.dim(one_line(&turn.place))))?;
    }
    if fixed.closed.is_empty() && fixed.left.is_empty() {
        output.line("no turn was interrupted")?;
    }
    if !fixed.closed.is_empty() {
        context.report_operation(&fixed.report);
    }
    Ok(())
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
