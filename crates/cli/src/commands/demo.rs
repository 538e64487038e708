//! `annals demo`

use std::path::{Path, PathBuf};

use annals::wire;

use crate::commands::overview::Hints;
use crate::commands::{list, overview, show};
use crate::context::{Context, user_directory};
use crate::error::{CliError, CommandResult, Outcome};

/// Show annals on a sample home, without OpenCode
///
/// Unpacks a few sessions that the real OpenCode 1.1.65 recorded, shows what is in them, and says how to look further.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  annals demo
  annals demo --dir ./sample        unpack it there, to keep")]
pub(crate) struct DemoArgs {
    /// Where to unpack the sample home; a cache directory if not given, where the next `demo` replaces it
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Written by `record-demo` of the testkit, which drives the real OpenCode 1.1.65.
const HOME: &[u8] = include_bytes!("../../demo/home.tar.zst");

/// The conversation that is shown: short, and with a bit of everything.
const SHOWN: &str = "Coupon rules for support";

pub(crate) fn run(context: &Context, args: &DemoArgs) -> CommandResult {
    let home = unpack(args.dir.as_deref())?;
    if context.json {
        let mut output = context.plain_output();
        output.json(&wire::SampleHome { home: home.display().to_string() })?;
        output.finish()?;
        return Ok(Outcome::Done);
    }
    let context = context.on(&home);
    heading(
        &context,
        "A sample home: sessions of two small projects, recorded with OpenCode 1.1.65",
        "annals",
    )?;
    overview::run(&context, Hints::Omitted)?;
    heading(&context, "Every session", "annals list")?;
    list::run(&context, &list::ListArgs::all())?;
    heading(&context, "One conversation", &format!("annals show {SHOWN:?}"))?;
    show::run(&context, &show::ShowArgs::session(SHOWN))?;
    farewell(&context, &home)?;
    Ok(Outcome::Done)
}

fn unpack(directory: Option<&Path>) -> Result<PathBuf, CliError> {
    let failed = |path: &Path, error: std::io::Error| {
        CliError::new(format!("cannot unpack the sample home to {}: {error}", path.display()))
            .hint("`--dir DIR` unpacks it elsewhere")
    };
    let home = match directory {
        Some(directory) => {
            if std::fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_some()) {
                return Err(CliError::new(format!("{} is not empty", directory.display())));
            }
            std::fs::create_dir_all(directory).map_err(|error| failed(directory, error))?;
            directory.to_owned()
        }
        None => match user_directory("XDG_CACHE_HOME", ".cache") {
            Some(cache) => {
                let home = cache.join("annals").join("demo");
                match std::fs::remove_dir_all(&home) {
                    Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                        return Err(failed(&home, error));
                    }
                    _ => std::fs::create_dir_all(&home).map_err(|error| failed(&home, error))?,
                }
                home
            }
            None => {
                let place = std::env::temp_dir();
                let made = tempfile::Builder::new().prefix("annals-demo-").tempdir_in(&place);
                made.map_err(|error| failed(&place, error))?.keep()
            }
        },
    };
    let decoder = zstd::Decoder::new(HOME).map_err(|error| failed(&home, error))?;
    tar::Archive::new(decoder).unpack(&home).map_err(|error| failed(&home, error))?;
    Ok(home)
}

fn heading(context: &Context, what: &str, command: &str) -> Result<(), CliError> {
    let mut output = context.plain_output();
    let (paint, rule) = (output.paint, "─".repeat(output.width));
    output.line("")?;
    output.line(paint.dim(&rule))?;
    output.line(format!("{}  {}", paint.bold(what), paint.dim(format!("({command})"))))?;
    output.line("")?;
    Ok(output.finish()?)
}

fn farewell(context: &Context, home: &Path) -> Result<(), CliError> {
    let mut output = context.plain_output();
    let (paint, rule) = (output.paint, "─".repeat(output.width));
    // Straight from a build the program is not on the path; the printed commands must work when they are copied.
    let program = std::env::args().next().filter(|name| name.contains(std::path::is_separator));
    let program = program.unwrap_or_else(|| "annals".to_owned());
    let home = home.display();
    output.line("")?;
    output.line(paint.dim(&rule))?;
    output.line(paint.bold("Look further"))?;
    for (what, command) in [
        ("a bug hunt in three turns", "show \"coupon totals\""),
        ("an edit that fails and recovers, with all that was printed", "show accents --tools full"),
        ("who started whom", "tree --all"),
        ("a plan half done", "todo \"carts in\""),
        ("where something was said", "search coupon rounding"),
        ("what each model cost", "stats --by model"),
        ("a conversation for reading elsewhere", "export accents --format markdown"),
        ("a look for damage", "check"),
    ] {
        output.line("")?;
        output.line(format!("  {}", paint.dim(format!("# {what}"))))?;
        output.line(format!("  {}", paint.code(format!("{program} --home {home} {command}"))))?;
    }
    output.line("")?;
    output.line(
        paint.dim(format!("On your own sessions: {program}. The sample can be deleted: rm -r {home}")),
    )?;
    Ok(output.finish()?)
}
