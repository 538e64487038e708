//! OpenCode's identifiers: the low 36 bits of the milliseconds, a 12-bit counter, and 14 random characters.

use super::rng::Rng;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Sessions count down, so that a listing by name has the newest first.
    Session,
    Message,
    Part,
    ToolOutput,
}

impl Kind {
    fn prefix(self) -> &'static str {
        match self {
            Kind::Session => "ses",
            Kind::Message => "msg",
            Kind::Part => "prt",
            Kind::ToolOutput => "tool",
        }
    }
}

/// Makes ids as one running OpenCode does: ids of the same millisecond are told apart by a counter that all
/// kinds share.
#[derive(Debug, Default)]
pub(crate) struct Mint {
    last_ms: u64,
    counter: u64,
}

impl Mint {
    pub(crate) fn id(&mut self, kind: Kind, ms: u64, rng: &mut Rng) -> String {
        if ms != self.last_ms {
            self.last_ms = ms;
            self.counter = 0;
        }
        self.counter += 1;
        let mut id = format!("{}_{:012x}", kind.prefix(), time_field(kind, ms, self.counter));
        for _ in 0..14 {
            // A byte modulo 62: the slight preference for the first characters is OpenCode's own.
            id.push(BASE62[rng.below(256) as usize % 62] as char);
        }
        id
    }
}

fn time_field(kind: Kind, ms: u64, counter: u64) -> u64 {
    let count = ms * 4096 + counter;
    let count = if kind == Kind::Session { !count } else { count };
    count & ((1 << 48) - 1)
}

pub(crate) const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

#[cfg(test)]
mod tests {
    use super::super::rng::Stream;
    use super::*;

    #[track_caller]
    fn check(kind: Kind, ms: u64, counter: u64, expected: &str) {
        assert_eq!(format!("{:012x}", time_field(kind, ms, counter)), expected);
    }

    /// Ids written by real OpenCode, with the times stored beside them.
    #[test]
    fn time_fields_are_those_of_real_ids() {
        check(Kind::Session, 1_766_578_085_875, 1, "4afbda00cffe");
        check(Kind::Message, 1_766_578_085_879, 1, "b50425ff7001");
        check(Kind::Part, 1_766_578_085_879, 2, "b50425ff7002");
        check(Kind::Session, 1_769_853_822_194, 1, "3ec7ddb0dffe");
        check(Kind::Part, 1_770_554_015_671, 1, "c3d3e3fb7001");
    }

    #[test]
    fn ids_of_one_millisecond_ascend() {
        let (mut mint, mut rng) = (Mint::default(), Rng::new(1, Stream::Session, 0));
        let message = mint.id(Kind::Message, 1_766_578_085_879, &mut rng);
        let part = mint.id(Kind::Part, 1_766_578_085_879, &mut rng);
        assert_eq!((message.len(), part.len()), (30, 30));
        assert!(message.starts_with("msg_b50425ff7001") && part.starts_with("prt_b50425ff7002"));
    }
}
