//! A conversation on a terminal: turns, answers, tool calls folded to a line, the cost of each turn.

mod call;
mod head;

use std::collections::HashSet;
use std::io;

use annals::home::{MessageRecord, Read, SessionRecord};
use annals::interrupted::STILL_RUNNING;
use annals::model::call::CallView;
use annals::model::json::Text;
use annals::model::lens::{AssistantMessage, FileDiff, Message, Part, Session, UserMessage};
use annals::model::{Key, Usage, early};
use clap::ValueEnum;

use crate::output::{Output, Painter};
use crate::prose;
use crate::text::{Clock, count, cut, dollars, duration, harmless, one_line, short_number, width, wrap};
use call::{Fold, LongLines};

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
    /// Whether each step ends with what it used.
    pub(crate) steps: bool,
    /// Whether an earlier state is shown, in which everything that had not ended was going on.
    pub(crate) is_past: bool,
}

/// Files that are named at the end of a turn.
const SHOWN_FILES: usize = 6;
/// Lines of an error that are shown at first.
const FOLDED_ERROR: usize = 8;
const FOLDED_REASONING: usize = 2;

/// Prints a conversation message by message.
pub(crate) struct Transcript<'a> {
    output: &'a mut Output,
    clock: &'a Clock,
    home: &'a dyn Read,
    options: TranscriptOptions,
    turn: Option<TurnTally>,
    /// The number of the next prompt; none if it is not known, because what comes before was not counted.
    next_turn: Option<usize>,
    n_messages: usize,
    /// The title of the session: a prompt that has the same one need not say it again.
    title: String,
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
    /// Files that the turn changed, as the prompt records them.
    changed: Vec<ChangedFile>,
    /// Files that the steps changed, as the answers record them.
    patched: Vec<String>,
    usage: Usage,
    n_calls: usize,
    models: Vec<String>,
    agents: Vec<String>,
    started: Option<i64>,
    ended: Option<i64>,
}

/// A file that a turn changed.
struct ChangedFile {
    name: String,
    additions: f64,
    deletions: f64,
}

impl ChangedFile {
    fn of(diff: &FileDiff<'_>) -> Option<ChangedFile> {
        let name = one_line(&diff.file.as_ref()?.to_str());
        let (additions, deletions) = (diff.additions.unwrap_or(0.0), diff.deletions.unwrap_or(0.0));
        Some(ChangedFile { name, additions, deletions })
    }
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
        head::print(output, clock, home, record)?;
        let session = record.stored.document.lens::<Session<'_>>();
        let time = session.time.unwrap_or_default();
        // The head names the day of the last use; prompts of that day need not.
        let day = time.updated.map(|updated| clock.day(updated));
        // The first part that is hidden, or else the first message.
        let reverted_from = session.revert.and_then(|revert| revert.part_id.or(revert.message_id));
        let reverted_from = reverted_from.map(|id| id.to_string());
        Ok(Transcript {
            output,
            clock,
            home,
            options,
            turn: None,
            next_turn: Some(1),
            n_messages: 0,
            title: one_line(record.info.title()),
            reverted_from,
            after_short_call: false,
            day,
            unfinished: HashSet::new(),
        })
    }

    /// Sets the number of the first prompt that is shown. Without one, prompts have no numbers.
    pub(crate) fn number_turns_from(&mut self, first: Option<usize>) {
        self.next_turn = first;
    }

    /// Prints where the message that comes next stands in the conversation.
    pub(crate) fn place(&mut self, place: &str) -> io::Result<()> {
        self.gap()?;
        self.output.line(self.output.paint.dim(place))
    }

    /// Sets the documents that were in progress at the moment that is shown.
    pub(crate) fn unfinished(&mut self, keys: HashSet<Key>) {
        self.unfinished = keys;
    }

    /// Prints one message with its parts.
    pub(crate) fn message(&mut self, record: &MessageRecord) -> io::Result<()> {
        self.n_messages += 1;
        if self.is_reverted(&record.stored.key) {
            self.end_turn()?;
            self.revert_line()?;
        }
        match record.stored.document.lens::<Message<'_>>() {
            Message::User(user) => self.prompt(&user, record),
            Message::Assistant(answer) | Message::Other(answer) => self.answer(&answer, record),
        }
    }

    /// Whether a revert hides the conversation from this message or part on.
    fn is_reverted(&self, key: &Key) -> bool {
        let id = match key {
            Key::Message(_, id) => id.as_str(),
            Key::Part(_, _, id) => id.as_str(),
            _ => return false,
        };
        self.reverted_from.as_deref() == Some(id)
    }

    fn revert_line(&mut self) -> io::Result<()> {
        let line = "── undone: what follows is hidden in OpenCode until it is redone or dropped ──";
        let line = self.output.paint.warn(cut(line, self.output.width));
        self.output.line("")?;
        self.output.line(line)
    }

    /// Ends the conversation.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.end_turn()?;
        if self.n_messages == 0 {
            let line = self.output.paint.dim("no messages");
            self.output.line("")?;
            self.output.line(line)?;
        }
        Ok(())
    }

    fn prompt(&mut self, user: &UserMessage<'_>, record: &MessageRecord) -> io::Result<()> {
        self.end_turn()?;
        let diffs = user.summary.as_ref().and_then(|summary| summary.diffs.as_ref());
        let changed = diffs.into_iter().flatten().filter_map(ChangedFile::of).collect();
        self.turn = Some(TurnTally { changed, ..TurnTally::default() });
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
                    let facts: Vec<String> =
                        [name, mime].into_iter().filter(|fact| !fact.is_empty()).collect();
                    lines.push(paint.dim(cut(&format!("+ {}", facts.join("  ")), columns)));
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
        let number = self.next_turn.map(|number| format!("{number}. ")).unwrap_or_default();
        self.next_turn = self.next_turn.map(|number| number + 1);
        let head = format!("{number}You {agent}");
        self.gap()?;
        self.head(&head, &when.unwrap_or_default())?;
        let title = user.summary.as_ref().and_then(|summary| summary.title.as_ref());
        let title = title.map(|title| one_line(&title.to_str()));
        if let Some(title) = title.filter(|title| !title.is_empty() && *title != self.title) {
            self.output.line(paint.italic_dim(cut(&title, self.output.width)))?;
        }
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
        for part in &early::joined(record.parts.clone()) {
            if self.is_reverted(&part.key) {
                self.revert_line()?;
            }
            let lens = part.document.lens::<Part<'_>>();
            if let (Part::Patch(patch), Some(turn)) = (&lens, &mut self.turn) {
                turn.patched.extend(patch.files.iter().flatten().map(|file| one_line(&file.to_str())));
            }
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
            let line = match self.is_at_work(time.created) {
                true => paint.good("● at work"),
                false => paint.warn("◌ unfinished: it was interrupted"),
            };
            self.output.line(format!("  {line}"))?;
        } else if let Some(why) = answer.finish.as_ref().and_then(|finish| cut_short(&finish.to_str())) {
            self.gap()?;
            self.output.line(format!("  {}", paint.warn(format!("✗ {why}"))))?;
        }
        if self.options.steps {
            self.step(answer)?;
        }
        self.unreadable(record)
    }

    /// Whether something that began at a time may still be going on.
    fn is_at_work(&self, started: Option<i64>) -> bool {
        self.options.is_past || started.is_some_and(|started| self.clock.now - started < STILL_RUNNING)
    }

    /// Prints what one step used, and why it ended.
    fn step(&mut self, answer: &AssistantMessage<'_>) -> io::Result<()> {
        let usage = Usage::of(answer);
        let finish = answer.finish.as_ref().map(|finish| one_line(&finish.to_str())).unwrap_or_default();
        let mut facts = vec!["step".to_owned(), finish];
        facts.extend(usage_facts(&usage));
        facts.retain(|fact| !fact.is_empty());
        let line = self.output.paint.dim(cut(&facts.join(" · "), self.output.width.saturating_sub(4)));
        self.output.line(format!("  {} {line}", self.output.paint.dim("·")))
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
            Part::Other(part) if part.is_result() => {
                if self.options.tools != ToolDetail::None {
                    self.result(&part.result_text().unwrap_or_default())?;
                }
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
                let result = part.result_text();
                let text = result.as_deref().map(Into::into).or(part.text.as_ref().map(Text::to_str));
                let text = text.unwrap_or_default();
                let head = match part.is_result() {
                    true => "result".to_owned(),
                    false => format!("[{kind}] {name}").trim_end().to_owned(),
                };
                let mut lines = vec![paint.dim(head)];
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

    /// Prints which files a turn changed.
    fn changed_files(&mut self, turn: &TurnTally) -> io::Result<()> {
        let paint = self.output.paint;
        let mut names: Vec<String> = turn
            .changed
            .iter()
            .map(|file| format!("{} +{} −{}", file.name, file.additions, file.deletions))
            .collect();
        if names.is_empty() {
            names.clone_from(&turn.patched);
            names.sort_unstable();
            names.dedup();
        }
        if names.is_empty() {
            return Ok(());
        }
        let n_more = names.len().saturating_sub(SHOWN_FILES);
        names.truncate(SHOWN_FILES);
        if n_more > 0 {
            names.push(format!("{n_more} more"));
        }
        let line = format!("changed {}", names.join(", "));
        for line in wrap(&line, self.output.width.saturating_sub(2)) {
            self.output.line(format!("  {}", paint.dim(line)))?;
        }
        Ok(())
    }

    /// Prints what the turn cost.
    fn end_turn(&mut self) -> io::Result<()> {
        let Some(turn) = self.turn.take().filter(|turn| turn.n_calls > 0) else { return Ok(()) };
        let usage = turn.usage;
        let mut facts = vec![turn.agents.join(", "), turn.models.join(", ")];
        if turn.n_calls > 1 {
            facts.push(count(turn.n_calls, "step"));
        }
        facts.extend(usage_facts(&usage));
        facts.extend(turn.started.zip(turn.ended).map(|(start, end)| duration(end - start)));
        facts.retain(|fact| !fact.is_empty());
        let paint = self.output.paint;
        self.gap()?;
        self.changed_files(&turn)?;
        for line in wrap(&facts.join(" · "), self.output.width.saturating_sub(2)) {
            self.output.line(format!("  {}", paint.dim(line)))?;
        }
        Ok(())
    }
}

/// Tokens and cost in words; nothing where nothing was used.
fn usage_facts(usage: &Usage) -> Vec<String> {
    let mut facts = Vec::new();
    if usage.total_tokens() > 0.0 {
        facts.push(format!("{} in", short_number(usage.input)));
        facts.push(format!("{} out", short_number(usage.output + usage.reasoning)));
    }
    if usage.cache_read > 0.0 {
        facts.push(format!("{} cached", short_number(usage.cache_read)));
    }
    if usage.total_tokens() > 0.0 || usage.cost > 0.0 {
        facts.push(dollars(usage.cost));
    }
    facts
}

/// Why an answer ended before the model was done.
fn cut_short(finish: &str) -> Option<String> {
    match finish {
        // `end-turn` is what early descriptions of the format call `stop`.
        "stop" | "tool-calls" | "end-turn" | "end_turn" | "" => None,
        "length" => Some("cut off: the model reached the limit on its output".to_owned()),
        "content-filter" => Some("cut off by the provider's content filter".to_owned()),
        other => Some(format!("ended with {:?}", one_line(other))),
    }
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

/// The first lines, the last of them with an ellipsis if there are more.
fn fold(lines: &[String], limit: usize) -> Vec<String> {
    let mut folded: Vec<String> = lines.iter().take(limit).cloned().collect();
    if let (Some(last), true) = (folded.last_mut(), lines.len() > limit) {
        last.push_str(" …");
    }
    folded
}
