//! Model messages as the AI SDK hands them to a provider: files are split into type and contents, empty texts left out.

use super::model::{FileData, ModelMessage, ModelPart};
use super::ui::ModelRole;
use crate::json::Text;

/// Converts messages in place.
pub(super) fn convert(messages: &mut [ModelMessage<'_>]) {
    for message in messages {
        match message.role {
            ModelRole::User => {
                message.content.iter_mut().for_each(split_file);
                message
                    .content
                    .retain(|part| !matches!(part, ModelPart::Text { text, .. } if text.is_empty()));
            }
            ModelRole::Assistant => message
                .content
                .retain(|part| !matches!(part, ModelPart::Text { text, options: None } if text.is_empty())),
            ModelRole::Tool => {}
        }
    }
}

/// Splits a `data:` address. The type inside the address wins over the one beside it.
fn split_file(part: &mut ModelPart<'_>) {
    let ModelPart::File { media_type, data, .. } = part else { return };
    let FileData::Url(url) = data else { return };
    let url = url.to_str();
    let Some((scheme, rest)) = url.split_once(':') else {
        // Not an address: the SDK takes it for contents.
        *data = FileData::Inline(url.into_owned().into());
        return;
    };
    if !scheme.eq_ignore_ascii_case("data") {
        return;
    }
    let Some((header, contents)) = rest.split_once(',') else { return };
    let inner_type = header.split(';').next().unwrap_or_default();
    *media_type = Text::from(inner_type.to_owned());
    // What follows a second comma is lost.
    *data = FileData::Inline(contents.split(',').next().unwrap_or_default().to_owned().into());
}
