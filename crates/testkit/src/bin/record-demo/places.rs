//! The directories below `/home/dev` in which the sessions take place.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use annals_testkit::opencode::Lab;

pub(crate) const CART_SERVICE: &str = "cart-service";
pub(crate) const NOTES: &str = "notes";
/// Not a repository.
pub(crate) const SCRATCH: &str = "scratch";

const HOME: &str = "/home/dev";

macro_rules! files {
    ($place:literal: $($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("places/", $place, "/", $name)))),*]
    };
}

const CART_SERVICE_FILES: &[(&str, &str)] = files!("cart-service":
    "README.md",
    "package.json",
    "scripts/soak.js",
    "src/cart.js",
    "src/checkout.js",
    "src/coupons.js",
    "src/money.js",
    "src/server.js",
    "src/store.js",
    "test/cart.test.js",
);
const NOTES_FILES: &[(&str, &str)] = files!("notes": ".gitignore", "README.md", "notes.py", "test_notes.py");
const SCRATCH_FILES: &[(&str, &str)] = files!("scratch": "contacts.csv");

/// The files a commit adds, and how `git log` shows it.
struct Commit {
    message: &'static str,
    author: &'static str,
    date: &'static str,
    files: &'static [&'static str],
}

const ZOE: &str = "Zoë Ferreira <zoe@example.com>";
const JONAS: &str = "Jonas Berg <jonas@example.com>";

const CART_SERVICE_COMMITS: &[Commit] = &[
    Commit {
        message: "Carts with lines and totals",
        author: JONAS,
        date: "2026-01-12T10:04:00Z",
        files: &["README.md", "package.json", "src/cart.js", "src/money.js", "src/store.js"],
    },
    Commit {
        message: "Serve carts over HTTP",
        author: JONAS,
        date: "2026-01-14T15:31:00Z",
        files: &["src/server.js"],
    },
    Commit {
        message: "✨ Coupons, fixed and in percent (#41)",
        author: ZOE,
        date: "2026-01-28T09:47:00Z",
        files: &["src/coupons.js"],
    },
    Commit {
        message: "Checkout that survives retries (#44)",
        author: JONAS,
        date: "2026-02-03T13:20:00Z",
        files: &["src/checkout.js", "scripts/soak.js"],
    },
    Commit {
        message: "Test the totals, with the invoice of order 10482",
        author: ZOE,
        date: "2026-02-06T16:52:00Z",
        files: &["test/cart.test.js"],
    },
];

const NOTES_COMMITS: &[Commit] = &[Commit {
    message: "📝 Add and search notes",
    author: ZOE,
    date: "2026-02-02T19:15:00Z",
    files: &[".gitignore", "README.md", "notes.py", "test_notes.py"],
}];

/// The places on disk. Dropping them removes the directories that were made, and only those.
#[derive(Debug)]
pub(crate) struct Places {
    made: Vec<PathBuf>,
}

impl Places {
    /// # Panics
    /// If one of the directories exists, since it belongs to someone.
    pub(crate) fn make(lab: &Lab) -> Places {
        let mut places = Places { made: Vec::new() };
        for ancestor in [Path::new("/home"), Path::new(HOME)] {
            if !ancestor.exists() {
                places.make_directory(ancestor);
            }
        }
        places.make_repository(lab, CART_SERVICE, CART_SERVICE_FILES, CART_SERVICE_COMMITS);
        // Release notes need a release to start from.
        lab.git(&path(CART_SERVICE), &["tag", "v0.3.2", "HEAD~2"]);
        places.make_repository(lab, NOTES, NOTES_FILES, NOTES_COMMITS);
        places.make_directory(&path(SCRATCH));
        lab.directory(path(SCRATCH), SCRATCH_FILES);
        places
    }

    fn make_repository(&mut self, lab: &Lab, name: &str, files: &[(&str, &str)], commits: &[Commit]) {
        let directory = path(name);
        self.make_directory(&directory);
        lab.directory(&directory, files);
        lab.git(&directory, &["init", "-q", "-b", "main"]);
        lab.git(&directory, &["config", "user.name", "Dev"]);
        lab.git(&directory, &["config", "user.email", "dev@example.com"]);
        for commit in commits {
            lab.git(&directory, &[&["add"], commit.files].concat());
            let (author, date) = (format!("--author={}", commit.author), format!("--date={}", commit.date));
            lab.git(&directory, &["commit", "-q", "-m", commit.message, &author, &date]);
        }
        assert_eq!(lab.git(&directory, &["status", "--short"]), "", "commits of {name} leave files out");
    }

    fn make_directory(&mut self, path: &Path) {
        // An existing directory belongs to someone, or is left over from a recording that was killed.
        fs::create_dir(path).unwrap_or_else(|error| panic!("cannot make {}: {error}", path.display()));
        self.made.push(path.to_owned());
    }
}

impl Drop for Places {
    fn drop(&mut self) {
        for path in self.made.iter().rev() {
            let removed = if path.starts_with(HOME) && path != Path::new(HOME) {
                fs::remove_dir_all(path)
            } else {
                // Leaves files that someone else put there in the meantime.
                fs::remove_dir(path)
            };
            if let Err(error) = removed {
                report(path, &error);
            }
        }
    }
}

/// The full path of a place.
pub(crate) fn path(place: &str) -> PathBuf {
    Path::new(HOME).join(place)
}

/// A panic while dropping would hide the error that led there.
fn report(path: &Path, error: &io::Error) {
    crate::say(&format!("warning: {} is left behind: {error}", path.display()));
}
