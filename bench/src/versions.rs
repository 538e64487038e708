//! Comparison of two versions of annals: the same homes, the same questions, in turns.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::measure::{Asked, in_turn, words};

/// What to compare.
#[derive(Debug)]
pub struct Versions {
    /// A home of the flat layout, as `generate` wrote it.
    pub home: PathBuf,
    /// The earlier executable.
    pub before: PathBuf,
    /// The later executable.
    pub after: PathBuf,
    /// Rounds.
    pub rounds: usize,
}

/// The questions: name, command, and whether the store exists already.
const QUESTIONS: &[(&str, &str, bool)] = &[
    ("list, a home never seen", "list --json", false),
    ("list, nothing new", "list --json", true),
    ("stats, a home never seen", "stats --json", false),
    ("stats, nothing new", "stats --json", true),
    ("sync with the text index", "sync", false),
    ("sync, nothing new", "sync", true),
    ("search", "search refund", true),
    ("show", "show last", true),
    ("export", "export last", true),
];

/// Runs everything and returns a report in Markdown.
pub fn compare(versions: &Versions) -> io::Result<String> {
    let scratch = tempfile::tempdir_in(versions.home.parent().unwrap_or(Path::new(".")))?;
    let home = versions.home.canonicalize()?;
    let database = scratch.path().join("database/opencode");
    std::fs::create_dir_all(&database)?;
    let copied = Command::new(&versions.after)
        .args(["copy", "--from"])
        .arg(&home)
        .arg("--to")
        .arg(database.join("opencode.db"))
        .env("ANNALS_STORE", scratch.path().join("unused/annals.db"))
        .output()?;
    if !copied.status.success() {
        return Err(io::Error::other(String::from_utf8_lossy(&copied.stderr).into_owned()));
    }
    let mut report = String::from(
        "| home | question | before | after | time after / before | CPU after / before | peak memory before, after |\n\
         |---|---|---|---|---|---|---|\n",
    );
    for name in ["files", "database", "both"] {
        for (question, arguments, is_kept) in QUESTIONS {
            let asked = |program: &Path, version: &str| -> io::Result<Asked> {
                let place = scratch.path().join(format!("{name}-{version}"));
                furnish(name, &place, &home, &database)?;
                let asked = asked(program, arguments, &place, *is_kept)?;
                if *is_kept {
                    let _ = Command::new(program).arg("sync").env("XDG_DATA_HOME", &place).output()?;
                }
                Ok(asked)
            };
            let (before, after) = (asked(&versions.before, "before")?, asked(&versions.after, "after")?);
            let measured = in_turn(&[&before, &after], versions.rounds, false)?;
            let _ = writeln!(report, "| {name} | {question} | {} |", measured[1].beside(&measured[0]));
        }
    }
    Ok(report)
}

/// Makes the data directory of a user who has the homes that `name` lists.
fn furnish(name: &str, place: &Path, home: &Path, database: &Path) -> io::Result<()> {
    let data = place.join("opencode");
    if data.exists() {
        return Ok(());
    }
    std::fs::create_dir_all(&data)?;
    if name != "database" {
        std::os::unix::fs::symlink(home.join("storage"), data.join("storage"))?;
    }
    if name != "files" {
        std::fs::copy(database.join("opencode.db"), data.join("opencode.db"))?;
    }
    Ok(())
}

fn asked(program: &Path, arguments: &str, place: &Path, is_kept: bool) -> io::Result<Asked> {
    let mut environment: BTreeMap<String, OsString> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
        .filter(|(name, _)| !name.starts_with("ANNALS_") && !name.starts_with("OPENCODE_"))
        .collect();
    environment.insert("XDG_DATA_HOME".to_owned(), place.as_os_str().to_owned());
    let store = place.join("annals");
    Ok(Asked {
        name: arguments.to_owned(),
        program: program.canonicalize()?,
        arguments: words(arguments),
        environment: Some(environment),
        directory: std::env::current_dir()?,
        prepare: Box::new(move || match is_kept {
            true => Ok(()),
            false => match std::fs::remove_dir_all(&store) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            },
        }),
    })
}
