//! Regions: locked, released, waited for; of a container in this process, or on a server.

use std::time::Duration;

use drystone::client::{InvalidAddress, Level, Options, Refused, Region, Session, Status};
use drystone::region::lease::Cells;
use drystone::region::operation::Operation;
use drystone::region::{ObjectTransfer, Progress, RegionError, Regions, Release};
use drystone::{Container, Error, ErrorKind, Mode};
use numpy::PyUntypedArray;
use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::error::{Failure, Result, invalid};
use crate::ndarray::View;

enum Way {
    Local(Regions),
    Server(Session),
}

/// The regions of a container.
#[pyclass(frozen, weakref, name = "RegionsHandle", module = "drystone._core")]
pub(crate) struct RegionsHandle {
    way: Way,
}

/// What Python raises for it.
fn raised(py: Python<'_>, class: &str, message: String) -> Failure {
    let found = py.import("drystone.errors").and_then(|errors| errors.getattr(class));
    match found.and_then(|class| Ok(class.cast_into::<PyType>()?)) {
        Ok(class) => Failure::Python(PyErr::from_type(class, message)),
        Err(missing) => Failure::Python(missing),
    }
}

fn of_region(py: Python<'_>, error: RegionError) -> Failure {
    match error {
        RegionError::LeaseExpired(text) => raised(py, "LeaseExpired", text),
        RegionError::Deadline(text) => raised(py, "DeadlineError", text),
        RegionError::Engine(error) => error.into(),
    }
}

fn of_server(py: Python<'_>, refused: Refused) -> Failure {
    let kind = match refused.status {
        Status::LeaseExpired => return raised(py, "LeaseExpired", refused.message),
        Status::Deadline => return raised(py, "DeadlineError", refused.message),
        Status::NotFound => ErrorKind::NotFound,
        Status::Corrupt => ErrorKind::Corrupt,
        Status::Conflict | Status::AlreadyExists => ErrorKind::Conflict,
        Status::Invalid => ErrorKind::InvalidArgument,
        Status::Unsupported => ErrorKind::Unsupported,
        Status::Denied => ErrorKind::Permission,
        _ => ErrorKind::Io,
    };
    Error::new(kind, refused.message).into()
}

fn seconds(number: f64) -> Result<Duration> {
    Duration::try_from_secs_f64(number)
        .ok()
        .filter(|time| time.as_secs() <= 86_400)
        .ok_or_else(|| invalid(format!("{number} s is no time from 0 to a day")))
}

fn region(variable: &str, step: Option<u64>, offset: &[u64], count: &[u64]) -> Region {
    let axes = offset.iter().copied().zip(count.iter().copied()).collect();
    Region { variable: variable.to_owned(), step, axes }
}

fn cells(variable: &str, step: Option<u64>, offset: &[u64], count: &[u64]) -> Cells {
    Cells { variable: variable.to_owned(), step, offset: offset.to_vec(), count: count.to_vec() }
}

/// A number by which a request is known: in one process a counter will do.
fn number() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

#[pymethods]
impl RegionsHandle {
    /// Of a container that this process writes to by itself.
    #[staticmethod]
    fn local(py: Python<'_>, place: &str, options: Vec<(String, String)>) -> Result<Self> {
        let opened = py.detach(|| match drystone::is_url(place) {
            true => Container::open_url(place, &options, Mode::ReadWrite),
            false => Container::open_local(place, Mode::ReadWrite),
        });
        Ok(RegionsHandle { way: Way::Local(Regions::new(opened?)) })
    }

    /// Those of a container on a server.
    #[staticmethod]
    fn of_server(url: &str, options: Vec<(String, String)>) -> Result<Self> {
        let session = Session::open(url, &Options::new(options));
        Ok(RegionsHandle {
            way: Way::Server(session.map_err(|error: InvalidAddress| invalid(error.to_string()))?),
        })
    }

    #[expect(clippy::too_many_arguments, reason = "a box of a variable, and how long to wait for it")]
    #[pyo3(signature = (variable, step, offset, count, timeout, life))]
    /// A lease: fencing number, life in seconds.
    fn lock(
        &self,
        py: Python<'_>,
        variable: &str,
        step: Option<u64>,
        offset: Vec<u64>,
        count: Vec<u64>,
        timeout: f64,
        life: f64,
    ) -> Result<(u64, f64)> {
        let (timeout, life) = (seconds(timeout)?, seconds(life)?);
        let path = Container::normal_path(variable);
        let (fence, life) = match &self.way {
            Way::Local(regions) => {
                let wanted = [cells(path, step, &offset, &count)];
                let life = if life.is_zero() { Duration::from_secs(10) } else { life };
                let lease = py.detach(|| regions.lock(&wanted, timeout, life, number()));
                let lease = lease.map_err(|error| of_region(py, error))?;
                (lease.fence, lease.life)
            }
            Way::Server(session) => {
                let wanted = region(path, step, &offset, &count);
                py.detach(|| session.lock(&wanted, timeout, life))
                    .map_err(|refused| of_server(py, refused))?
            }
        };
        Ok((fence, life.as_secs_f64()))
    }

    fn renew(&self, py: Python<'_>, fence: u64) -> Result<()> {
        match &self.way {
            Way::Local(regions) => py.detach(|| regions.renew(fence)).map_err(|error| of_region(py, error)),
            Way::Server(session) => {
                py.detach(|| session.renew(fence)).map_err(|refused| of_server(py, refused))
            }
        }
    }

    fn unlock(&self, py: Python<'_>, fence: u64) -> Result<()> {
        match &self.way {
            Way::Local(regions) => {
                py.detach(|| regions.unlock(fence));
                Ok(())
            }
            Way::Server(session) => {
                py.detach(|| session.unlock(fence)).map_err(|refused| of_server(py, refused))
            }
        }
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "a box of a variable, its values, and how they are released"
    )]
    #[pyo3(signature = (variable, step, offset, array, fence, stable))]
    /// Number of the transfer. The array is dense and of the variable's type.
    fn release(
        &self,
        py: Python<'_>,
        variable: &str,
        step: Option<u64>,
        offset: Vec<u64>,
        array: Bound<'_, PyUntypedArray>,
        fence: Option<u64>,
        stable: bool,
    ) -> Result<u64> {
        let view = View::of(&array)?;
        let Some((data, len)) = view.dense_bytes() else {
            return Err(invalid("the array of a region is dense, in C order"));
        };
        let path = Container::normal_path(variable);
        let count: Vec<u64> = view.shape().to_vec();
        // SAFETY: `array` is referenced until this returns, and has so many bytes there; its caller releases it, and does not write to it
        // meanwhile.
        let bytes: &[u8] = unsafe { std::slice::from_raw_parts(data, len) };
        match &self.way {
            Way::Local(regions) => {
                let release = Release {
                    cells: cells(path, step, &offset, &count),
                    bytes: bytes.to_vec(),
                    fence,
                    stable,
                    once: number(),
                };
                py.detach(|| regions.release(release)).map_err(|error| of_region(py, error))
            }
            Way::Server(session) => {
                let wanted = region(path, step, &offset, &count);
                let released = py.detach(|| session.release(&wanted, bytes, fence, stable));
                released.map_err(|refused| of_server(py, refused))
            }
        }
    }

    /// Number of the transfer of values of one variable to another.
    #[pyo3(signature = (source, into, rule, step))]
    fn transfer(
        &self,
        py: Python<'_>,
        source: &str,
        into: &str,
        rule: &str,
        step: Option<u64>,
    ) -> Result<u64> {
        let (from, to) = (Container::normal_path(source), Container::normal_path(into));
        match &self.way {
            Way::Local(regions) => {
                let rule = if rule.is_empty() { None } else { Some(Operation::parse(rule)?) };
                let (from, to) = (from.to_owned(), to.to_owned());
                let wanted = ObjectTransfer { from, to, rule, step, once: number() };
                Ok(py.detach(|| regions.transfer(wanted))?)
            }
            Way::Server(session) => {
                py.detach(|| session.transfer(from, to, rule, step)).map_err(|refused| of_server(py, refused))
            }
        }
    }

    /// The level of a transfer after it is reached, or after the time.
    fn wait(&self, py: Python<'_>, transfer: u64, stable: bool, timeout: f64) -> Result<&'static str> {
        let timeout = seconds(timeout)?;
        match &self.way {
            Way::Local(regions) => match py.detach(|| regions.wait(transfer, stable, timeout)) {
                Some(Progress::Received) => Ok(Level::Received.name()),
                Some(Progress::Logged) => Ok(Level::Node.name()),
                Some(Progress::Stable) => Ok(Level::Stable.name()),
                Some(Progress::Failed(error)) => Err(error.into()),
                None => Err(invalid("there is no such transfer")),
            },
            Way::Server(session) => {
                let level = py.detach(|| session.wait(transfer, stable, timeout));
                level.map(Level::name).map_err(|refused| of_server(py, refused))
            }
        }
    }

    /// The snapshot that has what was released.
    fn commit(&self, py: Python<'_>) -> Result<u64> {
        match &self.way {
            Way::Local(regions) => Ok(py.detach(|| regions.commit())?.snapshot.version()),
            Way::Server(session) => py.detach(|| session.commit()).map_err(|refused| of_server(py, refused)),
        }
    }
}
