//! Any file: an export or a reason why not, and ids that are safe to make paths of.
#![no_main]

use annals_core::format::{jsonl, opencode};
use annals_core::id::ProjectId;
use annals_core::{Document, Key};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let imported = if jsonl::is_jsonl(bytes) {
        jsonl::read(bytes)
    } else {
        let Ok(document) = Document::parse(bytes.to_vec()) else { return };
        opencode::read(&document, &ProjectId::global())
    };
    let imported = match imported {
        Ok(imported) => imported,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let mut lines = jsonl::header();
    for (key, document) in &imported.documents {
        let text = key.to_string();
        assert!(!text.contains(['/', '.', '\0']), "{text}");
        lines.extend(jsonl::write(key, document));
    }
    // What can be read can be written and read again.
    let again = jsonl::read(&lines).expect("lines written by us");
    let shares = |key: &Key| matches!(key, Key::Share(_) | Key::LegacyShare(_));
    assert!(!imported.documents.iter().any(|(key, _)| shares(key)));
    assert_eq!(again.documents, imported.documents);
});
