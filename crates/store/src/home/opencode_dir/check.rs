//! Checking: everything that is not as it should be, each with its place.

use std::collections::{HashMap, HashSet};

use annals_core::Key;
use annals_core::id::{Millis, ProjectId, SessionId};

use super::files::Shape;
use super::journal::{self, Journal};
use super::layout::{Layout, flat_path, stem};
use super::read::{documents, list_sessions, read_document};
use super::{OpencodeDir, Tree};
use crate::check::{Problem, ProblemKind, check_sessions, plural, unreadable};
use crate::home::{Read, ReadError};
use crate::query::SessionQuery;

impl OpencodeDir {
    pub(super) fn check_all(
        &self,
        now: Millis,
        progress: &(dyn Fn() + Sync),
    ) -> Result<Vec<Problem>, ReadError> {
        let (known, mut problems) = check_sessions(self, now, progress, &|_| Ok(Vec::new()))?;
        if let Some(tree) = self.flat_tree() {
            self.check_tree(&tree, &known, &mut problems)?;
        }
        problems.sort_by(|a, b| (a.kind, &a.place).cmp(&(b.kind, &b.place)));
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
