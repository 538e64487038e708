//! `annals show`

use std::io::Write;
use std::ops::RangeInclusive;
use std::str::FromStr;

use annals::home::{MessageDetail, MessageRange, MessageRecord, Read, SessionRecord};
use annals::model::Key;
use annals::model::format::opencode::ExportWriter;
use annals::model::id::MessageId;
use annals::model::lens::Message;
use annals::sync::Stage;

use crate::context::Context;
use crate::error::{CliError, CommandResult, report_quarantine};
use crate::homes::{Homes, is_followed, parts_awaited};
use crate::moment::{describe, note_unfinished, parse_moment, unfinished_then};
use crate::output::Output;
use crate::sign::LEGEND;
use crate::text::count;
use crate::transcript::{ToolDetail, Transcript, TranscriptOptions};

/// Read a conversation
///
/// Shows prompts, answers, reasoning and tool calls in order, and the cost of each turn. A turn is a prompt and what answers it; turns are
/// numbered. With `--json` it prints what `annals export` prints.
#[derive(Debug, clap::Args)]
#[command(after_help = format!("\
Examples:
  annals show last
  annals show last -n 2             its last two turns
  annals show last --turn 3..5      turns 3 to 5
  annals show \"empty cart\" --tools full
  annals show 36f8c1 --message msg_c90735466001 --reasoning
  annals show last --at yesterday   as it was then; `annals log --revisions last` lists the revisions
  annals show last --raw            the stored documents as they are

{LEGEND}"))]
pub(crate) struct ShowArgs {
    /// Session: an id, the beginning of one, `last`, or a piece of the title
    session: Option<String>,
    /// Only this message, by id or a unique beginning of one
    #[arg(long, value_name = "MESSAGE", conflicts_with_all = ["turn", "turns", "last"])]
    message: Option<String>,
    /// Only this turn, or these: 3, 3..5, 3.., ..5
    #[arg(long, value_name = "N", conflicts_with_all = ["turns", "last"])]
    turn: Option<TurnRange>,
    /// Only the last N turns
    #[arg(short = 'n', long, value_name = "N", conflicts_with = "last")]
    turns: Option<usize>,
    /// Only the last N messages
    #[arg(long, value_name = "N")]
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
    /// Show what each step used, and why it ended
    #[arg(long)]
    steps: bool,
    /// As it was at this moment: the number of a revision, or a time (2026-02-01T10:00, 12h, yesterday)
    #[arg(long, value_name = "REV|TIME")]
    at: Option<String>,
    /// Print the stored documents byte for byte
    #[arg(long, conflicts_with_all = ["tools", "reasoning", "steps"])]
    raw: bool,
}

/// Turns by their numbers, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TurnRange {
    first: usize,
    last: usize,
}

impl TurnRange {
    pub(crate) fn numbers(self) -> RangeInclusive<usize> {
        self.first..=self.last
    }
}

impl FromStr for TurnRange {
    type Err = String;

    fn from_str(text: &str) -> Result<TurnRange, String> {
        let number = |text: &str, otherwise: usize| match text {
            "" => Ok(otherwise),
            text => match text.parse::<usize>() {
                Ok(number) if number > 0 => Ok(number),
                _ => Err("turns are numbered from 1: give a number, or a range such as 3..5".to_owned()),
            },
        };
        let (first, last) = text.split_once("..").or_else(|| text.split_once('-')).unwrap_or((text, text));
        Ok(TurnRange { first: number(first, 1)?, last: number(last.trim_start_matches('='), usize::MAX)? })
    }
}

impl ShowArgs {
    /// A whole session, as it is shown without options.
    pub(crate) fn session(session: &str) -> ShowArgs {
        ShowArgs {
            session: Some(session.to_owned()),
            message: None,
            turn: None,
            turns: None,
            last: None,
            before: None,
            tools: ToolDetail::Brief,
            reasoning: false,
            steps: false,
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
    let session = view.session(context, args.session.as_deref())?;
    let unfinished = unfinished_then(home, &session.id)?;
    let selection = Selection::of(home, &session, args)?;
    let mut output = if context.json { context.plain_output() } else { context.paged_output() };
    let mut quarantined = Vec::new();
    let mut n_parts = 0;
    // One walk over the messages, for every kind of output.
    let mut walk = |show: &mut dyn FnMut(&MessageRecord) -> std::io::Result<()>| {
        let mut messages = home.messages(&session, &selection.range, MessageDetail::Parts);
        for message in &mut messages {
            let mut message = message?;
            n_parts += message.parts.len();
            quarantined.append(&mut message.quarantined);
            show(&message)?;
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
        let options = TranscriptOptions {
            tools: args.tools,
            reasoning: args.reasoning,
            steps: args.steps,
            is_past: moment.is_some(),
        };
        if let (Some(at), Homes::Store(store)) = (moment, &homes) {
            let line = format!("as of {}", describe(&*store.annals, at, &context.clock)?);
            let line = output.paint.warn(line);
            output.line(line)?;
        }
        let mut transcript = Transcript::begin(&mut output, &context.clock, home, &session, options)?;
        transcript.unfinished(unfinished.clone());
        transcript.number_turns_from(selection.first_turn);
        if let Some(place) = &selection.place {
            transcript.place(place)?;
        }
        let unvisited = walk(&mut |message| transcript.message(message))?;
        transcript.finish()?;
        if moment.is_none() && args.message.is_none() && args.before.is_none() {
            print_next(&mut output, &homes, &session)?;
        }
        unvisited
    };
    quarantined.extend(unvisited);
    output.finish()?;
    if context.json || args.raw {
        note_unfinished(context, unfinished.len());
    }
    let outcome = report_quarantine(&quarantined, context.stderr_paint());
    if !selection.range.is_all() {
        return Ok(outcome);
    }
    Ok(outcome.and(context.report_awaited(parts_awaited(home, &session, n_parts))))
}

/// Says how to go on with the session, where its agent has it, or had it.
fn print_next(output: &mut Output, homes: &Homes, session: &SessionRecord) -> std::io::Result<()> {
    let verb = match homes.store() {
        _ if session.gone.is_some() => "restore",
        Some(store) if !is_followed(&*store.annals, session) => return Ok(()),
        _ if !session.id.is_opencode() => return Ok(()),
        _ => "resume",
    };
    output.line("")?;
    output.line(output.paint.dim(format!("annals {verb} {}", session.id)))
}

/// The messages that are shown.
struct Selection {
    range: MessageRange,
    /// The number of the first prompt among them; none if what comes before them was not counted.
    first_turn: Option<usize>,
    /// Where a single answer stands.
    place: Option<String>,
}

impl Selection {
    fn of(home: &dyn Read, session: &SessionRecord, args: &ShowArgs) -> Result<Selection, CliError> {
        if let Some(limit) = args.last {
            let range = page(home, session, limit, args.before.as_deref())?;
            return Ok(Selection { range, first_turn: None, place: None });
        }
        if args.turn.is_none() && args.turns.is_none() && args.message.is_none() {
            return Ok(Selection { range: MessageRange::ALL, first_turn: Some(1), place: None });
        }
        let order = Order::of(home, session)?;
        if let Some(wanted) = &args.message {
            return order.message(session, wanted);
        }
        let n_turns = order.prompts.len();
        let TurnRange { first, last } = match (args.turn, args.turns) {
            (Some(range), _) => range,
            (None, n) => TurnRange { first: n_turns.saturating_sub(n.unwrap_or(0)) + 1, last: usize::MAX },
        };
        if args.turn.is_some() && (first > n_turns || last < first) {
            let turns = count(n_turns, "turn");
            return Err(CliError::new(format!("session {} has {turns}", session.id)));
        }
        let begin = order.prompts.get(first - 1).copied().unwrap_or(order.ids.len());
        // Answers before the first prompt belong to no turn; they are shown with the first.
        let begin = if first == 1 { 0 } else { begin };
        let end = order.prompts.get(last).copied().unwrap_or(order.ids.len());
        Ok(Selection { range: order.range(begin, end), first_turn: Some(first), place: None })
    }
}

/// The messages of a session in order.
struct Order {
    ids: Vec<MessageId>,
    /// The places of prompts among them.
    prompts: Vec<usize>,
}

impl Order {
    fn of(home: &dyn Read, session: &SessionRecord) -> Result<Order, CliError> {
        let mut order = Order { ids: Vec::new(), prompts: Vec::new() };
        for message in home.messages(session, &MessageRange::ALL, MessageDetail::PartCounts) {
            let message = message?;
            let Key::Message(_, id) = &message.stored.key else { continue };
            if matches!(message.stored.document.lens(), Message::User(_)) {
                order.prompts.push(order.ids.len());
            }
            order.ids.push(id.clone());
        }
        Ok(order)
    }

    /// The messages from one place up to another.
    fn range(&self, begin: usize, end: usize) -> MessageRange {
        MessageRange { before: self.ids.get(end).cloned(), last: Some(end.saturating_sub(begin)) }
    }

    /// One message, by the beginning of its id.
    fn message(&self, session: &SessionRecord, wanted: &str) -> Result<Selection, CliError> {
        let exact = self.ids.iter().position(|id| id.as_str() == wanted);
        let matching: Vec<usize> = match exact {
            Some(at) => vec![at],
            None => (0..self.ids.len()).filter(|at| self.ids[*at].as_str().starts_with(wanted)).collect(),
        };
        let at = match matching[..] {
            [at] => at,
            [] => {
                return Err(CliError::new(format!(
                    "no message of session {} begins with {wanted:?}",
                    session.id
                )));
            }
            _ => {
                let n = matching.len();
                let mut error = CliError::new(format!("{n} messages begin with {wanted:?}"));
                error.details.extend(matching.iter().take(10).map(|at| self.ids[*at].to_string()));
                return Err(error.hint("give more of the id"));
            }
        };
        let turn = self.prompts.partition_point(|prompt| *prompt <= at);
        let is_prompt = self.prompts.binary_search(&at).is_ok();
        let begin = turn.checked_sub(1).map_or(0, |before| self.prompts[before] + 1);
        let end = self.prompts.get(turn).copied().unwrap_or(self.ids.len());
        let answer = format!("turn {turn}, answer {} of {}", at + 1 - begin.min(at), end - begin.min(at));
        let place = (!is_prompt).then_some(answer);
        Ok(Selection { range: self.range(at, at + 1), first_turn: Some(turn.max(1)), place })
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_given_as_numbers_and_ranges() {
        let range = |first, last| Ok(TurnRange { first, last });
        assert_eq!("3".parse(), range(3, 3));
        assert_eq!("3..5".parse(), range(3, 5));
        assert_eq!("3-5".parse(), range(3, 5));
        assert_eq!("3..".parse(), range(3, usize::MAX));
        assert_eq!("..5".parse(), range(1, 5));
        assert_eq!("-3".parse(), range(1, 3));
        for text in ["0", "x", "1..y", "-x"] {
            assert!(text.parse::<TurnRange>().is_err(), "{text}");
        }
    }
}
