//! Beside an OpenCode that runs: it goes on undisturbed, and nothing it keeps is touched by looking at it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use annals_testkit::model::{ModelServer, Playbook, Turn};
use annals_testkit::opencode::{Lab, OpenCode, Server};
use annals_testkit::{Fixture, files_below};
use serde_json::{Value, json};

use super::kit::{annals, copy, exported, listed, text};

const PATIENCE: Duration = Duration::from_secs(60);

/// How often the model reads the file in the scenario `busy`, each time in a turn of its own.
const READINGS: usize = 8;
const LAST_WORDS: &str = "Whichever way one reads it, the file says the same.";

/// An OpenCode that serves a repository, with a model that has much to do.
struct Workplace {
    model: ModelServer,
    lab: Lab,
    repository: PathBuf,
}

impl Workplace {
    fn new() -> Workplace {
        let slowly = |turn: Turn| Turn { chunk: 6, delay_ms: 10, ..turn };
        let reading = |n| {
            let turn = Turn::text(format!("Reading it for the {n}. time, from the start."));
            slowly(turn.and_call("read", json!({"filePath": "${cwd}/README.md"})))
        };
        let turns = (1..=READINGS).map(reading).chain([slowly(Turn::text(LAST_WORDS))]);
        let model = ModelServer::start(Playbook::builtin().scenario("busy", turns)).unwrap();
        let lab = Lab::new(&OpenCode::version("1.18.33"));
        lab.configure(&model);
        let repository = lab.repo("shop", &[("README.md", "# Shop\n")]);
        Workplace { model, lab, repository }
    }

    /// What the log says about anything that went wrong.
    fn complaints(&self) -> Vec<String> {
        let logs = files_below(&self.lab.data().join("log"));
        let text: String = logs.iter().map(|log| std::fs::read_to_string(log).unwrap()).collect();
        let is_complaint = |line: &&str| {
            let line = line.to_lowercase();
            ["sqlite", "locked", "error", "level=warn"].iter().any(|word| line.contains(word))
        };
        text.lines().filter(is_complaint).map(str::to_owned).collect()
    }
}

/// Starts a session with a prompt for a scenario, without waiting for an answer.
fn prompt(server: &Server, scenario: &str) -> String {
    let session = server.post("/session", &json!({"title": scenario}));
    let id = text(&session, "id");
    let parts = json!([{"type": "text", "text": format!("Go. [[scenario:{scenario}]]")}]);
    server.post(&format!("/session/{id}/prompt_async"), &json!({"parts": parts}));
    id.to_owned()
}

/// The messages of a session.
fn messages(server: &Server, session: &str) -> Value {
    server.get(&format!("/session/{session}/message"))
}

/// The messages of a session once the last answer is given.
#[track_caller]
fn finished(server: &Server, session: &str) -> Value {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let is_idle = server.get("/session/status").get(session).is_none();
        let messages = messages(server, session);
        let is_last = |message: &Value| message["info"]["finish"] == "stop";
        if is_idle && messages.as_array().unwrap().last().is_some_and(is_last) {
            return messages;
        }
        assert!(Instant::now() < deadline, "{session} is not finished: {messages}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Ends the loops of threads when it goes away, also by a panic.
struct Until<'a>(&'a AtomicBool);

impl Drop for Until<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Every reading is there and every answer is finished.
#[track_caller]
fn assert_complete(messages: &Value) {
    let messages = messages.as_array().unwrap();
    assert_eq!(messages.len(), 1 + READINGS + 1);
    for answer in &messages[1..] {
        assert!(answer["info"]["time"]["completed"].is_u64(), "{answer}");
        assert!(answer["info"]["error"].is_null(), "{answer}");
    }
    let parts = || messages.iter().flat_map(|message| message["parts"].as_array().unwrap());
    let readings = parts().filter(|part| part["tool"] == "read" && part["state"]["status"] == "completed");
    assert_eq!(readings.count(), READINGS);
    assert!(parts().any(|part| part["text"] == LAST_WORDS));
}

#[test]
fn sessions_are_copied_into_a_database_in_use() {
    let workplace = Workplace::new();
    let Workplace { model, lab, repository } = &workplace;
    let server = lab.serve(repository);
    // As it is without annals.
    let earlier = prompt(&server, "busy");
    let earlier_messages = finished(&server, &earlier);
    assert_complete(&earlier_messages);
    let n_complaints = workplace.complaints().len();

    // One answer waits half way through a sentence; others are written all the time.
    let waiting = prompt(&server, "hang");
    model.wait_hanging(1, PATIENCE);
    let directory = Fixture::unpack("opencode-1.1.65");
    let database = Fixture::unpack("opencode-1.18.33");
    let sources = [directory.home().to_owned(), database.home().join("opencode.db")];
    let is_over = AtomicBool::new(false);
    let mut own = vec![earlier, waiting];
    thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let mut sessions = Vec::new();
            while !is_over.load(Ordering::Relaxed) {
                sessions.push(prompt(&server, "busy"));
                assert_complete(&finished(&server, sessions.last().unwrap()));
            }
            sessions
        });
        let until = Until(&is_over);
        for source in &sources {
            let account = copy(source, &lab.data().join("opencode.db"), &[]);
            assert_eq!(account["quarantined"], 0, "{account}");
            for session in listed(source, &[]) {
                let path = format!("/session/{}/message", text(&session, "id"));
                let response = server.request("GET", &path, None);
                assert_eq!(response.status, 200, "{path}: {}", String::from_utf8_lossy(&response.body));
            }
        }
        drop(until);
        own.extend(worker.join().unwrap());
    });
    assert_eq!(server.get("/session/status")[&own[1]]["type"], "busy");
    model.release();

    let served: Vec<Value> = own.iter().map(|id| finished(&server, id)).collect();
    assert_eq!(served[0], earlier_messages);
    let finished = &served[1][1];
    assert_eq!(
        finished["parts"].as_array().unwrap().iter().find(|part| part["type"] == "text").unwrap()["text"],
        "This reply stops half way through its only sentence and waits there."
    );
    let complaints = workplace.complaints();
    assert_eq!(complaints.len(), n_complaints, "{complaints:#?}");
    server.stop();

    // Nothing was in a log that is gone.
    let real = lab.session_list(repository);
    let ids: BTreeSet<&str> = real.as_array().unwrap().iter().map(|row| text(row, "id")).collect();
    assert_eq!(ids, own.iter().map(String::as_str).collect());
    for (id, served) in own.iter().zip(&served) {
        assert_eq!(exported(&lab.data(), id)["messages"], *served, "{id}");
    }
    assert_eq!(listed(&lab.data(), &[]).len(), own.len() + 121 + 123);
    let last = own.last().unwrap();
    let ours = annals(&lab.data(), &["export", last]).run().ok();
    assert_eq!(String::from_utf8_lossy(&lab.export(repository, last)), ours.text());
    let shop = lab.bind_project("elsewhere", "15e401e64f208f230e2422540fb7c58e13fb0681");
    assert_eq!(lab.session_list(&shop).as_array().unwrap().len(), 107 + 109);
}

#[test]
fn readers_never_fail_beside_a_busy_server() {
    let workplace = Workplace::new();
    let server = workplace.lab.serve(&workplace.repository);
    read_while_it_works(&workplace, &server);
}

/// A process loses its locks on a database when it opens and closes the file by other means. OpenCode does, for instance
/// when it is asked to show the file. To SQLite the files then look as if nobody used them.
#[test]
fn readers_do_no_harm_to_a_server_that_has_lost_its_locks() {
    let workplace = Workplace::new();
    let server = workplace.lab.serve(&workplace.repository);
    drop_locks(&workplace, &server);
    read_while_it_works(&workplace, &server);
}

/// A writer would take the index of the log away from it, and that kills it.
#[test]
fn nothing_is_written_beside_a_server_that_has_lost_its_locks() {
    let workplace = Workplace::new();
    let server = workplace.lab.serve(&workplace.repository);
    let session = prompt(&server, "busy");
    assert_complete(&finished(&server, &session));
    drop_locks(&workplace, &server);
    let home = workplace.lab.data();
    for _ in 0..3 {
        let refused = annals(&home, &["rename", &session, "x"]).run();
        assert_eq!(refused.code, 1, "{refused}");
        assert!(refused.stderr.contains("has lost its locks"), "{refused}");
        assert!(server.get(&format!("/session/{session}"))["title"] != "x");
    }
    server.stop();
    let _ = annals(&home, &["rename", &session, "x"]).run().ok();
}

/// Makes a server lose its locks.
fn drop_locks(workplace: &Workplace, server: &Server) {
    for name in ["opencode.db", "opencode.db-shm", "opencode.db-wal"] {
        let root = workplace.lab.root().display();
        let shown = server.get(&format!("/file/content?directory={root}&path=data/opencode/{name}"));
        assert!(shown["content"].is_string(), "{shown}");
    }
}

/// Lets a server work on two sessions and reads them all the while.
fn read_while_it_works(workplace: &Workplace, server: &Server) {
    let home = workplace.lab.data();
    let sessions = [prompt(server, "busy"), prompt(server, "busy")];
    for arguments in [vec!["list"], vec!["stats"], vec!["export", &sessions[0]], vec!["check"]] {
        assert_writes_nothing(&home, &arguments);
    }
    let is_over = AtomicBool::new(false);
    let read = |session: &str| {
        let commands: [&[&str]; 4] =
            [&["list", "--json"], &["stats", "--json"], &["export", session], &["show", session]];
        for n in 0.. {
            // Anything that could not be read would make it 3.
            let _ = annals(&home, commands[n % commands.len()]).run().ok();
            if is_over.load(Ordering::Relaxed) {
                return n;
            }
        }
        unreachable!("the loop has no end")
    };
    let n_read: usize = thread::scope(|scope| {
        let readers = sessions.each_ref().map(|session| scope.spawn(|| read(session)));
        let until = Until(&is_over);
        for session in &sessions {
            assert_complete(&finished(server, session));
        }
        drop(until);
        readers.map(|reader| reader.join().unwrap()).iter().sum()
    });
    assert!(n_read > 10, "{n_read}");
    for session in &sessions {
        assert_eq!(exported(&home, session)["messages"], messages(server, session));
    }
    assert!(workplace.complaints().is_empty(), "{:#?}", workplace.complaints());
}

/// Runs a command under `strace`, which must not change the database, its log, the log's index or their names. What is
/// done to the index in memory, where readers leave a mark, is not seen.
#[track_caller]
fn assert_writes_nothing(home: &Path, arguments: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("trace");
    let status = Command::new("strace")
        .args(["-f", "-y", "-e", "trace=%file,%desc", "-o"])
        .arg(&trace)
        .arg(env!("CARGO_BIN_EXE_annals"))
        .arg("--home")
        .arg(home)
        .args(arguments)
        .env("HOME", home)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .expect("strace is installed: scripts/test does");
    // Sessions are at work, which `check` reports.
    assert!(
        status.success() || (arguments == ["check"] && status.code() == Some(3)),
        "{arguments:?}: {status}"
    );
    let trace = std::fs::read_to_string(trace).unwrap();
    let database = home.join("opencode.db");
    let ours = |line: &&str| {
        ["", "-wal", "-shm"].iter().any(|suffix| {
            let path = format!("{}{suffix}", database.display());
            line.contains(&format!("<{path}>")) || line.contains(&format!("\"{path}\""))
        })
    };
    let name = |line: &str| line.split_whitespace().nth(1).unwrap().split('(').next().unwrap().to_owned();
    let calls: Vec<(String, &str)> = trace.lines().filter(ours).map(|line| (name(line), line)).collect();
    assert!(calls.iter().any(|(name, _)| name == "pread64"), "nothing was read:\n{trace}");
    const CHANGES: [&str; 12] = [
        "write",
        "pwrite64",
        "writev",
        "pwritev",
        "ftruncate",
        "truncate",
        "fallocate",
        "unlink",
        "unlinkat",
        "rename",
        "renameat",
        "renameat2",
    ];
    for (name, line) in calls {
        let is_main_file = line.contains(&format!("\"{}\"", database.display()));
        assert!(name != "openat" || !is_main_file || line.contains("O_RDONLY"), "{arguments:?}: {line}");
        assert!(!CHANGES.contains(&name.as_str()), "{arguments:?}: {line}");
    }
}

#[test]
fn reading_changes_no_byte_of_an_idle_home() {
    let small = ["small-1.2.27", "small-1.18.33"].map(Fixture::unpack);
    let large = Fixture::unpack("opencode-1.18.33");
    let mut homes = vec![large.home().to_owned()];
    for fixture in &small {
        homes.push(fixture.home().to_owned());
        homes.push(fixture.home().join("wal"));
        // Without its index the log has to be read through.
        let without_index = fixture.home().join("no-index");
        std::fs::create_dir(&without_index).unwrap();
        for name in ["opencode.db", "opencode.db-wal"] {
            std::fs::copy(fixture.home().join("wal").join(name), without_index.join(name)).unwrap();
        }
        homes.push(without_index);
    }
    for home in homes {
        let before = files(&home);
        let commands: [&[&str]; 8] = [
            &[],
            &["list"],
            &["stats"],
            &["tree", "last"],
            &["show", "last"],
            &["export", "last"],
            &["todo", "last"],
            &["export", "last", "--format", "markdown"],
        ];
        for arguments in commands {
            let _ = annals(&home, arguments).run().ok();
        }
        let checked = annals(&home, &["check"]).run();
        assert!([0, 3].contains(&checked.code), "{checked}");
        assert_eq!(files(&home), before, "{}", home.display());
    }
}

/// The files of a home with their times and bytes. The index of the log (`-shm`) belongs to whoever uses it.
fn files(home: &Path) -> BTreeMap<PathBuf, (std::time::SystemTime, Vec<u8>)> {
    let kept = files_below(home).into_iter().filter(|path| !path.to_str().unwrap().ends_with("-shm"));
    kept.map(|path| {
        let time = std::fs::metadata(&path).unwrap().modified().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        (path, (time, bytes))
    })
    .collect()
}
