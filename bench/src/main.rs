//! The `annals-bench` binary: arguments in, a few lines of figures out.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line tool: its output is the product"
)]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use annals_bench::generate::{self, GenerateError, Plan};
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
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn generate(args: &GenerateArgs) -> Result<(), GenerateError> {
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
