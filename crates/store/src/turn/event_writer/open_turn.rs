//! A turn of a stream, with everything that is open in it.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use annals_core::Document;
use annals_core::id::{PartId, SessionId};
use annals_core::json::Kind;
use annals_core::lens::{FileDiff, Json, Todo};
use serde_json::value::RawValue;

use super::given::{answer_error, file_part, object, step_end, tool_output};
use super::{AppliedEvent, EventError};
use crate::turn::event::{self, TurnEvent};
use crate::turn::open_text::TextKind;
use crate::turn::piece::{HalfCharacter, Piece};
use crate::turn::{
    Answer, AnswerError, AnswerOptions, PendingCall, RunningCall, TextStream, Turn, TurnError,
};

/// How often the time between two tries to store pieces of text is doubled.
const MAX_DOUBLINGS: u32 = 6;

/// A turn with everything that is open in it.
#[derive(Debug)]
pub(super) struct OpenTurn {
    turn: Turn,
    answer: Option<Answer>,
    texts: HashMap<(TextKind, String), (TextStream, HalfCharacter)>,
    calls: HashMap<String, OpenCall>,
    /// How long pieces of text are collected.
    flush_every: Duration,
    /// When collected pieces of text have to be stored.
    due: Option<Instant>,
    /// How often they could not be stored.
    n_failures: u32,
}

#[derive(Debug)]
enum OpenCall {
    Pending(PendingCall),
    Running(RunningCall),
}

impl OpenTurn {
    pub(super) fn new(turn: Turn, flush_every: Duration) -> OpenTurn {
        let (texts, calls) = Default::default();
        OpenTurn { turn, answer: None, texts, calls, flush_every, due: None, n_failures: 0 }
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Notes whether pieces of text wait to be stored.
    pub(super) fn note_pending(&mut self, is_pending: bool) {
        // On a disk that is full for long, try less and less often.
        let wait = self.flush_every * 2_u32.pow(self.n_failures.min(MAX_DOUBLINGS));
        self.due = match is_pending {
            true => self.due.or_else(|| Instant::now().checked_add(wait)),
            false => None,
        };
    }

    /// Stores the pieces of text that were collected.
    pub(super) fn flush(&mut self) -> Result<(), TurnError> {
        self.due = None;
        let flushed = self.turn.flush();
        self.n_failures = if flushed.is_ok() { 0 } else { self.n_failures.saturating_add(1) };
        // After a failure the pieces are still there, and tried again.
        self.note_pending(flushed.is_err());
        flushed
    }

    /// Ends the turn, which stays open if this fails.
    pub(super) fn end(&self) -> Result<(), TurnError> {
        self.turn.end()
    }

    pub(super) fn abort(self) -> Result<(), TurnError> {
        self.turn.abort()
    }

    fn answer(&self, id: &SessionId) -> Result<&Answer, EventError> {
        self.answer.as_ref().ok_or_else(|| EventError::NoAnswer(id.clone()))
    }

    pub(super) fn running(&mut self, call: &str) -> Result<&mut RunningCall, EventError> {
        match self.calls.get_mut(call) {
            Some(OpenCall::Running(running)) => Ok(running),
            Some(OpenCall::Pending(_)) => Err(EventError::NotRunning(call.to_owned())),
            None => Err(EventError::NoCall(call.to_owned())),
        }
    }

    /// Carries out an event inside a turn.
    pub(super) fn apply(&mut self, id: &SessionId, event: &TurnEvent) -> Result<AppliedEvent, EventError> {
        let of_part = |part: PartId| AppliedEvent { part: Some(part), ..AppliedEvent::default() };
        let nothing = |()| AppliedEvent::default();
        match event {
            TurnEvent::StartAnswer(start) => self.start_answer(start),
            TurnEvent::StartStep(step) => Ok(of_part(self.answer(id)?.step_start(step.snapshot.as_deref())?)),
            TurnEvent::StartText(text) => self.start_text(id, TextKind::Text, text.id.as_ref()),
            TurnEvent::AddText(text) => self.add_text(TextKind::Text, text.id.as_ref(), &text.delta),
            TurnEvent::EndText(text) => {
                self.end_text(TextKind::Text, text.id.as_ref(), text.metadata.as_deref())
            }
            TurnEvent::StartReasoning(text) => self.start_text(id, TextKind::Reasoning, text.id.as_ref()),
            TurnEvent::AddReasoning(text) => {
                self.add_text(TextKind::Reasoning, text.id.as_ref(), &text.delta)
            }
            TurnEvent::EndReasoning(text) => {
                self.end_text(TextKind::Reasoning, text.id.as_ref(), text.metadata.as_deref())
            }
            TurnEvent::StartCall(_)
            | TurnEvent::RunCall(_)
            | TurnEvent::ReportCall(_)
            | TurnEvent::CompleteCall(_)
            | TurnEvent::FailCall(_) => self.apply_to_call(id, event).map(of_part),
            TurnEvent::AddFile(file) => {
                let part = file_part(&file.mime, &file.url, file.filename.as_deref());
                Ok(of_part(self.answer(id)?.add(part)?))
            }
            TurnEvent::Retry(retry) => {
                Ok(of_part(self.answer(id)?.retry(retry.attempt, &answer_error(&retry.error)?)?))
            }
            TurnEvent::AddPart(part) => {
                let document = Document::parse(part.part.get().as_bytes().to_vec())
                    .map_err(|error| EventError::BadValue(format!("`part`: {error}")))?;
                if document.root().kind() != Kind::Object || document.root().get("type").is_none() {
                    return Err(EventError::BadValue("`part` is not an object with a `type`".to_owned()));
                }
                Ok(of_part(self.answer(id)?.add_as_given(document.root())?))
            }
            TurnEvent::SetStructured(output) => {
                Ok(nothing(self.answer(id)?.structured(Json::Text(output.output.get().to_owned()))?))
            }
            TurnEvent::FinishStep(step) => Ok(nothing(self.answer(id)?.step_finish(&step_end(step))?)),
            TurnEvent::AddPatch(patch) => {
                let files: Vec<&str> = patch.files.iter().map(String::as_str).collect();
                Ok(of_part(self.answer(id)?.patch(&patch.hash, &files)?))
            }
            TurnEvent::FinishAnswer(_) => self.end_answer(id, None),
            TurnEvent::FailAnswer(failed) => self.end_answer(id, Some(&answer_error(&failed.error)?)),
            TurnEvent::AbortAnswer(_) => self.end_answer(id, Some(&AnswerError::Aborted)),
            TurnEvent::SetTodos(todos) => self.set_todos(todos).map(nothing),
            TurnEvent::SetChanges(changes) => self.set_changes(changes).map(nothing),
            TurnEvent::Flush(_) => Ok(nothing(self.flush()?)),
            // The others are about a session, and not about a turn.
            _ => Err(EventError::NoTurn(id.clone())),
        }
    }

    fn start_answer(&mut self, start: &event::StartAnswer) -> Result<AppliedEvent, EventError> {
        let options = AnswerOptions {
            agent: start.agent.clone(),
            model: start.model.clone(),
            is_summary: start.summary.unwrap_or(false),
        };
        let answer = self.turn.answer_with(&options)?;
        let message = Some(answer.id().clone());
        self.answer = Some(answer);
        Ok(AppliedEvent { message, ..AppliedEvent::default() })
    }

    fn end_answer(
        &mut self,
        id: &SessionId,
        error: Option<&AnswerError>,
    ) -> Result<AppliedEvent, EventError> {
        let answer = self.answer(id)?;
        let message = Some(answer.id().clone());
        match error {
            Some(error) => answer.end_with(error)?,
            None => answer.end()?,
        }
        self.answer = None;
        self.texts.clear();
        self.calls.clear();
        Ok(AppliedEvent { message, ..AppliedEvent::default() })
    }

    fn start_text(
        &mut self,
        id: &SessionId,
        kind: TextKind,
        name: Option<&String>,
    ) -> Result<AppliedEvent, EventError> {
        let key = (kind, name.cloned().unwrap_or_default());
        if self.texts.contains_key(&key) {
            return Err(EventError::TextOpen { what: kind.noun(), id: key.1 });
        }
        // Nothing is stored for a text without content, but the answer says that all before it is.
        self.flush()?;
        let answer = self.answer(id)?;
        let text = match kind {
            TextKind::Text => answer.text()?,
            TextKind::Reasoning => answer.reasoning()?,
        };
        let part = Some(text.id().clone());
        self.texts.insert(key, (text, HalfCharacter::default()));
        Ok(AppliedEvent { part, ..AppliedEvent::default() })
    }

    fn text(
        &mut self,
        kind: TextKind,
        name: Option<&String>,
    ) -> Result<&mut (TextStream, HalfCharacter), EventError> {
        let key = (kind, name.cloned().unwrap_or_default());
        let missing = EventError::NoText { what: kind.noun(), id: key.1.clone() };
        self.texts.get_mut(&key).ok_or(missing)
    }

    fn add_text(
        &mut self,
        kind: TextKind,
        name: Option<&String>,
        delta: &Piece,
    ) -> Result<AppliedEvent, EventError> {
        let (text, half) = self.text(kind, name)?;
        match text.push(&half.join(delta)) {
            // The piece is kept with the others, and tried again when its time has come.
            Ok(()) | Err(TurnError::Flush(_)) => {}
            Err(error) => return Err(error.into()),
        }
        let part = Some(text.id().clone());
        Ok(AppliedEvent { part, is_pending: true, ..AppliedEvent::default() })
    }

    fn end_text(
        &mut self,
        kind: TextKind,
        name: Option<&String>,
        metadata: Option<&RawValue>,
    ) -> Result<AppliedEvent, EventError> {
        let metadata = metadata.map(|metadata| object("metadata", metadata)).transpose()?;
        let (text, half) = self.text(kind, name)?;
        match text.push(half.end()) {
            Ok(()) | Err(TurnError::Flush(_)) => {}
            Err(error) => return Err(error.into()),
        }
        let part = Some(text.end(metadata)?);
        self.texts.remove(&(kind, name.cloned().unwrap_or_default()));
        Ok(AppliedEvent { part, ..AppliedEvent::default() })
    }

    fn apply_to_call(&mut self, id: &SessionId, event: &TurnEvent) -> Result<PartId, EventError> {
        match event {
            TurnEvent::StartCall(start) => {
                if self.calls.contains_key(&start.call) {
                    return Err(EventError::CallOpen(start.call.clone()));
                }
                let metadata = start.metadata.as_deref();
                let metadata = metadata.map(|metadata| object("metadata", metadata)).transpose()?;
                let mut call = self.answer(id)?.call(&start.tool, &start.call)?;
                if let Some(metadata) = metadata {
                    call = call.metadata(metadata);
                }
                let part = call.id().clone();
                self.calls.insert(start.call.clone(), OpenCall::Pending(call));
                Ok(part)
            }
            TurnEvent::RunCall(run) => {
                let input = object("input", &run.input)?;
                let running = match self.calls.get(&run.call) {
                    Some(OpenCall::Pending(call)) => call.start(run.tool.as_deref(), input)?,
                    Some(OpenCall::Running(_)) => return Err(EventError::Running(run.call.clone())),
                    None => return Err(EventError::NoCall(run.call.clone())),
                };
                let part = running.id().clone();
                self.calls.insert(run.call.clone(), OpenCall::Running(running));
                Ok(part)
            }
            TurnEvent::ReportCall(report) => {
                let metadata = report.metadata.as_deref();
                let metadata = metadata.map(|metadata| object("metadata", metadata)).transpose()?;
                let call = self.running(&report.call)?;
                call.progress(report.title.as_deref(), metadata)?;
                Ok(call.id().clone())
            }
            TurnEvent::CompleteCall(complete) => {
                let output = tool_output(complete)?;
                let call = self.running(&complete.call)?;
                call.end(output)?;
                let part = call.id().clone();
                self.calls.remove(&complete.call);
                Ok(part)
            }
            TurnEvent::FailCall(fail) => {
                if let Some(OpenCall::Pending(call)) = self.calls.get(&fail.call) {
                    let running = call.start(None, Json::Text("{}".to_owned()))?;
                    self.calls.insert(fail.call.clone(), OpenCall::Running(running));
                }
                let call = self.running(&fail.call)?;
                call.end_with(&fail.error)?;
                let part = call.id().clone();
                self.calls.remove(&fail.call);
                Ok(part)
            }
            _ => Err(EventError::NoAnswer(id.clone())),
        }
    }

    fn set_todos(&self, event: &event::SetTodos) -> Result<(), EventError> {
        let todos: Vec<Todo<'_>> = (1..)
            .zip(&event.todos)
            .map(|(n, todo)| Todo {
                content: Some(todo.content.as_str().into()),
                status: Some(todo.status.as_str().into()),
                priority: Some(todo.priority.as_deref().unwrap_or("medium").into()),
                id: Some(todo.id.clone().unwrap_or_else(|| n.to_string()).into()),
            })
            .collect();
        Ok(self.turn.set_todos(&todos)?)
    }

    fn set_changes(&self, event: &event::SetChanges) -> Result<(), EventError> {
        let files: Vec<FileDiff<'_>> = event
            .files
            .iter()
            .map(|change| FileDiff {
                file: Some(change.file.as_str().into()),
                before: change.before.as_deref().map(Into::into),
                after: change.after.as_deref().map(Into::into),
                patch: change.patch.as_deref().map(Into::into),
                additions: Some(change.additions),
                deletions: Some(change.deletions),
                status: change.status.as_deref().map(Into::into),
            })
            .collect();
        Ok(self.turn.set_changes(&files)?)
    }
}
