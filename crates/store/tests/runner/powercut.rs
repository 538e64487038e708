//! A power cut at any moment leaves every acknowledged transaction whole.
//!
//! Killing a process does not test this: what it wrote is in the kernel's memory and survives it. Here a writer runs under
//! `strace`; from its system calls the states are built that a disk could be left in if the power failed after any of
//! them. Guaranteed is only what was synced: a file's content by syncing the file, a name by syncing its directory. Of
//! the rest nothing, everything or anything may have reached the disk. A rename is atomic, as on every file system that
//! journals.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::crash::{SESSIONS, state, transaction};
use super::kit::open;

const HOME: &str = "ANNALS_TEST_POWERCUT_HOME";
const TRANSACTIONS: usize = 6;

/// The writer that is watched: not a test, but what the test starts this binary for.
#[test]
fn writer_that_is_watched() {
    use annals::home::Write;
    let Ok(path) = std::env::var(HOME) else { return };
    let home = open(Path::new(&path));
    for n in 1..=TRANSACTIONS {
        for session in 0..SESSIONS.min(2) {
            home.commit(transaction(&home, session, n)).unwrap();
            println!("acknowledged {session} {n}");
        }
    }
}

/// What a system call did to the disk.
#[derive(Debug, Clone)]
enum Call {
    Create(PathBuf),
    Write(PathBuf, Vec<u8>),
    Sync(PathBuf),
    MakeDir(PathBuf),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
    Acknowledge(usize, usize),
}

#[test]
fn every_acknowledged_transaction_survives_a_power_cut() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let home = root.join("home");
    std::fs::create_dir_all(home.join("storage")).unwrap();
    let calls = traced_calls(&root, &home);
    let n_syncs = calls.iter().filter(|call| matches!(call, Call::Sync(_))).count();
    assert!(n_syncs > 10 * TRANSACTIONS, "{n_syncs} syncs in {} calls", calls.len());
    let mut acknowledged = [0; SESSIONS];
    let mut random = Random(0x1234_5678_9abc_def1);
    let mut n_states = 0;
    for end in 0..=calls.len() {
        if let Some(Call::Acknowledge(session, n)) = end.checked_sub(1).map(|last| &calls[last]) {
            acknowledged[*session] = *n;
        }
        for luck in [Luck::None, Luck::All, Luck::Some, Luck::Some] {
            let disk = after_power_cut(&calls[..end], luck, &mut random);
            let target = root.join("after");
            disk.write_to(&home, &target);
            let found = open(&target);
            for (session, acknowledged) in acknowledged.iter().enumerate() {
                let seen = state(&found, session).unwrap_or(0);
                assert!(
                    seen == *acknowledged || seen == acknowledged + 1,
                    "after call {end} of {}, luck {luck:?}: session {session} is at {seen}, acknowledged {acknowledged}",
                    calls.len()
                );
            }
            n_states += 1;
            std::fs::remove_dir_all(&target).unwrap();
        }
    }
    println!("{} calls, {n_syncs} syncs, {n_states} states of the disk", calls.len());
}

/// How much of what was not synced has reached the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Luck {
    None,
    All,
    Some,
}

/// The content of a disk: directories are `None`.
#[derive(Debug, Default)]
struct Disk(BTreeMap<PathBuf, Option<Vec<u8>>>);

/// What can be found after the power failed behind the last of `calls`.
fn after_power_cut(calls: &[Call], luck: Luck, random: &mut Random) -> Disk {
    let mut disk = Disk::default();
    // Content goes with the file, not with its name, and what was synced of it is safe wherever the name goes.
    let mut written: BTreeMap<PathBuf, Vec<u8>> = BTreeMap::new();
    let mut synced: BTreeMap<PathBuf, Vec<u8>> = BTreeMap::new();
    for (at, call) in calls.iter().enumerate() {
        let holder = match call {
            Call::Create(path) | Call::MakeDir(path) | Call::Remove(path) | Call::Rename(_, path) => {
                path.parent()
            }
            _ => None,
        };
        // A name is safe once its directory is synced.
        let later = &calls[at..];
        let is_safe =
            later.iter().any(|call| matches!(call, Call::Sync(path) if Some(path.as_path()) == holder));
        let happens = is_safe || luck == Luck::All || luck == Luck::Some && random.coin();
        match call {
            Call::Create(path) => {
                written.insert(path.clone(), Vec::new());
                synced.remove(path);
                if happens {
                    disk.0.insert(path.clone(), Some(Vec::new()));
                }
            }
            Call::Write(path, bytes) => written.entry(path.clone()).or_default().extend(bytes),
            Call::Sync(path) => {
                if let Some(content) = written.get(path) {
                    synced.insert(path.clone(), content.clone());
                }
            }
            Call::MakeDir(path) if happens => drop(disk.0.insert(path.clone(), None)),
            Call::Rename(from, to) => {
                for contents in [&mut written, &mut synced] {
                    match contents.remove(from) {
                        Some(content) => drop(contents.insert(to.clone(), content)),
                        None => drop(contents.remove(to)),
                    }
                }
                if happens {
                    // Where even the old name never reached the disk, the new one brings the file with it.
                    disk.0.remove(from);
                    disk.0.insert(to.clone(), Some(Vec::new()));
                }
            }
            Call::Remove(path) if happens => drop(disk.0.remove(path)),
            _ => {}
        }
    }
    // A name that did not move still stands for what it stood for, so contents are looked up by either end of a rename.
    for (path, content) in &mut disk.0 {
        if let Some(content) = content {
            let safe = synced.get(path).cloned().or_else(|| content_of(calls, path, true));
            let full = written.get(path).cloned().or_else(|| content_of(calls, path, false));
            *content = match (safe, full, luck) {
                (Some(safe), ..) => safe,
                (None, Some(full), Luck::All) => full,
                (None, Some(full), Luck::Some) if random.coin() => full[..full.len() / 2].to_vec(),
                _ => Vec::new(),
            };
        }
    }
    // What is below a directory that never reached the disk cannot be found.
    let known: Vec<PathBuf> = disk.0.keys().cloned().collect();
    let has_parents = |path: &Path| {
        let inside = path.ancestors().skip(1).take_while(|above| !above.as_os_str().is_empty());
        inside.into_iter().all(|above| known.iter().any(|known| known == above))
    };
    disk.0.retain(|path, _| has_parents(path));
    disk
}

/// The content a file had under a name that it has since lost in memory, but not on the disk.
fn content_of(calls: &[Call], name: &Path, only_synced: bool) -> Option<Vec<u8>> {
    let created = calls.iter().rposition(|call| match call {
        Call::Create(path) => path == name,
        Call::Rename(_, to) => to == name,
        _ => false,
    })?;
    if let Call::Rename(from, _) = &calls[created] {
        return content_of(&calls[..created], from, only_synced);
    }
    let mut content = Vec::new();
    let mut safe = None;
    for call in &calls[created..] {
        match call {
            Call::Write(path, bytes) if path == name => content.extend(bytes),
            Call::Sync(path) if path == name => safe = Some(content.clone()),
            Call::Rename(from, _) if from == name => break,
            _ => {}
        }
    }
    if only_synced { safe } else { Some(content) }
}

impl Disk {
    /// Makes the disk's content real. `home` is the directory the paths are in.
    fn write_to(&self, home: &Path, target: &Path) {
        std::fs::create_dir_all(target.join("storage")).unwrap();
        for (path, content) in &self.0 {
            let Ok(relative) = path.strip_prefix(home.strip_prefix("/").unwrap()) else { continue };
            let path = target.join(relative);
            match content {
                None => std::fs::create_dir_all(path).unwrap(),
                Some(bytes) => std::fs::write(path, bytes).unwrap(),
            }
        }
    }
}

struct Random(u64);

impl Random {
    fn coin(&mut self) -> bool {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 63 == 1
    }
}

/// Runs the writer under strace and reads off what it did. Paths are absolute, without their leading slash.
fn traced_calls(root: &Path, home: &Path) -> Vec<Call> {
    let log = root.join("trace");
    let status = Command::new("strace")
        .args(["-f", "-y", "-qq", "-s", "1000000", "-e", "signal=none", "-e"])
        .arg("trace=openat,openat2,write,fsync,fdatasync,rename,renameat,renameat2,unlink,unlinkat,rmdir,mkdir,mkdirat")
        .arg("-o")
        .arg(&log)
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "runner::powercut::writer_that_is_watched", "--nocapture", "--test-threads=1"])
        .env(HOME, home)
        .stdout(std::process::Stdio::null())
        .status()
        .expect("strace is installed: scripts/test does that");
    assert!(status.success());
    let text = std::fs::read_to_string(&log).unwrap();
    let mut calls: Vec<Call> =
        (home.strip_prefix("/").unwrap().ancestors().collect::<Vec<_>>().into_iter().rev())
            .filter(|path| !path.as_os_str().is_empty())
            .map(|path| Call::MakeDir(path.to_owned()))
            .collect();
    calls.push(Call::MakeDir(home.strip_prefix("/").unwrap().join("storage")));
    let before: Vec<PathBuf> =
        calls
            .iter()
            .map(|call| {
                if let Call::MakeDir(path) = call {
                    path.parent().unwrap().to_owned()
                } else {
                    unreachable!()
                }
            })
            .collect();
    calls.extend(before.into_iter().map(Call::Sync));
    calls.extend(whole_lines(&text).filter_map(|line| parse(&line, home)));
    calls
}

/// The lines of a log, those of calls that were interrupted by another thread's put together, where they ended.
pub(super) fn whole_lines(log: &str) -> impl Iterator<Item = String> {
    let mut begun: BTreeMap<&str, &str> = BTreeMap::new();
    log.lines().filter_map(move |line| {
        let (thread, rest) = line.split_once(' ')?;
        if let Some(beginning) = line.strip_suffix(" <unfinished ...>") {
            begun.insert(thread, beginning);
            return None;
        }
        match rest.trim_start().strip_prefix("<... ").and_then(|rest| rest.split_once(" resumed>")) {
            Some((_, end)) => {
                // `)`, spaces to align, `= result`.
                let result = end.trim_start_matches(')').trim_start();
                Some(format!("{}) {result}", begun.remove(thread)?))
            }
            None => Some(line.to_owned()),
        }
    })
}

fn parse(line: &str, home: &Path) -> Option<Call> {
    let (_, call) = line.split_once(' ')?;
    let call = call.trim_start();
    let (name, rest) = call.split_once('(')?;
    let (arguments, result) = rest.rsplit_once(") = ")?;
    if result.starts_with('-') {
        return None;
    }
    let handle = |text: &str| Some(PathBuf::from(text.split_once("</")?.1.split_once('>')?.0));
    let strings = quoted(arguments);
    let inside = |path: PathBuf| path.starts_with(home.strip_prefix("/").unwrap()).then_some(path);
    let named = |nth: usize| {
        let directory = arguments.split("\", ").nth(nth).and_then(handle)?;
        inside(directory.join(std::str::from_utf8(strings.get(nth)?).ok()?))
    };
    match name {
        "openat" | "openat2" if arguments.contains("O_CREAT") => inside(handle(result)?).map(Call::Create),
        "write" if arguments.starts_with("1<") => {
            let text = String::from_utf8(strings.first()?.clone()).ok()?;
            let mut words =
                text.split_once("acknowledged ")?.1.split_whitespace().map(|word| word.parse().unwrap());
            Some(Call::Acknowledge(words.next()?, words.next()?))
        }
        "write" => Some(Call::Write(inside(handle(arguments)?)?, strings.first()?.clone())),
        "fsync" | "fdatasync" => inside(handle(arguments)?).map(Call::Sync),
        "mkdirat" => named(0).map(Call::MakeDir),
        "unlinkat" => named(0).map(Call::Remove),
        "renameat" | "renameat2" => Some(Call::Rename(named(0)?, named(1)?)),
        "rename" | "unlink" | "mkdir" | "rmdir" => panic!("a call this test does not follow: {line}"),
        _ => None,
    }
}

/// The string arguments of a call, as strace escapes them.
pub(super) fn quoted(arguments: &str) -> Vec<Vec<u8>> {
    let mut strings = Vec::new();
    let mut bytes = arguments.bytes().peekable();
    while let Some(byte) = bytes.next() {
        if byte != b'"' {
            continue;
        }
        let mut string = Vec::new();
        while let Some(byte) = bytes.next() {
            match byte {
                b'"' => break,
                b'\\' => match bytes.next().unwrap() {
                    b'n' => string.push(b'\n'),
                    b't' => string.push(b'\t'),
                    b'r' => string.push(b'\r'),
                    b'v' => string.push(0x0b),
                    b'f' => string.push(0x0c),
                    digit @ b'0'..=b'7' => {
                        let (mut value, mut n_digits) = (u32::from(digit - b'0'), 1);
                        while let Some(digit @ b'0'..=b'7') = bytes.peek().copied().filter(|_| n_digits < 3) {
                            n_digits += 1;
                            value = value * 8 + u32::from(digit - b'0');
                            bytes.next();
                        }
                        string.push(u8::try_from(value).unwrap());
                    }
                    other => string.push(other),
                },
                byte => string.push(byte),
            }
        }
        strings.push(string);
    }
    strings
}
