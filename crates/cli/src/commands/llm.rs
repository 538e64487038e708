//! `annals llm`

use std::io::Write;

use annals::home::SessionRecord;
use annals::llm::{self, ModelName, RequestError, RequestOptions};
use annals::model::Usage;
use annals::model::json::Style;
use annals::model::llm::context::{ContentKind, ContextSizes, KindSize, estimate};
use annals::model::llm::{Format, Modalities, Reminders, Request, Rules, Sdk};
use annals::sync::Stage;
use annals::wire;

use crate::context::Context;
use crate::error::{CliError, CommandResult, report_quarantine};
use crate::output::{Output, Painter};
use crate::table::{Table, left, right};
use crate::text::{count, cut, grouped, one_line, short_number};

/// Show the messages that a model gets for a session
///
/// Turns the stored history into the messages of a request, as OpenCode does: compactions applied, failed answers left out, tool
/// results behind their calls, each SDK's own changes made. In a pipe or with `--json` it prints them as a JSON array. The system
/// prompt, tools and options are not stored, and not printed.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  annals llm last                                  the next request, in short
  annals llm last --format openai --json           as chat completions
  annals llm last --until msg_c90735466001         the request that this answer was the answer to
  annals llm last --format anthropic --model anthropic/claude-sonnet-4-5
  annals llm last --context                        what fills the context")]
pub(crate) struct LlmArgs {
    /// Session: an id, the beginning of one, `last`, or a piece of the title
    session: String,
    /// An answer: the request that it was the answer to. A prompt: the history up to and including it. By id or the beginning
    /// of one
    #[arg(long, value_name = "MESSAGE")]
    until: Option<String>,
    /// Form of the messages: model messages or UI messages of the AI SDK, or the JSON of OpenAI's chat completions, Anthropic's
    /// messages, OpenAI's responses
    #[arg(long, value_name = "FORMAT", default_value = "ai-sdk", value_parser = FORMATS)]
    format: String,
    /// Follow the rules of this release of OpenCode instead of the one that made the session
    #[arg(long, value_name = "VERSION")]
    like: Option<String>,
    /// For this model, as PROVIDER/MODEL, instead of the one that answered or was prompted last
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// SDK through which the model is asked: `openai-compatible`, `anthropic`, `openai`, `google`, … Follows the format or the
    /// provider, unless given
    #[arg(long, value_name = "SDK")]
    sdk: Option<String>,
    /// What the model can read: any of text, image, pdf, audio, video. Everything, unless given
    #[arg(long, value_name = "LIST")]
    input: Option<String>,
    /// Member beside an answer's text under which the model wants its reasoning back, such as `reasoning_content`
    #[arg(long, value_name = "FIELD")]
    interleaved: Option<String>,
    /// Add the reminders of the agents `plan` and `build`, which OpenCode sends and does not store
    #[arg(long)]
    reminders: bool,
    /// Tokens that a compaction keeps, if OpenCode's configuration sets them (`compaction.preserve_recent_tokens`)
    #[arg(long, value_name = "N")]
    tail_tokens: Option<usize>,
    /// Show what fills the context: tokens of each message and kind of part
    #[arg(long)]
    context: bool,
}

const FORMATS: [&str; 5] = ["ai-sdk", "ui", "openai", "anthropic", "responses"];

pub(crate) fn run(context: &Context, args: &LlmArgs) -> CommandResult {
    let format: Format = args.format.parse().map_err(CliError::usage)?;
    let options = args.options(format)?;
    let homes = context.open(Stage::Parts)?;
    let home = homes.read();
    let session = context.session(&home, &args.session)?;
    let found = llm::request(&home, &session, &options).map_err(explained)?;
    let request = found.value;
    let mut output = if context.json { context.plain_output() } else { context.paged_output() };
    if args.context {
        if context.json {
            output.json(&wire::LlmContext::of(&session, &request))?;
        } else {
            print_context(&mut output, &session, &request)?;
        }
    } else if context.json || !output.is_terminal {
        let json = request.json(format, Style::Pretty).map_err(|refused| {
            CliError::new(refused).hint("`--format ai-sdk` shows the messages before the SDK gets them")
        })?;
        output.json_text(&json)?;
        output.write_all(b"\n")?;
    } else {
        print_messages(&mut output, &session, &request)?;
    }
    output.finish()?;
    Ok(report_quarantine(&found.quarantined, context.stderr_paint()))
}

impl LlmArgs {
    fn options(&self, format: Format) -> Result<RequestOptions, CliError> {
        let rules = self.like.as_deref().map(Rules::of_version).transpose().map_err(|error| {
            CliError::usage(error).hint(
                "give a release such as 1.18.33, 1.2.27, 1.1.65 or 1.0.185; others get the nearest rules",
            )
        })?;
        let model = match &self.model {
            Some(name) => Some(ModelName::parse(name).ok_or_else(|| {
                CliError::usage(format!("{name:?} is not a model"))
                    .hint("give PROVIDER/MODEL, such as anthropic/claude-sonnet-4-5")
            })?),
            None => None,
        };
        let sdk: Option<Sdk> = self.sdk.as_deref().map(str::parse).transpose().map_err(|error| {
            let names: Vec<&str> = Sdk::ALL.iter().map(|sdk| sdk.name()).collect();
            CliError::usage(error).hint(format!("use one of {}", names.join(", ")))
        })?;
        let input: Option<Modalities> =
            self.input.as_deref().map(str::parse).transpose().map_err(CliError::usage)?;
        let defaults = RequestOptions::of(format);
        Ok(RequestOptions {
            until: self.until.clone(),
            rules,
            model,
            sdk: sdk.or(defaults.sdk),
            input: input.unwrap_or(defaults.input),
            interleaved: self.interleaved.clone(),
            reminders: if self.reminders { Reminders::PlanAndBuild } else { Reminders::None },
            tail_tokens: self.tail_tokens,
        })
    }
}

/// Why there is no request, and what to do.
fn explained(error: RequestError) -> CliError {
    let mut message = CliError::new(one_line(&error.to_string()));
    match error {
        RequestError::Read(error) => error.into(),
        RequestError::NoMessage { session, .. } => {
            message.hint(format!("`annals show {session} --json` lists the messages with their ids"))
        }
        RequestError::OtherSession { owner, message: id, .. } => {
            message.hint(format!("`annals llm {owner} --until {id}`"))
        }
        RequestError::Ambiguous { candidates, .. } => {
            const SHOWN: usize = 10;
            message.details = candidates.iter().take(SHOWN).map(|id| one_line(id)).collect();
            if candidates.len() > SHOWN {
                message.details.push(format!("… and {} more", candidates.len() - SHOWN));
            }
            message.hint("give more of the id")
        }
        RequestError::NoModel { .. } => message.hint("name one with `--model PROVIDER/MODEL`"),
        _ => message,
    }
}

/// The kinds of a message's parts, such as `reasoning, 2 calls`.
fn kinds_in_words(kinds: &[KindSize]) -> String {
    let word = |size: &KindSize| match (size.kind, size.parts) {
        (ContentKind::Prompt | ContentKind::Answer, 1) => "text".to_owned(),
        (ContentKind::Prompt | ContentKind::Answer, n) => count(n, "text"),
        (kind, 1) => kind.name().to_owned(),
        (ContentKind::Reasoning, n) => format!("{n} thoughts"),
        (kind, n) => count(n, kind.name()),
    };
    kinds.iter().map(word).collect::<Vec<_>>().join(", ")
}

fn tokens(n: usize) -> String {
    short_number(n as f64)
}

/// What a request is: its session, its rules, its model.
fn print_heading(output: &mut Output, session: &SessionRecord, request: &Request) -> std::io::Result<()> {
    let paint = output.paint;
    let (target, rules) = (request.target(), request.rules());
    let model = one_line(&format!("{}/{}", target.provider, target.model));
    let asked = match request.answer() {
        Some(answer) => format!("answered by {}", one_line(&answer.id())),
        None => "not sent yet".to_owned(),
    };
    let width = output.width;
    output.line(paint.bold(cut(&one_line(session.info.title()), width)))?;
    output.line(
        paint.dim(cut(&format!("{model} through {}, as OpenCode {rules}, {asked}", target.sdk), width)),
    )?;
    output.line("")
}

/// A narrower screen has room for the most important columns only.
const WIDE: usize = 60;

/// The messages in short.
fn print_messages(output: &mut Output, session: &SessionRecord, request: &Request) -> std::io::Result<()> {
    print_heading(output, session, request)?;
    let (paint, width) = (output.paint, output.width);
    let context = request.context();
    let role = || left("role", 9).style(Painter::agent);
    let wide = Table::new(paint, [role(), left("parts", 22), right("tokens", 7)]);
    let narrow = Table::new(paint, [role(), right("tokens", 7)]);
    match width >= WIDE {
        true => wide.header(output, "begins")?,
        false => narrow.header(output, "begins")?,
    }
    for message in &context.messages {
        let (role, size, start) = (message.role.name(), tokens(message.estimated), one_line(&message.start));
        let line = match width >= WIDE {
            true => wide.row([role, &kinds_in_words(&message.kinds), &size], cut(&start, wide.room(width))),
            false => narrow.row([role, &size], cut(&start, narrow.room(width))),
        };
        output.line(line)?;
    }
    output.line("")?;
    let total = format!(
        "{}, about {} tokens; `--json` prints them",
        count(request.model_messages().len(), "message"),
        grouped(context.estimated)
    );
    output.line(paint.dim(cut(&total, width)))
}

/// What fills the context, by kind and by message.
fn print_context(output: &mut Output, session: &SessionRecord, request: &Request) -> std::io::Result<()> {
    print_heading(output, session, request)?;
    let context = request.context();
    let paint = output.paint;
    let all: usize = context.kinds.iter().map(|size| size.units).sum();
    let table =
        Table::new(paint, [left("kind", 10), right("parts", 7), right("tokens", 9), right("share", 6)]);
    table.header(output, "")?;
    for size in &context.kinds {
        let share = format!("{:.0} %", size.units as f64 * 100.0 / all.max(1) as f64);
        let parts = grouped(size.parts);
        let cells = [size.kind.name().to_owned(), parts, grouped(size.estimated()), share];
        output.line(table.row(cells, ""))?;
    }
    output.line("")?;
    print_message_sizes(output, &context)?;
    output.line("")?;
    let around = context.estimated.saturating_sub(estimate(all));
    let total = format!(
        "about {} tokens: {} in parts, {} around them",
        grouped(context.estimated),
        grouped(estimate(all)),
        grouped(around)
    );
    output.line(paint.bold(cut(&total, output.width)))?;
    if let Some(recorded) = &context.recorded {
        let usage = recorded.usage;
        let line = format!(
            "recorded for {}: {} tokens sent, system prompt and tools included ({} cached), {} received",
            one_line(&recorded.answer),
            grouped(sent_tokens(&usage) as usize),
            grouped(usage.cache_read as usize),
            grouped(usage.output as usize)
        );
        for line in crate::text::wrap(&line, output.width) {
            output.line(line)?;
        }
    }
    Ok(())
}

fn print_message_sizes(output: &mut Output, context: &ContextSizes) -> std::io::Result<()> {
    let (paint, width) = (output.paint, output.width);
    let id = || left("message", ID_LENGTH).style(Painter::id);
    let numbers = || [right("tokens", 7), right("sent", 7), right("received", 8)];
    let [size, sent, received] = numbers();
    let wide = Table::new(paint, [id(), left("role", 9).style(Painter::agent), size, sent, received]);
    let narrow = Table::new(paint, [id(), right("tokens", 7)]);
    match width >= WIDE {
        true => wide.header(output, "parts")?,
        false => narrow.header(output, "parts")?,
    }
    for message in &context.messages {
        let id = one_line(&message.id);
        let id = id.get(..ID_LENGTH).unwrap_or(&id);
        let (size, kinds) = (tokens(message.estimated), kinds_in_words(&message.kinds));
        let sent = message.recorded.map(|usage| short_number(sent_tokens(&usage))).unwrap_or_default();
        let received = message.recorded.map(|usage| short_number(usage.output)).unwrap_or_default();
        let line = match width >= WIDE {
            true => {
                wide.row([id, message.role.name(), &size, &sent, &received], cut(&kinds, wide.room(width)))
            }
            false => narrow.row([id, &size], cut(&kinds, narrow.room(width))),
        };
        output.line(line)?;
    }
    Ok(())
}

/// So much of a message's id is almost always unique in its session, and `--until` takes it.
const ID_LENGTH: usize = 16;

/// Tokens of a request: those that were cached are among them.
fn sent_tokens(usage: &Usage) -> f64 {
    usage.input + usage.cache_read + usage.cache_write
}
