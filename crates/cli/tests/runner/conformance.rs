//! What annals prints of real homes is what the real OpenCode printed of them.

use std::collections::BTreeMap;

use annals_testkit::Fixture;
use serde_json::Value;

use super::kit::annals;

/// All homes that a version printed lists and exports of.
fn fixtures() -> impl Iterator<Item = &'static str> {
    Fixture::FLAT.into_iter().chain(Fixture::DATABASES)
}

#[test]
fn export_is_byte_for_byte_the_real_one() {
    let mut n_compared = 0;
    for name in fixtures() {
        let fixture = Fixture::unpack(name);
        for (id, expected) in fixture.exports() {
            let ours = annals(fixture.home(), &["export", &id]).run().ok();
            // An empty file is a refusal: OpenCode looks in the current repository only, and that one is gone.
            if !expected.is_empty() {
                assert_eq!(ours.text(), String::from_utf8(expected).unwrap(), "{name} {id}");
                n_compared += 1;
            }
        }
    }
    assert!(n_compared > 700, "{n_compared}");
}

/// What an OpenCode that runs has not yet moved from the log into the main file.
#[test]
fn what_is_only_in_the_log_is_exported_too() {
    for name in ["small-1.2.27", "small-1.18.33"] {
        let fixture = Fixture::unpack(name);
        for (id, expected) in fixture.exports() {
            let ours = annals(&fixture.home().join("wal"), &["export", &id]).run().ok();
            assert_eq!(ours.text(), String::from_utf8(expected).unwrap(), "{name} {id}");
        }
    }
}

#[test]
fn list_has_the_rows_of_the_real_one_in_its_order() {
    let mut n_rows = 0;
    for name in fixtures() {
        let fixture = Fixture::unpack(name);
        for entry in std::fs::read_dir(fixture.expected("session-list")).unwrap() {
            let file = entry.unwrap().file_name().into_string().unwrap();
            if !file.ends_with(".json") {
                continue;
            }
            let real = fixture.expected_json(&format!("session-list/{file}"));
            let real = real.as_array().unwrap();
            let project = real[0]["projectId"].as_str().unwrap();
            let mut arguments = vec!["list", "--json", "--roots", "--project", project];
            if file.starts_with("first-3") {
                arguments.extend(["--limit", "3"]);
            } else if Fixture::DATABASES.contains(&name) {
                // Since 1.2 it shows no more than these unless asked to.
                arguments.extend(["--limit", "100"]);
            }
            let ours = annals(fixture.home(), &arguments).run().ok().json();
            let row = |row: &Value, project: &str| -> Vec<Value> {
                ["id", "title", "updated", "created", "directory", project]
                    .map(|field| row[field].clone())
                    .to_vec()
            };
            let ours: Vec<_> =
                ours.as_array().unwrap().iter().map(|session| row(session, "projectID")).collect();
            let real: Vec<_> = real.iter().map(|session| row(session, "projectId")).collect();
            assert_eq!(ours, real, "{name} {file}");
            n_rows += real.len();
        }
    }
    assert!(n_rows > 2000, "{n_rows}");
}

/// The numbers of a box that `opencode stats` prints.
fn parse_boxes(text: &str) -> BTreeMap<String, String> {
    let mut model = String::new();
    let mut rows = BTreeMap::new();
    for line in text.lines() {
        let Some(inner) = line.strip_prefix('│').and_then(|line| line.strip_suffix('│')) else {
            continue;
        };
        if inner.contains('█') {
            // A tool: name, bar, count and share.
            let name = inner.split_whitespace().next().unwrap();
            let count = inner.rsplit('█').next().unwrap().split_whitespace().next().unwrap();
            rows.insert(format!("tool {name}"), count.to_owned());
        } else if let Some((label, value)) = inner.trim_end().rsplit_once("  ")
            && !label.trim().is_empty()
        {
            let label = label.trim();
            let of = if inner.starts_with("  ") && !model.is_empty() {
                format!("{model} ")
            } else {
                String::new()
            };
            rows.insert(format!("{of}{label}"), value.trim().replace(',', ""));
        } else if inner.contains('/') {
            model = inner.trim().to_owned();
        }
    }
    rows
}

/// How `opencode stats` shortens numbers. JavaScript rounds a half up, Rust to the even neighbour.
fn shortened(number: f64) -> String {
    let tenths = |unit: f64| format!("{:.1}", (number / unit * 10.0 + 0.5).floor() / 10.0);
    match number {
        n if n >= 1e6 => format!("{}M", tenths(1e6)),
        n if n >= 1e3 => format!("{}K", tenths(1e3)),
        n => n.to_string(),
    }
}

/// The project of a directory, by the sessions the real one lists there.
fn current_project(fixture: &Fixture, directory: &str) -> String {
    let file = directory.trim_start_matches('/').replace('/', "_");
    let listed = fixture.expected_json(&format!("session-list/{file}.json"));
    listed[0]["projectId"].as_str().unwrap().to_owned()
}

#[test]
fn stats_are_the_real_ones() {
    let mut n_compared = 0;
    for name in fixtures() {
        let fixture = Fixture::unpack(name);
        if !fixture.expected("meta.json").exists() {
            continue;
        }
        let meta = fixture.expected_json("meta.json");
        let clock: jiff::Timestamp =
            format!("{}:30Z", &meta["clock"].as_str().unwrap()[..16]).parse().unwrap();
        for (file, command) in meta["commands"].as_object().unwrap() {
            let Some(file_name) = file.strip_prefix("stats/") else { continue };
            let arguments: Vec<&str> =
                command["args"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap()).collect();
            // In a window of time OpenCode counts whole sessions: see the next test.
            let is_window = arguments
                .windows(2)
                .any(|pair| pair[0] == "--days" && (pair[1] != "0" || name != "opencode-1.0.185"));
            if is_window {
                continue;
            }
            let current = current_project(&fixture, command["cwd"].as_str().unwrap());
            let mut ours = vec!["stats", "--json"];
            for pair in arguments[1..].windows(2) {
                match pair {
                    // Before 1.1 a window of 0 days was no window at all.
                    ["--days", "0"] if name == "opencode-1.0.185" => {}
                    // An empty name is the project of the current directory.
                    ["--project", ""] => ours.extend(["--project", &current]),
                    ["--project", project] => ours.extend(["--project", project]),
                    _ => {}
                }
            }
            let ours = annals(fixture.home(), &ours)
                .env("ANNALS_NOW", clock.as_millisecond().to_string())
                .run()
                .ok()
                .json();
            let real = parse_boxes(&std::fs::read_to_string(fixture.expected(file)).unwrap());
            let number = |value: &Value| value.as_f64().unwrap();
            let dollars = |value: &Value| format!("${:.2}", number(value));
            let tokens = &ours["tokens"];
            let mut expected = BTreeMap::from([
                ("Sessions".to_owned(), ours["sessions"].to_string()),
                ("Messages".to_owned(), ours["messages"].to_string()),
                ("Days".to_owned(), ours["days"].to_string()),
                ("Total Cost".to_owned(), dollars(&ours["cost"])),
                ("Avg Cost/Day".to_owned(), dollars(&ours["costPerDay"])),
                ("Input".to_owned(), shortened(number(&tokens["input"]))),
                ("Output".to_owned(), shortened(number(&tokens["output"]))),
                ("Cache Read".to_owned(), shortened(number(&tokens["cache"]["read"]))),
                ("Cache Write".to_owned(), shortened(number(&tokens["cache"]["write"]))),
            ]);
            if name != "opencode-1.0.185" {
                // 1.0.185 leaves cached tokens out of these two.
                let per_session = &ours["tokensPerSession"];
                expected
                    .insert("Avg Tokens/Session".to_owned(), shortened(number(&per_session["mean"]).round()));
                expected.insert(
                    "Median Tokens/Session".to_owned(),
                    shortened(number(&per_session["median"]).round()),
                );
            }
            for (tool, calls) in ours["tools"].as_object().unwrap() {
                expected.insert(format!("tool {tool}"), calls.to_string());
            }
            if file_name == "models.txt" {
                for (model, share) in ours["models"].as_object().unwrap() {
                    let tokens = &share["tokens"];
                    let output = number(&tokens["output"]) + number(&tokens["reasoning"]);
                    for (label, value) in [
                        ("Messages", share["messages"].to_string()),
                        ("Input Tokens", shortened(number(&tokens["input"]))),
                        ("Output Tokens", shortened(output)),
                        ("Cache Read", shortened(number(&tokens["cache"]["read"]))),
                        ("Cache Write", shortened(number(&tokens["cache"]["write"]))),
                        ("Cost", format!("${:.4}", number(&share["cost"]))),
                    ] {
                        expected.insert(format!("{model} {label}"), value);
                    }
                }
            }
            // The real one may show fewer tools or models than there are, but no other number. 1.0.185 counts the days
            // that were used.
            let days_differ = name == "opencode-1.0.185" && file_name.starts_with("days-");
            for (label, value) in &real {
                if days_differ && (label == "Days" || label == "Avg Cost/Day") {
                    continue;
                }
                let known = expected.get(label).unwrap_or_else(|| match name {
                    "opencode-1.0.185" if label.contains("Tokens/Session") => value,
                    _ if label.contains('/') && file_name != "models.txt" => value,
                    _ => panic!("{name} {file}: {label} = {value} is not in {expected:#?}"),
                });
                assert_eq!(known, value, "{name} {file}: {label}");
                n_compared += 1;
            }
            if !file_name.starts_with("tools-") {
                let tools = |rows: &BTreeMap<String, String>| {
                    rows.keys().filter(|label| label.starts_with("tool ")).count()
                };
                assert_eq!(tools(&real), tools(&expected), "{name} {file}");
            }
        }
    }
    assert!(n_compared > 1000, "{n_compared}");
}

/// In a window of time OpenCode counts everything of each session that was used in it, also what was spent long before. annals counts what
/// was spent in the window. Both rules are worked out here from the messages, and each program follows its own.
#[test]
fn in_a_window_of_time_only_what_was_spent_in_it_counts() {
    const DAY: i64 = 86_400_000;
    let mut n_different = 0;
    for name in ["opencode-1.1.65", "opencode-1.2.27", "opencode-1.18.33"] {
        let fixture = Fixture::unpack(name);
        let meta = fixture.expected_json("meta.json");
        let clock: jiff::Timestamp =
            format!("{}:30Z", &meta["clock"].as_str().unwrap()[..16]).parse().unwrap();
        let now = clock.as_millisecond();
        let sessions = sessions_of(fixture.home());
        for days in [0, 1, 3, 30] {
            let since = if days == 0 { now - now % DAY } else { now - days * DAY };
            let used: Vec<&CountedSession> = sessions.iter().filter(|s| s.updated >= since).collect();
            let whole = used.iter().fold(0.0, |sum, s| sum + s.recorded.unwrap_or(s.spent_since(i64::MIN).1));
            let real = std::fs::read_to_string(fixture.expected(&format!("stats/days-{days}.txt"))).unwrap();
            let real = parse_boxes(&real);
            assert_eq!(real["Total Cost"], format!("${whole:.2}"), "{name} {days}");
            assert_eq!(real["Sessions"], used.len().to_string(), "{name} {days}");

            let spent: Vec<(usize, f64)> =
                sessions.iter().map(|s| s.spent_since(since)).filter(|(n, _)| *n > 0).collect();
            let ours = annals(fixture.home(), &["stats", "--json", "--days", &days.to_string()])
                .env("ANNALS_NOW", now.to_string())
                .run()
                .ok()
                .json();
            let (messages, cost) = spent.iter().fold((0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
            assert_eq!(ours["sessions"], spent.len(), "{name} {days}");
            assert_eq!(ours["messages"], messages, "{name} {days}");
            assert!((ours["cost"].as_f64().unwrap() - cost).abs() < 1e-9, "{name} {days}: {cost}");
            let by_day = ours["byDay"].as_object().unwrap();
            let first = jiff::Timestamp::from_millisecond(since).unwrap().strftime("%Y-%m-%d").to_string();
            assert!(by_day.keys().all(|day| *day >= first), "{name} {days}: {by_day:?}");
            n_different += usize::from((cost - whole).abs() > 0.001);
        }
    }
    assert!(n_different > 0, "the two rules were never told apart");
}

/// What a session cost, message by message.
struct CountedSession {
    updated: i64,
    /// What the session's own document says.
    recorded: Option<f64>,
    messages: Vec<(i64, f64)>,
}

impl CountedSession {
    /// The number of messages made at or after a time, and what they cost.
    fn spent_since(&self, since: i64) -> (usize, f64) {
        let made = self.messages.iter().filter(|(made, _)| *made >= since);
        made.fold((0, 0.0), |(n, cost), (_, more)| (n + 1, cost + more))
    }
}

/// The sessions of a home, read from its documents alone.
fn sessions_of(home: &std::path::Path) -> Vec<CountedSession> {
    use annals::home::{MessageDetail, MessageRange};
    let database = home.join("opencode.db");
    let home = annals::open::open(if database.exists() { database.as_path() } else { home }).unwrap();
    let records = home.sessions(&annals::query::SessionQuery::default()).unwrap().value;
    let number = |node: annals::model::json::Node<'_>, path: &[&str]| node.at(path).and_then(|n| n.as_f64());
    let session = |record: &annals::home::SessionRecord| {
        let root = record.stored.document.root();
        let messages = home.messages(record, &MessageRange::ALL, MessageDetail::PartCounts).map(|message| {
            let message = message.unwrap();
            let root = message.stored.document.root();
            let cost = number(root, &["cost"]).unwrap_or(0.0);
            let is_first_store = message.stored.provenance == annals::model::Provenance::default();
            is_first_store.then(|| (number(root, &["time", "created"]).unwrap() as i64, cost))
        });
        CountedSession {
            updated: number(root, &["time", "updated"]).unwrap() as i64,
            recorded: number(root, &["cost"]).filter(|cost| *cost > 0.0),
            messages: messages.flatten().collect(),
        }
    };
    records.iter().map(session).collect()
}

/// What is shown of a session in a list, and what statistics say of it, is the same amount.
#[test]
fn list_and_stats_agree_to_the_cent() {
    for name in fixtures() {
        let fixture = Fixture::unpack(name);
        let listed = annals(fixture.home(), &["list", "--sort", "cost", "--json"]).run().ok().json();
        let stats = annals(fixture.home(), &["stats", "--by", "session", "--json"]).run().ok().json();
        let groups = stats["groups"].as_array().unwrap();
        let mut sum = 0.0;
        for session in listed.as_array().unwrap() {
            let cost = session["cost"].as_f64().unwrap();
            sum += cost;
            let group = groups.iter().find(|group| group["by"]["session"] == session["id"]);
            let counted = group.map_or(0.0, |group| group["cost"].as_f64().unwrap());
            assert!((cost - counted).abs() < 1e-9, "{name} {}: {cost} and {counted}", session["id"]);
        }
        assert!((sum - stats["cost"].as_f64().unwrap()).abs() < 1e-6, "{name}: {sum}");
        // A list in this order begins with what costs most.
        let costs: Vec<f64> =
            listed.as_array().unwrap().iter().map(|session| session["cost"].as_f64().unwrap()).collect();
        assert!(costs.is_sorted_by(|a, b| a >= b), "{name}");
    }
}

#[test]
fn todos_and_children_are_those_of_the_real_server() {
    let (mut n_todos, mut n_children) = (0, 0);
    for name in fixtures() {
        let fixture = Fixture::unpack(name);
        if !fixture.expected("api").exists() {
            continue;
        }
        let listed = annals(fixture.home(), &["list", "--json"]).run().ok().json();
        for entry in std::fs::read_dir(fixture.expected("api")).unwrap() {
            let file = entry.unwrap().file_name().into_string().unwrap();
            let api = fixture.expected_json(&format!("api/{file}"));
            let Some(details) = api["details"].as_object() else { continue };
            for (id, detail) in details {
                let todos = annals(fixture.home(), &["todo", id, "--json"]).run().ok().json();
                assert_eq!(todos["todos"], detail["todo"], "{name} {id}");
                n_todos += todos["todos"].as_array().unwrap().len();
                let ours = listed.as_array().unwrap().iter().find(|row| row["id"] == **id).unwrap();
                let sorted = |value: &Value| {
                    let mut ids: Vec<_> =
                        value.as_array().unwrap().iter().map(|id| id.as_str().unwrap().to_owned()).collect();
                    ids.sort();
                    ids
                };
                assert_eq!(sorted(&ours["children"]), sorted(&detail["children"]), "{name} {id}");
                n_children += sorted(&ours["children"]).len();
            }
        }
    }
    assert!(n_todos > 15 && n_children > 20, "{n_todos} {n_children}");
}
