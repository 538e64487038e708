//! Commands on OpenCode's database as a home, and what the real OpenCode sees of them.

use std::collections::BTreeSet;
use std::path::Path;

use annals_testkit::opencode::{Lab, OpenCode};
use annals_testkit::{Fixture, files_below};
use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};

use super::kit::{NOW, annals, exported, listed, text};

const SHOP: &str = "15e401e64f208f230e2422540fb7c58e13fb0681";
const NEW_TITLE: &str = "Zeile mit Umlaut: Größe 🎉";

/// A lab whose OpenCode has the data of a fixture.
fn lab_with(version: &str, fixture: &Fixture) -> Lab {
    let lab = Lab::new(&OpenCode::version(version));
    for file in files_below(fixture.home()) {
        let path = file.strip_prefix(fixture.home()).unwrap();
        if !path.starts_with("expected") {
            std::fs::create_dir_all(lab.data().join(path).parent().unwrap()).unwrap();
            std::fs::copy(&file, lab.data().join(path)).unwrap();
        }
    }
    lab
}

/// The session with this title.
#[track_caller]
fn titled(home: &Path, title: &str) -> Value {
    let rows = listed(home, &[]);
    rows.into_iter().find(|row| row["title"] == title).unwrap_or_else(|| panic!("no session {title}"))
}

/// Tables and columns in which a text occurs, alone or inside another.
fn mentions(database: &Path, needle: &str) -> BTreeSet<String> {
    let connection = Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let mut columns = connection
        .prepare(
            "SELECT t.name, c.name FROM sqlite_schema t, pragma_table_info(t.name) c WHERE t.type = 'table'",
        )
        .unwrap();
    let columns = columns.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    let columns: Vec<(String, String)> = columns.map(Result::unwrap).collect();
    let is_mentioned = |(table, column): &(String, String)| {
        let sql = format!("SELECT count(*) FROM \"{table}\" WHERE instr(\"{column}\", ?1)");
        connection.query_row(&sql, [needle], |row| row.get::<_, usize>(0)).unwrap() > 0
    };
    let mentioning = columns.into_iter().filter(is_mentioned);
    mentioning.map(|(table, column)| format!("{table}.{column}")).collect()
}

/// All of this happens while the server runs, which sees it at once.
#[test]
fn changes_are_seen_by_the_real_server() {
    let elsewhere = Fixture::unpack("opencode-1.1.65");
    for version in ["1.2.27", "1.18.33"] {
        let fixture = Fixture::unpack(&format!("opencode-{version}"));
        let lab = lab_with(version, &fixture);
        let (home, database) = (lab.data(), lab.data().join("opencode.db"));
        let shop = lab.bind_project("shop-api", SHOP);
        let server = lab.serve(&shop);
        let get = |id: &str| server.get(&format!("/session/{id}"));
        let problems = |home: &Path| annals(home, &["check", "--json"]).run().json()["problems"].clone();
        let problems_before = problems(&home);

        let renamed = titled(&home, "Price tables");
        let id = text(&renamed, "id");
        let before = get(id);
        let _ = annals(&home, &["rename", id, NEW_TITLE]).run().ok();
        let _ = annals(&home, &["archive", id]).run().ok();
        let mut expected = before.clone();
        expected["title"] = NEW_TITLE.into();
        expected["time"]["archived"] = NOW.parse::<u64>().unwrap().into();
        assert_eq!(get(id), expected, "{version}");

        let parent = titled(&home, "Two subagents");
        let tree = annals(&home, &["tree", text(&parent, "id"), "--json"]).run().ok().json();
        let children = server.get(&format!("/session/{}/children", text(&parent, "id")));
        let ids = |rows: &Value| -> BTreeSet<String> {
            rows.as_array().unwrap().iter().map(|row| text(row, "id").to_owned()).collect()
        };
        let family: Vec<String> =
            ids(&children).into_iter().chain([text(&parent, "id").to_owned()]).collect();
        assert_eq!(family.len(), 3, "{version}");
        assert_eq!(ids(&tree[0]["subtree"]), ids(&children), "{version}");
        let with_todos = listed(&home, &[]).into_iter().find_map(|row| {
            let todos = server.get(&format!("/session/{}/todo", text(&row, "id")));
            (todos != json!([])).then(|| (text(&row, "id").to_owned(), todos))
        });
        let (id, todos) = with_todos.expect("a session with a todo list");
        assert_eq!(annals(&home, &["todo", &id, "--json"]).run().ok().json()["todos"], todos, "{version}");

        let _ = annals(&home, &["rm", &family[2], "--yes"]).run().ok();
        for id in &family {
            let response = server.request("GET", &format!("/session/{id}"), None);
            assert_eq!(response.status, 404, "{version} {id}: {}", String::from_utf8_lossy(&response.body));
        }

        // A session of the same shape, taken from a directory.
        let import = titled(elsewhere.home(), "Two subagents");
        let id = text(&import, "id");
        let lines = annals(elsewhere.home(), &["export", id, "--format", "jsonl"]).run().ok();
        let _ = annals(&home, &["import", "-"]).stdin(&lines.stdout).run().ok();
        assert_eq!(get(id)["title"], "Two subagents");
        let served = server.get(&format!("/session/{id}/message"));
        assert_eq!(
            served.as_array().unwrap().len(),
            exported(&home, id)["messages"].as_array().unwrap().len()
        );
        server.stop();

        for id in &family {
            assert!(mentions(&fixture.home().join("opencode.db"), id).contains("part.session_id"));
            assert_eq!(mentions(&database, id), BTreeSet::new(), "{version} {id}");
        }
        let rows = lab.session_list(&shop);
        let titles: BTreeSet<&str> = rows.as_array().unwrap().iter().map(|row| text(row, "title")).collect();
        assert!(titles.contains(NEW_TITLE) && titles.contains("Two subagents"), "{version}: {titles:?}");
        let ours = annals(&home, &["export", id]).run().ok();
        assert_eq!(String::from_utf8_lossy(&lab.export(&shop, id)), ours.text(), "{version}");
        // Nothing of this is damage.
        assert_eq!(problems(&home), problems_before, "{version}");
    }
}

/// OpenCode 1.18 writes rows that it does not serve itself.
#[test]
fn check_names_the_sessions_that_the_real_server_refuses() {
    let fixture = Fixture::unpack("opencode-1.18.33");
    let lab = lab_with("1.18.33", &fixture);
    let server = lab.serve(&lab.bind_project("shop-api", SHOP));
    let sessions = listed(&lab.data(), &[]);
    let refused: BTreeSet<&str> = sessions
        .iter()
        .map(|session| text(session, "id"))
        .filter(|id| server.request("GET", &format!("/session/{id}/message"), None).status >= 400)
        .collect();
    let problems = annals(&lab.data(), &["check", "--json"]).run().json();
    let named: BTreeSet<&str> = problems["problems"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|problem| problem["kind"] == "unservable")
        .map(|problem| text(problem, "id"))
        .collect();
    assert_eq!(named, refused);
    assert_eq!(refused.len(), 2);
}
