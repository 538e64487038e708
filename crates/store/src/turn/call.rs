//! Tool calls: the model writes the arguments, the call runs, and it ends with a result or an error.

use std::sync::Arc;

use annals_core::Document;
use annals_core::id::{MessageId, Millis, PartId};
use annals_core::json::Style;
use annals_core::lens::{FilePart, Json, PermissionRule, ToolPart, ToolState, ToolTime};

use super::TurnError;
use super::writer::{Changes, OpenCall, Writer};
use crate::facade::Session;
use crate::homes::opencode::order;
use crate::ids;

/// A call whose arguments the model is still writing.
#[derive(Debug)]
#[must_use = "a call that has not ended keeps its answer from ending"]
pub struct PendingCall {
    handle: CallHandle,
}

/// A call that runs.
#[derive(Debug)]
#[must_use = "a call that has not ended keeps its answer from ending"]
pub struct RunningCall {
    handle: CallHandle,
    input: Json<'static>,
    start: Millis,
    title: Option<String>,
    metadata: Option<Json<'static>>,
}

/// The result of a call.
#[derive(Debug, Clone)]
pub struct ToolOutput {
    output: String,
    title: String,
    metadata: Json<'static>,
    attachments: Vec<FilePart<'static>>,
}

impl ToolOutput {
    /// A result.
    pub fn new(output: impl Into<String>) -> ToolOutput {
        ToolOutput {
            output: output.into(),
            title: String::new(),
            metadata: Json::Text("{}".to_owned()),
            attachments: Vec::new(),
        }
    }

    /// Sets the line to show for the call.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> ToolOutput {
        self.title = title.into();
        self
    }

    /// Sets what the tool says about the call: an object.
    #[must_use]
    pub fn metadata(mut self, metadata: impl Into<Json<'static>>) -> ToolOutput {
        self.metadata = metadata.into();
        self
    }

    /// Adds a file to the result.
    #[must_use]
    pub fn attach(self, mime: impl Into<String>, url: impl Into<String>) -> ToolOutput {
        let (mime, url) = (Some(mime.into().into()), Some(url.into().into()));
        self.attach_file(FilePart { mime, url, ..Default::default() })
    }

    pub(super) fn attach_file(mut self, file: FilePart<'static>) -> ToolOutput {
        self.attachments.push(file);
        self
    }
}

/// What both states of a call share.
#[derive(Debug, Clone)]
struct CallHandle {
    writer: Arc<Writer>,
    message: MessageId,
    part: PartId,
    call: String,
    metadata: Option<Json<'static>>,
}

impl CallHandle {
    /// The part in a state.
    fn document(&self, tool: &str, state: ToolState<'_>) -> Result<Document, TurnError> {
        let part = ToolPart {
            id: Some((&self.part).into()),
            session_id: Some(self.writer.session_id().into()),
            message_id: Some((&self.message).into()),
            call_id: Some(self.call.as_str().into()),
            tool: Some(tool.into()),
            state: Some(state),
            metadata: self.metadata.clone(),
        };
        Ok(order::of_new(self.writer.dialect(), Document::written_as_given(Style::Pretty, &part)?))
    }

    /// Stores the part in another state.
    fn change(
        &self,
        reason: &'static str,
        tool: Option<&str>,
        to: ToolState<'_>,
        is_over: bool,
    ) -> Result<(), TurnError> {
        let mut state = self.writer.lock()?;
        let answer = state.answer_mut(&self.message)?;
        let open = answer.calls.get(&self.part).ok_or(TurnError::Ended { what: "the call" })?;
        let tool = tool.unwrap_or(&open.tool).to_owned();
        let document = self.document(&tool, to)?;
        let key = self.writer.part_key(&self.message, &self.part);
        let mut changes = Changes::new(reason);
        changes.replaced.push((key, open.document.clone(), document.clone()));
        self.writer.commit(&mut state, changes)?;
        let answer = state.answer_mut(&self.message)?;
        match is_over {
            true => drop(answer.calls.remove(&self.part)),
            false => {
                if let Some(open) = answer.calls.get_mut(&self.part) {
                    (open.tool, open.document) = (tool, document);
                }
            }
        }
        Ok(())
    }
}

impl PendingCall {
    /// Stores a call whose arguments are not known yet.
    pub(super) fn begin(
        writer: &Arc<Writer>,
        message: &MessageId,
        tool: &str,
        call: &str,
    ) -> Result<PendingCall, TurnError> {
        let handle = CallHandle {
            writer: Arc::clone(writer),
            message: message.clone(),
            part: ids::new_part(),
            call: call.to_owned(),
            metadata: None,
        };
        let mut state = writer.lock()?;
        state.answer_mut(message)?;
        let pending = ToolState {
            status: Some("pending".into()),
            input: Some(Json::Text("{}".to_owned())),
            raw: Some("".into()),
            ..Default::default()
        };
        let document = handle.document(tool, pending)?;
        let key = writer.part_key(message, &handle.part);
        writer.commit(&mut state, Changes::adding("a call begins", key, document.clone()))?;
        let open = OpenCall { tool: tool.to_owned(), document };
        state.answer_mut(message)?.calls.insert(handle.part.clone(), open);
        Ok(PendingCall { handle })
    }

    /// The id of the part.
    pub fn id(&self) -> &PartId {
        &self.handle.part
    }

    /// Sets the provider's own data about the call.
    pub fn metadata(mut self, metadata: impl Into<Json<'static>>) -> PendingCall {
        self.handle.metadata = Some(metadata.into());
        self
    }

    /// The arguments are known, and the call runs.
    pub fn run(self, input: impl Into<Json<'static>>) -> Result<RunningCall, TurnError> {
        self.start(None, input.into())
    }

    /// The call turned out to be one of another tool, such as `invalid`, and runs.
    pub fn run_instead(self, tool: &str, input: impl Into<Json<'static>>) -> Result<RunningCall, TurnError> {
        self.start(Some(tool), input.into())
    }

    /// Runs the call. It is still pending if this fails.
    pub(super) fn start(&self, tool: Option<&str>, input: Json<'static>) -> Result<RunningCall, TurnError> {
        let now = ids::now();
        let running = ToolState {
            status: Some("running".into()),
            input: Some(input.clone()),
            time: Some(ToolTime { start: Some(now), ..Default::default() }),
            ..Default::default()
        };
        self.handle.change("a call runs", tool, running, false)?;
        let handle = self.handle.clone();
        Ok(RunningCall { handle, input, start: now, title: None, metadata: None })
    }

    /// The call cannot run: its arguments are not valid, or nobody may make it.
    pub fn fail(self, error: &str) -> Result<(), TurnError> {
        self.run(Json::Text("{}".to_owned()))?.fail(error)
    }
}

impl RunningCall {
    /// The id of the part.
    pub fn id(&self) -> &PartId {
        &self.handle.part
    }

    /// Says how far the call is: a line to show, and what the tool says about the call. `None` leaves either as it was.
    pub fn progress(
        &mut self,
        title: Option<&str>,
        metadata: Option<Json<'static>>,
    ) -> Result<(), TurnError> {
        if let Some(title) = title {
            self.title = Some(title.to_owned());
        }
        self.metadata = metadata.or(self.metadata.take());
        let running = ToolState {
            status: Some("running".into()),
            input: Some(self.input.clone()),
            title: self.title.as_deref().map(Into::into),
            metadata: self.metadata.clone(),
            time: Some(ToolTime { start: Some(self.start), ..Default::default() }),
            ..Default::default()
        };
        self.handle.change("a call goes on", None, running, false)
    }

    /// Creates the session of a subagent that this call starts, and notes it in the call. The subagent may not write todos nor start
    /// subagents of its own.
    pub fn child(&mut self, description: &str, agent: &str) -> Result<Session, TurnError> {
        let writer = Arc::clone(&self.handle.writer);
        let parent = writer.session();
        let facts = writer.facts();
        let dialect = writer.dialect();
        let rules = dialect.tools_denied_to_subagents().iter().map(|tool| PermissionRule {
            permission: Some((*tool).into()),
            pattern: Some("*".into()),
            action: Some("deny".into()),
        });
        let child = parent
            .store()
            .create_session(&facts.directory)
            .parent(parent)
            .title(format!("{description} (@{agent} subagent)"))
            .permission(rules.collect())
            .save()?;
        let metadata = self.metadata.clone().unwrap_or_else(|| Json::Text("{}".to_owned()));
        let mut metadata = Document::written(Style::Compact, &metadata)?;
        if dialect.calls_name_their_session() {
            metadata = metadata.with(&["parentSessionId"], parent.id().as_str())?;
        }
        let metadata = metadata
            .with(&["sessionId"], child.id().as_str())?
            .with(&["model", "modelID"], facts.model.as_str())?
            .with(&["model", "providerID"], facts.provider.as_str())?;
        self.progress(Some(description), Some(Json::Text(metadata.text().to_owned())))?;
        Ok(child)
    }

    /// The call gave a result.
    pub fn complete(self, output: ToolOutput) -> Result<(), TurnError> {
        self.end(output)
    }

    /// Ends the call with a result. It still runs if this fails.
    pub(super) fn end(&self, output: ToolOutput) -> Result<(), TurnError> {
        let now = ids::now();
        let ToolOutput { output, title, metadata, attachments } = output;
        let title = if title.is_empty() { self.title.clone().unwrap_or_default() } else { title };
        let (session, message) = (self.handle.writer.session_id().clone(), self.handle.message.clone());
        let attachments: Vec<FilePart<'static>> = attachments
            .into_iter()
            .map(|file| FilePart {
                id: Some(ids::new_part().to_string().into()),
                session_id: Some(session.to_string().into()),
                message_id: Some(message.to_string().into()),
                ..file
            })
            .collect();
        let metadata = match (&self.metadata, &metadata) {
            // What was said about the call while it ran, such as the session of a subagent, stays.
            (Some(earlier), Json::Text(text)) if text == "{}" => earlier.clone(),
            _ => metadata,
        };
        let completed = ToolState {
            status: Some("completed".into()),
            input: Some(self.input.clone()),
            output: Some(output.as_str().into()),
            title: Some(title.as_str().into()),
            metadata: Some(metadata),
            time: Some(ToolTime { start: Some(self.start), end: Some(now), compacted: None }),
            attachments: Some(attachments).filter(|files| !files.is_empty()),
            ..Default::default()
        };
        self.handle.change("a call is complete", None, completed, true)
    }

    /// The call failed.
    pub fn fail(self, error: &str) -> Result<(), TurnError> {
        self.end_with(error)
    }

    /// Ends the call with an error. It still runs if this fails.
    pub(super) fn end_with(&self, error: &str) -> Result<(), TurnError> {
        let now = ids::now();
        let failed = ToolState {
            status: Some("error".into()),
            input: Some(self.input.clone()),
            error: Some(error.into()),
            metadata: self.metadata.clone(),
            time: Some(ToolTime { start: Some(self.start), end: Some(now), compacted: None }),
            ..Default::default()
        };
        self.handle.change("a call failed", None, failed, true)
    }
}
