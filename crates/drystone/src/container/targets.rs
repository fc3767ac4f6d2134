//! Storage targets: which log parts and shards lie on which target, and where that is recorded.
//!
//! A target is a folder on another disk, or in another pool of a parallel file system. [`Placement`] spreads the
//! cells of a grid (processes, shards) over the targets. The store keeps each object in its target under its own
//! name, so readers, garbage collection and verification need not know about targets. `targets.json` records the rule
//! for new objects.
//!
//! Invariants
//! - the name of an object suffices to find it, whatever target it is on;
//! - the same grid gives the same targets in every process.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use drystone_format::keys;
use drystone_plan::layout::{Placement, Spread};
use drystone_store::{LocalStore, PutMode, Request, Store, StoreError, StoreExt};
use serde_json::{Value as Json, json};

use crate::base::random;
use crate::base::sync::lock;
use crate::{Error, Result};

const MOST_LEN: u64 = 1 << 20;
/// The most targets of a container. A parallel file system has some thousands.
const MOST_TARGETS: usize = 1 << 16;

/// Folders over which log parts and shards are spread.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Targets {
    /// One folder on each target. The container creates its own folder in it.
    pub folders: Vec<PathBuf>,
    /// How grids are spread.
    pub spread: Spread,
}

/// The stored record.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Record {
    folders: Vec<PathBuf>,
    former: Vec<PathBuf>,
    spread: Spread,
}

/// The placement of new objects by a handle.
#[derive(Debug)]
pub(crate) struct Placing {
    spread: Spread,
    /// Placements by grid.
    made: Mutex<HashMap<Vec<u64>, Arc<Placement>>>,
}

/// The name of a spread.
pub(crate) fn name_of(spread: Spread) -> &'static str {
    match spread {
        Spread::Lattice => "lattice",
        Spread::Hilbert => "hilbert",
        Spread::RowMajor => "row-major",
    }
}

impl Targets {
    /// Parses the name of a spread: `lattice`, `hilbert` or `row-major`.
    pub fn parse(folders: Vec<PathBuf>, spread: &str) -> Result<Targets> {
        let all = [Spread::Lattice, Spread::Hilbert, Spread::RowMajor];
        let spread = all.into_iter().find(|one| name_of(*one) == spread).ok_or_else(|| {
            Error::invalid(format!("spread is \"lattice\", \"hilbert\" or \"row-major\", not \"{spread}\""))
        })?;
        if folders.is_empty() || folders.len() > MOST_TARGETS {
            return Err(Error::invalid(format!(
                "{} storage targets; give 1 to {MOST_TARGETS}",
                folders.len()
            )));
        }
        Ok(Targets { folders, spread })
    }

    /// Creates the container's folder on each target, and records that new objects are placed there.
    pub(crate) fn settle(&self, container: &Path, uuid: &[u8; 16]) -> Result<()> {
        let mut record = Record::load(container)?.unwrap_or_default();
        let before = std::mem::take(&mut record.folders);
        let named = container.file_name().map_or("container".into(), |name| name.to_string_lossy());
        let hex: String = uuid.iter().take(4).map(|b| format!("{b:02x}")).collect();
        for folder in &self.folders {
            let absolute = std::path::absolute(folder)
                .map_err(|e| Error::invalid(format!("the storage target {}: {e}", folder.display())))?;
            let own = absolute.join(format!("{named}-{hex}"));
            LocalStore::create_target(&own)?;
            if record.folders.contains(&own) {
                return Err(Error::invalid(format!(
                    "the storage target {} is given twice",
                    folder.display()
                )));
            }
            record.folders.push(own);
        }
        let gone = before.into_iter().filter(|folder| !record.folders.contains(folder));
        let gone: Vec<PathBuf> = gone.filter(|folder| !record.former.contains(folder)).collect();
        record.former.extend(gone);
        record.former.retain(|folder| !record.folders.contains(folder));
        record.spread = self.spread;
        let text = record.json().to_string();
        let store = LocalStore::open(container, false)?;
        Ok(store.put(keys::TARGETS, &[text.as_bytes()], PutMode::Replace, true)?)
    }
}

impl Record {
    fn json(&self) -> Json {
        let list = |folders: &[PathBuf]| -> Vec<String> {
            folders.iter().map(|folder| folder.to_string_lossy().into_owned()).collect()
        };
        json!({
            "spread": name_of(self.spread),
            "folders": list(&self.folders),
            "former": list(&self.former),
        })
    }

    /// The record of the container in a folder. `None` if there is none.
    fn load(container: &Path) -> Result<Option<Record>> {
        let store = match LocalStore::open(container, true) {
            Err(StoreError::NotFound { .. }) => return Ok(None),
            other => other?,
        };
        Record::read(&store)
    }

    /// The record in the store of a container.
    fn read(store: &LocalStore) -> Result<Option<Record>> {
        let bytes = match store.read_all(keys::TARGETS, MOST_LEN) {
            Err(StoreError::NotFound { .. }) => return Ok(None),
            other => other?,
        };
        let damaged = || {
            Error::corrupt(format!(
                "{} in {} is damaged; open the container with targets= to write it again",
                keys::TARGETS,
                store.path().display()
            ))
        };
        let json: Json = serde_json::from_slice(&bytes).map_err(|_| damaged())?;
        let list = |key: &str| -> Option<Vec<PathBuf>> {
            let all = json[key].as_array().filter(|all| all.len() <= MOST_TARGETS)?;
            let absolute = |path: &PathBuf| path.is_absolute();
            let paths: Vec<PathBuf> =
                all.iter().filter_map(Json::as_str).map(PathBuf::from).filter(absolute).collect();
            (paths.len() == all.len()).then_some(paths)
        };
        let spread = json["spread"].as_str().ok_or_else(damaged)?;
        let folders = list("folders").ok_or_else(damaged)?;
        let spread = Targets::parse(folders.clone(), spread).map_err(|_| damaged())?.spread;
        Ok(Some(Record { folders, former: list("former").ok_or_else(damaged)?, spread }))
    }
}

/// A store with the recorded targets of its folder, and their placement.
pub(crate) fn with_targets(store: LocalStore) -> Result<(LocalStore, Option<Arc<Placing>>)> {
    match Record::read(&store)? {
        None => Ok((store, None)),
        Some(record) => {
            let store = store.with_targets(&record.folders, &record.former)?;
            Ok((store, Some(Arc::new(Placing { spread: record.spread, made: Mutex::default() }))))
        }
    }
}

/// The recorded folders of a container, with the name of the spread.
pub(crate) fn shown(container: &Path) -> Result<Option<(Vec<PathBuf>, &'static str)>> {
    Ok(Record::load(container)?.map(|record| (record.folders, name_of(record.spread))))
}

/// The target folder that holds each object of a container, by key. `None` for an object in the container's own
/// folder.
pub(super) fn holders(container: &Path, keys: &[String]) -> Result<Vec<Option<String>>> {
    let Some(record) = Record::load(container)?.filter(|record| !record.folders.is_empty()) else {
        return Err(Error::invalid(format!("{} has no storage targets", container.display())));
    };
    let folders: Vec<&PathBuf> = record.folders.iter().chain(&record.former).collect();
    let holder = |key: &String| {
        // The name of an object on a target is a link to it.
        let file = std::fs::read_link(container.join(key)).ok()?;
        let folder = folders.iter().find(|folder| file.starts_with(folder))?;
        Some(folder.display().to_string())
    };
    Ok(keys.iter().map(holder).collect())
}

impl Placing {
    /// The number of the target for a cell of a grid.
    pub(crate) fn target(&self, store: &dyn Store, grid: &[u64], cell: &[u64]) -> u64 {
        let targets = u64::from(store.features().targets.max(1));
        let known = lock(&self.made).get(grid).cloned();
        let placement = known.unwrap_or_else(|| {
            // If a grid has no space-filling curve, a lattice spreads it.
            let made = Placement::new(grid, targets, self.spread)
                .or_else(|_| Placement::new(grid, targets, Spread::Lattice));
            let made = Arc::new(made.unwrap_or_else(|_| Placement::single(targets)));
            lock(&self.made).insert(grid.to_vec(), made.clone());
            made
        });
        placement.of(cell)
    }

    /// Hints to the store on which target to create this object.
    pub(crate) fn place(&self, store: &dyn Store, key: &str, target: u64) {
        let targets = u64::from(store.features().targets);
        if targets > 0 {
            let target = u32::try_from(target % targets).unwrap_or(0);
            // Only a hint: if it is not followed, the object lies in the container's folder.
            let _ = store.submit(Request::Place { key: key.to_owned(), target }).wait();
        }
    }
}

/// The grid of processes, and the cell of a block of a variable in it. Blocks without a cell (of growable or local
/// variables) are placed in a row of all ranks, or anywhere.
pub(crate) fn process_cell(
    shape: &[u64],
    offset: &[u64],
    count: &[u64],
    rank: Option<(u64, u64)>,
) -> (Vec<u64>, Vec<u64>) {
    let grid: Vec<u64> = shape.iter().zip(count).map(|(n, c)| n.div_ceil((*c).max(1)).max(1)).collect();
    let cell: Vec<u64> = offset.iter().zip(count).map(|(at, c)| at / (*c).max(1)).collect();
    let cells = grid.iter().try_fold(1u64, |n, g| n.checked_mul(*g));
    let fits =
        !shape.is_empty() && offset.len() == shape.len() && cells.is_some_and(|n| (2..=1 << 22).contains(&n));
    if fits && cell.iter().zip(&grid).all(|(c, g)| c < g) {
        return (grid, cell);
    }
    let (rank, nranks) = rank.unwrap_or((random::id64() % 4096, 4096));
    (vec![nranks.max(1)], vec![rank])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_placed_by_its_process() {
        let cell = |offset: &[u64]| process_cell(&[100, 60], offset, &[25, 20], Some((7, 12)));
        assert_eq!(cell(&[50, 40]), (vec![4, 3], vec![2, 2]));
        assert_eq!(process_cell(&[100], &[0], &[100], Some((7, 12))), (vec![12], vec![7]));
        assert_eq!(process_cell(&[], &[], &[], Some((1, 2))), (vec![2], vec![1]));
        assert_eq!(process_cell(&[1 << 40], &[5], &[1], Some((1, 2))), (vec![2], vec![1]));
    }

    #[test]
    fn a_record_is_read_back_and_other_bytes_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Record::load(dir.path()).unwrap(), None);
        let targets = Targets::parse(vec![dir.path().join("a"), dir.path().join("b")], "hilbert").unwrap();
        targets.settle(dir.path(), &[7; 16]).unwrap();
        let record = Record::load(dir.path()).unwrap().unwrap();
        assert_eq!((record.folders.len(), record.spread), (2, Spread::Hilbert));
        assert!(record.folders.iter().all(|folder| folder.is_dir()));
        let other = Targets::parse(vec![dir.path().join("b"), dir.path().join("c")], "lattice").unwrap();
        other.settle(dir.path(), &[7; 16]).unwrap();
        let after = Record::load(dir.path()).unwrap().unwrap();
        assert_eq!(after.former, record.folders[..1]);
        let twice = Targets::parse(vec![dir.path().join("b"), dir.path().join("b")], "lattice").unwrap();
        assert!(twice.settle(dir.path(), &[7; 16]).is_err());
        for bad in [
            "",
            "{}",
            "[]",
            "{\"spread\":\"x\",\"folders\":[\"/a\"],\"former\":[]}",
            "{\"spread\":\"lattice\",\"folders\":[\"a\"],\"former\":[]}",
            "{\"spread\":\"lattice\",\"folders\":[3],\"former\":[]}",
        ] {
            std::fs::write(dir.path().join(keys::TARGETS), bad).unwrap();
            assert!(Record::load(dir.path()).is_err(), "{bad}");
        }
        assert!(Targets::parse(vec![], "lattice").is_err() && Targets::parse(vec!["a".into()], "x").is_err());
    }
}
