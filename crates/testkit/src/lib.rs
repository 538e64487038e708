//! Shared by tests: fixtures, the conformance suite, the scripted model and the driver of the real OpenCode.

pub mod capture;
pub mod conformance;
mod fixture;
pub mod jsonl_home;
pub mod model;
// The executables it drives are for Linux, and it finds their descendants in /proc.
#[cfg(target_os = "linux")]
pub mod opencode;
pub mod sample;

pub use fixture::{Fixture, files_below, workspace};
