//! Homes written by real OpenCode executables, unpacked for a test.

use std::path::{Path, PathBuf};

use serde_json::Value;

/// A fixture in a directory of its own, which is removed with it.
#[derive(Debug)]
pub struct Fixture {
    dir: tempfile::TempDir,
}

impl Fixture {
    /// The fixtures that hold OpenCode's flat directory layout.
    pub const FLAT: [&'static str; 2] = ["opencode-1.0.185", "opencode-1.1.65"];

    /// The fixtures that hold OpenCode's database.
    pub const DATABASES: [&'static str; 6] = [
        "opencode-1.2.27",
        "opencode-1.18.33",
        "small-1.2.27",
        "small-1.18.33",
        "migrated-1.1.65-to-1.2.27",
        "migrated-1.1.65-to-1.18.33",
    ];

    /// Unpacks `fixtures/<name>.tar.zst`.
    pub fn unpack(name: &str) -> Fixture {
        let archive = workspace().join("fixtures").join(format!("{name}.tar.zst"));
        let dir = tempfile::tempdir().expect("a temporary directory can be made");
        let file =
            std::fs::File::open(&archive).unwrap_or_else(|error| panic!("{}: {error}", archive.display()));
        let decoder = zstd::Decoder::new(file).expect("the archive is compressed with zstd");
        tar::Archive::new(decoder).unpack(dir.path()).expect("the archive can be unpacked");
        Fixture { dir }
    }

    /// The data directory, to be given to `--home`.
    pub fn home(&self) -> &Path {
        self.dir.path()
    }

    /// A file below `expected/`.
    pub fn expected(&self, path: &str) -> PathBuf {
        self.dir.path().join("expected").join(path)
    }

    /// A JSON file below `expected/`.
    pub fn expected_json(&self, path: &str) -> Value {
        let path = self.expected(path);
        let text = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        serde_json::from_slice(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// The ids of all sessions that have an export, with the exported text; the text is empty if OpenCode refused.
    pub fn exports(&self) -> Vec<(String, Vec<u8>)> {
        let mut exports: Vec<_> = files_below(&self.expected("export"))
            .into_iter()
            .map(|path| {
                let id = path.file_stem().expect("a file has a name").to_string_lossy().into_owned();
                (id, std::fs::read(path).expect("the fixture was just unpacked"))
            })
            .collect();
        exports.sort();
        exports
    }

    /// Every file below `storage/`.
    pub fn stored_files(&self) -> Vec<PathBuf> {
        files_below(&self.dir.path().join("storage"))
    }
}

/// Every file below a directory, in no particular order.
pub fn files_below(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in
            std::fs::read_dir(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()))
        {
            let path = entry.expect("the directory can be listed").path();
            if path.is_dir() && !path.is_symlink() {
                directories.push(path);
            } else {
                files.push(path);
            }
        }
    }
    files
}

/// The root of the workspace.
pub fn workspace() -> PathBuf {
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    crate_dir.ancestors().nth(2).expect("crates/testkit is two levels down").to_owned()
}
