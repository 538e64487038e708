//! Titles that nobody expects, and more sessions than anybody expects.

use rusqlite::Connection;
use unicode_width::UnicodeWidthStr;

use super::kit::{AnnalsCommand, User, write};

/// Titles, each with a piece that finds it.
fn titles() -> Vec<(String, &'static str)> {
    vec![
        (format!("Very long {}", "title ".repeat(170_000)), "very long"),
        ("One\nTwo\r\n\tThree".to_owned(), "two"),
        ("\u{1b}[2J\u{1b}]0;owned\u{7}escaped".to_owned(), "escaped"),
        ("שלום \u{202e}gnihton\u{202c} مرحبا".to_owned(), "שלום"),
        ("zero\u{200b}width\u{feff}".to_owned(), "zero"),
        ("👩‍👩‍👧‍👦 family 漢字かな".to_owned(), "漢字"),
        (String::new(), ""),
        ("   ".to_owned(), ""),
        ("'; rm -rf ~ #$(touch x)`touch y`".to_owned(), "rm -rf"),
        ("--help".to_owned(), ""),
    ]
}

fn user() -> User {
    let user = User::new();
    for (n, (title, _)) in titles().iter().enumerate() {
        let id = format!("36{n:02}aaffe1");
        user.write_session(&id, "placeholder", "What is in the cart?", "Nothing.");
        let session = serde_json::json!({
            "id": format!("ses_{id}"), "projectID": "global", "directory": "/home/dev", "title": title, "version": "1.1.65",
            "time": {"created": 1_771_950_000_000_i64, "updated": 1_771_950_000_000_i64 + n as i64},
        });
        write(&user.opencode(), &format!("storage/session/global/ses_{id}.json"), session.to_string());
    }
    user
}

fn narrow(command: AnnalsCommand, width: usize) -> AnnalsCommand {
    command.env("COLUMNS", width.to_string()).env("LC_ALL", "C.UTF-8")
}

#[test]
fn ugly_titles_are_shown_on_a_line_each() {
    let user = user();
    for width in [40, 80, 120] {
        let listed = narrow(user.annals(&["list"]), width).run().ok().text();
        assert_eq!(listed.lines().count(), 1 + titles().len(), "{listed}");
        for line in listed.lines() {
            assert!(line.width() <= width, "{width}: {} {line}", line.width());
            assert!(!line.chars().any(|c| c.is_control() || c == '\u{202e}' || c == '\u{200b}'), "{line:?}");
        }
    }
    for command in [
        &["list"][..],
        &[],
        &["stats", "--by", "session"],
        &["check"],
        &["housekeeping"],
        &["log", "--revisions"],
    ] {
        let ran = narrow(user.annals(command), 80).run();
        assert!(ran.code == 0 || ran.code == 3, "{ran}");
        let shown = ran.text() + &ran.stderr;
        assert!(!shown.contains(['\u{1b}', '\u{7}', '\u{202e}', '\u{200b}']), "{command:?}\n{shown}");
    }
    // A pipe gets whole titles, still a line each.
    let piped = user.annals(&["list"]).run().ok().text();
    assert_eq!(piped.lines().count(), 1 + titles().len());
    assert!(piped.lines().any(|line| line.len() > 1_000_000));
}

#[test]
fn ugly_titles_find_their_sessions_and_come_out_as_they_are() {
    let user = user();
    for (n, (title, piece)) in titles().iter().enumerate() {
        let id = format!("ses_36{n:02}aaffe1");
        if !piece.is_empty() {
            let shown = narrow(user.annals(&["show", piece]), 80).run().ok();
            assert!(shown.text().contains(&id), "{piece}");
        }
        let exported = user.annals(&["export", &id]).run().ok().json();
        assert_eq!(exported["info"]["title"].as_str().unwrap(), title);
        // The name of the file never leaves the directory, and its line can be run as it is shown.
        let resume =
            user.annals(&["resume", &id, "--print", "--dir", user.root().to_str().unwrap()]).run().ok();
        assert!(resume.text().trim_end().ends_with(&format!("opencode --session {id}")), "{resume}");
        let renamed = user.annals(&["rename", &id, "plain"]).run().ok();
        assert!(!renamed.stderr.contains('\u{1b}'), "{renamed}");
        let _ = user.annals(&["undo"]).run().ok();
        let again = user.annals(&["export", &id]).run().ok().json();
        assert_eq!(again["info"]["title"].as_str().unwrap(), title);
    }
    let hits = user.annals(&["search", "owned", "--json"]).run().ok().json();
    assert!(!hits.as_array().unwrap().is_empty());
}

/// 20,000 sessions, or `ANNALS_MANY_SESSIONS`.
#[test]
fn many_sessions_are_listed_and_completed() {
    let user = User::with("opencode-1.18.33");
    let n_sessions = std::env::var("ANNALS_MANY_SESSIONS").map_or(20_000, |n| n.parse::<usize>().unwrap());
    let database = Connection::open(user.opencode().join("opencode.db")).unwrap();
    database
        .execute_batch(&format!(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {n_sessions})
             INSERT INTO session (id, project_id, slug, directory, title, version, time_created, time_updated)
             SELECT printf('ses_e%08xffeAAAAAAAAAAAAAA', i), (SELECT id FROM project LIMIT 1), 'slug-' || i, '/home/dev', 'Many ' || i, '1.18.33',
                    1791900000000 + i, 1791900000000 + i FROM n",
        ))
        .unwrap();
    drop(database);
    let now = "1792000000000";
    let later = |arguments: &[&str]| user.annals(arguments).env("ANNALS_NOW", now);
    let listed = later(&["list", "-n", "3"]).run().ok();
    assert!(listed.stderr.contains(&format!("3 of {},", n_sessions / 1000)), "{listed}");
    assert_eq!(later(&["list", "--title", "many 19999"]).run().ok().text().lines().count(), 2);
    assert!(later(&[]).run().ok().text().contains(&format!("{},", n_sessions / 1000)));
    let completed =
        later(&["--", "annals", "show", "many 12345"]).env("ANNALS_COMPLETE", "fish").run().ok().text();
    assert!(completed.contains("Many 12345"), "{completed}");
    assert_eq!(completed.lines().count(), 1, "{completed}");
}
