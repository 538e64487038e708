//! Standard output and how it looks: pager, colours, width.

use std::io::{self, IsTerminal, Write};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use annals::model::Document;
use annals::model::json::{JsWriter, Style as JsonStyle};
use anstream::{AutoStream, stream::RawStream};
use anstyle::{AnsiColor, Style};
use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};

use crate::text::{for_terminal, in_ascii, is_active};

/// When to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ColorChoice {
    /// If the output is a terminal
    Auto,
    /// Also in a pipe
    Always,
    /// Not at all
    Never,
}

/// Paints texts; without colour they stay as they are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Painter {
    pub(crate) color: bool,
}

macro_rules! paints {
    ($($(#[$meta:meta])* $name:ident: $style:expr;)*) => {
        impl Painter {
            $($(#[$meta])* pub(crate) fn $name(self, text: impl AsRef<str>) -> String {
                self.paint($style, text.as_ref())
            })*
        }
    };
}

paints! {
    bold: Style::new().bold();
    dim: Style::new().dimmed();
    italic_dim: Style::new().dimmed().italic();
    id: AnsiColor::Cyan.on_default();
    good: AnsiColor::Green.on_default();
    bad: AnsiColor::Red.on_default();
    bad_bold: AnsiColor::Red.on_default().bold();
    warn: AnsiColor::Yellow.on_default();
    warn_bold: AnsiColor::Yellow.on_default().bold();
    accent: AnsiColor::Blue.on_default().bold();
    agent: AnsiColor::Magenta.on_default();
    code: AnsiColor::Cyan.on_default();
    found: AnsiColor::Yellow.on_default().bold();
}

impl Painter {
    /// Colours for a stream: decided by `choice`, then by the environment (`NO_COLOR`, `CLICOLOR_FORCE`, `CLICOLOR`),
    /// then by whether the stream is a terminal that can show them.
    pub(crate) fn new(choice: ColorChoice, stream: &impl RawStream) -> Painter {
        let color = match choice {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => AutoStream::choice(stream) != anstream::ColorChoice::Never,
        };
        Painter { color }
    }

    fn paint(self, style: Style, text: &str) -> String {
        if self.color && !text.is_empty() { format!("{style}{text}{style:#}") } else { text.to_owned() }
    }
}

/// Whether the user's locale says that the terminal cannot show symbols: it names another character set than UTF-8, as `C` does. Without
/// any locale the terminal is taken for a modern one.
fn is_plain_locale() -> bool {
    static IS_PLAIN: OnceLock<bool> = OnceLock::new();
    *IS_PLAIN.get_or_init(|| {
        let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set);
        locale.is_some_and(|locale| {
            let locale = locale.to_lowercase();
            !locale.contains("utf-8") && !locale.contains("utf8")
        })
    })
}

/// A line as it may go to the user: see [`for_terminal`] and [`in_ascii`].
fn presentable(line: &str, styles: bool) -> String {
    let line = for_terminal(line, styles);
    match is_plain_locale() {
        true => in_ascii(&line).into_owned(),
        false => line.into_owned(),
    }
}

/// Writes a line to standard error. The line is made harmless to a terminal, wherever its text came from: this is the only way there.
pub(crate) fn error_line(line: &str, paint: Painter) {
    let mut stderr = io::stderr().lock();
    let _ = writeln!(stderr, "{}", presentable(line, paint.color));
}

/// Writes a question to standard error, without a line break.
pub(crate) fn ask(question: &str) -> io::Result<()> {
    let mut stderr = io::stderr();
    write!(stderr, "{} ", presentable(question, false))?;
    stderr.flush()
}

/// Standard output, through a pager if that is wanted and the output is a terminal.
pub(crate) struct Output {
    pub(crate) paint: Painter,
    /// Columns for text that is read in lines.
    pub(crate) width: usize,
    /// Columns for tables: as many as the terminal has. In a pipe rows may be as long as they are.
    pub(crate) columns: usize,
    pub(crate) is_terminal: bool,
    sink: OutputSink,
}

enum OutputSink {
    Stdout(io::BufWriter<io::Stdout>),
    Pager {
        pager: Child,
        /// Whether the user pressed Ctrl-C, which the pager and annals both get.
        is_interrupted: Arc<AtomicBool>,
    },
    /// The output has ended.
    Ended,
}

/// Options of the output, from arguments and environment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OutputOptions {
    pub(crate) color: ColorChoice,
    pub(crate) pager: bool,
}

/// Text in a pipe is laid out for this many columns.
const PIPE_WIDTH: usize = 80;
/// What is laid out for fewer columns would not be readable.
const MIN_WIDTH: usize = 40;
/// Longer lines are tiring to read, however wide the terminal.
const MAX_WIDTH: usize = 120;

impl Output {
    pub(crate) fn new(options: OutputOptions) -> Output {
        let is_terminal = io::stdout().is_terminal();
        let named = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse::<usize>().ok());
        let width = match terminal_size::terminal_size() {
            Some((terminal_size::Width(columns), _)) if is_terminal => usize::from(columns),
            _ => named.unwrap_or(PIPE_WIDTH),
        };
        let columns = if is_terminal || named.is_some() { width.max(MIN_WIDTH) } else { usize::MAX };
        let pager = if options.pager && is_terminal { start_pager() } else { None };
        Output {
            paint: Painter::new(options.color, &io::stdout()),
            width: width.clamp(MIN_WIDTH, MAX_WIDTH),
            columns,
            is_terminal,
            sink: match pager {
                Some(pager) => OutputSink::Pager { pager, is_interrupted: outlive_interrupts() },
                None => OutputSink::Stdout(io::BufWriter::new(io::stdout())),
            },
        }
    }

    /// Writes one line for people. The line is made harmless to a terminal, wherever its text came from.
    pub(crate) fn line(&mut self, line: impl AsRef<str>) -> io::Result<()> {
        let mut bytes = presentable(line.as_ref().trim_end_matches(' '), self.paint.color).into_bytes();
        bytes.push(b'\n');
        self.write_all(&bytes)
    }

    /// Writes a machine-readable document, laid out as JavaScript would.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> io::Result<()> {
        let mut text = pretty(value, 0)?;
        text.push(b'\n');
        self.json_text(&text)
    }

    /// Writes a machine-readable array item by item, because it may be long.
    pub(crate) fn json_array<T: Serialize>(&mut self, items: impl IntoIterator<Item = T>) -> io::Result<()> {
        let mut is_empty = true;
        for item in items {
            self.write_all(if is_empty { b"[\n  " } else { b",\n  " })?;
            self.json_text(&pretty(&item, 1)?)?;
            is_empty = false;
        }
        self.write_all(if is_empty { b"[]\n" } else { b"\n]\n" })
    }

    /// Writes JSON text as it is. On a terminal, characters that act on a terminal or hide something are escaped, which does not
    /// change the meaning of the JSON.
    pub(crate) fn json_text(&mut self, text: &[u8]) -> io::Result<()> {
        if !self.is_terminal {
            return self.write_all(text);
        }
        // Outside of strings JSON is plain ASCII, so everything that is escaped stands in a string.
        let mut safe = String::with_capacity(text.len());
        for c in String::from_utf8_lossy(text).chars() {
            match c {
                '\n' | '\r' | '\t' => safe.push(c),
                c if is_active(c) => {
                    let mut units = [0; 2];
                    for unit in c.encode_utf16(&mut units) {
                        safe.push_str(&format!("\\u{unit:04x}"));
                    }
                }
                c => safe.push(c),
            }
        }
        self.write_all(safe.as_bytes())
    }

    /// Ends the output: waits for the pager, if there is one, until its reader has seen enough.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.end()
    }

    fn end(&mut self) -> io::Result<()> {
        match std::mem::replace(&mut self.sink, OutputSink::Ended) {
            OutputSink::Stdout(mut stdout) => stdout.flush(),
            OutputSink::Pager { mut pager, .. } => {
                drop(pager.stdin.take());
                pager.wait().map(drop)
            }
            OutputSink::Ended => Ok(()),
        }
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        // After an error the pager still has the terminal.
        let _ = self.end();
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.sink {
            OutputSink::Stdout(stdout) => stdout.write(bytes),
            OutputSink::Pager { pager, is_interrupted } => match pager.stdin.as_mut() {
                Some(stdin) if !is_interrupted.load(Ordering::Relaxed) => stdin.write(bytes),
                _ => Err(io::ErrorKind::BrokenPipe.into()),
            },
            OutputSink::Ended => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.sink {
            OutputSink::Stdout(stdout) => stdout.flush(),
            OutputSink::Pager { pager, .. } => pager.stdin.as_mut().map_or(Ok(()), Write::flush),
            OutputSink::Ended => Ok(()),
        }
    }
}

/// Lets the process live on after Ctrl-C, and notes that it was pressed. The pager has the terminal until its reader leaves it; if annals
/// ended before, the shell and the pager would both read what is typed.
fn outlive_interrupts() -> Arc<AtomicBool> {
    let is_interrupted = Arc::<AtomicBool>::default();
    #[cfg(unix)]
    {
        let _ = signal_hook::flag::register(signal_hook::consts::SIGINT, is_interrupted.clone());
    }
    is_interrupted
}

/// Starts `$ANNALS_PAGER`, `$PAGER` or `less`. `None` if there is none, or if it is turned off by an empty variable.
fn start_pager() -> Option<Child> {
    let named = std::env::var("ANNALS_PAGER")
        .or_else(|_| std::env::var("PAGER"))
        .unwrap_or_else(|_| "less".to_owned());
    let mut words = named.split_whitespace();
    let program = words.next().filter(|program| *program != "cat")?;
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::piped());
    if std::env::var_os("LESS").is_none() {
        // Quit at once if it fits on one screen, pass colours on, leave the text on the screen.
        command.env("LESS", "FRX");
    }
    if std::env::var_os("LESSCHARSET").is_none() {
        // Otherwise less shows the bytes of everything that is not ASCII where the locale says `C`.
        command.env("LESSCHARSET", "utf-8");
    }
    command.spawn().ok()
}

/// A value as `JSON.stringify(value, null, 2)` writes it at some depth of a document.
fn pretty(value: &impl Serialize, depth: usize) -> io::Result<Vec<u8>> {
    let mut text = Vec::with_capacity(1024);
    value.serialize(&mut Serializer::with_formatter(&mut text, JsFormatter::at(depth)?))?;
    Ok(text)
}

/// Lays JSON out as serde_json does, which is JavaScript's way, and writes numbers and values that are JSON already as JavaScript does. To lay out the
/// finished text instead would mean to scan all of it again.
struct JsFormatter {
    layout: PrettyFormatter<'static>,
    depth: usize,
}

impl JsFormatter {
    fn at(depth: usize) -> io::Result<JsFormatter> {
        let mut formatter = JsFormatter { layout: PrettyFormatter::new(), depth: 0 };
        for _ in 0..depth {
            formatter.begin_array(&mut io::sink())?;
        }
        Ok(formatter)
    }
}

impl Formatter for JsFormatter {
    fn begin_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.depth += 1;
        self.layout.begin_array(out)
    }

    fn end_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.depth -= 1;
        self.layout.end_array(out)
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, out: &mut W, is_first: bool) -> io::Result<()> {
        self.layout.begin_array_value(out, is_first)
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.layout.end_array_value(out)
    }

    fn begin_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.depth += 1;
        self.layout.begin_object(out)
    }

    fn end_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.depth -= 1;
        self.layout.end_object(out)
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, out: &mut W, is_first: bool) -> io::Result<()> {
        self.layout.begin_object_key(out, is_first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.layout.begin_object_value(out)
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.layout.end_object_value(out)
    }

    fn write_f64<W: ?Sized + Write>(&mut self, out: &mut W, value: f64) -> io::Result<()> {
        out.write_all(&JsWriter::document(JsonStyle::Compact, &value))
    }

    fn write_raw_fragment<W: ?Sized + Write>(&mut self, out: &mut W, fragment: &str) -> io::Result<()> {
        let document = Document::parse(fragment.as_bytes().to_vec()).map_err(io::Error::other)?;
        let mut writer = JsWriter::new(JsonStyle::Pretty, self.depth);
        writer.node(document.root());
        out.write_all(&writer.finish())
    }
}
