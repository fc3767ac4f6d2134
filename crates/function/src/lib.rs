//! Registered functions over tiles: crates/capi/include/drystone_function.h, version 1.
//!
//! A function has a name here, and a library or an address that only the owner of the process gives: the configuration
//! of a server, or the program itself. Requests and containers hold names, never libraries.
//!
//! ```text
//! declared  the properties of a function      abi   the call for one tile
//! calls     all tiles, before a deadline      turn  one caller at a time, and calls that were left behind
//! ```
//!
//! Invariants
//! - a call has memory of its own, so a function that a deadline leaves behind touches nothing else;
//! - while a call is left behind, the function is not called again;
//! - a function that does not declare itself thread-safe is called by one thread at a time;
//! - a forked child waits for no call of its parent.

mod abi;
mod calls;
mod declared;
mod turn;

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

pub use abi::{Aligned, Described, Function, Job};
pub use declared::{Declared, element_type};

/// The reason why there is no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// A declaration, a library or a function is wrong, or the function failed.
    Invalid(String),
    /// No function has this name.
    NotFound(String),
    /// The function did not return in time.
    Deadline(String),
    /// The system refused something.
    System(String),
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::Invalid(text) | Error::NotFound(text) | Error::Deadline(text) | Error::System(text) => {
                f.write_str(text)
            }
        }
    }
}

impl std::error::Error for Error {}

/// The result of a call.
pub type Result<T> = std::result::Result<T, Error>;

/// Functions by name.
#[derive(Debug, Default)]
pub struct Functions {
    named: Mutex<BTreeMap<String, Arc<Function>>>,
}

impl Functions {
    /// Those of this process.
    pub fn of_process() -> Arc<Functions> {
        static OWN: LazyLock<Arc<Functions>> = LazyLock::new(Arc::default);
        Arc::clone(&OWN)
    }

    /// Adds a function. One of the same name gives way; its calls end as they began.
    pub fn insert(&self, function: Function) {
        lock(&self.named).insert(function.declared().name.clone(), Arc::new(function));
    }

    /// The function of a name. The error names those that there are.
    pub fn find(&self, name: &str) -> Result<Arc<Function>> {
        let named = lock(&self.named);
        named.get(name).cloned().ok_or_else(|| {
            let names: Vec<&str> = named.keys().map(String::as_str).collect();
            let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            Error::NotFound(format!(
                "there is no function {name:?} in the process that computes (there: {known}): register it there, or \
                 name it under [functions] in the configuration of the server"
            ))
        })
    }
}

/// Locks a mutex, also after a panic of a thread that held it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
