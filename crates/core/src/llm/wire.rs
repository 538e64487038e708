//! The messages of a request as JSON, in the protocols of providers.

mod anthropic;
mod anthropic_tools;
mod chat;
mod responses;

use super::model::{FileData, ModelMessage};
use super::rules::Rules;
use super::target::Target;
use crate::json::{Object, Text};
use crate::lens::Json;
use base64::Engine;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};

/// A protocol in which models are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Wire {
    /// OpenAI's chat completions: `messages`.
    Chat,
    /// Anthropic's messages: `messages`.
    Anthropic,
    /// OpenAI's responses: `input`.
    Responses,
}

/// A file that the SDK refuses to send, and with it the whole request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("OpenCode cannot send this request: the SDK refuses {what}")]
pub struct RefusedFile {
    /// What it refuses.
    pub what: String,
}

impl RefusedFile {
    fn of_type(media_type: &Text<'_>) -> RefusedFile {
        RefusedFile { what: format!("files of type {media_type}") }
    }

    fn elsewhere(what: &str) -> RefusedFile {
        RefusedFile { what: format!("{what} that it is only given the address of") }
    }
}

impl Wire {
    /// The messages in this protocol.
    pub(super) fn messages<'a>(
        self,
        messages: Vec<ModelMessage<'a>>,
        rules: Rules,
        target: &Target,
    ) -> Result<Vec<Object<'a>>, RefusedFile> {
        match self {
            Wire::Chat => chat::messages(messages, rules),
            Wire::Anthropic => anthropic::messages(messages, rules),
            Wire::Responses => {
                let is_codex = target.is_called("gpt-5") && target.provider.contains("codex");
                responses::items(messages, rules, rules.has_responses_stored() && !is_codex)
            }
        }
    }
}

/// The JSON of a call's arguments as a text; `None` if there are none.
fn arguments(input: Option<&Json<'_>>) -> Option<Text<'static>> {
    input.map(Text::json_of)
}

/// The type under which an image is sent.
fn image_type<'a>(media_type: &Text<'a>) -> Text<'a> {
    if *media_type == "image/*" { "image/jpeg".into() } else { media_type.clone() }
}

/// A file as an address: its own, or one that holds the contents.
fn address<'a>(media_type: &Text<'_>, data: FileData<'a>) -> Text<'a> {
    match data {
        FileData::Url(url) => url,
        FileData::Inline(data) => {
            Text::joined(&["data:".into(), media_type.clone(), ";base64,".into(), data], "")
        }
    }
}

/// The text that a file holds.
fn decoded(data: &Text<'_>) -> Text<'static> {
    const CONFIG: GeneralPurposeConfig =
        GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    const ENGINE: GeneralPurpose = GeneralPurpose::new(&base64::alphabet::STANDARD, CONFIG);
    // JavaScript reads both alphabets.
    let data = data.to_str().replace('-', "+").replace('_', "/");
    let bytes = ENGINE.decode(data.as_bytes()).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned().into()
}
