//! The units of each object that this process knows: their ranges, their heads, and how many of their bytes were
//! prefetched and not read yet.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use drystone_format::cache_unit::UnitHead;
use drystone_plan::tier::cover::{Covered, Units};

use crate::folder::Folder;
use crate::open_units::OpenUnit;

/// The folder is listed again for units of other processes after this time, or after [`COST`] times the time that a
/// listing took, if that is longer.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
const COST: u32 = 20;
/// The most objects in the index.
const OBJECTS: usize = 4096;
/// The most heads that are kept of one object.
const HEADS: usize = 1 << 14;

/// The units of the objects of a container.
#[derive(Debug, Default)]
pub(crate) struct Index {
    objects: HashMap<String, Object>,
}

#[derive(Debug, Default)]
struct Object {
    units: Units,
    heads: HashMap<u64, Known>,
    next_look: Option<Instant>,
}

/// What this process knows about a unit.
#[derive(Debug, Clone, Default)]
pub(crate) struct Known {
    end: u64,
    pub(crate) head: Option<Arc<UnitHead>>,
    pub(crate) open: Weak<OpenUnit>,
    /// Number of its bytes that were prefetched and not read yet.
    pub(crate) unread: u64,
    pub(crate) touched: Option<Instant>,
}

impl Index {
    /// Divides a range into parts, each with the unit that holds it, if any. Lists the folder again if a part has no
    /// unit.
    pub(crate) fn cover(
        &mut self,
        folder: &Folder,
        dir: &str,
        key: &str,
        wanted: &Range<u64>,
    ) -> Vec<Covered> {
        if self.objects.len() >= OBJECTS && !self.objects.contains_key(key) {
            self.objects.clear();
        }
        let object = self.objects.entry(key.to_owned()).or_default();
        let parts = object.units.cover(wanted.clone());
        let now = Instant::now();
        let may_look = object.next_look.is_none_or(|at| at <= now);
        if parts.iter().all(|part| part.unit.is_some()) || !may_look {
            return parts;
        }
        if let Some((units, _)) = folder.look(dir) {
            object.units = units;
            object.heads.retain(|start, known| object.units.contains(&(*start..known.end)));
        }
        object.next_look = Some(now + LOOK_AGAIN.max(now.elapsed() * COST));
        object.units.cover(wanted.clone())
    }

    /// Records that a unit was added, of which this many bytes were prefetched.
    pub(crate) fn added(&mut self, key: &str, unit: &Range<u64>, unread: u64) {
        let object = self.objects.entry(key.to_owned()).or_default();
        object.units.insert(unit.clone());
        object.note(unit).unread = unread;
    }

    pub(crate) fn removed(&mut self, key: &str, unit: &Range<u64>) {
        if let Some(object) = self.objects.get_mut(key) {
            object.units.remove(unit);
            object.heads.remove(&unit.start);
        }
    }

    /// Drops everything that is known about an object.
    pub(crate) fn forget(&mut self, key: &str) {
        self.objects.remove(key);
    }

    /// The record of a unit.
    pub(crate) fn note(&mut self, key: &str, unit: &Range<u64>) -> &mut Known {
        self.objects.entry(key.to_owned()).or_default().note(unit)
    }
}

impl Object {
    fn note(&mut self, unit: &Range<u64>) -> &mut Known {
        if self.heads.len() >= HEADS && !self.heads.contains_key(&unit.start) {
            self.heads.clear();
        }
        let known = self.heads.entry(unit.start).or_default();
        if known.end != unit.end {
            *known = Known { end: unit.end, ..Known::default() };
        }
        known
    }
}
