//! Calls to the system that fail, and kills: whatever happens to a command that writes to the store, what was acknowledged is there
//! afterwards, every answer is right, nothing has to be mended by hand, and nothing is left behind.
//!
//! A library that is preloaded (`tests/faults/shim.c`) lets one call fail, or kills the process there. Each command is run once
//! undisturbed to count its calls, then with a fault at each of a number of them; after each the store is looked at. The test takes
//! a sample. `scripts/faults` takes them all, and prints the figures that are in docs/reliability.md.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::Value;

use super::kit::{NOW, User, in_parallel, memory, write};
use super::walk::homes::{files, rows};

/// How many points to run: a number, `all`, or `syncs` for each sync of a file. Unset for the short form.
const POINTS: &str = "ANNALS_FAULTS";
/// How many failures of each kind at the syncs of a file a command meets in the short form. Of other calls it is one of two kinds.
const SAMPLE: usize = 2;
/// What is in the session that is forgotten, and nowhere else.
const SECRET: &str = "xylophonesecret";
const FORGOTTEN: &str = "ses_36aaaaffe1";
const SEARCHES: [&str; 4] = ["cart", "edited", "answer", "xylophonesecret"];

/// A command that writes, and what it starts from.
struct Scenario {
    name: &'static str,
    command: &'static [&'static str],
    /// The state it starts from.
    base: PathBuf,
    /// What must be seen where the command was not acknowledged: this or what it leads to.
    before: Seen,
    after: Seen,
    /// How many calls of each kind it makes.
    calls: BTreeMap<char, usize>,
    reach: Reach,
}

/// Which calls of a command can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// Those on the store and on backups.
    Store,
    /// Those on OpenCode's homes as well.
    Homes,
}

/// A fault: which calls count, which of them fails, and how.
#[derive(Debug, Clone, Copy)]
struct Fault {
    calls: &'static str,
    at: usize,
    kind: &'static str,
}

/// What is seen of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    sessions: Vec<String>,
    stats: String,
    exports: Vec<String>,
    hits: Vec<Vec<String>>,
    problems: Vec<String>,
    /// A hash of every file and row of OpenCode's.
    homes: String,
}

/// Everything that belongs to one user, made anew for each run.
struct Place {
    root: PathBuf,
    shim: PathBuf,
}

impl Place {
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_annals"));
        command
            .args(arguments)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", &self.root)
            .env("TZ", "UTC")
            .env("ANNALS_NOW", NOW)
            .current_dir(&self.root)
            .stdin(Stdio::null());
        command
    }

    fn store(&self) -> PathBuf {
        self.root.join(".local/share/annals")
    }

    fn opencode(&self) -> PathBuf {
        self.root.join(".local/share/opencode")
    }

    /// A hash of every file and row of OpenCode's, but for its log of changes.
    fn homes(&self) -> String {
        let mut all = files(&self.opencode().join("storage"));
        let database = self.opencode().join("opencode.db");
        if database.exists() {
            all.extend(rows(&database));
        }
        all.retain(|name, _| !name.starts_with("event"));
        annals::model::ContentHash::of(format!("{all:?}").as_bytes()).to_string()
    }

    /// Runs a command that meets a fault. None if it was killed, else its exit code and what it said.
    fn disturbed(
        &self,
        arguments: &[&str],
        fault: Fault,
        reach: Reach,
    ) -> (Option<i32>, String, BTreeMap<char, usize>) {
        let tell = self.root.join("told");
        let mut dirs = format!("{}:{}", self.store().display(), self.root.join("kept").display());
        if reach == Reach::Homes {
            dirs.push_str(&format!(":{}", self.opencode().display()));
        }
        let output = self
            .command(arguments)
            .env("LD_PRELOAD", &self.shim)
            .env("FAULT_DIRS", dirs)
            .env("FAULT_CALLS", fault.calls)
            .env("FAULT_AT", fault.at.to_string())
            .env("FAULT_KIND", fault.kind)
            .env("FAULT_TELL", &tell)
            .output()
            .unwrap();
        let told = std::fs::read_to_string(&tell).unwrap_or_default();
        let count = |line: &str| Some((line.chars().next()?, line.get(2..)?.parse().ok()?));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), said, told.lines().filter_map(count).collect())
    }

    /// The output of a command that must work: nothing but problems of the sessions themselves may be reported.
    fn json(&self, arguments: &[&str]) -> Result<Value, String> {
        let output = self.command(arguments).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        let shown = arguments.join(" ");
        match output.status.code() {
            // An operation that was killed is completed, or had no effect.
            Some(0)
                if !said.contains("warning:")
                    || said.contains("made anew")
                    || said.contains("was cut short; it is complete now")
                    || said.contains("was cut short and had no effect") => {}
            Some(3) if arguments[0] == "check" => {}
            code => return Err(format!("`annals {shown}`: exit {code:?}: {said}")),
        }
        serde_json::from_slice(&output.stdout).map_err(|error| format!("`annals {shown}`: {error}"))
    }

    /// What a user sees of the store now.
    fn look(&self) -> Result<Seen, String> {
        let texts = |value: &Value, field: &str| -> Vec<String> {
            let mut texts: Vec<String> =
                value.as_array().into_iter().flatten().map(|item| item[field].to_string()).collect();
            texts.sort();
            texts
        };
        let store = self.store().join("annals.db").display().to_string();
        let list = self.json(&["list", "--json"])?;
        let mut sessions = texts(&list, "id");
        sessions.extend(texts(&list, "title"));
        let stats = self.json(&["stats", "--json"])?.to_string();
        let mut exports = Vec::new();
        for id in texts(&list, "id").iter().step_by(3) {
            let exported = self.json(&["export", id.trim_matches('"')])?;
            exports.push(annals::model::ContentHash::of(exported.to_string().as_bytes()).to_string());
        }
        let mut hits = Vec::new();
        for query in SEARCHES {
            let found = self.json(&["search", query, "--json", "-n", "9999"])?;
            hits.push([texts(&found, "partID"), texts(&found, "snippet")].concat());
        }
        let checked = self.json(&["check", "--json", "--home", &store])?;
        let problems = texts(&checked["problems"], "kind");
        Ok(Seen { sessions, stats, exports, hits, problems, homes: self.homes() })
    }

    /// What killed processes have left in OpenCode's homes, once another command has run.
    fn drafts(&self) -> Vec<PathBuf> {
        let mut files = annals_testkit::files_below(&self.opencode());
        let is_draft = |part: &std::ffi::OsStr| {
            let part = part.to_string_lossy();
            part.starts_with(".annals-") || part.starts_with("tx-")
        };
        files.retain(|file| file.iter().any(is_draft));
        files
    }

    /// What killed processes have left, after commands that write next to it.
    fn leftovers(&self) -> Vec<String> {
        let found = || -> Vec<String> {
            let files = ["kept", ".local/share/annals"].into_iter().flat_map(|directory| {
                let entries = std::fs::read_dir(self.root.join(directory)).into_iter().flatten().flatten();
                entries.map(|entry| entry.file_name().to_string_lossy().into_owned())
            });
            let known = ["annals.db", "old.db", "new.db", "probe.db", "exported.jsonl"];
            let ends = ["", "-wal", "-shm", "-lock", "-index-lock", "-operation-lock"];
            let is_known = |name: &String| {
                name == "annals.index"
                    || known.iter().any(|file| ends.iter().any(|end| *name == format!("{file}{end}")))
            };
            files.filter(|name| !is_known(name)).collect()
        };
        if found().is_empty() {
            return Vec::new();
        }
        for arguments in [&["reindex"][..], &["backup", "kept/probe.db"]] {
            let output = self.command(arguments).output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
        found()
    }
}

/// Copies a directory with everything in it.
fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap();
    assert!(status.success());
}

pub(super) fn compiled(directory: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/faults/shim.c");
    let shim = directory.join("shim.so");
    let output = Command::new("cc")
        .args(["-O1", "-Wall", "-shared", "-fPIC", "-o"])
        .arg(&shim)
        .arg(source)
        .arg("-ldl")
        .output()
        .expect("a C compiler is installed: scripts/test does that");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    shim
}

/// A home that was synced, and has changed since: parts were edited, so that the index has something to delete, one session
/// is new, one is gone.
fn make_bases(root: &Path, shim: &Path) -> [(&'static str, PathBuf); 8] {
    let user = User::in_memory();
    let home = user.opencode();
    for n in 0..6 {
        let id = format!("36b{n}bbffe2");
        user.write_session(&id, &format!("Fix door {n}"), &format!("The cart {n} is open"), "An answer");
    }
    user.write_session("36aaaaffe1", "Fix the cart", "It is empty", &format!("The word is {SECRET}"));
    let place = |base: &Path| Place { root: base.to_owned(), shim: shim.to_owned() };
    let run = |base: &Path, arguments: &[&str]| {
        let output = place(base).command(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    let names = ["new", "changed", "unindexed", "full", "old", "homes", "renamed", "removed"];
    let paths = names.map(|name| (name, root.join(name)));
    let [new, changed, unindexed, full, old, homes, renamed, removed] =
        paths.each_ref().map(|(_, path)| path);
    copy(user.root(), new);
    std::fs::create_dir(new.join("kept")).unwrap();
    run(user.root(), &["sync"]);
    for n in 0..3 {
        let (message, part) = (format!("msg_36b{n}bbffe22"), format!("prt_36b{n}bbffe22"));
        write(
            &home,
            &format!("storage/part/{message}/{part}.json"),
            format!(
                r#"{{"id":"{part}","sessionID":"ses_36b{n}bbffe2","messageID":"{message}","type":"text","text":"edited {n}"}}"#
            ),
        );
    }
    user.write_session("36ccccffe3", "A new one", "The cart again", "edited too");
    std::fs::remove_file(home.join("storage/session/global/ses_36b5bbffe2.json")).unwrap();
    copy(user.root(), changed);
    std::fs::create_dir(changed.join("kept")).unwrap();
    run(user.root(), &["backup", "old.db"]);
    run(user.root(), &["sync", "--no-index"]);
    copy(user.root(), unindexed);
    std::fs::create_dir(unindexed.join("kept")).unwrap();
    run(user.root(), &["sync"]);
    copy(user.root(), full);
    std::fs::create_dir(full.join("kept")).unwrap();
    std::fs::rename(full.join("old.db"), full.join("kept/old.db")).unwrap();
    // Something that is only in the store.
    run(full, &["rm", "--yes", "--home", ".local/share/annals/annals.db", "ses_36b4bbffe2"]);
    copy(full, old);
    let connection = rusqlite::Connection::open(old.join(".local/share/annals/annals.db")).unwrap();
    connection.execute_batch(include_str!("../../../store/tests/back-to-5.sql")).unwrap();
    connection.execute_batch(include_str!("../../../store/tests/back-to-1.sql")).unwrap();
    connection.close().unwrap();
    // The same sessions in a directory and in a database.
    copy(new, homes);
    let fixture = annals_testkit::Fixture::unpack("small-1.18.33");
    std::fs::copy(fixture.home().join("opencode.db"), place(homes).opencode().join("opencode.db")).unwrap();
    run(homes, &["copy", "--from", ".local/share/opencode", "--to", ".local/share/opencode/opencode.db"]);
    run(homes, &["sync"]);
    run(homes, &["export", FORGOTTEN, "--format", "jsonl", "-o", "kept/exported.jsonl"]);
    copy(homes, renamed);
    run(renamed, &["rename", FORGOTTEN, "Another title"]);
    copy(homes, removed);
    run(removed, &["rm", "--yes", FORGOTTEN]);
    paths
}

fn scenarios(root: &Path, shim: &Path) -> Vec<Scenario> {
    let bases: BTreeMap<&str, PathBuf> = make_bases(root, shim).into();
    let commands: [(&str, &str, &[&str]); 17] = [
        ("first sync", "new", &["sync"]),
        ("sync", "changed", &["sync"]),
        ("index", "unindexed", &["search", "edited"]),
        ("prune", "full", &["prune", "--older-than", "2030-01-01", "--yes"]),
        ("forget", "full", &["forget", FORGOTTEN, "--yes"]),
        ("backup", "full", &["backup", "kept/new.db"]),
        ("restore-backup", "full", &["restore-backup", "kept/old.db", "--yes"]),
        ("upgrade", "old", &["list"]),
        ("reindex", "full", &["reindex"]),
        ("rename", "homes", &["rename", FORGOTTEN, "A new title"]),
        ("archive", "homes", &["archive", FORGOTTEN, "ses_36b0bbffe2"]),
        ("rm", "homes", &["rm", "--yes", FORGOTTEN]),
        ("revert", "homes", &["revert", FORGOTTEN, "msg_36aaaaffe12"]),
        ("restore", "renamed", &["restore", FORGOTTEN, "--at", "2"]),
        ("undo of rename", "renamed", &["undo"]),
        ("undo of rm", "removed", &["undo"]),
        ("import", "removed", &["import", "kept/exported.jsonl"]),
    ];
    let scenario = |(name, base, command): &(&'static str, &str, &'static [&'static str])| {
        let base = bases[base].clone();
        let place = |name: &str| {
            let place = Place { root: root.join(name), shim: shim.to_owned() };
            let _ = std::fs::remove_dir_all(&place.root);
            copy(&base, &place.root);
            place
        };
        let before = place("undisturbed").look().unwrap();
        let undisturbed = place("undisturbed");
        let is_operation = base.join("kept/exported.jsonl").exists();
        let reach = if is_operation { Reach::Homes } else { Reach::Store };
        let none = Fault { calls: "", at: 0, kind: "none" };
        let (code, said, calls) = undisturbed.disturbed(command, none, reach);
        assert_eq!(code, Some(0), "{name}: {said}");
        let after = undisturbed.look().unwrap();
        assert!(!is_operation || before != after, "{name} changes nothing");
        Scenario { name, command, base, before, after, calls, reach }
    };
    commands.iter().map(scenario).collect()
}

fn next(random: &mut u64) -> usize {
    *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*random >> 33) as usize
}

/// The faults that a command is to meet: each of its calls of a kind, or some of them.
fn faults(scenario: &Scenario, takes_all: bool, random: &mut u64) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (calls, kinds, every) in [
        ("s", &["kill", "eio"][..], 1),
        ("wtnud", &["kill"], 5),
        ("w", &["enospc", "eio", "short", "eintr"], 7),
        ("t", &["enospc", "eio", "eintr"], 1),
        ("o", &["emfile", "eio", "eintr"], 5),
        ("nud", &["eio", "enospc"], 2),
        ("m", &["emfile", "eio"], 2),
        ("r", &["eio", "eintr", "short"], 9),
    ] {
        let n: usize = calls.chars().filter_map(|letter| scenario.calls.get(&letter)).sum();
        for kind in kinds {
            if takes_all {
                faults.extend((1..=n).step_by(every).map(|at| Fault { calls, at, kind }));
                continue;
            }
            let n_wanted = if calls == "s" { SAMPLE } else { next(random) % 2 };
            for _ in 0..n_wanted.min(n) {
                faults.push(Fault { calls, at: 1 + next(random) % n, kind });
            }
        }
    }
    faults
}

/// Lets a command meet a fault and looks at what is there afterwards: what is wrong with it, if anything.
fn meet(
    root: &Path,
    shim: &Path,
    n: usize,
    scenario: &Scenario,
    fault: Fault,
) -> Result<Option<i32>, String> {
    let place = Place { root: root.join(format!("run-{n}")), shim: shim.to_owned() };
    copy(&scenario.base, &place.root);
    let (code, said, _) = place.disturbed(scenario.command, fault, scenario.reach);
    if code.is_none() && fault.kind != "kill" {
        return Err(format!("it was killed: {said}"));
    }
    let is_acknowledged = code == Some(0);
    // What search found cannot be less than what is there.
    let seen = place.look().map_err(|error| format!("exit {code:?}, then {error}"))?;
    let is_right = match is_acknowledged {
        true => seen == scenario.after,
        false => seen == scenario.before || seen == scenario.after,
    };
    if !is_right {
        let expected = &scenario.after;
        return Err(format!("exit {code:?}: {said}\nseen {seen:#?}\nexpected {expected:#?}"));
    }
    if scenario.name == "backup" {
        let backup = place.root.join("kept/new.db");
        let is_store = || place.json(&["check", "--json", "--home", "kept/new.db"]);
        if backup.exists() || is_acknowledged {
            is_store().map_err(|error| format!("exit {code:?}, but the backup: {error}"))?;
        }
    }
    if scenario.name == "forget" {
        if !is_acknowledged {
            // Said again, it is done to the end.
            let none = Fault { calls: "", at: 0, kind: "none" };
            let (again, said, _) = place.disturbed(scenario.command, none, scenario.reach);
            if again != Some(0) {
                return Err(format!("exit {code:?}, again {again:?}: {said}"));
            }
        }
        for file in annals_testkit::files_below(&place.store()) {
            let bytes = std::fs::read(&file).unwrap_or_default();
            if bytes.windows(SECRET.len()).any(|window| window == SECRET.as_bytes()) {
                return Err(format!("exit {code:?}: {} holds the secret", file.display()));
            }
        }
    }
    let drafts = place.drafts();
    if !drafts.is_empty() {
        return Err(format!("exit {code:?}: left in OpenCode's home: {drafts:?}"));
    }
    let mut left = place.leftovers();
    // A copy that an upgrade or a restore makes is one that the user is told of.
    if ["restore-backup", "upgrade"].contains(&scenario.name) {
        left.retain(|name| !name.starts_with("annals.db.before-"));
    }
    if !left.is_empty() {
        return Err(format!("exit {code:?}: left behind {left:?}"));
    }
    std::fs::remove_dir_all(&place.root).unwrap();
    Ok(code)
}

#[test]
fn whatever_fails_nothing_acknowledged_is_lost_and_no_answer_is_wrong() {
    let wanted = std::env::var(POINTS).ok();
    let directory = memory();
    let root = directory.path().canonicalize().unwrap();
    let shim = compiled(&root);
    let scenarios = scenarios(&root, &shim);
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut points: Vec<(usize, &Scenario, Fault)> = Vec::new();
    for scenario in &scenarios {
        for fault in faults(scenario, wanted.is_some(), &mut random) {
            points.push((points.len(), scenario, fault));
        }
    }
    if wanted.as_deref() == Some("syncs") {
        points.retain(|(_, _, fault)| fault.calls == "s");
    }
    // One point by its number, and what it leaves.
    if let Ok(point) = std::env::var("ANNALS_FAULT_POINT") {
        points.retain(|(n, _, _)| n.to_string() == point);
    } else if let Some(n_wanted) = wanted.and_then(|wanted| wanted.parse::<usize>().ok()) {
        while points.len() > n_wanted {
            points.swap_remove(next(&mut random) % points.len());
        }
    }
    let started = Instant::now();
    let results = in_parallel(&points, |(n, scenario, fault)| meet(&root, &shim, *n, scenario, *fault));
    // Killed, failed, and done all the same: by command and kind of fault.
    let mut figures: BTreeMap<(&str, &str), [usize; 3]> = BTreeMap::new();
    let mut wrong = Vec::new();
    for ((n, scenario, fault), result) in points.iter().zip(&results) {
        let figure = figures.entry((scenario.name, fault.kind)).or_default();
        match result {
            Ok(None) => figure[0] += 1,
            Ok(Some(0)) => figure[2] += 1,
            Ok(Some(_)) => figure[1] += 1,
            Err(what) => wrong.push(format!("{n} {}: {fault:?}: {what}", scenario.name)),
        }
    }
    if std::env::var_os("ANNALS_FAULT_POINT").is_some() {
        println!("kept in {}", directory.keep().display());
    }
    for scenario in &scenarios {
        println!("{}: calls {:?}", scenario.name, scenario.calls);
    }
    for ((name, kind), [killed, failed, done]) in &figures {
        println!("{name}, {kind}: {killed} killed, {failed} reported, {done} done all the same");
    }
    println!("{} faults in {:?}, {} wrong", points.len(), started.elapsed(), wrong.len());
    assert!(wrong.is_empty(), "{} of {} are wrong:\n{}", wrong.len(), points.len(), wrong.join("\n"));
}

/// A signal that comes while a file of a home is read is no reason to put the document aside.
#[test]
fn an_interrupted_read_of_a_home_is_made_again() {
    let user = User::in_memory();
    user.write_session("36aaaaffe1", "Fix the cart", "It is empty", "The answer");
    let shim = compiled(user.root());
    let run = |at: usize| {
        let tell = user.root().join("told");
        let ran = user
            .annals(&["--home", ".local/share/opencode", "export", "cart"])
            .env("LD_PRELOAD", &shim)
            .env("FAULT_DIRS", user.opencode())
            .env("FAULT_CALLS", "r")
            .env("FAULT_AT", at.to_string())
            .env("FAULT_KIND", "eintr")
            .env("FAULT_TELL", &tell)
            .run();
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "read {at}: {ran}");
        let told = std::fs::read_to_string(&tell).unwrap();
        (ran.stdout, told.lines().find_map(|line| line.strip_prefix("r ")?.parse::<usize>().ok()).unwrap())
    };
    let (exported, n_reads) = run(0);
    assert!(n_reads >= 5, "{n_reads} reads");
    for at in 1..=n_reads {
        assert!(run(at).0 == exported, "read {at}");
    }
}
