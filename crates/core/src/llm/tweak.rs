//! What OpenCode changes in messages for particular providers and models, in OpenCode's order.

use super::model::{ContentEntry, ModelMessage, ModelPart, ResultOutput};
use super::rules::Rules;
use super::target::{Sdk, Target};
use super::ui::ModelRole;
use crate::json::{Object, Text, Value};

/// Applies all changes.
pub(super) fn apply(messages: &mut Vec<ModelMessage<'_>>, rules: Rules, target: &Target) {
    replace_unreadable_files(messages, target);
    normalize(messages, rules, target);
    if has_cache_marks(rules, target) {
        mark_for_cache(messages, rules, target);
    }
    rename_metadata(messages, rules, target);
    if rules.drops_item_ids_early() {
        drop_item_ids(messages, rules, target);
    }
}

/// Files that the model cannot read become a text that says so.
fn replace_unreadable_files(messages: &mut [ModelMessage<'_>], target: &Target) {
    for part in
        messages.iter_mut().filter(|message| message.role == ModelRole::User).flat_map(|m| &mut m.content)
    {
        let ModelPart::File { media_type, filename, .. } = part else { continue };
        let Some((kind, false)) = target.input.reads(&media_type.to_str()) else { continue };
        let name = match filename.as_ref().filter(|name| !name.is_empty()) {
            Some(name) => Text::joined(&["\"".into(), name.clone(), "\"".into()], ""),
            None => kind.into(),
        };
        let rest = format!(" (this model does not support {kind} input). Inform the user.");
        *part = ModelPart::text(Text::joined(&["ERROR: Cannot read ".into(), name, rest.into()], ""));
    }
}

fn normalize(messages: &mut Vec<ModelMessage<'_>>, rules: Rules, target: &Target) {
    if rules.repairs_surrogates() {
        messages.iter_mut().flat_map(|message| &mut message.content).for_each(repair_surrogates);
    }
    let drops_empty = match target.sdk {
        Sdk::Anthropic => rules.drops_empty_parts_for_anthropic(),
        Sdk::Bedrock => rules.drops_empty_parts_for_bedrock(),
        _ => false,
    };
    if drops_empty {
        for message in messages.iter_mut() {
            message.content.retain(|part| !is_dropped(part, rules, target));
        }
        messages.retain(|message| !message.content.is_empty());
    }
    if target.is_called("claude") {
        change_call_ids(messages, |id| {
            id.replace(|c: char| !(c.is_ascii_alphanumeric() || "_-".contains(c)), "_")
        });
        if rules.ends_tweaks_for_claude() {
            return;
        }
    }
    let model = target.model.to_lowercase();
    if target.provider == "mistral" || rules.mistral_names().iter().any(|name| model.contains(name)) {
        suit_mistral(messages);
        return;
    }
    if rules.adds_thoughts_for_deepseek() && model.contains("deepseek") {
        for message in messages.iter_mut().filter(|message| message.role == ModelRole::Assistant) {
            if !message.content.iter().any(|part| matches!(part, ModelPart::Reasoning { .. })) {
                message.content.push(ModelPart::Reasoning { text: "".into(), options: None });
            }
        }
    }
    interleave(messages, rules, target);
}

fn repair_surrogates(part: &mut ModelPart<'_>) {
    let repair = |text: &mut Text<'_>| *text = text.to_str().into_owned().into();
    match part {
        ModelPart::Text { text, .. } | ModelPart::Reasoning { text, .. } => repair(text),
        ModelPart::Result { output: ResultOutput::Text(text) | ResultOutput::ErrorText(text), .. } => {
            repair(text);
        }
        ModelPart::Result { output: ResultOutput::Content(entries), .. } => {
            for entry in entries {
                if let ContentEntry::Text(text) = entry {
                    repair(text);
                }
            }
        }
        ModelPart::Result { .. } | ModelPart::File { .. } | ModelPart::Call { .. } => {}
    }
}

/// Whether a part is kept from Anthropic's and Bedrock's SDKs, which refuse empty ones.
fn is_dropped(part: &ModelPart<'_>, rules: Rules, target: &Target) -> bool {
    match part {
        ModelPart::Text { text, .. } => text.is_empty(),
        ModelPart::Reasoning { text, .. } if !rules.keeps_signed_thoughts() => text.is_empty(),
        ModelPart::Reasoning { text, options } => {
            let has = |names: &[&str], keys: &[&str]| {
                let options = options.as_ref();
                let data = names.iter().find_map(|name| options.and_then(|options| options.object(name)));
                data.is_some_and(|data| keys.iter().any(|key| data.get(key).is_some()))
            };
            match target.sdk {
                Sdk::Bedrock => {
                    !has(&[&target.provider, "bedrock"], &["signature", "redactedContent", "redactedData"])
                }
                _ => text.is_blank() && !has(&["anthropic"], &["signature", "redactedData"]),
            }
        }
        _ => false,
    }
}

fn change_call_ids(messages: &mut [ModelMessage<'_>], change: impl Fn(&str) -> String) {
    for part in messages.iter_mut().flat_map(|message| &mut message.content) {
        if let ModelPart::Call { call_id, .. } | ModelPart::Result { call_id, .. } = part {
            *call_id = change_units(call_id, &change);
        }
    }
}

/// A changed id. A character beyond the first 65,536 counts as two, as for JavaScript.
fn change_units(id: &Text<'_>, change: &impl Fn(&str) -> String) -> Text<'static> {
    let units: String =
        id.to_utf16().iter().map(|&unit| u8::try_from(unit).map_or('\u{fffd}', char::from)).collect();
    change(&units).into()
}

/// Mistral wants ids of nine letters, and an answer between a result and a prompt.
fn suit_mistral(messages: &mut Vec<ModelMessage<'_>>) {
    change_call_ids(messages, |id| {
        let mut id: String = id.chars().filter(char::is_ascii_alphanumeric).take(9).collect();
        while id.len() < 9 {
            id.push('0');
        }
        id
    });
    let mut place = 1;
    while place < messages.len() {
        if messages[place - 1].role == ModelRole::Tool && messages[place].role == ModelRole::User {
            let origin = messages[place - 1].origin;
            let content = vec![ModelPart::text("Done.")];
            messages
                .insert(place, ModelMessage { role: ModelRole::Assistant, content, options: None, origin });
        }
        place += 1;
    }
}

/// Puts the reasoning of each answer beside its text, under the name that the model wants.
fn interleave(messages: &mut [ModelMessage<'_>], rules: Rules, target: &Target) {
    let Some(field) = target.interleaved.as_deref().filter(|field| !field.is_empty()) else { return };
    if rules.interleaves_reasoning_content_only() && field != "reasoning_content"
        || rules.always_interleaves() && target.sdk == Sdk::OpenRouter
    {
        return;
    }
    for message in messages.iter_mut().filter(|message| message.role == ModelRole::Assistant) {
        let mut thoughts = Vec::new();
        message.content.retain(|part| {
            if let ModelPart::Reasoning { text, .. } = part {
                thoughts.push(text.clone());
            }
            !matches!(part, ModelPart::Reasoning { .. })
        });
        let thoughts = Text::joined(&thoughts, "");
        if rules.always_interleaves() || !thoughts.is_empty() {
            let mut options = message.options.take().unwrap_or_default();
            let mine = options.object("openaiCompatible").unwrap_or_default();
            options.set("openaiCompatible", mine.with(field.to_owned(), thoughts));
            message.options = Some(options);
        }
    }
}

fn has_cache_marks(rules: Rules, target: &Target) -> bool {
    let is_anthropic = target.provider == "anthropic"
        || target.sdk == Sdk::Anthropic
        || target.is_called("anthropic")
        || target.is_called("claude");
    let is_other = rules.marks_other_providers()
        && (target.provider == "google-vertex-anthropic" || target.sdk == Sdk::Alibaba);
    (is_anthropic || is_other) && !(rules.leaves_marks_to_gateway() && target.sdk == Sdk::Gateway)
}

/// The marks that tell providers to cache, in the words of each SDK.
fn cache_marks<'a>(rules: Rules) -> Object<'a> {
    let ephemeral = || Object::new().with("type", "ephemeral");
    let control = |key: &'static str| Object::new().with(key, ephemeral());
    let merges = rules.merges_cache_marks();
    let point = Object::new().with("type", if merges { "default" } else { "ephemeral" });
    let marks = Object::new()
        .with("anthropic", control("cacheControl"))
        .with("openrouter", control(if merges { "cacheControl" } else { "cache_control" }))
        .with("bedrock", Object::new().with("cachePoint", point))
        .with("openaiCompatible", control("cache_control"));
    let marks = if merges { marks.with("copilot", control("copilot_cache_control")) } else { marks };
    if rules.marks_other_providers() { marks.with("alibaba", control("cacheControl")) } else { marks }
}

/// Marks the last two messages. System prompts, which are marked too, are not made here.
fn mark_for_cache(messages: &mut [ModelMessage<'_>], rules: Rules, target: &Target) {
    let marks_message = target.provider == "anthropic"
        || rules.merges_cache_marks() && target.provider.contains("bedrock")
        || rules.marks_other_providers() && target.sdk == Sdk::Bedrock;
    let first = messages.len().saturating_sub(2);
    for message in &mut messages[first..] {
        let options = match message.content.last_mut().filter(|_| !marks_message) {
            Some(part) => part.options_mut(),
            None => &mut message.options,
        };
        let known = options.take().unwrap_or_default();
        let marks = cache_marks(rules);
        *options =
            Some(if rules.merges_cache_marks() { known.merged(marks) } else { known.spread(Some(marks)) });
    }
}

/// Changes the data for providers of every message and part.
fn change_options<'a>(messages: &mut [ModelMessage<'a>], change: impl Fn(&mut Object<'a>)) {
    for message in messages {
        let of_parts = message.content.iter_mut().filter_map(|part| part.options_mut().as_mut());
        of_parts.chain(message.options.as_mut()).for_each(&change);
    }
}

/// Metadata that is stored under the provider's name gets the name under which the SDK looks for it, and replaces what was
/// there.
fn rename_metadata(messages: &mut [ModelMessage<'_>], rules: Rules, target: &Target) {
    let Some(name) = target.sdk.metadata_name(rules).filter(|_| rules.renames_metadata()) else { return };
    if name == target.provider || (target.sdk == Sdk::Azure && !rules.has_metadata_names_of_its_own()) {
        return;
    }
    change_options(messages, |options| {
        if let Some(data) = options.remove(&target.provider) {
            options.set(name, data);
        }
    });
}

/// OpenAI refuses ids of items that it has not stored.
fn drop_item_ids(messages: &mut [ModelMessage<'_>], rules: Rules, target: &Target) {
    if !matches!(target.sdk, Sdk::OpenAi | Sdk::Azure | Sdk::BedrockMantle | Sdk::Copilot) {
        return;
    }
    let Some(name) = target.sdk.metadata_name(rules) else { return };
    change_options(messages, |options| {
        if let Some(mut data) = options.object(name).filter(|data| data.has("itemId")) {
            data.remove("itemId");
            options.set(name, Value::Object(data));
        }
    });
}
