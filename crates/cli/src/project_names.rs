//! Names of projects: short ones for lists, whole paths where there is room.

use std::collections::{BTreeMap, HashMap};

use annals::home::Read;
use annals::model::id::ProjectId;
use annals::model::lens::Project;

use crate::text::one_line;

/// Names of the projects of a home.
#[derive(Debug, Default)]
pub(crate) struct ProjectNames {
    by_id: BTreeMap<String, ProjectName>,
}

#[derive(Debug)]
struct ProjectName {
    short: String,
    path: String,
}

impl ProjectNames {
    /// The projects that a home has records of. A record that cannot be read leaves its project without a name.
    pub(crate) fn of(home: &dyn Read) -> ProjectNames {
        let records = home.projects().map(|found| found.value).unwrap_or_default();
        let mut by_id = BTreeMap::new();
        for record in &records {
            let project = record.document.lens::<Project<'_>>();
            let (Some(id), Some(path)) = (record.key.project(), project.worktree) else { continue };
            let path = one_line(&path.to_str());
            // The project without a repository has sessions in many directories.
            if id.as_str() == "global" || path == "/" {
                continue;
            }
            let given = project.name.map(|name| one_line(&name.to_str())).filter(|name| !name.is_empty());
            let short = given.unwrap_or_else(|| last_piece(&path).to_owned());
            by_id.insert(id.to_string(), ProjectName { short, path });
        }
        let mut n_called: HashMap<String, usize> = HashMap::new();
        for name in by_id.values() {
            *n_called.entry(name.short.clone()).or_default() += 1;
        }
        // Two that are called the same are told apart by the directory above.
        for name in by_id.values_mut().filter(|name| n_called[&name.short] > 1) {
            name.short = last_pieces(&name.path, 2).to_owned();
        }
        ProjectNames { by_id }
    }

    /// The name of a session's project, in a word or two. Outside of repositories it is the name of the session's directory.
    pub(crate) fn short(&self, project: &ProjectId, directory: Option<&str>) -> String {
        match (self.by_id.get(project.as_str()), directory) {
            (Some(name), _) => name.short.clone(),
            (None, Some(directory)) if !directory.is_empty() => one_line(last_piece(directory)),
            (None, _) => self.label(project.as_str()),
        }
    }

    /// The name of a project, in a word or two.
    pub(crate) fn label(&self, project: &str) -> String {
        match self.by_id.get(project) {
            Some(name) => name.short.clone(),
            None => project.chars().take(8).collect(),
        }
    }

    /// The working tree of a project.
    pub(crate) fn path(&self, project: &str) -> String {
        match self.by_id.get(project) {
            Some(name) => name.path.clone(),
            None if project == "global" => "(no repository)".to_owned(),
            None => project.to_owned(),
        }
    }
}

fn last_piece(path: &str) -> &str {
    last_pieces(path, 1)
}

/// The last pieces of a path.
fn last_pieces(path: &str, n: usize) -> &str {
    let trimmed = path.trim_end_matches('/');
    let begin = trimmed.rmatch_indices('/').nth(n - 1).map_or(0, |(at, _)| at + 1);
    match &trimmed[begin..] {
        "" => "/",
        piece => piece,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_named_by_their_end() {
        assert_eq!(last_pieces("/home/me/shop", 1), "shop");
        assert_eq!(last_pieces("/home/me/shop/", 2), "me/shop");
        assert_eq!(last_pieces("/", 1), "/");
        assert_eq!(last_pieces("shop", 2), "shop");
    }
}
