//! What each process has once: the threads that do requests, and the clients of all servers.
//!
//! Threads and connections do not survive a fork, and to drop a parent's connection in a child would disturb the parent, with which
//! it shares the system's event queue. So a child makes its own at its first use, and leaves its parent's alone for ever.
//!
//! Invariant: nothing here is reached without comparing the process's number, and no lock is taken that was made before a fork.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use drystone_store::process_id;
use tokio::runtime::{Builder, Handle, Runtime};

use crate::InvalidAddress;
use crate::options::Resolved;
use crate::provider::Client;

/// Threads that do requests; what they do is waiting, copying and encryption.
const THREADS: usize = 2;

/// One client, and what tells it from others.
type Clients = HashMap<(Resolved, String), Arc<Client>>;

/// What this process has.
pub(crate) struct Local {
    process: u32,
    runtime: Runtime,
    clients: Mutex<Clients>,
    /// That of a child, seen by the child alone.
    next: OnceLock<Box<Local>>,
}

impl Local {
    /// That of the calling process, made at the first call.
    pub(crate) fn get() -> Result<&'static Local, InvalidAddress> {
        static FIRST: OnceLock<Box<Local>> = OnceLock::new();

        let mut slot = &FIRST;
        loop {
            match slot.get() {
                Some(local) if local.process == process_id() => return Ok(local),
                // Made by a process from which this one was forked.
                Some(local) => slot = &local.next,
                None => {
                    // The lock inside is held for as long as it takes to move a pointer. Of several threads one wins.
                    if let Err(late) = slot.set(Box::new(Local::new()?)) {
                        late.runtime.shutdown_background();
                    }
                }
            }
        }
    }

    fn new() -> Result<Local, InvalidAddress> {
        // One provider of cryptography in the process. Another may have been chosen before: then it serves us as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let runtime = Builder::new_multi_thread()
            .worker_threads(THREADS)
            .max_blocking_threads(8)
            .thread_name("drystone-far")
            .enable_io()
            .enable_time()
            .build()
            .map_err(|error| InvalidAddress::new(format!("cannot start threads for requests: {error}")))?;
        Ok(Local { process: process_id(), runtime, clients: Mutex::default(), next: OnceLock::new() })
    }

    /// Where tasks run.
    pub(crate) fn handle(&self) -> &Handle {
        self.runtime.handle()
    }

    /// The client for this bucket with these options, made if there is none yet.
    pub(crate) fn client(&self, resolved: &Resolved, bucket: &str) -> Result<Arc<Client>, InvalidAddress> {
        let key = (resolved.clone(), bucket.to_owned());
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(&key) {
            return Ok(Arc::clone(client));
        }
        // Connections are made in the runtime; so is what a client makes when it is built.
        let _inside = self.runtime.enter();
        let client = Arc::new(Client::new(resolved, bucket)?);
        clients.insert(key, Arc::clone(&client));
        Ok(client)
    }
}
