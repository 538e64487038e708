//! Anthropic's messages. Messages of the same side are joined into one; results belong to the user's side.

use super::{RefusedFile, anthropic_tools, decoded, image_type};
use crate::json::{Object, Text, Value};
use crate::llm::model::{ContentEntry, FileData, ModelMessage, ModelPart, ResultOutput};
use crate::llm::rules::Rules;
use crate::llm::ui::ModelRole;

pub(super) fn messages<'a>(
    messages: Vec<ModelMessage<'a>>,
    rules: Rules,
) -> Result<Vec<Object<'a>>, RefusedFile> {
    let is_answer = |message: &ModelMessage<'_>| message.role == ModelRole::Assistant;
    let mut written = Vec::new();
    let mut left = messages.into_iter().peekable();
    while let Some(first) = left.next() {
        let side = is_answer(&first);
        let mut run = vec![first];
        while let Some(next) = left.next_if(|next| is_answer(next) == side) {
            run.push(next);
        }
        let is_last = left.peek().is_none();
        let (role, content) = match side {
            true => ("assistant", answers(run, is_last, rules)),
            false => ("user", prompts_and_results(run, rules)?),
        };
        written.push(Object::new().with("role", role).with("content", content));
    }
    Ok(written)
}

/// The mark for the provider's cache: a part's own, or its message's on the last part.
fn cache_control<'a>(part: &ModelPart<'a>, message: Option<&Object<'a>>, is_last: bool) -> Option<Value<'a>> {
    let control = |options: &Object<'a>| {
        let mine = options.object("anthropic")?;
        mine.get("cacheControl").or(mine.get("cache_control")).cloned()
    };
    part.options().and_then(control).or_else(|| message.filter(|_| is_last).and_then(control))
}

fn prompts_and_results(run: Vec<ModelMessage<'_>>, rules: Rules) -> Result<Vec<Object<'_>>, RefusedFile> {
    let mut content = Vec::new();
    for message in run {
        let n_parts = message.content.len();
        for (place, part) in message.content.into_iter().enumerate() {
            let control = cache_control(&part, message.options.as_ref(), place + 1 == n_parts);
            let block = match part {
                ModelPart::Text { text, .. } => Object::new().with("type", "text").with("text", text),
                ModelPart::File { media_type, filename, data, .. } => file(&media_type, filename, data)?,
                ModelPart::Result { call_id, output, .. } => result(call_id, output, rules)?,
                _ => continue,
            };
            content.push(block.with_some("cache_control", control));
        }
    }
    Ok(content)
}

fn file<'a>(
    media_type: &Text<'a>,
    filename: Option<Text<'a>>,
    data: FileData<'a>,
) -> Result<Object<'a>, RefusedFile> {
    let name = media_type.to_str();
    let kind = match &*name {
        name if name.starts_with("image/") => "image",
        "application/pdf" | "text/plain" => "document",
        _ => return Err(RefusedFile::of_type(media_type)),
    };
    let source = match data {
        FileData::Url(url) => Object::new().with("type", "url").with("url", url),
        FileData::Inline(data) if name == "text/plain" => {
            Object::new().with("type", "text").with("media_type", "text/plain").with("data", decoded(&data))
        }
        FileData::Inline(data) => base64_source(image_type(media_type), data),
    };
    let block = Object::new().with("type", kind).with("source", source);
    Ok(if kind == "document" { block.with_some("title", filename) } else { block })
}

fn base64_source<'a>(media_type: Text<'a>, data: Text<'a>) -> Object<'a> {
    Object::new().with("type", "base64").with("media_type", media_type).with("data", data)
}

fn result<'a>(call_id: Text<'a>, output: ResultOutput<'a>, rules: Rules) -> Result<Object<'a>, RefusedFile> {
    let is_error = matches!(output, ResultOutput::ErrorText(_) | ResultOutput::ErrorJson(_)).then_some(true);
    let content: Value<'a> = match output {
        ResultOutput::Text(text) | ResultOutput::ErrorText(text) => text.into(),
        ResultOutput::ErrorJson(text) => Text::json_of(&text).into(),
        ResultOutput::Content(entries) => {
            let blocks = entries.into_iter().filter_map(|entry| content(entry, rules).transpose());
            blocks.collect::<Result<Vec<_>, _>>()?.into()
        }
    };
    let block =
        Object::new().with("type", "tool_result").with("tool_use_id", call_id).with("content", content);
    Ok(block.with_some("is_error", is_error))
}

/// A piece of a result. Files other than images and PDFs are left out, or refused by earlier SDKs.
fn content(entry: ContentEntry<'_>, rules: Rules) -> Result<Option<Object<'_>>, RefusedFile> {
    let (media_type, data) = match entry {
        ContentEntry::Text(text) => return Ok(Some(Object::new().with("type", "text").with("text", text))),
        ContentEntry::Media { media_type, data } => (media_type, data),
    };
    let name = media_type.to_str();
    let kind = match &*name {
        name if name.starts_with("image/") => "image",
        "application/pdf" => "document",
        _ if rules.has_ai_sdk_6() => return Ok(None),
        _ => return Err(RefusedFile::of_type(&media_type)),
    };
    Ok(Some(Object::new().with("type", kind).with("source", base64_source(media_type, data))))
}

/// The blocks of answers that follow each other. `is_last` if nothing comes after them.
fn answers<'a>(run: Vec<ModelMessage<'a>>, is_last: bool, rules: Rules) -> Vec<Object<'a>> {
    let mut blocks = Vec::new();
    let n_messages = run.len();
    for (number, message) in run.into_iter().enumerate() {
        let n_parts = message.content.len();
        for (place, part) in message.content.into_iter().enumerate() {
            let ends_message = place + 1 == n_parts;
            let control = cache_control(&part, message.options.as_ref(), ends_message);
            let is_prefill = is_last && ends_message && number + 1 == n_messages;
            if let ModelPart::Result { call_id, tool, output, .. } = &part {
                blocks.extend(anthropic_tools::result(call_id.clone(), tool, output, control));
                continue;
            }
            blocks.extend(answer_block(part, is_prefill, rules).map(|(block, takes_control)| {
                block.with_some("cache_control", control.filter(|_| takes_control))
            }));
        }
    }
    if rules.has_ai_sdk_6() { calls_last(blocks) } else { blocks }
}

/// A part of an answer, and whether it may be marked for the cache. `None` if the SDK leaves it out.
fn answer_block<'a>(part: ModelPart<'a>, is_prefill: bool, rules: Rules) -> Option<(Object<'a>, bool)> {
    match part {
        ModelPart::Text { text, options } => {
            let mine = options.and_then(|options| options.object("anthropic")).unwrap_or_default();
            if rules.knows_anthropics_compaction()
                && mine.text("type").is_some_and(|kind| kind == "compaction")
            {
                return Some((Object::new().with("type", "compaction").with("content", text), true));
            }
            let text = if is_prefill { text.trimmed() } else { text };
            let citations = mine.get("citations").filter(|_| rules.has_ai_sdk_6()).cloned();
            Some((
                Object::new().with("type", "text").with("text", text).with_some("citations", citations),
                true,
            ))
        }
        ModelPart::Reasoning { text, options } => {
            let mine = options?.object("anthropic")?;
            if let Some(signature) = mine.text("signature") {
                let block = Object::new().with("type", "thinking").with("thinking", text);
                return Some((block.with("signature", signature), false));
            }
            let data = mine.text("redactedData")?;
            Some((Object::new().with("type", "redacted_thinking").with("data", data), false))
        }
        ModelPart::Call { call_id, tool, input, is_providers: true, .. } => {
            Some((anthropic_tools::call(call_id, &tool, input)?, true))
        }
        ModelPart::Call { call_id, tool, input, .. } => {
            let input = input.and_then(|input| input.node());
            let block = Object::new().with("type", "tool_use").with("id", call_id).with("name", tool);
            Some((block.with_some("input", input), true))
        }
        ModelPart::Result { .. } | ModelPart::File { .. } => None,
    }
}

/// Moves calls behind the other blocks, between thoughts.
fn calls_last(blocks: Vec<Object<'_>>) -> Vec<Object<'_>> {
    let is_kind = |block: &Object<'_>, kinds: &[&str]| {
        block.text("type").is_some_and(|kind| kinds.contains(&&*kind.to_str()))
    };
    let mut ordered = Vec::with_capacity(blocks.len());
    let mut calls = Vec::new();
    for block in blocks {
        if is_kind(&block, &["thinking", "redacted_thinking"]) {
            ordered.append(&mut calls);
            ordered.push(block);
        } else if is_kind(&block, &["tool_use"]) {
            calls.push(block);
        } else {
            ordered.push(block);
        }
    }
    ordered.append(&mut calls);
    ordered
}
