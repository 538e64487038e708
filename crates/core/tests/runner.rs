//! One test binary for the crate: a module per file in `tests/runner/`.

mod runner {
    mod any_json;
    mod edit;
    mod js;
    mod lens;
    mod scan;
}
