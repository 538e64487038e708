//! What fills a model's context: the size of each message and of each kind of part, estimated and as the agent recorded it.

use super::history::HistoryMessage;
use super::model::{ModelMessage, ModelPart};
use super::ui::ModelRole;
use crate::json::{Text, ToJs};
use crate::usage::Usage;

/// OpenCode's estimate of the tokens in a text of this many UTF-16 units.
pub fn estimate(n_units: usize) -> usize {
    // `Math.round` rounds halves up.
    (n_units + 2) / 4
}

/// A kind of content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ContentKind {
    /// Text of prompts.
    Prompt,
    /// Text of answers.
    Answer,
    /// Reasoning.
    Reasoning,
    /// Tool calls.
    Call,
    /// Results of tool calls.
    Result,
    /// Files.
    File,
}

impl ContentKind {
    /// Every kind.
    pub const ALL: [ContentKind; 6] = [
        ContentKind::Prompt,
        ContentKind::Answer,
        ContentKind::Reasoning,
        ContentKind::Call,
        ContentKind::Result,
        ContentKind::File,
    ];

    /// Its name, in `--json` too.
    pub fn name(self) -> &'static str {
        match self {
            ContentKind::Prompt => "prompt",
            ContentKind::Answer => "answer",
            ContentKind::Reasoning => "reasoning",
            ContentKind::Call => "call",
            ContentKind::Result => "result",
            ContentKind::File => "file",
        }
    }

    fn of(part: &ModelPart<'_>, role: ModelRole) -> ContentKind {
        match part {
            ModelPart::Text { .. } if role == ModelRole::User => ContentKind::Prompt,
            ModelPart::Text { .. } => ContentKind::Answer,
            ModelPart::Reasoning { .. } => ContentKind::Reasoning,
            ModelPart::File { .. } => ContentKind::File,
            ModelPart::Call { .. } => ContentKind::Call,
            ModelPart::Result { .. } => ContentKind::Result,
        }
    }
}

/// What fills a context.
#[derive(Debug, Clone, PartialEq)]
pub struct ContextSizes {
    /// The stored messages that something of is sent, in the order in which it is.
    pub messages: Vec<MessageSize>,
    /// The size of each kind of content, without kinds that are not there.
    pub kinds: Vec<KindSize>,
    /// OpenCode's estimate for the whole.
    pub estimated: usize,
    /// The tokens that the agent recorded for this request; for one that was not sent yet, for the last one that it contains the
    /// answer to. System prompt and tools are included.
    pub recorded: Option<RecordedUsage>,
}

/// The tokens that the agent recorded for a request.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedUsage {
    /// The id of the answer.
    pub answer: String,
    /// The tokens.
    pub usage: Usage,
}

impl RecordedUsage {
    /// What an answer's message says. `None` if it counts nothing.
    pub(super) fn of(message: &HistoryMessage) -> Option<RecordedUsage> {
        let usage = Usage::of(&*message.assistant()?);
        (usage.total_tokens() > 0.0).then(|| RecordedUsage { answer: message.id().into_owned(), usage })
    }
}

/// The size of a message.
#[derive(Debug, Clone, PartialEq)]
pub struct MessageSize {
    /// Its id.
    pub id: String,
    /// Who it is from.
    pub role: ModelRole,
    /// The size of each kind of content in it.
    pub kinds: Vec<KindSize>,
    /// Its estimated tokens.
    pub estimated: usize,
    /// The tokens that the agent recorded for the request that this message answered; only answers have them.
    pub recorded: Option<Usage>,
    /// The beginning of its text.
    pub start: String,
}

/// The size of a kind of content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KindSize {
    /// Which kind.
    pub kind: ContentKind,
    /// Number of parts.
    pub parts: usize,
    /// Length of their JSON, in UTF-16 units.
    pub units: usize,
}

impl KindSize {
    /// Estimated tokens.
    pub fn estimated(&self) -> usize {
        estimate(self.units)
    }
}

/// Longest beginning of a message's text.
const MAX_START: usize = 200;

pub(super) fn of(
    history: &[HistoryMessage],
    messages: &[ModelMessage<'_>],
    answer: Option<&HistoryMessage>,
) -> ContextSizes {
    let mut sizes: Vec<(usize, MessageSize, usize)> = Vec::new();
    let mut kinds = Vec::new();
    for message in messages {
        let units = units(message);
        let at = match sizes.last() {
            Some((origin, ..)) if *origin == message.origin => sizes.len() - 1,
            _ => {
                sizes.push((message.origin, empty_size(history.get(message.origin), message.role), 0));
                sizes.len() - 1
            }
        };
        let (_, size, total) = &mut sizes[at];
        *total += units;
        for part in &message.content {
            let kind = ContentKind::of(part, message.role);
            let units = crate::llm::context::units(part);
            for list in [&mut kinds, &mut size.kinds] {
                add(list, kind, units);
            }
            if let (ModelPart::Text { text, .. }, true) = (part, size.start.is_empty()) {
                size.start = text.to_str().chars().take(MAX_START).collect();
            }
        }
    }
    let messages_of = |(_, mut size, units): (usize, MessageSize, usize)| {
        size.estimated = estimate(units);
        size
    };
    // The whole is a list: two brackets, and commas.
    let whole: usize = sizes.iter().map(|(.., units)| units).sum::<usize>() + messages.len().max(1) + 1;
    kinds.sort_by_key(|size| size.kind);
    let last_answer = || history.iter().rev().find_map(RecordedUsage::of);
    ContextSizes {
        messages: sizes.into_iter().map(messages_of).collect(),
        kinds,
        estimated: estimate(whole),
        recorded: answer.map_or_else(last_answer, RecordedUsage::of),
    }
}

fn empty_size(stored: Option<&HistoryMessage>, role: ModelRole) -> MessageSize {
    let recorded = stored.filter(|_| role != ModelRole::User).and_then(RecordedUsage::of);
    MessageSize {
        id: stored.map(|stored| stored.id().into_owned()).unwrap_or_default(),
        role: if role == ModelRole::Tool { ModelRole::Assistant } else { role },
        kinds: Vec::new(),
        estimated: 0,
        recorded: recorded.map(|recorded| recorded.usage),
        start: String::new(),
    }
}

fn add(kinds: &mut Vec<KindSize>, kind: ContentKind, units: usize) {
    match kinds.iter_mut().find(|size| size.kind == kind) {
        Some(size) => {
            size.parts += 1;
            size.units += units;
        }
        None => kinds.push(KindSize { kind, parts: 1, units }),
    }
}

/// Length of a value's JSON, in UTF-16 units.
pub(super) fn units(value: &dyn ToJs) -> usize {
    Text::json_of(value).utf16_len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_are_opencodes() {
        let estimates = [0, 1, 2, 3, 5, 6, 7].map(estimate);
        assert_eq!(estimates, [0, 0, 1, 1, 1, 2, 2]);
    }
}
