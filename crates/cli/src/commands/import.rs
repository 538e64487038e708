//! `annals import`

use std::io::Read as _;
use std::path::Path;

use annals::import::{Existing, import, refile};
use annals::model::Document;
use annals::model::format::{ImportError, jsonl, opencode};
use annals::model::id::ProjectId;
use annals::ops::{OperationKind, Written};
use annals::wire;

use crate::context::Context;
use crate::error::{CliError, CommandResult};
use crate::kept::{self, DifferenceArgs};
use crate::text::{count, one_line};

/// Import exported sessions
///
/// Reads what `annals export` (opencode and jsonl) or `opencode export` wrote. Everything is checked before anything is
/// written, and all of it is written in one transaction. Ids are kept. Sessions go to OpenCode's home, or to the store
/// if OpenCode has no home here.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  annals import session.json
  annals export last --home old | annals import - --home new
  annals import session.json --dir .   file it under this directory's project")]
pub(crate) struct ImportArgs {
    /// File to read; `-` is standard input
    file: String,
    /// Add to sessions that exist: missing documents are added; a document that differs is replaced only if it is provably the
    /// earlier version, otherwise kept and reported
    #[arg(long)]
    merge: bool,
    #[command(flatten)]
    difference: DifferenceArgs,
    /// File the sessions under the project of this directory, as if they had been opened there
    #[arg(long, value_name = "DIR")]
    dir: Option<String>,
}

pub(crate) fn run(context: &Context, args: &ImportArgs) -> CommandResult {
    if args.difference.is_given() && !args.merge {
        return Err(CliError::usage("`--ours` and `--theirs` apply to sessions that exist: add `--merge`"));
    }
    let target = context.target()?;
    let bytes = read(&args.file)?;
    let git = Path::new("git");
    let identity = |directory: &Path| annals::project::identify(directory, git).map_err(CliError::new);
    let parsed = if jsonl::is_jsonl(&bytes) {
        jsonl::read(&bytes)
    } else {
        let document = Document::parse(bytes).map_err(ImportError::Json);
        document.and_then(|document| {
            // Only sessions from before 0.6 name no project; they are filed where the user is.
            let here =
                identity(&context.current_dir).map_or_else(|_| ProjectId::global(), |identity| identity.id);
            opencode::read(&document, &here)
        })
    };
    let mut imported = parsed.map_err(|error| {
        let name = if args.file == "-" { "standard input" } else { &args.file };
        let mut failed = CliError::new(format!("{name} is not an export"));
        failed.details.push(one_line(&error.to_string()));
        failed.hint(
            "nothing was written; `annals export` and `opencode export` write files that can be imported",
        )
    })?;
    if let Some(directory) = &args.dir {
        let path = context.current_dir.join(directory);
        let path =
            path.canonicalize().map_err(|error| CliError::new(format!("{}: {error}", path.display())))?;
        imported = refile(imported, &identity(&path)?.id, &path);
    }
    // A home may be created only now that there is something to store in it.
    let existing = if args.merge { Existing::Merge(args.difference.choice()) } else { Existing::Refuse };
    let (account, report) = context.write_to(&target, OperationKind::Import, |home| {
        let account = import(home, imported, existing, context.clock.now);
        let sessions = account.as_ref().map(|account| account.sessions.clone()).unwrap_or_default();
        Written { value: account, sessions, files: Vec::new() }
    })?;
    let account = account?;
    if context.json {
        let mut output = context.plain_output();
        output.json(&wire::ImportReport::of(&account, &report))?;
        output.finish()?;
    } else {
        for session in &account.sessions {
            context.note(session.as_str());
        }
        context.note(&format!(
            "{}: {} imported, {} unchanged{} of {} seen",
            count(account.sessions.len(), "session"),
            account.imported,
            account.unchanged,
            match account.differing.len() {
                0 => String::new(),
                n => format!(", {n} differing"),
            },
            count(account.seen, "document"),
        ));
        if account.completed > 0 {
            let n = count(account.completed, "document");
            context.note(&format!("{n} adapted to what OpenCode 1.18 requires"));
        }
        kept::report(context, &account.differing);
        return Ok(context.report_operation(&report));
    }
    Ok(context.outcome_of(&report))
}

fn read(file: &str) -> Result<Vec<u8>, CliError> {
    let mut bytes = Vec::new();
    let read = match file {
        "-" => std::io::stdin().lock().read_to_end(&mut bytes).map(drop),
        path => match std::fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => Err(std::io::Error::other("it is a directory")),
            Ok(_) => std::fs::read(path).map(|read| bytes = read),
            Err(error) => Err(error),
        },
    };
    read.map_err(|error| CliError::new(format!("cannot read {file}: {error}")).hint("nothing was written"))?;
    Ok(bytes)
}
