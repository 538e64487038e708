//! annals beside the real OpenCode: the same home, the same questions, in one run.
//!
//! Times on a shared machine mean little by themselves. So the programs take turns, and what counts is the ratio of
//! their medians, with the smallest and the largest ratio of a round beside it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use annals_testkit::opencode::{Lab, OpenCode};

/// What to compare.
#[derive(Debug)]
pub struct Comparison {
    /// A home of the flat layout; OpenCode rewrites one project record in it.
    pub home: PathBuf,
    /// The `annals` executable.
    pub annals: PathBuf,
    /// Rounds.
    pub rounds: usize,
    /// Whether the file cache is emptied before each command, which takes root.
    pub cold: bool,
}

/// What one run of a program took.
#[derive(Debug, Clone, Copy)]
struct Run {
    time: Duration,
    /// Peak memory in KiB.
    memory: u64,
}

/// A question and how each program is asked it.
struct Question {
    name: &'static str,
    theirs: Asked,
    ours: Vec<Asked>,
}

/// A command, its name in the report, and what is done before each run of it.
struct Asked {
    name: String,
    program: PathBuf,
    arguments: Vec<String>,
    environment: Option<BTreeMap<String, OsString>>,
    directory: PathBuf,
    prepare: Box<dyn Fn() -> io::Result<()>>,
}

/// Runs everything and returns a report in Markdown.
pub fn compare(comparison: &Comparison) -> io::Result<String> {
    let home = comparison.home.canonicalize()?;
    let (project, session) = subject(&home)?;
    let mut report = String::from(
        "| question | program | median | range | peak memory | times faster |\n|---|---|---|---|---|---|\n",
    );
    let files = Subject { comparison, version: "1.1.65", data: home.clone(), home: home.clone() };
    let (_lab, questions) = files.questions(&project, &session)?;
    ask(&mut report, comparison, &questions)?;
    // The database is made by the copy that is measured, so it comes first.
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
    /// What annals is given.
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
        let questions = vec![
            Question {
                name: "list",
                theirs: theirs("session list --format json"),
                ours: vec![ours("list --json")?, ours(&format!("list --json --roots --project {project}"))?],
            },
            Question { name: "stats", theirs: theirs("stats"), ours: vec![ours("stats --json")?] },
            Question {
                name: "export",
                theirs: theirs(&format!("export {session}")),
                ours: vec![ours(&format!("export {session}"))?],
            },
        ];
        Ok((lab, questions))
    }
}

/// OpenCode 1.2.27 takes a directory over into its database when it first starts.
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
    Ok((lab, vec![Question { name: "take over", theirs, ours: vec![ours] }]))
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

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

/// Asks each question of both programs in turn, and adds the rows.
fn ask(report: &mut String, comparison: &Comparison, questions: &[Question]) -> io::Result<()> {
    let scratch = tempfile::tempdir()?;
    for question in questions {
        let mut their_runs = Vec::new();
        let mut our_runs = vec![Vec::new(); question.ours.len()];
        for _ in 0..comparison.rounds {
            their_runs.push(run(&question.theirs, scratch.path(), comparison.cold)?);
            for (asked, runs) in question.ours.iter().zip(&mut our_runs) {
                runs.push(run(asked, scratch.path(), comparison.cold)?);
            }
        }
        row(report, question.name, &question.theirs.name, &their_runs, None);
        for (asked, runs) in question.ours.iter().zip(&our_runs) {
            row(report, question.name, &asked.name, runs, Some(&their_runs));
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

fn run(asked: &Asked, scratch: &Path, cold: bool) -> io::Result<Run> {
    (asked.prepare)()?;
    let mut command = Command::new("/usr/bin/time");
    command.arg("--output").arg(scratch.join("usage")).arg("--format=%M").arg(&asked.program);
    command.args(&asked.arguments).current_dir(&asked.directory);
    if let Some(environment) = &asked.environment {
        command.env_clear().envs(environment);
    }
    if cold {
        Command::new("sync").status()?;
        std::fs::write("/proc/sys/vm/drop_caches", "3")?;
    }
    // To a file: OpenCode cuts what it writes to a pipe.
    let output = std::fs::File::create(scratch.join("output"))?;
    let started = Instant::now();
    let status = command.stdin(Stdio::null()).stdout(output).stderr(Stdio::null()).status()?;
    let time = started.elapsed();
    if !status.success() {
        return Err(io::Error::other(format!("{command:?}: {status}")));
    }
    let usage = std::fs::read_to_string(scratch.join("usage"))?;
    let memory =
        usage.trim().parse().map_err(|_| io::Error::other(format!("/usr/bin/time said {usage:?}")))?;
    Ok(Run { time, memory })
}

fn row(report: &mut String, question: &str, program: &str, runs: &[Run], against: Option<&[Run]>) {
    let mut times: Vec<f64> = runs.iter().map(|run| run.time.as_secs_f64()).collect();
    let memory = runs.iter().map(|run| run.memory).max().unwrap_or(0);
    let faster = against.map(|theirs| {
        let mut ratios: Vec<f64> = theirs
            .iter()
            .zip(runs)
            .map(|(theirs, ours)| theirs.time.as_secs_f64() / ours.time.as_secs_f64())
            .collect();
        let median = median(&mut theirs.iter().map(|run| run.time.as_secs_f64()).collect::<Vec<_>>())
            / median(&mut times.clone());
        ratios.sort_by(f64::total_cmp);
        format!("**{median:.1}×** ({:.1}–{:.1})", ratios[0], ratios[ratios.len() - 1])
    });
    let median = median(&mut times);
    let _ = writeln!(
        report,
        "| {question} | `{program}` | {:.0} ms | {:.0}–{:.0} ms | {} MB | {} |",
        median * 1e3,
        times[0] * 1e3,
        times[times.len() - 1] * 1e3,
        memory / 1024,
        faster.unwrap_or_default()
    );
}

/// The middle value; sorts.
fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
