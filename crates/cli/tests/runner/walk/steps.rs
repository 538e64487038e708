//! The table of steps, and those in which OpenCode writes.

use super::agent::Write;
use super::compare::Depth;
use super::content::Session;
use super::homes::Owner;
use super::random::Random;
use super::world::World;
use super::{Check, Failure};

/// One kind of step. It says whether it could be taken: not every step makes sense at every moment.
type Step = fn(&mut World, &mut Random) -> Result<bool, Failure>;

/// Limits that keep homes small, so that steps are quick.
pub(super) const MAX_SESSIONS: usize = 12;
const MAX_MESSAGES: usize = 10;

/// Every step with its weight and its name, by which ANNALS_WALK_WITHOUT and ANNALS_WALK_ONLY know it.
pub(super) const STEPS: &[(usize, (&str, Step))] = &[
    (12, ("prompt", prompt)),
    (4, ("new", new_session)),
    (2, ("child", child_session)),
    (4, ("stream", stream)),
    (7, ("edit", edit_part)),
    (4, ("agent-rename", agent_rename)),
    (2, ("agent-archive", agent_archive)),
    (4, ("delete-message", delete_message)),
    (3, ("revert", revert)),
    (3, ("delete-session", delete_session)),
    (2, ("todo", todos)),
    (1, ("diff", diff)),
    (4, ("foreign", foreign_write)),
    (2, ("sync", World::step_sync)),
    (1, ("sync-full", World::step_sync_full)),
    (3, ("sync-foreign", World::step_sync_foreign)),
    (7, ("rename", World::step_rename)),
    (3, ("archive", World::step_archive)),
    (3, ("unarchive", World::step_unarchive)),
    (4, ("rm", World::step_rm)),
    (9, ("undo", World::step_undo)),
    (3, ("undo-number", World::step_undo_number)),
    (4, ("copy", World::step_copy)),
    (2, ("export", World::step_export)),
    (3, ("import", World::step_import)),
    (3, ("restore", World::step_restore)),
    (4, ("fork", World::step_fork)),
    (4, ("annals-revert", World::step_revert)),
    (4, ("unrevert", World::step_unrevert)),
    (1, ("forget", World::step_forget)),
    (1, ("move", World::step_move)),
    (1, ("link", World::step_link)),
    (2, ("vanish", World::step_vanish)),
    (4, ("return", World::step_return)),
    (2, ("clock", World::step_clock)),
    (4, ("together", World::step_together)),
    (4, ("kill", World::step_kill)),
    (4, ("beside", World::step_beside)),
];

impl World {
    /// Takes one step of the given kinds, and compares everything cheap afterwards.
    pub(super) fn step(
        &mut self,
        number: usize,
        random: &mut Random,
        steps: &[(usize, (&str, Step))],
    ) -> Check {
        self.author.now += 1 + random.below(60_000) as i64;
        self.author.random = Random::new(random.next());
        for _ in 0..12 {
            let Some((name, step)) = random.weighted(steps) else { break };
            self.log.push(format!("{number} {name}"));
            if step(self, random)? {
                break;
            }
            // It did nothing, so it is not part of the story.
            self.log.pop();
        }
        self.check(random, Depth::Usual)
    }

    /// OpenCode writes to a home.
    fn write(&mut self, home: usize, writes: &[Write]) {
        self.author.write(&self.homes[home], writes);
        self.is_settled = false;
    }

    /// A session of a home, picked at random.
    fn session_of(
        &self,
        home: usize,
        random: &mut Random,
        fits: impl Fn(&Session) -> bool,
    ) -> Option<Session> {
        let sessions: Vec<Session> = self.homes[home].read().into_values().filter(fits).collect();
        random.pick(&sessions).cloned()
    }

    /// An own home at hand and one of its sessions.
    pub(super) fn some_session(&self, random: &mut Random) -> Option<(usize, Session)> {
        let home = *random.pick(&self.at_hand())?;
        let session = self.session_of(home, random, |session| session.messages.len() < MAX_MESSAGES)?;
        Some((home, session))
    }

    /// Writes what an author makes of a session.
    fn edit(
        &mut self,
        random: &mut Random,
        make: impl Fn(&mut super::agent::Author, &Session) -> Option<Vec<Write>>,
    ) -> Result<bool, Failure> {
        let Some((home, session)) = self.some_session(random) else { return Ok(false) };
        let Some(writes) = make(&mut self.author, &session) else { return Ok(false) };
        self.note(format!("{} in {}", id(&session), self.homes[home].name));
        self.write(home, &writes);
        Ok(true)
    }
}

/// The id of a session.
pub(super) fn id(session: &Session) -> &str {
    session.info["id"].as_str().unwrap()
}

fn prompt(world: &mut World, random: &mut Random) -> Result<bool, Failure> {
    world.edit(random, |author, session| Some(author.prompt(session)))
}

fn new_session(world: &mut World, random: &mut Random) -> Result<bool, Failure> {
    let Some(home) = random.pick(&world.at_hand()).copied() else { return Ok(false) };
    if world.homes[home].read().len() >= MAX_SESSIONS {
        return Ok(false);
    }
    let (id, writes) = world.author.new_session(None);
    world.note(format!("{id} in {}", world.homes[home].name));
    world.write(home, &writes);
    Ok(true)
}

fn child_session(world: &mut World, random: &mut Random) -> Result<bool, Failure> {
    let Some((home, parent)) = world.some_session(random) else { return Ok(false) };
    if world.homes[home].read().len() >= MAX_SESSIONS {
        return Ok(false);
    }
    let (child, writes) = world.author.new_session(Some(id(&parent)));
    world.note(format!("{child} of {} in {}", id(&parent), world.homes[home].name));
    world.write(home, &writes);
    Ok(true)
}

/// An answer grows, and somebody looks in between.
fn stream(world: &mut World, random: &mut Random) -> Result<bool, Failure> {
    let Some((home, session)) = world.some_session(random) else { return Ok(false) };
    world.note(format!("{} in {}", id(&session), world.homes[home].name));
    for state in world.author.stream(&session) {
        world.write(home, &state);
        if random.one_in(2) {
            let command: &[&str] =
                random.pick(&[&["list", "--json"][..], &["sync"], &["stats", "--json"]]).unwrap();
            world.annals(command)?;
        }
    }
    Ok(true)
}

fn edit_part(world: &mut World, random: &mut Random) -> Result<bool, Failure> {
    let Some((home, session)) = world.some_session(random) else { return Ok(false) };
    let Some(writes) = world.author.edit_part(&session) else { return Ok(false) };
    world.note(format!("{} in {}", id(&session), world.homes[home].name));
    world.write(home, &writes);
    if !world.homes[home].kind.tells_edits() {
        world.annals(&["sync", "--full"])?;
    }
    Ok(true)
}

fn agent_rename(world: &mut World, random: &mut Random) -> Result<bool, Failure> {
    world.edit(random, |author, session| Some(author.rename(session)))
}

fn agent_archive(world: &mut World, random: &mut Random) -> Result<bool, Failure> {
    world.edit(random, |author, session| Some(author.archive(session)))
}

fn delete_message(world: &mut World, random: &mut Random) -> Result<bool, Failure> {
    world.edit(random, |author, session| author.delete_message(session))
}

fn revert(world: &mut World, random: &mut Random) -> Result<bool, Failure> {
    world.edit(random, |author, session| author.revert(session))
}

fn todos(world: &mut World, random: &mut Random) -> Result<bool, Failure> {
    world.edit(random, |author, session| Some(author.todos(session)))
}

fn diff(world: &mut World, random: &mut Random) -> Result<bool, Failure> {
    world.edit(random, |author, session| Some(author.diff(session)))
}

/// OpenCode deletes a session. What annals has seen of it by then is what it keeps.
fn delete_session(world: &mut World, random: &mut Random) -> Result<bool, Failure> {
    let Some(home) = random.pick(&world.at_hand()).copied() else { return Ok(false) };
    if world.homes[home].read().len() < 4 {
        return Ok(false);
    }
    let Some(session) = world.session_of(home, random, |_| true) else { return Ok(false) };
    world.settle()?;
    world.note(format!("{} in {}", id(&session), world.homes[home].name));
    world.write(home, &[Write::DeleteSession(id(&session).to_owned())]);
    Ok(true)
}

/// Somebody else works in the foreign home. Annals sees it at the next `sync --home`.
fn foreign_write(world: &mut World, random: &mut Random) -> Result<bool, Failure> {
    let Some(home) = world.foreign() else { return Ok(false) };
    assert_eq!(world.homes[home].owner, Owner::Foreign);
    let Some(session) = world.session_of(home, random, |session| session.messages.len() < MAX_MESSAGES)
    else {
        return Ok(false);
    };
    let writes = match random.below(6) {
        0 => world.author.rename(&session),
        1 => {
            world.is_foreign_edited = true;
            world.author.edit_part(&session).unwrap_or_default()
        }
        2 if world.homes[home].read().len() > 3 => vec![Write::DeleteSession(id(&session).to_owned())],
        3 => world.author.delete_message(&session).unwrap_or_default(),
        _ => world.author.prompt(&session),
    };
    world.note(format!("{}: {}", id(&session), writes.len()));
    // What annals has seen of other homes stays what it was.
    let is_settled = world.is_settled;
    world.write(home, &writes);
    world.is_settled = is_settled;
    Ok(true)
}
