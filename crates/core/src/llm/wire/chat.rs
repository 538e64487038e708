//! OpenAI's chat completions, as the SDK for compatible servers writes them.

use super::{RefusedFile, address, arguments, decoded, image_type};
use crate::json::{Object, Text};
use crate::llm::model::{ContentEntry, FileData, ModelMessage, ModelPart, ResultOutput};
use crate::llm::rules::Rules;
use crate::llm::ui::ModelRole;

/// The name under which the SDK looks for members that it adds to what it writes.
const NAMESPACE: &str = "openaiCompatible";

pub(super) fn messages<'a>(
    messages: Vec<ModelMessage<'a>>,
    rules: Rules,
) -> Result<Vec<Object<'a>>, RefusedFile> {
    let mut written = Vec::new();
    for message in messages {
        match message.role {
            ModelRole::User => written.push(prompt(message, rules)?),
            ModelRole::Assistant => written.push(answer(message, rules)),
            ModelRole::Tool => {
                written.extend(message.content.into_iter().filter_map(|part| result(part, rules)));
            }
        }
    }
    Ok(written)
}

/// Members that metadata adds.
fn additions<'a>(options: Option<&Object<'a>>) -> Option<Object<'a>> {
    options?.object(NAMESPACE)
}

fn prompt<'a>(message: ModelMessage<'a>, rules: Rules) -> Result<Object<'a>, RefusedFile> {
    let role = Object::new().with("role", "user");
    if let [ModelPart::Text { text, options }] = &message.content[..] {
        return Ok(role.with("content", text.clone()).spread(additions(options.as_ref())));
    }
    let mut content = Vec::with_capacity(message.content.len());
    for part in message.content {
        let added = additions(part.options());
        let entry = match part {
            ModelPart::Text { text, .. } => Object::new().with("type", "text").with("text", text),
            ModelPart::File { media_type, filename, data, .. } => file(&media_type, filename, data, rules)?,
            _ => continue,
        };
        content.push(entry.spread(added));
    }
    Ok(role.with("content", content).spread(additions(message.options.as_ref())))
}

fn file<'a>(
    media_type: &Text<'a>,
    filename: Option<Text<'a>>,
    data: FileData<'a>,
    rules: Rules,
) -> Result<Object<'a>, RefusedFile> {
    let kind = |kind: &'static str| Object::new().with("type", kind);
    let name = media_type.to_str();
    if name.starts_with("image/") {
        let url = address(&image_type(media_type), data);
        return Ok(kind("image_url").with("image_url", Object::new().with("url", url)));
    }
    if !rules.has_ai_sdk_6() {
        return Err(RefusedFile::of_type(media_type));
    }
    if name.starts_with("audio/") {
        let FileData::Inline(data) = data else { return Err(RefusedFile::elsewhere("sound")) };
        let format = match &*name {
            "audio/wav" => "wav",
            "audio/mp3" | "audio/mpeg" => "mp3",
            _ => return Err(RefusedFile::of_type(media_type)),
        };
        return Ok(
            kind("input_audio").with("input_audio", Object::new().with("data", data).with("format", format))
        );
    }
    if name == "application/pdf" {
        if data.is_remote() {
            return Err(RefusedFile::elsewhere("a PDF"));
        }
        let file = Object::new()
            .with("filename", filename.unwrap_or("document.pdf".into()))
            .with("file_data", address(media_type, data));
        return Ok(kind("file").with("file", file));
    }
    if name.starts_with("text/") {
        let text = match data {
            FileData::Url(url) => url,
            FileData::Inline(data) => decoded(&data),
        };
        return Ok(kind("text").with("text", text));
    }
    Err(RefusedFile::of_type(media_type))
}

fn answer<'a>(message: ModelMessage<'a>, rules: Rules) -> Object<'a> {
    let (mut texts, mut thoughts, mut calls) = (Vec::new(), Vec::new(), Vec::new());
    for part in message.content {
        let added = additions(part.options());
        match part {
            ModelPart::Text { text, .. } => texts.push(text),
            ModelPart::Reasoning { text, .. } => thoughts.push(text),
            ModelPart::Call { call_id, tool, input, options, .. } => {
                let function =
                    Object::new().with("name", tool).with_some("arguments", arguments(input.as_ref()));
                let call =
                    Object::new().with("id", call_id).with("type", "function").with("function", function);
                calls.push(call.spread(added).with_some("extra_content", signature(options.as_ref(), rules)));
            }
            _ => {}
        }
    }
    let thoughts = Text::joined(&thoughts, "");
    let thoughts = Some(thoughts).filter(|text| !text.is_empty() && rules.chat_has_reasoning());
    Object::new()
        .with("role", "assistant")
        .with("content", Text::joined(&texts, ""))
        .with_some("reasoning_content", thoughts)
        .with_some("tool_calls", Some(calls).filter(|calls| !calls.is_empty()))
        .spread(additions(message.options.as_ref()))
}

/// The signature that Gemini wants back with a call.
fn signature<'a>(options: Option<&Object<'a>>, rules: Rules) -> Option<Object<'a>> {
    let signature = options?.object("google")?.text("thoughtSignature")?;
    let google = Object::new().with("thought_signature", signature.clone());
    (rules.has_ai_sdk_6() && !signature.is_empty()).then(|| Object::new().with("google", google))
}

fn result<'a>(part: ModelPart<'a>, rules: Rules) -> Option<Object<'a>> {
    let added = additions(part.options());
    let ModelPart::Result { call_id, output, .. } = part else { return None };
    let content = match output {
        ResultOutput::Text(text) | ResultOutput::ErrorText(text) => text,
        ResultOutput::ErrorJson(text) => Text::json_of(&text),
        ResultOutput::Content(entries) => {
            let entries: Vec<Object<'_>> = entries.into_iter().map(|entry| content(entry, rules)).collect();
            Text::json_of(&entries)
        }
    };
    let message = Object::new().with("role", "tool").with("tool_call_id", call_id).with("content", content);
    Some(message.spread(added))
}

/// A piece of a result, as the AI SDK keeps it.
fn content<'a>(entry: ContentEntry<'a>, rules: Rules) -> Object<'a> {
    match entry {
        ContentEntry::Text(text) => Object::new().with("type", "text").with("text", text),
        ContentEntry::Media { media_type, data } if rules.has_ai_sdk_6() => {
            let is_image = media_type.to_str().starts_with("image/");
            let kind = if is_image { "image-data" } else { "file-data" };
            Object::new().with("type", kind).with("data", data).with("mediaType", media_type)
        }
        ContentEntry::Media { media_type, data } => {
            Object::new().with("type", "media").with("mediaType", media_type).with("data", data)
        }
    }
}
