//! Commands of OpenCode's command line, each run to its end. Each takes one to three seconds.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use super::Lab;
use super::process::Process;

/// The result of a command.
#[derive(Clone, Debug)]
#[must_use]
pub struct Output {
    pub status: ExitStatus,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

impl Lab {
    /// Runs `opencode` with `args` in the directory `cwd`.
    ///
    /// # Panics
    /// If it takes longer than the lab's timeout.
    pub fn cli(&self, cwd: &Path, args: &[&str], stdin: &[u8]) -> Output {
        // Files instead of pipes: OpenCode does not wait for a pipe to be read before it exits, so that long
        // output is cut off.
        let [stdin_path, stdout_path, stderr_path] = self.streams();
        fs::write(&stdin_path, stdin).expect("the lab is writable");
        let open = File::open(&stdin_path).expect("the file was just written");
        let mut command = self.command(cwd, args);
        command.stdin(open).stdout(create(&stdout_path)).stderr(create(&stderr_path));
        let mut process = Process::spawn(&mut command);
        let status = process.wait(self.timeout);
        match status {
            Some(_) => process.end_group(),
            None => process.kill(),
        }
        let [_, stdout, stderr] = [stdin_path, stdout_path, stderr_path].map(|path| {
            let bytes = fs::read(&path).unwrap_or_default();
            // Only to keep the lab small.
            let _ = fs::remove_file(&path);
            bytes
        });
        match status {
            Some(status) => Output { status, stdout, stderr },
            None => panic!(
                "`opencode {}` did not end within {:?}\nstdout: {}\nstderr: {}",
                args.join(" "),
                self.timeout,
                String::from_utf8_lossy(&stdout),
                String::from_utf8_lossy(&stderr),
            ),
        }
    }

    /// `opencode export`: the session as a JSON document, byte for byte.
    ///
    /// # Panics
    /// If the command fails, for instance because the session belongs to the project of another directory.
    pub fn export(&self, cwd: &Path, session: &str) -> Vec<u8> {
        self.succeed(cwd, &["export", session]).stdout
    }

    /// `opencode import`; returns the id of the imported session.
    pub fn import(&self, cwd: &Path, file: &Path) -> String {
        let file = file.to_str().expect("paths in a lab are UTF-8");
        let output = self.succeed(cwd, &["import", file]);
        let text = String::from_utf8_lossy(&output.stdout);
        match text.lines().find_map(|line| line.strip_prefix("Imported session: ")) {
            Some(session) => session.trim().to_owned(),
            None => panic!("`opencode import` names no session: {}", output.describe()),
        }
    }

    /// `opencode session list --format json`: an array, empty when there is nothing to list. All sessions are
    /// asked for, because since 1.2 it lists 100 by itself.
    pub fn session_list(&self, cwd: &Path) -> Value {
        let output = self.succeed(cwd, &["session", "list", "--max-count", "100000", "--format", "json"]);
        // Without sessions nothing at all is printed.
        if output.stdout.trim_ascii().is_empty() {
            return json!([]);
        }
        serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("`opencode session list`: {error}: {}", output.describe()))
    }

    /// `opencode stats` with further arguments.
    pub fn stats(&self, cwd: &Path, args: &[&str]) -> String {
        let output = self.succeed(cwd, &[&["stats"], args].concat());
        String::from_utf8(output.stdout).expect("statistics are UTF-8")
    }

    /// `opencode run` with further arguments, among them the message. Returns the id of the session.
    ///
    /// The command may end before the model's title has arrived, and then the session keeps a title with its
    /// date; a `--title` avoids that. A message with blanks in it reaches the model in quotation marks and
    /// with a line break at the end.
    ///
    /// # Panics
    /// If no session was created. A failed reply does not panic: OpenCode reports it as an event.
    pub fn run(&self, cwd: &Path, args: &[&str]) -> String {
        let output = self.cli(cwd, &[&["run", "--format", "json"], args].concat(), b"");
        let events = output.stdout.split(|byte| *byte == b'\n');
        let mut parsed = events.filter_map(|line| serde_json::from_slice::<Value>(line).ok());
        match parsed.find_map(|event| event["sessionID"].as_str().map(str::to_owned)) {
            Some(session) => session,
            None => panic!("`opencode run` names no session: {}", output.describe()),
        }
    }

    pub(super) fn command(&self, cwd: &Path, args: &[&str]) -> Command {
        let mut command = Command::new(self.opencode.binary());
        command.args(args).current_dir(self.root.join(cwd)).env_clear().envs(self.env());
        command
    }

    /// Files for the standard streams of one more process.
    pub(super) fn streams(&self) -> [PathBuf; 3] {
        let number = self.n_commands.fetch_add(1, Ordering::Relaxed);
        ["stdin", "stdout", "stderr"].map(|name| self.root.join(format!("output/{number}.{name}")))
    }

    fn succeed(&self, cwd: &Path, args: &[&str]) -> Output {
        let output = self.cli(cwd, args, b"");
        assert!(output.status.success(), "`opencode {}` failed: {}", args.join(" "), output.describe());
        output
    }
}

impl Output {
    fn describe(&self) -> String {
        let [stdout, stderr] = [&self.stdout, &self.stderr].map(|bytes| String::from_utf8_lossy(bytes));
        format!("{}\nstdout: {stdout}\nstderr: {stderr}", self.status)
    }
}

pub(super) fn create(path: &Path) -> File {
    File::create(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
