//! Tool calls in a transcript: a line each, and the output or the change below it.

use std::io;

use annals::home::{MessageDetail, MessageRange, ReadError};
use annals::model::Usage;
use annals::model::call::CallView;
use annals::model::id::SessionId;
use annals::model::lens::{Message, ToolStatus};

use super::{FOLDED_ERROR, ToolDetail, Transcript, dressed_todo};
use crate::text::{count, cut, dollars, duration, harmless, one_line, width, wrap};

/// Lines of a tool's result and of its diff that are shown at first.
const FOLDED_OUTPUT: usize = 4;
const FOLDED_DIFF: usize = 14;

impl Transcript<'_> {
    /// Prints a tool call: one line, then its output or the change it made.
    pub(super) fn call(&mut self, call: &CallView<'_>) -> io::Result<()> {
        let paint = self.output.paint;
        let (sign, name) = match call.status {
            Some(ToolStatus::Completed) if call.exit.is_some_and(|exit| exit != 0) => {
                (paint.warn("✗"), paint.bold(one_line(&call.tool)))
            }
            Some(ToolStatus::Completed) => (paint.good("✓"), paint.bold(one_line(&call.tool))),
            Some(ToolStatus::Error) => (paint.bad("✗"), paint.bad_bold(one_line(&call.tool))),
            _ if self.is_at_work(call.started) => (paint.good("●"), paint.bold(one_line(&call.tool))),
            _ => (paint.warn("◌"), paint.bold(one_line(&call.tool))),
        };
        let mut facts = Vec::new();
        facts.extend(call.exit.filter(|exit| *exit != 0).map(|exit| format!("exit {exit}")));
        match (call.status, call.started) {
            (Some(ToolStatus::Running), Some(started))
                if self.is_at_work(Some(started)) && !self.options.is_past =>
            {
                facts.push(format!("running for {}", duration(self.clock.now - started)));
            }
            (Some(ToolStatus::Pending | ToolStatus::Running), _) if !self.is_at_work(call.started) => {
                facts.push(format!("{}, never ended", call.status_name()));
            }
            (Some(ToolStatus::Pending | ToolStatus::Running) | None, _) => {
                facts.push(call.status_name().to_owned());
            }
            _ => {}
        }
        if call.cleared {
            facts.push("cleared".to_owned());
        }
        let is_brief = self.options.tools == ToolDetail::Brief;
        if let (true, Some(n)) = (is_brief, call.lines_read()) {
            // The text that was read is still in the file.
            facts.push(count(n, "line"));
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

    /// Prints the result of a call that stands in a part of its own.
    pub(super) fn result(&mut self, text: &str) -> io::Result<()> {
        let limit = if self.options.tools == ToolDetail::Brief { FOLDED_OUTPUT } else { usize::MAX };
        let paint = self.output.paint;
        self.block(text, Fold::First(limit), LongLines::Cut, |line| paint.dim(line))
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
        let fold = match (call.exit, call.status) {
            // A command that failed says why at its end, and one that runs shows there how far it is.
            (Some(exit), _) if exit != 0 => Fold::Last(limit(FOLDED_ERROR)),
            (_, Some(ToolStatus::Running)) => Fold::Last(limit(FOLDED_OUTPUT)),
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
    pub(super) fn block(
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
}

/// How text is shortened: to a number of lines from its beginning or its end.
#[derive(Clone, Copy)]
pub(super) enum Fold {
    First(usize),
    Last(usize),
}

/// How lines that are too long are shown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum LongLines {
    Cut,
    Wrap,
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
