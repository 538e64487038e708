//! A conversation on a terminal: turns, answers, tool calls folded to a line, the cost of each turn.

use std::collections::HashSet;
use std::io;

use annals::home::{MessageDetail, MessageRange, MessageRecord, Read, ReadError, SessionRecord};
use annals::model::call::CallView;
use annals::model::id::SessionId;
use annals::model::json::Text;
use annals::model::lens::{AssistantMessage, Message, Part, Session, ToolStatus, UserMessage};
use annals::model::{Key, Usage};
use clap::ValueEnum;

use crate::output::{Output, Painter};
use crate::prose;
use crate::text::{Clock, count, cut, dollars, duration, harmless, one_line, short_number, width, wrap};

/// Detail in which tool calls are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ToolDetail {
    /// Everything they printed and changed
    Full,
    /// A line each, and the beginning of what they printed and changed
    Brief,
    /// Nothing
    None,
}

/// Options of a transcript.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TranscriptOptions {
    pub(crate) tools: ToolDetail,
    /// Whether reasoning is shown in full.
    pub(crate) reasoning: bool,
}

/// Lines of a tool's result and of its diff that are shown at first.
const FOLDED_OUTPUT: usize = 4;
const FOLDED_DIFF: usize = 14;
const FOLDED_ERROR: usize = 8;
const FOLDED_REASONING: usize = 2;

/// Prints a conversation message by message.
pub(crate) struct Transcript<'a> {
    output: &'a mut Output,
    clock: &'a Clock,
    home: &'a dyn Read,
    options: TranscriptOptions,
    turn: Option<TurnTally>,
    n_turns: usize,
    /// First message that a pending undo hides.
    reverted_from: Option<String>,
    /// Whether the last thing printed was a call of one line: the next one follows without a gap.
    after_short_call: bool,
    /// The day of the last prompt: the next one names its own only if it differs.
    day: Option<i64>,
    /// Documents that were in progress at the moment that is shown.
    unfinished: HashSet<Key>,
}

/// Sums and times of the messages since the last prompt.
#[derive(Default)]
struct TurnTally {
    usage: Usage,
    n_calls: usize,
    models: Vec<String>,
    agents: Vec<String>,
    started: Option<i64>,
    ended: Option<i64>,
}

impl<'a> Transcript<'a> {
    /// Begins with the title and the particulars of the session.
    pub(crate) fn begin(
        output: &'a mut Output,
        clock: &'a Clock,
        home: &'a dyn Read,
        record: &SessionRecord,
        options: TranscriptOptions,
    ) -> io::Result<Transcript<'a>> {
        let session = record.stored.document.lens::<Session<'_>>();
        let paint = output.paint;
        let title = session.title.map(|title| one_line(&title.to_str())).unwrap_or_default();
        for line in wrap(&title, output.width) {
            output.line(paint.bold(line))?;
        }
        let time = session.time.unwrap_or_default();
        let mut facts = vec![record.id.to_string()];
        facts.extend(session.directory.map(|directory| one_line(&directory.to_str())));
        facts.extend(time.updated.map(|updated| clock.date_time(updated)));
        facts.extend(time.archived.map(|_| "archived".to_owned()));
        for line in wrap(&facts.join(" · "), output.width) {
            output.line(paint.dim(line))?;
        }
        if let Some(parent) = session.parent_id {
            output.line(paint.dim(format!("started by {}", one_line(&parent.to_str()))))?;
        }
        if let Some(url) = session.share.and_then(|share| share.url).filter(|url| !url.is_empty()) {
            output.line(paint.dim(format!("shared at {}", one_line(&url.to_str()))))?;
        }
        if let Some(gone) = record.gone {
            let line =
                format!("gone from OpenCode since {}; this is what the store kept", clock.date_time(gone));
            output.line(paint.warn(cut(&line, output.width)))?;
        }
        // The head names the day of the last use; prompts of that day need not.
        let day = time.updated.map(|updated| clock.day(updated));
        let reverted_from = session.revert.and_then(|revert| revert.message_id).map(|id| id.to_string());
        Ok(Transcript {
            output,
            clock,
            home,
            options,
            turn: None,
            n_turns: 0,
            reverted_from,
            after_short_call: false,
            day,
            unfinished: HashSet::new(),
        })
    }

    /// Sets the documents that were in progress at the moment that is shown.
    pub(crate) fn unfinished(&mut self, keys: HashSet<Key>) {
        self.unfinished = keys;
    }

    /// Prints one message with its parts.
    pub(crate) fn message(&mut self, record: &MessageRecord) -> io::Result<()> {
        let id = record.stored.document.root().get("id").and_then(|id| id.as_text());
        if id.is_some_and(|id| self.reverted_from.as_deref() == Some(&*id.to_str())) {
            self.end_turn()?;
            let line = "── undone: what follows is hidden in OpenCode until it is redone or dropped ──";
            let line = self.output.paint.warn(cut(line, self.output.width));
            self.output.line("")?;
            self.output.line(line)?;
        }
        match record.stored.document.lens::<Message<'_>>() {
            Message::User(user) => self.prompt(&user, record),
            Message::Assistant(answer) | Message::Other(answer) => self.answer(&answer, record),
        }
    }

    /// Ends the conversation.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.end_turn()?;
        if self.n_turns == 0 {
            let line = self.output.paint.dim("no messages");
            self.output.line("")?;
            self.output.line(line)?;
        }
        Ok(())
    }

    fn prompt(&mut self, user: &UserMessage<'_>, record: &MessageRecord) -> io::Result<()> {
        self.end_turn()?;
        self.n_turns += 1;
        self.turn = Some(TurnTally::default());
        let paint = self.output.paint;
        let mut lines: Vec<String> = Vec::new();
        let mut n_synthetic = 0;
        let columns = self.output.width.saturating_sub(2);
        for part in &record.parts {
            match part.document.lens::<Part<'_>>() {
                Part::Text(part) if part.synthetic == Some(true) => n_synthetic += 1,
                Part::Text(part) => {
                    let text = part.text.unwrap_or(Text::from(""));
                    let text = text.to_str();
                    let text = harmless(&text);
                    let shown = prose::lines(&text, columns, paint);
                    match part.ignored {
                        Some(true) => lines.extend(shown.map(|line| paint.dim(line))),
                        _ => lines.extend(shown),
                    }
                }
                Part::File(file) => {
                    let name = file.filename.map(|name| one_line(&name.to_str())).unwrap_or_default();
                    let mime = file.mime.map(|mime| one_line(&mime.to_str())).unwrap_or_default();
                    lines.push(paint.dim(cut(&format!("+ {name}  {mime}"), columns)));
                }
                Part::Agent(agent) => {
                    let name = agent.name.map(|name| one_line(&name.to_str())).unwrap_or_default();
                    lines.push(paint.agent(format!("@{name}")));
                }
                Part::Subtask(task) => {
                    let description =
                        task.description.map(|text| one_line(&text.to_str())).unwrap_or_default();
                    let agent = task.agent.map(|agent| one_line(&agent.to_str())).unwrap_or_default();
                    lines.push(format!(
                        "{} {}",
                        paint.agent(format!("@{agent}")),
                        cut(&description, columns)
                    ));
                }
                Part::Compaction(compaction) => {
                    let why =
                        if compaction.auto == Some(true) { "it had grown too long" } else { "on request" };
                    lines.push(paint.warn(format!("compact the conversation ({why})")));
                }
                other => lines.extend(self.odd_part(&other)),
            }
        }
        if n_synthetic > 0 {
            let what = format!("+ {} added by OpenCode", count(n_synthetic, "text"));
            lines.push(paint.dim(what));
        }
        let when = user.time.as_ref().and_then(|time| time.created).map(|created| {
            let day = self.clock.day(created);
            match self.day.replace(day) == Some(day) {
                true => self.clock.time(created),
                false => format!("{} {}", self.clock.date(created), self.clock.time(created)),
            }
        });
        let agent =
            user.agent.as_ref().map(|agent| format!("to {}", one_line(&agent.to_str()))).unwrap_or_default();
        let head = format!("{}. You {agent}", self.n_turns);
        self.gap()?;
        self.head(&head, &when.unwrap_or_default())?;
        for line in lines {
            self.output.line(format!("{} {line}", paint.accent("▌")))?;
        }
        self.unreadable(record)
    }

    fn answer(&mut self, answer: &AssistantMessage<'_>, record: &MessageRecord) -> io::Result<()> {
        let turn = self.turn.get_or_insert_default();
        turn.usage += Usage::of(answer);
        turn.n_calls += 1;
        let name =
            |text: &Option<Text<'_>>| text.as_ref().map(|text| one_line(&text.to_str())).unwrap_or_default();
        let model = format!("{}/{}", name(&answer.provider_id), name(&answer.model_id));
        let agent = if answer.agent.is_some() { name(&answer.agent) } else { name(&answer.mode) };
        for (list, item) in [(&mut turn.models, model), (&mut turn.agents, agent)] {
            if !list.contains(&item) {
                list.push(item);
            }
        }
        let time = answer.time.clone().unwrap_or_default();
        turn.started = [turn.started, time.created].into_iter().flatten().min();
        turn.ended = [turn.ended, time.completed].into_iter().flatten().max();
        let paint = self.output.paint;
        if answer.summary == Some(true) {
            self.gap()?;
            self.output.line(format!("  {}", paint.warn("summary of the conversation so far")))?;
        }
        for part in &record.parts {
            let lens = part.document.lens::<Part<'_>>();
            self.part(&lens)?;
            if self.unfinished.contains(&part.key) {
                self.unkept(&lens)?;
            }
        }
        if let Some(error) = &answer.error {
            let message = error.data.as_ref().and_then(|data| data.message.as_ref());
            let message = message.map(|message| message.to_str().into_owned()).unwrap_or_default();
            let status = error.data.as_ref().and_then(|data| data.status_code);
            let status = status.map(|status| format!(" {status}")).unwrap_or_default();
            self.gap()?;
            self.output.line(format!("  {}", paint.bad_bold(format!("✗ {}{status}", name(&error.name)))))?;
            self.block(&message, Fold::First(FOLDED_ERROR), LongLines::Wrap, |line| paint.bad(line))?;
        } else if time.completed.is_none() {
            self.output.line(format!("  {}", paint.warn("… unfinished")))?;
        }
        self.unreadable(record)
    }

    fn part(&mut self, part: &Part<'_>) -> io::Result<()> {
        let paint = self.output.paint;
        match part {
            Part::Text(part) => {
                let text = part.text.as_ref().map(Text::to_str).unwrap_or_default();
                if !text.trim().is_empty() {
                    self.gap()?;
                    for line in prose::lines(&harmless(&text), self.output.width.saturating_sub(2), paint) {
                        self.output.line(format!("  {line}"))?;
                    }
                }
            }
            Part::Reasoning(part) => {
                let text = part.text.as_ref().map(Text::to_str).unwrap_or_default();
                if !text.trim().is_empty() {
                    let limit = if self.options.reasoning { usize::MAX } else { FOLDED_REASONING };
                    self.gap()?;
                    let folded =
                        fold(&wrap(harmless(&text).trim(), self.output.width.saturating_sub(4)), limit);
                    for line in folded {
                        self.output.line(format!("  {} {}", paint.dim("∴"), paint.italic_dim(line)))?;
                    }
                }
            }
            Part::Tool(part) if self.options.tools != ToolDetail::None => self.call(&CallView::of(part))?,
            Part::Tool(_) | Part::StepStart(_) | Part::StepFinish(_) | Part::Snapshot(_) | Part::Patch(_) => {
            }
            Part::File(file) => {
                let name = file.filename.as_ref().map(|name| one_line(&name.to_str())).unwrap_or_default();
                self.output.line(format!("  {}", paint.dim(format!("+ {name}"))))?;
            }
            other => {
                for line in self.odd_part(other) {
                    self.output.line(format!("  {line}"))?;
                }
            }
        }
        Ok(())
    }

    /// Notes that the content of a part at the moment that is shown is not kept.
    fn unkept(&mut self, part: &Part<'_>) -> io::Result<()> {
        let line = match part {
            Part::Tool(_) if self.options.tools == ToolDetail::None => return Ok(()),
            Part::Tool(_) => "  │ in progress then; its output up to that point is not kept",
            Part::Reasoning(_) => "∴ in progress then; the reasoning up to that point is not kept",
            _ => "… in progress then; its text up to that point is not kept",
        };
        if !matches!(part, Part::Tool(_)) {
            self.gap()?;
        }
        self.after_short_call = false;
        let line = self.output.paint.dim(cut(line, self.output.width.saturating_sub(2)));
        self.output.line(format!("  {line}"))
    }

    /// The lines of a part that is rare or of an unknown kind.
    fn odd_part(&self, part: &Part<'_>) -> Vec<String> {
        let paint = self.output.paint;
        match part {
            Part::Retry(part) => {
                let message = part.error.as_ref().and_then(|error| error.data.as_ref()?.message.as_ref());
                let message = message.map(|message| one_line(&message.to_str())).unwrap_or_default();
                let line = format!("attempt {} failed: {message}", part.attempt.unwrap_or(0.0));
                vec![paint.bad(cut(&line, self.output.width.saturating_sub(2)))]
            }
            Part::Other(part) => {
                let kind = part.kind.as_ref().map(|kind| one_line(&kind.to_str())).unwrap_or_default();
                let name = part.name.as_ref().map(|name| one_line(&name.to_str())).unwrap_or_default();
                let text =
                    part.text.as_ref().map(Text::to_str).unwrap_or_default();
                let mut lines = vec![paint.dim(format!("[{kind}] {name}").trim_end())];
                lines.extend(prose::lines(&harmless(&text), self.output.width.saturating_sub(2), paint));
                lines
            }
            _ => Vec::new(),
        }
    }

    /// Prints an empty line.
    fn gap(&mut self) -> io::Result<()> {
        self.after_short_call = false;
        self.output.line("")
    }

    /// Prints a tool call: one line, then its output or the change it made.
    fn call(&mut self, call: &CallView<'_>) -> io::Result<()> {
        let paint = self.output.paint;
        let (sign, name) = match call.status {
            Some(ToolStatus::Completed) if call.exit.is_some_and(|exit| exit != 0) => {
                (paint.warn("✓"), paint.bold(one_line(&call.tool)))
            }
            Some(ToolStatus::Completed) => (paint.good("✓"), paint.bold(one_line(&call.tool))),
            Some(ToolStatus::Error) => (paint.bad("✗"), paint.bad_bold(one_line(&call.tool))),
            _ => (paint.warn("…"), paint.bold(one_line(&call.tool))),
        };
        let mut facts = Vec::new();
        facts.extend(call.exit.filter(|exit| *exit != 0).map(|exit| format!("exit {exit}")));
        if let Some(ToolStatus::Pending | ToolStatus::Running) | None = call.status {
            facts.push(call.status_name().to_owned());
        }
        if call.cleared {
            facts.push("cleared".to_owned());
        }
        let is_brief = self.options.tools == ToolDetail::Brief;
        if let (true, "read", Some(output)) = (is_brief, call.tool.as_str(), &call.output) {
            // The text that was read is still in the file.
            facts.push(count(output.to_str().lines().count(), "line"));
        }
        facts.extend(call.duration.map(duration));
        let facts = facts.join("  ");
        let columns =
            self.output.width.saturating_sub(2 + 2 + width(&one_line(&call.tool)) + 2 + width(&facts) + 2);
        let subject = one_line(&call.subject);
        let subject = cut(&subject, columns);
        let gap = " ".repeat(columns.saturating_sub(width(&subject)) + 2);
        if !self.after_short_call {
            self.output.line("")?;
        }
        self.output.line(format!("  {sign} {name}  {subject}{gap}{}", paint.dim(facts)))?;
        self.after_short_call = false;
        if let Some(child) = &call.child {
            let line = self.child(child);
            self.output.line(format!("    {} {line}", paint.agent("↳")))?;
        }
        self.call_result(call)
    }

    /// Prints the output of a call, or the change it made.
    fn call_result(&mut self, call: &CallView<'_>) -> io::Result<()> {
        let paint = self.output.paint;
        let is_brief = self.options.tools == ToolDetail::Brief;
        let limit = |folded| if is_brief { folded } else { usize::MAX };
        if let Some(error) = &call.error {
            if let Some(output) = &call.output {
                self.block(&output.to_str(), Fold::Last(limit(FOLDED_OUTPUT)), LongLines::Cut, |line| {
                    paint.dim(line)
                })?;
            }
            return self.block(&error.to_str(), Fold::First(limit(FOLDED_ERROR)), LongLines::Wrap, |line| {
                paint.bad(line)
            });
        }
        // Code and listings are easier to read with their lines cut than with them broken.
        let long = if is_brief { LongLines::Cut } else { LongLines::Wrap };
        if let Some(diff) = &call.diff {
            let shown = diff_lines(&harmless(&diff.to_str()));
            return self.block(&shown, Fold::First(limit(FOLDED_DIFF)), long, |line| {
                match line.as_bytes().first() {
                    Some(b'+') => paint.good(line),
                    Some(b'-') => paint.bad(line),
                    Some(b'@') => paint.id(line),
                    _ => paint.dim(line),
                }
            });
        }
        if let Some(written) = &call.written {
            let shown: Vec<String> = written.to_str().lines().map(|line| format!("+{line}")).collect();
            return self
                .block(&shown.join("\n"), Fold::First(limit(FOLDED_DIFF)), long, |line| paint.good(line));
        }
        if !call.todos.is_empty() {
            for todo in &call.todos {
                let content =
                    todo.content.as_ref().map(|content| one_line(&content.to_str())).unwrap_or_default();
                let content = cut(&content, self.output.width.saturating_sub(8)).into_owned();
                let status = todo.status.as_ref().map(ToString::to_string).unwrap_or_default();
                let (sign, content) = dressed_todo(&status, &content, paint);
                self.output.line(format!("    {} {sign} {content}", paint.dim("│")))?;
            }
            return Ok(());
        }
        let fold = match call.exit {
            // A command that failed says why at its end.
            Some(exit) if exit != 0 => Fold::Last(limit(FOLDED_ERROR)),
            _ => Fold::First(limit(FOLDED_OUTPUT)),
        };
        match &call.output {
            // The child's own line says more than the form it is printed in.
            Some(output) if !is_brief || call.child.is_none() && call.tool != "read" => {
                self.block(&output.to_str(), fold, long, |line| paint.dim(line))
            }
            _ => {
                self.after_short_call = call.child.is_none();
                Ok(())
            }
        }
    }

    /// The line of a session that a call started.
    fn child(&self, id: &SessionId) -> String {
        let paint = self.output.paint;
        let Ok(Some(record)) = self.home.session(id) else {
            return format!("{} {}", paint.id(id.as_str()), paint.dim("(gone)"));
        };
        let title = one_line(record.info.title());
        let mut usage = Usage::default();
        let mut n_messages = 0;
        let read = self.home.messages(&record, &MessageRange::ALL, MessageDetail::PartCounts).try_for_each(
            |message| {
                n_messages += 1;
                if let Message::Assistant(answer) = message?.stored.document.lens::<Message<'_>>() {
                    usage += Usage::of(&answer);
                }
                Ok::<(), ReadError>(())
            },
        );
        let facts = match read {
            Ok(()) => format!("{}, {}", count(n_messages, "message"), dollars(usage.cost)),
            Err(_) => String::new(),
        };
        let columns = self.output.width.saturating_sub(6 + width(id.as_str()) + 2 + width(&facts) + 2);
        format!("{}  {}  {}", paint.id(id.as_str()), cut(&title, columns), paint.dim(facts))
    }

    /// Prints indented text, folded to its first or last lines.
    fn block(
        &mut self,
        text: &str,
        fold: Fold,
        long: LongLines,
        dress: impl Fn(&str) -> String,
    ) -> io::Result<()> {
        let paint = self.output.paint;
        let text = harmless(text);
        let text = text.trim_end().trim_start_matches('\n');
        if text.is_empty() {
            self.after_short_call = true;
            return Ok(());
        }
        let (Fold::First(limit) | Fold::Last(limit)) = fold;
        let left = text.lines().count().saturating_sub(limit);
        let shown: Vec<&str> = match fold {
            Fold::First(_) => text.lines().take(limit).collect(),
            Fold::Last(_) => text.lines().skip(left).collect(),
        };
        let columns = self.output.width.saturating_sub(6);
        let mut lines: Vec<String> = match long {
            LongLines::Cut => shown.iter().map(|line| cut(line, columns).into_owned()).collect(),
            LongLines::Wrap => wrap(&shown.join("\n"), columns),
        };
        // A single line can be as long as a file, so the fold also limits the wrapped lines.
        let most = limit.saturating_mul(2);
        if lines.len() > most {
            lines.truncate(most);
            if let Some(last) = lines.last_mut() {
                *last = cut(&format!("{last} …"), columns).into_owned();
            }
        }
        let bar = paint.dim("│");
        let more =
            (left > 0).then(|| format!("    {bar} {}", paint.dim(format!("… {}", count(left, "more line")))));
        if let (Some(more), Fold::Last(_)) = (&more, fold) {
            self.output.line(more)?;
        }
        for line in &lines {
            self.output.line(format!("    {bar} {}", dress(line)))?;
        }
        if let (Some(more), Fold::First(_)) = (&more, fold) {
            self.output.line(more)?;
        }
        Ok(())
    }

    fn unreadable(&mut self, record: &MessageRecord) -> io::Result<()> {
        let paint = self.output.paint;
        for problem in &record.quarantined {
            let line = format!("a part could not be read: {}", one_line(&problem.reason.to_string()));
            self.output.line(format!("  {}", paint.bad(cut(&line, self.output.width.saturating_sub(2)))))?;
        }
        Ok(())
    }

    fn head(&mut self, left: &str, right: &str) -> io::Result<()> {
        let paint = self.output.paint;
        let gap = self.output.width.saturating_sub(width(left) + width(right)).max(1);
        self.output.line(format!("{}{:gap$}{}", paint.accent(left), "", paint.dim(right)))
    }

    /// Prints what the turn cost.
    fn end_turn(&mut self) -> io::Result<()> {
        let Some(turn) = self.turn.take().filter(|turn| turn.n_calls > 0) else { return Ok(()) };
        let usage = turn.usage;
        let mut facts = vec![turn.agents.join(", "), turn.models.join(", ")];
        if turn.n_calls > 1 {
            facts.push(count(turn.n_calls, "step"));
        }
        facts.push(format!("{} in", short_number(usage.input)));
        facts.push(format!("{} out", short_number(usage.output + usage.reasoning)));
        if usage.cache_read > 0.0 {
            facts.push(format!("{} cached", short_number(usage.cache_read)));
        }
        facts.push(dollars(usage.cost));
        facts.extend(turn.started.zip(turn.ended).map(|(start, end)| duration(end - start)));
        facts.retain(|fact| !fact.is_empty());
        let paint = self.output.paint;
        self.gap()?;
        for line in wrap(&facts.join(" · "), self.output.width.saturating_sub(2)) {
            self.output.line(format!("  {}", paint.dim(line)))?;
        }
        Ok(())
    }
}

/// How text is shortened: to a number of lines from its beginning or its end.
#[derive(Clone, Copy)]
enum Fold {
    First(usize),
    Last(usize),
}

/// How lines that are too long are shown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LongLines {
    Cut,
    Wrap,
}

/// A todo's sign and text, by its status.
pub(crate) fn dressed_todo(status: &str, content: &str, paint: Painter) -> (String, String) {
    match status {
        "completed" => (paint.good("✓"), paint.dim(content)),
        "in_progress" => (paint.warn("▸"), paint.bold(content)),
        "cancelled" => (paint.dim("✗"), paint.dim(content)),
        _ => (paint.dim("○"), content.to_owned()),
    }
}

/// A unified diff without the lines that only repeat the path.
fn diff_lines(diff: &str) -> String {
    let kept = diff.lines().filter(|line| {
        !line.starts_with("Index: ") && !line.starts_with("=====") && !line.starts_with("\\ No newline")
    });
    // One file is named in the line above; of several each must be told apart.
    let several = diff.matches("\n+++ ").count() + usize::from(diff.starts_with("+++ ")) > 1;
    kept.filter(|line| several || !(line.starts_with("--- ") || line.starts_with("+++ ")))
        .collect::<Vec<_>>()
        .join("\n")
}

/// The first lines, the last of them with an ellipsis if there are more.
fn fold(lines: &[String], limit: usize) -> Vec<String> {
    let mut folded: Vec<String> = lines.iter().take(limit).cloned().collect();
    if let (Some(last), true) = (folded.last_mut(), lines.len() > limit) {
        last.push_str(" …");
    }
    folded
}
