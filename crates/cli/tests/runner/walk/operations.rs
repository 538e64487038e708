//! Steps in which a person asks annals for something, and what has to come of it in the homes.

use std::collections::BTreeSet;

use super::content::{Content, Session, family, same};
use super::homes::{Bytes, Home};
use super::model::{Edit, Model, Operation, Shown, Verdict, holding, is_document, is_held_elsewhere};
use super::person::Ran;
use super::random::Random;
use super::world::{Export, World};
use super::{Check, Failure};

/// The state of all homes around a command.
pub(super) struct Around {
    pub(super) bytes: Vec<Bytes>,
    pub(super) contents: Vec<Content>,
}

impl World {
    pub(super) fn around(&self) -> Around {
        Around { bytes: self.bytes(), contents: self.homes.iter().map(Home::read).collect() }
    }

    /// Runs a command that changes something, and gives what it changed. Homes that annals must not write to are the same.
    pub(super) fn operate(
        &mut self,
        arguments: &[&str],
    ) -> Result<(Ran, Around, Around, Operation), Failure> {
        let before = self.around();
        self.note(arguments.join(" "));
        let ran = self.annals(arguments)?;
        let after = self.around();
        self.check_spared(&ran.words, &before, &after)?;
        let operation = Operation::observed(&ran.words, ran.operation(), &before.bytes, &after.bytes);
        Ok((ran, before, after, operation))
    }

    /// Foreign homes and homes that are away are what they were.
    pub(super) fn check_spared(&self, words: &str, before: &Around, after: &Around) -> Check {
        for (number, home) in self.homes.iter().enumerate().filter(|(_, home)| !home.is_at_hand()) {
            if let Some(changes) = super::compare::changes(&before.bytes[number], &after.bytes[number]) {
                return Err(Failure::new(
                    "bytes: not ours",
                    format!("{words} changed {}: {changes}", home.name),
                ));
            }
        }
        Ok(())
    }

    /// Every own home at hand is what it was, but for the given edits of session documents.
    pub(super) fn check_edits(
        &self,
        words: &str,
        before: &Around,
        after: &Around,
        edits: &[(String, Edit)],
    ) -> Check {
        for number in self.at_hand() {
            let mut expected = before.contents[number].clone();
            for (id, edit) in edits {
                if let Some(session) = expected.get_mut(id) {
                    edit.apply(session);
                }
            }
            let what = || format!("{words}, in {}", self.homes[number].name);
            check_content(&what(), &expected, &after.contents[number])?;
            let ids: Vec<&String> = edits.iter().map(|(id, _)| id).collect();
            let operation = Operation::observed(
                words,
                None,
                &before.bytes[number..=number],
                &after.bytes[number..=number],
            );
            let other = operation
                .touched
                .keys()
                .find(|(_, name)| !ids.iter().any(|id| name.contains(id.as_str())) && is_document(name));
            if let Some((_, name)) = other {
                return Err(Failure::new("operation: too much", format!("{}: {name} has changed", what())));
            }
        }
        Ok(())
    }

    /// A session that is shown.
    pub(super) fn some_shown(
        &self,
        random: &mut Random,
        fits: impl Fn(&str, &Shown) -> bool,
    ) -> Option<(String, Shown)> {
        let all = self.model.all(&self.homes).into_iter();
        let all: Vec<(String, Shown)> = all.filter(|(id, shown)| fits(id, shown)).collect();
        random.pick(&all).cloned()
    }

    pub(super) fn step_sync(&mut self, random: &mut Random) -> Result<bool, Failure> {
        if self.at_hand().is_empty() {
            return Ok(false);
        }
        self.sync()?;
        // A moment to come back to.
        let rows = self.annals(&["log", "--json", "-n", "1"])?.json()?;
        if let Some(revision) = rows[0]["revision"].as_i64() {
            let all = self.model.all(&self.homes).into_iter().filter(|(_, shown)| !shown.is_gone);
            self.moments.push((revision, all.map(|(id, shown)| (id, shown.session)).collect()));
        }
        if self.moments.len() > 6 {
            self.moments.remove(random.below(6));
        }
        Ok(true)
    }

    pub(super) fn step_sync_full(&mut self, _: &mut Random) -> Result<bool, Failure> {
        if self.at_hand().is_empty() {
            return Ok(false);
        }
        self.annals(&["sync", "--full"])?;
        self.look();
        self.is_settled = true;
        Ok(true)
    }

    pub(super) fn step_sync_foreign(&mut self, _: &mut Random) -> Result<bool, Failure> {
        let Some(foreign) = self.foreign() else { return Ok(false) };
        let place = self.homes[foreign].place.to_str().unwrap().to_owned();
        let before = self.around();
        let full = if std::mem::take(&mut self.is_foreign_edited) { &["--full"][..] } else { &[] };
        let ran = self.annals(&[&["sync", "--home", &place], full].concat())?;
        self.check_spared(&ran.words, &before, &self.around())?;
        self.homes[foreign].see();
        Ok(true)
    }

    pub(super) fn step_rename(&mut self, random: &mut Random) -> Result<bool, Failure> {
        let Some((id, _)) = self.some_shown(random, |_, _| true) else { return Ok(false) };
        let title = self.author.title();
        self.edit_session(&["rename", &id, &title], &id, &Edit::Title(title.clone()))
    }

    pub(super) fn step_archive(&mut self, random: &mut Random) -> Result<bool, Failure> {
        let fits = |_: &str, shown: &Shown| shown.session.archived().is_none();
        let Some((id, _)) = self.some_shown(random, fits) else { return Ok(false) };
        // A session that is archived in another home than the one shown is archived again.
        self.edit_session(&["archive", &id], &id, &Edit::Archived(Some(self.author.now)))
    }

    pub(super) fn step_unarchive(&mut self, random: &mut Random) -> Result<bool, Failure> {
        let fits = |_: &str, shown: &Shown| shown.session.archived().is_some();
        let Some((id, _)) = self.some_shown(random, fits) else { return Ok(false) };
        self.edit_session(&["archive", "--undo", &id], &id, &Edit::Archived(None))
    }

    pub(super) fn edit_session(
        &mut self,
        arguments: &[&str],
        id: &str,
        edit: &Edit,
    ) -> Result<bool, Failure> {
        self.look();
        let (ran, before, after, mut operation) = self.operate(arguments)?;
        self.check_edits(&ran.words, &before, &after, &[(id.to_owned(), edit.clone())])?;
        self.look();
        operation.local.extend(self.model.edited(&self.homes, id, edit));
        operation.sessions.insert(id.to_owned());
        self.model.done(operation);
        Ok(true)
    }

    /// Sessions that go with one when it is deleted; none if homes do not agree on them.
    pub(super) fn family_to_remove(&self, id: &str) -> Option<BTreeSet<String>> {
        let shown: Content =
            self.model.all(&self.homes).into_iter().map(|(id, shown)| (id, shown.session)).collect();
        let all = family(&shown, id);
        for home in self.homes.iter().filter(|home| home.is_at_hand()) {
            let content = home.read();
            let there: BTreeSet<String> =
                all.iter().filter(|id| content.contains_key(*id)).cloned().collect();
            let expected = if content.contains_key(id) { family(&content, id) } else { BTreeSet::new() };
            if there != expected {
                return None;
            }
        }
        all.iter().all(|id| !holding(&self.homes, id).is_empty()).then_some(all)
    }

    pub(super) fn step_rm(&mut self, random: &mut Random) -> Result<bool, Failure> {
        self.look();
        let Some((id, _)) = self.some_shown(random, |_, _| true) else { return Ok(false) };
        if holding(&self.homes, &id).is_empty() {
            return self.remove_from_store(&id);
        }
        let Some(family) = self.family_to_remove(&id) else { return Ok(false) };
        let (ran, before, after, mut operation) = self.operate(&["rm", "--yes", &id])?;
        for number in self.at_hand() {
            let mut expected = before.contents[number].clone();
            expected.retain(|id, _| !family.contains(id));
            check_content(
                &format!("{}, in {}", ran.words, self.homes[number].name),
                &expected,
                &after.contents[number],
            )?;
        }
        self.look();
        operation.sessions = family;
        self.model.done(operation);
        Ok(true)
    }

    /// Deletes a session that no home at hand has: the store alone does not show it any more.
    fn remove_from_store(&mut self, id: &str) -> Result<bool, Failure> {
        let shown: Content =
            self.model.all(&self.homes).into_iter().map(|(id, shown)| (id, shown.session)).collect();
        // What it started is deleted from homes, and stays in the store.
        if family(&shown, id).len() > 1 {
            return Ok(false);
        }
        let (ran, before, _, mut operation) = self.operate(&["rm", "--yes", id])?;
        self.check_untouched(&ran.words, &before.bytes)?;
        operation.local.push(self.model.deleted(&self.homes, id));
        operation.sessions.insert(id.to_owned());
        self.model.done(operation);
        Ok(true)
    }

    pub(super) fn step_undo(&mut self, _: &mut Random) -> Result<bool, Failure> {
        let Some(place) = self.model.last() else { return Ok(false) };
        self.undo(&["undo"], place)
    }

    pub(super) fn step_undo_number(&mut self, random: &mut Random) -> Result<bool, Failure> {
        let operations = self.model.operations.iter().enumerate().rev().take(12);
        let numbered: Vec<(usize, i64)> =
            operations.filter_map(|(place, operation)| Some((place, operation.as_ref()?.number?))).collect();
        let Some((place, number)) = random.pick(&numbered) else { return Ok(false) };
        self.undo(&["undo", &number.to_string()], *place)
    }

    fn undo(&mut self, arguments: &[&str], place: usize) -> Result<bool, Failure> {
        self.look();
        let Some(operation) = &self.model.operations[place].clone() else { return Ok(false) };
        let Some(verdict) = self.model.verdict(&self.homes, operation) else { return Ok(false) };
        // What reached the store alone can be taken back only while nothing else has happened to it.
        if verdict == Verdict::Either {
            return Ok(false);
        }
        self.note(format!("{} ({}): {verdict:?}", arguments.join(" "), operation.words));
        let before = self.around();
        let ran = self.person.run(self.author.now, arguments)?;
        let after = self.around();
        self.check_spared(&ran.words, &before, &after)?;
        if verdict == Verdict::Refused {
            if ran.code == Some(0) {
                let detail =
                    format!("{} of `{}` had to be refused\n{}", ran.words, operation.words, ran.describe());
                return Err(Failure::new("undo: not refused", detail));
            }
            self.check_untouched(&ran.words, &before.bytes)?;
            return Ok(true);
        }
        let ran = ran.done().map_err(|failure| {
            Failure::new(
                "undo: refused",
                format!("{} of `{}`\n{failure}", arguments.join(" "), operation.words),
            )
        })?;
        for ((home, name), (then, _)) in &operation.touched {
            // The log of changes may have gone on since.
            if is_document(name) && after.bytes[*home].get(name) != then.as_ref() {
                let show = |bytes: Option<&Vec<u8>>| {
                    bytes.map_or("nothing".to_owned(), |bytes| {
                        String::from_utf8_lossy(bytes).chars().take(600).collect()
                    })
                };
                let detail = format!(
                    "{} of `{}`: {name} in {} is not what it was before\nbefore: {}\nnow: {}",
                    ran.words,
                    operation.words,
                    self.homes[*home].name,
                    show(then.as_ref()),
                    show(after.bytes[*home].get(name))
                );
                return Err(Failure::new("undo: bytes", detail));
            }
        }
        let undone = Operation::observed(&ran.words, None, &before.bytes, &after.bytes);
        let other =
            undone.touched.keys().find(|key| is_document(&key.1) && !operation.touched.contains_key(key));
        if let Some((home, name)) = other {
            let detail = format!(
                "{} of `{}` changed {name} in {}",
                ran.words, operation.words, self.homes[*home].name
            );
            return Err(Failure::new("undo: too much", detail));
        }
        self.look();
        for (id, before, _) in &operation.local {
            self.model.set_local(id, before.clone());
        }
        let mut inverse = operation.inverse(place, ran.operation());
        inverse.local.extend(self.model.taken_back(&self.homes, operation));
        self.model.done(inverse);
        Ok(true)
    }

    /// Copies a session between two of the homes.
    pub(super) fn step_copy(&mut self, random: &mut Random) -> Result<bool, Failure> {
        let targets = self.at_hand();
        let Some(to) = random.pick(&targets).copied() else { return Ok(false) };
        let sources: Vec<usize> =
            (0..self.homes.len()).filter(|from| *from != to && !self.homes[*from].is_away).collect();
        let Some(from) = random.pick(&sources).copied() else { return Ok(false) };
        if self.is_any_away() {
            return Ok(false);
        }
        let content = self.homes[from].read();
        let ids: Vec<&String> = content.keys().collect();
        let Some(id) = random.pick(&ids).map(|id| (*id).clone()) else { return Ok(false) };
        let family = family(&content, &id);
        if family.iter().any(|id| self.model.forgotten.contains(id)) {
            return Ok(false);
        }
        self.settle()?;
        let [from_place, to_place] =
            [from, to].map(|home| self.homes[home].place.to_str().unwrap().to_owned());
        let (ran, before, after, mut operation) =
            self.operate(&["copy", "--from", &from_place, "--to", &to_place, &id])?;
        for number in 0..self.homes.len() {
            let what = format!("{}, in {}", ran.words, self.homes[number].name);
            let rest = |content: &Content| {
                content
                    .iter()
                    .filter(|(id, _)| number != to || !family.contains(*id))
                    .map(|(id, session)| (id.clone(), session.clone()))
                    .collect::<Content>()
            };
            check_content(&what, &rest(&before.contents[number]), &rest(&after.contents[number]))?;
        }
        for id in &family {
            let source = &before.contents[from][id];
            let Some(copied) = after.contents[to].get(id) else {
                return Err(Failure::new(
                    "copy: missing",
                    format!("{}: {id} is not in the target", ran.words),
                ));
            };
            match before.contents[to].get(id) {
                Some(target) if target.updated() >= source.updated() => {
                    check_kept(&ran.words, target, copied)?;
                }
                Some(_) => {}
                None => operation.brought.push((to, id.clone(), copied.clone())),
            }
            for message in source.messages.keys() {
                let was_left =
                    before.contents[to].get(id).is_some_and(|target| target.updated() >= source.updated());
                if !was_left && !copied.messages.contains_key(message) {
                    return Err(Failure::new(
                        "copy: missing",
                        format!("{}: {message} is not in the target", ran.words),
                    ));
                }
            }
        }
        operation.introduced =
            family.iter().filter(|id| !Model::is_known(&self.homes, id)).cloned().collect();
        operation.sessions = family;
        self.look();
        if !operation.touched.is_empty() {
            self.model.done(operation);
        } else {
            // Whether a copy of nothing is an operation is not said.
            self.model.done_in_some_order();
        }
        Ok(true)
    }

    pub(super) fn step_export(&mut self, random: &mut Random) -> Result<bool, Failure> {
        let fits = |_: &str, shown: &Shown| !shown.is_edited;
        let Some((id, shown)) = self.some_shown(random, fits) else { return Ok(false) };
        let ending = if random.one_in(2) { "json" } else { "jsonl" };
        let file = self.root().join(format!("work/{}.{ending}", self.author.now));
        let format = if ending == "json" { "opencode" } else { "jsonl" };
        self.annals(&["export", &id, "--format", format, "-o", file.to_str().unwrap()])?;
        self.note(format!("{id} to {}", file.display()));
        self.exports.push(Export { session: id, file, content: shown.session });
        Ok(true)
    }

    pub(super) fn step_import(&mut self, random: &mut Random) -> Result<bool, Failure> {
        let exports: Vec<Export> = self
            .exports
            .iter()
            .filter(|export| !self.model.forgotten.contains(&export.session))
            .cloned()
            .collect();
        let Some(export) = random.pick(&exports).cloned() else { return Ok(false) };
        if self.is_any_away() {
            return Ok(false);
        }
        let file = export.file.to_str().unwrap();
        let id = &export.session;
        self.look();
        let held = holding(&self.homes, id);
        if !held.is_empty() {
            let before = self.around();
            self.note(format!("import {file}, which is there already"));
            let ran = self.person.run(self.author.now, &["import", file])?;
            let after = self.around();
            for number in 0..self.homes.len() {
                // A home that lacks the session may get it; none that has it may change.
                let is_same = before.contents[number] == after.contents[number];
                if !is_same && (held.contains(&number) || ran.code != Some(0)) {
                    return Err(Failure::new("import: replaced", ran.describe()));
                }
            }
            self.check_spared(&ran.words, &before, &after)?;
            if before.bytes != after.bytes {
                self.look();
                self.model.done_in_some_order();
            }
            return Ok(true);
        }
        let (ran, before, after, mut operation) = self.operate(&["import", file])?;
        for number in self.at_hand() {
            let mut rest = after.contents[number].clone();
            rest.remove(id);
            check_content(&ran.words, &before.contents[number], &rest)?;
            if let Some(session) = after.contents[number].get(id) {
                check_same_texts("import: content", &ran.words, &export.content, session)?;
                operation.brought.push((number, id.clone(), session.clone()));
            }
        }
        if operation.brought.is_empty() {
            return Err(Failure::new("import: missing", format!("{}: {id} is in no home", ran.words)));
        }
        if !Model::is_known(&self.homes, id) {
            operation.introduced.insert(id.clone());
        }
        operation.sessions.insert(id.clone());
        self.look();
        self.model.done(operation);
        Ok(true)
    }

    /// Makes a session what it was, where it is.
    pub(super) fn step_restore(&mut self, random: &mut Random) -> Result<bool, Failure> {
        let Some((revision, then)) = random.pick(&self.moments).cloned() else { return Ok(false) };
        self.look();
        let fits = |id: &str, shown: &Shown| {
            then.contains_key(id)
                && !shown.is_edited
                && holding(&self.homes, id).len() == 1
                && !is_held_elsewhere(&self.homes, id)
        };
        let Some((id, _)) = self.some_shown(random, fits) else { return Ok(false) };
        let (ran, before, after, mut operation) =
            self.operate(&["restore", &id, "--at", &revision.to_string()])?;
        for number in self.at_hand() {
            let what = format!("{}, in {}", ran.words, self.homes[number].name);
            let rest = |content: &Content| {
                let mut rest = content.clone();
                rest.remove(&id);
                rest
            };
            check_content(&what, &rest(&before.contents[number]), &rest(&after.contents[number]))?;
            if before.contents[number].contains_key(&id) {
                match after.contents[number].get(&id) {
                    Some(session) => check_same_texts("restore: content", &what, &then[&id], session)?,
                    None => return Err(Failure::new("restore: content", format!("{what}: {id} is gone"))),
                }
            }
        }
        operation.sessions.insert(id);
        self.look();
        if operation.touched.is_empty() {
            self.model.done_in_some_order();
        } else {
            self.model.done(operation);
        }
        Ok(true)
    }

    pub(super) fn step_forget(&mut self, random: &mut Random) -> Result<bool, Failure> {
        // Most walks would soon have nothing left.
        if self.model.forgotten.len() > 3 {
            return Ok(false);
        }
        let Some((id, _)) = self.some_shown(random, |_, _| true) else { return Ok(false) };
        let (ran, before, _, _) = self.operate(&["forget", "--yes", &id])?;
        self.check_untouched(&ran.words, &before.bytes)?;
        self.model.forget(&id);
        Ok(true)
    }
}

/// A home holds exactly the sessions that it should.
pub(super) fn check_content(what: &str, expected: &Content, got: &Content) -> Check {
    let ids: BTreeSet<&String> = expected.keys().chain(got.keys()).collect();
    for id in ids {
        let detail = match (expected.get(id), got.get(id)) {
            (Some(expected), Some(got)) => {
                let is_same = same(&expected.exported(), &got.exported()) && expected.todos == got.todos;
                if is_same {
                    continue;
                }
                super::content::difference(&expected.exported(), &got.exported())
            }
            (Some(_), None) => " is not there any more".to_owned(),
            _ => " should not be there".to_owned(),
        };
        return Err(Failure::new("operation: home", format!("{what}: {id}{detail}")));
    }
    Ok(())
}

/// Every document that was there is there still, as it was. What a session takes in a database is the sum of its messages, and
/// those that the target lacked are added; a session without an agent or a model gets those of its prompts.
fn check_kept(what: &str, before: &Session, after: &Session) -> Check {
    let without_sums = |session: &Session| {
        let mut info = session.info.clone();
        if let Some(info) = info.as_object_mut() {
            let lacked = ["agent", "model"].into_iter().filter(|name| before.info.get(name).is_none());
            ["cost", "tokens"].into_iter().chain(lacked).for_each(|name| drop(info.remove(name)));
        }
        info
    };
    let is_kept = same(&without_sums(before), &without_sums(after))
        && before.messages.iter().all(|(id, message)| after.messages.get(id) == Some(message))
        && before.parts.iter().all(|(id, part)| after.parts.get(id) == Some(part));
    if is_kept {
        return Ok(());
    }
    let where_ = super::content::difference(&before.exported(), &after.exported());
    Err(Failure::new("copy: replaced", format!("{what}: the target was used as recently, and lost {where_}")))
}

/// Two states have the same messages and parts with the same texts. Databases need fields that directories lack, so whole
/// documents may differ.
fn check_same_texts(kind: &'static str, what: &str, expected: &Session, got: &Session) -> Check {
    let outline = |session: &Session| {
        let parts = session.parts.iter().map(|(key, part)| (key.clone(), part["text"].clone()));
        (session.order().into_iter().map(str::to_owned).collect::<Vec<_>>(), parts.collect::<Vec<_>>())
    };
    if outline(expected) == outline(got) {
        return Ok(());
    }
    let where_ = super::content::difference(&expected.exported(), &got.exported());
    Err(Failure::new(kind, format!("{what}: {where_}")))
}
