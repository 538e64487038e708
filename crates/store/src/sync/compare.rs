//! Decides what a session is now, from what the store knows and what looks have seen. Nothing is read or written here.
//!
//! Several homes may hold the same session. The home where it was last used leads: the store shows what that home has, and a
//! document that the leader does not have is not shown. What every home had at its last look is kept, so the answer depends on
//! the looks and not on their order. A change that was made in the store alone stands while the leader still has what it had when
//! the change was made.

use crate::follow::{HomeNumber, Look};
use crate::state_hash::StateHash;

/// The look that leads: the one in the home where the session was last used. Among equals, a database leads before a directory, the user's
/// own home before one that was only named, and then the later look. A home that no longer has the session leads only if none has it.
pub(crate) fn leader<'l>(looks: impl IntoIterator<Item = &'l Look>) -> Option<&'l Look> {
    let rank = |look: &&Look| (look.is_there, look.updated, look.rank, look.is_own, look.turn, look.home);
    looks.into_iter().max_by_key(rank)
}

/// Which home leads in a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Leaders {
    /// In the session's own document.
    pub(crate) session: Option<HomeNumber>,
    /// In everything else. Only homes whose messages were looked at count.
    pub(crate) rest: Option<HomeNumber>,
    /// Whether any home still has the session.
    pub(crate) is_there: bool,
}

impl Leaders {
    pub(crate) fn of(looks: &[Look]) -> Leaders {
        let home = |look: Option<&Look>| look.map(|look| look.home);
        Leaders {
            session: home(leader(looks)),
            rest: home(leader(looks.iter().filter(|look| look.is_deep))),
            is_there: looks.iter().any(|look| look.is_there),
        }
    }
}

/// Sort of a document, which decides which home leads in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sort {
    /// The session's own document.
    Session,
    /// Messages, parts and other documents that every home has a place for.
    Content,
    /// Documents that not every home has a place for: only homes that have the document are asked.
    Optional,
}

/// State in a home at the time a document was changed in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Base {
    /// This state of the document; `None` if the home did not have the document.
    State(Option<StateHash>),
    /// The home did not even have the session any more.
    Gone,
}

/// State of a document in a home, as of the last look there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) home: HomeNumber,
    /// The state in the store that says the same as the home; `None` if the home does not have the document.
    pub(crate) state: Option<StateHash>,
    /// State in the home when the document was last changed in the store, if it ever was.
    pub(crate) base: Base,
}

/// A document as the store and all homes have it.
#[derive(Debug, Clone)]
pub(crate) struct KnownDocument {
    pub(crate) sort: Sort,
    /// States in homes. A home that is not listed does not have the document and did not have it when it was changed in the store.
    pub(crate) held: Vec<Held>,
    /// A change that was made in the store: the new state, or `Some(None)` if the document was deleted there.
    pub(crate) local: Option<Option<StateHash>>,
}

/// Where the shown state of a document comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shown {
    /// This home has this state; `None`: the home does not have the document.
    Home(HomeNumber, Option<StateHash>),
    /// It was changed in the store; `None`: it was deleted there.
    Local(Option<StateHash>),
    /// Not shown, because its session was deleted in the store.
    Hidden,
    /// Neither a home nor the store has or had it.
    Nothing,
}

impl Shown {
    pub(crate) fn state(self) -> Option<StateHash> {
        match self {
            Shown::Home(_, state) | Shown::Local(state) => state,
            Shown::Hidden | Shown::Nothing => None,
        }
    }
}

/// Decides which state of a document is shown. `is_deleted`: its session was deleted in the store, and the deletion stands.
pub(crate) fn shown(known: &KnownDocument, looks: &[Look], is_deleted: bool) -> Shown {
    if is_deleted {
        return Shown::Hidden;
    }
    let has_it = |home: HomeNumber| known.held.iter().any(|held| held.home == home && held.state.is_some());
    let leader = leader(looks.iter().filter(|look| match known.sort {
        Sort::Session => true,
        Sort::Content => look.is_deep,
        Sort::Optional => look.is_deep && has_it(look.home),
    }));
    let Some(leader) = leader else {
        // No home was looked at as a whole, so it is not certain of any home that it does not have the document.
        let held = known.held.iter().filter(|held| held.state.is_some()).max_by_key(|held| held.home);
        return match (known.local, held) {
            (Some(local), _) => Shown::Local(local),
            (None, Some(held)) => Shown::Home(held.home, held.state),
            (None, None) => Shown::Nothing,
        };
    };
    let held = known.held.iter().find(|held| held.home == leader.home);
    let (state, base) = held.map_or((None, Base::State(None)), |held| (held.state, held.base));
    let is_as_then = match base {
        Base::State(then) => then == state,
        // Either the session came back since, which is news, or it is still gone.
        Base::Gone => !leader.is_there,
    };
    match known.local {
        Some(local) if is_as_then => Shown::Local(local),
        _ => Shown::Home(leader.home, state),
    }
}

/// Whether a look at a session in a home was overtaken: another process has looked at the same session in the same home since the look
/// began. The state that the look was compared with is out of date, so the look has to be made again. `began` and `now` are the turns of
/// the last look in this home: when this look began, and now.
pub(crate) fn is_overtaken(began: Option<i64>, now: Option<i64>) -> bool {
    began != now
}

/// Facts that decide whether a home is one that the store knows under another path.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Resemblance {
    /// Both paths lead to the same place now.
    pub(crate) is_same_place: bool,
    /// The known home can still be opened where it was.
    pub(crate) is_still_there: bool,
    /// The store itself was moved since it last looked: if its homes were copied along with it, it follows the copies.
    pub(crate) is_store_elsewhere: bool,
    /// Both are the user's own, or neither is.
    pub(crate) is_of_same_owner: bool,
    /// Sessions the store knows in the known home, sessions in the new one, sessions in both.
    pub(crate) n_known: usize,
    pub(crate) n_here: usize,
    pub(crate) n_shared: usize,
}

impl Resemblance {
    /// Whether the home at the new path is the known one: it was moved there, or it is reached through a link.
    pub(crate) fn is_same_home(self) -> bool {
        let is_alike = 2 * self.n_shared >= self.n_here.min(self.n_known) && self.n_shared > 0;
        // A home from which everything was deleted has no sessions to recognise it by, and an undo of the deletion must find it.
        let are_empty = self.n_here == 0 && self.n_known == 0;
        let has_moved = (!self.is_still_there || self.is_store_elsewhere)
            && self.is_of_same_owner
            && (is_alike || are_empty);
        self.is_same_place || has_moved
    }
}

#[cfg(test)]
mod tests {
    use annals_core::id::Millis;

    use super::*;

    const DIRECTORY: HomeNumber = HomeNumber(1);
    const DATABASE: HomeNumber = HomeNumber(2);
    const FOREIGN: HomeNumber = HomeNumber(3);

    fn look(home: HomeNumber, updated: Millis, turn: i64) -> Look {
        Look {
            home,
            updated,
            rank: i64::from(home != DIRECTORY),
            is_own: home != FOREIGN,
            turn,
            is_there: true,
            is_deep: true,
        }
    }

    fn hash(name: &str) -> StateHash {
        StateHash::of(name.as_bytes())
    }

    fn gone(mut look: Look) -> Look {
        look.is_there = false;
        look
    }

    #[test]
    fn the_home_where_a_session_was_last_used_leads() {
        for (what, looks, expected) in [
            ("one home", vec![look(DIRECTORY, 5, 1)], Some(DIRECTORY)),
            ("the later use", vec![look(DIRECTORY, 6, 1), look(DATABASE, 5, 2)], Some(DIRECTORY)),
            ("of equals the database", vec![look(DATABASE, 5, 1), look(DIRECTORY, 5, 2)], Some(DATABASE)),
            ("of databases one's own", vec![look(DATABASE, 5, 1), look(FOREIGN, 5, 2)], Some(DATABASE)),
            ("a foreign home that is newer", vec![look(DATABASE, 5, 1), look(FOREIGN, 6, 2)], Some(FOREIGN)),
            (
                "gone where it was newest",
                vec![gone(look(DATABASE, 9, 1)), look(DIRECTORY, 5, 2)],
                Some(DIRECTORY),
            ),
            (
                "gone everywhere",
                vec![gone(look(DATABASE, 9, 1)), gone(look(DIRECTORY, 5, 2))],
                Some(DATABASE),
            ),
            (
                "of two alike the one looked at later",
                vec![look(DATABASE, 5, 8), Look { home: HomeNumber(9), ..look(DATABASE, 5, 7) }],
                Some(DATABASE),
            ),
            ("no home", vec![], None),
        ] {
            let home = |looks: &[Look]| leader(looks).map(|look| look.home);
            assert_eq!(home(&looks), expected, "{what}");
            let reversed: Vec<Look> = looks.into_iter().rev().collect();
            assert_eq!(home(&reversed), expected, "{what}, in another order");
        }
    }

    #[test]
    fn messages_are_led_by_a_home_whose_messages_were_looked_at() {
        let looks = [look(DIRECTORY, 5, 1), Look { is_deep: false, ..look(DATABASE, 9, 2) }];
        let leaders = Leaders::of(&looks);
        assert_eq!(leaders, Leaders { session: Some(DATABASE), rest: Some(DIRECTORY), is_there: true });
    }

    /// A home that has a document, or does not have it, and what it had when the document was changed in the store.
    fn has(home: HomeNumber, state: Option<&str>, base: Option<&str>) -> Held {
        Held { home, state: state.map(hash), base: Base::State(base.map(hash)) }
    }

    #[test]
    fn what_is_shown_of_a_document_is_told_by_this_table() {
        const DELETED: Option<Option<&str>> = Some(None);
        let newest_database = || vec![look(DIRECTORY, 5, 1), look(DATABASE, 9, 2)];
        let newest_directory = || vec![look(DIRECTORY, 9, 3), look(DATABASE, 5, 2)];
        let only_database = || vec![look(DATABASE, 9, 2)];
        let gone_database = || vec![gone(look(DATABASE, 9, 2))];
        let from = |home: HomeNumber, state: Option<&str>| Shown::Home(home, state.map(hash));
        let here = |state: Option<&str>| Shown::Local(state.map(hash));
        let back = |state: &str| Held { base: Base::Gone, ..has(DATABASE, Some(state), None) };
        type Row<'r> = (&'r str, Vec<Look>, Vec<Held>, Option<Option<&'r str>>, Shown);
        let table: Vec<Row<'_>> = vec![
            (
                "one home has it",
                only_database(),
                vec![has(DATABASE, Some("a"), None)],
                None,
                from(DATABASE, Some("a")),
            ),
            (
                "one home deleted it",
                only_database(),
                vec![has(DATABASE, None, None)],
                None,
                from(DATABASE, None),
            ),
            (
                "the leader has something else",
                newest_database(),
                vec![has(DIRECTORY, Some("a"), None), has(DATABASE, Some("b"), None)],
                None,
                from(DATABASE, Some("b")),
            ),
            (
                "only a follower has it",
                newest_database(),
                vec![has(DIRECTORY, Some("a"), None)],
                None,
                from(DATABASE, None),
            ),
            // W1: the database deleted it and led; then the directory was used again, and still has it.
            (
                "who leads now has what was deleted elsewhere",
                newest_directory(),
                vec![has(DIRECTORY, Some("a"), None), has(DATABASE, None, None)],
                None,
                from(DIRECTORY, Some("a")),
            ),
            // W1: the same with a text that the database had changed.
            (
                "who leads now has what it always had",
                newest_directory(),
                vec![has(DIRECTORY, Some("a"), None), has(DATABASE, Some("b"), None)],
                None,
                from(DIRECTORY, Some("a")),
            ),
            (
                "gone where it led",
                vec![look(DIRECTORY, 5, 1), gone(look(DATABASE, 9, 2))],
                vec![has(DIRECTORY, Some("a"), None), has(DATABASE, Some("b"), None)],
                None,
                from(DIRECTORY, Some("a")),
            ),
            (
                "gone everywhere, it is what it was where it was used last",
                vec![gone(look(DIRECTORY, 5, 1)), gone(look(DATABASE, 9, 2))],
                vec![has(DIRECTORY, Some("a"), None), has(DATABASE, Some("b"), None)],
                None,
                from(DATABASE, Some("b")),
            ),
            ("made here, in no home", only_database(), vec![], Some(Some("mine")), here(Some("mine"))),
            ("made here, without homes", vec![], vec![], Some(Some("mine")), here(Some("mine"))),
            (
                "in a home that was never looked at as a whole",
                vec![],
                vec![has(DATABASE, Some("a"), None)],
                None,
                from(DATABASE, Some("a")),
            ),
            (
                "a change made here stands",
                only_database(),
                vec![has(DATABASE, Some("a"), Some("a"))],
                Some(Some("mine")),
                here(Some("mine")),
            ),
            (
                "until the leader changes it",
                only_database(),
                vec![has(DATABASE, Some("b"), Some("a"))],
                Some(Some("mine")),
                from(DATABASE, Some("b")),
            ),
            (
                "but not if a follower does",
                newest_database(),
                vec![has(DIRECTORY, Some("b"), Some("a")), has(DATABASE, Some("a"), Some("a"))],
                Some(Some("mine")),
                here(Some("mine")),
            ),
            (
                "as soon as that follower leads",
                newest_directory(),
                vec![has(DIRECTORY, Some("b"), Some("a")), has(DATABASE, Some("a"), Some("a"))],
                Some(Some("mine")),
                from(DIRECTORY, Some("b")),
            ),
            (
                "another home that has not changed since leads",
                newest_directory(),
                vec![has(DIRECTORY, Some("b"), Some("b")), has(DATABASE, Some("a"), Some("a"))],
                Some(Some("mine")),
                here(Some("mine")),
            ),
            (
                "changed here, deleted in the leader since",
                only_database(),
                vec![has(DATABASE, None, Some("a"))],
                Some(Some("mine")),
                from(DATABASE, None),
            ),
            (
                "deleted here stays deleted",
                only_database(),
                vec![has(DATABASE, Some("a"), Some("a"))],
                DELETED,
                here(None),
            ),
            (
                "deleted here, changed in the leader since",
                only_database(),
                vec![has(DATABASE, Some("b"), Some("a"))],
                DELETED,
                from(DATABASE, Some("b")),
            ),
            (
                "changed here, then the session is gone from its home",
                gone_database(),
                vec![has(DATABASE, Some("a"), Some("a"))],
                Some(Some("mine")),
                here(Some("mine")),
            ),
            (
                "changed here after it was gone",
                gone_database(),
                vec![back("a")],
                Some(Some("mine")),
                here(Some("mine")),
            ),
            (
                "and then it came back",
                only_database(),
                vec![back("a")],
                Some(Some("mine")),
                from(DATABASE, Some("a")),
            ),
            (
                "deleted here after it was gone, and came back",
                only_database(),
                vec![back("a")],
                DELETED,
                from(DATABASE, Some("a")),
            ),
        ];
        for (what, looks, held, local, expected) in table {
            let known =
                KnownDocument { sort: Sort::Content, held, local: local.map(|local| local.map(hash)) };
            assert_eq!(shown(&known, &looks, false), expected, "{what}");
            let reversed = KnownDocument { held: known.held.iter().rev().copied().collect(), ..known };
            let looks: Vec<Look> = looks.into_iter().rev().collect();
            assert_eq!(shown(&reversed, &looks, false), expected, "{what}, in another order");
        }
    }

    #[test]
    fn what_not_every_home_has_a_place_for_is_asked_of_those_that_have_it() {
        let looks = [look(DIRECTORY, 5, 1), look(DATABASE, 9, 2)];
        let held = vec![has(DIRECTORY, Some("a"), None)];
        let known = KnownDocument { sort: Sort::Optional, held: held.clone(), local: None };
        assert_eq!(shown(&known, &looks, false), Shown::Home(DIRECTORY, Some(hash("a"))));
        let known = KnownDocument { sort: Sort::Content, held, local: None };
        assert_eq!(shown(&known, &looks, false), Shown::Home(DATABASE, None));
    }

    #[test]
    fn documents_are_hidden_as_long_as_the_deletion_of_their_session_stands() {
        let looks = [look(DATABASE, 9, 1)];
        let held = vec![has(DATABASE, Some("a"), None)];
        let known = KnownDocument { sort: Sort::Content, held, local: None };
        assert_eq!(shown(&known, &looks, true), Shown::Hidden);
        assert_eq!(shown(&known, &looks, false), Shown::Home(DATABASE, Some(hash("a"))));
    }

    /// W2: a first sync that was interrupted has not imported everything, even if a later `list` notes the home.
    /// W3: a home that was moved, or is reached through a link, is the same home.
    #[test]
    fn a_home_is_recognised_by_its_place_or_its_sessions() {
        let moved = Resemblance {
            is_same_place: false,
            is_still_there: false,
            is_store_elsewhere: false,
            is_of_same_owner: true,
            n_known: 10,
            n_here: 10,
            n_shared: 10,
        };
        for (what, resemblance, expected) in [
            ("moved", moved, true),
            ("moved, and used since", Resemblance { n_here: 30, n_shared: 9, ..moved }, true),
            ("moved, and tidied since", Resemblance { n_here: 2, n_shared: 2, ..moved }, true),
            ("a copy", Resemblance { is_still_there: true, ..moved }, false),
            (
                "a copy that was made with the store",
                Resemblance { is_still_there: true, is_store_elsewhere: true, ..moved },
                true,
            ),
            ("through a link", Resemblance { is_same_place: true, is_still_there: true, ..moved }, true),
            ("somebody else's", Resemblance { is_of_same_owner: false, ..moved }, false),
            ("other sessions", Resemblance { n_shared: 0, ..moved }, false),
            ("mostly other sessions", Resemblance { n_shared: 4, ..moved }, false),
            ("an empty one", Resemblance { n_here: 0, n_shared: 0, ..moved }, false),
            (
                "moved after everything was deleted",
                Resemblance { n_known: 0, n_here: 0, n_shared: 0, ..moved },
                true,
            ),
        ] {
            assert_eq!(resemblance.is_same_home(), expected, "{what}");
        }
    }

    /// W4: of two looks at the same session in the same home, the one that began earlier must not be taken for the later one.
    #[test]
    fn a_look_is_overtaken_by_another_that_was_committed_since_it_began() {
        assert!(!is_overtaken(None, None));
        assert!(!is_overtaken(Some(7), Some(7)));
        assert!(is_overtaken(Some(7), Some(8)));
        assert!(is_overtaken(None, Some(1)));
        assert!(is_overtaken(Some(7), None), "it was forgotten meanwhile");
    }
}
