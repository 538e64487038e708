//! The request for the summary of a compaction.

use std::collections::HashSet;

use super::history::HistoryMessage;
use super::rules::{Rules, SummaryForm};
use super::words::{CLEARED, attached, shortened};
use crate::document::Document;
use crate::json::{JsonError, Style, Text};
use crate::lens::{Part, TextPart, ToolPart, ToolStatus};

/// What the model is asked. The texts below `texts/` are OpenCode's (MIT licence, see `texts/NOTICE`).
const SENTENCE: &str = include_str!("texts/summary-1.0.txt");
const TEMPLATE: &str = include_str!("texts/summary-1.1.txt");
const AFTER_TRANSCRIPT: &str = include_str!("texts/summary-1.18.txt");
const AFTER_TRANSCRIPT_AND_SUMMARY: &str = include_str!("texts/summary-1.18-again.txt");

/// The UTF-16 units of a result that a transcript has.
const MAX_RESULT: usize = 2000;

/// What a summary depends on besides the history.
pub(super) struct SummaryRequest<'r> {
    /// The id of the message that the summary answers. It asked for the compaction, unless an earlier summary has failed: then
    /// the next prompt starts another try.
    pub(super) parent: &'r str,
    /// The first message that the compaction kept.
    pub(super) tail: Tail<'r>,
    pub(super) rules: Rules,
}

/// The first message that a compaction keeps.
pub(super) enum Tail<'r> {
    /// The stored one, if any.
    Stored(Option<&'r str>),
    /// It was not stored, and is found as OpenCode finds it: as many turns are kept as have fewer tokens than these. The
    /// function estimates the tokens of messages.
    Sought(usize, &'r dyn Fn(&[HistoryMessage]) -> usize),
}

impl SummaryRequest<'_> {
    /// The messages of the request. `visible` is what the model would see.
    pub(super) fn messages(&self, visible: Vec<HistoryMessage>) -> Result<Vec<HistoryMessage>, JsonError> {
        let mut history = visible;
        let asks = |message: &HistoryMessage| message.id() == self.parent;
        let is_request = history.iter().any(|message| asks(message) && message.compaction().is_some());
        // If the parent is no request, the last one is still to be answered.
        let request = history.iter().rev().find_map(HistoryMessage::compaction);
        let is_overflow = request.is_some_and(|part| part.overflow == Some(true));
        if is_overflow {
            cut_before_last_prompt(&mut history, self.parent);
        }
        let question = match self.rules.summary_form() {
            SummaryForm::Sentence => Text::from(SENTENCE),
            SummaryForm::Template | SummaryForm::TemplateWithoutMedia => Text::from(TEMPLATE),
            SummaryForm::Transcript => {
                history.pop_if(|message| is_request && asks(message));
                return Ok(vec![prompt(self.transcript_request(history), self.parent)?]);
            }
        };
        history.push(prompt(question, self.parent)?);
        Ok(history)
    }

    fn transcript_request(&self, mut history: Vec<HistoryMessage>) -> Text<'static> {
        let earlier = Earlier::of(&history);
        history.retain(|message| !earlier.ids.contains(&*message.id()));
        let end = match self.tail {
            Tail::Stored(tail) => {
                history.iter().position(|message| tail.is_some_and(|tail| message.id() == tail))
            }
            Tail::Sought(budget, estimate) => sought_tail(&history, budget, estimate),
        };
        history.truncate(end.unwrap_or(history.len()));
        let messages = history.iter().map(transcript).filter(|text| !text.is_empty());
        let mut pieces: Vec<Text<'_>> = vec![
            "Here is the conversation so far:\n\n<conversation>\n".into(),
            Text::joined(&messages.collect::<Vec<_>>(), "\n\n"),
            "\n</conversation>\n\n".into(),
        ];
        match earlier.summary {
            Some(summary) => pieces.extend([
                "Here is the summary of the conversation before the <conversation> above:\n\n<prior-summary>\n"
                    .into(),
                summary,
                "\n</prior-summary>\n\n".into(),
                AFTER_TRANSCRIPT_AND_SUMMARY.into(),
            ]),
            None => pieces.push(AFTER_TRANSCRIPT.into()),
        }
        Text::joined(&pieces, "")
    }
}

/// The place of the first message that a compaction keeps: whole turns from the end, and of the first turn that is too large as
/// much as fits. `None` if nothing fits, or everything.
fn sought_tail(
    history: &[HistoryMessage],
    budget: usize,
    estimate: &dyn Fn(&[HistoryMessage]) -> usize,
) -> Option<usize> {
    let mut first: Option<usize> = None;
    let (mut end, mut n_tokens) = (history.len(), 0);
    let starts = (0..history.len()).rev().filter(|&place| is_prompt(&history[place]));
    for start in starts {
        let size = estimate(&history[start..end]);
        if n_tokens + size > budget {
            let left = budget.saturating_sub(n_tokens);
            let fits = |place: &usize| left > 0 && estimate(&history[*place..end]) <= left;
            first = (start + 1..end).find(fits).or(first);
            break;
        }
        n_tokens += size;
        first = Some(start);
        end = start;
    }
    first.filter(|&place| place > 0)
}

fn is_prompt(message: &HistoryMessage) -> bool {
    message.user().is_some() && message.compaction().is_none()
}

/// A prompt that only this request has.
fn prompt(text: Text<'_>, request: &str) -> Result<HistoryMessage, JsonError> {
    let info =
        crate::lens::UserMessage { id: Some(format!("{request}-prompt").into()), ..Default::default() };
    let part = TextPart { text: Some(text), ..TextPart::default() };
    Ok(HistoryMessage::new(Document::new(&info), vec![Document::written(Style::Compact, &part)?]))
}

/// The provider has refused the last prompt because of its size: it is repeated after the compaction, and not summarised. If it is
/// all there is, everything is.
fn cut_before_last_prompt(history: &mut Vec<HistoryMessage>, request: &str) {
    let Some(request) = history.iter().position(|message| message.id() == request) else { return };
    let Some(last) = history[..request].iter().rposition(is_prompt) else { return };
    if history[..last].iter().any(is_prompt) {
        history.truncate(last);
    }
}

/// Earlier compactions that are finished.
struct Earlier {
    /// Their requests and summaries.
    ids: HashSet<String>,
    /// The text of the last summary.
    summary: Option<Text<'static>>,
}

impl Earlier {
    fn of(history: &[HistoryMessage]) -> Earlier {
        let mut earlier = Earlier { ids: HashSet::new(), summary: None };
        let is_request =
            |id: &str| history.iter().any(|message| message.id() == id && message.compaction().is_some());
        for message in history {
            let Some(request) = message.summarised_request() else { continue };
            let answer = message.assistant().unwrap_or_default();
            let is_finished =
                answer.finish.is_some_and(|finish| !finish.is_empty()) && answer.error.is_none();
            if is_finished && is_request(&request) {
                earlier.ids.extend([request, message.id().into_owned()]);
                earlier.summary = text_of(message);
            }
        }
        earlier
    }
}

/// The text of a summary.
fn text_of(message: &HistoryMessage) -> Option<Text<'static>> {
    let texts = message.lenses().filter_map(|part| match part {
        Part::Text(part) => part.text.map(|text| text.trimmed()),
        _ => None,
    });
    let texts: Vec<Text<'_>> = texts.filter(|text| !text.is_empty()).collect();
    Some(Text::joined(&texts, "\n\n")).filter(|text| !text.is_empty())
}

/// A message in words; empty if there is nothing to say.
fn transcript(message: &HistoryMessage) -> Text<'static> {
    let mut lines: Vec<Text<'_>> = Vec::new();
    if message.user().is_some() {
        let said: Vec<Text<'_>> = message.lenses().filter_map(said).collect();
        if !said.is_empty() {
            lines.push(Text::joined(&["[User]: ".into(), Text::joined(&said, "\n")], ""));
        }
        lines.extend(message.lenses().filter_map(|part| match part {
            Part::File(file) => Some(attached(&file)),
            _ => None,
        }));
    } else {
        for part in message.lenses() {
            match part {
                Part::Text(part) => lines.extend(labelled("[Assistant]: ", part.text)),
                Part::Reasoning(part) => lines.extend(labelled("[Assistant reasoning]: ", part.text)),
                Part::Tool(part) => lines.extend(call(&part)),
                _ => {}
            }
        }
    }
    Text::joined(&lines, "\n")
}

/// What the user said in a part.
fn said(part: Part<'_>) -> Option<Text<'_>> {
    match part {
        Part::Text(part) if part.ignored != Some(true) => part.text.filter(|text| !text.is_empty()),
        _ => None,
    }
}

fn labelled(label: &str, text: Option<Text<'_>>) -> Option<Text<'static>> {
    let text = text.filter(|text| !text.is_empty())?;
    Some(Text::joined(&[label.into(), text], ""))
}

/// A call and its result.
fn call(part: &ToolPart<'_>) -> Vec<Text<'static>> {
    let Some(state) = &part.state else { return Vec::new() };
    let input = state.input.as_ref().map_or("undefined".into(), Text::json_of);
    let tool = part.tool.clone().unwrap_or("".into());
    let call = Text::joined(&["[Assistant tool call]: ".into(), tool, "(".into(), input, ")".into()], "");
    let result = match state.status() {
        Some(ToolStatus::Completed) => {
            let is_cleared = state.time.as_ref().is_some_and(|time| time.compacted.is_some_and(|at| at != 0));
            let output = match is_cleared {
                true => Text::from(CLEARED),
                false => {
                    let mut lines = vec![state.output.clone().unwrap_or("".into())];
                    for file in state.attachments.iter().flatten() {
                        lines.push(attached(file));
                    }
                    shortened(Text::joined(&lines, "\n"), MAX_RESULT)
                }
            };
            Some(Text::joined(&["[Tool result]: ".into(), output], ""))
        }
        Some(ToolStatus::Error) => {
            let error = state.error.clone().unwrap_or("".into());
            Some(Text::joined(&["[Tool error]: ".into(), error], ""))
        }
        _ => None,
    };
    std::iter::once(call).chain(result).collect()
}
