//! annals beside the real OpenCode: the same home, the same questions, in one run.
//!
//! Times on a shared machine mean little by themselves. So the programs take turns, and what counts is the ratio of
//! their medians, with the smallest and the largest ratio of a round beside it.

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
    theirs: Vec<String>,
    ours: Vec<(String, Vec<String>)>,
}

/// Runs everything and returns a report in Markdown.
pub fn compare(comparison: &Comparison) -> io::Result<String> {
    let opencode = OpenCode::version("1.1.65");
    let lab = Lab::new(&opencode);
    std::fs::create_dir_all(lab.data().parent().expect("a data directory has a parent"))?;
    let _ = std::fs::remove_dir_all(lab.data());
    std::os::unix::fs::symlink(comparison.home.canonicalize()?, lab.data())?;
    let (project, session) = subject(&comparison.home)?;
    let repository = lab.bind_project("repository", &project);
    let home = comparison.home.display().to_string();
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let ours = |arguments: &str| (arguments.to_owned(), words(&format!("--home {home} {arguments}")));
    let questions = [
        Question {
            name: "list",
            theirs: words("session list --format json"),
            ours: vec![ours("list --json"), ours(&format!("list --json --roots --project {project}"))],
        },
        Question { name: "stats", theirs: words("stats"), ours: vec![ours("stats --json")] },
        Question {
            name: "export",
            theirs: words(&format!("export {session}")),
            ours: vec![ours(&format!("export {session}"))],
        },
    ];
    let scratch = tempfile::tempdir()?;
    let mut report = String::from(
        "| question | program | median | range | peak memory | times faster |\n|---|---|---|---|---|---|\n",
    );
    for question in &questions {
        let mut their_runs = Vec::new();
        let mut our_runs = vec![Vec::new(); question.ours.len()];
        for _ in 0..comparison.rounds {
            let mut command = Command::new("/usr/bin/time");
            command
                .arg("--output")
                .arg(scratch.path().join("usage"))
                .arg("--format=%M")
                .arg(opencode.binary());
            command.args(&question.theirs).env_clear().envs(lab.env()).current_dir(&repository);
            their_runs.push(run(command, scratch.path(), comparison.cold)?);
            for ((_, arguments), runs) in question.ours.iter().zip(&mut our_runs) {
                let mut command = Command::new("/usr/bin/time");
                command
                    .arg("--output")
                    .arg(scratch.path().join("usage"))
                    .arg("--format=%M")
                    .arg(&comparison.annals);
                command.args(arguments);
                runs.push(run(command, scratch.path(), comparison.cold)?);
            }
        }
        row(
            &mut report,
            question.name,
            &format!("opencode {}", question.theirs.join(" ")),
            &their_runs,
            None,
        );
        for ((name, _), runs) in question.ours.iter().zip(&our_runs) {
            row(&mut report, question.name, &format!("annals {name}"), runs, Some(&their_runs));
        }
    }
    Ok(report)
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

fn run(mut command: Command, scratch: &Path, cold: bool) -> io::Result<Run> {
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
