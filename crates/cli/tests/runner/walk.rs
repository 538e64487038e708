//! A random walk: OpenCode writes, a person runs `annals`, homes move and vanish, commands are killed; after every step
//! annals has to say what an independent model says.
//!
//! The model (`walk/model.rs`) uses nothing of annals. It reads OpenCode's formats by itself (`walk/homes.rs`) and knows which
//! operations were asked for. Each test is one arrangement of homes with a few fixed seeds. Steps are picked by a seeded
//! generator, so a failure can be repeated; it prints the seed, the steps that led to it and what was expected.
//!
//! | variable | meaning |
//! |---|---|
//! | `ANNALS_WALK_SEED` | walk with this seed alone |
//! | `ANNALS_WALK_STEPS` | number of steps for each seed, for instance 50000 for the long form |
//! | `ANNALS_WALK_WITHOUT` | kinds of steps that are not taken, separated by commas: `kill,move` |
//! | `ANNALS_WALK_ONLY` | the only kinds of steps that are taken |
//! | `ANNALS_WALK_OMIT` | numbers of steps that are left out: `3,10-90` |
//! | `ANNALS_WALK_MINIMISE` | if set, a walk that fails is repeated with fewer steps until every step is needed |
//! | `ANNALS_WALK_KEEP` | if set, the files of a walk that failed are kept |

mod agent;
mod compare;
mod content;
mod conversations;
pub(super) mod homes;
mod model;
mod opencode;
mod operations;
mod person;
mod random;
mod steps;
mod surroundings;
mod world;

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;

use compare::Depth;
use homes::Kind::{Database12, Database18, Directory};
use random::Random;
use world::{Layout, World};

/// What a check found.
type Check = Result<(), Failure>;

/// Why a walk ended.
#[derive(Debug)]
struct Failure {
    /// What was checked. Minimising looks for the same.
    kind: &'static str,
    detail: String,
}

impl Failure {
    fn new(kind: &'static str, detail: String) -> Failure {
        Failure { kind, detail }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind, self.detail)
    }
}

/// Spring and autumn of 2026: times at which the ids of the fixtures are of the present era.
const SPRING: i64 = 1_773_900_000_000;
const AUTUMN: i64 = 1_791_200_000_000;

/// Steps of each seed, unless ANNALS_WALK_STEPS says otherwise.
const STEPS: usize = 150;

/// How often everything is compared, in steps.
const EVERYTHING: usize = 40;

#[test]
fn a_directory() {
    walks(Layout {
        name: "a_directory",
        own: &[Directory],
        foreign: None,
        names_store: false,
        start: 1_772_020_980_000,
    });
}

#[test]
fn a_database_of_1_2() {
    walks(Layout {
        name: "a_database_of_1_2",
        own: &[Database12],
        foreign: None,
        names_store: false,
        start: SPRING,
    });
}

#[test]
fn a_database_of_1_18() {
    walks(Layout {
        name: "a_database_of_1_18",
        own: &[Database18],
        foreign: None,
        names_store: true,
        start: AUTUMN,
    });
}

#[test]
fn a_directory_and_a_database_of_1_2() {
    walks(Layout {
        name: "a_directory_and_a_database_of_1_2",
        own: &[Directory, Database12],
        foreign: None,
        names_store: true,
        start: SPRING,
    });
}

#[test]
fn a_directory_and_a_database_of_1_18() {
    walks(Layout {
        name: "a_directory_and_a_database_of_1_18",
        own: &[Directory, Database18],
        foreign: None,
        names_store: false,
        start: AUTUMN,
    });
}

#[test]
fn two_homes_and_a_foreign_directory() {
    walks(Layout {
        name: "two_homes_and_a_foreign_directory",
        own: &[Directory, Database18],
        foreign: Some(Directory),
        names_store: false,
        start: AUTUMN,
    });
}

#[test]
fn a_database_and_a_foreign_database() {
    walks(Layout {
        name: "a_database_and_a_foreign_database",
        own: &[Database18],
        foreign: Some(Database18),
        names_store: true,
        start: AUTUMN,
    });
}

/// What is compared after the last step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Nothing,
    Everything,
    /// Everything, also with what OpenCode says.
    OpenCode,
}

/// What the environment asks for.
struct Wishes {
    seeds: Vec<u64>,
    n_steps: usize,
    omitted: BTreeSet<usize>,
}

fn walks(layout: Layout) {
    let variable = |name: &str| std::env::var(format!("ANNALS_WALK_{name}")).ok();
    let number = |name: &str| variable(name).map(|text| text.parse::<u64>().unwrap());
    let wishes = Wishes {
        seeds: number("SEED").map_or(vec![1, 2], |seed| vec![seed]),
        n_steps: number("STEPS").map_or(STEPS, |n| usize::try_from(n).unwrap()),
        omitted: variable("OMIT").iter().flat_map(|text| text.split(',')).flat_map(range).collect(),
    };
    for seed in &wishes.seeds {
        // Commands of OpenCode take seconds: its opinion is asked for once.
        let ending = if Some(seed) == wishes.seeds.last() { Ending::OpenCode } else { Ending::Everything };
        let walked = walk(layout, *seed, wishes.n_steps, &wishes.omitted, ending);
        let Err((failure, log)) = walked else { continue };
        let (failure, log, omitted) = match variable("MINIMISE") {
            Some(_) => minimise(layout, *seed, failure, log, wishes.omitted.clone()),
            None => (failure, log, wishes.omitted.clone()),
        };
        let shown = log.len().saturating_sub(120);
        panic!(
            "{}\n{failure}\nto repeat it: ANNALS_WALK_SEED={seed} ANNALS_WALK_STEPS={}{} cargo nextest run -p annals-cli walk::{}\n",
            log[shown..].join("\n"),
            last_step(&log) + 1,
            omitting(&omitted),
            layout.name,
        );
    }
}

/// Takes steps until something is wrong. Gives what is wrong, and the story so far.
fn walk(
    layout: Layout,
    seed: u64,
    n_steps: usize,
    omitted: &BTreeSet<usize>,
    ending: Ending,
) -> Result<(), (Failure, Vec<String>)> {
    let names = |name: &str| -> Option<Vec<String>> {
        let text = std::env::var(format!("ANNALS_WALK_{name}")).ok()?;
        Some(text.split(',').map(str::to_owned).collect())
    };
    let (only, without) = (names("ONLY"), names("WITHOUT").unwrap_or_default());
    let is_wanted = |name: &str| {
        only.as_ref().is_none_or(|only| only.iter().any(|other| other == name))
            && !without.iter().any(|other| other == name)
    };
    let kinds: Vec<_> = steps::STEPS.iter().filter(|(_, (name, _))| is_wanted(name)).copied().collect();
    let mut world = World::new(layout, seed);
    world.log.push(format!("{} with seed {seed}", layout.name));
    // So that the same seed leads to another walk in each arrangement.
    let seed =
        layout.name.bytes().fold(seed, |seed, byte| seed.wrapping_mul(31).wrapping_add(u64::from(byte)));
    let mut walked = || -> Check {
        world.sync()?;
        for step in (0..n_steps).filter(|step| !omitted.contains(step)) {
            let mut random = Random::of_step(seed, step);
            world.step(step, &mut random, &kinds)?;
            if step % EVERYTHING == EVERYTHING - 1 {
                world.check(&mut random, Depth::All)?;
            }
        }
        if ending == Ending::Nothing {
            return Ok(());
        }
        world.log.push(format!("{n_steps} at the end"));
        world.bring_back()?;
        world.check(&mut Random::new(seed), Depth::All)?;
        if ending == Ending::OpenCode { world.check_with_opencode() } else { Ok(()) }
    };
    walked().map_err(|failure| {
        if std::env::var_os("ANNALS_WALK_KEEP").is_some() {
            world.dir.disable_cleanup(true);
            let line = format!("kept in {}", world.dir.path().display());
            world.log.push(line);
        }
        (failure, world.log)
    })
}

/// Leaves out steps, in ever smaller pieces, as long as the same is wrong.
fn minimise(
    layout: Layout,
    seed: u64,
    mut failure: Failure,
    mut log: Vec<String>,
    mut omitted: BTreeSet<usize>,
) -> (Failure, Vec<String>, BTreeSet<usize>) {
    let is_at_end = log.iter().any(|line| line.ends_with(" at the end"));
    let ending = if is_at_end { Ending::OpenCode } else { Ending::Nothing };
    let mut size = (last_step(&log) / 2).max(1);
    loop {
        let n_steps = last_step(&log) + 1;
        let mut is_smaller = false;
        let mut end = n_steps.saturating_sub(1);
        while end > 0 {
            let start = end.saturating_sub(size);
            let piece: Range<usize> = start..end;
            end = start;
            if piece.clone().all(|step| omitted.contains(&step)) {
                continue;
            }
            let attempt: BTreeSet<usize> = omitted.iter().copied().chain(piece).collect();
            if let Err((other, story)) = walk(layout, seed, n_steps, &attempt, ending)
                && other.kind == failure.kind
            {
                (failure, log, omitted) = (other, story, attempt);
                is_smaller = true;
            }
        }
        if size == 1 && !is_smaller {
            return (failure, log, omitted);
        }
        size = (size / 2).max(1);
    }
}

/// The number of the step in which a story ends.
fn last_step(log: &[String]) -> usize {
    let number = |line: &String| line.split(' ').next()?.parse().ok();
    log.iter().rev().find_map(number).unwrap_or(0)
}

/// `3` or `10-90`.
fn range(text: &str) -> Vec<usize> {
    match text.split_once('-') {
        Some((first, last)) => (first.parse().unwrap()..=last.parse().unwrap()).collect(),
        None => vec![text.parse().unwrap()],
    }
}

fn omitting(omitted: &BTreeSet<usize>) -> String {
    let mut pieces: Vec<(usize, usize)> = Vec::new();
    for step in omitted {
        match pieces.last_mut() {
            Some((_, last)) if *last + 1 == *step => *last = *step,
            _ => pieces.push((*step, *step)),
        }
    }
    let text = |(first, last): &(usize, usize)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    match pieces.is_empty() {
        true => String::new(),
        false => format!(" ANNALS_WALK_OMIT={}", pieces.iter().map(text).collect::<Vec<_>>().join(",")),
    }
}
