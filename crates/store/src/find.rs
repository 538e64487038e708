//! Finding what a person means: a session by a piece of its id or title, a project by its directory or name.

use annals_core::Stored;
use annals_core::id::{ProjectId, SessionId};
use annals_core::lens::Project;

use crate::home::{Read, ReadError, SessionRecord};
use crate::query::SessionQuery;

/// A session could not be told from what was said.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FindError {
    /// None fits.
    #[error("no session matches {wanted:?}")]
    NoMatch {
        /// What was said.
        wanted: String,
        /// How many sessions there are.
        n_sessions: usize,
    },
    /// Several fit.
    #[error("{wanted:?} matches {} sessions", candidates.len())]
    Ambiguous {
        /// What was said.
        wanted: String,
        /// Those that fit, the one used last first.
        candidates: Vec<SessionRecord>,
    },
    /// The home could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// The session meant by a full id, a unique beginning of one (with or without `ses_`), a unique piece of a title, or `last`: the one used
/// last among those that are still in a home.
pub fn session(home: &dyn Read, wanted: &str) -> Result<SessionRecord, FindError> {
    if let Ok(id) = SessionId::parse(wanted)
        && let Some(record) = home.session(&id)?
    {
        return Ok(record);
    }
    let mut sessions = home.sessions(&SessionQuery::default())?.value;
    sessions.sort_by_cached_key(|record| std::cmp::Reverse(updated(record)));
    if wanted == "last" {
        let is_root = |record: &SessionRecord| record.info.is_root();
        // One that was deleted is not what anybody means, as long as there are others.
        let is_there = |record: &SessionRecord| record.gone.is_none() && is_root(record);
        let position = sessions.iter().position(is_there).or_else(|| sessions.iter().position(is_root));
        let index = position.unwrap_or(0);
        if index < sessions.len() {
            return Ok(sessions.swap_remove(index));
        }
    }
    let n_sessions = sessions.len();
    let by_id = |record: &SessionRecord| {
        let id = record.id.as_str();
        id.starts_with(wanted) || id.split_once('_').is_some_and(|(_, rest)| rest.starts_with(wanted))
    };
    let piece = wanted.to_lowercase();
    let title = |record: &SessionRecord| record.info.title().to_lowercase();
    // The narrowest reading that fits anything decides: the whole title, then an id, then a piece of a title.
    let readings: [&dyn Fn(&SessionRecord) -> bool; 3] =
        [&|record| title(record) == piece, &by_id, &|record| title(record).contains(&piece)];
    for fits in readings {
        if wanted.is_empty() || !sessions.iter().any(fits) {
            continue;
        }
        sessions.retain(fits);
        return match sessions.len() {
            1 => Ok(sessions.remove(0)),
            _ => Err(FindError::Ambiguous { wanted: wanted.to_owned(), candidates: sessions }),
        };
    }
    Err(FindError::NoMatch { wanted: wanted.to_owned(), n_sessions })
}

/// The projects meant by a full id, a working tree or sandbox path, a name, the last piece of a path, or the beginning of
/// an id; the narrowest reading that fits anything decides.
pub fn projects(records: &[Stored], known: &[ProjectId], wanted: &str) -> Vec<ProjectId> {
    if let Some(exact) = known.iter().find(|id| id.as_str() == wanted) {
        return vec![exact.clone()];
    }
    let matching = |fits: &dyn Fn(&Project<'_>) -> bool| -> Vec<ProjectId> {
        let fitting = records.iter().filter(|record| fits(&record.document.lens()));
        fitting.filter_map(|record| record.key.project().cloned()).collect()
    };
    let path = wanted.trim_end_matches('/');
    let has_path = |project: &Project<'_>| {
        let sandboxes = project.sandboxes.iter().flatten();
        project.worktree.iter().chain(sandboxes).any(|tree| *tree == path)
    };
    let is_called = |project: &Project<'_>| {
        project.name.as_ref().is_some_and(|name| name == wanted)
            || project.worktree.as_ref().is_some_and(|tree| tree.to_str().rsplit('/').next() == Some(wanted))
    };
    let readings: [&dyn Fn(&Project<'_>) -> bool; 2] = [&has_path, &is_called];
    for fits in readings {
        let found = matching(fits);
        if !found.is_empty() {
            return found;
        }
    }
    known.iter().filter(|id| wanted.len() >= 4 && id.as_str().starts_with(wanted)).cloned().collect()
}

/// When a session was last used, for sorting.
pub fn updated(record: &SessionRecord) -> annals_core::Millis {
    record.info.last_used()
}
