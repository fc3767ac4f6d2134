//! The container inside a handle, and its end.

use std::mem::ManuallyDrop;
use std::ops::Deref;

use drystone::Container;
use pyo3::prelude::*;

/// A container whose end waits for no thread of Python, and holds none up: the last handle on a far store asks its server, which may
/// take a credentials callback, or a deadline.
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
        // SAFETY: it is taken once, here, and not used afterwards.
        let container = unsafe { ManuallyDrop::take(&mut self.0) };
        // While Python is ending no code can be called, and nothing is written down.
        let mut held = Some(container);
        Python::try_attach(|py| py.detach(|| drop(held.take())));
        drop(held);
    }
}
