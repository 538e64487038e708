//! The places where the peers run: the home they all read, and a user's home directory for each of them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs, io};

use super::{Gathering, Generation};
use crate::measure::{Asked, words};

/// The data that a program finds from its earlier runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Memory {
    /// Nothing: it has never run.
    None,
    /// Everything it kept.
    Kept,
}

#[derive(Debug)]
pub(super) struct Place {
    root: PathBuf,
    annals: PathBuf,
    /// Where `scripts/install-peers` put them.
    peers: PathBuf,
}

impl Place {
    /// Puts the home where the programs look for it.
    pub(super) fn new(root: &Path, home: &Path, gathering: &Gathering) -> io::Result<Place> {
        let workspace = annals_testkit::workspace();
        let peers = workspace.join(env::var_os("ANNALS_PEERS").unwrap_or_else(|| "target/peers".into()));
        let place = Place { root: root.to_owned(), annals: gathering.annals.canonicalize()?, peers };
        let opencode = place.data().join("opencode");
        fs::create_dir_all(place.data())?;
        match gathering.generation {
            Generation::Directory => symlink(home, opencode)?,
            Generation::Database => {
                fs::create_dir(&opencode)?;
                let mut copy = Command::new(&place.annals);
                copy.arg("copy").arg("--from").arg(home).arg("--to").arg(opencode.join("opencode.db"));
                let status = copy.stdout(Stdio::null()).status()?;
                if !status.success() {
                    return Err(io::Error::other(format!("{copy:?}: {status}")));
                }
            }
        }
        Ok(place)
    }

    pub(super) fn annals(&self, memory: Memory, arguments: &str) -> Asked {
        self.asked(memory, self.annals.clone(), arguments)
    }

    /// A peer by its path below the directory they are installed in.
    pub(super) fn peer(&self, memory: Memory, path: &str, arguments: &str) -> Asked {
        self.asked(memory, self.peers.join(path), arguments)
    }

    fn asked(&self, memory: Memory, program: PathBuf, arguments: &str) -> Asked {
        let user = self.root.join(if memory == Memory::Kept { "kept" } else { "new" });
        let data = self.data();
        let environment = self.environment(&user);
        let prepare = move || {
            if memory == Memory::None && user.exists() {
                fs::remove_dir_all(&user)?;
            }
            fs::create_dir_all(user.join(".local"))?;
            // fast-resume and agentsview know of no XDG_DATA_HOME.
            match symlink(&data, user.join(".local/share")) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
                _ => Ok(()),
            }
        };
        let name = program.file_name().unwrap_or_default().to_string_lossy();
        Asked {
            name: format!("{name} {arguments}"),
            program,
            arguments: words(arguments),
            environment: Some(environment),
            directory: self.root.clone(),
            prepare: Box::new(prepare),
        }
    }

    /// The environment of all programs: none of them uses a network or leaves a server behind.
    fn environment(&self, user: &Path) -> BTreeMap<String, OsString> {
        let mut environment = BTreeMap::new();
        let mut set = |name: &str, value: OsString| environment.insert(name.to_owned(), value);
        set("PATH", env::var_os("PATH").unwrap_or_default());
        set("HOME", user.into());
        set("XDG_DATA_HOME", self.data().into());
        set("XDG_CACHE_HOME", user.join(".cache").into());
        set("XDG_CONFIG_HOME", user.join(".config").into());
        set("ANNALS_STORE", user.join("annals.db").into());
        set("AGENTSVIEW_NO_DAEMON", "1".into());
        set("AGENTSVIEW_TELEMETRY_ENABLED", "0".into());
        set("AGENTSVIEW_DISABLE_UPDATE_CHECK", "1".into());
        set("TOKSCALE_PRICING_CACHE_ONLY", "1".into());
        environment
    }

    fn data(&self) -> PathBuf {
        self.root.join("data")
    }
}
