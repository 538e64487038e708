//! Which sessions are wanted, in which order, and how many at a time.
//!
//! [`find::sessions`](crate::find::sessions) answers a query. [`Read::sessions`](crate::home::Read::sessions) of a home does what
//! session documents alone decide: it leaves [`SessionQuery::agent`], [`SessionQuery::model`], [`SessionQuery::state`] and everything
//! about paging to its caller.

use std::cmp::Reverse;
use std::fmt;
use std::str::FromStr;

use annals_core::ContentHash;
use annals_core::id::{Millis, ProjectId, SessionId};

use crate::record::{ReadError, SessionRecord};
use crate::summary::{SessionState, SessionSummary};

/// A filter over sessions, an order and a page; the default is all sessions, the last used first.
#[derive(Debug, Clone, Default)]
pub struct SessionQuery {
    /// Owned by one of these projects; empty admits all.
    pub projects: Vec<ProjectId>,
    /// Opened in this directory or below it.
    pub directory: Option<String>,
    /// With this piece of text in the title, in upper or lower case.
    pub title: Option<String>,
    /// Updated at this time or later.
    pub since: Option<Millis>,
    /// Updated before this time.
    pub until: Option<Millis>,
    /// Not started by another session.
    pub roots: bool,
    /// Whether archived sessions are wanted.
    pub archived: Archived,
    /// Found to be in none of its homes any more.
    pub gone: bool,
    /// With a last answer in this state.
    pub state: Option<SessionState>,
    /// Answered by the agent of this name.
    pub agent: Option<String>,
    /// Answered by a model with this piece of text in its name, `provider/model`.
    pub model: Option<String>,
    /// In which order.
    pub order: SessionOrder,
    /// How many at most.
    pub limit: Option<usize>,
    /// Where the page before ended; none for the first page.
    pub cursor: Option<SessionCursor>,
}

/// Whether archived sessions are wanted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Archived {
    /// With the others.
    #[default]
    Included,
    /// No others.
    Only,
    /// Not at all.
    Excluded,
}

/// An order of sessions. Sessions of the same time are ordered by their ids, so no two are equal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SessionOrder {
    /// The last used first.
    #[default]
    LastUsed,
    /// The last made first; at the end those that do not say when.
    Created,
}

impl SessionOrder {
    /// Sorts sessions.
    pub fn sort(self, sessions: &mut [SessionRecord]) {
        sessions.sort_by_cached_key(|record| SortKey::new(self.time(record), &record.id));
    }

    /// The time that a session is ordered by.
    fn time(self, record: &SessionRecord) -> Option<Millis> {
        match self {
            SessionOrder::LastUsed => Some(record.info.last_used()),
            SessionOrder::Created => record.info.created(),
        }
    }
}

/// What sessions are ordered by: the latest time first, no time last, ids within a time.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct SortKey(Reverse<Option<Millis>>, String);

impl SortKey {
    fn new(time: Option<Millis>, id: &SessionId) -> SortKey {
        SortKey(Reverse(time), id.as_str().to_owned())
    }
}

/// A place in the answer to a query: after one session. Its text may be kept and given back later; what stands in it is of no use
/// to anybody else.
///
/// A session that is used between two pages moves to the front of the order [`SessionOrder::LastUsed`]. It is not seen again, and
/// nothing else is missed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionCursor {
    fingerprint: Fingerprint,
    time: Option<Millis>,
    id: SessionId,
}

/// A hash of what a query asks for, by which a cursor knows the query it came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fingerprint(u64);

/// A query cannot be answered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QueryError {
    /// The cursor comes from a query with other filters or another order.
    #[error(
        "the cursor belongs to another query; repeat that query, or leave the cursor out to start from the first page"
    )]
    ForeignCursor,
    /// The home could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// A text is not a cursor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a cursor; leave it out to start from the first page")]
pub struct CursorError {
    /// The beginning of the text.
    pub text: String,
}

impl SessionQuery {
    /// Whether the filters on session documents admit every session.
    pub fn admits_all(&self) -> bool {
        let SessionQuery { projects, directory, title, since, until, roots, archived, gone, .. } = self;
        projects.is_empty()
            && !gone
            && directory.is_none()
            && title.is_none()
            && since.is_none()
            && until.is_none()
            && !roots
            && *archived == Archived::Included
    }

    /// Whether a session is wanted, as far as its document tells.
    pub fn admits(&self, record: &SessionRecord) -> bool {
        if self.admits_all() {
            return true;
        }
        let info = &record.info;
        let updated = info.last_used();
        (self.projects.is_empty() || self.projects.contains(&record.project))
            && self.since.is_none_or(|since| updated >= since)
            && self.until.is_none_or(|until| updated < until)
            && (!self.roots || info.is_root())
            && (!self.gone || record.gone.is_some())
            && match self.archived {
                Archived::Included => true,
                Archived::Only => info.archived().is_some(),
                Archived::Excluded => info.archived().is_none(),
            }
            && self
                .directory
                .as_deref()
                .is_none_or(|wanted| info.directory().is_some_and(|directory| is_within(directory, wanted)))
            && self
                .title
                .as_deref()
                .is_none_or(|piece| info.title().to_lowercase().contains(&piece.to_lowercase()))
    }

    /// Whether only the messages of a session tell if it is wanted.
    pub fn asks_for_messages(&self) -> bool {
        self.agent.is_some() || self.model.is_some() || self.state.is_some()
    }

    /// Whether a session is wanted, as far as its messages tell.
    pub fn admits_summary(&self, session: &SessionSummary) -> bool {
        self.agent.as_ref().is_none_or(|agent| session.agents.contains(agent))
            && self.state.is_none_or(|state| session.state == state)
            && self
                .model
                .as_deref()
                .is_none_or(|model| session.models.iter().any(|name| name.contains(model)))
    }

    /// The cursor after a session.
    pub fn cursor_after(&self, record: &SessionRecord) -> SessionCursor {
        SessionCursor {
            fingerprint: self.fingerprint(),
            time: self.order.time(record),
            id: record.id.clone(),
        }
    }

    /// How many of these sessions, which are in the query's order, the pages before have shown.
    pub(crate) fn n_before(&self, sessions: &[SessionRecord]) -> Result<usize, QueryError> {
        let Some(cursor) = &self.cursor else { return Ok(0) };
        if cursor.fingerprint != self.fingerprint() {
            return Err(QueryError::ForeignCursor);
        }
        let last = SortKey::new(cursor.time, &cursor.id);
        let is_before = |record: &SessionRecord| SortKey::new(self.order.time(record), &record.id) <= last;
        Ok(sessions.partition_point(is_before))
    }

    /// The limit and the cursor are left out: pages may differ in size.
    fn fingerprint(&self) -> Fingerprint {
        let SessionQuery {
            projects,
            directory,
            title,
            since,
            until,
            roots,
            archived,
            gone,
            state,
            agent,
            model,
            order,
            limit: _,
            cursor: _,
        } = self;
        let mut projects: Vec<&str> = projects.iter().map(ProjectId::as_str).collect();
        projects.sort_unstable();
        projects.dedup();
        // The text is part of cursors that somebody has kept: a change of it makes them all foreign.
        let mut asked = format!(
            "{projects:?} {directory:?} {title:?} {since:?} {until:?} {roots} {archived:?} {agent:?} {model:?} {order:?}"
        );
        if *gone || state.is_some() {
            asked.push_str(&format!(" {gone} {state:?}"));
        }
        let mut first = [0; 8];
        first.copy_from_slice(&ContentHash::of(asked.as_bytes()).as_bytes()[..8]);
        Fingerprint(u64::from_be_bytes(first))
    }
}

/// The beginning of a cursor's text: the form of the rest.
const FORM: &str = "1";
/// Stands for no time.
const NO_TIME: &str = "x";
/// Characters that an error shows of a text that is not a cursor.
const SHOWN: usize = 80;

impl fmt::Display for SessionCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = self.time.map_or(NO_TIME.to_owned(), |time| time.to_string());
        // No id has a dot in it.
        write!(f, "{FORM}.{:016x}.{time}.{}", self.fingerprint.0, self.id)
    }
}

impl FromStr for SessionCursor {
    type Err = CursorError;

    fn from_str(text: &str) -> Result<SessionCursor, CursorError> {
        let parse = || {
            let mut pieces = text.splitn(4, '.');
            let (form, fingerprint, time, id) =
                (pieces.next()?, pieces.next()?, pieces.next()?, pieces.next()?);
            let cursor = SessionCursor {
                fingerprint: Fingerprint(u64::from_str_radix(fingerprint, 16).ok()?),
                time: if time == NO_TIME { None } else { Some(time.parse().ok()?) },
                id: SessionId::parse(id).ok()?,
            };
            (form == FORM).then_some(cursor)
        };
        parse().ok_or_else(|| CursorError { text: text.chars().take(SHOWN).collect() })
    }
}

/// Whether `path` is `directory` or lies below it.
fn is_within(path: &str, directory: &str) -> bool {
    let directory = directory.trim_end_matches('/');
    path.strip_prefix(directory).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use annals_core::{Document, Key, Stored};

    use super::*;

    fn record(id: &str, document: &str) -> SessionRecord {
        let (project, id) = (ProjectId::global(), SessionId::parse(id).unwrap());
        let document = Document::parse(document.as_bytes().to_vec()).unwrap();
        let stored = Stored::new(Key::Session(project.clone(), id.clone()), document, "");
        SessionRecord::new(project, id, stored, Vec::new())
    }

    #[test]
    fn a_directory_holds_itself_and_what_is_below() {
        assert!(is_within("/home/dev/shop", "/home/dev/shop"));
        assert!(is_within("/home/dev/shop/web", "/home/dev/shop/"));
        assert!(!is_within("/home/dev/shop-copy", "/home/dev/shop"));
        assert!(is_within("/home", "/"));
    }

    #[test]
    fn a_title_is_found_by_a_piece_of_it() {
        let session = record("ses_1", r#"{"title":"Fix the ÜBERSICHT"}"#);
        let check = |title: &str, expected: bool| {
            let query = SessionQuery { title: Some(title.to_owned()), ..Default::default() };
            assert!(!query.admits_all());
            assert_eq!(query.admits(&session), expected, "{title}");
        };
        check("fix", true);
        check("THE über", true);
        check("", true);
        check("fixed", false);
    }

    #[test]
    fn agents_are_told_by_their_names_and_models_by_pieces_of_theirs() {
        let mut session = SessionSummary::of_document(&record("ses_1", "{}"));
        session.agents = vec!["build".to_owned(), "plan".to_owned()];
        session.models = vec!["anthropic/opus-5".to_owned()];
        let check = |agent: Option<&str>, model: Option<&str>, expected: bool| {
            let query = SessionQuery {
                agent: agent.map(ToOwned::to_owned),
                model: model.map(ToOwned::to_owned),
                ..Default::default()
            };
            assert_eq!(query.asks_for_messages(), agent.or(model).is_some());
            assert_eq!(query.admits_summary(&session), expected, "{agent:?} {model:?}");
        };
        check(None, None, true);
        check(Some("plan"), None, true);
        check(Some("pla"), None, false);
        check(None, Some("anthropic/"), true);
        check(Some("build"), Some("opus"), true);
        check(Some("build"), Some("sonnet"), false);
    }

    #[test]
    fn orders_are_total() {
        let mut sessions = [
            record("ses_c", r#"{"time":{"created":1,"updated":9}}"#),
            record("ses_e", "{}"),
            record("ses_b", r#"{"time":{"created":1,"updated":5}}"#),
            record("ses_d", "{}"),
            record("ses_a", r#"{"time":{"created":3,"updated":5}}"#),
        ];
        let mut ids = |order: SessionOrder| {
            order.sort(&mut sessions);
            sessions.iter().map(|record| record.id.to_string()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(ids(SessionOrder::LastUsed), "ses_c ses_a ses_b ses_d ses_e");
        assert_eq!(ids(SessionOrder::Created), "ses_a ses_b ses_c ses_d ses_e");
    }

    #[test]
    fn a_cursor_has_a_text() {
        let timed = record("ses_1", r#"{"time":{"created":1700000000000}}"#);
        for (order, record) in
            [(SessionOrder::LastUsed, &timed), (SessionOrder::Created, &record("4f-a_b", "{}"))]
        {
            let cursor = SessionQuery { order, ..Default::default() }.cursor_after(record);
            assert_eq!(cursor.to_string().parse(), Ok(cursor));
        }
        let all = SessionQuery::default();
        // Cursors are kept by others, so the text of one stays what it is.
        assert_eq!(all.cursor_after(&timed).to_string(), "1.024630008d57c6bc.1700000000000.ses_1");
        let nonsense = [
            "",
            "1",
            "ses_1",
            "2.00.1.ses_1",
            "1.zz.1.ses_1",
            "1.00.y.ses_1",
            "1.00.1.",
            "1.00.1.a.b",
            "....",
            "ü",
        ];
        for text in nonsense {
            assert_eq!(text.parse::<SessionCursor>(), Err(CursorError { text: text.to_owned() }));
        }
        let long = "x".repeat(1000).parse::<SessionCursor>().unwrap_err();
        assert_eq!(long.text.len(), SHOWN);
    }

    #[test]
    fn a_cursor_serves_the_query_it_came_from() {
        let session = record("ses_1", "{}");
        let projects = ["a", "b"].map(|id| ProjectId::parse(id).unwrap()).to_vec();
        let query = SessionQuery { projects, title: Some("x".to_owned()), ..Default::default() };
        let cursor = Some(query.cursor_after(&session));
        let serves = |query: SessionQuery| {
            let query = SessionQuery { cursor: cursor.clone(), ..query };
            match query.n_before(std::slice::from_ref(&session)) {
                Ok(n) => n == 1,
                Err(error) => !matches!(error, QueryError::ForeignCursor),
            }
        };
        let mut turned = query.clone();
        turned.projects.reverse();
        assert!(serves(query.clone()) && serves(turned));
        assert!(serves(SessionQuery { limit: Some(3), ..query.clone() }));
        for other in [
            SessionQuery { order: SessionOrder::Created, ..query.clone() },
            SessionQuery { title: None, ..query.clone() },
            SessionQuery { title: None, agent: Some("x".to_owned()), ..query.clone() },
            SessionQuery { title: None, model: Some("x".to_owned()), ..query.clone() },
            SessionQuery { projects: Vec::new(), ..query.clone() },
            SessionQuery { roots: true, ..query.clone() },
            SessionQuery { since: Some(1), ..query.clone() },
            SessionQuery { until: Some(1), ..query.clone() },
            SessionQuery { archived: Archived::Only, ..query.clone() },
            SessionQuery { gone: true, ..query.clone() },
            SessionQuery { state: Some(SessionState::Open), ..query.clone() },
            SessionQuery { directory: Some("/".to_owned()), ..query },
        ] {
            assert!(!serves(other.clone()), "{other:?}");
        }
    }
}
