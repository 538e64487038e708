//! Any object: setting and removing a field changes that field and nothing else.
#![no_main]

use annals_core::Document;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (Vec<u8>, String, bool)| {
    let (bytes, value, nested) = input;
    let Ok(document) = Document::parse(bytes) else { return };
    let path: &[&str] = if nested { &["time", "archived"] } else { &["title"] };
    let others = |document: &Document| -> Vec<(Vec<u8>, String)> {
        let members = document.root().members();
        members
            .filter(|(key, _)| key != path[0])
            .map(|(key, value)| (key.to_wtf8().into_owned(), value.raw().to_owned()))
            .collect()
    };
    if let Ok(edited) = document.with(path, value.as_str()) {
        assert_eq!(edited.root().at(path).and_then(|node| node.as_text()).expect("it is set").to_str(), value);
        assert_eq!(others(&edited), others(&document));
        assert_eq!(edited.with(path, value.as_str()).expect("again").text(), edited.text());
    }
    if let Ok(removed) = document.without(path) {
        assert!(removed.root().at(path).is_none());
        assert_eq!(others(&removed), others(&document));
    }
});
