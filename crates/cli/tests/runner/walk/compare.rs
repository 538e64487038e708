//! Compares what annals says with what the model says, and makes sure that reading changes nothing.

use std::collections::BTreeSet;

use serde_json::Value;

use super::content::{Usage, difference, same};
use super::homes::{Bytes, Home};
use super::model::Shown;
use super::random::Random;
use super::world::World;
use super::{Check, Failure};

/// How much is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Depth {
    /// The list, and now and then something else.
    Usual,
    /// Everything.
    All,
}

impl World {
    /// Compares every answer that annals gives with the model.
    pub(super) fn check(&mut self, random: &mut Random, depth: Depth) -> Check {
        let before = self.bytes();
        self.look();
        self.check_list(&["list", "--json"])?;
        let is_all = depth == Depth::All;
        if is_all || random.one_in(8) {
            // The store alone answers as well once it was brought up to date.
            self.sync()?;
            self.check_list(&["list", "--json", "--no-sync"])?;
        }
        if is_all {
            for id in self.model.all(&self.homes).into_keys() {
                self.check_export(&id, "export")?;
            }
        } else if random.one_in(2) {
            let ids: Vec<String> = self.model.all(&self.homes).into_keys().collect();
            if let Some(id) = random.pick(&ids).cloned() {
                self.check_export(&id, if random.one_in(2) { "export" } else { "show" })?;
                if random.one_in(2) {
                    self.check_todos(&id)?;
                }
            }
        }
        for _ in 0..if is_all { 6 } else { random.below(2) } {
            self.check_search(random)?;
        }
        if is_all || random.one_in(8) {
            self.check_stats()?;
        }
        self.check_untouched("reading", &before)
    }

    fn check_list(&mut self, arguments: &[&str]) -> Check {
        let expected = self.model.all(&self.homes);
        let ran = self.annals(arguments)?;
        let rows = ran.json()?;
        let rows = rows.as_array().ok_or_else(|| Failure::new("list", ran.describe()))?;
        let what = arguments.join(" ");
        let id = |row: &Value| row["id"].as_str().unwrap_or_default().to_owned();
        let listed: BTreeSet<String> = rows.iter().map(id).collect();
        let wanted: BTreeSet<String> = expected.keys().cloned().collect();
        let missing: Vec<&String> = wanted.difference(&listed).collect();
        let surplus: Vec<&String> = listed.difference(&wanted).collect();
        if !missing.is_empty() || !surplus.is_empty() || rows.len() != listed.len() {
            return Err(Failure::new(
                "list: sessions",
                format!("{what}: missing {missing:?}, surplus {surplus:?}"),
            ));
        }
        for row in rows {
            let shown = &expected[&id(row)];
            if let Some((field, problem)) = self.wrong_row(row, shown) {
                let home = self.homes[shown.home].name;
                let detail = format!("{what}: {} {problem}; its state is that of {home}", id(row));
                return Err(Failure::new(field, detail));
            }
        }
        Ok(())
    }

    fn wrong_row(&self, row: &Value, shown: &Shown) -> Option<(&'static str, String)> {
        let session = &shown.session;
        let wrong = |field, expected: &dyn std::fmt::Debug, got: &dyn std::fmt::Debug| {
            Some((field, format!("{field}: expected {expected:?}, got {got:?}")))
        };
        if row["gone"].is_null() == shown.is_gone {
            return wrong("list: gone", &shown.is_gone, &row["gone"]);
        }
        if row["title"] != session.title() {
            return wrong("list: title", &session.title(), &row["title"]);
        }
        if row["archived"].as_i64() != session.archived() {
            return wrong("list: archived", &session.archived(), &row["archived"]);
        }
        if row["messages"] != session.messages.len() {
            return wrong("list: messages", &session.messages.len(), &row["messages"]);
        }
        if row["parts"] != session.parts.len() {
            return wrong("list: parts", &session.parts.len(), &row["parts"]);
        }
        if row["parentID"].as_str() != session.parent() {
            return wrong("list: parent", &session.parent(), &row["parentID"]);
        }
        if row["updated"].as_i64() != Some(session.updated()) {
            return wrong("list: updated", &session.updated(), &row["updated"]);
        }
        let (expected, got) = (session.stated_usage(), Usage::of_json(row));
        if !expected.is_close_to(&got) {
            return wrong("list: usage", &expected, &got);
        }
        None
    }

    fn check_export(&mut self, id: &str, command: &str) -> Check {
        let Some(shown) = self.model.shown(&self.homes, id) else { return Ok(()) };
        let ran = self.annals(&[command, id, "--json"])?;
        let got = ran.json()?;
        let expected = shown.session.exported();
        if same(&expected, &got) {
            return Ok(());
        }
        let home = self.homes[shown.home].name;
        let where_ = difference(&expected, &got);
        let kind = if where_.starts_with(".info") { "export: session" } else { "export: messages" };
        Err(Failure::new(kind, format!("{command} {id} (state of {home}) {where_}")))
    }

    fn check_todos(&mut self, id: &str) -> Check {
        let Some(shown) = self.model.shown(&self.homes, id) else { return Ok(()) };
        // A directory keeps the list of a session that OpenCode has deleted, a database does not.
        if shown.is_gone {
            return Ok(());
        }
        let got = self.annals(&["todo", id, "--json"])?.json()?;
        let expected = shown.session.todos.unwrap_or(Value::Array(Vec::new()));
        match same(&expected, &got["todos"]) {
            true => Ok(()),
            false => Err(Failure::new("todo", format!("{id}{}", difference(&expected, &got["todos"])))),
        }
    }

    fn check_search(&mut self, random: &mut Random) -> Check {
        let n_words = self.author.words.len();
        // Mostly words that were written lately: old ones were asked for before.
        let recent = if random.one_in(2) { n_words.min(12) } else { n_words };
        if recent == 0 {
            return Ok(());
        }
        let word = self.author.words[n_words - 1 - random.below(recent)].clone();
        let all = self.model.all(&self.homes);
        let expected: BTreeSet<&str> =
            all.iter().filter(|(_, shown)| shown.session.says(&word)).map(|(id, _)| id.as_str()).collect();
        // Parts that a directory has kept of deleted messages may be found.
        let is_orphaned = |id: &str| {
            let seen =
                self.homes.iter().flat_map(|home| home.look.get(id).into_iter().chain(home.lost.get(id)));
            seen.into_iter().any(|session| session.said(&word))
        };
        let allowed: BTreeSet<String> = all.keys().filter(|id| is_orphaned(id)).cloned().collect();
        let ran = self.annals(&["search", &word, "--json"])?;
        let hits = ran.json()?;
        let hits = hits.as_array().ok_or_else(|| Failure::new("search", ran.describe()))?;
        let found: BTreeSet<&str> = hits.iter().filter_map(|hit| hit["sessionID"].as_str()).collect();
        let is_right = expected.is_subset(&found)
            && found.iter().all(|id| expected.contains(id) || allowed.contains(*id));
        match is_right {
            true => Ok(()),
            false => Err(Failure::new("search", format!("{word}: expected {expected:?}, found {found:?}"))),
        }
    }

    fn check_stats(&mut self) -> Check {
        let all = self.model.all(&self.homes);
        let got = self.annals(&["stats", "--json"])?.json()?;
        let mut usage = Usage::default();
        let (mut n_messages, mut n_parts) = (0, 0);
        for shown in all.values() {
            usage.add(shown.session.stated_usage());
            n_messages += shown.session.messages.len();
            n_parts += shown.session.parts.len();
        }
        let counts = [("sessions", all.len()), ("messages", n_messages), ("parts", n_parts)];
        for (name, expected) in counts {
            if got[name] != expected {
                return Err(Failure::new("stats", format!("{name}: expected {expected}, got {}", got[name])));
            }
        }
        let stated = Usage::of_json(&got);
        match usage.is_close_to(&stated) {
            true => Ok(()),
            false => Err(Failure::new("stats", format!("expected {usage:?}, got {stated:?}"))),
        }
    }

    /// Every byte of every home.
    pub(super) fn bytes(&self) -> Vec<Bytes> {
        self.homes.iter().map(Home::bytes).collect()
    }

    /// No home has changed.
    pub(super) fn check_untouched(&self, what: &str, before: &[Bytes]) -> Check {
        for (home, before) in self.homes.iter().zip(before) {
            let after = home.bytes();
            if let Some(changes) = changes(before, &after) {
                return Err(Failure::new("bytes", format!("{what} changed {}: {changes}", home.name)));
            }
        }
        Ok(())
    }
}

/// The names of what differs; none if nothing does.
pub(super) fn changes(before: &Bytes, after: &Bytes) -> Option<String> {
    let names = before.keys().chain(after.keys().filter(|name| !before.contains_key(*name)));
    let changed: Vec<String> = names
        .filter(|name| before.get(*name) != after.get(*name))
        .map(|name| match (before.contains_key(name), after.contains_key(name)) {
            (true, true) => format!("{name} (changed)"),
            (true, false) => format!("{name} (gone)"),
            (false, _) => format!("{name} (new)"),
        })
        .collect();
    match changed.len() {
        0 => None,
        n => Some(format!("{n}: {}", changed.into_iter().take(5).collect::<Vec<_>>().join(", "))),
    }
}
