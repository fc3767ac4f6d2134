//! Ranges of sorted replicas: finds cells whose keys lie in a range, and the values of other variables there.

use std::ops::{Range, RangeInclusive};

use drystone_format::entry::Entry;
use drystone_plan::ranges::at_units;
use drystone_plan::selection::Axis;
use drystone_transform::checks::verify_units;
use drystone_transform::{Companion, Fetched, SearchHits};

use super::search::{Index, Searched};
use super::zones::Age;
use super::{IndexedZone, OPTIONS, ReadReport, Reading};
use crate::{Error, Result};

/// A block whose values are stored sorted by a key, identified by leaf and age.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SortedWith {
    pub(crate) variable: u32,
    pub(crate) member: u32,
    pub(crate) age: Age,
}

impl SortedWith {
    pub(crate) fn of(entry: &Entry) -> SortedWith {
        let age = (entry.commit, entry.order, entry.put);
        SortedWith { variable: entry.variable, member: entry.member, age }
    }

    /// The name under which its values are stored (docs/format/block-index.md).
    pub(crate) fn companion(&self, item: u32) -> Companion {
        let mut name = [0; Companion::NAME];
        name[..4].copy_from_slice(&self.variable.to_le_bytes());
        name[4..8].copy_from_slice(&self.member.to_le_bytes());
        name[8..16].copy_from_slice(&self.age.0.to_le_bytes());
        name[16..24].copy_from_slice(&self.age.1.to_le_bytes());
        name[24..].copy_from_slice(&self.age.2.to_le_bytes());
        Companion { name, item }
    }
}

/// The hits in a zone, with their elements of each requested column that is stored beside the keys.
pub(crate) type SortedHits = (Searched, Vec<Option<Vec<u8>>>);

impl Reading {
    /// The newest block of this reading's leaf that meets these cells. `None` unless it contains them all and has one
    /// dimension; then it is visible there.
    pub(crate) fn shown_block(&self, step: Option<u64>, (first, count): (u64, u64)) -> Result<Option<Entry>> {
        let steps = Axis { start: step.unwrap_or(0), step: 1, count: 1 };
        let end = first.saturating_add(count);
        let ends = |entry: &Entry| entry.offset[0].saturating_add(entry.count[0]).min(self.limit(entry)[0]);
        let all = self.entries(&steps, None)?.into_values().flatten();
        let met = all.filter(|e| e.encoding.replica == 0 && e.offset[0] < end && ends(e) > first);
        let newest = met.max_by_key(|entry| (entry.commit, entry.order, entry.put));
        let whole = |e: &Entry| e.encoding.part.is_none() && e.offset[0] <= first && ends(e) >= end;
        Ok(newest.filter(whole))
    }

    /// The cells of a zone whose keys lie in a range, with the elements of other columns there, by a sorted replica.
    /// `None` if there is no such replica, or if it cannot be read.
    pub(crate) fn search_sorted(
        &self,
        zone: &IndexedZone,
        keys: &RangeInclusive<u64>,
        columns: &[Option<Companion>],
    ) -> Result<Option<(SortedHits, ReadReport)>> {
        if zone.encoding.chain != "sorted" {
            return Ok(None);
        }
        self.with_index(zone, |index| {
            let layout = index.chain.sorted(&index.stored, &index.logical);
            let Some(layout) = layout.map_err(|e| index.undecodable(&e))? else { return Ok(None) };
            let mut report = ReadReport::default();
            let met = layout.meeting(keys);
            // Reading more than half of the replica costs more than a scan.
            if met.end - met.start > layout.count() / 2 {
                return Ok(None);
            }
            let values = layout.values(&met);
            if index.plain.is_some_and(|plain| values.end - values.start > plain) {
                return Ok(None);
            }
            let values = self.fetch_of(index, &layout.values(&met), &mut report)?;
            let fetched = Fetched::new(values.iter().map(|(at, bytes)| (*at, bytes.as_slice())).collect());
            let some = layout.within(&met, keys, &fetched).map_err(|e| index.undecodable(&e))?;
            let item = self.item as usize;
            let at = |number: u64| (number - met.start) as usize * item;
            let own = fetched.get(layout.values(&met)).map_err(|e| index.undecodable(&e))?;
            let own = own.get(at(some.start)..at(some.end)).unwrap_or_default();
            let places = self.bytes_of(index, &layout.places(&some), &mut report)?;
            // Each hit is one record: the key, followed by the stored columns.
            let (mut parts, mut found) = (vec![(own.to_vec(), item)], Vec::with_capacity(columns.len()));
            for column in columns {
                let number =
                    column.and_then(|one| layout.companions().iter().position(|known| *known == one));
                found.push(match number.zip(*column) {
                    Some((number, Companion { item, .. })) => {
                        let values = self.bytes_of(index, &layout.companion(number, &some), &mut report)?;
                        parts.push((values, item as usize));
                        Some(parts.len() - 1)
                    }
                    None => None,
                });
            }
            let wide = parts.iter().map(|(_, item)| *item).sum::<usize>();
            let mut hits = SearchHits::default();
            for (n, place) in places.as_chunks::<4>().0.iter().enumerate() {
                let place = u32::from_le_bytes(*place);
                if u64::from(place) >= layout.count() {
                    let what = "places of sorted values leave their subchunk";
                    return Err(Error::new(index.damage.kind(), format!("{}: {what}", index.damage)));
                }
                hits.positions.push(place);
                for (values, item) in &parts {
                    hits.values.extend_from_slice(values.get(n * item..(n + 1) * item).unwrap_or_default());
                }
            }
            let (cells, records) = zone.cells(&hits, false, (self.variable.shape.len(), wide));
            let records = records.unwrap_or_default();
            let column = |number: usize| {
                let before = parts.iter().take(number).map(|(_, item)| *item).sum::<usize>();
                let item = parts.get(number).map_or(0, |(_, item)| *item);
                let each = records.chunks_exact(wide.max(1));
                each.flat_map(|record| record.get(before..before + item).unwrap_or_default())
                    .copied()
                    .collect()
            };
            let others = found.into_iter().map(|number| number.map(column)).collect();
            Ok(Some((((cells, Some(column(0))), others), report)))
        })
    }

    /// Verified bytes of a stored piece.
    fn bytes_of(&self, index: &Index<'_>, range: &Range<u64>, report: &mut ReadReport) -> Result<Vec<u8>> {
        let fetched = self.fetch_of(index, range, report)?;
        let fetched = Fetched::new(fetched.iter().map(|(at, bytes)| (*at, bytes.as_slice())).collect());
        Ok(fetched.get(range.clone()).map_err(|e| index.undecodable(&e))?.to_vec())
    }

    /// Reads and verifies the whole units that contain a range of a piece. Returns the beginning of each run, with
    /// its bytes.
    pub(super) fn fetch_of(
        &self,
        index: &Index<'_>,
        range: &Range<u64>,
        report: &mut ReadReport,
    ) -> Result<Vec<(u64, Vec<u8>)>> {
        let Index { sources, source, step, piece, trailer, .. } = index;
        if range.end > piece.length || range.start > range.end {
            return Err(self.damaged(
                sources,
                *source,
                *step,
                piece.position,
                "an index that leaves its subchunk",
            ));
        }
        let unit = piece.unit();
        let mut out = Vec::new();
        if range.is_empty() {
            return Ok(out);
        }
        for range in at_units(std::slice::from_ref(range), unit, piece.length, OPTIONS.gap) {
            let mut bytes = Vec::new();
            let place = piece.position + range.start..piece.position + range.end;
            self.read_range(sources, *source, &place, &mut bytes)?;
            let first = (range.start / unit) as usize;
            let sums = first..first + bytes.len().div_ceil(unit as usize);
            let sums = trailer.checks.get(sums).unwrap_or_default();
            verify_units(&bytes, unit as usize, sums).map_err(|bad| {
                let at = place.start + bad as u64 * unit;
                self.damaged(sources, *source, *step, at, "the data fails its checksum")
            })?;
            report.requests += 1;
            report.read_bytes += range.end - range.start;
            out.push((range.start, bytes));
        }
        Ok(out)
    }
}
