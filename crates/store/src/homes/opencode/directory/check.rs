//! Checking: everything that is not as it should be, each with its place.

use std::collections::{HashMap, HashSet};

use annals_core::Key;
use annals_core::id::{Millis, ProjectId, SessionId};

use super::files::DocumentShape;
use super::journal::{self, Journal};
use super::layout::{Layout, flat_path, stem};
use super::read::{documents, list_sessions, read_document};
use super::{OpencodeDirectory, Tree};
use crate::check::{Problem, ProblemKind, arranged, check_sessions, plural, unreadable};
use crate::home::{Read, ReadError};
use crate::query::SessionQuery;

impl OpencodeDirectory {
    pub(super) fn check_all(
        &self,
        now: Millis,
        progress: &(dyn Fn() + Sync),
    ) -> Result<Vec<Problem>, ReadError> {
        let (known, mut problems) = check_sessions(self, now, progress, &|_| Ok(Vec::new()))?;
        if let Some(tree) = self.flat_tree() {
            self.check_tree(&tree, &known, &mut problems);
        }
        Ok(arranged(problems))
    }

    /// What belongs to no session, or should not be there at all. A directory that cannot be listed is a problem itself.
    fn check_tree(&self, tree: &Tree<'_>, known: &HashSet<SessionId>, problems: &mut Vec<Problem>) {
        let mut unlisted = Vec::new();
        let mut add = |kind, path: &str, id: Option<&str>, detail: String| {
            problems.push(Problem {
                session: None,
                kind,
                place: tree.place(path),
                id: id.map(str::to_owned),
                detail,
            });
        };
        if let Some(root) = self.flat()
            && let Err(error) = Journal::read(&root.files)
        {
            add(ProblemKind::UnfinishedTransaction, journal::JOURNAL, None, error.to_string());
        } else if !tree.view.overlay.is_empty() {
            let detail = format!("{} changes wait to be finished", tree.view.overlay.len());
            add(ProblemKind::UnfinishedTransaction, journal::JOURNAL, None, detail);
        }
        let projects = documents(tree, "project");
        let projects =
            projects.map(|listed| listed.into_iter().map(|(name, _)| name).collect::<HashSet<_>>());
        let mut owners: HashMap<SessionId, Vec<ProjectId>> = HashMap::new();
        // What cannot be listed of it was found with the sessions.
        let located = list_sessions(tree, &SessionQuery::default(), &mut Vec::new()).unwrap_or_default();
        for located in located {
            owners.entry(located.session).or_default().push(located.project);
        }
        let mut missing: HashMap<&ProjectId, usize> = HashMap::new();
        for (session, projects_of) in &owners {
            let is_missing = |project: &&ProjectId| {
                projects.as_ref().is_ok_and(|projects| !projects.contains(project.as_str()))
            };
            for project in projects_of.iter().filter(is_missing) {
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
            let session = SessionId::parse_opencode(&entry.name).ok();
            let path = format!("message/{}", entry.name);
            let n_messages = match documents(tree, &path) {
                Ok(listed) => listed.len(),
                Err(problem) => {
                    unlisted.push(problem.of_session(session.as_ref()));
                    continue;
                }
            };
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
                let Ok(session) = SessionId::parse_opencode(id) else { continue };
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
                let shape =
                    if matches!(key, Key::Share(_)) { DocumentShape::Object } else { DocumentShape::Array };
                if let Err(quarantined) = read_document(tree, &flat_path(&key), shape, key) {
                    problems.push(unreadable(quarantined));
                }
            }
        }
        match self.projects() {
            Ok(projects) => problems.extend(projects.quarantined.into_iter().map(unreadable)),
            Err(error) => problems.push(Problem::of_error(&tree.place("project"), &error)),
        }
        let orphans = self.orphan_parts();
        for orphans in orphans.found.into_iter().filter(|orphans| orphans.n_parts > 0) {
            let of =
                orphans.session.as_ref().map(|session| format!(" of session {session}")).unwrap_or_default();
            problems.push(Problem {
                kind: ProblemKind::OrphanParts,
                place: orphans.place,
                id: Some(orphans.message.to_string()),
                session: orphans.session,
                detail: format!("{} of a message{of} that does not exist", plural(orphans.n_parts, "part")),
            });
        }
        problems.extend(unlisted.into_iter().chain(orphans.unlisted).map(unreadable));
    }
}
