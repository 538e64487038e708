//! What the library is doing, on standard error: `--verbose`.

use std::io::{self, Write};

use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt;

use crate::text::harmless;

/// Prints what the library reports from now on, a line each.
pub(crate) fn to_stderr() {
    fmt()
        .with_max_level(LevelFilter::DEBUG)
        .with_ansi(false)
        .without_time()
        .with_target(false)
        .with_writer(|| Stderr)
        .init();
}

/// Standard error. What is reported names files and texts from outside, so nothing of it may command a terminal.
struct Stderr;

impl Write for Stderr {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        writeln!(io::stderr(), "{}", harmless(text.trim_end()))?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}
