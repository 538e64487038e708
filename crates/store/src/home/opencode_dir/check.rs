//! Checking: everything that is not as it should be, each with its place.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use annals_core::id::{MessageId, Millis, ProjectId, SessionId};
use annals_core::json::Node;
use annals_core::lens::{Message, Part, Session, ToolStatus};
use annals_core::{Key, Stored};
use rayon::prelude::*;

use super::files::Shape;
use super::journal::{self, Journal};
use super::layout::{Layout, flat_path, stem};
use super::read::{documents, list_sessions, read_document};
use super::{OpencodeDir, Tree};
use crate::check::{Problem, ProblemKind};
use crate::home::{MessageRecord, Quarantined, Read, ReadError, SessionRecord, Want};
use crate::parallel;
use crate::query::SessionQuery;

/// An answer without an end is taken for one that is being written until its session has rested this long.
const STILL_RUNNING: Millis = 10 * 60 * 1000;

impl OpencodeDir {
    pub(super) fn check_all(
        &self,
        now: Millis,
        progress: &(dyn Fn() + Sync),
    ) -> Result<Vec<Problem>, ReadError> {
        let mut problems = Vec::new();
        let found = self.sessions(&SessionQuery::default())?;
        problems.extend(found.quarantined.into_iter().map(unreadable));
        let known: HashSet<SessionId> = found.value.iter().map(|record| record.id.clone()).collect();
        let check = |record: &SessionRecord| {
            let checked = self.check_session(record, &known, now);
            progress();
            checked
        };
        let checked: Result<Vec<_>, ReadError> =
            parallel::run(|| found.value.par_iter().map(check).collect());
        problems.extend(checked?.into_iter().flatten());
        if let Some(tree) = self.flat_tree() {
            self.check_tree(&tree, &known, &mut problems)?;
        }
        problems.sort_by(|a, b| (a.kind, &a.place).cmp(&(b.kind, &b.place)));
        Ok(problems)
    }

    fn check_session(
        &self,
        record: &SessionRecord,
        known: &HashSet<SessionId>,
        now: Millis,
    ) -> Result<Vec<Problem>, ReadError> {
        let mut problems = Vec::new();
        let session = record.stored.document.lens::<Session<'_>>();
        let mut add = |kind, stored: &Stored, detail: String| {
            problems.push(Problem {
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
            && !SessionId::parse(&parent.to_str()).is_ok_and(|parent| known.contains(&parent))
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
        let mut messages: HashSet<MessageId> = HashSet::new();
        let mut answers: Vec<(Stored, String)> = Vec::new();
        let unvisited = self.messages(record, Want::Parts, &mut |mut message| {
            unreadables.append(&mut message.quarantined);
            last_activity = last_activity.max(message.made);
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
            ControlFlow::Continue(())
        })?;
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
            for (kind, stored, detail) in open_ended {
                add(kind, &stored, detail);
            }
        }
        problems.extend(unvisited.into_iter().chain(unreadables).map(unreadable));
        Ok(problems)
    }

    /// What belongs to no session, or should not be there at all.
    fn check_tree(
        &self,
        tree: &Tree<'_>,
        known: &HashSet<SessionId>,
        problems: &mut Vec<Problem>,
    ) -> Result<(), ReadError> {
        let mut add = |kind, path: &str, id: Option<&str>, detail: String| {
            problems.push(Problem { kind, place: tree.place(path), id: id.map(str::to_owned), detail });
        };
        if let Some(root) = self.flat()
            && let Err(error) = Journal::read(&root.files)
        {
            add(ProblemKind::UnfinishedTransaction, journal::JOURNAL, None, error.to_string());
        } else if !tree.view.overlay.is_empty() {
            let detail = format!("{} changes wait to be finished", tree.view.overlay.len());
            add(ProblemKind::UnfinishedTransaction, journal::JOURNAL, None, detail);
        }
        let projects: HashSet<String> =
            documents(tree, "project")?.into_iter().map(|(name, _)| name).collect();
        let mut owners: HashMap<SessionId, Vec<ProjectId>> = HashMap::new();
        for located in list_sessions(tree, &SessionQuery::default(), &mut Vec::new())? {
            owners.entry(located.session).or_default().push(located.project);
        }
        let mut missing: HashMap<&ProjectId, usize> = HashMap::new();
        for (session, projects_of) in &owners {
            for project in projects_of.iter().filter(|project| !projects.contains(project.as_str())) {
                *missing.entry(project).or_default() += 1;
            }
            if projects_of.len() > 1 {
                let names: Vec<&str> = projects_of.iter().map(ProjectId::as_str).collect();
                let path = format!("session/{}/{session}.json", projects_of[0]);
                let detail = format!("filed under {}", names.join(" and "));
                add(ProblemKind::DuplicateSession, &path, Some(session.as_str()), detail);
            }
        }
        for (project, n_sessions) in missing {
            let detail =
                format!("{}, but project/{project}.json does not exist", plural(n_sessions, "session"));
            add(ProblemKind::MissingProject, &format!("session/{project}"), Some(project.as_str()), detail);
        }
        for entry in tree.view.list("message").unwrap_or_default() {
            let session = SessionId::parse(&entry.name).ok();
            let path = format!("message/{}", entry.name);
            let n_messages = documents(tree, &path).map_or(0, |listed| listed.len());
            if session.is_none_or(|session| !known.contains(&session)) && n_messages > 0 {
                let detail = format!("{} of a session that does not exist", plural(n_messages, "message"));
                add(ProblemKind::OrphanMessages, &path, Some(&entry.name), detail);
            }
        }
        // The leftovers of deeper directories are looked for in the same walk that finds orphans.
        for directory in ["project", "todo", "session_diff", "session_share", "share"] {
            for entry in tree.view.list(directory).unwrap_or_default() {
                let path = format!("{directory}/{}", entry.name);
                let Some(id) = stem(&Layout::Flat, &entry.name) else {
                    add(ProblemKind::Leftover, &path, None, "not a document".to_owned());
                    continue;
                };
                let Ok(session) = SessionId::parse(id) else { continue };
                if directory == "project" {
                    continue;
                }
                if !known.contains(&session) {
                    let detail = format!("belongs to session {session}, which does not exist");
                    add(ProblemKind::OrphanBeside, &path, Some(session.as_str()), detail);
                }
            }
        }
        for session in known {
            for key in [Key::Todo(session.clone()), Key::Diff(session.clone()), Key::Share(session.clone())] {
                let shape = if matches!(key, Key::Share(_)) { Shape::Object } else { Shape::Array };
                if let Err(quarantined) = read_document(tree, &flat_path(&key), shape, key) {
                    problems.push(unreadable(quarantined));
                }
            }
        }
        for quarantined in self.projects()?.quarantined {
            problems.push(unreadable(quarantined));
        }
        for orphans in self.orphan_parts()?.into_iter().filter(|orphans| orphans.n_parts > 0) {
            let of =
                orphans.session.as_ref().map(|session| format!(" of session {session}")).unwrap_or_default();
            let detail = format!("{} of a message{of} that does not exist", plural(orphans.n_parts, "part"));
            let id = Some(orphans.message.to_string());
            problems.push(Problem { kind: ProblemKind::OrphanParts, place: orphans.place, id, detail });
        }
        Ok(())
    }
}

/// What of a message has no end: itself, or tool calls in it.
fn unfinished(message: &MessageRecord) -> Vec<(ProblemKind, Stored, String)> {
    let mut found = Vec::new();
    if let Message::Assistant(answer) = message.stored.document.lens::<Message<'_>>()
        && answer.time.is_none_or(|time| time.completed.is_none())
    {
        let detail = "the answer was never ended; OpenCode was probably killed".to_owned();
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

fn plural(n: usize, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}

fn unreadable(quarantined: Quarantined) -> Problem {
    Problem {
        kind: ProblemKind::Unreadable,
        place: quarantined.place,
        id: quarantined.session.map(|session| session.to_string()),
        detail: quarantined.reason.to_string(),
    }
}

fn id_of(key: &Key) -> String {
    match key {
        Key::Message(_, message) => message.to_string(),
        Key::Part(_, _, part) => part.to_string(),
        key => key.session().map(ToString::to_string).unwrap_or_default(),
    }
}
