//! The `annals-bench` binary: arguments in, a few lines of figures out.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line tool: its output is the product"
)]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use annals_bench::compare::{Comparison, compare};
use annals_bench::generate::{self, Plan};
use annals_bench::long;
use annals_bench::peers::{Gathering, Generation, gather};
use annals_bench::store::{self, Measurement};
use annals_bench::stream::{self, StreamMeasurement};
use annals_bench::versions::{self, Versions};
use clap::{Parser, Subcommand};

/// Make homes of any size and measure stores on them
#[derive(Debug, Parser)]
#[command(name = "annals-bench", version)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Generate(GenerateArgs),
    Compare(CompareArgs),
    Versions(VersionsArgs),
    Peers(PeersArgs),
    Store(StoreArgs),
    Commits(CommitsArgs),
    Searches(SearchesArgs),
    Long(LongArgs),
    Stream(StreamArgs),
}

/// Measure annals beside real OpenCodes on a generated home: 1.1.65 on its files, 1.2.27's migration of them, 1.18.33 on a
/// database
#[derive(Debug, clap::Args)]
struct CompareArgs {
    /// The home, as `generate` wrote it
    #[arg(long, value_name = "DIR")]
    home: PathBuf,
    /// The annals executable
    #[arg(long, default_value = "target/release/annals", value_name = "FILE")]
    annals: PathBuf,
    /// How often each program is asked each question
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Empty the file cache before each command (as root)
    #[arg(long)]
    cold: bool,
}

/// Measure two versions of annals on a generated home, in turns
#[derive(Debug, Clone, clap::Args)]
struct VersionsArgs {
    /// The home, as `generate` wrote it
    #[arg(long, value_name = "DIR")]
    home: PathBuf,
    /// The earlier annals executable
    #[arg(long, value_name = "FILE")]
    before: PathBuf,
    /// The later annals executable
    #[arg(long, default_value = "target/release/annals", value_name = "FILE")]
    after: PathBuf,
    /// How often each is asked each question
    #[arg(long, default_value_t = 15)]
    rounds: usize,
}

/// Measure annals beside ccusage, tokscale, fast-resume and agentsview on a generated home
#[derive(Debug, clap::Args)]
struct PeersArgs {
    /// The home, as `generate` wrote it
    #[arg(long, value_name = "DIR")]
    home: PathBuf,
    /// The annals executable
    #[arg(long, default_value = "target/release/annals", value_name = "FILE")]
    annals: PathBuf,
    /// How often each program is asked each question
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// What the programs read
    #[arg(long, value_enum, default_value_t = Generation::Directory)]
    generation: Generation,
}

/// Measure the store in one process: the stages of a sync, sizes, searches, durable commits
#[derive(Debug, clap::Args)]
struct StoreArgs {
    /// The home, as `generate` wrote it
    #[arg(long, value_name = "DIR")]
    home: PathBuf,
    /// How many searches
    #[arg(long, default_value_t = 200)]
    queries: usize,
    /// How many parts are committed one by one
    #[arg(long, default_value_t = 1000)]
    commits: usize,
    /// Make the store in this directory, and leave it there
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}

/// Measure durable commits of one part beside a bare SQLite loop with the same settings
#[derive(Debug, clap::Args)]
struct CommitsArgs {
    /// How many parts are committed one by one
    #[arg(long, default_value_t = 1000)]
    commits: usize,
    /// Where the databases are made; they are removed again
    #[arg(long, default_value = "target/bench", value_name = "DIR")]
    scratch: PathBuf,
}

/// Measure searches of an existing store, in one process
#[derive(Debug, clap::Args)]
struct SearchesArgs {
    /// The store
    #[arg(long, value_name = "FILE")]
    store: PathBuf,
    /// How many searches
    #[arg(long, default_value_t = 200)]
    queries: usize,
}

/// Measure pages of a session of very many parts, one of them very long
#[derive(Debug, clap::Args)]
struct LongArgs {
    /// Where the store is; a missing one is made there, in a process of its own to keep memory apart
    #[arg(long, default_value = "target/bench/long", value_name = "DIR")]
    directory: PathBuf,
    /// How many parts
    #[arg(long, default_value_t = 1_000_000)]
    parts: usize,
    /// How long the long one is
    #[arg(long, default_value_t = 100_000_000)]
    bytes: usize,
}

/// Measure a text that is streamed in small pieces: bytes written and time, in every kind of home and beside the real OpenCode
#[derive(Debug, clap::Args)]
struct StreamArgs {
    /// How many pieces
    #[arg(long, default_value_t = 10_000)]
    deltas: usize,
    /// How long the text is
    #[arg(long, default_value_t = 1_000_000)]
    bytes: usize,
    /// How many durable steps
    #[arg(long, default_value_t = 3000)]
    steps: usize,
    /// Versions of OpenCode to measure as well
    #[arg(long, value_name = "VERSION", value_delimiter = ',')]
    opencode: Vec<String>,
    /// Where the homes are made; they are removed again
    #[arg(long, default_value = "target/bench", value_name = "DIR")]
    scratch: PathBuf,
}

/// Write an OpenCode home of JSON files, the same bytes for the same seed
#[derive(Debug, clap::Args)]
struct GenerateArgs {
    /// Directory that gets the `storage` tree; there must not be one yet
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Number of sessions, child sessions included
    #[arg(long, default_value_t = 1000)]
    sessions: usize,
    /// Seed of everything that is drawn at random
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let result = match &args.command {
        Command::Generate(args) => generate(args),
        Command::Compare(args) => run_comparison(args),
        Command::Versions(args) => run_versions(args),
        Command::Peers(args) => run_gathering(args),
        Command::Store(args) => measure_store(args),
        Command::Commits(args) => measure_commits(args),
        Command::Searches(args) => measure_searches(args),
        Command::Long(args) => measure_long(args),
        Command::Stream(args) => measure_stream(args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run_comparison(args: &CompareArgs) -> Result<(), Box<dyn std::error::Error>> {
    let CompareArgs { home, annals, rounds, cold } = args;
    let comparison =
        Comparison { home: home.clone(), annals: annals.clone(), rounds: (*rounds).max(1), cold: *cold };
    print!("{}", compare(&comparison)?);
    Ok(())
}

fn run_versions(args: &VersionsArgs) -> Result<(), Box<dyn std::error::Error>> {
    let VersionsArgs { home, before, after, rounds } = args.clone();
    print!("{}", versions::compare(&Versions { home, before, after, rounds: rounds.max(1) })?);
    Ok(())
}

fn measure_store(args: &StoreArgs) -> Result<(), Box<dyn std::error::Error>> {
    let StoreArgs { home, queries, commits, keep } = args;
    let measurement = Measurement {
        home: home.clone(),
        queries: (*queries).max(5),
        commits: (*commits).max(1),
        keep: keep.clone(),
    };
    print!("{}", store::measure(&measurement)?);
    Ok(())
}

fn measure_commits(args: &CommitsArgs) -> Result<(), Box<dyn std::error::Error>> {
    std::fs::create_dir_all(&args.scratch)?;
    print!("{}", store::measure_commits(&args.scratch, args.commits.max(1))?);
    Ok(())
}

fn measure_searches(args: &SearchesArgs) -> Result<(), Box<dyn std::error::Error>> {
    print!("{}", store::measure_searches(&args.store, args.queries.max(5))?);
    Ok(())
}

fn measure_long(args: &LongArgs) -> Result<(), Box<dyn std::error::Error>> {
    if args.directory.join("annals.db").exists() {
        print!("{}", long::measure(&args.directory)?);
        return Ok(());
    }
    std::fs::create_dir_all(&args.directory)?;
    eprint!("{}", long::make(&args.directory, args.parts, args.bytes)?);
    let measured = std::process::Command::new(std::env::current_exe()?)
        .args(["long", "--directory"])
        .arg(&args.directory)
        .status()?;
    if measured.success() { Ok(()) } else { Err("it could not be measured".into()) }
}

fn measure_stream(args: &StreamArgs) -> Result<(), Box<dyn std::error::Error>> {
    let StreamArgs { deltas, bytes, steps, opencode, scratch } = args;
    let measurement = StreamMeasurement {
        deltas: (*deltas).max(1),
        bytes: *bytes,
        steps: (*steps).max(3),
        opencode: opencode.clone(),
    };
    print!("{}", stream::measure(scratch, &measurement)?);
    Ok(())
}

fn run_gathering(args: &PeersArgs) -> Result<(), Box<dyn std::error::Error>> {
    let PeersArgs { home, annals, rounds, generation } = args;
    let (home, annals) = (home.clone(), annals.clone());
    print!("{}", gather(&Gathering { home, annals, rounds: (*rounds).max(1), generation: *generation })?);
    Ok(())
}

fn generate(args: &GenerateArgs) -> Result<(), Box<dyn std::error::Error>> {
    let started = Instant::now();
    let totals = generate::write(Plan { sessions: args.sessions, seed: args.seed }, &args.out)?;
    println!("projects  {:>12}", totals.projects);
    println!("sessions  {:>12}", totals.sessions);
    println!("messages  {:>12}", totals.messages);
    println!("parts     {:>12}", totals.parts);
    println!("files     {:>12}", totals.files);
    println!("bytes     {:>12}", totals.bytes);
    println!("seconds   {:>12.2}", started.elapsed().as_secs_f64());
    Ok(())
}
