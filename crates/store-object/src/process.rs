//! State that each process has once: the clients of all servers. `drystone-runtime` has the threads for requests.
//!
//! Invariant: a child process neither uses nor drops its parent's clients.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use drystone_store::PerProcess;
use tokio::runtime::Handle;

use crate::InvalidAddress;
use crate::options::Resolved;
use crate::provider::Client;

/// Clients, by what identifies them.
type Clients = HashMap<(Resolved, String), Arc<Client>>;

/// The state of this process.
pub(crate) struct Local {
    handle: &'static Handle,
    clients: &'static Mutex<Clients>,
}

impl Local {
    /// The state of the calling process, created by the first call.
    pub(crate) fn get() -> Result<Local, InvalidAddress> {
        static CLIENTS: PerProcess<Mutex<Clients>> = PerProcess::new();

        let handle = drystone_runtime::handle()
            .map_err(|error| InvalidAddress::new(format!("cannot start threads for requests: {error}")))?;
        Ok(Local { handle, clients: CLIENTS.get() })
    }

    /// A handle to the runtime, where tasks run.
    pub(crate) fn handle(&self) -> &Handle {
        self.handle
    }

    /// The client for this bucket with these options, created at its first use.
    pub(crate) fn client(&self, resolved: &Resolved, bucket: &str) -> Result<Arc<Client>, InvalidAddress> {
        let key = (resolved.clone(), bucket.to_owned());
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(&key) {
            return Ok(Arc::clone(client));
        }
        // Connections are created in the runtime, and so are the objects that a client creates when it is built.
        let _inside = self.handle.enter();
        let client = Arc::new(Client::new(resolved, bucket)?);
        clients.insert(key, Arc::clone(&client));
        Ok(client)
    }
}
