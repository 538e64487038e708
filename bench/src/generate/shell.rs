//! Shell commands as agents run them, with logs, listings and test runs as their output.

use jiff::Timestamp;

use super::rng::Rng;
use super::text::Author;
use super::words::Form;
use super::workspace::Workspace;

/// One command and its result.
#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) line: String,
    pub(crate) description: String,
    pub(crate) output: String,
    pub(crate) exit: u64,
    pub(crate) millis: u64,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Tests,
    Log,
    History,
    Listing,
    Search,
    Quick,
}

const KINDS: [(u64, Kind); 6] = [
    (25, Kind::Tests),
    (17, Kind::Log),
    (12, Kind::History),
    (12, Kind::Listing),
    (14, Kind::Search),
    (20, Kind::Quick),
];

pub(crate) fn run(rng: &mut Rng, author: &Author<'_>, workspace: &mut Workspace<'_>, now: u64) -> Command {
    let kind = rng.weighted(&KINDS);
    let exit = u64::from(rng.chance(0.12));
    let n_lines = rng.size(8.5, 1.25, 1, 1200);
    let (line, output) = match kind {
        Kind::Tests => tests(rng, author, n_lines, exit),
        Kind::Log => log(rng, author, n_lines * 2, now),
        Kind::History => history(rng, author, n_lines),
        Kind::Listing => listing(rng, author, n_lines),
        Kind::Search => search(rng, workspace, n_lines),
        Kind::Quick => (format!("mkdir -p {} && echo done", author.words.path(rng)), "done\n".to_owned()),
    };
    Command {
        line,
        description: author.title(rng),
        output,
        exit,
        millis: rng.size(900.0, 1.5, 4, 120_000) as u64,
    }
}

fn tests(rng: &mut Rng, author: &Author<'_>, n_lines: usize, exit: u64) -> (String, String) {
    let module = author.words.plain(rng);
    let mut output = format!("running {n_lines} tests\n");
    for nth in 0..n_lines {
        let failed = exit == 1 && nth % 7 == 3;
        let name = author.words.rare(Form::Snake, rng);
        output.push_str(&format!("test {module}::{name} ... {}\n", if failed { "FAILED" } else { "ok" }));
        if failed {
            let (path, line) = (author.words.path(rng), rng.between(1, 900));
            output.push_str(&format!(
                "  thread '{name}' panicked at {path}:{line}:{}:\n  ",
                rng.between(5, 60)
            ));
            author.sentence(rng, &mut output);
            output.push('\n');
        }
    }
    let n_failed = if exit == 1 { n_lines.div_ceil(7) } else { 0 };
    let verdict = if exit == 1 { "FAILED" } else { "ok" };
    output.push_str(&format!(
        "\ntest result: {verdict}. {} passed; {n_failed} failed; finished in 0.{:02}s\n",
        n_lines - n_failed,
        rng.below(100)
    ));
    (format!("cargo test -p {module} 2>&1 | tail -{}", n_lines + 5), output)
}

fn log(rng: &mut Rng, author: &Author<'_>, n_lines: usize, now: u64) -> (String, String) {
    let modules: Vec<&str> = (0..6).map(|_| author.words.rare(Form::Plain, rng)).collect();
    let fields: Vec<&str> = (0..5).map(|_| author.words.rare(Form::Snake, rng)).collect();
    let messages: Vec<String> = (0..8).map(|_| author.phrase(rng, 5)).collect();
    let mut millis = now - 60_000;
    let mut output = String::new();
    for _ in 0..n_lines {
        millis += rng.below(400);
        let level = rng.weighted(&[(70, "INFO "), (20, "DEBUG"), (7, "WARN "), (3, "ERROR")]);
        let message = if rng.chance(0.8) { &messages[rng.index(8)] } else { &author.phrase(rng, 6) };
        output.push_str(&format!(
            "{} {level} {}: {message} {}={} {}={}\n",
            iso(millis),
            rng.pick(&modules),
            rng.pick(&fields),
            rng.below(1000),
            rng.pick(&fields),
            rng.hex(6),
        ));
    }
    (format!("tail -n {n_lines} log/{}.log", modules[0]), output)
}

fn history(rng: &mut Rng, author: &Author<'_>, n_lines: usize) -> (String, String) {
    let mut output = String::new();
    for _ in 0..n_lines {
        output.push_str(&format!("{} {}: {}\n", rng.hex(7), author.words.plain(rng), author.title(rng)));
    }
    (format!("git log --oneline -{n_lines}"), output)
}

fn listing(rng: &mut Rng, author: &Author<'_>, n_lines: usize) -> (String, String) {
    let mut output = format!("total {}\n", n_lines * 8);
    for _ in 0..n_lines {
        let (size, day) = (rng.size(4000.0, 1.5, 1, 9_999_999), rng.between(1, 28));
        let name = author.words.snake(rng);
        output.push_str(&format!(
            "-rw-r--r-- 1 dev dev {size:>8} Jan {day:>2} 09:{:02} {name}.rs\n",
            rng.below(60)
        ));
    }
    (format!("ls -la {}", author.words.plain(rng)), output)
}

fn search(rng: &mut Rng, workspace: &mut Workspace<'_>, n_lines: usize) -> (String, String) {
    let (needle, matches) = workspace.search(rng, n_lines);
    let mut output = String::new();
    for (path, number, line) in matches {
        output.push_str(&format!("{path}:{number}:{line}\n"));
    }
    (format!("rg -n {needle} ."), output)
}

pub(crate) fn iso(millis: u64) -> String {
    let timestamp = Timestamp::from_millisecond(millis as i64).expect("a time of this century");
    format!("{timestamp:.3}")
}
