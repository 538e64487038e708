//! JSON shapes of sessions, operations and reports, shared by every interface that prints JSON.
//!
//! Each shape is a struct that serializes to one JSON object and is made from the library's own types. Names, order and meaning of
//! fields are part of the interface: fields are added, never changed. Times are Unix milliseconds, costs US dollars, sizes bytes; a
//! value that is not known is `null`. The comments on the fields are the tables of docs/json.md, which a test writes and compares.
//!
//! Nothing here prints, or reads a clock, the environment or a home.

mod append;
mod document;
mod files;
mod home;
mod housekeeping;
mod keep;
mod llm;
mod operation;
mod problem;
mod project;
mod purge;
mod replay;
mod revision;
mod search;
mod session;
mod stats;
mod sync;
mod transfer;
mod usage;

pub use append::{AbortedTurns, Acknowledgement, LineError, NewSession, RefusedLine};
pub use document::{DifferingDocument, DocumentChange, DocumentName, Gist};
pub use files::{ChangedFile, ChangedFiles};
pub use home::{
    HereProject, Home, LatestSession, MovedHere, Overview, Rescue, SampleHome, Store, TextIndex, UsedSince,
};
pub use housekeeping::{
    FreeReport, FreedUse, LargeSession, SpaceFailure, SpacePlace, SpaceReport, SpaceUse, StoreSpace,
};
pub use keep::{Backup, ForgetReport, PruneReport, PrunedSession, RestoredBackup};
pub use llm::{ContentSize, ContextMessage, LlmContext, RecordedRequest};
pub use operation::{
    ArchivedSession, CompactedSession, ForkedSession, MovedProject, Operation, OperationEffect, PrunedCalls,
    RemovedSessions, RenamedSession, ReplacedTodoList, RestoredSession, RevertedSession, UndoneOperation,
    UnrevertedSession,
};
pub use problem::{CheckReport, ClosedTurn, FixReport, LeftTurn, Problem};
pub use project::{ProjectSummary, ResumeCommand};
pub use purge::{ClearedHome, ErasedLines, FoundRemains, NotErased, PurgeReport};
pub use replay::{CallTime, ReplayableCall};
pub use revision::{RevisedSession, Revision, UndoneRevision};
pub use search::SearchHit;
pub use session::{Relative, Session, SessionTree, TodoList, status};
pub use stats::{AnswerSums, Stats, StatsGroup, TokensPerSession, ToolCalls};
pub use sync::{IndexUpdate, ReindexReport, SyncReport};
pub use transfer::{CopiedSession, CopyReport, CopyTally, ImportReport};
pub use usage::{CacheTokens, Tokens};
