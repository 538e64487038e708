//! Every command in README.md and docs/ runs, and prints what is written there.
//!
//! A block ```` ```console ```` has commands behind `$ ` and what they print; a line `…` stands for any number of lines, and `…` at the end of a
//! line for the rest of it. A `?` in the place of the output is filled in with `UPDATE_DOCS=1`. A block ```` ```sh ```` has only commands, which
//! must succeed. A comment `<!-- setup: COMMAND -->` is run as well. The blocks of a page are run in order, by bash, as one user: `/home/me`, with
//! the sample that `annals demo` shows as OpenCode's home, in a repository `~/cart-service` that the sample's sessions belong to.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::kit::NOW_OF_SAMPLE;

/// Commands that build or test annals itself, or that belong to another machine.
const NOT_RUN: &[&str] = &[
    "cargo ",
    "scripts/",
    "TMPDIR=/dev/shm ",
    "ANNALS_",
    "annals-bench ",
    "target/release/annals-bench ",
    "/usr/bin/time ",
    "sqlite3 ",
    "zstd ",
    "npm ",
    "crontab ",
];

/// A command of a page, with what it prints.
struct Step {
    line: usize,
    command: String,
    /// Lines of output; `None` if only success counts.
    expected: Option<Vec<String>>,
}

fn steps(page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut language: Option<&str> = None;
    for (n, line) in page.lines().enumerate() {
        if let Some(command) = line.strip_prefix("<!-- setup: ").and_then(|rest| rest.strip_suffix(" -->")) {
            steps.push(Step { line: n + 1, command: command.to_owned(), expected: None });
            continue;
        }
        if let Some(fence) = line.trim_start().strip_prefix("```") {
            language = if language.is_some() { None } else { Some(fence.trim()) };
            continue;
        }
        match language {
            Some("console") => match (line.strip_prefix("$ "), steps.last_mut()) {
                (Some(command), _) => {
                    let expected = Some(Vec::new());
                    steps.push(Step { line: n + 1, command: command.to_owned(), expected });
                }
                (None, Some(Step { expected: Some(expected), command, .. })) => {
                    match line.strip_prefix("> ").filter(|_| expected.is_empty()) {
                        Some(more) => command.push_str(&format!("\n{more}")),
                        None => expected.push(line.to_owned()),
                    }
                }
                _ => panic!("line {}: output without a command", n + 1),
            },
            Some("sh") if !line.trim().is_empty() => match steps.last_mut() {
                // A command that goes on in the next line.
                Some(step)
                    if step.expected.is_none()
                        && (step.command.ends_with('\\') || step.command.matches('"').count() % 2 == 1) =>
                {
                    step.command.push_str(&format!("\n{line}"));
                }
                _ => steps.push(Step { line: n + 1, command: line.to_owned(), expected: None }),
            },
            _ => {}
        }
    }
    steps
}

/// The user that pages speak of.
struct Reader {
    root: tempfile::TempDir,
}

impl Reader {
    fn new() -> Reader {
        let root = tempfile::tempdir().unwrap();
        let reader = Reader { root };
        let bin = reader.root.path().join("bin");
        std::fs::create_dir_all(&bin).unwrap();
        std::fs::create_dir_all(reader.home().join("cart-service")).unwrap();
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_annals"), bin.join("annals")).unwrap();
        let (output, code) = reader.run("annals demo --dir ~/.local/share/opencode --json");
        assert_eq!(code, 0, "{output}");
        // The repository that most sessions of the sample belong to, where OpenCode would find its id.
        let id = "annals list --json | grep -m 1 -o '\"projectID\": \"[^\"]*\"' | cut -d'\"' -f4";
        let (output, code) = reader.run(&format!("git init -q . && printf %s $({id}) > .git/opencode"));
        assert_eq!(code, 0, "{output}");
        let _ = reader.run("rm -rf ~/.local/share/annals");
        reader
    }

    fn home(&self) -> PathBuf {
        self.root.path().join("me")
    }

    /// What a command prints, on both streams, and its exit code.
    fn run(&self, command: &str) -> (String, i32) {
        let path = std::env::var("PATH").unwrap_or_default();
        let output = Command::new("bash")
            .args(["-c", &format!("exec 2>&1\n{command}")])
            .env_clear()
            .env("PATH", format!("{}:{path}", self.root.path().join("bin").display()))
            .env("HOME", self.home())
            .env("TZ", "UTC")
            .env("LC_ALL", "C.UTF-8")
            .env("COLUMNS", "80")
            .env("USER", "me")
            .env("DOCS", annals_testkit::workspace().join("docs"))
            .env("ANNALS_NOW", NOW_OF_SAMPLE)
            // fzf without a terminal takes the best match.
            .env("FZF_DEFAULT_OPTS", "--filter=coupon")
            .current_dir(self.home().join("cart-service"))
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let home = self.home().display().to_string();
        (text.replace(&home, "/home/me"), output.status.code().unwrap_or(-1))
    }
}

/// Whether the output is what the page shows.
fn fits(expected: &[String], output: &[&str]) -> bool {
    let Some((first, rest)) = expected.split_first() else { return output.is_empty() };
    if first.trim() == "…" {
        return (0..=output.len()).any(|n| fits(rest, &output[n..]));
    }
    let Some((line, others)) = output.split_first() else { return false };
    let is_same = match first.strip_suffix('…') {
        Some(begin) => line.starts_with(begin) || line == first,
        None => line == first,
    };
    is_same && fits(rest, others)
}

fn check_page(path: &Path) -> usize {
    let mut page = std::fs::read_to_string(path).unwrap();
    let steps = steps(&page);
    if steps.is_empty() {
        return 0;
    }
    let reader = Reader::new();
    let mut n_run = 0;
    for step in steps {
        let first = step.command.trim_start();
        if NOT_RUN.iter().any(|begin| first.starts_with(begin)) {
            continue;
        }
        let (output, code) = reader.run(&step.command);
        let place = format!("{}:{}: {}", path.display(), step.line, step.command);
        n_run += 1;
        let Some(mut expected) = step.expected else {
            assert!(code == 0 || code == 3, "{place}\nexit {code}\n{output}");
            continue;
        };
        while expected.last().is_some_and(|line| line.trim().is_empty()) {
            expected.pop();
        }
        let output = output.trim_end();
        if expected == ["?"] && std::env::var_os("UPDATE_DOCS").is_some() {
            page = page.replacen("\n?\n", &format!("\n{output}\n"), 1);
            std::fs::write(path, &page).unwrap();
            continue;
        }
        let lines: Vec<&str> = output.lines().collect();
        // A page may show a command without what it prints; an error that is not shown is a mistake.
        let is_shown = !expected.is_empty();
        assert!(!is_shown || fits(&expected, &lines), "{place}\nprinted (exit {code}):\n{output}\n");
        let is_error = lines.iter().any(|line| line.starts_with("error:"));
        assert!(code == 0 || code == 3 || is_shown && is_error, "{place}\nexit {code}\n{output}");
    }
    n_run
}

#[test]
fn every_command_of_the_readme_and_the_docs_runs_as_shown() {
    let root = annals_testkit::workspace();
    let mut pages = vec![root.join("README.md")];
    let docs = std::fs::read_dir(root.join("docs")).unwrap();
    pages.extend(
        docs.map(|entry| entry.unwrap().path()).filter(|path| path.extension().is_some_and(|e| e == "md")),
    );
    pages.sort();
    let n_run: usize = pages.iter().map(|page| check_page(page)).sum();
    assert!(n_run > 40, "{n_run}");
}

/// Commands inside of sentences and tables have options that exist. Words in capitals stand for something of the reader's.
#[test]
fn every_command_in_a_sentence_can_be_given() {
    let root = annals_testkit::workspace();
    let reader = Reader::new();
    let mut n_checked = 0;
    for name in [
        "README.md",
        "docs/recipes.md",
        "docs/faq.md",
        "docs/rescue.md",
        "docs/glossary.md",
        "docs/privacy.md",
    ] {
        let page = std::fs::read_to_string(root.join(name)).unwrap();
        let mut in_block = false;
        for line in page.lines() {
            in_block ^= line.trim_start().starts_with("```");
            if in_block {
                continue;
            }
            for span in line.split('`').skip(1).step_by(2).filter(|span| span.starts_with("annals ")) {
                let command = span.split(['|', '>', ';']).next().unwrap().trim();
                // `N` stands for a number.
                let command = command.replace(" N", " 1");
                // `annals help` prints help already.
                let asks = if command.starts_with("annals help") { "" } else { " --help" };
                let (output, code) = reader.run(&format!("{command}{asks}"));
                assert_eq!(code, 0, "{name}: {span}\n{output}");
                n_checked += 1;
            }
        }
    }
    assert!(n_checked > 20, "{n_checked}");
}

#[test]
fn what_a_page_shows_is_compared_line_by_line() {
    let lines = |text: &str| -> Vec<String> { text.lines().map(str::to_owned).collect() };
    let check = |expected: &str, output: &str, is_fit: bool| {
        assert_eq!(
            fits(&lines(expected), &output.lines().collect::<Vec<_>>()),
            is_fit,
            "{expected:?} {output:?}"
        );
    };
    check("a\nb", "a\nb", true);
    check("a\nb", "a\nc", false);
    check("a\n…\nz", "a\nb\nc\nz", true);
    check("a\n…\nz", "a\nz", true);
    check("a\n…", "a", true);
    check("abc…", "abcdef", true);
    check("a\nb", "a", false);
}
