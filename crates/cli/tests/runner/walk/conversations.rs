//! Steps in which a person works on a conversation: forks it, reverts it, takes the revert back.

use serde_json::Value;

use super::content::{Content, Session};
use super::model::{Edit, Shown, holding};
use super::operations::check_content;
use super::random::Random;
use super::steps::MAX_SESSIONS;
use super::world::World;
use super::{Check, Failure};

impl World {
    /// A session is forked in every home at hand that has it.
    pub(super) fn step_fork(&mut self, random: &mut Random) -> Result<bool, Failure> {
        self.look();
        let has_room = self.at_hand().iter().all(|home| self.homes[*home].read().len() < MAX_SESSIONS);
        let fits = |id: &str, shown: &Shown| {
            !shown.session.messages.is_empty() && !holding(&self.homes, id).is_empty()
        };
        let Some((id, shown)) = self.some_shown(random, fits).filter(|_| has_room) else { return Ok(false) };
        let order = shown.session.order();
        // Before some message, or all.
        let cut = random.below(order.len() + 1);
        let mut arguments = vec!["fork", &id, "--json"];
        if let Some(message) = order.get(cut) {
            arguments.extend(["--at", message]);
        }
        let held = holding(&self.homes, &id);
        let (ran, before, after, mut operation) = self.operate(&arguments)?;
        let fork = ran.json()?["id"].as_str().unwrap_or_default().to_owned();
        for number in self.at_hand() {
            let what = format!("{}, in {}", ran.words, self.homes[number].name);
            let mut rest: Content = after.contents[number].clone();
            let copy = rest.remove(&fork);
            check_content(&what, &before.contents[number], &rest)?;
            match copy {
                Some(copy) if held.contains(&number) => {
                    check_copied(&what, &shown.session, &order[..cut], &copy)?;
                    operation.brought.push((number, fork.clone(), copy));
                }
                None if !held.contains(&number) => {}
                copy => {
                    let detail = format!("{what}: the fork is there: {}", copy.is_some());
                    return Err(Failure::new("fork: home", detail));
                }
            }
        }
        self.forked = self.author.now;
        operation.introduced.insert(fork.clone());
        operation.sessions.insert(fork);
        self.look();
        self.model.done(operation);
        Ok(true)
    }

    /// A session is reverted to one of its prompts.
    pub(super) fn step_revert(&mut self, random: &mut Random) -> Result<bool, Failure> {
        // The differences of a session go to a directory, also if that of an earlier version is away.
        if self.is_any_away() {
            return Ok(false);
        }
        self.look();
        let Some((id, shown)) = self.some_shown(random, |_, _| true) else { return Ok(false) };
        let Some((message, edit)) = self.revert_of(random, &id, &shown.session) else { return Ok(false) };
        self.edit_session(&["revert", &id, &message], &id, &edit)
    }

    /// A prompt to which a session can be reverted, and what that changes. None if somebody may be at work on the session.
    pub(super) fn revert_of(
        &self,
        random: &mut Random,
        id: &str,
        session: &Session,
    ) -> Option<(String, Edit)> {
        let is_busy = holding(&self.homes, id).iter().any(|home| is_open(&self.homes[*home].read()[id]));
        if is_busy || is_open(session) {
            return None;
        }
        let order = session.order();
        let prompts: Vec<&str> =
            order.iter().copied().filter(|message| session.messages[*message]["role"] == "user").collect();
        let message = (*random.pick(&prompts)?).to_owned();
        let first = order.iter().position(|other| **other == message).unwrap_or(0);
        let sums_up = !has_snapshots(session, &order[first..]);
        // Files are not asked for, so what an earlier revert did to them stays noted.
        let earlier = session.info.get("revert").cloned().unwrap_or_default();
        let edit = Edit::Revert { message: message.clone(), earlier, sums_up, now: self.author.now };
        Some((message, edit))
    }

    /// The revert of a session is taken back.
    pub(super) fn step_unrevert(&mut self, random: &mut Random) -> Result<bool, Failure> {
        self.look();
        let fits =
            |_: &str, shown: &Shown| shown.session.info.get("revert").is_some() && !is_open(&shown.session);
        let Some((id, _)) = self.some_shown(random, fits) else { return Ok(false) };
        if holding(&self.homes, &id).iter().any(|home| is_open(&self.homes[*home].read()[&id])) {
            return Ok(false);
        }
        self.edit_session(&["unrevert", &id], &id, &Edit::Unrevert { now: self.author.now })
    }
}

/// Whether somebody may be at work on a session.
fn is_open(session: &Session) -> bool {
    let is_open = |message: &&Value| {
        message["role"] == "assistant"
            && (message["time"]["completed"].is_null() || message["finish"] == "tool-calls")
    };
    let is_running =
        |part: &&Value| ["pending", "running"].iter().any(|status| part["state"]["status"] == *status);
    session.messages.values().any(|message| is_open(&message))
        || session.parts.values().any(|part| is_running(&part))
}

/// Whether work between two snapshots is among these messages. There are no snapshots here, so nobody can tell what it changed.
fn has_snapshots(session: &Session, messages: &[&str]) -> bool {
    let has = |kind: &str| {
        let mut parts = messages.iter().flat_map(|message| session.parts_of(message));
        parts.any(|part| part["type"] == kind && part["snapshot"].is_string())
    };
    has("step-start") && has("step-finish")
}

/// A fork has the first messages of its origin, with their times and texts.
fn check_copied(what: &str, origin: &Session, copied: &[&str], fork: &Session) -> Check {
    let outline = |session: &Session, messages: &[&str]| -> Vec<(Value, Value, Vec<Value>)> {
        let message = |id: &&str| {
            let message = &session.messages[*id];
            let texts = session.parts_of(id).into_iter().map(|part| part["text"].clone()).collect();
            (message["role"].clone(), message["time"]["created"].clone(), texts)
        };
        messages.iter().map(message).collect()
    };
    let (expected, got) = (outline(origin, copied), outline(fork, &fork.order()));
    if expected == got && fork.parent().is_none() {
        return Ok(());
    }
    Err(Failure::new("fork: content", format!("{what}: expected {expected:?}, got {got:?}")))
}
