//! Any bytes: a document or a reason why not, the grammar of serde_json, lenses that never fail, a stable text.
#![no_main]

use annals_core::id::{MessageId, PartId, ProjectId, SessionId};
use annals_core::json::{JsWriter, Style, same_value};
use annals_core::lens::{FileDiff, Message, Part, Project, Session, ShareRecord, Todo};
use annals_core::search::{searchable, weight};
use annals_core::{Document, Key, call::CallView};
use libfuzzer_sys::fuzz_target;
use serde_json::value::RawValue;

fuzz_target!(|bytes: &[u8]| {
    let document = match Document::parse(bytes.to_vec()) {
        Ok(document) => document,
        Err(error) => {
            assert!(error.offset <= bytes.len() && !error.to_string().is_empty());
            let accepted = std::str::from_utf8(bytes).is_ok_and(|text| serde_json::from_str::<&RawValue>(text).is_ok());
            assert!(!accepted, "serde_json takes it: {error}");
            return;
        }
    };
    assert_eq!(document.bytes(), bytes);
    if !bytes.starts_with(b"\xef\xbb\xbf") {
        assert!(serde_json::from_str::<&RawValue>(document.text()).is_ok(), "serde_json does not take it");
    }
    let _ = document.lens::<Project<'_>>();
    let _ = document.lens::<Session<'_>>();
    let _ = document.lens::<Message<'_>>();
    let _ = document.lens::<Vec<Todo<'_>>>();
    let _ = document.lens::<Vec<FileDiff<'_>>>();
    let _ = document.lens::<ShareRecord<'_>>();
    if let Part::Tool(part) = document.lens::<Part<'_>>() {
        let _ = CallView::of(&part);
    }
    let session = SessionId::parse("ses_1").expect("an id");
    let message = MessageId::parse("msg_1").expect("an id");
    let part = PartId::parse("prt_1").expect("an id");
    for key in [
        Key::Session(ProjectId::global(), session.clone()),
        Key::Message(session.clone(), message.clone()),
        Key::Part(session, message, part),
    ] {
        let mut said = 0;
        searchable(&key, &document, &mut |text| said += text.len());
        // An escape is never shorter than what it stands for.
        assert!(said <= bytes.len());
        let _ = weight(&key, &document, Some(&document.lens()));
    }
    let pretty = Document::parse(JsWriter::document(Style::Pretty, &document)).expect("what is written is a document");
    let compact = Document::parse(JsWriter::document(Style::Compact, &pretty)).expect("what is written is a document");
    assert_eq!(JsWriter::document(Style::Pretty, &compact), pretty.bytes());
    assert!(same_value(pretty.root(), compact.root()));
});
