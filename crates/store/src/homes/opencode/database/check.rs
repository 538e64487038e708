//! Checking: the file itself, references between rows, columns that make OpenCode fail, and every session.

use std::collections::BTreeMap;

use crate::homes::opencode::complete::{self, Completed, Surroundings};
use annals_core::id::Millis;
use annals_core::lens::{Project, Session};
use annals_core::{Key, Stored};
use rusqlite::Connection;

use super::OpencodeDatabase;
use crate::check::{Problem, ProblemKind, arranged, check_sessions, plural, unreadable};
use crate::home::{MessageDetail, MessageRange, Read, ReadError, SessionRecord};
use crate::sqlite::is_damage;

/// Upper bound on the damaged places of the file that are named.
const MOST_DAMAGE: usize = 100;

impl OpencodeDatabase {
    pub(super) fn check_all(
        &self,
        now: Millis,
        progress: &(dyn Fn() + Sync),
    ) -> Result<Vec<Problem>, ReadError> {
        let (known, mut problems) = check_sessions(self, now, progress, &|record| {
            let mut problems = self.unservable(record)?;
            problems.extend(column_problem(record));
            Ok(problems)
        })?;
        for session in &known {
            if let Err(quarantined) = self.read_diff(session) {
                problems.push(unreadable(quarantined));
            }
        }
        let projects = self.projects()?;
        problems.extend(projects.quarantined.into_iter().map(unreadable));
        problems.extend(projects.value.iter().filter_map(project_problem));
        let file = self.read(|connection| Ok((damage(connection)?, dangling(connection)?)));
        let (damage, dangling) = file.map_err(|error| self.read_error(&error))?;
        problems.extend(damage);
        problems.extend(dangling);
        Ok(arranged(problems))
    }

    /// Documents for which the server of OpenCode 1.18 refuses a whole session.
    fn unservable(&self, record: &SessionRecord) -> Result<Vec<Problem>, ReadError> {
        let mut problems = Vec::new();
        let mut look = |stored: &Stored, completed: Completed| {
            let detail = match completed {
                Completed::AsItIs => return,
                Completed::Edited { fields, .. } => {
                    format!("the server of OpenCode 1.18 refuses its session for {}", fields.join(", "))
                }
                Completed::Unservable(why) => why,
            };
            let id = Some(record.id.to_string());
            problems.push(Problem {
                session: None,
                kind: ProblemKind::Unservable,
                place: stored.place.clone(),
                id,
                detail,
            });
        };
        for message in self.messages(record, &MessageRange::ALL, MessageDetail::Parts) {
            let message = message?;
            if message.stored.provenance.is_verbatim() {
                let around = Surroundings { created: message.made, ..Surroundings::default() };
                look(&message.stored, complete::message(&message.stored.document, &around));
                for part in &message.parts {
                    if let Key::Part(_, _, id) = &part.key {
                        look(part, complete::part(&part.document, id, &around));
                    }
                }
            }
        }
        Ok(problems)
    }
}

/// A session whose columns make OpenCode fail in every list of its project.
fn column_problem(record: &SessionRecord) -> Option<Problem> {
    let session = record.stored.document.lens::<Session<'_>>();
    let detail = match (&session.directory, &session.model) {
        (Some(directory), _) if !is_absolute(&directory.to_str()) && !directory.is_empty() => {
            format!("its directory {directory} is relative; OpenCode lists no session of the project")
        }
        (_, Some(model)) if model.id.is_none() || model.provider_id.is_none() => {
            "its model has no id; OpenCode lists no session of the project".to_owned()
        }
        _ => return None,
    };
    let (place, id) = (record.stored.place.clone(), Some(record.id.to_string()));
    Some(Problem { session: None, kind: ProblemKind::BadColumn, place, id, detail })
}

/// A project whose columns make OpenCode fail in it.
fn project_problem(stored: &Stored) -> Option<Problem> {
    let project = stored.document.lens::<Project<'_>>();
    let detail = match (&project.worktree, &project.vcs) {
        (Some(worktree), _) if !is_absolute(&worktree.to_str()) => {
            format!("its working tree {worktree} is relative; OpenCode fails in it")
        }
        (_, Some(vcs)) if *vcs != "git" => {
            format!("its version control system is {vcs}; OpenCode knows only git")
        }
        _ => return None,
    };
    let id = stored.key.project().map(ToString::to_string);
    Some(Problem { session: None, kind: ProblemKind::BadColumn, place: stored.place.clone(), id, detail })
}

fn is_absolute(path: &str) -> bool {
    path.starts_with('/') || path.get(1..3).is_some_and(|rest| rest == ":/" || rest == ":\\")
}

/// What SQLite finds wrong with the file.
fn damage(connection: &Connection) -> rusqlite::Result<Vec<Problem>> {
    let problem = |detail: String| Problem {
        session: None,
        kind: ProblemKind::Damaged,
        place: "the database file".to_owned(),
        id: None,
        detail,
    };
    let mut statement = connection.prepare(&format!("PRAGMA integrity_check({MOST_DAMAGE})"))?;
    let rows = statement.query_map([], |row| row.get::<_, String>(0));
    let lines: rusqlite::Result<Vec<String>> = rows.and_then(Iterator::collect);
    match lines {
        Ok(lines) => Ok(lines.into_iter().filter(|line| line != "ok").map(problem).collect()),
        Err(error) if is_damage(&error) => Ok(vec![problem(error.to_string())]),
        Err(error) => Err(error),
    }
}

/// Rows that refer to rows that are not there, counted by table.
fn dangling(connection: &Connection) -> rusqlite::Result<Vec<Problem>> {
    let mut counts: BTreeMap<(String, String), usize> = BTreeMap::new();
    let mut statement = connection.prepare("PRAGMA foreign_key_check")?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(2)?)));
    for row in rows.into_iter().flatten() {
        match row {
            Ok(tables) => *counts.entry(tables).or_default() += 1,
            Err(error) if is_damage(&error) => break,
            Err(error) => return Err(error),
        }
    }
    let problems = counts.into_iter().map(|((table, parent), n)| Problem {
        session: None,
        kind: ProblemKind::DanglingRow,
        place: table,
        id: None,
        detail: format!("{} of a {parent} that does not exist", plural(n, "row")),
    });
    Ok(problems.collect())
}
