//! The last turns of a conversation, which the model gets beside the summary since OpenCode 1.14.19.
//!
//! OpenCode counts the characters of the messages that it would send. Here they are estimated from the same parts, without what providers add.

use std::collections::HashSet;

use annals_core::Key;
use annals_core::id::MessageId;
use annals_core::json::Text;
use annals_core::lens::{AssistantMessage, Json, Message, Part, ToolState, ToolStatus};

use super::{length, tokens};
use crate::home::{MessageDetail, MessageRange, MessageRecord, Read, ReadError, SessionRecord};

/// Upper bound on the tokens of the turns that are kept, for a model with room for 60,000 tokens and more.
pub const KEPT_TOKENS: u64 = 15_000;

/// What the tail needs to know of a message.
#[derive(Debug, Clone)]
struct TailMessage {
    id: MessageId,
    is_prompt: bool,
    /// A request to compact, with the message from which it kept the conversation.
    request: Option<Option<String>>,
    /// The request that it is the finished summary of.
    summary_of: Option<String>,
    /// Estimated length of what the model gets of it.
    length: u64,
}

/// The first message that the model gets beside a summary made now: the last turns that take no more than `budget` tokens. `None` if no turn is
/// small enough, or all are.
pub(crate) fn kept_from(
    read: &dyn Read,
    session: &SessionRecord,
    budget: u64,
) -> Result<Option<MessageId>, ReadError> {
    let mut messages = Vec::new();
    for record in read.messages(session, &MessageRange::ALL, MessageDetail::Parts) {
        messages.extend(TailMessage::of(&record?));
    }
    let history = without_summaries(&view(&messages));
    Ok(tail_start(&history, budget).map(|start| history[start].id.clone()))
}

impl TailMessage {
    fn of(record: &MessageRecord) -> Option<TailMessage> {
        let Key::Message(_, id) = &record.stored.key else { return None };
        let message = record.stored.document.lens::<Message<'_>>();
        let is_prompt = matches!(message, Message::User(_));
        let mut request = None;
        for part in &record.parts {
            if let (Part::Compaction(part), None) = (part.document.lens(), &request) {
                request = Some(part.tail_start_id.map(|start| start.to_string()));
            }
        }
        let summary_of = match &message {
            Message::Assistant(answer)
                if answer.summary == Some(true) && answer.finish.is_some() && answer.error.is_none() =>
            {
                answer.parent_id.as_ref().map(ToString::to_string)
            }
            _ => None,
        };
        let length = match &message {
            Message::Assistant(answer) => answer_length(answer, record),
            _ => prompt_length(record),
        };
        let request = request.filter(|_| is_prompt);
        Some(TailMessage { id: id.clone(), is_prompt, request, summary_of, length })
    }
}

/// The messages that the model would get now, oldest first. Those before the last finished compaction and what it kept are left out.
fn view(messages: &[TailMessage]) -> Vec<&TailMessage> {
    let mut done: HashSet<&str> = HashSet::new();
    let mut view: Vec<&TailMessage> = Vec::new();
    let mut until: Option<&str> = None;
    for message in messages.iter().rev() {
        view.push(message);
        if let Some(until) = until {
            if message.id.as_str() == until {
                break;
            }
            continue;
        }
        done.extend(message.summary_of.as_deref());
        if let Some(kept) = message.request.as_ref().filter(|_| done.contains(message.id.as_str())) {
            match kept.as_deref() {
                None => break,
                Some(kept) if kept == message.id.as_str() => break,
                kept => until = kept,
            }
        }
    }
    view.reverse();
    view
}

/// The messages without finished requests and their summaries.
fn without_summaries<'m>(view: &[&'m TailMessage]) -> Vec<&'m TailMessage> {
    let requests: HashSet<&str> =
        view.iter().filter(|message| message.request.is_some()).map(|message| message.id.as_str()).collect();
    let is_done = |id: &str| view.iter().any(|message| message.summary_of.as_deref() == Some(id));
    let is_pair = |message: &&TailMessage| {
        let id = message.id.as_str();
        let is_summary = message.summary_of.as_deref().is_some_and(|request| requests.contains(request));
        is_summary || (requests.contains(id) && is_done(id))
    };
    view.iter().copied().filter(|message| !is_pair(message)).collect()
}

/// Where the kept messages begin. Whole turns as far as they fit, and then the end of the one before.
fn tail_start(history: &[&TailMessage], budget: u64) -> Option<usize> {
    let is_turn = |message: &TailMessage| message.is_prompt && message.request.is_none();
    let starts: Vec<usize> = (0..history.len()).filter(|n| is_turn(history[*n])).collect();
    let size = |from: usize, to: usize| {
        // A list of messages is a JSON array: two brackets, and a comma between two.
        let lengths: u64 = history[from..to].iter().map(|message| message.length).sum();
        tokens(lengths + 2)
    };
    let (mut total, mut found) = (0, None);
    let mut end = history.len();
    for start in starts.into_iter().rev() {
        let needed = size(start, end);
        if total + needed > budget {
            let left = budget - total;
            found = (start + 1..end).find(|from| left > 0 && size(*from, end) <= left).or(found);
            break;
        }
        total += needed;
        found = Some(start);
        end = start;
    }
    found.filter(|start| *start > 0)
}

/// Length of a text in JSON, with its quotes.
fn quoted(text: &Text<'_>) -> u64 {
    let text = text.to_str();
    let escaped = text.chars().map(|c| match c {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 1,
        c if u32::from(c) < 0x20 => 5,
        _ => 0,
    });
    length(&text) + escaped.sum::<u64>() + 2
}

/// Length of `{"role":"user","content":[…]}` and the comma behind it.
fn prompt_length(record: &MessageRecord) -> u64 {
    const MESSAGE: u64 = 29;
    const TEXT: u64 = 24;
    let lengths: Vec<u64> = record
        .parts
        .iter()
        .filter_map(|part| match part.document.lens() {
            Part::Text(text) if text.ignored != Some(true) => {
                text.text.filter(|text| !text.is_empty()).map(|text| TEXT + quoted(&text))
            }
            Part::Compaction(_) => Some(TEXT + length("\"What did we do so far?\"")),
            Part::Subtask(_) => Some(TEXT + length("\"The following tool was executed by the user\"")),
            Part::File(file) => {
                let is = |known: &str| file.mime.as_ref().is_some_and(|mime| *mime == known);
                let text = |text: &Option<Text<'_>>| text.as_ref().map_or(0, quoted);
                let is_sent = !is("text/plain") && !is("application/x-directory");
                is_sent.then(|| 54 + text(&file.mime) + text(&file.filename) + text(&file.url))
            }
            _ => None,
        })
        .collect();
    match lengths.is_empty() {
        true => 0,
        false => MESSAGE + lengths.iter().sum::<u64>(),
    }
}

/// Length of an answer and of the results of its calls, as messages with the roles `assistant` and `tool`.
fn answer_length(answer: &AssistantMessage<'_>, record: &MessageRecord) -> u64 {
    const MESSAGES: u64 = 34 + 29;
    let is_content =
        |part: &Part<'_>| !matches!(part, Part::StepStart(_) | Part::Reasoning(_) | Part::StepFinish(_));
    if let Some(error) = &answer.error {
        let is_aborted = error.name.as_ref().is_some_and(|name| *name == "MessageAbortedError");
        if !is_aborted || !record.parts.iter().any(|part| is_content(&part.document.lens())) {
            return 0;
        }
    }
    let lengths = record.parts.iter().filter_map(|part| match part.document.lens() {
        Part::Text(text) => text.text.map(|text| 24 + quoted(&text)),
        Part::Reasoning(thought) => thought.text.map(|text| 29 + quoted(&text)),
        Part::Tool(tool) => {
            let name = |text: &Option<Text<'_>>| text.as_ref().map_or(2, quoted);
            let names = name(&tool.call_id) + name(&tool.tool);
            let state = tool.state.unwrap_or_default();
            let input = state.input.as_ref().map_or(2, json_length);
            Some(60 + names + input + 77 + names + result_length(&state))
        }
        _ => None,
    });
    match lengths.sum::<u64>() {
        0 => 0,
        sum => MESSAGES + sum,
    }
}

fn result_length(state: &ToolState<'_>) -> u64 {
    let is_cleared = state.time.as_ref().and_then(|time| time.compacted).is_some();
    match state.status() {
        Some(ToolStatus::Completed) if is_cleared => length("\"[Old tool result content cleared]\""),
        Some(ToolStatus::Completed) => state.output.as_ref().map_or(2, quoted),
        Some(ToolStatus::Error) => state.error.as_ref().map_or(2, quoted),
        _ => length("\"[Tool execution was interrupted]\""),
    }
}

/// Length of a value without white space.
fn json_length(value: &Json<'_>) -> u64 {
    use annals_core::json::{JsWriter, Style};
    String::from_utf8(JsWriter::document(Style::Compact, value)).map_or(0, |text| length(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `u100` is a prompt of 400 characters, `a100` an answer, `c` a request to compact that kept nothing, `s` its summary.
    fn messages(story: &str) -> Vec<TailMessage> {
        let mut last_request = String::new();
        story
            .split(' ')
            .enumerate()
            .map(|(n, word)| {
                let (kind, size) = word.split_at(1);
                let id = MessageId::parse(&format!("msg_{n}")).unwrap();
                if kind == "c" {
                    last_request = id.to_string();
                }
                TailMessage {
                    is_prompt: kind == "u" || kind == "c",
                    request: (kind == "c").then(|| size.strip_prefix('=').map(|n| format!("msg_{n}"))),
                    summary_of: (kind == "s").then(|| last_request.clone()),
                    length: size.parse::<u64>().unwrap_or(0) * 4,
                    id,
                }
            })
            .collect()
    }

    #[test]
    fn the_last_turns_are_kept_as_far_as_they_fit() {
        for (story, expected) in [
            // All of a short conversation is summarised.
            ("u10 a10", None),
            ("u10 a10 u10 a10", None),
            ("u500 a500 u10 a10", Some(2)),
            ("u500 a500 u40 a10 u30 a10", Some(2)),
            // A turn that is too large is kept from its middle on, if that fits.
            ("u10 a10 u10 a80 a60 a20", Some(4)),
            ("u10 a10 u10 a500", None),
            ("u10 a10 u500 a10 u10 a10", Some(3)),
            // The model no longer gets what was summarised before.
            ("u10 a10 u10 a10 c s10 u10 a10", None),
            ("u10 a10 u10 a10 c=2 s10 u60 a10", None),
            ("u10 a10 u10 a10 c=2 s10 u90 a10", Some(6)),
            ("u10 a10 u60 a50 c=2 s10 u10 a10 u10 a10", Some(3)),
        ] {
            let messages = messages(story);
            let history = without_summaries(&view(&messages));
            let found = tail_start(&history, 102).map(|start| history[start].id.to_string());
            assert_eq!(found, expected.map(|n| format!("msg_{n}")), "{story}");
        }
    }
}
