//! Running `annals` as a user would, in surroundings that are always the same.

use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

use serde_json::Value;

/// The day after the last session of the sample that `annals demo` shows.
pub(crate) const NOW_OF_SAMPLE: &str = "1771074000000";

/// The moment all commands think it is: shortly after the sessions of the 1.1.65 fixture.
pub(crate) const NOW: &str = "1772020980000";

/// A command to be run.
#[must_use = "a command does nothing until it is run"]
pub(crate) struct AnnalsCommand {
    command: Command,
    stdin: Vec<u8>,
    root: PathBuf,
}

/// What a command printed.
#[must_use = "look at what it printed"]
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
    root: PathBuf,
}

/// `annals` with arguments, on the home at `root`, a directory or a database.
pub(crate) fn annals(root: &Path, arguments: &[&str]) -> AnnalsCommand {
    let mut command = plain(directory_of(root), &[]);
    command.command.arg("--home").arg(root).args(arguments);
    command
}

/// `annals` with arguments and nothing else.
pub(crate) fn plain(root: &Path, arguments: &[&str]) -> AnnalsCommand {
    let mut command = Command::new(env!("CARGO_BIN_EXE_annals"));
    command
        .args(arguments)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", root)
        .env("TZ", "UTC")
        .env("ANNALS_NOW", NOW)
        .current_dir(root);
    AnnalsCommand { command, stdin: Vec::new(), root: root.to_owned() }
}

/// A user of OpenCode, whose commands find everything by themselves.
pub(crate) struct User {
    dir: tempfile::TempDir,
}

impl User {
    /// Nobody has ever run OpenCode here.
    pub(crate) fn new() -> User {
        User { dir: tempfile::tempdir().unwrap() }
    }

    /// The same in memory, where there is such a place: to sync a file takes no time there. For tests of many states.
    pub(crate) fn in_memory() -> User {
        User { dir: memory() }
    }

    /// OpenCode has left what is in a fixture.
    pub(crate) fn with(fixture: &str) -> User {
        let user = User::new();
        let fixture = annals_testkit::Fixture::unpack(fixture);
        std::fs::create_dir_all(user.opencode()).unwrap();
        for entry in std::fs::read_dir(fixture.home()).unwrap() {
            let entry = entry.unwrap();
            std::fs::rename(entry.path(), user.opencode().join(entry.file_name())).unwrap();
        }
        user
    }

    pub(crate) fn root(&self) -> &Path {
        self.dir.path()
    }

    /// OpenCode's data directory.
    pub(crate) fn opencode(&self) -> PathBuf {
        self.root().join(".local/share/opencode")
    }

    /// The user's store.
    pub(crate) fn store(&self) -> PathBuf {
        self.root().join(".local/share/annals/annals.db")
    }

    pub(crate) fn annals(&self, arguments: &[&str]) -> AnnalsCommand {
        plain(self.root(), arguments)
    }

    /// A command at another time than all others: so many minutes later.
    pub(crate) fn later(&self, minutes: i64, arguments: &[&str]) -> AnnalsCommand {
        let now = NOW.parse::<i64>().unwrap() + minutes * 60_000;
        self.annals(arguments).env("ANNALS_NOW", now.to_string())
    }

    /// Every file of OpenCode's with its bytes.
    pub(crate) fn files(&self) -> std::collections::BTreeMap<PathBuf, Vec<u8>> {
        let files = annals_testkit::files_below(&self.opencode()).into_iter();
        files.map(|path| (path.clone(), std::fs::read(&path).unwrap())).collect()
    }

    /// A session with a prompt and an answer, as OpenCode 1.1 writes it.
    pub(crate) fn write_session(&self, id: &str, title: &str, prompt: &str, answer: &str) {
        let (home, created) = (self.opencode(), 1_771_950_000_000_i64);
        write(
            &home,
            &format!("storage/session/global/ses_{id}.json"),
            format!(
                r#"{{"id":"ses_{id}","projectID":"global","directory":"/home/dev","title":"{title}","version":"1.1.65","time":{{"created":{created},"updated":{created}}}}}"#
            ),
        );
        for (n, role, text) in [(1, "user", prompt), (2, "assistant", answer)] {
            self.write_message(id, n, role, created + n, text);
        }
    }

    /// Writes the `n`th message of a session, with one text.
    pub(crate) fn write_message(&self, id: &str, n: i64, role: &str, made: i64, text: &str) {
        let (session, message, part) = (format!("ses_{id}"), format!("msg_{id}{n}"), format!("prt_{id}{n}"));
        write(
            &self.opencode(),
            &format!("storage/message/{session}/{message}.json"),
            format!(
                r#"{{"id":"{message}","sessionID":"{session}","role":"{role}","agent":"build","providerID":"lab","modelID":"lab-large","time":{{"created":{made},"completed":{made}}}}}"#
            ),
        );
        write(
            &self.opencode(),
            &format!("storage/part/{message}/{part}.json"),
            format!(
                r#"{{"id":"{part}","sessionID":"{session}","messageID":"{message}","type":"text","text":"{text}"}}"#
            ),
        );
    }
}

/// A directory in memory, where there is such a place.
pub(crate) fn memory() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory).unwrap() } else { tempfile::tempdir().unwrap() }
}

/// `annals copy --json` with further arguments, which must have copied all it was asked to: its account.
#[track_caller]
pub(crate) fn copy(from: &Path, to: &Path, arguments: &[&str]) -> Value {
    let [from, to] = [from, to].map(|path| path.to_str().unwrap());
    let mut command = plain(directory_of(from.as_ref()), &["copy", "--json", "--from", from, "--to", to]);
    command.command.args(arguments);
    command.run().ok().json()
}

/// The directory of a home that is a directory or a database.
fn directory_of(home: &Path) -> &Path {
    if home.is_file() { home.parent().unwrap() } else { home }
}

/// The export of a session.
pub(crate) fn exported(home: &Path, session: &str) -> Value {
    annals(home, &["export", session]).run().ok().json()
}

/// The rows of `annals list --json` with further arguments.
pub(crate) fn listed(home: &Path, arguments: &[&str]) -> Vec<Value> {
    let rows = annals(home, &[&["list", "--json"], arguments].concat()).run().ok().json();
    rows.as_array().unwrap().clone()
}

/// A text in a JSON object.
#[track_caller]
pub(crate) fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value[field].as_str().unwrap_or_else(|| panic!("no {field} in {value}"))
}

/// What work makes of each item, on a few threads: a command of OpenCode takes seconds.
pub(crate) fn in_parallel<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let queue = Mutex::new(items.iter().enumerate());
    let next = || queue.lock().unwrap().next();
    let worker = || std::iter::from_fn(next).map(|(n, item)| (n, work(item))).collect::<Vec<_>>();
    let mut done: Vec<(usize, R)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..3).map(|_| scope.spawn(worker)).collect();
        let done = threads.into_iter().map(|thread| thread.join());
        done.flat_map(|done| done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    });
    done.sort_by_key(|(n, _)| *n);
    done.into_iter().map(|(_, result)| result).collect()
}

impl AnnalsCommand {
    pub(crate) fn env(mut self, name: &str, value: impl AsRef<std::ffi::OsStr>) -> AnnalsCommand {
        self.command.env(name, value);
        self
    }

    pub(crate) fn current_dir(mut self, directory: &Path) -> AnnalsCommand {
        self.command.current_dir(directory);
        self
    }

    pub(crate) fn stdin(mut self, bytes: &[u8]) -> AnnalsCommand {
        self.stdin = bytes.to_vec();
        self
    }

    pub(crate) fn run(mut self) -> Ran {
        let mut child =
            self.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let bytes = std::mem::take(&mut self.stdin);
        let writer = std::thread::spawn(move || {
            let _ = stdin.write_all(&bytes);
        });
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap();
        Ran {
            code: output.status.code().expect("it was not killed"),
            stdout: output.stdout,
            stderr: String::from_utf8(output.stderr).unwrap(),
            root: self.root,
        }
    }
}

#[cfg(target_os = "linux")]
impl AnnalsCommand {
    /// Runs the command with a terminal of 80 columns for its output, and gives what it printed there.
    pub(crate) fn run_on_terminal(mut self) -> String {
        use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
        use rustix::termios::{Winsize, tcsetwinsize};
        use std::io::Read;
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&terminal).unwrap();
        unlockpt(&terminal).unwrap();
        let name = ptsname(&terminal, Vec::new()).unwrap().into_string().unwrap();
        let screen = std::fs::OpenOptions::new().read(true).write(true).open(name).unwrap();
        let size = Winsize { ws_row: 50, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&screen, size).unwrap();
        let mut child =
            self.command.stdin(Stdio::null()).stdout(screen).stderr(Stdio::null()).spawn().unwrap();
        // The command holds the other end; with it, the end of its output comes as an error.
        drop(self.command);
        let mut printed = Vec::new();
        let _ = std::fs::File::from(terminal).read_to_end(&mut printed);
        assert!(child.wait().unwrap().success());
        String::from_utf8(printed).unwrap().replace("\r\n", "\n")
    }
}

impl Ran {
    /// The output of a command that must have done all it was asked to.
    pub(crate) fn ok(self) -> Ran {
        assert_eq!(self.code, 0, "{self}");
        self
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.stdout.clone()).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self}"))
    }
}

/// For snapshots: the code, both streams, and `HOME` for the directory that is different each time.
impl fmt::Display for Ran {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let root = self.root.display().to_string();
        let hide = |text: &str| text.replace(&root, "HOME");
        writeln!(f, "exit {}", self.code)?;
        f.write_str(&hide(&String::from_utf8_lossy(&self.stdout)))?;
        if !self.stderr.is_empty() {
            write!(f, "-- stderr\n{}", hide(&self.stderr))?;
        }
        Ok(())
    }
}

/// Writes a file of a home, making the directories above it.
pub(crate) fn write(home: &Path, path: &str, text: impl AsRef<[u8]>) {
    let path = home.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// An empty home.
pub(crate) fn empty_home() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("storage")).unwrap();
    dir
}

/// Every file of a home with its bytes, our own left out.
pub(crate) fn snapshot(home: &Path) -> std::collections::BTreeMap<PathBuf, Vec<u8>> {
    let files = annals_testkit::files_below(&home.join("storage"));
    let ours = |path: &PathBuf| path.components().any(|part| part.as_os_str() == ".annals");
    files
        .into_iter()
        .filter(|path| !ours(path))
        .map(|path| (path.clone(), std::fs::read(&path).unwrap_or_default()))
        .collect()
}

/// What a command printed, with sizes after a certain place hidden: those of a store depend on how its commits fell.
pub(crate) fn hide_sizes(ran: &Ran, after: &str) -> String {
    let text = ran.to_string();
    let (kept, text) = text.split_at(text.find(after).unwrap_or(0));
    let mut words: Vec<&str> = text.split(' ').collect();
    for n in 1..words.len() {
        if words[n].starts_with("KB") || words[n].starts_with("MB") {
            words[n - 1] = "N";
        }
    }
    format!("{kept}{}", words.join(" "))
}
