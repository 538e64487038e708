//! Which sessions are wanted.

use annals_core::id::{Millis, ProjectId};

use crate::record::SessionRecord;

/// A filter over session documents; the default admits all.
#[derive(Debug, Clone, Default)]
pub struct SessionQuery {
    /// Owned by one of these projects; empty admits all.
    pub projects: Vec<ProjectId>,
    /// Opened in this directory or below it.
    pub directory: Option<String>,
    /// Updated at this time or later.
    pub since: Option<Millis>,
    /// Updated before this time.
    pub until: Option<Millis>,
    /// Not started by another session.
    pub roots: bool,
    /// Whether archived sessions are wanted.
    pub archived: Archived,
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

impl SessionQuery {
    /// Whether every session is wanted.
    pub fn admits_all(&self) -> bool {
        let SessionQuery { projects, directory, since, until, roots, archived } = self;
        projects.is_empty()
            && directory.is_none()
            && since.is_none()
            && until.is_none()
            && !roots
            && *archived == Archived::Included
    }

    /// Whether a session is wanted.
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
            && match self.archived {
                Archived::Included => true,
                Archived::Only => info.archived().is_some(),
                Archived::Excluded => info.archived().is_none(),
            }
            && self
                .directory
                .as_deref()
                .is_none_or(|wanted| info.directory().is_some_and(|directory| is_within(directory, wanted)))
    }
}

/// Whether `path` is `directory` or lies below it.
fn is_within(path: &str, directory: &str) -> bool {
    let directory = directory.trim_end_matches('/');
    path.strip_prefix(directory).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::is_within;

    #[test]
    fn a_directory_holds_itself_and_what_is_below() {
        assert!(is_within("/home/dev/shop", "/home/dev/shop"));
        assert!(is_within("/home/dev/shop/web", "/home/dev/shop/"));
        assert!(!is_within("/home/dev/shop-copy", "/home/dev/shop"));
        assert!(is_within("/home", "/"));
    }
}
