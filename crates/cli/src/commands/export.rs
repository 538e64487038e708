//! `annals export`

use std::collections::HashSet;
use std::io::Write;
use std::path::{Path, PathBuf};

use annals::home::{MessageDetail, MessageRange, MessageRecord, Quarantined, Read, SessionRecord};
use annals::model::format::jsonl;
use annals::model::format::opencode::ExportWriter;
use annals::model::render::markdown::{MarkdownDetail, MarkdownWriter};
use annals::model::{Key, Provenance};
use annals::query::SessionQuery;
use annals::sync::Stage;
use clap::ValueEnum;

use crate::context::Context;
use crate::error::{CliError, CommandResult, report_quarantine};
use crate::homes::parts_awaited;
use crate::moment::{note_unfinished, parse_moment, unfinished_then};
use crate::text::{count, harmless};

/// Write sessions to a file or standard output
///
/// The format follows the name of the file: `.json` is what `opencode export` prints, `.jsonl` is complete, `.md` is for reading.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  annals export last > session.json              what `opencode export` prints
  annals export last -o talk.md                  Markdown, by the name of the file
  annals export last -o talk.md --tools brief --no-reasoning
  annals export 36f8c1 --children -o backup.jsonl
  annals export --all -o everything.jsonl        all sessions; `annals import` takes them back
  annals export last --message msg_c90735466001  only some messages
  annals export last --at 42 > before.json       as it was at revision 42")]
pub(crate) struct ExportArgs {
    /// Sessions: ids, beginnings of ids, `last`, or pieces of titles
    #[arg(value_name = "SESSION", conflicts_with = "all")]
    sessions: Vec<String>,
    /// All sessions
    #[arg(long, conflicts_with_all = ["message", "part", "at"])]
    all: bool,
    /// Format of the output; the default follows the name of the file, and is `opencode` without one
    #[arg(short, long, value_enum)]
    format: Option<ExportFormat>,
    /// In Markdown: what to write of tool calls
    #[arg(long, value_enum, value_name = "HOW")]
    tools: Option<MarkdownTools>,
    /// In Markdown: leave out reasoning
    #[arg(long)]
    no_reasoning: bool,
    /// Only these messages, by id or the beginning of one
    #[arg(long, value_name = "MESSAGE")]
    message: Vec<String>,
    /// Only these parts, by id or the beginning of one
    #[arg(long, value_name = "PART")]
    part: Vec<String>,
    /// Also export the sessions they started
    #[arg(long)]
    children: bool,
    /// As they were at this moment: the number of a revision, or a time (2026-02-01T10:00, 12h, yesterday)
    #[arg(long, value_name = "REV|TIME")]
    at: Option<String>,
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace the file if it exists
    #[arg(long, requires = "output")]
    force: bool,
}

impl ExportArgs {
    /// The format that was asked for, by name or by the name of the file.
    fn format(&self) -> ExportFormat {
        let extension =
            self.output.as_deref().and_then(Path::extension).map(|name| name.to_ascii_lowercase());
        let by_name = match extension.as_deref().and_then(|name| name.to_str()) {
            Some("md" | "markdown") => ExportFormat::Markdown,
            Some("jsonl" | "ndjson") => ExportFormat::Jsonl,
            _ => ExportFormat::Opencode,
        };
        self.format.unwrap_or(by_name)
    }

    /// What Markdown tells beside what was said.
    fn detail(&self) -> MarkdownDetail {
        let tools = self.tools.unwrap_or(MarkdownTools::Full);
        MarkdownDetail {
            calls: tools != MarkdownTools::None,
            output: tools == MarkdownTools::Full,
            reasoning: !self.no_reasoning,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ExportFormat {
    /// The document that `opencode export` prints; several sessions are printed one after the other
    #[value(alias = "json")]
    Opencode,
    /// One document per line, complete and byte for byte, todo lists and diffs included
    Jsonl,
    /// Markdown, for reading
    #[value(alias = "md")]
    Markdown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum MarkdownTools {
    /// Everything they printed and changed
    Full,
    /// A line each
    Brief,
    /// Nothing
    None,
}

pub(crate) fn run(context: &Context, args: &ExportArgs) -> CommandResult {
    let format = args.format();
    if format != ExportFormat::Markdown && args.detail() != MarkdownDetail::FULL {
        return Err(CliError::usage(
            "`--tools` and `--no-reasoning` are for Markdown: the other formats are complete",
        )
        .hint("`--format markdown`, or a file that ends with `.md`"));
    }
    // A pipe or device is there to be written to.
    if let Some(path) = args.output.as_deref().filter(|path| path.is_file() && !args.force) {
        return Err(CliError::new(format!("{} exists", path.display()))
            .hint("nothing was written; `--force` replaces it"));
    }
    let moment = args.at.as_deref().map(|at| parse_moment(at, &context.clock)).transpose()?;
    let homes = context.open_for(Stage::Parts, moment)?;
    let view = homes.view(moment)?;
    let home: &dyn Read = &*view;
    let mut sessions: Vec<SessionRecord> = Vec::new();
    let mut seen = HashSet::new();
    if args.all {
        sessions = context.sessions(home, &SessionQuery::default())?.value;
        seen.extend(sessions.iter().map(|session| session.id.clone()));
    }
    let named: Vec<Option<&str>> = match (&args.sessions[..], args.all) {
        ([], false) => vec![None],
        (named, _) => named.iter().map(|name| Some(name.as_str())).collect(),
    };
    for wanted in named {
        let session = view.session(context, wanted)?;
        let family = match args.children {
            true => annals::remove::plan(home, session)?.sessions,
            false => vec![session],
        };
        sessions.extend(family.into_iter().filter(|session| seen.insert(session.id.clone())));
    }
    let form = ExportForm { format, detail: args.detail() };
    let selection = Selection { messages: &args.message, parts: &args.part };
    let mut left = ExportGaps::default();
    match &args.output {
        None => {
            let mut output = context.plain_output();
            let is_terminal = output.is_terminal;
            let mut sink = |bytes: &[u8]| match format {
                // Control sequences are removed only for a terminal; a file gets every byte.
                ExportFormat::Markdown if is_terminal => {
                    output.write_all(harmless(&String::from_utf8_lossy(bytes)).as_bytes())
                }
                _ => output.json_text(bytes),
            };
            write(home, &sessions, form, selection, &mut sink, &mut left)?;
            output.finish()?;
        }
        Some(path) => {
            let to_file =
                |error: std::io::Error| CliError::new(format!("cannot write {}: {error}", path.display()));
            write_file(path, |sink| write(home, &sessions, form, selection, sink, &mut left), to_file)?;
        }
    }
    if left.n_left_out > 0 {
        context.note(&format!(
            "note: {} of OpenCode's second transcript store left out, as `opencode export` does; `--format jsonl` and `markdown` include them",
            count(left.n_left_out, "message")
        ));
    }
    note_unfinished(context, left.n_unfinished);
    let outcome = report_quarantine(&left.quarantined, context.stderr_paint());
    Ok(outcome.and(context.report_awaited(left.n_awaited)))
}

/// Writes a file that appears only when it is complete.
fn write_file(
    path: &Path,
    fill: impl FnOnce(&mut dyn FnMut(&[u8]) -> std::io::Result<()>) -> Result<(), CliError>,
    failed: impl Fn(std::io::Error) -> CliError,
) -> Result<(), CliError> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Asked for here, the error does not name the temporary file.
    std::fs::metadata(directory).map_err(&failed)?;
    let mut builder = tempfile::Builder::new();
    builder.prefix(".annals-");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let mut file = builder.tempfile_in(directory).map_err(&failed)?;
    // A pipe or device is written to as it is; there is nothing to replace.
    if path.exists() && !path.is_file() {
        let mut file = std::fs::OpenOptions::new().write(true).open(path).map_err(&failed)?;
        return fill(&mut |bytes| file.write_all(bytes));
    }
    let mut buffer = std::io::BufWriter::new(file.as_file_mut());
    fill(&mut |bytes| buffer.write_all(bytes))?;
    buffer.flush().map_err(&failed)?;
    drop(buffer);
    file.as_file().sync_all().map_err(&failed)?;
    file.persist(path).map_err(|error| failed(error.error))?;
    Ok(())
}

/// Counts of what is missing in an export.
#[derive(Default)]
struct ExportGaps {
    /// Documents that could not be read.
    quarantined: Vec<Quarantined>,
    /// Messages that `opencode export` does not see.
    n_left_out: usize,
    /// Parts that the store does not have yet.
    n_awaited: usize,
    /// Documents that were in progress at the moment that is exported.
    n_unfinished: usize,
}

type ExportSink<'a> = dyn FnMut(&[u8]) -> std::io::Result<()> + 'a;

/// How sessions are written.
#[derive(Clone, Copy)]
struct ExportForm {
    format: ExportFormat,
    /// For Markdown.
    detail: MarkdownDetail,
}

fn write(
    home: &dyn Read,
    sessions: &[SessionRecord],
    ExportForm { format, detail }: ExportForm,
    selection: Selection<'_>,
    sink: &mut ExportSink<'_>,
    left: &mut ExportGaps,
) -> Result<(), CliError> {
    if format == ExportFormat::Jsonl {
        sink(&jsonl::header())?;
    }
    let mut projects = HashSet::new();
    let mut matched = Matched::default();
    for session in sessions {
        let n_parts = match format {
            ExportFormat::Opencode => {
                let mut writer = ExportWriter::new(&session.stored.document);
                let n_parts = each_message(
                    home,
                    session,
                    selection,
                    &mut matched,
                    &mut left.quarantined,
                    &mut |message| {
                        if message.stored.provenance == Provenance::OpencodeSecondStore {
                            left.n_left_out += 1;
                            return Ok(());
                        }
                        writer.message(
                            &message.stored.document,
                            message.parts.iter().map(|part| &part.document),
                        );
                        sink(&writer.take())
                    },
                )?;
                sink(&writer.finish())?;
                n_parts
            }
            ExportFormat::Markdown => {
                let mut writer = MarkdownWriter::new(&session.stored.document).with_detail(detail);
                let n_parts = each_message(
                    home,
                    session,
                    selection,
                    &mut matched,
                    &mut left.quarantined,
                    &mut |message| {
                        writer.message(
                            &message.stored.document,
                            message.parts.iter().map(|part| &part.document),
                        );
                        sink(writer.take().as_bytes())
                    },
                )?;
                sink(writer.finish().as_bytes())?;
                n_parts
            }
            ExportFormat::Jsonl => {
                if projects.insert(session.project.clone())
                    && let Some(project) = home.document(&Key::Project(session.project.clone()))?
                {
                    sink(&jsonl::write(&project.key, &project.document))?;
                }
                sink(&jsonl::write(&session.stored.key, &session.stored.document))?;
                let n_parts = each_message(
                    home,
                    session,
                    selection,
                    &mut matched,
                    &mut left.quarantined,
                    &mut |message| {
                        sink(&jsonl::write(&message.stored.key, &message.stored.document))?;
                        message
                            .parts
                            .iter()
                            .try_for_each(|part| sink(&jsonl::write(&part.key, &part.document)))
                    },
                )?;
                // Share secrets are left out: anyone who has them can change what is shared.
                // OpenCode has no records, and in its directory all files would be listed to find that out.
                let keys = match session.id.is_opencode() {
                    true => Vec::new(),
                    false => home.session_keys(&session.id)?,
                };
                let records = keys.into_iter().filter(|key| matches!(key, Key::Record(..)));
                let beside = [Key::Todo(session.id.clone()), Key::Diff(session.id.clone())];
                for key in beside.into_iter().chain(records) {
                    if let Some(stored) = home.document(&key)? {
                        sink(&jsonl::write(&stored.key, &stored.document))?;
                    }
                }
                n_parts
            }
        };
        left.n_awaited += parts_awaited(home, session, n_parts);
        left.n_unfinished += unfinished_then(home, &session.id)?.len();
    }
    matched.complete(selection)
}

/// The wanted messages and parts; all of them if none is named.
#[derive(Clone, Copy)]
struct Selection<'a> {
    messages: &'a [String],
    parts: &'a [String],
}

/// The names in a selection that matched something.
#[derive(Default)]
struct Matched(HashSet<String>);

impl Matched {
    fn fits(&mut self, wanted: &[String], id: &str) -> bool {
        let fitting: Vec<&String> = wanted.iter().filter(|wanted| id.starts_with(wanted.as_str())).collect();
        self.0.extend(fitting.iter().map(|wanted| (*wanted).clone()));
        !fitting.is_empty()
    }

    fn complete(&self, selection: Selection<'_>) -> Result<(), CliError> {
        let mut wanted = selection.messages.iter().chain(selection.parts);
        match wanted.find(|wanted| !self.0.contains(*wanted)) {
            None => Ok(()),
            Some(missing) => {
                Err(CliError::new(format!("no message or part of the session begins with {missing:?}")))
            }
        }
    }
}

/// Visits the wanted messages. Returns the number of all parts, wanted or not.
fn each_message(
    home: &dyn Read,
    session: &SessionRecord,
    selection: Selection<'_>,
    matched: &mut Matched,
    quarantined: &mut Vec<Quarantined>,
    write: &mut dyn FnMut(&MessageRecord) -> std::io::Result<()>,
) -> Result<usize, CliError> {
    let mut n_parts = 0;
    let mut messages = home.messages(session, &MessageRange::ALL, MessageDetail::Parts);
    for message in &mut messages {
        let mut message = message?;
        quarantined.append(&mut message.quarantined);
        n_parts += message.parts.len();
        if !selection.parts.is_empty() {
            message.parts.retain(
                |part| matches!(&part.key, Key::Part(_, _, id) if matched.fits(selection.parts, id.as_str())),
            );
        }
        let named = match &message.stored.key {
            Key::Message(_, id) => matched.fits(selection.messages, id.as_str()),
            _ => false,
        };
        let wanted = match (selection.messages.is_empty(), selection.parts.is_empty()) {
            (true, true) => true,
            (false, _) if named => true,
            (_, false) => !message.parts.is_empty(),
            _ => false,
        };
        if wanted {
            write(&message)?;
        }
    }
    quarantined.extend(messages.into_quarantined());
    Ok(n_parts)
}
