//! Committing looks: the findings of each session, together with how far its look went.

use annals_core::id::SessionId;
use rusqlite::Connection;

use super::SqliteStore;
use super::file::Writing;
use super::finding::{AppliedLook, Finding, ToIndex, apply};
use super::held::{self, Standing};
use super::numbers::SessionRow;
use super::origin;
use super::revise::Revising;
use crate::follow::{
    Applied, AppliedPiece, CommitReason, CommittedLooks, HomeNumber, Indexable, LookEnd, LookPiece, Numbers,
};
use crate::home::CommitError;
use crate::sync::compare::{self, Leaders, is_overtaken};

/// Sessions in which another home leads now, and whose messages have to be counted there.
pub(super) type Uncounted = Vec<(HomeNumber, SessionId)>;

/// The looks of one transaction.
struct LookBatch<'b> {
    store: &'b SqliteStore,
    home: HomeNumber,
    reason: &'b CommitReason,
    /// Documents for the text index. None as soon as the index has to find the changes by itself.
    to_index: Option<Vec<ToIndex>>,
    numbers: Vec<(SessionRow, Numbers)>,
    /// The number of the looks that are committed here.
    turn: Option<i64>,
}

impl SqliteStore {
    pub(super) fn commit_all_looks(
        &self,
        home: HomeNumber,
        reason: &CommitReason,
        looks: &mut dyn Iterator<Item = LookPiece<'_>>,
    ) -> Result<CommittedLooks, CommitError> {
        let failed = |error: rusqlite::Error| self.commit_error(&error);
        let writing = self.write()?;
        let mut revising = self.revising(&writing, Some(home), reason)?;
        let mut batch = LookBatch {
            store: self,
            home,
            reason,
            to_index: Some(Vec::new()),
            numbers: Vec::new(),
            turn: None,
        };
        let mut applied = Vec::new();
        for piece in looks {
            let Some(findings) = piece.findings.content::<Vec<Finding>>() else {
                return Err(CommitError::Unsupported(
                    "these findings are of another kind of store".to_owned(),
                ));
            };
            let piece = FoundPiece {
                session: piece.session,
                known: piece.known.map(|known| (known.turn, known.cursor.updated)),
                look: piece.look,
                findings,
                end: piece.end,
            };
            applied.push(batch.apply(&writing, &mut revising, piece).map_err(failed)?);
        }
        let revision = revising.finish().map_err(failed)?;
        for (session, numbers) in batch.numbers {
            origin::note_numbers(&writing, session, &numbers).map_err(failed)?;
        }
        self.finish_looks(writing)?;
        let to_index = revision.zip(batch.to_index).map(Indexable::new);
        Ok(CommittedLooks { applied, to_index })
    }

    /// Commits the transaction, with the numbers of the sessions it changed.
    pub(super) fn finish_looks(&self, writing: Writing<'_>) -> Result<(), CommitError> {
        origin::refresh(&writing).map_err(|error| self.commit_error(&error))?;
        self.finish(writing)
    }

    pub(super) fn revising<'w>(
        &self,
        writing: &'w Writing<'_>,
        home: Option<HomeNumber>,
        reason: &CommitReason,
    ) -> Result<Revising<'w>, CommitError> {
        let revising = Revising::new(writing, self.now(), &reason.words, home);
        let revising = revising.map_err(|error| self.commit_error(&error))?;
        Ok(revising.of_operation(reason.operation))
    }
}

/// A piece of a look, in this store's form.
struct FoundPiece<'p> {
    session: &'p SessionId,
    /// The turn of the last look in this home when this one began, and when the session had last been used by then.
    known: Option<(i64, i64)>,
    look: crate::follow::Look,
    findings: Vec<Finding>,
    end: Option<LookEnd>,
}

impl LookBatch<'_> {
    /// Applies the findings of a piece.
    fn apply(
        &mut self,
        writing: &Writing<'_>,
        revising: &mut Revising<'_>,
        piece: FoundPiece<'_>,
    ) -> rusqlite::Result<Applied> {
        let session = revising.session(piece.session)?;
        let before = match revising.is_new_session(piece.session) {
            true => None,
            false => Some(Standing::of(writing, session)?),
        };
        let turn = before.as_ref().and_then(|before| before.turn(self.home));
        if is_overtaken(piece.known.map(|(turn, _)| turn), turn) {
            return Ok(Applied::Overtaken);
        }
        let used_before = piece.known.map_or(piece.look.updated, |(_, updated)| updated);
        let standing = match &before {
            Some(before) => before.after(writing, session, &piece.look)?,
            None => Standing::alone(piece.look),
        };
        let look = AppliedLook { home: self.home, used_before, standing };
        let mut done = AppliedPiece::default();
        for finding in piece.findings {
            let (is_import, is_removal) = (finding.is_import(), matches!(finding, Finding::Lacks(_)));
            let is_done = apply(revising, &look, finding, &mut self.to_index)?;
            done.deleted += usize::from(is_done && is_removal);
            if is_import {
                done.taken.count(is_done);
            }
        }
        if let Some(end) = piece.end {
            self.end(writing, (session, piece.session), before.as_ref(), end, &mut done)?;
        }
        Ok(Applied::Done(done))
    }

    /// Moves the cursor of a session. `before` is its standing before the look, if it was known.
    fn end(
        &mut self,
        writing: &Writing<'_>,
        (session, id): (SessionRow, &SessionId),
        before: Option<&Standing>,
        end: LookEnd,
        done: &mut AppliedPiece,
    ) -> rusqlite::Result<()> {
        origin::note_look(writing, session, id, self.home, &end, self.turn(writing)?)?;
        done.leads = true;
        if let Some(before) = before {
            let after = Standing::of(writing, session)?;
            if is_unsettled(writing, before, &after)? {
                self.to_index = None;
                self.store.settle(writing, self.reason, (session, id), &mut done.uncounted)?;
            }
            done.leads = compare::leader(after.looks()).is_some_and(|leader| leader.home == self.home);
        }
        // The numbers of a session are those of the home that leads in it.
        if done.leads {
            self.numbers.push((session, end.numbers));
        }
        done.quarantined = end.quarantined;
        Ok(())
    }

    fn turn(&mut self, connection: &Connection) -> rusqlite::Result<i64> {
        let turn = match self.turn {
            Some(turn) => turn,
            None => origin::next_turn(connection)?,
        };
        self.turn = Some(turn);
        Ok(turn)
    }
}

impl SqliteStore {
    /// Shows the states of a session that are due now. Another home may lead, or the session may have come back.
    pub(super) fn settle(
        &self,
        writing: &Writing<'_>,
        reason: &CommitReason,
        (session, id): (SessionRow, &SessionId),
        uncounted: &mut Uncounted,
    ) -> rusqlite::Result<()> {
        held::settle(writing, self.now(), session, reason.operation)?;
        let looks = origin::looks(writing, session)?;
        match compare::leader(&looks) {
            Some(leader) if leader.is_deep => origin::note_numbers(writing, session, &Numbers::Stored),
            // The leader's messages were only counted, and the numbers are not kept while another home leads.
            Some(leader) if leader.is_there => {
                uncounted.push((leader.home, id.clone()));
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

/// Whether other states of a session's documents may have to be shown, because something about the session as a whole has changed.
pub(super) fn is_unsettled(
    connection: &Connection,
    before: &Standing,
    after: &Standing,
) -> rusqlite::Result<bool> {
    let (leaders, now) = (Leaders::of(before.looks()), Leaders::of(after.looks()));
    if before.is_deleted() != after.is_deleted() {
        return Ok(true);
    }
    if !before.is_alone() || !after.is_alone() {
        return Ok(leaders != now);
    }
    // With one home, only documents that were changed here can be affected when the session has gone or come back.
    Ok(!before.looks().is_empty() && leaders.is_there != now.is_there && held::has_any(connection)?)
}
