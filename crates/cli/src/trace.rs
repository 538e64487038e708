//! `--verbose`: reports of the library on standard error.

use std::io::{self, Write};

use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt;

use crate::text::harmless;

/// Prints every report of the library from now on, a line each.
pub(crate) fn to_stderr() {
    fmt()
        .with_max_level(LevelFilter::DEBUG)
        .with_ansi(false)
        .without_time()
        .with_target(false)
        .with_writer(|| HarmlessStderr)
        .init();
}

/// Standard error. Reports name files and texts from outside, so each line is made harmless to a terminal.
struct HarmlessStderr;

impl Write for HarmlessStderr {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        writeln!(io::stderr(), "{}", harmless(text.trim_end()))?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}
