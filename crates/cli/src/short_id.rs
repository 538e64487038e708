//! The shortest beginnings by which ids can be told apart.

use annals::home::SessionRecord;

/// Shorter ones would be hard to recognise.
const SHORTEST: usize = 6;

/// Shortens session ids of one set to a common length at which they are still unique, without their prefix.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ShortIds {
    length: usize,
}

impl ShortIds {
    pub(crate) fn of(records: &[SessionRecord]) -> ShortIds {
        let mut digits: Vec<&str> = records.iter().map(|record| digits(record.id.as_str())).collect();
        digits.sort_unstable();
        digits.dedup();
        let shared = |pair: &[&str]| pair[0].bytes().zip(pair[1].bytes()).take_while(|(a, b)| a == b).count();
        let longest_shared = digits.windows(2).map(shared).max().unwrap_or(0);
        ShortIds { length: (longest_shared + 1).max(SHORTEST) }
    }

    pub(crate) fn shorten(self, id: &str) -> &str {
        let digits = digits(id);
        digits.get(..self.length).unwrap_or(digits)
    }

    pub(crate) fn width(self) -> usize {
        self.length
    }
}

fn digits(id: &str) -> &str {
    id.split_once('_').map_or(id, |(_, digits)| digits)
}
