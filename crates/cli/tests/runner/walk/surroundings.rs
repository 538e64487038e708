//! Steps in which the surroundings change: homes move and vanish, the clock jumps, commands run at once or are killed, and
//! OpenCode writes while annals reads.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::content::Content;
use super::homes::Owner;
use super::model::{Edit, Operation, Shown, holding};
use super::operations::check_content;
use super::random::Random;
use super::steps::id;
use super::world::World;
use super::{Check, Failure};

const DAY: i64 = 86_400_000;

impl World {
    /// The data directory goes to another place, and XDG_DATA_HOME says so.
    pub(super) fn step_move(&mut self, _: &mut Random) -> Result<bool, Failure> {
        if self.is_any_away() {
            return Ok(false);
        }
        self.n_places += 1;
        let to = self.root().join(format!("data-{}", self.n_places));
        std::fs::rename(&self.data, &to).unwrap();
        let from = std::mem::replace(&mut self.data, to.clone());
        for home in self.homes.iter_mut().filter(|home| home.owner == Owner::Own) {
            home.place = to.join(home.place.strip_prefix(&from).unwrap());
        }
        self.person.data = to.clone();
        self.note(format!("to {}", to.display()));
        Ok(true)
    }

    /// XDG_DATA_HOME leads to the data directory through a link.
    pub(super) fn step_link(&mut self, _: &mut Random) -> Result<bool, Failure> {
        self.n_places += 1;
        let link = self.root().join(format!("link-{}", self.n_places));
        std::os::unix::fs::symlink(&self.data, &link).unwrap();
        self.person.data = link.clone();
        self.note(format!("{} to {}", link.display(), self.data.display()));
        Ok(true)
    }

    /// Homes are not where they were: the whole data directory of OpenCode, or one of two homes in it.
    pub(super) fn step_vanish(&mut self, random: &mut Random) -> Result<bool, Failure> {
        if self.is_any_away() {
            return Ok(false);
        }
        self.settle()?;
        let own = self.at_hand();
        let going = match own.len() {
            2.. if random.one_in(2) => vec![*random.pick(&own).unwrap()],
            _ => own,
        };
        let away = self.root().join("away");
        std::fs::create_dir_all(&away).unwrap();
        for number in &going {
            let home = &mut self.homes[*number];
            let to = away.join(home.kind.file_name());
            relocate(&home.place, &to);
            home.place = to;
            home.is_away = true;
        }
        let opencode = self.data.join("opencode");
        if self.at_hand().is_empty() && random.one_in(2) {
            std::fs::rename(&opencode, away.join("opencode")).unwrap();
        }
        let names: Vec<&str> = going.iter().map(|number| self.homes[*number].name).collect();
        self.note(names.join(" and "));
        Ok(true)
    }

    /// Homes that vanished are back, sometimes with something new in them.
    pub(super) fn step_return(&mut self, random: &mut Random) -> Result<bool, Failure> {
        if !self.is_any_away() {
            return Ok(false);
        }
        if random.one_in(2) {
            let away: Vec<usize> =
                (0..self.homes.len()).filter(|number| self.homes[*number].is_away).collect();
            let home = *random.pick(&away).unwrap();
            let sessions: Vec<_> = self.homes[home].read().into_values().collect();
            if let Some(session) = random.pick(&sessions) {
                self.note(format!("a prompt in {} meanwhile, in {}", id(session), self.homes[home].name));
                let writes = self.author.prompt(session);
                self.author.write(&self.homes[home], &writes);
            }
        }
        self.bring_back()?;
        Ok(true)
    }

    /// Puts every home back where it belongs.
    pub(super) fn bring_back(&mut self) -> Check {
        let opencode = self.data.join("opencode");
        let kept = self.root().join("away/opencode");
        if kept.exists() {
            if opencode.exists() {
                let detail = format!("annals made {} while it was away", opencode.display());
                return Err(Failure::new("return", detail));
            }
            std::fs::rename(kept, &opencode).unwrap();
        }
        for home in self.homes.iter_mut().filter(|home| home.is_away) {
            let to = opencode.join(home.kind.file_name());
            if to.exists() {
                let detail = format!("annals made {} while it was away", to.display());
                return Err(Failure::new("return", detail));
            }
            relocate(&home.place, &to);
            home.place = to;
            home.is_away = false;
        }
        self.is_settled = false;
        Ok(())
    }

    /// The clock jumps, for annals and for OpenCode.
    pub(super) fn step_clock(&mut self, random: &mut Random) -> Result<bool, Failure> {
        // Before the real present, so that files which annals writes never look old.
        let days = random.below(55) as i64 - 20;
        let time = self.layout.start + days * DAY + random.below(DAY as usize) as i64;
        self.author.now = time.max(self.forked);
        self.note(format!("day {days}"));
        Ok(true)
    }

    /// Several commands at once. All succeed, and all is seen afterwards.
    pub(super) fn step_together(&mut self, random: &mut Random) -> Result<bool, Failure> {
        self.look();
        let now = self.author.now;
        let word = random.pick(&self.author.words).cloned().unwrap_or_default();
        let readers: [&[&str]; 4] =
            [&["list", "--json"], &["sync"], &["search", &word, "--json"], &["stats", "--json"]];
        let is_without_homes = self.at_hand().is_empty();
        let mut commands: Vec<Vec<String>> = Vec::new();
        for _ in 0..1 + random.below(3) {
            let reader = random.pick(&readers).unwrap();
            if !(is_without_homes && reader[0] == "sync") {
                commands.push(reader.iter().map(|word| (*word).to_owned()).collect());
            }
        }
        let mut edits: Vec<(String, Edit)> = Vec::new();
        if random.one_in(2)
            && let Some((id, _)) = self.some_shown(random, |_, _| true)
        {
            let title = self.author.title();
            commands.push(["rename", &id, &title].map(str::to_owned).to_vec());
            edits.push((id, Edit::Title(title)));
        }
        let fits = |id: &str, shown: &Shown| {
            shown.session.archived().is_none() && edits.iter().all(|(other, _)| other != id)
        };
        if random.one_in(4)
            && let Some((id, _)) = self.some_shown(random, fits)
        {
            commands.push(["archive", &id].map(str::to_owned).to_vec());
            edits.push((id, Edit::Archived(Some(now))));
        }
        let start = random.below(commands.len());
        commands.rotate_left(start);
        self.note(commands.iter().map(|command| command.join(" ")).collect::<Vec<_>>().join(" & "));
        let before = self.around();
        let running: Vec<_> = commands
            .iter()
            .map(|command| self.person.start(now, &command.iter().map(String::as_str).collect::<Vec<_>>()))
            .collect();
        let ran = running.into_iter().map(|running| running.wait()).collect::<Vec<_>>();
        let mut number = None;
        for ran in ran {
            let ran = ran?;
            // While another command adds to the text index, a search may say that it lacks something.
            let is_behind = ran.code == Some(3) && ran.stderr.contains("the text index lacks");
            if ran.code != Some(0) && !is_behind {
                return Err(Failure::new("together", ran.describe()));
            }
            number = number.or(ran.operation());
        }
        let after = self.around();
        self.check_spared("commands at once", &before, &after)?;
        self.check_edits("commands at once", &before, &after, &edits)?;
        self.look();
        let mut operation =
            Operation::observed("one of several at once", number, &before.bytes, &after.bytes);
        for (id, edit) in &edits {
            operation.local.extend(self.model.edited(&self.homes, id, edit));
            operation.sessions.insert(id.clone());
        }
        match edits.len() {
            0 => {}
            1 => self.model.done(operation),
            // Which came last is not known.
            _ => self.model.done_in_some_order(),
        }
        Ok(true)
    }

    /// A command is killed. The next one finds everything as before it, or as after it.
    pub(super) fn step_kill(&mut self, random: &mut Random) -> Result<bool, Failure> {
        self.look();
        if self.at_hand().is_empty() || self.is_any_away() {
            return Ok(false);
        }
        let now = self.author.now;
        let word = random.pick(&self.author.words).cloned().unwrap_or_default();
        let fits = |id: &str, _: &Shown| !holding(&self.homes, id).is_empty();
        let Some((id, shown)) = self.some_shown(random, fits) else { return Ok(false) };
        let title = self.author.title();
        let family = self.family_to_remove(&id);
        let revert = self.revert_of(random, &id, &shown.session);
        let mut edit = None;
        let command: Vec<&str> = match random.below(8) {
            0 | 1 => {
                edit = Some(Edit::Title(title.clone()));
                vec!["rename", &id, &title]
            }
            2 => {
                edit = Some(Edit::Archived(Some(now)));
                vec!["archive", &id]
            }
            3 if family.is_some() => vec!["rm", "--yes", &id],
            4 => vec!["search", &word, "--json"],
            6 | 7 if let Some((message, reverted)) = &revert => {
                edit = Some(reverted.clone());
                vec!["revert", &id, message]
            }
            _ => vec!["sync"],
        };
        let removes = command[0] == "rm";
        self.note(command.join(" "));
        // So that what is kept of a session that goes is what there was.
        if removes {
            self.settle()?;
        }
        let before = self.around();
        let running = self.person.start(now, &command);
        std::thread::sleep(Duration::from_micros(random.below(70_000) as u64));
        let killed = running.kill();
        let words = format!("killed: {}", killed.words);
        // The next command puts things in order.
        let next = self.person.run(now, &["list", "--json"])?;
        if next.code != Some(0) {
            return Err(Failure::new("kill: next", format!("{words}, then {}", next.describe())));
        }
        let after = self.around();
        self.check_spared(&words, &before, &after)?;
        let carried_out = |content: &Content| {
            let mut content = content.clone();
            if let (true, Some(family)) = (removes, &family) {
                content.retain(|id, _| !family.contains(id));
            }
            if let (Some(edit), Some(session)) = (&edit, content.get_mut(&id)) {
                edit.apply(session);
            }
            content
        };
        let is_as_before = before.bytes == after.bytes;
        if !is_as_before {
            for number in self.at_hand() {
                let what = format!("{words}: neither as before nor done, in {}", self.homes[number].name);
                check_content(&what, &carried_out(&before.contents[number]), &after.contents[number])
                    .map_err(|failure| Failure::new("kill: half", failure.to_string()))?;
            }
            let mut operation = Operation::observed(&words, killed.operation(), &before.bytes, &after.bytes);
            self.look();
            match edit {
                Some(edit) => {
                    operation.local.extend(self.model.edited(&self.homes, &id, &edit));
                    operation.sessions.insert(id.clone());
                }
                None => {
                    operation.sessions = family.unwrap_or_default();
                }
            }
            self.model.done(operation);
        } else if edit.is_some() || removes {
            // Nothing has changed in any home, but it may be that this was all there was to do.
            self.model.done_in_some_order();
        }
        Ok(true)
    }

    /// OpenCode writes while annals reads. Whatever the readers saw, the next command sees it all.
    pub(super) fn step_beside(&mut self, random: &mut Random) -> Result<bool, Failure> {
        let Some((home, session)) = self.some_session(random) else { return Ok(false) };
        let now = self.author.now;
        let word = random.pick(&self.author.words).cloned().unwrap_or_default();
        let readers: [&[&str]; 4] =
            [&["list", "--json"], &["sync"], &["search", &word, "--json"], &["stats", "--json"]];
        let commands: Vec<&[&str]> =
            (0..1 + random.below(3)).map(|_| *random.pick(&readers).unwrap()).collect();
        self.note(format!("{} in {} beside {commands:?}", id(&session), self.homes[home].name));
        let running: Vec<_> = commands.iter().map(|command| self.person.start(now, command)).collect();
        std::thread::sleep(Duration::from_micros(random.below(40_000) as u64));
        let writes = match random.below(3) {
            0 => self.author.rename(&session),
            1 if self.homes[home].kind.tells_edits() => self.author.edit_part(&session).unwrap_or_default(),
            _ => self.author.prompt(&session),
        };
        self.author.write(&self.homes[home], &writes);
        self.is_settled = false;
        for running in running {
            let ran = running.wait()?;
            // A file that is half written when it is read may be reported.
            if !matches!(ran.code, Some(0 | 3)) {
                return Err(Failure::new("beside", ran.describe()));
            }
        }
        Ok(true)
    }
}

/// Moves a directory or a database with its log.
fn relocate(from: &Path, to: &Path) {
    for suffix in ["", "-wal", "-shm"] {
        let with = |path: &Path| PathBuf::from(format!("{}{suffix}", path.display()));
        if with(from).exists() {
            std::fs::rename(with(from), with(to)).unwrap();
        }
    }
}
