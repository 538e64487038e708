//! At the end of a walk the real OpenCode opens the homes, and says the same as annals.

use std::path::Path;

use annals_testkit::files_below;
use annals_testkit::opencode::{Lab, OpenCode};
use serde_json::Value;

use super::agent::PROJECT;
use super::content::{Session, difference, same};
use super::homes::Kind;
use super::world::World;
use super::{Check, Failure};

/// Each export takes seconds.
const MAX_EXPORTS: usize = 2;

impl World {
    /// Lists and exports the sessions of every own home with the OpenCode that made it.
    pub(super) fn check_with_opencode(&mut self) -> Check {
        self.look();
        for number in self.at_hand() {
            let kind = self.homes[number].kind;
            let version = match kind {
                Kind::Directory => "1.1.65",
                Kind::Database12 => "1.2.27",
                Kind::Database18 => "1.18.33",
            };
            let lab = Lab::new(&OpenCode::version(version));
            copy_home(&self.homes[number].place, kind, &lab.data());
            let repository = lab.bind_project("pocket", PROJECT);
            let listed = lab.session_list(&repository);
            let sessions = self.homes[number].read();
            let roots = sessions
                .iter()
                .filter(|(_, session)| session.parent().is_none() && session.info["projectID"] == PROJECT);
            let mut expected: Vec<(&str, &str, i64)> =
                roots.map(|(id, session)| (id.as_str(), session.title(), session.updated())).collect();
            let row = |row: &'_ Value| {
                (
                    row["id"].as_str().unwrap().to_owned(),
                    row["title"].as_str().unwrap().to_owned(),
                    row["updated"].as_i64().unwrap(),
                )
            };
            let mut got: Vec<_> = listed.as_array().unwrap().iter().map(row).collect();
            expected.sort_unstable();
            got.sort_unstable();
            let borrowed: Vec<(&str, &str, i64)> =
                got.iter().map(|(id, title, updated)| (id.as_str(), title.as_str(), *updated)).collect();
            if borrowed != expected {
                let detail = format!("OpenCode {version} lists {borrowed:?}, not {expected:?}");
                return Err(Failure::new("OpenCode: list", detail));
            }
            let n_holding = |id: &String| self.homes.iter().filter(|home| home.look.contains_key(id)).count();
            let is_shown = |id: &String, session: &&Session| {
                session.info["projectID"] == PROJECT
                    && n_holding(id) == 1
                    && self.model.shown(&self.homes, id).is_some_and(|shown| !shown.is_edited)
            };
            let mut ids: Vec<String> = sessions
                .iter()
                .filter(|(id, session)| is_shown(id, session))
                .map(|(id, _)| id.clone())
                .collect();
            ids.sort_by_key(|id| std::cmp::Reverse(sessions[id].updated()));
            for id in ids.iter().take(MAX_EXPORTS) {
                let theirs: Value = serde_json::from_slice(&lab.export(&repository, id)).unwrap();
                let ours = self.annals(&["export", id])?.json()?;
                if !same(&theirs, &ours) {
                    let detail = format!("OpenCode {version}, {id}{}", difference(&theirs, &ours));
                    return Err(Failure::new("OpenCode: export", detail));
                }
            }
        }
        Ok(())
    }
}

fn copy_home(place: &Path, kind: Kind, data: &Path) {
    std::fs::create_dir_all(data).unwrap();
    if kind.is_database() {
        for suffix in ["", "-wal"] {
            let from = format!("{}{suffix}", place.display());
            if Path::new(&from).exists() {
                std::fs::copy(from, data.join(format!("opencode.db{suffix}"))).unwrap();
            }
        }
        return;
    }
    for file in files_below(place) {
        let to = data.join("storage").join(file.strip_prefix(place).unwrap());
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::copy(&file, to).unwrap();
    }
}
