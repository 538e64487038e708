//! What annals has to show, by the contract alone.
//!
//! The state of a session is a function of the looks at its homes: it is what the home says in which the session was used
//! last, deletions included. "Used last" is the largest `time.updated`; on a tie a database goes before a directory, then
//! the user's own home before a foreign one. A home that no longer has the session counts only if none has it: then the session
//! stays as it was there, and is marked as gone. A home that has vanished counts with what was seen of it last. A change that was made in
//! the store alone stands as long as the home that leads says what it said when the change was made. What was forgotten is never
//! shown.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::content::Session;
use super::homes::{Bytes, Home, Owner};

/// The number of a home, and the name of a file or row in it.
type Place = (usize, String);

/// The bytes of a file or row before and after something; none if it was not there.
type States = (Option<Vec<u8>>, Option<Vec<u8>>);

/// The model.
#[derive(Debug, Default)]
pub(super) struct Model {
    /// Changes of sessions in the store that did not reach the home whose state is shown.
    pub(super) local: BTreeMap<String, Local>,
    pub(super) forgotten: BTreeSet<String>,
    /// Operations in the order in which they were carried out. None stands for some of which the order is not known.
    pub(super) operations: Vec<Option<Operation>>,
}

/// A change of a session in the store alone.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Local {
    /// The session document; none if the session was deleted.
    info: Option<Value>,
    /// What each home had then.
    base: BTreeMap<usize, Base>,
}

/// What a home had of a session when it was changed in the store.
#[derive(Debug, Clone, PartialEq)]
enum Base {
    Document(Value),
    /// It had lost the session.
    Gone,
}

/// A change of one field, asked for by a person.
#[derive(Debug, Clone)]
pub(super) enum Edit {
    Title(String),
    Archived(Option<i64>),
    Revert {
        message: String,
        /// The revert that was in force.
        earlier: Value,
        /// Whether it is known that what is hidden changed no files.
        sums_up: bool,
        now: i64,
    },
    Unrevert {
        now: i64,
    },
}

/// How a session has to be shown.
#[derive(Debug, Clone)]
pub(super) struct Shown {
    pub(super) session: Session,
    pub(super) is_gone: bool,
    /// The session document was changed in the store alone.
    pub(super) is_edited: bool,
    /// The home whose state this is.
    pub(super) home: usize,
}

/// A session as a home has it, or had it.
struct Held<'h> {
    number: usize,
    session: &'h Session,
    is_there: bool,
}

/// A change of a session in the store alone: before and after.
pub(super) type LocalChange = (String, Option<Local>, Option<Local>);

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
    /// Changes in the store alone.
    pub(super) local: Vec<LocalChange>,
    pub(super) sessions: BTreeSet<String>,
    /// Sessions that it brought to a home, as they were then.
    pub(super) brought: Vec<(usize, String, Session)>,
    /// Those of them that nobody had ever seen before.
    pub(super) introduced: BTreeSet<String>,
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
        homes.iter_mut().filter(|home| home.is_at_hand()).for_each(Home::see);
    }

    /// The home whose state of a session is shown.
    fn leader<'h>(homes: &'h [Home], id: &str) -> Option<Held<'h>> {
        let held = homes.iter().enumerate().filter_map(|(number, home)| {
            let there = home.look.get(id).map(|session| (session, true));
            let (session, is_there) = there.or(home.lost.get(id).map(|session| (session, false)))?;
            Some(Held { number, session, is_there })
        });
        let rank = |held: &Held<'_>| {
            let home = &homes[held.number];
            (held.is_there, held.session.updated(), home.kind.is_database(), home.owner == Owner::Own)
        };
        held.max_by_key(rank)
    }

    /// How a session has to be shown; none if it must not be.
    pub(super) fn shown(&self, homes: &[Home], id: &str) -> Option<Shown> {
        if self.forgotten.contains(id) {
            return None;
        }
        let leader = Model::leader(homes, id)?;
        let mut session = leader.session.clone();
        let local = self.local.get(id).filter(|local| local.stands(&leader));
        if let Some(local) = local {
            session.info = local.info.clone()?;
        }
        Some(Shown { session, is_gone: !leader.is_there, is_edited: local.is_some(), home: leader.number })
    }

    /// Whether any home was ever seen with a session.
    pub(super) fn is_known(homes: &[Home], id: &str) -> bool {
        Model::leader(homes, id).is_some()
    }

    /// An operation that brought sessions was taken back: those that no home has are not shown as if they had been deleted.
    pub(super) fn taken_back(&mut self, homes: &[Home], operation: &Operation) -> Vec<LocalChange> {
        let ids = operation.introduced.iter();
        let is_gone = |id: &&String| Model::leader(homes, id).is_some_and(|leader| !leader.is_there);
        ids.filter(is_gone).map(|id| self.deleted(homes, id)).collect()
    }

    /// Every session that has to be shown.
    pub(super) fn all(&self, homes: &[Home]) -> BTreeMap<String, Shown> {
        let ids: BTreeSet<&String> =
            homes.iter().flat_map(|home| home.look.keys().chain(home.lost.keys())).collect();
        ids.into_iter().filter_map(|id| Some((id.clone(), self.shown(homes, id)?))).collect()
    }

    /// A person has changed a field of a session. It went to all own homes at hand; where the state that is shown comes
    /// from elsewhere, the store alone has it. Gives what changed in the store alone.
    pub(super) fn edited(&mut self, homes: &[Home], id: &str, edit: &Edit) -> Option<LocalChange> {
        let mut shown = self.shown(homes, id)?;
        if edit.is_made(&shown.session) {
            return None;
        }
        edit.apply(&mut shown.session);
        Some(self.change(homes, id, Some(shown.session.info)))
    }

    /// A person has deleted a session that no home at hand has.
    pub(super) fn deleted(&mut self, homes: &[Home], id: &str) -> LocalChange {
        self.change(homes, id, None)
    }

    fn change(&mut self, homes: &[Home], id: &str, info: Option<Value>) -> LocalChange {
        let mut base = BTreeMap::new();
        for (number, home) in homes.iter().enumerate() {
            let there = home.look.get(id).map(|session| Base::Document(session.info.clone()));
            base.extend(there.or(home.lost.get(id).map(|_| Base::Gone)).map(|base| (number, base)));
        }
        let is_leaders = Model::leader(homes, id)
            .is_some_and(|leader| leader.is_there && Some(&leader.session.info) == info.as_ref());
        let after = (!is_leaders).then_some(Local { info, base });
        let before = self.local.get(id).cloned();
        self.set_local(id, after.clone());
        (id.to_owned(), before, after)
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
        let is_as_left = |(id, _, after): &LocalChange| self.local.get(id) == after.as_ref();
        if !operation.local.iter().all(is_as_left) {
            return Some(Verdict::Refused);
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
    /// Whether the home that leads says what it said when the change was made.
    fn stands(&self, leader: &Held<'_>) -> bool {
        match self.base.get(&leader.number) {
            None => false,
            Some(Base::Gone) => !leader.is_there,
            Some(Base::Document(then)) => *then == leader.session.info,
        }
    }
}

impl Edit {
    /// Whether a session is so already.
    fn is_made(&self, session: &Session) -> bool {
        match self {
            Edit::Title(title) => session.title() == title,
            Edit::Archived(archived) => session.archived() == *archived,
            Edit::Revert { .. } | Edit::Unrevert { .. } => {
                let mut edited = session.clone();
                self.apply(&mut edited);
                edited == *session
            }
        }
    }

    pub(super) fn apply(&self, session: &mut Session) {
        match self {
            Edit::Title(title) => session.info["title"] = json!(title),
            Edit::Archived(Some(time)) => session.info["time"]["archived"] = json!(time),
            Edit::Archived(None) => {
                session.info["time"].as_object_mut().unwrap().shift_remove("archived");
            }
            Edit::Revert { message, earlier, sums_up, now } => {
                let mut revert = json!({"messageID": message});
                for name in ["snapshot", "diff"] {
                    if let Some(value) = earlier.get(name) {
                        revert[name] = value.clone();
                    }
                }
                session.info["revert"] = revert;
                if *sums_up {
                    for name in ["additions", "deletions", "files"] {
                        session.info["summary"][name] = json!(0);
                    }
                }
                session.info["time"]["updated"] = json!(now);
            }
            Edit::Unrevert { now } => {
                session.info.as_object_mut().unwrap().shift_remove("revert");
                session.info["time"]["updated"] = json!(now);
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
            introduced: BTreeSet::new(),
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
            introduced: BTreeSet::new(),
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
