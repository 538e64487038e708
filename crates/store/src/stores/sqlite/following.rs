//! The store as one that follows homes: the questions of sync, and the commits that sync makes.

use std::collections::HashMap;

use annals_core::Stored;
use annals_core::id::{Millis, SessionId};

use super::comparing::SessionComparison;
use super::facts::Prepared;
use super::finding::{AppliedLook, Finding, apply};
use super::held::Standing;
use super::looks::is_unsettled;
use super::numbers::SessionRow;
use super::revise::Put;
use super::rows::session_row;
use super::{SqliteStore, origin, quarantine};
use crate::follow::{
    CommitReason, CommittedGone, CommittedLooks, Compare, ComparedHome, Follow, FollowedHome,
    ForgottenSessions, GoneFrom, HomeNumber, HomeState, Indexing, KnownHome, LoggedUpTo, Look, LookPiece,
    Origin, PastState, SyncError, Taken,
};
use crate::home::{CommitError, Quarantined, ReadError, SessionRecord};
use crate::home_url::HomeUrl;
use crate::search::SearchError;
use crate::sync::compare::is_overtaken;
use crate::sync::source::Source;

impl Follow for SqliteStore {
    fn now(&self) -> Millis {
        SqliteStore::now(self)
    }

    fn recognise(&self, home: &dyn Source, is_own: bool) -> Result<(), SyncError> {
        self.recognise_home(home, is_own)
    }

    fn add_home(&self, home: &dyn Source, is_own: bool) -> Result<HomeNumber, SyncError> {
        self.add_followed(home, is_own)
    }

    fn known_home(&self, url: &HomeUrl) -> Result<Option<KnownHome>, ReadError> {
        self.home_at(&url.to_string())
    }

    fn followed_homes(&self) -> Result<Vec<FollowedHome>, ReadError> {
        self.followed()
    }

    fn holders(&self, session: &SessionId) -> Result<Vec<String>, ReadError> {
        self.holders_of(session)
    }

    fn origins(&self, home: HomeNumber) -> Result<HashMap<SessionId, Origin>, ReadError> {
        self.origins_in(home)
    }

    fn forgotten(&self) -> Result<ForgottenSessions, ReadError> {
        self.forgotten_sessions()
    }

    fn compare(&self, home: ComparedHome, with_text: bool) -> Result<Box<dyn Compare + '_>, ReadError> {
        Ok(Box::new(self.comparing(home, with_text)?))
    }

    fn commit_looks(
        &self,
        home: HomeNumber,
        reason: &CommitReason,
        looks: &mut dyn Iterator<Item = LookPiece<'_>>,
    ) -> Result<CommittedLooks, CommitError> {
        self.commit_all_looks(home, reason, looks)
    }

    fn commit_projects(
        &self,
        home: HomeNumber,
        reason: &CommitReason,
        projects: &[Stored],
    ) -> Result<Taken, CommitError> {
        let failed = |error: rusqlite::Error| self.commit_error(&error);
        let writing = self.write()?;
        let mut revising = self.revising(&writing, Some(home), reason)?;
        let mut taken = Taken::default();
        for stored in projects {
            let known = revising.state(&stored.key).map_err(failed)?;
            // Every home has its own record of a project, with its own times; the first one stays.
            let is_others = known.is_some_and(|known| known.is_present && known.home != Some(home));
            let prepared = Prepared::of(stored);
            let is_written = !is_others
                && revising.put(&stored.key, &prepared, Some(&stored.document)).map_err(failed)?
                    != Put::Unchanged;
            taken.count(is_written);
        }
        revising.finish().map_err(failed)?;
        self.finish(writing)?;
        Ok(taken)
    }

    fn commit_sessions(
        &self,
        home: HomeNumber,
        reason: &CommitReason,
        sessions: &[SessionRecord],
    ) -> Result<bool, SyncError> {
        let mut found = Vec::new();
        for record in sessions {
            let Some(number) = self.session_number(&record.id)? else { return Ok(false) };
            let looks = self.looks(number)?;
            let Some(look) = looks.iter().find(|look| look.home == home && look.is_there) else {
                return Ok(false);
            };
            if Some(look.updated) != record.info.updated() {
                return Ok(false);
            }
            let mut comparison = SessionComparison::new(self, record.id.clone(), Some(number), look.clone());
            comparison.is_shared = looks.len() > 1;
            found.push((number, &record.id, comparison.one(&record.stored)?));
        }
        let failed = |error: rusqlite::Error| self.commit_error(&error);
        let writing = self.write()?;
        let mut revising = self.revising(&writing, Some(home), reason)?;
        let mut unsettled = Vec::new();
        for (number, id, finding) in found {
            let standing = Standing::of(&writing, number).map_err(failed)?;
            let look = AppliedLook { home, used_before: 0, standing };
            if let Some(finding) = finding {
                apply(&mut revising, &look, finding, &mut None).map_err(failed)?;
            }
            origin::note_document(&writing, number, home).map_err(failed)?;
            let standing = Standing::of(&writing, number).map_err(failed)?;
            if is_unsettled(&writing, &look.standing, &standing).map_err(failed)? {
                unsettled.push((number, id));
            }
        }
        revising.finish().map_err(failed)?;
        let mut uncounted = Vec::new();
        for session in unsettled {
            self.settle(&writing, reason, session, &mut uncounted).map_err(failed)?;
        }
        self.finish_looks(writing)?;
        // Where another home leads now, its messages have to be counted.
        Ok(uncounted.is_empty())
    }

    fn commit_orphans(
        &self,
        home: HomeNumber,
        reason: &CommitReason,
        orphans: &[Stored],
    ) -> Result<Taken, SyncError> {
        let mut taken = Taken::default();
        let mut found = Vec::new();
        for stored in orphans {
            let Some(session) = stored.key.session().cloned() else { continue };
            let number = self.session_number(&session)?;
            let looks = number.map(|number| self.looks(number)).transpose()?.unwrap_or_default();
            let mut comparison = SessionComparison::new(self, session, number, orphaned(home));
            comparison.is_shared = looks.iter().any(|look| look.home != home);
            let finding = comparison.one(stored)?;
            if !finding.as_ref().is_some_and(Finding::is_import) {
                taken.count(false);
            }
            found.extend(finding.map(|finding| (looks, finding)));
        }
        if found.is_empty() {
            return Ok(taken);
        }
        let failed = |error: rusqlite::Error| self.commit_error(&error);
        let writing = self.write()?;
        let mut revising = self.revising(&writing, Some(home), reason)?;
        for (looks, finding) in found {
            let is_import = finding.is_import();
            let session = revising.session_of(finding.key()).map_err(failed)?;
            let standing = Standing::new(&writing, session, looks).map_err(failed)?;
            let look = AppliedLook { home, used_before: 0, standing };
            let is_done = apply(&mut revising, &look, finding, &mut None).map_err(failed)?;
            if is_import {
                taken.count(is_done);
            }
        }
        revising.finish().map_err(failed)?;
        self.finish_looks(writing)?;
        Ok(taken)
    }

    fn commit_gone(&self, reason: &CommitReason, gone: &[GoneFrom]) -> Result<CommittedGone, CommitError> {
        let failed = |error: rusqlite::Error| self.commit_error(&error);
        let writing = self.write()?;
        let words = match reason.operation {
            Some(_) => &reason.words,
            None => "gone from its home",
        };
        let reason = CommitReason { words: words.to_owned(), operation: reason.operation };
        let now = self.now();
        let mut committed = CommittedGone::default();
        let mut before: HashMap<SessionRow, (&SessionId, Standing)> = HashMap::new();
        for GoneFrom { home, sessions } in gone {
            let mut revising = self.revising(&writing, Some(*home), &reason)?;
            for (id, origin) in sessions {
                let Some(session) = session_row(&writing, id.as_str()).map_err(failed)? else {
                    continue;
                };
                let standing = Standing::of(&writing, session).map_err(failed)?;
                // Another process has looked since.
                if is_overtaken(Some(origin.turn), standing.turn(*home)) {
                    continue;
                }
                before.entry(session).or_insert((id, standing));
                origin::note_gone(&writing, &mut revising, session, *home, now).map_err(failed)?;
                committed.gone.push(id.clone());
            }
            revising.finish().map_err(failed)?;
        }
        for (session, (id, before)) in before {
            let standing = Standing::of(&writing, session).map_err(failed)?;
            if is_unsettled(&writing, &before, &standing).map_err(failed)? {
                self.settle(&writing, &reason, (session, id), &mut committed.uncounted).map_err(failed)?;
            }
        }
        self.finish_looks(writing)?;
        Ok(committed)
    }

    fn commit_past(
        &self,
        home: HomeNumber,
        words: &str,
        states: Vec<PastState>,
    ) -> Result<usize, CommitError> {
        self.commit_past_states(home, words, states)
    }

    fn commit_log_position(
        &self,
        home: HomeNumber,
        words: &str,
        session: &SessionId,
        read: LoggedUpTo,
    ) -> Result<(), CommitError> {
        self.commit_logged(home, words, session, read)
    }

    fn begin_indexing(&self) -> Result<Box<dyn Indexing + '_>, SearchError> {
        Ok(Box::new(self.begin_text_indexing()))
    }

    fn note_home(&self, home: HomeNumber, state: &HomeState<'_>) -> Result<(), SyncError> {
        if self.is_home_state(home, state)? && self.is_home_quarantine(home, state.unreadable)? {
            return Ok(());
        }
        let failed = |error: rusqlite::Error| self.commit_error(&error);
        let writing = self.write()?;
        quarantine::note_home_quarantine(&writing, home, state.unreadable, state.surveyed).map_err(failed)?;
        origin::note_home(&writing, home, state.stamp, state.is_complete, state.surveyed).map_err(failed)?;
        self.finish(writing)?;
        Ok(())
    }

    fn noted_damage(&self) -> Result<Vec<(String, Quarantined)>, ReadError> {
        self.damage_of_homes()
    }

    fn note_place(&self) -> Result<(), SyncError> {
        self.note_own_place()
    }
}

/// A stand-in for a look, for a document that comes by itself. Only its home counts.
fn orphaned(home: HomeNumber) -> Look {
    Look { home, updated: 0, rank: 0, is_own: false, turn: i64::MAX, is_there: true, is_deep: false }
}
