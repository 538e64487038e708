//! Forks among sessions, recognised by their content: nothing in a fork names its origin.
//!
//! A fork begins with messages that are older than the fork itself, each made in the same millisecond by the same side as in its origin, with
//! the same calls. Titles only decide between several sessions that have these messages.

use std::collections::HashMap;

use annals_core::id::{Millis, SessionId};
use rayon::prelude::*;

use crate::figures::{Call, Figures, Role};
use crate::fork::forked_title;
use crate::home::{MessageDetail, Read, ReadError, visit_figures};
use crate::parallel;
use crate::record::SessionRecord;

/// Which of some sessions are forks of which others.
#[derive(Debug, Default)]
pub struct Forks {
    origins: HashMap<SessionId, ForkOrigin>,
    forks: HashMap<SessionId, Vec<SessionId>>,
}

/// Where a fork comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForkOrigin {
    /// The session that was forked.
    pub session: SessionId,
    /// The number of messages that the two have in common.
    pub messages: usize,
}

/// A message as it is told apart from others without its text.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Trace {
    made: Millis,
    role: Role,
    calls: Vec<Call>,
}

impl Forks {
    /// Finds the forks among sessions of a home. Reads the first moment of every session, and no more than figures of those that have it in
    /// common with another one.
    pub fn among(home: &dyn Read, sessions: &[SessionRecord]) -> Result<Forks, ReadError> {
        let mut by_beginning: HashMap<Millis, Vec<&SessionRecord>> = HashMap::new();
        for (session, beginning) in sessions.iter().zip(beginnings(home, sessions)?) {
            if let Some(beginning) = beginning {
                by_beginning.entry(beginning).or_default().push(session);
            }
        }
        let mut forks = Forks::default();
        for (beginning, family) in by_beginning {
            // A session is made before its first message, unless that is a copy. A fork is nobody's subagent.
            let is_fork = |session: &&SessionRecord| {
                session.info.is_root() && session.info.created().is_some_and(|created| beginning < created)
            };
            if family.len() > 1 && family.iter().any(is_fork) {
                forks.find(home, &family)?;
            }
        }
        for ids in forks.forks.values_mut() {
            ids.sort_by(|a, b| a.as_str().cmp(b.as_str()));
        }
        Ok(forks)
    }

    /// The session that a session is a fork of.
    pub fn origin(&self, id: &SessionId) -> Option<&ForkOrigin> {
        self.origins.get(id)
    }

    /// The forks of a session.
    pub fn of(&self, id: &SessionId) -> &[SessionId] {
        self.forks.get(id).map(Vec::as_slice).unwrap_or_default()
    }

    /// Finds the forks among sessions that begin with a message of the same moment.
    fn find(&mut self, home: &dyn Read, family: &[&SessionRecord]) -> Result<(), ReadError> {
        let mut traces = Vec::new();
        for session in family {
            traces.push(Trace::of(home, session)?);
        }
        for (fork, copied) in family.iter().zip(&traces) {
            let Some(created) = fork.info.created().filter(|_| fork.info.is_root()) else { continue };
            let n_copied = copied.iter().take_while(|trace| trace.made < created).count();
            let candidates = family.iter().zip(&traces).filter(|(origin, _)| {
                origin.id != fork.id && origin.info.created().is_some_and(|earlier| earlier < created)
            });
            let best = candidates
                .map(|(origin, trace)| {
                    let both = copied[..n_copied].iter().zip(trace);
                    let n_shared = both.take_while(|(a, b)| a == b).count();
                    let is_named = forked_title(origin.info.title()) == fork.info.title();
                    // The earliest of several is the one that the others are forks of.
                    ((n_shared, is_named, std::cmp::Reverse(origin.info.created())), origin)
                })
                .max_by(|(a, _), (b, _)| a.cmp(b));
            if let Some(((messages, ..), origin)) = best
                && messages > 0
            {
                let session = origin.id.clone();
                self.forks.entry(session.clone()).or_default().push(fork.id.clone());
                self.origins.insert(fork.id.clone(), ForkOrigin { session, messages });
            }
        }
        Ok(())
    }
}

impl Trace {
    /// The messages of a session, in the order in which they were made.
    fn of(home: &dyn Read, session: &SessionRecord) -> Result<Vec<Trace>, ReadError> {
        let mut traces = Vec::new();
        visit_figures(home, session, MessageDetail::ToolCalls, &mut |figures: Figures| {
            traces.push(Trace { made: figures.made, role: figures.role, calls: figures.calls });
        })?;
        traces.sort_by_key(|trace| (trace.made, trace.role.number()));
        Ok(traces)
    }
}

/// When the first message of each session was made.
fn beginnings(home: &dyn Read, sessions: &[SessionRecord]) -> Result<Vec<Option<Millis>>, ReadError> {
    let known = home.summaries().map(|summaries| summaries.beginnings()).transpose()?.unwrap_or_default();
    let beginning = |session: &SessionRecord| {
        if let Some(beginning) = known.get(&session.id) {
            return Ok(Some(*beginning));
        }
        if home.summaries().is_some() && !known.is_empty() {
            return Ok(None);
        }
        let mut first: Option<Millis> = None;
        visit_figures(home, session, MessageDetail::PartCounts, &mut |figures: Figures| {
            first = Some(first.map_or(figures.made, |first| first.min(figures.made)));
        })?;
        Ok(first)
    };
    parallel::run(|| sessions.par_iter().map(beginning).collect())
}
