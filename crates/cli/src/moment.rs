//! Moments on the command line, and the store as it was at one.

use std::collections::HashSet;

use annals::find::FindError;
use annals::history::{At, LogQuery};
use annals::home::{Read, ReadError, SessionRecord};
use annals::model::id::SessionId;
use annals::model::{Key, stream};
use annals::store::Store;

use crate::context::Context;
use crate::error::{CliError, not_found};
use crate::text::{Clock, count, one_line};
use crate::time_arg::parse_time;

/// Parses a moment: a number is a revision, anything else a time.
pub(crate) fn parse_moment(text: &str, clock: &Clock) -> Result<At, CliError> {
    match text.parse::<i64>() {
        Ok(number) => Ok(At::Revision(number)),
        Err(_) => parse_time(text, clock).map(At::Time).map_err(|error| {
            CliError::usage(format!("{text:?} is neither a revision nor a time"))
                .hint(format!("`annals log --revisions` lists revision numbers; {}", error.hints.concat()))
        }),
    }
}

/// A moment in words.
pub(crate) fn describe(store: &dyn Store, at: At, clock: &Clock) -> Result<String, CliError> {
    Ok(match at {
        At::Time(time) => clock.date_time(time),
        At::Revision(number) => match store.revision(number)? {
            Some(revision) => format!("revision {number}, {}", clock.date_time(revision.time)),
            None => return Err(no_revision(store, number)),
        },
    })
}

/// The store as it was at `at`.
pub(crate) fn open_at(store: &dyn Store, at: At) -> Result<Box<dyn Read + '_>, CliError> {
    match (store.at(at)?, at) {
        (Some(past), _) => Ok(past),
        (None, At::Revision(number)) => Err(no_revision(store, number)),
        (None, At::Time(_)) => Err(CliError::new("the store has no revisions")),
    }
}

pub(crate) fn no_revision(store: &dyn Store, number: i64) -> CliError {
    let error = CliError::new(format!("there is no revision {number}"));
    match store.head() {
        Ok(head) if head > 0 => {
            error.hint(format!("the last one is {head}; `annals log --revisions` lists them"))
        }
        _ => error.hint("there are none yet; the first sync creates them"),
    }
}

/// The session that `wanted` names, in its state at an earlier moment.
pub(crate) fn session_then(
    context: &Context,
    store: &dyn Store,
    past: &dyn Read,
    wanted: &str,
    at: At,
) -> Result<SessionRecord, CliError> {
    match annals::find::session(past, wanted) {
        Err(error @ FindError::NoMatch { .. }) => {
            // Only a session that is known at all gets this explanation.
            let Ok(known) = known_session(context, store, wanted) else {
                return Err(not_found(error, &context.clock, 80));
            };
            let when = describe(store, at, &context.clock)?;
            let error = CliError::new(format!("session {} is not in the store as of {when}", known.id));
            let log = store.log(&LogQuery { session: Some(known.id.clone()), ..LogQuery::default() })?;
            Err(match log.last() {
                Some(first) => error.hint(format!(
                    "its first revision is {}, {}; `annals log --revisions {}` lists them all",
                    first.number,
                    context.clock.date_time(first.time),
                    known.id
                )),
                None => error,
            })
        }
        // Whether its homes disappeared later does not matter at that moment.
        found => found
            .map(|record| SessionRecord { gone: None, ..record })
            .map_err(|error| not_found(error, &context.clock, 80)),
    }
}

/// The messages and parts of a session that were in progress at the moment that `home` shows.
pub(crate) fn unfinished_then(home: &dyn Read, session: &SessionId) -> Result<HashSet<Key>, ReadError> {
    let found = home.past().map(|past| past.in_progress(session)).transpose()?.unwrap_or_default();
    let found = found.into_iter().map(|found| found.became);
    let answers = found.filter(|stored| !stream::is_bookkeeping(&stored.key, &stored.document));
    Ok(answers.map(|stored| stored.key).collect())
}

/// Notes how many documents were in progress, if any.
pub(crate) fn note_unfinished(context: &Context, n: usize) {
    if n > 0 {
        let were = if n == 1 { "was" } else { "were" };
        context.note(&format!(
            "note: {} {were} in progress then; later content is left out, and the content at that time is not kept",
            count(n, "document")
        ));
    }
}

/// A session that is or was in a store.
#[derive(Debug, Clone)]
pub(crate) struct KnownSession {
    pub(crate) id: SessionId,
    /// The current record, or the last one of a deleted session.
    pub(crate) record: SessionRecord,
    /// The last revision that has the session, if it is deleted.
    pub(crate) deleted_after: Option<i64>,
}

impl KnownSession {
    pub(crate) fn title(&self) -> String {
        title(&self.record)
    }
}

/// The title of a session, in one line.
pub(crate) fn title(record: &SessionRecord) -> String {
    one_line(record.info.title())
}

/// The session that `wanted` names, even if it was deleted from the store.
pub(crate) fn known_session(
    context: &Context,
    store: &dyn Store,
    wanted: &str,
) -> Result<KnownSession, CliError> {
    let missing = match annals::find::session(store, wanted) {
        Ok(record) => return Ok(KnownSession { id: record.id.clone(), record, deleted_after: None }),
        Err(error @ FindError::NoMatch { .. }) => error,
        Err(error) => return Err(not_found(error, &context.clock, 80)),
    };
    let mut fitting = Vec::new();
    let mut seen = HashSet::new();
    for revision in store.log(&LogQuery::default())? {
        for touched in revision.touched.into_iter().filter(|touched| touched.deleted > 0) {
            let Some(id) = touched.session.filter(|id| seen.insert(id.clone())) else { continue };
            if store.session(&id)?.is_none()
                && let Some(known) = last_state(store, &id)?
                && is_meant(&known, wanted)
            {
                fitting.push(known);
            }
        }
    }
    match fitting.len() {
        0 => Err(not_found(missing, &context.clock, 80)),
        1 => Ok(fitting.remove(0)),
        n => {
            let mut error = CliError::new(format!("{wanted:?} matches {n} deleted sessions"));
            error.details = fitting.iter().map(|known| format!("{}  {}", known.id, known.title())).collect();
            Err(error.hint("give more of the id or title, or the whole id"))
        }
    }
}

/// The last state of a deleted session.
fn last_state(store: &dyn Store, id: &SessionId) -> Result<Option<KnownSession>, ReadError> {
    for revision in store.log(&LogQuery { session: Some(id.clone()), ..LogQuery::default() })? {
        let then = store.at(At::Revision(revision.number))?;
        if let Some(record) = then.map(|then| then.session(id)).transpose()?.flatten() {
            return Ok(Some(KnownSession { id: id.clone(), record, deleted_after: Some(revision.number) }));
        }
    }
    Ok(None)
}

fn is_meant(known: &KnownSession, wanted: &str) -> bool {
    let id = known.id.as_str();
    let digits = id.split_once('_').map_or(id, |(_, digits)| digits);
    id.starts_with(wanted)
        || digits.starts_with(wanted)
        || known.title().to_lowercase().contains(&wanted.to_lowercase())
}
