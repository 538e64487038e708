//! What events give, as the turn API takes it.

use std::collections::BTreeMap;

use annals_core::Usage;
use annals_core::lens::{CompactionPart, FilePart, Json, TextPart};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::value::RawValue;

use super::EventError;
use crate::facade::{Attachment, Prompt, Session, Subtask};
use crate::turn::event::{self, ErrorInput, MentionInput, PromptInput};
use crate::turn::{AnswerError, StepEnd, ToolOutput};

/// A prompt as an event gives it.
pub(super) struct PromptGiven<'e> {
    pub(super) text: Option<&'e String>,
    pub(super) parts: Option<&'e [PromptInput]>,
    pub(super) agent: Option<&'e String>,
    pub(super) model: Option<&'e String>,
    pub(super) variant: Option<&'e String>,
    pub(super) system: Option<&'e String>,
    pub(super) tools: Option<&'e BTreeMap<String, bool>>,
}

/// The prompt of an event. Both kinds of events that have one have the same members.
macro_rules! prompt_of {
    ($session:expr, $event:expr) => {
        $crate::turn::event_writer::given::PromptGiven {
            text: $event.text.as_ref(),
            parts: $event.parts.as_deref(),
            agent: $event.agent.as_ref(),
            model: $event.model.as_ref(),
            variant: $event.variant.as_ref(),
            system: $event.system.as_ref(),
            tools: $event.tools.as_ref(),
        }
        .build($session)
    };
}
pub(super) use prompt_of;

impl PromptGiven<'_> {
    pub(super) fn build<'s>(&self, session: &'s Session) -> Result<Prompt<'s>, EventError> {
        let mut prompt = session.prompt(self.text.cloned().unwrap_or_default());
        if let Some(agent) = self.agent {
            prompt = prompt.agent(agent);
        }
        if let Some(model) = self.model {
            prompt = prompt.model(model);
        }
        if let Some(variant) = self.variant {
            prompt = prompt.variant(variant);
        }
        if let Some(system) = self.system {
            prompt = prompt.system(system);
        }
        for (tool, on) in self.tools.into_iter().flatten() {
            prompt = prompt.tool(tool, *on);
        }
        for part in self.parts.into_iter().flatten() {
            prompt = with_part(prompt, part)?;
        }
        Ok(prompt)
    }
}

fn with_part<'s>(prompt: Prompt<'s>, part: &PromptInput) -> Result<Prompt<'s>, EventError> {
    Ok(match part {
        PromptInput::Text { text, synthetic, ignored } => prompt.part(TextPart {
            text: Some(text.clone().into()),
            synthetic: synthetic.then_some(true),
            ignored: ignored.then_some(true),
            ..Default::default()
        }),
        PromptInput::File { path, data, mime, name, lines, mention } => {
            let mut file = match (path, data) {
                (Some(path), None) => Attachment::path(path),
                (None, Some(data)) => {
                    let bytes = BASE64
                        .decode(data)
                        .map_err(|error| EventError::BadValue(format!("`data` is not base64: {error}")))?;
                    let mime = mime.clone().unwrap_or_else(|| "application/octet-stream".to_owned());
                    Attachment::bytes(name.clone().unwrap_or_default(), mime, bytes)
                }
                _ => {
                    return Err(EventError::BadValue("a file has either a `path` or `data`".to_owned()));
                }
            };
            if let Some(mime) = mime {
                file = file.mime(mime);
            }
            if let Some(name) = name {
                file = file.name(name);
            }
            if let Some((first, last)) = lines {
                file = file.lines(*first, *last);
            }
            if let Some(MentionInput { text, start }) = mention {
                file = file.mentioned(text, *start);
            }
            prompt.attach(file)
        }
        PromptInput::Agent { name, mention: Some(MentionInput { text, start }) } => {
            prompt.mention_agent_as(name, text, *start)
        }
        PromptInput::Agent { name, mention: None } => prompt.mention_agent(name),
        PromptInput::Subtask { prompt: work, description, agent, model, command } => {
            prompt.subtask(Subtask {
                prompt: work.clone(),
                description: description.clone(),
                agent: agent.clone(),
                model: model.clone(),
                command: command.clone(),
            })?
        }
        PromptInput::Compaction { auto } => {
            prompt.part(CompactionPart { auto: Some(*auto), ..Default::default() })
        }
    })
}

pub(super) fn answer_error(input: &ErrorInput) -> Result<AnswerError, EventError> {
    input.error().ok_or_else(|| EventError::BadValue(format!("there is no error {:?}", input.name)))
}

/// A value that must be an object, as it is.
pub(super) fn object(name: &str, value: &RawValue) -> Result<Json<'static>, EventError> {
    match value.get().starts_with('{') {
        true => Ok(Json::Text(value.get().to_owned())),
        false => Err(EventError::BadValue(format!("`{name}` is not an object"))),
    }
}

pub(super) fn file_part(mime: &str, url: &str, filename: Option<&str>) -> FilePart<'static> {
    FilePart {
        mime: Some(mime.to_owned().into()),
        filename: filename.map(|name| name.to_owned().into()),
        url: Some(url.to_owned().into()),
        ..Default::default()
    }
}

pub(super) fn tool_output(complete: &event::CompleteCall) -> Result<ToolOutput, EventError> {
    let mut output = ToolOutput::new(&complete.output);
    if let Some(title) = &complete.title {
        output = output.title(title);
    }
    if let Some(metadata) = &complete.metadata {
        output = output.metadata(object("metadata", metadata)?);
    }
    for file in complete.attachments.iter().flatten() {
        output = output.attach_file(file_part(&file.mime, &file.url, file.filename.as_deref()));
    }
    Ok(output)
}

pub(super) fn step_end(step: &event::FinishStep) -> StepEnd {
    let tokens = step.tokens.clone().unwrap_or_default();
    let usage = Usage {
        cost: step.cost.unwrap_or(0.0),
        input: tokens.input,
        output: tokens.output,
        reasoning: tokens.reasoning,
        cache_read: tokens.cache.read,
        cache_write: tokens.cache.write,
    };
    let mut end = StepEnd::new(&step.reason).usage(usage);
    if let Some(total) = tokens.total {
        end = end.total(total);
    }
    if let Some(snapshot) = &step.snapshot {
        end = end.snapshot(snapshot);
    }
    end
}
