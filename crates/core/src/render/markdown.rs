//! A conversation as Markdown.

use std::fmt::Write;

use jiff::Timestamp;

use crate::call::CallView;
use crate::document::Document;
use crate::id::Millis;
use crate::lens::{Message, Part, Session, ToolStatus};
use crate::usage::Usage;

/// Writes a conversation message by message.
#[derive(Debug)]
pub struct MarkdownWriter {
    out: String,
    turn: Option<TurnTotals>,
    detail: MarkdownDetail,
}

/// What is written of a conversation beside what was said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MarkdownDetail {
    /// A line for each tool call.
    pub calls: bool,
    /// What calls printed and changed.
    pub output: bool,
    /// Reasoning.
    pub reasoning: bool,
}

impl MarkdownDetail {
    /// Everything.
    pub const FULL: MarkdownDetail = MarkdownDetail { calls: true, output: true, reasoning: true };
}

#[derive(Debug, Default)]
struct TurnTotals {
    usage: Usage,
    calls: usize,
    models: Vec<String>,
}

impl MarkdownWriter {
    /// Begins with the title and the details of a session.
    pub fn new(session: &Document) -> MarkdownWriter {
        let session = session.lens::<Session<'_>>();
        let mut out = String::new();
        let title = session.title.map(|title| title.to_string()).unwrap_or_default();
        let _ = writeln!(out, "# {}\n", if title.trim().is_empty() { "Untitled" } else { title.trim() });
        let mut row = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                let _ = writeln!(out, "- {name}: {value}");
            }
        };
        row("Session", session.id.map(|id| format!("`{id}`")));
        row("Directory", session.directory.map(|directory| format!("`{directory}`")));
        row("Parent", session.parent_id.map(|parent| format!("`{parent}`")));
        let time = session.time.unwrap_or_default();
        row("Created", time.created.map(instant));
        row("Updated", time.updated.map(instant));
        row("OpenCode", session.version.map(|version| version.to_string()));
        MarkdownWriter { out, turn: None, detail: MarkdownDetail::FULL }
    }

    /// Writes less.
    pub fn with_detail(self, detail: MarkdownDetail) -> MarkdownWriter {
        MarkdownWriter { detail, ..self }
    }

    /// Adds a message with its parts, which must come in order.
    pub fn message<'a>(&mut self, message: &Document, parts: impl IntoIterator<Item = &'a Document>) {
        let message = message.lens::<Message<'_>>();
        let when = message.created().map(|created| format!(" · {}", instant(created))).unwrap_or_default();
        match &message {
            Message::User(_) => {
                self.end_turn();
                self.turn = Some(TurnTotals::default());
                let _ = writeln!(self.out, "\n## User{when}");
            }
            Message::Assistant(answer) | Message::Other(answer) => {
                let turn = self.turn.get_or_insert_default();
                turn.usage += Usage::of(answer);
                turn.calls += 1;
                let model = answer.model_id.as_ref().map(ToString::to_string).unwrap_or_default();
                if turn.calls == 1 || !turn.models.contains(&model) {
                    let agent =
                        message.agent().map(|agent| format!(" ({agent}, {model})")).unwrap_or_default();
                    let _ = writeln!(self.out, "\n## Assistant{agent}{when}");
                    turn.models.push(model);
                }
            }
        }
        for part in parts {
            self.part(&part.lens::<Part<'_>>());
        }
        if let Message::Assistant(answer) | Message::Other(answer) = &message
            && let Some(error) = &answer.error
        {
            let name = error.name.as_ref().map(ToString::to_string).unwrap_or_default();
            let text = error.data.as_ref().and_then(|data| data.message.as_ref());
            let text = text.map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(self.out, "\n**Error: {name}**\n");
            self.fenced("", &text);
        }
    }

    /// Takes the text written since the last call.
    pub fn take(&mut self) -> String {
        std::mem::take(&mut self.out)
    }

    /// Ends the conversation.
    pub fn finish(mut self) -> String {
        self.end_turn();
        self.out
    }

    fn end_turn(&mut self) {
        let Some(turn) = self.turn.take().filter(|turn| turn.calls > 0) else { return };
        let Usage { cost, input, output, cache_read, .. } = turn.usage;
        let _ =
            writeln!(self.out, "\n*{input} tokens in, {output} out, {cache_read} from cache, ${cost:.4}*");
    }

    fn part(&mut self, part: &Part<'_>) {
        match part {
            Part::Text(part) => {
                let text = part.text.as_ref().map(ToString::to_string).unwrap_or_default();
                if part.synthetic == Some(true) {
                    self.folded("added by OpenCode", &text);
                } else if !text.trim().is_empty() {
                    let _ = writeln!(self.out, "\n{}", text.trim_end());
                }
            }
            Part::Reasoning(_) if !self.detail.reasoning => {}
            Part::Reasoning(part) => {
                let text = part.text.as_ref().map(ToString::to_string).unwrap_or_default();
                if !text.trim().is_empty() {
                    let _ = writeln!(self.out);
                    for line in text.trim_end().lines() {
                        let _ = writeln!(self.out, "> {line}");
                    }
                }
            }
            Part::File(part) => {
                let name = part
                    .filename
                    .as_ref()
                    .or(part.mime.as_ref())
                    .map(ToString::to_string)
                    .unwrap_or_default();
                let _ = writeln!(self.out, "\n*Attached: {name}*");
            }
            Part::Tool(_) if !self.detail.calls => {}
            Part::Tool(part) => self.call(&CallView::of(part)),
            Part::Compaction(_) => self.out.push_str("\n---\n\n*The conversation was compacted here.*\n"),
            Part::Subtask(part) => {
                let description = part.description.as_ref().map(ToString::to_string).unwrap_or_default();
                let _ = writeln!(self.out, "\n*Subtask: {description}*");
            }
            Part::Retry(part) => {
                let attempt = part.attempt.unwrap_or(0.0);
                let _ = writeln!(self.out, "\n*Attempt {attempt} failed.*");
            }
            Part::Other(part) => {
                if let Some(text) = part.result_text() {
                    if self.detail.output {
                        self.folded("output", &text);
                    }
                    return;
                }
                let kind = part.kind.as_ref().map(ToString::to_string).unwrap_or_default();
                let text = part.text.as_ref().map(ToString::to_string).unwrap_or_default();
                let _ = writeln!(self.out, "\n*{kind}* {text}");
            }
            Part::StepStart(_)
            | Part::StepFinish(_)
            | Part::Snapshot(_)
            | Part::Patch(_)
            | Part::Agent(_) => {}
        }
    }

    fn call(&mut self, call: &CallView<'_>) {
        let state = match call.status {
            Some(ToolStatus::Completed) => {
                call.exit.filter(|exit| *exit != 0).map_or("done".to_owned(), |exit| format!("exit {exit}"))
            }
            Some(ToolStatus::Error) => "failed".to_owned(),
            _ => call.status_name().to_owned(),
        };
        let subject = call.subject.lines().next().unwrap_or_default();
        let _ = writeln!(self.out, "\n**{}** {} — {state}", call.tool, inline_code(subject));
        if let Some(child) = &call.child {
            let _ = writeln!(self.out, "\n*Session `{child}`*");
        }
        if !self.detail.output {
            return;
        }
        if let Some(error) = &call.error {
            let _ = writeln!(self.out);
            self.fenced("", &error.to_str());
        } else if let Some(diff) = &call.diff {
            let _ = writeln!(self.out);
            self.fenced("diff", &diff.to_str());
        } else if let Some(output) = call.output.as_ref().filter(|output| !output.is_empty()) {
            match call.text_read() {
                Some(text) => self.folded("output", &text),
                None => self.folded("output", &output.to_str()),
            }
        }
    }

    fn folded(&mut self, summary: &str, text: &str) {
        let _ = writeln!(self.out, "\n<details><summary>{summary}</summary>\n");
        self.fenced("", text);
        let _ = writeln!(self.out, "\n</details>");
    }

    /// A code block whose fence is longer than any in its text.
    fn fenced(&mut self, language: &str, text: &str) {
        let fence = "`".repeat(longest_backticks(text).max(2) + 1);
        let _ = writeln!(self.out, "{fence}{language}\n{}\n{fence}", text.trim_end_matches('\n'));
    }
}

fn inline_code(text: &str) -> String {
    if text.is_empty() {
        return String::new();
    }
    let fence = "`".repeat(longest_backticks(text) + 1);
    let padding = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    format!("{fence}{padding}{text}{padding}{fence}")
}

fn longest_backticks(text: &str) -> usize {
    let mut longest = 0;
    let mut run = 0;
    for c in text.chars() {
        run = if c == '`' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    longest
}

/// A time in UTC, since a file can be read in any time zone.
fn instant(millis: Millis) -> String {
    match Timestamp::from_millisecond(millis) {
        Ok(time) => time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string(),
        Err(_) => millis.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fences_are_longer_than_what_they_hold() {
        assert_eq!(inline_code("ls"), "`ls`");
        assert_eq!(inline_code("echo `date`"), "`` echo `date` ``");
        let mut writer = MarkdownWriter { out: String::new(), turn: None, detail: MarkdownDetail::FULL };
        writer.fenced("", "```\ncode\n```\n");
        assert_eq!(writer.out, "````\n```\ncode\n```\n````\n");
    }
}
