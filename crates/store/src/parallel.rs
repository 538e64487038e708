//! The threads on which homes are read and contents synced.

use std::sync::OnceLock;

use rayon::ThreadPool;

use crate::platform;

/// More than there are cores: threads that wait for the disk. One that is asked for sixteen things at once answers three
/// times as fast as one that is asked for two.
const WAITING: usize = 16;
/// So many for each core, where everything comes from the system's cache. More would push each other's data out of the
/// processor's.
const READING: usize = 2;

/// What the threads of some work do most of the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// They wait: for thousands of small files.
    Waiting,
    /// They compute: what they need comes out of one large file. More threads than cores would only be in each other's
    /// way.
    Computing,
}

/// Runs something whose parallel iterators are to use as many threads as suit the work. What is part of such work already
/// stays where it is.
pub(crate) fn run_as<T: Send>(work: Work, task: impl FnOnce() -> T + Send) -> T {
    static COMPUTING: OnceLock<Option<ThreadPool>> = OnceLock::new();
    static READING_POOL: OnceLock<Option<ThreadPool>> = OnceLock::new();
    if rayon::current_thread_index().is_some() {
        return task();
    }
    match work {
        Work::Computing => run_on(&COMPUTING, cores(), task),
        // What was opened and listed so far came from the cache: then the rest will.
        Work::Waiting if !platform::has_read_from_disk() => run_on(&READING_POOL, READING * cores(), task),
        Work::Waiting => wait(task),
    }
}

/// Runs something whose parallel iterators wait for the disk, whatever the system's cache has.
pub(crate) fn wait<T: Send>(task: impl FnOnce() -> T + Send) -> T {
    static POOL: OnceLock<Option<ThreadPool>> = OnceLock::new();
    run_on(&POOL, WAITING.max(cores()), task)
}

fn run_on<T: Send>(
    pool: &OnceLock<Option<ThreadPool>>,
    n_threads: usize,
    task: impl FnOnce() -> T + Send,
) -> T {
    let builder = || rayon::ThreadPoolBuilder::new().num_threads(n_threads);
    // Where so many threads cannot be had, rayon's own do.
    match pool.get_or_init(|| builder().thread_name(|n| format!("annals-{n}")).build().ok()) {
        Some(pool) => pool.install(task),
        None => task(),
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
