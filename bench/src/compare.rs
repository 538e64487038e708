//! Comparison of annals with the real OpenCode: the same home, the same questions, in one run.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use annals_testkit::opencode::{Lab, OpenCode};

use crate::measure::{Asked, in_turn, words};

/// What to compare.
#[derive(Debug)]
pub struct Comparison {
    /// A home of the flat layout; OpenCode rewrites one project record in it.
    pub home: PathBuf,
    /// The `annals` executable.
    pub annals: PathBuf,
    /// Rounds.
    pub rounds: usize,
    /// Whether the file cache is emptied before each command, which needs root.
    pub cold: bool,
}

/// A question, and the command of each program that answers it.
struct Question {
    name: &'static str,
    theirs: Asked,
    ours: Vec<Asked>,
}

/// Runs everything and returns a report in Markdown.
pub fn compare(comparison: &Comparison) -> io::Result<String> {
    let home = comparison.home.canonicalize()?;
    let (project, session) = subject(&home)?;
    let mut report = String::from(
        "| question | program | median | range | CPU | peak memory | times faster | times less CPU |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    let files = Subject { comparison, version: "1.1.65", data: home.clone(), home: home.clone() };
    let (_lab, questions) = files.questions(&project, &session)?;
    ask(&mut report, comparison, &questions)?;
    // The measured copy makes the database, so it comes first.
    let scratch = tempfile::tempdir_in(home.parent().unwrap_or(&home))?;
    let database = scratch.path().join("ours/opencode.db");
    let (_lab, questions) = migration(comparison, &home, scratch.path(), &database)?;
    ask(&mut report, comparison, &questions)?;
    let data = database.parent().map(Path::to_owned).unwrap_or_default();
    let rows = Subject { comparison, version: "1.18.33", data, home: database };
    let (lab, questions) = rows.questions(&project, &session)?;
    // Its first start brings the tables up to date.
    let _ = lab.cli(lab.root(), &["session", "list"], b"");
    ask(&mut report, comparison, &questions)?;
    Ok(report)
}

/// A home that both programs are asked about.
struct Subject<'c> {
    comparison: &'c Comparison,
    version: &'c str,
    /// OpenCode's data directory.
    data: PathBuf,
    /// The home that annals is given.
    home: PathBuf,
}

impl Subject<'_> {
    fn questions(&self, project: &str, session: &str) -> io::Result<(Lab, Vec<Question>)> {
        let opencode = OpenCode::version(self.version);
        let lab = Lab::new(&opencode);
        std::fs::create_dir_all(lab.data().parent().expect("a data directory has a parent"))?;
        let _ = std::fs::remove_dir_all(lab.data());
        std::os::unix::fs::symlink(&self.data, lab.data())?;
        let repository = lab.bind_project("repository", project);
        let theirs = |arguments: &str| Asked {
            name: format!("opencode {arguments}"),
            program: opencode.binary().to_owned(),
            arguments: words(arguments),
            environment: Some(lab.env()),
            directory: repository.clone(),
            prepare: Box::new(|| Ok(())),
        };
        let ours = |arguments: &str| {
            let arguments_and_home = format!("--home {} {arguments}", self.home.display());
            annals(self.comparison, &format!("annals {arguments}"), &arguments_and_home)
        };
        // Without `--home`, as people ask: the store answers, after checking whether anything is new.
        let place = lab.root().join("store");
        std::fs::create_dir_all(&place)?;
        std::os::unix::fs::symlink(&self.data, place.join("opencode"))?;
        let store = |name: &str, arguments: &str, is_kept: bool| {
            stored(self.comparison, &format!("annals {arguments}, {name}"), arguments, &place, is_kept)
        };
        let questions = vec![
            Question {
                name: "list",
                theirs: theirs("session list --format json"),
                ours: vec![
                    ours("list --json")?,
                    ours(&format!("list --json --roots --project {project}"))?,
                    store("a home never seen", "list --json", false)?,
                    store("nothing new", "list --json", true)?,
                ],
            },
            Question {
                name: "stats",
                theirs: theirs("stats"),
                ours: vec![
                    ours("stats --json")?,
                    store("a home never seen", "stats --json", false)?,
                    store("nothing new", "stats --json", true)?,
                ],
            },
            Question {
                name: "export",
                theirs: theirs(&format!("export {session}")),
                ours: vec![ours(&format!("export {session}"))?],
            },
        ];
        Ok((lab, questions))
    }
}

/// OpenCode 1.2.27 migrates a directory into its database when it first starts.
fn migration(
    comparison: &Comparison,
    home: &Path,
    scratch: &Path,
    database: &Path,
) -> io::Result<(Lab, Vec<Question>)> {
    let opencode = OpenCode::version("1.2.27");
    let lab = Lab::new(&opencode);
    let data = scratch.join("theirs");
    std::fs::create_dir_all(lab.data().parent().expect("a data directory has a parent"))?;
    let _ = std::fs::remove_dir_all(lab.data());
    std::os::unix::fs::symlink(&data, lab.data())?;
    let storage = home.join("storage");
    let theirs = Asked {
        name: "opencode session list, first start of 1.2.27".to_owned(),
        program: opencode.binary().to_owned(),
        arguments: words("session list --format json"),
        environment: Some(lab.env()),
        directory: lab.root().to_owned(),
        prepare: Box::new(move || {
            let _ = std::fs::remove_dir_all(&data);
            std::fs::create_dir_all(&data)?;
            std::os::unix::fs::symlink(&storage, data.join("storage"))
        }),
    };
    let target = database.parent().map(Path::to_owned).unwrap_or_default();
    let arguments = format!("copy --from {} --to {}", home.display(), database.display());
    let ours = Asked {
        prepare: Box::new(move || {
            let _ = std::fs::remove_dir_all(&target);
            std::fs::create_dir_all(&target)
        }),
        ..annals(comparison, "annals copy --from DIR --to opencode.db", &arguments)?
    };
    let place = scratch.join("store");
    std::fs::create_dir_all(&place)?;
    std::os::unix::fs::symlink(home, place.join("opencode"))?;
    let synced = stored(comparison, "annals sync, with the text index", "sync", &place, false)?;
    Ok((lab, vec![Question { name: "take over", theirs, ours: vec![ours, synced] }]))
}

/// A command that a store in `place` answers: a new one, or an existing one.
fn stored(
    comparison: &Comparison,
    name: &str,
    arguments: &str,
    place: &Path,
    is_kept: bool,
) -> io::Result<Asked> {
    let store = place.join("annals");
    let mut environment: BTreeMap<String, OsString> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
        .filter(|(name, _)| !name.starts_with("ANNALS_") && !name.starts_with("OPENCODE_"))
        .collect();
    environment.insert("XDG_DATA_HOME".to_owned(), place.as_os_str().to_owned());
    Ok(Asked {
        environment: Some(environment),
        prepare: Box::new(move || match is_kept {
            true => Ok(()),
            false => match std::fs::remove_dir_all(&store) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            },
        }),
        ..annals(comparison, name, arguments)?
    })
}

fn annals(comparison: &Comparison, name: &str, arguments: &str) -> io::Result<Asked> {
    Ok(Asked {
        name: name.to_owned(),
        program: comparison.annals.canonicalize()?,
        arguments: words(arguments),
        environment: None,
        directory: std::env::current_dir()?,
        prepare: Box::new(|| Ok(())),
    })
}

/// Asks each question of both programs in turn, and adds the rows.
fn ask(report: &mut String, comparison: &Comparison, questions: &[Question]) -> io::Result<()> {
    for Question { name, theirs, ours } in questions {
        let asked: Vec<&Asked> = std::iter::once(theirs).chain(ours).collect();
        let measured = in_turn(&asked, comparison.rounds, comparison.cold)?;
        for (index, (asked, one)) in asked.iter().zip(&measured).enumerate() {
            let faster = if index == 0 { " | ".to_owned() } else { one.times_faster_than(&measured[0]) };
            let _ = writeln!(report, "| {name} | `{}` | {} | {faster} |", asked.name, one.cells());
        }
    }
    Ok(())
}

/// The project with the most sessions, and a session of it of middling size.
fn subject(home: &Path) -> io::Result<(String, String)> {
    let mut projects = Vec::new();
    for project in std::fs::read_dir(home.join("storage/session"))? {
        let project = project?;
        let name = project.file_name().to_string_lossy().into_owned();
        if name != "global" {
            projects.push((std::fs::read_dir(project.path())?.count(), name));
        }
    }
    let (_, project) =
        projects.into_iter().max().ok_or_else(|| io::Error::other("no project with a repository"))?;
    let mut sessions = Vec::new();
    for session in std::fs::read_dir(home.join("storage/session").join(&project))? {
        let id = session?.file_name().to_string_lossy().trim_end_matches(".json").to_owned();
        let n_messages = std::fs::read_dir(home.join("storage/message").join(&id)).map_or(0, Iterator::count);
        sessions.push((n_messages, id));
    }
    sessions.sort();
    let (_, session) = sessions.swap_remove(sessions.len() * 3 / 4);
    Ok((project, session))
}
