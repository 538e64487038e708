//! `annals housekeeping`: space comes back, conversations stay as they are, the real OpenCode goes on, and what deletes sessions can be undone.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use annals_testkit::model::{ModelServer, Playbook, Turn};
use annals_testkit::opencode::{Lab, OpenCode};
use annals_testkit::{Fixture, files_below};
use rusqlite::Connection;
use serde_json::{Value, json};

use super::kit::{AnnalsCommand, User, plain, text, write};

fn annals(lab: &Lab, arguments: &[&str]) -> AnnalsCommand {
    // The clock of the other tests is behind the sessions of 1.18. What was used within an hour is left alone.
    let now = annals::ids::now() + 2 * 60 * 60 * 1000;
    let command = plain(lab.root(), arguments).env("ANNALS_NOW", now.to_string());
    lab.env().into_iter().fold(command, |command, (name, value)| command.env(&name, value))
}

const SHOP: &str = "15e401e64f208f230e2422540fb7c58e13fb0681";

/// Makes the log of changes of a database as long as those that people have: most of the file.
fn grow(database: &Path, times: usize) {
    let connection = Connection::open(database).unwrap();
    connection.execute_batch("PRAGMA foreign_keys = OFF; BEGIN").unwrap();
    for n in 0..times {
        let sql = "INSERT INTO event (id, aggregate_id, seq, type, data) SELECT id || 'x' || ?1, aggregate_id, \
                   seq + ?1 * 100000, type, data FROM event WHERE seq < 100000";
        connection.execute(sql, [n + 1]).unwrap();
    }
    let sql = "UPDATE event_sequence SET seq = (SELECT max(e.seq) FROM event e WHERE e.aggregate_id = event_sequence.aggregate_id)";
    connection.execute_batch(sql).unwrap();
    connection.execute_batch("COMMIT; PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
}

/// The exports of all sessions as annals makes them.
fn exports(lab: &Lab) -> BTreeMap<String, String> {
    let listed = annals(lab, &["list", "--json"]).run().ok().json();
    let ids = listed.as_array().unwrap().iter().map(|row| text(row, "id").to_owned());
    let home = annals::open(&lab.data().join("opencode.db")).unwrap();
    ids.map(|id| {
        let record = home.session(&annals::model::id::SessionId::parse(&id).unwrap()).unwrap().unwrap();
        let mut export = annals::model::format::opencode::ExportWriter::new(&record.stored.document);
        let all = annals::home::MessageRange::ALL;
        for message in home.messages(&record, &all, annals::home::MessageDetail::Parts) {
            let message = message.unwrap();
            export.message(&message.stored.document, message.parts.iter().map(|part| &part.document));
        }
        (id, String::from_utf8(export.finish()).unwrap())
    })
    .collect()
}

#[test]
fn a_long_log_of_changes_is_freed_and_opencode_goes_on() {
    let fixture = Fixture::unpack("opencode-1.18.33");
    let model = ModelServer::start(
        Playbook::builtin().scenario("on", [Turn::text("It goes on.")]).prompt("Go on", "on"),
    )
    .unwrap();
    let lab = Lab::new(&OpenCode::version("1.18.33"));
    lab.configure(&model);
    for file in files_below(fixture.home()) {
        let path = file.strip_prefix(fixture.home()).unwrap();
        if !path.starts_with("expected") {
            std::fs::create_dir_all(lab.data().join(path).parent().unwrap()).unwrap();
            std::fs::copy(&file, lab.data().join(path)).unwrap();
        }
    }
    let shop = lab.bind_project("shop-api", SHOP);
    let own = lab.run(&shop, &["--model", "lab/lab-large", "Go on."]);
    let database = lab.data().join("opencode.db");
    grow(&database, 12);
    let size = || std::fs::metadata(&database).unwrap().len();
    let before = size();
    assert!(before > 40 << 20, "{before}");
    let sessions = ["ses_ed9e229a6ffeMNnekO75HDWDZB", &own];
    let real = |session: &str| lab.export(&shop, session);
    let real_before: Vec<Vec<u8>> = sessions.iter().map(|session| real(session)).collect();
    let exports_before = exports(&lab);
    let times = |id: &str| annals(&lab, &["show", id, "--json"]).run().ok().json();
    let shown = times(sessions[0]);

    let survey = annals(&lab, &["housekeeping", "--json"]).run().ok().json();
    let uses: BTreeMap<&str, u64> = survey["places"][0]["uses"]
        .as_array()
        .unwrap()
        .iter()
        .map(|space| (text(space, "kind"), space["freeable"].as_u64().unwrap()))
        .collect();
    assert!(uses["events"] > before * 8 / 10, "{survey:#}");
    let dry = annals(&lab, &["housekeeping", "--free", "all", "--dry-run", "--json"]).run().ok().json();
    assert_eq!(dry["done"], false);
    assert_eq!(size(), before);
    // Nobody can be asked.
    assert_eq!(annals(&lab, &["housekeeping", "--free", "all"]).run().code, 2);

    // Beside a server the log is trimmed, and the file keeps its size.
    let server = lab.serve(&shop);
    assert_eq!(server.get(&format!("/session/{}", sessions[1]))["id"], sessions[1]);
    let ran = annals(&lab, &["housekeeping", "--free", "all", "--yes"]).run();
    assert_eq!(ran.code, 3, "{ran}");
    assert!(ran.stderr.contains(&format!("process {} has it open", server.process_id())), "{ran}");
    let asked = json!({"parts": [{"type": "text", "text": "Go on."}], "model": {"providerID": "lab", "modelID": "lab-large"}});
    let reply = server.post(&format!("/session/{}/message", sessions[1]), &asked);
    assert!(reply["parts"].to_string().contains("It goes on."), "{reply}");
    server.stop();
    let freed = annals(&lab, &["housekeeping", "--free", "unused", "--yes", "--json"]).run().ok().json();
    assert_eq!(freed["done"], true, "{freed:#}");
    assert!(size() < before / 10, "{} of {before}", size());
    let log = std::fs::metadata(lab.data().join("opencode.db-wal")).map_or(0, |log| log.len());
    assert_eq!(log, 0);

    // Everything else is as it was, but for the session that went on.
    let exports_after = exports(&lab);
    for (id, export) in &exports_before {
        assert!(*id == sessions[1] || exports_after[id] == *export, "{id}");
    }
    assert_eq!(real(sessions[0]), real_before[0]);
    assert_ne!(real(sessions[1]), real_before[1]);
    assert_eq!(times(sessions[0]), shown);
    let continued = lab.run(&shop, &["--session", &own, "--model", "lab/lab-large", "Go on."]);
    assert_eq!(continued, own);
    let rows = |sql: &str| -> i64 {
        Connection::open(&database).unwrap().query_row(sql, [], |row| row.get(0)).unwrap()
    };
    assert_eq!(rows("SELECT count(*) FROM pragma_integrity_check WHERE integrity_check <> 'ok'"), 0);
    // The numbering of the log goes on where it was.
    let sql = format!("SELECT min(seq) FROM event WHERE aggregate_id = '{own}'");
    assert!(rows(&sql) > 1_200_000, "{}", rows(&sql));
    // Sessions of the second API are made of their log, so theirs stays.
    assert!(rows("SELECT count(*) FROM event WHERE type LIKE 'session.next.%'") > 0);
    let again = || annals(&lab, &["housekeeping", "--free", "events", "--yes", "--json"]).run().ok().json();
    assert_eq!(again()["freed"][0]["kind"], "events");
    assert_eq!(again()["freed"], json!([]));
    let undo = annals(&lab, &["undo"]).run();
    assert_eq!(undo.code, 1, "{undo}");
}

/// The files of a home with their bytes, without those of annals.
fn contents(home: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let files = files_below(home).into_iter().filter(|path| !path.to_string_lossy().contains("/.annals/"));
    files.map(|path| (path.clone(), std::fs::read(&path).unwrap())).collect()
}

#[test]
fn sessions_copies_and_orphans_come_back() {
    let user = User::with("opencode-1.1.65");
    let migrated = Fixture::unpack("migrated-1.1.65-to-1.18.33");
    std::fs::copy(migrated.home().join("opencode.db"), user.opencode().join("opencode.db")).unwrap();
    let before = contents(&user.opencode().join("storage"));
    let listed = || user.annals(&["list", "--json"]).run().ok().json();
    let free = |arguments: &[&str]| {
        let arguments = [&["housekeeping", "--yes", "--json", "--free"], arguments].concat();
        user.annals(&arguments).run().ok().json()
    };
    let ids = |rows: &Value| {
        rows.as_array().unwrap().iter().map(|row| text(row, "id").to_owned()).collect::<Vec<_>>()
    };
    let all = ids(&listed());

    let freed = free(&["migrated,orphans"]);
    let kinds: Vec<&str> = freed["freed"].as_array().unwrap().iter().map(|item| text(item, "kind")).collect();
    assert_eq!(kinds, ["migrated", "orphans"], "{freed:#}");
    let left = contents(&user.opencode().join("storage"));
    assert!(left.keys().all(|path| !path.to_string_lossy().contains("/message/")), "{left:?}");
    assert_eq!(ids(&listed()), all);
    assert_eq!(
        user.annals(&["check", "--json"]).run().json()["problems"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|problem| text(problem, "kind").starts_with("orphan")
                && text(problem, "home").ends_with("/opencode"))
            .count(),
        0
    );
    let _ = user.annals(&["undo"]).run().ok();
    let _ = user.annals(&["undo"]).run().ok();
    assert_eq!(contents(&user.opencode().join("storage")), before);

    // Only what was last used before a time, and only where the whole family was.
    let missing = user.annals(&["housekeeping", "--free", "sessions", "--yes"]).run();
    assert_eq!(missing.code, 2, "{missing}");
    let freed = free(&["sessions", "--older-than", "2026-02-20"]);
    let n_freed = freed["freed"][0]["items"].as_u64().unwrap();
    assert!(n_freed > 0, "{freed:#}");
    let rows = listed();
    let gone = rows.as_array().unwrap().iter().filter(|row| !row["gone"].is_null());
    let updated: Vec<i64> = gone.map(|row| row["updated"].as_i64().unwrap()).collect();
    assert_eq!(updated.len() as u64, n_freed);
    assert!(updated.iter().all(|updated| *updated < 1_771_545_600_000), "{updated:?}");
    let _ = user.annals(&["undo"]).run().ok();
    assert!(listed().as_array().unwrap().iter().all(|row| row["gone"].is_null()));
    assert_eq!(contents(&user.opencode().join("storage")), before);
}

#[test]
fn old_files_beside_sessions_are_freed() {
    let user = User::new();
    user.write_session("36aaaaffe1", "Fix the cart", "Look", "Done");
    let data = user.opencode();
    for (name, age) in
        [("log/old.log", 9), ("log/latest.log", 0), ("tool-output/tool_old", 9), ("tool-output/tool_new", 1)]
    {
        write(&data, name, "x".repeat(1000));
        let time = std::time::SystemTime::now() - std::time::Duration::from_secs(age * 86_400);
        std::fs::File::options().append(true).open(data.join(name)).unwrap().set_modified(time).unwrap();
    }
    write(&data, "snapshot/0123456789012345678901234567890123456789/objects/x", "of no project");
    write(&data, "snapshot/global/objects/x", "of a project");
    let now = annals::ids::now().to_string();
    let run = |arguments: &[&str]| user.annals(arguments).env("ANNALS_NOW", &now).run().ok().json();
    let freed = run(&["housekeeping", "--free", "all", "--yes", "--json"]);
    let kinds: Vec<(&str, u64)> = freed["freed"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| (text(item, "kind"), item["items"].as_u64().unwrap()))
        .collect();
    assert_eq!(kinds, [("snapshots", 1), ("tool-output", 1), ("logs", 1)], "{freed:#}");
    let mut left: Vec<String> = files_below(&data)
        .iter()
        .map(|path| path.strip_prefix(&data).unwrap().display().to_string())
        .filter(|path| !path.starts_with("storage"))
        .collect();
    left.sort();
    assert_eq!(left, ["log/latest.log", "snapshot/global/objects/x", "tool-output/tool_new"]);
}
