//! UI messages as model messages of the AI SDK: an answer falls into blocks, results follow their calls.

use super::rules::Rules;
use super::ui::{ModelRole, UiAttachment, UiCall, UiMessage, UiOutcome, UiPart};
use crate::json::{JsWriter, Object, Text, ToJs};
use crate::lens::Json;

/// A model message.
#[derive(Debug, Clone)]
pub struct ModelMessage<'a> {
    /// Who it is from.
    pub role: ModelRole,
    /// What it consists of.
    pub content: Vec<ModelPart<'a>>,
    /// Data for providers about the message as a whole.
    pub options: Option<Object<'a>>,
    /// The place of the stored message among those of the request.
    pub origin: usize,
}

/// A part of a model message.
#[derive(Debug, Clone)]
pub enum ModelPart<'a> {
    /// Text.
    Text {
        /// The text.
        text: Text<'a>,
        /// Data for providers.
        options: Option<Object<'a>>,
    },
    /// Reasoning.
    Reasoning {
        /// The text.
        text: Text<'a>,
        /// Data for providers.
        options: Option<Object<'a>>,
    },
    /// A file.
    File {
        /// Media type.
        media_type: Text<'a>,
        /// Name.
        filename: Option<Text<'a>>,
        /// Its contents, or where they are.
        data: FileData<'a>,
        /// Data for providers.
        options: Option<Object<'a>>,
    },
    /// A tool call.
    Call {
        /// The model's name for the call.
        call_id: Text<'a>,
        /// Name of the tool.
        tool: Text<'a>,
        /// Arguments.
        input: Option<Json<'a>>,
        /// Whether the provider itself carried it out.
        is_providers: bool,
        /// Data for providers.
        options: Option<Object<'a>>,
    },
    /// The result of a tool call.
    Result {
        /// The model's name for the call.
        call_id: Text<'a>,
        /// Name of the tool.
        tool: Text<'a>,
        /// What it gave.
        output: ResultOutput<'a>,
        /// Data for providers.
        options: Option<Object<'a>>,
    },
}

/// The contents of a file, or where they are.
#[derive(Debug, Clone)]
pub enum FileData<'a> {
    /// An address: as it is stored, or one that the provider or the SDK fetches.
    Url(Text<'a>),
    /// Base64.
    Inline(Text<'a>),
}

impl FileData<'_> {
    /// Whether the contents are somewhere else.
    pub(super) fn is_remote(&self) -> bool {
        matches!(self, FileData::Url(_))
    }
}

/// What a tool gave.
#[derive(Debug, Clone)]
pub enum ResultOutput<'a> {
    /// A text.
    Text(Text<'a>),
    /// A text and files.
    Content(Vec<ContentEntry<'a>>),
    /// Why it failed.
    ErrorText(Text<'a>),
    /// Why a call failed that the provider carried out.
    ErrorJson(Text<'a>),
}

/// A piece of what a tool gave.
#[derive(Debug, Clone)]
pub enum ContentEntry<'a> {
    /// Text.
    Text(Text<'a>),
    /// A file.
    Media {
        /// Media type.
        media_type: Text<'a>,
        /// Base64.
        data: Text<'a>,
    },
}

impl<'a> ModelPart<'a> {
    /// Data for providers.
    pub fn options(&self) -> Option<&Object<'a>> {
        match self {
            ModelPart::Text { options, .. }
            | ModelPart::Reasoning { options, .. }
            | ModelPart::File { options, .. }
            | ModelPart::Call { options, .. }
            | ModelPart::Result { options, .. } => options.as_ref(),
        }
    }

    pub(super) fn options_mut(&mut self) -> &mut Option<Object<'a>> {
        match self {
            ModelPart::Text { options, .. }
            | ModelPart::Reasoning { options, .. }
            | ModelPart::File { options, .. }
            | ModelPart::Call { options, .. }
            | ModelPart::Result { options, .. } => options,
        }
    }

    /// A text without data for providers.
    pub(super) fn text(text: impl Into<Text<'a>>) -> ModelPart<'a> {
        ModelPart::Text { text: text.into(), options: None }
    }
}

/// Converts UI messages.
pub(super) fn convert<'a>(messages: Vec<UiMessage<'a>>, rules: Rules) -> Vec<ModelMessage<'a>> {
    let mut converted = Vec::new();
    for message in messages {
        let origin = message.origin;
        match message.role {
            ModelRole::User => {
                let content = message.parts.into_iter().filter_map(prompt_part).collect();
                converted.push(ModelMessage { role: ModelRole::User, content, options: None, origin });
            }
            ModelRole::Assistant | ModelRole::Tool => {
                let mut block = Vec::new();
                for part in message.parts {
                    match part {
                        UiPart::StepStart => close_block(&mut block, origin, rules, &mut converted),
                        part => block.push(part),
                    }
                }
                close_block(&mut block, origin, rules, &mut converted);
            }
        }
    }
    converted
}

fn prompt_part(part: UiPart<'_>) -> Option<ModelPart<'_>> {
    match part {
        UiPart::Text { text, metadata } => Some(ModelPart::Text { text, options: metadata }),
        UiPart::File { url, media_type, filename } => {
            Some(ModelPart::File { media_type, filename, data: FileData::Url(url), options: None })
        }
        _ => None,
    }
}

/// Ends a block: what the model said becomes a message, the results of its calls another one.
fn close_block<'a>(
    block: &mut Vec<UiPart<'a>>,
    origin: usize,
    rules: Rules,
    converted: &mut Vec<ModelMessage<'a>>,
) {
    if block.is_empty() {
        return;
    }
    let (mut content, mut results) = (Vec::new(), Vec::new());
    for part in block.drain(..) {
        match part {
            UiPart::Text { text, metadata } => content.push(ModelPart::Text { text, options: metadata }),
            UiPart::Reasoning { text, metadata } => {
                content.push(ModelPart::Reasoning { text, options: metadata });
            }
            UiPart::Tool(call) => {
                let result = result(&call, rules);
                let is_providers = call.is_providers;
                content.push(ModelPart::Call {
                    call_id: call.call_id,
                    tool: call.tool,
                    input: call.input,
                    is_providers,
                    options: call.metadata,
                });
                if is_providers { content.push(result) } else { results.push(result) }
            }
            UiPart::StepStart | UiPart::File { .. } => {}
        }
    }
    converted.push(ModelMessage { role: ModelRole::Assistant, content, options: None, origin });
    if !results.is_empty() {
        converted.push(ModelMessage { role: ModelRole::Tool, content: results, options: None, origin });
    }
}

fn result<'a>(call: &UiCall<'a>, rules: Rules) -> ModelPart<'a> {
    let output = match &call.outcome {
        UiOutcome::Text(text) => ResultOutput::Text(text.clone()),
        UiOutcome::Attached(text, attachments) => {
            let text = Some(text).filter(|text| !text.is_empty() || !rules.drops_empty_result_text());
            let text = text.map(|text| ContentEntry::Text(text.clone()));
            ResultOutput::Content(text.into_iter().chain(attachments.iter().filter_map(media)).collect())
        }
        UiOutcome::Error(text) if call.is_providers => ResultOutput::ErrorJson(text.clone()),
        UiOutcome::Error(text) => ResultOutput::ErrorText(text.clone()),
    };
    let options = call.metadata.clone().filter(|_| rules.sends_metadata_of_results());
    ModelPart::Result { call_id: call.call_id.clone(), tool: call.tool.clone(), output, options }
}

/// An attachment as a piece of a result. Only contents that are at hand are sent.
fn media<'a>(attachment: &UiAttachment<'a>) -> Option<ContentEntry<'a>> {
    let url = attachment.file.url.as_ref()?.to_str();
    let data = url.strip_prefix("data:")?.split_once(',')?.1;
    let media_type = attachment.file.mime.clone().unwrap_or("".into());
    Some(ContentEntry::Media { media_type, data: data.to_owned().into() })
}

impl ToJs for ModelMessage<'_> {
    fn write_js(&self, writer: &mut JsWriter) {
        writer.object(|writer| {
            writer.member("role", self.role.name());
            writer.member("content", &self.content);
            writer.member("providerOptions", &self.options);
        });
    }
}

impl ToJs for ModelPart<'_> {
    fn write_js(&self, writer: &mut JsWriter) {
        writer.object(|writer| {
            match self {
                ModelPart::Text { text, .. } => {
                    writer.member("type", "text");
                    writer.member("text", text);
                }
                ModelPart::Reasoning { text, .. } => {
                    writer.member("type", "reasoning");
                    writer.member("text", text);
                }
                ModelPart::File { media_type, filename, data, .. } => {
                    writer.member("type", "file");
                    writer.member("mediaType", media_type);
                    writer.member("filename", filename);
                    let (FileData::Url(data) | FileData::Inline(data)) = data;
                    writer.member("data", data);
                }
                ModelPart::Call { call_id, tool, input, is_providers, .. } => {
                    writer.member("type", "tool-call");
                    writer.member("toolCallId", call_id);
                    writer.member("toolName", tool);
                    writer.member("input", input);
                    writer.member("providerExecuted", &is_providers.then_some(true));
                }
                ModelPart::Result { call_id, tool, output, .. } => {
                    writer.member("type", "tool-result");
                    writer.member("toolCallId", call_id);
                    writer.member("toolName", tool);
                    writer.member("output", output);
                }
            }
            writer.member("providerOptions", &self.options());
        });
    }
}

impl ToJs for ResultOutput<'_> {
    fn write_js(&self, writer: &mut JsWriter) {
        writer.object(|writer| match self {
            ResultOutput::Text(text) => {
                writer.member("type", "text");
                writer.member("value", text);
            }
            ResultOutput::ErrorText(text) => {
                writer.member("type", "error-text");
                writer.member("value", text);
            }
            ResultOutput::ErrorJson(text) => {
                writer.member("type", "error-json");
                writer.member("value", text);
            }
            ResultOutput::Content(entries) => {
                writer.member("type", "content");
                writer.member("value", entries);
            }
        });
    }
}

impl ToJs for ContentEntry<'_> {
    fn write_js(&self, writer: &mut JsWriter) {
        writer.object(|writer| match self {
            ContentEntry::Text(text) => {
                writer.member("type", "text");
                writer.member("text", text);
            }
            ContentEntry::Media { media_type, data } => {
                writer.member("type", "media");
                writer.member("mediaType", media_type);
                writer.member("data", data);
            }
        });
    }
}
