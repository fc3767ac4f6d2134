//! Drops the container inside a handle safely.

use std::mem::ManuallyDrop;
use std::ops::Deref;

use drystone::Container;
use pyo3::prelude::*;

/// A container that is dropped without the interpreter lock. Dropping the last handle on a far store may send a
/// request, which may call a credentials function or run into a timeout; no Python thread must wait for it.
pub(super) struct Held(ManuallyDrop<Container>);

impl Held {
    pub(super) fn new(container: Container) -> Self {
        Held(ManuallyDrop::new(container))
    }
}

impl Deref for Held {
    type Target = Container;

    fn deref(&self) -> &Container {
        &self.0
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: taken once, here, and not used afterwards.
        let container = unsafe { ManuallyDrop::take(&mut self.0) };
        // While Python is ending, no code can be called, so nothing is saved.
        let mut held = Some(container);
        Python::try_attach(|py| py.detach(|| drop(held.take())));
        drop(held);
    }
}
