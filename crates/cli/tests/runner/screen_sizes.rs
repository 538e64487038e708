//! Each screen in terminals of 40, 80 and 120 columns, with and without colour, in a locale with symbols and in one without.
//!
//! What is seen without colour, what colour adds at 80 columns, and what a plain locale shows there are snapshots. That colour changes nothing but
//! colour, that a plain locale gets plain characters, and that nothing is wider than the terminal is checked at all sizes.

use std::fmt::Write;

use unicode_width::UnicodeWidthStr;

use super::kit::{NOW_OF_SAMPLE, User};

const WIDTHS: [usize; 3] = [40, 80, 120];

/// A user who has what `annals demo` shows.
fn user() -> User {
    let user = User::new();
    let home = user.opencode();
    let _ = user.annals(&["demo", "--dir", home.to_str().unwrap(), "--json"]).run().ok();
    let _ = std::fs::remove_dir_all(user.store().parent().unwrap());
    user
}

/// What a command shows: the output, and what it says beside it.
fn shown(user: &User, arguments: &[&str], width: usize, color: &str, locale: &str) -> String {
    let ran = user
        .annals(&[arguments, &["--color", color]].concat())
        .env("ANNALS_NOW", NOW_OF_SAMPLE)
        .env("COLUMNS", width.to_string())
        .env("LC_ALL", locale)
        .run();
    assert!(ran.code == 0 || ran.code == 3, "{ran}");
    let text = ran.to_string();
    text.split_once('\n').unwrap().1.to_owned()
}

/// Text without the sequences that colour it.
fn without_color(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("\x1b[") {
        plain.push_str(before);
        rest = after.split_once('m').expect("only colours are used").1;
    }
    plain + rest
}

/// Sizes of files depend on how commits fell.
fn without_sizes(text: &str) -> String {
    let mut lines = Vec::new();
    for line in text.lines() {
        let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        for n in 1..words.len() {
            if ["KB", "MB"].iter().any(|unit| words[n].starts_with(unit)) {
                let is_digit = |c: char| c.is_ascii_digit() || c == '.';
                let digits = words[n - 1].trim_end_matches(is_digit).len();
                // What stands before a colour's own number ends with its `m`.
                words[n - 1].replace_range(digits.., "N");
            }
        }
        lines.push(words.join(" "));
    }
    lines.join("\n")
}

/// What is read on a screen: colour shows what is code, and replaces the marks of Markdown around it.
fn read(screen: &str) -> String {
    let screen = without_sizes(&without_color(screen).replace('`', ""));
    screen.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

#[track_caller]
fn check(name: &str, user: &User, arguments: &[&str]) {
    let mut screens = String::new();
    for width in WIDTHS {
        let plain = shown(user, arguments, width, "never", "C.UTF-8");
        writeln!(screens, "== {width} columns\n{}", without_sizes(&plain)).unwrap();
        // The terminal breaks what is said on standard error.
        for line in plain.split("-- stderr").next().unwrap().lines() {
            // Paths and commands are shown whole: they are there to be copied.
            let is_whole = line.contains("HOME/") || line.contains("annals ") || line.contains("~/");
            assert!(line.width() <= width || is_whole, "{name} at {width}: {} columns\n{line}", line.width());
        }
        let colored = shown(user, arguments, width, "always", "C.UTF-8");
        assert_eq!(read(&colored), read(&plain), "{name} at {width}: colour changes more than colour");
        let ascii = shown(user, arguments, width, "never", "C");
        // What the user wrote stays as it is.
        let is_strange = |line: &&str| !line.replace(['🎉', '🐛', '📚', '€'], "").is_ascii();
        let strange: Vec<&str> = ascii.lines().filter(is_strange).collect();
        assert!(strange.is_empty(), "{name} at {width}: a plain locale shows {strange:?}");
        assert_eq!(ascii.lines().count(), plain.lines().count(), "{name} at {width}: other lines\n{ascii}");
        if width == 80 {
            let colored = without_sizes(&colored).replace('\x1b', "␛");
            writeln!(screens, "== {width} columns, coloured\n{colored}").unwrap();
            writeln!(screens, "== {width} columns, LC_ALL=C\n{}", without_sizes(&ascii)).unwrap();
        }
    }
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../screens");
    settings.set_prepend_module_to_snapshot(false);
    settings.bind(|| insta::assert_snapshot!(name, screens));
}

#[test]
fn screens_that_find_a_session() {
    let user = user();
    check("overview", &user, &[]);
    check("list", &user, &["list"]);
    check("list_all", &user, &["list", "--all"]);
    check("tree", &user, &["tree"]);
    check("projects", &user, &["projects"]);
    check("search", &user, &["search", "rounding", "-n", "4", "-C", "1"]);
}

#[test]
fn screens_of_one_session() {
    let user = user();
    check("show", &user, &["show", "coupon rules"]);
    check("show_failure", &user, &["show", "abandoned", "-n", "1"]);
    check("todo", &user, &["todo", "Coupon totals"]);
    check("files", &user, &["files", "Coupon totals"]);
    check("llm_context", &user, &["llm", "coupon rules", "--context"]);
}

#[test]
fn screens_that_measure() {
    let user = user();
    check("stats", &user, &["stats"]);
    check("stats_by_model", &user, &["stats", "--by", "model"]);
    check("stats_by_two", &user, &["stats", "--by", "week", "--by", "project"]);
    check("check", &user, &["check"]);
    check("housekeeping", &user, &["housekeeping"]);
}

#[test]
fn screens_of_what_was_done() {
    let user = user();
    for arguments in [
        &["rename", "coupon rules", "Rules for coupons, as support asked for them on Tuesday"][..],
        &["rm", "--yes", "release 0.4"],
        &["undo"],
    ] {
        let _ = user.annals(arguments).env("ANNALS_NOW", NOW_OF_SAMPLE).run().ok();
    }
    check("log", &user, &["log"]);
    check("log_revisions", &user, &["log", "--revisions"]);
}
