//! Zipf's law: the word of rank k is drawn with a probability proportional to k to the power of −1.05.
//!
//! By hand for the reason given in `rng.rs`.

use super::rng::{Rng, exp};

const EXPONENT: f64 = 1.05;
const GUIDE_BITS: u32 = 12;
const DRAW_BITS: u32 = 53;

/// Draws ranks `0..len`, low ones most often.
#[derive(Debug)]
pub(crate) struct Zipf {
    /// The first draw that no longer belongs to the rank.
    ends: Vec<u64>,
    /// For the top bits of a draw, the lowest rank it can mean: most draws then need a step or two
    /// instead of a binary search over tens of thousands of ranks.
    guide: Vec<usize>,
}

impl Zipf {
    pub(crate) fn new(len: usize) -> Self {
        assert!(len > 0, "a draw needs something to draw from");
        let mut weight = 1.0;
        let mut sum = 0.0;
        let mut sums = Vec::with_capacity(len);
        for rank in 1..=len {
            if rank > 1 {
                weight *= exp(-EXPONENT * ln_step(rank));
            }
            sum += weight;
            sums.push(sum);
        }
        let scale = (1u64 << DRAW_BITS) as f64 / sum;
        let mut ends: Vec<u64> = sums.iter().map(|sum| (sum * scale) as u64).collect();
        ends[len - 1] = 1 << DRAW_BITS;
        let guide = (0..1u64 << GUIDE_BITS)
            .map(|top| ends.partition_point(|&end| end <= top << (DRAW_BITS - GUIDE_BITS)))
            .collect();
        Self { ends, guide }
    }

    pub(crate) fn rank(&self, rng: &mut Rng) -> usize {
        let draw = rng.next() >> (64 - DRAW_BITS);
        let low = self.guide[(draw >> (DRAW_BITS - GUIDE_BITS)) as usize];
        let high = self
            .guide
            .get((draw >> (DRAW_BITS - GUIDE_BITS)) as usize + 1)
            .map_or(self.ends.len(), |&rank| rank + 1);
        low + self.ends[low..high].partition_point(|&end| end <= draw)
    }
}

/// `ln(k / (k − 1))` by the series of the inverse hyperbolic tangent.
fn ln_step(k: usize) -> f64 {
    let y = 1.0 / (2 * k - 1) as f64;
    let mut power = y;
    let mut sum = 0.0;
    for n in 0..16 {
        sum += power / f64::from(2 * n + 1);
        power *= y * y;
    }
    2.0 * sum
}

#[cfg(test)]
mod tests {
    use super::super::rng::Stream;
    use super::*;

    #[test]
    fn ranks_fall_off_as_they_should() {
        let zipf = Zipf::new(50_000);
        let mut rng = Rng::new(1, Stream::Session, 0);
        let mut counts = vec![0u32; 50_000];
        for _ in 0..1_000_000 {
            counts[zipf.rank(&mut rng)] += 1;
        }
        let ratio = f64::from(counts[0]) / f64::from(counts[9]);
        assert!((10.0..12.5).contains(&ratio), "10^1.05 is 11.2, drawn {ratio}");
        assert!(counts[40_000..].iter().any(|&count| count > 0));
    }
}
