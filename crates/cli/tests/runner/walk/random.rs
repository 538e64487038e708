//! A small generator of pseudo-random numbers. The same seed gives the same walk on every machine.

/// SplitMix64.
#[derive(Debug, Clone)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The generator of one step. Every step has its own, so that leaving steps out does not change the others.
    pub(super) fn of_step(seed: u64, step: usize) -> Random {
        let mut random = Random(seed ^ (step as u64).wrapping_mul(0xd6e8_feb8_6659_fd93));
        random.next();
        random
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from 0 to `limit - 1`.
    pub(super) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    /// True once in `n` times.
    pub(super) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub(super) fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        if items.is_empty() { None } else { items.get(self.below(items.len())) }
    }

    /// An item, by weight. Items with weight 0 are never picked.
    pub(super) fn weighted<'a, T>(&mut self, items: &'a [(usize, T)]) -> Option<&'a T> {
        let total: usize = items.iter().map(|(weight, _)| weight).sum();
        if total == 0 {
            return None;
        }
        let mut left = self.below(total);
        for (weight, item) in items {
            if left < *weight {
                return Some(item);
            }
            left -= weight;
        }
        None
    }
}
