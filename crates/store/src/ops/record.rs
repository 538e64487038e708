//! The record of operations that a store keeps: what was asked for, and what each commit to a home changed. By it an operation is undone, and one that
//! was cut short is completed or taken back.

use std::fmt::Debug;
use std::io;

use annals_core::id::SessionId;
use annals_core::{ContentHash, Key, Transaction};

use super::plan::OperationPlan;
use super::{Operation, OperationQuery, OperationRequest, OperationState};
use crate::home::pieces::Piece;
use crate::home::{CommitError, ReadError, Receipt, Write};

/// A store that records operations.
pub trait OperationLog: Send + Sync {
    /// Operations, the latest first.
    fn operations(&self, query: &OperationQuery) -> Result<Vec<Operation>, ReadError>;

    /// One operation by its number.
    fn operation(&self, number: i64) -> Result<Option<Operation>, ReadError>;

    /// Waits until no other operation runs on this store, in whatever process.
    fn lock_operations(&self) -> io::Result<OperationLock>;

    /// Locks operations, unless another one runs.
    fn try_lock_operations(&self) -> io::Result<Option<OperationLock>>;

    /// Records an operation before it changes anything.
    fn begin_operation(&self, request: &OperationRequest, plan: &OperationPlan) -> Result<i64, CommitError>;

    /// Notes what an operation is about to change in a home. The first note begins the operation.
    fn note_step(
        &self,
        operation: Option<i64>,
        request: &OperationRequest,
        plan: &OperationPlan,
        home: &str,
        pieces: &[Piece],
    ) -> Result<i64, CommitError>;

    /// Ends an operation. `steps` are those that were made; the others are dropped.
    fn end_operation(
        &self,
        operation: i64,
        state: OperationState,
        steps: Option<&[i64]>,
        sessions: &[SessionId],
    ) -> Result<(), CommitError>;

    /// Records that sessions were forgotten: when and by whom, not which.
    fn note_forget(&self, request: &OperationRequest) -> Result<i64, CommitError>;

    /// Commits a transaction to the store as part of an operation.
    fn commit_as(&self, transaction: Transaction, operation: i64) -> Result<Receipt, CommitError>;

    /// The store as a home whose commits are part of an operation.
    fn for_operation(&self, operation: i64) -> Box<dyn Write>;

    /// Operations that are under way, or were cut short.
    fn unfinished_operations(&self) -> Result<Vec<i64>, ReadError>;

    /// What an operation that was cut short was going to do.
    fn plan(&self, operation: i64) -> Result<OperationPlan, ReadError>;

    /// The commits of an operation to homes, in the order in which they were made; with `all` also those that were only noted.
    fn steps(&self, operation: i64, all: bool) -> Result<Vec<Step>, ReadError>;

    /// What a commit of an operation changed.
    fn noted_pieces(&self, operation: i64, step: i64) -> Result<Vec<NotedPiece>, ReadError>;

    /// What an operation changed in the store alone, document by document, the last first.
    fn noted_changes(&self, operation: i64) -> Result<Vec<NotedChange>, ReadError>;

    /// Makes documents that an operation changed in the store alone what they were before it, as part of another operation.
    fn change_back(
        &self,
        operation: i64,
        documents: &[Key],
        by: i64,
        reason: &str,
    ) -> Result<(), CommitError>;

    /// The sessions that the store knows only since an operation, and that no home has any more.
    fn brought(&self, operation: i64) -> Result<Vec<SessionId>, ReadError>;
}

/// Keeps other operations from running as long as it is held.
#[derive(Debug)]
pub struct OperationLock {
    _held: Box<dyn Debug + Send + Sync>,
}

impl OperationLock {
    /// A lock that is held as long as a value lives.
    pub fn new(held: impl Debug + Send + Sync + 'static) -> OperationLock {
        OperationLock { _held: Box::new(held) }
    }
}

/// A commit of an operation to one home.
#[derive(Debug, Clone)]
pub struct Step {
    /// Its number within the operation.
    pub number: i64,
    /// The home.
    pub place: String,
}

/// What a commit of an operation changed in one place of a home.
#[derive(Debug, Clone)]
pub struct NotedPiece {
    /// A file or row.
    pub place: String,
    /// The session it belongs to.
    pub session: Option<SessionId>,
    /// The hash of what was there before.
    pub before_hash: Option<ContentHash>,
    /// The hash of what was there afterwards.
    pub after_hash: Option<ContentHash>,
    /// What was there before.
    pub before: Before,
}

/// What was in a place before an operation.
#[derive(Debug, Clone)]
pub enum Before {
    /// Nothing.
    Nothing,
    /// These bytes.
    Bytes(Vec<u8>),
    /// Something that was pruned since.
    NotKept,
}

/// What an operation did to a document in the store alone.
#[derive(Debug, Clone)]
pub struct NotedChange {
    /// Which document.
    pub key: Key,
    /// Whether what was there before is still in the store.
    pub is_kept: bool,
    /// Whether the document is still as the operation left it.
    pub is_current: bool,
}
