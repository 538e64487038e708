//! The outline of all sessions: how long, in which project, when, and whose children.

use super::Plan;
use super::project::SHARES;
use super::rng::{Rng, Stream};

pub(crate) const DAY: u64 = 24 * 60 * 60 * 1000;

/// 2025-10-15T00:00:00Z, a Wednesday.
pub(crate) const FIRST_DAY: u64 = 1_760_486_400_000;

/// Sessions start early enough for the longest to end within the 120 days.
const START_DAYS: u64 = 118;

/// Messages per session, for all sessions and for child sessions; children have one prompt and are short.
const MEAN_MESSAGES: f64 = 18.8;
const MEAN_CHILD_MESSAGES: f64 = 11.0;

/// A root session and the sessions its task calls start. Ids and times of parent and child refer to each
/// other, so a family is written by one thread.
#[derive(Debug)]
pub(crate) struct Family {
    pub(crate) root: Outline,
    pub(crate) children: Vec<Outline>,
    pub(crate) project: usize,
    pub(crate) start: u64,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Outline {
    /// Which stream of random numbers the session draws from.
    pub(crate) index: u64,
    pub(crate) n_messages: usize,
}

impl Family {
    pub(crate) fn n_messages(&self) -> usize {
        self.root.n_messages + self.children.iter().map(|child| child.n_messages).sum::<usize>()
    }
}

/// All families of a home, the longest first: threads then finish at about the same time.
pub(crate) fn families(plan: Plan) -> Vec<Family> {
    let mut rng = Rng::new(plan.seed, Stream::Outline, 0);
    let n_children = plan.sessions / 4;
    let n_roots = plan.sessions - n_children;
    let all = MEAN_MESSAGES * plan.sessions as f64;
    let of_children = MEAN_CHILD_MESSAGES * n_children as f64;
    let mut families: Vec<Family> = lengths(&mut rng, n_roots, all - of_children, 1.35)
        .into_iter()
        .enumerate()
        .map(|(index, n_messages)| Family {
            root: Outline { index: index as u64, n_messages },
            children: Vec::new(),
            project: rng.weighted(&SHARES),
            start: start(&mut rng),
        })
        .collect();
    let child_lengths = lengths(&mut rng, n_children, of_children, 0.6);
    for (nth, n_messages) in child_lengths.into_iter().enumerate() {
        let family = parent(&mut rng, &mut families);
        family.children.push(Outline { index: (n_roots + nth) as u64, n_messages });
        // A prompt, a step for each call, and the answer.
        family.root.n_messages = family.root.n_messages.max(family.children.len() + 2);
    }
    families.sort_by_key(|family| (std::cmp::Reverse(family.n_messages()), family.root.index));
    families
}

/// Log-normal lengths, scaled to the wanted sum: a home has the same size whatever the seed.
fn lengths(rng: &mut Rng, count: usize, sum: f64, sigma: f64) -> Vec<usize> {
    let weights: Vec<f64> = (0..count).map(|_| rng.log_normal(1.0, sigma)).collect();
    let scale = sum / weights.iter().sum::<f64>();
    weights.iter().map(|weight| ((weight * scale).round() as usize).max(2)).collect()
}

/// Long sessions delegate more.
fn parent<'a>(rng: &mut Rng, families: &'a mut [Family]) -> &'a mut Family {
    let mut left = rng.below(families.iter().map(|family| family.root.n_messages as u64).sum());
    for family in families {
        let weight = family.root.n_messages as u64;
        if left < weight {
            return family;
        }
        left -= weight;
    }
    unreachable!("the draw is below the sum of the weights")
}

/// Mostly on working days and in the daytime.
fn start(rng: &mut Rng) -> u64 {
    let mut day = rng.below(START_DAYS);
    if matches!(day % 7, 3 | 4) && rng.chance(0.7) {
        day = day.saturating_sub(2);
    }
    let hours = 7.0 + 7.0 * (rng.unit() + rng.unit());
    FIRST_DAY + day * DAY + (hours * 3_600_000.0) as u64
}
