//! A request to a model, made of a stored history by the rules of a release of OpenCode.

use std::str::FromStr;

use super::context::{self, ContextSizes};
use super::history::{self, HistoryMessage};
use super::model::{self, ModelMessage};
use super::rules::{Rules, SummaryForm};
use super::summary::{SummaryRequest, Tail};
use super::target::{Sdk, Target};
use super::ui::{UiConverter, UiMessage};
use super::wire::{RefusedFile, Wire};
use super::{compaction, prompt, queued, reminder, second_store, tweak};
use crate::document::Document;
use crate::json::{JsWriter, JsonError, Object, Style};
use crate::lens::Message;

/// A form of the messages of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// UI messages of the AI SDK.
    Ui,
    /// Model messages of the AI SDK.
    AiSdk,
    /// What a provider gets.
    Wire(Wire),
}

/// A text that names no format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a format of messages: use ai-sdk, ui, openai, anthropic or responses")]
pub struct UnknownFormat(pub String);

impl Format {
    /// Every format, with its name.
    pub const ALL: [(&'static str, Format); 5] = [
        ("ai-sdk", Format::AiSdk),
        ("ui", Format::Ui),
        ("openai", Format::Wire(Wire::Chat)),
        ("anthropic", Format::Wire(Wire::Anthropic)),
        ("responses", Format::Wire(Wire::Responses)),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        Format::ALL.into_iter().find(|(_, format)| *format == self).map_or("", |(name, _)| name)
    }

    /// The SDK whose form this is.
    pub fn sdk(self) -> Option<Sdk> {
        match self {
            Format::Wire(Wire::Chat) => Some(Sdk::OpenAiCompatible),
            Format::Wire(Wire::Anthropic) => Some(Sdk::Anthropic),
            Format::Wire(Wire::Responses) => Some(Sdk::OpenAi),
            Format::Ui | Format::AiSdk => None,
        }
    }
}

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Format, UnknownFormat> {
        let known = Format::ALL.into_iter().find(|(known, _)| *known == name);
        known.map(|(_, format)| format).ok_or_else(|| UnknownFormat(name.to_owned()))
    }
}

/// Whether reminders that OpenCode adds to a request and does not store are added here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reminders {
    /// None: the request holds what is stored.
    #[default]
    None,
    /// Those of the agents `plan` and `build`.
    PlanAndBuild,
}

/// The first message that a compaction kept, which its summary does not cover. OpenCode notes it when the summary is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompactionTail<'r> {
    /// What is stored: its id, or nothing, if nothing was kept.
    Stored(Option<&'r str>),
    /// It was not stored: the summary was aborted, or the message it answers is no request for a compaction. It is found by
    /// OpenCode's rule, from the tokens that a compaction may keep (`compaction.preserve_recent_tokens` in OpenCode's
    /// configuration).
    NotStored {
        /// The tokens, unless they are the default.
        tokens: Option<usize>,
    },
}

impl CompactionTail<'_> {
    /// The tokens that a compaction keeps for a model with a context of 100,000 tokens or more.
    pub const DEFAULT_TOKENS: usize = 15_000;
}

/// A request: the messages that make it up, the rules, and the model that it is for.
#[derive(Debug, Clone)]
pub struct Request {
    messages: Vec<HistoryMessage>,
    strips_media: bool,
    rules: Rules,
    target: Target,
    /// The answer, if there is one already.
    answer: Option<HistoryMessage>,
}

impl Request {
    /// The request that would be sent next: `history` is everything that is stored, in order.
    pub fn next(history: Vec<HistoryMessage>, rules: Rules, target: Target, reminders: Reminders) -> Request {
        let last_prompt = history.iter().rfind(|message| message.user().is_some());
        let agent = last_prompt.and_then(|message| agent_of(&message.info));
        let mut messages = visible(history, rules);
        if let (Reminders::PlanAndBuild, Some(agent)) = (reminders, agent) {
            remind(&mut messages, &agent, rules);
        }
        Request { messages, strips_media: false, rules, target, answer: None }
    }

    /// The request that an answer was the answer to. `before` are the messages before it, in order; what happened to them since
    /// is taken back as far as they tell.
    pub fn answered_by(
        answer: &HistoryMessage,
        mut before: Vec<HistoryMessage>,
        tail: CompactionTail<'_>,
        rules: Rules,
        target: Target,
        reminders: Reminders,
    ) -> Result<Request, JsonError> {
        let Some(lens) = answer.assistant() else {
            return Ok(Request::next(before, rules, target, reminders));
        };
        if let Some(created) = lens.time.as_ref().and_then(|time| time.created) {
            history::at_moment(&mut before, created);
        }
        let parent = lens.parent_id.as_ref().map(|parent| parent.to_str().into_owned());
        let parent = parent.filter(|_| !second_store::is_one(&before));
        if let Some(parent) = &parent {
            history::without_unseen_prompts(&mut before, parent);
        }
        if let Some(parent) = parent.filter(|_| lens.summary == Some(true)) {
            let mut request = Request::for_summary(before, &parent, tail, rules, target)?;
            request.answer = Some(answer.clone());
            return Ok(request);
        }
        let continues = rules.wraps_queued_prompts() && queued::continues_work(&before, &lens);
        let mut messages = visible(before, rules);
        if let (Reminders::PlanAndBuild, Some(agent)) = (reminders, agent_of(&answer.info)) {
            remind(&mut messages, &agent, rules);
        }
        if continues {
            queued::wrap(&mut messages);
        }
        Ok(Request { messages, strips_media: false, rules, target, answer: Some(answer.clone()) })
    }

    fn for_summary(
        before: Vec<HistoryMessage>,
        parent: &str,
        tail: CompactionTail<'_>,
        rules: Rules,
        target: Target,
    ) -> Result<Request, JsonError> {
        let messages = visible(before, rules);
        let strips_media = rules.summary_form() == SummaryForm::TemplateWithoutMedia;
        let estimate = |messages: &[HistoryMessage]| {
            let converter = UiConverter { rules, target: &target, strips_media: false };
            let converted = model::convert(converter.convert(messages), rules);
            context::estimate(context::units(&converted))
        };
        let tail = match tail {
            CompactionTail::Stored(tail) => Tail::Stored(tail),
            CompactionTail::NotStored { tokens } => {
                Tail::Sought(tokens.unwrap_or(CompactionTail::DEFAULT_TOKENS), &estimate)
            }
        };
        let messages = SummaryRequest { parent, tail, rules }.messages(messages)?;
        Ok(Request { messages, strips_media, rules, target, answer: None })
    }

    /// The rules.
    pub fn rules(&self) -> Rules {
        self.rules
    }

    /// The model that it is for.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// The stored messages that make it up, in the order in which the model gets them.
    pub fn messages(&self) -> &[HistoryMessage] {
        &self.messages
    }

    /// The answer that it got, if it was sent.
    pub fn answer(&self) -> Option<&HistoryMessage> {
        self.answer.as_ref()
    }

    /// UI messages of the AI SDK.
    pub fn ui(&self) -> Vec<UiMessage<'_>> {
        let converter =
            UiConverter { rules: self.rules, target: &self.target, strips_media: self.strips_media };
        converter.convert(&self.messages)
    }

    /// Model messages of the AI SDK.
    pub fn model_messages(&self) -> Vec<ModelMessage<'_>> {
        model::convert(self.ui(), self.rules)
    }

    /// What a provider gets.
    pub fn wire(&self, wire: Wire) -> Result<Vec<Object<'_>>, RefusedFile> {
        if wire == Wire::Chat && second_store::is_one(&self.messages) {
            return Ok(second_store::chat(&self.messages, &self.target));
        }
        let mut messages = self.model_messages();
        prompt::convert(&mut messages);
        tweak::apply(&mut messages, self.rules, &self.target);
        wire.messages(messages, self.rules, &self.target)
    }

    /// The messages as a JSON array, in one of the forms.
    pub fn json(&self, format: Format, style: Style) -> Result<Vec<u8>, RefusedFile> {
        Ok(match format {
            Format::Ui => JsWriter::document(style, &self.ui()),
            Format::AiSdk => JsWriter::document(style, &self.model_messages()),
            Format::Wire(wire) => JsWriter::document(style, &self.wire(wire)?),
        })
    }

    /// What fills the context.
    pub fn context(&self) -> ContextSizes {
        context::of(&self.messages, &self.model_messages(), self.answer.as_ref())
    }
}

fn visible(history: Vec<HistoryMessage>, rules: Rules) -> Vec<HistoryMessage> {
    // The second store has compactions of its own.
    if second_store::is_one(&history) { history } else { compaction::visible(history, rules) }
}

/// Adds the reminder of an agent. Sessions of the second store have none.
fn remind(messages: &mut [HistoryMessage], agent: &str, rules: Rules) {
    if !second_store::is_one(messages) {
        reminder::add(messages, agent, rules);
    }
}

fn agent_of(document: &Document) -> Option<String> {
    document.lens::<Message<'_>>().agent().map(|agent| agent.to_str().into_owned())
}
