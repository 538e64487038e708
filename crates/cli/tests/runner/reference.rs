//! docs/cli.md is what `--help` prints.

use std::fmt::Write;

use super::kit::plain;

#[test]
fn the_reference_is_generated_from_the_help() {
    let root = annals_testkit::workspace();
    let help = |arguments: &[&str]| plain(&root, arguments).env("COLUMNS", "100").run().ok().text();
    let top = help(&["--help"]);
    let mut page = String::from(
        "# Command line\n\nGenerated from `--help` by the tests of `crates/cli`; \
         `UPDATE_DOCS=1 cargo test -p annals-cli reference` rewrites it.\n",
    );
    let _ = write!(page, "\n## annals\n\n```text\n{}\n```\n", top.trim_end());
    for command in commands(&top) {
        let _ = write!(
            page,
            "\n## annals {command}\n\n```text\n{}\n```\n",
            help(&[command, "--help"]).trim_end()
        );
    }
    let path = root.join("docs/cli.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let stored = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        stored == page,
        "docs/cli.md is not what --help prints; run UPDATE_DOCS=1 cargo test -p annals-cli reference"
    );
}

/// The commands that the help lists, in its order.
fn commands(top: &str) -> Vec<&str> {
    let listed = top.split("Global options:").next().unwrap();
    let rows = listed.lines().filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next());
    rows.filter(|name| *name != "help").collect()
}

/// What is the same for all commands is said once.
#[test]
fn global_options_are_listed_once() {
    let root = annals_testkit::workspace();
    let page = std::fs::read_to_string(root.join("docs/cli.md")).unwrap();
    assert_eq!(page.matches("--no-pager").count(), 1);
    // They work with every command nevertheless, and `help` is a command.
    let listed = plain(&root, &["help", "list"]).run().ok().text();
    assert_eq!(listed, plain(&root, &["list", "--help"]).run().ok().text());
    assert!(listed.contains("`annals --help`") && !listed.contains("--no-pager"), "{listed}");
}

#[test]
fn every_command_has_an_example() {
    let root = annals_testkit::workspace();
    let top = plain(&root, &["--help"]).run().ok().text();
    for command in commands(&top) {
        let help = plain(&root, &[command, "--help"]).run().ok().text();
        assert!(help.contains("Examples:\n  annals "), "{command}");
    }
}

#[test]
fn completions_and_manual_pages_can_be_made() {
    let dir = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        assert!(plain(dir.path(), &["completions", shell]).run().ok().text().contains("annals"));
    }
    assert!(plain(dir.path(), &["man"]).run().ok().text().contains(".TH annals 1"));
    let _ = plain(dir.path(), &["man", "--out", "share/man/man1"]).run().ok();
    assert!(dir.path().join("share/man/man1/annals-export.1").is_file());
}

#[test]
fn every_kind_of_problem_is_documented() {
    let root = annals_testkit::workspace();
    let source = std::fs::read_to_string(root.join("crates/store/src/problem.rs")).unwrap();
    let kinds = source.split("impl ProblemKind").nth(1).unwrap();
    let names = kinds.split("pub fn name(self)").nth(1).unwrap().split("pub fn repair").next().unwrap();
    let names: Vec<&str> = names.split('"').skip(1).step_by(2).collect();
    assert!(names.len() > 18, "{names:?}");
    let docs = std::fs::read_to_string(root.join("docs/json.md")).unwrap();
    for name in names {
        assert!(docs.contains(&format!("`{name}`")), "docs/json.md does not name {name}");
    }
}
