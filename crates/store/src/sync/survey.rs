//! Plans the sync of a home: compares cheap evidence of what may have changed with what the store knows of the home.

use std::collections::{HashMap, HashSet};

use annals_core::ContentHash;
use annals_core::id::{Millis, SessionId};

use super::evidence::{Asked, Reading, SLACK, reading, takes_orphans};
use super::source::{Sighting, Source};
use super::{SyncError, SyncOptions, SyncOutcome};
use crate::follow::{Depth, Follow, ForgottenSessions, KnownHome, Origin};
use crate::home::{Quarantined, UnreadableReason};

/// A session to be looked at.
pub(super) struct Job {
    pub(super) sighting: Sighting,
    pub(super) known: Option<Origin>,
    pub(super) reading: Reading,
}

/// Work that a sync has to do in a home.
pub(super) struct HomePlan {
    pub(super) known: Option<KnownHome>,
    pub(super) asked: Asked,
    pub(super) jobs: Vec<Job>,
    /// Sessions that the home had at the last look and does not have now.
    pub(super) gone: Vec<(SessionId, Origin)>,
    /// Places that could not be listed.
    pub(super) unreadable: Vec<Quarantined>,
    /// Whether any project record may have changed.
    pub(super) has_new_projects: bool,
    /// Whether the home was never imported completely.
    pub(super) is_first: bool,
    /// Evidence of the state of the whole home.
    pub(super) stamp: Vec<u8>,
    pub(super) forgotten: ForgottenSessions,
}

/// Which sessions a sync is about.
#[derive(Debug, Clone, Copy)]
pub(super) enum Scope<'s> {
    All,
    /// These, all of them whole, even if the evidence shows no change.
    Only(&'s HashSet<SessionId>),
}

/// Plans the sync of a home. `None` if there is nothing to do.
pub(super) fn plan(
    store: &dyn Follow,
    source: &dyn Source,
    options: SyncOptions,
    scope: Scope<'_>,
    outcome: &mut SyncOutcome,
) -> Result<Option<HomePlan>, SyncError> {
    let began = store.now();
    let asked = Asked { depth: options.stage.depth(), full: options.full, began };
    let known = store.known_home(&source.url())?;
    let origins = match &known {
        Some(home) => store.origins(home.number)?,
        None => HashMap::new(),
    };
    let evidence = home_evidence(source, began);
    if let (Some(evidence), Some(home), Scope::All) = (&evidence, &known, scope)
        && is_untouched(evidence, home, &origins, options, asked)
    {
        outcome.sessions += origins.values().filter(|origin| !origin.is_gone).count();
        return Ok(None);
    }
    let survey = source.survey()?;
    outcome.sessions += survey.sessions.len();
    let forgotten = store.forgotten()?;
    // A session that is missing may be in a place that could not be listed.
    let is_listed =
        survey.quarantined.iter().all(|problem| matches!(problem.reason, UnreadableReason::BadName(_)));
    let present: HashSet<SessionId> =
        survey.sessions.iter().map(|sighting| sighting.session.clone()).collect();
    let is_gone = |id: &SessionId, origin: &Origin| !origin.is_gone && is_listed && !present.contains(id);
    let gone: Vec<(SessionId, Origin)> = origins
        .iter()
        .filter(|(id, origin)| scope.contains(id) && is_gone(id, origin))
        .map(|(id, origin)| (id.clone(), origin.clone()))
        .collect();
    let jobs = jobs(survey.sessions, &origins, asked, scope, &forgotten, outcome);
    let projects = ContentHash::of(&survey.projects);
    let stamp = [&projects.as_bytes()[..16], evidence.as_deref().unwrap_or_default()].concat();
    let plan = HomePlan {
        is_first: known.as_ref().is_none_or(|home| !home.is_complete),
        has_new_projects: known
            .as_ref()
            .is_none_or(|home| !home.stamp.starts_with(&projects.as_bytes()[..16])),
        known,
        asked,
        jobs,
        gone,
        unreadable: survey.quarantined,
        stamp,
        forgotten,
    };
    Ok((!plan.is_empty(options)).then_some(plan))
}

impl HomePlan {
    fn is_empty(&self, options: SyncOptions) -> bool {
        let is_same_home = self.known.as_ref().is_some_and(|home| home.stamp == self.stamp);
        let lacks_orphans = takes_orphans(self.asked, self.is_first);
        self.jobs.is_empty()
            && self.gone.is_empty()
            && is_same_home
            && !lacks_orphans
            && !options.events
            && self.unreadable.is_empty()
    }
}

impl Scope<'_> {
    fn contains(self, session: &SessionId) -> bool {
        match self {
            Scope::All => true,
            Scope::Only(sessions) => sessions.contains(session),
        }
    }
}

/// Sessions to be looked at.
fn jobs(
    sightings: Vec<Sighting>,
    origins: &HashMap<SessionId, Origin>,
    asked: Asked,
    scope: Scope<'_>,
    forgotten: &ForgottenSessions,
    outcome: &mut SyncOutcome,
) -> Vec<Job> {
    let mut jobs = Vec::new();
    for sighting in sightings {
        if !scope.contains(&sighting.session) {
            continue;
        }
        if forgotten.contains(&sighting.session) {
            outcome.forgotten += 1;
            continue;
        }
        let known = origins.get(&sighting.session).cloned();
        let reading = match scope {
            Scope::All => reading(known.as_ref(), &sighting, asked),
            Scope::Only(_) => Reading::Whole,
        };
        if reading != Reading::Nothing {
            jobs.push(Job { sighting, known, reading });
        }
    }
    jobs
}

/// Evidence of the state of the whole home. Empty if the home was written to just now: the next write could leave the same evidence.
fn home_evidence(source: &dyn Source, began: Millis) -> Option<Vec<u8>> {
    let stamp = source.stamp()?;
    Some(if stamp.written < began - SLACK { stamp.bytes } else { Vec::new() })
}

fn is_untouched(
    evidence: &[u8],
    home: &KnownHome,
    origins: &HashMap<SessionId, Origin>,
    options: SyncOptions,
    asked: Asked,
) -> bool {
    !options.full
        && !options.events
        && !evidence.is_empty()
        && home.stamp.get(16..) == Some(evidence)
        && (home.is_complete || options.stage.depth() < Depth::Parts)
        && origins.values().all(|origin| origin.is_done(asked))
}
