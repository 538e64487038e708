//! JSON shapes of sessions, operations and reports, shared by every interface that prints JSON.
//!
//! Each shape is a struct that serializes to one JSON object and is made from the library's own types. Names, order and meaning of
//! fields are part of the interface: fields are added, never changed. Times are Unix milliseconds, costs US dollars, sizes bytes; a
//! value that is not known is `null`. The comments on the fields are the tables of docs/json.md, which a test writes and compares.
//!
//! Nothing here prints, or reads a clock, the environment or a home.

mod document;
mod home;
mod keep;
mod operation;
mod problem;
mod revision;
mod search;
mod session;
mod stats;
mod sync;
mod transfer;
mod usage;

pub use document::{DifferingDocument, DocumentChange, DocumentName, Gist};
pub use home::{Home, LatestSession, Overview, Rescue, SampleHome, Store, TextIndex};
pub use keep::{Backup, ForgetReport, PruneReport, PrunedSession, RestoredBackup};
pub use operation::{
    ArchivedSession, Operation, OperationEffect, RemovedSessions, RenamedSession, RestoredSession,
    UndoneOperation,
};
pub use problem::{CheckReport, Problem};
pub use revision::{RevisedSession, Revision, UndoneRevision};
pub use search::SearchHit;
pub use session::{Session, SessionTree, TodoList};
pub use stats::{AnswerSums, Stats, TokensPerSession, ToolCalls};
pub use sync::{IndexUpdate, ReindexReport, SyncReport};
pub use transfer::{CopiedSession, CopyReport, CopyTally, ImportReport};
pub use usage::{CacheTokens, Tokens};
