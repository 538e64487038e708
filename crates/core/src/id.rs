//! Ids: their grammar, the time they carry, and an order that survives the wrap of that time.
//!
//! An OpenCode id is `<prefix>_<12 hex digits><14 base-62 digits>`. The hex digits hold 36 bits of Unix milliseconds
//! and a 12-bit counter; session ids hold the complement, so that they sort newest first. 36 bits last 795 days: the
//! field wrapped on 2026-08-14T11:19:55.136Z and will wrap again on 2028-10-17. Ids therefore have no `Ord` here. They
//! are ordered by the era they were made in and then, like in OpenCode, as strings. Inside an era that is exactly
//! OpenCode's order, whichever program made the ids, and across eras it is chronological.

use std::fmt;
use std::sync::Arc;

/// Milliseconds since the Unix epoch, as OpenCode stores all times. Lenses drop times beyond ±8.64e15, the range of a
/// JavaScript date, so that arithmetic on times does not overflow.
pub type Millis = i64;

/// Length of an era in milliseconds: the time field of an id wraps after 2^36.
pub const ERA_MILLIS: Millis = 1 << 36;

/// Greatest believable distance between the time in an id and the time its entity was made. Beyond it the id did not come
/// from OpenCode's clock: clients may send ids of their own, and a fork keeps the times of the messages it copies.
const BELIEVABLE: Millis = 30 * 24 * 60 * 60 * 1000;

const FIELD_BITS: u32 = 48;
const FIELD_MASK: u64 = (1 << FIELD_BITS) - 1;
const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Why a string is not an id of the wanted kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not {what}: {rule}")]
pub struct IdError {
    /// The string, cut if it is long.
    pub text: String,
    /// The wanted kind of id, with its article.
    pub what: &'static str,
    /// The rule it breaks.
    pub rule: &'static str,
}

impl IdError {
    fn new(text: &str, what: &'static str, rule: &'static str) -> IdError {
        let mut shown: String = text.chars().take(80).collect();
        if shown.len() < text.len() {
            shown.push('…');
        }
        IdError { text: shown, what, rule }
    }
}

/// Whether later ids of a kind are greater or smaller strings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Later ids are greater.
    Ascending,
    /// Later ids are smaller.
    Descending,
}

/// The time an id was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IdMoment {
    /// The millisecond.
    pub millis: Millis,
    /// Number of the id among those of this millisecond and process.
    pub counter: u16,
}

impl IdMoment {
    fn from_field(field: u64, reference: Millis) -> IdMoment {
        let low = (field >> 12) as Millis;
        let era = (reference - low + ERA_MILLIS / 2).div_euclid(ERA_MILLIS);
        IdMoment { millis: low + era * ERA_MILLIS, counter: (field & 0xfff) as u16 }
    }
}

/// Implements the traits that show an id, and write it into documents, as its text.
macro_rules! shown_as_text {
    ($name:ident) => {
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl<'a> From<&'a $name> for crate::json::Text<'a> {
            fn from(id: &'a $name) -> Self {
                crate::json::Text::from(id.as_str())
            }
        }
    };
}

macro_rules! id_type {
    ($(#[$meta:meta])* $name:ident, $prefix:literal, $what:literal, $direction:ident) => {
        $(#[$meta])*
        #[derive(Clone, PartialEq, Eq, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The prefix of ids that OpenCode makes.
            pub const PREFIX: &'static str = $prefix;
            /// Whether later ids are greater strings.
            pub const DIRECTION: Direction = Direction::$direction;

            /// Parses an id of any agent. OpenCode's ids are described at [`Self::parse_opencode`]. Others have up to 128
            /// letters, digits, `_` and `-`, with at least one `-`, which no OpenCode id has. An adapter whose agent has ids
            /// without `-` prefixes them with the agent's name and a `-`.
            pub fn parse(text: &str) -> Result<$name, IdError> {
                match is_foreign_id(text) {
                    true => Ok($name(text.into())),
                    false => $name::parse_opencode(text),
                }
            }

            /// Parses an OpenCode id: `^[a-z]{2,10}_[0-9A-Za-z]{1,64}$`. The prefix is not checked, because older
            /// documents have other prefixes.
            pub fn parse_opencode(text: &str) -> Result<$name, IdError> {
                match is_opencode_id(text) {
                    true => Ok($name(text.into())),
                    false => Err(IdError::new(text, $what, OPENCODE_RULE)),
                }
            }

            /// Whether the id has OpenCode's form, so that OpenCode's homes can hold the entity it names.
            pub fn is_opencode(&self) -> bool {
                is_opencode_id(&self.0)
            }

            /// The id as a string.
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// The time the id was made, given a time within 397 days of it. `None` for ids of another form.
            pub fn moment(&self, reference: Millis) -> Option<IdMoment> {
                let field = time_field(&self.0)?;
                let field = match Self::DIRECTION {
                    Direction::Ascending => field,
                    Direction::Descending => !field & FIELD_MASK,
                };
                Some(IdMoment::from_field(field, reference))
            }

            /// The era the id was made in, given the time its entity was made. [`Position`](crate::Position) orders by it.
            pub fn era(&self, made: Millis) -> i64 {
                let moment = self.moment(made).map(|moment| moment.millis);
                let believable = moment.filter(|moment| (moment - made).abs() <= BELIEVABLE);
                believable.unwrap_or(made).div_euclid(ERA_MILLIS)
            }
        }

        shown_as_text!($name);

        impl std::str::FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<$name, IdError> {
                $name::parse(text)
            }
        }
    };
}

id_type! {
    /// The id of a session.
    SessionId, "ses", "a session id", Descending
}
id_type! {
    /// The id of a message.
    MessageId, "msg", "a message id", Ascending
}
id_type! {
    /// The id of a part.
    PartId, "prt", "a part id", Ascending
}
id_type! {
    /// The id of an event in OpenCode's log of changes.
    EventId, "evt", "an event id", Ascending
}

macro_rules! name_type {
    ($(#[$meta:meta])* $name:ident, $max:literal, $what:literal, $rule:literal) => {
        $(#[$meta])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Parses a non-empty text of letters, digits, `_` and `-` that is not too long.
            pub fn parse(text: &str) -> Result<$name, IdError> {
                let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
                match (1..=$max).contains(&text.len()) && text.bytes().all(allowed) {
                    true => Ok($name(text.into())),
                    false => Err(IdError::new(text, $what, $rule)),
                }
            }

            /// The id as a string.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        shown_as_text!($name);
    };
}

name_type! {
    /// The id of a project: a git root commit, `global`, or another form from older versions.
    ProjectId, 64, "a project id", "project ids are 1 to 64 letters, digits, `_` or `-`"
}
name_type! {
    /// The id of another agent's record within its session: a line number, for instance.
    RecordId, 128, "a record id", "record ids are 1 to 128 letters, digits, `_` or `-`"
}

impl ProjectId {
    /// The project of sessions outside any repository with commits.
    pub fn global() -> ProjectId {
        ProjectId("global".into())
    }

    /// Whether this is the project of sessions outside any repository.
    pub fn is_global(&self) -> bool {
        &*self.0 == "global"
    }
}

/// Makes ids as OpenCode does. It has no clock and no randomness of its own: the caller passes both.
#[derive(Debug, Default)]
pub struct IdGenerator {
    last_millis: Millis,
    counter: u64,
}

/// The randomness that goes into one id.
pub type Entropy = [u8; 14];

impl IdGenerator {
    /// A new generator. All ids of a process must come from the same one, or two ids may be equal.
    pub const fn new() -> IdGenerator {
        IdGenerator { last_millis: 0, counter: 0 }
    }

    /// A new session id.
    pub fn session(&mut self, now: Millis, entropy: Entropy) -> SessionId {
        SessionId(self.next(SessionId::PREFIX, SessionId::DIRECTION, now, entropy))
    }

    /// A new message id.
    pub fn message(&mut self, now: Millis, entropy: Entropy) -> MessageId {
        MessageId(self.next(MessageId::PREFIX, MessageId::DIRECTION, now, entropy))
    }

    /// A new part id.
    pub fn part(&mut self, now: Millis, entropy: Entropy) -> PartId {
        PartId(self.next(PartId::PREFIX, PartId::DIRECTION, now, entropy))
    }

    fn next(&mut self, prefix: &str, direction: Direction, now: Millis, entropy: Entropy) -> Arc<str> {
        if now != self.last_millis {
            self.last_millis = now;
            self.counter = 0;
        }
        self.counter += 1;
        // More than 4095 ids in a millisecond carry into the next one, as in OpenCode.
        let count = (now as u64).wrapping_mul(4096).wrapping_add(self.counter);
        let field = match direction {
            Direction::Ascending => count,
            Direction::Descending => !count,
        } & FIELD_MASK;
        let mut id = format!("{prefix}_{field:012x}");
        id.extend(entropy.iter().map(|byte| char::from(BASE62[usize::from(byte % 62)])));
        id.into()
    }
}

/// The form of OpenCode's ids, in words.
const OPENCODE_RULE: &str = "ids are 2 to 10 lower-case letters, `_` and 1 to 64 letters or digits";

fn is_foreign_id(text: &str) -> bool {
    text.len() <= 128
        && text.starts_with(|first: char| first.is_ascii_alphanumeric())
        && text.contains('-')
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

fn is_opencode_id(text: &str) -> bool {
    let Some((prefix, rest)) = text.split_once('_') else { return false };
    (2..=10).contains(&prefix.len())
        && prefix.bytes().all(|byte| byte.is_ascii_lowercase())
        && (1..=64).contains(&rest.len())
        && rest.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// The 48 bits of time and counter of an id, if it has OpenCode's shape.
fn time_field(id: &str) -> Option<u64> {
    let digits = id.split_once('_')?.1.get(..12).filter(|_| is_opencode_id(id))?;
    let lower_hex = digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    lower_hex.then(|| u64::from_str_radix(digits, 16).ok()).flatten()
}

/// The first 9 hexadecimal digits of an id, as a number. Any other character counts as the greatest digit below it in
/// ASCII, and everything after it as `f`. So of two ids with the same prefix, the smaller string has no greater number.
pub(crate) fn floor_millis(id: &str) -> Millis {
    let mut digits = id.split_once('_').map_or(id, |(_, rest)| rest).bytes();
    let mut floor: Millis = 0;
    let mut is_past = false;
    for _ in 0..9 {
        let digit = match digits.next() {
            _ if is_past => 15,
            None => 0,
            Some(digit @ b'0'..=b'9') => digit - b'0',
            Some(digit @ b'a'..=b'f') => digit - b'a' + 10,
            Some(other) => {
                is_past = true;
                if other.is_ascii_lowercase() { 15 } else { 9 }
            }
        };
        floor = floor << 4 | Millis::from(digit);
    }
    floor
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const WRAP_2026: Millis = 1_786_706_395_136;
    const WRAP_2028: Millis = 1_855_425_871_872;

    /// The worked examples of real sessions: id, millisecond, counter, and the time stored beside it.
    #[test]
    fn the_time_of_real_ids_is_recovered() {
        let session = |id: &str, reference| SessionId::parse(id).unwrap().moment(reference).unwrap();
        let message = |id: &str, reference| MessageId::parse(id).unwrap().moment(reference).unwrap();
        assert_eq!(
            session("ses_4afbda00cffeVl5YERm4op7JEG", 1_766_578_085_876),
            IdMoment { millis: 1_766_578_085_875, counter: 1 }
        );
        assert_eq!(
            message("msg_b50425ff7001vgFiMUNFzLtCda", 1_766_578_085_884),
            IdMoment { millis: 1_766_578_085_879, counter: 1 }
        );
        assert_eq!(
            session("ses_3ec7ddb0dffeEx5i93QCLgA74n", 1_769_853_822_194),
            IdMoment { millis: 1_769_853_822_194, counter: 1 }
        );
        assert_eq!(
            message("msg_fffffffff001AAAAAAAAAAAAAA", WRAP_2026),
            IdMoment { millis: WRAP_2026 - 1, counter: 1 }
        );
        assert_eq!(
            message("msg_000000000001AAAAAAAAAAAAAA", WRAP_2026),
            IdMoment { millis: WRAP_2026, counter: 1 }
        );
        assert_eq!(session("ses_e1f6df0a7ffeAAAAAAAAAAAAAA", 1_794_769_031_000).millis, 1_794_769_031_000);
    }

    #[test]
    fn generated_ids_have_the_shape_of_the_real_ones() {
        let mut ids = IdGenerator::new();
        assert_eq!(ids.message(1_794_769_031_000, [0; 14]).as_str(), "msg_1e0920f5800100000000000000");
        assert_eq!(ids.part(1_794_769_031_000, [61; 14]).as_str(), "prt_1e0920f58002zzzzzzzzzzzzzz");
        assert_eq!(ids.session(1_794_769_031_001, [10; 14]).as_str(), "ses_e1f6df0a6ffeAAAAAAAAAAAAAA");
    }

    #[test]
    fn the_grammar_keeps_paths_and_queries_safe() {
        for good in
            ["ses_1", "session_44c5abc15ffe", "part_02bbb", "msg_01abc123", "ses_4afbda00cffeVl5YERm4op7JEG"]
        {
            assert!(SessionId::parse(good).is_ok(), "{good}");
        }
        let long = format!("ses_{}", "a".repeat(65));
        for bad in [
            "",
            "ses",
            "ses_",
            "_1",
            "s_1",
            "SES_1",
            "ses_../x",
            "../../x",
            "ses_1/2",
            "ses_1.json",
            "ses_ü",
            "ses_1\0",
            "ses_1\n",
            &long,
        ] {
            assert!(SessionId::parse(bad).is_err(), "{bad:?}");
        }
        for other in ["019a8b3e-7f21-7c10-9a55-1f2e3d4c5b6a", "codex-msg_0123456789ab0123", "0-1"] {
            assert!(SessionId::parse(other).is_ok_and(|id| !id.is_opencode()), "{other}");
            assert!(SessionId::parse_opencode(other).is_err(), "{other}");
            // It may look like one that carries a time.
            assert_eq!(SessionId::parse(other).unwrap().moment(1_770_000_000_000), None);
        }
        for bad in ["-1", "a-../x", "a-/b", "a-b.json", "_-1", &format!("a-{}", "b".repeat(127))] {
            assert!(SessionId::parse(bad).is_err(), "{bad:?}");
        }
        for good in ["global", "486ce75a8fddd4372018ab816ac62d8004dc52fd", "home-dev-shop"] {
            assert!(ProjectId::parse(good).is_ok(), "{good}");
        }
        for bad in ["", ".", "..", "a/b", "a.b", "a b", &"a".repeat(65)] {
            assert!(ProjectId::parse(bad).is_err(), "{bad:?}");
        }
        let error = SessionId::parse("../../x").unwrap_err().to_string();
        assert!(error.contains("../../x") && error.contains("a session id"), "{error}");
    }

    #[test]
    fn more_than_4095_ids_in_a_millisecond_stay_in_order() {
        let mut ids = IdGenerator::new();
        let made: Vec<_> = (0..10_000).map(|_| ids.part(1_770_000_000_000, [7; 14])).collect();
        let moments: Vec<_> = made.iter().map(|id| id.moment(1_770_000_000_000).unwrap()).collect();
        assert!(moments.is_sorted());
        assert_eq!(moments[0], IdMoment { millis: 1_770_000_000_000, counter: 1 });
    }

    /// Times between 2022 and 2032: three wraps lie inside.
    fn any_time() -> impl Strategy<Value = Millis> {
        1_649_300_000_000i64..1_960_000_000_000
    }

    /// Times around either wrap.
    fn near_a_wrap() -> impl Strategy<Value = Millis> {
        (prop_oneof![Just(WRAP_2026), Just(WRAP_2028)], -5_000_000_000i64..5_000_000_000)
            .prop_map(|(wrap, off)| wrap + off)
    }

    proptest! {
        #[test]
        fn the_time_comes_back_with_any_reference_within_397_days(
            millis in any_time(), off in -34_300_000_000i64..34_300_000_000, entropy: Entropy,
        ) {
            let mut ids = IdGenerator::new();
            let moment = IdMoment { millis, counter: 1 };
            prop_assert_eq!(ids.message(millis, entropy).moment(millis + off), Some(moment));
            prop_assert_eq!(IdGenerator::new().session(millis, entropy).moment(millis + off), Some(moment));
        }

        /// Inside an era the order is exactly the one OpenCode gets from comparing strings, also where a client made up
        /// the digits.
        #[test]
        fn inside_an_era_the_order_is_the_strings_order(
            era in 24i64..28, a in 0..ERA_MILLIS, b in 0..ERA_MILLIS, entropy: Entropy, made_up in "[0-9a-f]{12}[0-9A-Za-z]{14}",
        ) {
            let (a, b) = (era * ERA_MILLIS + a, era * ERA_MILLIS + b);
            let mut ids = IdGenerator::new();
            let (first, second) = (ids.message(a, entropy), ids.message(b, entropy));
            prop_assert_eq!((first.era(a), second.era(b)), (era, era));
            let made_up = MessageId::parse(&format!("msg_{made_up}")).unwrap();
            // Within the believable distance of a wrap such an id may be taken for a neighbour's.
            if (BELIEVABLE..ERA_MILLIS - BELIEVABLE).contains(&a.rem_euclid(ERA_MILLIS)) {
                prop_assert_eq!(made_up.era(a), era);
            }
            prop_assert_eq!(ids.session(a, entropy).era(a), era);
            prop_assert_eq!(a.cmp(&b), ids.part(a, entropy).as_str().cmp(ids.part(b, entropy).as_str()).then(a.cmp(&b)));
        }

        /// Across a wrap it is chronological, where comparing strings would not be.
        #[test]
        fn across_a_wrap_the_order_is_chronological(a in near_a_wrap(), b in near_a_wrap(), late in 0i64..10_000, entropy: Entropy) {
            prop_assume!(a != b);
            let mut ids = IdGenerator::new();
            let (first, second) = (ids.message(a, entropy), ids.message(b, entropy));
            // The time stored beside an id is a little later than the id's own.
            let key = |id: &MessageId, made| (id.era(made + late), id.as_str().to_owned());
            prop_assert_eq!(key(&first, a).cmp(&key(&second, b)), a.cmp(&b));
            let (first, second) = (ids.session(a, entropy), ids.session(b, entropy));
            let key = |id: &SessionId, made| (std::cmp::Reverse(id.era(made + late)), id.as_str().to_owned());
            prop_assert_eq!(key(&first, a).cmp(&key(&second, b)), b.cmp(&a));
        }

        #[test]
        fn no_string_makes_the_parsers_panic(text: String) {
            if let Ok(id) = SessionId::parse(&text) {
                prop_assert_eq!(id.as_str(), &text);
                for reference in [0, -8_640_000_000_000_000, 8_640_000_000_000_000] {
                    id.moment(reference);
                    id.era(reference);
                }
            }
            let _ = ProjectId::parse(&text);
        }
    }
}
