//! A person at the command line: runs `annals`, alone or several at once, waits for it, kills it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::Failure;

/// A command that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// The surroundings of the commands.
#[derive(Debug)]
pub(super) struct Person {
    root: PathBuf,
    /// What XDG_DATA_HOME says.
    pub(super) data: PathBuf,
    /// Where the store is, if it is not below XDG_DATA_HOME.
    pub(super) store: Option<PathBuf>,
    pub(super) n_commands: usize,
}

/// A command that runs.
#[derive(Debug)]
pub(super) struct Running {
    words: String,
    child: Child,
    output: [PathBuf; 2],
    started: Instant,
}

/// A command that has ended.
#[derive(Debug)]
pub(super) struct Ran {
    pub(super) words: String,
    /// None if it was killed.
    pub(super) code: Option<i32>,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

impl Person {
    pub(super) fn new(root: &Path, data: &Path, store: Option<PathBuf>) -> Person {
        for name in ["output", "home", "work"] {
            std::fs::create_dir_all(root.join(name)).unwrap();
        }
        Person { root: root.to_owned(), data: data.to_owned(), store, n_commands: 0 }
    }

    /// Starts a command, at a time that it takes for the present.
    pub(super) fn start(&mut self, now: i64, arguments: &[&str]) -> Running {
        self.n_commands += 1;
        let output =
            ["out", "err"].map(|name| self.root.join(format!("output/{}.{name}", self.n_commands % 64)));
        let [stdout, stderr] = output.each_ref().map(|path| File::create(path).unwrap());
        let mut command = Command::new(env!("CARGO_BIN_EXE_annals"));
        command
            .args(arguments)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.root.join("home"))
            .env("XDG_DATA_HOME", &self.data)
            .env("TZ", "UTC")
            .env("ANNALS_NOW", now.to_string())
            .current_dir(self.root.join("work"))
            .stdin(Stdio::null())
            .stdout(stdout)
            .stderr(stderr);
        if let Some(store) = &self.store {
            command.env("ANNALS_STORE", store);
        }
        let child = command.spawn().unwrap();
        Running { words: format!("annals {}", arguments.join(" ")), child, output, started: Instant::now() }
    }

    /// Runs a command to its end, whatever its exit code is.
    pub(super) fn run(&mut self, now: i64, arguments: &[&str]) -> Result<Ran, Failure> {
        self.start(now, arguments).wait()
    }

    /// Runs a command that must do all it was asked to.
    pub(super) fn done(&mut self, now: i64, arguments: &[&str]) -> Result<Ran, Failure> {
        self.run(now, arguments)?.done()
    }
}

impl Running {
    /// Waits for the end, which must come in time and without a crash.
    pub(super) fn wait(mut self) -> Result<Ran, Failure> {
        loop {
            if self.child.try_wait().unwrap().is_some() {
                break;
            }
            if self.started.elapsed() > PATIENCE {
                let _ = self.child.kill();
                let _ = self.child.wait();
                return Err(Failure::new("hang", format!("{} did not end within {PATIENCE:?}", self.words)));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let ran = self.ran();
        if ran.code == Some(101) || ran.stderr.contains("panicked at") {
            return Err(Failure::new("panic", ran.describe()));
        }
        if ran.code.is_none() {
            return Err(Failure::new("crash", ran.describe()));
        }
        Ok(ran)
    }

    /// Kills it (SIGKILL) if it still runs.
    pub(super) fn kill(mut self) -> Ran {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.ran()
    }

    fn ran(&mut self) -> Ran {
        let code = self.child.wait().unwrap().code();
        let [stdout, stderr] = self
            .output
            .each_ref()
            .map(|path| String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned());
        Ran { words: self.words.clone(), code, stdout, stderr }
    }
}

impl Ran {
    pub(super) fn done(self) -> Result<Ran, Failure> {
        match self.code {
            Some(0) => Ok(self),
            _ => Err(Failure::new("command failed", self.describe())),
        }
    }

    pub(super) fn json(&self) -> Result<Value, Failure> {
        serde_json::from_str(&self.stdout)
            .map_err(|error| Failure::new("no JSON", format!("{error}: {}", self.describe())))
    }

    /// The number by which the operation can be taken back, if the command says one.
    pub(super) fn operation(&self) -> Option<i64> {
        let stated = serde_json::from_str::<Value>(&self.stdout).ok();
        let stated = stated.and_then(|value| value.get("operation").and_then(Value::as_i64));
        stated.or_else(|| {
            let (_, after) = self.stderr.split_once("annals undo ")?;
            after.chars().take_while(char::is_ascii_digit).collect::<String>().parse().ok()
        })
    }

    pub(super) fn describe(&self) -> String {
        let cut = |text: &str| text.chars().take(1500).collect::<String>();
        let code = self.code.map_or("killed".to_owned(), |code| code.to_string());
        format!("`{}` (exit {code})\n{}{}", self.words, cut(&self.stdout), cut(&self.stderr))
    }
}
