//! The world of a walk: homes, the person, the clock, the model. Builds the homes that a walk begins with.

use std::path::{Path, PathBuf};

use annals_testkit::{Fixture, files_below};
use serde_json::json;
use tempfile::TempDir;

use super::agent::{Author, PROJECT, date};
use super::content::Session;
use super::homes::{Home, Kind, Owner};
use super::model::Model;
use super::person::{Person, Ran};
use super::random::Random;
use super::{Check, Failure};

/// What a walk begins with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    pub(super) name: &'static str,
    pub(super) own: &'static [Kind],
    pub(super) foreign: Option<Kind>,
    /// Whether ANNALS_STORE says where the store is. Otherwise it is in the data directory, and moves with it.
    pub(super) names_store: bool,
    /// The first moment, in milliseconds. Later ids are from the same era as those of the fixtures: before or after
    /// August 2026.
    pub(super) start: i64,
}

/// Sessions of the 1.1.65 fixture with tools, todo lists and sessions they started.
const FIXTURE_SESSIONS: [&str; 4] = [
    "ses_385744ad0ffeWgvBCB6JclCZJ1",
    "ses_37f7fe572ffeneN4vs3kZeD3a3",
    "ses_37f7fe445ffejN1QLm1a4Kx9Lj",
    "ses_37f7fe443ffedE4o7LMHbx4hmy",
];

/// An export that was kept.
#[derive(Debug, Clone)]
pub(super) struct Export {
    pub(super) session: String,
    pub(super) file: PathBuf,
    pub(super) content: Session,
}

/// Everything there is.
#[derive(Debug)]
pub(super) struct World {
    pub(super) dir: TempDir,
    pub(super) layout: Layout,
    pub(super) homes: Vec<Home>,
    pub(super) person: Person,
    pub(super) author: Author,
    pub(super) model: Model,
    /// The directory that XDG_DATA_HOME leads to.
    pub(super) data: PathBuf,
    pub(super) exports: Vec<Export>,
    /// Revisions of the store, with the sessions as they were shown then.
    pub(super) moments: Vec<(i64, super::content::Content)>,
    /// Whether annals has seen every document as it is now.
    pub(super) is_settled: bool,
    /// Whether a part of the foreign home was rewritten without a trace.
    pub(super) is_foreign_edited: bool,
    pub(super) n_places: usize,
    /// When annals last made a fork. A directory orders messages by their ids, so that a clock that is set back before that would put what
    /// follows in front of the copies.
    pub(super) forked: i64,
    pub(super) log: Vec<String>,
}

impl World {
    pub(super) fn new(layout: Layout, seed: u64) -> World {
        let dir = temporary();
        let root = dir.path().canonicalize().unwrap();
        let data = root.join("data");
        let store = layout.names_store.then(|| root.join("store/annals.db"));
        let mut author = Author::new(layout.start);
        author.random = Random::new(seed);
        let mut homes = Vec::new();
        for kind in layout.own {
            let name = if kind.is_database() { "the database" } else { "the directory" };
            homes.push(furnish(name, *kind, Owner::Own, &data.join("opencode"), &mut author));
        }
        if layout.own == [Kind::Directory] {
            copy_fixture_sessions(&homes[0].place, layout.start);
        }
        let share = |from: &Home, to: &Home, n: usize, author: &mut Author| {
            // The latest are those that the walk has made.
            let mut sessions: Vec<Session> = from.read().into_values().collect();
            sessions.sort_by_key(Session::updated);
            for session in sessions.iter().rev().take(n) {
                author.take_over(to, session);
            }
        };
        if let [first, second] = &homes[..] {
            share(first, second, 2, &mut author);
        }
        if let Some(kind) = layout.foreign {
            let foreign = furnish(
                "the foreign home",
                kind,
                Owner::Foreign,
                &root.join("elsewhere/opencode"),
                &mut author,
            );
            share(&homes[0], &foreign, 2, &mut author);
            homes.push(foreign);
        }
        let person = Person::new(&root, &data, store);
        World {
            dir,
            layout,
            homes,
            person,
            author,
            model: Model::default(),
            data,
            exports: Vec::new(),
            moments: Vec::new(),
            is_settled: false,
            is_foreign_edited: false,
            n_places: 0,
            forked: 0,
            log: Vec::new(),
        }
    }

    pub(super) fn root(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap()
    }

    pub(super) fn note(&mut self, line: impl Into<String>) {
        self.log.push(format!("    {}", line.into()));
    }

    /// Runs a command that must do all it was asked to.
    pub(super) fn annals(&mut self, arguments: &[&str]) -> Result<Ran, Failure> {
        self.person.done(self.author.now, arguments)
    }

    /// Annals looks at every document of every home at hand.
    pub(super) fn sync(&mut self) -> Check {
        // Without any home there is nothing to bring up to date, and annals says so.
        if !self.at_hand().is_empty() {
            self.annals(&["sync"])?;
        }
        self.look();
        self.is_settled = true;
        Ok(())
    }

    /// Lets annals see everything as it is, before something goes away.
    pub(super) fn settle(&mut self) -> Check {
        if self.is_settled { Ok(()) } else { self.sync() }
    }

    pub(super) fn look(&mut self) {
        self.model.look(&mut self.homes);
    }

    pub(super) fn is_any_away(&self) -> bool {
        self.homes.iter().any(|home| home.is_away)
    }

    /// Numbers of the own homes that annals finds.
    pub(super) fn at_hand(&self) -> Vec<usize> {
        let homes = self.homes.iter().enumerate();
        homes.filter(|(_, home)| home.is_at_hand()).map(|(number, _)| number).collect()
    }

    pub(super) fn foreign(&self) -> Option<usize> {
        self.homes.iter().position(|home| home.owner == Owner::Foreign)
    }
}

/// A directory in memory where there is one: annals syncs every commit to the disk, and a walk is about what commands say,
/// not about power cuts.
fn temporary() -> TempDir {
    let memory = Path::new("/dev/shm");
    let builder = || {
        let mut builder = tempfile::Builder::new();
        builder.prefix("annals-walk-");
        builder
    };
    builder().tempdir_in(memory).or_else(|_| builder().tempdir()).unwrap()
}

/// Makes a home with a few sessions.
fn furnish(name: &'static str, kind: Kind, owner: Owner, data: &Path, author: &mut Author) -> Home {
    std::fs::create_dir_all(data).unwrap();
    let home = Home::new(name, kind, owner, data);
    match kind {
        Kind::Directory => {
            std::fs::create_dir_all(home.place.join("project")).unwrap();
            let project = json!({"id": PROJECT, "worktree": "/home/dev/projects/pocket", "vcs": "git", "sandboxes": [],
                "time": {"created": 1_771_232_402_004_i64, "updated": 1_771_232_402_004_i64}});
            let text = serde_json::to_string_pretty(&project).unwrap();
            std::fs::write(home.place.join(format!("project/{PROJECT}.json")), text).unwrap();
            std::fs::write(home.place.join("migration"), "2").unwrap();
        }
        Kind::Database12 | Kind::Database18 => {
            let version = if kind == Kind::Database12 { "small-1.2.27" } else { "small-1.18.33" };
            let fixture = Fixture::unpack(version);
            std::fs::copy(fixture.home().join("opencode.db"), &home.place).unwrap();
        }
    }
    for _ in 0..if kind.is_database() { 2 } else { 4 } {
        let (_, writes) = author.new_session(None);
        author.write(&home, &writes);
    }
    home
}

fn copy_fixture_sessions(storage: &Path, now: i64) {
    let fixture = Fixture::unpack("opencode-1.1.65");
    let from = fixture.home().join("storage");
    let mut messages = Vec::new();
    for session in FIXTURE_SESSIONS {
        if let Ok(entries) = std::fs::read_dir(from.join("message").join(session)) {
            messages.extend(entries.map(|entry| entry.unwrap().path().file_stem().unwrap().to_owned()));
        }
    }
    for file in files_below(&from) {
        let name = file.strip_prefix(&from).unwrap();
        let is_wanted = name.starts_with("project")
            || FIXTURE_SESSIONS.iter().any(|session| name.to_str().unwrap().contains(session))
            || messages.iter().any(|message| name.parent().is_some_and(|parent| parent.ends_with(message)));
        if is_wanted {
            std::fs::create_dir_all(storage.join(name).parent().unwrap()).unwrap();
            std::fs::copy(&file, storage.join(name)).unwrap();
            date(&storage.join(name), now);
            date(storage.join(name).parent().unwrap(), now);
        }
    }
}
