//! `annals diff`

use std::collections::{HashMap, HashSet};

use annals::history::{At, Changed, difference};
use annals::home::{MessageDetail, MessageRange, Read, ReadError};
use annals::model::call::CallView;
use annals::model::id::{MessageId, Millis, SessionId};
use annals::model::json::Text;
use annals::model::lens::{Message, Part};
use annals::model::{Document, Key, stream};
use annals::sync::Stage;
use annals::wire;

use crate::context::Context;
use crate::difference::{DiffLine, lines};
use crate::error::{CliError, CommandResult, Outcome};
use crate::moment::{describe, known_session, open_at, parse_moment};
use crate::output::Output;
use crate::text::{Clock, cut, harmless, one_line, wrap};

/// Show what changed in a session between two moments
///
/// A moment is the number of a revision or a time. Additions, removals and changes are shown message by message, texts line by
/// line.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  annals diff last 12..15           what happened after revision 12, up to 15
  annals diff last 12               since revision 12
  annals diff \"empty cart\" yesterday..today
  annals diff last 12 --json | jq '.[] | select(.change == \"removed\") | .before'")]
pub(crate) struct DiffArgs {
    /// Session: an id, the beginning of one, `last`, or a piece of the title
    session: String,
    /// `FROM..TO`; `FROM` or `FROM..` means until now, `..TO` from the beginning
    #[arg(value_name = "REV|TIME..REV|TIME")]
    range: String,
    /// Show long texts in full
    #[arg(short, long)]
    all: bool,
}

/// Limit on the lines of a text or a change, without `--all`.
const FOLDED: usize = 12;

pub(crate) fn run(context: &Context, args: &DiffArgs) -> CommandResult {
    let (from, to) = parse_range(&args.range, &context.clock)?;
    let store = context.open_store(Stage::Parts, "keeps no history")?;
    let store = &*store.annals;
    let known = known_session(context, store, &args.session)?;
    let before = open_at(store, from)?;
    let then = to.map(|to| open_at(store, to)).transpose()?;
    let after: &dyn Read = match &then {
        Some(then) => &**then,
        None => store,
    };
    let (changes, messages) = in_order(&*before, after, &known.id)?;
    if context.json {
        let mut output = context.plain_output();
        let rows: Result<Vec<_>, _> = changes.iter().map(wire::DocumentChange::of).collect();
        output.json_array(rows.map_err(CliError::new)?)?;
        output.finish()?;
        return Ok(Outcome::Done);
    }
    let when = |at: At| describe(store, at, &context.clock);
    let to = to.map_or_else(|| Ok("now".to_owned()), when)?;
    let from = if from == BEGINNING { "the beginning".to_owned() } else { when(from)? };
    let mut output = context.paged_output();
    let paint = output.paint;
    for line in wrap(&known.title(), output.width) {
        output.line(paint.bold(line))?;
    }
    output.line(paint.dim(format!("{} · {from} → {to}", known.id)))?;
    let mut screen = DiffScreen { output: &mut output, clock: &context.clock, fold: !args.all };
    let mut last: Option<&MessageId> = None;
    for changed in &changes {
        if let Key::Message(_, id) = &changed.key {
            last = Some(id);
        }
        // A changed part of an unchanged message needs the message above it.
        if let Key::Part(_, id, _) = &changed.key
            && last.replace(id) != Some(id)
            && let Some((_, document)) = messages.get(id)
        {
            screen.unchanged(&Key::Message(known.id.clone(), id.clone()), document)?;
        }
        screen.changed(changed)?;
    }
    let n = |is: fn(&Changed) -> bool| changes.iter().filter(|changed| is(changed)).count();
    let tally = format!(
        "{} added, {} removed, {} changed",
        n(|changed| changed.before.is_none()),
        n(|changed| changed.after.is_none()),
        n(|changed| changed.before.is_some() && changed.after.is_some())
    );
    let is_terminal = output.is_terminal;
    if is_terminal {
        output.line("")?;
        output.line(paint.dim(&tally))?;
    }
    output.finish()?;
    if !is_terminal {
        context.note(&tally);
    }
    Ok(Outcome::Done)
}

/// Before any revision.
const BEGINNING: At = At::Time(Millis::MIN);

/// Parses the two moments of a range; `None` is now.
fn parse_range(range: &str, clock: &Clock) -> Result<(At, Option<At>), CliError> {
    let moment = |text: &str| parse_moment(text, clock);
    match range.split_once("..") {
        None => Ok((moment(range)?, None)),
        Some(("", to)) if !to.is_empty() => Ok((BEGINNING, Some(moment(to)?))),
        Some((from, "")) => Ok((moment(from)?, None)),
        Some((from, to)) => Ok((moment(from)?, Some(moment(to)?))),
    }
}

/// The messages of a session in a home, with the times they were made.
type MessagesById = HashMap<MessageId, (Millis, Document)>;

fn messages(home: &dyn Read, session: &SessionId) -> Result<MessagesById, ReadError> {
    let mut messages = HashMap::new();
    if let Some(record) = home.session(session)? {
        for message in home.messages(&record, &MessageRange::ALL, MessageDetail::PartCounts) {
            let message = message?;
            if let Key::Message(_, id) = message.stored.key {
                messages.insert(id, (message.made, message.stored.document));
            }
        }
    }
    Ok(messages)
}

/// The differences in order: the session itself, then message by message, then todo lists and the like; and all messages.
fn in_order(
    before: &dyn Read,
    after: &dyn Read,
    session: &SessionId,
) -> Result<(Vec<Changed>, MessagesById), ReadError> {
    let mut changes = difference(before, after, session)?;
    let (mut old, new) = (messages(before, session)?, messages(after, session)?);
    // Parts go with their message, whether or not the store still has them.
    let known: HashSet<Key> = changes.iter().map(|changed| changed.key.clone()).collect();
    for key in before.session_keys(session)? {
        if matches!(&key, Key::Part(_, message, _) if !new.contains_key(message))
            && !known.contains(&key)
            && let Some(stored) = before.document(&key)?
        {
            changes.push(Changed { key, before: Some(stored.document), after: None, is_step: false });
        }
    }
    for changed in &mut changes {
        if let Key::Part(_, message, _) = &changed.key {
            changed.before.take_if(|_| !old.contains_key(message));
            changed.after.take_if(|_| !new.contains_key(message));
        }
    }
    changes.retain(|changed| changed.is_step || changed.before != changed.after);
    changes.retain(|changed| changed.before.is_some() || changed.after.is_some());
    old.extend(new);
    let made = |id: &MessageId| old.get(id).map_or(0, |(made, _)| *made);
    changes.sort_by_cached_key(|changed| match &changed.key {
        Key::Project(_) | Key::Session(..) => (0, 0, String::new(), 0),
        Key::Message(_, id) => (1, made(id), id.to_string(), 0),
        Key::Part(_, id, _) => (1, made(id), id.to_string(), 1),
        _ => (2, 0, String::new(), 0),
    });
    Ok((changes, old))
}

struct DiffScreen<'a> {
    output: &'a mut Output,
    clock: &'a Clock,
    fold: bool,
}

impl DiffScreen<'_> {
    fn unchanged(&mut self, key: &Key, document: &Document) -> std::io::Result<()> {
        let line = format!("  {}", self.output.paint.dim(self.name(key, document)));
        self.output.line("")?;
        self.output.line(line)
    }

    fn changed(&mut self, changed: &Changed) -> std::io::Result<()> {
        let paint = self.output.paint;
        let shown = changed.after.as_ref().or(changed.before.as_ref());
        let what = shown.map(|document| self.name(&changed.key, document)).unwrap_or_default();
        let (sign, what) = match (&changed.before, &changed.after) {
            (None, _) => (paint.good("+"), paint.good(what)),
            (_, None) => (paint.bad("-"), paint.bad(what)),
            _ => (paint.warn("~"), paint.bold(what)),
        };
        let indent = if matches!(changed.key, Key::Part(..)) {
            "  "
        } else {
            self.output.line("")?;
            ""
        };
        self.output.line(format!("{indent}{sign} {what}"))?;
        if matches!(changed.key, Key::Share(_) | Key::LegacyShare(_)) {
            return Ok(());
        }
        let text = |document: &Document| match document.lens::<Part<'_>>() {
            Part::Text(part) => part.text.as_ref().map(Text::to_str).map(|text| text.into_owned()),
            Part::Reasoning(part) => part.text.as_ref().map(Text::to_str).map(|text| text.into_owned()),
            _ => None,
        };
        let is_part = matches!(changed.key, Key::Part(..));
        let whole = |document: &Document, line: fn(String) -> DiffLine| -> Vec<DiffLine> {
            let text = if is_part { text(document) } else { None }.unwrap_or_default();
            harmless(text.trim_end()).lines().map(|text| line(text.to_owned())).collect()
        };
        let is_counted = |document: &Document| stream::is_bookkeeping(&changed.key, document);
        let lines = match (&changed.before, &changed.after) {
            // The fields that OpenCode keeps counting are not known of both states.
            (Some(before), Some(after)) if changed.is_step && is_counted(after) => {
                let [before, after] =
                    [before, after].map(|one| stream::earlier(&changed.key, one, Millis::MAX).document);
                lines(&before, &after, self.clock)
            }
            (Some(_), Some(after)) if changed.is_step => {
                self.unkept(match changed.key {
                    Key::Message(..) => "continued; the states in between are not kept",
                    _ => "continued; its text in between is not kept",
                })?;
                whole(after, DiffLine::Added)
            }
            (Some(before), Some(after)) => lines(before, after, self.clock),
            (None, Some(after)) => whole(after, DiffLine::Added),
            (Some(before), None) => whole(before, DiffLine::Removed),
            (None, None) => Vec::new(),
        };
        let is_counted = shown.is_some_and(is_counted);
        if changed.is_step && !is_counted && (changed.before.is_none() || changed.after.is_none()) {
            self.unkept("in progress then; its text is not kept")?;
        }
        self.lines(&lines)
    }

    /// Prints that something is not kept.
    fn unkept(&mut self, what: &str) -> std::io::Result<()> {
        let paint = self.output.paint;
        let what = cut(what, self.output.width.saturating_sub(6));
        self.output.line(format!("    {} {}", paint.dim("│"), paint.dim(what)))
    }

    fn lines(&mut self, lines: &[DiffLine]) -> std::io::Result<()> {
        let paint = self.output.paint;
        let columns = self.output.width.saturating_sub(6);
        let limit = if self.fold { FOLDED } else { usize::MAX };
        let bar = paint.dim("│");
        for line in lines.iter().take(limit) {
            let fit = |sign: &str, text: &str| cut(&format!("{sign}{text}"), columns).into_owned();
            let line = match line {
                DiffLine::Member(name) => paint.bold(cut(name, columns)),
                DiffLine::Became(text) => cut(text, columns).into_owned(),
                DiffLine::Added(text) => paint.good(fit("+", text)),
                DiffLine::Removed(text) => paint.bad(fit("-", text)),
                DiffLine::Same(text) => paint.dim(fit(" ", text)),
                DiffLine::Left => paint.dim("…"),
            };
            self.output.line(format!("    {bar} {line}"))?;
        }
        if lines.len() > limit {
            let more = format!("… {} more lines; `--all` shows them", lines.len() - limit);
            self.output.line(format!("    {bar} {}", paint.dim(more)))?;
        }
        Ok(())
    }

    /// The name of a document in one line.
    fn name(&self, key: &Key, document: &Document) -> String {
        let mut facts = Vec::new();
        match key {
            Key::Message(_, id) => {
                let message = document.lens::<Message<'_>>();
                facts.push(id.to_string());
                match &message {
                    Message::User(_) => facts.push("you".to_owned()),
                    Message::Assistant(answer) | Message::Other(answer) => {
                        facts.extend(answer.model_id.as_ref().map(|model| one_line(&model.to_str())));
                    }
                }
                facts.extend(
                    message
                        .created()
                        .map(|created| format!("{} {}", self.clock.date(created), self.clock.time(created))),
                );
            }
            Key::Part(_, _, id) => {
                let kind = document.root().get("type").and_then(|kind| kind.as_text());
                let kind = kind.map(|kind| one_line(&kind.to_str())).unwrap_or_default();
                if let Part::Tool(part) = document.lens::<Part<'_>>() {
                    let call = CallView::of(&part);
                    facts.push(one_line(&format!("{} {}", call.tool, call.subject)));
                    facts.push(call.status_name().to_owned());
                } else {
                    facts.push(kind);
                }
                facts.insert(0, id.to_string());
            }
            _ => {}
        }
        let noun = if matches!(key, Key::Message(..) | Key::Part(..)) { "" } else { key.noun() };
        let line = format!("{noun}{}", facts.join(" · "));
        cut(&line, self.output.width.saturating_sub(4)).into_owned()
    }
}
