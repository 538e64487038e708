//! Positions: where a message stands in its session, and a part in its message.
//!
//! A home gives each message and part its position. Everything else compares positions, and does so here: [`sort`], or
//! [`sort_by_position`] where a database has put siblings in the order of their ids already. Positions of messages are close to the millisecond at which a message was made, whichever home gave them. So two homes that hold the
//! same conversation agree on its order, and so do messages that came from different homes.

use std::cmp::Ordering;

use crate::id::{ERA_MILLIS, MessageId, Millis, PartId, floor_millis};

/// The place of a message or part among its siblings: a smaller position comes first, and between equal positions the
/// smaller id. The number is part of the stored bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Position(i64);

impl Position {
    /// The position with a number: a time in milliseconds for a message, a line number, an index in a list.
    pub const fn new(number: i64) -> Position {
        Position(number)
    }

    /// The number.
    pub const fn number(self) -> i64 {
        self.0
    }

    /// The position of a message that is ordered by its id, as OpenCode orders messages in files. `made` is the time the
    /// message was made, which tells the era of the id.
    pub fn by_id(id: &MessageId, made: Millis) -> Position {
        Position::in_era(id.era(made), id.as_str())
    }

    /// The position of a message that is ordered by its id, which was made in an era.
    pub fn in_era(era: i64, id: &str) -> Position {
        Position(era.saturating_mul(ERA_MILLIS).saturating_add(floor_millis(id)))
    }

    /// The position of a part in its message, by its id. `made` is the time the message was made. Zero, unless the time
    /// field of ids wrapped between the message and the part.
    pub fn of_part(id: &PartId, made: Millis) -> Position {
        Position(id.era(made) - made.div_euclid(ERA_MILLIS))
    }
}

/// Puts siblings in the order of the conversation.
pub fn sort<T>(siblings: &mut [T], place: impl Fn(&T) -> (Position, &str)) {
    siblings.sort_by(|a, b| order(place(a), place(b)));
}

/// Puts siblings in the order of the conversation that are in the order of their ids already. Most often that is the same.
pub fn sort_by_position<T>(siblings: &mut [T], position: impl Fn(&T) -> Position) {
    if !siblings.is_sorted_by_key(&position) {
        siblings.sort_by_key(position);
    }
}

/// The order of two siblings, each given by its position and its id.
pub fn order(a: (Position, &str), b: (Position, &str)) -> Ordering {
    a.cmp(&b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message(id: &str) -> MessageId {
        MessageId::parse(id).unwrap()
    }

    #[test]
    fn messages_in_files_are_ordered_by_their_ids_also_across_the_wrap() {
        const WRAP: Millis = 1_786_706_395_136;
        let in_order = [
            ("msg_fffffffff001AAAAAAAAAAAAAA", WRAP - 1),
            ("msg_000000000001AAAAAAAAAAAAAA", WRAP),
            ("msg_000000000001BAAAAAAAAAAAAA", WRAP),
            ("msg_000000001001AAAAAAAAAAAAAA", WRAP + 1),
        ];
        for pair in in_order.windows(2) {
            let [a, b] = [pair[0], pair[1]].map(|(id, made)| (Position::by_id(&message(id), made), id));
            assert_eq!(order(a, b), Ordering::Less, "{a:?} {b:?}");
        }
    }

    #[test]
    fn the_position_of_a_message_is_close_to_its_time() {
        let position = Position::by_id(&message("msg_b50425ff7001vgFiMUNFzLtCda"), 1_766_578_085_884);
        assert_eq!(position.number(), 1_766_578_085_879);
    }

    #[test]
    fn parts_stand_at_zero_unless_ids_started_over() {
        const WRAP: Millis = 1_786_706_395_136;
        let part = |id: &str| PartId::parse(id).unwrap();
        assert_eq!(Position::of_part(&part("prt_fffffffff001AAAAAAAAAAAAAA"), WRAP - 1).number(), 0);
        assert_eq!(Position::of_part(&part("prt_000000000001AAAAAAAAAAAAAA"), WRAP - 1).number(), 1);
        assert_eq!(Position::of_part(&part("prt_1"), WRAP).number(), 0);
    }

    proptest! {
        /// Inside an era the order is exactly the one OpenCode gets from comparing strings, also for ids that a client invented.
        #[test]
        fn positions_say_what_ids_say(a in "[0-9A-Za-z]{1,26}", b in "[0-9A-Za-z]{1,26}", made in 0..4 * ERA_MILLIS) {
            let [a, b] = [a, b].map(|id| message(&format!("msg_{id}")));
            if a.era(made) == b.era(made) {
                let at = |id| Position::by_id(id, made);
                prop_assert_eq!(order((at(&a), a.as_str()), (at(&b), b.as_str())), a.as_str().cmp(b.as_str()));
            }
        }
    }
}
