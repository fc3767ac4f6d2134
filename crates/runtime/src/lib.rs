//! The threads of a process for its requests, with an asynchronous runtime.
//!
//! Threads and connections do not survive a fork. Dropping a parent's connection in a child would disturb the parent,
//! with which the child shares the kernel's event queue. So a child creates its own values at the first use, and never
//! uses those of its parent.
//!
//! Invariant: no value is accessed before the process id is compared, and no lock is taken that was created before a
//! fork.

mod order;
mod wait;

use std::io;

use drystone_store::PerProcess;
use tokio::runtime::{Builder, Handle, Runtime};

pub use order::{Order, Ticket};
pub use wait::block_on;

/// Number of threads that execute requests. They wait, copy and encrypt.
const THREADS: usize = 2;

/// The runtime. Dropping it would wait for its tasks, so it is never dropped.
struct Threads(Option<Runtime>);

impl Drop for Threads {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// A handle of the runtime on which tasks of the calling process run. The first call starts its threads.
pub fn handle() -> io::Result<&'static Handle> {
    static THREADS_OF_PROCESS: PerProcess<Threads> = PerProcess::new();

    let threads = THREADS_OF_PROCESS.get_or_make(|| {
        // A process has one provider of cryptography. If another was installed before, that one is used.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let runtime = Builder::new_multi_thread()
            .worker_threads(THREADS)
            .max_blocking_threads(8)
            .thread_name("drystone-far")
            .enable_io()
            .enable_time()
            .build()?;
        Ok::<_, io::Error>(Threads(Some(runtime)))
    })?;
    match &threads.0 {
        Some(runtime) => Ok(runtime.handle()),
        None => Err(io::Error::other("the threads for requests have ended")),
    }
}
