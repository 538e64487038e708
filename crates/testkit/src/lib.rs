//! Fixtures, the scripted model and the driver of the real OpenCode that tests share.

mod fixture;
pub mod model;
// The executables it drives are those for Linux, and it finds their descendants in /proc.
#[cfg(target_os = "linux")]
pub mod opencode;

pub use fixture::{Fixture, files_below, workspace};
