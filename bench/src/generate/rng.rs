//! The source of randomness: a seeded generator and the few distributions the home is drawn from.
//!
//! The algorithm is written out here, and uses only arithmetic that IEEE 754 defines exactly (no `exp`,
//! `ln` or `powf` of the platform's mathematics library), so that a seed means the same bytes on every
//! machine and after every update of a dependency. `rand_distr` does not guarantee that: it computes with the platform's
//! library as soon as any crate of the build turns on `num-traits/std`, and one of tantivy's does. docs/performance.md has
//! measured the home of a seed, and names ids in it.

/// SplitMix64: one word of state, good enough for text, and any number is a good seed.
#[derive(Debug, Clone)]
pub(crate) struct Rng {
    state: u64,
}

/// The purpose of a stream of random numbers. Streams are independent of each other, so the draws of one
/// session never depend on how many another one made, nor on the order of threads.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Stream {
    Vocabulary,
    Outline,
    Project,
    Session,
    /// The first text of a source file, the same for all sessions that open it.
    SourceFile,
}

impl Rng {
    pub(crate) fn new(seed: u64, stream: Stream, index: u64) -> Self {
        let mut rng = Self { state: seed };
        rng.state = rng.next() ^ (stream as u64 + 1).wrapping_mul(0xd1b5_4a32_d192_ed03);
        rng.state = rng.next() ^ index.wrapping_mul(0xaef1_7502_108e_f2d9);
        rng
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.state;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// Uniform in `0..bound`; the bias of the multiplication is far below anything visible here.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    pub(crate) fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    pub(crate) fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.index(items.len())]
    }

    /// One of the items, each as often as its weight says.
    pub(crate) fn weighted<T: Copy>(&mut self, items: &[(u64, T)]) -> T {
        let mut left = self.below(items.iter().map(|(weight, _)| weight).sum());
        for (weight, item) in items {
            if left < *weight {
                return *item;
            }
            left -= weight;
        }
        unreachable!("the draw is below the sum of the weights")
    }

    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    pub(crate) fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// About normal: the sum of twelve uniform draws has mean 6 and variance 1.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.unit()).sum::<f64>() - 6.0
    }

    /// Sizes in transcripts are log-normal: mostly small, now and then a hundred times larger.
    pub(crate) fn log_normal(&mut self, median: f64, sigma: f64) -> f64 {
        median * exp(sigma * self.normal())
    }

    pub(crate) fn size(&mut self, median: f64, sigma: f64, low: usize, high: usize) -> usize {
        (self.log_normal(median, sigma).round() as usize).clamp(low, high)
    }

    pub(crate) fn string(&mut self, alphabet: &[u8], len: usize) -> String {
        (0..len).map(|_| self.pick(alphabet) as char).collect()
    }

    pub(crate) fn hex(&mut self, len: usize) -> String {
        self.string(b"0123456789abcdef", len)
    }
}

/// The exponential function by Taylor series on a small argument, squared back up.
pub(crate) fn exp(x: f64) -> f64 {
    let small = x / 1024.0;
    let series = 1.0 + small * (1.0 + small / 2.0 * (1.0 + small / 3.0 * (1.0 + small / 4.0)));
    (0..10).fold(series, |power, _| power * power)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_close_to_the_real_one() {
        for x in [-8.0, -1.0, 0.0, 0.5, 3.0, 8.0] {
            assert!((exp(x) / f64::exp(x) - 1.0).abs() < 1e-7, "{x}");
        }
    }

    #[test]
    fn streams_differ_and_repeat() {
        let draw = |stream, index| Rng::new(7, stream, index).next();
        assert_eq!(draw(Stream::Session, 3), draw(Stream::Session, 3));
        assert_ne!(draw(Stream::Session, 3), draw(Stream::Session, 4));
        assert_ne!(draw(Stream::Session, 3), draw(Stream::Project, 3));
    }
}
