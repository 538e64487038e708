//! Every home there is, held to the conformance suite of testkit.

use std::path::Path;

use annals::SqliteStore;
use annals::home::Write;
use annals::homes::opencode::database::{Generation, OpencodeDatabase};
use annals::homes::opencode::directory::OpencodeDirectory;
use annals_testkit::Fixture;
use annals_testkit::conformance::{Holds, Kept, fill, read_half, store_half, write_half};

use super::kit::{open, open_db};

/// Makes a new home in an empty directory, or opens the one that is there.
type Make = fn(&Path) -> Box<dyn Write>;

fn directory(path: &Path) -> Box<dyn Write> {
    Box::new(OpencodeDirectory::open_or_create(path).unwrap())
}

fn portable_database(path: &Path) -> Box<dyn Write> {
    Box::new(OpencodeDatabase::open_or_create(&path.join("opencode.db"), Generation::Portable).unwrap())
}

fn latest_database(path: &Path) -> Box<dyn Write> {
    Box::new(OpencodeDatabase::open_or_create(&path.join("opencode.db"), Generation::Latest).unwrap())
}

fn store(path: &Path) -> Box<dyn Write> {
    Box::new(SqliteStore::open_or_create(&path.join("annals.db")).unwrap())
}

fn read_and_write(name: &str, make: Make, holds: Holds) {
    write_half(name, holds, &make);
    let path = tempfile::tempdir().unwrap();
    let home = make(path.path());
    fill(&*home);
    read_half(&*home, &Kept { history: home.history().is_some(), n_sessions: 3 });
}

#[test]
fn an_opencode_directory_conforms() {
    read_and_write("a directory", directory, Holds { foreign: false, verbatim: true });
}

#[test]
fn an_opencode_database_of_either_generation_conforms() {
    let holds = Holds { foreign: false, verbatim: false };
    read_and_write("a portable database", portable_database, holds);
    read_and_write("a database of the latest version", latest_database, holds);
}

#[test]
fn a_store_conforms() {
    read_and_write("annals.db", store, Holds { foreign: true, verbatim: true });
    store_half();
    let path = tempfile::tempdir().unwrap();
    assert!(store(path.path()).history().is_some());
}

/// Homes that OpenCode itself wrote have more in them than the suite would make.
#[test]
fn homes_of_real_opencode_conform() {
    for name in ["opencode-1.0.185", "small-1.2.27", "small-1.18.33"] {
        let fixture = Fixture::unpack(name);
        let database = fixture.home().join("opencode.db");
        let kept = Kept { history: false, n_sessions: 3 };
        match database.exists() {
            true => read_half(&open_db(&database), &kept),
            false => read_half(&open(fixture.home()), &kept),
        }
    }
}
