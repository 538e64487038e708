//! Measures commands: runs one, runs several in turns, and makes the cells of a table from the results.
//!
//! Times on a shared machine mean little by themselves. So the programs take turns, and the result is the ratio of
//! their medians, with the smallest and the largest ratio of a round beside it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// `/usr/bin/time` counts processor time in hundredths of a second: a ratio of less than this says nothing.
const FEWEST_CPU: f64 = 0.05;

/// A command, its name in the report, and what is done before each run of it.
pub(crate) struct Asked {
    pub(crate) name: String,
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<String>,
    /// The whole environment of the command; `None` for that of this process.
    pub(crate) environment: Option<BTreeMap<String, OsString>>,
    pub(crate) directory: PathBuf,
    pub(crate) prepare: Box<dyn Fn() -> io::Result<()>>,
}

/// Time and memory of one run of a program.
#[derive(Debug, Clone, Copy)]
struct Run {
    time: Duration,
    /// Processor time, the program's own and the kernel's for it.
    cpu: Duration,
    /// Peak memory in KiB.
    memory: u64,
}

/// Time and memory of a program's runs, one for each round, and the output of the last.
#[derive(Debug, Default)]
pub(crate) struct Measured {
    runs: Vec<Run>,
    pub(crate) said: String,
}

/// Splits a command line that has no quotes in it.
pub(crate) fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

/// Runs each command once a round, in the order given.
pub(crate) fn in_turn(asked: &[&Asked], rounds: usize, cold: bool) -> io::Result<Vec<Measured>> {
    let scratch = tempfile::tempdir()?;
    let (output, usage) = (scratch.path().join("output"), scratch.path().join("usage"));
    let mut measured: Vec<Measured> = asked.iter().map(|_| Measured::default()).collect();
    for _ in 0..rounds {
        for (asked, measured) in asked.iter().zip(&mut measured) {
            measured.runs.push(run(asked, &output, &usage, cold)?);
            measured.said = String::from_utf8_lossy(&std::fs::read(&output)?).into_owned();
        }
    }
    Ok(measured)
}

fn run(asked: &Asked, output: &Path, usage: &Path, cold: bool) -> io::Result<Run> {
    (asked.prepare)()?;
    let mut command = Command::new("/usr/bin/time");
    command.arg("--output").arg(usage).arg("--format=%U %S %M").arg(&asked.program);
    command.args(&asked.arguments).current_dir(&asked.directory);
    if let Some(environment) = &asked.environment {
        command.env_clear().envs(environment);
    }
    if cold {
        Command::new("sync").status()?;
        std::fs::write("/proc/sys/vm/drop_caches", "3")?;
    }
    // To a file: OpenCode truncates its output to a pipe.
    let output = std::fs::File::create(output)?;
    let started = Instant::now();
    let status = command.stdin(Stdio::null()).stdout(output).stderr(Stdio::null()).status()?;
    let time = started.elapsed();
    if !status.success() {
        return Err(io::Error::other(format!("{command:?}: {status}")));
    }
    let usage = std::fs::read_to_string(usage)?;
    let (cpu, memory) =
        parse(&usage).ok_or_else(|| io::Error::other(format!("/usr/bin/time said {usage:?}")))?;
    Ok(Run { time, cpu, memory })
}

/// Reads `%U %S %M`: seconds of the program, seconds of the kernel, KiB.
fn parse(usage: &str) -> Option<(Duration, u64)> {
    let mut numbers = usage.split_whitespace();
    let user: f64 = numbers.next()?.parse().ok()?;
    let system: f64 = numbers.next()?.parse().ok()?;
    Some((Duration::try_from_secs_f64(user + system).ok()?, numbers.next()?.parse().ok()?))
}

impl Measured {
    /// The cells median, range, CPU and peak memory.
    pub(crate) fn cells(&self) -> String {
        let mut times = self.seconds(|run| run.time);
        let median_time = median(&mut times);
        format!(
            "{:.0} ms | {:.0}–{:.0} ms | {:.0} ms | {} MB",
            median_time * 1e3,
            times[0] * 1e3,
            times[times.len() - 1] * 1e3,
            median(&mut self.seconds(|run| run.cpu)) * 1e3,
            self.runs.iter().map(|run| run.memory).max().unwrap_or(0) / 1024
        )
    }

    /// The cells with the factors by which another program took more time and more CPU.
    pub(crate) fn times_faster_than(&self, other: &Measured) -> String {
        let times = ratio(&other.seconds(|run| run.time), &self.seconds(|run| run.time));
        let (theirs, ours) = (other.seconds(|run| run.cpu), self.seconds(|run| run.cpu));
        let is_measurable = ours.iter().all(|seconds| *seconds >= FEWEST_CPU);
        format!("{times} | {}", if is_measurable { ratio(&theirs, &ours) } else { "–".to_owned() })
    }

    /// The cells with another version's time, this one's, the ratios of time and CPU, and the peak memory of both.
    pub(crate) fn beside(&self, earlier: &Measured) -> String {
        let times = [earlier, self].map(|measured| median(&mut measured.seconds(|run| run.time)));
        let cpu = [earlier, self].map(|measured| median(&mut measured.seconds(|run| run.cpu)));
        let memory = [earlier, self]
            .map(|measured| measured.runs.iter().map(|run| run.memory).max().unwrap_or(0) / 1024);
        let cpu_ratio = match cpu[0] >= FEWEST_CPU {
            true => format!("{:.2}", cpu[1] / cpu[0]),
            false => "–".to_owned(),
        };
        format!(
            "{:.1} ms | {:.1} ms | **{:.3}** | {cpu_ratio} | {}, {} MB",
            times[0] * 1e3,
            times[1] * 1e3,
            times[1] / times[0],
            memory[0],
            memory[1]
        )
    }

    fn seconds(&self, of: impl Fn(&Run) -> Duration) -> Vec<f64> {
        self.runs.iter().map(|run| of(run).as_secs_f64()).collect()
    }
}

/// The ratio of the medians, with the smallest and largest ratio of a round.
fn ratio(theirs: &[f64], ours: &[f64]) -> String {
    let mut rounds: Vec<f64> = theirs.iter().zip(ours).map(|(theirs, ours)| theirs / ours).collect();
    rounds.sort_by(f64::total_cmp);
    let medians = median(&mut theirs.to_vec()) / median(&mut ours.to_vec());
    format!("**{medians:.1}×** ({:.1}–{:.1})", rounds[0], rounds[rounds.len() - 1])
}

/// The median; sorts the values.
fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
