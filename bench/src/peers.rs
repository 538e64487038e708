//! Comparison of annals with its peers, other programs that read OpenCode's sessions: the same home, in one run.
//!
//! The tools count different things, so the table says what each of them counted. ccusage and tokscale add up the tokens of answers
//! and open no parts. fast-resume indexes the titles and the texts of sessions, agentsview texts and thinking (and keeps,
//! not indexed, the input of tools). Neither keeps the output of tools, which is most of a home.
//! `scripts/install-peers` installs them.

mod place;
mod seen;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::measure::{Asked, in_turn};
use place::{Memory, Place};
use seen::Seen;

const AGENTSVIEW: &str = "python/bin/agentsview";
const CCUSAGE: &str = "node_modules/@ccusage/ccusage-linux-x64/bin/ccusage";
const FAST_RESUME: &str = "python/bin/fr";
const TOKSCALE: &str = "node_modules/@tokscale/cli-linux-x64-gnu/bin/tokscale";

/// What to measure.
#[derive(Debug)]
pub struct Gathering {
    /// A home of the flat layout.
    pub home: PathBuf,
    /// The `annals` executable.
    pub annals: PathBuf,
    /// Rounds.
    pub rounds: usize,
    /// What the programs read.
    pub generation: Generation,
}

/// How OpenCode keeps its conversations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Generation {
    /// The files of the home
    Directory,
    /// A database of the same sessions, made by `annals copy`
    Database,
}

/// A question and the programs that are asked it, annals first.
struct Question {
    name: &'static str,
    asked: Vec<(Asked, Seen)>,
}

/// Runs everything and returns a report in Markdown.
pub fn gather(gathering: &Gathering) -> io::Result<String> {
    let home = gathering.home.canonicalize()?;
    let scratch = tempfile::tempdir_in(home.parent().unwrap_or(&home))?;
    let place = Place::new(scratch.path(), &home, gathering)?;
    let word = word(&home)?;
    let mut report = String::from(
        "| question | program | median | range | CPU | peak memory | annals: times faster | times less CPU | saw |\n\
         |---|---|---|---|---|---|---|---|---|\n",
    );
    for Question { name, asked } in questions(&place, &word) {
        let commands: Vec<&Asked> = asked.iter().map(|(asked, _)| asked).collect();
        // Once without counting: afterwards each program has its kept data, and the log of the database is gone, since
        // fast-resume writes it back and removes it.
        in_turn(&commands, 1, false)?;
        let measured = in_turn(&commands, gathering.rounds, false)?;
        for (index, ((asked, seen), one)) in asked.iter().zip(&measured).enumerate() {
            let unclear = || io::Error::other(format!("`{}` said {:?}", asked.name, one.said));
            let saw = seen(&one.said).ok_or_else(unclear)?;
            let faster = if index == 0 { " | ".to_owned() } else { measured[0].times_faster_than(one) };
            let _ = writeln!(report, "| {name} | `{}` | {} | {faster} | {saw} |", asked.name, one.cells());
        }
    }
    Ok(report)
}

fn questions(place: &Place, word: &str) -> Vec<Question> {
    let stats = |name, memory| Question {
        name,
        asked: vec![
            (place.annals(memory, "stats --json"), seen::annals_stats),
            (place.peer(memory, CCUSAGE, "opencode daily --json --offline"), seen::ccusage),
            (place.peer(memory, TOKSCALE, "models --json --no-spinner --client opencode"), seen::tokscale),
        ],
    };
    vec![
        Question {
            name: "sync, never seen",
            asked: vec![
                (place.annals(Memory::None, "sync"), seen::annals_sync),
                // `--rebuild` does the same and says it on standard error.
                (place.peer(Memory::None, FAST_RESUME, "--json --limit 1"), seen::fast_resume),
                (place.peer(Memory::None, AGENTSVIEW, "sync"), seen::agentsview),
            ],
        },
        stats("stats, never seen", Memory::None),
        stats("stats, again", Memory::Kept),
        Question {
            name: "search, nothing new",
            asked: vec![
                (place.annals(Memory::Kept, &format!("search {word} --json")), seen::annals_search),
                (place.peer(Memory::Kept, FAST_RESUME, &format!("--json {word}")), seen::fast_resume),
                // Without looking whether there is anything new.
                (
                    place.peer(Memory::Kept, FAST_RESUME, &format!("--json --no-refresh {word}")),
                    seen::fast_resume,
                ),
            ],
        },
    ]
}

/// A word to search for: a long one that two titles have, so that some twenty sessions in a thousand have it.
fn word(home: &Path) -> io::Result<String> {
    let mut n_titles = BTreeMap::<String, usize>::new();
    for project in std::fs::read_dir(home.join("storage/session"))? {
        for session in std::fs::read_dir(project?.path())? {
            let session: Value = serde_json::from_slice(&std::fs::read(session?.path())?)?;
            let title = session["title"].as_str().unwrap_or_default();
            let is_word = |word: &&str| word.len() >= 9 && word.bytes().all(|byte| byte.is_ascii_lowercase());
            for word in title.split(' ').filter(is_word) {
                *n_titles.entry(word.to_owned()).or_default() += 1;
            }
        }
    }
    let found = n_titles.into_iter().min_by_key(|(_, n_titles)| n_titles.abs_diff(2));
    found.map(|(word, _)| word).ok_or_else(|| io::Error::other("no title with a long word in it"))
}
