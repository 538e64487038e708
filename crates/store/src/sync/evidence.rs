//! Decides whether a session may have changed since it was last looked at, and how much of it is read: the evidence of a home (its [`Sighting`])
//! is compared with that of the last look. Nothing is read or written here.
//!
//! What the evidence is, a home says: `homes/opencode/directory/survey.rs` (times and sizes of files) and `homes/opencode/database/survey.rs` (a
//! hash of the row, numbers of messages and parts, the place in the log). Whether evidence that stays the same can be trusted, the last look
//! says: `look.rs` (`settled`). The rules stand in a table in docs/sync.md.

use annals_core::id::Millis;

use super::source::Sighting;
use crate::follow::{Depth, Origin};

/// Depth and scope of a sync.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked {
    pub(crate) depth: Depth,
    /// Whether to look at everything, even if the evidence shows no change.
    pub(crate) full: bool,
    /// When the home was surveyed.
    pub(crate) began: Millis,
}

/// How much of a session is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    /// Nothing: it has not changed.
    Nothing,
    /// Documents written since an instant.
    Since(Millis),
    /// All of it.
    Whole,
}

/// Tolerance for the clocks of file systems, which are coarser than ours.
pub(crate) const SLACK: Millis = 2000;

impl Origin {
    /// Whether the look need not be repeated while the evidence stays the same. A look in the future was made by a clock that was
    /// ahead: it says nothing about what came after it.
    pub(crate) fn is_done(&self, asked: Asked) -> bool {
        self.is_gone
            || (self.cursor.settled && self.cursor.depth >= asked.depth && self.looked <= asked.began)
    }

    /// The instant since which documents have to be read again, if this look allows older ones to be skipped.
    fn since(&self, asked: Asked) -> Option<Millis> {
        let is_usable = self.cursor.depth >= asked.depth
            && self.looked <= asked.began
            && !self.is_gone
            && !self.cursor.has_unreadable
            && !asked.full;
        is_usable.then_some(self.looked - SLACK)
    }
}

/// Whether a sync also imports parts that belong to no message any more. `is_first`: that was never finished in this home.
pub(crate) fn takes_orphans(asked: Asked, is_first: bool) -> bool {
    asked.depth == Depth::Parts && (is_first || asked.full)
}

/// Decides how much of a session is to be read, from what is known of it and its current evidence.
pub(crate) fn reading(known: Option<&Origin>, sighting: &Sighting, asked: Asked) -> Reading {
    let Some(known) = known else { return Reading::Whole };
    let has_evidence = !sighting.stamp.is_empty() && known.cursor.stamp == sighting.stamp;
    if !asked.full && !known.is_gone && has_evidence && known.is_done(asked) {
        return Reading::Nothing;
    }
    // A session that was once looked at in depth is kept up to date in depth.
    let asked = Asked { depth: asked.depth.max(known.cursor.depth), ..asked };
    known.since(asked).map_or(Reading::Whole, Reading::Since)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::follow::Cursor;

    #[test]
    fn what_belongs_to_no_message_is_taken_over_until_that_was_done_once() {
        let asked = Asked { depth: Depth::Parts, full: false, began: 0 };
        assert!(takes_orphans(asked, true));
        assert!(!takes_orphans(asked, false));
        assert!(takes_orphans(Asked { full: true, ..asked }, false));
        assert!(!takes_orphans(Asked { depth: Depth::Messages, ..asked }, true));
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
        let origin = Origin { cursor, looked: 10_000, turn: 1, log_position: None, is_gone: false };
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
