//! Families of sessions: which session started which, and which is a fork of which.

mod forks;

use std::collections::{HashMap, HashSet};

use annals_core::id::SessionId;

use crate::record::SessionRecord;

pub use forks::{ForkOrigin, Forks};

/// How a session came about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Descent {
    /// It was opened.
    Opened,
    /// This session started it.
    StartedBy(SessionId),
    /// It is a fork.
    ForkOf(ForkOrigin),
}

/// A relative of a session.
#[derive(Debug, Clone)]
pub struct Relative<'s> {
    /// The session.
    pub record: &'s SessionRecord,
    /// How it came about.
    pub descent: Descent,
    /// The number of its ancestors.
    pub depth: usize,
}

/// Which of some sessions started which others, as their documents say. Documents can be wrong: a parent may be missing, and
/// sessions may name each other in a circle. Every walk visits a session once.
#[derive(Debug)]
pub struct Family<'s> {
    records: HashMap<SessionId, &'s SessionRecord>,
    children: HashMap<SessionId, Vec<&'s SessionRecord>>,
}

impl<'s> Family<'s> {
    /// The family of these sessions. Children stay in the order given.
    pub fn of(records: &'s [SessionRecord]) -> Family<'s> {
        let mut children: HashMap<SessionId, Vec<&SessionRecord>> = HashMap::new();
        for record in records {
            if let Some(parent) = record.info.parent() {
                children.entry(parent).or_default().push(record);
            }
        }
        let records = records.iter().map(|record| (record.id.clone(), record)).collect();
        Family { records, children }
    }

    /// The sessions that a session started.
    pub fn children(&self, id: &SessionId) -> &[&'s SessionRecord] {
        self.children.get(id).map(Vec::as_slice).unwrap_or_default()
    }

    /// The sessions that led to a session: its parent, the parent of that, and so on.
    pub fn ancestors(&self, id: &SessionId) -> Vec<&'s SessionRecord> {
        let mut seen = HashSet::from([id.clone()]);
        let mut found: Vec<&SessionRecord> = Vec::new();
        let mut next = self.records.get(id).copied();
        while let Some(parent) = next.and_then(|record| self.records.get(&record.info.parent()?)).copied()
            && seen.insert(parent.id.clone())
        {
            found.push(parent);
            next = Some(parent);
        }
        found
    }

    /// How a session came about. What started it counts before what it is a fork of.
    pub fn descent(&self, forks: &Forks, id: &SessionId) -> Descent {
        let parent = self.records.get(id).and_then(|record| record.info.parent());
        match (parent.filter(|parent| self.records.contains_key(parent)), forks.origin(id)) {
            (Some(parent), _) => Descent::StartedBy(parent),
            (None, Some(origin)) => Descent::ForkOf(origin.clone()),
            (None, None) => Descent::Opened,
        }
    }

    /// The ancestry of a session: what it comes from, the oldest first, then the session itself, then what came of it directly.
    pub fn ancestry(&self, forks: &Forks, id: &SessionId) -> Vec<Relative<'s>> {
        let mut line: Vec<(&SessionRecord, Descent)> = Vec::new();
        let mut next = Some(id.clone());
        while let Some(record) = next.take().and_then(|id| self.records.get(&id)).copied() {
            if line.iter().any(|(known, _)| known.id == record.id) {
                break;
            }
            let descent = self.descent(forks, &record.id);
            next = match &descent {
                Descent::Opened => None,
                Descent::StartedBy(parent) => Some(parent.clone()),
                Descent::ForkOf(origin) => Some(origin.session.clone()),
            };
            line.push((record, descent));
        }
        line.reverse();
        let started = self.children(id).iter().copied();
        let forked = forks.of(id).iter().filter_map(|fork| self.records.get(fork).copied());
        let mut issue: Vec<&SessionRecord> = started.chain(forked).collect();
        issue.retain(|record| !line.iter().any(|(known, _)| known.id == record.id));
        issue.sort_by_key(|record| (record.info.created(), record.id.to_string()));
        issue.dedup_by_key(|record| record.id.clone());
        let n_ancestors = line.len();
        let relatives = line.into_iter().enumerate().map(|(depth, (record, descent))| Relative {
            record,
            descent,
            depth,
        });
        let issue = issue.into_iter().map(|record| {
            let descent = self.descent(forks, &record.id);
            Relative { record, descent, depth: n_ancestors }
        });
        relatives.chain(issue).collect()
    }

    /// These sessions and all that they started, and those started, each once: a session comes before those it started.
    pub fn with_descendants(&self, wanted: Vec<SessionRecord>) -> Vec<SessionRecord> {
        let mut seen: HashSet<SessionId> = HashSet::new();
        let mut found: Vec<SessionRecord> =
            wanted.into_iter().filter(|record| seen.insert(record.id.clone())).collect();
        let mut next = 0;
        while let Some(parent) = found.get(next).map(|parent| parent.id.clone()) {
            let children = self.children(&parent).iter().filter(|child| seen.insert(child.id.clone()));
            found.extend(children.map(|child| (*child).clone()));
            next += 1;
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use annals_core::id::ProjectId;
    use annals_core::{Document, Key, Stored};

    use super::*;

    fn id(name: &str) -> SessionId {
        SessionId::parse(&format!("ses_{name}")).unwrap()
    }

    fn session(name: &str, parent: &str) -> SessionRecord {
        let document = Document::parse(format!(r#"{{"parentID":"ses_{parent}"}}"#).into_bytes()).unwrap();
        let key = Key::Session(ProjectId::global(), id(name));
        SessionRecord::new(ProjectId::global(), id(name), Stored::new(key, document, name), Vec::new())
    }

    fn names<'r>(records: impl IntoIterator<Item = &'r SessionRecord>) -> Vec<String> {
        records.into_iter().map(|record| record.id.to_string()).collect()
    }

    #[test]
    fn every_session_is_visited_once_also_in_a_circle() {
        let all = [
            session("b", "a"),
            session("a", "c"),
            session("c", "b"),
            session("d", "b"),
            session("e", "gone"),
        ];
        let family = Family::of(&all);
        assert_eq!(names(family.children(&id("b")).iter().copied()), ["ses_c", "ses_d"]);
        assert_eq!(names(family.ancestors(&id("d"))), ["ses_b", "ses_a", "ses_c"]);
        assert_eq!(names(family.ancestors(&id("e"))), [""; 0]);
        let found = family.with_descendants(vec![all[1].clone(), all[1].clone()]);
        assert_eq!(names(&found), ["ses_a", "ses_b", "ses_c", "ses_d"]);
    }
}
