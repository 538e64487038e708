//! One test binary for the crate: a module per file in `tests/runner/`.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod runner {
    mod corpus;
    mod kit;
}
