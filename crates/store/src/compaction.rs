//! Compaction: what the model no longer gets of a long conversation, and the summary that it gets instead.
//!
//! Nothing is deleted. A request and a summary are added, and the model's view of the conversation begins with them; or the results of old calls
//! are marked, and the model gets a short note in their place.

mod tail;

use std::path::Path;

use annals_core::id::{MessageId, Millis, PartId, SessionId};
use annals_core::json::edit::EditError;
use annals_core::json::{JsonError, Node, Style, Text};
use annals_core::lens::{
    AssistantMessage, CompactionPart, Json, Message, MessagePath, MessageSummary, MessageTime, ModelRef,
    Part, Span, StepFinishPart, StepStartPart, TextPart, ToolPart, ToolStatus, UserMessage,
};
use annals_core::{Document, Key, Stored, Transaction};

use crate::facade::part_document;
use crate::home::{MessageDetail, MessageRange, Read, ReadError, SessionRecord};
use crate::homes::opencode::dialect::Dialect;
use crate::homes::opencode::order;
use crate::interrupted::no_tokens;
use crate::{ids, project};

pub use tail::KEPT_TOKENS;
pub(crate) use tail::kept_from;

/// Results that are newer than this many tokens of results are not marked.
const PRUNE_PROTECT: u64 = 40_000;
/// Nothing is marked for fewer tokens than this.
const PRUNE_MINIMUM: u64 = 20_000;
/// Tools whose results are never marked.
const PRUNE_PROTECTED: [&str; 1] = ["skill"];
/// What the model is told after a compaction that nobody asked for.
const CONTINUE: &str =
    "Continue if you have next steps, or stop and ask for clarification if you are unsure how to proceed.";

/// The agent and the model of a session's last prompt.
#[derive(Debug, Clone)]
pub(crate) struct LastPrompt {
    pub(crate) agent: String,
    pub(crate) provider: String,
    pub(crate) model: String,
}

impl LastPrompt {
    /// That of a session, without what a revert hides. `None` if nobody has asked anything yet.
    pub(crate) fn of(read: &dyn Read, session: &SessionRecord) -> Result<Option<LastPrompt>, ReadError> {
        let hidden = session.stored.document.root().at(&["revert", "messageID"]).and_then(Node::as_text);
        let mut last = None;
        for record in read.messages(session, &MessageRange::ALL, MessageDetail::PartCounts) {
            let record = record?;
            if let (Key::Message(_, id), Some(hidden)) = (&record.stored.key, &hidden)
                && *hidden == id.as_str()
            {
                break;
            }
            let text = |text: Option<Text<'_>>| text.map(|text| text.to_string()).unwrap_or_default();
            match record.stored.document.lens::<Message<'_>>() {
                Message::User(user) => {
                    let (model, agent) = (user.model.unwrap_or_default(), text(user.agent));
                    last = Some(LastPrompt {
                        agent: if agent.is_empty() { "build".to_owned() } else { agent },
                        provider: text(model.provider_id),
                        model: text(model.model_id),
                    });
                }
                // Prompts name their model since 1.0.69.
                Message::Assistant(answer) => {
                    if let Some(last) = last.as_mut().filter(|last: &&mut LastPrompt| last.model.is_empty()) {
                        (last.provider, last.model) = (text(answer.provider_id), text(answer.model_id));
                    }
                }
                Message::Other(_) => {}
            }
        }
        Ok(last)
    }
}

/// The documents of a compaction, before they have the form of one generation of OpenCode. All homes get the same ids.
#[derive(Debug)]
pub(crate) struct Compaction<'c> {
    pub(crate) session: &'c SessionId,
    pub(crate) directory: &'c str,
    /// The summary.
    pub(crate) text: &'c str,
    /// Whether the size of the conversation asked for it, and not the user. Then the model is told to go on.
    pub(crate) is_auto: bool,
    /// Whom the prompts are for, and whose model has made the summary.
    pub(crate) prompt: LastPrompt,
    pub(crate) now: Millis,
    pub(crate) ids: CompactionIds,
}

/// Ids of the new messages and their parts.
#[derive(Debug)]
pub(crate) struct CompactionIds {
    pub(crate) request: MessageId,
    pub(crate) summary: MessageId,
    next: MessageId,
    /// The request's part, the three of the summary, that of the prompt to go on.
    parts: [PartId; 5],
}

impl CompactionIds {
    pub(crate) fn new(now: Millis) -> CompactionIds {
        let [request, summary, next] = std::array::from_fn(|_| ids::message_at(now));
        CompactionIds { request, summary, next, parts: std::array::from_fn(|_| ids::part_at(now)) }
    }
}

impl Compaction<'_> {
    /// Adds the documents to a transaction, as an OpenCode of this generation would write them. `kept_from` is the first message that the
    /// model gets beside the summary.
    pub(crate) fn add_to(
        &self,
        transaction: &mut Transaction,
        dialect: Dialect,
        kept_from: Option<&MessageId>,
    ) -> Result<(), JsonError> {
        let CompactionIds { request, summary, next, parts } = &self.ids;
        let [compaction, start, text, finish, go_on] = parts;
        // OpenCode notes which files each prompt changed, and a compaction changes none.
        let changed = MessageSummary { diffs: Some(Vec::new()), ..Default::default() };
        let message = self.user_message(request, Some(changed));
        transaction.insert(
            self.message_key(request),
            order::of_new(dialect, Document::written(Style::Pretty, &message)?),
        );
        let part = CompactionPart {
            auto: Some(self.is_auto),
            tail_start_id: kept_from.map(Into::into),
            ..Default::default()
        };
        self.add_part(transaction, dialect, request, compaction, &part.into())?;

        let message = self.summary_message();
        transaction.insert(
            self.message_key(summary),
            order::of_new(dialect, Document::written(Style::Pretty, &message)?),
        );
        self.add_part(transaction, dialect, summary, start, &StepStartPart::default().into())?;
        let said = TextPart {
            text: Some(dialect.ended_text(self.text).into()),
            time: Some(self.span()),
            ..Default::default()
        };
        self.add_part(transaction, dialect, summary, text, &said.into())?;
        let end = StepFinishPart {
            reason: Some("stop".into()),
            cost: Some(0.0),
            tokens: Some(no_tokens()),
            ..Default::default()
        };
        self.add_part(transaction, dialect, summary, finish, &end.into())?;
        if !self.is_auto {
            return Ok(());
        }
        let message = self.user_message(next, None);
        transaction.insert(
            self.message_key(next),
            order::of_new(dialect, Document::written(Style::Pretty, &message)?),
        );
        let mark = serde_json::json!({ "compaction_continue": true });
        let asked = TextPart {
            text: Some(CONTINUE.into()),
            synthetic: Some(true),
            time: Some(self.span()),
            metadata: dialect.marks_continuation().then(|| Json::from(mark)),
            ..Default::default()
        };
        self.add_part(transaction, dialect, next, go_on, &asked.into())
    }

    fn message_key(&self, message: &MessageId) -> Key {
        Key::Message(self.session.clone(), message.clone())
    }

    fn add_part(
        &self,
        transaction: &mut Transaction,
        dialect: Dialect,
        message: &MessageId,
        id: &PartId,
        part: &Part<'_>,
    ) -> Result<(), JsonError> {
        let document = part_document(part, self.session, message, id, dialect)?;
        transaction.insert(Key::Part(self.session.clone(), message.clone(), id.clone()), document);
        Ok(())
    }

    fn span(&self) -> Span {
        Span { start: Some(self.now), end: Some(self.now) }
    }

    fn user_message<'m>(&'m self, id: &'m MessageId, summary: Option<MessageSummary<'m>>) -> UserMessage<'m> {
        UserMessage {
            id: Some(id.into()),
            session_id: Some(self.session.into()),
            time: Some(MessageTime { created: Some(self.now), completed: None }),
            summary,
            agent: Some(self.prompt.agent.as_str().into()),
            model: Some(ModelRef {
                provider_id: Some(self.prompt.provider.as_str().into()),
                model_id: Some(self.prompt.model.as_str().into()),
                variant: None,
            }),
            ..Default::default()
        }
    }

    fn summary_message(&self) -> AssistantMessage<'_> {
        let identity = project::identify(Path::new(self.directory), Path::new("git"));
        let root = identity.map(|identity| identity.sandbox.to_string_lossy().into_owned());
        AssistantMessage {
            id: Some((&self.ids.summary).into()),
            session_id: Some(self.session.into()),
            time: Some(MessageTime { created: Some(self.now), completed: Some(self.now) }),
            parent_id: Some((&self.ids.request).into()),
            model_id: Some(self.prompt.model.as_str().into()),
            provider_id: Some(self.prompt.provider.as_str().into()),
            mode: Some("compaction".into()),
            agent: Some("compaction".into()),
            path: Some(MessagePath {
                cwd: Some(self.directory.into()),
                root: Some(root.unwrap_or_else(|_| self.directory.to_owned()).into()),
            }),
            summary: Some(true),
            cost: Some(0.0),
            tokens: Some(no_tokens()),
            finish: Some("stop".into()),
            ..Default::default()
        }
    }
}

/// The results of old calls that the model need not see any more.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PrunePlan {
    /// The calls, each by its message and its part, the last first.
    pub calls: Vec<(MessageId, PartId)>,
    /// Tokens of their results, by OpenCode's estimate.
    pub tokens: u64,
    /// Tokens of the results that would be worth marking, if there were more of them.
    pub candidates: u64,
}

/// What pruning needs to know of a message.
struct PrunedMessage {
    is_prompt: bool,
    is_summary: bool,
    calls: Vec<PrunedCall>,
}

struct PrunedCall {
    key: Key,
    is_protected: bool,
    is_marked: bool,
    tokens: u64,
}

/// Finds the results that OpenCode would mark: of calls before the last two prompts, beyond the last 40,000 tokens of results, if there are
/// more than 20,000 tokens of them.
pub fn plan_prune(read: &dyn Read, session: &SessionRecord) -> Result<PrunePlan, ReadError> {
    let mut messages = Vec::new();
    for record in read.messages(session, &MessageRange::ALL, MessageDetail::ToolCalls) {
        let record = record?;
        let message = record.stored.document.lens::<Message<'_>>();
        messages.push(PrunedMessage {
            is_prompt: matches!(message, Message::User(_)),
            is_summary: matches!(&message, Message::Assistant(answer) if answer.summary == Some(true)),
            calls: record.parts.iter().filter_map(pruned_call).collect(),
        });
    }
    let (mut n_prompts, mut seen) = (0, 0);
    let mut plan = PrunePlan::default();
    'messages: for message in messages.into_iter().rev() {
        n_prompts += usize::from(message.is_prompt);
        if n_prompts < 2 {
            continue;
        }
        if message.is_summary {
            break;
        }
        for call in message.calls.into_iter().rev().filter(|call| !call.is_protected) {
            if call.is_marked {
                break 'messages;
            }
            seen += call.tokens;
            if let (true, Key::Part(_, message, part)) = (seen > PRUNE_PROTECT, call.key) {
                plan.candidates += call.tokens;
                plan.calls.push((message, part));
            }
        }
    }
    match plan.candidates > PRUNE_MINIMUM {
        true => plan.tokens = plan.candidates,
        false => plan.calls.clear(),
    }
    Ok(plan)
}

fn pruned_call(part: &Stored) -> Option<PrunedCall> {
    let Part::Tool(tool) = part.document.lens() else { return None };
    let ToolPart { tool, state, .. } = *tool;
    let state = state.filter(|state| state.status() == Some(ToolStatus::Completed))?;
    Some(PrunedCall {
        key: part.key.clone(),
        is_protected: tool.is_some_and(|tool| PRUNE_PROTECTED.iter().any(|name| tool == *name)),
        is_marked: state.time.and_then(|time| time.compacted).is_some_and(|time| time != 0),
        tokens: tokens(state.output.map_or(0, |output| length(&output.to_str()))),
    })
}

/// The length of a text in JavaScript.
fn length(text: &str) -> u64 {
    text.encode_utf16().count() as u64
}

/// OpenCode's estimate of the tokens of a text of this length.
fn tokens(length: u64) -> u64 {
    (length + 2) / 4
}

/// Adds to a transaction the marks of results that the model need not see any more, where they are missing.
pub(crate) fn mark_pruned(
    read: &dyn Read,
    session: &SessionId,
    calls: &[(String, String)],
    time: Millis,
    transaction: &mut Transaction,
) -> Result<(), MarkError> {
    for (message, part) in calls {
        let (Ok(message), Ok(part)) = (MessageId::parse(message), PartId::parse(part)) else { continue };
        let Some(stored) = read.document(&Key::Part(session.clone(), message, part))? else { continue };
        if pruned_call(&stored).is_some_and(|call| !call.is_marked) {
            let marked = stored.document.with(&["state", "time", "compacted"], &time)?;
            transaction.replace(&stored, marked);
        }
    }
    Ok(())
}

/// Why results could not be marked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MarkError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Edit(#[from] EditError),
}
