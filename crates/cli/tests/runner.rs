//! One test binary for the crate: a module per file in `tests/runner/`.

#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(clippy::disallowed_methods, reason = "a test opens databases as OpenCode or a stranger would")]

mod runner {
    #[cfg(target_os = "linux")]
    mod agent_example;
    mod ancestry;
    mod append;
    #[cfg(target_os = "linux")]
    mod append_faults;
    #[cfg(target_os = "linux")]
    mod append_kill;
    mod changes;
    mod compared;
    mod conformance;
    mod conversations;
    mod copy;
    mod damage;
    mod database;
    mod database_crash;
    mod database_disk;
    #[cfg(target_os = "linux")]
    mod dialect;
    mod disk;
    #[cfg(target_os = "linux")]
    mod docs;
    mod errors;
    #[cfg(target_os = "linux")]
    mod faults;
    #[cfg(target_os = "linux")]
    mod files;
    mod history;
    mod hostile;
    #[cfg(target_os = "linux")]
    mod housekeeping;
    mod identity;
    #[cfg(unix)]
    mod index_heals;
    mod keep;
    mod kit;
    #[cfg(unix)]
    mod leftovers;
    mod llm;
    #[cfg(unix)]
    mod modes;
    #[cfg(target_os = "linux")]
    mod move_project;
    mod opencode;
    mod operations;
    mod other_agents;
    #[cfg(target_os = "linux")]
    mod purge;
    mod recovery;
    mod reference;
    #[cfg(target_os = "linux")]
    mod resume;
    mod running;
    mod screen_sizes;
    mod screens;
    mod search;
    #[cfg(unix)]
    mod special_files;
    mod store;
    mod stream_model;
    #[cfg(target_os = "linux")]
    mod terminal;
    mod ugly_titles;
    mod walk;
    #[cfg(unix)]
    mod working_tree;
}

/// A file that no `mod` line names would be tests that never run.
#[test]
fn every_file_is_a_module() {
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/runner");
    for entry in std::fs::read_dir(directory).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        // What a failed snapshot left behind.
        if name.ends_with(".pending-snap") {
            continue;
        }
        let module = format!("mod {};", name.trim_end_matches(".rs"));
        assert!(include_str!("runner.rs").contains(&module), "tests/runner/{name} is not in tests/runner.rs");
    }
}
