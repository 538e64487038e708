//! What annals has to show, by the contract alone.
//!
//! The state of a session is a function of the looks at its homes: it is what the home says in which the session was used
//! last, deletions included. "Used last" is the largest `time.updated`; on a tie a database goes before a directory, then
//! the home that was looked at later. A session that no home holds stays as it was shown last, and is marked as gone. A home that
//! has vanished counts with what was seen of it last. What was changed in the store alone outranks a home that has not changed
//! since. What was forgotten is never shown.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::content::{Content, Session};
use super::homes::{Bytes, Home, Owner};

/// The number of a home, and the name of a file or row in it.
type Place = (usize, String);

/// The bytes of a file or row before and after something; none if it was not there.
type States = (Option<Vec<u8>>, Option<Vec<u8>>);

/// The model.
#[derive(Debug, Default)]
pub(super) struct Model {
    /// The state in which each session was shown last.
    pub(super) known: Content,
    /// Changes of session documents that did not reach the home whose state is shown.
    pub(super) local: BTreeMap<String, Local>,
    pub(super) forgotten: BTreeSet<String>,
    /// Deleted with `rm` where annals may write, while another home holds them still.
    pub(super) removed: BTreeSet<String>,
    /// Operations in the order in which they were carried out. None stands for some of which the order is not known.
    pub(super) operations: Vec<Option<Operation>>,
    n_looks: u64,
}

/// A change of a session document in the store alone.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Local {
    title: Option<String>,
    archived: Option<Option<i64>>,
    /// The session document of the home whose state is shown, `null` if there is none. When it changes, it counts.
    base: Value,
    /// That home. Another one that has the session now has changed since.
    home: Option<usize>,
    /// Something else has happened to the session since, so that title or archive mark may be either.
    vague: Vague,
}

/// What cannot be told of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Vague {
    pub(super) title: bool,
    pub(super) archived: bool,
}

/// A change of one field, asked for by a person.
#[derive(Debug, Clone)]
pub(super) enum Edit {
    Title(String),
    Archived(Option<i64>),
}

/// How a session has to be shown.
#[derive(Debug, Clone)]
pub(super) struct Shown {
    pub(super) session: Session,
    pub(super) is_gone: bool,
    /// Title and archive mark were changed apart from the rest: of the document nothing else is certain.
    pub(super) is_edited: bool,
    /// What may be one thing or the other.
    pub(super) vague: Vague,
    /// The contract allows several answers.
    pub(super) is_disputed: bool,
    /// The home whose state this is.
    pub(super) home: Option<usize>,
}

/// What somebody asked annals to do, and what became of it in the homes.
#[derive(Debug, Clone)]
pub(super) struct Operation {
    pub(super) words: String,
    pub(super) number: Option<i64>,
    /// The place of the operation that it took back, for an undo.
    pub(super) undoes: Option<usize>,
    pub(super) is_undone: bool,
    /// Files and rows that it changed: home and name, before and after.
    pub(super) touched: BTreeMap<Place, States>,
    /// Changes in the store alone, before and after.
    pub(super) local: Vec<(String, Option<Local>, Option<Local>)>,
    pub(super) sessions: BTreeSet<String>,
    /// Sessions that it brought to a home, as they were then.
    pub(super) brought: Vec<(usize, String, Session)>,
}

/// What has to come of an undo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Succeeds,
    /// A document has changed since, or is what it was already.
    Refused,
    /// The contract allows both.
    Either,
}

impl Model {
    /// Annals has looked at all homes that it finds by itself.
    pub(super) fn look(&mut self, homes: &mut [Home]) {
        for home in homes.iter_mut().filter(|home| home.is_at_hand()) {
            self.n_looks += 1;
            home.look = home.read();
            home.looked = self.n_looks;
        }
        self.note(homes);
    }

    /// Annals has looked at a foreign home.
    pub(super) fn look_at_foreign(&mut self, homes: &mut [Home], number: usize) {
        self.n_looks += 1;
        homes[number].look = homes[number].read();
        homes[number].looked = self.n_looks;
        self.note(homes);
    }

    fn note(&mut self, homes: &[Home]) {
        self.local.retain(|id, local| match Model::ranking(homes, id) {
            // No home has it any more: the store alone says what it is.
            None => {
                (local.base, local.home) = (Value::Null, None);
                true
            }
            // A home has got it back. Which of the two counts is not said.
            Some(home) if local.home.is_none() => {
                (local.base, local.home) = (homes[home].look[id].info.clone(), Some(home));
                local.make_vague();
                true
            }
            // What a home says anew counts.
            Some(home) => local.home == Some(home) && local.base == homes[home].look[id].info,
        });
        let ids: BTreeSet<String> = homes.iter().flat_map(|home| home.look.keys().cloned()).collect();
        for id in ids {
            if let Some(shown) = self.shown(homes, &id) {
                self.known.insert(id, shown.session);
            }
        }
    }

    /// The home whose state of a session is shown.
    fn ranking(homes: &[Home], id: &str) -> Option<usize> {
        let holding = homes.iter().enumerate().filter(|(_, home)| home.look.contains_key(id));
        // A home that was only named gives way to one of the user's own, which every command looks at.
        let is_own = |home: &Home| home.owner == Owner::Own;
        let rank =
            |home: &Home| (home.look[id].updated(), home.kind.is_database(), is_own(home), home.looked);
        holding.max_by_key(|(_, home)| rank(home)).map(|(number, _)| number)
    }

    /// How a session has to be shown; none if it must not be.
    pub(super) fn shown(&self, homes: &[Home], id: &str) -> Option<Shown> {
        if self.forgotten.contains(id) {
            return None;
        }
        let home = Model::ranking(homes, id);
        let mut session = match home {
            Some(number) => homes[number].look[id].clone(),
            None => self.known.get(id)?.clone(),
        };
        let base = home.map_or(Value::Null, |_| session.info.clone());
        let local = self.local.get(id).filter(|local| local.base == base && local.home == home);
        for edit in local.iter().flat_map(|local| local.edits()) {
            edit.apply(&mut session);
        }
        let is_own = homes.iter().any(|home| home.is_at_hand() && home.look.contains_key(id));
        let is_disputed = self.removed.contains(id) && !is_own && home.is_some();
        let vague = local.map(|local| local.vague).unwrap_or_default();
        Some(Shown { session, is_gone: home.is_none(), is_edited: local.is_some(), vague, is_disputed, home })
    }

    /// Every session that has to be shown.
    pub(super) fn all(&self, homes: &[Home]) -> BTreeMap<String, Shown> {
        let ids = self.known.keys();
        ids.filter_map(|id| Some((id.clone(), self.shown(homes, id)?))).collect()
    }

    /// A person has changed a field of a session. It went to all own homes at hand; where the state that is shown comes
    /// from elsewhere, the store alone has it. `before` is what the store alone had before.
    pub(super) fn edited(
        &mut self,
        homes: &[Home],
        id: &str,
        edit: Edit,
        before: Option<Local>,
    ) -> (String, Option<Local>, Option<Local>) {
        let after = match Model::ranking(homes, id) {
            // What was changed in the store alone before may be shown or not, but for this.
            Some(number) if homes[number].is_at_hand() => before.clone().and_then(|mut local| {
                (local.base, local.home) = (homes[number].look[id].info.clone(), Some(number));
                local.make_vague();
                match &edit {
                    Edit::Title(_) => local.vague.title = false,
                    Edit::Archived(_) => local.vague.archived = false,
                }
                local.title = None;
                local.archived = None;
                (local.vague != Vague::default()).then_some(local)
            }),
            home => {
                let base = home.map_or(Value::Null, |number| homes[number].look[id].info.clone());
                let stands = |local: &Local| local.base == base && local.home == home;
                let mut local = before.clone().filter(stands).unwrap_or_default();
                (local.base, local.home) = (base, home);
                match edit {
                    Edit::Title(title) => (local.title, local.vague.title) = (Some(title), false),
                    Edit::Archived(archived) => {
                        (local.archived, local.vague.archived) = (Some(archived), false);
                    }
                }
                Some(local)
            }
        };
        self.set_local(id, after.clone());
        (id.to_owned(), before, after)
    }

    /// An operation was taken back in a home, on a session that was changed in the store alone as well.
    pub(super) fn undone_beside(&mut self, homes: &[Home], id: &str, local: Option<Local>) {
        let local = local.map(|mut local| {
            local.home = Model::ranking(homes, id);
            local.base = local.home.map_or(Value::Null, |home| homes[home].look[id].info.clone());
            local.make_vague();
            local
        });
        self.set_local(id, local);
    }

    pub(super) fn set_local(&mut self, id: &str, local: Option<Local>) {
        match local {
            Some(local) => self.local.insert(id.to_owned(), local),
            None => self.local.remove(id),
        };
    }

    /// Somebody asked for something, and it was done.
    pub(super) fn done(&mut self, operation: Operation) {
        if let Some(undone) = operation.undoes.and_then(|place| self.operations[place].as_mut()) {
            undone.is_undone = true;
            // To undo an undo does again what it had taken back.
            if let Some(first) = undone.undoes
                && let Some(Some(first)) = self.operations.get_mut(first)
            {
                first.is_undone = false;
            }
        }
        self.operations.push(Some(operation));
    }

    /// Something was done, and it is not known what came last.
    pub(super) fn done_in_some_order(&mut self) {
        self.operations.push(None);
    }

    /// The place of the operation that `annals undo` takes back: the last that was not taken back. An undo is taken back by
    /// its number alone.
    pub(super) fn last(&self) -> Option<usize> {
        for (place, operation) in self.operations.iter().enumerate().rev() {
            let operation = operation.as_ref()?;
            if !operation.is_undone && operation.undoes.is_none() {
                return Some(place);
            }
        }
        None
    }

    /// A session was erased: nothing that touched it can be undone any more.
    pub(super) fn forget(&mut self, id: &str) {
        self.forgotten.insert(id.to_owned());
        self.known.remove(id);
        self.local.remove(id);
        for operation in &mut self.operations {
            if operation.as_ref().is_some_and(|operation| operation.sessions.contains(id)) {
                *operation = None;
            }
        }
    }

    /// What has to come of taking an operation back now; none if a home is away that it touched.
    pub(super) fn verdict(&self, homes: &[Home], operation: &Operation) -> Option<Verdict> {
        if operation.touched.keys().any(|(home, _)| homes[*home].is_away) {
            return None;
        }
        if operation.is_undone {
            return Some(Verdict::Refused);
        }
        for (home, id, then) in &operation.brought {
            let now = homes[*home].read();
            // What OpenCode has added since would go with the session.
            if now.get(id).is_some_and(|now| now != then) {
                return Some(Verdict::Either);
            }
        }
        if operation.touched.is_empty() {
            let stands = operation.local.iter().all(|(id, _, after)| {
                let base =
                    Model::ranking(homes, id).map_or(Value::Null, |home| homes[home].look[id].info.clone());
                self.local.get(id) == after.as_ref() && after.as_ref().is_some_and(|after| after.base == base)
            });
            return Some(if stands { Verdict::Succeeds } else { Verdict::Either });
        }
        let bytes: Vec<Bytes> = homes.iter().map(Home::bytes).collect();
        let stands = operation
            .touched
            .iter()
            .filter(|((_, name), _)| is_document(name))
            .all(|((home, name), (_, after))| bytes[*home].get(name) == after.as_ref());
        Some(if stands { Verdict::Succeeds } else { Verdict::Refused })
    }
}

impl Local {
    fn make_vague(&mut self) {
        self.vague.title |= self.title.is_some();
        self.vague.archived |= self.archived.is_some();
    }

    fn edits(&self) -> Vec<Edit> {
        let title = self.title.iter().cloned().map(Edit::Title);
        title.chain(self.archived.map(Edit::Archived)).collect()
    }
}

impl Edit {
    pub(super) fn apply(&self, session: &mut Session) {
        match self {
            Edit::Title(title) => session.info["title"] = json!(title),
            Edit::Archived(Some(time)) => session.info["time"]["archived"] = json!(time),
            Edit::Archived(None) => {
                session.info["time"].as_object_mut().unwrap().shift_remove("archived");
            }
        }
    }
}

impl Operation {
    /// Finds out what a command changed from all bytes before and after it.
    pub(super) fn observed(words: &str, number: Option<i64>, before: &[Bytes], after: &[Bytes]) -> Operation {
        let mut touched = BTreeMap::new();
        for (home, (before, after)) in before.iter().zip(after).enumerate() {
            for name in before.keys().chain(after.keys().filter(|name| !before.contains_key(*name))) {
                let states = (before.get(name).cloned(), after.get(name).cloned());
                if states.0 != states.1 {
                    touched.insert((home, name.clone()), states);
                }
            }
        }
        Operation {
            words: words.to_owned(),
            number,
            undoes: None,
            is_undone: false,
            touched,
            local: Vec::new(),
            sessions: BTreeSet::new(),
            brought: Vec::new(),
        }
    }

    /// The operation that takes this one back, which stands at a place.
    pub(super) fn inverse(&self, place: usize, number: Option<i64>) -> Operation {
        let swapped =
            |(key, (before, after)): (&Place, &States)| (key.clone(), (after.clone(), before.clone()));
        Operation {
            words: format!("undo of {}", self.words),
            number,
            undoes: Some(place),
            is_undone: false,
            touched: self.touched.iter().map(swapped).collect(),
            local: self
                .local
                .iter()
                .map(|(id, before, after)| (id.clone(), after.clone(), before.clone()))
                .collect(),
            sessions: self.sessions.clone(),
            brought: Vec::new(),
        }
    }
}

/// Whether a file or row is a document. The log of changes is not.
pub(super) fn is_document(name: &str) -> bool {
    !name.starts_with("event ") && !name.starts_with("event_sequence ")
}

/// Own homes of which a session can be read or written now.
pub(super) fn holding(homes: &[Home], id: &str) -> Vec<usize> {
    let numbered = homes.iter().enumerate();
    numbered.filter(|(_, home)| home.is_at_hand() && home.read().contains_key(id)).map(|(n, _)| n).collect()
}

/// Whether a foreign home, or one that is away, was last seen with a session.
pub(super) fn is_held_elsewhere(homes: &[Home], id: &str) -> bool {
    homes.iter().any(|home| (home.owner == Owner::Foreign || home.is_away) && home.look.contains_key(id))
}
