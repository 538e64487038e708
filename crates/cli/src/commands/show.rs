//! `annals show`

use std::io::Write;

use annals::home::{MessageDetail, MessageRange, MessageRecord, Read, SessionRecord};
use annals::model::Key;
use annals::model::format::opencode::ExportWriter;
use annals::model::id::MessageId;
use annals::sync::Stage;

use crate::context::Context;
use crate::error::{CliError, CommandResult, report_quarantine};
use crate::homes::{Homes, parts_awaited};
use crate::moment::{describe, note_unfinished, parse_moment, unfinished_then};
use crate::transcript::{ToolDetail, Transcript, TranscriptOptions};

/// Read a conversation
///
/// Shows prompts, answers, reasoning and tool calls in order, and the cost of each turn. With `--json` it prints what
/// `annals export` prints.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  annals show last
  annals show last -n 10            the end of it
  annals show \"empty cart\" --tools full
  annals show 36f8c1 --message msg_c90735466001 --reasoning
  annals show last --at yesterday   as it was then; `annals log last` lists the revisions
  annals show last --raw            the stored documents as they are")]
pub(crate) struct ShowArgs {
    /// Session: an id, the beginning of one, `last`, or a piece of the title
    session: String,
    /// Only this message, by id or the beginning of one
    #[arg(long, value_name = "MESSAGE")]
    message: Option<String>,
    /// Only the last N messages
    #[arg(short = 'n', long, value_name = "N", conflicts_with = "message")]
    last: Option<usize>,
    /// With `--last`: the messages before this one (whole id), to read a long session page by page
    #[arg(long, value_name = "MESSAGE", requires = "last")]
    before: Option<String>,
    /// How much of tool calls to show
    #[arg(long, value_enum, default_value_t = ToolDetail::Brief, value_name = "HOW")]
    tools: ToolDetail,
    /// Show reasoning in full
    #[arg(long)]
    reasoning: bool,
    /// As it was at this moment: the number of a revision, or a time (2026-02-01T10:00, 12h, yesterday)
    #[arg(long, value_name = "REV|TIME")]
    at: Option<String>,
    /// Print the stored documents byte for byte
    #[arg(long, conflicts_with_all = ["tools", "reasoning"])]
    raw: bool,
}

impl ShowArgs {
    /// A whole session, as it is shown without options.
    pub(crate) fn session(session: &str) -> ShowArgs {
        ShowArgs {
            session: session.to_owned(),
            message: None,
            last: None,
            before: None,
            tools: ToolDetail::Brief,
            reasoning: false,
            at: None,
            raw: false,
        }
    }
}

pub(crate) fn run(context: &Context, args: &ShowArgs) -> CommandResult {
    let moment = args.at.as_deref().map(|at| parse_moment(at, &context.clock)).transpose()?;
    let homes = context.open_for(Stage::Parts, moment)?;
    let view = homes.view(moment)?;
    let home: &dyn Read = &*view;
    let session = view.session(context, &args.session)?;
    let unfinished = unfinished_then(home, &session.id)?;
    let mut output = if context.json { context.plain_output() } else { context.paged_output() };
    let mut quarantined = Vec::new();
    let (mut n_shown, mut n_parts) = (0, 0);
    let page = args.last.map(|limit| page(home, &session, limit, args.before.as_deref())).transpose()?;
    // One walk over the messages, for every kind of output.
    let mut walk = |show: &mut dyn FnMut(&MessageRecord) -> std::io::Result<()>| {
        let range = page.as_ref().unwrap_or(&MessageRange::ALL);
        let mut messages = home.messages(&session, range, MessageDetail::Parts);
        for message in &mut messages {
            let mut message = message?;
            let wanted = match (&args.message, &message.stored.key) {
                (Some(wanted), Key::Message(_, id)) => id.as_str().starts_with(wanted.as_str()),
                _ => true,
            };
            n_shown += usize::from(wanted);
            n_parts += message.parts.len();
            quarantined.append(&mut message.quarantined);
            if wanted {
                show(&message)?;
            }
        }
        Ok::<_, CliError>(messages.into_quarantined())
    };
    let unvisited = if context.json {
        let mut writer = ExportWriter::new(&session.stored.document);
        let unvisited = walk(&mut |message| {
            writer.message(&message.stored.document, message.parts.iter().map(|part| &part.document));
            output.json_text(&writer.take())
        })?;
        output.json_text(&writer.finish())?;
        unvisited
    } else if args.raw {
        let mut print = |document: &annals::model::Document| {
            output.json_text(document.bytes())?;
            output.write_all(b"\n")
        };
        print(&session.stored.document)?;
        walk(&mut |message| {
            print(&message.stored.document)?;
            message.parts.iter().try_for_each(|part| print(&part.document))
        })?
    } else {
        let options = TranscriptOptions { tools: args.tools, reasoning: args.reasoning };
        if let (Some(at), Homes::Store(store)) = (moment, &homes) {
            let line = format!("as of {}", describe(&*store.annals, at, &context.clock)?);
            let line = output.paint.warn(line);
            output.line(line)?;
        }
        let mut transcript = Transcript::begin(&mut output, &context.clock, home, &session, options)?;
        transcript.unfinished(unfinished.clone());
        let unvisited = walk(&mut |message| transcript.message(message))?;
        if args.message.is_none() || n_shown > 0 {
            transcript.finish()?;
        }
        unvisited
    };
    quarantined.extend(unvisited);
    output.finish()?;
    if let (Some(wanted), 0) = (&args.message, n_shown) {
        return Err(CliError::new(format!("no message of session {} begins with {wanted:?}", session.id)));
    }
    if context.json || args.raw {
        note_unfinished(context, unfinished.len());
    }
    let outcome = report_quarantine(&quarantined, context.stderr_paint());
    if page.is_some() {
        return Ok(outcome);
    }
    Ok(outcome.and(context.report_awaited(parts_awaited(home, &session, n_parts))))
}

/// The wanted page of a session.
fn page(
    home: &dyn Read,
    session: &SessionRecord,
    limit: usize,
    before: Option<&str>,
) -> Result<MessageRange, CliError> {
    let Some(before) = before else { return Ok(MessageRange { before: None, last: Some(limit) }) };
    let id = MessageId::parse(before).map_err(CliError::new)?;
    match home.document(&Key::Message(session.id.clone(), id.clone()))? {
        Some(_) => Ok(MessageRange { before: Some(id), last: Some(limit) }),
        None => Err(CliError::new(format!("session {} has no message {before}", session.id))),
    }
}
