//! Reads parts of the dialect of early documents as what they mean.

use super::{AssistantMessage, FilePart, Json, Lens, OtherPart, Part, ReasoningPart, ToolPart, ToolState};
use crate::json::{Node, Text};

/// Reads a part of the dialect. `None` if it is of no kind that has a counterpart.
pub(super) fn look<'a>(kind: &Text<'a>, node: Node<'a>) -> Option<Part<'a>> {
    let text = |name: &str| node.get(name).and_then(Node::as_text);
    let (id, session_id, message_id) = (text("id"), text("sessionID"), text("messageID"));
    match &*kind.to_str() {
        "thinking" => Some(Part::Reasoning(Box::new(ReasoningPart {
            id,
            session_id,
            message_id,
            text: text("thinking").or_else(|| text("text")),
            time: node.get("time").and_then(Lens::look),
            ..ReasoningPart::default()
        }))),
        "image" => {
            let (mime, url) = image(node);
            let filename = text("filename").or_else(|| text("name"));
            Some(Part::File(Box::new(FilePart {
                id,
                session_id,
                message_id,
                mime: Some(mime),
                url,
                filename,
                ..FilePart::default()
            })))
        }
        "tool_use" => Some(Part::Tool(Box::new(ToolPart {
            id,
            session_id,
            message_id,
            call_id: call_id(node),
            tool: text("name").or_else(|| text("tool")),
            state: Some(ToolState {
                status: Some("completed".into()),
                input: node.get("input").and_then(Lens::look),
                ..ToolState::default()
            }),
            metadata: None,
        }))),
        _ => None,
    }
}

/// The name by which a result refers to a call.
pub(crate) fn call_id<'a>(node: Node<'a>) -> Option<Text<'a>> {
    ["tool_use_id", "callID", "call_id"].into_iter().find_map(|name| node.get(name)?.as_text())
}

/// The type and the address of an image, in the forms in which providers take them.
fn image<'a>(node: Node<'a>) -> (Text<'a>, Option<Text<'a>>) {
    let source = node.get("source").unwrap_or(node);
    let text = |name: &str| source.get(name).and_then(Node::as_text);
    let url = text("url").or_else(|| node.at(&["image_url", "url"])?.as_text());
    let url = url.or_else(|| node.get("image_url")?.as_text()).or_else(|| node.get("image")?.as_text());
    let given = ["media_type", "mediaType", "mimeType", "mime"].into_iter().find_map(text);
    let of_url = url.as_ref().and_then(|url| {
        let url = url.to_str();
        let from_data =
            url.strip_prefix("data:").and_then(|rest| rest.split([';', ',']).next()).map(str::to_owned);
        from_data.filter(|mime| !mime.is_empty()).map(Text::from)
    });
    let mime = given.or(of_url).unwrap_or_else(|| "image/png".into());
    let url = url.or_else(|| {
        let data = text("data")?;
        Some(format!("data:{};base64,{}", mime.to_str(), data.to_str()).into())
    });
    (mime, url)
}

impl<'a> AssistantMessage<'a> {
    /// Fills in the model where the document has it as an object.
    pub(super) fn with_model_of(mut self, node: Node<'a>) -> AssistantMessage<'a> {
        if let Some(model) = node.get("model") {
            let text = |name: &str| model.get(name).and_then(Node::as_text);
            self.provider_id = self.provider_id.or_else(|| text("providerID"));
            self.model_id = self.model_id.or_else(|| text("modelID"));
        }
        self
    }
}

impl OtherPart<'_> {
    /// Whether it is the result of a call.
    pub fn is_result(&self) -> bool {
        self.kind.as_ref().is_some_and(|kind| *kind == "tool_result")
    }

    /// The text of a result.
    pub fn result_text(&self) -> Option<String> {
        let content = self.content.as_ref().filter(|_| self.is_result()).and_then(Json::node)?;
        if let Some(text) = content.as_text() {
            return Some(text.to_str().into_owned());
        }
        let texts =
            content.items().filter_map(|item| Some(item.get("text")?.as_text()?.to_str().into_owned()));
        Some(texts.collect::<Vec<_>>().join("\n"))
    }
}
