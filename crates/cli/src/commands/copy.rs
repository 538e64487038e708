//! `annals copy`

use std::path::{Path, PathBuf};

use annals::HomeUrl;
use annals::copy::{CopyError, CopyFailure, CopyOptions, CopyOutcome, copy};
use annals::family::Family;
use annals::home::{Read, Write};
use annals::homes::UnionHome;
use annals::homes::opencode::database::Generation;
use annals::open::{OpenError, open_all, open_or_create, path_of};
use annals::ops::{OperationKind, Report, Written};
use annals::project::IdentityRule;
use annals::query::SessionQuery;
use annals::wire;

use crate::context::Context;
use crate::error::{CliError, CommandResult, Outcome, report_quarantine};
use crate::kept::{self, DifferenceArgs};
use crate::text::{count, grouped, one_line};

/// Copy sessions from one home to another
///
/// A home is an OpenCode directory or database, or a store of annals. Each session is copied with everything that belongs to
/// it, and with the sessions it started. Documents that the target lacks are added. A document that differs is replaced only
/// if the target's version is provably the earlier one; every other difference is reported and stays as it is in the target,
/// unless `--theirs` is given. So a copy can be repeated, and one that was cut short continues where it stopped. Nothing is
/// deleted anywhere. OpenCode may be running on either home.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  annals copy --from ~/.local/share/opencode/storage --to ~/.local/share/opencode/opencode.db
                                                  bring sessions of OpenCode 1.1 into the database of 1.2 and later
  annals copy --from old.db --to new.db last      one session, with those it started
  annals copy --from opencode.db --to backup/     a directory as OpenCode 1.1 keeps it
  annals copy --from broken.db --to new.db        save what can be read of a damaged database
  annals copy --from backup/ --to opencode.db --theirs 36f8c1
                                                  documents that differ become what they are in the backup
  annals copy --from ~/.local/share/annals/annals.db --to ~/.local/share/opencode/opencode.db 36f8c1
                                                  give a deleted session back to OpenCode")]
pub(crate) struct CopyArgs {
    /// Home to copy from; your own homes if left out
    #[arg(long, value_name = "PATH")]
    from: Option<String>,
    /// Home to copy to; created if it does not exist: a store if it is called `annals….db`, a database if it ends in `.db`,
    /// otherwise a directory
    #[arg(long, value_name = "PATH")]
    to: String,
    /// Sessions: ids, beginnings of ids, `last`, or pieces of titles; all if none is named
    #[arg(value_name = "SESSION", conflicts_with = "all")]
    sessions: Vec<String>,
    /// All sessions
    #[arg(long)]
    all: bool,
    /// Also add missing documents to sessions that were used more recently in the target
    #[arg(long)]
    merge: bool,
    #[command(flatten)]
    difference: DifferenceArgs,
    /// Only show what would be copied
    #[arg(short = 'n', long)]
    dry_run: bool,
}

impl CopyArgs {
    /// Everything of one home into another.
    pub(crate) fn between(from: &str, to: &str, dry_run: bool) -> CopyArgs {
        CopyArgs {
            from: Some(from.to_owned()),
            to: to.to_owned(),
            sessions: Vec::new(),
            all: true,
            merge: false,
            difference: DifferenceArgs::default(),
            dry_run,
        }
    }
}

pub(crate) fn run(context: &Context, args: &CopyArgs) -> CommandResult {
    let target = HomeUrl::parse(&args.to).map_err(OpenError::from)?;
    let target_path = path_of(&target)?;
    let sources: Vec<Box<dyn Write>> = match &args.from {
        Some(from) => open_all(from)?,
        None => context.open_directly()?,
    };
    // Sessions from a database of 1.16 or later go into a database like it; all others into one that any version opens.
    let is_late = sources.iter().any(|home| home.identity_rule() == IdentityRule::Remote);
    let generation = if is_late { Generation::Latest } else { Generation::Portable };
    // A data directory may hold the target as well.
    let is_target = |home: &dyn Write| home.url().path().is_some_and(|path| same_place(path, target_path));
    let sources: Vec<&dyn Read> =
        sources.iter().filter(|home| !is_target(&***home)).map(|home| &**home as &dyn Read).collect();
    if sources.is_empty() {
        return Err(CliError::usage("the homes to copy from and to are the same"));
    }
    let from = UnionHome::new(sources);
    let found = context.sessions(&from, &SessionQuery::default())?;
    let mut sessions = match &args.sessions[..] {
        [] => found.value,
        named => {
            let mut wanted = Vec::new();
            for name in named {
                let session = context.session(&from, name);
                wanted.push(session.map_err(|error| only_in_target(context, args, name).unwrap_or(error))?);
            }
            Family::of(&found.value).with_descendants(wanted)
        }
    };
    // The oldest first, so that rows lie in the order of time.
    sessions.reverse();
    let unreadable = if args.sessions.is_empty() { found.quarantined } else { Vec::new() };
    let options = CopyOptions {
        dry_run: args.dry_run,
        merge: args.merge,
        on_difference: args.difference.choice(),
        now: context.clock.now,
        git: PathBuf::from("git"),
    };
    let progress = context.progress(sessions.len(), "copying sessions");
    let ((mut account, failure), report) = if args.dry_run {
        let to = open_target(args, target_path, generation)?;
        let copied = copy(&from, to.home(), sessions, &options, &|| progress.advance());
        let (mut account, failure) = parts_of(copied);
        to.name_files(target_path, &mut account.files);
        ((account, failure), Report::default())
    } else {
        // The target is created first, with the tables that suit the sessions to copy.
        drop(open_or_create(&target, generation)?);
        context.write_to(&context.target_of(&target)?, OperationKind::Copy, |to| {
            let (account, failure) = parts_of(copy(&from, to, sessions, &options, &|| progress.advance()));
            let sessions = account.copied.iter().map(|session| session.id.clone()).collect();
            Written { sessions, files: account.files.clone(), value: (account, failure) }
        })?
    };
    drop(progress);
    account.documents.seen += unreadable.len();
    account.documents.quarantined += unreadable.len();
    account.quarantined.splice(0..0, unreadable);
    print(context, args, &account, &report)?;
    match failure {
        Some(CopyFailure::Read(error)) => Err(unfinished(error.into())),
        Some(CopyFailure::Commit(error)) => Err(unfinished(error.into())),
        Some(failure) => Err(unfinished(CliError::new(failure))),
        None if account.quarantined.is_empty() => Ok(Outcome::Done),
        None => Ok(report_quarantine(&account.quarantined, context.stderr_paint())),
    }
}

/// The error for a session that no source has, if the target has it.
fn only_in_target(context: &Context, args: &CopyArgs, name: &str) -> Option<CliError> {
    let target = open_all(&args.to).ok()?;
    let target = UnionHome::new(target.iter().map(|home| &**home as &dyn Read).collect());
    let session = context.session(&target, name).ok()?;
    let error = CliError::new(format!(
        "session {} is already in {}, and none of the homes to copy from has it",
        session.id, args.to
    ));
    Some(error.hint("nothing was copied; `--from` names another home, `--to` another target"))
}

fn unfinished(error: CliError) -> CliError {
    error.hint("everything counted above is safe in the target; run the same command again to copy the rest")
}

/// The target, or for a dry run without one an empty stand-in.
struct CopyTarget {
    home: Box<dyn Write>,
    stand_in: Option<tempfile::TempDir>,
}

impl CopyTarget {
    fn home(&self) -> &dyn Write {
        &*self.home
    }

    /// Gives files beside the stand-in the paths they would have beside the target.
    fn name_files(&self, target: &Path, files: &mut [PathBuf]) {
        let Some((stand_in, beside)) = self.stand_in.as_ref().zip(target.parent()) else { return };
        for file in files {
            if let Ok(inside) = file.strip_prefix(stand_in.path()) {
                *file = beside.join(inside);
            }
        }
    }
}

fn open_target(args: &CopyArgs, path: &Path, generation: Generation) -> Result<CopyTarget, CliError> {
    if !args.dry_run || path.exists() {
        return Ok(CopyTarget { home: open_or_create(path, generation)?, stand_in: None });
    }
    let stand_in = tempfile::tempdir()
        .map_err(|error| CliError::new(format!("cannot create a temporary directory: {error}")))?;
    let name = path.file_name().unwrap_or("home".as_ref());
    let home = open_or_create(&stand_in.path().join(name), generation)?;
    Ok(CopyTarget { home, stand_in: Some(stand_in) })
}

fn same_place(a: &Path, b: &Path) -> bool {
    match (a.canonicalize(), b.canonicalize()) {
        (Ok(a), Ok(b)) => a == b,
        _ => false,
    }
}

/// Limit on the copied sessions that are named.
const NAMED: usize = 10;

/// The account of a copy, and why it ended early.
fn parts_of(copied: Result<CopyOutcome, CopyError>) -> (CopyOutcome, Option<CopyFailure>) {
    match copied {
        Ok(account) => (account, None),
        Err(error) => (*error.account, Some(error.cause)),
    }
}

fn print(context: &Context, args: &CopyArgs, account: &CopyOutcome, report: &Report) -> Result<(), CliError> {
    if context.json {
        let mut output = context.plain_output();
        output.json(&wire::CopyReport::of(account, args.dry_run, report.operation, one_line))?;
        output.finish()?;
        return Ok(());
    }
    for session in account.copied.iter().take(NAMED) {
        context.note(&one_line(&format!("{}  {}", session.id, session.title)));
    }
    if account.copied.len() > NAMED {
        context.note(&format!("… and {} more", grouped(account.copied.len() - NAMED)));
    }
    let copied = if args.dry_run { "to copy" } else { "copied" };
    for (noun, tally) in [("session", account.sessions), ("document", account.documents)] {
        context.note(&format!(
            "{}: {} {copied}, {} unchanged, {}{} quarantined",
            count(tally.seen, noun),
            grouped(tally.copied),
            grouped(tally.unchanged),
            match tally.differing {
                0 => String::new(),
                n => format!("{} differing, ", grouped(n)),
            },
            grouped(tally.quarantined),
        ));
    }
    for line in remarks(account) {
        context.note(&one_line(&line));
    }
    kept::report(context, &account.differing);
    context.report_operation(report);
    Ok(())
}

/// Further remarks on a copy, a line each.
fn remarks(account: &CopyOutcome) -> Vec<String> {
    let mut lines = Vec::new();
    if !account.completed.is_empty() {
        let mut fields: Vec<&str> =
            account.completed.iter().flat_map(|completion| &completion.fields).map(String::as_str).collect();
        fields.sort_unstable();
        fields.dedup();
        lines.push(format!(
            "{} adapted to what OpenCode 1.18 requires: {}",
            count(account.completed.len(), "document"),
            fields.join(", ")
        ));
    }
    if account.converted > 0 {
        let n = count(account.converted, "message");
        lines.push(format!("{n} copied from OpenCode's second transcript store"));
    }
    for (from, to) in &account.refiled {
        lines.push(format!("project {from} is filed under {to}, the id this OpenCode looks for"));
    }
    if account.tool_outputs > 0 {
        lines.push(format!("{} of long tool output copied as well", count(account.tool_outputs, "file")));
    }
    if account.tool_outputs_left > 0 {
        let n = count(account.tool_outputs_left, "file");
        lines.push(format!("not copied, the target has no place for it: {n} of long tool output"));
    }
    for path in &account.cached_ids {
        lines.push(format!(
            "{} written: later versions of OpenCode use it to find the project's sessions",
            path.display()
        ));
    }
    if !account.newer_in_target.is_empty() {
        lines.push(format!(
            "{} used more recently in the target and left alone; `--merge` adds missing documents",
            count(account.newer_in_target.len(), "session")
        ));
    }
    if account.only_in_target > 0 {
        let n = count(account.only_in_target, "message");
        lines.push(format!("{n} of these sessions are only in the target, and stay there"));
    }
    for (member, n) in &account.lost {
        lines.push(format!("not copied, the target has no place for it: {member} ({})", count(*n, "time")));
    }
    for (noun, n) in &account.not_held {
        lines.push(format!("not copied, the target cannot hold them: {}", count(*n, noun)));
    }
    lines
}
