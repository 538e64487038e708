//! One test binary for the crate: a module per file in `tests/runner/`.

#![allow(clippy::unwrap_used, clippy::redundant_clone, reason = "a test may panic")]

mod runner {
    mod any_json;
    mod edit;
    mod js;
    mod lens;
    mod node;
    mod scan;
}
