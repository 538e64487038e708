//! OpenAI's responses: a list of items, one for each part of an answer.

use super::{RefusedFile, address, arguments, image_type};
use crate::json::{Object, Text, Value};
use crate::llm::model::{ContentEntry, FileData, ModelMessage, ModelPart, ResultOutput};
use crate::llm::rules::Rules;
use crate::llm::ui::ModelRole;

/// The name under which the SDK looks for its metadata.
const NAMESPACE: &str = "openai";

pub(super) fn items<'a>(
    messages: Vec<ModelMessage<'a>>,
    rules: Rules,
    is_stored: bool,
) -> Result<Vec<Object<'a>>, RefusedFile> {
    let mut items = Vec::new();
    for message in messages {
        match message.role {
            ModelRole::User => items.push(prompt(message, rules)?),
            ModelRole::Assistant if is_stored => references(message, rules, &mut items),
            ModelRole::Assistant => answer(message, rules, &mut items),
            ModelRole::Tool => items.extend(message.content.into_iter().filter_map(result)),
        }
    }
    Ok(items)
}

fn prompt(message: ModelMessage<'_>, rules: Rules) -> Result<Object<'_>, RefusedFile> {
    let mut content = Vec::with_capacity(message.content.len());
    for (place, part) in message.content.into_iter().enumerate() {
        content.push(match part {
            ModelPart::Text { text, .. } => Object::new().with("type", "input_text").with("text", text),
            ModelPart::File { media_type, filename, data, .. } => {
                file(&media_type, filename, data, place, rules)?
            }
            _ => continue,
        });
    }
    Ok(Object::new().with("role", "user").with("content", content))
}

fn file<'a>(
    media_type: &Text<'a>,
    filename: Option<Text<'a>>,
    data: FileData<'a>,
    place: usize,
    rules: Rules,
) -> Result<Object<'a>, RefusedFile> {
    if media_type.to_str().starts_with("image/") {
        let url = address(&image_type(media_type), data);
        return Ok(Object::new().with("type", "input_image").with("image_url", url));
    }
    let is_taken = *media_type == "application/pdf" || rules.has_ai_sdk_6() && data.is_remote();
    if !is_taken {
        return Err(RefusedFile::of_type(media_type));
    }
    let item = Object::new().with("type", "input_file");
    Ok(match data {
        FileData::Url(url) => item.with("file_url", url),
        data => item
            .with("filename", filename.unwrap_or_else(|| format!("part-{place}.pdf").into()))
            .with("file_data", address(media_type, data)),
    })
}

/// References to the items of an answer that the provider has stored. Items that it has not are repeated.
fn references<'a>(message: ModelMessage<'a>, rules: Rules, items: &mut Vec<Object<'a>>) {
    let ModelMessage { role, content, options, origin } = message;
    let mut referred: Vec<Text<'a>> = Vec::new();
    for part in content {
        let item = part.options().and_then(|options| options.object(NAMESPACE)?.text("itemId"));
        let is_thought = matches!(part, ModelPart::Reasoning { .. });
        match item {
            Some(item) if is_thought && referred.contains(&item) => {}
            Some(item) => {
                items.push(Object::new().with("type", "item_reference").with("id", item.clone()));
                referred.extend(is_thought.then_some(item));
            }
            None => {
                let alone = ModelMessage { role, content: vec![part], options: options.clone(), origin };
                answer(alone, rules, items);
            }
        }
    }
}

fn answer<'a>(message: ModelMessage<'a>, rules: Rules, items: &mut Vec<Object<'a>>) {
    // Thoughts of one item, by the item's id: those after the first one join it.
    let mut thoughts: Vec<(Text<'a>, usize)> = Vec::new();
    for part in message.content {
        let mine = part.options().and_then(|options| options.object(NAMESPACE)).unwrap_or_default();
        match part {
            ModelPart::Text { text, .. } => {
                let content = vec![Object::new().with("type", "output_text").with("text", text)];
                let phase = mine.get("phase").filter(|_| rules.has_ai_sdk_6()).cloned();
                let item = Object::new().with("role", "assistant").with("content", content);
                items.push(item.with_some("phase", phase));
            }
            ModelPart::Call { call_id, tool, input, is_providers: false, .. } => {
                let item =
                    Object::new().with("type", "function_call").with("call_id", call_id).with("name", tool);
                let none = rules.has_ai_sdk_6().then_some("{}".into());
                let namespace = mine.get("namespace").filter(|_| rules.has_ai_sdk_6()).cloned();
                items.push(
                    item.with_some("arguments", arguments(input.as_ref()).or(none))
                        .with_some("namespace", namespace),
                );
            }
            ModelPart::Reasoning { text, .. } => {
                let item = mine.text("itemId");
                let known = item.as_ref().and_then(|item| thoughts.iter().find(|(known, _)| known == item));
                match (item, known.map(|(_, place)| *place)) {
                    (_, Some(place)) => continue_thought(&mut items[place], text, &mine),
                    (None, None) if !rules.drops_item_ids_early() || mine.text(ENCRYPTED).is_none() => {}
                    (item, None) => {
                        thoughts.extend(item.map(|item| (item, items.len())));
                        items.push(thought(text, &mine));
                    }
                }
            }
            _ => {}
        }
    }
}

const ENCRYPTED: &str = "reasoningEncryptedContent";

fn thought<'a>(text: Text<'a>, mine: &Object<'a>) -> Object<'a> {
    Object::new()
        .with("type", "reasoning")
        .with_some("encrypted_content", mine.text(ENCRYPTED))
        .with("summary", summary(text).into_iter().collect::<Vec<_>>())
}

/// Adds a thought to the item that it belongs to.
fn continue_thought<'a>(item: &mut Object<'a>, text: Text<'a>, mine: &Object<'a>) {
    let mut known = match item.remove("summary") {
        Some(Value::Array(known)) => known,
        _ => Vec::new(),
    };
    known.extend(summary(text).map(Value::Object));
    if let Some(encrypted) = mine.text(ENCRYPTED) {
        item.set("encrypted_content", encrypted);
    }
    item.set("summary", Value::Array(known));
}

fn summary(text: Text<'_>) -> Option<Object<'_>> {
    (!text.is_empty()).then(|| Object::new().with("type", "summary_text").with("text", text))
}

fn result(part: ModelPart<'_>) -> Option<Object<'_>> {
    let ModelPart::Result { call_id, output, .. } = part else { return None };
    let output: Value<'_> = match output {
        ResultOutput::Text(text) | ResultOutput::ErrorText(text) => text.into(),
        ResultOutput::ErrorJson(text) => Text::json_of(&text).into(),
        ResultOutput::Content(entries) => entries.into_iter().map(content).collect::<Vec<_>>().into(),
    };
    Some(Object::new().with("type", "function_call_output").with("call_id", call_id).with("output", output))
}

fn content(entry: ContentEntry<'_>) -> Object<'_> {
    match entry {
        ContentEntry::Text(text) => Object::new().with("type", "input_text").with("text", text),
        ContentEntry::Media { media_type, data } => {
            let is_image = media_type.to_str().starts_with("image/");
            let url = address(&media_type, FileData::Inline(data));
            match is_image {
                true => Object::new().with("type", "input_image").with("image_url", url),
                false => {
                    Object::new().with("type", "input_file").with("filename", "data").with("file_data", url)
                }
            }
        }
    }
}
