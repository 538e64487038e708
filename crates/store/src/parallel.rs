//! The threads on which homes are read and contents synced.

use std::sync::OnceLock;

/// More than there are cores: these threads wait for the disk most of the time, and a disk that is asked for sixteen
/// things at once answers three times as fast as one that is asked for two.
const THREADS: usize = 16;

/// What the threads of some work do most of the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// They wait: for thousands of small files.
    Waiting,
    /// They compute: what they need comes out of one large file. More threads than cores would only be in each other's
    /// way.
    Computing,
}

/// Runs something whose parallel iterators are to use as many threads as suit the work.
pub(crate) fn run_as<T: Send>(work: Work, task: impl FnOnce() -> T + Send) -> T {
    match work {
        Work::Waiting => run(task),
        // Rayon's own threads are as many as there are cores.
        Work::Computing => {
            static POOL: OnceLock<Option<rayon::ThreadPool>> = OnceLock::new();
            match POOL.get_or_init(|| rayon::ThreadPoolBuilder::new().build().ok()) {
                Some(pool) => pool.install(task),
                None => task(),
            }
        }
    }
}

/// Runs something whose parallel iterators are to use these threads.
pub(crate) fn run<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    static POOL: OnceLock<Option<rayon::ThreadPool>> = OnceLock::new();
    let pool = POOL.get_or_init(|| {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        rayon::ThreadPoolBuilder::new()
            .num_threads(THREADS.max(cores))
            .thread_name(|n| format!("annals-{n}"))
            .build()
            .ok()
    });
    // Where so many threads cannot be had, rayon's own do.
    match pool {
        Some(pool) => pool.install(work),
        None => work(),
    }
}
