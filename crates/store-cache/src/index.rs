//! What this process knows about the units of each object: where they are, their heads, and which of their bytes were
//! prefetched and not read yet.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use drystone_format::cache_unit::UnitHead;
use drystone_plan::tier::cover::{Covered, Units};

use crate::folder::Folder;

/// The folder is checked again for units of other processes after this time, or after a multiple of the time that a
/// check takes.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
const COST: u32 = 20;
/// Number of objects whose index is kept, and number of heads of each.
const OBJECTS: usize = 4096;
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

/// What is known about a unit that begins at some offset.
#[derive(Debug, Clone, Default)]
pub(crate) struct Known {
    end: u64,
    pub(crate) head: Option<Arc<UnitHead>>,
    /// Bytes of it that were prefetched and not read yet.
    pub(crate) unread: u64,
    pub(crate) touched: Option<Instant>,
}

impl Index {
    /// The parts of a range, each with the unit that holds it. Checks the folder if something is missing.
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
