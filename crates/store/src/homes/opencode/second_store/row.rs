//! A row of OpenCode's second transcript store, and what its members say in the words of the first.
//!
//! No member is trusted to be there or to have the kind it should have.

use annals_core::document::Document;
use annals_core::id::{MessageId, Millis};
use annals_core::json::{Kind, Node, Text};
use annals_core::lens::{CacheTokens, ErrorData, Json, Lens, MessageError, MessageTime, ModelRef, Tokens};

/// A row of `session_message`.
#[derive(Debug, Clone)]
pub struct SecondStoreRow {
    /// Its id.
    pub id: MessageId,
    /// The column `type`: `user`, `assistant`, `shell`, …
    pub kind: String,
    /// The column `data`, which holds neither the id nor the type.
    pub data: Document,
}

/// A member that is there and not `null`.
pub(super) fn present<'a>(object: Node<'a>, key: &str) -> Option<Node<'a>> {
    object.get(key).filter(|value| !value.is_null())
}

/// A member that is a string.
pub(super) fn text<'a>(object: Node<'a>, key: &str) -> Option<Text<'a>> {
    object.get(key)?.as_text()
}

/// A member that is an object, which is what the first store wants all free-form values to be.
pub(super) fn object<'a>(parent: Node<'a>, key: &str) -> Option<Json<'a>> {
    parent.get(key).filter(|value| value.kind() == Kind::Object).map(Json::Node)
}

/// A text for people: a string, or the JSON of another value in its place.
pub(super) fn prose(value: Option<Node<'_>>) -> Text<'_> {
    match value {
        Some(value) if !value.is_null() => value.as_text().unwrap_or(Text::from(value.raw())),
        _ => Text::from(""),
    }
}

/// The JSON of a value that is not understood, after the name it came under.
pub(super) fn described(kind: &str, value: Node<'_>) -> Text<'static> {
    Text::from(format!("[{kind}] {}", value.raw()))
}

/// The items of a member. What should have been an array is taken as its only item.
pub(super) fn listed<'a>(object: Node<'a>, key: &str) -> impl Iterator<Item = Node<'a>> {
    let value = present(object, key);
    let alone = value.filter(|value| value.kind() != Kind::Array);
    value.into_iter().flat_map(Node::items).chain(alone)
}

/// A member of `time`, without its fraction and not before 1970, for OpenCode would refuse either.
pub(super) fn millis(object: Node<'_>, key: &str) -> Option<Millis> {
    object.at(&["time", key]).and_then(Millis::look).map(|millis| millis.max(0))
}

pub(super) fn time(data: Node<'_>) -> MessageTime {
    MessageTime { created: Some(millis(data, "created").unwrap_or(0)), completed: millis(data, "completed") }
}

/// The time of a message that has ended, although its row may not say when.
pub(super) fn ended(data: Node<'_>) -> MessageTime {
    let time = time(data);
    MessageTime { completed: time.completed.or(time.created), ..time }
}

/// The model that a row names. The variant `default` is what the first store says by naming none.
pub(super) fn model(data: Node<'_>) -> Option<ModelRef<'_>> {
    let named = present(data, "model")?;
    let (provider, id) = (text(named, "providerID"), text(named, "id").or_else(|| text(named, "modelID")));
    if provider.is_none() && id.is_none() {
        return None;
    }
    Some(ModelRef {
        provider_id: Some(provider.unwrap_or(Text::from("unknown"))),
        model_id: Some(id.unwrap_or(Text::from("unknown"))),
        variant: text(named, "variant").filter(|variant| variant != "default"),
    })
}

pub(super) fn unknown_model<'a>() -> ModelRef<'a> {
    let unknown = Some(Text::from("unknown"));
    ModelRef { provider_id: unknown.clone(), model_id: unknown, variant: None }
}

pub(super) fn cost(data: Node<'_>) -> f64 {
    finite(data.get("cost").and_then(Node::as_f64))
}

pub(super) fn tokens(data: Node<'_>) -> Tokens {
    full_tokens(data.get("tokens").and_then(Tokens::look).unwrap_or_default())
}

/// Token counts of which only the total may be missing.
pub(super) fn full_tokens(tokens: Tokens) -> Tokens {
    let cache = tokens.cache.unwrap_or_default();
    Tokens {
        total: tokens.total.filter(|total| total.is_finite()),
        input: Some(finite(tokens.input)),
        output: Some(finite(tokens.output)),
        reasoning: Some(finite(tokens.reasoning)),
        cache: Some(CacheTokens { read: Some(finite(cache.read)), write: Some(finite(cache.write)) }),
    }
}

fn finite(number: Option<f64>) -> f64 {
    number.filter(|number| number.is_finite()).unwrap_or(0.0)
}

/// The second store tells errors apart by no more than a message.
pub(super) fn unknown_error(error: Node<'_>) -> MessageError<'_> {
    let data = ErrorData { message: Some(error_text(error)), ..ErrorData::default() };
    MessageError { name: Some(Text::from("UnknownError")), data: Some(data) }
}

pub(super) fn error_text(error: Node<'_>) -> Text<'_> {
    text(error, "message").unwrap_or_else(|| prose(Some(error)))
}

/// Where a file's contents are. Rows of later versions hold the contents themselves.
pub(super) fn address(file: Node<'_>) -> Option<Text<'_>> {
    let named = text(file, "url").or_else(|| text(file, "uri")).or_else(|| file.as_text());
    named.or_else(|| Some(Text::from(format!("data:{};base64,{}", mime(file), text(file, "data")?))))
}

pub(super) fn mime(file: Node<'_>) -> Text<'_> {
    let named = text(file, "mime").or_else(|| text(file, "mimeType"));
    named.unwrap_or(Text::from("application/octet-stream"))
}
