//! One OpenCode process with everything it starts, which must not outlive a test.

use std::collections::HashMap;
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// A child in a process group of its own. Dropping it kills the child and its descendants.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    pid: Pid,
    reaped: bool,
}

impl Process {
    pub(super) fn spawn(command: &mut Command) -> Process {
        let child = command
            .process_group(0)
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {:?}: {error}", command.get_program()));
        let pid = Pid::from_child(&child);
        Process { child, pid, reaped: false }
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the end of the process. `None` when it did not end in time.
    pub(super) fn wait(&mut self, timeout: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + timeout;
        loop {
            if let Some(status) = self.child.try_wait().expect("a child can be waited for") {
                self.reaped = true;
                return Some(status);
            }
            if Instant::now() >= deadline {
                return None;
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Asks the process to end, and kills it after `patience`. Processes it leaves running are ended too.
    pub(super) fn terminate(mut self, patience: Duration) {
        let descendants = descendants(self.pid);
        let _ = kill_process(self.pid, Signal::TERM);
        if self.wait(patience).is_none() {
            self.kill();
        }
        self.end_group();
        kill_all(&descendants);
    }

    /// Ends the processes that an ended process left running in its group: an installer, git at work in a snapshot.
    /// They are asked first, because git then removes its lock files, which would block the next command.
    pub(super) fn end_group(&mut self) {
        let _ = kill_process_group(self.pid, Signal::TERM);
        let deadline = Instant::now() + Duration::from_secs(5);
        while running().any(|process| process.group == Some(self.pid)) {
            if Instant::now() >= deadline {
                let _ = kill_process_group(self.pid, Signal::KILL);
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Kills the process and all its descendants, in the middle of what they do.
    pub(super) fn kill(&mut self) {
        if self.reaped {
            return;
        }
        // Stopped first, so that it cannot start anything while its descendants are collected. Commands run by
        // tools have groups of their own, hence the search.
        let _ = kill_process(self.pid, Signal::STOP);
        let descendants = descendants(self.pid);
        let _ = kill_process(self.pid, Signal::KILL);
        let _ = kill_process_group(self.pid, Signal::KILL);
        kill_all(&descendants);
        let _ = self.child.wait();
        self.reaped = true;
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

fn kill_all(pids: &[Pid]) {
    for pid in pids {
        // Most have ended by themselves.
        let _ = kill_process(*pid, Signal::KILL);
    }
}

fn descendants(root: Pid) -> Vec<Pid> {
    let mut children: HashMap<Option<Pid>, Vec<Pid>> = HashMap::new();
    for process in running() {
        children.entry(process.parent).or_default().push(process.pid);
    }
    let mut found = Vec::new();
    let mut queue = vec![root];
    while let Some(pid) = queue.pop() {
        let below = children.remove(&Some(pid)).unwrap_or_default();
        queue.extend(&below);
        found.extend(below);
    }
    found
}

struct Running {
    pid: Pid,
    parent: Option<Pid>,
    group: Option<Pid>,
}

/// All processes that have not ended. Those that have, but were not waited for, still answer to signals, and
/// in a container may do so for ever.
fn running() -> impl Iterator<Item = Running> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        let pid = parse_pid(entry.file_name().to_str()?)?;
        // Processes come and go while the directory is read.
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        // `pid (name) state parent group …`, where the name may hold anything.
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
        let state = fields.next()?;
        let parent = fields.next().and_then(parse_pid);
        let group = fields.next().and_then(parse_pid);
        (!matches!(state, "Z" | "X")).then_some(Running { pid, parent, group })
    })
}

fn parse_pid(text: &str) -> Option<Pid> {
    // Of a process of another namespace the group is unknown, which reads as -1.
    text.parse().ok().filter(|raw| *raw > 0).and_then(Pid::from_raw)
}
