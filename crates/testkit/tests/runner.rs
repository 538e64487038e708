//! The one test binary of this crate, with the files in `runner/` as its modules.

#![allow(clippy::unwrap_used, reason = "what fails in a test may panic, in its helper functions too")]

#[path = "runner/client.rs"]
mod client;
#[path = "runner/documents.rs"]
mod documents;
#[path = "runner/house.rs"]
mod house;
#[path = "runner/model.rs"]
mod model;
#[cfg(target_os = "linux")]
#[path = "runner/opencode.rs"]
mod opencode;

#[test]
fn no_file_is_left_out() {
    let runner = include_str!("runner.rs");
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/runner")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(runner.contains(&format!("#[path = \"runner/{name}\"]")), "{name} is not a module");
    }
}
