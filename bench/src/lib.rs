//! Measurements of annals against OpenCode's own storage and against its peers, on homes made for the purpose.
//!
//! [`generate`] makes a home: a tree of JSON files as OpenCode 1.1.65 would have left it after a few
//! months of work, the same bytes for the same seed. Nothing here is part of annals itself, so that
//! users of the library do not compile it.

#[cfg(target_os = "linux")]
pub mod compare;
pub mod generate;
pub mod long;
#[cfg(target_os = "linux")]
mod measure;
#[cfg(target_os = "linux")]
pub mod peers;
#[cfg(target_os = "linux")]
pub mod store;
#[cfg(target_os = "linux")]
pub mod stream;
#[cfg(target_os = "linux")]
pub mod versions;
