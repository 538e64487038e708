//! A history as UI messages of the AI SDK: the first form on the way to a request.

use super::history::HistoryMessage;
use super::rules::{MediaCarrier, Rules};
use super::target::Target;
use super::words::{CLEARED, attached};
use crate::json::{JsWriter, Kind, Node, Object, Text, ToJs, Value};
use crate::lens::{AssistantMessage, FilePart, Json, Lens, Part, ToolPart, ToolState, ToolStatus};

const INTERRUPTED: &str = "[Tool execution was interrupted]";

/// Who a message is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ModelRole {
    /// The user, or something that is told in the user's place.
    User,
    /// The model.
    Assistant,
    /// Results of tools; only model messages have this role.
    Tool,
}

impl ModelRole {
    /// Its name on every wire.
    pub fn name(self) -> &'static str {
        match self {
            ModelRole::User => "user",
            ModelRole::Assistant => "assistant",
            ModelRole::Tool => "tool",
        }
    }
}

/// A UI message.
#[derive(Debug, Clone)]
pub struct UiMessage<'a> {
    /// The id of the stored message. A message that carries media of an answer has the answer's id with an addition; OpenCode
    /// makes a new id each time.
    pub id: Text<'a>,
    /// Who it is from: the user or the model.
    pub role: ModelRole,
    /// What it consists of.
    pub parts: Vec<UiPart<'a>>,
    /// The place of the stored message among those of the request.
    pub origin: usize,
}

/// A part of a UI message.
#[derive(Debug, Clone)]
pub enum UiPart<'a> {
    /// A model call begins.
    StepStart,
    /// Text.
    Text {
        /// The text.
        text: Text<'a>,
        /// The provider's own data.
        metadata: Option<Object<'a>>,
    },
    /// Reasoning.
    Reasoning {
        /// The text.
        text: Text<'a>,
        /// The provider's own data.
        metadata: Option<Object<'a>>,
    },
    /// A file.
    File {
        /// Where it is; most often its contents as a `data:` address.
        url: Text<'a>,
        /// Media type.
        media_type: Text<'a>,
        /// Name.
        filename: Option<Text<'a>>,
    },
    /// A tool call and its outcome.
    Tool(UiCall<'a>),
}

/// A tool call and its outcome.
#[derive(Debug, Clone)]
pub struct UiCall<'a> {
    /// Name of the tool.
    pub tool: Text<'a>,
    /// The model's name for the call.
    pub call_id: Text<'a>,
    /// Arguments.
    pub input: Option<Json<'a>>,
    /// What became of it.
    pub outcome: UiOutcome<'a>,
    /// Whether the provider itself carried it out.
    pub is_providers: bool,
    /// The provider's own data.
    pub metadata: Option<Object<'a>>,
}

/// What became of a tool call.
#[derive(Debug, Clone)]
pub enum UiOutcome<'a> {
    /// It gave a text.
    Text(Text<'a>),
    /// It gave a text and files.
    Attached(Text<'a>, Vec<UiAttachment<'a>>),
    /// It failed.
    Error(Text<'a>),
}

/// A file in a tool's result.
#[derive(Debug, Clone)]
pub struct UiAttachment<'a> {
    /// The file as it is stored.
    pub node: Node<'a>,
    /// What it says.
    pub file: FilePart<'a>,
}

impl UiAttachment<'_> {
    pub(super) fn media_type(&self) -> String {
        self.file.mime.as_ref().map(|mime| mime.to_str().into_owned()).unwrap_or_default()
    }
}

/// Whether OpenCode counts a file as media.
fn is_media(media_type: &str) -> bool {
    media_type.starts_with("image/") || media_type == "application/pdf"
}

/// Converts messages, which are in the order in which the model gets them.
pub(super) struct UiConverter<'r> {
    pub(super) rules: Rules,
    pub(super) target: &'r Target,
    /// Whether media are replaced by words.
    pub(super) strips_media: bool,
}

impl UiConverter<'_> {
    pub(super) fn convert<'a>(&self, messages: &'a [HistoryMessage]) -> Vec<UiMessage<'a>> {
        let mut converted = Vec::new();
        for (origin, message) in messages.iter().enumerate().filter(|(_, message)| !message.parts.is_empty())
        {
            if message.user().is_some() {
                let parts = message.lenses().filter_map(|part| self.prompt_part(part)).collect();
                converted.push(UiMessage { id: id_of(message, ""), role: ModelRole::User, parts, origin });
            } else if let Some(answer) = message.assistant()
                && is_sent(message, &answer)
            {
                self.answer(message, &answer, origin, &mut converted);
            }
        }
        let drops_bare_steps = self.rules.drops_bare_steps();
        converted.retain(|message| {
            message.parts.iter().any(|part| !drops_bare_steps || !matches!(part, UiPart::StepStart))
        });
        converted
    }

    fn prompt_part<'a>(&self, part: Part<'a>) -> Option<UiPart<'a>> {
        let text = |text: Text<'a>| Some(UiPart::Text { text, metadata: None });
        match part {
            Part::Text(part) if part.ignored != Some(true) => {
                let said = part.text.unwrap_or("".into());
                text(said).filter(|part| {
                    !self.rules.drops_empty_prompts()
                        || !matches!(part, UiPart::Text { text, .. } if text.is_empty())
                })
            }
            Part::File(file) => {
                let mime = file.mime.clone().unwrap_or("".into());
                if mime == "text/plain" || mime == "application/x-directory" {
                    return None;
                }
                if self.strips_media && is_media(&mime.to_str()) {
                    return text(attached(&file));
                }
                Some(UiPart::File {
                    url: file.url.unwrap_or("".into()),
                    media_type: mime,
                    filename: file.filename,
                })
            }
            Part::Compaction(_) => text("What did we do so far?".into()),
            Part::Subtask(_) => text("The following tool was executed by the user".into()),
            _ => None,
        }
    }

    fn answer<'a>(
        &self,
        message: &'a HistoryMessage,
        answer: &AssistantMessage<'a>,
        origin: usize,
        converted: &mut Vec<UiMessage<'a>>,
    ) {
        let is_same_model = !self.rules.keeps_metadata_to_its_model()
            || answer.provider_id.as_ref().is_some_and(|provider| *provider == *self.target.provider)
                && answer.model_id.as_ref().is_some_and(|model| *model == *self.target.model);
        let is_signed = self.rules.keeps_text_beside_signatures()
            && message.lenses().any(|part| match part {
                Part::Reasoning(part) => part.metadata.is_some_and(|metadata| {
                    metadata
                        .node()
                        .and_then(|node| node.at(&["anthropic", "signature"]))
                        .is_some_and(|s| !s.is_null())
                }),
                _ => false,
            });
        let metadata =
            |metadata: Option<Json<'a>>| metadata?.node().and_then(Object::of).filter(|_| is_same_model);
        let mut parts = Vec::new();
        let mut carried: Vec<(Text<'a>, Vec<UiAttachment<'a>>)> = Vec::new();
        for document in &message.parts {
            match document.lens() {
                Part::Text(part) => {
                    let text = part.text.unwrap_or("".into());
                    let text = if text.is_empty() && is_signed { " ".into() } else { text };
                    parts.push(UiPart::Text { text, metadata: metadata(part.metadata) });
                }
                Part::Reasoning(part) => {
                    let text = part.text.unwrap_or("".into());
                    if is_same_model || !self.rules.sends_foreign_reasoning_as_text() {
                        parts.push(UiPart::Reasoning { text, metadata: metadata(part.metadata) });
                    } else if !text.is_blank() {
                        parts.push(UiPart::Text { text, metadata: None });
                    }
                }
                Part::StepStart(_) => parts.push(UiPart::StepStart),
                Part::Tool(part) => {
                    let state = document.root().get("state");
                    let Some((outcome, left)) = self.outcome(&part, state) else { continue };
                    carried.extend(left.map(|left| (part.tool.clone().unwrap_or("".into()), left)));
                    parts.push(UiPart::Tool(self.call(*part, outcome, is_same_model)));
                }
                _ => {}
            }
        }
        if parts.is_empty() {
            return;
        }
        converted.push(UiMessage { id: id_of(message, ""), role: ModelRole::Assistant, parts, origin });
        converted.extend(self.carriers(message, carried, origin));
    }

    fn call<'a>(&self, part: ToolPart<'a>, outcome: UiOutcome<'a>, is_same_model: bool) -> UiCall<'a> {
        let mut metadata = part.metadata.and_then(|metadata| metadata.node()).and_then(Object::of);
        let mut is_providers = false;
        if self.rules.knows_provider_calls() {
            let mark = metadata.as_mut().and_then(|metadata| metadata.remove("providerExecuted"));
            is_providers = mark.is_some_and(|mark| is_truthy(&mark));
            metadata = metadata.filter(|metadata| !metadata.is_empty());
        }
        UiCall {
            tool: part.tool.unwrap_or("".into()),
            call_id: part.call_id.unwrap_or("".into()),
            input: part.state.and_then(|state| state.input),
            outcome,
            is_providers,
            metadata: metadata.filter(|_| is_same_model),
        }
    }

    /// What became of a call, and the attachments that must be sent on their own. `None` if the call is not sent.
    fn outcome<'a>(
        &self,
        part: &ToolPart<'a>,
        state_node: Option<Node<'a>>,
    ) -> Option<(UiOutcome<'a>, Option<Vec<UiAttachment<'a>>>)> {
        let state = part.state.as_ref()?;
        match state.status()? {
            ToolStatus::Completed => Some(self.completed(state, state_node)),
            ToolStatus::Error => {
                let partial = state.metadata.as_ref().filter(|_| self.rules.sends_partial_output());
                let partial = partial
                    .and_then(Json::node)
                    .filter(|metadata| metadata.get("interrupted").and_then(Node::as_bool) == Some(true));
                Some(match partial.and_then(|metadata| metadata.get("output")?.as_text()) {
                    Some(output) => (UiOutcome::Text(output), None),
                    None => (UiOutcome::Error(state.error.clone().unwrap_or("".into())), None),
                })
            }
            ToolStatus::Pending | ToolStatus::Running => {
                self.rules.sends_unfinished_calls().then(|| (UiOutcome::Error(INTERRUPTED.into()), None))
            }
        }
    }

    fn completed<'a>(
        &self,
        state: &ToolState<'a>,
        node: Option<Node<'a>>,
    ) -> (UiOutcome<'a>, Option<Vec<UiAttachment<'a>>>) {
        let is_cleared = state.time.as_ref().is_some_and(|time| time.compacted.is_some_and(|at| at != 0));
        let text = match is_cleared {
            true => CLEARED.into(),
            false => state.output.clone().unwrap_or("".into()),
        };
        let stored = node.and_then(|state| state.get("attachments")).into_iter().flat_map(Node::items);
        let attachments: Vec<UiAttachment<'a>> =
            stored.filter_map(|node| Some(UiAttachment { node, file: FilePart::look(node)? })).collect();
        if self.rules.media_carrier() == MediaCarrier::ForEachCall {
            let left = Some(attachments).filter(|attachments| !attachments.is_empty());
            return (UiOutcome::Text(text), left);
        }
        if is_cleared || self.strips_media {
            return (UiOutcome::Text(text), None);
        }
        let (left, kept): (Vec<_>, Vec<_>) = attachments.into_iter().partition(|attachment| {
            let media_type = attachment.media_type();
            is_media(&media_type) && !self.target.accepts_in_results(&media_type, self.rules)
        });
        let outcome = if kept.is_empty() { UiOutcome::Text(text) } else { UiOutcome::Attached(text, kept) };
        (outcome, Some(left).filter(|left| !left.is_empty()))
    }

    /// Messages that carry attachments which may not stand in results.
    fn carriers<'a>(
        &self,
        message: &'a HistoryMessage,
        carried: Vec<(Text<'a>, Vec<UiAttachment<'a>>)>,
        origin: usize,
    ) -> Vec<UiMessage<'a>> {
        let carrier = self.rules.media_carrier();
        let file = |attachment: UiAttachment<'a>| UiPart::File {
            url: attachment.file.url.unwrap_or("".into()),
            media_type: attachment.file.mime.unwrap_or("".into()),
            filename: attachment.file.filename.filter(|_| carrier != MediaCarrier::Images),
        };
        let made = |number: usize, text: Text<'a>, attachments: Vec<UiAttachment<'a>>| {
            let text = UiPart::Text { text, metadata: None };
            let parts = std::iter::once(text).chain(attachments.into_iter().map(file)).collect();
            UiMessage {
                id: id_of(message, &format!("-media-{number}")),
                role: ModelRole::User,
                parts,
                origin,
            }
        };
        let text = match carrier {
            MediaCarrier::ForEachCall => {
                let messages = carried.into_iter().enumerate().map(|(number, (tool, attachments))| {
                    let text = Text::joined(&["Tool ".into(), tool, " returned an attachment:".into()], "");
                    made(number, text, attachments)
                });
                return messages.collect();
            }
            MediaCarrier::Images => "Attached image(s) from tool result:",
            MediaCarrier::Media => "Attached media from tool result:",
        };
        if carried.is_empty() {
            return Vec::new();
        }
        vec![made(0, text.into(), carried.into_iter().flat_map(|(_, attachments)| attachments).collect())]
    }
}

/// Whether an answer is sent: not if it failed, unless the user aborted it and it had got somewhere.
fn is_sent(message: &HistoryMessage, answer: &AssistantMessage<'_>) -> bool {
    let Some(error) = &answer.error else { return true };
    error.name.as_ref().is_some_and(|name| *name == "MessageAbortedError")
        && message.lenses().any(|part| !matches!(part, Part::StepStart(_) | Part::Reasoning(_)))
}

fn id_of<'a>(message: &'a HistoryMessage, addition: &str) -> Text<'a> {
    match addition {
        "" => message.info.root().get("id").and_then(Node::as_text).unwrap_or("".into()),
        addition => format!("{}{addition}", message.id()).into(),
    }
}

/// Whether JavaScript takes a value for true.
fn is_truthy(value: &Value<'_>) -> bool {
    match value {
        Value::Node(node) => match node.kind() {
            Kind::Null => false,
            Kind::Bool => node.as_bool() == Some(true),
            Kind::Number => node.as_f64().is_some_and(|number| number != 0.0 && !number.is_nan()),
            Kind::String => node.as_text().is_some_and(|text| !text.is_empty()),
            Kind::Object | Kind::Array => true,
        },
        _ => true,
    }
}

impl ToJs for UiMessage<'_> {
    fn write_js(&self, writer: &mut JsWriter) {
        writer.object(|writer| {
            writer.member("id", &self.id);
            writer.member("role", self.role.name());
            writer.member("parts", &self.parts);
        });
    }
}

impl ToJs for UiPart<'_> {
    fn write_js(&self, writer: &mut JsWriter) {
        writer.object(|writer| match self {
            UiPart::StepStart => writer.member("type", "step-start"),
            UiPart::Text { text, metadata } => {
                writer.member("type", "text");
                writer.member("text", text);
                writer.member("providerMetadata", metadata);
            }
            UiPart::Reasoning { text, metadata } => {
                writer.member("type", "reasoning");
                writer.member("text", text);
                writer.member("providerMetadata", metadata);
            }
            UiPart::File { url, media_type, filename } => {
                writer.member("type", "file");
                writer.member("url", url);
                writer.member("mediaType", media_type);
                writer.member("filename", filename);
            }
            UiPart::Tool(call) => call.write_members(writer),
        });
    }
}

impl UiCall<'_> {
    fn write_members(&self, writer: &mut JsWriter) {
        writer.member("type", &Text::joined(&["tool-".into(), self.tool.clone()], ""));
        let is_error = matches!(self.outcome, UiOutcome::Error(_));
        writer.member("state", if is_error { "output-error" } else { "output-available" });
        writer.member("toolCallId", &self.call_id);
        writer.member("input", &self.input);
        match &self.outcome {
            UiOutcome::Text(text) => writer.member("output", text),
            UiOutcome::Attached(text, attachments) => {
                writer.key("output");
                writer.object(|writer| {
                    writer.member("text", text);
                    let nodes: Vec<Node<'_>> = attachments.iter().map(|attachment| attachment.node).collect();
                    writer.member("attachments", &nodes);
                });
            }
            UiOutcome::Error(text) => writer.member("errorText", text),
        }
        if self.is_providers {
            writer.member("providerExecuted", &true);
        }
        writer.member("callProviderMetadata", &self.metadata);
    }
}
