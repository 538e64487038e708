//! An operation that is being carried out.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use annals_core::Transaction;
use annals_core::id::SessionId;

use super::plan::OperationPlan;
use super::record::OperationLock;
use super::step_target::put_back;
use super::{OperationError, OperationRequest, OperationState, Report};
use crate::follow::CommitReason;
use crate::home::beside::FilesBeside;
use crate::home::pieces::{Exchange, Noter, Piece, Undo};
use crate::home::{CommitError, Receipt, Write};
use crate::home_url::HomeUrl;
use crate::open;
use crate::store::Store;
use crate::sync::source::Source;
use crate::sync::{self, Stage};
use crate::workspace::Workspace;

/// An operation that is being carried out. While it runs, no other one runs on the same store. If it is dropped without
/// [`Running::finish`], it counts as interrupted: the next command completes it or takes it back.
#[derive(Debug)]
pub struct Running<'w> {
    workspace: &'w Workspace<'w>,
    request: OperationRequest,
    noting: Arc<Noting>,
    report: Report,
    _lock: OperationLock,
}

/// Notes of commits to homes, shared by the threads that commit.
#[derive(Debug)]
struct Noting {
    store: Box<dyn Store>,
    request: OperationRequest,
    plan: OperationPlan,
    number: Mutex<Option<i64>>,
}

impl Noting {
    /// Notes what is about to change in a home. The first note begins the operation.
    fn note(&self, home: &str, pieces: &[Piece]) -> Result<(), CommitError> {
        let mut number = self.number.lock().unwrap_or_else(PoisonError::into_inner);
        let step = self.store.note_step(*number, &self.request, &self.plan, home, pieces);
        *number = Some(step?);
        Ok(())
    }

    /// Records the operation, if it is not recorded yet.
    fn begin(&self) -> Result<i64, CommitError> {
        let mut number = self.number.lock().unwrap_or_else(PoisonError::into_inner);
        let operation = match *number {
            Some(operation) => operation,
            None => self.store.begin_operation(&self.request, &self.plan)?,
        };
        *number = Some(operation);
        Ok(operation)
    }

    fn number(&self) -> Option<i64> {
        *self.number.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How much of a session an operation changed, and so how much the store has to look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChangedExtent {
    /// The session's own document.
    Document,
    /// Anything.
    Everything,
}

impl<'w> Running<'w> {
    /// Begins an operation, after waiting until no other one runs.
    pub(super) fn begin(
        workspace: &'w Workspace<'w>,
        request: OperationRequest,
        plan: OperationPlan,
    ) -> Result<Running<'w>, OperationError> {
        let store = workspace.store();
        let lock = store
            .lock_operations()
            .map_err(|source| OperationError::Lock { path: store.url().to_string(), source })?;
        // Homes keep the noter that they call, so the noter owns a handle of its own to the store.
        let noting =
            Noting { store: store.handle(), request: request.clone(), plan, number: Mutex::default() };
        Ok(Running { workspace, request, noting: Arc::new(noting), report: Report::default(), _lock: lock })
    }

    /// Makes a home note its commits as part of this operation.
    pub fn note_commits(&self, home: &mut dyn Undo, url: &str) {
        let (noting, url) = (self.noting.clone(), url.to_owned());
        home.note_commits(Noter::new(move |pieces| {
            if pieces.is_empty() {
                return Ok(());
            }
            noting.note(&url, pieces)
        }));
    }

    /// Changes homes. If that fails halfway, the changes made so far are taken back.
    pub(super) fn change_homes(
        &mut self,
        work: impl FnOnce(&mut Running<'w>) -> Result<(), OperationError>,
    ) -> Result<(), OperationError> {
        work(self).map_err(|error| self.give_up(error))
    }

    /// Commits to a home.
    pub(super) fn commit(
        &mut self,
        home: &dyn Write,
        url: &str,
        transaction: Transaction,
    ) -> Result<Receipt, OperationError> {
        let receipt = home.commit(transaction).map_err(|source| refused(url, source))?;
        self.reached(url);
        Ok(receipt)
    }

    /// Puts back what a home stored before.
    pub(super) fn exchange(
        &mut self,
        home: &dyn Undo,
        url: &str,
        pieces: &[Exchange],
    ) -> Result<(), OperationError> {
        home.exchange(pieces).map_err(|source| refused(url, source))?;
        self.reached(url);
        Ok(())
    }

    /// Changes files beside homes, or puts them back.
    pub(super) fn exchange_files(
        &mut self,
        kind: FilesBeside,
        pieces: &[Exchange],
    ) -> Result<(), OperationError> {
        let places: Vec<&str> = pieces.iter().map(|piece| piece.place.as_str()).collect();
        let noted: Vec<Piece> = pieces
            .iter()
            .zip(kind.stored(&places))
            .map(|(piece, before)| Piece {
                place: piece.place.clone(),
                session: piece.session.clone(),
                before,
                after: piece.bytes.clone(),
            })
            .collect();
        self.noting.note(kind.name(), &noted)?;
        kind.exchange(pieces).map_err(|source| refused(kind.name(), source))
    }

    /// Notes that a home was changed.
    pub(super) fn reached(&mut self, url: &str) {
        if !self.report.places.iter().any(|place| place == url) {
            self.report.places.push(url.to_owned());
        }
    }

    /// Takes back the changes made so far, because the operation cannot go on.
    fn give_up(&mut self, error: OperationError) -> OperationError {
        let Some(operation) = self.noting.number() else { return error };
        tracing::info!(operation, %error, "take back an operation that failed");
        // If a home cannot say whether a commit was made, the next command finds out.
        let is_clear = !matches!(
            &error,
            OperationError::Commit {
                source: CommitError::Unfinished { .. } | CommitError::Uncertain { .. },
                ..
            }
        );
        if is_clear && self.take_back(operation).is_ok() {
            let _ = self.noting.store.end_operation(operation, OperationState::Dropped, Some(&[]), &[]);
            return error;
        }
        OperationError::Half { error: Box::new(error), done: self.report.places.clone(), operation }
    }

    /// Puts back, in the homes that were reached, what was there before.
    fn take_back(&self, operation: i64) -> Result<(), OperationError> {
        let store = &self.noting.store;
        for step in store.steps(operation, true)?.into_iter().rev() {
            let pieces = store.noted_pieces(operation, step.number)?;
            put_back(&step, &pieces)?;
        }
        Ok(())
    }

    /// Notes files that were created beside homes, such as long tool output, so that an undo removes them again.
    pub fn note_files(&self, files: &[PathBuf]) -> Result<(), OperationError> {
        let made = |path: &PathBuf| {
            let after = Some(std::fs::read(path).ok()?);
            Some(Piece { place: path.to_str()?.to_owned(), session: None, before: None, after })
        };
        let pieces: Vec<Piece> = files.iter().filter_map(made).collect();
        if !pieces.is_empty() {
            self.noting.note(FilesBeside::Created.name(), &pieces)?;
        }
        Ok(())
    }

    /// Commits to the store alone.
    pub fn commit_to_store(&mut self, transaction: Transaction) -> Result<Receipt, OperationError> {
        let operation = self.begin_now()?;
        let receipt = self.workspace.store().commit_as(transaction, operation)?;
        self.report.store_only = self.report.places.is_empty();
        Ok(receipt)
    }

    /// Records the operation before it is known what it changes.
    pub(super) fn begin_now(&self) -> Result<i64, OperationError> {
        Ok(self.noting.begin()?)
    }

    /// The command as it was given.
    pub fn words(&self) -> &str {
        &self.request.words
    }

    /// The operation's number, once there is something to record.
    pub fn number(&self) -> Option<i64> {
        self.noting.number()
    }

    /// The report that is returned at the end.
    pub fn report(&mut self) -> &mut Report {
        &mut self.report
    }

    /// Has the store look at the result, so that every command shows it from now on, and ends the operation.
    pub(crate) fn done(
        mut self,
        sessions: &[SessionId],
        extent: ChangedExtent,
    ) -> Result<Report, OperationError> {
        self.look_at(sessions, extent);
        if self.report.not_followed.is_some() {
            // Homes are changed already, and the next command continues from there. Until then the store lacks what they have, so what is left
            // to do in it cannot be told.
            self.report.operation = self.noting.number();
            return Ok(self.report);
        }
        if let Some(intent) = &self.noting.plan.then {
            let mut begin = || Ok(self.noting.begin()?);
            match intent.carry_out(self.workspace.store(), &self.request.words, &mut begin) {
                Ok(is_changed) => self.report.store_only = is_changed && self.report.places.is_empty(),
                Err(error) if self.report.places.is_empty() => return Err(error),
                Err(error) => {
                    self.report.not_followed = Some(error.to_string());
                    self.report.operation = self.noting.number();
                    return Ok(self.report);
                }
            }
        }
        self.end(sessions)
    }

    /// Has the store look at the result.
    fn look_at(&mut self, sessions: &[SessionId], extent: ChangedExtent) {
        let Some(operation) = self.noting.number() else { return };
        let reason = CommitReason { words: self.request.words.clone(), operation: Some(operation) };
        if let Err(error) = self.follow(sessions, extent, &reason) {
            self.report.not_followed = Some(error.to_string());
        }
    }

    /// Ends the operation.
    fn end(mut self, sessions: &[SessionId]) -> Result<Report, OperationError> {
        let Some(operation) = self.noting.number() else { return Ok(self.report) };
        self.report.operation = Some(operation);
        let ended = self.noting.store.end_operation(operation, OperationState::Done, None, sessions);
        // The operation is done nevertheless, and the next command records that.
        if let Err(error) = ended {
            self.report.not_followed = Some(error.to_string());
        }
        Ok(self.report)
    }

    /// Ends an operation that may have changed anything in these sessions.
    pub fn finish(self, sessions: &[SessionId]) -> Result<Report, OperationError> {
        self.done(sessions, ChangedExtent::Everything)
    }

    fn follow(
        &self,
        sessions: &[SessionId],
        extent: ChangedExtent,
        reason: &CommitReason,
    ) -> Result<(), OperationError> {
        let store = self.workspace.store();
        let wanted: HashSet<SessionId> = sessions.iter().cloned().collect();
        let followed = store.followed_homes()?;
        let mut sources = Vec::new();
        for url in &self.report.places {
            if self.workspace.is_own(&HomeUrl::of_stored(url)) || followed.iter().any(|home| home.url == *url)
            {
                sources.push(open::open_source(url)?);
            }
        }
        let is_own = self.report.places.iter().all(|url| self.workspace.is_own(&HomeUrl::of_stored(url)));
        look(store, &sources, is_own, &wanted, extent, reason)?;
        Ok(())
    }
}

fn refused(url: &str, source: CommitError) -> OperationError {
    OperationError::Commit { place: url.to_owned(), source }
}

/// Has the store look at sessions of homes that an operation changed.
pub(crate) fn look(
    store: &dyn Store,
    sources: &[Box<dyn Source>],
    is_own: bool,
    sessions: &HashSet<SessionId>,
    extent: ChangedExtent,
    reason: &CommitReason,
) -> Result<(), OperationError> {
    let mut left: Vec<&dyn Source> = Vec::new();
    for source in sources {
        if extent != ChangedExtent::Document || !sync::take_sessions(store, &**source, sessions, reason)? {
            left.push(&**source);
        }
    }
    if !left.is_empty() {
        sync::look_again(store, &left, is_own, Stage::Parts, sessions, reason)?;
    }
    Ok(())
}
