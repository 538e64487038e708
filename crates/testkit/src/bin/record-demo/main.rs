//! Records the sample home that `annals demo` shows: `record-demo OUT.tar.zst`.
//!
//! A real OpenCode plays the sessions in [`sessions`] against a scripted model, with a clock set to a week in
//! February 2026, in real directories below `/home/dev`, so that the transcripts show paths one would expect.
//! OpenCode's files are packed unchanged, except for the address of the scripted model. Two recordings differ in
//! ids and slugs, by some seconds in their times, and in what commands and searches print about durations,
//! memory and files of the same age; in nothing else.
//!
//! Besides OpenCode it needs git, ripgrep, Node.js 20, Python 3 and libfaketime, and permission to write to
//! `/home`.

#[cfg(target_os = "linux")]
mod meter;
#[cfg(target_os = "linux")]
mod pack;
#[cfg(target_os = "linux")]
mod places;
#[cfg(target_os = "linux")]
mod recorder;
#[cfg(target_os = "linux")]
mod sessions;
#[cfg(target_os = "linux")]
mod story;
#[cfg(target_os = "linux")]
mod turns;

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let (Some(out), None) = (arguments.next(), arguments.next()) else {
        say("usage: record-demo OUT.tar.zst");
        return std::process::ExitCode::from(2);
    };
    let packed = recorder::record(&sessions::all(), |storage| pack::pack(storage, out.as_ref()));
    match packed {
        Ok(packed) => {
            say(&packed.to_string());
            std::process::ExitCode::SUCCESS
        }
        Err(error) => {
            say(&format!("error: {}: {error}", out.display()));
            std::process::ExitCode::FAILURE
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn main() -> std::process::ExitCode {
    say("error: the driver of OpenCode works on Linux only");
    std::process::ExitCode::FAILURE
}

#[allow(clippy::print_stderr, reason = "a program run by hand")]
fn say(text: &str) {
    eprintln!("{text}");
}
