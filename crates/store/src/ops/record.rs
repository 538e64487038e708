//! The record of operations that a store keeps: the request, and what each commit to a home changed. With it an operation is undone, and an interrupted
//! one is completed or taken back.

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

    /// Locks operations, after waiting until no other one runs on this store in any process.
    fn lock_operations(&self) -> io::Result<OperationLock>;

    /// Locks operations without waiting. `None` if another one runs.
    fn try_lock_operations(&self) -> io::Result<Option<OperationLock>>;

    /// Whether a process died while it held the lock, perhaps before it recorded anything, and nobody has put in order what it left. Also true
    /// while a process holds it.
    fn was_operation_killed(&self) -> bool;

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

    /// Ends an operation. `steps` are the steps that were made; the others are dropped.
    fn end_operation(
        &self,
        operation: i64,
        state: OperationState,
        steps: Option<&[i64]>,
        sessions: &[SessionId],
    ) -> Result<(), CommitError>;

    /// Records an operation that cannot be undone, after it was carried out. The words of the request are all that is kept of it: they must
    /// not name what was erased.
    fn note_final(&self, request: &OperationRequest) -> Result<i64, CommitError>;

    /// Commits a transaction to the store as part of an operation.
    fn commit_as(&self, transaction: Transaction, operation: i64) -> Result<Receipt, CommitError>;

    /// The store as a home whose commits are part of an operation.
    fn for_operation(&self, operation: i64) -> Box<dyn Write>;

    /// Operations that are under way, or were interrupted.
    fn unfinished_operations(&self) -> Result<Vec<i64>, ReadError>;

    /// The plan of an operation that was interrupted.
    fn plan(&self, operation: i64) -> Result<OperationPlan, ReadError>;

    /// The commits of an operation to homes, in the order in which they were made; with `all` also those that were only noted.
    fn steps(&self, operation: i64, all: bool) -> Result<Vec<Step>, ReadError>;

    /// The changes that one commit of an operation made.
    fn noted_pieces(&self, operation: i64, step: i64) -> Result<Vec<NotedPiece>, ReadError>;

    /// The changes that an operation made in the store alone, document by document, the last first.
    fn noted_changes(&self, operation: i64) -> Result<Vec<NotedChange>, ReadError>;

    /// Reverts documents that an operation changed in the store alone to their state before it, as part of another operation.
    fn change_back(
        &self,
        operation: i64,
        documents: &[Key],
        by: i64,
        reason: &str,
    ) -> Result<(), CommitError>;

    /// The sessions that an operation brought to the store, and that no home has any more.
    fn brought(&self, operation: i64) -> Result<Vec<SessionId>, ReadError>;
}

/// Lock that keeps other operations from running while it is held.
#[derive(Debug)]
pub struct OperationLock {
    _held: Box<dyn Debug + Send + Sync>,
}

impl OperationLock {
    /// A lock that is held while `held` lives.
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

/// Change that a commit of an operation made in one place of a home.
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
    /// The contents before.
    pub before: Before,
}

/// Contents of a place before an operation.
#[derive(Debug, Clone)]
pub enum Before {
    /// Nothing.
    Nothing,
    /// These bytes.
    Bytes(Vec<u8>),
    /// Contents that were pruned since.
    NotKept,
}

/// Change that an operation made to a document in the store alone.
#[derive(Debug, Clone)]
pub struct NotedChange {
    /// Which document.
    pub key: Key,
    /// Whether the state before is still in the store.
    pub is_kept: bool,
    /// Whether the document is still as the operation left it.
    pub is_current: bool,
}
