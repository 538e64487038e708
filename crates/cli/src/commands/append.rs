//! `annals append`

use std::collections::HashMap;
use std::io::{BufRead, Read, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use annals::model::id::SessionId;
use annals::turn::event::EventParseError;
use annals::turn::{AppliedEvent, EventError, EventWriter, TurnEvent, TurnOptions};
use annals::wire;

use crate::context::Context;
use crate::error::{CliError, CommandResult, Outcome};
use crate::output::Output;
use crate::text::count;

/// Write turns of an agent: events on standard input, a JSON object a line
///
/// Every line is acknowledged on standard output when it is stored; `annals help events` describes events and acknowledgements. Sessions
/// go to the home that `--home` names, or to your home that holds SESSION, or to your store. A turn that is open when the input
/// ends is aborted. Exit codes: 0 all lines were stored, 1 the stream broke off inside a turn or was not JSON, 3 lines were refused.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  annals append < events.jsonl                       the events create their sessions
  my-agent | annals append last
  my-agent | annals append --home ~/.local/share/opencode")]
pub(crate) struct AppendArgs {
    /// Session of events that name none; without it the first one that the events create
    session: Option<String>,
    /// Longest time for which pieces of text are collected before they are stored, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    flush_every: u64,
}

/// Upper bound on the length of a line. A document may be as long.
const MAX_LINE: u64 = 256 << 20;
/// Lines that are read ahead.
const READ_AHEAD: usize = 64;
/// How long the main loop waits if nothing is due.
const IDLE: Duration = Duration::from_secs(3600);

/// Something that happened to the stream.
enum Input {
    Line(Vec<u8>),
    /// The line is longer than allowed.
    TooLong,
    Failed(std::io::Error),
    End,
    /// The user or the system wants the command to end.
    Signal,
}

pub(crate) fn run(context: &Context, args: &AppendArgs) -> CommandResult {
    let home = context.agent_home(args.session.as_deref())?;
    context.note(&format!("writing to {}", home.store.home().url()));
    let options =
        TurnOptions { flush_every: Duration::from_millis(args.flush_every), ..TurnOptions::default() };
    let writer = EventWriter::new(home.store, home.session, context.current_dir.clone(), &options);
    let (sender, receiver) = sync_channel(READ_AHEAD);
    watch_signals(&sender);
    std::thread::Builder::new()
        .name("annals-lines".to_owned())
        .spawn(move || read_lines(&sender))
        .map_err(|error| CliError::new(format!("cannot start a thread: {error}")))?;
    let mut stream =
        Stream { writer, output: context.plain_output(), n_lines: 0, n_refused: 0, pending: HashMap::new() };
    let ended = stream.run(&receiver);
    let closed = stream.close();
    match (ended?, closed?) {
        (Some(error), _) | (None, Some(error)) => Err(error),
        (None, None) if stream.n_refused > 0 => {
            context.warn(&format!("{} refused", count(stream.n_refused, "line")));
            Ok(Outcome::WithProblems)
        }
        (None, None) => Ok(Outcome::Done),
    }
}

/// A stream of events that is being written.
struct Stream {
    writer: EventWriter,
    output: Output,
    n_lines: usize,
    n_refused: usize,
    /// Pieces of text that are not acknowledged yet: how many in each session, and the line of the last one.
    pending: HashMap<SessionId, (usize, usize)>,
}

impl Stream {
    /// Writes events until the stream ends. Returns why it broke off, if it did.
    fn run(&mut self, input: &Receiver<Input>) -> Result<Option<CliError>, CliError> {
        loop {
            let now = Instant::now();
            let wait = self.writer.due().map_or(IDLE, |due| due.saturating_duration_since(now));
            let received = match wait.is_zero() {
                true => Err(RecvTimeoutError::Timeout),
                false => input.recv_timeout(wait),
            };
            match received {
                Err(RecvTimeoutError::Timeout) => self.flush()?,
                Ok(Input::Line(line)) => {
                    self.n_lines += 1;
                    if let Some(error) = self.line(&line)? {
                        return Ok(Some(error));
                    }
                }
                Ok(Input::TooLong) => {
                    let message = format!("line {} is longer than 256 MB", self.n_lines + 1);
                    return Ok(Some(CliError::new(message)));
                }
                Ok(Input::Failed(error)) => {
                    return Ok(Some(CliError::new(format!("cannot read standard input: {error}"))));
                }
                Ok(Input::Signal) => return Ok(Some(CliError::new("interrupted"))),
                Ok(Input::End) | Err(RecvTimeoutError::Disconnected) => return Ok(None),
            }
        }
    }

    /// Carries out one line. Returns why the stream cannot go on, if it cannot.
    fn line(&mut self, line: &[u8]) -> Result<Option<CliError>, CliError> {
        let line = line.trim_ascii();
        if line.is_empty() {
            return Ok(None);
        }
        let parsed = TurnEvent::parse(line).map_err(EventError::from);
        match parsed.and_then(|event| self.writer.apply(&event)) {
            Ok(AppliedEvent { session: Some(session), is_pending: true, .. }) => {
                let pending = self.pending.entry(session).or_default();
                *pending = (pending.0 + 1, self.n_lines);
                Ok(None)
            }
            Ok(applied) => {
                // The acknowledgement says that all pieces before it are stored.
                if let Some(session) = &applied.session {
                    self.pending.remove(session);
                }
                self.say(&wire::Acknowledgement::of(self.n_lines, &applied))?;
                Ok(None)
            }
            Err(error) => {
                self.n_refused += 1;
                self.say(&wire::RefusedLine::of(self.n_lines, &error))?;
                match error {
                    // What the line was to say, and what depends on it, is not known.
                    EventError::Parse(EventParseError::NotJson(_)) => {
                        let message = format!("line {} {error}", self.n_lines);
                        Ok(Some(CliError::new(message.replace(" it is not JSON", " is not JSON"))))
                    }
                    _ => Ok(None),
                }
            }
        }
    }

    /// Stores the pieces of text whose time has come, and acknowledges them.
    fn flush(&mut self) -> Result<(), CliError> {
        for (session, stored) in self.writer.flush() {
            let (n_deltas, line) = self.pending.get(&session).copied().unwrap_or((0, self.n_lines));
            match stored {
                Ok(()) => {
                    self.pending.remove(&session);
                    self.say(&wire::Acknowledgement::of_deltas(line, &session, n_deltas))?;
                }
                Err(error) => {
                    self.n_refused += 1;
                    self.say(&wire::RefusedLine::of(line, &error.into()))?;
                }
            }
        }
        Ok(())
    }

    /// Aborts the turns that are open, and says so. Returns an error if there were any.
    fn close(&mut self) -> Result<Option<CliError>, CliError> {
        let (mut aborted, mut left) = (Vec::new(), Vec::new());
        let mut failure = None;
        for (session, closed) in self.writer.abort() {
            match closed {
                Ok(()) => aborted.push(session.to_string()),
                Err(error) => {
                    failure = Some(error);
                    left.push(session.to_string());
                }
            }
        }
        if aborted.is_empty() && left.is_empty() {
            return Ok(None);
        }
        let n_open = aborted.len() + left.len();
        self.say(&wire::AbortedTurns { lines: self.n_lines, aborted, left })?;
        let ended = format!("the input ended inside {}", count(n_open, "turn"));
        Ok(Some(match failure {
            None => CliError::new(format!("{ended}, now aborted")),
            Some(error) => CliError::new(format!("{ended}, which could not be closed: {error}"))
                .hint("what was acknowledged is stored; `annals check --fix` closes the turn"),
        }))
    }

    fn say(&mut self, message: &impl serde::Serialize) -> Result<(), CliError> {
        let mut text = serde_json::to_vec(message).map_err(std::io::Error::other)?;
        text.push(b'\n');
        let said = self.output.json_text(&text).and_then(|()| self.output.flush());
        said.map_err(|error| match error.kind() {
            // A stream that nobody reads would otherwise end as quietly as a list in a pipe.
            std::io::ErrorKind::BrokenPipe => CliError::new(format!(
                "nobody reads the acknowledgements any more; lines after line {} were not stored",
                self.n_lines
            )),
            _ => error.into(),
        })
    }
}

/// Reads lines until the input ends.
fn read_lines(sender: &SyncSender<Input>) {
    let mut stdin = std::io::stdin().lock();
    loop {
        let mut line = Vec::new();
        let read = stdin.by_ref().take(MAX_LINE + 1).read_until(b'\n', &mut line);
        let (input, is_last) = match read {
            Ok(0) => (Input::End, true),
            Ok(n) if n as u64 > MAX_LINE => (Input::TooLong, true),
            Ok(_) => (Input::Line(line), false),
            Err(error) => (Input::Failed(error), true),
        };
        if sender.send(input).is_err() || is_last {
            return;
        }
    }
}

/// Has a signal that would end the command end the stream, so that its turns are closed.
fn watch_signals(sender: &SyncSender<Input>) {
    #[cfg(unix)]
    {
        use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
        let sender = sender.clone();
        // Without the thread, the signal ends the process, and the next writer closes the turns.
        if let Ok(mut signals) = signal_hook::iterator::Signals::new([SIGHUP, SIGINT, SIGTERM]) {
            let _ = std::thread::Builder::new().name("annals-signals".to_owned()).spawn(move || {
                if signals.forever().next().is_some() {
                    let _ = sender.send(Input::Signal);
                }
            });
        }
    }
    #[cfg(not(unix))]
    let _ = sender;
}
