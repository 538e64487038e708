//! The read half: a home's different ways to read agree with each other.

use std::collections::HashSet;

use annals::home::{MessageDetail, MessageRange, MessageRecord, Read, ReadError, SessionRecord};
use annals::model::id::{MessageId, PartId, ProjectId, RecordId, SessionId};
use annals::model::lens::{Message, Part, Session};
use annals::model::{Key, Stored, Usage, position};
use annals::query::{Archived, SessionQuery};

use super::{Outcome, ensure};

/// What a home claims to hold.
#[derive(Debug, Clone, Copy, Default)]
pub struct Kept {
    /// Whether it keeps history.
    pub history: bool,
    /// Least number of sessions.
    pub n_sessions: usize,
}

pub(super) type Check = fn(&dyn Read, &Kept) -> Outcome;

pub(super) const CHECKS: [(&str, Check); 13] = [
    ("there is something to check", something),
    ("a session that is listed is found by its id", sessions_by_id),
    ("messages and parts are found by their keys", documents_by_key),
    ("everything that a session has is found by its key", session_keys),
    ("positions order messages and parts", positions),
    ("a range is a slice of the whole", ranges),
    ("less is wanted, and the same is told", wants),
    ("what does not exist is none", missing),
    ("queries admit what they say", queries),
    ("reading twice gives the same", twice),
    ("threads read the same at once", threads),
    ("summaries say what the documents say", summaries),
    ("only a home that keeps history has any", history),
];

fn all_sessions(home: &dyn Read) -> Result<Vec<SessionRecord>, ReadError> {
    let mut sessions = home.sessions(&SessionQuery::default())?.value;
    sessions.sort_by(|a, b| a.id.as_str().cmp(b.id.as_str()));
    Ok(sessions)
}

/// A few of the sessions, for checks that read a session again and again.
fn some(sessions: &[SessionRecord]) -> impl Iterator<Item = &SessionRecord> {
    sessions.iter().step_by(sessions.len().div_ceil(20).max(1))
}

fn read(
    home: &dyn Read,
    session: &SessionRecord,
    range: &MessageRange,
    detail: MessageDetail,
) -> Result<Vec<MessageRecord>, ReadError> {
    home.messages(session, range, detail).collect()
}

fn whole(home: &dyn Read, session: &SessionRecord) -> Result<Vec<MessageRecord>, ReadError> {
    read(home, session, &MessageRange::ALL, MessageDetail::Parts)
}

fn is_same(a: &Stored, b: &Stored) -> bool {
    a.key == b.key && a.document == b.document && a.provenance == b.provenance
}

fn something(home: &dyn Read, kept: &Kept) -> Outcome {
    let sessions = all_sessions(home)?;
    ensure!(
        sessions.len() >= kept.n_sessions.max(1),
        "there are {} sessions, not {}",
        sessions.len(),
        kept.n_sessions
    );
    let mut longest = 0;
    for session in &sessions {
        longest = longest.max(whole(home, session)?.len());
    }
    ensure!(longest >= 2, "no session has two messages");
    Ok(())
}

fn sessions_by_id(home: &dyn Read, _kept: &Kept) -> Outcome {
    let mut seen = HashSet::new();
    for listed in all_sessions(home)? {
        ensure!(seen.insert(listed.id.clone()), "{} is listed twice", listed.id);
        let Some(found) = home.session(&listed.id)? else {
            return Err(format!("{} is listed and not found", listed.id).into());
        };
        ensure!(
            is_same(&found.stored, &listed.stored) && found.project == listed.project,
            "{} is listed otherwise than it is found",
            listed.id
        );
        let key = Key::Session(listed.project.clone(), listed.id.clone());
        ensure!(listed.stored.key == key, "the document of {} has another key", listed.id);
    }
    for project in home.projects()?.value {
        let found = home.document(&project.key)?;
        ensure!(found.is_some_and(|found| is_same(&found, &project)), "{} is not found", project.key);
    }
    Ok(())
}

fn documents_by_key(home: &dyn Read, _kept: &Kept) -> Outcome {
    for session in all_sessions(home)? {
        let keys: HashSet<Key> = home.session_keys(&session.id)?.into_iter().collect();
        let messages = whole(home, &session)?;
        let documents =
            messages.iter().flat_map(|message| std::iter::once(&message.stored).chain(&message.parts));
        for stored in std::iter::once(&session.stored).chain(documents) {
            let Some(found) = home.document(&stored.key)? else {
                return Err(format!("{} of {} is not found", stored.key, session.id).into());
            };
            ensure!(is_same(&found, stored), "{} of {} is found otherwise", stored.key, session.id);
            ensure!(keys.contains(&stored.key), "{} is not among the keys of {}", stored.key, session.id);
            ensure!(stored.key.session() == Some(&session.id), "{} is not of {}", stored.key, session.id);
        }
        for message in &messages {
            let is_of = |part: &Stored| match (&part.key, &message.stored.key) {
                (Key::Part(_, of, _), Key::Message(_, id)) => of == id,
                _ => false,
            };
            ensure!(message.parts.iter().all(is_of), "{} has a part of another", message.stored.key);
        }
    }
    Ok(())
}

fn session_keys(home: &dyn Read, _kept: &Kept) -> Outcome {
    for session in all_sessions(home)? {
        let keys = home.session_keys(&session.id)?;
        let distinct: HashSet<&Key> = keys.iter().collect();
        ensure!(distinct.len() == keys.len(), "a key of {} is told twice", session.id);
        for key in &keys {
            ensure!(key.session() == Some(&session.id), "{key} is told as one of {}", session.id);
            match home.document(key) {
                Ok(Some(stored)) => ensure!(stored.key == *key, "{key} is found as {}", stored.key),
                Ok(None) => return Err(format!("{key} is a key of {} and not found", session.id).into()),
                Err(ReadError::Unreadable(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        for key in Key::beside(&session.id) {
            let is_there = home.document(&key).is_ok_and(|found| found.is_some());
            ensure!(!is_there || distinct.contains(&key), "{key} is found and not told");
        }
    }
    Ok(())
}

fn positions(home: &dyn Read, _kept: &Kept) -> Outcome {
    fn id(stored: &Stored) -> &str {
        match &stored.key {
            Key::Message(_, id) => id.as_str(),
            Key::Part(_, _, id) => id.as_str(),
            _ => "",
        }
    }
    let is_ordered = |pair: &[&Stored]| {
        let [a, b] = [pair[0], pair[1]].map(|stored| (stored.position, id(stored)));
        position::order(a, b).is_lt()
    };
    for session in all_sessions(home)? {
        let messages = whole(home, &session)?;
        let stored: Vec<&Stored> = messages.iter().map(|message| &message.stored).collect();
        ensure!(stored.windows(2).all(is_ordered), "the messages of {} are not in order", session.id);
        for message in &messages {
            let parts: Vec<&Stored> = message.parts.iter().collect();
            ensure!(parts.windows(2).all(is_ordered), "the parts of {} are not in order", message.stored.key);
        }
    }
    Ok(())
}

fn ranges(home: &dyn Read, _kept: &Kept) -> Outcome {
    for session in some(&all_sessions(home)?) {
        let ids: Vec<Key> = whole(home, session)?.into_iter().map(|message| message.stored.key).collect();
        let id_of = |key: &Key| match key {
            Key::Message(_, id) => Some(id.clone()),
            _ => None,
        };
        let unknown = (MessageId::parse("msg_nosuchmessage")?, 0);
        let mut ends: Vec<(Option<MessageId>, usize)> = vec![(None, ids.len()), (Some(unknown.0), unknown.1)];
        for n in [0, ids.len() / 2, ids.len().saturating_sub(1)] {
            ends.extend(ids.get(n).and_then(id_of).map(|id| (Some(id), n)));
        }
        for (before, end) in ends {
            for last in [None, Some(0), Some(1), Some(2), Some(ids.len()), Some(usize::MAX)] {
                let range = MessageRange { before: before.clone(), last };
                let start = end.saturating_sub(last.unwrap_or(usize::MAX));
                let found: Vec<Key> = read(home, session, &range, MessageDetail::PartCounts)?
                    .into_iter()
                    .map(|message| message.stored.key)
                    .collect();
                ensure!(found == ids[start..end], "{range:?} of {} gives {found:?}", session.id);
            }
        }
    }
    Ok(())
}

fn is_tool(part: &Stored) -> bool {
    matches!(part.document.lens::<Part<'_>>(), Part::Tool(_))
}

fn wants(home: &dyn Read, _kept: &Kept) -> Outcome {
    for session in all_sessions(home)? {
        let all = whole(home, &session)?;
        for detail in [MessageDetail::PartCounts, MessageDetail::ToolCalls] {
            let less = read(home, &session, &MessageRange::ALL, detail)?;
            ensure!(less.len() == all.len(), "{detail:?} gives {} messages of {}", less.len(), session.id);
            for (less, all) in less.iter().zip(&all) {
                let key = &all.stored.key;
                ensure!(is_same(&less.stored, &all.stored), "{detail:?} gives {key} otherwise");
                ensure!(
                    (less.n_parts, less.made) == (all.n_parts, all.made),
                    "{detail:?} says {} parts, there are {}, or {key} was made at another time",
                    less.n_parts,
                    all.n_parts
                );
                ensure!(
                    all.n_parts == all.parts.len() + all.quarantined.len(),
                    "{key} counts its parts wrong"
                );
                let has = |part: &Stored| less.parts.iter().any(|known| is_same(known, part));
                let lacks = all
                    .parts
                    .iter()
                    .find(|part| detail == MessageDetail::ToolCalls && is_tool(part) && !has(part));
                ensure!(lacks.is_none(), "{detail:?} of {key} leaves out a tool call");
            }
        }
    }
    Ok(())
}

fn missing(home: &dyn Read, _kept: &Kept) -> Outcome {
    for id in ["ses_nosuchsession", "00000000-0000-4000-8000-000000000000"] {
        let session = SessionId::parse(id)?;
        ensure!(home.session(&session)?.is_none(), "session {id} is found");
        ensure!(home.session_keys(&session)?.is_empty(), "session {id} has keys");
        absent(home, &session)?;
    }
    for session in all_sessions(home)? {
        absent(home, &session.id)?;
        let mut other = session.clone();
        other.id = SessionId::parse("ses_nosuchsession")?;
        ensure!(whole(home, &other)?.is_empty(), "a session that does not exist has messages");
    }
    ensure!(
        home.document(&Key::Project(ProjectId::parse("no-such-project")?))?.is_none(),
        "a project is made up"
    );
    Ok(())
}

/// Keys that no session has.
fn absent(home: &dyn Read, session: &SessionId) -> Outcome {
    for (message, part) in [("msg_nosuchmessage", "prt_nosuchpart"), ("0-no-such-message", "0-no-such-part")]
    {
        let (message, part) = (MessageId::parse(message)?, PartId::parse(part)?);
        for key in [
            Key::Message(session.clone(), message.clone()),
            Key::Part(session.clone(), message, part),
            Key::Record(session.clone(), RecordId::parse("no-such-record")?),
        ] {
            ensure!(home.document(&key)?.is_none(), "{key} is found");
        }
    }
    Ok(())
}

/// Whether a query admits a session, judged by its document alone.
fn is_wanted(query: &SessionQuery, record: &SessionRecord) -> bool {
    let session = record.stored.document.lens::<Session<'_>>();
    let time = session.time.unwrap_or_default();
    let used = time.updated.or(time.created).unwrap_or(0);
    let is_below = |directory: &str| {
        let opened = session.directory.as_ref().map(|opened| opened.to_string());
        opened.is_some_and(|opened| opened == directory || opened.starts_with(&format!("{directory}/")))
    };
    (query.projects.is_empty() || query.projects.contains(&record.project))
        && query.directory.as_deref().is_none_or(is_below)
        && query.since.is_none_or(|since| used >= since)
        && query.until.is_none_or(|until| used < until)
        && (!query.roots || session.parent_id.is_none())
        && match query.archived {
            Archived::Included => true,
            Archived::Only => time.archived.is_some(),
            Archived::Excluded => time.archived.is_none(),
        }
}

fn queries(home: &dyn Read, _kept: &Kept) -> Outcome {
    let all = all_sessions(home)?;
    let mut queries = vec![
        SessionQuery { roots: true, ..Default::default() },
        SessionQuery { archived: Archived::Only, ..Default::default() },
        SessionQuery { archived: Archived::Excluded, ..Default::default() },
        SessionQuery { projects: vec![ProjectId::parse("no-such-project")?], ..Default::default() },
        SessionQuery { directory: Some("/no/such/directory".to_owned()), ..Default::default() },
    ];
    for session in some(&all) {
        let (project, used) = (session.project.clone(), session.info.last_used());
        let directory = session.info.directory().map(ToOwned::to_owned);
        let above =
            directory.as_deref().and_then(|path| path.rsplit_once('/')).map(|(above, _)| above.to_owned());
        queries.push(SessionQuery { projects: vec![project.clone()], ..Default::default() });
        queries.push(SessionQuery { directory: directory.clone(), ..Default::default() });
        queries
            .push(SessionQuery { directory: above.filter(|above| !above.is_empty()), ..Default::default() });
        queries.push(SessionQuery { since: Some(used), ..Default::default() });
        queries.push(SessionQuery { until: Some(used), ..Default::default() });
        queries.push(SessionQuery {
            since: Some(used),
            until: Some(used + 1),
            roots: true,
            ..Default::default()
        });
        queries.push(SessionQuery {
            projects: vec![project],
            directory,
            archived: Archived::Excluded,
            ..Default::default()
        });
    }
    for query in queries {
        let mut found: Vec<SessionId> =
            home.sessions(&query)?.value.into_iter().map(|record| record.id).collect();
        found.sort_by(|a, b| a.as_str().cmp(b.as_str()));
        let wanted: Vec<SessionId> =
            all.iter().filter(|record| is_wanted(&query, record)).map(|record| record.id.clone()).collect();
        ensure!(found == wanted, "{query:?} gives {found:?}, not {wanted:?}");
    }
    Ok(())
}

/// The content of a home as text: everything, unless it has many sessions.
pub(super) fn told(home: &dyn Read) -> Result<String, ReadError> {
    let mut told = format!("{:?}\n", home.projects()?.value);
    for session in some(&all_sessions(home)?) {
        told.push_str(&format!("{:?}\n", session.stored));
        for message in whole(home, session)? {
            told.push_str(&format!("{message:?}\n"));
        }
        let mut documents = Vec::new();
        for key in home.session_keys(&session.id)? {
            let found = home.document(&key).map(|found| found.map(|stored| stored.document));
            documents.push(format!("{key:?} {found:?}\n"));
        }
        documents.sort();
        told.push_str(&documents.concat());
    }
    Ok(told)
}

fn twice(home: &dyn Read, _kept: &Kept) -> Outcome {
    ensure!(told(home)? == told(home)?, "the second reading differs from the first");
    Ok(())
}

fn threads(home: &dyn Read, _kept: &Kept) -> Outcome {
    let alone = told(home)?;
    std::thread::scope(|scope| -> Outcome {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| told(home))).collect();
        for thread in threads {
            let told = thread.join().map_err(|_| "a reader panicked")??;
            ensure!(told == alone, "a thread was told something else");
        }
        Ok(())
    })
}

fn summaries(home: &dyn Read, _kept: &Kept) -> Outcome {
    let Some(summaries) = home.summaries() else { return Ok(()) };
    let sessions = all_sessions(home)?;
    let told = summaries.summarize(&sessions.iter().collect::<Vec<_>>())?;
    ensure!(told.len() == sessions.len(), "{} sessions, {} summaries", sessions.len(), told.len());
    for (session, told) in sessions.iter().zip(told) {
        let messages = whole(home, session)?;
        let n_parts: usize = messages.iter().map(|message| message.n_parts).sum();
        let figures = summaries.figures(session, MessageDetail::ToolCalls)?.value;
        let (told_parts, told_calls) =
            figures.iter().fold((0, 0), |(parts, calls), one| (parts + one.n_parts, calls + one.calls.len()));
        let n_calls = messages.iter().flat_map(|message| &message.parts).filter(|part| is_tool(part)).count();
        ensure!(
            (figures.len(), told_parts, told_calls) == (messages.len(), n_parts, n_calls),
            "the figures of {} are of {} messages, {told_parts} parts and {told_calls} calls, and there are {}, {n_parts} \
             and {n_calls}",
            session.id,
            figures.len(),
            messages.len()
        );
        let mut usage = Usage::default();
        for message in &messages {
            if let Message::Assistant(answer) = message.stored.document.lens() {
                usage += Usage::of(&answer);
            }
        }
        let usage = Usage::of_session(&session.stored.document.lens()).unwrap_or(usage);
        let Some(told) = told else { continue };
        ensure!(
            (told.messages, told.parts) == (messages.len(), n_parts),
            "the summary of {} says {} messages and {} parts, and there are {} and {n_parts}",
            session.id,
            told.messages,
            told.parts,
            messages.len()
        );
        ensure!(
            (told.title.as_str(), told.parent, told.created, told.updated, told.archived)
                == (
                    session.info.title(),
                    session.info.parent(),
                    session.info.created(),
                    session.info.updated(),
                    session.info.archived()
                ),
            "the summary of {} is not what its document says",
            session.id
        );
        ensure!(
            (told.usage.cost - usage.cost).abs() < 1e-9 && told.usage.total_tokens() == usage.total_tokens(),
            "the summary of {} says {:?}, its messages say {usage:?}",
            session.id,
            told.usage
        );
    }
    Ok(())
}

fn history(home: &dyn Read, kept: &Kept) -> Outcome {
    ensure!(home.history().is_some() == kept.history, "history: {}", home.history().is_some());
    if let Some(history) = home.history() {
        let log = history.log(&Default::default())?;
        ensure!(!log.is_empty(), "the log is empty, and there are sessions");
    }
    Ok(())
}
