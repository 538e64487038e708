//! The threads on which homes are read and contents synced.
//!
//! One pool for thousands of small files, where threads wait for the disk, and for databases, where they compute. Its
//! threads may also wait for the thread that stores what they have read. So that thread must never wait for the pool: what
//! it computes in parallel, it computes on rayon's own threads.

use std::sync::OnceLock;

use rayon::ThreadPool;

/// Threads there are at least. A disk that is asked for several things at once answers each sooner, whatever the number of
/// cores; where everything comes from the system's cache, a few threads more than cores cost next to nothing.
const MIN_THREADS: usize = 4;

/// Runs something whose parallel iterators read homes or sync files. What is part of such work already stays where it is.
pub(crate) fn run<T: Send>(task: impl FnOnce() -> T + Send) -> T {
    static POOL: OnceLock<Option<ThreadPool>> = OnceLock::new();
    if rayon::current_thread_index().is_some() {
        return task();
    }
    let builder = || rayon::ThreadPoolBuilder::new().num_threads(cores().max(MIN_THREADS));
    // Where that many threads cannot be had, rayon's own do.
    match POOL.get_or_init(|| builder().thread_name(|n| format!("annals-{n}")).build().ok()) {
        Some(pool) => pool.install(task),
        None => task(),
    }
}

/// The number of cores.
fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The least number of items that one thread takes of `n`, where the work is only to compute. More threads than cores would each need memory
/// and a connection of their own, and get nothing done sooner.
pub(crate) fn share_of(n: usize) -> usize {
    n.div_ceil(cores()).max(1)
}
