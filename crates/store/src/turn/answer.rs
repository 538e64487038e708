//! An answer: one call of the model, and everything that comes of it.

use std::sync::Arc;

use annals_core::Document;
use annals_core::Usage;
use annals_core::id::{MessageId, PartId};
use annals_core::json::{JsWriter, Node, Style};
use annals_core::lens::{
    AssistantMessage, CacheTokens, FilePart, Json, MessagePath, MessageTime, Part, PatchPart, RetryPart,
    RetryTime, StepFinishPart, StepStartPart, Tokens,
};

use super::error::AnswerError;
use super::open_text::{OpenText, TextKind};
use super::writer::{Changes, OpenAnswer, Writer};
use super::{PendingCall, TextStream, TurnError};
use crate::facade::split_model;
use crate::homes::opencode::order;
use crate::ids;
use crate::interrupted::no_tokens;

/// An answer that is being written: see [`Turn::answer`](super::Turn::answer). If it is dropped before it is finished, it is aborted.
#[derive(Debug)]
pub struct Answer {
    writer: Arc<Writer>,
    id: MessageId,
}

/// Who gives an answer, where that is not whom the prompt asked.
#[derive(Debug, Clone, Default)]
pub struct AnswerOptions {
    /// The agent.
    pub agent: Option<String>,
    /// The model, `provider/model`.
    pub model: Option<String>,
    /// Whether the answer is the summary of a compaction.
    pub is_summary: bool,
}

/// How a step ended.
#[derive(Debug, Clone)]
pub struct StepEnd {
    reason: String,
    usage: Usage,
    total: Option<f64>,
    snapshot: Option<String>,
}

impl StepEnd {
    /// A step that ended for this reason: `stop`, `tool-calls`, `length`, `content-filter`, `error`, `other` or `unknown`.
    pub fn new(reason: impl Into<String>) -> StepEnd {
        StepEnd { reason: reason.into(), usage: Usage::default(), total: None, snapshot: None }
    }

    /// Sets the tokens sent and received.
    #[must_use]
    pub fn tokens(mut self, input: f64, output: f64) -> StepEnd {
        (self.usage.input, self.usage.output) = (input, output);
        self
    }

    /// Sets all that the step used.
    #[must_use]
    pub fn usage(mut self, usage: Usage) -> StepEnd {
        self.usage = usage;
        self
    }

    /// Sets the provider's own total of tokens. The default is the sum.
    #[must_use]
    pub fn total(mut self, total: f64) -> StepEnd {
        self.total = Some(total);
        self
    }

    /// Sets what the step cost, in US dollars.
    #[must_use]
    pub fn cost(mut self, cost: f64) -> StepEnd {
        self.usage.cost = cost;
        self
    }

    /// Sets the state of the files after the step: a tree of the shadow repository.
    #[must_use]
    pub fn snapshot(mut self, snapshot: impl Into<String>) -> StepEnd {
        self.snapshot = Some(snapshot.into());
        self
    }

    fn counts(&self, counts_reasoning_as_output: bool) -> Tokens {
        let usage = &self.usage;
        let reasoning = if counts_reasoning_as_output { 0.0 } else { usage.reasoning };
        let sum = usage.input + usage.output + reasoning + usage.cache_read + usage.cache_write;
        Tokens {
            total: Some(self.total.unwrap_or(sum)),
            input: Some(usage.input),
            output: Some(usage.output),
            reasoning: Some(usage.reasoning),
            cache: Some(CacheTokens { read: Some(usage.cache_read), write: Some(usage.cache_write) }),
        }
    }
}

impl Answer {
    pub(super) fn begin(writer: &Arc<Writer>, options: &AnswerOptions) -> Result<Answer, TurnError> {
        let mut state = writer.lock()?;
        if state.answer.is_some() {
            return Err(TurnError::AnswerOpen);
        }
        let (id, facts) = (ids::new_message(), writer.facts());
        let (provider, model) = match &options.model {
            Some(named) => split_model(named)?,
            None => (facts.provider.as_str(), facts.model.as_str()),
        };
        let agent = options.agent.as_deref().unwrap_or(&facts.agent);
        let document = Document::written(
            Style::Pretty,
            &AssistantMessage {
                id: Some((&id).into()),
                session_id: Some(writer.session_id().into()),
                time: Some(MessageTime { created: Some(ids::now()), completed: None }),
                parent_id: Some((&facts.prompt).into()),
                model_id: Some(model.into()),
                provider_id: Some(provider.into()),
                mode: Some(agent.into()),
                agent: Some(agent.into()),
                path: Some(MessagePath {
                    cwd: Some(facts.directory.as_str().into()),
                    root: Some(facts.root.as_str().into()),
                }),
                summary: options.is_summary.then_some(true),
                cost: Some(0.0),
                tokens: Some(no_tokens()),
                variant: facts.variant.as_deref().map(Into::into),
                ..Default::default()
            },
        )?;
        let document = order::of_new(writer.dialect(), document);
        let changes = Changes::adding("an answer begins", writer.message_key(&id), document.clone());
        writer.commit(&mut state, changes)?;
        let (texts, calls) = Default::default();
        state.answer = Some(OpenAnswer { id: id.clone(), document, texts, calls });
        Ok(Answer { writer: Arc::clone(writer), id })
    }

    /// The id of the message.
    pub fn id(&self) -> &MessageId {
        &self.id
    }

    /// A step begins: the model is called. `snapshot` is the state of the files, a tree of the shadow repository.
    pub fn step_start(&self, snapshot: Option<&str>) -> Result<PartId, TurnError> {
        self.add(StepStartPart {
            snapshot: snapshot.map(|tree| tree.to_owned().into()),
            ..Default::default()
        })
    }

    /// Begins a text.
    pub fn text(&self) -> Result<TextStream, TurnError> {
        self.stream(TextKind::Text)
    }

    /// Begins a thought.
    pub fn reasoning(&self) -> Result<TextStream, TurnError> {
        self.stream(TextKind::Reasoning)
    }

    /// Writes a text that is known as a whole.
    pub fn write(&self, text: &str) -> Result<PartId, TurnError> {
        let mut stream = self.text()?;
        stream.push(text)?;
        stream.finish()
    }

    fn stream(&self, kind: TextKind) -> Result<TextStream, TurnError> {
        let mut state = self.writer.lock()?;
        let part = ids::new_part();
        state.answer_mut(&self.id)?.texts.insert(part.clone(), OpenText::new(kind));
        Ok(TextStream::new(&self.writer, &self.id, part))
    }

    /// The model begins to call a tool. `call` is the model's own name for the call.
    pub fn call(&self, tool: &str, call: &str) -> Result<PendingCall, TurnError> {
        PendingCall::begin(&self.writer, &self.id, tool, call)
    }

    /// Adds a part of any other kind. Its ids are set when it is stored.
    pub fn add(&self, part: impl Into<Part<'static>>) -> Result<PartId, TurnError> {
        let mut state = self.writer.lock()?;
        state.answer_mut(&self.id)?;
        let id = ids::new_part();
        let document = self.writer.part_document(&part.into(), &self.id, &id)?;
        let key = self.writer.part_key(&self.id, &id);
        self.writer.commit(&mut state, Changes::adding("a part", key, document))?;
        Ok(id)
    }

    /// Adds a part as it is, but for its ids.
    pub(super) fn add_as_given(&self, part: Node<'_>) -> Result<PartId, TurnError> {
        let mut state = self.writer.lock()?;
        state.answer_mut(&self.id)?;
        let id = ids::new_part();
        let own = [
            ("id", id.as_str()),
            ("sessionID", self.writer.session_id().as_str()),
            ("messageID", self.id.as_str()),
        ];
        let mut text = JsWriter::verbatim(Style::Pretty, 0);
        text.object(|text| {
            own.iter().for_each(|(name, id)| text.member(name, *id));
            let mut members = part.members();
            while let Some((name, value)) = members.next_nodes() {
                let is_own = |known: &str| name.as_text().is_some_and(|name| name == known);
                if !own.iter().any(|(known, _)| is_own(known)) {
                    text.member_node(name, value);
                }
            }
        });
        let document = order::of_new(self.writer.dialect(), Document::parse(text.finish())?);
        let key = self.writer.part_key(&self.id, &id);
        self.writer.commit(&mut state, Changes::adding("a part", key, document))?;
        Ok(id)
    }

    /// Adds a file that the model made.
    pub fn file(&self, mime: &str, url: &str) -> Result<PartId, TurnError> {
        let (mime, url) = (Some(mime.to_owned().into()), Some(url.to_owned().into()));
        self.add(FilePart { mime, url, ..Default::default() })
    }

    /// Notes that a call of the model failed and is tried again.
    pub fn retry(&self, attempt: u32, error: &AnswerError) -> Result<PartId, TurnError> {
        let error = error.lens(self.writer.dialect());
        let mut state = self.writer.lock()?;
        state.answer_mut(&self.id)?;
        let id = ids::new_part();
        let retry = RetryPart {
            attempt: Some(f64::from(attempt)),
            error: Some(error),
            time: Some(RetryTime { created: Some(ids::now()) }),
            ..Default::default()
        };
        let document = self.writer.part_document(&retry.into(), &self.id, &id)?;
        let key = self.writer.part_key(&self.id, &id);
        self.writer.commit(&mut state, Changes::adding("a retry", key, document))?;
        Ok(id)
    }

    /// Notes which files the step changed. `hash` is the state of the files before the step.
    pub fn patch(&self, hash: &str, files: &[&str]) -> Result<PartId, TurnError> {
        self.add(PatchPart {
            hash: Some(hash.to_owned().into()),
            files: Some(files.iter().map(|file| (*file).to_owned().into()).collect()),
            ..Default::default()
        })
    }

    /// Sets the structured output that the prompt asked for.
    pub fn structured(&self, output: impl Into<Json<'static>>) -> Result<(), TurnError> {
        let output = output.into();
        self.edit("structured output", |document| Ok(document.with(&["structured"], &output)?))
    }

    /// A step ended. The answer has the reason, the tokens and the cost from now on.
    pub fn step_finish(&self, end: &StepEnd) -> Result<(), TurnError> {
        let mut state = self.writer.lock()?;
        let answer = state.answer_mut(&self.id)?;
        let counts = end.counts(self.writer.dialect().counts_reasoning_as_output());
        let cost = answer.document.root().get("cost").and_then(|cost| cost.as_f64()).unwrap_or(0.0);
        let document = answer
            .document
            .with(&["cost"], &(cost + end.usage.cost))?
            .with(&["tokens"], &counts)?
            .with(&["finish"], end.reason.as_str())?;
        let part = StepFinishPart {
            reason: Some(end.reason.as_str().into()),
            snapshot: end.snapshot.as_deref().map(Into::into),
            cost: Some(end.usage.cost),
            tokens: Some(counts),
            ..Default::default()
        };
        let id = ids::new_part();
        let part = self.writer.part_document(&part.into(), &self.id, &id)?;
        let mut changes = Changes::new("a step ends");
        changes.new.push((self.writer.part_key(&self.id, &id), part));
        let key = self.writer.message_key(&self.id);
        changes.replaced.push((key, answer.document.clone(), document.clone()));
        self.writer.commit(&mut state, changes)?;
        state.answer_mut(&self.id)?.document = document;
        Ok(())
    }

    fn edit(
        &self,
        reason: &'static str,
        edit: impl FnOnce(&Document) -> Result<Document, TurnError>,
    ) -> Result<(), TurnError> {
        let mut state = self.writer.lock()?;
        let answer = state.answer_mut(&self.id)?;
        let document = edit(&answer.document)?;
        let mut changes = Changes::new(reason);
        let key = self.writer.message_key(&self.id);
        changes.replaced.push((key, answer.document.clone(), document.clone()));
        self.writer.commit(&mut state, changes)?;
        state.answer_mut(&self.id)?.document = document;
        Ok(())
    }

    /// Ends the answer. Its texts and calls must have ended; if they have not, the answer is aborted.
    pub fn finish(self) -> Result<(), TurnError> {
        self.end()
    }

    /// Ends the answer, which stays open if this fails.
    pub(super) fn end(&self) -> Result<(), TurnError> {
        let mut state = self.writer.lock()?;
        let answer = state.answer_mut(&self.id)?;
        let texts = answer.texts.values().map(|text| format!("a {}", text.kind.noun()));
        let calls = answer.calls.values().map(|call| format!("a call of `{}`", call.tool));
        let open: Vec<String> = texts.chain(calls).collect();
        if !open.is_empty() {
            return Err(TurnError::Unfinished { open });
        }
        self.writer.end_answer(&mut state, None)
    }

    /// Ends the answer with an error. Texts and calls that are open end as well.
    pub fn fail(self, error: &AnswerError) -> Result<(), TurnError> {
        self.end_with(error)
    }

    /// Ends the answer with an error. The answer stays open if this fails.
    pub(super) fn end_with(&self, error: &AnswerError) -> Result<(), TurnError> {
        let mut state = self.writer.lock()?;
        state.answer_mut(&self.id)?;
        self.writer.end_answer(&mut state, Some(&error.lens(self.writer.dialect())))
    }

    /// Ends the answer as aborted.
    pub fn abort(self) -> Result<(), TurnError> {
        self.fail(&AnswerError::Aborted)
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if let Err(error) = self.writer.abort_if_open(&self.id) {
            tracing::warn!(%error, "an answer that was dropped could not be closed");
        }
    }
}
