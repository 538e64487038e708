//! One session from its first prompt to its last answer, its children included.

use super::catalog::{self, Model};
use super::home::Home;
use super::ids::{Kind, Mint};
use super::outline::{DAY, Family, Outline};
use super::project::Project;
use super::record::{self, Rule, Todo, VERSION};
use super::rng::{Rng, Stream};
use super::shell::iso;
use super::text::Author;
use super::words::Words;
use super::workspace::Workspace;
use super::{GenerateError, turn};

/// What all sessions share.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) words: Words,
    pub(crate) projects: Vec<Project>,
    pub(crate) seed: u64,
}

pub(crate) fn write_family(
    world: &World,
    home: &mut Home,
    mint: &mut Mint,
    family: &Family,
) -> Result<(), GenerateError> {
    let project = &world.projects[family.project];
    let mut session = Conversation::new(world, project, home, mint, family.root, family.start);
    session.agent = catalog::agent(&mut session.rng);
    session.model = Model::draw(&mut session.rng);
    session.edits = session.agent == "build" && session.rng.chance(0.6);
    session.plans = session.rng.chance(0.2);
    session.children = family.children.clone();
    session.write(family.root.n_messages, None)?;
    Ok(())
}

/// A session in progress. The turns and steps in the sibling modules read and advance its fields.
#[derive(Debug)]
pub(crate) struct Conversation<'w, 'h> {
    pub(crate) world: &'w World,
    pub(crate) home: &'h mut Home,
    pub(crate) mint: &'h mut Mint,
    pub(crate) rng: Rng,
    pub(crate) author: Author<'w>,
    pub(crate) workspace: Workspace<'w>,
    /// Milliseconds; only ever goes forward, so ids ascend in the order things happen.
    pub(crate) clock: u64,
    pub(crate) id: String,
    pub(crate) agent: &'static str,
    pub(crate) model: &'static Model,
    /// Tokens the model has read in earlier steps, and those it has yet to read.
    pub(crate) context: u64,
    pub(crate) unread: u64,
    /// Whether this session changes files at all.
    pub(crate) edits: bool,
    /// Whether it keeps a list of todos.
    pub(crate) plans: bool,
    pub(crate) todos: Vec<Todo>,
    /// Sessions still to be started by task calls.
    pub(crate) children: Vec<Outline>,
}

/// The task that a parent's task call gives to its child.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) parent: String,
    pub(crate) description: String,
    pub(crate) prompt: String,
}

/// A session that has ended.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) id: String,
    pub(crate) clock: u64,
    pub(crate) answer: String,
}

impl<'w, 'h> Conversation<'w, 'h> {
    pub(crate) fn new(
        world: &'w World,
        project: &'w Project,
        home: &'h mut Home,
        mint: &'h mut Mint,
        outline: Outline,
        clock: u64,
    ) -> Self {
        let mut rng = Rng::new(world.seed, Stream::Session, outline.index);
        let author = Author::new(&world.words, project.language, &mut rng);
        let workspace = Workspace::new(&world.words, project, world.seed, outline.n_messages, &mut rng);
        let id = mint.id(Kind::Session, clock, &mut rng);
        // A system prompt and the descriptions of the tools.
        let unread = rng.between(9_000, 14_000);
        Self {
            world,
            home,
            mint,
            author,
            workspace,
            clock,
            id,
            agent: "build",
            model: &catalog::MODELS[0],
            context: 0,
            unread,
            edits: false,
            plans: false,
            todos: Vec::new(),
            children: Vec::new(),
            rng,
        }
    }

    /// Writes all of it; a task comes from a parent and is the only prompt.
    pub(crate) fn write(mut self, n_messages: usize, task: Option<&Task>) -> Result<Done, GenerateError> {
        let created = self.clock;
        let turns = match task {
            Some(_) => vec![n_messages - 1],
            None => turn::lengths(&mut self.rng, n_messages, !self.children.is_empty()),
        };
        // Some sessions end in the middle of a call, because OpenCode was killed.
        let cut_off = task.is_none() && self.rng.chance(0.015);
        let mut nights = 2;
        let mut steps_left: usize = turns.iter().map(|n_steps| n_steps - 1).sum();
        let mut answer = String::new();
        let n_turns = turns.len();
        for (nth, n_steps) in turns.into_iter().enumerate() {
            if nth > 0 {
                self.pause(&mut nights);
                self.compact_if_full()?;
            }
            let ending = match task {
                Some(_) => turn::Ending::Answer,
                None => turn::Ending::draw(&mut self.rng, cut_off && nth + 1 == n_turns),
            };
            answer = self.turn(n_steps, steps_left, ending, task)?;
            steps_left -= n_steps - 1;
        }
        self.finish(created, task)?;
        Ok(Done { id: self.id, clock: self.clock, answer })
    }

    /// The person reads, thinks, tries things out, and sometimes comes back the next day.
    fn pause(&mut self, nights: &mut u32) {
        self.clock += self.rng.size(90_000.0, 1.3, 4_000, 3_600_000) as u64;
        if *nights > 0 && self.rng.chance(0.04) {
            *nights -= 1;
            self.clock += self.rng.between(DAY / 3, DAY * 5 / 6);
        }
    }

    /// Writes the records of the session as a whole, which depend on how it went.
    fn finish(&mut self, created: u64, task: Option<&Task>) -> Result<(), GenerateError> {
        if !self.todos.is_empty() {
            self.home.todos(&self.id, &self.todos)?;
        }
        let (summary, diffs) = self.workspace.session_changes();
        self.home.diff(&self.id, &diffs)?;
        let title = match task {
            Some(task) => format!("{} (@{} subagent)", task.description, self.agent),
            None if self.rng.chance(0.02) => format!("New session - {}", iso(created)),
            None => self.author.title(&mut self.rng),
        };
        let project = self.workspace.project;
        self.home.session(&record::Session {
            id: &self.id,
            slug: catalog::slug(&mut self.rng),
            version: VERSION,
            project_id: &project.id,
            directory: &project.directory,
            parent_id: task.map(|task| task.parent.as_str()),
            title,
            permission: task.map(|_| child_rules()),
            time: record::Updated { created, updated: self.clock },
            summary,
        })
    }
}

/// What a child session may not do; its prompt says the same.
pub(crate) const DENIED: [&str; 3] = ["todowrite", "todoread", "task"];

fn child_rules() -> Vec<Rule> {
    DENIED.map(|permission| Rule { permission, action: "deny", pattern: "*" }).into()
}
