//! A driver of real OpenCode executables: [`OpenCode`] is one installed version, [`Lab`] an environment of
//! its own for it to run in, [`Server`] a running `opencode serve`.
//!
//! Nothing here reads or writes OpenCode's data; the tests that use it do. Nothing needs a network either: the
//! model is a [`ModelServer`](crate::model::ModelServer), and OpenCode's own downloads are turned off or made to
//! fail at once.
//!
//! ```no_run
//! use annals_testkit::model::{ModelServer, Playbook};
//! use annals_testkit::opencode::{Lab, OpenCode};
//!
//! let model = ModelServer::start(Playbook::builtin())?;
//! let lab = Lab::new(&OpenCode::version("1.1.65"));
//! lab.configure(&model);
//! let project = lab.repo("shop", &[("README.md", "# shop\n")]);
//! let session = lab.run(&project, &["What is this? [[scenario:read]]"]);
//! let exported = lab.export(&project, &session);
//! # Ok::<(), std::io::Error>(())
//! ```

mod cli;
mod config;
mod process;
mod project;
mod server;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{env, fs};

use tempfile::TempDir;

pub use cli::Output;
pub use config::standard_config;
pub use server::{Response, Server};

/// The directories OpenCode sees, below the root of a lab.
const DIRECTORIES: [&str; 9] =
    ["home", "data", "config/opencode", "state", "cache", "tmp", "bin", "git-template", "output"];

/// Where Debian's package `libfaketime` puts the library.
const FAKETIME: [&str; 2] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
];

/// Lists files as `rg --files` does, and refuses everything else.
const RIPGREP_STAND_IN: &str = r#"#!/bin/sh
for argument; do
    case "$argument" in
    --files | --hidden | --follow | --no-messages | '--glob=!.git/*') ;;
    *)
        echo "ripgrep is not installed, and its stand-in does not know $argument" >&2
        exit 2
        ;;
    esac
done
exec find . -name .git -prune -o -type f -printf '%P\n'
"#;

/// One installed version of OpenCode.
#[derive(Clone, Debug)]
pub struct OpenCode {
    number: String,
    binary: PathBuf,
}

impl OpenCode {
    /// Finds a version below the directory named by the variable `ANNALS_OPENCODE`, or `target/opencode` of
    /// the workspace.
    ///
    /// # Panics
    /// If it is not installed, with the command that installs it.
    pub fn version(number: &str) -> OpenCode {
        let workspace = crate::workspace();
        // A relative value counts from the workspace: tests run in the directories of their packages.
        let installed = match env::var_os("ANNALS_OPENCODE") {
            Some(directory) => workspace.join(directory),
            None => workspace.join("target/opencode"),
        };
        let binary = installed.join(number).join("node_modules/opencode-linux-x64/bin/opencode");
        assert!(
            binary.is_file(),
            "OpenCode {number} is not installed: {} does not exist.\n\
             Run `scripts/install-opencode` in the root of the workspace, or set ANNALS_OPENCODE to the \
             directory that holds `{number}/node_modules/opencode-linux-x64`.",
            binary.display(),
        );
        OpenCode { number: number.to_owned(), binary }
    }

    /// The version as it was asked for, like `1.1.65`.
    pub fn number(&self) -> &str {
        &self.number
    }

    pub fn binary(&self) -> &Path {
        &self.binary
    }
}

/// An environment for one version of OpenCode, with its own home, data, configuration and clock.
///
/// Relative paths given to its methods count from [`Lab::root`].
///
/// OpenCode's tools `grep` and `glob` need a ripgrep (`rg`) on the machine; all the rest does without.
#[derive(Debug)]
pub struct Lab {
    opencode: OpenCode,
    root: PathBuf,
    /// Milliseconds by which OpenCode's clock is ahead of the real one.
    clock_offset: Option<i64>,
    extra_env: BTreeMap<String, OsString>,
    timeout: Duration,
    n_commands: AtomicUsize,
    /// Removed with the lab.
    _temporary: Option<TempDir>,
}

impl Lab {
    /// A fresh lab in a temporary directory, which is removed with it.
    pub fn new(opencode: &OpenCode) -> Lab {
        let temporary = TempDir::with_prefix("annals-lab-").expect("the temporary directory is writable");
        let mut lab = Lab::at(opencode, temporary.path());
        lab._temporary = Some(temporary);
        lab
    }

    /// A lab in a directory that stays, for instance to look at it afterwards, or to continue with the data that
    /// another version has written there.
    pub fn at(opencode: &OpenCode, directory: &Path) -> Lab {
        for name in DIRECTORIES {
            let path = directory.join(name);
            fs::create_dir_all(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        }
        // OpenCode stores real paths, so tests should compare with real paths.
        let root = directory.canonicalize().expect("the directory was just made");
        write_executable(&root.join("bin/rg"), RIPGREP_STAND_IN);
        Lab {
            opencode: opencode.clone(),
            root,
            clock_offset: None,
            extra_env: BTreeMap::new(),
            timeout: Duration::from_secs(180),
            n_commands: AtomicUsize::new(0),
            _temporary: None,
        }
    }

    pub fn opencode(&self) -> &OpenCode {
        &self.opencode
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The directory in which OpenCode keeps its data: `storage`, `snapshot`, `log`…
    pub fn data(&self) -> PathBuf {
        self.root.join("data/opencode")
    }

    /// Sets the time limit for a command, the start of a server and each of its replies.
    pub fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = timeout;
    }

    /// Sets one more variable in the environment of OpenCode.
    pub fn set_env(&mut self, name: &str, value: impl Into<OsString>) {
        self.extra_env.insert(name.to_owned(), value.into());
    }

    /// Whether [`Lab::clock`] can be used on this machine.
    pub fn has_faketime() -> bool {
        faketime_library().is_some()
    }

    /// Sets the clock OpenCode sees to a time in milliseconds since 1970, from which it runs on; `None` sets it back
    /// to the real one. Running processes keep their clock.
    ///
    /// OpenCode refuses to edit a file that seems to have changed after it was read, and file times are real
    /// ones: with a clock in the past, call [`Lab::backdate`] after each change.
    ///
    /// # Panics
    /// If libfaketime is not installed.
    pub fn clock(&mut self, unix_ms: Option<i64>) {
        assert!(
            unix_ms.is_none() || Lab::has_faketime(),
            "libfaketime is not installed: `apt-get install libfaketime`"
        );
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is past 1970");
        self.clock_offset = unix_ms.map(|then| then - now.as_millis() as i64);
    }

    /// The whole environment of OpenCode's processes: nothing is inherited.
    pub fn env(&self) -> BTreeMap<String, OsString> {
        let below = |name: &str| self.root.join(name).into_os_string();
        let mut path = OsString::from("/usr/local/bin:/usr/bin:/bin:");
        // Last, so that a real ripgrep goes first. Without any, OpenCode 1.0 fetches one from GitHub when it
        // starts, and ends without a word if it cannot.
        path.push(below("bin"));
        let mut env = BTreeMap::from([
            ("PATH", path),
            ("LANG", "C.UTF-8".into()),
            ("TZ", "UTC".into()),
            ("TERM", "dumb".into()),
            ("SHELL", "/bin/bash".into()),
            ("HOME", below("home")),
            ("XDG_DATA_HOME", below("data")),
            ("XDG_CONFIG_HOME", below("config")),
            ("XDG_STATE_HOME", below("state")),
            ("XDG_CACHE_HOME", below("cache")),
            ("TMPDIR", below("tmp")),
            ("GIT_TEMPLATE_DIR", below("git-template")),
            ("GIT_CONFIG_NOSYSTEM", "1".into()),
            ("OPENCODE_DISABLE_AUTOUPDATE", "1".into()),
            ("OPENCODE_DISABLE_CLAUDE_CODE", "1".into()),
            ("OPENCODE_DISABLE_DEFAULT_PLUGINS", "1".into()),
            ("OPENCODE_DISABLE_LSP_DOWNLOAD", "1".into()),
            ("OPENCODE_DISABLE_MODELS_FETCH", "1".into()),
            ("OPENCODE_DISABLE_TERMINAL_TITLE", "1".into()),
            // Each start installs a plugin package beside the configuration, and no variable turns that off.
            // Nothing listens on this port, so it fails at once.
            ("NPM_CONFIG_REGISTRY", "http://127.0.0.1:9".into()),
        ]);
        if let (Some(offset), Some(library)) = (self.clock_offset, faketime_library()) {
            let sign = if offset < 0 { '-' } else { '+' };
            let (seconds, millis) = (offset.unsigned_abs() / 1000, offset.unsigned_abs() % 1000);
            env.insert("LD_PRELOAD", library.into());
            env.insert("FAKETIME", format!("{sign}{seconds}.{millis:03}").into());
            env.insert("FAKETIME_DONT_FAKE_MONOTONIC", "1".into());
        }
        let own = env.into_iter().map(|(name, value)| (name.to_owned(), value));
        own.chain(self.extra_env.clone()).collect()
    }
}

fn faketime_library() -> Option<&'static str> {
    FAKETIME.into_iter().find(|path| Path::new(path).exists())
}

fn write_executable(path: &Path, content: &str) {
    use std::os::unix::fs::PermissionsExt;

    let written =
        fs::write(path, content).and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(0o755)));
    written.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}
