//! The dialect of documents that describe OpenCode before it described itself: parts `tool_use`, `tool_result`, `thinking` and `image`, an
//! object `model` on answers, ids `part_…`.
//!
//! Lenses read these parts as what they mean. Where they are written to a home whose agent does not know them, they are translated: a call and
//! its result become one part.

use std::collections::{HashMap, HashSet};

use crate::document::{Document, Key, Stored};
use crate::id::PartId;
use crate::json::{Node, Style, ToJs};
use crate::lens::early::call_id;
use crate::lens::{Json, Message, OtherPart, Part, TextPart};

/// The documents of a message in OpenCode's own terms; what is in them already stays as it is. The first document is the message, its parts
/// follow.
pub fn translated(documents: Vec<Stored>) -> Vec<Stored> {
    let translated = joined(documents).into_iter().map(|stored| {
        let document = match &stored.key {
            Key::Message(..) => with_model(&stored.document),
            _ => part(&stored),
        };
        renamed(stored, document)
    });
    translated.collect()
}

/// The documents of a message with each call and its result as one part of OpenCode's, everything else as it is.
pub fn joined(mut documents: Vec<Stored>) -> Vec<Stored> {
    let of_kind = |kind: &str| -> Vec<usize> {
        (0..documents.len()).filter(|at| kind_of(&documents[*at]).as_deref() == Some(kind)).collect()
    };
    let id_of = |at: usize| call_id(documents[at].document.root()).map(|id| id.to_string());
    let (calls, mut results) = (of_kind("tool_use"), of_kind("tool_result"));
    if calls.is_empty() {
        return documents;
    }
    let mut result_of: HashMap<usize, usize> = HashMap::new();
    // Results that name their call go first; a call without a name goes with the next result that is left.
    for is_named in [true, false] {
        for call in calls.iter().filter(|call| id_of(**call).is_some() == is_named) {
            let fits = |result: &usize| match is_named {
                true => id_of(*result) == id_of(*call),
                false => result > call,
            };
            if let Some(at) = results.iter().position(fits) {
                result_of.insert(*call, results.remove(at));
            }
        }
    }
    for at in calls {
        let result = result_of.get(&at).map(|result| &documents[*result]);
        if let Some(document) = call(&documents[at], result) {
            documents[at].document = document;
        }
    }
    let used: HashSet<usize> = result_of.into_values().collect();
    let kept = documents.into_iter().enumerate().filter(|(at, _)| !used.contains(at));
    kept.map(|(_, stored)| stored).collect()
}

fn kind_of(stored: &Stored) -> Option<String> {
    match stored.key {
        Key::Part(..) => Some(stored.document.root().get("type")?.as_text()?.to_str().into_owned()),
        _ => None,
    }
}

/// A call together with its result.
fn call(stored: &Stored, result: Option<&Stored>) -> Option<Document> {
    let Part::Tool(mut call) = stored.document.lens::<Part<'_>>() else { return None };
    let id = call.id.as_ref().map(ToString::to_string).unwrap_or_default();
    call.call_id = call.call_id.or_else(|| Some(id.into()));
    let said = result.map(|result| result.document.lens::<OtherPart<'_>>());
    let text = said.as_ref().and_then(OtherPart::result_text);
    let failed = result
        .is_some_and(|result| result.document.root().get("is_error").and_then(Node::as_bool) == Some(true));
    let mut state = call.state.take().unwrap_or_default();
    state.input = state.input.or_else(|| Some(Json::Text("{}".to_owned())));
    match (text, failed) {
        (Some(text), true) => (state.status, state.error) = (Some("error".into()), Some(text.into())),
        (Some(text), false) => {
            (state.output, state.title) = (Some(text.into()), Some("".into()));
            state.metadata = Some(Json::Text("{}".to_owned()));
        }
        // Without a result it is not known whether it ran.
        (None, _) => (state.status, state.raw) = (Some("pending".into()), Some("".into())),
    }
    call.state = Some(state);
    written(&*call)
}

/// Any other part of the dialect; `None` for parts of OpenCode's.
fn part(stored: &Stored) -> Option<Document> {
    if !["tool_result", "thinking", "image"].contains(&&*kind_of(stored)?) {
        return None;
    }
    match stored.document.lens::<Part<'_>>() {
        Part::Reasoning(part) => written(&*part),
        Part::File(part) => written(&*part),
        // A result without its call.
        Part::Other(part) => {
            let text = part.result_text()?;
            let OtherPart { id, session_id, message_id, .. } = *part;
            let synthetic = Some(true);
            written(&TextPart {
                id,
                session_id,
                message_id,
                text: Some(text.into()),
                synthetic,
                ..TextPart::default()
            })
        }
        _ => None,
    }
}

fn written(part: &dyn ToJs) -> Option<Document> {
    Document::written(Style::Pretty, part).ok()
}

/// An answer with its model in OpenCode's members; `None` if it has them, or none.
fn with_model(document: &Document) -> Option<Document> {
    let root = document.root();
    let (Message::Assistant(answer), None) = (document.lens::<Message<'_>>(), root.get("providerID")) else {
        return None;
    };
    let document = document.with(&["providerID"], &answer.provider_id?).ok()?;
    match root.get("modelID") {
        Some(_) => Some(document),
        None => document.with(&["modelID"], &answer.model_id?).ok(),
    }
}

/// A document under an id that OpenCode takes for a part's.
fn renamed(stored: Stored, translation: Option<Document>) -> Stored {
    let document = translation.unwrap_or_else(|| stored.document.clone());
    if let Key::Part(session, message, part) = &stored.key
        && let Some(rest) = part.as_str().strip_prefix("part_")
        && let Ok(id) = PartId::parse(&format!("prt_{rest}"))
    {
        let renamed = match document.root().get("id") {
            Some(_) => document.with(&["id"], id.as_str()).unwrap_or(document),
            None => document,
        };
        let key = Key::Part(session.clone(), message.clone(), id);
        return Stored { key, document: renamed, ..stored };
    }
    Stored { document, ..stored }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{MessageId, SessionId};

    fn stored(id: &str, text: &str) -> Stored {
        let session = SessionId::parse("ses_1").unwrap();
        let message = MessageId::parse("msg_1").unwrap();
        let key = Key::Part(session, message, PartId::parse(id).unwrap());
        Stored::new(key, Document::parse(text.as_bytes().to_vec()).unwrap(), "")
    }

    fn texts(documents: Vec<Stored>) -> Vec<String> {
        let one_line = |text: &str| text.lines().map(str::trim).collect::<String>();
        translated(documents).iter().map(|stored| one_line(stored.document.text())).collect()
    }

    #[test]
    fn a_call_and_its_result_become_one_part() {
        let parts = vec![
            stored("prt_1", r#"{"id":"prt_1","type":"tool_use","name":"read_file","input":{"path":"a"}}"#),
            stored(
                "prt_2",
                r#"{"id":"prt_2","type":"tool_use","tool_use_id":"toolu_2","name":"bash","input":{}}"#,
            ),
            stored(
                "prt_3",
                r#"{"id":"prt_3","type":"tool_result","tool_use_id":"toolu_2","content":"no","is_error":true}"#,
            ),
            stored(
                "prt_4",
                r#"{"id":"prt_4","type":"tool_result","content":[{"type":"text","text":"one"},{"type":"text","text":"two"}]}"#,
            ),
            stored("part_5", r#"{"id":"part_5","type":"tool_result","content":"alone"}"#),
            stored("prt_6", r#"{"id":"prt_6","type":"text","text":"as it is"}"#),
        ];
        assert_eq!(
            texts(parts),
            [
                r#"{"id": "prt_1","type": "tool","callID": "prt_1","tool": "read_file","state": {"status": "completed","input": {"path": "a"},"output": "one\ntwo","title": "","metadata": {}}}"#,
                r#"{"id": "prt_2","type": "tool","callID": "toolu_2","tool": "bash","state": {"status": "error","input": {},"error": "no"}}"#,
                r#"{"id": "prt_5","type": "text","text": "alone","synthetic": true}"#,
                r#"{"id":"prt_6","type":"text","text":"as it is"}"#,
            ]
        );
    }

    #[test]
    fn thoughts_images_and_models_are_read_as_what_they_mean() {
        let lens = |text: &str| stored("prt_1", text).document;
        let thought = lens(r#"{"type":"thinking","thinking":"hm"}"#);
        assert!(
            matches!(thought.lens(), Part::Reasoning(part) if part.text.as_ref().is_some_and(|text| *text == "hm"))
        );
        for (text, mime, url) in [
            (r#"{"type":"image","url":"https://a/b.png"}"#, "image/png", "https://a/b.png"),
            (
                r#"{"type":"image","url":"data:image/gif;base64,QQ=="}"#,
                "image/gif",
                "data:image/gif;base64,QQ==",
            ),
            (
                r#"{"type":"image","source":{"type":"base64","media_type":"image/webp","data":"QQ=="}}"#,
                "image/webp",
                "data:image/webp;base64,QQ==",
            ),
            (r#"{"type":"image","image_url":{"url":"https://a/b"}}"#, "image/png", "https://a/b"),
        ] {
            let document = lens(text);
            let Part::File(part) = document.lens::<Part<'_>>() else { panic!("{text}") };
            assert_eq!((&*part.mime.unwrap().to_str(), &*part.url.unwrap().to_str()), (mime, url), "{text}");
        }
        let answer = lens(r#"{"role":"assistant","model":{"providerID":"anthropic","modelID":"opus"}}"#);
        let Message::Assistant(read) = answer.lens() else { panic!() };
        assert_eq!(read.provider_id.unwrap().to_str(), "anthropic");
        let text = with_model(&answer).unwrap();
        assert!(text.text().contains(r#""modelID":"opus""#), "{}", text.text());
    }
}
