//! What a session is now: a function of what the store knows and what a look has seen. Nothing is read or written here.
//!
//! Several homes may hold the same session. The home where it was last used leads: the store shows what that home has, and a
//! document that the leader does not have is not shown. What the other homes have is noted, so that the answer depends on
//! the looks and not on their order. A change that was made in the store alone stands until a home says something new about
//! that document.

use annals_core::id::Millis;

use super::source::Sighting;
use crate::home::annals::codec::Hash;

/// How deep a look at a session went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Depth {
    /// The session's own document; its messages and parts were counted.
    Messages = 1,
    /// The same, with the usage of each message and each tool call.
    Calls = 2,
    /// Everything.
    Parts = 3,
}

impl Depth {
    pub(crate) fn from_number(number: i64) -> Depth {
        match number {
            3.. => Depth::Parts,
            2 => Depth::Calls,
            _ => Depth::Messages,
        }
    }
}

/// What the last look at a session in one home found out about the session as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Look {
    pub(crate) home: i64,
    /// When the session was last used there, as its document says.
    pub(crate) updated: Millis,
    pub(crate) is_database: bool,
    pub(crate) is_own: bool,
    /// Counts all looks, whatever the clock says.
    pub(crate) turn: i64,
    /// Whether the home still has the session.
    pub(crate) is_there: bool,
    /// Whether messages and parts were looked at.
    pub(crate) is_deep: bool,
}

/// The home that leads in a session: where it was last used; of equals a database before a directory, the user's own home
/// before one that was only named, and then the one that was looked at later. None if no home has it any more.
pub(crate) fn leader<'l>(looks: impl IntoIterator<Item = &'l Look>) -> Option<i64> {
    let there = looks.into_iter().filter(|look| look.is_there);
    let rank = |look: &&Look| (look.updated, look.is_database, look.is_own, look.turn, look.home);
    there.max_by_key(rank).map(|look| look.home)
}

/// Who leads in a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Leaders {
    /// In the session's own document.
    pub(crate) session: Option<i64>,
    /// In everything else. Only homes count whose messages were looked at.
    pub(crate) rest: Option<i64>,
}

impl Leaders {
    pub(crate) fn of(looks: &[Look]) -> Leaders {
        Leaders { session: leader(looks), rest: leader(looks.iter().filter(|look| look.is_deep)) }
    }

    pub(crate) fn is(&self, home: i64, is_session: bool) -> bool {
        Some(home) == if is_session { self.session } else { self.rest }
    }
}

/// What the store knows about one document, as far as one home is concerned.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Known {
    /// The hash of the state that is shown; none if the document was deleted.
    pub(crate) shown: Option<Hash>,
    /// The home that this state comes from; none for a change that was made in the store.
    pub(crate) from: Option<i64>,
    /// What the home said at its last look, where that is not the shown state, or the shown state came from elsewhere.
    pub(crate) said: Option<Hash>,
    /// The state in the store that says the same as `said` in another form.
    pub(crate) kept: Option<Hash>,
}

/// What to do about a document after a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Everything is known.
    Nothing,
    /// Note what the home says. It is what is shown, maybe in another form.
    Note,
    /// Show what the home says.
    Show,
    /// Keep what the home says as an older state.
    Keep,
    /// Stop showing the document.
    Remove,
    /// Note that the home does not have the document any more.
    Unsay,
}

/// What to do about a document that a home has. `is_same` tells whether it says the same as what is shown, in another form; it is
/// asked only where that matters.
pub(crate) fn present(
    known: Option<&Known>,
    home: i64,
    leads: bool,
    hash: Hash,
    is_same: impl FnOnce() -> bool,
) -> Verdict {
    let other = if leads { Verdict::Show } else { Verdict::Keep };
    let Some(known) = known else { return other };
    let is_shown = known.shown == Some(hash);
    let is_as_said = known.said == Some(hash);
    match known.from {
        Some(from) if from == home && is_shown => return Verdict::Nothing,
        Some(from) if from == home && !(is_as_said && known.kept == known.shown) => return other,
        None if is_as_said => return Verdict::Nothing,
        _ => {}
    }
    if is_as_said && (is_shown || !leads || (known.kept.is_some() && known.kept == known.shown)) {
        return Verdict::Nothing;
    }
    if is_shown || (known.shown.is_some() && is_same()) { Verdict::Note } else { other }
}

/// What to do about a document that a home does not have.
pub(crate) fn absent(known: &Known, home: i64, leads: bool) -> Verdict {
    let is_shown = known.shown.is_some();
    match known.from {
        Some(_) if leads && is_shown => Verdict::Remove,
        Some(from) if from == home && is_shown => Verdict::Unsay,
        // What was made in the store alone is not the home's to delete, unless the home had it too.
        None if leads && is_shown && known.said.is_some() => Verdict::Remove,
        _ if known.said.is_some() => Verdict::Unsay,
        _ => Verdict::Nothing,
    }
}

/// How far the last look at a session in a home went, as far as that decides what to do at the next one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cursor {
    pub(crate) stamp: Vec<u8>,
    pub(crate) updated: Millis,
    /// Whether nothing changes any more without the stamp changing.
    pub(crate) settled: bool,
    pub(crate) depth: Depth,
    /// Whether something could not be read.
    pub(crate) has_unreadable: bool,
}

/// What is known of a session in a home.
#[derive(Debug, Clone)]
pub(crate) struct Origin {
    pub(crate) session: i64,
    pub(crate) cursor: Cursor,
    pub(crate) looked: Millis,
    pub(crate) turn: i64,
    pub(crate) events: Option<i64>,
    pub(crate) is_gone: bool,
}

/// What is asked of a sync.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked {
    pub(crate) depth: Depth,
    /// Whether to look at everything, whatever the evidence says.
    pub(crate) full: bool,
    /// When the home was surveyed.
    pub(crate) began: Millis,
}

/// How much of a session is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    /// Nothing: it is as it was.
    Nothing,
    /// What was written since an instant.
    Since(Millis),
    /// All of it.
    Whole,
}

/// Clocks of file systems are coarser than ours.
pub(crate) const SLACK: Millis = 2000;

impl Origin {
    /// Whether a look like this one need not be repeated as long as the evidence stays the same. A look in the future was made
    /// by a clock that was ahead: it says nothing about what came after it.
    pub(crate) fn is_done(&self, asked: Asked) -> bool {
        self.is_gone
            || (self.cursor.settled && self.cursor.depth >= asked.depth && self.looked <= asked.began)
    }

    /// The instant since which documents have to be read again, where this look allows to leave the older ones out.
    fn since(&self, asked: Asked) -> Option<Millis> {
        let is_usable = self.cursor.depth >= asked.depth
            && self.looked <= asked.began
            && !self.is_gone
            && !self.cursor.has_unreadable
            && !asked.full;
        is_usable.then_some(self.looked - SLACK)
    }
}

/// How much of a session is to be read, given what is known of it and what it looks like from outside.
pub(crate) fn reading(known: Option<&Origin>, sighting: &Sighting, asked: Asked) -> Reading {
    let Some(known) = known else { return Reading::Whole };
    let has_evidence = !sighting.stamp.is_empty() && known.cursor.stamp == sighting.stamp;
    if !asked.full && !known.is_gone && has_evidence && known.is_done(asked) {
        return Reading::Nothing;
    }
    // What was looked at in depth once is kept up to date in depth.
    let asked = Asked { depth: asked.depth.max(known.cursor.depth), ..asked };
    known.since(asked).map_or(Reading::Whole, Reading::Since)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIRECTORY: i64 = 1;
    const DATABASE: i64 = 2;
    const FOREIGN: i64 = 3;

    fn look(home: i64, updated: Millis, turn: i64) -> Look {
        Look {
            home,
            updated,
            is_database: home != DIRECTORY,
            is_own: home != FOREIGN,
            turn,
            is_there: true,
            is_deep: true,
        }
    }

    fn hash(name: &str) -> Hash {
        Hash::of(name.as_bytes())
    }

    #[test]
    fn the_home_where_a_session_was_last_used_leads() {
        let gone = |look: Look| Look { is_there: false, ..look };
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
            ("gone everywhere", vec![gone(look(DATABASE, 9, 1)), gone(look(DIRECTORY, 5, 2))], None),
            (
                "of two alike the one looked at later",
                vec![look(DATABASE, 5, 8), Look { home: 9, ..look(DATABASE, 5, 7) }],
                Some(DATABASE),
            ),
        ] {
            assert_eq!(leader(&looks), expected, "{what}");
            let reversed: Vec<Look> = looks.into_iter().rev().collect();
            assert_eq!(leader(&reversed), expected, "{what}, in another order");
        }
    }

    #[test]
    fn messages_are_led_by_a_home_whose_messages_were_looked_at() {
        let looks = [look(DIRECTORY, 5, 1), Look { is_deep: false, ..look(DATABASE, 9, 2) }];
        let leaders = Leaders::of(&looks);
        assert_eq!(leaders, Leaders { session: Some(DATABASE), rest: Some(DIRECTORY) });
        assert!(leaders.is(DATABASE, true) && !leaders.is(DATABASE, false));
    }

    /// The store shows `shown` from a home, or as it was changed here; the home that is looked at said `said` before and has
    /// `has` now.
    #[test]
    fn what_becomes_of_a_document_is_told_by_this_table() {
        use Verdict::*;
        const HERE: Option<i64> = None;
        const THIS: Option<i64> = Some(DATABASE);
        const OTHER: Option<i64> = Some(DIRECTORY);
        type Row = (
            &'static str,
            Option<&'static str>,
            Option<i64>,
            Option<&'static str>,
            Option<&'static str>,
            bool,
            Verdict,
        );
        let table: &[Row] = &[
            // what,                                   shown,     from,  said,      has,       leads, verdict
            ("it is as it was", Some("a"), THIS, None, Some("a"), true, Nothing),
            ("the leader changed it", Some("a"), THIS, None, Some("b"), true, Show),
            ("the leader deleted it", Some("a"), THIS, None, None, true, Remove),
            ("it came back", None, THIS, None, Some("a"), true, Show),
            ("it is deleted still", None, THIS, None, None, true, Nothing),
            ("a follower changed what it had given", Some("a"), THIS, None, Some("b"), false, Keep),
            ("a follower deleted what it had given", Some("a"), THIS, None, None, false, Unsay),
            ("another home has the same", Some("a"), OTHER, None, Some("a"), true, Note),
            ("another home still has the same", Some("a"), OTHER, Some("a"), Some("a"), true, Nothing),
            ("a follower has the same", Some("a"), OTHER, None, Some("a"), false, Note),
            ("a follower has an older state", Some("a"), OTHER, None, Some("b"), false, Keep),
            ("a follower still has it", Some("a"), OTHER, Some("b"), Some("b"), false, Nothing),
            ("a follower changed it again", Some("a"), OTHER, Some("b"), Some("c"), false, Keep),
            ("a follower lost it", Some("a"), OTHER, Some("b"), None, false, Unsay),
            ("a follower never had it", Some("a"), OTHER, None, None, false, Nothing),
            // W1: the home said this before, when another home led. Now it leads.
            ("who leads now has what it always had", Some("a"), OTHER, Some("b"), Some("b"), true, Show),
            ("who leads now has what was deleted elsewhere", None, OTHER, Some("b"), Some("b"), true, Show),
            ("who leads now never had it", Some("a"), OTHER, None, None, true, Remove),
            ("who leads now lost it", Some("a"), OTHER, Some("a"), None, true, Remove),
            ("a change made here stands", Some("mine"), HERE, Some("a"), Some("a"), true, Nothing),
            ("until the leader changes it", Some("mine"), HERE, Some("a"), Some("b"), true, Show),
            ("but not if a follower does", Some("mine"), HERE, Some("a"), Some("b"), false, Keep),
            ("the leader says the same by now", Some("mine"), HERE, Some("a"), Some("mine"), true, Note),
            ("made here, in no home", Some("mine"), HERE, None, None, true, Nothing),
            ("changed here, deleted in the leader since", Some("mine"), HERE, Some("a"), None, true, Remove),
            ("changed here, deleted in a follower since", Some("mine"), HERE, Some("a"), None, false, Unsay),
            ("deleted here stays deleted", None, HERE, Some("a"), Some("a"), true, Nothing),
            ("deleted here, changed in the leader since", None, HERE, Some("a"), Some("b"), true, Show),
        ];
        for (what, shown, from, said, has, leads, expected) in table {
            let known = Known { shown: shown.map(hash), from: *from, said: said.map(hash), kept: None };
            let verdict = match has {
                Some(has) => present(Some(&known), DATABASE, *leads, hash(has), || false),
                None => absent(&known, DATABASE, *leads),
            };
            assert_eq!(verdict, *expected, "{what}");
        }
    }

    #[test]
    fn another_form_of_what_is_shown_is_noted_once() {
        let mut known = Known { shown: Some(hash("pretty")), from: Some(DIRECTORY), said: None, kept: None };
        let compact = hash("compact");
        assert_eq!(present(Some(&known), DATABASE, true, compact, || true), Verdict::Note);
        known = Known { said: Some(compact), kept: known.shown, ..known };
        let never = || panic!("it is known already");
        assert_eq!(present(Some(&known), DATABASE, true, compact, never), Verdict::Nothing);
        // What is shown has changed since.
        known.shown = Some(hash("changed"));
        assert_eq!(present(Some(&known), DATABASE, true, compact, || false), Verdict::Show);
        assert_eq!(present(None, DATABASE, true, compact, never), Verdict::Show);
        assert_eq!(present(None, DATABASE, false, compact, never), Verdict::Keep);
    }

    #[test]
    fn evidence_decides_how_much_is_read() {
        let sighting = |stamp: &[u8]| Sighting {
            session: annals_core::id::SessionId::parse("ses_1").unwrap(),
            project: annals_core::id::ProjectId::global(),
            stamp: stamp.to_vec(),
            written: 0,
            is_single: true,
        };
        let cursor =
            Cursor { stamp: vec![1], updated: 5, settled: true, depth: Depth::Parts, has_unreadable: false };
        let origin = Origin { session: 1, cursor, looked: 10_000, turn: 1, events: None, is_gone: false };
        let asked = Asked { depth: Depth::Parts, full: false, began: 20_000 };
        let since = Reading::Since(10_000 - SLACK);
        let with = |change: &dyn Fn(&mut Origin)| {
            let mut changed = origin.clone();
            change(&mut changed);
            changed
        };
        for (what, origin, stamp, asked, expected) in [
            ("nothing new", origin.clone(), &[1][..], asked, Reading::Nothing),
            ("another stamp", origin.clone(), &[2], asked, since),
            ("no evidence", origin.clone(), &[], asked, since),
            ("a full sync", origin.clone(), &[1], Asked { full: true, ..asked }, Reading::Whole),
            ("it is gone", with(&|origin| origin.is_gone = true), &[1], asked, Reading::Whole),
            ("it has not settled", with(&|origin| origin.cursor.settled = false), &[1], asked, since),
            (
                "something was unreadable",
                with(&|o| o.cursor.has_unreadable = true),
                &[2],
                asked,
                Reading::Whole,
            ),
            ("a look in the future", with(&|o| o.looked = 30_000), &[1], asked, Reading::Whole),
            ("only counted", with(&|o| o.cursor.depth = Depth::Messages), &[1], asked, Reading::Whole),
            (
                "deeper than asked",
                origin.clone(),
                &[1],
                Asked { depth: Depth::Messages, ..asked },
                Reading::Nothing,
            ),
        ] {
            assert_eq!(reading(Some(&origin), &sighting(stamp), asked), expected, "{what}");
        }
        assert_eq!(reading(None, &sighting(&[1]), asked), Reading::Whole);
    }
}
