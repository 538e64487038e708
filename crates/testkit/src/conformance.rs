//! The conformance suite: requirements for every home, whatever its format.
//!
//! [`read_half`] takes any home with sessions in it, [`write_half`] and [`store_half`] make new homes. Each half is a list of named
//! checks; all of them are run, and one panic reports every check that failed.

mod read;
mod store;
mod write;

use std::error::Error;
use std::path::Path;

use annals::home::{Read, Write};

pub use read::Kept;
pub use write::{Holds, fill};

/// The result of a check.
type Outcome = Result<(), Box<dyn Error + Send + Sync>>;

/// Ends a check with a reason unless a condition holds.
macro_rules! ensure {
    ($condition:expr, $($why:tt)*) => {
        if !$condition {
            return Err(format!($($why)*).into());
        }
    };
}
use ensure;

/// Checks that a home with sessions meets the requirements for reading. The sessions should differ: in project, directory, time,
/// parent, archived or not.
///
/// # Panics
/// If the home fails any of the checks.
pub fn read_half(home: &dyn Read, kept: &Kept) {
    let run = |check: &read::Check| check(home, kept);
    report(&home.url().to_string(), read::CHECKS.iter().map(|(name, check)| (*name, run(check))));
}

/// Checks that homes meet the requirements for writing. `make` makes a new home in an empty directory, or opens the one that it
/// made there.
///
/// # Panics
/// If the homes fail any of the checks.
pub fn write_half(name: &str, holds: Holds, make: &(dyn Fn(&Path) -> Box<dyn Write> + Sync)) {
    let run = |check: &write::Check| {
        let directory = tempfile::tempdir()?;
        check(&write::Subject { directory: directory.path(), holds, make })
    };
    report(name, write::CHECKS.iter().map(|(name, check)| (*name, run(check))));
}

/// Checks the requirements for stores beyond reading and writing: history, events, search.
///
/// # Panics
/// If the store fails any of the checks.
pub fn store_half() {
    let run = |check: &store::Check| {
        let directory = tempfile::tempdir()?;
        check(&annals::SqliteStore::open_or_create(&directory.path().join("annals.db"))?)
    };
    report("annals.db", store::CHECKS.iter().map(|(name, check)| (*name, run(check))));
}

fn report(home: &str, outcomes: impl ExactSizeIterator<Item = (&'static str, Outcome)>) {
    let n_checks = outcomes.len();
    let failed: Vec<String> =
        outcomes.filter_map(|(name, outcome)| outcome.err().map(|why| format!("  {name}: {why}"))).collect();
    assert!(failed.is_empty(), "{home} fails {} of {n_checks} checks:\n{}", failed.len(), failed.join("\n"));
}
