//! Finding sessions, messages, parts and projects: by a query, by an id, or by what a person calls them.

use annals_core::id::{MessageId, PartId, ProjectId, SessionId};
use annals_core::lens::Project;
use annals_core::{Key, Stored};

use crate::home::{Found, Quarantined, Read, ReadError, SessionRecord};
use crate::query::{QueryError, SessionCursor, SessionOrder, SessionQuery};
use crate::summarize::summarize;
use crate::summary::SessionSummary;

/// A session could not be found by what the user wrote.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FindError {
    /// None fits.
    #[error("no session matches {wanted:?}")]
    NoMatch {
        /// What the user wrote.
        wanted: String,
        /// How many sessions there are.
        n_sessions: usize,
    },
    /// Several fit.
    #[error("{wanted:?} matches {} sessions", candidates.len())]
    Ambiguous {
        /// What the user wrote.
        wanted: String,
        /// Those that fit, the one used last first.
        candidates: Vec<SessionRecord>,
    },
    /// The home could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// A page of the sessions that a query asks for.
#[derive(Debug, Default)]
pub struct SessionPage {
    /// The sessions of this page, in order.
    pub sessions: Vec<SessionRecord>,
    /// Their summaries, if the query asks for an agent, a model or a state: they had to be read for that. Else empty.
    pub summaries: Vec<SessionSummary>,
    /// Number of sessions on all pages.
    pub total: usize,
    /// Where the next page begins; none if this is the last one.
    pub next: Option<SessionCursor>,
    /// What could not be read.
    pub quarantined: Vec<Quarantined>,
}

/// The sessions of a home that a query asks for, a page of them if it has a limit.
///
/// ```
/// # use annals::{SqliteStore, find, query::SessionQuery};
/// # let directory = tempfile::tempdir()?;
/// # let store = SqliteStore::open_or_create(&directory.path().join("annals.db"))?;
/// let mut query = SessionQuery { limit: Some(50), ..SessionQuery::default() };
/// loop {
///     let page = find::sessions(&store, &query)?;
///     for session in &page.sessions {
///         println!("{} {}", session.id, session.info.title());
///     }
///     let Some(next) = page.next else { break };
///     query.cursor = Some(next);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn sessions(home: &dyn Read, query: &SessionQuery) -> Result<SessionPage, QueryError> {
    sessions_among(home, home.sessions(query)?, query, &|| {})
}

/// The sessions that a query asks for among those that were read before. `progress` is called with each session whose messages were
/// read.
pub fn sessions_among(
    home: &dyn Read,
    found: Found<Vec<SessionRecord>>,
    query: &SessionQuery,
    progress: &(dyn Fn() + Sync),
) -> Result<SessionPage, QueryError> {
    let Found { value: mut sessions, mut quarantined } = found;
    sessions.retain(|record| query.admits(record));
    query.order.sort(&mut sessions);
    let mut summaries = Vec::new();
    if query.asks_for_messages() {
        let mut read = summarize(home, &sessions, progress)?;
        quarantined.append(&mut read.quarantined);
        // There is a summary of every session.
        let both = sessions.into_iter().zip(read.value);
        (sessions, summaries) = both.filter(|(_, summary)| query.admits_summary(summary)).unzip();
    }
    let total = sessions.len();
    let first = query.n_before(&sessions)?;
    let end = query.limit.map_or(total, |limit| total.min(first.saturating_add(limit)));
    let next = (end < total && end > first).then(|| query.cursor_after(&sessions[end - 1]));
    let sessions = page_of(sessions, first, end);
    let summaries = page_of(summaries, first, end);
    Ok(SessionPage { sessions, summaries, total, next, quarantined })
}

/// The items from `first` up to `end`, as far as there are any.
fn page_of<T>(mut all: Vec<T>, first: usize, end: usize) -> Vec<T> {
    all.truncate(end);
    all.drain(..first.min(all.len()));
    all
}

/// A message by its id alone, with the session it belongs to. Every session is asked for it, the last used first.
pub fn message(home: &dyn Read, id: &MessageId) -> Result<Option<(SessionRecord, Stored)>, ReadError> {
    in_any_session(home, |session| home.document(&Key::Message(session.id.clone(), id.clone())))
}

/// A part by its id alone, with the session it belongs to. Reads the keys of every session, of the last used first, until one has it.
pub fn part(home: &dyn Read, id: &PartId) -> Result<Option<(SessionRecord, Stored)>, ReadError> {
    in_any_session(home, |session| {
        let keys = home.session_keys(&session.id)?;
        let key = keys.iter().find(|key| matches!(key, Key::Part(_, _, part) if part == id));
        key.map_or(Ok(None), |key| home.document(key))
    })
}

/// The first document that is found in any session. A session that cannot be read hides none in another.
fn in_any_session(
    home: &dyn Read,
    find: impl Fn(&SessionRecord) -> Result<Option<Stored>, ReadError>,
) -> Result<Option<(SessionRecord, Stored)>, ReadError> {
    let mut sessions = home.sessions(&SessionQuery::default())?.value;
    SessionOrder::LastUsed.sort(&mut sessions);
    let mut unreadable = None;
    for session in sessions {
        match find(&session) {
            Ok(Some(stored)) => return Ok(Some((session, stored))),
            Ok(None) => {}
            Err(error @ ReadError::Unreadable(_)) => unreadable = unreadable.or(Some(error)),
            Err(error) => return Err(error),
        }
    }
    unreadable.map_or(Ok(None), Err)
}

/// The session meant by a full id, a unique beginning of one (with or without `ses_`), a unique piece of a title, or `last`: the one used
/// last among those that are still in a home and that no other session started. `last~1` is the one used before it.
pub fn session(home: &dyn Read, wanted: &str) -> Result<SessionRecord, FindError> {
    if let Ok(id) = SessionId::parse(wanted)
        && let Some(record) = home.session(&id)?
    {
        return Ok(record);
    }
    let mut sessions = home.sessions(&SessionQuery::default())?.value;
    sessions.sort_by_cached_key(|record| std::cmp::Reverse(updated(record)));
    if let Some(n_before) = before_last(wanted) {
        let is_root = |record: &SessionRecord| record.info.is_root();
        // One that was deleted is not what anybody means, as long as there are others.
        let is_there = |record: &SessionRecord| record.gone.is_none() && is_root(record);
        let is_any = |_: &SessionRecord| true;
        let kinds: [&dyn Fn(&SessionRecord) -> bool; 3] = [&is_there, &is_root, &is_any];
        let fits = kinds.into_iter().find(|fits| sessions.iter().any(fits));
        let index = fits.and_then(|fits| {
            let mut fitting = sessions.iter().enumerate().filter(|(_, record)| fits(record));
            fitting.nth(n_before).map(|(index, _)| index)
        });
        if let Some(index) = index {
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

/// How many sessions before the last one `last` and `last~N` mean.
fn before_last(wanted: &str) -> Option<usize> {
    match wanted.strip_prefix("last")? {
        "" => Some(0),
        "~" => Some(1),
        rest => rest.strip_prefix('~')?.parse().ok(),
    }
}

/// A message of a session, or a part of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundEntry {
    /// The message.
    pub message: MessageId,
    /// The part, if one was meant.
    pub part: Option<PartId>,
}

/// A message or part could not be found by what the user wrote.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FindEntryError {
    /// None fits.
    #[error("session {session} has no message or part {wanted:?}")]
    NoMatch {
        /// What the user wrote.
        wanted: String,
        /// The session.
        session: SessionId,
    },
    /// Several fit.
    #[error("{wanted:?} matches {} messages and parts of session {session}", candidates.len())]
    Ambiguous {
        /// What the user wrote.
        wanted: String,
        /// The session.
        session: SessionId,
        /// The ids of those that fit.
        candidates: Vec<String>,
    },
    /// The home could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// The message or part of a session that is meant by a full id or a unique beginning of one. Reads keys only.
pub fn entry(home: &dyn Read, session: &SessionId, wanted: &str) -> Result<FoundEntry, FindEntryError> {
    let mut found: Vec<(String, FoundEntry)> = Vec::new();
    for key in home.session_keys(session)? {
        let (id, entry) = match key {
            Key::Message(_, message) => (message.to_string(), FoundEntry { message, part: None }),
            Key::Part(_, message, part) => (part.to_string(), FoundEntry { message, part: Some(part) }),
            _ => continue,
        };
        if id == wanted {
            return Ok(entry);
        }
        if !wanted.is_empty() && id.starts_with(wanted) {
            found.push((id, entry));
        }
    }
    let (wanted, session) = (wanted.to_owned(), session.clone());
    match found.len() {
        0 => Err(FindEntryError::NoMatch { wanted, session }),
        1 => Ok(found.remove(0).1),
        _ => {
            let candidates = found.into_iter().map(|(id, _)| id).collect();
            Err(FindEntryError::Ambiguous { wanted, session, candidates })
        }
    }
}

/// The projects meant by a full id, a working tree or sandbox path, a name, the last piece of a path, the beginning of an id, or a piece of a
/// name; the narrowest reading that fits anything decides.
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
    let by_id: Vec<ProjectId> =
        known.iter().filter(|id| wanted.len() >= 4 && id.as_str().starts_with(wanted)).cloned().collect();
    if !by_id.is_empty() || wanted.is_empty() {
        return by_id;
    }
    let piece = wanted.to_lowercase();
    matching(&|project| {
        let tree = project.worktree.as_ref().map(|tree| tree.to_str());
        let last = tree.as_deref().and_then(|tree| tree.rsplit('/').next()).unwrap_or_default();
        let name = project.name.as_ref().map(|name| name.to_str()).unwrap_or_default();
        [last, &name].iter().any(|name| name.to_lowercase().contains(&piece))
    })
}

/// When a session was last used, for sorting.
pub fn updated(record: &SessionRecord) -> annals_core::Millis {
    record.info.last_used()
}
