//! The shortest beginnings by which ids can be told apart.

use annals::home::SessionRecord;

/// Shorter ones would be hard to recognise.
const SHORTEST: usize = 6;

/// Shortens session ids of one set, each to a beginning that no other id of the set has, without its prefix.
#[derive(Debug, Clone)]
pub(crate) struct ShortIds {
    sorted: Vec<String>,
}

impl ShortIds {
    pub(crate) fn of(records: &[SessionRecord]) -> ShortIds {
        let mut sorted: Vec<String> =
            records.iter().map(|record| digits(record.id.as_str()).to_owned()).collect();
        sorted.sort_unstable();
        sorted.dedup();
        ShortIds { sorted }
    }

    pub(crate) fn shorten<'i>(&self, id: &'i str) -> &'i str {
        let digits = digits(id);
        let at = self.sorted.partition_point(|known| known.as_str() < digits);
        let before = at.checked_sub(1).and_then(|before| self.sorted.get(before));
        let own = self.sorted.get(at).is_some_and(|known| known == digits);
        let after = self.sorted.get(if own { at + 1 } else { at });
        let shared = [before, after].into_iter().flatten().map(|other| n_shared(digits, other)).max();
        let length = shared.map_or(SHORTEST, |shared| (shared + 1).max(SHORTEST));
        digits.get(..length).unwrap_or(digits)
    }

    /// The width of a column for some of these ids.
    pub(crate) fn width<'i>(&self, ids: impl IntoIterator<Item = &'i str>) -> usize {
        ids.into_iter().map(|id| self.shorten(id).len()).max().unwrap_or(0)
    }
}

fn n_shared(a: &str, b: &str) -> usize {
    a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count()
}

fn digits(id: &str) -> &str {
    id.split_once('_').map_or(id, |(_, digits)| digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_id_is_as_long_as_it_has_to_be() {
        let sorted: Vec<String> =
            ["36aaaa111", "36aaaa222", "36bbbb111", "4"].map(ToOwned::to_owned).to_vec();
        let ids = ShortIds { sorted };
        assert_eq!(ids.shorten("ses_36aaaa111"), "36aaaa1");
        assert_eq!(ids.shorten("ses_36aaaa222"), "36aaaa2");
        assert_eq!(ids.shorten("ses_36bbbb111"), "36bbbb");
        assert_eq!(ids.shorten("ses_4"), "4");
        assert_eq!(ids.shorten("ses_36aaaa333"), "36aaaa3");
    }
}
