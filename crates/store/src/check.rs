//! What can be wrong with a home, and the checks that are the same in every home.

use std::collections::HashSet;

use annals_core::id::{MessageId, Millis, SessionId};
use annals_core::json::Node;
use annals_core::lens::{Message, Part, Session, ToolStatus};
use annals_core::{Key, Stored};
use rayon::prelude::*;

use crate::home::{MessageDetail, MessageRange, MessageRecord, Read, ReadError, SessionRecord};
use crate::interrupted::{STILL_RUNNING, is_paused, last_sign_of_life};
use crate::parallel;
pub use crate::problem::{Problem, ProblemKind, Severity};
pub(crate) use crate::problem::{arranged, unreadable};
use crate::query::SessionQuery;

/// Checks all sessions of a home, with the checks that are the same in every home and `more` of its own. Also gives which
/// sessions there are.
pub(crate) fn check_sessions(
    home: &dyn Read,
    now: Millis,
    progress: &(dyn Fn() + Sync),
    more: &(dyn Fn(&SessionRecord) -> Result<Vec<Problem>, ReadError> + Sync),
) -> Result<(HashSet<SessionId>, Vec<Problem>), ReadError> {
    let found = match home.sessions(&SessionQuery::default()) {
        Ok(found) => found,
        // Without a list there are no sessions to look at, but there is more in a home than sessions.
        Err(error @ (ReadError::Unreadable(_) | ReadError::Io { .. })) => {
            return Ok((HashSet::new(), vec![Problem::of_error(&home.url().to_string(), &error)]));
        }
        Err(error) => return Err(error),
    };
    let mut problems: Vec<Problem> = found.quarantined.into_iter().map(unreadable).collect();
    let known: HashSet<SessionId> = found.value.iter().map(|record| record.id.clone()).collect();
    let check = |record: &SessionRecord| {
        let checked = check_session(home, record, &known, now).and_then(|mut problems| {
            problems.extend(more(record)?);
            Ok(problems)
        });
        let mut problems = match checked {
            // A session that cannot be read does not hide the others.
            Err(error @ (ReadError::Unreadable(_) | ReadError::Io { .. })) => {
                vec![Problem::of_error(&record.stored.place, &error)]
            }
            checked => checked?,
        };
        for problem in &mut problems {
            problem.session = Some(record.id.clone());
        }
        progress();
        Ok(problems)
    };
    let checked: Result<Vec<_>, ReadError> = parallel::run(|| found.value.par_iter().map(check).collect());
    problems.extend(checked?.into_iter().flatten());
    Ok((known, problems))
}

/// What is wrong with one session, as far as its documents tell. `known` are all sessions of the home.
pub(crate) fn check_session(
    home: &dyn Read,
    record: &SessionRecord,
    known: &HashSet<SessionId>,
    now: Millis,
) -> Result<Vec<Problem>, ReadError> {
    let mut problems = Vec::new();
    let session = record.stored.document.lens::<Session<'_>>();
    let mut add = |kind, stored: &Stored, detail: String| {
        problems.push(Problem {
            session: None,
            kind,
            place: stored.place.clone(),
            id: Some(id_of(&stored.key)),
            detail,
        });
    };
    check_ids(&record.stored, &mut add);
    if let Some(named) = session.project_id.filter(|named| *named != record.project.as_str()) {
        let detail = format!("filed under project {} but names {named}", record.project);
        add(ProblemKind::ProjectMismatch, &record.stored, detail);
    }
    if let Some(parent) = &session.parent_id
        && !record.info.parent().is_some_and(|parent| known.contains(&parent))
    {
        add(
            ProblemKind::MissingParent,
            &record.stored,
            format!("its parent session {parent} does not exist"),
        );
    }
    let mut unreadables = Vec::new();
    let mut last_activity = session.time.and_then(|time| time.updated).unwrap_or(0);
    let mut open_ended: Vec<(ProblemKind, Stored, String)> = Vec::new();
    // Only the last message counts: after every other one the agent went on.
    let mut paused = None;
    let mut messages: HashSet<MessageId> = HashSet::new();
    let mut answers: Vec<(Stored, String)> = Vec::new();
    let mut visited = home.messages(record, &MessageRange::ALL, MessageDetail::Parts);
    for message in &mut visited {
        let mut message = message?;
        unreadables.append(&mut message.quarantined);
        last_activity = last_activity.max(last_sign_of_life(&message));
        check_ids(&message.stored, &mut add);
        if let Key::Message(_, id) = &message.stored.key {
            messages.insert(id.clone());
        }
        if let Message::Assistant(answer) = message.stored.document.lens::<Message<'_>>()
            && let Some(parent) = answer.parent_id
        {
            answers.push((message.stored.clone(), parent.to_string()));
        }
        for part in &message.parts {
            check_ids(part, &mut add);
        }
        open_ended.extend(unfinished(&message));
        paused = interrupted(&message);
    }
    let unvisited = visited.into_quarantined();
    for (stored, parent) in answers {
        if !MessageId::parse(&parent).is_ok_and(|parent| messages.contains(&parent)) {
            add(
                ProblemKind::MissingParent,
                &stored,
                format!("the message it answers, {parent}, does not exist"),
            );
        }
    }
    if now - last_activity > STILL_RUNNING {
        for (kind, stored, detail) in open_ended.into_iter().chain(paused) {
            add(kind, &stored, detail);
        }
    }
    problems.extend(unvisited.into_iter().chain(unreadables).map(unreadable));
    Ok(problems)
}

/// The unfinished things of a message: the message itself, or tool calls in it.
fn unfinished(message: &MessageRecord) -> Vec<(ProblemKind, Stored, String)> {
    let mut found = Vec::new();
    if let Message::Assistant(answer) = message.stored.document.lens::<Message<'_>>()
        && answer.time.is_none_or(|time| time.completed.is_none())
    {
        let detail = "the answer never ended; OpenCode was probably killed".to_owned();
        found.push((ProblemKind::UnfinishedMessage, message.stored.clone(), detail));
    }
    for part in &message.parts {
        if let Part::Tool(tool) = part.document.lens::<Part<'_>>()
            && let Some(status @ (ToolStatus::Pending | ToolStatus::Running)) =
                tool.state.and_then(|state| state.status())
        {
            let name = tool.tool.map(|tool| tool.to_string()).unwrap_or_default();
            let status = if status == ToolStatus::Pending { "pending" } else { "running" };
            found.push((
                ProblemKind::StuckTool,
                part.clone(),
                format!("the call of `{name}` is still {status}"),
            ));
        }
    }
    found
}

/// An answer that ended with tool calls, though the agent should have gone on.
fn interrupted(message: &MessageRecord) -> Option<(ProblemKind, Stored, String)> {
    let detail = "the answer ended with a tool call and nothing came after it; OpenCode was probably killed between two steps";
    let problem = || (ProblemKind::UnfinishedMessage, message.stored.clone(), detail.to_owned());
    is_paused(message).then(problem)
}

/// Compares the ids inside a document with those of its path.
fn check_ids(stored: &Stored, add: &mut impl FnMut(ProblemKind, &Stored, String)) {
    let expected: Vec<(&str, &str)> = match &stored.key {
        Key::Session(_, session) => vec![("id", session.as_str())],
        Key::Message(session, message) => vec![("id", message.as_str()), ("sessionID", session.as_str())],
        Key::Part(session, message, part) => {
            vec![("id", part.as_str()), ("sessionID", session.as_str()), ("messageID", message.as_str())]
        }
        _ => Vec::new(),
    };
    let root = stored.document.root();
    for (field, id) in expected {
        if let Some(found) = root.get(field).and_then(Node::as_text)
            && found != id
        {
            add(ProblemKind::IdMismatch, stored, format!("its `{field}` is {found}, its path says {id}"));
        }
    }
}

pub(crate) fn plural(n: usize, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}

fn id_of(key: &Key) -> String {
    match key {
        Key::Message(_, message) => message.to_string(),
        Key::Part(_, _, part) => part.to_string(),
        key => key.session().map(ToString::to_string).unwrap_or_default(),
    }
}
