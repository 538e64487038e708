//! One test binary for the crate: a module per file in `tests/runner/`.

#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(clippy::disallowed_methods, reason = "a test opens databases as OpenCode or a stranger would")]

mod runner {
    #[cfg(target_os = "linux")]
    mod agent_example;
    mod annals_concurrent;
    mod annals_damage;
    mod annals_keep;
    #[cfg(target_os = "linux")]
    mod annals_powercut;
    mod annals_store;
    mod append_docs;
    mod check;
    mod commit;
    mod concurrent;
    mod conformance;
    mod corpus;
    mod crash;
    mod damage;
    mod database;
    mod database_damage;
    mod events;
    mod facade;
    #[cfg(target_os = "linux")]
    mod facade_opencode;
    mod fork;
    mod identity;
    mod import;
    mod jsonl_home;
    mod kit;
    mod layouts;
    mod llm;
    #[cfg(target_os = "linux")]
    mod llm_opencode;
    mod opencode;
    mod order;
    mod paging;
    #[cfg(target_os = "linux")]
    mod powercut;
    mod search;
    #[cfg(target_os = "linux")]
    mod stream_cost;
    mod streaming;
    mod subscriptions;
    mod sync;
    #[cfg(target_os = "linux")]
    mod sync_cost;
    mod sync_events;
    mod sync_evidence;
    mod sync_homes;
    #[cfg(target_os = "linux")]
    mod sync_opencode;
    mod sync_trouble;
    mod turn;
    mod turn_opencode;
    mod wire;
}

/// A file that no `mod` line names would be tests that never run.
#[test]
fn every_file_is_a_module() {
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/runner");
    for entry in std::fs::read_dir(directory).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let module = format!("mod {};", name.trim_end_matches(".rs"));
        assert!(include_str!("runner.rs").contains(&module), "tests/runner/{name} is not in tests/runner.rs");
    }
}
