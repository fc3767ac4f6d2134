//! Regions (map, lock, release, wait), of a container in this process or on a server.

use std::sync::Arc;
use std::time::Duration;

use drystone::Container;
use drystone_region::{
    Access, Cells, Declared, Function, Functions, Keeper, Mapped, Memory, Operation, RegionError,
    element_type,
};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};

use crate::container::ContainerHandle;
use crate::error::{Failure, Result, invalid};

/// The regions of a container.
#[pyclass(frozen, weakref, name = "RegionsHandle", module = "drystone._core")]
pub(crate) struct RegionsHandle {
    keeper: Arc<Keeper>,
}

/// One region.
#[pyclass(frozen, name = "RegionHandle", module = "drystone._core")]
pub(crate) struct RegionHandle {
    mapped: Mapped,
}

/// Memory of a region, for NumPy.
#[pyclass(frozen, name = "RegionMemory", module = "drystone._core")]
pub(crate) struct RegionMemory {
    memory: Arc<Memory>,
}

/// The Python exception for an error of regions.
fn raised(py: Python<'_>, error: RegionError) -> Failure {
    let (class, message) = match error {
        RegionError::LeaseExpired(text) => ("LeaseExpired", text),
        RegionError::Deadline(text) => ("DeadlineError", text),
        RegionError::Engine(error) => return error.into(),
    };
    let found = py.import("drystone.errors").and_then(|errors| errors.getattr(class));
    match found.and_then(|class| Ok(class.cast_into::<PyType>()?)) {
        Ok(class) => Failure::Python(PyErr::from_type(class, message)),
        Err(missing) => Failure::Python(missing),
    }
}

fn told<T: Send>(
    py: Python<'_>,
    act: impl FnOnce() -> std::result::Result<T, RegionError> + Send,
) -> Result<T> {
    py.detach(act).map_err(|error| raised(py, error))
}

fn seconds(number: f64) -> Result<Duration> {
    Duration::try_from_secs_f64(number)
        .ok()
        .filter(|time| time.as_secs() <= 86_400)
        .ok_or_else(|| invalid(format!("{number} s is not a time from 0 to a day")))
}

#[pymethods]
impl RegionsHandle {
    /// The regions of a container whose store has these options.
    #[staticmethod]
    fn of(py: Python<'_>, container: &ContainerHandle, options: Vec<(String, String)>) -> Result<Self> {
        let container = container.open_container()?;
        Ok(RegionsHandle { keeper: py.detach(|| Keeper::of(container, &options))? })
    }

    #[expect(clippy::too_many_arguments, reason = "a box of a variable, and what it is for")]
    #[pyo3(signature = (container, variable, step, offset, count, read, write))]
    /// Maps a box of a variable, after checking it.
    fn map(
        &self,
        py: Python<'_>,
        container: &ContainerHandle,
        variable: &str,
        step: Option<u64>,
        offset: Vec<u64>,
        count: Vec<u64>,
        read: bool,
        write: bool,
    ) -> Result<RegionHandle> {
        let container = container.open_container()?;
        let cells = Cells { variable: Container::normal_path(variable).to_owned(), step, offset, count };
        let (keeper, access) = (Arc::clone(&self.keeper), Access { read, write });
        Ok(RegionHandle { mapped: py.detach(|| Mapped::new(keeper, container, cells, access))? })
    }

    /// Results in transit: computes a variable whenever regions of another are released.
    fn on(
        &self,
        py: Python<'_>,
        container: &ContainerHandle,
        source: &str,
        operation: &str,
        into: &str,
    ) -> Result<()> {
        let (operation, container) = (Operation::parse(operation)?, container.open_container()?);
        told(py, || self.keeper.compute_on_release(container, source, &operation, into))
    }

    /// Starts a transfer of values from one variable to another; returns its number.
    #[pyo3(signature = (source, into, rule, step))]
    fn transfer(
        &self,
        py: Python<'_>,
        source: &str,
        into: &str,
        rule: &str,
        step: Option<u64>,
    ) -> Result<u64> {
        told(py, || self.keeper.transfer(source, into, rule, step))
    }

    /// The level of a transfer, after it reaches the requested one or the timeout.
    fn wait(&self, py: Python<'_>, transfer: u64, stable: bool, timeout: f64) -> Result<&'static str> {
        let timeout = seconds(timeout)?;
        told(py, || self.keeper.wait(transfer, stable, timeout).map(|level| level.name()))
    }

    /// The snapshot that contains the released values.
    fn commit(&self, py: Python<'_>) -> Result<u64> {
        told(py, || self.keeper.commit())
    }
}

/// Registers the function at an address for releases of this process.
///
/// The caller keeps the function and its state until the process ends.
#[expect(clippy::too_many_arguments, reason = "the declaration of a function")]
#[pyfunction]
pub(crate) fn register_function(
    name: String,
    address: usize,
    state: usize,
    input: &str,
    output: &str,
    halo: Vec<u64>,
    thread_safe: bool,
    deadline: f64,
    memory: u64,
) -> Result<()> {
    let kind =
        |text: &str| element_type(text).ok_or_else(|| invalid(format!("{text} is no type of functions")));
    let (input, output, deadline) = (kind(input)?, kind(output)?, seconds(deadline)?);
    let declared = Declared { name, input, output, halo, thread_safe, deadline, memory };
    // SAFETY: the program declares the function, as for `Variable.apply`, and the package keeps it alive.
    let function = unsafe { Function::at(declared, address, state) }.map_err(drystone::Error::from)?;
    Functions::of_process().insert(function);
    Ok(())
}

#[pymethods]
impl RegionHandle {
    /// Its memory; waits until no release reads it.
    fn memory(&self, py: Python<'_>) -> Result<RegionMemory> {
        Ok(RegionMemory { memory: told(py, || self.mapped.memory())? })
    }

    /// The fencing number of its write lock.
    #[getter]
    fn fence(&self) -> Option<u64> {
        self.mapped.fence()
    }

    /// Takes the write lock; returns its fencing number.
    fn lock(&self, py: Python<'_>, timeout: f64, life: f64, renew: bool) -> Result<u64> {
        let (timeout, life) = (seconds(timeout)?, seconds(life)?);
        told(py, || self.mapped.lock(timeout, life, renew))
    }

    /// Releases the values; returns the transfer's number, and whether it still reads the memory.
    fn release(&self, py: Python<'_>, stable: bool) -> Result<(u64, bool)> {
        told(py, || self.mapped.release(stable).map(|transfer| (transfer, self.mapped.is_read())))
    }

    /// Ends the lock.
    fn unlock(&self, py: Python<'_>) -> Result<()> {
        told(py, || self.mapped.unlock())
    }

    /// Fills the memory with values of a handle's snapshot.
    fn load(&self, py: Python<'_>, container: &ContainerHandle) -> Result<()> {
        let container = container.open_container()?;
        told(py, || self.mapped.load(container))
    }

    /// Ends the lock, and frees the memory.
    fn close(&self, py: Python<'_>) -> Result<()> {
        told(py, || self.mapped.close())
    }
}

#[pymethods]
impl RegionMemory {
    /// Whether the memory is shared with the server.
    #[getter]
    fn shared(&self) -> bool {
        self.memory.is_shared()
    }

    /// The memory as bytes; NumPy references this object while it uses them.
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let interface = PyDict::new(py);
        interface.set_item("shape", (self.memory.len(),))?;
        interface.set_item("typestr", "|u1")?;
        interface.set_item("data", (self.memory.pointer().addr(), false))?;
        interface.set_item("version", 3)?;
        Ok(interface)
    }
}
