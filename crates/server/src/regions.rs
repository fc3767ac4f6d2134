//! The [`Regions`] of the engine, one for each container of which a client locks or releases a region.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use drystone::{Container, ErrorKind, Mode};
use drystone_region::{
    Cells, Function, Functions, ObjectTransfer, Operation, Progress, RegionError, Regions, Release, Values,
};
use drystone_wire::{Ask, Level, Region, Status};

use crate::open::Opened;
use crate::place::{Place, place};
use crate::reply::Refusal;
use crate::{Config, InvalidConfig};

/// The longest wait for a lock or a transfer in one request. A longer wait would take turns from the requests that end
/// it.
const BRIEF: Duration = Duration::from_millis(100);

/// Regions, and the store that was open when their container was opened.
type Kept = (Weak<Opened>, Arc<Regions>);

/// The regions of each container, with its store. If the store is another one now, the container was replaced and is
/// opened again.
pub(crate) struct AllRegions {
    open: Mutex<HashMap<String, Kept>>,
}

impl AllRegions {
    /// Loads the functions of the configuration.
    pub(crate) fn new(config: &Config) -> Result<AllRegions, InvalidConfig> {
        for file in &config.functions {
            let named = |error| InvalidConfig(format!("functions.{}: {error}", file.declared.name));
            let function =
                Function::load(file.declared.clone(), &file.library, &file.symbol).map_err(named)?;
            Functions::of_process().insert(function);
        }
        Ok(AllRegions { open: Mutex::default() })
    }

    pub(crate) fn of(
        &self,
        config: &Config,
        name: &str,
        opened: &Arc<Opened>,
    ) -> Result<Arc<Regions>, Refusal> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((beside, regions)) = open.get(name)
            && beside.upgrade().is_some_and(|beside| Arc::ptr_eq(&beside, opened))
        {
            return Ok(Arc::clone(regions));
        }
        let container = match (place(config, name), &opened.folder) {
            (Some(Place::Container(url)), None) if drystone::is_url(&url) => {
                Container::open(&url, Mode::ReadWrite)
            }
            (_, Some(folder)) => Container::open(folder, Mode::ReadWrite),
            _ => return Err(Refusal::new(Status::NotFound, format!("there is no container {name:?}"))),
        };
        let container = container.map_err(|error| refused(&RegionError::Engine(error)))?;
        let regions = Arc::new(Regions::new(container));
        open.insert(name.to_owned(), (Arc::downgrade(opened), Arc::clone(&regions)));
        Ok(regions)
    }

    /// Number of live leases.
    pub(crate) fn leases(&self) -> usize {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.values().map(|(_, regions)| regions.leases()).sum()
    }

    /// Writes all received values, and closes all containers.
    pub(crate) fn close(&self) {
        let open = std::mem::take(&mut *self.open.lock().unwrap_or_else(PoisonError::into_inner));
        open.values().for_each(|(_, regions)| regions.drain());
    }

    /// Executes an ask about regions and returns the numbers of its answer; `None` if the ask is about objects.
    pub(crate) fn done(
        &self,
        config: &Config,
        name: &str,
        opened: &Arc<Opened>,
        ask: &Ask,
        payload: &[u8],
    ) -> Option<Result<Vec<u64>, Refusal>> {
        let is_about_regions = matches!(
            ask,
            Ask::Lock { .. }
                | Ask::Renew { .. }
                | Ask::Unlock { .. }
                | Ask::Release { .. }
                | Ask::Wait { .. }
                | Ask::Transfer { .. }
                | Ask::On { .. }
                | Ask::Commit
                | Ask::CommitRegion { .. }
        );
        is_about_regions.then(|| {
            let regions = self.of(config, name, opened)?;
            work(&regions, config.limits.lease, ask, payload, BRIEF)
        })
    }
}

/// Executes an ask about regions of a container and returns the numbers of its answer. `lease` is the longest life of a
/// lock; `brief` is the longest wait.
pub(crate) fn work(
    regions: &Regions,
    lease: Duration,
    ask: &Ask,
    payload: &[u8],
    brief: Duration,
) -> Result<Vec<u64>, Refusal> {
    worked(regions, lease, ask, payload, brief).map_err(|error| refused(&error))
}

fn worked(
    regions: &Regions,
    lease: Duration,
    ask: &Ask,
    payload: &[u8],
    brief: Duration,
) -> Result<Vec<u64>, RegionError> {
    match ask {
        Ask::Lock { region, once, life } => {
            let life = if *life == 0 { lease } else { Duration::from_millis(*life).min(lease) };
            let lease = regions.lock(&[cells(region)], brief, life, *once)?;
            Ok(vec![lease.fence, u64::try_from(lease.life.as_millis()).unwrap_or(u64::MAX)])
        }
        Ask::Renew { fence } => regions.renew(*fence).map(|()| Vec::new()),
        Ask::Unlock { fence } => {
            regions.unlock(*fence);
            Ok(Vec::new())
        }
        Ask::Release { region, once, fence, stable, kind } => {
            let fence = (*fence != 0).then_some(*fence);
            let release =
                Release {
                    cells: cells(region),
                    values: Values::Owned(payload.to_vec()),
                    fence,
                    stable: *stable,
                    once: *once,
                    kind: *kind,
                };
            Ok(vec![regions.release(release)?])
        }
        Ask::Transfer { from, to, rule, step, once } => {
            let rule = if rule.is_empty() { None } else { Some(Operation::parse(rule)?) };
            let (from, to) = (from.clone(), to.clone());
            Ok(vec![regions.transfer(ObjectTransfer { from, to, rule, step: *step, once: *once })?])
        }
        Ask::On { from, to, rule } => {
            regions.compute_on_release(from, &Operation::parse(rule)?, to)?;
            Ok(Vec::new())
        }
        Ask::Wait { transfer, stable } => match regions.wait(*transfer, *stable, brief) {
            Some(Progress::Received) => Ok(vec![Level::Received.code()]),
            Some(Progress::Logged) => Ok(vec![Level::Node.code()]),
            Some(Progress::Stable) => Ok(vec![Level::Stable.code()]),
            Some(Progress::Failed(error)) => Err(error.into()),
            None => Err(drystone::Error::new(
                ErrorKind::NotFound,
                "the server does not know this transfer, because the server was restarted; values that had not reached \
                 level node are lost",
            )
            .into()),
        },
        Ask::Commit => Ok(vec![regions.commit()?.snapshot.version()]),
        Ask::CommitRegion { region } => {
            regions.commit_released(&cells(region))?;
            Ok(Vec::new())
        }
        _ => Ok(Vec::new()),
    }
}

pub(crate) fn cells(region: &Region) -> Cells {
    Cells {
        variable: region.variable.clone(),
        step: region.step,
        offset: region.axes.iter().map(|(at, _)| *at).collect(),
        count: region.axes.iter().map(|(_, n)| *n).collect(),
    }
}

pub(crate) fn refused(error: &RegionError) -> Refusal {
    let status = match error {
        RegionError::LeaseExpired(_) => Status::LeaseExpired,
        RegionError::Deadline(_) => Status::Deadline,
        RegionError::Engine(error) => match error.kind() {
            ErrorKind::NotFound => Status::NotFound,
            ErrorKind::Corrupt => Status::Corrupt,
            ErrorKind::Conflict => Status::Conflict,
            ErrorKind::Unsupported => Status::Unsupported,
            ErrorKind::InvalidArgument | ErrorKind::OutOfRange => Status::Invalid,
            ErrorKind::Permission => Status::Denied,
            ErrorKind::Deadline => Status::Deadline,
            ErrorKind::NotYetHome => Status::NotYetHome,
            _ => Status::Io,
        },
    };
    Refusal::new(status, error.to_string())
}
