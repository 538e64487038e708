//! A power cut at any moment leaves every acknowledged revision of a store, a database that checks, and an index that heals.
//!
//! As in `powercut`, a writer runs under `strace`, and from its system calls the states are built that a disk could be left in. Here
//! files are written to at any place and more than once, so what was not synced is lost, kept, or torn write by write: each write
//! since the last sync of its file has reached the disk, or has not, or has in part, whatever came after it. A name is safe when its
//! directory was synced. A rename is atomic. The index of the log (`-shm`) is in memory; nothing of it is kept.
//!
//! The test looks at a sample of the states, `scripts/faults` at all of them or as many as one likes; docs/reliability.md has the figures.

use annals::search::Search;
use annals::store::Store;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use annals::home::{Inspect, Write};
use annals::model::id::{MessageId, PartId, SessionId};
use annals::model::search::query::parse;
use annals::search::{SearchError, SearchRequest, Wanted};
use annals::stores::sqlite::SqliteStore;

use super::crash::{state, transaction};
use super::kit::Sample;
use super::powercut::{quoted, whole_lines};

const STORE: &str = "ANNALS_TEST_POWERCUT_STORE";
/// How many states to look at: a number, or `all`. Unset for the short form.
const STATES: &str = "ANNALS_FAULTS";
/// How many states the short form looks at.
const SAMPLE: usize = 150;
/// The store is opened and closed so often, which empties the log; each time it commits and indexes.
const ROUNDS: usize = 5;
const COMMITS: usize = 4;
/// Disks write in such pieces.
const SECTOR: usize = 512;
/// Long after everything that a store says was written.
const NOW: i64 = 1_900_000_000_000;

/// The writer that is watched: not a test, but what the test starts this binary for.
#[test]
fn writer_of_a_store_that_is_watched() {
    let Ok(path) = std::env::var(STORE) else { return };
    let sample = Sample::new(SessionId::parse("ses_4afbda00cffeZebra000000001").unwrap(), "/home/dev/shop");
    for round in 0..ROUNDS {
        let store = SqliteStore::open_or_create(Path::new(&path)).unwrap();
        for n in round * COMMITS + 1..=(round + 1) * COMMITS {
            // Documents that are changed each time, so that the index has something to delete, and new ones.
            let now = 1_766_578_085_876 + n as i64;
            let message = MessageId::parse(&format!("msg_b50427{n:06x}Zebra000000001")).unwrap();
            let part = PartId::parse(&format!("prt_b50427{n:06x}Zebra000000001")).unwrap();
            let mut changes = transaction(&store, 0, n);
            changes.put(sample.session_key(), sample.session_document(&format!("zebra {n}"), now));
            for (key, document) in
                [sample.prompt(&message, now), sample.text(&message, &part, &format!("the zebra said {n}"))]
            {
                changes.put(key, document);
            }
            let revision = store.commit(changes).unwrap().revision.unwrap();
            println!("acknowledged {n} {revision}");
            if n % 2 == 0 {
                store.update_index(&|_, _| ()).unwrap();
            }
        }
    }
}

/// What a system call did. Files are known by numbers, as a file system knows them.
#[derive(Debug)]
enum Call {
    Write(usize, u64, Vec<u8>),
    Truncate(usize, u64),
    Sync(usize),
    SyncDir(PathBuf),
    MakeDir(PathBuf),
    Name(PathBuf, usize),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
    Acknowledge(usize, i64),
}

/// How much of what was not synced has reached the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Luck {
    None,
    All,
    Some,
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n.max(1)
    }
}

#[test]
fn every_acknowledged_revision_survives_a_power_cut() {
    let wanted = std::env::var(STATES).unwrap_or_else(|_| SAMPLE.to_string());
    // In memory, where there is such a place: a sync takes no time there.
    let memory = Path::new("/dev/shm");
    let dir = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap();
    let root = dir.path().canonicalize().unwrap();
    std::fs::create_dir(root.join("store")).unwrap();
    let calls = traced_calls(&root);
    let n_syncs = calls.iter().filter(|call| matches!(call, Call::Sync(_) | Call::SyncDir(_))).count();
    let n_acknowledged = calls.iter().filter(|call| matches!(call, Call::Acknowledge(..))).count();
    assert_eq!(n_acknowledged, ROUNDS * COMMITS);
    assert!(n_syncs > 10 * ROUNDS, "{n_syncs} syncs in {} calls", calls.len());
    let mut random = Random(0x1234_5678_9abc_def1);
    let mut states: Vec<(usize, Luck)> = (0..=calls.len())
        .flat_map(|end| [Luck::None, Luck::All, Luck::Some, Luck::Some].map(|luck| (end, luck)))
        .collect();
    if let Ok(n_wanted) = wanted.parse::<usize>() {
        states = (0..n_wanted).map(|_| states[random.below(states.len())]).collect();
    }
    let mut found = [0; 4];
    for (end, luck) in &states {
        let target = root.join("after");
        write_state(&calls[..*end], *luck, &mut random, &root.join("store"), &target);
        let acknowledged = calls[..*end].iter().rev().find_map(|call| match call {
            Call::Acknowledge(n, revision) => Some((*n, *revision)),
            _ => None,
        });
        let told = format!("after call {end} of {}, luck {luck:?}", calls.len());
        let healed = examine(&target, acknowledged, &told);
        found[healed as usize] += 1;
        std::fs::remove_dir_all(&target).unwrap();
    }
    let [none, up_to_date, behind, unusable] = found;
    println!(
        "{} calls, {n_syncs} syncs, {n_acknowledged} revisions acknowledged; {} states of the disk: {none} before the store was there, \
         index up to date in {up_to_date}, behind in {behind}, unusable and made anew in {unusable}",
        calls.len(),
        states.len()
    );
}

/// What was found of the index.
#[derive(Debug, Clone, Copy)]
enum Found {
    NoStore,
    UpToDate,
    Behind,
    Unusable,
}

/// Opens a store after a power cut and looks at everything that was acknowledged.
fn examine(directory: &Path, acknowledged: Option<(usize, i64)>, told: &str) -> Found {
    let path = directory.join("annals.db");
    if !path.exists() {
        assert_eq!(acknowledged, None, "{told}: there is no store");
        return Found::NoStore;
    }
    let store = SqliteStore::open(&path).unwrap_or_else(|error| panic!("{told}: {error}"));
    assert_eq!(store.lost(), None, "{told}");
    let head = store.head().unwrap();
    let (n, revision) = acknowledged.unwrap_or_default();
    assert!(head == revision || head == revision + 1, "{told}: at {head}, acknowledged {revision}");
    let seen = state(&store, 0).unwrap_or(0);
    assert!(seen == n || seen == n + 1, "{told}: transaction {seen}, acknowledged {n}");
    let problems = store.check(NOW, &|| {}).unwrap();
    assert!(problems.is_empty(), "{told}: {problems:#?}");
    // The documents themselves tell what an index has to find.
    let search = |wanted: Wanted| store.search(&SearchRequest { limit: 1000, ..SearchRequest::new(wanted) });
    let total = search(Wanted::Substring { text: "zebra".to_owned(), ignore_case: false }).unwrap().total;
    assert_eq!(total, if seen == 0 { 0 } else { seen + 1 }, "{told}");
    let words = || search(Wanted::Words(parse("zebra").unwrap()));
    let found = match words() {
        Ok(hits) if hits.unindexed == 0 => {
            assert_eq!(hits.total, total, "{told}: an index that says it is up to date");
            Found::UpToDate
        }
        Ok(_) => Found::Behind,
        Err(SearchError::Index { .. }) => Found::Unusable,
        Err(error) => panic!("{told}: {error}"),
    };
    store.update_index(&|_, _| ()).unwrap_or_else(|error| panic!("{told}: {error}"));
    let healed = words().unwrap_or_else(|error| panic!("{told}: {error}"));
    assert_eq!((healed.total, healed.unindexed), (total, 0), "{told}: {found:?}");
    // It goes on.
    store.commit(transaction(&store, 0, seen + 1)).unwrap_or_else(|error| panic!("{told}: {error}"));
    store.update_index(&|_, _| ()).unwrap_or_else(|error| panic!("{told}: {error}"));
    found
}

/// Makes real what can be found on the disk after the power failed behind the last of `calls`.
fn write_state(calls: &[Call], luck: Luck, random: &mut Random, store: &Path, target: &Path) {
    let mut contents: HashMap<usize, Vec<u8>> = HashMap::new();
    let mut synced_until: HashMap<usize, usize> = HashMap::new();
    for (at, call) in calls.iter().enumerate() {
        if let Call::Sync(file) = call {
            synced_until.insert(*file, at);
        }
    }
    let mut names: BTreeMap<&Path, Option<usize>> = BTreeMap::new();
    for (at, call) in calls.iter().enumerate() {
        let mut happens =
            |is_safe: bool| is_safe || luck == Luck::All || luck == Luck::Some && random.below(2) == 0;
        let is_synced = |path: &Path| {
            let holder = path.parent();
            calls[at..].iter().any(|call| matches!(call, Call::SyncDir(dir) if Some(dir.as_path()) == holder))
        };
        match call {
            Call::Write(file, offset, bytes) => {
                if happens(synced_until.get(file).is_some_and(|until| at < *until)) {
                    let is_safe = synced_until.get(file).is_some_and(|until| at < *until);
                    // A write that was under way has reached the disk in some of its sectors, from the first on or not.
                    let torn = luck == Luck::Some && !is_safe && random.below(3) == 0;
                    let content = contents.entry(*file).or_default();
                    let offset = *offset as usize;
                    for (n, sector) in bytes.chunks(SECTOR).enumerate() {
                        if torn && random.below(2) == 0 {
                            continue;
                        }
                        let from = offset + n * SECTOR;
                        if content.len() < from + sector.len() {
                            content.resize(from + sector.len(), 0);
                        }
                        content[from..from + sector.len()].copy_from_slice(sector);
                    }
                }
            }
            Call::Truncate(file, length) => {
                if happens(synced_until.get(file).is_some_and(|until| at < *until)) {
                    contents.entry(*file).or_default().resize(*length as usize, 0);
                }
            }
            Call::MakeDir(path) => {
                if happens(is_synced(path)) {
                    names.insert(path, None);
                }
            }
            Call::Name(path, file) => {
                if happens(is_synced(path)) {
                    names.insert(path, Some(*file));
                }
            }
            Call::Rename(from, to) => {
                if happens(is_synced(to)) {
                    // Where even the old name never reached the disk, the new one brings the file with it.
                    let file = names.remove(from.as_path()).or_else(|| named(&calls[..at], from));
                    if let Some(file) = file {
                        names.insert(to, file);
                    }
                }
            }
            Call::Remove(path) => {
                if happens(is_synced(path)) {
                    names.remove(path.as_path());
                }
            }
            Call::Sync(_) | Call::SyncDir(_) | Call::Acknowledge(..) => {}
        }
    }
    std::fs::create_dir_all(target).unwrap();
    for (path, file) in names {
        let Ok(relative) = path.strip_prefix(store) else { continue };
        let path = target.join(relative);
        // What is below a directory that never reached the disk cannot be found.
        if !path.parent().is_some_and(Path::is_dir) || path.to_string_lossy().ends_with("-shm") {
            continue;
        }
        match file {
            None => std::fs::create_dir_all(&path).unwrap(),
            Some(file) => std::fs::write(&path, contents.get(&file).map_or(&[][..], Vec::as_slice)).unwrap(),
        }
    }
}

/// What a name stood for when everything was as it was called for.
fn named(calls: &[Call], name: &Path) -> Option<Option<usize>> {
    calls.iter().enumerate().rev().find_map(|(at, call)| match call {
        Call::Name(path, file) if path == name => Some(Some(Some(*file))),
        Call::MakeDir(path) if path == name => Some(Some(None)),
        Call::Rename(from, to) if to == name => Some(named(&calls[..at], from)),
        _ => None,
    })?
}

/// Runs the writer under strace and reads off what it did.
fn traced_calls(root: &Path) -> Vec<Call> {
    let log = root.join("trace");
    let status = Command::new("strace")
        .args(["-f", "-y", "-qq", "-s", "10000000", "-e", "signal=none", "-e"])
        .arg(
            "trace=openat,openat2,open,creat,write,pwrite64,pwritev,writev,lseek,ftruncate,truncate,fallocate,fsync,fdatasync,\
             rename,renameat,renameat2,unlink,unlinkat,rmdir,mkdir,mkdirat,link,linkat,sync_file_range,copy_file_range",
        )
        .arg("-o")
        .arg(&log)
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "runner::annals_powercut::writer_of_a_store_that_is_watched", "--nocapture", "--test-threads=1"])
        .env(STORE, root.join("store/annals.db"))
        .stdout(Stdio::null())
        .status()
        .expect("strace is installed: scripts/test does that");
    assert!(status.success());
    // Of what was written to the terminal nothing but bytes matters; the log is not all text.
    let text = String::from_utf8_lossy(&std::fs::read(&log).unwrap()).into_owned();
    let mut tracing = Tracing { store: root.join("store"), ..Tracing::default() };
    whole_lines(&text).filter_map(|line| tracing.parse(&line)).flatten().collect()
}

/// The files that the writer has open and has named, as far as its calls were read.
#[derive(Default)]
struct Tracing {
    store: PathBuf,
    n_files: usize,
    names: HashMap<PathBuf, usize>,
    /// By descriptor: the file, and where it is written to next.
    open: HashMap<u32, (usize, u64)>,
}

impl Tracing {
    fn parse(&mut self, line: &str) -> Option<Vec<Call>> {
        let (_, call) = line.split_once(' ')?;
        let (name, rest) = call.trim_start().split_once('(')?;
        let (arguments, result) = rest.rsplit_once(") = ").or_else(|| rest.rsplit_once(" = "))?;
        if result.starts_with('-') {
            return None;
        }
        let descriptor = |text: &str| text.split('<').next()?.trim().parse::<u32>().ok();
        let path_of = |text: &str| Some(PathBuf::from(text.split_once('<')?.1.split_once('>')?.0));
        let strings = quoted(arguments);
        let numbers = || arguments.rsplit(", ").map(|word| word.trim_end_matches(')').trim());
        // A name is relative to the directory that stands before it.
        let named = |nth: usize| {
            let name = PathBuf::from(std::str::from_utf8(strings.get(nth)?).ok()?);
            let before = arguments.split('"').nth(2 * nth)?;
            let path = match name.is_absolute() {
                true => name,
                false => path_of(before)?.join(name),
            };
            path.starts_with(&self.store).then_some(path)
        };
        match name {
            "openat" | "openat2" | "open" | "creat" => {
                let path = path_of(result)?;
                let fd = descriptor(result)?;
                self.open.remove(&fd);
                if !path.starts_with(&self.store) || arguments.contains("O_TMPFILE") || path.is_dir() {
                    return None;
                }
                let mut calls = Vec::new();
                let known = self.names.get(&path).copied();
                let file = known.unwrap_or_else(|| {
                    self.n_files += 1;
                    self.n_files
                });
                if known.is_none() {
                    if !arguments.contains("O_CREAT") {
                        // A directory that is gone, opened to be listed or synced.
                        return None;
                    }
                    self.names.insert(path.clone(), file);
                    calls.push(Call::Name(path, file));
                } else if arguments.contains("O_TRUNC") {
                    calls.push(Call::Truncate(file, 0));
                }
                self.open.insert(fd, (file, 0));
                Some(calls)
            }
            "write" if arguments.starts_with("1<") => {
                let text = String::from_utf8_lossy(strings.first()?).into_owned();
                let mut words = text.split_once("acknowledged ")?.1.split_whitespace();
                let (n, revision) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
                Some(vec![Call::Acknowledge(n, revision)])
            }
            "write" => {
                let (file, offset) = self.open.get_mut(&descriptor(arguments)?)?;
                let bytes = strings.into_iter().next()?;
                assert_eq!(bytes.len().to_string(), result.trim(), "{name} of a part");
                let call = Call::Write(*file, *offset, bytes);
                *offset += result.trim().parse::<u64>().ok()?;
                Some(vec![call])
            }
            "pwrite64" => {
                let (file, _) = self.open.get(&descriptor(arguments)?)?;
                let offset = numbers().next()?.parse().ok()?;
                Some(vec![Call::Write(*file, offset, strings.into_iter().next()?)])
            }
            "lseek" => {
                let (_, offset) = self.open.get_mut(&descriptor(arguments)?)?;
                *offset = result.trim().parse().ok()?;
                None
            }
            "ftruncate" => {
                let (file, _) = self.open.get(&descriptor(arguments)?)?;
                Some(vec![Call::Truncate(*file, numbers().next()?.parse().ok()?)])
            }
            "fsync" | "fdatasync" => {
                let fd = descriptor(arguments)?;
                match self.open.get(&fd) {
                    Some((file, _)) => Some(vec![Call::Sync(*file)]),
                    None => {
                        let path = path_of(arguments).filter(|path| path.starts_with(&self.store))?;
                        Some(vec![Call::SyncDir(path)])
                    }
                }
            }
            "mkdir" | "mkdirat" => Some(vec![Call::MakeDir(named(0)?)]),
            "rename" | "renameat" | "renameat2" => {
                let (from, to) = (named(0)?, named(1)?);
                if let Some(file) = self.names.remove(&from) {
                    self.names.insert(to.clone(), file);
                }
                Some(vec![Call::Rename(from, to)])
            }
            "link" | "linkat" => {
                let (from, to) = (named(0)?, named(1)?);
                let file = *self.names.get(&from)?;
                self.names.insert(to.clone(), file);
                Some(vec![Call::Name(to, file)])
            }
            "unlink" | "unlinkat" | "rmdir" => {
                let path = named(0)?;
                self.names.remove(&path);
                Some(vec![Call::Remove(path)])
            }
            _ => {
                let is_ours = arguments.contains(&*self.store.to_string_lossy());
                assert!(!is_ours, "a call this test does not follow: {line}");
                None
            }
        }
    }
}
